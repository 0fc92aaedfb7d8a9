"""Rows that a full-scale model keeps: identical ones as one, with their features and an index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pursuit._types import Floats, Indices
from pursuit.estimators.inputs import dense
from pursuit.gram import NearestRows, ResidualProcess, nearest_in_features, nearest_in_space
from pursuit.kernels import Kernel
from pursuit.linalg import Workers, invert_lower
from pursuit.rows import as_rows, concat, len_items, row_groups, take_items
from pursuit.tuning import NO_REPLICATES, Replicates

STORED_NUMBERS = 1 << 27
"""Features are stored up to this many numbers (512 MB in float32), else computed on demand."""
_DOUBLE_NUMBERS = 1 << 24
"""They are float64 up to this many numbers (128 MB)."""
_RESOLVED = 30.0
"""Roundings of r in float32 that the noise must exceed. Fewer: less accurate; more: more memory."""
_GONE = 1e-9
"""A row that leaves less than this share of its weight behind leaves nothing."""


@dataclass(frozen=True)
class NearRows:
    """Distinct rows. Identical rows count as one, with the sum of their weights.

    This changes nothing about a Gaussian process: w observations with noise σ² of one value are
    their mean with noise σ²/w.

    Attributes
    ----------
    items : items
        The rows.
    targets : array of shape (n_rows, n_outputs)
        Weighted means of the normalised targets.
    weights : array of shape (n_rows,)
        w.
    scatter : array of shape (n_outputs,)
        Weighted squares of the targets about these means.
    n_copies : int
        Rows beyond the first of each group.
    log_weights : float
        Σ log w over all rows, less the same over the distinct ones.
    conflicts : Replicates
        Targets that differ although the rows are identical.
    """

    items: Any
    targets: Floats
    weights: Floats
    scatter: Floats
    n_copies: int = 0
    log_weights: float = 0.0
    conflicts: Replicates = NO_REPLICATES

    def lightened(self, share: float) -> NearRows:
        """The same rows, all weights multiplied by a number."""
        return replace(
            self,
            weights=share * self.weights,
            scatter=share * self.scatter,
            log_weights=self.log_weights + self.n_copies * float(np.log(share)),
        )

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""
        return len(self.weights)

    def taken(self, order: Indices) -> NearRows:
        """The rows in another order."""
        return NearRows(
            take_items(self.items, order),
            self.targets[order],
            self.weights[order],
            self.scatter,
            self.n_copies,
            self.log_weights,
            self.conflicts,
        )


def row_numbers(items: Any) -> Indices:
    """For each row, its number among the distinct rows, which count by first occurrence."""
    rows = as_rows(items)
    return row_groups((block for _, block in rows.blocks()), rows.n_rows)


def distinct(items: Any, targets: Floats, weights: Floats, group: Indices) -> NearRows:
    """The distinct rows of those that have these numbers."""
    n = int(group.max(initial=-1)) + 1
    if n == len(group):
        return NearRows(items, targets, weights, np.zeros(targets.shape[1]))
    total = np.bincount(group, weights, n).astype(np.float64)
    means = [np.bincount(group, weights * y, n) / total for y in targets.T]
    mean = np.stack(means, axis=1)
    scatter = weights @ (targets - mean[group]) ** 2
    first = np.unique(group, return_index=True)[1]
    logs = float(np.log(weights).sum() - np.log(total).sum())
    return NearRows(
        take_items(items, first),
        mean,
        total,
        scatter,
        len(group) - n,
        logs,
        _conflicts(group, targets),
    )


def _conflicts(group: Indices, targets: Floats) -> Replicates:
    """How far distinct targets of identical rows are from their means.

    A record that occurs twice, target included, may be one observation that was copied. It says
    nothing about the noise, and counts once.
    """
    shared = np.bincount(group)[group] > 1
    records = np.unique(np.column_stack([group[shared], targets[shared]]), axis=0)
    place = np.unique(records[:, 0], return_inverse=True)[1]
    count = np.bincount(place)
    squares = 0.0
    for y in records[:, 1:].T:
        mean = np.bincount(place, y) / count
        squares += float(((y - mean[place]) ** 2).sum())
    return Replicates(len(records) - len(count), squares / targets.shape[1], len(group))


def joined(old: NearRows, new: NearRows) -> NearRows:
    """All rows, those that occur in both as one."""
    items = concat(old.items, new.items)
    targets = np.concatenate([old.targets, new.targets])
    weights = np.concatenate([old.weights, new.weights])
    both = distinct(items, targets, weights, row_numbers(items))
    return NearRows(
        both.items,
        both.targets,
        both.weights,
        both.scatter + old.scatter + new.scatter,
        both.n_copies + old.n_copies + new.n_copies,
        both.log_weights + old.log_weights + new.log_weights,
        old.conflicts + new.conflicts,
    )


def appended(old: NearRows, new: NearRows) -> NearRows:
    """All rows, the new ones last, whether they occur before or not."""
    return NearRows(
        concat(old.items, new.items),
        np.concatenate([old.targets, new.targets]),
        np.concatenate([old.weights, new.weights]),
        old.scatter + new.scatter,
        old.n_copies + new.n_copies,
        old.log_weights + new.log_weights,
        old.conflicts + new.conflicts,
    )


@dataclass(frozen=True)
class LeavingRows:
    """Rows to be left out one at a time, of those that are kept.

    Attributes
    ----------
    items : items
        The rows.
    targets, weights : arrays
        Their own.
    number : array of int
        Which of the distinct rows they are.
    with_copies : bool
        Whether all identical rows leave, too: a copy that stays would tell what a new row does not
        know.
    """

    items: Any
    targets: Floats
    weights: Floats
    number: Indices
    with_copies: bool = False

    def __len__(self) -> int:
        return len(self.weights)

    def taken(self, some: Indices) -> LeavingRows:
        """Some of them."""
        return LeavingRows(
            take_items(self.items, some),
            self.targets[some],
            self.weights[some],
            self.number[some],
            self.with_copies,
        )

    def leaves(self, kept: NearRows) -> tuple[Floats, Floats]:
        """Targets and weights of what leaves with each row."""
        if self.with_copies:
            return kept.targets[self.number], kept.weights[self.number]
        return self.targets, self.weights

    def remaining(self, kept: NearRows) -> Floats:
        """Weight of identical rows that stay; 0 where none does."""
        left = kept.weights[self.number] - self.leaves(kept)[1]
        return np.where(left > _GONE * kept.weights[self.number], left, 0.0)

    def excluded(self, kept: NearRows) -> Indices:
        """The distinct row that goes with each of them, -1 where identical rows stay."""
        return np.where(self.remaining(kept) > 0, -1, self.number)

    def neighbours(self, kept: NearRows, near: Indices) -> tuple[Floats, Floats]:
        """Targets (n, k, n_outputs) and weights (n, k) of near rows without the one left out."""
        targets, weights = kept.targets[near], kept.weights[near]
        left = self.remaining(kept)
        at, place = np.nonzero(near == self.number[:, None])
        if len(at):
            own = self.number[at]
            rest = left[at]
            whole = kept.weights[own][:, None] * kept.targets[own]
            part = self.weights[at][:, None] * self.targets[at]
            targets[at, place] = (whole - part) / rest[:, None]
            weights[at, place] = rest
        return targets, weights


def features_stored(memory: str, n_rows: int, n_functions: int) -> bool:
    """Whether the features of near rows are kept."""
    if memory == "auto":
        return n_rows * n_functions <= STORED_NUMBERS
    return memory == "stored"


def residual_process(
    kept: NearRows,
    kernel: Kernel,
    points: Any,
    whitener: Floats,
    workers: Workers,
    *,
    memory: str,
    dtype: DTypeLike,
    noise: float,
) -> ResidualProcess:
    """What the basis leaves of the process, among the rows that are kept.

    Features are float64 where they are few, or where r rounded to float32 would hide the noise.
    """
    n_numbers, n = kept.n_rows * len(whitener), len(whitener)
    largest = float(kernel.diag(points).max(initial=0.0))
    rounding = float(np.finfo(np.float32).eps) * np.sqrt(n) * largest
    needed = n_numbers <= _DOUBLE_NUMBERS or noise < _RESOLVED * rounding
    kind = np.dtype(np.float64 if needed else dtype)
    process = ResidualProcess(kernel, points, whitener, as_rows(kept.items), kind)
    if not features_stored(memory, kept.n_rows, len(whitener)):
        return process
    stored = process.features(kept.items, workers, kind)
    return ResidualProcess(kernel, points, whitener, process.rows, kind, stored)


@dataclass(frozen=True)
class RowIndex:
    """Finds the near rows of items.

    Attributes
    ----------
    search : NearestRows
        In a Euclidean space, or in that of the kernel's features.
    scales : array of shape (n_features,), optional
        Length scales that features are divided by; None in the kernel's space.
    """

    search: NearestRows
    scales: Floats | None

    @classmethod
    def build(
        cls, kept: NearRows, kernel: Kernel, points: Any, whitener: Floats, workers: Workers
    ) -> RowIndex:
        """By scaled distance where the kernel has length scales, else by the kernel's own.

        The kernel's own distance compares categories, too.
        """
        scales = kernel.length_scales
        by_distance = scales is not None and not np.isnan(scales).any()
        if not by_distance or not isinstance(kept.items, np.ndarray):
            rows = as_rows(kept.items)
            R = invert_lower(whitener)
            return cls(nearest_in_features(rows, kernel, points, R, workers), None)
        per_feature = np.broadcast_to(np.asarray(scales, dtype=np.float64), kept.items.shape[1:])
        cells = placed(points, per_feature) if len_items(points) else None
        where = placed(kept.items, per_feature)
        return cls(nearest_in_space(where, cells, workers), per_feature)

    def nearest(self, items: Any, k: int, workers: Workers, own: Indices | None = None) -> Indices:
        """The k nearest rows of every item; ``own`` are rows that it must not get, or -1."""
        queries = items if self.scales is None else placed(items, self.scales)
        return self.search.nearest(queries, k, workers, own=own)


def placed(items: Any, scales: Floats) -> Floats:
    """Rows of numbers, divided by the length scales."""
    return np.asarray(dense(items), dtype=np.float64) / scales
