"""Parts of a report that look at rows: those predicted worst, and the parts of predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from inspect import signature
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.estimators.classes import class_numbers
from pursuit.estimators.inputs import dense, feature_names, prediction_rows, reads_matrix
from pursuit.estimators.tables import categories_by_position, is_coded, level_codes
from pursuit.plots.report import Panel, PartCurve, Table, precise
from pursuit.rows import RowSource

_JUDGED_ROWS = 2000
_WORST, _SHOWN_FEATURES = 10, 8
_PART_ROWS = 500
"""Rows over which the deviations of parts are taken."""
_PART_VALUES = 41
"""Values of a feature along which a part is drawn."""
_MOST_DRAWN, _MOST_BANDED = 12, 16
"""Most parts that are drawn, the largest; most parts of a model whose bands are computed."""
_LEVEL = 0.9


def judged_numbers(n_rows: int) -> Indices:
    """Numbers of at most 2 000 rows, spread over all of them."""
    return np.unique(np.linspace(0, n_rows - 1, _JUDGED_ROWS).astype(np.intp))


def model_rows(model: Any, X: Any) -> Floats:
    """Rows as kernels see them; the points of the model without any."""
    if X is None:
        return np.asarray(dense(model._expansion().points), dtype=np.float64)
    rows, _ = prediction_rows(model, X)
    return np.asarray(dense(rows.take(np.arange(rows.n_rows))), dtype=np.float64)


Cells = Callable[[Indices], tuple[list[str], list[list[str]]]]
"""Names of the columns of a table, and the texts of its rows with some numbers."""


def worst_rows(
    model: Any, judged: tuple[Any, NDArray[Any]] | None, n_rows: int, raw: Cells | None = None
) -> list[Panel]:
    """The rows that a model predicts worst, of those that judge it; ``raw`` gives their cells."""
    if judged is None or not hasattr(model, "predict") or not hasattr(model, "n_features_in_"):
        return []
    X, y = judged
    if y.ndim > 1 or reads_matrix(model):
        return []
    if hasattr(model, "classes_"):
        found = _worst_classes(model, X, y)
    elif y.dtype.kind in "fiub":
        found = _worst_numbers(model, X, y.astype(float))
    else:
        found = None
    if found is None:
        return []
    score, columns, cells, text = found
    worst = [int(i) for i in np.argsort(-score, kind="stable")[:_WORST] if score[i] > 0]
    if not worst:
        return []
    numbers = judged_numbers(n_rows)[worst]
    names, texts = _cells(model, X, worst) if raw is None else raw(numbers)
    rows = [
        [str(number), *(column[i] for column in cells), *row]
        for number, i, row in zip(numbers, worst, texts, strict=True)
    ]
    return [Panel("Rows predicted worst", text, Table(["row", *columns, *names], rows))]


Worst = tuple[Floats, list[str], list[list[str]], str]
"""How bad each row is, headings, cells of each heading for all rows, and a sentence."""


def _worst_numbers(model: Any, X: Any, y: Floats) -> Worst | None:
    """Rows with the largest errors in units of the standard deviation, where there is one."""
    has_spread = "return_std" in signature(model.predict).parameters
    if has_spread:
        mean, std = model.predict(X, return_std=True)
    else:
        mean, std = model.predict(X), np.ones(len(y))
    if mean.ndim > 1:
        return None
    error = y - mean
    columns, cells = ["truth", "prediction"], [_texts(y), _texts(mean)]
    if has_spread:
        columns += ["standard deviation", "error / deviation"]
        cells += [_texts(std), _texts(error / std)]
        text = "The largest errors in units of their standard deviation"
    else:
        columns, cells = [*columns, "error"], [*cells, _texts(error)]
        text = "The largest errors"
    text += ", of the rows that the model is judged by. Look for typing errors and missing causes."
    return np.abs(error) / std, columns, cells, text


def _worst_classes(model: Any, X: Any, y: NDArray[Any]) -> Worst | None:
    """Rows whose class has the smallest probability."""
    if not hasattr(model, "predict_proba"):
        return None
    chances = model.predict_proba(X)
    own = chances[np.arange(len(y)), class_numbers(y, model.classes_)]
    best = [str(name) for name in model.classes_[chances.argmax(axis=1)]]
    columns = ["truth", "prediction", "probability of the truth"]
    cells = [[str(name) for name in y], best, _texts(own)]
    text = (
        "The rows whose true class has the smallest probability, of the rows that the model is "
        "judged by. Look for wrong labels and missing causes."
    )
    return 1.0 - own, columns, cells, text


def _texts(values: Floats) -> list[str]:
    return [precise(float(value)) for value in values]


def _most_important(model: Any) -> list[int]:
    """The most important features, in their own order."""
    n = int(model.n_features_in_)
    values = getattr(getattr(model, "learning_report_", None), "importance", None)
    if values is None or len(values) != n:
        return list(range(min(n, _SHOWN_FEATURES)))
    return sorted(np.argsort(-np.asarray(values), kind="stable")[:_SHOWN_FEATURES].tolist())


def _cells(model: Any, X: Any, rows: list[int]) -> tuple[list[str], list[list[str]]]:
    """Names of the most important features, and their values in some rows as texts."""
    features = _most_important(model)
    if isinstance(X, RowSource):
        taken = with_levels(model, model_rows(model, X)[rows])
        columns = [taken[:, j] for j in features]
    elif hasattr(X, "column_names") or hasattr(X, "columns"):
        own = list(X.column_names if hasattr(X, "column_names") else X.columns)
        known = list(getattr(model, "feature_names_in_", own))
        columns = [np.asarray(X[known[j]])[rows] for j in features]
    else:
        taken = dense(X[rows]) if hasattr(X, "shape") else np.array(X, dtype=object)[rows]
        columns = [taken[:, j] for j in features]
    names = feature_names(model, model.n_features_in_)
    texts = [[as_text(column[at]) for column in columns] for at in range(len(rows))]
    return [names[j] for j in features], texts


def with_levels(model: Any, rows: Floats) -> NDArray[Any]:
    """Rows as the model sees them, with levels for codes."""
    named = rows.astype(object)
    for j, (_, levels) in categories_by_position(model).items():
        if is_coded(levels):
            names = [*("missing" if level is None else level for level in levels), "another level"]
            named[:, j] = [names[int(code)] for code in rows[:, j]]
    return named


def as_text(value: Any) -> str:
    """A number with four digits, anything else as it is."""
    try:
        return precise(float(value))
    except (TypeError, ValueError):
        return str(value)


def part_curves(model: Any, X: Any = None) -> list[PartCurve]:
    """The functions that add up to a prediction, the largest first; none if there is only one.

    ``X`` are rows over which they have mean 0, the basis points by default.
    """
    if not hasattr(model, "predict_parts") or reads_matrix(model):
        return []
    if len(model.part_names_) < 3 or not hasattr(model, "n_features_in_"):  # two and the constant
        return []
    rows = model_rows(model, X)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, _PART_ROWS).astype(int))]
    with warnings.catch_warnings():
        # The rows are those that kernels see, whose columns have no names.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        values = model.predict_parts(rows)
        if values.ndim > 2:
            return []
        shares = values[:, :-1].std(axis=0)
        order = np.argsort(-shares, kind="stable")
        grids = {int(t): _grid(model, int(t), rows) for t in order[:_MOST_DRAWN]}
        drawn = {t: grid for t, grid in grids.items() if grid is not None}
        means, widths = _along(model, rows, drawn)
    curves = []
    for t in order:
        name, share = model.part_names_[t], float(shares[t])
        if t not in drawn:
            curves.append(PartCurve(name, share))
            continue
        labels = drawn[t][1]
        curves.append(PartCurve(name, share, labels, means[t].tolist(), widths[t].tolist()))
    return curves


Grid = tuple[Floats, list[float] | list[str]]
"""Values of a column as kernels see them, and as a reader does."""


def _grid(model: Any, part: int, rows: Floats) -> Grid | None:
    """Values of the one feature of a part; None if it has several."""
    columns = model.part_columns_[part]
    if columns is None or len(columns) != 1:
        return None
    [j] = columns
    categories = categories_by_position(model)
    if j in categories:
        _, levels = categories[j]
        names = ["missing" if level is None else str(level) for level in levels]
        return level_codes(levels)[:_PART_VALUES], names[:_PART_VALUES]
    low, high = float(rows[:, j].min()), float(rows[:, j].max())
    values = np.linspace(low, high, _PART_VALUES)
    return (values, values.tolist()) if low < high else None


def _along(
    model: Any, rows: Floats, grids: dict[int, Grid]
) -> tuple[dict[int, Floats], dict[int, Floats]]:
    """The parts along their features, and half the widths of their bands; none where unknown."""
    blocks = []
    for t, (values, _) in grids.items():
        block = np.repeat(rows[:1], len(values), axis=0)
        block[:, model.part_columns_[t][0]] = values
        blocks.append(block)
    if not blocks:
        return {}, {}
    banded = "return_std" in signature(model.predict_parts).parameters
    banded = banded and len(model.part_names_) <= _MOST_BANDED
    # Bands of a model solved by conjugate gradients take a solution for every value.
    banded = banded and getattr(model, "_factor", 0) is not None
    stacked = np.concatenate(blocks)
    found = model.predict_parts(stacked, center=rows, **({"return_std": True} if banded else {}))
    mean, std = found if banded else (found, None)
    means, widths, at = {}, {}, 0
    for t, (values, _) in grids.items():
        here = slice(at, at + len(values))
        at += len(values)
        means[t] = mean[here, t]
        factor = NormalDist().inv_cdf(0.5 + 0.5 * _LEVEL)
        widths[t] = np.empty(0) if std is None else factor * std[here, t]
    return means, widths
