"""Probabilities of classes from values of a classifier, shrunk as far as rows left out ask for.

A model that was fitted to few rows is much surer of them than of new rows. Values f_k(x), one per
class against the rest, are therefore judged at rows that had no part in them, and become::

    p_k ∝ 1/(1 + exp(-z_k)),   z_k = a f_k + t b_k,   b_k = log(π_k/(1 - π_k))

with the shares π of the classes. The slope a says how far the size of the values is to be believed,
and t how much the shares of the classes count beside them: a = 0, t = 1 returns the shares. Both
have the least log loss on the rows left out and on n₀ rows more whose classes have nothing to do
with the values, after the idea of Platt (1999). With t > 0 the largest value need not be the most
probable class, hence a price c::

    max  Σ_i w_i log p_{y_i}(x_i) + n₀ mean_i Σ_k π_k log p_k(x_i) - c t
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import Bounds, minimize
from scipy.special import expit, logit, logsumexp

from pursuit._types import Floats, Indices
from pursuit.tuning.calibration import log_loss

FOLDS = 5
"""Parts of few rows that are left out in turn. More: slower, and values nearer to the model's."""
_DOUBTFUL_ROWS = 2.0
"""n₀: rows that are added. More: probabilities of few rows are nearer to the shares."""
_PULL_COSTS = 2.0
"""c: log loss, summed over rows, that t = 1 has to save before it is chosen, and smaller t in
proportion. More: the largest value is more often the most probable class."""
_FLATTEST, _STEEPEST = 1e-3, 1e4
"""Least and largest slope, in units of one over the root mean square of the values. The least one
hardly changes probabilities, but keeps the order of the values."""
_LEAST_SHARE = 1e-9  # Smaller shares of a class count as this.
_DIGITS = 8  # Values of the model's size that agree so far count as equal.
_STARTS = (1.0, 0.0), (0.1, 1.0)
"""Slopes in these units, and t, from which the search starts."""


@dataclass(frozen=True)
class Shrinkage:
    """How values of a classifier become probabilities.

    Attributes
    ----------
    slope : float
        a: what values are multiplied by.
    pull : float
        t, from 0 to 1: how much the shares of the classes count beside the values.
    log_odds : array of shape (n_columns,)
        b, the log-odds of the classes' shares, for each column of the values.
    log_loss_before, log_loss : float
        Log loss per row left out, with the values as log-odds and as they are here; NaN if no rows
        were left out.
    n_rows : int
        Number of rows that were left out.
    """

    slope: float
    pull: float
    log_odds: Floats
    log_loss_before: float = np.nan
    log_loss: float = np.nan
    n_rows: int = 0

    def __str__(self) -> str:
        return (
            f"{self.n_rows} rows left out: values times {self.slope:.3g}, log-odds of the classes "
            f"times {self.pull:.3g}; log loss {self.log_loss_before:.4g} -> {self.log_loss:.4g}"
        )

    @classmethod
    def none(cls, n_columns: int) -> Shrinkage:
        """The values as they are."""
        return cls(1.0, 0.0, np.zeros(n_columns))

    @property
    def offset(self) -> Floats:
        """t b: what is added to the values times a."""
        return np.asarray(self.pull * self.log_odds)

    def probabilities(self, values: Floats) -> Floats:
        """Probabilities of the classes: two for a single column, else one per column."""
        z = self.slope * values + self.offset
        return np.asarray(np.exp(_log_probabilities(_by_class(z))))


