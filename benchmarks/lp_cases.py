"""LP machines: growing the basis beside the full linear programme, and the gain of hot starts."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import NotAvailableError, kin40k
from benchmarks.harness import Figure, seconds
from pursuit import LPMachineClassifier
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.lp.growth import Growth
from pursuit.gram import kernel_features
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import Sample, as_rows
from pursuit.solvers import HighsMaster, LinearLosses, make_master

Floats = NDArray[np.float64]

GAMMA = 0.1
PENALTY = 1e-3
TOL = 1e-6
"""Relative gap at which growth stops."""
HIGHS_DEFAULTS = {
    "presolve": "choose",
    "primal_feasibility_tolerance": 1e-7,
    "dual_feasibility_tolerance": 1e-7,
}


@dataclass(frozen=True)
class Classes:
    """kin40k above and below its median."""

    X: Floats
    y: Floats
    X_test: Floats
    y_test: Floats

    @classmethod
    def load(cls, n_rows: int) -> Classes:
        data = kin40k()
        level = np.median(data.y_train)
        y, y_test = (np.where(part > level, 1.0, -1.0) for part in (data.y_train, data.y_test))
        return cls(data.X_train[:n_rows], y[:n_rows], data.X_test, y_test)

    @property
    def C(self) -> float:
        return 1.0 / (PENALTY * len(self.y))

    @property
    def losses(self) -> LinearLosses:
        return LinearLosses.hinge(self.y, np.full(len(self.y), self.C))

    def fit(self) -> LPMachineClassifier:
        model = LPMachineClassifier(gamma=GAMMA, C=self.C, tol=TOL, solver="highs")
        return model.fit(self.X, self.y)

    def accuracy(self, model: LPMachineClassifier) -> float:
        return 100.0 * float(model.score(self.X_test, self.y_test))


def lp_machine(quick: bool, repeat: int) -> list[Figure]:
    """An LP machine on kin40k above/below median, beside HiGHS on the full linear programme."""
    if importlib.util.find_spec("highspy") is None:
        raise NotAvailableError('highspy: pip install "pursuit[lp]"')
    small, large = (1200, 2000) if quick else (5000, 10_000)
    task = Classes.load(small)
    found: dict[str, Any] = {}
    best = {"ours": np.inf, "direct": np.inf}
    for _ in range(repeat):
        best["ours"] = min(best["ours"], seconds(lambda: found.update(ours=task.fit())))
        spent, found["direct"] = _direct(task)
        best["direct"] = min(best["direct"], spent)
    model = found["ours"]
    hot, cold = _iterations(task)
    larger = Classes.load(large)
    spent = seconds(lambda: found.update(larger=larger.fit()))
    apart = abs(model.objective_ - found["direct"]) / found["direct"]
    return [
        Figure(f"{small} rows: growing the basis", best["ours"], "s"),
        Figure(f"{small} rows: all columns at once, simplex", best["direct"], "s"),
        Figure("growing / all at once: time", best["ours"] / best["direct"], "x", at_most=0.2),
        Figure("objectives apart, relative", apart, at_most=TOL),
        *_described(f"{small} rows", task, model),
        Figure("hot starts: simplex iterations", hot),
        Figure("cold starts, same columns: simplex iterations", cold),
        Figure("hot / cold: iterations", hot / cold, "x", at_most=0.7),
        Figure(f"{large} rows: growing the basis", spent, "s"),
        *_described(f"{large} rows", larger, found["larger"]),
    ]


def _described(name: str, task: Classes, model: LPMachineClassifier) -> list[Figure]:
    return [
        Figure(f"{name}: relative gap", model.certificate_.relative_gap, at_most=TOL),
        Figure(f"{name}: rounds", model.n_iter_),
        Figure(f"{name}: columns made", float(model.path_.sizes[-1])),
        Figure(f"{name}: columns in use", model.n_basis_),
        Figure(f"{name}: share of the kernel matrix", _share(task, model), "x"),
        Figure(f"{name}: test accuracy", task.accuracy(model), "%"),
    ]


def _share(task: Classes, model: LPMachineClassifier) -> float:
    return float(model.path_.entries[-1]) / len(task.y) ** 2


def _direct(task: Classes) -> tuple[float, float]:
    """Time and minimum of the full programme with HiGHS's defaults, without making its matrix."""
    rows, kernel = as_rows(task.X), compile_kernel("rbf", gamma=GAMMA, n_features=8)[0]
    with Workers() as workers:
        K = kernel_features(rows, kernel, task.X, workers)
    master = make_master("highs", task.losses)
    assert isinstance(master, HighsMaster)
    for name, value in HIGHS_DEFAULTS.items():
        master.highs.setOptionValue(name, value)
    master.add(K)
    found: dict[str, Any] = {}
    spent = seconds(lambda: found.update(solution=master.solve()))
    return spent, task.losses.dual_value(found["solution"].dual)


def _iterations(task: Classes) -> tuple[int, int]:
    """Simplex iterations of a growth, and of solving each of its masters from scratch."""
    rows = as_rows(task.X)
    kernel = CountingKernel(compile_kernel("rbf", gamma=GAMMA, n_features=8)[0])
    sample = Sample(rows, task.y[:, None], np.ones(len(task.y)))
    with FitRun(LPMachineClassifier(), sample, np.arange(len(task.y))) as run:
        options: dict[str, Any] = {"tol": TOL, "n_basis": None, "pool_size": None}
        growth = Growth(rows, [task.losses], np.ones(1), kernel, run, solver="highs", **options)
        reason = None
        while reason is None:
            reason = growth.round()
        path = growth.path(reason)
        columns = kernel_features(rows, kernel, task.X[growth.basis], run.workers)
    cold = 0
    for n in path.sizes:
        master = make_master("highs", task.losses)
        master.add(columns[:, :n])
        cold += master.solve().iterations
    return int(path.iterations[-1]), cold
