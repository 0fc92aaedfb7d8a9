"""Cases in which everything is learned from the data, and the evidence used for learning."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from benchmarks.data import (
    NotAvailableError,
    Regression,
    kin40k,
    long_arm,
    protein,
    steps_and_waves,
    tilted_waves,
)
from benchmarks.harness import Figure, Measured, best_seconds, measure_solvers, traced_peak
from benchmarks.solvers import THREADS, available, boosted_trees, learned_gp, sgpr
from pursuit.greedy import CostMeter, Problem
from pursuit.kernels import CountingKernel, compile_kernel, kernel_gradient
from pursuit.linalg import Workers
from pursuit.rows import Sample, as_rows
from pursuit.tuning import BATCH_ROWS, Evidence, Mover
from pursuit.tuning.refine import DAMPED, DOUBLE

MEGABYTE = 2.0**20
SPLITS = 0, 1
CALM = 0.7
"""Load average up to which times of peers mean something."""


@dataclass(frozen=True)
class Target:
    """A data set and what a fit that learns everything should reach on it."""

    load: Callable[[int], Regression]
    rmse: float
    nlpd: float
    aim: float
    """RMSE to aim at with 2 048 basis functions."""


TARGETS = {
    "kin40k": Target(kin40k, rmse=0.145, nlpd=-0.50, aim=0.110),
    "protein": Target(protein, rmse=0.585, nlpd=0.88, aim=0.55),
}


def learned(quick: bool, repeat: int) -> list[Figure]:
    """Everything learned with 512 basis functions, beside GPyTorch SGPR and LightGBM.

    SGPR takes minutes on each of the four splits: ``--repeat 1`` is enough.
    """
    load = os.getloadavg()[0]
    if load > CALM:
        # Threads that wait for each other without sleeping make SGPR many times slower then.
        print(
            f"  the machine is busy (load {load:.1f}): ratios to SGPR's time flatter us", flush=True
        )
    return _on_all_splits(lambda name, data: learned_on(name, data, quick, repeat), quick)


def learned_on(name: str, data: Regression, quick: bool, repeat: int) -> list[Figure]:
    """The case on one split."""
    size, target = 64 if quick else 512, TARGETS[name]
    ours = learned_gp(size)
    peer, trees = available(lambda: sgpr(size)), available(boosted_trees)
    solvers = [solver for solver in (ours, peer, trees) if solver is not None]
    results = measure_solvers(data.cut() if quick else data, solvers, repeat)
    mine = results[ours.name]
    figures = [
        Figure("ours: fit", mine.fit, "s"),
        Figure("ours: RMSE", mine.rmse, at_most=target.rmse),
        Figure("ours: NLPD", mine.nlpd, at_most=target.nlpd),
        Figure("ours: coverage of 95 %", mine.coverage, at_least=0.92, at_most=0.98),
    ]
    if peer is not None:
        figures += _against_peer(mine, results[peer.name], peer.name, at_most=0.08)
    if trees is not None:
        figures += [
            Figure(f"{trees.name}: fit", results[trees.name].fit, "s"),
            Figure(f"{trees.name}: RMSE", results[trees.name].rmse),
        ]
    return figures


def _against_peer(mine: Measured, theirs: Measured, name: str, *, at_most: float) -> list[Figure]:
    """A part of the peer's time, at lower error and higher density."""
    return [
        Figure(f"{name}: fit", theirs.fit, "s"),
        Figure(f"{name}: RMSE", theirs.rmse),
        Figure(f"{name}: NLPD", theirs.nlpd),
        Figure(f"{name}: coverage of 95 %", theirs.coverage),
        Figure(f"ours / {name}: fit", mine.fit / theirs.fit, "x", at_most=at_most),
        Figure(f"ours / {name}: RMSE", mine.rmse / theirs.rmse, "x", at_most=1.0),
        Figure(f"ours - {name}: NLPD", mine.nlpd - theirs.nlpd, at_most=0.0),
    ]


def wide(quick: bool, repeat: int) -> list[Figure]:
    """Everything learned with 512 basis functions on 18 to 32 features, beside GPyTorch SGPR."""
    size, figures = 64 if quick else 512, []
    for data in (tilted_waves(), steps_and_waves(), long_arm()):
        ours, peer = learned_gp(size), available(lambda: sgpr(size))
        solvers = [solver for solver in (ours, peer) if solver is not None]
        results = measure_solvers(data.cut() if quick else data, solvers, repeat)
        mine = results[ours.name]
        found = [
            Figure("ours: fit", mine.fit, "s"),
            Figure("ours: RMSE", mine.rmse),
            Figure("ours: NLPD", mine.nlpd),
        ]
        if peer is not None:
            found += _against_peer(mine, results[peer.name], peer.name, at_most=0.4)
        figures += [figure.renamed(f"{data.name}, {figure.name}") for figure in found]
    return figures


