"""Sparse greedy Gaussian process classification."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.estimators.arguments import (
    CHECKPOINT,
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
from pursuit.estimators.gp.class_model import LatentClassModel
from pursuit.estimators.gp.laplace import (
    LaplaceFit,
    calibrate_latents,
    scale_by_evidence,
    solve_in_latents,
    whitened,
)
from pursuit.estimators.gp.stages import (
    choose_size,
    learn_or_keep,
    move_basis,
    moving_steps,
    split_rows,
    warn_of_light_rows,
    with_importance,
)
from pursuit.estimators.inputs import as_passed, named_columns, positive, reads_matrix
from pursuit.estimators.intervals import set_aside
from pursuit.estimators.scales import kept
from pursuit.estimators.span.model import AUTO_BASIS, NO_TIME_TO_CERTIFY, time_to_certify
from pursuit.estimators.span.search import (
    GAUSSIAN_SEARCH,
    SearchPlan,
    choose_basis,
    estimator_search,
    fit_basis,
    timed,
    with_checked_points,
)
from pursuit.estimators.warning import warn
from pursuit.greedy import Problem, SpanFit
from pursuit.tuning import LearningReport

_AUTO_CERTIFICATE_ROWS = 10_000


class SparseGPClassifier(CallbackSupportMixin, LatentClassModel):
    """Gaussian process classification in the span of a few greedily chosen kernel functions.

    Log-odds f = Σ_j β_j k(·, x_j) of a class have a Gaussian process with covariance s·k as prior;
    Laplace's approximation to their posterior is found by Newton's method in the span of at most
    ``n_basis`` kernel functions, which are chosen for regression on targets of ±1. For more than
    two classes each has latent functions of its own against the rest, all with one kernel and one
    basis. With every row in the basis this is scikit-learn's `GaussianProcessClassifier`, and
    ``certificate_`` says how far from that the latent functions are.

    Parameters
    ----------
    kernel : kernel object, str, callable or None, default None
        A `sklearn.gaussian_process.kernels` object, a name of `pairwise_kernels`,
        ``"precomputed"``, or a function k(A, B) of two blocks of items. White terms play no part in
        the latent functions. None compares a constant times RBF, Matérn 5/2, 3/2 and 1/2 with a
        length scale for each feature, or one for all of them. From fewer than 200 rows, or 10 for
        each feature, it learns with weak priors, and log-odds vary more by what stays unknown of
        the kernel. The free hyper-parameters of kernel
        objects are learned within their bounds; named, callable and precomputed kernels are used
        as given.
    n_basis : int or "auto", default "auto"
        Most basis functions. Fewer may be enough: ``path_.stop_reason`` says why the choice ended.
        ``"auto"``: as many as lower the log loss of rows left out, of 256 at first; twice as many
        are tried as long as they are expected to lower it by 0.01, at most 2048.
    scale : float or "auto", default "auto"
        s, the factor of the kernel in the prior of the log-odds. ``"auto"``: the one with most
        evidence, by Laplace's approximation in the span of the basis on at most 2 000 rows; 1 for
        ``optimizer=None``.
    class_weight : dict, "balanced" or None, default None
        Factors of the weights of the rows of a class; ``"balanced"`` in inverse proportion to their
        sum. Probabilities are then those of classes as frequent as the weights say.
    search : {"pooled", "fresh", "full"} or Search, default "pooled"
        How candidates are found, by least squares on ±1, as in :class:`SparseGPRegressor`; a
        :class:`Search` sets the size of the pool, the rows of the sketch, the number of rounds, the
        score and the candidates.
    optimizer : {"evidence", None} or Evidence, default "evidence"
        How hyper-parameters are learned: by the exact evidence of a regression on ±1. An
        :class:`Evidence` sets the number of restarts and of rows. None keeps the kernel as it is.
        Hyper-parameters of a given kernel that end at a bound are told by a `ConvergenceWarning`.
    refine : int, "auto" or False, default "auto"
        Gradient steps that move the chosen points, kept if rows left out gain by them. ``"auto"``
        is 100 when the kernel is learned from more than 2 000 rows, else 0.
    calibration : {"auto", "loo", "conformal", None}, default "auto"
        ``"loo"`` sets by leave-one-out log loss how large the log-odds are and how much of their
        variance counts, on rows reserved from the choice (all rows up to 2 000). ``"auto"`` does
        so unless ``optimizer=None`` and ``n_basis`` is a number. ``"conformal"`` first sets a fifth
        of the rows aside (at least 100, at most 2 000, at most half) for sets of classes that are
        guaranteed to cover, and goes on like ``"auto"``. None: Laplace's approximation as it
        stands, in which all that the basis misses counts as doubt.
    certificate : {"auto", "exact", None}, default "auto"
        ``"exact"`` bounds the distance to the latent functions of the full kernel, by one pass over
        all pairs of rows. ``"auto"`` does so up to 10 000 rows; :meth:`certify` does it later.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    max_time : float or None, default None
        Seconds that the fit is to take, about: learning ends after 30 % of them, functions are
        chosen while a pass over all rows still fits in, points are moved in what is left, and an
        ``"auto"`` certificate is computed only if a third is left then. Newton's steps are not cut
        short. The result then depends on the speed of the machine.
    checkpoint : path-like or None, default None
        A folder in which a fit writes down what it has finished. The same fit, started again after
        a crash, goes on from there to the identical model.
    n_jobs : int or None, default None
        Number of threads; None uses as many as BLAS would. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    classes_ : array
        Labels.
    class_weight_ : array of shape (n_classes,)
        Factors of the weights.
    basis_ : items
        Basis points in the order of choice; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers, -1 where a point is not a row.
    n_basis_ : int
        Number of basis functions.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_classes)
        β; a single column for two classes.
    kernel_ : kernel
        k.
    scale_ : float
        s; the prior covariance of the log-odds is ``scale_`` times ``kernel_``.
    log_marginal_likelihood_value_ : float
        Log evidence by Laplace's approximation, of the prior projected on the span of the basis;
        mean over the columns for more than two classes.
    learning_report_ : LearningReport
        Families and their evidence, times, importance and relevance of the features, warnings;
        print it.
    feature_relevance_ : array of shape (n_features,) or None
        Standard deviation of each feature over its length scale.
    calibration_ : Confidence or None
        What leave-one-out changed.
    coverage_guarantee_ : CoverageGuarantee or None
        What :meth:`predict_set` guarantees, on which rows and assumptions; None without rows set
        aside, and of a truncated model.
    conformal_rows_ : array of int
        Numbers of the rows that ``calibration="conformal"`` has set aside.
    path_ : Path
        What each step of the choice brought and cost, and why it ended; ``value`` is the objective
        of the regression on ±1, and the last ``gap`` that of the certificate.
    certificate_ : Certificate or None
        Upper and lower value of the least penalised negative log likelihood,
        Σw log(1 + exp(-yf)) + ‖f‖²/2s, over all functions of the kernel; None if not computed.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams. Gaussian Processes for Machine Learning, chapters 3 and
    5. MIT Press, 2006.

    A. J. Smola and P. L. Bartlett. Sparse greedy Gaussian process regression. NIPS 13, 2001.

    Examples
    --------
    >>> from pursuit import SparseGPClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> model = SparseGPClassifier(n_basis=50, random_state=0).fit(X, y)
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    >>> model.score(X, y) > 0.95
    True
    >>> model.certificate_.relative_gap < 0.02
    True
    """

    noise: ClassVar[str] = "learn"
    """Of the regression that chooses, never given."""

    learning_report_: LearningReport
    _reserved_rows: Indices
    """Numbers of the rows that had no part in the choice, for those who judge it."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [None, str, callable, SklearnKernel],
        "n_basis": [StrOptions({"auto"}), Interval(numbers.Integral, 1, None, closed="left")],
        "scale": [numbers.Real, StrOptions({"auto"})],
        "class_weight": [None, StrOptions({"balanced"}), dict],
        "search": SEARCH,
        "optimizer": OPTIMIZER,
        "refine": REFINE,
        "calibration": [None, StrOptions({"auto", "loo", "conformal"})],
        "certificate": [None, StrOptions({"auto", "exact"})],
        **KERNEL,
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
        **EXECUTION,
    }

    def __init__(
        self,
        kernel: Any = None,
        *,
        n_basis: int | str = "auto",
        scale: float | str = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        search: str | Search = "pooled",
        optimizer: str | Evidence | None = "evidence",
        refine: int | str | bool = "auto",
        calibration: str | None = "auto",
        certificate: str | None = "auto",
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
        self.n_basis = n_basis
        self.scale = scale
        self.class_weight = class_weight
        self.search = search
        self.optimizer = optimizer
        self.refine = refine
        self.calibration = calibration
        self.certificate = certificate
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
        """Choose a basis and fit the latent functions of all rows in its span.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,)
            Labels of at least two classes.
        sample_weight : array of shape (n_rows,), optional
            A row of weight w counts as w equal rows. A row of weight 0 is absent.
        target : str, optional
            The column of X that holds the labels, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : SparseGPClassifier
        """
        if self.scale != "auto":
            positive("scale", self.scale)
        search = estimator_search(self, GAUSSIAN_SEARCH)
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        aside = None
        if self.calibration == "conformal":
            X, y, sample_weight, aside = set_aside(self, X, y, sample_weight)
        X, sample, present = self._take_in(X, y, sample_weight)
        if self.optimizer is not None:
            warn_of_light_rows(self, sample, X, "give the kernel and set optimizer=None")
        m = sample.n_rows
        with FitRun(self, sample, present, n_stages=11) as run:
            run.same_matrix(X)
            learned, kernel = learn_or_keep(self, sample, X, run.rng, run, classes=True)
            self.kernel_ = learned.kernel
            self.feature_relevance_ = learned.report.relevance
            problem = run.problem(kernel, learned.noise)
            steps = moving_steps(self.refine, learned, m)
            calibrates, auto_size = self._calibrates(), self.n_basis == "auto"
            split = split_rows(m, run.rng, moves=steps > 0, judged=calibrates or auto_size)
            self._reserved_rows = present[split.reserved]
            cut = partial(choose_size, problem=problem, split=split, classes=True)
            plan = SearchPlan(
                n_basis=AUTO_BASIS if auto_size else int(self.n_basis),
                search=with_checked_points(self, search),
                max_time=self.max_time,
            )
            plan = timed(plan, run.clock, problem, moves=steps > 0)
            chosen = choose_basis(plan, problem, split, run, cut if auto_size else None)
            moved = learned.report.moved
            if steps > 0 and not run.out_of_time:
                chosen, moved = move_basis(chosen, problem, learned, steps, split, run)
            fitted, _ = fit_basis(chosen, problem, np.float64, run)
            span, start = whitened(fitted), None
            scale = self._given_scale()
            if scale is None:
                scaled = run.resume("scale") or scale_by_evidence(problem, span, split.reserved)
                scale, start = run.keep("scale", scaled)
            laplace = run.resume("solve") or solve_in_latents(problem, span, scale, start)
            run.keep("solve", laplace)
            self.calibration_ = None
            if calibrates and len(span):
                run.begin("calibrate")
                self.calibration_ = calibrate_latents(
                    problem, fitted, laplace, split.reserved, learned.factor
                )
            self._store(fitted, laplace, span.whitener, present)
            self._keep_bound_basis(problem.kernel)
            notes = list(learned.report.warnings)
            if self._certifies(m) and not run.stopping:
                if time_to_certify(self.certificate, run.clock):
                    run.begin("certify")
                    self._certify_fit(problem)
                else:
                    notes.append(NO_TIME_TO_CERTIFY)
            beta = self.dual_coef_.reshape(self.n_basis_, self._columns)
            report = with_importance(learned, self, problem, self._points, beta, run)
        self.learning_report_ = replace(
            report,
            moved=moved,
            calibration=self.calibration_,
            warnings=notes,
            seconds=run.seconds,
        )
        if aside is not None:
            self._keep_aside(aside)
        if not laplace.converged:
            warn(
                "Newton's method did not find the mode of the latent functions: the kernel may be "
                "far too large. Give a smaller scale.",
                ConvergenceWarning,
            )
        if run.stopping:
            interrupt(f"the best {self.n_basis_} basis functions found so far")
        return self

    def _calibrates(self) -> bool:
        if reads_matrix(self):
            return False
        learns = self.optimizer is not None or self.n_basis == "auto"
        auto = self.calibration in ("auto", "conformal")
        return self.calibration == "loo" or (auto and learns)

    def _certifies(self, n_rows: int) -> bool:
        return self.certificate == "exact" or (
            self.certificate == "auto" and n_rows <= _AUTO_CERTIFICATE_ROWS
        )

    def _given_scale(self) -> float | None:
        if self.scale != "auto":
            return float(self.scale)
        return 1.0 if self.optimizer is None else None

    def _store(
        self, fitted: SpanFit, laplace: LaplaceFit, whitener: Floats, present: Indices
    ) -> None:
        """Keep the model; row numbers are those of the rows passed to fit."""
        self.basis_ = None if reads_matrix(self) else fitted.pool.items
        self.basis_indices_ = as_passed(fitted.pool.index, present)
        self.path_ = replace(fitted.path, index=as_passed(fitted.path.index, present))
        self._n_rows = len(present)
        self.certificate_ = self.coverage_guarantee_ = None
        self._set_latents(laplace, whitener)

    def _certify_fit(self, problem: Problem) -> None:
        """Store the certificate, and its gap and cost in the path."""
        meter = problem.meter
        found = self._certified(problem.sample, problem.kernel, problem.workers, meter)
        self.certificate_ = kept(found)
        self.path_.end(found.relative_gap, meter)
