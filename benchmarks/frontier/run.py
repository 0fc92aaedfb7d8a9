"""Fits one after the other, each in a process of its own that is killed at the cap."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.data import NotAvailableError
from benchmarks.frontier.cells import Cell
from benchmarks.frontier.settings import setting
from benchmarks.frontier.store import Line
from benchmarks.machine import cores
from benchmarks.solvers import require
from benchmarks.unattended import end_session, failure

START_UP = 300.0
"""Seconds that a process may take to import and to load data, beside its cap."""
_POLL = 0.05
_LONGEST_NOTE = 200

Shape = Callable[[str], tuple[int, int]]
"""Training rows and features of a data set; raises NotAvailableError where it is missing."""
Command = Callable[[Cell, Path], Sequence[str]]
"""The command that does a fit and writes its events to a file."""


def fit_command(cap: float, n_rows: int | None) -> Command:
    def command(cell: Cell, events: Path) -> list[str]:
        words = [cell.dataset, cell.model, cell.setting, str(cell.seed), str(events)]
        words += ["--cap", str(cap), "--parent", str(os.getpid())]
        line = [sys.executable, "-m", "benchmarks.frontier.fit", *words]
        return line if n_rows is None else [*line, "--rows", str(n_rows)]

    return command


def run_cell(cell: Cell, shape: Shape, command: Command, cap: float) -> Line:
    """Do a fit, or say why not. What cannot be read does not stop the fits to other data."""
    line = Line(cell.dataset, None, None, cell.model, cell.setting, cell.seed)
    chosen = setting(cell.model, cell.setting)
    try:
        n_rows, n_features = shape(cell.dataset)
        line = replace(line, rows=n_rows, features=n_features)
        require(*chosen.packages)
    except NotAvailableError as missing:
        return replace(line, status="skipped", note=without_paths(str(missing)))
    except Exception as error:
        broken = without_paths(f"{type(error).__name__}: {error}")[:_LONGEST_NOTE]
        return replace(line, status="skipped", note=f"cannot read {cell.dataset}: {broken}")
    if chosen.only_larger and chosen.n_rows is not None and n_rows <= chosen.n_rows:
        return replace(
            line, status="skipped", note=f"only {n_rows} training rows: the same as all rows"
        )
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events"
        events.touch()
        ending = _watch(command(cell, events), events, cap)
        return _line(line, _read(events), ending, cap)


def _watch(command: Sequence[str], events: Path, cap: float) -> str | None:
    """Run the process; why it failed, empty if it did not, None if it was killed.

    The clock of the cap starts anew with every event.
    """
    threads = str(cores())
    names = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
    own = os.environ | dict.fromkeys(names, threads)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            command,
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        seen, since = 0, monotonic()
        try:
            while True:
                try:
                    process.wait(_POLL)
                    break
                except subprocess.TimeoutExpired:
                    n_events = len(_read(events))
                    if n_events > seen:
                        seen, since = n_events, monotonic()
                    if monotonic() - since > cap + (0.0 if seen else START_UP):
                        end_session(process)
                        return None
        except BaseException:
            end_session(process)
            raise
        errors.seek(0)
        return failure(process.returncode, errors.read())


def _read(events: Path) -> list[dict[str, Any]]:
    """Events that were written to their end."""
    whole = events.read_text(encoding="utf-8").rpartition("\n")[0]
    return [json.loads(text) for text in whole.splitlines()]


def _line(line: Line, events: Sequence[dict[str, Any]], ending: str | None, cap: float) -> Line:
    """What the events and the end of the process amount to."""
    reached = events[-1]["event"] if events else ""
    facts: dict[str, Any] = {}
    for event in events:
        facts |= event
    names = "fit_seconds cpu_seconds predict_seconds rmse nlpd coverage95".split()
    line = replace(line, **{name: _number(facts.get(name)) for name in names})
    notes = _notes(facts)
    if ending is None:
        if reached == "fitting":
            line = replace(line, status="capped", fit_seconds=cap)
            notes = ["killed at the cap"]
        elif reached == "fitted":
            line = replace(line, status="capped")
            notes.append("killed: the prediction took longer than the cap")
        elif reached == "predicted":
            line = replace(line, status="ok")
            notes.append("killed: error bars took longer than the cap")
        else:
            line = replace(line, status="failed")
            notes = ["killed: loading the data took too long"]
    elif ending or reached != "error bars":
        line = replace(line, status="failed")
        notes.append(without_paths(ending)[:_LONGEST_NOTE] or "ended without a result")
    else:
        line = replace(line, status="ok")
        if line.rmse is None:
            line = replace(line, status="failed")
            notes.append("predictions are no numbers")
        elif line.nlpd is None:
            notes.append("error bars are no numbers")
    if line.status == "ok" and facts.get("stopped_early"):
        line = replace(line, status="capped")
    return replace(line, note="; ".join(notes))


def _notes(facts: dict[str, Any]) -> list[str]:
    notes = []
    # Splits differ by a row or two; `line.rows` is the number of the first one.
    if facts.get("rows_used", 0) < facts.get("rows", 0):
        notes.append(f"fitted to {facts['rows_used']} rows")
    if facts.get("stopped_early"):
        notes.append("ended by itself shortly before the cap, unfinished")
    if facts.get("test_rows_used", 0) < facts.get("test_rows", 0):
        notes.append(f"error bars of {facts['test_rows_used']} test rows")
    return notes


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def without_paths(text: str) -> str:
    """Absolute paths shortened to their last part: no result names a folder of a machine."""
    return re.sub(r"(?<![\w.])(?:/|[A-Z]:\\)(?:[^\s/\\:'\"]+[/\\])+([^\s/\\:'\"]*)", r"\1", text)
