"""scikit-learn's checks once more, with every number of rows above which work is sampled lowered.

The data of the checks have a few dozen rows. With the package's own limits nothing is drawn,
reserved or moved there; here it is.
"""

import pytest
from certificates.driver import thresholds
from estimators.test_sklearn_checks import (
    FIRST,
    LEARNED,
    OTHERS,
    expected_failures,
    in_verify,
    is_of_features,
    is_of_reading,
    name_of,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

FEW_ROWS = 12
WEIGHTS = "rows are drawn by their numbers, so that a row of weight 2 is not drawn like two rows"
PARTS = "predict_proba only: its slope rests on fits to parts of the rows, which agree to 1e-6"
PROBABILITY = "a probability averages over f, and grows with its mean only where spreads are alike"

# How targets and sparse formats are read; fits to sparse rows are among the checks of weights.
TARGETS = {
    "check_estimator_sparse_array",
    "check_estimator_sparse_tag",
    "check_regressors_int",
    "check_supervised_y_2d",
}

FULL_SCALE = [estimator for estimator in LEARNED if "FullScale" in repr(estimator)]
DRAWN = (
    "ExactGPRegressor",
    "FullScaleGPClassifier",
    "FullScaleGPRegressor",
    "SparseGPClassifier",
    "SparseGPRegressor",
    "SparseKernelGLM",
    "SparseKernelPCA",
)


def expected(estimator):
    """What sampling cannot give: weights as copies, where rows are drawn to learn or to choose."""
    known, name = expected_failures(estimator), type(estimator).__name__
    parameters = estimator.get_params()
    if "precomputed" in parameters.values():
        return known
    kinds = ["dense", "sparse"] if name in DRAWN and "n_basis=8" not in repr(estimator) else []
    reason = WEIGHTS
    if "loss='logistic'" in repr(estimator) and name == "KernelMatchingPursuitClassifier":
        kinds, reason = ["dense", "sparse"], PARTS
    return known | {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in kinds}


@pytest.fixture(autouse=True)
def few_rows():
    with thresholds(FEW_ROWS):
        yield


def skip_probabilities(estimator, check):
    """Whether ranks agree depends on the rows that are drawn."""
    gaussian = type(estimator).__name__ in ("FullScaleGPClassifier", "SparseGPClassifier")
    if gaussian and "decision_proba" in repr(check):
        pytest.skip(PROBABILITY)


# On random targets of thirty rows every row may be an error, which is what the warning says.
@pytest.mark.filterwarnings("ignore:with error_tol=:UserWarning")
@pytest.mark.filterwarnings("ignore:a component has shrunk:UserWarning")
@in_verify(
    parametrize_with_checks(FIRST, expected_failed_checks=expected),
    lambda estimator, check: is_of_features(check) or name_of(check) in TARGETS,
)
def test_scikit_learn_check_on_sampled_rows(estimator, check):
    skip_probabilities(estimator, check)
    check(estimator)


@pytest.mark.filterwarnings("ignore:n_neighbors=1 is not used:UserWarning")
@pytest.mark.filterwarnings("ignore:with error_tol=:UserWarning")
@pytest.mark.filterwarnings("ignore:a component has shrunk:UserWarning")
@in_verify(
    parametrize_with_checks([*OTHERS, *FULL_SCALE], expected_failed_checks=expected),
    lambda *case: True,
)
def test_scikit_learn_check_on_sampled_rows_in_other_configurations(estimator, check):
    skip_probabilities(estimator, check)
    if is_of_reading(check):
        pytest.skip("how arrays are read has nothing to do with parameters and rows that are drawn")
    rounded = getattr(check, "keywords", {}).get("X_dtype") == "float32"
    if rounded and repr(estimator) == "ExactGPRegressor(kernel='precomputed')":
        pytest.skip("a matrix of float32 numbers in a list of floats is not a kernel matrix")
    check(estimator)
