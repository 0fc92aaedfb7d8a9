"""Sparse kernel CCA: what two views of the same rows have in common (HS08 §4)."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.bounds import Bound
from pursuit.estimators.components.subspace import BOUND_POOL, FULL_ROWS
from pursuit.estimators.components.viewmoments import ViewMoments
from pursuit.estimators.components.viewpairs import Disagreements, SpannedPairs
from pursuit.estimators.components.views import View
from pursuit.estimators.constraints import EXECUTION, POOLED
from pursuit.estimators.fit_run import FitRun, interrupt, warn
from pursuit.estimators.inputs import (
    check_positive_definite,
    is_precomputed,
    validate_weights,
)
from pursuit.estimators.progress import CallbackSupportMixin, with_callbacks
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.sources import named_columns
from pursuit.gram import ColumnMatrix
from pursuit.greedy import (
    PATIENCE,
    FreshSubset,
    MaxSize,
    Meter,
    Path,
    Patience,
    Pursuit,
    StopRule,
    largest_size,
    size_grid,
)
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.objectives import CorrelationPursuit
from pursuit.rows import RowSource, Sample, as_table, draw_rows, is_dask, len_items

_FULL_ROWS = 2000
_SUBSET = 59


class SparseKernelCCA(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ReportedModel,
    BaseEstimator,
):
    """Canonical correlations between the spans of a few rows, seen in two views.

    Rows are chosen one at a time, each for the largest ``abs(ρ)``: ρ is the correlation of its two
    kernel columns, after what the rows before explain has been taken off in both views. Then
    regularised CCA is done between the two spans (HS08 §4, where ρ stands without the absolute
    value: here columns that are opposite count as much as columns that are alike). The views may
    be of different kinds, say an RBF kernel on vectors and a string kernel on text. Methods are
    those of scikit-learn's `CCA`.

    Parameters
    ----------
    kernel_x, kernel_y : str, kernel object or callable, default "rbf"
        The kernel of each view: a name of `pairwise_kernels`, ``"precomputed"``, a
        `sklearn.gaussian_process.kernels` object, or a function k(A, B) of two blocks of items.
    n_basis : int or "bound", default 100
        Rows that span both views: so many at most, or where ``generalisation_bound_`` has its
        minimum, but no fewer than ``n_components``. The latter grows to at most half of the rows,
        and to 1024, and stops when as many further rows as the best size has, and at least 10, have
        not improved on it.
    n_components : int, default 1
        Pairs of canonical directions.
    regularization : float, default 1e-3
        Added to the variances in each span, as a share of the mean k(x, x) of its view. Without it
        spans of many functions correlate by chance.
    search : {"pooled", "fresh", "full"}, default "pooled"
        Who may be chosen: a random pool of rows, which also judges; a new random subset at every
        step; every row at every step. With up to 2 000 rows, or 5 000 where the bound chooses how
        many, ``"pooled"`` does the same as ``"full"``.
    pool_size : int or "auto", default "auto"
        Rows in the pool, 2 ``n_basis`` + 1000, or 4 096 where the bound chooses; in the fresh
        subsets 59.
    tolerance : float, default 1.0
        The α of the bound: scores of a row in both views, which have unit variance, agree when they
        differ by no more.
    delta : float, default 0.05
        The bound holds with probability 1 - ``delta``.
    kernel_params_x, kernel_params_y : dict, optional
        Parameters of named or callable kernels, such as ``{"gamma": 0.1}``.
    n_jobs : int or None, default None
        Threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    canonical_correlations_ : array of shape (n_components,)
        Correlations of the scores of the training rows, by the strength of the regularised pair.
    basis_indices_ : array of int
        Row numbers of the chosen rows, in the order of choice.
    n_basis_ : int
        How many there are.
    basis_x_, basis_y_ : items
        The chosen rows in each view, but those that depend on earlier ones there; None for a
        precomputed kernel.
    dual_coef_x_, dual_coef_y_ : arrays of shape (n, n_components)
        Canonical directions as combinations of the functions k(·, x_j), before centring.
    generalisation_bound_ : Bound
        How often the first scores of a new row differ by more than ``tolerance``, for several
        numbers of chosen rows, or for all that were tried with ``n_basis="bound"`` (HS08 Theorem 4
        with exact counts, for the 2k + 1 dimensions of the difference); print it. Above 1 it is
        vacuous as a statement.
    printed_bound_ : Bound
        The same in the form of the paper, which counts k + 1 dimensions, to compare: its proof does
        not cover two views.
    path_ : Path
        What each step brought and cost; ``value`` is what is left of the traces, as a share, summed
        over the views.
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
        "search": [StrOptions({"pooled", "fresh", "full"})],
        "pool_size": POOLED["pool_size"],
        "tolerance": [Interval(numbers.Real, 0, None, closed="neither")],
        "delta": [Interval(numbers.Real, 0, 1, closed="neither")],
        "kernel_params_x": [None, dict],
        "kernel_params_y": [None, dict],
        **EXECUTION,
    }

    canonical_correlations_: Floats
    generalisation_bound_: Bound
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
        search: str = "pooled",
        pool_size: int | str = "auto",
        tolerance: float = 1.0,
        delta: float = 0.05,
        kernel_params_x: dict[str, Any] | None = None,
        kernel_params_y: dict[str, Any] | None = None,
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
        self.pool_size = pool_size
        self.tolerance = tolerance
        self.delta = delta
        self.kernel_params_x = kernel_params_x
        self.kernel_params_y = kernel_params_y
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
        """Choose rows, and correlate the views in their spans.

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
        if self.n_basis != "bound" and self.n_components > int(self.n_basis):
            raise ValueError(
                f"n_components={self.n_components} is more than n_basis={self.n_basis}: directions "
                "are combinations of basis functions. Raise n_basis or lower n_components."
            )
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
        rows, kernels = self._rows(views, (X, y))
        weights = validate_weights(sample_weight, rows[0].n_rows)
        present = np.flatnonzero(weights > 0)
        if len(present) < 2:
            raise ValueError("X and Y have 1 sample: at least 2 rows are needed to correlate.")
        samples = [
            Sample(source, np.empty((source.n_rows, 0)), weights).take(present) for source in rows
        ]
        with FitRun(self, samples[0], present, n_stages=3) as run:
            for sample, kernel in zip(samples, kernels, strict=True):
                check_positive_definite(kernel, sample, run.rng)
            spanned, path, counted = self._choose(views, samples, kernels, run)
            run.begin("correlate")
            moments = spanned.moments
            self._check_ranks(moments)
            pairs = moments.correlated(moments.sizes, self.regularization, self.n_components)
            for view, span, (coefficients, shift) in zip(
                views, spanned.spans, moments.maps(pairs), strict=True
            ):
                points = span.points
                if is_precomputed(view.kernel):
                    points = present[view.indices_]
                view.store(points, coefficients, shift)
            run.begin("bound")
            if counted is None:
                sizes = size_grid(len(spanned.chosen))
                counted = self._disagreements(spanned, sizes, run.workers)
        self._store_bounds(counted, spanned.weights)
        chosen = spanned.chosen
        self._views = views
        self.basis_x_, self.basis_y_ = (
            None if is_precomputed(view.kernel) else view.points_ for view in views
        )
        self.dual_coef_x_, self.dual_coef_y_ = (view.coefficients_ for view in views)
        self.basis_indices_, self.n_basis_ = present[chosen], len(chosen)
        self.path_ = replace(path, index=self.basis_indices_)
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
        """Scores of rows: uncentred directions applied, of zero mean and unit variance in training.

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
        left = self._views[0].scores(X, self.n_jobs)
        return left if y is None else (left, self._views[1].scores(y, self.n_jobs))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return the scores of both views, as scikit-learn's `CCA` does."""
        return self.fit(X, y, **fit_params).transform(X, y)

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

    def _rows(
        self, views: tuple[View, View], data: tuple[Any, Any]
    ) -> tuple[list[RowSource], list[CountingKernel]]:
        found = [view.rows(items, reset=True) for view, items in zip(views, data, strict=True)]
        _check_lengths(*(len_items(items) for _, items in found))
        kernels = [view.compiled(items) for view, (_, items) in zip(views, found, strict=True)]
        return [rows for rows, _ in found], kernels

    def _choose(
        self,
        views: tuple[View, View],
        samples: list[Sample],
        kernels: list[CountingKernel],
        run: FitRun,
    ) -> tuple[SpannedPairs, Path, Disagreements | None]:
        """The chosen rows and, where the bound said how many, what it counted at every size."""
        m, by_bound = samples[0].n_rows, self.n_basis == "bound"
        workers, rng = run.workers, run.rng
        weights, least = samples[0].weights, int(self.n_components)
        limit = largest_size(weights.sum(), least) if by_bound else int(self.n_basis)
        index = self._pool(m, limit, rng)
        seen = [sample.take(index) if len(index) < m else sample for sample in samples]
        left, right = (
            ColumnMatrix(sample.rows, kernel, workers)
            for sample, kernel in zip(seen, kernels, strict=True)
        )
        fresh = self.search == "fresh"
        objective = CorrelationPursuit(
            (left, right), seen[0].weights, capacity=limit, workers=workers, running=not fresh
        )
        subset = _SUBSET if self.pool_size == "auto" else int(self.pool_size)
        candidates = FreshSubset(subset, rng) if fresh else None
        pursuit = Pursuit(objective, Meter(kernels[0]), candidates=candidates, labels=index)
        tick = run.begin("choose", limit)
        rules: list[StopRule] = [MaxSize(limit), run.interrupted]

        def spanned(n: int) -> SpannedPairs:
            return SpannedPairs.of(views, samples, kernels, index[objective.chosen[:n]], workers)

        if not by_bound:
            path = pursuit.run(rules, tick)
            return spanned(len(path)), path, None
        tried: list[Disagreements] = []

        def curve(first: int, last: int) -> Floats:
            found = self._disagreements(spanned(last), range(first, last + 1), workers)
            tried.append(found)
            return self._bound(found, weights, printed=False).value

        patience = Patience(curve, PATIENCE, "bound", least=least)
        path = pursuit.run([patience, *rules], tick)
        patience.look(len(path))
        n = min(max(patience.best_size, least), len(path))
        if n < len(path):
            path = replace(path.truncated(n), stop_reason="bound")
        # What lies beyond depends on when one looked.
        counted = Disagreements.joined(tried).leading(max(n, len(patience.values)))
        return spanned(n), path, counted

    def _pool(self, m: int, limit: int, rng: np.random.Generator) -> Indices:
        """Rows that may be chosen, and that judge: a random part of many, or all."""
        by_bound = self.n_basis == "bound"
        if self.search != "pooled":
            return np.arange(m)
        if self.pool_size != "auto":
            size = int(self.pool_size)
        elif m <= (FULL_ROWS if by_bound else _FULL_ROWS):
            size = m
        else:
            size = BOUND_POOL if by_bound else 2 * limit + 1000
        return draw_rows(m, size, rng) if size < m else np.arange(m)

    def _disagreements(
        self, spanned: SpannedPairs, sizes: Sequence[int], workers: Workers
    ) -> Disagreements:
        ridge, tolerance = float(self.regularization), float(self.tolerance)
        return spanned.disagreements(sizes, ridge, tolerance, workers)

    def _bound(self, counted: Disagreements, weights: Floats, *, printed: bool) -> Bound:
        return counted.bound(weights, float(self.delta), float(self.tolerance), printed=printed)

    def _store_bounds(self, counted: Disagreements, weights: Floats) -> None:
        """HS08 Theorem 4 with the right dimension, and as printed."""
        self.generalisation_bound_ = self._bound(counted, weights, printed=False)
        self.printed_bound_ = self._bound(counted, weights, printed=True)
        if self.n_basis == "bound" and not np.isfinite(self.generalisation_bound_.value).any():
            warn(
                f"with tolerance={self.tolerance!r} the scores of every row outside the basis "
                f"differ by more at each of the {len(counted.sizes)} sizes tried, so the bound is "
                "vacuous and cannot choose. Raise tolerance, or give n_basis as a number."
            )

    def _check_ranks(self, moments: ViewMoments) -> None:
        for name, rank in zip("XY", moments.ranks(), strict=True):
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
        tags.target_tags.required = True
        tags.target_tags.two_d_labels = True
        return tags


def _check_lengths(n_left: int, n_right: int) -> None:
    if n_left != n_right:
        raise ValueError(
            f"X and Y must be views of the same rows, got {n_left} rows in X and {n_right} in Y: "
            "found input variables with inconsistent numbers of samples."
        )
