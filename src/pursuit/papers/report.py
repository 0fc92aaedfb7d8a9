"""All results of a folder on one page of HTML that needs nothing beside itself."""

from __future__ import annotations

import base64
from collections import Counter
from html import escape

from pursuit.papers.folder import CHOSEN, Record, ResultFolder
from pursuit.papers.registry import BY_NAME, PAPERS
from pursuit.papers.result import NOT, PARTLY, REPRODUCED

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


def report_page(folder: ResultFolder) -> str:
    """Everything in a folder as HTML: a table of verdicts, then each result with its figure.

    Parameters
    ----------
    folder : ResultFolder
        Where `pursuit papers run` wrote to.

    Returns
    -------
    page : str
    """
    records = folder.records()
    if not records:
        raise ValueError(
            f"there are no results in {folder.path}: compute some with `pursuit papers run`."
        )
    counts = Counter(record.verdict for record in records)
    tally = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _SIGNS if counts[verdict])
    rows = "\n".join(
        f'<tr><td><a href="#{record.name}">{record.name}</a></td><td>{_verdict(record)}</td>'
        f"<td>{escape(record.paper)}</td><td>{escape(record.here)}</td>"
        f"<td>{escape(record.spread)}</td><td>{escape(record.hindsight)}</td></tr>"
        for record in records
    )
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
{"".join(_papers(folder, records))}
</body>
</html>
"""


def _papers(folder: ResultFolder, records: list[Record]) -> list[str]:
    parts = []
    for paper, citation in PAPERS.items():
        mine = [record for record in records if record.name.partition("-")[0] == paper]
        if mine:
            parts.append(f"<h2>{escape(citation)}</h2>\n")
            parts += [_section(folder, record) for record in mine]
    return parts


def _section(folder: ResultFolder, record: Record) -> str:
    experiment = BY_NAME.get(record.name)
    title = experiment.title if experiment else record.name
    notes = experiment.notes if experiment else ""
    terms = {
        "The paper says": record.paper,
        "Here": f"{record.here} ({record.spread})",
        "Holds": record.holds or "nothing",
        "Does not hold": record.fails,
        "Settings": f"{record.settings}; {record.run} run",
        CHOSEN.capitalize(): record.hindsight,
        "Found and tried": notes,
    }
    listed = "\n".join(
        f"<dt>{term}</dt><dd>{escape(text)}</dd>" for term, text in terms.items() if text
    )
    return f"""<section id="{record.name}">
<h3>{record.name}: {escape(title)} — {_verdict(record)}</h3>
{_figure(folder, record.name, title)}
<dl>
{listed}
</dl>
</section>
"""


def _figure(folder: ResultFolder, name: str, title: str) -> str:
    """The drawing inside the page, as an image of its own so that its names clash with no other."""
    file = folder.path / f"{name}.svg"
    if not file.is_file():
        return f"<p>There is no {escape(file.name)}.</p>"
    data = base64.b64encode(file.read_bytes()).decode("ascii")
    return f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{data}">'


def _verdict(record: Record) -> str:
    sign = _SIGNS.get(record.verdict, "")
    return f'<span class="verdict">{sign} {escape(record.verdict)}</span>'
