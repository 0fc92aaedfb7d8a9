"""Worker processes: a seed that crashes or hangs its process is a failure of that seed alone."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection

from torture import Report
from torture.registry import fuzzers

ONE_THREAD = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    "VECLIB_MAXIMUM_THREADS",
)
"""Workers share the cores: each computes with one thread."""
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Outcome:
    """One seed of one fuzzer, done."""

    fuzzer: str
    seed: int
    seconds: float
    report: Report


def run_seed(run, seed: int) -> Report:
    """The report of one seed; an exception is a failure."""
    try:
        return run(seed)
    except Exception:
        lines = traceback.format_exc().strip().splitlines()
        return Report(failures=["the fuzzer itself raised: " + " | ".join(lines[-5:])])


def _serve(pipe: Connection, package: str) -> None:
    """Answer (fuzzer, seed) with a report, for as long as somebody asks."""
    with contextlib.suppress(AttributeError, OSError):
        os.setsid()  # what a fuzzer starts ends with its worker; Ctrl-C goes to the runner alone
    known = fuzzers(package)
    pipe.send("ready")
    with contextlib.suppress(EOFError, OSError):  # the runner has ended
        while True:
            name, seed = pipe.recv()
            pipe.send(run_seed(known[name].run, seed))


class Worker:
    """One process that runs seeds, replaced by a new one when it dies or is late.

    Parameters
    ----------
    package : str
        Where its fuzzers are.
    limit : float
        Seconds that one seed may take.
    """

    def __init__(self, package: str, limit: float) -> None:
        self._package, self._limit = package, limit
        self._process: multiprocessing.process.BaseProcess | None = None
        self._task: tuple[str, int] | None = None
        self._began, self._ready = 0.0, False

    @property
    def task(self) -> tuple[str, int] | None:
        """What it works on: fuzzer and seed."""
        return self._task

    def open(self) -> None:
        """Begin its process, if there is none; it becomes ready by itself."""
        if self._process is None:
            self._pipe, theirs = _SPAWN.Pipe()
            self._process = _SPAWN.Process(target=_serve, args=(theirs, self._package))
            self._process.start()
            self._ready = False
            theirs.close()

    def start(self, fuzzer: str, seed: int) -> None:
        """Give it a seed."""
        self.open()
        self._wait_until_ready()
        self._task, self._began = (fuzzer, seed), time.monotonic()
        # A process that died in between is noticed by `result`.
        with contextlib.suppress(OSError):
            self._pipe.send(self._task)

    def result(self, wait: float) -> Outcome | None:
        """The outcome of its seed if there is one within ``wait`` seconds."""
        if self._task is None:
            return None
        report = None
        if self._pipe.poll(wait):
            try:
                report = self._pipe.recv()
            except (EOFError, OSError):
                self._process.join(10)
                code = self._process.exitcode
                report = Report(failures=[f"the process died (exit code {code})"])
                self.stop()
        elif time.monotonic() - self._began > self._limit:
            report = Report(failures=[f"no answer within {self._limit:g} s"])
            self.stop()
        if report is None:
            return None
        (fuzzer, seed), self._task = self._task, None
        return Outcome(fuzzer, seed, time.monotonic() - self._began, report)

    def stop(self) -> None:
        """End the process and all that it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError, AttributeError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join(10)
        self._pipe.close()

    def _wait_until_ready(self) -> None:
        if self._ready:
            return
        try:
            self._pipe.recv()
        except EOFError:
            self.stop()
            raise RuntimeError("A worker process ended before its first seed: see above.") from None
        self._ready = True
