"""LP machines for classes and for numbers: few kernel functions by linear programming."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.arguments import (
    CHECKPOINT,
    EXECUTION,
    KERNEL,
    MAX_TIME,
    Search,
    resolve_search,
)
from pursuit.estimators.classes import against_rest, class_weights, distinct_classes
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, interrupt, with_callbacks
from pursuit.estimators.gradients import GradientModel
from pursuit.estimators.inputs import (
    check_lengths,
    check_symmetric,
    in_double,
    named_columns,
    reads_matrix,
    training_rows,
    validate_labels,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.kernel_model import BasisModel, ScoredRows, in_precision_of_rows, lazily
from pursuit.estimators.lp.certify import StoredMachine, machine_certificate
from pursuit.estimators.lp.growth import POOL, Growth
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.scales import kept
from pursuit.estimators.warning import warn
from pursuit.greedy import Path
from pursuit.kernels import CountingKernel
from pursuit.rows import RowSource, Sample, SelectedRows, draw_rows, source_numbers
from pursuit.solvers import LinearLosses

_CHECK_ROWS = 256
"""Rows on which a kernel is checked for symmetry."""
_TIE = 1e-10
"""Relative difference up to which the values of two classes count as equal."""

_SEARCHES = {"full": (), "pooled": ("pool_size",)}
"""Fields of `Search` that apply to these machines."""


class LPMachine(CallbackSupportMixin, BasisModel, ReportedModel, BaseEstimator):
    """Minimise Σ_j |a_j| + C Σ_i s_i ℓ(y_i, f(x_i)), f = Σ_j a_j k(·, x_j) + b, over all rows j."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable, SklearnKernel],
        "C": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_basis": [None, Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, 1, closed="both")],
        "search": [StrOptions(set(_SEARCHES)), Search],
        "solver": [StrOptions({"auto", "highs", "linprog"})],
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
        **KERNEL,
        **EXECUTION,
    }

    C: float
    n_basis: int | None
    tol: float
    search: str | Search
    solver: str
    max_time: float | None
    checkpoint: Any
    n_jobs: int | None
    random_state: Any
    verbose: int

    basis_: Any
    basis_indices_: Indices
    n_basis_: int
    dual_coef_: Floats
    intercept_: Any
    objective_: float
    certificate_: Certificate | None
    path_: Path
    n_iter_: int
    _single_output: bool
    _n_outputs: int

    def _fit_losses(
        self,
        X: Any,
        sample: Sample,
        present: Indices,
        losses: list[LinearLosses],
        kinks: Floats,
        scaled: list[LinearLosses],
        shifts: Floats,
        spreads: Floats,
    ) -> None:
        """Solve for the losses of the sample, one per output, and store the model.

        Terms of the losses bend at targets + ``kinks``.
        0 and 1 in the scaled losses, which are solved for, are ``shifts`` and ``shifts + spreads``
        in units of y.
        """
        search, rows = resolve_search(self.search, _SEARCHES), sample.rows
        self.kernel_ = self._given_kernel()
        kernel = self._compiled(X)
        with FitRun(self, sample, present, n_stages=1) as run:
            run.same_matrix(X)
            _check_symmetry(kernel, rows, run.rng)
            run.begin("grow")
            growth = Growth(
                rows,
                scaled,
                spreads,
                kernel,
                run,
                tol=float(self.tol),
                n_basis=self.n_basis,
                pool_size=None if search.kind == "full" else search.pool_size or POOL,
                solver=self.solver,
            )
            reason = None
            while reason is None:
                reason = growth.round()
                if self.verbose > 1:
                    print(f"[{type(self).__name__}] {growth}", flush=True)
            chosen, a, b = growth.model()
            b = shifts + spreads * b
            model = StoredMachine(rows.take(chosen), a, b)
            found = machine_certificate(
                losses, sample.targets, kinks, model, growth.duals(), rows, kernel, run.workers
            )
        self.path_ = growth.path(reason)
        self.path_.gap[-1:] = found.relative_gap
        self.certificate_ = kept(found)
        self.objective_ = found.upper
        self.n_iter_ = len(self.path_)
        self.basis_indices_ = present[chosen]
        self.basis_ = None if reads_matrix(self) else rows.take(chosen)
        self.n_basis_ = len(chosen)
        self._keep_bound_basis(kernel)
        self.dual_coef_ = a[:, 0] if self._single_output else a
        self.intercept_ = float(b[0]) if self._single_output else b
        self._n_outputs = len(b)
        if reason == "no gain":
            warn(
                f"tol={self.tol} is beyond the rounding of the linear programmes: no kernel "
                "function would bring a gain, and the gap that is left is "
                f"{found.gap:.3g} of {found.upper:.6g}. Raise tol, scale "
                "the features or the kernel, or use a smaller C.",
                ConvergenceWarning,
            )
        if run.stopping:
            interrupt(f"the best {self.n_basis_} kernel functions found so far")


