"""Certificates of convex problems where rounding decides: true with the allowance, false without.

Each seed is a problem in which values as computed are on the wrong side of those in 50 digits, with
one version of NumPy and one processor at least. And what costs nothing: targets far from zero.
"""

import warnings

import numpy as np
import pytest

from pursuit import LowRankSVR, LPMachineRegressor
from pursuit.bounds import Certificate
from pursuit.rounding import Rounded
from torture.certified_hulls import check_hull
from torture.certified_losses import check_classifier, check_glm, check_lp, check_svc, check_svr
from torture.certified_others import check_lasso

CASES = [
    (check_svc, (0, 8, 10)),
    (check_svr, (7, 14, 52)),
    (check_lp, (7, 10, 21)),
    (check_classifier, (2, 4, 7)),
    (check_glm, (4, 7, 19)),
    (check_lasso, (11, 35, 41)),
    (check_hull, (23, 26, 77)),
]


def violations(check, seed):
    """Bounds that are false."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check(np.random.default_rng(seed), seed).failures
    return [failure for failure in found if "wrong by" in failure]


def bare(number):
    return None if number is None else Rounded(number.value, np.zeros_like(number.value))


@pytest.mark.parametrize(("check", "seeds"), CASES)
def test_the_allowance_is_needed_and_enough(check, seeds, monkeypatch):
    assert [violations(check, seed) for seed in seeds] == [[]] * len(seeds)
    proved = Certificate.proved.__func__

    def as_computed(cls, upper, lower, *args, minimum_upper=None, **words):
        ends = bare(upper), bare(lower)
        return proved(cls, *ends, *args, minimum_upper=bare(minimum_upper), **words)

    monkeypatch.setattr(Certificate, "proved", classmethod(as_computed))
    assert any(violations(check, seed) for seed in seeds)


@pytest.mark.parametrize(
    "estimator",
    [
        LowRankSVR(C=10.0, epsilon=0.25, loss="epsilon_insensitive", refine=False),
        LowRankSVR(C=10.0, epsilon=0.25, loss="squared_epsilon_insensitive", refine=False),
        LPMachineRegressor(C=10.0, epsilon=0.25),
    ],
    ids=["tube", "squared tube", "linear programme"],
)
def test_targets_far_from_zero_cost_no_digits(estimator):
    """An intercept takes up a constant: neither P(f) nor the dual value depends on it."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2))
    # Multiples of 2⁻¹⁰, exact with and without the constant.
    y = np.round(1024.0 * np.sin(2.0 * X[:, 0])) / 1024.0
    near = estimator.set_params(random_state=0).fit(X, y).certificate_
    far = estimator.fit(X, y + 2.0**30).certificate_
    assert far.upper == pytest.approx(near.upper, rel=1e-3)
    # A stored intercept is rounded to 2⁻²³, which moves P itself; P is known as exactly as before.
    assert far.rounding <= 4.0 * near.rounding
