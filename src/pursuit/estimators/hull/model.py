"""What the regressors over an l1 ball share: atoms of all kinds, the fit, predictions."""

from __future__ import annotations

import numbers
import warnings
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_y, check_is_fitted, validate_data

from pursuit.bounds import Bound, Certificate, hull_rate_bound
from pursuit.estimators.constraints import EXECUTION, KERNEL, POOLED
from pursuit.estimators.hull.atoms import (
    AtomSource,
    StackedKernel,
    StoredAtoms,
    kernel_source,
)
from pursuit.estimators.hull.radius import RadiusPath, ball, choose_radius
from pursuit.estimators.hull.search import HullStop, pursue_hull
from pursuit.estimators.inputs import (
    check_lengths,
    counting_kernel,
    is_precomputed,
    prediction_rows,
    training_rows,
    validate_held,
    validate_items,
    validate_weights,
)
from pursuit.estimators.lazily import ScoredRows, lazily
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.sources import as_source, n_rows
from pursuit.gram import kernel_times
from pursuit.greedy import Meter, Path, catch_interrupt
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.objectives.hull import STEPS
from pursuit.rows import Sample, distinct_rows, draw_rows, len_items

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_SMALL = 2000
_FOLDS = 5


class HullModel(ScoredRows, RegressorMixin, ReportedModel, BaseEstimator, ABC):
    """Least squares over an l1 ball of atoms; subclasses say which radius."""

    atoms: Any
    kernel: Any
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
    rate_bound_: Bound

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "atoms": [StrOptions({"kernel", "features"}), "array-like", "sparse matrix", list, object],
        "kernel": [str, callable, SklearnKernel, list, tuple],
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
        rows, X, uses_kernel = self._rows(X, y)
        y = _check_y(y, y_numeric=True, estimator=self).astype(np.float64)
        check_lengths(X, y)
        weights = validate_weights(sample_weight, n_rows(X))
        present = np.flatnonzero(weights > 0)
        self._drop("coef_", "kernel_indices_", "transformer_", "radii_", "mse_path_")
        rng = np.random.default_rng(
            check_random_state(self.random_state).randint(2**31 - 1, size=4)
        )
        with catch_interrupt() as interrupted, Workers(self.n_jobs) as workers:
            if uses_kernel:
                sample = Sample(rows, y[:, None], weights).take(present)
                pool, kernel, source = self._kernel_atoms(sample, X, rng, workers)
                meter, labels = Meter(kernel), np.tile(pool[1], self._n_kernels)
                labels = np.where(labels >= 0, present[labels], -1)
            else:
                Z = self._features(X, y)
                Z = Z if len(present) == len(y) else Z[present]
                source = StoredAtoms.of_features(Z, y[present], weights[present], workers)
                meter, labels = Meter(), np.arange(Z.shape[1])
            wanted = self._radii()
            if isinstance(wanted, float):
                self.radius_ = wanted
            else:
                found = self._search_radius(source, y[present], weights[present], *wanted, rng)
                self.radius_ = found.best
            stop = HullStop(self.n_terms, None, self.tol)
            objective = ball(source.sums(), self.radius_, self.step)
            excess = objective.gap
            path, self.certificate_ = pursue_hull(objective, meter, stop, [interrupted], labels)
            self.path_ = path
        self.rate_bound_ = hull_rate_bound(len(path), objective.curvature, excess)
        held = np.flatnonzero(objective.coefficients)
        self.n_terms_, self.dual_coef_ = len(held), objective.coefficients[held]
        self.basis_indices_ = labels[held]
        if uses_kernel:
            self._keep_basis(X, pool, held)
        else:
            self.basis_, self.coef_ = None, objective.coefficients
        if interrupted.requested:
            warnings.warn(
                f"fit was interrupted: the model holds the {self.n_terms_} terms found so far.",
                stacklevel=4,
            )
            raise KeyboardInterrupt
        if self.verbose:
            print(f"[{type(self).__name__}] radius {self.radius_:.4g}: {self.path_}", flush=True)
        return self

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
            for number, kernel in enumerate(self._kernels(X)):
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

    def _features(self, X: Any, y: Floats) -> Any:
        if hasattr(self.atoms, "transform"):
            self.transformer_ = clone(self.atoms)
            X = self.transformer_.fit_transform(X, y)
        return _matrix(X)

    def _new_features(self, X: Any) -> Any:
        X = self._checked(X, reset=False)
        if hasattr(self.atoms, "transform"):
            X = self.transformer_.transform(X)
        return _matrix(X)

    def _kernels(self, X: Any) -> list[CountingKernel]:
        several = self.kernel if isinstance(self.kernel, list | tuple) else [self.kernel]
        named = {name: getattr(self, name) for name in ("gamma", "coef0", "degree")}
        return [
            counting_kernel(kernel, X, kernel_params=self.kernel_params, **named)[0]
            for kernel in several
        ]

    def _kernel_atoms(
        self, sample: Sample, X: Any, rng: np.random.Generator, workers: Workers
    ) -> tuple[tuple[Any, Indices], CountingKernel, AtomSource]:
        """Points with their row numbers, the kernel, and the sums."""
        if isinstance(self.atoms, str):
            index = self._pool(sample, rng)
            points = sample.rows.take(index)
        else:
            if is_precomputed(self.kernel):
                raise ValueError("centres need a kernel that can be computed, not 'precomputed'.")
            points = validate_items(self, self.atoms, reset=False, name="atoms")
            index = np.full(len_items(points), -1)
        kernels = self._kernels(X)
        kernel = kernels[0] if len(kernels) == 1 else CountingKernel(StackedKernel(kernels))
        source = kernel_source(sample, kernel, points, len(kernels), workers)
        return (points, index), kernel, source

    def _pool(self, sample: Sample, rng: np.random.Generator) -> Indices:
        if sample.n_rows <= _SMALL and self.pool_size == "auto":
            return distinct_rows(sample.rows)
        size = 2 * self.n_terms + 1000 if self.pool_size == "auto" else self.pool_size
        return draw_rows(sample.n_rows, int(size), rng)

    def _keep_basis(self, X: Any, pool: tuple[Any, Indices], held: Indices) -> None:
        points, _ = pool
        which = held % len_items(points)
        self.kernel_indices_ = held // len_items(points)
        if is_precomputed(self.kernel):
            self.basis_ = None
        else:
            self.basis_ = [points[i] for i in which] if isinstance(points, list) else points[which]

    def _points(self, mine: Indices) -> Any:
        if self.basis_ is None:
            return self.basis_indices_[mine]
        if isinstance(self.basis_, list):
            return [self.basis_[i] for i in mine]
        return self.basis_[mine]

    def _search_radius(
        self,
        source: AtomSource,
        y: Floats,
        weights: Floats,
        radii: Floats | None,
        cv: Any,
        rng: np.random.Generator,
    ) -> RadiusPath:
        if len(y) < 2:
            raise ValueError(
                "cross-validation needs at least 2 rows, got 1 sample: pass a radius instead."
            )
        if cv is None:
            order = rng.permutation(len(y))
            folds = [np.sort(part) for part in np.array_split(order, min(_FOLDS, len(y)))]
            splits = [(np.setdiff1d(order, part), part) for part in folds]
        else:
            splits = list(check_cv(cv).split(np.zeros((len(y), 1)), y))
        found = choose_radius(source, splits, weights, radii, self.n_terms, self.step, self.tol)
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
