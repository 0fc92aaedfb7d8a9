"""Oracles of problems over all atoms of a hull, and of linear programmes over all columns.

A smooth loss is minimised over the simplex of all vertices by a barrier method on the vertices that
matter; every other vertex is priced before the answer is believed. The lower end is that of
Frank and Wolfe: f(v) + min_s ∇f(v)'(s - v), over all vertices s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from certificates.driver import EPS, Enclosure
from scipy.optimize import linprog

_ENOUGH = 1e-9
"""Relative width at which an enclosure is narrow enough."""


@dataclass(frozen=True)
class Loss:
    """A convex function of the values at the rows: value, gradient, and Hessian times a matrix."""

    value: Callable[[np.ndarray], float]
    gradient: Callable[[np.ndarray], np.ndarray]
    hessian: Callable[[np.ndarray, np.ndarray], np.ndarray]


def squared(y, w) -> Loss:
    """Mean of (y - v)²."""
    return Loss(
        lambda v: float(w @ (y - v) ** 2),
        lambda v: 2.0 * w * (v - y),
        lambda v, M: 2.0 * w[:, None] * M,
    )


def huber(y, w, delta) -> Loss:
    """Mean of ½u² up to δ, δu - ½δ² beyond."""

    def value(v):
        u = np.abs(y - v)
        return float(w @ np.where(u <= delta, 0.5 * u**2, delta * u - 0.5 * delta**2))

    return Loss(
        value,
        lambda v: w * np.clip(v - y, -delta, delta),
        lambda v, M: (w * (np.abs(y - v) <= delta))[:, None] * M,
    )


def log_exp(y, w, A) -> Loss:
    """ln mean exp(-A y v)."""

    def tilted(v):
        exponents = -A * y * v
        top = exponents.max()
        q = w * np.exp(exponents - top)
        return q / q.sum(), top + np.log(q.sum())

    def hessian(v, M):
        q, _ = tilted(v)
        signed = y[:, None] * M
        return A**2 * (q * y)[:, None] * (signed - q @ signed)

    return Loss(lambda v: float(tilted(v)[1]), lambda v: -A * y * tilted(v)[0], hessian)


def of_margins(y, w, value, first, second) -> Loss:
    """Mean of φ(y v) for a convex φ with its two derivatives."""
    return Loss(
        lambda v: float(w @ value(y * v)),
        lambda v: w * y * first(y * v),
        lambda v, M: (w * second(y * v))[:, None] * M,
    )


def log_likelihood(w) -> Loss:
    """-mean ln v."""
    return Loss(
        lambda v: -float(w @ np.log(v)) if np.all(v > 0) else np.inf,
        lambda v: -w / v,
        lambda v, M: (w / v**2)[:, None] * M,
    )


def over_vertices(loss: Loss, vertices: np.ndarray, first: int = 30) -> Enclosure:
    """Minimum of the loss over the convex hull of the columns of ``vertices``."""
    m, n = vertices.shape
    start = np.full(n, 1.0 / n)
    v = vertices @ start
    gradient = loss.gradient(v)
    held = np.argsort(vertices.T @ gradient, kind="stable")[:first]
    best_upper, best_lower = loss.value(v), -np.inf
    scale = max(float(gradient @ v - (vertices.T @ gradient).min()), 1e-300)
    anchor = v
    for _ in range(60):
        # The mean of all vertices is in the hull: with it, a start with finite loss is there.
        columns = np.column_stack([vertices[:, held], anchor])
        v = columns @ _barrier(loss, columns, scale)
        gradient = loss.gradient(v)
        prices = vertices.T @ gradient
        upper = loss.value(v)
        lower = upper + min(float(prices.min() - gradient @ v), 0.0)
        best_upper, best_lower = min(best_upper, upper), max(best_lower, lower)
        if best_upper - best_lower <= _ENOUGH * scale:
            break
        order = np.argsort(prices, kind="stable")
        fresh = order[~np.isin(order, held)][:40]
        fresh = fresh[prices[fresh] < gradient @ v]
        if not len(fresh):
            break
        held = np.concatenate([held, fresh])
    size = float(np.abs(gradient) @ np.abs(v)) + float((np.abs(gradient) @ np.abs(vertices)).max())
    return Enclosure(best_lower, best_upper, 8.0 * m * EPS * (size + abs(best_upper)))


def _barrier(loss: Loss, columns: np.ndarray, scale: float) -> np.ndarray:
    """Weights of least t·f(columns λ) - Σ ln λ for growing t, by Newton's method on Σλ = 1.

    They are within n/t of the minimum, which ends at a small part of ``scale``.
    """
    n = columns.shape[1]
    weights = np.full(n, 0.5 / n)
    weights[-1] += 0.5
    t = 1.0 / scale
    last = t * n / _ENOUGH
    while t < last:
        t *= 12.0
        for _ in range(30):
            v = columns @ weights
            gradient = t * (columns.T @ loss.gradient(v)) - 1.0 / weights
            H = t * (columns.T @ loss.hessian(v, columns))
            # In units of the weights: the barrier's Hessian becomes the identity.
            S = weights[:, None] * H * weights + np.eye(n)
            both = np.linalg.solve(S, np.column_stack([weights * gradient, weights]))
            shift = (weights @ both[:, 0]) / (weights @ both[:, 1])
            step = -weights * (both[:, 0] - shift * both[:, 1])
            decrement = -float(gradient @ step)
            if not decrement > 1e-10:
                break
            shrinking = step < 0
            longest = float(np.min(-weights[shrinking] / step[shrinking], initial=np.inf))
            length = min(1.0, 0.95 * longest)
            before = t * loss.value(v) - np.log(weights).sum()
            for _ in range(40):
                tried = weights + length * step
                after = t * loss.value(columns @ tried) - np.log(tried).sum()
                if after <= before - 0.1 * length * decrement + 1e-12 * abs(before):
                    break
                length *= 0.5
            weights = tried / tried.sum()
            if decrement < 1e-6:
                break
    return weights


def l1_vertices(atoms: np.ndarray, radius: float) -> np.ndarray:
    """±r times each column."""
    return radius * np.hstack([atoms, -atoms])


def pinball_ball(atoms, y, w, radius, quantile) -> Enclosure:
    """Mean of max(q u, (q - 1) u), u = y - v, over the l1 ball: a linear programme and its dual.

    The dual point ν of the rows, (q - 1)w ≤ ν ≤ qw, gives ν'y - r max_j |p_j'ν|.
    """
    m, n = atoms.shape
    unit = float(np.abs(y).max()) or 1.0  # the solver's tolerances are absolute
    if unit != 1.0:
        return pinball_ball(atoms, y / unit, w, radius / unit, quantile).times(unit)
    costs = w / w.min()
    found = linprog(
        np.concatenate([np.zeros(2 * n), quantile * costs, (1.0 - quantile) * costs]),
        A_eq=np.hstack([atoms, -atoms, np.eye(m), -np.eye(m)]),
        b_eq=y,
        A_ub=np.concatenate([np.ones(2 * n), np.zeros(2 * m)])[None],
        b_ub=[radius],
        bounds=(0, None),
        method="highs",
    )
    assert found.status == 0
    a = found.x[:n] - found.x[n : 2 * n]
    a *= min(1.0, radius / max(float(np.abs(a).sum()), 1e-300))
    u = y - atoms @ a
    upper = float(w @ np.maximum(quantile * u, (quantile - 1.0) * u))
    nu = np.clip(w.min() * found.eqlin.marginals, (quantile - 1.0) * w, quantile * w)
    lower = float(nu @ y) - radius * float(np.abs(atoms.T @ nu).max())
    size = float(w @ np.abs(y)) + radius * float((w @ np.abs(atoms)).max())
    return Enclosure(lower, upper, 8.0 * m * EPS * size)


def columns_programme(K, gain, low, high, loss) -> Enclosure:
    """Σ|a_j| + Σ losses of Ka + b over all columns of K: grown, and priced against all.

    The losses are Σ max {v(g - f) : low ≤ v ≤ high}, one row of ``gain`` for each kink; ``loss``
    gives their sum for values f. A dual point with Σv = 0 and prices up to c is worth
    Σgv / max(1, c).
    """
    terms, m = gain.shape
    held = list(range(0, m, max(1, m // 20)))
    best_upper, best_lower = np.inf, 0.0
    for _ in range(100):
        q = len(held)
        stacked = np.hstack([K[:, held].T] * terms)
        found = linprog(
            -gain.ravel(),
            A_ub=np.vstack([stacked, -stacked]),
            b_ub=np.ones(2 * q),
            A_eq=np.ones((1, terms * m)),
            b_eq=[0.0],
            bounds=np.column_stack([low.ravel(), high.ravel()]),
            method="highs",
        )
        assert found.status == 0
        a = -(found.ineqlin.marginals[:q] - found.ineqlin.marginals[q:])
        f = K[:, held] @ a
        kinks = np.sort(np.unique((gain - f).ravel()))
        at, until = 0, len(kinks) - 1
        while until - at > 2:  # convex in b, with its kinks here
            left = (2 * at + until) // 3
            right = (at + 2 * until) // 3
            if loss(f + kinks[left]) <= loss(f + kinks[right]):
                until = right
            else:
                at = left
        value = min(loss(f + b) for b in kinks[at : until + 1])
        best_upper = min(best_upper, float(np.abs(a).sum()) + value)
        v = np.clip(found.x.reshape(terms, m), low, high)
        excess = float(v.sum())
        ahead = v * np.sign(excess) > 0
        if ahead.any():
            v[ahead] *= 1.0 - excess / float(v[ahead].sum())
        prices = np.abs(K.T @ v.sum(axis=0))
        best_lower = max(best_lower, float((gain * v).sum()) / max(1.0, float(prices.max())))
        fresh = [int(j) for j in np.argsort(-prices)[:30] if prices[j] > 1 + 1e-9 and j not in held]
        if not fresh or best_upper - best_lower <= 1e-9 * best_upper:
            break
        held += fresh
    size = best_upper + float(np.abs(gain * np.maximum(high, -low)).sum())
    return Enclosure(best_lower, best_upper, 8.0 * m * EPS * size)
