"""One view of paired rows: what was passed, its kernel, and the span it is looked at in."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import check_array

from pursuit._types import Floats, Indices
from pursuit.estimators.inputs import (
    check_symmetric,
    counting_kernel,
    holds_objects,
    is_precomputed,
    validate_items,
)
from pursuit.estimators.lazily import lazily
from pursuit.estimators.sources import as_source
from pursuit.gram import SpannedView, kernel_times
from pursuit.greedy import Pool, kernel_matrix
from pursuit.kernels import CountingKernel
from pursuit.linalg import NotPositiveDefiniteError, Workers, robust_cholesky
from pursuit.rows import IndexRows, RowSource, Sample, as_rows, len_items

_PIVOT_TOLERANCE = 1e-11


class View(BaseEstimator):
    """Validates and maps the items of one view; its parameters are those of its kernel.

    Parameters
    ----------
    name : {"X", "Y"}
        What error messages call it.
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

    def rows(self, items: Any, *, reset: bool) -> tuple[RowSource, Any]:
        """The items as rows, and the validated items; ``reset`` when they are fitted."""
        items = self._validated(items, reset=reset)
        if not is_precomputed(self.kernel):
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
        kernel = clone(self.kernel) if isinstance(self.kernel, SklearnKernel) else self.kernel
        if is_precomputed(kernel) or not self.params:
            return counting_kernel(kernel, items)[0]
        return counting_kernel(kernel, items, kernel_params=self.params)[0]

    def span(
        self, sample: Sample, kernel: CountingKernel, chosen: Indices, workers: Workers
    ) -> SpannedView:
        """Span the view by the chosen rows, but those that depend on earlier ones."""
        K = kernel_matrix(kernel, sample.rows.take(chosen), workers)
        try:
            factor, kept = robust_cholesky(K, _PIVOT_TOLERANCE, rounding=kernel.rounding)
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(int(chosen[error.index]), error.pivot) from error
        self.indices_ = chosen[kept]
        pool = Pool.of_rows(sample, self.indices_)
        whitener = solve_triangular(factor, np.eye(len(kept)), lower=True)
        return SpannedView(sample.rows, kernel, pool.items, whitener)

    def store(self, points: Any, coefficients: Floats, shift: Floats) -> None:
        """Keep what maps new items: k(·, points) @ coefficients - shift."""
        self.points_, self.coefficients_, self.shift_ = points, coefficients, shift

    @lazily
    def scores(self, items: Any, n_jobs: int | None) -> Floats:
        """Components of new items."""
        rows, items = self.rows(items, reset=False)
        kernel = self.compiled(items)
        with Workers(n_jobs) as workers:
            found = kernel_times(rows, kernel, self.points_, self.coefficients_, workers)
        return found - self.shift_

    def _validated(self, items: Any, *, reset: bool) -> Any:
        if self.name == "X":
            return validate_items(self, items, reset=reset)
        if as_source(items) is not None:
            return validate_items(self, items, reset=reset)
        if not holds_objects(self.kernel, items) and np.asarray(items).ndim == 1:
            items = np.asarray(items).reshape(-1, 1)
        if holds_objects(self.kernel, items) or not reset:
            return validate_items(self, items, reset=reset, name=self.name)
        items = check_array(
            items,
            accept_sparse=False if is_precomputed(self.kernel) else "csr",
            dtype=[np.float64, np.float32],
            input_name=self.name,
        )
        self.n_features_in_ = items.shape[1]
        return items
