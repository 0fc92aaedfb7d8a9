"""Bounds on the log evidence of a Gaussian process, from sums over rows (Formulas §11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from pursuit._types import Floats
from pursuit.rounding import gamma


class EvidenceBounds(tuple[float, float]):
    """The pair (lower, upper) around log N(y; 0, K + σ²W⁻¹), summed over outputs."""

    n_values: int

    def __new__(cls, lower: float, upper: float, n_values: int) -> EvidenceBounds:
        """A pair of bounds; their width is judged per target value."""
        pair = super().__new__(cls, (lower, upper))
        pair.n_values = n_values
        return pair

    def __getnewargs__(self) -> tuple[float, float, int]:
        return self.lower, self.upper, self.n_values

    @property
    def lower(self) -> float:
        """Titsias' bound."""
        return self[0]

    @property
    def upper(self) -> float:
        """The shifted bound."""
        return self[1]

    @property
    def loose(self) -> bool:
        """Whether the bounds are more than 0.1 nat per target value apart."""
        return self.upper - self.lower > 0.1 * self.n_values

    def __str__(self) -> str:
        width = (self.upper - self.lower) / max(self.n_values, 1)
        verdict = (
            f"loose, {width:.2g} per target value: the basis misses more of the kernel's trace "
            "than the noise covers; use more basis functions"
            if self.loose
            else f"tight, {width:.2g} per target value"
        )
        return f"log evidence between {self.lower:.6g} and {self.upper:.6g} ({verdict})"


@dataclass(frozen=True)
class StatisticsRounding:
    """How far rounding may have moved R, V'WV and V'Wy of a basis S.

    RR' is K_SS up to ε s s', s(z) = √k(z, z), and sums over rows of products with k(x, z) round by
    ``sums`` of Σw s(x)²s(z)². Solving with R magnifies both: with a_j the norm of row j of R⁻¹ in
    units of s, entry (j, k) of V'WV is wrong by about (2ε + sums)·tr WK·a_j a_k if it was summed
    as K_S'WK_S, and by (ε + sums)(tr WK)^½(a_j‖V_k‖ + a_k‖V_j‖) if V was formed row by row.

    These are sizes that errors of random signs have. A bound that no signs exceed would be vacuous
    for most bases: unlike a certificate, which evaluates points that are at hand, the evidence has
    a determinant in it, and only these sums to compute it from.

    Attributes
    ----------
    spread : array of shape (n,)
        a.
    kernel, sums : float
        ε and the error of sums.
    whitened : bool
        Whether V was formed row by row.
    """

    spread: Floats
    kernel: float
    sums: float
    whitened: bool

    @property
    def eta(self) -> float:
        """ε‖a‖²: K_SS lies between (1 - η)RR' and (1 + η)RR'."""
        return self.kernel * float(self.spread @ self.spread)

    def of_gram(self, trace: float, inner: float) -> float:
        """A bound on the norm of the error of V'WV, from tr WK and tr V'WV."""
        reach = float(np.linalg.norm(self.spread))
        if self.whitened:
            unit = self.kernel + self.sums
            along = float(np.sqrt(trace * inner))
            return 2.0 * unit * along * reach + (unit * reach) ** 2 * trace
        return float((2.0 * self.kernel + self.sums) * trace * reach**2)

    def of_cross(self, trace: float, norms: Floats) -> Floats:
        """A bound on the error of V'Wy per output, in units of a."""
        return np.asarray((self.kernel + self.sums) * np.sqrt(trace * norms))


