"""Certificates, and the lower bounds from dual points that they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.rounding import UNIT, Rounded, dots, gamma, weight

Number = TypeVar("Number", float, Floats, Rounded)

_HALVINGS = 50
_MOST = 2.0
"""Largest multiple that is tried; at a minimum in a span the best one is at most 1."""


def primal_value(squared_error: Number, squared_norm: Number, noise: float) -> Number:
    """P(f) from Σw(y - f)² and ‖f‖²."""
    return 0.5 * squared_error + 0.5 * noise * squared_norm


def dense_lower_bound(linear: Number, quadratic: Number, noise: float) -> Number:
    """D(v) from y'v and v'Av."""
    return noise * (linear - 0.5 * quadratic)


def scaled_lower_bound(linear: Rounded, quadratic: Rounded, noise: float) -> Rounded:
    """max over c of D(cv) = ½σ²(y'v)² / v'Av: never worse than D(v).

    0 where v = 0, and nothing is known where rounding may make v'Av vanish.
    """
    some = np.asarray(quadratic.size > 0)
    divisor = Rounded(np.where(some, quadratic.value, 1.0), np.where(some, quadratic.error, 0.0))
    return 0.5 * noise * (linear * (linear / divisor))


def sparse_lower_bound(z: Floats, noise: float) -> Floats:
    """D of the best v supported on S*: ½σ²‖z‖², z = C⁻¹y_S*, CC' = A_S*S* (SB01 Theorem 1).

    As computed, for a rule that stops a pursuit; a certificate evaluates D at v itself.
    """
    bound: Floats = 0.5 * noise * (z**2).sum(axis=0)
    return bound


def sparse_dual_floor(squared_residuals: Floats, chosen: Indices, sizes: Indices) -> Floats:
    """P_min - D(a) ≥ ½Σ_{i not in S*} w_i r_i² for every a supported on S* (Z03 Proposition 3.3).

    ``squared_residuals`` are w_i r_i² of the exact solution, summed over outputs, and S* is the
    first n of ``chosen`` for each n in ``sizes``.
    """
    covered = np.concatenate([[0.0], np.cumsum(squared_residuals[chosen])])
    floor: Floats = 0.5 * (squared_residuals.sum() - covered[np.minimum(sizes, len(chosen))])
    return floor


def hybrid_step(linear: Floats, quadratic: Floats, border: Floats, z: Floats) -> Floats:
    """The multiple of v in the best point of span{v, e_i : i in S*}.

    ``border`` is C⁻¹(Av)_S*. With s = v'Av - ‖border‖² and t = y'v - border'z it is t/s, the rest
    of the point C⁻ᵀ(z - border·t/s), and the bound ½σ²(‖z‖² + t²/s): never below the sparse one on
    S*, nor below the scaled one for v.
    """
    rest = quadratic - (border**2).sum(axis=0)
    step = linear - (border * z).sum(axis=0)
    # If the rest is rounding, v lies in the span of S*.
    free = rest > 1e-12 * np.abs(quadratic)
    return np.where(free, step / np.where(free, rest, 1.0), 0.0)


def minimum_upper_bound(
    linear: Number, quadratic: Number, leftover_value: Number, noise: float
) -> Number:
    """P_min ≤ D(v) + min_u ½Σw(ρ - Vu)² + ½σ²‖u‖², ρ = y - Av (CGLB).

    Artemev, Burt and van der Wilk, 2021: A⁻¹ is at most (VV' + σ²W⁻¹)⁻¹ because VV' ≤ K.
    ``leftover_value`` is the last term for some u. Any u is valid, and a sum of squares keeps the
    digits that ρ'Wρ - ‖L⁻¹V'Wρ‖² loses.
    """
    return dense_lower_bound(linear, quadratic, noise) + leftover_value


def l1_lower_bound(linear: Rounded, quadratic: Rounded, largest: float, alpha: float) -> Rounded:
    """D of the best feasible multiple of v, for ½Σw(y - Ka)² + α‖a‖₁ (Zhang 2002b, Z03 eq. 2).

    For every v with |K'v| ≤ α the minimum is at least y'v - ½v'W⁻¹v. ``linear`` is y'v,
    ``quadratic`` v'W⁻¹v and ``largest`` max|K'v|, or more.
    """
    s = _best_multiple(linear, quadratic, alpha / largest if largest > 0 else np.inf)
    return (linear - quadratic * (0.5 * s)) * s


def residual_lower_bound(value: Rounded, residual: Rounded, shift: Floats | float) -> Rounded:
    """q(v) - ½Σr²/d, from q(v), the residual r = b - Hv and d."""
    return value - 0.5 * dots(residual, residual / shift)


def companion_lower_bound(companion_value: Number, scale: float, constant: float) -> Number:
    """min q ≥ -constant - scale·q*(z) for any z, where min q = -constant - scale·min q*.

    SB01's Theorem 1, eq. (7): q* is Q*, the scale σ² and the constant ½‖y‖².
    """
    return -constant - scale * companion_value


def circle_shift(diagonal: Floats, row_sums: Floats) -> Floats | None:
    """Return d > 0 with H - diag(d) psd, by Gershgorin's circles: H_ii less the rest of its row.

    ``row_sums`` are Σ_j |H_ij|. None where some circle reaches 0.
    """
    rest = row_sums - np.abs(diagonal)
    shift = diagonal - rest - 2.0 * gamma(len(diagonal) + 4) * row_sums
    return shift if np.all(shift > 0) else None


def logistic_lower_bound(q: Floats, weights: Floats, quadratic: Rounded) -> Rounded:
    """max of D(ta) over t, from q = |a|/w, rounded, w, and s·a'Ka or an upper bound on it.

    D(ta) is concave: the zero of its slope Σ w q log((1 - tq)/tq) - t s·a'Ka is found by bisection
    between 0 and the largest t with tq ≤ 1. Every t on the way gives a true bound.
    """
    low, most = np.zeros(q.shape[1]), np.maximum(quadratic.high, 0.0)
    largest = np.maximum(q.max(axis=0, initial=0.0), 1.0 / _MOST)
    # So that rounding of q cannot lead out of the domain.
    high = (1.0 - 16.0 * UNIT) / largest
    with np.errstate(over="ignore"):
        for _ in range(_HALVINGS):
            t = 0.5 * (low + high)
            slope = weights @ (q * (_log(1.0 - t * q) - _log(t * q))) - t * most
            low, high = np.where(slope > 0, t, low), np.where(slope > 0, high, t)
    return dots(np.broadcast_to(weights[:, None], q.shape), _entropy(low * q)) - 0.5 * low * (
        low * quadratic
    )


def _entropy(q: Floats) -> Rounded:
    """H(q) for 0 ≤ q < 1, wrong by 4 units at most.

    H has the slope log((1 - q)/q), and its two terms are at most as large as the smaller of q and
    1 - q times one more than the logarithm of that.
    """
    less = np.minimum(q, 1.0 - q)
    value = -q * _log(q) - (1.0 - q) * np.log1p(-q)
    return Rounded(value, 64.0 * UNIT * (less + q) * (2.0 + np.abs(_log(less))))


def _log(x: Floats) -> Floats:
    """The logarithm of a number in [0, 1], and 0 for 0, as it is only multiplied by that number."""
    return np.log(np.where(x > 0, x, 1.0))


_GRID_BITS = 51


def balanced(a: Floats, lower: Floats | None = None, upper: Floats | None = None) -> Floats:
    """The dual point moved to 1'a = 0, exactly, within a box; NaN where that cannot be.

    The heavier side of every column is scaled down, entries are rounded to multiples of one power
    of two, so small that they keep 51 bits of Σ|a|, and the whole number of units that is left is
    taken from entries that have room. Sums of such multiples have no rounding.

    Parameters
    ----------
    a : array of shape (n_rows, n_outputs)
        Inside the box.
    lower, upper : arrays of the same shape, optional
        The box; that between 0 and a by default.
    """
    if lower is None or upper is None:
        lower, upper = np.minimum(a, 0.0), np.maximum(a, 0.0)
    return np.column_stack(
        [_on_grid(*column) for column in zip(a.T, lower.T, upper.T, strict=True)]
    ).reshape(a.shape)


def _on_grid(a: Floats, lower: Floats, upper: Floats) -> Floats:
    """One column of :func:`balanced`."""
    if np.all(lower <= 0.0) and np.all(upper >= 0.0):
        sides = [float(np.where(a > 0, a, 0.0).sum()), -float(np.where(a < 0, a, 0.0).sum())]
        shares = [min(sides) / side if side > 0 else 0.0 for side in sides]
        a = a * np.where(a > 0, *shares)
    total = float(np.abs(a).sum())
    if not np.isfinite(total):
        return np.full_like(a, np.nan)
    bits = int(np.frexp(total)[1]) - _GRID_BITS
    if total == 0.0 or bits < -1000:
        inside = np.all(lower <= 0.0) and np.all(upper >= 0.0)
        return np.full_like(a, 0.0 if inside else np.nan)
    most = 2.0 ** (_GRID_BITS + 1)
    low, high = (np.clip(np.ldexp(end, -bits), -most, most) for end in (lower, upper))
    low, high = np.ceil(low), np.floor(high)
    if np.any(low > high):
        return np.full_like(a, np.nan)
    units = np.clip(np.rint(np.ldexp(a, -bits)), low, high).astype(np.int64)
    extra = int(units.sum())
    room = (units - low if extra > 0 else high - units).astype(np.int64)
    # Entries that move towards 0 come first: those that are 0 should stay so.
    towards = np.minimum(room, np.sign(extra) * units)
    first = int(towards.argmax())
    if towards[first] >= abs(extra):
        units[first] -= extra
    else:
        order = np.lexsort((-room, -towards))
        before = np.concatenate([[0], np.cumsum(room[order])[:-1]])
        taken = np.zeros_like(room)
        taken[order] = np.clip(abs(extra) - before, 0, room[order])
        if int(taken.sum()) < abs(extra):
            return np.full_like(a, np.nan)
        units -= int(np.sign(extra)) * taken
    return np.asarray(np.ldexp(units.astype(np.float64), bits))


def scaled_machine_bound(linear: Rounded, quadratic: Rounded, limit: Floats) -> Rounded:
    """max of D(ta) over 0 ≤ t ≤ limit, from y'a - ε‖a‖₁ and an upper bound on a'(K + diag δ)a."""
    t = np.maximum(_best_multiple(linear, quadratic, limit), 0.0)
    return (linear - quadratic * (0.5 * t)) * t


def _best_multiple(linear: Rounded, quadratic: Rounded, limit: Any) -> Floats:
    """The t in ±limit of the largest t·linear - ½t²·quadratic, ends of errors considered.

    0 where nothing is known.
    """
    # Without curvature, the value rises up to the limit.
    most = quadratic.high
    sign = np.where(linear.value < 0, -1.0, 1.0)
    rise = np.maximum(np.abs(linear.value) - linear.error, 0.0)
    with np.errstate(over="ignore"):
        best = np.where(most > 0, rise / np.where(most > 0, most, 1.0), np.inf)
    t = np.where(rise > 0, np.minimum(best, np.asarray(limit) * (1.0 - 8.0 * UNIT)), 0.0)
    return np.where(np.isfinite(t), sign * t, 0.0)


def diagonal_quadratic(inner: Floats, a: Floats, residual: Floats) -> Floats:
    """a'Ka ≤ ‖V'a‖² + (Σ|a_i|√d_i)² for K = VV' + E and d = diag E, rounded upwards."""
    missed = weight(np.sqrt(np.maximum(residual, 0.0)), a)
    bound: Floats = (inner + missed**2) * (1.0 + gamma(8))
    return bound


_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
"""Share of y'Wy below which a difference of values is rounding, whatever is known of it."""

_COST = 1e-6
"""Share of P(0) that rounding may take from a statement that is still about the model."""

_LITTLE = 1e-9
"""Share of P(0) below which rounding takes nothing from a statement."""


@dataclass(frozen=True)
class Bound:
    """An upper bound for every size of a model.

    Attributes
    ----------
    name : str
        Theorem that proves it, such as "Zhang 2002b, Theorem 5.1".
    quantity : str
        What is bounded, in words.
    size : array of int
        Numbers of basis functions, or of steps.
    value : array
        The bound at each size.
    trivial : float or array
        What is known without any theorem, for all sizes or for each: a bound that is not below it
        is vacuous.
    confidence : float
        Probability with which it holds; 1.0 if it is deterministic.
    caveat : str
        What it assumes, such as a quantity that was estimated; empty if nothing.
    """

    name: str
    quantity: str
    size: Indices
    value: Floats
    trivial: float | Floats = np.inf
    confidence: float = 1.0
    caveat: str = ""

    @property
    def vacuous(self) -> NDArray[np.bool_]:
        """Sizes at which the bound says no more than ``trivial``."""
        return np.asarray(~(self.value < self.trivial))

    @property
    def best(self) -> int:
        """Position of the smallest bound; the first one in case of ties."""
        return int(np.nanargmin(self.value))

    def __str__(self) -> str:
        if not len(self.size):
            return f"{self.name}: no sizes"
        at = self.best
        chance = "" if self.confidence == 1.0 else f" with probability {self.confidence:.3g}"
        text = (
            f"{self.name}: {self.quantity} is at most {self.value[at]:.4g}{chance}, for "
            f"{self.size[at]} basis function{'' if self.size[at] == 1 else 's'}"
        )
        if self.vacuous.all():
            known = np.broadcast_to(self.trivial, self.value.shape)[at]
            text += f"; this is vacuous: {known:.4g} is known without it"
        return f"{text} ({self.caveat})" if self.caveat else text


@dataclass(frozen=True)
class Certificate:
    """P(f) ≥ P_min ≥ D: the value of a model, and a proof of how low the best value can be.

    It certifies the solution of the convex problem with the given kernel and noise; it says
    nothing about these hyper-parameters.

    Attributes
    ----------
    upper_per_output, lower_per_output : arrays of shape (n_outputs,)
        P(f) and the best D found for each output.
    target_norms : array of shape (n_outputs,)
        2P(0) for each output, where P(0) is the value of ``baseline``: y'Wy for least squares.
    kind : str
        How the lower value was constructed.
    confidence : float
        Probability with which it holds; 1.0 for deterministic kinds.
    minimum_upper_per_output : array of shape (n_outputs,), optional
        Upper bounds on P_min, if a product with K is known: P(f) is at least this far from P_min.
    over : str
        The set over which the minimum is taken, in words.
    rounding_per_output : array of shape (n_outputs,), optional
        How far ``upper`` was raised and ``lower`` lowered, together, so that both are true of exact
        arithmetic; None where that is not known.
    remedy : str
        What to do where rounding leaves nothing to say.
    reference : str or None
        The model of value P_min, in words; None for the best of what ``over`` names.
    baseline : str
        The model of value P(0), in words.
    unit : float
        Size of the values where P(0) does not tell it: 1 for logarithms, whose origin is arbitrary.
    """

    upper_per_output: Floats
    lower_per_output: Floats
    target_norms: Floats
    kind: str
    confidence: float = 1.0
    minimum_upper_per_output: Floats | None = None
    over: str = "all functions"
    rounding_per_output: Floats | None = None
    reference: str | None = None
    baseline: str = "f = 0"
    remedy: str = "scale the data so that rounding matters less"
    unit: float = 0.0

    @classmethod
    def proved(
        cls,
        upper: Rounded,
        lower: Rounded,
        target_norms: Floats,
        kind: str,
        *,
        minimum_upper: Rounded | None = None,
        trivial: float = 0.0,
        **words: Any,
    ) -> Certificate:
        """The certificate of computed values: the ends are moved by what rounding may hide.

        Parameters
        ----------
        upper, lower, minimum_upper : Rounded
            P(f), D and an upper bound on P_min, one entry per output.
        target_norms, kind
            As in the class.
        trivial : float
            What the minimum cannot be below: the lower end where rounding leaves nothing better.
        **words
            Other attributes.
        """
        # Where nothing is known of the rounding, nothing is said of the minimum.
        known = np.isfinite(upper.error)
        raised = np.where(known, upper.high, upper.value)
        lowered = np.where(known, np.maximum(lower.low, trivial), trivial)
        # A value above P(f) is rounding as well, and what is trivially true has not moved.
        value = np.maximum(np.minimum(lower.value, upper.value), lowered)
        most = np.maximum(np.abs(target_norms), np.abs(upper.value))
        moved = np.where(known, upper.error + (value - lowered), most)
        least = None if minimum_upper is None else np.minimum(minimum_upper.high, raised)
        return cls(
            raised,
            lowered,
            target_norms,
            kind,
            minimum_upper_per_output=least,
            rounding_per_output=moved,
            **words,
        )

    @property
    def rounding(self) -> float:
        """How far rounding has moved ``upper`` up and ``lower`` down, summed over outputs."""
        return float(self._rounding.sum())

    @property
    def informative(self) -> bool:
        """Whether the statement is about the model, and not about the rounding of its numbers.

        False where more than half of P(0) - D is rounding, unless that is a millionth of P(0) or of
        ``unit``.
        """
        known = max(0.5 * (self._gained + self.gap), _COST * max(abs(self._zero), self.unit))
        return self.rounding <= known

    @property
    def contradictory(self) -> bool:
        """Whether a lower end is above an upper end, which cannot be true of exact values."""
        least = self.minimum_upper_per_output
        ends = self.upper_per_output if least is None else np.minimum(self.upper_per_output, least)
        return bool(np.any(self.lower_per_output > ends))

    @property
    def upper(self) -> float:
        """P(f) = ½Σw(y - f)² + ½σ²‖f‖², summed over outputs."""
        return float(self.upper_per_output.sum())

    @property
    def lower(self) -> float:
        """The best lower bound on P_min, summed over outputs."""
        return float(self.lower_per_output.sum())

    @property
    def gap(self) -> float:
        """P(f) - P_min is at most this."""
        return float((self.upper_per_output - self.lower_per_output).sum())

    @property
    def gap_at_least(self) -> float:
        """P(f) - P_min is at least this; 0 if nothing better is known."""
        if self.minimum_upper_per_output is None:
            return 0.0
        # What has raised P(f) may as well have to be taken from it.
        value = self.upper_per_output - 2.0 * self._rounding
        least = value - self.minimum_upper_per_output
        return float(np.maximum(least, 0.0).sum())

    @property
    def relative_gap(self) -> float:
        """2 (P - D) / (y'Wy - P - D), the gap of Smola and Bartlett (2001, SB01); 0 when y = 0."""
        norm = float(self.target_norms.sum())
        return relative_gap(self.upper, self.upper - self.gap, norm, self.rounding, self.unit)

    @property
    def captured(self) -> float:
        """(P(0) - P(f)) / (P(0) - D): at least this share of the possible gain is achieved.

        Since D ≤ P_min, it is at most the true share (P(0) - P(f)) / (P(0) - P_min), where P(0) is
        the value of ``baseline``. 0 if P(f) is not below P(0), and NaN if nothing can be gained:
        P(0) - D is zero, or rounding.
        """
        if not self._gained + self.gap > self._negligible:
            return float("nan")
        return float(np.clip(1.0 - self._left, 0.0, 1.0))

    @property
    def per_output(self) -> dict[str, Floats]:
        """Upper, lower, gap and relative_gap as arrays, one entry per output."""
        bounds = zip(
            self.upper_per_output,
            self.lower_per_output,
            self.target_norms,
            self._rounding,
            strict=True,
        )
        return {
            "upper": self.upper_per_output,
            "lower": self.lower_per_output,
            "gap": self.upper_per_output - self.lower_per_output,
            "relative_gap": np.array([relative_gap(*numbers, self.unit) for numbers in bounds]),
        }

    @property
    def _rounding(self) -> Floats:
        known = self.rounding_per_output
        return np.zeros_like(self.upper_per_output) if known is None else known

    @property
    def _zero(self) -> float:
        """P(0)."""
        return 0.5 * float(self.target_norms.sum())

    @property
    def _gained(self) -> float:
        """P(0) - P(f)."""
        return self._zero - self.upper

    @property
    def _left(self) -> float:
        """(P(f) - D) / (P(0) - D), which keeps its digits where ``captured`` rounds to 1."""
        if self._gained <= 0:
            return 1.0
        return 1.0 / (1.0 + self._gained / self.gap) if self.gap > 0 else 0.0

    @property
    def _negligible(self) -> float:
        """Differences of values up to this are rounding."""
        return negligible(float(self.target_norms.sum()), self.rounding, self.unit)

    def __str__(self) -> str:
        if not self.informative:
            return (
                f"says nothing: rounding may move its numbers by {self.rounding:.3g}, and P(0) is "
                f"{self._zero:.3g} ({self.kind} bound). {self.remedy[:1].upper()}{self.remedy[1:]}."
            )
        known = 0 < self.gap_at_least <= self.gap
        between = f"between {self.gap_at_least:.3g} and" if known else "at most"
        hint = (
            " The published kind cannot fall below the noise floor: certify(X, y) is tighter."
            if self.kind == "published"
            else ""
        )
        return (
            f"{self._share_in_words()}. P(f) = {self.upper:.6g} is {between} {self.gap:.3g} above "
            f"the minimum over {self.over} (relative gap {self.relative_gap:.3g}).{hint}"
        )

    def _share_in_words(self) -> str:
        best = f"the best of {self.over}" if self.reference is None else self.reference
        gain = f"of what {best} could gain over {self.baseline}"
        sure = "" if self.confidence == 1.0 else f" with probability {self.confidence:.3g}"
        bound = f"({self.kind} bound{sure})"
        if np.isnan(self.captured):
            return f"captures everything: {best} could gain nothing over {self.baseline} {bound}"
        if self._gained <= 0:
            return f"captures nothing {gain} {bound}"
        if self.gap <= 0:
            return f"captures all {gain} {bound}"
        captured, left = _percentages(self._left)
        return f"captures at least {captured} % {gain}; at most {left} % is left {bound}"


def _percentages(left: float) -> tuple[str, str]:
    """What is captured, rounded down, and what is left, rounded up, of what is not quite all.

    Their sum is 100 %. The smaller of the two has two significant digits, up to three decimals.
    """
    least = 100.0 * min(left, 1.0 - left)
    digits = 1 if least >= 1 else 2 if least >= 0.1 else 3
    unit = 10.0**digits
    rest = max(1.0, float(np.ceil(100.0 * unit * left)))
    return f"{(100.0 * unit - rest) / unit:.{digits}f}", f"{rest / unit:.{digits}f}"


@dataclass(frozen=True)
class CertificatePath:
    """Certificates of a model and of its truncations.

    Attributes
    ----------
    sizes : array of int
        Numbers of basis functions, increasing.
    certificates : list of Certificate
        One per size.
    floor : array, optional
        For the published kind: no dual point supported on that many rows can bring the gap below
        this, however good the model (Zhang 2002b, Proposition 3.3).
    """

    sizes: Indices
    certificates: list[Certificate]
    floor: Floats | None = None

    @property
    def upper(self) -> Floats:
        """P(f) at each size."""
        return np.array([one.upper for one in self.certificates])

    @property
    def lower(self) -> Floats:
        """The lower bound at each size."""
        return np.array([one.lower for one in self.certificates])

    @property
    def gap(self) -> Floats:
        """Upper less lower at each size."""
        return np.array([one.gap for one in self.certificates])

    @property
    def relative_gap(self) -> Floats:
        """The gap of Smola and Bartlett (2001) at each size."""
        return np.array([one.relative_gap for one in self.certificates])


def negligible(target_norm: float, rounding: float, unit: float = 0.0) -> float:
    """Differences of values up to this are rounding: what is known of it, if it is little."""
    size = max(abs(target_norm), unit)
    return max(_ROUNDING * size, 2.0 * rounding if rounding <= _LITTLE * size else 0.0)


def relative_gap(
    upper: float, lower: float, target_norm: float, rounding: float = 0.0, unit: float = 0.0
) -> float:
    """2 (P - D) / (y'Wy - P - D), which is SB01's gap(); 0 when there is none, and when y = 0.

    A gap that is rounding, as known or that of y'Wy, counts as 0: where f = 0 is best the quotient
    would be 0/0.
    """
    gap = upper - lower
    if gap <= negligible(target_norm, rounding, unit):
        return 0.0
    scale = target_norm - upper - lower
    if scale > 0:
        return 2.0 * gap / scale
    nothing_to_gain = target_norm == 0.0 and gap <= 4.0 * rounding + np.finfo(np.float64).tiny
    return 0.0 if nothing_to_gain else float("inf")
