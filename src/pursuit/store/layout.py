r"""The bytes of a file.

=======  ===============================================================================
bytes    content
=======  ===============================================================================
8        ``\x89PURSUIT``
4        format version, an unsigned integer; integers are little-endian throughout
8        length of the JSON text
4        CRC-32 of the JSON text
4        CRC-32 of the 24 bytes above
         the JSON text, an object with the keys

         - ``pursuit``: version of the library that wrote the file
         - ``header``: what the caller wrote
         - ``arrays``: for each array ``[name, dtype, shape, order, CRC-32]``, in file order
         the arrays, back to back, little-endian, and nothing after them
=======  ===============================================================================

The first 28 bytes and the key ``pursuit`` keep their meaning in every later version, so that any
version can say which newer one a file needs.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pursuit.store.errors import StoreError

Array = NDArray[Any]

FORMAT = 2
MAGIC = b"\x89PURSUIT"
_PREFIX = struct.Struct("<8sIQI")
_CRC = struct.Struct("<I")
PREFIX_BYTES = _PREFIX.size + _CRC.size

#: Longest JSON text and deepest nesting that are read or written.
MAX_JSON = 16 * 2**20
MAX_DEPTH = 128
_MAX_DIMENSIONS = 8
_MAX_BYTES = 2**62

_DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U[1-9][0-9]{0,6}")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!-]{0,40}")


@dataclass(frozen=True)
class Block:
    """Where an array lies in a file, and what it must look like."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    checksum: int

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape) * self.dtype.itemsize


def pack(header: Mapping[str, Any], blocks: list[Block], library: str) -> bytes:
    """All bytes before the arrays."""
    described = [
        [block.name, block.dtype.str, list(block.shape), block.order, block.checksum]
        for block in blocks
    ]
    content = {"pursuit": library, "header": header, "arrays": described}
    try:
        text = json.dumps(content, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"the header must be made of what JSON knows: {error}") from error
    if len(text) > MAX_JSON:
        raise StoreError(f"the header takes {len(text)} bytes as JSON, more than {MAX_JSON}")
    if _depth(text) > MAX_DEPTH:
        raise StoreError(f"the header is nested more than {MAX_DEPTH} deep")
    prefix = _PREFIX.pack(MAGIC, FORMAT, len(text), zlib.crc32(text))
    return prefix + _CRC.pack(zlib.crc32(prefix)) + text


@dataclass(frozen=True)
class Prefix:
    """The first bytes of a file, found undamaged."""

    version: int
    json_bytes: int
    json_checksum: int


def unpack_prefix(prefix: bytes) -> Prefix:
    """The first :data:`PREFIX_BYTES` bytes of a file, or fewer if it has no more."""
    if prefix[: len(MAGIC)] != MAGIC[: len(prefix)] or not prefix:
        raise StoreError("it is not a file written by pursuit")
    if len(prefix) < PREFIX_BYTES:
        raise StoreError("it is truncated: not even its first bytes are complete")
    if _CRC.unpack(prefix[_PREFIX.size :])[0] != zlib.crc32(prefix[: _PREFIX.size]):
        raise StoreError("it is damaged: the checksum of its first bytes is wrong")
    _, version, json_bytes, checksum = _PREFIX.unpack(prefix[: _PREFIX.size])
    return Prefix(version, json_bytes, checksum)


def unpack_json(text: bytes, prefix: Prefix) -> tuple[dict[str, Any], list[Block]]:
    """Header and array descriptions of a JSON text."""
    if zlib.crc32(text) != prefix.json_checksum:
        raise StoreError("it is damaged: the checksum of its header is wrong")
    content = _parse(text)
    if not isinstance(content, dict):
        raise StoreError("it is damaged: its header is not an object")
    if prefix.version > FORMAT:
        library = content.get("pursuit")
        known = isinstance(library, str) and _VERSION.fullmatch(library)
        needed = f">={library}" if known else ""
        raise StoreError(
            f"it was written by pursuit {library if known else '(unknown)'} in format "
            f"{prefix.version}, and this pursuit reads formats up to {FORMAT}: "
            f'pip install --upgrade "pursuit{needed}"'
        )
    if prefix.version == 1:
        raise StoreError(
            "it was written by pursuit 0.1, whose files this version does not read: fit the model "
            "again"
        )
    header, described = content.get("header"), content.get("arrays")
    if prefix.version < 1 or not isinstance(header, dict) or not isinstance(described, list):
        raise StoreError("it is damaged: its header has not the parts it must have")
    blocks = [_block(item) for item in described]
    if len({block.name for block in blocks}) != len(blocks):
        raise StoreError("it is damaged: two of its arrays have the same name")
    return header, blocks


