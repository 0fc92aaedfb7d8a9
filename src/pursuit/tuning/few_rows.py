"""Hyper-parameters from few rows: weak priors, few length scales, and what stays unknown of them.

A handful of rows fits almost any hyper-parameters, and those of the largest evidence fit best: they
explain noise, and their error bars are too narrow. Three things keep few rows honest:

1. Logarithms of variance, length scales and noise have weak Gaussian priors.
2. All features have one length scale in units of their deviations, unless one for each of them is
   better by Laplace's approximation of the evidence without hyper-parameters::

       log p(y) ≈ log p(y | θ̂) - ½‖S⁻¹(θ̂ - c)‖² - ½ log |SHS|

   with c and S² the means and variances of the priors and H the curvature of -log p(y, θ) at θ̂. A
   length scale that the rows say nothing about costs nothing, one that is fitted to them does.
3. θ is not known: kernel and noise are multiplied by one factor, which leaves predictions as they
   are and widens the error bars to those of a mixture over θ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from pursuit._types import Floats
from pursuit.linalg import invert_spd
from pursuit.kernels import compile_kernel
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.learning import (
    FAMILIES,
    Learned,
    LogPrior,
    NoiseRange,
    common_kernel,
    family_kernel,
    first_rows,
    maximise,
    never,
    probe_features,
)

ROWS_PER_FEATURE, ENOUGH_ROWS = 10, 200
"""Fewer rows for each feature, or fewer in all, are few. More: regularised more often."""
VARIANCE_SD, SCALE_SD, NOISE_SD = 1.0, 1.0, 1.5
NOISE_CENTRE = 0.1
STARTS = 1.0, 0.25
_DIFFERENCE = 1e-3
CURVED = 40


def are_few(n_rows: float, n_features: int) -> bool:
    """Whether hyper-parameters need regularisation."""
    return n_rows < max(ENOUGH_ROWS, ROWS_PER_FEATURE * n_features)


def learn_few(
    data: Evidence,
    scales: Floats,
    variance: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    **search: Any,
) -> Learned:
    """Learn kernel and noise from few rows, and widen the error bars by what is not known of them.

    ``scales`` are where the length scales start: sd·√d.
    """
    first = first_rows(data)
    one = _one_scale(first, scales, variance, noise, late, **search)
    best, stages = max(one, key=lambda c: c.score), [s for c in one for s in c.learned.stages]
    if len(scales) > 1 and not late():
        each = _scale_each(first, best, scales, variance, noise, late)
        stages += [s for c in each for s in c.learned.stages]
        best = max([best, *each], key=lambda c: c.score)
    learned = replace(best.learned, stages=stages)
    return learned if noise.fixed else widened(first, learned, best.prior)


@dataclass(frozen=True)
class _Candidate:
    learned: Learned
    prior: LogPrior
    score: float


def _one_scale(
    data: Evidence, scales: Floats, variance: float, noise: NoiseRange, late: Any, **search: Any
) -> list[_Candidate]:
    found: list[_Candidate] = []
    scaled = replace(data, X=data.X / scales)
    for family in FAMILIES:
        if found and late():
            break
        tried = []
        for start in STARTS:
            kernel = common_kernel(family, 1.0, variance, start)
            prior = _prior(kernel, variance, np.zeros(1), noise)
            tried.append(maximise(scaled, kernel, noise, family, prior=prior, late=late, **search))
        best = max(tried, key=lambda t: t.evidence_per_row)
        score = laplace(scaled, best, prior)
        kernel = family_kernel(family, scales, variance, scales * best.kernel.k2.length_scale)
        kernel = kernel.set_params(k1__constant_value=best.kernel.k1.constant_value)
        learned = replace(best, kernel=kernel, stages=[s for t in tried for s in t.stages])
        wide = _prior(kernel, variance, np.log(scales), noise)
        found.append(_Candidate(learned, wide, score))
    return found


def _scale_each(
    data: Evidence, one: _Candidate, scales: Floats, variance: float, noise: NoiseRange, late: Any
) -> list[_Candidate]:
    family = one.learned.family
    probed = probe_features(data, scales, variance, noise)
    candidates = []
    for starts in (one.learned.kernel.k2.length_scale, probed):
        kernel = family_kernel(family, scales, variance, starts)
        prior = _prior(kernel, variance, np.log(scales), noise)
        tried = maximise(data, kernel, noise, family, prior=prior, late=late)
        candidates.append(_Candidate(tried, prior, laplace(data, tried, prior)))
    best = max(candidates, key=lambda c: c.score)
    if best.score > one.score:
        for other in FAMILIES:
            if other != family and not late():
                kernel = family_kernel(other, scales, variance, best.learned.kernel.k2.length_scale)
                again = replace(noise, start=best.learned.noise)
                tried = maximise(data, kernel, again, other, prior=prior, late=late)
                candidates.append(_Candidate(tried, prior, laplace(data, tried, prior)))
    return candidates


def _prior(kernel: Any, variance: float, log_scales: Floats, noise: NoiseRange) -> LogPrior:
    centre = np.concatenate([[np.log(variance)], log_scales, [np.log(NOISE_CENTRE * variance)]])
    sd = np.concatenate([[VARIANCE_SD], np.full(len(log_scales), SCALE_SD), [NOISE_SD]])
    if noise.fixed:
        centre[-1] = np.log(noise.start)
    return LogPrior(centre, sd)


def laplace(data: Evidence, learned: Learned, prior: LogPrior) -> float:
    """Laplace's approximation."""
    rows = float(data.weights.sum())
    H = curvature(data, learned, prior, np.diag(prior.deviation))
    penalty = 0.5 * np.log(np.maximum(np.linalg.eigvalsh(H), 1.0)).sum()
    return learned.evidence_per_row * rows - float(penalty)


