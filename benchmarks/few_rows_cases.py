"""Few rows: how well 90 % intervals cover, and how honest probabilities of classes are."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression

from benchmarks.cells import FIRST_SEED, measured
from benchmarks.few_rows import FEATURES, SHAPES, SIZES, few_rows, intervals, reference
from benchmarks.few_rows_classes import (
    CLASS_SHAPES,
    CLASS_SIZES,
    CLASSES,
    NOISE,
    ClassFrequencies,
    Honesty,
    few_rows_of_classes,
    honesty,
)
from benchmarks.harness import Figure
from pursuit import (
    ExactGPRegressor,
    HullBoostClassifier,
    KernelMatchingPursuitClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
)
from pursuit._types import Floats

SEEDS, CLASS_SEEDS = 50, 20
LEAST, MOST = 0.86, 0.96
"""Range that the mean coverage of nominal 90 % intervals should be in."""
NOISE_COSTS = 0.05
"""Nats per row that probabilities may lose to the frequencies of the classes on pure noise."""
BETTER = 9
"""Shapes of the twelve whose interval score should not be above scikit-learn's."""


def few_rows_coverage(quick: bool, repeat: int) -> list[Figure]:
    """Coverage of 90 % intervals at 10 to 80 rows of 1 to 30 features, twelve shapes, 50 seeds."""
    names = "scikit-learn", "sparse", "exact"
    cells = list(product(names, SHAPES, SIZES, FEATURES))
    values = measured(_intervals, cells, _seeds(quick, SEEDS))
    values = values.reshape(len(names), len(SHAPES), len(SIZES), len(FEATURES), 2)
    by_name = dict(zip(names, values, strict=True))
    others = by_name.pop("scikit-learn")[..., 1].mean(axis=(1, 2))
    figures = []
    for name, found in by_name.items():
        figures += _coverage(name, found[..., 0])
        own = found[..., 1].mean(axis=(1, 2))
        figures += [
            Figure(f"{name}, {shape}: interval score over scikit-learn's", float(ratio))
            for shape, ratio in zip(SHAPES, own / others, strict=True)
        ]
        better = float(np.sum(own <= others))
        figures.append(Figure(f"{name}: shapes with no larger score", better, at_least=BETTER))
    return figures


def _coverage(name: str, covered: Floats) -> list[Figure]:
    """Means by m and d, means by shape, and single cells that are out of the range."""
    figures = [
        Figure(
            f"{name}, m = {m}, d = {d}: coverage",
            float(covered[:, i, j].mean()),
            at_least=LEAST,
            at_most=MOST,
        )
        for i, m in enumerate(SIZES)
        for j, d in enumerate(FEATURES)
    ]
    figures += [
        Figure(f"{name}, {shape}: coverage", float(mean), at_least=LEAST, at_most=MOST)
        for shape, mean in zip(SHAPES, covered.mean(axis=(1, 2)), strict=True)
    ]
    cells = zip(product(SHAPES, SIZES, FEATURES), covered.ravel(), strict=True)
    outside = [(cell, share) for cell, share in cells if not LEAST <= share <= MOST]
    figures.append(
        Figure(f"{name}: cells out of {LEAST:g}-{MOST:g}, of {covered.size}", len(outside))
    )
    figures += [
        Figure(f"{name}, {shape}, m = {m}, d = {d}: cell coverage", float(share))
        for (shape, m, d), share in sorted(outside, key=lambda pair: pair[1])
    ]
    return figures


def _intervals(name: str, shape: str, m: int, d: int, seed: int) -> tuple[float, float]:
    kinds: dict[str, Any] = {"sparse": SparseGPRegressor, "exact": ExactGPRegressor}
    model = kinds[name](n_jobs=1, random_state=seed) if name in kinds else reference(seed)
    return intervals(model, few_rows(shape, m, d, seed))


def _seeds(quick: bool, n: int) -> range:
    return range(FIRST_SEED, FIRST_SEED + (2 if quick else n))


OWN = "matching", "matching by validation", "boosting", "sparse"
BOOSTED = 50
"""Rounds of boosting: with all 200 the case would take hours."""
WHAT = "log loss", "calibration error", "accuracy"
OTHERS = "frequencies", "logistic regression", "process of scikit-learn"


def few_rows_classes(quick: bool, repeat: int) -> list[Figure]:
    """Log loss and calibration of probabilities at 20 to 80 rows, 2 and 3 classes, 20 seeds."""
    names = *OWN, *OTHERS
    axes = names, CLASS_SHAPES, CLASSES, CLASS_SIZES, FEATURES
    values = measured(_honesty, list(product(*axes)), _seeds(quick, CLASS_SEEDS))
    values = values.reshape(*(len(axis) for axis in axes), 3)
    by_name = dict(zip(names, values, strict=True))
    noise = [list(CLASS_SHAPES).index(shape) for shape in NOISE]
    frequencies = by_name["frequencies"][..., 0]
    figures = []
    for name, found in by_name.items():
        by_classes, by_size = found.mean(axis=(0, 2, 3)), found.mean(axis=(0, 1, 3))
        labels = [f"{n} classes" for n in CLASSES] + [f"m = {m}" for m in CLASS_SIZES]
        figures += [
            Figure(f"{name}, {label}: {what}", float(mean))
            for label, means in zip(labels, [*by_classes, *by_size], strict=True)
            for what, mean in zip(WHAT, means, strict=True)
        ]
        above = found[..., 0] - frequencies
        figures += [
            Figure(f"{name}, {shape}: log loss less that of frequencies", float(mean))
            for shape, mean in zip(CLASS_SHAPES, above.mean(axis=(1, 2, 3)), strict=True)
        ]
        limit = NOISE_COSTS if name in OWN else None
        figures += [
            Figure(
                f"{name}, noise, {n_classes} classes, m = {m}: log loss less that of frequencies",
                float(above[noise, i, j].mean()),
                at_most=limit,
            )
            for i, n_classes in enumerate(CLASSES)
            for j, m in enumerate(CLASS_SIZES)
        ]
    return figures


def _honesty(name: str, shape: str, n_classes: int, m: int, d: int, seed: int) -> Honesty:
    return honesty(_classifier(name, seed), few_rows_of_classes(shape, n_classes, m, d, seed))


def _classifier(name: str, seed: int) -> Any:
    options: dict[str, Any] = {"n_jobs": 1, "random_state": seed}
    match name:
        case "matching":
            return KernelMatchingPursuitClassifier(loss="logistic", **options)
        case "matching by validation":
            return KernelMatchingPursuitClassifier(loss="logistic", n_basis="validation", **options)
        case "boosting":
            return HullBoostClassifier(n_terms=BOOSTED, **options)
        case "sparse":
            return SparseGPClassifier(**options)
        case "frequencies":
            return ClassFrequencies()
        case "logistic regression":
            return LogisticRegression(max_iter=1000)
        case _:
            return GaussianProcessClassifier(ConstantKernel() * RBF(), random_state=seed)
