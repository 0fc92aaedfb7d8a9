"""Ridge and error bars by leave-one-out, on rows that took no part in the choice of the basis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from pursuit.linalg import SpanSolution, Spread

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_STEPS = 4
_FLAT = 1e-3
_LIMITS = (1e-6, 1e4), (1e-4, 1e2)
_TAIL_SDS, _TAIL_SHARE = 5.0, 1e-3


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
    """

    features: Floats
    targets: Floats
    weights: Floats
    prior: Floats
    group: Indices

    def truncated(self, n: int) -> HeldOut:
        """For the first n basis functions."""
        return HeldOut(self.features[:n], self.targets, self.weights, self.prior, self.group)

    def group_means(self) -> tuple[Floats, Floats]:
        """Weight and mean target of each row's group."""
        weight = np.bincount(self.group, self.weights).astype(np.float64)
        means = [np.bincount(self.group, self.weights * y) / weight for y in self.targets.T]
        return weight[self.group], np.stack(means, axis=1)[self.group]

    def missed(self) -> Floats:
        """k(x,x) - ‖V_x‖²."""
        squares = np.einsum("ij,ij->j", self.features, self.features)
        missed: Floats = np.maximum(self.prior - squares, 0.0)
        return missed

    def leave_out(self, solution: SpanSolution) -> tuple[Floats, Floats]:
        """Errors y - f of the fit without the row's group, and V'B⁻¹V of that fit.

        With q = V'B⁻¹V, w_g and ȳ_g the group's weight and mean target, and h = w_g q, the fit
        without the group predicts ȳ_g - (ȳ_g - f)/(1 - h), and its own q is q/(1 - h).
        """
        U = solution.rotated(self.features)
        fitted = U.T @ solution.z
        q = np.einsum("ij,ij->j", U, U)
        weight, mean = self.group_means()
        left = np.maximum(1.0 - weight * q, 1e-10)
        return self.targets - mean + (mean - fitted) / left[:, None], q / left


def calibrate(
    solution: SpanSolution, rows: HeldOut, *, reserved: bool = True, keep_ridge: bool = False
) -> tuple[SpanSolution, Calibration]:
    """Choose the ridge by leave-one-out error and the spread by leave-one-out log density.

    Rows that were not ``reserved`` have had a part in the choice of the basis. The basis misses
    little of them, whatever it misses of others: they tell nothing of the missed variance and too
    much good of a small ridge, and only the noise variance is set by them.
    """
    before = rows.leave_out(solution)
    chosen = solution if keep_ridge or not reserved else _best_ridge(solution, rows)
    after = rows.leave_out(chosen)
    spread = _fit_spread(rows, *after, start=chosen.noise, missed_too=reserved)
    plain = Spread(solution.noise)
    return chosen, Calibration(
        noise_before=solution.noise,
        noise=chosen.noise,
        spread=spread,
        rmse_before=float(np.sqrt(_mean_square(before[0], rows.weights))),
        rmse=float(np.sqrt(_mean_square(after[0], rows.weights))),
        nlpd_before=_nlpd(rows, *before, plain),
        nlpd=_nlpd(rows, *after, spread),
        n_rows=len(rows.weights),
        tails=_describe_tails(rows, *after, spread),
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


def _variance(rows: HeldOut, q: Floats, spread: Spread) -> Floats:
    """Leave-one-out variance of an observation; a weight counts copies, each with its own noise."""
    missed = rows.missed()
    return spread.noise * (1.0 + q) + spread.factor(missed, rows.prior) * missed


def _nlpd(rows: HeldOut, error: Floats, q: Floats, spread: Spread) -> float:
    variance = _variance(rows, q, spread)[:, None]
    surprise = 0.5 * (np.log(2 * np.pi * variance) + error**2 / variance).mean(axis=1)
    return float(np.average(surprise, weights=rows.weights))


def _fit_spread(
    rows: HeldOut, error: Floats, q: Floats, *, start: float, missed_too: bool
) -> Spread:
    """Both factors, or that of the noise alone, by log density, from the errors' own scale."""
    noise = max(
        _mean_square(error, rows.weights) / float(np.average(1.0 + q, weights=rows.weights)), 1e-300
    )
    low, high = np.log(np.array(_LIMITS)).T + np.array([np.log(noise), 0.0])
    if not missed_too:
        low[1] = high[1] = 0.0

    def objective(point: Floats) -> float:
        return _nlpd(rows, error, q, Spread(*np.exp(point)))

    starts = [(np.log(noise), 0.0), (np.log(noise), -2.0), (np.log(start), 0.0)]
    found = [
        minimize(
            objective,
            np.clip(point, low, high),
            method="Nelder-Mead",
            bounds=Bounds(low, high),
            options={"maxiter": 200, "xatol": 1e-3, "fatol": 1e-6},
        )
        for point in starts
        if missed_too or point[1] == 0.0
    ]
    best = min(found, key=lambda result: float(result.fun))
    return Spread(*(float(number) for number in np.exp(best.x)))


def _describe_tails(rows: HeldOut, error: Floats, q: Floats, spread: Spread) -> str:
    scaled = np.abs(error) / np.sqrt(_variance(rows, q, spread))[:, None]
    share = float(np.mean(scaled > _TAIL_SDS))
    if share <= _TAIL_SHARE:
        return ""
    return (
        f"{share:.2%} of the errors are beyond {_TAIL_SDS:g} standard deviations (largest "
        f"{scaled.max():.3g}): a few huge errors set the error bars, which are too wide elsewhere"
    )


def _mean_square(error: Floats, weights: Floats) -> float:
    return float((weights @ error**2).mean() / weights.sum())
