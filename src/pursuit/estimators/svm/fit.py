"""A fit of a support vector machine in a span: choose a basis, move it, solve, certify, grow."""

from __future__ import annotations

import itertools
import numbers
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils.validation import check_is_fitted

from pursuit import limits
from pursuit._sklearn import Interval, Options, StrOptions
from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.arguments import (
    CHECKPOINT,
    EXECUTION,
    KERNEL,
    MAX_TIME,
    POOLED,
    REFINE,
    Search,
)
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, interrupt
from pursuit.estimators.gp.stages import length_units
from pursuit.estimators.inputs import (
    as_passed,
    check_positive_definite,
    feature_deviations,
    prediction_rows,
    reads_matrix,
    seeded,
)
from pursuit.estimators.kernel_model import BasisModel
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.scales import kept
from pursuit.estimators.span.features import (
    DualPass,
    Span,
    SpanFeatures,
    SpanFunction,
    StoredFunction,
    diagonal_certificate,
    exact_certificate,
    held,
)
from pursuit.estimators.span.model import AUTO_BASIS
from pursuit.estimators.span.search import (
    SearchPlan,
    estimator_search,
    pooled_search,
    timed,
    with_checked_points,
)
from pursuit.estimators.svm.growth import FIRST_SIZE, GrowingBasis, Step, spent
from pursuit.estimators.svm.moving import Moving, move
from pursuit.estimators.svm.problem import MachineProblem
from pursuit.estimators.svm.spanned import SpannedRows, objective
from pursuit.estimators.warning import warn
from pursuit.gram import kernel_transpose_times
from pursuit.greedy import CostMeter, MaxSize, Path, Pool, Problem, Pursuit, kernel_matrix
from pursuit.kernels import kernel_gradient, without_white
from pursuit.linalg import Workers
from pursuit.objectives import QuadraticPursuit
from pursuit.rows import RowSource, Sample

_GROWTH = 1.6
"""Factor by which a basis grows that grows by the certificate: a larger one takes fewer
solutions, of larger spans."""
_CANDIDATES = 4
"""Candidates per function that is added to such a basis."""
_AUTO_STEPS = 50
"""Steps that move the points with ``refine="auto"``."""
_CLOSE = 1e-3
"""Up to 2 000 rows, an automatic size is one at which the objective is proved to be within this
part of itself of the least one."""
_MOST_MOVED_FEATURES = 256
"""With more features than this, ``refine="auto"`` does not move points."""
_AUTO_CERTIFICATE_ROWS = 10_000
"""With more rows than this, ``certificate="auto"`` does not take the exact pass."""

_SEARCHES = {"pooled": POOLED, "full": ()}
"""Fields of `Search` that apply to these machines."""


