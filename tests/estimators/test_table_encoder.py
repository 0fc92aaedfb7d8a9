"""Tables with text, dates and gaps: the right numbers, and the same from every kind of table."""

import csv
import datetime
import decimal
import io
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

import pursuit
from pursuit import SparseGPRegressor, SparseKernelRidge, TableEncoder, TableError
from pursuit.estimators.table import encoder as encoder_module
from pursuit.estimators.table import learn, read
from pursuit.estimators.table.columns import place
from pursuit.estimators.table.target import folds
from pursuit.rows import EncodedTable
from pursuit.rows.encoded import NumberTable
from pursuit.store import StoreError
from pursuit.testing import check_row_source

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

N = 240


def messy(n: int = N, seed: int = 0) -> pd.DataFrame:
    """A table of texts, as a CSV file holds it."""
    rng = np.random.default_rng(seed)
    days = pd.date_range("2019-03-01", periods=n, freq="99h")
    prices = rng.uniform(10, 5000, n)
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "preis": [f"{v:,.2f} €".translate(str.maketrans(",.", ".,")) for v in prices],
            "share": [f"{v:.1f} %" for v in rng.uniform(0, 100, n)],
            "when": days.strftime("%Y-%m-%d %H:%M:%S"),
            "tag": days.strftime("%d.%m.%Y"),
            "città": rng.choice(["Köln", "Łódź", "São Paulo", None], n),
            "model": rng.choice([f"m{i:02d}" for i in range(60)], n),
            "ok": rng.choice(["yes", "no"], n),
            "wind": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            "rooms": rng.integers(0, 5, n),
            "flag": rng.random(n) < 0.5,
            "fixed": 1.5,
            "empty": np.full(n, np.nan),
            "name": [f"person {i}" for i in range(n)],
        }
    )


def target(table: pd.DataFrame) -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.normal(size=len(table)) + 2.0 * (table["città"] == "Köln").to_numpy()


TABLE = messy()
Y = target(TABLE)


def as_csv(table, folder):
    table.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def as_parquet(table, folder):
    table.to_parquet(folder / "t.parquet", row_group_size=50)
    return str(folder / "t.parquet")


