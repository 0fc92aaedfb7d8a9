"""Bounds on the exact process at new points, against dense algebra."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, Matern

from pursuit import ExactDistance, FullScaleGPRegressor, pairwise
from pursuit.estimators.full_scale import distance
from pursuit.estimators.full_scale.linear_map import LinearMap
from pursuit.linalg import Workers

KERNEL = 1.3**2 * Matern([0.3, 0.5], nu=1.5)
model_of = partial(
    FullScaleGPRegressor,
    kernel=KERNEL,
    n_basis=15,
    n_neighbors=6,
    noise=0.03,
    optimizer=None,
    calibration=None,
    random_state=0,
)


@pytest.fixture(params=["direct", "iterated"])
def solver(request, monkeypatch):
    """Both ways to solve, whatever the number of rows."""
    rows = 10**6 if request.param == "direct" else 0
    monkeypatch.setattr(distance, "DIRECT_ROWS", rows)
    return request.param


@pytest.fixture
def iterated(monkeypatch):
    monkeypatch.setattr(distance, "DIRECT_ROWS", 0)


class Task:
    """Rows of which some are repeated, weights, and the exact process by dense solves."""

    def __init__(self, m=240, n_outputs=2, copies=40, seed=0):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(m, 2))
        self.X = np.concatenate([X, X[:copies]])
        waves = [np.sin(7 * self.X[:, 0] + i) + np.cos(25 * self.X[:, 1]) for i in range(n_outputs)]
        noise = rng.normal(size=(m + copies, n_outputs))
        self.y = 5 + 3 * np.stack(waves, axis=1) + 0.5 * noise
        self.w = rng.uniform(0.3, 3.0, m + copies)
        self.new = rng.uniform(-0.2, 1.2, size=(30, 2))

    def exact(self, model, new):
        """Mean and standard deviation of an observation, every copy being a row of its own."""
        center = np.average(self.y, axis=0, weights=self.w)
        scale = np.sqrt(np.average((self.y - center) ** 2, axis=0, weights=self.w))
        B = model.kernel_(self.X) + model.noise_ * np.diag(1 / self.w)
        k = model.kernel_(self.X, new)
        H = np.linalg.solve(B, k)
        variance = model.kernel_.diag(new) - (k * H).sum(axis=0) + model.noise_
        mean = H.T @ ((self.y - center) / scale)
        return center + scale * mean, scale * np.sqrt(variance)[:, None]


def within(lower, value, upper):
    return bool(np.all(lower <= value) and np.all(value <= upper))


# Bounds hold, and meet as tol falls


@pytest.mark.parametrize("coupling", ["late", "full"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bounds_hold_and_meet(coupling, dtype, solver):
    task = Task()
    model = model_of(coupling=coupling, dtype=dtype).fit(task.X, task.y, task.w)
    mean, std = task.exact(model, task.new)
    widths = []
    for tol in (0.3, 1e-2, 1e-4, 1e-6):
        found = model.distance_to_exact(task.new, tol=tol)
        assert within(found.mean_lower, mean, found.mean_upper)
        assert within(found.std_lower, std, found.std_upper)
        assert np.all(found.mean_upper - found.mean_lower <= 2.01 * tol * found.std_upper)
        assert np.all(found.std_upper <= (1 + 1.01 * tol) * found.std_lower)
        np.testing.assert_array_equal(found.mean, model.predict(task.new))
        assert np.all(np.abs(found.mean - mean) <= found.mean_distance)
        assert np.all(np.abs(found.std - std) <= found.std_distance)
        widths.append(
            [(found.mean_upper - found.mean_lower).max(), (found.std_upper - found.std_lower).max()]
        )
    assert np.all(np.array(widths[-1]) < 1e-5)
    if solver == "iterated":
        assert np.all(np.diff(widths, axis=0) < 0)


def test_the_distance_of_a_wrong_mean_is_seen():
    task = Task(n_outputs=1)
    model = model_of().fit(task.X, task.y[:, 0], task.w)
    found = model.distance_to_exact(task.new)
    mean = task.exact(model, task.new)[0][:, 0]
    claimed = found.mean_distance
    assert np.all(np.abs(model.predict(task.new) - mean) <= claimed)
    # A mean a little farther off than the claim, by the tolerance, is outside it everywhere.
    wrong = mean + 1.05 * np.abs(found.mean - mean) + 0.03 * found.std_upper
    assert np.all(np.abs(wrong - mean) > claimed)
    assert np.all(replace(found, mean=wrong).mean_distance >= np.abs(wrong - mean))


# The expected squared distance


def nearest(points, x, k):
    """Numbers of the k nearest points by the kernel's length scales."""
    return np.argsort((((points - x) / [0.3, 0.5]) ** 2).sum(axis=1), kind="stable")[:k]


