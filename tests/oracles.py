"""Slow and obvious twins of the fast paths: loops over rows and dense solves, nothing shared.

Nothing of the package is imported here. Sizes are small, so every quantity is recomputed from
scratch wherever it is needed. Notation: K (m x m), S a list of rows, W = diag(w), s2 = σ².
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import gamma

needs_long_double = pytest.mark.skipif(
    np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps,
    reason="long double is float64, as on Windows and on Apple's processors: too few digits",
)

# Kernels, one pair at a time


def gaussian(a, b, length_scale):
    return float(np.exp(-sum((a - b) ** 2) / (2 * length_scale**2)))


def exponential(a, b, length_scale):
    return float(np.exp(-np.sqrt(sum((a - b) ** 2)) / length_scale))


def inner_product(a, b, offset):
    return float(sum(a * b) + offset**2)


KERNELS = {"gaussian": gaussian, "exponential": exponential, "inner product": inner_product}


def kernel_matrix(name, parameter, A, B):
    function = KERNELS[name]
    return np.array([[function(a, b, parameter) for b in B] for a in A]).reshape(len(A), len(B))


# Sums over rows


def statistics(K_rows_points, diagonal, Y, w):
    """G, b, Σwy², Σw k(x, x), Σw, added up row by row."""
    m, P = K_rows_points.shape
    gram, cross = np.zeros((P, P)), np.zeros((P, Y.shape[1]))
    norms, trace, weight = np.zeros(Y.shape[1]), 0.0, 0.0
    for i in range(m):
        k = K_rows_points[i]
        gram += w[i] * np.outer(k, k)
        cross += w[i] * np.outer(k, Y[i])
        norms += w[i] * Y[i] ** 2
        trace += w[i] * diagonal[i]
        weight += w[i]
    return gram, cross, norms, trace, weight


# The problem P(f) = ½Σw(y - f)² + ½σ²‖f‖² in the span of some kernel functions


def root(K):
    """B with B'B = K for a psd K, dependent rows included."""
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    return np.sqrt(np.maximum(values, 0))[:, None] * vectors.T


def whitener(K, cut):
    """T with T'KT = I for a psd K, without eigenvalues up to this part of the largest."""
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    clear = values > cut * values.max(initial=0)
    return vectors[:, clear] / np.sqrt(values[clear])


def ridge_fit(V, Y, w, s2):
    """u that minimises ½Σw(y - Vu)² + ½σ²‖u‖², by least squares on [√W V; σI]."""
    root = np.sqrt(w)[:, None]
    rows = np.vstack([root * V, np.sqrt(s2) * np.eye(V.shape[1])])
    right = np.vstack([root * Y, np.zeros((V.shape[1], Y.shape[1]))])
    return np.linalg.lstsq(rows, right, rcond=None)[0]


def span_fit(K_rows_points, K_points, Y, w, s2):
    """β that minimises P(Σβ_j k(·, z_j)), by least squares on [√W V; σI], V = K_S T.

    The entries of K_SS are rounded to 2 eps, its eigenvalues to n eps of the largest: what lies
    below the sum of both may be a direction that the points do not have, and has no part in β.
    """
    T = whitener(K_points, 4 * len(K_points) * np.finfo(float).eps)
    return T @ ridge_fit(K_rows_points @ T, Y, w, s2)


def primal(K_rows_points, K_points, beta, Y, w, s2):
    """P for each output."""
    residual = Y - K_rows_points @ beta
    norms = np.array([c @ K_points @ c for c in beta.T])
    return 0.5 * (w @ residual**2) + 0.5 * s2 * norms


def span_value(K, S, Y, w, s2):
    """The least P, summed over outputs, in the span of the functions of the rows S."""
    S = list(S)
    if not S:
        return 0.5 * float(np.sum(w @ Y**2))
    beta = span_fit(K[:, S], K[np.ix_(S, S)], Y, w, s2)
    return float(primal(K[:, S], K[np.ix_(S, S)], beta, Y, w, s2).sum())


def span_value_range(K, S, Y, w, s2):
    """Between which P lies where K_SS is singular but for rounding.

    Not below the minimum over all functions, and not above the least P in the directions of the
    span that stand clear of rounding.
    """
    root = np.sqrt(w)[:, None]
    eigenvalues, U = np.linalg.eigh(root * K * root.T)
    lowest = 0.5 * s2 * np.sum((U.T @ (root * Y)) ** 2 / (np.maximum(eigenvalues, 0) + s2)[:, None])
    V = K[:, list(S)] @ whitener(K[np.ix_(list(S), list(S))], 1e-10)
    u = ridge_fit(V, Y, w, s2)
    highest = 0.5 * float(np.sum(w @ (Y - V @ u) ** 2)) + 0.5 * s2 * float(np.sum(u**2))
    return lowest, highest


