"""A table encoder and a model as one, against doing the two steps by hand."""

import copy
import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import pursuit
from pursuit import (
    ExactGPRegressor,
    FullScaleGPClassifier,
    FullScaleGPRegressor,
    GreedyFeatureMap,
    HullBoostClassifier,
    HullMixture,
    HullRegressor,
    KernelMatchingPursuitClassifier,
    LowRankOneClassSVM,
    LowRankSVC,
    LowRankSVR,
    LPMachineClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelCCA,
    SparseKernelGLM,
    SparseKernelPCA,
    SparseKernelRidge,
    TableEncoder,
    TableError,
    TablePipeline,
    make_table_pipeline,
)
from pursuit.estimators import inputs, saving
from pursuit.estimators.table import encoder as encoder_module
from pursuit.estimators.table.pipeline import ModelMethod
from pursuit.rows import BLOCK_ROWS
from pursuit.store import StoreError

SEED = {"random_state": 0}
GIVEN = {"optimizer": None, **SEED}
REGRESSORS = {
    "gp": SparseGPRegressor(noise=0.1, n_basis=12, **GIVEN),
    "gp, learned": SparseGPRegressor(n_basis=12, **SEED),
    "full-scale": FullScaleGPRegressor(noise=0.1, n_basis=6, n_neighbors=4, **GIVEN),
    "exact": ExactGPRegressor(noise=0.1, **GIVEN),
    "ridge": SparseKernelRidge(n_basis=8, **SEED),
    "svr": LowRankSVR(n_basis=8, **SEED),
    "glm": SparseKernelGLM(n_basis=8, **GIVEN),
    "hull": HullRegressor(n_terms=5, radius=10.0, **SEED),
}
CLASSIFIERS = {
    "gp classes": SparseGPClassifier(n_basis=8, **GIVEN),
    "full-scale classes": FullScaleGPClassifier(n_basis=6, n_neighbors=4, **GIVEN),
    "svc": LowRankSVC(n_basis=8, **SEED),
    "boosting": HullBoostClassifier(n_terms=5, **SEED),
    "matching": KernelMatchingPursuitClassifier(n_basis=6, **SEED),
    "lp": LPMachineClassifier(n_basis=6, **SEED),
}
UNSUPERVISED = {
    "mixture": HullMixture(n_terms=3, **SEED),
    "one class": LowRankOneClassSVM(n_basis=6, **SEED),
    "map": GreedyFeatureMap(n_components=4, **SEED),
    "pca": SparseKernelPCA(n_basis=6, **SEED),
}
MODELS = REGRESSORS | CLASSIFIERS | UNSUPERVISED


def table(n=70, seed=0):
    """Numbers, text, dates, percentages and gaps, and three targets."""
    rng = np.random.default_rng(seed)
    size, city = rng.uniform(-2, 2, n), rng.choice(["Bonn", "Köln", "Lund"], n)
    signal = np.sin(2 * size) + (city == "Köln") + 0.1 * rng.standard_normal(n)
    share = [f"{value:.1f} %" for value in rng.uniform(0, 9, n)]
    frame = pd.DataFrame({"size": size, "city": city, "share": share})
    frame["day"] = pd.Timestamp("2024-01-31") + pd.to_timedelta(rng.integers(0, 300, n), "D")
    frame.loc[::9, "size"] = np.nan
    frame["rent"] = signal
    frame["count"] = rng.poisson(np.exp(signal))
    frame["kind"] = np.where(signal > 0.7, "dear", "cheap")
    return frame


FEATURES = ["size", "city", "share", "day"]


def target_of(name):
    return "count" if name == "glm" else "rent" if name in REGRESSORS else "kind"


@pytest.fixture(scope="module")
def fitted():
    """Pipelines by name, fitted to the same table; do not change them."""
    frame, made = table(), {}

    def find(name):
        if name not in made:
            pipeline = make_table_pipeline(clone(MODELS[name]))
            if name in UNSUPERVISED:
                made[name] = pipeline.fit(frame[FEATURES])
            else:
                made[name] = pipeline.fit(
                    frame[[*FEATURES, target_of(name)]], target=target_of(name)
                )
        return made[name]

    return find


