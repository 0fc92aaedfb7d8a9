"""Kernel values against 60 digits: `Kernel.error` must bound what rounding has done to them.

A seed is a kernel, maybe a sum or product of several, and rows that are hard for it: tiny and far
beside the length scale, far from the origin, equal and nearly equal, sparse, float32, integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.gaussian_process import kernels as gp

from pursuit.kernels import Categorical, Extent, Kernel, compile_kernel, on_columns
from torture import Fuzzer, Report
from torture.exact_kernels import exact, exact_diag

N_ROWS = 12

LEAVES = (
    "gaussian gaussian_ard matern12 matern32 matern52 matern matern_half rational periodic dot "
    "laplacian poly cosine chi2 broken_power columns categories"
).split()

ROWS = "standard tiny small large huge offset equal near sparse mixed single whole".split()


@dataclass(frozen=True)
class Problem:
    """A kernel and two sets of rows, as the kernel gets them."""

    name: str
    kernel: Kernel
    A: Any
    B: Any

    @property
    def extent(self) -> Extent:
        """Where the rows of both sets lie."""
        return Extent.of(self.A).joined(Extent.of(self.B))


@dataclass(frozen=True)
class Judged:
    """The bound, and the largest error of tile and diagonal beside √(k(a, a) k(b, b))."""

    bound: float
    worst: float

    @property
    def holds(self) -> bool:
        """Whether the bound is true."""
        return self.worst <= self.bound


def leaf(name: str, d: int, rng: np.random.Generator) -> Any:
    """Return a random kernel object of scikit-learn, or a node."""
    scale = float(10 ** rng.uniform(-0.5, 0.5))
    gamma = float(10 ** rng.uniform(-1.5, 0.5))
    if name == "matern":
        order = rng.choice([rng.uniform(0.05, 1.0), rng.uniform(1.0, 6.0), rng.uniform(30.0, 60.0)])
        return gp.Matern(scale, nu=float(order))
    if name == "categories":
        u = [rng.standard_normal((3, 2)) if rng.random() < 0.5 else None]
        return Categorical([d - 1], correlation=float(rng.uniform(0.01, 0.99)), factors=u)
    if name == "columns":
        some = sorted(rng.choice(d, int(rng.integers(1, d + 1)), replace=False).tolist())
        return on_columns(leaf(str(rng.choice(LEAVES[:9])), len(some), rng), some)
    if name in ("laplacian", "cosine", "chi2"):
        return gp.PairwiseKernel(gamma, metric=name)
    if name == "poly":
        more = {"coef0": float(rng.choice([0.0, 1.0, 3.0])), "degree": float(rng.integers(1, 6))}
        return gp.PairwiseKernel(gamma, metric="poly", pairwise_kernels_kwargs=more)
    makers = {
        "gaussian": lambda: gp.RBF(scale),
        "gaussian_ard": lambda: gp.RBF(10 ** rng.uniform(-0.5, 0.5, d)),
        "matern12": lambda: gp.Matern(scale, nu=0.5),
        "matern32": lambda: gp.Matern(scale, nu=1.5),
        "matern52": lambda: gp.Matern(10 ** rng.uniform(-0.5, 0.5, d), nu=2.5),
        "matern_half": lambda: gp.Matern(scale, nu=float(rng.integers(3, 29)) + 0.5),
        "rational": lambda: gp.RationalQuadratic(scale, alpha=float(10 ** rng.uniform(-1, 3))),
        "periodic": lambda: gp.ExpSineSquared(scale, float(10 ** rng.uniform(-1, 1))),
        "dot": lambda: gp.DotProduct(float(rng.choice([0.0, 1.0, 10.0]))),
        "broken_power": lambda: gp.RBF(scale) ** float(rng.choice([0.5, 1.5, 2.7])),
    }
    return makers[name]()


def composed(depth: int, d: int, rng: np.random.Generator) -> tuple[str, Any]:
    """Return a random sum, product, multiple or power of kernels, and what it is called."""
    kind = rng.choice(["leaf", "sum", "product", "multiple", "power"]) if depth else "leaf"
    if kind == "leaf":
        name = str(rng.choice([one for one in LEAVES if one != "chi2"]))
        return name, leaf(name, d, rng)
    name, first = composed(depth - 1, d, rng)
    if kind == "multiple":
        return f"c*{name}", gp.ConstantKernel(float(10 ** rng.uniform(-6, 6))) * first
    if kind == "power":
        return f"({name})^p", first ** int(rng.integers(2, 5))
    other, second = composed(depth - 1, d, rng)
    if kind == "sum":
        return f"({name} + {other})", first + second
    return f"{name} * {other}", first * second


def rows(name: str, d: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return two sets of rows, which share some."""
    X = rng.standard_normal((N_ROWS, d))
    half = N_ROWS // 2
    if name in ("equal", "near", "huge"):
        moved = rng.standard_normal((half, d)) * 10 ** rng.uniform(-16, -1, (half, 1))
        X[half:] = X[:half] * (1.0 + (name != "equal") * moved)
    if name in ("sparse", "mixed"):
        X[rng.random(X.shape) < 0.6] = 0.0
        X *= 10 ** rng.uniform(-1, 4)
    X *= {
        "tiny": 10 ** rng.uniform(-9, -6),
        "small": 10 ** rng.uniform(-6, 0),
        "large": 10 ** rng.uniform(0, 3),
        "huge": 10 ** rng.uniform(3, 12),
    }.get(name, 1.0)
    if name == "offset":
        X += 10 ** rng.uniform(0, 8)
    if name == "single":
        X = X.astype(np.float32)
    if name == "whole":
        X = np.rint(3.0 * X).astype(np.int64)
    A, B = X[: N_ROWS - 4], X[4:]
    if name in ("sparse", "mixed"):
        A = sparse.csr_array(A)
        B = sparse.csr_array(B) if name == "sparse" else B
    return A, B


