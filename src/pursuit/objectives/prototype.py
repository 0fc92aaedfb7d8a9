"""The three plug-ins of SS00 Algorithm 1 as a user writes them: pick, project and bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices


@dataclass(frozen=True)
class GreedyStep:
    """One step of Algorithm 1 of Smola and Schölkopf (2000), before a column is picked.

    Functions passed to :class:`GreedyFeatureMap` as ``rule``, ``projection`` and ``stop`` receive
    it. All arrays are read-only. Rows of weight 0 are left out, and rows are numbered without them.

    Attributes
    ----------
    candidates : array of int of shape (n_candidates,)
        M: the rows drawn at this step, none of them chosen before.
    columns : array of shape (n_rows, n_candidates)
        K[:, M].
    residuals : array of shape (n_rows, n_candidates)
        What the projection has left of these columns: K[:, M] - K[:, S] T[M]'.
    chosen : array of int of shape (n,)
        S: the rows chosen so far, in the order of choice.
    chosen_columns : array of shape (n_rows, n)
        K[:, S].
    T : array of shape (n_rows, n)
        Coefficients of the projection so far: K̃ = K[:, S] T'.
    diagonal : array of shape (n_rows,)
        k(x_i, x_i).
    weights : array of shape (n_rows,)
        Weights of the rows.

    Examples
    --------
    The rule "function" of Algorithm 2 as a function, with the projection it is made for:

    >>> import numpy as np
    >>> from pursuit import GreedyFeatureMap
    >>> def pick(step):
    ...     own = step.residuals[step.candidates, np.arange(len(step.candidates))]
    ...     gains = step.weights @ step.residuals**2 / own
    ...     return step.candidates[gains.argmax()]
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> own = GreedyFeatureMap(rule=pick, n_components=10, random_state=0).fit(X)
    >>> named = GreedyFeatureMap(search="fresh", n_components=10, random_state=0).fit(X)
    >>> bool(np.all(own.component_indices_ == named.component_indices_))
    True
    """

    candidates: Indices
    columns: Floats
    residuals: Floats
    chosen: Indices
    chosen_columns: Floats
    T: Floats
    diagonal: Floats
    weights: Floats

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)


Pick = Callable[[GreedyStep], int]
"""``pick(step)`` gives the row number of one of ``step.candidates``."""

Project = Callable[[GreedyStep, int], Floats]
"""``project(step, picked)`` gives T of shape (n_rows, n + 1), the picked column last."""

StepBound = Callable[[GreedyStep, int, Floats], float]
"""``bound(step, picked, T)`` gives a number; T is that after the projection."""


def checked_pick(picked: Any, step: GreedyStep) -> int:
    """The row number that a rule of the user's returned, if it is a candidate."""
    if not isinstance(picked, Integral) or isinstance(picked, bool):
        raise ValueError(
            f"rule returned {picked!r}, which is not a row number: return one of step.candidates."
        )
    row = int(picked)
    if row in step.chosen:
        raise ValueError(
            f"rule returned row {row}, which is taken already: return one of step.candidates."
        )
    if row not in step.candidates:
        raise ValueError(
            f"rule returned row {row}, which is not among the {len(step.candidates)} candidates "
            "of this step: return one of step.candidates, not a position among them."
        )
    return row


def checked_coefficients(T: Any, step: GreedyStep) -> Floats:
    """T that a projection of the user's returned, if it is a finite matrix of the right shape."""
    m, n = step.T.shape
    try:
        found = np.array(T, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"projection returned {type(T).__name__}, which is no matrix of numbers: return T as "
            "an array."
        ) from error
    if found.shape != (m, n + 1):
        raise ValueError(
            f"projection returned T of shape {found.shape}, expected ({m}, {n + 1}): return one "
            "row for each training row and one column for each chosen row, the picked one last."
        )
    if not np.all(np.isfinite(found)):
        raise ValueError(
            "projection returned T with NaN or infinite entries: return finite coefficients, 0 "
            "for columns that are not approximated."
        )
    return found


def checked_bound(bound: Any) -> float:
    """The number that a bound of the user's returned."""
    if not isinstance(bound, Real) or not np.isfinite(float(bound)):
        raise ValueError(
            f"stop returned {bound!r}, which is not a finite number: return a bound on the "
            "residual, which is compared with tol."
        )
    return float(bound)
