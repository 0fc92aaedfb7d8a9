"""The runner: shares, crashes, hangs, going on, and what it prints."""

import json
import os
from collections import Counter

import pytest

from torture import Fuzzer, Report
from torture import __main__ as runner
from torture.registry import fuzzers
from torture.state import State
from torture.workers import Outcome

TOYS = {
    "even": '''"""Half of all seeds fail."""
from torture import Fuzzer, Report
import time
def run(seed):
    time.sleep(0.01)
    return Report({"checks": 3}, [f"seed {seed} is odd"] * 7 if seed % 2 else [])
FUZZER = Fuzzer("even", run)
''',
    "crash": '''"""Ends its process, hangs or raises."""
import os, time
from torture import Fuzzer, Report
def run(seed):
    if seed == 0:
        os._exit(7)
    if seed == 1:
        time.sleep(1000)
    if seed == 2:
        raise ZeroDivisionError("this one")
    time.sleep(0.02)
    return Report({"checks": 1})
FUZZER = Fuzzer("crash", run, share=1.0)
''',
    "shared": '''"""Not a fuzzer."""
''',
}


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """A package of two fuzzers, in a folder where runs may write."""
    package = tmp_path / f"toys_{os.urandom(4).hex()}"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, source in TOYS.items():
        (package / f"{name}.py").write_text(source, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return package.name


def test_every_module_with_a_fuzzer_is_found(toys):
    assert list(fuzzers(toys)) == ["crash", "even"]
    assert "certificates" in fuzzers()


def test_a_crash_a_hang_and_an_exception_are_failures_of_their_seed(toys, capsys):
    command = ["crash", "--seeds", "5", "--jobs", "1", "--limit", "0.5"]
    assert runner.main(command, toys) == 1
    said = capsys.readouterr().out
    assert "FAILED crash seed 0: python -m torture crash --seed 0 --once\n" in said
    assert "the process died (exit code 7)" in said
    assert "FAILED crash seed 1" in said
    assert "no answer within 0.5 s" in said
    assert "ZeroDivisionError: this one" in said
    tally = State(runner.STATE)["crash"]
    assert (tally.failed, tally.running) == (3, [])
    assert tally.counts == {"checks": 2}
    assert tally.next == tally.seeds == 5
    assert said.splitlines()[-1] == "2 passed, 3 failed"


def test_a_second_call_goes_on_where_the_first_stopped(toys, capsys):
    command = ["even", "--seeds", "4", "--jobs", "2"]
    assert runner.main(command, toys) == 1
    first = State(runner.STATE)["even"]
    assert first.seeds == 4
    assert first.counts == {"checks": 3 * first.seeds}
    assert "and 2 more" in capsys.readouterr().out
    # A call that was killed has left a seed without a report.
    state = State(runner.STATE)
    left = state["even"].begin()
    assert state["even"].running == [left]
    state.save()
    assert runner.main([*command, "--write-docs"], toys) == 1
    second = State(runner.STATE)["even"]
    assert second.seeds == 8
    assert (second.next, second.running) == (second.seeds, [])
    assert second.failed == second.seeds // 2
    stored = json.loads(runner.DOCS.read_text(encoding="utf-8"))["fuzzers"]
    assert stored["even"]["about"] == "Half of all seeds fail."
    assert stored["even"]["seeds"] == second.seeds
    assert runner.main([*command, "--fresh", "--seed", "100"], toys) == 1
    third = State(runner.STATE)["even"]
    assert (third.seeds, third.next) == (4, 104)
    assert {seed for seed, _ in third.failures} == {101, 103}


def test_the_time_ends_a_run(toys, capsys):
    assert runner.main(["even", "--minutes", "0", "--jobs", "1"], toys) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 0 failed"


def test_one_seed_can_be_brought_back(toys, capsys):
    assert runner.main(["even", "--seed", "4", "--once"], toys) == 0
    assert capsys.readouterr().out == "       3 checks\n1 passed, 0 failed\n"
    assert runner.main(["even", "--seed", "5", "--once"], toys) == 1
    assert capsys.readouterr().out.count("seed 5 is odd\n") == 7


def test_names_are_checked_and_listed(toys, capsys):
    assert runner.main(["odd"], toys) == 2
    assert "No fuzzer is called odd; there are crash, even." in capsys.readouterr().out
    assert runner.main(["--list"], toys) == 0
    assert "even             share 1: Half of all seeds fail." in capsys.readouterr().out
    with pytest.raises(SystemExit):
        runner.main(["--once", "--seed", "3"], toys)
    assert "--once needs one fuzzer" in capsys.readouterr().err


def test_minutes_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("TORTURE_MINUTES", "600")
    assert runner.arguments([]).minutes == 600
    assert runner.arguments(["--minutes", "2"]).minutes == 2


def test_time_is_divided_by_shares(tmp_path):
    """Seeds of 1 s and of 4 s; the second has three times the share."""
    chosen = {"short": Fuzzer("short", Report, 1.0), "long": Fuzzer("long", Report, 3.0)}
    state = State(tmp_path / "state.json")
    run = runner.Run(chosen, state, "torture", jobs=1, limit=1)
    spent = Counter()
    for _ in range(200):
        name, seed = run._next()
        seconds = {"short": 1.0, "long": 4.0}[name]
        spent[name] += seconds
        state[name].record(Outcome(name, seed, seconds, Report()))
    assert 2.8 < spent["long"] / spent["short"] < 3.2
