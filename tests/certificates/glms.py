"""Generalised linear models: losses written out, targets to match, and an oracle for all of them.

Nothing of the package's losses is used: formulas are those of a textbook, and a conjugate is only
taken where Fenchel and Young's inequality is an equality, ℓ*(ℓ'(g)) = gℓ'(g) - ℓ(g).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from certificates.driver import EPS, Enclosure

from pursuit.objectives import (
    ExpectileRows,
    GammaRows,
    HuberRows,
    LogitRows,
    NegativeBinomialRows,
    PinballRows,
    PoissonRows,
    RowLoss,
    TweedieRows,
)

_KERNEL = 1e-13
"""Relative rounding of a kernel value."""

Formula = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class LossCase:
    """A loss of the package, as an estimator takes it, and its formulas."""

    name: str
    rows: RowLoss
    value: Formula
    slope: Formula
    bend: Formula | None
    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]

    @property
    def levels(self) -> tuple[float, float]:
        """Slopes on either side of y, for a loss with a kink there."""
        return self.rows.low, self.rows.high


def _pick(f, y, inside, below, above):
    """By whether f is below or above a bend at distance 1 from y, in units given by the caller."""
    return np.where(f < y - 1.0, below, np.where(f > y + 1.0, above, inside))


def _count(rng, f):
    return rng.poisson(np.exp(np.clip(f, -5.0, 6.0))).astype(float)


def _amount(rng, f):
    return np.exp(f) * rng.gamma(1.5, 1.0 / 1.5, len(f))


def _real(rng, f):
    return f + rng.uniform(0.05, 1.0) * rng.standard_t(2.5, len(f))


def poisson() -> LossCase:
    return LossCase(
        "poisson",
        PoissonRows(),
        lambda f, y: np.exp(f) - y * f,
        lambda f, y: np.exp(f) - y,
        lambda f, y: np.exp(f),
        _count,
    )


def gamma() -> LossCase:
    return LossCase(
        "gamma",
        GammaRows(),
        lambda f, y: y / np.exp(f) + f,
        lambda f, y: 1.0 - y / np.exp(f),
        lambda f, y: y / np.exp(f),
        _amount,
    )


def tweedie(p: float) -> LossCase:
    def draw(rng, f):
        return _amount(rng, f) * (rng.random(len(f)) < 0.7)

    return LossCase(
        "tweedie",
        TweedieRows(p),
        lambda f, y: y * (np.exp((1 - p) * f) - 1) / (p - 1) + (np.exp((2 - p) * f) - 1) / (2 - p),
        lambda f, y: np.exp((2 - p) * f) - y * np.exp((1 - p) * f),
        lambda f, y: (2 - p) * np.exp((2 - p) * f) + (p - 1) * y * np.exp((1 - p) * f),
        draw,
    )


def negative_binomial(k: float) -> LossCase:
    def draw(rng, f):
        return _count(rng, f + np.log(rng.gamma(k, 1.0 / k, len(f)) + 1e-12))

    return LossCase(
        "negative-binomial",
        NegativeBinomialRows(k),
        lambda f, y: (y + k) * np.log1p(np.exp(f) / k) - y * f,
        lambda f, y: (y + k) * np.exp(f) / (np.exp(f) + k) - y,
        lambda f, y: (y + k) * k * np.exp(f) / (np.exp(f) + k) ** 2,
        draw,
    )


def logistic() -> LossCase:
    def draw(rng, f):
        p = 1.0 / (1.0 + np.exp(-f))
        shares = rng.beta(3.0 * p + 0.1, 3.1 - 3.0 * p)
        return np.where(rng.random(len(f)) < 0.5, shares, (rng.random(len(f)) < p) * 1.0)

    return LossCase(
        "logistic",
        LogitRows(),
        lambda f, y: np.logaddexp(0.0, f) - y * f,
        lambda f, y: 1.0 / (1.0 + np.exp(-f)) - y,
        lambda f, y: 1.0 / (2.0 + np.exp(f) + np.exp(-f)),
        draw,
    )


def huber(d: float) -> LossCase:
    return LossCase(
        "huber",
        HuberRows(d),
        lambda f, y: _pick(
            f / d, y / d, 0.5 * (f - y) ** 2, d * (y - f) - d * d / 2, d * (f - y) - d * d / 2
        ),
        lambda f, y: _pick(f / d, y / d, f - y, -d, d),
        lambda f, y: _pick(f / d, y / d, 1.0, 0.0, 0.0),
        _real,
    )


def expectile(t: float) -> LossCase:
    return LossCase(
        "expectile",
        ExpectileRows(t),
        lambda f, y: np.where(y > f, t, 1 - t) * (y - f) ** 2,
        lambda f, y: np.where(y > f, t, 1 - t) * 2.0 * (f - y),
        lambda f, y: np.where(y > f, t, 1 - t) * 2.0,
        _real,
    )


def _kinked(name, rows):
    low, high = rows.low, rows.high
    return LossCase(
        name,
        rows,
        lambda f, y: np.where(y > f, high * (y - f), low * (y - f)),
        lambda f, y: np.where(y > f, -high, -low),
        None,
        _real,
    )


def absolute() -> LossCase:
    return _kinked("absolute", PinballRows.absolute())


def quantile(t: float) -> LossCase:
    return _kinked("quantile", PinballRows.of_quantile(t))


LOSSES: dict[str, Callable[[np.random.Generator], LossCase]] = {
    "poisson": lambda rng: poisson(),
    "gamma": lambda rng: gamma(),
    "tweedie": lambda rng: tweedie(float(rng.uniform(1.1, 1.9))),
    "negative-binomial": lambda rng: negative_binomial(float(10.0 ** rng.uniform(-0.5, 1.0))),
    "logistic": lambda rng: logistic(),
    "huber": lambda rng: huber(float(10.0 ** rng.uniform(-1.5, 0.5))),
    "expectile": lambda rng: expectile(float(rng.uniform(0.05, 0.95))),
    "absolute": lambda rng: absolute(),
    "quantile": lambda rng: quantile(float(rng.uniform(0.05, 0.95))),
}
"""Makers of cases, from a random generator that draws their parameters."""


def objective(case, K, y, w, o, alpha, c, b) -> float:
    """P of f = Kc/α with intercept b."""
    f = K @ c / alpha
    return float(w @ case.value(f + b + o, y)) + 0.5 * float(c @ f)


def minimum(case: LossCase, K, y, w, o, alpha) -> Enclosure:
    """The minimum over all functions and intercepts, between a dual and a primal value."""
    solve = _box_programme if case.bend is None else _newton
    c, b = solve(case, K, y, w, o, alpha)
    f = K @ c / alpha
    upper = objective(case, K, y, w, o, alpha, c, b)
    if case.bend is None:
        a = c
        linear = float(a @ (y - o))
    else:
        g = f + b + o
        slope = case.slope(g, y)
        a = -w * slope
        # ℓ*(ℓ'(g)) = gℓ'(g) - ℓ(g).
        linear = -float(w @ (g * slope - case.value(g, y))) - float(a @ o)
    quadratic = float(a @ K @ a) / (2.0 * alpha)
    lower = linear - quadratic
    terms = np.abs(w * case.value(f + b + o, y)).sum() + np.abs(a) @ (np.abs(f) + np.abs(b + o))
    size = float(terms + np.abs(a) @ np.abs(K) @ np.abs(a) / alpha)
    # What is left of 1'a = 0 would move the bound by as much as the intercept times it.
    unbalanced = abs(float(a.sum())) * (1.0 + abs(b))
    return Enclosure(lower, upper, (_KERNEL + 4.0 * len(y) * EPS) * size + unbalanced)


def _newton(case, K, y, w, o, alpha):
    """Newton's method in c and b: c + D(Kc/α + b) = a + D(f + b), 1'c = 0."""
    m = len(y)
    c, b = np.zeros(m), _constant(case, y, w, o)
    value = objective(case, K, y, w, o, alpha, c, b)
    for _ in range(200):
        g = K @ c / alpha + b + o
        a, D = -w * case.slope(g, y), w * case.bend(g, y)
        system = np.zeros((m + 1, m + 1))
        system[:m, :m] = np.eye(m) + D[:, None] * K / alpha
        system[:m, m], system[m, :m] = D, 1.0
        # Without curvature anywhere, b stays.
        system[m, m] = 0.0 if D.any() else 1.0
        step = np.linalg.solve(system, np.append(a - c, -c.sum()))
        t, found = 1.0, np.inf
        while t > 1e-14:
            with np.errstate(over="ignore"):
                found = objective(case, K, y, w, o, alpha, c + t * step[:m], b + t * step[m])
            if found < value:
                break
            t *= 0.5
        if not found < value:
            break
        c, b, value = c + t * step[:m], b + t * step[m], found
    return c, b + _constant(case, y, w, K @ c / alpha + b + o)


def _constant(case, y, w, o):
    """The b of least loss, by bisection of the slope."""
    low, high = -50.0 - np.abs(o).max(), 50.0 + np.abs(o).max() + np.abs(y).max()
    low = min(low, -high)
    with np.errstate(over="ignore"):
        for _ in range(200):
            b = 0.5 * (low + high)
            low, high = (b, high) if w @ case.slope(b + o, y) < 0 else (low, b)
    return 0.5 * (low + high)


def _box_programme(case, K, y, w, o, alpha):
    """The dual of a loss with a kink by ADMM: min a'Ka/2α - (y - o)'a, low w ≤ a ≤ high w, 1'a = 0.

    Boyd et al., 2011, §5.2, on a/w; the rows that it finds between their bounds are then solved for
    exactly. It ends where primal and dual value agree.
    """
    low, high = case.levels
    unit = float(np.abs(y - o).max()) or 1.0
    Q, z = np.outer(w, w) * K / (alpha * unit), w * (y - o) / unit
    values, vectors = np.linalg.eigh(Q)
    x, dual, rho = np.zeros(len(y)), np.zeros(len(y)), float(np.abs(z).mean())
    best, best_gap = (np.zeros(len(y)), 0.0), np.inf
    for step in range(1, _ADMM_STEPS + 1):
        inverse = 1.0 / (np.maximum(values, 0.0) + rho)
        solved = vectors @ (
            inverse[:, None] * (vectors.T @ np.column_stack([z + rho * x - dual, w]))
        )
        free = solved[:, 0] - solved[:, 1] * ((w @ solved[:, 0]) / (w @ solved[:, 1]))
        relaxed = 1.6 * free - 0.6 * x
        before, x = x, np.clip(relaxed + dual / rho, low, high)
        dual = dual + rho * (relaxed - x)
        if step % 100:
            continue
        primal_off, dual_off = np.abs(free - x).max(), rho * np.abs(x - before).max()
        if primal_off > 10.0 * dual_off:
            rho *= 3.0
        elif dual_off > 10.0 * primal_off:
            rho /= 3.0
        for point in (w * x, w * _polished(Q, z, w, x, low, high)):
            a = _balanced(np.clip(point, low * w, high * w))
            b = _weighted_quantile(y - o - K @ a / alpha, w, high / (high - low))
            lower = float(a @ (y - o)) - 0.5 * float(a @ K @ a) / alpha
            gap = objective(case, K, y, w, o, alpha, a, b) - lower
            if gap < best_gap:
                best, best_gap = (a, b), gap
        if best_gap <= 1e-10 * abs(lower):
            break
    return best


_ADMM_STEPS = 20_000


def _polished(Q, z, w, x, low, high):
    """The stationary point with the rows at their bounds held there."""
    inside = (x > low) & (x < high)
    n = int(inside.sum())
    if n == 0:
        return x
    held = np.where(inside, 0.0, x)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = Q[np.ix_(inside, inside)]
    system[:n, n] = system[n, :n] = w[inside]
    right = np.append((z - Q @ held)[inside], -(w @ held))
    found = held.copy()
    found[inside] = np.linalg.lstsq(system, right, rcond=1e-13)[0][:n]
    return found


def _balanced(a):
    """Its heavier side scaled down, so that 1'a = 0."""
    up, down = a[a > 0].sum(), -a[a < 0].sum()
    least = min(up, down)
    return np.where(
        a > 0, a * (least / up if up > 0 else 0.0), a * (least / down if down > 0 else 0.0)
    )


def _weighted_quantile(values, w, level):
    order = np.argsort(values, kind="stable")
    share = np.cumsum(w[order]) / w.sum()
    return float(values[order[min(int(np.searchsorted(share, level - 1e-12)), len(w) - 1)]])
