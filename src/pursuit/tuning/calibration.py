"""Calibration by leave-one-out: ridge, error bars, class probabilities, number of functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self, TypeVar

import numpy as np
from scipy.linalg import eigh, solve_triangular
from scipy.optimize import Bounds, minimize, minimize_scalar
from scipy.special import chdtrc, erf, expit, logsumexp

from pursuit._types import Floats, Indices
from pursuit.greedy import size_grid
from pursuit.linalg import PredictiveVariance, SpanSolution

_STEPS = 4  # Most factors of 4 that the ridge moves.
_FLAT = 1e-3  # A smaller relative decrease of the error ends the search for a ridge.
_LIMITS = (1e-6, 1e4), (1e-4, 1e2)
_TAIL_SDS, _TAIL_SHARE = 5.0, 1e-3  # Share of errors beyond so many deviations that is reported.
_DIRECTIONS, _ROWS_PER_DIRECTION = 10, 20
"""Directions in which the size of the errors may vary, and the fewest rows for each. More: finer
variation is seen, and coarse variation less surely."""
_RARE = 1e-4
"""Chance below which errors of equal size everywhere are not believed in."""
_WORTH_TELLING = 0.7
"""Standard deviation of the log variance over the rows that is: about a factor of 2."""
_LEAST_SQUARE = 1e-8
"""Smaller squares of standardised errors count as this."""
_DOUBT = np.log(10.0)
"""Prior standard deviation of the logarithms of both factors of the spread. Smaller: factors stay
nearer to the ridge and to 1."""
# Williams and Barber (1998): the logistic function as a sum of five error functions, with the
# numbers that scikit-learn uses.
STEEPNESS = np.array([0.41, 0.4, 0.37, 0.44, 0.39])
PARTS = np.array([-1854.8214151, 3516.89893646, 221.29346712, 128.12323805, -2010.49422654])
_CONFIDENCE_LIMITS = (1e-4, 1e2), (1e-6, 1.0)
"""Ranges of spread and missed."""
_LEAST = 1e-15  # Smallest probability whose logarithm is taken.
_ENOUGH = 0.01  # Larger: smaller models.
LOSS_IS_NOTHING = 1e-3
"""A decrease of the log loss per row that is not worth further basis functions or near rows.
Larger: smaller models."""


@dataclass(frozen=True)
class Calibration:
    """The outcome of leave-one-out calibration.

    Attributes
    ----------
    noise_before, noise : float
        Ridge σ² before and after.
    spread : PredictiveVariance
        Factors of the two parts of the predictive variance.
    rmse_before, rmse : float
        Leave-one-out root mean square error, in normalised units.
    nlpd_before, nlpd : float
        Leave-one-out negative log predictive density per target value.
    n_rows : int
        Number of rows that were left out in turn.
    tails : str
        A sentence if a Gaussian does not fit the errors, else empty.
    varying : str
        A sentence if the size of the errors varies with the inputs, else empty.
    """

    noise_before: float
    noise: float
    spread: PredictiveVariance
    rmse_before: float
    rmse: float
    nlpd_before: float
    nlpd: float
    n_rows: int
    tails: str
    varying: str = ""

    def __str__(self) -> str:
        return (
            f"leave-one-out on {self.n_rows} rows: ridge {self.noise_before:.3g} -> "
            f"{self.noise:.3g}, noise variance {self.spread.noise:.3g}, missed variance times "
            f"{self.spread.missed:.3g}; RMSE {self.rmse_before:.4g} -> {self.rmse:.4g}, negative "
            f"log density {self.nlpd_before:.4g} -> {self.nlpd:.4g}"
            + (f"; {self.tails}" if self.tails else "")
        )


class RidgeSolution(Protocol):
    """A solution for any ridge and for the first basis functions alone."""

    @property
    def noise(self) -> float:
        """σ²."""
        ...

    @property
    def size(self) -> int:
        """Number of basis functions."""
        ...

    def with_noise(self, noise: float) -> Self:
        """The solution for another σ²."""
        ...

    def truncated(self, n: int) -> Self:
        """The solution in the span of the first n basis functions."""
        ...


Ridged = TypeVar("Ridged", bound=RidgeSolution)
_Left = TypeVar("_Left", contravariant=True)


class LeavableRows(Protocol[_Left]):
    """Rows that leave a solution in turn: see `HeldOut`."""

    @property
    def weights(self) -> Floats:
        """Weight of each of them."""
        ...

    @property
    def prior(self) -> Floats:
        """k(x, x)."""
        ...

    @property
    def group(self) -> Indices:
        """Number of the group of identical rows."""
        ...

    @property
    def features(self) -> Floats:
        """V_x of each of them."""
        ...

    @property
    def ratio(self) -> Floats | float:
        """Noise variance of each row relative to the spread's."""
        ...

    def missed(self) -> Floats:
        """k(x,x) - ‖V_x‖²."""
        ...

    def leave_out(self, solution: _Left, /) -> tuple[Floats, Floats]:
        """Errors of the fit without the row, and V'B⁻¹V of that fit."""
        ...

    def truncated(self, n: int) -> Self:
        """For the first n basis functions."""
        ...


