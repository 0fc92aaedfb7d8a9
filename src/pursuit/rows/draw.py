"""Random row numbers, drawn globally so that the way data is cut into blocks cannot matter.

Imports numpy and the index check of this room only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pursuit._types import Indices
from pursuit.rows.base import checked_index


def draw_rows(
    n_rows: int,
    size: int,
    rng: np.random.Generator,
    exclude: ArrayLike | None = None,
) -> Indices:
    """Uniform sample of row numbers without replacement, sorted.

    Memory is O(size + number excluded), also when `n_rows` is 10^8: NumPy's unshuffled choice
    uses Floyd's hash-set method until `size` exceeds a fiftieth of the rows.

    Parameters
    ----------
    n_rows : int
        Rows are numbered 0 .. n_rows - 1.
    size : int
        How many to draw; all allowed rows are returned when there are no more than that.
    rng : numpy.random.Generator
        Source of randomness; not touched when all allowed rows are returned.
    exclude : array of int, optional
        Row numbers never to draw.

    Returns
    -------
    index : ndarray of intp
        Increasing row numbers, ``min(size, n_rows - number excluded)`` of them.
    """
    if size < 0:
        raise ValueError(f"size must not be negative, got {size}.")
    excluded = np.unique(checked_index([] if exclude is None else exclude, n_rows))
    n_allowed = n_rows - len(excluded)
    if size >= n_allowed:
        rank = np.arange(n_allowed, dtype=np.intp)
    else:
        rank = np.sort(rng.choice(n_allowed, size, replace=False, shuffle=False))
    # excluded[j] has excluded[j] - j allowed rows below it, so the allowed row of this rank has
    # as many excluded rows below it as there are j with excluded[j] - j <= rank.
    allowed_below = excluded - np.arange(len(excluded))
    return rank + np.searchsorted(allowed_below, rank, side="right")
