"""How low ½x'Hx - b'x can be: from all of H, from a second pursuit, or from a problem given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.linalg import eigh

from pursuit._types import Floats, Indices
from pursuit.bounds import circle_shift, companion_lower_bound, residual_lower_bound
from pursuit.estimators.quadratic.matrices import (
    Columns,
    DenseColumns,
    OperatorColumns,
    SparseColumns,
)
from pursuit.greedy import Meter, Pursuit
from pursuit.greedy.loop import Candidates
from pursuit.linalg import EPS, NotPositiveDefiniteError, Workers
from pursuit.objectives import QuadraticPursuit

_BLOCK = 256
_INSIDE = 1e-9
"""Part of a shift that the second pursuit leaves unused: where H is diag(shift) but for rounding,
HD⁻¹H - H stays a psd matrix of this part of H in place of rounding."""
_CLEAR_GAP = 1e-6
"""Part of the largest eigenvalue; a smallest nonzero one below it leaves open what b's part in the
null space of H may be by rounding, which then is judged as if it were this."""


class LowerBound(Protocol):
    """A lower bound on the minimum that may improve with the steps of a second pursuit."""

    kind: str

    def advance(self, n: int) -> float:
        """The bound after n steps, as the steps give it."""
        ...

    def proved(self) -> float:
        """The bound as of now, evaluated anew and less its rounding."""
        ...


@dataclass(frozen=True)
class Evaluated:
    """q(x) = ½x'Hx - b'x for an x of few terms, with what rounding may have done to it."""

    value: float
    rounding: float
    residual: Floats
    residual_rounding: Floats


def evaluate(H: Columns, b: Floats, support: Indices, x: Floats) -> Evaluated:
    """Value and residual b - Hx from the columns of the support, summed anew."""
    block = H.columns(support)
    product, absolute = x @ block, np.abs(x) @ np.abs(block)
    share = (2 * len(support) + 8) * EPS
    value = float(x @ (0.5 * product[support] - b[support]))
    size = float(np.abs(x) @ (0.5 * absolute[support] + np.abs(b[support])))
    return Evaluated(value, share * size, b - product, share * (absolute + np.abs(b)))


class ExactBound:
    """The minimum itself, from all eigenvalues of H, less rounding."""

    kind = "exact"

    def __init__(self, H: Floats, b: Floats) -> None:
        self._lower = exact_lower_bound(H, b)

    def advance(self, n: int) -> float:
        """The same at any size."""
        return self._lower

    def proved(self) -> float:
        """The same at any time."""
        return self._lower


class SecondPursuit:
    """SB01's second pursuit: a step on the companion for every step on the problem itself."""

    kind = "second pursuit"

    def __init__(
        self, companion: ShiftCompanion | GivenCompanion, pool: Candidates, workers: Workers
    ) -> None:
        self._companion = companion
        known = None if companion.costly else companion.diagonal(np.arange(companion.n))
        try:
            self._objective = QuadraticPursuit(
                companion.diagonal if known is None else known,
                companion.linear[:, None],
                companion.columns,
                capacity=64,
                workers=workers,
                look_ahead=False,
                known_psd=False,
            )
        except NotPositiveDefiniteError as error:
            raise companion.refusal() from error
        self._pursuit = Pursuit(self._objective, Meter(), candidates=pool)
        self._ended = False

    def advance(self, n: int) -> float:
        """As many steps of this pursuit, as far as there are any."""
        try:
            while self._pursuit.size < n and not self._ended:
                self._ended = self._pursuit.step() is not None
        except NotPositiveDefiniteError as error:
            raise self._companion.refusal() from error
        return self._companion.lower_bound(self._objective.value)

    def proved(self) -> float:
        """From the coefficients, whatever rounding did to them."""
        chosen = self._objective.chosen
        return self._companion.proved(chosen, self._objective.coefficients()[:, 0])


class ShiftCompanion:
    """-½b'D⁻¹b - q_c(v) ≤ min q, with q_c of matrix HD⁻¹H - H and vector HD⁻¹b - b.

    For H = K + σ²1 and D = σ²1 this is SB01's Q over σ²: K² + σ²K and Kb.
    """

    def __init__(self, H: Columns, b: Floats, shift: Floats) -> None:
        shift = (1.0 - _INSIDE) * shift
        self._H, self._b, self._shift = H, b, shift
        self.n, self.costly = H.n, H.costly
        self.linear = H.product(b / shift) - b
        self._constant = 0.5 * float(np.sum(b**2 / shift))

    def diagonal(self, index: Indices) -> Floats:
        """Σ_j H_ji²/d_j - H_ii."""
        parts = [index[i : i + _BLOCK] for i in range(0, len(index), _BLOCK)]
        squares = [self._H.squared_columns(part, 1.0 / self._shift) for part in parts]
        return np.concatenate([np.empty(0), *squares]) - self._H.diagonal(index)

    def columns(self, index: Indices) -> Floats:
        """HD⁻¹He_i - He_i, one per row."""
        block = self._H.columns(index)
        return self._H.product((block / self._shift).T).T - block

    def lower_bound(self, value: float) -> float:
        """From the value of the companion."""
        return companion_lower_bound(value, 1.0, self._constant)

    def proved(self, support: Indices, v: Floats) -> float:
        """From q(v) and b - Hv: sums of which nothing cancels."""
        found = evaluate(self._H, self._b, support, v)
        residual = np.abs(found.residual) + found.residual_rounding
        lower = residual_lower_bound(found.value - found.rounding, residual, self._shift)
        return lower - 4 * EPS * abs(lower)

    def refusal(self) -> ValueError:
        """What a negative pivot means."""
        return ValueError(
            "shift is too large: H less diag(shift) is not positive semi-definite to working "
            "precision. Pass a smaller one, or None."
        )


