"""`pursuit papers`: list, run and report the tables and figures of the five papers.

The experiments are imported when a command runs: the help needs none of them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from pursuit.cli.console import (
    Debug,
    Force,
    WrongCallError,
    ending,
    say,
    tell,
)
from pursuit.cli.files import refuse_output, require_writable

if TYPE_CHECKING:
    from pursuit.papers.common import Progress

DEFAULT_FOLDER = Path("paper-results")
REPORT = "report.html"

app = typer.Typer(
    help="Tables and figures of the five papers: list them, run them again, report the results.",
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")]


@app.callback(invoke_without_command=True)
def main(context: typer.Context) -> None:
    """Tables and figures of the five papers: list them, run them again, report the results."""
    if context.invoked_subcommand is None:
        list_experiments()


@app.command("list")
def list_experiments() -> None:
    """List all tables and figures: name, minutes of a quick and of a full run, data, content."""
    from pursuit.papers.registry import EXPERIMENTS

    width = max(map(len, EXPERIMENTS))
    print(f"{'name':{width}}  quick  full  data, what it shows")
    for name, experiment in EXPERIMENTS.items():
        quick, full = (f"{minutes:.1f}" for minutes in experiment.minutes)
        data = f"[{', '.join(experiment.data)}] " if experiment.data else ""
        print(f"{name:{width}}  {quick:>5}  {full:>4}  {data}{experiment.title}")


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
    """Compute tables and figures: NAME.svg, NAME.png and NAME.csv, and one line for each."""
    with ending(debug):
        from pursuit.papers.folder import new_figure, save_result
        from pursuit.papers.registry import EXPERIMENTS

        chosen = _chosen(names or [])
        if output.exists() and not output.is_dir():
            raise WrongCallError(f"{output} is a file: name a folder with --output.")
        _refuse_overwriting(output, chosen, force)
        _require_data(chosen)
        output.mkdir(parents=True, exist_ok=True)
        require_writable(output)
        new_figure()
        kind = "quick" if quick else "full"
        kind += f", {seeds} seeds" if seeds is not None else ""
        minutes = sum(EXPERIMENTS[name].minutes[0 if quick else 1] for name in chosen)
        many = "experiment" if len(chosen) == 1 else "experiments"
        tell(f"{len(chosen)} {many}, about {minutes:.1f} minutes; results go to {output}")
        status = StatusLine(sys.stderr, len(chosen))
        for number, name in enumerate(chosen, start=1):
            try:
                progress = status.start(number, name)
                result = EXPERIMENTS[name].run(quick=quick, seeds=seeds, progress=progress)
            finally:
                status.clear()
            say(save_result(output, name, result, kind).line)


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
        from pursuit.papers.folder import report_page

        page = results / REPORT if output is None else output
        text = report_page(results)
        refuse_output(page, force)
        page.write_text(text, encoding="utf-8")
        say(str(page))


def _chosen(names: list[str]) -> list[str]:
    from pursuit.papers.registry import choose

    try:
        return choose(names)
    except LookupError as error:
        raise WrongCallError(str(error)) from error


def _refuse_overwriting(folder: Path, chosen: Sequence[str], force: bool) -> None:
    from pursuit.papers.folder import read_records

    known = {record.name for record in read_records(folder)}
    there = [name for name in chosen if name in known]
    if there and not force:
        raise WrongCallError(
            f"{folder} has results of {', '.join(there)}: add --force to compute them again, "
            "or name another folder with --output."
        )


def _require_data(chosen: Sequence[str]) -> None:
    """Load each data set once before the work begins, so that a missing one is reported at once."""
    from pursuit import datasets
    from pursuit.papers.registry import EXPERIMENTS

    for data in sorted({data for name in chosen for data in EXPERIMENTS[name].data}):
        try:
            getattr(datasets, f"load_{data}")()
        except ValueError as error:
            users = [name for name in chosen if data in EXPERIMENTS[name].data]
            raise ValueError(f"{error}. Needed by {', '.join(users)}.") from error


class StatusLine:
    """Progress on the last line of a terminal; nothing where the stream is no terminal.

    Parameters
    ----------
    stream : text stream
        Where to write.
    total : int
        Number of experiments.
    """

    def __init__(self, stream: TextIO, total: int) -> None:
        self.stream, self.total = stream, total
        self.shown = stream.isatty()

    def start(self, number: int, name: str) -> Progress:
        """Show that an experiment starts, and return the function that shows its progress."""
        from pursuit.papers.common import ignore

        if not self.shown:
            return ignore
        head = f"{number}/{self.total} {name}"
        self._show(head)
        return lambda line: self._show(f"{head}: {line}")

    def clear(self) -> None:
        """Empty the line."""
        if self.shown:
            self._show("")

    def _show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns
        self.stream.write(f"\r\033[K{text[: width - 1]}")
        self.stream.flush()
