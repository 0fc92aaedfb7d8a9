"""What estimators with a kernel share: the kernel as tiles, one fitted expansion, its values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from numbers import Integral
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy.linalg import eigh
from sklearn.base import is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.estimators.arguments import KERNEL
from pursuit.estimators.importance import ExplainedModel
from pursuit.estimators.inputs import (
    NoGradientError,
    TargetScale,
    column_names,
    counting_kernel,
    dense,
    in_double,
    in_single,
    is_precomputed,
    prediction_rows,
    reads_matrix,
    resolved_kernel,
)
from pursuit.estimators.scales import Watch, in_range
from pursuit.gram import expansion_gradient, kernel_diagonal, kernel_times
from pursuit.kernels import (
    BoundKernel,
    ColumnNames,
    CountingKernel,
    Kernel,
    NoFunctionsError,
    PrecomputedKernel,
    expanded,
    function_name,
    resolve_columns,
)
from pursuit.linalg import Workers, single_threaded_blas
from pursuit.rows import BLOCK_ROWS, RowSource, as_table, computed, is_dask, map_lazily

Method = TypeVar("Method", bound=Callable[..., Any])


def lazily(method: Method, *, rounded: bool = False) -> Method:
    """Make a method of rows return dask arrays for a dask collection, and compute nothing yet.

    The model travels with the tasks, and each of them gives the method a partition in memory.
    With ``rounded``, rows in float32 have results in float32.
    """

    @wraps(method)
    def on_any_rows(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_dask(X):
            with Watch(method, (self, X, *args), options) as watch:
                found = watch.checked(method(self, X, *args, **options))
            return _single(found) if rounded and in_single(X) else found
        names = getattr(self, "feature_names_in_", None)
        return map_lazily(
            partial(_called, on_any_rows, self, args, options),
            X,
            None if names is None else [str(name) for name in names],
            getattr(self, "n_features_in_", None),
        )

    return on_any_rows  # type: ignore[return-value]


def in_precision_of_rows(method: Method) -> Method:
    """Make a method of rows lazy, and let it return float32 for rows in float32.

    It computes as for all rows: only the results are rounded, at the end. ``in_double`` gives them
    as they are.
    """
    return lazily(method, rounded=True)


def _single(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(map(_single, found))
    return found.astype(np.float32) if found.dtype == np.float64 else found


class ScoredRows(ExplainedModel):
    """What regressors and classifiers share: a score, also of lazy predictions, and importance."""

    @in_range
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of the predictions for some rows, as scikit-learn defines it.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`predict`.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            True values: the coefficient of determination of regressors, the accuracy of
            classifiers.
        sample_weight : array of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        score : float
        """
        rows = as_table(X) if is_dask(X) else X
        found: float = super().score(rows, computed(y), computed(sample_weight))  # type: ignore[misc]
        return found


def _has_probabilities(model: Any) -> bool:
    return hasattr(model, "predict_proba")


class LoggedProbabilities:
    """Logarithms of the probabilities of a classifier that has them."""

    predict_proba: Callable[..., Any]

    @available_if(_has_probabilities)
    @in_precision_of_rows
    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of :meth:`predict_proba`; -inf for a probability of 0.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`predict_proba`.

        Returns
        -------
        log_probabilities : array of shape (n_rows, n_classes)
        """
        with np.errstate(divide="ignore"):
            logarithms: Floats = np.log(self.predict_proba(X))
        return logarithms


_JOINT_ROWS = 2_000
"""Up to this many rows are drawn jointly, by the eigenvalues of their covariance."""
_MOST_JOINT_ROWS = 10_000
"""The same for models from which no functions can be drawn."""


class SampledRows:
    """Draws from the joint distribution that ``predict`` describes."""

    predict: Callable[..., Any]
    sample_functions: Callable[..., Any]

    @in_range
    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: Any = 0,
        *,
        include_noise: bool = True,
    ) -> Floats:
        """Draw from the joint predictive distribution, as in scikit-learn's GPR.

        Up to 2 000 rows are drawn from their joint covariance, and more by
        :meth:`sample_functions`. Where no functions can be drawn (a kernel without random features,
        near rows), up to 10 000 rows are drawn from their covariance.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`predict`.
        n_samples : int, default 1
            Number of draws.
        random_state : int, RandomState or None, default 0
            Seed.
        include_noise : bool, default True
            Whether to draw observations, or values of the function alone.

        Returns
        -------
        draws : array of shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples)
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, got {n_samples!r}.")
        rng = check_random_state(random_state)
        rows, _ = prediction_rows(self, X)
        if rows.n_rows > _JOINT_ROWS:
            try:
                functions = self.sample_functions(n_samples, rng)
            except NoFunctionsError as error:
                if rows.n_rows > _MOST_JOINT_ROWS:
                    raise NoFunctionsError(
                        f"sample_y draws at up to {_MOST_JOINT_ROWS} rows jointly, and at "
                        f"{rows.n_rows} by functions only: {error}"
                    ) from error
            else:
                values: Floats = functions(X)
                return self._observed(X, values, rng) if include_noise else values
        return self._drawn_jointly(X, n_samples, rng, include_noise)

    def _drawn_jointly(self, X: Any, n_samples: int, rng: Any, include_noise: bool) -> Floats:
        predict = in_double(self.predict)
        mean, covariance = predict(X, return_cov=True, include_noise=include_noise)
        single = mean.ndim == 1
        mean = mean.reshape(len(mean), -1)
        covariance = covariance.reshape(len(mean), len(mean), -1)
        draws = np.empty((*mean.shape, n_samples))
        for output in range(mean.shape[1]):
            eigenvalues, U = eigh(covariance[:, :, output])
            root = U * np.sqrt(np.maximum(eigenvalues, 0.0))
            draws[:, output] = mean[:, [output]] + root @ rng.standard_normal(
                (len(mean), n_samples)
            )
        return draws[:, 0] if single else draws

    @property
    def _observation_noise(self: Any) -> float:
        """Noise variance of new observations in normalised units."""
        return float(self._spread.noise)

    def _observed(self: Any, X: Any, values: Floats, rng: Any) -> Floats:
        """Values of functions, with the noise of the model added."""
        scale = np.sqrt(self._observation_noise) * self._scale.scale
        values += (scale[:, None] if values.ndim == 3 else scale) * rng.standard_normal(
            values.shape
        )
        return values


