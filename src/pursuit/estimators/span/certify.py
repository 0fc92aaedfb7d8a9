"""Certificates of span models: lower bounds of every kind, from passes over the rows."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from pursuit._types import Floats, Indices
from pursuit.bounds import (
    Certificate,
    dense_lower_bound,
    hybrid_lower_bound,
    minimum_upper_bound,
    primal_value,
    scaled_lower_bound,
    shifted_lower_bound,
    sparse_dual_floor,
    sparse_lower_bound,
)
from pursuit.gram import kernel_product, kernel_times, kernel_transpose_times
from pursuit.greedy import MaxSize, Problem, Pursuit, solve_in_span
from pursuit.greedy.loop import Candidates
from pursuit.linalg import CGSolution, SpanSolution, conjugate_gradients
from pursuit.objectives import DiagonalPursuit, QuadraticPursuit, dual_pursuit
from pursuit.rows import draw_rows


def two_level_lower_bounds(
    problem: Problem, residuals: list[Floats], n_second: int
) -> list[Floats]:
    """The better of two bounds for each model, without any product with the full matrix.

    With K = VV' + E from n_second pivots, d = diag E and s = Σ√d, E is at most s·diag(√d), hence

        P_min ≥ ½σ² y'(VV' + σ²W⁻¹ + s·diag(√d))⁻¹y,

    the same for every model; and v'Kv ≤ ‖V'v‖² + (Σ|v_i|√d_i)² bounds the scaled dual point of
    each model from below. O(m n_second²) time, O(m n_second) memory.
    """
    sample, noise = problem.sample, problem.noise
    n_second = min(n_second, sample.n_rows)
    objective = DiagonalPursuit(
        sample.rows, problem.kernel, capacity=n_second, workers=problem.workers
    )
    Pursuit(objective, problem.meter).run([MaxSize(n_second)])
    V = objective.factor.rows
    roots = np.sqrt(np.maximum(objective.factor.residual, 0.0))
    y, w = sample.targets, sample.weights[:, None]
    diagonal = noise / sample.weights + roots.sum() * roots
    scaled = V / diagonal
    inner = scaled @ V.T
    inner[np.diag_indices_from(inner)] += 1.0
    right = scaled @ y
    explained = np.einsum("io,io->o", right, cho_solve(cho_factor(inner), right))
    norms = ((y**2) / diagonal[:, None]).sum(axis=0)
    shifted = shifted_lower_bound(noise * norms, noise * explained)
    bounds = []
    for residual in residuals:
        v = w * residual / noise
        quadratic = (
            ((V @ v) ** 2).sum(axis=0)
            + (roots @ np.abs(v)) ** 2
            + noise * np.einsum("io,io->o", v, v / w)
        )
        linear = np.einsum("io,io->o", y, v)
        bounds.append(np.maximum(shifted, scaled_lower_bound(linear, quadratic, noise)))
    return bounds


KINDS = ("published", "dense", "scaled", "hybrid", "two-level", "pcg")
ALL_ROWS_DUAL = 10_000
"""Up to this many rows SB01's second pursuit looks at all of them; beyond, at a pool."""


_EXACT_STEPS, _EXACT_TOL = 500, 1e-8
_OPTIONS = {"pcg": {"steps"}, "two-level": {"n_second"}}


def check_kind(kind: str, options: dict[str, int]) -> None:
    """Refuse an unknown kind, and options that it does not have."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}.")
    for name, value in options.items():
        if name not in _OPTIONS.get(kind, set()):
            owners = [owner for owner, names in _OPTIONS.items() if name in names]
            belongs = f"belongs to kind={owners[0]!r}" if owners else "is not an option"
            raise TypeError(f"certify got {name}={value!r} with kind={kind!r}: {name} {belongs}.")
        if not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(f"{name} must be a positive whole number, got {value!r}.")


@dataclass(frozen=True, eq=False)
class Model:
    """f = Σ_j β_j k(·, z_j): all that a certificate needs to know.

    Attributes
    ----------
    points : items
        z_j.
    coefficients : array of shape (n_points, n_outputs)
        β.
    squared_norms : array of shape (n_outputs,)
        ‖f‖².
    solution : SpanSolution, optional
        The factors of this basis, from the rows that are certified or from others.
    value : array of shape (n_outputs,), optional
        P(f), where it is known already: then the factors are those of the rows certified.
    """

    points: Any
    coefficients: Floats
    squared_norms: Floats
    solution: SpanSolution | None = None
    value: Floats | None = None

    def __len__(self) -> int:
        return len(self.coefficients)


class SecondPursuit:
    """SB01's pursuit on Q*: its n-th step gives a dual point on n rows S* (Formulas §2)."""

    def __init__(self, pursuit: Pursuit, objective: QuadraticPursuit, rows: Indices) -> None:
        self.pursuit = pursuit
        self._objective, self._rows = objective, rows

    def lower_bound(self, n: int, noise: float) -> Floats:
        """D of the best dual point on the first n rows of S*."""
        return sparse_lower_bound(self._objective.z[:n], noise)

    @property
    def chosen(self) -> Indices:
        """S*, as row numbers."""
        return self._rows[self._objective.chosen]

    def look_beyond(self, y: Floats, v: Floats, Av: Floats) -> None:
        """Let further steps choose rows for what v, too, leaves unexplained."""
        for output, (linear, square) in enumerate(zip(_dots(y, v), _dots(v, Av), strict=True)):
            column = np.ascontiguousarray(Av[self._rows, output])
            self._objective.account_for(output, column, float(square), float(linear))

    def hybrid_lower_bound(self, noise: float, y: Floats, v: Floats, Av: Floats) -> Floats:
        """D of the best point in the span of v and the rows S*."""
        border = solve_triangular(self._objective.factor.triangle(), Av[self.chosen], lower=True)
        # Not -½‖z‖² of the pursuit's own steps: its gradient may have been told of other points.
        z = solve_triangular(self._objective.factor.triangle(), y[self.chosen], lower=True)
        return hybrid_lower_bound(_dots(y, v), _dots(v, Av), border, z, noise)


