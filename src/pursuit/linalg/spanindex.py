"""Points whose distances bracket those of feature space: an index for searches in a span.

With coordinates V_x = R⁻¹k_S(x) in the span of the landmarks S and d_x = k(x,x) - ‖V_x‖² what they
miss (SS00 §6.3, Formulas §6)::

    ‖V_x-V_z‖² + (√d_x-√d_z)²  ≤  ‖φ(x)-φ(z)‖²  ≤  ‖V_x-V_z‖² + (√d_x+√d_z)²

The left side is a distance in R^(n+1), √d being the last coordinate; the right side is larger by
4√d_x√d_z. Rounding must not turn a bound into a wrong one, so every point has a radius, and lower
bounds lose, upper bounds gain, the radii of both their points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from pursuit._types import Floats
from pursuit.linalg.cholesky import EPS, INDEFINITE, NotPositiveDefiniteError

_ROUNDINGS = 8.0
_TOLERATED = 64.0


def trusted_size(R: Floats, backward_error: float, rounding: float = EPS) -> tuple[int, float]:
    """How many landmarks rounding leaves of use, and the relative error ρ of squares in their span.

    Where K_SS = RR' and k_S(x) hold but for ε √(k(s,s) k(x,x)), squared lengths ‖R⁻¹k_S(x)‖² hold
    but for ρ k(x,x), ρ = ε ‖R⁻¹ diag(k(s,s))^½‖_F². The norm grows with every landmark, the more
    so the nearer it lies to the span of those before; the first n with ρ ≤ 64 √rounding are used.
    ε is the larger of ``backward_error``, as measured, and 8 √n ``rounding``.
    """
    n = len(R)
    if n == 0:
        return 0, _ROUNDINGS * rounding
    scales = np.sqrt(np.einsum("ij,ij->i", R, R))
    inverse = solve_triangular(R, np.diag(scales), lower=True, check_finite=False)
    norms = np.cumsum(np.einsum("ij,ij->i", inverse, inverse))
    epsilon = np.maximum(backward_error, _ROUNDINGS * rounding * np.sqrt(np.arange(1, n + 1)))
    rho = epsilon * norms
    size = int(np.searchsorted(rho, max(_TOLERATED * np.sqrt(rounding), rho[0]), side="right"))
    return size, float(rho[size - 1])


@dataclass(frozen=True)
class SpanPoints:
    """Items in R^(n+1).

    Attributes
    ----------
    points : array of shape (rows, n + 1)
        [V_x, √d_x].
    norms : array of shape (rows,)
        Their squared lengths.
    squares : array of shape (rows,)
        k(x, x).
    radius : array of shape (rows,)
        What rounding may have moved the point by.
    """

    points: Floats
    norms: Floats
    squares: Floats
    radius: Floats

    @classmethod
    def place(cls, V: Floats, squares: Floats, error: float) -> SpanPoints:
        """From V (rows x n), k(x, x), and the relative error ρ of squares in the span.

        A root of d + δ is off by min(√δ, δ/√d); δ = 4ρ k(x,x).

        Raises
        ------
        NotPositiveDefiniteError
            Where d is negative beyond rounding: the kernel is not positive semi-definite.
        """
        d = squares - np.einsum("ij,ij->i", V, V)
        delta = 4.0 * error * squares
        short = d + delta + INDEFINITE * squares
        if len(d) and short.min() < 0:
            worst = int(short.argmin())
            raise NotPositiveDefiniteError(worst, float(d[worst]))
        root = np.sqrt(np.maximum(d, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.fmin(np.sqrt(delta), delta / root)
        points = np.column_stack([V, root])
        norms = np.einsum("ij,ij->i", points, points)
        return cls(points, norms, squares, 2.0 * error * np.sqrt(squares) + moved)

    def __getitem__(self, rows: slice) -> SpanPoints:
        """Some of the points."""
        return SpanPoints(
            self.points[rows], self.norms[rows], self.squares[rows], self.radius[rows]
        )

    def bounds(self, queries: SpanPoints) -> tuple[Floats, Floats]:
        """Lower and upper bounds of ‖φ(x)-φ(z)‖, one row a query x, one column a point z here.

        One matrix product; the rounding of the three terms ‖x‖² + ‖z‖² - 2x'z is allowed for.
        """
        slack = _ROUNDINGS * EPS * np.sqrt(self.points.shape[1])
        at_z, at_x = self.norms, queries.norms[:, None]
        lower = queries.points @ self.points.T
        lower *= -2.0
        lower += (1.0 - slack) * at_z
        lower += (1.0 - slack) * at_x
        np.maximum(lower, 0.0, out=lower)
        upper = np.multiply.outer(4.0 * queries.points[:, -1], self.points[:, -1])
        upper += 2.0 * slack * at_z
        upper += 2.0 * slack * at_x
        upper += lower
        for square, sign in ((lower, -1.0), (upper, 1.0)):
            np.sqrt(square, out=square)
            square += sign * self.radius
            square += sign * queries.radius[:, None]
        return lower, upper
