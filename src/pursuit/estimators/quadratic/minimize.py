"""Sparse greedy quadratic minimisation, for any psd matrix (SB01 Algorithm 1, Z03 §6)."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate, relative_gap
from pursuit.estimators.inputs import positive, seeded
from pursuit.estimators.quadratic.columns import (
    Columns,
    ExactBound,
    GivenCompanion,
    LowerBound,
    OperatorColumns,
    SecondPursuit,
    ShiftCompanion,
    as_columns,
    definite_slack,
    evaluate,
    found_shift,
    indefinite,
    is_psd,
    unbounded,
)
from pursuit.estimators.scales import in_range, kept
from pursuit.greedy import AllCandidates, CostMeter, FreshSubset, GapBelow, MaxSize, Path, Pursuit
from pursuit.greedy.loop import Candidates
from pursuit.linalg import NotPositiveDefiniteError, Workers
from pursuit.objectives import QuadraticPursuit
from pursuit.rounding import joined

EXACT_VARIABLES = 2000
"""Up to this many variables an array or a sparse matrix is decomposed, which takes O(n³).

Its definiteness is then checked, and the minimum known; beyond, only the pivots that are read are
checked.
"""

_ALL = "all vectors x"


@dataclass(frozen=True)
class QuadraticSolution:
    """A vector of few terms, and how far its value can be from the minimum.

    Attributes
    ----------
    coef : array of shape (n,)
        x, zeros included.
    indices : array of int
        Positions of the entries that may differ from zero, in the order of choice.
    value : float
        ½x'Hx - b'x, the least over all vectors with these terms.
    path : Path
        Value, relative gap and cost after each term; ``entries`` counts those of H.
    certificate : Certificate or None
        The value and a lower bound on the minimum over all vectors; None if none is proved.
    n_columns : int
        Number of columns of H that were read; those of an operator may count more than once.
    """

    coef: Floats
    indices: Indices
    value: float
    path: Path
    certificate: Certificate | None
    n_columns: int

    def __str__(self) -> str:
        text = f"{len(self.indices)} of {len(self.coef)} terms, ½x'Hx - b'x = {self.value:.6g}"
        if self.certificate is None:
            return f"{text}; no lower bound is proved: pass shift"
        proof = self.certificate
        return (
            f"{text}, at most {proof.gap:.3g} above the minimum over {proof.over} (relative gap "
            f"{proof.relative_gap:.3g}, {proof.kind})"
        )


@in_range
def minimize_quadratic(
    H: Any,
    b: ArrayLike,
    *,
    n_terms: int,
    pool_size: int | None = 59,
    tol: float | None = None,
    random_state: Any = None,
    shift: ArrayLike | None = None,
    companion: tuple[Any, ArrayLike, float, float] | None = None,
) -> QuadraticSolution:
    """Minimise ½x'Hx - b'x with few nonzero entries of x, for any psd matrix H.

    Sparse greedy quadratic minimisation, Algorithm 1 of Smola and Bartlett (2001), "SB01"; §6 of
    Zhang (2002b) is about the same problem. Every step looks at ``pool_size`` random entries, adds
    the one that makes the minimum over all chosen entries lowest, and goes to that minimum. A
    second pursuit, on a companion problem, bounds from below what the value can become.

    Parameters
    ----------
    H : array, sparse matrix or LinearOperator, of shape (n, n)
        Symmetric and positive semi-definite (psd). Only the columns of a sparse matrix that are
        needed become dense. An operator is multiplied with one unit vector per candidate.
    b : array of shape (n,)
        The linear part.
    n_terms : int
        Largest number of entries of x that may differ from zero.
    pool_size : int or None, default 59
        Number of candidates drawn at every step; None, or n and more, means all. The best of 59 is
        among the best twentieth of all with probability .95.
    tol : float or None, default None
        Stop when the certificate's ``relative_gap`` is at most this.
    random_state : int, RandomState or None, default None
        Seed of the draws.
    shift : float or array of shape (n,), optional
        d > 0 such that H - diag(d) is psd, such as the ridge of a regularised problem. For
        H = K + σ²1 pass σ².
    companion : tuple (H*, b*, scale, constant), optional
        A problem for which you know that min ½x'Hx - b'x = -constant - scale · min ½z'H*z - b*'z.
        For SB01's own problem, H = K² + σ²K and b = Ky, it is (K + σ²1, y, σ², ½‖y‖²).

    Returns
    -------
    solution : QuadraticSolution

    Raises
    ------
    ValueError
        If H turns out not to be psd, ½x'Hx - b'x to be unbounded, or ``shift`` to be too large, or
        if ``tol`` is given and no lower bound is proved.

    Notes
    -----
    ``certificate.upper`` is the value, ``certificate.lower`` at most the minimum over all x, and
    ``relative_gap`` SB01's gap(), 2(upper - lower)/(-upper - lower). What is proved, and how:

    - ``shift`` given (kind "second pursuit"): q(x) ≥ q(v) - ½Σ(b - Hv)²/d for all x and every v,
      and the second pursuit makes the right side large with as many terms of v. For H = K + σ²1
      this is SB01's Theorem 1, eq. (8). It holds if H - diag(d) is psd, which is checked up to
      2 000 variables, of operators never.
    - ``companion`` given (kind "second pursuit"): eq. (7). It holds if the identity does, which is
      not checked.
    - neither, and up to 2 000 variables that are not an operator (kind "exact"): the minimum, from
      an eigenvalue decomposition. Eigenvalues within 8nε of zero, relative to the largest, count as
      zero, and b must lie in the range of H up to rounding.
    - neither, and more variables: as for ``shift``, with d from Gershgorin's circles, where every
      diagonal entry exceeds the sum of the others in its row. Elsewhere, and for operators, nothing
      is proved: ``certificate`` is None.

    Lower bounds are reduced by the rounding of their sums, but not by that of an operator's
    products.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import minimize_quadratic
    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(size=(300, 400))
    >>> y = A[:, :5].sum(axis=1) + 0.1 * rng.normal(size=300)
    >>> H, b = A.T @ A + 30.0 * np.eye(400), A.T @ y
    >>> solution = minimize_quadratic(H, b, n_terms=5, pool_size=None)
    >>> np.sort(solution.indices)
    array([0, 1, 2, 3, 4])
    >>> solution.certificate.lower <= solution.value
    True
    """
    matrix, vector = as_columns(H), _vector("b", b)
    if len(vector) != matrix.n:
        raise ValueError(f"b must have {matrix.n} entries, as H has columns, got {len(vector)}.")
    for name, number in (("n_terms", n_terms), ("pool_size", pool_size)):
        whole = isinstance(number, numbers.Integral) and number >= 1
        if not whole and not (name == "pool_size" and number is None):
            raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}.")
    if tol is not None:
        positive("tol", tol)
    scale = _likely_decrease(matrix, vector)
    # Each pursuit draws for itself: what is chosen does not depend on what is proved.
    draws = seeded(random_state).spawn(2)
    everyone = pool_size is None or pool_size >= matrix.n
    first, second = (
        AllCandidates() if everyone else FreshSubset(int(pool_size or 0), rng) for rng in draws
    )
    small = not matrix.costly and matrix.n <= EXACT_VARIABLES
    with Workers() as workers:
        lower = _lower_bound(matrix, vector, small, shift, companion, second, workers)
        if tol is not None and lower is None:
            raise ValueError(
                "tol needs a lower bound on the minimum, and none can be proved from this H alone: "
                "pass shift, or tol=None."
            )
        rules: list[Any] = [MaxSize(int(n_terms), "n_terms")]
        if lower is not None:
            rules.insert(0, GapBelow(-np.inf if tol is None else tol, partial(_gap, lower)))
        known = None if matrix.costly else matrix.diagonal(np.arange(matrix.n))
        try:
            objective = QuadraticPursuit(
                matrix.diagonal if known is None else known,
                vector[:, None],
                matrix.columns,
                capacity=int(n_terms),
                workers=workers,
                look_ahead=False,
                known_psd=small,
            )
            pursuit = Pursuit(objective, CostMeter(matrix), candidates=first, scale=scale)
            path = pursuit.run(rules)
        except NotPositiveDefiniteError as error:
            raise indefinite() from error
    return _solution(matrix, vector, objective, path, lower)


def _gap(lower: LowerBound, pursuit: Pursuit) -> float:
    """SB01's gap after as many steps of the second pursuit as the first has taken."""
    return relative_gap(pursuit.objective.value, lower.advance(pursuit.size), 0.0)


