"""Conjugate gradients for several right-hand sides that share one product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats

Booleans = NDArray[np.bool_]
Operator = Callable[[Floats], Floats]


@dataclass(frozen=True)
class CGSolution:
    """v ≈ A⁻¹b with its residual b - Av, one column a right-hand side."""

    v: Floats
    residual: Floats
    steps: int


class ConjugateGradients:
    """Preconditioned conjugate gradients on A v = b, A symmetric positive definite, by steps.

    Attributes
    ----------
    v, residual : arrays of shape (m, n_columns)
        The iterates and b - Av, the latter by recursion.
    energy : array of shape (n_columns,)
        ρ'M⁻¹ρ for the residuals ρ and the preconditioner M.
    direction : array of shape (m, n_columns)
        d, along which the next step goes.
    """

    def __init__(self, product: Operator, precondition: Operator, start: CGSolution) -> None:
        self._product, self._precondition = product, precondition
        self.v, self.residual = start.v.copy(), start.residual.copy()
        s = precondition(self.residual)
        self.direction = s.copy()
        self.energy = column_dots(self.residual, s)

    def step(self) -> tuple[Floats, Floats]:
        """Take a step: one product with all columns at once.

        Returns d'Ad/d'd for the directions d, and the same over ‖Ad‖/‖d‖. Where they are not
        positive, A is not positive definite and no step was taken.
        """
        Ad = self._product(self.direction)
        curvature = column_dots(self.direction, Ad)
        squares = column_dots(self.direction, self.direction)
        images = column_dots(Ad, Ad)
        length = _ratio(self.energy, curvature)
        self.v += length * self.direction
        self.residual -= length * Ad
        s = self._precondition(self.residual)
        following = column_dots(self.residual, s)
        self.direction = s + _ratio(following, self.energy) * self.direction
        self.energy = following
        return _ratio(curvature, squares), _ratio(curvature, np.sqrt(squares * images))

    def keep(self, columns: Booleans) -> None:
        """Go on with some of the right-hand sides."""
        if columns.all():
            return
        for name in ("v", "residual", "direction", "energy"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[..., columns]))


def conjugate_gradients(
    product: Operator,
    rhs: Floats,
    start: CGSolution,
    precondition: Operator,
    *,
    steps: int,
    tol: float = 0.0,
) -> CGSolution:
    """Preconditioned conjugate gradients on A v = b, A symmetric positive definite.

    Every step costs one ``product`` A @ D with all columns at once. Ends after ``steps`` steps, or
    when every residual is at most ``tol`` times its right-hand side.
    """
    found = ConjugateGradients(product, precondition, start)
    limit = tol**2 * column_dots(rhs, rhs)
    for step in range(steps):
        if np.all(column_dots(found.residual, found.residual) <= limit):
            return CGSolution(found.v, found.residual, step)
        found.step()
    return CGSolution(found.v, found.residual, steps)


def column_dots(a: Floats, b: Floats) -> Floats:
    """a_j'b_j for every column j."""
    products: Floats = np.einsum("ij,ij->j", a, b)
    return products


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Quotient, 0 where the denominator is not positive."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0)
