"""LP machines for classes and for numbers (SS00 §6.2)."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from pursuit._types import Floats
from pursuit.estimators.classes import against_rest, class_weights, distinct_classes
from pursuit.estimators.inputs import (
    check_lengths,
    training_rows,
    validate_labels,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.lazily import ScoredRows, lazily
from pursuit.estimators.lp.model import LPMachine
from pursuit.estimators.progress import with_callbacks
from pursuit.estimators.sources import named_columns
from pursuit.solvers import LinearLosses

_TIE = 1e-10


class LPMachineClassifier(ScoredRows, ClassifierMixin, LPMachine):
    """A classifier on few kernel functions: hinge loss, and an l1 penalty on the coefficients.

    Minimises::

        Σ_j |a_j| + C Σ_i s_i max(0, 1 - y_i f(x_i)),    f = Σ_j a_j k(·, x_j) + b,

    over all training rows j and b, which is not penalised. The penalty is what differs from a
    support vector machine: it makes most a_j zero, also of rows on the wrong side, so the basis is
    far smaller than a set of support vectors. It is a linear programme, solved by growing the
    basis: the programme over the kernel functions chosen so far gives a price for every other one,
    those worth most are added, and the solver goes on from where it was. Prices also bound the
    minimum over *all* kernel functions from below, which is the certificate and the rule to stop.

    Parameters
    ----------
    kernel : str, kernel object or callable, default "rbf"
        A name of `pairwise_kernels`, a `sklearn.gaussian_process.kernels` object,
        ``"precomputed"``, or a function k(A, B) of two blocks of items. It must be symmetric but
        need not be positive definite.
    C : float, default 1.0
        Weight of the losses against the penalty, as in `SVC`: a larger C fits more closely, with
        more kernel functions. In the form (1/m) Σ_i ξ_i + Λ Σ_j abs(a_j) it is C = 1 / (Λ m).
    class_weight : dict, "balanced" or None, default None
        Factors of C for the classes, 1 for those not named. ``"balanced"``: in inverse proportion
        to the number of rows of a class, by their weights.
    tol : float, default 1e-6
        Stop when the certificate's ``gap`` is at most this part of ``objective_``, and
        ``relative_gap`` is at most this as well. The simplex method ends at the optimum, not near
        it: a wide tolerance saves few rounds.
    n_basis : int or None, default None
        Most kernel functions to choose from, those of all classes together. None grows until
        ``tol`` is met.
    batch_size : int, default 10
        Kernel functions that a class is given a round, no two of them much alike. With ``n_basis``,
        all classes together are given a quarter of those that are left, at most.
    pricing : "all" or int, default "all"
        Whether every round prices the kernel functions of all rows, or those of a pool of so many;
        when the pool has nothing left to offer all rows are priced, and the best of them are the
        next pool. The result is as exact, after more but cheaper rounds.
    solver : {"auto", "highs", "linprog"}, default "auto"
        ``"highs"`` goes on from the last solution, and needs the package highspy
        (``pip install "pursuit[lp]"``); ``"linprog"`` is SciPy's, which starts afresh every round.
        ``"auto"`` takes the former if it is there.
    max_time : float or None, default None
        Seconds after which no further round begins, but for the first that adds kernel functions.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    n_jobs : int or None, default None
        Threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of the first pool.
    verbose : int, default 0
        Print the time of the fit; from 2 on, also both bounds after every round.

    Attributes
    ----------
    class_weight_ : array of shape (n_classes,)
        Factors of C in use.
    classes_ : array
        Labels. For more than two, each is told from the rest by a machine of its own, and all
        share one basis, the union of theirs.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_classes)
        a; a single column for two classes.
    intercept_ : float or array of shape (n_classes,)
        b; where several are best, the one in the middle.
    basis_ : items or None
        The x_j with a nonzero coefficient, in the order of choice; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers.
    n_basis_ : int
        How many; 0 where C is so small that the best f is a constant.
    objective_ : float
        Value of the model, summed over machines: the minimum where growth went on to ``tol``.
    certificate_ : Certificate
        ``upper`` is ``objective_``, ``lower`` a bound on the minimum over the kernel functions of
        all rows. ``relative_gap`` compares with what the best constant loses.
    path_ : Path
        Both bounds, sizes, simplex iterations and time after every round.
    n_iter_ : int
        Rounds.
    kernel_ : kernel
        The kernel in use.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    References
    ----------
    A. J. Smola and B. Schölkopf. Sparse greedy matrix approximation for machine learning. ICML,
    2000, section 6.2.

    Examples
    --------
    >>> from pursuit import LPMachineClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> model = LPMachineClassifier(gamma=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95 and model.n_basis_ < 30)
    True
    >>> bool(model.certificate_.relative_gap <= 1e-6)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LPMachine._parameter_constraints,
        "class_weight": [None, dict, StrOptions({"balanced"})],
    }

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        C: float = 1.0,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-6,
        n_basis: int | None = None,
        batch_size: int = 10,
        pricing: int | str = "all",
        solver: str = "auto",
        max_time: float | None = None,
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.class_weight = class_weight
        self.tol = tol
        self.n_basis = n_basis
        self.batch_size = batch_size
        self.pricing = pricing
        self.solver = solver
        self.max_time = max_time
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
        target: str | None = None,
        weight: str | None = None,
    ) -> Any:
        """Choose kernel functions and fit them.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,)
            Labels of at least two classes.
        sample_weight : array of shape (n_rows,), optional
            s, factors of C for the rows. A row of weight 0 is absent.
        target : str, optional
            The column of X that holds the labels, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : LPMachineClassifier
        """
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        rows, X = training_rows(self, X)
        names = validate_labels(y)
        check_lengths(X, names)
        weights = validate_weights(sample_weight, rows.n_rows)
        present = np.flatnonzero(weights > 0)
        self.classes_ = distinct_classes(names[present])
        labels = np.searchsorted(self.classes_, names[present])
        weights = weights[present]
        self.class_weight_ = class_weights(self.class_weight, self.classes_, labels, weights)
        slopes = float(self.C) * weights * self.class_weight_[labels]
        signs = against_rest(labels, len(self.classes_))
        self._single_output = signs.shape[1] == 1
        losses = [LinearLosses.hinge(column, slopes) for column in signs.T]
        self._grow(X, rows, present, losses, np.zeros(len(losses)), np.ones(len(losses)))
        return self

    @lazily
    def decision_function(self, X: Any) -> Floats:
        """Values of f, for two classes those of the second.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_classes)
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
        values = self.decision_function(X)
        if values.ndim == 1:
            chosen = (values > 0).astype(np.intp)
        else:
            # Rows on a margin tie exactly, and rounding must not choose between their classes.
            best = values.max(axis=1, keepdims=True)
            chosen = np.argmax(values >= best - _TIE * (1.0 + np.abs(best)), axis=1)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels


class LPMachineRegressor(MultiOutputMixin, ScoredRows, RegressorMixin, LPMachine):
    """Regression on few kernel functions: ε-insensitive loss, l1 penalty on the coefficients.

    Minimises::

        Σ_j |a_j| + C Σ_i s_i max(0, |y_i - f(x_i)| - ε),    f = Σ_j a_j k(·, x_j) + b,

    over all training rows j and b, which is not penalised. See `LPMachineClassifier` for the
    method.

    Parameters
    ----------
    kernel : str, kernel object or callable, default "rbf"
        As in `LPMachineClassifier`.
    C : float, default 1.0
        Weight of the losses against the penalty, as in `SVR`.
    epsilon : float, default 0.1
        ε, in units of y: errors up to it cost nothing. 0 is least absolute deviations.
    tol, n_basis, batch_size, pricing, solver, max_time, gamma, coef0, degree, kernel_params, \
            n_jobs, random_state, verbose
        As in `LPMachineClassifier`.

    Attributes
    ----------
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_outputs)
        a. Every output has a machine of its own, and all share one basis, the union of theirs.
    intercept_ : float or array of shape (n_outputs,)
        b; where several are best, the one in the middle.
    basis_, basis_indices_, n_basis_, objective_, certificate_, path_, n_iter_, kernel_, \
            n_features_in_
        As in `LPMachineClassifier`.

    References
    ----------
    A. J. Smola and B. Schölkopf. Sparse greedy matrix approximation for machine learning. ICML,
    2000, section 6.2.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import LPMachineRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(300, 1))
    >>> y = np.sinc(X[:, 0]) + 0.05 * rng.normal(size=300)
    >>> model = LPMachineRegressor(gamma=2.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9 and model.n_basis_ < 20)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LPMachine._parameter_constraints,
        "epsilon": [Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
        tol: float = 1e-6,
        n_basis: int | None = None,
        batch_size: int = 10,
        pricing: int | str = "all",
        solver: str = "auto",
        max_time: float | None = None,
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.epsilon = epsilon
        self.tol = tol
        self.n_basis = n_basis
        self.batch_size = batch_size
        self.pricing = pricing
        self.solver = solver
        self.max_time = max_time
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
        """Choose kernel functions and fit them.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            Targets.
        sample_weight : array of shape (n_rows,), optional
            s, factors of C for the rows. A row of weight 0 is absent.
        target : str or list of str, optional
            The column, or columns, of X that hold the targets, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : LPMachineRegressor
        """
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        rows, X = training_rows(self, X)
        targets = validate_targets(y)
        check_lengths(X, targets)
        weights = validate_weights(sample_weight, rows.n_rows)
        present = np.flatnonzero(weights > 0)
        self._single_output = targets.ndim == 1
        Y = targets.reshape(len(targets), -1)[present]
        shifts = np.median(Y, axis=0)
        spreads = np.abs(Y - shifts).mean(axis=0)
        spreads[spreads == 0.0] = 1.0
        slopes = float(self.C) * weights[present]
        losses = [
            LinearLosses.tube((column - shift) / spread, slopes, float(self.epsilon) / spread)
            for column, shift, spread in zip(Y.T, shifts, spreads, strict=True)
        ]
        self._grow(X, rows, present, losses, shifts, spreads)
        return self

    @lazily
    def predict(self, X: Any) -> Floats:
        """Values of f.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_outputs)
        """
        values = self._values(X)
        return values[:, 0] if self._single_output else values
