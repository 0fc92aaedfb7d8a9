"""The `pursuit` command, the topmost layer: it may import everything else."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command. Without typer, say what to install."""
    try:
        from pursuit.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("pursuit"):
            raise
        sys.exit(f"pursuit: {missing(error.name)}")
    app()


def missing(module: str) -> str:
    """What to do about a module that is not installed."""
    return f'the command line needs {module}: install it with `pip install "pursuit[cli]"`'
