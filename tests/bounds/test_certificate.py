"""Certificates: P ≥ P_min ≥ D for every kind."""

import dataclasses
import math
from decimal import Decimal

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import make_task, tasks

from pursuit.bounds import Certificate, relative_gap
from pursuit.estimators.span.certify import KINDS, Certifier, Model
from pursuit.linalg import Workers
from pursuit.rounding import Rounded, dots

# Certificate


@pytest.fixture
def certificate():
    return Certificate(np.array([3.0, 2.0]), np.array([2.5, 2.0]), np.array([10.0, 12.0]), "dense")


def test_a_gap_of_rounding_is_none():
    """Where f = 0 is best, P = D = ½y'Wy and the denominator is rounding too."""
    half = 818.4629376766007
    assert relative_gap(half, np.nextafter(half, 0), 2 * half) == 0.0
    assert relative_gap(half, half * (1 - 1e-9), 2 * half) == pytest.approx(2.0)


def test_numbers(certificate):
    assert (certificate.upper, certificate.lower, certificate.gap) == (5.0, 4.5, 0.5)
    assert certificate.relative_gap == pytest.approx(2 * 0.5 / (22 - 5 - 4.5))
    assert certificate.confidence == 1.0
    per_output = certificate.per_output
    assert per_output["upper"].tolist() == [3.0, 2.0]
    assert per_output["lower"].tolist() == [2.5, 2.0]
    assert per_output["gap"].tolist() == [0.5, 0.0]
    np.testing.assert_allclose(per_output["relative_gap"], [1 / (10 - 5.5), 0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.kind = "pcg"


def test_it_speaks(certificate):
    """P(0) = 11, P = 5 and D = 4.5: 6 of 6.5 are gained, 92.3 %."""
    assert str(certificate) == (
        "captures at least 92.3 % of what the best of all functions could gain over f = 0; at most "
        "7.7 % is left (dense bound). P(f) = 5 is at most 0.5 above the minimum over all functions "
        "(relative gap 0.08)."
    )
    named = dataclasses.replace(
        certificate, reference="the full model", baseline="predicting the mean", confidence=0.95
    )
    assert str(named).startswith(
        "captures at least 92.3 % of what the full model could gain over predicting the mean; at "
        "most 7.7 % is left (dense bound with probability 0.95). P(f) = 5 is "
    )
    for minimum, words in ((2.75, "between 0.25 and 0.5"), (2.25, "at most 0.5")):
        bounded = dataclasses.replace(
            certificate, minimum_upper_per_output=np.array([minimum, 2.0])
        )
        assert f"is {words} above" in str(bounded)


def of(upper, lower, zero):
    return Certificate(np.array([upper]), np.array([lower]), np.array([2.0 * zero]), "dense")


def words(certificate):
    """The share in words, without what follows."""
    return str(certificate).split(" of what")[0].split(":")[0]


@given(st.floats(-1e3, 1e3), st.floats(0, 1e3), st.floats(0, 1e3))
def test_captured_is_the_share_of_the_lowest_minimum(lower, gap, gained):
    """With D in place of P_min; another minimum above D makes the share larger."""
    found = of(lower + gap, lower, lower + gap + gained)
    zero, upper = 0.5 * found.target_norms[0], found.upper
    if np.isnan(found.captured):
        assert zero - lower <= 1e-15 * abs(found.target_norms[0])
        return
    for minimum in np.linspace(lower, upper, 5):
        if zero > minimum:
            assert found.captured <= (zero - upper) / (zero - minimum) + 1e-12
    assert found.captured == pytest.approx(max(zero - upper, 0.0) / (zero - lower), abs=1e-12)


@given(st.floats(1e-9, 1.0 - 1e-9) | st.floats(0, 1e-4) | st.floats(1 - 1e-4, 1, exclude_max=True))
def test_percentages_promise_no_more_than_is_proved(left):
    """What is captured is rounded down and what is left up, to numbers that add up to 100."""
    found = of(left, 0.0, 1.0)
    text = str(found)
    if left == 0:
        assert text.startswith("captures all of what")
        return
    captured, rest = (Decimal(text.split(s)[1].split(" %")[0]) for s in ("at least ", "at most "))
    assert captured + rest == 100
    assert 0 <= captured < 100
    assert captured <= 100 - 100 * Decimal(found.gap) + Decimal("1e-12")
    assert captured > 100 - 100 * Decimal(found.gap) - Decimal("0.1000001")


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0.019, 0.0, 1.0), "captures at least 98.1 %"),
        ((0.0199, 0.0, 1.0), "captures at least 98.0 %"),
        ((0.00191, 0.0, 1.0), "captures at least 99.80 %"),
        ((0.0004, 0.0, 1.0), "captures at least 99.960 %"),
        ((1e-9, 0.0, 1.0), "captures at least 99.999 %"),
        ((1e-300, 0.0, 1.0), "captures at least 99.999 %"),
        ((0.9991, 0.0, 1.0), "captures at least 0.089 %"),
        ((1.0 - 1e-7, 0.0, 1.0), "captures at least 0.000 %"),
        ((0.5, -np.inf, 1.0), "captures at least 0.000 %"),
        ((0.5, 0.5, 1.0), "captures all"),
        ((0.5, 0.5 + 1e-16, 1.0), "captures all"),
        ((1.0, 0.0, 1.0), "captures nothing"),
        ((1.5, 0.0, 1.0), "captures nothing"),
        ((0.0, 0.0, 0.0), "captures everything"),
        ((1.0, 1.0 - 1e-16, 1.0), "captures everything"),
    ],
)
def test_words_at_the_ends(numbers, expected):
    assert words(of(*numbers)) == expected


