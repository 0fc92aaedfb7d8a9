"""What both kernel matching pursuits share: choosing, bounding, predicting, truncating."""

from __future__ import annotations

import copy
import numbers
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.bounds import Bound
from pursuit.estimators.constraints import EXECUTION, KERNEL, POOLED
from pursuit.estimators.fit_run import FitRun, interrupt, warn
from pursuit.estimators.inputs import (
    is_precomputed,
    prediction_rows,
    size_on_path,
    validate_items,
)
from pursuit.estimators.kernelmodel import BasisModel
from pursuit.estimators.matching.fit import MatchingFit
from pursuit.estimators.matching.judges import Judge
from pursuit.estimators.matching.path import AtomPath, atoms_of
from pursuit.estimators.matching.search import MatchingPlan
from pursuit.estimators.progress import CallbackSupportMixin
from pursuit.estimators.reporting import ReportedModel
from pursuit.gram import kernel_times
from pursuit.greedy import Path, Pool
from pursuit.kernels import Dictionary
from pursuit.linalg import Workers
from pursuit.objectives import RowLoss
from pursuit.rows import Sample

_THEOREM = "Hussain & Shawe-Taylor 2008, Theorem 3"


class MatchingPursuitModel(CallbackSupportMixin, BasisModel, ReportedModel, BaseEstimator):
    """Fit f = Σ_j β_j k(·, c_j) + c by matching pursuit, at a size that a bound may choose."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable, SklearnKernel, list, tuple],
        "n_basis": [
            StrOptions({"bound", "validation"}),
            Interval(numbers.Integral, 1, None, closed="left"),
        ],
        "fitting": [StrOptions({"prefit", "backfit", "basic"})],
        "refit_every": [Interval(numbers.Integral, 1, None, closed="left")],
        "tolerance": [
            StrOptions({"auto"}),
            Interval(numbers.Real, 0, None, closed="neither"),
        ],
        "delta": [Interval(numbers.Real, 0, 1, closed="neither")],
        "fit_intercept": ["boolean"],
        "centers": [None, "array-like", "sparse matrix", list],
        "pool_size": POOLED["pool_size"],
        "selection_rows": POOLED["selection_rows"],
        "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
        **KERNEL,
        **EXECUTION,
    }

    path_: Path
    basis_: Any
    basis_indices_: Indices
    basis_kernels_: Indices
    n_basis_: int
    dual_coef_: Floats
    intercept_: Any
    generalisation_bound_: Bound
    printed_bound_: Bound
    _single_output: bool

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        n_basis: int | str = "bound",
        fitting: str = "prefit",
        refit_every: int = 1,
        tolerance: float | str = "auto",
        delta: float = 0.05,
        fit_intercept: bool = True,
        centers: Any = None,
        pool_size: int | str = "auto",
        selection_rows: int | str | None = "auto",
        validation_fraction: float = 0.2,
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_basis = n_basis
        self.fitting = fitting
        self.refit_every = refit_every
        self.tolerance = tolerance
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.centers = centers
        self.pool_size = pool_size
        self.selection_rows = selection_rows
        self.validation_fraction = validation_fraction
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def truncated(self, n: int) -> Self:
        """The model of the first n basis functions, without a pass over the data.

        Parameters
        ----------
        n : int
            From 1 to ``n_basis_``.

        Returns
        -------
        model : same class
            A new, fitted model.
        """
        check_is_fitted(self)
        n = size_on_path(n, self.n_basis_)
        model = copy.copy(self)
        model._store(self._atoms.truncated(n))
        for name in ("generalisation_bound_", "printed_bound_"):
            bound = getattr(self, name)
            setattr(model, name, replace(bound, size=bound.size[:n], value=bound.value[:n]))
        return model

    def _fit_model(
        self,
        X: Any,
        sample: Sample,
        judge: Judge,
        loss: RowLoss | None,
        level: Floats,
        statements: tuple[str, list[str]],
    ) -> None:
        """Choose functions, fit them to the sample, and bound what the model will do.

        ``level`` was taken off the targets. ``statements`` are what the bound is about, and what
        has to be granted.
        """
        present = np.flatnonzero(sample.weights > 0)
        if len(present) < sample.n_rows:
            sample = sample.take(present)
        self._level, self._n_outputs = level, sample.n_outputs
        several = isinstance(self.kernel, list | tuple)
        given = self.kernel if several else [self.kernel]
        self._set_kernels([clone(k) if isinstance(k, SklearnKernel) else k for k in given], several)
        kernels = self._compiled_kernels(X)
        with FitRun(self, sample, present, n_stages=3) as run:
            problem = run.problem(kernels[0], noise=0.0)
            fitter = MatchingFit(self._plan(loss), problem, kernels, self._given_centers(), judge)
            found = fitter.run(run)
        rows = found.centers.index
        as_passed = np.where(rows >= 0, present[rows], -1)
        path = replace(found.path, index=as_passed)
        found = replace(found, centers=Pool(found.centers.items, as_passed), path=path)
        self._store(found)
        if len(kernels) == 1:
            self._keep_bound_basis(kernels[0])
        quantity, caveats = statements
        self.generalisation_bound_, self.printed_bound_ = (
            Bound(
                f"{_THEOREM}{', as printed' if printed else ''}",
                quantity,
                np.arange(1, len(fitter.errors) + 1),
                fitter.bound(printed=printed),
                trivial=1.0,
                confidence=1.0 - float(self.delta),
                caveat="; ".join([*caveats, *self._caveats(sample)]),
            )
            for printed in (False, True)
        )
        if self.n_basis == "bound" and not np.isfinite(self.printed_bound_.value).any():
            warn(
                f"with tolerance={self.tolerance!r} every row outside the basis is an error at "
                f"each of the {len(fitter.errors)} sizes tried, so the bound is vacuous and cannot "
                "choose: the model has 1 basis function. Raise tolerance, or let "
                "n_basis='validation' choose."
            )
        if run.stopping:
            interrupt(f"the best {self.n_basis_} basis functions found so far")

    def _plan(self, loss: RowLoss | None) -> MatchingPlan:
        return MatchingPlan(
            n_basis=self.n_basis,
            fitting=self.fitting,
            refit_every=self.refit_every,
            intercept=self.fit_intercept,
            loss=loss,
            pool_size=self.pool_size,
            selection_rows=self.selection_rows,
            validation_fraction=float(self.validation_fraction),
            delta=float(self.delta),
        )

    def _caveats(self, sample: Sample) -> list[str]:
        found = []
        if self.centers is not None:
            found.append("if the centers were fixed before the data were seen")
        if np.any(sample.weights != 1.0):
            found.append("a row of weight w counts as w rows")
        return found

    def _given_centers(self) -> Any:
        """Points of the user's own, checked."""
        if self.centers is None:
            return None
        if is_precomputed(self.kernel):
            raise ValueError("kernel='precomputed' knows only its rows: use centers=None.")
        return validate_items(self, self.centers, reset=False, name="centers")

    def _set_kernels(self, kernels: list[Any], several: bool) -> None:
        if not kernels:
            raise ValueError("kernel is an empty list: give at least one kernel.")
        if several and any(is_precomputed(kernel) for kernel in kernels):
            raise ValueError("kernel='precomputed' stands alone: it cannot be one of a list.")
        self._kernels = kernels
        self.kernel_ = kernels if several else kernels[0]

    def _kernels_used(self) -> list[Any]:
        return self._kernels

    def _store(self, found: AtomPath) -> None:
        """Keep the largest model, and with it all smaller ones."""
        self._atoms = found
        self.n_basis_ = len(found)
        self.basis_ = None if is_precomputed(self.kernel) else found.centers.items
        self.basis_indices_ = found.centers.index
        self.basis_kernels_ = found.kernel_of
        coefficients, intercept = found.coefficients[:, -1], found.intercepts[-1] + self._level
        self.dual_coef_ = coefficients[:, 0] if self._single_output else coefficients
        self.intercept_ = float(intercept[0]) if self._single_output else intercept
        self.path_ = found.path

    def _values(self, X: Any) -> Floats:
        """f at the rows, one column per output."""
        check_is_fitted(self)
        coefficients = self.dual_coef_.reshape(self.n_basis_, self._n_outputs)
        if len(self._kernels) == 1:
            values = self._expanded(X, coefficients)
        else:
            rows, X = prediction_rows(self, X)
            dictionary = Dictionary(tuple(self._compiled_kernels(X)), self._points)
            atoms = atoms_of(self.basis_kernels_)
            with Workers(self.n_jobs) as workers:
                values = kernel_times(rows, dictionary, atoms, coefficients, workers)
        values += self.intercept_
        return values
