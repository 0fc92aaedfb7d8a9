"""Functions drawn from the posterior, by Matheron's rule: a draw of the prior, corrected by data.

A draw of the prior is g = φ·w with random features φ and normal w (`kernels/random_features.py`).
What the model knows is added, and what g says about the same is taken away (Wilson et al. 2020,
"Efficiently sampling functions from Gaussian process posteriors", equation 13). A draw is a fixed
set of numbers: it has a value anywhere, and the same one whenever it is asked for.
"""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Protocol, overload

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.estimators.inputs import prediction_rows, reads_matrix
from pursuit.estimators.scales import in_range
from pursuit.gram import TileTask, row_pass
from pursuit.kernels import (
    BoundKernel,
    CountingKernel,
    Kernel,
    NoFunctionsError,
    RandomFeatures,
    random_features,
)
from pursuit.linalg import PredictiveVariance, SpanSolution, Workers

GROUP = 16
"""Draws that share random features. With fewer, the covariance of many draws has less error, and
evaluating them takes more cosines."""

_ROWS = 256
"""Rows that are evaluated at a time."""


@dataclass(frozen=True, eq=False)
class PriorDraws:
    """Functions g = φ·w of the prior.

    Attributes
    ----------
    features : list of RandomFeatures
        φ, one for each group of functions.
    weights : list of arrays of shape (n_features, n_functions)
        w of the functions of each group.
    """

    features: list[RandomFeatures]
    weights: list[Floats]

    @classmethod
    def draw(
        cls, kernel: Kernel, n_columns: int, sizes: list[int], n_features: int, rng: Any
    ) -> PriorDraws:
        """Groups of functions of these sizes, each with features of its own."""
        features, weights = [], []
        for size, own in zip(sizes, rng.spawn(len(sizes)), strict=True):
            phi = random_features(kernel, n_columns, n_features, own)
            features.append(phi)
            weights.append(own.standard_normal((size, phi.n_features)).T)
        return cls(features, weights)

    def __call__(self, items: Any) -> Floats:
        """Values at the items: one column per function."""
        parts = [phi(items) @ w for phi, w in zip(self.features, self.weights, strict=True)]
        return np.hstack(parts)

    def taken(self, functions: Indices) -> PriorDraws:
        """Some of the functions, in this order."""
        ends = np.cumsum([w.shape[1] for w in self.weights])
        features, weights = [], []
        groups = np.searchsorted(ends, functions, side="right")
        for group, members in groupby(zip(groups, functions, strict=True), lambda pair: pair[0]):
            first = ends[group] - self.weights[group].shape[1]
            features.append(self.features[group])
            weights.append(self.weights[group][:, [number - first for _, number in members]])
        return PriorDraws(features, weights)


class Update(Protocol):
    """How data turn functions of the prior into functions of the posterior."""

    def __call__(self, values: Floats, tile: Floats, prior: Floats) -> Floats:
        """Values of the posterior from those of the prior, k(x, points) and k(x, x)."""
        ...

    def taken(self, functions: Indices) -> Update:
        """That of some of the functions."""
        ...


