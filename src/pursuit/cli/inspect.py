"""`pursuit inspect` and `pursuit report`: what is in a model's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pursuit.cli.console import (
    Debug,
    Force,
    Quiet,
    WrongCallError,
    ending,
    refuse_existing,
    say,
    tell,
)

ModelFile = Annotated[Path, typer.Argument(help="A model that `pursuit fit` wrote.")]


def inspect(
    model: ModelFile,
    as_json: Annotated[bool, typer.Option("--json", help="For other programs.")] = False,
    debug: Debug = False,
) -> None:
    """Say what a model is: kernel, noise, size, certificate, and what its features are."""
    with ending(debug):
        from pursuit.cli.stored import load_model

        found = _facts(load_model(model))
        if as_json:
            say(json.dumps(found, indent=2, ensure_ascii=False))
            return
        width = max(map(len, found))
        for name, value in found.items():
            say(f"{name:{width}}  {_shown(name, value)}")


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
        from pursuit.cli.stored import load_model

        loaded = load_model(model)
        if not hasattr(loaded, "report"):
            raise WrongCallError(f"{type(loaded).__name__} has no report.")
        loaded.report(output, *(_judged(loaded, model, data, quiet) if data is not None else ()))
        say(str(output), quiet=quiet)


def _judged(loaded: Any, path: Path, data: Path, quiet: bool) -> tuple[Any, Any]:
    """Rows and targets of a table, but for rows without a target, which judge nothing."""
    import numpy as np

    from pursuit.cli.columns import named, without_gaps
    from pursuit.cli.stored import encoding_of, open_for

    encoding = encoding_of(loaded, path)
    if not encoding.target:
        raise WrongCallError(
            f"{path} does not know which column is its target, having been fitted in Python: call "
            "model.report(page, X, y) there."
        )
    classes = getattr(loaded, "classes_", np.empty(0)).dtype.kind in "OUT"
    file = open_for(encoding, data, target=True, classes=classes)
    table = file.read([*encoding.names, encoding.target])
    table = without_gaps(table, [encoding.target])
    if not table.num_rows:
        raise WrongCallError(f"{data} has no row with a value of {encoding.target!r} to judge by.")
    if table.num_rows < file.n_rows:
        missing = file.n_rows - table.num_rows
        tell(f"{missing:,} rows without {encoding.target!r} are left out", quiet=quiet)
    X, _ = encoding.encode(table)
    return named(X, encoding.features), np.asarray(table.column(encoding.target).to_pylist())


def _facts(model: Any) -> dict[str, Any]:
    from pursuit.estimators.reporting import rows_fitted

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
    for name, label in (
        ("n_basis_", "basis functions"),
        ("kernel_", "kernel"),
        ("noise_", "noise"),
    ):
        value = getattr(model, name, None)
        if value is not None:
            facts[label] = value if isinstance(value, int | float) else str(value)
    path = getattr(model, "path_", None)
    if path is not None:
        facts["stopped by"] = path.stop_reason
    certificate = getattr(model, "certificate_", None)
    facts["certificate"] = None if certificate is None else str(certificate)
    relevance = getattr(model, "feature_relevance_", None)
    if relevance is not None and table is not None:
        from pursuit.cli.columns import Encoding

        names = Encoding.from_json(table).features
        order = sorted(range(len(names)), key=lambda j: -relevance[j])[:10]
        facts["relevance"] = {names[j]: round(float(relevance[j]), 4) for j in order}
    learned = getattr(model, "learning_report_", None)
    if learned is not None and learned.warnings:
        facts["notes"] = list(learned.warnings)
    return facts


def _shown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {number:g}" for key, number in value.items())
    if isinstance(value, list):
        return ("; " if name == "notes" else ", ").join(value)
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)
