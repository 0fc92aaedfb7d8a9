"""Full-scale Gaussian process regression: a greedy basis and near rows."""

from __future__ import annotations

import copy
import numbers
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.estimators.arguments import (
    CHECKPOINT,
    DTYPE,
    EXECUTION,
    KERNEL,
    MAX_TIME,
    OPTIMIZER,
    REFINE,
    SEARCH,
    Evidence,
    Search,
)
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, interrupt, with_callbacks
from pursuit.estimators.full_scale.distance import (
    ExactDistance,
    ExactProcess,
    with_targets_of,
)
from pursuit.estimators.full_scale.gains import JudgedRows, near_rows_added
from pursuit.estimators.full_scale.linear_map import LinearMap
from pursuit.estimators.full_scale.local_fit import (
    GlobalPart,
    LocalModel,
    WhitenedSums,
    whiten_last,
    without_near_rows,
)
from pursuit.estimators.full_scale.model import FullScaleModel
from pursuit.estimators.full_scale.near_rows import (
    LeavingRows,
    NearRows,
    appended,
    distinct,
    joined,
    row_numbers,
)
from pursuit.estimators.full_scale.regression_fit import (
    as_sampled,
    choose,
    couple,
    judges_last,
    learned_noise,
)
from pursuit.estimators.gp.function_draws import FunctionDraws
from pursuit.estimators.gp.sparse import SparseGPRegressor
from pursuit.estimators.inputs import (
    TargetScale,
    check_lengths,
    held,
    in_double,
    named_columns,
    positive,
    refuse_two_spreads,
    training_rows,
    validate_decay,
    validate_items,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.intervals import ProcessIntervals, set_aside
from pursuit.estimators.kernel_model import SampledRows, ScoredRows, in_precision_of_rows
from pursuit.estimators.reporting import Addition, microseconds
from pursuit.estimators.scales import in_range
from pursuit.estimators.span.certify import KINDS
from pursuit.gram import ResidualProcess
from pursuit.kernels import NoFunctionsError
from pursuit.linalg import PredictiveVariance, Workers, invert_lower
from pursuit.rows import (
    Sample,
    as_rows,
    concat,
    take_items,
)
from pursuit.tuning import (
    Calibration,
    noise_limits,
    tune_near_rows,
)

NEAR_ROWS = "near rows"
"""Name of the part that near rows add."""
_LEFT_OUT_ROWS = 2000
_LAST_SHARE = 5
"""Where no rows are reserved, one in so many judges the whitened fit."""


class FullScaleGPRegressor(
    CallbackSupportMixin,
    MultiOutputMixin,
    ScoredRows,
    SampledRows,
    ProcessIntervals,
    RegressorMixin,
    FullScaleModel,
    BaseEstimator,
):
    """Gaussian process regression by a greedy basis for what is smooth and near rows for the rest.

    A :class:`SparseGPRegressor` (``global_``) explains what a few hundred functions can. What its
    basis leaves of the process, k(x, x') - V_x·V_x', is local: it is conditioned on the nearest
    training rows of every point that is predicted. This is the most accurate regressor of this
    package, with calibrated error bars. It keeps the training rows and predicts more slowly than
    its ``global_`` part, which :meth:`without_neighbors` returns.

    Parameters
    ----------
    kernel : kernel object, str, callable or None, default None
        As in :class:`SparseGPRegressor`, also ``"search"``; not ``"precomputed"``.
    n_basis : int or "auto", default 512
        Largest number of basis functions of the global part.
    n_neighbors : int or "auto", default "auto"
        Near rows that a prediction uses. ``"auto"`` chooses among 0, 16, 32 and 64 by the density
        of reserved rows: a larger number is taken if it gains a standard error, the first if it
        gains two of them. With 0 this is the sparse model.
    coupling : {"late", "full"}, default "late"
        How the two parts meet. ``"late"``: near rows explain the errors of the sparse fit, whose
        ridge reserved rows may raise. ``"full"``: each row is whitened by near rows that precede it
        in a random order, and the coordinates of the basis functions are those of the joint
        process; with all rows as near rows this is the exact Gaussian process, and
        ``log_evidence_`` its evidence. ``"late"`` fits faster; ``"full"`` has error bars of the
        function itself, and is better with few basis functions.
    noise : float or "learn", default "learn"
        Noise variance σ². ``"learn"`` is the evidence's, which reserved rows may then move by
        factors of 4 for the near rows.
    search : {"pooled", "fresh", "full"} or Search, default "pooled"
        How the basis is found, as in :class:`SparseGPRegressor`.
    optimizer : {"evidence", None} or Evidence, default "evidence"
        How hyper-parameters are learned, as in :class:`SparseGPRegressor`.
    refine : int, "auto" or False, default "auto"
        Gradient steps that move the basis, as in :class:`SparseGPRegressor`.
    calibration : {"loo", "conformal", None}, default "loo"
        ``"loo"`` sets the noise of near rows and the error bars by the density of reserved rows,
        each left out in turn. ``"conformal"`` first sets a fifth of the rows aside (at least 100,
        at most 2 000, at most half) for intervals that are guaranteed to cover, and goes on like
        ``"loo"``; rows aside are never near rows. None keeps the noise and the model's own error
        bars; then ``n_neighbors`` must be a number.
    normalize_y : bool, default True
        Centre and scale the targets of each output first, by their weighted mean and deviation.
        ``noise``, ``kernel_`` and the calibration are in these units; predictions are not.
    certificate : {None, "auto", "published", "dense", "scaled", "hybrid", "grouped", \
            "two-level", "pcg"}, default None
        Which proof of optimality the fit computes for its global part, ``global_.certificate_``.
    memory : {"auto", "stored", "on-demand"}, default "auto"
        Whether the features of near rows, ``n_basis`` numbers per training row, are stored, or
        computed when they are needed, which takes several times as long. ``"auto"`` stores up to
        2^27 numbers, 512 MB in float32.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    max_time : float or None, default None
        Seconds that the fit should take, roughly: 80 % of them are for the global part.
    checkpoint : path-like or None, default None
        A folder in which the fit records what it has finished, as in :class:`SparseGPRegressor`.
    dtype : {"float32", "float64"}, default "float32"
        Type of the features of near rows. Up to 2^24 numbers they are float64 in any case.
        In float32 the noise of near rows counts as at least about 1e-5 of the kernel's variance,
        and predictions lose digits where it is below 1e-3 of that: then use float64.
    n_jobs : int or None, default None
        Number of threads; None uses as many as BLAS would. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print what is kept in memory, the stages of the fit and their times.

    Attributes
    ----------
    global_ : SparseGPRegressor
        The sparse model: basis, kernel, path, certificate.
    n_neighbors_ : int
        Near rows that a prediction uses; 0 where they have nothing to add.
    kernel_ : kernel
        The kernel in use.
    noise_ : float
        σ² of the near rows; that of ``global_`` without any.
    calibration_ : Calibration or None
        What reserved rows chose; ``before`` is the sparse model.
    coverage_guarantee_ : CoverageGuarantee or None
        What :meth:`predict_interval` guarantees, on which rows and assumptions; None without rows
        set aside, and after anything that changes the model.
    conformal_rows_ : array of int
        Numbers of the rows that ``calibration="conformal"`` has set aside.
    learning_report_ : LearningReport
        What was learned and chosen, and the time of each stage; print it.
    log_evidence_ : float or None
        Log density of the training targets in normalised units, for ``coupling="full"``.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    Notes
    -----
    With V_x = R⁻¹k_Z(x), RR' = k(Z, Z) and r = k - V_x·V_x', the near rows N of a point x give
    A = r(x,N)(r(N,N) + σ²W⁻¹)⁻¹. Its mean is V_x·w + A(y_N - V_N w), and the variance of an
    observation b σ² + a (r(x,x) - A r(N,x) + u'Cu) with u = V_x - A V_N, w and C being mean and
    covariance of the basis functions' coordinates. Reserved rows choose σ², the ridge of w, a and
    b.

    Identical rows are kept as one, with the sum of their weights: this changes nothing about the
    process. Near rows are the nearest by the kernel's length scales or, where it has none, by the
    distance k(x,x) + k(z,z) - 2k(x,z). Ties go to the row that comes first.

    References
    ----------
    E. Snelson and Z. Ghahramani. Local and global sparse Gaussian process approximations. AISTATS,
    2007.

    T. Gyger, R. Furrer and F. Sigrist. Vecchia-inducing-points full-scale approximations for
    Gaussian processes. arXiv 2507.05064, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import FullScaleGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1200, 1))
    >>> walk = np.cumsum(rng.standard_normal(400)) / 5
    >>> y = np.interp(X[:, 0], np.linspace(0, 1, 400), walk) + 0.1 * rng.standard_normal(1200)
    >>> model = FullScaleGPRegressor(n_basis=20, random_state=0).fit(X[:900], y[:900])
    >>> mean, std = model.predict(X[900:], return_std=True)
    >>> model.n_neighbors_ > 0
    True
    >>> bool(model.score(X[900:], y[900:]) > model.global_.score(X[900:], y[900:]))
    True
    """

    global_: SparseGPRegressor
    noise_: float
    calibration_: Calibration | None
    log_evidence_: float | None
    _judges: LeavingRows | None
    _part: GlobalPart | None
    _sums: WhitenedSums | None
    _spread: PredictiveVariance
    _local: LocalModel | None = None
    _frozen = ("memory", "dtype", "noise")
    _global_class = SparseGPRegressor
    _shared = (
        *("kernel", "n_basis", "noise", "search", "optimizer", "refine", "calibration"),
        *("normalize_y", "certificate", *KERNEL, "n_jobs", "random_state", "verbose"),
    )

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [None, str, callable, SklearnKernel],
        "n_basis": [StrOptions({"auto"}), Interval(numbers.Integral, 1, None, closed="left")],
        "n_neighbors": [StrOptions({"auto"}), Interval(numbers.Integral, 0, None, closed="left")],
        "coupling": [StrOptions({"late", "full"})],
        "noise": [numbers.Real, StrOptions({"learn"})],
        "search": SEARCH,
        "optimizer": OPTIMIZER,
        "refine": REFINE,
        "calibration": [None, StrOptions({"loo", "conformal"})],
        "normalize_y": ["boolean"],
        "certificate": [None, StrOptions({"auto", *KINDS})],
        "memory": [StrOptions({"auto", "stored", "on-demand"})],
        **KERNEL,
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
        "dtype": DTYPE,
        **EXECUTION,
    }

    def __init__(
        self,
        kernel: Any = None,
        *,
        n_basis: int | str = 512,
        n_neighbors: int | str = "auto",
        coupling: str = "late",
        noise: float | str = "learn",
        search: str | Search = "pooled",
        optimizer: str | Evidence | None = "evidence",
        refine: int | str | bool = "auto",
        calibration: str | None = "loo",
        normalize_y: bool = True,
        certificate: str | None = None,
        memory: str = "auto",
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        max_time: float | None = None,
        checkpoint: Any = None,
        dtype: Any = "float32",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_basis = n_basis
        self.n_neighbors = n_neighbors
        self.coupling = coupling
        self.noise = noise
        self.search = search
        self.optimizer = optimizer
        self.refine = refine
        self.calibration = calibration
        self.normalize_y = normalize_y
        self.certificate = certificate
        self.memory = memory
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
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
        """Fit the global part, and choose how near rows are used.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows, which are kept: those of a large file as float32.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            Targets; a single column is one output, and predictions are a vector.
        sample_weight : array of shape (n_rows,), optional
            Weights of the squared errors: noise variance σ²/w. A row of weight 0 is absent.
        target : str or list of str, optional
            The column, or columns, of X that hold the targets, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : FullScaleGPRegressor
        """
        self._check_arguments()
        given, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        aside = None
        if self.calibration == "conformal":
            given, y, sample_weight, aside = set_aside(self, given, y, sample_weight)
        items, targets, weights = self._take_in(given, y, sample_weight)
        present = np.flatnonzero(weights > 0)
        items, weights = take_items(items, present), weights[present]
        number = row_numbers(items)
        self._check_neighbors(int(number.max()) + 1)
        began = time.perf_counter()
        self._fit_global(given, y, sample_weight)
        spent = time.perf_counter() - began
        Y = self.global_._scale.normalize(targets[present])
        sample = Sample(as_rows(items), Y, weights)
        with FitRun(self, sample, present, n_stages=3, spent=spent) as run:
            kept = distinct(items, Y, weights, number)
            judges = self._judges_of(items, Y, weights, present, number)
            if self.coupling == "full" and self.n_neighbors != 0:
                kept, judges = judges_last(kept, judges, run.rng)
            sentence = self._fit_near(kept, judges if len(judges) else None, run)
        self._complete_report(sentence, run.seconds)
        if aside is not None:
            self._keep_aside(aside)
        if run.stopping:
            interrupt(f"{self.n_neighbors_} near rows beside the {self.global_.n_basis_} functions")
        return self

    def predict_gradient(
        self, X: Any, return_std: bool = False, *, include_noise: bool = True
    ) -> Any:
        """Gradient of the prediction, where no near rows are used.

        Predictions from near rows jump where other rows become the nearest, and have no gradient.
        That of the global part is ``model.without_neighbors().predict_gradient(X)``; a model whose
        ``n_neighbors_`` is 0 is its global part.

        Parameters
        ----------
        X, return_std, include_noise
            As in :meth:`SparseGPRegressor.predict_gradient`.

        Returns
        -------
        gradient : array of shape (n_rows, n_features) or (n_rows, n_features, n_outputs)
        std_gradient : array of the same shape, if ``return_std``
        """
        self._refuse_gradient("predict_gradient")
        return self.global_.predict_gradient(X, return_std, include_noise=include_noise)

    @in_precision_of_rows
    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = True,
    ) -> Any:
        """Mean of the prediction and, when asked for, its spread, in units of y.

        Parameters
        ----------
        X : items of n_rows rows
            Rows to predict.
        return_std : bool, default False
            Also return the standard deviation at each row.
        return_cov : bool, default False
            Also return the joint covariance of the rows: of the errors of their means under the
            model, each given its own near rows.
        include_noise : bool, default True
            Whether the spread is that of a new observation, or of the function alone.

        Returns
        -------
        mean : array of shape (n_rows,) or (n_rows, n_outputs)
        std : array of the same shape, if ``return_std``
        cov : array of shape (n_rows, n_rows) or (n_rows, n_rows, n_outputs), if ``return_cov``
        """
        check_is_fitted(self)
        if self.n_neighbors_ == 0:
            spread = return_std, return_cov
            return self._by_basis("predict", X, *spread, include_noise=include_noise)
        refuse_two_spreads(return_std, return_cov)
        rows = self._query_rows(X)
        with Workers(self.n_jobs) as workers:
            local: LocalModel = self._ready(workers)
            mean, left, prior = local.predict(
                rows, self.n_neighbors_, self.noise_, workers, variance=return_std
            )
            covariance = (
                local.covariance(rows, self.n_neighbors_, self.noise_, self._spread, workers)
                if return_cov
                else None
            )
        mean = self._as_fitted(self._scale.restore(mean))
        noise = self._spread.noise if include_noise else 0.0
        scale = self._scale.scale
        if return_std:
            variance = self._spread.factor(left, prior) * left + noise
            return mean, self._as_fitted(scale * np.sqrt(variance)[:, None])
        if covariance is not None:
            covariance[np.diag_indices_from(covariance)] += noise
            return mean, self._as_fitted(covariance[:, :, None] * scale**2)
        return mean

    @property
    def part_names_(self) -> list[str]:
        """Names of the columns of :meth:`predict_parts`; the last is "constant"."""
        check_is_fitted(self)
        *terms, constant = self.global_.part_names_
        return [*terms, NEAR_ROWS, constant]

    @property
    def part_columns_(self) -> list[list[int] | None]:
        """Columns of X that each part looks at, None for all; the constant looks at none."""
        check_is_fitted(self)
        *terms, constant = self.global_.part_columns_
        return [*terms, None, constant]

    @in_precision_of_rows
    def predict_parts(self, X: Any, return_std: bool = False, *, center: Any = None) -> Floats:
        """Predict one function for each term of the kernel, and what near rows add to them.

        The terms are those of the global part: see :meth:`SparseGPRegressor.predict_parts`. Near
        rows explain what its basis leaves of the sum of all terms, and it cannot be told which term
        that belongs to.

        Parameters
        ----------
        X : items of n_rows rows
            Rows to predict.
        return_std : bool, default False
            Refused: standard deviations are those of the global part,
            ``without_neighbors().predict_parts(X, return_std=True)``.
        center : items, optional
            Rows over which every term is to have mean 0; the constant takes their means.

        Returns
        -------
        parts : array of shape (n_rows, n_terms + 2) or (n_rows, n_terms + 2, n_outputs)
            Columns in the order of ``part_names_``, in units of y: the terms, what near rows add,
            and the constant. They add up to :meth:`predict`.
        """
        check_is_fitted(self)
        if return_std:
            raise ValueError(
                "parts of a model with near rows have no standard deviations: use "
                "without_neighbors().predict_parts(X, return_std=True) for those of its basis."
            )
        parts: Floats = in_double(self.global_.predict_parts)(X, center=center)
        near = in_double(self.predict)(X) - parts.sum(axis=1)
        return np.concatenate([parts[:, :-1], near[:, None], parts[:, -1:]], axis=1)

    @in_range
    def sample_functions(
        self, n: int = 1, random_state: Any = 0, *, n_features: int = 1024
    ) -> FunctionDraws:
        """Draw functions from the posterior, for a model that uses no near rows.

        With near rows, every point has a process of its own, given the rows near to it: together
        these are no functions, and the call is refused. ``global_.sample_functions`` draws from the
        global part, and :meth:`sample_y` from the joint distribution at up to 10 000 rows.

        Parameters
        ----------
        n, random_state, n_features
            As in :meth:`SparseGPRegressor.sample_functions`.

        Returns
        -------
        functions : FunctionDraws
        """
        check_is_fitted(self)
        if self.n_neighbors_ > 0:
            raise NoFunctionsError(
                f"with n_neighbors={self.n_neighbors_}, every point has a process of its own: use "
                "global_.sample_functions, which leaves near rows out, or sample_y on fewer rows."
            )
        return self.global_.sample_functions(n, random_state, n_features=n_features)

    @in_range
    def leave_one_out(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> tuple[Floats, Floats]:
        """Predictions of training rows by all the others, in units of y.

        Each row in turn leaves the near rows and, with ``coupling="late"``, the sums of the global
        part. Basis, kernel, noise and error bars stay as they are. A model without near rows is its
        global part: see :meth:`SparseGPRegressor.leave_one_out`.

        Parameters
        ----------
        X, y, sample_weight
            Some or all of the training rows, as they were passed to :meth:`fit`. A row of weight 0
            is predicted as any new row.

        Returns
        -------
        mean : array of shape (n_rows,) or (n_rows, n_outputs)
        std : array of the same shape
            Standard deviation of an observation.
        """
        check_is_fitted(self)
        if self._kept is None:
            found: tuple[Floats, Floats] = self.global_.leave_one_out(X, y, sample_weight)
            return found
        with Workers(self.n_jobs) as workers:
            local = self._merged(workers)
            leaving = self._leaving(X, y, sample_weight, local.kept)
            k = min(self.n_neighbors_, local.kept.n_rows - 1)
            cuts = np.arange(_LEFT_OUT_ROWS, len(leaving), _LEFT_OUT_ROWS)
            parts = [
                local.left_out(leaving.taken(some), k, workers).left_out(self.noise_, k, workers)
                for some in np.split(np.arange(len(leaving)), cuts)
            ]
        error = np.concatenate([part.error for part in parts])
        variance = np.concatenate([part.variance(self._spread) for part in parts])
        mean = self._as_fitted(self._scale.restore(leaving.targets - error))
        std = self._as_fitted(self._scale.scale * np.sqrt(variance)[:, None])
        present = validate_weights(sample_weight, len(np.asarray(y))) > 0
        if present.all():
            return mean, std
        means, stds = in_double(self.predict)(X, return_std=True)
        means[present], stds[present] = mean, std
        return means, stds

    def _merged(self, workers: Workers) -> LocalModel:
        """The rows, also those that partial_fit has appended, identical ones as one."""
        local: LocalModel = self._ready(workers)
        kept, number = local.kept, row_numbers(local.kept.items)
        if int(number.max()) + 1 == kept.n_rows:
            return local
        merged = distinct(kept.items, kept.targets, kept.weights, number)
        return self._local_model(merged, local.part, workers)

    def _leaving(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, kept: NearRows
    ) -> LeavingRows:
        """Training rows that are passed again, of those that are kept."""
        items, Y, weights = self._more_rows(X, y, sample_weight)
        group = row_numbers(concat(kept.items, items))
        number_of = np.full(int(group.max()) + 1, -1)
        number_of[group[: kept.n_rows]] = np.arange(kept.n_rows)
        number = number_of[group[kept.n_rows :]]
        unknown = np.flatnonzero((number < 0) | (weights > (1 + 1e-9) * kept.weights[number]))
        if len(unknown):
            raise ValueError(
                f"row {unknown[0]} is not one of the training rows, or has more weight than they "
                "have: leave_one_out takes rows that the model was fitted to."
            )
        return LeavingRows(items, Y, weights, number)

    def _more_rows(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[Any, Floats, Floats]:
        """Further rows of positive weight, of the kind that is kept, with normalised targets."""
        X, y, sample_weight = named_columns(X, y, sample_weight)
        items = held(self, validate_items(self, X, reset=False))
        targets = validate_targets(y, any_size=True)
        check_lengths(items, targets)
        targets = targets.reshape(len(targets), -1)
        if targets.shape[1] != len(self._scale.mean):
            raise ValueError(
                f"y has {targets.shape[1]} outputs, but the model was fitted with "
                f"{len(self._scale.mean)}."
            )
        weights = validate_weights(sample_weight, len(targets))
        present = np.flatnonzero(weights > 0)
        items = take_items(self._like_kept(items), present)
        if self._kept is not None and isinstance(items, np.ndarray):
            items = items.astype(self._kept.items.dtype)
        return items, self._scale.normalize(targets[present]), weights[present]

    @fit_context(prefer_skip_nested_validation=True)
    @in_range
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
        decay: float = 1.0,
    ) -> Self:
        """Take in further rows: by their sums in the global part, and as rows that may be near.

        The first call is a :meth:`fit`. Later ones keep basis, kernel, noise, error bars and the
        number of near rows.

        Parameters
        ----------
        X, y, sample_weight, target, weight
            New rows, as in :meth:`fit`.
        decay : float, default 1.0
            What the weights of all earlier rows are multiplied by before the new rows come in: a
            number above 0 and at most 1. All rows are kept, those of low weight as well. For
            ``coupling="late"`` only.

        Returns
        -------
        self : the model
        """
        share = validate_decay(decay)
        if not hasattr(self, "global_"):
            fitted: Self = self.fit(X, y, sample_weight, target=target, weight=weight)
            return fitted
        if self._sums is not None and share < 1.0:
            raise ValueError(
                f"decay={decay:g} is for coupling='late': the whitened sums of coupling='full' "
                "depend on the weights of all rows at once. Fit with coupling='late'."
            )
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        self.coverage_guarantee_ = None
        if self._kept is None:
            self.global_.partial_fit(X, y, sample_weight, decay=share)
            return self
        items, Y, weights = self._more_rows(X, y, sample_weight)
        new = distinct(items, Y, weights, row_numbers(items))
        self.global_.partial_fit(X, y, sample_weight, decay=share)
        with Workers(self.n_jobs) as workers:
            if self._sums is None:
                kept = joined(self._kept.lightened(share), new)
                part = self._late_part(self.global_)
                local = self._local_model(kept, part, workers)
            else:
                local = self._whiten_more(appended(self._kept, new), new.n_rows, workers)
        self._keep_local(local, None)
        return self

    def _whiten_more(self, kept: NearRows, n_new: int, workers: Workers) -> LocalModel:
        """The joint process of coupling "full" with some rows more, which come last."""
        assert self._sums is not None
        assert self._part is not None
        local = self._local_model(kept, self._part, workers)
        k = min(self.n_neighbors_, kept.n_rows - 1)
        self._sums += whiten_last(local, kept.n_rows - n_new, k, self.noise_, workers)
        self.log_evidence_ = self._sums.log_evidence(kept, self.noise_)
        return local.with_part(self._sums.posterior(), workers)

    def truncated(self, n: int) -> Self:
        """The model of the first n basis functions, and as many near rows.

        The noise of near rows and the error bars are set anew by the rows that were reserved,
        unless :meth:`partial_fit` has added rows since.

        Parameters
        ----------
        n : int
            From 1 to ``global_.n_basis_``.

        Returns
        -------
        model : FullScaleGPRegressor
            A new, fitted model.
        """
        check_is_fitted(self)
        small = self.global_.truncated(n)
        model = copy.copy(self)
        model._keep_global(small)
        if self._kept is None:
            return model
        if self._sums is not None:
            raise ValueError(
                "truncated is for coupling='late': the whitened sums of coupling='full' belong to "
                "all basis functions. Fit with a smaller n_basis."
            )
        model.n_neighbors_, model.noise_ = self.n_neighbors_, self.noise_
        model._spread, model.calibration_ = self._spread, self.calibration_
        k = min(self.n_neighbors_, self._kept.n_rows - 1)
        with Workers(self.n_jobs) as workers:
            part = self._late_part(small)
            local = model._local_model(self._kept, part, workers)
            model._keep_local(local, self._judges)
            if self._judges is not None:
                groups = local.left_out(self._judges, k, workers)
                limits = noise_limits(self.noise_) if self._of_fit("noise") == "learn" else None
                choice = tune_near_rows(groups, self.noise_, k, workers, limits=limits)
                model.noise_, model._spread = choice.noise, choice.spread
                model.calibration_ = choice.calibration(small.calibration_, self.noise_)
        model._complete_report(self.learning_report_.near_rows, {})
        return model

    def without_neighbors(self) -> SparseGPRegressor:
        """The global part alone: a small model that keeps no training rows.

        Returns
        -------
        model : SparseGPRegressor
        """
        model: SparseGPRegressor = super().without_neighbors()
        return model

    def _addition(
        self, judged: tuple[Any, NDArray[Any]] | None, rows: Any, time: float | None
    ) -> Addition:
        with Workers(self.n_jobs) as workers:
            if self.n_neighbors_ == 0:
                return Addition("no near rows")
            local, found = self._ready(workers), None
            if judged is not None:
                found = self._predicted_rows(*judged)
            elif self._judges is not None:
                found = self._left_out_rows(local, self._judges, workers)
            times = time, microseconds(self, rows)
            return near_rows_added(self, local, found, times, workers)

    def _predicted_rows(self, X: Any, y: NDArray[Any]) -> JudgedRows:
        """Given rows, predicted by the global part and with near rows."""
        rows = self._query_rows(X)
        Y = np.asarray(y, dtype=np.float64).reshape(rows.n_rows, -1)
        parts = []
        for model in (self.global_, self):
            mean, std = in_double(model.predict)(X, return_std=True)
            parts.append((Y - mean.reshape(Y.shape), std.reshape(Y.shape)))
        items = rows.take(np.arange(rows.n_rows))
        return JudgedRows.of(items, parts, np.ones(len(Y)), "as given")

    def _left_out_rows(
        self, local: LocalModel, judges: LeavingRows, workers: Workers
    ) -> JudgedRows:
        """Rows that the fit reserved, each left out of both models."""
        k = min(self.n_neighbors_, local.kept.n_rows - 1)
        sums, judged = self._sums, local
        if sums is not None:
            # No single row leaves whitened sums, but all rows that judge do: they come last.
            sums -= whiten_last(local, int(judges.number.min()), k, self.noise_, workers)
            judged = local.with_part(sums.posterior(), workers)
        groups = judged.left_out(judges, k, workers)
        left = groups.left_out(self.noise_, k, workers)
        if local.part.ridge != self.global_.noise_:
            sparse_part = GlobalPart.of_sparse(self.global_._factors)
            groups = local.with_part(sparse_part, workers).left_out(judges, 1, workers)
        without = without_near_rows(groups, self.global_.noise_)
        scale = self._scale.scale
        parts = [
            (scale * found.error, scale * np.sqrt(found.variance(spread))[:, None])
            for found, spread in ((without, self.global_._spread), (left, self._spread))
        ]
        how = "reserved by the fit, each left out in turn"
        own = judges.excluded(local.kept)
        return JudgedRows.of(judges.items, parts, judges.weights, how, own)

    @property
    def _scale(self) -> TargetScale:
        return self.global_._scale

    def _as_fitted(self, values: Floats) -> Floats:
        return values[..., 0] if self.global_._single_output else values

    def _make_local(self, workers: Workers) -> LocalModel:
        assert self._kept is not None
        assert self._part is not None
        return self._local_model(self._kept, self._part, workers)

    def _take_in(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[Any, Floats, Floats]:
        """Rows in memory, targets as a matrix, and weights, all checked."""
        rows, X = training_rows(self, X)
        targets = validate_targets(y, any_size=True)
        check_lengths(X, targets)
        weights = validate_weights(sample_weight, rows.n_rows)
        items = held(self, X, np.float32)
        self._tell_memory(items)
        return items, targets.reshape(len(targets), -1), weights

    def _keep_global(self, model: SparseGPRegressor) -> None:
        super()._keep_global(model)
        self.noise_, self._spread, self.log_evidence_ = model.noise_, model._spread, None
        self._judges = self._part = self._sums = None

    def _judging_rows(self, present: Indices, number: Indices) -> Indices:
        judging = super()._judging_rows(present, number)
        if self.coupling == "full" and not len(self.global_._reserved_rows):
            # All others come before them, and have to be many.
            judging = judging[:: max(1, -(-_LAST_SHARE * len(judging) // len(number)))]
        return judging

    def _fit_near(self, kept: NearRows, judges: LeavingRows | None, run: FitRun) -> str:
        """Choose near rows, their noise and the error bars, and keep what predictions need."""
        if reason := self._no_near_rows(kept.n_rows):
            return reason
        run.begin("near")
        local = self._local_model(kept, GlobalPart.of_sparse(self.global_._factors), run.workers)
        sizes = self._sizes(kept.n_rows)
        chosen = run.finished("near")
        if chosen is None:
            chosen = run.keep(
                "near", choose(local, judges, self.global_, self.n_neighbors, sizes, run)
            )
        choice, sentence = chosen
        sentence = str(sentence)
        if choice is None:
            return sentence
        self.n_neighbors_, self.noise_, self._spread = choice.k, choice.noise, choice.spread
        if self.coupling == "late" and choice.ridge is not None:
            part = GlobalPart.of_sparse(self.global_._factors.with_noise(choice.ridge))
            local = local.with_part(part, run.workers)
        if self.coupling == "full":
            local, choice, self._sums = couple(local, judges, choice, run)
            self._spread = choice.spread
            self.log_evidence_ = self._sums.log_evidence(kept, choice.noise)
        self._keep_local(local, judges)
        if judges is not None:
            choice = as_sampled(choice, local, judges, run.workers)
            self.calibration_ = choice.calibration(
                self.global_.calibration_, learned_noise(self.global_)
            )
        return sentence

    def _local_model(self, kept: NearRows, part: GlobalPart, workers: Workers) -> LocalModel:
        """The rows with features and index, and the global part's values at them."""
        R = self.global_._factors.R
        whitener = invert_lower(R)
        noise = learned_noise(self.global_)
        process, index = self._process(kept, whitener, noise, workers)
        local = LocalModel(kept, process, index, part, np.zeros_like(kept.targets))
        return local.with_part(part, workers)

    def _late_part(self, model: SparseGPRegressor) -> GlobalPart:
        """The functions of a sparse model, its ridge raised as that of this model's was."""
        assert self._part is not None
        assert self._part.ridge is not None
        raised = self._part.ridge / self.global_.noise_
        return GlobalPart.of_sparse(model._factors.with_noise(raised * model.noise_))

    def _keep_local(self, local: LocalModel, judges: LeavingRows | None) -> None:
        self._kept, self._judges = local.kept, judges
        self._part, self._local = local.part, local

    @in_range
    def distance_to_exact(
        self,
        X_new: Any,
        X_train: Any = None,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        tol: float = 0.01,
        max_iter: int = 1000,
    ) -> ExactDistance:
        """Bounds on how far predictions are from those of the exact Gaussian process.

        The exact process has the kernel ``kernel_``, the noise ``noise_``, and all training rows.
        It is approached by conjugate gradients from the model's own weights of the training
        targets, up to 3 000 rows by Cholesky; nothing of the kernel matrix is stored beyond that.
        Each step costs one evaluation of the matrix for a few hundred points: ask for a sample.

        Parameters
        ----------
        X_new : items
            Points to compare at.
        X_train, y, sample_weight : optional
            Training rows, targets and weights. By default those that the model keeps; a model
            without near rows keeps none.
        tol : float, default 0.01
            Iterate until the exact mean is known to ``tol`` times the exact standard deviation of
            an observation, and the latter to within a factor 1 + ``tol``.
        max_iter : int, default 1000
            Most steps for the targets, and for each batch of points. Bounds hold after any number.

        Returns
        -------
        distance : ExactDistance
        """
        check_is_fitted(self)
        positive("tol", tol)
        mean, std = in_double(self.predict)(X_new, return_std=True)
        rows = self._query_rows(X_new)
        queries = rows.take(np.arange(rows.n_rows))
        kept, own = self._rows_of_exact(X_train, y, sample_weight)
        with Workers(self.n_jobs) as workers:
            kernel = self._compiled(kept.items)
            linear = self._linear_map(kept, kernel, workers) if own else None
            process = ExactProcess.build(
                kept, kernel, self.noise_, workers, tol, max_iter, self.dtype
            )
            bounds = process.bounds(queries, linear)
        return bounds.distance(mean, std, self.noise_, self._scale)

    def _rows_of_exact(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[NearRows, bool]:
        """Rows of the exact process, and whether the model may have been fitted to them."""
        if X is None:
            if self._kept is None:
                raise ValueError(
                    "this model has no near rows and keeps no training rows: pass X_train and y."
                )
            return self._kept, True
        items, Y, weights = self._more_rows(X, y, sample_weight)
        given = distinct(items, Y, weights, row_numbers(items))
        if self._kept is None:
            return given, True
        same = with_targets_of(self._kept, given)
        return (given, False) if same is None else (same, True)

    def _linear_map(self, kept: NearRows, kernel: Any, workers: Workers) -> LinearMap:
        """The mean as a function of the targets of these rows."""
        if self._kept is not None:
            return LinearMap.of_local(self._ready(workers), self.n_neighbors_, self.noise_, workers)
        model = self.global_
        R = model._factors.R
        whitener = invert_lower(R)
        process = ResidualProcess(kernel, model._points, whitener, as_rows(kept.items), np.float64)
        part = GlobalPart.of_sparse(model._factors)
        weights = kept.weights[:, None]
        return LinearMap(process, self.noise_ / kept.weights, part, weights / model.noise_)
