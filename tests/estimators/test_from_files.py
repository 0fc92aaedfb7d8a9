"""Estimators fitted to files: the model of the same rows in memory, whatever the rows lie in."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from pursuit import (
    ExactGPRegressor,
    FullScaleGPRegressor,
    GreedyFeatureMap,
    HullBoostClassifier,
    HullMixture,
    HullRegressor,
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
    LowRankSVC,
    LowRankSVR,
    LPMachineClassifier,
    LPMachineRegressor,
    Search,
    SpanNeighbors,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelCCA,
    SparseKernelPCA,
    SparseKernelRidge,
    open_table,
    pairwise,
)
from pursuit.estimators import inputs as sources
from pursuit.rows import ArrayRows, ListRows

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")

M = 3000
FEATURES = ["size", "age", "height"]


def frame(m=M, seed=0):
    """Rows with three features, a target, labels, and weights of which some are zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(m)
    columns = {"y": y, **dict(zip(FEATURES, X.T, strict=True))}
    columns["label"] = np.where(y > 1, "high", "low")
    columns["w"] = rng.integers(0, 3, m).astype(float)
    return pd.DataFrame(columns)


def rows(data, columns=FEATURES):
    """Columns, row by row in memory; a data frame holds them otherwise, which rounds otherwise."""
    return np.ascontiguousarray(data[columns].to_numpy())


def written(folder, data):
    """Parquet in two files with odd row groups."""
    folder.mkdir(exist_ok=True)
    table = pa.Table.from_pandas(data, preserve_index=False)
    cut = len(data) // 3
    pq.write_table(table.slice(0, cut), folder / "1.parquet", row_group_size=377)
    pq.write_table(table.slice(cut), folder / "2.parquet", row_group_size=1013)
    return folder


@pytest.fixture(autouse=True)
def quick_learning(monkeypatch):
    """Few rows are enough to see that they are the same ones."""
    monkeypatch.setattr("pursuit.limits.EVIDENCE_ROWS", 150)


@pytest.fixture
def streamed(monkeypatch):
    """Tables are never read into memory, however small."""
    monkeypatch.setattr(sources, "SMALL_BYTES", -1)


GIVEN = {"kernel": RBF(1.0), "noise": 0.01, "optimizer": None}


