"""What the report of learning prints, and the relevance of features."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)

from pursuit import on_columns
from pursuit.estimators.gp.stages import feature_relevance, length_units
from pursuit.linalg import PredictiveVariance
from pursuit.tuning import Calibration, LearningReport, Stage


def test_empty_report():
    assert str(LearningReport()).splitlines()[:2] == ["kernel family: given", "basis: not moved"]


def test_a_kept_kernel_comes_with_the_reason():
    text = str(LearningReport(kept="optimizer=None keeps the kernel"))
    assert text.splitlines()[0] == "kernel family: given (optimizer=None keeps the kernel)"


def test_full_report():
    calibration = Calibration(
        0.1, 0.2, PredictiveVariance(0.3, 0.5), 1.0, 0.9, 1.4, 1.3, 77, "heavy tails"
    )
    text = str(
        LearningReport(
            family="matern32",
            stages=[Stage("rbf", 500, -1.25, 17, 0.5), Stage("matern32", 2000, -1.125, 9, 2.5)],
            seconds={"learn": 3.0, "fit": 0.25},
            relevance=np.array([0.1, 2.5, 1.0]),
            feature_names=["width", "height", "depth"],
            moved="moved by 100 steps",
            calibration=calibration,
            warnings=["look at this"],
        )
    )
    lines = text.splitlines()
    assert lines[0] == "kernel family: matern32"
    assert lines[1].split() == "rbf 500 rows evidence per row -1.2500 17 evaluations 0.50 s".split()
    assert lines[2].split()[:2] == ["matern32", "2000"]
    names = [line.split()[0] for line in lines[4:7]]
    assert names == ["height", "depth", "width"], "the most relevant come first"
    assert "basis: moved by 100 steps" in lines
    assert f"calibration: {calibration}" in lines
    assert "seconds: learn 3.00, fit 0.25" in lines
    assert lines[-1] == "warning: look at this"


def test_many_features_are_cut_at_twenty():
    relevance = np.arange(30.0)
    text = str(LearningReport(relevance=relevance, feature_names=[f"x{j}" for j in range(30)]))
    assert " x29 " in text
    assert " x10 " in text
    assert " x9 " not in text


DEVIATIONS = np.array([1.0, 10.0, 0.1])


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (RBF([1.0, 5.0, 1.0]), [1.0, 2.0, 0.1]),
        (ConstantKernel() * Matern([2.0, 10.0, 0.1]), [0.5, 1.0, 1.0]),
        (RBF([1.0, 5.0, 1.0]) + Matern([2.0, 1.0, 0.1]), [1.0, 10.0, 1.0]),
        (RBF([1.0, 5.0, 1.0]) + RBF(0.1), [1.0, 2.0, 0.1]),
        (RBF(1.0), None),
        (DotProduct(), None),
        (RBF([1.0, 5.0, 1.0]) + DotProduct(), [1.0, 2.0, 0.1]),
        (on_columns(RBF(0.5), [1]), [0.0, 20.0, 0.0]),
        (ConstantKernel() * on_columns(RBF([2.0, 0.5]), [2, 0]) + WhiteKernel(), [2.0, 0.0, 0.05]),
        (on_columns(on_columns(Matern(5.0), [1]), [0, 1]) ** 2, [0.0, 2.0, 0.0]),
        (on_columns(RBF(0.5), [1]) + on_columns(DotProduct(), [0]), None),
        (on_columns(RBF(0.5), [1]) + on_columns(RBF(1.0), [0, 2]), None),
        (on_columns(ExpSineSquared(2.0, np.pi), [0]), [1.0, 0.0, 0.0]),
    ],
)
def test_relevance(kernel, expected):
    found = feature_relevance(kernel, DEVIATIONS)
    if expected is None:
        assert found is None
    else:
        np.testing.assert_allclose(found, expected)


def test_a_constant_feature_has_no_relevance():
    found = feature_relevance(RBF([1.0, 2.0]), np.array([3.0, 0.0]))
    np.testing.assert_array_equal(found, [3.0, 0.0])


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (RBF(0.5), [0.5, 0.5, 0.5]),
        (RBF([1.0, 5.0, 1.0]) + Matern([2.0, 1.0, 0.1]), [1.0, 1.0, 0.1]),
        (DotProduct(), [1.0, 10.0, 0.1]),
        (on_columns(RBF(0.5), [1]), [1.0, 0.5, 0.1]),
        (on_columns(ExpSineSquared(2.0, np.pi), [2]) + RBF(3.0), [3.0, 3.0, 1.0]),
    ],
)
def test_units_in_which_points_move(kernel, expected):
    np.testing.assert_allclose(length_units(kernel, DEVIATIONS), expected)


def test_a_constant_feature_has_a_unit():
    units = length_units(DotProduct(), np.array([2.0, 0.0]))
    np.testing.assert_array_equal(units, [2.0, 1.0])
