"""CertificateDisplay draws the bounds it was given, and says what to do when it cannot."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from pursuit import SparseGPRegressor
from pursuit.plots import CertificateDisplay
from pursuit.plots.axes import COLOURS

matplotlib.use("agg")
from matplotlib import pyplot as plt

SIZES, UPPER = [5, 10, 20], [9.0, 6.0, 5.0]
LOWER = {"published": [1.0, 2.0, 3.0], "hybrid": [0.0, 4.0, 5.0]}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = 5 + np.sin(X).sum(axis=1) + 0.3 * rng.normal(size=80)
    model = SparseGPRegressor(noise=0.1, n_basis=20, optimizer=None, normalize_y=False)
    return model.fit(X, y), X, y


def heights(display, name):
    return display.lines_[name].get_ydata()


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_gaps_in_units_of_the_objective():
    display = CertificateDisplay(SIZES, UPPER, LOWER, floor=[3.0, 2.0, 1.0]).plot()
    assert display.lines_["hybrid"].get_xdata().tolist() == SIZES
    assert heights(display, "published").tolist() == [8, 4, 2]
    # A gap of 0 has no place on a logarithmic axis.
    np.testing.assert_array_equal(heights(display, "hybrid"), [9, 2, np.nan])
    assert heights(display, "floor").tolist() == [3, 2, 1]
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("log", "log")
    assert display.ax_.get_ylabel() == "Gap P(f) - D (units of P)"
    assert display.ax_.get_xlabel() == "Number of basis functions"
    assert legend(display) == ["published", "hybrid", "noise floor of the published kind"]
    assert display.figure_ is display.ax_.figure


def test_relative_gaps():
    display = CertificateDisplay(
        SIZES, UPPER, {"dense": [-20.0, 2.0, 3.0]}, floor=[4.0, 2.0, 1.0], target_norm=15.0
    ).plot()
    # 2 (P - D) / (y'y - P - D).
    np.testing.assert_allclose(heights(display, "dense"), [58 / 26, 8 / 7, 4 / 7])
    # The floor f is the gap of the lower bound P - f, so that its scale is y'y - 2P + f.
    np.testing.assert_allclose(heights(display, "floor"), [8 / 1, 4 / 5, 2 / 6])
    assert display.ax_.get_ylabel() == "Relative gap (no units)"


def test_a_relative_gap_that_has_no_scale_is_left_out():
    display = CertificateDisplay([1, 2], [9.0, 5.0], {"dense": [8.0, 4.0]}, target_norm=15.0).plot()
    np.testing.assert_array_equal(heights(display, "dense"), [np.nan, 2 / 6])


def test_bounds_close_in():
    display = CertificateDisplay(SIZES, UPPER, LOWER, floor=SIZES, show="bounds").plot()
    assert list(display.lines_) == ["upper", "published", "hybrid"]
    assert heights(display, "upper").tolist() == UPPER
    assert heights(display, "published").tolist() == LOWER["published"]
    np.testing.assert_array_equal(heights(display, "hybrid"), [np.nan, 4, 5])
    assert legend(display) == ["P(f), from above", "published, from below", "hybrid, from below"]
    band = display.ax_.collections[0].get_paths()[0]
    assert band.contains_point((10, 4.0))
    assert not band.contains_point((10, 1.5))
    assert not band.contains_point((10, 7.0))


def test_kinds_differ_in_colour_and_marker():
    kinds = {f"kind {number}": UPPER for number in range(9)}
    display = CertificateDisplay(SIZES, UPPER, kinds, show="bounds").plot()
    styles = [
        (display.lines_[kind].get_color(), display.lines_[kind].get_marker()) for kind in kinds
    ]
    assert len(set(styles)) == 9
    assert [colour for colour, _ in styles[:6]] == list(COLOURS[:6])


def test_line_keywords_win_and_axes_are_used():
    figure, ax = plt.subplots()
    display = CertificateDisplay(SIZES, UPPER, LOWER).plot(ax=ax, color="red", marker="x")
    line = display.lines_["published"]
    assert (line.get_color(), line.get_marker()) == ("red", "x")
    assert display.ax_ is ax
    assert display.plot() is display
    assert display.figure_ is not figure


def test_from_estimator_draws_its_certified_path(fitted):
    model, X, y = fitted
    display = CertificateDisplay.from_estimator(model, X, y, sizes=[4, 12, 20])
    assert list(display.lines_) == ["published", "hybrid", "floor"]
    for kind in ("published", "hybrid"):
        path = model.certify_path(X, y, kind=kind, sizes=[4, 12, 20])
        np.testing.assert_allclose(heights(display, kind), path.relative_gap, rtol=1e-9)
    assert np.all(heights(display, "floor") <= heights(display, "published"))
    assert np.all(heights(display, "floor") > 0)


def test_from_estimator_in_units_of_the_objective(fitted):
    model, X, y = fitted
    display = CertificateDisplay.from_estimator(
        model, X, y, kinds=["scaled"], relative=False, sizes=[10, 20], linestyle=":"
    )
    path = model.certify_path(X, y, kind="scaled", sizes=[10, 20], floor=True)
    np.testing.assert_allclose(heights(display, "scaled"), path.gap, rtol=1e-9)
    np.testing.assert_allclose(heights(display, "floor"), path.floor, rtol=1e-6)
    assert display.lines_["scaled"].get_linestyle() == ":"


def test_from_estimator_with_weights(fitted):
    model, X, y = fitted
    weights = np.linspace(0.5, 2, 80)
    display = CertificateDisplay.from_estimator(
        model, X, y, weights, kinds=["dense"], floor=False, sizes=[20]
    )
    expected = model.certify(X, y, weights, kind="dense").relative_gap
    assert heights(display, "dense")[0] == pytest.approx(expected, rel=1e-9)
    assert "floor" not in display.lines_


def test_no_floor_is_computed_for_bounds():
    asked = []
    certificate = SimpleNamespace(target_norms=np.array([15.0]))

    def certify_path(X, y, sample_weight, kind, *, sizes, floor):
        asked.append((kind, floor))
        return SimpleNamespace(
            sizes=SIZES, upper=UPPER, lower=LOWER[kind], floor=None, certificates=[certificate]
        )

    estimator = SimpleNamespace(certify_path=certify_path, path_=None)
    CertificateDisplay.from_estimator(estimator, None, None, show="bounds")
    CertificateDisplay.from_estimator(estimator, None, None)
    assert asked == [
        ("published", False),
        ("hybrid", False),
        ("published", True),
        ("hybrid", False),
    ]


def test_wrong_estimators():
    with pytest.raises(TypeError, match="estimator SimpleNamespace has no certify_path: pass one"):
        CertificateDisplay.from_estimator(SimpleNamespace(), None, None)
    with pytest.raises(NotFittedError, match="SparseGPRegressor is not fitted: call its fit"):
        CertificateDisplay.from_estimator(SparseGPRegressor(), None, None)


def test_wrong_choices_and_shapes(fitted):
    with pytest.raises(ValueError, match='show must be "gap" or "bounds", got \'both\''):
        CertificateDisplay(SIZES, UPPER, LOWER, show="both").plot()
    with pytest.raises(ValueError, match='show must be "gap" or "bounds", got \'both\''):
        CertificateDisplay.from_estimator(*fitted, show="both")
    for kinds in ("hybrid", []):
        with pytest.raises(ValueError, match="kinds must be a sequence of at least one kind"):
            CertificateDisplay.from_estimator(*fitted, kinds=kinds)
    with pytest.raises(ValueError, match=r"upper must have one entry .* shapes \(2,\) and \(3,\)"):
        CertificateDisplay(SIZES, UPPER[:2], LOWER).plot()
    with pytest.raises(ValueError, match=r"lower\['dense'\] must have one entry for each of sizes"):
        CertificateDisplay(SIZES, UPPER, {"dense": [1.0]}).plot()
    with pytest.raises(ValueError, match="floor must have one entry for each of sizes"):
        CertificateDisplay(SIZES, UPPER, LOWER, floor=[1.0]).plot()


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "pursuit\[plot\]"'):
        CertificateDisplay(SIZES, UPPER, LOWER).plot()
