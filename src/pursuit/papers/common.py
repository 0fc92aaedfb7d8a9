"""What the papers' experiments share: their data as they were prepared, and small texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from sklearn.preprocessing import StandardScaler

from pursuit._types import Floats
from pursuit.datasets import load_abalone

Data = Sequence[ArrayLike]
Progress = Callable[[str], None]


def standardised(data: Data | None) -> tuple[Floats, Floats]:
    """Abalone, or the given X and y, every column of X with zero mean and unit variance.

    The targets stay as they are.
    """
    X, y = load_abalone(return_X_y=True) if data is None else data
    return StandardScaler().fit_transform(X), np.asarray(y, dtype=np.float64)


def near(values: ArrayLike, printed: ArrayLike, width: ArrayLike) -> bool:
    """Whether all values are within a width of the printed ones, on either side."""
    distance = np.abs(np.asarray(values, dtype=np.float64) - np.asarray(printed, dtype=np.float64))
    return bool(np.all(distance <= width))


def slashed(values: ArrayLike, digits: int = 0) -> str:
    """The numbers with slashes between them, as a table's row is quoted."""
    return "/".join(f"{value:.{digits}f}" for value in np.asarray(values, dtype=np.float64))


def tell(progress: Progress | None, line: str) -> None:
    """Pass a line on to whoever wants to follow the work."""
    if progress is not None:
        progress(line)
