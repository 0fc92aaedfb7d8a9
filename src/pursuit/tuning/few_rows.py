"""Hyper-parameters from few rows: weak priors, few length scales, and what stays unknown of them.

A handful of rows fits almost any hyper-parameters, and those of the largest evidence fit best: they
explain noise, and their error bars are too narrow. Three things keep few rows honest:

1. The logarithms of variance, length scales and noise have weak Gaussian priors.
2. All features share one length scale, in units of their deviations, unless one for each feature is
   better by Laplace's approximation of the evidence of no particular θ::

       log p(y) ≈ log p(y | θ̂) - ½‖S⁻¹(θ̂ - c)‖² - ½ log |I + SHS|

   with c and S² the means and variances of the priors and H = -∇² log p(y | θ) at the maximum θ̂. A
   length scale that the rows say nothing about costs nothing, one that is fitted to them does.
3. Kernel and noise are multiplied by one factor. It leaves predictions as they are and makes the
   error bars as wide as those of a mixture over θ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.kernels import compile_kernel
from pursuit.linalg import invert_spd
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.learning import (
    common_kernel,
    family_kernel,
    first_rows,
    probe_features,
    second_stage,
)
from pursuit.tuning.optimiser import Learned, LogPrior, NoiseRange, maximise, never
from pursuit.tuning.report import FAMILIES, Stage

_ROWS_PER_FEATURE, _ENOUGH_ROWS = 10, 200
"""Fewer rows for each feature, or fewer in all, are few. More: regularised more often."""
_VARIANCE_SD, _SCALE_SD, _NOISE_SD = 1.0, 1.0, 1.5
"""Deviations of the priors of the logarithms. Smaller: few rows change less about the centres."""
_NOISE_CENTRE = 0.1
"""Centre of the noise's prior, as a part of the targets' mean square."""
_STARTS = 1.0, 0.5, 0.25, 0.125
"""Common length scales tried as starts, in units of the prior's centre."""
_DIFFERENCE = 1e-3
"""Step by which slopes are compared, in units of the priors' deviations."""
_LEAST_LEFT = 1e-10  # Smaller shares of a row's precision that others give count as this.
_MOST_CURVED = 128
"""Most hyper-parameters whose curvature is found; beyond, each counts ½ log m, as in BIC."""


def are_few(n_rows: float, n_features: int) -> bool:
    """Whether so many rows need what this module does."""
    return n_rows < max(_ENOUGH_ROWS, _ROWS_PER_FEATURE * n_features)


def learn_few(
    data: Evidence,
    scales: Floats,
    variance: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    *,
    classes: bool = False,
    **search: Any,
) -> Learned:
    """Learn kernel and noise from few rows, and widen the error bars by what is not known of them.

    The priors of the length scales are centred at ``scales``, that of the variance at
    ``variance``. For ``classes`` a common length scale may also be in units of the features
    themselves, as in :func:`~pursuit.tuning.learn_shape`. Noise that is given stays as it is, and
    the error bars with it.
    """
    d, stages = len(scales), list[Stage]()
    tried = [scales]
    if classes and d > 1:
        tried.append(np.full(d, np.linalg.norm(scales) / np.sqrt(d)))
    searches = [
        _FewRows(replace(data, X=data.X / units), variance, noise, late, search, stages)
        for units in tried
    ]
    found = [one.one_scale() for one in searches[: 1 if late() else None]]
    k = max(range(len(found)), key=lambda i: found[i].score)
    few, units, best = searches[k], tried[k], found[k]
    if d > 1 and not late():
        best = few.scale_each(best)
    learned = replace(best.learned, stages=stages)
    learned = second_stage(few.data, learned, noise, late, prior=best.prior)
    factor = 1.0 if noise.fixed else unknown_factor(few.data, learned, best.prior)
    constant, shape = learned.kernel.k1, learned.kernel.k2
    kernel = family_kernel(learned.family, units, variance, units * shape.length_scale)
    kernel.set_params(k1__constant_value=factor * constant.constant_value)
    return replace(learned, kernel=kernel, noise=factor * learned.noise, factor=factor)


