"""scikit-learn's tests with our classes: what is replaced, what is counted, what is left out."""

from __future__ import annotations

import re
from importlib import util
from pathlib import Path

import numpy as np
import pytest
import sklearn.kernel_ridge
from sklearn.base import clone
from sklearn.utils.fixes import parse_version

import pursuit
from peers import __main__ as command
from peers import plugin
from peers.adapters import ADAPTERS, Adapter, NotOfferedError
from peers.files import FILES, LEFT_OUT


def source(name):
    return Path(util.find_spec(FILES[name]).origin)


def test_a_copy_of_a_test_file_has_our_classes_and_scikit_learn_keeps_its_own():
    own = sklearn.kernel_ridge.KernelRidge
    copy = plugin.loaded(source("test_kernel_ridge"))
    assert copy.KernelRidge is ADAPTERS[own]
    assert issubclass(copy.KernelRidge, pursuit.SparseKernelRidge)
    assert sklearn.kernel_ridge.KernelRidge is own
    copy.test_kernel_ridge()


@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=lambda adapter: adapter.__name__)
def test_adapters_have_the_arguments_and_defaults_of_their_peers(adapter):
    made = Adapter.made
    model = adapter()
    assert Adapter.made == made + 1
    assert model.get_params() == adapter.peer().get_params()
    assert clone(model).get_params() == model.get_params()
    assert isinstance(model, adapter.ours)


def test_an_argument_without_a_counterpart_is_refused_by_name():
    mixture = ADAPTERS[sklearn.mixture.GaussianMixture]
    with pytest.raises(NotOfferedError, match="warm_start has no counterpart in HullMixture"):
        mixture(warm_start=True).fit(np.eye(3))
    with pytest.raises(NotOfferedError, match="means_init has no counterpart"):
        mixture(means_init=np.eye(3)).fit(np.eye(3))


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="the tests are those of 1.9"
)
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_exists(name):
    functions = set(re.findall(r"^def (test_\w+)", source(name).read_text(), re.MULTILINE))
    assert {test.partition("[")[0] for test in LEFT_OUT[name]} - functions == set()
    assert all(len(reason) > 10 for reason in LEFT_OUT[name].values())


def test_outcomes_are_counted_by_file_and_reason():
    lines = [
        {"test": "a", "outcome": "passed", "why": ""},
        {"test": "b", "outcome": "failed", "why": "E  wrong"},
        {"test": "c[1]", "outcome": "skipped", "why": "private"},
        {"test": "c[2]", "outcome": "skipped", "why": "private"},
        {"test": "d", "outcome": "none of our classes", "why": ""},
    ]
    counts = {"passed": 1, "failed": {"b": "E  wrong"}, "left out": {"private": 2}}
    assert command.summary(lines) == counts


def test_a_file_that_is_unknown_is_named(capsys):
    assert command.main(["test_nothing"]) == 2
    assert "No file is called test_nothing; there are test_gpr" in capsys.readouterr().out


@pytest.mark.verify
def test_a_file_passes(capsys):
    assert command.main(["test_kernel_ridge"]) == 0
    assert re.search(r"test_kernel_ridge +9 +0 +1", capsys.readouterr().out)
