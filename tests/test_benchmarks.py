"""The command that runs all benchmarks unattended, and the page that is drawn from its results."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from heartbeat import beating, has_stopped

ROOT = Path(__file__).parent.parent

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="processes are ended by group"),
    pytest.mark.skipif(
        not (ROOT / "benchmarks").exists(), reason="a source distribution has no benchmarks"
    ),
]


@pytest.fixture(autouse=True)
def _at_root(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


def content(name, value=1.0, at_most=2.0, skipped="", quick=False, finished="2026-01-02T03:04:05"):
    """A result as a case writes it."""
    from benchmarks.harness import Figure
    from benchmarks.report import CaseResult, write_json

    figures = [] if skipped else [Figure("ratio", value, "x", at_most=at_most)]
    path = Path(f"{name}.tmp")
    write_json(path, [CaseResult(name, figures, skipped)], quick=quick, repeat=1)
    return json.dumps(
        json.loads(path.read_text(encoding="utf-8")) | {"finished": f"{finished}+00:00"}
    )


def writing(text):
    return f"import sys, pathlib; pathlib.Path(sys.argv[1]).write_text({text!r})"


def commands(programs):
    """A command for each case: a program that gets the path of the result."""

    def command(name, path):
        return [sys.executable, "-c", programs[name], str(path)]

    return command


def run(programs, folder, **options):
    from benchmarks.unattended import run_cases

    return run_cases(list(programs), folder, commands(programs), quiet=True, **options)


def test_a_case_that_ends_badly_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    programs = {
        "raises": "raise ValueError('no such thing')",
        "dies": "import os; os.kill(os.getpid(), 9)",
        "silent": "",
        "absent": writing(content("absent", skipped="kin40k is missing")),
        "slow": writing(content("slow", value=3.0)),
        "good": writing(content("good")),
    }
    outcomes = run(programs, tmp_path / "results")
    found = {outcome.name: (outcome.verdict, outcome.reason) for outcome in outcomes}
    assert found["raises"] == ("failed", "ValueError: no such thing")
    assert found["dies"] == ("failed", "ended by signal SIGKILL")
    assert found["silent"][0] == "failed"
    assert "no result" in found["silent"][1]
    assert found["absent"] == ("skipped", "kin40k is missing")
    assert found["slow"] == ("missed", "ratio")
    assert found["good"] == ("ok", "")
    stored = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert stored == ["good.json", "slow.json"]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(programs)
    assert lines[-1].startswith("6 cases in ")
    assert lines[-1].endswith("3 failed, 1 skipped, 1 missed, 1 ok")


def test_a_process_that_runs_has_not_stopped(tmp_path):
    alive = tmp_path / "alive"
    process = subprocess.Popen([sys.executable, "-c", beating(alive)])
    while not alive.exists():
        time.sleep(0.05)
    assert not has_stopped(alive)
    process.kill()
    process.wait()
    assert has_stopped(alive)


def test_a_case_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path):
    alive = tmp_path / "alive"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {beating(alive)!r}])"
    [outcome] = run({"hangs": program}, tmp_path / "results", longest=1.0)
    assert (outcome.verdict, outcome.reason) == ("failed", "took longer than 1 s")
    assert has_stopped(alive)


@pytest.fixture
def waiting():
    """A process that has been started as a case is."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    )
    yield process
    process.kill()


def test_a_case_is_ended_where_there_are_no_sessions(waiting, monkeypatch):
    """As on Windows."""
    from benchmarks import unattended

    called = []
    monkeypatch.delattr(os, "killpg")
    monkeypatch.setattr(unattended.subprocess, "run", lambda words, **_: called.append(words))
    unattended.end_session(waiting)
    assert waiting.returncode is not None
    assert called == [["taskkill", "/F", "/T", "/PID", str(waiting.pid)]]


@pytest.mark.parametrize("error", [ProcessLookupError, PermissionError])
def test_a_case_that_has_just_ended_is_no_error(waiting, monkeypatch, error):
    from benchmarks import unattended

    def gone(group, number):
        raise error

    waiting.kill()
    monkeypatch.setattr(os, "killpg", gone)
    unattended.end_session(waiting)
    assert waiting.returncode is not None


def test_ending_the_command_ends_the_case_that_runs(tmp_path):
    alive = tmp_path / "alive"
    program = (
        "import sys; from pathlib import Path; from benchmarks import unattended as u; "
        "u.end_cases_when_ended(); u.run_cases(['a'], Path('results'), "
        f"lambda name, path: [sys.executable, '-c', {beating(alive)!r}])"
    )
    own = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=own)
    while not alive.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait() == 128 + signal.SIGTERM
    assert has_stopped(alive)


def test_old_figures_stay_where_a_case_fails_or_is_skipped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = {"a": writing(content("a", value=1.0)), "b": writing(content("b", value=1.5))}
    run(first, tmp_path / "results")
    before = [(tmp_path / "results" / f"{name}.json").read_text(encoding="utf-8") for name in "ab"]
    run({"a": "raise ValueError", "b": writing(content("b", skipped="no"))}, tmp_path / "results")
    assert before == [
        (tmp_path / "results" / f"{name}.json").read_text(encoding="utf-8") for name in "ab"
    ]


def test_new_results_are_kept_and_old_ones_measured_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {
        "old": content("old", finished="2026-01-01T00:00:00"),
        "new": content("new", finished="2026-01-03T00:00:00"),
    }
    programs = {name: writing(text) for name, text in texts.items()}
    run(programs, tmp_path / "results")
    since = datetime(2026, 1, 2, tzinfo=UTC)
    outcomes = run({**programs, "never": programs["old"]}, tmp_path / "results", since=since)
    assert [outcome.verdict for outcome in outcomes] == ["ok", "kept", "failed"]


