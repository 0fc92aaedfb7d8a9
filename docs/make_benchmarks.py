"""Turn results of the benchmarks into the tables of the page on benchmarks.

Run from the root of the repository, after ``make bench``, or after some of its cases:

    python -m benchmarks NAME ... --json docs/benchmarks/NAME.json
    python docs/make_benchmarks.py

Every JSON file in docs/benchmarks is read. Of a case that is in several, the latest is shown.
"""

import json
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS / "benchmarks"
TABLES = RESULTS / "tables.inc"


def about():
    """What each case measures, in the order of the benchmarks."""
    sys.path.insert(0, str(DOCS.parent))
    from benchmarks.cases import CASES

    return {name: (case.__doc__ or "").splitlines()[0] for name, case in CASES.items()}


def newest():
    """The latest full run of each case: figures, and the run it is from."""
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in RESULTS.glob("*.json")]
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


def section(name, sentence, figures, run):
    machine = run["machine"]
    rounds = "one round" if run["repeat"] == 1 else f"best of {run['repeat']} rounds"
    lines = [
        name,
        "-" * len(name),
        "",
        escaped(sentence),
        "",
        f"*{run['finished'][:10]}, {rounds}, {machine['cores']} cores, Python {machine['python']}, "
        f"NumPy {machine['numpy']}, scikit-learn {machine['scikit-learn']}.*",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "   :class: figures",
        "   :widths: 58 18 16 8",
        "",
    ]
    rows = [("figure", "value", "target", "")]
    for figure in figures:
        value = f"{figure['value']:.4g} {figure['unit']}".rstrip()
        rows.append((escaped(figure["name"]), value, target(figure), figure["verdict"]))
    for row in rows:
        lines += [f"   {'*' if not i else ' '} - {cell}".rstrip() for i, cell in enumerate(row)]
    return "\n".join([*lines, ""])


def tables():
    """All sections, one a case."""
    sentences, found = about(), newest()
    parts = [
        section(name, sentence, *found[name])
        for name, sentence in sentences.items()
        if name in found
    ]
    head = ".. Written by make_benchmarks.py.\n"
    return "\n".join([head, *parts])


if __name__ == "__main__":
    TABLES.write_text(tables(), encoding="utf-8")
