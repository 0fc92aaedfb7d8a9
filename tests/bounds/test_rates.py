"""Approximation rates: the printed formulas, their order, and that paths obey them."""

import itertools

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.bounds import (
    greedy_rate_bound,
    natarajan_step_bound,
    orthogonalities,
    simple_rate_bound,
    span_rate_bound,
)

SIZES = np.array([1, 2, 5, 10, 100])
numbers = st.floats(0.01, 100.0)


@given(gap=numbers, least=numbers, largest=numbers, ridge=numbers, m=st.integers(1, 1000))
def test_theorem_5_1_as_printed(gap, least, largest, ridge, m):
    """In units of R = P/m with λ = σ²/m, as in the paper."""
    found = greedy_rate_bound(
        SIZES, initial_gap=gap, minimum=least, largest=largest, noise=ridge, n_rows=m
    )
    lam, M2, dR0, R = ridge / m, largest, gap / m, least / m
    printed = dR0 * (M2 + lam) / (lam**2 * dR0 / (R * M2 + lam * dR0) * SIZES + (M2 + lam))
    np.testing.assert_allclose(found.value, m * printed, rtol=1e-12)
    # Where a step gains less than rounding, sizes share a value.
    assert np.all(np.diff(found.value) <= 0)
    assert np.all(found.value <= gap)


@given(gap=numbers, least=numbers, more=numbers, largest=numbers, ridge=numbers)
def test_upper_bounds_of_what_is_not_known_may_be_used(gap, least, more, largest, ridge):
    given = {"largest": largest, "noise": ridge, "n_rows": 7}

    def bound(gap, least):
        return greedy_rate_bound(SIZES, initial_gap=gap, minimum=least, **given).value

    assert np.all(bound(gap + more, least) >= bound(gap, least) * (1 - 1e-12))
    assert np.all(bound(gap, least + more) >= bound(gap, least) * (1 - 1e-12))
    # Corollary 5.1 is what remains when nothing but P(0) = ΔP₀ + P_min is known.
    simple = simple_rate_bound(SIZES, initial=gap + least, **given).value
    assert np.all(simple >= bound(gap, least) * (1 - 1e-12))


def test_corollary_5_1_as_printed():
    found = simple_rate_bound(SIZES, initial=6.0, largest=2.0, noise=3.0, n_rows=6)
    np.testing.assert_allclose(found.value, 6 * 2.5**2 / (0.25 * SIZES + 2.5**2))


@pytest.mark.parametrize(("largest", "noise"), [(1.0, 1e250), (1e250, 1.0), (1e250, 1e250)])
def test_numbers_whose_squares_are_no_floats(largest, noise):
    given = {"largest": largest, "noise": noise, "n_rows": 1}
    share = 1.0 / (1.0 + largest / noise)
    with np.errstate(all="raise", under="ignore"):
        simple = simple_rate_bound(SIZES, initial=6.0, **given).value
        greedy = greedy_rate_bound(SIZES, initial_gap=4.0, minimum=2.0, **given).value
    np.testing.assert_allclose(simple, 6.0 / (share**2 * SIZES + 1.0))
    speed = share**2 * 4.0 / (2.0 * (1.0 - share) + 4.0 * share)
    np.testing.assert_allclose(greedy, 4.0 / (speed * SIZES + 1.0))


def test_steps_count_where_functions_are_taken_again():
    given = {"initial_gap": 3.0, "minimum": 1.0, "largest": 1.0, "noise": 5.0, "n_rows": 5}
    again = greedy_rate_bound([1, 2], steps=[1, 7], **given)
    assert again.size.tolist() == [1, 2]
    np.testing.assert_array_equal(again.value, greedy_rate_bound([1, 7], **given).value)


def test_a_bound_above_what_is_known_is_called_vacuous():
    found = greedy_rate_bound(
        [1, 2],
        initial_gap=3.0,
        minimum=1.0,
        largest=1.0,
        noise=0.01,
        n_rows=5,
        trivial=np.array([4.0, 0.5]),
        caveat="on average",
    )
    assert found.vacuous.tolist() == [False, True]
    worse = greedy_rate_bound(
        [1, 2], initial_gap=3.0, minimum=1.0, largest=1.0, noise=0.01, n_rows=5, trivial=0.5
    )
    assert "this is vacuous: 0.5 is known without it" in str(worse)


