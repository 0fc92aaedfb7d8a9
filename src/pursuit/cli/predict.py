"""`pursuit predict`: rows of a table through a model in a file."""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any

import typer

from pursuit.cli.console import (
    Debug,
    Force,
    Quiet,
    TableArgument,
    WrongCallError,
    ending,
    refuse_existing,
    tell,
)


def predict(
    model: Annotated[Path, typer.Argument(help="A model that `pursuit fit` wrote.")],
    data: TableArgument,
    output: Annotated[
        str, typer.Option("--output", "-o", help="A .csv or .parquet file; - writes CSV here.")
    ],
    std: Annotated[bool, typer.Option("--std", help="Add standard deviations.")] = False,
    interval: Annotated[
        float | None, typer.Option(help="Add bounds that hold this part of new observations.")
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of each class.")
    ] = False,
    with_input: Annotated[
        bool, typer.Option("--with-input", help="Write the columns of the table as well.")
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the rows of a table."""
    with ending(debug):
        if output != "-":
            refuse_existing(Path(output), force, [model, data])
        if interval is not None and not 0.0 < interval < 1.0:
            raise WrongCallError(f"--interval must be between 0 and 1, got {interval:g}.")
        from pursuit.cli.columns import named
        from pursuit.cli.stored import encoding_of, load_model, open_for
        from pursuit.cli.tables import Output

        loaded = load_model(model)
        encoding = encoding_of(loaded, model)
        _check_asked(loaded, model, std, interval, proba)
        to, table = Output(output), open_for(encoding, data)
        if not table.n_rows:
            raise WrongCallError(f"{data} has no rows to predict.")
        rows, unseen = 0, 0
        with to:
            for piece in table.pieces(table.columns if with_input else encoding.names):
                X, strange = encoding.encode(piece)
                answer = _columns(loaded, named(X, encoding.features), std, interval, proba)
                to.write(_joined(piece, answer) if with_input else _table(answer))
                rows, unseen = rows + len(X), unseen + strange
        if unseen:
            tell(f"warning: {unseen:,} values are of categories that the model has not seen")
        tell(f"{output}: {rows:,} rows", quiet=quiet or output == "-")


def _check_asked(model: Any, path: Path, std: bool, interval: float | None, proba: bool) -> None:
    classes = hasattr(model, "classes_")
    if classes and (std or interval is not None):
        raise WrongCallError(f"{path} predicts classes: ask for --proba.")
    if proba and not classes:
        raise WrongCallError(f"{path} predicts numbers: ask for --std or --interval.")


def _columns(model: Any, X: Any, std: bool, interval: float | None, proba: bool) -> dict[str, Any]:
    if proba:
        chances = model.predict_proba(X)
        best = model.classes_[chances.argmax(axis=1)]
        each = {f"p({name})": chances[:, j] for j, name in enumerate(model.classes_)}
        return {"prediction": best, **each}
    if not std and interval is None:
        return {"prediction": model.predict(X)}
    mean, deviation = model.predict(X, return_std=True)
    answer = {"prediction": mean}
    if std:
        answer["std"] = deviation
    if interval is not None:
        width = NormalDist().inv_cdf(0.5 + 0.5 * interval) * deviation
        answer |= {"lower": mean - width, "upper": mean + width}
    return answer


def _table(answer: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.table({name: pa.array(values.tolist()) for name, values in answer.items()})


def _joined(batch: Any, answer: dict[str, Any]) -> Any:
    for name, values in _table(answer).to_pydict().items():
        if name in batch.column_names:
            raise WrongCallError(f"the table has a column {name!r} itself: leave out --with-input.")
        batch = batch.append_column(name, [values])
    return batch
