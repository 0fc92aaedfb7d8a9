"""Factors that grow, against NumPy's and SciPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.linalg import (
    NotPositiveDefiniteError,
    PivotedCholesky,
    RowCholesky,
    Workers,
    damped_cholesky,
    reordered,
    robust_cholesky,
)


def psd(rng, n, rank=None):
    A = rng.standard_normal((n, rank or 2 * n))
    return A @ A.T / A.shape[1]


def grow(factor, H, pivots, batch=1):
    """Add pivots one by one, preparing ``batch`` columns at a time."""
    for position, pivot in enumerate(pivots):
        if not factor.is_reduced(np.array([pivot]))[0]:
            ahead = np.array(pivots[position : position + batch])
            ahead = ahead[~factor.is_reduced(ahead)]
            factor.reduce(ahead, H[ahead])
        column = factor.reduced_column(pivot)
        factor.append(pivot, column / np.sqrt(column[pivot]))


# PivotedCholesky


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 30),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 40),
)
def test_any_order_gives_the_factor_of_that_order(seed, n, batch, spare, capacity):
    rng = np.random.default_rng(seed)
    H = psd(rng, n)
    order = rng.permutation(n).tolist()
    with Workers(1) as workers:
        factor = PivotedCholesky(np.diag(H), capacity, workers, prepared=batch + spare)
        grow(factor, H, order, batch)
    assert factor.pivots == order
    assert factor.rank == n
    R = np.linalg.cholesky(H[np.ix_(order, order)])
    np.testing.assert_allclose(factor.triangle(), R, atol=1e-9)
    np.testing.assert_allclose(factor.rows.T @ factor.rows, H, atol=1e-10)
    np.testing.assert_allclose(factor.residual, 0, atol=1e-10)


def test_residual_is_the_schur_complement_at_every_step():
    rng = np.random.default_rng(0)
    H = psd(rng, 12)
    with Workers(2) as workers:
        factor = PivotedCholesky(np.diag(H), 12, workers, prepared=4)
        for pivots in ([7, 2], [11], [0, 5, 3]):
            grow(factor, H, pivots, batch=3)
            S = factor.pivots
            schur = H - H[:, S] @ np.linalg.solve(H[np.ix_(S, S)], H[S])
            np.testing.assert_allclose(factor.residual, np.diag(schur), atol=1e-12)
            fresh = [i for i in range(12) if i not in S][:2]
            factor.reduce(np.array(fresh), H[fresh])
            for i in fresh:
                np.testing.assert_allclose(factor.reduced_column(i), schur[i], atol=1e-12)


def test_a_prepared_column_follows_later_pivots_until_it_must_make_room():
    rng = np.random.default_rng(1)
    H = psd(rng, 10)
    with Workers(1) as workers:
        factor = PivotedCholesky(np.diag(H), 10, workers, prepared=3)
        factor.reduce(np.array([4, 5, 6]), H[[4, 5, 6]])
        grow(factor, H, [5, 4])
        schur = H - H[:, [5, 4]] @ np.linalg.solve(H[np.ix_([5, 4], [5, 4])], H[[5, 4]])
        np.testing.assert_allclose(factor.reduced_column(6), schur[6], atol=1e-12)
        factor.reduce(np.array([1, 2]), H[[1, 2]])
        np.testing.assert_array_equal(
            factor.is_reduced(np.array([4, 5, 6, 1, 2])), [False, False, True, True, True]
        )
        for i in (6, 1, 2):
            np.testing.assert_allclose(factor.reduced_column(i), schur[i], atol=1e-12)


def test_reading_a_prepared_column_does_not_change_it():
    H = psd(np.random.default_rng(2), 5)
    with Workers(1) as workers:
        factor = PivotedCholesky(np.diag(H), 5, workers)
        factor.reduce(np.array([3]), H[[3]])
        factor.reduced_column(3)[:] = np.nan
        np.testing.assert_array_equal(factor.reduced_column(3), H[3])


def test_threads_do_not_change_a_bit(size):
    rng = np.random.default_rng(3)
    n = size(2300, 6000)
    A = rng.standard_normal((n, 20))
    H = A @ A.T + np.eye(n)
    order = rng.choice(n, 90, replace=False).tolist()
    found = []
    for n_jobs in (1, 2, 3):
        with Workers(n_jobs) as workers:
            factor = PivotedCholesky(np.diag(H), 10, workers, prepared=32)
            grow(factor, H, order, batch=16)
        found.append((factor.rows.copy(), factor.residual))
    for rows, residual in found[1:]:
        np.testing.assert_array_equal(rows, found[0][0])
        np.testing.assert_array_equal(residual, found[0][1])


def test_the_diagonal_given_is_not_changed(read_only):
    H = psd(np.random.default_rng(4), 6)
    with Workers(1) as workers:
        factor = PivotedCholesky(read_only(np.diag(H)), 6, workers)
        grow(factor, read_only(H), [2, 4])
    np.testing.assert_array_equal(factor.diagonal, np.diag(H))


def test_a_copy_grows_by_itself():
    H = psd(np.random.default_rng(0), 9)
    with Workers(1) as workers:
        factor = PivotedCholesky(np.diag(H), 4, workers)
        grow(factor, H, [3, 1])
        rows, residual = factor.rows.copy(), factor.residual.copy()
        other = factor.copied()
        grow(other, H, [5, 0, 7])
        np.testing.assert_array_equal(factor.rows, rows)
        np.testing.assert_array_equal(factor.residual, residual)
        grow(factor, H, [2])
    for found, pivots in ((factor, [3, 1, 2]), (other, [3, 1, 5, 0, 7])):
        assert found.pivots == pivots
        expected = np.linalg.cholesky(H[np.ix_(pivots, pivots)])
        np.testing.assert_allclose(found.triangle(), expected, atol=1e-12)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_diagonal_may_become_known_later(batch):
    """Residuals, and the rounding they have gathered, as if it had been known all the time."""
    H = psd(np.random.default_rng(0), 10)
    with Workers(1) as workers:
        known = PivotedCholesky(np.diag(H), 4, workers)
        later = PivotedCholesky(np.full(10, np.nan), 4, workers)
        later.reveal(np.array([2, 5]), np.diag(H)[[2, 5]])
        for factor in (known, later):
            grow(factor, H, [5, 2])
        assert np.isnan(later.residual).sum() == 8
        assert not later.trusted[[0, 1, 9]].any()
        rest = np.setdiff1d(np.arange(10), [2, 5])
        for start in range(0, 8, batch):
            part = rest[start : start + batch]
            later.reveal(part, np.diag(H)[part])
    np.testing.assert_allclose(later.residual, known.residual, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(later._squared_error, known._squared_error, rtol=1e-10)
    np.testing.assert_array_equal(later.trusted, known.trusted)


def test_an_entry_that_shows_an_indefinite_matrix_when_it_becomes_known():
    H = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with Workers(1) as workers:
        factor = PivotedCholesky(np.full(3, np.nan), 3, workers)
        factor.reveal(np.array([0]), np.ones(1))
        grow(factor, H, [0])
        factor.reveal(np.array([2]), np.ones(1))
        with pytest.raises(NotPositiveDefiniteError, match="at index 1"):
            factor.reveal(np.array([1]), np.ones(1))
        with pytest.raises(NotPositiveDefiniteError, match="at index 1"):
            PivotedCholesky(np.array([1.0, -1.0]), 2, workers).refuse_negative(np.arange(2))


def row_of(factor, H, pivot):
    """What ``append`` takes for this pivot."""
    factor.reduce(np.array([pivot]), H[[pivot]])
    column = factor.reduced_column(pivot)
    return column / np.sqrt(column[pivot])


@pytest.mark.parametrize("worst", [0, 3, 5])
def test_an_indefinite_matrix_names_the_row_that_shows_it(worst):
    n, chosen = 6, 2
    H = np.eye(n)
    H[worst, chosen] = H[chosen, worst] = 1.5
    with Workers(1) as workers:
        factor = PivotedCholesky(np.diag(H), n, workers)
        harmless = row_of(factor, H, 1)
        assert factor.keeps_definite(1, harmless, known_psd=False)
        row = row_of(factor, H, chosen)
        message = rf"negative pivot -1\.25 at index {worst}: .*not psd"
        with pytest.raises(NotPositiveDefiniteError, match=message) as caught:
            factor.keeps_definite(chosen, row, known_psd=False)
        assert not factor.keeps_definite(chosen, row, known_psd=True)
    assert factor.rank == 0, "a question changes nothing"
    np.testing.assert_array_equal(factor.residual, np.diag(H))
    assert caught.value.index == worst
    assert caught.value.pivot == pytest.approx(1 - 1.5**2)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(("size_of_pivot", "refused"), [(1e-5, True), (1e-7, False)])
def test_a_small_pivot_is_passed_over_and_not_held_against_the_matrix(size_of_pivot, refused):
    """Divided by the root of a small pivot, rounding looks like a negative residual."""
    H = np.eye(3)
    H[0, 1] = H[1, 0] = np.sqrt(1 - size_of_pivot)
    H[1, 2] = H[2, 1] = 1.1 * np.sqrt(size_of_pivot)
    with Workers(1) as workers:
        factor = PivotedCholesky(np.diag(H), 3, workers)
        grow(factor, H, [0])
        row = row_of(factor, H, 1)
        if refused:
            with pytest.raises(NotPositiveDefiniteError, match=r"negative pivot -0\.21 at index 2"):
                factor.keeps_definite(1, row, known_psd=False)
        else:
            assert not factor.keeps_definite(1, row, known_psd=False)


@pytest.mark.parametrize(("excess", "kept"), [(9e-6, True), (1.1e-5, False)])
def test_rounding_of_float32_matrices_is_allowed_for(excess, kept):
    scale = 7.0
    H = scale * np.eye(2)
    H[0, 1] = H[1, 0] = scale * np.sqrt(1 + excess)
    with Workers(1) as workers:
        factor = PivotedCholesky(np.diag(H), 2, workers)
        assert factor.keeps_definite(0, row_of(factor, H, 0), known_psd=True) is kept


def test_rounding_is_not_indefinite():
    rng = np.random.default_rng(5)
    H = psd(rng, 60, rank=5)
    with Workers(1) as workers:
        factor = PivotedCholesky(np.diag(H), 60, workers)
        for pivot in rng.permutation(60)[:5].tolist():
            row = row_of(factor, H, pivot)
            assert factor.keeps_definite(pivot, row, known_psd=False)
            factor.append(pivot, row)
    assert np.abs(factor.residual).max() < 1e-12
    assert not factor.trusted.any(), "what is left is rounding"


def test_residuals_are_trusted_while_they_stand_out_from_rounding():
    H = psd(np.random.default_rng(6), 8)
    with Workers(1) as workers:
        factor = PivotedCholesky(np.diag(H), 8, workers)
        for pivot in range(8):
            taken = np.isin(np.arange(8), factor.pivots)
            np.testing.assert_array_equal(factor.trusted, ~taken)
            grow(factor, H, [pivot])
    assert not factor.trusted.any()


@pytest.mark.parametrize(
    ("pivot", "left", "trusted"),
    [(0.5, 1e-6, True), (0.5, 1e-9, True), (1e-8, 1e-6, True), (1e-8, 1e-9, False)],
)
def test_a_small_pivot_hands_its_rounding_on(pivot, left, trusted):
    """An error of 1e-16 over the root of 1e-8 is 1e-12 in every residual that follows."""
    R = np.array([[1.0, 0, 0], [np.sqrt(1 - pivot), np.sqrt(pivot), 0], [0.6, 0.8, np.sqrt(left)]])
    with Workers(1) as workers:
        factor = PivotedCholesky(np.diag(R @ R.T), 3, workers)
        factor.append(0, R[:, 0])
        np.testing.assert_array_equal(factor.trusted, [False, True, True])
        factor.append(1, R[:, 1])
    assert factor.residual[2] == pytest.approx(left, abs=1e-15)
    np.testing.assert_array_equal(factor.trusted, [False, False, trusted])


# Invariants of the residual


@given(st.integers(0, 2**32 - 1), st.integers(2, 15))
def test_trace_decreases_by_the_column_it_takes(seed, n):
    rng = np.random.default_rng(seed)
    K = psd(rng, n)
    with Workers(1) as workers:
        factor = PivotedCholesky(np.diag(K), n, workers)
        E = K
        for pivot in rng.permutation(n)[: n - 1].tolist():
            before = factor.residual.sum()
            grow(factor, K, [pivot])
            gain = E[:, pivot] @ E[:, pivot] / E[pivot, pivot]
            assert factor.residual.sum() == pytest.approx(before - gain, abs=1e-9)
            E = K - factor.rows.T @ factor.rows
            assert factor.residual.sum() == pytest.approx(np.trace(E), abs=1e-9)
            assert np.linalg.eigvalsh(E).min() > -1e-9
            V = factor.rows.T
            np.testing.assert_allclose(np.triu(V[factor.pivots], 1), 0, atol=1e-9)


# RowCholesky


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_rows_appended_one_by_one_give_the_factor(seed, n):
    rng = np.random.default_rng(seed)
    B = psd(rng, n) + 0.1 * np.eye(n)
    factor = RowCholesky()
    for j in range(n):
        c = factor.solve(B[:j, j])
        factor.append(c, B[j, j] - c @ c)
    assert factor.size == n
    np.testing.assert_allclose(factor.factor, np.linalg.cholesky(B), atol=1e-10)
    rhs = rng.standard_normal((n, 3))
    np.testing.assert_allclose(factor.factor @ factor.solve(rhs), rhs, atol=1e-9)


def test_an_empty_factor_solves_an_empty_system():
    assert RowCholesky().solve(np.empty((0, 4))).shape == (0, 4)


# robust_cholesky


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_independent_rows_are_all_kept(seed, n):
    H = psd(np.random.default_rng(seed), n) + 0.01 * np.eye(n)
    R, kept = robust_cholesky(H)
    np.testing.assert_array_equal(kept, np.arange(n))
    np.testing.assert_allclose(R, np.linalg.cholesky(H), atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(0, 8), st.integers(0, 3))
def test_rows_that_depend_on_earlier_ones_are_dropped(seed, n, copies, zeros):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n + 3))
    rows = list(range(n)) + rng.integers(0, n, copies).tolist()
    features = np.vstack([A[rows], np.zeros((zeros, n + 3))])
    shuffled = rng.permutation(len(features))
    H = (features @ features.T)[np.ix_(shuffled, shuffled)]
    origin = np.concatenate([rows, np.full(zeros, -1)])[shuffled]
    expected = sorted(int(np.flatnonzero(origin == i)[0]) for i in range(n))
    R, kept = robust_cholesky(H)
    np.testing.assert_array_equal(kept, expected)
    np.testing.assert_allclose(R @ R.T, H[np.ix_(kept, kept)], atol=1e-10)
    np.testing.assert_array_equal(R, np.tril(R))


def test_tolerance_is_relative_to_the_row_itself():
    nearly = np.array([[1.0, 1e-4], [1e-4, 1e-8 * (1 + 1e-6)]])
    assert robust_cholesky(nearly)[1].tolist() == [0, 1]
    assert robust_cholesky(nearly, tolerance=1e-5)[1].tolist() == [0]


@pytest.mark.parametrize(("left", "kept"), [(2e-8, [0, 1]), (5e-9, [0])])
def test_pivots_below_eight_digits_are_dropped(left, kept):
    R = np.array([[1.0, 0], [np.sqrt(1 - left), np.sqrt(left)]])
    assert robust_cholesky(R @ R.T)[1].tolist() == kept


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_another_order_has_its_own_factor(seed, n):
    rng = np.random.default_rng(seed)
    H = psd(rng, n) + 0.01 * np.eye(n)
    order = rng.permutation(n)
    R = reordered(H, np.linalg.cholesky(H), order)
    np.testing.assert_allclose(R, np.linalg.cholesky(H[np.ix_(order, order)]), atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_nothing_to_keep(n):
    R, kept = robust_cholesky(np.zeros((n, n)))
    assert R.shape == (0, 0)
    assert kept.shape == (0,)


@pytest.mark.parametrize(
    ("matrix", "index", "pivot"),
    [
        (np.diag([1.0, 2.0, -1.0, 1.0]), 2, -1.0),
        (np.diag([-3.0, 1.0]), 0, -3.0),
        (np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, -1.0]]), 2, -1.0),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), 1, -3.0),
    ],
)
def test_indefinite_is_refused_with_the_number_in_the_matrix_given(matrix, index, pivot):
    message = f"negative pivot .* at index {index}"
    with pytest.raises(NotPositiveDefiniteError, match=message) as caught:
        robust_cholesky(matrix)
    assert caught.value.index == index
    assert caught.value.pivot == pytest.approx(pivot)


def test_many_dependent_rows_cost_no_more_than_a_few_panels():
    """Half the rows doubled: every first copy is kept, in time that does not depend on how many."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    X = np.vstack([X, X])[rng.permutation(1200)]
    K = np.exp(-10.0 * ((X[:, None] - X[None]) ** 2).sum(-1))
    R, kept = robust_cholesky(K)
    _, first = np.unique(X, axis=0, return_index=True)
    assert kept.tolist() == sorted(first.tolist())
    np.testing.assert_allclose(R @ R.T, K[np.ix_(kept, kept)], atol=1e-12)
    np.testing.assert_allclose(R, np.linalg.cholesky(K[np.ix_(kept, kept)]), atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 150), st.integers(1, 40))
