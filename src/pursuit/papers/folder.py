"""Results on disk: a figure, a table and one line for each experiment.

A folder holds ``NAME.svg``, ``NAME.png`` and ``NAME.csv`` for each experiment and ``summary.csv``
with a row for each, from which the report is made. The same numbers give the same bytes.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pursuit.papers.chart import Chart, Pictures
from pursuit.papers.experiment import Experiment
from pursuit.papers.registry import BY_NAME
from pursuit.papers.result import PaperResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY = "summary.csv"
CHOSEN = "chosen after seeing results"

_DPI = 100
_BETWEEN = "; "


@dataclass(frozen=True)
class Record:
    """A row of the summary: what is said of one experiment in one line, and what stands behind.

    Attributes
    ----------
    name : str
        Of the experiment.
    paper, here, spread, verdict : str
        What is printed, what came out, how much it varied, and what follows.
    holds, fails : str
        Criteria and checks, those that hold and those that do not.
    settings : str
        What was run.
    hindsight : str
        Settings that were chosen after results were seen.
    run : str
        ``"quick"`` or ``"full"``, and the number of seeds where it was asked for.
    """

    name: str
    paper: str
    here: str
    spread: str
    verdict: str
    holds: str
    fails: str
    settings: str
    hindsight: str
    run: str

    @classmethod
    def of(cls, name: str, result: PaperResult, run: str) -> Record:
        """What there is to say of a result."""
        said = {True: [], False: []}  # type: dict[bool, list[str]]
        for statement, holds in result.statements.items():
            said[holds].append(statement)
        return cls(
            name,
            result.paper_says,
            result.we_get,
            result.spread,
            result.verdict,
            _BETWEEN.join(said[True]),
            _BETWEEN.join(said[False]),
            result.settings,
            result.hindsight,
            run,
        )

    @property
    def line(self) -> str:
        """All of it on one line, the verdict at its end."""
        parts = [self.name, f"paper: {self.paper}", f"here: {self.here}", self.spread]
        if self.hindsight:
            parts.append(f"{CHOSEN}: {self.hindsight}")
        return " | ".join([*parts, self.verdict])


class ResultFolder:
    """Where results are written to and read from.

    Parameters
    ----------
    path : path
        The folder; it is made when something is written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def names(self) -> list[str]:
        """Experiments whose results are here."""
        return [record.name for record in self.records()]

    def records(self) -> list[Record]:
        """Rows of the summary, in the order of the registry."""
        file = self.path / SUMMARY
        if not file.is_file():
            return []
        with file.open(newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
        expected = {field.name for field in fields(Record)}
        if any(set(row) != expected for row in rows):
            raise ValueError(f"{file} is not a summary that this version wrote: remove it.")
        return _ordered(Record(**row) for row in rows)

    def save(self, experiment: Experiment, result: PaperResult, run: str) -> Record:
        """Write the table, both figures and the row of the summary; what was there is replaced."""
        self.path.mkdir(parents=True, exist_ok=True)
        record = Record.of(experiment.name, result, run)
        write_table(self.path / f"{experiment.name}.csv", result.chart.columns())
        for kind in ("svg", "png"):
            save_figure(self.path / f"{experiment.name}.{kind}", result.chart, experiment.name)
        others = [known for known in self.records() if known.name != experiment.name]
        rows = [asdict(known) for known in _ordered([*others, record])]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        write_table(self.path / SUMMARY, columns)
        return record


def write_table(path: Path, columns: dict[str, list[Any]]) -> None:
    """Write columns as CSV, numbers with five digits."""
    with path.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([f"{x:.5g}" if isinstance(x, float) else x for x in row])


def save_figure(path: Path, chart: Chart | Pictures, name: str) -> None:
    """Draw a chart into an SVG or PNG file, the same bytes every time."""
    figure = new_figure()
    from matplotlib import rc_context

    # The salt names clip paths, and without a date nothing depends on when it was drawn.
    with rc_context({"svg.hashsalt": name}):
        chart.draw(figure)
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=_DPI, metadata=metadata)


def new_figure() -> Figure:
    """An empty figure; without matplotlib, an error that says how to get it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'drawing needs matplotlib: install it with `pip install "pursuit[plot]"`'
        ) from error
    return Figure(layout="constrained")


def _ordered(records: Iterable[Record]) -> list[Record]:
    """In the order of the registry; what it does not know comes last."""
    place = {name: i for i, name in enumerate(BY_NAME)}
    return sorted(records, key=lambda record: (place.get(record.name, len(place)), record.name))