def test_captured_at_the_ends():
    assert of(0.5, -np.inf, 1.0).captured == 0.0
    assert of(1.5, 0.0, 1.0).captured == 0.0
    assert of(0.5, 0.5, 1.0).captured == 1.0
    assert np.isnan(of(0.0, 0.0, 0.0).captured)


def test_a_contradiction_is_not_hidden():
    """A lower end above the upper one, or above an upper bound on the minimum, shows."""
    certificate = Certificate(np.array([1.0]), np.array([1.0 + 1e-12]), np.array([9.0]), "dense")
    assert certificate.contradictory
    assert certificate.gap == pytest.approx(-1e-12, rel=1e-3)
    assert certificate.per_output["gap"].tolist() == [certificate.gap]
    fine = dataclasses.replace(certificate, lower_per_output=np.array([0.5]))
    assert not fine.contradictory
    assert dataclasses.replace(fine, minimum_upper_per_output=np.array([0.4])).contradictory


def rounded(value, error):
    return Rounded(np.array([value]), np.array([error]))


def test_rounding_moves_both_ends():
    found = Certificate.proved(
        rounded(3.0, 1e-6),
        rounded(2.0, 1e-7),
        np.array([10.0]),
        "dense",
        minimum_upper=rounded(2.5, 1e-5),
    )
    assert found.upper > 3.000001
    assert found.upper == pytest.approx(3.000001, rel=1e-15)
    assert found.lower < 1.9999999
    assert found.rounding == pytest.approx(1.1e-6)
    assert found.informative
    # P(f) may be as low as 2.999999, and the minimum as high as 2.50001.
    assert 0.49998 < found.gap_at_least <= 2.999999 - 2.50001


def test_rounding_may_leave_nothing_to_say():
    """The years of the torture: lower 25.7 and upper 1.72, with an allowance beyond both."""
    found = Certificate.proved(
        rounded(1.72, 0.1), rounded(25.7, 60.0), np.array([4.0]), "dense", remedy="raise the noise"
    )
    assert (found.lower, found.informative, found.contradictory) == (0.0, False, False)
    assert str(found).startswith("says nothing: rounding may move its numbers by 1.82, and P(0) is")
    assert str(found).endswith("(dense bound). Raise the noise.")
    assert found.relative_gap > 0.1


def test_little_rounding_takes_nothing_from_a_statement():
    """Where nothing can be gained, P(0) - D is rounding as well."""
    found = Certificate.proved(rounded(5.0, 1e-13), rounded(5.0, 1e-13), np.array([10.0]), "dense")
    assert found.informative
    assert found.relative_gap == 0.0
    assert str(found).startswith("captures everything")


def test_a_logarithm_of_zero_is_not_nothing():
    """ln mean exp(-f) of f = 0 is 0: its rounding is compared with the unit of logarithms."""
    numbers = rounded(0.0, 1e-13), rounded(-1e-14, 1e-13), np.zeros(1), "Frank-Wolfe"
    found = Certificate.proved(*numbers, trivial=-np.inf, unit=1.0)
    assert found.informative
    assert str(found).startswith("captures everything")
    assert not Certificate.proved(*numbers, trivial=-np.inf).informative


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((3.0, 2.0, 10.0), 2 / 5),
        ((0.0, 0.0, 0.0), 0.0),
        ((5.0, 4.0, 9.0), np.inf),
        ((1.0, 2.0, 9.0), 0.0),
    ],
)
def test_relative_gap(numbers, expected):
    assert relative_gap(*numbers) == pytest.approx(expected)


