"""`pursuit compare`: our models beside those that people would use instead, on a table."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pursuit.cli.console import (
    AsJson,
    Debug,
    Force,
    Quiet,
    TableArgument,
    WrongCallError,
    counted,
    ending,
    say,
    say_json,
    tell,
)
from pursuit.cli.files import STANDARD, file_for, is_stream, refuse_both, refuse_output, table_in
from pursuit.cli.fitting import Kind, Request
from pursuit.cli.options import (
    BasisSize,
    DateFormat,
    Drop,
    DropUnusable,
    Features,
    Seed,
    Target,
    TaskOption,
    encoder_options,
    one_target,
)

if TYPE_CHECKING:
    from pursuit.estimators.table.comparison import TableComparison

_PICTURES = [".png", ".svg", ".pdf"]


def compare(
    data: TableArgument,
    target: Target,
    task: TaskOption = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts that are left out in turn.")] = 5,
    max_rows: Annotated[
        int, typer.Option(min=10, help="Of larger tables so many rows are drawn at random.")
    ] = 20_000,
    n_basis: BasisSize = None,
    features: Features = None,
    drop: Drop = None,
    drop_unusable: DropUnusable = False,
    date_format: DateFormat = None,
    seed: Seed = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw errors against times to a .png, .svg or .pdf file.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write one page with table and figure; - writes it here.")
    ] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Write the table as CSV to standard output.")
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compare our models with scikit-learn's, and LightGBM's if installed, on a table.

    All get the same folds, and the encoding of the table is learned within each fold. Errors are
    those of rows left out; times and sizes are those of the models.
    """
    with ending(debug):
        wanted = one_target(target)
        if as_json + as_csv + (html is not None and str(html) == STANDARD) > 1:
            raise WrongCallError("--json, --csv and --html - all write here: use one of them.")
        refuse_both([html, figure], "--html and --figure")
        for path, suffixes in ((html, [".html", ".htm"]), (figure, _PICTURES)):
            if path is not None:
                refuse_output(path, force, [data], suffixes=suffixes)
        if figure is not None and is_stream(figure):
            raise WrongCallError(
                f"--figure: {figure} is not a file: name a .png, .svg or .pdf file."
            )
        request = Request(
            target=wanted,
            weight=None,
            features=features or [],
            drop=drop or [],
            task=task,
            kind=Kind.auto,
            parameters={},
            encoder=encoder_options(date_format, drop_unusable),
            drop_gaps=False,
        )
        with table_in(data) as path:
            found = _compared(path, request, folds, max_rows, n_basis, seed, quiet)
        if figure is not None:
            _draw(found, figure)
        if html is not None:
            with file_for(html) as file:
                file.write_text(_page(found, data, wanted), encoding="utf-8")
        if as_json:
            say_json(facts_of(found))
        elif as_csv:
            _write_csv(found)
        elif html is None or not is_stream(html):
            for line in table_lines(found):
                say(line)


def _compared(
    path: Path,
    request: Request,
    folds: int,
    max_rows: int,
    n_basis: int | None,
    seed: int,
    quiet: bool,
) -> TableComparison:
    """Read the table and compare."""
    import numpy as np

    import pursuit
    from pursuit.cli.fitting import observed, remedies
    from pursuit.cli.tables import chosen_columns
    from pursuit.estimators.table.comparison import compare_models
    from pursuit.estimators.table.observations import with_rows
    from pursuit.rows import open_file

    table = chosen_columns(open_file(path), request)
    with remedies(request):
        task, reason, rows = observed(table, request)
        X, y, notes = rows.X, rows.y, list(rows.notes)
        if len(y) < 2 * folds:
            raise WrongCallError(
                f"{table.name} has {len(y):,} rows with a target, too few for {folds} folds of at "
                "least 2: add rows, or take fewer --folds."
            )
        if len(y) > max_rows:
            kept = np.sort(np.random.default_rng(seed).permutation(len(y))[:max_rows])
            notes.append(
                f"{max_rows:,} of {len(y):,} rows are drawn at random; --max-rows for more."
            )
            X, y = with_rows(X, kept), y[kept]
        encoder = pursuit.TableEncoder(**request.encoder)
        # What is wrong with the table is found, and what is left out is told, before the work.
        notes += pursuit.TableEncoder(**request.encoder).fit(X, y).notes_
        for line in ([reason] if reason else []) + [f"note: {note}" for note in notes]:
            tell(line, quiet=quiet)
        return compare_models(
            X,
            y,
            task=task.value,
            n_folds=folds,
            random_state=seed,
            n_basis=n_basis,
            encoder=encoder,
            progress=lambda text: tell(text, quiet=quiet),
        )


