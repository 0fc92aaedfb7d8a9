"""Fill in the numbers of README.md and of other Markdown pages from stored results.

Run from the root of the repository: ``python docs/make_readme.py``. A region of a page

    <!-- numbers: NAME -->
    ...
    <!-- end of numbers -->

is written by the function below that has this name, from the results in docs/benchmarks and
docs/torture.json. What has no stored result is left out.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from make_frontier import about, stopped, stored_fits

import pursuit

DOCS = Path(__file__).parent
ROOT = DOCS.parent
REGION = re.compile(
    r"(?P<head><!-- numbers: (?P<name>[\w-]+)(?: (?P<argument>[^>]+?))? -->\n)"
    r".*?(?P<tail><!-- end of numbers -->)",
    re.DOTALL,
)
LINES = (
    "SparseGPRegressor",
    "FullScaleGPRegressor",
    "ExactGPRegressor",
    "GPyTorch",
    "GPBoost",
    "LightGBM, default",
    "LightGBM, tuned",
    "Nystroem",
)
"""How the lines of the README's table begin; of those that begin alike the best is shown.

LightGBM has two lines: by default it is so much faster that the best setting would hide it.
"""
DONE = "ok", "capped"
"""Values of the column ``status`` of runs that may have results; some were stopped by a cap."""
CORES = {1: "one core", 2: "two cores", 4: "four cores", 8: "eight cores"}


def pages():
    """Pages that have regions."""
    markdown = [
        ROOT / "README.md",
        *sorted(DOCS.glob("*.md")),
        *sorted(DOCS.glob("moving_over/*.md")),
    ]
    return [page for page in markdown if REGION.search(page.read_text(encoding="utf-8"))]


def filled(text, results=None):
    """The text of a page with all its regions as the results have them."""
    results = results or Results()

    def region(match):
        lines = WRITERS[match["name"]](results, *filter(None, [match["argument"]]))
        return "".join([match["head"], *(f"{line}\n" for line in lines), match["tail"]])

    return REGION.sub(region, text)


# Results


@dataclass(frozen=True)
class Run:
    """A model with one setting on the first split of a data set; None is what was not measured.

    The time of a fit that was stopped is the cap, of which it is known that it was not enough.
    """

    dataset: str
    rows: int
    features: int
    model: str
    setting: str
    fit: float
    rmse: float | None
    nlpd: float | None
    coverage: float | None
    stopped: bool
    part: int | None
    """To how many rows it was fitted, if not to all."""

    @property
    def ours(self):
        return self.model in pursuit.__all__ or self.model.startswith("pursuit")

    @property
    def name(self):
        return f"{self.model}, {self.setting}"

    @property
    def seconds(self):
        return f"> {self.fit:g}" if self.stopped else digits(self.fit, 2)

    @property
    def data(self):
        return f"{self.dataset} ({thousands(self.rows)} × {self.features})"


class Results:
    """What is stored in a folder of documentation."""

    def __init__(self, docs=DOCS):
        self.docs = docs

    def figures(self, case):
        """Values of the latest full run of a case by their names; empty if there is none."""
        runs = [json.loads(path.read_text("utf-8")) for path in self.docs.glob("benchmarks/*.json")]
        # frontier.json holds versions alone, and has no cases.
        runs = [run for run in runs if run.get("cases", {}).get(case) and not run["quick"]]
        if not runs:
            return {}
        newest = max(runs, key=lambda run: run["finished"])["cases"][case]["figures"]
        return {figure["name"]: figure["value"] for figure in newest}

    def torture(self):
        path = self.docs / "torture.json"
        return json.loads(path.read_text("utf-8"))["fuzzers"] if path.exists() else {}

    def fits(self):
        """Lines of the stored fits, run or not."""
        path = self.docs / "benchmarks" / "frontier.csv"
        return stored_fits(path, self.about()) if path.exists() else []

    def about(self):
        """The cap, settings and machines of the stored fits."""
        return about(self.docs / "benchmarks" / "frontier.json")

    def cores(self):
        """On how many cores they were done, in words; empty if that is not stored."""
        numbers = dict.fromkeys(run["machine"]["cores"] for run in self.about()["machines"])
        told = [CORES.get(number, f"{number} cores") for number in numbers]
        return f" on {' or '.join(told)}" if told else ""

    def frontier(self):
        """Every setting of every model on every data set, in the order of the page.

        Slow models have one split, so that means over all splits would compare different rows.
        """
        return [run for run in self.first_split() if run.rmse is not None]

    def killed(self):
        """Fits that the cap on time has ended without a result."""
        return [run for run in self.first_split() if run.rmse is None]

    def first_split(self):
        cap = self.about()["cap_seconds"]
        return [
            Run(
                row["dataset"],
                int(row["rows"]),
                int(row["features"]),
                row["model"],
                setting(row),
                cap if stopped(row) else number(row["fit_seconds"]),
                *(number(row[name]) for name in ("rmse", "nlpd", "coverage95")),
                stopped(row),
                part(row),
            )
            for row in self.fits()
            if row["seed"] == "0" and row["status"] in DONE
        ]

    def best(self):
        """The setting of least test error, for every model on every data set."""
        found = {}
        for run in self.frontier():
            key = run.dataset, run.model
            if key not in found or run.rmse < found[key].rmse:
                found[key] = run
        return list(found.values())


def setting(row):
    """Its name, and what a reader has to know to compare it."""
    name, rows = row["setting"], part(row)
    if rows is not None and str(rows) not in name:
        name += f" on {thousands(rows)} rows"
    return name + (", stopped" if row["status"] == "capped" else "")


def part(row):
    """To how many rows a model was fitted; None for all of them."""
    told = re.search(r"fitted to (\d+) rows", row["note"])
    return int(told[1]) if told else None


def number(text):
    return float(text) if text else None


# Numbers in words


def thousands(number):
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def digits(value, n=3):
    """A number with n digits, without an exponent; a dash for none."""
    if value is None:
        return "–"
    text = f"{value:#.{n}g}"
    if "e" in text:
        text = f"{float(text):.0f}" if abs(value) >= 1 else f"{float(text):.6f}".rstrip("0")
    return text.rstrip(".").replace("-", "−")


def per_cent(share):
    return "–" if share is None else f"{100 * share:.1f} %"


def table(head, rows):
    """Lines of a Markdown table; all columns but the first are numbers."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