def describe(name: str, array: Array) -> tuple[Block, memoryview]:
    """A block for an array, and its bytes as they go into the file."""
    if not isinstance(name, str) or not isinstance(array, np.ndarray):
        raise StoreError(f"{name!r}: {type(array).__name__} is not a string naming a NumPy array")
    dtype = array.dtype.newbyteorder("<")
    if not _DTYPE.fullmatch(dtype.str) or array.ndim > _MAX_DIMENSIONS:
        raise StoreError(
            f"array {name!r} has dtype {array.dtype} and {array.ndim} dimensions; files hold "
            f"booleans, integers, floats and strings of fixed length in at most {_MAX_DIMENSIONS}"
        )
    order: Literal["C", "F"] = (
        "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    )
    stored = np.asarray(array, dtype=dtype, order=order)
    # A transposed view lies in the file as it lies in memory: products then round the same way.
    flat = (stored.T if order == "F" else stored).reshape(-1).view(np.uint8).data
    return Block(name, dtype, array.shape, order, zlib.crc32(flat)), flat


def restore(block: Block, data: NDArray[np.uint8]) -> Array:
    """The array of a block from its bytes, checked."""
    if zlib.crc32(data.data) != block.checksum:
        raise StoreError(f"it is damaged: the checksum of array {block.name!r} is wrong")
    if block.dtype.kind == "b" and np.any(data > 1):
        raise StoreError(f"it is damaged: array {block.name!r} is neither true nor false somewhere")
    if block.dtype.kind == "U" and np.any(data.view("<u4") > 0x10FFFF):
        raise StoreError(f"it is damaged: array {block.name!r} holds what is no character")
    flat = data.view(block.dtype)
    return flat.reshape(block.shape, order=block.order)


def _block(item: object) -> Block:
    """An entry of the list of arrays."""
    if not isinstance(item, list) or len(item) != 5:
        raise StoreError("it is damaged: an array is not described as it must be")
    name, dtype, shape, order, checksum = item
    if not (
        isinstance(name, str)
        and isinstance(dtype, str)
        and _DTYPE.fullmatch(dtype)
        and isinstance(shape, list)
        and len(shape) <= _MAX_DIMENSIONS
        and all(type(length) is int and length >= 0 for length in shape)
        and order in ("C", "F")
        and type(checksum) is int
    ):
        raise StoreError("it is damaged: an array is not described as it must be")
    kind = np.dtype(dtype)
    # NumPy multiplies the lengths that are not zero, whatever the others are.
    if math.prod(max(length, 1) for length in shape) * kind.itemsize > _MAX_BYTES:
        raise StoreError("it is damaged: an array is larger than any memory")
    return Block(name, kind, tuple(shape), order, checksum)


def _parse(text: bytes) -> Any:
    """JSON of limited depth."""
    if _depth(text) > MAX_DEPTH:
        raise StoreError(f"it is damaged: its header is nested more than {MAX_DEPTH} deep")
    try:
        return json.loads(text.decode("utf-8"))
    except ValueError as error:
        raise StoreError(f"it is damaged: its header is not JSON ({error})") from error


def _depth(text: bytes) -> int:
    """Deepest nesting of a JSON text, without parsing it."""
    # Pairs of backslashes first: what is left of them escapes.
    marks = np.frombuffer(text.replace(b"\\\\", b"").replace(b'\\"', b""), dtype=np.uint8)
    quoted = np.bitwise_xor.accumulate(marks == ord('"'))
    opens = np.isin(marks, np.frombuffer(b"[{", dtype=np.uint8)) & ~quoted
    closes = np.isin(marks, np.frombuffer(b"]}", dtype=np.uint8)) & ~quoted
    steps = opens.astype(np.int8) - closes.astype(np.int8)
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))
