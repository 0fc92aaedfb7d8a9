"""Sparse greedy matrix approximation as a feature map (Smola and Schölkopf 2000)."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils.validation import check_is_fitted, validate_data

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, sampled_total
from pursuit.estimators.arguments import CHECKPOINT, DTYPE, EXECUTION, KERNEL, MAX_TIME, Search
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, interrupt, with_callbacks
from pursuit.estimators.inputs import (
    as_passed,
    check_positive_definite,
    is_precomputed,
    named_columns,
    prediction_rows,
    reads_matrix,
    training_rows,
    weighted_sample,
)
from pursuit.estimators.kernel_model import Expansion, KernelModel, lazily
from pursuit.estimators.maps.landmarks import (
    PROJECTIONS,
    RULES,
    STOPS,
    LandmarkPlan,
    Landmarks,
    Projection,
    choose_landmarks,
    own_points,
    project,
    trace_rounding,
)
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.scales import in_range
from pursuit.estimators.span.search import refuse_centres
from pursuit.estimators.warning import warn
from pursuit.gram import kernel_features
from pursuit.greedy import Path
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers, invert_lower, low_rank_inverse, low_rank_operator
from pursuit.objectives import Pick, Project, StepBound
from pursuit.rows import IndexRows, RowSource, Sample, draw_rows


class GreedyFeatureMap(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    KernelModel,
    ReportedModel,
    BaseEstimator,
):
    """Features φ(x) = R⁻¹k_S(x) of a few greedily chosen landmarks S, with K_SS = RR'.

    φ(x)'φ(x') approximates k(x, x'), and is exact where x is a landmark. Landmarks are chosen so
    that the residual trace τ = Σ w_i (k(x_i, x_i) - ‖φ(x_i)‖²) falls fast (Smola and Schölkopf
    2000). The map is a drop-in for `sklearn.kernel_approximation.Nystroem`, whose landmarks are
    uniformly random.

    Parameters
    ----------
    kernel : str, kernel object or callable, default "rbf"
        A name of `pairwise_kernels`, ``"precomputed"``, a `sklearn.gaussian_process.kernels`
        object, or a function k(A, B) of two blocks of items.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`; gamma is 1/n_features by
        default.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    n_components : int, default 100
        Largest number of landmarks. There are fewer where the rows span no more; see
        ``path_.stop_reason``.
    residual_tol : float or None, default None
        Stop when the residual of the projection is at most this share of the residual before the
        first landmark. The residual is Σ w_i ‖k_i - k̃_i‖² in function space, which is τ for
        ``projection="function"``; for ``projection="column"`` it is the squared Frobenius norm of
        K - K̃.
    rule : {"function", "frobenius", "column", "diagonal", "random-pivot", "feature-analysis"} \
            or callable, default "function"
        How candidates are scored. With E = K - K̃ the residual of the projection and e_i its
        column i: ``"function"`` scores by ‖e_i‖²/E_ii, the decrease of τ in function space;
        ``"frobenius"`` by ‖E'e_i‖²/‖e_i‖², the decrease of ‖E‖² in column space; ``"column"`` by
        ‖e_i‖². Three rules need ``projection="function"``: ``"feature-analysis"`` scores by ‖e_i‖²
        of the residual function scaled to coefficients of unit l1 norm; ``"diagonal"`` by E_ii;
        ``"random-pivot"`` draws with probability E_ii/τ. A function ``pick(step)`` gets a
        :class:`GreedyStep` and returns one of its ``candidates``.
    projection : {"function", "column", "kronecker"} or callable, default "function"
        How the columns of K are approximated by those of the landmarks, and so which residual the
        next landmark is chosen by: the best approximation in function space, the best in column
        space, or the chosen columns alone. The projection decides ``T_`` and the residuals; the
        features are R⁻¹k_S(x) for every projection. The projection in column space costs products
        of the full kernel matrix with n vectors. A function ``project(step, picked)`` returns T of
        shape (n_rows, n + 1), with the picked column last.
    search : {"auto", "pooled", "fresh", "full"} or Search, default "auto"
        Which rows are looked at. ``"pooled"``: blocks of candidates are drawn by the residual
        diagonal, and the best of each block are kept (random pivots are thinned by rejection). It
        applies to the rules function and random-pivot with ``projection="function"`` and
        ``stop="exact"``. ``"fresh"``: a new random subset of the rows per step, as published.
        ``"full"``: every row at every step, at the cost of a product with the kernel matrix per
        step. ``"auto"``: pooled where it applies, full for the rule diagonal, otherwise fresh.

        ``Search("fresh", pool_size=...)`` sets the size of the subsets. The default, 59, reaches
        the best 5 % of the rows with probability 95 % at every step; log(δ)/log(1 - q) rows reach
        the best share q with probability 1 - δ. ``Search("pooled", candidates=...)`` chooses
        landmarks among other points: ``"kmeans"``, the centres of ``n_components`` clusters of the
        rows, or points of your own (row numbers for ``kernel="precomputed"``). Points are all
        taken, in their order, except those that depend on earlier ones; if there are more than
        ``n_components``, or with ``residual_tol``, those that lower τ most are taken one by one.
    stop : {"exact", "corollary3"} or callable, default "exact"
        What is compared with ``residual_tol`` after each landmark. ``"exact"``: the residual
        itself. ``"corollary3"``: a bound on it from the residuals of the candidates, which holds
        with probability 1 - ``delta`` at all steps together and avoids the pass over the kernel
        matrix that the exact residual takes in column space. A function ``bound(step, picked, T)``
        returns a number, and the loop ends when it is at most ``residual_tol``.
    delta : float or None, default None
        Probability with which the bound of ``stop="corollary3"`` may fail; 0.05 by default. It has
        no effect on other stops, which refuse it.
    max_time : float or None, default None
        Seconds that the fit may take, about: no landmark is chosen after 80 % of them. There is at
        least one landmark, or one block of a pooled search. The result is no longer reproducible.
    checkpoint : path-like or None, default None
        A folder in which the fit records the landmarks and the projection once it has them. The
        same call with the same data goes on from there, to the identical map.
    dtype : {"float64", "float32"}, default "float64"
        Type of the features that :meth:`transform` returns for float64 rows. All computations are
        in float64.
    n_jobs : int or None, default None
        Number of threads; None uses as many as BLAS would. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    components_ : items
        The landmarks; None for a precomputed kernel.
    component_indices_ : array of shape (n,)
        Row numbers of the landmarks, -1 for a landmark that is not a row.
    normalization_ : array of shape (n, n)
        R⁻¹: features are ``k(X, components_) @ normalization_.T``.
    T_ : array of shape (n_rows, n)
        Coefficients of the projection, k_i ≈ Σ_j T_ij k_{S_j}. Rows of weight 0 are left out.
    residual_trace_ : float
        Σ_i w_i ‖k_i - k̃_i‖² in function space for the projection; it is τ for ``"function"``.
    trace_ : float
        Σ w_i k(x_i, x_i).
    path_ : Path
        τ after each landmark for every projection, its cost, and why the choice ended.
    stop_bound_ : Bound or None
        For ``stop="corollary3"``: the bound on the residual at the last step.
    kernel_ : kernel
        The kernel in use.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    Notes
    -----
    After ``fit`` the features V of the training rows are kept if they have at most 2²⁶ numbers
    (512 MB); ``T_``, :meth:`preconditioner` and :meth:`as_linear_operator` use them. They are not
    pickled: a saved map has size O(n²) beside its landmarks, and needs the rows again as ``X=``.

    Smola and Schölkopf (2000, §2.3) rearrange the landmarks by importance afterwards. A second map
    does this: pass ``search=Search("pooled", candidates=first.components_)`` and a small
    ``residual_tol``.

    References
    ----------
    A. J. Smola and B. Schölkopf. Sparse greedy matrix approximation for machine learning. ICML
    2000.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from pursuit import GreedyFeatureMap
    >>> X, y = load_digits(return_X_y=True)
    >>> features = GreedyFeatureMap(gamma=0.001, n_components=100, random_state=0)
    >>> model = make_pipeline(features, LogisticRegression(max_iter=1000)).fit(X[:1200], y[:1200])
    >>> bool(model.score(X[1200:], y[1200:]) > 0.9)
    True
    >>> bool(features.residual_trace_ < 0.5 * features.trace_)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable, SklearnKernel],
        **KERNEL,
        "n_components": [Interval(numbers.Integral, 1, None, closed="left")],
        "residual_tol": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "rule": [StrOptions(set(RULES)), callable],
        "projection": [StrOptions(set(PROJECTIONS)), callable],
        "search": [StrOptions({"auto", "pooled", "fresh", "full"}), Search],
        "stop": [StrOptions(set(STOPS)), callable],
        "delta": [None, Interval(numbers.Real, 0, 1, closed="neither")],
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
        "dtype": DTYPE,
        **EXECUTION,
    }

    component_indices_: Indices
    components_: Any
    normalization_: Floats
    residual_trace_: float
    _trace_rounding: float
    trace_: float
    path_: Path
    stop_bound_: Bound | None
    _features: Floats | None
    _projection: Projection
    _sampled: Floats | None

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        n_components: int = 100,
        residual_tol: float | None = None,
        rule: str | Pick = "function",
        projection: str | Project = "function",
        search: str | Search = "auto",
        stop: str | StepBound = "exact",
        delta: float | None = None,
        max_time: float | None = None,
        checkpoint: Any = None,
        dtype: Any = "float64",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.residual_tol = residual_tol
        self.rule = rule
        self.projection = projection
        self.search = search
        self.stop = stop
        self.delta = delta
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.dtype = dtype
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
        """Choose landmarks among the rows.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows matrix, dense or sparse, when
            ``kernel="precomputed"``. Whatever :func:`open_table` takes is read in blocks.
        y : ignored
            Not used, present for pipelines.
        sample_weight : array of shape (n_rows,), optional
            Weights of the rows in the residual. A row of weight 0 is absent.
        target : str or list of str, optional
            Columns of X that are not features.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : GreedyFeatureMap
        """
        plan = LandmarkPlan.of(self)
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        rows, X = _rows(self, X, fitting=True)
        sample, present = weighted_sample(rows, sample_weight)
        refuse_centres(self, plan.search)
        if plan.search.own_points:
            points = own_points(self, plan.search.candidates, rows.n_rows)
            plan = replace(plan, search=replace(plan.search, candidates=points))
        self.kernel_ = self._given_kernel()
        kernel = self._compiled(X)
        with FitRun(self, sample, present, n_stages=3) as run:
            run.same_matrix(X)
            check_positive_definite(kernel, sample, run.rng)
            tick = run.begin("choose", plan.n)
            landmarks = run.recorded(
                "choose", lambda: choose_landmarks(plan, sample, kernel, run, tick)
            )
            factor = landmarks.pivots.factor
            whitener = invert_lower(factor)
            projection = run.stage(
                "project",
                lambda: project(plan.projection, landmarks, whitener, sample, kernel, run.workers),
            )
            self._dtype = np.dtype(self.dtype).type
            self._fitted_type = self._feature_type(X)
            self._sampling_seed, self._n_sampled = [*run.seeds, 1], plan.subset_size
            self._store(landmarks, whitener, projection, present, rows.n_rows)
            self._trace_rounding = trace_rounding(
                whitener, landmarks.pivots.pool.items, sample, kernel, run.workers
            )
            if plan.projection == "column":
                run.begin("sample")
                self._sampled = self._sampled_squares(sample, kernel, None, run.workers)
        if run.stopping:
            interrupt(f"the {len(factor)} landmarks found so far")
        self._warn(landmarks)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Choose landmarks among the rows, and map these rows.

        The choice gives the features as well, so this costs less than fit and transform.
        """
        self.fit(X, y, **fit_params)
        if self._features is None or len(self._features) < self._n_rows:
            return self.transform(X)
        return self._features.astype(self._fitted_type)

    @lazily
    def transform(self, X: Any) -> Any:
        """R⁻¹k_S(x) for every row, block by block.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        features : array of shape (n_rows, n)
        """
        check_is_fitted(self)
        rows, X = _rows(self, X)
        kernel = self._compiled(X)
        with Workers(self.n_jobs) as workers:
            return kernel_features(
                rows,
                kernel,
                self._points,
                workers,
                whitener=self.normalization_,
                dtype=self._feature_type(X),
            )

    @in_range
    def preconditioner(self, sigma2: ArrayLike, X: Any = None) -> LinearOperator:
        """(VV' + σ²I)⁻¹ over the training rows, to precondition K + σ²I.

        The condition number of the preconditioned matrix is at most 1 + τ/σ².

        Parameters
        ----------
        sigma2 : float or array of shape (n_rows,)
            σ², one number for all rows or one per row.
        X : items, optional
            The training rows; needed where their features were not kept.

        Returns
        -------
        operator : scipy LinearOperator of shape (n_rows, n_rows)
            Ready to be passed as ``M=`` to `scipy.sparse.linalg.cg`.
        """
        V = self._training_features(X)
        diagonal = np.asarray(sigma2, dtype=np.float64)
        if diagonal.shape not in ((), (len(V),)) or not np.all(
            (diagonal > 0) & (diagonal < np.inf)
        ):
            raise ValueError(
                "sigma2 must be a positive number, or one for each of the "
                f"{len(V)} rows, got shape {diagonal.shape}."
            )
        return low_rank_inverse(V, diagonal)

    @in_range
    def as_linear_operator(self, X: Any = None) -> LinearOperator:
        """The approximation K̃ = VV' of the training rows' kernel matrix, never formed.

        Parameters
        ----------
        X : items, optional
            The training rows; needed where their features were not kept.

        Returns
        -------
        operator : scipy LinearOperator of shape (n_rows, n_rows)
        """
        V = self._training_features(X)
        # No entry of a product with numbers up to 1 is larger, and what overflows is an error here.
        _ = len(V) * np.square(V).sum(axis=1).max(initial=0.0)
        return low_rank_operator(V)

    @in_range
    def residual_bound(
        self,
        delta: float = 0.05,
        *,
        norm: str | None = None,
        X: Any = None,
        sample_weight: ArrayLike | None = None,
        n_sampled: int | None = None,
    ) -> Bound:
        """Upper bound on the residual of the approximation.

        Parameters
        ----------
        delta : float, default 0.05
            Probability with which a sampled bound may fail.
        norm : {"trace", "frobenius"}, optional
            ``"trace"`` is Σ w_i ‖k_i - k̃_i‖² in function space, known up to rounding, which is
            added;
            ``"frobenius"`` is Σ_ij w_i w_j (K - K̃)_ij², bounded from a sample of its columns
            (Corollary 3 in Serfling's form). By default that of the projection.
        X, sample_weight
            The training data; needed to sample columns that ``fit`` has not sampled.
        n_sampled : int, optional
            Number of columns to sample; by default that of the candidates per step of a fresh
            search.

        Returns
        -------
        bound : Bound
            ``value[0]``, ``confidence``, and whether it is ``vacuous``; prints as a sentence.
        """
        check_is_fitted(self)
        if not 0 < delta < 1:
            raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}.")
        if norm is None:
            norm = "frobenius" if self._projection.kind == "column" else "trace"
        if norm not in ("trace", "frobenius"):
            raise ValueError(f"norm must be 'trace' or 'frobenius', got {norm!r}.")
        n = len(self.normalization_)
        if norm == "trace":
            return Bound(
                name="Smola & Schölkopf 2000, eq. (22)",
                quantity="the residual trace",
                size=np.array([n], dtype=np.intp),
                value=np.array([self.residual_trace_ + self._trace_rounding]),
                trivial=self.trace_,
            )
        if X is not None:
            rows, X = _rows(self, X)
            sample, _ = weighted_sample(rows, sample_weight)
            if sample.n_rows != self._n_present:
                raise ValueError(
                    f"X has {sample.n_rows} rows, but the map was fitted to {self._n_present}: "
                    "pass the training rows and weights."
                )
            with Workers(self.n_jobs) as workers:
                squares = self._sampled_squares(sample, self._compiled(X), n_sampled, workers)
        elif self._sampled is not None and n_sampled in (None, len(self._sampled)):
            squares = self._sampled
        else:
            raise ValueError(
                "norm='frobenius' samples columns of the residual, which takes the training rows: "
                "pass X=."
            )
        return sampled_total(
            squares,
            self._n_present,
            self._projection.largest_column,
            delta,
            size=n,
            quantity="the squared Frobenius norm of the residual",
            trivial=self._projection.largest_total,
        )

    @property
    def T_(self) -> Floats:
        """Coefficients of the projection, one row per training row."""
        check_is_fitted(self, "normalization_")
        if self._features is None and self._projection.T is None:
            raise AttributeError(
                "T_ is not pickled, nor kept beyond 2**26 numbers: for projection='function' it is "
                "transform(X) @ normalization_."
            )
        rows = np.arange(self._n_present)
        return self._projection.coefficients(rows, self._features, self.normalization_)

    def _store(
        self,
        landmarks: Landmarks,
        whitener: Floats,
        projection: Projection,
        present: Indices,
        n_rows: int,
    ) -> None:
        """Keep the map; row numbers are those of the rows passed to fit."""
        self._freeze_parameters()
        pivots = landmarks.pivots

        precomputed = reads_matrix(self)
        self.components_ = None if precomputed else pivots.pool.items
        self.component_indices_ = as_passed(pivots.pool.index, present)
        self.normalization_ = whitener
        self._n_features_out = len(whitener)
        self._points = self.component_indices_ if precomputed else pivots.pool.items
        self.trace_ = pivots.trace
        self.path_ = replace(pivots.path, index=as_passed(pivots.path.index, present))
        self.stop_bound_ = landmarks.bound
        self._features = pivots.features
        self._n_rows, self._n_present = n_rows, len(present)
        self._projection = projection
        self.residual_trace_ = projection.trace
        self._sampled = None

    def _sampled_squares(
        self, sample: Sample, kernel: CountingKernel, n_sampled: int | None, workers: Workers
    ) -> Floats:
        """Squared norms of a random sample of the columns of the residual."""
        size = self._n_sampled if n_sampled is None else n_sampled
        if size < 1:
            raise ValueError(f"n_sampled must be at least 1, got {size}.")
        # Independent of the draws that chose the landmarks, hence of the residuals.
        chosen = draw_rows(sample.n_rows, size, np.random.default_rng(self._sampling_seed))
        return self._projection.column_squares(
            sample, kernel, self._points, self.normalization_, chosen, workers
        )

    def _training_features(self, X: Any) -> Floats:
        """V of the training rows, kept or computed."""
        check_is_fitted(self)
        if X is not None:
            return np.asarray(self.transform(X), dtype=np.float64)
        if self._features is None or len(self._features) < self._n_rows:
            raise ValueError(
                "the features of the training rows were not kept (they are not pickled, nor kept "
                "beyond 2**26 numbers, nor for rows of weight 0): pass the training rows as X=."
            )
        return self._features

    def _expansion(self) -> Expansion:
        return Expansion.of(self, self.components_, self.normalization_.T, name="features")

    def _feature_type(self, X: Any) -> Any:
        single = getattr(X, "dtype", None) == np.float32
        return np.float32 if single else self._dtype

    def _warn(self, landmarks: Landmarks) -> None:
        reason = landmarks.pivots.path.stop_reason
        if self.residual_tol is None or reason == "tol":
            return
        what = "the squared norm" if self.projection == "column" else "the trace"
        left = f"leave {landmarks.share:.3g} of {what}"
        if self.stop != "exact":
            left = f"leave a bound of {landmarks.share:.3g}"
        warn(
            f"residual_tol={self.residual_tol:g} was not met: {len(landmarks.pivots.pool)} "
            f"landmarks {left} ({reason}). Raise n_components or residual_tol.",
            ConvergenceWarning,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return "normalization_" in self.__dict__

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        if "_features" in state:
            slim = replace(state["_projection"], T=None)
            state = {**state, "_features": None, "_projection": slim}
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _rows(estimator: GreedyFeatureMap, X: Any, *, fitting: bool = False) -> tuple[RowSource, Any]:
    """Rows to fit on or to map, and the validated X; a precomputed matrix may be sparse."""
    if not (reads_matrix(estimator) and sparse.issparse(X)):
        return training_rows(estimator, X) if fitting else prediction_rows(estimator, X)
    X = validate_data(
        estimator, X, reset=fitting, accept_sparse="csr", dtype=[np.float64, np.float32]
    )
    if fitting and X.shape[0] != X.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square kernel matrix in fit, got shape {X.shape}: "
            "pass k(X, X) of the training rows."
        )
    return IndexRows(X.shape[0]), X