def test_nothing_to_explain():
    none = greedy_rate_bound(SIZES, initial_gap=0.0, minimum=0.0, largest=1.0, noise=1.0, n_rows=3)
    assert none.value.tolist() == [0.0] * len(SIZES)


def problem(seed, m=9, noise=0.5, spread=1.0):
    rng = np.random.default_rng(seed)
    X = spread * rng.standard_normal((m, 2))
    K = oracles.kernel_matrix("gaussian", 1.0, X, X)
    y, w = rng.standard_normal((m, 1)), rng.uniform(0.5, 2.0, m)
    H = K @ (w[:, None] * K) + noise * K
    return K, H, y, w, noise


@pytest.mark.parametrize("seed", range(3))
def test_rho_is_the_largest_ratio(seed):
    """Definition 6.1 by its supremum: no α beats ρ, and an eigenvector attains it."""
    _, H, _, _, _ = problem(seed, spread=2.0)
    order = np.random.default_rng(seed).permutation(9)
    for n, rho in zip((1, 3, 9), orthogonalities(H, [order[:1], order[:3], order]), strict=True):
        J, rest = order[:n], order[n:]
        S = H[np.ix_(J, J)]
        if len(rest):
            S = S - H[np.ix_(J, rest)] @ np.linalg.solve(H[np.ix_(rest, rest)], H[np.ix_(rest, J)])
        D = np.diag(np.diag(H)[J])
        ratios = np.linalg.eigvals(np.linalg.solve(S, D)).real
        assert rho == pytest.approx(ratios.max(), rel=1e-8)
        assert rho >= 1 - 1e-12


def test_rho_of_all_functions_is_the_smallest_singular_value():
    """SB01's λ₁: of H^½ with columns of unit length."""
    _, H, _, _, _ = problem(0, spread=2.0)
    root = oracles.root(H)
    smallest = np.linalg.svd(root / np.linalg.norm(root, axis=0), compute_uv=False)[-1]
    [rho] = orthogonalities(H, [np.arange(9)])
    assert rho == pytest.approx(smallest**-2, rel=1e-8)


def test_rho_of_orthogonal_and_of_singular_functions():
    rho = orthogonalities(np.diag([1.0, 4.0, 9.0]), [[0], [1, 2], [0, 1, 2], []])
    np.testing.assert_allclose(rho, 1.0, rtol=1e-14)
    assert np.all(rho >= 1.0)
    assert np.isinf(orthogonalities(np.ones((4, 4)), [[0, 1]])[0])
    assert np.isinf(orthogonalities(np.diag([1.0, 0.0]), [[0]])[0])


def test_rounding_does_not_make_rho_smaller():
    """Two functions with a correlation of 1 - c: ρ = 1/c, and as much as rounding leaves open."""
    slack = 2 * 2 * np.finfo(float).eps
    for c in (2.0**-20, 2.0**-40, 2.0**-45):
        [rho] = orthogonalities(np.array([[1.0, 1 - c], [1 - c, 1.0]]), [[0, 1]])
        assert 1 / c <= rho <= 1 / (c - 2 * slack)
    c = 2.0**-51
    assert np.isinf(orthogonalities(np.array([[1.0, 1 - c], [1 - c, 1.0]]), [[0, 1]])[0])


@given(
    gap=st.floats(0.001, 1.0),
    rho=st.floats(1.0, 1e4),
    N=st.integers(1, 9),
    n=st.integers(1, 10_000),
)
def test_theorem_6_1_takes_the_best_gamma(gap, rho, N, n):
    found = span_rate_bound([n], n_terms=[N], rho=[rho], initial_gap=2.0, gaps=[gap]).value[0]
    for gamma in np.logspace(-4, 4, 200):
        first = (1 + gamma) ** 2 * gap
        second = (1 - gamma**2 / (N * (2 + gamma) ** 2 * rho)) ** n * 2.0
        assert found <= max(first, second) * (1 + 1e-9)
    assert found <= 2.0


