"""Pre-images: what an exact answer is known for, and denoising."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from pursuit import SparseKernelPCA
from pursuit.datasets import load_usps


def test_a_gaussian_point_is_its_own_preimage():
    """With the whole span as components the image of a basis point has no better pre-image."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = SparseKernelPCA(gamma=1.0, n_basis=12, n_components=None).fit(X)
    back = model.inverse_transform(model.transform(model.basis_))
    np.testing.assert_allclose(back, model.basis_, atol=1e-4)


def test_fixed_points_have_no_gradient():
    """∇Σγ_j k(x, x_j) = 0 at the pre-image, γ being the coefficients of the projection."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    model = SparseKernelPCA(gamma=0.2, n_basis=20, n_components=6).fit(X)
    Z = model.transform(X[:10] + 0.1)
    found = model.inverse_transform(Z)

    F = np.exp(-0.2 * ((model.basis_[:, None] - model.basis_) ** 2).sum(axis=2))
    R = np.linalg.cholesky(F)
    for x, z in zip(found, Z, strict=True):
        V = model._pca.mean + model._pca.directions[:, :6] @ z
        gamma = np.linalg.solve(R.T, V)
        k = np.exp(-0.2 * ((x - model.basis_) ** 2).sum(axis=1))
        gradient = (gamma * k) @ (model.basis_ - x)
        assert np.abs(gradient).max() < 1e-4 * abs(gamma @ k)


def test_ridge_is_least_squares_on_the_basis_points():
    X = np.random.default_rng(0).normal(size=(80, 3))
    model = SparseKernelPCA("poly", degree=2, n_basis=9, n_components=4).fit(X)
    Z = model.transform(model.basis_)
    alpha = 0.1 * 9 * model.explained_variance_.mean()
    z, x = Z.mean(axis=0), model.basis_.mean(axis=0)
    rows = np.vstack([Z - z, np.sqrt(alpha) * np.eye(4)])
    C = np.linalg.lstsq(rows, np.vstack([model.basis_ - x, np.zeros((4, 3))]), rcond=None)[0]
    new = model.transform(X)
    np.testing.assert_allclose(model.inverse_transform(new), x + (new - z) @ C, atol=1e-9)
    model.set_params(preimage="fixed-point")
    with pytest.raises(ValueError, match="for Gaussian kernels only"):
        model.inverse_transform(new)


def test_sparse_rows_come_back_dense():
    X = np.random.default_rng(0).random((50, 4))
    dense = SparseKernelPCA(gamma=0.5, n_basis=10).fit(X)
    csr = SparseKernelPCA(gamma=0.5, n_basis=10).fit(sparse.csr_array(X))
    Z = dense.transform(X)
    np.testing.assert_allclose(csr.inverse_transform(Z), dense.inverse_transform(Z), atol=1e-8)


def reduction(clean, noisy, found):
    return 1 - np.mean((found - clean) ** 2) / np.mean((noisy - clean) ** 2)


def denoised(X, clean, sd, n_basis=300, n_components=50):
    """What our subspace and the best linear one take off the error."""
    noisy = clean + sd * np.random.default_rng(0).normal(size=clean.shape)
    gamma = 1 / (4 * np.median(pdist(X[:500], "sqeuclidean")))
    model = SparseKernelPCA(
        gamma=gamma, n_basis=n_basis, n_components=n_components, random_state=0
    ).fit(X)
    ours = reduction(clean, noisy, model.inverse_transform(model.transform(noisy)))
    linear = []
    for q in (5, 10, 15, 20, 25, 30, 40, 50):
        pca = PCA(q).fit(X)
        linear.append(reduction(clean, noisy, pca.inverse_transform(pca.transform(noisy))))
    return ours, max(linear)


def test_denoising_digits():
    X = load_digits().data / 16
    ours, linear = denoised(X[:1300], X[1300:], 0.4, n_components=25)
    assert ours > linear
    assert ours > 0.6


def test_denoising_usps(data_dir):
    X, _, clean, _ = load_usps(return_X_y=True, split=0)
    ours, linear = denoised(X.astype(float), clean.astype(float), 0.5)
    assert ours >= 0.80
    assert ours > linear