def by_hand(name, frame, new):
    """What the two steps give, one after the other."""
    encoder, model = TableEncoder(), clone(MODELS[name])
    y = None if name in UNSUPERVISED else frame[target_of(name)].to_numpy()
    model.fit(encoder.fit_transform(frame[FEATURES], y), y)
    return answers(model, encoder.transform(new))


def answers(model, rows):
    found = {}
    for method in ("predict", "predict_proba", "decision_function", "transform", "score_samples"):
        if hasattr(model, method):
            found[method] = getattr(model, method)(rows)
    if "return_std" in inspect.signature(getattr(model, "predict", len)).parameters:
        found["std"] = model.predict(rows, return_std=True)[1]
    return found


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for key, values in wanted.items():
        assert np.array_equal(np.asarray(found[key]), np.asarray(values)), key


@pytest.mark.filterwarnings("ignore:a component has shrunk")
@pytest.mark.parametrize("name", MODELS)
def test_the_two_steps_by_hand_and_a_file_give_the_same_bits(fitted, name, tmp_path):
    new = table(40, seed=1)
    pipeline = fitted(name)
    wanted = by_hand(name, table(), new)
    assert wanted
    assert_same(answers(pipeline, new), wanted)
    pipeline.save(tmp_path / "model")
    loaded = pursuit.load(tmp_path / "model")
    assert type(loaded) is TablePipeline
    assert repr(loaded) == repr(pipeline)
    assert loaded.target_ == pipeline.target_
    assert loaded.notes_ == pipeline.notes_
    assert_same(answers(loaded, new), wanted)
    first = (tmp_path / "model").read_bytes()
    loaded.save(tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == first


def test_a_model_is_fitted_to_statistics_of_the_targets_of_other_rows(tmp_path):
    frame, new = table(), table(30, seed=1)
    pipeline = make_table_pipeline(clone(MODELS["ridge"]), categories="target")
    pipeline.fit(frame[[*FEATURES, "rent"]], target="rent")
    encoder, model = TableEncoder(categories="target"), clone(MODELS["ridge"])
    model.fit(encoder.fit_transform(frame[FEATURES], frame["rent"]), frame["rent"])
    wanted = model.predict(encoder.transform(new))
    assert np.array_equal(pipeline.predict(new), wanted)
    model.fit(encoder.transform(frame), frame["rent"])  # of their own targets as well
    assert not np.array_equal(model.predict(encoder.transform(new)), wanted)
    pipeline.save(tmp_path / "model")
    assert np.array_equal(pursuit.load(tmp_path / "model").predict(new), wanted)


def test_another_table_gives_other_bits(fitted):
    """The comparisons above can fail."""
    wanted = answers(fitted("gp"), table(40, seed=1))
    with pytest.raises(AssertionError):
        assert_same(answers(fitted("gp"), table(40, seed=2)), wanted)


@pytest.mark.parametrize("name", ["gp", "glm", "svc"])
def test_a_file_a_frame_and_arrow_give_the_same_bits(fitted, name, tmp_path):
    pa, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    frame, new = table(), table(30, seed=1)
    target = target_of(name)
    columns = [*FEATURES, target]
    wanted = answers(fitted(name), new)
    frame[columns].to_csv(tmp_path / "table.csv", index=False)
    new.to_csv(tmp_path / "new.csv", index=False)
    frame[columns].to_parquet(tmp_path / "table.parquet")
    arrow = pa.Table.from_pandas(frame[columns], preserve_index=False)
    for X in (
        tmp_path / "table.csv",
        str(tmp_path / "table.parquet"),
        arrow,
        polars.from_arrow(arrow),
    ):
        pipeline = make_table_pipeline(clone(MODELS[name])).fit(X, target=target)
        assert_same(answers(pipeline, new), wanted)
        assert_same(answers(pipeline, tmp_path / "new.csv"), wanted)
        assert pipeline.score(tmp_path / "new.csv") == fitted(name).score(new, new[target])
        assert pipeline.target_.name == target
    from_array = make_table_pipeline(clone(MODELS[name])).fit(
        tmp_path / "table.csv", frame[target], sample_weight=np.ones(len(frame))
    )
    assert target in from_array.feature_names_in_
    assert from_array.target_ is None


# Targets and weights


@pytest.mark.parametrize("name", ["gp", "boosting"])
def test_rows_without_a_target_are_left_out(name, tmp_path):
    frame, new, target = table(), table(30, seed=1), target_of(name)
    weights = np.linspace(1, 2, len(frame))
    gaps = frame[[*FEATURES, target]].copy()
    gaps.loc[[0, 5, 44], target] = None
    kept = gaps[target].notna().to_numpy()
    model = MODELS[name]
    wanted = make_table_pipeline(clone(model)).fit(
        frame[FEATURES][kept], frame[target][kept], sample_weight=weights[kept]
    )
    named = make_table_pipeline(clone(model)).fit(gaps, target=target, sample_weight=weights)
    passed = make_table_pipeline(clone(model)).fit(gaps[FEATURES], gaps[target], weights)
    gaps.assign(weight=weights).to_csv(tmp_path / "table.csv", index=False)
    file = make_table_pipeline(clone(model)).fit(
        tmp_path / "table.csv", target=target, weight="weight"
    )
    for pipeline in (named, passed, file):
        assert_same(answers(pipeline, new), answers(wanted, new))
        note = f" {target!r}" if pipeline is not passed else ""
        assert f"3 rows are left out: their target{note} is missing." in pipeline.notes_
    without_weights = make_table_pipeline(clone(model)).fit(gaps, target=target)
    assert not np.array_equal(without_weights.predict(new), wanted.predict(new)) or name != "gp"
    assert file.score(gaps, gaps[target]) == wanted.score(gaps[kept], gaps[target][kept])
    assert file.score(gaps) == file.score(gaps, gaps[target])
    # The weights of the file count as well where its targets are read.
    assert file.score(tmp_path / "table.csv") == wanted.score(
        gaps[kept], gaps[target][kept], sample_weight=weights[kept]
    )


def test_numbers_written_as_text_are_targets():
    frame = table()
    texts = [f"€ {value:.2f}".replace(".", ",") for value in frame["rent"] + 5]
    pipeline = make_table_pipeline(clone(MODELS["gp"])).fit(
        frame[FEATURES].assign(rent=texts), target="rent"
    )
    y = (frame["rent"] + 5).round(2).to_numpy()
    wanted = make_table_pipeline(clone(MODELS["gp"])).fit(frame[FEATURES], y)
    assert np.array_equal(pipeline.predict(frame), wanted.predict(frame))
    assert pipeline.score(frame, texts) == wanted.score(frame, y)
    assert pipeline.target_.format.unit == "EUR"
    assert re.fullmatch(
        r"the target 'rent' is read as numbers with a decimal comma in EUR: '€ 3,..' is 3\..*\.",
        pipeline.notes_[-1],
    )
    with pytest.raises(TableError, match="column 'rent': it holds 'much'"):
        pipeline.score(frame.assign(rent="much"))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["a", "b"], ["a", "b"]),
        ([0, 1], [0, 1]),
        ([0.0, 1.0], [0, 1]),
        ([False, True], [False, True]),
        (["-", "+"], ["+", "-"]),
    ],
)
def test_classes_are_the_same_from_a_frame_and_from_a_file(labels, classes, tmp_path):
    frame = table()[FEATURES]
    frame["y"] = np.array(labels)[(table()["kind"] == "dear").to_numpy().astype(int)]
    gaps = frame.copy()
    gaps["y"] = gaps["y"].astype(object).where(gaps.index != 3, None)
    for X in (frame, gaps):
        X.to_csv(tmp_path / "table.csv", index=False)
        pair = [
            make_table_pipeline(clone(MODELS["svc"])).fit(one, target="y")
            for one in (X, tmp_path / "table.csv")
        ]
        for pipeline in pair:
            assert pipeline.classes_.tolist() == classes
            assert type(pipeline.classes_.tolist()[0]) is type(classes[0])
            assert pipeline.score(tmp_path / "table.csv") == pair[0].score(X, X["y"])


