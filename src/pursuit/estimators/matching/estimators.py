"""Kernel matching pursuit whose size a generalisation bound may choose (HS08 §3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats
from pursuit.estimators.classes import distinct_classes, largest_class
from pursuit.estimators.inputs import (
    TargetScale,
    check_lengths,
    training_rows,
    validate_labels,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.lazily import ScoredRows, lazily
from pursuit.estimators.matching.judges import MarginJudge, MissJudge
from pursuit.estimators.matching.model import MatchingPursuitModel
from pursuit.estimators.progress import with_callbacks
from pursuit.estimators.sources import named_columns
from pursuit.objectives import LogisticRows
from pursuit.rows import Sample

_AUTO_TOLERANCE = 0.25
_AUTO_SHORTFALL = 0.5


class KernelMatchingPursuitRegressor(
    MultiOutputMixin, ScoredRows, RegressorMixin, MatchingPursuitModel
):
    """Regression on a few kernel functions, as many as a generalisation bound advises.

    Fits f = Σ_j β_j k(·, c_j) + c by least squares, adding one function at a time. There is no
    penalty: sparsity is the only thing that keeps f from following the noise, so the number of
    functions matters. By default it is where the bound on the probability of missing a new target
    by more than ``tolerance`` is smallest (HS08 Theorem 3, as printed).

    Parameters
    ----------
    kernel : str, kernel object, callable, or a list of them, default "rbf"
        A name of `pairwise_kernels`, a `sklearn.gaussian_process.kernels` object,
        ``"precomputed"``, or a function k(A, B) of two blocks of items; it need not be positive
        definite. With a list every kernel is offered at every centre. White terms are ignored.
    n_basis : int, "bound" or "validation", default "bound"
        Number of functions: given; where the bound has its minimum; or where the error on rows set
        aside has its minimum, after which all rows are fitted. The latter two grow to at most half
        of the rows, and to 1024, and stop when as many further functions as the best size has, and
        at least 10, have not improved on it. Below 1 000 rows, or where a small error is worth
        more than a small model, ``"validation"`` is the better choice.
    fitting : {"prefit", "backfit", "basic"}, default "prefit"
        ``"prefit"``: the function with which the refitted model is best. ``"backfit"``: the one
        most aligned with the residual, then all coefficients are fitted anew. ``"basic"``: the same
        choice, but only the new coefficient is fitted; a function may be chosen again.
    refit_every : int, default 1
        For ``"backfit"``: steps between refits that the choice waits for.
    tolerance : float or "auto", default "auto"
        The α of the bound, in units of y: what counts as a miss. ``"auto"`` is a quarter of the
        standard deviation of y, for each output.
    delta : float, default 0.05
        The bound holds with probability 1 - ``delta``.
    fit_intercept : bool, default True
        Whether a constant is part of the model; it does not count as a function.
    centers : items, optional
        Where functions are centred, in place of training rows.
    pool_size : int or "auto", default "auto"
        How many rows may be centres: all up to 5 000 rows, a random 4 096 of more.
    selection_rows : int, "auto" or None, default "auto"
        Rows that choose: all up to 5 000 rows, two a candidate of more; None is all, as always for
        ``fitting="basic"``. The chosen functions are fitted to all rows.
    validation_fraction : float, default 0.2
        Part of the rows that ``n_basis="validation"`` sets aside.
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
    basis_ : items
        Centres in the order of choice; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers, -1 where a centre is not a row.
    basis_kernels_ : array of int
        Which kernel of the list each function belongs to.
    n_basis_ : int
        Number of functions.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_outputs)
        β.
    intercept_ : float or array of shape (n_outputs,)
        c.
    kernel_ : kernel, or list of kernels
        The kernel in use.
    tolerance_ : float or array of shape (n_outputs,)
        α in use.
    generalisation_bound_ : Bound
        Probability of a miss for the sizes tried, with the exact counts of HS08's proof; print it.
        Where it chooses well it is often above 1, and then vacuous as a statement.
    printed_bound_ : Bound
        The same in the form of the paper, whose minimum ``n_basis="bound"`` takes.
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
    >>> bool(model.generalisation_bound_.vacuous.all())
    True
    """

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
        """Choose functions and fit them.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            Targets.
        sample_weight : array of shape (n_rows,), optional
            Weights of the squared errors; a row of weight w stands for w equal rows, also in the
            bound. There weights that add up to less than the number of rows are scaled up to it.
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
        self._single_output = targets.ndim == 1
        scale = TargetScale.fit(Y, weights, normalize=True)
        caveats = []
        if self.tolerance == "auto":
            alpha = _AUTO_TOLERANCE * scale.scale
            caveats.append("if a tolerance of sd(y)/4 had been fixed before y was seen")
        else:
            alpha = np.full(Y.shape[1], float(self.tolerance))
        self.tolerance_ = float(alpha[0]) if self._single_output else alpha
        level = scale.mean if self.fit_intercept else np.zeros(Y.shape[1])
        said = f"{alpha[0]:.3g}" if self._single_output else "tolerance_ in any output"
        quantity = f"the probability of missing a new target by more than {said}"
        sample = Sample(rows, Y - level, weights)
        self._fit_model(X, sample, MissJudge(alpha), None, level, (quantity, caveats))
        return self

    @lazily
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
    if model.loss != "logistic":
        raise AttributeError("predict_proba needs loss='logistic'.")
    return True


