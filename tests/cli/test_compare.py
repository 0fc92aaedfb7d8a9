"""`pursuit compare`: the scores against scikit-learn's own, what it writes, and wrong calls."""

from __future__ import annotations

import csv
import io
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import RidgeCV
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version
from typer.testing import CliRunner

from pursuit.cli.commands import app
from pursuit.estimators.table import comparison
from pursuit.estimators.table.choice import SMALL, Choice
from pursuit.estimators.table.comparison import AUTO, compare_models
from pursuit.estimators.table.contestants import Contestant, contestants
from pursuit.estimators.table.encoder import TableEncoder


def run(*words):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def write(path, names, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    X, y = load_iris(return_X_y=True)
    rows = [[*x, ["setosa", "versicolor", "virginica"][k]] for x, k in zip(X, y, strict=True)]
    names = ["sepal length", "sepal width", "petal length", "petal width", "kind"]
    return write(tmp_path_factory.mktemp("flowers") / "flowers.csv", names, rows)


@pytest.fixture
def few(monkeypatch):
    """Only models that are quick, without comparing kinds, and kernels as they are."""

    def quick(task, y, n_learning, **given):
        wanted = ("pursuit: small process", "ridge", "logistic regression")
        runs = [one for one in contestants(task, y, n_learning, **given) if one.name in wanted]
        return [replace(one, make=quickly(one.make)) if one.kind else one for one in runs]

    monkeypatch.setattr(comparison, "contestants", quick)
    monkeypatch.setattr(comparison, "choose_model", lambda *_, **__: Choice(SMALL, None, SMALL, {}))


def quickly(make):
    return lambda: make().set_params(optimizer=None, n_basis=10)


def standing(found, name):
    return next(each for each in found.standings if each.name == name)


# Scores


def test_scores_are_those_of_a_plain_loop(few):
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:200], y[:200] + 0.5  # not counts
    found = compare_models(X, y, task="regression", n_folds=3, random_state=4)
    errors = []
    for learning, reserved in KFold(3, shuffle=True, random_state=4).split(X):
        model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 33)))
        model.fit(X[learning], y[learning])
        errors.append(root_mean_squared_error(y[reserved], model.predict(X[reserved])))
    ridge = standing(found, "ridge")
    np.testing.assert_allclose([score.error for score in ridge.scores], errors, rtol=1e-9)
    assert [each.mean("error") for each in found.standings] == sorted(
        each.mean("error") for each in found.standings
    )
    # A normal distribution with the right deviation covers about 90 %, training residuals less.
    for each in found.standings:
        assert 0.8 < each.mean("coverage") < 0.99
        assert each.mean("size") > 500
        assert min(score.fit_seconds for score in each.scores) > 0
    assert standing(found, AUTO).mean("error") == standing(found, "pursuit: small process").mean(
        "error"
    )


