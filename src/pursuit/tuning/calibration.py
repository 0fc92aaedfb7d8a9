"""Ridge and error bars by leave-one-out: a row leaves the fit, and the basis if it is in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import Bounds, minimize

from pursuit._types import Floats, Indices
from pursuit.linalg import SpanSolution, Spread

_STEPS = 4
_FLAT = 1e-3
_LIMITS = (1e-6, 1e4), (1e-4, 1e2)
_TAIL_SDS, _TAIL_SHARE = 5.0, 1e-3
_DOUBT = np.log(10.0)
"""Standard deviation, before any row is seen, of the logarithms of both factors of the spread."""


@dataclass(frozen=True)
class Calibration:
    """What leave-one-out changed.

    Attributes
    ----------
    noise_before, noise : float
        Ridge σ² before and after.
    spread : Spread
        Factors of the two parts of the predictive variance.
    rmse_before, rmse : float
        Leave-one-out root mean square error, in normalised units.
    nlpd_before, nlpd : float
        Leave-one-out negative log predictive density a value.
    n_rows : int
        Rows left out in turn.
    tails : str
        A sentence where a Gaussian does not fit the errors, empty where it does.
    """

    noise_before: float
    noise: float
    spread: Spread
    rmse_before: float
    rmse: float
    nlpd_before: float
    nlpd: float
    n_rows: int
    tails: str

    def __str__(self) -> str:
        return (
            f"leave-one-out on {self.n_rows} rows: ridge {self.noise_before:.3g} -> "
            f"{self.noise:.3g}, noise variance {self.spread.noise:.3g}, missed variance times "
            f"{self.spread.missed:.3g}; RMSE {self.rmse_before:.4g} -> {self.rmse:.4g}, negative "
            f"log density {self.nlpd_before:.4g} -> {self.nlpd:.4g}"
            + (f"; {self.tails}" if self.tails else "")
        )


@dataclass(frozen=True)
class HeldOut:
    """Rows to leave out in turn, each with all rows identical to it.

    Attributes
    ----------
    features : array of shape (n, r)
        V_x of each row.
    targets, weights, prior : arrays of r rows
        y, w and k(x, x).
    group : array of int, shape (r,)
        Number of the group of identical rows that a row belongs to.
    leaving : array of shape (n, r), optional
        R⁻¹e_j for a row that is the j-th basis point, 0 for one that is none. A function of the
        span is free of k(·, x_j) when its coordinates are orthogonal to R⁻¹e_j. None where no row
        is a basis point.
    """

    features: Floats
    targets: Floats
    weights: Floats
    prior: Floats
    group: Indices
    leaving: Floats | None = None

    def truncated(self, n: int) -> HeldOut:
        """For the first n basis functions."""
        leaving = None if self.leaving is None else self.leaving[:n]
        return HeldOut(
            self.features[:n], self.targets, self.weights, self.prior, self.group, leaving
        )

    def group_means(self) -> tuple[Floats, Floats]:
        """Weight and mean target of each row's group."""
        weight = np.bincount(self.group, self.weights).astype(np.float64)
        means = [np.bincount(self.group, self.weights * y) / weight for y in self.targets.T]
        return weight[self.group], np.stack(means, axis=1)[self.group]

    def missed(self) -> Floats:
        """k(x,x) - ‖V_x‖², V_x without the row's own basis function."""
        V = self.rotated()
        missed: Floats = np.maximum(self.prior - np.einsum("ij,ij->j", V, V), 0.0)
        return missed

    def rotated(self, L: Floats | None = None) -> Floats:
        """U = L⁻¹V, without its part along L⁻¹R⁻¹e_j for the j-th basis point; L = I for None.

        Where f = U'z is the fit with LL' = V'WV + σ²I, what is left of U gives the fit under
        (R⁻¹e_j)'u = 0.
        """
        U = _solved(L, self.features)
        return U if self.leaving is None else _off(U, _solved(L, self.leaving))

    def leave_out(self, solution: SpanSolution) -> tuple[Floats, Floats]:
        """Errors y - f of the fit without the row's group, and V'B⁻¹V of that fit.

        A basis point leaves the basis, too: without its function, f = U'z and q = ‖U‖² for the U of
        :meth:`rotated`. With w_g and ȳ_g the group's weight and mean target, and h = w_g q, the fit
        without the group predicts ȳ_g - (ȳ_g - f)/(1 - h), and its own q is q/(1 - h).
        """
        U = self.rotated(solution.L)
        fitted = U.T @ solution.z
        q = np.einsum("ij,ij->j", U, U)
        weight, mean = self.group_means()
        left = np.maximum(1.0 - weight * q, 1e-10)
        return self.targets - mean + (mean - fitted) / left[:, None], q / left


def _solved(L: Floats | None, columns: Floats) -> Floats:
    if L is None or len(L) == 0:
        return columns
    solution: Floats = solve_triangular(L, columns, lower=True, check_finite=False)
    return solution


def _off(vectors: Floats, directions: Floats) -> Floats:
    """Columns without their parts along the directions, where those are not zero."""
    squares = np.einsum("ij,ij->j", directions, directions)
    along = np.einsum("ij,ij->j", vectors, directions) / np.where(squares > 0, squares, 1.0)
    rest: Floats = vectors - along * directions
    return rest


