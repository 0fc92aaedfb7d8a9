"""From a fitted model to a page that tells what it is: ``model.report(path)``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from inspect import signature
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import num_samples, safe_indexing
from pursuit._types import Indices
from pursuit.bounds import CertificatePath
from pursuit.estimators.inputs import dense, feature_names, reads_matrix
from pursuit.estimators.report_rows import (
    Cells,
    as_text,
    judged_numbers,
    part_curves,
    with_levels,
    worst_rows,
)
from pursuit.estimators.saving import SavedModel, saved_arrays
from pursuit.greedy import size_grid
from pursuit.plots.parts import global_part
from pursuit.plots.report import Curve, Panel, Report, Table, precise, render
from pursuit.plots.what_if import WhatIf
from pursuit.rows import NumberTable, is_path
from pursuit.store import replacing

_SHOWN_BASIS, _SHOWN_FEATURES = 50, 8
_LEVELS = (0.1, 0.25, 0.5, 0.68, 0.8, 0.9, 0.95, 0.99)
_GUARANTEED = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Levels of which the panel on guaranteed coverage tells."""


@dataclass(frozen=True)
class SourceTable:
    """The table that the rows of a model were made of.

    Attributes
    ----------
    encoder : TableEncoder
        What made them.
    cells : callable or None
        Its columns and the texts of some rows, where there are rows that judge the model.
    notes : sequence of str
        What was left out of the table or converted, and why.
    target : str or None
        Name of the column of targets.
    """

    encoder: Any
    cells: Cells | None
    notes: Sequence[str] = ()
    target: str | None = None


@dataclass(frozen=True)
class Addition:
    """What a model adds to its global part, the sparse model whose sizes the report shows.

    Attributes
    ----------
    name : str
        What it is, with its number.
    caption : str
        What to say of curves that are those of the global part.
    panels : sequence of Panel
        What it brings and costs.
    """

    name: str
    caption: str = ""
    panels: Sequence[Panel] = ()


class ReportedModel(SavedModel):
    """Adds ``report`` to an estimator that can be saved."""

    def _addition(
        self, judged: tuple[Any, NDArray[Any]] | None, rows: Any, time: float | None
    ) -> Addition | None:
        """What the report says beside the global part; None for a model that has no other part.

        ``judged`` are rows with targets, ``rows`` those to measure the time of predictions by, and
        ``time`` that of the global part in µs per row; each may be None.
        """
        return None

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        certify: bool = False,
        what_if: bool = True,
    ) -> None:
        """Write one page of HTML about the fitted model, which needs no network.

        It shows the data, the hyper-parameters, what each size of the model would give and cost,
        the certificate, the chosen basis and where the time went. The model itself runs in the
        page: set the features, and see the prediction, its interval and the curve along a feature.

        Parameters
        ----------
        path : path-like
            File to write; an existing one is replaced.
        X, y : optional
            Rows to judge the model by, best those it has not seen: errors at every size, and how
            many observations lie within its intervals. At most 2 000 of them are used. Without
            them, what near rows brought to a full-scale model is judged by rows that it reserved.
        certify : bool, default False
            Whether X and y are the rows that the model was fitted to, and every size is to be
            certified for them: a product with their kernel matrix. Only for models that have
            ``certify_path``.
        what_if : bool, default True
            Whether the model runs in the page. The page then holds all basis points, which may be
            training rows, and has 2.8 MB for 512 basis functions.
        """
        check_is_fitted(self)
        if is_path(X):
            raise TypeError(
                f"report takes rows in memory, and X is the path {os.fspath(X)!r}: read the file "
                "into X and y first."
            )
        write_report(self, path, X, y, certify=certify, what_if=what_if)


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any,
    y: Any,
    *,
    certify: bool,
    what_if: bool,
    source: SourceTable | None = None,
) -> None:
    """Write the page of a model; ``source`` is the table that its rows were made of."""
    if (X is None) != (y is None):
        raise ValueError("X and y belong together: pass both or neither.")
    if certify and X is None:
        raise ValueError("certify=True needs the training rows: pass X and y.")
    if certify and not hasattr(global_part(model), "certify_path"):
        raise ValueError(f"certify=True is not for {type(model).__name__}: leave it out.")
    report = describe(model, X, y, certify=certify, what_if=what_if, source=source)
    page = render(report, version("pursuit"))
    with replacing(path, sync=False) as file:
        file.write(page.encode())


def rows_fitted(model: Any) -> int | None:
    """How many rows a model was fitted to; None if it does not know."""
    part = global_part(model)
    found = getattr(part, "_sums", {}).get("n_rows", getattr(part, "_n_rows", None))
    return None if found is None else int(found)


