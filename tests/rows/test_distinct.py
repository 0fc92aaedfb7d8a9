"""First occurrences, against a quadratic comparison of all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import sparse

from pursuit.rows import BLOCK_ROWS, IndexRows, as_rows, distinct_rows, row_groups


def naive(rows, same=lambda a, b: bool(np.all(a == b))):
    return [i for i in range(len(rows)) if not any(same(rows[i], rows[j]) for j in range(i))]


FEW_VALUES = st.sampled_from([0.0, -0.0, 1.0, 1.5])


@given(
    X=arrays(
        st.sampled_from([np.float64, np.float32, np.longdouble]),
        array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=FEW_VALUES,
    ),
    fortran=st.booleans(),
)
def test_dense_and_sparse_against_all_pairs(X, fortran):
    expected = naive(X)
    assert distinct_rows(as_rows(np.asfortranarray(X) if fortran else X)).tolist() == expected
    if X.dtype != np.longdouble:
        assert distinct_rows(as_rows(sparse.csr_array(X))).tolist() == expected
        assert distinct_rows(as_rows(sparse.csr_matrix(X))).tolist() == expected


@given(st.lists(st.sampled_from(["a", "b", "", ("a",), 1, 1.0, True, 0]), max_size=12))
def test_lists_against_all_pairs(items):
    assert distinct_rows(as_rows(items)).tolist() == naive(items, lambda a, b: a == b)


@given(st.lists(st.lists(st.sampled_from(["a", "b", ("a",), 1, 1.0]), max_size=5), max_size=4))
def test_groups_against_all_pairs(blocks):
    items = [item for block in blocks for item in block]
    groups = row_groups(blocks, len(items))
    first = [items.index(item) for item in items]
    assert groups.tolist() == [sorted(set(first)).index(row) for row in first]


def test_items_without_a_hash_stand_alone():
    assert row_groups([["a", "a"], [["a"], ["a"]]], 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_whole_numbers(dtype):
    X = np.array([[1, 0], [0, 1], [1, 0], [0, 0]], dtype=dtype)
    assert distinct_rows(as_rows(X)).tolist() == [0, 1, 3]


def test_sparse_rows_are_compared_by_value_not_by_storage():
    stored_zero = sparse.csr_array(
        (np.array([1.0, 0.0, 1.0, -0.0, 0.5, 0.5]), [0, 1, 0, 1, 0, 0], [0, 2, 3, 4, 6, 6]),
        shape=(5, 2),
    )
    before = stored_zero.data.copy()
    assert distinct_rows(as_rows(stored_zero)).tolist() == [0, 2]
    np.testing.assert_array_equal(stored_zero.data, before)


def test_repeats_across_blocks_are_found():
    X = np.arange(BLOCK_ROWS + 5.0).reshape(-1, 1)
    X[-2] = X[3]
    expected = np.delete(np.arange(BLOCK_ROWS + 5), BLOCK_ROWS + 3)
    np.testing.assert_array_equal(distinct_rows(as_rows(X)), expected)


def test_equal_nans_are_one_row():
    assert distinct_rows(as_rows(np.array([[np.nan], [np.nan], [0.0]]))).tolist() == [0, 2]


def test_row_numbers_are_all_distinct():
    assert distinct_rows(IndexRows(4)).tolist() == [0, 1, 2, 3]


def test_unhashable_items_count_as_distinct():
    items = ["a", "a", [1], [1]]
    assert distinct_rows(as_rows(items)).tolist() == [0, 1, 2, 3]


def test_object_matrix():
    X = np.array([["a", 1], ["b", 1], ["a", 1.0]], dtype=object)
    assert distinct_rows(as_rows(X)).tolist() == [0, 1]


def test_empty():
    assert distinct_rows(as_rows(np.empty((0, 3)))).tolist() == []
