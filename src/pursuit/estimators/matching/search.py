"""From a dictionary of functions to matching-pursuit models of every size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.estimators.arguments import Search
from pursuit.estimators.span.search import FULL_LIMIT
from pursuit.gram import kernel_times, sum_along_path
from pursuit.greedy import CostMeter, Path, Pool, Problem, Pursuit, Stalled, StopRule
from pursuit.kernels import AtomKernel, CountingKernel, Kernel
from pursuit.linalg import Workers
from pursuit.objectives import (
    BackfitPursuit,
    BasicPursuit,
    GradientPursuit,
    MatchingObjective,
    PrefitPursuit,
    RowLoss,
)
from pursuit.rows import RowSource, Sample, distinct_rows, draw_rows
from pursuit.solvers import newton

FULL_ROWS = 5000
"""Up to this many rows each of them is a candidate, and all of them choose."""
_POOL = 4096
"""Candidates among more rows: with more of them the choice is better and slower."""
_REPEATS = 1000
"""Steps after which ``fitting="basic"`` ends if it chooses no new function."""
_RIDGE = 1e-3
"""Penalty on coefficients of functions of unit mean square, without which separable classes would
have no best logistic fit."""
_STORED_VALUES = 1 << 28
"""Values of candidates that ``loss="logistic"`` keeps in memory at most; more are refused."""

Measure = tuple[Callable[..., Floats], Sequence[NDArray[Any]]]
"""What to add up for models of many sizes, and the arrays it needs beside their values."""


@dataclass(frozen=True)
class MatchingPlan:
    """How a dictionary is searched, as the user asked for it; ``loss`` None is ½(y - f)².

    ``calibrated``: rows are few, and those left out say how sure probabilities may be.
    """

    n_basis: int | str
    fitting: str
    refit_every: int
    intercept: bool
    loss: RowLoss | None
    search: Search
    validation_fraction: float
    delta: float
    calibrated: bool = False

    def pool_size(self, n_rows: int, limit: int) -> int:
        """How many rows may be centres: all of few, a random part of many."""
        if self.search.kind == "full":
            return n_rows
        if self.search.pool_size is None:
            return n_rows if n_rows <= FULL_ROWS else max(_POOL, 2 * limit)
        return self.search.pool_size

    def all_rows(self, n_rows: int, limit: int) -> bool:
        """Whether all rows are candidates."""
        return not self.search.own_points and self.pool_size(n_rows, limit) >= n_rows

    def rows_that_choose(self, n_rows: int, pool_size: int) -> int:
        """How many rows choose from a pool; all for coefficients that are never refitted."""
        rows = self.search.rows
        if self.fitting == "basic" or self.search.kind == "full" or rows == "all":
            return n_rows
        if rows is None:
            return n_rows if n_rows <= FULL_ROWS else min(2 * pool_size, n_rows)
        return min(int(rows), n_rows)


class NothingToChooseError(ValueError):
    """No function of the dictionary differs from a constant on the rows."""


def choose_centers(
    plan: MatchingPlan, sample: Sample, limit: int, rng: np.random.Generator
) -> Pool:
    """Where functions may be centred: the user's points, distinct rows, or a part of the rows."""
    if plan.search.own_points:
        return Pool.of_points(plan.search.candidates)
    if plan.search.kind == "full" and sample.n_rows > FULL_LIMIT:
        raise ValueError(
            f"search='full' takes at most {FULL_LIMIT} rows, got {sample.n_rows}: use "
            "Search('pooled', pool_size=...)."
        )
    if plan.all_rows(sample.n_rows, limit):
        return Pool.of_rows(sample, distinct_rows(sample.rows))
    size = plan.pool_size(sample.n_rows, limit)
    return Pool.of_rows(sample, draw_rows(sample.n_rows, size, rng))


@dataclass(frozen=True)
class MatchingModels:
    """Functions in the order of choice, and the models of all sizes.

    Attributes
    ----------
    centers : Pool
        Where each function is centred.
    kernel_of : array of int
        Number of its kernel.
    coefficients : array of shape (n, n, n_outputs)
        Column s - 1 holds those of the model of size s.
    intercepts : array of shape (n, n_outputs)
        Intercepts of all sizes.
    path : Path
        What each step brought and cost.
    """

    centers: Pool
    kernel_of: Indices
    coefficients: Floats
    intercepts: Floats
    path: Path

    def __len__(self) -> int:
        return len(self.kernel_of)

    def truncated(self, n: int, stop_reason: str = "n_basis") -> MatchingModels:
        """The first n functions."""
        return MatchingModels(
            self.centers.take(np.arange(n)),
            self.kernel_of[:n],
            self.coefficients[:n, :n],
            self.intercepts[:n],
            replace(self.path.truncated(n), stop_reason=stop_reason),
        )

    def renumbered(self, index: Indices) -> MatchingModels:
        """The same models, their centres being these rows."""
        path = replace(self.path, index=index)
        return replace(self, centers=Pool(self.centers.items, index), path=path)

    def values(self, kernels: Sequence[Kernel], rows: RowSource, workers: Workers) -> Floats:
        """The largest model at some rows."""
        dictionary = AtomKernel(tuple(kernels), self.centers.items)
        atoms = atoms_of(self.kernel_of)
        values = kernel_times(rows, dictionary, atoms, self.coefficients[:, -1], workers)
        return np.asarray(values + self.intercepts[-1])

    def sums(
        self,
        kernels: Sequence[Kernel],
        rows: RowSource,
        measure: Measure,
        workers: Workers,
    ) -> Floats:
        """Sums over the rows of a measure of the models of all sizes."""
        return sum_along_path(
            rows,
            AtomKernel(tuple(kernels), self.centers.items),
            atoms_of(self.kernel_of),
            self.coefficients,
            self.intercepts,
            *measure,
            workers,
        )