@dataclass(frozen=True)
class HeldOut:
    """Rows to leave out in turn, each together with all rows identical to it.

    Attributes
    ----------
    features : array of shape (n, r)
        V_x of each row.
    targets, weights, prior : arrays of r rows
        y, w and k(x, x).
    group : array of int, shape (r,)
        Number of the group of identical rows that a row belongs to.
    leaving : array of shape (n, r), optional
        R⁻¹e_j for a row that is the j-th basis point, 0 for other rows. A function of the span does
        not use k(·, x_j) if its coordinates are orthogonal to R⁻¹e_j. None if no row is a basis
        point.
    ratio : array of shape (r,), optional
        Noise variance of each row relative to the spread's, where it varies; the weights are the
        user's divided by it.
    """

    features: Floats
    targets: Floats
    weights: Floats
    prior: Floats
    group: Indices
    leaving: Floats | None = None
    ratio: Floats | float = 1.0

    def truncated(self, n: int) -> HeldOut:
        """For the first n basis functions."""
        leaving = None if self.leaving is None else self.leaving[:n]
        return replace(self, features=self.features[:n], leaving=leaving)

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

        If f = U'z is the fit with LL' = V'WV + σ²I, the rest of U gives the fit under the
        constraint (R⁻¹e_j)'u = 0.
        """
        U = _solved(L, self.features)
        return U if self.leaving is None else _off(U, _solved(L, self.leaving))

    def leave_out(self, solution: SpanSolution) -> tuple[Floats, Floats]:
        """Errors y - f of the fit without the row's group, and V'B⁻¹V of that fit.

        A basis point also leaves the basis: without its function, f = U'z and q = ‖U‖² for the U of
        :meth:`rotated`. With w_g and ȳ_g the group's weight and mean target, and h = w_g q, the fit
        without the group predicts ȳ_g - (ȳ_g - f)/(1 - h), and its own q is q/(1 - h).
        """
        U = self.rotated(solution.L)
        fitted = U.T @ solution.z
        q = np.einsum("ij,ij->j", U, U)
        weight, mean = self.group_means()
        remaining = np.maximum(1.0 - weight * q, 1e-10)
        return self.targets - mean + (mean - fitted) / remaining[:, None], q / remaining


def _solved(L: Floats | None, columns: Floats) -> Floats:
    if L is None or len(L) == 0:
        return columns
    solution: Floats = solve_triangular(L, columns, lower=True, check_finite=False)
    return solution


def _off(vectors: Floats, directions: Floats) -> Floats:
    """Columns without their parts along those directions that are not zero."""
    squares = np.einsum("ij,ij->j", directions, directions)
    along = np.einsum("ij,ij->j", vectors, directions) / np.where(squares > 0, squares, 1.0)
    rest: Floats = vectors - along * directions
    return rest


@dataclass(frozen=True)
class Replicates:
    """Distinct targets at identical rows: what they say about the noise.

    Attributes
    ----------
    n : int
        Number of targets less the number of their means.
    squares : float
        Sum of squares about the means, on average over the outputs.
    n_rows : int
        Number of rows that were looked at.
    """

    n: int = 0
    squares: float = 0.0
    n_rows: int = 0

    def __add__(self, other: Replicates) -> Replicates:
        return Replicates(
            self.n + other.n, self.squares + other.squares, self.n_rows + other.n_rows
        )

    def surprise(self, noise: float) -> tuple[float, float]:
        """Negative log density per row looked at, and its slope in log ``noise``."""
        if self.n == 0:
            return 0.0, 0.0
        value = 0.5 * (self.n * np.log(2 * np.pi * noise) + self.squares / noise)
        slope = 0.5 * (self.n - self.squares / noise)
        return float(value / self.n_rows), float(slope / self.n_rows)


NO_REPLICATES = Replicates()


@dataclass(frozen=True)
class LeftOut:
    """Errors of predictions for rows that were left out, and the parts of their variance.

    Attributes
    ----------
    error : array of shape (n_rows, n_outputs)
        What is left of the targets.
    missed : array of shape (n_rows,)
        Variance that the spread's factor multiplies.
    q : array of shape (n_rows,)
        Variance that the spread's noise multiplies, beside that of the observation itself.
    prior, weights, group : arrays of shape (n_rows,)
        As those of `HeldOut`.
    replicates : Replicates
        What identical rows say about the noise.
    ratio : array of shape (n_rows,), optional
        As that of `HeldOut`.
    """

    error: Floats
    missed: Floats
    q: Floats
    prior: Floats
    weights: Floats
    group: Indices
    replicates: Replicates = NO_REPLICATES
    ratio: Floats | float = 1.0

    @classmethod
    def of(cls, rows: LeavableRows[Ridged], missed: Floats, solution: Ridged) -> LeftOut:
        """Each row left out of the solution in turn."""
        error, q = rows.leave_out(solution)
        return cls(error, missed, q, rows.prior, rows.weights, rows.group, ratio=rows.ratio)

    def with_others(self, some: Indices, others: LeftOut) -> LeftOut:
        """The same rows, some of them left out in another way."""
        error, missed, q = self.error.copy(), self.missed.copy(), self.q.copy()
        error[some], missed[some], q[some] = others.error, others.missed, others.q
        return replace(self, error=error, missed=missed, q=q)

    def mean_square(self) -> float:
        """Weighted mean of the squared errors."""
        return _mean_square(self.error, self.counts)

    @property
    def counts(self) -> Floats:
        """The weight of each row in averages: as given, whatever the noise of the row."""
        return self.weights * self.ratio

    def variance(self, spread: PredictiveVariance) -> Floats:
        """Variance of an observation; a weight counts copies, each with its own noise."""
        variance: Floats = spread.noise * (self.ratio + self.q) + self.missed_variance(spread)
        return variance

    def missed_variance(self, spread: PredictiveVariance) -> Floats:
        """What the basis misses of the variance of f."""
        return spread.factor(self.missed, self.prior) * self.missed

    def surprise(self, spread: PredictiveVariance) -> Floats:
        """Negative log density of each row, on average over the outputs."""
        variance = self.variance(spread)
        surprise: Floats = 0.5 * (np.log(2 * np.pi * variance) + self._squares / variance)
        return surprise

    def nlpd(self, spread: PredictiveVariance) -> float:
        """Weighted mean of the negative log density."""
        return float(self._share @ self.surprise(spread))

    def nlpd_slope(self, spread: PredictiveVariance) -> Floats:
        """Derivatives of :meth:`nlpd` in the logarithms of the spread's two numbers."""
        variance = self.variance(spread)
        by_variance = 0.5 * self._share * (1.0 - self._squares / variance) / variance
        by_missed = spread.slope(self.missed, self.prior) * self.missed
        return np.array(
            [by_variance @ (spread.noise * (self.ratio + self.q)), by_variance @ by_missed]
        )

    @cached_property
    def _squares(self) -> Floats:
        """Mean of the squared errors over the outputs."""
        return np.asarray((self.error**2).mean(axis=1))

    @cached_property
    def _share(self) -> Floats:
        """The weight of each row in an average."""
        return np.asarray(self.counts / self.counts.sum())


