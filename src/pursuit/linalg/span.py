"""Solutions in the span of chosen basis functions: coefficients, variances, distances.

:class:`SpanSolution` is the regularised least-squares solution, :class:`PredictiveVariance` the
variance of its predictions, and :class:`StepwiseSolution` a solution built step by step.
:class:`SpanPoints` brackets distances of feature space by distances in the span.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import LinAlgError, solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtrs

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.linalg.cholesky import EPS, INDEFINITE, NotPositiveDefiniteError
from pursuit.linalg.workers import single_threaded_blas

LOST_DIGITS = 1e-4
"""The share of σ² that rounding may reach before V'WV is summed anew from whitened rows. A smaller
share takes that second pass more often."""

SINGLE_DIGITS = 1e-5
"""The same for sums of float32 tiles, which are taken only where less is lost: what rests on the
sums then has errors of about 1e-6, error bars less. A larger share takes float32 more often."""

_GUARD = 16
"""Power of the missed share with which the prior's variance returns; a higher one returns it later.
"""

_ROUNDINGS = 8.0
"""The error of a product or a factor is taken to be this many roundings, times √n."""

_TYPICAL, _PROVED_OVER_TYPICAL = 4.0, 64.0
"""Error of a kernel value in units of rounding, and how far proven bounds lie above what is seen.
More of the first or less of the second loosens bounds on the evidence."""

_TOLERATED = 64.0
"""Landmarks are used while squares in their span are known to this many times √rounding."""


def gram_rounding(R: Floats, largest: float, noise: float, dtype: DTypeLike = np.float64) -> float:
    """An estimate of the rounding of K_S'WK_S, magnified by R⁻¹ on both sides, relative to σ²."""
    if len(R) == 0:
        return 0.0
    rounding = float(np.finfo(dtype).eps) * largest * np.sqrt(len(R))
    return float(rounding / (noise * float(np.diag(R).min()) ** 2))


@single_threaded_blas()
def _solve_lower(L: Floats, rhs: Floats, *, transposed: bool = False) -> Floats:
    if rhs.size == 0:
        return rhs
    # As scipy's solve_triangular, whose checks take longer than the solution for one row.
    by_column = L.flags.f_contiguous
    how = {"lower": by_column, "trans": transposed == by_column}
    solution, info = dtrtrs(L if by_column else L.T, rhs, **how)
    if info != 0:
        raise LinAlgError(f"singular matrix: the diagonal is 0 at {info - 1}.")
    return np.asarray(solution)


def invert_lower(L: Floats) -> Floats:
    """L⁻¹ of a lower triangle."""
    return _solve_lower(L, np.eye(len(L)))