REGRESSORS = {
    "SparseGPRegressor": lambda: SparseGPRegressor(n_basis=30, random_state=0),
    "SparseGPRegressor given": lambda: SparseGPRegressor(**GIVEN, n_basis=30, random_state=0),
    "SparseGPRegressor fresh": lambda: SparseGPRegressor(
        **GIVEN, n_basis=8, search="fresh", random_state=0
    ),
    "SparseKernelRidge greedy": lambda: SparseKernelRidge(n_basis=8, random_state=0),
    "SparseKernelRidge kappa": lambda: SparseKernelRidge(method="kappa", n_basis=8, random_state=0),
    "SparseKernelRidge random": lambda: SparseKernelRidge(
        method="random", n_basis=20, certificate="hybrid", random_state=0
    ),
    "KernelMatchingPursuitRegressor": lambda: KernelMatchingPursuitRegressor(
        n_basis=8, random_state=0
    ),
    "HullRegressor": lambda: HullRegressor(radius=5.0, n_terms=8, random_state=0),
    "HullRegressor features": lambda: HullRegressor(
        "features", radius=5.0, n_terms=3, random_state=0
    ),
    "HullRegressor cv": lambda: HullRegressor(n_terms=8, random_state=0),
    "LowRankSVR": lambda: LowRankSVR(n_basis=20, random_state=0),
    "LPMachineRegressor": lambda: LPMachineRegressor(n_basis=8, random_state=0),
    "FullScaleGPRegressor": lambda: FullScaleGPRegressor(
        **GIVEN, n_basis=20, n_neighbors=6, random_state=0
    ),
    "ExactGPRegressor": lambda: ExactGPRegressor("rbf", noise=0.1, random_state=0),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_fit_the_same_model(name, tmp_path, streamed):
    data = frame()
    path = written(tmp_path / "data", data.drop(columns="label"))
    memory = REGRESSORS[name]().fit(rows(data), data["y"], data["w"])
    file = REGRESSORS[name]().fit(path, target="y", weight="w")
    assert list(file.feature_names_in_) == FEATURES
    assert file.n_features_in_ == 3
    if hasattr(memory, "basis_indices_"):
        assert np.array_equal(file.basis_indices_, memory.basis_indices_)
    if name == "ExactGPRegressor":  # which passes over the training rows in other blocks
        assert np.allclose(file.predict(path), memory.predict(rows(data)), rtol=1e-10)
    elif name == "FullScaleGPRegressor":  # which holds rows of a large file as float32
        assert np.allclose(file.predict(path), memory.predict(rows(data)), rtol=0, atol=1e-5)
        assert np.array_equal(file.global_.predict(path), memory.global_.predict(rows(data)))
    else:
        assert np.array_equal(file.predict(path), memory.predict(rows(data)))


MAPS = {
    "GreedyFeatureMap": lambda: GreedyFeatureMap(n_components=10, random_state=0),
    "SparseKernelPCA": lambda: SparseKernelPCA(n_basis=10, random_state=0),
    "SpanNeighbors": lambda: SpanNeighbors(n_components=10, random_state=0),
}


@pytest.mark.parametrize("name", MAPS)
def test_maps_fit_the_same_map(name, tmp_path, streamed):
    data = frame(1500)[["y", *FEATURES]]
    path = written(tmp_path / "data", data)
    memory = MAPS[name]().fit(rows(data))
    file = MAPS[name]().fit(path, target="y")
    assert list(file.feature_names_in_) == FEATURES
    got, expected = file.transform(path), memory.transform(rows(data))
    if name == "SpanNeighbors":
        got, expected = got.toarray(), expected.toarray()
    assert np.array_equal(got, expected)


def test_mixtures_fit_the_same_density(tmp_path):
    data = frame(300)[[*FEATURES, "w"]]
    path = written(tmp_path / "data", data)
    memory = HullMixture(n_terms=3, random_state=0).fit(rows(data), None, data["w"])
    file = HullMixture(n_terms=3, random_state=0).fit(path, weight="w")
    assert np.array_equal(file.score_samples(path), memory.score_samples(rows(data)))
    assert list(file.feature_names_in_) == FEATURES


@pytest.mark.parametrize(
    "make",
    [
        lambda: KernelMatchingPursuitClassifier(n_basis=8, random_state=0),
        lambda: HullBoostClassifier(n_terms=5, random_state=0),
        lambda: LowRankSVC(n_basis=20, random_state=0),
        lambda: SparseGPClassifier(RBF(1.0), n_basis=20, optimizer=None, random_state=0),
        lambda: LPMachineClassifier(n_basis=8, random_state=0),
    ],
)
def test_classifiers_take_labels_of_any_kind(make, tmp_path, streamed):
    data = frame(600).drop(columns="y")
    path = written(tmp_path / "data", data)
    memory = make().fit(rows(data), data["label"], data["w"])
    file = make().fit(path, target="label", weight="w")
    assert file.classes_.tolist() == ["high", "low"]
    assert np.array_equal(file.predict(path), memory.predict(rows(data)))


def test_both_views_of_a_cca(tmp_path, streamed):
    data = frame(500)
    X, Y = rows(data, ["size", "age"]), rows(data, ["height", "y"])
    memory = SparseKernelCCA(n_basis=10, random_state=0).fit(X, Y)
    left = written(tmp_path / "left", data[["size", "age"]])
    right = written(tmp_path / "right", data[["height", "y"]])
    two = SparseKernelCCA(n_basis=10, random_state=0).fit(left, right)
    assert np.array_equal(two.basis_indices_, memory.basis_indices_)
    for got, expected in zip(two.transform(left, right), memory.transform(X, Y), strict=True):
        assert np.array_equal(got, expected)
    both = written(tmp_path / "both", data[["size", "age", "height", "y"]])
    one = SparseKernelCCA(n_basis=10, random_state=0).fit(both, target=["height", "y"])
    assert np.array_equal(one.transform(both), memory.transform(X))


def lazy(data):
    polars = pytest.importorskip("polars")
    return polars.from_pandas(data).lazy().filter(polars.col("w") >= 0)


def relation(data):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("rows", data)
    return connection.sql("select * from rows")


def text(folder, data):
    # Shortest digits that give the number back, as Python writes them.
    data.to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


SOURCES = {
    "parquet": lambda folder, data: written(folder / "data", data),
    "csv": text,
    "arrow table": lambda folder, data: pa.Table.from_pandas(data, preserve_index=False),
    "arrow stream": lambda folder, data: pa.Table.from_pandas(data, preserve_index=False).to_reader(
        max_chunksize=500
    ),
    "polars lazy frame": lambda folder, data: lazy(data),
    "polars data frame": lambda folder, data: lazy(data).collect(),
    "duckdb relation": lambda folder, data: relation(data),
    "pandas": lambda folder, data: data,
    "table": lambda folder, data: open_table(written(folder / "data", data)).select(
        ["w", *FEATURES, "y"]
    ),
}


@pytest.fixture(scope="module")
def in_memory():
    """Rows, and a model of them."""
    data = frame(2500).drop(columns="label")
    memory = SparseGPRegressor(**GIVEN, n_basis=20, random_state=0)
    return data, memory.fit(rows(data), data["y"], data["w"])


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_model(kind, held, in_memory, tmp_path, monkeypatch):
    if not held:
        monkeypatch.setattr(sources, "SMALL_BYTES", -1)
    data, memory = in_memory
    file = clone(memory).fit(SOURCES[kind](tmp_path, data), target="y", weight="w")
    assert np.array_equal(file.basis_, memory.basis_)
    rest = pa.Table.from_pandas(data[FEATURES], preserve_index=False)
    assert np.array_equal(file.predict(rest), memory.predict(rows(data)))


def test_numpy_files_and_memory_maps(tmp_path, streamed):
    data = frame(2500)
    X, y = rows(data), data["y"].to_numpy()
    np.save(tmp_path / "X.npy", X)
    memory = SparseGPRegressor(**GIVEN, n_basis=20, random_state=0).fit(X, y)
    for source in (tmp_path / "X.npy", str(tmp_path / "X.npy"), np.load(tmp_path / "X.npy", "r")):
        file = clone(memory).fit(source, y)
        assert not hasattr(file, "feature_names_in_")
        assert np.array_equal(file.basis_indices_, memory.basis_indices_)
        assert np.array_equal(file.predict(source), memory.predict(X))


def test_float32_columns_give_the_model_of_float32_rows(tmp_path, streamed):
    data = frame(2500)[["y", *FEATURES]].astype(np.float32)
    memory = SparseGPRegressor(**GIVEN, n_basis=20, random_state=0)
    memory.fit(rows(data), data["y"])
    file = clone(memory).fit(written(tmp_path / "data", data), target="y")
    assert file.basis_.dtype == np.float32
    # Predictions of files are float64, those of float32 rows the same numbers rounded.
    predicted = file.predict(tmp_path / "data")
    assert predicted.dtype == np.float64
    assert np.array_equal(predicted.astype(np.float32), memory.predict(rows(data)))


def test_a_kernel_matrix_in_a_file(tmp_path):
    data = frame(200)
    X, y = rows(data), data["y"].to_numpy()
    K = RBF(1.0)(X)
    np.save(tmp_path / "K.npy", K)
    model = SparseGPRegressor("precomputed", noise=0.1, n_basis=20, random_state=0)
    memory, file = clone(model).fit(K, y), clone(model).fit(tmp_path / "K.npy", y)
    assert np.array_equal(file.predict(tmp_path / "K.npy"), memory.predict(K))


def test_several_targets(tmp_path, streamed):
    data = frame(2500)[["y", *FEATURES]]
    memory = SparseGPRegressor(**GIVEN, n_basis=20, random_state=0)
    memory.fit(rows(data, ["size", "age"]), rows(data, ["height", "y"]))
    path = written(tmp_path / "data", data)
    file = clone(memory).fit(path, target=["height", "y"])
    assert file.predict(path).shape == (2500, 2)
    assert np.array_equal(file.predict(path), memory.predict(rows(data, ["size", "age"])))
    one = clone(memory).fit(path, target=["y"])
    assert one.predict(path).shape == (2500,)


def test_what_a_fitted_model_does_with_its_rows_it_does_from_a_file(tmp_path, streamed):
    data = frame(2500).drop(columns="label")
    path, X = written(tmp_path / "data", data), rows(data)
    memory = SparseGPRegressor(**GIVEN, n_basis=20, random_state=0).fit(X, data["y"], data["w"])
    file = clone(memory).fit(path, target="y", weight="w")
    known, stored = (X, data["y"], data["w"]), (path, data["y"], data["w"])
    for kind in ("published", "hybrid", "grouped", "two-level"):
        expected = memory.certify(*known, kind=kind)
        got = file.certify(*stored, kind=kind)
        assert np.isclose(got.lower, expected.lower, rtol=1e-10)
        assert np.isclose(got.upper, expected.upper, rtol=1e-10)
    expected = memory.certify_path(*known, sizes=[5, 10])
    got = file.certify_path(*stored, sizes=[5, 10])
    assert np.allclose(got.relative_gap, expected.relative_gap, rtol=1e-8)
    got, expected = file.grow(25, *stored), memory.grow(25, *known)
    assert np.array_equal(got.predict(path), expected.predict(X))
    got = file.grow(10, *stored, keep=False).predict(path)
    assert np.array_equal(got, memory.grow(10, *known, keep=False).predict(X))
    got = np.array(file.std_bounds(path, path, data["w"]))
    assert np.allclose(got, memory.std_bounds(X, X, data["w"]), rtol=1e-10)
    std = file.predict(path, return_std=True)[1]
    assert np.array_equal(std, memory.predict(X, return_std=True)[1])
    file.partial_fit(path, target="y", weight="w")
    memory.partial_fit(*known)
    assert np.array_equal(file.predict(path), memory.predict(X))
    ridge = SparseKernelRidge(method="random", n_basis=10, random_state=0)
    got = ridge.fit(path, target="y", weight="w").rate_bounds(*stored)
    expected = ridge.fit(*known).rate_bounds(*known)
    assert [bound.value[-1] for bound in got] == pytest.approx(
        [bound.value[-1] for bound in expected], rel=1e-8
    )


class TestPrediction:
    @pytest.fixture
    def model(self):
        data = frame(300)
        model = SparseGPRegressor(**GIVEN, n_basis=20, random_state=0)
        return model.fit(data[FEATURES], data["y"])

    def test_finds_its_columns_by_name(self, model, tmp_path, streamed):
        data = frame(100, seed=1)
        path = written(tmp_path / "data", data[["label", "height", "w", "age", "size"]])
        assert np.allclose(model.predict(path), model.predict(data[FEATURES]), rtol=1e-10)

    def test_says_which_columns_are_missing(self, model, tmp_path):
        path = written(tmp_path / "data", frame(100).rename(columns={"height": "heigth"}))
        with pytest.raises(ValueError, match=r"no column 'height' \(did you mean 'heigth'"):
            model.predict(path)

    def test_refuses_words_and_gaps_in_its_columns(self, model, tmp_path):
        data = frame(100)
        words = written(tmp_path / "words", data.assign(age=data["label"]))
        with pytest.raises(ValueError, match="not numbers: 'age"):
            model.predict(words)
        data.loc[40, "age"] = np.nan
        with pytest.raises(ValueError, match="Input X contains NaN: column 'age' of gaps, in row"):
            model.predict(written(tmp_path / "gaps", data))

    def test_counts_columns_where_there_are_no_names(self, tmp_path):
        data = frame(100)
        model = SparseGPRegressor(RBF(1.0), noise=0.1, n_basis=20)
        model.fit(rows(data), data["y"])
        path = written(tmp_path / "data", data[FEATURES])
        assert model.predict(path).shape == (100,)
        with pytest.raises(ValueError, match="X has 4 features, but SparseGPRegressor is expect"):
            model.predict(written(tmp_path / "more", data[[*FEATURES, "w"]]))


class TestWrongCalls:
    """Every wrong call says what to do."""

    @pytest.fixture
    def path(self, tmp_path):
        return written(tmp_path / "data", frame(100).drop(columns="label"))

    @pytest.fixture
    def model(self):
        return SparseGPRegressor(RBF(1.0), noise=0.1, n_basis=10)

    def test_a_target_in_two_places(self, model, path):
        with pytest.raises(ValueError, match="target='y' names a column of X, and y is passed too"):
            model.fit(path, np.zeros(100), target="y")
        with pytest.raises(ValueError, match=r"weight='w' names .* sample_weight is passed too"):
            model.fit(path, sample_weight=np.ones(100), target="y", weight="w")

    def test_no_target(self, model, path):
        with pytest.raises(ValueError, match="name their column by target="):
            model.fit(path)
        with pytest.raises(TypeError, match=r"y is the string 'y': .* pass target='y'"):
            model.fit(path, "y")

    def test_names_that_are_no_columns(self, model, path):
        with pytest.raises(ValueError, match=r"target: data has no column 'yy' \(did you mean 'y'"):
            model.fit(path, target="yy")
        with pytest.raises(ValueError, match="weight: data has no column 'weight'"):
            model.fit(path, target="y", weight="weight")
        with pytest.raises(ValueError, match="target: data has no column 3"):
            model.fit(path, target=3)
        with pytest.raises(ValueError, match="name a column twice"):
            model.fit(path, target="y", weight="y")
        with pytest.raises(ValueError, match="no columns beside target and weight"):
            model.fit(path, target=["y", *FEATURES], weight="w")

    def test_names_of_columns_that_have_none(self, model, tmp_path):
        np.save(tmp_path / "X.npy", np.zeros((9, 2)))
        for X in (np.zeros((9, 2)), tmp_path / "X.npy"):
            with pytest.raises(TypeError, match="target= names a column, and the columns of X"):
                model.fit(X, target="y")

    def test_paths(self, model, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no file or folder"):
            model.fit(tmp_path / "gone.parquet", target="y")
        with pytest.raises(TypeError, match="X is a single string"):
            model.fit("gone", target=None)

    def test_targets_that_are_no_numbers(self, model, path):
        with pytest.raises(TypeError, match=r"y is the path 'y\.npy': pass the targets themselves"):
            model.fit(path, "y.npy")
        with pytest.raises(TypeError, match=r"y is the path 'y\.npy': pass the labels themselves"):
            LowRankSVC().fit(path, Path("y.npy"))
        days = np.arange("2020-01-01", "2020-04-10", dtype="datetime64[D]")
        for times in (days, days - days[0]):
            with pytest.raises(ValueError, match=r"y holds times .*: pass numbers in a unit"):
                model.fit(path, times)
        with pytest.raises(ValueError, match=r"y holds text .*'no'.*SparseGPClassifier"):
            model.fit(path, ["no"] * 100)

    def test_no_rows(self, model, tmp_path):
        (tmp_path / "none.csv").write_text("a,y\n", encoding="utf-8")
        with pytest.raises(ValueError, match=r"none\.csv holds no rows"):
            model.fit(tmp_path / "none.csv", target="y")

    def test_lengths(self, model, path):
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[100, 99\]"):
            model.fit(path, np.zeros(99))

    def test_words_are_refused_before_targets_are_read(self, model, tmp_path, monkeypatch):
        path = written(tmp_path / "data", frame(100))
        table = open_table(path)
        monkeypatch.setattr(type(table), "read", lambda *_: pytest.fail("a pass was made"))
        with pytest.raises(ValueError, match=r"'label \("):
            model.fit(table, target="y")

    def test_more_rows_than_memory_should_hold(self, path, monkeypatch):
        monkeypatch.setattr(sources, "SMALL_BYTES", -1)
        monkeypatch.setattr(sources, "HELD_BYTES", 1000)
        for model in (ExactGPRegressor(), SpanNeighbors(), HullMixture()):
            with pytest.raises(ValueError, match="holds all rows in memory, and 100 rows"):
                model.fit(path, target="y")


class Own:
    """A source of a user's own: the three methods, and nothing else."""

    def __init__(self, rows):
        self._rows = rows
        self.most_taken = 0

    @property
    def n_rows(self):
        return self._rows.n_rows

    def blocks(self, size=8192):
        return self._rows.blocks(size)

    def take(self, index):
        self.most_taken = max(self.most_taken, len(index))
        return self._rows.take(index)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SparseGPRegressor(n_basis=20, search=Search(pool_size=200), random_state=0),
        lambda: SparseGPRegressor(
            **GIVEN, n_basis=20, search=Search(pool_size=200), random_state=0
        ),
        lambda: SparseKernelRidge(method="random", n_basis=20, random_state=0),
        lambda: GreedyFeatureMap(n_components=20, random_state=0),
        lambda: SparseKernelPCA(n_basis=20, search=Search(pool_size=100), random_state=0),
        lambda: KernelMatchingPursuitRegressor(
            n_basis=10, search=Search("pooled", pool_size=100), random_state=0
        ),
        lambda: HullRegressor(
            radius=5.0, n_terms=10, search=Search("pooled", pool_size=100), random_state=0
        ),
    ],
)
def test_a_fit_that_reads_in_blocks_never_asks_for_all_rows(make):
    data = frame(12_000)
    X, y = rows(data), data["y"].to_numpy()
    source = Own(ArrayRows(X))
    file, memory = make().fit(source, y), make().fit(X, y)
    assert source.most_taken < 11_000
    read = "predict" if hasattr(file, "predict") else "transform"
    assert np.array_equal(getattr(file, read)(source), getattr(memory, read)(X))
    assert file.n_features_in_ == 3


