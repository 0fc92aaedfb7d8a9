"""P(f) ≥ P_min ≥ D, always, with the exact minimum computed beside it."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic

from pursuit import Search, SparseGPRegressor

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""

KINDS = ["published", "dense", "scaled", "hybrid", "grouped", "two-level", "pcg"]


def naive_value(kernel, model, X, Y, weights):
    """P(f) for each output, from its definition."""
    beta = model.dual_coef_.reshape(model.n_basis_, -1)
    residual = Y - kernel(X, model.basis_) @ beta
    norms = np.einsum("io,ij,jo->o", beta, kernel(model.basis_), beta)
    return 0.5 * (weights @ residual**2) + 0.5 * model.noise_ * norms


def assert_brackets(certificate, value, minimum, norms):
    """Compare with the exact numbers, output by output."""
    per_output = certificate.per_output
    slack = 1e-9 * norms
    np.testing.assert_allclose(per_output["upper"], value, rtol=1e-7, atol=1e-9 * norms.max())
    assert np.all(per_output["upper"] >= minimum - slack)
    assert np.all(per_output["lower"] <= minimum + slack)
    assert certificate.upper == pytest.approx(per_output["upper"].sum())
    assert certificate.lower == pytest.approx(per_output["lower"].sum())
    assert certificate.gap == pytest.approx(per_output["gap"].sum())
    assert certificate.gap >= 0
    assert certificate.confidence == 1.0


SITUATIONS = {
    "plain": {},
    "fresh": {"search": "fresh"},
    "full": {"search": "full"},
    "raw targets": {"normalize_y": False},
    "foreign points": {"search": Search(candidates=np.random.default_rng(4).normal(size=(20, 2)))},
    "centres": {"search": Search(candidates="kmeans", pool_size=30)},
    "everything learned": {"noise": "learn", "kernel": None, "optimizer": "evidence"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_outputs", [None, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_certificates_bracket_the_minimum(
    waves, rough_kernel, weighted_scale, exact_minimum, situation, weighted, n_outputs, kind
):
    data = waves(90, n_outputs=n_outputs)
    weights = np.random.default_rng(3).integers(0, 4, 90) / 2 if weighted else np.ones(90)
    arguments = {"kernel": rough_kernel, "noise": 0.1, "n_basis": 12, **SITUATIONS[situation]}
    model = fixed_gp(certificate=kind, random_state=0, **arguments)
    model.fit(data.X, data.y, weights)
    mean, scale = weighted_scale(data.y, weights)
    if situation == "raw targets":
        mean, scale = 0 * mean, np.ones_like(scale)
    Y = (data.y.reshape(90, -1) - mean) / scale
    minimum = exact_minimum(model.kernel_(data.X), Y, model.noise_, weights)
    value = naive_value(model.kernel_, model, data.X, Y, weights)
    norms = weights @ Y**2
    assert model.certificate_.kind == kind
    assert_brackets(model.certificate_, value, minimum, norms)
    again = model.certify(data.X, data.y, sample_weight=weights, kind=kind)
    assert_brackets(again, value, minimum, norms)


@pytest.mark.parametrize("kind", KINDS)
def test_other_rows_can_be_certified(waves, rough_kernel, exact_minimum, weighted_scale, kind):
    data, other = waves(90), waves(60, seed=1)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=12).fit(data.X, data.y)
    mean, scale = weighted_scale(data.y)
    Y = (other.y.reshape(60, -1) - mean) / scale
    minimum = exact_minimum(rough_kernel(other.X), Y, 0.1)
    value = naive_value(rough_kernel, model, other.X, Y, np.ones(60))
    found = model.certify(other.X, other.y, kind=kind)
    assert_brackets(found, value, minimum, (Y**2).sum(axis=0))
    assert found.gap > 0


def test_a_precomputed_model_is_certified_alike(waves, rough_kernel):
    data = waves(80)
    K = rough_kernel(data.X)
    called = fixed_gp(rough_kernel, noise=0.1, n_basis=12).fit(data.X, data.y)
    given_matrix = SparseGPRegressor("precomputed", noise=0.1, n_basis=12).fit(K, data.y)
    for kind in KINDS:
        expected = called.certify(data.X, data.y, kind=kind)
        found = given_matrix.certify(K, data.y, kind=kind)
        # Values of a matrix are taken as exact, those of a kernel are not.
        room = found.rounding + expected.rounding
        assert room < 1e-4 * found.upper
        assert found.upper == pytest.approx(expected.upper, rel=1e-8, abs=room)
        assert found.lower == pytest.approx(expected.lower, rel=1e-8, abs=room)


@pytest.mark.parametrize("kind", KINDS)
def test_relative_gap_is_that_of_the_paper(waves, rough_kernel, weighted_scale, kind):
    """2(Q + σ²Q* + ½y'y)/(-Q + σ²Q* + ½y'y) with Q = P - ½y'y and σ²Q* = -D."""
    data = waves(90)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=12, certificate=kind)
    found = model.fit(data.X, data.y).certificate_
    half = 0.5 * 90
    Q, dual = found.upper - half, -found.lower
    expected = 2 * (Q + dual + half) / (-Q + dual + half)
    assert found.relative_gap == pytest.approx(expected, rel=1e-9)
    assert found.per_output["relative_gap"][0] == pytest.approx(expected, rel=1e-9)


