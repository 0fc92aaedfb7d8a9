"""Memory that one fit adds to a process, measured in that process; run as a module of its own.

``python -m benchmarks.peak_memory N_ROWS N_BASIS`` prints a JSON object with the bytes of the data
and the bytes that the fit added to the peak.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from benchmarks.data import robot_arm
from benchmarks.solvers import sparse_gp

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_rows", type=int)
    parser.add_argument("n_basis", type=int)
    options = parser.parse_args()
    X, y = robot_arm(options.n_rows)
    solver = sparse_gp(options.n_basis, np.ones(X.shape[1]), noise=0.01)
    # What threads, BLAS buffers and imports take is paid before, not by the fit.
    solver.make(64).fit(X[:5000], y[:5000])
    before = reset_peak()
    solver.make(options.n_basis).fit(X, y)
    print(json.dumps({"data": X.nbytes + y.nbytes, "added": max(peak() - before, 0)}))


def reset_peak() -> int:
    """Bring the recorded peak down to what is in use now, where the system can; return it."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="utf-8")
    except OSError:
        print("cannot reset the peak: the figure may be too small", file=sys.stderr)
    return peak()


def peak() -> int:
    """Peak resident bytes of this process so far, or since the last reset."""
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource  # Windows has none

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


if __name__ == "__main__":
    main()
