"""Weights: w is w copies, 0 is absent."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from pursuit import (
    ExactGPRegressor,
    LowRankSVC,
    LPMachineClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
)

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""


def assert_same_model(one, other, new, rtol=1e-8):
    np.testing.assert_array_equal(one.basis_, other.basis_)
    for got, expected in zip(
        one.predict(new, return_std=True), other.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=rtol)


@pytest.mark.parametrize("search", ["pooled", "full"])
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_weights_are_copies(waves, rough_kernel, search, n_outputs):
    data = waves(80, n_outputs=n_outputs)
    w = np.random.default_rng(1).integers(0, 4, 80)
    arguments = {"noise": 0.3, "n_basis": 15, "search": search, "certificate": "scaled"}
    weighted = fixed_gp(rough_kernel, **arguments).fit(data.X, data.y, sample_weight=w)
    copies = fixed_gp(rough_kernel, **arguments).fit(
        np.repeat(data.X, w, axis=0), np.repeat(data.y, w, axis=0)
    )
    assert_same_model(weighted, copies, data.new)
    np.testing.assert_allclose(weighted.path_.value, copies.path_.value, rtol=1e-10)
    np.testing.assert_allclose(weighted.certificate_.upper, copies.certificate_.upper, rtol=1e-10)
    # Not so for kinds with a second pursuit, which counts copies as basis functions of their own.
    np.testing.assert_allclose(weighted.certificate_.lower, copies.certificate_.lower, rtol=1e-8)


@pytest.mark.parametrize("search", ["pooled", "full", "fresh"])
def test_weight_zero_is_absent(waves, rough_kernel, search):
    data = waves(90)
    w = np.random.default_rng(2).random(90)
    w[::3] = 0.0
    kept = np.flatnonzero(w)
    arguments = {"noise": 0.3, "n_basis": 15, "search": search, "random_state": 0}
    weighted = fixed_gp(rough_kernel, **arguments).fit(data.X, data.y, w)
    without = fixed_gp(rough_kernel, **arguments).fit(
        data.X[kept], data.y[kept], sample_weight=w[kept]
    )
    assert_same_model(weighted, without, data.new)
    np.testing.assert_array_equal(weighted.basis_indices_, kept[without.basis_indices_])
    np.testing.assert_array_equal(weighted.path_.index, weighted.basis_indices_)
    np.testing.assert_array_equal(weighted.basis_, data.X[weighted.basis_indices_])


def test_weight_zero_hides_a_bad_target(waves, rough_kernel):
    data = waves(60)
    y, w = data.y.copy(), np.ones(60)
    y[7], w[7] = 1e9, 0.0
    model = fixed_gp(rough_kernel, noise=0.3, n_basis=59).fit(data.X, y, w)
    assert 7 not in model.basis_indices_
    assert np.abs(model.predict(data.new)).max() < 20


def test_weight_zero_is_absent_when_everything_is_learned(waves):
    data = waves(60)
    w = np.ones(60)
    w[:20] = 0.0
    weighted = SparseGPRegressor(n_basis=20, random_state=0).fit(data.X, data.y, w)
    without = SparseGPRegressor(n_basis=20, random_state=0).fit(data.X[20:], data.y[20:])
    assert weighted.noise_ == pytest.approx(without.noise_, rel=1e-10)
    assert_same_model(weighted, without, data.new)


def test_weights_are_copies_when_everything_is_learned(waves):
    data = waves(60)
    w = np.random.default_rng(3).integers(1, 4, 60)
    weighted = SparseGPRegressor(n_basis=20, random_state=0).fit(data.X, data.y, w)
    copies = SparseGPRegressor(n_basis=20, random_state=0).fit(
        np.repeat(data.X, w, axis=0), np.repeat(data.y, w)
    )
    np.testing.assert_allclose(weighted.kernel_.theta, copies.kernel_.theta, rtol=1e-8)
    assert weighted.noise_ == pytest.approx(copies.noise_, rel=1e-6)


def test_equal_weights_rescale_the_noise(waves, rough_kernel):
    data = waves(70)
    weighted = fixed_gp(rough_kernel, noise=0.5, n_basis=20).fit(data.X, data.y, np.full(70, 5.0))
    plain = fixed_gp(rough_kernel, noise=0.1, n_basis=20).fit(data.X, data.y)
    np.testing.assert_array_equal(weighted.basis_indices_, plain.basis_indices_)
    np.testing.assert_allclose(weighted.predict(data.new), plain.predict(data.new), rtol=1e-8)


@pytest.mark.parametrize("tiny", [1e-30, 1e-300])
def test_a_vanishing_weight_is_almost_absent(waves, rough_kernel, tiny):
    data = waves(60)
    w = np.ones(60)
    w[:30] = tiny
    weighted = fixed_gp(rough_kernel, noise=0.2).fit(data.X, data.y, w)
    without = fixed_gp(rough_kernel, noise=0.2).fit(data.X[30:], data.y[30:])
    np.testing.assert_allclose(weighted.predict(data.new), without.predict(data.new), rtol=1e-6)
    assert np.isfinite(weighted.certificate_.gap)


@pytest.mark.parametrize(
    "model",
    [
        SparseGPRegressor(n_basis=5),
        SparseGPRegressor("rbf", n_basis=5),
        ExactGPRegressor("rbf"),
        SparseGPClassifier("rbf", n_basis=5),
    ],
    ids=repr,
)
def test_weights_that_add_up_to_one_are_warned_of(waves, model):
    """As copies they are less than one row, and nothing can be learned from that."""
    data = waves(40)
    y = data.y > 3 if isinstance(model, SparseGPClassifier) else data.y
    message = r"adds up to 1: a row of weight w counts as w copies.*Multiply the weights by 40"
    with pytest.warns(UserWarning, match=message) as caught:
        model.fit(data.X, y, np.full(40, 1 / 40))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(data.X, y, np.r_[1.0, np.full(39, 1 / 40)])


def test_the_warning_names_what_a_classifier_has(waves):
    data = waves(40)
    with pytest.warns(UserWarning, match="or give the kernel and set optimizer=None"):
        SparseGPClassifier(n_basis=5).fit(data.X, data.y > 3, np.full(40, 1 / 40))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseGPClassifier(n_basis=5, optimizer=None).fit(data.X, data.y > 3, np.full(40, 1 / 40))


@pytest.mark.parametrize(
    "model",
    [
        LowRankSVC(class_weight="balanced"),
        LPMachineClassifier(class_weight="balanced"),
        SparseGPClassifier(class_weight="balanced", optimizer=None),
    ],
    ids=repr,
)
def test_balanced_classes_have_the_same_weight_altogether(waves, model):
    data = waves(60)
    y = np.digitize(data.y, [2.5, 3.5])
    w = np.random.default_rng(1).integers(0, 4, 60)
    weighted = clone(model).fit(data.X, y, sample_weight=w)
    copies = clone(model).fit(np.repeat(data.X, w, axis=0), np.repeat(y, w))
    totals = np.bincount(y, w) * weighted.class_weight_
    np.testing.assert_allclose(totals, w.sum() / 3)
    np.testing.assert_allclose(
        weighted.decision_function(data.new), copies.decision_function(data.new), atol=1e-8
    )


def test_small_weights_are_fine_where_nothing_is_learned(waves):
    data = waves(40)
    light = fixed_gp("rbf", noise=0.1 / 40, n_basis=5).fit(data.X, data.y, np.full(40, 1 / 40))
    plain = fixed_gp("rbf", noise=0.1, n_basis=5).fit(data.X, data.y)
    np.testing.assert_allclose(light.predict(data.new), plain.predict(data.new), rtol=1e-8)
