"""Table 1 of Smola and Bartlett (2001): what the methods cost, measured as rows and basis grow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from pursuit._types import Floats
from pursuit.datasets import make_robot_arm
from pursuit.estimators import Search, SparseGPRegressor
from pursuit.papers.chart import Chart, Panel, Series
from pursuit.papers.common import Progress, near, slashed, tell
from pursuit.papers.growth import cpu_seconds, exponent, peak_bytes
from pursuit.papers.result import PaperResult

ROWS = (1000, 1500, 2250)
BASES = (50, 100, 200)

_NOISE, _KAPPA = 0.1, 60
_KERNEL = RBF(math.sqrt(10 / 2))
# Printed exponents are whole numbers: a measured one is as printed if it rounds to it.
_ROUNDING = 0.5


class Cost(NamedTuple):
    """An entry of the table: what grows with the rows as m^in_rows and the basis as n^in_basis.

    ``in_basis`` is None for methods without one.
    """

    method: str
    what: str
    in_rows: float
    in_basis: float | None

    def __str__(self) -> str:
        return f"{self.method}, {self.what}"


PRINTED = (
    Cost("exact", "memory", 2, None),
    Cost("exact", "initialisation", 3, None),
    Cost("exact", "mean", 1, None),
    Cost("exact", "error bars", 2, None),
    Cost("sparse greedy", "memory", 1, 1),
    Cost("sparse greedy", "initialisation", 1, 2),
    Cost("sparse greedy", "mean", 0, 1),
    Cost("sparse greedy", "error bars", 0, 2),
)


def table1(
    *,
    rows: Sequence[int] = ROWS,
    bases: Sequence[int] = BASES,
    n_new: int = 1000,
    times: int = 5,
    random_state: int = 0,
    progress: Progress | None = None,
    control: bool = False,
) -> PaperResult:
    """Table 1: how memory, initialisation, prediction and error bars grow with m and n.

    Printed for the exact solution: O(m²) memory, O(m³) initialisation, O(m) a mean, O(m²) an error
    bar; for sparse greedy approximation O(nm), O(κn²m), O(n) and O(n²). Each is measured at three
    numbers of rows and of basis functions: processor seconds of one thread, best of a few, and the
    most memory held. A power law is fitted, and its exponent is to round to the printed one. Found:
    all exponents in the rows do. Those in the basis do not: with 50 to 200 functions what does not
    depend on their number is most of the cost. Two columns are left out. Products with a stored
    matrix wait for memory, so that the time of conjugate gradients says more about the machine:
    exponents from 1.8 to 2.7 in the rows were seen where 2 is printed. And nobody can compute an
    optimal sparse decomposition.

    Parameters
    ----------
    rows, bases : sequences of int
        Numbers of rows, and of basis functions. As the one grows the other stays at its middle.
    n_new : int
        Rows to predict.
    times : int
        Runs of each, of which the fastest counts.
    random_state : int
        Seed of the rows and of the candidates.
    progress : callable, optional
        Called with a line of text as the work goes on.
    control : bool
        Each method is measured in the place of the other: a negative control.

    Returns
    -------
    PaperResult
        Arrays ``by_rows`` and ``by_basis`` (entries of the table x sizes; NaN where there is no
        basis), ``rows``, ``bases``, ``exponents`` and ``printed`` (entries x (rows, basis)).
    """
    data = make_robot_arm(max(rows) + n_new, random_state=random_state)
    X, y, X_new = data.data[:-n_new], data.target[:-n_new], data.data[-n_new:]
    sizes = [(m, bases[len(bases) // 2]) for m in rows]
    sizes += [(rows[len(rows) // 2], n) for n in bases]
    found: dict[tuple[str, str], Floats] = {}
    fits_of = [_sparse_greedy, _exact] if control else [_exact, _sparse_greedy]
    for method, fit in zip(("exact", "sparse greedy"), fits_of, strict=True):
        mine = sizes[: len(rows)] if method == "exact" else sizes
        fits = [partial(fit, X[:m], y[:m], n, random_state) for m, n in mine]
        found[method, "memory"] = np.array([peak_bytes(task) for task in fits])
        found[method, "initialisation"] = cpu_seconds(fits, times)
        models: list[Any] = [task() for task in fits]
        tell(progress, f"{method}: fitted")
        means = [partial(model.predict, X_new) for model in models]
        found[method, "mean"] = cpu_seconds(means, times)
        bars = [partial(model.predict, X_new, return_std=True) for model in models]
        found[method, "error bars"] = cpu_seconds(bars, times)
        tell(progress, f"{method}: predicted")
    measured = np.full((len(PRINTED), len(sizes)), np.nan)
    for i, cost in enumerate(PRINTED):
        costs = found[cost.method, cost.what]
        measured[i, : len(costs)] = costs
    return _judged(measured[:, : len(rows)], measured[:, len(rows) :], rows, bases)


def _judged(
    by_rows: Floats, by_basis: Floats, rows: Sequence[int], bases: Sequence[int]
) -> PaperResult:
    """The exponents, and whether they are as printed."""
    printed = np.array(
        [[c.in_rows, math.nan if c.in_basis is None else c.in_basis] for c in PRINTED]
    )
    found = np.full_like(printed, np.nan)
    for i, cost in enumerate(PRINTED):
        found[i, 0] = exponent(rows, by_rows[i])
        if cost.in_basis is not None:
            found[i, 1] = exponent(bases, by_basis[i])
    exact = np.array([cost.method == "exact" for cost in PRINTED])
    memory = np.array([cost.what == "memory" for cost in PRINTED])
    farthest = np.nanmax(np.abs(found - printed), axis=0)
    return PaperResult(
        name="SB01 Table 1, growth of the costs",
        paper_says=_listed(printed),
        we_get=_listed(found),
        spread=f"farthest from a printed exponent {slashed(farthest, 2)} (rows/basis)",
        criteria={
            f"{what} grows with {size} as printed": near(found[which], printed[which], _ROUNDING)
            for what, size, which in (
                ("memory", "the rows", (memory, 0)),
                ("time of the exact method", "the rows", (exact & ~memory, 0)),
                ("time of the sparse method", "the rows", (~exact & ~memory, 0)),
                ("cost of the sparse method", "the basis", (~exact, 1)),
            )
        },
        arrays={
            "by_rows": by_rows,
            "by_basis": by_basis,
            "rows": np.asarray(rows),
            "bases": np.asarray(bases),
            "exponents": found,
            "printed": printed,
        },
        settings=f"robot arm, m = {'/'.join(map(str, rows))} at the middle n, "
        f"n = {'/'.join(map(str, bases))} at the middle m, κ = {_KAPPA}, 2ω² = 10, σ² = .1",
        chart=_chart(by_rows, by_basis, rows, bases),
    )


def _listed(exponents: Floats) -> str:
    """Exponents as m^p n^q."""
    parts: dict[str, list[str]] = {}
    for cost, (p, q) in zip(PRINTED, exponents, strict=True):
        # Adding zero takes the sign from a zero.
        in_rows, in_basis = (f"{round(power, 1) + 0.0:.1f}" for power in (p, q))
        growth = f"m^{in_rows}" if math.isnan(q) else f"m^{in_rows} n^{in_basis}"
        parts.setdefault(cost.method, []).append(f"{cost.what} {growth}")
    return "; ".join(f"{method}: {', '.join(costs)}" for method, costs in parts.items())


def _chart(by_rows: Floats, by_basis: Floats, rows: Sequence[int], bases: Sequence[int]) -> Chart:
    def panel(costs: Floats, sizes: Sequence[int], x_label: str, memory: bool) -> Panel:
        kept = [i for i, cost in enumerate(PRINTED) if (cost.what == "memory") == memory]
        y_label = "Bytes" if memory else "Processor seconds"
        series = [Series(str(PRINTED[i]), sizes, costs[i]) for i in kept]
        series = [one for one in series if np.isfinite(np.asarray(one.y)).any()]
        return Panel(
            series, x_label, y_label, f"{y_label} by {x_label[0].lower()}{x_label[1:]}", "xy"
        )

    return Chart(
        [
            panel(by_rows, rows, "Rows", memory=False),
            panel(by_basis, bases, "Basis functions", memory=False),
            panel(by_rows, rows, "Rows", memory=True),
        ]
    )


def _exact(X: Floats, y: Floats, n: int, seed: int) -> object:
    return GaussianProcessRegressor(_KERNEL, alpha=_NOISE, optimizer=None).fit(X, y)


def _sparse_greedy(X: Floats, y: Floats, n: int, seed: int) -> object:
    return SparseGPRegressor(
        _KERNEL,
        noise=_NOISE,
        n_basis=n,
        search=Search("fresh", pool_size=_KAPPA),
        optimizer=None,
        normalize_y=False,
        certificate="published",
        n_jobs=1,
        random_state=seed,
    ).fit(X, y)
