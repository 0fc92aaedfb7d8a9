"""Warnings that point to the user's own code, and certificates that are worth a warning."""

from __future__ import annotations

import sys
import warnings

import numpy as np

from pursuit.bounds import Certificate
from pursuit.printed import printable

_OWN_PACKAGES = ("pursuit", "sklearn", "contextlib")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the line of the user's code that called into this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_own(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(printable(message, keep="\n"), category, stacklevel=level + 1)


def kept(found: Certificate) -> Certificate | None:
    """The certificate, or None with a warning where its numbers cannot be true."""
    if found.contradictory:
        warn(
            f"the certificate contradicts itself: the minimum would be at least {found.lower:.6g} "
            f"and at most {found.upper:.6g}, rounding of {found.rounding:.3g} included. The model "
            "is kept without a certificate. See whether the kernel is positive semi-definite if it "
            "is a matrix or a function of your own; else please report this with the data."
        )
        return None
    if not np.isfinite([found.upper, found.lower]).all():
        warn("values overflow, and nothing is certified: scale the targets or the weights down.")
        return None
    return found


def _is_own(module: str) -> bool:
    return module.partition(".")[0] in _OWN_PACKAGES
