"""Weights on the simplex, beside projected gradient steps."""

import numpy as np
import pytest

from pursuit import HuberLoss
from pursuit.solvers import reweight


def onto_simplex(a):
    """The nearest weights that are at least 0 and sum to one."""
    u = np.sort(a)[::-1]
    excess = (np.cumsum(u) - 1) / np.arange(1, len(u) + 1)
    return np.maximum(a - excess[np.flatnonzero(u > excess)[-1]], 0)


def least(loss, Z, n_steps=20_000):
    """Accelerated projected gradient steps; no second derivative of Huber's loss exceeds 1."""
    L = np.linalg.norm(Z * np.sqrt(loss.weights)[:, None], 2) ** 2
    a = z = np.full(Z.shape[1], 1 / Z.shape[1])
    t = 1.0
    for _ in range(n_steps):
        new = onto_simplex(z - Z.T @ loss.gradient(Z @ z) / L)
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        z = new + (t - 1) / following * (new - a)
        if np.abs(new - a).max() < 1e-15:
            break
        a, t = new, following
    return loss.value(Z @ a)


@pytest.mark.parametrize("delta", [1e-3, 0.3, 2.0, 100.0])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_newton_steps_reach_the_least_huber_loss(delta, n):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(40, n))
        loss = HuberLoss(
            Z.sum(axis=1) / n + rng.standard_t(1, size=40), delta, rng.uniform(0, 1, 40)
        )
        start = onto_simplex(rng.normal(size=n))
        found = reweight(loss, Z, start)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1, rel=1e-12)
        assert loss.value(Z @ found) <= least(loss, Z) + 1e-9 * loss.value(0 * loss.y)
