"""The tables that come with scikit-learn, through ``pursuit compare``."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

from sklearn import datasets

from benchmarks.harness import Figure
from pursuit.cli.compare import compare

TABLES = {
    "diabetes": datasets.load_diabetes,
    "wine": datasets.load_wine,
    "iris": datasets.load_iris,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
_AUTO = "pursuit (auto)"
_NEAR, _ENOUGH = 1.02, 4
"""Ratio to the best error of others that counts as near, and tables on which ours should be."""


def compare_tables(quick: bool, repeat: int) -> list[Figure]:
    """RMSE or log loss of the model that is chosen on each table, over that of the best other."""
    figures, near = [], 0
    for name in ("iris",) if quick else TABLES:
        found = _compared(name)
        errors = {model["model"]: _error(model) for model in found["models"]}
        ours = {model["model"] for model in found["models"] if model["ours"]}
        other = min(errors.keys() - ours, key=errors.__getitem__)
        ratio = errors[_AUTO] / errors[other]
        near += ratio <= _NEAR
        figures += [
            Figure(f"{name}: {_AUTO}", errors[_AUTO], found["error"]),
            Figure(f"{name}: {other}", errors[other], found["error"]),
            Figure(f"{name}: ratio", ratio, "x"),
        ]
    return [*figures, Figure("tables on which ours is near or first", near, at_least=_ENOUGH)]


def _compared(name: str) -> Any:
    """What ``pursuit compare table.csv --target target --json`` says."""
    X, y = TABLES[name](return_X_y=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
        path = Path(folder) / "table.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"x{j}" for j in range(X.shape[1])), "target"])
            writer.writerows([*row, target] for row, target in zip(X, y, strict=True))
        compare(path, target=["target"], quiet=True, as_json=True)
        return json.loads(out.getvalue())


def _error(model: Any) -> float:
    errors = [fold["error"] for fold in model["folds"]]
    return float(sum(errors) / len(errors))