@dataclass(frozen=True, eq=False)
class SpanUpdate(Update):
    """f = V_x'u + √c(x) (g - V_x'R⁻¹g_S), in the span of a basis S.

    u is a draw of the coordinates that the rows have left uncertain. What is outside of the span is
    as uncertain as before, times the factor c of `PredictiveVariance`, to which error bars are
    calibrated.

    Attributes
    ----------
    solution, spread
        Those of the model.
    known : array of shape (n_basis, n_functions)
        u.
    removed : array of shape (n_basis, n_functions)
        R⁻¹g_S.
    """

    solution: SpanSolution
    spread: PredictiveVariance
    known: Floats
    removed: Floats

    @classmethod
    def draw(
        cls, solution: SpanSolution, spread: PredictiveVariance, at_basis: Floats, rng: Any
    ) -> SpanUpdate:
        """Draw u from its posterior, of mean L⁻ᵀz and covariance noise (LL')⁻¹."""
        n_functions, n_outputs = at_basis.shape[1], solution.z.shape[1]
        normal = rng.standard_normal((n_functions, solution.size)).T
        rotated = np.tile(solution.z, n_functions // n_outputs) + np.sqrt(spread.noise) * normal
        known = SpanSolution(solution.R, solution.L, rotated, solution.noise).coordinates()
        return cls(solution, spread, known, solution.features(at_basis.T))

    def __call__(self, values: Floats, tile: Floats, prior: Floats) -> Floats:
        """Values of f."""
        V = self.solution.features(tile)
        missed = np.maximum(prior - np.einsum("ij,ij->j", V, V), 0.0)
        values -= V.T @ self.removed
        values *= np.sqrt(self.spread.factor(missed, prior))[:, None]
        values += V.T @ self.known
        return values

    def taken(self, functions: Indices) -> SpanUpdate:
        """That of some of the functions."""
        known, removed = self.known[:, functions], self.removed[:, functions]
        return SpanUpdate(self.solution, self.spread, known, removed)


@dataclass(frozen=True, eq=False)
class RowsUpdate(Update):
    """f = g + k(x, rows) v with v = (K + σ²W⁻¹)⁻¹(y - g - noise)."""

    coefficients: Floats

    def __call__(self, values: Floats, tile: Floats, prior: Floats) -> Floats:
        """Values of f."""
        values += tile @ self.coefficients
        return values

    def taken(self, functions: Indices) -> RowsUpdate:
        """That of some of the functions."""
        return RowsUpdate(self.coefficients[:, functions])


@dataclass(frozen=True, eq=False)
class FunctionDraws(Sequence["DrawnFunction"]):
    """Functions drawn from the posterior of a model: what ``sample_functions`` returns.

    A sequence of callables. Called itself, it evaluates all of them at once.

    Attributes
    ----------
    model : estimator
        The model as it was, for its rows and units.
    kernel : Kernel
        Its kernel as tiles.
    points : items
        Basis points or training rows.
    prior : PriorDraws
        The functions before the update, output by output.
    update : Update
        What the data say.
    """

    model: Any
    kernel: Kernel
    points: Any
    prior: PriorDraws
    update: Update

    @property
    def _n_outputs(self) -> int:
        return len(self.model._scale.mean)

    def __len__(self) -> int:
        functions = [int(w.shape[1]) for w in self.prior.weights]
        return sum(functions) // self._n_outputs

    @overload
    def __getitem__(self, index: int) -> DrawnFunction: ...
    @overload
    def __getitem__(self, index: slice) -> FunctionDraws: ...
    def __getitem__(self, index: int | slice) -> DrawnFunction | FunctionDraws:
        chosen = np.arange(len(self))[index]
        functions = np.add.outer(
            np.atleast_1d(chosen) * self._n_outputs, np.arange(self._n_outputs)
        )
        some = FunctionDraws(
            self.model,
            self.kernel,
            self.points,
            self.prior.taken(functions.ravel()),
            self.update.taken(functions.ravel()),
        )
        return some if isinstance(index, slice) else DrawnFunction(some)

    def __repr__(self) -> str:
        return f"<{len(self)} functions drawn from {type(self.model).__name__}>"

    def __call__(self, X: Any) -> Floats:
        """Values of all functions, in units of y.

        Parameters
        ----------
        X : items of n_rows rows
            As in ``predict``.

        Returns
        -------
        values : array of shape (n_rows, n) or (n_rows, n_outputs, n)
        """
        return sampled_functions(self.model, self, X)

    def _values(self, X: Any) -> Floats:
        rows, _ = prediction_rows(self.model, X)
        part = partial(_values, self.kernel, self.prior, self.update)
        task = TileTask(part, (self.points,), _ROWS, np.concatenate)
        out = np.empty((rows.n_rows, len(self) * self._n_outputs))
        with Workers(self.model.n_jobs) as workers:
            values = row_pass(rows, self.kernel, task, workers, out=out)
        values = values.reshape(rows.n_rows, -1, self._n_outputs)
        values *= self.model._scale.scale
        values += self.model._scale.mean
        return values[:, :, 0] if self.model._single_output else values.swapaxes(1, 2)


def _values(
    kernel: Kernel, prior: PriorDraws, update: Update, bound: BoundKernel, items: Any
) -> Floats:
    return update(prior(items), bound(items), kernel.diag(items))


@dataclass(frozen=True, eq=False)
class DrawnFunction:
    """One function drawn from the posterior."""

    draws: FunctionDraws

    def __repr__(self) -> str:
        return f"<function drawn from {type(self.draws.model).__name__}>"

    def __call__(self, X: Any) -> Floats:
        """Values of the function, in units of y.

        Parameters
        ----------
        X : items of n_rows rows
            As in ``predict``.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_outputs)
        """
        return self.draws(X)[..., 0]


@in_range
def sampled_functions(self: Any, functions: FunctionDraws, X: Any) -> Floats:
    """Values of functions drawn from a model; where they overflow, its parameters are named."""
    return functions._values(X)


def drawn_prior(
    model: Any, kernel: Kernel, n: int, n_features: int, random_state: Any
) -> tuple[PriorDraws, np.random.Generator]:
    """n functions of the prior for every output of a fitted model, and further random numbers."""
    for name, number in (("n", n), ("n_features", n_features)):
        if not isinstance(number, numbers.Integral) or number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}.")
    seed = check_random_state(random_state).randint(2**31 - 1, size=4)
    prior_rng, rng = np.random.default_rng(seed).spawn(2)
    n_outputs = len(model._scale.mean)
    sizes = [min(GROUP, n - start) * n_outputs for start in range(0, n, GROUP)]
    n_columns = getattr(model, "n_features_in_", 0)
    return PriorDraws.draw(kernel, n_columns, sizes, n_features, prior_rng), rng


