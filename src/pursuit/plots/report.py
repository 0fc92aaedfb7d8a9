"""One page that describes a fitted model: plain numbers in, one file of HTML out.

The page needs no network and no other file.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from pursuit.plots.escaped import escape
from pursuit.plots.what_if import WhatIf, block, panel

_BAR = 100.0
_SIDE, _EDGE = 220, 34
_PAIR = "first", "second"
_PART = 220, 110
"""Width and height of the picture of a part."""


@dataclass(frozen=True)
class Table:
    """Rows of text under column headings; without headings, pairs of name and value."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Curve:
    """One number for every size of the model, None where it is unknown.

    ``logarithmic`` says whether it is drawn on a logarithmic axis.
    """

    name: str
    unit: str
    values: Sequence[float | None]
    logarithmic: bool = False


@dataclass(frozen=True)
class Comparison:
    """Two numbers of each of several groups, drawn as a pair of bars beside their table.

    ``names`` are those of the two numbers; ``pairs`` has one entry per row of the table.
    """

    title: str
    table: Table
    names: tuple[str, str]
    pairs: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class PartCurve:
    """One of the functions that add up to a prediction, along its feature.

    Attributes
    ----------
    name : str
        Its name.
    share : float
        Its standard deviation over some rows, in units of y.
    values : sequence of float or of str
        Values of its feature, or names of levels; empty where it has several features.
    mean, width : sequence of float
        The function there, and half the width of its 90 % band; no widths where unknown.
    """

    name: str
    share: float
    values: Sequence[float] | Sequence[str] = ()
    mean: Sequence[float] = ()
    width: Sequence[float] = ()


@dataclass(frozen=True)
class Panel:
    """A part of the page that only some models have: a text, a table, comparisons and a picture.

    ``picture`` is an SVG file, and ``described`` says what it shows.
    """

    title: str
    text: str
    table: Table = field(default_factory=lambda: Table([], []))
    comparisons: Sequence[Comparison] = ()
    picture: bytes = b""
    described: str = ""


@dataclass(frozen=True)
class Report:
    """What a page about a fitted model shows.

    Attributes
    ----------
    title : str
        Name of the model.
    summary : str
        One sentence about it.
    data, settings : Table
        The data it was fitted to, and its hyper-parameters.
    sizes : sequence of int
        Sizes at which the slider stops.
    counted : str
        What the sizes count.
    curves : sequence of Curve
        Numbers known for every size: errors, certificate, cost.
    certificate : str
        How far the model is from the exact one; empty if that is unknown.
    importance : sequence of (name, number)
        How much the features move the predictions, the most important first.
    relevance : sequence of (name, number)
        Relevance of the features, the most relevant first.
    coverage : sequence of (wanted, observed)
        Share of the observations that intervals should contain, and do contain.
    basis : Table
        The chosen functions, in the order of choice.
    cost : sequence of (name, seconds)
        Seconds that each stage of the fit took.
    notes : sequence of str
        Remarks on the model, each with a remedy.
    caption : str
        What has to be known about the curves; may be empty.
    panels : sequence of Panel
        Further parts of the page, below the curves.
    what_if : WhatIf, optional
        The model itself, which runs in the page.
    parts : sequence of PartCurve
        Functions that add up to the prediction.
    """

    title: str
    summary: str
    data: Table
    settings: Table
    sizes: Sequence[int]
    curves: Sequence[Curve]
    certificate: str = ""
    importance: Sequence[tuple[str, float]] = ()
    relevance: Sequence[tuple[str, float]] = ()
    coverage: Sequence[tuple[float, float]] = ()
    basis: Table = field(default_factory=lambda: Table([], []))
    cost: Sequence[tuple[str, float]] = ()
    notes: Sequence[str] = ()
    counted: str = "basis functions"
    caption: str = ""
    panels: Sequence[Panel] = ()
    what_if: WhatIf | None = None
    parts: Sequence[PartCurve] = ()


