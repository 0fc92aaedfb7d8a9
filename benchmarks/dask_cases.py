"""Cases of rows on a cluster: how a pass scales with its workers, and what the driver holds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

from benchmarks.data import NotAvailableError
from benchmarks.harness import Figure, best_seconds
from benchmarks.peak_memory import peak, reset_peak
from pursuit import SparseGPRegressor
from pursuit.gram import GramStatistics, gram_statistics
from pursuit.kernels import compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import Sample, as_rows

MEGABYTE = 2.0**20
FEATURES = 8


def dask_pass(quick: bool, repeat: int) -> list[Figure]:
    """One pass of Gram statistics over rows made lazily on one and on two workers."""
    try:
        import dask
    except ImportError as error:
        raise NotAvailableError("dask and distributed are not installed") from error
    m, P, partition = (100_000, 256, 10_000) if quick else (2_000_000, 512, 50_000)
    X, y = _rows(m, partition), np.random.default_rng(1).standard_normal((m, 1))
    points = np.random.default_rng(2).standard_normal((P, FEATURES))
    kernel, _ = compile_kernel(RBF(2.0), n_features=FEATURES)
    sample = Sample(as_rows(X), y, np.ones(m))

    def one_pass(client: Any) -> GramStatistics:
        with dask.config.set(scheduler=client), Workers(1) as workers:
            return gram_statistics(sample, kernel, points, workers=workers)

    with ExitStack() as stack:
        one, two = (stack.enter_context(_cluster(n)) for n in (1, 2))
        sums = [one_pass(client) for client in (one, two)]
        before = reset_peak()
        one_pass(two)
        added = peak() - before
        best = best_seconds(
            {"one": lambda: one_pass(one), "two": lambda: one_pass(two)}, 1 if quick else repeat
        )
        figures = [
            Figure("one worker", best["one"], "s"),
            Figure("two workers", best["two"], "s"),
            Figure("one / two", best["one"] / best["two"], "x", at_least=1.6),
            Figure(
                "differences between them", float(np.sum(sums[0].gram != sums[1].gram)), at_most=0
            ),
            Figure("rows", 8 * m * FEATURES / MEGABYTE, "MB"),
            Figure("driver: peak added by a pass", added / MEGABYTE, "MB"),
            *_same_model(dask, two, quick),
        ]
    return figures


def _same_model(dask: Any, client: Any, quick: bool) -> list[Figure]:
    """A fit of rows on the cluster beside a fit of the same rows in memory."""
    m = 20_000 if quick else 200_000
    X = _rows(m, m // 7)
    inside = X.compute(scheduler="synchronous")
    y = np.sin(inside.sum(axis=1)) + 0.1 * np.random.default_rng(0).standard_normal(m)

    def model() -> SparseGPRegressor:
        return SparseGPRegressor(
            RBF(2.0), noise=0.01, optimizer=None, n_basis=256, certificate=None, random_state=0
        )

    here = model().fit(inside, y)
    with dask.config.set(scheduler=client):
        there = model().fit(X, y)
    expected, found = here.predict(inside[:5000]), there.predict(inside[:5000])
    different = np.sum(here.basis_indices_ != there.basis_indices_)
    return [
        Figure("fit: other basis functions than NumPy's", float(different), at_most=0),
        Figure(
            "fit: predictions beside NumPy's, relative",
            float(np.abs(found - expected).max() / np.abs(expected).max()),
            at_most=1e-8,
        ),
    ]


def _rows(m: int, partition: int) -> Any:
    """Rows that every worker makes for itself, the same at every pass."""
    import dask.array as da

    chunks = da.core.normalize_chunks((partition, FEATURES), (m, FEATURES))
    return da.map_blocks(_block, chunks=chunks, meta=np.empty((0, 0)))


def _block(block_info: Any = None) -> NDArray[np.float64]:
    shape = block_info[None]["chunk-shape"]
    return np.random.default_rng(block_info[None]["chunk-location"][0]).standard_normal(shape)


@contextmanager
def _cluster(n_workers: int) -> Iterator[Any]:
    """A cluster of processes on this machine, each with one thread."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise NotAvailableError("dask and distributed are not installed") from error
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
