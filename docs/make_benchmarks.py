"""Turn results of the benchmarks into the tables of the page on benchmarks.

Run from the root of the repository; ``python -m benchmarks --all`` does it at its end:

    python docs/make_benchmarks.py

Every JSON file in docs/benchmarks is read. Of a case that is in several, the latest is shown.
Results of quick runs are not shown.
"""

import json
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS / "benchmarks"
TABLES = RESULTS / "tables.inc"
PACKAGES = {
    "numpy": "NumPy",
    "scipy": "SciPy",
    "scikit-learn": "scikit-learn",
    "pursuit": "pursuit",
    "torch": "PyTorch",
    "gpytorch": "GPyTorch",
    "gpboost": "GPBoost",
    "lightgbm": "LightGBM",
    "pyarrow": "pyarrow",
    "dask": "dask",
}
"""Whose versions are shown, and what they are called."""


def about():
    """What each case measures, in the order of the benchmarks."""
    sys.path.insert(0, str(DOCS.parent))
    from benchmarks.cases import CASES

    return {name: (case.__doc__ or "").splitlines()[0] for name, case in CASES.items()}


def newest():
    """The latest full run of each case: figures, and the run it is from."""
    files = [json.loads(file.read_text(encoding="utf-8")) for file in RESULTS.glob("*.json")]
    # frontier.json is for another page.
    runs = [run for run in files if "cases" in run]
    found = {}
    for run in sorted(runs, key=lambda run: run["finished"]):
        if run["quick"]:
            continue
        for name, case in run["cases"].items():
            if case["figures"]:
                found[name] = (case["figures"], run)
    return found


def escaped(text):
    """What reStructuredText takes for markup, escaped."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def target(figure):
    limits = [(figure["at_least"], "at least"), (figure["at_most"], "at most")]
    return ", ".join(f"{words} {limit:.4g}" for limit, words in limits if limit is not None)


def circumstances(run):
    """When, where and with what a case was measured, in a sentence."""
    rounds = "one round" if run["repeat"] == 1 else f"best of {run['repeat']} rounds"
    return f"{run['finished'][:10]}, {rounds}, {place(run['machine'])}."


def place(machine):
    """Cores, memory and versions, in words."""
    cores = f"{machine['cores']} cores"
    if machine.get("processor"):
        cores += f" ({machine['processor']})"
    if machine.get("memory"):
        cores += f", {machine['memory'] / 1e9:.0f} GB"
    versions = [f"Python {machine['python']}"]
    versions += [f"{title} {machine[name]}" for name, title in PACKAGES.items() if name in machine]
    return f"{cores}, {', '.join(versions)}"


def verdicts(figures):
    """How many targets were met, in words."""
    found = [figure["verdict"] for figure in figures if figure["verdict"]]
    return f"{found.count('ok')} of {len(found)}" if found else "none set"


def overview(sentences, found):
    """Every case in a line: what it measures, when it was measured, how many targets were met."""
    rows = [("case", "what it measures", "measured", "targets met")]
    for name, sentence in sentences.items():
        if name in found:
            figures, run = found[name]
            rows.append((f"`{name}`_", escaped(sentence), run["finished"][:10], verdicts(figures)))
        else:
            rows.append((name, escaped(sentence), "not measured yet", ""))
    return "\n".join([*list_table(rows, "22 48 16 14", "overview"), ""])


def list_table(rows, widths, kind):
    """Lines of a table whose first row is its head."""
    lines = [
        ".. list-table::",
        "   :header-rows: 1",
        f"   :class: {kind}",
        f"   :widths: {widths}",
        "",
    ]
    for row in rows:
        lines += [f"   {'*' if not i else ' '} - {cell}".rstrip() for i, cell in enumerate(row)]
    return lines


def section(name, sentence, figures, run):
    lines = [
        name,
        "-" * len(name),
        "",
        escaped(sentence),
        "",
        f"*{escaped(circumstances(run))}*",
        "",
    ]
    rows = [("figure", "value", "target", "")]
    for figure in figures:
        value = f"{figure['value']:.4g} {figure['unit']}".rstrip()
        rows.append((escaped(figure["name"]), value, target(figure), figure["verdict"]))
    return "\n".join([*lines, *list_table(rows, "58 18 16 8", "figures"), ""])


def tables():
    """An overview of all cases, then a section for each that was measured."""
    sentences, found = about(), newest()
    parts = [
        section(name, sentence, *found[name])
        for name, sentence in sentences.items()
        if name in found
    ]
    head = ".. Written by make_benchmarks.py.\n"
    return "\n".join([head, overview(sentences, found), *parts])


if __name__ == "__main__":
    TABLES.write_text(tables(), encoding="utf-8")
