"""The `pursuit` command: fit, predict, inspect, report and demo, put together with papers.

Modules that need pyarrow, and the estimators, are imported when a command runs, so that the help
appears at once and a missing package is reported in one line.
"""

from __future__ import annotations

import csv
import json
import shlex
import time
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pursuit.cli import papers
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
    import pyarrow as pa

    from pursuit.cli.columns import Encoding
    from pursuit.cli.files import TableFile

_STREAMED_BYTES = 1 << 29
"""Larger files are streamed instead of read, and must hold numbers only."""
_DEMO_ROWS, _DEMO_NEW, _DEMO_BASIS = 100_000, 10_000, 512
"""Training rows, new rows and basis functions of the demo."""

ModelFile = Annotated[Path, typer.Argument(help="A model that `pursuit fit` wrote.")]

app = typer.Typer(
    name="pursuit",
    help="Sparse kernel learning with proofs.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(papers.app, name="papers")


def _show_version(asked: bool) -> None:
    if asked:
        print(f"pursuit {version('pursuit')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Sparse kernel learning with proofs: from a table to a small model with error bars."""


# fit


class Task(StrEnum):
    """What is learned."""

    regression = "regression"
    classification = "classification"


class Impute(StrEnum):
    """What to do about missing values."""

    median = "median"
    drop = "drop"


@app.command()
def fit(
    data: TableArgument,
    target: Annotated[str, typer.Option("--target", "-t", help="Column to predict.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write the model to.")],
    task: Annotated[Task, typer.Option(help="Numbers or classes to predict.")] = Task.regression,
    n_basis: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of basis functions; 512 by default.")
    ] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Choose the number of basis functions.")
    ] = False,
    near_rows: Annotated[
        bool,
        typer.Option(
            "--near-rows", help="Also use near training rows: more accurate, and keeps the rows."
        ),
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
        float | None, typer.Option(min=0.001, help="Seconds that the fit may take.")
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
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder from which a killed fit can be resumed.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a sparse Gaussian process to a table and write it to a file.

    Texts become one feature per category, dates become days. Nothing has to be tuned.
    """
    with ending(debug):
        refuse_existing(output, force, [data])
        if auto and n_basis is not None:
            raise WrongCallError("--auto chooses the number of functions: leave --n-basis out.")
        kind = _estimator(task, near_rows)
        size = "auto" if auto else n_basis
        given: dict[str, Any] = {} if size is None else {"n_basis": size}
        given |= {"calibration": "conformal"} if conformal else {}
        given |= _noise(kind, varying_noise, outliers)
        model = kind(max_time=max_time, checkpoint=checkpoint, random_state=seed, **given)
        wanted = _Wanted(data, target, weight, features or [], drop or [], impute, task)
        started = time.perf_counter()
        try:
            rows = _fit(model, wanted, quiet)
        except KeyboardInterrupt:
            # A first Ctrl-C leaves the estimator fitted, a second does not.
            if hasattr(model, "learning_report_"):
                model.save(output)
                tell(f"{output}: the model so far, {_functions(model)}", quiet=quiet)
            raise
        model.save(output)
        _say_result(model, rows, time.perf_counter() - started, output, quiet)


def _estimator(task: Task, near_rows: bool) -> Any:
    import pursuit

    if task is Task.regression:
        return pursuit.FullScaleGPRegressor if near_rows else pursuit.SparseGPRegressor
    if near_rows:
        raise WrongCallError("--near-rows is for --task regression: leave it out for classes.")
    return pursuit.SparseGPClassifier


def _noise(kind: Any, varying: bool, outliers: bool) -> dict[str, str]:
    """Arguments for noise that is not the same Gaussian for all rows."""
    import pursuit

    if not (varying or outliers):
        return {}
    if varying and outliers:
        raise WrongCallError("--varying-noise and --outliers exclude each other: use one of them.")
    if kind is not pursuit.SparseGPRegressor:
        option = "--varying-noise" if varying else "--outliers"
        raise WrongCallError(f"{option} is for --task regression without --near-rows.")
    return {"noise": "varying"} if varying else {"likelihood": "student-t"}


@dataclass(frozen=True)
class _Wanted:
    """What to learn, from which columns of a table."""

    data: Path
    target: str
    weight: str | None
    features: list[str]
    drop: list[str]
    impute: Impute | None
    task: Task

    def columns(self, available: list[str]) -> list[str]:
        """The columns that become features."""
        from pursuit.cli.columns import require_columns

        for names, option in (
            ([self.target], "--target"),
            (self.features, "--feature"),
            (self.drop, "--drop"),
            ([self.weight] if self.weight else [], "--weight"),
        ):
            require_columns(names, available, self.data.name, option)
        if self.weight == self.target:
            raise WrongCallError(f"--weight: {self.weight!r} is the target: name another column.")
        aside = {self.target, self.weight, *self.drop}
        chosen = dict.fromkeys(name for name in self.features or available if name not in aside)
        if not chosen:
            raise WrongCallError("no column is left for the features.")
        return list(chosen)

    def used(self, columns: list[str]) -> list[str]:
        """These columns and those of targets and weights."""
        return [*columns, self.target, *([self.weight] if self.weight else [])]


def _fit(model: Any, wanted: _Wanted, quiet: bool) -> int:
    """Fit, store how columns became features in ``model.table_``, return the number of rows."""
    from pursuit.cli.columns import kind_of, named, refuse_target
    from pursuit.cli.files import TableFile

    file = TableFile(wanted.data)
    columns = wanted.columns(file.columns)
    if wanted.task is Task.regression and kind_of(file.type_of(wanted.target)) != "number":
        refuse_target(file.read([wanted.target]).column(0), wanted.target)
    if wanted.weight is not None and kind_of(file.type_of(wanted.weight)) != "number":
        raise WrongCallError(
            f"--weight: column {wanted.weight!r} holds {file.type_of(wanted.weight)}, not numbers."
        )
    if file.bytes > _STREAMED_BYTES:
        encoding = _numbers_only(file, wanted, columns)
        rows, n_rows = file.rows(wanted.used(columns)), file.n_rows
        arguments: dict[str, Any] = {"target": wanted.target, "weight": wanted.weight}
    else:
        table = _without_gaps(file, wanted, columns, quiet)
        encoding, X = _encoded(table.select([*columns, wanted.target]), wanted)
        rows, n_rows = named(X, encoding.features), len(X)
        arguments = {"y": _targets(table, wanted), "sample_weight": _weights(table, wanted)}
        tell(f"{n_rows:,} rows, {X.shape[1]} features", quiet=quiet)
    try:
        with progress_of(model, quiet):
            model.fit(rows, **arguments)
    finally:  # also after Ctrl-C, which leaves a fitted model
        model.table_ = encoding.as_json()
    return n_rows


def _numbers_only(file: TableFile, wanted: _Wanted, columns: list[str]) -> Encoding:
    """The encoding of a file that is too large to read: every column is a number."""
    from pursuit.cli.columns import Column, Encoding, kind_of

    for name in columns:
        if kind_of(file.type_of(name)) != "number":
            raise WrongCallError(
                f"{wanted.data} is streamed, being large, and column {name!r} does not hold "
                f"numbers: leave it out with --drop {shlex.quote(name)}, or encode it first."
            )
    return Encoding([Column(name, "number") for name in columns], wanted.target)


def _without_gaps(file: TableFile, wanted: _Wanted, columns: list[str], quiet: bool) -> pa.Table:
    """The table without the rows that ``--impute`` leaves out."""
    from pursuit.cli.columns import refuse_gaps, without_gaps

    whole = table = file.read(wanted.used(columns))
    if wanted.impute is not None:
        complete = table.column_names if wanted.impute is Impute.drop else [wanted.target]
        table = without_gaps(table, complete)
        if table.num_rows < 2:
            refuse_gaps(
                whole.select(complete),
                f"{table.num_rows:,} of {file.n_rows:,} rows are without gaps, too few to learn "
                "from: --drop the columns that have the most",
            )
        if table.num_rows < file.n_rows:
            tell(f"{file.n_rows - table.num_rows:,} rows with gaps are left out", quiet=quiet)
    if table.num_rows < 2:
        raise WrongCallError(
            f"{wanted.data} has too few rows to learn from: {table.num_rows}, and 2 are the least."
        )
    if wanted.weight is not None:
        refuse_gaps(table.select([wanted.weight]), "a row without a weight must be left out")
    return table


def _encoded(table: pa.Table, wanted: _Wanted) -> tuple[Encoding, Any]:
    """How the columns become features, and the rows of features."""
    from pursuit.cli.columns import learn_encoding

    impute = wanted.impute.value if wanted.impute else None
    encoding = learn_encoding(table, wanted.target, impute)
    return encoding, encoding.encode(table)[0]


def _targets(table: pa.Table, wanted: _Wanted) -> Any:
    from pursuit.cli.columns import finite_numbers

    y = table.column(wanted.target)
    if wanted.task is Task.classification:
        return y.to_pylist()
    return finite_numbers(y, wanted.target)


def _weights(table: pa.Table, wanted: _Wanted) -> Any:
    from pursuit.cli.columns import finite_numbers

    if wanted.weight is None:
        return None
    weights = finite_numbers(table.column(wanted.weight), wanted.weight)
    if weights.min() < 0:
        raise WrongCallError(
            f"--weight: column {wanted.weight!r} holds {weights.min():g}, and the least weight "
            "is 0."
        )
    return weights


def _say_result(model: Any, rows: int, seconds: float, output: Path, quiet: bool) -> None:
    from pursuit.plots.parts import global_part

    for note in model.learning_report_.warnings:
        tell(f"note: {note}", quiet=quiet)
    say(f"{output}: {_functions(model)} for {rows:,} rows, {seconds:.1f} s", quiet=quiet)
    calibration = getattr(model, "calibration_", None)
    if calibration is not None and hasattr(calibration, "rmse"):
        error = calibration.rmse * float(model._scale.scale[0])
        say(f"error on rows left out: {error:.4g} (root mean square)", quiet=quiet)
    elif calibration is not None:
        say(f"log loss on rows left out: {calibration.log_loss:.4g}", quiet=quiet)
    certificate = getattr(global_part(model), "certificate_", None)
    if certificate is not None:
        say(str(certificate), quiet=quiet)
    guarantee = _guarantee(model)
    if guarantee is not None:
        say(str(guarantee), quiet=quiet)
    say(f"next: pursuit predict {output} NEW.csv -o out.csv, pursuit inspect {output}", quiet=quiet)


def _functions(model: Any) -> str:
    from pursuit.plots.parts import global_part

    n = global_part(model).n_basis_
    near = f" and {model.n_neighbors_} near rows" if hasattr(model, "n_neighbors_") else ""
    return f"{n:,} basis function{'' if n == 1 else 's'}{near}"


# predict


@app.command()
def predict(
    model: ModelFile,
    data: TableArgument,
    output: Annotated[
        str, typer.Option("--output", "-o", help="A .csv or .parquet file; - writes CSV here.")
    ],
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
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the rows of a table."""
    with ending(debug):
        if output != "-":
            refuse_existing(Path(output), force, [model, data])
        for option, level in (("--interval", interval), ("--set", classes)):
            if level is not None and not 0.0 < level < 1.0:
                raise WrongCallError(f"{option} must be between 0 and 1, got {level:g}.")
        from pursuit.cli.columns import named
        from pursuit.cli.files import Output, encoding_of, load_model, open_for

        loaded = load_model(model)
        encoding = encoding_of(loaded, model)
        if hasattr(loaded, "classes_"):
            if std or interval is not None:
                raise WrongCallError(f"{model} predicts classes: ask for --proba or --set.")
            if classes is not None and _guarantee(loaded) is None:
                raise WrongCallError(
                    f"{model} has no rows to guarantee a level by: use pursuit fit --conformal."
                )
        elif proba or classes is not None:
            raise WrongCallError(f"{model} predicts numbers: ask for --std or --interval.")
        asked = _Asked(std, interval, proba, classes)
        to, table = Output(output), open_for(encoding, data)
        if not table.n_rows:
            raise WrongCallError(f"{data} has no rows to predict.")
        unseen = 0
        with to:
            for piece in table.pieces(table.columns if with_input else encoding.names):
                X, unknown = encoding.encode(piece)
                answer = _predictions(loaded, named(X, encoding.features), asked)
                to.write(_joined(piece, answer) if with_input else answer)
                unseen += unknown
        if unseen:
            tell(f"warning: {unseen:,} values are of categories that the model has not seen")
        tell(f"{output}: {table.n_rows:,} rows", quiet=quiet or output == "-")


@dataclass(frozen=True)
class _Asked:
    """What to write beside the predictions."""

    std: bool
    interval: float | None
    proba: bool
    classes: float | None


def _guarantee(model: Any) -> Any:
    return getattr(model, "coverage_guarantee_", None)


def _predictions(model: Any, X: Any, asked: _Asked) -> pa.Table:
    """Predictions and what was asked for beside them, as columns."""
    import pyarrow as pa

    if hasattr(model, "classes_"):
        columns = _class_columns(model, X, asked)
    elif asked.std:
        mean, deviation = model.predict(X, return_std=True)
        columns = {"prediction": mean, "std": deviation}
    else:
        columns = {"prediction": model.predict(X)}
    if asked.interval is not None:
        method = "gaussian" if _guarantee(model) is None else "conformal"
        lower, upper = model.predict_interval(X, asked.interval, method)
        columns |= {"lower": lower, "upper": upper}
    return pa.table({name: pa.array(values.tolist()) for name, values in columns.items()})


def _class_columns(model: Any, X: Any, asked: _Asked) -> dict[str, Any]:
    """The class, its set and the probabilities of all classes."""
    import numpy as np

    columns = {"prediction": model.predict(X)}
    if asked.classes is not None:
        sets = model.predict_set(X, asked.classes)
        columns["set"] = np.array([" ".join(map(str, model.classes_[one])) for one in sets])
    if asked.proba:
        chances = model.predict_proba(X)
        columns |= {f"p({name})": chances[:, j] for j, name in enumerate(model.classes_)}
    return columns


def _joined(piece: pa.Table, answer: pa.Table) -> pa.Table:
    """The columns of a table and the predictions."""
    for name in answer.column_names:
        if name in piece.column_names:
            raise WrongCallError(f"the table has a column {name!r} itself: leave out --with-input.")
        piece = piece.append_column(name, answer.column(name))
    return piece


# inspect and report


@app.command()
def inspect(
    model: ModelFile,
    as_json: Annotated[bool, typer.Option("--json", help="For other programs.")] = False,
    debug: Debug = False,
) -> None:
    """Describe a model: kernel, noise, size, certificate and features."""
    with ending(debug):
        from pursuit.cli.files import load_model

        facts = _facts(load_model(model))
        if as_json:
            say(json.dumps(facts, indent=2, ensure_ascii=False))
            return
        width = max(map(len, facts))
        for name, value in facts.items():
            say(f"{name:{width}}  {_shown(name, value)}")


def _facts(model: Any) -> dict[str, Any]:
    from pursuit.estimators.reporting import rows_fitted
    from pursuit.plots.parts import global_part

    part = global_part(model)
    facts: dict[str, Any] = {"model": type(model).__name__}
    table = getattr(model, "table_", None)
    if table is not None:
        facts["target"] = table["target"]
        facts["columns"] = [column["name"] for column in table["columns"]]
    elif hasattr(model, "feature_names_in_"):
        facts["columns"] = [str(name) for name in model.feature_names_in_]
    if hasattr(model, "classes_"):
        facts["classes"] = [str(name) for name in model.classes_]
    rows = rows_fitted(model)
    if rows is not None:
        facts["rows"] = rows
    for owner, name, label in (
        (part, "n_basis_", "basis functions"),
        (model, "n_neighbors_", "near rows"),
        (model, "kernel_", "kernel"),
        (model, "noise_", "noise"),
    ):
        value = getattr(owner, name, None)
        if value is not None:
            facts[label] = value if isinstance(value, int | float) else str(value)
    path = getattr(part, "path_", None)
    if path is not None:
        facts["stopped by"] = path.stop_reason
    certificate = getattr(part, "certificate_", None)
    facts["certificate"] = None if certificate is None else str(certificate)
    guarantee = _guarantee(model)
    if guarantee is not None:
        facts["coverage"] = str(guarantee)
    learned = getattr(model, "learning_report_", None)
    if learned is not None and table is not None:
        from pursuit.cli.columns import Encoding

        names = Encoding.from_json(table).features
        for kind in ("importance", "relevance"):
            values = getattr(learned, kind)
            if values is not None:
                order = sorted(range(len(names)), key=lambda j: -values[j])[:10]
                facts[kind] = {names[j]: round(float(values[j]), 4) for j in order}
    if learned is not None:
        facts["kernel family"] = learned.family
        if learned.kept:
            facts["kept because"] = learned.kept
    if learned is not None and learned.warnings:
        facts["notes"] = list(learned.warnings)
    return facts


def _shown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {number:g}" for key, number in value.items())
    if isinstance(value, list):
        return ("; " if name == "notes" else ", ").join(value)
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)


@app.command()
def report(
    model: ModelFile,
    data: Annotated[
        Path | None, typer.Argument(help="Rows to judge it by, with their targets.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write one page of HTML about a model, which needs no network."""
    with ending(debug):
        refuse_existing(output, force, [model, data])
        from pursuit.cli.files import load_model

        loaded = load_model(model)
        if not hasattr(loaded, "report"):
            raise WrongCallError(f"{type(loaded).__name__} has no report.")
        judged_by = () if data is None else _labelled_rows(loaded, model, data, quiet)
        loaded.report(output, *judged_by)
        say(str(output), quiet=quiet)


def _labelled_rows(loaded: Any, path: Path, data: Path, quiet: bool) -> tuple[Any, Any]:
    """Rows and targets of a table, without the rows that have no target."""
    import numpy as np

    from pursuit.cli.columns import named, without_gaps
    from pursuit.cli.files import encoding_of, open_for

    encoding = encoding_of(loaded, path)
    if not encoding.target:
        raise WrongCallError(
            f"{path} does not know which column is its target, having been fitted in Python: call "
            "model.report(page, X, y) there."
        )
    classes = getattr(loaded, "classes_", np.empty(0)).dtype.kind in "OUT"
    file = open_for(encoding, data, target=True, classes=classes)
    table = without_gaps(file.read([*encoding.names, encoding.target]), [encoding.target])
    if not table.num_rows:
        raise WrongCallError(f"{data} has no row with a value of {encoding.target!r} to judge by.")
    if table.num_rows < file.n_rows:
        missing = file.n_rows - table.num_rows
        tell(f"{missing:,} rows without {encoding.target!r} are left out", quiet=quiet)
    X, _ = encoding.encode(table)
    return named(X, encoding.features), np.asarray(table.column(encoding.target).to_pylist())


# demo


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where to write.")] = Path("pursuit-demo"),
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Make a table of a robot arm's positions, fit, inspect, predict, report, and compare."""
    from pursuit.datasets import make_robot_arm

    table, new, model = folder / "arm.csv", folder / "new.csv", folder / "arm.pursuit"
    out, page = folder / "out.csv", folder / "report.html"
    with ending(debug):
        folder.mkdir(parents=True, exist_ok=True)
        for path in (table, new, model, out, page):
            refuse_existing(path, force)
        arm = make_robot_arm(_DEMO_ROWS + _DEMO_NEW, random_state=0)
        names = [*(f"joint{j}" for j in range(arm.data.shape[1])), "distance"]
        for path, rows in ((table, slice(0, -_DEMO_NEW)), (new, slice(-_DEMO_NEW, None))):
            with open(path, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(names)
                for row, target in zip(arm.data[rows], arm.target[rows], strict=True):
                    writer.writerow([*(f"{value:.6g}" for value in row), f"{target:.6g}"])

    def show(*words: object) -> None:
        say(f"\n$ pursuit {shlex.join(map(str, words))}")

    show("fit", table, "--target", "distance", "--n-basis", _DEMO_BASIS, "-o", model)
    started = time.perf_counter()
    fit(table, target="distance", output=model, n_basis=_DEMO_BASIS, force=force, debug=debug)
    seconds = time.perf_counter() - started
    show("inspect", model)
    inspect(model, debug=debug)
    show("predict", model, new, "--interval", 0.95, "-o", out)
    predict(model, new, output=str(out), interval=0.95, force=force, debug=debug)
    show("report", model, new, "-o", page)
    report(model, new, output=page, force=force, debug=debug)
    with ending(debug):
        _compare(model, out, arm.data, arm.target, seconds)


def _compare(path: Path, predictions: Path, X: Any, y: Any, seconds: float) -> None:
    """Say how accurate the demo's model is, beside scikit-learn's with the kernel it learned."""
    import numpy as np
    import pyarrow.csv
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.metrics import root_mean_squared_error
    from sklearn.pipeline import make_pipeline

    import pursuit

    model = pursuit.load(path)
    train, new = slice(0, -_DEMO_NEW), slice(-_DEMO_NEW, None)
    table = pyarrow.csv.read_csv(predictions)
    mean, lower, upper = (table[name].to_numpy() for name in ("prediction", "lower", "upper"))
    covered = float(np.mean((lower <= y[new]) & (y[new] <= upper)))
    say(f"\n{'':32}basis  fit, s  RMSE on new rows")
    line = "{:32}{:>5}  {:>6.1f}  {:.4f}".format
    error = root_mean_squared_error(y[new], mean)
    say(line("pursuit, kernel learned", model.n_basis_, seconds, error))
    for size in (_DEMO_BASIS, 2 * _DEMO_BASIS):
        peer = make_pipeline(
            Nystroem(kernel=model.kernel_, n_components=size, random_state=0),
            Ridge(alpha=model.noise_),
        )
        started = time.perf_counter()
        peer.fit(X[train], y[train])
        seconds = time.perf_counter() - started
        error = root_mean_squared_error(y[new], peer.predict(X[new]))
        say(line("Nystroem + Ridge, kernel given", size, seconds, error))
    say(f"\n95 % intervals contain {100 * covered:.1f} % of the new rows.")
