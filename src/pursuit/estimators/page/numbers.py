"""Arrays as text: base64 of little-endian float64, which ``what_if.js`` reads."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np

from pursuit._types import Floats

_ALL, _MOST = 8, 6
"""Bytes of a number that travel: all, or those of 36 of its 52 bits."""


def packed(values: Any, *, short: bool = False) -> dict[str, Any]:
    """An array, row by row, exactly; ``short`` drops the last 16 bits, a relative 7e-12."""
    array = np.ascontiguousarray(values, dtype="<f8")
    size = _MOST if short else _ALL
    whole = array.reshape(-1).view("<u8")
    if short:
        # Half a unit is added, so that numbers are rounded. Sign and exponent stay right.
        whole = whole + np.uint64(1 << 15)
    parts = whole.view("u1").reshape(-1, _ALL)[:, _ALL - size :]
    return {
        "shape": list(array.shape),
        "bytes": size,
        "data": b64encode(np.ascontiguousarray(parts).tobytes()).decode("ascii"),
    }


def packed_triangle(triangle: Floats, *, short: bool = False) -> dict[str, Any]:
    """The lower triangle of a matrix, row by row."""
    return packed(triangle[np.tril_indices(len(triangle))], short=short)
