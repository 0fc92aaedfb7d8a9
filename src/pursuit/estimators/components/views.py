"""Two views of the same rows: their kernels and spans, CCA between them, and disagreements.

HS08 is Hussain and Shawe-Taylor, Theory of matching pursuit, NIPS 2008.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, correlation_bound
from pursuit.estimators.components.subspace import WEIGHTED
from pursuit.estimators.inputs import (
    as_source,
    check_symmetric,
    column_names,
    counting_kernel,
    holds_objects,
    is_precomputed,
    reads_matrix,
    resolved_kernel,
    validate_items,
)
from pursuit.estimators.kernel_model import in_precision_of_rows
from pursuit.gram import SpannedView, kernel_diagonal, kernel_times, paired_moments
from pursuit.greedy import Pool, kernel_matrix
from pursuit.kernels import CountingKernel
from pursuit.linalg import (
    CanonicalPairs,
    NotPositiveDefiniteError,
    Workers,
    canonical_pairs,
    invert_lower,
    robust_cholesky,
)
from pursuit.rows import IndexRows, RowSource, Sample, as_rows, len_items


class View(BaseEstimator):
    """Validates and maps the items of one view; its parameters are those of its kernel.

    Parameters
    ----------
    name : {"X", "Y"}
        Name of the view in error messages.
    kernel : kernel
        As passed by the user.
    params : dict or None
        Parameters of a named or callable kernel.
    """

    def __init__(
        self, name: str = "X", kernel: Any = "rbf", params: dict[str, Any] | None = None
    ) -> None:
        self.name = name
        self.kernel = kernel
        self.params = params

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_frame"}

    def rows(self, items: Any, *, reset: bool) -> tuple[RowSource, Any]:
        """The items as rows, and the validated items; ``reset`` is for those of a fit."""
        items = self._validated(items, reset=reset)
        if not reads_matrix(self):
            return as_rows(items), items
        if reset:
            if items.shape[0] != items.shape[1]:
                raise ValueError(
                    f"kernel_{self.name.lower()}='precomputed' needs a square kernel matrix in "
                    f"fit, got shape {items.shape}."
                )
            check_symmetric(items)
        return IndexRows(len_items(items)), items

    def compiled(self, items: Any) -> CountingKernel:
        """The kernel on items like these."""
        kernel = resolved_kernel(self.kernel, column_names(self))
        if is_precomputed(kernel) and self.params:
            raise ValueError(
                f"kernel_params_{self.name.lower()} has no effect on a precomputed kernel: leave "
                "it out."
            )
        return counting_kernel(kernel, items, kernel_params=self.params or None)[0]

    def store(self, points: Any, coefficients: Floats, shift: Floats) -> None:
        """Keep the map of new items: k(·, points) @ coefficients - shift."""
        self.points_, self.coefficients_, self.shift_ = points, coefficients, shift

    @in_precision_of_rows
    def scores(self, items: Any, n_jobs: int | None) -> Floats:
        """Components of new items."""
        rows, items = self.rows(items, reset=False)
        kernel = self.compiled(items)
        with Workers(n_jobs) as workers:
            values = kernel_times(rows, kernel, self.points_, self.coefficients_, workers)
        return values - self.shift_

    def _validated(self, items: Any, *, reset: bool) -> Any:
        try:
            return self._checked(items, reset=reset)
        except ValueError as error:
            # Users know the estimator and its two arguments, and not this class.
            text = re.sub(
                r"\bView(?= is expecting| with kernel=|\.$)", "SparseKernelCCA", str(error)
            )
            if text.startswith(("Found array", "could not convert")):
                text = f"{self.name}: {text}"
            if text == str(error):
                raise
            raise ValueError(text) from error

    def _checked(self, items: Any, *, reset: bool) -> Any:
        if self.name == "X" or as_source(items) is not None:
            return validate_items(self, items, reset=reset)
        if hasattr(items, "columns"):
            return validate_items(self, items, reset=reset)
        if not holds_objects(self.kernel, items) and np.asarray(items).ndim == 1:
            items = np.asarray(items).reshape(-1, 1)
        if holds_objects(self.kernel, items) or not reset:
            return validate_items(self, items, reset=reset, name=self.name)
        items = check_array(
            items,
            accept_sparse=False if reads_matrix(self) else "csr",
            dtype=[np.float64, np.float32],
            input_name=self.name,
        )
        self.n_features_in_ = items.shape[1]
        return items


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
        Dimension of the space that the difference of the scores is from, at each size.
    """

    sizes: Indices
    errors: Floats
    dimensions: Indices

    @classmethod
    def joined(cls, parts: Sequence[Disagreements]) -> Disagreements:
        """The disagreements at the sizes of all parts."""
        names = ("sizes", "errors", "dimensions")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def leading(self, n: int) -> Disagreements:
        """The disagreements at the first n sizes."""
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
        The chosen rows.
    kept : pair of arrays of int
        Those of them that do not depend on earlier ones, in each view.
    spans : pair of SpannedView
        The spans of the rows kept.
    weights : array
        Weights of all rows.
    means : pair of arrays
        Mean coordinates of all rows in each span.
    covariance : array
        Covariance of the coordinates in both spans together.
    scales : list of float
        Mean k(x, x) of each view, which the regularisation is relative to.
    """

    chosen: Indices
    kept: list[Indices]
    spans: list[SpannedView]
    weights: Floats
    means: tuple[Floats, Floats]
    covariance: Floats
    scales: list[float]

    @classmethod
    def of(
        cls,
        samples: Sequence[Sample],
        kernels: Sequence[CountingKernel],
        chosen: Indices,
        workers: Workers,
    ) -> SpannedPairs:
        """The spans of chosen rows, by one pass over all rows."""
        spanned = [
            _span(sample, kernel, chosen, workers)
            for sample, kernel in zip(samples, kernels, strict=True)
        ]
        kept, spans = [rows for rows, _ in spanned], [span for _, span in spanned]
        weights = samples[0].weights
        total = paired_moments(spans, weights, workers) / weights.sum()
        n, mean = len(kept[0]), total[-1, :-1]
        covariance = total[:-1, :-1] - np.outer(mean, mean)
        scales = [
            float(weights @ kernel_diagonal(span.rows, span.kernel)) / float(weights.sum())
            for span in spans
        ]
        return cls(chosen, kept, spans, weights, (mean[:n], mean[n:]), covariance, scales)

    @property
    def sizes(self) -> tuple[int, int]:
        """Dimensions of the spans."""
        return len(self.kept[0]), len(self.kept[1])

    def ranks(self) -> list[int]:
        """Dimensions in which the rows vary beyond rounding, per view."""
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
        ridges = ridge * self.scales[0], ridge * self.scales[1]
        return canonical_pairs(C[left, left], C[left, right], C[right, right], ridges, n_pairs)

    def maps(self, pairs: CanonicalPairs) -> list[tuple[Floats, Floats]]:
        """For each view, coefficients of all of its kernel functions and the shift to subtract."""
        maps = []
        for directions, span, mean in zip(
            (pairs.left, pairs.right), self.spans, self.means, strict=True
        ):
            n = len(directions)
            coefficients = np.zeros((len(mean), directions.shape[1]))
            coefficients[:n] = span.whitener[:n, :n].T @ directions
            maps.append((coefficients, mean[:n] @ directions))
        return maps

    def disagreements(
        self, sizes: Sequence[int], ridge: float, tolerance: float, workers: Workers
    ) -> Disagreements:
        """Disagreements at some numbers of chosen rows, by one pass over all rows.

        Where a view does not vary in its span there are no scores, and every pair is counted.
        """
        inside: list[NDArray[np.bool_]] = [np.isin(self.chosen, kept) for kept in self.kept]
        maps, scored, dimensions = [], [], []
        for size in sizes:
            left, right = (int(inside[view][:size].sum()) for view in (0, 1))
            pairs = self.correlated((left, right), ridge, 1)
            dimensions.append(left + right + 1)
            scored.append(bool(len(pairs.correlations)))
            if scored[-1]:
                maps.append(self.maps(pairs))
        differ = np.ones((len(self.weights), len(scored)), bool)
        if maps:
            differ[:, scored] = np.abs(self._differences(maps, workers)) > tolerance
        entered = np.full(len(self.weights), np.inf)
        entered[self.chosen] = np.arange(1, len(self.chosen) + 1)
        # A row of weight w in the basis leaves w - 1 copies outside.
        used = np.minimum(self.weights, 1.0)[:, None] * (entered[:, None] <= np.asarray(sizes))
        errors = np.sum((self.weights[:, None] - used) * differ, axis=0)
        return Disagreements(np.asarray(sizes, np.intp), errors, np.asarray(dimensions, np.intp))

    def _differences(self, maps: list[list[tuple[Floats, Floats]]], workers: Workers) -> Floats:
        """Differences of the two scores of all rows, one column per pair of maps."""
        scores = []
        for view, span in enumerate(self.spans):
            coefficients = np.hstack([pair[view][0] for pair in maps])
            shift = np.concatenate([pair[view][1] for pair in maps])
            values = kernel_times(span.rows, span.kernel, span.points, coefficients, workers)
            scores.append(values - shift)
        return np.asarray(scores[0] - scores[1])


def _span(
    sample: Sample, kernel: CountingKernel, chosen: Indices, workers: Workers
) -> tuple[Indices, SpannedView]:
    """The chosen rows that do not depend on earlier ones in a view, and their span."""
    K = kernel_matrix(kernel, sample.rows.take(chosen), workers)
    try:
        factor, kept = robust_cholesky(K, limits.PIVOT_TOLERANCE, rounding=kernel.rounding)
    except NotPositiveDefiniteError as error:
        raise NotPositiveDefiniteError(int(chosen[error.index]), error.pivot) from error
    rows = chosen[kept]
    whitener = invert_lower(factor)
    return rows, SpannedView(sample.rows, kernel, Pool.of_rows(sample, rows).items, whitener)
