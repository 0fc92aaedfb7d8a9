"""Certificates from a dual point: how far the minimum over all functions can be (Formulas §6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate, diagonal_quadratic
from pursuit.estimators.span.features import SpanFeatures
from pursuit.gram import kernel_product
from pursuit.greedy import CostMeter
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.rows import RowSource, SelectedRows, as_rows


class DualProblem(Protocol):
    """A convex problem, each column by itself, whose dual sees the kernel in a'Ka alone."""

    @property
    def n_outputs(self) -> int:
        """Number of columns."""
        ...

    @property
    def over(self) -> str:
        """What the minimum is taken over, in words."""
        ...

    def value(self, fitted: Floats, squared_norms: Floats) -> Floats:
        """P for each column, from values at the rows and ‖f‖²."""
        ...

    def zero_value(self) -> Floats:
        """P of no model at all."""
        ...

    def feasible(self, a: Floats) -> Floats:
        """A dual point made feasible."""
        ...

    def lower_bound(self, a: Floats, quadratic: Floats) -> Floats:
        """A bound on the minimum from a feasible a, and from a'Ka or an upper bound of it."""
        ...


@dataclass(frozen=True)
class DualPass:
    """A feasible dual point on its support, and what the full kernel makes of it.

    Attributes
    ----------
    support : array of int
        Rows where a is not zero in some column.
    dual, product : arrays of shape (n_support, n_outputs)
        a and Ka there.
    """

    support: Indices
    dual: Floats
    product: Floats


def exact_certificate(
    problem: DualProblem,
    fitted: Floats,
    squared_norms: Floats,
    dual: Floats,
    rows: RowSource,
    kernel: CountingKernel,
    workers: Workers,
    meter: CostMeter | None = None,
) -> tuple[Certificate, DualPass]:
    """One product of the full kernel matrix of the support vectors with the dual point.

    O(n_support²) kernel entries, O(n_support) memory, always in float64.
    """
    a = problem.feasible(dual)
    support = np.flatnonzero(a.any(axis=1))
    product = kernel_product(held(rows, support), kernel, a[support], workers)
    if meter is not None:
        meter.passes += len(support) / max(rows.n_rows, 1)
    lower = problem.lower_bound(a, np.einsum("io,io->o", a[support], product))
    found = _certificate(problem, fitted, squared_norms, lower, "exact pass")
    return found, DualPass(support, a[support], product)


def diagonal_certificate(
    problem: DualProblem,
    fitted: Floats,
    squared_norms: Floats,
    dual: Floats,
    features: SpanFeatures,
    diagonal: Floats,
    workers: Workers,
) -> Certificate | None:
    """From a'Ka ≤ ‖V'a‖² + (Σ|a|√d)², d = k(x, x) - ‖V_x‖²: no kernel entry beyond the diagonal.

    Entries of V are stored with a relative error u, so ‖V'a‖ may be uΣ|a|‖V_x‖ more than it seems,
    and ‖V_x‖² 2u‖V_x‖² less. None where it leaves open whether the minimum is half of what the
    model has.
    """
    a = problem.feasible(dual)
    inner = np.zeros((features.n, problem.n_outputs))
    blocks = Workers.slices(features.n_rows, 1024)
    for part in workers.map(lambda r: features.span_only(r).T.astype(float) @ a[r], blocks):
        inner += part
    squares, roundoff = features.squares(workers), float(np.finfo(features.dtype).eps)
    lengths = np.linalg.norm(inner, axis=0) + roundoff * (np.sqrt(squares) @ np.abs(a))
    residual = diagonal - (1.0 - 2.0 * roundoff) * squares
    quadratic = diagonal_quadratic(lengths**2, a, residual)
    lower = problem.lower_bound(a, quadratic)
    found = _certificate(problem, fitted, squared_norms, lower, "diagonal")
    return found if found.lower >= 0.5 * found.upper else None


def _certificate(
    problem: DualProblem, fitted: Floats, squared_norms: Floats, lower: Floats, kind: str
) -> Certificate:
    upper = problem.value(fitted, squared_norms)
    # No model at all, f = 0, plays the part of ½y'Wy.
    return Certificate(upper, lower, 2.0 * problem.zero_value(), kind, over=problem.over)


def held(rows: RowSource, index: Indices) -> RowSource:
    """Some rows as a source in memory: they will be read many times."""
    items = rows.take(index)
    numbered = isinstance(items, np.ndarray) and items.ndim == 1
    return SelectedRows(rows, index) if numbered else as_rows(items)
