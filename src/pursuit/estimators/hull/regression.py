"""Regression over an l1 ball of kernel functions or features (Z02 §4.1)."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions

from pursuit._types import Floats
from pursuit.estimators.hull.model import HullModel
from pursuit.estimators.sources import named_columns


class HullRegressor(HullModel):
    """Regression over an l1 ball: few terms of many, with a proof that none are missing.

    Minimises the mean of ℓ(y - Σ_j w_j p_j(x)) over ‖w‖₁ ≤ r, greedily (Z02 Algorithm 2.1): the
    atoms p_j are kernel functions at all training rows, features as they are, or outputs of a
    transformer. With squared errors this is the Lasso with its constraint in place of its penalty;
    features are not rescaled and there is no intercept.

    The certificate is about all these atoms, also where a fit works with a pool of them: once the
    pool has nothing left to offer, one pass prices the kernel functions at all rows, and those that
    promise most are the next pool. It holds whether or not ``n_terms`` stops the fit before the
    gap has closed.

    Parameters
    ----------
    atoms : {"kernel", "features"}, items or transformer, default "kernel"
        ``"kernel"``: kernel functions at the training rows; ``"features"``: the columns of X; an
        array or list of points: kernel functions there; an object with ``transform``, such as
        `SigmoidAtoms`: the columns it makes of X.
    kernel : kernel object, str, callable or list of these, default "rbf"
        As in `SparseGPRegressor`; an atom for every point and every kernel of a list. Kernels
        need not be positive definite here.
    loss : {"squared", "huber", "absolute", "quantile"}, default "squared"
        ℓ(u): u²; ½u² up to δ and δ abs(u) - ½δ² beyond; abs(u); or τu for u ≥ 0, (τ - 1)u below.
        The last two have a kink: their steps solve linear programmes, which let up to ten atoms in
        at a time, and no rate is known for them.
    quantile : float, default 0.5
        τ, between 0 and 1: ``loss="quantile"`` estimates this conditional quantile.
    radius : float or "cv", default "cv"
        r. ``"cv"`` takes the best of an increasing sequence by five-fold cross-validation, which
        scores with the loss itself; see `HullRegressorCV` for more say in it.
    n_terms : int, default 100
        Most atoms of nonzero weight.
    step : {"corrective", "joint", "frank-wolfe"}, default "corrective"
        ``"corrective"`` solves for all chosen atoms after every choice. ``"joint"`` is the
        published algorithm: the best atom and step together. ``"frank-wolfe"``: the atom with
        the steepest descent, then the best step. Losses with kinks take ``"corrective"`` only.
    tol : float or None, default 1e-6
        Stop when the certificate's ``relative_gap`` is at most this.
    pool_size : int or "auto", default "auto"
        Training rows whose kernel functions are worked with at a time: all up to 2 000 rows, else
        ``2 * n_terms + 1000`` drawn at random, and then as many as have the largest prices. To
        price all rows takes n_rows² kernel values, once per pool. Where that is too many, pass
        fewer points as ``atoms``: the certificate then says that it is about these.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    n_jobs : int or None, default None
        Threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of the pool and of the folds, and of a transformer whose own is None.
    verbose : int, default 0
        Print what was found.

    Attributes
    ----------
    radius_ : float
        r in use.
    n_terms_ : int
        Atoms of nonzero weight.
    dual_coef_ : array of shape (n_terms,)
        Their weights w_j.
    basis_ : items or None
        Their centres; None for features and precomputed kernels.
    basis_indices_ : array of int
        Row numbers of the centres (-1 for points of your own), or numbers of the features.
    kernel_indices_ : array of int
        Which kernel of a list each atom belongs to.
    coef_ : array of shape (n_atoms,)
        All weights, zeros included; for features and transformers only.
    path_ : Path
        Mean loss after each step, and the relative gap over all atoms where it was computed: at
        every step, or each time that all rows were priced.
    certificate_ : Certificate
        Mean loss, and a lower bound on what any w in the ball reaches on these rows with any of
        the atoms; ``over`` names them. The bound is Fenchel's: the Frank-Wolfe gap for smooth
        losses, the dual of the linear programme for those with kinks.
    rate_bound_ : Bound or None
        What Theorem 3.1 promised before the first step, for the first pool if there is more than
        one. None for losses with kinks: the theorem needs a second derivative.
    delta_ : float
        δ of ``loss="huber"``, which y fixes before the fit: 1.345 standard deviations, estimated by
        1.4826 times the weighted median of abs(y - median of y).
    radii_, mse_path_ : arrays of shape (n_radii,) and (n_radii, n_folds)
        Radii tried and their mean losses on rows left out, if the radius was not given.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    References
    ----------
    T. Zhang. A general greedy approximation algorithm with applications. NIPS 14, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import HullRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(500, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> model = HullRegressor(gamma=2.0, radius=20.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99 and model.certificate_.relative_gap < 1e-6)
    True
    >>> model.certificate_.over
    'the l1 ball of radius 20 of kernel functions at all 500 rows'
    >>> noisy = y + np.random.default_rng(1).normal(size=500)
    >>> high = HullRegressor(gamma=2.0, radius=5.0, loss="quantile", quantile=0.9).fit(X, noisy)
    >>> print(f"{np.mean(noisy <= high.predict(X)):.1f} of the rows are below")
    0.9 of the rows are below
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HullModel._parameter_constraints,
        "radius": [StrOptions({"cv"}), Interval(numbers.Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        atoms: Any = "kernel",
        *,
        kernel: Any = "rbf",
        loss: str = "squared",
        quantile: float = 0.5,
        radius: float | str = "cv",
        n_terms: int = 100,
        step: str = "corrective",
        tol: float | None = 1e-6,
        pool_size: int | str = "auto",
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.atoms = atoms
        self.kernel = kernel
        self.loss = loss
        self.quantile = quantile
        self.radius = radius
        self.n_terms = n_terms
        self.step = step
        self.tol = tol
        self.pool_size = pool_size
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> HullRegressor:
        """Choose atoms and their weights.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,)
            Targets.
        sample_weight : array of shape (n_rows,), optional
            Weights of the losses. A row of weight 0 is absent, also as a centre.
        target : str, optional
            The column of X that holds the targets, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : HullRegressor
        """
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        return self._fit(X, y, sample_weight)

    def _radii(self) -> tuple[Floats | None, Any] | float:
        return (None, None) if isinstance(self.radius, str) else float(self.radius)


class HullRegressorCV(HullModel):
    """`HullRegressor` with its radius chosen by cross-validation along a warm-started path.

    Parameters
    ----------
    atoms, kernel, loss, quantile
        As in `HullRegressor`.
    radii : array or None, default None
        Radii to try. None starts from a part of what the best single atom wants and is doubled
        until the error on rows left out has not fallen for a while.
    cv : int, splitter, iterable or None, default None
        Splits, as in scikit-learn; None is five random folds.
    n_terms, step, tol, pool_size : int, str, float, int
        As in `HullRegressor`.
    gamma, coef0, degree, kernel_params, n_jobs, random_state, verbose
        As in `HullRegressor`.

    Attributes
    ----------
    radius_ : float
        The radius with the least mean loss on rows left out.
    radii_, mse_path_ : arrays of shape (n_radii,) and (n_radii, n_folds)
        Radii tried and their mean losses.
    n_terms_, dual_coef_, basis_, basis_indices_, kernel_indices_, coef_
        As in `HullRegressor`, of the fit to all rows.
    path_, certificate_, rate_bound_, delta_
        As in `HullRegressor`, of the fit to all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from pursuit import HullRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = HullRegressorCV("features", random_state=0).fit(X, y - y.mean())
    >>> model.n_terms_ < X.shape[1] + 1
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HullModel._parameter_constraints,
        "radii": [None, "array-like"],
        "cv": ["cv_object"],
    }

    def __init__(
        self,
        atoms: Any = "kernel",
        *,
        kernel: Any = "rbf",
        loss: str = "squared",
        quantile: float = 0.5,
        radii: ArrayLike | None = None,
        cv: Any = None,
        n_terms: int = 100,
        step: str = "corrective",
        tol: float | None = 1e-6,
        pool_size: int | str = "auto",
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.atoms = atoms
        self.kernel = kernel
        self.loss = loss
        self.quantile = quantile
        self.radii = radii
        self.cv = cv
        self.n_terms = n_terms
        self.step = step
        self.tol = tol
        self.pool_size = pool_size
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> HullRegressorCV:
        """Choose the radius, then atoms and weights on all rows.

        Parameters
        ----------
        X, y, sample_weight, target, weight
            As in `HullRegressor.fit`.

        Returns
        -------
        self : HullRegressorCV
        """
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        return self._fit(X, y, sample_weight)

    def _radii(self) -> tuple[Floats | None, Any] | float:
        if self.radii is None:
            return None, self.cv
        radii = np.unique(column_or_1d(np.asarray(self.radii, dtype=np.float64)))
        if not len(radii) or not np.all((radii > 0) & np.isfinite(radii)):
            raise ValueError(f"radii must hold positive numbers, got {self.radii!r}.")
        return radii, self.cv