def values_left_out(
    values: Floats, codes: Indices, weights: Floats, fit: Callable[[Indices], Floats]
) -> tuple[Indices, Floats] | None:
    """Numbers of rows, and their values by models in which they have no part.

    ``values`` are those of the model itself at its rows, and ``fit(train)`` those of a model of the
    rows ``train`` at all rows. The size of values varies more from fit to fit than what they say:
    those of each model are brought to the root mean square that ``values`` have at the same rows.

    Every class is spread over the parts that are left out in turn, in the order of its values. Rows
    of one class with the same values leave together, as copies of a row should; if all rows of a
    class have the same ones, they are never left out. None if that leaves no row.
    """
    keys = np.round(values / (_size(values, weights) or 1.0), _DIGITS)
    part, first = np.full(len(codes), -1), 0
    for code in np.unique(codes):
        mine = np.flatnonzero(codes == code)
        number = np.unique(keys[mine], axis=0, return_inverse=True)[1].ravel()
        if number.any():
            part[mine] = (first + number) % FOLDS
            first += int(number.max()) + 1
    if not first:
        return None
    left_out: Floats = np.zeros_like(values)
    for fold in np.unique(part[part >= 0]):
        test, train = part == fold, np.flatnonzero(part != fold)
        others, w = fit(train), weights[train]
        size = _size(others[train], w)
        left_out[test] = others[test] * (_size(values[train], w) / size if size > 0 else 1.0)
    rows = np.flatnonzero(part >= 0)
    return rows, left_out[rows]


def _size(values: Floats, weights: Floats) -> float:
    """Root mean square."""
    return float(np.sqrt(np.average((values**2).mean(axis=1), weights=weights)))


def fit_shrinkage(
    values: Floats, codes: Indices, weights: Floats, rows: Indices, *, pulled: bool = True
) -> Shrinkage:
    """Slope and pull of least log loss on rows left out, and on rows of classes by chance.

    ``codes`` and ``weights`` are those of all rows, ``values`` those of the ``rows`` left out, with
    a column per class, or one for the second of two. Without ``pulled`` the shares do not count,
    and the class of the largest value has the largest probability.
    """
    shares = np.bincount(codes, weights / weights.sum())
    log_odds = logit(np.clip(shares, _LEAST_SHARE, 1.0 - _LEAST_SHARE))[-values.shape[1] :]
    codes, weights = codes[rows], weights[rows]
    f, b = _by_class(values), _by_class(log_odds[None])
    size = _size(values, weights) or 1.0
    wanted = np.outer(weights, _DOUBTFUL_ROWS / weights.sum() * shares)
    wanted[np.arange(len(codes)), codes] += weights
    total = wanted.sum(axis=1, keepdims=True)

    def objective(point: Floats) -> tuple[float, Floats]:
        z = point[0] / size * f + point[1] * b
        log_p = _log_probabilities(z)
        # d log p_j / dz_k = (1 - s_k)(δ_jk - p_k) for s = 1/(1 + exp(-z))
        slope = expit(-z) * (total * np.exp(log_p) - wanted)
        value = _PULL_COSTS * point[1] - float((wanted * log_p).sum())
        return value, np.array([(slope * f).sum() / size, _PULL_COSTS + (slope * b).sum()])

    bounds = Bounds([_FLATTEST, 0.0], [_STEEPEST, 1.0 if pulled else 0.0])
    # To the last digits: weights and copies of rows lead there by other steps.
    enough = 1e-12 * float(total.sum())
    fits = [
        minimize(
            objective,
            np.clip(start, bounds.lb, bounds.ub),
            jac=True,
            bounds=bounds,
            options={"ftol": 0.0, "gtol": enough},
        )
        for start in _STARTS
    ]
    best = min(fits, key=lambda result: float(result.fun)).x
    found = Shrinkage(float(best[0]) / size, float(best[1]), log_odds)
    before, after = (
        log_loss(one.probabilities(values), codes, weights)
        for one in (Shrinkage.none(values.shape[1]), found)
    )
    return replace(found, log_loss_before=before, log_loss=after, n_rows=len(codes))


def _by_class(columns: Floats) -> Floats:
    """A column per class: the single column of two classes is that of the second."""
    return np.hstack([-columns, columns]) if columns.shape[1] == 1 else columns


def _log_probabilities(z: Floats) -> Floats:
    """Logarithms of 1/(1 + exp(-z)), divided by their sum over the columns."""
    logs = -np.logaddexp(0.0, -z)
    return np.asarray(logs - logsumexp(logs, axis=1, keepdims=True))
