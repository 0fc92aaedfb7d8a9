"""Support vector machines in the span of a few kernel functions: classes, numbers, one class."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.arguments import Search
from pursuit.estimators.classes import (
    against_each_other,
    against_rest,
    class_numbers,
    class_weights,
    distinct_classes,
    known_numbers,
    largest_class,
    votes,
)
from pursuit.estimators.fit_run import with_callbacks
from pursuit.estimators.gradients import GradientModel
from pursuit.estimators.inputs import (
    NoGradientError,
    check_lengths,
    named_columns,
    positive,
    rows_again,
    training_rows,
    validate_labels,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.kernel_model import ScoredRows, in_precision_of_rows, lazily
from pursuit.estimators.scales import in_range
from pursuit.estimators.svm.fit import LowRankMachine
from pursuit.estimators.svm.problem import MachineProblem, OneClassProblem

_SQUARED = "squared_epsilon_insensitive"
_RIDGE = 1.0
"""Times 1/C: the ridge of the least squares that choose a basis. The loss itself would have half of
it. Between that and ten times as much, the seed makes more of a difference on kin40k, protein and
USPS."""
_ONE_CLASS_RIDGE = 10.0
"""The same for one class. Between 1 and 1000, it gives the smallest gaps on the whole: a half to a
quarter of those of a basis that is chosen for the kernel matrix itself."""


class LowRankSVC(ScoredRows, ClassifierMixin, LowRankMachine):
    """Support vector classification in the span of a few kernel functions, with a certificate.

    Minimises ½‖f‖² + C Σ s_i ξ_i² or C Σ s_i ξ_i, with slacks ξ_i = max(0, 1 - y_i(f(x_i) + b)),
    over f = Σ_j β_j k(·, z_j) with at most ``n_basis`` terms, the same for all classes. The points
    z_j are rows chosen greedily for the labels, then moved along the gradient of the objective; by
    default there are as many as the data ask for.
    The certificate bounds the distance to the minimum over *all* functions of the kernel: to the
    machine that scikit-learn's `SVC` fits with ``loss="hinge"``.

    Parameters
    ----------
    kernel : str, callable or kernel object, default "rbf"
        A name of `pairwise_kernels`, a `sklearn.gaussian_process.kernels` object,
        ``"precomputed"``, or a function k(A, B) of two blocks of items. It is used as given; White
        terms are ignored.
    C : float, default 1.0
        Cost of the losses, as in `SVC` and `LinearSVC`.
    loss : {"squared_hinge", "hinge"}, default "squared_hinge"
        ``"squared_hinge"`` is solved by Newton's method, in which only rows with positive slack
        take part. ``"hinge"``, the loss of `SVC`, is solved by an interior point method, which is
        several times slower and usually no more accurate.
    class_weight : dict, "balanced" or None, default None
        Factors of C for the rows of each class. ``"balanced"`` uses factors in inverse proportion
        to the summed weights of the classes.
    multi_class : {"ovr", "ovo"}, default "ovr"
        With more than two classes: each class against the rest, or all pairs of classes, as in
        `SVC`. All of them share one basis.
    decision_function_shape : {"ovr", "ovo"}, default "ovr"
        With ``multi_class="ovo"``: whether :meth:`decision_function` has one column per class or
        one per pair.
    n_basis : int or "auto", default "auto"
        Largest number of basis functions. ``"auto"`` starts with 64 and doubles them, at most to
        2048, as long as the mean loss of reserved rows (a fifth, at most 2 000) is expected to
        fall by a sixth (by 0.01 at least, and 0.03 is always enough). Up to 2 000 rows none are
        reserved: the basis grows until the objective is proved to be within 0.1 % of the least
        over all functions. ``path_.stop_reason`` says what ended it.
    tol : float or None, default None
        With a number, the basis starts with 64 functions and grows, where support vectors miss
        most, until the certificate's ``relative_gap`` is at most ``tol`` or ``n_basis`` is reached.
    search : {"pooled", "full"} or Search, default "pooled"
        ``"pooled"``: choose from a pool of candidates by statistics on a sketch of the rows.
        ``"full"``: choose from all rows by all rows. They are the same up to 2 000 rows.
        ``Search("pooled", ...)`` takes ``pool_size`` (default ``2 * n_basis + 1000``), ``rows``
        (default: two per candidate), ``rounds`` (default 1) and ``candidates`` (default
        ``"rows"``).
    refine : int, "auto" or False, default "auto"
        Number of gradient steps that move the chosen points. The moved points are kept if the
        objective falls. ``"auto"`` is 50 for kernels with a known gradient (RBF, Matérn and others
        as objects, ``"rbf"`` by name), dense rows of at most 256 features, and more than 2 000
        rows; else 0. While an automatic basis doubles, points are moved at each size, below 512
        functions by fewer steps, if reserved rows gain by that at the first one.
    certificate : {"auto", "exact", "diagonal", None}, default "auto"
        ``"exact"`` takes one pass over all pairs of support vectors. ``"diagonal"`` takes no kernel
        value beyond k(x, x), but seldom proves anything: it is None unless it shows that the
        minimum is within half of the model's objective. ``"auto"`` is exact up to 10 000 rows and
        diagonal beyond; :meth:`certify` computes the exact one later.
    max_time : float or None, default None
        Seconds after which the choice, the moves and the growth of the basis end. The machine is
        still solved on all rows, so a fit may take longer. ``certificate="auto"`` is left out when
        the time is over.
    checkpoint : path-like or None, default None
        A folder in which each finished stage is recorded. A fit that was killed goes on from there
        when it is started again with the same data and parameters.
    gamma : float, "scale", "auto" or None, default None
        Parameter of kernels given by name. None and ``"auto"`` are 1/n_features; ``"scale"``
        divides that by the variance of X, as `SVC` does.
    coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    dtype : {"auto", "float64", "float32"}, default "auto"
        Type in which the rows' coordinates in the span are stored. ``"auto"`` is float64 up to
        128 MB and float32 beyond. Above 1 GB they are not stored but computed when needed.
    n_jobs : int or None, default None
        Number of threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    classes_ : array
        Labels.
    basis_ : items
        Points z_j; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers, -1 where a point is not a row, as after moving.
    n_basis_ : int
        Number of basis functions.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_columns)
        β, one column per column of the decision function; one-dimensional for two classes.
    intercept_ : array of shape (n_columns,)
        b. Where several are best, as for ``loss="hinge"`` and a small C, the middle one.
    support_ : array of int
        Rows with positive slack in some column: the support vectors of the machine.
    n_support_ : array of shape (n_classes,)
        Number of support vectors per class.
    class_weight_ : array of shape (n_classes,)
        Factors of C.
    kernel_ : kernel
        The kernel in use.
    n_iter_ : int
        Number of steps of the solver.
    path_ : Path
        What the fit cost and why the basis stopped growing; ``value`` and ``gap`` at the sizes
        that were solved, NaN elsewhere.
    certificate_ : Certificate or None
        Upper and lower value of the minimum over all functions.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    References
    ----------
    A. J. Smola and B. Schölkopf. Sparse greedy matrix approximation for machine learning. ICML 17,
    2000, section 6.1.

    Examples
    --------
    >>> from pursuit import LowRankSVC
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> model = LowRankSVC(gamma=1.0, n_basis=50, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.certificate_.relative_gap < 0.01
    True
    """

    _frozen = ("C", "loss")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LowRankMachine._parameter_constraints,
        "n_basis": [StrOptions({"auto"}), *LowRankMachine._parameter_constraints["n_basis"]],
        "loss": [StrOptions({"squared_hinge", "hinge"})],
        "multi_class": [StrOptions({"ovr", "ovo"})],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "class_weight": [None, StrOptions({"balanced"}), dict],
    }

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        C: float = 1.0,
        loss: str = "squared_hinge",
        class_weight: Mapping[Any, float] | str | None = None,
        multi_class: str = "ovr",
        decision_function_shape: str = "ovr",
        n_basis: int | str = "auto",
        tol: float | None = None,
        search: str | Search = "pooled",
        refine: int | str | bool = "auto",
        certificate: str | None = "auto",
        max_time: float | None = None,
        checkpoint: Any = None,
        gamma: float | str | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        dtype: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.loss = loss
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.n_basis = n_basis
        self.tol = tol
        self.search = search
        self.refine = refine
        self.certificate = certificate
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
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
        target: str | None = None,
        weight: str | None = None,
    ) -> Self:
        """Choose a basis and fit the machine in its span.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or source, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``.
        y : array of shape (n_rows,)
            Labels of at least two classes.
        sample_weight : array of shape (n_rows,), optional
            Factors of C; a row of weight 0 is absent.
        target : str, optional
            The column of X that holds the labels, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of sample_weight.

        Returns
        -------
        self : LowRankSVC
        """
        if self.decision_function_shape == "ovo" and self.multi_class == "ovr":
            raise ValueError(
                "decision_function_shape='ovo' needs the values of all pairs: set "
                "multi_class='ovo'."
            )
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        rows, X = training_rows(self, X)
        names = validate_labels(y)
        check_lengths(X, names)
        weights = validate_weights(sample_weight, rows.n_rows)
        present = weights > 0
        self.classes_ = distinct_classes(names[present])
        self._pairs = self.multi_class == "ovo" and len(self.classes_) > 2
        # Labels that occur without weight only belong to no class, and their rows are absent.
        labels = class_numbers(names, self.classes_)
        self.class_weight_ = class_weights(
            self.class_weight, self.classes_, labels[present], weights[present]
        )
        problem, weights = self._problem(labels, weights)
        self._single_output = problem.n_outputs == 1
        signs = against_rest(labels, len(self.classes_))
        targets = signs - (weights / weights.sum()) @ signs
        end = self._fit_machine(X, rows, targets, weights, problem, _RIDGE / self.C)
        self.n_support_ = np.bincount(labels[self.support_], minlength=len(self.classes_))
        self._report_end(*end, f"C={self.C!r}")
        return self

    @in_precision_of_rows
    def decision_function(self, X: Any) -> Floats:
        """Values f + b.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_columns)
            For two classes the values of the second; else one column per class, or per pair.
        """
        values = self._values(X)
        if self._single_output:
            return values[:, 0]
        return self._by_class(values) if self.decision_function_shape == "ovr" else values

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
        values = self._by_class(self._values(X))
        labels: NDArray[Any] = self.classes_[largest_class(values)]
        return labels

    @in_range
    def certify(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Certificate:
        """Bound the distance of this machine from the one of the full kernel on (X, y).

        Takes one product with the kernel matrix of the support vectors: O(n_support²) kernel values
        in O(n_support) memory, always in float64. ``loss="hinge"`` also takes another solution in
        the span, because f does not determine the dual variables of rows on the margin.

        Parameters
        ----------
        X, y, sample_weight
            The training data, as in :meth:`fit`; other rows of the same classes are allowed.

        Returns
        -------
        certificate : Certificate
            Sums over the columns of the decision function; ``per_output`` has them separately.
        """
        check_is_fitted(self)
        rows, X = rows_again(self, X)
        names = validate_labels(y)
        check_lengths(X, names)
        weights = validate_weights(sample_weight, rows.n_rows)
        labels = known_numbers(names, weights, self.classes_)
        problem, weights = self._problem(labels, weights)
        return self._certified(X, rows, problem, weights)

    def _problem(self, labels: Indices, weights: Floats) -> tuple[MachineProblem, Floats]:
        """Columns of ±1 with their costs, and the rows' weights times those of their classes.

        ``labels`` are positions in ``classes_``.
        """
        weights = weights * self.class_weight_[labels]
        costs = positive("C", self._of_fit("C")) * weights[:, None]
        if self._pairs:
            targets, inside = against_each_other(labels, len(self.classes_))
            costs = np.where(inside, costs, 0.0)
        else:
            targets = against_rest(labels, len(self.classes_))
            costs = np.broadcast_to(costs, targets.shape)
        return MachineProblem(
            targets, costs, squared=self._of_fit("loss") == "squared_hinge"
        ), weights

    def _mean_gradient(self, X: Any) -> Floats:
        """Gradients of the decision function, where it is a sum of kernel functions."""
        check_is_fitted(self)
        if self._pairs:
            raise NoGradientError(
                "multi_class='ovo' counts votes of pairs of classes, which have no gradient."
            )
        return super()._mean_gradient(X)

    def _by_class(self, values: Floats) -> Floats:
        """One column per class, or a single one for two classes."""
        return votes(values, len(self.classes_)) if self._pairs else values


class LowRankSVR(ScoredRows, GradientModel, RegressorMixin, LowRankMachine):
    """Support vector regression in the span of a few kernel functions, with a certificate.

    Minimises ½‖f‖² + C Σ s_i ξ_i² or C Σ s_i ξ_i, ``ξ_i = max(0, |y_i - f(x_i) - b| - ε)``, over
    f = Σ_j β_j k(·, z_j) with at most ``n_basis`` terms, the same for all outputs. The points z_j
    are rows chosen greedily for the targets, then moved along the gradient of the objective. The
    certificate bounds the distance to the minimum over *all* functions of the kernel: to the
    machine that scikit-learn's `SVR` fits with ``loss="epsilon_insensitive"``.

    Parameters
    ----------
    kernel : str, callable or kernel object, default "rbf"
        A name of `pairwise_kernels`, a `sklearn.gaussian_process.kernels` object,
        ``"precomputed"``, or a function k(A, B) of two blocks of items. It is used as given; White
        terms are ignored.
    C : float, default 1.0
        Cost of the losses, as in `SVR` and `LinearSVR`.
    epsilon : float, default 0.1
        Errors up to this, in units of y, cost nothing.
    loss : {"squared_epsilon_insensitive", "epsilon_insensitive"}
        The squared loss, the default, is solved by Newton's method, in which only rows outside the
        tube take part. ``"epsilon_insensitive"``, the loss of `SVR`, is solved by an interior point
        method, which is slower but less sensitive to outliers.
    n_basis : int or "auto", default "auto"
        Largest number of basis functions. ``"auto"`` starts with 64 and doubles them, at most to
        2048, as long as the mean loss of reserved rows (a fifth, at most 2 000) is expected to
        fall by a sixth. Up to 2 000 rows none are
        reserved: the basis grows until the objective is proved to be within 0.1 % of the least
        over all functions. ``path_.stop_reason`` says what ended it.
    tol : float or None, default None
        With a number, the basis starts with 64 functions and grows, where support vectors miss
        most, until the certificate's ``relative_gap`` is at most ``tol`` or ``n_basis`` is reached.
    search, refine, certificate, max_time, checkpoint, dtype, n_jobs, random_state, verbose
        As in :class:`LowRankSVC`.
    gamma : float, "scale", "auto" or None, default None
        Parameter of kernels given by name. None and ``"auto"`` are 1/n_features; ``"scale"``
        divides that by the variance of X, as `SVR` does.
    coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.

    Attributes
    ----------
    basis_ : items
        Points z_j; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers, -1 where a point is not a row, as after moving.
    n_basis_ : int
        Number of basis functions.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_outputs)
        β; one-dimensional where y is.
    intercept_ : array of shape (n_outputs,)
        b. Where several are best, as in a tube that holds all rows, the middle one.
    support_ : array of int
        Rows on or outside the tube in some output: the support vectors of the machine.
    n_support_ : array of shape (1,)
        Their number.
    kernel_ : kernel
        The kernel in use.
    n_iter_ : int
        Number of steps of the solver.
    path_ : Path
        What the fit cost and why the basis stopped growing; ``value`` and ``gap`` at the sizes
        that were solved, NaN elsewhere.
    certificate_ : Certificate or None
        Upper and lower value of the minimum over all functions.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    References
    ----------
    A. J. Smola and B. Schölkopf. Sparse greedy matrix approximation for machine learning. ICML 17,
    2000, section 6.1.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import LowRankSVR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (1000, 1))
    >>> y = np.sinc(X[:, 0]) + 0.1 * rng.standard_normal(1000)
    >>> model = LowRankSVR(C=10.0, n_basis=30, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.certificate_.relative_gap < 0.01
    True
    """

    _frozen = ("C", "epsilon", "loss")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LowRankMachine._parameter_constraints,
        "n_basis": [StrOptions({"auto"}), *LowRankMachine._parameter_constraints["n_basis"]],
        "epsilon": [numbers.Real],
        "loss": [StrOptions({_SQUARED, "epsilon_insensitive"})],
    }

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
        loss: str = _SQUARED,
        n_basis: int | str = "auto",
        tol: float | None = None,
        search: str | Search = "pooled",
        refine: int | str | bool = "auto",
        certificate: str | None = "auto",
        max_time: float | None = None,
        checkpoint: Any = None,
        gamma: float | str | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        dtype: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.epsilon = epsilon
        self.loss = loss
        self.n_basis = n_basis
        self.tol = tol
        self.search = search
        self.refine = refine
        self.certificate = certificate
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
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
        """Choose a basis and fit the machine in its span.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or source, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            Targets; a single column is one output, and predictions are a vector.
        sample_weight : array of shape (n_rows,), optional
            Factors of C; a row of weight 0 is absent.
        target : str or list of str, optional
            The column or columns of X that hold the targets, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of sample_weight.

        Returns
        -------
        self : LowRankSVR
        """
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        rows, X = training_rows(self, X)
        targets = validate_targets(y)
        check_lengths(X, targets)
        weights = validate_weights(sample_weight, rows.n_rows)
        self._single_output = targets.size == len(targets)
        Y = targets.reshape(len(targets), -1)
        mean = (weights / weights.sum()) @ Y
        problem = self._problem(Y - mean, weights)
        stated = self._problem(Y, weights)
        end = self._fit_machine(
            X, rows, problem.targets, weights, problem, _RIDGE / self.C, mean, stated
        )
        self.n_support_ = np.array([len(self.support_)])
        self._report_end(*end, f"C={self.C!r}")
        return self

    @in_precision_of_rows
    def predict(self, X: Any) -> Floats:
        """Values f + b.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_outputs)
        """
        return self._as_fitted(self._values(X))

    @in_range
    def certify(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Certificate:
        """Bound the distance of this machine from the one of the full kernel on (X, y).

        Takes one product with the kernel matrix of the support vectors: O(n_support²) kernel values
        in O(n_support) memory, always in float64. ``loss="epsilon_insensitive"`` also takes another
        solution in the span, because f does not determine the dual variables of rows on the rim of
        the tube.

        Parameters
        ----------
        X, y, sample_weight
            The training data, as in :meth:`fit`; other rows are allowed.

        Returns
        -------
        certificate : Certificate
            Sums over the outputs; ``per_output`` has them separately.
        """
        check_is_fitted(self)
        rows, X = rows_again(self, X)
        targets = validate_targets(y)
        check_lengths(X, targets)
        Y = targets.reshape(len(targets), -1)
        if Y.shape[1] != len(self.intercept_):
            raise ValueError(
                f"y has {Y.shape[1]} outputs, but the model was fitted with {len(self.intercept_)}."
            )
        weights = validate_weights(sample_weight, rows.n_rows)
        return self._certified(X, rows, self._problem(Y, weights), weights)

    def _problem(self, Y: Floats, weights: Floats) -> MachineProblem:
        costs = np.broadcast_to(positive("C", self._of_fit("C")) * weights[:, None], Y.shape)
        epsilon = positive("epsilon", self._of_fit("epsilon"))
        return MachineProblem(Y, costs, squared=self._of_fit("loss") == _SQUARED, epsilon=epsilon)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class LowRankOneClassSVM(OutlierMixin, LowRankMachine):
    """One-class support vector machine in the span of a few kernel functions, with a certificate.

    Minimises ½‖f‖² + Σ s_i max(0, ρ - f(x_i)) - νρΣs_i over ρ and f = Σ_j β_j k(·, z_j) with at
    most ``n_basis`` terms. f is at least ρ on all but a share ν of the rows, and new rows with
    f < ρ are novel. The certificate bounds the distance to the minimum over *all* functions of the
    kernel, which scikit-learn's `OneClassSVM` finds.

    Parameters
    ----------
    kernel : str, callable or kernel object, default "rbf"
        A name of `pairwise_kernels`, a `sklearn.gaussian_process.kernels` object,
        ``"precomputed"``, or a function k(A, B) of two blocks of items. It is used as given; White
        terms are ignored.
    nu : float, default 0.5
        ν, in (0, 1]: at most this share of the rows is outside, and at least this share are support
        vectors.
    n_basis : int, default 500
        Largest number of basis functions.
    tol : float or None, default None
        With a number, the basis starts with 64 functions and grows, where support vectors miss
        most, until the certificate's ``relative_gap`` is at most ``tol`` or ``n_basis`` is reached.
    search : {"pooled", "full"} or Search, default "pooled"
        As in :class:`LowRankSVC`. The chosen rows are those whose functions add up to 1 on all rows
        as nearly as they can: where they do not, rows are rare.
    certificate, max_time, checkpoint, dtype, n_jobs, random_state, verbose
        As in :class:`LowRankSVC`.
    gamma : float, "scale", "auto" or None, default None
        Parameter of kernels given by name. None and ``"auto"`` are 1/n_features; ``"scale"``
        divides that by the variance of X, as `OneClassSVM` does.
    coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.

    Attributes
    ----------
    basis_ : items
        Points z_j; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers, -1 where a point is not a row.
    n_basis_ : int
        Number of basis functions.
    dual_coef_ : array of shape (n_basis,)
        β.
    offset_ : float
        ρ.
    intercept_ : array of shape (1,)
        -ρ.
    support_ : array of int
        Support vectors: rows with f ≤ ρ.
    n_support_ : array of shape (1,)
        Their number.
    kernel_ : kernel
        The kernel in use.
    n_iter_ : int
        Number of steps of the solver.
    path_ : Path
        What the fit cost and why the basis stopped growing.
    certificate_ : Certificate or None
        Upper and lower value of the minimum over all functions.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import LowRankOneClassSVM
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> model = LowRankOneClassSVM(nu=0.1, n_basis=50, random_state=0).fit(X)
    >>> model.predict([[0.0, 0.0], [4.0, 4.0]])
    array([ 1, -1])
    >>> model.certificate_.relative_gap < 0.01
    True
    """

    _frozen = ("nu",)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: allowed
        for name, allowed in LowRankMachine._parameter_constraints.items()
        if name not in ("C", "refine")
    } | {"nu": [numbers.Real]}

    refine = False
    """Points are moved by the gradient of a squared loss, which this machine does not have."""

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        nu: float = 0.5,
        n_basis: int = 500,
        tol: float | None = None,
        search: str | Search = "pooled",
        certificate: str | None = "auto",
        max_time: float | None = None,
        checkpoint: Any = None,
        gamma: float | str | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        dtype: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.nu = nu
        self.n_basis = n_basis
        self.tol = tol
        self.search = search
        self.certificate = certificate
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
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
        weight: str | None = None,
    ) -> Self:
        """Choose a basis and fit the machine in its span.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or source, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``.
        y : ignored
            There are no targets.
        sample_weight : array of shape (n_rows,), optional
            Weights of the rows; a row of weight 0 is absent.
        weight : str, optional
            The column of X that holds the weights, in place of sample_weight.

        Returns
        -------
        self : LowRankOneClassSVM
        """
        X, _, sample_weight = named_columns(X, None, sample_weight, weight=weight)
        rows, X = training_rows(self, X)
        weights = validate_weights(sample_weight, rows.n_rows)
        problem = self._problem(weights)
        self._single_output = True
        end = self._fit_machine(X, rows, problem.targets, weights, problem, _ONE_CLASS_RIDGE)
        self.offset_ = float(-self.intercept_[0])
        self.n_support_ = np.array([len(self.support_)])
        self._report_end(*end, f"1/nu={1.0 / self.nu:.3g}")
        return self

    @in_precision_of_rows
    def decision_function(self, X: Any) -> Floats:
        """f - ρ: negative for novel rows.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        values : array of shape (n_rows,)
        """
        return self._values(X)[:, 0]

    @in_precision_of_rows
    def score_samples(self, X: Any) -> Floats:
        """f: the larger it is, the more a row is like the training rows.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`decision_function`.

        Returns
        -------
        scores : array of shape (n_rows,)
        """
        return self._functions(X)[:, 0]

    @lazily
    def predict(self, X: Any) -> Indices:
        """1 for rows like the training rows, -1 for novel ones.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`decision_function`.

        Returns
        -------
        labels : array of shape (n_rows,)
        """
        return np.where(self._values(X)[:, 0] >= 0.0, 1, -1).astype(np.intp)

    @in_range
    def certify(self, X: Any, sample_weight: ArrayLike | None = None) -> Certificate:
        """Bound the distance of this machine from the one of the full kernel on X.

        Takes another solution in the span, and one product with the kernel matrix of the support
        vectors: O(n_support²) kernel values in O(n_support) memory, in float64.

        Parameters
        ----------
        X, sample_weight
            The training data, as in :meth:`fit`; other rows are allowed.

        Returns
        -------
        certificate : Certificate
        """
        check_is_fitted(self)
        rows, X = rows_again(self, X)
        weights = validate_weights(sample_weight, rows.n_rows)
        return self._certified(X, rows, self._problem(weights), weights)

    def _problem(self, weights: Floats) -> OneClassProblem:
        nu = self._of_fit("nu")
        if not isinstance(nu, numbers.Real) or not 0.0 < float(nu) <= 1.0:
            raise ValueError(f"nu must be a share of the rows, in (0, 1], got {nu!r}.")
        targets = np.ones((len(weights), 1))
        return OneClassProblem(targets, weights[:, None], squared=False, nu=float(nu))
