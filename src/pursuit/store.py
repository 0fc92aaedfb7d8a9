r"""Arrays and JSON in one zip file, written whole or not at all.

Saved models and checkpoints are such files. Every zip tool and ``numpy.load`` can open them. The
first member, ``pursuit.json``, is an object with the keys

- ``pursuit``: the version of the library that wrote the file,
- ``format``: the version of this format,
- ``header``: what the caller wrote.

Each array follows as a member ``<name>.npy`` in NumPy's own format. Members are not compressed.

A file is read as data: nothing in it can name code to run. The reader takes no other zip file than
:func:`write` makes. From the names, sizes and checksums of the members it works out every byte that
is not content, and compares. So there is no place for compressed, encrypted, overlapping, hidden or
repeated members, nor for bytes between or after them, and no damaged bit goes unnoticed. Nothing is
allocated before the size of the file has confirmed it.

Imports numpy and the standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import secrets
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Array = NDArray[Any]

FORMAT = 3
"""Version of the format. Raise it when older versions of the library cannot read new files."""
MAX_JSON = 16 * 2**20
"""Longest JSON text, in bytes, that is read or written."""
MAX_DEPTH = 128
"""Deepest nesting of JSON that is read or written; Python's parser fails at some depth."""

_HEADER = "pursuit.json"
_ZIP = b"PK\x03\x04"
_LONGEST_NAME = 110
_MAX_DIMENSIONS = 8
_MAX_BYTES = 2**62
_PART = ".part"
_TOKEN_BYTES = 6
_ADDED_BYTES = 2 + 2 * _TOKEN_BYTES + len(_PART)
"""By how much the name of an unfinished file is longer than that of the finished one."""
_ADDED = rf"[0-9a-f]{{{2 * _TOKEN_BYTES}}}{re.escape(_PART)}"
_LONGEST_FILE_NAME = 255
_PAUSES = (0.01, 0.1, 1.0)
_OLD_MAGIC = b"\x89PURSUIT"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ -]{0,99}")
_DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U[1-9][0-9]{0,6}")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!-]{0,40}")

_LOCAL_BYTES, _SIZES_BYTES = 30, 20
_SIZE_ELSEWHERE = 2**32 - 1

_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY = re.compile(
    rb"\{'descr': '([^']{3,12})', 'fortran_order': (True|False), "
    rb"'shape': \(([0-9, ]{0,200})\), \} *\n"
)
_NPY_ALIGN = 64


class StoreError(ValueError):
    """A file that cannot be read, or something that cannot be written to one."""


def write(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, Array],
    *,
    sync: bool = True,
) -> None:
    """Write a header and arrays to one file, replacing it in a single step.

    The bytes go to a new file beside ``path``, which takes its place once they are written. A
    process that dies, or a disk that is full, leaves the file that was there before.

    Parameters
    ----------
    path : path-like
        File to write; an existing file is replaced.
    header : mapping
        Anything that JSON can express, including numbers that are not finite.
    arrays : mapping of str to ndarray
        Booleans, integers, floats and strings of fixed length.
    sync : bool, default True
        Wait until the bytes are on the disk. Without waiting, a process may die at any time, but
        after a power cut the file may be damaged, which :func:`read` notices.

    Raises
    ------
    StoreError
        If ``path`` is a folder, or something cannot be expressed.
    OSError
        If the disk does not take the file.
    """
    text = _json_of({"pursuit": library(), "format": FORMAT, "header": header})
    contents: list[tuple[str, list[Any]]] = [(_HEADER, [text])]
    contents += [_npy(name, array) for name, array in arrays.items()]
    members, offset = [], 0
    with replacing(path, sync=sync) as file:
        for name, pieces in contents:
            checksum = 0
            for piece in pieces:
                checksum = zlib.crc32(piece, checksum)
            member = Member(name, offset, sum(len(piece) for piece in pieces), checksum)
            members.append(member)
            file.write(member.local)
            for piece in pieces:
                file.write(piece)
            offset = member.end
        file.write(directory(members))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays of a file written by :func:`write`.

    Raises
    ------
    StoreError
        If the file was not written by pursuit, is truncated or damaged, or needs another version.
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


def library() -> str:
    """Version of the library, for messages about files that need it."""
    try:
        return version("pursuit")
    except PackageNotFoundError:
        return "(not installed)"


# The container


