"""Smola and Bartlett, *Sparse greedy Gaussian process regression* (NIPS 13, 2001), run again.

Settings of the paper: Gaussian kernel exp(-‖x - x'‖²/2ω²), σ² = .1, Abalone with the sex as three
indicator columns, every column brought to zero mean and unit variance over the whole data set, and
random subsets of κ = 60 candidates at every step, for Q and for Q* apart. One thing is not said and
matters: the targets are the raw numbers of rings. With centred targets the gap is still .24 after
400 steps, ten times what is reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import eigh, svdvals
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from pursuit.estimators import SparseGPRegressor
from pursuit.papers.chart import Chart, Panel, Series
from pursuit.papers.common import Data, Floats, Progress, slashed, standardised, tell
from pursuit.papers.result import PaperResult

__all__ = [
    "figure1",
    "generalization_error",
    "log_posterior",
    "synthetic",
    "table2_errorbars",
    "table2_posterior",
    "theorem2",
]

KERNELS_FOR_POSTERIOR = {1: 373, 2: 287, 5: 255, 10: 257, 20: 251, 50: 270}
"""Table 2, first row: 2ω² and the number of basis functions."""
KERNELS_FOR_ERROR_BARS = {
    1: (79, 61),
    2: (49, 43),
    5: (26, 27),
    10: (17, 16),
    20: (12, 9),
    50: (8, 5),
}
"""Table 2, second row: 2ω², then mean and standard deviation over the test rows."""
WIDTHS = tuple(KERNELS_FOR_POSTERIOR)
SUBSETS = (1, 2, 5, 10, 20, 50, 100, 200)
METRICS = ("MSE", "RMSE", "MAE", "half MSE")

_NOISE, _KAPPA, _TOL = 0.1, 60, 0.025
_MOST = 1000
_LEAST_TOL = 1e-6


def table2_posterior(
    data: Data | None = None,
    *,
    widths: Sequence[int] = WIDTHS,
    n_train: int = 4000,
    n_runs: int = 5,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> PaperResult:
    """Table 2, first row: basis functions needed for a gap below .025, by kernel width.

    Found: 3 to 7 % fewer kernels than printed, on average over runs. Everything but the raw targets
    is stated in the paper.

    Parameters
    ----------
    data : (X, y), optional
        Other data than Abalone; X is standardised.
    widths : sequence of int
        Values of 2ω², among those of the table.
    n_train : int
        The first so many rows are used.
    n_runs : int
        Runs to average; run r has the seed ``random_state + r``.
    random_state : int
        Seed of the first run.
    n_jobs : int, optional
        Threads.
    progress : callable, optional
        Called with a line of text as the work goes on.

    Returns
    -------
    PaperResult
        Arrays ``width``, ``kernels`` (widths x runs; NaN where the gap was not reached) and
        ``paper``.
    """
    _check_widths(widths)
    X, y = standardised(data)
    kernels = np.full((len(widths), n_runs), np.nan)
    for i, width in enumerate(widths):
        for run in range(n_runs):
            model = _algorithm1(width, random_state + run, n_jobs, tol=_TOL)
            model.fit(X[:n_train], y[:n_train])
            if model.path_.stop_reason == "tol":
                kernels[i, run] = model.n_basis_
            tell(progress, f"2ω² = {width}, run {run + 1} of {n_runs}: {model.n_basis_} kernels")
    paper = np.array([KERNELS_FOR_POSTERIOR[width] for width in widths], dtype=np.float64)
    mean = kernels.mean(axis=1)
    return PaperResult(
        name="SB01 Table 2, kernels for the log posterior",
        paper_says=slashed(paper),
        we_get=slashed(mean),
        spread=f"± {slashed(kernels.std(axis=1))} over {n_runs} runs",
        criteria={
            "counts within 10 % of the paper's": bool(np.all(np.abs(mean / paper - 1) <= 0.1)),
            "less than 10 % of the rows suffice": bool(np.all(mean < 0.1 * n_train)),
        },
        arrays={"width": np.asarray(widths), "kernels": kernels, "paper": paper},
        settings=f"2ω² = {slashed(widths)}, σ² = .1, κ = 60, gap .025, first {n_train} rows",
        chart=_by_width(widths, kernels.T, paper, "Basis functions for a gap of .025"),
    )


def table2_errorbars(
    data: Data | None = None,
    *,
    widths: Sequence[int] = WIDTHS,
    n_train: int = 4000,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> PaperResult:
    """Table 2, second row: basis functions needed for the error bar at each remaining row.

    Found: up to 15 % fewer kernels than printed. What is to be within .025 is not said in the
    paper. Three readings were tried, and the nearest kept: the relative distance of both bounds of
    Q*. The gap of Q gives 6.4 kernels where the paper has 79, the true relative error of Q* gives
    49. Subsets have 59 rows.

    Parameters
    ----------
    data, widths, random_state, n_jobs, progress
        As in :func:`table2_posterior`.
    n_train : int
        The first so many rows are for training, the error bars are at the others.

    Returns
    -------
    PaperResult
        Arrays ``width``, ``kernels`` (widths x test rows) and ``paper`` (widths x mean, deviation).
    """
    _check_widths(widths)
    X, y = standardised(data)
    X_test = X[n_train:]
    kernels = np.empty((len(widths), len(X_test)))
    for i, width in enumerate(widths):
        model = _algorithm1(width, random_state, n_jobs, n_basis=1).fit(X[:n_train], y[:n_train])
        found = model._std_bounds(X_test, X[:n_train], None, _TOL, own_basis=False)
        kernels[i] = found[2]
        tell(progress, f"2ω² = {width}: {kernels[i].mean():.1f} kernels for an error bar")
    paper = np.array([KERNELS_FOR_ERROR_BARS[width] for width in widths], dtype=np.float64)
    mean, deviation = kernels.mean(axis=1), kernels.std(axis=1)
    ratio = deviation / paper[:, 1]
    return PaperResult(
        name="SB01 Table 2, kernels for error bars",
        paper_says=f"{slashed(paper[:, 0])} ± {slashed(paper[:, 1])}",
        we_get=slashed(mean, 1),
        spread=f"± {slashed(deviation, 1)} over {len(X_test)} rows",
        criteria={
            "means within 20 % of the paper's": bool(np.all(np.abs(mean / paper[:, 0] - 1) <= 0.2)),
            "deviations within a factor 1.5": bool(np.all((1.5 * ratio >= 1) & (ratio <= 1.5))),
            "less than 2 % of the rows suffice": bool(np.all(mean < 0.02 * n_train)),
        },
        arrays={"width": np.asarray(widths), "kernels": kernels, "paper": paper},
        settings=f"2ω² = {slashed(widths)}, σ² = .1, κ = 59, tolerance .025, {n_train} rows",
        chart=_by_width(widths, kernels.T, paper[:, 0], "Basis functions for an error bar"),
    )


def figure1(
    data: Data | None = None,
    *,
    subsets: Sequence[int] = SUBSETS,
    width: float = 10,
    n_train: int = 4000,
    n_basis: int = 250,
    n_runs: int = 10,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> PaperResult:
    """Figure 1: the gap as basis functions are added, for random subsets of different sizes.

    Found: larger subsets converge faster, and from 50 on nearly alike. All the same a subset of 59
    needs 15 to 20 % more kernels than a search over all rows.

    Parameters
    ----------
    data, n_train, n_runs, random_state, n_jobs, progress
        As in :func:`table2_posterior`.
    subsets : sequence of int
        Values of κ.
    width : float
        2ω².
    n_basis : int
        Steps.

    Returns
    -------
    PaperResult
        Arrays ``kappa``, ``n`` and ``gap`` (subsets x runs x steps).
    """
    X, y = standardised(data)
    kappa = np.unique(subsets)
    gap = np.full((len(kappa), n_runs, n_basis), np.nan)
    for i, size in enumerate(kappa):
        for run in range(n_runs):
            model = _algorithm1(width, random_state + run, n_jobs, n_basis=n_basis, kappa=int(size))
            found = model.fit(X[:n_train], y[:n_train]).path_.gap
            gap[i, run, : len(found)] = found
            tell(progress, f"κ = {size}, run {run + 1} of {n_runs}: gap {found[-1]:.4f}")
    at_end = gap[:, :, -1]
    mean, spread = at_end.mean(axis=1), at_end.std(axis=1) / at_end.mean(axis=1)
    criteria = {
        "larger subsets converge faster": bool(np.all(np.diff(mean) < 0)),
        "relative deviation below 10 % at the end": bool(np.all(spread < 0.1)),
    }
    large = mean[kappa >= 50]
    if len(large) > 1:
        alike = bool(large.max() <= 1.1 * large.min())
        criteria["subsets of 50 and more within 10 % of each other"] = alike
    return PaperResult(
        name="SB01 Figure 1, gap by size of the random subset",
        paper_says="ordered by κ, rapid from κ = 50 on, relative variance below 10 %",
        we_get=f"gap {slashed(mean, 4)} for κ = {slashed(kappa)} at n = {n_basis}",
        spread=f"relative deviation {spread.max():.1%} at most, {n_runs} runs",
        criteria=criteria,
        arrays={"kappa": kappa, "n": np.arange(1, n_basis + 1), "gap": gap},
        settings=f"2ω² = {width:g}, σ² = .1, first {n_train} rows",
        chart=Chart(
            [
                Panel(
                    [
                        Series(f"κ = {size}", np.arange(1, n_basis + 1), runs)
                        for size, runs in zip(kappa, gap, strict=True)
                    ],
                    "Number of basis functions",
                    "Relative gap",
                    log="y",
                )
            ]
        ),
    )


def generalization_error(
    data: Data | None = None,
    *,
    width: float = 10,
    n_train: int = 3000,
    n_runs: int = 10,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> PaperResult:
    """Section 5: error on test rows, sparse against exact, over random splits.

    Found: the message, but not the number. The printed 1.785 ± .32 is no usual measure of error:
    MSE 4.46 (± .29), RMSE 2.11, MAE 1.49, half the MSE 2.23. σ² = .05, indicators left unscaled,
    2ω² = 20 and centred targets were tried as well. That sparse and exact models err alike holds:
    the MSEs differ by .1 %.

    Parameters
    ----------
    data, random_state, n_jobs, progress
        As in :func:`table2_posterior`.
    width : float
        2ω².
    n_train : int
        Rows for training, the others are for testing.
    n_runs : int
        Random splits.

    Returns
    -------
    PaperResult
        Arrays ``sparse`` and ``exact`` (splits x measures: MSE, RMSE, MAE, half MSE) and
        ``kernels``.
    """
    found = _on_splits(data, width, n_train, n_runs, random_state, n_jobs, progress)
    sparse, exact = found["sparse"].mean(axis=0), found["exact"].mean(axis=0)
    difference = found["sparse"][:, 0] - found["exact"][:, 0]
    pairs = zip(METRICS, sparse, exact, strict=True)
    return PaperResult(
        name="SB01 section 5, test error",
        paper_says="1.785 ± .32 sparse, 1.782 ± .33 exact, measure not named",
        we_get=", ".join(f"{name} {a:.3f} sparse {b:.3f} exact" for name, a, b in pairs),
        spread=f"MSE ± {found['exact'][:, 0].std():.2f}, difference {difference.mean():.4f} ± "
        f"{difference.std():.4f} over {n_runs} splits",
        criteria={
            "a usual measure within 10 % of 1.785": bool(np.any(np.abs(sparse / 1.785 - 1) <= 0.1)),
            "sparse and exact MSE within 1 %": bool(abs(difference.mean()) <= 0.01 * exact[0]),
        },
        arrays={name: found[name] for name in ("sparse", "exact", "kernels")},
        settings=f"2ω² = {width:g}, σ² = .1, κ = 60, gap .025, {n_train} training rows",
        chart=Chart(
            [
                Panel(
                    [
                        Series("sparse", np.arange(1, n_runs + 1), found["sparse"][:, i]),
                        Series("exact", np.arange(1, n_runs + 1), found["exact"][:, i]),
                        Series("paper, sparse", [1, n_runs], [1.785, 1.785], "bound"),
                    ],
                    "Random split",
                    METRICS[i],
                )
                for i in range(3)
            ]
        ),
    )


def log_posterior(
    data: Data | None = None,
    *,
    width: float = 10,
    n_train: int = 3000,
    n_runs: int = 10,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> PaperResult:
    """Section 5: the "log posterior", which is Q = P - ½y'y, of the sparse and of the exact model.

    Found with raw rings (centred ones give -9.3e3). The paper prints a lower Q for the sparse
    model than for the optimum. That cannot be, Q is what is minimised: the labels are exchanged.

    Parameters
    ----------
    data, width, n_train, n_runs, random_state, n_jobs, progress
        As in :func:`generalization_error`.

    Returns
    -------
    PaperResult
        Arrays ``Q_sparse``, ``Q_exact`` and ``kernels``, one entry a split.
    """
    found = _on_splits(data, width, n_train, n_runs, random_state, n_jobs, progress)
    sparse, exact = found["Q_sparse"], found["Q_exact"]
    level = max(abs(sparse.mean() / -1.572e5 - 1), abs(exact.mean() / -1.571e5 - 1))
    return PaperResult(
        name="SB01 section 5, log posterior",
        paper_says="-1.572e5 sparse, -1.571e5 optimal, each (1 ± .005)",
        we_get=f"{sparse.mean():.4e} sparse, {exact.mean():.4e} optimal",
        spread=f"(1 ± {(exact.std() / abs(exact.mean())):.4f}) over {n_runs} splits",
        criteria={
            "both within 1 % of the paper's": bool(level <= 0.01),
            "sparse within .1 % of the optimum": bool(np.all(sparse <= exact * (1 - 0.001))),
        },
        arrays={name: found[name] for name in ("Q_sparse", "Q_exact", "kernels")},
        settings=f"2ω² = {width:g}, σ² = .1, κ = 60, gap .025, {n_train} training rows",
        chart=Chart(
            [
                Panel(
                    [
                        Series("sparse", np.arange(1, n_runs + 1), sparse),
                        Series("optimal", np.arange(1, n_runs + 1), exact),
                        Series("paper, sparse", [1, n_runs], [-1.572e5, -1.572e5], "bound"),
                    ],
                    "Random split",
                    "Q",
                )
            ]
        ),
    )


def synthetic(
    *,
    n_rows: int = 10_000,
    n_features: int = 20,
    n_basis: int = 500,
    n_runs: int = 6,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> PaperResult:
    """Section 5: the gap after 500 steps on 10 000 synthetic rows in 20 dimensions.

    The target is a sum of 200 Gaussians of width 2ω² = 40 with normal centres and coefficients,
    plus noise of variance .1; the prior has 2ω² = 10, wrong on purpose. Found: five of six such
    data sets end below .023 (.0095 to .013). One ends at .038, because its target happens to have a
    mean near 0 and the gap is relative to the size of the target.

    Parameters
    ----------
    n_rows, n_features : int
        Size of the data.
    n_basis : int
        Steps.
    n_runs : int
        Data sets; number r is drawn with the seed ``random_state + r``.
    random_state, n_jobs, progress
        As in :func:`table2_posterior`.

    Returns
    -------
    PaperResult
        Arrays ``gap`` (data sets x steps) and ``target_mean``.
    """
    gap = np.full((n_runs, n_basis), np.nan)
    target_mean = np.empty(n_runs)
    for run in range(n_runs):
        X, y = _sum_of_gaussians(n_rows, n_features, random_state + run)
        model = _algorithm1(10, random_state + run, n_jobs, n_basis=n_basis)
        found = model.fit(X, y).path_.gap
        gap[run, : len(found)], target_mean[run] = found, y.mean()
        tell(progress, f"data set {run + 1} of {n_runs}: gap {found[-1]:.4f}")
    last = gap[:, -1]
    below = last < 0.023
    return PaperResult(
        name="SB01 section 5, synthetic data",
        paper_says="gap below .023 after 500 steps",
        we_get=f"{slashed(last, 4)}, {below.sum()} of {n_runs} below .023",
        spread=f"{last.min():.4f} to {last.max():.4f}",
        criteria={
            "most data sets end below .023": bool(below.mean() > 0.5),
            "all data sets end below .023": bool(below.all()),
        },
        arrays={"gap": gap, "target_mean": target_mean},
        settings=f"{n_rows} x {n_features}, 2ω² = 10, σ² = .1, κ = 60, {n_basis} steps",
        chart=Chart(
            [
                Panel(
                    [
                        *(
                            Series(f"data set {run + 1}", np.arange(1, n_basis + 1), gap[run])
                            for run in range(n_runs)
                        ),
                        Series("paper, after 500 steps", [1, n_basis], [0.023, 0.023], "bound"),
                    ],
                    "Number of basis functions",
                    "Relative gap",
                    log="y",
                )
            ]
        ),
    )


def theorem2(
    data: Data | None = None,
    *,
    width: float = 10,
    n_rows: int = 60,
    tol: float = 0.025,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> PaperResult:
    """Theorem 2: how many steps a full search may take, against how many it does take.

    With A = (σ²K + K²)^½, b = A⁻¹Ky and λ₁ the smallest singular value of A with normalised
    columns, greedy choice reaches Q ≤ Q_min + ε with at most ::

        n ≤ ⌈ 18 n*(ε/4) λ₁⁻² ln(‖b‖ / √(2ε)) ⌉

    basis functions, n*(ε/4) being the fewest that reach Q_min + ε/4 (the printed logarithm has ε
    in place of √(2ε)). Nobody can compute n*, so it is replaced by what greedy choice itself needs
    for ε/4, which is at least as many; with n* = 1 the formula gives the least it could be. The
    bound holds, and it says nothing: λ₁⁻² runs into the millions for a smooth kernel.

    Parameters
    ----------
    data, n_jobs, progress
        As in :func:`table2_posterior`.
    width : float
        2ω².
    n_rows : int
        The first so many rows are used.
    tol : float
        ε as a part of ``abs(Q_min)``.

    Returns
    -------
    PaperResult
        Arrays ``needed``, ``bound``, ``least_bound``, ``n_star_at_most`` and ``inverse_square``
        (λ₁⁻²), one entry each.
    """
    if not _LEAST_TOL <= tol < 1:
        raise ValueError(f"tol must be from {_LEAST_TOL:g} up to, but not, 1; got {tol!r}.")
    X, y = (rows[:n_rows] for rows in standardised(data))
    values, U = eigh(RBF(math.sqrt(width / 2))(X))
    values = np.maximum(values, 0.0)
    optimum = -0.5 * float((values / (values + _NOISE)) @ (U.T @ y) ** 2)
    A = (U * np.sqrt(_NOISE * values + values**2)) @ U.T
    smallest = float(svdvals(A / np.linalg.norm(A, axis=0))[-1])
    inverse_square = math.inf if smallest == 0 else smallest**-2
    excess = _full_search(X, y, width, n_jobs) - 0.5 * float(y @ y) - optimum
    epsilon = -tol * optimum
    needed, n_star = (1 + int(np.argmax(excess <= part)) for part in (epsilon, epsilon / 4))
    # ‖b‖² = -2 Q_min, so that ln(‖b‖/√(2ε)) = -½ ln tol.
    least = -9 * inverse_square * math.log(tol)
    bound, least_bound = np.ceil(n_star * least), np.ceil(least)
    vacuous = bool(bound >= len(X))
    tell(progress, f"{needed} basis functions needed, {bound:.3g} allowed")
    return PaperResult(
        name="SB01 Theorem 2, steps of greedy choice",
        paper_says="at most 18 n*(ε/4) λ₁⁻² ln(‖b‖/√(2ε)) basis functions",
        we_get=f"{needed} needed, {bound:.3g} allowed"
        + (f", vacuous: there are only {len(X)} rows" if vacuous else ""),
        spread=f"λ₁⁻² = {inverse_square:.3g}, n* ≤ {n_star}, n* = 1 would allow {least_bound:.3g}",
        criteria={
            "greedy choice needs no more": bool(needed <= bound),
            "the bound is below the number of rows": not vacuous,
        },
        arrays={
            "needed": np.array(needed),
            "bound": np.array(bound),
            "least_bound": np.array(least_bound),
            "n_star_at_most": np.array(n_star),
            "inverse_square": np.array(inverse_square),
        },
        settings=f"first {len(X)} rows, 2ω² = {width:g}, σ² = .1, ε = {tol:g} abs(Q_min)",
        chart=Chart(
            [
                Panel(
                    [
                        Series("full search", np.arange(1, len(excess) + 1), -excess / optimum),
                        Series("ε", [1, len(excess)], [tol, tol], "bound"),
                    ],
                    "Number of basis functions",
                    "(Q - Q_min) / abs(Q_min)",
                    log="y",
                )
            ]
        ),
    )


def _by_width(widths: Sequence[int], kernels: Floats, paper: Floats, y_label: str) -> Chart:
    """Counts (runs x widths) by kernel width, beside the paper's."""
    series = [Series("here", widths, kernels), Series("paper", widths, paper, "paper")]
    return Chart([Panel(series, "2ω²", y_label, log="x")])


