"""`pursuit papers` as a shell user meets it: lines, files, exit codes and refusals."""

import io
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from pursuit.cli.commands import app
from pursuit.cli.papers import StatusLine
from pursuit.papers.common import NOT, PARTLY, REPRODUCED, ignore
from pursuit.papers.registry import EXPERIMENTS, Experiment

CHEAP = ["z03-section8", "z03-fig1"]


@pytest.fixture
def command():
    return lambda *arguments: CliRunner().invoke(app, ["papers", *map(str, arguments)])


@pytest.fixture
def done(command, tmp_path):
    """A folder with the results of two cheap experiments, and what was printed."""
    found = command("run", *CHEAP, "--quick", "--seeds", 2, "--output", tmp_path / "results")
    assert found.exit_code == 0, found.output
    return tmp_path / "results", found


@pytest.mark.parametrize("arguments", [(), ("list",)])
def test_the_list_has_every_name(command, arguments):
    found = command(*arguments)
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(EXPERIMENTS)


def test_a_run_prints_a_line_each_and_writes_files(done):
    folder, found = done
    lines = found.stdout.splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["z03-fig1", "z03-section8"]
    assert all(line.split(" | ")[-1] in (REPRODUCED, PARTLY, NOT) for line in lines)
    assert all(len(line.split(" | ")) == 5 for line in lines)
    assert len(lines[0]) > 100
    assert found.stderr.splitlines() == [
        f"2 experiments, about 0.2 minutes; results go to {folder}"
    ]
    for name in CHEAP:
        for kind in ("svg", "png", "csv"):
            assert (folder / f"{name}.{kind}").stat().st_size > 100
    assert "over 2 problems" in lines[1]


def test_what_is_there_is_not_replaced_unless_forced(done, command):
    folder, first = done
    again = ("run", "z03-section8", "--quick", "--seeds", 2, "--output", folder)
    before = (folder / "z03-section8.svg").read_bytes()
    refused = command(*again)
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert "has results of z03-section8: add --force" in refused.stderr
    forced = command(*again, "--force")
    assert forced.exit_code == 0
    assert forced.stdout.splitlines() == first.stdout.splitlines()[1:]
    assert (folder / "z03-section8.svg").read_bytes() == before


def test_the_report(done, command):
    folder, _ = done
    found = command("report", "--results", folder)
    assert found.exit_code == 0
    page = folder / "report.html"
    assert found.stdout.strip() == str(page)
    assert page.read_text(encoding="utf-8").count("<section") == 2
    assert command("report", "--results", folder).exit_code == 2
    assert command("report", "--results", folder, "--force").exit_code == 0
    other = folder / "other.html"
    assert command("report", "--results", folder, "--output", other).exit_code == 0
    assert other.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_a_folder_that_takes_no_files(command, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    found = command("run", "z03-section8", "--output", tmp_path / "file" / "folder")
    assert found.exit_code == 1
    [line] = found.stderr.splitlines()
    assert line.startswith("pursuit: not a directory: ")


def test_ctrl_c_ends_a_run_with_its_own_code(command, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "run", interrupted)
    found = command("run", "z03-section8", "--output", tmp_path)
    assert found.exit_code == 130
    assert found.stderr.splitlines()[1:] == ["pursuit: interrupted"]


def test_a_report_of_nothing(command, tmp_path):
    found = command("report", "--results", tmp_path / "nowhere")
    assert found.exit_code == 2
    assert "there are no results in" in found.stderr
    assert "Traceback" not in found.output


def test_an_unknown_name(command, tmp_path):
    found = command("run", "sb01-figure1", "--output", tmp_path)
    assert found.exit_code == 2
    assert "did you mean sb01-fig1" in found.stderr
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_the_folder(command, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    found = command("run", "z03-section8", "--output", tmp_path / "file")
    assert found.exit_code == 2
    assert "is a file: name a folder" in found.stderr


def test_missing_data_are_missed_before_the_work_begins(command, tmp_path, monkeypatch):
    monkeypatch.setenv("PURSUIT_DATA", str(tmp_path))
    found = command("run", "z03-section8", "ss00-fig4", "--output", tmp_path / "out")
    assert found.exit_code == 2
    assert "usps.npz is not in" in found.stderr
    assert "PURSUIT_DATA" in found.stderr
    assert "Needed by ss00-fig4." in found.stderr
    assert found.stdout == ""


@pytest.mark.parametrize("seeds", ["0", "many"])
def test_seeds_must_be_a_number(command, seeds):
    assert command("run", "z03-section8", "--seeds", seeds).exit_code == 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_for_terminals(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    screen = Terminal()
    status = StatusLine(screen, 4)
    progress = status.start(2, "z02-rate")
    progress("a line that is much longer than the terminal is wide")
    status.clear()
    shown = screen.getvalue().split("\r\033[K")[1:]
    assert shown[0] == "2/4 z02-rate"
    assert shown[1].startswith("2/4 z02-rate: a line")
    assert len(shown[1]) == 29
    assert shown[2] == ""
    plain = io.StringIO()
    silent = StatusLine(plain, 4)
    assert silent.start(1, "z02-rate") is ignore
    silent.clear()
    assert plain.getvalue() == ""


def test_as_a_module():
    found = subprocess.run(
        [sys.executable, "-m", "pursuit", "papers", "list"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(found.stdout.splitlines()) == len(EXPERIMENTS) + 1
