"""One fit of a matching pursuit: how many functions, which ones, and how often they may err."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.bounds import matching_pursuit_bound
from pursuit.estimators.classes import largest_class
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.matching.search import (
    MatchingModels,
    MatchingPlan,
    MatchingSearch,
    Measure,
    NothingToChooseError,
    choose_centers,
)
from pursuit.greedy import PATIENCE, Deadline, MaxSize, Patience, Problem, StopRule, largest_size
from pursuit.kernels import Kernel
from pursuit.objectives import RowLoss
from pursuit.rows import Sample, draw_rows
from pursuit.tuning import Shrinkage, fit_shrinkage, values_left_out

_VALIDATED_BY, _CHOSEN_BY = 0.4, 0.8
"""Shares of ``max_time`` at which a validation and the choice end; the rest is for fitting all
rows."""


@dataclass(frozen=True)
class MissJudge:
    """Regression: an error is |f - y| > α in any output (Hussain & Shawe-Taylor, Definition 1).

    Predictions F (rows x sizes x outputs) are judged by targets Y (rows x outputs); losses and
    errors have shape (rows, sizes). In the space of coefficients, which has ``n_columns``
    dimensions per function, ``n_hyperplanes`` hyperplanes per row decide whether it is an error.
    """

    tolerance: Floats

    @property
    def n_hyperplanes(self) -> int:
        """f = y + α and f = y - α, for each output."""
        return 2 * len(self.tolerance)

    @property
    def n_columns(self) -> int:
        """One coefficient per output."""
        return len(self.tolerance)

    def losses(self, F: Floats, Y: Floats) -> Floats:
        """½(f - y)², summed over outputs."""
        return half_squares(F, Y)

    def errors(self, F: Floats, Y: Floats) -> NDArray[np.bool_]:
        """Rows with an output beyond the tolerance."""
        missed: NDArray[np.bool_] = np.any(np.abs(F - Y[:, None]) > self.tolerance, axis=2)
        return missed


@dataclass(frozen=True)
class MarginJudge:
    """Classification: an error is a margin of at most 1 - α.

    The margin is half the lead of the row's own column over the best other one. For two classes in
    one column of ±1 it is yf. α = 1 counts rows that are classified wrongly, ties included. Shapes
    and counts are those of :class:`MissJudge`.
    """

    tolerance: float
    loss: RowLoss | None
    n_outputs: int

    @property
    def n_hyperplanes(self) -> int:
        """The own column against each of the others."""
        return max(self.n_outputs - 1, 1)

    @property
    def n_columns(self) -> int:
        """Only differences of columns count."""
        return max(self.n_outputs - 1, 1)

    def losses(self, F: Floats, Y: Floats) -> Floats:
        """The loss that is minimised, summed over columns."""
        if self.loss is None:
            return half_squares(F, Y)
        total: Floats = self.loss.value(F, np.broadcast_to(Y[:, None], F.shape)).sum(axis=2)
        return total

    def errors(self, F: Floats, Y: Floats) -> NDArray[np.bool_]:
        """Rows with a margin that is too small."""
        if self.n_outputs == 1:
            margin = (F * Y[:, None])[..., 0]
        else:
            own = np.broadcast_to(Y[:, None] > 0, F.shape)
            lead = np.where(own, F, -np.inf).max(axis=2) - np.where(own, -np.inf, F).max(axis=2)
            margin = 0.5 * lead
        return np.asarray(margin <= 1.0 - self.tolerance)


Judge = MissJudge | MarginJudge


def _silent(done: int) -> None:
    """Tell nobody."""


def half_squares(F: Floats, Y: Floats) -> Floats:
    """½(f - y)², summed over outputs."""
    miss = F - Y[:, None]
    return 0.5 * np.asarray(np.einsum("iso,iso->is", miss, miss))


class Tally:
    """Counts errors outside the basis for models of many sizes, adds up losses, and bounds errors.

    A row of weight w counts as w rows, of which one is taken away when the row becomes a centre.
    Weights that add up to less than the number of rows, such as shares, are scaled up to it.

    Attributes
    ----------
    counts : array
        How many rows each row counts for.
    """

    def __init__(self, judge: Judge, sample: Sample) -> None:
        self._judge, self._sample = judge, sample
        w = sample.weights
        self.counts: Floats = w * max(1.0, len(w) / float(w.sum()))

    def measure(self, centers: Indices, first: int, last: int) -> Measure:
        """Errors and losses of the models of sizes first, …, last: two numbers per size."""
        sample = self._sample
        aligned = sample.targets, sample.weights, self.counts, self._entered(centers)
        return partial(_errors_and_losses, self._judge, np.arange(first, last + 1)), aligned

    def bound(
        self, errors: Floats, centers: Indices, n_atoms: float, plan: MatchingPlan, *, printed: bool
    ) -> Floats:
        """Theorem 3 of Hussain & Shawe-Taylor for sizes 1, 2, … with these errors and centres."""
        n = len(errors)
        entered = self._entered(centers[:n])
        once = np.flatnonzero(np.isfinite(entered))
        added = np.zeros(n)
        np.add.at(added, entered[once].astype(np.intp) - 1, np.minimum(self.counts[once], 1.0))
        return matching_pursuit_bound(
            np.arange(1, n + 1),
            errors,
            float(self.counts.sum()),
            plan.delta,
            n_atoms=n_atoms,
            rows_used=np.cumsum(added),
            n_hyperplanes=self._judge.n_hyperplanes,
            n_columns=self._judge.n_columns,
            intercept=plan.intercept,
            printed=printed,
        )

    def _entered(self, centers: Indices) -> Floats:
        """For every row the size at which it becomes a centre, infinite if it never does."""
        size = np.full(self._sample.n_rows, np.inf)
        rows = centers >= 0
        # Backwards, so that the first time counts.
        size[centers[rows][::-1]] = np.flatnonzero(rows)[::-1] + 1.0
        return size


def _errors_and_losses(
    judge: Judge,
    sizes: Indices,
    F: Floats,
    targets: Floats,
    weights: Floats,
    counts: Floats,
    entered: Floats,
) -> Floats:
    """Σ of errors outside the basis and of losses, shape (2, sizes).

    ``entered`` is the size from which on a row is a centre.
    """
    c = counts[:, None]
    inside = np.minimum(c, 1.0) * (entered[:, None] <= sizes)
    errors = np.sum((c - inside) * judge.errors(F, targets), axis=0)
    return np.stack([errors, np.sum(weights[:, None] * judge.losses(F, targets), axis=0)])


def _summed_losses(judge: Judge, F: Floats, targets: Floats, weights: Floats) -> Floats:
    """Σ of weighted losses, shape (1, sizes)."""
    return weights[None] @ judge.losses(F, targets)


class BoundCurve:
    """The printed bound of a search's models, size by size, from errors counted on the way.

    Attributes
    ----------
    errors : array
        Errors at all sizes asked for so far.
    """

    def __init__(self, search: MatchingSearch, tally: Tally, n_atoms: float) -> None:
        self._search, self._tally, self._n_atoms = search, tally, n_atoms
        self.errors = np.empty(0)

    def __call__(self, first: int, last: int) -> Floats:
        """Values at sizes first, …, last; sizes are asked for in order."""
        search = self._search
        centers = search.rows_of(search.atoms[:last])
        measure = self._tally.measure(centers, first, last)
        sums = search.sums(search.problem.sample.rows, first, last, measure)
        self.errors = np.append(self.errors, sums[0])
        bound = self._tally.bound(self.errors, centers, self._n_atoms, search.plan, printed=True)
        return bound[first - 1 :]


@dataclass(frozen=True)
class MatchingFit:
    """A fitted matching pursuit, and what is needed to bound its errors.

    Attributes
    ----------
    models : MatchingModels
        Models of all sizes up to the chosen one.
    errors : array
        Weight of the rows outside the basis on which the models of sizes 1, 2, … err; in a fit by
        the bound also those of larger sizes that were tried.
    printed, exact : arrays
        The bound at these sizes, as printed in the paper and with the exact counts of its proof.
    calibration : Shrinkage or None
        How values become probabilities, if that was found on rows left out.
    """

    models: MatchingModels
    errors: Floats
    printed: Floats
    exact: Floats
    calibration: Shrinkage | None


def fit_matching(
    plan: MatchingPlan, problem: Problem, kernels: Sequence[Kernel], judge: Judge, run: FitRun
) -> MatchingFit:
    """Choose the size as planned, fit all rows, and count errors for the bound."""
    tally = Tally(judge, problem.sample)
    limit, reason = _largest(plan, tally), "n_basis"
    if plan.n_basis == "validation":

        def validate() -> tuple[int, str]:
            tick = run.begin("validate", limit)
            return _validated_size(plan, problem, kernels, judge, limit, run, tick)

        limit, reason = run.recorded("validate", validate)

    def choose() -> tuple[MatchingModels, Floats, Indices, float]:
        tick = run.begin("choose", limit)
        return _chosen(plan, problem, kernels, tally, limit, reason, run, tick)

    models, errors_before, centers, n_atoms = run.recorded("choose", choose)

    n, index = len(models), models.centers.index
    sums = partial(
        models.sums, kernels, problem.sample.rows, tally.measure(index, 1, n), problem.workers
    )
    errors, losses = run.stage("judge", sums)
    if np.array_equal(centers[:n], index):
        errors = np.append(errors, errors_before[n:])
    else:
        centers = index
    models = replace(models, path=replace(models.path, value=losses))
    printed, exact = (
        tally.bound(errors, centers, n_atoms, plan, printed=form) for form in (True, False)
    )
    calibration = None
    if plan.calibrated:
        shrink = partial(_shrinkage, plan, problem, kernels, judge, models, run)
        calibration = run.stage("calibrate", shrink)
    return MatchingFit(models, errors, printed, exact, calibration)


def _shrinkage(
    plan: MatchingPlan,
    problem: Problem,
    kernels: Sequence[Kernel],
    judge: Judge,
    models: MatchingModels,
    run: FitRun,
) -> Shrinkage:
    """How sure probabilities may be, from rows left out of fits to the others.

    If there are no such rows, or no time is left, the rows of the fit have to say it.
    """
    sample, workers = problem.sample, problem.workers
    codes = largest_class(sample.targets)

    values = models.values(kernels, sample.rows, workers)

    def fit(train: Indices) -> Floats:
        remaining = replace(problem, sample=sample.take(train))
        tally = Tally(judge, remaining.sample)
        limit = _largest(plan, tally)
        try:
            if plan.n_basis == "validation":
                limit, _ = _validated_size(plan, remaining, kernels, judge, limit, run)
            fold = _chosen(plan, remaining, kernels, tally, limit, "n_basis", run)[0]
        except NothingToChooseError:
            return np.zeros_like(values)
        return fold.values(kernels, sample.rows, workers)

    left_out = None
    if not (run.stopping or run.clock.over(_VALIDATED_BY)):
        left_out = values_left_out(values, codes, sample.weights, fit)
    rows, values = (np.arange(sample.n_rows), values) if left_out is None else left_out
    return fit_shrinkage(values, codes, sample.weights, rows)


def _largest(plan: MatchingPlan, tally: Tally) -> int:
    """The largest size to try."""
    if isinstance(plan.n_basis, str):
        return largest_size(float(tally.counts.sum()))
    return plan.n_basis


def _validated_size(
    plan: MatchingPlan,
    problem: Problem,
    kernels: Sequence[Kernel],
    judge: Judge,
    limit: int,
    run: FitRun,
    tick: Callable[[int], None] = _silent,
) -> tuple[int, str]:
    """The size of least loss on rows set aside, and why it is that one."""
    sample, m = problem.sample, problem.sample.n_rows
    if m < 2:
        raise ValueError(
            "n_basis='validation' sets rows aside: at least 2 rows are needed, got n_samples = 1."
        )
    aside = draw_rows(m, min(max(1, round(plan.validation_fraction * m)), m - 1), problem.rng)
    kept = np.setdiff1d(np.arange(m), aside, assume_unique=True)
    remaining = replace(problem, sample=sample.take(kept))
    pool = choose_centers(plan, remaining.sample, limit, problem.rng)
    search = MatchingSearch(plan, remaining, kernels, pool, limit)
    judged = sample.take(aside)
    measure = partial(_summed_losses, judge), (judged.targets, judged.weights)
    patience = Patience(
        lambda first, last: search.sums(judged.rows, first, last, measure)[0], PATIENCE, "no gain"
    )
    path = search.run([patience, *_rules(limit, run, search, _VALIDATED_BY)], tick)
    patience.look(len(path))
    n = patience.best_size
    return n, "no gain" if n < len(path) else path.stop_reason


def _chosen(
    plan: MatchingPlan,
    problem: Problem,
    kernels: Sequence[Kernel],
    tally: Tally,
    limit: int,
    reason: str,
    run: FitRun,
    tick: Callable[[int], None] = _silent,
) -> tuple[MatchingModels, Floats, Indices, float]:
    """The models, the errors and centres of all sizes tried, and the size of the dictionary.

    With ``n_basis="bound"`` functions are added until the printed form of the bound has passed its
    minimum, and the models are those up to it. Other choices count no errors.
    """
    pool = choose_centers(plan, problem.sample, limit, problem.rng)
    every_row = plan.all_rows(problem.sample.n_rows, limit)
    n_atoms = len(kernels) * (float(tally.counts.sum()) if every_row else float(len(pool)))
    search = MatchingSearch(plan, problem, kernels, pool, limit)
    rules = _rules(limit, run, search, _CHOSEN_BY)
    if plan.n_basis != "bound":
        path = search.run(rules, tick)
        if path.stop_reason == "n_basis":
            path = replace(path, stop_reason=reason)
        models = search.fitted(len(path), path)
        return models, np.empty(0), models.centers.index, n_atoms
    curve = BoundCurve(search, tally, n_atoms)
    patience = Patience(curve, PATIENCE, "bound")
    path = search.run([patience, *rules], tick)
    patience.look(len(path))
    n = patience.best_size
    if n < len(path):
        path = replace(path.truncated(n), stop_reason="bound")
    errors = curve.errors[: len(patience.values)]
    return search.fitted(n, path), errors, search.rows_of(search.atoms), n_atoms


def _rules(limit: int, run: FitRun, search: MatchingSearch, share: float) -> list[StopRule]:
    """Stop at the largest size, at Ctrl-C, and when this share of the time is over."""
    rules: list[StopRule] = [MaxSize(limit), run.interrupted]
    seconds = run.clock.left(share)
    if np.isfinite(seconds):
        rules.append(Deadline(search.problem.meter.seconds + seconds))
    return rules
