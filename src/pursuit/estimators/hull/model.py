"""What the regressors over an l1 ball share: atoms of all kinds, the fit, predictions."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_y, check_is_fitted, validate_data

from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, Certificate, hull_rate_bound
from pursuit.estimators.constraints import EXECUTION, KERNEL, POOLED
from pursuit.estimators.fit_run import interrupt
from pursuit.estimators.hull.atoms import (
    StackedKernel,
    StoredAtoms,
    kernel_source,
    some_items,
)
from pursuit.estimators.hull.problem import KINKED, LOSSES, BallProblem, residual_loss
from pursuit.estimators.hull.radius import RadiusPath, choose_radius
from pursuit.estimators.hull.rounds import BallFit, Pool, RowAtoms, pursue_ball
from pursuit.estimators.inputs import (
    check_lengths,
    is_precomputed,
    prediction_rows,
    seeded,
    seeded_clone,
    training_rows,
    validate_held,
    validate_items,
    validate_weights,
)
from pursuit.estimators.kernelmodel import KernelModel
from pursuit.estimators.lazily import ScoredRows, lazily
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.sources import as_source, n_rows
from pursuit.gram import kernel_times
from pursuit.greedy import Meter, Path, catch_interrupt
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.objectives import HuberResidual
from pursuit.objectives.hull import STEPS
from pursuit.rows import Sample, distinct_rows, draw_rows, len_items

_SMALL = 2000
"""Up to so many rows the kernel functions at all of them are chosen from at once."""
_FOLDS = 5


class HullModel(ScoredRows, RegressorMixin, KernelModel, ReportedModel, BaseEstimator, ABC):
    """Regression over an l1 ball of atoms; subclasses say which radius."""

    atoms: Any
    kernel: Any
    loss: str
    quantile: float
    n_terms: int
    step: str
    tol: float | None
    pool_size: int | str
    gamma: float | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None
    n_jobs: int | None
    random_state: Any
    verbose: int

    radius_: float
    n_terms_: int
    basis_: Any
    basis_indices_: Indices
    dual_coef_: Floats
    path_: Path
    certificate_: Certificate
    rate_bound_: Bound | None
    delta_: float

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "atoms": [StrOptions({"kernel", "features"}), "array-like", "sparse matrix", list, object],
        "kernel": [str, callable, SklearnKernel, list, tuple],
        "loss": [StrOptions(set(LOSSES))],
        "quantile": [Interval(numbers.Real, 0, 1, closed="neither")],
        "n_terms": [Interval(numbers.Integral, 1, None, closed="left")],
        "step": [StrOptions(set(STEPS))],
        "tol": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "pool_size": POOLED["pool_size"],
        **KERNEL,
        **EXECUTION,
    }

    @abstractmethod
    def _radii(self) -> tuple[Floats | None, Any] | float:
        """The radius, or the radii and splits that choose it."""

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Self:
        self._check_loss()
        rows, X, uses_kernel = self._rows(X, y)
        y = _check_y(y, y_numeric=True, estimator=self).astype(np.float64)
        check_lengths(X, y)
        weights = validate_weights(sample_weight, n_rows(X))
        present = np.flatnonzero(weights > 0)
        self._drop(
            "coef_",
            "kernel_indices_",
            "transformer_",
            "radii_",
            "mse_path_",
            "delta_",
        )
        rng = seeded(self.random_state)
        loss = residual_loss(self.loss, self.quantile, y[present], weights[present])
        if isinstance(loss, HuberResidual):
            self.delta_ = loss.delta
        problem = BallProblem(y[present], weights[present], loss, self.step, self.n_terms)
        with catch_interrupt() as interrupted, Workers(self.n_jobs) as workers:
            if uses_kernel:
                sample = Sample(rows, y[:, None], weights).take(present)
                kernel, pool = self._kernel_atoms(sample, X, rng, workers)
                meter = Meter(kernel)
            else:
                X = X if len(present) == n_rows(X) else _safe_indexing(X, present)
                pool, meter = self._feature_atoms(X, problem, rng, workers), Meter()
            radii = self._radii()
            if isinstance(radii, float):
                self.radius_ = radii
            else:
                self.radius_ = self._search_radius(pool, problem, *radii, rng).best
            pool = replace(pool, over=f"the l1 ball of radius {self.radius_:g} of {pool.over}")
            fit = pursue_ball(problem, pool, self.radius_, self.tol, meter, interrupted)
        self._keep(fit, X, present)
        if interrupted.requested:
            interrupt(f"the {self.n_terms_} terms found so far")
        if self.verbose:
            print(f"[{type(self).__name__}] radius {self.radius_:.4g}: {self.path_}", flush=True)
        return self

    def _check_loss(self) -> None:
        if self.loss != "quantile" and self.quantile != 0.5:
            raise ValueError(
                f"quantile={self.quantile} is for loss='quantile', and loss is {self.loss!r}: pass "
                "loss='quantile', or leave quantile out."
            )
        if self.loss in KINKED and self.step != "corrective":
            raise ValueError(
                f"step={self.step!r} follows the gradient, and loss={self.loss!r} has kinks, where "
                "there is none: use step='corrective', which solves linear programmes."
            )

    def _keep(self, fit: BallFit, X: Any, present: Indices) -> None:
        """Store what was found."""
        held = np.flatnonzero(fit.coefficients)
        self.certificate_ = fit.certificate
        self.rate_bound_ = _rate_bound(fit)
        self.n_terms_, self.dual_coef_ = len(held), fit.coefficients[held]
        self.path_, self.basis_indices_ = fit.path, fit.pool.labels[held]
        points = fit.pool.points
        if points is None:
            self.basis_, self.coef_ = None, fit.coefficients
            return
        if isinstance(self.atoms, str):
            self.path_ = replace(fit.path, index=present[fit.path.index])
            self.basis_indices_ = present[self.basis_indices_]
        self.kernel_indices_ = held // len_items(points)
        used = held % len_items(points)
        self.basis_ = None if is_precomputed(self.kernel) else some_items(points, used)

    @lazily
    def predict(self, X: Any) -> Floats:
        """Values of the fitted function.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        y : array of shape (n_rows,)
        """
        check_is_fitted(self)
        if hasattr(self, "coef_"):
            return np.asarray(self._new_features(X) @ self.coef_)
        rows, X = prediction_rows(self, X)
        total = np.zeros(rows.n_rows)
        with Workers(self.n_jobs) as workers:
            for number, kernel in enumerate(self._compiled_kernels(X)):
                mine = np.flatnonzero(self.kernel_indices_ == number)
                if len(mine):
                    points = self._points(mine)
                    weights = self.dual_coef_[mine, None]
                    total += kernel_times(rows, kernel, points, weights, workers)[:, 0]
        return total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = is_precomputed(self.kernel) and self._uses_kernel()
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = not precomputed
        return tags

    # What X is turned into

    def _uses_kernel(self) -> bool:
        if isinstance(self.atoms, str):
            return self.atoms != "features"
        return not hasattr(self.atoms, "transform")

    @property
    def _n_kernels(self) -> int:
        return len(self.kernel) if isinstance(self.kernel, list | tuple) else 1

    def _rows(self, X: Any, y: Any) -> tuple[Any, Any, bool]:
        if y is None:
            raise ValueError(
                "requires y to be passed, but the target y is None: pass the targets as fit(X, y), "
                "or name their column by target=."
            )
        if isinstance(self.atoms, str) and self.atoms not in ("kernel", "features"):
            raise ValueError(
                f"atoms={self.atoms!r} is not known: use 'kernel', 'features', an array or list of "
                "points, or a transformer."
            )
        if self._uses_kernel():
            if not self._n_kernels:
                raise ValueError("kernel is an empty list: pass at least one kernel.")
            rows, X = training_rows(self, X)
            return rows, X, True
        return None, self._checked(X, reset=True), False

    def _checked(self, X: Any, *, reset: bool) -> Any:
        if hasattr(self.atoms, "transform") and as_source(X) is None:
            return validate_data(self, X, reset=reset, skip_check_array=True)
        return validate_held(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
        )

    def _feature_atoms(
        self, X: Any, problem: BallProblem, rng: np.random.Generator, workers: Workers
    ) -> Pool:
        """All columns of X, or of what the transformer makes of it."""
        kind = "features"
        if hasattr(self.atoms, "transform"):
            self.transformer_ = seeded_clone(self.atoms, int(rng.integers(2**31)))
            X = self.transformer_.fit_transform(X, problem.y)
            kind = f"outputs of {type(self.atoms).__name__}"
        Z = _matrix(X)
        source = StoredAtoms.of_features(Z, problem.y, problem.weights, workers)
        return Pool(source, np.arange(Z.shape[1]), f"all {Z.shape[1]} {kind}")

    def _new_features(self, X: Any) -> Any:
        X = self._checked(X, reset=False)
        if hasattr(self.atoms, "transform"):
            X = self.transformer_.transform(X)
        return _matrix(X)

    def _kernels_used(self) -> list[Any]:
        return list(self.kernel) if isinstance(self.kernel, list | tuple) else [self.kernel]

    def _kernel_atoms(
        self, sample: Sample, X: Any, rng: np.random.Generator, workers: Workers
    ) -> tuple[CountingKernel, Pool]:
        """The kernel, and the atoms to begin with."""
        kernels = self._compiled_kernels(X)
        self._freeze_kernel()
        kernel = kernels[0] if len(kernels) == 1 else CountingKernel(StackedKernel(kernels))
        of = "kernel functions" if len(kernels) == 1 else f"functions of {len(kernels)} kernels"
        if not isinstance(self.atoms, str):
            if is_precomputed(self.kernel):
                raise ValueError("centres need a kernel that can be computed, not 'precomputed'.")
            points = validate_items(self, self.atoms, reset=False, name="atoms")
            n = len_items(points)
            source = kernel_source(sample, kernel, points, len(kernels), workers)
            labels = np.full(n * len(kernels), -1)
            return kernel, Pool(source, labels, f"{of} at the {n} points given", points)
        over = f"{of} at all {sample.n_rows} rows"
        auto = self.pool_size == "auto"
        size = 2 * self.n_terms + 1000 if auto else int(self.pool_size)
        atoms = RowAtoms(sample, kernel, len(kernels), size, workers)
        if size >= sample.n_rows or (auto and sample.n_rows <= _SMALL):
            # A row that repeats another has the same kernel functions.
            pool = atoms.pool(distinct_rows(sample.rows), over)
            return kernel, replace(pool, everything=None)
        return kernel, atoms.pool(draw_rows(sample.n_rows, size, rng), over)

    def _points(self, mine: Indices) -> Any:
        return self.basis_indices_[mine] if self.basis_ is None else some_items(self.basis_, mine)

    def _search_radius(
        self,
        pool: Pool,
        problem: BallProblem,
        radii: Floats | None,
        cv: Any,
        rng: np.random.Generator,
    ) -> RadiusPath:
        m = len(problem.y)
        if m < 2:
            raise ValueError(
                "cross-validation needs at least 2 rows, got 1 sample: pass a radius instead."
            )
        if cv is None:
            order = rng.permutation(m)
            folds = [np.sort(part) for part in np.array_split(order, min(_FOLDS, m))]
            splits = [(np.setdiff1d(order, part), part) for part in folds]
        else:
            splits = list(check_cv(cv).split(np.zeros((m, 1)), problem.y))
        found = choose_radius(problem, pool.source, splits, radii, self.tol)
        self.radii_, self.mse_path_ = found.radii, found.errors
        return found

    def _drop(self, *names: str) -> None:
        for name in names:
            if hasattr(self, name):
                delattr(self, name)


def _matrix(X: Any) -> Any:
    """Features as float64, CSR kept."""
    if hasattr(X, "tocsr"):
        return X.tocsr().astype(np.float64)
    return np.asarray(X, dtype=np.float64)


def _rate_bound(fit: BallFit) -> Bound | None:
    """What Theorem 3.1 promises for steps among the atoms of the first pool."""
    if fit.curvature is None:
        return None
    bound = hull_rate_bound(fit.n_first, fit.curvature, fit.excess)
    if fit.pool.everything is None:
        return bound
    over = "the distance of f from its minimum over the hull of the pool that was drawn first"
    return replace(bound, quantity=over)
