"""Rows in the partitions of dask collections, on the local scheduler."""

import threading
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from pursuit.rows import (
    ArrayRows,
    DistributedRows,
    Sample,
    Table,
    TreeSum,
    as_rows,
    computed,
    in_memory,
    in_tree,
    is_dask,
    map_lazily,
    open_table,
)
from pursuit.testing import check_row_source

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

X = np.arange(42.0).reshape(14, 3)


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 5 rows, so that a few rows are many."""
    monkeypatch.setattr("pursuit.rows.dask.BLOCK_ROWS", 5)


def frame():
    whole = pd.DataFrame(X, columns=["a", "b", "c"])
    whole["kind"] = ["u", "v"] * 7
    whole["count"] = pd.array(range(14), dtype="Int64")
    return whole


def rows_of(source):
    return [rows for _, rows in source.blocks()]


SOURCES = {
    "chunks of rows": (lambda: da.from_array(X, chunks=(5, 3)), X),
    "chunks of columns": (lambda: da.from_array(X, chunks=(4, 2)), X),
    "empty chunks": (lambda: da.from_array(X, chunks=((0, 5, 0, 9), (3,))), X),
    "unknown chunks": (lambda: (lambda A: A[A[:, 0] > 7])(da.from_array(X, chunks=5)), X[3:]),
    "float32": (lambda: da.from_array(X.astype(np.float32), chunks=5), X.astype(np.float32)),
    "integers": (lambda: da.from_array(X.astype(int), chunks=5), X),
    "data frame": (lambda: dd.from_pandas(frame()[["a", "count"]], npartitions=3), X[:, [0]]),
    "frame with empty partitions": (
        lambda: (lambda d: d[d.a > 20])(dd.from_pandas(frame()[["a", "b"]], npartitions=4)),
        X[7:, :2],
    ),
    "delayed arrays": (lambda: [dask.delayed(X[:3]), dask.delayed(X[3:])], X),
    "delayed frames": (
        lambda: [dask.delayed(frame()[["b", "c"]][:3]), dask.delayed(frame()[["c", "b"]][3:])][:1],
        X[:3, 1:],
    ),
    "delayed CSR": (
        lambda: [dask.delayed(sparse.csr_array(X[:6])), dask.delayed(sparse.csr_array(X[6:]))],
        sparse.csr_array(X),
    ),
}
SOURCES["data frame"] = (SOURCES["data frame"][0], np.c_[X[:, 0], np.arange(14.0)])


@pytest.mark.parametrize("name", SOURCES)
def test_every_collection_is_a_source_a_table_and_distributed(name):
    make, items = SOURCES[name]
    source = as_rows(make())
    check_row_source(source, items)
    assert isinstance(source, DistributedRows)
    assert isinstance(source, Table)
    assert source.shape == items.shape
    assert source.dtype == items.dtype


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=25, max_size=25),
)
def test_a_restriction_is_a_source_whatever_the_partitions(lengths, kept):
    m = sum(lengths)
    index = np.flatnonzero(kept[:m])
    if len(index) < 2:
        return
    rows = np.arange(2.0 * m).reshape(m, 2)
    source = as_rows(da.from_array(rows, chunks=(tuple(lengths), (2,)))).restrict(index)
    check_row_source(source, rows[index])
    check_row_source(source.restrict(np.array([0, len(index) - 1])), rows[index[[0, -1]]])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("chunks", [(5, 0, 6, 3), (14,), (1,) * 14])
def test_tasks_receive_whole_blocks_in_row_order_whatever_the_partitions(chunks):
    source = as_rows(da.from_array(X, chunks=(chunks, (3,))))
    found = source.map(lambda rows, y: (rows_of(rows)[0][:, 0].tolist(), y.tolist()), np.arange(14))
    spans = [slice(0, 5), slice(5, 10), slice(10, 14)]
    assert found == [(X[span, 0].tolist(), [*range(14)][span]) for span in spans]
    index = np.array([0, 4, 5, 6, 8, 9, 13])
    found = source.restrict(index).map(
        lambda rows, y: (rows_of(rows)[0][:, 0].tolist(), y.tolist()), np.arange(7)
    )
    assert found == [(X[index[span], 0].tolist(), [*range(7)][span]) for span in spans[:2]]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("chunk", [3, 4, 14])
@pytest.mark.parametrize("beside", ["dask", "array"])
def test_another_source_comes_along_whatever_its_partitions(chunk, beside):
    source = as_rows(da.from_array(X, chunks=(6, 3)))
    other = as_rows(da.from_array(-X, chunks=(chunk, 3))) if beside == "dask" else ArrayRows(-X)

    def difference(rows, others):
        ((_, A),) = rows.blocks()
        ((_, B),) = others.blocks()
        return A + B

    parts = source.map(difference, other)
    assert [len(part) for part in parts] == [5, 5, 4]
    assert not np.any(np.concatenate(parts))


def wild_rows(m):
    """Numbers whose sum depends on the order in its last digits."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(m, 2)) * 10.0 ** rng.integers(-8, 8, size=(m, 1))