def test_a_source_of_words():
    words = [f"{i % 7}{'ab' * (i % 5)}{i % 3}" for i in range(120)]
    y = np.array([len(word) for word in words], dtype=float)

    @pairwise
    def shared(a, b):
        return float(len(set(a) & set(b))) + (a == b)

    model = SparseGPRegressor(shared, noise=0.1, n_basis=10, random_state=0)
    source = Own(ListRows(words))
    file, memory = clone(model).fit(source, y), clone(model).fit(words, y)
    assert file.basis_ == memory.basis_
    assert np.array_equal(file.predict(source), memory.predict(words))
    assert not hasattr(file, "n_features_in_")


def test_a_data_frame_may_keep_the_columns_that_are_no_features():
    data = frame(200)
    model = SparseKernelRidge(n_basis=8).fit(data[[*FEATURES, "y"]], target="y")
    expected = model.predict(data[FEATURES])
    assert np.array_equal(model.predict(data), expected)
    assert np.array_equal(model.predict(data[["w", *FEATURES[::-1]]]), expected)
    with pytest.raises(ValueError, match=r"(?s)yet now missing.*age"):
        model.predict(data.drop(columns="age"))
    trees = HullBoostClassifier(n_terms=3, random_state=0).fit(
        data[[*FEATURES, "y"]], data["label"]
    )
    assert np.array_equal(trees.predict(data), trees.predict(data[[*FEATURES, "y"]]))


def test_names_are_forgotten_when_a_model_is_fitted_again(tmp_path):
    data = frame(100)
    model = SparseGPRegressor(RBF(1.0), noise=0.1, n_basis=10)
    model.fit(written(tmp_path / "data", data[["y", *FEATURES]]), target="y")
    assert list(model.feature_names_in_) == FEATURES
    np.save(tmp_path / "X.npy", rows(data, ["size", "age"]))
    model.fit(tmp_path / "X.npy", data["y"])
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(rows(data, ["size", "age"]))
