"""Outliers: noise of Student's t, whose rows are weighted by how well the other rows predict them.

Student's t is a scale mixture: given a weight u the noise is Gaussian of variance s²/u, and given
an error e of squared scale v the expected weight is (ν + k)/(ν + Σe²/v) for k outputs. A share ε of
the rows may be wrong altogether: their errors are uniform over the range of all errors, and the
weight of a row is multiplied by the probability that it is none of these. Without them gross errors
would need heavy tails, which take weight from ordinary rows. Fits with these weights and weights
from their errors take turns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, gammaln, logit, ndtr, stdtrit

from pursuit._types import Floats, Indices
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.gp.reweighting import OwnWeights, first_fit, left_out, refitted
from pursuit.estimators.inputs import TargetScale
from pursuit.greedy import Problem, SpanFit
from pursuit.linalg import PredictiveVariance
from pursuit.rows import RowSource, Sample
from pursuit.tuning import LeftOut

OVER = "all functions, for the weights of the last round (Student's t itself is not convex)"
"""What a certificate of a reweighted fit is about."""
_CLIPPED = 4.0
"""The first fit sees targets within this many robust deviations of their median."""
_NORMAL = 1.4826
"""A standard deviation over the median absolute deviation, for Gaussian numbers."""
_FIRST_ROUNDS = 4
_DEGREES = 4.0, 200.0
"""Range of ν. With fewer degrees of freedom the weights of ordinary rows differ more, and the mean
loses more than outliers would cost. With more the noise is Gaussian for all purposes."""
_SHARES = 1e-6, 0.3
_MOST_WRONG, _GROSS = 0.25, 15.0
"""Range of ε. Rows are not taken to be wrong if they are more than a quarter, or if the errors do
not reach beyond so many deviations of the noise: these are tails, skewness or varying noise."""
_FIRST_SHARE = 0.02
_LARGEST_LOG = 300.0
"""Where all errors are 0 the noise would have no least value."""
_LEAST_WEIGHT = 1e-6
_LAST_QUANTILE = 1e-4
"""Quantiles of the noise are those between this and one less it; beyond lie rows that are wrong."""
_FAR = 4.0
"""Rows whose error is beyond so many deviations of the noise are listed as outliers."""


@dataclass(frozen=True)
class StudentNoise:
    """Student's t with ν degrees of freedom; its scale s² is the noise of the model's spread.

    Attributes
    ----------
    degrees : float
        ν.
    wrong : float
        ε.
    log_density : float
        Logarithm of the density of the errors of rows that are wrong.
    """

    degrees: float
    wrong: float = 0.0
    log_density: float = 0.0

    rounds = 3
    over = OVER

    @property
    def deviation(self) -> float:
        """Half the width of the central 68 % of the noise, relative to its scale: 1 if Gaussian."""
        return float(stdtrit(self.degrees, float(ndtr(1.0))))

    def quantile(self, q: float) -> float:
        """Quantile of an error over :attr:`deviation`; as many wrong rows lie on either side."""
        level = (q - 0.5 * self.wrong) / (1.0 - self.wrong)
        level = min(max(level, _LAST_QUANTILE), 1.0 - _LAST_QUANTILE)
        return float(stdtrit(self.degrees, level)) / self.deviation

    def weights(self, error: Floats, squared_scale: Floats) -> Floats:
        """Expected weight of each row, from its errors in a fit without it."""
        squares = (error**2).sum(axis=1) / squared_scale
        weights = (self.degrees + error.shape[1]) / (self.degrees + squares)
        if self.wrong > 0.0:
            own = log_student(squares, squared_scale, self.degrees, error.shape[1])
            weights *= expit(own - self.log_density + np.log1p(-self.wrong) - np.log(self.wrong))
        return np.asarray(np.maximum(weights, _LEAST_WEIGHT))

    def ratio(self, rows: RowSource, kernel: Any, workers: Any) -> Floats:
        """Squared deviation of the noise of new observations, relative to its squared scale."""
        return np.full(rows.n_rows, self.deviation**2)

    def again(self, fitted: SpanFit, problem: Problem, own: OwnWeights, kernel: Any) -> OwnWeights:
        """Degrees of freedom and weights from the errors of a fit."""
        rows = np.arange(problem.sample.n_rows)
        errors = left_out(fitted, problem, rows, own.ratio)
        noise, spread = learn_student(errors, problem.noise)
        return replace(own, noise=noise, ratio=_ratio(noise, errors, spread))

    def same_as(self, other: Any) -> bool:
        """Whether both are the same noise."""
        return bool(self == other)

    def outliers(self, errors: LeftOut, spread: PredictiveVariance) -> Indices:
        """Rows with an error beyond four deviations of the noise."""
        worst = np.abs(errors.error).max(axis=1)
        return np.flatnonzero(worst > _FAR * self.deviation * np.sqrt(_scale(errors, spread)))


def _ratio(noise: StudentNoise, errors: LeftOut, spread: PredictiveVariance) -> Floats:
    return 1.0 / noise.weights(errors.error, _scale(errors, spread))


def _scale(errors: LeftOut, spread: PredictiveVariance) -> Floats:
    """Squared scale of the error of a new observation."""
    return spread.noise * (1.0 + errors.q) + errors.missed_variance(spread)


def robust_units(sample: Sample, scale: TargetScale) -> tuple[Sample, TargetScale]:
    """Targets in units of their inner part, so that outliers do not set the units."""
    inner = TargetScale.fit(_clipped(sample.targets), sample.weights, normalize=True)
    units = TargetScale(scale.mean + scale.scale * inner.mean, scale.scale * inner.scale)
    return Sample(sample.rows, inner.normalize(sample.targets), sample.weights), units


def _clipped(targets: Floats) -> Floats:
    """Targets moved to within four robust deviations of their median."""
    median = np.median(targets, axis=0)
    deviation = _NORMAL * np.median(np.abs(targets - median), axis=0)
    reach = np.where(deviation > 0, _CLIPPED * deviation, np.abs(targets - median).max(axis=0))
    return np.clip(targets, median - reach, median + reach)


def first_weights(estimator: Any, sample: Sample, X: Any, run: FitRun) -> OwnWeights:
    """Weights from the errors of a fit of moderate size, which begins with clipped targets."""
    recorded: OwnWeights | None = run.resume("noise")
    if recorded is not None:
        return recorded
    with run.unrecorded():
        clipped = Sample(sample.rows, _clipped(sample.targets), sample.weights)
        fitted, problem = first_fit(estimator, clipped, X, run)
        run.begin("noise")
        rows = np.arange(sample.n_rows)
        errors = left_out(fitted, problem, rows)
        errors.error[:] += sample.targets - clipped.targets
        noise, spread = learn_student(errors, problem.noise)
        own = OwnWeights(noise, _ratio(noise, errors, spread), sample.weights)
        for _ in range(_FIRST_ROUNDS):
            problem = own.posed(problem, sample.targets)
            fitted = refitted(fitted, problem)
            own = own.noise.again(fitted, problem, own, None)
    return run.keep("noise", own)


def log_student(squares: Floats, squared_scale: Floats, degrees: float, k: int) -> Floats:
    """Log density of k errors, from their sum of squares in units of their squared scale."""
    constant = gammaln(0.5 * (degrees + k)) - gammaln(0.5 * degrees)
    tail = 0.5 * (degrees + k) * np.log1p(squares / degrees)
    return np.asarray(constant - 0.5 * k * np.log(np.pi * degrees * squared_scale) - tail)


def learn_student(errors: LeftOut, start: float) -> tuple[StudentNoise, PredictiveVariance]:
    """Noise and spread that give rows left out the largest density.

    Rows are wrong altogether only if that gains a logarithm of their number, since a few of them
    can stand for heavy tails as well, and if they are few and far from the others.
    """
    k = errors.error.shape[1]
    squares = (errors.error**2).sum(axis=1)
    robust = (_NORMAL * np.median(np.abs(errors.error))) ** 2
    ranges = np.ptp(errors.error, axis=0)

    def at(point: Floats) -> tuple[StudentNoise, PredictiveVariance]:
        low, high = np.log(_DEGREES)
        degrees = float(np.exp(np.clip(point[0], low, high)))
        log_noise = np.clip(point[1], -_LARGEST_LOG, _LARGEST_LOG)
        spread = PredictiveVariance(float(np.exp(log_noise)), float(np.exp(min(point[2], 0))))
        if len(point) == 3:
            return StudentNoise(degrees), spread
        wrong = float(np.clip(expit(point[3]), *_SHARES))
        return StudentNoise(degrees, wrong, -float(np.log(ranges).sum())), spread

    def surprise(point: Floats) -> float:
        noise, spread = at(point)
        scale = _scale(errors, spread)
        density = log_student(squares / scale, scale, noise.degrees, k)
        if noise.wrong > 0.0:
            right = density + np.log1p(-noise.wrong)
            density = np.logaddexp(right, noise.log_density + np.log(noise.wrong))
        return -float(errors.counts @ density)

    def fitted(first: list[float]) -> Any:
        return minimize(
            surprise,
            np.array(first),
            method="Nelder-Mead",
            options={"maxiter": 400, "xatol": 1e-3, "fatol": 1e-4},
        )

    first = [np.log(8.0), np.log(robust if robust > 0 else start), -1.0]
    found = fitted(first)
    if np.all(ranges > 0):
        with_wrong = fitted([*first, float(logit(_FIRST_SHARE))])
        noise, spread = at(with_wrong.x)
        reach = 0.5 * float(ranges.min()) / (noise.deviation * np.sqrt(spread.noise))
        gains = with_wrong.fun < found.fun - np.log(len(squares))
        if gains and noise.wrong < _MOST_WRONG and reach >= _GROSS:
            found = with_wrong
    return at(found.x)
