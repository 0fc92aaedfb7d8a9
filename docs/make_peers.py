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


def counted(run, names):
    """A row of the table: tests that passed, failed and were left out of some of the files."""
    found = [run["files"][name] for name in names]
    passed, failed = sum(one["passed"] for one in found), sum(len(one["failed"]) for one in found)
    left_out = sum(sum(one["left out"].values()) for one in found)
    return f"``{names[0]}``", passed, failed, left_out


def tables(run):
    """One table of all files, the tests that failed, and why tests were left out."""
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    lines = [
        ".. Written by make_peers.py.",
        "",
        f"*{run['finished']}, Python {run['python']}, {versions}.*",
        "",
    ]
    # A file that is run again has the class in its name.
    once = [name for name in run["files"] if "-" not in name]
    again = [name for name in run["files"] if "-" in name]
    rows = [("file", "passed", "failed", "left out"), *(counted(run, [name]) for name in once)]
    rows.append(("all files", *counted(run, once)[1:]))
    rows += [counted(run, [name]) for name in again]
    rows.append(("all, with those run again", *counted(run, [*once, *again])[1:]))
    lines += table(rows, "40 20 20 20")
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
