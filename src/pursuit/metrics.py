"""Scores of predictions with a spread, an interval or quantiles: numbers in, numbers out.

Every function takes the targets first, then what was predicted for them, and ``sample_weight`` and
``multioutput`` as in :mod:`sklearn.metrics`. The scorers at the end take ``(estimator, X, y)`` and
fit into ``cross_validate`` and ``GridSearchCV``; there, larger is better.

A score is *proper* if no other prediction has a better expected score than the truth
:cite:p:`gneiting2007strictly`. Log density, CRPS, pinball loss and interval score are proper, and
can choose between models. Coverage and calibration error are not: a model that predicts the same
for all rows can have perfect ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from sklearn.utils.validation import check_array

from pursuit._sklearn import check_sample_weight
from pursuit._types import Floats

__all__ = [
    "calibration_error",
    "calibration_scorer",
    "coverage",
    "coverage_scorer",
    "crps",
    "crps_from_quantiles",
    "crps_scorer",
    "interval_score",
    "interval_scorer",
    "log_density",
    "log_density_scorer",
    "pinball",
    "pit",
    "quantile_scorer",
]

_METHODS = ("gaussian", "conformal")
_AVERAGES = ("uniform_average", "raw_values")


def log_density(
    y: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: Any = "uniform_average",
) -> float | Floats:
    """Mean log density of the targets under the predicted normal distributions.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets.
    mean : array-like of the same shape
        Predicted means.
    std : array-like of the same shape, or a number
        Predicted standard deviations, noise included.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows.
    multioutput : {"uniform_average", "raw_values"} or array-like, default "uniform_average"
        How the outputs are averaged: equally, not at all, or with these weights.

    Returns
    -------
    float, or array of shape (n_outputs,) for ``"raw_values"``
        Larger is better. Its negative is known as NLPD.

    Examples
    --------
    >>> from pursuit.metrics import log_density
    >>> round(log_density([0.0, 1.0], [0.0, 0.0], 1.0), 4)
    -1.1689
    """
    error, spread = _errors(y, mean, std)
    # Far out the density is 0, and its logarithm -∞.
    with np.errstate(over="ignore"):
        values = -0.5 * (error / spread) ** 2 - np.log(spread) - 0.5 * np.log(2.0 * np.pi)
    return _averaged(values, sample_weight, multioutput)


def crps(
    y: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: Any = "uniform_average",
) -> float | Floats:
    r"""Continuous ranked probability score of the predicted normal distributions.

    The mean over the rows of

    .. math::

        \int (F(t) - 1[y \le t])^2 \, dt
        = \sigma \, \bigl( z \, (2 \Phi(z) - 1) + 2 \varphi(z) - \pi^{-1/2} \bigr) ,
        \qquad z = (y - \mu) / \sigma .

    It is in the units of y, and the absolute error if the standard deviation tends to 0. Unlike
    the log density, it grows only linearly with the distance of an outlier.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets.
    mean : array-like of the same shape
        Predicted means.
    std : array-like of the same shape, or a number
        Predicted standard deviations, noise included.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows.
    multioutput : {"uniform_average", "raw_values"} or array-like, default "uniform_average"
        How the outputs are averaged: equally, not at all, or with these weights.

    Returns
    -------
    float, or array of shape (n_outputs,) for ``"raw_values"``
        Smaller is better.

    Examples
    --------
    >>> from pursuit.metrics import crps
    >>> round(crps([0.0, 1.0], [0.0, 0.0], 1.0), 4)
    0.4181
    """
    error, spread = _errors(y, mean, std)
    with np.errstate(over="ignore"):
        z = error / spread
        density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    values = error * (2.0 * ndtr(z) - 1.0) + spread * (2.0 * density - 1.0 / np.sqrt(np.pi))
    return _averaged(values, sample_weight, multioutput)


def pinball(
    y: ArrayLike,
    quantiles: ArrayLike,
    levels: float | ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: Any = "uniform_average",
) -> float | Floats:
    r"""Pinball loss of predicted quantiles, averaged over their levels.

    For one level this is :func:`sklearn.metrics.mean_pinball_loss`.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets.
    quantiles : array-like of the same shape, or with one more axis for several levels
        Predicted quantiles; for several levels, those of a row are along the last axis.
    levels : float, or array-like of shape (n_levels,)
        Levels of the quantiles, between 0 and 1 and increasing.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows.
    multioutput : {"uniform_average", "raw_values"} or array-like, default "uniform_average"
        How the outputs are averaged: equally, not at all, or with these weights.

    Returns
    -------
    float, or array of shape (n_outputs,) for ``"raw_values"``
        Smaller is better.

    Examples
    --------
    >>> from pursuit.metrics import pinball
    >>> round(pinball([1.0, 2.0], [[0.0, 3.0], [1.0, 4.0]], [0.1, 0.9]), 4)
    0.15
    """
    losses, _ = _pinballs(y, quantiles, levels)
    return _averaged(losses.mean(axis=-1), sample_weight, multioutput)


def crps_from_quantiles(
    y: ArrayLike,
    quantiles: ArrayLike,
    levels: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: Any = "uniform_average",
) -> float | Floats:
    r"""Continuous ranked probability score, from quantiles of the predicted distributions.

    The score is twice the integral of the pinball loss over all levels. Here it is the sum over
    the given levels, each weighted by the share of levels that are closer to it than to any other.
    Of levels (k - 1/2) / n, k = 1, …, n, this is the score of the distribution that gives each
    quantile the probability 1 / n.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets.
    quantiles : array-like of shape (n_rows, n_levels) or (n_rows, n_outputs, n_levels)
        Predicted quantiles.
    levels : array-like of shape (n_levels,)
        Their levels, between 0 and 1 and increasing.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows.
    multioutput : {"uniform_average", "raw_values"} or array-like, default "uniform_average"
        How the outputs are averaged: equally, not at all, or with these weights.

    Returns
    -------
    float, or array of shape (n_outputs,) for ``"raw_values"``
        Smaller is better, in units of y.

    Examples
    --------
    >>> from pursuit.metrics import crps_from_quantiles
    >>> round(crps_from_quantiles([0.5], [[0.0, 1.0]], [0.25, 0.75]), 4)
    0.25
    """
    losses, tau = _pinballs(y, quantiles, levels)
    ends = np.concatenate([[0.0], (tau[1:] + tau[:-1]) / 2.0, [1.0]])
    return _averaged(2.0 * losses @ np.diff(ends), sample_weight, multioutput)


def interval_score(
    y: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    level: float = 0.9,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: Any = "uniform_average",
) -> float | Floats:
    r"""Mean width of the intervals, plus a penalty for each target outside of its own.

    With :math:`\alpha = 1 - \mathrm{level}`, the penalty is :math:`2/\alpha` times the distance
    from the interval. The best possible interval is from the :math:`\alpha/2` quantile to the
    :math:`1 - \alpha/2` quantile.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets.
    lower, upper : array-like of the same shape
        Ends of the intervals; they may be infinite.
    level : float, default 0.9
        Share of the targets that the intervals should contain.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows.
    multioutput : {"uniform_average", "raw_values"} or array-like, default "uniform_average"
        How the outputs are averaged: equally, not at all, or with these weights.

    Returns
    -------
    float, or array of shape (n_outputs,) for ``"raw_values"``
        Smaller is better, in units of y.

    Examples
    --------
    >>> from pursuit.metrics import interval_score
    >>> round(interval_score([0.0, 3.0], [-1.0, 0.0], [1.0, 2.0], level=0.8), 4)
    7.0
    """
    _check_level("level", level)
    targets, low, high = _intervals(y, lower, upper)
    outside = np.maximum(low - targets, 0.0) + np.maximum(targets - high, 0.0)
    return _averaged(high - low + 2.0 / (1.0 - level) * outside, sample_weight, multioutput)


def coverage(
    y: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: Any = "uniform_average",
) -> float | Floats:
    """Share of the targets that lie in their intervals, ends included.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets.
    lower, upper : array-like of the same shape
        Ends of the intervals; they may be infinite.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows.
    multioutput : {"uniform_average", "raw_values"} or array-like, default "uniform_average"
        How the outputs are averaged: equally, not at all, or with these weights.

    Returns
    -------
    float, or array of shape (n_outputs,) for ``"raw_values"``
        A number from 0 to 1, best near the level that the intervals are for.

    Examples
    --------
    >>> from pursuit.metrics import coverage
    >>> coverage([0.0, 3.0], [-1.0, 0.0], [1.0, 2.0])
    0.5
    """
    targets, low, high = _intervals(y, lower, upper)
    inside = (low <= targets) & (targets <= high)
    return _averaged(inside.astype(np.float64), sample_weight, multioutput)


def pit(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> Floats:
    """Probability integral transform: the predicted probability of values below each target.

    For new rows and a calibrated model it is uniform between 0 and 1. A histogram that is high in
    the middle shows error bars that are too wide, and one that is high at both ends error bars
    that are too narrow.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets.
    mean : array-like of the same shape
        Predicted means.
    std : array-like of the same shape, or a number
        Predicted standard deviations, noise included.

    Returns
    -------
    array of the shape of y
        Numbers from 0 to 1.

    Examples
    --------
    >>> from pursuit.metrics import pit
    >>> pit([0.0, 2.0], [0.0, 0.0], 1.0).round(3)
    array([0.5  , 0.977])
    """
    error, spread = _errors(y, mean, std)
    transformed: Floats = ndtr(error / spread).reshape(np.shape(y))
    return transformed


def calibration_error(
    y: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: Any = "uniform_average",
) -> float | Floats:
    r"""Mean difference between predicted probabilities and observed frequencies, over all levels.

    A share :math:`\hat F(p)` of the targets lies below their predicted quantiles of level *p*. The
    error is :math:`\int_0^1 |\hat F(p) - p| \, dp`, computed without a grid of levels. Even a
    calibrated model has about :math:`0.31 / \sqrt{n}` on *n* independent rows.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets.
    mean : array-like of the same shape
        Predicted means.
    std : array-like of the same shape, or a number
        Predicted standard deviations, noise included.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows.
    multioutput : {"uniform_average", "raw_values"} or array-like, default "uniform_average"
        How the outputs are averaged: equally, not at all, or with these weights.

    Returns
    -------
    float, or array of shape (n_outputs,) for ``"raw_values"``
        A number from 0 to 1/2; smaller is better.

    Examples
    --------
    >>> from pursuit.metrics import calibration_error
    >>> round(calibration_error([-1.0, 0.0, 1.0], [0.0, 0.0, 0.0], 1.0), 4)
    0.0835
    """
    error, spread = _errors(y, mean, std)
    weights = _weights(sample_weight, len(error))
    columns = ndtr(error / spread).T
    values = np.array([_distance_from_uniform(column, weights) for column in columns])
    return _over_outputs(values, multioutput)


@dataclass(frozen=True)
class _DistributionScorer:
    """A score of predicted means and standard deviations, as ``scorer(estimator, X, y)``."""

    score: Callable[..., float | Floats]
    sign: float = 1.0

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        mean, std = mean_and_std(estimator, X)
        return self.sign * float(self.score(y, mean, std, sample_weight=sample_weight))


@dataclass(frozen=True)
class _IntervalScorer:
    """Interval score or coverage of one level, as ``scorer(estimator, X, y)``."""

    level: float
    method: str
    negative_score: bool

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        ends = self._intervals(estimator, X)
        if self.negative_score:
            return -float(interval_score(y, *ends, self.level, sample_weight=sample_weight))
        return float(coverage(y, *ends, sample_weight=sample_weight))

    def _intervals(self, estimator: Any, X: Any) -> tuple[Any, Any]:
        if hasattr(estimator, "predict_interval"):
            lower, upper = estimator.predict_interval(X, level=self.level, method=self.method)
            return lower, upper
        if self.method != "gaussian":
            raise TypeError(
                f"method={self.method!r} needs an estimator with predict_interval, and "
                f"{type(estimator).__name__} has none: use method='gaussian'"
            )
        mean, std = mean_and_std(estimator, X)
        width = NormalDist().inv_cdf(0.5 + 0.5 * self.level) * std
        return mean - width, mean + width


@dataclass(frozen=True)
class _QuantileScorer:
    """Negative CRPS of predicted quantiles, as ``scorer(estimator, X, y)``."""

    levels: tuple[float, ...]
    method: str

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        if hasattr(estimator, "predict_quantile") and self.method != "predict":
            found = estimator.predict_quantile(X, np.array(self.levels), method=self.method)
        else:
            found = estimator.predict(X)
        score = crps_from_quantiles(y, found, self.levels, sample_weight=sample_weight)
        return -float(score)


log_density_scorer = _DistributionScorer(log_density)
"""Scorer: mean log density of the targets, from ``predict(X, return_std=True)``."""

crps_scorer = _DistributionScorer(crps, sign=-1.0)
"""Scorer: negative CRPS, from ``predict(X, return_std=True)``."""

calibration_scorer = _DistributionScorer(calibration_error, sign=-1.0)
"""Scorer: negative calibration error, from ``predict(X, return_std=True)``."""


def interval_scorer(level: float = 0.9, method: str = "gaussian") -> _IntervalScorer:
    """Make a scorer of the negative interval score.

    Parameters
    ----------
    level : float, default 0.9
        Share of the targets that the intervals should contain.
    method : {"gaussian", "conformal"}, default "gaussian"
        Passed to ``predict_interval``. An estimator without this method is scored by the normal
        intervals of its ``predict(X, return_std=True)``.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``, for ``scoring=`` of scikit-learn's functions.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.model_selection import cross_val_score
    >>> from pursuit.metrics import interval_scorer
    >>> X = np.linspace(0.0, 6.0, 60)[:, None]
    >>> model = GaussianProcessRegressor(alpha=0.1)
    >>> scores = cross_val_score(model, X, np.sin(X[:, 0]), scoring=interval_scorer(0.9), cv=3)
    >>> scores.shape
    (3,)
    """
    _check_level("level", level)
    _check_method(method, _METHODS)
    return _IntervalScorer(level, method, negative_score=True)


def coverage_scorer(level: float = 0.9, method: str = "gaussian") -> _IntervalScorer:
    """Make a scorer of the coverage of intervals.

    Read it, for instance in the result of ``cross_validate``, but do not choose by it: the widest
    intervals have the largest coverage. :func:`interval_scorer` is made for choosing.

    Parameters
    ----------
    level : float, default 0.9
        Share of the targets that the intervals should contain.
    method : {"gaussian", "conformal"}, default "gaussian"
        Passed to ``predict_interval``. An estimator without this method is scored by the normal
        intervals of its ``predict(X, return_std=True)``.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``, for ``scoring=`` of scikit-learn's functions.
    """
    _check_level("level", level)
    _check_method(method, _METHODS)
    return _IntervalScorer(level, method, negative_score=False)


def quantile_scorer(levels: ArrayLike, method: str = "gaussian") -> _QuantileScorer:
    """Make a scorer of the negative CRPS of predicted quantiles.

    Parameters
    ----------
    levels : array-like of shape (n_levels,)
        Levels of the quantiles, between 0 and 1 and increasing.
    method : {"gaussian", "conformal", "predict"}, default "gaussian"
        The first two are passed to ``predict_quantile``. ``"predict"``, or any method of an
        estimator without ``predict_quantile``: ``predict`` returns the quantiles of these levels,
        one column for each.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``, for ``scoring=`` of scikit-learn's functions.
    """
    _check_method(method, (*_METHODS, "predict"))
    return _QuantileScorer(tuple(_checked_levels(levels).tolist()), method)


def mean_and_std(estimator: Any, X: Any) -> tuple[Floats, Floats]:
    """Predicted means and standard deviations, or an error that says who has them."""
    try:
        mean, std = estimator.predict(X, return_std=True)
    except TypeError as error:
        raise TypeError(
            f"{type(estimator).__name__} has no predict(X, return_std=True): use a Gaussian "
            "process, or a score of intervals or quantiles"
        ) from error
    return np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64)


def _errors(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[Floats, Floats]:
    """Errors and standard deviations as columns, one per output."""
    targets = _columns("y", y)
    spread = _columns("std", std, targets) if np.ndim(std) else np.full_like(targets, std)
    if not (spread > 0.0).all() or not np.isfinite(spread).all():
        raise ValueError(
            "std must be positive and finite. Standard deviations of 0 come from predictions "
            "without noise: predict with include_noise=True"
        )
    return targets - _columns("mean", mean, targets), spread


def _intervals(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Targets and the ends of their intervals as columns."""
    targets = _columns("y", y)
    low = _columns("lower", lower, targets, finite=False)
    high = _columns("upper", upper, targets, finite=False)
    # A comparison with NaN is false.
    if not (low <= high).all():
        raise ValueError("lower must not be above upper, and neither may be NaN")
    return targets, low, high


