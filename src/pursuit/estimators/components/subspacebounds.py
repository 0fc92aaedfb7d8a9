"""Residuals and bounds of a subspace that grows."""

from __future__ import annotations

from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.bounds import Bound, compression_bound, compression_terms
from pursuit.estimators.components.subspace import Diagonal, Subspace
from pursuit.greedy import Path

WEIGHTED = "a row of weight w counts as w rows"
"""What a bound for weighted rows takes for granted."""


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


def caveat_of(diagonal: Diagonal, *, weighted: bool) -> str:
    """What to grant where k(x, x) is not a constant, and where rows have weights."""
    caveats = []
    if diagonal.largest - diagonal.least > 1e-12 * diagonal.largest:
        caveats.append("holds where k(x, x) is never larger than the largest seen")
    if weighted:
        caveats.append(WEIGHTED)
    return "; ".join(caveats)


def subspace_bound(
    residuals: Floats, weight: float, diagonal: Diagonal, delta: float, form: str, caveat: str
) -> Bound:
    """HS08 Theorem 2 for spans of 1, 2, … rows with these residuals, in one of its forms."""
    return compression_bound(
        np.arange(1, len(residuals) + 1),
        residuals,
        weight,
        delta,
        radius=diagonal.largest,
        form=form,
        caveat=caveat,
    )


def choice_terms(residuals: Floats, weight: float, diagonal: Diagonal, delta: float) -> Floats:
    """What the size is chosen by: Theorem 2 at each size alone, subsets counted as in the paper."""
    size, R = np.arange(1, len(residuals) + 1), diagonal.largest
    return compression_terms(size, residuals, weight, delta, radius=R, form="corrected")
