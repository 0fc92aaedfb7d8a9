"""Ctrl-C is answered in time: if need be, with a model of a few rows.

After Ctrl-C a fit ends its step, skips what a model can do without, and keeps the best model so
far. At some moments of large fits that takes long. If it takes longer than `GRACE_SECONDS`, the fit
is given up, and fitted to `FEW_ROWS` rows instead; what it has learned about the kernel is kept.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from threading import local
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from pursuit._types import Floats, Indices
from pursuit.estimators.inputs import named_columns
from pursuit.estimators.warning import warn
from pursuit.greedy import Overdue

GRACE_SECONDS = 0.6
"""Seconds after Ctrl-C for which a fit may go on. With those that few rows take it makes 2."""
FEW_ROWS = 200
_OF_EACH_CLASS = 2


@dataclass
class _Answer(local):
    """What the fits of this thread that are under way need to know of each other."""

    depth: int = 0
    n_rows: int = 0
    """Rows of the fit to a few rows; 0 if there is none under way."""
    learned: dict[tuple[str, str], Any] = field(default_factory=dict)


_ANSWER = _Answer()


def grace() -> float | None:
    """Seconds after which a fit is given up; None where nobody would take its place."""
    return GRACE_SECONDS if _ANSWER.depth else None


def few_rows() -> int:
    """How many rows the fit to a few rows has that is under way; 0 if there is none."""
    return _ANSWER.n_rows


def remember(owner: str, stage: str, result: Any) -> None:
    """Keep what a stage has learned about the kernel for a fit to a few rows."""
    _ANSWER.learned[owner, stage] = result


def remembered(owner: str, stage: str) -> Any:
    """What the stage has learned before the fit was given up; None elsewhere."""
    return _ANSWER.learned.get((owner, stage)) if _ANSWER.n_rows else None


def rescued(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that answers Ctrl-C in time. Fits within fits are rescued by the outermost one."""
    if "sample_weight" not in inspect.signature(fit).parameters:
        return fit

    @wraps(fit)
    def answering(model: Any, *given: Any, **named: Any) -> Any:
        outermost = not (_ANSWER.depth or _ANSWER.n_rows)
        if outermost:
            _ANSWER.learned.clear()
        _ANSWER.depth += 1
        try:
            return fit(model, *given, **named)
        except Overdue:
            if not outermost:
                raise
        finally:
            _ANSWER.depth -= 1
        return _fit_few(fit, model, *given, **named)

    return answering


def _fit_few(fit: Callable[..., Any], model: Any, *given: Any, **named: Any) -> Any:
    """Fit a few rows and raise KeyboardInterrupt."""
    try:
        X, y, weights = named_columns(*given, **named)
        rows, weights = _some(model, X, y, weights)
        _ANSWER.n_rows = len(rows)
        fit(model, X, y, weights)
    except Exception as error:
        warn(f"fit was interrupted, and there was no time for any model ({error}).")
        raise KeyboardInterrupt from error
    finally:
        _ANSWER.n_rows = 0
    raise KeyboardInterrupt


def _some(model: Any, X: Any, y: Any, weights: Any) -> tuple[Indices, Floats]:
    """Rows at equal steps, some of each class among them, and weights of 0 for all others."""
    labels = None if y is None else np.asarray(y)
    n_rows = getattr(X, "n_rows", None) or (len(labels) if labels is not None else _length(X))
    kept = np.ones(n_rows) if weights is None else np.array(weights, dtype=np.float64).ravel()
    present = np.flatnonzero(kept > 0)
    rows = present[np.linspace(0, len(present) - 1, FEW_ROWS).astype(np.intp)]
    if is_classifier(model) and labels is not None:
        by_class = np.argsort(labels[present], kind="stable")
        _, starts = np.unique(labels[present][by_class], return_index=True)
        first = np.minimum(starts[:, None] + np.arange(_OF_EACH_CLASS), len(present) - 1)
        rows = np.concatenate([rows, present[by_class[first.ravel()]]])
    rows = np.unique(rows)
    masked = np.zeros(n_rows)
    masked[rows] = kept[rows]
    return rows, masked


def _length(X: Any) -> int:
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X)
