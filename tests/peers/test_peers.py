"""scikit-learn's tests with our classes: what is replaced, what is counted, what is left out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.kernel_ridge
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import has_fit_parameter

import pursuit
from peers import __main__ as command
from peers import plugin
from peers.adapters import ADAPTERS, Adapter, NotOfferedError
from peers.files import AGAIN, FILES, LEFT_OUT


def source(name):
    base, _ = AGAIN.get(name, (name, ""))
    return Path(util.find_spec(FILES[base]).origin)


def test_a_copy_of_a_test_file_has_our_classes_and_scikit_learn_keeps_its_own():
    own = sklearn.kernel_ridge.KernelRidge
    copy = plugin.loaded(source("test_kernel_ridge"))
    assert copy.KernelRidge is ADAPTERS[own]
    assert issubclass(copy.KernelRidge, pursuit.SparseKernelRidge)
    assert sklearn.kernel_ridge.KernelRidge is own
    copy.test_kernel_ridge()


@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=lambda adapter: adapter.__name__)
def test_adapters_have_the_arguments_and_defaults_of_their_peers(adapter):
    model = adapter()
    assert model.get_params() == adapter.peer().get_params()
    assert clone(model).get_params() == model.get_params()
    assert isinstance(model, adapter.ours)


def test_modules_of_scikit_learn_keep_its_own_classes_when_a_test_file_imports_them_first():
    lines = [
        "from pathlib import Path",
        "from peers import plugin",
        f"copy = plugin.loaded(Path({str(source('test_bagging'))!r}))",
        "from sklearn.feature_selection import _mutual_info",
        "assert copy.SVR in plugin.ADAPTERS.values()",
        "assert _mutual_info.NearestNeighbors in plugin.ADAPTERS",
    ]
    root = Path(plugin.__file__).parents[1]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=root, check=True)


def test_what_counts_is_a_fit_in_this_process(monkeypatch, tmp_path):
    monkeypatch.setenv(plugin.OUTCOMES, str(tmp_path / "outcomes.jsonl"))
    item = SimpleNamespace(path=source("test_gpr"), name="test_a", _before=Adapter.fitted)
    report = SimpleNamespace(outcome="passed", longrepr=None)
    model = clone(ADAPTERS[sklearn.kernel_ridge.KernelRidge](kernel="rbf"))
    plugin._note(item, report, None)
    cross_val_score(model, np.eye(6), np.arange(6.0), cv=2)
    assert Adapter.fitted == item._before + 2
    plugin._note(item, report, None)
    lines = (tmp_path / "outcomes.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == ["none of our classes", "passed"]


def test_others_see_by_the_signature_of_fit_what_a_class_takes():
    machine = ADAPTERS[sklearn.svm.SVC]
    assert has_fit_parameter(machine(), "sample_weight")
    assert not has_fit_parameter(ADAPTERS[sklearn.neighbors.NearestNeighbors](), "sample_weight")


def test_a_file_that_is_run_again_has_reasons_of_its_own(monkeypatch):
    item = SimpleNamespace(path=source("test_gpr"), name="test_lml_improving[kernel0]")
    item.originalname = "test_lml_improving"
    assert "ExactGPRegressor's" in plugin.reason(item)
    monkeypatch.setattr(plugin, "RUN", "test_gpr-exact")
    assert plugin.reason(item) is None


def test_a_failure_that_scikit_learn_expects_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setenv(plugin.OUTCOMES, str(tmp_path / "outcomes.jsonl"))
    item = SimpleNamespace(path=source("test_gpr"), name="test_a", _before=Adapter.fitted - 1)
    report = SimpleNamespace(outcome="skipped", wasxfail="issue 1", longrepr="a traceback")
    plugin._note(item, report, None)
    report = SimpleNamespace(outcome="passed", wasxfail="issue 1", longrepr=None)
    plugin._note(item, report, None)
    lines = (tmp_path / "outcomes.jsonl").read_text(encoding="utf-8").splitlines()
    expected, unexpected = map(json.loads, lines)
    assert expected["outcome"] == "skipped"
    assert expected["why"] == "scikit-learn expects a failure: issue 1"
    assert unexpected["outcome"] == "passed"


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
    functions = set(
        re.findall(r"^def (test_\w+)", source(name).read_text(encoding="utf-8"), re.MULTILINE)
    )
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
    counts = {"passed": 1, "new": 1, "failed": {"b": "E  wrong"}, "left out": {"private": 2}}
    before = set()
    assert command.summary(lines, before) == counts
    assert command.summary(lines, before) == counts | {"new": 0}
    assert command.totals([counts, counts | {"new": 0}]) == (2, 1, 2, 4)


def test_a_file_that_is_run_again_is_counted_beside_the_first(capsys):
    assert command.main(["--write-docs", "test_gpr-exact"]) == 2
    assert "test_gpr-exact is counted beside test_gpr: name that, too" in capsys.readouterr().out


def test_a_file_that_is_unknown_is_named(capsys):
    assert command.main(["test_nothing"]) == 2
    assert "No file is called test_nothing; there are test_gpr" in capsys.readouterr().out


@pytest.mark.verify
def test_a_file_passes(capsys):
    assert command.main(["test_kernel_ridge"]) == 0
    assert re.search(r"test_kernel_ridge +9 +9 +0 +1", capsys.readouterr().out)
