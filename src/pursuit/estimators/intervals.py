"""Intervals and sets of classes that are guaranteed to cover: split conformal prediction.

With n rows that had no part in the fit, and scores s_i that say how far the model is off at them, a
new row that is exchangeable with these has a score of at most the ⌈(n + 1) level⌉-th smallest s_i
with a probability of at least ``level`` (Vovk, Gammerman and Shafer 2005), whatever the model is.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import num_samples, safe_indexing
from pursuit._types import Floats, Indices
from pursuit.estimators.checkpoint import drawn_once
from pursuit.estimators.classes import class_numbers
from pursuit.estimators.inputs import (
    check_lengths,
    compares_categories,
    count_rows,
    in_double,
    in_single,
    is_precomputed,
    kernel_matrix_of,
    named_columns,
    prediction_rows,
    reads_matrix,
    refuse_diagonal,
    seeds,
    validate_labels,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.kernel_model import in_precision_of_rows, lazily
from pursuit.estimators.scales import in_range
from pursuit.estimators.warning import warn
from pursuit.plots.parts import global_part
from pursuit.rows import NumberTable, RowSource, SelectedRows, draw_rows

_SHARE_ASIDE = 5
"""One row in this many is set aside by ``calibration="conformal"``."""
_FEWEST_ASIDE, _MOST_ASIDE = 100, 2000
"""Limits of that number. Never more than half of the rows are set aside."""
METHODS = "conformal", "gaussian"
_ROUNDING = 1e-9
"""Scores are taken to be larger by this share: rounding must not exclude one that equals a score.

