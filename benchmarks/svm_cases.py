"""Cases of support vector classification in a span, beside scikit-learn's SVC."""

from __future__ import annotations

import json
import subprocess
import sys
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from benchmarks.data import NotAvailableError, Regression, kin40k, protein
from benchmarks.harness import Figure, seconds
from pursuit import LowRankSVC, datasets

Floats = NDArray[np.float64]
Split = tuple[Floats, Floats, Floats, Floats]

GIGABYTE = 2.0**30


def noisy_boundary(m: int, n_test: int = 10_000, seed: int = 0) -> Split:
    """Rows in 20 dimensions, of which 5 matter, with 5 % of the labels wrong."""
    rng = np.random.default_rng(seed)
    X, X_test = rng.standard_normal((m, 20)), rng.standard_normal((n_test, 20))

    def level(Z: Floats) -> Floats:
        return np.asarray(np.sin(2 * Z[:, 0]) + Z[:, 1] * Z[:, 2] + np.cos(Z[:, 3]) * Z[:, 4])

    middle = np.median(level(X))
    labels = []
    for Z in (X, X_test):
        y = np.where(level(Z) > middle, 1.0, -1.0)
        y[rng.random(len(Z)) < 0.05] *= -1
        labels.append(y)
    return X, labels[0], X_test, labels[1]


def bent_classes(m: int, wrong: float = 0.0, n_test: int = 10_000, seed: int = 0) -> Split:
    """Two half moons in 2 of 12 columns: 100 functions are enough; a share of labels is wrong."""
    rng = np.random.default_rng(seed)
    parts = []
    for n in (m, n_test):
        upper, angle = rng.random(n) < 0.5, np.pi * rng.random(n)
        X = 0.3 * rng.standard_normal((n, 12))
        X[:, 0] += np.where(upper, np.cos(angle), 1.0 - np.cos(angle))
        X[:, 1] += np.where(upper, np.sin(angle), 0.5 - np.sin(angle)) * 2.0
        y = np.where(upper, 1.0, -1.0)
        y[rng.random(n) < wrong] *= -1
        parts += [X, y]
    return parts[0], parts[1], parts[2], parts[3]


