"""Certificates of convex problems where rounding decides: true with the allowance, false without.

Each seed is a problem in which values as computed are on the wrong side of those in 50 digits.
"""

import warnings

import numpy as np
import pytest

from pursuit.bounds import Certificate
from pursuit.rounding import Rounded
from torture.certified_hulls import check_hull
from torture.certified_losses import check_classifier, check_glm, check_lp, check_svc, check_svr
from torture.certified_others import check_lasso

CASES = [
    (check_svc, 0),
    (check_svr, 7),
    (check_lp, 7),
    (check_classifier, 2),
    (check_glm, 4),
    (check_lasso, 11),
    (check_hull, 23),
]


def violations(check, seed):
    """Bounds that are false."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check(np.random.default_rng(seed), seed).failures
    return [failure for failure in found if "wrong by" in failure]


def bare(number):
    return None if number is None else Rounded(number.value, np.zeros_like(number.value))


@pytest.mark.parametrize(("check", "seed"), CASES)
def test_the_allowance_is_needed_and_enough(check, seed, monkeypatch):
    assert violations(check, seed) == []
    proved = Certificate.proved.__func__

    def as_computed(cls, upper, lower, *args, minimum_upper=None, **words):
        ends = bare(upper), bare(lower)
        return proved(cls, *ends, *args, minimum_upper=bare(minimum_upper), **words)

    monkeypatch.setattr(Certificate, "proved", classmethod(as_computed))
    assert violations(check, seed)
