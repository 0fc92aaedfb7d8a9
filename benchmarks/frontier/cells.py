"""Which fits there are, and in which order they are done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.frontier.sets import SETS
from benchmarks.frontier.settings import SETTINGS, Setting


@dataclass(frozen=True)
class Cell:
    """One fit."""

    dataset: str
    model: str
    setting: str
    seed: int

    def __str__(self) -> str:
        return f"{self.dataset}, {self.model}, {self.setting}, seed {self.seed}"


def all_cells(
    sets: Iterable[str] = tuple(SETS), settings: Iterable[Setting] = SETTINGS
) -> list[Cell]:
    """Every fit, in the order of the tables: by data set, model, setting and seed."""
    settings = tuple(settings)
    return [
        Cell(name, s.model, s.name, seed)
        for name in sets
        for s in settings
        if s.datasets is None or name in s.datasets
        for seed in range(s.n_seeds)
    ]


def by_priority(cells: Iterable[Cell], settings: Iterable[Setting] = SETTINGS) -> list[Cell]:
    """The order of work: all of seed 0 first, by stage; within a stage small data sets first."""
    stages = {(s.model, s.name): s.stage for s in settings}
    return sorted(cells, key=lambda cell: (cell.seed, stages[cell.model, cell.setting]))
