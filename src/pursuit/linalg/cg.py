"""Conjugate gradients for several right-hand sides that share one product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CGSolution:
    """v ≈ A⁻¹b with its residual b - Av, one column a right-hand side."""

    v: Floats
    residual: Floats
    steps: int


def conjugate_gradients(
    product: Callable[[Floats], Floats],
    rhs: Floats,
    start: CGSolution,
    precondition: Callable[[Floats], Floats],
    *,
    steps: int,
    tol: float = 0.0,
) -> CGSolution:
    """Preconditioned conjugate gradients on A v = b, A symmetric positive definite.

    Every step costs one ``product`` A @ D with all columns at once. Ends after ``steps`` steps, or
    when every residual is at most ``tol`` times its right-hand side.
    """
    v, r = start.v.copy(), start.residual.copy()
    s = precondition(r)
    d = s.copy()
    rho = _dots(r, s)
    limit = tol**2 * _dots(rhs, rhs)
    for step in range(steps):
        if np.all(_dots(r, r) <= limit):
            return CGSolution(v, r, step)
        Ad = product(d)
        curvature = _dots(d, Ad)
        length = np.where(curvature > 0, rho / np.where(curvature > 0, curvature, 1.0), 0.0)
        v += length * d
        r -= length * Ad
        s = precondition(r)
        following = _dots(r, s)
        d = s + np.where(rho > 0, following / np.where(rho > 0, rho, 1.0), 0.0) * d
        rho = following
    return CGSolution(v, r, steps)


def _dots(a: Floats, b: Floats) -> Floats:
    products: Floats = np.einsum("ij,ij->j", a, b)
    return products