_IMPORTANCE = (
    "Importance: the standard deviation of the predictions that a feature is responsible for, "
    "relative to that of the predictions themselves. Steep functions may have more than 1."
)
_PARTS = (
    "The prediction is a sum of these functions. The bars show their standard deviations over the "
    "rows, in units of y. The pictures show them less their means, all with the same scale, with "
    "bands of 90 %."
)
_RELEVANCE = "Relevance: the standard deviation of a feature over its length scale in the kernel."


def render(report: Report, version: str) -> str:
    """A report as one page of HTML.

    Parameters
    ----------
    report : Report
        What to show.
    version : str
        Version of the library, for the foot of the page.

    Returns
    -------
    html : str
        The page. Every text of the report is escaped; the numbers of the slider are in a block of
        JSON.
    """
    parts = files("pursuit.plots")
    style = parts.joinpath("report.css").read_text(encoding="utf-8")
    script = parts.joinpath("report.js").read_text(encoding="utf-8")
    what_if = report.what_if
    sections = [
        "" if what_if is None else _section("What if", panel(what_if), "wide"),
        _section("Data", _table(report.data)),
        _section("Hyper-parameters", _table(report.settings)),
        _path(report),
        *map(_panel, report.panels),
        _section("Certificate", _paragraph(report.certificate), "wide"),
        _section("What moves the predictions", _features(_IMPORTANCE, report.importance)),
        _section("Parts of the prediction", _parts(report.parts), "wide"),
        _section("What the kernel listens to", _features(_RELEVANCE, report.relevance)),
        _coverage(report),
        _section("Chosen basis", _table(report.basis), "wide"),
        _section("Cost of the fit", _bars(report.cost, "s")),
        _section("Notes", _items(report.notes), "wide"),
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(report.title)}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<header>
<h1>{escape(report.title)}</h1>
<p class="lead">{escape(report.summary)}</p>
</header>
<main>
{"".join(sections)}</main>
<footer><p>Written by pursuit {escape(version)}.</p></footer>
<script type="application/json" id="numbers">{_numbers(report)}</script>
<script>
{script}</script>
{"" if what_if is None else block(what_if)}</body>
</html>
"""


def _numbers(report: Report) -> str:
    """The slider's numbers as JSON; ``<`` is escaped so that no text can close the element."""
    curves = [
        {
            "name": curve.name,
            "unit": curve.unit,
            "values": [_finite(value) for value in curve.values],
            "logarithmic": curve.logarithmic,
        }
        for curve in report.curves
    ]
    numbers = {"sizes": [int(n) for n in report.sizes], "counted": report.counted, "curves": curves}
    text = json.dumps(numbers, allow_nan=False)
    return text.replace("<", "\\u003c")


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _section(title: str, content: str, kind: str = "") -> str:
    if not content:
        return ""
    name = title.lower().replace(" ", "-")
    return (
        f'<section class="{kind}" aria-labelledby="{name}">\n<h2 id="{name}">{escape(title)}</h2>\n'
        f"{content}</section>\n"
    )


def _panel(panel: Panel) -> str:
    content = _paragraph(panel.text) + _table(panel.table, "named")
    if panel.picture:
        data = base64.b64encode(panel.picture).decode("ascii")
        content += (
            f'<img class="picture" src="data:image/svg+xml;base64,{data}" '
            f'alt="{escape(panel.described)}">\n'
        )
    return _section(panel.title, content + "".join(map(_comparison, panel.comparisons)), "wide")


def _comparison(comparison: Comparison) -> str:
    largest = max((max(pair) for pair in comparison.pairs), default=0.0) or 1.0
    bars = [
        "".join(
            f'<span class="bar {kind}" style="width:{_BAR * value / largest:.1f}%"></span>'
            for kind, value in zip(_PAIR, pair, strict=True)
        )
        for pair in comparison.pairs
    ]
    legend = "".join(
        f'<span class="bar {kind}"></span> {escape(name)}'
        for kind, name in zip(_PAIR, comparison.names, strict=True)
    )
    return (
        f'<h3>{escape(comparison.title)}</h3>\n<p class="legend" aria-hidden="true">{legend}</p>\n'
        f"{_table(comparison.table, 'named', bars)}"
    )


