"""Kernel matching pursuit whose size a generalisation bound may choose."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
)
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import Bound
from pursuit.estimators.arguments import CHECKPOINT, EXECUTION, KERNEL, MAX_TIME, Search
from pursuit.estimators.classes import distinct_classes, largest_class
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, interrupt, with_callbacks
from pursuit.estimators.gradients import GradientModel
from pursuit.estimators.inputs import (
    TargetScale,
    as_passed,
    check_lengths,
    in_double,
    is_precomputed,
    named_columns,
    prediction_rows,
    reads_matrix,
    size_on_path,
    training_rows,
    validate_labels,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.kernel_model import (
    BasisModel,
    LoggedProbabilities,
    ScoredRows,
    in_precision_of_rows,
    lazily,
)
from pursuit.estimators.matching.fit import Judge, MarginJudge, MissJudge, fit_matching
from pursuit.estimators.matching.search import MatchingModels, MatchingPlan, atoms_of
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.span.search import estimator_search, with_checked_points
from pursuit.estimators.warning import warn
from pursuit.gram import kernel_times
from pursuit.greedy import Path
from pursuit.kernels import AtomKernel
from pursuit.linalg import Workers
from pursuit.objectives import LogisticRows, RowLoss
from pursuit.rows import Sample
from pursuit.tuning import Shrinkage, are_few

_THEOREM = "Hussain & Shawe-Taylor 2008, Theorem 3"
_AUTO_MISS = 0.25
"""Times the standard deviation of y: the ``error_tol="auto"`` of regression."""
_AUTO_SHORTFALL = 0.5
"""The ``error_tol="auto"`` of classification."""
_VALIDATION_FRACTION = 0.2
"""Part of the rows that ``n_basis="validation"`` sets aside by default."""

_SEARCHES = {"pooled": ("pool_size", "rows", "candidates"), "full": ()}
"""Fields of `Search` that apply to matching pursuit."""


class MatchingPursuitModel(CallbackSupportMixin, BasisModel, ReportedModel, BaseEstimator):
    """Fit f = Σ_j β_j k(·, c_j) + c by matching pursuit, at a size that a bound may choose."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable, SklearnKernel, list, tuple],
        "n_basis": [
            StrOptions({"bound", "validation"}),
            Interval(numbers.Integral, 1, None, closed="left"),
        ],
        "fitting": [StrOptions({"prefit", "backfit", "basic"})],
        "refit_every": [Interval(numbers.Integral, 1, None, closed="left")],
        "error_tol": [
            StrOptions({"auto"}),
            Interval(numbers.Real, 0, None, closed="neither"),
        ],
        "delta": [Interval(numbers.Real, 0, 1, closed="neither")],
        "fit_intercept": ["boolean"],
        "search": [StrOptions(set(_SEARCHES)), Search],
        "validation_fraction": [None, Interval(numbers.Real, 0, 1, closed="neither")],
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
        **KERNEL,
        **EXECUTION,
    }

    path_: Path
    basis_: Any
    basis_indices_: Indices
    basis_kernels_: Indices
    n_basis_: int
    dual_coef_: Floats
    intercept_: Any
    generalization_bound_: Bound
    printed_bound_: Bound
    calibration_: Shrinkage | None
    _single_output: bool

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        n_basis: int | str = "bound",
        fitting: str = "prefit",
        refit_every: int = 1,
        fit_intercept: bool = True,
        error_tol: float | str = "auto",
        delta: float = 0.05,
        search: str | Search = "pooled",
        validation_fraction: float | None = None,
        max_time: float | None = None,
        checkpoint: Any = None,
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_basis = n_basis
        self.fitting = fitting
        self.refit_every = refit_every
        self.fit_intercept = fit_intercept
        self.error_tol = error_tol
        self.delta = delta
        self.search = search
        self.validation_fraction = validation_fraction
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def truncated(self, n: int) -> Self:
        """The model of the first n basis functions, without a pass over the data.

        Parameters
        ----------
        n : int
            From 1 to ``n_basis_``.

        Returns
        -------
        model : same class
            A new, fitted model.
        """
        check_is_fitted(self)
        n = size_on_path(n, self.n_basis_)
        model = copy.copy(self)
        model._store(self._models.truncated(n))
        for name in ("generalization_bound_", "printed_bound_"):
            bound = getattr(self, name)
            setattr(model, name, replace(bound, size=bound.size[:n], value=bound.value[:n]))
        return model

    def _fit_model(
        self,
        X: Any,
        sample: Sample,
        judge: Judge,
        loss: RowLoss | None,
        level: Floats,
        statements: tuple[str, list[str]],
    ) -> None:
        """Choose functions, fit them to the sample, and bound the errors of the model.

        ``level`` was subtracted from the targets. ``statements`` are what the bound is about, and
        what it takes for granted.
        """
        plan = self._plan(loss)
        present = np.flatnonzero(sample.weights > 0)
        if len(present) < sample.n_rows:
            sample = sample.take(present)
        self._level, self._n_outputs = level, sample.n_outputs
        several = isinstance(self.kernel, list | tuple)
        given = self._given_kernel()
        self._set_kernels(given if several else [given], several)
        kernels = self._compiled_kernels(X)
        if loss is not None:
            n_features = 1 if reads_matrix(self) else getattr(self, "n_features_in_", 1)
            plan = replace(plan, calibrated=are_few(sample.n_rows, n_features))
        with FitRun(self, sample, present, n_stages=4) as run:
            run.same_matrix(X)
            fitted = fit_matching(plan, run.problem(kernels[0], noise=0.0), kernels, judge, run)
        numbers = as_passed(fitted.models.centers.index, present)
        self._store(fitted.models.renumbered(numbers))
        if len(kernels) == 1:
            self._keep_bound_basis(kernels[0])
        else:
            self._freeze_parameters()
        quantity, caveats = statements
        if plan.search.own_points:
            caveats = [*caveats, "if the candidates were fixed before the data were seen"]
        if np.any(sample.weights != 1.0):
            caveats = [*caveats, "a row of weight w counts as w rows"]
        self.generalization_bound_, self.printed_bound_ = (
            Bound(
                name,
                quantity,
                np.arange(1, len(values) + 1),
                values,
                trivial=1.0,
                confidence=1.0 - float(self.delta),
                caveat="; ".join(caveats),
            )
            for name, values in (
                (_THEOREM, fitted.exact),
                (f"{_THEOREM}, as printed", fitted.printed),
            )
        )
        if isinstance(judge, MarginJudge):
            self.calibration_ = fitted.calibration
        if self.n_basis == "bound" and not np.isfinite(fitted.printed).any():
            warn(
                f"with error_tol={self.error_tol!r} every row outside the basis is an error at "
                f"each of the {len(fitted.errors)} sizes tried, so the bound is vacuous and cannot "
                "choose: the model has 1 basis function. Raise error_tol, or let "
                "n_basis='validation' choose."
            )
        if run.stopping:
            interrupt(f"the best {self.n_basis_} basis functions found so far")

    def _plan(self, loss: RowLoss | None) -> MatchingPlan:
        """How functions are searched for; arguments that do not apply are refused."""
        search = with_checked_points(self, estimator_search(self, _SEARCHES))
        if isinstance(search.candidates, str) and search.candidates == "kmeans":
            raise ValueError(
                "candidates='kmeans' would make the dictionary depend on all rows, which the bound "
                "does not allow for: use candidates='rows', or points of your own."
            )
        if self.fitting == "basic" and search.rows is not None:
            raise ValueError(
                "fitting='basic' never refits a coefficient, so all rows choose: leave rows out of "
                "the search."
            )
        if self.refit_every > 1 and loss is None and self.fitting != "backfit":
            raise ValueError(
                f"refit_every={self.refit_every} has no effect on fitting={self.fitting!r}: use "
                "fitting='backfit', or leave it out."
            )
        if self.validation_fraction is not None and self.n_basis != "validation":
            raise ValueError(
                f"validation_fraction={self.validation_fraction} has no effect on "
                f"n_basis={self.n_basis!r}: use n_basis='validation', or leave it out."
            )
        return MatchingPlan(
            n_basis=self.n_basis,
            fitting=self.fitting,
            refit_every=self.refit_every,
            intercept=self.fit_intercept,
            loss=loss,
            search=search,
            validation_fraction=float(self.validation_fraction or _VALIDATION_FRACTION),
            delta=float(self.delta),
        )

    def _set_kernels(self, kernels: list[Any], several: bool) -> None:
        if not kernels:
            raise ValueError("kernel is an empty list: give at least one kernel.")
        if several and any(is_precomputed(kernel) for kernel in kernels):
            raise ValueError("kernel='precomputed' stands alone: it cannot be one of a list.")
        self._kernels = kernels
        self.kernel_ = kernels if several else kernels[0]

    def _kernels_used(self) -> list[Any]:
        return self._kernels

    def _store(self, models: MatchingModels) -> None:
        """Keep the largest model, and with it all smaller ones."""
        self._models = models
        self.n_basis_ = len(models)
        self.basis_ = None if reads_matrix(self) else models.centers.items
        self.basis_indices_ = models.centers.index
        self.basis_kernels_ = models.kernel_of
        coefficients, intercept = models.coefficients[:, -1], models.intercepts[-1] + self._level
        self.dual_coef_ = coefficients[:, 0] if self._single_output else coefficients
        self.intercept_ = float(intercept[0]) if self._single_output else intercept
        self.path_ = models.path

    def _values(self, X: Any) -> Floats:
        """f at the rows, one column per output."""
        check_is_fitted(self)
        coefficients = self.dual_coef_.reshape(self.n_basis_, self._n_outputs)
        if len(self._kernels) == 1:
            values = self._expanded(X, coefficients)
        else:
            rows, X = prediction_rows(self, X)
            dictionary = AtomKernel(tuple(self._compiled_kernels(X)), self._points)
            atoms = atoms_of(self.basis_kernels_)
            with Workers(self.n_jobs) as workers:
                values = kernel_times(rows, dictionary, atoms, coefficients, workers)
        values += self.intercept_
        return values