def span_gains(K, S, Y, w, s2, candidates):
    """How much each candidate would lower P if it joined S."""
    before = span_value(K, S, Y, w, s2)
    return np.array([before - span_value(K, [*S, i], Y, w, s2) for i in candidates])


def greedy(K, Y, w, s2, n, candidates_of_step=None):
    """The rows a greedy choice takes, and P after each: lowest P first, ties to the lowest row."""
    S, values = [], []
    for step in range(n):
        allowed = range(len(K)) if candidates_of_step is None else candidates_of_step[step]
        free = [i for i in sorted(allowed) if i not in S]
        found = np.array([span_value(K, [*S, i], Y, w, s2) for i in free])
        gains = span_value(K, S, Y, w, s2) - found
        best = int(np.flatnonzero(gains >= gains.max() * (1 - 1e-9))[0])
        S.append(free[best])
        values.append(found[best])
    return S, values


# Duality


def least_primal(K, Y, w, s2):
    """P_min = ½σ² y'(K + σ²W⁻¹)⁻¹y for each output."""
    return 0.5 * s2 * np.einsum("io,io->o", Y, np.linalg.solve(K + s2 * np.diag(1 / w), Y))


def dual(K, a, Y, w, s2):
    """D(a) = σ²(y'a - ½a'(K + σ²W⁻¹)a) for each output."""
    quadratic = np.einsum("io,io->o", a, (K + s2 * np.diag(1 / w)) @ a)
    return s2 * (np.einsum("io,io->o", Y, a) - 0.5 * quadratic)


def nystroem_residual(K, S):
    """E = K - K_S K_SS⁻¹ K_S', as squares of what a projection of the feature vectors leaves."""
    features = root(K)
    left, size, _ = np.linalg.svd(features[:, list(S)], full_matrices=False)
    inside = left[:, size > 1e-14 * size[0]]
    rest = features - inside @ (inside.T @ features)
    return rest.T @ rest


# Forward selection for -b'β + ½β'Hβ


def quadratic_value(H, b, S):
    """Least value on the support S: -½ Σ_o b_S'H_SS⁻¹b_S."""
    S = list(S)
    if not S:
        return 0.0
    return -0.5 * float(np.sum(b[S] * np.linalg.solve(H[np.ix_(S, S)], b[S])))


def quadratic_greedy(H, b, n):
    """The candidates a greedy choice takes, ties to the lowest, and the value after each."""
    S, values = [], []
    for _ in range(n):
        free = [i for i in range(len(H)) if i not in S]
        found = np.array([quadratic_value(H, b, [*S, i]) for i in free])
        gains = quadratic_value(H, b, S) - found
        best = int(np.flatnonzero(gains >= gains.max() * (1 - 1e-9))[0])
        S.append(free[best])
        values.append(found[best])
    return S, values


def dual_greedy(K, Y, w, s2, n):
    """SB01's second pursuit: Q* = -y'a + ½a'(K + σ²W⁻¹)a."""
    return quadratic_greedy(K + s2 * np.diag(1 / w), Y, n)


# Extended precision, for problems that double precision cannot solve from normal equations


def long_cholesky(K):
    """R with RR' = K in long double, entry by entry."""
    n = len(K)
    R = np.zeros((n, n), np.longdouble)
    for i in range(n):
        for j in range(i + 1):
            rest = np.longdouble(K[i, j]) - R[i, :j] @ R[j, :j]
            R[i, j] = np.sqrt(rest) if i == j else rest / R[j, j]
    return R


def long_forward(L, rhs):
    """L⁻¹ rhs in long double, by substitution."""
    x = np.zeros(rhs.shape, np.longdouble)
    for i in range(len(L)):
        x[i] = (rhs[i] - L[i, :i] @ x[:i]) / L[i, i]
    return x


def long_backward(L, rhs):
    """L⁻ᵀ rhs in long double, by substitution."""
    x = np.zeros(rhs.shape, np.longdouble)
    for i in reversed(range(len(L))):
        x[i] = (rhs[i] - L[i + 1 :, i] @ x[i + 1 :]) / L[i, i]
    return x


def long_span_fit(K_rows_points, K_points, Y, w, s2):
    """f on the rows for the minimiser of P in the span, in V-form and long double throughout."""
    R = long_cholesky(K_points)
    V = long_forward(R, K_rows_points.T.astype(np.longdouble)).T
    B = V.T @ (w[:, None] * V) + np.longdouble(s2) * np.eye(len(R), dtype=np.longdouble)
    L = long_cholesky(B)
    u = long_backward(L, long_forward(L, V.T @ (w[:, None] * Y)))
    return np.asarray(V @ u, np.float64)


# Steps in the plane of the function so far and one kernel function (Z03 Algorithm 1)