def _solution(
    matrix: Columns, b: Floats, objective: QuadraticPursuit, path: Path, lower: LowerBound | None
) -> QuadraticSolution:
    """The solution, with its value computed again from the columns of H."""
    chosen, n = objective.chosen, matrix.n
    coef = np.zeros(n)
    if len(chosen):
        coef[chosen] = objective.coefficients()[:, 0]
    upper = evaluate(matrix, b, chosen, coef[chosen]).value
    value, certificate = float(upper.value), None
    if lower is not None:
        bound = lower.proved()
        least = float(bound.low)
        if least > value + 1e-6 * abs(least):
            raise ValueError(
                f"the lower bound {least:.6g} lies above the value {value:.6g} of a vector: shift "
                "or companion does not belong to this H and b."
            )
        found = Certificate.proved(
            joined([upper]),
            joined([bound]),
            np.zeros(1),
            lower.kind,
            trivial=-np.inf,
            over=_ALL,
            baseline="x = 0",
            remedy="H is too close to singular for float64: add a multiple of the identity",
        )
        certificate = kept(found)
        gap = path.gap.copy()
        gap[-1:] = found.relative_gap
        path = replace(path, gap=gap)
    return QuadraticSolution(coef, chosen, value, path, certificate, matrix.n_columns)


def _lower_bound(
    matrix: Columns,
    b: Floats,
    small: bool,
    shift: ArrayLike | None,
    companion: tuple[Any, ArrayLike, float, float] | None,
    pool: Candidates,
    workers: Workers,
) -> LowerBound | None:
    """The lower bound on the minimum; H is checked where that costs little."""
    whole = None if isinstance(matrix, OperatorColumns) or not small else matrix.dense()
    slack = 0.0 if whole is None else definite_slack(whole)
    if companion is not None:
        if shift is not None:
            raise ValueError("shift and companion prove the same thing: pass one of them.")
        if whole is not None and not is_psd(whole, slack):
            raise indefinite()
        return SecondPursuit(_given_companion(companion), pool, workers)
    if shift is None and whole is not None:
        return ExactBound(whole, b)
    d = found_shift(matrix) if shift is None else _checked_shift(shift, matrix.n)
    if d is None:
        return None
    if whole is not None:
        # A Cholesky factor in working precision proves a slightly smaller shift.
        d = d - 2 * slack
        if d.min() <= 0 or not is_psd(whole - np.diag(d), slack):
            raise ShiftCompanion(matrix, b, d).refusal()
    return SecondPursuit(ShiftCompanion(matrix, b, d), pool, workers)


