"""Landmarks: residual trace at equal number and at equal time, and features in a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, make_swiss_roll
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks.data import NotAvailableError, kin40k, protein, robot_arm
from benchmarks.harness import Figure, seconds
from pursuit import GreedyFeatureMap, Search, datasets

Floats = NDArray[np.float64]

SIZES = 50, 200, 500
N_SEEDS = 4
MORE_COLUMNS = 1.0, 1.1, 1.2, 1.35, 1.5
TIMED_ROWS = 7000
"""From this many rows on, the time is a target."""

KIN40K_LENGTH_SCALES = np.array([2.93, 2.77, 1.58, 1.75, 1.71, 1.35, 1.35, 2.03])

Loader = Callable[[], tuple[Floats, float]]
"""Rows and the γ of the Gaussian kernel on them."""


def _digits() -> tuple[Floats, float]:
    return load_digits().data / 16.0, 1 / 8


def _abalone() -> tuple[Floats, float]:
    return StandardScaler().fit_transform(_published(datasets.load_abalone)[0]), 1 / 5


def _usps() -> tuple[Floats, float]:
    return np.asarray(_published(datasets.load_usps, split=0)[0], dtype=np.float64), 1 / 128


def _kin40k() -> tuple[Floats, float]:
    return kin40k().X_train[:20_000] / KIN40K_LENGTH_SCALES, 0.5


def _protein() -> tuple[Floats, float]:
    return protein().X_train, 1 / 8


def _arm() -> tuple[Floats, float]:
    X, _ = robot_arm(20_000)
    return X, 0.5 / X.shape[1]


def _roll() -> tuple[Floats, float]:
    X, _ = make_swiss_roll(10_000, noise=0.5, random_state=0)
    return StandardScaler().fit_transform(X), 2.0


def _cancer() -> tuple[Floats, float]:
    return StandardScaler().fit_transform(load_breast_cancer().data), 1 / 30


TUNED_ON: dict[str, Loader] = {
    "digits": _digits,
    "abalone": _abalone,
    "usps": _usps,
    "kin40k": _kin40k,
    "protein": _protein,
}
"""The data sets on which the constants of the method were chosen."""

NOT_TUNED_ON: dict[str, Loader] = {"robot arm": _arm, "swiss roll": _roll, "cancer": _cancer}


def landmarks(quick: bool, repeat: int) -> list[Figure]:
    """Residual trace and time of block greedy over block random pivots, and over uniform rows."""
    return _compare(TUNED_ON, quick)


def landmarks_elsewhere(quick: bool, repeat: int) -> list[Figure]:
    """The same on data sets that the method was not designed on."""
    return _compare(NOT_TUNED_ON, quick)


def _compare(loaders: Mapping[str, Loader], quick: bool) -> list[Figure]:
    figures = []
    for name, load in loaders.items():
        try:
            X, gamma = load()
        except NotAvailableError as missing:
            print(f"  {name} skipped: {missing}", flush=True)
            continue
        for n in SIZES[:1] if quick else SIZES:
            if 2 * n <= len(X):
                figures += _cell(name, X, gamma, n, 1 if quick else N_SEEDS)
    if not figures:
        raise NotAvailableError("none of the data sets is there: set PURSUIT_DATA.")
    return figures


@dataclass(frozen=True)
class _Run:
    """Mean share of the trace that is left, and the best time."""

    left: float
    fit: float


def _cell(name: str, X: Floats, gamma: float, n: int, n_seeds: int) -> list[Figure]:
    def run(make: Callable[[int], GreedyFeatureMap]) -> _Run:
        left, times = [], []
        for seed in range(n_seeds):
            model = make(seed)
            times.append(seconds(lambda model=model: model.fit(X)))
            left.append(model.residual_trace_ / model.trace_)
        return _Run(float(np.mean(left)), min(times))

    def greedy(seed: int) -> GreedyFeatureMap:
        return GreedyFeatureMap(gamma=gamma, n_components=n, random_state=seed)

    def random(columns: int) -> Callable[[int], GreedyFeatureMap]:
        return lambda seed: GreedyFeatureMap(
            gamma=gamma, n_components=columns, rule="random-pivot", random_state=seed
        )

    def uniform(seed: int) -> GreedyFeatureMap:
        rows = np.random.default_rng(seed).choice(len(X), n, replace=False)
        own = Search("pooled", candidates=X[rows])
        return GreedyFeatureMap(gamma=gamma, n_components=n, search=own)

    random(n)(0).fit(X)  # warm-up
    ours, base, plain = run(greedy), run(random(n)), run(uniform)
    curve = [base, *(run(random(int(share * n))) for share in MORE_COLUMNS[1:])]
    times = np.maximum.accumulate([at.fit for at in curve])
    equal_time = np.exp(np.interp(ours.fit, times, np.log([at.left for at in curve])))
    cell = f"{name}, {len(X)} rows, n={n}"
    timed = 1.4 if len(X) >= TIMED_ROWS else None
    return [
        Figure(f"{cell}: share of the trace left", ours.left),
        Figure(f"{cell}: over random pivots", ours.left / base.left, "x", at_most=1.0),
        Figure(f"{cell}: over uniform rows", ours.left / plain.left, "x", at_most=1.0),
        Figure(f"{cell}: time over random pivots", ours.fit / base.fit, "x", at_most=timed),
        Figure(f"{cell}: over random pivots of equal time", ours.left / equal_time, "x"),
    ]


@dataclass(frozen=True)
class _Task:
    load: Callable[[], tuple[Floats, NDArray[Any], float]]
    model: Callable[[], Any]


def pipeline(quick: bool, repeat: int) -> list[Figure]:
    """Nystroem replaced by GreedyFeatureMap before a linear model: test scores, paired by split."""
    figures, better = [], 0
    for name, task in TASKS.items():
        try:
            X, y, gamma = task.load()
        except NotAvailableError as missing:
            print(f"  {name} skipped: {missing}", flush=True)
            continue
        gains, scores = [], []
        for seed in range(2 if quick else 5):
            split = train_test_split(X, y, test_size=0.3, random_state=seed)
            ours, theirs = (
                _score(features, task.model(), *split)
                for features in (
                    GreedyFeatureMap(gamma=gamma, n_components=100, random_state=seed),
                    Nystroem(gamma=gamma, n_components=100, random_state=seed),
                )
            )
            gains.append(ours - theirs)
            scores.append(theirs)
        error = np.std(gains, ddof=1) / np.sqrt(len(gains))
        better += int(np.mean(gains) > 0)
        figures += [
            Figure(f"{name}: score with Nystroem", float(np.mean(scores))),
            Figure(f"{name}: gain", float(np.mean(gains)), at_least=-float(error)),
            Figure(f"{name}: standard error of the gain", float(error)),
        ]
    if not figures:
        raise NotAvailableError("none of the data sets is there: set PURSUIT_DATA.")
    return [*figures, Figure("data sets with a gain", better, at_least=3)]


def _score(features: Any, model: Any, X: Any, X_test: Any, y: Any, y_test: Any) -> float:
    return float(make_pipeline(features, model).fit(X, y).score(X_test, y_test))


def _regression(
    load: Callable[[], Any], gamma: float
) -> Callable[[], tuple[Floats, NDArray[Any], float]]:
    def rows() -> tuple[Floats, NDArray[Any], float]:
        data = load()
        return data.X_train[:10_000], data.y_train[:10_000], gamma

    return rows


def _abalone_rings() -> tuple[Floats, NDArray[Any], float]:
    X, y = _published(datasets.load_abalone)
    return StandardScaler().fit_transform(X), (y - y.mean()) / y.std(), 1 / 5


def _digit_classes() -> tuple[Floats, NDArray[Any], float]:
    return load_digits().data / 16.0, load_digits().target, 1 / 8


def _usps_classes() -> tuple[Floats, NDArray[Any], float]:
    X, y, _, _ = _published(datasets.load_usps, split=0)
    return np.asarray(X, dtype=np.float64), y, 1 / 128


TASKS = {
    "digits, LogisticRegression": _Task(_digit_classes, lambda: LogisticRegression(max_iter=2000)),
    "usps, LinearSVC": _Task(_usps_classes, LinearSVC),
    "abalone, Ridge": _Task(_abalone_rings, lambda: Ridge(0.1)),
    "kin40k, Ridge": _Task(_regression(kin40k, 1 / 16), lambda: Ridge(0.01)),
    "protein, Ridge": _Task(_regression(protein, 1 / 8), lambda: Ridge(0.1)),
}


def _published(load: Callable[..., Any], **options: Any) -> Any:
    try:
        return load(return_X_y=True, **options)
    except ValueError as missing:
        raise NotAvailableError(str(missing)) from missing
