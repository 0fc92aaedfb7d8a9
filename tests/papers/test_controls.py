"""Negative controls: what is wrong on purpose is not reproduced, what is right is; verdicts stay.

Every experiment is run at a small size twice, as it is and with ``control=True``, which swaps the
algorithm or the data for wrong ones and leaves the criteria alone. The criteria would be worth
nothing if both had the same verdict.
"""

import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

from pursuit.papers import sb01_theory, ss00_regression, z03
from pursuit.papers.common import NOT
from pursuit.papers.folder import read_records
from pursuit.papers.registry import EXPERIMENTS

RESULTS = Path(__file__).parents[2] / "docs" / "papers" / "results"
# Quick runs of a second or less; their agreement with the stored verdicts is an ordinary test.
CHEAP = """
sb01-theorem2 ss00-section6-3 z03-section8 z03-fig1 z03-fig2 hs08-fig1-left hs08-fig1-right
hs08-fig2
""".split()
# These take more than a second as they are; their controls are ordinary tests all the same.
SLOW = """
sb01-table2-posterior sb01-testerror sb01-logposterior ss00-fig4 z02-rate z02-margin
ss00-section5-4-trace ss00-section5-4-speed
""".split()
# The paper's claim is not found at all: that the criteria can hold is shown in test_ss00.py.
NEVER = ["ss00-fig3"]
# Arguments of the smallest runs that can be told from their controls; all others run as published.
SMALL = {
    "sb01-fig1": {"subsets": (1, 60, 100), "n_train": 1500, "n_basis": 100, "n_runs": 1},
    "sb01-table1": {"rows": (50, 100, 200), "bases": (5, 10, 20), "n_new": 20, "times": 1},
    "sb01-table2-posterior": {"widths": (10,), "n_runs": 1},
    "sb01-table2-errorbars": {"widths": (20,), "n_test": 20},
    "sb01-testerror": {"n_runs": 1, "random_state": 4},
    "sb01-logposterior": {"n_runs": 1},
    "sb01-synthetic": {"n_rows": 1500, "n_features": 5, "n_basis": 100, "n_runs": 2},
    "ss00-fig1": {"subsets": (1, 50, 100), "n_basis": 20, "n_runs": 1},
    "ss00-fig2": {"sizes": (100,), "n_train": 1000, "n_runs": 1},
    "ss00-fig3": {"n_train": 1000, "n_runs": 1},
    "ss00-fig5": {"sizes": (100,), "n_runs": 2},
    "z03-table1": {"rows": (20, 40, 80), "terms": (2, 4, 8), "times": 1},
    "z03-fig1": {"n_basis": 30, "n_runs": 2},
    "z03-fig2": {"n_basis": 30, "n_runs": 3},
    "z03-fig3": {"lambdas": (1e-4, 1e-3, 100.0), "n_runs": 1},
    "z03-fig4": {"lambdas": (1e-4, 1e-3, 1e-2, 100.0), "n_runs": 1},
    "z02-rate": {"n_steps": 100, "n_runs": 1},
    "z02-margin": {"rounds": (3, 1000), "few_rounds": (3, 30), "n_runs": 1},
    "ss00-section6-3": {"n_runs": 1},
    "ss00-section5-4-trace": {"shares": (1e-3,), "n_runs": 1},
    "ss00-section5-4-speed": {"times": 1},
    "z03-section8": {"n_runs": 8},
}


def experiments(without=(), slow=()):
    return [
        pytest.param(name, marks=pytest.mark.verify if name in slow else ())
        for name in EXPERIMENTS
        if name not in without
    ]


@pytest.fixture
def run(request, monkeypatch):
    """Runs an experiment by a clock that knows the printed laws, so that no test is timed."""
    monkeypatch.setattr(sb01_theory, "cpu_seconds", by_law(sb01_law))
    monkeypatch.setattr(z03, "cpu_seconds", by_law(z03_law))
    monkeypatch.setattr(ss00_regression, "cpu_seconds", by_law(lambda task: 1.0))

    def with_data(name, **arguments):
        if EXPERIMENTS[name].data:
            request.getfixturevalue("data_dir")
        return EXPERIMENTS[name].function(**SMALL.get(name, {}), **arguments)

    return with_data


def by_law(law):
    return lambda tasks, times: np.array([law(task) for task in tasks], dtype=float)


def z03_law(task):
    """O(km²) for greedy, O(κkm) for κ-greedy, O(k²m) for random."""
    model, m = task.func.__self__, len(task.args[0])
    powers = {"greedy": (2, 1), "kappa": (1, 1), "random": (1, 2)}[model.method]
    return m ** powers[0] * model.n_basis ** powers[1]


def sb01_law(task):
    """O(m³) to fit the exact model, O(m) and O(m²) to predict; O(n²m), O(n) and O(n²) sparse."""
    if task.func in (sb01_theory._exact, sb01_theory._sparse_greedy):
        m, n = len(task.args[0]), task.args[2]
        return m**3 if task.func is sb01_theory._exact else n**2 * m
    model, power = task.func.__self__, 2 if task.keywords else 1
    if isinstance(model, GaussianProcessRegressor):
        return len(model.X_train_) ** power
    return model.n_basis_**power


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", experiments())
def test_a_control_is_not_reproduced(name, run):
    found = run(name, control=True)
    assert found.verdict == NOT, found


@pytest.mark.parametrize("name", experiments(without=NEVER + CHEAP, slow=SLOW))
def test_the_same_without_control_shows_something(name, run):
    """Otherwise the control would say nothing: the criteria could fail whatever is done."""
    found = run(name)
    assert found.verdict != NOT, found


@pytest.mark.skipif(not RESULTS.exists(), reason="a source distribution has no documentation")
@pytest.mark.parametrize("name", experiments(slow=set(EXPERIMENTS) - set(CHEAP)))
def test_a_quick_run_has_the_verdict_of_the_full_run(name, request):
    """The stored results are those of a full run."""
    if EXPERIMENTS[name].data:
        request.getfixturevalue("data_dir")
    [stored] = [record for record in read_records(RESULTS) if record.name == name]
    assert EXPERIMENTS[name].run(quick=True).verdict == stored.verdict


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_quick_run_takes_seeds_of_the_full_run(name):
    """Fewer of them at most: the first seed is the same, and no count is larger."""
    quick = EXPERIMENTS[name].quick
    full = inspect.signature(EXPERIMENTS[name].function).parameters
    assert "random_state" not in quick
    if "n_runs" in quick:
        assert quick["n_runs"] <= full["n_runs"].default
