"""The log marginal likelihood of the exact process of a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.estimators.inputs import dense
from pursuit.kernels import kernel_gradient, without_white
from pursuit.linalg import Workers
from pursuit.tuning import Evidence


def fitted_targets(v: Floats, factor: Floats, weights: Floats) -> Floats:
    """The targets that coefficients v solve for: y = (K + σ²W⁻¹)v.

    ``factor`` is that of W^½KW^½ + σ²I.
    """
    root = np.sqrt(weights)[:, None]
    return np.asarray(factor @ (factor.T @ (v / root)) / root)


def log_density(v: Floats, factor: Floats, weights: Floats, noise: float) -> float:
    """Log density of these targets, a row of weight w being w rows.

    That is log N(y; 0, K + σ²W⁻¹) - ½Σ((w - 1) log 2πσ² + log w).
    """
    fit = float(np.vdot(fitted_targets(v, factor, weights), v))
    logs = 2.0 * np.log(np.diag(factor)) + (weights - 1.0) * np.log(noise)
    per_output = float((logs + weights * np.log(2.0 * np.pi)).sum())
    return -0.5 * (fit + len(v.T) * per_output)


def free_theta(kernel: Any) -> Floats:
    """θ of the kernel, its White terms left out: they are noise."""
    core, _ = without_white(kernel)
    return np.asarray(getattr(core, "theta", np.empty(0)))


def log_density_at(
    theta: Any,
    kernel: Any,
    X: Any,
    targets: Floats,
    weights: Floats,
    noise: float,
    n_jobs: int | None,
) -> tuple[float, Floats]:
    """The density at some θ of the kernel, and its gradient; -inf and 0 if C is singular."""
    core, _ = without_white(kernel)
    free, point = free_theta(kernel), np.asarray(theta, dtype=np.float64)
    if point.shape != free.shape:
        raise ValueError(
            f"theta must have shape {free.shape}, one number for each free hyper-parameter of "
            f"kernel_={kernel!r}, got shape {point.shape}."
        )
    if X is None or isinstance(X, list) or kernel_gradient(core) is None:
        raise ValueError(
            f"kernel_={kernel!r} has no derivatives for these rows that are known: leave theta "
            "and eval_gradient out."
        )
    with Workers(n_jobs) as workers:
        rows = np.asarray(dense(X), dtype=np.float64)
        evidence = Evidence(rows, targets, weights, workers)
        found = evidence.value_and_gradient(core.clone_with_theta(point), noise)
    if found is None:
        return -np.inf, np.zeros_like(point)
    value, slopes = found
    # What is the same for all hyper-parameters is left out where they are learned.
    return value - 0.5 * targets.shape[1] * float(np.log(weights).sum()), slopes[:-1]
