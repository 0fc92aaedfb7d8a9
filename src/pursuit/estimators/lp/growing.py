"""Column generation: solve over few kernel functions, price the others, add the best, repeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.lp.machine import Machine
from pursuit.estimators.lp.pricing import Prices, diverse
from pursuit.gram import kernel_diagonal, kernel_features, kernel_times
from pursuit.greedy import Meter, Path
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.rows import RowSource, draw_rows
from pursuit.solvers import LinearLosses

_VIOLATED = 1e-8
"""A column prices itself in when it is above 1 by more than the solver's rounding."""
_TIE = 1e-10
_STEEP = 100.0
"""Largest slope of a loss: with more, duals would have to cancel to more digits than there are."""
_SHARE = 4
"""A round takes one in so many of the columns that are left of a limited basis."""
_PULL = 0.7
"""Weight of the centre where columns are ranked: a fifth fewer simplex iterations than with 0."""


@dataclass(frozen=True)
class GrowthPlan:
    """How a basis grows, as the user gave it."""

    tol: float
    batch_size: int
    n_basis: int | None
    pool_size: int | None
    max_time: float | None
    solver: str


class Growth:
    """Linear programmes of several outputs over kernel columns at the rows, grown together.

    Each output has a master of its own; the prices of all of them come from one product with the
    kernel matrix. Kernel values are divided, and losses multiplied, by the largest k(x, x), or by
    less where slopes of the losses would become large. This changes neither f nor the problem, and
    leaves the solver numbers it can work with.

    Parameters
    ----------
    plan : GrowthPlan
        When to stop, and how much to add at a time.
    rows : RowSource
        Rows, each of which may become a centre.
    losses : list of LinearLosses
        One an output.
    spreads : array of shape (n_outputs,)
        What 1 in the losses is in units of y.
    kernel : CountingKernel
        k.
    workers, meter, rng
        Threads, cost so far, and the source of a random pool.
    """

    def __init__(
        self,
        plan: GrowthPlan,
        rows: RowSource,
        losses: list[LinearLosses],
        spreads: Floats,
        kernel: CountingKernel,
        workers: Workers,
        meter: Meter,
        rng: np.random.Generator,
    ) -> None:
        self._plan, self._rows, self._kernel = plan, rows, kernel
        self._workers, self._meter = workers, meter
        self._diagonal = kernel_diagonal(rows, kernel)
        boxes = [each.balanced() for each in losses]
        steepest = max(float(np.maximum(box.upper, -box.lower).max()) for box in boxes)
        largest = float(np.abs(self._diagonal).max()) or 1.0
        self._scale = min(largest, _STEEP / steepest) if steepest > 0.0 else largest
        self._units = spreads / self._scale
        self.machines = [Machine.of(each.times(self._scale), plan.solver) for each in losses]
        self.basis: list[int] = []
        self._pool_size = rows.n_rows if plan.pool_size is None else plan.pool_size
        self._pooled = self._pool_size < rows.n_rows
        pool = draw_rows(rows.n_rows, self._pool_size, rng) if self._pooled else None
        self._prices = self._priced(pool)
        self._rounds: list[dict[str, float]] = []

    def run(self, interrupted: Callable[[], bool], after_round: Callable[[str], None]) -> Path:
        """Grow until a rule says stop; every round is told in a line."""
        reason: str | None = None
        while reason is None:
            self._solve()
            self._price()
            size = len(self.basis)
            reason = self._judge(self._out_of_budget(interrupted))
            if reason is None and not self._extend():
                reason = self._judge("n_basis")
            self._record(size)
            after_round(
                f"round {len(self._rounds)}: {size} kernel functions, minimum between "
                f"{self._rounds[-1]['lower']:.6g} and {self._rounds[-1]['value']:.6g}"
            )
        rounds = self._rounds
        whole = {"sizes": np.intp, "iterations": np.intp, "entries": np.int64}
        arrays: dict[str, Any] = {
            name: np.array([entry[name] for entry in rounds], dtype=whole.get(name, np.float64))
            for name in rounds[0]
        }
        arrays["iterations"] = np.cumsum(arrays["iterations"])
        return Path(index=np.full(len(rounds), -1), stop_reason=reason, **arrays)

    def certificate(self) -> Certificate:
        """What is proved, in units of y."""
        uppers, lowers, zeros = (
            self._units * np.array([getattr(machine, name) for machine in self.machines])
            for name in ("upper", "lower", "zero")
        )
        over = "the kernel functions at all rows"
        return Certificate(uppers, lowers, 2.0 * zeros, "Lagrangian", over=over)

    def model(self) -> tuple[Indices, Floats, Floats]:
        """Rows of the kernel functions in use, their coefficients, and the intercepts.

        The former in units of y, the latter in those of the losses.
        """
        a = self._coefficients()
        used = np.flatnonzero(a.any(axis=1))
        intercepts = np.array([machine.intercept for machine in self.machines])
        return np.array(self.basis, dtype=np.intp)[used], a[used] * self._units, intercepts

    def _solve(self) -> None:
        """Solve the open masters, and evaluate their models at all rows."""
        self._workers.map(Machine.solve, [self.machines[output] for output in self._open()])
        a = self._coefficients()
        used = np.flatnonzero(a.any(axis=1))
        fitted = np.zeros((self._rows.n_rows, len(self.machines)))
        if len(used):
            points = self._rows.take(np.array(self.basis)[used])
            factors = a[used] / self._scale
            fitted = kernel_times(self._rows, self._kernel, points, factors, self._workers)
        for output in self._open():
            self.machines[output].evaluate(fitted[:, output])

    def _price(self) -> None:
        """Prices of the present dual points, and what they prove."""
        values = self._prices.update(self._duals())
        for output in self._open():
            self.machines[output].weigh(values[:, output])

    def _judge(self, reason: str | None) -> str | None:
        """Close outputs that are done; the reason to stop, if there is one.

        The prices of a pool say nothing of other rows: when they ask for no more, or when it is
        time to stop, those of all rows are computed, and the best of these are the next pool.
        """
        if self._pooled:
            if reason is None and not all(self._done(output) for output in self._open()):
                return None
            self._prices = self._priced(None)
            for machine in self.machines:
                machine.centre = None
            self._price()
        for output in self._open():
            machine = self.machines[output]
            machine.lower = max(machine.lower, machine.bound())
            machine.closed = self._done(output)
        if self._open():
            if self._pooled:
                self._prices = self._prices.best(self._pool_size, self._open())
                for machine in self.machines:
                    machine.centre = None
            return reason
        met = all(machine.gap(machine.lower) <= self._plan.tol for machine in self.machines)
        return "tol" if met else "no gain"

    def _extend(self) -> bool:
        """Add a batch to every open master; whether anything was added."""
        batches: dict[int, list[int]] = {}
        for output in self._open():
            order = self._wanted(output)
            if self._room() == 0:
                order = order[np.isin(order, self.basis)]
            if len(order):
                n = self._plan.batch_size
                batches[output] = diverse(self._rows, self._kernel, self._diagonal, order, n)
        self.basis += self._admitted(batches)
        added = {
            output: [row for row in batch if row in self.basis] for output, batch in batches.items()
        }
        rows = sorted({row for batch in added.values() for row in batch})
        if not rows:
            return False
        points = self._rows.take(np.array(rows))
        columns = kernel_features(self._rows, self._kernel, points, self._workers) / self._scale
        for output, batch in added.items():
            machine = self.machines[output]
            machine.master.add(columns[:, np.searchsorted(rows, batch)])
            machine.columns += batch
        return True

    def _admitted(self, batches: dict[int, list[int]]) -> list[int]:
        """Rows of the outputs' batches that join the basis.

        The best of every batch goes before the second of any, and the output with the dearest
        column first. Of a limited basis a round takes no more than a part of what is left: columns
        chosen before any model was there are not those that are missing from a good one.
        """
        dearest = np.abs(self._prices.values).max(axis=0, initial=0.0)
        outputs = sorted(batches, key=lambda output: -dearest[output])
        turns = zip_longest(*(batches[output] for output in outputs))
        rows = dict.fromkeys(row for turn in turns for row in turn if row is not None)
        fresh = [row for row in rows if row not in self.basis]
        room = self._room()
        return fresh if room is None else fresh[: -(-room // _SHARE)]

    def _room(self) -> int | None:
        """How many rows may still join the basis; None for as many as there are."""
        limit = self._plan.n_basis
        return None if limit is None else limit - len(self.basis)

    def _wanted(self, output: int) -> Indices:
        """Rows outside an output's master whose columns price themselves in, the best first.

        They are ranked by their prices not at the dual point of the master, which jumps from one
        vertex to another, but at a point between it and the centre.
        """
        machine, prices = self.machines[output], self._prices.values[:, output]
        inside = np.isin(self._prices.candidates, machine.columns)
        found = np.flatnonzero((np.abs(prices) > 1.0 + _VIOLATED) & ~inside)
        worth = prices[found]
        if machine.centre is not None:
            worth = (1.0 - _PULL) * worth + _PULL * machine.centre.prices[found]
        worth = np.abs(worth)
        ranks = np.round(worth / (_TIE * worth.max(initial=_TIE)))
        return self._prices.candidates[found[np.argsort(-ranks, kind="stable")]]

    def _done(self, output: int) -> bool:
        machine = self.machines[output]
        near = machine.gap(machine.bound()) <= self._plan.tol
        return near or not len(self._wanted(output))

    def _priced(self, candidates: Indices | None) -> Prices:
        return Prices(self._rows, candidates, self._kernel, self._scale, self._workers)

    def _open(self) -> list[int]:
        return [o for o, machine in enumerate(self.machines) if not machine.closed]

    def _duals(self) -> Floats:
        return np.column_stack([machine.dual.sum(axis=0) for machine in self.machines])

    def _coefficients(self) -> Floats:
        """One row for each kernel function of the union of all bases, one column an output."""
        a = np.zeros((len(self.basis), len(self.machines)))
        position = {row: at for at, row in enumerate(self.basis)}
        for output, machine in enumerate(self.machines):
            mine = [position[row] for row in machine.columns[: len(machine.coefficients)]]
            a[mine, output] = machine.coefficients
        return a

    def _out_of_budget(self, interrupted: Callable[[], bool]) -> str | None:
        if interrupted():
            return "interrupted"
        if self._plan.max_time is None or not self.basis:
            # Most of the time goes into the first prices, and a constant is not worth them.
            return None
        return "time" if self._meter.seconds >= self._plan.max_time else None

    def _record(self, size: int) -> None:
        found = self.certificate()
        self._rounds.append(
            {
                "sizes": size,
                "value": found.upper,
                "lower": found.lower,
                "gap": found.relative_gap,
                "iterations": sum(machine.iterations for machine in self.machines),
                "seconds": self._meter.seconds,
                "entries": self._meter.entries,
                "passes": self._meter.passes,
            }
        )
        for machine in self.machines:
            machine.iterations = 0
