"""Starts for periodic kernels: periods that a periodogram of the targets suggests.

The evidence has a hump for every period that fits a little, and an optimiser climbs the nearest.
Imports evidence.py and what lies below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import median_filter
from sklearn.gaussian_process import kernels as gp

from pursuit._types import Floats
from pursuit.kernels import leaves
from pursuit.tuning.evidence import Evidence

_PEAKS = 3  # Peaks taken by their height, and by their contrast. More: safer, slower.
_MULTIPLES = 2, 3  # A wave with strong overtones may have its highest peak at one of them.
_OVERSAMPLING = 5  # Frequencies per width of a peak.
_MOST_CYCLES = 1 << 14  # Shortest period looked for, as a part of the range of the column.
_BACKGROUND = 101  # Frequencies whose median is the power around a peak.
_BLOCK = 64  # Frequencies per block of the periodogram; changes the time only.
_HUMP = 0.25  # Width of a hump of the evidence in the frequency, in parts of 1 / range.


@dataclass(frozen=True)
class PeriodicPart:
    """A free period of a kernel, and the one column that it belongs to."""

    name: str
    column: int
    low: float
    high: float


def periodic_parts(kernel: Any, n_features: int) -> list[PeriodicPart]:
    """The free periods of the kernel's parts that look at one column each."""
    parts = []
    for prefix, leaf, columns in leaves(kernel, n_features):
        if type(leaf) is not gp.ExpSineSquared or len(columns) != 1:
            continue
        if not leaf.hyperparameter_periodicity.fixed:
            low, high = np.ravel(leaf.hyperparameter_periodicity.bounds)
            name = f"{prefix}periodicity"
            parts.append(PeriodicPart(name, int(columns[0]), float(low), float(high)))
    return parts


def theta_units(kernel: Any, X: Floats) -> Floats:
    """What a step of 1 means for each entry of θ: 1, or for a period the width of its hump."""
    units = np.ones(len(kernel.theta))
    periods = {part.name: part.column for part in periodic_parts(kernel, X.shape[1])}
    position = 0
    for parameter in kernel.hyperparameters:
        if parameter.name in periods:
            period = float(kernel.get_params()[parameter.name])
            span = float(np.ptp(X[:, periods[parameter.name]]))
            units[position] = min(1.0, _HUMP * period / span) if span > 0 else 1.0
        position += 0 if parameter.fixed else parameter.n_elements
    return units


def at_period(kernel: Any, part: PeriodicPart, period: float) -> Any:
    """The kernel with another period."""
    return kernel.clone_with_theta(kernel.theta).set_params(**{part.name: period})


def candidate_periods(data: Evidence, part: PeriodicPart) -> list[float]:
    """Periods within the bounds at which the targets have most power, with and without their trend.

    The wave of the highest peak is subtracted before the next is looked for. Later peaks are those
    that stand out most from the frequencies around them, which a wandering trend does not fool.
    Multiples of the first of either kind are candidates too.
    """
    t, span = data.X[:, part.column], float(np.ptp(data.X[:, part.column]))
    if span == 0.0:
        return []
    gaps = np.diff(np.sort(t))
    shortest = max(2.0 * float(gaps[gaps > 1e-9 * span].min()), span / _MOST_CYCLES, part.low)
    longest = min(span, part.high)
    if shortest >= longest:
        return []
    waves = _Waves.between(t - t.mean(), span, 1.0 / longest, 1.0 / shortest)
    level, rest = _residuals(data, part.column)
    frequencies = waves.peaks(rest, data.weights, [False] * _PEAKS + [True] * _PEAKS)
    found: list[float] = []
    for k, frequency in enumerate(frequencies + waves.peaks(level, data.weights, [False])):
        for factor in (1, *_MULTIPLES) if k % _PEAKS == 0 else (1,):
            period = min(max(factor / frequency, shortest), longest)
            if _is_new(period, found, span):
                found.append(period)
    return found


