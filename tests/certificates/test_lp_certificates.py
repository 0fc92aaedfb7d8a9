"""LP machines: their certificates against the linear programme over the columns of all rows."""

from functools import partial

import numpy as np
import pytest
from certificates.driver import audit, faults, total
from certificates.hulls import columns_programme
from certificates.problems import (
    KINDS,
    draw_kernel,
    draw_labels,
    draw_rows,
    draw_targets,
    draw_weights,
)

from pursuit import LPMachineClassifier, LPMachineRegressor, Search
from pursuit.estimators.lp import growth


def hinge(K, signs, costs):
    """Σ|a| + Σc max(0, 1 - yf) over all columns of K."""
    slopes = signs * costs
    return columns_programme(
        K,
        signs[None],
        np.minimum(slopes, 0.0)[None],
        np.maximum(slopes, 0.0)[None],
        lambda f: float(costs @ np.maximum(1.0 - signs * f, 0.0)),
    )


def tube(K, y, costs, epsilon):
    """Σ|a| + Σc max(0, |y - f| - ε) over all columns of K, in units in which y is about 1."""
    middle = float(np.median(y))
    unit = float(np.abs(y - middle).mean()) or 1.0
    y, epsilon = (y - middle) / unit, epsilon / unit
    none = np.zeros_like(costs)
    found = columns_programme(
        K,
        np.stack([y - epsilon, y + epsilon]),
        np.stack([none, -costs]),
        np.stack([costs, none]),
        lambda f: float(costs @ np.maximum(np.abs(y - f) - epsilon, 0.0)),
    )
    return found.times(unit)


def hinge_constant(signs, costs):
    """The least hinge loss of a constant, which has kinks at ±1."""
    return min(float(costs @ np.maximum(1.0 - signs * b, 0.0)) for b in (-1.0, 1.0))


def tube_constant(y, costs, epsilon):
    """The least loss of a constant, which has kinks at y ± ε."""
    kinks = np.concatenate([y - epsilon, y + epsilon])
    return min(float(costs @ np.maximum(np.abs(y - b) - epsilon, 0.0)) for b in kinks)


def check_lp(monkeypatch, seed, m=None):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(12, 90)) if m is None else m
    X = draw_rows(rng, m, int(rng.integers(1, 4)))
    kernel = draw_kernel(rng, X.shape[1], [kind for kind in KINDS if kind not in ("poly", "sum")])
    weights = draw_weights(rng, m)
    w = np.ones(m) if weights is None else weights
    C = float(10.0 ** rng.uniform(-1.5, 1))
    pooled = rng.random() < 0.5
    arguments = {
        "kernel": kernel.kernel,
        "C": C,
        "search": Search("pooled", pool_size=int(rng.integers(3, 30))) if pooled else "full",
        "n_basis": int(rng.integers(1, 20)) if rng.random() < 0.4 else None,
        "tol": float(10.0 ** rng.uniform(-8, -1)),
        "random_state": seed,
        "n_jobs": 1,
        **kernel.arguments,
    }
    given = kernel.given(X)
    monkeypatch.setattr(growth, "BATCH", int(rng.integers(1, 12)))
    if seed % 4 < 2:
        n_classes = int(rng.choice([2, 3]))
        y = draw_labels(rng, X, n_classes)
        for each in range(n_classes):
            w[np.flatnonzero(y == each)[:2]] = 1.0
        model = LPMachineClassifier(**arguments).fit(given, y, weights)
        signs = [np.where(y == each, 1.0, -1.0) for each in range(n_classes)]
        signs = signs[1:] if n_classes == 2 else signs
    else:
        y = draw_targets(rng, X, rng.choice([None, 2]))
        unit = float(np.abs(y - np.median(y)).mean())
        epsilon = unit * float(10.0 ** rng.uniform(-3, 0))
        model = LPMachineRegressor(epsilon=epsilon, **arguments).fit(given, y, weights)
    there = w > 0
    K, costs = kernel.matrix(X)[np.ix_(there, there)], C * w[there]
    if seed % 4 < 2:
        parts = [hinge(K, s[there], costs) for s in signs]
        zero = sum(hinge_constant(s[there], costs) for s in signs)
    else:
        columns = y[there].reshape(len(costs), -1).T
        parts = [tube(K, column, costs, epsilon) for column in columns]
        zero = sum(tube_constant(column, costs, epsilon) for column in columns)
    truth = total(parts)
    assert truth.upper - truth.lower <= 1e-6 * truth.upper + 2 * truth.slack, truth
    return faults(model.certificate_, truth, zero=zero)


def test_no_certificate_is_false(size, monkeypatch):
    audit(partial(check_lp, monkeypatch), range(size(12, 200)))


@pytest.mark.verify
def test_no_certificate_is_false_at_real_size(monkeypatch):
    audit(partial(check_lp, monkeypatch, m=2100), range(0, 10, 2))
