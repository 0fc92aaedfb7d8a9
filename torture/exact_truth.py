"""What certificates claim, in exact arithmetic but for 50 and more digits: least squares.

Everything is computed by the textbook from numbers of `exact_kernels.MP`; `enough_digits` chooses
how many digits the condition of the matrix needs. No result is believed because it was computed
with many digits: a minimum lies between the dual value of the solution found and its primal value,
and these must agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from torture.exact_kernels import MP, Numbers, numbers

DIGITS = 50
"""To which results are known."""

_log = np.frompyfunc(MP.log, 1, 1)


@contextmanager
def enough_digits(largest: float, noise: float, weight: float = 1.0) -> Iterator[None]:
    """Compute with 65 digits and those that K + σ²W⁻¹ loses: twice log10 k·w/σ² is plenty."""
    lost = np.log10(max(largest, 1e-300)) + np.log10(max(weight, 1e-300)) - np.log10(noise)
    with MP.workdps(DIGITS + 15 + int(2 * max(lost, 0.0))):
        yield


def cholesky(A: Numbers) -> Numbers:
    """L with LL' = A, column by column."""
    n = len(A)
    L = np.full((n, n), MP.zero, dtype=object)
    for j in range(n):
        column = A[j:, j] - (L[j:, :j] @ L[j, :j] if j else MP.zero)
        if not column[0] > 0:
            raise ArithmeticError(f"pivot {j} is {MP.nstr(column[0], 5)}: more digits are needed")
        L[j:, j] = column / MP.sqrt(column[0])
    return L


def forward(L: Numbers, B: Numbers) -> Numbers:
    """L⁻¹B."""
    X = B.copy()
    for i in range(len(L)):
        if i:
            X[i] = X[i] - L[i, :i] @ X[:i]
        X[i] = X[i] / L[i, i]
    return X


def backward(L: Numbers, B: Numbers) -> Numbers:
    """L⁻ᵀB."""
    X = B.copy()
    for i in reversed(range(len(L))):
        if i + 1 < len(L):
            X[i] = X[i] - L[i + 1 :, i] @ X[i + 1 :]
        X[i] = X[i] / L[i, i]
    return X


def dots(A: Numbers, B: Numbers) -> Numbers:
    """a'b of every pair of columns."""
    return (A * B).sum(axis=0)


class LeastSquares:
    """½Σw(y - f)² + ½σ²‖f‖² over all functions of a kernel, and the process behind it.

    Parameters
    ----------
    K : numbers of shape (m, m)
        Kernel matrix of the rows.
    Y : array of shape (m, n_outputs)
        Targets, in the units of the objective.
    w : array of shape (m,)
        Positive weights.
    noise : float
        σ².
    """

    def __init__(self, K: Numbers, Y: np.ndarray, w: np.ndarray, noise: float) -> None:
        self.Y, self.w, self.noise = numbers(Y), numbers(w), MP.mpf(noise)
        self.K, self.A = K, K.copy()
        m = np.arange(len(K))
        self.A[m, m] = K[m, m] + self.noise / self.w
        self.L = cholesky(self.A)
        self.v = backward(self.L, forward(self.L, self.Y))
        self.minimum = self._minimum()

    def _minimum(self) -> Numbers:
        """P_min of every output: D(v) ≤ P_min ≤ P(Kv)."""
        Av, f = self.A @ self.v, self.K @ self.v
        lower = self.noise * (dots(self.Y, self.v) - dots(self.v, Av) / 2)
        upper = self.value(f, dots(self.v, f))
        for low, high in zip(lower, upper, strict=True):
            if high - low > MP.mpf(10) ** -DIGITS * abs(high):
                raise ArithmeticError(
                    f"the minimum is only known to lie between {MP.nstr(low, 20)} and "
                    f"{MP.nstr(high, 20)}: more digits are needed"
                )
        return upper

    def value(self, f: Numbers, squared_norms: Numbers) -> Numbers:
        """P of every output, from f on the rows and ‖f‖²."""
        R = self.Y - f
        return (self.w @ (R * R) + self.noise * squared_norms) / 2

    @property
    def zero(self) -> Numbers:
        """P(0) of every output."""
        return self.w @ (self.Y * self.Y) / 2

    def log_evidence(self) -> object:
        """log N(y; 0, K + σ²W⁻¹), summed over outputs."""
        m, n_outputs = self.Y.shape
        determinant = 2 * _log(np.diag(self.L)).sum()
        squares = dots(self.Y, self.v).sum()
        return -(squares + n_outputs * (determinant + m * MP.log(2 * MP.pi))) / 2

    def variance(self, cross: Numbers, diagonal: Numbers) -> Numbers:
        """k(x, x) + σ² - k'(K + σ²W⁻¹)⁻¹k of new points; ``cross`` is of shape (m, n_new)."""
        Z = forward(self.L, cross)
        return diagonal + self.noise - dots(Z, Z)

    def weights_of(self, cross: Numbers) -> Numbers:
        """(K + σ²W⁻¹)⁻¹k of new points, with which the exact mean is y'a."""
        return backward(self.L, forward(self.L, cross))
