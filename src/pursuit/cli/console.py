"""Messages and exit codes of the commands: 0 success, 1 failure, 2 wrong call, 130 Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pursuit.cli import missing

FAILURE, WRONG_CALL, INTERRUPTED = 1, 2, 130

TableArgument = Annotated[
    Path, typer.Argument(help="A .csv or .parquet file, or a folder of such files.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where the program failed.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only.")]


class WrongCallError(Exception):
    """A call with arguments that cannot be meant; the text says what to change."""


def say(text: str = "", *, quiet: bool = False) -> None:
    """Print a line on standard output, never wrapped."""
    if not quiet:
        print(text, flush=True)


def tell(text: str, *, quiet: bool = False) -> None:
    """Print a line on standard error: progress and warnings, which must not enter a pipe."""
    if not quiet:
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def ending(debug: bool) -> Iterator[None]:
    """Turn errors into one line and an exit code, and warnings into lines."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
    except WrongCallError as error:
        raise _ended(str(error), WRONG_CALL, debug) from error
    except KeyboardInterrupt as error:
        raise _ended("interrupted", INTERRUPTED, debug) from error
    except BrokenPipeError as error:
        # The reader has closed the pipe: nothing may be flushed to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILURE) from error
    except (ArithmeticError, ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        raise _ended(_sentence(error), FAILURE, debug) from error


def _ended(text: str, code: int, debug: bool) -> typer.Exit:
    if debug:
        traceback.print_exc()
    tell(f"pursuit: {text}")
    return typer.Exit(code)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename!r}" if error.filename is not None else ""
        return f"{error.strerror[:1].lower()}{error.strerror[1:]}{where}"
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        return missing(error.name)
    return str(error) or type(error).__name__


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    tell(f"warning: {message}")


def refuse_existing(path: Path, force: bool, read: Sequence[Path | None] = ()) -> None:
    """Refuse, before the work begins, an output that cannot or must not be written.

    An existing file is replaced only if asked for, and its folder must be writable. A file in
    ``read`` is never replaced: a model written over its table would destroy the table.
    """
    if path.is_dir():
        raise WrongCallError(f"{path} is a folder: give the name of a file in it.")
    if path.exists() and any(each and each.exists() and path.samefile(each) for each in read):
        raise WrongCallError(f"{path} is what is read: name another file for the output.")
    if path.exists() and not path.is_file():
        raise WrongCallError(f"{path} is not a plain file, which could be replaced.")
    if path.exists() and not force:
        raise WrongCallError(f"{path} exists: add --force to replace it, or name another file.")
    if not path.absolute().parent.is_dir():
        raise WrongCallError(
            f"there is no folder {path.absolute().parent} to write {path.name} to."
        )
    require_writable(path.absolute().parent)


def require_writable(folder: Path) -> None:
    """Raise OSError if no file can be made in a folder."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(error.errno, f"cannot write there: {error.strerror}", str(folder)) from error


@contextlib.contextmanager
def progress_of(model: Any, quiet: bool) -> Iterator[None]:
    """Show progress on standard error: a bar on a terminal, lines elsewhere."""
    if quiet:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        if not (sys.stderr.isatty() and _with_bar(model)):
            model.set_params(verbose=1)
        try:
            yield
        finally:
            model.set_params(verbose=0)


def _with_bar(model: Any) -> bool:
    try:
        from sklearn.callback import ProgressBar

        model.set_callbacks(ProgressBar())
    except (AttributeError, ImportError):
        return False
    return True
