"""What all machines in a span share: choosing, solving, certifying and predicting."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.constraints import EXECUTION, KERNEL, POOLED
from pursuit.estimators.fit_run import FitRun, interrupt, warn
from pursuit.estimators.gp.stages import length_units
from pursuit.estimators.inputs import (
    check_positive_definite,
    feature_deviations,
    is_precomputed,
    positive,
    prediction_rows,
    seeded,
)
from pursuit.estimators.kernelmodel import BasisModel, Expansion
from pursuit.estimators.progress import CallbackSupportMixin
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.span.duality import exact_certificate
from pursuit.estimators.span.features import Span, SpanFeatures
from pursuit.estimators.span.searching import SearchPlan, given_search
from pursuit.estimators.svm.fitting import MachineFit, MachineFitter, Moving, Solver
from pursuit.estimators.svm.problem import MachineProblem
from pursuit.estimators.svm.solving import MachineSolution, newton_in_span
from pursuit.gram import kernel_times
from pursuit.greedy import Meter, Path, Pool, Problem
from pursuit.kernels import CountingKernel, kernel_gradient, without_white
from pursuit.linalg import Workers
from pursuit.rows import RowSource, Sample

_RIDGE = 1.0
"""Times 1/C: the ridge of the choice. The loss itself would have half of it; between that and ten
times as much, seeds make more of a difference on kin40k, protein and USPS."""
_AUTO_STEPS = 50
_MOST_MOVED_FEATURES = 256
_AUTO_CERTIFICATE_ROWS = 10_000


class LowRankMachine(CallbackSupportMixin, BasisModel, ReportedModel, BaseEstimator):
    """Fit f + b, f = Σ_j β_j k(·, z_j), with a support vector loss, and certify the result.

    A subclass says what the problem is (`MachineProblem`), and which solver it takes.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable, SklearnKernel],
        "C": [numbers.Real],
        "n_basis": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "search": [StrOptions({"pooled", "full"})],
        **POOLED,
        "certificate": [None, StrOptions({"auto", "exact", "diagonal"})],
        **KERNEL,
        "gamma": [*KERNEL["gamma"], StrOptions({"scale", "auto"})],
        "dtype": [
            StrOptions({"auto", "float64", "float32"}),
            Options(type, {np.float32, np.float64}),
        ],
        **EXECUTION,
    }

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

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        C: float = 1.0,
        n_basis: int = 500,
        tol: float | None = None,
        search: str = "pooled",
        pool_size: int | str = "auto",
        selection_rows: int | str | None = "auto",
        rounds: int = 1,
        candidates: Any = "rows",
        refine: int | str | bool = "auto",
        certificate: str | None = "auto",
        gamma: float | str | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        dtype: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.n_basis = n_basis
        self.tol = tol
        self.search = search
        self.pool_size = pool_size
        self.selection_rows = selection_rows
        self.rounds = rounds
        self.candidates = candidates
        self.refine = refine
        self.certificate = certificate
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _solver(self) -> Solver:
        """What minimises the problem in a span."""
        return newton_in_span

    def _ridge(self) -> float:
        """The σ² by which least squares chooses the basis."""
        return _RIDGE / positive("C", self.C)

    def _fit_machine(
        self,
        X: Any,
        rows: RowSource,
        targets: Floats,
        weights: Floats,
        problem: MachineProblem,
        centred: bool = True,
    ) -> tuple[MachineFit, FitRun]:
        """Choose a basis for these targets, fit the machine in its span, and store it.

        Parameters
        ----------
        X, rows
            As `training_rows` gives them.
        targets : array of shape (n_rows, n_targets)
            What the basis is chosen for, by least squares.
        weights : array of shape (n_rows,)
            Weights of the rows in that choice; a row of weight 0 is absent everywhere.
        problem : MachineProblem
            What is fitted, on the same rows.
        centred : bool
            Whether the targets' means are taken off first, as an intercept will.

        Returns
        -------
        fitted : MachineFit
            The machine, on the rows that have weight.
        run : FitRun
            What :meth:`_report_end` is to be called with.
        """
        ridge = self._ridge()
        self._check_machine_arguments()
        present = np.flatnonzero(weights > 0)
        mean = (weights / weights.sum()) @ targets if centred else 0.0
        sample = Sample(rows, targets - mean, weights)
        if len(present) < rows.n_rows:
            sample, problem = sample.take(present), problem.take(present)
        self._gamma = self._resolved_gamma(rows)
        self.kernel_ = clone(self.kernel) if isinstance(self.kernel, SklearnKernel) else self.kernel
        kernel = self._compiled(X)
        with FitRun(self, sample, present, n_stages=6) as run:
            check_positive_definite(kernel, sample, run.rng)
            fitter = MachineFitter(
                self._plan(sample.n_rows),
                run.problem(kernel, ridge),
                problem,
                self._solver(),
                self._moving(sample, run.rng),
                self.dtype,
                run.begin,
            )
            fitted = fitter.run(run.interrupted)
        self._store(fitted, present)
        self._keep_bound_basis(kernel)
        return fitted, run

    def _store(self, fitted: MachineFit, present: Indices) -> None:
        """Keep the machine; row numbers are those of the rows passed to fit."""
        span, solution, index = fitted.span, fitted.solution, fitted.span.pool.index
        self.n_basis_ = len(span)
        self.basis_ = None if is_precomputed(self.kernel) else span.pool.items
        self.basis_indices_ = np.where(index >= 0, present[index], -1)
        self.dual_coef_ = span.coefficients(solution.coordinates).T
        self.intercept_ = solution.intercepts
        self.support_ = present[np.flatnonzero(solution.dual.any(axis=1))]
        self.n_iter_ = solution.steps
        self.certificate_ = fitted.certificate
        self.path_ = fitted.path
        self.path_.index[:] = self.basis_indices_
        self._squared_norms = solution.squared_norms

    @property
    def _strained(self) -> str:
        """What makes a problem hard."""
        return f"C={self.C!r}"

    def _report_end(self, fitted: MachineFit, run: FitRun) -> None:
        """Say what the caller should know of the fit."""
        if run.stopping:
            interrupt(f"{self.n_basis_} basis functions")
        if not fitted.solution.converged:
            warn(
                f"the solver did not converge in {self.n_iter_} steps: {self._strained} may be "
                "too large for the scale of the kernel.",
                ConvergenceWarning,
            )
        found = self.certificate_
        if self.tol is not None and (found is None or found.relative_gap > self.tol):
            reached = "unknown" if found is None else f"{found.relative_gap:.3g}"
            warn(
                f"tol={self.tol:g} was not met: the relative gap at {self.n_basis_} functions is "
                f"{reached}. Raise n_basis or tol.",
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
            fitted = self._values_at(sample.rows, kernel, workers)
            if problem.squared:
                dual = problem.dual_point(fitted)
            else:
                dual = self._dual_in_span(problem, sample, kernel, workers).dual
            found, _ = exact_certificate(
                problem, fitted, self._squared_norms, dual, sample.rows, kernel, workers
            )
        return found

    def _dual_in_span(
        self, problem: MachineProblem, sample: Sample, kernel: CountingKernel, workers: Workers
    ) -> MachineSolution:
        """Solve again: of a loss with corners, f does not say what the dual point is."""
        rng = seeded(self.random_state)
        chooser = Problem(sample, kernel, 1.0, workers, Meter(kernel), rng)
        span = Span.of(Pool(self._points, self.basis_indices_), chooser)
        features = SpanFeatures(sample.rows, kernel, span, workers, self.dtype)
        return self._solver()(problem, features, workers, rng)

    def _values(self, X: Any) -> Floats:
        """f + b at the rows, one column an output."""
        check_is_fitted(self)
        if self.n_basis_ == 0:
            rows, _ = prediction_rows(self, X)
            return np.tile(self._constants, (rows.n_rows, 1))
        return self._expanded(X, self.dual_coef_.T) + self._constants

    def _expansion(self) -> Expansion:
        # The coefficients have one row per output.
        single = getattr(self, "_single_output", len(self.intercept_) == 1)
        return Expansion.of(self, self.basis_, self.dual_coef_.T, self.intercept_, single=single)

    @property
    def _constants(self) -> Floats:
        """What is added to the expansion."""
        return self.intercept_

    def _values_at(self, rows: RowSource, kernel: CountingKernel, workers: Workers) -> Floats:
        if self.n_basis_ == 0:
            return np.tile(self._constants, (rows.n_rows, 1))
        values = kernel_times(rows, kernel, self._points, self.dual_coef_.T, workers)
        values += self._constants
        return values

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
        if not hasattr(self, "n_features_in_") or is_precomputed(self.kernel):
            raise ValueError(f"gamma={self.gamma!r} needs rows of numbers: give gamma a number.")
        d = int(self.n_features_in_)
        if self.gamma == "auto":
            return 1.0 / d
        variance = _variance(rows, d)
        return 1.0 / (d * variance) if variance > 0 else 1.0

    def _check_machine_arguments(self) -> None:
        if self.tol is not None and self.certificate in (None, "diagonal"):
            raise ValueError(
                "tol stops the growth of the basis by the exact certificate: use "
                f"certificate='auto' or 'exact' instead of {self.certificate!r}, or tol=None."
            )
        rows_only = isinstance(self.candidates, str) and self.candidates == "rows"
        if not rows_only and self.search == "full":
            raise ValueError(
                "search='full' chooses among the rows: candidates other than 'rows' need "
                "search='pooled'."
            )
        if not rows_only and is_precomputed(self.kernel):
            raise ValueError("kernel='precomputed' knows only its rows: use candidates='rows'.")

    def _plan(self, n_rows: int) -> SearchPlan:
        kind = self.certificate
        if kind == "auto":
            exact = self.tol is not None or n_rows <= _AUTO_CERTIFICATE_ROWS
            kind = "exact" if exact else "diagonal"
        return SearchPlan(
            n_basis=int(self.n_basis),
            search=given_search(self),
            tol=self.tol,
            certificate=kind,
            max_time=None,
            dtype=np.float64,
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
        gradient = None if core is None or not features else kernel_gradient(core)
        if automatic:
            dense = isinstance(sample.rows.take(np.arange(1)), np.ndarray)
            if gradient is None or not dense or features > _MOST_MOVED_FEATURES:
                return None
        if gradient is None:
            raise ValueError(
                f"refine={self.refine!r} moves points along the kernel's gradient, which "
                f"{self.kernel_!r} does not have: use refine=False."
            )
        units = length_units(core, feature_deviations(sample, rng))
        return Moving(gradient, units, steps)


def _variance(rows: RowSource, n_features: int) -> float:
    """Of all entries of X together."""
    count = rows.n_rows * n_features
    blocks: Any = rows.blocks
    mean = sum(float(items.sum(dtype=np.float64)) for _, items in blocks()) / count
    squares = 0.0
    for _, items in blocks():
        stored = items.data if hasattr(items, "nnz") else np.asarray(items, dtype=np.float64)
        zeros = items.shape[0] * n_features - stored.size
        squares += float(((stored - mean) ** 2).sum()) + zeros * mean**2
    return squares / count
