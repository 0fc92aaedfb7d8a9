"""Draw errors against seconds from stored results: three figures and tables.

Run from the root of the repository; ``python -m benchmarks frontier`` does it at its end:

    python docs/make_frontier.py

Reads benchmarks/frontier.csv, and benchmarks/frontier.json for the words: what the settings are and
where they were measured. Every setting is shown, with or without a result. The same fits give the
same bytes, in whatever order their lines stand.
"""

import csv
import json
import math
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import fmean, stdev

from make_benchmarks import escaped, list_table, place

DOCS = Path(__file__).parent
RESULTS = DOCS / "benchmarks" / "frontier.csv"
ABOUT = RESULTS.with_suffix(".json")
TABLES = RESULTS.with_suffix(".inc")
IMAGES = DOCS / "images"

# Colour and shape of each model: ours are blues, other Gaussian processes warm, trees green.
STYLES = {
    "SparseGPRegressor": ("#3f9be0", "circle"),
    "FullScaleGPRegressor": ("#2463d6", "square"),
    "ExactGPRegressor": ("#7c6cf0", "diamond"),
    "GPyTorch SGPR": ("#e08a1e", "circle"),
    "GPyTorch SVGP": ("#c9621a", "square"),
    "GPBoost": ("#d64550", "diamond"),
    "LightGBM": ("#2fa866", "triangle"),
    "HistGradientBoosting": ("#7aa52b", "tip"),
    "Nystroem + Ridge": ("#8c929c", "circle"),
    "GaussianProcessRegressor": ("#8c929c", "square"),
}
OURS = ("SparseGPRegressor", "FullScaleGPRegressor", "ExactGPRegressor")
OTHER = ("#8c929c", "circle")
WIDTH, COLUMNS = 980, 3
PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP = 318, 250, 46, 28
PLOT_WIDTH, PLOT_HEIGHT = 258, 170
LEGEND_LINE = 22
ALL_FITS = ".. All fits follow."
"""Where the second part of the tables begins: the page has text between the two."""
EQUAL_ERROR, EQUAL_DENSITY, NEAR = 1.01, 0.01, 1.05
"""Errors are equal within this factor, densities within this difference; what is near in error."""


@dataclass(frozen=True)
class Measure:
    """A column of the results that has a figure; what is beyond its limits stands at the edge.

    Less is better, unless a value is wanted. A panel reaches from the least value to the best of
    each model and a quarter further, but not beyond ``most``: a model is at the edge where another
    of its settings shows what it can do, or where it is worse than the mean of the targets.
    """

    column: str
    label: str
    file: str
    words: str
    least: float = -math.inf
    most: float = math.inf
    logarithmic: bool = False
    wanted: float | None = None

    def limits(self, series):
        """Least and largest value of a panel, from the values of each model."""
        shown = [value for values in series for value in values]
        if not shown:
            return (0.1, 1.0) if self.logarithmic else (0.0, 1.0)
        if self.wanted is None:
            low, high = min(shown), max(map(min, series))
            further = (
                high * (high / low) ** 0.25 if self.logarithmic else high + 0.25 * (high - low)
            )
            high = min(further, max(shown), self.most)
        else:
            low, high = max(min(shown), self.least), max(*shown, self.wanted)
        return min(low, high), high

    def span(self, series):
        """Bottom and top of a panel: its limits, with some room."""
        low, high = self.limits(series)
        if self.logarithmic:
            room = max((high / low) ** 0.08, 1.01)
            return low / room, high * room
        room = 0.08 * (high - low) or 0.01
        return low - room, high + room


