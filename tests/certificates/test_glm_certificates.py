"""SparseKernelGLM: certificates of every loss against the minimum over all functions."""

from dataclasses import replace

import numpy as np
import pytest
from certificates.driver import Enclosure, audit, faults, total
from certificates.glms import (
    LOSSES,
    absolute,
    expectile,
    gamma,
    huber,
    logistic,
    minimum,
    negative_binomial,
    poisson,
    quantile,
    tweedie,
)
from certificates.problems import draw_kernel, draw_rows, draw_weights, own_points
from certificates.spans import expansion_rounding
from scipy.optimize import minimize_scalar

from pursuit import Search, SparseKernelGLM
from pursuit.objectives import PoissonRows

NARROW = 1e-5
"""Relative width up to which an oracle's enclosure says something; most are of 1e-12."""
REAL = "huber", "expectile", "absolute", "quantile"
"""Losses of numbers of any sign, in any unit."""


class GLMCase:
    """Rows, a kernel, weights, offsets, targets, and how a basis is chosen."""

    def __init__(self, name, seed, m=None):
        self.name, self.seed = name, seed
        self.rng = rng = np.random.default_rng([seed, list(LOSSES).index(name)])
        m = int(rng.integers(8, 110)) if m is None else m
        self.X = draw_rows(rng, m, int(rng.integers(1, 4)))
        self.kernel = draw_kernel(rng, self.X.shape[1])
        self.weights = draw_weights(rng, m)
        self.w = np.ones(m) if self.weights is None else self.weights
        X = np.asarray(self.X, dtype=np.float64)
        signal = np.sin(2.0 * X[:, 0]) + 0.2 * np.clip(X[:, -1] - X[:, -1].mean(), -3, 3)
        self.offset = 0.5 * rng.normal(size=m) if rng.random() < 0.4 else None
        self.o = np.zeros(m) if self.offset is None else self.offset
        self.drawn = LOSSES[name](rng)
        self.y = self.drawn.draw(rng, signal + self.o)
        self.alpha = float(10.0 ** rng.uniform(-2, 1))
        if name in REAL and self.offset is None:
            unit = float(10.0 ** rng.choice([-4, 0, 0, 4]))
            self.y = self.y * unit
            self.alpha = self.alpha / (unit if self.drawn.bend is None else 1.0)
        if name not in REAL:
            # Zeros alone have no best constant.
            self.y[np.argmax(self.w)] = max(self.y[np.argmax(self.w)], 0.5)
        self.levels = (0.5,)
        if name == "quantile":
            levels = sorted(rng.choice(np.arange(1, 20), 2, replace=False) / 20.0)
            self.levels = tuple(levels) if rng.random() < 0.4 else (float(rng.uniform(0.05, 0.95)),)
        if name == "expectile":
            self.levels = (self.drawn.rows.level,)

    def model(self, **more):
        rng, free = self.rng, not self.kernel.precomputed
        pool = int(rng.integers(10, 40))
        search = [
            Search("pooled"),
            Search("pooled", pool_size=pool, rows=2 * pool),
            Search("full"),
            Search("pooled", candidates=own_points(rng, self.X)),
        ][int(rng.integers(4 if free else 3))]
        arguments = {
            "kernel": self.kernel.kernel,
            "loss": self.name,
            "quantile": self.levels if len(self.levels) > 1 else self.levels[0],
            "power": getattr(self.drawn.rows, "power", 1.5),
            "alpha": self.alpha,
            "n_basis": int(rng.integers(1, len(self.X) + 2)),
            "optimizer": None,
            "refine": False,
            "certificate": "exact",
            "search": search,
            "random_state": self.seed,
            "n_jobs": 1,
            **self.kernel.arguments,
            **more,
        }
        given = self.kernel.given(self.X)
        return SparseKernelGLM(**arguments).fit(given, self.y, self.weights, offset=self.offset)

    def again(self, model):
        return model.certify(self.kernel.given(self.X), self.y, self.weights, offset=self.offset)

    def fitted_losses(self, model):
        """The formulas with what the fit has learned of them."""
        return {
            "poisson": lambda: [poisson()],
            "gamma": lambda: [gamma()],
            "tweedie": lambda: [tweedie(self.drawn.rows.power)],
            "negative-binomial": lambda: [negative_binomial(model.shape_)],
            "logistic": lambda: [logistic()],
            "huber": lambda: [huber(model.width_)],
            "expectile": lambda: [expectile(*self.levels)],
            "absolute": lambda: [absolute()],
            "quantile": lambda: [quantile(level) for level in self.levels],
        }[self.name]()

    def truth(self, model):
        """The minimum over all functions and intercepts, for every level together."""
        kept = self.w > 0
        K, y = self.kernel.matrix(self.X)[np.ix_(kept, kept)], self.y[kept]
        values = model.decision_function(self.kernel.given(self.X)).reshape(len(self.X), -1)
        losses = self.fitted_losses(model)
        parts = []
        for case, f in zip(losses, values[kept].T, strict=True):
            part = minimum(case, K, y, self.w[kept], self.o[kept], self.alpha)
            size = self.w[kept] @ np.abs(case.value(f + self.o[kept], y))
            assert part.upper - part.lower <= NARROW * size + 2 * part.slack, (part, size)
            parts.append(part)
        slopes = sum(
            self.w[kept] * (np.abs(case.slope(f + self.o[kept], y)) + np.abs(y))
            for case, f in zip(losses, values[kept].T, strict=True)
        )
        points = self.X[model.basis_indices_] if model.basis_ is None else model.basis_
        rounding = expansion_rounding(
            model.dual_coef_.reshape(len(points), -1),
            np.diag(self.kernel.matrix(points)),
            np.diag(K),
            slopes,
            0.5 * self.alpha,
        )
        truth = total(parts)
        return Enclosure(truth.lower, truth.upper, truth.slack + rounding)

    def zero(self, model):
        """P of the best constant."""
        kept = self.w > 0
        y, w, o = self.y[kept], self.w[kept], self.o[kept]
        return sum(best_constant(case, y, w, o) for case in self.fitted_losses(model))


