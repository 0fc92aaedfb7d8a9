"""Checks of what is certified beside spans and losses: distances, traces, forms, lasso."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LassoLars

from pursuit import (
    FullScaleGPRegressor,
    GreedyFeatureMap,
    SparseKernelRidge,
    minimize_quadratic,
)
from torture import Report
from torture.certified_spans import Span, bounds_of, items, largest_value, opened, points, refused
from torture.exact_kernels import MP, Numbers, exact, numbers
from torture.exact_truth import backward, cholesky, enough_digits, forward
from torture.hard_problems import KERNELS, difficulty, draw
from torture.ledger import Ledger

FREE = tuple(name for name in KERNELS if name != "precomputed")


def check_full_scale(rng: np.random.Generator, seed: int) -> Report:
    """`FullScaleGPRegressor.distance_to_exact`: mean and error bars of the exact process."""
    problem = draw(rng, kernels=FREE)
    m = len(problem.X)
    try:
        model = FullScaleGPRegressor(
            problem.kernel,
            noise=problem.noise,
            n_basis=int(rng.integers(1, m + 1)),
            n_neighbors=int(rng.integers(0, m)),
            optimizer=None,
            calibration=None,
            normalize_y=bool(rng.random() < 0.5),
            random_state=seed,
            n_jobs=1,
            **problem.arguments,
        ).fit(problem.X, problem.y, problem.weights)
        new = np.concatenate([problem.new, problem.X[:2]])
        tol = float(10.0 ** rng.uniform(-4, -0.5))
        found = model.distance_to_exact(new, problem.X, problem.y, problem.weights, tol=tol)
    except Exception as error:
        return refused(problem, "FullScaleGPRegressor", error)
    noise = float(model.noise_)
    largest = largest_value(model, problem)
    ledger = opened(problem, "FullScaleGPRegressor", largest, noise)
    Y = model._scale.normalize(problem.y.reshape(m, -1))
    with enough_digits(largest * m, noise, float(problem.w.max())):
        span = Span(problem, model, Y, noise)
        scale = model._scale.scale
        std = span.deviations(new, scale)
        bounds_of(ledger, found.std_lower, found.std_upper, std, "distance std")
        cross = exact(span.kernel.kernel, span.rows, new)
        mean = (cross.T @ span.truth.v) * numbers(scale) + numbers(model._scale.mean)
        size = np.maximum(abs(mean), std)
        bounds_of(ledger, found.mean_lower, found.mean_upper, mean, "distance mean", size)
    return ledger.report


def check_feature_map(rng: np.random.Generator, seed: int) -> Report:
    """`GreedyFeatureMap`: the trace of what its landmarks leave."""
    problem = draw(rng)
    m = len(problem.X)
    try:
        model = GreedyFeatureMap(
            problem.kernel,
            n_components=int(rng.integers(1, m + 1)),
            random_state=seed,
            n_jobs=1,
            **problem.arguments,
        ).fit(problem.X, None, problem.weights)
        found = float(model.residual_bound().value[0])
    except Exception as error:
        return refused(problem, "GreedyFeatureMap", error)
    kernel = model._compiled(problem.X).kernel
    with MP.workdps(120):
        there = problem.present
        index = model.component_indices_
        landmarks = index if problem.precomputed else model.components_
        rows = items(problem, there)
        left = _projected_trace(kernel, rows, landmarks, numbers(problem.w[there]))
        trace = float(left[1])
        share = trace / max(float(left[0]), 1e-300)
        kind = difficulty(m, share, 1.0, 1.0)
        ledger = Ledger("GreedyFeatureMap", kind, f"{problem.name}, m={m}, trace={trace:.1e}")
        # What is left of an exact span is 0, and rounding of the landmarks' own values is all.
        ledger.at_least(found, left[0], "residual_bound", left[0] + left[1] * MP.mpf(10) ** -40)
    return ledger.report


def _projected_trace(kernel: Any, rows: Any, z: Any, w: Numbers) -> tuple[Any, Any]:
    """Σw(k(x, x) - ‖projection‖²) and Σw k(x, x); landmarks that depend on others do not count."""
    K_z, cross = exact(kernel, z), exact(kernel, rows, z)
    diagonal = np.array([exact(kernel, rows[i : i + 1])[0, 0] for i in range(len(w))], dtype=object)
    rest, basis = diagonal.copy(), []
    for j in range(len(K_z)):
        own, values = K_z[j].copy(), cross[:, j].copy()
        for other, of_rows in basis:
            own, values = own - other[j] * other, values - other[j] * of_rows
        if own[j] <= MP.mpf(10) ** -60 * K_z[j, j]:
            continue
        root = MP.sqrt(own[j])
        basis.append((own / root, values / root))
        rest = rest - (values / root) ** 2
    return w @ rest, w @ diagonal


def check_quadratic(rng: np.random.Generator, seed: int) -> Report:
    """`minimize_quadratic` for matrices without rounding, of any condition."""
    n = int(rng.integers(2, 25))
    F = rng.integers(-15, 16, size=(n, int(rng.integers(1, 2 * n)))).astype(float)
    F *= 2.0 ** -rng.integers(0, 11, F.shape[1])
    H = (F @ F.T) * 2.0 ** int(rng.integers(-20, 20))
    shift = 0.0
    if rng.random() < 0.5:
        shift = float(2.0 ** rng.integers(-20, 3) * 2.0 ** np.round(np.log2(H.max() or 1.0)))
        H = H + shift * np.eye(n)
    z = rng.integers(-7, 8, n).astype(float)
    b = H @ z
    exact_H = numbers(H)
    if any(exact_H @ numbers(z) != numbers(b)) or any(v <= 0 for v in np.diag(H)):
        return Report({"skipped": 1})
    options = {"shift": 0.5 * shift} if shift and rng.random() < 0.7 else {}
    try:
        found = minimize_quadratic(
            H,
            b,
            n_terms=int(rng.integers(1, n + 1)),
            pool_size=int(rng.integers(1, 2 * n)),
            random_state=seed,
            **options,
        )
    except (ValueError, TypeError):
        return Report({"refused": 1})
    eigenvalues = np.linalg.eigvalsh(H)
    smallest = max(float(eigenvalues[0]), 1e-300)
    ledger = Ledger(
        "minimize_quadratic",
        difficulty(n, float(eigenvalues[-1]), 1.0, smallest),
        f"n={n}, largest {eigenvalues[-1]:.1e}, smallest {smallest:.1e}",
    )
    x, c = numbers(found.coef), numbers(b)
    value = x @ exact_H @ x / 2 - c @ x
    minimum = -(c @ numbers(z)) / 2
    ledger.certificate(found.certificate, "quadratic", [value], [minimum])
    return ledger.report


def check_lasso(rng: np.random.Generator, seed: int) -> Report:
    """`SparseKernelRidge(penalty="l1")`: ½Σw(y - Ka)² + α‖a‖₁."""
    problem = draw(rng, multiple=False)
    m, y = len(problem.X), problem.y
    alpha = problem.noise
    try:
        model = SparseKernelRidge(
            problem.kernel,
            alpha=alpha,
            penalty="l1",
            n_basis=int(rng.integers(1, m + 1)),
            random_state=seed,
            n_jobs=1,
            **problem.arguments,
        ).fit(problem.X, y, problem.weights)
    except Exception as error:
        return refused(problem, "SparseKernelRidge l1", error)
    largest = largest_value(model, problem)
    ledger = opened(problem, "SparseKernelRidge l1", largest, alpha)
    with enough_digits(largest * m, alpha, float(problem.w.max())):
        kernel, there = model._compiled(problem.X).kernel, problem.present
        rows = items(problem, there)
        K, t, w = exact(kernel, rows), numbers(y[there]), numbers(problem.w[there])

        def value(f: Numbers, a: Numbers) -> Any:
            return w @ ((t - f) ** 2) / 2 + MP.mpf(alpha) * abs(a).sum()

        own = value(0 * t, 0 * t)
        if model.n_basis_:
            a = numbers(model.dual_coef_.ravel())
            own = value(exact(kernel, rows, points(problem, model)) @ a, a)
        best = [value(K @ a, a) for a in _lasso_points(K, t, w, alpha)]
        ledger.certificate(model.certificate_, "l1", [own], [min([own, *best])])
    return ledger.report


def _lasso_points(K: Numbers, y: Numbers, w: Numbers, alpha: float) -> list[Numbers]:
    """Coefficients by least angles in float64, and the same rows and signs solved exactly."""
    roots = np.sqrt(w.astype(float))
    A, t = roots[:, None] * K.astype(float), roots * y.astype(float)
    unit, size = float(np.linalg.norm(t)) or 1.0, float(np.abs(A).max()) or 1.0
    solver = LassoLars(alpha=alpha / (unit * size * len(t)), fit_intercept=False, max_iter=2000)
    with np.errstate(all="ignore"):
        a = solver.fit(A / size, t / unit).coef_ * (unit / size)
    if not np.isfinite(a).all():
        return []
    found = [numbers(a)]
    active = np.flatnonzero(a)
    if len(active):
        signs = numbers(np.sign(a[active]))
        WK = w[:, None] * K[:, active]
        try:
            L = cholesky(K[:, active].T @ WK)
        except ArithmeticError:
            return found
        right = (WK.T @ y - MP.mpf(alpha) * signs)[:, None]
        polished = 0 * y
        polished[active] = backward(L, forward(L, right))[:, 0]
        found.append(polished)
    return found