FORMS = {
    "pandas": lambda table, _: table,
    "nullable": lambda table, _: table.convert_dtypes(),
    "pandas of Arrow": lambda table, _: table.convert_dtypes(dtype_backend="pyarrow"),
    "objects": lambda table, _: table.astype(object),
    "texts": lambda table, folder: pd.read_csv(as_csv(table, folder), dtype=str),
    "polars": lambda table, _: pl.from_pandas(table),
    "lazy polars": lambda table, _: pl.from_pandas(table).lazy(),
    "Arrow": lambda table, _: pa.Table.from_pandas(table),
    "Arrow in batches": lambda table, _: pa.Table.from_batches(
        pa.Table.from_pandas(table).to_batches(max_chunksize=37)
    ),
    "CSV": as_csv,
    "Parquet": as_parquet,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_table_gives_the_same_bits(form, tmp_path):
    same = FORMS[form](TABLE, tmp_path)
    first, other = TableEncoder(), TableEncoder()
    expected, found = first.fit_transform(TABLE, Y), other.fit_transform(same, Y)
    assert isinstance(found, EncodedTable)
    assert found.coded.levels == expected.coded.levels
    np.testing.assert_array_equal(np.asarray(found.coded), np.asarray(expected.coded))
    bits = np.asarray(first.transform(TABLE))
    np.testing.assert_array_equal(np.asarray(first.transform(same)), bits)
    np.testing.assert_array_equal(np.asarray(other.transform(TABLE)), bits)
    assert list(other.feature_names_in_) == list(TABLE.columns)


def test_an_array_of_objects_is_a_table_without_names():
    array = TABLE.drop(columns="id").to_numpy(dtype=object)
    encoder = TableEncoder().fit(array, Y)
    assert not hasattr(encoder, "feature_names_in_")
    expected = np.asarray(TableEncoder().fit(TABLE, Y).transform(TABLE))
    np.testing.assert_array_equal(np.asarray(encoder.transform(array)), expected)
    np.testing.assert_array_equal(np.asarray(encoder.transform(array.tolist())), expected)
    with pytest.raises(ValueError, match="X has 12 features, but TableEncoder is expecting 13"):
        encoder.transform(array[:, 1:])


def test_features_are_what_a_reader_would_compute():
    encoder = TableEncoder().fit(TABLE, Y)
    found = encoder.set_output(transform="pandas").transform(TABLE)
    comma = TABLE["preis"].str.removesuffix(" €").str.replace(".", "").str.replace(",", ".")
    when, day = pd.to_datetime(TABLE["when"]), pd.to_datetime(TABLE["tag"], format="%d.%m.%Y")
    expected = {
        "preis": comma.astype(float),
        "share": TABLE["share"].str.removesuffix(" %").astype(float),
        "when": (when - pd.Timestamp(0)) / pd.Timedelta(days=1),
        "tag": (day - pd.Timestamp(0)) / pd.Timedelta(days=1),
        "città=Köln": (TABLE["città"] == "Köln").astype(float),
        "città=(missing)": TABLE["città"].isna().astype(float),
        "ok": (TABLE["ok"] == "yes").astype(float),
        "wind": TABLE["wind"].fillna(TABLE["wind"].median()),
        "wind is missing": TABLE["wind"].isna().astype(float),
        "rooms": TABLE["rooms"].astype(float),
        "flag": TABLE["flag"].astype(float),
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    hours = when.dt.hour + when.dt.minute / 60
    places = {
        "day": hours / 24,
        "week": (when.dt.day_of_week + hours / 24) / 7,
        "year": (when.dt.day_of_year - 1 + hours / 24) / (365 + when.dt.is_leap_year),
    }
    for part, values in places.items():
        np.testing.assert_allclose(
            found[f"when ({part}, sin)"], np.sin(2 * np.pi * values), atol=1e-10
        )
        np.testing.assert_allclose(
            found[f"when ({part}, cos)"], np.cos(2 * np.pi * values), atol=1e-10
        )
    assert list(found.columns) == list(encoder.get_feature_names_out())
    kinds = {column.name: column.kind for column in encoder.columns_}
    dropped = {name for name, kind in kinds.items() if kind == "dropped"}
    assert dropped == {"id", "fixed", "empty", "name"}
    notes = " ".join(encoder.notes_)
    assert "'id' is left out: it counts the rows" in notes
    assert "'preis' is read as numbers with a decimal comma in EUR" in notes
    assert "'tag (day, sin)'" not in str(list(found.columns))


# Streams


@pytest.fixture
def streaming(monkeypatch):
    monkeypatch.setattr(encoder_module, "IN_MEMORY_BYTES", 0)


@pytest.mark.parametrize("form", ["CSV", "Parquet", "Arrow in batches"])
def test_a_stream_gives_the_bits_of_memory(form, tmp_path, monkeypatch):
    monkeypatch.setattr(learn, "SAMPLE_ROWS", 100)
    expected = TableEncoder().fit(TABLE, Y)
    coded = np.asarray(TableEncoder().fit_transform(TABLE, Y).coded)
    monkeypatch.setattr(encoder_module, "IN_MEMORY_BYTES", 0)
    same = FORMS[form](TABLE, tmp_path)
    encoder = TableEncoder()
    crossed = encoder.fit_transform(same, Y)
    assert _plain(encoder.columns_) == _plain(expected.columns_)
    check_row_source(crossed.coded, coded)
    check_row_source(encoder.transform(same), np.asarray(expected.transform(TABLE)))


def _plain(columns):
    """What was learned, whatever the type of what it was learned from."""
    return [(c.name, c.kind, c.fill, c.levels, c.statistics, c.parts, c.lowest) for c in columns]


def test_a_stream_without_categories(streaming):
    table = pa.table({"a": [1.0, None, 3.0], "b": ["1 %", "2 %", "4 %"]})
    found = TableEncoder().fit_transform(table)
    assert isinstance(found, NumberTable)
    assert found.columns == ("a", "a is missing", "b")
    np.testing.assert_array_equal(np.asarray(found), [[1, 0, 1], [2, 1, 2], [3, 0, 4]])


def test_a_stream_warns_once(streaming):
    encoder = TableEncoder().fit(pa.table({"a": [1.0, 2.0], "c": ["x", "y"]}).take([0, 1] * 5))
    new = pa.table({"a": [1.0, None] * 50, "c": ["z", "x"] * 50})
    table = encoder.transform(pa.Table.from_batches(new.to_batches(max_chunksize=7)))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        np.asarray(table)
        np.asarray(table)
    [one] = [str(warning.message) for warning in told]
    assert "50 values of column 'c' did not occur in training ('z')" in one
    assert "'a' (50)" in one


def test_a_sample_gives_the_median_and_all_rows_the_rest(monkeypatch):
    monkeypatch.setattr(learn, "SAMPLE_ROWS", 50)
    values = np.random.default_rng(0).normal(size=1000)
    values[777] = 1e6
    [column] = TableEncoder().fit(values[:, None]).columns_
    chosen = learn.sample_rows(1000)
    assert len(set(chosen)) == 50
    assert column.fill == np.median(values[chosen])
    assert column.highest == 1e6


# Categories


def cities(n_levels: int, n: int = 600, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).choice([f"c{i:03d}" for i in range(n_levels)], n)


def test_statistics_of_the_target_are_those_of_scikit_learn():
    texts, y = cities(50), np.random.default_rng(1).normal(3.0, 2.0, 600)
    table = pd.DataFrame({"c": texts})
    encoder = TableEncoder().fit(table, y)
    expected = TargetEncoder(target_type="continuous").fit(table, y)
    np.testing.assert_allclose(
        encoder.transform(table), expected.transform(table), rtol=1e-12, atol=1e-12
    )
    crossed = TableEncoder().fit_transform(table, y)
    fold = folds(np.arange(600))
    for k in range(5):
        others = TargetEncoder(target_type="continuous").fit(table[fold != k], y[fold != k])
        np.testing.assert_allclose(
            crossed[fold == k], others.transform(table[fold == k]), rtol=1e-12, atol=1e-12
        )
    assert np.bincount(fold).min() > 80


def test_statistics_of_classes():
    texts, y = cities(50), cities(3, seed=1)
    table = pd.DataFrame({"c": texts})
    found = TableEncoder().fit(table, y).set_output(transform="pandas").transform(table)
    assert list(found.columns) == ["c (c000)", "c (c001)", "c (c002)"]
    np.testing.assert_allclose(
        found, TargetEncoder(target_type="multiclass").fit(table, y).transform(table), rtol=1e-12
    )
    two = TableEncoder().fit(table, y == "c001").transform(table)
    np.testing.assert_allclose(two[:, 0], found["c (c001)"], rtol=1e-12)
    outputs = np.column_stack([np.arange(600.0), np.ones(600)])
    assert TableEncoder().fit(table, outputs).transform(table).shape == (600, 2)
    numbers = TableEncoder().fit(table, np.arange(600)).transform(table)
    np.testing.assert_array_equal(
        numbers[:, 0], TableEncoder().fit(table, outputs).transform(table)[:, 0]
    )


def test_rows_of_the_fit_do_not_see_their_own_targets():
    table, y = pd.DataFrame({"c": cities(200)}), np.random.default_rng(1).normal(size=600)
    crossed = TableEncoder().fit_transform(table, y)[:, 0]
    own = TableEncoder().fit(table, y).transform(table)[:, 0]
    assert abs(np.corrcoef(crossed, y)[0, 1]) < 0.15
    assert np.corrcoef(own, y)[0, 1] > 0.5


def test_many_levels_without_a_target_keep_the_most_frequent():
    texts = np.repeat([f"c{i:02d}" for i in range(40)], np.arange(40) + 3)
    encoder = TableEncoder(max_levels=10).fit(pd.DataFrame({"c": texts}))
    [column] = encoder.columns_
    assert column.levels == [f"c{i}" for i in range(31, 40)]
    assert len(column.merged) == 31
    assert column.all_levels[-1] == "(other)"
    codes = np.asarray(encoder.transform(pd.DataFrame({"c": ["c35", "c02"]})).coded)
    assert codes[:, 0].tolist() == [4.0, 9.0]


def test_rare_levels_are_merged():
    texts = ["a"] * 5 + ["b"] * 4 + ["c", "d", "d"]
    table = pd.DataFrame({"c": texts, "x": np.arange(12.0) ** 2})
    encoded = TableEncoder(min_rows=3).fit_transform(table)
    assert encoded.coded.levels == {"c": ["a", "b", "(other)"]}
    assert TableEncoder(min_rows=2).fit_transform(table).coded.levels == {"c": ["a", "b", "c", "d"]}
    with pytest.warns(UserWarning, match=r"1 value of column 'c' did not occur.*'zz'"):
        new = TableEncoder(min_rows=3).fit(table).transform(table[:1].assign(c="zz"))
    assert np.asarray(new).tolist() == [[0, 0, 1, 0]]


def test_ways_to_encode_categories():
    table = pd.DataFrame({"c": cities(4), "d": cities(50, seed=1)})
    y = np.random.default_rng(0).normal(size=600)
    hot = TableEncoder(categories="one-hot", max_levels=5).fit(table, y)
    assert not isinstance(hot.transform(table), EncodedTable)
    codes = TableEncoder(categories="levels", max_levels=5).fit(table, y)
    np.testing.assert_array_equal(hot.transform(table), np.asarray(codes.transform(table)))
    assert list(hot.get_feature_names_out()) == list(codes.get_feature_names_out())
    assert hot.transform(table).shape == (600, 9)
    assert TableEncoder(categories="target").fit_transform(table, y).shape == (600, 2)
    with pytest.raises(ValueError, match='categories="target" needs the target'):
        TableEncoder(categories="target").fit(table)


def test_what_a_table_calls_categories_stays_so():
    values = np.arange(40) % 4
    frame = pd.DataFrame({"c": pd.Categorical(values), "x": np.arange(40) ** 2})
    expected = {"c": ["0", "1", "2", "3"]}
    for same in (frame, pa.Table.from_pandas(frame), pl.from_pandas(frame.astype({"c": str}))):
        if isinstance(same, pl.DataFrame):
            same = same.with_columns(pl.col("c").cast(pl.Categorical))
        encoder = TableEncoder().fit(same)
        assert encoder.transform(same).coded.levels == expected
        # Later they may come as numbers.
        np.testing.assert_array_equal(
            np.asarray(encoder.transform(pd.DataFrame({"c": values, "x": frame["x"]})).coded)[:, 0],
            values,
        )


def test_intervals_that_are_categories_and_other_types():
    numbers = np.arange(40.0)
    frame = pd.DataFrame({"bin": pd.cut(numbers, [-1, 10, 40]), "x": numbers.astype(np.float16)})
    encoded = TableEncoder().fit_transform(frame)
    assert encoded.coded.levels == {"bin": ["(-1, 10]", "(10, 40]"]}
    np.testing.assert_array_equal(np.asarray(encoded.coded), np.c_[numbers > 10, numbers])
    halves = pa.table({"x": pa.array([*frame["x"], None], pa.float16())})
    np.testing.assert_array_equal(TableEncoder().fit_transform(halves)[:-1, 0], numbers)
    truths = pa.table({"x": [True, None, False] * 3, "y": pa.array([1, None, 2] * 3, pa.uint8())})
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(truths)[:3], [[1, 0, 1, 0], [0.5, 1, 1.5, 1], [0, 0, 2, 0]]
    )


def test_texts_of_a_file_stay_texts(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "zip,x\n" + "".join(f"{'01234' if i % 2 else 'A1'},{i * i}\n" for i in range(20)),
        encoding="utf-8",
    )
    encoder = TableEncoder().fit(path)
    path.write_text("zip,x\n01234,1\n01234,2\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.asarray(encoder.transform(path).coded)[:, 0].tolist() == [0.0, 0.0]


def test_models_take_the_table():
    encoded = TableEncoder().fit_transform(TABLE, Y)
    plain = np.asarray(encoded)
    expected = Ridge().fit(plain, Y).predict(plain)
    np.testing.assert_array_equal(Ridge().fit(encoded, Y).predict(encoded), expected)
    model = make_pipeline(TableEncoder(), SparseGPRegressor(n_basis=20, random_state=0))
    assert model.fit(TABLE, Y).score(TABLE, Y) > 0.3
    assert model[-1].categories_ == {"città": ["Köln", "São Paulo", "Łódź", None]}


# What is left out


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("x", np.ones(30), "all its values are equal"),
        ("x", ["a"] * 30, "all its values are equal"),
        ("x", [None] * 30, "it has no values"),
        ("x", [np.nan] * 30, "it has no values"),
        ("x", ["n/a", "-", ""] * 10, "it has no values"),
        ("Unnamed: 0", np.arange(30), "it counts the rows"),
        ("", np.arange(7, 37), "it counts the rows"),
        ("rowId", [str(i) for i in range(30)], "it counts the rows"),
        ("id", np.arange(30) * 7, "an identifier"),
        ("customer_id", np.random.default_rng(0).permutation(30) * 7, "an identifier"),
        ("who", [f"person {i}" for i in range(30)], "nearly all its texts are distinct"),
    ],
)
def test_columns_without_use_are_left_out(name, values, reason):
    y = np.sin(np.arange(30.0))
    encoder = TableEncoder().fit(pd.DataFrame({name: values, "y": y}))
    assert [column.kind for column in encoder.columns_] == ["dropped", "number"]
    assert reason in encoder.columns_[0].reason
    [note] = encoder.notes_
    assert note == f"column {name!r} is left out: {encoder.columns_[0].reason}."
    # It need not be there later.
    assert encoder.transform(pd.DataFrame({"y": y})).shape == (30, 1)


