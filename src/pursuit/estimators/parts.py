"""Predictions in parts: one function for each term of a kernel that is a sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats
from pursuit.estimators.inputs import (
    TargetScale,
    held,
    prediction_rows,
    reads_matrix,
    validate_items,
)
from pursuit.estimators.kernel_model import Expansion, in_precision_of_rows
from pursuit.gram import kernel_times
from pursuit.kernels import (
    CountingKernel,
    Part,
    function_name,
    is_constant,
    parts_of,
    terms_of,
)
from pursuit.linalg import Workers
from pursuit.rows import RowSource, as_rows, len_items, take_items

CONSTANT = "constant"
"""Name of the last part."""
_CENTER_ROWS = 1000
"""Most rows over which parts have mean 0. More: a mean that hardly changes, slower."""


class PartsModel:
    """A kernel expansion Σ_j k(x, z_j) c_j + offset that can be predicted term by term of k."""

    kernel_: Any
    n_jobs: int | None
    _compile: Callable[..., Any]
    _expansion: Callable[[], Expansion]
    _points: Any
    """What the compiled kernel is bound to: points, or columns of a given matrix."""

    @property
    def part_names_(self) -> list[str]:
        """Names of the columns of ``predict_parts``; the last is "constant"."""
        check_is_fitted(self)
        return [part.name for part in self._terms()] + [CONSTANT]

    @property
    def part_columns_(self) -> list[list[int] | None]:
        """Columns of X that each part looks at, None for all; the constant looks at none."""
        check_is_fitted(self)
        single = [0] if getattr(self, "n_features_in_", None) == 1 else None
        return [single if one.columns is None else one.columns for one in self._terms()] + [[]]

    @in_precision_of_rows
    def predict_parts(self, X: Any, *, center: Any = None) -> Floats:
        """Predict one function for each term of the kernel, where the kernel is a sum.

        With k = Σ_t k_t, the parts are Σ_j k_t(x, z_j) c_j for the same z_j and c_j. Terms are
        those of the outermost sum: a product of a sum is one term. A kernel that is no sum, a name
        or a function has one part. Constants that are terms go to the last column.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`predict`.
        center : items, optional
            Rows over which every part is to have mean 0; the constant takes their means. Of more
            than 1 000 rows as many are used, evenly spaced.

        Returns
        -------
        parts : array of shape (n_rows, n_terms + 1) or (n_rows, n_terms + 1, n_outputs)
            Columns in the order of ``part_names_``, in units of y; the last is the constant. They
            add up to :meth:`predict`.
        """
        return self._single_part(self._part_means(X, self._center_rows(center)))

    def _terms(self) -> list[Part]:
        """The terms of the kernel; a kernel that is not an object of scikit-learn is one."""
        if isinstance(self.kernel_, SklearnKernel):
            return parts_of(self.kernel_)
        name = self.kernel_ if isinstance(self.kernel_, str) else function_name(self.kernel_)
        return [Part(self.kernel_, name, None)]

    def _single_part(self, values: Floats) -> Floats:
        """Values without an axis for outputs, where the model was fitted to a vector."""
        return values[..., 0] if self._expansion().single else values

    def _center_rows(self, center: Any) -> Any:
        """At most 1 000 of the rows over which parts are to have mean 0."""
        check_is_fitted(self)
        if center is None:
            return None
        if reads_matrix(self):
            raise ValueError(
                "center takes rows, and kernel='precomputed' has none: leave it out, or fit with a "
                "callable kernel."
            )
        items = held(self, validate_items(self, center, reset=False))
        n = len_items(items)
        return take_items(items, np.unique(np.linspace(0, n - 1, min(n, _CENTER_ROWS), dtype=int)))

    def _part_means(self, X: Any, center: Any = None) -> Floats:
        """Values of the parts: shape (n_rows, n_terms + 1, n_outputs)."""
        check_is_fitted(self)
        expansion = self._expansion()
        coefficients = expansion.coefficients
        rows, items = prediction_rows(self, X)
        kernels = self._compiled_terms(items)
        terms = self._term_values(rows, kernels, coefficients)
        constant = expansion.offset + self._constant() * coefficients.sum(axis=0)
        values = np.concatenate([terms, np.tile(constant, (rows.n_rows, 1, 1))], axis=1)
        if center is not None and len(kernels):
            means = self._term_values(as_rows(center), kernels, coefficients).mean(axis=0)
            values[:, :-1] -= means
            values[:, -1] += means.sum(axis=0)
        return values

    def _term_values(
        self, rows: RowSource, kernels: list[CountingKernel], coefficients: Floats
    ) -> Floats:
        """Values of the terms: shape (n_rows, n_terms, n_outputs)."""
        values = np.zeros((rows.n_rows, len(kernels), coefficients.shape[1]))
        if len(coefficients):
            with Workers(self.n_jobs) as workers:
                for t, kernel in enumerate(kernels):
                    values[:, t] = kernel_times(rows, kernel, self._points, coefficients, workers)
        return values

    def _compiled_terms(self, items: Any) -> list[CountingKernel]:
        return [self._compile(part.kernel, items)[0] for part in self._terms()]

    def _constant(self) -> float:
        """Sum of the constant terms of the kernel."""
        if not isinstance(self.kernel_, SklearnKernel):
            return 0.0
        constants = [term for term in terms_of(self.kernel_) if is_constant(term)]
        return float(sum(term.diag(np.zeros((1, 1)))[0] for term in constants))


class PartsOfProcess(PartsModel):
    """The parts of a Gaussian process, which have standard deviations."""

    _scale: TargetScale

    @in_precision_of_rows
    def predict_parts(self, X: Any, return_std: bool = False, *, center: Any = None) -> Any:
        """Predict one function for each term of the kernel, where the kernel is a sum.

        The process with kernel k = Σ_t k_t is a sum of independent processes with kernels k_t, and
        these are their posterior means. Terms are those of the outermost sum: a product of a sum is
        one term. A kernel that is no sum, a name or a function has one part. White terms are noise
        and no part; constants that are terms go to the last column.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`predict`.
        return_std : bool, default False
            Also return the standard deviation of each part, without noise. Their squares do not add
            up to the variance of the sum, since the rows tell the sum better than its parts.
        center : items, optional
            Rows over which every part is to have mean 0; the constant takes their means. The level
            of a part is often known much worse than its shape, since another part could have it:
            standard deviations are then those of the part less its mean. Of more than 1 000 rows as
            many are used, evenly spaced.

        Returns
        -------
        parts : array of shape (n_rows, n_terms + 1) or (n_rows, n_terms + 1, n_outputs)
            Columns in the order of ``part_names_``, in units of y; the last is the constant. They
            add up to :meth:`predict`.
        std : array of the same shape, if ``return_std``
            0 for the constant.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
        >>> from pursuit import SparseGPRegressor, on_columns
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(200, 2))
        >>> y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=200)
        >>> kernel = on_columns(RBF(), [0]) + on_columns(RBF(), [1]) + WhiteKernel()
        >>> model = SparseGPRegressor(kernel, random_state=0).fit(X, y)
        >>> model.part_names_
        ['RBF(x0)', 'RBF(x1)', 'constant']
        >>> parts, std = model.predict_parts(X, return_std=True)
        >>> bool(np.allclose(parts.sum(axis=1), model.predict(X)))
        True
        """
        rows = self._center_rows(center)
        means = self._single_part(self._part_means(X, rows))
        if not return_std:
            return means
        if reads_matrix(self):
            raise ValueError(
                "return_std needs k(x, x), which a precomputed matrix of k(x, training rows) does "
                "not hold: fit with a callable kernel instead."
            )
        variances = self._part_variances(X, rows)
        nothing = np.zeros((len(variances), 1))
        std = np.sqrt(np.concatenate([variances, nothing], axis=1))
        return means, self._single_part(std[:, :, None] * self._scale.scale)

    def _part_variances(self, X: Any, center: Any) -> Floats:
        """Variances of the terms in normalised units, less their means over the rows ``center``."""
        raise NotImplementedError
