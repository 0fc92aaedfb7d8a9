"""Column generation: solve over few kernel functions, price the others, add the best, repeat."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate, relative_gap
from pursuit.estimators.fit_run import FitRun
from pursuit.gram import kernel_diagonal, kernel_features, kernel_times
from pursuit.greedy import CostMeter, Path
from pursuit.kernels import CountingKernel, Kernel
from pursuit.rows import RowSource, SelectedRows, draw_rows
from pursuit.solvers import LinearLosses, RestrictedMaster, make_master

BATCH = 10
"""Kernel functions that each output is given per round. More of them take fewer rounds and more
simplex iterations."""
POOL = 1000
"""Rows that a pooled search prices per round where the user leaves that open."""
_VIOLATED = 1e-8
"""A column is worth adding if its price is above 1 by more than this: the solver's rounding."""
_TIE = 1e-10
"""Relative difference up to which two prices count as equal: rounding does not rank them."""
_STEEP = 100.0
"""Largest slope of a loss. With a larger one, dual variables would have to cancel to more digits
than there are."""
_SHARE = 4
"""With a limited basis, a round adds at most one in this many of the functions that are left."""
_PULL = 0.7
"""Weight of the centre where columns are ranked: a fifth fewer simplex iterations than with 0."""
_ALIKE = 0.9
"""Normalised kernel value above which two functions are too much alike for one batch."""
_LOOKED_AT = 40
"""Candidates that are compared for a batch, per function of the batch."""
_ZERO = 1e-10
"""Coefficients below this part of their sum are rounding and become zero."""
_ROUNDING = 1e-12
"""Relative difference below which two bounds count as equal."""
_SHARES = np.linspace(0.0, 1.0, 33)[1:]
"""Points that are tried between the best dual point so far and a new one."""


@dataclass
class Machine:
    """The linear programme of one output, and what is known of it.

    ``zero`` is the objective of the best constant, ``upper`` that of the present model, and
    ``lower`` a bound on the minimum over the columns of all rows, as computed; ``proof`` is its
    dual point. The centre is the dual point with the best bound so far; ``centre_prices`` is None
    until a dual point has been priced.
    """

    losses: LinearLosses
    master: RestrictedMaster
    zero: float
    columns: list[int] = field(default_factory=list)
    coefficients: Floats = field(default_factory=lambda: np.empty(0))
    intercept: float = 0.0
    dual: Floats = field(default_factory=lambda: np.empty(0))
    centre_dual: Floats = field(default_factory=lambda: np.empty(0))
    centre_prices: Floats | None = None
    centre_bound: float = 0.0
    upper: float = np.inf
    lower: float = 0.0
    proof: Floats = field(default_factory=lambda: np.empty(0))
    closed: bool = False
    iterations: int = 0

    @classmethod
    def of(cls, losses: LinearLosses, solver: str) -> Machine:
        """A machine without kernel functions."""
        constant = losses.intercept(np.zeros(losses.gain.shape[1]))
        master = make_master(solver, losses.balanced())
        return cls(losses, master, losses.value(np.array(constant)))

    def solve(self) -> None:
        """Solve the master; make the dual feasible, and coefficients that are rounding zero."""
        solution = self.master.solve()
        a = solution.coefficients
        self.coefficients = np.where(np.abs(a) > _ZERO * np.abs(a).sum(), a, 0.0)
        self.dual = self.losses.feasible(solution.dual)
        self.iterations = solution.iterations

    def evaluate(self, fitted: Floats) -> None:
        """Compute intercept and objective, from the values of the kernel functions' sum."""
        self.intercept = self.losses.intercept(fitted)
        penalty = float(np.abs(self.coefficients).sum())
        self.upper = penalty + self.losses.value(fitted + self.intercept)

    def weigh(self, prices: Floats) -> None:
        """Move the centre to the best point on the way to the dual point with these prices.

        ν over its largest price is feasible for all columns that were priced, so s Σ_k g_k v_k with
        s = 1 / max(1, max_j |K_j'ν|) bounds the minimum over them from below (Formulas §6). Prices
        are linear in ν, so the points in between need no product with K.
        """
        if self.centre_prices is None:
            self.centre_dual, self.centre_bound = np.zeros_like(self.dual), 0.0
            self.centre_prices = np.zeros_like(prices)
        old_dual, old_prices = self.centre_dual, self.centre_prices
        ends = self.losses.dual_value(old_dual), self.losses.dual_value(self.dual)
        share, best = 0.0, self.centre_bound
        for t in _SHARES:
            ceiling = max(1.0, float(np.abs((1.0 - t) * old_prices + t * prices).max(initial=0.0)))
            bound = ((1.0 - t) * ends[0] + t * ends[1]) / ceiling
            if bound > best:
                share, best = t, bound
        self.centre_dual = (1.0 - share) * old_dual + share * self.dual
        self.centre_prices = (1.0 - share) * old_prices + share * prices
        self.centre_bound = best

    def bound(self) -> float:
        """The centre's bound; the upper one where rounding cannot tell them apart."""
        assert self.centre_prices is not None
        within = self.upper - self.centre_bound <= _ROUNDING * self.upper
        return self.upper if within else self.centre_bound

    def gap(self, lower: float) -> float:
        """Gap to a lower bound, relative to the value and to what the model takes off ``zero``.

        It is the larger of the two: the best value may be a tiny part of ``zero`` with a large C,
        and nearly all of it with a small one.
        """
        share = (self.upper - lower) / self.upper if self.upper > lower else 0.0
        return max(share, relative_gap(self.upper, lower, 2.0 * self.zero))


