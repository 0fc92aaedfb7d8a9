"""What a panel asks for, and how the features of a model are made of it."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.estimators.inputs import feature_names
from pursuit.estimators.report_rows import model_rows
from pursuit.estimators.tables import categories_by_position, level_codes
from pursuit.plots.what_if import Input, decimals

_WHOLE_STEPS = 1000
"""Whole numbers over a longer range than this are taken for any numbers."""


Inputs = tuple[list[Input], list[dict[str, Any]]]
"""Inputs of a panel, and how each feature is made of them, in the words of ``what_if.js``."""


def feature_inputs(model: Any, X: Any = None) -> Inputs:
    """One input for each feature of a model: a number, or a level of a category.

    ``X`` are rows that give the ranges and the start, the basis points by default.
    """
    rows = model_rows(model, X)
    names = feature_names(model, rows.shape[1])
    categories = categories_by_position(model)
    weights = feature_weights(model, rows.shape[1], X)
    inputs: list[Input] = []
    features: list[dict[str, Any]] = []
    for j, name in enumerate(names):
        if j in categories:
            _, levels = categories[j]
            codes = level_codes(levels)
            start = int(np.argmax((rows[:, j, None] == codes).sum(axis=0)))
            texts = ["missing" if level is None else str(level) for level in levels]
            inputs.append(Input(name, "category", levels=texts, start=start, weight=weights[j]))
            # A code that no level has stands for all other levels.
            every = [*codes.tolist(), float(codes.max(initial=0.0)) + 1.0]
            features.append({"kind": "code", "input": j, "codes": every})
        else:
            inputs.append(number_input(name, rows[:, j], weights[j]))
            features.append({"kind": "value", "input": j})
    return inputs, features


def number_input(
    name: str,
    values: Floats,
    weight: float,
    *,
    ends: Floats | None = None,
    middle: float | None = None,
    missing: bool = False,
) -> Input:
    """A number within the range of some values, starting at the one in the middle.

    ``ends`` and ``middle`` are those of all rows, if they are known.
    """
    ordered = np.sort(values[np.isfinite(values)])
    if not len(ordered):
        ordered = np.zeros(1)
    low, high = map(float, ordered[[0, -1]] if ends is None else ends)
    whole = bool(np.all(ordered == np.rint(ordered))) and 0 < high - low <= _WHOLE_STEPS
    if low == high:
        low, high = low - 0.5, high + 0.5
    middle = float(ordered[len(ordered) // 2]) if middle is None else middle
    start = float(np.clip(round(middle, decimals(low, high)), low, high))
    return Input(
        name,
        "number",
        low=low,
        high=high,
        whole=whole,
        start=start,
        missing=missing,
        weight=weight,
    )


def feature_weights(model: Any, n: int, X: Any = None) -> Floats:
    """How much each feature matters: as the model has learned, or over some rows; else zeros."""
    learned = getattr(model, "learning_report_", None)
    for values in (getattr(learned, "importance", None), getattr(learned, "relevance", None)):
        if values is not None and len(values) == n:
            return np.nan_to_num(np.asarray(values, dtype=np.float64))
    if n > 1 and hasattr(X, "shape") and hasattr(model, "importance"):
        with contextlib.suppress(ValueError):  # one row, or a kernel without a gradient
            return np.asarray(model.importance(X, n_repeats=2).relative)
    return np.zeros(n)