class KernelMatchingPursuitRegressor(
    MultiOutputMixin, ScoredRows, GradientModel, RegressorMixin, MatchingPursuitModel
):
    """Regression on a few kernel functions, as many as a generalisation bound advises.

    Fits f = Σ_j β_j k(·, c_j) + c by least squares, adding one function at a time. There is no
    penalty: sparsity is the only thing that keeps f from following the noise, so the number of
    functions matters. By default it is where the bound on the probability of missing a new target
    by more than ``error_tol`` is smallest (Theorem 3 of Hussain and Shawe-Taylor 2008, as printed).

    Parameters
    ----------
    kernel : str, kernel object, callable, or a list of them, default "rbf"
        A name of `pairwise_kernels`, a `sklearn.gaussian_process.kernels` object,
        ``"precomputed"``, or a function k(A, B) of two blocks of items; it need not be positive
        definite. With a list, every kernel is offered at every centre. White terms are ignored.
    n_basis : int, "bound" or "validation", default "bound"
        Number of functions. ``"bound"``: where the bound has its minimum. ``"validation"``: where
        the error on rows set aside has its minimum; then all rows are fitted. Both try sizes up to
        half of the rows, at most 1024. They stop when as many further functions as the best size
        has, and at least 10, have not improved on it. Below 1 000 rows, or where a small error is
        worth more than a small model, ``"validation"`` is the better choice.
    fitting : {"prefit", "backfit", "basic"}, default "prefit"
        ``"prefit"``: choose the function with which the refitted model is best. ``"backfit"``:
        choose the one most aligned with the residual, then fit all coefficients again.
        ``"basic"``: the same choice, but only the new coefficient is fitted; a function may be
        chosen again.
    refit_every : int, default 1
        For ``"backfit"``: number of steps between refits.
    fit_intercept : bool, default True
        Whether a constant is part of the model; it does not count as a function.
    error_tol : float or "auto", default "auto"
        The α of the bound, in units of y: a prediction that misses its target by more than this is
        an error. ``"auto"`` is a quarter of the standard deviation of y, for each output.
    delta : float, default 0.05
        The bound holds with probability 1 - ``delta``.
    search : {"pooled", "full"} or Search, default "pooled"
        ``"pooled"``: up to 5 000 rows, all rows are candidates for centres and all rows choose; of
        more rows, a random 4 096 are candidates and two rows per candidate choose. The chosen
        functions are fitted to all rows. ``"full"``: all rows are candidates and choose.
        ``Search("pooled", ...)`` takes ``pool_size``, ``rows`` (not with ``fitting="basic"``, for
        which all rows choose) and ``candidates``: points of your own, in place of training rows.
    validation_fraction : float or None, default None
        Part of the rows that ``n_basis="validation"`` sets aside; None is 0.2. It is refused with
        other values of ``n_basis``.
    max_time : float or None, default None
        Seconds after which the fit should end. The validation ends after 0.4 and the choice after
        0.8 of them; then all rows are fitted, however long that takes.
    checkpoint : path-like or None, default None
        A folder in which each finished stage is recorded. A fit that was killed goes on from there
        when it is started again with the same data and parameters.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    n_jobs : int or None, default None
        Number of threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    basis_ : items
        Centres in the order of choice; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers, -1 where a centre is not a row.
    basis_kernels_ : array of int
        Number of each function's kernel in the list.
    n_basis_ : int
        Number of functions.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_outputs)
        β.
    intercept_ : float or array of shape (n_outputs,)
        c.
    kernel_ : kernel, or list of kernels
        The kernel in use.
    error_tol_ : float or array of shape (n_outputs,)
        α in use.
    generalization_bound_ : Bound
        Bound on the probability of an error for the sizes tried, with the exact counts of the
        paper's proof; print it. Where it chooses well it is often above 1, and then it is vacuous
        as a statement.
    printed_bound_ : Bound
        The bound in the form of the paper, whose minimum ``n_basis="bound"`` takes.
    path_ : Path
        What each step brought and cost; ``value`` is ½Σw(y - f)² on all rows.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    References
    ----------
    Z. Hussain and J. Shawe-Taylor. Theory of matching pursuit. NIPS 21, 2008.

    P. Vincent and Y. Bengio. Kernel matching pursuit. Machine Learning 48, 2002.

    Examples
    --------
    >>> from pursuit import KernelMatchingPursuitRegressor
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(1000, noise=1.0, random_state=0)
    >>> model = KernelMatchingPursuitRegressor(gamma=0.5).fit(X, y)
    >>> model.path_.stop_reason
    'bound'
    >>> bool(model.generalization_bound_.vacuous.all())
    True
    """

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
        """Choose functions and fit them.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            Targets; a single column is one output, and predictions are a vector.
        sample_weight : array of shape (n_rows,), optional
            Weights of the squared errors; a row of weight w stands for w equal rows, also in the
            bound. For the bound, weights that add up to less than the number of rows are scaled up
            to it.
        target : str or list of str, optional
            The column, or columns, of X that hold the targets, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : KernelMatchingPursuitRegressor
        """
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        rows, X = training_rows(self, X)
        targets = validate_targets(y)
        check_lengths(X, targets)
        weights = validate_weights(sample_weight, rows.n_rows)
        Y = targets.reshape(len(targets), -1)
        self._single_output = targets.size == len(targets)
        scale = TargetScale.fit(Y, weights, normalize=True)
        caveats = []
        if self.error_tol == "auto":
            alpha = _AUTO_MISS * scale.scale
            caveats.append("if an error_tol of sd(y)/4 had been fixed before y was seen")
        else:
            alpha = np.full(Y.shape[1], float(self.error_tol))
        self.error_tol_ = float(alpha[0]) if self._single_output else alpha
        level = scale.mean if self.fit_intercept else np.zeros(Y.shape[1])
        miss = f"{alpha[0]:.3g}" if self._single_output else "error_tol_ in any output"
        quantity = f"the probability of missing a new target by more than {miss}"
        sample = Sample(rows, Y - level, weights)
        self._fit_model(X, sample, MissJudge(alpha), None, level, (quantity, caveats))
        return self

    @in_precision_of_rows
    def predict(self, X: Any) -> Floats:
        """Value of the model.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        y : array of shape (n_rows,) or (n_rows, n_outputs)
        """
        values = self._values(X)
        return values[:, 0] if self._single_output else values


