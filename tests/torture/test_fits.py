"""A few adversarial fits, and proof that the fuzzer sees what it looks for."""

from __future__ import annotations

import numpy as np
import pytest

import pursuit
from torture import fits
from torture.fits import ESTIMATORS, FUZZER, run


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_hostile_data_get_an_answer_or_a_named_refusal(first, size):
    for seed in range(first, first + size(25, 250)):
        assert run(seed).failures == []


def test_a_seed_brings_the_same_fit_back():
    assert run(7).counts == run(7).counts
    assert FUZZER.run is run


class _Broken:
    """An estimator in which one thing is wrong."""

    def __init__(self, wrong="", **parameters):
        self.wrong = wrong

    def fit(self, X, y=None, sample_weight=None):
        if self.wrong == "warning":
            np.log(np.zeros(1))
        if self.wrong == "index":
            [][0]
        if self.wrong == "nameless":
            raise ValueError("array must not contain infs or NaNs")
        if self.wrong == "named":
            raise ValueError("y is too large: divide it by 10.")
        return self

    def predict(self, X):
        return np.full(len(X), np.nan if self.wrong == "nan" else 0.0)


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ("nan", "result has NaN"),
        ("warning", "RuntimeWarning leaked"),
        ("index", "IndexError"),
        ("nameless", "infs or NaNs"),
        ("named", None),
        ("", None),
    ],
)
def test_what_is_wrong_is_seen(monkeypatch, wrong, found):
    monkeypatch.setattr(pursuit, "Broken", lambda **given: _Broken(wrong), raising=False)
    monkeypatch.setattr(fits, "FUNCTIONS", ())
    monkeypatch.setattr(fits, "ESTIMATORS", {"Broken": (lambda rng: {}, "numbers")})
    failures = run(1).failures
    assert (found is None and failures == []) or any(found in one for one in failures)


def test_all_estimators_with_a_fit_are_drawn():
    public = {
        name
        for name in pursuit.__all__
        if isinstance(getattr(pursuit, name), type) and hasattr(getattr(pursuit, name), "fit")
    }
    # Tables are made of text, and atoms are fitted by the regressors that use them.
    assert public - set(ESTIMATORS) == {"SigmoidAtoms", "TableEncoder", "TablePipeline"}
