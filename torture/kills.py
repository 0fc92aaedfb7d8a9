"""Processes that are killed at a random moment lose nothing, and leave nothing half done.

A seed draws what is killed: a fit with a checkpoint, saves of a model, or predictions to a file.
The fit must go on to the identical model; the file must be absent, as it was, or as it would have
been; doing it again must give the same bytes, and nothing else may lie in the folder afterwards.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import pursuit
from pursuit import Search, SparseGPRegressor, make_table_pipeline
from torture import Fuzzer, Report
from torture.small_models import Rows, differences, numbers

FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None
_FIRST_SECONDS = 2e-3
"""What a process takes before it begins with anything."""


def run(seed: int, kinds: tuple[str, ...] = ("fit", "save", "predict")) -> Report:
    """Kill one process, and look at what is left."""
    rng, report = np.random.default_rng(seed), Report()
    if FORK is None:
        return report
    kind = str(rng.choice(kinds))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = {"fit": _fit, "save": _save, "predict": _predict}[kind](Path(folder), rng)
    report.counts[f"kills of a {kind}"] += 1
    report.failures += [f"kill of a {kind}: {sentence}" for sentence in wrong]
    return report


def killed(work: Callable[[], object], seconds: float, rng: np.random.Generator) -> None:
    """Begin the work in a process of its own, and kill it at a moment within these seconds."""
    assert FORK is not None
    process = FORK.Process(target=_silent, args=(work,))
    process.start()
    time.sleep(_FIRST_SECONDS + rng.uniform(0.0, 1.2) * seconds)
    process.kill()
    process.join()


def _silent(work: Callable[[], object]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        work()


def timed(work: Callable[[], object]) -> float:
    """Seconds that the work takes when nobody disturbs it."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _fit(folder: Path, rng: np.random.Generator) -> list[str]:
    rows = Rows(rng, int(rng.integers(2100, 20_000)), 2)

    def fit(name: str) -> SparseGPRegressor:
        model = SparseGPRegressor(
            kernel="rbf",
            noise=0.1,
            n_basis=16,
            search=Search(pool_size=100),
            checkpoint=folder / name,
            random_state=0,
            n_jobs=1,
        )
        return model.fit(rows.X, rows.targets["y"])

    began = time.perf_counter()
    expected = numbers(fit("whole"), rows)
    seconds = time.perf_counter() - began
    for _ in range(int(rng.integers(1, 4))):
        killed(lambda: fit("killed"), seconds, rng)
    wrong = []
    difference = differences(expected, numbers(fit("killed"), rows))
    if difference:
        wrong.append(f"the resumed fit is another one: {difference}")
    whole, left = (sorted(os.listdir(folder / name)) for name in ("whole", "killed"))
    if whole != left:
        wrong.append(f"the folder holds {left}, not {whole}")
    return wrong


def _models(rng: np.random.Generator) -> tuple[Rows, list[SparseGPRegressor]]:
    rows = Rows(rng, 300, 2)
    return rows, [
        SparseGPRegressor("rbf", noise=0.1, n_basis=n, optimizer=None, random_state=0).fit(
            rows.X, rows.targets["y"]
        )
        for n in (100, 5)
    ]


def _save(folder: Path, rng: np.random.Generator) -> list[str]:
    rows, models = _models(rng)
    path, wrong = folder / ("m" * int(rng.integers(1, 240))), []
    files = []
    for model in models:
        model.save(path)
        files.append(path.read_bytes())
    seconds = timed(lambda: models[0].save(path))
    if rng.random() < 0.5:
        path.unlink()

    def saves() -> None:
        for k in range(20):
            models[k % 2].save(path)

    existed = path.exists()
    killed(saves, 10 * seconds, rng)
    if path.exists():
        if path.read_bytes() not in files:
            wrong.append("the file is neither the old nor the new one")
        elif differences(
            numbers(models[files.index(path.read_bytes())], rows), numbers(pursuit.load(path), rows)
        ):
            wrong.append("the file holds another model")
    elif existed:
        wrong.append("the file that was there is gone")
    models[1].save(path)
    if path.read_bytes() != files[1] or os.listdir(folder) != [path.name]:
        wrong.append(f"the next save left {os.listdir(folder)}")
    return wrong


def _predict(folder: Path, rng: np.random.Generator) -> list[str]:
    import pandas as pd

    from pursuit.cli.predict import predict

    rows = Rows(rng, 300, 2)
    named = pd.DataFrame(rows.X, columns=["x0", "x1"])
    gp = SparseGPRegressor("rbf", noise=0.1, n_basis=5, optimizer=None, random_state=0)
    table, model, out = folder / "new.csv", folder / "model.pursuit", folder / "out.csv"
    make_table_pipeline(gp).fit(named, rows.targets["y"]).save(model)
    X = np.tile(rows.X, (int(rng.integers(1, 30)), 1))
    np.savetxt(table, X, delimiter=",", header="x0,x1", comments="")

    def write() -> None:
        _silent(lambda: predict(model, table, output=out, force=True))

    seconds = timed(write)
    expected, wrong = out.read_bytes(), []
    out.unlink()
    killed(write, seconds, rng)
    if out.exists() and out.read_bytes() != expected:
        wrong.append("a part of the file is taken for the whole")
    write()
    if out.read_bytes() != expected:
        wrong.append("predictions are other ones the second time")
    left = sorted(os.listdir(folder))
    if left != ["model.pursuit", "new.csv", "out.csv"]:
        wrong.append(f"the folder holds {left}")
    return wrong


FUZZER = Fuzzer(name="kills", run=run)