def _algorithm1(
    width: float,
    seed: int,
    n_jobs: int | None,
    *,
    n_basis: int = _MOST,
    tol: float | None = None,
    kappa: int = _KAPPA,
) -> SparseGPRegressor:
    """Algorithm 1 as published."""
    return SparseGPRegressor(
        RBF(math.sqrt(width / 2)),
        noise=_NOISE,
        n_basis=n_basis,
        tol=tol,
        search="fresh",
        pool_size=kappa,
        optimizer=None,
        normalize_y=False,
        certificate="published",
        n_jobs=n_jobs,
        random_state=seed,
    )


def _full_search(X: Floats, y: Floats, width: float, n_jobs: int | None) -> Floats:
    """P after each step of a search over all rows; the minimum is reached when all are chosen."""
    model = SparseGPRegressor(
        RBF(math.sqrt(width / 2)),
        noise=_NOISE,
        n_basis=len(X),
        search="full",
        optimizer=None,
        normalize_y=False,
        certificate=None,
        n_jobs=n_jobs,
    )
    value: Floats = model.fit(X, y).path_.value
    return value


def _on_splits(
    data: Data | None,
    width: float,
    n_train: int,
    n_runs: int,
    random_state: int,
    n_jobs: int | None,
    progress: Progress | None,
) -> dict[str, Floats]:
    """Fit sparse and exact models to random splits: errors on the test rows, Q, and sizes."""
    X, y = standardised(data)
    found: dict[str, list[Any]] = {
        name: [] for name in ("sparse", "exact", "Q_sparse", "Q_exact", "kernels")
    }
    for run in range(n_runs):
        order = np.random.default_rng(random_state + run).permutation(len(X))
        train, test = order[:n_train], order[n_train:]
        sparse = _algorithm1(width, random_state + run, n_jobs, tol=_TOL).fit(X[train], y[train])
        exact = GaussianProcessRegressor(
            RBF(math.sqrt(width / 2)), alpha=_NOISE, optimizer=None
        ).fit(X[train], y[train])
        half_norm = 0.5 * y[train] @ y[train]
        found["sparse"].append(_errors(y[test], sparse.predict(X[test])))
        found["exact"].append(_errors(y[test], exact.predict(X[test])))
        found["Q_sparse"].append(sparse.path_.value[-1] - half_norm)
        found["Q_exact"].append(0.5 * _NOISE * y[train] @ exact.alpha_ - half_norm)
        found["kernels"].append(sparse.n_basis_)
        tell(progress, f"split {run + 1} of {n_runs}: {sparse.n_basis_} kernels")
    return {name: np.array(values) for name, values in found.items()}


def _errors(y: Floats, predicted: Floats) -> Floats:
    """MSE, RMSE, MAE and half the MSE."""
    error = y - predicted
    mse = float(np.mean(error**2))
    return np.array([mse, math.sqrt(mse), np.mean(np.abs(error)), mse / 2])


def _sum_of_gaussians(n_rows: int, n_features: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X, centres = rng.normal(size=(n_rows, n_features)), rng.normal(size=(200, n_features))
    coefficients = rng.normal(size=200)
    noise = math.sqrt(_NOISE) * rng.normal(size=n_rows)
    return X, RBF(math.sqrt(40 / 2))(X, centres) @ coefficients + noise


def _check_widths(widths: Sequence[int]) -> None:
    unknown = [width for width in widths if width not in WIDTHS]
    if unknown or len(widths) == 0:
        allowed = ", ".join(map(str, WIDTHS))
        raise ValueError(f"widths must be among the table's {allowed}; got {list(widths)}.")