def _table(table: Table, kind: str = "", drawn: Sequence[str] = ()) -> str:
    """A table; ``drawn`` are pictures of the numbers, one per row, beside its first cell."""
    if not table.rows:
        return ""
    if not table.columns:
        cells = "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>\n"
            for name, value in table.rows
        )
        return f"<dl>\n{cells}</dl>\n"
    head = [f'<th scope="col">{escape(name)}</th>' for name in table.columns]
    body = [[f"<td>{escape(cell)}</td>" for cell in row] for row in table.rows]
    if drawn:
        head.insert(1, '<td class="pair"></td>')
        for row, picture in zip(body, drawn, strict=True):
            row.insert(1, f'<td class="pair" aria-hidden="true">{picture}</td>')
    lines = "".join(f"<tr>{''.join(row)}</tr>\n" for row in body)
    # Wide tables scroll on their own, and must be reachable by the keyboard for that.
    return (
        '<div class="scrolls" tabindex="0" role="region" aria-label="Table">\n'
        f'<table class="{kind}">\n<thead><tr>{"".join(head)}</tr></thead>\n'
        f"<tbody>\n{lines}</tbody>\n</table>\n</div>\n"
    )


def _path(report: Report) -> str:
    if not len(report.sizes):
        return ""
    last, counted = len(report.sizes) - 1, escape(report.counted)
    cards = "".join(
        f'<div class="card"><dt>{escape(curve.name)}</dt>'
        f'<dd><output id="value{i}" for="size">{escape(_shown(curve, last))}</output></dd>'
        f'<svg class="curve" id="curve{i}" viewBox="0 0 220 90" role="img" '
        f'aria-label="{escape(curve.name)} against the number of {counted}"></svg></div>\n'
        for i, curve in enumerate(report.curves)
    )
    content = f"""<p><label for="size">Number of {counted}:</label>
<output id="chosen" for="size">{report.sizes[last]:,}</output></p>
<input type="range" id="size" min="0" max="{last}" value="{last}" step="1"
 aria-valuetext="{report.sizes[last]} {counted}">
<dl class="cards" aria-live="polite">
{cards}</dl>
{_paragraph(report.caption)}"""
    return _section("Size and what it buys", content, "wide")


def _shown(curve: Curve, at: int) -> str:
    value = _finite(curve.values[at])
    if value is None:
        return "not computed"
    return f"{precise(value)} {curve.unit}".strip()


def precise(value: float) -> str:
    """A number with four digits, and all digits before the point, as the script writes it."""
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e7:
        digits = max(0, 3 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.3e}".replace("e-0", "e-").replace("e+0", "e+")


def _parts(parts: Sequence[PartCurve]) -> str:
    """Bars of the shares of all parts, and a picture of each that has one feature."""
    if not parts:
        return ""
    bars = _bars([(part.name, part.share) for part in parts], "")
    drawn = [part for part in parts if len(part.values) > 1]
    scale = max((abs(end) for part in drawn for end in _ends(part)), default=0.0) or 1.0
    pictures = "".join(_part(part, scale) for part in drawn)
    return f'{_paragraph(_PARTS)}{bars}<div class="cards">\n{pictures}</div>\n'


def _ends(part: PartCurve) -> list[float]:
    widths = part.width or [0.0] * len(part.mean)
    return [m + sign * w for m, w in zip(part.mean, widths, strict=True) for sign in (-1, 1)]


