"""Learning hyper-parameters from data: evidence, moving the basis, calibration.

Imports greedy and what lies below it.
"""

from pursuit.tuning.calibration import (
    LOSS_IS_NOTHING,
    NO_REPLICATES,
    Calibration,
    Confidence,
    HeldOut,
    Latents,
    LeavableRows,
    LeftOut,
    Replicates,
    Ridged,
    averaged_logistic,
    calibrate,
    error_curve,
    fit_confidence,
    fit_spread,
    flat_size,
    log_loss,
    loss_curve,
    next_gain,
)
from pursuit.tuning.categories import (
    first_scales,
    learn_fixed,
    learn_mixed,
    learn_pairs,
    mixed_kernel,
)
from pursuit.tuning.class_shapes import learn_shape
from pursuit.tuning.evidence import NOISE_FLOOR, Evidence, learn_noise
from pursuit.tuning.few_rows import are_few, learn_few
from pursuit.tuning.growth import grow_additive
from pursuit.tuning.learning import learn_family, learn_given
from pursuit.tuning.near_rows import (
    LeftOutGroups,
    NearChoice,
    choose_near_classes,
    choose_near_rows,
    noise_limits,
    raise_ridge,
    tune_near_rows,
)
from pursuit.tuning.optimiser import Learned, NoiseRange, never
from pursuit.tuning.refine import BATCH_ROWS, Mover
from pursuit.tuning.report import AtBound, LearningReport, SearchStep, Stage, at_bounds
from pursuit.tuning.search import search_kernel
from pursuit.tuning.shrinkage import Shrinkage, fit_shrinkage, values_left_out

__all__ = [
    "BATCH_ROWS",
    "LOSS_IS_NOTHING",
    "NOISE_FLOOR",
    "NO_REPLICATES",
    "AtBound",
    "Calibration",
    "Confidence",
    "Evidence",
    "HeldOut",
    "Latents",
    "Learned",
    "LearningReport",
    "LeavableRows",
    "LeftOut",
    "LeftOutGroups",
    "Mover",
    "NearChoice",
    "NoiseRange",
    "Replicates",
    "Ridged",
    "SearchStep",
    "Shrinkage",
    "Stage",
    "are_few",
    "at_bounds",
    "averaged_logistic",
    "calibrate",
    "choose_near_classes",
    "choose_near_rows",
    "error_curve",
    "first_scales",
    "fit_confidence",
    "fit_shrinkage",
    "fit_spread",
    "flat_size",
    "grow_additive",
    "learn_family",
    "learn_few",
    "learn_fixed",
    "learn_given",
    "learn_mixed",
    "learn_noise",
    "learn_pairs",
    "learn_shape",
    "log_loss",
    "loss_curve",
    "mixed_kernel",
    "never",
    "next_gain",
    "noise_limits",
    "raise_ridge",
    "search_kernel",
    "tune_near_rows",
    "values_left_out",
]