def kernel_of_draws(model: Any, points: Any) -> CountingKernel:
    """The kernel of a fitted model as tiles, or an error if it is a matrix."""
    if reads_matrix(model):
        raise NoFunctionsError(
            "kernel='precomputed' says nothing about points that are not in the matrix: fit with a "
            "kernel object to draw functions."
        )
    kernel: CountingKernel = model._compiled(points)
    return kernel


def span_draws(model: Any, n: int, n_features: int, random_state: Any) -> FunctionDraws:
    """Draws of a model in the span of its basis."""
    check_is_fitted(model)
    kernel = kernel_of_draws(model, model.basis_).kernel
    prior, rng = drawn_prior(model, kernel, n, n_features, random_state)
    update = SpanUpdate.draw(model._factors, model._spread, prior(model.basis_), rng)
    return FunctionDraws(copy.copy(model), kernel, model.basis_, prior, update)


def rows_draws(
    model: Any,
    solve: Callable[[Floats, CountingKernel], Floats],
    n: int,
    n_features: int,
    random_state: Any,
) -> FunctionDraws:
    """Draws of the exact process of a model, where solve(y, kernel) is (K + σ²W⁻¹)⁻¹y."""
    check_is_fitted(model)
    rows, weights = model.X_train_, model._weights
    kernel = kernel_of_draws(model, rows)
    prior, rng = drawn_prior(model, kernel.kernel, n, n_features, random_state)
    at_rows = np.concatenate([prior(rows[some]) for some in Workers.slices(len(weights), _ROWS)])
    noise = rng.standard_normal(at_rows.shape[::-1]).T
    at_rows += np.sqrt(model.noise_ / weights)[:, None] * noise
    known = np.tile(model.dual_coef_.reshape(len(weights), -1), n)
    update = RowsUpdate(known - solve(at_rows, kernel))
    return FunctionDraws(copy.copy(model), kernel.kernel, rows, prior, update)
