"""Checks of scikit-learn that our estimators fail, and why.

For each estimator, as ``check_estimator`` and ``parametrize_with_checks`` take them in
``expected_failed_checks``.
"""

_NO_DIAGONAL = (
    "kernel='precomputed' only: a distance needs k(x, x) of both its points, and the check passes "
    "some rows of a kernel matrix, which do not hold it"
)

_NO_RESIDUAL = (
    "kernel='precomputed' only: a residual needs k(x, x), and the check passes some rows of a "
    "kernel matrix, which do not hold it"
)
_BOTH_VIEWS = (
    "fit_transform(X, Y) returns the scores of both views, as that of scikit-learn's CCA does, "
    "which the check treats by its name"
)
_TRUNCATED = (
    "kernel='precomputed' only: the check truncates a kernel matrix to integers, which makes it "
    "indefinite, and an indefinite kernel is refused by name"
)
_SHIFTED = (
    "kernel='precomputed' only: the check subtracts a constant from a kernel matrix, which makes "
    "it indefinite, and an indefinite kernel is refused by name"
)

_FOLDS = (
    "radius chosen by cross-validation only: a row of weight 2 is in one fold, two copies of it "
    "may be in two, so other folds and another radius are chosen"
)

_NOT_SQUARE = (
    "kernel='precomputed' only: the check passes rows of features where a kernel matrix is meant"
)
_ORDERED = (
    "coupling='full' only: rows are whitened by near rows that precede them in a random order, "
    "which is another one when rows are repeated"
)
_AVERAGED = (
    "kernel=None only: probabilities are averages over the spread of the log-odds, which is wide "
    "where rows are few, and differs from row to row; so they need not be in the order of "
    "decision_function, the mean of the log-odds"
)
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "ExactGPRegressor": {
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
    },
    "FullScaleGPClassifier": {"check_decision_proba_consistency": _AVERAGED},
    "FullScaleGPRegressor": {
        "check_sample_weight_equivalence_on_dense_data": _ORDERED,
        "check_sample_weight_equivalence_on_sparse_data": _ORDERED,
    },
    "HullBoostClassifier": {
        "check_sample_weight_equivalence_on_dense_data": (
            "predict_proba only: its slope is fitted on rows left out, and weights count relative "
            "to their mean, which repeating rows changes; votes and predictions agree"
        ),
    },
    "HullRegressor": {
        "check_sample_weight_equivalence_on_dense_data": _FOLDS,
        "check_sample_weight_equivalence_on_sparse_data": _FOLDS,
    },
    "GreedyFeatureMap": {
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
    },
    "LowRankOneClassSVM": {
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
        "check_outliers_fit_predict": _NOT_SQUARE,
        "check_outliers_train": _NOT_SQUARE,
    },
    "LowRankSVC": {
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
    },
    "LowRankSVR": {
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
    },
    "SpanNeighbors": {
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
        "check_methods_sample_order_invariance": _NO_DIAGONAL,
        "check_methods_subset_invariance": _NO_DIAGONAL,
        "check_fit_idempotent": _NO_DIAGONAL,
    },
    "SparseGPClassifier": {
        "check_decision_proba_consistency": _AVERAGED,
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
    },
    "SparseGPRegressor": {
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
    },
    "SparseKernelCCA": {
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
        "check_transformer_general": _BOTH_VIEWS,
        "check_transformer_data_not_an_array": _BOTH_VIEWS,
    },
    "SparseKernelGLM": {
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
        "check_regressors_no_decision_function": (
            "decision_function is f + b, of which predict is the mean, a quantile or an expectile"
        ),
    },
    "SparseKernelPCA": {
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
        "check_methods_sample_order_invariance": _NO_RESIDUAL,
        "check_methods_subset_invariance": _NO_RESIDUAL,
    },
    "SparseKernelRidge": {
        "check_positive_only_tag_during_fit": _SHIFTED,
        "check_estimators_dtypes": _TRUNCATED,
    },
    "TablePipeline": {
        "check_estimators_overwrite_params": (
            "it fits its steps, which are its parameters, as scikit-learn's Pipeline does"
        ),
        "check_parameters_default_constructible": "without steps it makes an encoder and a model",
        "check_complex_data": "complex targets are refused in other words",
    },
}