@dataclass(frozen=True)
class _Errors:
    """What leaving rows out has found: errors, and the parts of their variance."""

    rows: HeldOut
    missed: Floats
    error: Floats
    q: Floats

    @classmethod
    def of(cls, rows: HeldOut, missed: Floats, solution: SpanSolution) -> _Errors:
        return cls(rows, missed, *rows.leave_out(solution))

    def mean_square(self) -> float:
        return _mean_square(self.error, self.rows.weights)

    def variance(self, spread: Spread) -> Floats:
        """Of an observation; a weight counts copies, each with its own noise."""
        missed = spread.factor(self.missed, self.rows.prior) * self.missed
        variance: Floats = spread.noise * (1.0 + self.q) + missed
        return variance

    def nlpd(self, spread: Spread) -> float:
        variance = self.variance(spread)
        surprise = 0.5 * (np.log(2 * np.pi * variance) + self._squares / variance)
        return float(self._share @ surprise)

    def nlpd_slope(self, spread: Spread) -> Floats:
        """Derivatives of :meth:`nlpd` in the logarithms of the spread's two numbers."""
        variance = self.variance(spread)
        by_variance = 0.5 * self._share * (1.0 - self._squares / variance) / variance
        by_missed = spread.slope(self.missed, self.rows.prior) * self.missed
        return np.array([by_variance @ (spread.noise * (1.0 + self.q)), by_variance @ by_missed])

    @cached_property
    def _squares(self) -> Floats:
        """Mean of the squared errors over the outputs."""
        return np.asarray((self.error**2).mean(axis=1))

    @cached_property
    def _share(self) -> Floats:
        """Of each row in an average."""
        return np.asarray(self.rows.weights / self.rows.weights.sum())


def calibrate(
    solution: SpanSolution, rows: HeldOut, *, keep_ridge: bool = False
) -> tuple[SpanSolution, Calibration]:
    """Choose the ridge by leave-one-out error and the spread by leave-one-out log density."""
    missed = rows.missed()
    before = _Errors.of(rows, missed, solution)
    chosen = solution if keep_ridge else _best_ridge(solution, rows)
    after = before if chosen is solution else _Errors.of(rows, missed, chosen)
    spread = _fit_spread(after, start=chosen.noise)
    return chosen, Calibration(
        noise_before=solution.noise,
        noise=chosen.noise,
        spread=spread,
        rmse_before=float(np.sqrt(before.mean_square())),
        rmse=float(np.sqrt(after.mean_square())),
        nlpd_before=before.nlpd(Spread(solution.noise)),
        nlpd=after.nlpd(spread),
        n_rows=len(rows.weights),
        tails=_describe_tails(after, spread),
    )


def _best_ridge(solution: SpanSolution, rows: HeldOut) -> SpanSolution:
    """Walk along powers of 4 from the ridge that the evidence found while the error falls."""
    best, error = solution, _mean_square(rows.leave_out(solution)[0], rows.weights)
    for direction in (4.0, 0.25):
        improved = False
        for _ in range(_STEPS):
            candidate = best.with_noise(best.noise * direction)
            trial = _mean_square(rows.leave_out(candidate)[0], rows.weights)
            if trial >= (1.0 - _FLAT) * error:
                break
            best, error, improved = candidate, trial, True
        if improved:
            break
    return best


def _fit_spread(found: _Errors, *, start: float) -> Spread:
    """Both factors by log density, from the errors' own scale.

    Rows of which the basis misses next to nothing do not tell the factor of what it misses of
    others, and rows far from each other do not tell noise from what is missed. Where they are all
    there is, the factor stays near 1 and the noise near the ridge: N(0, log² 10) is what is known
    of their logarithms before any group of rows is seen.
    """
    weights = found.rows.weights
    noise = max(found.mean_square() / float(np.average(1.0 + found.q, weights=weights)), 1e-300)
    low, high = np.log(np.array(_LIMITS)).T + np.array([np.log(noise), 0.0])
    expected = np.array([np.log(start), 0.0])
    n_groups = found.rows.group.max() + 1

    def objective(point: Floats) -> tuple[float, Floats]:
        spread = Spread(*np.exp(point))
        surprise = (point - expected) / _DOUBT
        value = found.nlpd(spread) + 0.5 * float(surprise @ surprise) / n_groups
        return value, found.nlpd_slope(spread) + surprise / _DOUBT / n_groups

    starts = [(np.log(noise), 0.0), (np.log(noise), -2.0), (np.log(start), 0.0)]
    tried = [
        minimize(
            objective,
            np.clip(point, low, high),
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(low, high),
        )
        for point in starts
    ]
    best = min(tried, key=lambda result: float(result.fun))
    return Spread(*(float(number) for number in np.exp(best.x)))


def _describe_tails(found: _Errors, spread: Spread) -> str:
    scaled = np.abs(found.error) / np.sqrt(found.variance(spread))[:, None]
    share = float(np.mean(scaled > _TAIL_SDS))
    if share <= _TAIL_SHARE:
        return ""
    return (
        f"{share:.2%} of the errors are beyond {_TAIL_SDS:g} standard deviations (largest "
        f"{scaled.max():.3g}): a few huge errors set the error bars, which are too wide elsewhere"
    )


def _mean_square(error: Floats, weights: Floats) -> float:
    return float((weights @ error**2).mean() / weights.sum())
