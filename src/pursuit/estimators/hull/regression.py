"""Regression over an l1 ball of kernel functions or features (Z02 §4.1)."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from pursuit import limits
from pursuit._sklearn import Interval, StrOptions, fit_context, num_samples, safe_indexing
from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, Certificate
from pursuit.estimators.arguments import CHECKPOINT, EXECUTION, KERNEL, MAX_TIME, Search
from pursuit.estimators.fit_run import FitRun, guarded, interrupt
from pursuit.estimators.gradients import GradientModel
from pursuit.estimators.hull.atoms import StackedKernel, StoredAtoms
from pursuit.estimators.hull.balls import KINKED, LOSSES, BallProblem, residual_loss
from pursuit.estimators.hull.pools import BallFit, Pool, RowAtoms, choose_radius, pursue_ball
from pursuit.estimators.inputs import (
    NoGradientError,
    as_source,
    check_lengths,
    n_rows,
    named_columns,
    prediction_rows,
    reads_matrix,
    seeded_clone,
    training_rows,
    validate_held,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.kernel_model import (
    Expansion,
    KernelModel,
    ScoredRows,
    in_precision_of_rows,
)
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.scales import kept
from pursuit.estimators.span.search import cluster_centres, estimator_search, with_checked_points
from pursuit.gram import kernel_times
from pursuit.greedy import CostMeter, Path
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.objectives import HuberRows
from pursuit.objectives.hull import STEPS
from pursuit.rows import (
    RowSource,
    Sample,
    as_rows,
    distinct_rows,
    draw_rows,
    len_items,
    take_items,
)

_FOLDS = 5
"""Number of folds of ``radius="cv"``; more are slower and use more rows in each fit."""
_SEARCHES = {"pooled": ("pool_size", "candidates"), "full": ()}
"""Fields of `Search` that apply."""
_OPTIONAL = ("coef_", "delta_", "kernel_", "kernel_indices_", "mse_path_", "radii_", "transformer_")
"""Attributes that not every fit sets."""


class HullRegressor(
    ScoredRows, GradientModel, RegressorMixin, KernelModel, ReportedModel, BaseEstimator
):
    """Regression over an l1 ball: few terms of many, with a proof that none are missing.

    Minimises the mean of ℓ(y - Σ_j w_j p_j(x)) over ‖w‖₁ ≤ r by the greedy Algorithm 2.1 of Zhang
    (2002), "Z02". The atoms p_j are kernel functions at all training rows, the features, or the
    outputs of a transformer. With squared errors this is the Lasso with a constraint in place of
    its penalty. Features are not rescaled, and there is no intercept.

    The certificate is about all these atoms, also if a fit works with a pool of them: once the
    pool has nothing more to offer, one pass prices the kernel functions at all rows, and those
    that promise most form the next pool. It also holds if ``n_terms`` stops the fit before the gap
    has closed.

    Parameters
    ----------
    atoms : {"kernel", "features"} or transformer, default "kernel"
        ``"kernel"``: kernel functions at the training rows, or at the points that ``search``
        names. ``"features"``: the columns of X. An object with ``transform``, such as
        `SigmoidAtoms`: the columns that it makes of X.
    kernel : kernel object, str, callable or list of these, default "rbf"
        As in `SparseGPRegressor`, for ``atoms="kernel"`` only. A list gives an atom for every
        point and every kernel. Kernels need not be positive definite here.
    loss : {"squared", "huber", "absolute", "quantile"}, default "squared"
        ℓ(u): u²; ½u² up to δ and δ abs(u) - ½δ² beyond; abs(u); or τu for u ≥ 0, (τ - 1)u below.
        The last two have a kink: their steps solve linear programmes that add up to ten atoms at
        a time, and no rate is known for them.
    quantile : float, default 0.5
        τ, between 0 and 1: ``loss="quantile"`` estimates this conditional quantile.
    radius : float or "cv", default "cv"
        r. ``"cv"`` chooses it by five-fold cross-validation, which scores with the loss itself:
        radii are doubled until the error on rows left out has not fallen for a while. To compare
        radii of your own, use scikit-learn's ``GridSearchCV``.
    n_terms : int, default 100
        Largest number of atoms of nonzero weight.
    tol : float or None, default 1e-6
        Stop when the certificate's ``relative_gap`` is at most this.
    search : {"pooled", "full"} or Search, default "pooled"
        How kernel functions are searched, for ``atoms="kernel"`` only. ``"pooled"``: up to 2 000
        rows the fit works with all of them; beyond, with ``2 * n_terms + 1000`` rows drawn at
        random, then with as many of the largest prices. To price all rows takes n_rows² kernel
        values per pool. ``"full"``: all rows at once. ``Search("pooled", pool_size=...)`` sets
        the number of rows, and ``Search("pooled", candidates=points)`` uses the kernel functions
        at points of your own (or at cluster centres, ``candidates="kmeans"``); the certificate
        then says that it is about these.
    step : {"corrective", "joint", "frank-wolfe"}, default "corrective"
        ``"corrective"``: solve for all chosen atoms after every choice. ``"joint"``: the best
        atom and step together, as published. ``"frank-wolfe"``: the atom of steepest descent,
        then the best step. Losses with kinks take ``"corrective"`` only.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    max_time : float or None, default None
        Seconds after which the fit ends with the best model so far. Results then depend on the
        speed of the machine.
    checkpoint : path-like or None, default None
        Folder in which the fit records the chosen radius and the result of every pool. A fit that
        was killed continues from there when it is repeated with the same data and parameters.
    n_jobs : int or None, default None
        Number of threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of the pool and of the folds, and of a transformer whose own seed is None.
    verbose : int, default 0
        Whether to print the stages and their times.

    Attributes
    ----------
    radius_ : float
        The radius r.
    n_terms_ : int
        Number of atoms of nonzero weight.
    dual_coef_ : array of shape (n_terms,)
        Their weights w_j.
    basis_ : items or None
        Their centres; None for features and precomputed kernels.
    basis_indices_ : array of int
        Row numbers of the centres (-1 for points of your own), or numbers of the features.
    kernel_ : kernel object, str, callable or list of these
        The kernel of the fit; not for features and transformers.
    kernel_indices_ : array of int
        Number of the kernel, in a list of kernels, that each atom belongs to.
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
        What Theorem 3.1 of Z02 promised before the first step, for the first pool if there are
        several. None for losses with kinks: the theorem needs a second derivative.
    delta_ : float
        δ of ``loss="huber"``, which y fixes before the fit: 1.345 standard deviations, estimated by
        1.4826 times the weighted median of abs(y - median of y).
    radii_, mse_path_ : arrays of shape (n_radii,) and (n_radii, n_folds)
        Radii tried by ``radius="cv"`` and their mean losses on rows left out.
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

    n_terms_: int
    radius_: float
    basis_: Any
    basis_indices_: Indices
    dual_coef_: Floats
    path_: Path
    certificate_: Certificate | None
    rate_bound_: Bound | None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "atoms": "no_validation",
        "kernel": [str, callable, SklearnKernel, list, tuple],
        "loss": [StrOptions(set(LOSSES))],
        "quantile": [Interval(numbers.Real, 0, 1, closed="neither")],
        "radius": [StrOptions({"cv"}), Interval(numbers.Real, 0, None, closed="neither")],
        "n_terms": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "search": [str, Search],
        "step": [StrOptions(set(STEPS))],
        **KERNEL,
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
        **EXECUTION,
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
        tol: float | None = 1e-6,
        search: str | Search = "pooled",
        step: str = "corrective",
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        max_time: float | None = None,
        checkpoint: Any = None,
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
        self.tol = tol
        self.search = search
        self.step = step
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @guarded
    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> Self:
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
        search = self._check_parameters()
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        if y is None:
            raise ValueError(
                "requires y to be passed, but the target y is None: pass the targets as fit(X, y), "
                "or name their column by target=."
            )
        if self._uses_kernel:
            rows, X = training_rows(self, X)
        else:
            X = self._checked(X, self._transformer, reset=True)
            rows = _known_rows(X)
        y = column_or_1d(validate_targets(y), warn=True)
        check_lengths(X, y)
        weights = validate_weights(sample_weight, n_rows(X))
        present = np.flatnonzero(weights > 0)
        for name in _OPTIONAL:
            self.__dict__.pop(name, None)
        sample = Sample(rows, y[:, None], weights).take(present)
        loss = residual_loss(self.loss, self.quantile, y[present], weights[present])
        if isinstance(loss, HuberRows):
            self.delta_ = loss.delta
        problem = BallProblem(y[present], weights[present], loss, self.step, self.n_terms)
        with FitRun(self, sample, present) as run:
            run.same_matrix(X)
            if self._uses_kernel:
                kernel, pool = self._kernel_atoms(sample, X, search, run)
                meter = CostMeter(kernel)
            else:
                X = X if len(present) == n_rows(X) else safe_indexing(X, present)
                pool, meter = self._feature_atoms(X, problem, run), CostMeter()
            self.radius_ = self._find_radius(pool, problem, run)
            run.begin("choose", self.n_terms)
            self._keep(pursue_ball(problem, pool, self.radius_, self.tol, meter, run), present)
        if run.stopping:
            interrupt(f"the {self.n_terms_} terms found so far")
        return self

    @in_precision_of_rows
    def predict(self, X: Any) -> Floats:
        """Values of the fitted function.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        y : array of shape (n_rows,)
        """
        check_is_fitted(self)
        if hasattr(self, "coef_"):
            transformer = getattr(self, "transformer_", None)
            X = self._checked(X, transformer, reset=False)
            features = X if transformer is None else transformer.transform(X)
            return np.asarray(_matrix(features) @ self.coef_)
        rows, X = prediction_rows(self, X)
        total = np.zeros(rows.n_rows)
        with Workers(self.n_jobs) as workers:
            for number, kernel in enumerate(self._compiled_kernels(X)):
                mine = np.flatnonzero(self.kernel_indices_ == number)
                if len(mine):
                    in_memory = self.basis_ is not None
                    points = take_items(self.basis_ if in_memory else self.basis_indices_, mine)
                    weights = self.dual_coef_[mine, None]
                    total += kernel_times(rows, kernel, points, weights, workers)[:, 0]
        return total

    @property
    def _single_prediction(self) -> bool:
        return True

    def _mean_gradient(self, X: Any) -> Floats:
        """Gradients of f: shape (n_rows, n_features, 1)."""
        check_is_fitted(self)
        if hasattr(self, "transformer_"):
            raise NoGradientError(
                f"the derivative of {type(self.transformer_).__name__} by its inputs is not known: "
                "fit with atoms='kernel' or 'features'."
            )
        if hasattr(self, "coef_"):
            shape = num_samples(self._checked(X, None, reset=False)), *self.coef_.shape, 1
            return np.broadcast_to(self.coef_[:, None], shape).copy()
        weights, numbers = self.dual_coef_[:, None], self.kernel_indices_
        expansion = Expansion(self.basis_, weights, np.zeros(1), numbers, "y", single=True)
        return self._expansion_gradient(expansion, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = reads_matrix(self) and self._uses_kernel
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = not precomputed
        return tags

    @property
    def _uses_kernel(self) -> bool:
        return isinstance(self.atoms, str) and self.atoms == "kernel"

    def _kernels_used(self) -> list[Any]:
        return list(self.kernel_) if isinstance(self.kernel_, list | tuple) else [self.kernel_]

    def _check_parameters(self) -> Search:
        """Refuse parameters that do not go together; the search that ``search`` means."""
        if self.loss != "quantile" and self.quantile != 0.5:
            raise ValueError(
                f"quantile={self.quantile} is for loss='quantile', and loss is {self.loss!r}: pass "
                "loss='quantile', or leave quantile out."
            )
        if self.loss in KINKED and self.step != "corrective":
            raise ValueError(
                f"step={self.step!r} follows the gradient, and loss={self.loss!r} has kinks, where "
                "there is none: use step='corrective', which solves linear programmes."
            )
        named = isinstance(self.atoms, str) and self.atoms in ("kernel", "features")
        if not named and not hasattr(self.atoms, "transform"):
            raise ValueError(
                f"atoms must be 'kernel', 'features' or a transformer, got {self.atoms!r:.60}: for "
                "kernel functions at points of your own pass "
                "search=Search('pooled', candidates=points)."
            )
        if self._uses_kernel:
            if isinstance(self.kernel, list | tuple) and not len(self.kernel):
                raise ValueError("kernel is an empty list: pass at least one kernel.")
            return estimator_search(self, _SEARCHES)
        defaults = {"kernel": "rbf", "search": "pooled"}
        for name in ("kernel", *KERNEL, "search"):
            value, default = getattr(self, name), defaults.get(name)
            if not (isinstance(value, str) and value == default) and value is not default:
                raise ValueError(
                    f"{name}={value!r} is for atoms='kernel', and atoms is {self.atoms!r}: leave "
                    f"{name} out, or pass atoms='kernel'."
                )
        return Search()

    @property
    def _transformer(self) -> Any:
        return None if isinstance(self.atoms, str) else self.atoms

    def _checked(self, X: Any, transformer: Any, *, reset: bool) -> Any:
        """X as features, or as the transformer takes it."""
        if transformer is not None and as_source(X) is None:
            return validate_data(self, X, reset=reset, skip_check_array=True)
        return validate_held(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
        )

    def _feature_atoms(self, X: Any, problem: BallProblem, run: FitRun) -> Pool:
        """All columns of X, or of what the transformer makes of it."""
        kind = "features"
        if self._transformer is not None:
            self.transformer_ = seeded_clone(self.atoms, int(run.rng.integers(2**31)))
            X = self.transformer_.fit_transform(X, problem.y)
            kind = f"outputs of {type(self.atoms).__name__}"
        Z = _matrix(X)
        source = StoredAtoms.of_features(Z, problem.y, problem.weights, run.workers)
        return Pool(source, np.arange(Z.shape[1]), f"all {Z.shape[1]} {kind}")

    def _kernel_atoms(
        self, sample: Sample, X: Any, search: Search, run: FitRun
    ) -> tuple[CountingKernel, Pool]:
        """The kernel, and the first pool of its functions."""
        self.kernel_ = self._given_kernel()
        kernels = self._compiled_kernels(X)
        self._freeze_parameters()
        n, m = len(kernels), sample.n_rows
        kernel = kernels[0] if n == 1 else CountingKernel(StackedKernel(kernels))
        functions = "kernel functions" if n == 1 else f"functions of {n} kernels"
        size = search.pool_size or 2 * self.n_terms + 1000
        atoms = RowAtoms(sample, kernel, n, size, run.workers)
        if search.own_points or search.candidates == "kmeans":
            search = with_checked_points(self, search)
            if search.own_points:
                points, name = search.candidates, "points given"
            else:
                points = cluster_centres(sample, min(size, m), run.rng)
                name = "cluster centres"
            over = f"{functions} at the {len_items(points)} {name}"
            return kernel, Pool(atoms, np.full(len_items(points) * n, -1), over, points)
        over = f"{functions} at all {m} rows"
        small = search.pool_size is None and m <= limits.SMALL_ROWS
        if small or search.kind == "full" or size >= m:
            # Equal rows have the same kernel functions.
            return kernel, atoms.pool(distinct_rows(sample.rows), over, complete=True)
        return kernel, atoms.pool(draw_rows(m, size, run.rng), over)

    def _find_radius(self, pool: Pool, problem: BallProblem, run: FitRun) -> float:
        if not isinstance(self.radius, str):
            return float(self.radius)
        m = len(problem.y)
        if m < 2:
            raise ValueError(
                "cross-validation needs at least 2 rows, got 1 sample: pass a radius instead."
            )

        def choose() -> tuple[Floats, Floats, float]:
            order = run.rng.permutation(m)
            folds = [np.sort(part) for part in np.array_split(order, min(_FOLDS, m))]
            splits = [(np.setdiff1d(order, part), part) for part in folds]
            return choose_radius(problem, pool.source, splits, self.tol, run)

        self.radii_, self.mse_path_, radius = run.stage("radius", choose)
        return radius

    def _keep(self, fit: BallFit, present: Indices) -> None:
        """Set the attributes of the fitted model."""
        used = np.flatnonzero(fit.coefficients)
        self.certificate_, self.rate_bound_ = kept(fit.certificate), fit.rate_bound
        self.n_terms_, self.dual_coef_ = len(used), fit.coefficients[used]
        self.path_, self.basis_indices_ = fit.path, fit.pool.labels[used]
        points = fit.pool.points
        if points is None:
            self.basis_, self.coef_ = None, fit.coefficients
            return
        if fit.pool.labels[0] >= 0:
            self.path_ = replace(fit.path, index=present[fit.path.index])
            self.basis_indices_ = present[self.basis_indices_]
        self.kernel_indices_ = used // len_items(points)
        used = used % len_items(points)
        self.basis_ = None if reads_matrix(self) else take_items(points, used)


def _matrix(X: Any) -> Any:
    """Features as float64, CSR kept."""
    if hasattr(X, "tocsr"):
        return X.tocsr().astype(np.float64)
    return np.asarray(X, dtype=np.float64)


def _known_rows(X: Any) -> RowSource:
    """Rows of features, or of whatever a transformer takes, by which a checkpoint knows X."""
    if hasattr(X, "tocsr"):
        return as_rows(X.tocsr())
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf":
        return as_rows(X)
    items = np.asarray(X, dtype=object)
    return as_rows(items.tolist() if len(items) == num_samples(X) else list(X))