def block_sum(part):
    """Blocks of 5 rows, in a tree."""
    return in_tree(block.sum(axis=0) for _, block in part.blocks(5))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("chunk", [19, 43, 90, 703])
def test_partitions_and_who_is_first_do_not_change_a_bit_of_a_sum(chunk, scheduler, monkeypatch):
    monkeypatch.setattr("pursuit.rows.dask._FEWEST_TASKS", 4)
    rows = wild_rows(703)
    source = as_rows(da.from_array(rows, chunks=(chunk, 2)))
    tree = TreeSum()
    with dask.config.set(scheduler=scheduler):
        for level, value in chain.from_iterable(source.sums(block_sum)):
            tree.add(value, level)
        parts = source.map(block_sum)
    expected = block_sum(ArrayRows(rows))
    np.testing.assert_array_equal(tree.total(), expected)
    np.testing.assert_array_equal(in_tree(parts), expected)
    np.testing.assert_allclose(expected, rows.sum(axis=0), rtol=1e-12)
    assert not np.array_equal(expected, rows.sum(axis=0))


@pytest.mark.usefixtures("small_blocks")
def test_tasks_are_no_larger_than_partitions_and_not_too_few(monkeypatch):
    monkeypatch.setattr("pursuit.rows.dask._FEWEST_TASKS", 16)
    sizes = []
    for chunk in (4 * 5, 20 * 5, 703):
        source = as_rows(da.from_array(wild_rows(703), chunks=(chunk, 2)))
        sizes.append(max(source.map(lambda rows: rows.n_rows)))
    assert sizes == [5, 40, 40]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("first", "times"), [(0, 18), (1, 17), (64, 10), (83, 7), (140, 1)])
def test_sums_are_told_a_few_tasks_at_a_time_from_any_block_on(first, times, monkeypatch):
    monkeypatch.setattr("pursuit.rows.dask.slots", lambda: 1)
    rows, asked = wild_rows(703), []
    source = as_rows(da.from_array(rows, chunks=(5, 2)))
    compute = type(source)._compute
    monkeypatch.setattr(
        type(source), "_compute", lambda self, nodes: asked.append(0) or compute(self, nodes)
    )
    done = 5 * first
    for level, value in chain.from_iterable(source.sums(block_sum, start=done)):
        assert level <= 1  # 8 blocks are 8 tasks for the one who computes
        stop = min(done + 5 * 8**level, 703)
        np.testing.assert_array_equal(value, block_sum(ArrayRows(rows[done:stop])))
        done = stop
    assert done == 703
    # From a block within a subtree on, the tasks that complete it go with those of the next.
    assert len(asked) == times


def test_only_chosen_rows_travel(monkeypatch):
    from pursuit.rows import dask_collections

    sizes = []
    compute = dask_collections.import_dask().compute

    def spy(*nodes, **options):
        found = compute(*nodes, **options)
        sizes.extend(len(part) for part in found)
        return found

    source = as_rows(da.from_array(X, chunks=(5, 3)))
    monkeypatch.setattr(dask_collections.import_dask(), "compute", spy)
    taken = source.take(np.array([13, 0, 13, 6]))
    np.testing.assert_array_equal(taken, X[[13, 0, 13, 6]])
    assert sizes == [1, 1, 1]


def test_streaming_fetches_two_partitions_at_a_time():
    alive = []

    def load(number):
        alive.append(number)
        return X[:4]

    source = as_rows([dask.delayed(load)(number) for number in range(5)])
    alive.clear()
    stream = source.blocks(4)
    next(stream)
    assert sorted(alive) == [0, 1]
    assert len(list(stream)) == 4