@dataclass(frozen=True)
class _Candidate:
    """Hyper-parameters that were learned with a prior, and Laplace's log p(y)."""

    learned: Learned
    prior: LogPrior
    score: float


@dataclass(frozen=True)
class _FewRows:
    """The search for kernel and noise on rows in some units, and the stages of it."""

    data: Evidence
    variance: float
    noise: NoiseRange
    late: Callable[[], bool]
    search: dict[str, Any]
    stages: list[Stage]

    def one_scale(self) -> _Candidate:
        """The best family with a common length scale."""
        starts = [common_kernel(_FIRST, 1.0, self.variance, start) for start in _STARTS]
        return self._families(max(starts, key=self._at), None)

    def scale_each(self, best: _Candidate) -> _Candidate:
        """The best with a length scale for each feature, or the ``best`` with one for all."""
        ones, family = np.ones(self.data.X.shape[1]), best.learned.family
        probed = probe_features(self.first, ones, self.variance, self.noise)
        for start in (ones * best.learned.kernel.k2.length_scale, probed):
            best = self._better(family_kernel(family, ones, self.variance, start), family, best)
        each = best.learned.kernel
        return self._families(each, best) if np.size(each.k2.length_scale) > 1 else best

    @cached_property
    def first(self) -> Evidence:
        """The rows on which kernels are compared."""
        return first_rows(self.data)

    def _families(self, start: Any, best: _Candidate | None) -> _Candidate:
        """The best of the families, each from the length scales of the one before."""
        tried = () if best is None else (best.learned.family,)
        for family in (one for one in _ORDER if one not in tried):
            if best is not None:
                if self.late():
                    break
                start = best.learned.kernel
            best = self._better(self._of_family(family, start), family, best)
        assert best is not None
        return best

    def _of_family(self, family: str, like: Any) -> Any:
        """A kernel of the family with the length scales of another."""
        scales = like.k2.length_scale
        if np.size(scales) == 1:
            return common_kernel(family, 1.0, self.variance, float(scales))
        return family_kernel(family, np.ones(len(scales)), self.variance, scales)

    def _better(self, kernel: Any, family: str, best: _Candidate | None) -> _Candidate:
        """What is learned from a start, if it is better than the best so far."""
        prior = self._prior(kernel)
        options = {"prior": prior, "late": self.late, **self.search}
        learned = maximise(self.first, kernel, self.noise, family, **options)
        self.stages.extend(learned.stages)
        value = learned.evidence_per_row * float(self.first.weights.sum())
        if best is not None and value <= best.score:
            return best  # the penalty cannot be negative
        score = value - curvature_penalty(self.first, learned, prior)
        if best is not None and score <= best.score:
            return best
        return _Candidate(learned, prior, score)

    def _at(self, kernel: Any) -> float:
        """Log p(y, θ) at a start."""
        found = self.first.value(kernel, self.noise.start)
        point = np.append(kernel.theta, np.log(self.noise.start))
        prior = self._prior(kernel).value_and_gradient(point)[0]
        return -np.inf if found is None else found + prior

    def _prior(self, kernel: Any) -> LogPrior:
        n_scales = len(kernel.theta) - 1
        level = _NOISE_CENTRE * self.variance
        level = self.noise.start if self.noise.fixed else level
        centre = np.concatenate([[np.log(self.variance)], np.zeros(n_scales), [np.log(level)]])
        deviation = [_VARIANCE_SD, *np.full(n_scales, _SCALE_SD), _NOISE_SD]
        return LogPrior(centre, np.array(deviation))


_FIRST = "matern52"
_ORDER = (_FIRST, *(family for family in FAMILIES if family != _FIRST))
"""Families in the order in which they are tried."""


def curvature_penalty(data: Evidence, learned: Learned, prior: LogPrior) -> float:
    """½ log |I + SHS|, not below 0; half the logarithm of the rows for each of very many numbers.

    H is indefinite only where a bound or the last step ended the search: directions in which it
    falls count nothing.
    """
    p = len(prior.centre)
    if p > _MOST_CURVED:
        return 0.5 * p * float(np.log(data.weights.sum() + 1.0))
    values = np.linalg.eigvalsh(curvature(data, learned, np.diag(prior.deviation)))
    return float(0.5 * np.log1p(np.maximum(values, 0.0)).sum())


