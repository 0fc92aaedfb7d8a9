"""Support vector regression in the span of a few kernel functions."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats
from pursuit.bounds import Certificate
from pursuit.estimators.inputs import (
    check_lengths,
    positive,
    rows_again,
    training_rows,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.lazily import ScoredRows, lazily
from pursuit.estimators.progress import with_callbacks
from pursuit.estimators.sources import named_columns
from pursuit.estimators.svm.fitting import Solver
from pursuit.estimators.svm.model import LowRankMachine
from pursuit.estimators.svm.problem import MachineProblem
from pursuit.estimators.svm.solving import interior_in_span, newton_in_span

_SQUARED = "squared_epsilon_insensitive"


class LowRankSVR(ScoredRows, RegressorMixin, LowRankMachine):
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
        ``"precomputed"``, or a function k(A, B) of two blocks of items. Used as given; White terms
        are ignored.
    C : float, default 1.0
        Cost of the losses, as in `SVR` and `LinearSVR`.
    epsilon : float, default 0.1
        Errors up to this, in units of y, cost nothing.
    loss : {"squared_epsilon_insensitive", "epsilon_insensitive"}
        The squared loss, the default, is solved by Newton's method, in which only rows outside the
        tube take part; ``"epsilon_insensitive"``, the loss of `SVR`, by an interior point method,
        which is slower but bears outliers.
    n_basis : int, default 500
        Most basis functions.
    tol : float or None, default None
        Grow the basis, where support vectors miss most, from 64 functions until the certificate's
        ``relative_gap`` is at most ``tol``, or ``n_basis`` is reached.
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
        ``"exact"`` takes one pass over all pairs of support vectors, ``"diagonal"`` no kernel value
        beyond k(x, x) but seldom says anything; then ``certificate_`` is None. ``"auto"`` is exact
        up to 10 000 rows, diagonal beyond; :meth:`certify` computes the exact one later.
    gamma : float, "scale", "auto" or None, default None
        Of kernels given by name. None and ``"auto"`` are 1/n_features, ``"scale"`` divides that by
        the variance of X, as `SVR` does.
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
    basis_ : items
        Points z_j; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers, -1 where a point is not a row, as after moving.
    n_basis_ : int
        Number of basis functions.
    dual_coef_ : array of shape (n_outputs, n_basis)
        β.
    intercept_ : array of shape (n_outputs,)
        b; where several are best, as in a tube that holds all rows, the one in the middle.
    support_ : array of int
        Rows on or outside the tube in some output: the support vectors of the machine.
    n_support_ : array of shape (1,)
        Their number.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LowRankMachine._parameter_constraints,
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
        n_basis: int = 500,
        tol: float | None = None,
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
        self.epsilon = epsilon
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
        """Choose a basis and fit the machine in its span.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or source, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            Targets.
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
        self._single_output = targets.ndim == 1
        Y = targets.reshape(len(targets), -1)
        mean = (weights / weights.sum()) @ Y
        problem = self._problem(Y - mean, weights)
        fitted, run = self._fit_machine(X, rows, problem.targets, weights, problem)
        self.intercept_ = self.intercept_ + mean
        self.n_support_ = np.array([len(self.support_)])
        self._report_end(fitted, run)
        return self

    @lazily
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
        values = self._values(X)
        return values[:, 0] if self._single_output else values

    def certify(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> Certificate:
        """Bound the distance of this machine from the one of the full kernel on (X, y).

        Takes one product with the kernel matrix of the support vectors, O(n_support²) kernel
        values in O(n_support) memory, always in float64; for ``loss="epsilon_insensitive"`` also
        another solution in the span, since f does not tell the dual variables of rows on the rim of
        the tube.

        Parameters
        ----------
        X, y, sample_weight, target, weight
            The training data, as in :meth:`fit`; any other rows will do.

        Returns
        -------
        certificate : Certificate
            Sums over the outputs; ``per_output`` has them apart.
        """
        check_is_fitted(self)
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
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

    def _solver(self) -> Solver:
        return newton_in_span if self.loss == _SQUARED else interior_in_span

    def _problem(self, Y: Floats, weights: Floats) -> MachineProblem:
        costs = np.broadcast_to(positive("C", self.C) * weights[:, None], Y.shape)
        epsilon = positive("epsilon", self.epsilon)
        return MachineProblem(Y, costs, squared=self.loss == _SQUARED, epsilon=epsilon)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