def plane_fit(K, a, i, y, w, s2):
    """(β, α) that minimise P(β Σa_j k_j + α k_i), by least squares on explicit feature vectors."""
    features = np.sqrt(s2) * root(K)
    columns = [np.append(np.sqrt(w) * (K @ c), features @ c) for c in (a, np.eye(len(K))[i])]
    target = np.append(np.sqrt(w) * y, np.zeros(len(K)))
    return np.linalg.lstsq(np.column_stack(columns), target, rcond=1e-13)[0]


def plane_greedy(K, y, w, s2, n_steps):
    """Z03 Algorithm 1: rows taken, and coefficients on all rows after each step."""
    a, taken, functions = np.zeros(len(K)), [], []
    for _ in range(n_steps):
        steps = [plane_fit(K, a, i, y, w, s2) for i in range(len(K))]
        tried = [beta * a + alpha * np.eye(len(K))[i] for i, (beta, alpha) in enumerate(steps)]
        values = np.array([primal(K, K, c[:, None], y[:, None], w, s2)[0] for c in tried])
        before = primal(K, K, a[:, None], y[:, None], w, s2)[0]
        gains = before - values
        best = int(np.flatnonzero(gains >= gains.max() - 1e-9 * abs(gains.max()))[0])
        a = tried[best]
        taken.append(best)
        functions.append(a)
    return taken, functions


# LP machines: Σ|a_j| + Σ_i c_i ℓ(y_i, f_i) with f = Ka + b, as linear programmes in a, b and slacks


def hinge_programme(K, signs, costs):
    """Minimum and f for the hinge loss, over all columns of K."""
    return _programme(signs[:, None] * K, signs, np.ones(len(signs)), costs, K)


def tube_programme(K, y, costs, epsilon):
    """Minimum and f for the ε-insensitive loss, two constraints and one slack a row."""
    return _programme(
        np.vstack([K, -K]),
        np.repeat([1.0, -1.0], len(y)),
        np.concatenate([y - epsilon, -y - epsilon]),
        costs,
        K,
    )


def _programme(columns, ones, least, costs, K):
    """Minimise Σ(p + q) + c'ξ over p, q, ξ ≥ 0 and b, columns (p - q) + ones b + ξ ≥ least."""
    m, n = len(costs), K.shape[1]
    slack = np.vstack([np.eye(m)] * (len(least) // m))
    found = linprog(
        np.concatenate([np.ones(2 * n), costs, [0.0]]),
        A_ub=-np.hstack([columns, -columns, slack, ones[:, None]]),
        b_ub=-least,
        bounds=[(0, None)] * (2 * n + m) + [(None, None)],
    )
    assert found.status == 0
    p, q, b = found.x[:n], found.x[n : 2 * n], found.x[-1]
    return found.fun, K @ (p - q) + b


def onto_ball(w, radius):
    """The point of the l1 ball that is nearest to w."""
    if np.abs(w).sum() <= radius:
        return w
    u = np.sort(np.abs(w))[::-1]
    excess = (np.cumsum(u) - radius) / np.arange(1, len(u) + 1)
    threshold = excess[np.flatnonzero(u > excess)[-1]]
    return np.sign(w) * np.maximum(np.abs(w) - threshold, 0)


def matern_correlation(nu, r2):
    """2^(1-ν)/Γ(ν) a^ν K_ν(a) with a² = 2ν r², in long double.

    K_ν(a) = ∫ exp(-a cosh t) cosh(νt) dt from 0 to ∞, by the trapezoidal rule. Logarithms of the
    factors are summed up: some factors leave the range of float64, which long double is on Windows.
    """
    if nu == np.inf:
        return np.exp(-r2 / 2)
    nu, a = np.longdouble(nu), np.sqrt(2 * np.longdouble(nu) * r2)
    values = np.ones_like(a)
    near = a[a > 0][:, None]
    step = np.longdouble(1) / 32
    t = np.arange(0, 1600, dtype=np.longdouble) * step
    cosh = nu * t + np.log1p(np.exp(-2 * nu * t))  # log(2 cosh νt)
    scale = nu * np.log(near / 2) - np.log(np.longdouble(gamma(float(nu))))
    terms = np.exp(scale + cosh - near * np.cosh(t))
    terms[:, 0] /= 2
    values[a > 0] = step * terms.sum(axis=1)
    return values


def digits_lost(solution):
    """The share of σ² by which rounding may have changed V'WV; at 1e-4 it is summed anew."""
    R, L, s2 = solution.R, solution.L, solution.noise
    if not len(R):
        return 0.0
    largest = max(0.0, *np.diag(R @ (L @ L.T - s2 * np.eye(len(L))) @ R.T))
    magnified = largest * np.sqrt(len(R)) / (s2 * np.diag(R).min() ** 2)
    return min(np.finfo(float).eps * magnified, 1e-4)
