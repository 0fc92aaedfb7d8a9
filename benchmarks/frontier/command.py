"""The command: ``python -m benchmarks frontier [--datasets ...] [--models ...] [--seeds ...]``.

It goes on where it stopped: fits that are stored are not done again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from benchmarks.data import NotAvailableError
from benchmarks.frontier.cells import Cell, all_cells, by_priority
from benchmarks.frontier.fit import few
from benchmarks.frontier.run import fit_command, run_cell
from benchmarks.frontier.sets import SETS
from benchmarks.frontier.settings import SETTINGS
from benchmarks.frontier.store import NOT_RUN, SKIPPED, Line, Store
from benchmarks.unattended import end_cases_when_ended

CAP = 600.0
HERE = Path(__file__).parent
DOCS = HERE.parent.parent / "docs"
RESULTS = DOCS / "benchmarks" / "frontier.csv"
DEVELOPMENT = HERE.parent / "results"
MODELS = tuple(dict.fromkeys(s.model for s in SETTINGS))


def main(words: Sequence[str]) -> int:
    options = _options(words)
    develop = options.cap != CAP or options.rows is not None
    apart = DEVELOPMENT / f"frontier-{options.cap:g}-{options.rows or 'all'}.csv"
    path = apart if develop else RESULTS
    if options.list:
        store = _stored(path)
        todo = _todo(store, options)
        skipped = [cell for cell in todo if store.lines[cell].status == SKIPPED]
        for cell in todo:
            print(f"{cell}{', was skipped' if cell in skipped else ''}")
        again = f", and {len(skipped)} to look at again" if skipped else ""
        print(f"{len(todo) - len(skipped)} fits to do{again}")
        return 0
    end_cases_when_ended()
    with _alone(path.parent):
        store = _stored(path)
        store.write()
        try:
            return int(_run(_todo(store, options), store, options))
        finally:
            print(f"written to {store.path.name}")
            if not develop:
                for script in ("make_frontier.py", "make_readme.py"):
                    subprocess.run([sys.executable, str(DOCS / script)], check=True)


def _stored(path: Path) -> Store:
    """What is stored; ends with a line that says what is wrong with a file that was broken."""
    try:
        return Store(path, all_cells())
    except ValueError as error:
        sys.exit(f"{error}; mend the file, or take back the one of before")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """End if another run stores results in this folder: each would undo what the other stores."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run stores its results in {folder.name}: wait for its end")
        yield
    finally:
        os.close(handle)


def _todo(store: Store, options: argparse.Namespace) -> list[Cell]:
    """The fits that are wanted and not stored, in the order of work."""
    redo = {None: set(), "failed": {"failed"}, "all": {"failed", "capped", "ok"}}[options.again]
    return [
        cell
        for cell in by_priority(all_cells())
        if _wanted(cell, options) and store.lines[cell].status in redo | {NOT_RUN, SKIPPED}
    ]


def _run(todo: Sequence[Cell], store: Store, options: argparse.Namespace) -> bool:
    """Do the fits, and store each when it is done; whether one failed."""

    def shape(name: str) -> tuple[int, int]:
        found, stored = _shape(name, options.rows), store.shape(name)
        if stored not in (None, found):
            raise NotAvailableError(
                f"other data: {name} has {found[0]} training rows of {found[1]} features here, its"
                f" stored fits had {stored[0]} of {stored[1]}"
            )
        return found

    failed = False
    for number, cell in enumerate(todo, start=1):
        line = run_cell(
            cell,
            shape,
            fit_command(options.cap, options.rows),
            options.cap,
        )
        if line.fitted:
            # First: no fit is stored whose machine and versions are not.
            store.describe(options.cap, SETTINGS)
        kept = "" if store.put(line) else "; what is stored of it stays"
        failed |= line.status == "failed"
        print(f"{number}/{len(todo)}  {cell}: {told(line, options.cap)}{kept}", flush=True)
    return failed


def told(line: Line, cap: float) -> str:
    """A line for the person who watches."""
    parts = [line.status]
    if line.fit_seconds is not None:
        parts.append(f"> {cap:g} s" if line.status == "capped" else f"fit {line.fit_seconds:.1f} s")
    if line.rmse is not None:
        parts.append(f"RMSE {line.rmse:.4f}")
    if line.nlpd is not None and line.coverage95 is not None:
        parts.append(f"NLPD {line.nlpd:.3f}, coverage {line.coverage95:.3f}")
    return ", ".join(parts) + (f" ({line.note})" if line.note else "")


@cache
def _shape(name: str, n_rows: int | None) -> tuple[int, int]:
    n_train, n_features = few(SETS[name](0), n_rows).X_train.shape
    return n_train, n_features


def _wanted(cell: Cell, options: argparse.Namespace) -> bool:
    return (
        cell.dataset in options.datasets
        and cell.seed in options.seeds
        and any(word in f"{cell.model} {cell.setting}".lower() for word in options.models)
    )


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks frontier", description=__doc__)
    parser.add_argument(
        "--datasets",
        nargs="+",
        choices=SETS,
        default=list(SETS),
        metavar="NAME",
        help=f"of {', '.join(SETS)}; all by default",
    )
    parser.add_argument(
        "--models",
        nargs="+",
        type=str.lower,
        default=[""],
        metavar="WORD",
        help="models whose name and setting contain one of these, like sparse or 'sgpr short';"
        f" of {', '.join(MODELS)}",
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        choices=range(3),
        default=[0, 1, 2],
        metavar="SEED",
        help="of 0, 1, 2; slow models have seed 0 alone",
    )
    parser.add_argument("--list", action="store_true", help="list the fits to do and stop")
    parser.add_argument(
        "--again", choices=["failed", "all"], help="do stored fits again: those that failed, or all"
    )
    parser.add_argument(
        "--cap",
        type=float,
        default=CAP,
        help="seconds per fit; for development: results of another cap are stored apart",
    )
    parser.add_argument(
        "--rows", type=int, help="training rows; for development: results are stored apart"
    )
    options = parser.parse_args(words)
    names = [f"{s.model} {s.name}".lower() for s in SETTINGS]
    unknown = [word for word in options.models if not any(word in name for name in names)]
    if unknown:
        parser.error(f"no model is called {', '.join(unknown)}; there are {', '.join(MODELS)}")
    if options.cap <= 0 or (options.rows is not None and options.rows < 1):
        parser.error("--cap and --rows must be positive")
    return options
