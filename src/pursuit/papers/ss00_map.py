"""Algorithm 2 of Smola and Schölkopf (2000) as they ran it, and its trace beside PCA's."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigvalsh
from sklearn.metrics.pairwise import rbf_kernel

from pursuit._types import Floats
from pursuit.estimators import GreedyFeatureMap, Search
from pursuit.papers.chart import Panel, Series
from pursuit.papers.common import Progress, tell

KAPPA = 59
SIZE_LABEL, TRACE_LABEL = "Number of basis functions", "Share of the trace left"


def algorithm2(
    X: Floats,
    n_basis: int,
    kappa: int,
    seed: int,
    n_jobs: int | None,
    tol: float | None = None,
    gamma: float | None = None,
) -> GreedyFeatureMap:
    """Algorithm 2, with 2ω² = d/2 unless said otherwise."""
    model: GreedyFeatureMap = GreedyFeatureMap(
        gamma=half_width(X) if gamma is None else gamma,
        n_components=n_basis,
        residual_tol=tol,
        search=Search("fresh", pool_size=kappa),
        random_state=seed,
        n_jobs=n_jobs,
    ).fit(X)
    return model


def half_width(X: Floats) -> float:
    """1/2ω² for 2ω² = d/2."""
    return 2.0 / int(X.shape[1])


def traces_beside_pca(
    X: Floats,
    gamma: float,
    n_basis: int,
    n_runs: int,
    seed: int,
    n_jobs: int | None,
    progress: Progress | None,
    control: bool = False,
) -> tuple[Floats, Floats]:
    """Shares of the trace left by greedy choice (runs x sizes) and by principal components.

    As a control, greedy choice is one of random rows.
    """
    kappa = 1 if control else KAPPA
    greedy = np.empty((n_runs, n_basis))
    for run in range(n_runs):
        model = algorithm2(X, n_basis, kappa, seed + run, n_jobs, gamma=gamma)
        values = model.path_.value / model.trace_
        # Past the numerical rank nothing more is left to choose.
        greedy[run] = np.pad(values, (0, n_basis - len(values)), "edge")
        tell(progress, f"trace, run {run + 1} of {n_runs}: {greedy[run, -1]:.4g}")
    eigenvalues = np.maximum(eigvalsh(rbf_kernel(X, gamma=gamma)), 0.0)
    # The tail is summed from its small end: its digits survive.
    tails = np.cumsum(eigenvalues)[::-1] / eigenvalues.sum()
    return greedy, tails[1 : n_basis + 1]


def trace_panel(greedy: Floats, pca: Floats) -> Panel:
    """Both curves."""
    n = np.arange(1, len(pca) + 1)
    series = [Series("greedy", n, greedy), Series("principal components", n, pca)]
    return Panel(series, SIZE_LABEL, TRACE_LABEL, "Residual trace", "y")
