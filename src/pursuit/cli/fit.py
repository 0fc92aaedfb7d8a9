"""`pursuit fit`: from a table to a model in a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pursuit.cli.console import (
    AsJson,
    Debug,
    Force,
    Quiet,
    TableArgument,
    WrongCallError,
    ending,
    quoted,
    say,
    say_json,
    tell,
)
from pursuit.cli.files import (
    STANDARD,
    file_for,
    is_stream,
    refuse_output,
    table_in,
)
from pursuit.cli.fitting import Kind, Request, Result, Task, fit_table
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


class Impute(StrEnum):
    """What to do about missing values."""

    median = "median"
    drop = "drop"


def fit(
    data: TableArgument,
    target: Target,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write the model to; - writes it here."),
    ],
    task: TaskOption = None,
    model: Annotated[
        Kind,
        typer.Option(
            help="Small, with near rows, or for counts; auto chooses on reserved rows and says why."
        ),
    ] = Kind.auto,
    n_basis: BasisSize = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Choose the number of basis functions.")
    ] = False,
    near_rows: Annotated[
        bool, typer.Option("--near-rows", help="The same as --model full-scale.")
    ] = False,
    varying_noise: Annotated[
        bool,
        typer.Option("--varying-noise", help="Let the noise depend on the features."),
    ] = False,
    outliers: Annotated[
        bool,
        typer.Option("--outliers", help="Find wrong targets and give them hardly any weight."),
    ] = False,
    conformal: Annotated[
        bool,
        typer.Option(
            "--conformal",
            help="Set a fifth of the rows aside, to guarantee what --interval and --set cover.",
        ),
    ] = False,
    max_time: Annotated[
        float | None,
        typer.Option(min=0.001, help="Seconds that the fit may take; no limit by default."),
    ] = None,
    features: Features = None,
    drop: Drop = None,
    drop_unusable: DropUnusable = False,
    date_format: DateFormat = None,
    impute: Annotated[
        Impute | None,
        typer.Option(
            help="drop leaves rows with gaps out; by default gaps get the median and a column that "
            "marks them."
        ),
    ] = None,
    weight: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of weights.")] = None,
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder from which a killed fit can be resumed.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Fit a model to a table and write it to a file. Nothing has to be tuned.

    Texts become categories, dates become days and seasons, numbers written as text are read, gaps
    are filled and marked. Constants, row numbers and identifiers are left out, and told.
    """
    with ending(debug):
        wanted = one_target(target)
        if as_json and str(output) == STANDARD:
            raise WrongCallError(f"--json writes to standard output: name a file, not -o {output}.")
        refuse_output(output, force, [data], model=True)
        if checkpoint is not None and checkpoint.exists() and not checkpoint.is_dir():
            raise WrongCallError(f"--checkpoint: {checkpoint} is a file: name a folder.")
        request = Request(
            target=wanted,
            weight=weight,
            features=features or [],
            drop=drop or [],
            task=task,
            kind=_kind(model, near_rows, varying_noise, outliers, conformal, task),
            parameters=_parameters(n_basis, auto, varying_noise, outliers, conformal)
            | {"max_time": max_time, "checkpoint": checkpoint, "random_state": seed},
            encoder=encoder_options(date_format, drop_unusable),
            drop_gaps=impute is Impute.drop,
        )
        with table_in(data) as path:
            result = fit_table(path, request, output, quiet)
        with file_for(output) as file:
            result.pipeline.save(file)
        if as_json:
            say_json({"output": str(output), **result.facts()})
        else:
            _say(result, output, quiet)


def _kind(
    model: Kind,
    near_rows: bool,
    varying_noise: bool,
    outliers: bool,
    conformal: bool,
    task: Task | None,
) -> Kind:
    """The kind of model that the options ask for together."""
    if near_rows and model not in (Kind.auto, Kind.full_scale):
        raise WrongCallError(
            f"--near-rows is --model full-scale, which --model {model} is not: leave one of them "
            "out."
        )
    kind = Kind.full_scale if near_rows else model
    if varying_noise and outliers:
        raise WrongCallError("--varying-noise and --outliers exclude each other: use one of them.")
    if varying_noise or outliers:
        option = "--varying-noise" if varying_noise else "--outliers"
        if task is Task.classification:
            raise WrongCallError(f"{option} is for numbers: leave {option} out for classes.")
        if kind not in (Kind.auto, Kind.sparse):
            raise WrongCallError(f"{option} is for --model sparse: leave --model {kind} out.")
        kind = Kind.sparse
    if kind is Kind.glm and conformal:
        raise WrongCallError(
            "--conformal and --model glm exclude each other: leave one of them out."
        )
    return kind


def _parameters(
    n_basis: int | None, auto: bool, varying_noise: bool, outliers: bool, conformal: bool
) -> dict[str, Any]:
    """Arguments of the model that are not its defaults."""
    if auto and n_basis is not None:
        raise WrongCallError("--auto chooses the number of functions: leave --n-basis out.")
    parameters: dict[str, Any] = {}
    if auto or n_basis is not None:
        parameters["n_basis"] = "auto" if auto else n_basis
    if varying_noise:
        parameters["noise"] = "varying"
    if outliers:
        parameters["likelihood"] = "student-t"
    if conformal:
        parameters["calibration"] = "conformal"
    return parameters


def _say(result: Result, output: Path, quiet: bool) -> None:
    """Say how large and how good the model is, and what to do with it."""
    shown = str(output) if not is_stream(output) else "model"
    # Where the model itself goes to standard output, nothing else may.
    line = tell if str(output) == STANDARD else say
    for text in result.lines(shown):
        line(text, quiet=quiet)
    if not is_stream(output):
        name = quoted(shown)
        say(f"next: pursuit predict {name} NEW.csv -o out.csv, pursuit inspect {name}", quiet=quiet)
