"""Theorem 2 of Smola and Bartlett (2001): how many steps greedy choice may take, and does take."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh, svdvals
from sklearn.gaussian_process.kernels import RBF

from pursuit._types import Floats
from pursuit.estimators import Search, SparseGPRegressor
from pursuit.papers.chart import Chart, Panel, Series
from pursuit.papers.common import Data, Progress, slashed, standardised, tell
from pursuit.papers.result import PaperResult

_NOISE = 0.1
_LEAST_TOL = 1e-6
_NEEDLE_ROWS, _NEEDLE_WIDTH = 400, 1e-3


def theorem2(
    data: Data | None = None,
    *,
    width: float = 10,
    n_rows: int = 60,
    tol: float = 0.025,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    control: bool = False,
) -> PaperResult:
    """Theorem 2: how many steps a full search may take, against how many it does take.

    With A = (σ²K + K²)^½, b = A⁻¹Ky and λ₁ the smallest singular value of A with normalised
    columns, greedy choice reaches Q ≤ Q_min + ε with at most ::

        n ≤ ⌈ 18 n*(ε/4) λ₁⁻² ln(‖b‖ / √(2ε)) ⌉

    basis functions, n*(ε/4) being the fewest that reach Q_min + ε/4 (the printed logarithm has ε
    in place of √(2ε)). Nobody can compute n*, so it is replaced by what greedy choice itself needs
    for ε/4, which is at least as many. A bound that is not below the number of rows cannot fail,
    so it counts as nothing shown: for the smooth kernel of the paper λ₁⁻² is 3e6. Two targets that
    are not 0 among 400 rows far apart are a problem where the bound can fail, and it holds.

    Parameters
    ----------
    data : (X, y), optional
        Other data than Abalone; X is standardised.
    width : float
        2ω².
    n_rows : int
        The first so many rows are used.
    tol : float
        ε as a part of ``abs(Q_min)``.
    random_state : int
        Seed of the places of the two targets.
    n_jobs : int, optional
        Threads.
    progress : callable, optional
        Called with a line of text as the work goes on.
    control : bool
        Rows are chosen at random: a negative control.

    Returns
    -------
    PaperResult
        Arrays ``needed``, ``bound``, ``n_star_at_most`` and ``inverse_square`` (λ₁⁻²), an entry for
        the data and one for the two targets.
    """
    if not _LEAST_TOL <= tol < 1:
        raise ValueError(f"tol must be from {_LEAST_TOL:g} up to, but not, 1; got {tol!r}.")
    X, y = (rows[:n_rows] for rows in standardised(data))
    rng = np.random.default_rng(random_state)
    targets = np.zeros(_NEEDLE_ROWS)
    targets[rng.choice(_NEEDLE_ROWS, 2, replace=False)] = 1.0
    problems = {
        "the data": (X, y, width),
        "two targets": (np.arange(_NEEDLE_ROWS, dtype=np.float64)[:, None], targets, _NEEDLE_WIDTH),
    }
    arrays: dict[str, list[float]] = {name: [] for name in _ARRAYS}
    panels, criteria = [], {}
    for name, (rows, values, two_omega) in problems.items():
        found, excess = _steps(rows, values, two_omega, tol, n_jobs, control)
        for key, value in zip(_ARRAYS, found, strict=True):
            arrays[key].append(value)
        needed, bound = found[:2]
        tell(progress, f"{name}: {needed:.0f} basis functions needed, {bound:.3g} allowed")
        criteria[f"{name}: no more are needed than a bound below the number of rows allows"] = bool(
            needed <= bound < len(rows)
        )
        size = np.arange(1, len(excess) + 1)
        panels.append(
            Panel(
                [Series("search", size, excess), Series("ε", [1, len(excess)], [tol] * 2, "bound")],
                "Number of basis functions",
                "(Q - Q_min) / abs(Q_min)",
                name,
                "xy",
            )
        )
    allowed = " and ".join(f"{bound:.3g}" for bound in arrays["bound"])
    return PaperResult(
        name="SB01 Theorem 2, steps of greedy choice",
        paper_says="at most 18 n*(ε/4) λ₁⁻² ln(‖b‖/√(2ε)) basis functions",
        we_get=f"{slashed(arrays['needed'])} needed, {allowed} allowed, of "
        f"{len(X)} and {_NEEDLE_ROWS} rows ({', '.join(problems)})",
        spread=f"λ₁⁻² = {' and '.join(f'{value:.3g}' for value in arrays['inverse_square'])}, "
        f"n* ≤ {slashed(arrays['n_star_at_most'])}",
        criteria=criteria,
        arrays={name: np.array(values) for name, values in arrays.items()},
        settings=f"first {len(X)} rows, 2ω² = {width:g}, σ² = .1, ε = {tol:g} abs(Q_min); two "
        f"targets of 1 among {_NEEDLE_ROWS} rows far apart",
        chart=Chart(panels),
    )


_ARRAYS = ("needed", "bound", "n_star_at_most", "inverse_square")


def _steps(
    X: Floats, y: Floats, width: float, tol: float, n_jobs: int | None, control: bool
) -> tuple[tuple[float, float, float, float], Floats]:
    """Steps needed and allowed, n* at most, λ₁⁻²; and (Q - Q_min)/abs(Q_min) after each step."""
    values, U = eigh(RBF(math.sqrt(width / 2))(X))
    values = np.maximum(values, 0.0)
    optimum = -0.5 * float((values / (values + _NOISE)) @ (U.T @ y) ** 2)
    A = (U * np.sqrt(_NOISE * values + values**2)) @ U.T
    smallest = float(svdvals(A / np.linalg.norm(A, axis=0))[-1])
    inverse_square = math.inf if smallest == 0 else smallest**-2
    greedy = _excess(X, y, width, optimum, n_jobs, "full")
    n_star = 1 + int(np.argmax(greedy <= tol / 4))
    excess = _excess(X, y, width, optimum, n_jobs, "fresh") if control else greedy
    needed = 1 + int(np.argmax(excess <= tol)) if np.any(excess <= tol) else math.inf
    # ‖b‖² = -2 Q_min, so that ln(‖b‖/√(2ε)) = -½ ln tol.
    bound = np.ceil(-9 * n_star * inverse_square * math.log(tol))
    return (needed, float(bound), n_star, inverse_square), excess


def _excess(
    X: Floats, y: Floats, width: float, optimum: float, n_jobs: int | None, search: str
) -> Floats:
    """(Q - Q_min)/abs(Q_min) after each step, of a search over all rows or of random rows."""
    model = SparseGPRegressor(
        RBF(math.sqrt(width / 2)),
        noise=_NOISE,
        n_basis=len(X),
        search=Search("fresh", pool_size=1) if search == "fresh" else search,
        optimizer=None,
        normalize_y=False,
        certificate=None,
        n_jobs=n_jobs,
        random_state=0,
    )
    values: Floats = model.fit(X, y).path_.value - 0.5 * float(y @ y)
    return (values - optimum) / abs(optimum)