def curvature(data: Evidence, learned: Learned, prior: LogPrior, directions: Floats) -> Floats:
    """D'HD for directions D, one per column, by differences of gradients."""
    kernel = learned.kernel.clone_with_theta(learned.kernel.theta)
    point = np.append(kernel.theta, np.log(learned.noise))

    def slope(at: Floats) -> Floats:
        kernel.theta = at[:-1]
        found = data.value_and_gradient(kernel, float(np.exp(at[-1])))
        if found is None:
            return np.full(len(at), np.nan)
        return -found[1] + (at - prior.centre) / prior.deviation**2

    h = _DIFFERENCE
    columns = [(slope(point + h * e) - slope(point - h * e)) / (2 * h) for e in directions.T]
    H = directions.T @ np.stack(columns, axis=1)
    H = 0.5 * (H + H.T)
    return np.nan_to_num(H)


def widened(data: Evidence, learned: Learned, prior: LogPrior) -> Learned:
    """The same with kernel and noise times the factor."""
    p = len(prior.centre)
    common = np.zeros((p, 3))
    common[0, 0] = common[-1, 2] = 1.0
    common[1:-1, 1] = 1.0
    sd = prior.deviation[[0, 1, -1]]
    H = curvature(data, learned, prior, common * sd)
    if p > 3:  # the priors of many length scales count once for their common one
        H[1, 1] -= p - 3
    values, vectors = eigh(H)
    steps = common * sd @ (vectors / np.sqrt(np.maximum(values, 1.0)))
    point = np.append(learned.kernel.theta, np.log(learned.noise))
    kernel = learned.kernel.clone_with_theta(learned.kernel.theta)
    mean0, var0 = left_out(data, kernel, learned.noise)
    means, variances = [], []
    for step in np.sqrt(3.0) * steps.T:
        for sign in (1.0, -1.0):
            at = point + sign * step
            kernel.theta = at[:-1]
            mean, var = left_out(data, kernel, float(np.exp(at[-1])))
            means.append(mean); variances.append(var)
    means, variances = np.array(means), np.array(variances)
    total = variances.mean(axis=0) + ((means - mean0) ** 2).mean(axis=(0, 2))
    m = float(data.weights.sum())
    factor = float(np.mean(total / var0)) * DEGREES(m)
    kernel.theta = learned.kernel.theta
    kernel.k1.constant_value *= factor
    return replace(learned, kernel=kernel, noise=learned.noise * factor)


def DEGREES(m):
    return (m + 1) / (m - 1)


def left_out(data: Evidence, kernel: Any, noise: float) -> tuple[Floats, Floats]:
    """Mean and variance of an observation at each row, predicted from the others."""
    node = compile_kernel(kernel, n_features=data.X.shape[1])[0]
    C = node.tile(data.X, data.X)
    C[np.diag_indices_from(C)] += noise / data.weights
    inverse = np.linalg.inv(C)
    variance = 1.0 / np.diag(inverse)
    mean = data.y - variance[:, None] * (inverse @ data.y)
    return mean, variance - noise / data.weights + noise
