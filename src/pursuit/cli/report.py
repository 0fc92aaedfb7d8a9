"""`pursuit report`: one page of HTML about a model."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from pursuit.cli.console import (
    AsJson,
    Debug,
    Force,
    Quiet,
    WrongCallError,
    ending,
    say,
    say_json,
    tell,
)
from pursuit.cli.files import (
    STANDARD,
    ModelArgument,
    file_for,
    is_stream,
    load_model,
    refuse_both,
    refuse_output,
    table_in,
)


def report(
    model: ModelArgument,
    data: Annotated[
        Path | None, typer.Argument(help="Rows to judge it by, with their targets; - reads CSV.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The page; - writes it here.")
    ] = Path("report.html"),
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write one page of HTML about a model, which needs no network."""
    with ending(debug):
        refuse_both([model, data], "the model and the table")
        refuse_output(output, force, [model, data], suffixes=[".html", ".htm"])
        if as_json and str(output) == STANDARD:
            raise WrongCallError(f"--json writes to standard output: name a file, not -o {output}.")
        loaded = load_model(model)
        if not hasattr(loaded, "report"):
            raise WrongCallError(f"{type(loaded).__name__} has no report: use pursuit inspect.")
        with contextlib.ExitStack() as stack:
            path = None if data is None else stack.enter_context(table_in(data))
            rows = () if path is None else _labelled(loaded, model, path, quiet)
            loaded.report(stack.enter_context(file_for(output)), *rows)
        if as_json:
            say_json({"output": str(output)})
        else:
            say(str(output), quiet=quiet or is_stream(output))


def _labelled(loaded: Any, model: Path, data: Path, quiet: bool) -> tuple[Any, Any]:
    """Rows and targets of a table, without the rows that have no target."""
    from sklearn.base import is_classifier

    from pursuit import TableError
    from pursuit.cli.tables import open_for
    from pursuit.estimators.table.observations import Named, observations

    column = getattr(loaded, "target_", None)
    if column is None:
        raise WrongCallError(
            f"{model} does not know which column is its target, having been fitted to X and y in "
            "Python: call model.report(page, X, y) there."
        )
    table = open_for(loaded, data, model)
    named = Named(column.name, None, column)
    try:
        rows = observations(table, None, {}, named, classes=is_classifier(loaded))
    except TableError as error:
        told = "; ".join(error.problems.values()) or str(error)
        raise WrongCallError(
            f"{table.name} cannot judge the model, its target {column.name!r}: {told}: name a "
            "table with targets, or none."
        ) from error
    for note in rows.notes:
        tell(f"note: {note}", quiet=quiet)
    return rows.X, rows.y