def test_several_targets_are_columns_of_y():
    frame = table()
    Y = frame[["rent", "count"]].to_numpy(dtype=float)
    Y[:2] = np.nan
    Y[7, 1] = np.nan
    pipeline = make_table_pipeline(clone(MODELS["gp"])).fit(frame[FEATURES], Y)
    assert pipeline.predict(frame).shape == (70, 2)
    assert pipeline.notes_[-1] == "2 rows are left out: their target is missing."
    with pytest.raises(ValueError, match="pass the targets as the columns of y"):
        TablePipeline().fit(frame, target=["rent", "count"])


def test_wrong_targets_are_told():
    frame, new = table(), TablePipeline
    with pytest.raises(ValueError, match=r"target: .* no column 'rant' .did you mean 'rent'"):
        new().fit(frame, target="rant")
    with pytest.raises(ValueError, match=r"weight: .* no column 'wait'"):
        new().fit(frame, target="rent", weight="wait")
    with pytest.raises(ValueError, match="name the same column"):
        new().fit(frame, target="rent", weight="rent")
    with pytest.raises(ValueError, match="pass one of them"):
        new().fit(frame, frame["rent"], target="rent")
    with pytest.raises(TypeError, match="pass target='rent'"):
        new().fit(frame, "rent")
    with pytest.raises(TypeError, match="have no names"):
        new().fit(np.ones((5, 2)), target="rent")
    with pytest.raises(ValueError, match="one target per row"):
        new().fit(frame[FEATURES], frame["rent"][:-1])
    with pytest.raises(ValueError, match="name their column by target="):
        new().fit(frame[FEATURES])
    with pytest.raises(TableError, match="no features"):
        new().fit(frame[["rent"]], target="rent")
    with pytest.raises(
        TableError, match="column 'kind': it holds 'cheap' and other texts"
    ) as caught:
        new().fit(frame, target="kind")
    assert caught.value.problems.keys() == {"kind"}
    with pytest.raises(TableError, match="it is missing in every row"):
        new().fit(frame.assign(rent=np.nan), target="rent")
    with pytest.raises(TableError, match="it holds dates"):
        new().fit(frame, target="day")
    with pytest.raises(TableError, match="column 'city': it holds 'Bonn' and other texts"):
        new().fit(frame, target="rent", weight="city")
    with pytest.raises(TableError, match="column 'size': it is missing in 8 of 70 rows"):
        new().fit(frame, target="rent", weight="size")
    with pytest.raises(ValueError, match="no column 'rent'"):
        make_table_pipeline(clone(MODELS["ridge"])).fit(frame, target="rent").score(frame[FEATURES])


