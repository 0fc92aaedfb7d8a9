"""What is set after a fit waits for the next one: predictions are those of the fit."""

import numpy as np
import pytest
from estimators.test_sklearn_checks import CONFIGURATIONS
from sklearn.base import clone, is_classifier

from pursuit import (
    HullRegressor,
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
    LowRankOneClassSVM,
    LowRankSVC,
    LowRankSVR,
    TablePipeline,
)

SEVERAL = ["rbf", "polynomial", "laplacian"]
SEVERAL_KERNELS = [
    HullRegressor(kernel=SEVERAL, n_terms=10),
    KernelMatchingPursuitClassifier(kernel=SEVERAL),
    KernelMatchingPursuitClassifier(kernel=SEVERAL, loss="logistic"),
    KernelMatchingPursuitRegressor(kernel=SEVERAL),
]
METHODS = (
    "predict",
    "decision_function",
    "predict_proba",
    "transform",
    "score_samples",
    "kneighbors",
)
SPARED = {
    "decision_function_shape",  # of the call, as in scikit-learn's SVC
    "n_jobs",
    "verbose",
    "checkpoint",
}
OTHERS = {
    "kernel": "linear",
    "kernel_x": "linear",
    "kernel_y": "linear",
    "gamma": 7.0,
    "coef0": 3.0,
    "degree": 2.0,
    "C": 1e-3,
    "epsilon": 0.9,
    "nu": 0.9,
    "noise": 5.0,
    "alpha": 100.0,
    "n_basis": 3,
    "n_components": 1,
    "n_terms": 1,
    "loss": "absolute",
    "search": "full",
    "optimizer": None,
    "normalize_y": False,
    "multi_class": "ovo",
    "center": False,
    "scale": 9.0,
    "radius": 0.01,
    "method": "random",
    "refit": True,
    "rule": "frobenius",
    "projection": "frobenius",
    "solver": "cholesky",
    "preimage": True,
    "fit_intercept": False,
    "fitting": "basic",
    "tol": 0.5,
    "dtype": "float32",
    "class_weight": "balanced",
    "penalty": "l2",
    "quantile": 0.9,
    "power": 1.2,
    "covariance_type": "spherical",
    "random_state": 99,
    "max_time": 1e-9,
    "n_neighbors": 1,
    "coupling": "full",
    "memory": "on-demand",
}


def outputs(model, X):
    """What the model says of some rows."""
    if type(model).__name__ == "SparseKernelCCA":
        return {"transform": np.hstack(model.transform(X, X[:, :2]))}
    found = {}
    for name in METHODS:
        if hasattr(model, name):
            value = getattr(model, name)(X)
            value = value.toarray() if hasattr(value, "toarray") else value
            found[name] = np.hstack(value) if isinstance(value, tuple) else np.asarray(value)
    return found


def fitted(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    name = type(model).__name__
    if name == "SparseKernelCCA":
        return model.fit(X, X[:, :2]), X
    if name == "SparseKernelGLM":
        y = np.exp(y)
    if is_classifier(model):
        y = y > 0
    return model.fit(X, y), X


@pytest.mark.parametrize(
    "model",
    [one for one in CONFIGURATIONS if "precomputed" not in one.get_params().values()]
    + SEVERAL_KERNELS,
    ids=repr,
)
def test_what_is_set_after_a_fit_waits_for_the_next(model):
    model = clone(model)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    model, X = fitted(model)
    before = outputs(model, X[:7])
    assert before
    # Those of a pipeline are its steps', after their names.
    prefix = "model__" if isinstance(model, TablePipeline) else ""
    own = model.named_steps["model"].get_params(deep=False) if prefix else model.get_params(False)
    # Those of a search are defaults of its methods, as in scikit-learn's neighbours.
    spared = SPARED | ({"n_neighbors"} if hasattr(model, "kneighbors") else set())
    changes = [(name, OTHERS[name]) for name in own if name in OTHERS and name not in spared]
    changes += [(name, "precomputed") for name in own if name in ("kernel", "kernel_x", "kernel_y")]
    for name, value in changes:
        after = outputs(model.set_params(**{prefix + name: value}), X[:7])
        model.set_params(**{prefix + name: own[name]})
        assert after.keys() == before.keys(), name
        for method, values in before.items():
            np.testing.assert_array_equal(after[method], values, err_msg=f"{name}: {method}")


@pytest.mark.parametrize("model", [LowRankSVC(), LowRankSVR(), LowRankOneClassSVM()], ids=repr)
def test_a_machine_certifies_the_problem_of_its_fit(model):
    model, X = fitted(clone(model).set_params(n_basis=8, random_state=0, certificate="exact"))
    y, classes = np.sin(2 * X[:, 0]), hasattr(model, "classes_")
    given = (X,) if isinstance(model, LowRankOneClassSVM) else (X, y > 0 if classes else y)
    before = model.certify(*given)
    others = {"C": 50.0, "epsilon": 0.7, "nu": 0.1}
    model.set_params(**{name: value for name, value in others.items() if hasattr(model, name)})
    if hasattr(model, "loss"):
        model.set_params(loss="hinge" if classes else "epsilon_insensitive")
    after = model.certify(*given)
    assert (after.lower, after.upper) == (before.lower, before.upper)