def curvature(data: Evidence, learned: Learned, directions: Floats) -> Floats:
    """D'HD for the columns of D, by differences of gradients; 0 where C is singular."""
    kernel = learned.kernel.clone_with_theta(learned.kernel.theta)
    point = np.append(kernel.theta, np.log(learned.noise))

    def slope(at: Floats) -> Floats:
        kernel.theta = at[:-1]
        found = data.value_and_gradient(kernel, float(np.exp(at[-1])))
        return np.full(len(at), np.nan) if found is None else found[1]

    before = slope(point)
    columns = [slope(point + _DIFFERENCE * step) - before for step in directions.T]
    H = -directions.T @ np.stack(columns, axis=1) / _DIFFERENCE
    return np.nan_to_num(0.5 * (H + H.T), nan=0.0, posinf=0.0, neginf=0.0)


def unknown_factor(data: Evidence, learned: Learned, prior: LogPrior) -> float:
    """How much wider than at θ̂ the variance of an observation is, when θ is not known.

    θ has the Gaussian of Laplace's approximation. A function g of θ is then, to second order, on
    average g(θ̂) + ⅓Σ_k (½g(θ̂ + s_k) + ½g(θ̂ - s_k) - g(θ̂)), where s_k is √3 deviations along the
    k-th axis. Here g is the variance of predictions of every row from the others, and of their
    means about those at θ̂, over the variance at θ̂, averaged over the rows. The targets' mean and
    deviation come from the same m rows, hence a further (m + 1)/(m - 1).
    """
    axes = np.diag(prior.deviation)
    if len(axes) > _MOST_CURVED:  # variance, all length scales together, noise
        axes = np.column_stack([axes[0], axes[1:-1].sum(axis=0), axes[-1]])
    values, vectors = np.linalg.eigh(curvature(data, learned, axes))
    steps = axes @ (vectors * np.sqrt(3.0 / (1.0 + np.maximum(values, 0.0))))
    kernel = learned.kernel.clone_with_theta(learned.kernel.theta)
    point = np.append(kernel.theta, np.log(learned.noise))
    ratios = []
    for part in data.parts():
        at_best = left_out(part, kernel, learned.noise)
        mixed = []
        for at in np.vstack([point + steps.T, point - steps.T]):
            moved = left_out(part, kernel.clone_with_theta(at[:-1]), float(np.exp(at[-1])))
            if at_best is not None and moved is not None:
                shift = ((moved[0] - at_best[0]) ** 2).mean(axis=1)
                wider = (moved[1] + shift) / at_best[1]
                mixed.append(np.average(wider, weights=part.weights) - 1.0)
        ratios.append(1.0 + max(sum(mixed) / 6.0, 0.0))
    m = float(data.weights.sum())
    return float(np.mean(ratios)) * (m + 1.0) / max(m - 1.0, 1.0)


def left_out(data: Evidence, kernel: Any, noise: float) -> tuple[Floats, Floats] | None:
    """Mean and variance of an observation at each row, predicted from all others.

    Of a row of weight w > 1, one of w copies leaves. With C = K + σ²W⁻¹ the posterior of f_i has
    the variance s² = σ²/w - (σ²/w)²(C⁻¹)_ii and the mean μ = y_i - (σ²/w)(C⁻¹y)_i; without the
    share ω = min(w, 1) of the row it is s²/(1 - ωs²/σ²), and μ moves away from y_i by the factor
    1/(1 - ωs²/σ²). None if C is singular.
    """
    C = compile_kernel(kernel, n_features=data.X.shape[1])[0].tile(data.X, data.X)
    C[np.diag_indices_from(C)] += noise / data.weights
    inverted = invert_spd(C, data.workers)
    if inverted is None:
        return None
    inverse = inverted[0]
    own = noise / data.weights
    posterior = np.maximum(own - own**2 * np.diag(inverse), 0.0)
    stays = np.maximum(1.0 - np.minimum(data.weights, 1.0) * posterior / noise, _LEAST_LEFT)
    mean = data.y - (own / stays)[:, None] * (inverse @ data.y)
    return mean, posterior / stays + noise
