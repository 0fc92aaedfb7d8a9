"""The certificate of linear programming machines: the model and a dual point, evaluated as stored.

Kernels need not be definite here, so that √(k(x, x)k(z, z)) may be less than |k(x, z)|: the
rounding of sums is bounded from the absolute values of their terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.bounds import Certificate, balanced
from pursuit.gram import kernel_features
from pursuit.gram.arithmetic import RowArithmetic
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rounding import UNIT, Rounded, dots, gamma, joined, sizes, weight
from pursuit.rows import RowSource, len_items
from pursuit.solvers import LinearLosses

_CHUNK = 64
"""Kernel functions that are evaluated at once."""


@dataclass(frozen=True)
class StoredMachine:
    """What an estimator keeps of its machines, in units of y.

    Attributes
    ----------
    points : items
        Centres of the kernel functions.
    coefficients : array of shape (n_points, n_outputs)
        a.
    intercepts : array of shape (n_outputs,)
        b.
    """

    points: Any
    coefficients: Floats
    intercepts: Floats


def machine_certificate(
    losses: list[LinearLosses],
    targets: Floats,
    kinks: Floats,
    model: StoredMachine,
    duals: list[Floats],
    rows: RowSource,
    kernel: Kernel,
    workers: Workers,
) -> Certificate:
    """P = Σ|a| + losses of the model, and Σ_k g_k v_k of dual points made feasible (Formulas §6).

    Parameters
    ----------
    losses : list of LinearLosses
        One per output, in units of y.
    targets : array of shape (n_rows, n_outputs)
        y: the terms of each loss have gains y + kinks.
    kinks : array of shape (n_terms,)
        Where each term bends, as seen from y.
    model : StoredMachine
        The model.
    duals : list of arrays of shape (n_terms, n_rows)
        A dual point for each output, feasible but for rounding.
    rows, kernel, workers
        As elsewhere.
    """
    arithmetic = RowArithmetic.of(rows, kernel, workers)
    values = _products(arithmetic, model.points, model.coefficients)
    uppers, lowers, zeros = [], [], []
    points = [_feasible(each, dual) for each, dual in zip(losses, duals, strict=True)]
    sums = np.column_stack([point.sum(axis=0) for point in points])
    support = np.flatnonzero(sums.any(axis=1))
    prices = _products(arithmetic, rows.take(support), sums[support])
    for j, (each, point) in enumerate(zip(losses, points, strict=True)):
        penalty = Rounded.of(np.abs(model.coefficients[:, j])).sum()
        # Σv = 0 exactly: seen from the intercept, targets far from 0 cost no digits in either sum.
        gain = (Rounded.of(targets[:, j]) - model.intercepts[j])[None] + kinks[:, None]
        uppers.append(penalty + _loss(each, gain - values[:, j]))
        dearest = float(prices[:, j].size.max(initial=0.0))
        share = (1.0 - 4.0 * UNIT) / dearest if dearest > 1.0 else 1.0
        # What it took to make the sum of a dual point exactly 0 is rounding, too.
        cost = float(np.abs(gain.value * (point - np.clip(duals[j], each.lower, each.upper))).sum())
        found = share * dots(_flat(gain), point.ravel())
        lowers.append((found + cost).widened(cost))
        constant = each.intercept(np.zeros(rows.n_rows))
        zeros.append(each.value(np.array(constant)))
    return Certificate.proved(
        joined(uppers),
        joined(lowers),
        2.0 * np.array(zeros),
        "Lagrangian",
        over="the kernel functions at all rows",
        reference="the linear programme with the kernel functions at all rows",
        baseline="the best constant",
        remedy="C is beyond what float64 resolves for this kernel and these rows: lower C, or "
        "centre the features",
    )


def _products(arithmetic: RowArithmetic, points: Any, vectors: Floats) -> Rounded:
    """k(rows, points) @ vectors for points among the rows, whatever the kernel."""
    n = len_items(points)
    value = np.zeros((arithmetic.rows.n_rows, vectors.shape[1]))
    size = np.zeros_like(value)
    for start in range(0, n, _CHUNK):
        part = slice(start, min(start + _CHUNK, n))
        known = arithmetic.rows, arithmetic.kernel, points[part], arithmetic.workers
        columns = kernel_features(*known)
        value += columns @ vectors[part]
        size += np.abs(columns) @ np.abs(vectors[part])
    error = gamma(n + 8) * size
    # Where a kernel has no such bound, its values are taken as exact.
    if n and 0.0 < arithmetic.error.share < np.inf:
        reach = weight(sizes(arithmetic.kernel.diag(points)), vectors)
        error = error + arithmetic.error.share * np.multiply.outer(arithmetic.sizes, reach)
    return Rounded(value, np.zeros_like(value)).widened(error)


def _feasible(losses: LinearLosses, dual: Floats) -> Floats:
    """The dual point in its box, with a sum of exactly 0."""
    inside = np.clip(dual, losses.lower, losses.upper)
    return balanced(inside.reshape(-1, 1)).reshape(losses.gain.shape)


def _flat(numbers: Rounded) -> Rounded:
    return Rounded(numbers.value.ravel(), numbers.error.ravel())


def _loss(losses: LinearLosses, short: Rounded) -> Rounded:
    """The losses added up, from g - f."""

    def value_at(point: Floats) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.maximum(losses.lower * point, losses.upper * point)

    # The losses are convex, and a loss that is 0 whatever the rounding has none.
    value = value_at(short.value)
    highest = np.maximum(value_at(short.low), value_at(short.high))
    error = (highest - value) + 4.0 * UNIT * highest
    return Rounded(value.ravel(), np.zeros(value.size)).widened(error.ravel()).sum()