# What is shown


def _columns(found: TableComparison) -> list[tuple[str, str]]:
    """Scores that the table shows, with their headings."""
    if found.task == "classification":
        return [("error", "log loss"), ("error_rate", "error rate")]
    density = "log probability" if found.counts else "log density"
    return [("error", "RMSE"), ("log_density", density), ("coverage", "90 % cover")]


def table_of(found: TableComparison) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the table, as text; the first score with its spread."""
    from pursuit.plots.report import precise

    columns = _columns(found)
    head = ["model", *(label for _, label in columns), "fit, s", "predict, s", "size, kB"]
    body = []
    for standing in found.standings:
        first = f"{precise(standing.mean('error'))} ± {precise(standing.std('error'))}"
        others = [precise(standing.mean(name)) for name, _ in columns[1:]]
        times = [f"{standing.mean(name):.3g}" for name in ("fit_seconds", "predict_seconds")]
        body.append([standing.name, first, *others, *times, f"{standing.mean('size') / 1e3:,.0f}"])
    return head, body


def table_lines(found: TableComparison) -> list[str]:
    """The table in lines of plain text, and what was chosen."""
    head, body = table_of(found)
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *body]
    ]
    return [*lines, "", _summary(found)]


def _summary(found: TableComparison) -> str:
    kinds = ", ".join(
        f"{kind} in {counted(found.chosen.count(kind), 'fold')}"
        for kind in dict.fromkeys(found.chosen)
    )
    return (
        f"{found.n_rows:,} rows, {found.n_folds} folds, the least {found.error_name} first; ± is "
        f"the standard deviation over the folds. Chosen by pursuit (auto): {kinds}."
    )


def facts_of(found: TableComparison) -> dict[str, Any]:
    """For programs: all scores, by model and fold."""
    from dataclasses import asdict

    return {
        "task": found.task,
        "error": found.error_name,
        "log_density": "log probability of counts" if found.counts else "log density",
        "rows": found.n_rows,
        "folds": found.n_folds,
        "chosen": found.chosen,
        "models": [
            {"model": each.name, "ours": each.ours, "folds": [asdict(one) for one in each.scores]}
            for each in found.standings
        ],
    }


def _write_csv(found: TableComparison) -> None:
    """One line per model: means of all scores, and the spread of the first."""
    names = [*(name for name, _ in _columns(found)), "fit_seconds", "predict_seconds", "size"]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["model", *names, "error_std"])
    for each in found.standings:
        writer.writerow([each.name, *(each.mean(name) for name in names), each.std("error")])


def _draw(found: TableComparison, path: Any, kind: str | None = None) -> None:
    """Write the figure to a file."""
    from matplotlib.figure import Figure

    from pursuit.plots.comparison import ComparisonDisplay

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    ComparisonDisplay(
        [each.name for each in found.standings],
        [each.mean("fit_seconds") for each in found.standings],
        [each.mean("error") for each in found.standings],
        [each.std("error") for each in found.standings],
        ours=[each.ours for each in found.standings],
        error_name=found.error_name,
    ).plot(figure.subplots())
    figure.savefig(path, dpi=150, format=kind)


def _page(found: TableComparison, data: Path, target: str) -> str:
    """The table and the figure as one page."""
    from importlib.metadata import version
    from io import BytesIO

    from pursuit.plots.report import Panel, Report, Table, precise, render

    picture = BytesIO()
    _draw(found, picture, "svg")
    head, body = table_of(found)
    what = f"{found.error_name} of the models against the seconds that they take to fit."
    panels = [
        Panel("Models", _summary(found), Table(head, body)),
        Panel("Errors and times", what, picture=picture.getvalue(), described=what),
    ]
    facts = Table([], [["table", data.name], ["target", target], ["task", found.task]])
    best = found.standings[0]
    summary = f"{best.name} has the least {found.error_name}, {precise(best.mean('error'))}."
    report = Report(f"Models of {target}", summary, facts, Table([], []), [], [], panels=panels)
    return render(report, version("pursuit"))
