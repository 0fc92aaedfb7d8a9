"""Fits to files: more rows than one would hold in memory, and the flights from New York in 2013."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.data import NotAvailableError
from benchmarks.file_fit import in_memory, model
from benchmarks.flights import TARGET, flights
from benchmarks.harness import Figure
from pursuit import SparseGPRegressor, open_table
from pursuit.datasets import make_robot_arm

Floats = NDArray[np.float64]

MILLION = 1_000_000
GIGABYTE = 1e9
_CHUNK = 250_000
_ROW_GROUP = 100_000
_COMPARED = 1000


def parquet(quick: bool, repeat: int) -> list[Figure]:
    """Fits to 1 and 10 million rows of Parquet: memory, time per row, speed over rows in memory."""
    sizes = (250_000, 2_500_000) if quick else (MILLION, 10 * MILLION)
    ways = {"given": [], "learned": ["--learn"], "given, in memory": ["--memory"]}
    figures, costs = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in sizes:
            path = Path(folder) / f"{n_rows}.parquet"
            write_arm(path, n_rows)
            for kind, found in _best_fits(path, ways, repeat).items():
                name = f"{n_rows} rows, kernel {kind}"
                costs[n_rows, kind] = found["fit"] / n_rows * MILLION
                most = None if kind.endswith("memory") else 1.5
                figures += [
                    Figure(f"{name}: fit", found["fit"], "s"),
                    Figure(f"{name}: peak memory", found["peak"] / GIGABYTE, "GB", at_most=most),
                    Figure(f"{name}: per million rows", costs[n_rows, kind], "s"),
                ]
            path.unlink()
        figures += [
            Figure(
                f"time a row at {sizes[1]} over that at {sizes[0]} rows, kernel {kind}",
                costs[sizes[1], kind] / costs[sizes[0], kind],
                "x",
                at_most=1.1,
            )
            for kind in ("given", "learned")
        ]
        figures.append(
            Figure(
                f"rows per second from the file over those from memory, {sizes[1]} rows",
                costs[sizes[1], "given, in memory"] / costs[sizes[1], "given"],
                "x",
                at_least=0.9,
            )
        )
        return figures + _same_model(Path(folder), 50_000 if quick else 500_000)


def flight_delays(quick: bool, repeat: int) -> list[Figure]:
    """Arrival delays of 327 346 flights, fitted from Parquet, beside trees and Nystroem + Ridge."""
    pa, pq = _arrow()
    n_rows, n_basis = (20_000, 200) if quick else (None, 1024)
    train, test = flights(n_rows)
    X, y = train.drop(columns=TARGET).to_numpy(), train[TARGET].to_numpy()
    X_test, y_test = test.drop(columns=TARGET).to_numpy(), test[TARGET].to_numpy()
    peers = {
        "HistGradientBoostingRegressor": lambda: HistGradientBoostingRegressor(random_state=0),
        f"Nystroem {n_basis} + Ridge": lambda: make_pipeline(
            StandardScaler(),
            Nystroem(gamma=0.5 / X.shape[1], n_components=n_basis, random_state=0),
            RidgeCV(np.geomspace(1e-3, 1e3, 7)),
        ),
    }
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flights.parquet"
        pq.write_table(pa.Table.from_pandas(train, preserve_index=False), path)
        ours = SparseGPRegressor(n_basis=n_basis, certificate=None, random_state=0)
        start = perf_counter()
        ours.fit(path, target=TARGET)
        spent = perf_counter() - start
        table = pa.Table.from_pandas(test, preserve_index=False)
        mean, std = ours.predict(table, return_std=True)
        errors = {"": _accuracy(y_test, mean, std)}
        name = f"SparseGPRegressor {n_basis}, from the file"
        figures += _accuracy_figures(name, spent, *errors[""])
    kept = np.random.default_rng(1).permutation(len(X)) >= len(X) // 10
    for name, make in peers.items():
        start = perf_counter()
        fitted = make().fit(X, y)
        spent = perf_counter() - start
        # A peer without error bars gets the error it makes on rows left out.
        left_out = y[~kept] - make().fit(X[kept], y[kept]).predict(X[~kept])
        spread = np.full(len(y_test), np.sqrt(np.mean(left_out**2)))
        errors[name] = _accuracy(y_test, fitted.predict(X_test), spread)
        figures += _accuracy_figures(name, spent, *errors[name])
    figures += [
        Figure(f"RMSE over that of {name}", errors[""][0] / errors[name][0], "x") for name in peers
    ]
    return figures


def _accuracy(y: Floats, mean: Floats, std: Floats) -> tuple[float, float]:
    """Root mean square error, and mean log density of a normal distribution."""
    z = (y - mean) / std
    density = -np.log(std) - 0.5 * z**2 - 0.5 * np.log(2 * np.pi)
    return float(np.sqrt(np.mean((y - mean) ** 2))), float(density.mean())


def _accuracy_figures(name: str, fit: float, rmse: float, density: float) -> list[Figure]:
    return [
        Figure(f"{name}: fit", fit, "s"),
        Figure(f"{name}: RMSE", rmse, "min"),
        Figure(f"{name}: log density", density),
    ]


def write_arm(path: Path, n_rows: int) -> None:
    """The simulated arm, its angles and, as y, the distance to its goal, in odd row groups."""
    pa, pq = _arrow()
    names = [f"angle{j}" for j in range(8)]
    schema = pa.schema([(name, pa.float64()) for name in [*names, "y"]])
    with pq.ParquetWriter(path, schema) as writer:
        for seed, start in enumerate(range(0, n_rows, _CHUNK)):
            arm = make_robot_arm(min(_CHUNK, n_rows - start), random_state=seed)
            columns = dict(zip(names, arm.data.T, strict=True), y=10.0 * arm.target)
            writer.write_table(pa.table(columns, schema=schema), row_group_size=_ROW_GROUP)


def _best_fits(path: Path, ways: dict[str, list[str]], repeat: int) -> dict[str, dict[str, float]]:
    """The fastest fit of each way, in rounds over all of them."""
    rounds = [{kind: _fit(path, options) for kind, options in ways.items()} for _ in range(repeat)]
    return {kind: min((one[kind] for one in rounds), key=lambda fit: fit["fit"]) for kind in ways}


def _fit(path: Path, options: list[str]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.file_fit", str(path), *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _same_model(folder: Path, n_rows: int) -> list[Figure]:
    """The model of a file beside that of the same rows in memory."""
    from pursuit.estimators import inputs as sources

    path = folder / "compared.parquet"
    write_arm(path, n_rows)
    X, y = in_memory(open_table(path))
    figures = []
    small = sources.SMALL_BYTES
    for kind in ("given", "learned"):
        memory = model(learn=kind == "learned", dtype="float64").fit(X, y)
        sources.SMALL_BYTES = 0  # else so few rows would be read into memory
        file = model(learn=kind == "learned", dtype="float64").fit(path, target="y")
        sources.SMALL_BYTES = small
        same = np.mean(file.basis_indices_ == memory.basis_indices_)
        if kind == "learned":
            same = float(np.allclose(file.basis_, memory.basis_, rtol=1e-8, atol=0.0))
        expected = memory.predict(X[:_COMPARED])
        got = file.predict(path)[:_COMPARED]
        difference = np.abs(got - expected).max() / np.abs(expected).max()
        name = f"{n_rows} rows, file beside memory, kernel {kind}"
        figures += [
            Figure(f"{name}: basis that is the same", same, "", at_least=1.0),
            Figure(f"{name}: relative difference of predictions", difference, "", at_most=1e-8),
        ]
    path.unlink()
    return figures


def _arrow() -> tuple[Any, Any]:
    if find_spec("pyarrow") is None:
        raise NotAvailableError('pyarrow is not installed: pip install "pursuit[parquet]"')
    import pyarrow
    import pyarrow.parquet

    return pyarrow, pyarrow.parquet
