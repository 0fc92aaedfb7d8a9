"""Smola and Bartlett, *Sparse greedy Gaussian process regression* (NIPS 13, 2001), run again.

Settings of the paper: Gaussian kernel exp(-‖x - x'‖²/2ω²), σ² = .1, Abalone with the sex as three
indicator columns, every column scaled to zero mean and unit variance over the whole data set, and
separate random subsets of κ = 60 candidates at every step for Q and for Q*. The paper does not say
that the targets are the raw numbers of rings, which matters: with centred targets the gap is still
.24 after 400 steps, ten times the reported one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from pursuit._types import Floats
from pursuit.estimators import Search, SparseGPRegressor
from pursuit.papers.common import (
    Data,
    Panel,
    PaperResult,
    Progress,
    Series,
    ignore,
    level,
    near,
    slashed,
    standardised,
)

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

NOISE, KAPPA = 0.1, 60
_TOL = 0.025
_MOST = 1000
# "The relative variance of the gap size was less than 10 %", the caption of Figure 1 says.
_VARIATION = 0.1
_PAPER_ROWS = 177
_FEW = 10
_RAW = "targets raw, not centred (two tried)"


def table2_posterior(
    data: Data | None = None,
    *,
    widths: Sequence[int] = WIDTHS,
    n_train: int = 4000,
    n_runs: int = 6,
    random_state: int = 0,
    progress: Progress = ignore,
    control: bool = False,
) -> PaperResult:
    """Table 2, first row: basis functions needed for a gap below .025, by kernel width.

    Found: 3 to 7 % fewer kernels than printed, on average over runs. The paper states all settings
    but the raw targets. The counts may be 10 % off, the variation that the paper allows for.

    Parameters
    ----------
    data : (X, y), optional
        Other data than Abalone; X is standardised.
    widths : sequence of int
        Values of 2ω², among those of the table.
    n_train : int
        Number of rows, taken from the start.
    n_runs : int
        Number of runs to average; run r has the seed ``random_state + r``.
    random_state : int
        Seed of the first run.
    progress : callable, optional
        Called with a line of text as the work goes on.
    control : bool
        Negative control: choose random rows in place of the best of 60.

    Returns
    -------
    PaperResult
        Arrays ``width``, ``kernels`` (widths x runs; NaN where twice the printed number does not
        reach the gap) and ``paper``.
    """
    _check_widths(widths)
    X, y = standardised(data)
    kernels = np.full((len(widths), n_runs), np.nan)
    kappa = 1 if control else KAPPA
    for i, width in enumerate(widths):
        most = 2 * KERNELS_FOR_POSTERIOR[width]
        for run in range(n_runs):
            seed = random_state + run
            model = algorithm1(width, seed, n_basis=most, tol=_TOL, kappa=kappa)
            model.fit(X[:n_train], y[:n_train])
            if model.path_.stop_reason == "tol":
                kernels[i, run] = model.n_basis_
            progress(f"2ω² = {width}, run {run + 1} of {n_runs}: {model.n_basis_} kernels")
    paper = np.array([KERNELS_FOR_POSTERIOR[width] for width in widths], dtype=np.float64)
    mean = kernels.mean(axis=1)
    return PaperResult(
        name="SB01 Table 2, kernels for the log posterior",
        paper_says=slashed(paper),
        we_get=slashed(mean),
        spread=f"± {slashed(kernels.std(axis=1))} over {n_runs} runs",
        criteria={"counts within 10 % of the paper's": near(mean, paper, _VARIATION * paper)},
        checks={"less than 10 % of the rows suffice": bool(np.all(mean < 0.1 * n_train))},
        arrays={"width": np.asarray(widths), "kernels": kernels, "paper": paper},
        settings=f"2ω² = {slashed(widths)}, σ² = .1, κ = 60, gap .025, first {n_train} rows",
        hindsight=_RAW,
        panels=_by_width(widths, kernels.T, paper, "Basis functions for a gap of .025"),
    )


def table2_errorbars(
    data: Data | None = None,
    *,
    widths: Sequence[int] = WIDTHS,
    n_train: int = 4000,
    n_test: int | None = None,
    random_state: int = 0,
    progress: Progress = ignore,
    control: bool = False,
) -> PaperResult:
    """Table 2, second row: basis functions needed for the error bar at each remaining row.

    Found: up to 15 % fewer kernels than printed. The paper does not say which quantity has to be
    within .025. Three readings were tried and the nearest was kept: the relative distance between
    the two bounds on Q*. The gap of Q gives 6.4 kernels where the paper has 79, the true relative
    error of Q* gives 49. Subsets have 59 rows. Two means over 177 and n rows may differ by two
    standard errors, 2d(1/177 + 1/n)^½ with d the printed deviation. The deviations are about as
    large as the means, as for an exponential law, whose estimate from n rows has the relative
    standard error (2/n)^½.

    Parameters
    ----------
    data, widths, random_state, progress
        As in :func:`table2_posterior`.
    n_train : int
        Number of training rows, taken from the start; error bars are computed at the others.
    n_test : int, optional
        Number of the other rows to use; all by default.
    control : bool
        Negative control: use a tolerance ten times as large.

    Returns
    -------
    PaperResult
        Arrays ``width``, ``kernels`` (widths x test rows) and ``paper`` (widths x mean, deviation).
    """
    _check_widths(widths)
    X, y = standardised(data)
    X_test = X[n_train:][:n_test]
    tol = 10 * _TOL if control else _TOL
    kernels = np.empty((len(widths), len(X_test)))
    for i, width in enumerate(widths):
        model = algorithm1(width, random_state, n_basis=1).fit(X[:n_train], y[:n_train])
        kernels[i] = model._std_bounds(X_test, X[:n_train], None, tol, own_basis=False)[2]
        progress(f"2ω² = {width}: {kernels[i].mean():.1f} kernels for an error bar")
    paper = np.array([KERNELS_FOR_ERROR_BARS[width] for width in widths], dtype=np.float64)
    mean, deviation = kernels.mean(axis=1), kernels.std(axis=1)
    both = 1 / _PAPER_ROWS + 1 / len(X_test)
    digit = 0.5
    return PaperResult(
        name="SB01 Table 2, kernels for error bars",
        paper_says=f"{slashed(paper[:, 0])} ± {slashed(paper[:, 1])}",
        we_get=slashed(mean, 1),
        spread=f"± {slashed(deviation, 1)} over {len(X_test)} rows",
        criteria={
            "means within two standard errors of the paper's": near(
                mean, paper[:, 0], digit + 2 * paper[:, 1] * math.sqrt(both)
            ),
            "deviations within two standard errors of the paper's": near(
                deviation, paper[:, 1], digit + 2 * paper[:, 1] * math.sqrt(2 * both)
            ),
        },
        checks={"less than 2 % of the rows suffice": bool(np.all(mean < 0.02 * n_train))},
        arrays={"width": np.asarray(widths), "kernels": kernels, "paper": paper},
        settings=f"2ω² = {slashed(widths)}, σ² = .1, κ = 59, tolerance .025, {n_train} rows",
        hindsight="what is to be within .025 (nearest of three readings)",
        panels=_by_width(widths, kernels.T, paper[:, 0], "Basis functions for an error bar"),
    )


def figure1(
    data: Data | None = None,
    *,
    subsets: Sequence[int] = SUBSETS,
    width: float = 10,
    n_train: int = 4000,
    n_basis: int = 250,
    n_runs: int = 5,
    random_state: int = 0,
    progress: Progress = ignore,
    control: bool = False,
) -> PaperResult:
    """Figure 1: the gap as basis functions are added, for random subsets of different sizes.

    Found: larger subsets converge faster, and from 50 on nearly alike. Still, subsets of 59 rows
    need 15 to 20 % more kernels than a search over all rows.

    Parameters
    ----------
    data, n_train, n_runs, random_state, progress
        As in :func:`table2_posterior`.
    subsets : sequence of int
        Values of κ.
    width : float
        2ω².
    n_basis : int
        Steps.
    control : bool
        Negative control: ignore the sizes; all subsets have 60 rows.

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
            searched = KAPPA if control else int(size)
            model = algorithm1(width, random_state + run, n_basis=n_basis, kappa=searched)
            gaps = model.fit(X[:n_train], y[:n_train]).path_.gap
            gap[i, run, : len(gaps)] = gaps
            progress(f"κ = {size}, run {run + 1} of {n_runs}: gap {gaps[-1]:.4f}")
    at_end = gap[:, :, -1]
    mean, spread = at_end.mean(axis=1), at_end.std(axis=1) / at_end.mean(axis=1)
    large, ratio = mean[kappa >= 50], mean / mean[-1]
    return PaperResult(
        name="SB01 Figure 1, gap by size of the random subset",
        paper_says="ordered by κ, rapid from κ = 50 on, relative variance below 10 %",
        we_get=f"gap {slashed(mean, 4)} for κ = {slashed(kappa)} at n = {n_basis}",
        spread=f"relative deviation {spread.max():.1%} at most, {n_runs} runs",
        criteria={
            "larger subsets converge faster": bool(np.all(np.diff(mean) < 0)),
            "subsets of 50 and more within 10 % of each other, the smallest not": bool(
                near(large, mean[-1], _VARIATION * mean[-1]) and ratio[0] > 1 + _VARIATION
            ),
        },
        checks={"relative deviation below 10 % at the end": bool(np.all(spread < _VARIATION))},
        arrays={"kappa": kappa, "n": np.arange(1, n_basis + 1), "gap": gap},
        settings=f"2ω² = {width:g}, σ² = .1, first {n_train} rows",
        hindsight=_RAW,
        panels=[
            Panel(
                [
                    Series(f"κ = {size}", np.arange(1, n_basis + 1), runs)
                    for size, runs in zip(kappa, gap, strict=True)
                ],
                "Number of basis functions",
                "Relative gap",
                log="y",
            )
        ],
    )