def test_theorem_6_1_takes_the_best_function():
    both = span_rate_bound([5], n_terms=[1, 3], rho=[1.0, 2.0], initial_gap=2.0, gaps=[0.5, 0.1])
    each = [
        span_rate_bound([5], n_terms=[N], rho=[rho], initial_gap=2.0, gaps=[gap]).value[0]
        for N, rho, gap in ((1, 1.0, 0.5), (3, 2.0, 0.1))
    ]
    assert both.value[0] == pytest.approx(min(each))
    nothing = span_rate_bound([5], n_terms=[1], rho=[np.inf], initial_gap=2.0, gaps=[0.1])
    assert nothing.value.tolist() == [2.0]


@pytest.mark.parametrize("seed", range(4))
def test_theorem_6_1_and_the_step_counts_hold_for_the_best_subsets(seed):
    """Against f̄ of the best N functions, found by trying all subsets."""
    K, H, y, w, noise = problem(seed, spread=3.0, noise=2.0)
    least = oracles.least_primal(K, y, w, noise).sum()
    initial = oracles.span_value(K, [], y, w, noise) - least
    _, values = oracles.greedy(K, y, w, noise, 9)
    path = np.array(values) - least
    best = {}
    for N in range(1, 5):
        subsets = list(itertools.combinations(range(9), N))
        gaps = [oracles.span_value(K, S, y, w, noise) - least for S in subsets]
        best[N] = np.array(subsets[int(np.argmin(gaps))]), min(gaps)
    rho = [orthogonalities(H, [J])[0] for N, (J, _) in best.items()]
    gaps = [gap for _, gap in best.values()]
    bound = span_rate_bound(
        np.arange(1, 10), n_terms=list(best), rho=rho, initial_gap=initial, gaps=gaps
    )
    assert np.all(path <= bound.value * (1 + 1e-9))
    [all_rho] = orthogonalities(H, [np.arange(9)])
    for N, gap in zip(best, gaps, strict=True):
        tolerance = 4 * gap
        more = natarajan_step_bound(
            [N], rho=all_rho, initial_gap=initial, tolerance=[tolerance], n_rows=9
        )
        if (count := more.value[0]) <= 9:
            reached = path[int(count) - 1] if count else initial
            assert reached <= tolerance * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_theorem_6_1_holds_for_sums_over_outputs(seed):
    """One basis for three outputs; beside the best functions on random supports."""
    rng = np.random.default_rng(seed)
    K, H, _, w, noise = problem(seed, spread=3.0, noise=2.0)
    Y = rng.standard_normal((9, 3)) * [3.0, 1.0, 0.1]
    least = oracles.least_primal(K, Y, w, noise).sum()
    initial = oracles.span_value(K, [], Y, w, noise) - least
    _, values = oracles.greedy(K, Y, w, noise, 9)
    sets = [rng.choice(9, N, replace=False) for N in (1, 2, 4, 9)]
    bound = span_rate_bound(
        np.arange(1, 10),
        n_terms=[len(J) for J in sets],
        rho=orthogonalities(H, sets),
        initial_gap=initial,
        gaps=[max(oracles.span_value(K, J, Y, w, noise) - least, 0.0) for J in sets],
        caveat="of four",
    )
    assert np.all(np.array(values) - least <= bound.value * (1 + 1e-9) + 1e-9 * least)
    assert bound.caveat == "of four"


def test_step_counts_as_printed():
    other = natarajan_step_bound([3], rho=2.0, initial_gap=8.0, tolerance=[0.5], n_rows=1000)
    norm = np.sqrt(2 * 8.0)
    assert other.value.tolist() == [np.ceil(18 * 3 * 2 * np.log(norm / np.sqrt(2 * 0.5)))]
    assert not other.vacuous.any()


def test_no_steps_are_needed_for_what_is_there():
    none = natarajan_step_bound([2], rho=np.inf, initial_gap=1.0, tolerance=[2.0], n_rows=9)
    assert none.value == [0.0]
