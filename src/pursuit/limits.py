"""Numbers of rows and sizes of blocks that decide how work is done: one table for all rooms.

Read them as ``limits.NAME`` where they are used, so that a test can lower one for all rooms.
"""

from __future__ import annotations

SMALL_ROWS = 2_000
"""Up to this many rows a search looks at all of them, and no rows are reserved to judge a model."""

STORED_NUMBERS = 1 << 26
"""Most numbers (512 MB in float64) in an array with one row per row of the data that is kept.

Above it, what the array would hold is computed again in every pass.
"""

COLUMN_ROWS = 2048
"""Rows per task where columns of a kernel matrix are formed or updated. Larger: fewer tasks."""

EXHAUSTIVE_ROWS = 5_000
"""Up to this many rows a boosting step is the best of all stumps to one part in a million."""
