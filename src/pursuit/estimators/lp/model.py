"""What both LP machines share: growing the basis, storing it, evaluating it."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.constraints import EXECUTION, KERNEL, MAX_TIME
from pursuit.estimators.fit_run import FitRun, interrupt, warn
from pursuit.estimators.inputs import (
    check_symmetric,
    is_precomputed,
    prediction_rows,
)
from pursuit.estimators.kernelmodel import BasisModel
from pursuit.estimators.lp.growing import Growth, GrowthPlan
from pursuit.estimators.progress import CallbackSupportMixin
from pursuit.estimators.reporting import ReportedModel
from pursuit.greedy import Meter, Path
from pursuit.kernels import CountingKernel
from pursuit.rows import RowSource, Sample, SelectedRows, draw_rows, source_numbers
from pursuit.solvers import LinearLosses

_CHECK_ROWS = 256


class LPMachine(CallbackSupportMixin, BasisModel, ReportedModel, BaseEstimator):
    """Minimise Σ_j |a_j| + C Σ_i s_i ℓ(y_i, f(x_i)), f = Σ_j a_j k(·, x_j) + b, over all rows j."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable, SklearnKernel],
        "C": [Interval(numbers.Real, 0, None, closed="neither")],
        "tol": [Interval(numbers.Real, 0, 1, closed="both")],
        "n_basis": [None, Interval(numbers.Integral, 1, None, closed="left")],
        "batch_size": [Interval(numbers.Integral, 1, None, closed="left")],
        "pricing": [StrOptions({"all"}), Interval(numbers.Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", "highs", "linprog"})],
        "max_time": MAX_TIME,
        **KERNEL,
        **EXECUTION,
    }

    kernel: Any
    C: float
    tol: float
    n_basis: int | None
    batch_size: int
    pricing: int | str
    solver: str
    max_time: float | None
    gamma: float | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None
    n_jobs: int | None
    random_state: Any
    verbose: int

    basis_: Any
    basis_indices_: Indices
    n_basis_: int
    dual_coef_: Floats
    intercept_: Any
    objective_: float
    certificate_: Certificate
    path_: Path
    n_iter_: int
    _single_output: bool
    _n_outputs: int

    def _grow(
        self,
        X: Any,
        rows: RowSource,
        present: Indices,
        losses: list[LinearLosses],
        shifts: Floats,
        spreads: Floats,
    ) -> None:
        """Solve for the losses of the rows ``present``, one an output, and store what is found.

        0 and 1 in the losses are ``shifts`` and ``shifts + spreads`` in units of y.
        """
        rows = rows if len(present) == rows.n_rows else SelectedRows(rows, present)
        self.kernel_ = clone(self.kernel) if isinstance(self.kernel, SklearnKernel) else self.kernel
        kernel = self._compiled(X)
        plan = GrowthPlan(
            tol=float(self.tol),
            batch_size=self.batch_size,
            n_basis=self.n_basis,
            pool_size=None if isinstance(self.pricing, str) else self.pricing,
            max_time=self.max_time,
            solver=self.solver,
        )
        sample = Sample(rows, np.empty((len(present), 0)), np.ones(len(present)))
        with FitRun(self, sample, present, n_stages=1) as run:
            self._check_kernel(kernel, rows, run.rng)
            run.begin("grow")
            growth = Growth(
                plan, rows, losses, spreads, kernel, run.workers, Meter(kernel), run.rng
            )
            self.path_ = growth.run(lambda: run.stopping, self._print_line)
            chosen, a, b = growth.model()
            self.certificate_ = growth.certificate()
        self.objective_ = self.certificate_.upper
        self.n_iter_ = len(self.path_)
        self.basis_indices_ = present[chosen]
        self.basis_ = None if is_precomputed(self.kernel) else rows.take(chosen)
        self.n_basis_ = len(chosen)
        self._keep_bound_basis(kernel)
        self.dual_coef_ = a[:, 0] if self._single_output else a
        b = shifts + spreads * b
        self.intercept_ = float(b[0]) if self._single_output else b
        self._n_outputs = len(b)
        if self.path_.stop_reason == "no gain":
            warn(
                f"tol={self.tol} is beyond the rounding of the linear programmes: no kernel "
                "function would bring a gain, and the gap that is left is "
                f"{self.certificate_.gap:.3g} of {self.certificate_.upper:.6g}. Raise tol, scale "
                "the features or the kernel, or use a smaller C.",
                ConvergenceWarning,
            )
        if run.stopping:
            interrupt(f"the best {self.n_basis_} kernel functions found so far")

    def _print_line(self, line: str) -> None:
        if self.verbose > 1:
            print(f"[{type(self).__name__}] {line}", flush=True)

    def _check_kernel(
        self, kernel: CountingKernel, rows: RowSource, rng: np.random.Generator
    ) -> None:
        """Refuse a kernel that is not symmetric on a few rows; it need not be definite."""
        if kernel.positive_definite:
            return
        some = draw_rows(rows.n_rows, _CHECK_ROWS, rng)
        items = rows.take(some)
        check_symmetric(kernel.tile(items, items), source_numbers(rows, some))

    def _values(self, X: Any) -> Floats:
        """f at the rows, one column an output."""
        check_is_fitted(self)
        if not self.n_basis_:
            rows, _ = prediction_rows(self, X)
            constant: Floats = np.zeros((rows.n_rows, self._n_outputs)) + self.intercept_
            return constant
        coefficients = self.dual_coef_.reshape(self.n_basis_, self._n_outputs)
        values = self._expanded(X, coefficients)
        values += self.intercept_
        return values
