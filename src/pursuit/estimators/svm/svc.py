"""Support vector classification in the span of a few kernel functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
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
from pursuit.estimators.inputs import (
    check_lengths,
    positive,
    rows_again,
    training_rows,
    validate_labels,
    validate_weights,
)
from pursuit.estimators.lazily import ScoredRows, lazily
from pursuit.estimators.progress import with_callbacks
from pursuit.estimators.sources import named_columns
from pursuit.estimators.svm.fitting import Solver
from pursuit.estimators.svm.model import LowRankMachine
from pursuit.estimators.svm.problem import MachineProblem
from pursuit.estimators.svm.solving import interior_in_span, newton_in_span


class LowRankSVC(ScoredRows, ClassifierMixin, LowRankMachine):
    """Support vector classification in the span of a few kernel functions, with a certificate.

    Minimises ½‖f‖² + C Σ s_i ξ_i² or C Σ s_i ξ_i, with slacks ξ_i = max(0, 1 - y_i(f(x_i) + b)),
    over f = Σ_j β_j k(·, z_j) with at most ``n_basis`` terms, the same for all classes. The points
    z_j are rows chosen greedily for the labels, then moved along the gradient of the objective.
    The certificate bounds the distance to the minimum over *all* functions of the kernel: to the
    machine that scikit-learn's `SVC` fits with ``loss="hinge"``.

    Parameters
    ----------
    kernel : str, callable or kernel object, default "rbf"
        A name of `pairwise_kernels`, a `sklearn.gaussian_process.kernels` object,
        ``"precomputed"``, or a function k(A, B) of two blocks of items. Used as given; White terms
        are ignored.
    C : float, default 1.0
        Cost of the losses, as in `SVC` and `LinearSVC`.
    loss : {"squared_hinge", "hinge"}, default "squared_hinge"
        ``"squared_hinge"`` is solved by Newton's method, in which only rows with positive slack
        take part; ``"hinge"``, the loss of `SVC`, by an interior point method, which is several
        times slower and no more accurate as a rule.
    n_basis : int, default 500
        Most basis functions.
    tol : float or None, default None
        Grow the basis, where support vectors miss most, from 64 functions until the certificate's
        ``relative_gap`` is at most ``tol``, or ``n_basis`` is reached.
    multi_class : {"ovr", "ovo"}, default "ovr"
        More than two classes: each against the rest, or all pairs, as in `SVC`; on one basis
        either way.
    decision_function_shape : {"ovr", "ovo"}, default "ovr"
        With ``multi_class="ovo"``: whether :meth:`decision_function` has a column for each class,
        or for each pair.
    class_weight : dict, "balanced" or None, default None
        Multiplies C for the rows of a class; ``"balanced"`` in inverse proportion to their number,
        by their weights.
    search : {"pooled", "full"}, default "pooled"
        ``"pooled"``: choose from a pool by statistics on a sketch of the rows. ``"full"``: from all
        rows, by all rows. Up to 2 000 rows they are the same, unless ``pool_size`` is given.
    pool_size : int or "auto", default "auto"
        Candidates: ``2 * n_basis + 1000``.
    selection_rows : int, "auto" or None, default "auto"
        Rows that choose: two a candidate, or all for None.
    rounds : int, default 1
        Times a pooled search chooses; each further round keeps the chosen points and refreshes
        the rest of the pool.
    candidates : {"rows", "kmeans"} or items, default "rows"
        Where the pool comes from: rows, cluster centres, or points of your own.
    refine : int, "auto" or False, default "auto"
        Gradient steps that move the chosen points, kept if the objective falls. ``"auto"`` is 50
        for kernels with a known gradient (RBF, Matérn and others by object, ``"rbf"`` by name),
        dense rows of at most 256 features, and more than 2 000 rows; else 0.
    certificate : {"auto", "exact", "diagonal", None}, default "auto"
        ``"exact"`` takes one pass over all pairs of support vectors. ``"diagonal"`` takes no kernel
        value beyond k(x, x) but seldom says anything, and is None unless it shows the minimum to be
        at least half of what the model has. ``"auto"`` is exact up to 10 000 rows, diagonal beyond;
        :meth:`certify` computes the exact one later.
    gamma : float, "scale", "auto" or None, default None
        Of kernels given by name. None and ``"auto"`` are 1/n_features, ``"scale"`` divides that by
        the variance of X, as `SVC` does.
    coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    dtype : {"auto", "float64", "float32"}, default "auto"
        Type in which the rows' coordinates in the span are kept: float64 up to 128 MB, float32
        beyond. Above 1 GB they are computed anew whenever they are needed.
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
        Points z_j; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers, -1 where a point is not a row, as after moving.
    n_basis_ : int
        Number of basis functions.
    dual_coef_ : array of shape (n_columns, n_basis)
        β, a row for each column of the decision function; a single one for two classes.
    intercept_ : array of shape (n_columns,)
        b; where several are best, as for ``loss="hinge"`` and a small C, the one in the middle.
    support_ : array of int
        Rows with positive slack in some column: the support vectors of the machine.
    n_support_ : array of shape (n_classes,)
        How many of them are in each class.
    class_weight_ : array of shape (n_classes,)
        Factors of C.
    kernel_ : kernel
        The kernel in use.
    n_iter_ : int
        Steps of the solver.
    path_ : Path
        What the fit cost and why the basis ended; ``value`` and ``gap`` at the sizes that were
        solved, NaN elsewhere.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LowRankMachine._parameter_constraints,
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
        n_basis: int = 500,
        tol: float | None = None,
        multi_class: str = "ovr",
        decision_function_shape: str = "ovr",
        class_weight: Mapping[Any, float] | str | None = None,
        search: str = "pooled",
        pool_size: int | str = "auto",
        selection_rows: int | str | None = "auto",
        rounds: int = 1,
        candidates: Any = "rows",
        refine: int | str | bool = "auto",
        certificate: str | None = "auto",
        gamma: float | str | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        dtype: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            kernel,
            C=C,
            n_basis=n_basis,
            tol=tol,
            search=search,
            pool_size=pool_size,
            selection_rows=selection_rows,
            rounds=rounds,
            candidates=candidates,
            refine=refine,
            certificate=certificate,
            gamma=gamma,
            coef0=coef0,
            degree=degree,
            kernel_params=kernel_params,
            dtype=dtype,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.loss = loss
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.class_weight = class_weight

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
        self.classes_ = distinct_classes(names[weights > 0])
        # Labels that occur without weight only belong to no class, and their rows are absent.
        labels = class_numbers(names, self.classes_)
        there = weights > 0
        self.class_weight_ = class_weights(
            self.class_weight, self.classes_, labels[there], weights[there]
        )
        problem, weights = self._problem(labels, weights)
        targets = against_rest(labels, len(self.classes_))
        fitted, run = self._fit_machine(X, rows, targets, weights, problem)
        self.n_support_ = np.bincount(labels[self.support_], minlength=len(self.classes_))
        self._report_end(fitted, run)
        return self

    @lazily
    def decision_function(self, X: Any) -> Floats:
        """Values f + b.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_columns)
            For two classes those of the second; else a column for each class, or for each pair.
        """
        values = self._values(X)
        if values.shape[1] == 1:
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
        values = self._values(X)
        values = values if values.shape[1] == 1 else self._by_class(values)
        labels: NDArray[Any] = self.classes_[largest_class(values)]
        return labels

    def certify(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | None = None,
        weight: str | None = None,
    ) -> Certificate:
        """Bound the distance of this machine from the one of the full kernel on (X, y).

        Takes one product with the kernel matrix of the support vectors, O(n_support²) kernel
        values in O(n_support) memory, always in float64; for ``loss="hinge"`` also another solution
        in the span, since f does not tell the dual variables of rows on the margin.

        Parameters
        ----------
        X, y, sample_weight, target, weight
            The training data, as in :meth:`fit`; any other rows of the same classes will do.

        Returns
        -------
        certificate : Certificate
            Sums over the columns of the decision function; ``per_output`` has them apart.
        """
        check_is_fitted(self)
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        rows, X = rows_again(self, X)
        names = validate_labels(y)
        check_lengths(X, names)
        weights = validate_weights(sample_weight, rows.n_rows)
        labels = known_numbers(names, weights, self.classes_)
        problem, weights = self._problem(labels, weights)
        return self._certified(X, rows, problem, weights)

    def _solver(self) -> Solver:
        return newton_in_span if self.loss == "squared_hinge" else interior_in_span

    def _problem(self, labels: Indices, weights: Floats) -> tuple[MachineProblem, Floats]:
        """Columns of ±1 with their costs, and the weights of the rows, those of classes included.

        ``labels`` are positions in ``classes_``.
        """
        weights = weights * self.class_weight_[labels]
        costs = positive("C", self.C) * weights[:, None]
        if self.multi_class == "ovr" or len(self.classes_) == 2:
            targets = against_rest(labels, len(self.classes_))
            costs = np.broadcast_to(costs, targets.shape)
        else:
            targets, inside = against_each_other(labels, len(self.classes_))
            costs = np.where(inside, costs, 0.0)
        return MachineProblem(targets, costs, squared=self.loss == "squared_hinge"), weights

    def _by_class(self, values: Floats) -> Floats:
        """One column a class, or a single one for two."""
        if self.multi_class == "ovr" or len(self.classes_) == 2:
            return values
        return votes(values, len(self.classes_))