@dataclass(frozen=True)
class SpanSolution:
    """Minimiser of ½‖y - Vu‖² + ½σ²‖u‖² with V = K_S R⁻ᵀ, and all its truncations (Formulas §4).

    ``R R' = K_SS``, ``L L' = V'WV + σ²I`` and ``z = L⁻¹V'Wy``. Leading blocks of R, L and z belong
    to the first basis functions alone, so the model with n functions is a slice of this one.

    Attributes
    ----------
    R, L : arrays of shape (n, n)
        Lower-triangular factors.
    z : array of shape (n, n_outputs)
        The objective is P = ½y'Wy - ½‖z‖².
    noise : float
        σ².
    """

    R: Floats
    L: Floats
    z: Floats
    noise: float

    @classmethod
    def from_gram(cls, R: Floats, gram: Floats, cross: Floats, noise: float) -> SpanSolution:
        """From K_S'WK_S and K_S'Wy: whiten both with R, then solve."""
        half = _solve_lower(R, gram)
        whitened = _solve_lower(R, np.ascontiguousarray(half.T))
        return cls.from_whitened(R, whitened, _solve_lower(R, cross), noise)

    @classmethod
    @single_threaded_blas()
    def from_whitened(cls, R: Floats, gram: Floats, cross: Floats, noise: float) -> SpanSolution:
        """From V'WV and V'Wy."""
        if len(gram) == 0:
            return cls(R, gram, cross, noise)
        B = 0.5 * (gram + gram.T)
        B[np.diag_indices_from(B)] += noise
        L, info = dpotrf(B, lower=1, clean=1)
        if info != 0:
            raise ArithmeticError(
                f"V'WV + {noise:g} I lost positive definiteness to rounding at column {info - 1}."
            )
        L = np.asarray(L)
        return cls(R, L, _solve_lower(L, cross), noise)

    @single_threaded_blas()
    def statistics_rounding(
        self, share: float, dtype: DTypeLike = np.float64
    ) -> tuple[Floats, float, float, bool]:
        """The size of R⁻¹ per row, errors of RR' and of sums over rows, and whether V was formed.

        Sums of many terms round as random signs do (Higham and Mary 2019), not as in the worst
        case: a row of R⁻¹ counts with its norm, and values of the kernel with a part of what can
        be proved of them, ``share``. In float32 all of the arithmetic is coarser by one factor.
        """
        coarser = float(np.finfo(dtype).eps) / EPS
        sizes = np.linalg.norm(self.R, axis=1)
        spread = np.linalg.norm(invert_lower(self.R) * sizes, axis=1)
        kernel = max(_TYPICAL * EPS, share / _PROVED_OVER_TYPICAL)
        inner = ((self.R @ self.L) ** 2).sum(axis=1) - self.noise * (self.R**2).sum(axis=1)
        lost = gram_rounding(self.R, float(inner.max(initial=0.0)), self.noise, dtype)
        return spread, kernel, coarser * kernel, lost > LOST_DIGITS

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return len(self.R)

    def truncated(self, n: int) -> SpanSolution:
        """The solution in the span of the first n basis functions."""
        return SpanSolution(
            self.R[:n, :n].copy(), self.L[:n, :n].copy(), self.z[:n].copy(), self.noise
        )

    def with_noise(self, noise: float) -> SpanSolution:
        """The solution for another σ²."""
        return SpanSolution.from_whitened(self.R, *self.whitened(), noise)

    @single_threaded_blas()
    def whitened(self) -> tuple[Floats, Floats]:
        """V'WV and V'Wy."""
        gram = self.L @ self.L.T
        gram[np.diag_indices_from(gram)] -= self.noise
        return gram, self.L @ self.z

    def plus(self, gram: Floats, cross: Floats) -> SpanSolution:
        """The solution with V'WV and V'Wy of further rows added."""
        own_gram, own_cross = self.whitened()
        return SpanSolution.from_whitened(self.R, own_gram + gram, own_cross + cross, self.noise)

    def scaled(self, share: float) -> SpanSolution:
        """The solution with the weights of all rows multiplied by a number."""
        gram, cross = self.whitened()
        return SpanSolution.from_whitened(self.R, share * gram, share * cross, self.noise)

    @single_threaded_blas()
    def damped(self) -> SpanSolution:
        """The solution with K_SS + τD for K_SS, D = diag K_SS, where pivots of K_SS are small.

        It minimises P + ½σ²τΣ_j D_jj β_j² over the coefficients β of the same functions, with τ
        twice ``limits.ADDED_TOLERANCE``, so that P rises by at most that sum at any other β, and
        Σ D_jj β_j² is at most 2P/(σ²τ) for the best value P. Functions that nearly equal each other
        have large coefficients of opposite signs otherwise, which nothing but rounding limits: it
        moves ‖f‖² by a multiple of (Σ_j |β_j|√D_jj)². With R̃R̃' = K_SS + τD, Ṽ = V(R̃⁻¹R)', and
        ṼṼ' is at most VV'; ½y'Wy - ½‖z‖² is P with that sum. A solution whose pivots are all above
        the tolerance stays what it is, a damped one among them.
        """
        squares = (self.R**2).sum(axis=1)
        if not np.any(np.diag(self.R) ** 2 <= limits.ADDED_TOLERANCE * squares):
            return self
        R, _ = dpotrf(self.R @ self.R.T + np.diag(2.0 * limits.ADDED_TOLERANCE * squares), lower=1)
        R = np.tril(R)
        turned, (gram, cross) = _solve_lower(R, self.R), self.whitened()
        return SpanSolution.from_whitened(R, turned @ gram @ turned.T, turned @ cross, self.noise)

    def emptied(self) -> SpanSolution:
        """The solution without any rows."""
        nothing = np.zeros_like(self.L)
        return SpanSolution.from_whitened(self.R, nothing, np.zeros_like(self.z), self.noise)

    def improved(self, slopes: Floats) -> tuple[SpanSolution, float]:
        """One step of Newton's method for the true P with these factors, and its size in z.

        ``slopes`` are K_S'W(y - K_Sβ) for the coefficients β of this solution. With the gradient
        R⁻¹K_S'W(y - K_Sβ) - σ²u, u moves by (LL')⁻¹ and z = L'u by L⁻¹ times it. The change of
        predictions at the rows is not longer than that of z.
        """
        gradient = _solve_lower(self.R, slopes) - self.noise * self.coordinates()
        step = _solve_lower(self.L, gradient)
        return replace(self, z=self.z + step), float(np.linalg.norm(step))

    def gains(self) -> Floats:
        """½z²: how much each basis function lowers the objective, per output."""
        return 0.5 * self.z**2

    def values(self, target_norms: Floats) -> Floats:
        """P of the first 1, 2, …, n functions, summed over outputs, from y'Wy of each output."""
        return 0.5 * float(target_norms.sum()) - np.cumsum(self.gains().sum(axis=1))

    def coordinates(self) -> Floats:
        """u = L⁻ᵀz, coefficients on the orthonormal functions V."""
        return _solve_lower(self.L, self.z, transposed=True)

    def coefficients(self) -> Floats:
        """β = R⁻ᵀu, coefficients on the kernel functions k(·, x_S)."""
        return _solve_lower(self.R, self.coordinates(), transposed=True)

    def squared_norms(self) -> Floats:
        """‖f‖² = ‖u‖² for each output."""
        norms: Floats = (self.coordinates() ** 2).sum(axis=0)
        return norms

    def solve_inner(self, cross: Floats) -> tuple[Floats, Floats]:
        """The fit to K_S'Wy = cross: its kernel coefficients β, and ‖f‖² for each column.

        u = (LL')⁻¹R⁻¹ cross and β = R⁻ᵀu; ‖f‖² = ‖u‖².
        """
        half = _solve_lower(self.L, _solve_lower(self.R, cross))
        u = _solve_lower(self.L, half, transposed=True)
        squares: Floats = np.einsum("ij,ij->j", u, u)
        return _solve_lower(self.R, u, transposed=True), squares

    def features(self, kernel_rows: Floats) -> Floats:
        """V_x' = R⁻¹ k_S(x)' for a block of rows k_S(x): shape (n, rows)."""
        return _solve_lower(self.R, kernel_rows.T)

    def rotated(self, features: Floats) -> Floats:
        """U_x = L⁻¹V_x: predictions with the first n functions are Σ_{j≤n} U_x[j] z[j]."""
        return _solve_lower(self.L, features)


