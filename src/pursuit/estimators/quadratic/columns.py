"""A symmetric psd matrix by its columns, and how low ½x'Hx - b'x can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator

from pursuit._types import Floats, Indices
from pursuit.bounds import circle_shift, companion_lower_bound, residual_lower_bound
from pursuit.greedy import CostMeter, Pursuit
from pursuit.greedy.loop import Candidates
from pursuit.linalg import EPS, NotPositiveDefiniteError, Workers
from pursuit.objectives import QuadraticPursuit
from pursuit.rounding import Rounded, dots, gamma

_OPERATOR_BLOCK = 64
"""Columns of an operator computed and kept at a time; more need fewer products and more memory."""
_SQUARE_BLOCK = 256
"""Columns of H whose squares are summed at a time; more need more memory."""
_ASYMMETRY = 1e-8
"""Largest difference between H and H', relative to the largest entry, that counts as rounding."""
_INSIDE = 1e-9
"""Fraction of a shift that the second pursuit leaves unused.

If H is diag(shift) up to rounding, HD⁻¹H - H is then this fraction of H instead of rounding alone.
"""
_CLEAR_GAP = 1e-6
"""Smallest nonzero eigenvalue, relative to the largest, that is taken at face value.

A smaller one leaves open how large b's part in the null space of H is by rounding; the part is then
judged as if the eigenvalue were this large.
"""


class MatrixColumns:
    """An array or a sparse matrix; only the columns that are asked for become dense."""

    costly = False

    def __init__(self, H: Any) -> None:
        self.n, self.n_columns = H.shape[0], 0
        self.sparse = bool(sparse.issparse(H))
        self.matrix: Any = sparse.csr_array(H, dtype=np.float64) if self.sparse else H
        self._diagonal: Floats = self.matrix.diagonal()

    @property
    def entries(self) -> int:
        """Number of entries of the columns that have been read."""
        return int(self.n * self.n_columns)

    def dense(self) -> Floats:
        """All of H as an array."""
        return np.asarray(self.matrix.toarray() if self.sparse else self.matrix)

    def diagonal(self, index: Indices) -> Floats:
        """Entries H_ii for some i."""
        return np.asarray(self._diagonal[index])

    def columns(self, index: Indices) -> Floats:
        """Columns of H, one per row of the result."""
        self.n_columns += len(index)
        rows = self.matrix[index]
        return np.asarray(rows.toarray() if self.sparse else rows)

    def product(self, vectors: Floats) -> Floats:
        """H @ vectors."""
        return np.asarray(self.matrix @ vectors)

    def squared_columns(self, index: Indices, weights: Floats) -> Floats:
        """Σ_j w_j H_ji² for some i."""
        self.n_columns += len(index)
        rows = self.matrix[index]
        if self.sparse:
            return np.asarray(rows.power(2) @ weights)
        return np.asarray(np.einsum("ij,ij,j->i", rows, rows, weights))


class OperatorColumns:
    """An operator: a column is its product with a unit vector, and the last columns are kept."""

    costly = True

    def __init__(self, H: LinearOperator) -> None:
        self.n, self.n_columns = H.shape[0], 0
        self._operator = H
        self._kept: dict[int, Floats] = {}

    @property
    def entries(self) -> int:
        """Number of entries of the columns that have been read."""
        return int(self.n * self.n_columns)

    def diagonal(self, index: Indices) -> Floats:
        """Entries H_ii for some i, from their columns."""
        blocks = _blocks(index)
        parts = [self.columns(part)[np.arange(len(part)), part] for part in blocks]
        return np.concatenate([np.empty(0), *parts])

    def columns(self, index: Indices) -> Floats:
        """Columns of H, one per row of the result; all new ones in one product."""
        new = np.array([i for i in index.tolist() if i not in self._kept], dtype=np.intp)
        known = {i: self._kept[i] for i in index.tolist() if i in self._kept}
        if len(new):
            units = np.zeros((self.n, len(new)))
            units[new, np.arange(len(new))] = 1.0
            block = self.product(units)
            self.n_columns += len(new)
            if not np.all(np.isfinite(block)):
                raise ValueError("H has products that are NaN or infinite: check its matvec.")
            self._kept = {int(i): block[:, j] for j, i in enumerate(new)}
        return np.array([known[i] if i in known else self._kept[i] for i in index.tolist()])

    def product(self, vectors: Floats) -> Floats:
        """H @ vectors."""
        return np.asarray(self._operator @ vectors, dtype=np.float64)

    def squared_columns(self, index: Indices, weights: Floats) -> Floats:
        """Σ_j w_j H_ji² for some i."""
        parts = [self.columns(part) ** 2 @ weights for part in _blocks(index)]
        return np.concatenate([np.empty(0), *parts])


