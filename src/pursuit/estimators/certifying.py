"""Certificates for sums of kernel functions: passes from gram/, formulas from bounds/."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit.bounds import Certificate, dense_lower_bound, primal_value, scaled_lower_bound
from pursuit.gram import kernel_product, kernel_times
from pursuit.greedy import AllCandidates, MaxSize, Meter, Pursuit
from pursuit.greedy.candidates import Candidates
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.objectives import QuadraticPursuit, dual_pursuit
from pursuit.rows import Sample, draw_rows

Floats = NDArray[np.float64]

KINDS = ("published", "dense", "scaled")
ALL_ROWS_DUAL = 10_000
"""Up to this many rows SB01's second pursuit looks at all of them; beyond, at a pool."""


@dataclass(frozen=True)
class Model:
    """f = Σ_j β_j k(·, z_j), with the size of f: all that a certificate needs to know."""

    points: Any
    coefficients: Floats
    squared_norms: Floats
    """‖f‖² for each output."""
    value: Floats | None = None
    """P(f) for each output, where it is known already."""


@dataclass(frozen=True)
class Certifier:
    """Bounds the distance of models from the minimum of ½Σw(y - f)² + ½σ²‖f‖²."""

    sample: Sample
    kernel: CountingKernel
    noise: float
    workers: Workers
    meter: Meter
    rng: np.random.Generator

    def certify(
        self, models: list[Model], kind: str, after_block: Callable[[int], None] | None = None
    ) -> list[Certificate]:
        """One certificate a model, all of them from the same passes."""
        if kind == "published":
            sizes = [len(model.coefficients) for model in models]
            dual = self.second_pursuit(max(sizes))
            dual.run([MaxSize(max(sizes))])
            lowers = [sparse_lower_bound(dual, self.noise, n) for n in sizes]
            uppers = [model.value for model in models if model.value is not None]
            if len(uppers) < len(models):
                uppers = self._values(models, self._residuals(models))
        else:
            residuals = self._residuals(models)
            uppers = self._values(models, residuals)
            bound = dense_lower_bound if kind == "dense" else scaled_lower_bound
            lowers = [
                bound(linear, quadratic, self.noise)
                for linear, quadratic in self._dense_forms(residuals, after_block)
            ]
        norms = self.sample.target_norms()
        return [
            Certificate(upper, lower, norms, kind)
            for upper, lower in zip(uppers, lowers, strict=True)
        ]

    def second_pursuit(self, capacity: int, candidates: Candidates | None = None) -> Pursuit:
        """SB01's pursuit on Q*, over all rows or a pool of them (SPEC 2.3)."""
        sample = self.sample
        if candidates is None and sample.n_rows > ALL_ROWS_DUAL:
            sample = sample.take(draw_rows(sample.n_rows, 2 * capacity + 1000, self.rng))
        objective = dual_pursuit(
            sample.rows,
            sample.targets,
            sample.weights,
            self.kernel,
            self.noise,
            capacity=capacity,
            workers=self.workers,
        )
        return Pursuit(objective, self.meter, candidates=candidates or AllCandidates())

    def _values(self, models: list[Model], residuals: list[Floats]) -> list[Floats]:
        return [
            primal_value(self.sample.weights @ r**2, model.squared_norms, self.noise)
            for r, model in zip(residuals, models, strict=True)
        ]

    def _residuals(self, models: list[Model]) -> list[Floats]:
        """Return y - f on all rows. The models' points are the first ones of the largest's."""
        largest = max(models, key=lambda model: len(model.coefficients))
        padded = [
            np.pad(m.coefficients, ((0, len(largest.coefficients) - len(m.coefficients)), (0, 0)))
            for m in models
        ]
        fitted = kernel_times(
            self.sample.rows, self.kernel, largest.points, np.hstack(padded), self.workers
        )
        self.meter.passes += 1
        return [self.sample.targets - f for f in np.hsplit(fitted, len(models))]

    def _dense_forms(
        self, residuals: list[Floats], after_block: Callable[[int], None] | None
    ) -> list[tuple[Floats, Floats]]:
        """y'a and a'(K + σ²W⁻¹)a for a = Wr/σ², one pair a model."""
        w = self.sample.weights[:, None]
        stacked = w * np.hstack(residuals) / self.noise
        products = (
            kernel_product(self.sample.rows, self.kernel, stacked, self.workers, after_block)
            + self.noise * stacked / w
        )
        self.meter.passes += 1
        forms = []
        for a, Ka in zip(
            np.hsplit(stacked, len(residuals)), np.hsplit(products, len(residuals)), strict=True
        ):
            linear = np.einsum("io,io->o", self.sample.targets, a)
            forms.append((linear, np.einsum("io,io->o", a, Ka)))
        return forms


def sparse_lower_bound(dual: Pursuit, noise: float, n: int) -> Floats:
    """D of the sparse a* after n steps of the second pursuit: ½σ²Σz² (SB01 Theorem 1)."""
    objective = dual.objective
    assert isinstance(objective, QuadraticPursuit)
    bound: Floats = 0.5 * noise * (objective.z[:n] ** 2).sum(axis=0)
    return bound
