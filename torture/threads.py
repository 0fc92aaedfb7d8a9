"""Fits at the same time, in threads and processes, are those of fits one after the other.

To the last bit. A seed draws rows, two estimators, and how many threads BLAS has. Each estimator is
fitted alone; then eight threads fit both at once, four times each, directly, within joblib's
threads, or within its processes.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from torture import Fuzzer, Report
from torture.small_models import MODELS, Rows, bounds, differences, fitted, numbers

AT_ONCE = 8
BACKENDS = ("pool", "threading", "loky")


def run(seed: int, backends: tuple[str, ...] = BACKENDS) -> Report:
    """Fit two random estimators alone and at the same time."""
    rng, report = np.random.default_rng(seed), Report()
    rows = Rows(rng, int(rng.integers(60, 1200)), int(rng.integers(1, 5)))
    names = [str(name) for name in rng.choice(list(MODELS), 2, replace=False)]
    backend, threads = str(rng.choice(backends)), int(rng.choice([1, 2, 4]))
    n_jobs = [None, 1, 2][int(rng.integers(3))]

    def fit(name: str) -> list[np.ndarray]:
        return quiet_numbers(name, rows, n_jobs)

    with threadpool_limits(threads, user_api="blas"):
        alone = {name: fit(name) for name in names}
        jobs = [names[i % 2] for i in range(AT_ONCE)]
        if backend == "pool":
            with ThreadPoolExecutor(AT_ONCE) as pool:
                found = list(pool.map(fit, jobs))
        else:
            parallel = Parallel(n_jobs=AT_ONCE if backend == "threading" else 2, backend=backend)
            found = parallel(delayed(quiet_numbers)(name, rows, n_jobs) for name in jobs)
    report.counts["fits at once"] += len(jobs)
    report.counts[f"problems in {backend}"] += 1
    for name, one in zip(jobs, found, strict=True):
        difference = differences(alone[name], one)
        if difference:
            report.failures.append(
                f"{name} ({backend}, {threads} threads of BLAS, n_jobs={n_jobs}, "
                f"{len(rows.X)} rows): {difference}"
            )
    return report


def quiet_numbers(name: str, rows: Rows, n_jobs: int | None) -> list[np.ndarray]:
    """All numbers of a fitted model; what it warns of is not the point here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fitted(name, rows, n_jobs=n_jobs)
        return [*numbers(model, rows), bounds(model)]


FUZZER = Fuzzer(name="threads", run=run, share=0.5)
