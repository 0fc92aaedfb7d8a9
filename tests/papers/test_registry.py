"""Every table and figure has a name, runs with both sets of arguments, and tells what was tried."""

import inspect
from pathlib import Path

import pytest

from pursuit import datasets
from pursuit.papers import registry
from pursuit.papers.folder import read_records

# The tables and figures of the five papers.
PROMISED = """
sb01-fig1 sb01-table1 sb01-table2-posterior sb01-table2-errorbars sb01-testerror sb01-logposterior
sb01-synthetic ss00-fig1 ss00-fig2 ss00-fig3 ss00-fig4 ss00-fig5 z03-table1 z03-fig1 z03-fig2
z03-fig3 z03-fig4 z02-rate z02-margin hs08-fig1-left hs08-fig1-right hs08-fig2
""".split()


def test_all_that_was_promised_comes_first_and_in_order():
    assert list(registry.EXPERIMENTS)[: len(PROMISED)] == PROMISED


@pytest.mark.parametrize("name", registry.EXPERIMENTS)
def test_an_experiment_is_complete(name):
    experiment = registry.EXPERIMENTS[name]
    parameters = inspect.signature(experiment.function).parameters
    assert {"progress", "control", *experiment.quick} <= set(parameters)
    assert all(parameter.default is not parameter.empty for parameter in parameters.values())
    assert name.partition("-")[0] in registry.PAPERS
    assert all(hasattr(datasets, f"load_{name}") for name in experiment.data)
    assert 0 < experiment.minutes[0] <= experiment.minutes[1]
    assert experiment.title
    assert "Parameters" not in experiment.notes
    assert "Arguments" not in experiment.notes


def test_a_quick_run_of_everything_is_announced_as_under_ten_minutes():
    assert sum(experiment.minutes[0] for experiment in registry.EXPERIMENTS.values()) < 10


def repeated(*, n_runs=5, size=3, progress=None):
    """Shows a thing

    Found: nothing.
    """
    return n_runs, size


def once(*, size=3, progress=None):
    return size


def test_seeds_and_quick_arguments_are_passed_on():
    experiment = registry.Experiment(repeated, quick={"n_runs": 2, "size": 1})
    assert experiment.run() == (5, 3)
    assert experiment.run(quick=True) == (2, 1)
    assert experiment.run(quick=True, seeds=13) == (13, 1)
    assert experiment.run(seeds=13) == (13, 3)
    assert registry.Experiment(once).run(seeds=13) == 3
    assert (experiment.title, experiment.notes) == ("Shows a thing", "Found: nothing.")


def test_chosen_names_come_in_order_and_once():
    assert registry.choose(["z02-rate", "sb01-fig1", "z02-rate"]) == ["sb01-fig1", "z02-rate"]
    assert registry.choose([]) == list(registry.EXPERIMENTS)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sb01-figure1", "did you mean sb01-fig1"),
        ("Z02-RATE", "did you mean z02-rate"),
        ("qqqq", "see `pursuit papers list`"),
    ],
)
def test_an_unknown_name_brings_the_nearest(name, hint):
    with pytest.raises(LookupError, match=f"there is no experiment '{name}': {hint}"):
        registry.choose(["z02-rate", name])


def test_notes_tell_what_was_tried():
    notes = registry.EXPERIMENTS["ss00-fig4"].notes
    assert notes.startswith("Found: seven are typical")
    assert "Tried: pixels" in notes


def test_the_documentation_has_the_results_of_a_full_run():
    folder = Path(__file__).parents[2] / "docs" / "papers" / "results"
    if not folder.exists():
        pytest.skip("a source distribution has no documentation")
    records = read_records(folder)
    assert [record.name for record in records] == list(registry.EXPERIMENTS)
    assert {record.run for record in records} == {"full"}
    for record in records:
        table = folder / f"table-{record.name.partition('-')[0]}.csv"
        assert f"{record.name}," in table.read_text(encoding="utf-8")
        for kind in ("svg", "csv"):
            assert 0 < (folder / f"{record.name}.{kind}").stat().st_size < 200_000
