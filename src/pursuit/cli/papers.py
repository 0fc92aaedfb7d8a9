"""`pursuit papers`: list, run and report the tables and figures of the five papers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TextIO

import typer

from pursuit import datasets
from pursuit.cli.console import (
    Debug,
    Force,
    WrongCallError,
    ending,
    refuse_existing,
    require_writable,
    say,
    tell,
)
from pursuit.papers.common import Progress
from pursuit.papers.experiment import Experiment
from pursuit.papers.folder import ResultFolder, new_figure
from pursuit.papers.registry import EXPERIMENTS, chosen
from pursuit.papers.report import report_page

DEFAULT_FOLDER = Path("paper-results")
REPORT = "report.html"

app = typer.Typer(
    help="Tables and figures of the five papers: list them, run them again, report what came out.",
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")]


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
    debug: Debug = False,
) -> None:
    """Compute tables and figures: NAME.svg, NAME.png and NAME.csv, and a line each."""
    with ending(debug):
        experiments = _chosen(names or [])
        if output.exists() and not output.is_dir():
            raise WrongCallError(f"{output} is a file: name a folder with --output.")
        folder = ResultFolder(output)
        _refuse_overwriting(folder, experiments, force)
        _require_data(experiments)
        output.mkdir(parents=True, exist_ok=True)
        require_writable(output)
        new_figure()
        kind = "quick" if quick else "full"
        kind += f", {seeds} seeds" if seeds is not None else ""
        minutes = sum(experiment.minutes[0 if quick else 1] for experiment in experiments)
        many = "experiment" if len(experiments) == 1 else "experiments"
        tell(f"{len(experiments)} {many}, about {minutes:.1f} minutes; results go to {output}")
        status = StatusLine(sys.stderr, len(experiments))
        for number, experiment in enumerate(experiments, start=1):
            try:
                progress = status.of(number, experiment)
                result = experiment.run(quick=quick, seeds=seeds, progress=progress)
            finally:
                status.clear()
            say(folder.save(experiment, result, kind).line)


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
    debug: Debug = False,
) -> None:
    """Collect all results of a folder on one page of HTML."""
    with ending(debug):
        page = results / REPORT if output is None else output
        text = report_page(ResultFolder(results))
        refuse_existing(page, force)
        page.write_text(text, encoding="utf-8")
        say(str(page))


def _chosen(names: list[str]) -> Sequence[Experiment]:
    try:
        return chosen(names)
    except LookupError as error:
        raise WrongCallError(str(error)) from error


def _refuse_overwriting(
    folder: ResultFolder, experiments: Sequence[Experiment], force: bool
) -> None:
    known = set(folder.names())
    there = [experiment.name for experiment in experiments if experiment.name in known]
    if there and not force:
        raise WrongCallError(
            f"{folder.path} has results of {', '.join(there)}: add --force to compute them again, "
            "or name another folder with --output."
        )


def _require_data(experiments: Sequence[Experiment]) -> None:
    """Load each data set once before the work begins: better now than after minutes."""
    wanted = {name: experiment for experiment in experiments for name in experiment.data}
    for name in sorted(wanted):
        try:
            getattr(datasets, f"load_{name}")()
        except ValueError as error:
            users = [experiment.name for experiment in experiments if name in experiment.data]
            raise ValueError(f"{error}. Needed by {', '.join(users)}.") from error


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