# Methods of the model


def test_every_method_of_rows_is_offered():
    """All that have an argument of rows, but for those that make no sense on raw tables."""
    left_out = {
        "fit",
        "fit_predict",
        "fit_transform",
        "predict_gradient",  # by encoded features
        "inverse_transform",  # to encoded rows
        "correlations",  # of two tables
        "report",  # a method of its own, whose page has the columns of the table
        "as_linear_operator",
        "preconditioner",
        "residual_bound",
        "residual_curves",
    }
    wanted = {"truncated", "without_neighbors", "emptied"}
    for model in saving.models().values():
        for name, method in inspect.getmembers(model, inspect.isfunction):
            rows = {"X", "X_new", "X_train"} & set(inspect.signature(method).parameters)
            if rows and not name.startswith("_") and model not in (TableEncoder, TablePipeline):
                wanted.add(name)
    offered = {name for name, one in vars(TablePipeline).items() if isinstance(one, ModelMethod)}
    assert offered == wanted - left_out


def test_methods_are_those_of_the_model(fitted):
    pipeline = fitted("gp")
    model = pipeline.named_steps.model
    assert inspect.signature(pipeline.predict) == inspect.signature(model.predict)
    assert pipeline.predict_interval.__doc__ == model.predict_interval.__doc__
    assert "raw" not in pipeline.predict.__doc__
    assert "tables" in TablePipeline.predict.__doc__
    for name in (
        "predict_proba",
        "transform",
        "kneighbors",
        "predict_gradient",
        "inverse_transform",
    ):
        assert not hasattr(pipeline, name)
    with pytest.raises(AttributeError, match=r"with SparseGPRegressor has no .*proba"):
        pipeline.predict_proba  # noqa: B018
    assert hasattr(fitted("gp classes"), "predict_proba")
    assert pipeline.certificate_ is model.certificate_
    assert pipeline.n_basis_ == model.n_basis_
    assert list(pipeline.feature_names_in_) == FEATURES
    assert pipeline.n_features_in_ == 4
    assert not hasattr(pipeline, "categories_")
    assert not hasattr(TablePipeline(), "kernel_")