Columns = MatrixColumns | OperatorColumns


def as_columns(H: Any, name: str = "H") -> Columns:
    """Columns of the matrix that a user passed, checked where this costs little."""
    operator = isinstance(H, LinearOperator)
    matrix: Any = H if operator or sparse.issparse(H) else np.asarray(H)
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        raise ValueError(f"{name} must be a square matrix, got shape {matrix.shape}.")
    kind = np.dtype(matrix.dtype).kind if matrix.dtype is not None else "f"
    if kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, got dtype {matrix.dtype}.")
    if operator:
        columns = OperatorColumns(matrix)
        _check_operator(columns, name)
        return columns
    if sparse.issparse(matrix):
        known = MatrixColumns(matrix)
        turned = known.matrix - known.matrix.T
        asymmetry = float(np.abs(turned.data).max(initial=0.0))
        _check_entries(known.matrix.data, asymmetry, name)
        # What is proved is proved of a symmetric matrix.
        return MatrixColumns(known.matrix - 0.5 * turned) if asymmetry > 0.0 else known
    dense = np.ascontiguousarray(matrix, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        asymmetry = float(np.abs(dense - dense.T).max())
    _check_entries(dense, asymmetry, name)
    return MatrixColumns(0.5 * (dense + dense.T) if asymmetry > 0.0 else dense)


def _check_entries(numbers: Floats, asymmetry: float, name: str) -> None:
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} contains NaN or infinity: leave out such rows and columns.")
    if asymmetry > _ASYMMETRY * float(np.abs(numbers).max(initial=0.0)):
        raise ValueError(
            f"{name} must be symmetric, and differs from its transpose by {asymmetry:.3g}: use "
            f"({name} + {name}.T) / 2, which has the same quadratic form."
        )


def _check_operator(H: OperatorColumns, name: str) -> None:
    """u'Hv = v'Hu for two random vectors: the least that a symmetric operator does."""
    pair = np.random.default_rng(0).standard_normal((H.n, 2))
    products = H.product(pair)
    if products.shape != pair.shape or not np.all(np.isfinite(products)):
        raise ValueError(f"{name} has products that are NaN, infinite or of the wrong shape.")
    one, two = float(pair[:, 0] @ products[:, 1]), float(pair[:, 1] @ products[:, 0])
    size = np.linalg.norm(pair[:, 0]) * np.linalg.norm(products[:, 1])
    if abs(one - two) > _ASYMMETRY * float(size):
        raise ValueError(f"{name} must be symmetric: u'Hv and v'Hu are {one:.6g} and {two:.6g}.")


def _blocks(index: Indices) -> list[Indices]:
    return [
        index[start : start + _OPERATOR_BLOCK] for start in range(0, len(index), _OPERATOR_BLOCK)
    ]


@dataclass(frozen=True)
class Evaluated:
    """q(x) = ½x'Hx - b'x and b - Hx for an x of few terms, with bounds on their rounding."""

    value: Rounded
    residual: Rounded


def evaluate(H: Columns, b: Floats, support: Indices, x: Floats) -> Evaluated:
    """Evaluate value and residual from the columns of the support."""
    return _evaluated(H.columns(support), b, support, x)


