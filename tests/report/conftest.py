"""A real browser for the pages."""

from __future__ import annotations

import shutil

import pytest

ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --force-color-profile=srgb"
).split()


@pytest.fixture(scope="session")
def browser():
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("no Chromium on this machine: install the package chromium to run this test")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def opened(browser):
    """``opened(path)``: the page, and a list of all that it complained about or fetched."""
    context = browser.new_context(viewport={"width": 1100, "height": 1400})

    def open_file(path):
        page, complaints = context.new_page(), []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url))
        page.goto(path.as_uri())
        assert complaints.pop(0) == path.as_uri(), "the page itself is the only request"
        if page.locator("#controls").count():
            page.wait_for_selector("#controls[data-ready]")
        return page, complaints

    yield open_file
    context.close()
