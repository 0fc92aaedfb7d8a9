"""The page in a real browser: the slider moves the numbers, by pointer and by key, in silence."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from sklearn.gaussian_process.kernels import RBF

import pursuit

COARSE = 24, 32


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (400, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(400)
    process = pursuit.SparseGPRegressor(RBF([1.0] * 3), noise=0.05, n_basis=40, random_state=0)
    return process.fit(X, y), X, y


def shown(page):
    return page.eval_on_selector_all("#chosen, .card output", "all => all.map(o => o.value)")


def test_the_slider_moves_the_numbers(opened, model, tmp_path):
    path = tmp_path / "report.html"
    model[0].report(path, *model[1:])
    page, complaints = opened(path)
    # What the file says without the script is what the script writes.
    written = page.evaluate(
        "fetch => new DOMParser().parseFromString(fetch, 'text/html')"
        ".querySelectorAll('#chosen, .card output').length",
        path.read_text(encoding="utf-8"),
    )
    first = shown(page)
    assert first[0] == "40"
    assert len(first) == written >= 4
    page.locator("#size").fill("0")
    smallest = shown(page)
    assert smallest[0] == "1"
    assert all(a != b for a, b in zip(first, smallest, strict=True))
    assert page.locator("#size").get_attribute("aria-valuetext") == "1 basis functions"
    assert complaints == []


def test_it_is_reached_and_moved_by_key(opened, model, tmp_path):
    path = tmp_path / "report.html"
    model[0].report(path)
    page, complaints = opened(path)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "size":
            break
    assert page.evaluate("document.activeElement.id") == "size"
    before = shown(page)
    page.keyboard.press("ArrowLeft")
    assert shown(page) != before
    page.keyboard.press("Home")
    assert shown(page)[0] == "1"
    assert page.locator("label[for=size]").count() == 1
    assert complaints == []


def coarse(page):
    """A screenshot as a few grey boxes: fonts and their edges differ, the layout must not."""
    from io import BytesIO

    image = Image.open(BytesIO(page.screenshot())).convert("L")
    return np.asarray(image.resize(COARSE[::-1], Image.Resampling.BOX), dtype=float)


def test_screenshot(opened, model, tmp_path):
    path = tmp_path / "report.html"
    model[0].report(path, *model[1:])
    page, _ = opened(path)
    once = coarse(page)
    again = coarse(opened(path)[0])
    assert np.abs(once - again).max() <= 1.0, "the same page twice"
    assert once.std() > 5.0, "something is on it"
    page.locator("#size").fill("0")
    moved = np.abs(coarse(page) - once)
    assert moved.max() > 1.0, "moving the slider is seen"
    assert (moved > 1.0).mean() < 0.3, "and changes its part of the page only"
    page.emulate_media(color_scheme="dark")
    assert coarse(page).mean() < 80.0 < once.mean(), "dark where dark is asked for"
    width = page.evaluate("document.documentElement.scrollWidth")
    page.set_viewport_size({"width": 420, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420 < width


def test_regions_of_near_rows_fit_a_small_screen(opened, model, tmp_path):
    _, X, y = model
    path = tmp_path / "report.html"
    whole = pursuit.FullScaleGPRegressor(
        RBF([0.5] * 3), optimizer=None, noise=0.05, n_basis=20, n_neighbors=8, random_state=0
    )
    whole.fit(X[:300], y[:300]).report(path, X[300:], y[300:])
    page, complaints = opened(path)
    first, second = page.locator("td.pair .bar").all()[:2]
    assert first.bounding_box()["y"] < second.bounding_box()["y"], "one bar above the other"
    assert page.locator(".named").count() == 4
    page.set_viewport_size({"width": 420, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert complaints == []


@pytest.mark.parametrize(
    "name",
    ["SparseKernelRidge", "KernelMatchingPursuitRegressor", "GreedyFeatureMap", "SparseKernelPCA"],
)
def test_other_models(name, opened, model, tmp_path):
    _, X, y = model
    size = "n_components" if name == "GreedyFeatureMap" else "n_basis"
    path = tmp_path / "report.html"
    getattr(pursuit, name)(**{size: 12}).fit(X, y).report(path)
    page, complaints = opened(path)
    page.locator("#size").fill("0")
    assert shown(page)[0] == "1"
    assert complaints == []
