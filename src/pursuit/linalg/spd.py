"""Inverse and log-determinant of a positive definite matrix, spread over threads.

BLAS and LAPACK may round differently on another number of threads; here fixed panels are handed to
the workers, so the result does not depend on it.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from pursuit._types import Floats
from pursuit.linalg.workers import Workers

_PANEL = 192


def invert_spd(C: Floats, workers: Workers) -> tuple[Floats, float] | None:
    """C⁻¹ and log|C| for symmetric positive definite C, which is overwritten by its inverse.

    Returns None where C is not positive definite to working precision. Blocked: C = LL' (right
    looking), N = L⁻¹ by columns, C⁻¹ = N'N; memory is C and one more matrix of its size.
    """
    panels = Workers.slices(len(C), _PANEL)
    inverses: list[Floats] = []
    log_determinant = 0.0
    for k, panel in enumerate(panels):
        factor, info = dpotrf(C[panel, panel], lower=1, clean=1)
        if info != 0:
            return None
        C[panel, panel] = factor
        log_determinant += 2.0 * float(np.log(np.diag(factor)).sum())
        inverses.append(np.asarray(dtrtri(factor, lower=1)[0]))
        _update_trailing(C, panel, inverses[-1], panels[k + 1 :], workers)
    N = np.zeros_like(C)

    def invert_columns(j: int) -> None:
        columns = panels[j]
        N[columns, columns] = inverses[j]
        for i in range(j + 1, len(panels)):
            rows = panels[i]
            done = slice(columns.start, rows.start)
            N[rows, columns] = -inverses[i] @ (C[rows, done] @ N[done, columns])

    workers.map(invert_columns, range(len(panels)))

    def multiply(columns: slice) -> None:
        C[: columns.stop, columns] = (
            N[columns.start :, : columns.stop].T @ N[columns.start :, columns]
        )

    workers.map(multiply, reversed(panels))
    for panel in panels:
        C[panel.stop :, panel] = C[panel, panel.stop :].T
    return C, log_determinant


def _update_trailing(
    C: Floats, panel: slice, inverse: Floats, rest: list[slice], workers: Workers
) -> None:
    """Rows below the panel times its inverse, then their products off the trailing matrix."""

    def scale(rows: slice) -> None:
        C[rows, panel] = C[rows, panel] @ inverse.T

    def subtract(columns: slice) -> None:
        C[columns.start :, columns] -= C[columns.start :, panel] @ C[columns, panel].T

    workers.map(scale, rest)
    workers.map(subtract, rest)
