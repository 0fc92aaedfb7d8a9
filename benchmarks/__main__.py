"""The command: ``python -m benchmarks [NAMES...] [--quick] [--repeat 3] [--json FILE]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.cases import CASES
from benchmarks.data import NotAvailableError
from benchmarks.report import CaseResult, table, write_json

DEFAULT_JSON = Path(__file__).parent / "results" / "latest.json"


def main() -> int:
    options = _options()
    if options.list:
        width = max(map(len, CASES)) + 2
        for name, case in CASES.items():
            print(f"{name:<{width}}{(case.__doc__ or '').splitlines()[0]}")
        return 0
    if options.quick:
        print("small sizes: the targets are those of the full ones and mean nothing here")
    results = []
    for name in options.names or CASES:
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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="cases to run, or the first words of several, like svm; all by default",
    )
    parser.add_argument("--repeat", type=int, default=3, help="timed rounds, the best is kept")
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, help="where to write results")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--quick", action="store_true", help="small sizes, for development")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    options = parser.parse_args()
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
