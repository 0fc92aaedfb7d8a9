"""Gaussian process classification of the digits of USPS, beside a tuned support vector machine."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from benchmarks.data import NotAvailableError
from benchmarks.harness import Figure
from pursuit import SparseGPClassifier
from pursuit.datasets import load_usps

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

WITHIN = 0.005
CALIBRATED = 0.02
BINS = 15
GRID = {"C": [1.0, 10.0, 100.0], "gamma": [0.01, 0.02, 0.04]}


def gp_classifier(quick: bool, repeat: int) -> list[Figure]:
    """USPS, ten classes: accuracy beside SVC, C and gamma tuned by CV; log loss and calibration.

    Twice: on the published split, whose test part is harder than its training part, and on a
    random split of all rows. Each model is fitted once.
    """
    try:
        X, y, X_test, y_test = load_usps(split=0, return_X_y=True)
    except ValueError as missing:
        raise NotAvailableError(str(missing)) from missing
    m, n_basis = (2500, 100) if quick else (len(X), 512)
    grid = {name: values[-1:] for name, values in GRID.items()} if quick else GRID
    every, labels = np.vstack([X, X_test]), np.concatenate([y, y_test])
    order = np.random.default_rng(0).permutation(len(every))
    mixed, rest = order[: len(X)], order[len(X) :]
    peer = GridSearchCV(SVC(cache_size=500), grid, cv=3).fit(X[:m], y[:m])
    figures = _figures("published", X[:m], y[:m], X_test, y_test, n_basis, peer.best_params_)
    return figures + _figures(
        "mixed",
        every[mixed[:m]],
        labels[mixed[:m]],
        every[rest],
        labels[rest],
        n_basis,
        peer.best_params_,
    )


def _figures(
    name: str,
    X: Floats,
    y: Labels,
    X_test: Floats,
    y_test: Labels,
    n_basis: int,
    machine: dict[str, float],
) -> list[Figure]:
    start = perf_counter()
    peer = SVC(**machine).fit(X, y)
    svc_fit = perf_counter() - start
    svc_accuracy = float(peer.score(X_test, y_test))
    start = perf_counter()
    model = SparseGPClassifier(n_basis=n_basis, random_state=0).fit(X, y)
    fit = perf_counter() - start
    start = perf_counter()
    probabilities = model.predict_proba(X_test)
    predict = perf_counter() - start
    accuracy = float(model.score(X_test, y_test))
    return [
        Figure(f"{name}: SVC, tuned: accuracy", svc_accuracy),
        Figure(f"{name}: SVC: fit, its C and gamma given", svc_fit, "s"),
        Figure(f"{name}: accuracy, n={n_basis}", accuracy, at_least=svc_accuracy - WITHIN),
        Figure(f"{name}: log loss", float(log_loss(y_test, probabilities))),
        Figure(
            f"{name}: expected calibration error",
            calibration_error(probabilities, y_test),
            at_most=CALIBRATED,
        ),
        Figure(f"{name}: fit, everything learned", fit, "s"),
        *(
            Figure(f"{name}: of it: {stage}", spent, "s")
            for stage, spent in model.learning_report_.seconds.items()
        ),
        Figure(f"{name}: probabilities of {len(y_test)} rows", predict, "s"),
    ]


def calibration_error(probabilities: Floats, labels: Labels) -> float:
    """Mean distance of confidence and accuracy over 15 bins of confidence, weighted by rows."""
    confidence = probabilities.max(axis=1)
    hit = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs(confidence[bins == b].sum() - hit[bins == b].sum()) for b in range(BINS)]
    return float(np.sum(gaps) / len(labels))