def test_log_losses_are_those_of_a_plain_loop(few):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    found = compare_models(X, names, task="classification", n_folds=3, random_state=1)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=1).split(X, names))
    for name in ("pursuit: small process", "logistic regression"):
        runs = comparison.contestants("classification", names, 100, random_state=1)
        make = next(run.make for run in runs if run.name == name)
        for score, (learning, reserved) in zip(standing(found, name).scores, folds, strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of scikit-learn, on what will change
                model = make().fit(X[learning], names[learning])
            expected = log_loss(names[reserved], model.predict_proba(X[reserved]))
            assert score.error == pytest.approx(expected, rel=1e-6)
            wrong = np.mean(model.predict(X[reserved]) != names[reserved])
            assert score.error_rate == pytest.approx(wrong)
            assert np.isnan(score.coverage)


def test_the_encoding_is_learned_within_each_fold(few):
    """Labels of a column of many levels say nothing: statistics of all rows would say much."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    codes = [f"c{number}" for number in rng.integers(0, 100, 300)]
    X = pd.DataFrame({"code": codes, "x": rng.normal(size=300)})
    y = rng.normal(size=300)
    found = compare_models(X, y, task="regression", n_folds=3)
    spread = float(np.std(y))
    for each in found.standings:
        assert each.mean("error") > 0.95 * spread
    # Encoded by all rows at once, the same model seems to predict noise.
    leaked = np.asarray(TableEncoder(categories="target").fit(X, y).transform(X))
    model = RidgeCV().fit(leaked[:200], y[:200])
    assert root_mean_squared_error(y[200:], model.predict(leaked[200:])) < 0.9 * spread


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.7"),
    reason="LogisticRegressionCV of scikit-learn before 1.7 needs every class in every fold",
)
def test_a_class_that_a_fold_has_not_seen(few):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "a", "b").astype(object)
    y[7] = "rare"
    found = compare_models(X, y.astype(str), task="classification", n_folds=3)
    assert all(np.isfinite(each.mean("error")) for each in found.standings)


def test_a_model_without_a_deviation_gets_that_of_rows_left_out():
    """A model that learns its rows by heart has no residuals, and yet its errors are large."""
    from sklearn.neighbors import KNeighborsRegressor

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 1)), rng.normal(size=400)
    fold = comparison._Fold(X[:300], y[:300], X[300:], y[300:], "regression", False)
    score = fold.score(Contestant("by heart", lambda: KNeighborsRegressor(1)))
    assert 0.8 < score.coverage < 0.98
    assert score.log_density > -3.0


def test_too_many_folds():
    with pytest.raises(ValueError, match="9 folds need as many rows"):
        compare_models(np.zeros((5, 1)), np.arange(5.0), task="regression", n_folds=9)


def test_all_contestants_and_the_choice_of_each_fold():
    """Nothing is replaced here: counts, for which all models of numbers compete."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(150, 1))
    y = rng.poisson(np.exp(1 + X[:, 0]))
    lines = []
    found = compare_models(
        X, y, task="regression", n_folds=2, n_basis=12, progress=lines.append, random_state=0
    )
    names = {each.name for each in found.standings if each.name != "LightGBM"}
    assert names == {
        AUTO,
        "pursuit: small process",
        "pursuit: full-scale process",
        "pursuit: Poisson counts",
        "pursuit: negative binomial counts",
        "gradient boosting",
        "ridge",
        "scikit-learn GPR",
    }
    assert found.counts
    assert len(lines) == 2 * len(found.standings)
    auto = standing(found, AUTO)
    for kind, score, fold in zip(found.chosen, auto.scores, range(2), strict=True):
        same = standing(found, f"pursuit: {kind}").scores[fold]
        assert (score.error, score.size) == (same.error, same.size)
        assert score.fit_seconds > same.fit_seconds
    density = {each.name: each.mean("log_density") for each in found.standings}
    assert density["pursuit: Poisson counts"] == max(
        density[name] for name in names if "negative" not in name and name != AUTO
    )


# The command


def test_table_figure_and_page(flowers, few, tmp_path):
    figure, page = tmp_path / "out.png", tmp_path / "out.html"
    result = run(flowers, "-t", "kind", "--folds", 2, "--figure", figure, "--html", page)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == "model log loss error rate fit, s predict, s size, kB".split()
    names = {line.split("  ")[0] for line in lines[1:4]}
    assert names == {"pursuit: small process", AUTO, "logistic regression"}
    assert "150 rows, 2 folds" in lines[-1]
    assert lines[-1].endswith("Chosen by pursuit (auto): small process in 2 folds.")
    assert "predicting classes: 'kind' holds text" in result.stderr
    assert "fold 2 of 2: logistic regression" in result.stderr
    assert figure.read_bytes().startswith(b"\x89PNG")
    html = page.read_text(encoding="utf-8")
    assert html.count("data:image/svg+xml;base64,") == 1
    assert "logistic regression" in html
    assert 'src="http' not in html
    assert '<link rel="stylesheet"' not in html
    again = run(flowers, "-t", "kind", "--html", page)
    assert again.exit_code == 2
    assert "--force" in again.stderr


def test_json_and_csv_agree(flowers, few):
    words = [flowers, "-t", "kind", "--folds", 2, "--quiet"]
    facts = run(*words, "--json")
    table = run(*words, "--csv")
    assert facts.stderr == table.stderr == ""
    found = json.loads(facts.stdout)
    assert (found["task"], found["rows"], found["folds"]) == ("classification", 150, 2)
    rows = list(csv.DictReader(io.StringIO(table.stdout)))
    assert [row["model"] for row in rows] == [model["model"] for model in found["models"]]
    for row, model in zip(rows, found["models"], strict=True):
        errors = [fold["error"] for fold in model["folds"]]
        assert float(row["error"]) == pytest.approx(np.mean(errors), rel=1e-12)
        assert float(row["error_std"]) == pytest.approx(np.std(errors, ddof=1), rel=1e-12)
        assert model["folds"][0]["coverage"] is None


def test_large_tables_are_sampled(flowers, few):
    result = run(flowers, "-t", "kind", "--folds", 2, "--max-rows", 60)
    assert result.exit_code == 0
    assert "60 of 150 rows are drawn at random" in result.stderr
    assert "60 rows, 2 folds" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-t", "kinds"], "did you mean 'kind'?"),
        (["-t", "kind", "-t", "sepal width"], "--target is given twice"),
        (["-t", "kind", "--folds", "1"], "--folds"),
        (["-t", "kind", "--folds", "90"], "too few for 90 folds"),
        (["-t", "kind", "--drop", "kind"], "is the target"),
        (["-t", "kind", "--figure", "out.txt"], ".png"),
        (["-t", "kind", "--figure", "-"], "name a .png"),
        (["-t", "kind", "--html", "out.pdf"], ".html"),
        (["-t", "kind", "--html", "nowhere/out.html"], "there is no folder"),
        (["-t", "kind", "--json", "--csv"], "use one of them"),
        (["-t", "kind", "--html", "-", "--json"], "use one of them"),
        (["-t", "kind", "--task", "regression"], "--task classification"),
        ([], "--target"),
    ],
)
def test_wrong_calls(flowers, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    result = run(flowers, *words)
    assert result.exit_code == 2, result.output
    [line] = result.stderr.splitlines()
    assert said in line
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []
