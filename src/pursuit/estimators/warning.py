"""Warnings that point to the user's own code."""

from __future__ import annotations

import sys
import warnings

from pursuit.printed import printable

_OWN_PACKAGES = ("pursuit", "sklearn", "contextlib")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the line of the user's code that called into this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_own(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(printable(message, keep="\n"), category, stacklevel=level + 1)


def _is_own(module: str) -> bool:
    return module.partition(".")[0] in _OWN_PACKAGES
