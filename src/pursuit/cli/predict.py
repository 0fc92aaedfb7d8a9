"""`pursuit predict`: the answers of a model for the rows of a table."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pursuit.cli.console import (
    Debug,
    Force,
    Quiet,
    TableArgument,
    WrongCallError,
    counted,
    ending,
    finite,
    say_json,
    tell,
)
from pursuit.cli.files import (
    STANDARD,
    ModelArgument,
    is_stream,
    load_model,
    refuse_both,
    refuse_output,
    sink_of,
    table_in,
)

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIXES = (".csv", ".parquet")


def predict(
    model: ModelArgument,
    data: TableArgument,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A .csv or .parquet file; - writes CSV here."),
    ] = Path(STANDARD),
    std: Annotated[bool, typer.Option("--std", help="Add standard deviations.")] = False,
    interval: Annotated[
        float | None, typer.Option(help="Add bounds that contain this share of new observations.")
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of each class.")
    ] = False,
    classes: Annotated[
        float | None,
        typer.Option("--set", help="Add sets of classes that contain the true one this often."),
    ] = None,
    with_input: Annotated[
        bool, typer.Option("--with-input", help="Write the columns of the table as well.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON object per row; beside a file, one about the file."),
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the rows of a table.

    Columns are found by name. Gaps and levels that the model has not seen are counted and told.
    """
    with ending(debug):
        refuse_both([model, data], "the model and the table")
        refuse_output(output, force, [model, data], suffixes=_SUFFIXES)
        asked = Asked(std, interval, proba, classes)
        asked.check_levels()
        loaded = load_model(model)
        asked.check(loaded, model)
        lines = as_json and str(output) == STANDARD
        with table_in(data) as path:
            n_rows, columns = _predict(loaded, model, path, output, asked, with_input, lines)
        if as_json and not lines:
            say_json({"output": str(output), "rows": n_rows, "columns": columns})
        tell(f"{output}: {counted(n_rows, 'row')}", quiet=quiet or is_stream(output))


@dataclass(frozen=True)
class Asked:
    """What to write beside the predictions."""

    std: bool
    interval: float | None
    proba: bool
    classes: float | None

    def check_levels(self) -> None:
        """Refuse shares that are none."""
        for option, level in (("--interval", self.interval), ("--set", self.classes)):
            if level is not None and not 0.0 < level < 1.0:
                raise WrongCallError(
                    f"{option} must be between 0 and 1, got {level:g}: write 0.9 for 90 %."
                )

    def check(self, model: Any, path: Path) -> None:
        """Refuse what the model cannot give."""
        if hasattr(model, "classes_"):
            if self.std or self.interval is not None:
                raise WrongCallError(f"{path} predicts classes: ask for --proba or --set.")
            if self.classes is not None and guarantee_of(model) is None:
                raise WrongCallError(
                    f"{path} has no rows to guarantee a level by: use pursuit fit --conformal."
                )
            if self.proba and not hasattr(model, "predict_proba"):
                raise WrongCallError(f"{path} knows no probabilities: leave --proba out.")
        elif self.proba or self.classes is not None:
            other = (
                "ask for --std or --interval" if _has_std(model) else "leave --proba and --set out"
            )
            raise WrongCallError(f"{path} predicts numbers: {other}.")
        elif not _has_std(model) and (
            self.std or (self.interval is not None and guarantee_of(model) is None)
        ):
            raise WrongCallError(
                f"{path} has no error bars: leave --std and --interval out, or use pursuit fit "
                "--model sparse."
            )


def _has_std(model: Any) -> bool:
    return "return_std" in signature(model.predict).parameters


def guarantee_of(model: Any) -> Any:
    """What the model guarantees of its intervals or sets; None if nothing."""
    return getattr(model, "coverage_guarantee_", None)


