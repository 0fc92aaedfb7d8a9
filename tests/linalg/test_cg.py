"""Conjugate gradients against the best point of each Krylov space and against a dense solve."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.linalg import CGSolution, ConjugateGradients, conjugate_gradients


def spd(rng, n, smallest=0.1):
    """A positive definite matrix with eigenvalues from ``smallest`` to 10."""
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (Q * np.geomspace(smallest, 10.0, n)) @ Q.T


def nothing_known(rhs):
    return CGSolution(np.zeros_like(rhs), rhs.copy(), 0)


def solve(A, rhs, start=None, M=None, **limits):
    """CG with the preconditioner M⁻¹, and the number of products that it took."""
    taken = []

    def product(D):
        taken.append(D.shape)
        return A @ D

    precondition = np.copy if M is None else lambda R: np.linalg.solve(M, R)
    start = nothing_known(rhs) if start is None else start
    return conjugate_gradients(product, rhs, start, precondition, **limits), taken


def best_in_krylov_space(A, b, v, M, steps):
    """Minimise the A-norm of the error over v + span{M⁻¹ρ, (M⁻¹A)M⁻¹ρ, …}, one column."""
    direction = np.linalg.solve(M, b - A @ v)
    basis = []
    for _ in range(steps):
        basis.append(direction / np.linalg.norm(direction))
        direction = np.linalg.solve(M, A @ basis[-1])
    B, _ = np.linalg.qr(np.column_stack(basis))
    return v + B @ np.linalg.solve(B.T @ A @ B, B.T @ (b - A @ v))


@given(st.integers(0, 2**32 - 1), st.integers(6, 12), st.integers(1, 4), st.integers(1, 3))
def test_every_step_is_the_best_of_its_krylov_space(seed, n, steps, columns):
    rng = np.random.default_rng(seed)
    A, M = spd(rng, n), spd(rng, n)
    b, v = rng.standard_normal((2, n, columns))
    found, _ = solve(A, b, CGSolution(v, b - A @ v, 0), M, steps=steps)
    for o in range(columns):
        expected = best_in_krylov_space(A, b[:, o], v[:, o], M, steps)
        np.testing.assert_allclose(found.v[:, o], expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.residual, b - A @ found.v, atol=1e-10)
    assert found.steps == steps


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 3))
def test_as_many_steps_as_rows_solve_the_system(seed, n, columns):
    rng = np.random.default_rng(seed)
    A, b = spd(rng, n, 1.0), rng.standard_normal((n, columns))
    found, _ = solve(A, b, steps=n)
    np.testing.assert_allclose(found.v, np.linalg.solve(A, b), atol=1e-8)


def test_columns_do_not_touch_each_other():
    rng = np.random.default_rng(0)
    A, M, b = spd(rng, 15), spd(rng, 15), rng.standard_normal((15, 3)) * [1.0, 1e6, 1e-6]
    together, _ = solve(A, b, M=M, steps=4)
    for o in range(3):
        alone, _ = solve(A, b[:, [o]], M=M, steps=4)
        np.testing.assert_allclose(together.v[:, [o]], alone.v, rtol=1e-9)


def test_all_columns_share_one_product_a_step():
    rng = np.random.default_rng(1)
    A, b = spd(rng, 10), rng.standard_normal((10, 3))
    _, taken = solve(A, b, steps=4)
    assert taken == [(10, 3)] * 4


def test_the_inverse_as_preconditioner_needs_one_step():
    rng = np.random.default_rng(2)
    A, b = spd(rng, 10), rng.standard_normal((10, 2))
    found, taken = solve(A, b, M=A, steps=10, tol=1e-10)
    assert found.steps == len(taken) == 1
    np.testing.assert_allclose(found.v, np.linalg.solve(A, b), atol=1e-10)


@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-10])
def test_ends_when_every_residual_is_within_tol_of_its_own_right_hand_side(tol):
    rng = np.random.default_rng(3)
    A, b = spd(rng, 40), rng.standard_normal((40, 3)) * [1.0, 1e5, 1e-5]
    found, taken = solve(A, b, steps=200, tol=tol)
    assert found.steps == len(taken) < 200
    sizes = np.linalg.norm(b - A @ found.v, axis=0) / np.linalg.norm(b, axis=0)
    assert np.all(sizes <= 1.01 * tol)
    before, _ = solve(A, b, steps=found.steps - 1)
    assert np.any(np.linalg.norm(before.residual, axis=0) > tol * np.linalg.norm(b, axis=0))


def test_a_solution_is_left_alone():
    rng = np.random.default_rng(4)
    A, b = spd(rng, 8), rng.standard_normal((8, 2))
    exact = np.linalg.solve(A, b)
    found, taken = solve(A, b, CGSolution(exact, np.zeros_like(b), 0), steps=5)
    assert not taken
    assert found.steps == 0
    np.testing.assert_array_equal(found.v, exact)


def test_a_zero_column_stays_zero():
    rng = np.random.default_rng(5)
    A, b = spd(rng, 8), np.column_stack([np.zeros(8), rng.standard_normal(8)])
    found, _ = solve(A, b, steps=8)
    np.testing.assert_array_equal(found.v[:, 0], 0.0)
    np.testing.assert_allclose(A @ found.v, b, atol=1e-9)


def test_many_steps_past_the_end_do_no_harm():
    rng = np.random.default_rng(6)
    A, b = spd(rng, 8, 1e-3), rng.standard_normal((8, 2))
    found, _ = solve(A, b, steps=2000)
    np.testing.assert_allclose(found.v, np.linalg.solve(A, b), rtol=1e-8)


def test_the_start_is_not_changed(read_only):
    rng = np.random.default_rng(7)
    A, b = spd(rng, 8), read_only(rng.standard_normal((8, 1)))
    start = CGSolution(read_only(np.zeros((8, 1))), b, 0)
    found, _ = solve(A, b, start, steps=3)
    assert np.linalg.norm(found.residual) < np.linalg.norm(b)


def test_going_on_with_some_columns_changes_nothing_for_them():
    rng = np.random.default_rng(8)
    A, M, b = spd(rng, 15), spd(rng, 15), rng.standard_normal((15, 4))
    kept = np.array([True, False, True, False])
    found = ConjugateGradients(A.__matmul__, lambda R: np.linalg.solve(M, R), nothing_known(b))
    for step in range(5):
        if step == 2:
            found.keep(kept)
        found.step()
    expected, _ = solve(A, b[:, kept], M=M, steps=5)
    np.testing.assert_allclose(found.v, expected.v, rtol=1e-12)
    energy = np.sum(found.residual * np.linalg.solve(M, found.residual), axis=0)
    np.testing.assert_allclose(found.energy, energy, rtol=1e-10)


def test_steps_tell_the_curvature():
    A, b = np.diag([2.0, -1.0, 3.0]), np.eye(3)[:, [0, 1]]
    found = ConjugateGradients(A.__matmul__, np.copy, nothing_known(b))
    values, cosines = found.step()
    np.testing.assert_allclose(values, [2.0, -1.0])
    np.testing.assert_allclose(cosines, [1.0, -1.0])
    np.testing.assert_allclose(found.v, [[0.5, 0.0], [0.0, 0.0], [0.0, 0.0]])


def test_a_step_squares_no_product_of_large_numbers():
    # ‖d‖²‖Ad‖² is 1e400 here, and each factor is a float.
    rhs = np.full((2, 1), 1e80)
    start = CGSolution(np.zeros((2, 1)), rhs, 0)
    run = ConjugateGradients(lambda D: 1e40 * D, lambda R: R, start)
    with np.errstate(all="raise"):
        value, cosine = run.step()
    np.testing.assert_allclose([value[0], cosine[0]], [1e40, 1.0], rtol=1e-15)
    np.testing.assert_allclose(run.v, 1e40, rtol=1e-15)
