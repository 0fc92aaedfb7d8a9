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
}
"""Modules of tests by the name that the command line and the table give them."""

LEFT_OUT: dict[str, dict[str, str]] = {}
