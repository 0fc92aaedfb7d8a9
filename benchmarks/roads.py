"""Points on winding roads: many rows, few dimensions, and structure much finer than a basis."""

from __future__ import annotations

import numpy as np

from benchmarks.data import Floats, Regression, standardised

NOISE = 0.1
"""Standard deviation of the noise; that of the function is 1."""

_POINTS_PER_ROAD = 500
_STEP, _TURN = 0.0008, 0.25


def roads(n_rows: int, n_test: int, seed: int = 0) -> tuple[Regression, float]:
    """Rows along roads in the unit square, and the noise's deviation in units of the target.

    The target is a smooth field, a rough one with 0.7 of its amplitude, and noise. The third
    feature follows a field that matters little. More rows are more roads through the same fields;
    the seed draws roads, noise and the test rows.
    """
    rng = np.random.default_rng(seed)
    m = n_rows + n_test
    n_roads = -(-m // _POINTS_PER_ROAD)
    start = rng.uniform(0, 1, (n_roads, 1, 2))
    heading = np.cumsum(rng.normal(0, _TURN, (n_roads, _POINTS_PER_ROAD)), axis=1)
    heading += rng.uniform(0, 2 * np.pi, (n_roads, 1))
    steps = _STEP * np.stack([np.cos(heading), np.sin(heading)], axis=-1)
    P = (start + np.cumsum(steps, axis=1)).reshape(-1, 2)[:m]
    height = _field(P, scale=0.1, n_waves=200, seed=3)
    f = _field(P, scale=0.25, n_waves=300, seed=1) + 0.1 * height
    f += 0.7 * _field(P, scale=0.03, n_waves=600, seed=2)
    X = np.column_stack([P, height + rng.normal(0, 0.05, m)])
    y = (f - f.mean()) / f.std() + rng.normal(0, NOISE, m)
    test, train = np.split(rng.permutation(m), [n_test])
    data = standardised("roads", X[train], y[train], X[test], y[test])
    return data, NOISE / float(y[train].std())


def _field(P: Floats, *, scale: float, n_waves: int, seed: int) -> Floats:
    """Random Fourier features of a Gaussian process with a Matérn 3/2 kernel."""
    rng = np.random.default_rng(seed)
    waves = rng.normal(0, 1 / scale, (n_waves, 2)) / np.sqrt(rng.chisquare(3, (n_waves, 1)) / 3)
    phases = rng.uniform(0, 2 * np.pi, n_waves)
    total: Floats = np.zeros(len(P))
    for wave, phase in zip(waves, phases, strict=True):
        total += np.cos(P @ wave + phase)
    total *= np.sqrt(2 / n_waves)
    return total
