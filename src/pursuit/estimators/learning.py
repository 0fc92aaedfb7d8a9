"""Wire the data to hyper-parameter learning: which kernel, which noise, on which rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from pursuit.estimators.inputs import dense
from pursuit.kernels import kernel_gradient, without_white
from pursuit.linalg import Workers
from pursuit.rows import Sample, draw_rows
from pursuit.tuning import (
    NOISE_FLOOR,
    Evidence,
    Learned,
    NoiseRange,
    learn_family,
    learn_given,
)

Floats = NDArray[np.float64]

EVIDENCE_ROWS = 2000
_DENSE_FEATURES = 4096


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


def noise_range(kernel: Any, noise: float | str, power: float) -> NoiseRange:
    """Where the noise may go: given, or within a White term's bounds, or wide."""
    whites = without_white(kernel)[1] if isinstance(kernel, SklearnKernel) else []
    if noise != "learn":
        total = float(noise) + float(sum(white.noise_level for white in whites))
        return NoiseRange(total, total, total, fixed=True)
    if not whites:
        return NoiseRange(0.1 * power, NOISE_FLOOR * power, 10.0 * power)
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
    restarts: int,
    rng: np.random.Generator,
    workers: Workers,
) -> Learned:
    """Maximise the evidence on a random subset of the rows; the kernel's White terms are noise."""
    rows = rng.permutation(draw_rows(sample.n_rows, EVIDENCE_ROWS, rng))
    subset = sample.take(rows)
    items = subset.rows.take(np.arange(len(rows)))
    X = np.asarray(dense(items), dtype=np.float64)
    data = Evidence(X, subset.targets, subset.weights, workers)
    search = {"restarts": restarts, "rng": rng}
    if kernel is None:
        scales = deviations * np.sqrt(len(deviations))
        return learn_family(data, scales, target_power(sample), noise, **search)
    core, _ = without_white(kernel)
    return learn_given(data, core, noise, **search)
