"""Split results/summary.csv into one table a paper, as the pages of this folder show them.

After `pursuit papers run --force --output docs/papers/results`, run this, and remove the PNG files:
the pages use the SVG files only.
"""

import csv
import re
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
COLUMNS = {
    "name": "Name",
    "verdict": "Verdict",
    "paper": "Paper",
    "here": "Here",
    "spread": "Spread",
    "hindsight": "Chosen after seeing results",
}


def plain(text: str) -> str:
    """What reStructuredText takes for markup, escaped."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def main() -> None:
    with (RESULTS / "summary.csv").open(newline="", encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    for paper in dict.fromkeys(row["name"].partition("-")[0] for row in rows):
        with (RESULTS / f"table-{paper}.csv").open("w", newline="", encoding="utf-8") as text:
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(COLUMNS.values())
            for row in rows:
                if row["name"].startswith(f"{paper}-"):
                    writer.writerow([plain(row[name]) for name in COLUMNS])


if __name__ == "__main__":
    main()
