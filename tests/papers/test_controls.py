"""Negative controls: what is wrong on purpose is not reproduced, what is right is; verdicts stay.

Every experiment is run at a small size twice, as it is and with ``control=True``, which swaps the
algorithm or the data for wrong ones and leaves the criteria alone. The criteria would be worth
nothing if both had the same verdict.
"""

from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

from pursuit.papers import registry, sb01_cost, ss00_stopping, z03
from pursuit.papers.folder import ResultFolder
from pursuit.papers.result import NOT

RESULTS = ResultFolder(Path(__file__).parents[2] / "docs" / "papers" / "results")
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


def by_name(experiments, mark=()):
    return [
        pytest.param(e, id=e.name, marks=pytest.mark.verify if e.name in mark else ())
        for e in experiments
    ]


@pytest.fixture
def run(request, monkeypatch):
    """Runs an experiment by a clock that knows the printed laws, so that no test is timed."""
    monkeypatch.setattr(sb01_cost, "cpu_seconds", by_law(sb01_law))
    monkeypatch.setattr(z03, "cpu_seconds", by_law(z03_law))
    monkeypatch.setattr(ss00_stopping, "cpu_seconds", by_law(lambda task: 1.0))

    def with_data(experiment, **arguments):
        if experiment.data:
            request.getfixturevalue("data_dir")
        return experiment.function(**arguments)

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
    if task.func in (sb01_cost._exact, sb01_cost._sparse_greedy):
        m, n = len(task.args[0]), task.args[2]
        return m**3 if task.func is sb01_cost._exact else n**2 * m
    model, power = task.func.__self__, 2 if task.keywords else 1
    if isinstance(model, GaussianProcessRegressor):
        return len(model.X_train_) ** power
    return model.n_basis_**power


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("experiment", by_name(registry.EXPERIMENTS))
def test_a_control_is_not_reproduced(experiment, run):
    found = run(experiment, **experiment.small, control=True)
    assert found.verdict == NOT, found


@pytest.mark.parametrize(
    "experiment",
    by_name([e for e in registry.EXPERIMENTS if e.name not in NEVER + CHEAP], mark=SLOW),
)
def test_the_same_without_control_shows_something(experiment, run):
    """Otherwise the control would say nothing: the criteria could fail whatever is done."""
    found = run(experiment, **experiment.small)
    assert found.verdict != NOT, found


@pytest.mark.parametrize(
    "experiment",
    by_name(
        registry.EXPERIMENTS, mark=[e.name for e in registry.EXPERIMENTS if e.name not in CHEAP]
    ),
)
def test_a_quick_run_has_the_verdict_of_the_full_run(experiment, request):
    """The stored results are those of a full run."""
    if experiment.data:
        request.getfixturevalue("data_dir")
    [stored] = [record for record in RESULTS.records() if record.name == experiment.name]
    assert experiment.run(quick=True).verdict == stored.verdict


@pytest.mark.parametrize("experiment", by_name(registry.EXPERIMENTS))
def test_a_quick_run_takes_seeds_of_the_full_run(experiment):
    """Fewer of them at most: the first seed is the same, and no count is larger."""
    quick, full = (experiment.arguments(quick=quick) for quick in (True, False))
    assert quick.get("random_state") == full.get("random_state")
    if experiment.repeats in quick and experiment.repeats in full:
        assert quick[experiment.repeats] <= full[experiment.repeats]
