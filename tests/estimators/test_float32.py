"""Rows in float32 give results in float32: those of float64, rounded once at the end."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import pursuit

RNG = np.random.default_rng(0)
X32 = RNG.standard_normal((60, 2)).astype(np.float32)
X64 = X32.astype(np.float64)
Y = np.sin(X64[:, 0]) + 0.1 * RNG.standard_normal(60)
CLASSES = 2.0**24 + 1.0 + 2.0 * np.where(Y > 0.3, 2, np.where(Y > -0.3, 1, 0))
"""Class labels that float32 does not hold: a label is not a result to be rounded."""
NUMBERS = (
    "predict decision_function predict_proba score_samples transform noise_at predict_gradient "
    "predict_parts predict_interval predict_quantile"
).split()
SIZES = {"n_basis": 15, "random_state": 0}

REGRESSORS = {
    "SparseGPRegressor": {**SIZES, "calibration": "conformal"},
    "SparseGPRegressor noise": {**SIZES, "noise": "varying"},
    "ExactGPRegressor": {"random_state": 0},
    "FullScaleGPRegressor": {**SIZES, "n_neighbors": 5},
    "FullScaleGPRegressor 0": {**SIZES, "n_neighbors": 0},
    "SparseKernelRidge": SIZES,
    "SparseKernelGLM": {**SIZES, "loss": "quantile", "quantile": [0.1, 0.9]},
    "HullRegressor": {"random_state": 0},
    "KernelMatchingPursuitRegressor": SIZES,
    "LowRankSVR": SIZES,
    "LPMachineRegressor": {"random_state": 0},
    "SparseKernelPCA": {"n_components": 3, "random_state": 0},
    "SparseKernelCCA": {"n_components": 1, "random_state": 0},
    "HullMixture": {"random_state": 0},
    "LowRankOneClassSVM": SIZES,
}
CLASSIFIERS = {
    "SparseGPClassifier": SIZES,
    "FullScaleGPClassifier": {**SIZES, "n_neighbors": 5},
    "KernelMatchingPursuitClassifier": {**SIZES, "loss": "logistic"},
    "HullBoostClassifier": {"random_state": 0},
    "LowRankSVC": SIZES,
    "LPMachineClassifier": {"random_state": 0},
}


def fitted(name, options, y):
    model = getattr(pursuit, name.partition(" ")[0])(**options)
    return model.fit(X64, y[:, None] if name == "SparseKernelCCA" else y)


def answers(model, X):
    """What every method of rows returns, tuples flattened."""
    found = {}
    for method in NUMBERS:
        if not hasattr(model, method):
            continue
        further = {"predict_quantile": [[0.1, 0.8]]}.get(method, [])
        if method in ("predict_interval", "predict_quantile") and not model.coverage_guarantee_:
            continue
        if method == "predict_gradient" and getattr(model, "n_neighbors_", 0):
            continue
        value = getattr(model, method)(X, *further)
        for number, one in enumerate(value if isinstance(value, tuple) else (value,)):
            found[method, number] = one
    return found


@pytest.mark.parametrize("name", REGRESSORS)
def test_numbers_are_those_of_float64_rounded(name):
    model = fitted(name, REGRESSORS[name], Y)
    if name == "FullScaleGPRegressor":
        assert model.n_neighbors_ == 5
    single, double = answers(model, X32), answers(model, X64)
    assert single.keys() == double.keys() != set()
    for key, value in double.items():
        if value.dtype.kind == "i":  # labels of a mixture and of a detector
            np.testing.assert_array_equal(single[key], value)
            continue
        assert (value.dtype, single[key].dtype) == (np.float64, np.float32), key
        if key[0] == "predict_gradient":  # differences of rows are taken in the type of the rows
            limit = 1e-5 * np.abs(value).max()
            np.testing.assert_allclose(single[key], value, rtol=0, atol=limit)
        elif key[0] not in ("predict_interval", "predict_quantile"):
            np.testing.assert_array_equal(single[key], value.astype(np.float32), err_msg=str(key))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_are_rounded_and_labels_are_not(name):
    model = fitted(name, CLASSIFIERS[name], CLASSES)
    single, double = answers(model, X32), answers(model, X64)
    np.testing.assert_array_equal(single.pop(("predict", 0)), double.pop(("predict", 0)))
    assert single.keys() == double.keys() != set()
    for key, value in double.items():
        assert (value.dtype, single[key].dtype) == (np.float64, np.float32), key
        np.testing.assert_array_equal(single[key], value.astype(np.float32), err_msg=str(key))


def test_deviations_are_rounded_too():
    for name in ("SparseGPRegressor", "ExactGPRegressor", "FullScaleGPRegressor"):
        model = fitted(name, REGRESSORS[name], Y)
        single, double = (model.predict(X, return_std=True) for X in (X32, X64))
        for one, other in zip(single, double, strict=True):
            assert one.dtype == np.float32
            np.testing.assert_array_equal(one, other.astype(np.float32))


def test_intervals_are_rounded_outwards():
    model = fitted("SparseGPRegressor", REGRESSORS["SparseGPRegressor"], Y)
    (low32, up32), (low, up) = model.predict_interval(X32), model.predict_interval(X64)
    assert low32.dtype == up32.dtype == np.float32
    assert np.all(low32 <= low)
    assert np.all(up32 >= up)
    for ends, exact in ((low32, low), (up32, up)):
        assert np.all(np.abs(ends - exact) <= np.spacing(np.abs(ends)))
    # Rounding to nearest would cut off some of them: the test sees the difference.
    assert np.any(low.astype(np.float32) > low)
    quantiles32, quantiles = (model.predict_quantile(X, [0.1, 0.8]) for X in (X32, X64))
    assert np.all(quantiles32[:, 0] <= quantiles[:, 0])
    assert np.all(quantiles32[:, 1] >= quantiles[:, 1])


@pytest.mark.parametrize(
    ("rows", "single"),
    [
        (sparse.csr_array(X32), True),
        (sparse.csr_array(X64), False),
        (X32.tolist(), False),
        (X32.astype(np.float16), False),
        (np.round(X32).astype(np.int32), False),
        (X32[:3], True),
    ],
    ids=["CSR", "CSR of doubles", "lists", "float16", "int32", "few rows"],
)
def test_what_counts_as_float32(rows, single):
    model = fitted("SparseKernelRidge", SIZES, Y)
    assert model.predict(rows).dtype == (np.float32 if single else np.float64)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_data_frames(library):
    double, single = (library.DataFrame({"a": X[:, 0], "b": X[:, 1]}) for X in (X64, X32))
    mixed = library.DataFrame({"a": X32[:, 0], "b": X64[:, 1]})
    model = pursuit.SparseKernelRidge(**SIZES).fit(double, Y)
    assert model.predict(single).dtype == np.float32
    assert model.predict(mixed).dtype == model.predict(double).dtype == np.float64


@pytest.mark.parametrize("dtype", ["Float32", "float32[pyarrow]"])
def test_other_dtypes_of_pandas(dtype):
    frame = pd.DataFrame(X32, columns=["a", "b"])
    model = pursuit.SparseKernelRidge(**SIZES).fit(frame, Y)
    np.testing.assert_array_equal(model.predict(frame.astype(dtype)), model.predict(frame))
    assert model.predict(frame.astype(dtype)).dtype == np.float32


def test_dask_arrays():
    da = pytest.importorskip("dask.array")
    model = fitted("SparseKernelRidge", SIZES, Y)
    lazy = model.predict(da.from_array(X32, chunks=(20, 2)))
    assert lazy.dtype == np.float32
    np.testing.assert_array_equal(lazy.compute(), model.predict(X32))


def test_scores_are_kept_in_double():
    """Rows in float32 calibrate as the same rows in float64 do."""
    model = pursuit.SparseGPRegressor(**SIZES).fit(X64, Y)
    new = RNG.standard_normal((40, 2)).astype(np.float32)
    targets = np.sin(new[:, 0].astype(np.float64))
    single = model.conformalize(new, targets).coverage_guarantee_.scores
    double = model.conformalize(new.astype(np.float64), targets).coverage_guarantee_.scores
    np.testing.assert_array_equal(single, double)