def _pinballs(y: ArrayLike, quantiles: ArrayLike, levels: Any) -> tuple[Floats, Floats]:
    """Pinball losses of shape (n_rows, n_outputs, n_levels), and the levels."""
    tau = _checked_levels(levels)
    shape = np.shape(y) + np.shape(levels)
    if np.shape(quantiles) != shape:
        raise ValueError(
            f"quantiles must have shape {shape}, that of y with one more axis for several levels, "
            f"got {np.shape(quantiles)}"
        )
    targets = _columns("y", y)
    found = _columns("quantiles", np.reshape(quantiles, (len(targets), -1)))
    error = targets[:, :, None] - found.reshape(*targets.shape, len(tau))
    return np.maximum(tau * error, (tau - 1.0) * error), tau


def _checked_levels(levels: Any) -> Floats:
    tau = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    if tau.ndim != 1 or not tau.size or not ((tau > 0.0) & (tau < 1.0)).all():
        raise ValueError(f"levels must be numbers between 0 and 1, got {levels!r}")
    if (np.diff(tau) <= 0.0).any():
        raise ValueError(f"levels must increase, got {levels!r}: sort them, and the quantiles")
    return tau


def _check_level(name: str, level: float) -> None:
    if not isinstance(level, Real) or not 0.0 < level < 1.0:
        raise ValueError(f"{name} must be a number between 0 and 1, got {level!r}: 0.9 is 90 %")


