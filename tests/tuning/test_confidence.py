"""Probabilities from latent functions: averages by quadrature, and how far they are trusted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from pursuit.tuning import Confidence, Latents, averaged_logistic, fit_confidence, log_loss

reals = st.floats(-30, 30)
variances = st.floats(0, 1e4)


@given(mean=reals, variance=st.floats(1e-3, 1e3))
def test_average_of_the_logistic_function(mean, variance):
    sd = np.sqrt(variance)
    inside = [0.0] if abs(mean) < 8 * sd else None
    exact = quad(
        lambda f: expit(f) * norm.pdf(f, mean, sd), mean - 8 * sd, mean + 8 * sd, points=inside
    )[0]
    found = averaged_logistic(np.array([mean]), np.array([variance]))
    assert_allclose(found, exact, atol=5e-4)


@given(mean=reals, variance=variances)
def test_averages_lie_between_the_mean_and_not_knowing(mean, variance):
    p, q = averaged_logistic(np.array([mean, -mean]), np.full(2, variance))
    assert min(expit(mean), 0.5) <= p <= max(expit(mean), 0.5)
    assert_allclose(p, 1 - q, atol=1e-7)


def test_without_variance_tails_are_those_of_the_logistic_function():
    means = np.array([-40.0, -20.0, -12.0])
    assert np.all(averaged_logistic(means, np.zeros(3)) >= expit(means))


def latents(rng, m=400, columns=1, missed=0.0, prior=1.0):
    mean = rng.normal(scale=2.0, size=(m, columns))
    variance = rng.uniform(0.1, 1.0, size=(m, columns))
    return Latents(mean, variance, np.full((m, 1), missed), np.full(m, prior))


@pytest.mark.parametrize("columns", [1, 3])
def test_probabilities_add_up(columns):
    rows = latents(np.random.default_rng(0), columns=columns)
    p = Confidence().probabilities(rows)
    assert p.shape == (400, max(columns, 2))
    assert_allclose(p.sum(axis=1), 1.0)
    assert p.min() >= 0


def test_classes_that_are_all_but_impossible_still_add_up():
    hopeless = Latents(np.full((2, 3), -1e4), np.zeros((2, 3)), np.zeros((2, 1)), np.ones(2))
    assert_allclose(Confidence().probabilities(hopeless), 1 / 3)


def test_the_prior_is_given_back_beyond_what_was_seen():
    trusting = Confidence(spread=0.01, missed=1e-4, seen=0.5)

    def certainty(share):
        mean, prior = np.array([[3.0]]), np.array([100.0])
        row = Latents(mean, np.array([[1.0]]), share * prior[:, None], prior)
        return trusting.probabilities(row)[0, 1]

    assert_allclose(certainty(0.0), expit(3.0), atol=1e-3)
    assert_allclose(certainty(0.5), expit(3.0), atol=2e-3)
    assert certainty(0.7) < certainty(0.5) - 0.05
    everything = averaged_logistic(np.array([3.0]), np.array([100.01]))[0]
    assert_allclose(certainty(1.0), everything)


@pytest.mark.parametrize("factor", [0.05, 1.0, 8.0])
def test_the_variance_that_made_the_labels_is_found(factor):
    rng = np.random.default_rng(0)
    rows = latents(rng, m=40_000)
    f = rows.mean + np.sqrt(factor * rows.variance * 4) * rng.normal(size=rows.mean.shape)
    labels = (rng.random(len(f)) < expit(f[:, 0])).astype(np.intp)
    wide = Latents(rows.mean, 4 * rows.variance, rows.missed, rows.prior)
    found = fit_confidence(wide, labels, np.ones(len(f)), seen=0.0, missed_too=False)
    assert found.n_rows == 40_000
    assert_allclose(found.spread, factor, rtol=0.25, atol=0.1)
    assert found.missed == min(found.spread, 1.0)
    assert found.log_loss <= found.log_loss_before


def test_missed_variance_is_judged_apart():
    rng = np.random.default_rng(1)
    m = 20_000
    rows = latents(rng, m=m)
    rows = Latents(rows.mean, rows.variance, rng.uniform(0, 50, (m, 1)), np.full(m, 60.0))
    f = rows.mean + np.sqrt(rows.variance + 0.1 * rows.missed) * rng.normal(size=(m, 1))
    labels = (rng.random(m) < expit(f[:, 0])).astype(np.intp)
    found = fit_confidence(rows, labels, np.ones(m), seen=1.0, missed_too=True)
    assert_allclose(found.missed, 0.1, rtol=0.3)
    ideal = log_loss(Confidence(1.0, 0.1).probabilities(rows), labels, np.ones(m))
    assert found.log_loss <= ideal + 1e-6


def test_weights_are_counts():
    rng = np.random.default_rng(2)
    rows = latents(rng, m=50, columns=3)
    labels, copies = rng.integers(0, 3, 50), rng.integers(1, 4, 50)
    again = np.repeat(np.arange(50), copies)
    repeated = Latents(
        rows.mean[again], rows.variance[again], rows.missed[again], rows.prior[again]
    )
    weighted = fit_confidence(rows, labels, copies.astype(float), seen=0.0, missed_too=False)
    counted = fit_confidence(
        repeated, labels[again], np.ones(len(again)), seen=0.0, missed_too=False
    )
    assert_allclose(weighted.spread, counted.spread, rtol=1e-6)
    assert_allclose(weighted.log_loss, counted.log_loss, rtol=1e-9)


def test_it_says_what_it_did():
    text = str(Confidence(0.5, 0.01, 0.2, 0.3, 0.25, 400))
    assert text == (
        "leave-one-out on 400 rows: variance times 0.5, missed variance times 0.01; log loss "
        "0.3 -> 0.25"
    )