def _evaluated(block: Floats, b: Floats, support: Indices, x: Floats) -> Evaluated:
    """The same, given these columns as the rows of a block."""
    absolute = np.abs(x) @ np.abs(block)
    product = Rounded.of(x @ block).widened(gamma(len(support) + 2) * absolute)
    return Evaluated(dots(x, 0.5 * product[support] - b[support]), b - product)


class ExactBound:
    """The minimum, from all eigenvalues of H, less its rounding."""

    kind = "exact"

    def __init__(self, H: Floats, b: Floats) -> None:
        self._lower = exact_lower_bound(H, b)

    def advance(self, n: int) -> float:
        """The bound, which does not depend on n."""
        return float(self._lower.value)

    def proved(self) -> Rounded:
        """The bound."""
        return self._lower


class ShiftCompanion:
    """-½b'D⁻¹b - q_c(v) ≤ min q, with q_c of matrix HD⁻¹H - H and vector HD⁻¹b - b.

    For H = K + σ²1 and D = σ²1 this is SB01's Q over σ²: K² + σ²K and Kb.
    """

    def __init__(self, H: Columns, b: Floats, shift: Floats) -> None:
        shift = (1.0 - _INSIDE) * shift
        self._H, self._b, self._shift = H, b, shift
        self.n, self.costly = H.n, H.costly
        self.linear = H.product(b / shift) - b
        self._constant = 0.5 * float(np.sum(b**2 / shift))

    def diagonal(self, index: Indices) -> Floats:
        """Σ_j H_ji²/d_j - H_ii."""
        parts = [index[i : i + _SQUARE_BLOCK] for i in range(0, len(index), _SQUARE_BLOCK)]
        squares = [self._H.squared_columns(part, 1.0 / self._shift) for part in parts]
        return np.concatenate([np.empty(0), *squares]) - self._H.diagonal(index)

    def columns(self, index: Indices) -> Floats:
        """Columns HD⁻¹He_i - He_i, one per row of the result."""
        block = self._H.columns(index)
        return self._H.product((block / self._shift).T).T - block

    def lower_bound(self, value: float) -> float:
        """The bound that a value of the companion gives."""
        return companion_lower_bound(value, 1.0, self._constant)

    def proved(self, support: Indices, v: Floats) -> Rounded:
        """The bound from q(v) and b - Hv, sums in which nothing cancels."""
        point = evaluate(self._H, self._b, support, v)
        return residual_lower_bound(point.value, point.residual, self._shift)

    def refusal(self) -> ValueError:
        """The error for a negative pivot."""
        return ValueError(
            "shift is too large: H less diag(shift) is not positive semi-definite to working "
            "precision. Pass a smaller one, or None."
        )


class GivenCompanion:
    """-constant - scale·q*(z) ≤ min q for a problem (H*, b*) of the caller's."""

    def __init__(self, H: Columns, b: Floats, scale: float, constant: float) -> None:
        self._H, self.linear, self._scale, self._constant = H, b, scale, constant
        self.n, self.costly = H.n, H.costly
        self.diagonal, self.columns = H.diagonal, H.columns

    def lower_bound(self, value: float) -> float:
        """The bound that a value of the companion gives."""
        return companion_lower_bound(value, self._scale, self._constant)

    def proved(self, support: Indices, z: Floats) -> Rounded:
        """The bound from q*(z), evaluated again."""
        point = evaluate(self._H, self.linear, support, z)
        return companion_lower_bound(point.value, self._scale, self._constant)

    def refusal(self) -> ValueError:
        """The error for a negative pivot."""
        return indefinite("the matrix of companion")