@pytest.mark.parametrize(
    ("n", "levels", "begins"),
    [
        (100, 100, "column 'load' is left out: nearly all its texts are distinct."),
        (400, 40, "column 'load': its 40 levels become statistics of the target."),
        (100, 10, "column 'load': its 10 texts are categories."),
    ],
)
def test_numbers_with_a_unit_are_told(n, levels, begins):
    y = np.sin(np.arange(n))
    loads = [f"{i % levels + 0.25} kg" for i in range(n)]
    encoder = TableEncoder().fit(pd.DataFrame({"load": loads, "z": y}), y)
    [note] = encoder.notes_
    assert note == f"{begins} To have its numbers read, write them without 'kg'."


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("x", np.arange(30)),
        ("width", np.arange(30)),
        ("id", np.arange(30) % 7),
        ("id", np.arange(30) + 0.5),
        ("x", [1.0] * 29 + [np.nan]),
        ("who", ["a", "b", "c"] * 10),
    ],
)
def test_columns_that_may_tell_something_are_kept(name, values):
    table = pd.DataFrame({name: values, "y": np.sin(np.arange(30.0))})
    assert all(column.kind != "dropped" for column in TableEncoder().fit(table).columns_)


@pytest.mark.parametrize("values", [np.ones(5), np.arange(5), [f"n{i}" for i in range(5)]])
def test_the_last_column_is_kept(values):
    table = pd.DataFrame({"id": values, "none": [None] * 5})
    encoder = TableEncoder(min_rows=1).fit(table)
    assert encoder.columns_[0].kind != "dropped"
    assert "column 'id' is kept, since no other is left." in encoder.notes_
    assert np.isfinite(np.asarray(encoder.transform(table))).all()
    with pytest.raises(TableError, match="has no column that can be used") as told:
        TableEncoder().fit(table[["none"]])
    assert told.value.problems == {"none": "it has no values"}


