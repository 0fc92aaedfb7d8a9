"""Functions to choose from: several kernels at fixed centres, known by number. Imports NumPy only.

Atom a of a dictionary with P centres is kernel a // P at centre a % P.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pursuit._types import Indices
from pursuit.kernels.base import (
    Columns,
    Items,
    Kernel,
    Tile,
    Vector,
    n_items,
    tile_buffer,
    tile_dtype,
)


@dataclass(frozen=True, eq=False)
class Dictionary(Kernel):
    """The function of an item that an atom's number stands for: k(x, a) = k_(a // P)(x, c_(a % P)).

    Not a kernel between items, but it has the same tiles: rows on the left, atoms on the right.
    """

    kernels: tuple[Kernel, ...]
    centers: Items

    @property
    def n_atoms(self) -> int:
        """Kernels times centres."""
        return len(self.kernels) * n_items(self.centers)

    @property
    def positive_definite(self) -> bool:
        """False: a dictionary has no matrix of its own."""
        return False

    @property
    def rounding(self) -> float:
        """The largest of its kernels."""
        return max(kernel.rounding for kernel in self.kernels)

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> Columns:
        """Bind the dictionary to the atoms numbered Z."""
        atoms = np.asarray(Z, dtype=np.intp)
        kernel_of, center_of = np.divmod(atoms, max(n_items(self.centers), 1))
        parts: list[tuple[Indices, Columns]] = []
        for number in np.unique(kernel_of):
            where = np.flatnonzero(kernel_of == number)
            bound = self.kernels[number].columns(_take(self.centers, center_of[where]), dtype)
            parts.append((where, bound))
        if len(parts) == 1:
            return parts[0][1]
        return DictionaryColumns(parts, len(atoms), tile_dtype(dtype))

    def diag(self, A: Items) -> Vector:
        """Return zeros: an item has no value with itself here."""
        return np.zeros(n_items(A))


class DictionaryColumns:
    """Tiles put together from those of several kernels."""

    def __init__(
        self,
        parts: Sequence[tuple[Indices, Columns]],
        n_columns: int,
        dtype: np.dtype[np.floating],
    ) -> None:
        self.n_columns = n_columns
        self._parts, self._dtype = parts, dtype

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        out = tile_buffer(out, n_items(A), self.n_columns, self._dtype)
        for where, columns in self._parts:
            out[:, where] = columns(A)
        return out


def _take(items: Items, index: Indices) -> Items:
    return [items[i] for i in index] if isinstance(items, list) else items[index]
