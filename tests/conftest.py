"""Shared by all tests: the --verify option, hypothesis profiles, data and read-only arrays."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# Test files are imported by path, so the folder of their shared modules must be named.
sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("test", derandomize=True, max_examples=25, deadline=None)
settings.register_profile("verify", max_examples=150, deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--verify",
        action="store_true",
        help="larger sizes, more hypothesis examples, and the tests marked verify",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Shells start commands in the background deaf to Ctrl-C, which tests of it send.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--verify"):
        settings.load_profile("verify")
        return
    settings.load_profile("test")
    # Numbers in the sources that happen to be loaded would be examples too: then examples would
    # depend on the tests that came before, and change with sources that have no part in a test.
    with contextlib.suppress(ImportError):
        from hypothesis.internal.conjecture import providers

        providers.is_local_module_file = lambda path: False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--verify"):
        return
    held_back = [item for item in items if item.get_closest_marker("verify")]
    if held_back:
        config.hook.pytest_deselected(items=held_back)
        items[:] = [item for item in items if not item.get_closest_marker("verify")]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Half a million objects of modules and tests stay: spare every garbage collection of them."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def patient() -> Iterator[None]:
    """An interrupted fit may take its time: on a busy machine it would be given up now and then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pursuit.estimators.fit_run.GRACE_SECONDS", 600.0)
        yield


@pytest.fixture(scope="session")
def size(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """``size(small, large)``: the small number in ``make test``, the large in ``make verify``."""
    verify = request.config.getoption("--verify")
    return lambda small, large: large if verify else small


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public data sets; the test is skipped where there is none."""
    folder = os.environ.get("PURSUIT_DATA")
    if not folder:
        pytest.skip("PURSUIT_DATA is not set: no folder of public data sets to read")
    return Path(folder)


@pytest.fixture(scope="session")
def read_only() -> Callable[[np.ndarray], np.ndarray]:
    """``read_only(array)``: a copy that raises when something writes to it."""

    def locked(array: np.ndarray) -> np.ndarray:
        copy = np.array(array)
        copy.setflags(write=False)
        return copy

    return locked
