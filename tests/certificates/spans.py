"""Oracles of problems over all functions of a kernel: least squares, logistic loss, machines.

Each is solved by an independent method on the dense kernel matrix; what is returned is the value of
the function found and that of the dual point found, so nothing is trusted but weak duality.
"""

from __future__ import annotations

import numpy as np
from certificates.driver import EPS, Enclosure
from scipy.linalg import cho_factor, cho_solve
from sklearn.svm import SVC, SVR, OneClassSVM

_KERNEL = 1e-13
"""Relative rounding of a kernel value: ‖x‖² + ‖z‖² - 2x'z at up to a few hundred times γ⁻¹."""


def least_squares(K, y, weights, noise) -> Enclosure:
    """½Σw(y - f)² + ½σ²‖f‖²: D(v) ≤ minimum ≤ P(Kv) for v = (K + σ²W⁻¹)⁻¹y.

    The derivative of the minimum by K is -½σ²vv', so kernel values wrong by a share ε move it by
    ½εσ²|v|'|K||v|; the sums are of 2m terms of the sizes below.
    """
    kept = weights > 0
    K, y, w = K[np.ix_(kept, kept)], y[kept], weights[kept]
    A = K + np.diag(noise / w)
    factor = cho_factor(A, lower=True)
    v = cho_solve(factor, y)
    v += cho_solve(factor, y - A @ v)
    residual = y - K @ v
    upper = 0.5 * float(w @ residual**2) + 0.5 * noise * float(v @ K @ v)
    lower = noise * float(y @ v - 0.5 * v @ A @ v)
    size = noise * float(np.abs(y) @ np.abs(v) + np.abs(v) @ np.abs(A) @ np.abs(v))
    slack = (_KERNEL + 4.0 * len(y) * EPS) * size + _KERNEL * float(w @ y**2)
    return Enclosure(lower, upper, slack)


def expansion_rounding(beta, diagonal, rows_diagonal, slopes, ridge) -> float:
    """How much rounding can move P of f = Σβ_j k(·, z_j) with large coefficients that cancel.

    |k(x, z)|² ≤ k(x, x)k(z, z), so f(x) is wrong by at most εs√k(x, x) with s = Σ|β_j|√k(z_j, z_j),
    and ‖f‖² by εs²; ``slopes`` are those of the losses, and ‖f‖² counts ``ridge`` times.
    """
    size = np.sqrt(diagonal) @ np.abs(beta)
    moved = size * float(slopes @ np.sqrt(rows_diagonal)) + ridge * size**2
    return 16.0 * EPS * float(np.sum(moved))


def logistic(K, y, weights, scale) -> Enclosure:
    """Σw log(1 + exp(-yf)) + ‖f‖²/2s over all functions, by Newton's method on all rows."""
    kept = weights > 0
    K, y, w = scale * K[np.ix_(kept, kept)], y[kept], weights[kept]
    alpha = np.zeros(len(y))

    def primal(alpha):
        f = K @ alpha
        return float(w @ np.logaddexp(0.0, -y * f)) + 0.5 * float(alpha @ f)

    value = primal(alpha)
    for _ in range(100):
        f = K @ alpha
        p = 1.0 / (1.0 + np.exp(y * f))
        gradient = w * y * p
        curvature = w * p * (1.0 - p)
        aim = np.linalg.solve(np.eye(len(y)) + curvature[:, None] * K, curvature * f + gradient)
        step, found = 1.0, np.inf
        while step > 1e-12:
            found = primal(alpha + step * (aim - alpha))
            if found <= value:
                break
            step *= 0.5
        if not found < value:
            break
        alpha, value = alpha + step * (aim - alpha), found
    q = 1.0 / (1.0 + np.exp(y * (K @ alpha)))
    a = w * y * q
    entropy = -q * np.log(np.maximum(q, 1e-300)) - (1 - q) * np.log(np.maximum(1 - q, 1e-300))
    lower = float(w @ entropy) - 0.5 * float(a @ K @ a)
    size = float(w.sum()) + float(np.abs(a) @ np.abs(K) @ np.abs(a))
    return Enclosure(lower, value, (_KERNEL + 4.0 * len(y) * EPS) * size)


def best_intercept(values: np.ndarray, losses) -> float:
    """The b of least loss of values + b, for losses convex in b with kinks where rows have them."""
    spread = 1.0 + 2.0 * float(np.abs(values).max(initial=0.0))
    low, high = -spread, spread
    for _ in range(200):
        third = (high - low) / 3.0
        left, right = low + third, high - third
        if losses(left) <= losses(right):
            high = right
        else:
            low = left
    return 0.5 * (low + high)


