"""Which of scikit-learn's test files are run, and which of their tests are left out, and why."""

from __future__ import annotations

FILES = {
    "test_gpr": "sklearn.gaussian_process.tests.test_gpr",
    "test_gpc": "sklearn.gaussian_process.tests.test_gpc",
    "test_kernel_approximation": "sklearn.tests.test_kernel_approximation",
    "test_kernel_pca": "sklearn.decomposition.tests.test_kernel_pca",
    "test_kernel_ridge": "sklearn.tests.test_kernel_ridge",
    "test_svm": "sklearn.svm.tests.test_svm",
    "test_neighbors": "sklearn.neighbors.tests.test_neighbors",
    "test_pls": "sklearn.cross_decomposition.tests.test_pls",
    "test_weight_boosting": "sklearn.ensemble.tests.test_weight_boosting",
    "test_gaussian_mixture": "sklearn.mixture.tests.test_gaussian_mixture",
    "test_sparse": "sklearn.svm.tests.test_sparse",
    "test_multiclass": "sklearn.tests.test_multiclass",
    "test_bagging": "sklearn.ensemble.tests.test_bagging",
    "test_ensemble_common": "sklearn.ensemble.tests.test_common",
    "test_search": "sklearn.model_selection.tests.test_search",
    "test_validation": "sklearn.model_selection.tests.test_validation",
    "test_classification_threshold": (
        "sklearn.model_selection.tests.test_classification_threshold"
    ),
    "test_self_training": "sklearn.semi_supervised.tests.test_self_training",
    "test_confusion_matrix_display": "sklearn.metrics._plot.tests.test_confusion_matrix_display",
    "test_dbscan": "sklearn.cluster.tests.test_dbscan",
    "test_t_sne": "sklearn.manifold.tests.test_t_sne",
    "test_utils_validation": "sklearn.utils.tests.test_validation",
}
"""Modules of tests by the name that the command line and the table give them."""

AGAIN = {
    "test_gpr-exact": ("test_gpr", "ExactProcess"),
    "test_gpr-full-scale": ("test_gpr", "FullScaleProcess"),
}
"""Files that are run again, with another adapter in place."""

_EVIDENCE = "log_marginal_likelihood is ExactGPRegressor's: a sparse model keeps no rows for it"
_CLASS_EVIDENCE = "log_marginal_likelihood at other hyper-parameters: no rows are kept for it"
_PRIOR = "a model that is not fitted has no predictions: NotFittedError"
_PRIVATE = "private attributes of scikit-learn's class"
_WORDS = "the same is refused, in words of our own"
_LATENT = "latent_mean_and_variance: decision_function has the mean alone"
_ARRAYS = "arrays of other libraries (array API) are not taken"
_LIBSVM = "coefficients, supports or iterations as libsvm stores them; ours are on the basis"
_COEF = "coef_ of linear kernels: scikit-learn's LinearSVC and LinearSVR are for these"
_LIMIT = "no limit of iterations, and so no warning of it"
_INDEFINITE = "kernels that are not positive semi-definite are refused"
_NEGATIVE = "negative weights are refused"
_PROBABILITY = "probabilities are CalibratedClassifierCV's, as scikit-learn advises since 1.8"
_LINEAR_CCA = "loadings, weights, coefficients and predictions of linear CCA; ours has kernels"
_EM = "the path of EM from given or drawn starts: components are grown, and as many as pay"
_FLOAT64 = "what is fitted is float64, whatever the rows are"
_LEARNERS = "estimators_ is learners_ here"
_IMPORTANCE = "feature_importances_: permutation_importance and importance() are for all models"