class KernelMatchingPursuitClassifier(ScoredRows, ClassifierMixin, MatchingPursuitModel):
    """Classification on a few kernel functions, as many as a generalisation bound advises.

    One column of targets ±1 for two classes, one for each class against the rest for more, all on
    the same basis. See `KernelMatchingPursuitRegressor` for the method.

    Parameters
    ----------
    kernel : str, kernel object, callable, or a list of them, default "rbf"
        As in `KernelMatchingPursuitRegressor`.
    loss : {"squared", "logistic"}, default "squared"
        ``"logistic"`` chooses functions by the gradient of the loss, whatever ``fitting`` says, and
        fits all coefficients by Newton's method after every ``refit_every`` steps, and at the end;
        it has probabilities. Where not all rows choose, or ``refit_every`` is above 1, models that
        :meth:`truncated` gives have the coefficients they had in the search.
    tolerance : float or "auto", default "auto"
        A row is an error when its margin, yf for two classes and half the lead over the best other
        class for more, is at most 1 - ``tolerance``: 1 counts rows classified wrongly. ``"auto"``
        is 1/2, which also counts rows classified right by little and leads to larger models.
    n_basis, fitting, refit_every, delta, fit_intercept, centers, pool_size, selection_rows, \
            validation_fraction, gamma, coef0, degree, kernel_params, n_jobs, random_state, verbose
        As in `KernelMatchingPursuitRegressor`. With ``loss="logistic"`` the values of all
        candidates at the rows that choose are kept in memory during the fit.

    Attributes
    ----------
    classes_ : array
        Labels.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_classes)
        β; a single column for two classes.
    intercept_ : float or array of shape (n_classes,)
        c.
    tolerance_ : float
        In use.
    basis_, basis_indices_, basis_kernels_, n_basis_, kernel_, generalisation_bound_, \
            printed_bound_, path_, n_features_in_
        As in `KernelMatchingPursuitRegressor`; the bound is on the probability of an error as
        ``tolerance`` defines it, and ``path_.value`` is the loss that is minimised.

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
        tolerance: float | str = "auto",
        delta: float = 0.05,
        fit_intercept: bool = True,
        centers: Any = None,
        pool_size: int | str = "auto",
        selection_rows: int | str | None = "auto",
        validation_fraction: float = 0.2,
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
            tolerance=tolerance,
            delta=delta,
            fit_intercept=fit_intercept,
            centers=centers,
            pool_size=pool_size,
            selection_rows=selection_rows,
            validation_fraction=validation_fraction,
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
        self.tolerance_ = _AUTO_SHORTFALL if self.tolerance == "auto" else float(self.tolerance)
        quantity = "the probability of classifying a new row wrongly"
        if self.tolerance_ != 1.0:
            quantity = f"the probability of a margin of at most {1.0 - self.tolerance_:.3g}"
        if self.tolerance_ < 1.0:
            quantity += ", and so of a wrong class,"
        loss = LogisticRows() if self.loss == "logistic" else None
        judge = MarginJudge(self.tolerance_, loss, Y.shape[1])
        level = np.zeros(Y.shape[1])
        self._fit_model(X, Sample(rows, Y, weights), judge, loss, level, (quantity, []))
        return self

    @lazily
    def decision_function(self, X: Any) -> Floats:
        """Values f of the columns, for two classes those of the second.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_classes)
            Log-odds for ``loss="logistic"``.
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
        chosen = largest_class(self.decision_function(X))
        labels: NDArray[Any] = self.classes_[chosen]
        return labels

    @available_if(_is_logistic)
    @lazily
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, for ``loss="logistic"``.

        For more than two classes, those of each against the rest, brought to a sum of 1.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`decision_function`.

        Returns
        -------
        probabilities : array of shape (n_rows, n_classes)
        """
        check_is_fitted(self)
        p = expit(self.decision_function(X))
        if p.ndim == 1:
            return np.column_stack([1.0 - p, p])
        total = p.sum(axis=1, keepdims=True)
        even: Floats = np.full_like(p, 1.0 / p.shape[1])
        return np.asarray(np.divide(p, total, out=even, where=total > 0))
