"""The exact log evidence and its gradient, against scikit-learn's; its memory."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from user_kernels import Cauchy

from pursuit import on_columns
from pursuit.linalg import Workers
from pursuit.tuning import Evidence
from pursuit.tuning.evidence import _SINGLE_ERROR, single_error

SCALES = np.array([0.8, 2.0, 1.3])
FAMILIES = {
    "rbf": ConstantKernel(1.5) * RBF(SCALES),
    "matern 5/2": ConstantKernel(1.5) * Matern(SCALES, nu=2.5),
    "matern 3/2": ConstantKernel(1.5) * Matern(SCALES, nu=1.5),
    "matern 1/2": ConstantKernel(1.5) * Matern(SCALES, nu=0.5),
    "isotropic": ConstantKernel(0.7) * RBF(1.1),
    "rational quadratic": ConstantKernel(0.7) * RationalQuadratic(1.1, alpha=0.8),
    "sum": ConstantKernel(1.5) * RBF(SCALES) + ConstantKernel(0.2) * DotProduct(0.5),
    "fixed scales": ConstantKernel(1.5) * RBF(SCALES, "fixed"),
    "periodic": ConstantKernel(0.7) * on_columns(ExpSineSquared(1.4, 3.0), [0]) * RBF(2.0),
    "product": ConstantKernel(1.5) * Matern(SCALES, nu=1.5) * RBF(2.0),
    "power": (ConstantKernel(0.7) * RBF(SCALES) + DotProduct(0.5)) ** 2,
    "columns": ConstantKernel(1.5) * on_columns(RBF([0.8, 2.0]), [2, 0]),
    "user's": Cauchy(1.2, 0.8),
    "user's in a sum": ConstantKernel(0.3) * Cauchy(1.2, 0.8) + RBF(SCALES),
    "user's in a product": Cauchy(1.2, 0.8) ** 2 * RBF(SCALES),
    "user's, fixed": Cauchy(1.2, 0.8, "fixed", "fixed") * RBF(SCALES),
    "user's on a column": on_columns(Cauchy(0.7), [1]) + RBF(SCALES),
}
each_family = pytest.mark.parametrize("name", FAMILIES)


def data(m=60, n_outputs=1, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n_features))
    signal = np.sin(X @ rng.standard_normal((n_features, n_outputs)))
    return X, signal + 0.3 * rng.standard_normal((m, n_outputs))


def evidence(X, y, kernel, noise, weights=None, n_jobs=1):
    with Workers(n_jobs) as workers:
        weights = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
        return Evidence(X, y, weights, workers).value_and_gradient(kernel, noise)


def scikit_learn(X, y, kernel, noise):
    """Value and gradient, the noise being a White term, whose entry comes last."""
    kernel = kernel + WhiteKernel(noise)
    model = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)
    return model.log_marginal_likelihood(kernel.theta, eval_gradient=True, clone_kernel=True)


@each_family
@pytest.mark.parametrize("noise", [1e-3, 0.1, 5.0])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_equals_scikit_learn(name, noise, n_outputs):
    X, y = data(n_outputs=n_outputs)
    value, gradient = evidence(X, y, FAMILIES[name], noise)
    expected, slopes = scikit_learn(X, y, FAMILIES[name], noise)
    assert value == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6 * np.abs(slopes).max())


@each_family
@pytest.mark.parametrize("noise", [1e-4, 1e-2, 0.1])
def test_float32_is_near_or_refused(name, noise, monkeypatch):
    """Its error is within 16 times what is estimated of it, and what is too large is refused."""
    X, y = data(m=300, n_outputs=2)
    estimates = []

    def recorded(*known):
        estimates.append(single_error(*known))
        return estimates[-1]

    monkeypatch.setattr("pursuit.tuning.evidence.single_error", recorded)
    with Workers(1) as workers:
        both = Evidence(X, y, np.ones(len(X)), workers)
        value, gradient = both.value_and_gradient(FAMILIES[name], noise)
        assert not estimates, "float64 needs no estimate"
        found = both.value_and_gradient(FAMILIES[name], noise, np.float32)
    if found is None:
        assert not estimates or estimates[0] > _SINGLE_ERROR
        assert noise < 0.1, "float32 is enough where there is noise"
        return
    [estimate] = estimates
    assert estimate <= _SINGLE_ERROR
    assert abs(found[0] - value) / y.size <= 16.0 * estimate
    assert found[1].dtype == np.float64
    np.testing.assert_allclose(found[1] / y.size, gradient / y.size, atol=64.0 * estimate)


def test_estimate_of_the_error_of_float32():
    """The change of the evidence when variances grow by a rounding, its parts without signs."""
    X, y = data(m=40)
    kernel, noise, step = FAMILIES["rbf"], 0.1, 1e-6
    C = kernel(X) + noise * np.eye(len(X))
    precisions, a = np.diag(np.linalg.inv(C)), np.linalg.solve(C, y)
    moved = C + np.diag(step * np.diag(C))
    fit = [float(np.vdot(y, np.linalg.solve(M, y))) for M in (C, moved)]
    logs = [np.linalg.slogdet(M)[1] for M in (C, moved)]
    change = 0.5 * (fit[0] - fit[1] + logs[1] - logs[0]) / len(y) / step
    unit = 0.5 * np.finfo(np.float32).eps
    assert single_error(np.diag(C), precisions, a) == pytest.approx(unit * change, rel=1e-3)


@each_family
def test_more_rows_than_a_chunk(name, size):
    X, y = data(size(300, 1100), seed=1)
    value, gradient = evidence(X, y, FAMILIES[name], 0.1, n_jobs=2)
    expected, slopes = scikit_learn(X, y, FAMILIES[name], 0.1)
    assert value == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6 * np.abs(slopes).max())


@each_family
@pytest.mark.parametrize("gaps", [False, True])
def test_value_alone(name, gaps):
    X, y = data(250, n_outputs=2)
    if gaps:
        y[:90, 0] = np.nan
    weights = np.random.default_rng(3).uniform(0.5, 3.0, 250)
    with Workers(2) as workers:
        problem = Evidence.of(X, y, weights, workers)
        value = problem.value(FAMILIES[name], 0.2)
        expected, _ = problem.value_and_gradient(FAMILIES[name], 0.2)
    assert value == pytest.approx(expected, rel=1e-11)


@each_family
def test_value_in_float32_is_near_or_refused(name):
    found = {}
    for noise in (0.1, 1e-6):
        with Workers(1) as workers:
            weights = np.random.default_rng(1).uniform(0.5, 2.0, 150)
            task = Evidence(*data(150, 2), weights, workers)
            single = task.value(FAMILIES[name], noise, np.float32)
            whole = task.value(FAMILIES[name], noise)
        found[noise] = single
        if single is not None:
            assert abs(single - whole) < 3e-5 * task.n_values
    assert found[1e-6] is None
    if name != "power":  # of a large variance
        assert found[0.1] is not None


@each_family
def test_weights_are_copies(name):
    X, y = data(40, n_outputs=2)
    w = np.random.default_rng(3).integers(1, 4, 40)
    value, gradient = evidence(X, y, FAMILIES[name], 0.2, w)
    copies, slopes = evidence(np.repeat(X, w, axis=0), np.repeat(y, w, axis=0), FAMILIES[name], 0.2)
    # The density of w equal targets has a further factor w^-½, which no hyper-parameter changes.
    assert value == pytest.approx(copies + 0.5 * y.shape[1] * np.log(w).sum(), rel=1e-9)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-7, atol=1e-8)


def test_weights_by_the_density():
    X, y = data(25)
    w = np.random.default_rng(4).uniform(0.3, 2.5, 25)
    kernel, noise = FAMILIES["rbf"], 0.3
    value, _ = evidence(X, y, kernel, noise, w)
    density = multivariate_normal(cov=kernel(X) + noise * np.diag(1 / w)).logpdf(y[:, 0])
    assert value == pytest.approx(density - 0.5 * (w - 1).sum() * np.log(2 * np.pi * noise))


@pytest.mark.parametrize(
    "kernel",
    [
        FAMILIES["matern 3/2"],
        FAMILIES["user's in a product"],
        ConstantKernel(1.5) * Matern(SCALES, nu=1.2),
        Matern(1.1, nu=0.7),
        *(PairwiseKernel(0.3, metric=name) for name in ("rbf", "laplacian", "poly", "cosine")),
    ],
    ids=repr,
)
def test_weighted_gradient_by_differences(kernel):
    X, y = data(30, n_outputs=2)
    w = np.random.default_rng(5).uniform(0.3, 2.5, 30)
    noise = 0.2
    _, gradient = evidence(X, y, kernel, noise, w)
    point = np.append(kernel.theta, np.log(noise))

    def value(at):
        return evidence(X, y, kernel.clone_with_theta(at[:-1]), float(np.exp(at[-1])), w)[0]

    step = 1e-5 * np.eye(len(point))
    slopes = [(value(point + h) - value(point - h)) / 2e-5 for h in step]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


class Counted(Cauchy):
    """Counts how often it is called."""

    calls = 0

    def __call__(self, X, Y=None, eval_gradient=False):
        type(self).calls += 1
        return super().__call__(X, Y, eval_gradient)


@pytest.mark.parametrize(
    "kernel", [Counted(), ConstantKernel(2.0) * (Counted() + RBF(SCALES)) ** 2]
)
def test_a_kernel_that_is_called_is_called_once(kernel):
    X, y = data(300)
    Counted.calls = 0
    evidence(X, y, kernel, 0.1)
    assert Counted.calls == 1


INFORMED = ["rbf", "matern 5/2", "matern 3/2", "matern 1/2", "isotropic"]


@pytest.mark.parametrize("name", INFORMED)
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_average_information(name, n_outputs):
    """½ Σ a'C_i C⁻¹ C_j a from scikit-learn's derivatives of the whole matrix."""
    kernel, noise = FAMILIES[name], 0.1
    X, y = data(150, n_outputs)
    K, slopes = (kernel + WhiteKernel(noise))(X, eval_gradient=True)
    a = np.linalg.solve(K, y)
    Q = np.einsum("ijp,jo->oip", slopes, a)
    expected = 0.5 * sum(q.T @ np.linalg.solve(K, q) for q in Q)
    with Workers(1) as workers:
        task = Evidence(X, y, np.ones(len(X)), workers)
        assert task.knows_information(kernel)
        value, gradient, information = task.with_information(kernel, noise)
        single = task.with_information(kernel, noise, np.float32)[2]
        assert (value, *gradient) == (
            task.value_and_gradient(kernel, noise)[0],
            *task.value_and_gradient(kernel, noise)[1],
        )
    np.testing.assert_allclose(information, expected, rtol=1e-8, atol=1e-8 * expected.max())
    np.testing.assert_allclose(single, expected, rtol=1e-3, atol=1e-3 * expected.max())


def test_average_information_is_expected_where_the_model_is_right():
    """Its mean over targets drawn from the model is ½ tr(C⁻¹C_i C⁻¹C_j)."""
    kernel, noise = FAMILIES["rbf"], 0.1
    X, _ = data(60)
    K, slopes = (kernel + WhiteKernel(noise))(X, eval_gradient=True)
    parts = np.linalg.solve(K, slopes.transpose(2, 0, 1))
    expected = 0.5 * np.einsum("iab,jba->ij", parts, parts)
    y = np.linalg.cholesky(K) @ np.random.default_rng(0).standard_normal((60, 2000))
    with Workers(1) as workers:
        found = Evidence(X, y, np.ones(60), workers).with_information(kernel, noise)[2] / 2000
    np.testing.assert_allclose(found, expected, atol=0.05 * expected.max())


def test_information_with_weights_and_gaps():
    """Groups of outputs have information of their own; copies know of the noise only."""
    kernel, noise = FAMILIES["matern 3/2"], 0.1
    X, y = data(40, 2)
    y[:15, 0] = np.nan
    with Workers(1) as workers:
        whole = Evidence.of(X, y, np.ones(40), workers).with_information(kernel, noise)[2]
        parts = [(X[15:], y[15:, :1]), (X, y[:, 1:])]
        each = [Evidence(*p, np.ones(len(p[0])), workers) for p in parts]
        summed = sum(part.with_information(kernel, noise)[2] for part in each)
        np.testing.assert_allclose(whole, summed, rtol=1e-10)
        heavy = Evidence(*parts[1], np.full(40, 3.0), workers)
        light = Evidence(*parts[1], np.ones(40), workers)
        found = heavy.with_information(kernel, noise)[2]
        same = light.with_information(kernel, noise / 3.0)[2]
    same[-1, -1] += 0.5 * 80
    np.testing.assert_allclose(found, same, rtol=1e-10)


@pytest.mark.parametrize("name", sorted(FAMILIES.keys() - {*INFORMED, "columns"}))
def test_information_of_other_kernels_is_not_known(name):
    assert not Evidence.knows_information(FAMILIES[name])


def test_outputs_add_up():
    X, y = data(50, n_outputs=3)
    value, gradient = evidence(X, y, FAMILIES["rbf"], 0.2)
    each = [evidence(X, y[:, [output]], FAMILIES["rbf"], 0.2) for output in range(3)]
    assert value == pytest.approx(sum(found[0] for found in each), rel=1e-12)
    np.testing.assert_allclose(gradient, sum(found[1] for found in each), rtol=1e-9, atol=1e-10)


def test_threads_change_no_bit():
    X, y = data(400)
    value, gradient = evidence(X, y, FAMILIES["matern 1/2"], 0.1, n_jobs=1)
    for n_jobs in (2, 3):
        again, slopes = evidence(X, y, FAMILIES["matern 1/2"], 0.1, n_jobs=n_jobs)
        assert again == value
        np.testing.assert_array_equal(slopes, gradient)


@each_family
def test_duplicated_rows(name):
    X, y = data(30)
    X = np.vstack([X, X[:20], X[:5]])
    y = np.vstack([y, y[5:25], -y[:5]])
    value, gradient = evidence(X, y, FAMILIES[name], 0.1)
    expected, slopes = scikit_learn(X, y, FAMILIES[name], 0.1)
    assert value == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6 * np.abs(slopes).max())


def test_none_where_there_is_no_factor():
    X, y = data(30)
    X[15:] = X[:15]
    assert evidence(X, y, FAMILIES["rbf"], 1e-300) is None
    with Workers(1) as workers:
        assert Evidence(X, y, np.ones(30), workers).value(FAMILIES["rbf"], 1e-300) is None


def test_data_are_left_alone(read_only):
    X, y = map(read_only, data(50))
    evidence(X, y, FAMILIES["rbf"], 0.1, weights=read_only(np.ones(50)))


def peak_in_squares(s, n_features, kernel):
    """Peak memory of one evaluation, in matrices of s x s doubles."""
    X, y = data(s, n_features=n_features)
    tracemalloc.start()
    try:
        evidence(X, y, kernel, 0.1, n_jobs=2)
        return tracemalloc.get_traced_memory()[1] / (8 * s**2)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("family", [RBF, lambda scales: Matern(scales, nu=2.5)])
def test_memory_is_a_few_matrices_whatever_the_features(family, size):
    s = size(1000, 2000)
    few, many = (
        peak_in_squares(s, d, ConstantKernel(1.0) * family(np.full(d, np.sqrt(d)))) for d in (2, 40)
    )
    assert few < 6
    assert many < few + 1