def calibrate(
    solution: Ridged, rows: LeavableRows[Ridged], *, keep_ridge: bool = False, factor: float = 1.0
) -> tuple[Ridged, Calibration]:
    """Choose the ridge by leave-one-out error and the spread by leave-one-out log density.

    The rows that are left out may have had a part in hyper-parameters: the spread is multiplied by
    ``factor``.
    """
    missed = rows.missed()
    before = LeftOut.of(rows, missed, solution)
    chosen = solution if keep_ridge else _best_ridge(solution, rows)
    after = before if chosen is solution else LeftOut.of(rows, missed, chosen)
    spread = fit_spread(after, start=chosen.noise)
    spread = PredictiveVariance(factor * spread.noise, factor * spread.missed)
    return chosen, Calibration(
        noise_before=solution.noise,
        noise=chosen.noise,
        spread=spread,
        rmse_before=float(np.sqrt(before.mean_square())),
        rmse=float(np.sqrt(after.mean_square())),
        nlpd_before=before.nlpd(PredictiveVariance(solution.noise)),
        nlpd=after.nlpd(spread),
        n_rows=len(rows.weights),
        tails=describe_tails(after, spread),
        varying=describe_variation(rows.features, after, spread),
    )


def _best_ridge(solution: Ridged, rows: LeavableRows[Ridged]) -> Ridged:
    """Multiply or divide the ridge of the evidence by 4 as long as the error falls."""
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