# Regions: one function each


def reasons(results):
    """Why to use it: a number for each reason that has one."""
    found = [speed(results), bars(results), proof(results), size(results)]
    return [line for line in found if line]


def speed(results):
    on_first = [run for run in results.best() if run.dataset == "kin40k"]
    ours = [run for run in results.frontier() if run.dataset == "kin40k" and run.ours]
    beside = sorted((run for run in on_first if not run.ours), key=error)[:2]
    if not ours:
        return None
    # The fastest that no other library's model surpasses, or else the most accurate.
    enough = [run for run in ours if not beside or run.rmse <= beside[0].rmse]
    best = min(enough, key=lambda run: run.fit) if enough else min(ours, key=error)
    told = "".join(
        f"; {run.model} ({run.setting}) {digits(run.rmse)} after {run.seconds} s" for run in beside
    )
    same = "".join(
        f" On {thousands(rows)} rows alone `{run.model}` has {digits(run.rmse)} after "
        f"{run.seconds} s."
        for rows in dict.fromkeys(run.part for run in beside if run.part is not None)
        for run in sorted((run for run in ours if run.part == rows), key=error)[:1]
    )
    return (
        f"- **Accurate for its seconds.** {best.data}: `{best.model}` with {best.setting} has "
        f"a test RMSE of {digits(best.rmse)} standard deviations after {best.seconds} s"
        f"{told}.{same}"
    )


def bars(results):
    share = results.figures("moving-over").get("SparseGPRegressor, 20000 rows: coverage of 95 %")
    return share and (
        f"- **Error bars that hold.** {per_cent(share)} of 5 000 new rows of a robot arm are in "
        'their 95 % intervals. With `calibration="conformal"` coverage is guaranteed.'
    )


def proof(results):
    counts = results.torture().get("certificates", {}).get("counts", {})
    if not counts:
        return None
    kinds = "easy", "hard", "hopeless"
    checked = sum(counts[f"certificates, {kind}"] for kind in kinds)
    false = sum(counts[f"violations, {kind}"] for kind in kinds)
    told = "none was" if not false else "1 was" if false == 1 else f"{false} were"
    return (
        f"- **Certificates that hold.** Of {thousands(checked)} certificates of random problems, "
        f"compared with arithmetic of 50 digits, {told} false."
    )


def size(results):
    told = [part for part in (million(results), file(results)) if part]
    end = "The size of its models does not depend on the number of rows."
    return told and f"- **Size.** {' '.join([*told, end])}"