def many_classes(m: int, n_test: int = 10_000, seed: int = 0) -> Split:
    """Eight classes of two clusters each, in 16 dimensions."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((16, 16))
    parts = []
    for n in (m, n_test):
        cluster = rng.integers(16, size=n)
        parts += [centres[cluster] + 0.7 * rng.standard_normal((n, 16)), cluster % 8]
    return parts[0], parts[1], parts[2], parts[3]


def above_median(data: Regression, n_rows: int | None) -> Split:
    """Whether a target is above the median of the training rows."""
    middle = np.median(data.y_train)
    X, y = data.X_train[:n_rows], np.where(data.y_train > middle, 1.0, -1.0)[:n_rows]
    return X, y, data.X_test, np.where(data.y_test > middle, 1.0, -1.0)


class Peer:
    """SVC on a data set: its times and accuracy."""

    def __init__(self, split: Split, **options: Any) -> None:
        self.split = split
        X, y, X_test, y_test = split
        self.model = SVC(cache_size=500, **options)
        self.fit = seconds(lambda: self.model.fit(X, y))
        self.predict = seconds(lambda: self.model.predict(X_test))
        self.accuracy = 100 * float(self.model.score(X_test, y_test))

    def figures(self, name: str) -> list[Figure]:
        return [
            Figure(f"{name}: SVC fit", self.fit, "s"),
            Figure(f"{name}: SVC accuracy", self.accuracy, "%"),
            Figure(f"{name}: SVC support vectors", float(len(self.model.support_))),
        ]

    def beside(
        self,
        name: str,
        model: LowRankSVC,
        repeat: int,
        *,
        faster: float | None = None,
        points: float | None = None,
        predict: float | None = None,
    ) -> list[Figure]:
        """Our model on the same rows: accuracy above, times faster to fit and to predict."""
        X, y, X_test, y_test = self.split
        fit = min(seconds(lambda: model.fit(X, y)) for _ in range(repeat))
        ahead = min(seconds(lambda: model.predict(X_test)) for _ in range(3))
        above = 100 * float(model.score(X_test, y_test)) - self.accuracy
        least = None if points is None else -points
        return [
            Figure(f"{name}: fit", fit, "s"),
            Figure(f"{name}: accuracy above SVC's", above, "%", at_least=least),
            Figure(f"{name}: times faster", self.fit / fit, "x", at_least=faster),
            Figure(f"{name}: times faster to predict", self.predict / ahead, "x", at_least=predict),
        ]


def svm_speed(quick: bool, repeat: int) -> list[Figure]:
    """Fit, predict and accuracy beside SVC: targets of kin40k and protein above their median."""
    rows = 3000 if quick else None
    sizes = (50, 100) if quick else (500, 1000)
    figures: list[Figure] = []
    for data, gamma in ((kin40k(), 0.1), (protein(), 0.2)):
        peer = Peer(above_median(data, rows), C=10.0, gamma=gamma)
        figures += peer.figures(data.name)
        common: dict[str, Any] = {
            "C": 10.0,
            "gamma": gamma,
            "certificate": None,
            "random_state": 0,
        }
        for n, faster, points in ((sizes[0], 5.0, 1.5), (sizes[1], 2.5, 0.3)):
            still = LowRankSVC(n_basis=n, refine=False, **common)
            figures += peer.beside(
                f"{data.name} n={n}",
                still,
                repeat,
                faster=faster,
                points=points,
                predict=10.0,
            )
        for n in (sizes[0] // 2, sizes[0]):
            moved = LowRankSVC(n_basis=n, **common)
            figures += peer.beside(f"{data.name} n={n}, moved", moved, repeat)
    return figures


def svm_default(quick: bool, repeat: int) -> list[Figure]:
    """A basis of its own size beside SVC, by processor time: hard, easy, noisy and many classes."""
    hard, rows = above_median(kin40k(), 3000 if quick else None), 3000 if quick else 13_500
    cases: list[tuple[str, Split, dict[str, float], float | None]] = [
        ("kin40k", hard, {"C": 10.0, "gamma": 0.1}, 0.15),
        ("easy", bent_classes(rows), {"C": 1.0, "gamma": 0.5}, 1.0),
        ("5 % wrong labels", bent_classes(rows, 0.05), {"C": 1.0, "gamma": 0.5}, 1.0),
        ("8 classes", many_classes(rows), {"C": 1.0, "gamma": 0.05}, None),
    ]
    figures: list[Figure] = []
    for name, (X, y, X_test, y_test), options, most in cases:
        models = {
            "SVC": SVC(cache_size=500, **options),
            "auto": LowRankSVC(n_jobs=1, random_state=0, **options),
            "n=500": LowRankSVC(n_jobs=1, random_state=0, n_basis=500, **options),
        }
        spent = dict.fromkeys(models, np.inf)
        for _ in range(repeat):
            for label, model in models.items():
                start = process_time()
                model.fit(X, y)
                spent[label] = min(spent[label], process_time() - start)
        points = {label: 100 * float(m.score(X_test, y_test)) for label, m in models.items()}
        figures += [
            Figure(f"{name}: SVC fit", spent["SVC"], "s"),
            Figure(f"{name}: SVC accuracy", points["SVC"], "%"),
        ]
        for label, limit, least in (("auto", most, -0.3), ("n=500", None, None)):
            above = points[label] - points["SVC"]
            ratio = spent[label] / spent["SVC"]
            figures += [
                Figure(f"{name}, {label}: functions", float(models[label].n_basis_)),
                Figure(f"{name}, {label}: fit over SVC's", ratio, "x", at_most=limit),
                Figure(f"{name}, {label}: accuracy above SVC's", above, "%", at_least=least),
            ]
    return figures


def svm_synthetic(quick: bool, repeat: int) -> list[Figure]:
    """A problem that is not low-rank, 50 000 x 20: accuracy and time by size, still and moved."""
    m, sizes = (3000, (50, 100)) if quick else (50_000, (500, 1000, 2000))
    peer = Peer(noisy_boundary(m), C=1.0, gamma=0.05)
    figures = peer.figures("50 000 x 20")
    common: dict[str, Any] = {"C": 1.0, "gamma": 0.05, "certificate": None, "random_state": 0}
    for n in sizes:
        figures += peer.beside(f"n={n}", LowRankSVC(n_basis=n, refine=False, **common), 1)
    for n in sizes[:2]:
        moved = LowRankSVC(n_basis=n, refine=100, **common)
        figures += peer.beside(f"n={n}, moved", moved, 1)
    return figures


def svm_certificate(quick: bool, repeat: int) -> list[Figure]:
    """What the certificate claims over the true distance from SVC's optimum, 20 000 x 20."""
    m, sizes = (1500, (50, 100)) if quick else (20_000, (500, 1000))
    X, y, _, _ = noisy_boundary(m, n_test=1)
    peer = SVC(C=1.0, gamma=0.05, tol=1e-4, cache_size=1000).fit(X, y)
    a = np.zeros(m)
    a[peer.support_] = peer.dual_coef_[0]
    blocks = np.array_split(np.arange(m), max(m // 1000, 1))
    squares = sum(
        float(a[rows] @ (peer.decision_function(X[rows]) - peer.intercept_[0])) for rows in blocks
    )
    optimum = float(np.abs(a).sum()) - 0.5 * squares
    figures = [Figure("optimum of SVC", optimum)]
    for refine in (0, 50):
        for n in sizes:
            model = LowRankSVC(
                C=1.0,
                gamma=0.05,
                loss="hinge",
                n_basis=n,
                refine=refine,
                certificate="exact",
                random_state=0,
            ).fit(X, y)
            found = model.certificate_
            assert found is not None
            truth, name = found.upper - optimum, f"n={n}{', moved' if refine else ''}"
            figures += [
                Figure(f"{name}: true distance", truth),
                Figure(f"{name}: certified distance", found.gap),
                Figure(f"{name}: ratio", found.gap / truth, "x", at_least=1.0, at_most=3.5),
            ]
    return figures


def svm_usps(quick: bool, repeat: int) -> list[Figure]:
    """Ten classes on one basis, beside one-vs-one SVC."""
    try:
        X, y, X_test, y_test = datasets.load_usps(return_X_y=True, split=0)
    except ValueError as missing:
        raise NotAvailableError(str(missing)) from missing
    rows, n = (1000, 50) if quick else (None, 500)
    peer = Peer((X[:rows], y[:rows], X_test, y_test), C=10.0, gamma=0.02)
    figures = peer.figures("USPS")
    common: dict[str, Any] = {
        "C": 10.0,
        "gamma": 0.02,
        "n_basis": n,
        "certificate": None,
        "random_state": 0,
    }
    for multi_class in ("ovr", "ovo"):
        for refine in (0, 50):
            model = LowRankSVC(multi_class=multi_class, refine=refine, **common)
            name = f"{multi_class}, n={n}{', moved' if refine else ''}"
            target = 0.3 if (multi_class, refine) == ("ovr", 50) else None
            figures += peer.beside(name, model, 1, points=target)
    return figures


def svm_memory(quick: bool, repeat: int) -> list[Figure]:
    """Peak memory of a process that fits 200 000 x 20 rows with 500 basis functions."""
    m, n = (20_000, 50) if quick else (200_000, 500)
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.svm_memory", str(m), str(n)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    measured = json.loads(run.stdout)
    return [
        Figure("data", measured["data"] / GIGABYTE, "GB"),
        Figure("fit", measured["fit"], "s"),
        Figure("peak of the process", measured["peak"] / GIGABYTE, "GB", at_most=2.0),
    ]
