"""Few rows: how well 90 % intervals cover, and how long and often wrong they are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.few_rows import FEATURES, SHAPES, SIZES, few_rows, intervals, reference
from benchmarks.harness import Figure
from pursuit import ExactGPRegressor, SparseGPRegressor
from pursuit._types import Floats

SEEDS = 50
LEAST, MOST = 0.86, 0.96
"""Range that the mean coverage of nominal 90 % intervals should be in."""
BETTER = 9
"""Shapes of the twelve whose interval score should not be above scikit-learn's."""


def few_rows_coverage(quick: bool, repeat: int) -> list[Figure]:
    """Coverage of 90 % intervals at 10 to 80 rows of 1 to 30 features, twelve shapes, 50 seeds."""
    seeds = range(2 if quick else SEEDS)
    scores = {"scikit-learn": measured(reference, seeds)[:, :, :, 1]}
    figures = []
    for name, kind in (("sparse", SparseGPRegressor), ("exact", ExactGPRegressor)):

        def model(seed: int, kind: Any = kind) -> Any:
            return kind(n_jobs=1, random_state=seed)

        found = measured(model, seeds)
        covered, scores[name] = found[:, :, :, 0], found[:, :, :, 1]
        for i, m in enumerate(SIZES):
            for j, d in enumerate(FEATURES):
                share = float(covered[:, i, j].mean())
                text = f"{name}, m = {m}, d = {d}: coverage"
                figures.append(Figure(text, share, at_least=LEAST, at_most=MOST))
        figures += [
            Figure(f"{name}: least coverage of a shape at some m and d", float(covered.min())),
            Figure(f"{name}: largest coverage of a shape at some m and d", float(covered.max())),
        ]
        means = scores[name].mean(axis=(1, 2)), scores["scikit-learn"].mean(axis=(1, 2))
        figures += [
            Figure(f"{name}, {shape}: interval score over scikit-learn's", float(own / other))
            for shape, own, other in zip(SHAPES, *means, strict=True)
        ]
        better = float(np.sum(means[0] <= means[1]))
        figures.append(Figure(f"{name}: shapes with no larger score", better, at_least=BETTER))
    return figures


def measured(make: Any, seeds: range) -> Floats:
    """Coverage and interval score by shape, number of rows and of features: means over seeds."""
    found = np.zeros((len(SHAPES), len(SIZES), len(FEATURES), 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for i, shape in enumerate(SHAPES):
            for j, m in enumerate(SIZES):
                for k, d in enumerate(FEATURES):
                    each = [intervals(make(seed), few_rows(shape, m, d, seed)) for seed in seeds]
                    found[i, j, k] = np.mean(each, axis=0)
    return found
