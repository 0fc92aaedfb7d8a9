"""Options that several commands share, and what they must be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from pursuit.cli.console import WrongCallError
from pursuit.cli.fitting import Task

Target = Annotated[
    list[str], typer.Option("--target", "-t", metavar="COLUMN", help="Column to predict.")
]
TaskOption = Annotated[
    Task | None, typer.Option(help="Numbers or classes to predict; by default as they look.")
]
BasisSize = Annotated[
    int | None,
    typer.Option(min=1, help="Maximum number of basis functions; 512 by default."),
]
Features = Annotated[
    list[str] | None,
    typer.Option("--feature", metavar="COLUMN", help="Use this column; repeat for more."),
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COLUMN", help="Leave this column out; repeat for more."),
]
DropUnusable = Annotated[
    bool,
    typer.Option("--drop-unusable", help="Leave out columns that cannot be used, and say so."),
]
DateFormat = Annotated[
    str | None,
    typer.Option(metavar="FORMAT", help="How dates are written, for instance %d/%m/%Y."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random choices.")]


def one_target(names: Sequence[str]) -> str:
    """The target, which must be one column."""
    if len(names) > 1:
        raise WrongCallError(f"--target is given twice, {' and '.join(names)}: name one column.")
    return names[0]


def encoder_options(date_format: str | None, drop_unusable: bool) -> dict[str, str | None]:
    """Arguments of the table encoder."""
    if date_format is not None and "%" not in date_format:
        raise WrongCallError(
            f"--date-format: {date_format!r} names no part of a date: write it like %d/%m/%Y, "
            "%m/%d/%Y or %Y%m%d."
        )
    return {"date_format": date_format, "unusable": "drop" if drop_unusable else "error"}
