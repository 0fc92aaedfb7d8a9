"""Numbers of rows and sizes of blocks that decide how work is done: one table for all rooms.

Read them as ``limits.NAME`` where they are used, so that a test can lower one for all rooms.
"""

from __future__ import annotations

TILE_ENTRIES = 1 << 18
"""Kernel values per tile: larger tiles leave the cache, smaller ones cost more calls."""

PIECE_ENTRIES = 1 << 16
"""Kernel values that are used at once and never stored: half a megabyte, which stays in the cache
of a core. Twice as many leave it, half as many cost more calls."""

PANEL = 256
"""Columns per task when features of a span are formed or multiplied; part of their last bits."""

PIVOT_TOLERANCE = 1e-12
"""A pivot of a kernel matrix below this part of its diagonal entry counts as zero.

A larger value drops points that other points nearly span; a smaller one keeps points whose
directions are mostly rounding.
"""

GRAM_PIVOT_TOLERANCE = 1e-10
"""The same for matrices of sums over rows, whose condition number is the square of the kernel's."""

BASIS_TOLERANCE = 1e-8
"""The same for a basis that coefficients are solved for: with pivots below this share they would
be mostly rounding."""

ADDED_TOLERANCE = 1e-11
"""The same for a basis of all rows of a fit, to which further rows are added.

A larger value takes from a model what smooth kernels resolve beyond it; a smaller one lets points
that nearly coincide have coefficients whose rounding shows in a certificate.
"""

SMALL_ROWS = 2_000
"""Up to this many rows a search looks at all of them, and no rows are reserved to judge a model."""

EVIDENCE_ROWS = 2_000
"""Random rows on which the exact evidence is maximised, at a cost of their cube."""

BOUND_ROWS = 5_000
"""Up to this many rows each of them is a candidate where a bound chooses the size of a basis."""

STORED_NUMBERS = 1 << 26
"""Most numbers (512 MB in float64) in an array with one row per row of the data that is kept.

Above it, what the array would hold is computed again in every pass.
"""

COLUMN_ROWS = 2048
"""Rows per task where columns of a kernel matrix are formed or updated. Larger: fewer tasks."""

EXHAUSTIVE_ROWS = 5_000
"""Up to this many rows a boosting step is the best of all stumps to one part in a million."""