@given(st.floats(0, 50), st.floats(0, 50), st.floats(100.1, 200))
def test_relative_gap_is_the_published_one(upper, lower, norm):
    """SB01: 2(Q + σ²Q* + ½y'y)/(-Q + σ²Q* + ½y'y) with P = Q + ½y'y and D = -σ²Q*."""
    upper, lower = max(upper, lower), min(upper, lower)
    Q, Q_dual = upper - norm / 2, -lower
    published = 2 * (Q + Q_dual + norm / 2) / (-Q + Q_dual + norm / 2)
    assert relative_gap(upper, lower, norm) == pytest.approx(published, abs=1e-12)


# Certifier


def optimal_model(task, S):
    """The best model on the rows S, by least squares."""
    K = task.K
    beta = oracles.span_fit(K[:, S], K[np.ix_(S, S)], task.Y, task.w, task.noise)
    points = task.sample.rows.take(np.array(S, dtype=np.intp))
    return Model(points, beta)


def certify(task, models, kind, **options):
    with Workers(1) as workers:
        return Certifier(task.problem(workers)).certify(models, kind, **options)


@st.composite
def tasks_with_basis(draw):
    """A kernel of full rank: coefficients in a span that rounding blurs would be arbitrary."""
    task = draw(tasks(kernels=("exponential",)))
    distinct = np.sort(np.unique(task.X, axis=0, return_index=True)[1]).tolist()
    n = draw(st.integers(1, len(distinct)))
    return task, draw(st.permutations(distinct))[:n]


@pytest.mark.parametrize("kind", KINDS)
@given(tasks_with_basis(), st.booleans())
def test_the_minimum_lies_between(kind, drawn, spoilt):
    task, S = drawn
    model = optimal_model(task, S)
    K, Y, w, s2 = task.K, task.Y, task.w, task.noise
    if spoilt:
        model = dataclasses.replace(model, coefficients=model.coefficients * 0.7)
    [found] = certify(task, [model], kind)
    upper = oracles.primal(K[:, S], K[np.ix_(S, S)], model.coefficients, Y, w, s2)
    minimum = oracles.least_primal(K, Y, w, s2)
    np.testing.assert_allclose(found.upper_per_output, upper, rtol=1e-8)
    slack = 1e-8 * (w @ Y**2)
    assert np.all(found.upper_per_output >= minimum - slack)
    assert np.all(minimum >= found.lower_per_output - slack)
    assert found.kind == kind
    assert found.gap >= (upper - minimum).sum() - slack.sum()
    assert found.gap_at_least <= (upper - minimum).sum() + slack.sum()
    np.testing.assert_allclose(found.target_norms, w @ Y**2, rtol=1e-12)


@given(tasks_with_basis())
def test_dense_is_the_energy_the_basis_misses(drawn):
    task, S = drawn
    [found] = certify(task, [optimal_model(task, S)], "dense")
    model = optimal_model(task, S)
    r = task.w[:, None] * (task.Y - task.K[:, S] @ model.coefficients)
    energy = np.einsum("io,io->o", r, oracles.nystroem_residual(task.K, S) @ r)
    # No minimum is negative, whatever D is.
    expected = np.minimum(energy / (2 * task.noise), found.upper_per_output)
    gap = found.upper_per_output - found.lower_per_output
    scale = (task.w @ task.Y**2).max() * (1 + np.abs(task.K).max() * task.w.max() / task.noise)
    np.testing.assert_allclose(gap, expected, rtol=1e-6, atol=1e-9 * scale)


@given(tasks_with_basis())
def test_the_order_of_the_kinds(drawn):
    task, S = drawn
    model = optimal_model(task, S)
    lower = {kind: certify(task, [model], kind)[0].lower_per_output for kind in KINDS}
    slack = 1e-7 * (task.w @ task.Y**2)
    assert np.all(lower["dense"] <= lower["scaled"] + slack)
    assert np.all(lower["scaled"] <= lower["hybrid"] + slack)
    assert np.all(lower["published"] <= lower["hybrid"] + slack)


