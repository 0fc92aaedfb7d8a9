"""Columns that may have gaps, of pandas, Arrow and polars: the numbers of plain columns."""

import datetime
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import is_classifier

import pursuit

N = 40
RNG = np.random.default_rng(0)
A, B = RNG.integers(-3, 4, N), RNG.standard_normal(N)
C = RNG.random(N) < 0.5
TEXT = np.where(RNG.random(N) < 0.5, "x", "y").astype(object)
PLAIN = pd.DataFrame({"a": A, "b": B, "c": C})
Y = B + 0.5 * (A > 0) + 0.1 * RNG.standard_normal(N)
GAPS = {"a": [0, 1, 2], "c": [5, 7]}


def typed(a, b, c):
    return PLAIN.astype({"a": a, "b": b, "c": c})


FRAMES = {
    "nullable": typed("Int64", "Float64", "boolean"),
    "Arrow": typed("int64[pyarrow]", "double[pyarrow]", "bool[pyarrow]"),
    "short": typed("Int8", "Float64", "boolean"),
    "short Arrow": typed("int16[pyarrow]", "double[pyarrow]", "bool[pyarrow]"),
    "polars": pl.DataFrame({"a": A, "b": B, "c": C}),
    "short polars": pl.DataFrame({"a": A.astype(np.int8), "b": B, "c": C}),
}


def with_gaps(frame):
    if isinstance(frame, pl.DataFrame):
        row = pl.int_range(pl.len())
        return frame.with_columns(
            pl.when(row.is_in(rows)).then(None).otherwise(pl.col(name)).alias(name)
            for name, rows in GAPS.items()
        )
    frame = frame.copy()
    for name, rows in GAPS.items():
        frame.loc[rows, name] = pd.NA
    return frame


NAMES = [
    name
    for name in pursuit.__all__
    if hasattr(getattr(pursuit.estimators, name, None), "fit") and not name.startswith("Table")
]


def made(name):
    """A small estimator."""
    kind = getattr(pursuit, name)
    small = {"n_basis": 8, "n_components": 3, "n_terms": 3, "random_state": 0}
    if name == "SparseKernelGLM":
        small["loss"] = "huber"
    return kind(**{p: value for p, value in small.items() if p in kind().get_params()})


def fitted(name, X):
    model = made(name)
    y = Y > 0 if is_classifier(model) else Y
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "a component has shrunk")
        return model.fit(X, y[:, None] if name == "SparseKernelCCA" else y)


def values(model, X):
    for method in ("decision_function", "score_samples", "predict", "transform"):
        if hasattr(model, method):
            found = getattr(model, method)(X)
            return found.toarray() if hasattr(found, "toarray") else found
    raise AssertionError(f"{type(model).__name__} has no method of rows")


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_takes_every_type(name):
    reference, model = fitted(name, PLAIN), fitted(name, FRAMES["nullable"])
    expected = values(reference, PLAIN)
    for frame in FRAMES.values():
        np.testing.assert_array_equal(values(model, frame), expected)
    with_another_value = FRAMES["nullable"].assign(b=B + 1.0)
    assert not np.array_equal(values(model, with_another_value), expected)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("name", ["SparseGPRegressor", "HullBoostClassifier", "GreedyFeatureMap"])
def test_fits_do_not_depend_on_the_type(name, kind):
    expected = values(fitted(name, PLAIN), PLAIN)
    np.testing.assert_array_equal(values(fitted(name, FRAMES[kind]), PLAIN), expected)


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_names_and_counts_gaps(name):
    plain = PLAIN.astype({"a": float, "c": object})
    plain.loc[GAPS["a"], "a"] = np.nan
    plain.loc[GAPS["c"], "c"] = None
    message = "Input X contains NaN: values are missing in columns 'a' (3), 'c' (2)."
    model = fitted(name, PLAIN)
    for frame in (plain, *map(with_gaps, FRAMES.values())):
        with pytest.raises(ValueError, match=re.escape(message)) as error:
            values(model, frame)
        assert "TableEncoder" in str(error.value)
    for frame in (plain, with_gaps(FRAMES["Arrow"])):
        with pytest.raises(ValueError, match=re.escape(message)):
            fitted(name, frame)


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_not_those_of_the_fit_are_told_before_the_gaps_they_make(name):
    model = fitted(name, PLAIN)
    with pytest.raises(ValueError, match="feature names should match"):
        values(model, PLAIN.reindex(columns=["a", "b", "z"]))


@pytest.mark.parametrize("name", NAMES)
def test_gaps_of_arrays_are_counted_by_position(name):
    X = PLAIN.to_numpy(dtype=float)
    X[:3, 2] = np.nan
    with pytest.raises(ValueError, match=r"values are missing in columns 2 \(3\).*TableEncoder"):
        fitted(name, X)


def test_a_kernel_matrix_has_no_columns_to_encode():
    K = np.eye(N)
    K[3, 3] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN") as error:
        pursuit.SparseKernelRidge("precomputed").fit(K, Y)
    assert "TableEncoder" not in str(error.value)


def test_gaps_of_arrow_tables():
    table = pa.table({"a": pa.array([None, *A[1:].tolist()]), "b": B})
    with pytest.raises(ValueError, match=r"NaN: column 'a' of the Arrow table.*TableEncoder"):
        pursuit.SparseGPRegressor().fit(table, Y)


