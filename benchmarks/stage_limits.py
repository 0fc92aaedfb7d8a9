"""What the stages of a fit of a sparse process cost at least, from their sizes.

m rows of d features, n basis functions. The least work of a stage is what its formula needs, with
half of each symmetric matrix and every kernel value once: what a stage does beyond it is what may
still be saved.

- learn: an evaluation of the evidence with its gradient on s rows fills half of a matrix (s²d),
  factors and inverts it (s³), and contracts it with the slopes (2s²d).
- choose: statistics of P candidates on a sketch of S rows (SP² + 2SPd), their kernel matrix, and n
  columns of a factor for all of them (Pn²).
- move: a step on B rows forms K'K of half its size (Bn²), fills K and takes its slopes (6Bnd) in
  float32, and factors an n x n matrix (n³/3); three fits on J rows judge the moves (Jn²).
- fit: one pass, mn² + 2mnd, and a factor of n columns in the order of choice (n³).
- calibrate: features of r reserved rows, and what each leaves when it is left out: 2rn² + 2rnd.
- certify: one product with the m x m kernel matrix by its half, m²d + 2m².
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from operator import add

JUDGING_FITS = 3  # Fits that judge the moves: before, in between and after.


@dataclass(frozen=True)
class Work:
    """Operations of products and kernel values in float64 and in float32; bytes of main memory."""

    flops: float = 0.0
    single_flops: float = 0.0
    values: float = 0.0
    single_values: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*map(add, astuple(self), astuple(other)))

    def __mul__(self, times: float) -> Work:
        return Work(*(times * part for part in astuple(self)))


@dataclass(frozen=True)
class Rates:
    """What one core does in a second: operations of products, exponentials, bytes moved."""

    flops: float
    single_flops: float
    values: float
    single_values: float
    bytes: float

    def product_seconds(self, work: Work) -> float:
        """Seconds of the products at the rate of a large square product of their type."""
        return work.flops / self.flops + work.single_flops / self.single_flops

    def value_seconds(self, work: Work) -> float:
        """Seconds of one exponential per kernel value, in the cache."""
        return work.values / self.values + work.single_values / self.single_values

    def byte_seconds(self, work: Work) -> float:
        """Seconds of moving the bytes."""
        return work.bytes / self.bytes

    def limit(self, work: Work) -> float:
        """Least seconds: a core computes in turn, and memory may be read meanwhile."""
        return max(self.product_seconds(work) + self.value_seconds(work), self.byte_seconds(work))


def learn(evaluations: Iterable[tuple[int, int]], d: int) -> Work:
    """Evaluations of the evidence: pairs of rows s and number. A matrix is moved four times."""
    total = Work()
    for s, times in evaluations:
        once = Work(flops=s**3 + 3.0 * s**2 * d, values=s**2 / 2, bytes=16.0 * s**2)
        total += once * times
    return total


def choose(P: int, S: int, n: int, d: int) -> Work:
    """The choice of n of P candidates on S rows. H is written, then read row by row."""
    matrix = Work(flops=float(P) ** 2 * d, values=P**2 / 2, bytes=16.0 * P**2)
    factor = Work(flops=float(P) * n**2, bytes=8.0 * P * n)
    return matrix + _sums(S, P, d) + factor


def move(steps: Iterable[tuple[int, int]], judged: int, d: int) -> Work:
    """Steps: pairs of rows B and points n, and fits on ``judged`` rows. K is moved three times."""
    total, size = Work(), 0
    for B, n in steps:
        total += Work(
            flops=n**3 / 3,
            single_flops=float(B) * n**2 + 6.0 * B * n * d,
            single_values=float(B) * n,
            bytes=12.0 * B * n,
        )
        size = n
    return total + _sums(judged, size, d) * JUDGING_FITS


def fit(m: int, n: int, d: int) -> Work:
    """The pass over all rows, and the factor."""
    return _sums(m, n, d) + Work(flops=float(n) ** 3, values=n**2 / 2, bytes=16.0 * n**2)


def calibrate(r: int, n: int, d: int) -> Work:
    """Two triangular solves for each of r rows."""
    return _sums(r, n, d) + Work(flops=float(r) * n**2)


def certify(m: int, d: int) -> Work:
    """One product with the kernel matrix of all rows; its tiles stay in the cache."""
    return Work(flops=float(m) ** 2 * (d + 2), values=m**2 / 2, bytes=8.0 * m * d)


def _sums(m: int, n: int, d: int) -> Work:
    """K'K of m rows and n points, K filled on the way and kept in the cache; rows are read."""
    flops = float(m) * n**2 + 2.0 * m * n * d
    return Work(flops=flops, values=float(m) * n, bytes=8.0 * m * d)