class Member:
    """A member of a zip file, not compressed: the records that describe it, and where it lies.

    All records are of PKWARE's zip64 format: sizes are in a field of their own. The date is that of
    1 January 1980.
    """

    def __init__(self, name: str, offset: int, size: int, checksum: int) -> None:
        self.name, label = name, name.encode("ascii")
        facts = struct.pack("<5H3I", 45, 0, 0, 0, 0x21, checksum, _SIZE_ELSEWHERE, _SIZE_ELSEWHERE)
        self.local = (
            _ZIP + facts + struct.pack("<2H", len(label), _SIZES_BYTES)
            + label + struct.pack("<2H2Q", 1, 16, size, size)
        )  # fmt: skip
        self.central = (
            b"PK\x01\x02" + struct.pack("<H", 45) + facts
            + struct.pack("<5H2I", len(label), 28, 0, 0, 0, 0, _SIZE_ELSEWHERE)
            + label + struct.pack("<2H3Q", 1, 24, size, size, offset)
        )  # fmt: skip
        self.end = offset + len(self.local) + size


def directory(members: list[Member]) -> bytes:
    """All bytes after the last member."""
    start, count = members[-1].end, len(members)
    entries = b"".join(member.central for member in members)
    sizes = struct.pack("<QHHII4Q", 44, 45, 45, 0, 0, count, count, len(entries), start)
    locator = struct.pack("<IQI", 0, start + len(entries), 1)
    end = struct.pack("<4HIIH", 0, 0, 2**16 - 1, 2**16 - 1, *[_SIZE_ELSEWHERE] * 2, 0)
    return entries + b"PK\x06\x06" + sizes + b"PK\x06\x07" + locator + b"PK\x05\x06" + end


def _read(file: BinaryIO) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays; nothing is allocated that the file is too short to fill."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(_LOCAL_BYTES + len(_HEADER))
    if start.startswith(_OLD_MAGIC):
        raise StoreError(
            "it was written by an older pursuit, whose files this version does not read: fit the "
            "model again"
        )
    name = start[_LOCAL_BYTES:].decode("latin-1")
    if not start or not _ZIP.startswith(start[:4]) or not _HEADER.startswith(name):
        raise StoreError("it is not a file written by pursuit")
    file.seek(0)
    member, data = _next(file, 0, size)
    header = _header_of(data.tobytes())
    members, arrays = [member], {}
    while True:
        signature = file.read(len(_ZIP))
        file.seek(member.end)
        if len(signature) < len(_ZIP):
            raise StoreError("it is truncated: its directory is missing")
        if signature != _ZIP:
            break
        member, data = _next(file, member.end, size)
        name = member.name.removesuffix(".npy")
        if name == member.name or not _NAME.fullmatch(name):
            raise StoreError(f"it is damaged: a member is called {member.name[:80]!r}")
        if name in arrays:
            raise StoreError("it is damaged: two of its arrays have the same name")
        arrays[name] = _array_of(name, data)
        members.append(member)
    expected = directory(members)
    rest = file.read(len(expected))
    if rest != expected:
        if rest == expected[: len(rest)]:
            raise StoreError(f"it is truncated: {len(expected) - len(rest)} bytes are missing")
        raise StoreError("it is damaged: its directory does not list its members")
    if file.tell() < size:
        raise StoreError(f"it is damaged: {size - file.tell()} bytes follow its end")
    return header, arrays


def _next(file: BinaryIO, offset: int, end: int) -> tuple[Member, NDArray[np.uint8]]:
    """The member that begins at an offset, and its content, checked."""
    record = file.read(_LOCAL_BYTES)
    n_name = min(int.from_bytes(record[26:28], "little"), _LONGEST_NAME)
    record += file.read(n_name + _SIZES_BYTES)
    if len(record) < _LOCAL_BYTES + n_name + _SIZES_BYTES:
        raise StoreError("it is truncated: the record of a member is not complete")
    # Any bytes give some name, size and checksum; they are right if they give these bytes.
    name = record[_LOCAL_BYTES:-_SIZES_BYTES].decode("ascii", "replace").replace("\ufffd", "?")
    size, checksum = int.from_bytes(record[-8:], "little"), int.from_bytes(record[14:18], "little")
    member = Member(name, offset, size, checksum)
    if record != member.local:
        raise StoreError("it is damaged: the record of a member is not as it must be")
    missing = size - (end - file.tell())
    if missing > 0:
        raise StoreError(f"it is truncated: {missing} bytes of {name[:80]!r} are missing")
    if name == _HEADER and size > MAX_JSON:
        raise StoreError(f"it is damaged: its header takes more than {MAX_JSON} bytes")
    data = np.empty(size, dtype=np.uint8)
    if file.readinto(data) != size:  # type: ignore[attr-defined]
        raise StoreError("it is truncated: it became shorter while it was read")
    if zlib.crc32(data.data) != checksum:
        raise StoreError(f"it is damaged: the checksum of {name[:80]!r} is wrong")
    return member, data


# The header


