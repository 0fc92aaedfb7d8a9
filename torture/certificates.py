"""Certificates, evidence and error bars against arithmetic of 50 digits."""

from __future__ import annotations

import warnings

import numpy as np

from torture import Fuzzer, Report
from torture.certified_hulls import check_boosting, check_given_atoms, check_hull, check_mixture
from torture.certified_losses import (
    check_classifier,
    check_glm,
    check_lp,
    check_one_class,
    check_svc,
    check_svr,
)
from torture.certified_others import (
    check_feature_map,
    check_full_scale,
    check_lasso,
    check_quadratic,
)
from torture.certified_spans import check_exact_gp, check_gp, check_ridge

CHECKS = {
    check_gp: 8,
    check_ridge: 3,
    check_exact_gp: 2,
    check_full_scale: 2,
    check_feature_map: 1,
    check_quadratic: 1,
    check_lasso: 1,
    check_classifier: 1,
    check_glm: 2,
    check_svc: 1,
    check_svr: 1,
    check_lp: 1,
    check_one_class: 1,
    check_hull: 1,
    check_boosting: 1,
    check_mixture: 1,
    check_given_atoms: 1,
}
"""What is checked, and how often among all problems."""

TURNS = [check for check, times in CHECKS.items() for _ in range(times)]


def run(seed: int) -> Report:
    """One problem for one estimator."""
    rng = np.random.default_rng([seed, 2001])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TURNS[seed % len(TURNS)](rng, seed)


FUZZER = Fuzzer("certificates", run, share=3.0)
