"""Sparse greedy matrix approximation as a feature map (SS00)."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.sparse.linalg import LinearOperator
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, sampled_total
from pursuit.estimators.constraints import DTYPE, EXECUTION, KERNEL, POOLED
from pursuit.estimators.fit_run import FitRun, interrupt, warn
from pursuit.estimators.inputs import (
    check_positive_definite,
    is_precomputed,
    validate_weights,
)
from pursuit.estimators.kernelmodel import KernelModel
from pursuit.estimators.lazily import lazily
from pursuit.estimators.maps.landmarking import Landmarks, LandmarkSearch, point_landmarks
from pursuit.estimators.maps.mapinputs import fitting_rows, mapping_rows
from pursuit.estimators.maps.plugins import PROJECTIONS, RULES, STOPS, Plugins
from pursuit.estimators.maps.projection import Projection, project
from pursuit.estimators.progress import CallbackSupportMixin, with_callbacks
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.sources import named_columns
from pursuit.gram import kernel_features
from pursuit.greedy import Meter, Path, subset_size
from pursuit.kernels import CountingKernel
from pursuit.linalg import (
    Workers,
    low_rank_inverse,
    low_rank_operator,
)
from pursuit.objectives import Pick, Project, StepBound
from pursuit.rows import Sample, draw_rows


class GreedyFeatureMap(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    KernelModel,
    ReportedModel,
    BaseEstimator,
):
    """Features φ(x) = R⁻¹k_S(x) of a few greedily chosen landmarks S, K_SS = RR'.

    φ(x)'φ(x') approximates k(x, x'), exactly where x is a landmark. Landmarks are chosen so that
    the residual trace τ = Σ w_i (k(x_i, x_i) - ‖φ(x_i)‖²) falls fast (Smola & Schölkopf 2000). A
    drop-in for `sklearn.kernel_approximation.Nystroem`, whose landmarks are uniformly random.

    Parameters
    ----------
    kernel : str, kernel object or callable, default "rbf"
        A name of `pairwise_kernels`, ``"precomputed"``, a `sklearn.gaussian_process.kernels`
        object, or a function k(A, B) of two blocks of items.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`; gamma is 1/n_features.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    n_components : int, default 100
        Most landmarks. Fewer are taken where the rows have no more to give: see
        ``path_.stop_reason``.
    tol : float or None, default None
        Stop when what the projection leaves is at most ``tol`` times what there was at the start:
        Σ w_i ‖k_i - k̃_i‖² in function space, which is τ for ``projection="function"``; for
        ``projection="column"`` the squared Frobenius norm of K - K̃.
    rule : {"function", "frobenius", "column", "diagonal", "random-pivot", "feature-analysis"} \
            or callable, default "function"
        What makes a good landmark. With E = K - K̃ what the projection leaves, e_i its column i:
        ``"function"`` ‖e_i‖²/E_ii, in function space the decrease of τ; ``"frobenius"``
        ‖E'e_i‖²/‖e_i‖², in column space the decrease of ‖E‖²; ``"column"`` ‖e_i‖². In function
        space only: ``"feature-analysis"`` ‖e_i‖² of the residual function scaled to coefficients
        of unit l1 norm; ``"diagonal"`` E_ii; ``"random-pivot"`` draws with probability E_ii/τ. A
        function ``pick(step)`` gets a :class:`GreedyStep` and returns one of its ``candidates``.
    projection : {"function", "column", "kronecker"} or callable, default "function"
        What is left of the columns once landmarks are chosen, by which the next one is chosen: the
        best approximation in function space, in column space, or the chosen columns alone. Decides
        ``T_`` and the residuals; the features are R⁻¹k_S(x) whatever the projection. Column space
        costs products of the full kernel matrix with n vectors. A function
        ``project(step, picked)`` returns T of shape (n_rows, n + 1), the picked column last.
    search : {"auto", "pooled", "fresh", "full"}, default "auto"
        ``"pooled"``: blocks of candidates drawn by the residual diagonal, the best of each kept
        (for random pivots: thinned by rejection); for the rules function and random-pivot with
        ``projection="function"`` and ``stop="exact"``. ``"fresh"``: a new random subset of the rows
        at every step, as published. ``"full"``: every row at every step, at the price of a product
        with the kernel matrix per step. ``"auto"``: pooled where it applies, full for the rule
        diagonal, else fresh.
    subset_size : int or (quantile, delta), default 59
        Candidates of a fresh search, or as many as reach the best ``quantile`` of the rows with
        probability 1 - ``delta`` (Lemma 2; 59 is (.05, .05)).
    candidates : {"rows", "kmeans"} or items, default "rows"
        Who may become a landmark: the training rows; the centres of ``n_components`` clusters of
        them; or points of your own (row numbers for ``kernel="precomputed"``). Points are all
        taken, in their order, but those that depend on earlier ones; of more than ``n_components``,
        or with ``tol``, those that lower τ most.
    stop : {"exact", "corollary3"} or callable, default "exact"
        What is compared with ``tol`` after each landmark. ``"exact"``: the residual itself.
        ``"corollary3"``: a bound on it from the residuals of the candidates, which holds with
        probability 1 - ``delta`` at all steps together and spares the pass over the kernel matrix
        that the exact residual takes in column space. A function ``bound(step, picked, T)``
        returns a number, and the loop ends when it is at most ``tol``.
    delta : float, default 0.05
        Probability with which the bound of ``stop="corollary3"`` may fail.
    rearrange : bool, default False
        Put the chosen landmarks in the order of their importance afterwards (§2.3).
    dtype : {"float64", "float32"}, default "float64"
        Type of the features that :meth:`transform` returns for float64 rows. Everything is
        computed in float64.
    n_jobs : int or None, default None
        Threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    components_ : items
        The landmarks; None for a precomputed kernel.
    component_indices_ : array of shape (n,)
        Their row numbers, -1 where a landmark is not a row.
    normalization_ : array of shape (n, n)
        R⁻¹: features are ``k(X, components_) @ normalization_.T``.
    T_ : array of shape (n_rows, n)
        Coefficients of the projection: k_i ≈ Σ_j T_ij k_{S_j}; rows of weight 0 are left out.
    residual_trace_ : float
        Σ_i w_i ‖k_i - k̃_i‖² in function space for the projection; τ for ``"function"``.
    trace_ : float
        Σ w_i k(x_i, x_i).
    path_ : Path
        τ after each landmark, whatever the projection, what it cost, and why the choice ended.
    stop_bound_ : Bound or None
        For ``stop="corollary3"``: the bound on what the projection leaves, at the last step.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    Notes
    -----
    After ``fit`` the features V of the training rows are kept while they have at most 2²⁶ numbers
    (512 MB); ``T_``, :meth:`preconditioner` and :meth:`as_linear_operator` use them. They are not
    pickled: a saved map has size O(n²) beside its landmarks, and takes the rows again as ``X=``.

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
        "tol": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "rule": [StrOptions(set(RULES)), callable],
        "projection": [StrOptions(set(PROJECTIONS)), callable],
        "search": [StrOptions({"auto", "pooled", "fresh", "full"})],
        "subset_size": [Interval(numbers.Integral, 1, None, closed="left"), tuple],
        "candidates": POOLED["candidates"],
        "stop": [StrOptions(set(STOPS)), callable],
        "delta": [Interval(numbers.Real, 0, 1, closed="neither")],
        "rearrange": ["boolean"],
        "dtype": DTYPE,
        **EXECUTION,
    }

    component_indices_: Indices
    components_: Any
    normalization_: Floats
    residual_trace_: float
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
        tol: float | None = None,
        rule: str | Pick = "function",
        projection: str | Project = "function",
        search: str = "auto",
        subset_size: int | tuple[float, float] = 59,
        candidates: Any = "rows",
        stop: str | StepBound = "exact",
        delta: float = 0.05,
        rearrange: bool = False,
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
        self.tol = tol
        self.rule = rule
        self.projection = projection
        self.search = search
        self.subset_size = subset_size
        self.candidates = candidates
        self.stop = stop
        self.delta = delta
        self.rearrange = rearrange
        self.dtype = dtype
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
            Columns of X that are no features.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : GreedyFeatureMap
        """
        search = self._search()
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        rows, X = fitting_rows(self, X)
        weights = validate_weights(sample_weight, rows.n_rows)
        present = np.flatnonzero(weights > 0)
        sample = Sample(rows, np.empty((rows.n_rows, 0)), weights)
        if len(present) < rows.n_rows:
            sample = sample.take(present)
        kernel = self._compiled(X)
        with FitRun(self, sample, present, n_stages=2) as run:
            check_positive_definite(kernel, sample, run.rng)
            tools: dict[str, Any] = {"workers": run.workers, "rng": run.rng, "meter": Meter(kernel)}
            tick = run.begin("choose", search.n)
            if not self._from_rows():
                found = point_landmarks(self, sample, kernel, rows.n_rows, **tools)
            else:
                found = search.run(
                    sample, kernel, interrupted=run.interrupted, after_step=tick, **tools
                )
            run.begin("project")
            whitener = solve_triangular(
                found.pivots.factor, np.eye(len(found.pivots.pool)), lower=True
            )
            projection = project(self.projection, found, whitener, sample, kernel, run.workers)
            self._fitted_type = self._feature_type(X)
            self._sampling_seed = [*run.seeds, 1]
            self._store(found, whitener, projection, present, rows.n_rows)
            if self.projection == "column":
                # While the rows are at hand.
                chosen = self._sampled_rows(sample.n_rows, None)
                self._sampled = self._column_squares(sample, kernel, chosen, run.workers)
        if run.stopping:
            interrupt(f"the {len(found.pivots.pool)} landmarks found so far")
        self._warn(found)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Choose landmarks among the rows, and map these rows.

        The features are by-products of the choice, so that this costs less than fit and transform.
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
        rows, X = mapping_rows(self, X)
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

    def preconditioner(self, sigma2: ArrayLike, X: Any = None) -> LinearOperator:
        """(VV' + σ²I)⁻¹ over the training rows, to precondition K + σ²I.

        The condition number of the preconditioned matrix is at most 1 + τ/σ².

        Parameters
        ----------
        sigma2 : float or array of shape (n_rows,)
            σ², the same for all rows or one each.
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
        return low_rank_operator(self._training_features(X))

    def residual_bound(
        self,
        delta: float = 0.05,
        *,
        norm: str | None = None,
        X: Any = None,
        sample_weight: ArrayLike | None = None,
        n_sampled: int | None = None,
    ) -> Bound:
        """Upper bound on what the approximation misses.

        Parameters
        ----------
        delta : float, default 0.05
            Probability with which a sampled bound may fail.
        norm : {"trace", "frobenius"}, optional
            ``"trace"`` is Σ w_i ‖k_i - k̃_i‖² in function space, which is known exactly;
            ``"frobenius"`` is Σ_ij w_i w_j (K - K̃)_ij², bounded from a sample of its columns
            (Corollary 3 in Serfling's form). By default that of the projection.
        X, sample_weight
            The training data; needed to sample columns that ``fit`` has not sampled.
        n_sampled : int, optional
            Columns to sample; ``subset_size`` by default.

        Returns
        -------
        bound : Bound
            ``value[0]``, ``confidence``, and whether it is ``vacuous``; prints as a sentence.
        """
        check_is_fitted(self)
        if not 0 < delta < 1:
            raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}.")
        natural = "frobenius" if self.projection == "column" else "trace"
        norm = natural if norm is None else norm
        if norm not in ("trace", "frobenius"):
            raise ValueError(f"norm must be 'trace' or 'frobenius', got {norm!r}.")
        n = len(self.normalization_)
        if norm == "trace":
            return Bound(
                name="Smola & Schölkopf 2000, eq. (22)",
                quantity="the residual trace",
                size=np.array([n], dtype=np.intp),
                value=np.array([self.residual_trace_]),
                trivial=self.trace_,
            )
        if X is not None:
            squares = self._sampled_squares(X, sample_weight, n_sampled)
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
        """Coefficients of the projection, one row a training row."""
        if "normalization_" not in self.__dict__:
            raise AttributeError("T_ exists after fit only.")
        if self._features is None and self._projection.T is None:
            raise AttributeError(
                "T_ is not pickled, nor kept beyond 2**26 numbers: for projection='function' it is "
                "transform(X) @ normalization_."
            )
        features = np.empty((self._n_present, 0)) if self._features is None else self._features
        return self._projection.coefficients(features, self.normalization_)

    def _search(self) -> LandmarkSearch:
        size = self.subset_size
        if isinstance(size, tuple):
            if len(size) != 2:
                raise ValueError(f"subset_size must be a number or (quantile, delta), got {size}.")
            size = subset_size(*size)
        return LandmarkSearch(
            n=int(self.n_components),
            tol=None if self.tol is None else float(self.tol),
            plugins=Plugins.of(self),
            subset_size=int(size),
            delta=float(self.delta),
            rearrange=bool(self.rearrange),
        )

    def _from_rows(self) -> bool:
        return isinstance(self.candidates, str) and self.candidates == "rows"

    def _store(
        self,
        landmarks: Landmarks,
        whitener: Floats,
        projection: Projection,
        present: Indices,
        n_rows: int,
    ) -> None:
        """Keep the map; row numbers are those of the rows passed to fit."""
        self._freeze_kernel()
        found = landmarks.pivots
        index = found.pool.index

        def as_passed(rows: Indices) -> Indices:
            return np.where(rows >= 0, present[rows], -1)

        precomputed = is_precomputed(self.kernel)
        self.components_ = None if precomputed else found.pool.items
        self.component_indices_ = as_passed(index)
        self.normalization_ = whitener
        self._n_features_out = len(index)
        self._points = self.component_indices_ if precomputed else found.pool.items
        self.trace_ = found.trace
        self.path_ = replace(found.path, index=as_passed(found.path.index))
        self.stop_bound_ = landmarks.bound
        self._features = found.features
        self._n_rows, self._n_present = n_rows, len(present)
        self._projection = projection
        self.residual_trace_ = projection.trace
        self._sampled = None

    def _sampled_rows(self, n_rows: int, n_sampled: int | None) -> Indices:
        size = self._search().subset_size if n_sampled is None else n_sampled
        if size < 1:
            raise ValueError(f"n_sampled must be at least 1, got {size}.")
        # Independent of what was chosen by, hence of the residuals.
        return draw_rows(n_rows, size, np.random.default_rng(self._sampling_seed))

    def _sampled_squares(
        self, X: Any, sample_weight: ArrayLike | None, n_sampled: int | None
    ) -> Floats:
        rows, X = mapping_rows(self, X)
        weights = validate_weights(sample_weight, rows.n_rows)
        sample = Sample(rows, np.empty((rows.n_rows, 0)), weights)
        if not np.all(weights > 0):
            sample = sample.take(np.flatnonzero(weights > 0))
        if sample.n_rows != self._n_present:
            raise ValueError(
                f"X has {sample.n_rows} rows, but the map was fitted to {self._n_present}: pass "
                "the training rows and weights."
            )
        with Workers(self.n_jobs) as workers:
            chosen = self._sampled_rows(sample.n_rows, n_sampled)
            return self._column_squares(sample, self._compiled(X), chosen, workers)

    def _column_squares(
        self, sample: Sample, kernel: CountingKernel, chosen: Indices, workers: Workers
    ) -> Floats:
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

    def _kernels_used(self) -> list[Any]:
        return [self.kernel]

    def _feature_type(self, X: Any) -> Any:
        single = getattr(X, "dtype", None) == np.float32
        return np.float32 if single else np.dtype(self.dtype).type

    def _warn(self, found: Landmarks) -> None:
        reason = found.pivots.path.stop_reason
        if self.tol is None or reason == "tol":
            return
        what = "the squared norm" if self.projection == "column" else "the trace"
        left = f"leave {found.share:.3g} of {what}"
        if self.stop != "exact":
            left = f"leave a bound of {found.share:.3g}"
        warn(
            f"tol={self.tol:g} was not met: {len(found.pivots.pool)} landmarks {left} "
            f"({reason}). Raise n_components or tol.",
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