def test_kinds_are_ordered_as_they_are_built(waves, rough_kernel):
    data = waves(90)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=8).fit(data.X, data.y)
    lower = {kind: model.certify(data.X, data.y, kind=kind).lower for kind in KINDS}
    assert lower["scaled"] >= lower["dense"]
    assert lower["hybrid"] >= max(lower["scaled"], lower["published"])
    more_steps = model.certify(data.X, data.y, kind="pcg", steps=30)
    assert more_steps.relative_gap < model.certify(data.X, data.y, kind="pcg", steps=1).relative_gap


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dense"])
def test_no_lower_value_is_worse_than_nothing(waves, rough_kernel, kind):
    """D(0) = 0, so a bound below zero would be a pity; dense is r'Er/2σ² whatever that is."""
    data = waves(150)
    model = fixed_gp(rough_kernel, noise=0.01, n_basis=3).fit(data.X, data.y)
    assert model.certify(data.X, data.y, kind=kind).lower >= 0.0


def test_many_steps_of_pcg_find_the_minimum(waves, rough_kernel, exact_minimum, weighted_scale):
    data = waves(90)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=8).fit(data.X, data.y)
    mean, scale = weighted_scale(data.y)
    minimum = exact_minimum(rough_kernel(data.X), (data.y[:, None] - mean) / scale, 0.1)
    found = model.certify(data.X, data.y, kind="pcg", steps=90)
    assert found.lower == pytest.approx(minimum[0], rel=1e-8)


def test_a_full_basis_closes_the_gap(waves, rough_kernel):
    data = waves(90)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=90).fit(data.X, data.y)
    for kind in KINDS:
        assert model.certify(data.X, data.y, kind=kind).relative_gap < 1e-6


def test_the_certificate_speaks(waves, rough_kernel):
    data = waves(60)
    found = fixed_gp(rough_kernel, noise=0.1, n_basis=5).fit(data.X, data.y).certificate_
    assert f"relative gap {found.relative_gap:.3g}" in str(found)
    assert found.kind in str(found)


def test_no_certificate_when_none_is_wanted(waves):
    data = waves(40)
    assert SparseGPRegressor(certificate=None).fit(data.X, data.y).certificate_ is None


def test_unknown_kind_is_refused(waves):
    data = waves(40)
    model = SparseGPRegressor().fit(data.X, data.y)
    with pytest.raises(ValueError, match=r"kind must be one of published, .*'tight'"):
        model.certify(data.X, data.y, kind="tight")


def test_certify_wants_the_square_matrix(waves, rough_kernel):
    data = waves(40)
    K = rough_kernel(data.X)
    model = SparseGPRegressor("precomputed", noise=0.1).fit(K, data.y)
    with pytest.raises(ValueError, match="square training matrix"):
        model.certify(K[:10], data.y[:10])


def test_nothing_to_certify_when_targets_are_zero():
    X = np.random.default_rng(0).normal(size=(20, 2))
    found = fixed_gp(RBF(), noise=0.1).fit(X, np.zeros(20)).certificate_
    assert found.upper == found.lower == found.gap == found.relative_gap == 0.0


