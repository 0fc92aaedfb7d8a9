"""Full-scale regression against dense algebra, explicit deletion and the exact process."""

import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

import pursuit
from pursuit import (
    Evidence,
    FullScaleGPClassifier,
    FullScaleGPRegressor,
    SparseGPRegressor,
    pairwise,
)
from pursuit.estimators import inputs
from pursuit.estimators.full_scale.local_fit import GlobalPart
from pursuit.estimators.full_scale.near_rows import distinct, row_numbers
from pursuit.linalg import Workers

LEARNED = {
    "kernel": 1.0 * Matern([0.2, 0.2], nu=1.5),
    "optimizer": Evidence(rows=200),
    "random_state": 0,
}
GIVEN = {"optimizer": None, "noise": 0.05, "normalize_y": False, "random_state": 0}


def rough(n_rows, seed=0, n_features=2, n_outputs=1, noise=0.1, rate=25):
    """A smooth function, a rough one and noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, n_features))
    wiggles = [
        np.sin(3 * X[:, 0]) + np.sin(rate * X @ rng.standard_normal(n_features))
        for _ in range(n_outputs)
    ]
    y = np.stack(wiggles, axis=1) + noise * rng.standard_normal((n_rows, n_outputs))
    return X, y[:, 0] if n_outputs == 1 else y


KERNELS = [
    1.5 * RBF([0.3, 0.5]),
    1.5 * Matern([0.3, 0.5], nu=0.5),
    Matern(0.4, nu=1.5) + 0.5 * RBF(0.1),
    1.0 * RBF(0.5) * Matern(1.0, nu=2.5) + DotProduct(0.3),
]


class Dense:
    """The formulas of the class's notes, one query at a time, in dense float64."""

    def __init__(self, model, X, Y, w):
        self.kernel, self.noise = model.kernel_, model.noise_
        self.X, self.Y, self.w, self.model = X, Y, w, model
        Z = model.global_.basis_
        self.Z, self.R = Z, np.linalg.cholesky(self.kernel(Z))
        self.V = self.features(X)
        ridge = model.global_.noise_
        B = (self.V * w[:, None]).T @ self.V + ridge * np.eye(len(Z))
        self.u = np.linalg.solve(B, (self.V * w[:, None]).T @ Y)
        self.C = ridge * np.linalg.inv(B)

    def features(self, X):
        return np.linalg.solve(self.R, self.kernel(self.Z, X)).T

    def near(self, x, k, without=()):
        """Row numbers by distance in the metric of the kernel's shortest length scales."""
        scales = np.min(
            [
                np.broadcast_to(v, self.X.shape[1])
                for name, v in self.kernel.get_params().items()
                if name.endswith("length_scale")
            ],
            axis=0,
        )
        distance = ((self.X / scales - x / scales) ** 2).sum(axis=1)
        order = np.argsort(distance, kind="stable")
        return [i for i in order if i not in without][:k]

    def predict(self, x, k, without=()):
        """Mean, variance without noise, and the weights of near rows."""
        N = self.near(x, k, without)
        v, VN = self.features(x[None])[0], self.V[N]
        x = x[None]
        r = self.kernel(x, self.X[N])[0] - v @ VN.T
        rN = self.kernel(self.X[N]) - VN @ VN.T + np.diag(self.noise / self.w[N])
        A = np.linalg.solve(rN, r)
        u = v - A @ VN
        mean = v @ self.u + A @ (self.Y[N] - VN @ self.u)
        missed = self.kernel(x)[0, 0] - v @ v - A @ r
        return mean, missed + u @ self.C @ u


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("memory", ["stored", "on-demand"])
def test_predictions_are_those_of_dense_formulas(kernel, memory):
    X, Y = rough(300, n_outputs=2)
    w = np.random.default_rng(1).integers(1, 4, 300).astype(float)
    model = FullScaleGPRegressor(
        kernel, n_basis=20, n_neighbors=12, calibration=None, memory=memory, **GIVEN
    ).fit(X, Y, w)
    queries = np.random.default_rng(2).uniform(-1.3, 1.3, (40, 2))
    mean, std = model.predict(queries, return_std=True, include_noise=False)
    dense = Dense(model, X, Y, w)
    for x, m, s in zip(queries, mean, std, strict=True):
        expected, variance = dense.predict(x, 12)
        np.testing.assert_allclose(m, expected, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(s**2, variance, rtol=1e-7, atol=1e-9)


def exact(kernel, X, y, w, noise, queries):
    """Evidence, mean and variance of a new observation of the exact process."""
    K = kernel(X) + np.diag(noise / w)
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(K, y)
    k = kernel(queries, X)
    half = np.linalg.solve(L, k.T)
    evidence = -0.5 * (y @ alpha + 2 * np.log(np.diag(L)).sum() + len(y) * np.log(2 * np.pi))
    return evidence, k @ alpha, kernel.diag(queries) - (half**2).sum(axis=0) + noise


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("copies", [False, True])
def test_full_coupling_with_all_rows_is_the_exact_process(kernel, copies):
    X, y = rough(150)
    w = np.random.default_rng(1).uniform(0.5, 3, 150)
    if copies:
        X[100:] = X[:50]
    distinct = len(np.unique(X, axis=0))
    model = FullScaleGPRegressor(
        kernel, n_basis=15, n_neighbors=distinct, coupling="full", calibration=None, **GIVEN
    ).fit(X, y, w)
    queries = np.random.default_rng(2).uniform(-1.3, 1.3, (40, 2))
    evidence, mean, variance = exact(kernel, X, y, w, 0.05, queries)
    found, std = model.predict(queries, return_std=True)
    np.testing.assert_allclose(model.log_evidence_, evidence, rtol=1e-8)
    np.testing.assert_allclose(found, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(std**2, variance, rtol=1e-8)


def test_full_coupling_with_few_rows_is_not_the_exact_process():
    """The check above can fail."""
    X, y = rough(150)
    model = FullScaleGPRegressor(
        KERNELS[1], n_basis=15, n_neighbors=5, coupling="full", calibration=None, **GIVEN
    ).fit(X, y)
    evidence, _, _ = exact(KERNELS[1], X, y, np.ones(150), 0.05, X[:5])
    assert abs(model.log_evidence_ - evidence) > 1e-3


@pytest.mark.parametrize("added", [False, True])
def test_full_coupling_with_few_rows_has_a_sparse_inverse_factor(added):
    """Coordinates by the precision LL' of all rows, each column of L from the rows near and before.

    Two outputs, weights and copies; with ``added`` the last rows come by partial_fit.
    """
    X, Y = rough(140, n_outputs=2)
    X[120:] = X[:20]
    w = np.random.default_rng(1).uniform(0.5, 3, 140)
    kernel, first = KERNELS[1], 100 if added else 140
    model = FullScaleGPRegressor(
        kernel, n_basis=15, n_neighbors=7, coupling="full", calibration=None, **GIVEN
    ).fit(X[:first], Y[:first], w[:first])
    if added:
        model.partial_fit(X[first:], Y[first:], w[first:])
    kept = model._kept
    dense = Dense(model, kept.items, kept.targets, kept.weights)
    S = kernel(kept.items) - dense.V @ dense.V.T + np.diag(0.05 / kept.weights)
    L = np.zeros_like(S)
    for i in range(len(S)):
        distance = (((kept.items[:i] - kept.items[i]) / [0.3, 0.5]) ** 2).sum(axis=1)
        some = np.append(np.argsort(distance, kind="stable")[:7], i)
        column = np.linalg.solve(S[np.ix_(some, some)], np.eye(len(some))[-1])
        L[some, i] = column / np.sqrt(column[-1])
    precision = L @ L.T
    C = np.linalg.inv(np.eye(15) + dense.V.T @ precision @ dense.V)
    mu = C @ dense.V.T @ precision @ kept.targets
    rotation = model._part.rotation
    np.testing.assert_allclose(rotation.T @ rotation, C, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model._part.coordinates, mu, rtol=1e-8, atol=1e-10)


def test_rows_added_to_full_coupling_give_the_exact_process():
    X, y = rough(120)
    X[110:] = X[:10]
    model = FullScaleGPRegressor(
        KERNELS[0], n_basis=15, n_neighbors=80, coupling="full", calibration=None, **GIVEN
    ).fit(X[:80], y[:80])
    model.n_neighbors_ = 120
    model.partial_fit(X[80:], y[80:])
    queries = np.random.default_rng(2).uniform(-1, 1, (30, 2))
    evidence, mean, variance = exact(KERNELS[0], X, y, np.ones(120), 0.05, queries)
    found, std = model.predict(queries, return_std=True)
    np.testing.assert_allclose(model.log_evidence_, evidence, rtol=1e-8)
    np.testing.assert_allclose(found, mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(std**2, variance, rtol=1e-7)


def test_copies_are_kept_as_one_row():
    """A row three times is the row with weight 3, and three copies are one near row."""
    X, y = rough(200)
    again = np.concatenate([X, X[:40], X[:40]]), np.concatenate([y, y[:40], y[:40]])
    w = np.ones(200)
    w[:40] = 3.0
    options = {"n_basis": 20, "n_neighbors": 10, "calibration": None, "search": "full", **GIVEN}
    one = FullScaleGPRegressor(KERNELS[0], **options).fit(X, y, w)
    three = FullScaleGPRegressor(KERNELS[0], **options).fit(*again)
    assert three._kept.n_rows == 200
    for a, b in zip(
        one.predict(X + 0.01, return_std=True),
        three.predict(X + 0.01, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("copies", [False, True])
def test_leaving_one_out_is_deleting_the_row(copies):
    X, y = rough(150)
    w = np.random.default_rng(1).uniform(0.5, 2, 150)
    if copies:
        X[120:], y[130:] = X[:30], y[:20]
    model = FullScaleGPRegressor(
        KERNELS[0], n_basis=15, n_neighbors=8, calibration=None, **GIVEN
    ).fit(X, y, w)
    some = np.r_[0:12, 60:70, 125:140]
    mean, std = model.leave_one_out(X[some], y[some], w[some])
    for i, m, s in zip(some, mean, std, strict=True):
        keep = np.arange(150) != i
        # Without the row; copies that stay are one row, as in the model.
        rows, first = np.unique(X[keep], axis=0, return_index=True)
        rows = X[keep][np.sort(first)]
        same = (X[keep][:, None] == rows).all(axis=2)
        weights = w[keep] @ same
        targets = (w[keep] * y[keep]) @ same / weights
        dense = Dense(model, X[keep], y[keep][:, None], w[keep])
        u, C = dense.u, dense.C
        dense = Dense(model, rows, targets[:, None], weights)
        dense.u, dense.C = u, C
        expected, variance = dense.predict(X[i], 8)
        np.testing.assert_allclose(m, expected[0], rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(s**2, variance + 0.05, rtol=1e-7)


def test_copies_added_to_full_coupling_leave_their_near_rows():
    """A row that partial_fit appended is a copy of an older one: it leaves, the older one stays."""
    X, y = rough(120)
    X[110:] = X[:10]
    model = FullScaleGPRegressor(
        KERNELS[0], n_basis=15, n_neighbors=8, coupling="full", calibration=None, **GIVEN
    ).fit(X[:80], y[:80])
    model.partial_fit(X[80:], y[80:])
    mean, std = model.leave_one_out(X[110:], y[110:])
    dense = Dense(model, X[:110], y[:110, None], np.ones(110))
    T = model._part.rotation
    dense.u, dense.C = model._part.coordinates, T.T @ T
    # The copies of other rows stay.
    for i, (m, s) in enumerate(zip(mean, std, strict=True)):
        others = np.arange(10) != i
        dense.w = 1.0 + np.r_[others, np.zeros(100)]
        dense.Y = y[:110, None].copy()
        dense.Y[:10][others] = 0.5 * (y[:10] + y[110:])[others, None]
        expected, variance = dense.predict(X[110 + i], 8)
        np.testing.assert_allclose(m, expected[0], rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(s**2, variance + 0.05, rtol=1e-7)


def test_joint_covariance_is_that_of_the_errors():
    """Of f - c'y under the prior, for the linear predictor c that near rows and basis make."""
    X, y = rough(120)
    model = FullScaleGPRegressor(
        KERNELS[2], n_basis=15, n_neighbors=8, coupling="full", calibration=None, **GIVEN
    ).fit(X, y)
    queries = np.concatenate([X[:5] + 0.02, np.random.default_rng(2).uniform(-1, 1, (20, 2))])
    mean, cov = model.predict(queries, return_cov=True)
    again, std = model.predict(queries, return_std=True)
    np.testing.assert_array_equal(mean, again)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-9)
    assert np.linalg.eigvalsh(cov).min() > 0
    dense = Dense(model, X, y[:, None], np.ones(120))
    local = model._ready(pursuit.linalg.Workers())
    C = local.part.rotation.T @ local.part.rotation
    V, Q = dense.V, dense.features(queries)
    A = np.zeros((25, 120))
    for i, x in enumerate(queries):
        # The model keeps its rows in a random order: ties aside, that changes nothing here.
        N = dense.near(x, 8)
        r = model.kernel_(x[None], X[N])[0] - Q[i] @ V[N].T
        A[i, N] = np.linalg.solve(model.kernel_(X[N]) - V[N] @ V[N].T + 0.05 * np.eye(8), r)
    u = Q - A @ V
    cross = model.kernel_(queries, X) - Q @ V.T
    inner = model.kernel_(X) - V @ V.T + 0.05 * np.eye(120)
    expected = (
        model.kernel_(queries)
        - Q @ Q.T
        - A @ cross.T
        - cross @ A.T
        + A @ inner @ A.T
        + u @ C @ u.T
        + 0.05 * np.eye(25)
    )
    np.testing.assert_allclose(cov, expected, atol=1e-9)
    draws = model.sample_y(queries, 4, random_state=0)
    assert draws.shape == (25, 4)


def test_without_near_rows_it_is_the_sparse_model():
    X, y = rough(400)
    model = FullScaleGPRegressor(**LEARNED, n_basis=30, n_neighbors=0).fit(X, y)
    sparse = SparseGPRegressor(**LEARNED, n_basis=30, calibration="loo", certificate=None).fit(X, y)
    for a, b in zip(
        model.predict(X, return_std=True), sparse.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert model._kept is None


@pytest.fixture(scope="module")
def fitted():
    """A learned model on rough data with reserved rows."""
    X, y = rough(2600, rate=15)
    model = FullScaleGPRegressor(**LEARNED, n_basis=40).fit(X[:2400], y[:2400])
    return model, X, y


def test_near_rows_are_chosen_where_they_gain(fitted):
    model, X, y = fitted
    assert model.n_neighbors_ in (16, 32, 64)
    full, sparse = model.score(X[2400:], y[2400:]), model.global_.score(X[2400:], y[2400:])
    assert full > sparse + 0.02
    report = str(model.learning_report_)
    assert f"near rows: {model.n_neighbors_} of the sizes tried" in report
    assert {"learn", "near"} <= model.learning_report_.seconds.keys()
    mean, std = model.predict(X[2400:], return_std=True)
    assert 0.88 < np.mean(np.abs(mean - y[2400:]) < 1.96 * std) < 0.995


def test_choices_are_made_on_rows_that_chose_nothing(fitted):
    """Their left-out density is that of new rows, up to its standard error."""
    model, X, y = fitted
    mean, std = model.predict(X[2400:], return_std=True)
    scale = y[:2400].std()
    z, s = (y[2400:] - mean) / scale, std / scale
    new = 0.5 * np.log(2 * np.pi * s**2) + 0.5 * (z / s) ** 2
    found = model.calibration_
    assert found.n_rows == len(model.global_._reserved_rows) == 480
    assert abs(new.mean() - found.nlpd) < 3 * new.std() * np.sqrt(1 / 200 + 1 / 480)


def test_pure_noise_needs_no_near_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2500, 3)), rng.standard_normal(2500)
    model = FullScaleGPRegressor(n_basis=30, optimizer=Evidence(rows=200), random_state=0).fit(X, y)
    assert model.n_neighbors_ == 0
    assert "near rows: none of the sizes tried" in str(model.learning_report_)


def test_a_shuffled_target_needs_no_near_rows():
    """Of several sizes and noises, one gains a standard error by chance."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, (4000, 3))
    y = rng.permutation(np.sin(8 * X[:, 0]) + X[:, 1] ** 2)
    kernel = 1.0 * Matern([0.3] * 3, nu=1.5)
    model = FullScaleGPRegressor(kernel, n_basis=40, optimizer=Evidence(rows=200), random_state=7)
    assert model.fit(X[:2600], y[:2600]).n_neighbors_ == 0


def test_the_report_of_full_coupling_leaves_out_the_rows_that_judge():
    X, y = rough(2400, rate=15)
    options = {**LEARNED, "n_basis": 200, "n_neighbors": 16, "coupling": "full"}
    model = FullScaleGPRegressor(**options).fit(X, y)
    with Workers(1) as workers:
        judged = model._left_out_rows(model._ready(workers), model._judges, workers)
    expected = model.calibration_.rmse * model._scale.scale[0]
    np.testing.assert_allclose(judged.error()[1], expected, rtol=1e-6)


def test_a_basis_that_spans_the_kernel_says_so():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.standard_normal(300)
    model = FullScaleGPRegressor(DotProduct(1.0), n_basis=20, random_state=0).fit(X, y)
    assert model.n_neighbors_ == 0
    assert "near rows have nothing to add" in model.learning_report_.near_rows
    with pytest.warns(UserWarning, match="near rows have nothing to add"):
        FullScaleGPRegressor(DotProduct(1.0), n_basis=20, n_neighbors=5, random_state=0).fit(X, y)


@pytest.mark.parametrize("estimator", [FullScaleGPRegressor, FullScaleGPClassifier])
def test_a_single_distinct_row_has_no_near_rows(estimator):
    model = estimator(RBF(), n_neighbors=1, optimizer=None, random_state=0)
    model.fit(np.ones((6, 2)), np.arange(6) % 2)
    assert model.n_neighbors_ == 0
    assert model.learning_report_.near_rows == "none: there is only one distinct row"


def test_truncated_models_are_calibrated_anew(fitted):
    model, X, y = fitted
    small = model.truncated(10)
    assert small.global_.n_basis_ == 10
    assert small.n_neighbors_ == model.n_neighbors_
    assert small.calibration_.nlpd != model.calibration_.nlpd
    mean, std = small.predict(X[2400:], return_std=True)
    assert 0.88 < np.mean(np.abs(mean - y[2400:]) < 1.96 * std) < 0.995
    assert small.score(X[2400:], y[2400:]) > small.global_.score(X[2400:], y[2400:])


def test_rows_added_are_rows_fitted():
    """Partial fits and one fit with the same choices are one model."""
    X, y = rough(400)
    options = {"n_basis": 20, "n_neighbors": 10, "calibration": None, **GIVEN}
    parts = FullScaleGPRegressor(KERNELS[0], **options).fit(X[:300], y[:300])
    basis = parts.global_.basis_
    parts.partial_fit(X[300:], y[300:]).partial_fit(X[:20], y[:20])
    dense = Dense(parts, X, np.concatenate([y])[:, None], np.where(np.arange(400) < 20, 2.0, 1.0))
    np.testing.assert_array_equal(parts.global_.basis_, basis)
    mean = parts.predict(X[:50] + 0.01)
    expected = [dense.predict(x, 10)[0][0] for x in X[:50] + 0.01]
    np.testing.assert_allclose(mean, expected, rtol=1e-8, atol=1e-9)


def test_strings_have_near_rows():
    def shared(a, b):
        return float(len({*itertools.pairwise(a)} & {*itertools.pairwise(b)})) / 8.0 + (a == b)

    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcd"), 6)) for _ in range(260)]
    y = np.array([word.count("ab") + word.count("cd") for word in words], dtype=float)
    model = FullScaleGPRegressor(
        pairwise(shared), n_basis=10, n_neighbors=8, noise=0.1, calibration=None, random_state=0
    ).fit(words[:200], y[:200])
    mean, _std = model.predict(words[200:], return_std=True)
    distinct = list(dict.fromkeys(words[:200]))
    kernel = lambda A, B: np.array([[shared(a, b) for b in B] for a in A])  # noqa: E731
    Z = model.global_.basis_
    R = np.linalg.cholesky(kernel(Z, Z))
    V = np.linalg.solve(R, kernel(Z, distinct)).T
    K = kernel(distinct, distinct)
    scale = model.global_._scale
    counts = np.array([words[:200].count(word) for word in distinct], dtype=float)
    t = np.array(
        [
            (word.count("ab") + word.count("cd") - scale.mean[0]) / scale.scale[0]
            for word in distinct
        ]
    )
    u = model.global_._factors.coordinates()[:, 0]
    for x, m in zip(words[200:230], mean, strict=False):
        k = kernel([x], distinct)[0]
        distance = kernel([x], [x])[0, 0] + np.diag(K) - 2 * k
        N = np.argsort(np.round(distance, 9), kind="stable")[:8]
        v = np.linalg.solve(R, kernel(Z, [x]))[:, 0]
        r = k[N] - V[N] @ v
        A = np.linalg.solve(K[np.ix_(N, N)] - V[N] @ V[N].T + np.diag(0.1 / counts[N]), r)
        value = v @ u + A @ (t[N] - V[N] @ u)
        np.testing.assert_allclose(m, scale.restore(value[None])[0], rtol=1e-7)


def test_the_number_of_threads_changes_nothing(fitted):
    model, X, y = fitted
    one = clone(model).set_params(n_jobs=1).fit(X[:2400], y[:2400])
    two = model.set_params(n_jobs=2)
    for a, b in zip(one.predict(X, return_std=True), two.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("how", ["pickle", "save"])
@pytest.mark.parametrize("coupling", ["late", "full"])
def test_saved_models_predict_the_same_bits(how, coupling, tmp_path):
    X, y = rough(300)
    model = FullScaleGPRegressor(
        KERNELS[0], n_basis=20, n_neighbors=12, coupling=coupling, **GIVEN
    ).fit(X, y)
    if how == "save":
        model.save(tmp_path / "model")
        again = pursuit.load(tmp_path / "model")
    else:
        again = pickle.loads(pickle.dumps(model))
    assert again._local is None
    for a, b in zip(
        model.predict(X, return_std=True), again.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(again.global_.predict(X), model.global_.predict(X))


def test_the_small_model_is_the_sparse_one(fitted):
    model, X, _ = fitted
    small = model.without_neighbors()
    assert isinstance(small, SparseGPRegressor)
    np.testing.assert_array_equal(small.predict(X), model.global_.predict(X))
    assert len(pickle.dumps(small)) < len(pickle.dumps(model)) / 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "precomputed"}, "k\\(training rows, training rows\\)"),
        ({"n_neighbors": 51}, "n_neighbors=51 is more than the 50 distinct rows"),
        ({"n_neighbors": -1}, "n_neighbors"),
        ({"coupling": "early"}, "coupling"),
        ({"calibration": None}, "n_neighbors='auto' is chosen on reserved rows"),
        ({"memory": "disk"}, "memory"),
    ],
)
def test_bad_arguments_are_explained(parameters, message):
    X, y = rough(50)
    with pytest.raises(ValueError, match=message):
        FullScaleGPRegressor(**parameters).fit(X, y)


def test_rows_that_were_not_fitted_cannot_be_left_out():
    X, y = rough(60)
    model = FullScaleGPRegressor(
        KERNELS[0], n_basis=5, n_neighbors=5, calibration=None, **GIVEN
    ).fit(X, y)
    with pytest.raises(ValueError, match="row 1 is not one of the training rows"):
        model.leave_one_out(np.array([X[0], X[1] + 1e-9]), y[:2])
    with pytest.raises(ValueError, match="more weight"):
        model.leave_one_out(X[:2], y[:2], [1.0, 1.5])


def test_checkpoints_resume_to_the_same_model(tmp_path):
    X, y = rough(2200)
    options = {**LEARNED, "n_basis": 20, "checkpoint": tmp_path / "fit"}
    one = FullScaleGPRegressor(**options).fit(X, y)
    two = FullScaleGPRegressor(**options).fit(X, y)
    assert (tmp_path / "fit" / "global").is_dir()
    for a, b in zip(one.predict(X, return_std=True), two.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="checkpoint"):
        FullScaleGPRegressor(**options).fit(X, y + 1.0)


def test_large_files_are_held_as_float32(tmp_path, monkeypatch):
    X, y = rough(2100)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr(inputs, "SMALL_BYTES", 0)
    options = {"kernel": KERNELS[0], "n_basis": 20, "n_neighbors": 8, **GIVEN}
    from_file = FullScaleGPRegressor(**options).fit(tmp_path / "X.npy", y)
    in_memory = FullScaleGPRegressor(**options).fit(X, y)
    assert from_file._kept.items.dtype == np.float32
    np.testing.assert_allclose(from_file.predict(X), in_memory.predict(X), atol=1e-4)
    np.testing.assert_array_equal(from_file.global_.predict(X), in_memory.global_.predict(X))
    monkeypatch.setattr(inputs, "HELD_BYTES", 1000)
    with pytest.raises(ValueError, match=r"holds all rows in memory.* SparseGPRegressor"):
        FullScaleGPRegressor(**options).fit(tmp_path / "X.npy", y)


def test_memory_is_stated_before_the_fit(capsys):
    X, y = rough(300)
    FullScaleGPRegressor(KERNELS[0], n_basis=10, n_neighbors=4, verbose=1, **GIVEN).fit(X, y)
    assert "keeps 300 rows: 0 MiB, and up to 0 MiB of features" in capsys.readouterr().out


def test_a_white_term_is_noise_and_time_is_kept():
    X, y = rough(2300)
    kernel = ConstantKernel(1.0) * RBF(0.3) + WhiteKernel(0.1)
    model = FullScaleGPRegressor(
        kernel, n_basis=20, max_time=20, optimizer=Evidence(rows=200), random_state=0
    ).fit(X, y)
    assert np.isfinite(model.predict(X[:5])).all()


def test_agrees_with_scikit_learn_where_all_rows_are_near():
    X, y = rough(120)
    model = FullScaleGPRegressor(
        KERNELS[0], n_basis=20, n_neighbors=120, coupling="full", calibration=None, **GIVEN
    ).fit(X, y)
    peer = GaussianProcessRegressor(KERNELS[0], alpha=0.05, optimizer=None).fit(X, y)
    queries = np.random.default_rng(3).uniform(-1, 1, (30, 2))
    np.testing.assert_allclose(model.predict(queries), peer.predict(queries), atol=1e-8)


def test_an_interrupted_fit_leaves_the_sparse_model(monkeypatch):
    X, y = rough(300)
    fit = SparseGPRegressor.fit

    def interrupted(self, *args, **options):
        fit(self, *args, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(SparseGPRegressor, "fit", interrupted)
    model = FullScaleGPRegressor(KERNELS[0], n_basis=10, n_neighbors=5, **GIVEN)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_neighbors_ == 0
    np.testing.assert_array_equal(model.predict(X), model.global_.predict(X))


def test_near_rows_get_what_is_left_of_the_time():
    X, y = rough(2600, rate=15)
    model = FullScaleGPRegressor(**LEARNED, n_basis=40, max_time=1e-3).fit(X, y)
    assert "16:" in model.learning_report_.near_rows
    assert "64:" not in model.learning_report_.near_rows


def test_rows_left_out_by_several_ridges_are_those_of_each():
    """One eigendecomposition against a sparse fit with that ridge."""
    X, Y = rough(300, n_outputs=2)
    X[250:] = X[:50]
    w = np.random.default_rng(1).uniform(0.5, 2, 300)
    model = FullScaleGPRegressor(
        KERNELS[0], n_basis=20, n_neighbors=8, calibration=None, **GIVEN
    ).fit(X, Y, w)
    some = np.arange(20, 120)
    leaving = model._leaving(X[some], Y[some], w[some], model._kept)
    leaving = replace(leaving, with_copies=True)
    solution = model.global_._factors
    ridges = [solution.noise * factor for factor in (1.0, 4.0, 100.0)]
    with Workers(1) as workers:
        local = model._ready(workers)
        found = local.left_out_by_ridge(leaving, 8, model.noise_, ridges, workers, solution)
        for ridge, errors in zip(ridges, found, strict=True):
            part = GlobalPart.of_sparse(solution.with_noise(ridge))
            groups = local.with_part(part, workers).left_out(leaving, 8, workers)
            expected = groups.left_out(model.noise_, 8, workers)
            np.testing.assert_allclose(errors.error, expected.error, rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(errors.missed, expected.missed, rtol=1e-8, atol=1e-10)
            np.testing.assert_array_equal(errors.group, expected.group)
    assert np.abs(found[2].error - found[0].error).max() > 1e-3


def test_a_raised_ridge_stays_with_the_model():
    """Functions that near rows make superfluous get a larger ridge, also in truncated models."""
    X, y = rough(2600, rate=15)
    model = FullScaleGPRegressor(**LEARNED, n_basis=40, n_neighbors=16).fit(X[:2400], y[:2400])
    model._part = GlobalPart.of_sparse(model.global_._factors.with_noise(16 * model.global_.noise_))
    model._local = None
    small = model.truncated(20)
    assert small._part.ridge == pytest.approx(16 * small.global_.noise_)
    coordinates = small.global_._factors.with_noise(small._part.ridge).coordinates()
    np.testing.assert_allclose(small._part.coordinates, coordinates, rtol=1e-10)
    model.partial_fit(X[2400:], y[2400:])
    assert model._part.ridge == pytest.approx(16 * model.global_.noise_)
    assert model.score(X, y) > model.global_.score(X, y)


def test_judging_rows_leave_with_their_copies():
    """Against a model of the rows that stay: its sums and near rows know none of the copies."""
    X, y = rough(200)
    X[150:], y[150:175] = X[:50], y[:25]  # 25 copies with the same target, 25 with another
    model = FullScaleGPRegressor(
        KERNELS[0], n_basis=15, n_neighbors=8, calibration=None, **GIVEN
    ).fit(X, y)
    some = np.r_[0:10, 25:30, 100:110, 190:200]
    leaving = model._leaving(X[some], y[some], None, model._kept)
    with Workers(1) as workers:
        groups = model._ready(workers).left_out(replace(leaving, with_copies=True), 8, workers)
        found = groups.left_out(model.noise_, 8, workers)
    for i, error, missed in zip(some, found.error[:, 0], found.missed, strict=True):
        stay = (X[i] != X).any(axis=1)
        sums = Dense(model, X[stay], y[stay][:, None], np.ones(stay.sum()))
        rows, first = np.unique(X[stay], axis=0, return_index=True)
        rows = X[stay][np.sort(first)]
        same = (X[stay][:, None] == rows).all(axis=2)
        targets = (y[stay] @ same / same.sum(axis=0))[:, None]
        dense = Dense(model, rows, targets, same.sum(axis=0).astype(float))
        dense.u, dense.C = sums.u, sums.C
        mean, variance = dense.predict(X[i], 8)
        np.testing.assert_allclose(error, y[i] - mean[0], rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(missed, variance, rtol=1e-7, atol=1e-10)


def test_records_that_occur_twice_do_not_hide_the_noise():
    """As if every record had been written to the file twice."""
    X, y = rough(2400, rate=15, noise=0.3)
    X_new, y_new = rough(3400, rate=15, noise=0.3)
    X_new, y_new = X_new[2400:], y_new[2400:]
    options = {**LEARNED, "n_basis": 40, "n_neighbors": 16}
    once = FullScaleGPRegressor(**options).fit(X, y)
    twice = FullScaleGPRegressor(**options).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert twice._kept.conflicts.n == 0
    assert twice.noise_ > 0.05 * once.noise_
    rmse = [np.sqrt(np.mean((m.predict(X_new) - y_new) ** 2)) for m in (once, twice)]
    assert rmse[1] < 1.05 * rmse[0]


def test_conflicting_targets_of_identical_rows_are_noise():
    items = np.array([[0.0], [1.0], [0.0], [0.0], [1.0], [2.0], [0.0]])
    targets = np.array([[1.0], [5.0], [3.0], [1.0], [5.0], [7.0], [2.0]])
    kept = distinct(items, targets, np.ones(7), row_numbers(items))
    # Row 0 has the targets 1, 3 and 2, the first of them twice; row 1 has one, twice.
    assert (kept.conflicts.n, kept.conflicts.squares, kept.conflicts.n_rows) == (2, 2.0, 7)
    value, slope = kept.conflicts.surprise(0.5)
    assert value == pytest.approx((np.log(2 * np.pi * 0.5) + 2.0) / 7)
    step = 1e-6
    ahead, _ = kept.conflicts.surprise(0.5 * np.exp(step))
    assert slope == pytest.approx((ahead - value) / step, abs=1e-5)


def test_near_rows_that_do_nothing_are_not_taken_for_their_error_bars():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2000, 2))
    y = np.sin(4 * X[:, 0]) + np.sin(25 * X[:, 0]) * np.sin(25 * X[:, 1])
    y += 0.1 * rng.standard_normal(2000)
    kernel = 1.75**2 * Matern(0.167, nu=1.5)
    model = FullScaleGPRegressor(
        kernel, n_basis=512, optimizer=None, noise="learn", random_state=0
    ).fit(X, y)
    assert model.n_neighbors_ == 0


def test_threads_make_index_and_features_once(monkeypatch):
    X, y = rough(300)
    model = FullScaleGPRegressor(KERNELS[0], n_basis=20, n_neighbors=12, **GIVEN).fit(X, y)
    again, made = pickle.loads(pickle.dumps(model)), []
    make = FullScaleGPRegressor._local_model

    def counted(self, *args):
        made.append(1)
        return make(self, *args)

    monkeypatch.setattr(FullScaleGPRegressor, "_local_model", counted)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(again.predict, [X] * 8))
    assert len(made) == 1
    for one in found:
        np.testing.assert_array_equal(one, model.predict(X))
