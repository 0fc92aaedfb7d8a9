"""Turn the result of scikit-learn's tests with our classes into the tables of the page on them.

Run from the root of the repository:

    python -m peers --write-docs
    python docs/make_peers.py
"""

import json
from pathlib import Path

from make_torture import escaped, table

DOCS = Path(__file__).parent
RESULTS = DOCS / "peers.json"
TABLES = DOCS / "peers.inc"


def tables(run):
    """One table of all files, the tests that failed, and why tests were left out."""
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    lines = [
        ".. Written by make_peers.py.",
        "",
        f"*{run['finished']}, Python {run['python']}, {versions}.*",
        "",
    ]
    rows, totals = [("file", "passed", "failed", "left out")], [0, 0, 0]
    for name, found in run["files"].items():
        counts = found["passed"], len(found["failed"]), sum(found["left out"].values())
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        rows.append((f"``{name}``", *counts))
    lines += table([*rows, ("all", *totals)], "40 20 20 20")
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
