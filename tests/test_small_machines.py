"""One core, no AVX, or a BLAS whose threads nobody can set: the same answers, without a word."""

import json
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

SCRIPT = Path(__file__).parent / "small_machine.py"
BLAS = "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS".split()
KERNELS = "OPENBLAS_CORETYPE NPY_DISABLE_CPU_FEATURES".split()

LEARNED = 1e-4
"""Learned models may differ by this: a search by gradients ends where rounding lets it end."""
GIVEN = 1e-8
"""Others may differ by this share of the largest value."""


@cache
def figures(options=(), environment=()):
    """What the script prints on such a machine; it must print nothing else."""
    own = {name: value for name, value in os.environ.items() if name not in [*BLAS, *KERNELS]}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), *options],
        env=own | dict(environment),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def assert_same(found, exactly=False):
    for name, expected in figures()["numbers"].items():
        tolerance = 0.0 if exactly else LEARNED if name == "learned" else GIVEN
        error = np.max(np.abs(np.subtract(found["numbers"][name], expected)))
        assert error <= tolerance * np.max(np.abs(expected)), name


def test_one_core():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("the system does not bind a process to a core")
    found = figures(("one-core",))
    assert found["all cores"] == 1
    assert_same(found, exactly=True)


def test_a_blas_of_one_thread():
    found = figures((), tuple((name, "1") for name in BLAS))
    assert found["threads"] == 1
    assert_same(found, exactly=True)


def test_a_blas_whose_threads_cannot_be_set():
    found = figures(("no-blas",))
    assert found["threads"] == 1
    assert_same(found)


def test_a_processor_without_avx():
    libraries = {library["internal_api"] for library in threadpool_info()} - {"openmp"}
    if libraries != {"openblas"} or platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("only OpenBLAS on x86-64 can be told to be on another processor")
    features = " ".join(figures()["features"])
    off = (("OPENBLAS_CORETYPE", "Nehalem"), ("NPY_DISABLE_CPU_FEATURES", features))
    found = figures((), off)
    assert found["processor"] in (["Nehalem"], ["Nehalem", "None"])
    assert found["features"] == []
    assert_same(found)
    assert found["numbers"]["lower"] <= found["numbers"]["upper"]
