"""Convex losses over all functions of a kernel, minimised by Newton's method in many digits.

    P(c, b) = Σw ℓ(f + b + o, y) + ½f'c,    f = Kc/α,

which is Σwℓ + ½α‖f‖² for f = Σ(c_j/α) k(·, x_j). What is found is a function, and its value is not
below the minimum whatever the method did: a lower bound above it is false.

A loss with kinks is a sum of hinges. Newton's method sees it with its kinks rounded over a width
that shrinks. Rows that it leaves inside of a kink are then put on it exactly, all others keep their
slopes, and what comes out is the minimum if its slopes are possible; if not, it is a function like
any other. Values are those of the loss itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from torture.exact_kernels import MP, Numbers

WIDTHS = 1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6
_STEPS = 60
_KINKED_STEPS = 15
_FARTHEST = 1e4
_SMALLEST = 1e-75
"""Relative decrease at which Newton's method ends."""

_exp = np.frompyfunc(MP.exp, 1, 1)
_log = np.frompyfunc(MP.log, 1, 1)
_log1p = np.frompyfunc(MP.log1p, 1, 1)


def _soft(x: Any) -> Any:
    return x + MP.log1p(MP.exp(-x)) if x > 0 else MP.log1p(MP.exp(x))


softplus = np.frompyfunc(_soft, 1, 1)
"""log(1 + exp(x)) without overflow."""


@dataclass(frozen=True)
class Loss:
    """Value, slope and curvature by f, for arrays of numbers.

    ``dual`` is -ℓ*(ℓ'(f)), which is ℓ(f) - fℓ'(f) unless given.
    """

    value: Callable[[Numbers, Numbers], Numbers]
    slope: Callable[[Numbers, Numbers], Numbers]
    bend: Callable[[Numbers, Numbers], Numbers]
    dual: Callable[[Numbers, Numbers], Numbers] | None = None

    def dual_value(self, f: Numbers, y: Numbers) -> Numbers:
        """The share of a dual value."""
        if self.dual is not None:
            return self.dual(f, y)
        return self.value(f, y) - f * self.slope(f, y)


def _sigmoid(f: Numbers) -> Numbers:
    return 1 / (1 + _exp(-f))


def logistic() -> Loss:
    """log(1 + exp(f)) - yf for y in [0, 1]."""
    return Loss(
        lambda f, y: softplus(f) - y * f,
        lambda f, y: _sigmoid(f) - y,
        lambda f, y: _sigmoid(f) * _sigmoid(-f),
    )


def poisson() -> Loss:
    """exp(f) - yf."""
    return Loss(lambda f, y: _exp(f) - y * f, lambda f, y: _exp(f) - y, lambda f, y: _exp(f))


def gamma() -> Loss:
    """y exp(-f) + f."""
    return Loss(
        lambda f, y: y * _exp(-f) + f, lambda f, y: 1 - y * _exp(-f), lambda f, y: y * _exp(-f)
    )


def tweedie(power: float) -> Loss:
    """y(e^((1-p)f) - 1)/(p - 1) + (e^((2-p)f) - 1)/(2 - p)."""
    p = MP.mpf(power)
    return Loss(
        lambda f, y: y * (_exp((1 - p) * f) - 1) / (p - 1) + (_exp((2 - p) * f) - 1) / (2 - p),
        lambda f, y: _exp((2 - p) * f) - y * _exp((1 - p) * f),
        lambda f, y: (2 - p) * _exp((2 - p) * f) + (p - 1) * y * _exp((1 - p) * f),
    )


def negative_binomial(shape: float) -> Loss:
    """(y + k) log(1 + e^f/k) - yf."""
    k = MP.mpf(shape)
    return Loss(
        lambda f, y: (y + k) * _log1p(_exp(f) / k) - y * f,
        lambda f, y: (y + k) * _exp(f) / (_exp(f) + k) - y,
        lambda f, y: (y + k) * k * _exp(f) / (_exp(f) + k) ** 2,
    )


def _where(inside: Any, yes: Any, no: Any) -> Numbers:
    return np.where(np.asarray(inside, dtype=bool), yes, no)