def naive_map(model, new):
    """c with the mean c'y, in function space: dense matrices and loops over points."""
    X, w, Z = model._kept.items, model._kept.weights, model.global_.basis_
    noise, ridge, k = model.noise_, model.global_.noise_, model.n_neighbors_

    def q(A, B):
        return KERNEL(A, Z) @ np.linalg.solve(KERNEL(Z), KERNEL(Z, B))

    def conditioned(x, rows):
        """A, and the variance that it leaves."""
        r = KERNEL(X[rows]) - q(X[rows], X[rows]) + np.diag(noise / w[rows])
        cross = (KERNEL(X[rows], x[None]) - q(X[rows], x[None]))[:, 0]
        A = np.linalg.solve(r, cross)
        return A, (KERNEL(x[None]) - q(x[None], x[None]))[0, 0] - A @ cross

    local = ridge * np.diag(1 / w)
    if model.coupling == "full":
        U, D = np.eye(len(X)), np.empty(len(X))
        for i, x in enumerate(X):
            rows = nearest(X[:i], x, k)
            A, missed = conditioned(x, rows)
            U[i, rows] = -A
            D[i] = missed + noise / w[i]
        local = np.linalg.inv(U.T @ np.diag(1 / D) @ U)
    explained = np.linalg.inv(q(X, X) + local)
    c = np.empty((len(X), len(new)))
    for j, x in enumerate(new):
        rows = nearest(X, x, k)
        A, _ = conditioned(x, rows)
        c[:, j] = explained @ (q(X, x[None])[:, 0] - q(X, X[rows]) @ A)
        c[rows, j] += A
    return c


@pytest.mark.parametrize("coupling", ["late", "full"])
def test_the_map_is_the_models_mean(coupling):
    task = Task()
    model = model_of(coupling=coupling).fit(task.X, task.y, task.w)
    with Workers(1) as workers:
        linear = LinearMap.of_local(
            model._ready(workers), model.n_neighbors_, model.noise_, workers
        )
        c = linear.columns(task.new, workers)
    np.testing.assert_allclose(c, naive_map(model, task.new), atol=1e-9)
    mean = model._scale.restore(c.T @ model._kept.targets)
    np.testing.assert_allclose(mean, model.predict(task.new), rtol=1e-9)


@pytest.mark.parametrize("coupling", ["late", "full"])
def test_the_expected_squared_distance_is_bracketed(coupling, solver):
    task = Task(m=150, copies=20)
    model = model_of(coupling=coupling).fit(task.X, task.y, task.w)
    found = model.distance_to_exact(task.new, tol=1e-6)
    X, w = model._kept.items, model._kept.weights
    B = KERNEL(X) + model.noise_ * np.diag(1 / w)
    error = np.linalg.solve(B, KERNEL(X, task.new)) - naive_map(model, task.new)
    # The distance of the means is error'y, and B the covariance of y.
    expected = (error * (B @ error)).sum(axis=0)[:, None] * model._scale.scale**2
    lower, upper = found.squared_distance_lower, found.squared_distance_upper
    assert within(lower * (1 - 1e-9), expected, upper * (1 + 1e-9))
    np.testing.assert_allclose(upper, lower, rtol=1e-3)
    assert expected.max() > 1e-3


def test_a_model_with_all_rows_near_is_exact(solver):
    task = Task(m=60, copies=0, n_outputs=1)
    model = model_of(coupling="full", n_neighbors=60).fit(task.X, task.y[:, 0], task.w)
    found = model.distance_to_exact(task.new, tol=1e-6)
    assert np.all(found.squared_distance_upper < 1e-5 * found.std_lower**2)
    assert np.all(found.mean_distance < 1e-5 * found.std_lower)


# Rows: those kept, those passed, none