def answers(model: Any, X: Any, asked: Asked) -> dict[str, Any]:
    """Predictions and what was asked for beside them, by the names of their columns."""
    if hasattr(model, "classes_"):
        return _class_answers(model, X, asked)
    if asked.std:
        mean, deviation = model.predict(X, return_std=True)
        columns = {"prediction": mean, "std": deviation}
    else:
        columns = {"prediction": model.predict(X)}
    if asked.interval is not None:
        method = "gaussian" if guarantee_of(model) is None else "conformal"
        lower, upper = model.predict_interval(X, asked.interval, method)
        columns |= {"lower": lower, "upper": upper}
    return columns


def _class_answers(model: Any, X: Any, asked: Asked) -> dict[str, Any]:
    """The class, its set and the probabilities of all classes."""
    columns: dict[str, Any] = {"prediction": model.predict(X)}
    if asked.classes is not None:
        sets = model.predict_set(X, asked.classes)
        columns["set"] = [" ".join(map(str, model.classes_[one])) for one in sets]
    if asked.proba:
        chances = model.predict_proba(X)
        columns |= {f"p({name})": chances[:, j] for j, name in enumerate(model.classes_)}
    return columns


def _predict(
    loaded: Any, model: Path, data: Path, output: Path, asked: Asked, with_input: bool, lines: bool
) -> tuple[int, list[str]]:
    """Write the answers piece by piece; return the number of rows and the names of the columns."""
    import pyarrow as pa

    from pursuit.cli.tables import open_for, pieces

    table = open_for(loaded, data, model)
    if not table.n_rows:
        raise WrongCallError(f"{table.name} has no rows to predict: check the table.")
    used = [name for name in table.columns if with_input or name in loaded.feature_names_in_]
    names: list[str] = []
    told: list[str] = []
    with _writer(output, ".jsonl" if lines else output.suffix.lower()) as write:
        for piece in pieces(table.select(used)):
            with _named(table.name), warnings.catch_warnings(record=True) as caught:
                columns = answers(loaded, piece, asked)
            # Each of several answers warns of the same.
            told += dict.fromkeys(str(one.message) for one in caught)
            answer = pa.table({name: pa.array(_list(one)) for name, one in columns.items()})
            names = answer.column_names
            write(_joined(piece, answer) if with_input else answer)
    if told:
        more = f" It is so in {counted(len(told) - 1, 'further part')} of the table." * (
            len(told) > 1
        )
        tell(f"warning: {told[0]}{more}")
    return table.n_rows, names


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Call the pieces of a table by its name in errors."""
    from pursuit import TableError

    try:
        yield
    except TableError as error:
        raise WrongCallError(str(error).replace("the Arrow table", name)) from error


def _list(values: Any) -> list[Any]:
    listed: list[Any] = values if isinstance(values, list) else values.tolist()
    return listed


def _joined(piece: pa.Table, answer: pa.Table) -> pa.Table:
    """The columns of a table and the predictions."""
    for name in answer.column_names:
        if name in piece.column_names:
            raise WrongCallError(f"the table has a column {name!r} itself: leave out --with-input.")
        piece = piece.append_column(name, answer.column(name))
    return piece


@contextlib.contextmanager
def _writer(output: Path, kind: str) -> Iterator[Any]:
    """A function that appends rows to a CSV or Parquet file, or to lines of JSON."""
    import pyarrow.csv
    import pyarrow.parquet

    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(sink_of(output))
        writers: list[Any] = []

        def write(table: pa.Table) -> None:
            if kind == ".jsonl":
                for row in table.to_pylist():
                    text = json.dumps(finite(row), ensure_ascii=False, default=str)
                    sink.write(f"{text}\n".encode())
                return
            if not writers:
                made = (
                    pyarrow.parquet.ParquetWriter if kind == ".parquet" else pyarrow.csv.CSVWriter
                )
                writers.append(stack.enter_context(made(sink, table.schema)))
            writers[0].write_table(table)

        yield write