Scores of discrete data are equal often."""
_UNITS = 4
"""The same for the prediction, in units of its last place."""


@dataclass(frozen=True)
class CoverageGuarantee:
    """What is guaranteed of the conformal intervals, or sets of classes, of a fitted model.

    Attributes
    ----------
    rows : int
        Number of rows that the guarantee rests on, of several outputs the least.
    kind : str
        What was done with them.
    assumptions : str
        What has to hold for the guarantee.
    scores : array of shape (rows,) or (rows, n_outputs)
        Errors of the model at these rows, in units of its standard deviation where it has one, NaN
        where an output was not observed; for classes 1 less the probability of the true class,
        infinite if the model does not know it.
    """

    rows: int
    kind: str
    assumptions: str
    scores: Floats = field(repr=False)

    def __str__(self) -> str:
        """One sentence each for what holds, on which rows, and under which assumptions."""
        low, high = (100 * end for end in self.likely_coverage(0.9))
        likely = (
            f"Of this one model, a level of 90 % covers {low:.0f} to {high:.0f} % of the rows with "
            "a probability of 90 %."
        )
        return (
            "A new row is covered with a probability of at least the level asked for, on average "
            f"over rows and over such fits ({self.kind} on {self.rows} rows). "
            f"{likely if low < high else 'For 90 % these rows are too few.'} "
            f"Assumed: {self.assumptions}."
        )

    def rank(self, level: float, rows: int | None = None) -> int:
        """⌈(rows + 1) level⌉, or an error where there are too few rows for the level."""
        share, n = _exact(level), self.rows if rows is None else rows
        rank = math.ceil((n + 1) * share)
        if rank > n:
            needed = math.ceil(share / (1 - share))
            most = math.floor(100 * n / (n + 1))
            less = f", or ask for at most {most} %" if n else ""
            raise ValueError(
                f"{100 * level:g} % needs {needed} rows or more that had no part in the fit, and "
                f"there are {n}: pass more to conformalize(X, y){less}."
            )
        return rank

    def likely_coverage(self, level: float, probability: float = 0.9) -> tuple[float, float]:
        """Between what this model's own coverage lies with this probability.

        The guarantee is an average over fits and rows set aside. Given the rows that were, the
        coverage has a Beta distribution if no two scores are equal, and is larger if some are.

        Parameters
        ----------
        level : float
            The level asked for.
        probability : float, default 0.9
            That of the coverage to lie between the two numbers.

        Returns
        -------
        lower, upper : float
            1 where there are too few rows for the level.
        """
        rank = math.ceil((self.rows + 1) * _exact(level))
        if rank > self.rows:
            return 1.0, 1.0
        ends = beta(rank, self.rows + 1 - rank).ppf([0.5 - probability / 2, 0.5 + probability / 2])
        return float(ends[0]), float(ends[1])

    def largest(self, level: float) -> Any:
        """What the size of a new score does not exceed with this probability, for each output."""
        return self._ranked(np.abs(self.scores), level)

    def quantile(self, q: float) -> Any:
        """What the score of a new row does not exceed with probability q, for each output.

        Rounded away from the median: for q < ½ the score falls below it with probability q or less.
        """
        if q < 0.5:
            return -self._ranked(-self.scores, float(1 - _exact(q)))
        return self._ranked(self.scores, q)

    def _ranked(self, scores: Floats, level: float) -> Any:
        """The score at the rank of the level, for each output, rounded up."""
        columns = [column[~np.isnan(column)] for column in scores.reshape(len(scores), -1).T]
        found = np.array([np.sort(one)[self.rank(level, len(one)) - 1] for one in columns])
        found = found + _ROUNDING * np.abs(found)
        return found[0] if scores.ndim == 1 else found


def _exact(level: float) -> Fraction:
    """A level as the decimal that it was written as: 0.9 is nine tenths."""
    return Fraction(repr(float(level)))


def _apart(centre: Floats, spread: Floats, factor: Any, *, up: bool) -> Floats:
    """A number of standard deviations from the prediction, rounded up or down."""
    slack = _UNITS * np.finfo(float).eps * np.abs(centre)
    return np.asarray(centre + factor * spread + (slack if up else -slack))


def _outwards(X: Any, ends: Floats, *, up: bool) -> Floats:
    """Ends of intervals in the precision of the rows, rounded so that none becomes shorter."""
    if not in_single(X):
        return ends
    single = ends.astype(np.float32)
    short = single < ends if up else single > ends
    beyond = np.nextafter(single, np.float32(np.inf if up else -np.inf))
    return np.where(short, beyond, single)


def _check_level(name: str, level: Any) -> float:
    if isinstance(level, bool) or not isinstance(level, numbers.Real) or not 0 < float(level) < 1:
        raise ValueError(
            f"{name} must be a probability strictly between 0 and 1, got {level!r}: for instance "
            "0.9."
        )
    return float(level)


@dataclass(frozen=True)
class RowsAside:
    """Rows that a fit does not see.

    Attributes
    ----------
    X, y : items and targets
        All rows, as they were passed.
    numbers : array of int
        Numbers of the rows set aside, increasing.
    weighted : bool
        Whether the other rows have weights that are not 1.
    """

    X: Any
    y: Any
    numbers: Indices
    weighted: bool

    def rows(self) -> tuple[Any, Any]:
        """The rows set aside, and their targets."""
        return _rows_at(self.X, self.numbers), safe_indexing(self.y, self.numbers)


def set_aside(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Floats, RowsAside]:
    """Take some rows from a fit: what it gets in the place of X, y and weights, and these rows.

    Rows set aside have weight 0, and with it no part in anything: choice, tuning, scale of the
    targets, near rows. Where the levels of categories are collected before weights are looked at,
    another row stands in for them.
    """
    if is_precomputed(model.kernel):
        model._check_matrix()
        X = kernel_matrix_of(X)
    X, y = _with_rows(X), _with_rows(y)
    n = count_rows(X)
    weights = validate_weights(sample_weight, n)
    present = np.flatnonzero(weights > 0)
    if len(present) < 2:
        raise ValueError(
            "calibration='conformal' sets rows aside, and n_samples=1 is all there is with a "
            "positive weight: pass more rows, or use another calibration."
        )

    def draw() -> Indices:
        wanted = np.clip(len(present) // _SHARE_ASIDE, _FEWEST_ASIDE, _MOST_ASIDE)
        # The fit goes on from the same seeds; it must not draw the same numbers.
        rng = np.random.default_rng([*seeds(model.random_state), len(METHODS)])
        return present[draw_rows(len(present), min(int(wanted), len(present) // 2), rng)]

    folder = model.checkpoint
    chosen = draw() if folder is None else drawn_once(os.fspath(folder), "conformal", n, draw)
    aside = RowsAside(X, y, chosen, bool(np.any(np.delete(weights, chosen) != 1.0)))
    weights = weights.copy()
    weights[chosen] = 0.0
    stand_in = np.arange(n)
    stand_in[chosen] = np.setdiff1d(present, chosen)[0]
    if y is not None and num_samples(y) == n:
        y = safe_indexing(y, stand_in)
    levels = hasattr(X, "columns") or compares_categories(model.kernel)
    if levels and not isinstance(X, RowSource):
        X = _rows_at(X, stand_in)
    return X, y, weights, aside


def _with_rows(X: Any) -> Any:
    """X in a form that rows can be taken from."""
    if hasattr(X, "tocsr"):
        return X.tocsr()
    if isinstance(X, RowSource):
        return X
    return np.asarray(X) if hasattr(X, "__array__") and not hasattr(X, "__getitem__") else X


def _rows_at(X: Any, index: Indices) -> Any:
    if isinstance(X, NumberTable):
        return X.with_rows(index)
    return SelectedRows(X, index) if isinstance(X, RowSource) else safe_indexing(X, index)


class ConformalModel:
    """A model whose predictions may be calibrated by rows that had no part in its fit."""

    coverage_guarantee_: CoverageGuarantee | None
    conformal_rows_: Indices

    @in_range
    def conformalize(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Take rows for guaranteed intervals: rows that the model has not been fitted to.

        This replaces the rows that ``calibration="conformal"`` has set aside, if any.

        Parameters
        ----------
        X, y
            Rows and targets that had no part in choosing, tuning or calibrating the model. New rows
            are guaranteed to be covered if they come from the same source as these.
        sample_weight : array of shape (n_rows,), optional
            Rows of weight 0 are left out. Other weights make no difference.

        Returns
        -------
        self : the model
            With ``coverage_guarantee_`` set.
        """
        check_is_fitted(self)
        X, y, sample_weight = named_columns(X, y, sample_weight)
        X = kernel_matrix_of(X) if reads_matrix(self) else X
        X, y = _with_rows(X), _with_rows(y)
        n = count_rows(X)
        if y is None or num_samples(y) != n:
            raise ValueError(
                f"X has {n} rows and y {0 if y is None else num_samples(y)} targets: pass one "
                "target per row."
            )
        present = np.flatnonzero(validate_weights(sample_weight, n) > 0)
        if len(present) < n:
            X, y = _rows_at(X, present), safe_indexing(y, present)
        self._warn_of_own_rows(X)
        self._keep_scores(X, y, "and had no part in the fit, which only the caller can know")
        return self

    def _warn_of_own_rows(self, X: Any) -> None:
        """Warn if most of the rows that became basis points are among different rows."""
        part = global_part(self)
        index = getattr(part, "basis_indices_", np.empty(0))
        points, items = getattr(part, "basis_", None), prediction_rows(self, X)[1]
        if not (isinstance(points, np.ndarray) and isinstance(items, np.ndarray)):
            return
        own = {point.tobytes() for point in points[index >= 0].astype(items.dtype)}
        passed = {row.tobytes() for row in items}
        # Rows that occur twice say that equal rows are nothing strange in such data.
        if len(passed) == len(items) and len(own & passed) > len(own) // 2:
            warn(
                f"{len(own & passed)} of {len(own)} basis points are among these rows, which seem "
                "to be those of the fit: then intervals cover too little, and nothing is "
                "guaranteed. Pass rows that the model has not seen."
            )

    def _keep_aside(self, aside: RowsAside) -> None:
        """Calibrate by the rows that this fit has set aside."""
        self.conformal_rows_ = aside.numbers
        part = global_part(self)
        if "_weighted" in vars(part):  # weights of 0 for rows aside are none that a user gave
            part._weighted = aside.weighted
        self._keep_scores(*aside.rows(), "and were set aside before the fit")

    def _keep_scores(self, X: Any, y: Any, origin: str) -> None:
        scores = self._scores(X, y)
        rows = int((~np.isnan(scores)).sum(axis=0).min())
        each = ", for each output by itself" if scores.ndim == 2 else ""
        self.coverage_guarantee_ = CoverageGuarantee(
            rows,
            f"split conformal{each}",
            f"new rows are exchangeable with these, as rows drawn independently from one source "
            f"are; these {rows} rows are like new ones {origin}",
            scores,
        )

    def _scores(self, X: Any, y: Any) -> Floats:
        """How far the model is off at rows with known targets."""
        raise NotImplementedError

    def _check_matrix(self) -> None:
        """Refuse a precomputed kernel matrix, where it does not hold what scores need."""

    def _guaranteed(self, otherwise: str = "") -> CoverageGuarantee:
        """The guarantee, or an error that says how to get one."""
        check_is_fitted(self)
        # A file of an earlier version has a model without this attribute.
        guarantee: CoverageGuarantee | None = getattr(self, "coverage_guarantee_", None)
        if guarantee is None:
            ways = "call conformalize(X, y) with rows that the model was not fitted to"
            if "calibration" in self._get_param_names():  # type: ignore[attr-defined]
                ways = f"fit with calibration='conformal', which sets rows aside, or {ways}"
            raise ValueError(
                "coverage is guaranteed by rows that had no part in the model, and it has none "
                f"(partial_fit, merge, grow and truncated make another model): {ways}{otherwise}."
            )
        return guarantee


