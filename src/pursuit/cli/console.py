"""Messages and exit codes of the commands: 0 success, 1 failure, 2 wrong call, 130 Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from subprocess import list2cmdline
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from pursuit.cli import missing
from pursuit.printed import printable

FAILURE, WRONG_CALL, INTERRUPTED = 1, 2, 130

TableArgument = Annotated[
    Path,
    typer.Argument(help="A .csv or .parquet file, a folder of such files, or - for CSV from here."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Write one JSON object to standard output, for programs.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where the program failed.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only.")]

# Typer brings a copy of click, or uses click itself: this is the class of the one that it uses.
_UsageError: Any = typer.BadParameter.__bases__[0]


class WrongCallError(Exception):
    """A call with arguments that cannot be meant; the text says what to change."""


class Commands(TyperGroup):
    """Commands whose wrong calls get one line, as all other errors do."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command and end the process with its exit code."""
        try:
            code = super().main(*args, **(options | {"standalone_mode": False}))
        except _UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()
            else:
                tell(f"pursuit: {_usage(error)}")
            code = WRONG_CALL
        except typer.Abort:
            code = FAILURE
        if not options.get("standalone_mode", True):
            return code
        sys.exit(code or 0)


def _usage(error: Any) -> str:
    """What is wrong with the words of a call, and where to look."""
    command = error.ctx.command_path if error.ctx is not None else "pursuit"
    parameter = getattr(error, "param", None)
    if type(error).__name__ == "MissingParameter" and parameter is not None:
        named = " or ".join(parameter.opts) if parameter.opts[0].startswith("-") else "an argument"
        asked = f"{named} ({(parameter.help or parameter.name).rstrip('.')}) is missing: add it."
    else:
        text = " ".join(error.format_message().split()).replace("Value error, ", "").rstrip(".")
        asked = f"{text[:1].lower()}{text[1:]}{'' if text.endswith('?') else '.'}"
    return f"{asked} See {command} --help."


def say(text: str = "", *, quiet: bool = False) -> None:
    """Print a line on standard output, never wrapped, without orders to the terminal."""
    if not quiet:
        print(printable(text), flush=True)


def say_json(facts: dict[str, Any]) -> None:
    """Print one JSON object on standard output; numbers that JSON has not are null."""
    text = json.dumps(finite(facts), indent=2, ensure_ascii=False, allow_nan=False)
    # JSON has escapes of its own for what a terminal must not get, or a pipe cannot hold.
    print("".join(c if c == "\n" or _shows(c) else json.dumps(c)[1:-1] for c in text))
    sys.stdout.flush()


def _shows(character: str) -> bool:
    """Whether standard output can show a character."""
    with contextlib.suppress(UnicodeEncodeError):
        character.encode(sys.stdout.encoding or "utf-8")
        return character.isprintable()
    return False


def finite(value: Any) -> Any:
    """A value for JSON, in which None stands for infinity and NaN."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def counted(number: int, thing: str) -> str:
    """A number of things, in words."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def quoted(word: object) -> str:
    """A word of a command that is proposed, as the system's own shell takes it."""
    return list2cmdline([str(word)]) if sys.platform == "win32" else shlex.quote(str(word))


def tell(text: str, *, quiet: bool = False) -> None:
    """Print a line on standard error: progress and warnings, which must not enter a pipe."""
    if not quiet:
        print(printable(text), file=sys.stderr, flush=True)


@contextlib.contextmanager
def ending(debug: bool) -> Iterator[None]:
    """Turn errors into one line and an exit code, and warnings into lines."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            # Nobody who types a command can follow the advice in these.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.showwarning = _show_warning
            yield
    except KeyboardInterrupt as error:
        _end("interrupted", INTERRUPTED, debug, error)
    except BrokenPipeError as error:
        # The reader has closed the pipe: nothing may be flushed to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILURE) from error
    # What the package refuses with a ValueError, the user can change.
    except (WrongCallError, ValueError) as error:
        _end(str(error), WRONG_CALL, debug, error)
    except (ArithmeticError, ImportError, MemoryError, OSError, TypeError) as error:
        _end(_sentence(error), FAILURE, debug, error)


def _end(text: str, code: int, debug: bool, error: BaseException) -> NoReturn:
    if debug:
        traceback.print_exc()
    tell(f"pursuit: {' '.join(text.split())}")
    raise typer.Exit(code) from error


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename!r}" if error.filename is not None else ""
        return f"{error.strerror[:1].lower()}{error.strerror[1:]}{where}"
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        return missing(error.name)
    return str(error) or type(error).__name__


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    tell(f"warning: {message}")


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
