"""log_evidence_bounds_ around the exact log evidence, from what a fitted model has stored."""

import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import digits_lost
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic, WhiteKernel

from pursuit import EvidenceBounds, Search, SparseGPRegressor
from pursuit.bounds import evidence_bounds

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""


def log_evidence(K, Y, noise, weights=None):
    """log N(y; 0, K + σ²W⁻¹), summed over outputs; rows of weight 0 are absent."""
    w = np.ones(len(K)) if weights is None else np.asarray(weights, dtype=float)
    kept = w > 0
    covariance = K[np.ix_(kept, kept)] + np.diag(noise / w[kept])
    Y = Y[kept].reshape(kept.sum(), -1)
    _, log_determinant = np.linalg.slogdet(2 * np.pi * covariance)
    return -0.5 * (np.sum(Y * np.linalg.solve(covariance, Y)) + Y.shape[1] * log_determinant)


def without_room(model):
    """The bounds as if the sums that the model has stored were exact."""
    sums = {name: value for name, value in model._sums.items() if name != "share"}
    return evidence_bounds(model._solution.L, model._solution.z, noise=model.noise_, **sums)


@given(
    st.data(),
    st.sampled_from(
        [RBF(0.3), RBF(4.0), Matern(1.0, nu=0.5), Matern(0.5, nu=2.5), DotProduct(1.0)]
        + [RationalQuadratic(0.7, 2.0), 5.0 * RBF([0.2, 3.0]) + DotProduct(0.1)]
    ),
    st.sampled_from(["pooled", "fresh", "full", "foreign"]),
    st.floats(-3, 2).map(lambda power: 10.0**power),
    st.integers(2, 40),
    st.integers(1, 45),
    st.integers(1, 3),
    st.booleans(),
)
def test_the_exact_evidence_lies_between(
    draw, kernel, search, noise, m, n_basis, n_outputs, weighted
):
    rng = np.random.default_rng(draw.draw(st.integers(0, 10_000), label="seed"))
    X = np.round(rng.normal(size=(m, 2)), draw.draw(st.integers(0, 3), label="digits"))
    Y = np.sin(2 * X[:, :1]) + rng.normal(size=(m, n_outputs))
    weights = rng.choice([0.0, 0.1, 1.0, 7.0], m) if weighted else np.ones(m)
    weights[0] = 1.0
    where = {
        "search": Search(candidates=rng.normal(size=(20, 2))) if search == "foreign" else search
    }
    model = fixed_gp(
        kernel,
        noise=noise,
        n_basis=n_basis,
        certificate=None,
        normalize_y=False,
        random_state=0,
        **where,
    ).fit(X, Y, weights)
    exact = log_evidence(kernel(X), Y, noise, weights)
    lower, upper = model.log_evidence_bounds_
    slack = 1e-7 * (abs(exact) + abs(lower) + abs(upper))
    assert lower <= exact + slack
    assert upper >= exact - slack
    # More functions never hurt, but for rounding and the room that the bounds leave to it.
    short, whole = without_room(model.truncated(max(1, model.n_basis_ // 2))), without_room(model)
    share = digits_lost(model._solution) * model.n_basis_
    slack += share * (n_outputs + float(weights @ (Y**2).sum(axis=1)) / noise)
    assert short.lower <= whole.lower + slack
    assert short.upper >= whole.upper - slack


@pytest.mark.parametrize("n_outputs", [None, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_rows_as_basis_leave_no_doubt(waves, rough_kernel, weighted_scale, n_outputs, weighted):
    data = waves(70, n_outputs=n_outputs)
    weights = np.random.default_rng(1).integers(0, 4, 70) / 2 if weighted else None
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=70).fit(data.X, data.y, weights)
    mean, scale = weighted_scale(data.y, weights)
    Y = (data.y.reshape(70, -1) - mean) / scale
    exact = log_evidence(rough_kernel(data.X), Y, 0.1, weights)
    # What is left between them is room for rounding.
    np.testing.assert_allclose(model.log_evidence_bounds_, (exact, exact), rtol=1e-5)
    assert model.log_evidence_bounds_.lower <= exact <= model.log_evidence_bounds_.upper
    assert not model.log_evidence_bounds_.loose
    assert "tight" in str(model.log_evidence_bounds_)


def test_it_agrees_with_scikit_learn(waves, rough_kernel):
    data = waves(60)
    peer = GaussianProcessRegressor(
        rough_kernel + WhiteKernel(0.1), optimizer=None, normalize_y=True
    ).fit(data.X, data.y)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=60).fit(data.X, data.y)
    for bound in model.log_evidence_bounds_:
        assert bound == pytest.approx(peer.log_marginal_likelihood_value_, rel=1e-6)


def test_a_small_basis_is_called_loose(waves, rough_kernel):
    data = waves(90)
    found = fixed_gp(rough_kernel, noise=0.01, n_basis=3).fit(data.X, data.y)
    bounds = found.log_evidence_bounds_
    assert isinstance(bounds, EvidenceBounds)
    assert bounds.n_values == 90
    assert bounds.loose
    assert "more basis functions" in str(bounds)


def test_rows_of_weight_zero_do_not_count(waves, rough_kernel):
    data = waves(60, n_outputs=2)
    weights = np.ones(60)
    weights[::3] = 0.0
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=10).fit(data.X, data.y, weights)
    without = fixed_gp(rough_kernel, noise=0.1, n_basis=10)
    without.fit(data.X[weights > 0], data.y[weights > 0])
    assert model.log_evidence_bounds_.n_values == 80
    np.testing.assert_allclose(model.log_evidence_bounds_, without.log_evidence_bounds_, rtol=1e-10)


def test_a_pickled_model_knows_them(waves, rough_kernel):
    data = waves(50)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=10).fit(data.X, data.y)
    bounds = model.log_evidence_bounds_
    again = pickle.loads(pickle.dumps(model)).log_evidence_bounds_
    assert again == bounds
    assert pickle.loads(pickle.dumps(bounds)).n_values == bounds.n_values


def test_lower_never_exceeds_upper_by_rounding():
    """With all rows in the basis both are the same number, computed in two ways."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=200)
    for noise in (1e-8, 1e-4, 0.1):
        model = fixed_gp(
            Matern(1.0, nu=0.5), noise=noise, n_basis=200, normalize_y=False, certificate=None
        )
        lower, upper = model.fit(X, y).log_evidence_bounds_
        assert lower <= upper


def test_room_for_rounding():
    """Sixteen points of its own for six rows: K_S'WK_S loses digits, which the bounds allow for."""
    rng = np.random.default_rng(2062)
    X = np.round(rng.normal(size=(6, 2)), 1)
    y = np.sin(2 * X[:, 0]) + rng.normal(size=6)
    weights = rng.choice([0.0, 0.1, 1.0, 7.0], 6)
    weights[0] = 1.0
    points = rng.normal(size=(20, 2))
    noise = 10**-0.5
    model = fixed_gp(
        RBF(4.0), noise=noise, n_basis=16, normalize_y=False, search=Search(candidates=points)
    )
    lower, upper = model.fit(X, y, weights).log_evidence_bounds_
    exact = log_evidence(RBF(4.0)(X), y[:, None], noise, weights)
    assert lower <= exact <= upper
    assert upper - lower < 1e-2
