"""Files of the commands: tables, models and pages, in and out, and what stands in for them.

``-`` is standard input or standard output. A device or a pipe is read into a temporary file first,
and written to as it is.
"""

from __future__ import annotations

import contextlib
import difflib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from pursuit.cli.console import WrongCallError

STANDARD = "-"
ModelArgument = Annotated[
    Path, typer.Argument(help="A model that `pursuit fit` or `model.save` wrote; - reads it here.")
]
_NO_MODELS = (".csv", ".tsv", ".parquet", ".parq", ".html", ".json")
"""How the names of tables and pages end."""
_HERE = "standard-input"
"""What messages call a table or model that comes from a pipe."""


def is_stream(path: Path) -> bool:
    """Whether a path is standard input or output, a pipe or a device."""
    return str(path) == STANDARD or (path.exists() and not path.is_file() and not path.is_dir())


# Reading


@contextlib.contextmanager
def table_in(path: Path) -> Iterator[Path]:
    """The file of a table; what comes from a pipe is CSV, and is kept while it is used."""
    if not is_stream(path):
        _require_table(path)
        yield path
        return
    with _spooled(path, ".csv") as spooled:
        yield spooled


@contextlib.contextmanager
def _spooled(path: Path, suffix: str) -> Iterator[Path]:
    # After an error the file may still be open, and Windows would refuse to remove it.
    with tempfile.TemporaryDirectory(prefix="pursuit-", ignore_cleanup_errors=True) as folder:
        kept = Path(folder) / f"{_HERE}{suffix}"
        with contextlib.ExitStack() as stack:
            source = (
                sys.stdin.buffer if str(path) == STANDARD else stack.enter_context(path.open("rb"))
            )
            shutil.copyfileobj(source, stack.enter_context(kept.open("wb")))
        yield kept


def _require_table(path: Path) -> None:
    """Refuse a path that is neither a CSV or Parquet file nor a folder."""
    from pursuit.rows import file_kind

    _require_there(path)
    if path.is_dir() or file_kind(path) not in ("", ".npy"):
        return
    if path.suffix == ".pursuit":
        raise WrongCallError(f"{path} is a model, and a table is needed here: see --help.")
    raise WrongCallError(
        f"{path}: a table must be a .csv or .parquet file, or a folder of them: export it as one, "
        "or rename it if it is one."
    )


def _require_there(path: Path) -> None:
    if path.exists():
        return
    beside = path.absolute().parent
    there = [each.name for each in beside.iterdir()] if beside.is_dir() else []
    near = difflib.get_close_matches(path.name, there, n=1)
    advice = f"did you mean {near[0]}?" if near else "check the name."
    raise WrongCallError(f"there is no file {path}: {advice}")


def load_model(path: Path) -> Any:
    """The model in a file, or in what comes from a pipe."""
    import pursuit
    from pursuit.rows import file_kind

    if is_stream(path):
        with _spooled(path, ".pursuit") as spooled:
            return pursuit.load(spooled)
    _require_there(path)
    if path.is_dir() or file_kind(path):
        what = "a folder" if path.is_dir() else "a table"
        raise WrongCallError(
            f"{path} is {what}, and a model is needed here: name a file that pursuit fit wrote."
        )
    return pursuit.load(path)


# Writing


def refuse_output(
    path: Path,
    force: bool,
    read: Sequence[Path | None] = (),
    *,
    suffixes: Sequence[str] = (),
    model: bool = False,
) -> None:
    """Refuse, before the work begins, an output that cannot or must not be written.

    An existing file is replaced only if asked for, and its folder must be writable. A file in
    ``read`` is never replaced: a model written over its table would destroy the table. A name must
    end in one of the suffixes, if any are given; a model must not be called what tables are called.
    """
    if path.is_dir():
        raise WrongCallError(f"{path} is a folder: give the name of a file in it.")
    if is_stream(path):
        return
    if path.exists() and any(each and each.exists() and path.samefile(each) for each in read):
        raise WrongCallError(f"{path} is what is read: name another file for the output.")
    if suffixes and path.suffix.lower() not in suffixes:
        raise WrongCallError(f"{path}: the output must end in {' or '.join(suffixes)}, or be -.")
    if model and path.suffix.lower() in _NO_MODELS:
        raise WrongCallError(
            f"{path} would hold a model, not a {path.suffix} file: name it "
            f"{path.with_suffix('.pursuit').name}."
        )
    if path.exists() and not force:
        raise WrongCallError(f"{path} exists: add --force to replace it, or name another file.")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise WrongCallError(f"there is no folder {folder} to write {path.name} to: make it first.")
    require_writable(folder)


def refuse_both(paths: Sequence[Path | None], what: str) -> None:
    """Refuse to read two things from standard input, or to write two to standard output."""
    if sum(str(path) == STANDARD for path in paths) > 1:
        raise WrongCallError(f"only one of {what} can be -: name a file for the other.")


def require_writable(folder: Path) -> None:
    """Raise OSError if no file can be made in a folder."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(error.errno, f"cannot write there: {error.strerror}", str(folder)) from error


@contextlib.contextmanager
def sink_of(path: Path) -> Iterator[BinaryIO]:
    """Where to write bytes: a file appears when everything is written, a stream at once."""
    from pursuit.store import replacing

    if str(path) == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif is_stream(path):
        with path.open("wb") as stream:
            yield stream
    else:
        with replacing(path) as file:
            yield file


@contextlib.contextmanager
def file_for(path: Path) -> Iterator[Path]:
    """A file that somebody else writes: the path itself, or what goes to a stream at the end."""
    if not is_stream(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="pursuit-") as folder:
        yield (kept := Path(folder) / "output")
        with kept.open("rb") as file, sink_of(path) as sink:
            shutil.copyfileobj(file, sink)
