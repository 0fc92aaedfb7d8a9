"""What learning did, for people to read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.tuning.calibration import Calibration
from pursuit.tuning.confidence import Confidence
from pursuit.tuning.learning import Stage


@dataclass(frozen=True)
class LearningReport:
    """Families and their evidence, stages and their times, the features' relevance, warnings.

    Attributes
    ----------
    family : str
        The kernel family chosen, or "given".
    stages : list of Stage
        Every maximisation of the evidence: family, rows, evidence a row, evaluations, seconds.
    seconds : dict
        Time of each part of the fit.
    relevance : array of shape (n_features,), optional
        Standard deviation of each feature over its length scale: how much of its range matters.
    feature_names : list of str
        Names to print the relevance with.
    moved : str
        What became of moving the basis.
    calibration : Calibration or Confidence, optional
        What leave-one-out changed.
    warnings : list of str
        What to look at, and what to do about it.
    """

    family: str = "given"
    stages: list[Stage] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    relevance: Floats | None = None
    feature_names: list[str] = field(default_factory=list)
    moved: str = "not moved"
    calibration: Calibration | Confidence | None = None
    warnings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"kernel family: {self.family}"]
        lines += [
            f"  {stage.family:<13} {stage.n_rows:>5} rows  evidence a row "
            f"{stage.evidence_per_row:9.4f}  {stage.n_evaluations:>3} evaluations  "
            f"{stage.seconds:6.2f} s"
            for stage in self.stages
        ]
        if self.relevance is not None:
            lines.append("relevance of the features (sd / length scale):")
            lines += [
                f"  {self.feature_names[j]:<20} {self.relevance[j]:.3g}"
                for j in np.argsort(-self.relevance)[:20]
            ]
        lines.append(f"basis: {self.moved}")
        if self.calibration is not None:
            lines.append(f"calibration: {self.calibration}")
        lines.append("seconds: " + ", ".join(f"{k} {v:.2f}" for k, v in self.seconds.items()))
        lines += [f"warning: {text}" for text in self.warnings]
        return "\n".join(lines)


def feature_relevance(kernel: Any, deviations: Floats) -> Floats | None:
    """sd_j / ℓ_j, the largest over the kernel's parts that have a length scale for each feature."""
    found = [
        deviations / np.asarray(value, dtype=float)
        for name, value in kernel.get_params().items()
        if name.endswith("length_scale") and np.size(value) == len(deviations)
    ]
    return np.max(found, axis=0) if found else None
