"""A plugin of pytest that loads scikit-learn's test files with our classes in place of its own."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from peers.adapters import ADAPTERS, OTHERS, Adapter, NotOfferedError
from peers.files import AGAIN, FILES, LEFT_OUT

PATHS = {Path(str(importlib.util.find_spec(name).origin)): name for name in FILES.values()}  # type: ignore[union-attr]
"""Where the installed test files lie."""
NAMES = re.compile(r"\b(" + "|".join(peer.__name__ for peer in ADAPTERS) + r")\b")
"""The names of the classes that are replaced, in a source."""
OUTCOMES = "PEERS_OUTCOMES"
"""Environment variable: the file for the outcomes."""
RUN = os.environ.get("PEERS_RUN", "")
"""What is run: one of the files, perhaps with another adapter."""
if RUN in AGAIN:
    instead = OTHERS[AGAIN[RUN][1]]
    ADAPTERS[instead.peer] = instead


@contextmanager
def replaced() -> Iterator[None]:
    """Let the packages of scikit-learn export our classes for as long as this lasts."""
    before = []
    for name, module in list(sys.modules.items()):
        if name.startswith("sklearn.") and ".tests" not in name:
            before += [
                (module, attribute, value)
                for attribute, value in list(vars(module).items())
                if inspect.isclass(value) and value in ADAPTERS
            ]
    try:
        for module, attribute, value in before:
            setattr(module, attribute, ADAPTERS[value])
        yield
    finally:
        for module, attribute, value in before:
            setattr(module, attribute, value)


def loaded(path: Path) -> ModuleType:
    """A copy of a test file as a module in which every name of a peer is ours."""
    name = PATHS[path]
    module = ModuleType(name)
    module.__file__, module.__package__ = str(path), name.rpartition(".")[0]
    # What the file imports is imported with scikit-learn's own classes, and keeps them.
    importlib.import_module(name)
    with replaced():
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))
        # `svm.SVC` in the body of a test is looked up when the test runs.
        for attribute, value in list(vars(module).items()):
            if inspect.ismodule(value) and value.__name__.startswith("sklearn"):
                setattr(module, attribute, _copied(value))
    return module


def _copied(module: ModuleType) -> ModuleType:
    copy = ModuleType(module.__name__)
    vars(copy).update(vars(module))
    return copy


class PeerModule(pytest.Module):
    """A test file with our classes."""

    def _getobj(self) -> ModuleType:
        return loaded(self.path)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> pytest.Module | None:
    """Collect the files of scikit-learn in our own way."""
    if module_path in PATHS:
        return PeerModule.from_parent(parent, path=module_path)  # type: ignore[no-any-return]
    return None


def reason(item: pytest.Item) -> str | None:
    """Why a test is left out, if it is; named by its function, or with its parameters."""
    listed = LEFT_OUT.get(RUN or item.path.stem, {})
    function = getattr(item, "originalname", None) or item.name
    return listed.get(item.name, listed.get(function))


def concerns_us(item: pytest.Item) -> bool:
    """Whether a test names a class that is replaced, in its source or its parameters."""
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    flat = [
        one for value in values for one in (value if isinstance(value, list | tuple) else [value])
    ]
    ours = any(
        isinstance(one, Adapter) or (inspect.isclass(one) and issubclass(one, Adapter))
        for one in flat
    )
    source = inspect.getsource(item.obj)  # type: ignore[attr-defined]
    # Decorators name the classes of all parameters, and those of this test were looked at.
    return ours or bool(NAMES.search(source[source.index("def ") :]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not concern our classes, and mark what has a reason."""
    ours = [item for item in items if concerns_us(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(ours)])
    items[:] = ours
    for item in items:
        if why := reason(item):
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    """Note what became of a test; one that needs what we do not offer is left out.

    Fits in other processes are not seen here: a test that has no others is not counted.
    """
    before = getattr(item, "_before", Adapter.fitted)
    item._before = before  # type: ignore[attr-defined]
    outcome = yield
    report = outcome.get_result()
    error = call.excinfo.value if call.excinfo is not None else None
    while error is not None and not isinstance(error, NotOfferedError):
        error = error.__cause__ or error.__context__
    if error is not None and report.failed:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: {error}")
    if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
        _note(item, report, call.excinfo)


def _note(item: pytest.Item, report: Any, raised: Any) -> None:
    outcome, why = report.outcome, ""
    if outcome == "skipped" and hasattr(report, "wasxfail"):
        why = f"scikit-learn expects a failure: {report.wasxfail}"
    elif outcome == "skipped":
        why = str(report.longrepr[2]).removeprefix("Skipped: ")
    elif outcome == "failed":
        lines = str(raised.value).strip().splitlines()
        why = ": ".join([raised.typename, *lines[:1]])
    elif Adapter.fitted == item._before:  # type: ignore[attr-defined]
        outcome = "none of our classes"
    line = {"file": item.path.stem, "test": item.name, "outcome": outcome, "why": why}
    with Path(os.environ[OUTCOMES]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