def _check_method(method: str, known: tuple[str, ...]) -> None:
    if method not in known:
        raise ValueError(f"method must be one of {known}, got {method!r}")


def _columns(
    name: str, values: ArrayLike, like: Floats | None = None, *, finite: bool = True
) -> Floats:
    """Values as a matrix with a column per output, of the shape of `like`."""
    checked: Floats = check_array(
        values, dtype=np.float64, ensure_2d=False, ensure_all_finite=finite, input_name=name
    )
    columns = checked[:, None] if checked.ndim == 1 else checked
    if like is not None and columns.shape != like.shape:
        raise ValueError(
            f"{name} must have the shape of y, {like.shape[0]} rows and {like.shape[1]} outputs, "
            f"got {np.shape(values)}"
        )
    return columns


def _weights(sample_weight: ArrayLike | None, rows: int) -> Floats:
    """Weights of the rows; ones when None."""
    weights: Floats = check_sample_weight(
        sample_weight, np.empty((rows, 1)), dtype=np.float64, ensure_non_negative=True
    )
    if not weights.sum() > 0.0:
        raise ValueError("sample_weight is zero for every row: at least one must be positive")
    return weights


def _averaged(values: Floats, sample_weight: ArrayLike | None, multioutput: Any) -> float | Floats:
    """Weighted mean over rows, then over outputs."""
    weights = _weights(sample_weight, len(values))
    # Rows of weight 0 do not count, even if their score is infinite.
    counted = weights > 0.0
    means: Floats = np.average(values[counted], axis=0, weights=weights[counted])
    return _over_outputs(means, multioutput)


def _over_outputs(values: Floats, multioutput: Any) -> float | Floats:
    if isinstance(multioutput, str):
        if multioutput not in _AVERAGES:
            raise ValueError(
                f"multioutput must be one of {_AVERAGES}, or weights, got {multioutput!r}"
            )
        return values if multioutput == "raw_values" else float(values.mean())
    weights = np.asarray(multioutput, dtype=np.float64)
    if weights.shape != values.shape or not (weights >= 0.0).all() or not weights.sum() > 0.0:
        raise ValueError(
            f"multioutput must have a weight for each of {len(values)} outputs, not negative and "
            "not all 0"
        )
    return float(weights @ values / weights.sum())


def _distance_from_uniform(values: Floats, weights: Floats) -> float:
    """∫ |Q(u) - u| du, where Q is the quantile function of the weighted values."""
    order = np.argsort(values)
    ends = np.concatenate([[0.0], np.cumsum(weights[order]) / weights.sum()])
    # (u - z) |u - z| / 2 is an antiderivative of |u - z|.
    above, below = ends[1:] - values[order], ends[:-1] - values[order]
    return float(np.sum(above * np.abs(above) - below * np.abs(below)) / 2.0)
