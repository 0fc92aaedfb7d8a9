"""Chosen rows in two views: CCA between their spans, and how often the scores of a row differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, correlation_bound
from pursuit.estimators.components.subspacebounds import WEIGHTED
from pursuit.estimators.components.viewmoments import ViewMoments
from pursuit.estimators.components.views import View
from pursuit.gram import SpannedView, kernel_times
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.rows import Sample


@dataclass(frozen=True)
class Disagreements:
    """Pairs outside the basis whose first scores differ by more than the tolerance.

    Attributes
    ----------
    sizes : array of int
        Numbers of chosen rows.
    errors : array
        Weight of such pairs at each size.
    dimensions : array of int
        Of the space that the difference of the scores is from, at each size.
    """

    sizes: Indices
    errors: Floats
    dimensions: Indices

    @classmethod
    def joined(cls, parts: Sequence[Disagreements]) -> Disagreements:
        """Of the sizes of all parts."""
        names = ("sizes", "errors", "dimensions")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def leading(self, n: int) -> Disagreements:
        """Of the first n sizes."""
        return Disagreements(self.sizes[:n], self.errors[:n], self.dimensions[:n])

    def bound(self, weights: Floats, delta: float, tolerance: float, *, printed: bool) -> Bound:
        """HS08 Theorem 4 at each size, for rows of these weights."""
        return correlation_bound(
            self.sizes,
            self.errors,
            float(weights.sum()),
            delta,
            tolerance=tolerance,
            dimension=None if printed else self.dimensions,
            printed=printed,
            caveat=WEIGHTED if np.any(weights != 1.0) else "",
        )


@dataclass(frozen=True)
class SpannedPairs:
    """Spans of chosen rows in both views, and the moments of all rows in them.

    Attributes
    ----------
    chosen : array of int
        The rows.
    spans : pair of SpannedView
        Their spans, without functions that depend on earlier ones.
    inside : pair of arrays of bool
        Which of the chosen rows are in each span.
    moments : ViewMoments
        Of all rows.
    weights : array
        Of all rows.
    """

    chosen: Indices
    spans: list[SpannedView]
    inside: list[NDArray[np.bool_]]
    moments: ViewMoments
    weights: Floats

    @classmethod
    def of(
        cls,
        views: Sequence[View],
        samples: list[Sample],
        kernels: Sequence[CountingKernel],
        chosen: Indices,
        workers: Workers,
    ) -> SpannedPairs:
        """In one pass over the rows."""
        spans = [
            view.span(sample, kernel, chosen, workers)
            for view, sample, kernel in zip(views, samples, kernels, strict=True)
        ]
        inside = [np.isin(chosen, view.indices_) for view in views]
        moments = ViewMoments.of(spans, samples, workers)
        return cls(chosen, spans, inside, moments, samples[0].weights)

    def disagreements(
        self, sizes: Sequence[int], ridge: float, tolerance: float, workers: Workers
    ) -> Disagreements:
        """Of the first so many chosen rows, from one pass over the rows.

        Where a view does not vary in its span there are no scores, and every pair is counted.
        """
        maps, scored, dimensions = [], [], []
        for size in sizes:
            left, right = (int(inside[:size].sum()) for inside in self.inside)
            pairs = self.moments.correlated((left, right), ridge, 1)
            dimensions.append(left + right + 1)
            scored.append(bool(len(pairs.correlations)))
            if scored[-1]:
                maps.append(self.moments.maps(pairs))
        differ = np.ones((len(self.weights), len(scored)), bool)
        if maps:
            differ[:, scored] = np.abs(self._differences(maps, workers)) > tolerance
        entered = np.full(len(self.weights), np.inf)
        entered[self.chosen] = np.arange(1, len(self.chosen) + 1)
        # A row of weight w in the basis leaves w - 1 copies outside.
        used = np.minimum(self.weights, 1.0)[:, None] * (entered[:, None] <= np.asarray(sizes))
        errors = np.sum((self.weights[:, None] - used) * differ, axis=0)
        return Disagreements(np.asarray(sizes, np.intp), errors, np.asarray(dimensions, np.intp))

    def _differences(self, maps: list[Any], workers: Workers) -> Floats:
        """f_x - f_y of all rows, a column for each pair of maps."""
        difference: Any = 0.0
        for v, (span, sign) in enumerate(zip(self.spans, (1.0, -1.0), strict=True)):
            coefficients = np.hstack([found[v][0] for found in maps])
            shift = np.concatenate([found[v][1] for found in maps])
            scores = kernel_times(span.rows, span.kernel, span.points, coefficients, workers)
            difference = difference + sign * (scores - shift)
        found: Floats = difference
        return found