TEXTS = {
    "string": pd.array(TEXT, dtype="string"),
    "string Arrow": pd.array(TEXT, dtype="string[pyarrow]"),
    "Arrow": pd.array(TEXT, dtype=pd.ArrowDtype(pa.string())),
    "large Arrow": pd.array(TEXT, dtype=pd.ArrowDtype(pa.large_string())),
    "dictionary": pd.Series(TEXT).astype(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
    "category": pd.Categorical(TEXT),
    "polars": pl.Series(TEXT.tolist()),
    "polars categories": pl.Series(TEXT.tolist(), dtype=pl.Categorical),
    "polars enum": pl.Series(TEXT.tolist(), dtype=pl.Enum(["x", "y"])),
}


@pytest.fixture(scope="module")
def of_objects():
    """Predictions of a model of plain texts."""
    plain = pd.DataFrame({"b": B, "t": TEXT})
    return made("SparseGPRegressor").fit(plain, Y).predict(plain)


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_are_levels_whatever_their_type(kind, of_objects):
    base = pl.DataFrame if "polars" in kind else pd.DataFrame
    frame = base({"b": B, "t": TEXTS[kind]})
    model = made("SparseGPRegressor").fit(frame, Y)
    assert model.categories_ == {"t": ["x", "y"]}
    np.testing.assert_array_equal(model.predict(frame), of_objects)
    with pytest.raises(ValueError, match=r"hold text or categories: 't'.*TableEncoder"):
        made("HullRegressor").fit(frame, Y)


def test_the_kernel_advised_for_text_is_whole_or_left_out():
    ridge, y = pursuit.SparseKernelRidge(), np.arange(4.0)
    table = pd.DataFrame({name: list("aabb") for name in "abcdef"})
    with pytest.raises(ValueError, match=r"Categorical\(\['a', 'b', 'c', 'd', 'e'\]\), or let "):
        ridge.fit(table.drop(columns="f"), y)
    with pytest.raises(ValueError, match=r"'e' and 1 more\. Let pursuit\.TableEncoder"):
        ridge.fit(table, y)


DAYS = pd.date_range("2020-01-01", periods=N)
TIMES = {
    "timestamp": DAYS.astype("timestamp[ns][pyarrow]"),
    "date": pd.array(DAYS.date, dtype=pd.ArrowDtype(pa.date32())),
    "duration": pd.array(DAYS - DAYS[0], dtype="duration[ns][pyarrow]"),
    "objects": DAYS.date,
    "polars": pl.Series([datetime.datetime(2020, 1, 1)] * N),
}


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("name", ["SparseGPRegressor", "HullRegressor"])
def test_times_are_refused_whatever_their_type(name, kind):
    frame = (pl.DataFrame if kind == "polars" else pd.DataFrame)({"b": B, "t": TIMES[kind]})
    with pytest.raises(ValueError, match=r"hold dates or times: 't'.*TableEncoder"):
        fitted(name, frame)


TARGETS = {
    "Float64": pd.Series(Y, dtype="Float64"),
    "Arrow": pd.Series(Y, dtype="double[pyarrow]"),
    "polars": pl.Series(Y),
    "Arrow array": pa.array(Y),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_targets_and_weights(kind):
    weights = type(TARGETS[kind])
    expected = made("SparseKernelRidge").fit(PLAIN, Y, Y**2).predict(PLAIN)
    given = pa.array(Y**2) if weights is pa.DoubleArray else weights(Y**2)
    model = made("SparseKernelRidge").fit(PLAIN, TARGETS[kind], given)
    np.testing.assert_array_equal(model.predict(PLAIN), expected)


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(A, dtype="Int64"),
        pd.Series(Y, dtype="Float64"),
        pd.Series(Y, dtype="double[pyarrow]"),
        pl.Series(Y),
    ],
    ids=["Int64", "Float64", "Arrow", "polars"],
)
def test_missing_targets_are_refused(y):
    y = y.clone() if isinstance(y, pl.Series) else y.copy()
    y[0] = None
    for name in ("SparseGPRegressor", "HullRegressor"):
        with pytest.raises(ValueError, match="Input y contains NaN"):
            made(name).fit(PLAIN, y)


LABELS = {
    "string": (pd.Series(TEXT, dtype="string"), "O"),
    "Arrow": (pd.Series(TEXT, dtype="string[pyarrow]"), "O"),
    "dictionary": (TEXTS["dictionary"], "O"),
    "boolean": (pd.Series(C, dtype="boolean"), "b"),
    "boolean Arrow": (pd.Series(C, dtype="bool[pyarrow]"), "b"),
    "Int64": (pd.Series(A % 3, dtype="Int64"), "i"),
    "polars": (pl.Series(TEXT.tolist()), "O"),
    "polars booleans": (pl.Series(C.tolist()), "b"),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize(
    "name", ["SparseGPClassifier", "HullBoostClassifier", "LowRankSVC", "LPMachineClassifier"]
)
def test_labels_keep_their_type(name, kind):
    y, letter = LABELS[kind]
    model = made(name).fit(PLAIN, y)
    plain = np.asarray(y.to_numpy())
    assert model.classes_.dtype.kind == model.predict(PLAIN).dtype.kind == letter
    assert model.classes_.tolist() == sorted(set(plain.tolist()))
    assert model.score(PLAIN, y) == np.mean(model.predict(PLAIN) == plain)
    y = y.clone() if isinstance(y, pl.Series) else y.copy()
    y[0] = None
    with pytest.raises(ValueError, match="Input y contains NaN"):
        made(name).fit(PLAIN, y)
