"""Certificates of span models: lower bounds of every kind, from passes over the rows.

A factorisation or a pursuit only proposes points. What is certified is P of the coefficients that
the model has and D of a vector v, both evaluated at these very numbers, with bounds on the rounding
of every step: nothing else has to be exact.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.bounds import (
    Certificate,
    dense_lower_bound,
    hybrid_step,
    minimum_upper_bound,
    primal_value,
    scaled_lower_bound,
    sparse_dual_floor,
    sparse_lower_bound,
)
from pursuit.gram import (
    ItemArithmetic,
    RowArithmetic,
    kernel_product,
    kernel_times,
    kernel_transpose_times,
)
from pursuit.greedy import MaxSize, Problem, Pursuit, solve_in_span
from pursuit.greedy.loop import Candidates
from pursuit.linalg import (
    CGSolution,
    SpanSolution,
    Workers,
    conjugate_gradients,
    damped_cholesky,
    invert_lower,
)
from pursuit.objectives import DiagonalPursuit, QuadraticPursuit, dual_pursuit
from pursuit.rounding import UNIT, Rounded, dots, gamma, highest, weight
from pursuit.rounding import sizes as upper_sizes
from pursuit.rows import Sample, draw_rows, len_items, row_groups

KINDS = ("published", "dense", "scaled", "hybrid", "grouped", "two-level", "pcg")
ALL_ROWS_DUAL = 10_000
"""Up to this many rows SB01's second pursuit looks at all of them; beyond, at a pool."""
ALL_ROWS_BESIDE = limits.SMALL_ROWS
"""The same for a pursuit that improves what a product with K gives. At 9 000 rows all of them would
take twenty times as long, as long as the fit itself, for a gap that is at most a third smaller;
five steps of ``"pcg"`` gain that for a fraction of the time."""


_EXACT_STEPS, _EXACT_TOL = 500, 1e-8
_PIVOT_DOUBTS = 0.25, 1e-5
"""How much of a direction rounding may leave open where two levels take it in: each is tried."""
_OPTIONS = {"pcg": {"steps"}, "two-level": {"n_second"}, "grouped": {"group_rows"}}
_ROWS_FOR_THREADS = 512
"""Groups of fewer rows take turns: threads would wait for one another longer than they compute."""
_GROUP_ROWS = 256, 512, 768
"""Sizes of groups of rows that are tried. A row costs the square of its group's size: 400 000 rows
in groups of 768 take three tenths of the time of a fit of 512 functions, kernel learned."""
_SHUFFLED_ROWS = 1 << 17
"""Rows that are held, and drawn from, at a time. Fewer: groups of sorted rows are less alike."""
_TRIED_GROUPS = 2
"""Groups that are computed to foresee what all of them give."""
_TRIED_ROWS = 512
"""Rows from which v'Kv is estimated before it is computed."""
_LITTLE, _MUCH = 0.1, 0.5
"""Lower bounds, as shares of P(f). One below the first is not worth more than the published one;
for one above the second, groups are not made larger."""
_ROWS_THAT_PAY = 160_000
"""A product with K should prove at least m over this of P(f): its time grows as m², that of a fit
as m. Smaller: fewer products, and looser certificates."""


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
    solution : SpanSolution, optional
        The factors of this basis, from the rows that are certified or from others.
    same_rows : bool
        Whether the factors are those of the rows that are certified.
    """

    points: Any
    coefficients: Floats
    solution: SpanSolution | None = None
    same_rows: bool = False

    def __len__(self) -> int:
        return len(self.coefficients)


@dataclass(frozen=True)
class DualPoint:
    """A vector v per output, and Av as computed, with its error."""

    v: Floats
    Av: Rounded


class SecondPursuit:
    """SB01's pursuit on Q*: its n-th step gives a dual point on n rows S* (Formulas §2)."""

    def __init__(
        self, problem: Problem, pursuit: Pursuit, objective: QuadraticPursuit, rows: Indices
    ) -> None:
        self.pursuit = pursuit
        self._problem, self._objective, self._rows = problem, objective, rows

    def expected_bound(self, n: int) -> float:
        """D of the best dual point on the first n rows of S*, but for rounding."""
        return float(sparse_lower_bound(self._objective.z[:n], self._problem.noise).sum())

    @property
    def chosen(self) -> Indices:
        """S*, as row numbers."""
        return self._rows[self._objective.chosen]

    def look_beyond(self, y: Floats, v: Floats, Av: Floats) -> None:
        """Let further steps choose rows for what v, too, leaves unexplained."""
        squares = np.einsum("io,io->o", v, Av)
        for output, (linear, square) in enumerate(zip((y * v).sum(axis=0), squares, strict=True)):
            column = np.ascontiguousarray(Av[self._rows, output])
            self._objective.account_for(output, column, float(square), float(linear))

    def system(self, arithmetic: RowArithmetic) -> StarSystem:
        """What dual points on the rows chosen so far are evaluated with."""
        chosen, sample = self.chosen, self._problem.sample
        triangle = self._objective.factor.triangle()
        return StarSystem(
            chosen,
            arithmetic.among(sample.rows.take(chosen)),
            triangle,
            # Not that of the pursuit's own steps: its gradient may have been told of other points.
            solve_triangular(triangle, sample.targets[chosen], lower=True),
            sample.targets[chosen],
            sample.weights[chosen, None],
            self._problem.noise,
        )


