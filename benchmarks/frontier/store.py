"""What came out: a line per fit in a CSV file, machine and versions in a JSON file beside it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.frontier.cells import Cell
from benchmarks.frontier.settings import Setting
from benchmarks.machine import cores, machine

NOT_RUN, SKIPPED = "not run", "skipped"
STATUSES = {"ok", "capped", "failed", SKIPPED, NOT_RUN}
_DIGITS = 6


@dataclass(frozen=True)
class Line:
    """One fit and what came out; None where there is no figure.

    ``status`` is "ok", "capped", "failed", "skipped" or "not run". With "capped" there may still be
    errors: those of a model that stopped by itself when the time was over.
    """

    dataset: str
    rows: int | None
    features: int | None
    model: str
    setting: str
    seed: int
    fit_seconds: float | None = None
    cpu_seconds: float | None = None
    predict_seconds: float | None = None
    rmse: float | None = None
    nlpd: float | None = None
    coverage95: float | None = None
    status: str = NOT_RUN
    note: str = ""

    @property
    def cell(self) -> Cell:
        return Cell(self.dataset, self.model, self.setting, self.seed)

    @property
    def fitted(self) -> bool:
        """Whether it tells of a fit, be it one that failed."""
        return self.status not in {NOT_RUN, SKIPPED}


COLUMNS = tuple(field.name for field in fields(Line))
_WHOLE = {"rows", "features", "seed"}
_WORDS = {"dataset", "model", "setting", "status", "note"}


class Store:
    """The lines of all cells; written whole after every change."""

    def __init__(self, path: Path, cells: Sequence[Cell]) -> None:
        self.path, self.about = path, path.with_suffix(".json")
        self._known()
        stored = {line.cell: line for line in read(path)} if path.exists() else {}
        self.lines = {
            cell: stored.pop(
                cell, Line(cell.dataset, None, None, cell.model, cell.setting, cell.seed)
            )
            for cell in cells
        }
        # Fits of settings that are no longer planned are not thrown away.
        self.lines |= {cell: line for cell, line in stored.items() if line.status != NOT_RUN}

    def put(self, line: Line) -> bool:
        """Store a line; whether it is kept. What cannot be done here replaces no fit."""
        if line.status == SKIPPED and line.cell in self.lines and self.lines[line.cell].fitted:
            return False
        self.lines[line.cell] = line
        self.write()
        return True

    def shape(self, dataset: str) -> tuple[int | None, int | None] | None:
        """Rows and features that the stored fits of a data set had; None if there are none."""
        shapes = (
            (line.rows, line.features)
            for line in self.lines.values()
            if line.dataset == dataset and line.fitted
        )
        return next(shapes, None)

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _replace(self.path, written(self.lines.values()))

    def _known(self) -> dict[str, Any]:
        """What is described so far; ValueError if somebody has broken the file."""
        if not self.about.exists():
            return {}
        try:
            return dict(json.loads(self.about.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{self.about.name}: {error}") from error

    def describe(self, cap: float, settings: Iterable[Setting]) -> None:
        """Write what the lines do not say. Another machine or version is added to those before."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        known = self._known()
        machines = known.get("machines", [])
        # Threads of this process say nothing about those of the fits, which may use all cores.
        here = machine() | {"threads": cores()}
        if not machines or machines[-1]["machine"] != here:
            machines.append({"first": now, "machine": here})
        machines[-1]["last"] = now
        content = {
            "cap_seconds": cap,
            "settings": [
                {"model": s.model, "setting": s.name, "seeds": s.n_seeds, "text": s.text}
                for s in settings
            ],
            "machines": machines,
        }
        _replace(self.about, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def written(lines: Iterable[Line]) -> str:
    """The text of the CSV file."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in lines:
        writer.writerow([_text(getattr(line, name)) for name in COLUMNS])
    return out.getvalue()


def read(path: Path) -> list[Line]:
    """The lines of a CSV file; ValueError if somebody has broken one of them."""
    lines: dict[Cell, Line] = {}
    if not path.read_bytes().endswith(b"\n"):
        raise ValueError(f"{path.name} is cut off: its last line has no end")
    with path.open(encoding="utf-8", newline="") as file:
        table = csv.reader(file)
        for cells in table:
            place = f"{path.name}, line {table.line_num}"
            if table.line_num == 1:
                if tuple(cells) != COLUMNS:
                    raise ValueError(f"{place}: the columns must be {', '.join(COLUMNS)}")
                continue
            try:
                line = Line(**{n: _value(n, text) for n, text in zip(COLUMNS, cells, strict=True)})
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from error
            if line.status not in STATUSES:
                raise ValueError(f"{place}: {line.status!r} is not one of {sorted(STATUSES)}")
            if line.cell in lines:
                raise ValueError(f"{place}: {line.cell} stands here twice")
            lines[line.cell] = line
    return list(lines.values())


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)


def _value(name: str, text: str) -> Any:
    if name in _WORDS:
        return text
    if not text:
        return None
    return int(text) if name in _WHOLE else float(text)


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_suffix(path.suffix + ".part")
    part.write_text(text, encoding="utf-8", newline="")
    part.replace(path)
