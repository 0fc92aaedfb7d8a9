"""Sparse kernel CCA: directions in which two views of the same rows correlate."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils.validation import check_is_fitted

from pursuit import limits
from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import Bound
from pursuit.estimators.arguments import CHECKPOINT, EXECUTION, MAX_TIME, Search, resolve_search
from pursuit.estimators.components.kernel_pca import SEARCH_FIELDS
from pursuit.estimators.components.subspace import check_sizes, default_pool_size
from pursuit.estimators.components.views import Disagreements, SpannedPairs, View
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, interrupt, with_callbacks
from pursuit.estimators.inputs import (
    check_positive_definite,
    is_precomputed,
    named_columns,
    validate_weights,
)
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.scales import in_range
from pursuit.estimators.warning import warn
from pursuit.gram import KernelMatrix
from pursuit.greedy import (
    PATIENCE,
    CostMeter,
    FreshSubset,
    MaxSize,
    Path,
    Patience,
    Pursuit,
    StopRule,
    largest_size,
    size_grid,
    subset_size,
)
from pursuit.kernels import CountingKernel
from pursuit.objectives import CorrelationPursuit
from pursuit.rows import Sample, as_table, draw_rows, is_dask, len_items


@dataclass(frozen=True)
class ChosenPairs:
    """Rows chosen in both views.

    Attributes
    ----------
    rows : array of int
        Numbers of the chosen rows among those that have weight.
    path : Path
        Gain and cost of each step.
    counted : Disagreements or None
        Disagreements at every size tried, where the bound chose the size.
    """

    rows: Indices
    path: Path
    counted: Disagreements | None


class SparseKernelCCA(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ReportedModel,
    BaseEstimator,
):
    """Canonical correlations between the spans of a few rows, seen in two views.

    Rows are chosen one at a time, each for the largest ``abs(ρ)``. Here ρ is the correlation of the
    two kernel columns of a row, after the parts that earlier rows explain are removed from both
    views. Regularised CCA then follows between the two spans (Hussain and Shawe-Taylor 2008, §4,
    which has ρ without the absolute value; here opposite columns count as much as equal ones). The
    views may be of different kinds, for instance an RBF kernel on vectors and a string kernel on
    text. Methods are those of scikit-learn's `CCA`.

    Parameters
    ----------
    kernel_x, kernel_y : str, kernel object or callable, default "rbf"
        The kernel of each view: a name of `pairwise_kernels`, ``"precomputed"``, a
        `sklearn.gaussian_process.kernels` object, or a function k(A, B) of two blocks of items.
    n_basis : int or "bound", default 100
        Largest number of rows that span both views. With ``"bound"`` it is where
        ``generalization_bound_`` has its minimum, but at least ``n_components``; the basis then
        grows to at most half of the rows, and to 1024, and growth stops when as many further rows
        as the best size has, and at least 10, have not improved on it.
    n_components : int, default 1
        Number of pairs of canonical directions.
    regularization : float, default 1e-3
        Added to the variances in each span, as a share of the mean k(x, x) of its view. Without it
        spans of many functions correlate by chance.
    search : {"pooled", "fresh", "full"} or Search, default "pooled"
        Which rows may be chosen. ``"pooled"``: a random pool of rows, which also judges them.
        ``"fresh"``: a new random subset per step. ``"full"``: every row at every step. With up to
        2 000 rows, or 5 000 where the bound chooses the size, ``"pooled"`` does the same as
        ``"full"``. ``Search(kind, pool_size=...)`` sets the number of rows in the pool (by default
        2 ``n_basis`` + 1000, or 4 096 where the bound chooses) or in the fresh subsets (59 by
        default).
    error_tol : float, default 1.0
        A row is an error, in the sense of the bound, if its scores in the two views differ by more
        than this. Scores have unit variance.
    delta : float, default 0.05
        The bound holds with probability 1 - ``delta``.
    kernel_params_x, kernel_params_y : dict, optional
        Parameters of named or callable kernels, such as ``{"gamma": 0.1}``.
    max_time : float or None, default None
        Seconds that the fit may take, about: no row is chosen after 80 % of them, except the
        first ``n_components``. The result is no longer reproducible.
    checkpoint : path-like or None, default None
        A folder in which the fit records the chosen rows and the counts of the bound. The same call
        with the same data goes on from there, to the identical model.
    n_jobs : int or None, default None
        Number of threads; None uses as many as BLAS would. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    canonical_correlations_ : array of shape (n_components,)
        Correlations of the scores of the training rows, in decreasing order of the regularised
        correlation.
    basis_indices_ : array of int
        Row numbers of the chosen rows, in the order of choice.
    n_basis_ : int
        Number of chosen rows.
    basis_x_, basis_y_ : items
        The chosen rows in each view, except those that depend on earlier ones there; None for a
        precomputed kernel.
    dual_coef_x_, dual_coef_y_ : arrays of shape (n, n_components)
        Canonical directions as combinations of the functions k(·, x_j), before centring.
    generalization_bound_ : Bound
        Bound on the probability that the first scores of a new row differ by more than
        ``error_tol``, for several numbers of chosen rows, or for all that were tried with
        ``n_basis="bound"`` (Hussain and Shawe-Taylor 2008, Theorem 4, with exact counts, for the
        2k + 1 dimensions of the difference); print it. A value above 1 says nothing.
    printed_bound_ : Bound
        The bound in the form of the paper, which counts k + 1 dimensions, for comparison. Its proof
        does not cover two views.
    path_ : Path
        Gain and cost of each step; ``value`` is the residual share of the trace, summed over the
        views.
    n_features_in_ : int
        Number of features of the first view, for two-dimensional numeric input.

    References
    ----------
    Z. Hussain and J. Shawe-Taylor. Theory of matching pursuit. NIPS 21, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import SparseKernelCCA
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(-3, 3, 400)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.normal(size=(400, 2))
    >>> Y = angle[:, None] ** 2 + 0.1 * rng.normal(size=(400, 1))
    >>> cca = SparseKernelCCA(n_basis=30).fit(X[:300], Y[:300])
    >>> bool(cca.score(X[300:], Y[300:]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel_x": [str, callable, SklearnKernel],
        "kernel_y": [str, callable, SklearnKernel],
        "n_basis": [StrOptions({"bound"}), Interval(numbers.Integral, 1, None, closed="left")],
        "n_components": [Interval(numbers.Integral, 1, None, closed="left")],
        "regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "search": [StrOptions({"pooled", "fresh", "full"}), Search],
        "error_tol": [Interval(numbers.Real, 0, None, closed="neither")],
        "delta": [Interval(numbers.Real, 0, 1, closed="neither")],
        "kernel_params_x": [None, dict],
        "kernel_params_y": [None, dict],
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
        **EXECUTION,
    }

    canonical_correlations_: Floats
    generalization_bound_: Bound
    printed_bound_: Bound
    path_: Path

    def __init__(
        self,
        kernel_x: Any = "rbf",
        kernel_y: Any = "rbf",
        *,
        n_basis: int | str = 100,
        n_components: int = 1,
        regularization: float = 1e-3,
        search: str | Search = "pooled",
        error_tol: float = 1.0,
        delta: float = 0.05,
        kernel_params_x: dict[str, Any] | None = None,
        kernel_params_y: dict[str, Any] | None = None,
        max_time: float | None = None,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.n_basis = n_basis
        self.n_components = n_components
        self.regularization = regularization
        self.search = search
        self.error_tol = error_tol
        self.delta = delta
        self.kernel_params_x = kernel_params_x
        self.kernel_params_y = kernel_params_y
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
        """Choose rows, and do CCA between the spans of their two views.

        Parameters
        ----------
        X : array, CSR, data frame or list of items, of n_rows rows
            First view; its n_rows x n_rows kernel matrix when ``kernel_x="precomputed"``.
        y : array, CSR, data frame or list of items, of n_rows rows
            Second view of the same rows.
        sample_weight : array of shape (n_rows,), optional
            A row of weight w stands for w equal rows, also in the bound.
        target : str or list of str, optional
            The columns of X that are the second view, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : SparseKernelCCA
        """
        check_sizes(self.n_components, self.n_basis)
        search = resolve_search(self.search, SEARCH_FIELDS)
        y = as_table(y) if is_dask(y) else y  # a view, not targets to be computed
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        if y is None:
            raise ValueError(
                "requires y to be passed, but the target y is None: pass both views, fit(X, Y)."
            )
        views = (
            View("X", self.kernel_x, self.kernel_params_x),
            View("Y", self.kernel_y, self.kernel_params_y),
        )
        validated = [view.rows(data, reset=True) for view, data in zip(views, (X, y), strict=True)]
        _check_lengths(*(len_items(items) for _, items in validated))
        kernels = [view.compiled(items) for view, (_, items) in zip(views, validated, strict=True)]
        weights = validate_weights(sample_weight, validated[0][0].n_rows)
        present = np.flatnonzero(weights > 0)
        if len(present) < 2:
            raise ValueError("X and Y have 1 sample: at least 2 rows are needed to correlate.")
        samples = [
            Sample(rows, np.empty((rows.n_rows, 0)), weights).take(present) for rows, _ in validated
        ]
        with FitRun(self, samples[0], present, n_stages=3) as run:
            for view, (_, items) in zip(views, validated, strict=True):
                run.same_data(view.name, items)
            for sample, kernel in zip(samples, kernels, strict=True):
                check_positive_definite(kernel, sample, run.rng)
            largest = largest_size(samples[0].weights.sum(), int(self.n_components))
            limit = largest if self.n_basis == "bound" else int(self.n_basis)
            tick = run.begin("choose", limit)
            chosen = run.recorded(
                "choose", lambda: self._choose(search, limit, samples, kernels, run, tick)
            )
            run.begin("correlate")
            spanned = SpannedPairs.of(samples, kernels, chosen.rows, run.workers)
            self._check_ranks(spanned.ranks())
            pairs = spanned.correlated(spanned.sizes, self.regularization, self.n_components)
            run.begin("bound")
            counted = chosen.counted
            if counted is None:
                sizes = size_grid(len(chosen.rows))
                counted = run.recorded("bound", lambda: self._disagreements(spanned, sizes, run))
        for view, kept, span, (coefficients, shift) in zip(
            views, spanned.kept, spanned.spans, spanned.maps(pairs), strict=True
        ):
            points = present[kept] if is_precomputed(view.kernel) else span.points
            view.store(points, coefficients, shift)
        self._store_bounds(counted, spanned.weights)
        self._views = views
        self.basis_x_, self.basis_y_ = (
            None if is_precomputed(view.kernel) else view.points_ for view in views
        )
        self.dual_coef_x_, self.dual_coef_y_ = (view.coefficients_ for view in views)
        self.basis_indices_, self.n_basis_ = present[chosen.rows], len(chosen.rows)
        self.path_ = replace(chosen.path, index=self.basis_indices_)
        self.canonical_correlations_ = pairs.correlations
        self._n_features_out = len(pairs.correlations)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(views[0], name):
                setattr(self, name, getattr(views[0], name))
            elif hasattr(self, name):
                delattr(self, name)
        if run.stopping:
            interrupt(f"the {self.n_basis_} pairs found so far")
        return self

    def transform(self, X: Any, y: Any = None) -> Any:
        """Scores of rows, which have zero mean and unit variance over the training rows.

        Parameters
        ----------
        X : items of n_rows rows
            First view.
        y : items of as many rows, optional
            Second view.

        Returns
        -------
        x_scores : array of shape (n_rows, n_components)
        y_scores : array of shape (n_rows, n_components), if ``y`` is given
        """
        check_is_fitted(self)
        x_scores = self._views[0].scores(X, self.n_jobs)
        return x_scores if y is None else (x_scores, self._views[1].scores(y, self.n_jobs))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return the scores of both views, as scikit-learn's `CCA` does."""
        return self.fit(X, y, **fit_params).transform(X, y)

    @in_range
    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Mean correlation of the pairs of scores.

        Parameters
        ----------
        X, y : items of n_rows rows
            Both views.
        sample_weight : array of shape (n_rows,), optional
            Weights.

        Returns
        -------
        correlation : float
            Between -1 and 1; a score that does not vary has correlation 0.
        """
        return float(np.mean(self.correlations(X, y, sample_weight)))

    @in_range
    def correlations(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Floats:
        """Correlation of each pair of scores on other rows.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`score`.

        Returns
        -------
        correlations : array of shape (n_components,)
        """
        X, y = (as_table(view) if is_dask(view) else view for view in (X, y))
        left, right = self.transform(X, y)
        _check_lengths(len(left), len(right))
        w = validate_weights(sample_weight, len(left))
        left, right = (z - np.average(z, axis=0, weights=w) for z in (left, right))
        norms = np.sqrt((w @ left**2) * (w @ right**2))
        inner: Floats = w @ (left * right)
        return np.asarray(np.divide(inner, norms, out=np.zeros_like(inner), where=norms > 0))

    def _choose(
        self,
        search: Search,
        limit: int,
        samples: list[Sample],
        kernels: list[CountingKernel],
        run: FitRun,
        tick: Callable[[int], None],
    ) -> ChosenPairs:
        """Choose rows for the correlation of their columns in the two views."""
        m, by_bound, least = samples[0].n_rows, self.n_basis == "bound", int(self.n_components)
        fresh = search.kind == "fresh"
        index = self._pool(search, m, limit, run.rng)
        pooled = [sample.take(index) if len(index) < m else sample for sample in samples]
        left, right = (
            KernelMatrix(sample.rows, kernel, run.workers)
            for sample, kernel in zip(pooled, kernels, strict=True)
        )
        objective = CorrelationPursuit(
            (left, right), pooled[0].weights, capacity=limit, workers=run.workers, running=not fresh
        )
        candidates = FreshSubset(search.pool_size or subset_size(), run.rng) if fresh else None
        pursuit = Pursuit(objective, CostMeter(kernels[0]), candidates=candidates, labels=index)
        rules: list[StopRule] = [
            MaxSize(limit),
            # Fewer rows than components would be of no use.
            lambda pursuit: run.stop_reason() if pursuit.size >= least else None,
        ]
        if not by_bound:
            path = pursuit.run(rules, tick)
            return ChosenPairs(index[objective.chosen], path, None)
        tried: list[Disagreements] = []

        def curve(first: int, last: int) -> Floats:
            rows = index[objective.chosen[:last]]
            spanned = SpannedPairs.of(samples, kernels, rows, run.workers)
            tried.append(self._disagreements(spanned, range(first, last + 1), run))
            return self._bound(tried[-1], samples[0].weights, printed=False).value

        patience = Patience(curve, PATIENCE, "bound", least=least)
        path = pursuit.run([patience, *rules], tick)
        patience.look(len(path))
        n = min(max(patience.best_size, least), len(path))
        if n < len(path):
            path = replace(path.truncated(n), stop_reason="bound")
        # Which larger sizes there are depends on when the bound was looked at.
        counted = Disagreements.joined(tried).leading(max(n, len(patience.values)))
        return ChosenPairs(index[objective.chosen[:n]], path, counted)

    def _pool(self, search: Search, m: int, limit: int, rng: np.random.Generator) -> Indices:
        """Rows that may be chosen, and that judge: a random part of many, or all."""
        by_bound = self.n_basis == "bound"
        few = limits.BOUND_ROWS if by_bound else limits.SMALL_ROWS
        size = search.pool_size or default_pool_size(limit, by_bound=by_bound)
        if search.kind != "pooled" or size >= m or (search.pool_size is None and m <= few):
            return np.arange(m)
        return draw_rows(m, size, rng)

    def _disagreements(
        self, spanned: SpannedPairs, sizes: Sequence[int], run: FitRun
    ) -> Disagreements:
        ridge, tolerance = float(self.regularization), float(self.error_tol)
        return spanned.disagreements(sizes, ridge, tolerance, run.workers)

    def _bound(self, counted: Disagreements, weights: Floats, *, printed: bool) -> Bound:
        return counted.bound(weights, float(self.delta), float(self.error_tol), printed=printed)

    def _store_bounds(self, counted: Disagreements, weights: Floats) -> None:
        """Store Theorem 4 with the right dimension, and as printed."""
        self.generalization_bound_ = self._bound(counted, weights, printed=False)
        self.printed_bound_ = self._bound(counted, weights, printed=True)
        if self.n_basis == "bound" and not np.isfinite(self.generalization_bound_.value).any():
            warn(
                f"with error_tol={self.error_tol!r} the scores of every row outside the basis "
                f"differ by more at each of the {len(counted.sizes)} sizes tried, so the bound is "
                "vacuous and cannot choose. Raise error_tol, or give n_basis as a number."
            )

    def _check_ranks(self, ranks: list[int]) -> None:
        for name, rank in zip("XY", ranks, strict=True):
            if rank == 0:
                raise ValueError(
                    f"{name} is constant, or its kernel makes it so: it has nothing to correlate "
                    "with the other view."
                )
            if rank < self.n_components:
                raise ValueError(
                    f"n_components={self.n_components} is more than the {rank} dimension(s) that "
                    f"the chosen rows of {name} vary in: lower n_components, or raise n_basis."
                )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_precomputed(self.kernel_x)
        tags.input_tags.pairwise = is_precomputed(self.kernel_x)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.target_tags.required = True
        tags.target_tags.two_d_labels = True
        return tags


def _check_lengths(n_left: int, n_right: int) -> None:
    if n_left != n_right:
        raise ValueError(
            f"X and Y must be views of the same rows, got {n_left} rows in X and {n_right} in Y: "
            "found input variables with inconsistent numbers of samples."
        )
