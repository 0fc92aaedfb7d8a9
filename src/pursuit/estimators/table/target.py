"""Statistics of the target for the levels of a category.

For a level with n_l rows, mean m_l and variance v_l of the target, which has mean m and variance v
over all rows, the statistic is the empirical Bayes estimate (Micci-Barreca 2001, eqs 5 and 6)

    λ_l m_l + (1 - λ_l) m,    λ_l = n_l v / (n_l v + v_l).

The rows of a fit see statistics of other rows only: those of the other four of five folds. The fold
of a row depends on its number alone, so it is the same in memory and in a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.estimators.table.columns import TableColumn, Tally, level_codes
from pursuit.estimators.table.read import RawTable

FOLDS = 5
_FEW = 10
"""At most so many whole numbers are classes; at most so many classes have statistics."""


@dataclass(frozen=True)
class Target:
    """What statistics are of: numbers, one column per output or per class.

    Attributes
    ----------
    names : list of str
        Names of the columns; a single one is "".
    values : array of shape (rows, columns)
        The numbers, or zeros and ones.
    """

    names: list[str]
    values: Floats

    @classmethod
    def of(cls, y: Any) -> Target:
        """Numbers as they are; classes, which are texts or few whole numbers, as zeros and ones."""
        values = np.asarray(y)
        if values.dtype.kind == "O":
            values = _plain(values)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError("Input y contains NaN or infinity: leave such rows out.")
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim == 2:
            return cls([str(j) for j in range(values.shape[1])], values.astype(np.float64))
        if values.dtype.kind in "biuf":
            known = np.unique(values)
            whole = bool(np.all(known == np.floor(known))) if values.dtype.kind == "f" else True
            if len(known) <= 2 or len(known) > _FEW or not whole:
                return cls([""], values.astype(np.float64)[:, None])
        classes, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
        frequent = np.sort(np.argsort(-counts, kind="stable")[:_FEW])
        if len(classes) <= 2:  # the second class is what the first is not
            frequent = frequent[-1:]
            return cls([""], (codes[:, None] == frequent).astype(np.float64))
        return cls(
            [str(classes[k]) for k in frequent], (codes[:, None] == frequent).astype(np.float64)
        )


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Objects as numbers if they are, else as texts."""
    if any(isinstance(value, str) for value in values.ravel()):
        return values.astype(str)
    return values.astype(np.float64)


def folds(rows: Indices) -> Indices:
    """The folds of rows with these numbers, as good as random."""
    # splitmix64: a bijection that leaves no pattern of the row numbers.
    mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(FOLDS)).astype(np.intp)


class TargetSums:
    """Sums of a target over the rows of each level and fold."""

    def __init__(self, n_levels: int, target: Target) -> None:
        self._target, self.names = target, target.names
        self._centre = target.values.mean(axis=0)
        # The last level is that of rows whose text was not counted.
        shape = FOLDS, n_levels + 1, len(target.names)
        self._counts = np.zeros(shape[:2])
        self._sums, self._squares = np.zeros(shape), np.zeros(shape)

    def add(self, codes: Indices, rows: Indices) -> None:
        """Take in rows with these codes and numbers."""
        # Values are added one by one in row order: pieces give the bits of the whole.
        at = folds(rows), codes
        values = self._target.values[rows] - self._centre
        np.add.at(self._counts, at, 1.0)
        np.add.at(self._sums, at, values)
        np.add.at(self._squares, at, values**2)

    def statistics(self, without: int | None = None) -> Floats:
        """Statistics of all levels, and last that of a new one, from all folds but one."""
        used = [fold for fold in range(FOLDS) if fold != without]
        counts = self._counts[used].sum(axis=0)[:, None]
        sums, squares = self._sums[used].sum(axis=0), self._squares[used].sum(axis=0)
        n_rows = max(counts.sum(), 1.0)
        mean = sums.sum(axis=0) / n_rows
        variance = np.maximum(squares.sum(axis=0) / n_rows - mean**2, 0.0)
        present = np.maximum(counts, 1.0)
        own = sums / present
        within = np.maximum(squares / present - own**2, 0.0)
        weight = counts * variance
        total = weight + within
        share = np.divide(weight, total, out=np.zeros_like(total), where=total > 0)
        result: Floats = self._centre + share * own + (1.0 - share) * mean
        result[-1] = self._centre + mean
        return result

    def by_fold(self) -> Floats:
        """For each fold, the statistics from all others."""
        return np.stack([self.statistics(fold) for fold in range(FOLDS)])


def target_sums(raw: RawTable, columns: Sequence[TableColumn], y: Any) -> dict[str, TargetSums]:
    """A second pass, for columns whose levels become statistics of the target."""
    chosen = {column.name: column for column in columns if column.encoding == "target"}
    if not chosen:
        return {}
    target = Target.of(y)
    sums = {name: TargetSums(len(column.all_levels), target) for name, column in chosen.items()}
    for start, pieces in raw.pieces(list(chosen)):
        rows = np.arange(start, start + len(pieces[0].values))
        for (name, column), piece in zip(chosen.items(), pieces, strict=True):
            sums[name].add(level_codes(column, piece, Tally()), rows)
    return sums