UNUSABLE = {
    "infinite": ([1.0, np.inf, 2.0], "it holds infinity, in 1 of 3 rows"),
    "lists": ([[1], [2], [3]], "values of type list"),
    "bytes": ([b"a", b"b", b"c"], "values of type bytes"),
    "durations": (pd.to_timedelta([1, 2, 3], "s"), "durations"),
    "complex": (np.array([1j, 2, 3]), "complex numbers"),
    "intervals": (pd.interval_range(0, 3), "interval"),
    "dates": (["1/2/2024", "3/4/2024", "5/6/2024"], 'date_format="%d/%m/%Y" or date_format="%m'),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_columns_that_cannot_be_used(kind):
    values, problem = UNUSABLE[kind]
    table = pd.DataFrame({"x": [1.0, 2.0, 4.0], "odd": values})
    with pytest.raises(TableError, match=r'TableEncoder\(unusable="drop"\)') as told:
        TableEncoder().fit(table)
    assert list(told.value.problems) == ["odd"]
    assert problem in told.value.problems["odd"]
    encoder = TableEncoder(unusable="drop").fit(table)
    assert problem in encoder.columns_[1].reason
    assert encoder.notes_ == [f"column 'odd' is left out: {encoder.columns_[1].reason}."]
    np.testing.assert_array_equal(encoder.transform(table), [[1.0], [2.0], [4.0]])


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1.0], [2.0], [3.0]]),
        pa.array([b"a", b"b", b"c"]),
        pa.array([{"a": 1}] * 3),
        pa.array([1, 2, 3], pa.duration("s")),
    ],
)
def test_arrow_types_that_cannot_be_used(array):
    with pytest.raises(TableError, match="values of type") as told:
        TableEncoder().fit(pa.table({"x": [1.0, 2.0, 4.0], "odd": array}))
    assert str(array.type) in told.value.problems["odd"]