class IntervalModel(ConformalModel):
    """A regressor with intervals that contain a new observation."""

    predict: Callable[..., Any]

    def _centre_and_spread(self, X: Any) -> tuple[Floats, Floats]:
        """Prediction and standard deviation of an observation: errors are measured by the latter.

        A model without standard deviation returns ones.
        """
        mean = in_double(self.predict)(X)
        return mean, np.ones_like(mean)

    @property
    def _target_range(self) -> tuple[float, float]:
        """Between which numbers observations lie; no interval goes beyond."""
        return -np.inf, np.inf

    _has_spread = False
    """Whether that is a standard deviation, so that it makes intervals without further rows."""

    def _quantile_factor(self, q: float) -> float:
        """Quantile of an observation, in standard deviations from the prediction."""
        return NormalDist().inv_cdf(q)

    @in_precision_of_rows
    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        method: str = "conformal",
        *,
        diagonal: ArrayLike | None = None,
    ) -> tuple[Floats, Floats]:
        """Intervals that contain a new observation with a given probability.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`predict`.
        level : float, default 0.9
            Probability of an observation to lie in its interval, ends included.
        method : {"conformal", "gaussian"}, default "conformal"
            ``"conformal"``: the prediction ± a multiple of its standard deviation, a multiple which
            rows that had no part in the fit choose. The level is guaranteed on average over rows,
            whatever the noise is; see ``coverage_guarantee_``. For several outputs it is the level
            of each output by itself. It takes ``calibration="conformal"`` or :meth:`conformalize`.
            ``"gaussian"``: trusts the model's own distribution.
        diagonal : array of shape (n_rows,), optional
            k(x, x) of the rows, which ``method="gaussian"`` needs when ``kernel="precomputed"``.

        Returns
        -------
        lower, upper : arrays of shape (n_rows,) or (n_rows, n_outputs)

        Examples
        --------
        >>> import numpy as np
        >>> from pursuit import SparseGPRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 6, (5400, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_exponential(5400)
        >>> model = SparseGPRegressor(n_basis=20, calibration="conformal", random_state=0)
        >>> lower, upper = model.fit(X[:400], y[:400]).predict_interval(X[400:], level=0.9)
        >>> print(f"{np.mean((lower <= y[400:]) & (y[400:] <= upper)):.2f}")
        0.90
        >>> model.coverage_guarantee_.rows
        100
        """
        level = _check_level("level", level)
        if self._is_conformal(method):
            factor = self._guaranteed(self._otherwise).largest(level)
            refuse_diagonal(diagonal, "conformal intervals")
            centre, spread = self._centre_and_spread(X)
        else:
            check_is_fitted(self)
            factor = self._quantile_factor(0.5 + 0.5 * level)
            centre, spread = self._distribution(X, diagonal)
        lower = _apart(centre, spread, -factor, up=False)
        upper = _apart(centre, spread, factor, up=True)
        lower, upper = (np.clip(end, *self._target_range) for end in (lower, upper))
        return _outwards(X, lower, up=False), _outwards(X, upper, up=True)

    @in_precision_of_rows
    def predict_quantile(
        self,
        X: Any,
        q: float | Sequence[float],
        method: str = "conformal",
        *,
        diagonal: ArrayLike | None = None,
    ) -> Floats:
        """Numbers below which a new observation lies with given probabilities.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`predict`.
        q : float or sequence of float
            Probabilities strictly between 0 and 1.
        method : {"conformal", "gaussian"}, default "conformal"
            As in :meth:`predict_interval`. Conformal quantiles are on the safe side: for q ≥ ½ an
            observation is at most the quantile with a probability of at least q, and for q < ½ it
            is less than it with a probability of at most q.
        diagonal : array of shape (n_rows,), optional
            As in :meth:`predict_interval`.

        Returns
        -------
        quantiles : array of shape (n_rows,) or (n_rows, n_outputs)
            With a further, last axis for a sequence q.
        """
        several = np.ndim(q) > 0
        if several and not len(q):  # type: ignore[arg-type]
            raise ValueError("q is empty: pass one probability or more, for instance [0.05, 0.95].")
        levels = [_check_level("q", one) for one in (list(q) if several else [q])]  # type: ignore[arg-type]
        if self._is_conformal(method):
            guarantee = self._guaranteed(self._otherwise)
            factors = [guarantee.quantile(one) for one in levels]
            refuse_diagonal(diagonal, "conformal quantiles")
            centre, spread = self._centre_and_spread(X)
        else:
            check_is_fitted(self)
            factors = [self._quantile_factor(one) for one in levels]
            centre, spread = self._distribution(X, diagonal)
        quantiles = [
            np.clip(_apart(centre, spread, factor, up=one >= 0.5), *self._target_range)
            for one, factor in zip(levels, factors, strict=True)
        ]
        quantiles = [
            _outwards(X, values, up=one >= 0.5)
            for one, values in zip(levels, quantiles, strict=True)
        ]
        return np.stack(quantiles, axis=-1) if several else quantiles[0]

    def _distribution(self, X: Any, diagonal: Any) -> tuple[Floats, Floats]:
        """Mean and standard deviation, where the model has one."""
        raise NotImplementedError

    def _is_conformal(self, method: str) -> bool:
        if method not in METHODS:
            raise ValueError(f"method must be 'conformal' or 'gaussian', got {method!r}.")
        if method == "gaussian" and not self._has_spread:
            raise ValueError(
                f"{type(self).__name__} has no standard deviation, which method='gaussian' needs: "
                "use method='conformal', or SparseGPRegressor."
            )
        return method == "conformal"

    @property
    def _otherwise(self) -> str:
        return "; method='gaussian' trusts the model's own distribution" if self._has_spread else ""

    def _scores(self, X: Any, y: Any) -> Floats:
        targets = validate_targets(y, gaps=True, any_size=True)
        check_lengths(X, targets)
        centre, spread = self._centre_and_spread(X)
        if targets.shape == (*centre.shape, 1):
            targets = targets[:, 0]
        if targets.shape != centre.shape:
            raise ValueError(
                f"y has shape {targets.shape}, and the model predicts {centre.shape}: pass targets "
                "of the outputs that it was fitted to."
            )
        return np.asarray((targets - centre) / spread)


