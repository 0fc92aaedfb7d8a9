"""Which part of an estimator has the basis, the path and the certificate."""

from __future__ import annotations

from typing import Any


def global_part(estimator: Any) -> Any:
    """The sparse model in an estimator that adds near rows to one; else the estimator itself."""
    return getattr(estimator, "global_", estimator)
