"""A basis with near rows: accuracy, time, memory and reproducibility beside the basis alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from benchmarks.data import (
    Floats,
    NotAvailableError,
    Regression,
    copied,
    from_folder,
    kin40k,
    protein,
    standardised,
)
from benchmarks.full_scale_fit import N_BASIS, PUBLISHED, TEST_ROWS, full_scale, sparse
from benchmarks.harness import Accuracy, Figure, accuracy, best_seconds, seconds
from benchmarks.roads import roads
from benchmarks.solvers import available, boosted_trees
from pursuit import FullScaleGPClassifier

GIGABYTE = 1e9
SPLITS = 0, 1, 2
NEAR = 64
MANY_NEAR = 128
QUICK_BASIS = 64
PREDICTIONS = 3


@dataclass(frozen=True)
class Target:
    """A data set and what the defaults should reach on each of its splits."""

    load: Callable[[int], Regression]
    rmse: float
    nlpd: float
    rmse_without_copies: float | None = None
    rmse_with_many_near: float | None = None


TARGETS = {
    "kin40k": Target(kin40k, rmse=0.090, nlpd=-1.05, rmse_with_many_near=0.083),
    "protein": Target(protein, rmse=0.485, nlpd=0.57, rmse_without_copies=0.50),
}

ELSEWHERE = "bike", "pol", "elevators", "keggundirected"


def full_scale_kin40k(quick: bool, repeat: int) -> list[Figure]:
    """kin40k, defaults: error, density and coverage on three splits; reserved rows beside test."""
    return _on_splits(TARGETS["kin40k"], quick)


def full_scale_protein(quick: bool, repeat: int) -> list[Figure]:
    """protein, defaults: the same, and the error on test rows without a copy in training."""
    return _on_splits(TARGETS["protein"], quick)


def full_scale_time(quick: bool, repeat: int) -> list[Figure]:
    """Time that near rows add to a fit, and time of a prediction."""
    figures = []
    for name, load in PUBLISHED.items():
        data = load().cut() if quick else load()
        figures += [
            figure.renamed(f"{name}, {figure.name}") for figure in _times(data, quick, repeat)
        ]
    return figures


def full_scale_roads(quick: bool, repeat: int) -> list[Figure]:
    """400 000 points on winding roads: error beside the noise, extra time, and LightGBM."""
    data, noise = roads(*((5000, 1000) if quick else (400_000, TEST_ROWS)))
    ours, basis = full_scale(n_basis=_size(quick)), sparse(n_basis=_size(quick))
    fits = _fit_all(data, repeat, {"ours": ours, "basis": basis})
    mine = accuracy(ours, data)
    figures = [
        Figure("deviation of the noise", noise),
        *_errors("ours", mine),
        *_errors("sparse", accuracy(basis, data)),
        Figure("ours: RMSE / deviation of the noise", mine.rmse / noise, "x", at_most=1.07),
        Figure("ours: near rows", float(ours.n_neighbors_)),
        *_extra_time(fits, at_most=0.35),
    ]
    if (trees := available(boosted_trees)) is not None:
        model = trees.make(trees.size)
        fit = seconds(partial(model.fit, data.X_train, data.y_train))
        theirs = accuracy(model, data)
        figures += [
            Figure("LightGBM: fit", fit, "s"),
            *_errors("LightGBM", theirs),
            Figure("ours / LightGBM: RMSE", mine.rmse / theirs.rmse, "x", at_most=1.0),
            Figure("ours - LightGBM: NLPD", mine.nlpd - theirs.nlpd, at_most=0.0),
        ]
    return figures


def full_scale_memory(quick: bool, repeat: int) -> list[Figure]:
    """Peak memory of a process that fits a million points on roads and predicts 35 000."""
    found = _fit_apart("roads", 20_000 if quick else 1_000_000, quick)
    return [
        Figure("rows and targets", found["data"] / GIGABYTE, "GB"),
        Figure("fit", found["fit"], "s"),
        Figure("peak of the process", found["peak"] / GIGABYTE, "GB", at_most=3.0),
    ]


def full_scale_controls(quick: bool, repeat: int) -> list[Figure]:
    """Nothing for near rows to find: a smooth function, pure noise, 5 of 500 features."""
    figures = []
    for data in _controls(1000 if quick else 10_000):
        ours, basis = (make(n_basis=_size(quick)) for make in (full_scale, sparse))
        ours.fit(data.X_train, data.y_train)
        basis.fit(data.X_train, data.y_train)
        mine, theirs = accuracy(ours, data), accuracy(basis, data)
        figures += [
            *_errors(f"{data.name}, ours", mine),
            *_errors(f"{data.name}, sparse", theirs),
            Figure(f"{data.name}: RMSE, ours / sparse", mine.rmse / theirs.rmse, at_most=1.005),
            Figure(f"{data.name}: NLPD, ours - sparse", mine.nlpd - theirs.nlpd, at_most=0.01),
            Figure(f"{data.name}: near rows", float(ours.n_neighbors_)),
        ]
    return figures


def full_scale_threads(quick: bool, repeat: int) -> list[Figure]:
    """Predictions of learned and moved models on 1, 2 and 4 BLAS threads, bit by bit."""
    figures = []
    for name, load in PUBLISHED.items():
        load()  # says what is missing before any process is started
        rows = 3000 if quick else None
        one, *others = (_fit_apart(name, rows, quick, threads=n) for n in (1, 2, 4))
        figures += [
            Figure(
                f"{name}, {other['threads']} threads: values of the {kind} unlike those of 1",
                float(np.sum(np.asarray(other[kind]) != np.asarray(one[kind]))),
                at_most=0,
            )
            for other in others
            for kind in ("sparse mean", "mean", "std")
        ]
    return figures


def full_scale_classes(quick: bool, repeat: int) -> list[Figure]:
    """Classes: kin40k and protein cut at the median; log loss and accuracy beside the basis."""
    figures = []
    for name, load in PUBLISHED.items():
        data = load().cut() if quick else load()
        cut = np.median(data.y_train)
        model = FullScaleGPClassifier(n_basis=_size(quick), random_state=0)
        fit = seconds(partial(model.fit, data.X_train, data.y_train > cut))
        losses = [
            log_loss(data.y_test > cut, part.predict_proba(data.X_test))
            for part in (model, model.global_)
        ]
        figures += [
            Figure(f"{name}: fit", fit, "s"),
            Figure(f"{name}: near rows", float(model.n_neighbors_)),
            Figure(f"{name}: accuracy", model.score(data.X_test, data.y_test > cut)),
            Figure(f"{name}, basis: accuracy", model.global_.score(data.X_test, data.y_test > cut)),
            Figure(f"{name}: log loss", losses[0]),
            Figure(f"{name}, basis: log loss", losses[1]),
            Figure(f"{name}: log loss, ours / basis", losses[0] / losses[1], "x", at_most=1.0),
        ]
    return figures


def full_scale_elsewhere(quick: bool, repeat: int) -> list[Figure]:
    """Four more sets, beside LightGBM; no targets, for copies and formulas flatter near rows.

    Three quarters of keggundirected's test rows have a copy among the training rows, and bike's
    target is a function of two of its columns: no claim should rest on them.
    """
    figures = []
    for name in ELSEWHERE:
        try:
            data = from_folder(name).cut() if quick else from_folder(name)
        except NotAvailableError as missing:
            print(f"  without {name}: {missing}", flush=True)
            continue
        models: dict[str, Any] = {
            kind: make(n_basis=_size(quick))
            for kind, make in (("ours", full_scale), ("sparse", sparse))
        }
        if (trees := available(boosted_trees)) is not None:
            models[trees.name] = trees.make(trees.size)
        unseen = data.tested_on(~copied(data.X_test, data.X_train))
        share = 1 - len(unseen.y_test) / len(data.y_test)
        figures.append(Figure(f"{name}: test rows with a copy in training", share))
        for kind, model in models.items():
            fit = seconds(partial(model.fit, data.X_train, data.y_train))
            figures += [
                Figure(f"{name}, {kind}: fit", fit, "s"),
                *_errors(f"{name}, {kind}", accuracy(model, data)),
                Figure(f"{name}, {kind}: RMSE without copies", accuracy(model, unseen).rmse),
            ]
    if not figures:
        raise NotAvailableError(f"none of {', '.join(ELSEWHERE)} is in the folder of PURSUIT_DATA")
    return figures


def _on_splits(target: Target, quick: bool) -> list[Figure]:
    figures = []
    for split in SPLITS[: 1 if quick else None]:
        data = target.load(split).cut() if quick else target.load(split)
        figures += [
            figure.renamed(f"split {split}, {figure.name}")
            for figure in _on_split(target, data, quick)
        ]
    return figures


def _on_split(target: Target, data: Regression, quick: bool) -> list[Figure]:
    ours = full_scale(n_basis=_size(quick))
    fit = seconds(partial(ours.fit, data.X_train, data.y_train))
    assert ours.calibration_ is not None
    mine, reserved = accuracy(ours, data), ours.calibration_.nlpd
    figures = [
        Figure("fit", fit, "s"),
        Figure("near rows", float(ours.n_neighbors_)),
        Figure("RMSE", mine.rmse, at_most=target.rmse),
        Figure("NLPD", mine.nlpd, at_most=target.nlpd),
        Figure("coverage of 95 %", mine.coverage, at_least=0.93, at_most=0.97),
        Figure("NLPD on reserved rows", reserved),
        Figure("NLPD, reserved beside test", abs(reserved - mine.nlpd), at_most=0.05),
        *_errors("basis alone", accuracy(ours.global_, data)),
    ]
    if (limit := target.rmse_without_copies) is not None:
        unseen = data.tested_on(~copied(data.X_test, data.X_train))
        copies = len(data.y_test) - len(unseen.y_test)
        rmse = accuracy(ours, unseen).rmse
        figures += [
            Figure("test rows with a copy in training", copies),
            Figure("RMSE without copies", rmse, at_most=limit),
            Figure("basis alone: RMSE without copies", accuracy(ours.global_, unseen).rmse),
        ]
    if (limit := target.rmse_with_many_near) is not None:
        more = full_scale(n_basis=_size(quick), n_neighbors=MANY_NEAR)
        rmse = accuracy(more.fit(data.X_train, data.y_train), data).rmse
        figures.append(Figure(f"RMSE with {MANY_NEAR} near rows", rmse, at_most=limit))
    return figures


def _times(data: Regression, quick: bool, repeat: int) -> list[Figure]:
    ours = full_scale(n_basis=_size(quick))
    near = full_scale(n_basis=_size(quick), n_neighbors=NEAR)
    basis = sparse(n_basis=_size(quick))
    fits = _fit_all(data, repeat, {"ours": ours, "near": near, "basis": basis})
    mean, std = (
        partial(near.predict, data.X_test, return_std=return_std) for return_std in (False, True)
    )
    predictions = best_seconds({"mean": mean, "std": std}, PREDICTIONS)
    per_row = {name: 1e3 * spent / len(data.X_test) for name, spent in predictions.items()}
    stages = ours.learning_report_.seconds
    return [
        *_extra_time(fits, at_most=0.25),
        *(Figure(f"of our fit: {stage}", spent, "s") for stage, spent in stages.items()),
        Figure(f"{NEAR} near rows: extra fit / sparse fit", fits["near"] / fits["basis"] - 1, "x"),
        Figure(f"{NEAR} near rows: mean of a row", per_row["mean"], "ms"),
        Figure(f"{NEAR} near rows: mean and deviation", per_row["std"], "ms", at_most=0.3),
    ]


def _size(quick: bool) -> int:
    return QUICK_BASIS if quick else N_BASIS


def _fit_all(data: Regression, repeat: int, models: dict[str, Any]) -> dict[str, float]:
    """Best times of fits in interleaved rounds, which leave the models fitted."""
    fits = {name: partial(model.fit, data.X_train, data.y_train) for name, model in models.items()}
    return best_seconds(fits, repeat)


def _extra_time(fits: dict[str, float], *, at_most: float) -> list[Figure]:
    extra = fits["ours"] / fits["basis"] - 1
    return [
        Figure("sparse fit", fits["basis"], "s"),
        Figure("our fit", fits["ours"], "s"),
        # Less than nothing is the sign of a busy machine, and meets no target.
        Figure("extra fit / sparse fit", extra, "x", at_least=0.0, at_most=at_most),
    ]


def _errors(name: str, found: Accuracy) -> list[Figure]:
    return [
        Figure(f"{name}: RMSE", found.rmse),
        Figure(f"{name}: NLPD", found.nlpd),
        Figure(f"{name}: coverage of 95 %", found.coverage),
    ]


def _fit_apart(
    name: str, n_rows: int | None, quick: bool, threads: int | None = None
) -> dict[str, Any]:
    """A fit in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.full_scale_fit", name]
    command += ["--basis", str(_size(quick))]
    environment = dict(os.environ)
    if n_rows is not None:
        command += ["--rows", str(n_rows)]
    if threads is not None:
        command += ["--threads", str(threads)]
        for library in ("OMP", "OPENBLAS", "MKL"):
            environment[f"{library}_NUM_THREADS"] = str(threads)
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def _controls(m: int) -> Iterator[Regression]:
    """As many test rows as training rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2 * m, 4))
    smooth = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2
    yield _halves("smooth", X, smooth + 0.1 * rng.standard_normal(2 * m))
    yield _halves("noise", rng.standard_normal((2 * m, 5)), rng.standard_normal(2 * m))
    X = rng.standard_normal((2 * m, 500))
    few = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(X[:, 3]) + X[:, 4]
    yield _halves("500 features", X, few + 0.3 * rng.standard_normal(2 * m))


def _halves(name: str, X: Floats, y: Floats) -> Regression:
    half = len(y) // 2
    return standardised(name, X[:half], y[:half], X[half:], y[half:])
