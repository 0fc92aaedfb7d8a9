"""Targets with gaps: outputs that were not observed at all rows, NaN where they were not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.rows.memory import Sample


@dataclass(frozen=True)
class OutputGroup:
    """Outputs that were observed at the same rows.

    Attributes
    ----------
    columns : array of int
        Numbers of the outputs.
    rows : array of int
        Numbers of the rows, in increasing order.
    """

    columns: Indices
    rows: Indices

    def of(self, sample: Sample) -> Sample:
        """The outputs of the group at the rows where they were observed."""
        observed = sample if len(self.rows) == sample.n_rows else sample.take(self.rows)
        return Sample(observed.rows, observed.targets[:, self.columns], observed.weights)


def output_groups(targets: Floats) -> list[OutputGroup]:
    """Groups of outputs, in the order of their first members."""
    observed = ~np.isnan(targets)
    _, first, group = np.unique(observed, axis=1, return_index=True, return_inverse=True)
    group = np.ravel(group)
    return [
        OutputGroup(np.flatnonzero(group == group[column]), np.flatnonzero(observed[:, column]))
        for column in np.sort(first)
    ]
