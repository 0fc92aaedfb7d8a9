"""Rows, targets and weights that real data hold rarely and a library must survive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class Data:
    """What is passed to ``fit``, further rows, and both in words."""

    X: Any
    new: Any
    y: Any
    weights: Any
    words: str


def draw(rng: np.random.Generator, target: str) -> Data:
    """Hostile data; ``target`` is "numbers", "counts", "shares", "labels", "view" or "none"."""
    m = int(rng.choice([1, 2, 3, 5, 12, 25, 40], p=[0.06, 0.07, 0.07, 0.15, 0.3, 0.2, 0.15]))
    d = int(rng.integers(1, 6))
    X, words = _rows(rng, m, d)
    new = np.concatenate([X[: min(m, 5)], _rows(rng, 3, d)[0]]) if rng.random() < 0.3 else X[:8]
    X, form = _in_some_form(rng, X)
    words += form
    y, about_y = _targets(rng, target, m)
    weights, about_weights = _weights(rng, m)
    return Data(X, new, y, weights, f"X {words}; y {about_y}; weights {about_weights}")


def magnitude(rng: np.random.Generator, ordinary: float = 0.6) -> float:
    """1 mostly, else anything that a float can hold."""
    if rng.random() < ordinary:
        return 1.0
    ends = [(-320, 308), (-100, 100), (-100, 100), (-30, 30), (-30, 30), (-12, 12)]
    return float(10.0 ** rng.uniform(*ends[rng.integers(len(ends))]))


def parameter(rng: np.random.Generator, usual: float = 1.0) -> float:
    """A positive hyper-parameter, mostly of usual size."""
    if rng.random() < 0.6:
        return usual * float(10.0 ** rng.uniform(-3, 3))
    return float(10.0 ** rng.uniform(-300, 300))


def _rows(rng: np.random.Generator, m: int, d: int) -> tuple[np.ndarray, str]:
    kind = rng.choice(["normal", "grid", "equal", "twice", "zeros", "constant column"])
    X = rng.standard_normal((m, d))
    if kind == "grid":
        X = rng.integers(-2, 3, (m, d)).astype(float)
    elif kind == "equal":
        X = np.repeat(X[:1], m, axis=0)
    elif kind == "twice":
        X = X[rng.integers(0, max(m // 2, 1), m)]
    elif kind == "zeros" and rng.random() < 0.3:
        X = np.zeros((m, d))
    elif kind == "constant column":
        X[:, 0] = X[0, 0]
    size = magnitude(rng)
    words = f"{m}×{d} {kind} × {size:.3g}"
    with np.errstate(over="ignore"):
        X = X * size
        if rng.random() < 0.1:
            offset = 10.0 ** rng.uniform(0, 8) * size
            X = X + offset
            words += f" + {offset:.3g}"
        if rng.random() < 0.15:
            outlier = 10.0 ** rng.uniform(9, 300 if rng.random() < 0.2 else 90)
            X[rng.integers(m), rng.integers(d)] = outlier
            words += f", one value {outlier:.3g}"
        if rng.random() < 0.1:
            column = magnitude(rng, 0.0)
            X[:, -1] *= column
            words += f", last column × {column:.3g}"
    return np.clip(X, -1.7e308, 1.7e308), words


def _in_some_form(rng: np.random.Generator, X: np.ndarray) -> tuple[Any, str]:
    form = rng.choice(
        ["plain", "float32", "int", "bool", "fortran", "read-only", "csr", "list"],
        p=[0.55, 0.07, 0.06, 0.04, 0.08, 0.08, 0.07, 0.05],
    )
    if form == "float32":
        with np.errstate(over="ignore"):
            single = X.astype(np.float32)
        return (single, ", float32") if np.isfinite(single).all() else (X, "")
    if form == "int" and np.abs(X).max() < 1e18:
        return X.astype(np.int64), ", int"
    if form == "bool":
        return X > 0, ", bool"
    if form == "fortran":
        return np.asfortranarray(X), ", Fortran"
    if form == "read-only":
        X = X.copy()
        X.flags.writeable = False
        return X, ", read-only"
    if form == "csr":
        return sparse.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0)), ", csr"
    if form == "list":
        return X.tolist(), ", list"
    return X, ""


def _targets(rng: np.random.Generator, target: str, m: int) -> tuple[Any, str]:
    if target == "none":
        return None, "none"
    if target == "labels":
        n = int(rng.choice([1, 2, 2, 2, 3, 4]))
        labels = rng.integers(0, n, m)
        return (labels if rng.random() < 0.7 else labels.astype(str)), f"{n} classes"
    if target == "counts":
        size = 10.0 ** rng.uniform(0, 12) if rng.random() < 0.3 else 3.0
        counts = rng.poisson(size, m).astype(float)
        if rng.random() < 0.2:
            size = magnitude(rng, 0.0)
            with np.errstate(over="ignore"):
                counts = np.clip(counts * size, 0, 1.7e308)
        return counts, f"counts about {size:.3g}"
    if target == "shares":
        return rng.integers(0, 2, m).astype(float), "0 and 1"
    if target == "view":
        Y, words = _rows(rng, m, int(rng.integers(1, 4)))
        return Y, words
    kind = rng.choice(["normal", "constant", "two values", "zeros", "outlier", "two outputs"])
    y = rng.standard_normal(m)
    if kind == "constant":
        y[:] = y[0]
    elif kind == "two values":
        y = np.where(y > 0, 1.0, -3.0)
    elif kind == "zeros":
        y[:] = 0.0
    elif kind == "two outputs":
        y = np.column_stack([y, rng.standard_normal(m) * magnitude(rng, 0.8)])
    size = magnitude(rng)
    with np.errstate(over="ignore"):
        y = y * size
        if kind == "outlier":
            y[rng.integers(m)] = 10.0 ** rng.uniform(9, 300 if rng.random() < 0.2 else 90)
        if rng.random() < 0.1:
            y = y + 10.0 ** rng.uniform(0, 9) * size
    y = np.clip(y, -1.7e308, 1.7e308)
    if rng.random() < 0.1:
        y = y.astype(np.float32) if np.abs(y).max() < 1e38 else y
    return y, f"{kind} × {size:.3g}"


def _weights(rng: np.random.Generator, m: int) -> tuple[Any, str]:
    if rng.random() < 0.6:
        return None, "none"
    kind = rng.choice(["plain", "some zero", "all", "mixed", "one"])
    w = rng.uniform(0.1, 2.0, m)
    size = 1.0
    if kind == "some zero":
        w[rng.random(m) < 0.5] = 0.0
    elif kind == "all":
        size = magnitude(rng, 0.0)
        w *= size
    elif kind == "mixed":
        w = np.array([magnitude(rng, 0.3) for _ in range(m)])
    elif kind == "one":
        size = magnitude(rng, 0.0)
        w[rng.integers(m)] = size
    return w, f"{kind} × {size:.3g}"
