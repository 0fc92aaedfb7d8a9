"""Weights of classes, beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from pursuit.estimators.classes import class_weights

NAMES = [np.array([0, 2, 5]), np.array(["a", "b", "c"])]


@pytest.mark.parametrize("classes", NAMES, ids=["numbers", "text"])
@pytest.mark.parametrize("given", [None, "balanced", "dict"])
def test_a_weight_counts_as_so_many_rows(classes, given):
    rng = np.random.default_rng(0)
    labels, weights = rng.integers(0, 3, 40), rng.integers(1, 4, 40)
    given = {classes[1].item(): 2.5, classes[2].item(): 0.5} if given == "dict" else given
    found = class_weights(given, classes, labels, weights.astype(float))
    repeated = classes[np.repeat(labels, weights)]
    np.testing.assert_array_equal(
        found, compute_class_weight(given, classes=classes, y=repeated), strict=True
    )


def test_classes_that_are_fractions_have_weights_of_their_own():
    classes, labels = np.array([0.25, 0.75]), np.array([0, 1, 1])
    assert class_weights({0.75: 3.0}, classes, labels, np.ones(3)).tolist() == [1.0, 3.0]