def test_methods_with_rows_and_targets(fitted, tmp_path):
    frame, new = table(), table(30, seed=1)
    pipeline = copy.deepcopy(fitted("gp"))
    encoder, model = pipeline.steps[0][1], copy.deepcopy(pipeline.steps[1][1])
    rows, rows_new, y = encoder.transform(frame), encoder.transform(new), frame["rent"]
    pairs = [
        (pipeline.sample_y(new, 2), model.sample_y(rows_new, 2)),
        (pipeline.leave_one_out(frame), model.leave_one_out(rows, y)),
        (pipeline.certify(frame).lower, model.certify(rows, y).lower),
        (pipeline.importance(new).mean, model.importance(rows_new).mean),
        (
            pipeline.importance(new, "permutation").mean,
            model.importance(rows_new, "permutation").mean,
        ),
        (pipeline.predict_parts(new, center=frame), model.predict_parts(rows_new, center=rows)),
        (pipeline.std_bounds(new, frame), model.std_bounds(rows_new, rows)),
        (
            pipeline.predict_quantile(new, 0.3, "gaussian"),
            model.predict_quantile(rows_new, 0.3, "gaussian"),
        ),
    ]
    for found, wanted in pairs:
        assert np.array_equal(np.asarray(found), np.asarray(wanted))
    assert pipeline.conformalize(new) is pipeline
    model.conformalize(rows_new, new["rent"])
    assert np.array_equal(pipeline.predict_interval(frame), model.predict_interval(rows))
    assert pipeline.partial_fit(new, target="rent") is pipeline
    model.partial_fit(rows_new, new["rent"])
    assert np.array_equal(pipeline.predict(frame), model.predict(rows))
    pipeline.report(tmp_path / "page.html", new)
    assert "Rows predicted worst" in (tmp_path / "page.html").read_text(encoding="utf-8")
    gap = frame.assign(rent=y.where(y.index != 4))
    with pytest.raises(ValueError, match="y contains NaN"):
        pipeline.leave_one_out(gap)


def test_rows_of_the_fit_have_no_statistics_of_their_own_targets(tmp_path):
    rng = np.random.default_rng(0)
    levels = [f"L{k}" for k in rng.integers(0, 90, 240)]
    frame = pd.DataFrame({"x": rng.normal(size=240), "c": levels})
    y = np.sin(frame["x"].to_numpy()) + rng.normal(size=240)
    pipeline = make_table_pipeline(SparseGPRegressor(noise=0.5, n_basis=20, **GIVEN)).fit(frame, y)
    rows = TableEncoder().fit_transform(frame, y)
    model = SparseGPRegressor(noise=0.5, n_basis=20, **GIVEN).fit(rows, y)
    pipeline.save(tmp_path / "m")
    for one in (pipeline, pursuit.load(tmp_path / "m")):
        assert one.certify(frame, y) == model.certify(rows, y)
        assert np.array_equal(one.leave_one_out(frame, y), model.leave_one_out(rows, y))
    seen = pipeline.steps[0][1].transform(frame)
    assert not np.array_equal(seen, rows)
    others = frame[:200], y[:200]  # the rows of another fit
    assert pipeline.certify(*others) == model.certify(seen.with_rows(np.arange(200)), y[:200])
    frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    named = clone(pipeline).fit(tmp_path / "t.csv", target="y")
    assert named.certify(tmp_path / "t.csv") == model.certify(rows, y)


