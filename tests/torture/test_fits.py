"""A few adversarial fits, and proof that the fuzzer sees what it looks for."""

from __future__ import annotations

import numpy as np
import pytest

import pursuit
from pursuit import SparseKernelRidge
from torture import fits
from torture.fits import ESTIMATORS, FUZZER, run
from torture.hostile import Data
from torture.offers import calls

MENDED = (
    *(1001711, 1003285, 1003924, 1004675, 1008161, 1008665, 1012873, 1016698, 3008831),
    3026515,
    4018789,
    6002616,
    9012828,
    9024209,
    12001793,
    12017612,
    15048682,
    18004384,
)
"""Float32 tiles of rows beyond its range, Sobol's indices where rows that occur have hardly any
variance, steps of boosting that are as small as its scale is large, columns without a slope whose
permutation moves the predictions, a hull of functions that are nearly 0, draws of functions where
the noise is far from 1, pre-images of scores that do not vary, a ridge below the rounding of the
curvature, further targets far beyond the fitted ones, a kernel that is zero everywhere, operators
and merged models of rows that are far from each other, means beyond float64, costs that
underflow: each failed once."""


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_hostile_data_get_an_answer_or_a_named_refusal(first, size):
    for seed in range(first, first + size(25, 250)):
        assert run(seed).failures == []


@pytest.mark.parametrize("seed", MENDED)
def test_what_failed_once_is_mended(seed):
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


class _Lucky:
    """Numbers of a generator, but for luck: every offer is drawn."""

    def __init__(self):
        self._rng = np.random.default_rng(0)

    def random(self, n=None):
        return 0.0 if n is None else np.zeros(n)

    def __getattr__(self, name):
        return getattr(self._rng, name)


def _methods(model):
    public = {name for name in dir(type(model)) if not name.startswith(("_", "set_"))}
    return {
        each for each in public if callable(getattr(type(model), each)) and hasattr(model, each)
    }


def test_all_that_models_offer_is_drawn():
    X = np.random.default_rng(0).standard_normal((12, 2))
    data = Data(X, X[:5], X[:, 0] > 0, None, "")
    # Tools of scikit-learn, and what other calls go through or put into another form.
    others = {"fit", "fit_predict", "fit_transform", "get_metadata_routing", "get_params"}
    others |= {"get_feature_names_out", "report", "bic", "emptied", "radius_neighbors_graph"}
    others |= {"predict_log_proba"}
    for name in ESTIMATORS:
        target = X if name == "SparseKernelCCA" else X[:, 0] ** 2
        target = data.y if name.endswith(("Classifier", "SVC")) else target
        model = getattr(pursuit, name)().fit(X, target)
        drawn = {label.partition(" ")[0] for label, _ in calls(_Lucky(), model, data)}
        assert _methods(model) - drawn <= others, name


def test_a_file_that_changes_the_model_is_seen(monkeypatch):
    X = np.random.default_rng(0).standard_normal((12, 2))
    data = Data(X, X[:5], X[:, 0], None, "")
    model = SparseKernelRidge(n_basis=4).fit(X, X[:, 0])
    save = dict(calls(_Lucky(), model, data))["save"]
    save()
    load = pursuit.load

    def forgetful(path, **given):
        again = load(path, **given)
        again.dual_coef_ = again.dual_coef_ + 1.0
        return again

    monkeypatch.setattr(pursuit, "load", forgetful)
    with pytest.raises(AssertionError):
        save()


def test_all_estimators_with_a_fit_are_drawn():
    public = {
        name
        for name in pursuit.__all__
        if isinstance(getattr(pursuit, name), type) and hasattr(getattr(pursuit, name), "fit")
    }
    # Tables are made of text, and atoms are fitted by the regressors that use them.
    assert public - set(ESTIMATORS) == {"SigmoidAtoms", "TableEncoder", "TablePipeline"}