def test_published_is_the_second_pursuit():
    task = make_task(np.random.default_rng(0), 25, weighted=True)
    [found] = certify(task, [optimal_model(task, [3, 9, 17, 21])], "published")
    _, values = oracles.dual_greedy(task.K, task.Y, task.w, task.noise, 4)
    assert found.lower == pytest.approx(-task.noise * values[-1], rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("largest_first", [False, True])
def test_many_models_from_the_same_passes(kind, largest_first):
    task = make_task(np.random.default_rng(2), 30, n_outputs=2, weighted=True)
    S = [4, 11, 2, 25, 19, 7]
    models = [optimal_model(task, S[:n]) for n in (1, 3, 6)]
    if largest_first:
        models = models[::-1]
    together = certify(task, models, kind)
    minimum = oracles.least_primal(task.K, task.Y, task.w, task.noise)
    for model, found in zip(models, together, strict=True):
        beta = model.coefficients
        rows = S[: len(beta)]
        upper = oracles.primal(
            task.K[:, rows], task.K[np.ix_(rows, rows)], beta, task.Y, task.w, task.noise
        )
        np.testing.assert_allclose(found.upper_per_output, upper, rtol=1e-8)
        assert np.all(found.lower_per_output <= minimum * (1 + 1e-9))
        if kind in ("published", "dense", "scaled") or (kind == "hybrid" and len(model) == 6):
            [alone] = certify(task, [model], kind)
            np.testing.assert_allclose(
                found.lower_per_output, alone.lower_per_output, rtol=1e-8, atol=1e-10
            )
        elif kind == "hybrid":
            # It spans its own residual and the rows that were chosen for the largest model.
            [own], [rows_of_largest] = (
                certify(task, [model], "scaled"),
                certify(task, [max(models, key=len)], "published"),
            )
            least = np.maximum(own.lower_per_output, rows_of_largest.lower_per_output)
            assert np.all(found.lower_per_output >= least * (1 - 1e-9))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("c", [1e-3, 7.0, 1e4])
def test_the_units_of_the_targets_do_not_matter(kind, c):
    task = make_task(np.random.default_rng(3), 25, weighted=True)
    louder = dataclasses.replace(task, Y=c * task.Y)
    S = [0, 5, 9, 13]
    [plain] = certify(task, [optimal_model(task, S)], kind)
    [loud] = certify(louder, [optimal_model(louder, S)], kind)
    assert loud.upper == pytest.approx(c**2 * plain.upper, rel=1e-8)
    assert loud.lower == pytest.approx(c**2 * plain.lower, rel=1e-8)
    assert loud.relative_gap == pytest.approx(plain.relative_gap, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("c", [1e-2, 9.0])
def test_the_scale_of_kernel_and_noise_does_not_matter(kind, c):
    """(K, σ²) -> (cK, cσ²): an inner product kernel of √c-fold rows."""
    task = make_task(np.random.default_rng(4), 25, n_features=4, name="inner product")
    root = np.sqrt(c)
    larger = dataclasses.replace(
        task, X=root * task.X, parameter=root * task.parameter, noise=c * task.noise
    )
    S = [0, 5, 9]
    [plain] = certify(task, [optimal_model(task, S)], kind)
    [scaled] = certify(larger, [optimal_model(larger, S)], kind)
    assert scaled.upper == pytest.approx(plain.upper, rel=1e-7)
    assert scaled.lower == pytest.approx(plain.lower, rel=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_no_target_no_gap(kind):
    task = make_task(np.random.default_rng(5), 12)
    task.Y[:] = 0
    model = dataclasses.replace(optimal_model(task, [1, 2]), coefficients=np.zeros((2, 1)))
    [found] = certify(task, [model], kind)
    assert (found.upper, found.lower, found.relative_gap) == (0, 0, 0)


def test_sums_of_errors_hold_what_they_lose_themselves():
    errors = np.full((1000, 2), 0.99 * 2.0**-53)
    errors[0] = 1.0
    # Row by row, 1 plus half a unit is 1 again.
    assert np.all(errors.sum(axis=0) < math.fsum(errors[:, 0]))
    nothing = np.zeros_like(errors)
    assert np.all(Rounded(nothing, errors).sum().error >= math.fsum(errors[:, 0]))
    found = dots(np.ones_like(errors), Rounded(nothing, errors))
    assert np.all(found.error >= math.fsum(errors[:, 0]))
