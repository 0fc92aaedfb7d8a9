"""Fit a sparse Gaussian process to 100 000 rows, beside scikit-learn, and write a report.

``make demo`` runs this. It makes its own data, needs no network, and writes ``demo_report.html``
into the current directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.pipeline import make_pipeline

from pursuit import SparseGPRegressor
from pursuit.datasets import make_robot_arm

Floats = NDArray[np.float64]

N_TRAIN, N_TEST = 100_000, 10_000
N_BASIS = 512
REPORT = Path("demo_report.html")


@dataclass(frozen=True)
class Result:
    """One line of the comparison."""

    name: str
    size: int
    fit_seconds: float
    predict_seconds: float
    rmse: float
    r2: float

    def cells(self) -> list[str]:
        return [
            self.name,
            str(self.size),
            f"{self.fit_seconds:.1f}",
            f"{self.predict_seconds:.3f}",
            f"{self.rmse:.4f}",
            f"{self.r2:.4f}",
        ]


HEADINGS = ["model", "basis", "fit, s", "predict, s", "RMSE, m", "R²"]


def main() -> None:
    arm = make_robot_arm(N_TRAIN + N_TEST, random_state=0)
    X, X_test = arm.data[:N_TRAIN], arm.data[N_TRAIN:]
    y, y_test = arm.target[:N_TRAIN], arm.target[N_TRAIN:]
    print(f"A simulated robot arm: {N_TRAIN} rows, {X.shape[1]} joint angles, {N_TEST} test rows.")

    model = SparseGPRegressor(n_basis=N_BASIS, random_state=0)
    show_progress(model)
    results = [measure("pursuit", model, N_BASIS, X, y, X_test, y_test)]
    print(f"\n{model.learning_report_}\n")
    chosen = SparseGPRegressor(
        model.kernel_,
        noise=model.noise_,
        n_basis=N_BASIS,
        optimizer=None,
        certificate=None,
        random_state=0,
    )
    results.append(measure("pursuit, kernel given", chosen, N_BASIS, X, y, X_test, y_test))
    for size in (N_BASIS, 2 * N_BASIS):
        peer = nystroem_ridge(size, model)
        results.append(measure("Nystroem + Ridge, kernel given", peer, size, X, y, X_test, y_test))

    mean, std = model.predict(X_test, return_std=True)
    covered = float(np.mean(np.abs(y_test - mean) <= 1.96 * std))
    print(f"\n{text_table(results)}\n")
    print(f"95 % intervals cover {percent(covered)} of the test rows.")
    print(certificate_sentence(model))
    print(f"({model.certificate_})")
    model.report(REPORT, X_test, y_test)
    print(f"Report written to {REPORT}.")


def show_progress(model: SparseGPRegressor) -> None:
    """A progress bar where scikit-learn has one, a line a stage elsewhere."""
    try:
        from sklearn.callback import ProgressBar

        model.set_callbacks(ProgressBar())
    except ImportError:
        model.set_params(verbose=1)


def nystroem_ridge(size: int, model: SparseGPRegressor) -> Any:
    """scikit-learn's model with the kernel and noise that ours has found, and random rows."""
    return make_pipeline(
        Nystroem(kernel=model.kernel_, n_components=size, random_state=0),
        Ridge(alpha=model.noise_),
    )


def measure(
    name: str, model: Any, size: int, X: Floats, y: Floats, X_test: Floats, y_test: Floats
) -> Result:
    start = perf_counter()
    model.fit(X, y)
    fitted = perf_counter()
    mean = model.predict(X_test)
    predicted = perf_counter()
    return Result(
        name,
        size,
        fitted - start,
        predicted - fitted,
        root_mean_squared_error(y_test, mean),
        r2_score(y_test, mean),
    )


def certificate_sentence(model: SparseGPRegressor) -> str:
    """The relative gap g in words: ½y'y - P(f) is at least (1 - g) of the most it can be."""
    reached = 1.0 - model.certificate_.relative_gap
    return (
        f"With this kernel and noise the model provably brings {percent(reached)} or more of what "
        "any function can take off the objective, the Gaussian process on all rows included."
    )


def percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def text_table(results: list[Result]) -> str:
    rows = [HEADINGS] + [result.cells() for result in results]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


if __name__ == "__main__":
    main()
