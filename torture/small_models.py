"""Estimators in small, the rows they are fitted to, and all numbers that they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from pursuit import (
    Evidence,
    ExactGPRegressor,
    FullScaleGPClassifier,
    FullScaleGPRegressor,
    GreedyFeatureMap,
    HullBoostClassifier,
    HullMixture,
    HullRegressor,
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
    LowRankOneClassSVM,
    LowRankSVC,
    LowRankSVR,
    LPMachineClassifier,
    LPMachineRegressor,
    Search,
    SpanNeighbors,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelCCA,
    SparseKernelGLM,
    SparseKernelPCA,
    SparseKernelRidge,
)

FEW = Evidence(rows=300)
SMALL = Search(pool_size=60)

MODELS: dict[str, tuple[str, Callable[[], Any]]] = {
    "SparseGPRegressor": ("y", lambda: SparseGPRegressor(n_basis=12, optimizer=FEW)),
    "SparseGPRegressor, moved": (
        "y",
        lambda: SparseGPRegressor(n_basis=8, optimizer=FEW, search=SMALL, refine=3),
    ),
    "SparseGPClassifier": ("c", lambda: SparseGPClassifier(n_basis=8, optimizer=FEW)),
    "FullScaleGPRegressor": (
        "y",
        lambda: FullScaleGPRegressor(n_basis=8, n_neighbors=5, optimizer=FEW),
    ),
    "FullScaleGPClassifier": (
        "c",
        lambda: FullScaleGPClassifier(n_basis=8, n_neighbors=5, optimizer=FEW),
    ),
    "ExactGPRegressor": ("y", lambda: ExactGPRegressor(optimizer=FEW)),
    "ExactGPRegressor, cg": ("y", lambda: ExactGPRegressor(solver="cg", optimizer=FEW)),
    "SparseKernelRidge": ("y", lambda: SparseKernelRidge(n_basis=12)),
    "SparseKernelRidge, random": ("y", lambda: SparseKernelRidge(method="random", n_basis=12)),
    "SparseKernelGLM": ("y", lambda: SparseKernelGLM(loss="huber", n_basis=8)),
    "LowRankSVC": ("c3", lambda: LowRankSVC(n_basis=12)),
    "LowRankSVR": ("y", lambda: LowRankSVR(n_basis=12)),
    "LowRankOneClassSVM": ("", lambda: LowRankOneClassSVM(n_basis=12)),
    "LPMachineClassifier": ("c", LPMachineClassifier),
    "LPMachineRegressor": ("y", LPMachineRegressor),
    "KernelMatchingPursuitRegressor": ("y", lambda: KernelMatchingPursuitRegressor(n_basis=8)),
    "KernelMatchingPursuitClassifier": ("c", lambda: KernelMatchingPursuitClassifier(n_basis=8)),
    "HullRegressor": ("y", lambda: HullRegressor(n_terms=8, radius=3.0)),
    "HullBoostClassifier": ("c3", lambda: HullBoostClassifier(n_terms=6)),
    "HullMixture": ("", lambda: HullMixture(n_terms=4)),
    "SparseKernelPCA": ("", lambda: SparseKernelPCA(n_basis=12)),
    "SparseKernelCCA": ("Y", lambda: SparseKernelCCA(n_basis=12)),
    "GreedyFeatureMap": ("", lambda: GreedyFeatureMap(n_components=12)),
    "SpanNeighbors": ("", lambda: SpanNeighbors(n_components=12)),
}
SAID = ("decision_function", "predict_proba", "transform", "score_samples", "predict")


class Rows:
    """Random rows with all kinds of targets."""

    def __init__(self, rng: np.random.Generator, m: int, d: int) -> None:
        self.X = rng.uniform(-2.0, 2.0, (m, d))
        values = np.sin(2.0 * self.X[:, 0]) + self.X[:, -1] ** 2
        self.new = rng.uniform(-2.0, 2.0, (40, d))
        self.targets: dict[str, Any] = {
            "": None,
            "y": values + 0.2 * rng.standard_normal(m),
            "c": (values > np.median(values)).astype(int),
            "c3": np.digitize(values, np.quantile(values, [0.3, 0.6])),
            "Y": self.X[:, :1] + 0.1 * rng.standard_normal((m, 1)),
        }


def fitted(name: str, rows: Rows, seed: int = 0, X: Any = None, **parameters: Any) -> Any:
    """The model of this name, fitted to the rows, or to X in their place."""
    target, make = MODELS[name]
    model = make().set_params(random_state=seed, **parameters)
    X = rows.X if X is None else X
    return model.fit(X) if not target else model.fit(X, rows.targets[target])


def numbers(model: Any, rows: Rows) -> list[np.ndarray]:
    """What a fitted model says about new rows, and what it is made of."""
    said: list[Any] = [getattr(model, name)(rows.new) for name in SAID if hasattr(model, name)]
    if hasattr(model, "kneighbors"):
        said += model.kneighbors(rows.new, 3)
    for name in ("dual_coef_", "noise_", "basis_indices_", "component_indices_", "coef_"):
        said.append(getattr(model, name, 0.0))
    parts = [one for part in said for one in (part if isinstance(part, tuple) else [part])]
    return [part.toarray() if sparse.issparse(part) else np.asarray(part) for part in parts]


def bounds(model: Any) -> np.ndarray:
    """Upper and lower bound of the model's certificate, 0 where there is none."""
    certificate = getattr(model, "certificate_", None)
    return np.array([float(getattr(certificate, name, 0.0)) for name in ("upper", "lower")])


def differences(first: list[np.ndarray], second: list[np.ndarray]) -> str:
    """Where two lists of numbers are not the same to the last bit; "" where they are."""
    if len(first) != len(second):
        return f"{len(first)} and {len(second)} arrays"
    for k, (a, b) in enumerate(zip(first, second, strict=True)):
        if a.shape != b.shape:
            return f"array {k} has shapes {a.shape} and {b.shape}"
        if a.tobytes() != b.tobytes():
            if a.dtype.kind == "f" == b.dtype.kind:
                return f"array {k} differs by up to {np.nanmax(np.abs(a - b)):.1e}"
            return f"array {k} differs"
    return ""
