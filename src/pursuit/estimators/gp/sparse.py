"""Sparse greedy Gaussian process regression (SB01)."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import (
    Bound,
    Certificate,
    EvidenceBounds,
    StatisticsRounding,
    evidence_bounds,
)
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
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, with_callbacks
from pursuit.estimators.gp.error_bars import (
    latent_covariance,
    latent_variance,
    part_variances,
    std_gradient,
    variance_bounds,
    variance_bounds_to_tolerance,
)
from pursuit.estimators.gp.function_draws import FunctionDraws, span_draws
from pursuit.estimators.gp.gaps import calibrate_groups
from pursuit.estimators.gp.outliers import first_weights, robust_units
from pursuit.estimators.gp.own_noise import NO_GAPS, OwnNoise
from pursuit.estimators.gp.reweighting import LAST_SHARE, OwnWeights
from pursuit.estimators.gp.stages import (
    FULL_PROCESS,
    LEARNING_SHARE,
    LearnedKernel,
    calibrate_fit,
    choose_size,
    learn_or_keep,
    move_basis,
    moving_steps,
    split_rows,
    warn_of_light_rows,
    with_importance,
)
from pursuit.estimators.gp.varying_noise import (
    VaryingNoise,
    check_varying,
    search_noise,
)
from pursuit.estimators.gradients import GradientProcess
from pursuit.estimators.inputs import (
    dense,
    held,
    in_double,
    n_rows,
    named_columns,
    positive,
    prediction_rows,
    reads_matrix,
    refuse_diagonal,
    refuse_matrix_covariance,
    refuse_two_spreads,
    validate_items,
)
from pursuit.estimators.intervals import ProcessIntervals, set_aside
from pursuit.estimators.kernel_model import PLAIN_ROWS, ScoredRows, in_precision_of_rows
from pursuit.estimators.parts import PartsOfProcess
from pursuit.estimators.scales import in_range
from pursuit.estimators.span.certify import KINDS
from pursuit.estimators.span.dense import check_dense, step_bound
from pursuit.estimators.span.gaps import filled, fit_groups, joined_outputs
from pursuit.estimators.span.model import NO_TIME_TO_CERTIFY, SpanModel
from pursuit.estimators.span.search import (
    GAUSSIAN_SEARCH,
    choose_basis,
    estimator_search,
    fit_basis,
    smallest_within,
    timed,
)
from pursuit.gram import kernel_times
from pursuit.greedy import Problem, SpanFit
from pursuit.linalg import PredictiveVariance, SpanSolution, Workers, single_threaded_blas
from pursuit.rounding import gamma
from pursuit.rows import Sample, as_rows, has_gaps
from pursuit.tuning import Calibration


class SparseGPRegressor(
    CallbackSupportMixin,
    MultiOutputMixin,
    ScoredRows,
    OwnNoise,
    GradientProcess,
    PartsOfProcess,
    ProcessIntervals,
    RegressorMixin,
    SpanModel,
):
    """Gaussian process regression in the span of a few greedily chosen kernel functions.

    Minimises P(f) = ½Σw(y - f)² + ½σ²‖f‖² over f = Σ_j β_j k(·, x_j) with at most ``n_basis``
    terms, choosing at each step the term that lowers P most (Algorithm 1 of Smola and Bartlett
    2001, in short SB01), and says how far the result can be from the minimum over all functions
    (``certificate_``).

    Parameters
    ----------
    kernel : kernel object, str, callable or None, default None
        A `sklearn.gaussian_process.kernels` object, a name of `pairwise_kernels`,
        ``"precomputed"``, or a function k(A, B) of two blocks of items. White terms are read as
        noise. None compares a constant times RBF, Matérn 5/2, 3/2 and 1/2 with a length scale for
        each feature, by evidence; columns of text or categories get a :class:`Categorical` factor.
        From fewer than 200 rows, or 10 for each feature, it learns with weak priors, one length
        scale for all features unless more of them pay, and error bars that are widened by what
        stays unknown of kernel and noise; ``kernel_`` and ``noise_`` contain this factor.
        ``"search"`` grows sums and products of kernels from the best of these, and takes them if
        they predict rows left out better; it takes some ten times as long to learn. The free
        hyper-parameters of kernel objects are learned within their bounds, and the terms of
        :class:`Additive` kernels are chosen by evidence; named, callable and precomputed kernels
        are used as given. Periods of one column are also started from peaks of a periodogram.
        ``learning_report_.kept`` says why a kernel was not learned.
    noise : float, "learn" or "varying", default "learn"
        Noise variance σ². ``"learn"`` maximises the exact evidence on a subset of the rows, with
        the kernel's hyper-parameters or, where these are not learned, over σ² alone; a White term
        of a kernel that is kept is kept too. ``"varying"`` lets the noise depend on the inputs: a
        second sparse process for the logarithm of its variance is fitted to leave-one-out errors,
        and its inverse weighs the rows. It is used if it raises the log density of rows left out,
        else the fit is that of ``"learn"``; ``learning_report_.noise`` says which. Such a fit takes
        three to four times as long.
    n_basis : int or "auto", default 512
        Largest number of basis functions; ``path_.stop_reason`` says why the choice ended with
        fewer. ``"auto"`` takes as many as lower the error on rows left out, at most 2048.
    tol : float or None, default None
        Stop when the certificate's ``relative_gap`` is at most ``tol``. Fresh and full searches
        compute the gap as they go; a pooled search returns the smallest size that meets ``tol``.
    search : {"pooled", "fresh", "full"} or Search, default "pooled"
        How candidates are found. ``"pooled"``: choose from a pool by statistics on a sketch of the
        rows. ``"fresh"``: look at a new random subset of the rows at every step, as published.
        ``"full"``: look at every row at every step. A :class:`Search` sets the size of the pool
        (by default ``2 * n_basis + 1000``, for a fresh search 59), the rows of the sketch, the
        number of rounds (1), the score and the candidates. By default the rows of the pool choose
        an eighth more points than ``n_basis``, and a sketch of four rows per candidate chooses
        among those; all rows do where they are at most three times as many as the sketch.
    optimizer : {"evidence", None} or Evidence, default "evidence"
        How hyper-parameters are learned: by the exact evidence on 500, then 2 000 rows. An
        :class:`Evidence` sets the number of restarts and of rows. None keeps the kernel as it is
        (constant x RBF with length scales sd·√d for ``kernel=None``). Hyper-parameters of a given
        kernel that end at a bound are told by a `ConvergenceWarning`.
    refine : int, "auto" or False, default "auto"
        Number of gradient steps that move the chosen points. The moved points are kept if they
        lower the error on rows left out by a thousandth; if the first fifth of the steps, but at
        least 20, does not, the others are not taken. ``"auto"`` is 100 when hyper-parameters are
        learned from more than 2 000 rows, else 0.
    calibration : {"auto", "loo", "conformal", None}, default "auto"
        ``"loo"`` sets the ridge by leave-one-out error and the error bars by leave-one-out density,
        on rows that had no part in the choice. Up to 2 000 rows none are reserved: each row is left
        out in turn, with its basis function if it has one, and only the error bars are set.
        ``"auto"`` does this when hyper-parameters are learned. ``"conformal"`` first sets a fifth
        of the rows aside (at least 100, at most 2 000, at most half) for intervals that are
        guaranteed to cover, and goes on like ``"auto"`` with the others.
    likelihood : {"gaussian", "student-t"}, default "gaussian"
        ``"student-t"`` is for targets with outliers: the noise is Student's t, whose degrees of
        freedom are learned, and each row gets a weight by how well the others predict it. This
        problem is not convex; the certificate is about the Gaussian process with the weights of the
        last round. ``outliers_`` lists rows of low weight.
    normalize_y : bool, default True
        Centre and scale the targets of each output first, by their weighted mean and deviation,
        with ``"student-t"`` by those of targets clipped at four robust deviations.
        ``noise``, ``kernel_``, ``dual_coef_``, ``path_`` and the certificate are in these units;
        predictions are not.
    certificate : {"auto", None, "published", "dense", "scaled", "hybrid", "grouped", \
            "two-level", "pcg"}, default "auto"
        Which proof of optimality ``fit`` computes. ``"auto"`` is ``"hybrid"`` up to 10 000 rows.
        Of more rows a sample tells which kind should say something: ``"hybrid"`` up to 50 000 rows
        when hyper-parameters are learned, ``"grouped"``, or else ``"published"``, which it always
        is with ``tol`` and for rows on a cluster. :meth:`certify` explains the kinds and computes
        any later.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    max_time : float or None, default None
        Seconds that the fit should take, roughly. Learning ends after 30 % of them, functions are
        chosen as long as time for the pass over all rows remains, points are moved in the rest, and
        an ``"auto"`` certificate is computed only if a third of the time remains. The result then
        depends on the speed of the machine.
    checkpoint : path-like or None, default None
        A folder in which the fit records what it has finished: the kernel, the basis and, after
        every block of 8 192 rows (or a few tasks per thread of a cluster), the sums of a pass.
        After a crash or Ctrl-C, the same call with the same data continues from there and gives the
        identical model. A finished fit is read back from the folder, which may be removed then.
    dtype : {"float64", "float32"}, default "float64"
        Type of the kernel tiles of the final pass. float32 is a wish: it is granted where rounding
        is negligible beside the noise, as found out before the pass, which is rare with many rows,
        and coefficients are then refined to float64. Choosing and certifying always use float64.
    n_jobs : int or None, default None
        Number of threads; None uses as many as BLAS would. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit and their times.

    Attributes
    ----------
    basis_ : items
        Basis points in the order of choice; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers, -1 where a point is not a row.
    n_basis_ : int
        Number of basis functions.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_outputs)
        β.
    kernel_ : kernel
        The kernel in use, without White terms' effect on predictions of the latent function.
    noise_ : float
        σ² in use, after learning and calibration: where the noise varies, the weighted harmonic
        mean of its variance over the rows, and for Student's t its squared scale.
    degrees_of_freedom_ : float
        Those of Student's t, with ``likelihood="student-t"``.
    outliers_ : array of int
        With ``likelihood="student-t"``: numbers of the rows with an error beyond four deviations of
        the noise, when predicted from the other rows.
    outlier_weights_ : array of float
        Their weights in the last round, relative to other rows; a Gaussian would give them 1.
    learning_report_ : LearningReport
        Families and their evidence, why the kernel was kept if it was, times, importance and
        relevance of the features, warnings; print it.
    feature_relevance_ : array of shape (n_features,) or None
        Standard deviation of each feature over its length scale: 0 where the feature is constant
        or not looked at. None where the kernel has no length scale for each feature.
    calibration_ : Calibration or None
        What leave-one-out changed.
    coverage_guarantee_ : CoverageGuarantee or None
        What :meth:`predict_interval` guarantees, on which rows and assumptions; None without rows
        set aside, and after anything that changes the model.
    conformal_rows_ : array of int
        Numbers of the rows that ``calibration="conformal"`` has set aside.
    path_ : Path
        What each step brought and cost, and why the choice ended.
    certificate_ : Certificate or None
        Upper and lower value of the minimum.
    log_evidence_bounds_ : EvidenceBounds
        (lower, upper, …) of the exact process's log evidence, from stored statistics.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    References
    ----------
    A. J. Smola and P. L. Bartlett. Sparse greedy Gaussian process regression. NIPS 13, 2001.

    Examples
    --------
    >>> from pursuit import SparseGPRegressor
    >>> from pursuit.datasets import make_robot_arm
    >>> arm = make_robot_arm(1200, random_state=0)
    >>> X, y = arm.data, arm.target
    >>> model = SparseGPRegressor(n_basis=100, random_state=0).fit(X[:1000], y[:1000])
    >>> mean, std = model.predict(X[1000:], return_std=True)
    >>> model.n_basis_
    100
    """

    _solution: SpanSolution
    _reserved_rows: Indices
    """Numbers of the rows that had no part in the choice, for those who judge it."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [None, str, callable, SklearnKernel],
        "noise": [numbers.Real, StrOptions({"learn", "varying"})],
        "n_basis": [
            StrOptions({"auto"}),
            Interval(numbers.Integral, 1, None, closed="left"),
        ],
        "tol": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "search": SEARCH,
        "optimizer": OPTIMIZER,
        "refine": REFINE,
        "calibration": [None, StrOptions({"auto", "loo", "conformal"})],
        "likelihood": [StrOptions({"gaussian", "student-t"})],
        "normalize_y": ["boolean"],
        "certificate": [None, StrOptions({"auto", *KINDS})],
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
        n_basis: int | str = 512,
        tol: float | None = None,
        search: str | Search = "pooled",
        optimizer: str | Evidence | None = "evidence",
        refine: int | str | bool = "auto",
        calibration: str | None = "auto",
        likelihood: str = "gaussian",
        normalize_y: bool = True,
        certificate: str | None = "auto",
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        max_time: float | None = None,
        checkpoint: Any = None,
        dtype: Any = "float64",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.n_basis = n_basis
        self.tol = tol
        self.search = search
        self.optimizer = optimizer
        self.refine = refine
        self.calibration = calibration
        self.likelihood = likelihood
        self.normalize_y = normalize_y
        self.certificate = certificate
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
        """Choose a basis and fit all rows in its span.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            Targets; a single column is one output, and predictions are a vector. NaN in some of
            several outputs is a target that was not observed: each output is fitted to the rows
            that have it, all of them with one basis, kernel and noise.
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
        self : SparseGPRegressor
        """
        if not isinstance(self.noise, str):
            positive("noise", self.noise)
        self._check_tol()
        pooled = estimator_search(self, GAUSSIAN_SEARCH).kind == "pooled"
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        aside = None
        if self.calibration == "conformal":
            X, y, sample_weight, aside = set_aside(self, X, y, sample_weight)
        X, sample, present = self._take_in(X, y, sample_weight, normalize=self.normalize_y)
        warn_of_light_rows(self, sample, X)
        m = sample.n_rows
        gaps = has_gaps(sample.targets)
        self._check_likelihood(gaps)
        if self.likelihood == "student-t" and self.normalize_y:
            sample, self._scale = robust_units(sample, self._scale)
        with FitRun(self, sample, present) as run:
            run.same_matrix(X)
            own = self._own_weights(sample, X, run)
            if own is not None:
                sample = replace(sample, weights=own.counts / own.ratio)
            until = LEARNING_SHARE if own is None else LAST_SHARE
            learned, kernel = learn_or_keep(self, sample, X, run.rng, run, until=until)
            self.kernel_, self.noise_, self._learned = learned.kernel, learned.noise, learned.learns
            self.feature_relevance_ = learned.report.relevance
            problem = replace(run.problem(kernel, self.noise_), sample=sample)
            if gaps:
                self._refuse_tol()
                problem = filled(problem)
            steps = moving_steps(self.refine, learned, m)
            auto = self.calibration in ("auto", "conformal")
            calibrates = self.calibration == "loo" or (auto and self._learned)
            auto_size = self.n_basis == "auto"
            split = split_rows(m, run.rng, moves=steps > 0, judged=calibrates or auto_size)
            self._reserved_rows = present[split.reserved]
            cut = partial(choose_size, problem=problem, split=split) if auto_size else None
            plan = timed(self._plan(m), run.clock, problem, moves=steps > 0)
            chosen, moved = choose_basis(plan, problem, split, run, cut), learned.report.moved
            if steps > 0 and not run.out_of_time:
                chosen, moved = move_basis(chosen, problem, learned, steps, split, run)
            fitted, certificate = fit_basis(chosen, problem, self.dtype, run)
            if gaps:
                problem = run.problem(kernel, self.noise_)
                reserved = split.reserved if calibrates else None
                self._fit_gaps(fitted, present, problem, reserved, learned, moved, run)
                if aside is not None:
                    self._keep_aside(aside)
                return self
            all_read = fitted.n_rows is None  # else few of the reserved rows may have been read
            calibrations: dict[int, Calibration] = {}
            if calibrates and all_read:
                run.begin("calibrate")
                fitted, calibrations = calibrate_fit(
                    fitted,
                    problem,
                    split.reserved,
                    keep_ridge=learned.noise_is_given,
                    ratio=None if own is None else own.ratio,
                    factor=learned.factor,
                )
            self._set_calibration(calibrations, fitted, problem.noise)
            if self.noise_ != problem.noise:
                problem, certificate = replace(problem, noise=self.noise_), None
            if own is not None:
                run.begin("noise")
                own, fitted, problem = self._find_noise(
                    own, fitted, problem, split, X, present, learned.factor
                )
                certificate = None
            kind = self._certificate_kind(m)
            if self.tol is not None and kind and pooled and not run.stopping:
                run.begin("size")
                fitted, certificate = smallest_within(self.tol, kind, fitted, problem)
            problem = self._as_far_as_read(fitted, problem)
            self._store(fitted, present, problem)
            notes = list(learned.report.warnings)
            if self.calibration_ is not None and self.calibration_.tails:
                notes.append(self.calibration_.tails)
            if self.calibration_ is not None and self.calibration_.varying and own is None:
                notes.append(self.calibration_.varying)
            if certificate is not None or self._may_certify(run):
                self._certify_fit(fitted, certificate, problem, run)
            elif not run.stopping:
                notes.append(NO_TIME_TO_CERTIFY)
            beta = fitted.solution.coefficients()
            report = with_importance(learned, self, problem, self._points, beta, run)
        self.learning_report_ = replace(
            report,
            moved=moved,
            calibration=self.calibration_,
            warnings=notes,
            seconds=run.seconds,
            noise="" if own is None else own.sentence,
        )
        if aside is not None:
            self._keep_aside(aside)
        self._report_end(run, present)
        return self

    def _check_likelihood(self, gaps: bool) -> None:
        if gaps and (self.likelihood == "student-t" or self.noise == "varying"):
            raise ValueError(NO_GAPS)
        if self.likelihood == "student-t" and self.noise == "varying":
            raise ValueError(
                "likelihood='student-t' and noise='varying' both set the weights of the rows: use "
                "one of them."
            )

    def _own_weights(self, sample: Sample, X: Any, run: FitRun) -> OwnWeights | None:
        """Weights that outliers or varying noise give the rows; None where there are none."""
        self._noise_model = None
        for name in ("degrees_of_freedom_", "outliers_", "outlier_weights_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if self.likelihood == "student-t":
            return first_weights(self, sample, X, run)
        if self.noise != "varying":
            return None
        check_varying(self, X)
        return search_noise(self, sample, X, run)

    @property
    def _full_model(self) -> str:
        return FULL_PROCESS

    def _about(self, found: Certificate) -> Certificate:
        """The certificate, with words on the weights that the model has set."""
        found, noise = super()._about(found), self._noise_model
        return found if noise is None else replace(found, over=noise.over)

    def _fit_gaps(
        self,
        fitted: SpanFit,
        present: Indices,
        problem: Problem,
        reserved: Indices | None,
        learned: LearnedKernel,
        moved: str,
        run: FitRun,
    ) -> None:
        """Fit the observed targets of each output in the span of the basis."""
        fits = fit_groups(fitted, problem)
        calibrations: dict[int, Calibration] = {}
        if reserved is not None and fitted.solution.size:
            run.begin("calibrate")
            fits, calibrations = calibrate_groups(
                fits,
                fitted.pool,
                problem,
                reserved,
                keep_ridge=learned.noise_is_given,
                factor=learned.factor,
            )
        self._set_calibration(calibrations, fitted, problem.noise)
        problem = replace(problem, noise=self.noise_)
        self._store(fitted, present, problem)
        self._store_groups(fits)
        notes = list(learned.report.warnings)
        if self.calibration_ is not None and self.calibration_.tails:
            notes.append(self.calibration_.tails)
        if self._may_certify(run):
            run.begin("certify")
            self._certify_groups(problem)
        elif not run.stopping:
            notes.append(NO_TIME_TO_CERTIFY)
        report = with_importance(learned, self, problem, self._points, self.dual_coef_, run)
        self.learning_report_ = replace(
            report, moved=moved, calibration=self.calibration_, warnings=notes, seconds=run.seconds
        )
        self._report_end(run, present)

    def _set_calibration(
        self, calibrations: dict[int, Calibration], fitted: SpanFit, noise: float
    ) -> None:
        """Keep ridge and error bars of every size, and use those of the model's own."""
        self._calibrations = calibrations
        self.calibration_ = calibrations.get(fitted.solution.size)
        self._spread = PredictiveVariance(noise)
        if self.calibration_ is not None:
            self._spread, self.noise_ = self.calibration_.spread, self.calibration_.noise

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

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.
        return_std : bool, default False
            Also return the standard deviation at each row.
        return_cov : bool, default False
            Also return the joint covariance of the rows.
        include_noise : bool, default True
            Whether the spread is that of a new observation, or of the function alone. The noise is
            that of :meth:`noise_at`.
        diagonal : array of shape (n_rows,), optional
            k(x, x) of the rows, which ``return_std`` needs when ``kernel="precomputed"``.

        Returns
        -------
        mean : array of shape (n_rows,) or (n_rows, n_outputs)
        std : array of the same shape, if ``return_std``
        cov : array of shape (n_rows, n_rows) or (n_rows, n_rows, n_outputs), if ``return_cov``
        """
        refuse_two_spreads(return_std, return_cov)
        self._check_fitted()
        if not (return_std or return_cov):
            refuse_diagonal(diagonal, "a mean alone")
            return self._as_fitted(self._values(X))
        if return_cov:
            refuse_matrix_covariance(self)
        if self._parts:
            options = {"return_std": return_std, "return_cov": return_cov, "diagonal": diagonal}
            found = [
                in_double(part.predict)(X, **options, include_noise=include_noise)
                for part in self._parts
            ]
            means, spreads = (
                joined_outputs(part, self._part_columns) for part in zip(*found, strict=True)
            )
            return means, spreads
        noise: Floats | float = self._spread.noise if include_noise else 0.0
        varies = include_noise and self._noise_model is not None
        short = return_std and diagonal is None and not varies
        bound = self._bound_for(X, PLAIN_ROWS) if short else None
        if bound is not None:
            with single_threaded_blas():
                K = bound(X)
                values = self._restored(K @ self._coefficient_columns)
                variance = self._spread.variance(self._solution, K, bound.kernel.diag(X))
            spread = self._scale.scale * np.sqrt(variance + noise)[:, None]
            return self._as_fitted(values), self._as_fitted(spread)
        rows, X = prediction_rows(self, X)
        kernel = self._compiled_with(X, rows.n_rows, diagonal)
        known = kernel, self._points, self._solution, self._spread
        with Workers(self.n_jobs) as workers:
            values = kernel_times(rows, kernel, self._points, self._coefficient_columns, workers)
            if varies:
                noise = self._noise_variance(rows, X, workers)
            if return_std:
                variance = latent_variance(rows, *known, workers)
                spread = self._scale.scale * np.sqrt(variance + noise)[:, None]
            else:
                covariance = latent_covariance(rows, *known)
                covariance[np.diag_indices_from(covariance)] += noise
                spread = covariance[:, :, None] * self._scale.scale**2
        return self._as_fitted(self._restored(values)), self._as_fitted(spread)

    def _std_gradient(self, X: Any, include_noise: bool) -> Floats:
        """Gradients of the standard deviation: shape (n_rows, n_features, n_outputs)."""
        if self._parts:
            parts = [part._std_gradient(X, include_noise) for part in self._parts]
            return joined_outputs(parts, self._part_columns)
        rows, [kernel] = self._differentiable(X)
        derivatives = partial(self._spread.derivatives, self._solution)
        points = dense(self.basis_)
        model = self._noise_model
        with Workers(self.n_jobs) as workers:
            if model is None or not include_noise:
                noise = self._spread.noise if include_noise else 0.0
                gradient = std_gradient(rows, kernel, points, derivatives, noise, workers)
            else:
                # ∂v = 2√v ∂√v for the variance v of f, and ∂exp(h) = exp(h) ∂h for the noise.
                latent = std_gradient(rows, kernel, points, derivatives, 0.0, workers)
                known = kernel, points, self._solution, self._spread
                variance = latent_variance(rows, *known, workers)
                observed = self._noise_variance(rows, points, workers)
                gradient = np.sqrt(variance)[:, None] * latent
                if isinstance(model, VaryingNoise):
                    slope = model.gradient(rows, self._noise_kernel(points), workers)
                    gradient += 0.5 * observed[:, None] * slope
                gradient /= np.sqrt(variance + observed)[:, None]
        return gradient[:, :, None] * self._scale.scale

    def _part_variances(self, X: Any, center: Any) -> Floats:
        """Variances of the terms in normalised units: shape (n_rows, n_terms)."""
        rows, X = prediction_rows(self, X)
        known = self._points, self._factors, self._spread
        with Workers(self.n_jobs) as workers:
            kernel, terms = self._compiled(X), self._compiled_terms(X)
            return part_variances(rows, kernel, terms, *known, workers, center)

    @in_range
    def sample_functions(
        self, n: int = 1, random_state: Any = 0, *, n_features: int = 1024
    ) -> FunctionDraws:
        """Draw functions from the posterior, which can be evaluated anywhere and again.

        A draw is a function of the prior, by random features, corrected by the basis (Matheron's
        rule). Its mean and covariance are those of ``predict(..., include_noise=False)``,
        calibrated error bars included. Only the part of the prior that lies outside of the span of
        the basis is approximate. It is a combination of ``n_features`` random functions, new ones
        for every 16 draws: over all of these it has the right covariance, given one set of them a
        covariance with a relative error of about 1/√``n_features``.

        Parameters
        ----------
        n : int, default 1
            Number of functions.
        random_state : int, RandomState or None, default 0
            Seed. The first functions of a longer sequence with the same seed are the same.
        n_features : int, default 1024
            Number of random features.

        Returns
        -------
        functions : FunctionDraws
            A sequence of callables f(X) of shape (n_rows,) or (n_rows, n_outputs). Called itself,
            it evaluates all of them at once, with shape (n_rows, n) or (n_rows, n_outputs, n).
            Values are in units of y, without noise. They are fixed: a later fit of the model does
            not change them.

        Raises
        ------
        NoFunctionsError
            If the kernel has no random features. RBF, Matern, RationalQuadratic, ExpSineSquared of
            one column, DotProduct, ConstantKernel and Categorical have, and their sums, products
            and whole powers, and on_columns of them. With any other kernel :meth:`sample_y` draws
            at up to 10 000 rows.

        References
        ----------
        J. T. Wilson, V. Borovitskiy, A. Terenin, P. Mostowsky and M. P. Deisenroth. Efficiently
        sampling functions from Gaussian process posteriors. ICML, 2020.

        Examples
        --------
        >>> from pursuit import SparseGPRegressor
        >>> from pursuit.datasets import make_robot_arm
        >>> arm = make_robot_arm(1000, random_state=0)
        >>> model = SparseGPRegressor(n_basis=50, random_state=0).fit(arm.data, arm.target)
        >>> functions = model.sample_functions(20)
        >>> functions(arm.data).shape
        (1000, 20)
        >>> one = functions[3]
        >>> bool(abs(one(arm.data[:5]) - functions(arm.data)[:5, 3]).max() < 1e-10)
        True
        """
        check_is_fitted(self)
        self._refuse_gaps("sample_functions")
        return span_draws(self, n, n_features, random_state)

    @in_range
    def std_bounds(
        self,
        X_new: Any,
        X_train: Any,
        sample_weight: ArrayLike | None = None,
        tol: float | None = None,
    ) -> Any:
        """Bounds on the exact Gaussian process's standard deviation, in units of y.

        The exact process is the one that all rows of ``X_train`` would give with ``kernel_`` and
        ``noise_``; the bounds are those of a new observation, noise included.

        Parameters
        ----------
        X_new : items
            Where to bound the standard deviation.
        X_train : items
            The training rows.
        sample_weight : array, optional
            Their weights, as in :meth:`fit`.
        tol : float, optional
            Without it, one basis serves all points: O(n²) per point above, one pass over the rows
            below. With it, two pursuits of its own go on from there for every point, until the
            bounds of the explained variance are within ``tol`` of each other (SB01 §4), and the
            number of steps is returned as well; this holds O(n_rows n_basis) numbers in memory.

        Returns
        -------
        lower, upper : arrays of shape (n_new,) or (n_new, n_outputs)
        counts : array of int of shape (n_new,), if ``tol``
            Basis functions that each point needed beyond the model's own ``n_basis_``, the larger
            number of its two pursuits; 0 where the model's own were enough.
        """
        check_is_fitted(self)
        self._warn_without_weights(sample_weight, X_train)
        return self._std_bounds(X_new, X_train, sample_weight, tol)

    def _std_bounds(
        self,
        X_new: Any,
        X_train: Any,
        sample_weight: ArrayLike | None,
        tol: float | None,
        *,
        own_basis: bool = True,
    ) -> Any:
        """`std_bounds`; the pursuits of SB01's Table 2 begin without the model's own basis."""
        if reads_matrix(self):
            raise ValueError(
                "std_bounds needs k(x, x), which a precomputed matrix of k(x, training rows) does "
                "not hold: fit with a callable kernel instead."
            )
        self._refuse_unknown_targets("std_bounds")
        if tol is not None:
            positive("tol", tol)
        queries = held(self, validate_items(self, X_new, reset=False))
        with Workers(self.n_jobs) as workers:
            X_train, _, _ = named_columns(X_train)
            m = n_rows(validate_items(self, X_train, reset=False))
            nothing = np.zeros((m, len(self._scale.mean)))
            problem = self._problem(X_train, nothing, sample_weight, workers)
            found: tuple[Any, ...]
            if tol is None:
                found = variance_bounds(problem, self._points, queries, self.n_basis_)
            else:
                begin = (self._points, self.n_basis_) if own_basis else ()
                found = variance_bounds_to_tolerance(problem, queries, tol, *begin)
            more: Floats | float = 0.0  # beyond noise_, with which both are bounded
            if self._noise_model is not None:
                ratio = self._noise_model.ratio(
                    as_rows(queries), self._noise_kernel(queries), workers
                )
                more = self.noise_ * (ratio - 1.0)
        lower, upper, *counts = found
        lower, upper = lower + more, upper + more
        # The root, the scale and what is added round, too.
        lower = self._scale.scale * np.sqrt(lower * (1.0 - gamma(8)))[:, None]
        upper = self._scale.scale * np.sqrt(upper * (1.0 + gamma(8)))[:, None]
        if self._single_output:
            lower, upper = lower[:, 0], upper[:, 0]
        return (lower, upper, *counts)

    @in_range
    def rate_bound(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        tol: ArrayLike = 0.025,
    ) -> Bound:
        """How many basis functions a greedy search over all rows may need (SB01 Theorem 2).

        With ``kernel_`` and ``noise_`` as they are, A = (σ²K + K²)^½ and λ₁ the smallest singular
        value of A with normalised columns, P(f) - P_min is at most ε after no more than::

            ⌈ 18 n*(ε/4) λ₁⁻² ln(‖A⁻¹Ky‖ / √(2ε)) ⌉

        steps of Algorithm 1 with ``search="full"`` (the paper prints ε in place of √(2ε)). n*(ε/4)
        is the fewest functions that come within ε/4 of the minimum; nobody can compute it, so it is
        replaced by what the search itself needs for ε/4, which is at least as many. For smooth
        kernels λ₁⁻² is in the millions, and the bound is vacuous: it says so when printed.
        ``certificate_`` says how far this model is from the minimum.

        Parameters
        ----------
        X, y, sample_weight
            The rows that the bound is about, as in :meth:`fit`: at most 2 000, since it takes the
            eigenvalues of their kernel matrix.
        tol : float or array of float, default 0.025
            ε as a share of P(0) - P_min, between 0 and 1.

        Returns
        -------
        bound : Bound
            ``value`` is the number of steps for each ``tol``, ``size`` what stands for n*(ε/4).

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from pursuit import SparseGPRegressor
        >>> X = np.arange(60.0)[:, None]
        >>> y = np.where(X[:, 0] == 3, 1.0, 0.0)
        >>> options = {"noise": 0.1, "optimizer": None, "normalize_y": False}
        >>> model = SparseGPRegressor(RBF(0.1), **options).fit(X, y)
        >>> model.rate_bound(X, y).value
        array([34.])
        """
        check_is_fitted(self)
        tolerances = np.atleast_1d(np.asarray(tol, dtype=np.float64))
        if (
            tolerances.ndim > 1
            or not len(tolerances)
            or not np.all((tolerances > 0) & (tolerances < 1))
        ):
            raise ValueError(
                f"tol must be a share of P(0) - P_min strictly between 0 and 1, got {tol!r}."
            )
        self._warn_without_weights(sample_weight, X)
        with Workers(self.n_jobs) as workers:
            problem = self._problem(X, y, sample_weight, workers)
            check_dense("rate_bound", problem.sample.n_rows)
            return step_bound(problem, tolerances)

    @property
    def log_evidence_bounds_(self) -> EvidenceBounds:
        """Bounds on the log evidence of the exact Gaussian process, in normalised units."""
        check_is_fitted(self)
        if self._parts:
            bounds = [part.log_evidence_bounds_ for part in self._parts]
            lower, upper = (float(sum(ends)) for ends in zip(*bounds, strict=True))
            return EvidenceBounds(lower, upper, sum(one.n_values for one in bounds))
        span, sums = self._solution, dict(self._sums)
        share = sums.pop("share", 0.0)
        known = StatisticsRounding(*span.statistics_rounding(share, self.dtype))
        return evidence_bounds(span.L, span.z, noise=self.noise_, rounding=known, **sums)