def _is_new(period: float, known: list[float], span: float) -> bool:
    """Whether a period differs from others by more than half the width of a peak."""
    return all(abs(1.0 / period - 1.0 / other) > 0.5 / span for other in known)


def _residuals(data: Evidence, column: int) -> tuple[Floats, Floats]:
    """The targets less their mean, and less a parabola in the column and a plane in few others."""
    X = data.X - data.X.mean(axis=0)
    X /= np.maximum(np.abs(X).max(axis=0), 1e-300)
    t, others = X[:, [column]], np.delete(X, column, axis=1)
    few = others.shape[1] < len(X) // 10
    trend = [np.ones_like(t), t, t**2, *([others] if few else [])]
    level = _less(data.y, np.ones_like(t), data.weights)
    return level, _less(level, np.hstack(trend), data.weights)


def _wave(t: Floats, frequency: float) -> Floats:
    angle = 2.0 * np.pi * frequency * t
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _less(y: Floats, basis: Floats, weights: Floats) -> Floats:
    """The residuals of weighted least squares on a basis."""
    root = np.sqrt(weights)[:, None]
    return np.asarray(y - basis @ np.linalg.lstsq(root * basis, root * y, rcond=None)[0])


@dataclass(frozen=True)
class _Waves:
    """Waves exp(-2πi f t) at the frequencies f = first + k step for k < n.

    With k = 64a + b they are products of two: two small tables and a matrix product are enough.
    """

    t: Floats
    first: float
    step: float
    n: int
    coarse: Any
    fine: Any

    @classmethod
    def between(cls, t: Floats, span: float, low: float, high: float) -> _Waves:
        """Those of all frequencies from low to high, and one more at either end."""
        step = 1.0 / (_OVERSAMPLING * span)
        n = 3 + int((high - low) / step)
        first = low - step
        blocks = first + step * _BLOCK * np.arange(-(-n // _BLOCK))
        coarse = np.exp(-2j * np.pi * np.outer(blocks, t))
        fine = np.exp(-2j * np.pi * np.outer(t, step * np.arange(_BLOCK)))
        return cls(t, first, step, n, coarse, fine)

    def power(self, y: Floats) -> Floats:
        """Return Σ_o |Σ_i y_io exp(-2πi f t_i)|² of all frequencies."""
        powers = [np.abs((self.coarse * target) @ self.fine) ** 2 for target in y.T]
        return np.asarray(np.sum(powers, axis=0)).ravel()[: self.n]

    def peaks(self, y: Floats, weights: Floats, contrasts: list[bool]) -> list[float]:
        """Frequencies of the highest peaks; each wave is subtracted before the next is found.

        With contrast a peak is as high as it stands out from the frequencies around it. Only waves
        that are sampled twice or more are compared so: noise has many others.
        """
        frequencies = []
        for contrast in contrasts:
            power = self.power(weights[:, None] * y)
            height = power
            if contrast:
                around = median_filter(power, min(_BACKGROUND, self.n), mode="nearest")
                height = power / np.maximum(around, 1e-12 * power.max() + 1e-300)
                sampled = (len(self.t) / (2.0 * np.ptp(self.t)) - self.first) / self.step
                height = height[: max(3, int(sampled))]
            top = _highest(height)
            if top is not None:
                frequencies.append(self.first + self.step * _vertex(power, top))
                y = _less(y, _wave(self.t, frequencies[-1]), weights)
        return frequencies


def _highest(power: Floats) -> int | None:
    """Position of the highest local maximum; None if there is none."""
    inner = power[1:-1]
    peaks = 1 + np.flatnonzero((inner >= power[:-2]) & (inner > power[2:]))
    return int(peaks[np.argmax(power[peaks])]) if len(peaks) else None


def _vertex(power: Floats, top: int) -> float:
    """Position of the vertex of a parabola through a peak and its neighbours."""
    left, middle, right = power[top - 1 : top + 2]
    curvature = left - 2.0 * middle + right
    return top + float(0.5 * (left - right) / curvature) if curvature < 0 else float(top)
