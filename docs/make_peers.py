"""Turn the result of scikit-learn's tests with our classes into the tables of the page on them.

Run from the root of the repository:

    python -m peers --write-docs
    python docs/make_peers.py
"""

import json
import sys
from pathlib import Path

from make_torture import escaped, table

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))
from peers.__main__ import totals  # noqa: E402

RESULTS = DOCS / "peers.json"
TABLES = DOCS / "peers.inc"


def tables(run):
    """One table of all files, the tests that failed, and why tests were left out."""
    everything = totals(list(run["files"].values()))
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    lines = [
        ".. Written by make_peers.py.",
        "",
        f"*{run['finished']}, Python {run['python']}, {versions}.*",
        "",
        f"Counted once, {everything[1]} tests pass, and {everything[2] or 'none'} fail. With those "
        f"that pass again with another class, {everything[0]} pass.",
        "",
    ]
    rows = [("file", "passed", "of them new", "failed", "left out")]
    rows += [(f"``{name}``", *totals([found])) for name, found in run["files"].items()]
    rows.append(("all", *everything))
    lines += table(rows, "32 17 17 17 17")
    for name, found in run["files"].items():
        if found["failed"] or found["left out"]:
            lines += [name, "-" * len(name), ""]
        if found["failed"]:
            failed = [(f"``{test}``", escaped(why)) for test, why in found["failed"].items()]
            lines += table([("failed", "how"), *failed], "40 60")
        if found["left out"]:
            reasons = [(escaped(why), count) for why, count in found["left out"].items()]
            lines += table([("left out because", "tests"), *reasons], "80 20")
    return "\n".join(lines)


def current():
    """The tables of the result that is stored."""
    return tables(json.loads(RESULTS.read_text(encoding="utf-8")))


if __name__ == "__main__":
    TABLES.write_text(current(), encoding="utf-8")
