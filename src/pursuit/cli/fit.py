"""`pursuit fit`: from a table to a model in a file."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pursuit.cli.console import (
    Debug,
    Force,
    Quiet,
    TableArgument,
    WrongCallError,
    ending,
    progress_of,
    refuse_existing,
    say,
    tell,
)

if TYPE_CHECKING:
    from pursuit.cli.tables import TableFile

_STREAMED_BYTES = 1 << 29
"""A file beyond this size is streamed, and must hold numbers only."""


class Task(StrEnum):
    """What is learned."""

    regression = "regression"
    classification = "classification"


class Impute(StrEnum):
    """What becomes of missing values."""

    median = "median"
    drop = "drop"


def fit(
    data: TableArgument,
    target: Annotated[str, typer.Option("--target", "-t", help="Column to predict.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write the model to.")],
    task: Annotated[Task, typer.Option(help="Numbers or classes to predict.")] = Task.regression,
    n_basis: Annotated[
        int | None, typer.Option(min=1, help="Most basis functions; 512 by default.")
    ] = None,
    auto: Annotated[bool, typer.Option("--auto", help="Choose the number of functions.")] = False,
    max_time: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds that the fit is to take.")
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option("--feature", metavar="COLUMN", help="Use this column; repeat for more."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="COLUMN", help="Leave this column out; repeat for more."),
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights.")] = None,
    impute: Annotated[
        Impute | None, typer.Option(help="Fill missing values, or drop their rows.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder in which a killed fit can be resumed.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a sparse Gaussian process to a table and write it to a file.

    Texts become one feature a category, dates become days. Nothing has to be tuned.
    """
    with ending(debug):
        refuse_existing(output, force, [data])
        if auto and n_basis is not None:
            raise WrongCallError("--auto chooses the number of functions: leave --n-basis out.")
        asked = _Asked(data, target, weight, features or [], drop or [], impute)
        model = _model(task, "auto" if auto else n_basis, max_time, checkpoint, seed)
        began = time.perf_counter()
        try:
            rows = _fit(model, asked, task, quiet)
        except KeyboardInterrupt:
            # A first Ctrl-C leaves the estimator fitted, a second does not.
            if hasattr(model, "learning_report_"):
                model.save(output)
                tell(f"{output}: the model so far, {_functions(model)}", quiet=quiet)
            raise
        model.save(output)
        _tell_result(model, rows, time.perf_counter() - began, output, quiet)


@dataclass(frozen=True)
class _Asked:
    """What of the table is to be used, and how."""

    data: Path
    target: str
    weight: str | None
    features: list[str]
    drop: list[str]
    impute: Impute | None

    def columns(self, there: list[str]) -> list[str]:
        """The columns of the features."""
        from pursuit.cli.columns import require_columns

        for names, asked in (
            ([self.target], "--target"),
            (self.features, "--feature"),
            (self.drop, "--drop"),
            ([self.weight] if self.weight else [], "--weight"),
        ):
            require_columns(names, there, self.data.name, asked)
        if self.weight == self.target:
            raise WrongCallError(f"--weight: {self.weight!r} is the target: name another column.")
        aside = {self.target, self.weight, *self.drop}
        chosen = dict.fromkeys(name for name in self.features or there if name not in aside)
        if not chosen:
            raise WrongCallError("no column is left for the features.")
        return list(chosen)

    def used(self, columns: list[str]) -> list[str]:
        """These, and those of the targets and weights."""
        return [*columns, self.target, *([self.weight] if self.weight else [])]


def _model(
    task: Task,
    n_basis: int | str | None,
    max_time: float | None,
    checkpoint: Path | None,
    seed: int,
) -> Any:
    import pursuit

    chosen: dict[str, Any] = {
        "random_state": seed,
        "max_time": max_time,
        "checkpoint": checkpoint,
    }
    if n_basis is not None:
        chosen["n_basis"] = n_basis
    if task is Task.classification:
        return pursuit.SparseGPClassifier(**chosen)
    return pursuit.SparseGPRegressor(**chosen)


