"""The `pursuit` command. Stands above everything else and may import all of it."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; without typer, say what to install."""
    try:
        from pursuit.cli.app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("pursuit"):
            raise
        sys.exit(f"pursuit: {missing(error.name)}")
    app()


def missing(module: str) -> str:
    """What to do about a module that is not installed."""
    return f'the command line needs {module}: install it with `pip install "pursuit[cli]"`'
