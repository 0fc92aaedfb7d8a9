"""The exact Gaussian process of many rows, by preconditioned conjugate gradients (SS00 §6.4)."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.arguments import (
    CHECKPOINT,
    DTYPE,
    EXECUTION,
    KERNEL,
    MAX_TIME,
    OPTIMIZER,
    Evidence,
)
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, interrupt, with_callbacks
from pursuit.estimators.gp.error_bars import TermCovariance, std_gradient
from pursuit.estimators.gp.exact_covariance import joint_covariance
from pursuit.estimators.gp.exact_system import (
    Accuracy,
    DirectSystem,
    ExactSystem,
    IterativeSystem,
    explained_derivatives,
    inverse_diagonal,
    query_batches,
    query_slices,
    system_root,
)
from pursuit.estimators.gp.function_draws import FunctionDraws, rows_draws
from pursuit.estimators.gp.likelihood import (
    fitted_targets,
    free_theta,
    log_density,
    log_density_at,
)
from pursuit.estimators.gp.stages import (
    FULL_PROCESS,
    learn_or_keep,
    warn_of_light_rows,
    with_importance,
)
from pursuit.estimators.gradients import GradientProcess
from pursuit.estimators.inputs import (
    TargetScale,
    check_lengths,
    check_observed,
    dense,
    held,
    in_double,
    n_rows,
    named_columns,
    positive,
    reads_matrix,
    refuse_diagonal,
    refuse_matrix_covariance,
    refuse_two_spreads,
    rows_again,
    training_rows,
    validate_items,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.intervals import ProcessIntervals, set_aside
from pursuit.estimators.kernel_model import (
    Expansion,
    KernelModel,
    SampledRows,
    ScoredRows,
    in_precision_of_rows,
)
from pursuit.estimators.parts import PartsOfProcess
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.scales import in_range, kept
from pursuit.estimators.span.gaps import GroupedOutputs, joined_certificate, joined_outputs
from pursuit.estimators.warning import warn
from pursuit.gram import RowArithmetic
from pursuit.greedy import CostMeter, Path, Problem
from pursuit.kernels import CountingKernel, Extent, resolve_columns
from pursuit.linalg import Workers
from pursuit.rounding import Rounded, gamma
from pursuit.rounding import sizes as upper_sizes
from pursuit.rows import (
    IndexRows,
    Sample,
    SelectedRows,
    as_rows,
    has_gaps,
    len_items,
    output_groups,
    take_items,
)

DIRECT_ROWS = 3000
"""Up to this many rows ``solver="auto"`` factors the kernel matrix."""

_STD_TOL = 0.01
_LATENT_FLOOR = 0.01


class ExactGPRegressor(
    CallbackSupportMixin,
    MultiOutputMixin,
    GroupedOutputs,
    ScoredRows,
    SampledRows,
    GradientProcess,
    PartsOfProcess,
    ProcessIntervals,
    RegressorMixin,
    KernelModel,
    ReportedModel,
    BaseEstimator,
):
    """Gaussian process regression with every row, the kernel matrix never being stored.

    Solves (K + σ²W⁻¹)v = y by conjugate gradients, preconditioned with VV' + σ²I, where VV' is the
    part of K that random landmarks span. Each iteration costs one evaluation of the kernel matrix,
    tile by tile, and brings a proof of how far P(f) = ½Σw(y - f)² + ½σ²‖f‖² is from its minimum.
    Tiles are float32; residuals, certificates and stopping are float64. This is also the solution
    of kernel ridge regression with ``alpha = noise``.

    Parameters
    ----------
    kernel : kernel object, str, callable or None, default None
        As in :class:`SparseGPRegressor`, also ``"search"``. None compares a constant times RBF,
        Matérn 5/2, 3/2 and 1/2 with a length scale for each feature by evidence on 2 000 rows (on
        few rows with weak priors and wider error bars, as in :class:`SparseGPRegressor`); the
        free hyper-parameters of kernel objects are learned in the same way; named, callable and
        precomputed kernels are used as given.
    noise : float or "learn", default "learn"
        Noise variance σ².
    residual_tol : float, default 1e-4
        Iterate until ‖W^½(y - (K + σ²W⁻¹)v)‖ is at most this share of ‖W^½y‖, for every output.
    solver : {"auto", "cg", "cholesky"}, default "auto"
        ``"cholesky"`` factors the kernel matrix: exact, in n_rows² memory. ``"auto"`` does so up
        to 3 000 rows, and iterates beyond.
    max_iter : int, default 1000
        Most iterations.
    preconditioner_size : int or "auto", default "auto"
        Number of landmarks; 0 for none. ``"auto"`` is 11.5 √n_rows, at most half the rows and at
        most what 512 MB hold. Twice as many landmarks halve the number of iterations.
    optimizer : {"evidence", None} or Evidence, default "evidence"
        How hyper-parameters are learned. An :class:`Evidence` sets the number of restarts and of
        rows; None keeps the kernel as it is. Hyper-parameters of a given kernel that end at a bound
        are told by a `ConvergenceWarning`.
    calibration : {None, "conformal"}, default None
        ``"conformal"`` sets a fifth of the rows aside before anything else (at least 100, at most
        2 000, at most half), for intervals that are guaranteed to cover.
    normalize_y : bool, default True
        Centre and scale the targets of each output first, by their weighted mean and deviation.
        ``noise``, ``kernel_``, ``dual_coef_`` and the certificate are in these units; predictions
        are not.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    max_time : float or None, default None
        Seconds that the fit is to take, about: learning ends after 30 % of them, and the solution
        so far is returned, with its certificate, when they are over. The result then depends on the
        speed of the machine.
    checkpoint : path-like or None, default None
        A folder in which the fit records kernel, noise and the solution. After a crash or Ctrl-C,
        the same call with the same data goes on from the last stage recorded, to the identical
        model.
    dtype : {"float32", "float64"}, default "float32"
        Type of the kernel tiles between two looks at the float64 residual. An iteration in
        float32 takes half of the time; where float32 makes no progress, float64 takes over.
        Kernels that are called or precomputed, and values beyond float32, are always float64.
    n_jobs : int or None, default None
        Number of threads; None uses as many as BLAS would. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random: rows that learn, landmarks.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    dual_coef_ : array of shape (n_train,) or (n_train, n_outputs)
        v.
    X_train_ : items
        Rows of positive weight; None for a precomputed kernel.
    train_indices_ : array of int
        Their numbers among the rows passed to fit.
    kernel_ : kernel
        The kernel in use.
    noise_ : float
        σ² in use.
    solver_ : str
        "cg" or "cholesky".
    n_iter_ : int
        Iterations taken; 1 for Cholesky.
    certificate_ : Certificate
        Upper and lower value of the minimum, from float64 products.
    coverage_guarantee_ : CoverageGuarantee or None
        What :meth:`predict_interval` guarantees, on which rows and assumptions; None without rows
        set aside.
    conformal_rows_ : array of int
        Numbers of the rows that ``calibration="conformal"`` has set aside.
    path_ : Path
        Residual and certificate at every iteration, and why the last was the last.
    learning_report_ : LearningReport
        What was learned, and the time of each stage; print it.
    feature_relevance_ : array of shape (n_features,) or None
        Standard deviation of each feature over its length scale.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    References
    ----------
    A. J. Smola and B. Schölkopf. Sparse greedy matrix approximation for machine learning. ICML,
    2000, section 6.4.

    A. Artemev, D. R. Burt and M. van der Wilk. Tighter bounds on the log marginal likelihood of
    Gaussian process regression using conjugate gradients. ICML, 2021.

    Examples
    --------
    >>> from pursuit import ExactGPRegressor
    >>> from pursuit.datasets import make_robot_arm
    >>> arm = make_robot_arm(4000, random_state=0)
    >>> X, y = arm.data, arm.target
    >>> model = ExactGPRegressor(kernel="rbf", noise=0.01, random_state=0).fit(X[:3500], y[:3500])
    >>> model.solver_
    'cg'
    >>> bool(model.path_.residual[-1] <= 1e-4)
    True
    >>> mean, std = model.predict(X[3500:3510], return_std=True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [None, str, callable, SklearnKernel],
        "noise": [numbers.Real, StrOptions({"learn"})],
        "residual_tol": [Interval(numbers.Real, 0, 1, closed="neither")],
        "solver": [StrOptions({"auto", "cg", "cholesky"})],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "preconditioner_size": [
            StrOptions({"auto"}),
            Interval(numbers.Integral, 0, None, closed="left"),
        ],
        "optimizer": OPTIMIZER,
        "calibration": [None, StrOptions({"conformal"})],
        "normalize_y": ["boolean"],
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
        noise: float | str = "learn",
        residual_tol: float = 1e-4,
        solver: str = "auto",
        max_iter: int = 1000,
        preconditioner_size: int | str = "auto",
        optimizer: str | Evidence | None = "evidence",
        calibration: str | None = None,
        normalize_y: bool = True,
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
        self.noise = noise
        self.residual_tol = residual_tol
        self.solver = solver
        self.max_iter = max_iter
        self.preconditioner_size = preconditioner_size
        self.optimizer = optimizer
        self.calibration = calibration
        self.normalize_y = normalize_y
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
        """Learn kernel and noise, and solve for the coefficients of all rows.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            Targets; a single column is one output, and predictions are a vector. NaN in some of
            several outputs is a target that was not observed: each output is fitted to the rows
            that have it, by Cholesky.
        sample_weight : array of shape (n_rows,), optional
            Weights of the squared errors: noise variance σ²/w. A row of weight 0 is absent. Kernel
            and noise are learned as if a row of weight w were w equal rows: weights should average
            1, not add up to 1.
        target : str or list of str, optional
            The column, or columns, of X that hold the targets, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : ExactGPRegressor
        """
        if self.noise != "learn":
            positive("noise", self.noise)
        if self.solver == "cholesky" and self.preconditioner_size != "auto":
            raise ValueError(
                f"preconditioner_size={self.preconditioner_size!r} is for conjugate gradients: use "
                "solver='cg', or leave it at 'auto'."
            )
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        aside = None
        if self.calibration == "conformal":
            X, y, sample_weight, aside = set_aside(self, X, y, sample_weight)
        X = held(self, training_rows(self, X)[1])
        rows = IndexRows(len(X)) if reads_matrix(self) else as_rows(X)
        targets = validate_targets(y, gaps=True, any_size=True)
        check_lengths(X, targets)
        weights = validate_weights(sample_weight, rows.n_rows)
        Y = targets.reshape(len(targets), -1)
        check_observed(Y, weights)
        self._parts = self._part_columns = ()
        self._single_output = targets.size == len(targets)
        self._scale = TargetScale.fit(Y, weights, self.normalize_y)
        self.train_indices_ = present = np.flatnonzero(weights > 0)
        self.X_train_ = None if reads_matrix(self) else rows.take(present)
        self._weights = weights[present]
        self._seeds = check_random_state(self.random_state).randint(2**31 - 1, size=(2, 4))
        sample = self._sample(self._scale.normalize(Y[present]))
        warn_of_light_rows(self, sample, X)
        with FitRun(self, sample, present, n_stages=3) as run:
            run.same_matrix(X)
            rng = np.random.default_rng(self._seeds[0])
            learned, kernel = learn_or_keep(self, sample, X, rng, run)
            self.kernel_, self.noise_ = learned.kernel, learned.noise
            small = self.solver == "auto" and sample.n_rows <= DIRECT_ROWS
            self.solver_ = "cholesky" if small or self.solver == "cholesky" else "cg"
            problem = self._problem(sample, kernel, run.workers)
            if has_gaps(sample.targets):
                v, self.path_, self._factor = *self._solve_groups(problem, run), None
            else:
                solved = run.finished("solve")
                if solved is None:
                    solved = run.keep("solve", self._solve(problem, run))
                v, self.path_, self._factor = solved
            points = self.train_indices_ if self.X_train_ is None else self.X_train_
            report = with_importance(learned, self, problem, points, v, run)
        self._freeze_parameters()
        self._keep_bound(kernel, self.X_train_)
        self.dual_coef_ = v[:, 0] if self._single_output else v
        iterations, found = self.path_.iterations, self.path_.certificates
        assert iterations is not None
        assert found is not None
        zero = self._scale.zero
        certificates = [replace(one, reference=FULL_PROCESS, baseline=zero) for one in found]
        self.path_ = replace(self.path_, certificates=certificates)
        self.n_iter_ = max(1, int(iterations[-1]))
        self.certificate_: Certificate | None = kept(certificates[-1])
        self.feature_relevance_ = learned.report.relevance
        self.learning_report_ = replace(report, moved="all rows", seconds=run.seconds)
        self.coverage_guarantee_ = None
        if aside is not None:
            self._keep_aside(aside)
        self._report_end()
        return self

    @in_precision_of_rows
    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = True,
        diagonal: ArrayLike | None = None,
    ) -> Any:
        """Mean of the prediction and, when asked for, its spread, in units of y.

        The standard deviation is the middle of :meth:`std_bounds` with ``tol=0.01``. Where the
        model was fitted by conjugate gradients, standard deviations and covariances need a solution
        for every row of X: some iterations for a few hundred rows at a time.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.
        return_std : bool, default False
            Also return the standard deviation at each row.
        return_cov : bool, default False
            Also return the joint covariance of the rows, which takes n_train x n_rows numbers of
            memory. After conjugate gradients its diagonal is at most 1.01² times the exact one.
        include_noise : bool, default True
            Whether the spread is that of a new observation, or of the function alone.
        diagonal : array of shape (n_rows,), optional
            k(x, x) of the rows, which ``return_std`` needs when ``kernel="precomputed"``.

        Returns
        -------
        mean : array of shape (n_rows,) or (n_rows, n_outputs)
        std : array of the same shape, if ``return_std``
        cov : array of shape (n_rows, n_rows) or (n_rows, n_rows, n_outputs), if ``return_cov``
        """
        refuse_two_spreads(return_std, return_cov)
        check_is_fitted(self)
        if return_cov:
            refuse_matrix_covariance(self)
        if not return_std:
            refuse_diagonal(diagonal, "a covariance" if return_cov else "a mean alone")
        coefficients = self.dual_coef_.reshape(len(self._weights), -1)
        mean = self._scale.restore(self._expanded(X, coefficients))
        mean = mean[:, 0] if self._single_output else mean
        if return_cov:
            return mean, self._covariance(X, include_noise)
        if not return_std:
            return mean
        lower, upper = self.std_bounds(X, include_noise=include_noise, diagonal=diagonal)
        return mean, 0.5 * (lower + upper)

    @in_range
    def std_bounds(
        self,
        X: Any,
        tol: float = 0.01,
        *,
        include_noise: bool = True,
        diagonal: ArrayLike | None = None,
    ) -> tuple[Floats, Floats]:
        """Bounds on the exact Gaussian process's standard deviation, in units of y.

        From below and above by the same iterations as the fit's, with k(x) in the place of y: any
        iterate gives a lower bound on what the rows explain of k(x, x), and, because the
        preconditioner is below the matrix it stands for, an upper one.

        Parameters
        ----------
        X : items
            Where to bound the standard deviation.
        tol : float, default 0.01
            Iterate until the upper bound is at most 1 + ``tol`` times the lower one.
        include_noise : bool, default True
            Whether it is that of a new observation, or of the function alone. The latter is known
            to ``tol`` only down to a tenth of the noise's deviation.
        diagonal : array of shape (n_rows,), optional
            k(x, x) of the rows, needed when ``kernel="precomputed"``, together with a model that
            was solved by Cholesky.

        Returns
        -------
        lower, upper : arrays of shape (n_rows,) or (n_rows, n_outputs)
            But for rounding, which they allow for, equal where the model was fitted by Cholesky.
        """
        check_is_fitted(self)
        positive("tol", tol)
        if self._parts:
            options = {"include_noise": include_noise, "diagonal": diagonal}
            ends = [part.std_bounds(X, tol, **options) for part in self._parts]
            least_std, most_std = zip(*ends, strict=True)
            columns = self._part_columns
            return joined_outputs(least_std, columns), joined_outputs(most_std, columns)
        queries = held(self, validate_items(self, X, reset=False))
        kernel = self._compiled_with(queries, n_rows(queries), diagonal)
        if reads_matrix(self) and self._factor is None:
            raise ValueError(
                "the standard deviation takes the factor of the training matrix, and this model "
                f"was solved by conjugate gradients (solver_={self.solver_!r}): fit with "
                "solver='cholesky'."
            )
        offset = self.noise_ * (1.0 if include_noise else _LATENT_FLOOR)
        width = (1.0 + tol) ** 2 - 1.0
        with Workers(self.n_jobs) as workers:
            nothing = self._sample(np.zeros((len(self._weights), 1)))
            system = self._system(self._problem(nothing, kernel, workers))
            shares = self._shares(system.problem, queries)
            bounds: list[tuple[Floats, Floats, Floats]] = []
            start = 0
            for kappa, prior in self._batches(system.problem, queries):
                own = shares[start : start + len(prior)]
                start += len(prior)
                unsure = own * upper_sizes(prior)
                wanted = Accuracy(prior, width, offset, self.max_iter)
                between = system.explained(kappa, wanted, unsure)
                bounds.append((prior, *between))
        prior, least, most = (np.concatenate(part) for part in zip(*bounds, strict=True))
        # No function varies less than not at all.
        known = Rounded(prior, shares * prior)
        upper = np.maximum((known - least).high, 0.0)
        lower = np.maximum((known - most).low, 0.0)
        if np.any(upper - lower > 1.001 * width * (lower + offset)):
            self._warn_of_bounds_apart(tol)
        noise = self.noise_ if include_noise else 0.0
        lower = np.sqrt((lower + noise) * (1.0 - gamma(8)))[:, None] * self._scale.scale
        upper = np.sqrt((upper + noise) * (1.0 + gamma(8)))[:, None] * self._scale.scale
        return (lower[:, 0], upper[:, 0]) if self._single_output else (lower, upper)

    def _warn_of_bounds_apart(self, tol: float) -> None:
        warn(
            f"some bounds are further apart than tol={tol:g} after max_iter={self.max_iter} "
            "iterations: they hold, but raise max_iter or preconditioner_size to bring them "
            "together.",
            ConvergenceWarning,
        )

    def _covariance(self, X: Any, include_noise: bool) -> Floats:
        """Joint covariance in units of y: shape (n_rows, n_rows[, n_outputs])."""
        if self._parts:
            parts = [part._covariance(X, include_noise) for part in self._parts]
            return joined_outputs(parts, self._part_columns)
        queries = held(self, validate_items(self, X, reset=False))
        offset = self.noise_ * (1.0 if include_noise else _LATENT_FLOOR)
        width = (1.0 + _STD_TOL) ** 2 - 1.0
        with Workers(self.n_jobs) as workers:
            nothing = self._sample(np.zeros((len(self._weights), 1)))
            system = self._system(self._problem(nothing, self._compiled(queries), workers))
            covariance, apart = joint_covariance(
                system, self._points, queries, width, offset, self.max_iter
            )
        if apart.any():
            self._warn_of_bounds_apart(_STD_TOL)
        if include_noise:
            covariance[np.diag_indices_from(covariance)] += self.noise_
        covariances: Floats = covariance[:, :, None] * self._scale.scale**2
        return covariances[:, :, 0] if self._single_output else covariances

    @property
    def _observation_noise(self) -> float:
        return self.noise_

    def _shares(self, problem: Problem, queries: Any) -> Floats:
        """How exact k(x, rows) is for each query; a matrix is exact."""
        if reads_matrix(self):
            return np.zeros(len(queries))
        rows = RowArithmetic.of(problem.sample.rows, problem.kernel, problem.workers)
        return rows.shares(queries)

    def _batches(self, problem: Problem, queries: Any) -> Iterator[tuple[Floats, Floats]]:
        """κ = W^½k(x) and k(x, x) of some queries at a time."""
        if not reads_matrix(self):
            yield from (batch[1:] for batch in query_batches(problem, queries))
            return
        root, numbers = system_root(problem), np.arange(len(queries))
        for where in query_slices(problem, queries):
            some = numbers[where]
            yield root * problem.kernel.tile(some, self._points).T, problem.kernel.diag(some)

    @in_range
    def leave_one_out(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> tuple[Floats, Floats]:
        """Predictions of training rows by all the others, in units of y.

        Kernel, noise and units of the targets stay as they are. No model is fitted again: with
        C = K + σ²W⁻¹ the error of row i without it is (C⁻¹y)_i/(C⁻¹)_ii. It takes the factor of C,
        which a model has that was solved by Cholesky.

        Parameters
        ----------
        X, y, sample_weight
            The training data, all rows in the order of :meth:`fit`. A row of weight 0 is predicted
            as any new row.

        Returns
        -------
        mean : array of shape (n_rows,) or (n_rows, n_outputs)
        std : array of the same shape
            Standard deviation of an observation.

        Examples
        --------
        >>> import numpy as np
        >>> from pursuit import ExactGPRegressor
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> y = np.sin(X[:, 0])
        >>> model = ExactGPRegressor("rbf", gamma=0.5, noise=0.01).fit(X, y)
        >>> mean, std = model.leave_one_out(X, y)
        >>> bool(np.all(np.abs(mean - y) < 3 * std))
        True
        """
        check_is_fitted(self)
        if self._parts:
            return self._leave_one_out_of_groups(X, y, sample_weight)
        if self._factor is None:
            raise ValueError(
                "leave_one_out needs the factor of the kernel matrix, and this model was solved by "
                f"conjugate gradients (solver_={self.solver_!r}): fit with solver='cholesky', or "
                "use SparseGPRegressor, whose leave_one_out takes one pass over the rows."
            )
        items, Y = self._training_data(X, y, sample_weight)
        v = self._solved(Y, self._compiled(items))
        precision = inverse_diagonal(self._factor)
        left = 1.0 / (self._weights * precision)
        variance = left - self.noise_ / self._weights + self.noise_
        mean = self._scale.restore(Y - left[:, None] * v)
        std = self._scale.scale * np.sqrt(variance)[:, None]
        if self._single_output:
            mean, std = mean[:, 0], std[:, 0]
        if len(mean) == n_rows(items):
            return mean, std
        diagonal = np.diagonal(items) if reads_matrix(self) else None
        means, stds = in_double(self.predict)(X, return_std=True, diagonal=diagonal)
        means[self.train_indices_], stds[self.train_indices_] = mean, std
        return means, stds

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False
    ) -> Any:
        """Log density of the training targets under the process, summed over outputs.

        Of targets in the units of the fit (see ``normalize_y``), as that of scikit-learn's
        regressor. A row of weight w counts as w rows. It takes the factor of the kernel matrix,
        which a model has that was solved by Cholesky.

        Parameters
        ----------
        theta : array of shape (n_theta,), optional
            Logarithms of the free hyper-parameters of ``kernel_``, White terms left out; the noise
            stays at ``noise_``. By default those of ``kernel_``. Others cost O(n_train³).
        eval_gradient : bool, default False
            Also return the gradient with respect to them.

        Returns
        -------
        value : float
            -inf where the matrix is singular.
        gradient : array of shape (n_theta,), if ``eval_gradient``

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from pursuit import ExactGPRegressor
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> model = ExactGPRegressor(RBF(), noise=0.01).fit(X, np.sin(X[:, 0]))
        >>> value, gradient = model.log_marginal_likelihood(np.log([0.5]), eval_gradient=True)
        >>> bool(value < model.log_marginal_likelihood()) and bool(gradient[0] > 0)
        True
        """
        check_is_fitted(self)
        self._refuse_gaps("log_marginal_likelihood")
        if self._factor is None:
            raise ValueError(
                "log_marginal_likelihood needs the factor of the kernel matrix, and this model was "
                f"solved by conjugate gradients (solver_={self.solver_!r}): fit with "
                "solver='cholesky'."
            )
        weights, noise = self._weights, self.noise_
        v = self.dual_coef_.reshape(len(weights), -1)
        kernel = resolve_columns(self.kernel_, self._known_columns())
        own = free_theta(kernel)
        if theta is None and not (eval_gradient and len(own)):
            value, gradient = log_density(v, self._factor, weights, noise), own
        else:
            theta = own if theta is None else theta
            targets = fitted_targets(v, self._factor, weights)
            value, gradient = log_density_at(
                theta, kernel, self.X_train_, targets, weights, noise, self.n_jobs
            )
        # A plain float would take the precision of a float32 that it is compared with.
        value = np.float64(value)
        return (value, gradient) if eval_gradient else value

    def _leave_one_out_of_groups(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[Floats, Floats]:
        """Each group of outputs by its own model: where it was not observed, rows have weight 0."""
        items, Y = self._training_data(X, y, sample_weight)
        targets = np.zeros((n_rows(items), Y.shape[1]))
        targets[self.train_indices_] = np.nan_to_num(self._scale.restore(Y))
        found = []
        for columns, part in zip(self._part_columns, self._parts, strict=True):
            weights = np.zeros(len(targets))
            weights[part.train_indices_] = part._weights
            found.append(part.leave_one_out(X, targets[:, columns], weights))
        mean, std = zip(*found, strict=True)
        return joined_outputs(mean, self._part_columns), joined_outputs(std, self._part_columns)

    def _training_data(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> tuple[Any, Floats]:
        """The training rows passed again, and the normalised targets of those that have weight."""
        X, y, sample_weight = named_columns(X, y, sample_weight)
        items = held(self, rows_again(self, X)[1])
        targets = validate_targets(y, gaps=bool(self._parts), any_size=True)
        check_lengths(items, targets)
        Y = targets.reshape(len(targets), -1)
        weights = validate_weights(sample_weight, len(Y))
        present, same = np.flatnonzero(weights), Y.shape[1] == len(self._scale.mean)
        same = same and np.array_equal(present, self.train_indices_)
        same = same and np.array_equal(weights[present], self._weights)
        if same and self.X_train_ is not None:
            pairs = zip(dense(take_items(items, present)), dense(self.X_train_), strict=True)
            same = all(np.array_equal(one, other) for one, other in pairs)
        for columns, part in zip(self._part_columns, self._parts, strict=True):
            observed = np.flatnonzero(~np.isnan(Y[:, columns[0]]) & (weights > 0))
            same = same and np.array_equal(observed, part.train_indices_)
        if not same:
            raise ValueError(
                "leave_one_out takes all training rows, targets and weights as they were passed to "
                "fit, in the same order, and these are others: predict is for new rows."
            )
        return items, self._scale.normalize(Y[present])

    def _std_gradient(self, X: Any, include_noise: bool) -> Floats:
        """Gradients of the standard deviation: shape (n_rows, n_features, n_outputs)."""
        if self._parts:
            parts = [part._std_gradient(X, include_noise) for part in self._parts]
            return joined_outputs(parts, self._part_columns)
        if self._factor is None:
            raise ValueError(
                "the gradient of the standard deviation needs the factor of the kernel matrix, "
                f"and this model was solved by conjugate gradients (solver_={self.solver_!r}): fit "
                "with solver='cholesky', or use SparseGPRegressor."
            )
        rows, [kernel] = self._differentiable(X)
        derivatives = partial(explained_derivatives, self._factor, np.sqrt(self._weights))
        noise = self.noise_ if include_noise else 0.0
        points = dense(self.X_train_)
        with Workers(self.n_jobs) as workers:
            gradient = std_gradient(rows, kernel, points, derivatives, noise, workers)
        return gradient[:, :, None] * self._scale.scale

    def _part_variances(self, X: Any, center: Any) -> Floats:
        """Variances of the terms in normalised units: shape (n_rows, n_terms)."""
        self._refuse_gaps("return_std of parts")
        queries = held(self, validate_items(self, X, reset=False))
        variances = []
        with Workers(self.n_jobs) as workers:
            nothing = self._sample(np.zeros((len(self._weights), 1)))
            system = self._system(self._problem(nothing, self._compiled(queries), workers))
            for term in self._compiled_terms(queries):
                covariance = TermCovariance(term, self._points, center)
                variances.append(
                    np.concatenate(
                        [
                            self._left_of(system, covariance, queries[where])
                            for where in query_slices(system.problem, queries)
                        ]
                    )
                )
        return np.stack(variances, axis=1) if variances else np.empty((len_items(queries), 0))

    def _left_of(self, system: ExactSystem, covariance: TermCovariance, queries: Any) -> Floats:
        """What the rows leave of the variance of a term."""
        q, _, prior = covariance(queries)
        kappa = system_root(system.problem) * q.T
        offset, width = self.noise_ * _LATENT_FLOOR, (1.0 + _STD_TOL) ** 2 - 1.0
        wanted = Accuracy(prior, width, offset, self.max_iter)
        least, most = system.explained(kappa, wanted)
        return np.maximum(prior - 0.5 * (least + most), 0.0)

    def _after_loading(self) -> None:
        super()._after_loading()
        if isinstance(getattr(self, "X_train_", None), np.ndarray):
            self._keep_bound(self._compiled(self.X_train_), self.X_train_)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._after_loading()

    @property
    def _points(self) -> Any:
        """What the compiled kernel is bound to: training rows, or columns of a given matrix."""
        return self.train_indices_ if self.X_train_ is None else self.X_train_

    @in_range
    def sample_functions(
        self, n: int = 1, random_state: Any = 0, *, n_features: int = 1024
    ) -> FunctionDraws:
        """Draw functions from the posterior, which can be evaluated anywhere and again.

        As :meth:`SparseGPRegressor.sample_functions`, with all rows in the place of the basis. Each
        function takes a solution of its own: one more right-hand side of the iterations where the
        model was fitted by conjugate gradients. To evaluate functions takes O(n_train) operations
        for each of them and each row.

        Parameters
        ----------
        n : int, default 1
            Number of functions.
        random_state : int, RandomState or None, default 0
            Seed.
        n_features : int, default 1024
            Number of random features.

        Returns
        -------
        functions : FunctionDraws
            A sequence of callables f(X) of shape (n_rows,) or (n_rows, n_outputs). Called itself,
            it evaluates all of them at once, with shape (n_rows, n) or (n_rows, n_outputs, n).

        Examples
        --------
        >>> import numpy as np
        >>> from pursuit import ExactGPRegressor
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> model = ExactGPRegressor("rbf", gamma=0.5, noise=0.01).fit(X, np.sin(X[:, 0]))
        >>> functions = model.sample_functions(50, random_state=0)
        >>> functions(X).shape
        (60, 50)
        """
        self._refuse_gaps("sample_functions")
        return rows_draws(self, self._solved, n, n_features, random_state)

    def _solved(self, targets: Floats, kernel: CountingKernel) -> Floats:
        """(K + σ²W⁻¹)⁻¹ targets, as exactly as the fit."""
        with Workers(self.n_jobs) as workers:
            problem = self._problem(self._sample(targets), kernel, workers)
            root = system_root(problem)
            limit = self.residual_tol * np.linalg.norm(root * targets, axis=0)
            found = self._system(problem).approximate(
                root * targets, lambda now: now.norms <= limit[now.columns], self.max_iter
            )
        solution: Floats = root * found.v
        return solution

    def _expansion(self) -> Expansion:
        """The function that the model evaluates."""
        return Expansion.of(self, self.X_train_, self.dual_coef_)

    def _sample(self, targets: Floats) -> Sample:
        """The rows of positive weight, with targets."""
        if self.X_train_ is not None:
            return Sample(as_rows(self.X_train_), targets, self._weights)
        rows = IndexRows(int(self.train_indices_[-1]) + 1)
        return Sample(SelectedRows(rows, self.train_indices_), targets, self._weights)

    def _problem(self, sample: Sample, kernel: CountingKernel, workers: Workers) -> Problem:
        rng = np.random.default_rng(self._seeds[1])
        return Problem(sample, kernel, self.noise_, workers, CostMeter(kernel), rng)

    def _solve(self, problem: Problem, run: FitRun) -> tuple[Floats, Path, Floats | None]:
        """The coefficients, how they were found, and the factor of a direct solution."""

        def ended() -> str | None:
            if run.interrupted():
                return "interrupted"
            return "max_time" if run.clock.over() else None

        run.begin("factor")
        direct = self.solver_ == "cholesky"
        system: ExactSystem = DirectSystem.build(problem) if direct else self._iterative(problem)
        run.begin("solve")
        v, path = system.solve(self.residual_tol, self.max_iter, ended)
        return v, path, system.L if isinstance(system, DirectSystem) else None

    def _solve_groups(self, problem: Problem, run: FitRun) -> tuple[Floats, Path]:
        """Solve for the observed targets of each group of outputs; others have coefficient 0."""
        if self.solver_ != "cholesky":
            raise ValueError(
                f"y contains NaN, and solver_={self.solver_!r} takes the same rows for all outputs:"
                " use solver='cholesky', SparseGPRegressor, or a model for each output."
            )
        run.begin("factor")
        coefficients = np.zeros_like(problem.sample.targets)
        parts, groups = [], output_groups(problem.sample.targets)
        for group in groups:
            part, own = copy.copy(self), problem.restricted(group)
            part._scale = self._scale.taken(group.columns)
            part.train_indices_ = self.train_indices_[group.rows]
            part._weights = own.sample.weights
            if self.X_train_ is not None:
                part.X_train_ = take_items(self.X_train_, group.rows)
            v, part.path_, part._factor = part._solve(own, run)
            part.dual_coef_ = coefficients[np.ix_(group.rows, group.columns)] = v
            part._freeze_parameters()
            parts.append(part)
        self._parts = tuple(parts)
        self._part_columns = tuple(group.columns for group in groups)
        return coefficients, _joined_path([part.path_ for part in parts], self._part_columns)

    def _system(self, problem: Problem) -> ExactSystem:
        """The fitted model's way to solve for all rows."""
        if self._factor is None:
            return self._iterative(problem)
        share = problem.kernel.error(Extent.of(self._points))
        return DirectSystem(problem, self._factor, share)

    def _iterative(self, problem: Problem) -> IterativeSystem:
        return IterativeSystem.build(problem, self.preconditioner_size, self.dtype)

    def _report_end(self) -> None:
        """Warn if the solution does not meet the tolerance."""
        assert self.path_.residual is not None
        reason, residual = self.path_.stop_reason, self.path_.residual[-1]
        if reason == "interrupted":
            interrupt(
                f"the solution of iteration {self.n_iter_}, with a relative residual of "
                f"{residual:.3g}"
            )
        if reason in ("max_iter", "stalled", "max_time"):
            advice = {
                "max_iter": "raise max_iter, preconditioner_size or noise",
                "max_time": "raise max_time, preconditioner_size or noise",
                "stalled": "rounding allows no better; raise noise or residual_tol",
            }[reason]
            warn(
                f"residual_tol={self.residual_tol:g} was not met: the relative residual after "
                f"{self.n_iter_} iterations is {residual:.3g}. To go on, {advice}.",
                ConvergenceWarning,
            )


def _joined_path(paths: Sequence[Path], columns: Sequence[Indices]) -> Path:
    """The path of all outputs, from those of direct solutions for groups of them."""
    ends = [path.certificates[-1] for path in paths if path.certificates]
    residuals = [path.residual[-1] for path in paths if path.residual is not None]
    whole = joined_certificate(ends, columns)
    return replace(
        paths[-1],
        value=np.array([whole.upper]),
        gap=np.array([whole.relative_gap]),
        lower=np.array([whole.lower]),
        residual=np.array([max(residuals)]),
        certificates=[whole],
    )