@dataclass(frozen=True)
class PredictiveVariance:
    """Variance of f(x) = noise·‖L⁻¹V_x‖² + missed·(k(x,x) - ‖V_x‖²), and of an observation.

    With noise = σ² and missed = 1 this is the predictive variance of the sparse process (Formulas
    §11). Calibration sets both from the data. Where the basis says nothing about x, all of k(x,x)
    is missed, and the variance is that of the prior however small ``missed`` is: the factor rises
    from ``missed`` to 1 with a high power of the share that is missed.
    """

    noise: float
    missed: float = 1.0

    def factor(self, missed: Floats, prior: Floats) -> Floats:
        """What the missed variance is multiplied by."""
        if self.missed >= 1.0:
            return np.full_like(missed, self.missed)
        return self.missed + (1.0 - self.missed) * _guard(missed, prior)

    def slope(self, missed: Floats, prior: Floats) -> Floats:
        """Derivative of :meth:`factor` in the logarithm of ``missed``; at 1, that from above."""
        if self.missed >= 1.0:
            return np.full_like(missed, self.missed)
        return self.missed * (1.0 - _guard(missed, prior))

    def variance(self, solution: SpanSolution, kernel_rows: Floats, prior: Floats) -> Floats:
        """Variance of f at each row, never negative."""
        V = solution.features(kernel_rows)
        missed = np.maximum(prior - np.einsum("ij,ij->j", V, V), 0.0)
        U = solution.rotated(V)
        variance: Floats = self.factor(missed, prior) * missed
        variance += self.noise * np.einsum("ij,ij->j", U, U)
        return variance

    def derivatives(
        self, solution: SpanSolution, kernel_rows: Floats, prior: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """:meth:`variance`, and its derivatives by k_S(x), of shape (n, rows), and by k(x, x).

        With m = k(x,x) - ‖V_x‖² missed and F = factor·m, they are 2R⁻ᵀ(noise·L⁻ᵀU_x - ∂F/∂m·V_x)
        and ∂F/∂m + ∂F/∂k(x,x).
        """
        V = solution.features(kernel_rows)
        missed = prior - np.einsum("ij,ij->j", V, V)
        there = missed > 0
        missed = np.where(there, missed, 0.0)
        by_missed, by_prior = np.full_like(missed, self.missed), np.zeros_like(missed)
        if self.missed < 1.0:
            back = (1.0 - self.missed) * _guard(missed, prior)
            by_missed += (_GUARD + 1) * back
            by_prior -= _GUARD * back * missed / np.where(prior > 0, prior, 1.0)
        by_missed *= there
        U = solution.rotated(V)
        variance: Floats = self.factor(missed, prior) * missed
        variance += self.noise * np.einsum("ij,ij->j", U, U)
        inner = self.noise * _solve_lower(solution.L, U, transposed=True) - by_missed * V
        by_kernel = 2.0 * _solve_lower(solution.R, inner, transposed=True)
        return variance, by_kernel, by_missed + by_prior

    @single_threaded_blas()
    def covariance(self, solution: SpanSolution, kernel_rows: Floats, block: Floats) -> Floats:
        """Joint covariance of f at the rows, whose diagonal is :meth:`variance`."""
        V = solution.features(kernel_rows)
        U = solution.rotated(V)
        residual = block - V.T @ V
        prior = np.diag(block)
        missed = np.maximum(np.diag(residual), 0.0)
        residual[np.diag_indices_from(residual)] = missed
        root = np.sqrt(self.factor(missed, prior))
        covariance: Floats = root[:, None] * residual * root + self.noise * (U.T @ U)
        return 0.5 * (covariance + covariance.T)


def _guard(missed: Floats, prior: Floats) -> Floats:
    """Weight of the prior's variance: near 1 only where all of it is missed."""
    share: Floats = missed / np.where(prior > 0, prior, 1.0)
    return share**_GUARD


@dataclass(frozen=True)
class StepwiseSolution:
    """f_k = β_k f_{k-1} + α_k k(·, x_{S(k)}), and the functions it went through (Z03 Algorithm 1).

    Several steps may add to one term. The function of the first n terms is the one just after the
    n-th of them was first added, and for the last of them the one after all steps; so every
    truncation is a slice of the steps. (Z03 is Zhang 2002b.)

    Attributes
    ----------
    term : array of int of shape (n_steps,)
        Which term each step added to; terms are numbered in the order of their first steps.
    alpha, beta : arrays of shape (n_steps,)
        α and β.
    squared_norm : array of shape (n_steps,)
        ‖f‖² after each step.
    decrease : array of shape (n_steps,)
        How much all steps so far have lowered the objective.
    """

    term: Indices
    alpha: Floats
    beta: Floats
    squared_norm: Floats
    decrease: Floats

    @property
    def size(self) -> int:
        """Number of terms."""
        return int(self.term.max(initial=-1)) + 1

    @property
    def steps(self) -> Indices:
        """How many steps lead to the function of the first 1, 2, … terms."""
        steps: Indices = np.unique(self.term, return_index=True)[1] + 1
        steps[-1:] = len(self.term)
        return steps

    def truncated(self, n: int) -> StepwiseSolution:
        """The function of the first n terms."""
        last = int(self.steps[n - 1])
        return StepwiseSolution(
            self.term[:last],
            self.alpha[:last],
            self.beta[:last],
            self.squared_norm[:last],
            self.decrease[:last],
        )

    def gains(self) -> Floats:
        """How much the n-th term lowers the objective, for n = 1, 2, …: shape (n, 1)."""
        return np.diff(self.decrease[self.steps - 1], prepend=0.0)[:, None]

    def coefficients(self) -> Floats:
        """Coefficients of the terms, Σ_k α_k Π_{l>k} β_l over the steps of each: shape (n, 1)."""
        later = np.cumprod(np.append(self.beta[1:], 1.0)[::-1])[::-1]
        total = np.zeros((self.size, 1))
        np.add.at(total[:, 0], self.term, self.alpha * later)
        return total

    def squared_norms(self) -> Floats:
        """‖f‖², as an array of one output."""
        return self.squared_norm[-1:] if len(self.term) else np.zeros(1)


@single_threaded_blas()
def trusted_size(R: Floats, backward_error: float, rounding: float = EPS) -> tuple[int, float]:
    """The number of landmarks to use, and the relative error ρ of squares in their span.

    If K_SS = RR' and k_S(x) have errors of at most ε √(k(s,s) k(x,x)), then ‖R⁻¹k_S(x)‖² has an
    error of at most ρ k(x,x), ρ = ε ‖R⁻¹ diag(k(s,s))^½‖_F². The norm grows with every landmark,
    most with one near the span of those before; the first n with ρ ≤ 64 √rounding are used.
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
    """Items as points of R^(n+1) whose distances bracket those of feature space.

    With coordinates V_x = R⁻¹k_S(x) in the span of the landmarks S and d_x = k(x,x) - ‖V_x‖² what
    they miss (Smola and Schölkopf 2000, section 6.3; Formulas §6)::

        ‖V_x-V_z‖² + (√d_x-√d_z)²  ≤  ‖φ(x)-φ(z)‖²  ≤  ‖V_x-V_z‖² + (√d_x+√d_z)²

    The left side is a distance in R^(n+1), √d being the last coordinate; the right side is larger
    by 4√d_x√d_z. Rounding must not make a bound wrong, so every point has a radius: lower bounds
    lose, and upper bounds gain, the radii of both points.

    Attributes
    ----------
    points : array of shape (rows, n + 1)
        [V_x, √d_x].
    norms : array of shape (rows,)
        Their squared lengths.
    squares : array of shape (rows,)
        k(x, x).
    radius : array of shape (rows,)
        How far rounding may have moved the point.
    """

    points: Floats
    norms: Floats
    squares: Floats
    radius: Floats

    @classmethod
    def place(cls, V: Floats, squares: Floats, error: float) -> SpanPoints:
        """From V (rows x n), k(x, x), and the relative error ρ of squares in the span.

        The error of √(d + δ) is at most min(√δ, δ/√d), with δ = 4ρ k(x,x).

        Raises
        ------
        NotPositiveDefiniteError
            If d is negative beyond rounding: the kernel is not positive semi-definite.
        """
        d = squares - np.einsum("ij,ij->i", V, V)
        delta = 4.0 * error * squares
        short = d + delta + INDEFINITE * squares
        if len(d) and short.min() < 0:
            worst = int(short.argmin())
            raise NotPositiveDefiniteError(worst, float(d[worst]))
        root = np.sqrt(np.maximum(d, 0.0))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            moved = np.fmin(np.sqrt(delta), delta / root)
        points = np.column_stack([V, root])
        norms = np.einsum("ij,ij->i", points, points)
        return cls(points, norms, squares, 2.0 * error * np.sqrt(squares) + moved)

    def __getitem__(self, rows: slice) -> SpanPoints:
        """Some of the points."""
        return SpanPoints(
            self.points[rows], self.norms[rows], self.squares[rows], self.radius[rows]
        )

    @single_threaded_blas()
    def bounds(self, queries: SpanPoints) -> tuple[Floats, Floats]:
        """Lower and upper bounds of ‖φ(x)-φ(z)‖, one row per query x, one column per point z.

        One matrix product; the bounds allow for the rounding of ‖x‖² + ‖z‖² - 2x'z.
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
