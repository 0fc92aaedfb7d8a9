"""The `pursuit` command, the topmost layer: it may import everything else."""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run the command. Without typer, say what to install."""
    # Pipes of Windows are seldom in UTF-8: what they cannot hold is escaped, as on standard error.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
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
