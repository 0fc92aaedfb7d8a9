"""Generalised linear models in the span of a few greedily chosen kernel functions."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
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
from pursuit.estimators.glm.certify import glm_certificate
from pursuit.estimators.glm.fit import GLMFit, Rows, certified, fit_glm
from pursuit.estimators.glm.named import POSITIVE, GivenLoss
from pursuit.estimators.glm.working import dispersions
from pursuit.estimators.gp.stages import warn_of_light_rows, with_importance
from pursuit.estimators.inputs import (
    as_passed,
    check_lengths,
    in_double,
    n_rows,
    named_columns,
    positive,
    reads_matrix,
    rows_again,
    seeded,
    training_rows,
    validate_weights,
)
from pursuit.estimators.intervals import IntervalModel
from pursuit.estimators.kernel_model import BasisModel, Expansion, ScoredRows, in_precision_of_rows
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.scales import LARGEST, SMALLEST, check_scale, in_range, kept
from pursuit.estimators.span.features import Span, SpanFeatures, StoredFunction
from pursuit.estimators.span.model import NO_TIME_TO_CERTIFY, time_to_certify
from pursuit.estimators.span.search import (
    GAUSSIAN_SEARCH,
    SearchPlan,
    estimator_search,
    with_checked_points,
)
from pursuit.estimators.warning import warn
from pursuit.greedy import CostMeter, Path, Pool, Problem
from pursuit.linalg import Workers
from pursuit.objectives import RowLoss
from pursuit.rows import RowSource, Sample, as_table, computed, is_dask
from pursuit.tuning import LearningReport

_AUTO_CERTIFICATE_ROWS = 10_000
"""With more rows than this, ``certificate="auto"`` does not take the exact pass."""

_NARROWEST = 0.01
"""Quantiles nearer to each other than this share of what they usually are count as so far apart."""


class SparseKernelGLM(
    CallbackSupportMixin,
    ScoredRows,
    IntervalModel,
    RegressorMixin,
    BasisModel,
    ReportedModel,
    BaseEstimator,
):
    """Regression with any convex loss in the span of a few greedily chosen kernel functions.

    Minimises P(f, b) = Σ_i w_i ℓ(f(x_i) + b + o_i, y_i) + ½α‖f‖² over f = Σ_j β_j k(·, x_j) with at
    most ``n_basis`` terms and over b, for counts, positive amounts, shares, quantiles, expectiles
    and targets with outliers. Near a function every such loss looks like weighted least squares:
    kernel and α are learned, and the basis is chosen, for those, first from the best constant and
    then from what that has found; Newton's method, or interior point for losses with kinks, then
    minimises P itself. ``certificate_`` says how far P is from its minimum over all functions of
    the kernel and all intercepts.

    Parameters
    ----------
    kernel : kernel object, str, callable or None, default None
        A `sklearn.gaussian_process.kernels` object, a name of `pairwise_kernels`,
        ``"precomputed"``, or a function k(A, B) of two blocks of items. None compares a constant
        times RBF, Matérn 5/2, 3/2 and 1/2 with a length scale for each feature. The free
        hyper-parameters of kernel objects are learned within their bounds; named, callable and
        precomputed kernels are used as given.
    loss : str or RowLoss, default "poisson"
        ``"poisson"`` (counts), ``"negative-binomial"`` (counts that vary more, the shape learned),
        ``"gamma"`` (positive amounts), ``"tweedie"`` (amounts, some of them 0), all with a log
        link; ``"logistic"`` (targets in [0, 1], log-odds); ``"huber"`` (outliers, its width
        learned), ``"absolute"`` (the median), ``"quantile"``, ``"expectile"``. Or a loss of your
        own, which :func:`pursuit.testing.check_loss` checks.
    quantile : float or sequence of float, default 0.5
        Level of ``loss="quantile"`` or ``"expectile"``. For several quantiles, in rising order,
        there is a function each, on one basis.
    power : float, default 1.5
        Of ``loss="tweedie"``: the variance is in proportion to the mean to this power, from 1
        (Poisson) to 2 (gamma).
    n_basis : int, default 256
        Most basis functions. Fewer may be enough: ``path_.stop_reason`` says why the choice ended.
    alpha : float or "learn", default "learn"
        α, the factor of ½‖f‖². ``"learn"``: by Laplace's evidence, or for losses with kinks by the
        loss of rows that are left out, approximately.
    search : {"pooled", "fresh", "full"} or Search, default "pooled"
        How candidates are found, as in :class:`SparseGPRegressor`.
    optimizer : {"evidence", None} or Evidence, default "evidence"
        How hyper-parameters are learned: by the evidence of the weighted least squares on 800
        rows, or as many as an :class:`Evidence` says. None keeps the kernel as it is.
    refine : int, "auto" or False, default "auto"
        Gradient steps that move the chosen points, kept if rows left out gain by them. ``"auto"``
        is 25 when the kernel is learned from more than 2 000 rows, else 0.
    certificate : {"auto", "exact", None}, default "auto"
        ``"exact"`` bounds the distance to the minimum over all functions of the kernel, by passes
        over all pairs of rows. ``"auto"`` does so up to 10 000 rows; :meth:`certify` does it later.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    max_time : float or None, default None
        Seconds that the fit is to take, about; Newton's steps are not cut short. The result then
        depends on the speed of the machine.
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
    basis_ : items
        Basis points in the order of choice; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers, -1 where a point is not a row.
    n_basis_ : int
        Number of basis functions.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_levels)
        β.
    intercept_ : array of shape (1,) or (n_levels,)
        b.
    kernel_ : kernel
        k.
    alpha_ : float or array of shape (n_levels,)
        α.
    dispersion_ : float or array of shape (n_levels,)
        Pearson's mean of ℓ'²/ℓ'' over the rows: about 1 for Poisson counts, more where they vary
        more.
    width_ : float or None
        Width of Huber's loss, 1.345 robust standard deviations of the residuals.
    shape_ : float or None
        Shape k of the negative binomial loss, for which the variance is μ + μ²/k.
    n_iter_ : int
        Steps of the last solution.
    learning_report_ : LearningReport
        Families and their evidence, times, importance and relevance of the features, warnings;
        print it.
    feature_relevance_ : array of shape (n_features,) or None
        Standard deviation of each feature over its length scale.
    path_ : Path
        What each step of the choice brought and cost, and why it ended; ``value`` is the objective
        of the weighted least squares, and the last ``gap`` that of the certificate.
    certificate_ : Certificate or None
        Upper and lower value of the minimum of P over all functions of the kernel and all
        intercepts; ``upper_per_output`` and ``lower_per_output`` have those of every level, before
        predictions are sorted. None if not computed.
    coverage_guarantee_ : CoverageGuarantee or None
        What :meth:`predict_interval` guarantees; None before :meth:`conformalize`.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    References
    ----------
    P. McCullagh and J. A. Nelder. Generalized Linear Models. Chapman and Hall, 1989.

    R. Koenker and G. Bassett. Regression quantiles. Econometrica 46, 1978.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import SparseKernelGLM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(400, 1))
    >>> y = rng.poisson(np.exp(1 + np.sin(2 * X[:, 0])))
    >>> model = SparseKernelGLM(loss="poisson", n_basis=30, random_state=0).fit(X, y)
    >>> bool(model.predict(X).min() > 0)
    True
    >>> model.certificate_.relative_gap < 0.01
    True
    """

    noise: ClassVar[str] = "learn"
    """Of the least squares that choose, never given."""

    basis_indices_: Indices
    n_basis_: int
    intercept_: Floats
    alpha_: float | Floats
    dispersion_: float | Floats
    width_: float | None
    shape_: float | None
    n_iter_: int
    path_: Path
    certificate_: Certificate | None
    learning_report_: LearningReport
    feature_relevance_: Floats | None
    _has_offset: bool
    _narrowest: float
    """Half the width of the narrowest interval between quantiles that errors are measured by."""

    _frozen = ("loss", "quantile", "power")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [None, str, callable, SklearnKernel],
        "loss": [str, RowLoss],
        "quantile": [numbers.Real, "array-like"],
        "power": [numbers.Real],
        "n_basis": [Interval(numbers.Integral, 1, None, closed="left")],
        "alpha": [numbers.Real, StrOptions({"learn"})],
        "search": SEARCH,
        "optimizer": OPTIMIZER,
        "refine": REFINE,
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
        loss: str | RowLoss = "poisson",
        quantile: float | Sequence[float] = 0.5,
        power: float = 1.5,
        n_basis: int = 256,
        alpha: float | str = "learn",
        search: str | Search = "pooled",
        optimizer: str | Evidence | None = "evidence",
        refine: int | str | bool = "auto",
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
        self.loss = loss
        self.quantile = quantile
        self.power = power
        self.n_basis = n_basis
        self.alpha = alpha
        self.search = search
        self.optimizer = optimizer
        self.refine = refine
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
        offset: ArrayLike | None = None,
        target: str | None = None,
        weight: str | None = None,
    ) -> Self:
        """Choose a basis and fit the best function in its span.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,)
            Targets, of which the loss says what they may be.
        sample_weight : array of shape (n_rows,), optional
            Weights of the losses. A row of weight 0 is absent.
        offset : array of shape (n_rows,), optional
            A known part of f + b: for counts the logarithm of the exposure.
        target : str, optional
            The column of X that holds the targets, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : SparseKernelGLM
        """
        if self.alpha != "learn":
            positive("alpha", self.alpha)
        given = GivenLoss.of(self.loss, self.quantile, self.power)
        search = estimator_search(self, GAUSSIAN_SEARCH)
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        source, X = training_rows(self, X)
        rows, present = self._rows(X, source, y, sample_weight, offset, given)
        if self.optimizer is not None:
            warn_of_light_rows(self, rows.sample, X, "give the kernel and set optimizer=None")
        plan = SearchPlan(
            n_basis=int(self.n_basis),
            search=with_checked_points(self, search),
            max_time=self.max_time,
        )
        with FitRun(self, rows.sample, present, n_stages=14) as run:
            run.same_matrix(X)
            run.same_data("offset", rows.offset[:, None])
            fitted = fit_glm(self, X, rows, given, plan, run)
            self._store(fitted, present)
            notes = list(fitted.learned.report.warnings)
            if self._certifies(len(present)) and not run.stopping:
                if time_to_certify(self.certificate, run.clock):
                    found = certified(fitted, run)
                    self.certificate_ = kept(found)
                    self.path_.end(found.relative_gap, fitted.chooser.meter)
                else:
                    notes.append(NO_TIME_TO_CERTIFY)
            beta = self._coefficient_columns
            report = with_importance(fitted.learned, self, fitted.chooser, self._points, beta, run)
        self.learning_report_ = replace(
            report, moved=fitted.moved, warnings=notes, seconds=run.seconds
        )
        if not fitted.solution.converged:
            warn(
                f"the solver did not converge in {self.n_iter_} steps: alpha may be too small for "
                "the scale of the kernel. Give a larger one.",
                ConvergenceWarning,
            )
        if run.stopping:
            interrupt(f"{self.n_basis_} basis functions")
        return self

    @in_precision_of_rows
    def decision_function(self, X: Any) -> Floats:
        """f + b at the rows.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_levels)
            One column per level, not sorted.
        """
        return self._as_fitted(self._values(X))

    @in_precision_of_rows
    def predict(self, X: Any, *, offset: ArrayLike | None = None) -> Floats:
        """What the loss elicits: the mean, the median, quantiles or an expectile.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.
        offset : array of shape (n_rows,), optional
            Added to f + b, as in :meth:`fit`; 0 by default.

        Returns
        -------
        y : array of shape (n_rows,) or (n_rows, n_levels)
            Several quantiles are sorted in each row, so that they do not cross.
        """
        values = self._values(X)
        if offset is not None:
            values = values + _offset(offset, len(values))[:, None]
        losses = self._given().rows()
        columns = [_predicted(loss, f) for loss, f in zip(losses, values.T, strict=True)]
        return self._as_fitted(np.sort(np.column_stack(columns), axis=1))

    @in_range
    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, offset: ArrayLike | None = None
    ) -> float:
        """Part of the deviance that the model explains, D²: 1 at best, 0 for the best constant.

        As `d2_tweedie_score`, `d2_pinball_score` and `d2_absolute_error_score` of scikit-learn; the
        mean over several levels.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`predict`.
        y : array of shape (n_rows,)
            True values.
        sample_weight : array of shape (n_rows,), optional
            Weights of the rows.
        offset : array of shape (n_rows,), optional
            As in :meth:`predict`.

        Returns
        -------
        score : float
        """
        table = as_table(X) if is_dask(X) else X
        values = self._values(table)
        check_lengths(values, computed(y))
        weights = validate_weights(computed(sample_weight), len(values))
        shift = _offset(offset, len(values))
        scores = []
        for loss, f in zip(self._given().rows(), values.T, strict=True):
            targets = loss.checked(column_or_1d(computed(y)))
            left = float(weights @ loss.deviance(f + shift, targets))
            try:
                constant = loss.constant(targets, weights, shift)
            except ValueError:  # all counts are 0: the best constant explains them all
                whole = 0.0
            else:
                whole = float(weights @ loss.deviance(constant + shift, targets))
            scores.append(1.0 - left / whole if whole > 0 else float(left == 0))
        return float(np.mean(scores))

    @in_range
    def certify(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        offset: ArrayLike | None = None,
    ) -> Certificate:
        """Bound the distance of P from its minimum over all functions, for the problem of (X, y).

        Takes products with the kernel matrix of the rows, O(n_rows²) kernel values in O(n_rows)
        memory, always in float64. A loss with kinks is solved again in the span first.

        Parameters
        ----------
        X, y, sample_weight, offset
            The training data, as in :meth:`fit`; other rows are allowed.

        Returns
        -------
        certificate : Certificate
            Of the sum over the levels; ``upper_per_output`` and ``lower_per_output`` are of each.
        """
        check_is_fitted(self)
        X, y, sample_weight = named_columns(X, y, sample_weight)
        source, X = rows_again(self, X)
        given = self._given()
        rows, _ = self._rows(X, source, y, sample_weight, offset, given)
        problem = rows.problem(given, np.atleast_1d(self.alpha_))
        kernel = self._compiled(X)
        with Workers(self.n_jobs) as workers:
            function = StoredFunction.of(
                self._points,
                self._coefficient_columns,
                self.intercept_,
                rows.sample.rows,
                kernel,
                workers,
            )
            if any(loss.kinked for loss in problem.losses):
                rng = seeded(self.random_state)
                chooser = Problem(rows.sample, kernel, 1.0, workers, CostMeter(kernel), rng)
                span = Span.of(Pool(self._points, self.basis_indices_), chooser)
                features = SpanFeatures(rows.sample.rows, kernel, span, workers)
                a = problem.solve(features, workers).dual
            else:
                a = problem.dual_point(function.fitted.value)
            found, _ = glm_certificate(problem, function, a)
        return found

    def _expansion(self) -> Expansion:
        """The function f + b, of which predictions are made."""
        return Expansion.of(self, self.basis_, self.dual_coef_, self.intercept_, name="decision")

    def _rows(
        self, X: Any, source: RowSource, y: Any, sample_weight: Any, offset: Any, given: GivenLoss
    ) -> tuple[Rows, Indices]:
        """Rows that have weight, their targets checked, and their numbers among all."""
        if y is None:
            raise ValueError(
                "requires y to be passed, but the target y is None: pass the targets as fit(X, y), "
                "or name their column by target=."
            )
        targets = column_or_1d(y, warn=True)
        check_lengths(X, targets)
        weights = validate_weights(sample_weight, n_rows(X))
        present = np.flatnonzero(weights > 0)
        checked = given.rows()[0].checked(targets[present])
        check_scale("y", checked, LARGEST, SMALLEST)
        everything = len(present) == len(weights)
        shift = _offset(offset, len(weights))[present]
        there = Sample(source, np.empty((len(weights), 0)), weights)
        there = there if everything else there.take(present)
        return Rows(Sample(there.rows, checked[:, None], there.weights), shift), present

    def _given(self) -> GivenLoss:
        """The loss of the last fit."""
        given = GivenLoss.of(*(self._of_fit(name) for name in self._frozen))
        return replace(given, width=self.width_, shape=self.shape_)

    def _certifies(self, n_rows: int) -> bool:
        return self.certificate == "exact" or (
            self.certificate == "auto" and n_rows <= _AUTO_CERTIFICATE_ROWS
        )

    def _store(self, fit: GLMFit, present: Indices) -> None:
        """Keep the model; row numbers are those of the rows passed to fit."""

        def single(values: Floats) -> Any:
            return float(values[0]) if one else values

        given, solution, problem = fit.given, fit.solution, fit.problem
        one = problem.n_outputs == 1 and np.ndim(self.quantile) == 0
        self.kernel_ = fit.learned.kernel
        self.feature_relevance_ = fit.learned.report.relevance
        self.basis_ = None if reads_matrix(self) else fit.span.pool.items
        self.basis_indices_ = as_passed(fit.span.pool.index, present)
        self.n_basis_ = len(fit.span)
        coefficients = fit.span.coefficients(solution.coordinates)
        self.dual_coef_ = coefficients[:, 0] if one else coefficients
        self.intercept_ = solution.intercepts
        self.alpha_ = single(fit.alpha)
        self.width_, self.shape_ = given.width, given.shape
        total = solution.fitted + problem.offset[:, None]
        self.dispersion_ = single(
            dispersions(problem.losses, total, problem.targets, problem.weights)
        )
        width = float(np.median(np.ptp(total, axis=1)))
        self._narrowest = _NARROWEST * width if width > 0.0 else 1.0
        self._has_offset = bool(problem.offset.any())
        self.n_iter_ = solution.steps
        self.path_ = replace(fit.path, index=as_passed(fit.path.index, present))
        self.certificate_ = self.coverage_guarantee_ = None
        self._keep_bound_basis(fit.chooser.kernel)

    def _centre_and_spread(self, X: Any) -> tuple[Floats, Floats]:
        """Prediction and spread of the loss; the middle and half width of several quantiles."""
        if self._has_offset:
            raise ValueError(
                "intervals are not known of a model that was fitted with an offset: they would "
                "depend on the offsets of new rows. Fit rates with sample_weight=exposure instead."
            )
        losses = self._given().rows()
        if len(losses) == 1:
            values = self._values(X)[:, 0]
            return _predicted(losses[0], values), losses[0].spread(values)
        quantiles = in_double(self.predict)(X)
        half = 0.5 * (quantiles[:, -1] - quantiles[:, 0])
        return quantiles[:, 0] + half, np.maximum(half, self._narrowest)

    @property
    def _target_range(self) -> tuple[float, float]:
        return self._given().rows()[0].target_range

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss in POSITIVE
        return tags


def _predicted(loss: RowLoss, f: Floats) -> Floats:
    """What the loss predicts at f; rows at which that overflows are refused."""
    predicted = loss.predicted(f)
    beyond = np.flatnonzero(~np.isfinite(predicted))
    if len(beyond):
        row = int(beyond[0])
        raise ValueError(
            f"row {row} of X is too far from the rows of the fit: f + b is {f[row]:.3g} there, and "
            "its mean is beyond float64. Centre the features, take a kernel that does not grow "
            "with them, or leave such rows out."
        )
    return predicted


def _offset(offset: Any, n_rows: int) -> Floats:
    """Offsets as a float array; zeros when None."""
    if offset is None:
        return np.zeros(n_rows)
    given = np.asarray(computed(offset))
    number = given.dtype.kind in "iufO" and given.shape == (n_rows,)
    values = given.astype(np.float64) if number else np.empty(0)
    if not number or not np.isfinite(values).all():
        raise ValueError(
            f"offset must hold a finite number for each of the {n_rows} rows, got an array of "
            f"{given.dtype} of shape {given.shape}: for counts it is the logarithm of the "
            "exposure, which is positive."
        )
    return values