def _called(method: Method, model: Any, args: Any, options: Any, block: Any) -> Any:
    return method(model, block, *args, **options)


_OF_THE_PROCESS = "_bound", "_frame", "_reserved_rows"
"""Attributes that are made again, or that only what follows in the same fit needs."""
PLAIN_ROWS = 64
"""Up to this many rows of a plain array have their error bars at once, without threads."""


class BoundBasis:
    """The kernel of a fitted model and its points, bound to each other at the first use."""

    def __init__(self, kernel: Kernel, points: Any) -> None:
        self.kernel, self.points = kernel, points
        self._columns: BoundKernel | None = None

    @property
    def columns(self) -> BoundKernel:
        """The bound kernel."""
        if self._columns is None:
            self._columns = self.kernel.columns(self.points)
        return self._columns

    def __call__(self, X: Floats) -> Any:
        """k(X, points)."""
        return self.columns(X)


@dataclass(frozen=True)
class Expansion:
    """The function Σ_j k(x, z_j) c_j + offset of a fitted model, in the units of its output.

    Attributes
    ----------
    points : items
        The z_j.
    coefficients : array of shape (n_points, n_outputs)
        The c_j.
    offset : array of shape (n_outputs,)
        Added to every row.
    kernel_numbers : array of int of shape (n_points,)
        Number of the kernel of each point, where a model has several.
    name : str
        Name of the values.
    single : bool
        Whether the values of the one output are a vector.
    """

    points: Any
    coefficients: Floats
    offset: Floats
    kernel_numbers: Indices
    name: str
    single: bool

    @classmethod
    def of(
        cls,
        model: Any,
        points: Any,
        coefficients: Floats,
        offset: Any = 0.0,
        *,
        name: str | None = None,
        single: bool = False,
    ) -> Expansion:
        """The expansion of a model; coefficients and offset in units of y before it was scaled."""
        C = coefficients if coefficients.ndim == 2 else coefficients[:, None]
        constant = np.broadcast_to(offset, C.shape[1])
        if hasattr(model, "_scale"):
            C, constant = C * model._scale.scale, model._scale.restore(constant)
        numbers = getattr(model, "basis_kernels_", np.zeros(len(C), dtype=np.intp))
        default = "y" if is_regressor(model) else "decision"
        return cls(points, C, constant, numbers, name or default, single or coefficients.ndim == 1)


