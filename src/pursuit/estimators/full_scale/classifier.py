"""Full-scale Gaussian process classification: a greedy basis and near rows."""

from __future__ import annotations

import numbers
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats
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
from pursuit.estimators.classes import largest_class
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, interrupt, with_callbacks
from pursuit.estimators.full_scale.class_fit import LocalClassModel
from pursuit.estimators.full_scale.gains import JudgedRows, near_rows_added
from pursuit.estimators.full_scale.model import (
    FEWEST_JUDGING,
    NOTHING_MISSED,
    FullScaleModel,
)
from pursuit.estimators.full_scale.near_rows import LeavingRows, NearRows, distinct, row_numbers
from pursuit.estimators.gp.class_model import ClassModel
from pursuit.estimators.gp.classifier import SparseGPClassifier
from pursuit.estimators.inputs import held, in_double, named_columns
from pursuit.estimators.intervals import set_aside
from pursuit.estimators.kernel_model import in_precision_of_rows
from pursuit.estimators.reporting import Addition, microseconds
from pursuit.estimators.warning import warn
from pursuit.gram import kernel_times
from pursuit.linalg import Workers, invert_lower
from pursuit.rows import take_items
from pursuit.tuning import (
    Confidence,
    Latents,
    LearningReport,
    choose_near_classes,
    fit_confidence,
)

Choice = tuple[int, Confidence | None, str]
"""Number of near rows, how their latent functions become probabilities, and why."""