def fit_spread(errors: LeftOut, *, start: float) -> PredictiveVariance:
    """Both factors by log density, starting from the scale of the errors.

    Rows that lie in the span of the basis say nothing about the factor of the missed variance, and
    rows far from each other cannot tell noise from missed variance. If there are no others, the
    factor stays near 1 and the noise near the ridge: the prior of their logarithms is N(0, log² 10)
    with the weight of one group of rows.
    """
    per_noise = float(np.average(errors.ratio + errors.q, weights=errors.counts))
    noise = max(errors.mean_square() / per_noise, 1e-300)
    low, high = np.log(np.array(_LIMITS)).T + np.array([np.log(noise), 0.0])
    expected = np.array([np.log(start), 0.0])
    n_groups = errors.group.max() + 1

    def objective(point: Floats) -> tuple[float, Floats]:
        spread = PredictiveVariance(*np.exp(point))
        surprise = (point - expected) / _DOUBT
        copies, slope = errors.replicates.surprise(spread.noise)
        value = errors.nlpd(spread) + 0.5 * float(surprise @ surprise) / n_groups + copies
        slopes = errors.nlpd_slope(spread) + surprise / _DOUBT / n_groups
        return value, slopes + np.array([slope, 0.0])

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
    return PredictiveVariance(*(float(number) for number in np.exp(best.x)))


def describe_tails(errors: LeftOut, spread: PredictiveVariance) -> str:
    """A sentence if a Gaussian does not fit the errors, else nothing."""
    scaled = np.abs(errors.error) / np.sqrt(errors.variance(spread))[:, None]
    share = float(np.mean(scaled > _TAIL_SDS))
    if share <= _TAIL_SHARE:
        return ""
    return (
        f"{share:.2%} of the errors are beyond {_TAIL_SDS:g} standard deviations (largest "
        f"{scaled.max():.3g}): a few huge errors set the error bars, which are too wide elsewhere"
    )


