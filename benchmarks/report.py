"""How to show and store results: an aligned table, and a JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness import Figure
from benchmarks.machine import machine


@dataclass
class CaseResult:
    """Figures of a case, or why there are none."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    skipped: str = ""

    @property
    def missed(self) -> bool:
        return any(figure.verdict == "MISSED" for figure in self.figures)


def table(figures: list[Figure]) -> str:
    """Figure, value, target and verdict in aligned columns."""
    cells = [
        (f.name, f"{f.value:.4g}{' ' if f.unit else ''}{f.unit}", f.target, f.verdict)
        for f in figures
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    return "\n".join(
        f"  {name:<{widths[0]}}  {value:>{widths[1]}}  {target:<{widths[2]}}  {verdict}".rstrip()
        for name, value, target, verdict in cells
    )


def write_json(path: Path, results: list[CaseResult], *, quick: bool, repeat: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "repeat": repeat,
        "machine": machine(),
        "cases": {
            result.name: {
                "skipped": result.skipped,
                "figures": [asdict(f) | {"verdict": f.verdict} for f in result.figures],
            }
            for result in results
        },
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