def _fit(model: Any, asked: _Asked, task: Task, quiet: bool) -> int:
    """Fit, keep beside the model how columns became features, and return the number of rows."""
    from pursuit.cli.columns import kind_of, refuse_target
    from pursuit.cli.tables import TableFile

    table = TableFile(asked.data)
    columns = asked.columns(table.columns)
    if task is Task.regression and kind_of(table.type_of(asked.target)) != "number":
        refuse_target(table.read([asked.target]).column(0), asked.target)
    if asked.weight is not None and kind_of(table.type_of(asked.weight)) != "number":
        raise WrongCallError(
            f"--weight: column {asked.weight!r} holds {table.type_of(asked.weight)}, not numbers."
        )
    if table.bytes > _STREAMED_BYTES:
        return _fit_streamed(model, asked, columns, table, quiet)
    return _fit_read(model, asked, columns, table, task, quiet)


def _fit_streamed(
    model: Any, asked: _Asked, columns: list[str], table: TableFile, quiet: bool
) -> int:
    """Fit a file too large to read: numbers only, and no gaps."""
    from pursuit.cli.columns import Column, Encoding, kind_of

    for name in columns:
        if kind_of(table.type_of(name)) != "number":
            raise WrongCallError(
                f"{asked.data} is streamed, being large, and column {name!r} does not hold "
                f"numbers: leave it out with --drop {shlex.quote(name)}, or encode it first."
            )
    rows = table.rows(asked.used(columns))
    model.table_ = Encoding([Column(name, "number") for name in columns], asked.target).as_json()
    with progress_of(model, quiet):
        model.fit(rows, target=asked.target, weight=asked.weight)
    return table.n_rows


def _fit_read(
    model: Any, asked: _Asked, columns: list[str], file: TableFile, task: Task, quiet: bool
) -> int:
    """Fit a table in memory: texts and dates encoded, gaps treated as asked."""
    from pursuit.cli.columns import (
        finite_numbers,
        learn_encoding,
        named,
        refuse_gaps,
        without_gaps,
    )

    whole = table = file.read(asked.used(columns))
    if asked.impute is not None:
        dropped = table.column_names if asked.impute is Impute.drop else [asked.target]
        table = without_gaps(table, dropped)
        if table.num_rows < 2:
            refuse_gaps(
                whole.select(dropped),
                f"{table.num_rows:,} of {file.n_rows:,} rows are without gaps, too few to learn "
                "from: --drop the columns that have the most",
            )
        if table.num_rows < file.n_rows:
            tell(f"{file.n_rows - table.num_rows:,} rows with gaps are left out", quiet=quiet)
    if table.num_rows < 2:
        raise WrongCallError(
            f"{asked.data} has too few rows to learn from: {table.num_rows}, and 2 are the least."
        )
    if asked.weight is not None:
        refuse_gaps(table.select([asked.weight]), "a row without a weight must be left out")
    seen = table.select([*columns, asked.target])
    encoding = learn_encoding(seen, asked.target, asked.impute.value if asked.impute else None)
    X, _ = encoding.encode(seen)
    y = table.column(asked.target)
    targets = y.to_pylist() if task is Task.classification else finite_numbers(y, asked.target)
    weights = None
    if asked.weight is not None:
        weights = finite_numbers(table.column(asked.weight), asked.weight)
        if weights.min() < 0:
            raise WrongCallError(
                f"--weight: column {asked.weight!r} holds {weights.min():g}, and the least weight "
                "is 0."
            )
    tell(f"{len(X):,} rows, {X.shape[1]} features", quiet=quiet)
    model.table_ = encoding.as_json()
    with progress_of(model, quiet):
        model.fit(named(X, encoding.features), targets, weights)
    return len(X)


def _tell_result(model: Any, rows: int, seconds: float, output: Path, quiet: bool) -> None:
    found = getattr(model, "calibration_", None)
    for note in model.learning_report_.warnings:
        tell(f"note: {note}", quiet=quiet)
    say(
        f"{output}: {_functions(model)} for {rows:,} rows, {seconds:.1f} s",
        quiet=quiet,
    )
    if found is not None and hasattr(found, "rmse"):
        error = found.rmse * float(model._scale.scale[0])
        say(f"error on rows left out: {error:.4g} (root mean square)", quiet=quiet)
    elif found is not None:
        say(f"log loss on rows left out: {found.log_loss:.4g}", quiet=quiet)
    if getattr(model, "certificate_", None) is not None:
        say(str(model.certificate_), quiet=quiet)
    say(f"next: pursuit predict {output} NEW.csv -o out.csv, pursuit inspect {output}", quiet=quiet)


def _functions(model: Any) -> str:
    return f"{model.n_basis_:,} basis function{'' if model.n_basis_ == 1 else 's'}"
