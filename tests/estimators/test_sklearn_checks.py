"""scikit-learn's own checks of an estimator, in the configurations people use."""

from functools import cache

import pytest
from expected_failures import EXPECTED_FAILURES
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter

from pursuit import (
    ExactGPRegressor,
    FullScaleGPClassifier,
    FullScaleGPRegressor,
    GreedyFeatureMap,
    HullBoostClassifier,
    HullMixture,
    HullRegressor,
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
    LowRankOneClassSVM,
    LowRankSVC,
    LowRankSVR,
    LPMachineClassifier,
    LPMachineRegressor,
    Search,
    SigmoidAtoms,
    SpanNeighbors,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelCCA,
    SparseKernelGLM,
    SparseKernelPCA,
    SparseKernelRidge,
    make_table_pipeline,
)

CONFIGURATIONS = [
    ExactGPRegressor(),
    ExactGPRegressor(solver="cg", residual_tol=1e-10, optimizer=None),
    ExactGPRegressor(kernel="precomputed"),
    FullScaleGPClassifier(optimizer=None),
    FullScaleGPClassifier(n_basis=2, n_neighbors=1, optimizer=None),
    FullScaleGPRegressor(optimizer=None),
    FullScaleGPRegressor(n_basis=2, n_neighbors=1, optimizer=None),
    FullScaleGPRegressor(n_basis=2, n_neighbors=1, coupling="full", optimizer=None),
    GreedyFeatureMap(),
    GreedyFeatureMap(search="fresh", projection="column"),
    GreedyFeatureMap(kernel="precomputed"),
    HullBoostClassifier(n_terms=20),
    HullMixture(),
    HullMixture(covariance_type="spherical", criterion="validation"),
    HullRegressor(n_terms=10),
    HullRegressor("features", radius=2.0),
    HullRegressor(loss="huber", radius=300.0),
    HullRegressor(loss="quantile", radius=300.0),
    HullRegressor(kernel="precomputed", radius=2.0),
    HullRegressor("features", n_terms=5),
    KernelMatchingPursuitClassifier(),
    KernelMatchingPursuitClassifier(loss="logistic"),
    KernelMatchingPursuitRegressor(),
    KernelMatchingPursuitRegressor(fitting="basic"),
    KernelMatchingPursuitRegressor(kernel="precomputed"),
    LPMachineClassifier(),
    LPMachineClassifier(kernel="precomputed"),
    LPMachineRegressor(),
    LPMachineRegressor(search=Search("pooled", pool_size=20)),
    LowRankOneClassSVM(),
    LowRankOneClassSVM(kernel="precomputed"),
    LowRankSVC(),
    LowRankSVC(loss="hinge"),
    LowRankSVC(multi_class="ovo"),
    LowRankSVC(kernel="precomputed"),
    LowRankSVR(),
    LowRankSVR(loss="epsilon_insensitive"),
    LowRankSVR(kernel="precomputed"),
    SigmoidAtoms(20),
    SpanNeighbors(),
    SpanNeighbors(kernel="precomputed"),
    SparseGPClassifier(),
    SparseGPClassifier(optimizer=None, search="fresh"),
    SparseGPClassifier(kernel="precomputed"),
    SparseGPRegressor(),
    SparseGPRegressor(search="fresh", optimizer=None),
    SparseGPRegressor(search="full", optimizer=None),
    SparseGPRegressor(kernel="precomputed"),
    SparseKernelCCA(),
    SparseKernelCCA(search="fresh", n_basis=10),
    SparseKernelCCA(kernel_x="precomputed", kernel_y="linear"),
    SparseKernelGLM(),
    SparseKernelGLM(loss="huber", optimizer=None, alpha=0.1),
    SparseKernelGLM(loss="quantile", quantile=0.1, search="fresh", optimizer=None),
    SparseKernelGLM(kernel="precomputed"),
    SparseKernelPCA(),
    SparseKernelPCA(n_basis=8, search="fresh"),
    SparseKernelPCA(kernel="precomputed"),
    SparseKernelRidge(),
    SparseKernelRidge(penalty="l1"),
    SparseKernelRidge(method="kappa", refit=True),
    SparseKernelRidge(method="random"),
    SparseKernelRidge(kernel="precomputed"),
    make_table_pipeline(SparseKernelRidge()),
    make_table_pipeline(LowRankSVC(random_state=0)),
]
# Learning takes most of the time of a fit, and is the same whatever comes after it.
LEARNED = [
    ExactGPRegressor(solver="cg", residual_tol=1e-10),
    FullScaleGPClassifier(),
    FullScaleGPRegressor(),
    SparseGPRegressor(search="fresh"),
    SparseGPRegressor(search="full"),
    SparseGPRegressor(certificate=None),
]

