"""Standard deviations from kernel matrices: those of the kernel itself, once k(x, x) is passed."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct

from pursuit import (
    ExactGPRegressor,
    FullScaleGPRegressor,
    SparseGPRegressor,
    SparseKernelRidge,
)

# k(x, x) is another number at every row: a constant in its place would show.
KERNEL = RBF(1.0) + 0.3 * DotProduct(0.5)
NOISE = 0.05
RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 2))
NEW = 1.5 * RNG.standard_normal((30, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.standard_normal(50)
WEIGHTS = np.repeat([0.0, 1.0, 2.5], [5, 30, 15])
K, KX = KERNEL(X), KERNEL(NEW, X)
DIAGONAL = KERNEL.diag(NEW)

OPTIONS = {"noise": NOISE, "random_state": 0}
MODELS = {
    "sparse": lambda kernel: SparseGPRegressor(kernel, n_basis=12, optimizer=None, **OPTIONS),
    "left out": lambda kernel: SparseGPRegressor(
        kernel, n_basis=12, optimizer=None, calibration="loo", **OPTIONS
    ),
    "exact": lambda kernel: ExactGPRegressor(kernel, optimizer=None, solver="cholesky", **OPTIONS),
}


def pair(name, y=Y, weights=None):
    """The model that knows the kernel, and the one that knows its matrix."""
    return MODELS[name](KERNEL).fit(X, y, weights), MODELS[name]("precomputed").fit(K, y, weights)


@pytest.mark.parametrize("include_noise", [True, False], ids=["observation", "function"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["no weights", "weights"])
@pytest.mark.parametrize("name", MODELS)
def test_the_kernel_itself_is_the_truth(name, weights, include_noise):
    rows, matrix = pair(name, weights=weights)
    options = {"return_std": True, "include_noise": include_noise}
    mean, std = rows.predict(NEW, **options)
    found, deviation = matrix.predict(KX, diagonal=DIAGONAL, **options)
    np.testing.assert_allclose(found, mean, rtol=1e-9)
    np.testing.assert_allclose(deviation, std, rtol=1e-7)
    # Another row's k(x, x) gives another deviation.
    _, wrong = matrix.predict(KX, diagonal=DIAGONAL[::-1], **options)
    assert np.abs(wrong - std).max() > 0.01


def test_the_textbook_formula_is_the_truth():
    variance = DIAGONAL - np.einsum("ij,ji->i", KX, np.linalg.solve(K + NOISE * np.eye(50), KX.T))
    options = {"normalize_y": False, **OPTIONS}
    for model in (
        ExactGPRegressor("precomputed", solver="cholesky", **options),
        SparseGPRegressor("precomputed", n_basis=50, **options),
    ):
        _, std = model.fit(K, Y).predict(KX, return_std=True, diagonal=DIAGONAL)
        np.testing.assert_allclose(std, np.sqrt(variance + NOISE), rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_several_outputs_with_gaps(name):
    y = np.column_stack([Y, Y**2, Y])
    y[:10, 1] = np.nan
    rows, matrix = pair(name, y)
    mean, std = rows.predict(NEW, return_std=True)
    found, deviation = matrix.predict(KX, return_std=True, diagonal=DIAGONAL.tolist())
    np.testing.assert_allclose(found, mean, rtol=1e-8)
    np.testing.assert_allclose(deviation, std, rtol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_intervals_and_quantiles(name):
    rows, matrix = pair(name)
    wanted = rows.predict_interval(NEW, 0.8, "gaussian")
    found = matrix.predict_interval(KX, 0.8, "gaussian", diagonal=DIAGONAL)
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
    wanted = rows.predict_quantile(NEW, [0.1, 0.7], "gaussian")
    found = matrix.predict_quantile(KX, [0.1, 0.7], "gaussian", diagonal=DIAGONAL)
    np.testing.assert_allclose(found, wanted, rtol=1e-7)


def test_bounds_of_the_exact_process():
    rows, matrix = pair("exact")
    wanted = rows.std_bounds(NEW)
    np.testing.assert_allclose(matrix.std_bounds(KX, diagonal=DIAGONAL), wanted, rtol=1e-7)


def test_left_out_rows_of_weight_zero_are_predicted():
    rows, matrix = pair("exact", weights=WEIGHTS)
    wanted = rows.leave_one_out(X, Y, WEIGHTS)
    np.testing.assert_allclose(matrix.leave_one_out(K, Y, WEIGHTS), wanted, rtol=1e-7)


def test_float32_matrices():
    _, matrix = pair("sparse")
    mean, std = matrix.predict(KX.astype(np.float32), return_std=True, diagonal=DIAGONAL)
    assert mean.dtype == std.dtype == np.float32


@pytest.mark.parametrize(
    ("diagonal", "message"),
    [
        (None, r"k\(x, x\) of the rows.*pass it as diagonal="),
        (DIAGONAL[:-1], r"a finite number for each of the 30 rows, got shape \(29,\)"),
        (1.0, r"got shape \(\)"),
        (np.full(30, np.nan), "got values that are none"),
        (["a"] * 30, "got values that are none"),
        (-DIAGONAL, "at least 0, got -"),
    ],
    ids=["none", "too short", "a number", "NaN", "text", "negative"],
)
@pytest.mark.parametrize("name", ["sparse", "exact"])
def test_a_wrong_diagonal_is_refused(name, diagonal, message):
    _, matrix = pair(name)
    with pytest.raises(ValueError, match=message):
        matrix.predict(KX, return_std=True, diagonal=diagonal)
    with pytest.raises(ValueError, match=message):
        matrix.predict_interval(KX, method="gaussian", diagonal=diagonal)


@pytest.mark.parametrize("name", ["sparse", "exact"])
def test_a_diagonal_that_nothing_needs_is_refused(name):
    rows, matrix = pair(name)
    with pytest.raises(ValueError, match="diagonal has no part in a mean alone: leave it out"):
        matrix.predict(KX, diagonal=DIAGONAL)
    with pytest.raises(ValueError, match=r"leave it out, k\(x, x\) is known"):
        rows.predict(NEW, return_std=True, diagonal=DIAGONAL)
    with pytest.raises(ValueError, match=r"a kernel that knows k\(x, x\): leave it out"):
        rows.predict_interval(NEW, method="gaussian", diagonal=DIAGONAL)
    matrix.conformalize(KX, np.sin(NEW[:, 0]))
    with pytest.raises(ValueError, match="no part in conformal intervals: leave it out"):
        matrix.predict_interval(KX, diagonal=DIAGONAL)
    with pytest.raises(ValueError, match="no part in conformal quantiles: leave it out"):
        matrix.predict_quantile(KX, 0.3, diagonal=DIAGONAL)


def test_what_a_diagonal_does_not_suffice_for():
    _, matrix = pair("sparse")
    with pytest.raises(ValueError, match=r"return_cov needs k between all pairs.*return_std=True"):
        matrix.predict(KX, return_cov=True, diagonal=DIAGONAL)
    iterated = ExactGPRegressor("precomputed", solver="cg", **OPTIONS).fit(K, Y)
    with pytest.raises(ValueError, match="fit with solver='cholesky'"):
        iterated.predict(KX, return_std=True, diagonal=DIAGONAL)
    near = FullScaleGPRegressor(n_basis=10, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="leave it out"):
        near.predict_interval(NEW, method="gaussian", diagonal=DIAGONAL)
    ridge = SparseKernelRidge("precomputed").fit(K, Y).conformalize(KX, np.sin(NEW[:, 0]))
    with pytest.raises(ValueError, match="no part in conformal intervals"):
        ridge.predict_interval(KX, diagonal=DIAGONAL)
