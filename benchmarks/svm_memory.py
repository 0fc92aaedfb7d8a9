"""Peak memory of a process that fits one machine; run as a module of its own.

``python -m benchmarks.svm_memory N_ROWS N_BASIS`` prints a JSON object with the bytes of the data,
the peak of the whole process in bytes, and the seconds of the fit.
"""

from __future__ import annotations

import argparse
import json

from benchmarks.harness import seconds
from benchmarks.peak_memory import peak
from benchmarks.svm_cases import noisy_boundary
from pursuit import LowRankSVC


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_rows", type=int)
    parser.add_argument("n_basis", type=int)
    options = parser.parse_args()
    X, y, _, _ = noisy_boundary(options.n_rows, n_test=1)
    model = LowRankSVC(C=1.0, gamma=0.05, n_basis=options.n_basis, random_state=0)
    spent = seconds(lambda: model.fit(X, y))
    print(json.dumps({"data": X.nbytes + y.nbytes, "peak": peak(), "fit": spent}))


if __name__ == "__main__":
    main()
