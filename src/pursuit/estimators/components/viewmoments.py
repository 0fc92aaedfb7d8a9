"""Second moments of two views in their spans, and the correlations they give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pursuit._types import Floats
from pursuit.gram import SpannedView, kernel_diagonal, paired_moments
from pursuit.linalg import CanonicalPairs, Workers, canonical_pairs
from pursuit.rows import Sample


@dataclass(frozen=True)
class ViewMoments:
    """Means and covariances of both spans' coordinates, and what maps kernel values to them."""

    means: tuple[Floats, Floats]
    covariance: Floats
    whiteners: tuple[Floats, Floats]
    scales: tuple[float, float]
    """Mean k(x, x) of each view, which the regularisation is relative to."""

    @classmethod
    def of(cls, spans: list[SpannedView], samples: list[Sample], workers: Workers) -> ViewMoments:
        """In one pass over the rows."""
        weights = samples[0].weights
        total = paired_moments(spans, weights, workers) / weights.sum()
        mean = total[-1, :-1]
        n = len(spans[0].whitener)
        scales = [
            float(weights @ kernel_diagonal(sample.rows, span.kernel)) / float(weights.sum())
            for span, sample in zip(spans, samples, strict=True)
        ]
        return cls(
            (mean[:n], mean[n:]),
            total[:-1, :-1] - np.outer(mean, mean),
            (spans[0].whitener, spans[1].whitener),
            (scales[0], scales[1]),
        )

    @property
    def sizes(self) -> tuple[int, int]:
        """Dimensions of the spans."""
        return len(self.means[0]), len(self.means[1])

    def ranks(self) -> list[int]:
        """Dimensions that the rows vary in, beyond rounding."""
        n = self.sizes[0]
        blocks = self.covariance[:n, :n], self.covariance[n:, n:]
        return [
            int(np.sum(np.linalg.eigvalsh(block) > 1e-12 * scale))
            for block, scale in zip(blocks, self.scales, strict=True)
        ]

    def correlated(self, dims: tuple[int, int], ridge: float, n_pairs: int) -> CanonicalPairs:
        """CCA between the first functions of each span."""
        n, C = self.sizes[0], self.covariance
        left, right = slice(0, dims[0]), slice(n, n + dims[1])
        return canonical_pairs(
            C[left, left],
            C[left, right],
            C[right, right],
            (ridge * self.scales[0], ridge * self.scales[1]),
            n_pairs,
        )

    def maps(self, pairs: CanonicalPairs) -> list[tuple[Floats, Floats]]:
        """For each view, coefficients on all of its kernel functions and what to take off."""
        found = []
        for directions, whitener, mean in zip(
            (pairs.left, pairs.right), self.whiteners, self.means, strict=True
        ):
            n = len(directions)
            coefficients = np.zeros((len(whitener), directions.shape[1]))
            coefficients[:n] = whitener[:n, :n].T @ directions
            found.append((coefficients, mean[:n] @ directions))
        return found
