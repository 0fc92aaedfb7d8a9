"""What a report holds: names and numbers, nothing to compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Rows of texts under a heading of columns, which may be empty."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Curve:
    """One number for every size of the model, None where it is not known.

    ``logarithmic`` is how people look at it.
    """

    name: str
    unit: str
    values: Sequence[float | None]
    logarithmic: bool = False


@dataclass(frozen=True)
class Report:
    """A fitted model for people to look at.

    Attributes
    ----------
    title : str
        What the model is.
    summary : str
        One sentence about it.
    data, settings : Table
        What it was fitted to, and with which hyper-parameters.
    sizes : sequence of int
        Where the slider stops.
    counted : str
        What the sizes count.
    curves : sequence of Curve
        What is known of every size: errors, certificate, cost.
    certificate : str
        How far the model is from the exact one, empty where that is not known.
    relevance : sequence of (name, number)
        What the kernel listens to, the most relevant first.
    coverage : sequence of (asked, found)
        Part of the observations that intervals should hold, and do hold.
    basis : Table
        The chosen functions, in the order of choice.
    cost : sequence of (name, seconds)
        Where the time of the fit went.
    notes : sequence of str
        What to look at, and what to do about it.
    """

    title: str
    summary: str
    data: Table
    settings: Table
    sizes: Sequence[int]
    curves: Sequence[Curve]
    certificate: str = ""
    relevance: Sequence[tuple[str, float]] = ()
    coverage: Sequence[tuple[float, float]] = ()
    basis: Table = field(default_factory=lambda: Table([], []))
    cost: Sequence[tuple[str, float]] = ()
    notes: Sequence[str] = ()
    counted: str = "basis functions"