def million(results):
    fits = results.figures("million")
    if not fits:
        return None

    def told(model):
        error, spent = fits[f"{model}: RMSE"], fits[f"{model}: fit"]
        memory = fits[f"{model}: memory beyond the data"]
        return f"{digits(error)} after {digits(spent, 2)} s with {digits(memory, 2)} GB"

    trees = [name.split(": ")[0] for name in fits if re.match("LightGBM, .*: RMSE", name)]
    best = min(trees, key=lambda name: fits[f"{name}: RMSE"])
    setting = label(best.removeprefix("LightGBM, ")) + ("" if "leaves" in best else " of 31 leaves")
    larger = "SparseGPRegressor, 1024 functions"
    or_larger = (
        f", or with {thousands(1024)} functions {told(larger)}" if f"{larger}: fit" in fits else ""
    )
    return (
        "`SparseGPRegressor` on a million rows of the robot arm, kernel learned: a test RMSE (in "
        "standard deviations) of "
        f"{told('SparseGPRegressor')} of memory beside the data"
        f"{or_larger}; LightGBM with {setting}, the best of "
        f"{len(trees)} settings, {told(best)}."
    )


def file(results):
    read = results.figures("parquet")
    name = "10000000 rows, kernel learned"
    return read and (
        'On ten million rows of a Parquet file, with `dtype="float32"` and no certificate: '
        f"{digits(read[f'{name}: fit'], 2)} s and {digits(read[f'{name}: peak memory'], 2)} GB "
        "in all."
    )


def frontier(results):
    """A line per model and a column per data set: error and seconds."""
    runs = results.frontier()
    names = [name for name in LINES if any(run.name.startswith(name) for run in runs)]
    cells, limits, parts, lost = {}, set(), {}, []
    for data in dict.fromkeys(run.data for run in runs):
        shown = [[run for run in runs if run.data == data and run.name.startswith(name)]
                 for name in names]  # fmt: skip
        chosen = [min(some, key=error, default=None) for some in shown]
        winner = min(filter(None, chosen), key=error)
        # Models without a line of their own may have won, too.
        all_here = [run for run in runs if run.data == data]
        first = min(all_here, key=error)
        if not first.ours and any(run.ours for run in all_here):
            lost.append(f"{first.dataset} ({first.model})")
        cells[data] = ["–" if run is None else brief(run, winner.rmse) for run in chosen]
        for run in filter(None, chosen):
            if run.stopped:
                limits.add(f"A fit that took {run.seconds} s was stopped by the time limit.")
            if run.part is not None:
                parts.setdefault((run.model, run.part), []).append(run.dataset)
    if not cells:
        return []
    fits = results.fits()
    left = sum(row["status"] == "not run" for row in fits)
    return [
        "Each cell has the test RMSE, in standard deviations of the target, and the seconds to",
        f"fit{results.cores()}, on the first split. The least error of a data set is bold.",
        "Of several settings of a model, the one of least test RMSE is shown, which flatters those",
        "that have several.",
        "Densities, coverage, other settings, other splits and more models are in the",
        "[stored results](docs/benchmarks/frontier.csv).",
        *sorted(limits),
        *(
            f"{model} is fitted to {thousands(rows)} rows of {listed(sets)}."
            for (model, rows), sets in parts.items()
        ),
        *([f"Another library has the least error on {listed(lost)}."] if lost else []),
        *([f"{left} of {len(fits)} fits were not run yet."] if left else []),
        "",
        *table(
            ["rows × features", *(re.sub(r" \((.*)\)$", r"<br>\1", data) for data in cells)],
            [[name, *line] for name, *line in zip(names, *cells.values(), strict=True)],
        ),
    ]


