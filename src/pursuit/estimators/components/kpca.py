"""Sparse kernel PCA: a subspace spanned by few rows, with a bound on what it misses (HS08 §2)."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
    clone,
)
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, kpca_bound
from pursuit.estimators.components.preimages import RidgeMap, fixed_points
from pursuit.estimators.components.subspace import (
    BOUND_POOL,
    FULL_ROWS,
    Diagonal,
    Subspace,
    SubspacePlan,
    SubspaceSearch,
)
from pursuit.estimators.components.subspacebounds import (
    beside,
    caveat_of,
    choice_terms,
    continued,
    subspace_bound,
)
from pursuit.estimators.constraints import EXECUTION, KERNEL, POOLED
from pursuit.estimators.fit_run import FitRun, interrupt
from pursuit.estimators.inputs import (
    check_positive_definite,
    check_symmetric,
    dense,
    is_precomputed,
    prediction_rows,
    size_on_path,
    training_rows,
    validate_weights,
)
from pursuit.estimators.kernelmodel import BasisModel
from pursuit.estimators.lazily import lazily
from pursuit.estimators.progress import CallbackSupportMixin, with_callbacks
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.sources import named_columns
from pursuit.gram import kernel_diagonal, over_span
from pursuit.greedy import Path, Pool, largest_size
from pursuit.kernels import CountingKernel, is_gaussian
from pursuit.linalg import NotPositiveDefiniteError, PrincipalComponents, Workers
from pursuit.rows import RowSource, Sample

_SUBSET = 59
_NOVELTY_SHARE = 0.95


class SparseKernelPCA(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BasisModel,
    ReportedModel,
    BaseEstimator,
):
    """Kernel PCA inside the span of a few greedily chosen rows.

    Rows are chosen one at a time, each for what it takes off the residual trace
    τ = Σ w_i ‖φ(x_i) - Pφ(x_i)‖² (HS08 Algorithm 1), and PCA is done among their linear
    combinations. Beyond 5 000 rows the kernel matrix is not formed (unless ``search="full"`` asks
    for it), a new row costs n_basis kernel values, and since the subspace is known by its n_basis
    rows alone, a sample compression bound says how much it will miss of new rows: by default it
    chooses how many there are.

    Parameters
    ----------
    kernel : str, kernel object or callable, default "rbf"
        A name of `pairwise_kernels`, ``"precomputed"``, a `sklearn.gaussian_process.kernels`
        object, whose White terms are left out, or a function k(A, B) of two blocks of items.
    n_components : int, float or None, default 2
        Components of `transform`: so many; for a number between 0 and 1 as many as explain that
        share of the variance in the span; None is ``n_basis_``. Fewer where the rows span no more.
    n_basis : int or "bound", default "bound"
        Rows that span the subspace: so many at most, or where the bound has its minimum, but no
        fewer than ``n_components``. The latter grows to at most half of the rows, and to 1024, and
        stops when 10 more have not improved on the best size. Subsets are counted as in the paper,
        with R outside the root, so that the choice does not depend on the scale of the kernel.
    delta : float, default 0.05
        The bound holds with probability 1 - ``delta``.
    center : bool, default True
        Centre the PCA inside the span. The choice of rows and the bound are about the uncentred
        kernel, as in the paper.
    search : {"pooled", "fresh", "full"}, default "pooled"
        Who may be chosen: a random pool of rows, judged on these and some others; a new random
        subset at every step; every row at every step, which takes time in proportion to rows² ×
        ``n_basis``, and memory for the kernel matrix up to 11 585 rows. With up to 5 000 rows
        ``"pooled"`` does the same as ``"full"``.
    pool_size : int or "auto", default "auto"
        Rows in the pool, 4 096 or, for a given ``n_basis``, 2 ``n_basis`` + 1000; in the fresh
        subsets 59.
    preimage : {"auto", "ridge", "fixed-point"}, default "auto"
        How `inverse_transform` finds rows: by ridge regression on the basis points, or by the fixed
        point iteration of Gaussian kernels, from there. ``"auto"`` iterates where it can.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    n_jobs : int or None, default None
        Threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    basis_ : items
        The chosen rows in the order of choice; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers.
    n_basis_ : int
        How many there are.
    n_components_ : int
        Number of components.
    explained_variance_ : array of shape (n_components,)
        Mean square of each component over the training rows, largest first.
    explained_variance_ratio_ : array of shape (n_components,)
        The same as a share of the variance in feature space, what the span misses included.
    eigenvalues_ : array of shape (n_components,)
        ``explained_variance_`` times the number (or weight) of rows: with all rows as basis, those
        of scikit-learn's `KernelPCA`.
    dual_coef_ : array of shape (n_basis, n_components)
        Components as combinations of the functions k(·, x_j), before centring.
    residual_trace_ : float
        τ: what the span misses of the training rows.
    generalisation_bound_ : Bound
        Expected squared residual of a new row outside the span, for the sizes tried, with the exact
        count of subsets (HS08 Theorem 2); print it. Each size has the least value of all sizes up
        to it, since a larger span misses no more.
    printed_bound_ : Bound
        The same letter by letter as in the paper, to compare. Where the largest k(x, x), R, is not
        1 it is no bound, or a loose one, and says so: the paper has R inside the root.
    kpca_bound_ : Bound
        The bound of Shawe-Taylor et al. (2005) for kernel PCA of as many components, to compare.
    path_ : Path
        What each step brought and cost; ``value`` is τ.
    kernel_ : kernel
        The kernel in use.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    Notes
    -----
    The bound needs to know the largest k(x, x) there can be. For kernels of the distance it is a
    constant; for others the largest seen is used, and the bound says so.

    References
    ----------
    Z. Hussain and J. Shawe-Taylor. Theory of matching pursuit. NIPS 21, 2008.

    H. Hoffmann. Kernel PCA for novelty detection. Pattern Recognition 40, 2007.

    S. Mika et al. Kernel PCA and de-noising in feature spaces. NIPS 11, 1999.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pursuit import SparseKernelPCA
    >>> X = load_digits().data / 16
    >>> pca = SparseKernelPCA(gamma=0.1, random_state=0).fit(X)
    >>> pca.path_.stop_reason
    'bound'
    >>> pca.transform(X).shape
    (1797, 2)
    >>> bool(pca.residual_trace_ / len(X) < pca.generalisation_bound_.value.min())
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable, SklearnKernel],
        "n_components": [
            None,
            Interval(numbers.Integral, 1, None, closed="left"),
            Interval(numbers.Real, 0, 1, closed="neither"),
        ],
        "n_basis": [StrOptions({"bound"}), Interval(numbers.Integral, 1, None, closed="left")],
        "delta": [Interval(numbers.Real, 0, 1, closed="neither")],
        "center": ["boolean"],
        "search": [StrOptions({"pooled", "fresh", "full"})],
        "pool_size": POOLED["pool_size"],
        "preimage": [StrOptions({"auto", "ridge", "fixed-point"})],
        **KERNEL,
        **EXECUTION,
    }

    _diagonal: Diagonal
    _n_rows: int
    _weighted: bool

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        n_components: int | float | None = 2,
        n_basis: int | str = "bound",
        delta: float = 0.05,
        center: bool = True,
        search: str = "pooled",
        pool_size: int | str = "auto",
        preimage: str = "auto",
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.n_basis = n_basis
        self.delta = delta
        self.center = center
        self.search = search
        self.pool_size = pool_size
        self.preimage = preimage
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> Any:
        """Choose rows, and find the principal components in their span.

        Parameters
        ----------
        X : array, CSR, data frame or list of items, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``.
        y : ignored
            Not used, present for pipelines.
        sample_weight : array of shape (n_rows,), optional
            A row of weight w stands for w equal rows, also in the bound.
        target : str or list of str, optional
            Columns of X that are no features.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : SparseKernelPCA
        """
        self._check_sizes()
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        rows, X = training_rows(self, X)
        if is_precomputed(self.kernel):
            check_symmetric(X)
        self.kernel_ = clone(self.kernel) if isinstance(self.kernel, SklearnKernel) else self.kernel
        self._grow(rows, X, sample_weight, self.n_basis, None)
        return self

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def extend(
        self,
        X: Any,
        sample_weight: ArrayLike | None = None,
        *,
        n_basis: int | str = "bound",
    ) -> Any:
        """Go on with further rows: they are added, and some of them may join the basis.

        Earlier rows are remembered by their place in the span they were seen in. What it missed of
        them stays missed, so that residuals, and the bound, are upper bounds. A model that is not
        fitted yet is fitted.

        Parameters
        ----------
        X : items of n_rows rows
            New rows, numbered in ``basis_indices_`` after those seen before.
        sample_weight : array of shape (n_rows,), optional
            Their weights.
        n_basis : int or "bound", default "bound"
            Most basis functions in all, or as many as make the bound smaller.

        Returns
        -------
        self : SparseKernelPCA
        """
        if n_basis != "bound" and (not isinstance(n_basis, numbers.Integral) or n_basis < 1):
            raise ValueError(f"n_basis must be 'bound' or a whole number, got {n_basis!r}.")
        if is_precomputed(self.kernel):
            raise ValueError(
                "kernel='precomputed' knows only the rows of its matrix: fit a larger matrix, or "
                "use a callable kernel to extend."
            )
        if not hasattr(self, "path_"):
            return self.fit(X, sample_weight=sample_weight)
        rows, X = prediction_rows(self, X)
        self._grow(rows, X, sample_weight, n_basis, self._span)
        return self

    def truncated(self, n: int) -> Self:
        """The model of the first n basis functions, without a pass over the data.

        Parameters
        ----------
        n : int
            From 1 to ``n_basis_``.

        Returns
        -------
        model : SparseKernelPCA
            A new, fitted model.
        """
        check_is_fitted(self)
        n = size_on_path(n, self.n_basis_)
        model = copy.copy(self)
        model._store(self._span.leading(n), self.path_.truncated(n))
        model._store_bounds(self._tried[: int(n)])
        return model

    @lazily
    def transform(self, X: Any) -> Floats:
        """Uncorrelated components, those of largest variance first.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        scores : array of shape (n_rows, n_components)
        """
        check_is_fitted(self)
        scores = self._expanded(X, self.dual_coef_)
        return scores - self._shift

    def inverse_transform(self, X: Any) -> Floats:
        """Rows whose components are near the given ones: pre-images.

        For kernels on rows of numbers. With noisy rows, ``inverse_transform(transform(X))`` is what
        the subspace makes of them: denoising.

        Parameters
        ----------
        X : array of shape (n_rows, n_components)
            Components.

        Returns
        -------
        rows : array of shape (n_rows, n_features)
        """
        check_is_fitted(self)
        points = dense(self.basis_)
        if not isinstance(points, np.ndarray):
            what = "a precomputed kernel" if self.basis_ is None else "items that are not numbers"
            raise TypeError(f"inverse_transform finds rows of numbers, and cannot for {what}.")
        points = points.astype(np.float64, copy=False)
        kernel = self._compiled(points)
        gaussian = is_gaussian(kernel)
        if self.preimage == "fixed-point" and not gaussian:
            raise ValueError(
                "preimage='fixed-point' is for Gaussian kernels only: use preimage='ridge'."
            )
        scores = check_array(X, dtype=np.float64, input_name="X")
        q = self.n_components_
        if scores.shape[1] != q:
            raise ValueError(f"X has {scores.shape[1]} components, but the model has {q}.")
        with Workers(self.n_jobs) as workers:
            at_basis = kernel.tile(points, points) @ self.dual_coef_ - self._shift
            start = RidgeMap.fit(points, at_basis, self.explained_variance_)(scores)
            if self.preimage == "ridge" or not gaussian:
                return start
            pca = self._pca
            V = pca.mean + scores @ pca.directions[:, :q].T
            coefficients = solve_triangular(self._span.factor, V.T, lower=True, trans="T").T
            return fixed_points(coefficients, points, kernel, start, workers)

    @lazily
    def reconstruction_error(
        self, X: Any, n_components: int | None = None, *, diagonal: ArrayLike | None = None
    ) -> Floats:
        """Squared distance of every row, in feature space, from what the components make of it.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.
        n_components : int, optional
            How many of the components in the span, up to ``n_basis_``, which leaves what the span
            itself misses: the quantity of the bound. By default ``n_components_``.
        diagonal : array of shape (n_rows,), optional
            k(x, x) of the rows, for ``kernel="precomputed"``, where X does not hold it. It may be
            left out where k(x, x) is the same for all training rows.

        Returns
        -------
        error : array of shape (n_rows,)
        """
        check_is_fitted(self)
        q = self.n_components_ if n_components is None else n_components
        if not isinstance(q, numbers.Integral) or not 0 <= q <= self.n_basis_:
            raise ValueError(
                f"n_components must be a whole number from 0 to n_basis_={self.n_basis_}, got "
                f"{n_components!r}."
            )
        rows, X = prediction_rows(self, X)
        squares = self._squares(rows, X, diagonal)

        def error(V: Floats, items: Any, where: slice) -> Floats:
            left = squares[where] - np.einsum("ij,ij->i", V, V)
            minor = self._pca.scores(V, int(q))
            return np.maximum(left, 0.0) + np.einsum("ij,ij->i", minor, minor)

        with Workers(self.n_jobs) as workers:
            parts = over_span(
                rows, self._compiled(X), self._points, self._span.whitener, error, workers
            )
        return np.concatenate(parts)

    @lazily
    def score_samples(self, X: Any, *, diagonal: ArrayLike | None = None) -> Floats:
        """How familiar rows are: the larger, the more they are like the training rows.

        Minus the reconstruction error with the components that explain 95 % of the variance in the
        span, whatever ``n_components`` is (Hoffmann 2007).

        Parameters
        ----------
        X, diagonal
            As in :meth:`reconstruction_error`.

        Returns
        -------
        score : array of shape (n_rows,)
        """
        check_is_fitted(self)
        return -self.reconstruction_error(X, self._n_explaining(_NOVELTY_SHARE), diagonal=diagonal)

    def residual_curves(
        self, X: Any = None, *, diagonal: ArrayLike | None = None
    ) -> dict[str, tuple[Indices, Floats]]:
        """What spans of the first 1, …, ``n_basis_`` rows miss: measured curves for a BoundDisplay.

        Parameters
        ----------
        X : items, optional
            New rows.
        diagonal : array, optional
            As in :meth:`reconstruction_error`.

        Returns
        -------
        curves : dict of str to (sizes, values)
            Mean squared residual of the training rows outside the basis, and of the new rows.
        """
        check_is_fitted(self)
        sizes = np.arange(1, self.n_basis_ + 1)
        outside = np.maximum(self._span.weight - sizes, 1.0)
        curves = {"training rows outside the basis": (sizes, self._span.residuals / outside)}
        if X is not None:
            rows, X = prediction_rows(self, X)
            squares = self._squares(rows, X, diagonal)

            def explained(V: Floats, items: Any, where: slice) -> Floats:
                return np.asarray(np.square(V).sum(axis=0))

            with Workers(self.n_jobs) as workers:
                parts = over_span(
                    rows, self._compiled(X), self._points, self._span.whitener, explained, workers
                )
            left = squares.sum() - np.cumsum(np.sum(parts, axis=0))
            curves["new rows"] = (sizes, np.maximum(left, 0.0) / rows.n_rows)
        return curves

    def _check_sizes(self) -> None:
        if self.n_basis == "bound" or not isinstance(self.n_components, numbers.Integral):
            return
        if self.n_components > int(self.n_basis):
            raise ValueError(
                f"n_components={self.n_components} is more than n_basis={self.n_basis}: components "
                "are combinations of basis functions. Raise n_basis or lower n_components."
            )

    def _grow(
        self,
        rows: RowSource,
        X: Any,
        sample_weight: ArrayLike | None,
        n_basis: int | str,
        start: Subspace | None,
    ) -> None:
        """Choose among the rows, behind the points there are, and store the model."""
        weights = validate_weights(sample_weight, rows.n_rows)
        present = np.flatnonzero(weights > 0)
        sample = Sample(rows, np.empty((rows.n_rows, 0)), weights)
        if len(present) < rows.n_rows:
            sample = sample.take(present)
        kernel = self._compiled(X)
        n_seen = 0 if start is None else self._n_rows
        weight = float(sample.weights.sum()) + (0.0 if start is None else start.weight)
        with FitRun(self, sample, present, n_stages=2) as run:
            diagonal = self._checked_diagonal(sample, kernel, run.rng)
            if start is not None:
                diagonal = self._diagonal + diagonal
            plan = self._plan(sample.n_rows, weight, n_basis, start)
            tick = run.begin("choose", plan.limit)
            search = SubspaceSearch(
                plan, sample, kernel, workers=run.workers, rng=run.rng, start=start
            )

            def bound(residuals: Floats) -> Floats:
                known = residuals if start is None else beside(start, residuals)
                return choice_terms(known, weight, diagonal, float(self.delta))

            found, path, tried = search.run(
                [run.interrupted], tick, bound if n_basis == "bound" else None
            )
            run.begin("components")
            path = replace(path, index=n_seen + present[path.index])
            if start is not None:
                tried = beside(start, tried)
                found, path = start.joined(found), continued(self.path_, path)
            pool = Pool(found.pool.items, path.index)
            found, path = replace(found, pool=pool), replace(path, value=found.residuals)
            self._diagonal, self._n_rows = diagonal, n_seen + rows.n_rows
            before = start is not None and self._had_weights
            self._weighted = before or bool(np.any(sample.weights != 1.0))
            self._store(found, path)
            self._keep_bound_basis(kernel)
            self._store_bounds(tried)
        if run.stopping:
            interrupt(f"the {self.n_basis_} basis functions found so far")

    def _checked_diagonal(
        self, sample: Sample, kernel: CountingKernel, rng: np.random.Generator
    ) -> Diagonal:
        diagonal, row = Diagonal.of(sample, kernel)
        if diagonal.least < 0:
            raise NotPositiveDefiniteError(row, diagonal.least)
        if diagonal.largest == 0:
            raise ValueError(
                "kernel is zero on every row, k(x, x) = 0: there is nothing to span. Use another "
                "kernel, or rows that are not all zero."
            )
        check_positive_definite(kernel, sample, rng)
        return diagonal

    def _plan(
        self, m: int, weight: float, n_basis: int | str, start: Subspace | None
    ) -> SubspacePlan:
        by_bound, n_old = n_basis == "bound", 0 if start is None else len(start)
        least = int(self.n_components) if isinstance(self.n_components, numbers.Integral) else 1
        limit = largest_size(weight, least) if by_bound else int(n_basis)
        limit, least = min(max(limit - n_old, 0), m), max(least - n_old, 0)
        search = self.search if start is None else "pooled"
        if self.pool_size != "auto":
            size = int(self.pool_size)
        elif search == "fresh":
            size = _SUBSET
        else:
            size = BOUND_POOL if by_bound or start is not None else 2 * limit + 1000
        few = m <= FULL_ROWS if self.pool_size == "auto" else size >= m
        if search == "pooled" and few and start is None:
            search = "full"
        return SubspacePlan(search, size, limit, least)

    def _store(self, span: Subspace, path: Path) -> None:
        """PCA in the span."""
        self._span, self.path_ = span, path
        self.n_basis_ = len(span)
        self.basis_ = None if is_precomputed(self.kernel) else span.pool.items
        self.basis_indices_ = span.pool.index
        self.residual_trace_ = float(span.residuals[-1])
        self._pca = pca = PrincipalComponents.from_moments(
            span.gram, span.sums, span.weight, center=bool(self.center)
        )
        if self.n_components is None:
            q = self.n_basis_
        elif isinstance(self.n_components, numbers.Integral):
            q = min(int(self.n_components), self.n_basis_)
        else:
            q = self._n_explaining(float(self.n_components))
        self.n_components_ = self._n_features_out = q
        self.explained_variance_ = pca.variances[:q]
        total = self._diagonal.trace / span.weight - float(pca.mean @ pca.mean)
        self.explained_variance_ratio_ = self.explained_variance_ / max(total, 1e-300)
        self.eigenvalues_ = self.explained_variance_ * span.weight
        U = pca.directions[:, :q]
        self.dual_coef_ = solve_triangular(span.factor, U, lower=True, trans="T")
        self._shift = pca.mean @ U

    def _store_bounds(self, residuals: Floats) -> None:
        """Bounds for the sizes that were tried."""
        self._tried, span, diagonal = residuals, self._span, self._diagonal
        known = residuals, span.weight, diagonal, float(self.delta)
        caveat = caveat_of(diagonal, weighted=self._had_weights)
        self.generalisation_bound_ = subspace_bound(*known, "exact", caveat)
        self.printed_bound_ = subspace_bound(*known, "printed", caveat)
        self.kpca_bound_: Bound = kpca_bound(
            np.maximum(np.linalg.eigvalsh(span.gram)[::-1], 0.0),
            diagonal.trace,
            diagonal.squares,
            span.weight,
            float(self.delta),
            radius=diagonal.largest,
            caveat=caveat,
        )

    @property
    def _had_weights(self) -> bool:
        """Whether rows had weights; models saved by version 0.1 do not know."""
        return getattr(self, "_weighted", False)

    def _n_explaining(self, share: float) -> int:
        """How many components explain this share of the variance in the span."""
        cumulative = np.cumsum(self._pca.variances)
        enough = np.flatnonzero(cumulative >= share * cumulative[-1])
        return int(enough[0]) + 1

    def _squares(self, rows: RowSource, X: Any, diagonal: ArrayLike | None) -> Floats:
        """k(x, x) of rows to be mapped."""
        if not is_precomputed(self.kernel):
            if diagonal is not None:
                raise ValueError(
                    "diagonal is for kernel='precomputed': leave it out, k(x, x) is known."
                )
            kernel = self._compiled(X)
            return kernel_diagonal(rows, kernel)
        if diagonal is not None:
            given = np.asarray(diagonal, dtype=np.float64)
            if given.shape != (rows.n_rows,) or not np.all(np.isfinite(given)):
                raise ValueError(
                    f"diagonal must hold k(x, x), a finite number for each of the {rows.n_rows} "
                    f"rows, got shape {given.shape}."
                )
            return given
        least, largest = self._diagonal.least, self._diagonal.largest
        if largest - least <= 1e-6 * largest:
            return np.full(rows.n_rows, largest)
        raise ValueError(
            "residuals need k(x, x) of the rows, which a precomputed matrix of k(x, training rows) "
            "does not hold: pass it as diagonal=, or fit with a callable kernel."
        )