class LowRankMachine(CallbackSupportMixin, BasisModel, ReportedModel, BaseEstimator):
    """Fit f + b, f = Σ_j β_j k(·, z_j), with a support vector loss, and certify the result.

    A subclass states the problem (`MachineProblem`) that its data pose.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable, SklearnKernel],
        "C": [numbers.Real],
        "n_basis": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "search": [StrOptions(set(_SEARCHES)), Search],
        "refine": REFINE,
        "certificate": [None, StrOptions({"auto", "exact", "diagonal"})],
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
        **KERNEL,
        "gamma": [*KERNEL["gamma"], StrOptions({"scale", "auto"})],
        "dtype": [
            StrOptions({"auto", "float64", "float32"}),
            Options(type, {np.float32, np.float64}),
        ],
        **EXECUTION,
    }

    n_basis: int | str
    tol: float | None
    search: str | Search
    refine: int | str | bool
    certificate: str | None
    max_time: float | None
    checkpoint: Any
    dtype: Any
    n_jobs: int | None
    random_state: Any
    verbose: int

    basis_: Any
    basis_indices_: Indices
    n_basis_: int
    dual_coef_: Floats
    intercept_: Floats
    support_: Indices
    n_iter_: int
    path_: Path
    certificate_: Certificate | None
    kernel_: Any
    _single_output: bool

    def _fit_machine(
        self,
        X: Any,
        rows: RowSource,
        targets: Floats,
        weights: Floats,
        problem: MachineProblem,
        ridge: float,
        shift: Floats | float = 0.0,
        stated: MachineProblem | None = None,
    ) -> tuple[FitRun, bool]:
        """Choose a basis for these targets, fit the machine in its span, and store it.

        Parameters
        ----------
        X, rows
            What `training_rows` returned.
        targets : array of shape (n_rows, n_targets)
            What the basis is chosen for, by least squares.
        weights : array of shape (n_rows,)
            Weights of the rows in that choice; a row of weight 0 is absent everywhere.
        problem : MachineProblem
            What is fitted, on the same rows.
        ridge : float
            The σ² of that choice.
        shift : array of shape (n_outputs,) or float
            What is added to the intercepts that were fitted.
        stated : MachineProblem, optional
            The problem of the machine with these intercepts, which is certified; by default that
            which is fitted.

        Returns
        -------
        run : FitRun
            The finished run.
        converged : bool
            Whether the solver has converged.
        """
        present = np.flatnonzero(weights > 0)
        plan = self._plan(rows.n_rows)
        sample, stated = Sample(rows, targets, weights), stated or problem
        if len(present) < rows.n_rows:
            sample = sample.take(present)
            problem, stated = problem.take(present), stated.take(present)
        self._gamma = self._resolved_gamma(rows)
        self.kernel_ = self._given_kernel()
        kernel = self._compiled(X)
        with FitRun(self, sample, present, n_stages=6) as run:
            run.same_matrix(X)
            check_positive_definite(kernel, sample, run.rng)
            chooser = run.problem(kernel, ridge)
            moving = self._moving(sample, run.rng)
            plan = timed(plan, run.clock, chooser, moves=moving is not None)
            spanned = SpannedRows(chooser, self.dtype)
            log: list[Step] = []
            automatic = self.n_basis == "auto" and plan.tol is None
            few = sample.n_rows <= limits.SMALL_ROWS
            certifying = plan.tol is not None or (automatic and few)
            kind = "exact" if certifying else plan.certificate

            start, reason = None, ""
            if automatic and not few:
                grown = GrowingBasis(plan, problem, moving, chooser, spanned, run).grow()
                pool, start, log, reason = grown.pool, grown.start, grown.steps, grown.reason
                moving, n = None, len(pool)
            else:
                n = min(plan.n_basis, FIRST_SIZE) if certifying else plan.n_basis
                choice = run.recorded(
                    "choose", partial(_choose, replace(plan, n_basis=n), chooser, run)
                )
                pool, n = choice.pool, len(choice.pool)
            size_before = -1
            for growth in itertools.count():
                pool, solution = _move_and_solve(
                    pool, growth, moving, problem, chooser, spanned, run, start
                )
                span, features = spanned(pool)

                if self.certificate == "auto" and run.out_of_time:
                    kind = None
                certificate, product = None, None
                if kind is not None:
                    run.begin("certify")
                    certificate, product = _certify(
                        kind, stated, span, features, solution, shift, chooser
                    )
                value = objective(problem, solution)
                gap = np.nan if certificate is None else certificate.relative_gap
                log.append((len(span), value, gap, spent(chooser.meter)))

                if not certifying:
                    reason = reason or ("rank" if len(span) < n else choice.path.stop_reason)
                    break
                if plan.tol is not None and gap <= plan.tol:
                    reason = "tol"
                    break
                if automatic and certificate is not None and _close(certificate):
                    reason = "no gain"
                    break
                if run.out_of_time:
                    reason = "interrupted" if run.stopping else "time"
                    break
                if len(span) >= plan.n_basis:
                    reason = "n_basis"
                    break
                assert product is not None
                run.begin("grow")
                n = min(plan.n_basis, int(_GROWTH * len(span)) + 1)
                grow = partial(_grow, span, features, product, n, chooser)
                pool = run.recorded(f"grow-{growth}", grow)
                # Rows that are added may depend on the span to working precision.
                if len(pool) == len(span) or len(span) <= size_before:
                    reason = "rank"
                    break
                size_before = len(span)
            if kind == "exact" and plan.certificate != "exact":
                certificate = None
                if plan.certificate == "diagonal":
                    certificate, _ = _certify(
                        "diagonal", stated, span, features, solution, shift, chooser
                    )

        index = span.pool.index
        self.n_basis_ = len(span)
        self.basis_ = None if reads_matrix(self) else span.pool.items
        self.basis_indices_ = as_passed(index, present)
        coefficients = span.coefficients(solution.coordinates)
        self.dual_coef_ = coefficients[:, 0] if self._single_output else coefficients
        self.intercept_ = solution.intercepts + shift
        self.support_ = present[np.flatnonzero(solution.dual.any(axis=1))]
        self.n_iter_ = solution.steps
        self.certificate_ = None if certificate is None else kept(certificate)
        self.path_ = _path(self.basis_indices_, log, reason)
        self._keep_bound_basis(kernel)
        return run, solution.converged

    def _report_end(self, run: FitRun, converged: bool, strained: str) -> None:
        """Warn of what the caller should know; ``strained`` makes the problem hard if large."""
        if run.stopping:
            interrupt(f"{self.n_basis_} basis functions")
        if not converged:
            warn(
                f"the solver did not converge in {self.n_iter_} steps: {strained} may be too large "
                "for the scale of the kernel.",
                ConvergenceWarning,
            )
        certificate = self.certificate_
        if self.tol is not None and (certificate is None or certificate.relative_gap > self.tol):
            reached = "unknown" if certificate is None else f"{certificate.relative_gap:.3g}"
            remedy = "max_time" if self.path_.stop_reason == "time" else "n_basis"
            warn(
                f"tol={self.tol:g} was not met: the relative gap at {self.n_basis_} functions is "
                f"{reached}. Raise {remedy} or tol.",
                ConvergenceWarning,
            )

    def _certified(
        self, X: Any, rows: RowSource, problem: MachineProblem, weights: Floats
    ) -> Certificate:
        """The exact-pass certificate of the fitted machine for the problem that rows pose."""
        present = np.flatnonzero(weights > 0)
        sample = Sample(rows, problem.targets, weights)
        if len(present) < rows.n_rows:
            sample, problem = sample.take(present), problem.take(present)
        kernel = self._compiled(X)
        with Workers(self.n_jobs) as workers:
            coefficients = self._coefficients if self.n_basis_ else np.zeros((0, problem.n_outputs))
            function = StoredFunction.of(
                self._points if self.n_basis_ else None,
                coefficients,
                problem.shifts(self.intercept_),
                sample.rows,
                kernel,
                workers,
            )
            if problem.squared:
                dual = problem.dual_point(function.fitted.value)
            else:
                # A loss with corners has to be solved again: f does not determine the dual point.
                rng = seeded(self.random_state)
                chooser = Problem(sample, kernel, 1.0, workers, CostMeter(kernel), rng)
                pool = Pool(self._points, self.basis_indices_)
                dual = SpannedRows(chooser, self.dtype).solve(problem, pool).dual
            certificate, _ = exact_certificate(problem, function, dual)
        return certificate

    @property
    def _coefficients(self) -> Floats:
        """β with one column per output; only where there is a basis."""
        return self.dual_coef_.reshape(self.n_basis_, -1)

    def _functions(self, X: Any) -> Floats:
        """f at the rows, one column per output."""
        check_is_fitted(self)
        if self.n_basis_ == 0:
            rows, _ = prediction_rows(self, X)
            return np.zeros((rows.n_rows, len(self.intercept_)))
        return self._expanded(X, self._coefficients)

    def _saved_state(self) -> dict[str, Any]:
        state = super()._saved_state()
        state.pop("support_", None)
        return state

    def _kernel_parameters(self) -> dict[str, Any]:
        return {**super()._kernel_parameters(), "gamma": self._gamma}

    def _resolved_gamma(self, rows: RowSource) -> float | None:
        """``"scale"`` and ``"auto"`` as in scikit-learn's SVC."""
        if not isinstance(self.gamma, str):
            return self.gamma
        if not hasattr(self, "n_features_in_") or reads_matrix(self):
            raise ValueError(f"gamma={self.gamma!r} needs rows of numbers: give gamma a number.")
        d = int(self.n_features_in_)
        if self.gamma == "auto":
            return 1.0 / d
        variance = _variance(rows, d)
        return 1.0 / (d * variance) if variance > 0 else 1.0

    def _plan(self, n_rows: int) -> SearchPlan:
        """How the basis is chosen and which certificate is computed, the arguments checked."""
        if self.tol is not None and self.certificate in (None, "diagonal"):
            raise ValueError(
                "tol stops the growth of the basis by the exact certificate: use "
                f"certificate='auto' or 'exact' instead of {self.certificate!r}, or tol=None."
            )
        kind = self.certificate
        if kind == "auto":
            exact = self.tol is not None or n_rows <= _AUTO_CERTIFICATE_ROWS
            kind = "exact" if exact else "diagonal"
        return SearchPlan(
            n_basis=AUTO_BASIS if self.n_basis == "auto" else int(self.n_basis),
            search=with_checked_points(self, estimator_search(self, _SEARCHES)),
            tol=self.tol,
            certificate=kind,
            max_time=self.max_time,
        )

    def _moving(self, sample: Sample, rng: np.random.Generator) -> Moving | None:
        """How the points are moved; None where they are not."""
        automatic = self.refine == "auto"
        steps = _AUTO_STEPS if automatic else int(self.refine)
        if steps == 0 or (automatic and sample.n_rows <= limits.SMALL_ROWS):
            return None
        kernel = self.kernel_
        features = int(getattr(self, "n_features_in_", 0))
        if isinstance(kernel, str) and kernel == "rbf" and features:
            gamma = 1.0 / features if self._gamma is None else self._gamma
            kernel = RBF(np.sqrt(0.5 / gamma))
        core = without_white(kernel)[0] if isinstance(kernel, SklearnKernel) else None
        gradient = None if core is None or not features else kernel_gradient(core, "points")
        if automatic:
            numeric = isinstance(sample.rows.take(np.arange(1)), np.ndarray)
            if gradient is None or not numeric or features > _MOST_MOVED_FEATURES:
                return None
        if gradient is None:
            raise ValueError(
                f"refine={self.refine!r} moves points along the kernel's gradient, which "
                f"{self.kernel_!r} does not have: use refine=False."
            )
        return Moving(gradient, length_units(core, feature_deviations(sample, rng)), steps)