def listed(words):
    """Words as a sentence lists them."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def brief(run, least):
    """Error and seconds; the error is bold if it is the least as it is written."""
    written = digits(run.rmse)
    shown = f"**{written}**" if written == digits(least) else written
    return f"{shown} in {run.seconds} s"


def short(run):
    """Error, density and seconds."""
    return f"{digits(run.rmse)} / {digits(run.nlpd)} / {run.seconds}"


def against(results, peer):
    """All our settings and those of one peer, on the data sets that it was run on."""
    runs = results.frontier()
    tables, summary = [], []
    for data in dict.fromkeys(run.data for run in runs if run.model.startswith(peer)):
        here = [run for run in [*runs, *results.killed()] if run.data == data]
        ours = [run for run in here if run.ours and run.rmse]
        theirs = [run for run in here if run.model.startswith(peer) and run.rmse]
        killed = [run for run in here if run.model.startswith(peer) and not run.rmse]
        tables += ["", f"**{data}**", "", *runs_table([*ours, *theirs, *killed])]
        if ours:
            summary.append(compared(data, *(min(some, key=error) for some in (ours, theirs)), peer))
    if not tables:
        return []
    return [
        "Of each side the setting of least test RMSE: test RMSE, in standard deviations of the",
        f"target / negative log density / seconds to fit{results.cores()}. Errors within 1 % of",
        "each other are about equal.",
        *few_error_bars(results),
        "",
        *table(["data (rows × features)", "here", peer, "lower error"], summary),
        "",
        "All settings:",
        *tables,
    ]


def exact(results):
    """Exact processes of both packages on data of a few thousand rows at most."""
    ours, theirs = (
        {run.dataset: run for run in results.frontier() if (run.model, run.setting) == wanted}
        for wanted in (("ExactGPRegressor", "all rows"), ("GaussianProcessRegressor", "2000 rows"))
    )
    lines = []
    for run in ours.values():
        other = theirs.get(run.dataset)
        if other and run.rows <= 5_000:
            some = " on 2 000 of the rows" if run.rows > 2_000 else ""
            lines.append(
                f"- {run.data}: `ExactGPRegressor` has a test RMSE of {digits(run.rmse)} standard "
                f"deviations after {digits(run.fit, 2)} s, `GaussianProcessRegressor`{some} "
                f"{digits(other.rmse)} after {digits(other.fit, 2)} s."
            )
    return lines


def few_error_bars(results):
    """Which models have densities and intervals of some test rows alone."""
    found = (
        (row["model"], match[1])
        for row in results.fits()
        if (match := re.search(r"error bars of (\d+) test rows", row["note"]))
    )
    return [
        f"Densities and intervals of {model} are those of {number} test rows."
        for model, number in dict.fromkeys(found)
    ]


def error(run):
    return run.rmse


def compared(data, ours, theirs, peer):
    """A row: the best of both sides, and whose error is lower by more than a hundredth."""
    ratio = theirs.rmse / ours.rmse
    winner = "here" if ratio > 1.01 else peer if ratio < 1 / 1.01 else "about equal"
    cells = (f"{run.model}, {run.setting}: {short(run)}" for run in (ours, theirs))
    return [data, *cells, winner]


def runs_table(runs):
    head = ["model", "fit, s", "RMSE", "negative log density", "within 95 % intervals"]
    return table(
        head,
        [
            [
                f"{run.model}, {run.setting}" if run.setting else run.model,
                run.seconds,
                digits(run.rmse),
                digits(run.nlpd),
                per_cent(run.coverage),
            ]
            for run in runs
        ],
    )


@dataclass(frozen=True)
class Measures:
    """A table of a stored case: models whose names match, and what is shown of each."""

    models: str
    columns: dict[str, str]
    case: str = "moving-over"

    def __call__(self, results):
        figures = results.figures(self.case)
        models = dict.fromkeys(
            name.split(": ")[0] for name in figures if re.match(self.models, name)
        )
        rows = [
            [
                label(model),
                *(self.shown(figures.get(f"{model}: {name}"), name) for name in self.columns),
            ]
            for model in models
        ]
        return table(["", *self.columns.values()], rows) if rows else []

    @staticmethod
    def shown(value, name):
        return per_cent(value) if name.startswith("coverage") else digits(value)


def label(model):
    """A name with its number of rows as people write it."""
    return re.sub(r"\d{4,}", lambda match: thousands(int(match[0])), model)


WRITERS = {
    "reasons": reasons,
    "frontier": frontier,
    "against": against,
    "exact": exact,
    "gaussian-processes": Measures(
        r"(GaussianProcess|ExactGP|SparseGP|FullScaleGP)Regressor, \d+ rows",
        {
            "fit": "fit, s of CPU",
            "predict with error bars": "predict, ms per row",
            "RMSE": "RMSE",
            "NLPD": "negative log density",
            "coverage of 95 %": "within 95 % intervals",
        },
    ),
    "features": Measures(
        r"(Nystroem|GreedyFeatureMap|SparseGPRegressor)\(", {"fit": "fit, s of CPU", "RMSE": "RMSE"}
    ),
    "machines": Measures(
        r"SVC|LowRankSVC",
        {"fit": "fit, s of CPU", "predict": "predict, ms per row", "accuracy": "accuracy, %"},
    ),
    "components": Measures(
        r"(Sparse)?KernelPCA, ", {"fit": "fit, s of CPU", "transform": "transform, ms per row"}
    ),
}


if __name__ == "__main__":
    for page in pages():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