def test_a_column_of_numbers_with_a_stray_word():
    texts = [f"{i / 7:.3f}" for i in range(100)]
    table = pd.DataFrame({"x": [*texts, "unknown", "unknown"], "y": np.arange(102.0) ** 2})
    with pytest.raises(TableError, match=r"not in 2 of 102 rows, such as 'unknown': leave these"):
        TableEncoder().fit(table)
    # Few levels are categories, whatever they look like.
    small = TableEncoder().fit(pd.DataFrame({"x": ["1", "2", "3+"] * 10, "y": table["y"][:30]}))
    assert small.columns_[0].levels == ["1", "2", "3+"]


def test_a_date_format():
    table = pd.DataFrame({"d": ["1/2/2024", "3/4/2024", "5/6/2024"]})
    found = TableEncoder(date_format="%m/%d/%Y").fit_transform(table)[:, 0]
    expected = [datetime.date(2024, m, d) for m, d in ((1, 2), (3, 4), (5, 6))]
    assert found.tolist() == [(day - datetime.date(1970, 1, 1)).days for day in expected]
    encoder = TableEncoder(date_format="%m/%d/%Y").fit(pd.DataFrame({"x": [1.0, 2.0]}))
    assert encoder.notes_ == ["no column holds dates written as '%m/%d/%Y'."]


def test_other_columns_decide_what_a_comma_is():
    texts = ["1,234", "2,500", "7"]
    alone = TableEncoder().fit(pd.DataFrame({"x": texts}))
    assert alone.transform(pd.DataFrame({"x": texts}))[:, 0].tolist() == [1234.0, 2500.0, 7.0]
    assert alone.notes_ == ["column 'x': '1,234' is read as 1234."]
    table = pd.DataFrame({"x": texts, "y": ["0,5", "1,25", "3"]})
    both = TableEncoder().fit(table)
    np.testing.assert_array_equal(both.transform(table), [[1.234, 0.5], [2.5, 1.25], [7.0, 3.0]])
    assert "column 'x': '1,234' is read as 1.234 as in other columns." in both.notes_


def test_other_columns_decide_what_a_point_is():
    texts = ["1.234", "-2.500", "999"]
    alone = TableEncoder().fit(pd.DataFrame({"x": texts}))
    assert alone.transform(pd.DataFrame({"x": texts}))[:, 0].tolist() == [1.234, -2.5, 999.0]
    assert alone.notes_ == ["column 'x': '1.234' is read as 1.234."]
    comma = ["0,5", "1,25", "3"]
    for others in (["1.2345", "2.5", "9"], ["0.234", "2.500", "9"], ["1.234", "2.500", "1000"]):
        table = pd.DataFrame({"x": texts, "y": comma, "z": others})
        both = TableEncoder().fit(table)
        numbers = np.c_[[1234.0, -2500.0, 999.0], [0.5, 1.25, 3.0], np.array(others, dtype=float)]
        np.testing.assert_array_equal(both.transform(table), numbers)
        assert "column 'x': '1.234' is read as 1234 as in other columns." in both.notes_


def test_a_file_with_decimal_commas_may_have_points_before_thousands(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "x;y;z;c\n1.234;0,5;0.25;a\n999;1,25;1.5;b\n-2.500;;nan;a\n12;3;2;b\n", encoding="utf-8"
    )
    encoder = TableEncoder(min_rows=1).fit(path)
    numbers = [[1234, 0.5, 0, 0.25, 0], [999, 1.25, 0, 1.5, 0], [-2500, 1.25, 1, 1.5, 1]]
    np.testing.assert_array_equal(np.asarray(encoder.transform(path))[:3, :5], numbers)
    path.write_text("x;y;z;c\n1.234;0,5;0.25;a\n", encoding="utf-8")
    np.testing.assert_array_equal(np.asarray(encoder.transform(path))[:, :5], numbers[:1])


def test_categories_of_long_numbers_are_not_mixed_up():
    ids = np.tile([2**60, 2**60 + 1, 2**60 + 2], 5)
    frame = pd.DataFrame({"id": pd.Categorical(ids), "x": np.arange(15) % 4})
    for table in (frame, pa.Table.from_pandas(frame)):
        encoded = TableEncoder().fit_transform(table)
        assert encoded.coded.levels == {"id": [str(one) for one in ids[:3]]}
        np.testing.assert_array_equal(np.asarray(encoded.coded)[:, 0], np.arange(15) % 3)


def test_numbers_that_are_no_floats():
    values = [decimal.Decimal("sNaN"), decimal.Decimal(1), decimal.Decimal("2.5")] * 2
    encoded = TableEncoder().fit_transform(pd.DataFrame({"x": values}))
    np.testing.assert_array_equal(encoded[:3], [[1.75, 1], [1, 0], [2.5, 0]])
    with pytest.raises(TableError, match="infinity, in 1 of 2 rows"):
        TableEncoder().fit(pd.DataFrame({"x": [-(10**400), 1]}, dtype=object))