def _choose(plan: SearchPlan, chooser: Problem, run: FitRun) -> Any:
    """The (first) basis, chosen by least squares."""
    tick = run.begin("choose", plan.n_basis)
    return pooled_search(plan, chooser).run(plan.n_basis, [run.interrupted], tick)


def _move_and_solve(
    pool: Pool,
    growth: int,
    moving: Moving | None,
    problem: MachineProblem,
    chooser: Problem,
    spanned: SpannedRows,
    run: FitRun,
    start: Floats | None,
) -> tuple[Pool, SpanFunction]:
    """Move the points if that is asked for and there is time, and solve in their span.

    Both are recorded in the checkpoint, under names that tell a moved basis from one that was not.
    """
    name = f"solve-{growth}"
    if moving is not None and not run.out_of_time:
        run.begin("move")
        moved = partial(move, pool, moving, problem, chooser, spanned, run.clock.left())
        pool, solution = run.recorded(f"move-{growth}", moved)
        if solution is not None:
            return pool, solution
        name = f"solve-moved-{growth}"
    run.begin("solve")
    return pool, run.recorded(name, partial(spanned.solve, problem, pool, start=start))


def _certify(
    kind: str,
    problem: MachineProblem,
    span: Span,
    features: SpanFeatures,
    solution: SpanFunction,
    shift: Floats | float,
    chooser: Problem,
) -> tuple[Certificate | None, DualPass | None]:
    """A certificate of this kind, and the kernel product that an exact one has taken."""
    function = StoredFunction.of(
        span.pool.items,
        span.coefficients(solution.coordinates),
        problem.shifts(solution.intercepts + shift),
        chooser.sample.rows,
        chooser.kernel,
        chooser.workers,
        chooser.meter,
    )
    if kind == "exact":
        return exact_certificate(problem, function, solution.dual, chooser.meter)
    return diagonal_certificate(problem, function, solution.dual, span, features), None


