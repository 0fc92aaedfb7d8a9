"""One length scale for each feature or one for all of them: what serves classes not seen yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from pursuit._types import Floats
from pursuit.kernels import compile_kernel
from pursuit.tuning.confidence import sloped_loss
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.learning import (
    FIRST_ROWS,
    Learned,
    NoiseRange,
    best_family,
    family_kernel,
    first_rows,
    maximise,
    never,
    second_stage,
)

_JUDGING_ROWS = 500


@dataclass(frozen=True)
class Shape:
    """A kernel of features x/u, learned: a length scale each, or one in common.

    Attributes
    ----------
    units : array of shape (n_features,)
        u.
    learned : Learned
        Kernel on x/u, and noise.
    """

    units: Floats
    learned: Learned

    def seen(self, data: Evidence) -> Evidence:
        """The data in these units."""
        return replace(data, X=data.X / self.units)

    def in_features(self) -> Learned:
        """With the kernel of x itself."""
        kernel = self.learned.kernel
        if np.all(self.units == 1.0):
            return self.learned
        scales, bounds = kernel.k2.length_scale, kernel.k2.length_scale_bounds
        kernel = kernel.clone_with_theta(kernel.theta).set_params(
            k2__length_scale=scales * self.units,
            k2__length_scale_bounds=np.outer(self.units, bounds),
        )
        return replace(self.learned, kernel=kernel)


def learn_shape(
    data: Evidence,
    deviations: Floats,
    variance: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    **search: Any,
) -> Learned:
    """Learn kernel family and length scales for targets of ±1, one column a class.

    The family is the one with most evidence when every feature has a length scale of its own. Many
    length scales can have much evidence and yet mislead: rows that the evidence has not seen
    compare them with one in common, in the features' own units or in those of their deviations.
    Where fewer than 500 rows are left to do so, the evidence itself does, less ½ log of the number
    of values for each hyper-parameter. When it is ``late``, what was found so far is compared.
    """
    first = first_rows(data)
    scales = deviations * np.sqrt(len(deviations))
    separate = Shape(
        np.ones(len(deviations)), best_family(first, scales, variance, noise, late, **search)
    )
    shapes = [separate]
    if len(deviations) > 1:
        family, stages = separate.learned.family, separate.learned.stages
        for units in (deviations, np.ones(len(deviations))):
            width = float(np.sqrt(np.sum((deviations / units) ** 2)))
            kernel = _common(family, width, variance)
            in_units = replace(first, X=first.X / units)
            found = maximise(in_units, kernel, noise, f"{family}, one", late=late, **search)
            stages = stages + found.stages
            shapes.append(Shape(units, replace(found, family=family)))
    else:
        stages = separate.learned.stages
    best = _best(shapes, data)
    best = replace(best, learned=replace(best.learned, stages=stages))
    more = second_stage(best.seen(data), best.learned, noise, late)
    return replace(best, learned=more).in_features()


def _common(family: str, width: float, variance: float) -> Any:
    """The family's kernel with a single length scale."""
    kernel = family_kernel(family, np.array([width]), variance)
    bounds = tuple(np.ravel(kernel.k2.length_scale_bounds))
    constant: ConstantKernel = kernel.k1
    if family == "rbf":
        return constant * RBF(width, bounds)
    return constant * Matern(width, bounds, nu=kernel.k2.nu)


def _best(shapes: list[Shape], data: Evidence) -> Shape:
    """By log loss on the rows left over, or by penalised evidence where they are few."""
    if len(data.X) - FIRST_ROWS >= _JUDGING_ROWS:
        return min(shapes, key=lambda shape: class_loss(shape.learned, shape.seen(data)))
    values = float(data.weights[:FIRST_ROWS].sum()) * data.y.shape[1]

    def evidence(shape: Shape) -> float:
        free = len(shape.learned.kernel.theta)
        rows = float(data.weights[:FIRST_ROWS].sum())
        return shape.learned.evidence_per_row * rows - 0.5 * free * float(np.log(values))

    return max(shapes, key=evidence)


def class_loss(learned: Learned, data: Evidence) -> float:
    """Log loss, at its best slope, of a regression on ±1 to the first 500 rows on all others."""
    first = first_rows(data)
    kernel = compile_kernel(learned.kernel)[0]
    C = kernel.tile(first.X, first.X)
    C[np.diag_indices_from(C)] += learned.noise / first.weights
    held, y = data.X[FIRST_ROWS:], data.y[FIRST_ROWS:]
    mean = kernel.tile(held, first.X) @ cho_solve(cho_factor(C, lower=True), first.y)
    return sloped_loss(mean, y, data.weights[FIRST_ROWS:])
