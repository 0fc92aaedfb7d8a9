"""This version beside an earlier one of the package, fit by fit."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.before_fit import FITS
from benchmarks.data import NotAvailableError, kin40k, protein
from benchmarks.harness import Figure

BEFORE = "46b8f7d"
"""The last commit before the work on the speed of 0.2."""
ROOT = Path(__file__).parent.parent
_AIMS = {"kin40k, exact process": 0.65}
_AIM = 0.5


def before(quick: bool, repeat: int) -> list[Figure]:
    """Time and error of large fits over those of the package before 0.2's work on speed.

    Each fit is a process of its own. Both versions take turns, so that a busy minute falls on both.
    """
    kin40k(), protein()  # say what is missing before any process is started
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        _source(BEFORE, Path(folder))
        versions = {"before": Path(folder) / "src", "now": ROOT / "src"}
        for name in FITS:
            found = {version: dict[str, float]() for version in versions}
            for _ in range(repeat):
                for version, source in versions.items():
                    one, best = _fit(name, source, quick), found[version]
                    found[version] = one | {"fit": min(one["fit"], best.get("fit", one["fit"]))}
            old, new = found["before"], found["now"]
            most = _AIMS.get(name, _AIM)
            figures += [
                Figure(f"{name}: fit before", old["fit"], "s"),
                Figure(f"{name}: fit", new["fit"], "s"),
                Figure(f"{name}: fit over that before", new["fit"] / old["fit"], "x", at_most=most),
                Figure(f"{name}: RMSE before", old["rmse"]),
                Figure(f"{name}: RMSE", new["rmse"]),
            ]
    return figures


def _source(commit: str, folder: Path) -> None:
    """The package as it was, in a folder of its own."""
    made = subprocess.run(
        ["git", "archive", "--format=tar", commit, "src"], cwd=ROOT, capture_output=True
    )
    if made.returncode:
        raise NotAvailableError(
            f"commit {commit} is not in this clone: git fetch --unshallow, in a clone made by git"
        )
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")


def _fit(name: str, source: Path, quick: bool) -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.before_fit", name, *(["--quick"] if quick else [])],
        env=os.environ | {"PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found