def _json_of(content: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(content, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"the header must be made of what JSON knows: {error}") from error
    if len(text) > MAX_JSON:
        raise StoreError(f"the header takes {len(text)} bytes as JSON, more than {MAX_JSON}")
    if _depth(text) > MAX_DEPTH:
        raise StoreError(f"the header is nested more than {MAX_DEPTH} deep")
    return text


def _header_of(text: bytes) -> dict[str, Any]:
    """What the caller wrote, if this version of the format is known."""
    if _depth(text) > MAX_DEPTH:
        raise StoreError(f"it is damaged: its header is nested more than {MAX_DEPTH} deep")
    try:
        content = json.loads(text.decode("utf-8"))
    except ValueError as error:
        raise StoreError(f"it is damaged: its header is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise StoreError("it is damaged: its header is not an object")
    written, header, writer = content.get("format"), content.get("header"), content.get("pursuit")
    if type(written) is int and 0 < written != FORMAT:
        known = isinstance(writer, str) and _VERSION.fullmatch(writer)
        by = f"it was written by pursuit {writer if known else '(unknown)'} in format {written}"
        if written < FORMAT:
            instead = f'pip install "pursuit=={writer}" reads it, or ' if known else ""
            raise StoreError(
                f"{by}, which this pursuit does not read any more: {instead}fit the model again"
            )
        needed = f">={writer}" if known else ""
        raise StoreError(
            f'{by}, and this pursuit reads format {FORMAT}: pip install --upgrade "pursuit{needed}"'
        )
    if type(written) is not int or written != FORMAT or not isinstance(header, dict):
        raise StoreError("it is damaged: its header lacks 'format' or 'header'")
    return header


def _depth(text: bytes) -> int:
    """Deepest nesting of a JSON text, without parsing it."""
    # Pairs of backslashes first: any other backslash escapes what follows.
    marks = np.frombuffer(text.replace(b"\\\\", b"").replace(b'\\"', b""), dtype=np.uint8)
    quoted = np.bitwise_xor.accumulate(marks == ord('"'))
    opens = np.isin(marks, np.frombuffer(b"[{", dtype=np.uint8)) & ~quoted
    closes = np.isin(marks, np.frombuffer(b"]}", dtype=np.uint8)) & ~quoted
    steps = opens.astype(np.int8) - closes.astype(np.int8)
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


# Arrays


def _npy(name: str, array: Array) -> tuple[str, list[Any]]:
    """Name and bytes of the member for an array."""
    if not isinstance(name, str) or not isinstance(array, np.ndarray):
        raise StoreError(f"{name!r}: {type(array).__name__} is not a string naming a NumPy array")
    if not _NAME.fullmatch(name):
        raise StoreError(f"{name!r} cannot be the name of an array in a file: use plain letters")
    dtype = array.dtype.newbyteorder("<")
    if not _DTYPE.fullmatch(dtype.str) or array.ndim > _MAX_DIMENSIONS:
        raise StoreError(
            f"array {name!r} has dtype {array.dtype} and {array.ndim} dimensions; files hold "
            f"booleans, integers, floats and strings of fixed length in at most {_MAX_DIMENSIONS}"
        )
    # A transposed view lies in the file as it lies in memory: products then round the same way.
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    stored = np.asarray(array, dtype=dtype, order="F" if fortran else "C")
    flat = (stored.T if fortran else stored).reshape(-1).view(np.uint8).data
    return f"{name}.npy", [_npy_header(dtype.str, fortran, array.shape), flat]


def _npy_header(descr: str, fortran: bool, shape: tuple[int, ...]) -> bytes:
    """The bytes before the numbers, as NumPy's format has them in version 1.0."""
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    length = len(_NPY_MAGIC) + 2 + len(text) + 1
    text += b" " * (-length % _NPY_ALIGN) + b"\n"
    return _NPY_MAGIC + struct.pack("<H", len(text)) + text


def _array_of(name: str, data: NDArray[np.uint8]) -> Array:
    """The array of a member, checked."""
    # NumPy's own reader is not used: it evaluates the text and takes objects of any type.
    start = len(_NPY_MAGIC) + 2
    length = int.from_bytes(data[start - 2 : start].tobytes(), "little")
    text = data[start : start + length].tobytes()
    described = _NPY.fullmatch(text)
    if described is None:
        raise StoreError(f"it is damaged: array {name!r} is not described as it must be")
    descr, fortran = described[1].decode("latin-1"), described[2] == b"True"
    lengths = [part for part in described[3].decode().replace(" ", "").split(",") if part]
    shape = tuple(int(part) for part in lengths)
    header = _npy_header(descr, fortran, shape)
    if (
        data[: len(header)].tobytes() != header
        or not _DTYPE.fullmatch(descr)
        or len(shape) > _MAX_DIMENSIONS
    ):
        raise StoreError(f"it is damaged: array {name!r} is not described as it must be")
    dtype = np.dtype(descr)
    # NumPy multiplies the lengths that are not zero, whatever the others are.
    if math.prod(max(length, 1) for length in shape) * dtype.itemsize > _MAX_BYTES:
        raise StoreError(f"it is damaged: array {name!r} is larger than any memory")
    content = data[len(header) :]
    if len(content) != math.prod(shape) * dtype.itemsize:
        raise StoreError(f"it is damaged: array {name!r} has not the length it must have")
    if dtype.kind == "b" and np.any(content > 1):
        raise StoreError(f"it is damaged: array {name!r} is neither true nor false somewhere")
    if dtype.kind == "U" and np.any(content.view("<u4") > 0x10FFFF):
        raise StoreError(f"it is damaged: array {name!r} holds what is not a character")
    return content.view(dtype).reshape(shape, order="F" if fortran else "C")


# Replacing a file


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, sync: bool = True) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path`` once everything is written.

    Until then it lies beside ``path``, and it is removed if an error is raised: a process that
    dies, or a disk that is full, leaves the file that was there before. What a process that died
    has left of an earlier write to ``path`` is removed.

    Parameters
    ----------
    path : path-like
        File to write; an existing file is replaced.
    sync : bool, default True
        Wait until the bytes are on the disk.
    """
    target = os.path.realpath(os.fsdecode(path))
    folder, name = os.path.split(target)
    if os.path.isdir(target):
        raise StoreError(f"{os.fspath(path)!r} is a folder: give the name of a file in it")
    # Before the folder: the devices of Windows, such as nul, are in none.
    if os.path.exists(target) and not os.path.isfile(target):
        raise StoreError(f"{os.fspath(path)!r} is not a plain file, which could be replaced")
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", folder)
    prefix = _prefix(folder, name)
    ours = re.compile(re.escape(prefix) + _ADDED)
    _remove_unlocked(folder, ours.fullmatch)
    file = _locked(os.path.join(folder, prefix))
    beside = file.name
    try:
        with file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
            if fcntl is not None:  # as long as it is locked, nobody removes it
                file.flush()
                os.replace(beside, target)
        if fcntl is None:  # Windows renames no open file
            _replace_patiently(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    if sync:
        _sync_folder(folder)


def _replace_patiently(beside: str, target: str) -> None:
    """Replace a file. Windows refuses while somebody reads either, a virus scanner for instance."""
    for seconds in _PAUSES:
        with contextlib.suppress(PermissionError):
            os.replace(beside, target)
            return
        time.sleep(seconds)
    os.replace(beside, target)


def remove_abandoned(folder: str | os.PathLike[str], suffix: str) -> None:
    """Remove what dead processes left when they were writing files with this suffix.

    What a living process is writing is left alone, if the system can tell.
    """
    _remove_unlocked(folder, lambda name: f"{suffix}." in name and name.endswith(_PART))


def _remove_unlocked(folder: str | os.PathLike[str], is_wanted: Callable[[str], object]) -> None:
    """Remove the files with wanted names that no living process has locked."""
    with os.scandir(folder) as entries:
        abandoned = [entry.path for entry in entries if is_wanted(entry.name)]
    for path in abandoned:
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            # Windows refuses to remove a file that anybody has open: that is its lock.
            if fcntl is not None:
                _lock(held.enter_context(open(path, "rb")))
            os.unlink(path)


def _prefix(folder: str, name: str) -> str:
    """How the names of unfinished files begin that will be called ``name``."""
    longest = _LONGEST_FILE_NAME
    with contextlib.suppress(AttributeError, OSError, ValueError):  # Windows cannot be asked
        longest = os.pathconf(folder, "PC_NAME_MAX")
    length = len(os.fsencode(name))
    if length > longest:
        raise StoreError(
            f"the file name {name[:20]!r}… takes {length} bytes, and the folder takes names of "
            f"{longest}: shorten it"
        )
    if length + _ADDED_BYTES <= longest:
        return f".{name}."
    return f".{hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()}."


def _locked(prefix: str) -> BinaryIO:
    """A new file whose name begins so, locked before anybody can take it for an abandoned one."""
    while True:
        file = open(f"{prefix}{secrets.token_hex(_TOKEN_BYTES)}{_PART}", "xb")  # noqa: SIM115
        try:
            _lock(file)
        except BlockingIOError:  # somebody is about to remove it
            file.close()
            continue
        except OSError:  # some file systems have no locks; nothing is removed there
            return file
        # Between the first two lines it may have been taken for abandoned, and removed.
        if os.path.exists(file.name):
            return file
        file.close()


def _lock(file: BinaryIO) -> None:
    """Lock a file until it is closed; an OSError says that another process has locked it."""
    # Windows has no such locks, and does not remove a file that is open.
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync_folder(folder: str) -> None:
    """Make the new name of a file survive a power cut, where the system can be asked to."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