def test_types_of_all_kinds():
    table = pd.DataFrame(
        {
            "decimal": [decimal.Decimal("0.1"), None, decimal.Decimal("12.7")],
            "date": [datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 3)],
            "zone": pd.to_datetime(["2024-01-01 12:00", None, "2024-01-03 00:00"]).tz_localize(
                "Europe/Berlin"
            ),
            "period": pd.period_range("2024-01", periods=3, freq="M"),
            "clock": [datetime.time(1, 30), None, datetime.time(2, 0, 36)],
            "big": [2**60 + 1, 2**30 + 1, 4],
        }
    )
    start = datetime.date(1970, 1, 1)
    months = [(datetime.date(2024, m, 1) - start).days for m in (1, 2, 3)]
    day = months[0]
    expected = {
        "decimal": [0.1, 6.4, 12.7],
        "date": [day, day + 1.0, day + 2.0],
        "zone": [day + 11 / 24, day + (11 + 47) / 48, day + 47 / 24],
        "period": months,
        "clock": [1.5, 1.755, 2.01],
        "big": [float(2**60), 2.0**30 + 1, 4.0],
    }
    found = TableEncoder().set_output(transform="pandas").fit_transform(table)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-14, err_msg=name)
    arrow = pa.Table.from_pandas(table.drop(columns="period"))
    again = TableEncoder().set_output(transform="pandas").fit_transform(arrow)
    for name in again.columns:
        np.testing.assert_array_equal(again[name], found[name], err_msg=name)


def test_places_in_periods_are_kept_where_they_vary():
    def parts(times):
        return (
            TableEncoder().fit(pd.DataFrame({"t": times, "x": range(len(times))})).columns_[0].parts
        )

    assert parts(pd.date_range("2020-01-01", periods=100, freq="W-MON")) == []
    assert parts(pd.date_range("2020-01-01", periods=300, freq="W-MON")) == ["year"]
    assert parts(pd.date_range("2020-01-01", periods=20, freq="D")) == ["week"]
    assert parts(pd.date_range("2020-01-01", periods=40, freq="h")) == []
    assert parts(pd.date_range("2020-01-01", periods=60, freq="h")) == ["day"]
    assert parts(pd.to_datetime([f"{year}-05-01" for year in range(1990, 2020)])) == ["week"]


def test_places_go_from_0_to_1():
    days = np.array(["1969-12-31", "2024-12-31", "2023-12-31", "2024-01-01"], dtype="M8[D]")
    values = days.astype(float) + 0.5
    np.testing.assert_allclose(
        place(values, "year"), [364.5 / 365, 365.5 / 366, 364.5 / 365, 0.5 / 366]
    )
    np.testing.assert_allclose(place(values, "week"), [2.5 / 7, 1.5 / 7, 6.5 / 7, 0.5 / 7])
    np.testing.assert_array_equal(place(values, "day"), 0.5)


# Later tables


@pytest.fixture(scope="module")
def fitted():
    return TableEncoder().fit(TABLE, Y)


def test_columns_are_found_by_name(fitted):
    expected = np.asarray(fitted.transform(TABLE))
    shuffled = TABLE[list(TABLE.columns[::-1])].assign(more="x")
    np.testing.assert_array_equal(np.asarray(fitted.transform(shuffled)), expected)
    np.testing.assert_array_equal(np.asarray(fitted.transform(TABLE[7:9])), expected[7:9])
    with pytest.raises(TableError, match=r"no column 'preis' \(did you mean 'Preis'\?\)") as told:
        fitted.transform(TABLE.rename(columns={"preis": "Preis"}))
    assert told.value.problems == {"preis": "it is missing"}
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        found = fitted.transform(TABLE.to_numpy(dtype=object))
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize(
    ("column", "values", "problem"),
    [
        ("wind", "strong", "it holds 'strong', and numbers in training"),
        ("share", "12 €", "it holds '12 €', and numbers in % in training"),
        ("preis", "1,234.50 €", "and numbers with a decimal comma in EUR in training"),
        ("tag", "2.31.2024", "it holds '2.31.2024', and dates, %d.%m.%Y in training"),
        (
            "tag",
            ["2024-01-31", *["31.1.2024"] * (N - 1)],
            "it holds '2024-01-31', and dates, %d.%m",
        ),
        ("when", 3.0, "it holds numbers, and dates"),
        ("rooms", pd.Timestamp("2024-01-01"), "it holds dates, and numbers in training"),
        ("rooms", np.inf, "it holds infinity"),
        ("rooms", [[1]] * N, "it holds values of type list"),
        ("città", [[1]] * N, "it holds values of type list"),
    ],
)
def test_other_types_than_at_the_fit(fitted, column, values, problem):
    with pytest.raises(TableError, match="are not what they were in training") as told:
        fitted.transform(TABLE.assign(**{column: values}))
    assert list(told.value.problems) == [column]
    assert problem in told.value.problems[column]
    assert str(told.value).endswith("or fit again to a table that is written like this one.")


def test_all_columns_to_blame_are_named(fitted):
    with pytest.raises(TableError) as told:
        fitted.transform(TABLE.assign(wind="strong", when="soon"))
    assert set(told.value.problems) == {"wind", "when"}


def test_the_same_values_in_other_types(fitted):
    expected = np.asarray(fitted.transform(TABLE))
    other = TABLE.assign(
        wind=TABLE["wind"].map(lambda v: None if np.isnan(v) else repr(v)),
        rooms=TABLE["rooms"].map(str),
        ok=TABLE["ok"] == "yes",
        flag=TABLE["flag"].map({True: "Ja", False: "Nein"}),
        share=TABLE["share"].str.removesuffix(" %").astype(float),
        when=pd.to_datetime(TABLE["when"]),
        tag=pd.to_datetime(TABLE["tag"], format="%d.%m.%Y").dt.date,
        model=pd.Categorical(TABLE["model"]),
    )
    np.testing.assert_array_equal(np.asarray(fitted.transform(other)), expected)