LEFT_OUT: dict[str, dict[str, str]] = {
    "test_gpr": {
        "test_lml_improving": _EVIDENCE,
        "test_lml_precomputed": _EVIDENCE,
        "test_lml_without_cloning_kernel": _EVIDENCE,
        "test_converged_to_local_maximum": _EVIDENCE,
        "test_lml_gradient": _EVIDENCE,
        "test_random_starts": _EVIDENCE,
        "test_gpr_lml_error": _EVIDENCE,
        "test_prior": _PRIOR,
        "test_no_fit_default_predict": _PRIOR,
        "test_sample_y_shape_with_prior": _PRIOR,
        "test_predict_shape_with_prior": _PRIOR,
        "test_constant_target": _PRIVATE,
        "test_gpr_fit_error": _WORDS,
        "test_gpr_predict_error": _WORDS,
    },
    "test_gpc": {
        "test_lml_improving": _CLASS_EVIDENCE,
        "test_lml_precomputed": _CLASS_EVIDENCE,
        "test_lml_without_cloning_kernel": _CLASS_EVIDENCE,
        "test_converged_to_local_maximum": _CLASS_EVIDENCE,
        "test_lml_gradient": _CLASS_EVIDENCE,
        "test_random_starts": _CLASS_EVIDENCE,
        "test_gpc_latent_mean_and_variance_shape": _LATENT,
        "test_gpc_latent_mean_and_variance_complain_on_more_than_2_classes": _LATENT,
        "test_latent_mean_and_variance_works_on_structured_kernels": _LATENT,
        "test_gpc_fit_error": (
            "the test's CompoundKernel holds no kernels: one that does is refused"
        ),
        "test_warning_bounds": "the evidence is that of a regression on ±1, and ends elsewhere",
        "test_predict_consistent_structured": (
            "a probability of exactly 1/2, which predict gives to the first class"
        ),
    },
    "test_kernel_approximation": {
        "test_nystroem_approximation_array_api": _ARRAYS,
        "test_nystroem_precomputed_kernel": _WORDS,
        "test_nystroem_approximation": _INDEFINITE,
        "test_nystroem_callable": "how often a kernel is called for how many pairs",
    },
    "test_kernel_pca": {
        "test_kernel_pca_precomputed_non_symmetric": "matrices that are not symmetric are refused",
        "test_precomputed_kernel_not_psd": _WORDS,
        "test_kernel_pca_sparse": "pre-images need no fit_inverse_transform",
        "test_kernel_pca_raise_not_fitted_error": "pre-images need no fit_inverse_transform",
        "test_kernel_pca_invalid_parameters": _WORDS,
        "test_remove_zero_eig": "rows that are all the same have one component, without variance",
        "test_kernel_pca_inverse_correct_gamma": "gamma_ is not stored: gamma=None is 1/n_features",
    },
    "test_kernel_ridge": {
        "test_kernel_ridge_singular_kernel": "alpha must be positive",
    },
    "test_svm": {
        "test_libsvm_iris": _COEF,
        "test_libsvm_parameters": _LIBSVM,
        "test_precomputed": _LIBSVM,
        "test_tweak_params": _LIBSVM,
        "test_oneclass": _LIBSVM,
        **{f"test_n_iter_libsvm[42-{n}-SVC-ndarray]": _LIBSVM for n in (2, 3, 4)},
        "test_n_support": _LIBSVM,
        "test_sparse_fit_support_vectors_empty": _LIBSVM,
        "test_libsvm_convergence_warnings": _LIMIT,
        "test_svc_raises_error_internal_representation": _PRIVATE,
        "test_linearsvr": _COEF,
        "test_svr_predict": _COEF,
        "test_svr_coef_sign": _COEF,
        "test_decision_function": _COEF,
        "test_immutable_coef_property": _COEF,
        **{
            f"test_negative_sample_weights_mask_all_samples[weights-are-zero-{name}]": _WORDS
            for name in ("SVC", "SVR", "OneClassSVM")
        },
        "test_negative_weights_svc_leave_two_labels": _NEGATIVE,
        "test_negative_weight_equal_coeffs": _NEGATIVE,
        "test_negative_sample_weights_mask_all_samples": _NEGATIVE,
        "test_negative_weights_svc_leave_just_one_label": _NEGATIVE,
        "test_hasattr_predict_proba": _PROBABILITY,
        "test_svc_nusvc_probA_probB_deprecated": _PROBABILITY,
        "test_svm_with_infinite_C": "C must be finite",
        "test_svc_ovr_tie_breaking": "ties are always broken by the decision function",
        "test_bad_input": "rows may be sparse after a fit to dense ones",
        "test_sparse_precomputed": _WORDS,
        "test_svr_errors": "a kernel of the wrong shape is refused when it is fitted",
        "test_svc_nonfinite_params": _WORDS,
        "test_custom_kernel_not_array_input": (
            "the test's kernel fills only half of a block that is not square"
        ),
    },
    "test_neighbors": {
        "test_radius_neighbors_sort_results": "rows may be sorted without their distances",
        "test_k_and_radius_neighbors_duplicates": (
            "of copies the one with the lower row number is the nearest, by rule"
        ),
        "test_auto_algorithm": _PRIVATE,
        "test_unsupervised_inputs": "trees of scikit-learn are no rows",
        "test_radius_neighbors_parallel_array_radius": "there is one radius for all queries",
        "test_nearest_neighbors_validate_params": _WORDS,
    },
    "test_pls": {
        "test_univariate_equivalence": _LINEAR_CCA,
        "test_pls_coef_shape": _LINEAR_CCA,
        "test_pls_prediction": _LINEAR_CCA,
        "test_loadings_converges": _LINEAR_CCA,
        "test_pls_feature_names_out": _LINEAR_CCA,
        "test_copy": "the arrays of the user are never changed, whatever copy says",
        "test_n_components_upper_bounds": _WORDS,
    },
    "test_weight_boosting": {
        "test_oneclass_adaboost_proba": "a single class is refused",
        "test_iris": _LEARNERS,
        "test_importances": _IMPORTANCE,
        "test_adaboost_numerically_stable_feature_importance_with_small_weights": (
            "weights whose squares underflow are refused"
        ),
        "test_estimator": "learners that are no better than chance are no error",
        "test_adaboostclassifier_without_sample_weight": _WORDS,
        "test_adaboost_decision_function": (
            "of three classes or more each has a function of its own: they do not add up to 0"
        ),
        "test_multidimensional_X": "rows are vectors",
        "test_sparse_classification": _LEARNERS,
    },
    "test_gaussian_mixture": {
        "test_gaussian_mixture_array_api_compliance": _ARRAYS,
        "test_gaussian_mixture_raises_where_array_api_not_implemented": _ARRAYS,
        "test_gaussian_mixture_precisions_init": _PRIVATE,
        "test_gaussian_mixture_n_parameters": _PRIVATE,
        "test_gaussian_mixture_aic_bic": _PRIVATE,
        **{
            f"test_fitted_precision_covariance_concistency[float32-{kind}]": _FLOAT64
            for kind in ("full", "diag", "spherical")
        },
        "test_gaussian_mixture_fit_convergence_warning": _EM,
        "test_gaussian_mixture_fit[float32]": _FLOAT64,
        "test_score": _EM,
        "test_warm_start": _EM,
        "test_init": _EM,
        "test_means_for_all_inits": _EM,
        "test_regularisation": "a least variance is always there",
        "test_sample": _WORDS,
    },
    "test_sparse": {
        "test_svc_iris": _LIBSVM,
        "test_sparse_oneclasssvm": _LIBSVM,
        **{
            f"test_sparse_oneclasssvm[{kind}-sigmoid-X_train{i}-None-X_test{i}]": _INDEFINITE
            for kind in ("csr_matrix", "csr_array", "lil_matrix", "lil_array")
            for i in range(3)
        },
        "test_sparse_realdata": _LIBSVM,
        "test_sparse_decision_function": _COEF,
        "test_timeout": _LIMIT,
    },
    "test_validation": {
        "test_cross_validate": _COEF,
    },
    "test_utils_validation": {
        "test_check_array_links_to_imputer_doc_only_for_X[asarray-X]": _WORDS,
    },
}
LEFT_OUT["test_gpr-full-scale"] = LEFT_OUT["test_gpr"]
LEFT_OUT["test_gpr-exact"] = {
    test: why for test, why in LEFT_OUT["test_gpr"].items() if why != _EVIDENCE
} | {
    "test_lml_without_cloning_kernel": "log_marginal_likelihood never changes the fitted kernel",
    "test_gpr_lml_error": "the gradient at the kernel's own hyper-parameters is given, not refused",
}
"""Why tests are left out, by file and function, or function with parameters."""
