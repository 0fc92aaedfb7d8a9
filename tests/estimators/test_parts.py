"""Predictions in parts, beside dense algebra."""

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from pursuit import (
    Additive,
    ExactGPRegressor,
    FullScaleGPRegressor,
    SparseGPRegressor,
    SparseKernelRidge,
    load,
    on_columns,
)

# The kernel's last factors are not needed, and end at their bounds.
pytestmark = pytest.mark.filterwarnings("ignore:The optimal value found")

T1 = 1.3 * on_columns(RBF(0.8), [0])
T2 = 0.6 * on_columns(Matern(1.5, nu=1.5), [1, 2]) * DotProduct(0.7)
KERNEL = T1 + T2 + ConstantKernel(0.4) + WhiteKernel(0.05)
NAMES = ["RBF(x0)", "Matern32(x1, x2) * DotProduct", "constant"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.5, 1.5, size=(260, 3))
    y = 3 + np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.standard_normal(260)
    return X[:200], y[:200], X[200:], rng.uniform(0.5, 2.0, 200)


MODELS = {
    "sparse": SparseGPRegressor(KERNEL, n_basis=40, random_state=0),
    "kept": SparseGPRegressor(KERNEL, n_basis=40, optimizer=None, random_state=0),
    "cholesky": ExactGPRegressor(KERNEL, random_state=0),
    "cg": ExactGPRegressor(KERNEL, solver="cg", random_state=0),
    "ridge": SparseKernelRidge(KERNEL, n_basis=40, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_parts_add_up_to_predictions(name, rows):
    X, y, new, weights = rows
    model = MODELS[name].fit(X, y, weights)
    parts = model.predict_parts(new)
    assert model.part_names_ == NAMES
    assert model.part_columns_ == [[0], None, []]
    assert parts.shape == (60, 3)
    np.testing.assert_allclose(parts.sum(axis=1), model.predict(new), rtol=0, atol=1e-10)
    assert np.ptp(parts[:, -1]) == 0.0
    # A part looks at its own columns only.
    other = new.copy()
    other[:, 1:] += 1.0
    np.testing.assert_allclose(model.predict_parts(other)[:, 0], parts[:, 0], rtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_parts_of_several_outputs(name, rows):
    X, y, new, weights = rows
    if name == "ridge":
        pytest.skip("this method fits one output")
    model = MODELS[name].fit(X, np.column_stack([y, -2 * y]), weights)
    parts = model.predict_parts(new)
    assert parts.shape == (60, 3, 2)
    np.testing.assert_allclose(parts.sum(axis=1), model.predict(new), rtol=0, atol=1e-10)


def terms_in_use(model):
    """The two terms that are parts, and the constant, whether or not noise is a term."""
    kernel = model.kernel_
    kernel = kernel.k1 if isinstance(kernel.k2, WhiteKernel) else kernel
    return [kernel.k1.k1, kernel.k1.k2], kernel.k2.constant_value


def dense_parts(model, X, y, new, weights, center=None):
    """Means, variances, of the exact process, term by term."""
    (first, second), constant = terms_in_use(model)
    mean = np.average(y, weights=weights)
    sd = np.sqrt(np.average((y - mean) ** 2, weights=weights))
    C = first(X) + second(X) + constant + np.diag(model.noise_ / weights)
    a = np.linalg.solve(C, (y - mean) / sd)
    values, variances = [], []
    for term in (first, second):
        Q, P = term(new, X), term(new)
        if center is not None:
            Q = Q - term(center, X).mean(axis=0)
            across = term(new, center).mean(axis=1)
            P = P - across[:, None] - across + term(center).mean()
        values.append(sd * Q @ a)
        variances.append(sd**2 * np.diag(P - Q @ np.linalg.solve(C, Q.T)))
    values.append(np.full(len(new), mean + sd * constant * a.sum()))
    if center is not None:
        for term in (first, second):
            values[-1] += sd * (term(center, X) @ a).mean()
    return np.column_stack(values), np.column_stack(variances)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("name", ["cholesky", "cg"])
def test_parts_of_the_exact_process(name, centered, rows):
    X, y, new, weights = rows
    model = MODELS[name].fit(X, y, weights)
    center = X[:50] if centered else None
    parts, std = model.predict_parts(new, return_std=True, center=center)
    want, variances = dense_parts(model, X, y, new, weights, center)
    exact = name == "cholesky"
    np.testing.assert_allclose(parts, want, atol=1e-9 if exact else 2e-3)
    np.testing.assert_allclose(
        std[:, :2], np.sqrt(variances), rtol=1e-6 if exact else 0.01, atol=1e-6
    )
    assert np.all(std[:, 2] == 0.0)


@pytest.mark.parametrize("centered", [False, True])
def test_with_every_row_in_the_basis_the_sparse_process_is_exact(centered, rows):
    X, y, new, weights = rows
    model = SparseGPRegressor(KERNEL, n_basis=200, search="full", optimizer=None, noise=0.1)
    model.fit(X, y, weights)
    center = X[:50] if centered else None
    parts, std = model.predict_parts(new, return_std=True, center=center)
    want, variances = dense_parts(model, X, y, new, weights, center)
    np.testing.assert_allclose(parts, want, atol=1e-5)
    np.testing.assert_allclose(std[:, :2], np.sqrt(variances), rtol=1e-4)


@pytest.mark.parametrize("centered", [False, True])
def test_spread_of_parts_of_a_calibrated_sparse_process(centered, rows):
    X, y, new, weights = rows
    model = SparseGPRegressor(KERNEL, n_basis=30, random_state=0).fit(X, y, weights)
    spread = model._spread
    assert spread.missed != 1.0
    terms, constant = terms_in_use(model)
    Z, center = model.basis_, X[::7]

    def total(A, B):
        return terms[0](A, B) + terms[1](A, B) + constant

    inverse = np.linalg.inv(total(Z, Z))
    K = total(X, Z)
    H = model._solution.noise * total(Z, Z) + K.T @ (weights[:, None] * K)
    k_new = total(new, Z)
    prior = np.diag(total(new, new))
    missed = prior - np.diag(k_new @ inverse @ k_new.T)
    factor = spread.factor(np.maximum(missed, 0), prior)
    _, std = model.predict_parts(new, return_std=True, center=center if centered else None)
    sd = model._scale.scale[0]
    for t, term in enumerate(terms):
        # Joint prior covariance of (f(Z), f(x), g(x)), g being the part, for each x by itself.
        for i, x in enumerate(new):
            x = x[None]
            q, with_f, own = term(x, Z)[0], term(x, x)[0, 0], term(x, x)[0, 0]
            if centered:
                q = q - term(center, Z).mean(axis=0)
                with_f = own - term(x, center).mean()
                own = own - 2 * term(x, center).mean() + term(center).mean()
            rest_own = own - q @ inverse @ q
            rest_shared = with_f - q @ inverse @ k_new[i]
            explained = rest_shared**2 / missed[i]
            variance = factor[i] * explained + (rest_own - explained)
            variance += spread.noise * q @ np.linalg.solve(H, q)
            assert std[i, t] == pytest.approx(sd * np.sqrt(variance), rel=1e-4)


def test_the_only_part_has_the_spread_of_the_function(rows):
    X, y, new, _ = rows
    model = SparseGPRegressor(n_basis=30, random_state=0).fit(X, y)
    parts, std = model.predict_parts(new, return_std=True)
    mean, whole = model.predict(new, return_std=True, include_noise=False)
    assert parts.shape == (60, 2)
    np.testing.assert_allclose(parts.sum(axis=1), mean, atol=1e-10)
    np.testing.assert_allclose(std[:, 0], whole, rtol=1e-8)


def test_centered_parts_have_mean_zero_and_add_up(rows):
    X, y, new, _ = rows
    for name in ("sparse", "ridge", "cholesky"):
        model = MODELS[name].fit(X, y)
        parts = model.predict_parts(X, center=X)
        np.testing.assert_allclose(parts[:, :-1].mean(axis=0), 0.0, atol=1e-10)
        np.testing.assert_allclose(
            model.predict_parts(new, center=X).sum(axis=1), model.predict(new), atol=1e-10
        )


def test_near_rows_are_a_part(rows):
    X, y, new, _ = rows
    model = FullScaleGPRegressor(KERNEL, n_basis=10, n_neighbors=16, random_state=0).fit(X, y)
    parts = model.predict_parts(new)
    assert model.part_names_ == [*NAMES[:-1], "near rows", "constant"]
    assert model.part_columns_ == [[0], None, None, []]
    np.testing.assert_allclose(parts.sum(axis=1), model.predict(new), atol=1e-10)
    np.testing.assert_allclose(
        np.delete(parts, 2, axis=1), model.global_.predict_parts(new), rtol=1e-12
    )
    assert np.abs(parts[:, 2]).max() > 1e-3
    with pytest.raises(ValueError, match=r"without_neighbors\(\)"):
        model.predict_parts(new, return_std=True)


@pytest.mark.parametrize("kernel", ["rbf", lambda A, B: np.exp(-np.abs(A[:, :1] - B[:, 0]))])
def test_names_and_functions_have_one_part(kernel, rows):
    X, y, new, _ = rows
    model = SparseGPRegressor(kernel, random_state=0).fit(X, y)
    assert len(model.part_names_) == 2
    parts = model.predict_parts(new)
    np.testing.assert_allclose(parts.sum(axis=1), model.predict(new), atol=1e-10)


def test_a_matrix_has_one_part_without_spread(rows):
    X, y, new, _ = rows
    model = SparseGPRegressor("precomputed", noise=0.1).fit(RBF()(X), y)
    K = RBF()(new, X)
    assert model.part_names_ == ["precomputed", "constant"]
    np.testing.assert_allclose(model.predict_parts(K).sum(axis=1), model.predict(K), atol=1e-10)
    with pytest.raises(ValueError, match="fit with a callable kernel"):
        model.predict_parts(K, return_std=True)
    with pytest.raises(ValueError, match="center takes rows"):
        model.predict_parts(K, center=K)


def test_frames_name_the_parts_and_a_single_column_is_known(rows):
    X, y, _, _ = rows
    frame = pd.DataFrame(X, columns=["rain", "wind", "sun"])
    model = SparseGPRegressor(Additive(RBF()), optimizer=None, noise=0.1).fit(frame, y)
    assert model.part_names_ == ["RBF(rain)", "RBF(wind)", "RBF(sun)", "constant"]
    single = SparseGPRegressor(RBF() + DotProduct(), random_state=0).fit(X[:, :1], y)
    assert single.part_columns_ == [[0], [0], []]


def test_a_saved_model_has_the_same_parts(rows, tmp_path):
    X, y, new, _ = rows
    kernel = 1.0 * RBF() + 0.5 * DotProduct() + ConstantKernel(0.2)
    model = SparseGPRegressor(kernel, random_state=0).fit(X, y)
    model.save(tmp_path / "model.pursuit")
    again = load(tmp_path / "model.pursuit")
    np.testing.assert_array_equal(again.predict_parts(new), model.predict_parts(new))
    assert again.part_names_ == model.part_names_