def test_new_gaps_and_levels_are_told_in_one_warning(fitted):
    new = TABLE.copy()
    new["rooms"] = [None] * 3 + TABLE["rooms"].tolist()[3:]
    new.loc[:4, "città"] = "Roma"
    new.loc[:1, "model"] = None
    with pytest.warns(UserWarning, match="did not occur in training") as told:
        found = fitted.transform(new)
    [one] = [str(warning.message) for warning in told]
    assert "5 values of column 'città' did not occur in training ('Roma')" in one
    assert "'rooms' (3)" in one
    assert "'model' (2)" in one
    coded = dict(zip(found.coded.columns, np.asarray(found.coded).T, strict=True))
    assert coded["città"][:5].tolist() == [4.0] * 5
    assert coded["rooms"][:3].tolist() == [TABLE["rooms"].median()] * 3
    np.testing.assert_allclose(coded["model (target)"][:2], Y.mean())
    assert told[0].filename == __file__


def test_gaps_that_the_fit_has_seen_are_no_surprise(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.transform(TABLE.assign(wind=np.nan, **{"città": None}))


@pytest.mark.parametrize("table", [pd.DataFrame({"a": []}), pa.table({"a": pa.array([], "f8")})])
def test_no_rows(table):
    with pytest.raises(TableError, match="holds no rows"):
        TableEncoder().fit(table)


def test_things_that_are_no_tables(tmp_path):
    with pytest.raises(TableError, match="a table cannot be made of str"):
        TableEncoder().fit("hello")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        TableEncoder().fit(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="Expected 2D array"):
        TableEncoder().fit(np.arange(3.0))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TableEncoder().fit(TABLE, Y[1:])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"categories": "hash"}, "categories must be one of"),
        ({"unusable": "ignore"}, "unusable must be one of"),
        ({"max_levels": 1}, "max_levels must be a whole number from 2, got 1"),
        ({"min_rows": 0.5}, "min_rows must be a whole number from 1"),
        ({"date_format": 3}, "date_format must be a text or None"),
    ],
)
def test_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        TableEncoder(**parameters).fit(TABLE)


def test_targets_of_statistics_must_be_finite():
    with pytest.raises(ValueError, match="Input y contains NaN"):
        TableEncoder().fit(TABLE, np.where(np.arange(N) == 3, np.nan, Y))


def test_names_that_collide():
    table = pd.DataFrame(
        [[float(i * i), "b" if i % 2 else "(missing)", None if i % 3 else "b"] for i in range(12)],
        columns=["c=b", "c", "c"],
    )
    encoded = TableEncoder(min_rows=1).fit_transform(table)
    assert len(set(encoded.columns)) == len(encoded.columns) == 5
    assert encoded.coded.columns == ("c=b", "c", "c.1")


def test_frames_whose_labels_are_numbers():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(5, 2)))
    encoder = TableEncoder().fit(table)
    assert not hasattr(encoder, "feature_names_in_")
    np.testing.assert_array_equal(encoder.transform(table), table)
    np.testing.assert_array_equal(encoder.transform(table[[1, 0]]), table)
    np.testing.assert_array_equal(encoder.transform(table.set_axis(["a", "b"], axis=1)), table)
    pairs = table.set_axis(pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]), axis=1)
    encoder.fit(pairs)
    np.testing.assert_array_equal(encoder.transform(pairs.iloc[:, ::-1]), table)


def test_what_is_masked_is_a_gap():
    numbers = np.random.default_rng(0).integers(0, 9, size=(40, 2))
    masked = np.ma.MaskedArray(numbers, numbers > 6)
    gaps = np.where(numbers > 6, np.nan, numbers)
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(masked), TableEncoder().fit_transform(gaps)
    )


def test_a_fit_that_fails_leaves_nothing_behind():
    encoder = TableEncoder().fit(TABLE)
    with pytest.raises(TableError):
        encoder.fit(pd.DataFrame({"a": [[1], [2]], "b": [1, 2]}))
    with pytest.raises(NotFittedError):
        encoder.transform(TABLE)
    with pytest.raises(TableError, match="the data frame has no columns"):
        encoder.fit(pd.DataFrame(index=range(5)))


def test_pandas_and_arrays_do_not_need_pyarrow(monkeypatch):
    def missing(*_):
        raise AssertionError("pyarrow is asked for")

    monkeypatch.setattr(read, "require_pyarrow", missing)
    TableEncoder().fit_transform(TABLE, Y)
    TableEncoder().fit_transform(TABLE.to_numpy(dtype=object), Y)


# Files, copies, scikit-learn


def test_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "encoder.pursuit")
    loaded = pursuit.load(tmp_path / "encoder.pursuit")
    assert loaded.columns_ == fitted.columns_
    assert loaded.notes_ == fitted.notes_
    expected = np.asarray(fitted.transform(TABLE))
    np.testing.assert_array_equal(np.asarray(loaded.transform(TABLE)), expected)
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(np.asarray(copied.transform(TABLE)), expected)
    assert not hasattr(clone(fitted), "columns_")