def test_rows_are_kept_as_if_each_were_tried_in_turn(seed, n, rank):
    """The naive rule, one least-squares residual per row, keeps the same rows."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-2, 3, size=(n, rank)).astype(float)
    naive: list[int] = []
    for i in range(n):
        if not A[i].any():
            continue
        left = A[i]
        if naive:
            left = A[i] - A[naive].T @ np.linalg.lstsq(A[naive].T, A[i], rcond=None)[0]
        if left @ left > 1e-8 * (A[i] @ A[i]):
            naive.append(i)
    assert robust_cholesky(A @ A.T)[1].tolist() == naive


# damped_cholesky


def test_a_definite_matrix_is_not_damped():
    H = psd(np.random.default_rng(1), 20)
    np.testing.assert_allclose(damped_cholesky(H), np.linalg.cholesky(H), atol=1e-14)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [1, 5, 64, 150])
def test_a_diagonal_is_added_and_the_factor_stored(n, order):
    rng = np.random.default_rng(n)
    H, diagonal = np.asarray(psd(rng, n), order=order), rng.random(n)
    given, room = H.copy(order="K"), np.full((n, n), np.nan, order="F")
    L = damped_cholesky(H, diagonal=diagonal, out=room)
    assert np.shares_memory(L, room)
    np.testing.assert_allclose(L, np.linalg.cholesky(H + np.diag(diagonal)), atol=1e-13)
    assert not np.triu(L, 1).any()
    np.testing.assert_array_equal(H, given)
    room[...] = np.nan
    L = damped_cholesky(H, diagonal=diagonal, out=room, beside_others=True)
    assert np.shares_memory(L, room)
    np.testing.assert_allclose(
        np.tril(L), np.linalg.cholesky(H + np.diag(diagonal)), rtol=1e-11, atol=1e-13
    )


@pytest.mark.parametrize("beside_others", [False, True])
def test_a_singular_matrix_is_damped_as_little_as_possible(beside_others):
    H = psd(np.random.default_rng(2), 20, rank=5)
    L = np.tril(damped_cholesky(H, beside_others=beside_others))
    shift = np.diag(L @ L.T - H)
    assert np.all(np.abs(shift) <= 1e-9 * np.diag(H).max())


@pytest.mark.parametrize("beside_others", [False, True])
@pytest.mark.parametrize("matrix", [-np.eye(3), np.full((3, 3), np.nan)])
def test_what_damping_cannot_mend_is_refused(matrix, beside_others):
    with pytest.raises(ArithmeticError, match="not positive definite, or not finite"):
        damped_cholesky(matrix, beside_others=beside_others)
