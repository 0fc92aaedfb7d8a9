"""The examples in docstrings do what they say."""

import doctest
import importlib
import pkgutil
from importlib.util import find_spec
from pathlib import Path

import pytest

import pursuit

MODULES = ["pursuit"] + [
    module.name for module in pkgutil.walk_packages(pursuit.__path__, prefix="pursuit.")
]
WITH_EXAMPLES = [
    name for name in MODULES if ">>>" in Path(find_spec(name).origin).read_text(encoding="utf-8")
]


def test_every_module_can_be_imported():
    assert len(MODULES) > 100
    for name in MODULES:
        importlib.import_module(name)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstrings(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert failed == 0


def test_the_estimator_has_an_example():
    examples = doctest.DocTestFinder(recurse=False).find(pursuit.SparseGPRegressor)
    assert sum(len(example.examples) for example in examples) >= 3