class GivenCompanion:
    """-constant - scale·q*(z) ≤ min q for a problem (H*, b*) that the caller knows to be such."""

    def __init__(self, H: Columns, b: Floats, scale: float, constant: float) -> None:
        self._H, self.linear, self._scale, self._constant = H, b, scale, constant
        self.n, self.costly = H.n, H.costly
        self.diagonal, self.columns = H.diagonal, H.columns

    def lower_bound(self, value: float) -> float:
        """From the value of the companion."""
        return companion_lower_bound(value, self._scale, self._constant)

    def proved(self, support: Indices, z: Floats) -> float:
        """From q*(z), summed anew."""
        found = evaluate(self._H, self.linear, support, z)
        lower = self.lower_bound(found.value + found.rounding)
        return lower - 4 * EPS * (abs(self._constant) + abs(self._scale * found.value))

    def refusal(self) -> ValueError:
        """What a negative pivot means."""
        return indefinite("the matrix of companion")


def indefinite(what: str = "H") -> ValueError:
    """H has a direction in which the function falls without bound."""
    return ValueError(
        f"{what} must be positive semi-definite, and has a negative eigenvalue: add a multiple of "
        "the identity to it, or check how it was computed."
    )


def unbounded(detail: str) -> ValueError:
    """The minimum does not exist."""
    return ValueError(
        f"b is not in the range of H ({detail}): to working precision ½x'Hx - b'x falls without "
        "bound. Add a small multiple of the identity to H, or pass H @ z for some z as b."
    )


def exact_lower_bound(H: Floats, b: Floats) -> float:
    """min ½x'Hx - b'x by an eigenvalue decomposition, O(n³), less what rounding can do.

    Eigenvalues within 8nε of 0, relative to the largest, count as 0. With v the minimiser found, s
    the smallest other eigenvalue and r = b - Hv, the minimum is at least q(v) - ½‖r‖²/s.

    Raises
    ------
    ValueError
        If H has a negative eigenvalue beyond rounding, or b a part outside its range.
    """
    n = len(H)
    eigenvalues, U = eigh(0.5 * (H + H.T))
    largest = float(np.abs(eigenvalues).max())
    cutoff = 8 * n * EPS * largest
    if eigenvalues[0] < -cutoff:
        raise indefinite()
    kept = eigenvalues > cutoff
    parts, size = U.T @ b, float(np.linalg.norm(b))
    if size == 0.0:
        return 0.0
    outside = float(np.linalg.norm(parts[~kept]))
    smallest = float(eigenvalues[kept][0]) if kept.any() else largest
    if not kept.any() or outside > (
        8 * n * EPS * size * largest / max(smallest, _CLEAR_GAP * largest)
    ):
        raise unbounded(f"a part of relative size {outside / size:.2g} lies outside")
    v = U[:, kept] @ (parts[kept] / eigenvalues[kept])
    product, absolute = H @ v, np.abs(H) @ np.abs(v)
    share = (2 * n + 8) * EPS
    value = float(v @ (0.5 * product - b))
    value -= share * float(np.abs(v) @ (0.5 * absolute + np.abs(b)))
    residual = np.abs(b - product) + share * (absolute + np.abs(b))
    lower = residual_lower_bound(value, residual, smallest - 0.5 * cutoff)
    return lower - 4 * EPS * abs(lower)


def definite_slack(H: Floats) -> float:
    """What rounding, of H and of a Cholesky factor of it, may add to its smallest eigenvalue."""
    return 2 * (len(H) + 2) * EPS * float(np.abs(np.diag(H)).sum())


def is_psd(H: Floats, slack: float) -> bool:
    """Whether a Cholesky factor of H + slack·1 exists."""
    try:
        np.linalg.cholesky(H + slack * np.eye(len(H)))
    except np.linalg.LinAlgError:
        return False
    return True


def found_shift(H: DenseColumns | SparseColumns | OperatorColumns) -> Floats | None:
    """Gershgorin's circles, where entries can be read at no cost; None where they prove nothing."""
    if isinstance(H, OperatorColumns):
        return None
    absolute: Any = abs(H.matrix)
    return circle_shift(H.diagonal(np.arange(H.n)), np.asarray(absolute.sum(axis=1)).ravel())