def test_columns_are_selected_and_read_and_rows_counted_on_the_way():
    reads = []

    def note(part):
        reads.append(list(part.columns))
        return part

    collection = dd.from_pandas(frame(), npartitions=3)
    table = open_table(collection)
    assert table.columns == ("a", "b", "c", "kind", "count")
    kinds, counts = table.read(["kind", "count"])
    assert kinds.tolist() == ["u", "v"] * 7
    assert counts.tolist() == list(range(14))
    selected = table.select(["c", "a"])
    check_row_source(selected, X[:, [2, 0]])
    with pytest.raises(ValueError, match=r"no column 'cc' \(did you mean 'c'\?\)"):
        table.select(["cc"])
    with pytest.raises(ValueError, match="not numbers: 'kind"):
        rows_of(table)
    blocks = [dask.delayed(note)(frame()[:5]), dask.delayed(note)(frame()[5:])]
    check_row_source(as_rows(blocks).select(["c", "a"]), X[:, [2, 0]])


def test_a_part_of_a_sample_stays_where_it_is_unless_it_is_small():
    rows = np.arange(400.0).reshape(200, 2)
    source = as_rows(da.from_array(rows, chunks=(30, 2)))
    sample = Sample(source, np.empty((200, 0)), np.ones(200))
    most, few = np.delete(np.arange(200), [3, 50]), np.arange(0, 200, 40)
    assert isinstance(sample.take(most).rows, DistributedRows)
    check_row_source(sample.take(most).rows, rows[most])
    assert not isinstance(sample.take(few).rows, DistributedRows)
    check_row_source(sample.take(few).rows, rows[few])
    assert sample.take(np.arange(200)).rows is source
    shuffled = np.random.default_rng(0).permutation(200)
    check_row_source(sample.take(shuffled).rows, rows[shuffled])


def test_rows_are_brought_into_memory_once():
    calls = []

    def load():
        calls.append(0)
        return X

    source = as_rows([dask.delayed(load)()])
    calls.clear()
    held = in_memory(source)
    check_row_source(held, X)
    assert len(calls) == 1
    assert in_memory(held) is held


class Fails:
    """A collection whose partition 1 cannot be read."""

    def array(self):
        def load(block):
            if block[0, 0] == 15.0:
                raise OSError("the disk is gone")
            return block

        return da.from_array(X, chunks=(5, 3)).map_blocks(load, meta=np.empty((0, 3)))

    def blocks(self):
        def load():
            raise OSError("the disk is gone")

        return [dask.delayed(X), dask.delayed(load)()]


def test_a_partition_that_cannot_be_read_is_named():
    expected = r"partition 1 \(rows 5 to 9\) of the dask array cannot .* OSError: the disk is gone"
    with pytest.raises(RuntimeError, match=expected):
        as_rows(Fails().array()).map(lambda rows: 0)
    with pytest.raises(RuntimeError, match="partition 1 of the delayed blocks cannot be computed"):
        as_rows(Fails().blocks())


@pytest.mark.parametrize(
    ("error", "kind"), [(KeyError, RuntimeError), (ValueError, ValueError), (TypeError, TypeError)]
)
def test_partitions_on_which_a_task_fails_are_named(small_blocks, error, kind):
    def task(rows):
        if rows.n_rows == 4:
            raise error("no")
        return 0

    with pytest.raises(kind, match=rf"^partition 2 \(rows 10 to 13\): {error.__name__}: "):
        list(as_rows(da.from_array(X, chunks=(5, 3))).sums(task))
    with pytest.raises(kind, match=rf"^partitions 3 to 4 \(rows 9 to 13\): {error.__name__}: "):
        list(as_rows(da.from_array(X, chunks=(3, 3))).sums(task))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none_are_found_where_they_lie(value):
    broken = X.copy()
    broken[7, 1] = value
    where = r"column 1 of partition 1 \(rows 5 to 9\), in row 7"
    with pytest.raises(ValueError, match=where):
        as_rows(da.from_array(broken, chunks=(5, 3))).take(np.array([6, 8]))
    for chunk in (5, 3):
        with pytest.raises(ValueError, match=r"column 1 of partition \d .* in row 7"):
            as_rows(da.from_array(broken, chunks=(chunk, 3))).map(lambda rows: 0)
    whole = frame()[["a", "count"]]
    whole.loc[9, "count"] = pd.NA
    with pytest.raises(ValueError, match=r"NaN: column 'count' of partition \d .* in row 9"):
        as_rows(dd.from_pandas(whole, npartitions=3)).map(lambda rows: 0)
    with pytest.raises(ValueError, match=r"NaN or infinity, in partition 0 \(rows 0 to 13\)"):
        rows_of(as_rows([dask.delayed(sparse.csr_array(broken))]))


