"""`pursuit demo`: the whole way, on data that the library makes itself."""

from __future__ import annotations

import csv
import shlex
from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.console import Debug, Force, ending, refuse_existing, say

_ROWS = 20_000


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to write.")] = Path("pursuit-demo"),
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Make a table of a robot arm's positions, then fit, inspect, predict and report."""
    from pursuit.cli.fit import fit
    from pursuit.cli.inspect import inspect, report
    from pursuit.cli.predict import predict
    from pursuit.datasets import make_robot_arm

    table, new, model = folder / "arm.csv", folder / "new.csv", folder / "arm.pursuit"
    out, page = folder / "out.csv", folder / "report.html"
    with ending(debug):
        folder.mkdir(parents=True, exist_ok=True)
        for path in (table, new, model, out, page):
            refuse_existing(path, force)
        arm = make_robot_arm(_ROWS, random_state=0)
        names = [*(f"joint{j}" for j in range(arm.data.shape[1])), "distance"]
        for path, rows in ((table, slice(0, -1000)), (new, slice(-1000, None))):
            with open(path, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(names)
                for row, target in zip(arm.data[rows], arm.target[rows], strict=True):
                    writer.writerow([*(f"{value:.6g}" for value in row), f"{target:.6g}"])

    def step(*words: object) -> None:
        say(f"\n$ pursuit {shlex.join(map(str, words))}")

    step("fit", table, "--target", "distance", "--n-basis", 256, "-o", model)
    fit(table, target="distance", output=model, n_basis=256, force=force, debug=debug)
    step("inspect", model)
    inspect(model, debug=debug)
    step("predict", model, new, "--interval", 0.95, "-o", out)
    predict(model, new, output=str(out), interval=0.95, force=force, debug=debug)
    step("report", model, new, "-o", page)
    report(model, new, output=page, force=force, debug=debug)