class SecondPursuit:
    """The second pursuit of SB01: a step on the companion for every step on the problem."""

    kind = "second pursuit"

    def __init__(
        self, companion: ShiftCompanion | GivenCompanion, pool: Candidates, workers: Workers
    ) -> None:
        self._companion = companion
        known = None if companion.costly else companion.diagonal(np.arange(companion.n))
        try:
            self._objective = QuadraticPursuit(
                companion.diagonal if known is None else known,
                companion.linear[:, None],
                companion.columns,
                capacity=64,
                workers=workers,
                look_ahead=False,
                known_psd=False,
            )
        except NotPositiveDefiniteError as error:
            raise companion.refusal() from error
        self._pursuit = Pursuit(self._objective, CostMeter(), candidates=pool)
        self._ended = False

    def advance(self, n: int) -> float:
        """The bound after at most n steps of this pursuit."""
        try:
            while self._pursuit.size < n and not self._ended:
                self._ended = self._pursuit.step() is not None
        except NotPositiveDefiniteError as error:
            raise self._companion.refusal() from error
        return self._companion.lower_bound(self._objective.value)

    def proved(self) -> Rounded:
        """The bound that the present coefficients prove, rounding included."""
        chosen = self._objective.chosen
        return self._companion.proved(chosen, self._objective.coefficients()[:, 0])


LowerBound = ExactBound | SecondPursuit


def indefinite(what: str = "H") -> ValueError:
    """The error for a matrix with a negative eigenvalue."""
    return ValueError(
        f"{what} must be positive semi-definite, and has a negative eigenvalue: add a multiple of "
        "the identity to it, or check how it was computed."
    )


def unbounded(detail: str) -> ValueError:
    """The error for a function without a minimum."""
    return ValueError(
        f"b is not in the range of H ({detail}): to working precision ½x'Hx - b'x falls without "
        "bound. Add a small multiple of the identity to H, or pass H @ z for some z as b."
    )


def exact_lower_bound(H: Floats, b: Floats) -> Rounded:
    """min ½x'Hx - b'x by an eigenvalue decomposition, O(n³), less a bound on its rounding.

    Eigenvalues within 8nε of 0, relative to the largest, count as 0. With v the minimiser found, s
    the smallest other eigenvalue and r = b - Hv, the minimum is at least q(v) - ½‖r‖²/s.

    Raises
    ------
    ValueError
        If H has a negative eigenvalue beyond rounding, or b a part outside its range.
    """
    n = len(H)
    eigenvalues, U = eigh(0.5 * (H + H.T))
    largest = float(np.abs(eigenvalues).max())
    cutoff = 8 * n * EPS * largest
    if eigenvalues[0] < -cutoff:
        raise indefinite()
    kept = eigenvalues > cutoff
    parts, size = U.T @ b, float(np.linalg.norm(b))
    if size == 0.0:
        return Rounded.of(0.0)
    outside = float(np.linalg.norm(parts[~kept]))
    smallest = float(eigenvalues[kept][0]) if kept.any() else largest
    if not kept.any() or outside > (
        8 * n * EPS * size * largest / max(smallest, _CLEAR_GAP * largest)
    ):
        raise unbounded(f"a part of relative size {outside / size:.2g} lies outside")
    v = U[:, kept] @ (parts[kept] / eigenvalues[kept])
    point = _evaluated(H, b, np.arange(n), v)
    return residual_lower_bound(point.value, point.residual, smallest - 0.5 * cutoff)


def definite_slack(H: Floats) -> float:
    """Bound on the rounding of H and of its Cholesky factor, in the smallest eigenvalue."""
    return 2 * (len(H) + 2) * EPS * float(np.abs(np.diag(H)).sum())


def is_psd(H: Floats, slack: float) -> bool:
    """Whether a Cholesky factor of H + slack·1 exists."""
    try:
        np.linalg.cholesky(H + slack * np.eye(len(H)))
    except np.linalg.LinAlgError:
        return False
    return True


def found_shift(H: Columns) -> Floats | None:
    """A shift by Gershgorin's circles; None for operators, and if the circles prove nothing."""
    if isinstance(H, OperatorColumns):
        return None
    absolute: Any = abs(H.matrix)
    return circle_shift(H.diagonal(np.arange(H.n)), np.asarray(absolute.sum(axis=1)).ravel())