def describe(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    certify: bool = False,
    what_if: bool = False,
    source: SourceTable | None = None,
) -> Report:
    """Collect the content of the report of a fitted model."""
    judged = None if X is None else _judged(X, y)
    part = global_part(model)
    rows = judged[0] if judged is not None else _points(part)
    whole = microseconds(part, rows)
    added = model._addition(judged, rows, whole)
    sizes, counted = _sizes(part)
    certified = part.certify_path(X, y, sizes=sizes) if certify and sizes else None
    curves = _path_curves(part, sizes, certified)
    if judged is not None and len(sizes):
        curves.insert(0, _errors(part, sizes, *judged))
    curves += _cost_curves(part, sizes, whole)
    return Report(
        title=type(model).__name__,
        summary=_summary(part, added),
        data=_data(model, X),
        settings=_settings(model),
        sizes=sizes,
        counted=counted,
        curves=[curve for curve in curves if any(_known(value) for value in curve.values)],
        certificate=_certificate(part),
        importance=_of_features(part, "importance"),
        relevance=_of_features(part, "relevance"),
        coverage=_coverage(model, *judged) if judged is not None else (),
        basis=_basis(part),
        cost=_seconds(model),
        notes=[*_notes(model), *(() if source is None else source.notes)],
        caption="" if added is None else added.caption,
        panels=(
            *_guarantee(model, judged),
            *(() if added is None else added.panels),
            *(() if X is None else _worst(model, X, judged, source)),
        ),
        what_if=_what_if(model, judged, source) if what_if else None,
        parts=part_curves(part, None if judged is None else judged[0]),
    )


def _worst(
    model: Any, X: Any, judged: tuple[Any, NDArray[Any]] | None, source: SourceTable | None
) -> list[Panel]:
    return worst_rows(model, judged, num_samples(X), None if source is None else source.cells)


def _what_if(
    model: Any, judged: tuple[Any, NDArray[Any]] | None, source: SourceTable | None
) -> WhatIf | None:
    # The estimators that it knows of import this module.
    from pursuit.estimators.page import what_if

    rows = None if judged is None else judged[0]
    if source is None:
        return what_if(model, rows)
    return what_if(model, rows, source.encoder, source.target)


def _known(value: float | None) -> bool:
    return value is not None and bool(np.isfinite(value))


