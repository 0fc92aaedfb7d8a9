"""Row sources: one conformance check for all, and what is particular to each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from pursuit.rows import (
    BLOCK_ROWS,
    ArrayRows,
    IndexRows,
    ListRows,
    RowSource,
    SelectedRows,
    SparseRows,
    as_rows,
    concat,
    len_items,
)
from pursuit.testing import check_row_source


def dense(n_rows, n_features=3, dtype=np.float64):
    return np.arange(n_rows * n_features, dtype=dtype).reshape(n_rows, n_features)


def csr(n_rows, container=sparse.csr_array):
    return container(dense(n_rows) % 4)


WORDS = ["a", "bb", "ccc", "bb", "", "e"]

SOURCES = {
    "dense": (ArrayRows(dense(7)), dense(7)),
    "float32": (ArrayRows(dense(7, dtype=np.float32)), dense(7, dtype=np.float32)),
    "fortran": (ArrayRows(np.asfortranarray(dense(7))), dense(7)),
    "csr array": (SparseRows(csr(7)), csr(7)),
    "csr matrix": (SparseRows(csr(7, sparse.csr_matrix)), csr(7, sparse.csr_matrix)),
    "list": (ListRows(WORDS), WORDS),
    "tuple": (ListRows(tuple(WORDS)), WORDS),
    "list of arrays": (ListRows([np.zeros(2), np.ones(2)]), [np.zeros(2), np.ones(2)]),
    "index": (IndexRows(7), np.arange(7)),
    "more than a block": (IndexRows(BLOCK_ROWS + 3), np.arange(BLOCK_ROWS + 3)),
}


@pytest.mark.parametrize("name", [n for n in SOURCES if n != "more than a block"])
def test_every_source_keeps_the_contract(name):
    check_row_source(*SOURCES[name])


@given(st.lists(st.integers(0, 6), min_size=2, max_size=12))
def test_a_selection_of_rows_is_a_source(index):
    check_row_source(SelectedRows(ArrayRows(dense(7)), np.array(index)), dense(7)[index])


def test_default_blocks_have_block_rows():
    starts = [start for start, _ in SOURCES["more than a block"][0].blocks()]
    assert starts == [0, BLOCK_ROWS]


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_is_a_row_source(name):
    assert isinstance(SOURCES[name][0], RowSource)


@given(n_rows=st.integers(0, 40), size=st.integers(1, 50), data=st.data())
def test_blocks_and_take_against_plain_indexing(n_rows, size, data):
    numbers = list(range(n_rows))
    index = data.draw(st.lists(st.sampled_from(numbers), max_size=60) if n_rows else st.just([]))
    X = dense(n_rows)
    for source, to_dense in [
        (ArrayRows(X), np.asarray),
        (SparseRows(sparse.csr_array(X)), lambda items: items.toarray()),
        (ListRows(X.tolist()), lambda items: np.reshape(items, (-1, 3))),
        (IndexRows(n_rows), lambda items: X[items]),
    ]:
        taken = to_dense(source.take(np.array(index, dtype=np.intp)))
        np.testing.assert_array_equal(taken, X[np.array(index, dtype=int)])
        blocks = list(source.blocks(size))
        assert [start for start, _ in blocks] == numbers[::size]
        assert all(len_items(items) == size for _, items in blocks[:-1])
        rebuilt = [to_dense(items) for _, items in blocks] or [X]
        np.testing.assert_array_equal(np.concatenate(rebuilt), X)


def test_dense_blocks_are_views_and_takes_are_copies():
    X = dense(10)
    source = ArrayRows(X)
    assert all(np.shares_memory(block, X) for _, block in source.blocks(4))
    assert not np.shares_memory(source.take(np.arange(10)), X)


def test_memory_mapped_array(tmp_path):
    np.save(tmp_path / "X.npy", dense(9))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    source = as_rows(mapped)
    assert all(np.shares_memory(block, mapped) for _, block in source.blocks(4))
    np.testing.assert_array_equal(source.take(np.array([8, 0])), dense(9)[[8, 0]])


@pytest.mark.parametrize(
    ("X", "kind"),
    [
        (dense(3), ArrayRows),
        (np.array([["a", 1]], dtype=object), ArrayRows),
        (csr(3), SparseRows),
        (csr(3, sparse.csr_matrix), SparseRows),
        (["x", "y"], ListRows),
        (("x", "y"), ListRows),
        (np.array(["x", "y"]), ListRows),
        (np.array([{}, []], dtype=object), ListRows),
        (range(5), IndexRows),
        (range(0), IndexRows),
    ],
)
def test_as_rows_picks_the_source(X, kind):
    source = as_rows(X)
    assert type(source) is kind
    assert source.n_rows == (X.shape[0] if hasattr(X, "shape") else len(X))


def test_as_rows_keeps_a_source_and_anything_that_behaves_like_one():
    class Foreign:
        n_rows = 1

        def blocks(self, size=BLOCK_ROWS):
            yield 0, [1]

        def take(self, index):
            return [1] * len(index)

    for source in (ArrayRows(dense(3)), Foreign()):
        assert as_rows(source) is source


def test_object_array_elements_are_kept_by_identity():
    things = np.empty(2, dtype=object)
    things[:] = [object(), object()]
    assert as_rows(things).take(np.array([1]))[0] is things[1]


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros(3), ValueError, r"X must be 2-D .* shape \(3,\): use X.reshape\(-1, 1\)"),
        (np.zeros((2, 2, 2)), ValueError, r"X must be 2-D .* shape \(2, 2, 2\)"),
        (range(1, 4), ValueError, r"X must be range\(n_rows\) .* range\(1, 4\)"),
        (range(0, 6, 2), ValueError, r"X must be range\(n_rows\)"),
        (sparse.csc_array(np.eye(2)), TypeError, r"CSR format, got csc_array: use X.tocsr\(\)"),
        ("abc", TypeError, r"X of type str is not a source of rows: pass a 2-D array"),
        (b"abc", TypeError, r"X of type bytes is not"),
        (3.0, TypeError, r"X of type float is not"),
        (None, TypeError, r"X of type NoneType is not"),
    ],
)
def test_as_rows_refuses(X, error, message):
    with pytest.raises(error, match=message):
        as_rows(X)


@pytest.mark.parametrize("name", ["dense", "csr array", "list", "index"])
@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        ([[0, 1]], ValueError, r"index must be 1-D, got shape \(1, 2\)"),
        ([0.0], TypeError, r"integer row numbers, got dtype float64"),
        ([True, False], TypeError, r"got dtype bool: use np.flatnonzero"),
        ([3, -1], ValueError, r"index must lie in \[0, \d\), got row numbers from -1 to 3"),
        ([0, 9], ValueError, r"got row numbers from 0 to 9: remove"),
    ],
)
def test_take_refuses(name, index, error, message):
    with pytest.raises(error, match=message):
        SOURCES[name][0].take(np.array(index))


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("size", [0, -3])
def test_blocks_refuses_a_size_before_the_first_block_is_asked_for(name, size):
    with pytest.raises(ValueError, match=rf"size must be at least 1 row per block, got {size}"):
        SOURCES[name][0].blocks(size)


def test_index_rows_refuses():
    with pytest.raises(ValueError, match="n_rows must not be negative, got -1"):
        IndexRows(-1)
    with pytest.raises(TypeError, match="integer"):
        IndexRows(2.5)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (dense(2), dense(3)),
        (csr(2), csr(3)),
        (csr(2, sparse.csr_matrix), csr(3, sparse.csr_matrix)),
        (["a"], ["b", "c"]),
        (np.arange(2), np.arange(3)),
        (dense(0), dense(2)),
    ],
)
def test_concat_is_first_then_second(first, second):
    both = concat(first, second)
    assert type(both) is type(first)
    assert len_items(both) == len_items(first) + len_items(second)

    def plain(items):
        return items.toarray().tolist() if sparse.issparse(items) else list(map(_listed, items))

    assert plain(both) == plain(first) + plain(second)


def _listed(item):
    return item.tolist() if isinstance(item, np.ndarray | np.generic) else item


def test_concat_refuses():
    with pytest.raises(TypeError, match="same kind, got ndarray and list: convert"):
        concat(dense(2), ["a"])
    with pytest.raises(TypeError, match="same kind, got csr_array and ndarray"):
        concat(csr(2), dense(2))
    with pytest.raises(ValueError, match=r"same shape, got \(3,\) and \(2,\): select the same"):
        concat(dense(2), dense(2, 2))
    with pytest.raises(ValueError, match=r"same shape, got \(3,\) and \(2,\)"):
        concat(csr(2), sparse.csr_array(dense(2, 2)))
