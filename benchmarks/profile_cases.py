"""Where the time of a default fit goes, beside what each stage costs at least."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import stage_limits
from benchmarks.data import NotAvailableError, kin40k, robot_arm
from benchmarks.harness import Figure
from benchmarks.stage_limits import Rates, Work
from pursuit import SparseGPRegressor
from pursuit.estimators.fit_run import FitRun
from pursuit.greedy import pool
from pursuit.tuning import Mover

GIGA = 1e9
_PRODUCT, _TILE, _COPIED = 1500, 1 << 15, 1 << 24
_TIMES = 10


def profile(quick: bool, repeat: int) -> list[Figure]:
    """CPU seconds of each stage of a default fit on one core, beside the least it could take."""
    name, X, y = _rows(quick)
    with threadpool_limits(1):
        rates = machine_rates()
        best: dict[str, float] = {}
        for _ in range(repeat):
            model = SparseGPRegressor(n_basis=64 if quick else 512, n_jobs=1, random_state=0)
            with watched() as watch:
                model.fit(X, y)
            for stage, seconds in watch.seconds.items():
                best[stage] = min(best.get(stage, np.inf), seconds)
    figures = [
        Figure(f"rows of {name}", len(X)),
        Figure("basis functions", len(model.basis_)),
        Figure("product, float64", rates.flops / GIGA, "Gflop/s"),
        Figure("product, float32", rates.single_flops / GIGA, "Gflop/s"),
        Figure("exponentials, float64", rates.values / GIGA, "G/s"),
        Figure("exponentials, float32", rates.single_values / GIGA, "G/s"),
        Figure("memory, read and written", rates.bytes / GIGA, "GB/s"),
    ]
    total, limits = sum(best.values()), least_work(model, watch, *X.shape)
    for stage, seconds in best.items():
        figures += [
            Figure(f"{stage}: CPU", seconds, "s"),
            Figure(f"{stage}: part of the fit", 100 * seconds / total, "%"),
        ]
        if stage not in limits:
            continue
        work = limits[stage]
        products = rates.product_seconds(work)
        figures += [
            Figure(f"{stage}: products at full rate", products, "s"),
            Figure(f"{stage}: kernel values at full rate", rates.value_seconds(work), "s"),
            Figure(f"{stage}: memory at full rate", rates.byte_seconds(work), "s"),
            Figure(f"{stage}: limit over CPU", 100 * rates.limit(work) / seconds, "%"),
        ]
        if stage == "move":
            share = 100 * products / seconds
            figures.append(Figure("move: products over CPU", share, "%", at_least=60.0))
    limit = sum(rates.limit(work) for work in limits.values())
    figures += [
        Figure("whole fit: CPU", total, "s"),
        Figure("whole fit: limit over CPU", 100 * limit / total, "%"),
    ]
    return figures


def _rows(quick: bool) -> tuple[str, Any, Any]:
    """kin40k, or a simulated arm where the data set is missing."""
    try:
        data = kin40k()
    except NotAvailableError:
        X, y = robot_arm(4000 if quick else 36_000)
        return "a simulated arm", X, y
    if quick:
        data = data.cut()
    return "kin40k", data.X_train, data.y_train


def least_work(model: SparseGPRegressor, watch: Watch, m: int, d: int) -> dict[str, Work]:
    """What each stage of a watched fit needs at least."""
    n, sums, steps = len(model.basis_), watch.sums, watch.steps
    evaluations = [(s.n_rows, s.n_evaluations) for s in model.learning_report_.stages]
    work = {"learn": stage_limits.learn(evaluations, d)}
    if sums["choose"]:
        S, P = sums["choose"][0]
        work["choose"] = stage_limits.choose(P, S, n, d)
    if steps:
        judged = max((rows for rows, _ in sums["move"]), default=0)
        work["move"] = stage_limits.move(steps, judged, d)
    work["fit"] = stage_limits.fit(m, n, d)
    work["calibrate"] = stage_limits.calibrate(len(model._reserved_rows), n, d)
    if model.certificate_ is not None and model.certificate_.kind == "hybrid":
        work["certify"] = stage_limits.certify(m, d)
    return {stage: least for stage, least in work.items() if stage in watch.seconds}


class Watch:
    """What a fit did.

    Attributes
    ----------
    seconds : dict of str to float
        CPU seconds of each stage.
    sums : dict of str to list of (int, int)
        Rows and points of the sums over rows that each stage has formed.
    steps : list of (int, int)
        Rows and points of the steps that have moved the basis.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.sums: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.steps: list[tuple[int, int]] = []
        self._stage, self._since = "", process_time()

    def begin(self, stage: str) -> None:
        """End the stage before, and begin another."""
        now = process_time()
        if self._stage:
            self.seconds[self._stage] += now - self._since
        self._stage, self._since = stage, now

    def note_sums(self, rows: int, points: int) -> None:
        """Note sums over rows in the present stage."""
        self.sums[self._stage].append((rows, points))


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch the fits in this context."""
    watch = Watch()
    begin, statistics, slope = FitRun.begin, pool.gram_statistics, Mover.slope

    def begins(run: FitRun, name: str, *rest: Any, **options: Any) -> Callable[[int], None]:
        watch.begin(name)
        return begin(run, name, *rest, **options)

    def sums(sample: Any, kernel: Any, points: Any, **options: Any) -> Any:
        watch.note_sums(sample.n_rows, len(points))
        return statistics(sample, kernel, points, **options)

    def step(mover: Mover, Z: Any, batch: Any, *rest: Any, **options: Any) -> Any:
        watch.steps.append((batch.n_rows, len(Z)))
        return slope(mover, Z, batch, *rest, **options)

    with (
        patch.object(FitRun, "begin", begins),
        patch.object(pool, "gram_statistics", sums),
        patch.object(Mover, "slope", step),
    ):
        yield watch
        watch.begin("")


def machine_rates() -> Rates:
    """Rates of one core, the best of a few measurements in CPU time."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((_PRODUCT, _PRODUCT))
    B, tile, large = A.astype(np.float32), -rng.random(_TILE), np.zeros(_COPIED)
    copy = np.ones_like(large)

    def exponentials(tile: Any) -> float:
        out = np.empty_like(tile)
        return _TIMES * tile.size / _best(lambda: [np.exp(tile, out=out) for _ in range(_TIMES)])

    return Rates(
        flops=2.0 * _PRODUCT**3 / _best(lambda: A @ A),
        single_flops=2.0 * _PRODUCT**3 / _best(lambda: B @ B),
        values=exponentials(tile),
        single_values=exponentials(tile.astype(np.float32)),
        bytes=16.0 * _COPIED / _best(lambda: np.copyto(copy, large)),
    )


def _best(task: Callable[[], object]) -> float:
    task()
    times = []
    for _ in range(_TIMES):
        start = process_time()
        task()
        times.append(process_time() - start)
    return min(times)
