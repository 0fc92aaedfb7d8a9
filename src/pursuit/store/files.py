"""Reading and writing: a file is replaced whole or left as it was."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pursuit.store.errors import StoreError
from pursuit.store.layout import (
    MAX_JSON,
    PREFIX_BYTES,
    Block,
    describe,
    pack,
    restore,
    unpack_json,
    unpack_prefix,
)

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Array = NDArray[Any]

_PART = ".part"


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, sync: bool = True) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path`` once all is written.

    It lies beside ``path`` until then, and is removed if anything is raised: a process that dies,
    or a disk that is full, leaves what was there before.

    Parameters
    ----------
    path : path-like
        File to write; an existing file is replaced.
    sync : bool, default True
        Wait until the disk has the bytes.
    """
    target = os.path.realpath(os.fsdecode(path))
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", folder)
    if os.path.isdir(target):
        raise StoreError(f"{os.fspath(path)!r} is a folder: give the name of a file in it")
    if os.path.exists(target) and not os.path.isfile(target):
        raise StoreError(f"{os.fspath(path)!r} is not a plain file, which could be replaced")
    beside = os.path.join(folder, f".{name}.{secrets.token_hex(6)}{_PART}")
    try:
        with open(beside, "xb") as file:
            with contextlib.suppress(OSError):  # some file systems have no locks
                _lock(file)
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    if sync:
        _sync_folder(folder)


def remove_abandoned(folder: str | os.PathLike[str], suffix: str) -> None:
    """Remove what processes that died were writing to files of a folder with this suffix.

    What a living process is writing is left alone, where the system can tell.
    """
    for entry in os.scandir(folder):
        if f"{suffix}." not in entry.name or not entry.name.endswith(_PART):
            continue
        with contextlib.suppress(OSError), open(entry.path, "rb") as file:
            _lock(file)
            os.unlink(entry.path)


def _lock(file: BinaryIO) -> None:
    """Take a file until it is closed; an OSError says that somebody else has it."""
    # Windows has no such locks, and does not remove a file that is open.
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, Array],
    *,
    sync: bool = True,
) -> None:
    """Write a header and arrays to one file, replacing it in a single step.

    The bytes go to a new file beside ``path``, which takes its place once they are written. A
    process that dies, or a disk that is full, leaves what was there before.

    Parameters
    ----------
    path : path-like
        File to write; an existing file is replaced.
    header : mapping
        Anything that JSON can express (numbers that are not finite included).
    arrays : mapping of str to ndarray
        Booleans, integers, floats and strings of fixed length.
    sync : bool, default True
        Wait until the disk has the bytes. Without, a process may die at any time, but after a
        power cut the file may be damaged, which :func:`read` notices.

    Raises
    ------
    StoreError
        If ``path`` is a folder, or something cannot be expressed.
    OSError
        If the disk does not take the file.
    """
    described = [describe(name, array) for name, array in arrays.items()]
    start = pack(header, [block for block, _ in described], library())
    with replacing(path, sync=sync) as file:
        file.write(start)
        for _, data in described:
            file.write(data)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays of a file written by :func:`write`.

    Raises
    ------
    StoreError
        If the file was not written by pursuit, is truncated or damaged, or needs a newer version.
    OSError
        If there is no such file, or it cannot be opened.
    """
    shown = os.fspath(path)
    # What is not a plain file, such as a pipe, might never end.
    if not stat.S_ISREG(os.stat(path).st_mode):
        what = "a folder" if os.path.isdir(path) else "not a plain file"
        raise StoreError(f"cannot read {shown!r}: it is {what}")
    try:
        with open(path, "rb") as file:
            return _read(file)
    except StoreError as error:
        raise StoreError(f"cannot read {shown!r}: {error}") from error


def _read(file: BinaryIO) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays; nothing is allocated that the file is too short to fill."""
    left = os.fstat(file.fileno()).st_size
    prefix = unpack_prefix(file.read(PREFIX_BYTES))
    left -= PREFIX_BYTES
    if prefix.json_bytes > left:
        raise StoreError("it is truncated: its header is not complete")
    if prefix.json_bytes > MAX_JSON:
        raise StoreError(f"it is damaged: its header takes more than {MAX_JSON} bytes")
    header, blocks = unpack_json(file.read(prefix.json_bytes), prefix)
    left -= prefix.json_bytes + sum(block.nbytes for block in blocks)
    if left < 0:
        raise StoreError(f"it is truncated: {-left} bytes are missing")
    if left > 0:
        raise StoreError(f"it is damaged: {left} bytes follow its end")
    return header, {block.name: _array(file, block) for block in blocks}


def _array(file: BinaryIO, block: Block) -> Array:
    """The next array of a file."""
    data = np.empty(block.nbytes, dtype=np.uint8)
    if file.readinto(data) != block.nbytes:  # type: ignore[attr-defined]
        raise StoreError("it is truncated: it became shorter while it was read")
    return restore(block, data)


def library() -> str:
    """Version of the library, for messages about files that need it."""
    try:
        return version("pursuit")
    except PackageNotFoundError:
        return "(not installed)"


def _sync_folder(folder: str) -> None:
    """Have the new name of a file survive a power cut, where the system can be asked to."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
