"""`pursuit papers`: list, run and report the tables and figures of the five papers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TextIO

import typer

from pursuit import datasets
from pursuit.papers.common import Progress
from pursuit.papers.experiment import Experiment
from pursuit.papers.folder import ResultFolder
from pursuit.papers.registry import EXPERIMENTS, chosen
from pursuit.papers.report import report_page

DEFAULT_FOLDER = Path("paper-results")
REPORT = "report.html"

app = typer.Typer(
    help="Tables and figures of the five papers: list them, run them again, report what came out.",
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there already.")]


@app.callback(invoke_without_command=True)
def main(context: typer.Context) -> None:
    """Tables and figures of the five papers: list them, run them again, report what came out."""
    if context.invoked_subcommand is None:
        list_experiments()


@app.command("list")
def list_experiments() -> None:
    """Every table and figure: name, minutes of a quick and of a full run, data, what it shows."""
    width = max(len(experiment.name) for experiment in EXPERIMENTS)
    print(f"{'name':{width}}  quick  full  data, what it shows")
    for experiment in EXPERIMENTS:
        quick, full = (f"{minutes:.1f}" for minutes in experiment.minutes)
        data = f"[{', '.join(experiment.data)}] " if experiment.data else ""
        print(f"{experiment.name:{width}}  {quick:>5}  {full:>4}  {data}{experiment.title}")


@app.command("run")
def run_experiments(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names, as listed; all by default.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A coarse run.")] = False,
    output: Folder = DEFAULT_FOLDER,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds, splits or draws of each experiment.")
    ] = None,
    force: Force = False,
) -> None:
    """Compute tables and figures: NAME.svg, NAME.png and NAME.csv, and a line each."""
    try:
        experiments = chosen(names or [])
    except LookupError as error:
        raise _ended(str(error), 2) from error
    if output.exists() and not output.is_dir():
        raise _ended(f"{output} is a file: name a folder with --output.", 2)
    folder = ResultFolder(output)
    _refuse_overwriting(folder, experiments, force)
    _require_data(experiments)
    kind = "quick" if quick else "full"
    kind += f", {seeds} seeds" if seeds is not None else ""
    minutes = sum(experiment.minutes[0 if quick else 1] for experiment in experiments)
    many = "experiment" if len(experiments) == 1 else "experiments"
    print(
        f"{len(experiments)} {many}, about {minutes:.1f} minutes; results go to {output}",
        file=sys.stderr,
    )
    status = StatusLine(sys.stderr, len(experiments))
    for number, experiment in enumerate(experiments, start=1):
        try:
            progress = status.of(number, experiment)
            result = experiment.run(quick=quick, seeds=seeds, progress=progress)
        finally:
            status.clear()
        print(folder.save(experiment, result, kind).line, flush=True)


@app.command("report")
def write_report(
    results: Annotated[
        Path, typer.Option("--results", "-r", help="Folder that `run` wrote to.")
    ] = DEFAULT_FOLDER,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The page; report.html in that folder by default."),
    ] = None,
    force: Force = False,
) -> None:
    """Collect all results of a folder on one page of HTML."""
    page = results / REPORT if output is None else output
    if page.exists() and not force:
        raise _ended(f"{page} exists: add --force to replace it, or name another with --output.", 2)
    try:
        text = report_page(ResultFolder(results))
        page.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _ended(str(error), 1) from error
    print(page)


def _refuse_overwriting(
    folder: ResultFolder, experiments: Sequence[Experiment], force: bool
) -> None:
    try:
        known = set(folder.names())
    except ValueError as error:
        raise _ended(str(error), 1) from error
    there = [experiment.name for experiment in experiments if experiment.name in known]
    if there and not force:
        raise _ended(
            f"{folder.path} has results of {', '.join(there)}: add --force to compute them again, "
            "or name another folder with --output.",
            2,
        )


def _require_data(experiments: Sequence[Experiment]) -> None:
    """Load each data set once before the work begins: better now than after minutes."""
    wanted = {name: experiment for experiment in experiments for name in experiment.data}
    for name in sorted(wanted):
        try:
            getattr(datasets, f"load_{name}")()
        except ValueError as error:
            users = [experiment.name for experiment in experiments if name in experiment.data]
            raise _ended(f"{error}. Needed by {', '.join(users)}.", 1) from error


class StatusLine:
    """What the work is at, on the last line of a terminal; nothing where there is none.

    Parameters
    ----------
    stream : text stream
        Where to write.
    total : int
        How many experiments there are.
    """

    def __init__(self, stream: TextIO, total: int) -> None:
        self.stream, self.total = stream, total
        self.shown = stream.isatty()

    def of(self, number: int, experiment: Experiment) -> Progress | None:
        """What shows the progress of an experiment."""
        if not self.shown:
            return None
        head = f"{number}/{self.total} {experiment.name}"
        self._show(head)
        return lambda line: self._show(f"{head}: {line}")

    def clear(self) -> None:
        """Leave the line empty for what is printed next."""
        if self.shown:
            self._show("")

    def _show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns
        self.stream.write(f"\r\033[K{text[: width - 1]}")
        self.stream.flush()


def _ended(message: str, code: int) -> typer.Exit:
    """One line on standard error, and how the command ends."""
    print(message, file=sys.stderr)
    return typer.Exit(code)