def evidence_bounds(
    L: Floats,
    z: Floats,
    target_norms: Floats,
    trace: float,
    noise: float,
    n_rows: int,
    sum_log_weights: float,
    rounding: StatisticsRounding | None = None,
) -> EvidenceBounds:
    """Titsias' bound below, the shifted form above, with room for rounding.

    With LL' = V'WV + σ²I, z = L⁻¹V'Wy and τ = tr W(K - VV')::

        lower = log N(y; 0, VV' + σ²W⁻¹) - τ/2σ²
        upper = -½ log|VV' + σ²W⁻¹| - ½ y'(VV' + (σ² + τ)W⁻¹)⁻¹y - ½ m log 2π

    both for each output, and summed: K + σ²W⁻¹ lies between VV' + σ²W⁻¹ and VV' + (σ² + τ)W⁻¹.
    Where rounding leaves less than tr WK and y'Wy alone say, that is said: W^½KW^½ has eigenvalues
    between 0 and tr WK, whose mean is tr WK/m.

    Parameters
    ----------
    L, z : arrays of shape (n, n) and (n, n_outputs)
        The solution in the span.
    target_norms : array of shape (n_outputs,)
        y'Wy.
    trace : float
        tr WK.
    noise : float
        σ².
    n_rows : int
        m.
    sum_log_weights : float
        Σ log w.
    rounding : StatisticsRounding, optional
        How exact the statistics behind L and z are; exact by default.

    Returns
    -------
    bounds : EvidenceBounds
    """
    (n, outputs), m = z.shape, n_rows
    norm, unit = float(target_norms.sum()), gamma(min(m, _SUMMED) + 64)
    known = rounding or StatisticsRounding(np.zeros(n), 0.0, 0.0, whitened=True)
    largest = max(trace, 0.0) * (1.0 + known.kernel + unit)
    # What tr WK and y'Wy say alone.
    weights = -sum_log_weights + m * np.log(2.0 * np.pi)
    most_log = m * np.log(largest / max(m, 1) + noise) + weights
    least_log = m * np.log(noise) + weights
    trivial = (
        -0.5 * outputs * most_log - 0.5 * norm / noise,
        -0.5 * outputs * least_log - 0.5 * norm / (largest + noise),
    )
    lower, upper = _through_basis(L, z, target_norms, largest, noise, m, weights, known, unit)
    # Sums of logarithms, of which each is below 745.
    room = outputs * (unit * (abs(weights) + abs(most_log) + abs(least_log)) + gamma(64) * 745 * m)
    room += unit * norm / noise
    return EvidenceBounds(
        float(max(lower, trivial[0]) - room), float(min(upper, trivial[1]) + room), outputs * m
    )


def _through_basis(
    L: Floats,
    z: Floats,
    norms: Floats,
    trace: float,
    noise: float,
    m: int,
    weights: float,
    known: StatisticsRounding,
    unit: float,
) -> tuple[float, float]:
    """The two bounds of a basis; infinite where rounding leaves nothing of them."""
    n, outputs = z.shape
    factor = gamma(4 * n + 8) * float(np.vdot(L, L))
    inner = max(float(np.vdot(L, L)) - n * noise, 0.0)
    moved, eta = known.of_gram(trace, inner) + factor, known.eta
    share = moved / noise + eta
    # 1 + share and its inverse bound V'WV + σ²I from both sides.
    if not share < 0.5:
        return -np.inf, np.inf
    missed = max(trace - inner, 0.0) + moved + 2.0 * eta * inner + unit * trace
    log_determinant = (m - n) * np.log(noise) + 2.0 * float(np.log(np.diag(L)).sum()) + weights
    doubt = 2.0 * np.sqrt(n) * share
    # y'(VV' + σ²W⁻¹)⁻¹y is at most 2P(f)/σ² for the f of the coordinates u, V'WV as it really is.
    u = solve_triangular(L, z, lower=True, trans="T") if n else z
    squares, along = (u**2).sum(axis=0), known.spread @ np.abs(u)
    cross = known.of_cross(trace, norms)
    # Lz is V'Wy up to the rounding of a triangular solution.
    solved = gamma(4 * n + 8) * (np.abs(L) @ np.abs(z))
    refined = _REFINED + gamma(32) * trace / noise
    values = norms - (z**2).sum(axis=0) + (unit + refined) * norms
    values = values + (moved + 2.0 * eta * noise) * squares + 2.0 * cross * along
    values = values + 2.0 * (np.abs(u) * solved).sum(axis=0)
    lower = -0.5 * outputs * (log_determinant + doubt + missed / noise)
    lower -= 0.5 * float(np.maximum(values, 0.0).sum()) / noise
    # With V'WV less than it seems by what is moved, and V'Wy more.
    shifted = L @ L.T
    shifted[np.diag_indices(n)] += missed - moved - factor
    fitted = solve_triangular(cholesky(shifted, lower=True), L @ z, lower=True) if n else z
    off = cross * np.linalg.norm(known.spread) + np.linalg.norm(solved, axis=0)
    off = off / np.sqrt(noise)
    explained = (np.linalg.norm(fitted, axis=0) * (1.0 + unit) + off) ** 2 * (1.0 + 2.0 * eta)
    left = np.maximum(norms * (1.0 - unit - refined) - explained, 0.0)
    upper = -0.5 * outputs * (log_determinant - doubt)
    upper -= 0.5 * float(left.sum()) / (noise + missed)
    return lower, upper


_REFINED = 1e-10
"""Share of y'Wy by which ½‖z‖² may miss the gain of its function, beside that of tr WK/σ²: where a
solution was refined, z is that of the better function, not of the sums."""

_SUMMED = 1 << 14
"""Longest chain of additions in a sum over rows: blocks are added up in a tree."""
