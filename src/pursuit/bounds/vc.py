"""How often a function from a span chosen by the data may miss: Vapnik and Chervonenkis's bound."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp

from pursuit._types import Floats

_LN2 = math.log(2.0)


def matching_pursuit_bound(
    size: ArrayLike,
    errors: ArrayLike,
    n_rows: float,
    delta: float,
    *,
    n_atoms: float | None = None,
    rows_used: ArrayLike | None = None,
    n_hyperplanes: int = 2,
    n_columns: int = 1,
    intercept: bool = True,
    dimension: ArrayLike | None = None,
    printed: bool = False,
) -> Floats:
    """HS08 Theorem 3 for models of several sizes.

    With probability 1 - δ over the m training rows, a function of a k-dimensional span that the
    rows have chosen, and that errs on t of the rows outside the basis, errs on a new row with
    probability at most, for M = m - k - t::

        (2/M) [ (k+1) log₂(4eM/(k+1)) + k log₂(em/k) + t log₂(e(m-k)/t) + log₂(2m²/δ) ]

    The logarithm is to base 2 (the paper leaves it open; its proof has 2^(-εM/2)). The last two
    counts in the proof, of subsets and of labelings, are bounded there; unless ``printed`` they are
    taken as they are, log₂ C(m, k), log₂ C(m-k, t) and log₂ Σ_{i≤k+1} C(4M, i), with k in place of
    k + 1 where the function has no intercept.

    Parameters
    ----------
    size : array of int
        k.
    errors : array
        t for each size; rows of weight w count w times.
    n_rows : float
        m.
    delta : float
        δ, in (0, 1).
    n_atoms : float, optional
        Functions to choose from: m in the paper.
    rows_used : array, optional
        Rows that stand in the basis: k in the paper, none for centres fixed beforehand.
    n_hyperplanes : int
        Hyperplanes in the space of coefficients that decide about one row: 2 for |f - y| > α.
    n_columns : int
        Coefficients each function has, one an output.
    intercept : bool
        Whether the function has one.
    dimension : array of int, optional
        Of the space that each function is from, where it is not that of its coefficients.
    printed : bool
        The form of the paper, in place of the exact counts. It is printed for spans of fewer
        dimensions than there are hyperplanes; beyond, all labelings are counted.

    Returns
    -------
    bound : array
        Infinite where no row is left that is neither in the basis nor an error.
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}.")
    k, t = np.asarray(size, np.float64), np.asarray(errors, np.float64)
    used = k if rows_used is None else np.asarray(rows_used, np.float64)
    atoms = float(n_rows if n_atoms is None else n_atoms)
    outside = n_rows - used
    M = outside - t
    alive = M > 0
    M = np.where(alive, M, 1.0)
    if dimension is None:
        space = n_columns * (k + (1 if printed or intercept else 0))
    else:
        space = np.broadcast_to(np.asarray(dimension, np.float64), k.shape)
    hyperplanes = 2 * M * n_hyperplanes  # on the rows and as many ghosts
    if printed:
        subsets = _power_bits(atoms, k)
        exceptions = _power_bits(outside, t)
        labelings = _power_bits(hyperplanes, space)
        # (en/D)^D counts subsets of at most D of n, for D up to n; beyond, there are 2^n.
        labelings = np.where(space <= hyperplanes, labelings, hyperplanes)
    else:
        subsets = _binomial_bits(np.full_like(k, atoms), k)
        exceptions = _binomial_bits(outside, t)
        labelings = np.array(
            [_regions_bits(*pair) for pair in zip(hyperplanes, space, strict=True)]
        )
        labelings = np.minimum(labelings, hyperplanes)
    chance = math.log2(2.0 * max(n_rows, 1.0) ** 2 / delta)
    value = 2.0 / M * (labelings + subsets + exceptions + chance)
    return np.where(alive, value, np.inf)


def _power_bits(n: float | Floats, k: Floats) -> Floats:
    """log₂ (en/k)^k, which is 0 for k = 0."""
    safe = np.where(k > 0, k, 1.0)
    return np.where(k > 0, k * np.log2(np.maximum(math.e * n / safe, 1.0)), 0.0)


def _binomial_bits(n: Floats, k: Floats) -> Floats:
    """log₂ C(n, k)."""
    k = np.minimum(k, n)
    bits: Floats = (gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) / _LN2
    return bits


def _regions_bits(n: float, dimension: float) -> float:
    """log₂ Σ_{i≤D} C(n, i): most regions that n hyperplanes cut R^D into."""
    i = np.arange(min(dimension, n) + 1)
    return float(logsumexp(gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1)) / _LN2)