def generalization_error(
    data: Data | None = None,
    *,
    width: float = 10,
    n_train: int = 3000,
    n_runs: int = 10,
    random_state: int = 0,
    progress: Progress = ignore,
    control: bool = False,
) -> PaperResult:
    """Section 5: error on test rows, sparse against exact, over random splits.

    Found: the message, but not the number. The printed 1.785 ± .32 is no usual measure of error:
    MSE 4.46 (± .29), RMSE 2.11, MAE 1.49, half the MSE 2.23. σ² = .05, unscaled indicators,
    2ω² = 20 and centred targets were tried as well. Sparse and exact models do err alike: their
    MSEs differ by .1 %. Mean and deviation of a measure may be off by two standard errors of ten
    splits, 2(.32)/√10 and 2(.32)/√18. The errors of both models may differ by as much as the
    printed digits allow, (1.7855 - 1.7815)/1.782.

    Parameters
    ----------
    data, random_state, progress
        As in :func:`table2_posterior`.
    width : float
        2ω².
    n_train : int
        Number of training rows; the others are test rows.
    n_runs : int
        Number of random splits.
    control : bool
        Negative control: choose ten random rows in place of Algorithm 1.

    Returns
    -------
    PaperResult
        Arrays ``sparse`` and ``exact`` (splits x measures: MSE, RMSE, MAE, half MSE) and
        ``kernels``.
    """
    splits = _on_splits(data, width, n_train, n_runs, random_state, progress, control)
    sparse, exact = splits["sparse"].mean(axis=0), splits["exact"].mean(axis=0)
    difference = splits["sparse"][:, 0] - splits["exact"][:, 0]
    pairs = zip(METRICS, sparse, exact, strict=True)
    return PaperResult(
        name="SB01 section 5, test error",
        paper_says="1.785 ± .32 sparse, 1.782 ± .33 exact, measure not named",
        we_get=", ".join(f"{name} {a:.3f} sparse {b:.3f} exact" for name, a, b in pairs),
        spread=f"MSE ± {splits['exact'][:, 0].std():.2f}, difference {difference.mean():.4f} ± "
        f"{difference.std():.4f} over {n_runs} splits",
        criteria={
            "a usual measure is 1.785 ± .32, to two standard errors": any(
                near(mean, 1.785, 2 * 0.32 / math.sqrt(10))
                and near(deviation, 0.32, 2 * 0.32 / math.sqrt(18))
                for mean, deviation in zip(sparse, splits["sparse"].std(axis=0), strict=True)
            ),
            "sparse and exact MSE within .22 % of each other": near(
                difference.mean(), 0, (1.7855 - 1.7815) / 1.782 * exact[0]
            ),
        },
        arrays={name: splits[name] for name in ("sparse", "exact", "kernels")},
        settings=f"2ω² = {width:g}, σ² = .1, κ = 60, gap .025, {n_train} training rows",
        hindsight=_RAW,
        panels=[
            Panel(
                [
                    Series("sparse", np.arange(1, n_runs + 1), splits["sparse"][:, i]),
                    Series("exact", np.arange(1, n_runs + 1), splits["exact"][:, i]),
                    level("paper, sparse", n_runs, 1.785),
                ],
                "Random split",
                METRICS[i],
            )
            for i in range(3)
        ],
    )