def _present_sample(rows: RowSource, present: Indices, targets: Floats, weights: Floats) -> Sample:
    """The rows that have weight, with their targets and weights."""
    rows = rows if len(present) == rows.n_rows else SelectedRows(rows, present)
    return Sample(rows, targets, weights)


def _check_symmetry(kernel: CountingKernel, rows: RowSource, rng: np.random.Generator) -> None:
    """Refuse a kernel that is not symmetric on a few rows; it need not be definite."""
    if kernel.positive_definite:
        return
    some = draw_rows(rows.n_rows, _CHECK_ROWS, rng)
    items = rows.take(some)
    check_symmetric(kernel.tile(items, items), source_numbers(rows, some))


class LPMachineClassifier(ScoredRows, ClassifierMixin, LPMachine):
    """A classifier on few kernel functions: hinge loss, and an l1 penalty on the coefficients.

    Minimises::

        Σ_j |a_j| + C Σ_i s_i max(0, 1 - y_i f(x_i)),    f = Σ_j a_j k(·, x_j) + b,

    over all training rows j and b, which is not penalised. The penalty differs from that of a
    support vector machine: it makes most a_j zero, also those of rows on the wrong side, so the
    basis is far smaller than a set of support vectors. The linear programme is solved by growing
    the basis. The programme over the kernel functions chosen so far gives a price for every other
    one, those with the highest prices are added, and the solver goes on from its last solution.
    Prices also bound the minimum over *all* kernel functions from below: this is the certificate
    and the stopping rule.

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
        Factors of C for the rows of each class, 1 for classes that are not named. ``"balanced"``
        uses factors in inverse proportion to the summed weights of the classes.
    n_basis : int or None, default None
        Largest number of kernel functions that are tried, those of all classes together. None
        grows the basis until ``tol`` is met. Every round gives each class up to ten functions, no
        two of them much alike; with a number, a round adds at most a quarter of those that are
        left.
    tol : float, default 1e-6
        Stop when the certificate's ``relative_gap`` is at most ``tol`` and its ``gap`` is at most
        this part of ``objective_``. The simplex method ends at the optimum, not near it, so a wide
        tolerance saves few rounds.
    search : {"full", "pooled"} or Search, default "full"
        ``"full"``: every round prices the kernel functions of all rows. ``"pooled"``: every round
        prices a pool of 1 000 rows, or ``Search("pooled", pool_size=...)``. When the pool has
        nothing left to offer, all rows are priced, and the best of them are the next pool. The
        result is as exact, after more but cheaper rounds.
    solver : {"auto", "highs", "linprog"}, default "auto"
        ``"highs"`` goes on from the last solution, and needs the package highspy
        (``pip install "pursuit[lp]"``). ``"linprog"`` is SciPy's, which starts from scratch every
        round. ``"auto"`` takes the former if it is installed.
    max_time : float or None, default None
        Seconds after which no further round begins. The first round that adds kernel functions is
        always finished.
    checkpoint : path-like or None, default None
        A folder in which the kernel products of each round are recorded. A fit that was killed
        takes them from there when it is started again with the same data and parameters; only the
        linear programmes are solved again.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    n_jobs : int or None, default None
        Number of threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of the first pool.
    verbose : int, default 0
        1 prints the time of the fit; 2 also prints both bounds after every round.

    Attributes
    ----------
    class_weight_ : array of shape (n_classes,)
        Factors of C in use.
    classes_ : array
        Labels. With more than two, a machine of its own separates each class from the rest, and
        all share one basis, the union of theirs.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_classes)
        a; one-dimensional for two classes.
    intercept_ : float or array of shape (n_classes,)
        b. Where several are best, the middle one.
    basis_ : items or None
        The x_j with a nonzero coefficient, in the order of choice; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers.
    n_basis_ : int
        Their number; 0 where C is so small that the best f is a constant.
    objective_ : float
        Objective of the model, summed over machines. It is the minimum up to ``tol`` if growth
        was not stopped before.
    certificate_ : Certificate
        ``upper`` is ``objective_``, ``lower`` a bound on the minimum over the kernel functions of
        all rows. ``relative_gap`` is relative to the loss of the best constant.
    path_ : Path
        Both bounds, sizes, simplex iterations and time after every round.
    n_iter_ : int
        Number of rounds.
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
        n_basis: int | None = None,
        tol: float = 1e-6,
        search: str | Search = "full",
        solver: str = "auto",
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
        self.C = C
        self.class_weight = class_weight
        self.n_basis = n_basis
        self.tol = tol
        self.search = search
        self.solver = solver
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
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
        sample = _present_sample(rows, present, signs, weights)
        plain = np.zeros(len(losses)), np.ones(len(losses))
        self._fit_losses(X, sample, present, losses, np.zeros(1), losses, *plain)
        return self

    @in_precision_of_rows
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
        return self._as_fitted(self._values(X))

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
        values = in_double(self.decision_function)(X)
        if values.ndim == 1:
            chosen = (values > 0).astype(np.intp)
        else:
            # Rows on a margin tie exactly, and rounding must not choose between their classes.
            best = values.max(axis=1, keepdims=True)
            chosen = np.argmax(values >= best - _TIE * (1.0 + np.abs(best)), axis=1)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels


class LPMachineRegressor(MultiOutputMixin, ScoredRows, GradientModel, RegressorMixin, LPMachine):
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
    n_basis, tol, search, solver, max_time, checkpoint, gamma, coef0, degree, kernel_params, \
            n_jobs, random_state, verbose
        As in `LPMachineClassifier`.

    Attributes
    ----------
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_outputs)
        a; one-dimensional where y is. Every output has a machine of its own, and all share one
        basis, the union of theirs.
    intercept_ : float or array of shape (n_outputs,)
        b. Where several are best, the middle one.
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
        n_basis: int | None = None,
        tol: float = 1e-6,
        search: str | Search = "full",
        solver: str = "auto",
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
        self.C = C
        self.epsilon = epsilon
        self.n_basis = n_basis
        self.tol = tol
        self.search = search
        self.solver = solver
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
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
        """Choose kernel functions and fit them.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            Targets; a single column is one output, and predictions are a vector.
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
        self._single_output = targets.size == len(targets)
        Y = targets.reshape(len(targets), -1)[present]
        shifts = np.median(Y, axis=0)
        spreads = np.abs(Y - shifts).mean(axis=0)
        spreads[spreads == 0.0] = 1.0
        weights = weights[present]
        slopes = float(self.C) * weights
        epsilon = float(self.epsilon)
        losses = [LinearLosses.tube(column, slopes, epsilon) for column in Y.T]
        scaled = [
            LinearLosses.tube((column - shift) / spread, slopes, epsilon / spread)
            for column, shift, spread in zip(Y.T, shifts, spreads, strict=True)
        ]
        sample = _present_sample(rows, present, Y, weights)
        kinks = np.array([-epsilon, epsilon] if epsilon else [0.0])
        self._fit_losses(X, sample, present, losses, kinks, scaled, shifts, spreads)
        return self

    @in_precision_of_rows
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
        return self._as_fitted(self._values(X))
