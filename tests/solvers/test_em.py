"""Densities and EM steps of Gaussian mixtures against loops over rows."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from pursuit.solvers import EM, Mixture

KINDS = ["full", "diag", "spherical"]


def covariance(factor, kind, d):
    if kind == "full":
        return factor @ factor.T
    return np.diag(np.broadcast_to(factor, d) ** 2)


def mixture(rng, kind, k=3, d=2):
    factors = {
        "full": np.tril(rng.normal(size=(k, d, d)), -1)
        + np.eye(d) * rng.uniform(0.3, 1, (k, 1, 1)),
        "diag": rng.uniform(0.3, 1, (k, d)),
        "spherical": rng.uniform(0.3, 1, k),
    }[kind]
    return Mixture(rng.dirichlet(np.ones(k)), rng.normal(size=(k, d)), factors, kind)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**31))
def test_densities_are_those_of_scipy(kind, seed):
    rng = np.random.default_rng(seed)
    model, X = mixture(rng, kind), rng.normal(size=(6, 2))
    expected = sum(
        a * multivariate_normal(mean, covariance(factor, kind, 2)).pdf(X)
        for a, mean, factor in zip(model.weights, model.means, model.factors, strict=True)
    )
    assert model.log_density(X) == pytest.approx(np.log(expected))
    moved = model.rescaled(np.array([2.0, 2.0]), np.array([1.0, -3.0]))
    assert moved.log_density(2 * X + [1.0, -3.0]) == pytest.approx(np.log(expected / 4))


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**31))
def test_a_step_is_the_textbook_one_and_never_lowers_the_likelihood(kind, seed):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(40, 2)), rng.dirichlet(np.ones(40))
    model, floor = mixture(rng, kind), 1e-6
    after, before = EM(X, w, kind, floor).run(model, 1, -np.inf)
    assume(after.size == model.size)
    assert before == pytest.approx(w @ model.log_density(X))
    assert w @ after.log_density(X) >= before - 1e-6
    shares = np.exp(model.log_joint(X) - model.log_density(X)[:, None]) * w[:, None]
    for k in range(after.size):
        mean = shares[:, k] @ X / shares[:, k].sum()
        scatter = (shares[:, k, None] * (X - mean)).T @ (X - mean) / shares[:, k].sum()
        expected = {
            "full": scatter + floor * np.eye(2),
            "diag": np.diag(np.diag(scatter)) + floor * np.eye(2),
            "spherical": (np.trace(scatter) / 2 + floor) * np.eye(2),
        }[kind]
        assert after.means[k] == pytest.approx(mean)
        assert covariance(after.factors[k], kind, 2) == pytest.approx(expected, abs=1e-9)
    assert after.weights == pytest.approx(shares.sum(axis=0))


@pytest.mark.parametrize("kind", KINDS)
def test_many_features_take_the_path_without_pairs(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 20))
    em = EM(X, np.full(200, 1 / 200), kind, 1e-6)
    start = em.single().with_component(0.3, X[0], em.single().factors[0])
    after, before = em.run(start, 3, -np.inf)
    assert after.log_density(X).mean() >= before


def test_a_component_without_rows_is_dropped():
    X = np.random.default_rng(0).normal(size=(50, 2))
    em = EM(X, np.full(50, 0.02), "full", 1e-6)
    far = em.single().with_component(0.5, np.full(2, 100.0), 0.1 * np.eye(2))
    assert em.run(far, 2, -np.inf)[0].size == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_component_left_out_and_put_back(kind):
    rng = np.random.default_rng(0)
    model, X = mixture(rng, kind), rng.normal(size=(20, 2))
    others = model.without(2)
    assert others.size == 2
    assert others.weights.sum() == pytest.approx(1.0)
    again = others.with_component(model.weights[2], model.means[2], model.factors[2])
    assert again.log_density(X) == pytest.approx(model.log_density(X))


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_counted(kind):
    model = mixture(np.random.default_rng(0), kind, k=3, d=4)
    each = {"full": 14, "diag": 8, "spherical": 5}[kind]
    assert model.n_parameters == 2 + 3 * each


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_starts_grow_together_as_each_would_alone(kind, steps):
    """Against a loop over the starts, each beside a fixed density; a far one starves."""
    rng = np.random.default_rng(0)
    X, w, floor = rng.normal(size=(60, 2)), rng.dirichlet(np.full(60, 5.0)), 1e-6
    em, starts = EM(X, w, kind, floor), mixture(rng, kind)
    starts.weights[:], starts.means[:] = 0.3, [[-0.5, 0.0], [1e3, 1e3], [0.5, 0.5]]
    density = multivariate_normal(np.zeros(2), 2.0 * np.eye(2)).logpdf(X)
    grown, fed, values = em.grow(density, starts, steps)
    assert fed.tolist() == ([0, 1, 2] if steps == 0 else [0, 2])
    for place, number in enumerate(fed):
        weight, mean = starts.weights[number], starts.means[number]
        spread = covariance(starts.factors[number], kind, 2)
        for _ in range(steps):
            own = weight * multivariate_normal(mean, spread).pdf(X)
            shares = w * own / (own + (1 - weight) * np.exp(density))
            weight, mean = shares.sum(), shares @ X / shares.sum()
            spread = ((X - mean).T * shares) @ (X - mean) / shares.sum()
            if kind != "full":
                spread = np.diag(np.diag(spread))
            if kind == "spherical":
                spread = np.eye(2) * np.trace(spread) / 2
            spread = spread + floor * np.eye(2)
        own = weight * multivariate_normal(mean, spread).pdf(X)
        assert grown.weights[place] == pytest.approx(weight)
        assert grown.means[place] == pytest.approx(mean)
        assert covariance(grown.factors[place], kind, 2) == pytest.approx(spread, abs=1e-9)
        assert values[place] == pytest.approx(w @ np.log(own + (1 - weight) * np.exp(density)))