def log_posterior(
    data: Data | None = None,
    *,
    width: float = 10,
    n_train: int = 3000,
    n_runs: int = 10,
    random_state: int = 0,
    progress: Progress = ignore,
    control: bool = False,
) -> PaperResult:
    """Section 5: the "log posterior", which is Q = P - ½y'y, of the sparse and of the exact model.

    Found with raw rings (centred ones give -9.3e3). The paper prints a lower Q for the sparse
    model than for the optimum. This is impossible since Q is minimised: the labels are exchanged.
    Both may be off by the printed ±.5 %, and their ratio by as much as the printed digits allow,
    (1.5725 - 1.5705)/1.571.

    Parameters
    ----------
    data, width, n_train, n_runs, random_state, progress, control
        As in :func:`generalization_error`.

    Returns
    -------
    PaperResult
        Arrays ``Q_sparse``, ``Q_exact`` and ``kernels``, one entry per split.
    """
    splits = _on_splits(data, width, n_train, n_runs, random_state, progress, control)
    sparse, exact = splits["Q_sparse"], splits["Q_exact"]
    levels, printed = np.array([sparse.mean(), exact.mean()]), np.array([-1.572e5, -1.571e5])
    return PaperResult(
        name="SB01 section 5, log posterior",
        paper_says="-1.572e5 sparse, -1.571e5 optimal, each (1 ± .005)",
        we_get=f"{sparse.mean():.4e} sparse, {exact.mean():.4e} optimal",
        spread=f"(1 ± {(exact.std() / abs(exact.mean())):.4f}) over {n_runs} splits",
        criteria={
            "both within .5 % of the paper's": near(levels / printed, 1, 0.005),
            "sparse within .13 % of the optimum": near(
                sparse / exact, 1, (1.5725 - 1.5705) / 1.571
            ),
        },
        arrays={name: splits[name] for name in ("Q_sparse", "Q_exact", "kernels")},
        settings=f"2ω² = {width:g}, σ² = .1, κ = 60, gap .025, {n_train} training rows",
        hindsight=_RAW,
        panels=[
            Panel(
                [
                    Series("sparse", np.arange(1, n_runs + 1), sparse),
                    Series("optimal", np.arange(1, n_runs + 1), exact),
                    level("paper, sparse", n_runs, -1.572e5),
                ],
                "Random split",
                "Q",
            )
        ],
    )