def _is_logistic(model: Any) -> bool:
    if model._of_fit("loss") != "logistic":
        raise AttributeError("predict_proba needs loss='logistic'.")
    return True


class KernelMatchingPursuitClassifier(
    ScoredRows, LoggedProbabilities, ClassifierMixin, MatchingPursuitModel
):
    """Classification on a few kernel functions, as many as a generalisation bound advises.

    Two classes are one column of targets ±1. More classes are one column per class, that class
    against the rest, all on the same basis. See `KernelMatchingPursuitRegressor` for the method.

    Parameters
    ----------
    kernel : str, kernel object, callable, or a list of them, default "rbf"
        As in `KernelMatchingPursuitRegressor`.
    loss : {"squared", "logistic"}, default "squared"
        ``"logistic"`` chooses functions by the gradient of the loss, for ``fitting="prefit"`` and
        ``"backfit"`` alike, and fits all coefficients by Newton's method after every
        ``refit_every`` steps and at the end. It has :meth:`predict_proba`. Where not all rows
        choose, or ``refit_every`` is above 1, the models that :meth:`truncated` returns have the
        coefficients they had in the search.
    error_tol : float or "auto", default "auto"
        A row is an error when its margin is at most 1 - ``error_tol``. The margin is yf for two
        classes, and half the lead over the best other class for more. 1 counts rows that are
        classified wrongly. ``"auto"`` is 1/2, which also counts rows that are classified right by
        a small margin, and leads to larger models.
    n_basis, fitting, refit_every, fit_intercept, delta, search, validation_fraction, max_time, \
            checkpoint, gamma, coef0, degree, kernel_params, n_jobs, random_state, verbose
        As in `KernelMatchingPursuitRegressor`. With ``loss="logistic"`` the values of all
        candidates at the rows that choose are kept in memory during the fit.

    Attributes
    ----------
    classes_ : array
        Labels.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_classes)
        β; one-dimensional for two classes.
    intercept_ : float or array of shape (n_classes,)
        c.
    error_tol_ : float
        The value in use.
    calibration_ : Shrinkage or None
        How log-odds become probabilities for ``loss="logistic"``, if rows are few (below 200, or
        below ten per feature): they are shrunk as far as rows left out in five parts ask for; print
        it. Models that :meth:`truncated` returns keep it. None: log-odds are taken as they are.
    basis_, basis_indices_, basis_kernels_, n_basis_, kernel_, generalization_bound_, \
            printed_bound_, path_, n_features_in_
        As in `KernelMatchingPursuitRegressor`; the bound is on the probability of an error as
        ``error_tol`` defines it, and ``path_.value`` is the loss that is minimised.

    References
    ----------
    Z. Hussain and J. Shawe-Taylor. Theory of matching pursuit. NIPS 21, 2008.

    P. Vincent and Y. Bengio. Kernel matching pursuit. Machine Learning 48, 2002.

    Examples
    --------
    >>> from pursuit import KernelMatchingPursuitClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> model = KernelMatchingPursuitClassifier(gamma=1.0, loss="logistic").fit(X, y)
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    >>> model.score(X, y) > 0.95
    True
    """

    _frozen = ("loss",)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MatchingPursuitModel._parameter_constraints,
        "loss": [StrOptions({"squared", "logistic"})],
    }

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        loss: str = "squared",
        n_basis: int | str = "bound",
        fitting: str = "prefit",
        refit_every: int = 1,
        fit_intercept: bool = True,
        error_tol: float | str = "auto",
        delta: float = 0.05,
        search: str | Search = "pooled",
        validation_fraction: float | None = None,
        max_time: float | None = None,
        checkpoint: Any = None,
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            kernel,
            n_basis=n_basis,
            fitting=fitting,
            refit_every=refit_every,
            fit_intercept=fit_intercept,
            error_tol=error_tol,
            delta=delta,
            search=search,
            validation_fraction=validation_fraction,
            max_time=max_time,
            checkpoint=checkpoint,
            gamma=gamma,
            coef0=coef0,
            degree=degree,
            kernel_params=kernel_params,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.loss = loss

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
        """Choose functions and fit them.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,)
            Labels of at least two classes.
        sample_weight : array of shape (n_rows,), optional
            Weights of the losses; a row of weight w stands for w equal rows, also in the bound.
        target : str, optional
            The column of X that holds the labels, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : KernelMatchingPursuitClassifier
        """
        if self.loss == "logistic" and self.fitting == "basic":
            raise ValueError(
                "fitting='basic' needs loss='squared': logistic models are always refitted. "
                "Raise refit_every to refit less often."
            )
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        rows, X = training_rows(self, X)
        labels = validate_labels(y)
        check_lengths(X, labels)
        weights = validate_weights(sample_weight, rows.n_rows)
        self.classes_ = distinct_classes(labels[weights > 0])
        several = len(self.classes_) > 2
        columns = self.classes_ if several else self.classes_[1:]
        Y = np.where(labels[:, None] == columns, 1.0, -1.0)
        self._single_output = not several
        self.error_tol_ = _AUTO_SHORTFALL if self.error_tol == "auto" else float(self.error_tol)
        quantity = "the probability of classifying a new row wrongly"
        if self.error_tol_ != 1.0:
            quantity = f"the probability of a margin of at most {1.0 - self.error_tol_:.3g}"
        if self.error_tol_ < 1.0:
            quantity += ", and so of a wrong class,"
        loss = LogisticRows() if self.loss == "logistic" else None
        judge = MarginJudge(self.error_tol_, loss, Y.shape[1])
        level = np.zeros(Y.shape[1])
        self._fit_model(X, Sample(rows, Y, weights), judge, loss, level, (quantity, []))
        return self

    @in_precision_of_rows
    def decision_function(self, X: Any) -> Floats:
        """Values f of the columns, for two classes those of the second.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_classes)
            Log-odds for ``loss="logistic"``, as fitted.
        """
        values = self._values(X)
        return values[:, 0] if self._single_output else values

    @lazily
    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`decision_function`.

        Returns
        -------
        labels : array of shape (n_rows,)
        """
        chosen = largest_class(in_double(self.decision_function)(X))
        labels: NDArray[Any] = self.classes_[chosen]
        return labels

    @available_if(_is_logistic)
    @in_precision_of_rows
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, for ``loss="logistic"``.

        With more than two classes, the probabilities of each against the rest are divided by their
        sum. Those of models of few rows are shrunk, see ``calibration_``; if their values say
        little, the most probable class may be another than that of :meth:`predict`, which follows
        :meth:`decision_function`.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`decision_function`.

        Returns
        -------
        probabilities : array of shape (n_rows, n_classes)
        """
        check_is_fitted(self)
        values = in_double(self.decision_function)(X).reshape(-1, self._n_outputs)
        calibration = self.calibration_ or Shrinkage.none(self._n_outputs)
        return calibration.probabilities(values)