class FullScaleGPClassifier(CallbackSupportMixin, ClassModel, FullScaleModel, BaseEstimator):
    """Gaussian process classification by a greedy basis for what is smooth and near rows for rest.

    A :class:`SparseGPClassifier` (``global_``) explains what a few hundred functions can. What its
    basis leaves of the process, k(x, x') - V_x·V_x', is local: it is conditioned on the nearest
    training rows of every point that is predicted, by Laplace's approximation. Near rows are used
    only if the log loss of reserved rows gains by them. The model keeps the training rows and
    predicts more slowly than its ``global_`` part, which :meth:`without_neighbors` returns.

    Parameters
    ----------
    kernel : kernel object, str, callable or None, default None
        As in :class:`SparseGPClassifier`; not ``"precomputed"``.
    n_basis : int or "auto", default 512
        Largest number of basis functions of the global part.
    n_neighbors : int or "auto", default "auto"
        Near rows that a prediction uses. ``"auto"`` chooses among 0, 16, 32 and 64 by the log loss
        of reserved rows: a larger number is taken if it gains a standard error, the first if it
        gains two of them and 0.001. With 0 this is the sparse model.
    scale : float or "auto", default "auto"
        s, the factor of the kernel in the prior of the log-odds, as in
        :class:`SparseGPClassifier`.
    class_weight : dict, "balanced" or None, default None
        Factors of the weights of the rows of a class, as in :class:`SparseGPClassifier`.
    search : {"pooled", "fresh", "full"} or Search, default "pooled"
        How the basis is found, as in :class:`SparseGPClassifier`.
    optimizer : {"evidence", None} or Evidence, default "evidence"
        How hyper-parameters are learned, as in :class:`SparseGPClassifier`.
    refine : int, "auto" or False, default "auto"
        Gradient steps that move the basis, as in :class:`SparseGPClassifier`.
    calibration : {"loo", "conformal", None}, default "loo"
        ``"loo"`` sets by the log loss of reserved rows, each left out in turn, how much of the
        variance of the log-odds counts. ``"conformal"`` first sets a fifth of the rows aside (at
        least 100, at most 2 000, at most half) for sets of classes that are guaranteed to cover,
        and goes on like ``"loo"``; rows aside are never near rows. None keeps Laplace's
        approximation as it stands; then ``n_neighbors`` must be a number.
    certificate : {"auto", "exact", None}, default None
        Whether the fit bounds the distance of its global part to the full kernel's latent
        functions, ``global_.certificate_``.
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
        A folder in which the fit records what it has finished, as in :class:`SparseGPClassifier`.
    dtype : {"float32", "float64"}, default "float32"
        Type of the features of near rows. Up to 2^24 numbers they are float64 in any case.
    n_jobs : int or None, default None
        Number of threads; None uses as many as BLAS would. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print what is kept in memory, the stages of the fit and their times.

    Attributes
    ----------
    global_ : SparseGPClassifier
        The sparse model: basis, kernel, path, certificate.
    n_neighbors_ : int
        Near rows that a prediction uses; 0 where they have nothing to add.
    classes_ : array
        Labels.
    class_weight_ : array of shape (n_classes,)
        Factors of the weights.
    kernel_ : kernel
        The kernel in use.
    calibration_ : Confidence or None
        What reserved rows chose; ``log_loss_before`` is that of the sparse model.
    coverage_guarantee_ : CoverageGuarantee or None
        What :meth:`predict_set` guarantees, on which rows and assumptions; None without rows set
        aside.
    conformal_rows_ : array of int
        Numbers of the rows that ``calibration="conformal"`` has set aside.
    learning_report_ : LearningReport
        What was learned and chosen, and the time of each stage; print it.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    Notes
    -----
    With V_x = R⁻¹k_Z(x), RR' = k(Z, Z) and r = k - V_x·V_x', let b and C be mean and covariance of
    the basis functions' coordinates for one column of the decision function. A training row is
    linearised at log-odds f: its log likelihood has the slope g = Σw(t - p) and the curvature
    h = Σw p(1 - p) there, sums over identical rows, and it counts as an observation f + g/h with
    noise variance 1/h. The near rows N of a point x give A = s r(x,N)(s r(N,N) + diag(1/h))⁻¹. The
    mean of its log-odds is V_x·b + A(f + g/h - V_N b), and their variance s r(x,x) - A s r(N,x) +
    u'Cu with u = V_x - A V_N. Reserved rows choose factors of both parts of the variance.

    f is about the mode of the log-odds of a row and its 16 nearest rows, given b: five steps from
    V_x·b by the quadratic bound of the logistic loss [1]_.

    Near rows are the nearest by the kernel's length scales or, where it has none, by the distance
    k(x,x) + k(z,z) - 2k(x,z). Ties go to the row that comes first.

    References
    ----------
    .. [1] T. S. Jaakkola and M. I. Jordan. Bayesian parameter estimation via variational methods.
       Statistics and Computing 10, 2000.

    E. Snelson and Z. Ghahramani. Local and global sparse Gaussian process approximations. AISTATS,
    2007.

    T. Gyger, R. Furrer and F. Sigrist. Vecchia-inducing-points full-scale approximations for
    Gaussian processes. arXiv 2507.05064, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import FullScaleGPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1300, 2))
    >>> y = np.floor(8 * X).sum(axis=1) % 2
    >>> model = FullScaleGPClassifier(n_basis=30, random_state=0).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > model.global_.score(X[1000:], y[1000:]) + 0.2)
    True
    """

    global_: SparseGPClassifier
    calibration_: Confidence | None
    learning_report_: LearningReport
    _settled: Floats | None

    _global_class = SparseGPClassifier
    _shared = (
        *("kernel", "n_basis", "scale", "class_weight", "search", "optimizer", "refine"),
        *("calibration", "certificate", *KERNEL, "n_jobs", "random_state", "verbose"),
    )

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [None, str, callable, SklearnKernel],
        "n_basis": [StrOptions({"auto"}), Interval(numbers.Integral, 1, None, closed="left")],
        "n_neighbors": [StrOptions({"auto"}), Interval(numbers.Integral, 0, None, closed="left")],
        "scale": [numbers.Real, StrOptions({"auto"})],
        "class_weight": [None, StrOptions({"balanced"}), dict],
        "search": SEARCH,
        "optimizer": OPTIMIZER,
        "refine": REFINE,
        "calibration": [None, StrOptions({"loo", "conformal"})],
        "certificate": [None, StrOptions({"auto", "exact"})],
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
        scale: float | str = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        search: str | Search = "pooled",
        optimizer: str | Evidence | None = "evidence",
        refine: int | str | bool = "auto",
        calibration: str | None = "loo",
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
        self.scale = scale
        self.class_weight = class_weight
        self.search = search
        self.optimizer = optimizer
        self.refine = refine
        self.calibration = calibration
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
        """Fit the global part, and choose how many near rows are used.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows, which are kept: those of a large file as float32.
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
        self : FullScaleGPClassifier
        """
        self._check_arguments()
        given, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        aside = None
        if self.calibration == "conformal":
            given, y, sample_weight, aside = set_aside(self, given, y, sample_weight)
        X, sample, present = self._take_in(given, y, sample_weight)
        items = held(self, X, np.float32)
        self._tell_memory(items)
        items = take_items(items, present)
        number = row_numbers(items)
        self._check_neighbors(int(number.max()) + 1)
        began = time.perf_counter()
        self._fit_global(given, y, sample_weight)
        spent = time.perf_counter() - began
        with FitRun(self, sample, present, n_stages=1, spent=spent) as run:
            kept = distinct(items, sample.targets, sample.weights, number)
            judges = self._judges_of(items, sample.targets, sample.weights, present, number)
            sentence = self._fit_near(kept, judges, run)
        self._complete_report(sentence, run.seconds)
        if aside is not None:
            self._keep_aside(aside)
        if run.stopping:
            interrupt(f"{self.n_neighbors_} near rows beside the {self.global_.n_basis_} functions")
        return self

    @in_precision_of_rows
    def decision_function(self, X: Any) -> Floats:
        """Mean of the log-odds of each class, for two classes those of the second.

        Parameters
        ----------
        X : items of n_rows rows
            Rows to predict.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_classes)
        """
        check_is_fitted(self)
        if self.n_neighbors_ == 0:
            values: Floats = self._by_basis("decision_function", X)
            return values
        mean = self._latents(X, variance=False).mean
        return mean[:, 0] if self._columns == 1 else mean

    @in_precision_of_rows
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes: the logistic function of the log-odds, averaged over them.

        For more than two classes, those of each against the rest, brought to a sum of 1.

        Parameters
        ----------
        X : items of n_rows rows
            Rows to predict.

        Returns
        -------
        probabilities : array of shape (n_rows, n_classes)
        """
        check_is_fitted(self)
        if self.n_neighbors_ == 0:
            found: Floats = self._by_basis("predict_proba", X)
            return found
        confidence = Confidence() if self.calibration_ is None else self.calibration_
        return confidence.probabilities(self._latents(X, variance=True))

    def without_neighbors(self) -> SparseGPClassifier:
        """The global part alone: a small model that keeps no training rows.

        Returns
        -------
        model : SparseGPClassifier
        """
        model: SparseGPClassifier = super().without_neighbors()
        return model

    def _addition(
        self, judged: tuple[Any, NDArray[Any]] | None, rows: Any, time: float | None
    ) -> Addition:
        if self.n_neighbors_ == 0:
            return Addition("no near rows")
        found = None
        if judged is not None:
            X, y = judged
            queries = self._query_rows(X)
            labels = np.searchsorted(self.classes_, y)
            found = JudgedRows.of_classes(
                queries.take(np.arange(queries.n_rows)),
                [in_double(model.predict_proba)(X) for model in (self.global_, self)],
                labels,
                np.ones(len(labels)),
            )
        with Workers(self.n_jobs) as workers:
            times = time, microseconds(self, rows)
            return near_rows_added(self, self._ready(workers), found, times, workers)

    def _keep_global(self, model: SparseGPClassifier) -> None:
        super()._keep_global(model)
        self._settled = None

    def _latents(self, X: Any, *, variance: bool) -> Latents:
        """The latent functions at rows, given their near rows."""
        rows = self._query_rows(X)
        with Workers(self.n_jobs) as workers:
            local: LocalClassModel = self._ready(workers)
            return local.latents(rows, self.n_neighbors_, workers, variance=variance)

    def _make_local(self, workers: Workers) -> LocalClassModel:
        assert self._kept is not None
        assert self._settled is not None
        return self._local_model(self._kept, workers, self._settled)

    def _local_model(
        self, kept: NearRows, workers: Workers, settled: Floats | None = None
    ) -> LocalClassModel:
        """The rows with features and index, and the log-odds at which they are linearised."""
        model = self.global_
        # A label has at most a quarter of curvature, and so a noise of at least 4 beside s k.
        noise = 4.0 / model._laplace.scale
        process, index = self._process(kept, model._whitener, noise, workers)
        coefficients = process.whitener.T @ model._laplace.mode
        fitted = kernel_times(process.rows, process.kernel, process.points, coefficients, workers)
        rotations = [invert_lower(L) for L in model._laplace.factors]
        local = LocalClassModel(
            kept,
            process,
            index,
            model._laplace,
            np.stack(rotations),
            fitted,
            fitted if settled is None else settled,
        )
        return local.settle(workers) if settled is None else local

    def _fit_near(self, kept: NearRows, judges: LeavingRows, run: FitRun) -> str:
        """Choose near rows and what their probabilities are, and keep what predictions need."""
        if reason := self._no_near_rows(kept.n_rows):
            return reason
        run.begin("near")
        if self.n_neighbors == "auto" and not len(judges):
            return f"none: fewer than {FEWEST_JUDGING} rows are left to judge by, beside the basis"
        local = self._local_model(kept, run.workers)
        chosen: Choice | None = run.finished("near")
        if chosen is None:
            chosen = run.keep("near", self._choose(local, judges, run))
        k, confidence, sentence = chosen
        if k > 0:
            self.n_neighbors_, self.calibration_ = k, confidence
            self._kept, self._settled, self._local = kept, local.settled, local
        return sentence

    def _choose(self, local: LocalClassModel, judges: LeavingRows, run: FitRun) -> Choice:
        """What reserved rows choose; 0 for no near rows."""
        auto = self.n_neighbors == "auto"
        sizes = self._sizes(local.kept.n_rows)
        if not len(judges):
            return sizes[0], None, f"{sizes[0]}, as given"
        if run.out_of_time:
            sizes = sizes[:1]
        within = [min(k, local.kept.n_rows - 1) for k in sizes]
        latents = local.left_out(judges, [0, *within], run.workers)
        if float(latents[0].share.max()) < NOTHING_MISSED:
            sentence = "the basis spans the kernel, near rows have nothing to add"
            if not auto:
                warn(f"n_neighbors={self.n_neighbors} is not used: {sentence}.")
            return 0, None, f"none: {sentence}"
        labels, weights = largest_class(judges.targets), judges.weights
        # Rows that chose the basis do not say what it misses of others.
        reserved = len(self.global_._reserved_rows) > 0
        if not auto:
            rows = latents[within[0]]
            seen = float(rows.share.max())
            fixed = fit_confidence(rows, labels, weights, seen=seen, missed_too=reserved)
            return sizes[0], fixed, f"{sizes[0]}, as given"
        without = self.global_.calibration_
        assert without is not None
        k, confidence, losses = choose_near_classes(
            latents, labels, weights, without, missed_too=reserved
        )
        tried = ", ".join(f"{size}: {loss:.4g}" for size, loss in losses.items())
        return (
            k,
            confidence,
            (
                f"{k or 'none'} of the sizes tried, by the log loss of {len(judges)} rows left out "
                f"({tried})"
            ),
        )