def synthetic(
    *,
    n_rows: int = 10_000,
    n_features: int = 20,
    n_basis: int = 500,
    n_runs: int = 6,
    random_state: int = 0,
    progress: Progress = ignore,
    control: bool = False,
) -> PaperResult:
    """Section 5: the gap after 500 steps on 10 000 synthetic rows in 20 dimensions.

    The target is a sum of 200 Gaussians of width 2ω² = 40 with normal centres and coefficients,
    plus noise of variance .1. The prior has 2ω² = 10, which is wrong on purpose. Found: five of
    six such data sets end below .023 (.0095 to .013). One ends at .038: its target happens to have
    a mean near 0, and the gap is relative to the size of the target.

    Parameters
    ----------
    n_rows, n_features : int
        Size of the data.
    n_basis : int
        Steps.
    n_runs : int
        Number of data sets; data set r is drawn with the seed ``random_state + r``.
    random_state, progress
        As in :func:`table2_posterior`.
    control : bool
        Negative control: shuffle and centre the targets.

    Returns
    -------
    PaperResult
        Arrays ``gap`` (data sets x steps) and ``target_mean``.
    """
    gap = np.full((n_runs, n_basis), np.nan)
    target_mean = np.empty(n_runs)
    for run in range(n_runs):
        X, y = _sum_of_gaussians(n_rows, n_features, random_state + run)
        if control:
            y = np.random.default_rng(run).permutation(y - y.mean())
        model = algorithm1(10, random_state + run, n_basis=n_basis)
        gaps = model.fit(X, y).path_.gap
        gap[run, : len(gaps)], target_mean[run] = gaps, y.mean()
        progress(f"data set {run + 1} of {n_runs}: gap {gaps[-1]:.4f}")
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
        panels=[
            Panel(
                [
                    *(
                        Series(f"data set {run + 1}", np.arange(1, n_basis + 1), gap[run])
                        for run in range(n_runs)
                    ),
                    level("paper, after 500 steps", n_basis, 0.023),
                ],
                "Number of basis functions",
                "Relative gap",
                log="y",
            )
        ],
    )


