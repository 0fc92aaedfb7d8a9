"""A function built by steps: its coefficients, and the functions it went through."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pursuit.linalg import StepwiseSolution


@st.composite
def solutions(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_steps = draw(st.integers(1, 30))
    term = [0]
    for _ in range(n_steps - 1):
        term.append(int(rng.integers(max(term) + 2)))
    alpha, beta = rng.standard_normal((2, n_steps))
    return StepwiseSolution(
        np.array(term), alpha, beta, rng.random(n_steps), np.cumsum(rng.random(n_steps))
    )


def played(solution, n_steps):
    """The steps one by one, on as many terms as they touch."""
    a = np.zeros(int(solution.term[:n_steps].max()) + 1)
    for term, alpha, beta in zip(
        solution.term[:n_steps], solution.alpha, solution.beta, strict=False
    ):
        a *= beta
        a[term] += alpha
    return a


@given(solution=solutions())
def test_coefficients(solution):
    n_steps = len(solution.term)
    expected = played(solution, n_steps)
    assert solution.size == len(expected)
    np.testing.assert_allclose(solution.coefficients()[:, 0], expected, rtol=1e-10, atol=1e-12)


@given(solution=solutions())
def test_a_truncation_is_the_function_just_after_its_last_term_came_in(solution):
    term = solution.term.tolist()
    for n in range(1, solution.size):
        first = term.index(n - 1) + 1
        cut = solution.truncated(n)
        assert solution.steps[n - 1] == len(cut.term) == first
        np.testing.assert_allclose(cut.coefficients()[:, 0], played(solution, first), rtol=1e-10)
        np.testing.assert_array_equal(cut.squared_norms(), solution.squared_norm[[first - 1]])
        assert np.isclose(cut.gains().sum(), solution.decrease[first - 1])
    whole = solution.truncated(solution.size)
    assert len(whole.term) == solution.steps[-1] == len(term)
    assert np.isclose(solution.gains().sum(), solution.decrease[-1])


def test_no_steps():
    nothing = StepwiseSolution(np.zeros(0, np.intp), *np.zeros((4, 0)))
    assert nothing.size == 0
    assert nothing.coefficients().shape == (0, 1)
    assert nothing.gains().shape == (0, 1)
    assert nothing.squared_norms().tolist() == [0.0]
