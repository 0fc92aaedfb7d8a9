"""PartsDisplay: panels, curves, bands and maps beside what the model says."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, DotProduct

from pursuit import (
    ExactGPRegressor,
    FullScaleGPRegressor,
    PartsDisplay,
    SparseKernelRidge,
    on_columns,
)

matplotlib.use("agg")
from matplotlib import pyplot as plt

KERNEL = (
    on_columns(RBF(), [0])
    + on_columns(RBF(), [1]) * on_columns(RBF(), [2])
    + 0.1 * DotProduct()
    + on_columns(DotProduct(), [2])
)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 3))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_curves_bands_and_maps_are_those_of_the_model(rows):
    X, y = rows
    model = ExactGPRegressor(KERNEL, optimizer=None, noise=0.01).fit(X, y)
    display = PartsDisplay.from_estimator(model, X, target="height (m)", grid_resolution=7)
    assert [ax.get_title() for ax in display.axes_] == [
        "RBF(x0)",
        "RBF(x1) * RBF(x2)",
        "DotProduct(x2)",
    ]
    curve, image, line = display.axes_
    assert (curve.get_xlabel(), curve.get_ylabel()) == ("x0", "height (m)")
    assert (image.get_xlabel(), image.get_ylabel()) == ("x1", "x2")
    grid = np.linspace(X[:, 0].min(), X[:, 0].max(), 7)
    at = np.column_stack([grid, np.full((7, 2), 0.3)])  # other columns do not matter
    parts, std = model.predict_parts(at, return_std=True, center=X)
    np.testing.assert_allclose(curve.lines[0].get_xydata(), np.column_stack([grid, parts[:, 0]]))
    band = curve.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(np.max(parts[:, 0] + 1.959964 * std[:, 0]), rel=1e-6)
    corner = [[0.0, X[:, 1].max(), X[:, 2].min()]]
    assert display.means[1][-1, 0] == pytest.approx(model.predict_parts(corner, center=X)[0, 1])
    slope = np.diff(line.lines[0].get_ydata())
    np.testing.assert_allclose(slope, slope[0], rtol=1e-8)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_keep_their_names(kind, rows):
    X, y = rows
    frame = pd.DataFrame(X, columns=["rain", "wind", "sun"])
    if kind == "polars":
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame(X, schema=["rain", "wind", "sun"])
    model = ExactGPRegressor(KERNEL, optimizer=None, noise=0.01).fit(frame, y)
    display = PartsDisplay.from_estimator(model, frame, parts=["RBF(rain)"])
    [ax] = display.axes_
    assert ax.get_xlabel() == "rain"
    array = ExactGPRegressor(KERNEL, optimizer=None, noise=0.01).fit(X, y)
    plain = PartsDisplay.from_estimator(array, X, parts=["RBF(x0)"])
    np.testing.assert_allclose(display.means[0], plain.means[0], rtol=1e-10)


def test_models_without_error_bars_have_no_bands(rows):
    X, y = rows
    near = FullScaleGPRegressor(KERNEL, n_basis=10, n_neighbors=8, optimizer=None, noise=0.01)
    for model in (SparseKernelRidge(KERNEL).fit(X, y), near.fit(X, y)):
        display = PartsDisplay.from_estimator(model, X)
        assert display.stds is None
        assert len(display.axes_) == 3
        assert not display.axes_[0].collections


def test_axes_of_ones_own(rows):
    X, y = rows
    model = ExactGPRegressor(KERNEL, optimizer=None, noise=0.01).fit(X, y)
    _, axes = plt.subplots(1, 3)
    assert PartsDisplay.from_estimator(model, X, ax=axes).axes_ == list(axes)
    with pytest.raises(ValueError, match="each of the 3 parts, got 1"):
        PartsDisplay.from_estimator(model, X, ax=axes[:1])


def test_what_cannot_be_drawn_is_refused(rows):
    X, y = rows
    model = ExactGPRegressor(KERNEL, optimizer=None, noise=0.01)
    with pytest.raises(NotFittedError, match="fit"):
        PartsDisplay.from_estimator(model, X)
    model.fit(X, y)
    with pytest.raises(ValueError, match="'rain' is not one of"):
        PartsDisplay.from_estimator(model, X, parts=["rain"])
    with pytest.raises(ValueError, match="'DotProduct' is not a function of one or two"):
        PartsDisplay.from_estimator(model, X, parts=["DotProduct"])
    with pytest.raises(ValueError, match="coverage"):
        PartsDisplay.from_estimator(model, X, coverage=1.0)
    whole = ExactGPRegressor(RBF(), optimizer=None, noise=0.01).fit(X, y)
    with pytest.raises(ValueError, match=r"such as Additive\(RBF\(\)\)"):
        PartsDisplay.from_estimator(whole, X)
    two = ExactGPRegressor(KERNEL, optimizer=None, noise=0.01).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="one output, and there are 2"):
        PartsDisplay.from_estimator(two, X)
