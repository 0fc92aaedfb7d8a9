"""Rows in files and of other libraries: the same rows whatever holds them, and clear refusals."""

import decimal
import gc
import gzip
import itertools
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.rows import Table, as_rows, is_path, open_file, open_table, read_all
from pursuit.rows.arrow import BATCH_ROWS
from pursuit.rows.memory import FetchedRows, SelectedRows, StreamedRows, select_rows
from pursuit.testing import check_row_source

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")
pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.fs")

M = 137
NAMES = ("a", "b", "c")


def matrix(m=M, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((m, d))


def arrow(X):
    return pa.table(dict(zip(NAMES, X.T, strict=True)))


def write_parquet(folder, X, *, cuts=(), row_group=10):
    """The rows in one file, or in several that are cut at these rows."""
    folder.mkdir(parents=True, exist_ok=True)
    edges = [0, *cuts, len(X)]
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        part = arrow(X).slice(start, stop - start)
        pq.write_table(part, folder / f"{number:03}.parquet", row_group_size=row_group)
    return folder


def write_csv(path, X):
    csv.write_csv(arrow(X), path)
    return path


def numpy_file(path, X):
    np.save(path, X)
    return path


def lazy_frame(X):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(dict(zip(NAMES, X.T, strict=True))).lazy().select(NAMES)


def relation(X):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("numbers", arrow(X))
    return connection.sql("select * from numbers")


SOURCES = {
    "parquet": lambda folder, X: write_parquet(folder / "one", X) / "000.parquet",
    "parquet folder": lambda folder, X: write_parquet(folder / "some", X, cuts=(1, 50, 51)),
    "csv": lambda folder, X: write_csv(folder / "rows.csv", X),
    "npy": lambda folder, X: numpy_file(folder / "rows.npy", X),
    "arrow table": lambda folder, X: arrow(X),
    "arrow record batch": lambda folder, X: arrow(X).to_batches()[0],
    "arrow stream": lambda folder, X: arrow(X).to_reader(max_chunksize=11),
    "polars lazy frame": lambda folder, X: lazy_frame(X),
    "duckdb relation": lambda folder, X: relation(X),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_holds_the_same_rows(kind, tmp_path):
    X = matrix()
    table = open_table(SOURCES[kind](tmp_path, X))
    check_row_source(table, X)
    assert isinstance(table, Table)
    assert table.shape == X.shape
    assert table.ndim == 2
    assert table.dtype == np.float64
    assert table.columns == (None if kind == "npy" else NAMES)
    assert str(M) in repr(table)


@given(
    row_group=st.integers(1, 60),
    cuts=st.lists(st.integers(0, 60), max_size=3),
    size=st.integers(1, 80),
    index=st.lists(st.integers(0, 59), max_size=40),
)
def test_how_parquet_is_cut_does_not_matter(tmp_path_factory, row_group, cuts, size, index):
    X = matrix(60)
    folder = write_parquet(
        tmp_path_factory.mktemp("cut"), X, cuts=tuple(sorted(cuts)), row_group=row_group
    )
    table = open_table(folder)
    blocks = list(table.blocks(size))
    assert [start for start, _ in blocks] == list(range(0, 60, size))
    assert np.array_equal(np.concatenate([block for _, block in blocks]), X)
    rows = np.array(index, dtype=np.intp)
    assert np.array_equal(table.take(rows), X[rows])


def test_take_reads_only_the_row_groups_that_hold_the_rows(tmp_path, monkeypatch):
    table = open_table(write_parquet(tmp_path / "f", matrix(), cuts=(70,), row_group=10))
    read, whole = [], type(table)._scan

    def watched(self, parts, columns):
        for batch in whole(self, parts, columns):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(type(table), "_scan", watched)
    assert np.array_equal(table.take(np.array([75, 3, 5, 75])), matrix()[[75, 3, 5, 75]])
    assert read == [10, 10]


def test_selected_columns_come_in_the_order_asked_for(tmp_path):
    X = matrix()
    table = open_table(write_parquet(tmp_path / "f", X)).select(["c", "a"])
    check_row_source(table, X[:, [2, 0]])
    assert table.columns == ("c", "a")
    [b, c] = open_table(tmp_path / "f").read(["b", "c"])
    assert np.array_equal(b, X[:, 1])
    assert np.array_equal(c, X[:, 2])


def test_any_numbers_become_floats(tmp_path):
    table = pa.table(
        {
            "whole": pa.array([1, 2, 2**40]),
            "flag": [True, False, True],
            "single": pa.array([0.5, 1.5, 2.5], type=pa.float32()),
            "exact": pa.array([decimal.Decimal("1.25")] * 3),
        }
    )
    pq.write_table(table, tmp_path / "numbers.parquet")
    found = open_table(tmp_path / "numbers.parquet")
    expected = [[1, 1, 0.5, 1.25], [2, 0, 1.5, 1.25], [2**40, 1, 2.5, 1.25]]
    assert found.dtype == np.float64
    assert np.array_equal(read_all(found), expected)
    assert found.select(["single"]).dtype == np.float32
    np.save(tmp_path / "whole.npy", np.arange(6, dtype=np.int32).reshape(3, 2))
    whole = open_table(tmp_path / "whole.npy")
    check_row_source(whole, np.arange(6.0).reshape(3, 2))


def test_columns_of_words_can_be_read_but_are_no_features():
    table = open_table(pa.table({"a": [1.0, 2.0], "word": ["x", "y"], "n": [3, 4]}))
    [word, n] = table.read(["word", "n"])
    assert word.tolist() == ["x", "y"]
    assert n.tolist() == [3, 4]
    assert n.dtype.kind == "i"
    with pytest.raises(ValueError, match=r"not numbers: 'word \(string\)'\. Let pursuit.TableEnc"):
        table.take(np.array([0]))
    with pytest.raises(ValueError, match="not numbers"):
        table.check_numeric()
    assert table.select(["a", "n"]).take(np.array([1])).tolist() == [[2.0, 4.0]]


class TestCsv:
    def read(self, tmp_path, text, name="some.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return open_table(tmp_path / name)

    def test_whole_numbers_may_become_others_later(self, tmp_path):
        lines = "".join(f"{i},{i}\n" for i in range(200_000))
        table = self.read(tmp_path, f"a,b\n{lines}1.5,7\n")
        assert table.take(np.array([200_000, 3])).tolist() == [[1.5, 7.0], [3.0, 3.0]]
        assert table.read(["b"])[0].dtype.kind == "i"

    def test_words_far_below_make_a_column_of_words(self, tmp_path):
        lines = "".join(f"{i},{i}\n" for i in range(200_000))
        table = self.read(tmp_path, f"a,b\n{lines}abc,7\n")
        with pytest.raises(ValueError, match=r"some.csv has columns that are not numbers: 'a \("):
            table.check_numeric()
        assert table.select(["b"]).take(np.array([200_000])).tolist() == [[7.0]]

    def test_ragged_rows_are_named(self, tmp_path):
        with pytest.raises(ValueError, match=r"some\.csv, line 3: 1 values where the header has 2"):
            self.read(tmp_path, "a,b\n1,2\n3\n4,5\n")
        lines = "".join(f"{i},{i}\n" for i in range(200_000))
        with pytest.raises(ValueError, match=r"some\.csv, line 200002: 3 values"):
            self.read(tmp_path, f"a,b\n{lines}1,2,3\n")

    def test_missing_values_are_named(self, tmp_path):
        with pytest.raises(ValueError, match=r"Input X contains NaN: column 'b' of some\.csv, in "):
            list(self.read(tmp_path, "a,b\n1,2\n3,\n").blocks())

    def test_files_that_are_none(self, tmp_path):
        with pytest.raises(ValueError, match=r"some\.csv is empty"):
            self.read(tmp_path, "")
        assert self.read(tmp_path, "a,b\n").n_rows == 0
        with pytest.raises(ValueError, match="begins with numbers"):
            self.read(tmp_path, "1,2\n3,4\n")

    def test_names_that_occur_again_get_a_number(self, tmp_path):
        table = self.read(tmp_path, "\ufeffa,b,a,a.1\n3,,4,5\n6,7,x,8\n")
        frame = pytest.importorskip("pandas").read_csv(tmp_path / "some.csv")
        assert table.columns == tuple(frame.columns) == ("a", "b", "a.2", "a.1")
        found = [array.tolist() for array in table.read(["a", "a.2", "a.1"])]
        assert found == [[3, 6], ["4", "x"], [5, 8]]
        with pytest.raises(ValueError, match=r"some\.csv, line 3: 1 values where .* has 2"):
            self.read(tmp_path, "a,a\n3,4\n5\n")

    def test_several_files_and_other_forms(self, tmp_path):
        folder = tmp_path / "parts"
        folder.mkdir()
        self.read(folder, "a,b\n1,2\n", "1.csv")
        self.read(folder, "a,b\n3,4.5\n", "2.csv")
        assert read_all(open_table(folder)).tolist() == [[1.0, 2.0], [3.0, 4.5]]
        (folder / "3.csv").write_text("a,c\n3,4.5\n", encoding="utf-8")
        with pytest.raises(ValueError, match=r"3\.csv has the columns"):
            open_table(folder)
        assert self.read(tmp_path, "a\tb\n1\t2\n", "tabs.tsv").shape == (1, 2)

    def test_keys_of_a_partitioned_folder_are_columns(self, tmp_path):
        for year, text in ((2019, "a,b\n1,2\n"), (2020, "a,b\n3,4.5\n5,6\n")):
            (tmp_path / f"year={year}").mkdir()
            self.read(tmp_path / f"year={year}", text)
        table = open_table(tmp_path)
        assert table.columns == ("a", "b", "year")
        assert read_all(table).tolist() == [[1, 2, 2019], [3, 4.5, 2020], [5, 6, 2020]]

    def test_the_temporary_file_goes_with_the_last_selection(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        table = self.read(tmp_path, "a,b\n1,2\n3,4\n")
        selection = table.select(["b"])
        [spool] = tmp_path.glob("*.arrow")
        del table
        gc.collect()
        assert spool.exists()
        assert selection.take(np.array([1])).tolist() == [[4.0]]
        del selection
        gc.collect()
        assert not spool.exists()

    @pytest.fixture
    def refusing(self, tmp_path, monkeypatch):
        """A system that removes no file that is mapped into memory, as Windows does not."""
        maps, unlink = Path("/proc/self/maps"), Path.unlink
        if not maps.exists():
            pytest.skip("what is mapped cannot be looked up")

        def unlink_unmapped(path, missing_ok=False):
            if str(path) in maps.read_text(encoding="utf-8"):
                raise PermissionError(13, "it is mapped", str(path))
            unlink(path, missing_ok)

        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        monkeypatch.setattr(Path, "unlink", unlink_unmapped)

    def test_the_temporary_file_is_removed_after_its_mapping(self, tmp_path, refusing):
        table = self.read(tmp_path, "a,b\n1,2\n3,4\n")
        selection = table.select(["b"])
        del table
        gc.collect()
        assert selection.take(np.array([1])).tolist() == [[4.0]]
        del selection
        gc.collect()
        assert not list(tmp_path.glob("*.arrow"))

    def test_a_temporary_file_that_is_still_mapped_is_removed_later(self, tmp_path, refusing):
        table = self.read(tmp_path, "a,b\n1.5,2\n3,4\n")
        [batch] = table.batches(["a"])
        del table
        gc.collect()
        [spool] = tmp_path.glob("*.arrow")
        assert batch.column(0).to_pylist() == [1.5, 3.0]
        del batch
        gc.collect()
        other = self.read(tmp_path, "a,b\n1,2\n", "other.csv")
        assert not spool.exists()
        assert other.n_rows == 1

    def test_a_failed_read_leaves_no_temporary_file(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        with pytest.raises(ValueError, match="line 3"):
            self.read(tmp_path, "a,b\n1,2\n3\n4,5\n")
        assert not list(tmp_path.glob("*.arrow"))


class TestBadValues:
    @pytest.mark.parametrize(
        ("value", "words"), [(np.nan, "NaN"), (np.inf, "infinity"), (None, "NaN")]
    )
    def test_are_named_with_column_and_row(self, tmp_path, value, words):
        column = pa.array([0.0] * 29 + [value] + [0.0] * 10, type=pa.float64())
        pq.write_table(
            pa.table({"fine": np.zeros(40), "bad": column}),
            tmp_path / "x.parquet",
            row_group_size=16,
        )
        table = open_table(tmp_path / "x.parquet")
        message = rf"Input X contains {words}.*: column 'bad' of x\.parquet, in row 29"
        with pytest.raises(ValueError, match=message):
            list(table.blocks())
        with pytest.raises(ValueError, match=message):
            table.take(np.array([3, 29, 8]))
        assert table.select(["fine"]).take(np.array([29])).tolist() == [[0.0]]

    def test_nulls_are_refused_before_a_pass_where_the_file_counts_them(self, tmp_path):
        pq.write_table(pa.table({"a": [1.0, None], "b": [1.0, 2.0]}), tmp_path / "x.parquet")
        table = open_table(tmp_path / "x.parquet")
        with pytest.raises(ValueError, match=r"Input X contains NaN: column 'a' of x\.parquet"):
            table.check_numeric()
        table.select(["b"]).check_numeric()

    def test_in_a_matrix(self, tmp_path):
        X = np.zeros((50, 2))
        X[33, 1] = np.nan
        np.save(tmp_path / "x.npy", X)
        table = open_table(tmp_path / "x.npy")
        for read in (lambda: list(table.blocks()), lambda: table.take(np.array([1, 33]))):
            with pytest.raises(ValueError, match=r"NaN: column 1 of x\.npy, in row 33"):
                read()

    def test_values_that_only_add_up_to_infinity_are_fine(self):
        table = open_table(pa.table({"a": [1e308, 1e308, 1e308]}))
        assert table.take(np.array([2])).tolist() == [[1e308]]

    def test_missing_targets_are_refused(self):
        table = open_table(pa.table({"a": [1.0, 2.0], "y": [None, 2.0]}))
        with pytest.raises(ValueError, match="Input y contains NaN: column 'y'"):
            table.read(["y"])


class TestFolders:
    """Folders as other programs write them."""

    def test_numbers_in_names_are_numbers(self, tmp_path):
        for i in range(12):
            pq.write_table(pa.table({"a": [float(i)]}), tmp_path / f"part.{i}.parquet")
        assert read_all(open_table(tmp_path))[:, 0].tolist() == list(range(12))

    def test_what_is_hidden_or_unfinished_is_left_out(self, tmp_path):
        write_parquet(tmp_path, matrix())
        for private in (".ipynb_checkpoints", "_temporary"):
            write_parquet(tmp_path / private, matrix(seed=1))
        assert np.array_equal(read_all(open_table(tmp_path)), matrix())

    def test_keys_of_a_partitioned_folder_are_columns(self, tmp_path):
        X = matrix()
        year, share = 2019 + np.arange(M) % 3, np.arange(M) % 2 / 4
        carrier = np.where(X[:, 0] > 0, "U A", "B/6")
        keys = {"year": year, "share": share, "carrier": carrier}
        whole = pa.table({**dict(zip(NAMES, X.T, strict=True)), **keys})
        pq.write_to_dataset(whole, tmp_path / "data", partition_cols=list(keys))
        table = open_table(tmp_path / "data")
        assert table.columns == (*NAMES, *keys)
        assert [str(table.schema.field(key).type) for key in keys] == ["int64", "double", "string"]
        order = {a: i for i, a in enumerate(X[:, 0])}
        rows = np.array([order[a] for a in table.read(["a"])[0]])
        assert sorted(rows) == list(range(M))
        for key, values in keys.items():
            assert table.read([key])[0].tolist() == values[rows].tolist()
        numbers = table.select(["year", "b", "share"])
        expected = np.column_stack([year, X[:, 1], share])[rows]
        assert np.array_equal(read_all(numbers), expected)
        assert np.array_equal(numbers.take(np.array([M - 1, 3])), expected[[M - 1, 3]])
        with pytest.raises(ValueError, match=r"not numbers: 'carrier \(string\)'"):
            table.check_numeric()

    @pytest.mark.parametrize("kind", ["parquet", "csv"])
    def test_a_column_of_the_files_comes_before_a_key_of_its_name(self, tmp_path, kind):
        for value in ("1", "2"):
            folder = tmp_path / f"b={value}"
            write_parquet(folder, matrix(5)) if kind == "parquet" else folder.mkdir()
            if kind == "csv":
                write_csv(folder / "0.csv", matrix(5))
        table = open_table(tmp_path)
        assert table.columns == NAMES
        assert np.array_equal(read_all(table), np.vstack([matrix(5)] * 2))

    def test_a_key_without_a_value_is_missing(self, tmp_path):
        for value in ("1", "__HIVE_DEFAULT_PARTITION__"):
            write_parquet(tmp_path / f"k={value}", matrix(2))
        with pytest.raises(ValueError, match=r"Input X contains NaN: column 'k' .* in row 2 "):
            open_table(tmp_path).check_numeric()

    def test_keys_that_do_not_match(self, tmp_path):
        for folder in ("k=1", "l=1"):
            write_parquet(tmp_path / folder, matrix(2))
        with pytest.raises(
            ValueError, match=r"lies in folders for 'l', but the first file in .*'k'"
        ):
            open_table(tmp_path)


def test_an_index_that_pandas_has_written_is_no_column(tmp_path):
    pandas = pytest.importorskip("pandas")
    data = pandas.DataFrame(matrix(), columns=list(NAMES))
    for number, some in enumerate((data[data["a"] > 0], data.set_index("b"))):
        some.to_parquet(tmp_path / f"{number}.parquet")
        for X in (tmp_path / f"{number}.parquet", pa.Table.from_pandas(some)):
            assert np.array_equal(read_all(open_table(X)), some.to_numpy())


@pytest.mark.parametrize("layout", ["C", "F", "big-endian"])
def test_rows_of_a_matrix_lie_one_after_the_other(layout, tmp_path):
    X = matrix()
    np.save(tmp_path / "x.npy", X.astype(">f8") if layout == "big-endian" else X.copy(layout))
    table = open_table(tmp_path / "x.npy")
    for rows in (table.take(np.arange(M)), *(block for _, block in table.blocks(M))):
        assert rows.flags.c_contiguous
        assert rows.dtype == np.dtype(np.float64)
        assert np.array_equal(rows, X)


def test_small_row_groups_are_read_together(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "some", matrix(), row_group=1) / "000.parquet"
    table, sizes = open_table(path), []
    whole = type(table)._matrix

    def watched(self, batch, numbers):
        sizes.append(batch.num_rows)
        return whole(self, batch, numbers)

    monkeypatch.setattr(type(table), "_matrix", watched)
    for most, expected in ((BATCH_ROWS, [137]), (50, [50, 50, 37])):
        monkeypatch.setattr("pursuit.rows.arrow.BATCH_ROWS", most)
        sizes.clear()
        assert np.array_equal(read_all(table), matrix())
        assert sizes == expected


def test_a_file_is_read_piece_by_piece(tmp_path, monkeypatch):
    """Arrow holds little of a file at a time, however slow the reader is."""
    monkeypatch.setattr("pursuit.rows.files.BATCH_ROWS", 10_000)
    X = matrix(300_000)
    pq.write_table(arrow(X), tmp_path / "x.parquet", row_group_size=5_000)
    before, most, n_rows = pa.total_allocated_bytes(), 0, 0
    for batch in open_table(tmp_path / "x.parquet").batches(NAMES):
        time.sleep(0.002)
        most, n_rows = max(most, pa.total_allocated_bytes() - before), n_rows + batch.num_rows
    assert n_rows == len(X)
    assert most < X.nbytes / 4


def test_batches_may_bring_dictionaries_of_their_own():
    def batch(i):
        words = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([f"a{i}", f"b{i}"]))
        return pa.record_batch({"x": pa.array([1.0, 2.0]), "word": words})

    batches = [batch(i) for i in range(3)]
    table = open_table(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert table.read(["word"])[0].tolist() == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_an_arrow_data_set(tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    folder = write_parquet(tmp_path / "some", matrix(), cuts=(50,))
    assert np.array_equal(read_all(open_table(dataset.dataset(folder))), matrix())


def test_values_of_many_lines_in_a_long_file(tmp_path):
    lines = [f'{i},"{"x" * (i % 60)}\n\n{i},1,2\n",{i % 7}' for i in range(60_000)]
    path = tmp_path / "notes.csv"
    path.write_text("\n".join(["a,note,b", *lines]), encoding="utf-8")
    assert path.stat().st_size > 2 << 20  # pyarrow cuts files into pieces of 1 MiB
    a, b = open_table(path).read(["a", "b"])
    assert np.array_equal(a, np.arange(60_000))
    assert np.array_equal(b, a % 7)


class TestAddresses:
    """Object stores are file systems of pyarrow, or of fsspec where pyarrow knows none."""

    @pytest.mark.parametrize("kind", ["parquet", "parquet folder", "csv"])
    def test_a_file_of_this_machine(self, tmp_path, kind):
        path = SOURCES[kind](tmp_path, matrix())
        table = open_table(path.as_uri())
        check_row_source(table, matrix())
        assert table.name == path.name

    def test_a_bucket(self, tmp_path, monkeypatch):
        """The object store is another file system in which folders are prefixes of names."""
        write_parquet(tmp_path / "bucket" / "k=2.5", matrix(4))
        write_parquet(tmp_path / "bucket" / "k=1", matrix(3))
        store = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
        asked = []

        def from_uri(uri):
            asked.append(uri)
            return store, uri.removeprefix("s3://")

        monkeypatch.setattr(pyarrow.fs, "FileSystem", SimpleNamespace(from_uri=from_uri))
        table = open_table("s3://bucket")
        assert asked == ["s3://bucket"]
        assert table.columns == (*NAMES, "k")
        expected = np.vstack([matrix(3), matrix(4)])
        assert np.array_equal(read_all(table), np.c_[expected, [1.0] * 3 + [2.5] * 4])
        check_row_source(open_table("s3://bucket/k=2.5/000.parquet"), matrix(4))

    @pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
    def test_other_addresses_go_to_fsspec(self, tmp_path, suffix):
        fsspec = pytest.importorskip("fsspec")
        path = tmp_path / f"x.{suffix}"
        if suffix == "parquet":
            pq.write_table(arrow(matrix()), path)
        elif suffix == "csv":
            write_csv(path, matrix())
        else:
            path.write_bytes(gzip.compress(write_csv(tmp_path / "x.csv", matrix()).read_bytes()))
        memory = fsspec.filesystem("memory")
        memory.pipe_file(f"/rows/x.{suffix}", path.read_bytes())
        try:
            check_row_source(open_table(f"memory://rows/x.{suffix}"), matrix())
            check_row_source(open_table("memory://rows"), matrix())
        finally:
            memory.rm("/rows", recursive=True)


class TestRefusals:
    def test_columns_of_lists_are_no_targets(self):
        table = open_table(pa.table({"a": [1.0], "y": [[1.0, 2.0]]}))
        with pytest.raises(ValueError, match="column 'y' of the Arrow table holds list<"):
            table.read(["y"])

    def test_addresses(self, tmp_path):
        with pytest.raises(ValueError, match=r"'nowhere://b/x\.parquet' cannot be read: "):
            open_table("nowhere://b/x.parquet")
        with pytest.raises(FileNotFoundError, match=r"no file or folder 'file:///.*gone\.csv'"):
            open_table((tmp_path / "gone.csv").as_uri())
        np.save(tmp_path / "x.npy", matrix())
        with pytest.raises(ValueError, match=r"x\.npy' is not a file of this machine: download"):
            open_table((tmp_path / "x.npy").as_uri())

    def test_an_address_that_cannot_be_reached(self, monkeypatch):
        def unreachable(uri):
            raise OSError("Could not resolve host")

        monkeypatch.setattr(pyarrow.fs, "FileSystem", SimpleNamespace(from_uri=unreachable))
        with pytest.raises(OSError, match=r"'s3://b/x\.csv' cannot be reached: Could not resolve"):
            open_table("s3://b/x.csv")

    def test_utf16(self, tmp_path):
        (tmp_path / "x.csv").write_text("a,b\n1,2\n", encoding="utf-16")
        with pytest.raises(ValueError, match=r"x\.csv is not in UTF-8"):
            open_table(tmp_path / "x.csv")

    def test_paths(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"there is no file or folder .*gone\.parquet"):
            open_table(tmp_path / "gone.parquet")
        (tmp_path / "notes.txt").write_text("none", encoding="utf-8")
        with pytest.raises(ValueError, match=r"notes\.txt is of no kind that can be read"):
            open_table(tmp_path / "notes.txt")
        with pytest.raises(ValueError, match="holds no Parquet or CSV files"):
            open_table(tmp_path)
        for kind in ("parquet", "npy"):
            (tmp_path / f"false.{kind}").write_text("not what it says", encoding="utf-8")
            with pytest.raises(ValueError, match=rf"false\.{kind} is not a"):
                open_table(tmp_path / f"false.{kind}")
        write_csv(tmp_path / "1.csv", matrix())
        with pytest.raises(ValueError, match="holds both Parquet and CSV"):
            open_table(tmp_path)

    def test_a_matrix_that_is_none(self, tmp_path):
        np.save(tmp_path / "line.npy", np.arange(3.0))
        with pytest.raises(ValueError, match=r"line\.npy must hold a 2-D array of numbers"):
            open_table(tmp_path / "line.npy")
        np.save(tmp_path / "x.npy", matrix())
        with pytest.raises(ValueError, match="have no names"):
            open_table(tmp_path / "x.npy").select(["a"])

    def test_files_of_a_folder_that_do_not_match(self, tmp_path):
        pq.write_table(pa.table({"a": [1.0], "b": [1.0]}), tmp_path / "1.parquet")
        pq.write_table(pa.table({"a": [1.0]}), tmp_path / "2.parquet")
        with pytest.raises(ValueError, match=r"2\.parquet has no column 'b'"):
            open_table(tmp_path)
        pq.write_table(pa.table({"a": [1.0], "b": ["x"]}), tmp_path / "2.parquet")
        with pytest.raises(ValueError, match=r"column 'b' of 2\.parquet is of type string"):
            open_table(tmp_path)
        pq.write_table(pa.table({"b": [2.0], "a": [3.0]}), tmp_path / "2.parquet")
        assert read_all(open_table(tmp_path)).tolist() == [[1.0, 1.0], [3.0, 2.0]]

    def test_columns(self):
        table = open_table(pa.table({"distance": [1.0], "delay": [1.0]}))
        with pytest.raises(ValueError, match=r"no column 'delai' \(did you mean 'delay'\?\)"):
            table.select(["delai"])
        with pytest.raises(ValueError, match="Its columns are 'distance', 'delay'"):
            table.read(["zzz"])
        with pytest.raises(ValueError, match="more than one column 'delay'"):
            table.select(["delay", "delay"])

    def test_other_things(self):
        with pytest.raises(TypeError, match="a table cannot be made of ndarray"):
            open_table(matrix())

    def test_without_pyarrow(self, tmp_path, monkeypatch):
        write_parquet(tmp_path, matrix())
        for module in ("pyarrow", "pyarrow.parquet"):
            monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=r'pip install "pursuit\[parquet\]"'):
            open_table(tmp_path)


class TestSelections:
    """Of a table, a few rows are fetched once, and many are left over from a stream."""

    def table(self, tmp_path, m=300):
        X = matrix(m)
        return open_table(write_parquet(tmp_path / "f", X, cuts=(99,), row_group=40)), X

    def test_many_rows_in_order(self, tmp_path):
        table, X = self.table(tmp_path)
        index = np.flatnonzero(np.arange(300) % 7)
        found = select_rows(table, index)
        assert type(found) is StreamedRows
        check_row_source(found, X[index])
        again = select_rows(found, np.array([5, 2, 2]))
        assert again.source is table
        check_row_source(again, X[index[[5, 2, 2]]])

    def test_a_few_rows(self, tmp_path, monkeypatch):
        table, X = self.table(tmp_path)
        index = np.array([250, 3, 3, 17])
        found, looks = select_rows(table, index), []
        take = type(table).take
        monkeypatch.setattr(
            type(table), "take", lambda self, rows: looks.append(1) or take(self, rows)
        )
        assert type(found) is FetchedRows
        assert not looks
        check_row_source(found, X[index])
        assert len(looks) == 1

    def test_others(self, tmp_path):
        table, X = self.table(tmp_path)
        backwards = np.arange(300)[::-1]
        found = select_rows(table, backwards)
        assert type(found) is SelectedRows
        check_row_source(found, X[::-1])
        assert select_rows(table, np.arange(300)) is table
        assert type(select_rows(as_rows(X), np.arange(5))) is SelectedRows


def test_what_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for path in (Path("x"), "a/b", "a.parquet", "a.CSV", "a.csv.gz", "folder", "s3://bucket"):
        assert is_path(path)
    for other in ("gaussian", "", "x" * 5000, "a\0b", b"a.csv", 3, ["a.csv"]):
        assert not is_path(other)


@pytest.mark.parametrize("separator", ["/", "\\"])
def test_paths_of_windows_have_either_separator(separator, monkeypatch):
    monkeypatch.setattr("pursuit.rows.files.os.sep", "\\")
    assert is_path(f"a{separator}b")
    assert not is_path("gaussian")


def test_a_lazy_frame_is_known_without_what_it_would_have_to_compute():
    polars = pytest.importorskip("polars")
    computed = property(lambda self: pytest.fail("an attribute of the lazy frame was computed"))
    # All that a Table has: looking for any of them, in whatever order, would fail.
    names = [name for name in dir(Table) if not name.startswith("_")]
    frame = lazy_frame(matrix())
    kind = type("LazyFrame", (polars.LazyFrame,), {"__module__": "polars.lazyframe"})
    for name in {*names, "name", "n_rows", "columns", "width"}:
        setattr(kind, name, computed)
    frame.__class__ = kind
    assert open_table(frame).columns == tuple(NAMES)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_header_says_what_separates_values(tmp_path, separator):
    header = separator.join(['"a, b; c | d"', "two", "three"])
    rows = [separator.join(map(str, (i, i + 0.5, 2 * i))) for i in range(5)]
    (tmp_path / "t.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    table = open_table(tmp_path / "t.csv")
    assert table.columns == ("a, b; c | d", "two", "three")
    expected = [[i, i + 0.5, 2 * i] for i in range(5)]
    np.testing.assert_array_equal(table.take(np.arange(5)), expected)


@pytest.mark.parametrize("before", [0, 300_000], ids=["at once", "far down"])
def test_a_file_that_is_not_utf8_is_refused(tmp_path, before):
    lines = [b"x,town", *[b"1,Graz"] * before, "2,Köln".encode("latin-1")]
    (tmp_path / "t.csv").write_bytes(b"\n".join(lines) + b"\n")
    for texts in ([], ["town"]):
        with pytest.raises(ValueError, match=r"t\.csv is not in UTF-8: convert it"):
            open_file(tmp_path / "t.csv", texts)


def test_columns_asked_for_as_texts_are_not_read_as_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("code,x,?\n007,1,a\n12,?,b\n,3,NA\n", encoding="utf-8")
    table = open_file(tmp_path / "t.csv", ["code", "elsewhere"])
    assert [field.type for field in table.schema] == ["string", "int64", "string"]
    [batch] = table.batches(["code", "?", "x"])
    assert batch.to_pydict() == {
        "code": ["007", "12", None],
        "?": ["a", "b", None],
        "x": [1, None, 3],
    }


def test_a_parquet_file_that_changes_between_passes_is_refused(tmp_path):
    X = matrix()
    folder = write_parquet(tmp_path / "f", X)
    rows = as_rows(folder)
    list(rows.blocks(50))
    write_parquet(tmp_path / "f", X + 1.0)
    os.utime(folder / "000.parquet", (1, 1))  # clocks of some file systems are coarse
    with pytest.raises(ValueError, match=r"X: 000\.parquet has changed since it was opened"):
        list(rows.blocks(50))


def test_a_guessed_separator_is_said(tmp_path):
    path = tmp_path / "units.csv"
    path.write_text("size;kg,price;eur,age;a\n1,2,3\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"separated by ';', which is more frequent in the header"):
        open_table(path)
    path.write_text("size;kg,price;eur\n1;2;3\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"no column 'price'.* most frequent there .*quotes"):
        open_table(path).select(["price"])