def _close(certificate: Certificate) -> bool:
    """Whether a model is proved to be as good as the best one, for practical purposes."""
    return certificate.gap <= _CLOSE * abs(certificate.upper)


def _grow(span: Span, features: SpanFeatures, product: DualPass, n: int, chooser: Problem) -> Pool:
    """The basis with further rows, those where the support vectors miss most.

    The full kernel turns a into g = Σ a_i k(x_i, ·). The part of g outside the span, a'Ea, is the
    gap. Candidates are the rows with the largest a_i² d_i. They are taken in the order in which
    they remove most of a'Ea: a pursuit on H = K with b = Ka.
    """
    kept, kernel, workers = span.pool, chooser.kernel, chooser.workers
    if not len(product.support):
        return kept
    squares = features.squares(workers)[product.support]
    support = held(chooser.sample.rows, product.support)
    diagonal = np.concatenate([kernel.diag(items) for _, items in support.blocks()])
    missed = (product.dual**2).sum(axis=1) * np.maximum(diagonal - squares, 0.0)
    missed[np.isin(product.support, kept.index)] = 0.0
    order = np.argsort(-missed, kind="stable")
    if chooser.sample.n_rows > limits.SMALL_ROWS:
        order = order[: _CANDIDATES * (n - len(span))]
    order = order[missed[order] > 0]
    if not len(order):
        return kept
    pool = kept + Pool.of_rows(chooser.sample, product.support[order])
    inside = kernel_transpose_times(support, kernel, kept.items, product.dual, workers)
    K = kernel_matrix(kernel, pool.items, workers)
    objective = QuadraticPursuit(
        np.diag(K),
        np.vstack([inside, product.product[order]]),
        K,
        capacity=n,
        workers=workers,
        rounding=kernel.rounding,
    )
    pursuit = Pursuit(objective, chooser.meter)
    pursuit.take(range(len(kept)))
    pursuit.run([MaxSize(n)])
    return pool.take(objective.chosen)


def _path(index: Indices, log: list[tuple[int, float, float, Floats]], reason: str) -> Path:
    """One entry per basis function; values and gaps at the sizes that were solved."""
    n = len(index)
    value, gap, costs = np.full(n, np.nan), np.full(n, np.nan), np.zeros((n, 3))
    start = 0
    for size, least, relative_gap, reading in log:
        costs[start:size] = reading
        start = max(start, size)
        if 0 < size <= n:
            value[size - 1], gap[size - 1] = least, relative_gap
    seconds, entries, passes = costs.T
    return Path(index.copy(), value, gap, seconds, entries.astype(np.int64), passes, reason)


def _variance(rows: RowSource, n_features: int) -> float:
    """Variance of all entries of X together."""
    count = rows.n_rows * n_features
    blocks: Any = rows.blocks
    mean = sum(float(items.sum(dtype=np.float64)) for _, items in blocks()) / count
    squares = 0.0
    for _, items in blocks():
        stored = items.data if hasattr(items, "nnz") else np.asarray(items, dtype=np.float64)
        zeros = items.shape[0] * n_features - stored.size
        squares += float(((stored - mean) ** 2).sum()) + zeros * mean**2
    return squares / count