def _part(part: PartCurve, scale: float) -> str:
    """A part along its feature; all of them have the same scale."""
    names = all(isinstance(value, str) for value in part.values)
    places = range(len(part.values)) if names else part.values
    low, high = float(min(places)), float(max(places))
    xs = [_PART[0] * (float(x) - low) / (high - low) for x in places]

    def height(y: float) -> float:
        return _PART[1] * (0.5 - 0.5 * y / scale)

    line = [f"{x:.1f},{height(y):.1f}" for x, y in zip(xs, part.mean, strict=True)]
    shapes = f'<line x1="0" x2="{_PART[0]}" y1="{height(0.0)}" y2="{height(0.0)}"/>'
    widths = part.width or [0.0] * len(xs)
    ends = [[height(y + s * w) for y, w in zip(part.mean, widths, strict=True)] for s in (1, -1)]
    if names:
        bars = zip(xs, *ends, strict=True)
        shapes += "".join(
            f'<line class="bar" x1="{x:.1f}" x2="{x:.1f}" y1="{a:.1f}" y2="{b:.1f}"/>'
            for x, a, b in bars
        )
        shapes += "".join(
            f'<circle cx="{x:.1f}" cy="{height(y):.1f}" r="3"/>'
            for x, y in zip(xs, part.mean, strict=True)
        )
    else:
        there, back = ([f"{x:.1f},{y:.1f}" for x, y in zip(xs, end, strict=True)] for end in ends)
        shapes += f'<polygon points="{" ".join(there + back[::-1])}"/>'
        shapes += f'<polyline points="{" ".join(line)}"/>'
    first, last = (
        (str(part.values[0]), str(part.values[-1]))
        if names
        else (precise(float(low)), precise(float(high)))
    )
    text = (
        f"{part.name}: from {precise(min(part.mean))} to {precise(max(part.mean))}, "
        f"for values from {first} to {last}"
    )
    return (
        f'<figure class="card"><figcaption>{escape(part.name)}</figcaption>\n'
        f'<svg class="part" viewBox="-4 -4 {_PART[0] + 8} {_PART[1] + 8}" role="img" '
        f'aria-label="{escape(text)}">{shapes}</svg>\n'
        f'<p class="range"><span>{escape(first)}</span><span>{escape(last)}</span></p></figure>\n'
    )


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>\n" if text else ""


def _bars(values: Sequence[tuple[str, float]], unit: str) -> str:
    """A list of bars with their numbers, readable without the picture."""
    largest = max((value for _, value in values), default=0.0) or 1.0
    rows = "".join(
        f'<li><span class="name">{escape(name)}</span>'
        f'<span class="bar" style="width:{_BAR * value / largest:.1f}%" aria-hidden="true"></span>'
        f'<span class="number">{escape(f"{precise(value)} {unit}".strip())}</span></li>\n'
        for name, value in values
    )
    return f'<ul class="bars">\n{rows}</ul>\n' if values else ""


def _features(caption: str, values: Sequence[tuple[str, float]]) -> str:
    """Bars of features, and what they show."""
    return _paragraph(caption) + _bars(values, "") if values else ""


def _coverage(report: Report) -> str:
    if not report.coverage:
        return ""
    size = _SIDE + 2 * _EDGE

    def place(wanted: float, observed: float) -> tuple[float, float]:
        return _EDGE + _SIDE * wanted, _EDGE + _SIDE * (1.0 - observed)

    line = " ".join("{:.1f},{:.1f}".format(*place(*pair)) for pair in report.coverage)
    dots = "".join(
        '<circle cx="{:.1f}" cy="{:.1f}" r="3.5"/>'.format(*place(*pair))
        for pair in report.coverage
    )
    rows = Table(
        ["asked", "found"], [[f"{asked:.0%}", f"{found:.1%}"] for asked, found in report.coverage]
    )
    chart = (
        f'<svg class="coverage" viewBox="0 0 {size} {size}" role="img" '
        'aria-label="Part of the observations within intervals, against the part asked for">'
        f'<rect x="{_EDGE}" y="{_EDGE}" width="{_SIDE}" height="{_SIDE}"/>'
        f'<line x1="{_EDGE}" y1="{_EDGE + _SIDE}" x2="{_EDGE + _SIDE}" y2="{_EDGE}"/>'
        f'<polyline points="{line}"/>{dots}'
        f'<text x="{size / 2}" y="{size - 8}">asked for</text>'
        f'<text x="{size / 2}" y="{_EDGE - 12}">found</text></svg>\n'
    )
    return _section("Calibration of the intervals", f'<div class="two">{chart}{_table(rows)}</div>')


def _items(texts: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>\n" for text in texts)
    return f"<ul>\n{items}</ul>\n" if items else ""