def huber(width: float) -> Loss:
    """½u² up to δ, δ|u| - ½δ² beyond, u = f - y."""
    d = MP.mpf(width)
    return Loss(
        lambda f, y: _where(abs(f - y) <= d, (f - y) ** 2 / 2, d * abs(f - y) - d * d / 2),
        lambda f, y: _where(abs(f - y) <= d, f - y, _where(f > y, d, -d)),
        lambda f, y: _where(abs(f - y) <= d, MP.one, MP.zero),
    )


def expectile(level: float) -> Loss:
    """Squares that count ``level`` above f and 1 - ``level`` below."""
    t = MP.mpf(level)
    return Loss(
        lambda f, y: _where(y > f, t, 1 - t) * (y - f) ** 2,
        lambda f, y: _where(y > f, t, 1 - t) * 2 * (f - y),
        lambda f, y: _where(y > f, t, 1 - t) * 2,
    )


def squared_hinge() -> Loss:
    """max(0, 1 - yf)² for y = ±1."""

    def slack(f: Numbers, y: Numbers) -> Numbers:
        return _where(y * f < 1, 1 - y * f, MP.zero)

    return Loss(
        lambda f, y: slack(f, y) ** 2,
        lambda f, y: -2 * y * slack(f, y),
        lambda f, y: _where(y * f < 1, MP.mpf(2), MP.zero),
    )


def squared_tube(epsilon: float) -> Loss:
    """max(0, |y - f| - ε)²."""
    e = MP.mpf(epsilon)

    def slack(f: Numbers, y: Numbers) -> Numbers:
        return _where(abs(y - f) > e, abs(y - f) - e, MP.zero)

    return Loss(
        lambda f, y: slack(f, y) ** 2,
        lambda f, y: 2 * slack(f, y) * _where(f > y, MP.one, -MP.one),
        lambda f, y: _where(abs(y - f) > e, MP.mpf(2), MP.zero),
    )


Hinges = Callable[[Numbers], list[tuple[Any, Numbers, Numbers, bool]]]
"""From y to (factor, a, s, bent) such that ℓ = Σ factor·max(0, a + s f), or a + s f if not bent."""


def hinge(y: Numbers) -> list[tuple[Any, Numbers, Numbers, bool]]:
    """max(0, 1 - yf)."""
    return [(MP.one, 0 * y + 1, -y, True)]


def tube(epsilon: float) -> Hinges:
    """max(0, |y - f| - ε)."""
    e = MP.mpf(epsilon)
    return lambda y: [(MP.one, y - e, 0 * y - 1, True), (MP.one, -y - e, 0 * y + 1, True)]


def pinball(low: float, high: float) -> Hinges:
    """``high`` times y - f where that is positive, ``low`` times it where it is negative."""
    flat, steep = MP.mpf(low), MP.mpf(high) - MP.mpf(low)
    return lambda y: [(flat, y, 0 * y - 1, False), (steep, y, 0 * y - 1, True)]


def of_hinges(hinges: Hinges, width: Any = None) -> Loss:
    """The loss, with kinks rounded over ``width`` for its derivatives and, if given, its value."""

    def share(u: Numbers, bent: bool) -> Numbers:
        """How much of its slope a hinge has: slopes between those at a kink are slopes, too."""
        return _where(u > width, MP.one, _where(u > 0, u / width, 0 * u)) if bent else 0 * u + 1

    def value(f: Numbers, y: Numbers) -> Numbers:
        total = 0 * y
        for factor, a, s, bent in hinges(y):
            u = a + s * f
            if bent:
                up = _where(u > 0, u, MP.zero)
                if width is not None:
                    up = _where(u > width, u - width / 2, up * up / (2 * width))
                u = up
            total = total + factor * u
        return total

    def slope(f: Numbers, y: Numbers) -> Numbers:
        return sum((k * s * share(a + s * f, bent) for k, a, s, bent in hinges(y)), 0 * y)

    def bend(f: Numbers, y: Numbers) -> Numbers:
        total = 0 * y
        for factor, a, s, bent in hinges(y):
            u = a + s * f
            inside = np.asarray(u > 0, dtype=bool) & np.asarray(u <= width, dtype=bool)
            if bent:
                total = total + factor * s * s * _where(inside, 1 / width, MP.zero)
        return total

    def dual(f: Numbers, y: Numbers) -> Numbers:
        return sum((k * a * share(a + s * f, bent) for k, a, s, bent in hinges(y)), 0 * y)

    return Loss(value, slope, bend, dual)


