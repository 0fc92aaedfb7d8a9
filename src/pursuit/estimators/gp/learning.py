"""Wire the data to hyper-parameter learning: which kernel, which noise, on which rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from pursuit import limits, tuning
from pursuit._types import Floats
from pursuit.estimators.arguments import Evidence
from pursuit.estimators.fit_run import warn
from pursuit.estimators.inputs import (
    check_positive_definite,
    default_kernel,
    dense,
    feature_deviations,
    is_precomputed,
    n_features,
)
from pursuit.kernels import CountingKernel, Kernel, kernel_gradient, without_white
from pursuit.linalg import Workers
from pursuit.rows import Sample, draw_rows
from pursuit.tuning import (
    NOISE_FLOOR,
    Learned,
    LearningReport,
    NoiseRange,
    at_bounds,
    feature_relevance,
    learn_family,
    learn_given,
    learn_noise,
    learn_shape,
    never,
)

LEARNING_SHARE = 0.3
"""What learning may use of the time that a fit has."""
_LIGHT = 0.1
"""Weights that are all below this are taken for parts of a whole, not for numbers of copies."""
_DENSE_FEATURES = 4096
_CLASS_FLOOR = 0.01
"""Least noise of a regression on ±1, which is exact and yet no function of the rows."""


def evidence_options(optimizer: str | Evidence | None) -> Evidence:
    """Options of the evidence; the defaults if ``optimizer`` is a name."""
    if isinstance(optimizer, Evidence):
        return optimizer
    return Evidence(rows=limits.EVIDENCE_ROWS)


def target_power(sample: Sample) -> float:
    """Weighted mean square of the targets."""
    return float(sample.target_norms().sum() / (sample.weights.sum() * sample.n_outputs))


def is_learnable(kernel: Any, n_features: int | None) -> bool:
    """Whether the evidence has a gradient in hyper-parameters that the kernel leaves free."""
    if n_features is None or n_features > _DENSE_FEATURES:
        return False
    if kernel is None:
        return True
    if not isinstance(kernel, SklearnKernel):
        return False
    core, _ = without_white(kernel)
    return core is not None and len(core.theta) > 0 and kernel_gradient(core) is not None


def noise_range(
    kernel: Any, noise: float | str, power: float, floor: float = NOISE_FLOOR
) -> NoiseRange:
    """Range of the noise: fixed, the bounds of a White term, or wide."""
    whites = without_white(kernel)[1] if isinstance(kernel, SklearnKernel) else []
    if noise != "learn":
        total = float(noise) + float(sum(white.noise_level for white in whites))
        return NoiseRange(total, total, total, fixed=True)
    if not whites:
        return NoiseRange(0.1 * power, floor * power, 10.0 * power)
    level = float(sum(white.noise_level for white in whites))
    if all(isinstance(white.noise_level_bounds, str) for white in whites):
        return NoiseRange(level, level, level, fixed=True)
    bounds = np.array(
        [w.noise_level_bounds for w in whites if not isinstance(w.noise_level_bounds, str)]
    )
    low, high = bounds[:, 0].min(), bounds[:, 1].max()
    return NoiseRange(float(np.clip(level, low, high)), float(low), float(high))


def learn(
    kernel: Any,
    sample: Sample,
    deviations: Floats,
    noise: NoiseRange,
    *,
    options: Evidence,
    rng: np.random.Generator,
    workers: Workers,
    classes: bool = False,
    late: Callable[[], bool] = never,
) -> Learned:
    """Maximise the evidence on a random subset of the rows; the kernel's White terms are noise.

    With ``classes`` the targets are ±1, and a kernel that is not given may have one length scale
    for all features. When it is ``late``, the best found so far is taken.
    """
    rows = rng.permutation(draw_rows(sample.n_rows, options.rows, rng))
    subset = sample.take(rows)
    items = subset.rows.take(np.arange(len(rows)))
    X = np.asarray(dense(items), dtype=np.float64)
    data = tuning.Evidence(X, subset.targets, subset.weights, workers)
    search: dict[str, Any] = {"restarts": options.restarts, "rng": rng, "late": late}
    if kernel is None:
        if classes:
            return learn_shape(data, deviations, target_power(sample), noise, **search)
        scales = deviations * np.sqrt(len(deviations))
        return learn_family(data, scales, target_power(sample), noise, **search)
    core, _ = without_white(kernel)
    return learn_given(data, core, noise, **search)


def warn_of_light_rows(
    estimator: Any, sample: Sample, X: Any, instead: str = "give kernel and noise"
) -> None:
    """Warn if kernel and noise are learned from weights that seem to add up to 1.

    The evidence takes a weight w for w copies, and from less than one row there is nothing to
    learn. ``instead`` says how to do without learning.
    """
    free = estimator.optimizer is not None and is_learnable(estimator.kernel, n_features(X))
    heaviest, total = float(sample.weights.max()), float(sample.weights.sum())
    if heaviest >= _LIGHT or not (free or estimator.noise == "learn"):
        return
    warn(
        f"sample_weight is at most {heaviest:.2g} and adds up to {total:.3g}: a row of weight w "
        f"counts as w copies, so the model is learned as from {total:.3g} rows. Multiply the "
        f"weights by {sample.n_rows / total:.3g} for an average of 1, or {instead}."
    )


@dataclass(frozen=True)
class LearnedKernel:
    """Kernel and noise in use, learned or given.

    Attributes
    ----------
    kernel, noise
        What becomes ``kernel_`` and ``noise_``.
    report : LearningReport
        What was learned, and how.
    deviations : array of shape (n_features,), optional
        Standard deviation of each feature, for numeric input.
    learns, noise_is_given : bool
        Whether hyper-parameters were learned; whether the noise could not be.
    """

    kernel: Any
    noise: float
    report: LearningReport
    deviations: Floats | None
    learns: bool
    noise_is_given: bool


def learn_or_keep(
    estimator: Any,
    sample: Sample,
    X: Any,
    rng: np.random.Generator,
    workers: Workers,
    *,
    classes: bool = False,
    late: Callable[[], bool] = never,
) -> tuple[LearnedKernel, Kernel]:
    """Learn, or take as given, the kernel and noise of an estimator; also the kernel compiled.

    The estimator has the parameters kernel, noise, optimizer, gamma, coef0, degree and
    kernel_params. With ``classes`` the targets are ±1, and the noise only serves the choice of a
    basis. Learning ends when it is ``late``, and the report says so.
    """
    kernel, power = estimator.kernel, target_power(sample)
    width = n_features(X)
    numeric = width is not None and not is_precomputed(kernel)
    deviations = feature_deviations(sample, rng) if numeric or kernel is None else None
    floor = _CLASS_FLOOR if classes else NOISE_FLOOR
    given = noise_range(kernel, estimator.noise, power, floor)
    learns = estimator.optimizer is not None and power > 0 and is_learnable(kernel, width)
    if kernel is not None and learns:
        estimator._compile(kernel, X)  # what is wrong is said before it is learned
    family, stages, notes = LearningReport().family, [], []
    if learns:
        learned = learn(
            kernel,
            sample,
            np.asarray(deviations),
            given,
            options=evidence_options(estimator.optimizer),
            rng=rng,
            workers=workers,
            classes=classes,
            late=late,
        )
        notes = [] if kernel is None else _bound_warnings(learned.kernel)
        kernel, noise = learned.kernel, learned.noise
        family, stages = learned.family, learned.stages
        notes += [] if classes else _floor_warnings(noise, power)
        notes += ["max_time ended the learning of kernel and noise early"] if late() else []
    elif kernel is None:
        assert deviations is not None
        kernel = default_kernel(deviations, power)
    elif isinstance(kernel, SklearnKernel):
        kernel = clone(kernel)
    compiled, white = estimator._compile(kernel, X)
    check_positive_definite(compiled, sample, rng)
    if not learns:
        noise = _keep_noise(estimator.noise, white, sample, compiled, rng, workers)
    relevance, names = None, []
    if deviations is not None and isinstance(kernel, SklearnKernel):
        default_names = [f"x{j}" for j in range(len(deviations))]
        names = [str(name) for name in getattr(estimator, "feature_names_in_", default_names)]
        relevance = feature_relevance(kernel, deviations)
    report = LearningReport(
        family=family,
        stages=stages,
        warnings=notes,
        relevance=relevance,
        feature_names=names,
    )
    learned_kernel = LearnedKernel(kernel, noise, report, deviations, learns, given.fixed)
    return learned_kernel, compiled.kernel


def _keep_noise(
    noise: float | str,
    white: float,
    sample: Sample,
    kernel: CountingKernel,
    rng: np.random.Generator,
    workers: Workers,
) -> float:
    """The given noise, that of White terms, or the best for the given kernel."""
    if noise != "learn":
        return float(noise) + white
    if white > 0:
        return white
    return learn_noise(sample, kernel, rng=rng, workers=workers, all_rows_up_to=limits.SMALL_ROWS)


def _bound_warnings(kernel: Any) -> list[str]:
    """Notes on hyper-parameters of a given kernel that lie at their bounds.

    Not for bounds that nobody set: there a feature of no influence ends, and relevance tells it.
    """
    return [
        f"{name}: widen its bounds, or fix it if that is what you want"
        for name in at_bounds(kernel)
    ]


def _floor_warnings(noise: float, power: float) -> list[str]:
    """A note if the noise lies at its floor."""
    if noise > NOISE_FLOOR * power * 1.01:
        return []
    return [
        f"the noise sits at its floor of {NOISE_FLOOR:g} of the targets' variance: give noise= a "
        "smaller number if the targets are that exact"
    ]
