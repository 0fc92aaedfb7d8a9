"""Random small problems on which rounding has every chance: tiny noise, huge scales, offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

EPS = float(np.finfo(np.float64).eps)
NEW_ROWS = 20
KERNELS = (
    *("rbf", "laplacian", "poly2", "poly3", "linear", "matern12", "matern32", "matern52"),
    *("scales", "sum", "precomputed"),
)


@dataclass
class Problem:
    """Rows, kernel, weights, targets and noise.

    Attributes
    ----------
    X : array
        Rows, or the kernel matrix if ``kernel`` is ``"precomputed"``.
    arguments : dict
        What goes with a kernel's name.
    weights : array or None
    y : array of shape (m,) or (m, n_outputs)
    noise : float
    new : array
        Rows that are not in the training data, for predictions.
    """

    name: str
    X: np.ndarray
    kernel: Any
    arguments: dict[str, Any]
    weights: np.ndarray | None
    y: np.ndarray
    noise: float
    new: np.ndarray
    rng: np.random.Generator = field(repr=False)

    @property
    def w(self) -> np.ndarray:
        """Weights, ones if there are none."""
        return np.ones(len(self.X)) if self.weights is None else self.weights

    @property
    def present(self) -> np.ndarray:
        """Numbers of the rows that have weight."""
        return np.flatnonzero(self.w > 0)

    @property
    def precomputed(self) -> bool:
        """Whether X is the kernel matrix."""
        return self.name == "precomputed"


def difficulty(m: int, largest: float, weight: float, noise: float) -> str:
    """By ρ = eps·m·max k·max w/σ²: easy below 1e-9, hard below 1e-4, hopeless."""
    rho = EPS * m * largest * weight / noise
    return "easy" if rho < 1e-9 else "hard" if rho < 1e-4 else "hopeless"


def draw(
    rng: np.random.Generator, *, multiple: bool = True, kernels=KERNELS, most: int | None = None
) -> Problem:
    """A problem of any kind, of up to 40 rows or ``most``."""
    m = int(rng.integers(3, 26)) if rng.random() < 0.9 else int(rng.integers(26, 41))
    if most is not None:
        m = 3 + m % (most - 2)
    d = int(rng.integers(1, 4))
    scale, offset = 1.0, 0.0
    if rng.random() < 0.5:
        scale = float(10.0 ** rng.uniform(-12, 12))
    if rng.random() < 0.25:
        offset = float(rng.choice([1e3, 1e6])) * float(rng.choice([1.0, scale]))
    rows = _rows(rng, m + NEW_ROWS, d) * scale + offset
    if rng.random() < 0.15:
        rows = rows.astype(np.float32)
    X, new = rows[:m], rows[m:]
    follows = scale if rng.random() < 0.8 else 1.0
    name = str(rng.choice(kernels))
    kernel, arguments = _kernel(rng, name, d, follows, offset)
    if name == "precomputed":
        X = _matrix(rng, m)
    y = _targets(rng, X if name == "precomputed" else (X - offset) / scale, multiple)
    noise = float(10.0 ** rng.uniform(-12, 4))
    return Problem(name, X, kernel, arguments, _weights(rng, m), y, noise, new, rng)


def _rows(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    """Of order one; some equal, some nearly, some on a grid."""
    X = rng.normal(size=(m, d)) * float(rng.choice([0.1, 1.0, 3.0]))
    how = rng.integers(6)
    again = rng.integers(m, size=(2, max(m // 4, 1)))
    if how == 0:
        X = np.round(X, 1)
    elif how == 1:
        X[again[0]] = X[again[1]]
    elif how == 2:
        near = float(10.0 ** rng.uniform(-14, -4))
        X[again[0]] = X[again[1]] + near * rng.normal(size=(len(again[0]), d))
    return X


def _kernel(
    rng: np.random.Generator, name: str, d: int, scale: float, offset: float
) -> tuple[Any, dict[str, Any]]:
    """As an estimator takes it; lengths are in units of ``scale``."""
    length = float(10.0 ** rng.uniform(-0.7, 1.2))
    variance = float(10.0 ** rng.uniform(-2, 2))
    if name == "rbf":
        return "rbf", {"gamma": 0.5 / (length * scale) ** 2}
    if name == "laplacian":
        return "laplacian", {"gamma": 1.0 / (length * scale)}
    if name in ("poly2", "poly3"):
        unit = max(scale, abs(offset)) if rng.random() < 0.3 else scale
        return "poly", {"gamma": 1.0 / unit**2, "coef0": 1.0, "degree": int(name[-1])}
    if name in ("linear", "precomputed"):
        return name, {}
    if name == "scales":
        lengths = length * scale * rng.uniform(0.5, 2.0, d)
        return ConstantKernel(variance, "fixed") * RBF(lengths, "fixed"), {}
    if name == "sum":
        linear = ConstantKernel(0.3 / scale**2, "fixed") * DotProduct(scale, "fixed")
        return RBF(length * scale, "fixed") + linear, {}
    nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}[name]
    return ConstantKernel(variance, "fixed") * Matern(length * scale, "fixed", nu=nu), {}


def _matrix(rng: np.random.Generator, m: int) -> np.ndarray:
    """A psd matrix without rounding: products of small whole numbers times a power of two."""
    F = rng.integers(-20, 21, size=(m, int(rng.integers(1, 2 * m)))).astype(float)
    return F @ F.T * 2.0 ** int(rng.integers(-30, 30))


def _weights(rng: np.random.Generator, m: int) -> np.ndarray | None:
    """None, whole numbers with zeros, uneven or very uneven."""
    how = rng.integers(6)
    if how == 0:
        weights = rng.integers(0, 4, m).astype(float)
        weights[rng.integers(m, size=3)] = 1.0
        return weights
    if how in (1, 2):
        return 10.0 ** rng.uniform(*[(-2, 2), (-8, 8)][how - 1], m)
    return None


def _targets(rng: np.random.Generator, X: np.ndarray, multiple: bool) -> np.ndarray:
    """A function and noise, in units from 1e-6 to 1e6, sometimes far from zero."""
    m, n_outputs = len(X), int(rng.integers(2, 4)) if multiple and rng.random() < 0.3 else None
    signal = np.sin(2.0 * X[:, 0].astype(float))
    shape = (m,) if n_outputs is None else (m, n_outputs)
    y = signal.reshape(-1, *[1] * (len(shape) - 1)) + rng.uniform(0.0, 1.0) * rng.normal(size=shape)
    if rng.random() < 0.2:
        y = y + float(rng.choice([1e3, 1e6]))
    return y * float(10.0 ** rng.choice([-6, -2, 0, 0, 0, 3, 6]))