# These read arrays in one more way, which no parameter changes.
READING = {
    "check_estimator_sparse_matrix",
    "check_classifier_data_not_an_array",
    "check_regressor_data_not_an_array",
}
# What arrays may be and how many columns they have; what methods a class has. Features are read by
# the same lines whatever the other parameters are, so that one configuration of a class is enough
# where time is short. A kernel matrix is read by other lines.
FEATURES = READING | {
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_nan_inf",
    "check_f_contiguous_array_estimator",
    "check_fit2d_predict1d",
    "check_fit_score_takes_y",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_regressors_no_decision_function",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_pandas_series",
    "check_transformer_preserve_dtypes",
}
# They run three times, with other arrays: read-only float32 stays.
TRAINED = {"check_classifiers_train", "check_regressors_train"}
FIRST = [
    next(one for one in CONFIGURATIONS if type(one) is kind)
    for kind in dict.fromkeys(map(type, CONFIGURATIONS))
]
OTHERS = [estimator for estimator in CONFIGURATIONS if estimator not in FIRST]


def is_quick(estimator):
    """Whether rows of features are fitted without learning a kernel."""
    given = estimator.get_params()
    return given.get("optimizer") is None and "precomputed" not in given.values()


# Of each class the configuration whose features are read in all ways.
READERS = [
    next((one for one in CONFIGURATIONS if type(one) is type(first) and is_quick(one)), first)
    for first in FIRST
]


def is_of_reading(check):
    """Whether other checks differ in the kind of array only; read-only float32 stays."""
    keywords = getattr(check, "keywords", {})
    return name_of(check) in READING or keywords == {"readonly_memmap": True}


def name_of(check):
    return getattr(check, "func", check).__name__


def is_of_features(check):
    """Whether a check is about reading features, or repeats another one with other arrays."""
    plain = name_of(check) in TRAINED and not getattr(check, "keywords", {})
    return plain or name_of(check) in FEATURES or is_of_reading(check)


def is_read_elsewhere(estimator, check):
    """Whether another configuration of the class finds what the check finds."""
    if estimator in READERS:
        return False
    if "precomputed" in estimator.get_params().values():
        return is_of_reading(check)
    if name_of(check) == "check_estimator_sparse_array":
        # Formats become CSR; that a fit takes CSR is seen where its weights are looked at.
        on_csr = "check_sample_weight_equivalence_on_sparse_data"
        return has_fit_parameter(estimator, "sample_weight") and on_csr not in expected_failures(
            estimator
        )
    return is_of_features(check)


def in_verify(checks, later):
    """Parametrise by the same checks; those for which ``later`` is true are for --verify."""
    names, cases = checks.args

    def marked(case):
        values, marks = getattr(case, "values", case), getattr(case, "marks", ())
        return pytest.param(
            *values, marks=[*marks, pytest.mark.verify] if later(*values) else marks
        )

    return pytest.mark.parametrize(
        names, [marked(case) for case in cases], ids=cache(checks.kwargs["ids"])
    )


def expected_failures(estimator):
    """Most of ours concern matrices that are no kernel, so only precomputed ones may fail."""
    known = EXPECTED_FAILURES.get(type(estimator).__name__, {})
    if isinstance(getattr(estimator, "radius", None), float):
        known = {check: why for check, why in known.items() if not why.startswith("radius chosen")}
    if getattr(estimator, "coupling", None) == "late":
        known = {check: why for check, why in known.items() if not why.startswith("coupling=")}
    if estimator.get_params().get("kernel", "") is not None or estimator.optimizer is None:
        known = {check: why for check, why in known.items() if not why.startswith("kernel=None")}
    if "precomputed" in estimator.get_params().values():
        return known
    return {check: why for check, why in known.items() if not why.startswith("kernel='precomp")}


# On random targets of thirty rows every row may be an error, which is what the warning says.
@pytest.mark.filterwarnings("ignore:with error_tol=:UserWarning")
# Some checks fit to a few repeated points, or to fewer points than features.
@pytest.mark.filterwarnings("ignore:a component has shrunk:UserWarning")
@in_verify(
    parametrize_with_checks(CONFIGURATIONS, expected_failed_checks=expected_failures),
    is_read_elsewhere,
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@in_verify(
    parametrize_with_checks(LEARNED, expected_failed_checks=expected_failures), lambda *case: True
)
def test_scikit_learn_check_with_what_is_learned(estimator, check):
    check(estimator)


def test_every_expected_failure_has_a_reason():
    for failures in EXPECTED_FAILURES.values():
        assert all(name.startswith("check_") and len(why) > 20 for name, why in failures.items())
