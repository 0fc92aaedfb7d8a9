"""What a repeated experiment returns: the paper's numbers, ours, and a verdict from criteria."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from pursuit.papers.chart import Chart, Pictures

REPRODUCED, PARTLY, NOT = "reproduced", "partly reproduced", "not reproduced"


@dataclass(frozen=True, eq=False)
class PaperResult:
    """One table or figure of a paper, run again.

    Attributes
    ----------
    name : str
        Paper and table or figure.
    paper_says, we_get, spread : str
        What is printed there, what came out here, and how much it varied.
    criteria : mapping of str to bool
        What the paper claims, and whether the numbers show it. A wrong algorithm fails all of
        these: every experiment has a negative control that does.
    arrays : mapping of str to array
        The numbers themselves.
    settings : str
        What was run.
    chart : Chart or Pictures
        The numbers as a table to write and a figure to draw.
    checks : mapping of str to bool
        Further statements that must hold, but that a wrong algorithm may satisfy as well, so that
        they cannot earn a verdict on their own.
    hindsight : str
        Settings that the paper does not state and that were chosen after results were seen.
    """

    name: str
    paper_says: str
    we_get: str
    spread: str
    criteria: Mapping[str, bool]
    arrays: Mapping[str, NDArray[Any]]
    settings: str
    chart: Chart | Pictures
    checks: Mapping[str, bool] = field(default_factory=dict)
    hindsight: str = ""

    def __post_init__(self) -> None:
        if not self.criteria:
            raise ValueError("criteria must hold at least one statement: a verdict needs it.")

    @property
    def verdict(self) -> str:
        """What the statements add up to.

        ``"reproduced"`` if all criteria and checks hold, ``"not reproduced"`` if no criterion
        does, whatever the checks say, and ``"partly reproduced"`` else.
        """
        if all(self.statements.values()):
            return REPRODUCED
        return PARTLY if any(self.criteria.values()) else NOT

    @property
    def statements(self) -> dict[str, bool]:
        """Criteria, then checks, and whether they hold."""
        return {name: bool(holds) for name, holds in {**self.criteria, **self.checks}.items()}

    def __str__(self) -> str:
        missed = [statement for statement, holds in self.statements.items() if not holds]
        but = f"; does not hold: {', '.join(missed)}" if missed else ""
        return (
            f"{self.name}: {self.verdict}. Paper: {self.paper_says}; here: {self.we_get} "
            f"({self.spread}){but}."
        )
