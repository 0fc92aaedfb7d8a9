"""Rates that need the whole kernel matrix: Z03 Theorem 6.1 and SB01 Theorem 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, natarajan_step_bound, orthogonalities, span_rate_bound
from pursuit.greedy import CostMeter, Problem, Pursuit, ValueBelow, kernel_matrix
from pursuit.linalg import Workers
from pursuit.objectives import QuadraticPursuit

EXACT_ROWS = 2000
"""Most rows for which ρ is computed: with more, its m x m eigenproblem takes longer than a fit."""

_KNOWN = 1e-9
"""Share of P(0) - P_min to which P of a greedy choice is known; closer than this is not believed.
A larger one counts more functions where the tolerance is very small."""


def check_dense(what: str, n_rows: int) -> None:
    """Refuse more rows than an m x m eigenproblem is worth."""
    if n_rows > EXACT_ROWS:
        raise ValueError(
            f"{what} needs the eigenvalues of an n_rows x n_rows matrix, and takes at most "
            f"{EXACT_ROWS} rows, got {n_rows}: pass a random part of the rows, and for `reference` "
            "fit it to the same part. The bound is about the rows that are passed."
        )


@dataclass(frozen=True)
class DenseProblem:
    """P(Σ_j a_j k(·, x_j)) = ½‖y‖² - b'a + ½a'Ha over all rows j: H = KWK + σ²K and b = KWy.

    Attributes
    ----------
    K, H : arrays of shape (m, m)
        The kernel matrix, and H.
    targets, weights : arrays of shape (m, n_outputs) and (m,)
        y and w.
    noise : float
        σ².
    """

    K: Floats
    H: Floats
    targets: Floats
    weights: Floats
    noise: float

    @classmethod
    def of(cls, problem: Problem) -> DenseProblem:
        """With the kernel values of all pairs of rows."""
        sample = problem.sample
        items = sample.rows.take(np.arange(sample.n_rows))
        K = kernel_matrix(problem.kernel, items, problem.workers)
        H = (K * sample.weights) @ K + problem.noise * K
        return cls(K, H, sample.targets, sample.weights, problem.noise)

    def value(self, coefficients: Floats) -> float:
        """P of a kernel expansion, summed over outputs."""
        fitted = self.K @ coefficients
        loss = float(np.sum(self.weights @ (self.targets - fitted) ** 2))
        return 0.5 * loss + 0.5 * self.noise * float(np.sum(coefficients * fitted))

    def initial_gap(self) -> float:
        """P(0) - P_min = ½Σ λ/(λ + σ²) (u'W^½y)², λ and u those of W^½KW^½."""
        root = np.sqrt(self.weights)
        eigenvalues, U = np.linalg.eigh(self.K * np.outer(root, root))
        eigenvalues = np.maximum(eigenvalues, 0.0)
        along = np.sum((U.T @ (root[:, None] * self.targets)) ** 2, axis=1)
        return 0.5 * float((eigenvalues / (eigenvalues + self.noise)) @ along)

    def greedy_gains(self, enough: float, workers: Workers) -> Floats:
        """P(0) - P after each step of a search over all rows, until it is ``enough``."""
        objective = QuadraticPursuit(
            np.diag(self.H),
            self.K @ (self.weights[:, None] * self.targets),
            self.H.__getitem__,
            capacity=len(self.H),
            workers=workers,
            look_ahead=True,
        )
        return -Pursuit(objective, CostMeter()).run([ValueBelow(-enough)]).value


def reference_vectors(
    reference: Any, present: Indices, n_rows: int, n_outputs: int
) -> list[Floats]:
    """Coefficients on the rows ``present``, as passed in one array or in a list of several."""
    several = isinstance(reference, list | tuple) and bool(reference) and np.ndim(reference[0]) > 0
    shapes = f"({n_rows},)" if n_outputs == 1 else f"({n_rows}, {n_outputs})"
    vectors = []
    for given in reference if several else [reference]:
        try:
            a = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"reference must hold numbers, got {type(given).__name__}: pass an array of "
                "coefficients, or a list of such arrays."
            ) from error
        a = a[:, None] if a.ndim == 1 and n_outputs == 1 else a
        if a.shape != (n_rows, n_outputs):
            raise ValueError(
                f"reference must have a coefficient for each training row, shape {shapes}, got "
                f"shape {np.shape(given)}: pass coefficients on the same rows as X, such as "
                "KernelRidge(...).fit(X, y).dual_coef_, or a list of such arrays."
            )
        if not np.all(np.isfinite(a)):
            raise ValueError("reference must be finite: it contains NaN or infinity.")
        absent = np.setdiff1d(np.flatnonzero(a.any(axis=1)), present)
        if len(absent):
            raise ValueError(
                f"reference has a coefficient on row {absent[0]}, whose weight is 0: such a row is "
                "absent. Set its coefficient to 0."
            )
        vectors.append(a[present])
    return vectors


def reference_bound(
    size: ArrayLike,
    dense: DenseProblem,
    vectors: list[Floats],
    *,
    lower: float,
    initial_gap: float,
    trivial: Floats,
) -> Bound:
    """Z03 Theorem 6.1 beside given functions; ``lower`` is a lower bound on P_min."""
    sets = [np.flatnonzero(a.any(axis=1)) for a in vectors]
    n_terms = [max(len(J), 1) for J in sets]
    rho = orthogonalities(dense.H, sets)
    one = f"beside the reference of {n_terms[0]} terms, ρ = {rho[0]:.3g}"
    return span_rate_bound(
        size,
        n_terms=n_terms,
        rho=rho,
        initial_gap=initial_gap,
        gaps=[max(dense.value(a) - lower, 0.0) for a in vectors],
        trivial=trivial,
        caveat=one if len(vectors) == 1 else f"beside the best of {len(vectors)} references",
    )


def step_bound(problem: Problem, tolerances: Floats) -> Bound:
    """SB01 Theorem 2 for shares of P(0) - P_min, with what greedy choice needs for n*."""
    dense = DenseProblem.of(problem)
    m, gap = len(dense.H), dense.initial_gap()
    quarters = (tolerances / 4 - _KNOWN) * gap
    gains = dense.greedy_gains(gap - float(quarters.min()), problem.workers)
    reached = [np.flatnonzero(gap - gains <= quarter) for quarter in quarters]
    n_star = np.array([found[0] + 1 if len(found) else m for found in reached])
    [rho] = orthogonalities(dense.H, [np.arange(m)])
    shares = ", ".join(f"{tol:g}" for tol in tolerances)
    return natarajan_step_bound(
        n_star,
        rho=float(rho),
        initial_gap=gap,
        tolerance=tolerances * gap,
        n_rows=m,
        caveat=f"ε = {shares} of P(0) - min P; for a search over all rows; n*(ε/4), which nobody "
        f"can compute, is replaced by the larger number that this search needs; λ₁⁻² = {rho:.3g}",
    )
