"""Results in a folder, and all of them on one page of HTML.

A folder holds ``NAME.svg``, ``NAME.png`` and ``NAME.csv`` for each experiment, and ``summary.csv``
with one row per experiment, from which the page is made. The same numbers give the same bytes.
"""

from __future__ import annotations

import base64
import csv
from collections import Counter
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pursuit.papers.common import NOT, PARTLY, REPRODUCED, PaperResult
from pursuit.papers.registry import EXPERIMENTS, PAPERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY = "summary.csv"
CHOSEN = "chosen after seeing results"

_DPI = 100
_SIGNS = {REPRODUCED: "✓", PARTLY: "◐", NOT: "✗"}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 68rem; margin: 0 auto; padding: 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; overflow-wrap: anywhere; }
td:first-child { white-space: nowrap; }
tr { border-bottom: 1px solid #8886; }
section { margin: 2.5rem 0; }
img { max-width: 100%; background: white; }
dt { font-weight: 600; }
.verdict { white-space: nowrap; font-weight: 600; }
.scroll { overflow-x: auto; }
"""


class Record(NamedTuple):
    """One row of the summary.

    Attributes
    ----------
    name : str
        Name of the experiment.
    paper, here, spread, verdict : str
        The paper's numbers, the numbers of this run, how much they vary, and the verdict.
    holds, fails : str
        Criteria and checks that hold, and those that do not.
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

    @property
    def line(self) -> str:
        """The row on one line, with the verdict at its end."""
        parts = [self.name, f"paper: {self.paper}", f"here: {self.here}", self.spread]
        if self.hindsight:
            parts.append(f"{CHOSEN}: {self.hindsight}")
        return " | ".join([*parts, self.verdict])


def read_records(folder: Path) -> list[Record]:
    """Rows of a folder's summary in the order of the registry; none if there is no summary."""
    file = folder / SUMMARY
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    if any(set(row) != set(Record._fields) for row in rows):
        raise ValueError(f"{file} is not a summary that this version wrote: remove it.")
    return _ordered(Record(**row) for row in rows)


def save_result(folder: Path, name: str, result: PaperResult, run: str) -> Record:
    """Write an experiment's table, its figures and its row of the summary, replacing older ones.

    Parameters
    ----------
    folder : Path
        Where to write; it is made if it does not exist.
    name : str
        Name of the experiment.
    result : PaperResult
        What it returned.
    run : str
        What kind of run it was.
    """
    folder.mkdir(parents=True, exist_ok=True)
    holds = [statement for statement, holds in result.statements.items() if holds]
    fails = [statement for statement, holds in result.statements.items() if not holds]
    record = Record(
        name,
        result.paper_says,
        result.we_get,
        result.spread,
        result.verdict,
        "; ".join(holds),
        "; ".join(fails),
        result.settings,
        result.hindsight,
        run,
    )
    table = result.table()
    _write_rows(folder / f"{name}.csv", table, zip(*table.values(), strict=True))
    for kind in ("svg", "png"):
        _save_figure(folder / f"{name}.{kind}", result)
    others = [known for known in read_records(folder) if known.name != name]
    _write_rows(folder / SUMMARY, Record._fields, _ordered([*others, record]))
    return record


def new_figure() -> Figure:
    """An empty figure. Without matplotlib, an error that says how to get it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'drawing needs matplotlib: install it with `pip install "pursuit[plot]"`'
        ) from error
    return Figure(layout="constrained")


def _save_figure(path: Path, result: PaperResult) -> None:
    """Draw a result into an SVG or PNG file, with the same bytes every time."""
    figure = new_figure()
    from matplotlib import rc_context

    # The salt names clip paths, and without a date nothing depends on when it was drawn.
    with rc_context({"svg.hashsalt": path.stem}):
        result.draw(figure)
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=_DPI, metadata=metadata)


def _write_rows(path: Path, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write rows as CSV, numbers with five digits."""
    with path.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([f"{x:.5g}" if isinstance(x, float) else x for x in row])


def _ordered(records: Iterable[Record]) -> list[Record]:
    """Records in the order of the registry; unknown experiments come last."""
    place = {name: i for i, name in enumerate(EXPERIMENTS)}
    return sorted(records, key=lambda record: (place.get(record.name, len(place)), record.name))


def report_page(folder: Path) -> str:
    """All results of a folder as HTML: a table of verdicts, then each result with its figure.

    The page needs no other file.
    """
    records = read_records(folder)
    if not records:
        raise ValueError(
            f"there are no results in {folder}: compute some with `pursuit papers run`."
        )
    counts = Counter(record.verdict for record in records)
    tally = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _SIGNS if counts[verdict])
    rows = "\n".join(
        f'<tr><td><a href="#{record.name}">{record.name}</a></td><td>{_verdict(record)}</td>'
        f"<td>{escape(record.paper)}</td><td>{escape(record.here)}</td>"
        f"<td>{escape(record.spread)}</td><td>{escape(record.hindsight)}</td></tr>"
        for record in records
    )
    sections = ""
    for paper, citation in PAPERS.items():
        of_paper = [record for record in records if record.name.partition("-")[0] == paper]
        if of_paper:
            sections += f"<h2>{escape(citation)}</h2>\n"
            sections += "".join(_section(folder, record) for record in of_paper)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Five papers, run again</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Five papers, run again</h1>
<p>{len(records)} tables and figures: {tally}. Verdicts are computed from the numbers by the
criteria given with each.</p>
<div class="scroll"><table>
<thead><tr><th>Name</th><th>Verdict</th><th>Paper</th><th>Here</th><th>Spread</th>
<th>{CHOSEN.capitalize()}</th></tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
{sections}
</body>
</html>
"""


def _section(folder: Path, record: Record) -> str:
    experiment = EXPERIMENTS.get(record.name)
    title = experiment.title if experiment else record.name
    terms = {
        "The paper says": record.paper,
        "Here": f"{record.here} ({record.spread})",
        "Holds": record.holds or "nothing",
        "Does not hold": record.fails,
        "Settings": f"{record.settings}; {record.run} run",
        CHOSEN.capitalize(): record.hindsight,
        "Found and tried": experiment.notes if experiment else "",
    }
    listed = "\n".join(
        f"<dt>{term}</dt><dd>{escape(text)}</dd>" for term, text in terms.items() if text
    )
    return f"""<section id="{record.name}">
<h3>{record.name}: {escape(title)} — {_verdict(record)}</h3>
{_embedded(folder / f"{record.name}.svg", title)}
<dl>
{listed}
</dl>
</section>
"""


def _embedded(file: Path, title: str) -> str:
    """The figure as an image inside the page, so that its names clash with no other's."""
    if not file.is_file():
        return f"<p>There is no {escape(file.name)}.</p>"
    data = base64.b64encode(file.read_bytes()).decode("ascii")
    return f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{data}">'


def _verdict(record: Record) -> str:
    sign = _SIGNS.get(record.verdict, "")
    return f'<span class="verdict">{sign} {escape(record.verdict)}</span>'
