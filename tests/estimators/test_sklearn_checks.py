"""scikit-learn's own checks of an estimator, in the configurations people use."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from pursuit import GreedyFeatureMap, SpanNeighbors, SparseGPRegressor
from pursuit.testing import EXPECTED_FAILURES

CONFIGURATIONS = [
    GreedyFeatureMap(),
    GreedyFeatureMap(search="fresh", projection="column"),
    GreedyFeatureMap(kernel="precomputed"),
    SpanNeighbors(),
    SpanNeighbors(kernel="precomputed"),
    SparseGPRegressor(),
    SparseGPRegressor(search="fresh"),
    SparseGPRegressor(search="full"),
    SparseGPRegressor(certificate=None),
    SparseGPRegressor(kernel="precomputed"),
]


def expected_failures(estimator):
    """All of ours concern matrices that are no kernel, so only precomputed ones may fail."""
    if estimator.kernel != "precomputed":
        return {}
    return EXPECTED_FAILURES[type(estimator).__name__]


@parametrize_with_checks(CONFIGURATIONS, expected_failed_checks=expected_failures)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_every_expected_failure_has_a_reason():
    for failures in EXPECTED_FAILURES.values():
        assert all(name.startswith("check_") and len(why) > 20 for name, why in failures.items())
