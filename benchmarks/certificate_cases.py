"""How tight the kinds of certificates are, beside the true distance."""

from __future__ import annotations

import numpy as np

from benchmarks.data import NotAvailableError, standardised
from benchmarks.harness import Figure
from benchmarks.solvers import THREADS
from pursuit import SparseGPRegressor
from pursuit.datasets import load_abalone

KINDS = "published", "dense", "hybrid", "pcg"
NOISE = 0.1


def certificate_kinds(quick: bool, repeat: int) -> list[Figure]:
    """Gaps of the kinds of certificates on Abalone beside the true distance, by size of the basis.

    The minimum over all functions is computed from the whole kernel matrix. Kernels are RBF of
    the two widths of the paper, as given; features and targets are standardised.
    """
    try:
        X, y = load_abalone(return_X_y=True)
    except ValueError as missing:
        raise NotAvailableError(str(missing)) from missing
    m, sizes = (400, (10, 40)) if quick else (4000, (50, 100, 250))
    data = standardised("abalone", X[:m], y[:m], X[:0], y[:0])
    X, y = data.X_train, data.y_train
    norms = np.einsum("ij,ij->i", X, X)
    squares = np.maximum(norms[:, None] + norms - 2.0 * X @ X.T, 0.0)
    figures = []
    for width, shown in ((10.0, sizes), (1.0, sizes[-1:])):
        K = np.exp(-squares / width)
        least = 0.5 * NOISE * y @ np.linalg.solve(K + NOISE * np.eye(m), y)
        model = SparseGPRegressor(
            "rbf",
            gamma=1.0 / width,
            noise=NOISE,
            n_basis=sizes[-1],
            search="full",
            optimizer=None,
            calibration=None,
            n_jobs=THREADS,
            random_state=0,
        ).fit(X, y)
        for size in shown:
            smaller = model.truncated(size)
            found = {kind: smaller.certify(X, y, kind=kind) for kind in KINDS}
            name = f"2w² = {width:g}, n = {size}"
            true = found["hybrid"].upper - least
            figures.append(Figure(f"{name}: true distance", float(true)))
            figures += [
                Figure(f"{name}, {kind}: gap", one.gap, at_least=float(true))
                for kind, one in found.items()
            ]
    return figures
