"""Sparse kernel PCA: time beside KernelPCA, novelty beside OneClassSVM, denoised digits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.datasets import load_breast_cancer, load_digits, make_moons
from sklearn.decomposition import PCA, KernelPCA
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from benchmarks.data import NotAvailableError
from benchmarks.harness import Figure, seconds, traced_peak
from pursuit import Search, SparseKernelPCA, datasets

Floats = NDArray[np.float64]

GIGABYTE = 2.0**30
N_SEEDS = 5
LINEAR_COMPONENTS = 5, 10, 15, 20, 25, 30, 50


def components(quick: bool, repeat: int) -> list[Figure]:
    """500 basis vectors for 100 000 rows, beside KernelPCA of as many components on 10 000."""
    m, few, n = (10_000, 1_500, 50) if quick else (100_000, 10_000, 500)
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(20, 20)) * np.linspace(1, 0.1, 20)[:, None]
    centres = rng.normal(size=(30, 20))
    X = centres[rng.integers(0, 30, m)] + 0.3 * rng.normal(size=(m, 20)) @ mixing
    X /= X.std(axis=0)
    options = {"gamma": 1 / 40, "random_state": 0}

    def ours() -> SparseKernelPCA:
        return SparseKernelPCA(n_basis=n, n_components=n, **options).fit(X)

    def theirs() -> None:
        KernelPCA(n, kernel="rbf", eigen_solver="randomized", **options).fit(X[:few])

    best = min(seconds(ours) for _ in range(repeat))
    peer = seconds(theirs)
    random = SparseKernelPCA(n_basis=n, search=Search(pool_size=n), **options).fit(X)
    return [
        Figure(f"SparseKernelPCA, {m} rows", best, "s"),
        Figure(f"KernelPCA, {few} rows", peer, "s"),
        Figure("ours / KernelPCA", best / peer, "x", at_most=0.2),
        Figure("memory added by a fit", traced_peak(ours) / GIGABYTE, "GB", at_most=1.5),
        Figure("mean residual", ours().residual_trace_ / m),
        Figure("mean residual of a random basis", random.residual_trace_ / m),
    ]


def novelty(quick: bool, repeat: int) -> list[Figure]:
    """Area under the ROC curve beside the best of three one-class SVMs, mean over seeds."""
    figures, wins = [], 0
    for name in ("digits", "breast cancer", "moons", "housing"):
        found = np.mean([_areas(name, seed) for seed in range(1 if quick else N_SEEDS)], axis=0)
        ours, by_bound, theirs = found
        wins += int(ours >= theirs)
        figures += [
            Figure(f"{name}: half of the rows as basis", float(ours)),
            Figure(f"{name}: basis by the bound", float(by_bound)),
            Figure(f"{name}: OneClassSVM, best nu", float(theirs)),
        ]
    return [*figures, Figure("data sets on which ours is no worse", wins, at_least=3)]


def denoising(quick: bool, repeat: int) -> list[Figure]:
    """Share of noise of deviation .5 that remains on USPS test digits; fitted to clean ones."""
    try:
        X, _, clean, _ = datasets.load_usps(return_X_y=True, split=0)
    except ValueError as missing:
        raise NotAvailableError(str(missing)) from missing
    X, clean = np.asarray(X, float), np.asarray(clean, float)[: 300 if quick else None]
    noisy = clean + 0.5 * np.random.default_rng(0).normal(size=clean.shape)

    def reduction(found: Floats) -> float:
        return float(1 - np.mean((found - clean) ** 2) / np.mean((noisy - clean) ** 2))

    gamma = 1 / (4 * np.median(pdist(X[:500], "sqeuclidean")))
    model = SparseKernelPCA(gamma=gamma, n_basis=300, n_components=50, random_state=0).fit(X)
    Z = model.transform(noisy)
    linear = []
    for q in LINEAR_COMPONENTS:
        pca = PCA(q).fit(X)
        linear.append(reduction(pca.inverse_transform(pca.transform(noisy))))
    fixed = reduction(model.inverse_transform(Z))
    ridge = reduction(model.set_params(preimage="ridge").inverse_transform(Z))
    return [
        Figure("error taken off, fixed point", fixed, at_least=max(0.8, max(linear))),
        Figure("error taken off, ridge", ridge),
        Figure("error taken off, best linear PCA", max(linear)),
    ]


def _areas(name: str, seed: int) -> tuple[float, float, float]:
    train, normal, novel = _novelty_data(name, np.random.default_rng(seed), seed)
    gamma = 1 / (train.shape[1] * train.var())
    test = np.vstack([normal, novel])
    truth = np.arange(len(test)) < len(normal)

    def area(scores: Floats) -> float:
        return float(roc_auc_score(truth, scores))

    half = SparseKernelPCA(gamma=gamma, n_basis=len(train) // 2).fit(train)
    bound = SparseKernelPCA(gamma=gamma).fit(train)
    machines = [OneClassSVM(gamma=gamma, nu=nu).fit(train) for nu in (0.05, 0.1, 0.5)]
    return (
        area(half.score_samples(test)),
        area(bound.score_samples(test)),
        max(area(machine.decision_function(test)) for machine in machines),
    )


def _novelty_data(name: str, rng: np.random.Generator, seed: int) -> tuple[Floats, Floats, Floats]:
    """Training rows, normal rows, novel rows."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        normal = rng.permutation(np.flatnonzero(y == seed % 10))
        half = len(normal) // 2
        return X[normal[:half]] / 16, X[normal[half:]] / 16, X[y != seed % 10] / 16
    if name == "breast cancer":
        X, y = load_breast_cancer(return_X_y=True)
        benign = rng.permutation(np.flatnonzero(y == 1))
        part = 2 * len(benign) // 3
        scale = StandardScaler().fit(X[benign[:part]]).transform
        return scale(X[benign[:part]]), scale(X[benign[part:]]), scale(X[y == 0])
    if name == "moons":
        X = make_moons(1500, noise=0.08, random_state=seed)[0]
        noise = rng.uniform(-2, 3, (575, 2))
        return np.vstack([X[:1000], noise[:75]]), X[1000:], noise[75:]
    try:
        X, _ = datasets.load_boston(return_X_y=True)
    except ValueError as missing:
        raise NotAvailableError(str(missing)) from missing
    X = StandardScaler().fit_transform(X)
    order = rng.permutation(len(X))
    shuffled = np.column_stack([rng.permutation(column) for column in X.T])[:200]
    return X[order[:300]], X[order[300:]], shuffled
