"""A number for every row, by which rows that have changed are noticed.

A row x of numbers has the hash

    h(x) = Σ_j c_j (u_j xor u_j >> 32)  mod 2^64

where u_j are the bits of x_j as a whole number, and the odd c_j depend on j only. Another value in
one column always gives another hash. Other values in several columns give another one with
probability 1 - 2^-32: the hash is against accidents, not against somebody who looks for equal ones.
It takes about as long as to copy the rows. Values 0 add nothing, so that a row has the same hash in
dense and in sparse form, and how rows are cut into blocks plays no part.

Imports numpy, scipy.sparse and the rest of this room only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pursuit._types import Indices
from pursuit.rows.base import BLOCK_ROWS, DistributedRows, Items, RowSource

Hashes = NDArray[np.uint64]

_CHUNK_VALUES = 1 << 16  # Values that are hashed at a time: as many as stay in the cache.
_GOLDEN = 0x9E3779B97F4A7C15
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def row_hashes(items: Items) -> Hashes:
    """The hash of each item, a 64-bit number.

    Items that are not numbers are hashed by what they hold: texts, arrays, and lists, tuples and
    dicts of them; any other object by its text.
    """
    if sparse.issparse(items):
        values = _words(items.data) * _factors(items.shape[1])[items.indices]
        # Sums between the places where rows begin; the last one may begin at the very end.
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
        hashes: Hashes = sums[items.indptr[1:]] - sums[items.indptr[:-1]]
        return hashes
    if isinstance(items, np.ndarray) and items.dtype.kind in "biuf":
        flat = items.reshape(len(items), -1)
        factors, found = _factors(flat.shape[1]), np.empty(len(flat), np.uint64)
        step = max(1, _CHUNK_VALUES // max(1, flat.shape[1]))
        for start in range(0, len(flat), step):
            found[start : start + step] = _words(flat[start : start + step]) @ factors
        return found
    return np.array([_hash_of(item) for item in items], dtype=np.uint64)


def source_hashes(rows: RowSource) -> Hashes:
    """The hash of each row of a source, in one pass; rows that lie elsewhere stay there."""
    if isinstance(rows, DistributedRows):
        return np.concatenate([np.empty(0, np.uint64), *rows.map(_of_source)])
    return _of_source(rows)


class Witness:
    """Remembers the hash of every row that it has seen, and notices a row that has another one."""

    def __init__(self) -> None:
        self._hashes, self._known = np.empty(0, np.uint64), np.empty(0, bool)

    def changed(self, numbers: Indices, hashes: Hashes) -> int | None:
        """The first of these rows that was another one before; None if there is none."""
        missing = int(numbers.max(initial=-1)) + 1 - len(self._known)
        if missing > 0:
            self._hashes = np.concatenate([self._hashes, np.zeros(missing, np.uint64)])
            self._known = np.concatenate([self._known, np.zeros(missing, bool)])
        other = numbers[self._known[numbers] & (self._hashes[numbers] != hashes)]
        self._hashes[numbers], self._known[numbers] = hashes, True
        return int(other[0]) if len(other) else None


def _of_source(rows: RowSource) -> Hashes:
    parts = [row_hashes(items) for _, items in rows.blocks(BLOCK_ROWS)]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def _words(values: NDArray[Any]) -> Hashes:
    """u xor u >> 32, of the bits u of each value."""
    if values.dtype.itemsize == 8:
        bits = np.ascontiguousarray(values).view(np.uint64)
    elif values.dtype.kind == "f":
        kind = f"u{values.dtype.itemsize}" if values.dtype.itemsize < 8 else np.uint64
        same = values if values.dtype.itemsize < 8 else values.astype(np.float64)
        bits = np.ascontiguousarray(same).view(kind).astype(np.uint64)
    else:
        bits = values.astype(np.uint64)
    return bits ^ (bits >> np.uint64(32))


@cache
def _factors(n: int) -> Hashes:
    """The odd factors c_0, …, c_(n-1): outputs of the generator splitmix64."""
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    factors = (z ^ (z >> np.uint64(31))) | np.uint64(1)
    factors.setflags(write=False)
    return factors


def _hash_of(item: Any) -> int:
    digest = hashlib.blake2b(digest_size=8)
    digest_object(digest, item)
    return int.from_bytes(digest.digest(), "little")


def digest_object(digest: Any, item: Any) -> None:
    """Add what an object holds to a digest of hashlib, with its kind and its length."""
    if isinstance(item, np.ndarray | np.generic) and item.dtype.kind != "O":
        values = np.asarray(item)
        digest.update(f"array {values.dtype.str} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    elif sparse.issparse(item):
        coordinates: Any = item
        digest_object(digest, [coordinates.shape, *sparse.find(coordinates)])
    elif isinstance(item, list | tuple | np.ndarray):
        digest.update(f"list {len(item)} ".encode())
        for one in item:
            digest_object(digest, one)
    elif isinstance(item, Mapping):
        digest.update(f"dict {len(item)} ".encode())
        for key, value in item.items():
            digest_object(digest, (key, value))
    else:
        text = item if isinstance(item, str) else plain_text(item)
        digest.update(f"{type(item).__name__} {len(text)} {text}".encode("utf-8", "surrogatepass"))


def plain_text(item: Any) -> str:
    """The text of an object without addresses, which are different in every process."""
    return _ADDRESS.sub("", repr(item))
