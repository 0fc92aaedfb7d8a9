"""Sparse kernel PCA: a subspace spanned by few rows, with a bound on its residual for new rows."""

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
)
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, compression_bound, kpca_bound
from pursuit.estimators.arguments import (
    CHECKPOINT,
    EXECUTION,
    KERNEL,
    MAX_TIME,
    Search,
    resolve_search,
)
from pursuit.estimators.components.subspace import (
    Diagonal,
    Subspace,
    SubspacePlan,
    check_sizes,
    choose_subspace,
    continued,
    fixed_points,
    kernel_ridge_preimages,
    ridge_preimages,
)
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, interrupt, with_callbacks
from pursuit.estimators.inputs import (
    check_positive_definite,
    check_symmetric,
    dense,
    named_columns,
    prediction_rows,
    reads_matrix,
    size_on_path,
    training_rows,
    weighted_sample,
)
from pursuit.estimators.kernel_model import BasisModel, Expansion, in_precision_of_rows
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.scales import in_range
from pursuit.gram import over_span
from pursuit.greedy import Path, Pool
from pursuit.kernels import is_gaussian
from pursuit.linalg import PrincipalComponents, Workers
from pursuit.rows import RowSource

SEARCH_FIELDS = {"pooled": ("pool_size",), "fresh": ("pool_size",), "full": ()}
"""Fields of `Search` that apply to the components of one view, and of two."""
_NOVELTY_SHARE = 0.95
"""Share of the variance that `score_samples` explains. Larger: smaller novelties are found."""

_ROUNDING_SHARE = 2e-12
"""Share of the largest variance below which a variance counts as 0, as in scikit-learn."""