class ProcessIntervals(IntervalModel):
    """Intervals of a model whose ``predict`` has ``return_std``."""

    _has_spread = True

    def _centre_and_spread(self, X: Any) -> tuple[Floats, Floats]:
        """Mean and standard deviation; ones where a kernel matrix does not hold k(x, x)."""
        if reads_matrix(self):
            return super()._centre_and_spread(X)
        mean, std = in_double(self.predict)(X, return_std=True)
        return mean, std

    def _distribution(self, X: Any, diagonal: Any) -> tuple[Floats, Floats]:
        """Mean and standard deviation, with k(x, x) as given for a kernel matrix."""
        if reads_matrix(self):
            return in_double(self.predict)(X, return_std=True, diagonal=diagonal)  # type: ignore[no-any-return]
        refuse_diagonal(diagonal, "a kernel that knows k(x, x)")
        return self._centre_and_spread(X)


class SetModel(ConformalModel):
    """A classifier with sets of classes that contain the true one."""

    classes_: NDArray[Any]
    predict_proba: Callable[[Any], Any]

    @lazily
    def predict_set(self, X: Any, level: float = 0.9) -> NDArray[np.bool_]:
        """Sets of classes that contain the true one with a given probability.

        A set holds the classes whose probability is at least a threshold, which rows that had no
        part in the fit choose, and always the most probable class. It takes
        ``calibration="conformal"`` or :meth:`conformalize`. The level is guaranteed on average over
        rows, not for each class by itself; see ``coverage_guarantee_``.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`predict`.
        level : float, default 0.9
            Probability of the true class to be in the set.

        Returns
        -------
        sets : array of bool of shape (n_rows, n_classes)
            Whether each of ``classes_`` is in the set: ``model.classes_[sets[i]]`` are those of
            row i.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from pursuit import SparseGPClassifier
        >>> X, y = make_moons(800, noise=0.4, random_state=0)
        >>> model = SparseGPClassifier(n_basis=30, calibration="conformal", random_state=0)
        >>> sets = model.fit(X[:400], y[:400]).predict_set(X[400:], level=0.95)
        >>> sets.shape
        (400, 2)
        >>> bool(sets[range(400), y[400:]].mean() > 0.9)
        True
        """
        largest = self._guaranteed().largest(_check_level("level", level))
        if not np.isfinite(largest):
            raise ValueError(
                f"no set of known classes reaches {100 * level:g} %: so many of the rows aside are "
                "of classes that the model was not fitted with. Fit with rows of all classes."
            )
        chances = in_double(self.predict_proba)(X)
        sets: NDArray[np.bool_] = 1.0 - chances <= largest
        sets[np.arange(len(sets)), chances.argmax(axis=1)] = True
        return sets

    def _check_matrix(self) -> None:
        raise ValueError(
            "calibration='conformal' needs probabilities, and with them k(x, x), which a "
            "precomputed matrix of k(x, training rows) does not hold: fit with a callable kernel."
        )

    def _scores(self, X: Any, y: Any) -> Floats:
        names = validate_labels(y)
        check_lengths(X, names)
        chances = in_double(self.predict_proba)(X)
        number = class_numbers(names, self.classes_)
        scores = 1.0 - chances[np.arange(len(names)), number]
        unknown = self.classes_[number] != names
        if unknown.any():
            warn(
                f"{int(unknown.sum())} of the {len(names)} rows are of classes that the model was "
                f"not fitted with, {np.unique(names[unknown]).tolist()}: no set contains them, and "
                "sets of the other rows become larger for it."
            )
        return np.asarray(np.where(unknown, np.inf, scores))
