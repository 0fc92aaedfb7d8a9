"""Refinement: what rough products cannot give, exact residuals bring."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.linalg import NotPositiveDefiniteError, refined_gradients


def spd(rng, n, smallest=0.05):
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (Q * np.geomspace(smallest, 10.0, n)) @ Q.T


def perturbed(rng, A, size):
    """A with a symmetric error of this norm, which stays the same from product to product."""
    E = rng.standard_normal(A.shape)
    E = E + E.T
    return A + size * E / np.linalg.norm(E, 2)


class Counted:
    """A product that remembers how many columns it was asked for."""

    def __init__(self, A):
        self.A, self.widths = A, []

    def __call__(self, D):
        self.widths.append(D.shape[1])
        return self.A @ D


def within(rhs, tol):
    limit = tol * np.linalg.norm(rhs, axis=0)
    return lambda now: now.norms <= limit[now.columns]


@given(st.integers(0, 2**32 - 1), st.integers(5, 40), st.integers(1, 3))
def test_rough_products_reach_any_tolerance(seed, n, columns):
    rng = np.random.default_rng(seed)
    A, b = spd(rng, n), rng.standard_normal((n, columns)) * np.geomspace(1, 1e6, columns)
    rough = Counted(perturbed(rng, A, 1e-6))
    exact = Counted(A)
    found = refined_gradients(exact, b, np.copy, within(b, 1e-12), rough=rough, steps=1000)
    assert found.stop_reason == "tol"
    sizes = np.linalg.norm(b - A @ found.v, axis=0) / np.linalg.norm(b, axis=0)
    assert np.all(sizes <= 1.01e-12)
    # The same product of another set of columns may round each of its n terms differently.
    rounding = 2 * n * np.finfo(float).eps * (np.abs(A) @ np.abs(found.v))
    assert np.all(np.abs(found.residual - (b - A @ found.v)) <= rounding)
    np.testing.assert_allclose(found.energy, np.sum(found.residual**2, axis=0))
    assert found.steps == len(rough.widths)
    # Each look at the exact residual takes off at least a factor of a thousand.
    assert 2 <= len(exact.widths) <= 5


def test_without_rough_products_all_are_exact():
    rng = np.random.default_rng(0)
    A, b = spd(rng, 30), rng.standard_normal((30, 2))
    exact, seen = Counted(A), []
    found = refined_gradients(exact, b, np.copy, within(b, 1e-8), steps=1000, watch=seen.append)
    assert all(now.exact for now in seen)
    assert len(exact.widths) == found.steps + 1
    assert found.stop_reason == "tol"


def test_useless_rough_products_are_given_up():
    rng = np.random.default_rng(1)
    A, b = spd(rng, 30), rng.standard_normal((30, 1))
    rough, exact = Counted(-A), Counted(A)
    found = refined_gradients(exact, b, np.copy, within(b, 1e-9), rough=rough, steps=500)
    assert found.stop_reason == "tol"
    assert len(rough.widths) <= 2
    np.testing.assert_allclose(found.v, np.linalg.solve(A, b), rtol=1e-6)


def test_columns_that_are_done_are_left_alone():
    rng = np.random.default_rng(2)
    A = np.diag(np.concatenate([[1.0], np.geomspace(0.1, 10, 19)]))
    easy, hard = np.eye(20)[:, 0], rng.standard_normal(20)
    b = np.column_stack([hard, easy, np.zeros(20)])
    rough = Counted(A)
    found = refined_gradients(Counted(A), b, np.copy, within(b, 1e-6), rough=rough, steps=100)
    assert rough.widths[0] == 2  # the zero column needs nothing
    assert rough.widths[1:] == [1] * (found.steps - 1)
    np.testing.assert_allclose(A @ found.v, b, atol=2e-6 * np.linalg.norm(b))
    np.testing.assert_array_equal(found.v[:, 2], 0.0)


def test_what_is_watched():
    rng = np.random.default_rng(3)
    A, b = spd(rng, 25), rng.standard_normal((25, 1))
    seen = []
    found = refined_gradients(
        Counted(A),
        b,
        np.copy,
        within(b, 1e-9),
        rough=Counted(perturbed(rng, A, 1e-6)),
        steps=200,
        watch=lambda now: seen.append((now.step, now.exact, now.v.copy(), now.residual.copy())),
    )
    looks = [(step, v, r) for step, exact, v, r in seen if exact]
    assert looks[0][0] == 0
    assert looks[-1][0] == found.steps
    for _, v, residual in looks:
        np.testing.assert_allclose(residual, b - A @ v, atol=1e-14)
    assert [step for step, exact, *_ in seen if not exact] == list(range(1, found.steps + 1))


def test_most_steps():
    rng = np.random.default_rng(4)
    A, b = spd(rng, 40, 1e-4), rng.standard_normal((40, 2))
    found = refined_gradients(Counted(A), b, np.copy, within(b, 1e-12), steps=3)
    assert (found.steps, found.stop_reason) == (3, "max_iter")
    np.testing.assert_allclose(found.residual, b - A @ found.v, atol=1e-13)


def test_a_reason_to_stop_is_passed_on():
    rng = np.random.default_rng(5)
    A, b = spd(rng, 40, 1e-4), rng.standard_normal((40, 1))
    answers = iter([None, None, "enough"])
    found = refined_gradients(
        Counted(A), b, np.copy, within(b, 1e-12), steps=100, stop=lambda: next(answers)
    )
    assert (found.steps, found.stop_reason) == (3, "enough")


def test_rounding_ends_in_stalled():
    rng = np.random.default_rng(6)
    A, b = spd(rng, 30, 1e-6), rng.standard_normal((30, 1))
    found = refined_gradients(
        Counted(A), b, np.copy, within(b, 1e-30), rough=Counted(A), steps=10_000
    )
    assert found.stop_reason == "stalled"
    assert found.steps < 10_000
    assert np.linalg.norm(b - A @ found.v) < 1e-8 * np.linalg.norm(b)


def test_an_indefinite_matrix_is_refused():
    A = np.diag([1.0, 2.0, -3.0, 1.0])
    b = np.array([[1.0], [1.0], [5.0], [1.0]])
    with pytest.raises(NotPositiveDefiniteError) as caught:
        refined_gradients(Counted(A), b, np.copy, within(b, 1e-9), rough=Counted(A), steps=50)
    assert caught.value.index == 2
    assert caught.value.pivot < 0


def test_rough_steps_that_go_astray_are_taken_back():
    """The recursion of this rough product does not end, and what it leads to is far off."""
    rng = np.random.default_rng(7)
    A, b = spd(rng, 300, 1e-3), rng.standard_normal((300, 1))
    rough = Counted(A)

    def noisy(D):
        return rough(D) + 0.5 * np.linalg.norm(D) * rng.standard_normal(D.shape)

    found = refined_gradients(Counted(A), b, np.copy, within(b, 1e-6), rough=noisy, steps=5000)
    assert found.stop_reason == "tol"
    assert np.linalg.norm(b - A @ found.v) <= 1e-6 * np.linalg.norm(b)
    assert len(rough.widths) <= 200
    alone = refined_gradients(Counted(A), b, np.copy, within(b, 1e-6), steps=5000)
    assert found.steps - len(rough.widths) <= 1.5 * alone.steps


def test_a_form_that_rounding_makes_negative_is_no_proof():
    A = np.diag([1.0, 1.0, -1e-3])
    b = np.array([[0.0], [0.0], [1.0]])

    def solve(error):
        return refined_gradients(
            Counted(A),
            b,
            np.copy,
            within(b, 1e-9),
            steps=5,
            form_error=lambda d: error + 0.0 * d[0],
        )

    assert np.isfinite(solve(2e-3).v).all()
    with pytest.raises(NotPositiveDefiniteError):
        solve(5e-4)
