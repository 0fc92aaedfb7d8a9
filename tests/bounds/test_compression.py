"""Theorems 2 and 4 of HS08 and the bound for kernel PCA, against formulas written out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.bounds import compression_bound, correlation_bound, kpca_bound


def exact(m, t, tau, delta, R):
    return tau / (m - t) + R * math.sqrt(math.log(math.comb(m, t) * m / delta) / (2 * (m - t)))


def printed(m, t, tau, delta, R):
    count = t * math.log(math.e * m / t) + math.log(2 * m / delta)
    return tau / (m - t) + R * math.sqrt(count / (2 * (m - t)))


@given(
    m=st.integers(2, 400),
    share=st.floats(0.0, 0.99),
    delta=st.floats(0.001, 0.9),
    R=st.floats(0.01, 100.0),
    mean=st.floats(0.0, 1.0),
)
def test_theorem_2_is_its_formula(m, share, delta, R, mean):
    t = min(max(1, int(share * m)), m - 1)
    tau = mean * R * (m - t)
    tight = compression_bound([t], [tau], m, delta, radius=R)
    loose = compression_bound([t], [tau], m, delta, radius=R, printed=True)
    assert tight.value[0] == pytest.approx(exact(m, t, tau, delta, R), rel=1e-10)
    assert loose.value[0] == pytest.approx(printed(m, t, tau, delta, R), rel=1e-12)
    assert tight.value[0] <= loose.value[0]
    assert tight.confidence == 1 - delta
    assert tight.vacuous[0] == (tight.value[0] >= R)


def test_the_radius_stands_outside_the_root():
    """Scaling the kernel scales the bound; with R inside the root it would not."""
    size, tau = [1, 5, 20], np.array([30.0, 12.0, 2.0])
    one = compression_bound(size, tau, 100, 0.05, printed=True).value
    four = compression_bound(size, 4 * tau, 100, 0.05, radius=4.0, printed=True).value
    np.testing.assert_allclose(four, 4 * one, rtol=1e-14)


def test_no_row_outside_the_basis_means_no_bound():
    assert np.isinf(compression_bound([9, 10, 11], np.zeros(3), 10, 0.05).value).tolist() == [
        False,
        True,
        True,
    ]


def test_kpca_bound_is_its_formula():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 40))
    K = A @ A.T / 40
    spectrum = np.linalg.eigvalsh(K)[::-1]
    m, d = 40, np.diag(K)
    found = kpca_bound(spectrum[:12], np.trace(K), np.sum(d**2), m, 0.1, radius=d.max())
    for k in range(1, 13):
        parts = [
            spectrum[size:].sum() / m
            + (1 + math.sqrt(size)) / math.sqrt(m) * math.sqrt(2 / m * np.sum(d**2))
            for size in range(1, k + 1)
        ]
        chance = d.max() * math.sqrt(18 / m * math.log(2 * m / 0.1))
        assert found.value[k - 1] == pytest.approx(min(parts) + chance, rel=1e-12)
    assert found.size.tolist() == list(range(1, 13))


def test_theorem_4_counts_both_views():
    """The figures of the specification: k + 1, as in the paper, is too small a dimension."""
    m, k, t = 3000, 12, 60
    right = correlation_bound([k], [t], m, 0.05, dimension=[2 * k + 1], tolerance=1.0, printed=True)
    wrong = correlation_bound([k], [t], m, 0.05, dimension=[k + 1], tolerance=1.0, printed=True)
    assert right.value[0] == pytest.approx(0.563, abs=5e-4)
    assert wrong.value[0] == pytest.approx(0.487, abs=5e-4)
    exact_counts = correlation_bound([k], [t], m, 0.05, dimension=[2 * k + 1], tolerance=1.0)
    assert exact_counts.value[0] < right.value[0]
    assert "differ by more than 1" in right.quantity


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0])
def test_delta_is_a_probability(delta):
    message = "delta must lie strictly between 0 and 1"
    with pytest.raises(ValueError, match=message):
        compression_bound([1], [1.0], 10, delta)
    with pytest.raises(ValueError, match=message):
        kpca_bound([1.0], 1.0, 1.0, 10, delta)
    with pytest.raises(ValueError, match=message):
        correlation_bound([1], [1], 10, delta, dimension=[3], tolerance=1.0)
