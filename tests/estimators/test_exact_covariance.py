"""Joint covariances and draws of the exact process, against dense ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from pursuit import ExactGPRegressor, pairwise
from pursuit.estimators.gp import exact_system

SOLVERS = ["cholesky", "cg"]


def fixed(kernel, **options):
    given = {"noise": 0.1, "optimizer": None, "random_state": 0, "residual_tol": 1e-10}
    return ExactGPRegressor(kernel, **(given | options))


def dense_covariance(kernel, X, new, noise, weights):
    K = kernel(new, X)
    return kernel(new) - K @ np.linalg.solve(kernel(X) + noise * np.diag(1 / weights), K.T)


def assert_just_above(found, expected, width):
    """Above by a positive semi-definite matrix, with a diagonal of at most ``width``."""
    difference = found - expected
    np.testing.assert_allclose(difference, difference.T, atol=1e-12)
    assert np.linalg.eigvalsh(difference).min() >= -1e-8
    assert np.all(np.diag(difference) <= width)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("include_noise", [True, False])
@pytest.mark.parametrize("n_outputs", [None, 3])
def test_it_is_that_of_a_dense_solve(
    waves, rough_kernel, weighted_scale, solver, include_noise, n_outputs
):
    data = waves(150, n_outputs=n_outputs)
    weights = np.random.default_rng(0).uniform(0.5, 3.0, 150)
    model = fixed(rough_kernel, solver=solver).fit(data.X, data.y, sample_weight=weights)
    mean, cov = model.predict(data.new, return_cov=True, include_noise=include_noise)
    np.testing.assert_array_equal(mean, model.predict(data.new))

    expected = dense_covariance(rough_kernel, data.X, data.new, 0.1, weights)
    latent = np.diag(expected).copy()
    expected += 0.1 * include_noise * np.eye(25)
    _, scale = weighted_scale(data.y, weights)
    cov = cov if n_outputs else cov[:, :, None]
    assert cov.shape == (25, 25, n_outputs or 1)
    for output in range(n_outputs or 1):
        found = cov[:, :, output] / np.broadcast_to(scale, n_outputs or 1)[output] ** 2
        if solver == "cholesky":
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
        else:
            offset = 0.1 if include_noise else 0.001
            assert_just_above(found, expected, 0.0202 * (latent + offset))


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 70), st.sampled_from(SOLVERS))
def test_batches_of_rows_are_joined(seed, m, n, solver):
    rng = np.random.default_rng(seed)
    X, new = rng.standard_normal((m, 2)), rng.standard_normal((n, 2))
    model = fixed(RBF(0.7), solver=solver, normalize_y=False).fit(X, rng.standard_normal(m))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_system, "_QUERY_NUMBERS", 1)  # batches of 16
        _, cov = model.predict(new, return_cov=True, include_noise=False)
    expected = dense_covariance(RBF(0.7), X, new, 0.1, np.ones(m))
    assert_just_above(cov, expected, 0.0202 * (np.diag(expected) + 0.001) + 1e-9)
    if solver == "cholesky":
        np.testing.assert_allclose(cov, expected, atol=1e-9)


def test_iterations_that_end_early_leave_too_much_and_warn(waves, rough_kernel):
    data = waves(300)
    model = fixed(rough_kernel, solver="cg", preconditioner_size=0, normalize_y=False)
    model.fit(data.X, data.y).set_params(max_iter=3)
    with pytest.warns(ConvergenceWarning, match=r"further apart than tol=0\.01 after max_iter=3"):
        _, cov = model.predict(data.new, return_cov=True, include_noise=False)
    expected = dense_covariance(rough_kernel, data.X, data.new, 0.1, np.ones(300))
    assert_just_above(cov, expected, np.inf)
    assert np.diag(cov - expected).max() > 0.1  # the control: this is far from converged


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("include_noise", [True, False])
def test_draws_have_the_predicted_moments(waves, rough_kernel, solver, include_noise):
    data, n = waves(80), 20_000
    new = data.new[:6]
    model = fixed(rough_kernel, solver=solver).fit(data.X, data.y)
    mean, cov = model.predict(new, return_cov=True, include_noise=include_noise)
    draws = model.sample_y(new, n, random_state=3, include_noise=include_noise)
    sd = np.sqrt(np.diag(cov))
    assert draws.shape == (6, n)
    assert np.all(np.abs(draws.mean(axis=1) - mean) <= 5 * sd / np.sqrt(n))
    bound = 5 * np.sqrt((np.outer(sd, sd) ** 2 + cov**2) / n)
    assert np.all(np.abs(np.cov(draws) - cov) <= bound)


def test_many_rows_are_drawn_by_functions(waves):
    data = waves(60)
    model = fixed(RBF(0.7)).fit(data.X, data.y)
    many = np.tile(data.new, (100, 1))
    latent = model.sample_y(many, 2, include_noise=False)
    # A function has one value at equal rows; observations differ by their noise.
    np.testing.assert_allclose(latent, np.tile(latent[:25], (100, 1)), atol=1e-9)
    noisy = model.sample_y(many, 2) - latent
    expected = np.sqrt(model.noise_) * np.std(data.y)
    np.testing.assert_allclose(np.std(noisy), expected, rtol=0.1)


def test_outputs_with_gaps_have_covariances_of_their_own(waves, rough_kernel):
    data = waves(60, n_outputs=3)
    Y = data.y.copy()
    Y[:20, 0] = Y[30:40, 2] = np.nan
    model = fixed(rough_kernel).fit(data.X, Y)
    _, cov = model.predict(data.new, return_cov=True)
    _, std = model.predict(data.new, return_std=True)
    np.testing.assert_allclose(np.einsum("iio->io", cov), std**2, rtol=1e-9)
    alone = fixed(rough_kernel).fit(data.X[20:], Y[20:, 0])
    np.testing.assert_allclose(cov[:, :, 0], alone.predict(data.new, return_cov=True)[1], rtol=1e-8)


def test_rows_may_be_strings():
    def shared(a, b):
        return float(len(set(a) & set(b)))

    words = ["greedy", "kernel", "basis", "matrix", "noise", "proof"]
    kernel = pairwise(shared)
    model = fixed(kernel, normalize_y=False).fit(words, np.arange(6.0))
    _, cov = model.predict(["rows", "span"], return_cov=True, include_noise=False)

    def dense(A, B=None):
        return np.array([[shared(a, b) for b in (A if B is None else B)] for a in A])

    expected = dense_covariance(dense, words, ["rows", "span"], 0.1, np.ones(6))
    np.testing.assert_allclose(cov, expected, atol=1e-10)


def test_what_cannot_be_returned_is_refused(waves):
    data = waves(20)
    model = fixed(RBF()).fit(data.X, data.y)
    with pytest.raises(ValueError, match="return_std and return_cov cannot both be true"):
        model.predict(data.new, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="diagonal has no part in a covariance"):
        model.predict(data.new, return_cov=True, diagonal=np.ones(25))
    matrix = fixed("precomputed").fit(RBF()(data.X), data.y)
    with pytest.raises(ValueError, match=r"return_cov needs k between all pairs"):
        matrix.predict(RBF()(data.new, data.X), return_cov=True)
