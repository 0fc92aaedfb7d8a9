"""A basis of all rows is the full process: means and deviations against 60 digits.

Where scikit-learn's own solution is good to 1e-8 of the spread of y, `SparseGPRegressor` and
`SparseKernelRidge` with ``n_basis=m`` must be good to 1e-6.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp

from pursuit import SparseGPRegressor, SparseKernelRidge
from pursuit._types import Floats
from torture import Fuzzer, Report
from torture.exact_kernels import MP, Numbers, exact, numbers

WELL_SOLVED, REQUIRED = 1e-8, 1e-6
"""Error of scikit-learn up to which a problem counts, and the error allowed there."""

_sqrt = np.frompyfunc(MP.sqrt, 1, 1)


@dataclass(frozen=True)
class Case:
    """A regression with a given kernel, noise and weights, and rows to predict."""

    kernel: Any
    X: Floats
    y: Floats
    noise: float
    weights: Floats
    new: Floats


def case(seed: int) -> Case:
    """The problem of a seed."""
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(5, 61)), int(rng.integers(1, 6))
    X = rng.standard_normal((m, d))
    half = m // 2
    match rng.integers(5):
        case 0:
            X[half:] = X[: m - half]
        case 1:
            near = 10.0 ** rng.uniform(-9, -3)
            X[half:] = X[: m - half] + near * rng.standard_normal((m - half, d))
        case 2:
            X += 1e3
        case 3:
            X *= 10.0 ** rng.uniform(-1, 1)
    y = np.sin(X.sum(axis=1)) + 0.1 * rng.standard_normal(m)
    if rng.integers(2):
        y = rng.standard_normal(m)
    y *= 10.0 ** rng.uniform(-2, 2)
    weights = rng.uniform(0.2, 5.0, m) if rng.integers(2) else np.ones(m)
    near, far = X[rng.integers(m, size=6)], rng.standard_normal((3, d))
    new = np.vstack([X[:2], near + 0.5 * rng.standard_normal((6, d)), X.mean(0) + 3 * far])
    return Case(_kernel(rng), X, y, float(10.0 ** rng.uniform(-8, 0)), weights, new)


def _kernel(rng: np.random.Generator) -> gp.Kernel:
    length = float(10.0 ** rng.uniform(-1, 1.2))
    kinds = [
        gp.RBF(length),
        gp.Matern(length, nu=0.5),
        gp.Matern(length, nu=1.5),
        gp.Matern(length, nu=2.5),
        gp.RationalQuadratic(length, alpha=float(10.0 ** rng.uniform(-0.5, 1))),
        gp.DotProduct(1.0) ** int(rng.integers(2, 4)),
        gp.DotProduct(1.0) + gp.ConstantKernel(2.0),
    ]
    return kinds[rng.integers(len(kinds))]


def full_process(c: Case) -> tuple[Floats, Floats]:
    """Mean and deviation of the full process at the new rows, correct to the last digit."""
    K = exact(c.kernel, c.X)
    K[np.diag_indices_from(K)] += numbers(c.noise / c.weights)
    cross = exact(c.kernel, c.X, c.new)
    half = _half_solved(K, np.column_stack([numbers(c.y), cross]))
    mean = half[:, 1:].T @ half[:, 0]
    prior = np.array([exact(c.kernel, row[None])[0, 0] for row in c.new])
    left = prior - (half[:, 1:] ** 2).sum(axis=0)
    return mean.astype(float), _sqrt(left).astype(float)


def _half_solved(A: Numbers, B: Numbers) -> Numbers:
    """L⁻¹B for A = LL'."""
    L, out = np.zeros_like(A), B.copy()
    for i in range(len(A)):
        for j in range(i):
            L[i, j] = (A[i, j] - L[i, :j] @ L[j, :j]) / L[j, j]
        L[i, i] = MP.sqrt(A[i, i] - L[i, :i] @ L[i, :i])
        out[i] = (out[i] - L[i, :i] @ out[:i]) / L[i, i]
    return out


def predictions(c: Case) -> dict[str, tuple[Floats, ...]]:
    """Means, and deviations where there are some, by scikit-learn and by models of all rows."""
    m = len(c.X)
    dense = GaussianProcessRegressor(c.kernel, alpha=c.noise / c.weights, optimizer=None)
    sparse = SparseGPRegressor(
        c.kernel,
        noise=c.noise,
        n_basis=m,
        optimizer=None,
        calibration=None,
        refine=0,
        normalize_y=False,
        certificate=None,
        random_state=0,
    ).fit(c.X, c.y, c.weights)
    ridge = SparseKernelRidge(
        c.kernel, alpha=c.noise, n_basis=m, method="subspace", certificate=None, random_state=0
    ).fit(c.X, c.y, c.weights)
    found: dict[str, tuple[Floats, ...]] = {
        "SparseGPRegressor": sparse.predict(c.new, return_std=True, include_noise=False),
        "SparseKernelRidge": (ridge.predict(c.new),),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of variances that rounding makes negative
        with contextlib.suppress(np.linalg.LinAlgError):
            found["scikit-learn"] = dense.fit(c.X, c.y).predict(c.new, return_std=True)
    return found


def run(seed: int) -> Report:
    """Judge one problem."""
    report, c = Report(), case(seed)
    report.counts["problems"] += 1
    found = predictions(c)
    dense = found.pop("scikit-learn", None)
    if dense is None:
        return report
    truth, spread = full_process(c), float(c.y.std())
    if max(_errors(dense, truth)) > WELL_SOLVED * spread:
        return report
    report.counts["well conditioned"] += 1
    for name, values in found.items():
        for what, error in zip(("mean", "std"), _errors(values, truth), strict=False):
            report.counts["checks"] += 1
            if not error <= REQUIRED * spread:
                report.failures.append(
                    f"seed {seed}: the {what} of {name} with all {len(c.X)} rows, {c.kernel}, "
                    f"noise {c.noise:g}, is {error / spread:.2g} spreads of y off."
                )
    return report


def _errors(values: tuple[Floats, ...], truth: tuple[Floats, Floats]) -> list[float]:
    """Largest errors of the means and, where there are some, of the deviations."""
    return [float(np.abs(a - b).max()) for a, b in zip(values, truth, strict=False)]


FUZZER = Fuzzer(name="full-rank", run=run)
