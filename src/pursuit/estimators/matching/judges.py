"""What a matching-pursuit model does at a row: its loss, and whether HS08 counts it as an error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.estimators.matching.path import Measure
from pursuit.objectives import RowLoss
from pursuit.rows import Sample


class Judge(Protocol):
    """Judges predictions F (rows x sizes x outputs) by targets Y (rows x outputs).

    In the space of coefficients, ``n_hyperplanes`` hyperplanes decide whether a row is an error,
    and the space has ``n_columns`` dimensions for each function.
    """

    @property
    def n_hyperplanes(self) -> int:
        """Hyperplanes a row."""
        ...

    @property
    def n_columns(self) -> int:
        """Dimensions a function."""
        ...

    def losses(self, F: Floats, Y: Floats) -> Floats:
        """Of shape (rows, sizes)."""
        ...

    def errors(self, F: Floats, Y: Floats) -> NDArray[np.bool_]:
        """Of shape (rows, sizes)."""
        ...


@dataclass(frozen=True)
class MissJudge:
    """Regression: an error is |f - y| > α in any output (HS08 Definition 1)."""

    tolerance: Floats

    @property
    def n_hyperplanes(self) -> int:
        """f = y + α and f = y - α, for each output."""
        return 2 * len(self.tolerance)

    @property
    def n_columns(self) -> int:
        """One coefficient an output."""
        return len(self.tolerance)

    def losses(self, F: Floats, Y: Floats) -> Floats:
        """½(f - y)², outputs summed."""
        return half_squares(F, Y)

    def errors(self, F: Floats, Y: Floats) -> NDArray[np.bool_]:
        """Outputs beyond the tolerance."""
        missed: NDArray[np.bool_] = np.any(np.abs(F - Y[:, None]) > self.tolerance, axis=2)
        return missed


@dataclass(frozen=True)
class MarginJudge:
    """Classification: an error is a margin of at most 1 - α.

    The margin is half the lead of the row's own column over the best other one, yf for two classes
    in one column of ±1; α = 1 counts rows that are classified wrongly, ties included.
    """

    tolerance: float
    loss: RowLoss | None
    n_outputs: int

    @property
    def n_hyperplanes(self) -> int:
        """The own column against each of the others."""
        return max(self.n_outputs - 1, 1)

    @property
    def n_columns(self) -> int:
        """Differences of columns are what counts."""
        return max(self.n_outputs - 1, 1)

    def losses(self, F: Floats, Y: Floats) -> Floats:
        """The loss that is minimised, columns summed."""
        if self.loss is None:
            return half_squares(F, Y)
        total: Floats = self.loss.value(F, np.broadcast_to(Y[:, None], F.shape)).sum(axis=2)
        return total

    def errors(self, F: Floats, Y: Floats) -> NDArray[np.bool_]:
        """Margins that are too small."""
        if self.n_outputs == 1:
            margin = (F * Y[:, None])[..., 0]
        else:
            own = np.broadcast_to(Y[:, None] > 0, F.shape)
            lead = np.where(own, F, -np.inf).max(axis=2) - np.where(own, -np.inf, F).max(axis=2)
            margin = 0.5 * lead
        return np.asarray(margin <= 1.0 - self.tolerance)


def half_squares(F: Floats, Y: Floats) -> Floats:
    """½(f - y)², outputs summed."""
    miss = F - Y[:, None]
    return 0.5 * np.asarray(np.einsum("iso,iso->is", miss, miss))


class Tally:
    """Counts errors outside the basis, and adds up losses, for models of many sizes.

    A row of weight w counts as w rows, of which one is taken away when the row becomes a centre.
    Weights that add up to less than the number of rows, such as shares, are scaled up to it.

    Attributes
    ----------
    counts : array
        How many rows each row counts for.
    """

    def __init__(self, judge: Judge, sample: Sample) -> None:
        self._judge, self._sample = judge, sample
        w = sample.weights
        self.counts: Floats = w * max(1.0, len(w) / float(w.sum()))

    def measure(self, centers: Indices, sizes: Indices) -> Measure:
        """Errors and losses of models of some sizes with these centres: two numbers a size."""
        sample = self._sample
        aligned = sample.targets, sample.weights, self.counts, self.entered(centers)
        return partial(_errors_and_losses, self._judge, sizes), aligned

    def entered(self, centers: Indices) -> Floats:
        """For every row the size at which it becomes a centre, infinite if it never does."""
        size = np.full(self._sample.n_rows, np.inf)
        rows = centers >= 0
        # Backwards, so that the first time counts.
        size[centers[rows][::-1]] = np.flatnonzero(rows)[::-1] + 1.0
        return size

    def rows_used(self, centers: Indices) -> Floats:
        """Weight of the rows that are centres, for sizes 1, …, n."""
        entered = self.entered(centers)
        once = np.flatnonzero(np.isfinite(entered))
        added = np.zeros(len(centers))
        np.add.at(added, entered[once].astype(np.intp) - 1, np.minimum(self.counts[once], 1.0))
        return np.cumsum(added)


def sum_losses(judge: Judge, F: Floats, targets: Floats, weights: Floats) -> Floats:
    """Σ of weighted losses, shape (1, sizes)."""
    return weights[None] @ judge.losses(F, targets)


def _errors_and_losses(
    judge: Judge,
    sizes: Indices,
    F: Floats,
    targets: Floats,
    weights: Floats,
    counts: Floats,
    entered: Floats,
) -> Floats:
    """Σ of errors outside the basis and of losses, shape (2, sizes).

    ``entered`` is the size from which on a row is a centre.
    """
    c = counts[:, None]
    inside = np.minimum(c, 1.0) * (entered[:, None] <= sizes)
    errors = np.sum((c - inside) * judge.errors(F, targets), axis=0)
    return np.stack([errors, np.sum(weights[:, None] * judge.losses(F, targets), axis=0)])
