"""What every estimator that fits in the span of a chosen basis can do once it is fitted."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate, CertificatePath
from pursuit.estimators.fit_run import FitRun, interrupt, warn
from pursuit.estimators.inputs import (
    TargetScale,
    check_lengths,
    dense,
    is_precomputed,
    rows_again,
    size_on_path,
    training_rows,
    validate_items,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.kernelmodel import BasisModel
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.sources import n_rows, named_columns
from pursuit.estimators.span.certifying import Certifier, check_kind
from pursuit.estimators.span.searching import (
    SearchPlan,
    given_search,
    grow_span,
    span_model,
)
from pursuit.estimators.span.stepping import StepFit
from pursuit.greedy import (
    Clock,
    MaxSize,
    Meter,
    Path,
    Pool,
    Problem,
    SpanFit,
    size_grid,
)
from pursuit.linalg import SpanSolution, Spread, StepSolution, Workers
from pursuit.rows import Sample
from pursuit.tuning import Calibration

_AUTO_CERTIFICATE_ROWS = 10_000, 50_000
_CERTIFYING_SHARE = 1 / 3
"""What is left of ``max_time`` where an automatic certificate is still computed."""
NO_TIME_TO_CERTIFY = "max_time left no time for a certificate: certify(X, y) computes it"
AUTO_BASIS = 2048


def time_to_certify(certificate: str | None, clock: Clock) -> bool:
    """Whether enough of a fit's time is left; a certificate asked for by name is not left out."""
    return certificate != "auto" or not clock.over(1.0 - _CERTIFYING_SHARE)


def has_truncations(model: Any) -> bool:
    """Whether the first n functions of a model are a model, and it can be certified for any n."""
    if model._truncations_refused is not None:
        raise AttributeError(model._truncations_refused)
    return True


