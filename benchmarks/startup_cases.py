"""CPU seconds until an import, or the command's help, is there; every one in a new interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.harness import Figure

_PACKAGE, _COMMAND = 0.15, 0.3
"""CPU seconds that ``import pursuit`` may add to scikit-learn's own, and that the help may take."""
_RUN = "import sys; sys.argv[0] = 'pursuit'; from pursuit.cli import main; main()"
"""The command under its own name, which completion depends on."""


def startup(quick: bool, repeat: int) -> list[Figure]:
    """CPU seconds of the import, and of the command's help, version and completion."""
    rounds = 1 if quick else max(repeat, 5)
    sklearn = _import_seconds("import sklearn", rounds)
    package = _import_seconds("import sklearn; import pursuit", rounds)
    estimator = _import_seconds("import sklearn; from pursuit import SparseGPRegressor", rounds)
    figures = [
        Figure("import sklearn", sklearn, "s"),
        Figure("import pursuit adds", package - sklearn, "s", at_most=_PACKAGE),
        Figure("from pursuit import SparseGPRegressor adds", estimator - sklearn, "s"),
    ]
    completion = {
        "_PURSUIT_COMPLETE": "complete_bash",
        "COMP_WORDS": "pursuit fi",
        "COMP_CWORD": "1",
    }
    for name, words, environment in (
        ("pursuit --help", ["--help"], {}),
        ("pursuit --version", ["--version"], {}),
        ("pursuit fit --help", ["fit", "--help"], {}),
        ("shell completion", [], completion),
    ):
        command = [sys.executable, "-c", _RUN, *words]
        best = min(_child_seconds(command, environment) for _ in range(rounds))
        figures.append(Figure(name, best, "s", at_most=_COMMAND))
    return figures


def _import_seconds(statement: str, rounds: int) -> float:
    return min(_child_seconds([sys.executable, "-c", statement], {}) for _ in range(rounds))


def _child_seconds(command: list[str], environment: dict[str, str]) -> float:
    """User and system CPU seconds of a process and its children."""
    import resource  # Windows has none

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=os.environ | environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