def machine(K, y, costs, *, squared: bool, epsilon: float | None) -> Enclosure:
    """½‖f‖² + Σcℓ(ξ) over all functions and intercepts, by LIBSVM on the dense matrix.

    ξ² is ξ for K + diag(1/2c) without bounds on the dual variables. LIBSVM's dual point is made
    feasible, and its function is given the best intercept.
    """
    kept = costs > 0
    K, y, c = K[np.ix_(kept, kept)], y[kept], costs[kept]
    unit = 1.0
    if epsilon is not None:  # LIBSVM's tolerance is absolute: targets of size 1
        y = y - np.average(y, weights=c)
        unit = float(np.abs(y).max()) or 1.0
        y, epsilon, c = y / unit, epsilon / unit, c if squared else c / unit
    Q = K + np.diag(0.5 / c) if squared else K
    ceiling = 1e12 if squared else 1.0
    box = np.full(len(y), ceiling) if squared else c
    a = np.zeros(len(y))
    if epsilon is not None or np.ptp(y) > 0:
        options = {"kernel": "precomputed", "tol": 1e-9, "cache_size": 500, "max_iter": 300_000}
        if epsilon is None:
            found = SVC(C=1.0, **options).fit(Q, y, sample_weight=box)
        else:
            found = SVR(C=1.0, epsilon=epsilon, **options).fit(Q, y, sample_weight=box)
        a[found.support_] = found.dual_coef_[0]
        if epsilon is None and found.classes_[1] != 1.0:
            a = -a
    if epsilon is None:
        a = y * np.clip(y * a, 0.0, None if squared else c)
    elif not squared:
        a = np.clip(a, -c, c)
    up, down = a[a > 0].sum(), -a[a < 0].sum()
    least = min(up, down)
    a = np.where(a > 0, a * (least / up), a * (least / down)) if least > 0 else np.zeros(len(y))
    linear = float(y @ a) - (epsilon or 0.0) * float(np.abs(a).sum())
    lower = linear - 0.5 * float(a @ Q @ a)
    f = K @ a

    def losses(b):
        if epsilon is None:
            slack = np.maximum(1.0 - y * (f + b), 0.0)
        else:
            slack = np.maximum(np.abs(y - f - b) - epsilon, 0.0)
        return float(c @ (slack**2 if squared else slack))

    span = np.concatenate([f, y - f])
    b = best_intercept(span, losses)
    upper = 0.5 * float(a @ f) + losses(b)
    size = np.abs(a) @ np.abs(Q) @ np.abs(a) + np.abs(a).sum() + float(c.sum())
    slack = (_KERNEL + 4.0 * len(y) * EPS) * float(size)
    return Enclosure(lower, upper, slack).times(unit**2)


def one_class(K, weights, nu) -> Enclosure:
    """½‖f‖² + Σs max(0, ρ - f) - νρΣs over all functions and ρ, by LIBSVM."""
    kept = weights > 0
    K, s = K[np.ix_(kept, kept)], weights[kept]
    mass = nu * float(s.sum())
    options = {"kernel": "precomputed", "tol": 1e-8 * float(np.diag(K).max()) * mass}
    found = OneClassSVM(nu=nu, max_iter=200_000, **options).fit(K, sample_weight=s)
    a = np.zeros(len(s))
    a[found.support_] = found.dual_coef_[0]
    a = np.clip(a * (mass / a.sum()), 0.0, s)
    room = s - a
    short = mass - float(a.sum())
    if short > 0 and room.sum() > 0:
        a = a + room * min(short / float(room.sum()), 1.0)
    lower = -0.5 * float(a @ K @ a)
    f = K @ a
    order = np.argsort(f)
    at = min(int(np.searchsorted(np.cumsum(s[order]), mass)), len(s) - 1)
    rhos = f[order[max(at - 1, 0) : at + 2]]
    upper = min(
        0.5 * float(a @ f) + float(s @ np.maximum(rho - f, 0.0)) - mass * float(rho) for rho in rhos
    )
    size = float(np.abs(a) @ np.abs(K) @ np.abs(a)) + mass * float(np.abs(f).max())
    return Enclosure(lower, upper, (_KERNEL + 4.0 * len(s) * EPS) * size)
