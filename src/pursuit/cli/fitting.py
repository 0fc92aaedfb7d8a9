"""What `pursuit fit` does: columns, task and model are chosen, and the model is fitted.

Nothing that is slow to import is imported before the work begins.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pursuit.cli.console import WrongCallError, counted, progress_of, quoted, tell
from pursuit.cli.files import file_for

_MOST_CLASSES = 30
"""More different texts are meant as numbers if most can be read as such."""
_LEAST_SECONDS = 30.0
"""Kinds of models are compared only if the fit may take this long."""


class Task(StrEnum):
    """What is learned."""

    regression = "regression"
    classification = "classification"


class Kind(StrEnum):
    """Kinds of models."""

    auto = "auto"
    sparse = "sparse"
    full_scale = "full-scale"
    glm = "glm"


@dataclass(frozen=True)
class Request:
    """What to learn, from which columns, by which model.

    Attributes
    ----------
    target, weight, features, drop
        Columns that the call names.
    task : Task or None
        What to predict; None to tell by the values.
    kind : Kind
        The kind of model.
    parameters : dict
        Arguments of the model.
    encoder : dict
        Arguments of the encoder.
    drop_gaps : bool
        Whether rows with gaps are left out.
    """

    target: str
    weight: str | None
    features: Sequence[str]
    drop: Sequence[str]
    task: Task | None
    kind: Kind
    parameters: dict[str, Any]
    encoder: dict[str, Any]
    drop_gaps: bool


@dataclass(frozen=True)
class Result:
    """A fitted model, and what there is to say about it."""

    pipeline: Any
    task: Task
    said: list[str]
    rows: int
    seconds: float

    def facts(self) -> dict[str, Any]:
        """For programs."""
        from pursuit.cli.inspect import facts_of

        return {
            "task": self.task.value,
            "messages": self.said,
            "seconds": round(self.seconds, 3),
            **facts_of(self.pipeline),
        }

    def lines(self, name: str) -> list[str]:
        """For people."""
        from pursuit.cli.inspect import model_in
        from pursuit.plots.parts import global_part
        from pursuit.plots.report import precise

        model = model_in(self.pipeline)
        found = [f"{name}: {size_of(model)} for {counted(self.rows, 'row')}, {self.seconds:.1f} s"]
        calibration: Any = getattr(model, "calibration_", None)
        if hasattr(calibration, "rmse"):
            error = calibration.rmse * float(model._scale.scale[0])
            found.append(f"error on rows left out: {precise(error)} (root mean square)")
        elif calibration is not None:
            found.append(f"log loss on rows left out: {calibration.log_loss:.4g}")
        certificate = getattr(global_part(model), "certificate_", None)
        guarantee = getattr(model, "coverage_guarantee_", None)
        return [*found, *(str(each) for each in (certificate, guarantee) if each is not None)]


def size_of(model: Any) -> str:
    """How many functions and near rows a model has."""
    from pursuit.plots.parts import global_part

    n = global_part(model).n_basis_
    near = f" and {model.n_neighbors_} near rows" if hasattr(model, "n_neighbors_") else ""
    return f"{counted(n, 'basis function')}{near}"


def fit_table(data: Path, request: Request, output: Path, quiet: bool) -> Result:
    """Fit a pipeline to a table. Ctrl-C writes the model so far, if there is one.

    Everything that can be wrong with the table is found before the first line is said.
    """
    import pursuit
    from pursuit.cli.inspect import notes_of
    from pursuit.cli.tables import chosen_columns, without_gaps
    from pursuit.rows import open_file

    started = time.perf_counter()
    table = chosen_columns(open_file(data), request)
    whole = table.n_rows
    if request.drop_gaps:
        table = without_gaps(table)
    with remedies(request):
        task, reason, rows = observed(table, request)
        encoder = pursuit.TableEncoder(**request.encoder)
        X = encoder.fit_transform(rows.X, rows.y)
    said = [f"{counted(len(rows.y), 'row')}, {counted(X.shape[1], 'feature')}"]
    said += [reason] if request.task is None else []
    if table.n_rows < whole:
        said.append(f"{counted(whole - table.n_rows, 'row')} with gaps left out")
    said += [f"note: {note}" for note in (*rows.notes, *encoder.notes_)]
    model = None if request.kind is Kind.auto else _model(request.kind, rows.y, request, task)
    for line in said:
        tell(line, quiet=quiet)
    if model is None:
        model, sentence = _chosen_model(X, rows.y, request, task)
        said.append(f"model: {sentence}")
        tell(said[-1], quiet=quiet)
    del X  # the fit makes its own
    pipeline = pursuit.TablePipeline([("table", encoder), ("model", model)])
    try:
        with progress_of(model, quiet):
            pipeline.fit(table, target=request.target, weight=request.weight)
    except KeyboardInterrupt:
        # A first Ctrl-C leaves the model fitted, a second does not.
        if hasattr(model, "learning_report_"):
            with file_for(output) as file:
                pipeline.save(file)
            tell(f"{output}: the model so far, {size_of(model)}", quiet=quiet)
        raise
    for note in notes_of(model):
        tell(f"note: {note}", quiet=quiet)
    return Result(pipeline, task, said, len(rows.y), time.perf_counter() - started)


def observed(table: Any, request: Request) -> tuple[Task, str, Any]:
    """What is predicted, why, and the rows that have a target."""
    from pursuit import TableError
    from pursuit.estimators.table.choice import infer_task

    task, reason, rows = request.task, "", None
    if task is None:
        rows = _rows(table, request, Task.classification)
        values = rows.y
        if values.dtype.kind not in "biuf":
            # Numbers may be written as text.
            try:
                values = _rows(table, request, Task.regression).y
            except ValueError as error:
                if isinstance(error, TableError) and _meant_as_numbers(set(values.tolist())):
                    asked = replace(request, task=Task.regression)
                    raise WrongCallError(_remedy(error.problems, asked)) from error
        found, why = infer_task(values)
        task = Task(found)
        if task is Task.regression:
            what, other = "numbers", "; --task classification to predict classes"
        else:
            # Text is never numbers, so that there is no other task.
            what, other = "classes", "; --task regression to predict numbers"
            other *= values.dtype.kind in "biuf"
        reason = f"predicting {what}: {request.target!r} {why}{other}"
    if rows is None or task is Task.regression:
        rows = _rows(table, request, task)
    if len(rows.y) < 2:
        raise WrongCallError(
            f"{table.name} has {counted(len(rows.y), 'row')} to learn from, and 2 are the least: "
            "add rows."
        )
    if task is Task.regression and (count := int((abs(rows.y) == math.inf).sum())):
        raise WrongCallError(
            f"the target {request.target!r} holds infinity, in {count:,} of {len(rows.y):,} rows: "
            "leave such rows out, or write nothing there."
        )
    if task is Task.regression and (rows.y == rows.y[0]).all():
        raise WrongCallError(
            f"the target {request.target!r} is {rows.y[0]:g} in all rows, so that there is nothing "
            "to learn: name another with --target."
        )
    if task is Task.classification:
        _check_classes(rows.y.tolist(), request.target)
    weights = rows.per_row.get("sample_weight")
    if weights is not None and not (weights >= 0).all():
        raise WrongCallError(
            f"--weight: column {request.weight!r} holds negative numbers or gaps, and the least "
            "weight is 0: correct it, or leave --weight out."
        )
    return task, reason, rows


def _meant_as_numbers(texts: set[str]) -> bool:
    """Whether so many different texts are numbers but for a few of them, or but for their unit."""
    from pursuit.estimators.table.formats import find_strays, shared_unit

    return len(texts) > _MOST_CLASSES and bool(shared_unit(texts) or find_strays(sorted(texts)))


def _check_classes(labels: list[Any], target: str) -> None:
    n_classes = len(set(labels))
    if n_classes == 1:
        raise WrongCallError(
            f"the target {target!r} holds one class, {labels[0]}, and 2 are the least: name "
            "another with --target."
        )
    if n_classes > max(2, len(labels) // 2):
        raise WrongCallError(
            f"the target {target!r} has {n_classes:,} classes in {len(labels):,} rows, too few "
            "rows of each to learn from: name another with --target."
        )


def _rows(table: Any, request: Request, task: Task) -> Any:
    from pursuit.estimators.table.observations import Named, observations

    named = Named(request.target, request.weight)
    return observations(table, None, {}, named, classes=task is Task.classification)


@contextlib.contextmanager
def remedies(request: Request) -> Iterator[None]:
    """Say which options help where columns of a table cannot be used."""
    from pursuit import TableError

    try:
        yield
    except TableError as error:
        if not error.problems:
            raise
        raise WrongCallError(_remedy(error.problems, request)) from error


def _remedy(problems: dict[str, str], request: Request) -> str:
    if request.target in problems:
        other = "name another with --target"
        if request.task is Task.regression:
            other += ", or add --task classification to predict classes"
        problem = problems[request.target]
        joined = f"{problem}, or {other}" if ": " in problem else f"{problem}: {other}"
        return f"the target {request.target!r}: {joined}."
    if request.weight in problems:
        return (
            f"--weight: column {request.weight!r}: {problems[request.weight]}: name a column of "
            "numbers, or leave --weight out."
        )
    told = "; ".join(f"column {name!r}: {problem}" for name, problem in problems.items())
    told = re.sub(r'date_format="([^"]*)"', _as_option, told)
    drop = " ".join(f"--drop {quoted(name)}" for name in problems)
    return f"{told}: add --drop-unusable, or {drop}."


def _as_option(form: re.Match[str]) -> str:
    return f"--date-format {quoted(form[1])}"


# The model


def _chosen_model(X: Any, y: Any, request: Request, task: Task) -> tuple[Any, str]:
    """The model to fit where its kind was left open, and why it is of this kind."""
    from pursuit.estimators.table.choice import choose_model

    limit = request.parameters.get("max_time")
    if limit is not None and limit < _LEAST_SECONDS:
        sentence = f"small process: {limit:g} seconds are too few to compare kinds of models"
        return _model(Kind.sparse, y, request, task), sentence
    choice = choose_model(
        X,
        y,
        task=task.value,
        random_state=request.parameters["random_state"],
        n_basis=request.parameters.get("n_basis"),
    )
    if request.parameters.keys() <= choice.model.get_params().keys():
        return choice.model.set_params(**request.parameters), choice.sentence
    return (
        _model(Kind.sparse, y, request, task),
        f"small process, for --conformal; else {choice.sentence}",
    )


def _model(kind: Kind, y: Any, request: Request, task: Task) -> Any:
    import pursuit

    if task is Task.regression:
        made = {
            Kind.sparse: pursuit.SparseGPRegressor,
            Kind.full_scale: pursuit.FullScaleGPRegressor,
            Kind.glm: pursuit.SparseKernelGLM,
        }
    else:
        made = {
            Kind.sparse: pursuit.SparseGPClassifier,
            Kind.full_scale: pursuit.FullScaleGPClassifier,
        }
    if kind not in made:
        raise WrongCallError(
            f"--model {kind} is for counts, and {request.target!r} holds classes: use --model "
            "sparse or --model full-scale."
        )
    if kind is Kind.glm and (y < 0).any():
        raise WrongCallError(
            f"--model glm is for counts, and {request.target!r} holds negative numbers: use "
            "--model sparse or --model full-scale."
        )
    known = made[kind]().get_params()
    for name, option in (("noise", "--varying-noise"), ("likelihood", "--outliers")):
        if name in request.parameters and name not in known:
            raise WrongCallError(
                f"{option} is for numbers, and {request.target!r} holds classes: leave {option} "
                "out."
            )
    return made[kind](**request.parameters)