def test_a_moment_without_a_zone_is_utc():
    from benchmarks.unattended import moment

    assert moment("2026-11-18") == datetime(2026, 11, 18, tzinfo=UTC)
    assert moment("2026-11-18T08:00+02:00") == datetime(2026, 11, 18, 6, tzinfo=UTC)


def test_results_hold_versions_and_the_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    machine = json.loads(content("a"))["machine"]
    for name in ("numpy", "scipy", "scikit-learn", "pursuit", "python", "cores", "features"):
        assert machine[name]


def page(folder):
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "make_benchmarks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.RESULTS = folder
    return module.tables()


def test_the_page_shows_limits_and_says_what_was_not_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "choice.json").write_text(content("choice", value=3.0), encoding="utf-8")
    (tmp_path / "kappa.json").write_text(content("kappa", quick=True), encoding="utf-8")
    tables = page(tmp_path)
    from benchmarks.cases import CASES

    overview = tables.partition("choice\n------")[0]
    assert overview.count("   * - ") == len(CASES) + 1
    assert overview.count("not measured yet") == len(CASES) - 1
    assert "     - 2026-01-02\n     - 0 of 1\n" in overview
    assert "   * - ratio\n     - 3 x\n     - at most 2\n     - MISSED\n" in tables
    assert "kappa\n-----" not in tables


def test_the_command_wants_names_or_all():
    command = [sys.executable, "-m", "benchmarks"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--all" in done.stderr


@pytest.mark.parametrize(
    ("verdict", "strict", "code"),
    [
        ("ok", True, 0),
        ("kept", True, 0),
        ("skipped", True, 0),
        ("missed", False, 0),
        ("missed", True, 1),
        ("failed", False, 1),
    ],
)
def test_the_exit_code_tells_of_failures(verdict, strict, code, monkeypatch):
    from benchmarks import __main__ as command
    from benchmarks.unattended import Outcome

    ran, drawn = [], []

    def run_cases(names, folder, *rest, **options):
        ran.append((names, folder))
        return [Outcome("choice", 1.0, verdict), Outcome("pass", 1.0, "ok")]

    monkeypatch.setattr(command, "run_cases", run_cases)
    monkeypatch.setattr(command, "end_cases_when_ended", lambda: None)
    monkeypatch.setattr(command.subprocess, "run", lambda *line, **options: drawn.append(line))
    options = ["benchmarks", "--all", "--quiet", *(["--strict"] if strict else [])]
    monkeypatch.setattr(sys, "argv", options)
    assert command.main() == code
    assert ran == [(list(command.CASES), ROOT / "docs" / "benchmarks")]
    assert len(drawn) == 1
    # Quick results go elsewhere, and nothing is drawn from them.
    monkeypatch.setattr(sys, "argv", [*options, "--quick", "choice"])
    assert command.main() == code
    assert ran[1] == (["choice"], ROOT / "benchmarks" / "results" / "quick")
    assert len(drawn) == 1


def test_limits_count_operations_values_and_bytes():
    from benchmarks import stage_limits
    from benchmarks.stage_limits import Rates, Work

    rates = Rates(flops=1e9, single_flops=2e9, values=1e8, single_values=2e8, bytes=1e10)
    # Half of K'K takes m n² operations where a product of all of it takes 2 m n².
    m, n, d = 1000, 50, 3
    pairs = sum(2 * m for i in range(n) for j in range(n) if j <= i)
    fit = stage_limits.fit(m, n, d)
    assert fit.flops == pytest.approx(pairs + 2 * m * n * d + n**3, rel=0.03)
    assert fit.values == m * n + n**2 / 2
    assert rates.limit(fit) == pytest.approx(fit.flops / 1e9 + fit.values / 1e8)
    assert rates.limit(Work(bytes=1e10, flops=1e8)) == 1.0
    one = stage_limits.learn([(200, 1)], d)
    assert stage_limits.learn([(200, 3), (100, 1)], d) == one * 3 + stage_limits.learn(
        [(100, 1)], d
    )
    assert one.flops >= 200**3
    steps = stage_limits.move([(64, 8)] * 5, 32, d)
    assert steps.single_flops == 5 * (64 * 8**2 + 6 * 64 * 8 * d)
    assert steps.single_values == 5 * 64 * 8
    assert stage_limits.certify(m, d).values == m**2 / 2
    assert stage_limits.choose(100, 200, 10, d).flops >= 200 * 100**2 + 100 * 10**2


def test_a_watched_fit_is_the_same_and_its_stages_are_known():
    import numpy as np

    from benchmarks.profile_cases import least_work, watched
    from pursuit import Evidence, SparseGPRegressor

    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (2500, 2))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(len(X))

    def fitted():
        options = Evidence(rows=100)
        return SparseGPRegressor(n_basis=20, optimizer=options, n_jobs=1, random_state=0).fit(X, y)

    with watched() as watch:
        model = fitted()
    np.testing.assert_array_equal(model.predict(X[:50]), fitted().predict(X[:50]))
    assert set(watch.seconds) == set(model.learning_report_.seconds)
    assert min(watch.seconds.values()) >= 0.0
    [S, P], *_ = watch.sums["choose"]
    assert len(model.basis_) <= P <= S <= len(X)
    assert watch.sums["fit"][0] == (len(X), len(model.basis_))
    assert len(watch.steps) > 1
    assert all(len(model.basis_) <= n <= 20 and len(X) >= B for B, n in watch.steps)
    work = least_work(model, watch, *X.shape)
    assert set(work) == set(watch.seconds)
    assert all(part.flops > 0 for part in work.values())
