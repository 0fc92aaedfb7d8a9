"""Kernels for classes: as many length scales as the log loss of further rows bears out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from pursuit._types import Floats, Indices
from pursuit.kernels import compile_kernel
from pursuit.tuning.calibration import sloped_losses
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.learning import (
    best_family,
    common_kernel,
    first_rows,
    second_stage,
)
from pursuit.tuning.optimiser import Learned, NoiseRange, maximise, never

_JUDGING_ROWS = 500  # Further rows needed to compare shapes by their log loss.
_FOLDS, _FOLDED_ROWS = 3, 30  # Parts of fewer rows that judge in turn; fewest rows to divide.


@dataclass(frozen=True)
class Shape:
    """A learned kernel of the features x/u, with one length scale per feature or a common one.

    Attributes
    ----------
    units : array of shape (n_features,)
        u.
    learned : Learned
        Kernel on x/u, and noise.
    learn : callable
        Learns them again, from other rows of x/u.
    """

    units: Floats
    learned: Learned
    learn: Callable[[Evidence], Learned]

    def rescaled(self, data: Evidence) -> Evidence:
        """The data in these units."""
        return replace(data, X=data.X / self.units)

    def in_features(self) -> Learned:
        """The same with the kernel of x itself."""
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
    """Learn kernel family and length scales for targets of ±1, one column per class.

    The family is the one with the largest evidence if every feature has its own length scale. Many
    length scales can have a large evidence and still mislead. They are compared with one common
    length scale, in units of the features or of their deviations, by the log loss of further rows.
    If there are fewer than 500 of those, each third of the first rows is predicted by what the
    others have learned. Of fewer than 30 rows, or once ``late()`` is true, the evidence decides,
    less ½ log of the number of values per hyper-parameter.
    """
    first = first_rows(data)
    scales = deviations * np.sqrt(len(deviations))
    own = best_family(first, scales, variance, noise, late, **search)
    family, stages = own.family, own.stages

    def separate(some: Evidence) -> Learned:
        return best_family(some, scales, variance, noise, late, families=[family], **search)

    shapes = [Shape(np.ones(len(deviations)), own, separate)]
    if len(deviations) > 1:
        for units in (deviations, np.ones(len(deviations))):
            width = float(np.sqrt(np.sum((deviations / units) ** 2)))
            kernel = common_kernel(family, width, variance)
            common = _learner(kernel, noise, f"{family}, one", late=late, **search)
            learned = common(replace(first, X=first.X / units))
            stages = stages + learned.stages
            shapes.append(Shape(units, replace(learned, family=family), common))
    best = _best(shapes, data, late)
    best = replace(best, learned=replace(best.learned, stages=stages))
    more = second_stage(best.rescaled(data), best.learned, noise, late)
    return replace(best, learned=more).in_features()


def _learner(
    kernel: Any, noise: NoiseRange, family: str, **options: Any
) -> Callable[[Evidence], Learned]:
    return lambda data: maximise(data, kernel, noise, family, **options)


def _best(shapes: list[Shape], data: Evidence, late: Callable[[], bool]) -> Shape:
    """The best shape, by log loss on rows that it was not learned from where there are enough."""
    if len(shapes) == 1:
        return shapes[0]
    first = first_rows(data)
    if len(data.X) - len(first.X) >= _JUDGING_ROWS:
        further = data.take(slice(len(first.X), None))

        def loss(shape: Shape) -> float:
            losses = class_losses(shape.learned, shape.rescaled(first), shape.rescaled(further))
            return float(np.average(losses, weights=further.weights))

        return min(shapes, key=loss)
    rows = float(first.weights.sum())
    penalty = 0.5 * float(np.log(rows * data.y.shape[1]))

    def evidence(shape: Shape) -> float:
        return shape.learned.evidence_per_row * rows - penalty * len(shape.learned.kernel.theta)

    best = max(shapes, key=evidence)
    if len(first.X) < _FOLDED_ROWS or late():
        return best
    folds = _folds(first)
    losses = {id(shape): _folded_losses(shape, first, folds) for shape in shapes}

    def gain(shape: Shape) -> float:
        """How much less a shape loses than the one of the largest evidence, in standard errors."""
        gains = losses[id(best)] - losses[id(shape)]
        mean = float(np.average(gains, weights=first.weights))
        spread = float(np.average((gains - mean) ** 2, weights=first.weights))
        return mean / np.sqrt(spread / len(gains)) if spread > 0.0 else 0.0

    return max(shapes, key=gain)


def _folds(data: Evidence) -> Indices:
    """The part that each row belongs to; identical rows are in the same one."""
    _, group = np.unique(data.X, axis=0, return_inverse=True)
    parts: Indices = np.ravel(group) % _FOLDS
    return parts


def _folded_losses(shape: Shape, data: Evidence, folds: Indices) -> Floats:
    """Log losses of the rows of each part, predicted by what the other parts have learned."""
    rescaled, losses = shape.rescaled(data), np.empty(len(folds))
    for part in range(_FOLDS):
        others, own = np.flatnonzero(folds != part), np.flatnonzero(folds == part)
        if not (len(others) and len(own)):  # all rows are in one part: no kernel is any better
            losses[own] = 0.0
            continue
        fitted, judged = rescaled.take(others), rescaled.take(own)
        losses[own] = class_losses(shape.learn(fitted), fitted, judged)
    return losses


def class_losses(learned: Learned, fitted: Evidence, judged: Evidence) -> Floats:
    """Log losses at the best slope, of rows to judge by, of a regression on ±1 to other rows."""
    kernel = compile_kernel(learned.kernel)[0]
    C = kernel.tile(fitted.X, fitted.X)
    C[np.diag_indices_from(C)] += learned.noise / fitted.weights
    dual = cho_solve(cho_factor(C, lower=True), fitted.y)
    return sloped_losses(kernel.tile(judged.X, fitted.X) @ dual, judged.y, judged.weights)