@dataclass(frozen=True)
class Certifier:
    """Bounds the distance of models from the minimum of ½Σw(y - f)² + ½σ²‖f‖².

    In formulas A = K + σ²W⁻¹.
    """

    problem: Problem

    def certify(
        self,
        models: list[Model],
        kind: str,
        *,
        steps: int = 5,
        n_second: int | None = None,
        after_block: Callable[[int], None] | None = None,
    ) -> list[Certificate]:
        """One certificate per model, all of them from the same passes.

        The models' points must be the first ones of the largest model's.
        """
        largest = max(models, key=len)
        minimum_upper = None
        if kind == "published":
            second = self.second_pursuit(len(largest))
            second.pursuit.run([MaxSize(len(largest))])
            lowers = [second.lower_bound(len(model), self.problem.noise) for model in models]
            uppers = [model.value for model in models if model.value is not None]
            if len(uppers) < len(models):
                uppers = self._values(models, self._residuals(models))
        else:
            residuals = self._residuals(models)
            uppers = self._values(models, residuals)
            if kind == "two-level":
                lowers = two_level_lower_bounds(
                    self.problem, residuals, n_second or 4 * len(largest)
                )
            else:
                lowers, point = self._lower_bounds(models, residuals, kind, steps, after_block)
                minimum_upper = self.minimum_upper(largest, *point)
        norms = self.problem.sample.target_norms()
        return [
            Certificate(upper, lower, norms, kind, minimum_upper_per_output=minimum_upper)
            for upper, lower in zip(uppers, lowers, strict=True)
        ]

    def published_floor(self, model: Model, sizes: Indices) -> Floats:
        """The least that the published gap of each size can be, from the exact residuals."""
        second = self.second_pursuit(len(model))
        second.pursuit.run([MaxSize(len(model))])
        start = self.dual_points([model], self._residuals([model]))[0]
        v, _ = self.improve(model, *start, steps=_EXACT_STEPS, tol=_EXACT_TOL)
        squares = (self.problem.noise**2 * v**2).sum(axis=1) / self.problem.sample.weights
        return sparse_dual_floor(squares, second.chosen, sizes)

    def second_pursuit(
        self,
        capacity: int,
        candidates: Candidates | None = None,
        leftover: Floats | None = None,
    ) -> SecondPursuit:
        """A pursuit on Q*, over all rows or, of many, a pool; nothing is chosen yet.

        Half of a pool are the rows where ``leftover``, what another dual point leaves unexplained,
        is largest; the others are drawn at random.
        """
        sample, rows = self.problem.sample, np.arange(self.problem.sample.n_rows)
        if candidates is None and sample.n_rows > ALL_ROWS_DUAL:
            size = 2 * capacity + 1000
            rows = draw_rows(sample.n_rows, size, self.problem.rng)
            if leftover is not None:
                worst = np.argsort(-((leftover**2).sum(axis=1) * sample.weights))[: size // 2]
                rows = np.union1d(rows[::2], worst)
            sample = sample.take(rows)
        objective = dual_pursuit(
            sample.rows,
            sample.targets,
            sample.weights,
            self.problem.kernel,
            self.problem.noise,
            capacity=capacity,
            workers=self.problem.workers,
        )
        pursuit = Pursuit(objective, self.problem.meter, candidates=candidates)
        return SecondPursuit(pursuit, objective, rows)

    def dual_points(
        self,
        models: list[Model],
        residuals: list[Floats],
        after_block: Callable[[int], None] | None = None,
    ) -> list[tuple[Floats, Floats]]:
        """v = Wr/σ² and Av, one pair per model."""
        w = self.problem.sample.weights[:, None]
        stacked = w * np.hstack(residuals) / self.problem.noise
        products = self._product(stacked, after_block)
        return list(
            zip(np.hsplit(stacked, len(models)), np.hsplit(products, len(models)), strict=True)
        )

    def improve(
        self, model: Model, v: Floats, Av: Floats, steps: int, tol: float = 0.0
    ) -> tuple[Floats, Floats]:
        """Take conjugate-gradient steps on Av = y from v, preconditioned by the model's basis."""
        points, solution = model.points, model.solution
        if solution is None or model.value is None:
            # Factors from other rows might make the preconditioner indefinite.
            points, solution = solve_in_span(self.problem, points)
        rows, w = self.problem.sample.rows, self.problem.sample.weights[:, None]
        kernel, workers = self.problem.kernel, self.problem.workers

        def precondition(residual: Floats) -> Floats:
            """(VV' + σ²W⁻¹)⁻¹ρ = (Wρ - WV(LL')⁻¹V'Wρ)/σ²."""
            cross = kernel_transpose_times(rows, kernel, points, w * residual, workers)
            inner, _ = solution.solve_inner(cross)
            fitted = kernel_times(rows, kernel, points, inner, workers)
            return w * (residual - fitted) / self.problem.noise

        y = self.problem.sample.targets
        start = CGSolution(v, y - Av, 0)
        found = conjugate_gradients(self._product, y, start, precondition, steps=steps, tol=tol)
        return found.v, y - found.residual

    def minimum_upper(self, model: Model, v: Floats, Av: Floats) -> Floats:
        """An upper bound on P_min from v and Av; factors from other rows only make it weaker."""
        points, solution = model.points, model.solution
        if solution is None:
            points, solution = solve_in_span(self.problem, points)
        sample, noise = self.problem.sample, self.problem.noise
        kernel, workers = self.problem.kernel, self.problem.workers
        rho = sample.targets - Av
        cross = kernel_transpose_times(
            sample.rows, kernel, points, sample.weights[:, None] * rho, workers
        )
        inner, squares = solution.solve_inner(cross)
        rho -= kernel_times(sample.rows, kernel, points, inner, workers)
        leftover = primal_value(sample.weights @ rho**2, squares, noise)
        return minimum_upper_bound(_dots(sample.targets, v), _dots(v, Av), leftover, noise)

    def _lower_bounds(
        self,
        models: list[Model],
        residuals: list[Floats],
        kind: str,
        steps: int,
        after_block: Callable[[int], None] | None,
    ) -> tuple[list[Floats], tuple[Floats, Floats]]:
        """Lower bounds from dense dual points v, and v with Av of the largest model."""
        y, largest = self.problem.sample.targets, max(models, key=len)
        points = self.dual_points(models, residuals, after_block)
        if kind == "pcg":
            v, Av = points[models.index(largest)]
            points = [self.improve(largest, v, Av, steps)] * len(models)
        if kind == "dense":
            lowers = [
                dense_lower_bound(_dots(y, v), _dots(v, Av), self.problem.noise) for v, Av in points
            ]
        elif kind == "scaled":
            lowers = [
                scaled_lower_bound(_dots(y, v), _dots(v, Av), self.problem.noise)
                for v, Av in points
            ]
        else:
            v, Av = points[models.index(largest)]
            second = self.second_pursuit(len(largest), leftover=y - Av)
            # For many rows, further columns would cost more than they add to the product with K.
            few = self.problem.sample.n_rows > ALL_ROWS_DUAL
            n = max(len(largest) // 4, 1) if few else len(largest)
            second.pursuit.run([MaxSize(n)])
            second.look_beyond(y, v, Av)
            second.pursuit.run([MaxSize(2 * n)])
            lowers = [second.hybrid_lower_bound(self.problem.noise, y, v, Av) for v, Av in points]
        return lowers, points[models.index(largest)]

    def _product(self, vectors: Floats, after_block: Callable[[int], None] | None = None) -> Floats:
        """A @ vectors."""
        self.problem.meter.passes += 1
        w = self.problem.sample.weights[:, None]
        product = kernel_product(
            self.problem.sample.rows,
            self.problem.kernel,
            vectors,
            self.problem.workers,
            after_block,
        )
        return product + self.problem.noise * vectors / w

    def _values(self, models: list[Model], residuals: list[Floats]) -> list[Floats]:
        return [
            primal_value(
                self.problem.sample.weights @ r**2, model.squared_norms, self.problem.noise
            )
            for r, model in zip(residuals, models, strict=True)
        ]

    def _residuals(self, models: list[Model]) -> list[Floats]:
        """Return y - f on all rows."""
        largest = max(models, key=len)
        padded = [np.pad(m.coefficients, ((0, len(largest) - len(m)), (0, 0))) for m in models]
        fitted = kernel_times(
            self.problem.sample.rows,
            self.problem.kernel,
            largest.points,
            np.hstack(padded),
            self.problem.workers,
        )
        self.problem.meter.passes += 1
        return [self.problem.sample.targets - f for f in np.hsplit(fitted, len(models))]


def _dots(a: Floats, b: Floats) -> Floats:
    products: Floats = np.einsum("io,io->o", a, b)
    return products