@pytest.mark.parametrize("coupling", ["late", "full"])
def test_training_rows_may_be_passed_in_any_order(coupling):
    task = Task()
    model = model_of(coupling=coupling).fit(task.X, task.y, task.w)
    own = model.distance_to_exact(task.new, tol=1e-6)
    order = np.random.default_rng(1).permutation(len(task.X))
    given = model.distance_to_exact(task.new, task.X[order], task.y[order], task.w[order], tol=1e-6)
    for name in ("mean_lower", "std_upper", "squared_distance_lower", "squared_distance_upper"):
        np.testing.assert_allclose(getattr(given, name), getattr(own, name), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("change", ["rows", "weights", "targets"])
def test_other_rows_have_their_own_exact_process(change):
    task = Task()
    model = model_of().fit(task.X, task.y, task.w)
    center, scale = model._scale.mean, model._scale.scale
    X, Y, w = task.X.copy(), task.y.copy(), task.w.copy()
    if change == "rows":
        X[5] += 0.1
    elif change == "weights":
        w *= 2
    else:
        Y[::2] += 1
    found = model.distance_to_exact(task.new, X, Y, w, tol=1e-6)
    B = KERNEL(X) + model.noise_ * np.diag(1 / w)
    mean = center + scale * (KERNEL(task.new, X) @ np.linalg.solve(B, (Y - center) / scale))
    assert within(found.mean_lower, mean, found.mean_upper)
    assert found.squared_distance_lower is None
    assert found.squared_distance_upper is None
    assert "expects" not in str(found)


def test_a_model_without_near_rows_needs_them():
    task = Task()
    model = model_of(n_neighbors=0).fit(task.X, task.y, task.w)
    with pytest.raises(ValueError, match="pass X_train and y"):
        model.distance_to_exact(task.new)
    found = model.distance_to_exact(task.new, task.X, task.y, task.w, tol=1e-6)
    mean, std = task.exact(model, task.new)
    assert within(found.mean_lower, mean, found.mean_upper)
    assert within(found.std_lower, std, found.std_upper)
    assert found.squared_distance_lower is not None
    wrong = model.distance_to_exact(task.new, task.X, task.y[::-1], task.w)
    assert wrong.squared_distance_lower is None


def test_rows_of_weight_zero_are_absent():
    task = Task()
    model = model_of().fit(task.X, task.y, task.w)
    X, Y = np.concatenate([task.X, task.new]), np.concatenate([task.y, 100 + task.y[:30]])
    w = np.concatenate([task.w, np.zeros(30)])
    own, given = model.distance_to_exact(task.new), model.distance_to_exact(task.new, X, Y, w)
    np.testing.assert_allclose(given.mean_lower, own.mean_lower, rtol=1e-6)
    assert given.squared_distance_upper is not None


def test_rows_of_a_file_are_recognised(tmp_path):
    task = Task()
    path = tmp_path / "rows.npy"
    np.save(path, task.X)
    model = model_of().fit(str(path), task.y, task.w)
    found = model.distance_to_exact(task.new, str(path), task.y, task.w)
    assert found.squared_distance_upper is not None
    with pytest.raises(ValueError, match="inconsistent"):
        model.distance_to_exact(task.new, str(path), task.y[1:])


def test_items_and_sparse_rows():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdef"), size=6)) for _ in range(60)]
    kernel = pairwise(lambda a, b: float(sum(p == q for p, q in zip(a, b, strict=True))))
    y = np.array([word.count("a") + rng.normal() / 10 for word in words])
    model = model_of(kernel=kernel, n_basis=5, noise=0.1).fit(words[:50], y[:50])
    found = model.distance_to_exact(words[50:], tol=1e-6)
    B = kernel(words[:50], words[:50]) + 0.1 * np.eye(50)
    center, scale = y[:50].mean(), y[:50].std()
    mean = kernel(words[50:], words[:50]) @ np.linalg.solve(B, (y[:50] - center) / scale)
    assert within(found.mean_lower, center + scale * mean, found.mean_upper)

    task = Task()
    plain = model_of(kernel=RBF(0.5)).fit(task.X, task.y, task.w)
    rows = model_of(kernel=RBF(0.5)).fit(sparse.csr_array(task.X), task.y, task.w)
    np.testing.assert_allclose(
        rows.distance_to_exact(sparse.csr_array(task.new)).std_lower,
        plain.distance_to_exact(task.new).std_lower,
        rtol=1e-3,
    )


# Few iterations, batches, the sentence


def test_bounds_hold_where_iterations_are_too_few(iterated, monkeypatch):
    monkeypatch.setattr("pursuit.estimators.gp.exact_system._LANDMARKS_PER_ROOT", 0.5)
    task = Task()
    model = model_of().fit(task.X, task.y, task.w)
    mean, std = task.exact(model, task.new)
    with pytest.warns(ConvergenceWarning, match="further apart than tol=0.001 after max_iter=2"):
        found = model.distance_to_exact(task.new, tol=1e-3, max_iter=2)
    assert within(found.mean_lower, mean, found.mean_upper)
    assert within(found.std_lower, std, found.std_upper)
    assert np.max(found.std_upper / found.std_lower) > 1.01
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.distance_to_exact(task.new, tol=1e-3).n_iter > 4


def test_points_come_in_batches(iterated, monkeypatch):
    task = Task()
    model = model_of().fit(task.X, task.y, task.w)
    together = model.distance_to_exact(task.new, tol=1e-6)
    monkeypatch.setattr("pursuit.estimators.gp.exact_system._QUERY_NUMBERS", 1)
    apart = model.distance_to_exact(task.new, tol=1e-6)
    for name in ("mean_lower", "mean_upper", "std_lower", "std_upper"):
        np.testing.assert_allclose(getattr(apart, name), getattr(together, name), rtol=3e-6)


def test_bad_tolerance():
    task = Task()
    model = model_of().fit(task.X, task.y, task.w)
    with pytest.raises(ValueError, match="tol"):
        model.distance_to_exact(task.new, tol=0.0)


def test_the_sentence():
    ones = np.ones(4)
    found = ExactDistance(
        2 * ones, 0.5 * ones, 1.7 * ones, 1.9 * ones, 0.4 * ones, 0.6 * ones, None, 0.04 * ones, 7
    )
    np.testing.assert_allclose(found.mean_distance, 0.3)
    np.testing.assert_allclose(found.std_distance, 0.1)
    assert str(found) == (
        "exact Gaussian process at 4 points: its mean is at most 0.3 away (root mean square; 0.5 "
        "of its standard deviations; largest 0.3), where the process itself expects 0.2; its "
        "standard deviation is 0.4 to 0.6 on average, the model's 0.5"
    )