def _checked_shift(shift: ArrayLike, n: int) -> Floats:
    d = np.asarray(shift, dtype=np.float64)
    if d.shape not in ((), (n,)) or not (np.all(np.isfinite(d)) and np.all(d > 0)):
        raise ValueError("shift must be a positive number, or one for each variable.")
    return np.full(n, d)


def _given_companion(companion: Any) -> GivenCompanion:
    if not isinstance(companion, tuple) or len(companion) != 4:
        raise ValueError("companion must be a tuple (H*, b*, scale, constant).")
    matrix, b = as_columns(companion[0], "the matrix of companion"), _vector("b*", companion[1])
    if len(b) != matrix.n:
        raise ValueError(f"b* of companion must have {matrix.n} entries, got {len(b)}.")
    scale, constant = positive("scale of companion", companion[2]), float(companion[3])
    return GivenCompanion(matrix, b, scale, constant)


def _likely_decrease(matrix: Columns, b: Floats) -> float:
    """½(b'b)²/b'Hb, the decrease of a step along b; much smaller gains are rounding."""
    product = matrix.product(b)
    square, curvature = float(b @ b), float(b @ product)
    size = float(np.linalg.norm(b) * np.linalg.norm(product))
    if curvature < -1e-10 * size:
        raise indefinite()
    if square == 0.0:
        return 0.0
    if size == 0.0:
        raise unbounded("H @ b is zero")
    return 0.5 * square**2 / curvature if curvature > 0 else 0.0


def _vector(name: str, values: ArrayLike) -> Floats:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"{name} must be a vector, got shape {vector.shape}.")
    if not np.all(np.isfinite(vector)):
        raise ValueError(f"{name} contains NaN or infinity.")
    return vector
