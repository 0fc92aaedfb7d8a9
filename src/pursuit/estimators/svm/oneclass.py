"""Novelty detection by a one-class support vector machine in the span of a few kernel functions."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin, _fit_context
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.inputs import (
    rows_again,
    training_rows,
    validate_weights,
)
from pursuit.estimators.lazily import lazily
from pursuit.estimators.progress import with_callbacks
from pursuit.estimators.sources import named_columns
from pursuit.estimators.svm.fitting import Moving, Solver
from pursuit.estimators.svm.model import LowRankMachine
from pursuit.estimators.svm.oneclassproblem import OneClassProblem, one_class_in_span
from pursuit.rows import Sample

_RIDGE = 10.0
"""Of the choice: between 1 and 1000, the smallest gaps on the whole, from half to a quarter of
those that a basis for the kernel matrix itself leaves."""


class LowRankOneClassSVM(OutlierMixin, LowRankMachine):
    """One-class support vector machine in the span of a few kernel functions, with a certificate.

    Minimises ½‖f‖² + Σ s_i max(0, ρ - f(x_i)) - νρΣs_i over ρ and f = Σ_j β_j k(·, z_j) with at
    most ``n_basis`` terms: f is at least ρ on all but a share ν of the rows, and new rows with less
    are novel. The certificate bounds the distance to the minimum over *all* functions of the
    kernel, which scikit-learn's `OneClassSVM` finds.

    Parameters
    ----------
    kernel : str, callable or kernel object, default "rbf"
        A name of `pairwise_kernels`, a `sklearn.gaussian_process.kernels` object,
        ``"precomputed"``, or a function k(A, B) of two blocks of items. Used as given; White terms
        are ignored.
    nu : float, default 0.5
        ν, in (0, 1]: at most this share of the rows is outside, at least this share are support
        vectors.
    n_basis : int, default 500
        Most basis functions.
    tol : float or None, default None
        Grow the basis, where support vectors miss most, from 64 functions until the certificate's
        ``relative_gap`` is at most ``tol``, or ``n_basis`` is reached.
    search : {"pooled", "full"}, default "pooled"
        ``"pooled"``: choose from a pool by statistics on a sketch of the rows. ``"full"``: from all
        rows, by all rows. Up to 2 000 rows they are the same, unless ``pool_size`` is given. Rows
        are chosen whose functions add up to 1 on all rows as nearly as they can: where they do not,
        rows are rare.
    pool_size : int or "auto", default "auto"
        Candidates: ``2 * n_basis + 1000``.
    selection_rows : int, "auto" or None, default "auto"
        Rows that choose: two a candidate, or all for None.
    rounds : int, default 1
        Times a pooled search chooses; each further round keeps the chosen points and refreshes
        the rest of the pool.
    candidates : {"rows", "kmeans"} or items, default "rows"
        Where the pool comes from: rows, cluster centres, or points of your own.
    certificate : {"auto", "exact", "diagonal", None}, default "auto"
        ``"exact"`` takes one pass over all pairs of support vectors, ``"diagonal"`` no kernel value
        beyond k(x, x) but seldom says anything; then ``certificate_`` is None. ``"auto"`` is exact
        up to 10 000 rows, diagonal beyond; :meth:`certify` computes the exact one later.
    gamma : float, "scale", "auto" or None, default None
        Of kernels given by name. None and ``"auto"`` are 1/n_features, ``"scale"`` divides that by
        the variance of X, as `OneClassSVM` does.
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
        Their row numbers, -1 where a point is not a row.
    n_basis_ : int
        Number of basis functions.
    dual_coef_ : array of shape (1, n_basis)
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
        Steps of the solver.
    path_ : Path
        What the fit cost and why the basis ended.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: allowed
        for name, allowed in LowRankMachine._parameter_constraints.items()
        if name not in ("C", "refine")
    } | {"nu": [numbers.Real]}

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        nu: float = 0.5,
        n_basis: int = 500,
        tol: float | None = None,
        search: str = "pooled",
        pool_size: int | str = "auto",
        selection_rows: int | str | None = "auto",
        rounds: int = 1,
        candidates: Any = "rows",
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
        self.kernel = kernel
        self.nu = nu
        self.n_basis = n_basis
        self.tol = tol
        self.search = search
        self.pool_size = pool_size
        self.selection_rows = selection_rows
        self.rounds = rounds
        self.candidates = candidates
        self.certificate = certificate
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.dtype = dtype
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
        weight: str | None = None,
    ) -> Any:
        """Choose a basis and fit the machine in its span.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or source, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``.
        y : ignored
            There are no targets.
        sample_weight : array of shape (n_rows,), optional
            What a row counts for; a row of weight 0 is absent.
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
        fitted, run = self._fit_machine(X, rows, problem.targets, weights, problem, centred=False)
        self.offset_ = float(-fitted.solution.intercepts[0])
        self.n_support_ = np.array([len(self.support_)])
        self._report_end(fitted, run)
        return self

    @lazily
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
        return self.score_samples(X) - self.offset_

    @lazily
    def score_samples(self, X: Any) -> Floats:
        """f: the larger, the more like the training rows.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`decision_function`.

        Returns
        -------
        scores : array of shape (n_rows,)
        """
        return self._values(X)[:, 0]

    @lazily
    def predict(self, X: Any) -> Indices:
        """1 for rows like those of the training, -1 for novel ones.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`decision_function`.

        Returns
        -------
        labels : array of shape (n_rows,)
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1).astype(np.intp)

    def certify(
        self, X: Any, sample_weight: ArrayLike | None = None, *, weight: str | None = None
    ) -> Certificate:
        """Bound the distance of this machine from the one of the full kernel on X.

        Takes another solution in the span, and one product with the kernel matrix of the support
        vectors, O(n_support²) kernel values in O(n_support) memory, in float64.

        Parameters
        ----------
        X, sample_weight, weight
            The training data, as in :meth:`fit`; any other rows will do.

        Returns
        -------
        certificate : Certificate
        """
        check_is_fitted(self)
        X, _, sample_weight = named_columns(X, None, sample_weight, weight=weight)
        rows, X = rows_again(self, X)
        weights = validate_weights(sample_weight, rows.n_rows)
        return self._certified(X, rows, self._problem(weights), weights)

    def _problem(self, weights: Floats) -> OneClassProblem:
        if not isinstance(self.nu, numbers.Real) or not 0.0 < float(self.nu) <= 1.0:
            raise ValueError(f"nu must be a share of the rows, in (0, 1], got {self.nu!r}.")
        targets = np.ones((len(weights), 1))
        return OneClassProblem(targets, weights[:, None], squared=False, nu=float(self.nu))

    @property
    def _constants(self) -> Floats:
        """None: the intercept is the offset that f is compared with."""
        return np.zeros(1)

    def _solver(self) -> Solver:
        return one_class_in_span

    def _ridge(self) -> float:
        return _RIDGE

    def _moving(self, sample: Sample, rng: np.random.Generator) -> Moving | None:
        """A machine without squares has nothing to move points by."""
        return None

    @property
    def _strained(self) -> str:
        return f"1/nu={1.0 / self.nu:.3g}"
