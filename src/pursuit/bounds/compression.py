"""What a subspace chosen from the sample may miss of a new row (HS08 §2.2 and §4).

A span of t training rows is rebuilt from those rows alone, so it is a sample compression scheme:
the m - t other rows judge it as fresh ones would, once for each of the C(m, t) choices.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from pursuit.bounds.bound import Bound
from pursuit.bounds.vc import matching_pursuit_bound

Floats = NDArray[np.float64]

RESIDUAL = "the expected squared residual of a new row"


def compression_bound(
    size: ArrayLike,
    residual: ArrayLike,
    n_rows: float,
    delta: float,
    *,
    radius: float = 1.0,
    printed: bool = False,
    caveat: str = "",
) -> Bound:
    """HS08 Theorem 2, with R outside the root.

    With probability 1 - δ, for all sizes t at once, the expected squared distance of a new row from
    the span of the t chosen ones is at most::

        τ_t/(m-t) + R √( (ln C(m, t) + ln(m/δ)) / (2(m-t)) )

    ``printed`` bounds the count as the paper does, by t ln(em/t) + ln(2m/δ). There R stands inside
    the root, where the theorem fails for R > 1.

    Parameters
    ----------
    size : array of int
        t, at least 1.
    residual : array
        τ_t, the sum of k(x, x) - ‖Px‖² over all rows; it vanishes on those in the basis.
    n_rows : float
        m.
    delta : float
        δ, in (0, 1).
    radius : float
        R, the largest k(x, x) of any row, known before the data were seen.
    printed : bool
        The form of the paper, in place of the exact count.
    caveat : str
        What the reader must grant.

    Returns
    -------
    bound : Bound
        Infinite where no row is left outside the basis.
    """
    _check_delta(delta)
    t, tau, m = np.asarray(size, np.float64), np.asarray(residual, np.float64), float(n_rows)
    left = m - t
    alive = left > 0
    left = np.where(alive, left, 1.0)
    if printed:
        count = t * np.log(np.maximum(math.e * m / t, 1.0)) + math.log(2.0 * m / delta)
    else:
        inside = np.minimum(t, m)
        count = gammaln(m + 1) - gammaln(inside + 1) - gammaln(m - inside + 1)
        count = count + math.log(m / delta)
    value = tau / left + radius * np.sqrt(np.maximum(count, 0.0) / (2.0 * left))
    return Bound(
        f"Hussain & Shawe-Taylor 2008, Theorem 2{', as printed' if printed else ''}",
        RESIDUAL,
        np.asarray(size, np.intp),
        np.where(alive, value, np.inf),
        trivial=radius,
        confidence=1.0 - delta,
        caveat=caveat,
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
    chance = radius * math.sqrt(18.0 / m * math.log(2.0 * m / delta))
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
    dimension: ArrayLike,
    tolerance: float,
    printed: bool = False,
    caveat: str = "",
) -> Bound:
    """HS08 Theorem 4, with the dimension of f_x - f_y.

    How often projections of a new pair differ by more than α: Theorem 3 with D in place of k + 1.
    The paper has k + 1 here too, but f_x - f_y has k coefficients in each view, D = 2k + 1 with a
    constant.

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
    dimension : array of int
        D.
    tolerance : float
        α, fixed before the data were seen.
    printed : bool
        The counts bounded as in the paper, in place of the exact ones.
    caveat : str
        What the reader must grant.

    Returns
    -------
    bound : Bound
    """
    _check_delta(delta)
    return Bound(
        f"Hussain & Shawe-Taylor 2008, Theorem 4{', as printed' if printed else ''}",
        f"the probability that the views of a new pair differ by more than {tolerance:.3g}",
        np.asarray(size, np.intp),
        matching_pursuit_bound(size, errors, n_rows, delta, dimension=dimension, printed=printed),
        trivial=1.0,
        confidence=1.0 - delta,
        caveat=caveat,
    )


def _check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}.")
