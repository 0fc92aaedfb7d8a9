"""Compiled kernels as trees of plain numbers, in the words that ``what_if.js`` knows."""

from __future__ import annotations

from typing import Any

import numpy as np

from pursuit.estimators.page.numbers import packed
from pursuit.kernels import Dot, Kernel
from pursuit.kernels.categorical import OneCorrelation, PairCorrelations
from pursuit.kernels.compose import Constant, Mapped, Power, Product, Sum, Tanh
from pursuit.kernels.matern import Matern, half_integer, is_half_integer
from pursuit.kernels.metrics import AdditiveChiSquared, ChiSquared, Cosine, Laplacian
from pursuit.kernels.on_columns import OnColumns
from pursuit.kernels.stationary import (
    Gaussian,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Profile,
    RationalQuadratic,
    Stationary,
)

_HALVES = {Matern12: 0, Matern32: 1, Matern52: 2}
"""Number p of the order p + 1/2."""


class CannotTravelError(ValueError):
    """A model, or a kernel, cannot run in a page."""


def kernel_tree(kernel: Kernel, n_features: int) -> dict[str, Any]:
    """A kernel of rows of ``n_features`` numbers."""
    if isinstance(kernel, Stationary):
        scale = np.broadcast_to(1.0 / np.asarray(kernel.length_scale, dtype=float), n_features)
        return {
            "kind": "stationary",
            "profile": _profile(kernel.profile),
            "variance": float(kernel.variance),
            "scale": packed(scale),
        }
    if isinstance(kernel, Dot):
        return {"kind": "dot", "weight": float(kernel.weight), "offset": float(kernel.offset)}
    if isinstance(kernel, Constant):
        return {"kind": "constant", "value": float(kernel.value)}
    if isinstance(kernel, OnColumns):
        columns = [int(j) for j in kernel.positions]
        return {
            "kind": "columns",
            "columns": columns,
            "part": kernel_tree(kernel.kernel, len(columns)),
        }
    if isinstance(kernel, OneCorrelation):
        return {"kind": "equal", "correlation": kernel.rho}
    if isinstance(kernel, PairCorrelations):
        return {"kind": "pairs", "levels": packed(kernel.levels), "table": packed(kernel.table())}
    if isinstance(kernel, Cosine):
        return {"kind": "cosine"}
    if isinstance(kernel, Laplacian):
        return {"kind": "laplacian", "gamma": float(kernel.gamma)}
    if isinstance(kernel, ChiSquared):
        return {"kind": "chi2", "gamma": float(kernel.gamma)}
    if isinstance(kernel, AdditiveChiSquared):
        return {"kind": "additive-chi2"}
    return _composed(kernel, n_features)


def _composed(kernel: Kernel, n_features: int) -> dict[str, Any]:
    """A sum, product or function of kernels."""
    if isinstance(kernel, Sum):
        parts = [kernel_tree(part, n_features) for part in kernel.terms]
        return {"kind": "sum", "parts": parts, "offset": float(kernel.offset)}
    if isinstance(kernel, Product):
        parts = [kernel_tree(part, n_features) for part in kernel.factors]
        return {"kind": "product", "parts": parts, "factor": float(kernel.factor)}
    if isinstance(kernel, Mapped):
        part = kernel_tree(kernel.base, n_features)
        if isinstance(kernel, Power):
            return {"kind": "power", "part": part, "exponent": float(kernel.exponent)}
        if isinstance(kernel, Tanh):
            return {"kind": "tanh", "part": part}
    name = getattr(kernel, "name", type(kernel).__name__)
    raise CannotTravelError(
        f"its kernel {name} is a Python function, which a page cannot call. RBF, Matern (nu 0.5, "
        "1.5, 2.5, …), RationalQuadratic, ExpSineSquared, DotProduct, PairwiseKernel, Categorical, "
        "constants, their sums, products and powers, on_columns and kernels given by name can run."
    )


def _profile(profile: Profile) -> dict[str, Any]:
    if isinstance(profile, Gaussian):
        return {"kind": "gaussian"}
    if isinstance(profile, RationalQuadratic):
        return {"kind": "rational", "alpha": float(profile.alpha)}
    if isinstance(profile, Periodic):
        return {"kind": "periodic", "width": float(profile.width)}
    if isinstance(profile, Matern) and not is_half_integer(profile.nu):
        raise CannotTravelError(
            f"Matern with nu={profile.nu:g} needs Bessel functions, which a page does not have: "
            "use nu 0.5, 1.5, 2.5 or another half of an odd number."
        )
    p = int(profile.nu) if isinstance(profile, Matern) else _HALVES[type(profile)]
    return {"kind": "matern", "slope": 2.0 * p + 1.0, "polynomial": half_integer(p).tolist()}
