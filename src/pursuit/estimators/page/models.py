"""Fitted models as plain numbers: the sum of kernel functions, its spread, and what it predicts.

What ``what_if.js`` computes from them is what ``predict``, ``predict_interval`` and
``predict_proba`` of the model compute, up to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.estimators.glm.estimator import SparseKernelGLM
from pursuit.estimators.gp.class_model import LatentClassModel
from pursuit.estimators.gp.exact import ExactGPRegressor
from pursuit.estimators.gp.outliers import StudentNoise
from pursuit.estimators.gp.sparse import SparseGPRegressor
from pursuit.estimators.inputs import dense, reads_matrix
from pursuit.estimators.kernel_model import Expansion
from pursuit.estimators.page.kernels import CannotTravelError, kernel_tree
from pursuit.estimators.page.numbers import packed, packed_triangle
from pursuit.kernels import Kernel
from pursuit.objectives import (
    GammaRows,
    LogitRows,
    NegativeBinomialRows,
    PoissonRows,
    RowLoss,
    TweedieRows,
)
from pursuit.tuning import Confidence
from pursuit.tuning.calibration import PARTS, STEEPNESS

LEVEL = 0.9
"""Level of the intervals."""
_MOST_POINTS = 1_000_000
"""Most numbers of the basis points. More: a page of more than 11 MB."""
_MOST_FACTORS = 1_050_000
"""Most numbers of the triangular factors that intervals need: 1 024 basis functions of a
regressor. More: a page of more than 10 MB."""

Described = tuple[dict[str, Any], list[str]]
"""Numbers for the page, and remarks for its reader."""


def page_model(model: Any) -> Described:
    """The numbers of a fitted model, and what its reader should know of them."""
    expansion = _expansion(model)
    answer, remarks = _answer(model, expansion)
    parts = [
        part_numbers(kernel, points, coefficients)
        for kernel, points, coefficients in _parts(model, expansion)
    ]
    return {"parts": parts, "offset": packed(expansion.offset), "answer": answer}, remarks


def part_numbers(kernel: Kernel, points: Floats, coefficients: Floats) -> dict[str, Any]:
    """Σ_j k(x, z_j) c_j."""
    return {
        "kernel": kernel_tree(kernel, points.shape[1]),
        "points": packed(points),
        "coefficients": packed(coefficients),
    }


def _expansion(model: Any) -> Expansion:
    """The sum of kernel functions that a model evaluates."""
    if not hasattr(model, "_expansion"):
        raise CannotTravelError(f"{type(model).__name__} is not a sum of kernel functions.")
    if reads_matrix(model):
        raise CannotTravelError(
            "kernel='precomputed' leaves the kernel to whoever calls predict, so the page has none."
        )
    if not hasattr(model, "n_features_in_"):
        raise CannotTravelError("it was fitted to items that are not rows of numbers.")
    if getattr(model, "multi_class", None) == "ovo" and len(model.classes_) > 2:
        raise CannotTravelError(
            "multi_class='ovo' counts votes of pairs, which are no sums of kernel functions: fit "
            "with multi_class='ovr'."
        )
    expansion: Expansion = model._expansion()
    shape = expansion.points.shape
    if shape[0] * shape[1] > _MOST_POINTS:
        raise CannotTravelError(
            f"it has {shape[0]:,} points of {shape[1]:,} features, too many numbers for a page. "
            "A model with fewer basis functions can run."
        )
    return expansion


def _parts(model: Any, expansion: Expansion) -> list[tuple[Kernel, Floats, Floats]]:
    """For each kernel of the model: the kernel, its points as dense rows, and coefficients."""
    points = np.asarray(dense(expansion.points), dtype=np.float64)
    parts = []
    counters = model._compiled_kernels(np.empty((0, model.n_features_in_)))
    for number, counter in enumerate(counters):
        own = expansion.kernel_numbers == number
        if own.any() or len(counters) == 1:  # a model without basis functions has a prior
            parts.append((counter.kernel, points[own], expansion.coefficients[own]))
    return parts


def _answer(model: Any, expansion: Expansion) -> Described:
    """What is said of the values of the sum."""
    if isinstance(model, LatentClassModel):
        return _probabilities(model)
    if hasattr(model, "classes_"):
        remark = (
            f"{type(model).__name__} has no probabilities: the values are those of its "
            "decision_function."
        )
        return {"kind": "decision", "names": [str(name) for name in model.classes_]}, [remark]
    if expansion.name == "decision" and not isinstance(model, SparseKernelGLM):
        return {"kind": "decision", "names": ["-1 (unlike)", "1 (like the rows)"]}, []
    links, spread, remarks = _regression(model)
    interval = _interval(model, spread)
    if interval is None and not remarks:
        remedy = "; conformalize(X, y) gives it intervals" * hasattr(model, "conformalize")
        remarks = [f"No interval: this model has no standard deviation{remedy}."]
    n = expansion.coefficients.shape[1]
    names = ["Prediction"] if n == 1 else [f"Output {j}" for j in range(n)]
    answer = {"kind": "numbers", "names": names, "spread": spread, "interval": interval}
    return {**answer, **links}, remarks


def _regression(model: Any) -> tuple[dict[str, Any], dict[str, Any] | None, list[str]]:
    """The link of a model, the spread of its observations, and remarks where it has none."""
    if isinstance(model, SparseKernelGLM):
        return _losses(model)
    if isinstance(model, SparseGPRegressor):
        spread, remarks = _span_spread(model)
    elif isinstance(model, ExactGPRegressor):
        spread, remarks = _exact_spread(model)
    else:
        spread, remarks = {"kind": "one"}, []
    return {"link": "identity"}, spread, remarks


def _interval(model: Any, spread: dict[str, Any] | None) -> dict[str, Any] | None:
    """By how many spreads the ends of an interval are apart from the centre, for each output."""
    if spread is None or not hasattr(model, "predict_interval"):
        return None
    guarantee, kind = getattr(model, "coverage_guarantee_", None), "conformal"
    factor = None
    if guarantee is not None and not getattr(model, "_has_offset", False):
        try:
            factor = guarantee.largest(LEVEL)
        except ValueError:  # too few rows for this level
            factor = None
    if factor is None:
        if not model._has_spread:
            return None
        factor, kind = model._quantile_factor(0.5 + 0.5 * LEVEL), "gaussian"
    low, high = (None if np.isinf(end) else float(end) for end in model._target_range)
    factors = np.atleast_1d(np.asarray(factor, dtype=float)).tolist()
    return {"kind": kind, "level": LEVEL, "factors": factors, "low": low, "high": high}


def _too_many(n: int, n_factors: int, without: str = "No intervals") -> list[str]:
    """A remark where triangular factors are too large for a page: what is there without them."""
    if n_factors * n * (n + 1) // 2 <= _MOST_FACTORS:
        return []
    return [
        f"{without}: with {n:,} basis functions these need {n_factors} triangular matrices of "
        f"{n:,} x {n:,} numbers, too many for a page. truncated(n) gives a smaller model."
    ]


def _span_spread(model: SparseGPRegressor) -> tuple[dict[str, Any] | None, list[str]]:
    """Var = noise ‖L⁻¹R⁻¹k‖² + factor (k(x,x) - ‖R⁻¹k‖²), as `PredictiveVariance.variance`."""
    if model._parts:
        return None, [
            "No intervals: outputs with gaps have one model each, and only their means "
            "are in the page."
        ]
    remarks = _too_many(model.n_basis_, 2)
    if remarks:
        return None, remarks
    solution, spread = model._factors, model._spread
    numbers = {
        "kind": "span",
        "R": packed_triangle(solution.R),
        # ‖U‖² has no cancellation, so L does not need all of its digits.
        "L": packed_triangle(solution.L, short=True),
        "noise": float(spread.noise),
        "missed": float(spread.missed),
        "scale": np.ravel(model._scale.scale).tolist(),
        **_noise(model),
    }
    return numbers, []


def _noise(model: SparseGPRegressor) -> dict[str, Any]:
    """The variance of the noise of observations, in normalised units."""
    noise, level = model._noise_model, float(model._spread.noise)
    if noise is None:
        return {"observed": level}
    if isinstance(noise, StudentNoise):
        return {"observed": level * noise.deviation**2}
    counter = model._noise_kernel(np.empty((0, model.n_features_in_)))
    assert counter is not None
    points = np.asarray(dense(noise.points), dtype=np.float64)
    varying = part_numbers(counter.kernel, points, noise.coefficients)
    return {"observed": level, "varying": {**varying, "offset": float(noise.offset)}}


def _exact_spread(model: ExactGPRegressor) -> tuple[dict[str, Any] | None, list[str]]:
    """Var = k(x,x) - ‖L⁻¹W^½k‖²."""
    if model._factor is None or model._parts:
        return None, [
            "No intervals: they take a solution of their own for every row, or a model "
            "fitted with solver='cholesky'."
        ]
    remarks = _too_many(len(model._factor), 1)
    if remarks:
        return None, remarks
    numbers = {
        "kind": "exact",
        "L": packed_triangle(model._factor),
        "root": packed(np.sqrt(model._weights)),
        "observed": float(model.noise_),
        "scale": np.ravel(model._scale.scale).tolist(),
    }
    return numbers, []


def _losses(model: SparseKernelGLM) -> tuple[dict[str, Any], dict[str, Any] | None, list[str]]:
    """What the losses of a generalised linear model predict, and by what errors are measured."""
    losses = model._given().rows()
    if len(losses) > 1:
        return {"link": "sorted"}, {"kind": "quantiles", "least": float(model._narrowest)}, []
    link, spread = _link(losses[0])
    return link, spread, []


def _link(loss: RowLoss) -> tuple[dict[str, Any], dict[str, Any]]:
    """The link of a loss, and the variance of observations as a function of the mean."""
    if isinstance(loss, NegativeBinomialRows):
        return {"link": "log"}, {"kind": "variance", "power": 1.0, "shape": float(loss.shape)}
    powers = {PoissonRows: 1.0, GammaRows: 2.0, TweedieRows: getattr(loss, "power", None)}
    if type(loss) in powers:
        return {"link": "log"}, {"kind": "variance", "power": powers[type(loss)], "shape": None}
    if isinstance(loss, LogitRows):
        return {"link": "logit"}, {"kind": "binary"}
    own = type(loss)
    if own.predicted is not RowLoss.predicted or own.spread is not RowLoss.spread:
        raise CannotTravelError(
            f"its loss {own.__name__} is a Python class with a link of its own, which a page "
            "cannot call."
        )
    return {"link": "identity"}, {"kind": "one"}


def _probabilities(model: LatentClassModel) -> Described:
    """The logistic function, averaged over the latent functions (`Confidence.probabilities`)."""
    names = [str(name) for name in model.classes_]
    without = "The values are mean log-odds, without probabilities"
    remarks = _too_many(model.n_basis_, 1 + len(model._laplace.factors), without)
    if remarks:
        return {"kind": "decision", "names": names}, remarks
    confidence = Confidence() if model.calibration_ is None else model.calibration_
    answer = {
        "kind": "probabilities",
        "names": names,
        "whitener": packed_triangle(model._whitener),
        "factors": [packed_triangle(L, short=True) for L in model._laplace.factors],
        "prior": float(model._laplace.scale),
        "spread": float(confidence.spread),
        "missed": float(confidence.missed),
        "seen": float(confidence.seen),
        "steepness": STEEPNESS.tolist(),
        "shares": PARTS.tolist(),
    }
    return answer, []
