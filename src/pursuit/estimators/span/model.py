"""What every estimator that fits in the span of a chosen basis can do once it is fitted.

A fixed basis has statistics that add up, so that rows may arrive in parts or on different machines.
"""

from __future__ import annotations

import copy
import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate, CertificatePath
from pursuit.estimators.arguments import Search, resolve_search
from pursuit.estimators.fit_run import FitRun, interrupt
from pursuit.estimators.inputs import (
    NO_FUNCTIONS,
    TargetScale,
    as_passed,
    check_lengths,
    check_observed,
    count_rows,
    dense,
    n_rows,
    named_columns,
    reads_matrix,
    rows_again,
    size_on_path,
    training_rows,
    validate_decay,
    validate_items,
    validate_targets,
    validate_weights,
)
from pursuit.estimators.kernel_model import BasisModel
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.scales import ScaleError, in_range, kept
from pursuit.estimators.span.certify import Certifier, check_kind
from pursuit.estimators.span.gaps import (
    GroupedOutputs,
    joined_certificate,
    joined_outputs,
)
from pursuit.estimators.span.left_out import left_out, with_absent_rows
from pursuit.estimators.span.search import (
    GAUSSIAN_SEARCH,
    SearchPlan,
    choose_again,
    span_model,
    with_checked_points,
)
from pursuit.estimators.span.steps import StepFit
from pursuit.estimators.warning import warn
from pursuit.gram import GramStatistics, kernel_share
from pursuit.greedy import (
    Clock,
    CostMeter,
    MaxSize,
    Path,
    Pool,
    Problem,
    Pursuit,
    SpanFit,
    size_grid,
)
from pursuit.kernels import CountingKernel
from pursuit.linalg import (
    PredictiveVariance,
    SpanSolution,
    StepwiseSolution,
    Workers,
    invert_lower,
    reordered,
)
from pursuit.objectives import gram_pursuit
from pursuit.rows import DistributedRows, RowSource, Sample
from pursuit.tuning import Calibration, LeftOut

_AUTO_CERTIFICATE_ROWS = 10_000, 50_000
_CERTIFYING_SHARE = 1 / 3
"""What is left of ``max_time`` where an automatic certificate is still computed."""
_ALIKE = 1e-3
"""Coefficients that differ by this part of the largest may be those of one solution, rounded."""
NO_TIME_TO_CERTIFY = "max_time left no time for a certificate: certify(X, y) computes it"
AUTO_BASIS = 2048


def time_to_certify(certificate: str | None, clock: Clock) -> bool:
    """Whether enough time remains for a certificate; one asked for by name is always computed."""
    return certificate != "auto" or not clock.over(1.0 - _CERTIFYING_SHARE)


def has_truncations(model: Any) -> bool:
    """Whether the first n functions are a model of their own, which can be certified."""
    if model._truncations_refused is not None:
        raise AttributeError(model._truncations_refused)
    return True


def _takes_rows(model: Any) -> bool:
    if not model._refits:
        raise AttributeError(model._rows_refused)
    return True


def _grows(model: Any) -> bool:
    return has_truncations(model) and _takes_rows(model)