class KernelModel:
    """An estimator with the parameters kernel, gamma, coef0, degree and kernel_params."""

    kernel: Any
    gamma: float | str | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None

    n_jobs: int | None

    kernel_: Any
    n_features_in_: int

    _expansion: Callable[[], Expansion]
    """The function that the model evaluates, where it is one."""

    _points: Any
    """What the compiled kernel is bound to, where the model is an expansion."""

    _bound: BoundBasis | None = None
    """Set by a fit to numeric rows, so that a few of them are predicted at once."""

    def _kernels_used(self) -> list[Any]:
        """The kernels in use after learning."""
        return [self.kernel_]

    _frozen: ClassVar[tuple[str, ...]] = ()
    """Parameters that the fitted model reads, beside those of named kernels."""

    _fitted_parameters: dict[str, Any]

    def _of_fit(self, name: str) -> Any:
        """A parameter as the last fit had it; before a fit as it is given."""
        return vars(self).get("_fitted_parameters", {}).get(name, getattr(self, name))

    def _kernel_parameters(self) -> dict[str, Any]:
        """Parameters of a named kernel: those of the last fit, whatever is set afterwards."""
        return {name: self._of_fit(name) for name in KERNEL}

    def _freeze_parameters(self) -> None:
        """Keep what the fitted model reads: what is set later waits for the next fit."""
        own = {name: self._of_fit(name) for name in self._frozen}
        self._fitted_parameters = {**self._kernel_parameters(), **own}

    def _known_columns(self) -> ColumnNames:
        """What a kernel may call the columns of the rows that the model is fitted to."""
        return column_names(self)

    def _given_kernel(self, *, expand: bool = True) -> Any:
        """A copy of the kernel, or of the kernels, that the user gave; columns as positions.

        An additive kernel is a plain sum, unless it is not to be expanded.
        """
        known = self._known_columns()
        if isinstance(self.kernel, list | tuple):
            return [expanded(resolved_kernel(kernel, known)) for kernel in self.kernel]
        kernel = resolved_kernel(self.kernel, known)
        return expanded(kernel) if expand else kernel

    def _compile(self, kernel: Any, X: Any) -> tuple[CountingKernel, float]:
        """A kernel as tiles for items like X, and the noise of its White terms."""
        kernel = resolve_columns(kernel, self._known_columns())
        return counting_kernel(kernel, X, **self._kernel_parameters())

    def _compiled_kernels(self, X: Any) -> list[CountingKernel]:
        """All kernels as tiles."""
        return [self._compile(kernel, X)[0] for kernel in self._kernels_used()]

    def _diagonal_of(
        self, rows: RowSource, kernel: Kernel, diagonal: Any, constant: float | None
    ) -> Floats:
        """k(x, x) of new rows.

        A matrix of k(x, training rows) does not hold it. There it is ``diagonal``, or ``constant``
        where k(x, x) is the same for all training rows.
        """
        if reads_matrix(self) and diagonal is None and constant is not None:
            return np.full(rows.n_rows, constant)
        given = self._given_diagonal(rows.n_rows, diagonal)
        return kernel_diagonal(rows, kernel) if given is None else given

    def _given_diagonal(self, n_rows: int, diagonal: Any) -> Floats | None:
        """k(x, x) of new rows as passed with a precomputed matrix; None for other kernels."""
        if not reads_matrix(self):
            if diagonal is not None:
                raise ValueError(
                    "diagonal is for new rows of kernel='precomputed': leave it out, k(x, x) is "
                    "known."
                )
            return None
        if diagonal is None:
            raise ValueError(
                "this takes k(x, x) of the rows, which a precomputed matrix of k(x, training rows) "
                "does not hold: pass it as diagonal=, an array with a number for each row, or fit "
                "with a callable kernel."
            )
        given = np.asarray(diagonal)
        wanted = f"diagonal must hold k(x, x), a finite number for each of the {n_rows} rows"
        if given.shape != (n_rows,):
            raise ValueError(f"{wanted}, got shape {given.shape}.")
        if given.dtype.kind not in "fiu" or not np.all(np.isfinite(given)):
            raise ValueError(f"{wanted}, got values that are none.")
        if n_rows and given.min() < 0:
            raise ValueError(f"{wanted} and at least 0, got {given.min():g}.")
        return given.astype(np.float64)

    def _compiled_with(self, X: Any, n_rows: int, diagonal: Any) -> CountingKernel:
        """The one kernel as tiles, which knows k(x, x) of all rows of X."""
        given = self._given_diagonal(n_rows, diagonal)
        if given is None:
            return self._compiled(X)
        return CountingKernel(PrecomputedKernel(X, given))

    def _compiled(self, X: Any) -> CountingKernel:
        """The one kernel as tiles."""
        [kernel] = self._compiled_kernels(X)
        return kernel

    def _keep_bound(self, kernel: Kernel, points: Any) -> None:
        """Bind the kernel of a fit to its points, once for all predictions of a few rows."""
        numeric = isinstance(points, np.ndarray) and points.ndim == 2
        numeric = numeric and hasattr(self, "n_features_in_") and len(points) > 0
        inner = kernel.kernel if isinstance(kernel, CountingKernel) else kernel
        self._bound = BoundBasis(inner, points) if numeric else None

    @property
    def _fitted_basis(self) -> BoundBasis | None:
        """The kernel bound to the basis, where both are those of the last fit."""
        return self._bound if self._bound and self._bound.points is self._points else None

    def _expanded(self, X: Any, coefficients: Floats) -> Floats:
        """k(X, points) @ coefficients: shape (n_rows, n_outputs)."""
        bound = self._bound_for(X)
        if bound is not None:
            with single_threaded_blas():
                # In the same pieces as rows that are read block by block, to the last bit.
                return bound.columns.times(X, coefficients, limits.PIECE_ENTRIES)
        rows, X = prediction_rows(self, X)
        bound = self._fitted_basis
        kernel = self._compiled(X) if bound is None else bound.kernel
        with Workers(self.n_jobs) as workers:
            return kernel_times(rows, kernel, self._points, coefficients, workers)

    def _bound_for(self, X: Any, most_rows: int = BLOCK_ROWS) -> BoundBasis | None:
        """The kernel bound to the points, if X is plain and too small for threads to pay.

        Plain is a float64 array of finite numbers that needs no conversion, of the right width.
        """
        bound = self._fitted_basis
        plain = (
            bound is not None
            and type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and 0 < len(X) <= most_rows
            and len(X) * len(bound.points) <= limits.TILE_ENTRIES
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and not hasattr(self, "categories_")
            and X.flags.c_contiguous
            and bool(np.isfinite(X).all())
        )
        return bound if plain else None

    def _mean_gradient(self, X: Any) -> Floats:
        """Gradients of the expansion in units of y: shape (n_rows, n_features, n_outputs)."""
        check_is_fitted(self)
        return self._expansion_gradient(self._expansion(), X)

    def _expansion_gradient(self, expansion: Expansion, X: Any) -> Floats:
        """Gradients of an expansion in the model's kernels."""
        rows, kernels = self._differentiable(X)
        points, C = dense(expansion.points), expansion.coefficients
        gradient = np.zeros((rows.n_rows, self.n_features_in_, C.shape[1]))
        with Workers(self.n_jobs) as workers:
            for number, kernel in enumerate(kernels):
                own = expansion.kernel_numbers == number
                if own.any():
                    gradient += expansion_gradient(rows, kernel, points[own], C[own], workers)
        return gradient

    def _differentiable(self, X: Any) -> tuple[RowSource, list[CountingKernel]]:
        """Rows of X, and the kernels in use, or an error where one has no derivatives by x."""
        if not reads_matrix(self):
            rows, items = prediction_rows(self, X)
            kernels = self._compiled_kernels(items)
            if all(kernel.has_points for kernel in kernels):
                return rows, kernels
        named = ", ".join(map(function_name, self._kernels_used()))
        raise NoGradientError(
            f"the derivative of kernel {named} by its inputs is not known: fit with a kernel "
            "object of sklearn.gaussian_process.kernels, for instance RBF() or Matern()."
        )

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {name: value for name, value in state.items() if name not in _OF_THE_PROCESS}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags


class BasisModel(KernelModel):
    """An estimator whose functions are spanned by its basis."""

    basis_: Any
    basis_indices_: Any
    dual_coef_: Floats

    def __sklearn_is_fitted__(self) -> bool:
        return "dual_coef_" in vars(self)

    def _check_fitted(self) -> None:
        """Raise scikit-learn's error before a fit; its own look at tags takes as long as a row."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)

    @property
    def _points(self) -> Any:
        """What the compiled kernel is bound to: basis points, or columns of a given matrix."""
        return self.basis_indices_ if self.basis_ is None else self.basis_

    def _expansion(self) -> Expansion:
        """The function that the model evaluates."""
        offset = getattr(self, "intercept_", 0.0)
        return Expansion.of(self, self.basis_, self.dual_coef_, offset)

    def _keep_bound_basis(self, kernel: Kernel) -> None:
        """Bind the kernel of a fit to the basis, once for all predictions; freeze parameters."""
        self._freeze_parameters()
        self._keep_bound(kernel, self.basis_)

    def _after_loading(self) -> None:
        basis = getattr(self, "basis_", None)
        if isinstance(basis, np.ndarray) and len(self._kernels_used()) == 1:
            self._keep_bound_basis(self._compiled(basis))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[misc]
        self._after_loading()

    def _values(self, X: Any) -> Floats:
        """The expansion at the rows in units of y, one column per output."""
        self._check_fitted()
        return self._restored(self._expanded(X, self._coefficient_columns))

    @property
    def _coefficient_columns(self) -> Floats:
        """β, one column per output."""
        return self.dual_coef_ if self.dual_coef_.ndim == 2 else self.dual_coef_[:, None]

    def _restored(self, values: Floats) -> Floats:
        """Values of the expansion, with its offset and in units of y."""
        values += getattr(self, "intercept_", 0.0)
        scale: TargetScale | None = getattr(self, "_scale", None)
        return values if scale is None else scale.restore(values)

    def _as_fitted(self, values: Floats) -> Floats:
        """Values of the outputs as a vector, where the model was fitted to one."""
        return values[..., 0] if self.dual_coef_.ndim == 1 else values