def describe_variation(features: Floats, errors: LeftOut, spread: PredictiveVariance) -> str:
    """A sentence if the size of standardised errors varies much over the rows, else nothing.

    A score test (Koenker 1981) with log squares in place of squares, which no heavy tail upsets:
    they are regressed on the leading directions of the features V, and without any relation n R²
    has the distribution χ² with as many degrees of freedom as there are directions. Identical rows
    share the error of the mean: one of them stands for all.
    """
    _, first = np.unique(errors.group, return_index=True)
    features = features[:, first]
    n, r = features.shape
    k = min(_DIRECTIONS, n, r // _ROWS_PER_DIRECTION)
    if k == 0:
        return ""
    squares = (errors.error**2).mean(axis=1) / errors.variance(spread)
    logs = np.log(np.maximum(squares[first], _LEAST_SQUARE))
    _, directions = eigh(features @ features.T, subset_by_index=(n - k, n - 1))
    D = features.T @ directions
    D -= D.mean(axis=0)
    logs -= logs.mean()
    fitted = D @ np.linalg.lstsq(D, logs, rcond=None)[0]
    total, explained = float(logs @ logs), float(fitted @ fitted)
    chance = float(chdtrc(k, r * explained / total)) if total > 0 else 1.0
    # Of pure chance the k directions explain k/r.
    variation = np.sqrt(max(explained - total * k / r, 0.0) / r)
    if chance > _RARE or variation < _WORTH_TELLING:
        return ""
    return (
        f"the size of the errors varies with the inputs (chance {chance:.1g} if it did not): if "
        "more basis functions do not change that, SparseGPRegressor(noise='varying') has error "
        "bars that follow it"
    )


def _mean_square(error: Floats, weights: Floats) -> float:
    return float((weights @ error**2).mean() / weights.sum())


def averaged_logistic(mean: Floats, variance: Floats) -> Floats:
    """E[1 / (1 + exp(-f))] for f of these means and variances, to 5e-4.

    With the logistic function as ½ + ½Σ_j c_j erf(λ_j f), the average is
    ½ + ½Σ_j c_j erf(λ_j mean / √(1 + 2λ_j² variance)). Its tails are too thin; the true value lies
    between the logistic function of the mean and ½, and the result is clipped to this interval.
    """
    total = np.full(np.shape(mean), 0.5 * PARTS.sum())
    for steepness, part in zip(STEEPNESS, PARTS, strict=True):
        total += 0.5 * part * erf(steepness * mean / np.sqrt(1.0 + 2.0 * steepness**2 * variance))
    plain = expit(mean)
    return np.asarray(np.clip(total, np.minimum(plain, 0.5), np.maximum(plain, 0.5)))


@dataclass(frozen=True)
class Latents:
    """Latent functions at some rows.

    Attributes
    ----------
    mean, variance : arrays of shape (n_rows, n_columns)
        Mean, and the variance that the fit leaves in the span of the basis.
    missed : array of shape (n_rows, n_columns), or (n_rows, 1) if the same for all columns
        Variance of the prior outside that span, as far as near rows do not explain it.
    prior : array of shape (n_rows,)
        All of the prior's variance.
    """

    mean: Floats
    variance: Floats
    missed: Floats
    prior: Floats

    @property
    def share(self) -> Floats:
        """The share of the prior variance that is missed, of the shape of ``missed``."""
        return np.asarray(self.missed / np.where(self.prior > 0, self.prior, 1.0)[:, None])


@dataclass(frozen=True)
class Confidence:
    """How latent functions become probabilities.

    A column's log-odds are Gaussian with the latent mean and variance spread·variance +
    factor·missed; their average logistic function is its probability. ``factor`` is ``missed`` for
    rows of which the basis misses no more than of the rows used for calibration. It rises to 1 for
    rows about which the basis says nothing: there the prior is returned.

    Attributes
    ----------
    spread, missed : float
        As above; both 1 is Laplace's approximation as it stands.
    seen : float
        Largest share of the prior variance that the basis misses in any row used for calibration.
    log_loss_before, log_loss : float
        Leave-one-out log loss per row, before and after; NaN if not calibrated.
    n_rows : int
        Number of rows that were left out in turn.
    """

    spread: float = 1.0
    missed: float = 1.0
    seen: float = 1.0
    log_loss_before: float = np.nan
    log_loss: float = np.nan
    n_rows: int = 0

    def __str__(self) -> str:
        return (
            f"leave-one-out on {self.n_rows} rows: variance times {self.spread:.3g}, missed "
            f"variance times {self.missed:.3g}; log loss {self.log_loss_before:.4g} -> "
            f"{self.log_loss:.4g}"
        )

    def probabilities(self, latents: Latents) -> Floats:
        """Probabilities of the classes: two for a single column, else one per column."""
        beyond = np.clip((latents.share - self.seen) / max(1.0 - self.seen, 1e-12), 0.0, 1.0)
        factor = self.missed + (1.0 - self.missed) * beyond**2
        variance = self.spread * latents.variance + factor * latents.missed
        p = averaged_logistic(latents.mean, variance)
        if p.shape[1] == 1:
            return np.hstack([1.0 - p, p])
        total = p.sum(axis=1, keepdims=True)
        even: Floats = np.full_like(p, 1.0 / p.shape[1])
        return np.asarray(np.divide(p, total, out=even, where=total > 0))


def log_losses(probabilities: Floats, labels: Indices) -> Floats:
    """-log p of the class of each row."""
    own = probabilities[np.arange(len(labels)), labels]
    return np.asarray(-np.log(np.maximum(own, _LEAST)))


def log_loss(probabilities: Floats, labels: Indices, weights: Floats) -> float:
    """Weighted mean of -log p of the class of each row."""
    return float(np.average(log_losses(probabilities, labels), weights=weights))


def sloped_losses(mean: Floats, targets: Floats, weights: Floats) -> Floats:
    """Log losses of predictions of ±1 targets (one column per class) at the best common slope.

    For predictions μ the probabilities are softmax(aμ), or those of log-odds aμ for a single
    column, with the a of the least weighted mean: the scale of μ does not matter.
    """
    if mean.shape[1] == 1:
        mean, targets = np.hstack([-0.5 * mean, 0.5 * mean]), np.hstack([-targets, targets])
    own = mean[np.arange(len(mean)), targets.argmax(axis=1)]

    def losses(log_slope: float) -> Floats:
        a = np.exp(log_slope)
        return np.asarray(logsumexp(a * mean, axis=1) - a * own)

    found = minimize_scalar(
        lambda log_slope: float(np.average(losses(log_slope), weights=weights)),
        bounds=(-3.0, 6.0),
        method="bounded",
    )
    return losses(float(found.x))


def fit_confidence(
    latents: Latents,
    labels: Indices,
    weights: Floats,
    *,
    seen: float,
    missed_too: bool,
    factor: float = 1.0,
) -> Confidence:
    """Choose spread and missed by the log loss of rows that had no part in their own latents.

    If ``missed_too`` is False, the rows were also used to choose the basis, so they do not say what
    it misses of others: ``missed`` is then set to the spread, at most 1.

    The size of the log-odds is not fitted. That would gain a little on these rows, but costs more
    where new rows are harder than old ones.

    Few rows have all had a part in hyper-parameters. Where ``factor`` > 1 stands for what is not
    known of them, the logarithms have the prior N(0, log² 10) with the weight of one row, and both
    numbers are multiplied by the factor.
    """
    low, high = np.log(np.array(_CONFIDENCE_LIMITS)[: 2 if missed_too else 1]).T

    def at(point: Floats) -> Confidence:
        spread, *missed = (float(value) for value in np.exp(point))
        return Confidence(spread, missed[0] if missed else min(spread, 1.0), seen)

    def objective(point: Floats) -> float:
        prior = 0.5 * float(point @ point) / _DOUBT**2 / weights.sum() if factor > 1.0 else 0.0
        return log_loss(at(point).probabilities(latents), labels, weights) + prior

    starts = np.log([(1.0, 1.0), (0.1, 0.01), (1e-3, 1e-5)])[:, : len(low)]
    fits = [
        minimize(
            objective,
            start,
            method="Nelder-Mead",
            bounds=Bounds(low, high),
            options={"maxiter": 200, "xatol": 1e-3, "fatol": 1e-6},
        )
        for start in starts
    ]
    best = min(fits, key=lambda result: float(result.fun))
    found = at(best.x)
    found = replace(found, spread=factor * found.spread, missed=min(factor * found.missed, 1.0))
    before, after = (
        log_loss(one.probabilities(latents), labels, weights) for one in (Confidence(), found)
    )
    return replace(found, log_loss_before=before, log_loss=after, n_rows=len(labels))


def error_curve(solution: SpanSolution, rows: HeldOut, *, in_fit: bool) -> Floats:
    """Weighted mean square error on the rows with the first 1, 2, …, n basis functions.

    In rotated features U = L⁻¹V_x the fit with n functions is Σ_{j≤n} U_j z_j and its leverage
    w Σ_{j≤n} U_j², so cumulative sums give the whole curve. Rows that were part of the fit are left
    out in turn, with all rows identical to them and with their own basis function, as in
    :meth:`HeldOut.leave_out`.
    """
    U = solution.rotated(rows.features)
    weight, means = rows.group_means()
    remaining: Floats | float = 1.0
    G = None if rows.leaving is None else solution.rotated(rows.leaving)
    if in_fit:
        q = np.cumsum(U**2, axis=0)
        if G is not None:
            squares, products = np.cumsum(G**2, axis=0), np.cumsum(U * G, axis=0)
            along = products / np.where(squares > 0, squares, 1.0)
            q -= along * products
        remaining = np.maximum(1.0 - weight * q, 1e-10)
    total = np.zeros(solution.size)
    for y, mean, z in zip(rows.targets.T, means.T, solution.z.T, strict=True):
        fitted = np.cumsum(U * z[:, None], axis=0)
        if in_fit and G is not None:
            fitted -= along * np.cumsum(G * z[:, None], axis=0)
        error = y - mean + (mean - fitted) / remaining
        total += error**2 @ rows.weights
    return np.asarray(total / rows.weights.sum())


def loss_curve(solution: SpanSolution, rows: HeldOut, *, in_fit: bool) -> Floats:
    """Log loss per row of classes ±1 with the first n basis functions.

    It is computed for the sizes of :func:`~pursuit.greedy.size_grid` and infinite for others.
    Predictions are those of the regression on ±1, as log-odds at their best slope.
    """
    curve = np.full(solution.size, np.inf)
    U = solution.rotated(rows.features)
    for n in size_grid(solution.size):
        if in_fit:
            error, _ = rows.truncated(n).leave_out(solution.truncated(n))
            mean = rows.targets - error
        else:
            mean = U[:n].T @ solution.z[:n]
        losses = sloped_losses(mean, rows.targets, rows.weights)
        curve[n - 1] = float(np.average(losses, weights=rows.weights))
    return curve


def flat_size(curve: Floats, *, nothing: float = 0.0) -> int:
    """The smallest size whose error is within one percent, or ``nothing``, of the least error."""
    least = float(curve.min())
    return int(np.argmax(curve <= least + max(_ENOUGH * least, nothing))) + 1


def next_gain(losses: Floats) -> Floats:
    """What the next doubling is expected to lower a loss by, from the losses after each so far.

    As a rule, each doubling lowers it by less than the one before, by a constant factor: with gains
    g′ and g of the last two, the next is expected to be g²/g′, and at most g. After a single one it
    is expected to be that one, and before any the loss itself. Losses may have several columns.
    """
    gains = -np.diff(losses, axis=0)
    if not len(gains):
        return np.asarray(losses[-1])
    if len(gains) == 1:
        return np.asarray(gains[-1])
    falls = gains[-2] > 0.0
    factor = np.where(falls, gains[-1] / np.where(falls, gains[-2], 1.0), 1.0)
    return np.asarray(gains[-1] * np.clip(factor, 0.0, 1.0))
