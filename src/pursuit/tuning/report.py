"""What a fit reports of its learning: stages, families, features, warnings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.printed import printable
from pursuit.tuning.calibration import Calibration, Confidence

FAMILIES = ("rbf", "matern52", "matern32", "matern12")
"""Kernels compared when none is given, from the smoothest to the roughest."""

LEARNED, KEPT, PERIODS = "learned", "given", "periods"
"""What stands for a family where a kernel is given: hyper-parameters learned, kept, or tried."""

_AT_BOUND = 1e-3  # Distance in the logarithm that counts as on the bound.


@dataclass(frozen=True)
class Stage:
    """One maximisation of the evidence."""

    family: str
    n_rows: int
    evidence_per_row: float
    n_evaluations: int
    seconds: float


@dataclass(frozen=True)
class SearchStep:
    """A kernel that a search has tried.

    Attributes
    ----------
    expression : str
        The kernel in words, or what was changed about the one before.
    evidence_per_row : float
        Its evidence, with all hyper-parameters learned.
    accepted : bool
        Whether the search went on from it.
    """

    expression: str
    evidence_per_row: float
    accepted: bool


@dataclass(frozen=True)
class AtBound:
    """A free hyper-parameter that ended on a bound.

    Attributes
    ----------
    parameter : str
        Its name, as in ``kernel.get_params()``.
    dimension : int
        Which of its elements.
    upper : bool
        Whether the bound is the upper one.
    bound : float, optional
        The bound; None where θ is not a logarithm, and the number says nothing to a user.
    single : bool
        Whether it has one element only.
    """

    parameter: str
    dimension: int
    upper: bool
    bound: float | None
    single: bool = True

    @property
    def side(self) -> str:
        """The bound in a word."""
        return "upper" if self.upper else "lower"

    @property
    def note(self) -> str:
        """A line of the report."""
        label = self.parameter if self.single else f"{self.parameter}[{self.dimension}]"
        number = "" if self.bound is None else f" {self.bound:.3g}"
        return f"{label} at its {self.side} bound{number}"

    @property
    def warning(self) -> str:
        """The same as scikit-learn's regressor warns of it."""
        number = "" if self.bound is None else f" {self.bound}"
        change = "Increasing" if self.upper else "Decreasing"
        return (
            f"The optimal value found for dimension {self.dimension} of parameter {self.parameter} "
            f"is close to the specified {self.side} bound{number}. {change} the bound and calling "
            "fit again may find a better value."
        )


def at_bounds(kernel: Any) -> list[AtBound]:
    """The free hyper-parameters that ended on a bound."""
    free = [parameter for parameter in kernel.hyperparameters if not parameter.fixed]
    each = [(parameter, e) for parameter in free for e in range(parameter.n_elements)]
    ends: list[AtBound] = []
    for (parameter, element), value, (low, high) in zip(
        each, kernel.theta, kernel.bounds, strict=True
    ):
        upper = value >= high - _AT_BOUND
        if upper or value <= low + _AT_BOUND:
            # Only θ of numeric hyper-parameters is a logarithm.
            is_log = parameter.value_type == "numeric"
            bound = float(np.reshape(parameter.bounds, (-1, 2))[element, int(upper)])
            single = parameter.n_elements == 1
            name = parameter.name
            ends.append(AtBound(name, element, upper, bound if is_log else None, single))
    return ends


@dataclass(frozen=True)
class LearningReport:
    """What was learned: family and evidence, stages and times, relevance of features, warnings.

    Attributes
    ----------
    family : str
        The kernel family chosen where no kernel is given, "learned" for a given kernel whose
        hyper-parameters were learned, and "given" for a kernel that was kept.
    kept : str
        Why the kernel was kept; empty if it was learned.
    stages : list of Stage
        Every maximisation of the evidence: family, rows, evidence per row, evaluations, seconds.
    seconds : dict
        Time of each stage of the fit.
    relevance : array of shape (n_features,), optional
        Standard deviation of each feature over its length scale: how much of its range matters.
    importance : array of shape (n_features,), optional
        Deviation of the predictions that each feature is responsible for, relative to their own
        deviation, on some of the rows (see the method ``importance``). None for rows that are not
        of numbers, and for more than 2 000 features.
    importance_std : array of shape (n_features,), optional
        Its standard deviation over bootstrap samples of these rows.
    feature_names : list of str
        Names to print both with.
    moved : str
        Whether and how the basis was moved.
    near_rows : str
        How many near rows predictions use, and why, where they can.
    calibration : Calibration or Confidence, optional
        The outcome of leave-one-out calibration.
    warnings : list of str
        Possible problems, and what to do about them.
    search_path : list of SearchStep
        Kernels that ``kernel="search"`` or an additive kernel has tried, in this order.
    noise : str
        What ``noise="varying"`` or ``likelihood="student-t"`` has found.
    few_rows : str
        How much wider error bars are because few rows leave kernel and noise unknown.
    """

    family: str = KEPT
    kept: str = ""
    stages: list[Stage] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    relevance: Floats | None = None
    importance: Floats | None = None
    importance_std: Floats | None = None
    feature_names: list[str] = field(default_factory=list)
    moved: str = "not moved"
    near_rows: str = ""
    calibration: Calibration | Confidence | None = None
    warnings: list[str] = field(default_factory=list)
    search_path: list[SearchStep] = field(default_factory=list)
    noise: str = ""
    few_rows: str = ""

    def __str__(self) -> str:
        lines = [f"kernel family: {self.family}" + (f" ({self.kept})" if self.kept else "")]
        lines += [
            f"  {stage.family:<13} {stage.n_rows:>5} rows  evidence per row "
            f"{stage.evidence_per_row:9.4f}  {stage.n_evaluations:>3} evaluations  "
            f"{stage.seconds:6.2f} s"
            for stage in self.stages
        ]
        if self.importance is not None and self.importance_std is not None:
            lines.append("importance of the features (relative to the predictions' deviation):")
            lines += [
                f"  {printable(self.feature_names[j]):<20} {self.importance[j]:.3g} ± "
                f"{self.importance_std[j]:.2g}"
                for j in np.argsort(-self.importance, kind="stable")[:20]
            ]
        if self.search_path:
            lines.append("kernels tried (evidence per row, accepted or not):")
            lines += [
                f"  {step.evidence_per_row:9.4f}  {'yes' if step.accepted else 'no ':<3}  "
                f"{printable(step.expression)}"
                for step in self.search_path
            ]
        if self.relevance is not None:
            lines.append("relevance of the features (sd / length scale):")
            lines += [
                f"  {printable(self.feature_names[j]):<20} {self.relevance[j]:.3g}"
                for j in np.argsort(-self.relevance)[:20]
            ]
        lines.append(f"basis: {self.moved}")
        if self.noise:
            lines.append(f"noise: {self.noise}")
        if self.few_rows:
            lines.append(f"few rows: {self.few_rows}")
        if self.near_rows:
            lines.append(f"near rows: {self.near_rows}")
        if self.calibration is not None:
            lines.append(f"calibration: {self.calibration}")
        lines.append("seconds: " + ", ".join(f"{k} {v:.2f}" for k, v in self.seconds.items()))
        lines += [f"warning: {printable(text)}" for text in self.warnings]
        return "\n".join(lines)