def _by_width(widths: Sequence[int], kernels: Floats, paper: Floats, y_label: str) -> list[Panel]:
    """Counts (runs x widths) by kernel width, beside the paper's."""
    series = [Series("here", widths, kernels), Series("paper", widths, paper, "paper")]
    return [Panel(series, "2ω²", y_label, log="x")]


def algorithm1(
    width: float, seed: int, *, kappa: int = KAPPA, **parameters: Any
) -> SparseGPRegressor:
    """Algorithm 1 as published, but for the parameters given."""
    published: dict[str, Any] = {
        "n_basis": _MOST,
        "search": Search("fresh", pool_size=kappa),
        "optimizer": None,
        "normalize_y": False,
        "certificate": "published",
    }
    return SparseGPRegressor(
        RBF(math.sqrt(width / 2)), noise=NOISE, random_state=seed, **(published | parameters)
    )


def _on_splits(
    data: Data | None,
    width: float,
    n_train: int,
    n_runs: int,
    random_state: int,
    progress: Progress,
    control: bool,
) -> dict[str, Floats]:
    """Fit sparse and exact models to random splits: errors on the test rows, Q, and sizes."""
    X, y = standardised(data)
    splits: dict[str, list[Any]] = {
        name: [] for name in ("sparse", "exact", "Q_sparse", "Q_exact", "kernels")
    }
    for run in range(n_runs):
        order = np.random.default_rng(random_state + run).permutation(len(X))
        train, test = order[:n_train], order[n_train:]
        wrong: dict[str, Any] = {"n_basis": _FEW, "kappa": 1} if control else {"tol": _TOL}
        sparse = algorithm1(width, random_state + run, **wrong).fit(X[train], y[train])
        exact = GaussianProcessRegressor(
            RBF(math.sqrt(width / 2)), alpha=NOISE, optimizer=None
        ).fit(X[train], y[train])
        half_norm = 0.5 * y[train] @ y[train]
        splits["sparse"].append(_errors(y[test], sparse.predict(X[test])))
        splits["exact"].append(_errors(y[test], exact.predict(X[test])))
        splits["Q_sparse"].append(sparse.path_.value[-1] - half_norm)
        splits["Q_exact"].append(0.5 * NOISE * y[train] @ exact.alpha_ - half_norm)
        splits["kernels"].append(sparse.n_basis_)
        progress(f"split {run + 1} of {n_runs}: {sparse.n_basis_} kernels")
    return {name: np.array(values) for name, values in splits.items()}


def _errors(y: Floats, predicted: Floats) -> Floats:
    """MSE, RMSE, MAE and half the MSE."""
    error = y - predicted
    mse = float(np.mean(error**2))
    return np.array([mse, math.sqrt(mse), np.mean(np.abs(error)), mse / 2])


def _sum_of_gaussians(n_rows: int, n_features: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X, centres = rng.normal(size=(n_rows, n_features)), rng.normal(size=(200, n_features))
    coefficients = rng.normal(size=200)
    noise = math.sqrt(NOISE) * rng.normal(size=n_rows)
    return X, RBF(math.sqrt(40 / 2))(X, centres) @ coefficients + noise


def _check_widths(widths: Sequence[int]) -> None:
    unknown = [width for width in widths if width not in WIDTHS]
    if unknown or len(widths) == 0:
        allowed = ", ".join(map(str, WIDTHS))
        raise ValueError(f"widths must be among the table's {allowed}; got {list(widths)}.")
