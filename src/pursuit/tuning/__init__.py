"""Hyper-parameters from the data: evidence, moving the basis, calibration.

Imports greedy and what lies below it.
"""

from pursuit.tuning.calibration import Calibration, HeldOut, calibrate
from pursuit.tuning.confidence import (
    Confidence,
    Latents,
    averaged_logistic,
    fit_confidence,
    log_loss,
)
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.learning import (
    Learned,
    NoiseRange,
    Stage,
    at_bounds,
    learn_family,
    learn_given,
    never,
)
from pursuit.tuning.noise import NOISE_FLOOR, learn_noise
from pursuit.tuning.refine import BATCH_ROWS, Mover
from pursuit.tuning.report import LearningReport, feature_relevance
from pursuit.tuning.shapes import learn_shape
from pursuit.tuning.size import LOSS_IS_NOTHING, error_curve, flat_size, loss_curve

__all__ = [
    "BATCH_ROWS",
    "LOSS_IS_NOTHING",
    "NOISE_FLOOR",
    "Calibration",
    "Confidence",
    "Evidence",
    "HeldOut",
    "Latents",
    "Learned",
    "LearningReport",
    "Mover",
    "NoiseRange",
    "Stage",
    "at_bounds",
    "averaged_logistic",
    "calibrate",
    "error_curve",
    "feature_relevance",
    "fit_confidence",
    "flat_size",
    "learn_family",
    "learn_given",
    "learn_noise",
    "learn_shape",
    "log_loss",
    "loss_curve",
    "never",
]