def atoms_of(kernel_of: Indices) -> Indices:
    """Numbers of the functions in a dictionary that has a centre per function, in their order."""
    return kernel_of * len(kernel_of) + np.arange(len(kernel_of))


class MatchingSearch:
    """One pursuit over the functions k(·, c) for all given kernels and centres, and a constant.

    All rows of the problem judge a model, and a random part of many rows chooses it. The constant
    is taken before any choice and counts neither as a function nor as a step.
    """

    def __init__(
        self,
        plan: MatchingPlan,
        problem: Problem,
        kernels: Sequence[Kernel],
        pool: Pool,
        capacity: int,
    ) -> None:
        dictionary = AtomKernel(tuple(kernels), pool.items)
        kernel = CountingKernel(dictionary)
        self.problem = replace(problem, kernel=kernel, meter=CostMeter(kernel))
        self.plan, self._pool, self._n_atoms = plan, pool, dictionary.n_atoms
        sample = problem.sample
        rows = plan.rows_that_choose(sample.n_rows, len(pool))
        self.sketched = rows < sample.n_rows
        drawn = draw_rows(sample.n_rows, rows, problem.rng) if self.sketched else None
        seen = sample if drawn is None else sample.take(drawn)
        atoms = np.arange(self._n_atoms)
        self.objective = self._objective(atoms, seen, capacity)
        labels = np.append(np.tile(self._pool.index, self._n_atoms // len(self._pool)), -1)
        self._pursuit = Pursuit(
            self.objective, self.problem.meter, labels=labels, scale=abs(self.objective.value)
        )

    def run(self, rules: Sequence[StopRule], after_step: Callable[[int], None]) -> Path:
        """Choose by the rules."""
        stalled = [Stalled(_REPEATS)] if self.plan.fitting == "basic" else []
        path = self._pursuit.run([*rules, *stalled], after_step)
        if not len(path):
            raise NothingToChooseError(
                "kernel gives no function that differs from zero or, beside an intercept, from a "
                f"constant on the rows (n_samples = {self.problem.sample.n_rows}): there is "
                "nothing to choose. Use rows that differ, or another kernel."
            )
        return path

    @property
    def atoms(self) -> Indices:
        """Numbers of the chosen functions."""
        return self.objective.chosen[int(self.plan.intercept) :]

    def rows_of(self, atoms: Indices) -> Indices:
        """Row numbers of the centres of some functions, -1 where they are not rows."""
        return self._pool.index[atoms % len(self._pool)]

    def models(self, first: int, last: int) -> tuple[Floats, Floats]:
        """Coefficients and intercepts of sizes first, …, last."""
        return _split(self.objective, first, last, self.plan.intercept)

    def sums(self, rows: RowSource, first: int, last: int, measure: Measure) -> Floats:
        """Sums over some rows of a measure of the models of sizes first, …, last."""
        coefficients, intercepts = self.models(first, last)
        self.problem.meter.passes += rows.n_rows / self.problem.sample.n_rows
        return sum_along_path(
            rows,
            self.problem.kernel,
            self.atoms[:last],
            coefficients,
            intercepts,
            *measure,
            self.problem.workers,
        )

    def fitted(self, n: int, path: Path) -> MatchingModels:
        """The models of up to n functions, fitted to all rows."""
        atoms = self.atoms[:n]
        plan = self.plan
        if self.sketched or (plan.loss is not None and plan.refit_every > 1):
            atoms, coefficients, intercepts = self._on_all_rows(atoms)
        else:
            coefficients, intercepts = self.models(1, n)
        kernel_of, center_of = np.divmod(atoms, len(self._pool))
        centers = self._pool.take(center_of)
        path = replace(
            path.truncated(len(atoms)), index=centers.index, stop_reason=path.stop_reason
        )
        # As a checkpoint returns them: products depend on the layout in their last bits.
        coefficients, intercepts = map(np.ascontiguousarray, (coefficients, intercepts))
        return MatchingModels(centers, kernel_of, coefficients, intercepts, path)

    def _on_all_rows(self, atoms: Indices) -> tuple[Indices, Floats, Floats]:
        """Fit what was chosen to all rows; with a row loss, the largest model only."""
        plan, n = self.plan, len(atoms)
        if plan.loss is None:
            objective = self._objective(atoms, self.problem.sample, n)
            Pursuit(objective, self.problem.meter).take(range(n))
            kept = objective.chosen[int(plan.intercept) :]
            return atoms[kept], *_split(objective, 1, len(kept), plan.intercept)
        coefficients, intercepts = self.models(1, n)
        columns = self.problem.kernel.columns(atoms)
        items = self.problem.sample.rows.take(np.arange(self.problem.sample.n_rows))

        def features(rows: slice) -> Floats:
            tile = columns(items[rows])
            return np.column_stack([np.ones(len(tile)), tile]) if plan.intercept else tile

        start = coefficients[:, -1]
        if plan.intercept:
            start = np.vstack([intercepts[-1], start])
        fitted = self._newton(features, self.problem.sample, start)
        coefficients[:, -1] = fitted[int(plan.intercept) :]
        if plan.intercept:
            intercepts[-1] = fitted[0]
        return atoms, coefficients, intercepts

    def _objective(self, atoms: Indices, sample: Sample, capacity: int) -> MatchingObjective:
        """The objective over these atoms and a constant behind them, which is taken at once."""
        plan = self.plan
        objective: MatchingObjective
        if plan.loss is None:
            objective = self._squared(atoms, sample, capacity)
        else:
            objective = self._rowwise(atoms, sample)
        if plan.intercept:
            objective.force_in(len(atoms))
        return objective

    def _squared(self, atoms: Indices, sample: Sample, capacity: int) -> MatchingObjective:
        plan, n, w = self.plan, len(atoms), sample.weights
        extended = replace(sample, targets=np.column_stack([sample.targets, np.ones(len(w))]))
        statistics = self.problem.statistics(atoms, extended)
        G, means = statistics.gram, statistics.cross[:, -1]
        b = np.vstack([statistics.cross[:, :-1], w @ sample.targets])
        diagonal = np.append(np.diag(G), statistics.weight if plan.intercept else 0.0)

        def columns(index: Indices) -> Floats:
            out = np.empty((len(index), n + 1))
            inner = index < n
            out[inner, :n], out[inner, n] = G[index[inner]], means[index[inner]]
            out[~inner, :n], out[~inner, n] = means, statistics.weight
            return out

        offset = 0.5 * float(sample.target_norms().sum())
        if plan.fitting == "basic":
            return BasicPursuit(diagonal, b, columns, offset=offset)
        options: dict[str, Any] = {
            "capacity": capacity + 1,
            "workers": self.problem.workers,
            "look_ahead": True,
            "offset": offset,
            "rounding": self.problem.kernel.rounding,
        }
        if plan.fitting == "backfit":
            return BackfitPursuit(diagonal, b, columns, refit_every=plan.refit_every, **options)
        return PrefitPursuit(diagonal, b, columns, **options)

    def _rowwise(self, atoms: Indices, sample: Sample) -> MatchingObjective:
        plan, n, m = self.plan, len(atoms), sample.n_rows
        if n * m > _STORED_VALUES:
            raise ValueError(
                f"loss='logistic' keeps the values of all {n} candidates at the {m} rows that "
                "choose, which is too much memory: use Search('pooled', pool_size=..., rows=...) "
                "with smaller numbers."
            )
        assert plan.loss is not None
        functions = np.full((n + 1, m), 1.0 if plan.intercept else 0.0)
        columns = self.problem.kernel.columns(atoms)
        items = sample.rows.take(np.arange(m))

        def fill(rows: slice) -> None:
            functions[:n, rows] = columns(items[rows]).T

        self.problem.workers.map(fill, Workers.slices(m, 256))
        self.problem.meter.passes += m / self.problem.sample.n_rows

        def refit(chosen: Indices, start: Floats) -> Floats:
            F = functions[chosen].T
            return self._newton(F.__getitem__, sample, start)

        return GradientPursuit(
            functions,
            sample.targets,
            sample.weights,
            plan.loss,
            refit=refit,
            refit_every=plan.refit_every,
            workers=self.problem.workers,
        )

    def _newton(self, features: Callable[[slice], Floats], sample: Sample, start: Floats) -> Floats:
        assert self.plan.loss is not None
        w, workers = sample.weights, self.problem.workers
        squares = workers.map(
            lambda rows: w[rows] @ features(rows) ** 2, Workers.slices(sample.n_rows, 1024)
        )
        solution = newton(
            features,
            self.plan.loss,
            sample.targets,
            w,
            start=start,
            ridge=_RIDGE * np.sum(squares, axis=0) / w.sum(),
            workers=workers,
        )
        return solution.coefficients


def _split(
    objective: MatchingObjective, first: int, last: int, intercept: bool
) -> tuple[Floats, Floats]:
    """Coefficients and intercepts of some sizes."""
    constant = int(intercept)
    path = objective.coefficient_path(first + constant, last + constant)
    if not intercept:
        return path, np.zeros(path.shape[1:])
    return path[1:], path[0]