@dataclass(frozen=True)
class StarSystem:
    """A_S*S* = CC' = K_S*S* + σ²W_S*⁻¹, and dual points that are 0 on other rows.

    Attributes
    ----------
    rows : array of int
        S*.
    items : ItemArithmetic
        The same, as points.
    C, z : arrays of shape (n, n) and (n, n_outputs)
        C and C⁻¹y_S*.
    targets, weights : arrays of shape (n, n_outputs) and (n, 1)
        y_S* and w_S*.
    noise : float
        σ².
    """

    rows: Indices
    items: ItemArithmetic
    C: Floats
    z: Floats
    targets: Floats
    weights: Floats
    noise: float

    @classmethod
    def factored(
        cls, rows: Indices, items: ItemArithmetic, sample: Sample, noise: float, out: Floats
    ) -> StarSystem:
        """That of rows of a sample, for another noise; C is stored in ``out``."""
        targets, weights = sample.targets[rows], sample.weights[rows, None]
        beside, ridge = len(rows) >= _ROWS_FOR_THREADS, noise / weights[:, 0]
        C = damped_cholesky(items.K, diagonal=ridge, out=out, beside_others=beside)
        z = solve_triangular(C, targets, lower=True, check_finite=False)
        return cls(rows, items, C, z, targets, weights, noise)

    def lower_bound(self, n: int) -> Rounded:
        """D of the best dual point on the first n rows, wherever rounding has put it."""
        n = min(n, len(self.rows))
        C, z = self.C[:n, :n], self.z[:n]
        u = solve_triangular(C, z, lower=True, trans="T", check_finite=False)
        linear, quadratic = self._moments(u)
        return scaled_lower_bound(linear, quadratic, self.noise)

    def hybrid_lower_bound(self, y: Floats, point: DualPoint) -> Rounded:
        """D of the best point in the span of v and the rows S*."""
        v, Av = point.v, point.Av
        linear, quadratic = dots(y, v), dots(v, Av)
        border = solve_triangular(self.C, Av.value[self.rows], lower=True)
        step = hybrid_step(linear.value, quadratic.value, border, self.z)
        u = solve_triangular(self.C, self.z - border * step, lower=True, trans="T")
        own_linear, own_quadratic = self._moments(u)
        mixed = dots(u, Av[self.rows])
        together = scaled_lower_bound(
            step * linear + own_linear,
            step * (step * quadratic) + 2.0 * (step * mixed) + own_quadratic,
            self.noise,
        )
        alone = scaled_lower_bound(linear, quadratic, self.noise)
        return highest([together, alone, self.lower_bound(len(self.rows))])

    def _moments(self, u: Floats) -> tuple[Rounded, Rounded]:
        """Return y'u and u'Au for u on the first rows of S*."""
        n = len(u)
        noisy = self.noise * (Rounded.of(u) / self.weights[:n])
        Au = self.items.first(n).products(u) + noisy
        return dots(self.targets[:n], u), dots(u, Au)


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
        group_rows: int | None = None,
        product: bool = True,
        second: SecondPursuit | None = None,
        after_block: Callable[[int], None] | None = None,
    ) -> list[Certificate]:
        """One certificate per model, all of them from the same passes.

        The models' points must be the first ones of the largest model's. ``second`` is a pursuit
        on Q* that has run, for the published kind. The kind ``"auto"`` is the hybrid one, where
        ``product`` allows a product with K and it should pay, else the grouped one, where that
        should, else the published one.
        """
        largest = max(models, key=len)
        residuals, squared_norms = self._evaluate(models)
        uppers = [self._value(*both) for both in zip(residuals, squared_norms, strict=True)]
        minimum_upper, at = None, models.index(largest)
        value = float(uppers[at].value.sum())
        if kind == "auto":
            kind, group_rows = self._affordable(residuals[at], value, product)
        if kind == "published":
            if second is None:
                second = self.second_pursuit(len(largest))
                second.pursuit.run([MaxSize(len(largest))])
            system = second.system(self.arithmetic)
            lowers = [system.lower_bound(len(model)) for model in models]
        elif kind == "two-level":
            lowers = self._two_level(residuals, n_second or 4 * len(largest))
        elif kind == "grouped":
            size = group_rows or self._group_rows(value)[0]
            lowers = [self.grouped_lower_bound(size)] * len(models)
        else:
            lowers, point = self._lower_bounds(models, residuals, kind, steps, after_block)
            minimum_upper = self.minimum_upper(largest, point)
        return [
            self.certificate(upper, lower, kind, minimum_upper)
            for upper, lower in zip(uppers, lowers, strict=True)
        ]

    def certificate(
        self, upper: Rounded, lower: Rounded, kind: str, minimum_upper: Rounded | None = None
    ) -> Certificate:
        """The certificate of values for this problem."""
        noise = self.problem.noise
        remedy = (
            f"a noise of {noise:.3g} is below what float64 resolves for this kernel and these "
            "rows: raise the noise, centre the features or lengthen the scales"
            if np.isfinite(self.arithmetic.error.share)
            else "this kernel is not positive semi-definite, or the rounding of its values is not "
            "known: choose another one"
        )
        return Certificate.proved(
            upper,
            lower,
            self.problem.sample.target_norms(),
            kind,
            minimum_upper=minimum_upper,
            remedy=remedy,
        )

    @cached_property
    def arithmetic(self) -> RowArithmetic:
        """Products with the rows, and their rounding."""
        problem = self.problem
        return RowArithmetic.of(problem.sample.rows, problem.kernel, problem.workers)

    def published_floor(self, model: Model, sizes: Indices) -> Floats:
        """The least that the published gap of each size can be, from the exact residuals."""
        second = self.second_pursuit(len(model))
        second.pursuit.run([MaxSize(len(model))])
        residuals, _ = self._evaluate([model])
        start = self.dual_points(residuals)[0]
        v = self.improve(model, start, steps=_EXACT_STEPS, tol=_EXACT_TOL)
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
        most = ALL_ROWS_DUAL if leftover is None else ALL_ROWS_BESIDE
        if candidates is None and sample.n_rows > most:
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
        return SecondPursuit(self.problem, pursuit, objective, rows)

    def dual_points(
        self, residuals: list[Rounded], after_block: Callable[[int], None] | None = None
    ) -> list[DualPoint]:
        """v = Wr/σ² and Av, one pair per model."""
        w = self.problem.sample.weights[:, None]
        vectors = [w * residual.value / self.problem.noise for residual in residuals]
        self.problem.meter.passes += 1
        products = self.arithmetic.product(np.hstack(vectors), after_block)
        width = vectors[0].shape[1]
        return [
            self._dual_point(v, products[:, i * width : (i + 1) * width])
            for i, v in enumerate(vectors)
        ]

    def improve(self, model: Model, start: DualPoint, steps: int, tol: float = 0.0) -> Floats:
        """Take conjugate-gradient steps on Av = y from v, preconditioned by the model's basis."""
        points, solution = model.points, model.solution
        if solution is None or not model.same_rows:
            # Factors from other rows might make the preconditioner indefinite.
            points, solution = solve_in_span(self.problem, points)
        rows, w = self.problem.sample.rows, self.problem.sample.weights[:, None]
        kernel, workers, noise = self.problem.kernel, self.problem.workers, self.problem.noise

        def precondition(residual: Floats) -> Floats:
            """(VV' + σ²W⁻¹)⁻¹ρ = (Wρ - WV(LL')⁻¹V'Wρ)/σ²."""
            cross = kernel_transpose_times(rows, kernel, points, w * residual, workers)
            inner, _ = solution.solve_inner(cross)
            fitted = kernel_times(rows, kernel, points, inner, workers)
            return w * (residual - fitted) / noise

        def product(vectors: Floats) -> Floats:
            self.problem.meter.passes += 1
            return kernel_product(rows, kernel, vectors, workers) + noise * vectors / w

        y = self.problem.sample.targets
        begin = CGSolution(start.v, y - start.Av.value, 0)
        found = conjugate_gradients(product, y, begin, precondition, steps=steps, tol=tol)
        return found.v

    def minimum_upper(self, model: Model, point: DualPoint) -> Rounded:
        """An upper bound on P_min from v and Av; factors from other rows only make it weaker."""
        points, solution = model.points, model.solution
        if solution is None:
            points, solution = solve_in_span(self.problem, points)
        sample = self.problem.sample
        rho = sample.targets - point.Av
        cross = kernel_transpose_times(
            sample.rows,
            self.problem.kernel,
            points,
            sample.weights[:, None] * rho.value,
            self.problem.workers,
        )
        inner, _ = solution.solve_inner(cross)
        items = self.arithmetic.among(points)
        left = rho - self.arithmetic.times(items, inner)
        leftover = self._value(left, items.squared_norms(inner))
        linear, quadratic = dots(sample.targets, point.v), dots(point.v, point.Av)
        return minimum_upper_bound(linear, quadratic, leftover, self.problem.noise)

    def grouped_lower_bound(self, size: int) -> Rounded:
        """Σ_g min over f of ½Σ_{i in g} w(y - f)² + ½c_gσ²‖f‖², or less, for groups g of rows.

        The shares c_g of the rows add up to 1, and a minimum of a sum is not below the sum of the
        minima, so that no kernel value between groups is needed. Every group pays for the function
        again: with p degrees of freedom of the full model the bound loses about G p of the m rows'
        noise. Each group should look like all rows: it is drawn from all that are read at a time.
        """
        sample, parts = self.problem.sample, list[Rounded]()
        self.problem.meter.passes += 1
        # Kept from group to group: to touch new memory takes a few per cent of the time.
        buffers, room = list[Floats](), min(size, sample.n_rows) ** 2
        for start, items in sample.rows.blocks(_SHUFFLED_ROWS):
            order = self.problem.rng.permutation(len_items(items))
            groups = np.array_split(order, -(-len(order) // size))

            def bound(group: Indices, start: int = start, items: Any = items) -> Rounded:
                buffer = buffers.pop() if buffers else np.empty((2, room))
                found = self._group_bound(start + group, items[group], buffer)
                buffers.append(buffer)
                return found

            threads = self.problem.workers if size >= _ROWS_FOR_THREADS else Workers(1)
            parts += threads.map(bound, groups)
        return Rounded(
            np.stack([part.value for part in parts]), np.stack([part.error for part in parts])
        ).sum()

    def _group_bound(self, rows: Indices, items: Any, buffer: Floats) -> Rounded:
        """The term of some rows, two matrices of which ``buffer`` has room for.

        It is not negative.
        """
        sample = self.problem.sample
        nothing = Rounded.of(np.zeros(sample.targets.shape[1]))
        # Three roundings upwards are less than this one downwards, so that the shares add up to 1
        # at most; of numbers that underflow nothing of the kind is known.
        noise = self.problem.noise * (len(rows) / sample.n_rows) * (1.0 - 8.0 * UNIT)
        if noise < np.finfo(np.float64).tiny:
            return nothing
        n = len(rows)
        K, C = buffer[:, : n * n].reshape(2, n, n)
        try:
            known = self.arithmetic.among(items, out=K)
            system = StarSystem.factored(rows, known, sample, noise, out=C.T)
        except ArithmeticError:
            return nothing
        return highest([system.lower_bound(n), nothing])

    @cached_property
    def _tried(self) -> Indices:
        """Rows for estimates, in random order."""
        size = max(_TRIED_ROWS, _TRIED_GROUPS * max(_GROUP_ROWS))
        rng = self.problem.rng
        return rng.permutation(draw_rows(self.problem.sample.n_rows, size, rng))

    def _group_rows(self, value: float) -> tuple[int, float]:
        """The least size of groups whose bound is half of ``value``, or the largest; and the bound.

        What a few groups give is taken for what all of them would.
        """
        sample, expected, size = self.problem.sample, 0.0, _GROUP_ROWS[0]
        buffer = np.empty((2, min(max(_GROUP_ROWS), sample.n_rows) ** 2))
        for size in _GROUP_ROWS:
            groups = [self._tried[i * size : (i + 1) * size] for i in range(_TRIED_GROUPS)]
            tried = [rows for rows in groups if len(rows)]
            bounds = [self._group_bound(rows, sample.rows.take(rows), buffer) for rows in tried]
            share = sum(len(rows) for rows in tried) / sample.n_rows
            expected = sum(float(bound.value.sum()) for bound in bounds) / share
            if expected >= _MUCH * value:
                break
        return size, expected

    def _expected_scaled(self, residual: Rounded) -> float:
        """What the scaled point of a model should give, v'Kv being estimated from some rows."""
        sample, noise = self.problem.sample, self.problem.noise
        w, rows = sample.weights[:, None], self._tried[:_TRIED_ROWS]
        v = w * residual.value / noise
        products = kernel_transpose_times(
            sample.rows, self.problem.kernel, sample.rows.take(rows), v, self.problem.workers
        )
        quadratic = (v[rows] * products).sum(axis=0) * (sample.n_rows / len(rows))
        whole = np.maximum(quadratic, 0.0) + noise * (v**2 / w).sum(axis=0)
        linear = (sample.targets * v).sum(axis=0)
        return float((0.5 * noise * linear**2 / np.where(whole > 0, whole, 1.0)).sum())

    def _affordable(self, residual: Rounded, value: float, product: bool) -> tuple[str, int]:
        """The kind, and the size of groups, that should say something for what it costs.

        Only a choice between proofs rests on these estimates.
        """
        least = max(_LITTLE, self.problem.sample.n_rows / _ROWS_THAT_PAY)
        if product and self._expected_scaled(residual) >= least * value:
            return "hybrid", 0
        size, expected = self._group_rows(value)
        return ("grouped" if expected >= _LITTLE * value else "published"), size

    def _lower_bounds(
        self,
        models: list[Model],
        residuals: list[Rounded],
        kind: str,
        steps: int,
        after_block: Callable[[int], None] | None,
    ) -> tuple[list[Rounded], DualPoint]:
        """Lower bounds from dense dual points v, and v with Av of the largest model."""
        y, noise = self.problem.sample.targets, self.problem.noise
        largest = max(models, key=len)
        points = self.dual_points(residuals, after_block)
        first = points[models.index(largest)]
        if kind == "pcg":
            v = self.improve(largest, first, steps)
            self.problem.meter.passes += 1
            first = self._dual_point(v, self.arithmetic.product(v))
            points = [first] * len(models)
        if kind in ("dense", "scaled"):
            bound = dense_lower_bound if kind == "dense" else scaled_lower_bound
            return [bound(dots(y, p.v), dots(p.v, p.Av), noise) for p in points], first
        second = self.second_pursuit(len(largest), leftover=y - first.Av.value)
        # For many rows, further columns would cost more than they add to the product with K.
        few = self.problem.sample.n_rows > ALL_ROWS_BESIDE
        n = max(len(largest) // 4, 1) if few else len(largest)
        second.pursuit.run([MaxSize(n)])
        second.look_beyond(y, first.v, first.Av.value)
        second.pursuit.run([MaxSize(2 * n)])
        system = second.system(self.arithmetic)
        return [system.hybrid_lower_bound(y, point) for point in points], first

    def _two_level(self, residuals: list[Rounded], n_second: int) -> list[Rounded]:
        """The better of two bounds for each model, without any product with the full matrix.

        With K = VV' + E from n_second pivots and d = diag E, v'Kv is at most ‖V'v‖² + (Σ|v_i|√d_i)²
        for the dual point of each model, and for the best v where E is replaced by s·diag(√d),
        s = Σ√d, which is larger. O(m n_second²) time, O(m n_second) memory.
        """
        problem, sample, noise = self.problem, self.problem.sample, self.problem.noise
        objective = DiagonalPursuit(
            sample.rows,
            problem.kernel,
            capacity=min(n_second, sample.n_rows),
            workers=problem.workers,
        )
        Pursuit(objective, problem.meter).run([MaxSize(min(n_second, sample.n_rows))])
        factor, known = objective.factor, self.arithmetic
        same = row_groups((items for _, items in sample.rows.blocks()), sample.n_rows)
        spans = PivotSpan.several(
            factor.rows, factor.chosen, same, known.diagonal, known.error.share
        )
        span = spans[0]
        y, w = sample.targets, sample.weights[:, None]
        diagonal = noise / sample.weights + span.missed.sum() * span.missed
        scaled = span.V / diagonal
        inner = scaled @ span.V.T
        inner[np.diag_indices_from(inner)] += 1.0
        best = (y - span.V.T @ cho_solve(cho_factor(inner), scaled @ y)) / diagonal[:, None]

        def bound(v: Floats) -> Rounded:
            linear, noisy = dots(y, v), noise * dots(v, Rounded.of(v) / w)
            return highest(
                [scaled_lower_bound(linear, one.quadratic(v) + noisy, noise) for one in spans]
            )

        shared = bound(best)
        return [highest([shared, bound(w * residual.value / noise)]) for residual in residuals]

    def _dual_point(self, v: Floats, product: Rounded) -> DualPoint:
        """A dual point from v and Kv."""
        w = self.problem.sample.weights[:, None]
        return DualPoint(v, product + self.problem.noise * (Rounded.of(v) / w))

    def _value(self, residual: Rounded, squared_norms: Rounded) -> Rounded:
        """P from residuals and ‖f‖², for each output."""
        errors = dots(self.problem.sample.weights[:, None] * residual, residual)
        return primal_value(errors, squared_norms, self.problem.noise)

    def _evaluate(self, models: list[Model]) -> tuple[list[Rounded], list[Rounded]]:
        """Return y - f on all rows, and ‖f‖², of every model."""
        largest = max(models, key=len)
        items = self.arithmetic.among(largest.points)
        padded = [np.pad(m.coefficients, ((0, len(largest) - len(m)), (0, 0))) for m in models]
        together = np.hstack(padded)
        fitted, norms = self.arithmetic.times(items, together), items.squared_norms(together)
        self.problem.meter.passes += 1
        y, width = self.problem.sample.targets, padded[0].shape[1]
        parts = [slice(i * width, (i + 1) * width) for i in range(len(models))]
        return [y - fitted[:, part] for part in parts], [norms[part] for part in parts]


@dataclass(frozen=True)
class PivotSpan:
    """K ≤ VV' + E on all rows, from a pivoted Cholesky factor and what rounding did to it.

    Row j of V holds (k(z_j, x_i) - Σ_{l<j} R_jl V_li)/R_jj, R being V at the pivots, so that
    RV = K_S + Δ with |Δ_ji| ≤ ε s(z_j)s(x_i), ε = the kernel's share + γ_n. With a = |R⁻¹|s_S, the
    vector x = R⁻¹K_S v differs from Vv by at most ε a Σ|v|s entry by entry, and

        v'K_S'K_SS⁻¹K_S v = x'(I - F)⁻¹x,    |F_ij| ≤ ε a_i a_j,

    which is at least ‖x‖² - ε(a'|x|)² and at most ‖x‖² + ε(a'|x|)²/(1 - η), η = ε‖a‖² < 1. Fewer
    pivots have a smaller η, and miss more of K.

    Attributes
    ----------
    V : array of shape (n, m)
        As computed.
    missed, most_missed : arrays of shape (m,)
        √d_i as computed, and not below its exact value.
    sizes : array of shape (m,)
        s(x_i).
    spread : array of shape (n,)
        a.
    unit : float
        ε.
    """

    V: Floats
    missed: Floats
    most_missed: Floats
    sizes: Floats
    spread: Floats
    unit: float

    @classmethod
    def several(
        cls, V: Floats, pivots: Indices, same: Indices, diagonal: Floats, share: float
    ) -> list[PivotSpan]:
        """As many pivots as leave η at each of ``_PIVOT_DOUBTS``, fewest last.

        Parameters
        ----------
        V, pivots : arrays of shape (n, m) and (n,)
            The factor and the rows it was made from.
        same : array of int of shape (m,)
            A number that identical rows have in common.
        diagonal : array of shape (m,)
            k(x, x) as computed.
        share : float
            The kernel's.
        """
        sizes, unit = upper_sizes(diagonal), share + 4.0 * gamma(len(V) + 3)
        spread = _spread(np.tril(V[:, pivots].T), sizes[pivots])
        counts = np.searchsorted(unit * np.cumsum(spread**2), _PIVOT_DOUBTS)
        return [
            cls.of(V[:n], spread[:n], pivots[:n], same, diagonal, share, unit)
            for n in np.unique(counts)[::-1]
        ]

    @classmethod
    def of(
        cls,
        V: Floats,
        spread: Floats,
        pivots: Indices,
        same: Indices,
        diagonal: Floats,
        share: float,
        unit: float,
    ) -> PivotSpan:
        """From V, a and what `several` is given."""
        n, sizes = len(V), upper_sizes(diagonal)
        eta = unit * float(spread @ spread)
        along = spread @ np.abs(V)
        doubt = unit * (2.0 * sizes * along + (along + eta * sizes) ** 2)
        doubt += (2.0 * share + 2.0 * gamma(n + 8)) * diagonal
        left = diagonal - np.einsum("ni,ni->i", V, V)
        most = np.minimum(left + 1.001 * doubt, _to_pivots(V, pivots, diagonal, unit))
        missed, surely = (np.sqrt(np.maximum(d, 0.0)) for d in (left, most))
        # The span holds its own pivots and rows equal to them, whatever rounding makes of it.
        inside = np.isin(same, same[pivots])
        missed[inside] = surely[inside] = 0.0
        return cls(V, missed, surely * (1.0 + gamma(4)), sizes, spread, unit)

    def quadratic(self, v: Floats) -> Rounded:
        """‖V'v‖² + (Σ|v_i|√d_i)², with an error up to which it is a bound on v'Kv."""
        m, unit, size = self.V.shape[1], self.unit, weight(self.sizes, v)
        x = np.abs(self.V @ v)
        eta = unit * float(self.spread @ self.spread)
        along = self.spread @ x
        inside = (x**2).sum(axis=0) + 2.0 * unit * size * along + unit * eta * size**2
        inside = inside + unit * (along + eta * size) ** 2 / (1.0 - eta)
        # Sums over rows round, too: each entry of Vv by a multiple of Σ|v|s.
        rounding = 2.0 * gamma(m + 2) * size * x.sum(axis=0)
        rounding = rounding + len(x) * (gamma(m + 2) * size) ** 2
        outside = weight(self.most_missed, v) ** 2
        most = (inside + rounding + outside) * (1.0 + gamma(len(x) + 16))
        value = (x**2).sum(axis=0) + (self.missed @ np.abs(v)) ** 2
        return Rounded(value, np.maximum(most - value, 0.0) * (1.0 + gamma(4)))


def _to_pivots(V: Floats, pivots: Indices, diagonal: Floats, unit: float) -> Floats:
    """The least squared distance k(x, x) - 2k(x, z) + k(z, z) to a pivot, or more, for every row.

    d_i is at most that. Rows next to a pivot owe to it a bound that does not grow with a.
    """
    ends = np.add.outer(diagonal[pivots], diagonal)
    squares = ends - 2.0 * (np.tril(V[:, pivots].T) @ V)
    # RV is K_S up to 2ε√(k(x, x)k(z, z)), its own rounding included, and ends twice the mean.
    squares += 1.001 * (4.0 * unit) * ends
    return np.asarray(squares.min(axis=0, initial=np.inf))


def _spread(R: Floats, sizes: Floats) -> Floats:
    """|R⁻¹|s or more for a lower triangle R; infinite where rounding leaves nothing of it.

    Substitution gives W with RW = I + G, |G| ≤ γ|R||W| (Higham 2002, Theorem 8.5). With |G|s ≤ gs,
    |R⁻¹|s = |W(I + G)⁻¹|s is at most |W|s/(1 - g). The first entries depend on the first rows only.
    """
    W, n = np.abs(invert_lower(R)), len(R)
    reach = W @ sizes * (1.0 + 2.0 * gamma(n + 2))
    g = np.maximum.accumulate(gamma(2 * n + 8) * (np.abs(R) @ reach) / sizes)
    return np.where(g < 0.5, reach / np.where(g < 0.5, 1.0 - g, 1.0), np.inf)
