"""The examples in docstrings do what they say."""

import doctest
import importlib
import pkgutil

import pytest

import pursuit

MODULES = ["pursuit"] + [
    module.name for module in pkgutil.walk_packages(pursuit.__path__, prefix="pursuit.")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert failed == 0


def test_the_estimator_has_an_example():
    examples = doctest.DocTestFinder(recurse=False).find(pursuit.SparseGPRegressor)
    assert sum(len(example.examples) for example in examples) >= 3
