"""Tables with categories: encoded the same way by every method, refused where they must be."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.compose import make_column_selector
from sklearn.gaussian_process.kernels import RBF, Matern

import pursuit
from pursuit import (
    Categorical,
    ExactGPRegressor,
    FullScaleGPRegressor,
    GreedyFeatureMap,
    HullBoostClassifier,
    HullRegressor,
    KernelMatchingPursuitRegressor,
    LowRankSVC,
    LPMachineRegressor,
    Search,
    SpanNeighbors,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelCCA,
    SparseKernelPCA,
    SparseKernelRidge,
    on_columns,
)
from pursuit.estimators.full_scale.near_rows import NearRows, RowIndex
from pursuit.kernels import compile_kernel
from pursuit.linalg import Workers

pd = pytest.importorskip("pandas")

CITIES = ["Bonn", "Lund", "Oslo", "Rome"]
LEVELS = {"city": CITIES}


def columns(n=150, seed=0):
    rng = np.random.default_rng(seed)
    city = rng.integers(4, size=n)
    return {"hour": rng.uniform(0, 6, n), "city": city, "wind": rng.standard_normal(n)}


def target(table):
    noise = np.random.default_rng(1).standard_normal(len(table["city"]))
    sign = np.where(table["city"] == 2, -1.0, 1.0)
    return np.sin(table["hour"]) * sign + 0.2 * table["wind"] + 0.05 * noise


def frame(table, kind="pandas"):
    named = {**table, "city": np.array(CITIES)[table["city"]]}
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(named)
    if kind == "array":
        return np.column_stack([named[name].astype(object) for name in named])
    made = pd.DataFrame(named)
    return made.astype({"city": "category"}) if kind == "category" else made


def product(numbers=("hour", "wind"), categories=("city",), **options):
    return (
        1.0 * on_columns(RBF([1.0, 2.0]), list(numbers)) * Categorical(list(categories), **options)
    )


def given(**options):
    """A model that learns nothing, so that fits take no time."""
    kept = {"kernel": product(), "noise": 0.01, "optimizer": None, "random_state": 0}
    return SparseGPRegressor(**{**kept, **options})


TABLE, FURTHER = columns(), columns(40, seed=5)
Y = target(TABLE)


@pytest.mark.parametrize("kind", ["pandas", "category", "polars"])
def test_frames_mean_what_their_codes_mean(kind):
    model = given().fit(frame(TABLE, kind), Y)
    assert model.categories_ == LEVELS
    assert list(model.feature_names_in_) == ["hour", "city", "wind"]
    coded = np.column_stack(list(TABLE.values()))
    plain = given(kernel=product([0, 2], [1])).fit(coded, Y)
    assert plain.categories_ == {1: [0.0, 1.0, 2.0, 3.0]}
    expected = plain.predict(np.column_stack(list(FURTHER.values())))
    np.testing.assert_array_equal(model.predict(frame(FURTHER, kind)), expected)


def test_arrays_and_lists_with_text():
    expected = given().fit(frame(TABLE), Y).predict(frame(FURTHER))
    array = frame(TABLE, "array")
    model = given(kernel=product([0, 2], [1])).fit(array, Y)
    assert model.categories_ == {1: CITIES}
    np.testing.assert_array_equal(model.predict(frame(FURTHER, "array")), expected)
    np.testing.assert_array_equal(model.predict(frame(FURTHER, "array").tolist()), expected)


def test_a_selector_and_levels_of_numbers():
    table = pd.DataFrame({**TABLE, "city": np.array(CITIES)[TABLE["city"]]})
    kernel = 1.0 * on_columns(RBF([1.0, 2.0]), make_column_selector(dtype_include="number"))
    kernel *= Categorical(make_column_selector(dtype_exclude="number"))
    model = pickle.loads(pickle.dumps(given(kernel=kernel).fit(table, Y)))
    np.testing.assert_array_equal(model.predict(table), given().fit(table, Y).predict(table))
    assert model.kernel_.k2.columns == [1]


def test_levels_of_numbers_stay_numbers():
    codes = np.array([1.0, 2.0, 5.0, 40.0])[TABLE["city"]]
    table = pd.DataFrame({**TABLE, "city": codes})
    kernel = 1.0 * RBF([1.0, 9.0, 2.0]) * Categorical(["city"])
    model = given(kernel=kernel).fit(table, Y)
    assert model.categories_ == {"city": [1.0, 2.0, 5.0, 40.0]}
    assert set(model.basis_[:, 1]) <= {1.0, 2.0, 5.0, 40.0}
    table.loc[0, "city"] = 7.0
    with pytest.warns(UserWarning, match=r"column 'city' holds values .* training: 7\.0\."):
        model.predict(table)


def test_the_default_kernel_multiplies_by_categories():
    model = SparseGPRegressor(random_state=0, certificate=None).fit(frame(TABLE, "category"), Y)
    assert model.score(frame(FURTHER), target(FURTHER)) > 0.95
    assert model.kernel_.k2.k1.names == ["hour", "wind"]
    assert model.kernel_.k2.k2.names == ["city"]
    kept = SparseGPRegressor(optimizer=None, noise=0.1, random_state=0).fit(frame(TABLE), Y)
    assert kept.kernel_.k2.k2.correlation == 0.5


def test_only_categories():
    table = frame(TABLE)[["city"]]
    y = TABLE["city"] + 0.1 * np.random.default_rng(0).standard_normal(len(Y))
    model = SparseGPRegressor(random_state=0).fit(table, y)
    known = pd.DataFrame({"city": CITIES})
    np.testing.assert_allclose(model.predict(known), range(4), atol=0.1)
    assert model.learning_report_.family == "categories"


def test_classes_by_default():
    label = np.where(np.sin(TABLE["hour"]) * np.where(TABLE["city"] == 2, -1, 1) > 0, "up", "down")
    model = SparseGPClassifier(random_state=0, certificate=None).fit(frame(TABLE), label)
    assert model.score(frame(TABLE), label) > 0.95
    assert model.categories_ == LEVELS


def test_new_levels_have_the_prior_correlation():
    model = given().fit(frame(TABLE), Y)
    table = frame(FURTHER)
    table["city"] = "Kiel"
    with pytest.warns(UserWarning, match="'city' .* not occur in training: 'Kiel'") as caught:
        mean, std = model.predict(table, return_std=True)
    assert len({str(one.message) for one in caught}) == 1
    X = np.column_stack(list(TABLE.values()))
    Z = np.column_stack(list({**FURTHER, "city": np.full(40, 4.0)}.values()))
    kernel = product([0, 2], [1])
    y = (Y - Y.mean()) / Y.std()
    alpha = np.linalg.solve(kernel(X) + 0.01 * np.eye(len(X)), y)
    expected = kernel(Z, X) @ alpha * Y.std() + Y.mean()
    np.testing.assert_allclose(mean, expected, atol=0.02)
    assert std.min() > 2 * model.predict(frame(FURTHER), return_std=True)[1].mean()


def test_missing_values_are_a_level_if_they_were_seen():
    table = frame(TABLE)
    table.loc[::7, "city"] = None
    model = given().fit(table, Y)
    assert model.categories_ == {"city": [*CITIES, None]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(table)
    with pytest.warns(UserWarning, match="did not occur in training"):
        given().fit(frame(TABLE), Y).predict(table)


def test_names_are_checked_as_in_scikit_learn():
    model = given().fit(frame(TABLE), Y)
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(frame(TABLE)[["city", "hour", "wind"]])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame(TABLE).rename(columns={"city": "town"}))
    further = frame(TABLE).assign(other=1.0)[["other", "wind", "city", "hour"]]
    np.testing.assert_array_equal(model.predict(further), model.predict(frame(TABLE)))
    named = given().fit(frame(TABLE).assign(y=Y), target="y")
    np.testing.assert_array_equal(named.predict(further), model.predict(further))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SparseKernelRidge(), r"kernel='rbf' compares numbers, .* 'city'\. .* on_columns\(Matern"),
        (SparseGPRegressor(RBF()), r"Categorical\(\['city'\]\), or let pursuit.TableEncoder"),
        (SparseGPRegressor(RBF() * Categorical(["city"])), "compares numbers"),
        (SparseGPRegressor(product(categories=["town"])), "'town', which is not among"),
        (SparseGPRegressor(product(categories=["city", "city"])), "more than once"),
        (HullRegressor("features"), "HullRegressor takes numbers, .* 'city'"),
    ],
)
def test_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(frame(TABLE), Y)


def test_refused_elsewhere():
    with pytest.raises(ValueError, match="HullBoostClassifier takes numbers"):
        HullBoostClassifier().fit(frame(TABLE), TABLE["city"] == 1)
    twice = pd.concat([frame(TABLE), frame(TABLE)[["city"]]], axis=1)
    with pytest.raises(ValueError, match="several columns of the same name: 'city'"):
        given().fit(twice, Y)
    with pytest.raises(ValueError, match="column 'wind' holds values that are not numbers"):
        given().fit(frame(TABLE), Y).predict(frame(TABLE).assign(wind="strong"))
    search = Search("pooled", candidates="kmeans")
    with pytest.raises(ValueError, match="averages rows, and columns hold categories"):
        given(search=search).fit(frame(TABLE), Y)


MODELS = {
    "gp": lambda kernel: SparseGPRegressor(kernel, noise=0.1, optimizer=None),
    "exact": lambda kernel: ExactGPRegressor(kernel, noise=0.1, optimizer=None),
    "full scale": lambda kernel: FullScaleGPRegressor(
        kernel, noise=0.1, optimizer=None, n_basis=10, n_neighbors=8
    ),
    "ridge": SparseKernelRidge,
    "lp": LPMachineRegressor,
    "matching": lambda kernel: KernelMatchingPursuitRegressor([kernel]),
    "hull": lambda kernel: HullRegressor("kernel", kernel=kernel, radius=3.0),
    "map": GreedyFeatureMap,
    "pca": SparseKernelPCA,
    "svc": LowRankSVC,
    "neighbors": SpanNeighbors,
}


@pytest.mark.parametrize("name", MODELS)
def test_every_estimator_takes_and_saves_them(name, tmp_path):
    model = MODELS[name](product())
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    model.fit(frame(TABLE), Y > 0 if name == "svc" else Y)
    model.save(tmp_path / "model")

    def values(model):
        if name == "neighbors":
            return model.kneighbors(frame(FURTHER))[1]
        method = model.predict if hasattr(model, "predict") else model.transform
        return method(frame(FURTHER))

    again = pursuit.load(tmp_path / "model")
    assert again.categories_ == LEVELS
    np.testing.assert_array_equal(values(again), values(model))
    np.testing.assert_array_equal(values(pickle.loads(pickle.dumps(model))), values(model))


def test_two_views():
    views = frame(TABLE), frame(TABLE)[["city"]]
    model = SparseKernelCCA(product(), Categorical(["city"])).fit(*views)
    scores = model.transform(*views)
    assert np.corrcoef(scores[0][:, 0], scores[1][:, 0])[0, 1] > 0.9


def test_learned_correlations_are_saved(tmp_path):
    model = SparseGPRegressor(
        product(correlations="pairs"), random_state=0, certificate=None, checkpoint=tmp_path / "run"
    ).fit(frame(TABLE), Y)
    assert model.kernel_.k2.factors[0].shape[0] == 4
    model.save(tmp_path / "model")
    again = pursuit.load(tmp_path / "model")
    assert again.kernel_ == model.kernel_
    np.testing.assert_array_equal(again.predict(frame(FURTHER)), model.predict(frame(FURTHER)))


def test_methods_of_a_fitted_model():
    table, further = frame(TABLE), frame(FURTHER)
    model = given(n_basis=60).fit(table, Y)
    assert model.certify(table, Y).relative_gap < 1
    lower, upper = model.std_bounds(further, table)
    assert np.all(lower <= upper)
    assert model.truncated(10).predict(further).shape == (40,)
    model.partial_fit(further, target(FURTHER))
    other = given(n_basis=60).fit(table, Y)
    assert other.predict_gradient(further).shape == (40, 3)


def test_moves_leave_levels_alone():
    table = columns(2100, seed=3)
    y = target(table)
    model = SparseGPRegressor(
        product(),
        noise=0.01,
        optimizer=None,
        refine=5,
        n_basis=20,
        certificate=None,
        random_state=0,
    ).fit(frame(table), y)
    assert "5 steps" in model.learning_report_.moved
    assert set(model.basis_[:, 1]) <= {0.0, 1.0, 2.0, 3.0}


@pytest.mark.parametrize("scales", [[0.5, 2.0], [2.0, 0.5]])
def test_near_rows_are_those_of_the_kernel(scales):
    """Also where some columns do not matter, whatever their values."""
    rng = np.random.default_rng(0)
    items = np.column_stack([rng.standard_normal((80, 2)), rng.integers(3, size=80) * 1.0])
    kept = NearRows(items, np.zeros((80, 1)), np.ones(80), np.zeros(1))
    numbers = on_columns(RBF(scales), [0, 1])
    for kernel in (numbers, numbers * Categorical([2], correlation=0.2)):
        node = compile_kernel(kernel, n_features=3)[0]
        points = items[:30]
        R = np.linalg.cholesky(node.tile(points, points) + 1e-10 * np.eye(30))
        with Workers(1) as workers:
            index = RowIndex.build(kept, node, points, np.linalg.inv(R), workers)
            found = index.nearest(items[:20] + [0.01, 0.0, 0.0], 5, workers)
        expected = np.argsort(-node.tile(items[:20] + [0.01, 0.0, 0.0], items), axis=1)[:, :5]
        np.testing.assert_array_equal(np.sort(found), np.sort(expected))


def test_graphs_take_codes():
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    u = np.random.default_rng(0).standard_normal((4, 2))
    for factors in (None, [u]):
        model = given(kernel=product(factors=factors)).fit(frame(TABLE), Y)
        graph = pursuit.to_onnx(model, return_std=True).SerializeToString()
        session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
        table = frame(FURTHER)
        table.loc[:3, "city"] = "Kiel"
        codes = np.column_stack(list(FURTHER.values())).astype(float)
        codes[:4, 1] = 4.0
        with pytest.warns(UserWarning, match="Kiel"):
            expected = model.predict(table, return_std=True)
        np.testing.assert_allclose(session.run(None, {"X": codes}), expected, rtol=1e-9, atol=1e-10)


def test_files_with_text_say_what_to_do(tmp_path):
    pytest.importorskip("pyarrow")
    frame(TABLE).assign(y=Y).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ValueError, match=r"'city \(string\)'\. Let pursuit.TableEncoder turn"):
        given().fit(tmp_path / "rows.csv", target="y")


def test_ids_are_one_correlation():
    table = frame(TABLE).assign(id=[f"row {i}" for i in range(len(Y))])
    kernel = product(categories=["city"]) + 0.1 * Categorical(["id"])
    model = SparseGPRegressor(kernel, random_state=0, certificate=None, n_basis=50).fit(table, Y)
    assert len(model.categories_["id"]) == len(Y)
    assert any("'id' has 150 levels in 150 rows" in one for one in model.learning_report_.warnings)
    assert model.kernel_.k2.k2.factors is None
    assert np.isfinite(model.predict(table)).all()


def test_matern_of_all_numbers_is_refused_by_position():
    with pytest.raises(
        ValueError, match=r"on_columns\(Matern\(\), \[0, 2\]\) \* Categorical\(\[1\]\)"
    ):
        given(kernel=Matern()).fit(frame(TABLE, "array"), Y)


@pytest.mark.parametrize("missing", [False, True])
def test_categories_that_are_numbers_are_not_compared_as_numbers(missing):
    table = columns()
    levels = pd.Series([30, 7, 12, 5])[table["city"]].reset_index(drop=True)
    shown = levels.mask(levels.index < 5) if missing else levels
    numbers = pd.DataFrame({"hour": table["hour"], "size": shown}).astype({"size": "category"})
    y = target(table)
    model = SparseGPRegressor(random_state=0, certificate=None, n_basis=50).fit(numbers, y)
    assert model.categories_ == {"size": [5, 7, 12, 30] + [None] * missing}
    assert model.kernel_.k2.k2.columns == [1]
    # The names of the levels say nothing: others give the same model.
    named = numbers.assign(
        size=numbers["size"].cat.rename_categories(
            dict(zip([5, 7, 12, 30], ["a", "b", "c", "d"], strict=True))
        )
    )
    same = SparseGPRegressor(random_state=0, certificate=None, n_basis=50).fit(named, y)
    assert np.allclose(model.predict(numbers), same.predict(named), rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_error_bars_of_a_new_level_are_as_wide_as_its_errors(seed):
    rng = np.random.default_rng(seed)
    phase, level, x = (
        rng.uniform(0, 2 * np.pi, 7),
        rng.integers(7, size=500),
        rng.uniform(0, 6, 500),
    )
    y = np.sin(x + phase[level]) + 0.1 * rng.standard_normal(500)
    X, new = np.column_stack([x, level]), level == 6
    kernel = 1.0 * on_columns(RBF(), [0]) * Categorical([1], "pairs", rank=2)
    model = SparseGPRegressor(kernel, random_state=0, certificate=None, n_basis=60)
    model.fit(X[~new], y[~new])
    with pytest.warns(UserWarning, match="did not occur in training"):
        mean, std = model.predict(X[new], return_std=True)
    # One level is one draw: its errors in units of the error bars may well be 2, not 4.
    assert 0.2 < np.sqrt(np.mean(((y[new] - mean) / std) ** 2)) < 3.0


@pytest.mark.parametrize(
    "texts",
    [["92,8", "101,5", "87,0"], ["12 %", "7 %", "3 %"], ["07.01.2022", "31.12.2021", "1.1.2022"]],
    ids=["decimal commas", "percent", "dates"],
)
def test_numbers_and_dates_written_as_text_are_no_levels(texts):
    frame = pd.DataFrame({"size": np.arange(30.0), "share": texts * 10})
    y = np.arange(30.0)
    with pytest.raises(ValueError, match=r"'share' \('.*'\)\. pursuit.TableEncoder reads them"):
        SparseGPRegressor(n_basis=3).fit(frame, y)
    declared = frame.astype({"share": "category"})
    assert set(SparseGPRegressor(n_basis=3).fit(declared, y).categories_["share"]) == set(texts)
    codes = frame.assign(share=["50667", "10115", "20095"] * 10)
    assert len(SparseGPRegressor(n_basis=3).fit(codes, y).categories_["share"]) == 3


@pytest.mark.parametrize(
    "values",
    [
        [i + 0.5 for i in range(39)] + ["sold"],
        [f"{i}.5" for i in range(39)] + ["sold"],
        [f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(39)] + ["sold"],
    ],
    ids=["numbers", "numbers as text", "dates"],
)
def test_a_text_among_numbers_or_dates_does_not_make_them_levels(values):
    frame, y = pd.DataFrame({"size": np.arange(40.0), "share": values}, dtype=object), np.ones(40)
    with pytest.raises(
        ValueError, match=r"'share' of X holds numbers or dates, but for 1 of .*'sold'"
    ):
        SparseGPRegressor(n_basis=3).fit(frame.astype({"size": float}), y)
    declared = frame.astype({"size": float, "share": str}).astype({"share": "category"})
    assert len(SparseGPRegressor(n_basis=3).fit(declared, y).categories_["share"]) > 30
    # Whole numbers may be codes.
    codes = frame.assign(size=np.arange(40.0), share=[*map(str, range(39)), "other"])
    assert len(SparseGPRegressor(n_basis=3).fit(codes, y).categories_["share"]) == 40
