"""Sparse greedy Gaussian process classification."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pursuit.estimators.classes import distinct_classes
from pursuit.estimators.constraints import EXECUTION, KERNEL, POOLED
from pursuit.estimators.gp.classfit import ClassFit, whitened
from pursuit.estimators.gp.laplace import LaplaceFit
from pursuit.estimators.gp.learning import settle
from pursuit.estimators.inputs import (
    check_lengths,
    indefinite,
    is_precomputed,
    positive,
    prediction_rows,
    seeded,
    training_rows,
    validate_items,
    validate_labels,
    validate_weights,
)
from pursuit.estimators.kernelmodel import BasisModel
from pursuit.estimators.lazily import ScoredRows, lazily
from pursuit.estimators.progress import CallbackSupportMixin, Progress, with_callbacks
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.sources import named_columns
from pursuit.estimators.span.searching import SMALL, SearchPlan
from pursuit.gram import kernel_times, over_span
from pursuit.greedy import Meter, Path, Problem, SpanFit, catch_interrupt
from pursuit.kernels import kernel_gradient, without_white
from pursuit.linalg import NotPositiveDefiniteError, Workers
from pursuit.rows import Sample
from pursuit.tuning import Confidence, LearningReport

Floats = NDArray[np.float64]

_AUTO_STEPS = 100
_CALLER = 4  # of fit, behind its two decorators


def _knows_itself(model: Any) -> bool:
    if is_precomputed(model.kernel):
        raise AttributeError(
            "predict_proba needs k(x, x), which a precomputed matrix of k(x, training rows) does "
            "not hold: fit with a callable kernel instead, or use decision_function."
        )
    return True


class SparseGPClassifier(
    CallbackSupportMixin, ScoredRows, ClassifierMixin, BasisModel, ReportedModel, BaseEstimator
):
    """Gaussian process classification in the span of a few greedily chosen kernel functions.

    Log-odds f = Σ_j β_j k(·, x_j) of a class have a Gaussian process with covariance s·k as prior;
    Laplace's approximation to their posterior is found by Newton's method in the span of at most
    ``n_basis`` kernel functions, which are chosen for regression on targets of ±1. For more than
    two classes each has latent functions of its own against the rest, all with one kernel and one
    basis. With every row in the basis this is scikit-learn's `GaussianProcessClassifier`.

    Parameters
    ----------
    kernel : kernel object, str, callable or None, default None
        A `sklearn.gaussian_process.kernels` object, a name of `pairwise_kernels`,
        ``"precomputed"``, or a function k(A, B) of two blocks of items. White terms play no part in
        the latent functions. None compares a constant times RBF, Matérn 5/2, 3/2 and 1/2 with a
        length scale for each feature, or one for all of them. The free hyper-parameters of kernel
        objects are learned within their bounds; named, callable and precomputed kernels are used
        as given.
    n_basis : int, default 512
        Most basis functions. Fewer is not a warning: see ``path_.stop_reason``.
    scale : float or "auto", default "auto"
        s, the factor of the kernel in the prior of the log-odds. ``"auto"``: the one with most
        evidence, by Laplace's approximation in the span of the basis on at most 2 000 rows; 1 for
        ``optimizer=None``.
    search : {"pooled", "fresh", "full"}, default "pooled"
        ``"pooled"``: choose from a pool by statistics on a sketch of the rows. ``"fresh"``: a new
        random subset of the rows at every step. ``"full"``: every row at every step.
    pool_size : int or "auto", default "auto"
        Candidates: ``2 * n_basis + 1000`` for pooled, 59 for fresh.
    selection_rows : int, "auto" or None, default "auto"
        Rows that choose in a pooled search: two a candidate, or all for None. The final fit sees
        all rows.
    rounds : int, default 1
        Times a pooled search chooses; each further round keeps the chosen points and refreshes
        the rest of the pool.
    candidates : {"rows", "kmeans"} or items, default "rows"
        Where the pool comes from: rows, cluster centres, or points of your own.
    optimizer : {"evidence", None}, default "evidence"
        How hyper-parameters are learned: by exact evidence of the regression on ±1, on 500, then
        2 000 rows; the scale by that of the classification. None keeps the kernel as it is
        (constant x RBF with length scales sd·√d for ``kernel=None``).
    n_restarts : int, default 0
        Further runs of the optimiser from random points within the bounds.
    refine : int, "auto" or False, default "auto"
        Gradient steps that move the chosen points, kept if rows left out gain by them. ``"auto"``
        is 100 when the kernel is learned and there are more than 2 000 rows, else 0.
    calibration : {"auto", "loo", None}, default "auto"
        ``"loo"`` sets by leave-one-out log loss how large the log-odds are and how much of their
        variance counts, on rows reserved from the choice (all rows up to 2 000). ``"auto"`` does
        so unless ``optimizer=None``. None: Laplace's approximation as it stands.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    n_jobs : int or None, default None
        Threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    classes_ : array
        Labels.
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
        Families and their evidence, times, relevance of the features, warnings; print it.
    feature_relevance_ : array of shape (n_features,) or None
        Standard deviation of each feature over its length scale.
    calibration_ : Confidence or None
        What leave-one-out changed.
    path_ : Path
        What each step of the choice brought and cost, and why it ended; ``value`` is the objective
        of the regression on ±1.
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
    """

    noise: ClassVar[str] = "learn"
    """Of the regression that chooses, never given."""

    classes_: NDArray[Any]
    kernel_: Any
    scale_: float
    basis_: Any
    basis_indices_: NDArray[np.intp]
    n_basis_: int
    dual_coef_: Floats
    path_: Path
    calibration_: Confidence | None
    learning_report_: LearningReport
    _laplace: LaplaceFit
    _whitener: Floats

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [None, str, callable, SklearnKernel],
        "n_basis": [Interval(numbers.Integral, 1, None, closed="left")],
        "scale": [numbers.Real, StrOptions({"auto"})],
        "search": [StrOptions({"pooled", "fresh", "full"})],
        "optimizer": [None, StrOptions({"evidence"})],
        "n_restarts": [Interval(numbers.Integral, 0, None, closed="left")],
        **POOLED,
        "calibration": [None, StrOptions({"auto", "loo"})],
        **KERNEL,
        **EXECUTION,
    }

    def __init__(
        self,
        kernel: Any = None,
        *,
        n_basis: int = 512,
        scale: float | str = "auto",
        search: str = "pooled",
        pool_size: int | str = "auto",
        selection_rows: int | str | None = "auto",
        rounds: int = 1,
        candidates: Any = "rows",
        optimizer: str | None = "evidence",
        n_restarts: int = 0,
        refine: int | str | bool = "auto",
        calibration: str | None = "auto",
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
        self.scale = scale
        self.search = search
        self.pool_size = pool_size
        self.selection_rows = selection_rows
        self.rounds = rounds
        self.candidates = candidates
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.refine = refine
        self.calibration = calibration
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
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
        self._check_candidates()
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        X, sample, present = self._take_in(X, y, sample_weight)
        rng = seeded(self.random_state)
        progress = Progress(self, n_stages=8)
        with catch_interrupt() as interrupted, Workers(self.n_jobs) as workers:
            try:
                progress.begin("learn")
                settled = settle(self, sample, X, rng, workers, classes=True)
                self.kernel_ = settled.kernel
                self.feature_relevance_ = settled.report.relevance
                kernel = settled.compiled
                problem = Problem(sample, kernel, settled.noise, workers, Meter(kernel), rng)
                stages = ClassFit(problem, interrupted, progress)
                calibrates = self._calibrates()
                fitted = stages.choose(
                    self._plan(),
                    self.kernel_,
                    settled.deviations,
                    self._moving_steps(sample.n_rows, settled.deviations, learned=settled.learned),
                    reserve=calibrates,
                )
            except NotPositiveDefiniteError as error:
                raise indefinite(int(present[error.index]), error.pivot) from error
            span = whitened(fitted)
            laplace = stages.solve(span, self._given_scale())
            self.calibration_ = None
            if calibrates and len(span):
                self.calibration_ = stages.calibrate(fitted, laplace)
        progress.finish()
        self._store(fitted, laplace, span.whitener, present)
        self.learning_report_ = replace(
            settled.report,
            moved=stages.moved,
            calibration=self.calibration_,
            seconds=progress.seconds,
        )
        if not laplace.converged:
            warnings.warn(
                "Newton's method did not find the mode of the latent functions: the kernel may be "
                "far too large. Give a smaller scale.",
                ConvergenceWarning,
                stacklevel=_CALLER,
            )
        if interrupted.requested:
            warnings.warn(
                f"fit was interrupted: the model holds the best {self.n_basis_} basis functions "
                "found so far.",
                stacklevel=_CALLER,
            )
            raise KeyboardInterrupt
        return self

    @lazily
    def decision_function(self, X: Any) -> Floats:
        """Mean of the log-odds f of each class, for two classes those of the second.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_classes)
        """
        check_is_fitted(self)
        rows, X = prediction_rows(self, X)
        coefficients = self.dual_coef_.reshape(self.n_basis_, self._columns)
        with Workers(self.n_jobs) as workers:
            values = kernel_times(rows, self._compiled(X), self._points, coefficients, workers)
        return values if self._columns > 1 else values[:, 0]

    @lazily
    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest mean log-odds.

        For more than two classes :meth:`predict_proba` also weighs how certain these are, and may
        prefer another class where two are close.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`decision_function`.

        Returns
        -------
        labels : array of shape (n_rows,)
        """
        values = self.decision_function(X)
        chosen = values.argmax(axis=1) if values.ndim == 2 else (values > 0).astype(np.intp)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels

    @available_if(_knows_itself)
    @lazily
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes: the logistic function of the log-odds, averaged over them.

        For more than two classes, those of each against the rest, brought to a sum of 1.

        Parameters
        ----------
        X : items of n_rows rows

        Returns
        -------
        probabilities : array of shape (n_rows, n_classes)
        """
        check_is_fitted(self)
        rows, X = prediction_rows(self, X)
        kernel = self._compiled(X)
        confidence = Confidence() if self.calibration_ is None else self.calibration_

        def measure(V: Floats, items: Any, where: slice) -> Floats:
            return confidence.probabilities(self._laplace.latents(V.T, kernel.diag(items)))

        with Workers(self.n_jobs) as workers:
            parts = over_span(rows, kernel, self._points, self._whitener, measure, workers)
        return np.concatenate(parts)

    def _take_in(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[Any, Sample, NDArray[np.intp]]:
        """Training data, checked: X, the rows that have weight, and their numbers among all."""
        rows, X = training_rows(self, X)
        labels = validate_labels(y)
        check_lengths(X, labels)
        weights = validate_weights(sample_weight, rows.n_rows)
        present = np.flatnonzero(weights > 0)
        self.classes_ = distinct_classes(labels[present])
        columns = self.classes_ if len(self.classes_) > 2 else self.classes_[1:]
        Y = np.where(labels[:, None] == columns, 1.0, -1.0)
        sample = Sample(rows, Y, weights)
        return X, sample.take(present) if len(present) < rows.n_rows else sample, present

    def _check_candidates(self) -> None:
        rows = isinstance(self.candidates, str) and self.candidates == "rows"
        if self.search != "pooled" and not rows:
            raise ValueError(
                f"search={self.search!r} chooses among the rows: candidates other than 'rows' need "
                "search='pooled'."
            )
        if is_precomputed(self.kernel) and not rows:
            raise ValueError("kernel='precomputed' knows only its rows: use candidates='rows'.")

    def _calibrates(self) -> bool:
        if is_precomputed(self.kernel):
            return False
        return self.calibration == "loo" or (
            self.calibration == "auto" and self.optimizer is not None
        )

    def _given_scale(self) -> float | None:
        if self.scale != "auto":
            return float(self.scale)
        return 1.0 if self.optimizer is None else None

    def _plan(self) -> SearchPlan:
        candidates = self.candidates
        if not isinstance(candidates, str):
            candidates = validate_items(self, candidates, reset=False, name="candidates")
        return SearchPlan(
            n_basis=int(self.n_basis),
            search=self.search,
            pool_size=self.pool_size,
            selection_rows=self.selection_rows,
            rounds=self.rounds,
            candidates=candidates,
            evidence=False,
            tol=None,
            certificate=None,
            max_time=None,
            dtype=np.float64,
        )

    def _moving_steps(self, n_rows: int, deviations: Floats | None, *, learned: bool) -> int:
        """Gradient steps that move the basis."""
        if self.refine == "auto":
            return _AUTO_STEPS if learned and n_rows > SMALL else 0
        steps = int(self.refine)
        if steps == 0 or n_rows <= SMALL:
            return 0
        known = isinstance(self.kernel_, SklearnKernel) and deviations is not None
        if not known or kernel_gradient(without_white(self.kernel_)[0]) is None:
            raise ValueError(
                f"refine={self.refine!r} moves points along the kernel's gradient, which "
                f"{self.kernel_!r} does not have: use refine=False."
            )
        return steps

    def _store(
        self, fitted: SpanFit, laplace: LaplaceFit, whitener: Floats, present: NDArray[np.intp]
    ) -> None:
        """Keep the model; row numbers are those of the rows passed to fit."""

        def as_passed(index: NDArray[np.intp]) -> NDArray[np.intp]:
            return np.where(index >= 0, present[index], -1)

        self._laplace, self._whitener = laplace, whitener
        self.basis_ = None if is_precomputed(self.kernel) else fitted.pool.items
        self.basis_indices_ = as_passed(fitted.pool.index)
        self.path_ = replace(fitted.path, index=as_passed(fitted.path.index))
        self.n_basis_ = len(whitener)
        coefficients = whitener.T @ laplace.mode
        self.dual_coef_ = coefficients if self._columns > 1 else coefficients[:, 0]
        self.scale_ = laplace.scale
        self.log_marginal_likelihood_value_ = float(laplace.log_evidence.mean())

    @property
    def _columns(self) -> int:
        """Latent functions: one for two classes, else one a class."""
        return len(self.classes_) if len(self.classes_) > 2 else 1