def best_constant(case, y, w, o):
    """The least Σwℓ(b + o, y): at a kink, or where Brent's method ends."""

    def loss(b):
        with np.errstate(over="ignore"):
            return float(w @ case.value(b + o, y))

    if case.bend is None:
        return min(loss(b) for b in y - o)
    unit = float(np.abs(y).max()) if case.name in REAL else 1.0
    return float(minimize_scalar(lambda b: loss(unit * b), bracket=(-0.1, 0.1)).fun)


def check(name, seed, m=None):
    case = GLMCase(name, seed, m)
    model = case.model()
    truth, zero = case.truth(model), case.zero(model)
    found = [model.certificate_, case.again(model)]
    return [fault for each in found for fault in faults(each, truth, zero=zero)]


@pytest.mark.parametrize("name", LOSSES)
def test_no_certificate_is_false(name, size):
    audit(lambda seed: check(name, seed), range(size(10, 60)))


@pytest.mark.parametrize("name", LOSSES)
def test_a_full_basis_closes_the_gap(name):
    """With all rows as functions little is left to prove."""
    case = GLMCase(name, 1, m=60)
    model = case.model(n_basis=60, search="full", kernel="laplacian", gamma=1.0, degree=None)
    assert model.certificate_.relative_gap <= 1e-6
    assert model.certificate_.kind == "exact pass"


@pytest.mark.parametrize("name", LOSSES)
def test_certified_is_at_most_twice_the_true_gap(name, size):
    """Of bases that the estimator chooses, at the first size with a gap of 1 %."""
    for seed in range(size(1, 8)):
        case = GLMCase(name, seed, m=100)
        for n in (1, 2, 4, 6, 9, 13, 19, 28, 40, 60, 90):
            model = case.model(n_basis=n, search="full")
            if model.certificate_.relative_gap <= 0.01:
                break
        truth = case.truth(model)
        unsure = truth.slack + truth.upper - truth.lower
        true = model.certificate_.upper - truth.upper
        assert model.certificate_.gap <= 2.0 * (true + unsure), (seed, n)
        assert model.certificate_.gap_at_least <= true + unsure, (seed, n)


class TooLow(PoissonRows):
    """A conjugate that is a little too small."""

    def conjugate(self, slope, y):
        return super().conjugate(slope, y) - 0.01


def test_a_wrong_conjugate_is_caught():
    """The audit itself: bounds of a conjugate that is 0.01 too small per row are found false.

    So are they by the model, where they contradict its own values.
    """
    found, noticed = [], 0
    for seed in range(6):
        case = GLMCase("poisson", seed, m=60)
        case.weights, case.w = None, np.ones(60)
        model = case.model(loss=TooLow(), n_basis=60, search="full", certificate=None)
        proof = case.again(model)
        truth = case.truth(model)
        found += faults(proof, truth)
        noticed += proof.contradictory
        assert not faults(replace(proof, lower_per_output=np.array([truth.lower])), truth)
    assert len(found) >= 3
    assert noticed >= 3


def test_a_contradiction_leaves_the_model_without_a_certificate():
    case = GLMCase("poisson", 0, m=60)
    case.weights, case.w = None, np.ones(60)
    with pytest.warns(UserWarning, match="contradicts itself.*report"):
        model = case.model(loss=TooLow(), n_basis=60, search="full")
    assert model.certificate_ is None
    assert np.isfinite(model.dual_coef_).all()
