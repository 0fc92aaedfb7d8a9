"""The columns of a raw table as inputs of a panel, and what an encoder makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.estimators.page.inputs import Inputs, feature_weights, number_input
from pursuit.estimators.report_rows import model_rows
from pursuit.estimators.table.columns import PERIODS, TableColumn
from pursuit.estimators.table.encoder import TableEncoder
from pursuit.estimators.tables import categories_by_position
from pursuit.plots.what_if import Input

Feature = dict[str, Any]
_MINUTES = 1440
"""Minutes of a day."""


def table_inputs(encoder: TableEncoder, model: Any) -> Inputs:
    """One input for each column that an encoder uses, and how it makes features of them.

    Parameters
    ----------
    encoder : TableEncoder
        The fitted encoder.
    model : estimator
        The model that was fitted to the encoded rows.
    """
    coded = bool(categories_by_position(model))
    weights, rows = feature_weights(model, model.n_features_in_), model_rows(model, None)
    inputs: list[Input] = []
    features: list[Feature] = []
    for column in encoder.columns_:
        if column.kind == "dropped":
            continue
        made = _FEATURES[column.kind](column, len(inputs), coded)
        own = slice(len(features), len(features) + len(made))
        weight = float(weights[own].max())
        inputs.append(_INPUTS[column.kind](column, weight, rows[:, own]))
        features += made
    return inputs, features


def raw_cells(encoder: TableEncoder, X: Any, numbers: Indices) -> tuple[list[str], list[list[str]]]:
    """Names of the columns that an encoder uses, and some rows of a table as texts."""
    raw = encoder._raw(X, reset=False)
    used = encoder._used(raw)
    cells: list[list[str]] = [[] for _ in numbers]
    for start, pieces in raw.pieces([name for _, name in used]):
        for at, number in enumerate(numbers):
            if 0 <= number - start < len(pieces[0].values):
                cells[at] = [_text(piece.values[number - start]) for piece in pieces]
    return [column.name for column, _ in used], cells


def _text(value: Any) -> str:
    missing = value is None or bool(np.any(value != value))
    if missing or (isinstance(value, np.datetime64) and np.isnat(value)):
        return "missing"
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[m]")).removesuffix("T00:00").replace("T", " ")
    return f"{value:.10g}" if isinstance(value, float | np.floating) else str(value)


# Inputs


def _is_truth(column: TableColumn) -> bool:
    return column.format is not None and column.format.kind == "truth"


def _number(column: TableColumn, weight: float, rows: Floats) -> Input:
    if _is_truth(column):
        return Input(
            column.name,
            "category",
            start=int(column.fill >= 0.5),
            levels=["no", "yes"],
            other=False,
            missing=column.indicator,
            weight=weight,
        )
    ends = np.array([column.lowest, column.highest])
    unit = column.format.unit if column.format is not None else ""
    name = f"{column.name} ({unit})" if unit else column.name
    return number_input(
        name,
        np.concatenate([ends, rows[:, 0]]),
        weight,
        ends=ends,
        middle=column.fill,
        missing=column.indicator,
    )


def _time(column: TableColumn, weight: float, rows: Floats) -> Input:
    ends = np.array([column.lowest, column.highest])
    # What stands for a gap is a median, which may be noon between two days.
    days = np.concatenate([ends, rows[rows[:, 0] != column.fill, 0]])
    clock = "day" in column.parts or bool(np.any(days != np.floor(days)))
    texts = (str(np.datetime64(math.floor(day * _MINUTES), "m")) for day in (*ends, column.fill))
    low, high, start = (text if clock else text[:10] for text in texts)
    return Input(
        column.name,
        "date",
        start=start,
        low=low,
        high=high,
        clock=clock,
        missing=column.indicator,
        weight=weight,
    )


def _category(column: TableColumn, weight: float, rows: Floats) -> Input:
    levels = column.all_levels
    start = 0
    if rows.shape[1] == 1 and column.encoding == "levels":
        start = int(np.argmax((rows == np.arange(len(levels))).sum(axis=0)))
    elif rows.shape[1] == len(levels) and column.encoding != "target":
        start = int(np.argmax(rows.sum(axis=0)))
    return Input(
        column.name,
        "category",
        start=start,
        levels=["missing" if level is None else str(level) for level in levels],
        other=not column.merged,
        weight=weight,
    )


_INPUTS: dict[str, Callable[[TableColumn, float, Floats], Input]] = {
    "number": _number,
    "time": _time,
    "category": _category,
}


# Features, as `encode_column` makes them


def _of_number(column: TableColumn, i: int, coded: bool) -> list[Feature]:
    kind: Feature = {"kind": "value"}
    if _is_truth(column):
        kind = {"kind": "code", "codes": [0.0, 1.0]}
    return [{**kind, "input": i, "fill": float(column.fill)}, *_indicator(column, i)]


def _of_time(column: TableColumn, i: int, coded: bool) -> list[Feature]:
    day = {"input": i, "fill": float(column.fill)}
    assert set(column.parts) <= PERIODS.keys()
    places = [
        {"kind": "place", "period": period, "wave": wave, **day}
        for period in column.parts
        for wave in ("sin", "cos")
    ]
    return [{"kind": "day", **day}, *places, *_indicator(column, i)]


def _indicator(column: TableColumn, i: int) -> list[Feature]:
    return [{"kind": "missing", "input": i}] if column.indicator else []


def _of_category(column: TableColumn, i: int, coded: bool) -> list[Feature]:
    """Codes, zeros and ones, or statistics: a number for each level, and for a new one."""
    n = len(column.all_levels)
    new = len(column.levels) if column.merged else n
    if column.encoding == "target":
        tables = [[*values[:n], values[new]] for values in column.statistics]
    elif column.encoding == "levels" and coded:
        tables = [[*map(float, range(n)), float(new)]]
    else:
        tables = [[*(float(k == j) for k in range(n)), float(new == j)] for j in range(n)]
    return [{"kind": "code", "input": i, "codes": codes} for codes in tables]


_FEATURES: dict[str, Callable[[TableColumn, int, bool], list[Feature]]] = {
    "number": _of_number,
    "time": _of_time,
    "category": _of_category,
}