def moving(quick: bool, repeat: int) -> list[Figure]:
    """A step that moves the basis, on one thread, beside a float32 product of as many terms."""
    data, figures = kin40k(0), []
    scales = np.full(data.X_train.shape[1], 1.7)
    kernel = ConstantKernel(1.6) * RBF(scales)
    X, y = data.X_train, data.y_train[:, None]
    rng = np.random.default_rng(0)
    for size in (128,) if quick else (512, 2048):
        Z = X[rng.choice(len(X), size, replace=False)]
        A = rng.standard_normal((BATCH_ROWS, size)).astype(np.float32)
        with Workers(1) as workers:
            counted = CountingKernel(compile_kernel(kernel)[0])
            sample = Sample(as_rows(X), y, np.ones(len(X)))
            problem = Problem(sample, counted, 0.007, workers, CostMeter(counted), rng)
            mover = Mover(problem, kernel_gradient(kernel, "points"), scales, np.arange(len(X)))
            batch = sample.take(np.sort(rng.choice(len(X), BATCH_ROWS, replace=False)))
            ways = {"small pivots": DAMPED, "float64": DOUBLE}
            tasks = {name: partial(mover.slope, Z, batch, way) for name, way in ways.items()}
            # Half of the terms of the whole product, as H is symmetric.
            product = partial(np.matmul, A[:, : size // 2].T, A)
            best = best_seconds({**tasks, "product": product}, repeat)
        figures += [Figure(f"n = {size}, {name}: step", best[name], "s") for name in ways]
        share = best["product"] / best["small pivots"]
        figures.append(Figure(f"n = {size}: share of the product", share, at_least=0.6))
    return figures


def large(quick: bool, repeat: int) -> list[Figure]:
    """Everything learned with 2 048 basis functions; aims, not targets."""

    def on(name: str, data: Regression) -> list[Figure]:
        solver = learned_gp(128 if quick else 2048)
        found = measure_solvers(data.cut() if quick else data, [solver], repeat)[solver.name]
        return [
            Figure("fit (aim 120)", found.fit, "s"),
            Figure(f"RMSE (aim {TARGETS[name].aim:g})", found.rmse),
            Figure("NLPD", found.nlpd),
            Figure("coverage of 95 %", found.coverage),
        ]

    return _on_all_splits(on, quick)


def time_limit(quick: bool, repeat: int) -> list[Figure]:
    """Everything learned within max_time on kin40k: time taken and accuracy reached."""
    data = kin40k(0).cut() if quick else kin40k(0)
    figures = []
    for seconds in (1.0, 2.0) if quick else (2.0, 5.0, 10.0, 20.0):
        solver = learned_gp(512, max_time=seconds)
        found = measure_solvers(data, [solver], repeat)[solver.name]
        figures += [
            Figure(f"max_time={seconds:g}: fit / max_time", found.fit / seconds, "x"),
            Figure(f"max_time={seconds:g}: RMSE", found.rmse),
        ]
    return figures


def _on_all_splits(case: Callable[[str, Regression], list[Figure]], quick: bool) -> list[Figure]:
    """Figures of every split there is data for; quick runs see the first only."""
    figures, missing = [], []
    for name, target in TARGETS.items():
        try:
            splits = [(split, target.load(split)) for split in SPLITS[: 1 if quick else None]]
        except NotAvailableError as error:
            missing.append(f"{name}: {error}")
            continue
        for split, data in splits:
            for figure in case(name, data):
                figures.append(figure.renamed(f"{name} {split}, {figure.name}"))
    if not figures:
        raise NotAvailableError("; ".join(missing))
    for text in missing:
        print(f"  without {text}", flush=True)
    return figures


def evidence(quick: bool, repeat: int) -> list[Figure]:
    """Evidence with its gradient beside scikit-learn's, for the four families."""
    s, d = (400, 8) if quick else (2000, 8)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((s, d))
    y = np.sin(X @ rng.standard_normal(d)) + 0.1 * rng.standard_normal(s)
    scales, noise = np.full(d, np.sqrt(d)), 0.05
    families = {
        "RBF": RBF(scales),
        "Matern 5/2": Matern(scales, nu=2.5),
        "Matern 3/2": Matern(scales, nu=1.5),
        "Matern 1/2": Matern(scales, nu=0.5),
    }
    figures = []
    for name, family in families.items():
        kernel = ConstantKernel(1.0) * family
        white = kernel + WhiteKernel(noise)
        peer = GaussianProcessRegressor(white, alpha=0.0, optimizer=None).fit(X, y)

        def ours(kernel: object = kernel) -> None:
            with Workers(THREADS) as workers:
                data = Evidence(X, y[:, None], np.ones(s), workers)
                data.value_and_gradient(kernel, noise)

        def theirs(peer: GaussianProcessRegressor = peer, theta: object = white.theta) -> None:
            peer.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)

        best = best_seconds({"ours": ours, "theirs": theirs}, repeat)
        peaks = traced_peak(ours), traced_peak(theirs)
        figures += [
            Figure(f"{name}: ours", best["ours"], "s"),
            Figure(f"{name}: scikit-learn", best["theirs"], "s"),
            Figure(f"{name}: times faster", best["theirs"] / best["ours"], "x", at_least=4.0),
            Figure(f"{name}: peak memory", peaks[0] / MEGABYTE, "MB"),
            Figure(f"{name}: times leaner", peaks[1] / peaks[0], "x", at_least=5.0),
        ]
    return figures
