"""Run the fuzzers in turn until the time is over: ``python -m torture --help``.

Each fuzzer gets its share of the time. Seeds go up from 0; a file keeps the next one and the
counts, so that the next call goes on where this one stops.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from torture import Fuzzer, Report
from torture.registry import fuzzers
from torture.state import State
from torture.workers import ONE_THREAD, Outcome, Worker, run_seed

STATE = Path(".torture/state.json")
DOCS = Path("docs/torture.json")
SHOWN = 5
"""Failures of one seed that are printed."""
_PROGRESS_SECONDS = 30.0
_SAVE_SECONDS = 2.0
_WAIT = 0.02


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="fuzzers to run; all if none")
    parser.add_argument(
        "--minutes",
        type=float,
        default=float(os.environ.get("TORTURE_MINUTES", "30")),
        help="how long (30, or the environment variable TORTURE_MINUTES)",
    )
    parser.add_argument("--seeds", type=int, help="end after so many seeds, if that is earlier")
    parser.add_argument("--seed", type=int, help="seed to begin with, or that of --once")
    parser.add_argument("--once", action="store_true", help="run one seed, here, and say all")
    parser.add_argument("--fresh", action="store_true", help="forget earlier runs of these fuzzers")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one seed (300)")
    parser.add_argument("--list", action="store_true", help="name the fuzzers")
    parser.add_argument("--write-docs", action="store_true", help=f"write counts to {DOCS}")
    given = parser.parse_args(argv)
    if given.jobs < 1:
        parser.error("--jobs must be at least 1")
    if given.once and (given.seed is None or len(given.names) != 1):
        parser.error("--once needs one fuzzer and --seed")
    return given


def main(argv: list[str] | None = None, package: str = "torture") -> int:
    """Run the command; the exit code is 1 if something failed."""
    given = arguments(argv)
    for variable in ONE_THREAD:
        os.environ.setdefault(variable, "1")
    known = fuzzers(package)
    unknown = [name for name in given.names if name not in known]
    if unknown:
        print(f"No fuzzer is called {', '.join(unknown)}; there are {', '.join(known)}.")
        return 2
    if given.list:
        for name, fuzzer in known.items():
            print(f"{name:16} share {fuzzer.share:g}: {about(fuzzer)}")
        return 0
    chosen = {name: known[name] for name in given.names or known}
    if given.once:
        return once(chosen[given.names[0]], given.seed)
    state = State(STATE)
    if given.fresh:
        state.forget(chosen)
    if given.seed is not None:
        for name in chosen:
            state[name].next = given.seed
    Run(chosen, state, package, given.jobs, given.limit).until(60.0 * given.minutes, given.seeds)
    if given.write_docs:
        write_docs(known, state)
    return verdict([state[name] for name in chosen])


def about(fuzzer: Fuzzer) -> str:
    """The first line of what its module says."""
    return (sys.modules[fuzzer.run.__module__].__doc__ or "").strip().splitlines()[0]


def once(fuzzer: Fuzzer, seed: int) -> int:
    """Run one seed in this process and print its whole report."""
    report = run_seed(fuzzer.run, seed)
    for name, count in sorted(report.counts.items()):
        print(f"{count:8g} {name}")
    for failure in report.failures:
        print(failure)
    print(f"{int(not report.failures)} passed, {int(bool(report.failures))} failed")
    return int(bool(report.failures))


class Run:
    """Seeds of several fuzzers in turn, on several processes."""

    def __init__(
        self, chosen: dict[str, Fuzzer], state: State, package: str, jobs: int, limit: float
    ) -> None:
        self._chosen, self._state = chosen, state
        self._workers = [Worker(package, limit) for _ in range(jobs)]
        # Seeds that an earlier call has begun and not ended come first.
        self._left_over = [(name, seed) for name in chosen for seed in state[name].running]

    def until(self, seconds: float, most: int | None = None) -> None:
        """Begin seeds for so long, or so many of them, and wait for those begun."""
        for worker in self._workers:
            worker.open()
        began = told = time.monotonic()
        begun = 0
        try:
            while True:
                now = time.monotonic()
                over = now - began >= seconds or begun == most
                for worker in self._workers:
                    if worker.task is None and not over and begun != most:
                        worker.start(*self._next())
                        begun += 1
                    if (outcome := worker.result(_WAIT)) is not None:
                        self._take(outcome)
                if over and all(worker.task is None for worker in self._workers):
                    break
                if now - told >= _PROGRESS_SECONDS:
                    told = now
                    self._progress(now - began)
        except KeyboardInterrupt:
            print("Interrupted; the next call goes on from here.", flush=True)
        finally:
            for worker in self._workers:
                worker.stop()
            self._state.save()
        self._progress(time.monotonic() - began)

    def _next(self) -> tuple[str, int]:
        if self._left_over:
            return self._left_over.pop(0)
        name = min(self._chosen, key=lambda n: self._state[n].due(self._chosen[n].share))
        return name, self._state[name].begin()

    def _take(self, outcome: Outcome) -> None:
        self._state[outcome.fuzzer].record(outcome)
        say(outcome.fuzzer, outcome.seed, outcome.report)
        self._state.save(every=_SAVE_SECONDS)

    def _progress(self, seconds: float) -> None:
        parts = []
        for name in self._chosen:
            tally = self._state[name]
            failed = f" ({tally.failed} failed)" if tally.failed else ""
            parts.append(f"{name} {tally.seeds}{failed}")
        print(f"{seconds / 60:.1f} min, seeds so far: {', '.join(parts)}", flush=True)


def say(fuzzer: str, seed: int, report: Report) -> None:
    """Print what is wrong with a seed, and how to bring it back."""
    if not report.failures:
        return
    print(f"FAILED {fuzzer} seed {seed}: python -m torture {fuzzer} --seed {seed} --once")
    for failure in report.failures[:SHOWN]:
        print(f"    {failure}")
    if len(report.failures) > SHOWN:
        print(f"    and {len(report.failures) - SHOWN} more")
    sys.stdout.flush()


def verdict(tallies) -> int:
    """Print the last line; 1 if a seed failed."""
    failed = sum(tally.failed for tally in tallies)
    print(f"{sum(tally.seeds for tally in tallies) - failed} passed, {failed} failed")
    return int(failed > 0)


def write_docs(known: dict[str, Fuzzer], state: State) -> None:
    """Write the counts so far as JSON, for the page of the documentation."""
    result = {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        },
        "fuzzers": {
            name: {
                "about": about(fuzzer),
                "seeds": state[name].seeds,
                "failed": state[name].failed,
                "seconds": round(state[name].seconds),
                "counts": dict(sorted(state[name].counts.items())),
            }
            for name, fuzzer in known.items()
            if state[name].seeds
        },
    }
    DOCS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
