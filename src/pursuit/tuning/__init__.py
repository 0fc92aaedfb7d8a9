"""Hyper-parameters from the data: evidence, moving the basis, calibration.

Imports greedy and what lies below it.
"""

from pursuit.tuning.calibration import Calibration, HeldOut, calibrate
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.learning import Learned, NoiseRange, Stage, at_bounds, learn_family, learn_given
from pursuit.tuning.noise import NOISE_FLOOR, learn_noise
from pursuit.tuning.refine import Mover
from pursuit.tuning.report import LearningReport, feature_relevance
from pursuit.tuning.size import error_curve, flat_size

__all__ = [
    "NOISE_FLOOR",
    "Calibration",
    "Evidence",
    "HeldOut",
    "Learned",
    "LearningReport",
    "Mover",
    "NoiseRange",
    "Stage",
    "at_bounds",
    "calibrate",
    "error_curve",
    "feature_relevance",
    "flat_size",
    "learn_family",
    "learn_given",
    "learn_noise",
]
