"""The `pursuit` command, put together: one module per command.

Modules that need NumPy, pyarrow or the estimators are imported when a command runs, so that the
help appears at once and a missing package is reported in one line.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pursuit import __version__
from pursuit.cli import papers
from pursuit.cli.compare import compare
from pursuit.cli.console import Commands
from pursuit.cli.demo import demo
from pursuit.cli.fit import fit
from pursuit.cli.inspect import inspect
from pursuit.cli.predict import predict
from pursuit.cli.report import report

app = typer.Typer(
    name="pursuit",
    cls=Commands,
    help="Sparse kernel learning with proofs.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (fit, predict, inspect, report, compare, demo):
    app.command()(command)
app.add_typer(papers.app, name="papers")


def _show_version(asked: bool) -> None:
    if asked:
        print(f"pursuit {__version__}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Sparse kernel learning with proofs: from a table to a small model with error bars."""
