"""Duality of penalised logistic regression without an intercept.

For y = ±1, weights w and the kernel s·k,

    P(f) = Σ w_i log(1 + exp(-y_i f(x_i))) + ‖f‖²/2s   ≥   D(a) = Σ w_i H(q_i) - ½s a'Ka

for every a_i = w_i y_i q_i with 0 ≤ q ≤ 1, where H(q) = -q log q - (1 - q) log(1 - q): the loss is
at least H(q) - q y f, and the minimum of ‖f‖²/2s - a'f over all functions is -½s a'Ka. Arrays have
one column an output.
"""

from __future__ import annotations

import numpy as np

from pursuit._types import Floats

_HALVINGS = 50
_MOST = 2.0
"""A multiple beyond which none is sought: at a minimum in a span the best is at most 1."""


def logistic_lower_bound(q: Floats, weights: Floats, quadratic: Floats) -> Floats:
    """max of D(ta) over t, from q, w and s·a'Ka, or more than that.

    D(ta) is concave: its slope Σ w q log((1 - tq)/tq) - t s·a'Ka is bisected between 0 and the
    largest t that leaves tq ≤ 1. Every t on the way gives a true bound.
    """
    low, quadratic = np.zeros(q.shape[1]), np.maximum(quadratic, 0.0)
    largest = np.maximum(q.max(axis=0, initial=0.0), 1.0 / _MOST)
    high = 1.0 / largest
    for _ in range(_HALVINGS):
        t = 0.5 * (low + high)
        slope = weights @ (q * (_log(1.0 - t * q) - _log(t * q))) - t * quadratic
        low, high = np.where(slope > 0, t, low), np.where(slope > 0, high, t)
    bound: Floats = weights @ _entropy(low * q) - 0.5 * low**2 * quadratic
    return bound


def _entropy(q: Floats) -> Floats:
    """H(q)."""
    return np.asarray(-q * _log(q) - (1.0 - q) * _log(1.0 - q))


def _log(x: Floats) -> Floats:
    """The logarithm of a number in [0, 1], and 0 for 0: only ever multiplied by it."""
    return np.log(np.where(x > 0, x, 1.0))