def test_targets_that_are_masked_are_missing():
    frame = table()
    y = np.ma.MaskedArray(frame["rent"].to_numpy(), np.arange(len(frame)) < 4)
    found = make_table_pipeline(clone(MODELS["gp"])).fit(frame[FEATURES], y)
    assert found.notes_[-1] == "4 rows are left out: their target is missing."
    wanted = clone(found).fit(frame[FEATURES][4:], y.data[4:])
    assert np.array_equal(found.predict(frame), wanted.predict(frame))


def test_a_point_that_may_stand_before_thousands_in_the_target_is_noted():
    frame = table()[FEATURES]
    for last, note in (
        ("1.234", ["the target is read as numbers: '1.234' is 1.234."]),
        ("1.5", []),
    ):
        y = ["999", "12", "1.234", last] * (len(frame) // 4)
        found = make_table_pipeline(clone(MODELS["ridge"])).fit(frame[: len(y)], y)
        assert found.notes_[len(found.steps[0][1].notes_) :] == note


def test_models_that_methods_return_are_pipelines(fitted, tmp_path):
    frame, new = table(), table(30, seed=1)
    whole = fitted("full-scale")
    before = whole.predict(new)
    small = whole.without_neighbors()
    assert type(small) is TablePipeline
    assert type(small["model"]) is SparseGPRegressor
    rows = whole["table"].transform(new)
    assert np.array_equal(small.predict(new), whole["model"].without_neighbors().predict(rows))
    assert small.score(frame) == small.score(frame, frame["rent"])
    smaller = small.truncated(3)
    assert smaller.n_basis_ == 3
    smaller.save(tmp_path / "small")
    assert np.array_equal(pursuit.load(tmp_path / "small").predict(new), smaller.predict(new))
    smaller.fit(frame[["city", "rent"]], target="rent")
    assert np.array_equal(whole.predict(new), before)


def test_rows_set_aside_for_guaranteed_intervals_are_encoded_as_the_others():
    frame = table(300)
    model = SparseGPRegressor(n_basis=12, noise=0.1, calibration="conformal", **GIVEN)
    pipeline = make_table_pipeline(model).fit(frame[[*FEATURES, "rent"]], target="rent")
    assert list(pipeline["model"].categories_) == ["city"]
    lower, upper = pipeline.predict_interval(frame)
    assert np.mean((lower <= frame["rent"]) & (frame["rent"] <= upper)) > 0.8


# As an estimator of scikit-learn


def test_clone_parameters_copies_and_pickles(fitted):
    pipeline, new = fitted("gp"), table(30, seed=1)
    assert isinstance(pipeline, Pipeline)
    fresh = clone(pipeline)
    assert type(fresh) is TablePipeline
    assert fresh.target_ is None
    assert not hasattr(fresh, "n_basis_")
    assert fresh.get_params()["model__n_basis"] == 12
    fresh.set_params(model__n_basis=3, table__max_levels=2)
    assert fresh.fit(table(), target="rent").n_basis_ == 3
    assert pipeline.n_basis_ == 12
    for other in (
        pickle.loads(pickle.dumps(pipeline)),
        copy.deepcopy(pipeline),
        copy.copy(pipeline),
    ):
        assert np.array_equal(other.predict(new), pipeline.predict(new))
        assert other.target_ == pipeline.target_
    assert "TableEncoder" in pipeline._repr_html_()
    assert "TableEncoder" in repr(pipeline)
    assert type(pipeline[:1]) is Pipeline
    assert pipeline[-1] is pipeline["model"]
    assert np.asarray(pipeline[:1].transform(new)).shape[0] == 30


def test_cross_validation_and_search():
    frame = table()
    X, y = frame[FEATURES], frame["rent"].where(frame.index != 3)
    pipeline = make_table_pipeline(SparseKernelRidge(n_basis=8, alpha=0.1, **SEED))
    scores = cross_val_score(pipeline, X, y, cv=3)
    fold = np.arange(70) >= 24  # the first of three folds
    once = clone(pipeline).fit(X[fold], y[fold])
    assert scores[0] == once.score(X[~fold], y[~fold])
    found = GridSearchCV(pipeline, {"model__alpha": [1e-3, 1e3]}, cv=3).fit(
        X, y, sample_weight=np.ones(70)
    )
    assert found.best_params_ == {"model__alpha": 1e-3}
    weighted = clone(pipeline).fit(X, y, model__sample_weight=np.linspace(0, 1, 70))
    assert np.array_equal(
        weighted.predict(X), clone(pipeline).fit(X, y, np.linspace(0, 1, 70)).predict(X)
    )


@pytest.mark.parametrize("name", ["gp", "svc"])
def test_pieces_of_whole_blocks_give_the_bits_of_the_whole(fitted, name, tmp_path, monkeypatch):
    """In memory, from a file, and from a file that is encoded as it is read."""
    pipeline, many = fitted(name), table(2 * BLOCK_ROWS + 77, seed=3)[FEATURES]
    wanted = answers(pipeline, many)
    cuts = [many[:BLOCK_ROWS], many[BLOCK_ROWS : 2 * BLOCK_ROWS], many[2 * BLOCK_ROWS :]]
    pieces = [answers(pipeline, piece) for piece in cuts]
    assert_same({key: np.concatenate([one[key] for one in pieces]) for key in wanted}, wanted)
    many.to_csv(tmp_path / "many.csv", index=False)
    assert_same(answers(pipeline, tmp_path / "many.csv"), wanted)
    monkeypatch.setattr(encoder_module, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(inputs, "SMALL_BYTES", 0)
    assert not isinstance(pipeline[0].transform(tmp_path / "many.csv"), np.ndarray)
    assert_same(answers(pipeline, tmp_path / "many.csv"), wanted)


def test_the_output_that_is_configured_changes_nothing(fitted):
    frame, new = table(), table(30, seed=1)
    with config_context(transform_output="pandas"):
        pipeline = make_table_pipeline(clone(MODELS["gp"])).fit(
            frame[[*FEATURES, "rent"]], target="rent"
        )
        assert np.array_equal(pipeline.predict(new), fitted("gp").predict(new))
    mapped = clone(fitted("map")).set_output(transform="pandas").fit_transform(frame[FEATURES])
    assert isinstance(mapped, pd.DataFrame)
    assert np.array_equal(mapped, fitted("map").transform(frame))
    assert np.array_equal(
        clone(fitted("one class")).fit_predict(frame[FEATURES]), fitted("one class").predict(frame)
    )


def test_other_steps_are_refused():
    frame = table()
    with pytest.raises(TypeError, match=r"got SparseGPRegressor: pursuit.make_table_pipeline"):
        TablePipeline(SparseGPRegressor()).fit(frame, target="rent")
    with pytest.raises(TypeError, match="got Ridge: use scikit-learn's Pipeline"):
        make_table_pipeline(Ridge()).fit(frame, target="rent")
    with pytest.raises(TypeError, match="got StandardScaler, SparseGPRegressor: use"):
        TablePipeline([("a", StandardScaler()), ("b", SparseGPRegressor())]).fit(
            frame, frame["rent"]
        )
    steps = [("a", TableEncoder()), ("b", StandardScaler()), ("c", SparseGPRegressor())]
    with pytest.raises(TypeError, match="got TableEncoder, StandardScaler, SparseGPRegressor"):
        TablePipeline(steps).fit(frame, target="rent")
    with pytest.raises(TypeError, match="two tables"):
        make_table_pipeline(SparseKernelCCA()).fit(frame, frame)
    with pytest.raises(TypeError, match="got TableEncoder: use"):
        make_table_pipeline(TableEncoder()).fit(frame)


# Files


def test_a_plain_pipeline_is_saved_as_a_table_pipeline(tmp_path):
    frame, new = table(), table(30, seed=1)
    plain = Pipeline([("encode", TableEncoder()), ("gp", clone(MODELS["gp"]))])
    plain.fit(frame[FEATURES], frame["rent"])
    TablePipeline(plain.steps).save(tmp_path / "model")
    loaded = pursuit.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(new), plain.predict(new))
    assert list(loaded.named_steps) == ["encode", "gp"]
    assert loaded.target_ is None


def halves(A, B):
    return np.exp(-0.5 * np.abs(A[:, None] - B[None]).sum(axis=2))


def test_what_a_file_leaves_out_is_passed_again(tmp_path):
    frame = table()
    model = SparseKernelRidge(kernel=halves, n_basis=8, **SEED)
    pipeline = make_table_pipeline(model).fit(frame[["share", "day"]], frame["rent"])
    pipeline.save(tmp_path / "model")
    with pytest.raises(StoreError, match=r"pass it again, pursuit.load\(path, model__kernel"):
        pursuit.load(tmp_path / "model")
    loaded = pursuit.load(tmp_path / "model", model__kernel=halves)
    assert np.array_equal(loaded.predict(frame), pipeline.predict(frame))


def test_what_cannot_be_saved_is_told(tmp_path):
    class Mine(SparseKernelRidge):
        pass

    frame = table()
    with pytest.raises(StoreError, match="Mine is a class of your own"):
        make_table_pipeline(Mine(n_basis=4)).fit(frame, target="rent").save(tmp_path / "model")
    with pytest.raises(ValueError, match="not fitted"):
        TablePipeline().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_float32_tables(fitted):
    frame = table()[["size", "city", "rent"]].astype({"size": np.float32})
    model = clone(MODELS["gp"]).set_params(dtype=np.float32)
    pipeline = make_table_pipeline(model).fit(frame, target="rent")
    wide = make_table_pipeline(clone(model)).fit(frame.astype({"size": float}), target="rent")
    assert np.array_equal(pipeline.predict(frame), wide.predict(frame))


def test_rows_of_weight_0_have_no_part():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"code": rng.integers(0, 60, 400).astype(str), "size": rng.normal(size=400)}
    )
    table["code"] = "c" + table["code"]
    y = rng.normal(size=400) + table["size"]
    weights = np.where(rng.random(400) < 0.3, 0.0, 2.0)
    table.loc[weights == 0, "size"] = 1e6
    kept = weights > 0
    model = pursuit.make_table_pipeline(pursuit.SparseKernelRidge(alpha=1.0, random_state=0))
    weighted = model.fit(table, y, sample_weight=weights).predict(table)
    removed = pursuit.make_table_pipeline(pursuit.SparseKernelRidge(alpha=1.0, random_state=0))
    removed.fit(table[kept], y[kept], sample_weight=weights[kept])
    np.testing.assert_array_equal(weighted, removed.predict(table))
    assert removed.named_steps["table"].columns_ == model.named_steps["table"].columns_


@pytest.mark.parametrize("model", [SparseGPRegressor(n_basis=8, **SEED), SparseKernelRidge(**SEED)])
def test_a_part_of_a_table_may_be_the_first_fit(model):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.uniform(20, 200, 150), "town": rng.choice(["A", "B"], 150)})
    rent = frame["size"] * 10 + (frame["town"] == "A") * 300
    first, second = slice(110), slice(110, None)
    whole = make_table_pipeline(clone(model)).partial_fit(frame[first], rent[first])
    encode = whole.steps[0][1].transform
    expected = clone(model).partial_fit(encode(frame[first]), rent[first])
    whole.partial_fit(frame[second], rent[second])
    expected.partial_fit(encode(frame[second]), rent[second])
    assert np.array_equal(whole.predict(frame), expected.predict(encode(frame)))


@pytest.mark.parametrize(
    "name", ["classes_", "feature_names_in_", "kernel_", "n_features_in_", "notes_"]
)
def test_what_a_fit_finds_is_not_there_before_it(name):
    pipeline = make_table_pipeline(SparseGPClassifier())
    with pytest.raises(NotFittedError, match="TablePipeline instance is not fitted yet"):
        getattr(pipeline, name)
    assert not hasattr(pipeline, name)