def problem(seed: int, kernel: str | None = None, kind: str | None = None) -> Problem:
    """Return the problem of a seed, with a kernel and rows of some name where they are given."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 2, 3, 5, 10, 20]))
    if kernel is None:
        name, given = composed(int(rng.integers(0, 3)), d, rng)
    else:
        name, given = kernel, leaf(kernel, d, rng)
    kind = str(rng.choice(ROWS)) if kind is None else kind
    A, B = rows(kind, d, rng)
    if "chi2" in name:
        if kind in ("sparse", "mixed"):
            A, B = (X.toarray() if sparse.issparse(X) else X for X in (A, B))
        A, B = abs(A), abs(B)
    if "categories" in name:
        A, B = (_with_codes(X, rng) for X in (A, B))
    return Problem(f"{name} of {kind} rows, d = {d}", compile_kernel(given, n_features=d)[0], A, B)


def _with_codes(X: Any, rng: np.random.Generator) -> Any:
    """Put codes 0 to 3 into the last column; 3 is no level."""
    dense = X.toarray() if sparse.issparse(X) else X.copy()
    dense[:, -1] = rng.integers(0, 4, len(dense))
    return sparse.csr_array(dense) if sparse.issparse(X) else dense


def judged(given: Problem) -> Judged | None:
    """Compare tile and diagonal with 60 digits; None where they overflow."""
    with np.errstate(over="ignore"):
        tile, diagonal = given.kernel.tile(given.A, given.B), given.kernel.diag(given.A)
    if not (np.isfinite(tile).all() and np.isfinite(diagonal).all()):
        return None
    own = exact_diag(given.kernel, given.A)
    squares = np.multiply.outer(own, exact_diag(given.kernel, given.B))
    errors = abs(exact(given.kernel, given.A, given.B) - tile)
    # √ of the share of squares: numbers that a power has made tiny stay numbers.
    shares = [_share(e * e, s) for e, s in zip(errors.ravel(), squares.ravel(), strict=True)]
    of_diagonal = [_share(abs(e - x), e) for e, x in zip(own, diagonal, strict=True)]
    worst = max(np.sqrt(max(shares)), max(of_diagonal))
    return Judged(given.kernel.error(given.extent), float(worst))


def _share(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else (np.inf if part else 0.0)


def run(seed: int) -> Report:
    """Judge one problem."""
    report = Report()
    given = problem(seed)
    result = judged(given)
    if result is None:
        report.counts["overflows"] += 1
        return report
    report.counts.update(problems=1, checks=given.A.shape[0] * (given.B.shape[0] + 1))
    report.counts["informative"] += result.bound < 1e-6
    if not result.holds:
        report.failures.append(
            f"seed {seed}: {given.name}: error {result.worst:.3g} beyond {result.bound:.3g}"
        )
    return report


FUZZER = Fuzzer("kernel_errors", run, share=0.5)
