"""Generalisation bounds of HS08 (Hussain and Shawe-Taylor 2008, §2.2, §3 and §4).

A span of t training rows is rebuilt from those rows alone, so it is a sample compression scheme:
the other m - t rows judge it as fresh rows would, once for each of the C(m, t) choices.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp

from pursuit._types import Floats
from pursuit.bounds.certificate import Bound

_LN2 = math.log(2.0)


RESIDUAL = "the expected squared residual of a new row"
_FORMS = {"exact": "", "corrected": ", count of the paper", "printed": ", as printed"}
"""Forms of a theorem, and what they add to its name."""


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
        Number of functions to choose from: m in the paper.
    rows_used : array, optional
        Number of rows in the basis: k in the paper, 0 for centres fixed beforehand.
    n_hyperplanes : int
        Hyperplanes in the space of coefficients that decide about one row: 2 for |f - y| > α.
    n_columns : int
        Coefficients per function, one per output.
    intercept : bool
        Whether the function has one.
    dimension : array of int, optional
        Of the space that each function is from, where it is not that of its coefficients.
    printed : bool
        Whether to use the form of the paper instead of exact counts. It holds for spans with fewer
        dimensions than hyperplanes; for others, all labelings are counted.

    Returns
    -------
    bound : array
        Infinite where every row is in the basis or an error.
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


def compression_bound(
    size: ArrayLike,
    residual: ArrayLike,
    n_rows: float,
    delta: float,
    *,
    radius: float = 1.0,
    form: str = "exact",
    caveat: str = "",
) -> Bound:
    """HS08 Theorem 2, with its minimum over t ≤ k.

    With probability 1 - δ, for all sizes k at once, the expected squared distance of a new row from
    the span of the first k chosen rows is at most::

        min_{t≤k} [ τ_t/(m-t) + R √( (ln C(m, t) + ln(m/δ)) / (2(m-t)) ) ]

    A span of k rows contains that of the first t, so what bounds the one bounds the other: the
    bound does not increase in k.

    Parameters
    ----------
    size : array of int
        Sizes in increasing order, at least 1, of spans that contain each other. The minimum is over
        these.
    residual : array
        τ_t, the sum of k(x, x) - ‖Px‖² over all rows; it vanishes on those in the basis.
    n_rows : float
        m.
    delta : float
        δ, in (0, 1).
    radius : float
        R, the largest k(x, x) of any row, which must be known before seeing the data.
    form : {"exact", "corrected", "printed"}
        How subsets are counted, and where R stands. ``"exact"`` is the formula above.
        ``"corrected"`` bounds the count as the paper does, by t ln(em/t) + ln(2m/δ). ``"printed"``
        is the formula of the paper letter by letter, with R inside the root. Hoeffding's inequality
        for losses in [0, R] has R² there, so for R > 1 the printed form is too small and not a
        bound; for R < 1 it is larger than necessary. For R = 1 both forms are the same.
    caveat : str
        Assumptions to print with the bound.

    Returns
    -------
    bound : Bound
        Infinite where every row is in the basis of all sizes up to this one.
    """
    value = compression_terms(size, residual, n_rows, delta, radius=radius, form=form)
    if np.any(np.diff(np.asarray(size)) <= 0):
        raise ValueError("size must increase: the bound is a minimum over all smaller sizes.")
    if form == "printed" and not math.isclose(radius, 1.0, rel_tol=1e-12):
        caveat = "; ".join(filter(None, [caveat, _misplaced(radius)]))
    return Bound(
        f"Hussain & Shawe-Taylor 2008, Theorem 2{_FORMS[form]}",
        RESIDUAL,
        np.asarray(size, np.intp),
        np.minimum.accumulate(value),
        trivial=radius,
        confidence=1.0 - delta,
        caveat=caveat,
    )


def compression_terms(
    size: ArrayLike,
    residual: ArrayLike,
    n_rows: float,
    delta: float,
    *,
    radius: float = 1.0,
    form: str = "exact",
) -> Floats:
    """The terms of which :func:`compression_bound` takes the minimum: the bracket at each size t.

    They fall while rows that join the basis explain others, and rise when they do not: the size to
    choose is that of the smallest term.
    """
    _check_delta(delta)
    if form not in _FORMS:
        raise ValueError(f"form must be one of {', '.join(map(repr, _FORMS))}, got {form!r}.")
    t, tau, m = np.asarray(size, np.float64), np.asarray(residual, np.float64), float(n_rows)
    outside = m - t
    alive = outside > 0
    outside = np.where(alive, outside, 1.0)
    if form == "exact":
        inside = np.minimum(t, m)
        count = gammaln(m + 1) - gammaln(inside + 1) - gammaln(m - inside + 1)
        count = count + math.log(m / delta)
    else:
        count = t * np.log(np.maximum(math.e * m / t, 1.0)) + math.log(2.0 * m / delta)
    factor = math.sqrt(radius) if form == "printed" else radius
    value = tau / outside + factor * np.sqrt(np.maximum(count, 0.0) / (2.0 * outside))
    return np.where(alive, value, np.inf)


def _misplaced(radius: float) -> str:
    """What is wrong with the printed form if R is not 1."""
    fault = "too small, and not a bound" if radius > 1.0 else "larger than need be"
    return (
        f"the paper has R = {radius:.4g} inside the root where Hoeffding's inequality has R²: "
        f"{fault}"
    )


def kpca_bound(
    eigenvalues: ArrayLike,
    trace: float,
    squares: float,
    n_rows: float,
    delta: float,
    *,
    radius: float = 1.0,
    caveat: str = "",
) -> Bound:
    """The bound of Shawe-Taylor et al. (2005) for kernel PCA, to compare with.

    With probability 1 - δ the expected squared distance of a new row from the span of the first k
    eigenvectors is at most, λ being the eigenvalues of the uncentred kernel matrix::

        min_{l≤k} [ (tr K - Σ_{i≤l} λ_i)/m + (1+√l)/√m √((2/m) Σ_i k(x_i, x_i)²) ]
        + R √((18/m) ln(2m/δ))

    Eigenvalues of an approximation from below make it larger, so that it still holds.

    Parameters
    ----------
    eigenvalues : array
        λ, largest first; sizes are 1, …, as many as there are.
    trace, squares : float
        tr K and Σ_i k(x_i, x_i)².
    n_rows, delta, radius, caveat
        As in :func:`compression_bound`.

    Returns
    -------
    bound : Bound
    """
    _check_delta(delta)
    spectrum, m = np.asarray(eigenvalues, np.float64), float(n_rows)
    k = np.arange(1, len(spectrum) + 1)
    tail = np.maximum(trace - np.cumsum(spectrum), 0.0) / m
    capacity = (1.0 + np.sqrt(k)) / math.sqrt(m) * math.sqrt(2.0 * squares / m)
    # Weights may add up to less than one row, of which nothing is proved.
    chance = radius * math.sqrt(18.0 / m * math.log(2.0 * max(m, 1.0) / delta))
    return Bound(
        "Shawe-Taylor et al. 2005, kernel PCA",
        RESIDUAL,
        k.astype(np.intp),
        np.minimum.accumulate(tail + capacity) + chance,
        trivial=radius,
        confidence=1.0 - delta,
        caveat=caveat,
    )


def correlation_bound(
    size: ArrayLike,
    errors: ArrayLike,
    n_rows: float,
    delta: float,
    *,
    tolerance: float,
    dimension: ArrayLike | None = None,
    printed: bool = False,
    caveat: str = "",
) -> Bound:
    """HS08 Theorem 4, with the dimension of f_x - f_y.

    How often projections of a new pair differ by more than α: Theorem 3
    (:func:`matching_pursuit_bound`) with D in place of k + 1. The paper has k + 1 here too, but
    f_x - f_y has k coefficients in each view, so D = 2k + 1 with a constant.

    Parameters
    ----------
    size : array of int
        k, pairs in the basis.
    errors : array
        Pairs outside the basis with |f_x - f_y| > α.
    n_rows : float
        m.
    delta : float
        δ, in (0, 1).
    tolerance : float
        α, fixed before the data were seen.
    dimension : array of int, optional
        D, by default 2k + 1; fewer where functions of a view depend on each other. Not for
        ``printed``.
    printed : bool
        The form of the paper: counts bounded as there, and D = k + 1, which its proof does not
        cover.
    caveat : str
        Assumptions to print with the bound.

    Returns
    -------
    bound : Bound
    """
    _check_delta(delta)
    k = np.asarray(size, np.intp)
    if printed:
        dimension = k + 1
        fault = "the paper counts k + 1 dimensions where two views have 2k + 1: not proved"
        caveat = "; ".join(filter(None, [caveat, fault]))
    elif dimension is None:
        dimension = 2 * k + 1
    return Bound(
        f"Hussain & Shawe-Taylor 2008, Theorem 4{_FORMS['printed'] if printed else ''}",
        f"the probability that the views of a new pair differ by more than {tolerance:.3g}",
        k,
        matching_pursuit_bound(size, errors, n_rows, delta, dimension=dimension, printed=printed),
        trivial=1.0,
        confidence=1.0 - delta,
        caveat=caveat,
    )


def _check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}.")
