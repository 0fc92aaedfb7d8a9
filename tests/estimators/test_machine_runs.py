"""Machines and matching pursuit: fits that are killed and go on, and fits that run out of time."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from pursuit import (
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
    LowRankOneClassSVM,
    LowRankSVC,
    LowRankSVR,
    LPMachineClassifier,
    LPMachineRegressor,
    Search,
)
from pursuit.estimators.fit_run import FitRun
from pursuit.greedy import Clock, Deadline


class KilledError(Exception):
    """What ends a fit after a stage."""


class CountedKernel:
    """An RBF that counts its values; it has a name, as functions have."""

    __qualname__ = "counted"

    def __init__(self):
        self.entries = 0

    def __call__(self, A, B):
        self.entries += len(A) * len(B)
        return rbf_kernel(A, B, gamma=0.5)


def data(m=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=m)


def regress(model, X, y):
    return model.fit(X, y)


def classify(model, X, y):
    return model.fit(X, y > 0)


def three(model, X, y):
    return model.fit(X, np.digitize(y, [-1.0, 1.0]))


COMMON = {"random_state": 3, "n_jobs": 1}
CASES = {
    "svc": (LowRankSVC, {"n_basis": 30}, classify),
    "svc, grown": (LowRankSVC, {"n_basis": 200, "tol": 1e-3, "C": 5.0}, classify),
    "svc, hinge, pooled": (
        LowRankSVC,
        {"n_basis": 30, "loss": "hinge", "search": Search(pool_size=60, rows=120)},
        three,
    ),
    "svr, full": (LowRankSVR, {"n_basis": 30, "search": "full"}, regress),
    "one class": (LowRankOneClassSVM, {"n_basis": 20}, regress),
    "lp": (LPMachineRegressor, {}, regress),
    "lp, pooled": (LPMachineClassifier, {"search": Search("pooled", pool_size=40)}, three),
    "matching": (KernelMatchingPursuitRegressor, {}, regress),
    "matching, validation": (KernelMatchingPursuitRegressor, {"n_basis": "validation"}, regress),
    "matching, logistic": (
        KernelMatchingPursuitClassifier,
        {"loss": "logistic", "n_basis": 6, "search": Search(pool_size=50, rows=100)},
        classify,
    ),
}


def state(model):
    """What decides every prediction, and what is proved."""
    certificate = getattr(model, "certificate_", None)
    bound = getattr(model, "generalization_bound_", None)
    return [
        model.dual_coef_,
        np.asarray(model.intercept_),
        model.basis_indices_,
        np.empty(0) if certificate is None else certificate.lower_per_output,
        np.empty(0) if bound is None else bound.value,
        model.path_.value,
    ]


def kill_after(monkeypatch, n):
    """Let a fit record n stages and end it at the next one; returns the names it has recorded."""
    names, recorded = [], FitRun.recorded

    def counted(self, name, compute):
        if len(names) == n:
            raise KilledError
        result = recorded(self, name, compute)
        names.append(name)
        return result

    monkeypatch.setattr(FitRun, "recorded", counted)
    return names


@pytest.mark.parametrize("case", CASES)
def test_a_killed_fit_goes_on_to_the_identical_model(case, tmp_path, monkeypatch):
    kind, options, fit = CASES[case]
    X, y = data()
    with monkeypatch.context() as patch:
        names = kill_after(patch, np.inf)
        kernel = CountedKernel()
        folder = tmp_path / "whole"
        whole = fit(kind(kernel, checkpoint=folder, **options, **COMMON), X, y)
        total = kernel.entries
    plain = fit(kind(CountedKernel(), **options, **COMMON), X, y)
    for one, other in zip(state(whole), state(plain), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(set(names)) == len(names) >= 2
    for n in {1, len(names) // 2, len(names) - 1}:
        folder = tmp_path / f"{n}"
        kernel = CountedKernel()
        with monkeypatch.context() as patch:
            kill_after(patch, n)
            killed = kind(kernel, checkpoint=folder, **options, **COMMON)
            with pytest.raises(KilledError):
                fit(killed, X, y)
        kernel = CountedKernel()
        again = fit(kind(kernel, checkpoint=folder, **options, **COMMON), X, y)
        assert kernel.entries < total
        for one, other in zip(state(again), state(whole), strict=True):
            np.testing.assert_array_equal(one, other)


def fail(*arguments):
    raise KilledError


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_moved_points_are_not_moved_again(loss, tmp_path, monkeypatch):
    X, y = data()
    options = {"gamma": 0.5, "n_basis": 20, "loss": loss, "refine": 5, **COMMON}
    whole = LowRankSVC(**options).fit(X, y > 0)
    with monkeypatch.context() as patch:
        names = kill_after(patch, 2)
        patch.setattr("pursuit.estimators.svm.fit._certify", fail)
        with pytest.raises(KilledError):
            LowRankSVC(checkpoint=tmp_path, **options).fit(X, y > 0)
    assert names == ["choose", "move-0"]
    monkeypatch.setattr("pursuit.estimators.svm.fit.move", fail)
    again = LowRankSVC(checkpoint=tmp_path, **options).fit(X, y > 0)
    for one, other in zip(state(again), state(whole), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("case", ["svr, full", "lp", "matching"])
def test_a_checkpoint_of_something_else_is_refused(case, tmp_path):
    kind, options, fit = CASES[case]
    X, y = data(60)
    fit(kind(checkpoint=tmp_path, **options, **COMMON), X, y)
    with pytest.raises(ValueError, match="was begun with other data"):
        fit(kind(checkpoint=tmp_path, **options, **COMMON), X, y + 1.0)
    with pytest.raises(ValueError, match=r"was begun with .*gamma=None \(now 2.0\)"):
        fit(kind(gamma=2.0, checkpoint=tmp_path, **options, **COMMON), X, y)


@pytest.fixture
def no_time(monkeypatch):
    """Time is over from the beginning of a fit."""
    monkeypatch.setattr(Clock, "left", lambda clock, share=1.0: -1.0)
    monkeypatch.setattr(Deadline, "__call__", lambda rule, pursuit: "time")


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("case", CASES)
def test_a_fit_without_time_ends_with_a_usable_model(case):
    kind, options, fit = CASES[case]
    X, y = data()
    model = kind(gamma=0.5, max_time=1.0, **options, **COMMON)
    if "tol" in options:
        with pytest.warns(ConvergenceWarning, match="Raise max_time or tol"):
            fit(model, X, y)
    else:
        fit(model, X, y)
    assert model.path_.stop_reason == "time"
    assert model.predict(X[:5]).shape == (5,)
    # LP machines finish the first round that adds functions.
    assert 1 <= model.n_basis_ <= (30 if "lp" in case else 1)


@pytest.mark.usefixtures("no_time")
def test_without_time_nothing_is_moved_or_certified():
    X, y = data()
    options = {"gamma": 0.5, "n_basis": 20, "refine": 5, "max_time": 1.0, **COMMON}
    model = LowRankSVC(**options).fit(X, y > 0)
    assert np.all(model.basis_indices_ >= 0)
    assert model.certificate_ is None
    # One that was asked for by name is computed all the same.
    assert LowRankSVC(certificate="exact", **options).fit(X, y > 0).certificate_ is not None
