"""Noise that varies with the inputs, noise that does not, and outliers."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from benchmarks.harness import Figure
from benchmarks.solvers import THREADS
from pursuit import SparseGPRegressor
from pursuit._types import Floats

LEVEL, WIDTH = 0.9, 1.6448536269514722
"""A nominal level, and half the width of its interval in standard deviations."""
TENTHS, ROWS_PER_TENTH = 10, 2000
SIZES = 1.0, 5.0, 50.0
"""Outliers lie between one and two times these beside the surface, whose noise is .1."""

Deviation = Callable[[Floats, Floats], Floats]


def halves(x: Floats, level: Floats) -> Floats:
    """.05 on one half of the input and .5 on the other."""
    return np.where(x < 0.5, 0.05, 0.5)


def fan(x: Floats, level: Floats) -> Floats:
    """A deviation that rises along a line."""
    return 0.05 + 0.5 * x


def category(x: Floats, level: Floats) -> Floats:
    """A deviation for each of four levels."""
    return np.array([0.05, 0.1, 0.3, 0.6])[level.astype(int)]


def constant(x: Floats, level: Floats) -> Floats:
    """The same deviation everywhere."""
    return np.full_like(x, 0.2)


VARYING: dict[str, Deviation] = {"halves": halves, "fan": fan, "category": category}


def varying_noise(quick: bool, repeat: int) -> list[Figure]:
    """Coverage of nominal 90 % intervals in each tenth of the input, or level, and density."""
    m = 2000 if quick else 10_000
    figures = []
    for name, deviation in {**VARYING, "constant": constant}.items():
        rng = np.random.default_rng(0)
        X, y = _rows(rng, rng.uniform(0, 1, m), deviation, name)
        at = (np.arange(TENTHS).repeat(ROWS_PER_TENTH) + rng.uniform(0, 1, 20_000)) / TENTHS
        X_new, y_new = _rows(rng, at, deviation, name)
        density = {}
        for noise in ("learn", "varying"):
            began = process_time()
            model = SparseGPRegressor(noise=noise, n_basis=128, n_jobs=THREADS, random_state=0)
            mean, std = model.fit(X, y).predict(X_new, return_std=True)
            spent = process_time() - began
            figures.append(Figure(f"{name}, {noise}: fit and predict", spent, "s of CPU"))
            within = np.abs(y_new - mean) <= WIDTH * std
            groups = [within[np.floor(TENTHS * at) == tenth] for tenth in range(TENTHS)]
            if deviation is category:
                groups += [within[X_new[:, 1] == level] for level in range(4)]
            inside = [float(group.mean()) for group in groups]
            density[noise] = _nlpd(y_new, mean, std)
            limits: dict[str, Any] = {}
            if noise == "varying" and deviation is not constant:
                limits = {"at_least": 0.86, "at_most": 0.94}
            figures += [
                Figure(f"{name}, {noise}: least coverage of a tenth", min(inside), **limits),
                Figure(f"{name}, {noise}: largest coverage of a tenth", max(inside), **limits),
                Figure(f"{name}, {noise}: NLPD", density[noise]),
            ]
        most = 0.005 if deviation is constant else -0.1
        change = density["varying"] - density["learn"]
        figures.append(Figure(f"{name}: NLPD over that of constant noise", change, at_most=most))
    return figures


def outliers(quick: bool, repeat: int) -> list[Figure]:
    """Outliers in 5 % of the rows: RMSE over that of a fit to the same rows without them."""
    m, n_sets = (800, 2) if quick else (3000, 3)
    figures = []
    for size in SIZES:
        errors: dict[str, list[float]] = {"clean": [], "gaussian": [], "student-t": []}
        for seed in range(n_sets):
            rng = np.random.default_rng(seed)
            X, X_new = rng.uniform(-2, 2, (m, 2)), rng.uniform(-2, 2, (4000, 2))
            y = _surface(X) + 0.1 * rng.standard_normal(m)
            far = size * rng.choice([-1, 1], m) * rng.uniform(1, 2, m)
            spoiled = np.where(rng.random(m) < 0.05, y + far, y)
            for name, target in (("clean", y), ("gaussian", spoiled), ("student-t", spoiled)):
                likelihood = "student-t" if name == "student-t" else "gaussian"
                model = SparseGPRegressor(
                    n_basis=128, likelihood=likelihood, n_jobs=THREADS, random_state=0
                ).fit(X, target)
                wrong = model.predict(X_new) - _surface(X_new)
                errors[name].append(float(np.mean(wrong**2)))
        root = {name: float(np.sqrt(np.mean(values))) for name, values in errors.items()}
        for name, most in (("gaussian", None), ("student-t", 1.15)):
            ratio = root[name] / root["clean"]
            figures.append(Figure(f"outliers of {size:g}, {name}: RMSE ratio", ratio, at_most=most))
    return figures


def _rows(
    rng: np.random.Generator, x: Floats, deviation: Deviation, name: str
) -> tuple[Any, Floats]:
    level = rng.integers(4, size=len(x)).astype(float)
    y = np.sin(8 * x) + deviation(x, level) * rng.standard_normal(len(x))
    return (np.column_stack([x, level]) if name == "category" else x[:, None]), y


def _surface(X: Floats) -> Floats:
    return np.asarray(np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2)


def _nlpd(y: Floats, mean: Floats, std: Floats) -> float:
    return float(np.mean(np.log(std) + 0.5 * np.log(2 * np.pi) + 0.5 * ((y - mean) / std) ** 2))
