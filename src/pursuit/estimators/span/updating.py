"""Models that take in new rows: a fixed basis has statistics that add up."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pursuit.estimators.inputs import validate_items, validate_weights
from pursuit.estimators.sources import n_rows, named_columns
from pursuit.estimators.span.model import SpanModel
from pursuit.estimators.span.searching import choose_again
from pursuit.gram import GramStatistics
from pursuit.greedy import MaxSize, Meter, Pool, Pursuit
from pursuit.linalg import SpanSolution, Workers, reordered
from pursuit.objectives import gram_pursuit


def _takes_rows(model: Any) -> bool:
    if not model._refits:
        raise AttributeError(model._rows_refused)
    return True


class UpdatingModel(SpanModel):
    """A span model whose rows may arrive in parts, or on different machines."""

    @property
    def _refits(self) -> bool:
        """Whether the model is the best in its span, and so known by its statistics."""
        return True

    @property
    def _rows_refused(self) -> str:
        """Why rows cannot be added, where they cannot."""
        return (
            "rows can be added to a model that is the best in its span, and this one is made of "
            f"steps: {type(self).__name__} needs refit=True, or method='random' or 'subspace'."
        )

    @available_if(_takes_rows)
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> Self:
        """Take in further rows, exactly: the fit to all rows so far in the span of the basis.

        The first call is a :meth:`fit`. Later ones keep basis, kernel, noise and the units of the
        targets; a pass over the new rows alone updates the rest. ``certificate_`` becomes None.

        Parameters
        ----------
        X, y, sample_weight, target, weight
            New rows, as in :meth:`fit`.

        Returns
        -------
        self : the model
        """
        if not hasattr(self, "_solution"):
            fitted: Self = self.fit(X, y, sample_weight, target=target, weight=weight)
            return fitted
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        with Workers(self.n_jobs) as workers:
            problem = self._problem(X, y, sample_weight, workers)
            whitener = solve_triangular(self._factors.R, np.eye(self.n_basis_), lower=True)
            added = problem.statistics(self._points, whitener=whitener)
        logs = float(np.log(problem.sample.weights).sum())
        self._weighted |= bool(np.any(problem.sample.weights != 1.0))
        self._absorb(added, logs)
        return self

    @available_if(_takes_rows)
    def merge(self, *others: Any) -> Self:
        """The model of the rows of this one and of the others, which have the same basis.

        Parts begin with one model: fit it, :meth:`save` it, and on every other machine load it,
        and give :meth:`emptied` of it the rows there by :meth:`partial_fit`.

        Parameters
        ----------
        *others : models of the same class
            Their rows must be different rows: each is counted once.

        Returns
        -------
        model : same class
            A new, fitted model; its ``certificate_`` is None.
        """
        check_is_fitted(self)
        model = self._copied()
        for other in others:
            self._check_same_span(other)
            gram, cross = other._factors.whitened()
            sums = other._sums
            rows = {key: sums[key] for key in ("target_norms", "trace", "n_rows")}
            model._absorb(
                GramStatistics(gram, cross, weight=np.nan, **rows), sums["sum_log_weights"]
            )
            model._weighted |= other._weighted
        return model

    @available_if(_takes_rows)
    def emptied(self) -> Self:
        """The model without its rows: same basis, kernel, noise and units, nothing learned yet.

        It predicts the prior, and is there for :meth:`partial_fit`.

        Returns
        -------
        model : same class
        """
        check_is_fitted(self)
        model = self._copied()
        model._sums = {
            "target_norms": np.zeros_like(self._sums["target_norms"]),
            "trace": 0.0,
            "n_rows": 0,
            "sum_log_weights": 0.0,
        }
        model._weighted = False
        model._update(self._factors.emptied())
        return model

    @available_if(_takes_rows)
    def reselect(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
        n_basis: int | None = None,
    ) -> Self:
        """Choose again, with kernel and noise as they are.

        Without rows, the choice is among the present basis functions, by the statistics of all
        rows so far: it puts them in the order of their worth, and keeps the first ``n_basis``.
        With rows, it is among those and the present basis, and the model is fitted to the rows
        passed, all that it is to know.

        Parameters
        ----------
        X, y, sample_weight, target, weight : optional
            Rows, as in :meth:`fit`.
        n_basis : int, optional
            Most basis functions; by default ``n_basis_``.

        Returns
        -------
        model : same class
            A new, fitted model; without rows its ``certificate_`` is None.
        """
        check_is_fitted(self)
        size = self.n_basis_ if n_basis is None else n_basis
        if not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"n_basis must be a whole number of at least 1, got {n_basis!r}.")
        if X is None:
            return self._in_order_of_worth(int(size))
        model = self._copied()
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        weights = validate_weights(sample_weight, n_rows(validate_items(self, X, reset=False)))
        present = np.flatnonzero(weights > 0)
        plan = replace(self._plan(len(present)), n_basis=int(size))
        with Workers(self.n_jobs) as workers:
            problem = self._problem(X, y, sample_weight, workers)
            held = Pool(self._points, self._positions(present, problem.sample))
            fitted = choose_again(plan, problem, held, [MaxSize(plan.n_basis)])
            model._store(fitted, present, problem)
            model._certify_fit(fitted, None, problem)
        model._weighted = bool(np.any(weights != 1.0))
        model._calibrations, model.calibration_ = {}, None
        return model

    def _in_order_of_worth(self, size: int) -> Self:
        """The greedy order on the statistics so far, and its first ``size`` functions."""
        old = self._factors
        gram, cross = old.whitened()
        statistics = GramStatistics(
            old.R @ gram @ old.R.T, old.R @ cross, self._sums["target_norms"], 0.0, 0.0, 0
        )
        K = old.R @ old.R.T
        with Workers(self.n_jobs) as workers:
            objective = gram_pursuit(
                statistics, K.copy(), old.noise, capacity=len(K), workers=workers
            )
            path = Pursuit(objective, Meter(), labels=self.basis_indices_).run([MaxSize(size)])
        # What the Gram form cannot resolve keeps its place behind what it can.
        rest = np.setdiff1d(np.arange(len(K)), objective.chosen)
        order = np.concatenate([objective.chosen, rest])
        R = reordered(K, old.R, order)
        # V = R⁻¹k_S, so in the new order it is V turned by Q = R⁻¹ P R_old.
        Q = solve_triangular(R, old.R[order], lower=True)
        model = self._copied()
        pool = Pool(self._points, self.basis_indices_).take(order)
        model.basis_ = None if self.basis_ is None else pool.items
        model.basis_indices_ = pool.index
        model.path_ = path.extended(self.basis_indices_[rest]) if len(rest) else path
        model._update(SpanSolution.from_whitened(R, Q @ gram @ Q.T, Q @ cross, old.noise))
        shortened: Self = model.truncated(min(size, len(order)))
        return shortened

    @property
    def _factors(self) -> SpanSolution:
        # No assertion: notebooks and dir() read every property, also of models that do not refit.
        return cast(SpanSolution, self._solution)

    def _copied(self) -> Self:
        model = copy.copy(self)
        model.path_ = copy.deepcopy(self.path_)
        model.certificate_ = None
        return model

    def _absorb(self, added: GramStatistics, sum_log_weights: float) -> None:
        """Add statistics, in whitened coordinates, of rows that are not counted yet."""
        sums = self._sums
        self._sums = {
            "target_norms": sums["target_norms"] + added.target_norms,
            "trace": sums["trace"] + added.trace,
            "n_rows": sums["n_rows"] + added.n_rows,
            "sum_log_weights": sums["sum_log_weights"] + sum_log_weights,
        }
        self._update(self._factors.plus(added.gram, added.cross))

    def _update(self, solution: SpanSolution) -> None:
        """Keep a new solution in the span of the same functions, and its values."""
        self._set_solution(solution)
        half_norm = 0.5 * float(self._sums["target_norms"].sum())
        value = half_norm - np.cumsum(solution.gains().sum(axis=1))
        gap = np.full(len(value), np.nan)
        self.path_ = replace(self.path_, value=value, gap=gap)
        self.certificate_ = None

    def _check_same_span(self, other: Any) -> None:
        """Whether the statistics of another model add to those of this one."""
        advice = "start the parts from one fitted model: model.emptied().partial_fit(X, y)."
        if type(other) is not type(self):
            raise TypeError(
                f"merge takes models of class {type(self).__name__}, got {type(other).__name__}."
            )
        check_is_fitted(other)
        _takes_rows(other)
        mine, theirs = self._factors, other._factors
        same_points = np.array_equal(self.basis_indices_, other.basis_indices_) and (
            mine.R.shape == theirs.R.shape and np.array_equal(mine.R, theirs.R)
        )
        if not same_points:
            raise ValueError(f"merge needs models with the same basis in the same order: {advice}")
        if self.noise_ != other.noise_ or repr(self.kernel_) != repr(other.kernel_):
            raise ValueError(f"merge needs models with the same kernel_ and noise_: {advice}")
        scales = (self._scale.mean, self._scale.scale), (other._scale.mean, other._scale.scale)
        if any(not np.array_equal(a, b) for a, b in zip(*scales, strict=True)):
            raise ValueError(f"merge needs models that scale the targets alike: {advice}")
