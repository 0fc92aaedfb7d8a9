"""Figures 2 and 5 of Smola and Schölkopf (2000): ridge regression in the span of a choice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from sklearn.metrics.pairwise import rbf_kernel

from pursuit._types import Floats
from pursuit.datasets import load_boston
from pursuit.papers.chart import Chart, Panel, Series, Style
from pursuit.papers.common import Data, Progress, near, slashed, standardised, tell
from pursuit.papers.result import PaperResult
from pursuit.papers.ss00_map import KAPPA, SIZE_LABEL, algorithm2, trace_panel, traces_beside_pca

REGRESSION_SIZES = (10, 20, 50, 100, 150, 200)

# A "marginal difference" of risks and errors that are drawn on linear axes.
MARGINAL = 0.05
WIDTHS_READ = "σ/d read as 2ω²/d (the best of a small grid on test rows, as the paper says it was)"
_JUDGED = 100


def figure2(
    data: Data | None = None,
    *,
    sizes: Sequence[int] = REGRESSION_SIZES,
    n_train: int = 3000,
    n_runs: int = 2,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    control: bool = False,
) -> PaperResult:
    """Fig. 2: regularised risk on Abalone in a span of principal components or of a greedy choice.

    Found: 100 basis functions come within 5 % of the full system, as 100 principal components do.

    Parameters
    ----------
    data : (X, y), optional
        Other data than Abalone; X is standardised, y centred.
    sizes : sequence of int
        Numbers of basis functions, or of components.
    n_train : int
        Rows of a random training part; the others are for testing.
    n_runs : int
        Random splits; split r has the seed ``random_state + r``.
    random_state, n_jobs, progress
        As in :func:`pursuit.papers.ss00.figure1`.
    control : bool
        Only one in ten of the basis functions is used: a negative control.

    Returns
    -------
    PaperResult
        Arrays ``size``; ``risk`` and ``error`` (mean squared, on the other rows) of shape (splits,
        (full, PCA, greedy), sizes).
    """
    X, y = standardised(data)
    gamma, noise = 1.0 / X.shape[1], 0.1
    seed, part = random_state, 10 if control else 1
    found = _regressions(X, y, gamma, noise, sizes, n_train, n_runs, seed, n_jobs, progress, part)
    risk, error, criteria, checks, texts = _marginal(*found, sizes)
    return PaperResult(
        name="SS00 Fig. 2, regularised risk on Abalone",
        paper_says="only marginal difference between PCA and sparse, both near the full system",
        **texts,
        criteria=criteria,
        checks=checks,
        hindsight=WIDTHS_READ,
        arrays={"size": np.asarray(sizes), "risk": risk, "error": error},
        settings=f"2ω² = {1 / gamma:g}, Λm = {noise}, κ = {KAPPA}, {n_train} training rows",
        chart=Chart(_risk_panels(risk, error, sizes)),
    )


def figure5(
    data: Data | None = None,
    *,
    sizes: Sequence[int] = REGRESSION_SIZES,
    n_train: int = 350,
    n_runs: int = 5,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    control: bool = False,
) -> PaperResult:
    """Fig. 5: residual trace, regularised risk and test error on Boston Housing.

    Found: the test errors of the three models with 100 basis functions are within 5 %, as is the
    risk. Arguments and arrays are those of :func:`figure2`, and ``greedy`` (splits x steps) and
    ``pca``, shares of the trace that are left.
    """
    X, y = standardised(load_boston(return_X_y=True) if data is None else data)
    gamma, noise = 1.0 / (10.0 * X.shape[1]), 0.01
    seed, part = random_state, 10 if control else 1
    found = _regressions(X, y, gamma, noise, sizes, n_train, n_runs, seed, n_jobs, progress, part)
    risk, error, criteria, checks, texts = _marginal(*found, sizes)
    train = np.random.default_rng(random_state).permutation(len(X))[:n_train]
    greedy, pca = traces_beside_pca(
        X[train], gamma, max(sizes), n_runs, random_state, n_jobs, progress
    )
    checks["trace never below that of PCA"] = bool(np.all(greedy >= pca - 1e-9))
    return PaperResult(
        name="SS00 Fig. 5, trace, risk and test error on Boston Housing",
        paper_says="similar increase in training error and similar generalisation for both",
        **texts,
        criteria=criteria,
        checks=checks,
        hindsight=WIDTHS_READ,
        arrays={
            "size": np.asarray(sizes),
            "risk": risk,
            "error": error,
            "greedy": greedy,
            "pca": pca,
        },
        settings=f"2ω² = {1 / gamma:g}, Λm = {noise}, κ = {KAPPA}, {n_train} training rows",
        chart=Chart([trace_panel(greedy, pca), *_risk_panels(risk, error, sizes)]),
    )


def _regressions(
    X: Floats,
    y: Floats,
    gamma: float,
    noise: float,
    sizes: Sequence[int],
    n_train: int,
    n_runs: int,
    seed: int,
    n_jobs: int | None,
    progress: Progress | None,
    part: int,
) -> tuple[Floats, Floats]:
    """Risk and test error of the full system, PCA and greedy choice (splits x models x sizes).

    Of n functions of the greedy choice one in ``part`` is used.
    """
    y = y - y.mean()
    risk = np.empty((n_runs, 3, len(sizes)))
    error = np.empty_like(risk)
    for run in range(n_runs):
        order = np.random.default_rng(seed + run).permutation(len(X))
        train, test = order[:n_train], order[n_train:]
        model = algorithm2(X[train], max(sizes), KAPPA, seed + run, n_jobs, gamma=gamma)
        V, V_test = model.transform(X[train]), model.transform(X[test])
        eigenvalues, U = eigh(rbf_kernel(X[train], gamma=gamma))
        k = rbf_kernel(X[test], X[train], gamma=gamma)
        full = ridge_in_span(*_components(eigenvalues, U, k, slice(None)), y[train], y[test], noise)
        risk[run, 0], error[run, 0] = full
        for i, n in enumerate(sizes):
            parts = (
                _components(eigenvalues, U, k, slice(-n, None)),
                (V[:, : -(-n // part)], V_test[:, : -(-n // part)]),
            )
            for j, (features, new) in enumerate(parts, start=1):
                risk[run, j, i], error[run, j, i] = ridge_in_span(
                    features, new, y[train], y[test], noise
                )
        tell(progress, f"split {run + 1} of {n_runs}: full test error {full[1]:.3f}")
    return risk, error


def _marginal(
    risk: Floats, error: Floats, sizes: Sequence[int]
) -> tuple[Floats, Floats, dict[str, bool], dict[str, bool], dict[str, str]]:
    """Risk and error as given, what they show at the size nearest 100, and how to say it."""
    at = int(np.argmin(np.abs(np.asarray(sizes) - _JUDGED)))
    risks, errors = risk[:, :, at].mean(axis=0), error[:, :, at].mean(axis=0)
    criteria = {
        f"risk with {sizes[at]} within 5 % of the full system's": near(
            risks[2] / risks[0], 1, MARGINAL
        ),
        "test error within 5 %": near(errors[2] / errors[0], 1, MARGINAL),
        "risk within 5 % of that of PCA": near(risks[2] / risks[1], 1, MARGINAL),
    }
    checks = {
        "no risk below the full system's": bool(np.all(risk[:, 1:] >= risk[:, :1] * (1 - 1e-8)))
    }
    texts = {
        "we_get": f"n = {sizes[at]}: risk {slashed(risks, 3)}, test error {slashed(errors, 3)} "
        "(full/PCA/greedy)",
        "spread": f"risk ± {risk[:, 2, at].std():.3f}, test error ± {error[:, 2, at].std():.2f} "
        f"over {len(risk)} splits",
    }
    return risk, error, criteria, checks, texts


def _risk_panels(risk: Floats, error: Floats, sizes: Sequence[int]) -> list[Panel]:
    models: tuple[tuple[str, Style], ...] = (
        ("full system", "bound"),
        ("principal components", "line"),
        ("greedy", "line"),
    )
    return [
        Panel(
            [Series(name, sizes, values[:, i], style) for i, (name, style) in enumerate(models)],
            SIZE_LABEL,
            label,
            label,
            "x",
        )
        for values, label in ((risk, "Regularised risk"), (error, "Mean squared test error"))
    ]


def _components(eigenvalues: Floats, U: Floats, k: Floats, which: slice) -> tuple[Floats, Floats]:
    """Features of some principal directions, U√λ for the training rows and kU/√λ for others."""
    lam, directions = eigenvalues[which], U[:, which]
    kept = lam > 1e-12 * eigenvalues[-1]
    roots, directions = np.sqrt(lam[kept]), directions[:, kept]
    return directions * roots, k @ directions / roots


def ridge_in_span(
    V: Floats, V_test: Floats, y: Floats, y_test: Floats, noise: float
) -> tuple[float, float]:
    """R_reg = (½‖y - Vu‖² + ½Λm‖u‖²)/m at its minimum (eq. 5), and the test error."""
    inner = V.T @ V
    inner[np.diag_indices_from(inner)] += noise
    u = cho_solve(cho_factor(inner), V.T @ y)
    left = y - V @ u
    risk = 0.5 * (left @ left + noise * (u @ u)) / len(y)
    return float(risk), float(np.mean((y_test - V_test @ u) ** 2))