class Growth:
    """Linear programmes of several outputs over kernel columns at the rows, grown together.

    Each output has a master of its own; the prices of all of them come from one product with the
    kernel matrix. Kernel values are divided, and losses multiplied, by the largest k(x, x), or by
    less where slopes of the losses would become large. This changes neither f nor the problem, and
    gives the solver numbers of moderate size.

    The run's checkpoint records kernel products and batches. A fit that goes on solves the linear
    programmes again, which leads it through the same corners, and takes the rest from there.

    Parameters
    ----------
    rows : RowSource
        Rows, each of which may become a centre.
    losses : list of LinearLosses
        One per output.
    spreads : array of shape (n_outputs,)
        What 1 in the losses is in units of y.
    kernel : CountingKernel
        k, symmetric.
    run : FitRun
        Threads, time, random numbers and checkpoint.
    tol : float
        Gap at which growth stops.
    n_basis : int or None
        Largest number of functions that are tried.
    pool_size : int or None
        Rows that are priced per round; None for all.
    solver : str
        Name of the linear programming solver.
    """

    def __init__(
        self,
        rows: RowSource,
        losses: list[LinearLosses],
        spreads: Floats,
        kernel: CountingKernel,
        run: FitRun,
        *,
        tol: float,
        n_basis: int | None,
        pool_size: int | None,
        solver: str,
    ) -> None:
        self._rows, self._kernel, self._run = rows, kernel, run
        self._tol, self._n_basis = tol, n_basis
        self._meter = CostMeter(kernel)
        self._diagonal = kernel_diagonal(rows, kernel)
        boxes = [each.balanced() for each in losses]
        steepest = max(float(np.maximum(box.upper, -box.lower).max()) for box in boxes)
        largest = float(np.abs(self._diagonal).max()) or 1.0
        self._scale = min(largest, _STEEP / steepest) if steepest > 0.0 else largest
        self._units = spreads / self._scale
        self.machines = [Machine.of(each.times(self._scale), solver) for each in losses]
        self.basis: list[int] = []
        self._pool_size = rows.n_rows if pool_size is None else pool_size
        self._pooled = self._pool_size < rows.n_rows
        pool = draw_rows(rows.n_rows, self._pool_size, run.rng) if self._pooled else None
        self._prices = self._priced(pool)
        self._log: list[dict[str, float]] = []

    def round(self) -> str | None:
        """Solve, price and add the best columns; returns the reason to stop, if there is one."""
        self._solve()
        self._price("prices")
        size = len(self.basis)
        reason = self._judge(self._out_of_budget())
        if reason is None and not self._extend():
            reason = self._judge("n_basis")
        certificate = self.expected()
        self._log.append(
            {
                "sizes": size,
                "value": certificate.upper,
                "lower": certificate.lower,
                "gap": certificate.relative_gap,
                "iterations": sum(machine.iterations for machine in self.machines),
                "seconds": self._meter.seconds,
                "entries": self._meter.entries,
                "passes": self._meter.passes,
            }
        )
        for machine in self.machines:
            machine.iterations = 0
        return reason

    def __str__(self) -> str:
        last = self._log[-1]
        return (
            f"round {len(self._log)}: {last['sizes']} kernel functions, minimum between "
            f"{last['lower']:.6g} and {last['value']:.6g}"
        )

    def path(self, reason: str) -> Path:
        """What every round brought and cost."""
        whole = {"sizes": np.intp, "iterations": np.intp, "entries": np.int64}
        arrays: dict[str, Any] = {
            name: np.array([entry[name] for entry in self._log], dtype=whole.get(name, np.float64))
            for name in self._log[0]
        }
        arrays["iterations"] = np.cumsum(arrays["iterations"])
        return Path(index=np.full(len(self._log), -1), stop_reason=reason, **arrays)

    def expected(self) -> Certificate:
        """What is expected to be proved, in units of y: values as computed."""
        uppers, lowers, zeros = (
            self._units * np.array([getattr(machine, name) for machine in self.machines])
            for name in ("upper", "lower", "zero")
        )
        return Certificate(
            uppers,
            lowers,
            2.0 * zeros,
            "Lagrangian",
            over="the kernel functions at all rows",
            reference="the linear programme with the kernel functions at all rows",
            baseline="the best constant",
        )

    def duals(self) -> list[Floats]:
        """The dual points that prove most, in units of the losses that were given."""
        return [
            (machine.proof if machine.proof.size else 0.0 * machine.losses.gain) / self._scale
            for machine in self.machines
        ]

    def model(self) -> tuple[Indices, Floats, Floats]:
        """Rows of the kernel functions in use, their coefficients, and the intercepts.

        Coefficients are in units of y, intercepts in those of the losses.
        """
        a = self._coefficients()
        used = np.flatnonzero(a.any(axis=1))
        intercepts = np.array([machine.intercept for machine in self.machines])
        return np.array(self.basis, dtype=np.intp)[used], a[used] * self._units, intercepts

    def _solve(self) -> None:
        """Solve the open masters, and evaluate their models at all rows."""
        self._run.workers.map(Machine.solve, [self.machines[output] for output in self._open()])
        a = self._coefficients()
        used = np.flatnonzero(a.any(axis=1))
        fitted = np.zeros((self._rows.n_rows, len(self.machines)))
        if len(used):
            values = partial(self._evaluated, a, used)
            fitted = self._run.recorded(self._name("values"), values)
        for output in self._open():
            self.machines[output].evaluate(fitted[:, output])

    def _evaluated(self, a: Floats, used: Indices) -> Floats:
        points = self._rows.take(np.array(self.basis)[used])
        factors = a[used] / self._scale
        return kernel_times(self._rows, self._kernel, points, factors, self._run.workers)

    def _price(self, name: str) -> None:
        """Prices of the present dual points, and what they prove."""
        duals = np.column_stack([machine.dual.sum(axis=0) for machine in self.machines])
        values = self._prices.update(duals, self._name(name))
        for output in self._open():
            self.machines[output].weigh(values[:, output])

    def _judge(self, reason: str | None) -> str | None:
        """Close outputs that are done; the reason to stop, if there is one.

        The prices of a pool say nothing of other rows. When they ask for no more, or when it is
        time to stop, those of all rows are computed, and the best of these are the next pool.
        """
        if self._pooled:
            if reason is None and not all(self._done(output) for output in self._open()):
                return None
            self._set_prices(self._priced(None))
            self._price("all-prices")
        for output in self._open():
            machine = self.machines[output]
            if machine.bound() > machine.lower or not machine.proof.size:
                machine.lower, machine.proof = machine.bound(), machine.centre_dual
            machine.closed = self._done(output)
        if self._open():
            if self._pooled:
                self._set_prices(self._prices.best(self._pool_size, self._open()))
            return reason
        met = all(machine.gap(machine.lower) <= self._tol for machine in self.machines)
        return "tol" if met else "no gain"

    def _extend(self) -> bool:
        """Add a batch to every open master; whether anything was added."""
        room = None if self._n_basis is None else self._n_basis - len(self.basis)
        wanted = {output: self._wanted(output) for output in self._open()}
        if room == 0:
            wanted = {o: order[np.isin(order, self.basis)] for o, order in wanted.items()}
        wanted = {output: order for output, order in wanted.items() if len(order)}
        batches = self._run.recorded(self._name("batches"), partial(self._batches, wanted))
        self.basis += self._admitted(batches, room)
        added = {
            output: [row for row in batch if row in self.basis] for output, batch in batches.items()
        }
        rows = sorted({row for batch in added.values() for row in batch})
        if not rows:
            return False
        points = self._rows.take(np.array(rows))
        columns = kernel_features(self._rows, self._kernel, points, self._run.workers) / self._scale
        for output, batch in added.items():
            machine = self.machines[output]
            machine.master.add(columns[:, np.searchsorted(rows, batch)])
            machine.columns += batch
        return True

    def _batches(self, wanted: dict[int, Indices]) -> dict[int, list[int]]:
        """The first rows of each output's order that are not much alike."""
        known = self._rows, self._kernel, self._diagonal
        return {output: diverse(*known, order, BATCH) for output, order in wanted.items()}

    def _admitted(self, batches: dict[int, list[int]], room: int | None) -> list[int]:
        """Rows of the outputs' batches that join the basis; ``room`` is how many may.

        The best of every batch goes before the second of any, and the output with the dearest
        column goes first. With a limited basis a round takes only a part of what is left: columns
        chosen before there is a model are not those that are missing from a good one.
        """
        dearest = np.abs(self._prices.values).max(axis=0, initial=0.0)
        outputs = sorted(batches, key=lambda output: -dearest[output])
        turns = zip_longest(*(batches[output] for output in outputs))
        rows = dict.fromkeys(row for turn in turns for row in turn if row is not None)
        new = [row for row in rows if row not in self.basis]
        return new if room is None else new[: -(-room // _SHARE)]

    def _wanted(self, output: int) -> Indices:
        """Rows outside an output's master whose columns are worth adding, the best first.

        They are ranked by their prices at a point between the master's dual point, which jumps from
        corner to corner, and the centre.
        """
        machine, prices = self.machines[output], self._prices.values[:, output]
        inside = np.isin(self._prices.candidates, machine.columns)
        outside = np.flatnonzero((np.abs(prices) > 1.0 + _VIOLATED) & ~inside)
        worth = prices[outside]
        if machine.centre_prices is not None:
            worth = (1.0 - _PULL) * worth + _PULL * machine.centre_prices[outside]
        worth = np.abs(worth)
        ranks = np.round(worth / (_TIE * worth.max(initial=_TIE)))
        return self._prices.candidates[outside[np.argsort(-ranks, kind="stable")]]

    def _done(self, output: int) -> bool:
        machine = self.machines[output]
        near = machine.gap(machine.bound()) <= self._tol
        return near or not len(self._wanted(output))

    def _priced(self, candidates: Indices | None) -> Prices:
        return Prices(self._rows, candidates, self._kernel, self._scale, self._run)

    def _set_prices(self, prices: Prices) -> None:
        """Price other candidates: what is known of the centres is about the old ones."""
        self._prices = prices
        for machine in self.machines:
            machine.centre_prices = None

    def _open(self) -> list[int]:
        return [o for o, machine in enumerate(self.machines) if not machine.closed]

    def _coefficients(self) -> Floats:
        """One row per kernel function of the union of all bases, one column per output."""
        a = np.zeros((len(self.basis), len(self.machines)))
        position = {row: at for at, row in enumerate(self.basis)}
        for output, machine in enumerate(self.machines):
            mine = [position[row] for row in machine.columns[: len(machine.coefficients)]]
            a[mine, output] = machine.coefficients
        return a

    def _out_of_budget(self) -> str | None:
        if self._run.interrupted():
            return "interrupted"
        # Most of the time goes into the first prices, and a constant is not worth them.
        return "time" if self.basis and self._run.clock.over() else None

    def _name(self, what: str) -> str:
        """The name of a recorded result of this round."""
        return f"{what}-{len(self._log)}"


class Prices:
    """K'ν at candidate rows, kept up to date as ν changes.

    From one solution of a master to the next most dual variables stay at a bound. So the product is
    corrected with the rows that changed, unless the rows of nonzero ν are fewer. Nothing of K is
    stored.

    Parameters
    ----------
    rows : RowSource
        All rows.
    candidates : array of int or None
        Numbers of the rows whose columns are priced; None for all.
    kernel : Kernel
        k, symmetric.
    scale : float
        Kernel values are divided by it.
    run : FitRun
        Threads, whose number does not change a bit of the result, and checkpoint.
    """

    def __init__(
        self,
        rows: RowSource,
        candidates: Indices | None,
        kernel: Kernel,
        scale: float,
        run: FitRun,
    ) -> None:
        self._rows, self._kernel, self._scale, self._run = rows, kernel, scale, run
        self.candidates = np.arange(rows.n_rows) if candidates is None else candidates
        self._priced = rows if candidates is None else SelectedRows(rows, candidates)
        self._dual: Floats | None = None
        self.values: Floats = np.empty(0)

    def update(self, dual: Floats, name: str) -> Floats:
        """Prices for ν of shape (m, n_outputs): an array of shape (n_candidates, n_outputs).

        The product is recorded in the run's checkpoint under this name.
        """
        index = np.flatnonzero(dual.any(axis=1))
        vectors, before = dual, np.zeros((len(self.candidates), dual.shape[1]))
        if self._dual is not None:
            change = dual - self._dual
            changed = np.flatnonzero(change.any(axis=1))
            if len(changed) < len(index):
                index, vectors, before = changed, change, self.values
        self.values, self._dual = before, dual
        if len(index):
            product = partial(self._product, index, vectors)
            self.values = before + self._run.recorded(name, product)
        return self.values

    def _product(self, index: Indices, vectors: Floats) -> Floats:
        points, factors = self._rows.take(index), vectors[index] / self._scale
        return kernel_times(self._priced, self._kernel, points, factors, self._run.workers)

    def best(self, n: int, outputs: list[int]) -> Prices:
        """Prices of the n candidates that are worth most to one of these outputs."""
        order = np.argsort(-np.abs(self.values[:, outputs]).max(axis=1), kind="stable")
        kept = np.sort(order[:n])
        chosen = Prices(self._rows, self.candidates[kept], self._kernel, self._scale, self._run)
        chosen._dual, chosen.values = self._dual, self.values[kept].copy()
        return chosen


def diverse(rows: RowSource, kernel: Kernel, diagonal: Floats, order: Indices, n: int) -> list[int]:
    """The first n rows of ``order`` of which no two are much alike: |k(x, x')| ≤ .9 normalised.

    Columns that are alike correct the same fault of a model, and one of them is enough.
    """
    looked_at = order[: _LOOKED_AT * n]
    items = rows.take(looked_at)
    root = np.sqrt(np.abs(diagonal[looked_at]))
    free = np.ones(len(looked_at), bool)
    chosen: list[int] = []
    while len(chosen) < n and free.any():
        at = int(np.argmax(free))
        row = int(looked_at[at])
        chosen.append(row)
        column = kernel.tile(items, rows.take(np.array([row])))[:, 0]
        free &= np.abs(column) <= _ALIKE * root * root[at]
        free[at] = False
    return chosen
