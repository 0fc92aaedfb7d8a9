"""Exact nearest neighbours in the feature space of a kernel (Smola and Schölkopf 2000, §6.3)."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import solve_triangular
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import Interval, fit_context
from pursuit._types import Floats, Indices
from pursuit.estimators.arguments import CHECKPOINT, EXECUTION, KERNEL, MAX_TIME
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, interrupt, with_callbacks
from pursuit.estimators.inputs import (
    check_positive_definite,
    check_symmetric,
    held,
    indefinite,
    named_columns,
    prediction_rows,
    reads_matrix,
    training_rows,
    weighted_sample,
)
from pursuit.estimators.kernel_model import KernelModel
from pursuit.estimators.maps.landmarks import choose_in_blocks
from pursuit.estimators.saving import SavedModel
from pursuit.estimators.scales import in_range
from pursuit.gram import (
    TIED_ROUNDINGS,
    Found,
    NeighborSearch,
    Queries,
    kernel_diagonal,
    kernel_features,
    landmark_errors,
)
from pursuit.greedy import Pivots
from pursuit.kernels import CountingKernel
from pursuit.linalg import NotPositiveDefiniteError, SpanPoints, Workers
from pursuit.rows import IndexRows, RowSource, as_rows

_CHECKED_ROWS = 64
"""Rows on which an unknown kernel is checked: more find more faults, at a cost of their square."""


@dataclass(frozen=True)
class SearchCost:
    """Number of kernel values that an index and a search in it took.

    Attributes
    ----------
    index_entries : int
        Kernel values for choosing the landmarks and placing the training rows.
    pairs : int
        Pairs of query and training row in the search, all of which brute force evaluates.
    evaluated : int
        Number of these pairs that were evaluated.
    query_entries : int
        Kernel values for placing the queries; 0 when they were the training rows.
    """

    index_entries: int
    pairs: int = 0
    evaluated: int = 0
    query_entries: int = 0

    @property
    def share(self) -> float:
        """``evaluated / pairs``; NaN for the cost of a fit."""
        return self.evaluated / self.pairs if self.pairs else float("nan")

    def __str__(self) -> str:
        index = f"{self.index_entries} kernel values for the index"
        if not self.pairs:
            return index
        placing = f"{self.query_entries} to place the queries, " if self.query_entries else ""
        return (
            f"{index}; search: {placing}{self.evaluated} of {self.pairs} pairs evaluated "
            f"({self.share:.2%})"
        )


class SpanNeighbors(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    KernelModel,
    SavedModel,
    BaseEstimator,
):
    """Exact nearest neighbours by the distance ‖φ(x)-φ(z)‖² = k(x,x) + k(z,z) - 2k(x,z).

    This is for kernels that are expensive to evaluate: on strings, graphs, or anything that a
    function can compare. Every row is placed in R^(n+1) by its kernel values with n landmarks, so
    that Euclidean distances there bracket the distances in feature space. Kernel values are
    computed only for pairs that the brackets do not decide. The result is that of brute force.
    Methods and their arguments are those of scikit-learn's `NearestNeighbors`.

    For the RBF and other cheap kernels of numbers this saves kernel values but no time. There the
    nearest rows in feature space are the nearest by Euclidean distance, which is faster to search.

    Parameters
    ----------
    kernel : str, callable or kernel object, default "rbf"
        A name of `pairwise_kernels`, ``"precomputed"``, a function k(A, B) of two blocks of items,
        or a `sklearn.gaussian_process.kernels` object, whose White terms are left out.
    n_components : int, default 100
        Largest number of landmarks. With more of them fewer pairs are evaluated; each landmark
        costs one kernel value per row.
    n_neighbors : int, default 5
        Number of neighbours that methods return by default.
    radius : float, default 1.0
        Distance within which methods search by default; ``inf`` takes all rows.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    max_time : float or None, default None
        Seconds that the fit may take, about: no landmark is chosen after 80 % of them, and then
        searches evaluate more pairs. Their results do not depend on it.
    checkpoint : path-like or None, default None
        A folder in which the fit records the landmarks once it has chosen them. The same call with
        the same data goes on from there, to the identical index.
    n_jobs : int or None, default None
        Number of threads; None uses as many as BLAS would. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of the choice of landmarks. Only the cost of a search depends on it.
    verbose : int, default 0
        Print the stages of the fit with their times, and the cost of every search.

    Attributes
    ----------
    component_indices_ : array of int
        Row numbers of the landmarks, in the order of choice.
    n_components_ : int
        Number of landmarks. There are fewer than ``n_components`` where the rows span no more, up
        to rounding.
    residual_trace_ : float
        Sum over the rows of d = k(x,x) - ‖V_x‖², the squared distance from the landmarks' span.
    n_samples_fit_ : int
        Number of training rows.
    cost_ : SearchCost
        Number of kernel values that the fit took (``index_entries``). For the cost of a search
        call :meth:`kneighbors` or :meth:`radius_neighbors` with ``return_cost=True``.
    kernel_ : kernel
        The kernel in use.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    Notes
    -----
    The fitted estimator keeps the training rows, and n + 1 numbers per row beside them. A search
    holds one number per pair of a training row and one of a few queries, computed by a matrix
    product; with ten landmarks or more this is faster than a tree.

    Squared distances below a few ulps of k(x,x) + k(z,z) are 0. Squared distances that differ by no
    more are ties, which go to the lower row number.

    References
    ----------
    A. J. Smola and B. Schölkopf. Sparse greedy matrix approximation for machine learning. ICML,
    2000.

    Examples
    --------
    >>> from pursuit import SpanNeighbors, pairwise
    >>> def shared_pairs(a, b):
    ...     return float(len({*zip(a, a[1:])} & {*zip(b, b[1:])}))
    >>> words = ["kernel", "colonel", "kennel", "matrix", "metric", "matrices"]
    >>> search = SpanNeighbors(pairwise(shared_pairs), n_neighbors=1).fit(words)
    >>> distances, indices = search.kneighbors(["kernels", "matrixes"])
    >>> [words[i] for i in indices[:, 0]]
    ['kernel', 'matrix']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable, SklearnKernel],
        "n_components": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_neighbors": [Interval(numbers.Integral, 1, None, closed="left")],
        "radius": [Interval(numbers.Real, 0, None, closed="both")],
        **KERNEL,
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
        **EXECUTION,
    }

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        n_components: int = 100,
        n_neighbors: int = 5,
        radius: float = 1.0,
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
        self.n_neighbors = n_neighbors
        self.radius = radius
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
    def fit(self, X: Any, y: Any = None, *, target: str | Sequence[str] | None = None) -> Self:
        """Choose landmarks and place the rows by them.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows, which are kept; the n_rows x n_rows kernel matrix when
            ``kernel="precomputed"``.
        y : ignored
            Not used, present for pipelines.
        target : str or list of str, optional
            Columns of X that are not features.

        Returns
        -------
        self : SpanNeighbors
        """
        X, _, _ = named_columns(X, target=target)
        X = held(self, training_rows(self, X)[1])
        rows = IndexRows(len(X)) if reads_matrix(self) else as_rows(X)
        if reads_matrix(self):
            check_symmetric(X)
        self.kernel_ = self._given_kernel()
        kernel = self._compiled(X)
        self._freeze_parameters()
        sample, present = weighted_sample(rows, None)
        with FitRun(self, sample, present, n_stages=2) as run:
            run.same_matrix(X)
            squares = kernel_diagonal(rows, kernel)
            if squares.min() < 0:
                raise NotPositiveDefiniteError(int(squares.argmin()), float(squares.min()))
            check_positive_definite(kernel, sample, run.rng, _CHECKED_ROWS)
            n = int(self.n_components)
            tick = run.begin("choose", n)
            pivots, entries = run.recorded(
                "choose",
                lambda: (choose_in_blocks(sample, kernel, n, run, tick), kernel.entries),
            )
            counted = kernel.entries
            run.begin("place")
            self._place(pivots, rows, kernel, squares, run.workers)
        self._X = X
        self.n_samples_fit_ = self._n_features_out = rows.n_rows
        self.cost_ = SearchCost(entries + kernel.entries - counted)
        if run.stopping:
            interrupt(f"the {self.n_components_} landmarks found so far")
        return self

    @in_range
    def kneighbors(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
        *,
        diagonal: ArrayLike | None = None,
        return_cost: bool = False,
    ) -> Any:
        """The nearest training rows of every query, nearest first.

        Parameters
        ----------
        X : items of n_queries rows, optional
            Queries; k(queries, training rows) when ``kernel="precomputed"``. With None the queries
            are the training rows, and no row is its own neighbour.
        n_neighbors : int, optional
            Number of neighbours; by default that of the constructor.
        return_distance : bool, default True
            Whether to return the distances, too.
        diagonal : array of shape (n_queries,), optional
            k(x, x) of the queries for ``kernel="precomputed"``, where X does not hold it. It may
            be left out where k(x, x) is the same for all training rows and so for the queries, and
            where X is the training matrix itself.
        return_cost : bool, default False
            Whether to return the number of kernel values that the search took, too.

        Returns
        -------
        distances : array of shape (n_queries, n_neighbors), if ``return_distance``
        indices : array of int of shape (n_queries, n_neighbors)
        cost : SearchCost, if ``return_cost``
        """
        check_is_fitted(self)
        k = self._checked_count(n_neighbors, self.n_samples_fit_ - (X is None))
        found, cost = self._search(X, diagonal, "nearest", k=k)
        indices = np.array(found.indices, dtype=np.intp)
        distances = np.array(found.distances) if return_distance else None
        return _returned(distances, indices, cost if return_cost else None)

    @in_range
    def radius_neighbors(
        self,
        X: Any = None,
        radius: float | None = None,
        return_distance: bool = True,
        sort_results: bool = False,
        *,
        diagonal: ArrayLike | None = None,
        return_cost: bool = False,
    ) -> Any:
        """All training rows within a distance of every query.

        Parameters
        ----------
        X, diagonal, return_cost
            As in :meth:`kneighbors`.
        radius : float, optional
            The largest distance; by default that of the constructor.
        return_distance : bool, default True
            Whether to return the distances, too. Without them, rows that the bounds show to be
            within the radius are not evaluated.
        sort_results : bool, default False
            Sort by distance instead of by row number.

        Returns
        -------
        distances : array of n_queries arrays, if ``return_distance``
        indices : array of n_queries arrays of int
        cost : SearchCost, if ``return_cost``
        """
        check_is_fitted(self)
        r = self.radius if radius is None else radius
        if not isinstance(r, numbers.Real) or not 0 <= float(r) <= np.inf:
            raise ValueError(f"radius must be a number, at least 0, got {r!r}.")
        found, cost = self._search(
            X, diagonal, "within", radius=float(r), distances=return_distance, sort=sort_results
        )
        distances = _ragged(found.distances) if return_distance else None
        return _returned(distances, _ragged(found.indices), cost if return_cost else None)

    def kneighbors_graph(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        mode: str = "connectivity",
        *,
        diagonal: ArrayLike | None = None,
    ) -> sparse.csr_matrix[Any]:
        """The nearest training rows of every query as a sparse matrix.

        Parameters
        ----------
        X, n_neighbors, diagonal
            As in :meth:`kneighbors`.
        mode : {"connectivity", "distance"}, default "connectivity"
            Whether the matrix holds ones or distances; distances of zero are stored.

        Returns
        -------
        graph : CSR matrix of shape (n_queries, n_samples_fit)
            Rows are sorted by distance, as scikit-learn's ``metric="precomputed"`` wants them.
        """
        _check_mode(mode)
        distances, indices = self.kneighbors(X, n_neighbors, diagonal=diagonal)
        return self._graph(mode, list(indices), list(distances))

    def radius_neighbors_graph(
        self,
        X: Any = None,
        radius: float | None = None,
        mode: str = "connectivity",
        sort_results: bool = False,
        *,
        diagonal: ArrayLike | None = None,
    ) -> sparse.csr_matrix[Any]:
        """All training rows within a distance of every query as a sparse matrix.

        Parameters
        ----------
        X, radius, sort_results, diagonal
            As in :meth:`radius_neighbors`.
        mode : {"connectivity", "distance"}, default "connectivity"
            Whether the matrix holds ones or distances; distances of zero are stored.

        Returns
        -------
        graph : CSR matrix of shape (n_queries, n_samples_fit)
        """
        _check_mode(mode)
        distance = mode == "distance"
        found = self.radius_neighbors(X, radius, distance, sort_results, diagonal=diagonal)
        distances, indices = found if distance else ([], found)
        return self._graph(mode, list(indices), list(distances))

    def transform(self, X: Any) -> sparse.csr_matrix[Any]:
        """The graph of distances that scikit-learn's estimators take as ``metric="precomputed"``.

        As in scikit-learn's `KNeighborsTransformer` every row has ``n_neighbors + 1`` entries: a
        training row is the nearest to itself.

        Parameters
        ----------
        X : items of n_queries rows
            As in :meth:`kneighbors`.

        Returns
        -------
        graph : CSR matrix of shape (n_queries, n_samples_fit)
        """
        check_is_fitted(self)
        if self.n_neighbors >= self.n_samples_fit_:
            raise ValueError(
                f"transform gives a row itself and n_neighbors={self.n_neighbors} others, but "
                f"there are n_samples_fit={self.n_samples_fit_} training rows: lower n_neighbors."
            )
        return self.kneighbors_graph(X, self.n_neighbors + 1, mode="distance")

    def _place(
        self,
        pivots: Pivots,
        rows: RowSource,
        kernel: CountingKernel,
        squares: Floats,
        workers: Workers,
    ) -> None:
        """Keep the landmarks that rounding does not spoil, and place the rows by them."""
        R, S, landmarks = pivots.factor, pivots.pool.index, pivots.pool.items
        n, self._error, self._kernel_error = landmark_errors(kernel, landmarks, R, squares[S])
        self._whitener = solve_triangular(R[:n, :n], np.eye(n), lower=True) if n else R[:0, :0]
        self._landmarks = landmarks[:n]
        if pivots.features is None:
            V = kernel_features(rows, kernel, self._landmarks, workers, whitener=self._whitener)
        else:
            V = pivots.features[:, :n]
        self._points = SpanPoints.place(V, squares, self._error)
        self._resolution = TIED_ROUNDINGS * kernel.rounding
        self.component_indices_ = S[:n]
        self.n_components_ = n
        self.residual_trace_ = float((self._points.points[:, -1] ** 2).sum())

    def _training_rows(self) -> RowSource:
        return IndexRows(len(self._X)) if reads_matrix(self) else as_rows(self._X)

    def _search(
        self, X: Any, diagonal: ArrayLike | None, method: str, **options: Any
    ) -> tuple[Found, SearchCost]:
        """Place the queries and search; also count the kernel values this takes."""
        index = NeighborSearch(
            self._training_rows(), self._points, self._resolution, self._kernel_error
        )
        with Workers(self.n_jobs) as workers:
            queries, entries = self._queries(X, diagonal, workers)
            try:
                found: Found = getattr(index, method)(queries, workers, **options)
            except NotPositiveDefiniteError as error:
                raise indefinite(error.index, error.pivot) from error
        pairs = queries.rows.n_rows * (self.n_samples_fit_ - (X is None))
        cost = SearchCost(self.cost_.index_entries, pairs, found.evaluated, entries)
        if self.verbose:
            print(f"[{type(self).__name__}] {cost}", flush=True)
        return found, cost

    def _queries(self, X: Any, diagonal: ArrayLike | None, workers: Workers) -> tuple[Queries, int]:
        """The queries with their points in the span, and the number of kernel values computed."""
        precomputed = reads_matrix(self)
        if X is None:
            if diagonal is not None:
                raise ValueError("diagonal is for new rows, and needs X: leave it out.")
            kernel = self._compiled(self._X)
            own = np.arange(self.n_samples_fit_)
            return Queries(self._training_rows(), kernel, self._points, own), 0
        rows, X = prediction_rows(self, X)
        kernel, known = self._compiled(X), self._points.squares
        if precomputed and diagonal is None and np.array_equal(X, self._X):
            diagonal = known
        constant = known.max() if np.ptp(known) <= self._resolution * known.max() else None
        squares = self._diagonal_of(rows, kernel, diagonal, constant)
        V = kernel_features(rows, kernel, self._landmarks, workers, whitener=self._whitener)
        try:
            points = SpanPoints.place(V, squares, self._error)
        except NotPositiveDefiniteError as error:
            hint = " Are the numbers in diagonal k(x, x)?" if precomputed else ""
            raise ValueError(
                f"kernel is not positive semi-definite: query {error.index} has k(x, x) = "
                f"{squares[error.index]:.6g}, {-error.pivot:.3g} less than its kernel values with "
                f"the landmarks imply.{hint}"
            ) from error
        towards = self._compiled(X.T) if precomputed else kernel
        return Queries(rows, towards, points), kernel.entries

    def _checked_count(self, n_neighbors: int | None, n_others: int) -> int:
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if not isinstance(k, numbers.Integral) or isinstance(k, bool) or k < 1:
            raise ValueError(f"n_neighbors must be a whole number, at least 1, got {k!r}.")
        if k > n_others:
            itself = " other than the query itself" if n_others < self.n_samples_fit_ else ""
            raise ValueError(
                f"n_neighbors={k} is more than the {n_others} training rows{itself}: lower it to "
                "at most that, or fit on more rows."
            )
        return int(k)

    def _graph(
        self, mode: str, indices: list[Indices], distances: list[Floats]
    ) -> sparse.csr_matrix[Any]:
        starts = np.concatenate([[0], np.cumsum([len(found) for found in indices])])
        columns = np.concatenate(indices)
        data = np.concatenate(distances) if mode == "distance" else np.ones(len(columns))
        return sparse.csr_matrix((data, columns, starts), shape=(len(indices), self.n_samples_fit_))


def _returned(distances: Any, indices: Any, cost: SearchCost | None) -> Any:
    """What a search returns: those that are not None, alone or as a tuple."""
    values = tuple(value for value in (distances, indices, cost) if value is not None)
    return values if len(values) > 1 else indices


def _ragged(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    ragged = np.empty(len(arrays), dtype=object)
    ragged[:] = arrays
    return ragged


def _check_mode(mode: str) -> None:
    if mode not in ("connectivity", "distance"):
        raise ValueError(f"mode must be 'connectivity' or 'distance', got {mode!r}.")