def solve(A: Numbers, b: Numbers) -> Numbers:
    """A⁻¹b by elimination with row exchanges."""
    A, x, n = A.copy(), b.copy(), len(A)
    for j in range(n):
        p = j + max(range(n - j), key=lambda i: abs(A[j + i, j]))
        if A[p, j] == 0:
            raise ArithmeticError("singular")
        if p != j:
            A[[j, p]], x[[j, p]] = A[[p, j]], x[[p, j]]
        if j + 1 < n:
            factors = A[j + 1 :, j] / A[j, j]
            A[j + 1 :, j:] = A[j + 1 :, j:] - factors[:, None] * A[j, j:]
            x[j + 1 :] = x[j + 1 :] - factors * x[j]
    for j in reversed(range(n)):
        if j + 1 < n:
            x[j] = x[j] - A[j, j + 1 :] @ x[j + 1 :]
        x[j] = x[j] / A[j, j]
    return x


@dataclass
class Machine:
    """P for a kernel matrix of the rows; α is the ridge.

    Parameters
    ----------
    K, y, w, o : numbers
        Kernel matrix, targets, weights and offsets.
    alpha : number
    intercept : bool
        Whether there is a b.
    """

    K: Numbers
    y: Numbers
    w: Numbers
    o: Numbers
    alpha: Any
    intercept: bool

    def value(self, loss: Loss, f: Numbers, squared_norm: Any, b: Any = 0) -> Any:
        """Σwℓ + ½α‖f‖² from values on the rows."""
        return self.w @ loss.value(f + b + self.o, self.y) + self.alpha * squared_norm / 2

    def minimum(self, loss: Loss | Hinges, b: float = 0.0) -> tuple[Any, Any]:
        """Between which the minimum lies: a dual value, or None, and that of the best function.

        ``b`` is an intercept to begin with.
        """
        point = (0 * self.y, MP.mpf(b))
        if isinstance(loss, Loss):
            point = self._newton(loss, *point)
            return self._dual(loss, *point), self._value_at(loss, *point)
        middle = sorted(self.y)[len(self.y) // 2]
        unit = max(abs(v - middle) for v in self.y) or MP.one
        ends = []
        for width in WIDTHS:
            rounded = of_hinges(loss, MP.mpf(width) * unit)
            point = self._newton(rounded, *point, steps=_KINKED_STEPS)
            ends.append((self._dual(rounded, *point), self._value_at(of_hinges(loss), *point)))
            on_kinks = self._polished(loss, MP.mpf(width) * unit, *point)
            if on_kinks is not None:
                ends.append(on_kinks)
                break
        lowers = [low for low, _ in ends if low is not None]
        return max(lowers, default=None), min(high for _, high in ends)

    def _dual(self, loss: Loss, c: Numbers, b: Any) -> Any:
        """D of the slopes at a function, where they add to zero."""
        g = self.K @ c / self.alpha + b + self.o
        slopes = self.w * loss.slope(g, self.y)
        if self.intercept and abs(slopes.sum()) > MP.mpf(10) ** -30 * abs(slopes).sum():
            return None
        linear = self.w @ loss.dual_value(g, self.y) + slopes @ self.o
        return linear - slopes @ self.K @ slopes / (2 * self.alpha)

    def _polished(self, hinges: Hinges, width: Any, c: Numbers, b: Any) -> Any:
        """Dual and primal value with rows inside of kinks put on them; None if that is not best.

        D = Σ w·factor·t·(a + so) - c'Kc/2α for c = -Σ w·factor·t·s and 0 ≤ t ≤ 1.
        """
        g = self.K @ c / self.alpha + b + self.o
        parts = hinges(self.y)
        shares = [0 * self.y + (0 if bent else 1) for *_, bent in parts]
        kinks: dict[int, int] = {}
        for number, (_, a, s, bent) in enumerate(parts):
            u = a + s * g
            for i in range(len(u) if bent else 0):
                if u[i] > width:
                    shares[number][i] = MP.one
                elif u[i] > 0:
                    if i in kinks:
                        return None
                    kinks[i] = number

        def coefficients() -> Numbers:
            terms = zip(parts, shares, strict=True)
            return -self.w * sum((k * s * t for (k, _, s, _), t in terms), 0 * self.y)

        rows, fixed = sorted(kinks), coefficients()
        n = len(rows)
        if not n:
            return None
        system = np.full((n + 1, n + 1), MP.one, dtype=object)
        system[:n, :n] = self.K[np.ix_(rows, rows)] / self.alpha
        system[n, n] = MP.zero
        known = self.K[rows] @ fixed / self.alpha
        right = [-parts[kinks[i]][1][i] / parts[kinks[i]][2][i] - self.o[i] for i in rows]
        right = np.append(np.array(right, dtype=object) - known, -fixed.sum())
        try:
            found = solve(system, right) if self.intercept else solve(system[:n, :n], right[:n])
        except ArithmeticError:
            return None
        for i, value in zip(rows, found[:n], strict=True):
            factor, _, s, _ = parts[kinks[i]]
            t = -value / (self.w[i] * factor * s[i])
            if not 0 <= t <= 1:
                return None
            shares[kinks[i]][i] = t
        c, b = coefficients(), found[n] if self.intercept else MP.zero
        terms = zip(parts, shares, strict=True)
        linear = sum(self.w @ (k * t * (a + s * self.o)) for (k, a, s, _), t in terms)
        low = linear - c @ self.K @ c / (2 * self.alpha)
        high = self._value_at(of_hinges(hinges), c, b)
        return (low, high) if high - low <= MP.mpf(10) ** -25 * abs(high) else None

    def _value_at(self, loss: Loss, c: Numbers, b: Any) -> Any:
        f = self.K @ c / self.alpha
        return self.value(loss, f, c @ f / self.alpha, b)

    def _newton(self, loss: Loss, c: Numbers, b: Any, steps: int = _STEPS) -> tuple[Numbers, Any]:
        """Steps of c + D(Kc/α + b) = a + D(f + b), 1'c = 0, each with a search along its line."""
        farthest = _FARTHEST * max(1, *(abs(v) for v in self.y))
        for _ in range(steps):
            f = self.K @ c / self.alpha
            a = -self.w * loss.slope(f + b + self.o, self.y)
            D = self.w * loss.bend(f + b + self.o, self.y)
            try:
                step, shift = self._direction(c, a, D)
            except ArithmeticError:
                break  # any function bounds the minimum: this one from above, its slopes from below
            moved = self.K @ step / self.alpha
            quadratic = moved @ step
            linear = moved @ c

            def fall(t: Any) -> Any:
                """The derivative of P along the line, at t."""
                g = f + t * moved + b + t * shift + self.o  # noqa: B023
                slopes = self.w * loss.slope(g, self.y)
                return slopes @ (moved + shift) + linear + t * quadratic  # noqa: B023

            begin = fall(MP.zero)
            value = self._value_at(loss, c, b)
            if not begin < -_SMALLEST * abs(value):
                break
            # Exponentials of a step too far have exponents of astronomic length.
            largest = max(abs(v) for v in moved + shift)
            t = _along(fall, begin, min(MP.one, farthest / largest))
            c, b = c + t * step, b + t * shift
        return c, b

    def _direction(self, c: Numbers, a: Numbers, D: Numbers) -> tuple[Numbers, Any]:
        """Newton's step of c and b."""
        m = len(c)
        size = m + int(self.intercept)
        system = np.full((size, size), MP.zero, dtype=object)
        system[:m, :m] = D[:, None] * self.K / self.alpha
        system[np.arange(m), np.arange(m)] += MP.one
        if not self.intercept:
            return solve(system, a - c), MP.zero
        if not any(D):
            # Without curvature any step of b against the slope will do: the search finds how long.
            return a - c, a.sum() / self.w.sum()
        system[:m, m], system[m, :m] = D, MP.one
        step = solve(system, np.append(a - c, -c.sum()))
        return step[:m], step[m]


def _along(fall: Callable[[Any], Any], begin: Any, t: Any) -> Any:
    """Where the derivative along a line is nearly zero, from t on."""
    low, high, at_t = MP.zero, None, fall(t)
    for _ in range(20):
        if abs(at_t) <= abs(begin) / 4:
            break
        if at_t < 0:
            low = t
        else:
            high = t
        t = 2 * t if high is None else (low + high) / 2
        at_t = fall(t)
    return t