class SparseKernelPCA(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BasisModel,
    ReportedModel,
    BaseEstimator,
):
    """Kernel PCA inside the span of a few greedily chosen rows.

    Rows are chosen one at a time, each for the largest decrease of the residual trace
    τ = Σ w_i ‖φ(x_i) - Pφ(x_i)‖² (Hussain and Shawe-Taylor 2008, Algorithm 1), and PCA is done
    among their linear combinations. Beyond 5 000 rows the kernel matrix is not formed, unless
    ``search="full"`` is set. A new row costs n_basis kernel values. The subspace is determined by
    its n_basis rows alone, so that a sample compression bound on the residual of new rows holds; by
    default this bound chooses the number of rows.

    Parameters
    ----------
    kernel : str, kernel object or callable, default "rbf"
        A name of `pairwise_kernels`, ``"precomputed"``, a `sklearn.gaussian_process.kernels`
        object, whose White terms are left out, or a function k(A, B) of two blocks of items.
    n_components : int, float or None, default 2
        Number of components of `transform`. A number between 0 and 1 takes as many as explain that
        share of the variance in the span, and None takes all that have a variance: with ``center``
        one fewer than the rows if all of them are in the basis. There are fewer where the rows span
        no more.
    n_basis : int or "bound", default "bound"
        Largest number of rows that span the subspace. With ``"bound"`` it is where the bound has
        its minimum, but at least ``n_components``; the basis then grows to at most half of the
        rows, and to 1024, and growth stops when 10 more rows have not improved on the best size.
        Subsets are counted as in the paper, with R outside the root, so that the choice does not
        depend on the scale of the kernel.
    delta : float, default 0.05
        The bound holds with probability 1 - ``delta``.
    center : bool, default True
        Centre the PCA inside the span. The choice of rows and the bound are about the uncentred
        kernel, as in the paper.
    search : {"pooled", "fresh", "full"} or Search, default "pooled"
        Which rows may be chosen. ``"pooled"``: a random pool of rows, judged on these rows and some
        others. ``"fresh"``: a new random subset per step. ``"full"``: every row at every step,
        which takes time in proportion to rows² × ``n_basis``, and memory for the kernel matrix up
        to 11 585 rows. With up to 5 000 rows ``"pooled"`` does the same as ``"full"``.
        ``Search(kind, pool_size=...)`` sets the number of rows in the pool (4 096 by default or,
        for a given ``n_basis``, 2 ``n_basis`` + 1000) or in the fresh subsets (59 by default).
    preimage : {"auto", "ridge", "fixed-point"}, default "auto"
        How `inverse_transform` finds rows: by ridge regression on the basis points, or by the fixed
        point iteration of Gaussian kernels, which starts there. ``"auto"`` iterates where it can
        and ``alpha`` is None.
    alpha : float or None, default None
        Ridge of a kernel ridge regression from components to basis points, with the kernel of the
        rows, as in scikit-learn's `KernelPCA`: nearer to the rows where components are many, and
        for kernels that take vectors of any length. None is a linear map with a ridge of a tenth of
        the variance.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    max_time : float or None, default None
        Seconds that the fit may take, about: no row is chosen after 80 % of them. There is at
        least one row. The result is no longer reproducible.
    checkpoint : path-like or None, default None
        A folder in which the fit records the chosen subspace. The same call with the same data goes
        on from there, to the identical model.
    n_jobs : int or None, default None
        Number of threads; None uses as many as BLAS would. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    basis_ : items
        The chosen rows in the order of choice; None for a precomputed kernel.
    basis_indices_ : array of int
        Row numbers of the chosen rows.
    n_basis_ : int
        Number of chosen rows.
    n_components_ : int
        Number of components.
    explained_variance_ : array of shape (n_components,)
        Mean square of each component over the training rows, largest first.
    explained_variance_ratio_ : array of shape (n_components,)
        The same as a share of the variance in feature space, which includes the residual of the
        span.
    eigenvalues_ : array of shape (n_components,)
        ``explained_variance_`` times the number (or weight) of rows: with all rows as basis, those
        of scikit-learn's `KernelPCA`.
    dual_coef_ : array of shape (n_basis, n_components)
        Components as combinations of the functions k(·, x_j), before centring.
    residual_trace_ : float
        τ, the residual of the training rows.
    generalization_bound_ : Bound
        Bound on the expected squared residual of a new row, for the sizes tried, with the exact
        count of subsets (Hussain and Shawe-Taylor 2008, Theorem 2); print it. The value of a size
        is the least of all sizes up to it, since a larger span has no larger residual.
    printed_bound_ : Bound
        The bound exactly as printed in the paper, for comparison. The paper has R, the largest
        k(x, x), inside the root: where R is not 1 this is not a bound, or a loose one, and says so.
    kpca_bound_ : Bound
        The bound of Shawe-Taylor et al. (2005) for kernel PCA with as many components, for
        comparison.
    path_ : Path
        Gain and cost of each step; ``value`` is τ.
    kernel_ : kernel
        The kernel in use.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    Notes
    -----
    The bound needs the largest possible k(x, x). For kernels of the distance it is a constant; for
    others the largest seen is used, and the bound says so.

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
    >>> bool(pca.residual_trace_ / len(X) < pca.generalization_bound_.value.min())
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
        "search": [StrOptions({"pooled", "fresh", "full"}), Search],
        "preimage": [StrOptions({"auto", "ridge", "fixed-point"})],
        "alpha": [None, Interval(numbers.Real, 0, None, closed="neither")],
        **KERNEL,
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
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
        search: str | Search = "pooled",
        preimage: str = "auto",
        alpha: float | None = None,
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        max_time: float | None = None,
        checkpoint: Any = None,
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
        self.preimage = preimage
        self.alpha = alpha
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> Self:
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
            Columns of X that are not features.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : SparseKernelPCA
        """
        check_sizes(self.n_components, self.n_basis)
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        rows, X = training_rows(self, X)
        if reads_matrix(self):
            check_symmetric(X)
        self.kernel_ = self._given_kernel()
        return self._fit_span(rows, X, sample_weight, self.n_basis, None)

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def grow(
        self,
        X: Any,
        sample_weight: ArrayLike | None = None,
        *,
        n_basis: int | str = "bound",
    ) -> Any:
        """Continue with further rows: they are added, and some of them may join the basis.

        Earlier rows are known only by their points in the span of that time. Their residuals stay
        as they were, so that residuals, and the bound, are upper bounds. A model that is not fitted
        yet is fitted.

        Parameters
        ----------
        X : items of n_rows rows
            New rows, numbered in ``basis_indices_`` after those seen before.
        sample_weight : array of shape (n_rows,), optional
            Weights of the new rows.
        n_basis : int or "bound", default "bound"
            Largest number of basis functions in all, or as many as make the bound smaller.

        Returns
        -------
        self : SparseKernelPCA
        """
        if n_basis != "bound" and (not isinstance(n_basis, numbers.Integral) or n_basis < 1):
            raise ValueError(f"n_basis must be 'bound' or a whole number, got {n_basis!r}.")
        if reads_matrix(self):
            raise ValueError(
                "kernel='precomputed' knows only the rows of its matrix: fit a larger matrix, or "
                "use a callable kernel to grow."
            )
        if not hasattr(self, "path_"):
            return self.fit(X, sample_weight=sample_weight)
        rows, X = prediction_rows(self, X)
        return self._fit_span(rows, X, sample_weight, n_basis, self._span)

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

    @in_precision_of_rows
    def transform(self, X: Any) -> Floats:
        """Uncorrelated components, in decreasing order of variance.

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

    @in_range
    def inverse_transform(self, X: Any) -> Floats:
        """Rows whose components are near the given ones: pre-images.

        This is for kernels on rows of numbers. ``inverse_transform(transform(X))`` denoises rows:
        it keeps of them what lies in the subspace.

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
            if self.alpha is None:
                start = ridge_preimages(points, at_basis, self.explained_variance_, scores)
            else:
                alpha = float(self.alpha)
                start = kernel_ridge_preimages(points, at_basis, kernel, alpha, scores)
            iterates = self.alpha is None or self.preimage == "fixed-point"
            if self.preimage == "ridge" or not gaussian or not iterates:
                return start
            pca = self._pca
            V = pca.mean + scores @ pca.directions[:, :q].T
            coefficients = solve_triangular(self._span.factor, V.T, lower=True, trans="T").T
            return fixed_points(coefficients, points, kernel, start, workers)

    @in_precision_of_rows
    def reconstruction_error(
        self, X: Any, n_components: int | None = None, *, diagonal: ArrayLike | None = None
    ) -> Floats:
        """Squared distance of every row, in feature space, from its projection on the components.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.
        n_components : int, optional
            Number of components, by default ``n_components_``. All ``n_basis_`` of them give the
            residual of the span itself, which the bound is about.
        diagonal : array of shape (n_rows,), optional
            k(x, x) of the rows for ``kernel="precomputed"``, where X does not hold it. It may be
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

        def norms(V: Floats, items: Any, where: slice) -> Floats:
            minor = self._pca.scores(V, int(q))
            return np.array([np.einsum("ij,ij->i", Z, Z) for Z in (V, minor)])

        parts, squares = self._over_span(X, diagonal, norms)
        inside, minor = np.hstack(parts)
        return np.maximum(squares - inside, 0.0) + minor

    @in_precision_of_rows
    def score_samples(self, X: Any, *, diagonal: ArrayLike | None = None) -> Floats:
        """Score of rows for novelty detection: the larger, the more like the training rows.

        The score is minus the reconstruction error with the components that explain 95 % of the
        variance in the span, for every ``n_components`` (Hoffmann 2007).

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

    @in_range
    def residual_curves(
        self, X: Any = None, *, diagonal: ArrayLike | None = None
    ) -> dict[str, tuple[Indices, Floats]]:
        """Residuals of the spans of the first 1, …, ``n_basis_`` rows, for a BoundDisplay.

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

            def explained(V: Floats, items: Any, where: slice) -> Floats:
                return np.asarray(np.square(V).sum(axis=0))

            parts, squares = self._over_span(X, diagonal, explained)
            residual = squares.sum() - np.cumsum(np.sum(parts, axis=0))
            curves["new rows"] = (sizes, np.maximum(residual, 0.0) / len(squares))
        return curves

    def _expansion(self) -> Expansion:
        return Expansion.of(self, self.basis_, self.dual_coef_, -self._shift, name="scores")

    def _fit_span(
        self,
        rows: RowSource,
        X: Any,
        sample_weight: ArrayLike | None,
        n_basis: int | str,
        start: Subspace | None,
    ) -> Self:
        """Choose among the rows, going on from the span ``start`` if there is one."""
        search = resolve_search(self.search, SEARCH_FIELDS)
        sample, present = weighted_sample(rows, sample_weight)
        kernel = self._compiled(X)
        n_seen = 0 if start is None else self._n_rows
        weight = float(sample.weights.sum()) + (0.0 if start is None else start.weight)
        least = int(self.n_components) if isinstance(self.n_components, numbers.Integral) else 1
        with FitRun(self, sample, present, n_stages=2, resumes=start is None) as run:
            run.same_matrix(X)
            diagonal = Diagonal.of(sample, kernel)
            check_positive_definite(kernel, sample, run.rng)
            if start is not None:
                diagonal = self._diagonal + diagonal
            radius, delta = diagonal.largest, float(self.delta)
            plan = SubspacePlan(search, n_basis, least, sample.n_rows, weight, radius, delta, start)
            tick = run.begin("choose", plan.limit)
            span, path, tried = run.recorded(
                "choose", lambda: choose_subspace(plan, sample, kernel, run, tick)
            )
            if start is None and not len(span):
                raise ValueError(
                    f"kernel is zero on all rows of X (n_samples = {rows.n_rows}): there are no "
                    "components to find."
                )
            run.begin("components")
            path = replace(path, index=n_seen + present[path.index])
            if start is not None:
                tried = start.with_residuals(tried)
                span, path = start.joined(span), continued(self.path_, path)
            span = replace(span, pool=Pool(span.pool.items, path.index))
            self._diagonal, self._n_rows = diagonal, n_seen + rows.n_rows
            weighted = bool(np.any(sample.weights != 1.0))
            self._weighted = weighted or (start is not None and self._weighted)
            self._store(span, replace(path, value=span.residuals))
            self._keep_bound_basis(kernel)
            self._store_bounds(tried)
        if run.stopping:
            interrupt(f"the {self.n_basis_} basis functions found so far")
        return self

    def _store(self, span: Subspace, path: Path) -> None:
        """Do PCA in the span, and store it."""
        self._span, self.path_ = span, path
        self.n_basis_ = len(span)
        self.basis_ = None if reads_matrix(self) else span.pool.items
        self.basis_indices_ = span.pool.index
        self.residual_trace_ = float(span.residuals[-1])
        self._pca = pca = PrincipalComponents.from_moments(
            span.gram, span.sums, span.weight, center=bool(self.center)
        )
        if self.n_components is None:
            q = self._n_varying()
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
        """Store the bounds for the sizes that were tried."""
        self._tried, span, diagonal = residuals, self._span, self._diagonal
        delta, caveat = float(self.delta), diagonal.caveat(weighted=self._weighted)
        self.generalization_bound_, self.printed_bound_ = (
            compression_bound(
                np.arange(1, len(residuals) + 1),
                residuals,
                span.weight,
                delta,
                radius=diagonal.largest,
                form=form,
                caveat=caveat,
            )
            for form in ("exact", "printed")
        )
        self.kpca_bound_: Bound = kpca_bound(
            np.maximum(np.linalg.eigvalsh(span.gram)[::-1], 0.0),
            diagonal.trace,
            diagonal.squares,
            span.weight,
            delta,
            radius=diagonal.largest,
            caveat=caveat,
        )

    def _n_varying(self) -> int:
        """Number of components with a variance beyond its rounding error, at least one."""
        variances = self._pca.variances
        return max(1, int(np.count_nonzero(variances > _ROUNDING_SHARE * variances[0])))

    def _n_explaining(self, share: float) -> int:
        """Number of components that explain this share of the variance in the span."""
        cumulative = np.cumsum(self._pca.variances)
        enough = np.flatnonzero(cumulative >= share * cumulative[-1])
        return int(enough[0]) + 1

    def _over_span(self, X: Any, diagonal: ArrayLike | None, part: Any) -> tuple[list[Any], Floats]:
        """``part`` of the points of new rows in the span, block by block, and k(x, x)."""
        rows, X = prediction_rows(self, X)
        kernel, known = self._compiled(X), self._diagonal
        constant = known.largest if known.largest - known.least <= 1e-6 * known.largest else None
        squares = self._diagonal_of(rows, kernel, diagonal, constant)
        with Workers(self.n_jobs) as workers:
            whitener = self._span.whitener
            return over_span(rows, kernel, self._points, whitener, part, workers), squares

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
