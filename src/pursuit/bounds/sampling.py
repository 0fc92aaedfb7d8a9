"""Totals from samples of residuals (Smola and Schölkopf 2000, SS00 Corollary 3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pursuit._types import Floats
from pursuit.bounds.certificate import Bound


def finite_mean_deviation(n: int, n_sampled: int, spread: float, delta: float) -> float:
    """ε with Pr{mean of all - mean of the sample ≥ ε} ≤ δ, for a sample without replacement.

    SS00 Corollary 3 for m = ``n`` fixed values in an interval of length b = ``spread``, of which
    m' = ``n_sampled`` are drawn uniformly: δ = exp(-2m'ε² / ((1 - (m' - 1)/m) b²)). The factor is
    that of Serfling (1974), which assumes nothing of the values; the paper's (m - m')/m is for
    independent values.
    """
    _check(n, n_sampled, spread, delta)
    if n_sampled == n:
        return 0.0
    share = 1.0 - (n_sampled - 1) / n
    return float(spread * np.sqrt(share * np.log(1.0 / delta) / (2.0 * n_sampled)))


def sampled_total(
    values: Floats,
    n: int,
    largest: float,
    delta: float,
    *,
    size: int,
    quantity: str,
    trivial: float = np.inf,
) -> Bound:
    """Upper bound on the total of n numbers in [0, largest] from a uniform sample of them.

    Parameters
    ----------
    values : array of shape (m',)
        The sampled numbers, drawn without replacement and independently of their values.
    n : int
        Number of all values.
    largest : float
        An upper bound on all n numbers.
    delta : float
        Probability with which the bound may fail.
    size : int
        Number of basis functions, for the Bound.
    quantity : str
        What the total is, in words.
    trivial : float
        A bound that is known without the sample.

    Returns
    -------
    bound : Bound
        With confidence 1 - delta, or 1 if all numbers were seen.
    """
    deviation = finite_mean_deviation(n, len(values), largest, delta)
    total = n * (float(np.mean(values)) + deviation)
    return Bound(
        name="Smola & Schölkopf 2000, Corollary 3 (Serfling)",
        quantity=quantity,
        size=np.array([size], dtype=np.intp),
        value=np.array([total]),
        trivial=trivial,
        confidence=1.0 if len(values) == n else 1.0 - delta,
    )


def look_delta(delta: float, look: int) -> float:
    """δ/(t(t + 1)) for look t = 1, 2, …: all looks together fail with probability at most δ."""
    return delta / (look * (look + 1))


def sampled_look(
    values: Floats,
    n: int,
    others: float,
    largest: float,
    delta: float,
    look: int,
    *,
    size: int,
    quantity: str,
    trivial: float,
) -> Bound:
    """:func:`sampled_total` plus ``others`` at look t: confidence 1 - δ over all looks together.

    Look t may fail with probability δ/(t(t + 1)), and these add up to δ. Every look draws a new
    sample, independently of the values that it is drawn from.
    """
    bound = sampled_total(
        values, n, largest, look_delta(delta, look), size=size, quantity=quantity, trivial=trivial
    )
    return replace(bound, value=bound.value + others, confidence=1.0 - delta)


def least_deviation(n: int, n_sampled: int, largest: float, delta: float, n_looks: int) -> float:
    """The smallest deviation of the total that any of ``n_looks`` looks can have.

    Look t sees ``n_sampled`` of the remaining n - t + 1 numbers in [0, largest].
    """
    deviations = []
    for look in range(1, min(n_looks, n) + 1):
        remaining = n - look + 1
        deviation = finite_mean_deviation(
            remaining, min(n_sampled, remaining), largest, look_delta(delta, look)
        )
        deviations.append(remaining * deviation)
    return min(deviations)


def sample_needed(n: int, target: float, largest: float, delta: float, n_looks: int) -> int:
    """The smallest sample with which the :func:`least_deviation` is at most ``target``."""
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        if least_deviation(n, middle, largest, delta, n_looks) <= target:
            high = middle
        else:
            low = middle
    return high


def _check(n: int, n_sampled: int, spread: float, delta: float) -> None:
    if not 1 <= n_sampled <= n:
        raise ValueError(f"n_sampled must lie between 1 and n={n}, got {n_sampled}.")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}.")
    if not 0 <= spread < np.inf:
        raise ValueError(f"spread must be a finite number, not negative, got {spread}.")
