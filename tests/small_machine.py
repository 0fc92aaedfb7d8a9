"""Fits of some models, printed as JSON; run in processes that stand for other machines.

``python small_machine.py [one-core] [no-blas]``: on one core; with no BLAS whose number of threads
can be set. Warnings are errors.
"""

import json
import os
import sys
import warnings

warnings.simplefilter("error")


def main(options):
    if "one-core" in options:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if "no-blas" in options:
        import threadpoolctl

        threadpoolctl.ThreadpoolController.select = lambda self, **kinds: NoLibraries()
    print(json.dumps(figures()))


class NoLibraries:
    lib_controllers = ()


def figures():
    """Predictions and bounds of models, by name, and what the process has of the machine."""
    import numpy as np
    from sklearn.gaussian_process.kernels import RBF
    from threadpoolctl import threadpool_info

    from pursuit import LowRankSVC, SparseGPRegressor
    from pursuit.linalg.workers import resolve_n_jobs

    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (3000, 3))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(len(X))
    new = X[:200]
    given = SparseGPRegressor(RBF(1.0), noise=0.01, optimizer=None, n_basis=64, random_state=0)
    mean, std = given.fit(X, y).predict(new, return_std=True)
    few = SparseGPRegressor(n_basis=20, random_state=0).fit(X[:300], y[:300])
    machine = LowRankSVC(RBF(1.0), n_basis=32, random_state=0).fit(X, y > 0)
    numbers = {
        "mean": mean,
        "std": std,
        "upper": given.certificate_.upper,
        "lower": given.certificate_.lower,
        "learned": few.predict(new),
        "machine": machine.decision_function(new),
    }
    return {
        "numbers": {name: np.ravel(values).tolist() for name, values in numbers.items()},
        "threads": resolve_n_jobs(None),
        "all cores": resolve_n_jobs(-1),
        "processor": sorted({str(one.get("architecture")) for one in threadpool_info()}),
        "features": np.show_config(mode="dicts")["SIMD Extensions"].get("found", []),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
