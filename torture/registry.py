"""Which fuzzers there are: every module of the package with a ``FUZZER``."""

from __future__ import annotations

import importlib
import pkgutil

from torture import Fuzzer


def fuzzers(package: str = "torture") -> dict[str, Fuzzer]:
    """All fuzzers of a package by name, in the order of their modules."""
    folder = importlib.import_module(package).__path__
    found: dict[str, Fuzzer] = {}
    for info in pkgutil.iter_modules(folder):
        if info.name.startswith("_"):
            continue
        fuzzer = getattr(importlib.import_module(f"{package}.{info.name}"), "FUZZER", None)
        if isinstance(fuzzer, Fuzzer):
            found[fuzzer.name] = fuzzer
    return found