@pytest.mark.parametrize(
    "change",
    [
        {"statistics": [[0.0]]},
        {"statistics": [[float("inf")] * (len(set(TABLE["model"])) + 1)]},
        {"parts": ["century"]},
        {"fill": float("nan")},
        {"encoding": "target"},
        {"name": "other"},
        {"kind": "dropped"},
    ],
)
def test_forged_columns_are_refused(change, tmp_path):
    encoder = TableEncoder().fit(pd.DataFrame({"model": TABLE["model"]}), Y)
    encoder.save(tmp_path / "e.pursuit")
    pursuit.load(tmp_path / "e.pursuit")
    [column] = encoder.columns_
    if "encoding" in change or "parts" in change or "fill" in change:
        encoder = TableEncoder().fit(pd.DataFrame({"model": np.arange(5.0)}))
        [column] = encoder.columns_
    for name, value in change.items():
        object.__setattr__(column, name, value)
    encoder.save(tmp_path / "e.pursuit")
    with pytest.raises(StoreError, match="damaged"):
        pursuit.load(tmp_path / "e.pursuit")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_gives_plain_numbers(fitted, library):
    found = clone(fitted).set_output(transform=library).fit(TABLE, Y).transform(TABLE)
    assert type(found).__module__.partition(".")[0] == library
    assert list(found.columns) == list(fitted.get_feature_names_out())
    np.testing.assert_array_equal(found.to_numpy(), np.asarray(fitted.transform(TABLE)))


@parametrize_with_checks([TableEncoder(), TableEncoder(categories="one-hot", unusable="drop")])
def test_sklearn(estimator, check):
    check(estimator)


# Messages of estimators


def test_estimators_name_the_columns_and_the_encoder(tmp_path):
    table = TABLE[["rooms", "città", "ok"]]
    named = r"'città', 'ok'.*TableEncoder"
    with pytest.raises(ValueError, match=named):
        SparseKernelRidge().fit(table, Y)
    with pytest.raises(ValueError, match=named):
        pursuit.HullRegressor("features").fit(table, Y)
    table.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=r"'città \(string\)', 'ok \(string\)'.*TableEncoder"):
        SparseGPRegressor().fit(tmp_path / "t.csv", target="y")
    with pytest.raises(ValueError, match=r"'when'.*TableEncoder"):
        SparseGPRegressor().fit(pd.DataFrame({"when": pd.to_datetime(TABLE["when"])}), Y)


@pytest.mark.parametrize("form", ["pandas", "nullable", "polars"])
def test_estimators_count_gaps_and_name_the_encoder(form, tmp_path):
    table = FORMS[form](TABLE[["wind", "rooms"]], tmp_path)
    count = int(TABLE["wind"].isna().sum())
    message = rf"Input X contains NaN: values are missing in columns 'wind' \({count}\).*TableEnc"
    for model in (SparseGPRegressor(), pursuit.HullRegressor("features")):
        with pytest.raises(ValueError, match=message):
            model.fit(table, Y)


def test_a_file_of_one_column_and_a_mark(tmp_path):
    buffer = io.BytesIO()
    pd.DataFrame({"größe": ["1,5", "2,5", "4"]}).to_csv(buffer, index=False, encoding="utf-8-sig")
    (tmp_path / "t.csv").write_bytes(buffer.getvalue())
    encoder = TableEncoder().fit(tmp_path / "t.csv")
    assert list(encoder.get_feature_names_out()) == ["größe"]
    assert encoder.transform(tmp_path / "t.csv")[:, 0].tolist() == [1.5, 2.5, 4.0]


words = st.one_of(
    st.sampled_from(
        ["", "NA", "n/a", "-", "?", "None", "yes", "no", "true", "False", "inf", "nan"]
    ),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(repr),
    st.sampled_from(
        ["007", "1e3", "1E-3", "+5", ".5", "5.", "1,5", "1,234", "1 000", "0x10", "1_0"]
    ),
    st.sampled_from(["12 %", "€ 3", "3 €", "(4)", "−7", "1.234,5", "1'000", " 5", "5 ", "5\t"]),
    st.dates(datetime.date(1600, 1, 1), datetime.date(2400, 1, 1)).map(str),
    st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)).map(str),
    st.sampled_from(["2024-02-29T01:02:03Z", "2024-02-29 01:02", "2024-02-29 01:02:03+01:00"]),
    st.sampled_from(["31.1.2024", "1/2/2024", "12:30", "12:30:15", "24:00", "23:59:59.5"]),
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=5),
)


@st.composite
def texts_of_a_column(draw, n):
    """Texts of few different kinds, as a column has them."""
    pool = draw(st.lists(words, min_size=1, max_size=4))
    kinds = (
        st.one_of(st.sampled_from(pool), words) if draw(st.booleans()) else st.sampled_from(pool)
    )
    return draw(st.lists(kinds, min_size=n, max_size=n))


@given(data=st.data())
def test_a_file_is_read_as_its_texts_are(data, tmp_path_factory):
    n = data.draw(st.integers(2, 12))
    columns = data.draw(st.lists(texts_of_a_column(n), min_size=1, max_size=3))
    table = pd.DataFrame({f"c {j}": column for j, column in enumerate(columns)}, dtype=object)
    path = tmp_path_factory.mktemp("texts") / "t.csv"
    table.to_csv(path, index=False, quoting=csv.QUOTE_ALL, lineterminator="\n")
    found = []
    for same in (path, table):
        encoder = TableEncoder(min_rows=1, unusable="drop")
        try:
            encoder.fit(same)
        except TableError as error:
            found.append((error.problems, None))
        else:
            bits = [np.asarray(encoder.transform(other)).tolist() for other in (path, table)]
            assert bits[0] == bits[1]
            found.append((_plain(encoder.columns_), bits[0]))
    assert found[0] == found[1]
