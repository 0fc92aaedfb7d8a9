"""The command: ``python -m benchmarks NAMES... [--quick] [--repeat 3] [--json FILE]``.

``python -m benchmarks --all --quiet`` runs every case unattended, stores the results for the page
on benchmarks and draws it; named cases only, if there are names. Quick results are stored apart:
they never stand on the page.

``python -m benchmarks frontier`` compares errors and times of models on six real data sets; its
options are its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.cases import CASES
from benchmarks.data import NotAvailableError
from benchmarks.frontier.command import main as frontier
from benchmarks.report import CaseResult, table, write_json
from benchmarks.unattended import case_command, end_cases_when_ended, moment, run_cases

HERE = Path(__file__).parent
DEFAULT_JSON = HERE / "results" / "latest.json"
QUICK = HERE / "results" / "quick"
DOCS = HERE.parent / "docs"


def main() -> int:
    if sys.argv[1:2] == ["frontier"]:
        try:
            return frontier(sys.argv[2:])
        except KeyboardInterrupt:
            anew = {"all", "--again=all"} & set(sys.argv)
            goes_on = "begins anew" if anew else "goes on from here"
            print(f"stopped: the same command {goes_on}", file=sys.stderr)
            return 130
    options = _options()
    if options.list:
        width = max(map(len, CASES)) + 2
        for name, case in CASES.items():
            print(f"{name:<{width}}{(case.__doc__ or '').splitlines()[0]}")
        return 0
    if options.quick:
        print(
            "small sizes: the targets are those of the full ones and mean nothing here", flush=True
        )
    if options.all:
        return _run_unattended(options)
    results = []
    for name in options.names:
        print(f"{name}: {(CASES[name].__doc__ or '').splitlines()[0]}", flush=True)
        result = CaseResult(name)
        try:
            result.figures = CASES[name](options.quick, options.repeat)
            print(table(result.figures), flush=True)
        except NotAvailableError as missing:
            result.skipped = str(missing)
            print(f"  skipped: {missing}", flush=True)
        results.append(result)
    write_json(options.json, results, quick=options.quick, repeat=options.repeat)
    print(f"written to {options.json}")
    return int(options.strict and any(result.missed for result in results))


def _run_unattended(options: argparse.Namespace) -> int:
    """Run cases in processes of their own and draw the page; 1 if a case failed, else 0.

    With ``--strict`` also 1 if a target was missed.
    """
    end_cases_when_ended()
    outcomes = run_cases(
        options.names or list(CASES),
        QUICK if options.quick else DOCS / "benchmarks",
        case_command(quick=options.quick, repeat=options.repeat),
        since=options.since,
        quiet=options.quiet,
    )
    if not options.quick:
        subprocess.run([sys.executable, str(DOCS / "make_benchmarks.py")], check=True)
    bad = {"failed", "missed"} if options.strict else {"failed"}
    return int(any(outcome.verdict in bad for outcome in outcomes))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="cases to run, or the first words of several, like svm",
    )
    parser.add_argument(
        "--all", action="store_true", help="run every case unattended, store results, draw the page"
    )
    parser.add_argument("--quiet", action="store_true", help="with --all: one line per case")
    parser.add_argument(
        "--since",
        type=moment,
        metavar="TIME",
        help="with --all: keep results stored at this date or time (ISO, UTC) or later",
    )
    parser.add_argument("--repeat", type=int, default=3, help="timed rounds, the best is kept")
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, help="where to write results")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--quick", action="store_true", help="small sizes, for development")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    options = parser.parse_args()
    if not (options.names or options.all or options.list):
        parser.error("name some cases, or use --all; --list shows them")
    unknown = [name for name in options.names if not _named(name)]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; --list shows them")
    options.names = [case for name in options.names for case in _named(name)]
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    return options


def _named(name: str) -> list[str]:
    """The case of this name, or else all cases whose names begin with it."""
    return [name] if name in CASES else [case for case in CASES if case.startswith(f"{name}-")]


if __name__ == "__main__":
    sys.exit(main())
