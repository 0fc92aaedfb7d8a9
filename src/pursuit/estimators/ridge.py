"""Zhang's sparse kernel regression algorithms (Z03)."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import (
    IN_EXPECTATION,
    Bound,
    Certificate,
    greedy_rate_bound,
    orthogonalities,
    simple_rate_bound,
    span_rate_bound,
)
from pursuit.estimators.arguments import (
    CHECKPOINT,
    DTYPE,
    EXECUTION,
    KERNEL,
    MAX_TIME,
    SEARCH,
    Search,
    resolve_search,
)
from pursuit.estimators.fit_run import CallbackSupportMixin, FitRun, with_callbacks
from pursuit.estimators.gradients import GradientModel
from pursuit.estimators.inputs import (
    check_positive_definite,
    named_columns,
    positive,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.intervals import IntervalModel
from pursuit.estimators.kernel_model import ScoredRows, in_precision_of_rows
from pursuit.estimators.parts import PartsModel
from pursuit.estimators.scales import in_range
from pursuit.estimators.span.certify import KINDS
from pursuit.estimators.span.dense import (
    EXACT_ROWS,
    DenseProblem,
    check_dense,
    reference_bound,
    reference_vectors,
)
from pursuit.estimators.span.gaps import filled, fit_groups
from pursuit.estimators.span.model import SpanModel, has_truncations
from pursuit.estimators.span.search import (
    FULL_LIMIT,
    RowSplit,
    SearchPlan,
    choose_basis,
    fit_basis,
)
from pursuit.estimators.span.steps import StepFit, fit_penalised, fit_random, fit_steps
from pursuit.gram import kernel_diagonal
from pursuit.greedy import (
    Problem,
    SpanFit,
    size_grid,
    subset_size,
)
from pursuit.linalg import PredictiveVariance, StepwiseSolution, Workers
from pursuit.rows import has_gaps
from pursuit.tuning import LeftOut

_SEARCH = {"greedy": "full", "kappa": "fresh", "random": "pooled", "subspace": "full"}
"""The kind of search that each method is."""


class SparseKernelRidge(
    CallbackSupportMixin,
    ScoredRows,
    GradientModel,
    PartsModel,
    IntervalModel,
    RegressorMixin,
    SpanModel,
):
    """Kernel ridge regression with few kernel functions, by four algorithms with proved rates.

    Minimises P(f) = ½Σw(y - f)² + ½α‖f‖² over f = Σ_j β_j k(·, x_j) with at most ``n_basis`` terms,
    as :class:`~sklearn.kernel_ridge.KernelRidge` does over all of them, and says how fast this must
    converge (``rate_bound_``) and how far the result can be from the full solution
    (``certificate_``). With ``penalty="l1"`` it minimises ½Σw(y - f)² + αΣ|β_j| instead.

    Parameters
    ----------
    kernel : str, kernel object or callable, default "rbf"
        A name of `pairwise_kernels` (γ = 1/n_features by default), ``"precomputed"``, a
        `sklearn.gaussian_process.kernels` object, used as it is, or a function k(A, B) of two
        blocks of items. White terms are added to ``alpha``.
    alpha : float, default 1.0
        Ridge σ² = mλ, as in scikit-learn's `KernelRidge`. Never divided by the number of rows or
        by their weights. With ``penalty="l1"`` it is mλ/2 for the λ of equation (2) of Zhang
        (2002b), in short Z03, and m times the ``alpha`` of scikit-learn's `Lasso`.
    penalty : {"l2", "l1"}, default "l2"
        ``"l1"`` penalises the coefficients by their absolute values (Z03 eq. 2, basis pursuit):
        those of most rows are exactly zero at the minimum, however large ``n_basis``. Each step
        takes the row whose kernel function correlates most with the residual, over all rows, and
        minimises over all rows taken, so that ``refit`` changes nothing. For ``method="greedy"``
        and one output alone; such a model has no ``truncated``, ``grow``, ``certify``,
        ``rate_bounds`` or ``partial_fit``.
    method : {"greedy", "kappa", "random", "subspace"}, default "greedy"
        ``"greedy"`` (Algorithm 1): each step goes to the best function βf + αk(·, x_i) over all
        rows i; a row may be taken again. It costs O(m) per step and a product with the kernel
        matrix per new function; the matrix is kept in memory up to 1 GiB (11 585 rows), and
        evaluated again for each product beyond; linear kernels use their features instead.
        ``"kappa"`` (Algorithm 3): the same among κ random rows, in one pass over the rows per step
        and O(m) memory. ``"random"`` (Algorithm 2): the best function in the span of random rows.
        ``"subspace"`` (Algorithm 4): each step adds the row whose span is best, O(m²) memory.
    refit : bool or "auto", default "auto"
        Whether ``"greedy"`` and ``"kappa"`` move to the best function in the span of the rows
        chosen after every step, in O(m n_basis) memory. The others always do. Without it they
        approach the minimum by about 1/steps, and take one output only. ``"auto"`` refits several
        outputs, what :meth:`partial_fit` begins, and where ``n_basis`` is enough for all rows:
        then the model is that of `KernelRidge`.
    n_basis : int, default 100
        Largest number of basis functions; rows taken again are not counted again.
        ``path_.stop_reason`` says why the choice ended with fewer.
    search : "auto" or Search, default "auto"
        ``Search("fresh", pool_size=κ)`` sets the number κ of candidates per step of ``"kappa"``;
        by default 59, one of which is in the best twentieth with probability .95, or all rows
        where there are fewer. The other methods have no such choice.
    tol : float or None, default None
        Stop when the certificate's ``relative_gap`` is at most ``tol``.
    certificate : {"auto", None, "published", "dense", "scaled", "hybrid", "grouped", \
            "two-level", "pcg"}, default "auto"
        Which proof of optimality ``fit`` computes: ``"auto"`` is ``"hybrid"`` up to 10 000
        rows. Of more rows a sample tells whether ``"grouped"`` should say something; else, with
        ``tol`` and for rows on a cluster it is ``"published"``. :meth:`certify` explains the kinds
        and computes any later.
    gamma, coef0, degree : float, optional
        Parameters of kernels given by name, as in `pairwise_kernels`.
    kernel_params : dict, optional
        Further parameters of a named or callable kernel.
    max_time : float or None, default None
        Seconds after which the best model so far is returned, with an ``"auto"`` certificate only
        if a third of them remains. The result then depends on the speed of the machine. The one
        pass of ``"random"`` is always finished.
    checkpoint : path-like or None, default None
        A folder in which the fit records the chosen functions and, for ``"random"``, the sums of
        its pass. After a crash or Ctrl-C, the same call with the same data goes on from there to
        the identical model.
    dtype : {"float64", "float32"}, default "float64"
        Type of the kernel tiles of the pass of ``"random"``; the other methods take float64 only.
        float32 is used where its rounding is negligible, with refined coefficients, else float64.
    n_jobs : int or None, default None
        Number of threads; None uses as many as BLAS would. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of everything random.
    verbose : int, default 0
        Print the stages of the fit with their times.

    Attributes
    ----------
    basis_ : items
        Basis points in the order of choice; None for a precomputed kernel.
    basis_indices_ : array of int
        Their row numbers.
    n_basis_ : int
        Number of basis functions.
    n_steps_ : int
        Number of steps; more than ``n_basis_`` where rows were taken again.
    dual_coef_ : array of shape (n_basis,) or (n_basis, n_outputs)
        β.
    kernel_ : kernel
        The kernel in use.
    noise_ : float
        σ² in use: ``alpha`` and the kernel's White terms.
    path_ : Path
        What each basis function brought and cost, and why the choice ended; for
        ``penalty="l1"`` an entry per step, as functions may be taken back and taken again.
    certificate_ : Certificate or None
        Upper and lower value of the minimum; for ``penalty="l1"`` that over all coefficient vectors
        on all rows.
    coverage_guarantee_ : CoverageGuarantee or None
        What :meth:`predict_interval` guarantees, after :meth:`conformalize`; None before, and after
        anything that changes the model.
    rate_bound_ : Bound or None
        Z03's Theorem 5.1 for every size, from what the fit knows; None for ``penalty="l1"``, for
        which Z03 proves no rate.
    n_features_in_ : int
        Number of features, for two-dimensional numeric input.

    References
    ----------
    T. Zhang. Approximation bounds for some sparse kernel regression algorithms. Neural Computation
    14(12), 2002.

    Examples
    --------
    >>> from pursuit import SparseKernelRidge
    >>> from pursuit.datasets import make_robot_arm
    >>> arm = make_robot_arm(1000, random_state=0)
    >>> X, y = arm.data, arm.target
    >>> model = SparseKernelRidge(gamma=0.1, method="kappa", refit=True, random_state=0).fit(X, y)
    >>> model.predict(X[:2]).shape
    (2,)
    >>> model.truncated(20).n_basis_
    20
    """

    n_basis: int
    _learned = False

    _frozen = ("penalty", "method", "refit")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable, SklearnKernel],
        "alpha": [numbers.Real],
        "penalty": [StrOptions({"l1", "l2"})],
        "method": [StrOptions(set(_SEARCH))],
        "refit": ["boolean", StrOptions({"auto"})],
        "n_basis": [Interval(numbers.Integral, 1, None, closed="left")],
        "search": SEARCH,
        "tol": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "certificate": [None, StrOptions({"auto", *KINDS})],
        **KERNEL,
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
        "dtype": DTYPE,
        **EXECUTION,
    }

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        alpha: float = 1.0,
        penalty: str = "l2",
        method: str = "greedy",
        refit: bool | str = "auto",
        n_basis: int = 100,
        search: str | Search = "auto",
        tol: float | None = None,
        certificate: str | None = "auto",
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        max_time: float | None = None,
        checkpoint: Any = None,
        dtype: Any = "float64",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.penalty = penalty
        self.method = method
        self.refit = refit
        self.n_basis = n_basis
        self.search = search
        self.tol = tol
        self.certificate = certificate
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
        """Choose basis functions among the rows and fit them.

        Parameters
        ----------
        X : array, CSR, data frame, list of items, path or table, of n_rows rows
            Training rows; the n_rows x n_rows kernel matrix when ``kernel="precomputed"``. Whatever
            :func:`open_table` takes is read in blocks.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            Targets; several outputs need a method that refits. Predictions of a method that refits
            have the shape of y. NaN in some of several outputs is a target that was not observed:
            each output is fitted to the rows that have it.
        sample_weight : array of shape (n_rows,), optional
            Weights of the squared errors. A row of weight 0 is absent.
        target : str or list of str, optional
            The column, or columns, of X that hold the targets, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : SparseKernelRidge
        """
        positive("alpha", self.alpha)
        self._check_tol()
        self._check_penalty()
        if np.dtype(self.dtype) != np.float64 and self.method != "random":
            raise ValueError(
                f"dtype={self.dtype!r} is for the pass of method='random', and this is "
                f"method={self.method!r}: leave dtype at 'float64'."
            )
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        X, sample, present = self._take_in(X, y, sample_weight, normalize=False)
        per_step = self._candidates_per_step(len(present))
        self.kernel_ = self._given_kernel()
        kernel, white = self._compile(self.kernel_, X)
        if white and self.penalty == "l1":
            raise ValueError(
                "kernel has a White term, which adds to a ridge, and penalty='l1' has none: leave "
                "the term out."
            )
        self.noise_ = float(self.alpha) + white
        with FitRun(self, sample, present, n_stages=6) as run:
            run.same_matrix(X)
            problem = run.problem(kernel, self.noise_)
            check_positive_definite(kernel, sample, run.rng)
            gaps = has_gaps(sample.targets)
            if gaps:
                self._refuse_tol()
                problem = filled(problem)
            fitted, certificate = run.stage("choose", lambda: self._search(problem, run, per_step))
            self._calibrations = {}
            problem = self._as_far_as_read(fitted, problem)
            self._store(fitted, present, problem)
            self._largest = _largest(problem)
            if gaps:
                assert isinstance(fitted, SpanFit)
                problem = run.problem(kernel, self.noise_)
                self._store_groups(fit_groups(fitted, problem))
                if self._may_certify(run):
                    self._certify_groups(problem)
            elif certificate is not None or self._may_certify(run):
                self._certify_fit(fitted, certificate, problem, run)
        self._report_end(run, present)
        return self

    @in_precision_of_rows
    def predict(self, X: Any) -> Floats:
        """Predict the function at the rows.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        y : array of shape (n_rows,) or (n_rows, n_outputs)
        """
        return self._as_fitted(self._values(X))

    def _left_out_variance(self, left: LeftOut) -> Floats:
        """That of the process with noise α, times what its left-out errors say of its scale."""
        variance = left.variance(PredictiveVariance(self.noise_))[:, None]
        weights = left.weights if left.weights.any() else np.ones_like(left.weights)
        return variance * (weights @ left.error**2) / (weights @ variance)

    @property
    def n_steps_(self) -> int:
        """Number of steps taken."""
        check_is_fitted(self)
        if self._of_fit("penalty") == "l1":
            return len(self.path_)
        return int(self._steps_per_size().max(initial=0))

    @property
    def rate_bound_(self) -> Bound | None:
        """Theorem 5.1 for every size, with P of this model for P_min and, for ΔP₀, P(0).

        P(0) less the certificate's lower value where there is one. In the units of ``path_.value``.
        None for ``penalty="l1"``: the theorem is about the ridge, and Z03 §2 has rates for greedy
        methods, but not for the minimum of eq. (2) itself.
        """
        check_is_fitted(self)
        if self._of_fit("penalty") == "l1" or self._parts:
            return None
        lower = 0.0 if self.certificate_ is None else max(self.certificate_.lower, 0.0)
        return self._rate_bound(self._value, lower)

    @available_if(has_truncations)
    @in_range
    def rate_bounds(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        steps: int = 20,
        reference: Any = None,
    ) -> list[Bound]:
        """Zhang's bounds on P(f) - P_min along this path, with P_min enclosed.

        P_min is enclosed by conjugate gradients, and every bound is computed for the worse end:
        Theorem 5.1 with these numbers, the same from what a fit knows without them, Corollary 5.1
        and, for ``method="subspace"`` and up to 2 000 rows, Theorem 6.1 with ρ. The latter compares
        with sparse functions f̄: first with the path's own, which says nothing new of sizes that
        they have themselves, and then with those of ``reference``.

        Parameters
        ----------
        X, y, sample_weight
            The training data, as in :meth:`fit`.
        steps : int, default 20
            Conjugate-gradient steps, a product with the kernel matrix each.
        reference : array of shape (n_rows,) or (n_rows, n_outputs), or list of arrays, optional
            Coefficients of f̄ = Σ_j a_j k(·, x_j) on the training rows, such as ``dual_coef_`` of a
            `KernelRidge`, or a sparse vector: Theorem 6.1 beside it is the last bound. Of several,
            the best is taken at every size. Only for ``method="subspace"``.

        Returns
        -------
        bounds : list of Bound
            Their ``trivial`` is the path's own distance from the minimum, as far as it is known.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.kernel_ridge import KernelRidge
        >>> from pursuit import SparseKernelRidge
        >>> X = np.arange(30.0)[:, None]
        >>> y = np.where(X[:, 0] < 3, 5.0, 0.1)
        >>> model = SparseKernelRidge(gamma=2.0, method="subspace", n_basis=20).fit(X, y)
        >>> full = KernelRidge(kernel="rbf", gamma=2.0, alpha=1.0).fit(X, y).dual_coef_
        >>> few = np.where(X[:, 0] < 3, full, 0.0)
        >>> beside = model.rate_bounds(X, y, reference=[full, few])[-1]
        >>> bool(beside.value[-1] < 0.2 * beside.value[0])
        True
        """
        self._refuse_gaps("rate_bounds")
        X, y, sample_weight = named_columns(X, y, sample_weight)
        vectors = self._references(reference, y, sample_weight)
        found = self.certify(X, y, sample_weight, kind="pcg", steps=steps)
        lower, least = found.lower, min(found.upper, self._value)
        if found.minimum_upper_per_output is not None:
            least = min(least, float(found.minimum_upper_per_output.sum()))
        known = self.path_.value - lower
        numbers = {**self._theory(), "trivial": known}
        simple = simple_rate_bound(initial=self._initial, **numbers)
        blind = self._rate_bound(self._value, 0.0, known, "from P(0) and this P")
        bounds = [self._rate_bound(least, lower, known, "from P_min"), blind, simple]
        few = self._sums["n_rows"] <= EXACT_ROWS
        if self._of_fit("method") == "subspace" and self.n_basis_ and few:
            bounds += self._span_bounds(X, y, sample_weight, known, lower, vectors)
        return bounds

    @property
    def _refits(self) -> bool:
        """Whether the model is the best in its span."""
        if self._of_fit("penalty") == "l1":
            return False
        return bool(self._of_fit("refit")) or self._of_fit("method") in ("random", "subspace")

    @property
    def _takes_outputs(self) -> bool:
        """Whether a fit takes several outputs."""
        return self.penalty == "l2" and (bool(self.refit) or self.method in ("random", "subspace"))

    @property
    def _initial(self) -> float:
        """P(0)."""
        return 0.5 * float(self._sums["target_norms"].sum())

    @property
    def _value(self) -> float:
        """P of this model."""
        return float(self.path_.value[-1]) if len(self.path_) else self._initial

    def _steps_per_size(self) -> Indices:
        if not self._parts and isinstance(self._solution, StepwiseSolution):
            return self._solution.steps
        return np.arange(1, self.n_basis_ + 1)

    def _theory(self) -> dict[str, Any]:
        """Arguments that the rates of Section 5 share."""
        return {
            "size": np.arange(1, self.n_basis_ + 1),
            "steps": self._steps_per_size(),
            "largest": self._largest,
            "noise": self.noise_,
            "n_rows": self._sums["n_rows"],
            "caveat": IN_EXPECTATION if self._of_fit("method") in ("random", "kappa") else "",
        }

    def _rate_bound(
        self, least: float, lower: float, known: Floats | None = None, source: str = ""
    ) -> Bound:
        """Theorem 5.1 from an upper and a lower value of P_min."""
        theory = self._theory()
        theory["caveat"] = ", ".join(filter(None, [source, theory["caveat"]]))
        return greedy_rate_bound(
            initial_gap=self._initial - lower,
            minimum=least,
            trivial=self.path_.value - lower if known is None else known,
            **theory,
        )

    def _references(self, reference: Any, y: Any, sample_weight: ArrayLike | None) -> list[Floats]:
        """Coefficients of functions to compare with, checked."""
        check_is_fitted(self)
        if reference is None:
            return []
        if self._of_fit("method") != "subspace":
            raise ValueError(
                f"reference is for method='subspace', and this is method={self.method!r}: Theorem "
                "6.1 is about Algorithm 4. Fit with method='subspace', or leave reference out."
            )
        present = np.flatnonzero(validate_weights(sample_weight, len(y)) > 0)
        check_dense("reference", len(present))
        return reference_vectors(reference, present, len(y), len(self._scale.mean))

    def _span_bounds(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        known: Floats,
        lower: float,
        vectors: list[Floats],
    ) -> list[Bound]:
        """Theorem 6.1, beside the path's own functions of several sizes, and beside others."""
        present = np.flatnonzero(validate_weights(sample_weight, len(y)) > 0)
        with Workers(self.n_jobs) as workers:
            problem = self._problem(X, y, sample_weight, workers)
            dense = DenseProblem.of(problem)
        chosen = self._positions(present, problem.sample)
        n_fitted = int(self._sums["n_rows"])
        if len(present) != n_fitted or np.any(chosen < 0):
            found = f"{len(present)} rows" if len(present) != n_fitted else "other rows"
            raise ValueError(
                f"X must hold the {n_fitted} rows of the fit in the same order, got {found}: pass "
                "the training data, and a reference with coefficients on them."
            )
        every, initial_gap = np.arange(1, self.n_basis_ + 1), self._initial - lower
        sizes = np.array(size_grid(self.n_basis_))
        own = span_rate_bound(
            every,
            n_terms=sizes,
            rho=orthogonalities(dense.H, [chosen[:n] for n in sizes]),
            initial_gap=initial_gap,
            gaps=known[sizes - 1],
            trivial=known,
        )
        if not vectors:
            return [own]
        beside = reference_bound(
            every, dense, vectors, lower=lower, initial_gap=initial_gap, trivial=known
        )
        return [own, beside]

    def _plan(self, n_rows: int) -> SearchPlan:
        many = n_rows > FULL_LIMIT
        if many and self._of_fit("method") == "subspace":
            raise ValueError(
                f"method='subspace' holds an m x m matrix and takes at most {FULL_LIMIT} rows, got "
                f"{n_rows}: use method='kappa' with refit=True."
            )
        return SearchPlan(
            n_basis=self.n_basis,
            search=Search("fresh" if many else _SEARCH[self._of_fit("method")]),
            tol=self.tol,
            certificate=self._certificate_kind(n_rows),
            max_time=self.max_time,
            dtype=self.dtype,
        )

    def _search(
        self, problem: Problem, run: FitRun, per_step: int | None
    ) -> tuple[SpanFit | StepFit, Certificate | None]:
        """Run the method."""
        m = problem.sample.n_rows
        plan = self._plan(m)
        if self.penalty == "l1":
            return fit_penalised(plan, problem, interrupted=run.interrupted, begin=run.begin)
        if self.method == "random":
            return fit_random(plan, problem, interrupted=run.interrupted, begin=run.begin)
        if self.method == "subspace":
            chosen = choose_basis(plan, problem, RowSplit.none_reserved(m), run)
            return fit_basis(chosen, problem, plan.dtype, run)
        return fit_steps(
            plan,
            problem,
            subset_size=per_step,
            refitted=self._of_fit("refit"),
            interrupted=run.interrupted,
            begin=run.begin,
        )

    def _targets(self, y: Any) -> Floats:
        """Checked targets; a single column where only one output can be fitted.

        What ``refit="auto"`` has come to is kept as the parameter of this fit.
        """
        targets = validate_targets(y, gaps=self._takes_outputs)
        if self.refit == "auto":
            refits = targets.size > len(targets) or self.n_basis >= len(targets)
            self._fitted_parameters = {"refit": refits or self._awaits_rows}
        if targets.ndim == 1 or self._refits:
            return targets
        if targets.shape[1] > 1 and self.penalty == "l1":
            raise ValueError(
                f"y has {targets.shape[1]} outputs, and with penalty='l1' each has rows of its own:"
                " fit a model for each, or use sklearn.multioutput.MultiOutputRegressor."
            )
        if targets.shape[1] > 1:
            raise ValueError(
                f"y has {targets.shape[1]} outputs, and method={self.method!r} scales one function "
                "as a whole at every step: use refit=True, or method='random' or 'subspace'."
            )
        return np.asarray(column_or_1d(targets, warn=True))

    def _check_penalty(self) -> None:
        if self.penalty == "l2":
            return
        if self.method != "greedy":
            raise ValueError(
                f"method={self.method!r} is an algorithm for the l2 penalty: penalty='l1' looks at "
                "all rows at every step, which is method='greedy'."
            )
        if self.certificate not in (None, "auto"):
            raise ValueError(
                f"certificate={self.certificate!r} is a proof for the l2 penalty: penalty='l1' has "
                "one of its own, with certificate='auto', or none, with None."
            )

    @property
    def _full_model(self) -> str:
        if self._of_fit("penalty") == "l1":
            return "the kernel lasso on all rows"
        return "kernel ridge regression on all rows"

    @property
    def _truncations_refused(self) -> str | None:
        if self._of_fit("penalty") == "l2":
            return None
        return (
            "this is for penalty='l2': with 'l1' the coefficients of all functions change with "
            "every one that is taken or left out. Fit again, with another n_basis or alpha; "
            "certificate_ has what is proved."
        )

    @property
    def _rows_refused(self) -> str:
        if self._of_fit("penalty") == "l1":
            return "penalty='l1' has no statistics to which rows could be added: fit all of them."
        return super()._rows_refused

    def _candidates_per_step(self, n_rows: int) -> int | None:
        """κ for ``"kappa"``; None where a step looks at all rows or the method draws by itself."""
        if isinstance(self.search, str) and self.search != "auto":
            raise ValueError(f"search must be 'auto' or a Search object, got {self.search!r}.")
        if self.method != "kappa":
            if isinstance(self.search, Search):
                raise ValueError(
                    f"search={self.search!r} sets the candidates of method='kappa', and this is "
                    f"method={self.method!r}: leave search at 'auto'."
                )
            return None
        given = None
        if isinstance(self.search, Search):
            given = resolve_search(self.search, {"fresh": ("pool_size",)}).pool_size
        if given is not None and given > n_rows:
            raise ValueError(
                f"Search(pool_size=...) must be at most the number of rows, {n_rows}, got {given}."
            )
        return subset_size() if given is None else given

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._takes_outputs
        return tags


def _largest(problem: Problem) -> float:
    """M² = max_i w_i k(x_i, x_i)."""
    sample = problem.sample
    return float(np.max(sample.weights * kernel_diagonal(sample.rows, problem.kernel)))
