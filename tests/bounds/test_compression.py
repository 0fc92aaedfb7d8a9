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
    """The bracket of Theorem 2, letter by letter: R stands inside the root."""
    count = t * math.log(math.e * m / t) + math.log(2 * m / delta)
    return tau / (m - t) + math.sqrt(R / (2 * (m - t)) * count)


def corrected(m, t, tau, delta, R):
    count = t * math.log(math.e * m / t) + math.log(2 * m / delta)
    return tau / (m - t) + R * math.sqrt(count / (2 * (m - t)))


FORMS = {"exact": exact, "corrected": corrected, "printed": printed}


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
    found = {
        form: compression_bound([t], [tau], m, delta, radius=R, form=form).value[0]
        for form in FORMS
    }
    for form, formula in FORMS.items():
        assert found[form] == pytest.approx(formula(m, t, tau, delta, R), rel=1e-10)
    assert found["exact"] <= found["corrected"]
    bound = compression_bound([t], [tau], m, delta, radius=R)
    assert bound.confidence == 1 - delta
    assert bound.vacuous[0] == (bound.value[0] >= R)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_theorem_2_is_a_minimum_over_smaller_sizes(form, seed):
    """min_{1≤t≤k}, written out; without it the bound rises again where the basis is large."""
    rng = np.random.default_rng(seed)
    m, R = 80, rng.uniform(0.2, 5.0)
    tau = m * R * np.cumprod(rng.uniform(0.7, 1.0, 60))
    terms = [FORMS[form](m, t, tau[t - 1], 0.05, R) for t in range(1, 61)]
    found = compression_bound(np.arange(1, 61), tau, m, 0.05, radius=R, form=form)
    expected = [min(terms[:k]) for k in range(1, 61)]
    np.testing.assert_allclose(found.value, expected, rtol=1e-12)
    assert terms[-1] > 1.2 * found.value[-1]
    assert found.size[found.best] == 1 + int(np.argmin(terms))


def test_the_radius_stands_outside_the_root_but_in_print():
    """Scaling the kernel scales the bound; with R inside the root it does not."""
    size, tau = [1, 5, 20], np.array([30.0, 12.0, 2.0])
    for form in ("exact", "corrected"):
        one = compression_bound(size, tau, 100, 0.05, form=form)
        four = compression_bound(size, 4 * tau, 100, 0.05, radius=4.0, form=form)
        np.testing.assert_allclose(four.value, 4 * one.value, rtol=1e-14)
        assert four.caveat == ""
    one = compression_bound(size, tau, 100, 0.05, form="printed")
    np.testing.assert_array_equal(
        one.value, compression_bound(size, tau, 100, 0.05, form="corrected").value
    )
    assert one.caveat == ""
    four = compression_bound(size, 4 * tau, 100, 0.05, radius=4.0, form="printed", caveat="so")
    assert np.all(four.value < 4 * one.value)
    assert "so; the paper has R = 4 inside the root" in str(four)
    assert "not a bound" in str(four)
    small = compression_bound(size, tau / 4, 100, 0.05, radius=0.25, form="printed")
    assert "larger than need be" in small.caveat


def test_wrong_forms_and_sizes_are_named():
    with pytest.raises(ValueError, match="form must be one of 'exact', 'corrected', 'printed'"):
        compression_bound([1], [1.0], 10, 0.05, form="tight")
    with pytest.raises(ValueError, match="size must increase"):
        compression_bound([2, 1], [1.0, 2.0], 10, 0.05)


def test_no_row_outside_the_basis_means_no_bound():
    assert np.isinf(compression_bound([10, 11], np.zeros(2), 10, 0.05).value).all()
    smaller = compression_bound([9, 10, 11], np.zeros(3), 10, 0.05).value
    assert np.isfinite(smaller).all()
    assert np.ptp(smaller) == 0.0


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
    """k + 1, as in the paper, is too small a dimension for m = 3000, k = 12, t = 60."""
    m, k, t = 3000, 12, 60
    M = m - k - t

    def bits(D):
        count = D * math.log2(4 * math.e * M / D) + k * math.log2(math.e * m / k)
        return count + t * math.log2(math.e * (m - k) / t) + math.log2(2 * m**2 / 0.05)

    in_print = correlation_bound([k], [t], m, 0.05, tolerance=1.0, printed=True)
    assert in_print.value[0] == pytest.approx(2 / M * bits(k + 1), rel=1e-12)
    assert in_print.value[0] == pytest.approx(0.487, abs=5e-4)
    assert 2 / M * bits(2 * k + 1) == pytest.approx(0.563, abs=5e-4)
    assert "2k + 1: not proved" in str(in_print)
    assert in_print.name.endswith("Theorem 4, as printed")
    right = correlation_bound([k], [t], m, 0.05, tolerance=1.0)
    ways = math.comb(m, k) * math.comb(m - k, t) * 2 * m**2
    ways *= sum(math.comb(4 * M, i) for i in range(2 * k + 2))
    assert right.value[0] == pytest.approx(2 / M * (math.log2(ways) - math.log2(0.05)), rel=1e-9)
    fewer = correlation_bound([k], [t], m, 0.05, dimension=[k + 1], tolerance=1.0)
    assert fewer.value[0] < right.value[0] < 2 / M * bits(2 * k + 1)
    assert "differ by more than 1" in right.quantity
    assert right.caveat == ""


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0])
def test_delta_is_a_probability(delta):
    message = "delta must lie strictly between 0 and 1"
    with pytest.raises(ValueError, match=message):
        compression_bound([1], [1.0], 10, delta)
    with pytest.raises(ValueError, match=message):
        kpca_bound([1.0], 1.0, 1.0, 10, delta)
    with pytest.raises(ValueError, match=message):
        correlation_bound([1], [1], 10, delta, tolerance=1.0)