def _judged(X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
    """Some of the rows, spread over all of them."""
    if num_samples(X) != len(y):
        raise ValueError(
            f"X has {num_samples(X)} rows and y has {len(y)}: pass one target per row."
        )
    some = judged_numbers(len(y))
    rows = X.with_rows(some) if isinstance(X, NumberTable) else safe_indexing(X, some)
    return rows, np.asarray(y)[some]


def _sizes(model: Any) -> tuple[list[int], str]:
    """Positions of the slider, and the name of what it counts."""
    path = getattr(model, "path_", None)
    if path is None or not len(path):
        return [], "basis functions"
    if path.sizes is not None:
        return [int(n) for n in path.sizes if n > 0], "kernel functions tried"
    if path.residual is not None:
        return list(range(1, len(path) + 1)), "iterations"
    # The path of a GLM may go on where further functions are sums of those before.
    return size_grid(min(len(path), getattr(model, "n_basis_", len(path)))), "basis functions"


def _positions(model: Any, sizes: list[int]) -> Indices:
    """Entries of the path that belong to these sizes."""
    if model.path_.sizes is not None:
        return np.flatnonzero(np.asarray(model.path_.sizes) > 0)
    positions = np.asarray(sizes, dtype=np.intp) - 1
    positions[-1:] = len(model.path_) - 1
    return positions


def _path_curves(model: Any, sizes: list[int], certified: CertificatePath | None) -> list[Curve]:
    """Curves over sizes from the path, and from certificates if they were computed."""
    if not sizes:
        return []
    at, path = _positions(model, sizes), model.path_
    curves = []
    for name, title in (("value", "Objective"), ("residual", "Relative residual")):
        if getattr(path, name) is not None:
            values = np.asarray(getattr(path, name), dtype=float)[at]
            curves.append(Curve(title, "", values.tolist(), logarithmic=True))
    gap = np.asarray(path.gap, dtype=float)[at]
    if certified is not None:
        gap = np.array([each.relative_gap for each in certified.certificates])
    curves.append(Curve("Relative gap to the exact solution", "", gap.tolist(), logarithmic=True))
    return curves


def _errors(model: Any, sizes: list[int], X: Any, y: NDArray[Any]) -> Curve:
    """Error of the truncated models on the given rows, if the model can be truncated."""
    classes = hasattr(model, "classes_")
    values: list[float | None] = []
    for n in sizes:
        cut = n == sizes[-1] or hasattr(model, "truncated")
        found = (model if n == sizes[-1] else model.truncated(n)) if cut else None
        if found is None or not hasattr(found, "predict"):
            values.append(None)
            continue
        predicted = np.asarray(found.predict(X))
        if classes:
            values.append(float(np.mean(predicted != y)))
        else:
            values.append(float(np.sqrt(np.mean((predicted - y) ** 2))))
    if classes:
        return Curve("Part of rows in the wrong class", "", values)
    return Curve("Root mean square error", "units of y", values, logarithmic=True)


def _cost_curves(model: Any, sizes: list[int], whole: float | None) -> list[Curve]:
    """Time and size, measured with all functions and in proportion with fewer."""
    if not sizes or _sizes(model)[1] != "basis functions":
        return []
    curves = []
    if whole is not None:
        values = [whole * n / sizes[-1] for n in sizes]
        curves.append(Curve("Time to predict a row", "µs", values))
    kept = kilobytes(model, sizes)
    if hasattr(model, "n_features_in_") and any(kept):
        curves.append(Curve("Numbers in the model", "kB", kept))
    return curves


def microseconds(model: Any, rows: Any) -> float | None:
    """Time to predict one of the rows; None without rows, or without a method for them."""
    method = getattr(model, "predict", None) or getattr(model, "transform", None)
    if rows is None or method is None or not num_samples(rows):
        return None
    seconds = min(_timed(method, rows) for _ in range(3))
    return 1e6 * seconds / int(num_samples(rows))


def kilobytes(model: Any, sizes: Sequence[int]) -> list[float]:
    """Size of the arrays in a file of the model, of which the last size is that of the model.

    With fewer functions, axes of an array that are as long as there are functions are shorter.
    """
    arrays = saved_arrays(model)
    whole = sizes[-1]
    return [
        sum(1e-3 * array.nbytes * (n / whole) ** array.shape.count(whole) for array in arrays)
        for n in sizes
    ]


def _timed(method: Any, rows: Any) -> float:
    start = time.perf_counter()
    method(rows)
    return time.perf_counter() - start


def _points(model: Any) -> Any:
    """Basis points as rows that the model would take."""
    basis = getattr(model, "basis_", None)
    if basis is None or getattr(model, "feature_names_in_", None) is not None:
        return None
    return basis


def _coverage(model: Any, X: Any, y: NDArray[Any]) -> list[tuple[float, float]]:
    """Share of the rows within intervals of several levels."""
    if hasattr(model, "classes_") or not hasattr(model, "predict"):
        return []
    if "return_std" not in signature(model.predict).parameters or reads_matrix(model):
        return []
    mean, std = model.predict(X, return_std=True)
    score = np.abs(np.asarray(y, dtype=float) - mean) / std
    normal = NormalDist()
    return [
        (level, float(np.mean(score <= normal.inv_cdf(0.5 + 0.5 * level)))) for level in _LEVELS
    ]


def _guarantee(model: Any, judged: tuple[Any, NDArray[Any]] | None) -> list[Panel]:
    """What is guaranteed of intervals or sets of classes, and what the given rows say of it."""
    guarantee = getattr(model, "coverage_guarantee_", None)
    if guarantee is None:
        return []
    rows = []
    for level in _GUARANTEED:
        low, high = guarantee.likely_coverage(level)
        if high < 1.0:
            found = "" if judged is None else f"{_covered(model, level, *judged):.1%}"
            rows.append([f"{level:.0%}", f"{low:.1%} to {high:.1%}", found])
    columns = ["level", "of this model, 9 in 10 times", "of the rows it is judged by"]
    if judged is None:
        columns, rows = columns[:2], [row[:2] for row in rows]
    return [Panel("Guaranteed coverage", str(guarantee), Table(columns, rows))]


def _covered(model: Any, level: float, X: Any, y: NDArray[Any]) -> float:
    """Share of the rows that their intervals, or sets of classes, contain."""
    if hasattr(model, "classes_"):
        sets = model.predict_set(X, level)
        return float(np.mean((sets & (model.classes_ == np.asarray(y)[:, None])).any(axis=1)))
    lower, upper = model.predict_interval(X, level)
    return float(np.mean((lower <= y) & (y <= upper)))


def _summary(model: Any, added: Addition | None) -> str:
    path = getattr(model, "path_", None)
    size, counted = getattr(model, "n_basis_", None), "basis functions"
    if size is None:
        sizes, counted = _sizes(model)
        size = sizes[-1] if sizes else 0
    text = f"{size:,} {counted.removesuffix('s') if size == 1 else counted}"
    text += f" and {added.name}" if added is not None else ""
    stopped = getattr(path, "stop_reason", "")
    rows = rows_fitted(model)
    text += f", fitted to {rows:,} rows" if rows else ""
    return f"{text}; stopped by {stopped}." if stopped else f"{text}."


def _data(model: Any, X: Any) -> Table:
    rows = []
    seen = rows_fitted(global_part(model))
    if seen:
        rows.append(("Rows fitted", f"{seen:,}"))
    if hasattr(model, "n_features_in_"):
        rows.append(("Features", f"{model.n_features_in_:,}"))
    if hasattr(model, "classes_"):
        rows.append(("Classes", ", ".join(map(str, model.classes_[:12]))))
    scale = getattr(model, "_scale", None)
    if scale is not None and getattr(model, "normalize_y", False):
        for name, values in (("mean", scale.mean), ("standard deviation", scale.scale)):
            rows.append((f"Target, {name}", ", ".join(map(precise, np.ravel(values)[:6]))))
    if X is not None:
        rows.append(("Rows it is judged by", f"{len(judged_numbers(num_samples(X))):,}"))
    return Table([], rows)


def _settings(model: Any) -> Table:
    rows = []
    for name, title in (("kernel_", "Kernel"), ("noise_", "Noise variance"), ("C", "C")):
        value = getattr(model, name, None)
        if value is not None:
            rows.append((title, f"{value:.4g}" if isinstance(value, float) else _named(value)))
    learned = getattr(model, "learning_report_", None)
    if learned is not None:
        rows.append(("Kernel family", learned.family))
        rows += [("Kept because", learned.kept)] if learned.kept else []
        rows += [("Noise", learned.noise)] if learned.noise else []
    defaults = type(model)()
    changed = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name != "kernel" and repr(value) != repr(getattr(defaults, name))
    }
    rows += [(name, _named(value)) for name, value in changed.items()]
    return Table([], rows)


