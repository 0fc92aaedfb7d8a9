"""`pursuit inspect`: what a model is, in a few lines or as JSON."""

from __future__ import annotations

from typing import Any

from pursuit.cli.console import AsJson, Debug, ending, say, say_json
from pursuit.cli.files import ModelArgument, load_model

_MOST_FEATURES = 10
"""Features whose importance is listed."""
_FOR_PROGRAMS = ("captured", "relative gap")
"""Numbers that the sentence about the certificate says to people."""
_IN_OPTIONS = "SparseGPRegressor(noise='varying')", "pursuit fit --varying-noise"
"""A remark's remedy in Python, and on the command line."""


def inspect(model: ModelArgument, as_json: AsJson = False, debug: Debug = False) -> None:
    """Describe a model: columns, kernel, noise, size, certificate and notes."""
    with ending(debug):
        facts = facts_of(load_model(model))
        if as_json:
            say_json(facts)
            return
        told = {name: value for name, value in facts.items() if name not in _FOR_PROGRAMS}
        width = max(map(len, told))
        for name, value in told.items():
            say(f"{name:{width}}  {_shown(name, value)}")


def facts_of(model: Any) -> dict[str, Any]:
    """What there is to say about a model, by name, as JSON can hold it."""
    from pursuit.estimators.reporting import rows_fitted
    from pursuit.plots.parts import global_part

    inner = model_in(model)
    part = global_part(inner)
    facts: dict[str, Any] = {"model": type(inner).__name__, **_columns(model)}
    if hasattr(inner, "classes_"):
        facts["classes"] = [str(name) for name in inner.classes_]
    facts["rows"] = rows_fitted(inner)
    for owner, name, label in (
        (part, "n_basis_", "basis functions"),
        (inner, "n_neighbors_", "near rows"),
        (inner, "loss", "loss"),
        (inner, "kernel_", "kernel"),
        (inner, "noise_", "noise"),
        (getattr(part, "path_", None), "stop_reason", "stopped by"),
    ):
        value = getattr(owner, name, None)
        if value is not None:
            facts[label] = value if isinstance(value, int | float) else str(value)
    certificate = getattr(part, "certificate_", None)
    facts["certificate"] = None if certificate is None else str(certificate)
    if certificate is not None:
        facts |= {"captured": certificate.captured, "relative gap": certificate.relative_gap}
    guarantee = getattr(inner, "coverage_guarantee_", None)
    if guarantee is not None:
        facts["coverage"] = str(guarantee)
    facts |= _learned(inner, _names(model))
    notes = notes_of(model)
    if notes:
        facts["notes"] = notes
    return {
        name: value for name, value in facts.items() if value is not None or name == "certificate"
    }


def model_in(model: Any) -> Any:
    """The model behind the encoder of a pipeline; any other model itself."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


def notes_of(model: Any) -> list[str]:
    """Remarks on the table and on the fit."""
    learned = getattr(model_in(model), "learning_report_", None)
    table = model.notes_ if hasattr(model, "steps") else []
    warnings = [] if learned is None else learned.warnings
    return [*table, *(note.replace(*_IN_OPTIONS) for note in warnings)]


def _columns(model: Any) -> dict[str, Any]:
    """The target, the columns that the model reads, and those that it does not."""
    if not hasattr(model, "steps"):
        names = getattr(model, "feature_names_in_", None)
        return {} if names is None else {"columns": [str(name) for name in names]}
    columns = model.steps[0][1].columns_
    used = [column.name for column in columns if column.kind != "dropped"]
    left_out = [column.name for column in columns if column.kind == "dropped"]
    facts = {"target": None if model.target_ is None else model.target_.name, "columns": used}
    return facts | ({"left out": left_out} if left_out else {})


def _names(model: Any) -> list[str] | None:
    """Names of the features where the model itself has none, its encoder giving it an array."""
    if not hasattr(model, "steps") or hasattr(model.steps[-1][1], "feature_names_in_"):
        return None
    return [str(name) for name in model.steps[0][1].get_feature_names_out()]


def _learned(model: Any, names: list[str] | None) -> dict[str, Any]:
    """What the learning of the kernel has found."""
    learned = getattr(model, "learning_report_", None)
    if learned is None:
        return {}
    facts: dict[str, Any] = {}
    names = learned.feature_names if names is None else names
    for kind in ("importance", "relevance"):
        values = getattr(learned, kind)
        if values is not None:
            order = sorted(range(len(values)), key=lambda j: -values[j])[:_MOST_FEATURES]
            facts[kind] = {names[j]: round(float(values[j]), 4) for j in order}
    facts["kernel family"] = learned.family
    facts["kept because"] = learned.kept or None
    return facts


def _shown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {number:g}" for key, number in value.items())
    if isinstance(value, list):
        return ("; " if name == "notes" else ", ").join(value)
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)
