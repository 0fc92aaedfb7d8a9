"""Residuals and bounds of a subspace that grows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit.bounds import Bound, compression_bound
from pursuit.estimators.components.subspace import Diagonal, Subspace
from pursuit.greedy import Path

Floats = NDArray[np.float64]


def beside(start: Subspace, residuals: Floats) -> Floats:
    """Residuals of new rows with those of the rows seen before."""
    n = len(start)
    known = np.append(start.residuals, np.full(max(len(residuals) - n, 0), start.residuals[-1]))
    total: Floats = residuals + known[: len(residuals)]
    return total


def continued(before: Path, after: Path) -> Path:
    """One path after the other, at the cost of both."""
    cumulative: dict[str, Any] = {
        name: np.concatenate(
            [getattr(before, name), getattr(before, name)[-1] + getattr(after, name)]
        )
        for name in ("seconds", "entries", "passes")
    }
    return Path(
        index=np.concatenate([before.index, after.index]),
        value=np.concatenate([before.value, after.value]),
        gap=np.concatenate([before.gap, after.gap]),
        **cumulative,
        stop_reason=after.stop_reason,
    )


def radius_caveat(diagonal: Diagonal) -> str:
    """What to grant where k(x, x) is not a constant."""
    if diagonal.largest - diagonal.least <= 1e-12 * diagonal.largest:
        return ""
    return "holds where k(x, x) is never larger than the largest seen"


def subspace_bounds(
    residuals: Floats, weight: float, diagonal: Diagonal, delta: float
) -> tuple[Bound, Bound]:
    """HS08 Theorem 2 with the exact count, and as printed."""
    tight, printed = (
        compression_bound(
            np.arange(1, len(residuals) + 1),
            residuals,
            weight,
            delta,
            radius=diagonal.largest,
            printed=printed,
            caveat=radius_caveat(diagonal),
        )
        for printed in (False, True)
    )
    return tight, printed