def _named(value: Any) -> str:
    text = getattr(value, "__name__", None) or str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _certificate(model: Any) -> str:
    found = getattr(model, "certificate_", None)
    return "" if found is None else str(found)


def _of_features(model: Any, name: str) -> list[tuple[str, float]]:
    """The largest of the report's numbers of this name, with the features they belong to."""
    learned = getattr(model, "learning_report_", None)
    values = getattr(learned, name, None)
    if learned is None or values is None:
        return []
    order = np.argsort(-values, kind="stable")[:20]
    return [(learned.feature_names[j], float(values[j])) for j in order]


def _basis(model: Any) -> Table:
    basis, index = getattr(model, "basis_", None), getattr(model, "basis_indices_", None)
    if basis is None:
        basis, index = getattr(model, "components_", None), getattr(model, "component_indices_", 0)
    if basis is None or isinstance(basis, tuple):
        return Table([], [])
    n = min(num_samples(basis), _SHOWN_BASIS)
    numbers = [""] * n if index is None or np.ndim(index) == 0 else list(np.asarray(index)[:n])
    rows = ["moved" if isinstance(i, np.integer) and i < 0 else str(i) for i in numbers]
    if isinstance(basis, list):
        cells = [[_named(item)[:80]] for item in basis[:n]]
        columns = ["item"]
    else:
        values = with_levels(model, np.asarray(dense(basis[:n]), dtype=float))
        cells = [[as_text(value) for value in row] for row in values[:, :_SHOWN_FEATURES]]
        columns = feature_names(model, basis.shape[1])[:_SHOWN_FEATURES]
        if basis.shape[1] > _SHOWN_FEATURES:
            columns.append(f"and {basis.shape[1] - _SHOWN_FEATURES} more")
            cells = [[*row, ""] for row in cells]
    body = [[str(k + 1), row, *cell] for k, (row, cell) in enumerate(zip(rows, cells, strict=True))]
    return Table(["", "row", *columns], body)


def _notes(model: Any) -> list[str]:
    learned = getattr(model, "learning_report_", None)
    if learned is None:
        return []
    notes = [f"Basis: {learned.moved}."]
    if learned.near_rows:
        notes.append(f"Near rows: {learned.near_rows}.")
    if getattr(model, "calibration_", None) is not None:
        notes.append(f"Calibration: {model.calibration_}.")
    return [*notes, *learned.warnings]


def _seconds(model: Any) -> list[tuple[str, float]]:
    learned = getattr(model, "learning_report_", None)
    if learned is not None and learned.seconds:
        return [(name, float(value)) for name, value in learned.seconds.items()]
    seconds = getattr(getattr(model, "path_", None), "seconds", None)
    return [] if seconds is None or not len(seconds) else [("fit", float(seconds[-1]))]
