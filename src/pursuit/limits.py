"""Numbers of rows and sizes of blocks that decide how work is done: one table for all rooms.

Read them as ``limits.NAME`` where they are used, so that a test can lower one for all rooms.
"""

from __future__ import annotations

SMALL_ROWS = 2_000
"""Up to this many rows a search looks at all of them, and no rows are reserved to judge a model."""

BOUND_ROWS = 5_000
"""Up to this many rows each of them is a candidate where a bound chooses the size of a basis."""