def test_a_collection_that_changes_between_passes_is_refused():
    lengths = iter([5, 5, 4])
    block = dask.delayed(lambda: X[: next(lengths)], pure=False)()
    source = as_rows([block])
    source.map(lambda rows: 0)
    with pytest.raises(ValueError, match=r"has 4 rows now: .* Call persist\(\)"):
        source.map(lambda rows: 0)


def restless(change):
    """A collection of which one value is another one from the third computation on."""
    times = []

    def block():
        times.append(1)
        return X + change * (len(times) > 2) * (np.arange(42).reshape(14, 3) == 25)

    return da.from_delayed(dask.delayed(block, pure=False)(), X.shape, float)


READS = {
    "take all": lambda source: source.take(np.arange(14)),
    "take some": lambda source: source.take(np.array([13, 8])),
    "blocks": lambda source: list(source.blocks(4)),
    "map": lambda source: source.map(lambda rows: rows.n_rows),
    "sums": lambda source: list(source.sums(lambda rows: rows.n_rows)),
    "restrict": lambda source: source.restrict(np.array([1, 7, 8])).map(lambda rows: 0),
}


@pytest.mark.parametrize("before", ["take some", "map"])
@pytest.mark.parametrize("read", READS)
def test_a_row_that_changes_between_passes_is_noticed(read, before, small_blocks):
    for change in (0.0, 1e-15 * X[8, 1]):
        source = as_rows(restless(change))
        READS[before](source)
        READS[before](source)
        if change:
            with pytest.raises(ValueError, match=r"X: row 8, in partition 0 .*persist.*Parquet"):
                READS[read](source)
        else:
            READS[read](source)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: da.zeros(5), ValueError, "got a dask array of 1 dimension"),
        (lambda: dd.from_pandas(frame(), npartitions=2)["a"], ValueError, "a single column"),
        (lambda: dask.delayed(X), TypeError, r"pass a list of delayed blocks, \[X\] for one"),
        (lambda: da.from_array(np.array([["a"]])), ValueError, r"array has .* not numbers: '0 "),
        (lambda: [dask.delayed(X), dask.delayed(X[:, :2])], ValueError, "block 1 has 2 columns"),
        (lambda: [dask.delayed("text")], RuntimeError, "2-D array, a CSR matrix or a data frame"),
    ],
)
def test_what_is_no_collection_of_rows_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        rows_of(as_rows(make()))


def test_values_for_rows_are_lazy_and_look_right():
    calls = []

    def double(block):
        calls.append(len(block))
        return 2 * np.asarray(block)[:, 0], np.asarray(block)[:, :2].astype(np.float32)

    collection = da.from_array(X, chunks=((5, 0, 9), (3,)))
    first, both = map_lazily(double, collection, None, None)
    assert calls == [2, 3]
    assert (first.shape, first.dtype, first.chunks) == ((14,), np.float64, ((5, 9),))
    assert (both.shape, both.dtype) == ((14, 2), np.float32)
    assert isinstance(both._meta, np.ndarray)
    np.testing.assert_array_equal(first.compute(), 2 * X[:, 0])
    np.testing.assert_array_equal(both.compute(), X[:, :2])
    table = dd.from_pandas(frame(), npartitions=3)
    lazy = map_lazily(lambda block: block["c"].to_numpy(), table, ["c"], 1)
    assert np.isnan(lazy.shape[0])
    np.testing.assert_array_equal(lazy.compute(), X[:, 2])
    blocks = map_lazily(lambda block: block[:, 0], [dask.delayed(X)], None, 3)
    np.testing.assert_array_equal(blocks.compute(), X[:, 0])
    with pytest.raises(ValueError, match="pairs of rows"):
        map_lazily(lambda block: block @ block.T, collection, None, None)


def test_types_of_all_delayed_blocks_count_also_for_some_columns():
    singles = frame()[["a", "b"]].astype(np.float32)
    source = as_rows([dask.delayed(singles[:5]), dask.delayed(frame()[["a", "b"]][5:])])
    assert source.dtype == np.float64
    check_row_source(source.select(["b"]), X[:, [1]])


def test_what_is_dask_is_known_without_looking_inside():
    assert is_dask(da.zeros(3))
    assert is_dask([dask.delayed(X)])
    assert not is_dask([])
    assert not is_dask(["a"])
    assert not is_dask(X)
    assert computed(X) is X
    np.testing.assert_array_equal(computed(da.from_array(X)), X)


def test_many_threads_may_ask_at_once():
    source = as_rows(da.from_array(X, chunks=(5, 3)))
    found = []
    threads = [
        threading.Thread(target=lambda: found.extend(source.sums(lambda rows: rows.n_rows)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [value for [(_, value)] in found] == [14] * 4