# The mean of the training targets has an error of about 1 and a density of 1.42.
MEASURES = (
    Measure(
        "rmse", "test RMSE", "frontier.svg", "Test error against seconds of the fit",
        most=1.0, logarithmic=True,
    ),
    Measure(
        "nlpd", "test NLPD", "frontier-density.svg",
        "Negative log density of the test rows against seconds of the fit", most=1.42,
    ),
    Measure(
        "coverage95", "within 95 % intervals", "frontier-coverage.svg",
        "Share of test rows within 95 % intervals against seconds of the fit",
        least=0.85, wanted=0.95,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A setting of a model on a data set: all of its splits, of which every model has the first."""

    dataset: str
    model: str
    setting: str
    lines: tuple

    def first(self, column):
        """The figure of the first split, or None."""
        text = self.lines[0][column]
        return float(text) if text and self.lines[0]["rmse"] else None

    def all(self, column):
        """Figures of the splits that have an error on the test rows."""
        return [float(line[column]) for line in self.lines if line["rmse"] and line[column]]

    @property
    def ours(self):
        return self.model in OURS

    @property
    def capped(self):
        return stopped(self.lines[0])

    @property
    def state(self):
        """How the fit of the first split ended."""
        return self.lines[0]["status"]


def stored_fits(path, facts):
    """Lines of the stored fits: small data sets first, settings as they are described, by seed."""
    text = path.read_text(encoding="utf-8")
    lines = list(csv.DictReader(text.splitlines()))
    if not text.endswith("\n") or any(None in (*line, *line.values()) for line in lines):
        raise SystemExit(f"{path.name}: a line is broken, or the last is cut off")
    described = [(s["model"], s["setting"]) for s in facts["settings"]]
    sizes = {}
    for line in lines:
        sizes.setdefault(line["dataset"], set()).add(int(line["rows"] or 0))

    def place(line):
        name, key = line["dataset"], (line["model"], line["setting"])
        size = max(sizes[name]) or math.inf
        number = described.index(key) if key in described else len(described)
        return size, name, number, int(line["seed"])

    return sorted(lines, key=place)


def stopped(line):
    """Whether the cap ended the fit, and not only the predictions after it."""
    own = "the prediction took longer" not in line["note"] or "ended by itself" in line["note"]
    return line["status"] == "capped" and own


def entries(path, facts):
    """Data sets, models and settings in the order of the page."""
    groups = {}
    for line in stored_fits(path, facts):
        key = line["dataset"], line["model"], line["setting"]
        groups.setdefault(key, []).append(line)
    return [Entry(*key, tuple(group)) for key, group in groups.items()]


def by_dataset(found):
    sets = {}
    for entry in found:
        sets.setdefault(entry.dataset, []).append(entry)
    return sets


def about(path):
    """Settings, machines and the cap; nothing where no fit was done yet."""
    if not path.exists():
        return {"cap_seconds": 600.0, "settings": [], "machines": []}
    return json.loads(path.read_text(encoding="utf-8"))


def seconds(value):
    """Two digits are more than times on a shared machine deserve."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"


def fit_time(entry, cap):
    if entry.capped:
        return f"> {cap:g}"
    if entry.state == "capped":
        # The fit was done, and its predictions were not.
        return seconds(float(entry.lines[0]["fit_seconds"]))
    value = entry.first("fit_seconds")
    return entry.state if value is None else seconds(value)


def rounded(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


def with_deviation(entry, column, digits):
    """Mean and standard deviation over the splits, if there are several."""
    found = entry.all(column)
    if len(found) < 2:
        return ""
    return f"{fmean(found):.{digits}f} ± {stdev(found):.{digits}f}"


def remark(entry):
    """Notes of all splits, each once, and how many splits there are if not all."""
    notes = list(dict.fromkeys(line["note"] for line in entry.lines if line["note"]))
    done = len(entry.all("rmse"))
    if 0 < done < len(entry.lines):
        notes.insert(0, f"{done} of {len(entry.lines)} splits")
    return "; ".join(notes)


def section(name, found, cap):
    """The table of a data set."""
    sizes = sorted(
        {(line["rows"], line["features"]) for e in found for line in e.lines} - {("", "")}
    )
    lines = [name, "~" * len(name), ""]
    if sizes:
        lines += [f"{sizes[0][0]} training rows, {sizes[0][1]} features.", ""]
    rows = [
        (
            *("model", "setting", "fit, s", "CPU, s", "predict, s", "RMSE", "NLPD", "95 %"),
            *("RMSE, all splits", "NLPD, all splits", "remark"),
        )
    ]
    for entry in found:
        cpu, predict = entry.first("cpu_seconds"), entry.first("predict_seconds")
        coverage = entry.first("coverage95")
        rows.append(
            (
                escaped(entry.model),
                escaped(entry.setting),
                fit_time(entry, cap),
                "" if cpu is None else seconds(cpu),
                "" if predict is None else seconds(predict),
                rounded(entry.first("rmse"), 3),
                rounded(entry.first("nlpd"), 2),
                "" if coverage is None else f"{100 * coverage:.1f}",
                with_deviation(entry, "rmse", 3),
                with_deviation(entry, "nlpd", 2),
                escaped(remark(entry)),
            )
        )
    return "\n".join([*lines, *list_table(rows, "16 11 7 7 7 7 7 6 13 13 14", "results"), ""])


def winners(found, cap):
    """Who has the least error and the least density on each data set, and who is near and quick."""
    by_rmse = [("data set", "least RMSE, ours", "least RMSE, others", "quickest near the least")]
    by_nlpd = [("data set", "least NLPD, ours", "least NLPD, others")]
    won = {"ours": [], "others": [], "about equal": []}
    for name, some in by_dataset(found).items():
        measured = [entry for entry in some if entry.first("rmse") is not None]
        errors = best_of_both(measured, "rmse")
        densities = best_of_both([e for e in measured if not few_error_bars(e)], "nlpd")
        if None in (*errors, *densities):
            continue
        by_error = winner(*(math.log(e.first("rmse")) for e in errors), math.log(EQUAL_ERROR))
        by_density = winner(*(e.first("nlpd") for e in densities), EQUAL_DENSITY)
        won[by_error].append(name)
        limit = NEAR * min(e.first("rmse") for e in errors)
        near = [e for e in measured if e.first("rmse") <= limit]
        quick = min(near, key=lambda e: (e.capped, e.first("fit_seconds")))
        near_cell = shown(quick, "rmse", 3, cap, bold=False)
        by_rmse.append((escaped(name), *pair_shown(errors, by_error, "rmse", 3, cap), near_cell))
        by_nlpd.append((escaped(name), *pair_shown(densities, by_density, "nlpd", 2, cap)))
    if len(by_rmse) == 1:
        return ""
    told = {
        "ours": "ours have the lower error on",
        "others": "the others on",
        "about equal": f"both are within {100 * (EQUAL_ERROR - 1):.0f} % on",
    }
    parts = [f"{words} {listed(won[side])}" for side, words in told.items() if won[side]]
    sentence = "; ".join(parts)
    return "\n".join(
        [
            f"{sentence[0].upper()}{sentence[1:]}.",
            "",
            *list_table(by_rmse, "13 29 29 29", "overview"),
            "",
            *list_table(by_nlpd, "13 43 44", "overview"),
            "",
        ]
    )


def listed(words):
    """Words as a sentence lists them."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def best_of_both(measured, column):
    """The entry of least value of ours, and of the others; None where there is none."""
    sides = (
        [e for e in measured if e.ours is ours and e.first(column) is not None]
        for ours in (True, False)
    )
    return [min(side, key=lambda e: e.first(column), default=None) for side in sides]


def few_error_bars(entry):
    """Whether its density is that of a part of the test rows, not to be compared with others."""
    return "error bars of" in entry.lines[0]["note"]


def winner(ours, others, equal):
    return "about equal" if abs(ours - others) <= equal else "ours" if ours < others else "others"


def pair_shown(pair, best, column, digits, cap):
    """Ours and the others', the better one bold."""
    sides = zip(("ours", "others"), pair, strict=True)
    return [shown(entry, column, digits, cap, bold=side == best) for side, entry in sides]


def shown(entry, column, digits, cap, *, bold):
    value = rounded(entry.first(column), digits)
    return (
        f"{f'**{value}**' if bold else value} in {fit_time(entry, cap)} s:"
        f" {escaped(entry.model)}, {escaped(entry.setting)}"
    )


def described(facts):
    """What each setting is, and where it was measured."""
    lines = ["Settings", "~~~~~~~~", ""]
    rows = [("model", "setting", "splits", "what is set")]
    rows += [
        (escaped(s["model"]), escaped(s["setting"]), s["seeds"], escaped(s["text"]))
        for s in facts["settings"]
    ]
    if len(rows) > 1:
        lines += [*list_table(rows, "18 14 8 60", "overview"), ""]
    for run in facts["machines"]:
        dates = dict.fromkeys([run["first"][:10], run["last"][:10]])
        lines += [f"*{escaped(' to '.join(dates))}: {escaped(place(run['machine']))}.*", ""]
    if not facts["machines"]:
        lines += ["Nothing was measured yet.", ""]
    if len({run["machine"].get("processor") for run in facts["machines"]}) > 1:
        lines += ["Which fit ran on which of these processors is not stored.", ""]
    return "\n".join(lines)


def tables(results=RESULTS, facts=ABOUT):
    facts = about(facts)
    found = entries(results, facts)
    cap = facts["cap_seconds"]
    parts = [section(name, some, cap) for name, some in by_dataset(found).items()]
    head = [".. Written by make_frontier.py.\n", winners(found, cap), f"{ALL_FITS}\n"]
    return "\n".join([*head, *parts, described(facts)])


def panels(measure, results=RESULTS, facts=ABOUT):
    """What the figure shows: for each data set points of every model, and what has no point."""
    facts = about(facts)
    cap, drawn = facts["cap_seconds"], []
    for name, found in by_dataset(entries(results, facts)).items():
        series, absent = {}, {}
        for entry in found:
            value = entry.first(measure.column)
            if value is None:
                why = "repeated" if "the same as" in entry.lines[0]["note"] else entry.state
                absent[why] = absent.get(why, 0) + 1
                continue
            time = cap if entry.capped else entry.first("fit_seconds")
            series.setdefault(entry.model, []).append(
                {
                    "setting": entry.setting,
                    "seconds": time,
                    "value": value,
                    "capped": entry.capped,
                }
            )
        drawn.append({"dataset": name, "series": series, "absent": absent})
    return drawn


def figure(measure, results=RESULTS, facts=ABOUT):
    """The picture as SVG, in colours for light and dark pages."""
    cap, drawn = about(facts)["cap_seconds"], panels(measure, results, facts)
    n_rows = -(-len(drawn) // COLUMNS)
    parts = [STYLE]
    for number, panel in enumerate(drawn):
        x = LEFT + number % COLUMNS * PANEL_WIDTH
        y = TOP + number // COLUMNS * PANEL_HEIGHT
        parts += [f'<g transform="translate({x} {y})">', *plot(panel, measure, cap), "</g>"]
    top = n_rows * PANEL_HEIGHT + 18
    parts += legend(list(STYLES), top, cap)
    height = top + LEGEND_LINE * (1 + -(-len(STYLES) // 4)) + 6
    head = (
        f'<svg class="frontier" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'role="img" '
        f'aria-label="{measure.words}, a panel per data set" '
        'xmlns="http://www.w3.org/2000/svg">'
    )
    return "\n".join([head, *parts, "</svg>\n"])


# Inside a page the theme's colours are used, else those of the reader's system, with paper of its
# own: a page may be dark where the system is light.
STYLE = """<style>
.frontier { --dark: #24292f; --line: #c9ced6; --paper: #ffffff; }
@media (prefers-color-scheme: dark) {
.frontier { --dark: #d9dde3; --line: #4b535e; --paper: #0d1117; }
}
.frontier { max-width: 100%; height: auto; }
.frontier { background: var(--pst-color-background, var(--paper)); }
.frontier { --ink: var(--pst-color-text-base, var(--dark)); }
.frontier { --faint: var(--pst-color-border, var(--line)); }
.frontier text { fill: var(--ink); font: 11px system-ui, sans-serif; }
.frontier .name { font-size: 13px; font-weight: 600; }
.frontier .grid { stroke: var(--faint); stroke-width: 0.6; fill: none; }
.frontier .wanted { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 4 3; }
</style>"""


def plot(panel, measure, cap):
    """Axes, lines and points of a data set."""
    points = [point for series in panel["series"].values() for point in series]
    values = [[point["value"] for point in series] for series in panel["series"].values()]
    least, most = measure.limits(values)
    low, high = measure.span(values)
    scale = math.log if measure.logarithmic else float
    shortest = min((point["seconds"] for point in points), default=0.1)
    span = math.floor(math.log10(shortest)), math.log10(cap) + 0.06

    def across(value):
        return PLOT_WIDTH * (math.log10(value) - span[0]) / (span[1] - span[0])

    def down(value):
        return PLOT_HEIGHT * (scale(high) - scale(value)) / (scale(high) - scale(low))

    parts = [f'<text class="name" x="0" y="-10">{escape(panel["dataset"])}</text>']
    for power in range(span[0], math.floor(span[1]) + 1):
        x = across(10.0**power)
        parts += grid(
            f"M{x:.1f} 0V{PLOT_HEIGHT}", x, PLOT_HEIGHT + 14, f"{10.0**power:g}", "middle"
        )
    parts += grid(
        f"M{across(cap):.1f} 0V{PLOT_HEIGHT}", across(cap), PLOT_HEIGHT + 14,
        f"&gt; {cap:g}" if any(point["capped"] for point in points) else f"{cap:g}", "middle",
    )  # fmt: skip
    for tick in ticks(low, high, logarithmic=measure.logarithmic):
        y = down(tick)
        parts += grid(f"M0 {y:.1f}H{PLOT_WIDTH}", -5, y + 4, f"{tick:g}", "end")
    parts.append(
        f'<text x="{PLOT_WIDTH}" y="{PLOT_HEIGHT + 28}" text-anchor="end">fit, seconds</text>'
    )
    parts.append(f'<text x="{PLOT_WIDTH}" y="-10" text-anchor="end">{measure.label}</text>')
    if measure.wanted is not None:
        parts.append(f'<path class="wanted" d="M0 {down(measure.wanted):.1f}H{PLOT_WIDTH}"/>')
    for model, series in panel["series"].items():
        colour, shape = STYLES.get(model, OTHER)
        inside = [max(least, min(p["value"], most)) for p in series]
        places = [
            (across(p["seconds"]), down(value)) for p, value in zip(series, inside, strict=True)
        ]
        if len(places) > 1:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            wide = 2 if model in OURS else 1
            parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{wide}"/>')
        for (x, y), point in zip(places, series, strict=True):
            time = f"> {cap:g}" if point["capped"] else seconds(point["seconds"])
            words = f"{model}, {point['setting']}: {point['value']:.3f}, {time} s"
            parts.append(mark(x, y, shape, colour, hollow=point["capped"], title=words))
            if not least <= point["value"] <= most:
                parts.append(beyond(x, y, colour, up=point["value"] > most))
    words = {
        "capped": f"over {cap:g} s",
        "ok": "without error bars",
        "repeated": "that would repeat another",
    }
    absent = [f"{count} {words.get(state, state)}" for state, count in panel["absent"].items()]
    if absent:
        text = f"settings not shown: {', '.join(absent)}"
        parts.append(f'<text x="0" y="{PLOT_HEIGHT + 42}">{escape(text)}</text>')
    return parts


def grid(path, x, y, label, anchor):
    line = f'<path class="grid" d="{path}"/>'
    text = f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{label}</text>'
    return [line, text]


def mark(x, y, shape, colour, *, hollow, title):
    """A point; hollow if the fit was stopped at the cap."""
    r = 4.5
    drawn = {
        "circle": f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        "square": f"M{x - 4:.1f} {y - 4:.1f}h8v8h-8z",
        "diamond": f"M{x:.1f} {y - 5.5:.1f}l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
        "triangle": f"M{x:.1f} {y - 5:.1f}l5 9h-10z",
        "tip": f"M{x:.1f} {y + 5:.1f}l5 -9h-10z",
    }[shape]
    fill = "none" if hollow else colour
    return (
        f'<path d="{drawn}" fill="{fill}" stroke="{colour}" stroke-width="1.5">'
        f"<title>{escape(title)}</title></path>"
    )


def beyond(x, y, colour, *, up):
    """An arrow at a point whose value is beyond the panel."""
    sign = -1 if up else 1
    drawn = f"M{x - 4:.1f} {y + 8 * sign:.1f}l4 {5 * sign}l4 {-5 * sign}"
    return f'<path d="{drawn}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def legend(models, top, cap):
    parts = []
    for number, model in enumerate(models):
        x, y = LEFT + number % 4 * 235, top + number // 4 * LEGEND_LINE
        parts.append(mark(x, y, STYLES[model][1], STYLES[model][0], hollow=False, title=model))
        name = f"pursuit {model}" if model in OURS else model
        parts.append(f'<text x="{x + 12}" y="{y + 4}">{escape(name)}</text>')
    y = top + -(-len(models) // 4) * LEGEND_LINE + 4
    words = (
        f"Hollow: not done after {cap:g} s. Arrow: beyond the panel. Lines join the settings of a"
        " model, thick ones are pursuit's."
    )
    parts.append(f'<text x="{LEFT - 6}" y="{y}">{words}</text>')
    return parts


def ticks(low, high, *, logarithmic):
    """Round numbers: of five digits where a range of powers is wide, else in equal steps."""
    if logarithmic and high / low > 5:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        round_ones = [digit * 10.0**power for power in powers for digit in (1, 1.5, 2, 3, 5)]
    else:
        rough = (high - low) / 4
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= rough)
        first = math.ceil(low / step)
        round_ones = [step * k for k in range(first, first + 8)]
    return [round(tick, 10) for tick in round_ones if low <= tick <= high]


def main():
    TABLES.write_text(tables(), encoding="utf-8", newline="\n")
    for measure in MEASURES:
        (IMAGES / measure.file).write_text(figure(measure), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
