"""Many cases without anybody watching: each in a process of its own, results in a folder.

A case that fails, is killed or takes too long does not stop the others. What has been stored of it
before stays: only new figures replace old ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

LONGEST_CASE = 3 * 3600.0
"""Seconds after which a case counts as failed. Fewer: a slow machine loses its longest cases."""

Command = Callable[[str, Path], Sequence[str]]
"""The command that runs a case and writes its result to a file."""


@dataclass(frozen=True)
class Outcome:
    """How a case ended.

    Attributes
    ----------
    name : str
        The case.
    seconds : float
        How long it took.
    verdict : str
        "ok", "missed" (a target), "skipped" (something it needs is missing), "failed", or "kept"
        (what is stored is new enough).
    reason : str
        Why, unless it is ok.
    """

    name: str
    seconds: float
    verdict: str
    reason: str = ""

    def line(self, width: int) -> str:
        """One line of the report."""
        text = f"{self.name:<{width}}  {self.seconds:8.1f} s  {self.verdict}"
        return f"{text}: {self.reason}" if self.reason else text


def run_cases(
    names: Sequence[str],
    folder: Path,
    command: Command,
    *,
    since: datetime | None = None,
    quiet: bool = False,
    longest: float = LONGEST_CASE,
) -> list[Outcome]:
    """Run the cases one after the other, store ``NAME.json`` of each, and print a line for each.

    Cases whose stored result was finished at ``since`` or later are not run again. Unless
    ``quiet``, what a case prints is shown, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    width = max(map(len, names), default=0)
    outcomes = []
    for name in names:
        outcome = _kept(name, folder, since) or _run(name, folder, command, quiet, longest)
        print(outcome.line(width), flush=True)
        outcomes.append(outcome)
    print(summary(outcomes), flush=True)
    return outcomes


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many cases ended in which way, and how long all of them took."""
    verdicts = [outcome.verdict for outcome in outcomes]
    counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts)]
    minutes = sum(outcome.seconds for outcome in outcomes) / 60.0
    return f"{len(outcomes)} cases in {minutes:.1f} min: {', '.join(counts) or 'none'}"


def _kept(name: str, folder: Path, since: datetime | None) -> Outcome | None:
    path = folder / f"{name}.json"
    if since is None or not path.exists():
        return None
    finished = str(json.loads(path.read_text(encoding="utf-8"))["finished"])
    if moment(finished) < since:
        return None
    return Outcome(name, 0.0, "kept", f"measured {finished}")


def moment(text: str) -> datetime:
    """A date, or a date with a time, as ISO 8601 writes them; UTC unless it says otherwise."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _run(name: str, folder: Path, command: Command, quiet: bool, longest: float) -> Outcome:
    start = perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "result.json"
        failure = _failure(command(name, path), quiet, longest)
        seconds = perf_counter() - start
        if failure:
            return Outcome(name, seconds, "failed", failure)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            case = content["cases"][name]
        except (OSError, ValueError, KeyError) as error:
            return Outcome(name, seconds, "failed", f"no result: {error!r}")
    if case["skipped"]:
        return Outcome(name, seconds, "skipped", case["skipped"])
    _replace(folder / f"{name}.json", content)
    missed = [figure["name"] for figure in case["figures"] if figure["verdict"] == "MISSED"]
    if missed:
        return Outcome(name, seconds, "missed", "; ".join(missed))
    return Outcome(name, seconds, "ok")


def end_cases_when_ended() -> None:
    """Let SIGTERM end this process by an exception, so that a running case is ended, too."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def _failure(command: Sequence[str], quiet: bool, longest: float) -> str:
    """Run a command; returns why it failed, empty if it did not."""
    shown = subprocess.DEVNULL if quiet else None
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=shown,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        errors = process.communicate(timeout=longest)[1]
    except subprocess.TimeoutExpired:
        end_session(process)
        return f"took longer than {longest:.0f} s"
    except BaseException:
        end_session(process)
        raise
    return failure(process.returncode, errors)


def failure(code: int, errors: str) -> str:
    """Why a process failed that ended with this code and these errors; empty if it did not."""
    if code < 0:
        return f"ended by signal {signal.Signals(-code).name}"
    if code:
        lines = [line.strip() for line in errors.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {code}"
    return ""


def end_session(process: subprocess.Popen[str]) -> None:
    """End a process with those that it has started: it leads a session of its own."""
    if hasattr(os, "killpg"):
        # It may just have ended; macOS then refuses the permission.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:  # Windows has no sessions, but knows who has started whom
        words = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process.kill()
    process.communicate()


def _replace(path: Path, content: Any) -> None:
    """Write a file whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    part.replace(path)


def case_command(*, quick: bool, repeat: int) -> Command:
    """Run a case by ``python -m benchmarks NAME``."""
    options = ["--repeat", str(repeat), *(["--quick"] if quick else [])]

    def command(name: str, path: Path) -> list[str]:
        return [sys.executable, "-m", "benchmarks", name, "--json", str(path), *options]

    return command
