"""Turn the counts of the last long run of the fuzzers into the tables of the page on torture.

Run from the root of the repository, after a run that wrote its counts:

    python -m torture --write-docs
    python docs/make_torture.py
"""

import json
import re
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS / "torture.json"
TABLES = DOCS / "torture.inc"


def escaped(text):
    """What reStructuredText takes for markup, escaped."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def grouped(number):
    """With a thin space between thousands."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def table(rows, widths):
    lines = [
        ".. list-table::",
        "   :header-rows: 1",
        "   :class: figures",
        f"   :widths: {widths}",
        "",
    ]
    for row in rows:
        lines += [f"   {'*' if not i else ' '} - {cell}".rstrip() for i, cell in enumerate(row)]
    return [*lines, ""]


def tables(run):
    """One table of all fuzzers, and one of the counts of each."""
    machine = run["machine"]
    lines = [
        ".. Written by make_torture.py.",
        "",
        f"*{run['finished'][:10]}, {machine['cores']} cores, Python {machine['python']}, "
        f"NumPy {machine['numpy']}, scikit-learn {machine['scikit-learn']}.*",
        "",
    ]
    if not run["fuzzers"]:
        return "\n".join([*lines, "None yet.", ""])
    rows = [("fuzzer", "seeds", "failed", "minutes of one core")]
    for name, found in run["fuzzers"].items():
        minutes = f"{found['seconds'] / 60:.0f}"
        rows.append((name, grouped(found["seeds"]), grouped(found["failed"]), minutes))
    lines += table(rows, "40 20 20 20")
    for name, found in run["fuzzers"].items():
        lines += [name, "-" * len(name), "", escaped(found["about"]), ""]
        counts = [(escaped(what), grouped(count)) for what, count in found["counts"].items()]
        lines += table([("what", "how many"), *counts], "70 30")
    return "\n".join(lines)


def current():
    """The tables of the results that are stored."""
    return tables(json.loads(RESULTS.read_text(encoding="utf-8")))


if __name__ == "__main__":
    TABLES.write_text(current(), encoding="utf-8")
