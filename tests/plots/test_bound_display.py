"""BoundDisplay draws bounds beside curves, dotted where they say nothing."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from pursuit import Bound, SparseGPRegressor, SparseKernelRidge
from pursuit.plots import BoundDisplay

matplotlib.use("agg")
from matplotlib import pyplot as plt

SIZE = np.array([1, 2, 4])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.sin(X).sum(axis=1) + 0.3 * rng.normal(size=60)
    return SparseKernelRidge(method="subspace", n_basis=10).fit(X, y), X, y


def bound(value, trivial=np.inf, name="theorem", quantity="risk", caveat=""):
    return Bound(name, quantity, SIZE, np.array(value), trivial, caveat=caveat)


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_bounds_and_curves():
    display = BoundDisplay(
        [bound([4.0, 2.0, 1.0]), bound([9.0, 0.0, 1.0], name="other", caveat="on average")],
        {"test error": (SIZE, [0.5, 0.25, 0.125])},
    ).plot()
    assert list(display.lines_) == ["theorem", "other", "test error"]
    np.testing.assert_array_equal(display.lines_["other"].get_ydata(), [9, np.nan, 1])
    assert display.lines_["test error"].get_ydata().tolist() == [0.5, 0.25, 0.125]
    assert legend(display) == ["theorem", "other (on average)", "test error"]
    assert display.ax_.get_yscale() == "log"
    assert display.ax_.get_ylabel() == "Bound on risk"
    assert display.figure_ is display.ax_.figure


def test_vacuous_parts_are_dotted():
    display = BoundDisplay([bound([4.0, 2.0, 0.5], trivial=1.0)]).plot()
    np.testing.assert_array_equal(display.lines_["theorem"].get_ydata(), [np.nan, np.nan, 0.5])
    dotted = [line for line in display.ax_.lines if line.get_linestyle() == ":"]
    np.testing.assert_array_equal(dotted[0].get_ydata(), [4.0, 2.0, np.nan])
    assert dotted[0].get_color() == display.lines_["theorem"].get_color()
    assert display.lines_["known"].get_ydata().tolist() == [1.0, 1.0, 1.0]
    assert legend(display) == ["theorem", "known without the bounds"]


def test_a_bound_that_is_vacuous_throughout_says_so():
    display = BoundDisplay([bound([4.0, 2.0, 3.0], trivial=np.array([1.0, 0.5, 0.1]))]).plot()
    assert legend(display) == ["theorem: vacuous", "known without the bounds"]
    assert display.lines_["theorem"].get_ydata().tolist() == [4.0, 2.0, 3.0]
    assert display.lines_["known"].get_ydata().tolist() == [1.0, 0.5, 0.1]


def test_the_same_theorem_twice_keeps_both_lines():
    display = BoundDisplay([bound([4.0, 2.0, 1.0]), bound([5.0, 3.0, 2.0], caveat="cheap")]).plot()
    assert list(display.lines_) == ["theorem", "theorem (cheap)"]


def test_style_and_axes_are_the_callers():
    ax = plt.subplots()[1]
    display = BoundDisplay([bound([3.0, 2.0, 1.0])]).plot(ax=ax, linewidth=5)
    assert display.ax_ is ax
    assert display.lines_["theorem"].get_linewidth() == 5


def test_from_a_fitted_model(fitted):
    model, X, y = fitted
    display = BoundDisplay.from_estimator(model)
    np.testing.assert_allclose(
        display.lines_["known"].get_ydata(), model.path_.value - model.certificate_.lower
    )
    everything = BoundDisplay.from_estimator(model, X, y, curves={"flat": ([1, 10], [1.0, 1.0])})
    assert len([name for name in everything.lines_ if "Theorem 5.1" in name]) == 2
    assert "Zhang 2002b, Theorem 6.1" in everything.lines_
    assert "flat" in everything.lines_


def test_from_any_estimator_with_a_bound():
    model = SimpleNamespace(generalization_bound_=bound([3.0, 2.0, 1.0], trivial=1.0))
    assert "theorem" in BoundDisplay.from_estimator(model).lines_
    several = SimpleNamespace(rate_bound_=[bound([3.0, 2.0, 1.0], name="first class"), None])
    assert list(BoundDisplay.from_estimator(several).lines_) == ["first class"]
    with pytest.raises(TypeError, match="has no rate_bounds to compute from X and y"):
        BoundDisplay.from_estimator(model, np.ones((3, 1)), np.ones(3))


def test_wrong_estimators():
    with pytest.raises(NotFittedError, match="SparseKernelRidge is not fitted"):
        BoundDisplay.from_estimator(SparseKernelRidge())
    X = np.arange(12.0).reshape(6, 2)
    model = SparseGPRegressor(optimizer=None, noise=0.1).fit(X, X[:, 0])
    with pytest.raises(TypeError, match="SparseGPRegressor has no bound"):
        BoundDisplay.from_estimator(model)


def test_bounds_of_one_quantity():
    with pytest.raises(ValueError, match="all of one quantity"):
        BoundDisplay([bound([1.0, 1.0, 1.0]), bound([1.0, 1.0, 1.0], quantity="steps")]).plot()
    with pytest.raises(ValueError, match="at least one"):
        BoundDisplay([]).plot()


def test_long_names_are_wrapped_and_find_room():
    name = "the probability of missing a new target by more than a tolerance"
    bound = Bound("a theorem of several people", name, SIZE, 0.5 / SIZE, caveat="if " * 20 + "so")
    display = BoundDisplay([bound]).plot()
    label, legend = display.ax_.get_ylabel(), display.ax_.get_legend().get_texts()[0].get_text()
    assert label.replace("\n", " ") == f"Bound on {name}"
    assert max(map(len, [*label.split("\n"), *legend.split("\n")])) <= 42
    assert display.figure_.get_constrained_layout()
