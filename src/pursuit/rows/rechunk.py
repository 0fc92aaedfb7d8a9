"""Blocks of a fixed size out of parts of any size.

Imports the rest of this room only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pursuit.rows.items import Items, join, len_items


def in_blocks(parts: Iterable[Items], size: int) -> Iterator[tuple[int, Items]]:
    """Yield (number of the first row, items) with ``size`` rows a block, the last with the rest."""
    if size < 1:
        raise ValueError(f"size must be at least 1 row per block, got {size}.")
    waiting: list[Items] = []
    n_waiting = start = 0
    for part in parts:
        done, n_rows = 0, len_items(part)
        while n_waiting + n_rows - done >= size:
            needed = size - n_waiting
            waiting.append(part[done : done + needed])
            yield start, waiting[0] if len(waiting) == 1 else join(waiting)
            start, done, waiting, n_waiting = start + size, done + needed, [], 0
        if done < n_rows:
            waiting.append(part[done:])
            n_waiting += n_rows - done
    if waiting:
        yield start, waiting[0] if len(waiting) == 1 else join(waiting)
