"""What the report says of near rows, against plain loops over rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RBF, DotProduct
from sklearn.metrics import log_loss

import pursuit
from pursuit import FullScaleGPRegressor
from pursuit.estimators.full_scale.gains import bands
from pursuit.estimators.reporting import describe
from pursuit.plots.report import Comparison, Panel, Report, Table, precise, render
from pursuit.store import read
from tests.report.test_report import checked

COSTS, REGIONS = "With and without near rows", "What near rows brought, by region"
SCALES = np.array([0.3, 0.6])
GIVEN = {
    "kernel": 1.5 * RBF(SCALES),
    "optimizer": None,
    "noise": 0.02,
    "n_basis": 25,
    "n_neighbors": 8,
    "random_state": 0,
}


def rough(m, seed=0, n_outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (m, 2))
    y = np.sin(3.0 * X[:, 0]) + np.sin(9.0 * X[:, 1]) + 0.1 * rng.standard_normal(m)
    return X, y if n_outputs == 1 else np.stack([y, 50.0 + 10.0 * y**2], axis=1)


@pytest.fixture(scope="module")
def fitted():
    X, y = rough(600)
    return FullScaleGPRegressor(**GIVEN).fit(X, y), X, y


def panels(report):
    return {panel.title: panel for panel in report.panels}


def row(some, y, predictions):
    """What a table says of some rows, and the numbers of its bars."""
    rmse, inside = [], []
    for mean, std in predictions:
        error = (y - mean)[some]
        rmse.append(np.sqrt(np.mean(error**2)))
        inside.append(np.mean(np.abs(error) <= 1.959963984540054 * std[some]))
    shares = [f"{share:.1%}" for share in inside]
    removed = f"{1 - rmse[1] / rmse[0]:.0%}"
    return [f"{np.sum(some)}", precise(rmse[0]), precise(rmse[1]), removed, *shares], rmse


def test_given_rows_are_grouped_by_distance_and_by_region(fitted):
    model, X, _ = fitted
    new, y = rough(401, seed=1)
    panel = panels(describe(model, new, y))[REGIONS]
    assert panel.text.startswith("401 rows, as given. ")
    predictions = [part.predict(new, return_std=True) for part in (model.global_, model)]
    by_distance, by_region = panel.comparisons
    assert by_distance.title.endswith("in length scales")

    distance = cdist(new / SCALES, X / SCALES).min(axis=1)
    # The edges of 8 bands of 401 rows are rows themselves: every 50th.
    rank = np.argsort(np.argsort(distance))
    band = np.minimum(rank // 50, 7)
    ordered = np.sort(distance)
    for j, (said, pair) in enumerate(zip(by_distance.table.rows, by_distance.pairs, strict=True)):
        expected, rmse = row(band == j, y, predictions)
        assert said == [f"{ordered[50 * j]:.2g} to {ordered[50 * j + 50]:.2g}", *expected]
        assert pair == pytest.approx(rmse)

    centres = np.array(
        [[float(word.split(" = ")[1]) for word in r[0].split(", ")] for r in by_region.table.rows]
    )
    nearest = cdist(new / SCALES, centres / SCALES).argmin(axis=1)
    gains = []
    for j, (said, pair) in enumerate(zip(by_region.table.rows, by_region.pairs, strict=True)):
        expected, rmse = row(nearest == j, y, predictions)
        assert said[1:] == expected
        assert pair == pytest.approx(rmse)
        gains.append(int(said[1]) * (pair[0] ** 2 - pair[1] ** 2))
    assert len(gains) == 8
    assert gains == sorted(gains, reverse=True)


@pytest.mark.parametrize("coupling", ["late", "full"])
def test_reserved_rows_stand_in_for_new_ones(fitted, coupling):
    _, X, y = fitted
    model = FullScaleGPRegressor(**GIVEN, coupling=coupling).fit(X, y)
    found = panels(describe(model))
    judging = [int(np.flatnonzero((x == X).all(axis=1))[0]) for x in model._judges.items]
    assert found[REGIONS].text.startswith(
        f"{len(judging)} rows, reserved by the fit, each left out in turn. "
    )
    mean, std = model.leave_one_out(X[judging], y[judging])
    # The global part by deletion: coordinates of all rows but one, error bars as calibrated.
    sparse_model, kernel = model.global_, model.kernel_
    R = np.linalg.cholesky(kernel(sparse_model.basis_))
    V = np.linalg.solve(R, kernel(sparse_model.basis_, X)).T
    scaled, spread = (y - y.mean()) / y.std(), sparse_model._spread
    global_mean, global_std = np.empty(len(judging)), np.empty(len(judging))
    for at, i in enumerate(judging):
        rest = np.delete(np.arange(len(X)), i)
        B = V[rest].T @ V[rest] + sparse_model.noise_ * np.eye(V.shape[1])
        global_mean[at] = V[i] @ np.linalg.solve(B, V[rest].T @ scaled[rest])
        q, missed = V[i] @ np.linalg.solve(B, V[i]), 1.5 - V[i] @ V[i]
        factor = spread.factor(np.array([missed]), np.array([1.5]))[0]
        global_std[at] = np.sqrt(spread.noise * (1 + q) + factor * missed)
    predictions = [(y.mean() + y.std() * global_mean, y.std() * global_std), (mean, std)]
    everything = np.ones(len(judging), dtype=bool)
    said, _ = row(everything, y[judging], predictions)
    overall = {name: values for name, *values in found[COSTS].table.rows}
    known = slice(None) if coupling == "late" else slice(0, 1)
    assert overall["Root mean square error"][known] == said[1:3][known]
    assert overall["Within 95 % intervals"][known] == said[4:][known]
    if coupling == "full":
        # Whitened sums are left by all of these rows together, as in the calibration.
        expected = precise(model.calibration_.rmse * float(y.std()))
        assert overall["Root mean square error"][1] == expected
    # Their own distance is not 0: a row is left out of those it is compared with.
    apart = cdist(X[judging] / SCALES, X / SCALES)
    apart[np.arange(len(judging)), judging] = np.inf
    first = found[REGIONS].comparisons[0].table.rows[0][0]
    assert float(first.split(" to ")[0]) == pytest.approx(apart.min(), rel=0.05)


def test_costs_are_those_of_the_whole_model(fitted, tmp_path):
    report = describe(fitted[0])
    assert (
        report.summary
        == "25 basis functions and 8 near rows, fitted to 600 rows; stopped by n_basis."
    )
    assert report.caption == "The curves are those of the global part, without 8 near rows."
    costs = {name: values for name, *values in panels(report)[COSTS].table.rows}
    sizes = []
    for model in (fitted[0].global_, fitted[0]):
        model.save(tmp_path / "model")
        sizes.append(sum(array.nbytes for array in read(tmp_path / "model")[1].values()))
    assert costs["Numbers in the model"] == [f"{precise(size / 1e3)} kB" for size in sizes]
    assert costs["Features in memory"] == ["0 kB", "120 kB"]
    curves = {curve.name: curve.values[-1] for curve in report.curves}
    before, after = (
        float(text.split()[0].replace(",", "")) for text in costs["Time to predict a row"]
    )
    assert precise(curves["Time to predict a row"]) == precise(before)
    assert after > before
    assert any(note == "Near rows: 8, as given." for note in report.notes)


def test_basis_path_and_certificate_are_those_of_the_global_part(fitted):
    model, X, y = fitted
    report, expected = (
        describe(model, X, y, certify=True),
        describe(model.global_, X, y, certify=True),
    )
    for name in ("sizes", "certificate", "relevance", "basis"):
        assert getattr(report, name) == getattr(expected, name)
    for found, other in zip(report.curves, expected.curves, strict=True):
        if "Time" not in found.name:
            np.testing.assert_allclose(found.values, other.values)
    mean, std = model.predict(X, return_std=True)
    inside = np.mean(np.abs(y - mean) <= 1.959963984540054 * std)
    assert dict(report.coverage)[0.95] == inside, "the intervals are those of the whole model"


def test_training_rows_are_one_band(fitted):
    model, X, y = fitted
    by_distance = panels(describe(model, X, y))[REGIONS].comparisons[0]
    assert [said[:2] for said in by_distance.table.rows] == [["0", "600"]]


def test_a_model_without_near_rows_has_no_panels(fitted):
    _, X, y = fitted
    report = describe(FullScaleGPRegressor(**(GIVEN | {"n_neighbors": 0})).fit(X, y), X, y)
    assert report.summary.startswith("25 basis functions and no near rows, fitted to 600 rows")
    assert report.caption == ""
    assert [panel.title for panel in report.panels] == ["Rows predicted worst"]


def test_without_rows_to_judge_there_are_costs_only(fitted):
    _, X, y = fitted
    more = FullScaleGPRegressor(**GIVEN).fit(X[:500], y[:500]).partial_fit(X[500:], y[500:])
    assert list(panels(describe(more))) == [COSTS]
    assert REGIONS in panels(describe(more, X, y))


def test_kernels_without_length_scales_use_their_own_distance():
    X, y = rough(400)
    kernel = DotProduct(1.0) ** 3
    model = FullScaleGPRegressor(**(GIVEN | {"kernel": kernel, "n_basis": 4})).fit(X, y)
    new, targets = rough(49, seed=1)
    [comparison] = panels(describe(model, new, targets))[REGIONS].comparisons
    assert comparison.title.endswith("in the kernel's own distance")
    squares = kernel.diag(new)[:, None] + kernel.diag(X) - 2.0 * kernel(new, X)
    distance = np.sqrt(squares.min(axis=1))
    [said] = comparison.table.rows
    assert said[:2] == [f"{distance.min():.2g} to {distance.max():.2g}", "49"]


@pytest.mark.parametrize("kind", ["frame", "csr", "list", "outputs"])
def test_rows_of_every_kind(kind, tmp_path):
    X, y = rough(120, n_outputs=2 if kind == "outputs" else 1)
    settings = dict(GIVEN)
    if kind == "frame":
        X = pd.DataFrame(X, columns=["<b>width</b>", "a name that is longer than twenty letters"])
    elif kind == "csr":
        X = sparse.csr_array(X)
    elif kind == "list":
        X = [str(number) for number in range(120)]
        settings["kernel"] = pursuit.pairwise(lambda a, b: np.exp(-((int(a) - int(b)) ** 2) / 50))
    model = FullScaleGPRegressor(**settings).fit(X, y)
    path = tmp_path / "page.html"
    for judged in ((), (X, y)):
        for each in (model, reloaded(model, tmp_path)):
            each.report(path, *judged)
            page = checked(path.read_text(encoding="utf-8"))
            assert REGIONS in page
            assert "<b>" not in page
            assert ("a name that is longe = " in page) == (kind == "frame")
    found = {name: said for name, *said in panels(describe(model, X, y))[COSTS].table.rows}
    assert "Numbers in the model" in found
    errors = [np.sqrt(np.mean((part.predict(X) - y) ** 2)) for part in (model.global_, model)]
    assert found["Root mean square error"] == list(map(precise, errors))


def reloaded(model, folder):
    if callable(model.kernel) and not hasattr(model.kernel, "get_params"):
        return model  # a function is not saved
    model.save(folder / "model")
    return pursuit.load(folder / "model")


@pytest.mark.parametrize("n", [1, 2, 7])
def test_bands_hold_about_as_many_values_each(n):
    values = np.random.default_rng(0).gamma(2.0, size=700)
    group, names = bands(values, n)
    assert len(names) == n
    np.testing.assert_allclose(np.bincount(group), 700 / n, atol=1)
    assert all(values[group == j].max() <= values[group == j + 1].min() for j in range(n - 1))
    tied, names = bands(np.array([0.0] * 6 + [1.0, 2.0]), 4)
    assert len(names) == len(set(tied)) == 2


def test_a_comparison_is_drawn_to_scale_and_escaped():
    table = Table(["<i>", "rows"], [["<u>", "3"], ["far", "4"]])
    comparison = Comparison("<s>", table, ("<em>", "b"), [(4.0, 1.0), (2.0, 2.0)])
    report = Report("t", "s", Table([], []), Table([], []), [], [])
    page = checked(
        render(
            Report(
                **(vars(report) | {"panels": [Panel("A panel", "<p>", comparisons=[comparison])]})
            ),
            "0",
        )
    )
    widths = [part.split("%")[0] for part in page.split('style="width:')[1:]]
    assert widths == ["100.0", "25.0", "50.0", "50.0"]
    for tag in ("i", "u", "s", "em"):
        assert f"<{tag}>" not in page
        assert f"&lt;{tag}&gt;" in page


def test_classes_have_a_log_loss_and_an_accuracy():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 2))
    y = np.where(np.sin(15 * X[:, 0]) * np.sin(15 * X[:, 1]) > 0, "odd", "even")
    model = pursuit.FullScaleGPClassifier(
        1.0 * RBF(0.1), n_basis=10, n_neighbors=8, optimizer=None, random_state=0
    ).fit(X[:300], y[:300])
    report = describe(model, X[300:], y[300:])
    found = {row[0]: row[1:] for row in report.panels[0].table.rows}
    parts = model.global_, model
    losses = [log_loss(y[300:], part.predict_proba(X[300:])) for part in parts]
    assert found["Log loss"] == list(map(precise, losses))
    assert found["In the right class"] == [f"{p.score(X[300:], y[300:]):.1%}" for p in parts]
    [by_distance, *_] = report.panels[1].comparisons
    assert by_distance.table.columns[2] == "log loss, global part"
