"""Working responses: the weighted least squares that a convex loss looks like near a function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from pursuit._types import Floats
from pursuit.estimators.glm.named import robust_scale, weighted_quantile
from pursuit.objectives import PinballRows, RowLoss
from pursuit.rows import RowSource, Sample

_LEAST_CURVATURE = 1e-3
"""Rows with less curvature, in units of its mean, are taken to have this much."""
_CLIPPED = 4.0
"""Where a loss has kinks, targets beyond this many robust deviations do not count as they are."""
_EXACT = 1e-5
"""Rows with less error than this, in deviations of the targets, lie on the kink of their loss."""
_LEAST_SPARSITY = 1e-2
"""Least inverse density, in units of the deviation of the targets."""
_FARTHEST = 300.0
"""Losses with a link are looked at up to here: exp(f) overflows for a little more than twice it."""
_TAIL = 0.95
"""Normal quantiles that bandwidths of densities are for."""


@dataclass(frozen=True)
class Working:
    """½Σwh(z - f)² with z = f₀ - ℓ'/h in place of Σwℓ(f), as a problem of least squares.

    Attributes
    ----------
    sample : Sample
        Rows, z less its mean and the offset in units of its noise, and weights wh / h̄.
    curvature : array of shape (n_outputs,)
        h̄ of each column: a ridge σ² of the least squares is the α = σ²h̄ of the loss.
    """

    sample: Sample
    curvature: Floats


def curvatures(loss: RowLoss, f: Floats, y: Floats, weights: Floats) -> Floats:
    """The curvature h of the loss that is to be expected at the rows, without looking at each y.

    With a link it is that of y = what is predicted, where curvatures are linear in y. Without one
    it is the mean over the rows, or where the loss has kinks the density of y there.
    """
    if isinstance(loss, PinballRows):
        return np.full_like(f, (loss.high - loss.low) * _density(f, y, weights, loss))
    predicted = loss.predicted(f)
    if np.array_equal(predicted, f):
        mean = float(np.average(loss.curvature(f, y), weights=weights))
        return np.full_like(f, mean if mean > 0.0 else 1.0)
    near = np.clip(f, -_FARTHEST, _FARTHEST)
    found = loss.curvature(near, loss.predicted(near))
    return np.maximum(found, _LEAST_CURVATURE * np.average(found, weights=weights))


def _density(f: Floats, y: Floats, weights: Floats, loss: PinballRows) -> float:
    """Density of y - f at the level of the loss (Hall and Sheather's bandwidth)."""
    level, residuals = loss.high / (loss.high - loss.low), y - f
    z = norm.ppf(level)
    wide = norm.ppf(_TAIL) ** (2 / 3) * (1.5 * norm.pdf(z) ** 2 / (2.0 * z**2 + 1.0)) ** (1 / 3)
    half = min(wide * float(weights.sum()) ** (-1 / 3), 0.9 * level, 0.9 * (1.0 - level))
    low, high = (weighted_quantile(residuals, weights, level + s * half) for s in (-1.0, 1.0))
    # An exact fit leaves no residuals whose density could be seen.
    sparsity = max((high - low) / (2.0 * half), _LEAST_SPARSITY * robust_scale(y, weights))
    return float(1.0 / sparsity) if sparsity > 0.0 else 1.0


def dispersions(
    losses: Sequence[RowLoss], fitted: Floats, targets: Floats, weights: Floats
) -> Floats:
    """Pearson's φ of each column, the weighted mean of ℓ'²/h: the noise in units of the loss."""
    columns = zip(losses, fitted.T, targets.T, strict=True)
    return np.array(
        [
            np.average(loss.gradient(f, y) ** 2 / curvatures(loss, f, y, weights), weights=weights)
            for loss, f, y in columns
        ]
    )


def working(
    losses: Sequence[RowLoss],
    fitted: Floats,
    targets: Floats,
    weights: Floats,
    offset: Floats,
    rows: RowSource,
) -> Working:
    """The least squares around the values ``fitted`` of f + b + offset at the rows.

    Several columns, which all have one curvature for all rows, are brought to noise of one size.
    """
    m, c = targets.shape
    responses, by_column, total = np.empty((m, c)), np.empty(c), float(weights.sum())
    heavy = weights
    for j, loss in enumerate(losses):
        f, y = fitted[:, j], targets[:, j]
        if isinstance(loss, PinballRows):
            # Rounding must not decide on which side of its kink a row lies that is fitted exactly.
            exact = np.abs(y - f) <= _EXACT * robust_scale(y, weights)
            f = np.where(exact, y, f)
        h, slopes = curvatures(loss, f, y, weights), loss.gradient(f, y)
        by_column[j] = float(weights @ h) / total
        z = f - offset - slopes / h
        heavy = weights * h / by_column[j]
        z -= np.average(z, weights=heavy)
        if isinstance(loss, PinballRows) and c > 1:
            z *= by_column[j] / np.sqrt(-loss.low * loss.high)
        responses[:, j] = z
    return Working(Sample(rows, responses, heavy), by_column)


def normal_dispersions(losses: Sequence[RowLoss], noise: float) -> Floats:
    """The φ of losses with kinks at their quantiles, where the noise is normal."""
    found = []
    for loss in losses:
        low, high = (float(ends[0]) for ends in loss.slopes(np.zeros(1)))
        density = norm.pdf(norm.ppf(-low / (high - low))) / np.sqrt(noise)
        found.append(-low * high / ((high - low) * density))
    return np.array(found)


def located(
    losses: Sequence[RowLoss],
    fitted: Floats,
    targets: Floats,
    weights: Floats,
    offset: Floats,
    rows: RowSource,
) -> Working:
    """Least squares for the middle of the targets, those far from it brought nearer."""
    values = targets[:, 0] - offset
    middle = weighted_quantile(values, weights, 0.5)
    reach = _CLIPPED * robust_scale(values, weights)
    clipped = np.clip(values, middle - reach, middle + reach)
    clipped -= np.average(clipped, weights=weights)
    columns = zip(losses, fitted.T, targets.T, strict=True)
    means = [np.average(curvatures(loss, f, y, weights), weights=weights) for loss, f, y in columns]
    return Working(Sample(rows, clipped[:, None], weights), np.array(means))
