"""Neighbours in feature space: kernel values and time beside brute force on the same distances."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import NearestNeighbors

from benchmarks.data import NotAvailableError
from benchmarks.harness import Figure, best_seconds, seconds
from pursuit import SpanNeighbors, datasets, pairwise

Floats = NDArray[np.float64]

NEIGHBORS = 5
LETTERS = list("abcdefghijklmnopqrstuvwxyz")


def neighbors_usps(quick: bool, repeat: int) -> list[Figure]:
    """Five neighbours of the USPS test digits by a wide and a narrow RBF, 200 landmarks."""
    try:
        X, _, new, _ = datasets.load_usps(split=0, return_X_y=True)
    except ValueError as missing:
        raise NotAvailableError(str(missing)) from missing
    X, new = X.astype(np.float64), new.astype(np.float64)
    if quick:
        X, new = X[:1000], new[:200]
    figures = []
    for width, at_most in ((128, 0.05), (32, None)):
        found: dict[str, Any] = {}
        search = SpanNeighbors("rbf", gamma=1 / width, n_components=200, random_state=0)

        def ours(search: SpanNeighbors = search, found: dict[str, Any] = found) -> None:
            found["ours"], _, found["cost"] = search.kneighbors(new, NEIGHBORS, return_cost=True)

        def brute(width: int = width, found: dict[str, Any] = found) -> None:
            found["brute"] = _brute_force(rbf_kernel(new, X, gamma=1 / width))

        tasks = {"fit": lambda search=search: search.fit(X), "ours": ours, "brute": brute}
        best = best_seconds(tasks, repeat)
        cost, name = found["cost"], f"2w² = {width}"
        asked = (cost.query_entries + cost.evaluated) / cost.pairs
        figures += [
            Figure(f"{name}: share of pairs evaluated", cost.share, at_most=at_most),
            Figure(f"{name}: with placing the queries", asked, at_most=at_most),
            Figure(f"{name}: rows with other distances", _differing(found), at_most=0.0),
            Figure(f"{name}: index", best["fit"], "s"),
            Figure(f"{name}: search", best["ours"], "s"),
            Figure(f"{name}: brute force", best["brute"], "s"),
        ]
    return figures


def neighbors_strings(quick: bool, repeat: int) -> list[Figure]:
    """Five neighbours of strings by a kernel of shared triples, 100 landmarks, timed once."""
    m = 200 if quick else 1000
    return [
        *_string_figures("addresses", _addresses(m)),
        *_string_figures("four of 100 words", _sentences(m)),
    ]


def _string_figures(name: str, rows: list[str]) -> list[Figure]:
    kernel = pairwise(_shared_triples)
    search = SpanNeighbors(kernel, n_components=100, random_state=0)
    found: dict[str, Any] = {}

    def ours() -> None:
        found["ours"], _, found["cost"] = search.kneighbors(n_neighbors=NEIGHBORS, return_cost=True)

    def brute() -> None:
        K = kernel(rows, rows)
        np.fill_diagonal(K, -1.0)  # farther from itself than from any other
        found["brute"] = _brute_force(K)

    fit, look, compare = (seconds(task) for task in (lambda: search.fit(rows), ours, brute))
    cost = found["cost"]
    asked = (cost.index_entries + cost.evaluated) / cost.pairs
    return [
        Figure(f"{name}: share of pairs evaluated", cost.share),
        Figure(f"{name}: with the index", asked),
        Figure(f"{name}: rows with other distances", _differing(found), at_most=0.0),
        Figure(f"{name}: index", fit, "s"),
        Figure(f"{name}: search", look, "s"),
        Figure(f"{name}: brute force", compare, "s"),
        Figure(f"{name}: index and search / brute force", (fit + look) / compare, "x"),
    ]


def _brute_force(K: Floats) -> Floats:
    """Distances of the nearest by scikit-learn's search in all of them; k(x,x) + k(z,z) is 2."""
    D = np.sqrt(np.maximum(2.0 - 2.0 * K, 0.0))
    peer = NearestNeighbors(n_neighbors=NEIGHBORS, metric="precomputed", algorithm="brute")
    distances, _ = peer.fit(np.zeros((D.shape[1],) * 2)).kneighbors(D)
    return distances


def _differing(found: dict[str, Floats]) -> int:
    """Queries whose neighbours lie at other distances; rows at equal ones may be exchanged."""
    return int(np.any(np.abs(found["ours"] - found["brute"]) > 1e-6, axis=1).sum())


def _addresses(n: int) -> list[str]:
    """Made of a few parts each, a tenth of them copies with slips of the finger."""
    rng = np.random.default_rng(0)
    parts = [[_word(rng) for _ in range(size)] for size in (20, 20, 14, 5, 12)]
    rows = [" ".join(rng.choice(part) for part in parts) for _ in range(n - n // 10)]
    return rows + [_slip(rows[i], rng) for i in range(n // 10)]


def _sentences(n: int) -> list[str]:
    """Four words in any order, one of them misspelt: as many directions as words."""
    rng = np.random.default_rng(0)
    words = [_word(rng) for _ in range(100)]
    return [_slip(" ".join(rng.choice(words, 4)), rng) for _ in range(n)]


def _word(rng: np.random.Generator) -> str:
    return "".join(rng.choice(LETTERS, rng.integers(4, 10)))


def _slip(text: str, rng: np.random.Generator) -> str:
    place = rng.integers(len(text))
    return text[:place] + rng.choice(LETTERS) + text[place + 1 :]


@cache
def _triples(text: str) -> dict[str, float]:
    counts = Counter(text[i : i + 3] for i in range(len(text) - 2))
    length = np.sqrt(sum(count**2 for count in counts.values()))
    return {triple: count / length for triple, count in counts.items()}


def _shared_triples(a: str, b: str) -> float:
    here, there = _triples(a), _triples(b)
    return float(sum(weight * there.get(triple, 0.0) for triple, weight in here.items()))