class SpanModel(BasisModel, ReportedModel, BaseEstimator):
    """Certify, truncate and grow a model f = Σ_j β_j k(·, x_j) fitted in the span of its basis.

    Subclasses take the parameters listed here in their constructors.
    """

    kernel: Any
    n_basis: int | str
    tol: float | None
    search: str
    pool_size: int | str
    selection_rows: int | str | None
    rounds: int
    candidates: Any
    selection: str = "posterior"
    certificate: str | None
    gamma: float | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None
    max_time: float | None
    dtype: Any
    n_jobs: int | None
    random_state: Any

    kernel_: Any
    noise_: float
    basis_: Any
    basis_indices_: Indices
    n_basis_: int
    dual_coef_: Floats
    path_: Path
    certificate_: Certificate | None
    calibration_: Calibration | None
    _scale: TargetScale
    _single_output: bool
    _solution: SpanSolution | StepSolution
    _sums: dict[str, Any]
    _weighted: bool
    _learned: bool
    _spread: Spread
    _calibrations: dict[int, Calibration]

    @property
    def _truncations_refused(self) -> str | None:
        """Why the model cannot be cut, certified again or grown; None where it can."""
        return None

    @available_if(has_truncations)
    def certify(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        kind: str = "hybrid",
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
        **options: Any,
    ) -> Certificate:
        """Bound the distance of this model from the exact Gaussian process on (X, y).

        Any rows may be passed: what is certified is the problem they pose with ``kernel_`` and
        ``noise_``, in the normalised units of the fit. Always computed in float64.

        Parameters
        ----------
        X, y, sample_weight, target, weight
            The training data, as in :meth:`fit`.
        kind : {"hybrid", "published", "dense", "scaled", "two-level", "pcg"}, default "hybrid"
            Which lower bound to use. ``"published"`` is SB01's second pursuit, and cannot fall
            below the noise floor. ``"dense"`` takes the residual as dual point, ``"scaled"`` its
            best multiple, ``"hybrid"`` the best point in the span of both it and SB01's; they cost
            one product with the full kernel matrix, in O(n_rows) memory. ``"pcg"`` improves the
            point by ``steps`` conjugate-gradient steps (5), a product each. ``"two-level"`` needs
            no such product but a pivoted Cholesky of ``n_second`` columns (4 ``n_basis_``), in
            O(n_rows n_second) memory.
        **options
            ``steps`` for pcg, ``n_second`` for two-level.

        Returns
        -------
        certificate : Certificate
        """
        check_is_fitted(self)
        check_kind(kind, options)
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        self._warn_without_weights(sample_weight)
        with Workers(self.n_jobs) as workers:
            problem = self._problem(X, y, sample_weight, workers)
            model = span_model(self._points, self._solution)
            [found] = Certifier(problem).certify([model], kind, **options)
        return found

    @available_if(has_truncations)
    def certify_path(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        kind: str = "hybrid",
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
        sizes: ArrayLike | None = None,
        floor: bool = False,
        **options: Any,
    ) -> CertificatePath:
        """Certify the model and its truncations, all from the same passes over the rows.

        Parameters
        ----------
        X, y, sample_weight, target, weight, kind, **options
            As in :meth:`certify`.
        sizes : array of int, optional
            Numbers of basis functions; by default a grid of ratio 1.25 up to ``n_basis_``.
        floor : bool, default False
            Also compute what the published gap cannot fall below (Z03 Proposition 3.3), which
            takes the exact solution, by conjugate gradients.

        Returns
        -------
        path : CertificatePath
        """
        check_is_fitted(self)
        check_kind(kind, options)
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        self._warn_without_weights(sample_weight)
        grid = np.unique(size_grid(self.n_basis_) if sizes is None else np.asarray(sizes))
        whole = len(grid) > 0 and grid.dtype.kind in "iu"
        if not whole or grid[0] < 1 or grid[-1] > self.n_basis_:
            raise ValueError(f"sizes must be whole numbers from 1 to {self.n_basis_}.")
        models = [span_model(self._points[:n], self._solution.truncated(n)) for n in grid]
        with Workers(self.n_jobs) as workers:
            problem = self._problem(X, y, sample_weight, workers)
            # The floor belongs to the rows S* of the gap: both must draw alike.
            again = replace(problem, rng=copy.deepcopy(problem.rng))
            found = Certifier(problem).certify(models, kind, **options)
            lowest = Certifier(again).published_floor(models[-1], grid) if floor else None
        return CertificatePath(grid, found, lowest)

    @available_if(has_truncations)
    def truncated(self, n: int) -> Self:
        """The model of the first n basis functions, without a pass over the data.

        Parameters
        ----------
        n : int
            From 1 to ``n_basis_``.

        Returns
        -------
        model : same class
            A new, fitted model; its ``certificate_`` is None.
        """
        check_is_fitted(self)
        n = size_on_path(n, self.n_basis_)
        model = copy.copy(self)
        solution = self._solution.truncated(n)
        sizes = [size for size in self._calibrations if size >= n]
        if sizes:
            model.calibration_ = self._calibrations[min(sizes)]
            model._spread, model.noise_ = model.calibration_.spread, model.calibration_.noise
            assert isinstance(solution, SpanSolution)
            solution = solution.with_noise(model.noise_)
        model._set_solution(solution)
        model.basis_ = None if self.basis_ is None else self.basis_[:n]
        if self._bound is not None:
            model._keep_bound_basis(self._bound.kernel)
        model.basis_indices_ = self.basis_indices_[:n]
        model.path_ = self.path_.truncated(n)
        model.certificate_ = None
        return model

    @available_if(has_truncations)
    def grow(
        self,
        n: int,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> Self:
        """Keep the basis, add to it until it has n functions, and fit all rows in its span.

        Parameters
        ----------
        n : int
            More than ``n_basis_``.
        X, y, sample_weight, target, weight
            The training data, as in :meth:`fit`.

        Returns
        -------
        model : same class
            A new, fitted model with the same kernel and noise.
        """
        check_is_fitted(self)
        if not isinstance(n, numbers.Integral) or n <= self.n_basis_:
            raise ValueError(f"n must be a whole number above {self.n_basis_}, got {n!r}.")
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        self._warn_without_weights(sample_weight)
        model = copy.copy(self)
        weights = validate_weights(sample_weight, n_rows(validate_items(self, X, reset=False)))
        present = np.flatnonzero(weights > 0)
        plan = replace(self._plan(len(present)), n_basis=int(n))
        with Workers(self.n_jobs) as workers:
            problem = self._problem(X, y, sample_weight, workers)
            kept = Pool(self._points, self._positions(present, problem.sample))
            fitted = grow_span(plan, problem, kept, [MaxSize(plan.n_basis)])
            model._store(fitted, present, problem)
            model._certify_fit(fitted, None, problem)
        model._weighted = bool(np.any(weights != 1.0))
        model._calibrations, model.calibration_ = {}, None
        return model

    def _take_in(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, *, normalize: bool
    ) -> tuple[Any, Sample, Indices]:
        """Training data, checked: X, the rows that have weight, and their numbers among all."""
        rows, X = training_rows(self, X)
        targets = self._targets(y)
        check_lengths(X, targets)
        weights = validate_weights(sample_weight, rows.n_rows)
        present = np.flatnonzero(weights > 0)
        Y = targets.reshape(len(targets), -1)
        self._single_output = targets.ndim == 1
        self._weighted = bool(np.any(weights != 1.0))
        self._scale = TargetScale.fit(Y, weights, normalize)
        sample = Sample(rows, self._scale.normalize(Y), weights)
        return X, sample.take(present) if len(present) < rows.n_rows else sample, present

    def _targets(self, y: Any) -> Floats:
        """Checked targets."""
        return validate_targets(y)

    def _report_end(self, run: FitRun, present: Indices) -> None:
        """Say what the caller should know of the fit to the rows ``present``."""
        if run.stopping:
            n_rows = self._sums["n_rows"]
            ended = f", fitted to the first {present[n_rows - 1] + 1} rows: partial_fit adds others"
            interrupt(
                f"the best {self.n_basis_} basis functions found so far"
                f"{ended if n_rows < len(present) else ''}"
            )
        found = self.certificate_
        if self.tol is not None and found is not None and found.relative_gap > self.tol:
            warn(
                f"tol={self.tol:g} was not met: the relative gap at {self.n_basis_} functions "
                f"is {found.relative_gap:.3g} ({found.kind} certificate). Raise n_basis or tol, or "
                "use a tighter certificate.",
                ConvergenceWarning,
            )

    def _check_tol(self) -> None:
        if self.tol is not None and self.certificate is None:
            raise ValueError(
                "tol stops the fit by its certificate: with certificate=None there is none. Set "
                "certificate='auto', or tol=None."
            )

    def _check_arguments(self) -> None:
        self._check_tol()
        given_points = not isinstance(self.candidates, str)
        if self.search != "pooled" and (given_points or self.candidates != "rows"):
            raise ValueError(
                f"search={self.search!r} chooses among the rows: candidates other than 'rows' need "
                "search='pooled'."
            )
        if is_precomputed(self.kernel) and (given_points or self.candidates != "rows"):
            raise ValueError("kernel='precomputed' knows only its rows: use candidates='rows'.")

    def _problem(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, workers: Workers
    ) -> Problem:
        """The problem that given rows pose to the fitted kernel and noise."""
        rows, X = rows_again(self, X)
        weights = validate_weights(sample_weight, rows.n_rows)
        targets = validate_targets(y)
        check_lengths(X, targets)
        targets = targets.reshape(len(targets), -1)
        outputs = len(self._scale.mean)
        if targets.shape[1] != outputs:
            raise ValueError(
                f"y has {targets.shape[1]} outputs, but the model was fitted with {outputs}."
            )
        Y = self._scale.normalize(targets)
        sample = Sample(rows, Y, weights)
        if not np.all(weights > 0):
            sample = sample.take(np.flatnonzero(weights > 0))
        kernel = self._compiled(X)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        return Problem(sample, kernel, self.noise_, workers, Meter(kernel), rng)

    def _warn_without_weights(self, sample_weight: ArrayLike | None) -> None:
        if self._weighted and sample_weight is None:
            warn(
                "the model was fitted with sample_weight, and none is passed: this is about "
                "the unweighted problem."
            )

    def _positions(self, present: Indices, sample: Sample) -> Indices:
        """Where the basis stands among the rows that have weight; -1 for points that are not."""
        index = self.basis_indices_
        position = np.minimum(np.searchsorted(present, index), len(present) - 1)
        same = present[position] == index
        if self.basis_ is not None:
            there = dense(sample.rows.take(position))
            equal = [np.array_equal(a, b) for a, b in zip(there, dense(self.basis_), strict=True)]
            same &= np.array(equal, dtype=bool)
        return np.where(same, position, -1)

    def _plan(self, n_rows: int) -> SearchPlan:
        return SearchPlan(
            n_basis=AUTO_BASIS if self.n_basis == "auto" else int(self.n_basis),
            search=given_search(self),
            tol=self.tol,
            certificate=self._certificate_kind(n_rows),
            max_time=self.max_time,
            dtype=self.dtype,
        )

    def _certificate_kind(self, n_rows: int) -> str | None:
        if self.certificate != "auto":
            return self.certificate
        limit = _AUTO_CERTIFICATE_ROWS[1 if self._learned else 0]
        return "hybrid" if n_rows <= limit else "published"

    def _store(self, fitted: SpanFit | StepFit, present: Indices, problem: Problem) -> None:
        """Keep the model; row numbers are those of the rows passed to fit."""

        def as_passed(index: Indices) -> Indices:
            return np.where(index >= 0, present[index], -1)

        self._set_solution(fitted.solution)
        self.basis_ = None if is_precomputed(self.kernel) else fitted.pool.items
        self._keep_bound_basis(problem.kernel)
        self.basis_indices_ = as_passed(fitted.pool.index)
        self.path_ = replace(fitted.path, index=as_passed(fitted.path.index))
        self.certificate_ = None
        self._sums = {
            "target_norms": problem.sample.target_norms(),
            "trace": fitted.trace,
            "n_rows": problem.sample.n_rows,
            "sum_log_weights": float(np.log(problem.sample.weights).sum()),
        }

    @staticmethod
    def _as_far_as_read(fitted: SpanFit | StepFit, problem: Problem) -> Problem:
        """The problem on the rows that the fit has got to, all but after an interrupt."""
        if isinstance(fitted, StepFit) or fitted.n_rows is None:
            return problem
        return replace(problem, sample=problem.sample.take(np.arange(fitted.n_rows)))

    def _set_solution(self, solution: SpanSolution | StepSolution) -> None:
        self._solution = solution
        self.n_basis_ = solution.size
        coefficients = solution.coefficients()
        self.dual_coef_ = coefficients[:, 0] if self._single_output else coefficients

    def _may_certify(self, run: FitRun) -> bool:
        """Whether the fit goes on to its certificate."""
        return not run.stopping and time_to_certify(self.certificate, run.clock)

    def _certify_fit(
        self,
        fitted: SpanFit | StepFit,
        found: Certificate | None,
        problem: Problem,
        run: FitRun | None = None,
    ) -> None:
        """Store the certificate, computing it where the search has not, and its gap in the path."""
        kind = self._certificate_kind(problem.sample.n_rows)
        if kind is None or self.n_basis_ == 0:
            return
        if found is None:
            norms = problem.sample.target_norms() if fitted.exact else None
            model = span_model(fitted.pool.items, fitted.solution, norms)
            certify = partial(Certifier(problem).certify, [model], kind)
            [found] = certify() if run is None else run.stage("certify", certify)
        self.certificate_ = found
        path, meter = self.path_, problem.meter
        path.gap[-1], path.seconds[-1] = found.relative_gap, meter.seconds
        path.entries[-1], path.passes[-1] = meter.entries, meter.passes