@given(
    st.data(),
    st.sampled_from(
        [RBF(0.3), RBF(4.0), Matern(1.0, nu=0.5), Matern(0.5, nu=2.5), DotProduct(1.0)]
        + [RationalQuadratic(0.7, 2.0), 5.0 * RBF([0.2, 3.0]) + DotProduct(0.1)]
    ),
    st.sampled_from(["pooled", "fresh", "full"]),
    st.sampled_from(KINDS),
    st.floats(-6, 3).map(lambda power: 10.0**power),
    st.integers(2, 40),
    st.integers(1, 45),
    st.integers(1, 3),
    st.booleans(),
)
def test_the_minimum_is_bracketed_for_any_problem(
    exact_minimum, draw, kernel, search, kind, noise, m, n_basis, n_outputs, weighted
):
    rng = np.random.default_rng(draw.draw(st.integers(0, 10_000), label="seed"))
    X = np.round(rng.normal(size=(m, 2)), draw.draw(st.integers(0, 3), label="digits"))
    Y = np.sin(2 * X[:, :1]) + rng.normal(size=(m, n_outputs))
    weights = rng.choice([0.0, 0.1, 1.0, 7.0], m) if weighted else np.ones(m)
    weights[0] = 1.0
    model = fixed_gp(
        kernel,
        noise=noise,
        n_basis=n_basis,
        search=search,
        certificate=kind,
        normalize_y=False,
        random_state=0,
    ).fit(X, Y, weights)
    found = model.certificate_
    minimum = exact_minimum(kernel(X), Y, noise, weights)
    slack = 1e-8 * (weights @ Y**2)
    assert np.all(found.per_output["upper"] >= minimum - slack)
    assert np.all(found.per_output["lower"] <= minimum + slack)
    assert np.isfinite(found.upper)
    assert np.isfinite(found.lower)


@pytest.mark.parametrize("rows_that_pay", [1, 160_000])
def test_a_product_is_computed_only_where_it_should_prove_enough(
    waves, rough_kernel, monkeypatch, rows_that_pay
):
    """The second parameter is the default; with the first one no product could prove enough."""
    data = waves(400)
    monkeypatch.setattr("pursuit.estimators.span.model._AUTO_CERTIFICATE_ROWS", (100, 50_000))
    monkeypatch.setattr("pursuit.estimators.span.certify._ROWS_THAT_PAY", rows_that_pay)
    model = SparseGPRegressor(rough_kernel, n_basis=100, random_state=0).fit(data.X, data.y)
    assert (model.certificate_.kind == "hybrid") == (rows_that_pay > 1)


def test_the_pursuit_beside_a_product_looks_at_a_pool_of_many_rows(
    waves, rough_kernel, monkeypatch
):
    """A smaller pool proves less, and never something false."""
    data = waves(300)
    model = fixed_gp(rough_kernel, noise=0.05, n_basis=12, random_state=0).fit(data.X, data.y)
    of_all = model.certify(data.X, data.y)
    monkeypatch.setattr("pursuit.estimators.span.certify.ALL_ROWS_BESIDE", 50)
    of_a_pool, scaled = model.certify(data.X, data.y), model.certify(data.X, data.y, kind="scaled")
    assert scaled.lower <= of_a_pool.lower < of_all.lower
    exact = model.certify(data.X, data.y, kind="pcg", steps=300)
    assert of_all.lower <= exact.upper
    assert of_all.lower <= exact.lower * (1 + 1e-9)


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_coefficients_that_were_changed_by_hand_are_not_certified(waves, n_outputs):
    data = waves(60, n_outputs=n_outputs)
    X, y = data.X, data.y
    model = fixed_gp(RBF(1.0), noise=0.1, n_basis=10, random_state=0).fit(X, y)
    proved = model.certify(X, y).upper
    model.dual_coef_ = 1.5 * model.dual_coef_
    with pytest.raises(ValueError, match="dual_coef_ was changed after the fit"):
        model.certify(X, y)
    model.dual_coef_ /= 1.5
    assert model.certify(X, y).upper == proved
