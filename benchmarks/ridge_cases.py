"""Zhang's algorithms beside the kernel evaluations that they need."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Figure, best_seconds
from pursuit import Search, SparseKernelRidge
from pursuit.kernels import compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import BLOCK_ROWS

KAPPA = 59


def kappa(quick: bool, repeat: int) -> list[Figure]:
    """κ-greedy steps over the library's own evaluation of the kernel tiles they need."""
    m, d, n_steps = (20_000, 10, 20) if quick else (100_000, 10, 200)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, d))
    y = np.sin(X @ rng.standard_normal(d)) + 0.1 * rng.standard_normal(m)
    kernel, _ = compile_kernel("rbf", n_features=d)

    def fit(method: str = "kappa", refit: bool = False) -> SparseKernelRidge:
        model = SparseKernelRidge(
            method=method,
            refit=refit,
            n_basis=n_steps,
            search=Search("fresh", pool_size=KAPPA) if method == "kappa" else "auto",
            certificate=None,
            random_state=0,
        )
        return model.fit(X, y)

    def tiles() -> None:
        draws = np.random.default_rng(1)
        with Workers() as workers:
            for _ in range(fit_steps):
                columns = kernel.columns(X[draws.choice(m, KAPPA, replace=False)])
                blocks = Workers.slices(m, BLOCK_ROWS)
                workers.map(lambda block, columns=columns: columns(X[block]).shape, blocks)

    fit_steps = fit().n_steps_
    best = best_seconds(
        {"tiles": tiles, "kappa": fit, "refit": lambda: fit(refit=True)},
        repeat,
    )
    return [
        Figure(f"{fit_steps} tiles of {m} x {KAPPA}", best["tiles"], "s"),
        Figure(f"{fit_steps} steps of κ-greedy", best["kappa"], "s"),
        Figure("κ-greedy / tiles", best["kappa"] / best["tiles"], "x", at_most=1.5),
        Figure("κ-greedy with refit / tiles", best["refit"] / best["tiles"], "x"),
    ]