class SpanModel(GroupedOutputs, BasisModel, ReportedModel, BaseEstimator):
    """Certify, truncate, grow and update a model f = Σ_j β_j k(·, x_j) in the span of its basis.

    Subclasses take the parameters listed here in their constructors.
    """

    kernel: Any
    n_basis: int | str
    tol: float | None
    search: str | Search
    certificate: str | None
    gamma: float | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None
    max_time: float | None
    dtype: Any
    n_jobs: int | None
    random_state: Any

    kernel_: Any
    noise_: float
    basis_: Any
    basis_indices_: Indices
    n_basis_: int
    dual_coef_: Floats
    path_: Path
    certificate_: Certificate | None
    coverage_guarantee_: Any
    calibration_: Calibration | None
    _scale: TargetScale
    _single_output: bool
    _solution: SpanSolution | StepwiseSolution
    _sums: dict[str, Any]
    _weighted: bool
    _learned: bool
    _spread: PredictiveVariance
    _calibrations: dict[int, Calibration]

    @property
    def _full_model(self) -> str:
        """The model with every row as basis function, in words."""
        raise NotImplementedError

    @property
    def _truncations_refused(self) -> str | None:
        """Why the model cannot be cut, certified again or grown; None where it can."""
        return None

    def _same_noise(self, other: Any) -> bool:
        """Whether the noise of another model of this class varies in the same way."""
        return True

    def _about(self, found: Certificate) -> Certificate:
        """The certificate, with words on what it is about."""
        return replace(found, reference=self._full_model, baseline=self._scale.zero)

    def _row_ratio(
        self, rows: RowSource, X: Any, targets: Floats, workers: Workers
    ) -> Floats | None:
        """Noise variance of each row relative to ``noise_``; None where it is the same for all."""
        return None

    def _refuse_to_forget_all(self) -> None:
        """Refuse a model without rows, where new rows could not be weighed by it."""

    def _noise_ratio(self, rows: RowSource, X: Any, workers: Workers) -> Floats | float:
        """Noise variance of new observations relative to that of the spread."""
        return 1.0

    _awaits_rows = False
    """Whether a fit is the first part of more rows."""

    @property
    def _refits(self) -> bool:
        """Whether the model is the best in its span, and so known by its statistics."""
        return True

    @property
    def _rows_refused(self) -> str:
        """Why rows cannot be added or left out, where they cannot."""
        return (
            "rows can be added to, or left out of, a model that is the best in its span, and this "
            f"one is made of steps: {type(self).__name__} needs refit=True, or method='random' or "
            "'subspace'."
        )

    @available_if(has_truncations)
    @in_range
    def certify(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        kind: str = "hybrid",
        **options: Any,
    ) -> Certificate:
        """Bound the distance of this model from the exact Gaussian process on (X, y).

        Any rows may be passed: what is certified is the problem they pose with ``kernel_`` and
        ``noise_``, in the normalised units of the fit. Always computed in float64.

        Parameters
        ----------
        X, y, sample_weight
            The training data, as in :meth:`fit`.
        kind : {"hybrid", "published", "dense", "scaled", "grouped", "two-level", "pcg"}, \
                default "hybrid"
            Which lower bound to use. ``"published"`` is the second pursuit of Smola and Bartlett
            (2001), and cannot fall below the noise floor. ``"dense"`` takes the residual as dual
            point, ``"scaled"`` its best multiple, ``"hybrid"`` the best point in the span of it and
            the published one; they cost one product with the full kernel matrix, in O(n_rows)
            memory. ``"pcg"`` improves the point by ``steps`` conjugate-gradient steps (5), a
            product each. ``"grouped"`` adds up the minima of random groups of ``group_rows`` rows,
            each with its share of the noise (256 to 768, as many as a sample asks for).
            ``"two-level"`` needs no such product but a pivoted Cholesky of ``n_second`` columns
            (4 ``n_basis_``), in O(n_rows n_second) memory.
        **options
            ``steps`` for pcg, ``group_rows`` for grouped, ``n_second`` for two-level.

        Returns
        -------
        certificate : Certificate
        """
        check_is_fitted(self)
        check_kind(kind, options)
        self._warn_without_weights(sample_weight, X)
        with Workers(self.n_jobs) as workers:
            problem = self._problem(X, y, sample_weight, workers, gaps=True)
            found, columns = [], []
            for group, part in self._by_outputs(problem.sample):
                own = problem.restricted(group)
                part._check_coefficients()
                model = span_model(part._points, part._solution)
                found += Certifier(own).certify([model], kind, **options)
                columns.append(group.columns)
        return self._about(joined_certificate(found, columns))

    @available_if(has_truncations)
    @in_range
    def certify_path(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        kind: str = "hybrid",
        *,
        sizes: ArrayLike | None = None,
        floor: bool = False,
        **options: Any,
    ) -> CertificatePath:
        """Certify the model and its truncations, all from the same passes over the rows.

        Parameters
        ----------
        X, y, sample_weight, kind, **options
            As in :meth:`certify`.
        sizes : array of int, optional
            Numbers of basis functions; by default a grid of ratio 1.25 up to ``n_basis_``.
        floor : bool, default False
            Also compute what the published gap cannot fall below (Zhang 2002b, Proposition 3.3),
            which takes the exact solution, by conjugate gradients.

        Returns
        -------
        path : CertificatePath
        """
        check_is_fitted(self)
        self._refuse_gaps("certify_path")
        check_kind(kind, options)
        self._warn_without_weights(sample_weight, X)
        if not self.n_basis_:
            raise ValueError(NO_FUNCTIONS)
        grid = np.unique(size_grid(self.n_basis_) if sizes is None else np.asarray(sizes))
        whole = len(grid) > 0 and grid.dtype.kind in "iu"
        if not whole or grid[0] < 1 or grid[-1] > self.n_basis_:
            raise ValueError(f"sizes must be whole numbers from 1 to {self.n_basis_}.")
        models = [span_model(self._points[:n], self._solution.truncated(n)) for n in grid]
        with Workers(self.n_jobs) as workers:
            problem = self._problem(X, y, sample_weight, workers)
            # The floor belongs to the rows S* of the gap: both must draw alike.
            again = replace(problem, rng=copy.deepcopy(problem.rng))
            found = Certifier(problem).certify(models, kind, **options)
            lowest = Certifier(again).published_floor(models[-1], grid) if floor else None
        return CertificatePath(grid, [self._about(one) for one in found], lowest)

    @available_if(has_truncations)
    def truncated(self, n: int) -> Self:
        """The model of the first n basis functions, without a pass over the data.

        Parameters
        ----------
        n : int
            From 1 to ``n_basis_``.

        Returns
        -------
        model : same class
            A new, fitted model; its ``certificate_`` is None.
        """
        check_is_fitted(self)
        n = size_on_path(n, self.n_basis_)
        model = copy.copy(self)
        solution = None if self._parts else self._solution.truncated(n)
        sizes = [size for size in self._calibrations if size >= n]
        if sizes:
            model.calibration_ = self._calibrations[min(sizes)]
            model._spread, model.noise_ = model.calibration_.spread, model.calibration_.noise
            if isinstance(solution, SpanSolution):
                solution = solution.with_noise(model.noise_)
        if solution is not None:
            model._set_solution(solution)
        model.basis_ = None if self.basis_ is None else self.basis_[:n]
        if self._bound is not None:
            model._keep_bound_basis(self._bound.kernel)
        model.basis_indices_ = self.basis_indices_[:n]
        model.path_ = self.path_.truncated(n)
        model.certificate_ = model.coverage_guarantee_ = None
        if self._parts:
            model._keep_parts(self._part_columns, [part.truncated(n) for part in self._parts])
        return model

    @available_if(_grows)
    @in_range
    def grow(
        self,
        n: int | None = None,
        X: Any = None,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        keep: bool = True,
    ) -> Self:
        """Choose basis functions again, with kernel and noise as they are.

        With ``keep``, the present functions stay and others are added. Without, the choice is
        among the present functions and the rows passed or, without rows, among the present
        functions alone, by the statistics of all rows so far: this puts them in the order of their
        worth.

        Parameters
        ----------
        n : int, optional
            Number of basis functions of the new model: with ``keep`` more than ``n_basis_``, else
            ``n_basis_`` by default.
        X, y, sample_weight : optional
            The training data, as in :meth:`fit`: all that the new model is to know.
        keep : bool, default True
            Whether the present basis functions stay.

        Returns
        -------
        model : same class
            A new, fitted model. Its ``certificate_`` is None where no rows are passed.
        """
        check_is_fitted(self)
        self._refuse_gaps("grow")
        least = self.n_basis_ + 1 if keep else 1
        size = self.n_basis_ if n is None and not keep else n
        if not isinstance(size, numbers.Integral) or size < least:
            wanted = f"above {self.n_basis_}" if keep else "of at least 1"
            raise ValueError(f"n must be a whole number {wanted}, got {n!r}.")
        if X is None:
            if keep:
                raise ValueError(
                    "grow adds functions from training rows, and X is None: pass X and y, or "
                    "keep=False to put the present functions in the order of their worth."
                )
            if size > self.n_basis_:
                raise ValueError(
                    f"n={size} is more than the {self.n_basis_} functions there are: pass X and y "
                    "to choose others from."
                )
            return self._in_order_of_worth(int(size))
        self._warn_without_weights(sample_weight, X)
        weights = validate_weights(sample_weight, n_rows(validate_items(self, X, reset=False)))
        present = np.flatnonzero(weights > 0)
        plan = replace(self._plan(len(present)), n_basis=int(size))
        model = self._copied()
        with Workers(self.n_jobs) as workers:
            problem = self._problem(X, y, sample_weight, workers)
            basis = Pool(self._points, self._positions(present, problem.sample))
            fitted = choose_again(plan, problem, basis, n_kept=len(basis) if keep else 0)
            model._store(fitted, present, problem)
            model._certify_fit(fitted, None, problem)
        model._weighted = bool(np.any(weights != 1.0))
        model._calibrations, model.calibration_ = {}, None
        return model

    @available_if(_takes_rows)
    @in_range
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
        decay: float = 1.0,
    ) -> Self:
        """Take in further rows, exactly: the fit to all rows so far in the span of the basis.

        The first call is a :meth:`fit`. Later ones keep basis, kernel, noise and the units of the
        targets; a pass over the new rows alone updates the rest. ``certificate_`` becomes None.

        Parameters
        ----------
        X, y, sample_weight, target, weight
            New rows, as in :meth:`fit`.
        decay : float, default 1.0
            What the weights of all earlier rows are multiplied by before the new rows come in: a
            number above 0 and at most 1. With parts of equal size and ``decay=γ`` the model knows
            about 1/(1 - γ) parts; the rest is forgotten.

        Returns
        -------
        self : the model
        """
        share = validate_decay(decay)
        if "dual_coef_" not in vars(self):
            self._awaits_rows = True
            try:
                fitted: Self = self.fit(X, y, sample_weight, target=target, weight=weight)
            finally:
                del self._awaits_rows
            return fitted
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        weighted = sample_weight is not None and bool(np.any(np.asarray(sample_weight) != 1))
        with Workers(self.n_jobs) as workers:
            problem = self._problem(X, y, sample_weight, workers, gaps=True)
            divided = self._by_outputs(problem.sample)
            for group, part in divided:
                part._take_rows(problem.restricted(group), share, weighted)
        if len(divided) > 1:
            self._sums = self._sums | {"n_rows": self._sums["n_rows"] + problem.sample.n_rows}
            self._keep_parts([group.columns for group, _ in divided], [part for _, part in divided])
        return self

    def _take_rows(self, problem: Problem, share: float, weighted: bool) -> None:
        """Add the sums of further rows to a share of those so far."""
        sample = problem.sample
        added = None
        if sample.n_rows:
            # While all rows are points, coefficients are at most w|y - f|/σ². Further rows would
            # let those of points that nearly coincide grow until they are rounding.
            solution = self._factors.damped()
            added = problem.statistics(self._points, whitener=invert_lower(solution.R))
            self._set_solution(solution)
        if share < 1.0:
            self._forget(share)
        self._weighted |= weighted
        if added is not None:
            self._absorb(added, float(np.log(sample.weights).sum()), self._share(problem))

    @available_if(_takes_rows)
    @in_range
    def leave_one_out(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> tuple[Floats, Floats]:
        """Predictions of training rows by all the others, in units of y.

        Each row in turn leaves the sums over rows, with all its weight. Basis, kernel, noise, units
        of the targets and error bars stay as they are, also where the row is a basis point. No
        model is fitted again: one pass over the rows gives the leverage h of each, and the error
        without it is its error divided by 1 - h.

        Parameters
        ----------
        X, y, sample_weight
            Some or all of the rows that the model was fitted to, as they were passed to
            :meth:`fit`. A row of weight 0 is predicted as any new row.

        Returns
        -------
        mean : array of shape (n_rows,) or (n_rows, n_outputs)
        std : array of the same shape
            Standard deviation of an observation. :class:`SparseKernelRidge` has no error bars of
            its own: there it is that of the process with noise ``alpha``, times one number per
            output, by which the left-out errors have the size that they have.

        Examples
        --------
        >>> import numpy as np
        >>> from pursuit import SparseGPRegressor
        >>> from pursuit.datasets import make_robot_arm
        >>> arm = make_robot_arm(500, random_state=0)
        >>> model = SparseGPRegressor(n_basis=50, random_state=0).fit(arm.data, arm.target)
        >>> mean, std = model.leave_one_out(arm.data, arm.target)
        >>> fitted = model.predict(arm.data)
        >>> bool(np.std(arm.target - mean) > np.std(arm.target - fitted))
        True
        """
        check_is_fitted(self)
        self._warn_without_weights(sample_weight, X)
        means, stds, columns = [], [], []
        with Workers(self.n_jobs) as workers:
            X, sample, kernel = self._rows_passed(X, y, sample_weight, workers, gaps=True)
            self._check_number(sample)
            ratio = self._noise_ratio(sample.rows, X, workers)
            for group, part in self._by_outputs(sample):
                own = with_absent_rows(sample, group)
                left = left_out(own, kernel, part._points, part._factors, workers)
                left = replace(left, ratio=ratio)
                means.append(part._scale.restore(own.targets - left.error))
                stds.append(part._scale.scale * np.sqrt(part._left_out_variance(left)))
                columns.append(group.columns)
        mean, std = joined_outputs(means, columns), joined_outputs(stds, columns)
        return self._as_fitted(mean), self._as_fitted(std)

    def _check_number(self, sample: Sample) -> None:
        """Refuse more rows than the model knows."""
        known, passed = self._sums["n_rows"], int(np.count_nonzero(sample.weights))
        if passed > known:
            raise ValueError(
                f"{passed} rows are passed, and the model was fitted to {known}: leave_one_out "
                "takes rows that the model was fitted to; predict is for new ones."
            )

    def _left_out_variance(self, left: LeftOut) -> Floats:
        """Variance of an observation of each row by all the others, in normalised units."""
        return left.variance(self._spread)[:, None]

    @available_if(_takes_rows)
    @in_range
    def merge(self, *others: Any) -> Self:
        """The model of the rows of this one and of the others, which have the same basis.

        Parts begin with one model: fit it, :meth:`save` it, and on every other machine load it,
        and give :meth:`emptied` of it the rows there by :meth:`partial_fit`.

        Parameters
        ----------
        *others : models of the same class
            Their rows must be different rows: each is counted once.

        Returns
        -------
        model : same class
            A new, fitted model; its ``certificate_`` is None.
        """
        check_is_fitted(self)
        self._refuse_gaps("merge")
        model = self._copied()
        try:
            for other in others:
                model._join(other)
        except ArithmeticError as error:
            raise ScaleError(
                "these models cannot be merged in float64: kernel values of their rows are too far "
                "from each other, or from the noise. Scale the features, for instance by "
                "StandardScaler, and fit the first model again."
            ) from error
        return model

    def _join(self, other: Any) -> None:
        """Add the rows of another model with the same basis."""
        self._check_same_span(other)
        self._set_solution(self._factors.damped())
        gram, cross = other._factors.damped().whitened()
        sums = other._sums
        rows = {key: sums[key] for key in ("target_norms", "trace", "n_rows")}
        self._absorb(
            GramStatistics(gram, cross, weight=np.nan, **rows),
            sums["sum_log_weights"],
            sums.get("share", 0.0),
        )
        self._weighted |= other._weighted

    @available_if(_takes_rows)
    def emptied(self) -> Self:
        """The model without its rows: same basis, kernel, noise and units, nothing learned yet.

        It predicts the prior, and is there for :meth:`partial_fit`.

        Returns
        -------
        model : same class
        """
        check_is_fitted(self)
        self._refuse_to_forget_all()
        model = self._copied()
        if self._parts:
            model._sums = self._sums | {"n_rows": 0}
            model._keep_parts(self._part_columns, [part.emptied() for part in self._parts])
            return model
        model._sums = {
            "target_norms": np.zeros_like(self._sums["target_norms"]),
            "trace": 0.0,
            "n_rows": 0,
            "sum_log_weights": 0.0,
            "share": self._sums.get("share", 0.0),
        }
        model._weighted = False
        model._update(self._factors.emptied())
        return model

    def _take_in(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, *, normalize: bool
    ) -> tuple[Any, Sample, Indices]:
        """Training data, checked: X, the rows that have weight, and their numbers among all."""
        rows, X = training_rows(self, X)
        targets = self._targets(y)
        check_lengths(X, targets)
        weights = validate_weights(sample_weight, rows.n_rows)
        present = np.flatnonzero(weights > 0)
        Y = targets.reshape(len(targets), -1)
        check_observed(Y, weights)
        self._parts = self._part_columns = ()
        self._single_output = targets.ndim == 1
        self._weighted = bool(np.any(weights != 1.0))
        self._scale = TargetScale.fit(Y, weights, normalize)
        sample = Sample(rows, self._scale.normalize(Y), weights)
        return X, sample.take(present) if len(present) < rows.n_rows else sample, present

    def _targets(self, y: Any) -> Floats:
        """Checked targets, NaN where one of several outputs was not observed.

        A single column is one output, and so are its predictions, as in scikit-learn's regressor.
        """
        targets = validate_targets(y, gaps=True, any_size=True)
        return targets[:, 0] if targets.size == len(targets) and targets.ndim == 2 else targets

    def _report_end(self, run: FitRun, present: Indices) -> None:
        """Say what the caller should know of the fit to the rows ``present``."""
        if run.stopping:
            n_rows = self._sums["n_rows"]
            ended = f", fitted to the first {present[n_rows - 1] + 1} rows: partial_fit adds others"
            interrupt(
                f"the best {self.n_basis_} basis functions found so far"
                f"{ended if n_rows < len(present) else ''}"
            )
        found = self.certificate_
        if self.tol is not None and found is not None and found.relative_gap > self.tol:
            warn(
                f"tol={self.tol:g} was not met: the relative gap at {self.n_basis_} functions "
                f"is {found.relative_gap:.3g} ({found.kind} certificate). Raise n_basis or tol, or "
                "use a tighter certificate.",
                ConvergenceWarning,
            )

    def _check_tol(self) -> None:
        if self.tol is not None and self.certificate is None:
            raise ValueError(
                "tol stops the fit by its certificate: with certificate=None there is none. Set "
                "certificate='auto', or tol=None."
            )

    def _problem(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        workers: Workers,
        *,
        gaps: bool = False,
    ) -> Problem:
        """The problem that given rows pose to the fitted kernel and noise."""
        _, sample, kernel = self._rows_passed(X, y, sample_weight, workers, gaps=gaps)
        if not np.all(sample.weights > 0):
            sample = sample.take(np.flatnonzero(sample.weights > 0))
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        return Problem(sample, kernel, self.noise_, workers, CostMeter(kernel), rng)

    def _rows_passed(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        workers: Workers,
        *,
        gaps: bool = False,
    ) -> tuple[Any, Sample, CountingKernel]:
        """Rows that are passed to the fitted model, also those of weight 0, and its kernel."""
        X, y, sample_weight = named_columns(X, y, sample_weight)
        rows, X = rows_again(self, X)
        weights = validate_weights(sample_weight, rows.n_rows)
        if y is None:
            raise ValueError("y is None: pass the targets of the rows, an array with one per row.")
        targets = validate_targets(y, gaps=gaps, any_size=True)
        check_lengths(X, targets)
        targets = targets.reshape(len(targets), -1)
        check_observed(targets, weights, every_output=False)
        outputs = len(self._scale.mean)
        if targets.shape[1] != outputs:
            raise ValueError(
                f"y has {targets.shape[1]} outputs, but the model was fitted with {outputs}."
            )
        Y = self._scale.normalize(targets)
        ratio = self._row_ratio(rows, X, Y, workers)
        sample = Sample(rows, Y, weights if ratio is None else weights / ratio)
        return X, sample, self._compiled(X)

    def _warn_without_weights(self, sample_weight: ArrayLike | None, X: Any = None) -> None:
        if sample_weight is not None:
            return
        if self._weighted:
            warn(
                "the model was fitted with sample_weight, and none is passed: this is about "
                "the unweighted problem."
            )
        aside = vars(self).get("conformal_rows_", ())
        if len(aside) and X is not None and count_rows(X) == self._sums["n_rows"] + len(aside):
            warn(
                "the fit has set the rows conformal_rows_ aside, and X seems to hold them too: "
                "this is about all rows of X. Leave them out, or give them sample_weight 0."
            )

    def _positions(self, present: Indices, sample: Sample) -> Indices:
        """Positions of the basis among the rows with weight; -1 for points that are not rows."""
        index = self.basis_indices_
        position = np.minimum(np.searchsorted(present, index), len(present) - 1)
        same = present[position] == index
        if self.basis_ is not None:
            there = dense(sample.rows.take(position))
            equal = [np.array_equal(a, b) for a, b in zip(there, dense(self.basis_), strict=True)]
            same &= np.array(equal, dtype=bool)
        return np.where(same, position, -1)

    def _plan(self, n_rows: int) -> SearchPlan:
        search = resolve_search(self.search, GAUSSIAN_SEARCH)
        return SearchPlan(
            n_basis=AUTO_BASIS if self.n_basis == "auto" else int(self.n_basis),
            search=with_checked_points(self, search),
            tol=self.tol,
            certificate=self._certificate_kind(n_rows),
            max_time=self.max_time,
            dtype=self.dtype,
        )

    def _certificate_kind(self, n_rows: int) -> str | None:
        if self.certificate != "auto":
            return self.certificate
        limit = _AUTO_CERTIFICATE_ROWS[1 if self._learned else 0]
        return "hybrid" if n_rows <= limit else "published"

    def _store(self, fitted: SpanFit | StepFit, present: Indices, problem: Problem) -> None:
        """Keep the model; row numbers are those of the rows passed to fit."""
        self._set_solution(fitted.solution)
        self.basis_ = None if reads_matrix(self) else fitted.pool.items
        self._keep_bound_basis(problem.kernel)
        self.basis_indices_ = as_passed(fitted.pool.index, present)
        self.path_ = replace(fitted.path, index=as_passed(fitted.path.index, present))
        self.certificate_ = self.coverage_guarantee_ = None
        self._sums = {
            "target_norms": np.nan_to_num(problem.sample.target_norms()),
            "trace": fitted.trace,
            "n_rows": problem.sample.n_rows,
            "sum_log_weights": float(np.log(problem.sample.weights).sum()),
            "share": self._share(problem),
        }

    def _share(self, problem: Problem) -> float:
        """How exact values of the kernel are, between these rows and the basis."""
        return kernel_share(problem.sample.rows, problem.kernel, self._points)

    @staticmethod
    def _as_far_as_read(fitted: SpanFit | StepFit, problem: Problem) -> Problem:
        """The problem on the rows that were read: all of them, unless the fit was interrupted."""
        if isinstance(fitted, StepFit) or fitted.n_rows is None:
            return problem
        return replace(problem, sample=problem.sample.take(np.arange(fitted.n_rows)))

    def _check_coefficients(self) -> None:
        """Refuse coefficients that were set by hand: a bound would speak of another function."""
        expected, found = self._solution.coefficients(), self._coefficient_columns
        most = np.abs(expected).max(initial=0.0)
        # Another processor solves for them with other rounding.
        if found.shape != expected.shape or not np.all(np.abs(found - expected) <= _ALIKE * most):
            raise ValueError(
                "dual_coef_ was changed after the fit; certificates are about the function that "
                "the fit has found: fit again."
            )

    def _set_solution(self, solution: SpanSolution | StepwiseSolution) -> None:
        self._solution = solution
        self.n_basis_ = solution.size
        coefficients = solution.coefficients()
        self.dual_coef_ = coefficients[:, 0] if self._single_output else coefficients

    def _may_certify(self, run: FitRun) -> bool:
        """Whether the fit goes on to its certificate."""
        return not run.stopping and time_to_certify(self.certificate, run.clock)

    def _certify_fit(
        self,
        fitted: SpanFit | StepFit,
        found: Certificate | None,
        problem: Problem,
        run: FitRun | None = None,
    ) -> None:
        """Store the certificate, computing it where the search has not, and its gap in the path."""
        kind = self._certificate_kind(problem.sample.n_rows)
        if kind is None or self.n_basis_ == 0:
            return
        if found is None:
            model = span_model(fitted.pool.items, fitted.solution, same_rows=fitted.exact)
            certified = None if run is None else run.resume("certify")
            if certified is None:
                product = kind == "hybrid"
                if self._chooses_kind(problem):
                    kind = "auto"
                certified = Certifier(problem).certify([model], kind, product=product)
                if run is not None:
                    run.keep("certify", certified)
            [found] = certified
        self.certificate_ = kept(self._about(found))
        gap = np.nan if self.certificate_ is None else self.certificate_.relative_gap
        self.path_.end(gap, problem.meter)

    def _chooses_kind(self, problem: Problem) -> bool:
        """Whether the kind depends on what it should give: of many rows that need not be sent."""
        sample = problem.sample
        many = sample.n_rows > _AUTO_CERTIFICATE_ROWS[0]
        here = not isinstance(sample.rows, DistributedRows)
        return many and here and self.certificate == "auto" and self.tol is None

    def _in_order_of_worth(self, size: int) -> Self:
        """The greedy order on the statistics so far, and its first ``size`` functions."""
        old = self._factors
        gram, cross = old.whitened()
        statistics = GramStatistics(
            old.R @ gram @ old.R.T, old.R @ cross, self._sums["target_norms"], 0.0, 0.0, 0
        )
        K = old.R @ old.R.T
        with Workers(self.n_jobs) as workers:
            objective = gram_pursuit(
                statistics, K.copy(), old.noise, capacity=len(K), workers=workers
            )
            path = Pursuit(objective, CostMeter(), labels=self.basis_indices_).run([MaxSize(size)])
        # What the Gram form cannot resolve keeps its place behind what it can.
        rest = np.setdiff1d(np.arange(len(K)), objective.chosen)
        order = np.concatenate([objective.chosen, rest])
        R = reordered(K, old.R, order)
        # V = R⁻¹k_S, so in the new order it is V turned by Q = R⁻¹ P R_old.
        Q = solve_triangular(R, old.R[order], lower=True)
        model = self._copied()
        pool = Pool(self._points, self.basis_indices_).take(order)
        model.basis_ = None if self.basis_ is None else pool.items
        model.basis_indices_ = pool.index
        model.path_ = path.extended(self.basis_indices_[rest]) if len(rest) else path
        model._update(SpanSolution.from_whitened(R, Q @ gram @ Q.T, Q @ cross, old.noise))
        shortened: Self = model.truncated(min(size, len(order)))
        return shortened

    @property
    def _factors(self) -> SpanSolution:
        # No assertion: notebooks and dir() read every property, also of models that do not refit.
        self._refuse_gaps("this")
        return cast(SpanSolution, self._solution)

    def _copied(self) -> Self:
        model = copy.copy(self)
        model.path_ = copy.deepcopy(self.path_)
        model.certificate_ = model.coverage_guarantee_ = None
        if self._parts:
            model._parts = tuple(part._copied() for part in self._parts)
        return model

    def _of_outputs(self, columns: Indices) -> Self:
        """The model of some of the outputs."""
        model = self._copied()
        model._single_output = False
        model._scale = self._scale.taken(columns)
        norms = self._sums["target_norms"][columns]
        model._sums = self._sums | {"target_norms": norms}
        model._update(replace(self._factors, z=self._factors.z[:, columns]))
        return model

    def _forget(self, share: float) -> None:
        """Multiply the weights of all rows so far."""
        sums = self._sums
        self._sums = {
            **sums,
            "target_norms": share * sums["target_norms"],
            "trace": share * sums["trace"],
            "sum_log_weights": sums["sum_log_weights"] + sums["n_rows"] * np.log(share),
        }
        self._weighted |= sums["n_rows"] > 0
        self._update(self._factors.scaled(share))

    def _absorb(self, added: GramStatistics, sum_log_weights: float, share: float) -> None:
        """Add statistics, in whitened coordinates, of rows that are not counted yet."""
        sums = self._sums
        self._sums = {
            "target_norms": sums["target_norms"] + added.target_norms,
            "trace": sums["trace"] + added.trace,
            "n_rows": sums["n_rows"] + added.n_rows,
            "sum_log_weights": sums["sum_log_weights"] + sum_log_weights,
            "share": max(sums.get("share", 0.0), share),
        }
        self._update(self._factors.plus(added.gram, added.cross))

    def _update(self, solution: SpanSolution) -> None:
        """Keep a new solution in the span of the same functions, and its values."""
        self._set_solution(solution)
        value = solution.values(self._sums["target_norms"])
        gap = np.full(len(value), np.nan)
        self.path_ = replace(self.path_, value=value, gap=gap)
        self.certificate_ = self.coverage_guarantee_ = None

    def _check_same_span(self, other: Any) -> None:
        """Whether the statistics of another model add to those of this one."""
        advice = "start the parts from one fitted model: model.emptied().partial_fit(X, y)."
        if type(other) is not type(self):
            raise TypeError(
                f"merge takes models of class {type(self).__name__}, got {type(other).__name__}."
            )
        check_is_fitted(other)
        _takes_rows(other)
        mine, theirs = self._factors.damped(), other._factors.damped()
        same_points = np.array_equal(self.basis_indices_, other.basis_indices_) and (
            mine.R.shape == theirs.R.shape and np.array_equal(mine.R, theirs.R)
        )
        if not same_points:
            raise ValueError(f"merge needs models with the same basis in the same order: {advice}")
        if self.noise_ != other.noise_ or repr(self.kernel_) != repr(other.kernel_):
            raise ValueError(f"merge needs models with the same kernel_ and noise_: {advice}")
        if not self._same_noise(other):
            raise ValueError(f"merge needs models whose noise varies alike: {advice}")
        scales = (self._scale.mean, self._scale.scale), (other._scale.mean, other._scale.scale)
        if any(not np.array_equal(a, b) for a, b in zip(*scales, strict=True)):
            raise ValueError(f"merge needs models that scale the targets alike: {advice}")
