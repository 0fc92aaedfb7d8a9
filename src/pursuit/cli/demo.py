"""`pursuit demo`: a table of a robot arm's positions, and all commands on it."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from pursuit.cli.console import Debug, Force, WrongCallError, ending, quoted, say
from pursuit.cli.files import refuse_output
from pursuit.cli.fit import fit
from pursuit.cli.fitting import Kind
from pursuit.cli.inspect import inspect
from pursuit.cli.predict import predict
from pursuit.cli.report import report

_ROWS, _NEW, _BASIS = 100_000, 10_000, 512
"""Training rows, new rows and basis functions."""


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to write.")] = Path("pursuit-demo"),
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Make a table of a robot arm's positions, fit, inspect, predict, report, and compare."""
    table, new, model = folder / "arm.csv", folder / "new.csv", folder / "arm.pursuit"
    out, page = folder / "out.csv", folder / "report.html"
    with ending(debug):
        from pursuit.datasets import make_robot_arm

        if folder.exists() and not folder.is_dir():
            raise WrongCallError(f"{folder} is a file: name a folder.")
        folder.mkdir(parents=True, exist_ok=True)
        for path in (table, new, model, out, page):
            refuse_output(path, force)
        arm = make_robot_arm(_ROWS + _NEW, random_state=0)
        names = [*(f"joint{j}" for j in range(arm.data.shape[1])), "distance"]
        for path, rows in ((table, slice(0, -_NEW)), (new, slice(-_NEW, None))):
            with open(path, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(names)
                for row, target in zip(arm.data[rows], arm.target[rows], strict=True):
                    writer.writerow([*(f"{value:.6g}" for value in row), f"{target:.6g}"])

    def show(*words: object) -> None:
        say()
        say(f"$ pursuit {' '.join(map(quoted, words))}")

    words = ["--target", "distance", "--model", "sparse", "--n-basis", _BASIS]
    show("fit", table, *words, "-o", model)
    started = time.perf_counter()
    fit(
        table,
        target=["distance"],
        output=model,
        model=Kind.sparse,
        n_basis=_BASIS,
        force=force,
        debug=debug,
    )
    seconds = time.perf_counter() - started
    show("inspect", model)
    inspect(model, debug=debug)
    show("predict", model, new, "--interval", 0.95, "-o", out)
    predict(model, new, output=out, interval=0.95, force=force, debug=debug)
    show("report", model, new, "-o", page)
    report(model, new, output=page, force=force, debug=debug)
    with ending(debug):
        _compare(model, out, arm.data, arm.target, seconds)


def _compare(path: Path, predictions: Path, X: Any, y: Any, seconds: float) -> None:
    """Say how accurate the demo's model is, beside scikit-learn's with the kernel it learned."""
    import numpy as np
    import pyarrow.csv
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.metrics import root_mean_squared_error
    from sklearn.pipeline import make_pipeline

    import pursuit

    model = pursuit.load(path)
    train, new = slice(0, -_NEW), slice(-_NEW, None)
    table = pyarrow.csv.read_csv(predictions)
    mean, lower, upper = (table[name].to_numpy() for name in ("prediction", "lower", "upper"))
    covered = float(np.mean((lower <= y[new]) & (y[new] <= upper)))
    say()
    say(f"{'':32}basis  fit, s  RMSE on new rows")
    line = "{:32}{:>5}  {:>6.1f}  {:.4f}".format
    error = root_mean_squared_error(y[new], mean)
    say(line("pursuit, kernel learned", model.n_basis_, seconds, error))
    for size in (_BASIS, 2 * _BASIS):
        peer = make_pipeline(
            Nystroem(kernel=model.kernel_, n_components=size, random_state=0),
            Ridge(alpha=model.noise_),
        )
        started = time.perf_counter()
        peer.fit(X[train], y[train])
        seconds = time.perf_counter() - started
        error = root_mean_squared_error(y[new], peer.predict(X[new]))
        say(line("Nystroem + Ridge, kernel given", size, seconds, error))
    say()
    say(f"95 % intervals contain {100 * covered:.1f} % of the new rows.")
