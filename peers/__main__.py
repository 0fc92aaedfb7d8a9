"""Run scikit-learn's test files with our classes: ``python -m peers --help``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from importlib import util
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peers.files import AGAIN, FILES

DOCS = Path("docs/peers.json")
FOLDER = Path(__file__).parent


def main(argv: list[str] | None = None) -> int:
    """Run the command; the exit code is 1 if a test has failed."""
    parser = argparse.ArgumentParser(prog="python -m peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="files to run; all if none")
    parser.add_argument("--list", action="store_true", help="name the files")
    parser.add_argument("--write-docs", action="store_true", help=f"write the result to {DOCS}")
    given = parser.parse_args(argv)
    known = [*FILES, *AGAIN]
    unknown = [name for name in given.names if name not in known]
    if unknown:
        print(f"No file is called {', '.join(unknown)}; there are {', '.join(known)}.")
        return 2
    if given.list:
        print("\n".join(known))
        return 0
    names = given.names or known
    alone = [name for name in names if name in AGAIN and AGAIN[name][0] not in names]
    if given.write_docs and alone:
        print(f"{alone[0]} is counted beside {AGAIN[alone[0]][0]}: name that, too.")
        return 2
    found: dict[str, Any] = {}
    counted: dict[str, set[str]] = {}
    print(f"{'file':28}{'passed':>8}{'of them new':>13}{'failed':>8}{'left out':>10}")
    for name in sorted(names, key=known.index):
        before = counted.setdefault(AGAIN.get(name, (name, ""))[0], set())
        found[name] = summary(outcomes(name), before)
        print(_row(name, [found[name]]), flush=True)
        for test, why in found[name]["failed"].items():
            print(f"    {test}: {why}")
    print(_row("all", list(found.values())))
    failed = any(one["failed"] for one in found.values())
    if given.write_docs:
        stored = json.loads(DOCS.read_text(encoding="utf-8")) if DOCS.exists() else None
        DOCS.write_text(json.dumps(record(found, stored), indent=1) + "\n", encoding="utf-8")
    return int(failed)


def _row(name: str, counts: list[dict[str, Any]]) -> str:
    passed, new, failed, left_out = totals(counts)
    return f"{name:28}{passed:8}{new:13}{failed:8}{left_out:10}"


def totals(counts: list[dict[str, Any]]) -> tuple[int, int, int, int]:
    """How many tests of some files passed, how many of these are new, failed and were left out."""
    return (
        sum(one["passed"] for one in counts),
        sum(one["new"] for one in counts),
        sum(len(one["failed"]) for one in counts),
        sum(sum(one["left out"].values()) for one in counts),
    )


def outcomes(name: str) -> list[dict[str, str]]:
    """What became of every test of a file that names one of the classes that are replaced."""
    base, _ = AGAIN.get(name, (name, ""))
    spec = util.find_spec(FILES[base])
    package = util.find_spec("sklearn")
    if spec is None or spec.origin is None or package is None or package.origin is None:
        raise SystemExit(f"{FILES[base]} is not there: install scikit-learn with its tests.")
    root = str(Path(package.origin).parent)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "outcomes.jsonl")
        file.touch()
        # Rows in float32, too, and one thread for each of many small products.
        own = {"PEERS_OUTCOMES": str(file), "PEERS_RUN": name}
        own |= {"SKLEARN_RUN_FLOAT32_TESTS": "1"}
        own |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        path = os.pathsep.join(filter(None, [str(FOLDER.parent), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "peers.plugin"]
        command += ["-c", str(FOLDER / "pytest.ini"), "--rootdir", root, "--confcutdir", root]
        ended = subprocess.run(
            [*command, spec.origin],
            env={**os.environ, **own, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = file.read_text(encoding="utf-8").splitlines()
    # 0: all passed; 1: some failed. Anything else has not run the tests.
    if ended.returncode not in (0, 1) or not lines:
        raise SystemExit(f"{name} could not be run:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return [json.loads(line) for line in lines]


def summary(lines: list[dict[str, str]], before: set[str]) -> dict[str, Any]:
    """Counts of a file: tests passed, those that failed, and those left out by their reason.

    A test is new that is not among the tests passed ``before``, to which it is added.
    """
    passed = {line["test"] for line in lines if line["outcome"] == "passed"}
    new = passed - before
    before |= new
    return {
        "passed": len(passed),
        "new": len(new),
        "failed": {line["test"]: line["why"] for line in lines if line["outcome"] == "failed"},
        "left out": dict(
            sorted(Counter(line["why"] for line in lines if line["outcome"] == "skipped").items())
        ),
    }


def record(found: dict[str, Any], stored: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the documentation keeps; files that were not run keep what is stored of them.

    Results of other versions are not kept beside new ones.
    """
    versions = {name: version(name) for name in ("scikit-learn", "numpy", "scipy")}
    before = stored["files"] if stored is not None and stored["versions"] == versions else {}
    together = before | found
    return {
        "finished": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": versions,
        "files": {name: together[name] for name in [*FILES, *AGAIN] if name in together},
    }


if __name__ == "__main__":
    sys.exit(main())
