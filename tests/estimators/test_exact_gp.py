"""The exact process: iterations against dense solves, and what every one of them certifies."""

import pickle
import signal
import warnings
from functools import partial

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pursuit import ExactGPRegressor, pairwise
from pursuit.datasets import make_robot_arm
from pursuit.estimators.gp import exact_system

fixed_gp = partial(ExactGPRegressor, optimizer=None, random_state=0)
"""The kernel is used as given."""

iterated = partial(fixed_gp, solver="cg")
TYPES = ["float32", "float64"]


def shared_letters(a, b):
    return float(len(set(a) & set(b)))


def dense(kernel, X, Y, noise, weights):
    """Coefficients of the exact process by a dense solve."""
    return np.linalg.solve(kernel(X) + noise * np.diag(1 / weights), Y)


@pytest.fixture(scope="module")
def arm(size):
    """Smooth data of eight features, and points to predict at."""
    m = size(700, 6000)
    data = make_robot_arm(m + 60, random_state=0)
    return data.data[:m], data.target[:m], data.data[m:]


# Against dense solves


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
@pytest.mark.parametrize("normalize_y", [True, False])
@pytest.mark.parametrize("n_outputs", [None, 3])
def test_it_is_the_process_of_scikit_learn(waves, rough_kernel, solver, normalize_y, n_outputs):
    data = waves(150, n_outputs=n_outputs)
    peer = GaussianProcessRegressor(
        rough_kernel, alpha=0.05, optimizer=None, normalize_y=normalize_y
    ).fit(data.X, data.y)
    model = fixed_gp(
        rough_kernel, noise=0.05, solver=solver, residual_tol=1e-10, normalize_y=normalize_y
    ).fit(data.X, data.y)
    mean, std = peer.predict(data.new, return_std=True)
    got_mean, got_std = model.predict(data.new, return_std=True, include_noise=False)
    np.testing.assert_allclose(got_mean, mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(got_std, std, rtol=0.011 if solver == "cg" else 1e-8)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_small_tolerance_gives_the_predictions_of_a_dense_solve(arm, dtype):
    X, y, new = arm
    kernel, noise = 0.5 * RBF([1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.9, 3.2]), 0.005
    model = iterated(kernel, noise=noise, residual_tol=1e-8, normalize_y=False, dtype=dtype).fit(
        X, y
    )
    v = dense(kernel, X, y, noise, np.ones(len(X)))
    np.testing.assert_allclose(model.predict(new), kernel(new, X) @ v, atol=1e-6)
    residual = y - kernel(X) @ model.dual_coef_ - noise * model.dual_coef_
    found = np.linalg.norm(residual) / np.linalg.norm(y)
    assert found <= 1e-8
    np.testing.assert_allclose(model.path_.residual[-1], found, rtol=1e-3)
    assert model.path_.stop_reason == "tol"


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 20), st.sampled_from(TYPES))
def test_any_weights_and_any_number_of_landmarks(seed, m, landmarks, dtype):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((m, 2)), rng.standard_normal((m, 2))
    w = np.exp(rng.normal(size=m))
    model = iterated(
        RBF(0.7),
        noise=0.2,
        residual_tol=1e-9,
        normalize_y=False,
        dtype=dtype,
        preconditioner_size=landmarks,
    ).fit(X, Y, sample_weight=w)
    expected = dense(RBF(0.7), X, Y, 0.2, w)
    np.testing.assert_allclose(model.dual_coef_, expected, atol=1e-6 * np.abs(expected).max())


def test_it_is_kernel_ridge_regression(waves):
    data = waves(120)
    peer = KernelRidge(alpha=0.3, kernel="rbf", gamma=0.8).fit(data.X, data.y)
    for solver in ("cg", "cholesky"):
        model = fixed_gp(
            "rbf", gamma=0.8, noise=0.3, normalize_y=False, solver=solver, residual_tol=1e-10
        ).fit(data.X, data.y)
        np.testing.assert_allclose(model.dual_coef_, peer.dual_coef_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_weights_are_copies(waves, rough_kernel, solver):
    data = waves(80, n_outputs=2)
    w = np.random.default_rng(1).integers(0, 4, 80)
    make = partial(fixed_gp, rough_kernel, noise=0.3, solver=solver, residual_tol=1e-11)
    weighted = make().fit(data.X, data.y, sample_weight=w)
    copies = make().fit(np.repeat(data.X, w, axis=0), np.repeat(data.y, w, axis=0))
    np.testing.assert_array_equal(weighted.train_indices_, np.flatnonzero(w))
    np.testing.assert_array_equal(weighted.X_train_, data.X[w > 0])
    np.testing.assert_allclose(weighted.predict(data.new), copies.predict(data.new), rtol=1e-8)
    for one, other in zip(
        weighted.std_bounds(data.new, tol=1e-6), copies.std_bounds(data.new, tol=1e-6), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=2e-6)
    for name in ("upper", "lower"):
        found = getattr(weighted.certificate_, name)
        np.testing.assert_allclose(found, getattr(copies.certificate_, name), rtol=1e-8)


# Certificates


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_iteration_brackets_the_minimum(waves, rough_kernel, exact_minimum, dtype, weighted):
    data = waves(200, n_outputs=2)
    w = np.random.default_rng(3).random(200) + 0.1 if weighted else np.ones(200)
    model = iterated(
        rough_kernel,
        noise=0.02,
        residual_tol=1e-7,
        normalize_y=False,
        dtype=dtype,
        preconditioner_size=20,
    ).fit(data.X, data.y, sample_weight=w)
    path, K = model.path_, rough_kernel(data.X)
    least = exact_minimum(K, data.y, 0.02, w)
    assert path.certified[[0, -1]].all()
    assert path.certified.all() == (dtype == "float64")
    np.testing.assert_array_equal(path.iterations, np.arange(model.n_iter_ + 1))
    # float32 tiles are right to about 1e-6: what is not certified is an estimate.
    for found, certified in zip(path.certificates, path.certified, strict=True):
        room = (1e-12 if certified else 1e-5) * found.target_norms
        assert np.all(found.lower_per_output <= least + room)
        assert np.all(found.upper_per_output >= least - room)
        assert np.all(found.minimum_upper_per_output >= least - room)
        assert np.all(found.minimum_upper_per_output <= found.upper_per_output)
    assert np.all(np.diff(path.lower) >= -1e-9 * path.value[0])
    assert path.lower[0] == 0.0
    np.testing.assert_allclose(path.value[0], 0.5 * np.sum(w @ data.y**2))
    assert np.all(np.diff(path.seconds) >= 0)


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_the_certificate_is_that_of_the_coefficients(waves, rough_kernel, solver):
    data = waves(150, n_outputs=2)
    w = np.random.default_rng(4).random(150) + 0.1
    model = fixed_gp(
        rough_kernel, noise=0.02, solver=solver, residual_tol=1e-2, normalize_y=False
    ).fit(data.X, data.y, sample_weight=w)
    K, found = rough_kernel(data.X), model.certificate_
    primal = oracles.primal(K, K, model.dual_coef_, data.y, w, 0.02)
    dual = oracles.dual(K, model.dual_coef_, data.y, w, 0.02)
    assert np.all(found.upper_per_output >= primal * (1 - 1e-12))
    assert np.all(found.lower_per_output <= dual * (1 + 1e-12))
    assert found.rounding < 1e-7 * found.upper
    np.testing.assert_allclose(found.upper_per_output, primal, rtol=1e-8)
    np.testing.assert_allclose(found.lower_per_output, dual, rtol=1e-8)
    rho = np.sqrt(w)[:, None] * (data.y - (K + np.diag(0.02 / w)) @ model.dual_coef_)
    room = 2 * found.rounding
    np.testing.assert_allclose(found.gap, 0.5 * np.sum(rho**2), rtol=1e-5, atol=room)
    assert found.kind == {"cg": "pcg", "cholesky": "cholesky"}[solver]
    if solver == "cg":
        least = oracles.least_primal(K, data.y, w, 0.02)
        assert found.gap_at_least <= np.sum(primal - least) <= found.gap
        assert found.gap_at_least > 0.1 * found.gap


def test_landmarks_save_iterations(arm):
    X, y = arm[0][:700], arm[1][:700]
    make = partial(iterated, RBF(1.5), noise=0.01, residual_tol=1e-5)
    counts = [make(preconditioner_size=n).fit(X, y).n_iter_ for n in (0, len(X) // 8, len(X) // 2)]
    assert counts[0] > 2 * counts[1] > 4 * counts[2]


def test_a_preconditioner_in_single_precision(waves, rough_kernel, exact_minimum, monkeypatch):
    """What rounding adds to VV' could break its bounds where noise is low; it is accounted for."""
    data = waves(200)
    given = {"noise": 1e-6, "normalize_y": False, "preconditioner_size": 100, "residual_tol": 0.5}
    monkeypatch.setattr("pursuit.estimators.gp.exact_system._DOUBLE_NUMBERS", 0)
    model = iterated(rough_kernel, max_iter=5000, **given).fit(data.X, data.y)
    least = exact_minimum(rough_kernel(data.X), data.y[:, None], 1e-6)
    for found, certified in zip(model.path_.certificates, model.path_.certified, strict=True):
        if certified:
            assert np.all(found.lower_per_output <= least)
            assert np.all(found.minimum_upper_per_output >= least)
    exact = fixed_gp(rough_kernel, noise=1e-6, normalize_y=False).fit(data.X, data.y)
    _, std = exact.predict(data.new, return_std=True)
    lower, upper = model.std_bounds(data.new, tol=0.1)
    assert np.all((lower <= std) & (std <= upper))


# Error bars


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("include_noise", [True, False])
@pytest.mark.parametrize("tol", [0.3, 0.01, 1e-6])
def test_bounds_of_the_standard_deviation(waves, rough_kernel, dtype, include_noise, tol):
    data = waves(200, n_outputs=2)
    w = np.random.default_rng(5).random(200) + 0.1
    model = iterated(rough_kernel, noise=0.02, dtype=dtype).fit(data.X, data.y, w)
    far = np.vstack([data.new, [[30.0, 0.0]], data.X[:5]])
    lower, upper = model.std_bounds(far, tol=tol, include_noise=include_noise)
    k = rough_kernel(far, data.X)
    explained = np.einsum("ij,ij->i", k, dense(rough_kernel, data.X, k.T, 0.02, w).T)
    noise = 0.02 if include_noise else 0.0
    exact = np.sqrt(rough_kernel.diag(far) - explained + noise)[:, None] * data.y.std(axis=0)
    scale = np.sqrt(np.average((data.y - np.average(data.y, 0, w)) ** 2, 0, w))
    exact = exact / data.y.std(axis=0) * scale
    assert np.all(lower <= exact * (1 + 1e-9))
    assert np.all(exact <= upper * (1 + 1e-9))
    assert np.all(upper <= (1 + 1.01 * tol) * lower)
    if tol == 0.01:
        _, std = model.predict(far, return_std=True, include_noise=include_noise)
        np.testing.assert_array_equal(std, 0.5 * (lower + upper))


def test_bounds_hold_also_where_iterations_are_too_few(waves, rough_kernel):
    data = waves(300)
    with pytest.warns(ConvergenceWarning):
        model = iterated(rough_kernel, noise=0.01, max_iter=2, preconditioner_size=10).fit(
            data.X, data.y
        )
    with pytest.warns(ConvergenceWarning, match="further apart than tol=0.001 after max_iter=2"):
        lower, upper = model.std_bounds(data.new, tol=1e-3)
    exact = fixed_gp(rough_kernel, noise=0.01).fit(data.X, data.y)
    _, std = exact.predict(data.new, return_std=True)
    assert np.all((lower <= std) & (std <= upper))
    assert np.max(upper / lower) > 1.01


def test_cholesky_bounds_meet(waves, rough_kernel):
    data = waves(100)
    model = fixed_gp(rough_kernel, noise=0.1).fit(data.X, data.y)
    lower, upper = model.std_bounds(data.new)
    np.testing.assert_allclose(lower, upper, rtol=1e-9)
    assert np.all(lower < upper)
    assert model.solver_ == "cholesky"


def test_many_new_points_come_in_batches(waves, monkeypatch):
    data = waves(200)
    model = iterated(RBF(0.5), noise=0.1).fit(data.X, data.y)
    new = np.random.default_rng(0).normal(size=(70, 2))
    together = model.std_bounds(new, tol=1e-6)
    monkeypatch.setattr("pursuit.estimators.gp.exact_system._QUERY_NUMBERS", 1)
    np.testing.assert_allclose(model.std_bounds(new, tol=1e-6), together, rtol=2e-6)


# Input of every kind


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_sparse_and_single_precision_rows(waves, solver):
    data = waves(150)
    make = partial(fixed_gp, "rbf", noise=0.2, solver=solver, residual_tol=1e-9)
    expected = make().fit(data.X, data.y).predict(data.new, return_std=True)
    csr = make().fit(sparse.csr_array(data.X), data.y)
    for one, other in zip(
        csr.predict(sparse.csr_matrix(data.new), return_std=True), expected, strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    single = make().fit(data.X.astype(np.float32), data.y)
    np.testing.assert_allclose(single.predict(data.new), expected[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
@pytest.mark.parametrize("weighted", [False, True])
def test_precomputed(waves, rough_kernel, solver, weighted):
    data = waves(120)
    w = np.arange(120) % 3 if weighted else None
    make = partial(fixed_gp, noise=0.2, solver=solver, residual_tol=1e-10)
    expected = make(kernel=rough_kernel).fit(data.X, data.y, w)
    model = make(kernel="precomputed").fit(rough_kernel(data.X), data.y, w)
    new = rough_kernel(data.new, data.X)
    np.testing.assert_allclose(model.predict(new), expected.predict(data.new), rtol=1e-7)
    assert model.X_train_ is None
    with pytest.raises(ValueError, match=r"k\(x, x\) of the rows.*pass it as diagonal="):
        model.predict(new, return_std=True)


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_strings(solver):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefgh"), 4)) for _ in range(80)]
    y = np.array([float("a" in word) for word in words])
    model = fixed_gp(pairwise(shared_letters), noise=0.5, solver=solver, residual_tol=1e-9)
    mean, std = model.fit(words, y).predict(["abcd", "efgh"], return_std=True)
    K = np.array([[shared_letters(a, b) for b in words] for a in words])
    k = np.array([[shared_letters(a, b) for b in words] for a in ("abcd", "efgh")])
    z = (y - y.mean()) / y.std()
    v = np.linalg.solve(K + 0.5 * np.eye(80), z)
    np.testing.assert_allclose(mean, k @ v * y.std() + y.mean(), atol=1e-7)
    left = 4.5 - np.einsum("ij,ji->i", k, np.linalg.solve(K + 0.5 * np.eye(80), k.T))
    np.testing.assert_allclose(std, np.sqrt(left) * y.std(), rtol=0.006)


def test_a_pipeline_of_a_data_frame(waves):
    pandas = pytest.importorskip("pandas")
    data = waves(80)
    frame = pandas.DataFrame(data.X, columns=["width", "height"])
    model = make_pipeline(StandardScaler().set_output(transform="pandas"), fixed_gp(noise=0.1))
    model.fit(frame, data.y)
    names = model[-1].learning_report_.feature_names
    assert names == list(model[-1].feature_names_in_) == ["width", "height"]
    assert model.score(frame, data.y) > 0.9


# Learning


def test_kernel_and_noise_are_learned(waves):
    data = waves(400)
    model = ExactGPRegressor(random_state=0).fit(data.X, data.y)
    np.testing.assert_allclose(model.noise_ * data.y.var(), 0.09, rtol=0.25)
    assert model.learning_report_.family in {"rbf", "matern52", "matern32", "matern12"}
    assert "all rows" in str(model.learning_report_)
    assert set(model.learning_report_.seconds) == {"learn", "factor", "solve"}
    truth = np.sin(2 * data.new[:, 0]) + 0.5 * data.new[:, 1] + 3.0
    mean, std = model.predict(data.new, return_std=True, include_noise=False)
    assert np.mean(np.abs(mean - truth) < 2 * std) > 0.8


def test_a_kernel_object_is_learned_within_its_bounds(waves):
    data = waves(200)
    kernel = ConstantKernel(1.0) * Matern(1.0, (0.5, 2.0), nu=2.5) + WhiteKernel(0.1)
    model = ExactGPRegressor(kernel, random_state=0).fit(data.X, data.y)
    assert 0.5 <= model.kernel_.get_params()["k2__length_scale"] <= 2.0
    assert kernel.get_params()["k1__k2__length_scale"] == 1.0
    given = fixed_gp(ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.07)).fit(data.X, data.y)
    assert given.noise_ == 0.07


# The same answer always


@pytest.mark.parametrize("dtype", TYPES)
def test_threads_do_not_change_a_bit(waves, dtype):
    data = waves(1500, n_outputs=2)
    found = [
        iterated(RBF(0.5), noise=0.05, n_jobs=n_jobs, dtype=dtype).fit(data.X, data.y)
        for n_jobs in (1, 2)
    ]
    np.testing.assert_array_equal(found[0].dual_coef_, found[1].dual_coef_)
    bounds = [model.std_bounds(data.new) for model in found]
    np.testing.assert_array_equal(*bounds)


def test_random_state_and_copies(waves):
    data = waves(300)
    X = data.X.copy()
    model = iterated(RBF(0.5), noise=0.05).fit(X, data.y)
    expected = model.predict(data.new, return_std=True)
    again = clone(model).fit(X, data.y)
    X[:] = 0.0  # the model keeps its own rows
    for same in (model, again, pickle.loads(pickle.dumps(model))):
        for one, other in zip(same.predict(data.new, return_std=True), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    other_seed = iterated(RBF(0.5), noise=0.05).set_params(random_state=1).fit(data.X, data.y)
    assert not np.array_equal(other_seed.dual_coef_, model.dual_coef_)


def test_auto_chooses_by_the_number_of_rows(waves, monkeypatch):
    data = waves(60)
    assert fixed_gp("rbf", noise=0.1).fit(data.X, data.y).solver_ == "cholesky"
    monkeypatch.setattr("pursuit.estimators.gp.exact.DIRECT_ROWS", 59)
    model = fixed_gp("rbf", noise=0.1).fit(data.X, data.y)
    assert model.solver_ == "cg"
    assert model.n_iter_ >= 1
    assert str(model.path_).startswith(
        f"Path of {model.n_iter_} iterations, stopped by tol: value "
    )


def test_refitting_forgets_the_factor(waves):
    data, other = waves(60), waves(90, seed=1)
    model = fixed_gp("rbf", noise=0.1).fit(data.X, data.y)
    model.fit(other.X, other.y)
    fresh = fixed_gp("rbf", noise=0.1).fit(other.X, other.y)
    for one, two in zip(
        model.predict(other.new, return_std=True),
        fresh.predict(other.new, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(one, two)


def test_silent_unless_asked(waves, capsys):
    data = waves(60)
    fixed_gp("rbf", noise=0.1).fit(data.X, data.y)
    assert capsys.readouterr().out == ""
    fixed_gp("rbf", noise=0.1, verbose=1).fit(data.X, data.y)
    printed = capsys.readouterr().out
    assert [line.split()[1] for line in printed.splitlines()] == ["learn:", "factor:", "solve:"]


# Borderline and bad input


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
@pytest.mark.parametrize("level", [0.0, 7.0])
def test_constant_targets(waves, solver, level):
    data = waves(50)
    model = fixed_gp("rbf", noise=0.1, solver=solver).fit(data.X, np.full(50, level))
    np.testing.assert_allclose(model.predict(data.new), level, atol=1e-12)
    assert model.certificate_.relative_gap == 0.0


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_one_row_and_equal_rows(solver):
    one = fixed_gp("rbf", noise=0.5, solver=solver, normalize_y=False).fit([[1.0]], [3.0])
    np.testing.assert_allclose(one.predict([[1.0]]), 2.0)
    same = fixed_gp("rbf", noise=0.5, solver=solver, normalize_y=False, residual_tol=1e-9).fit(
        np.ones((40, 2)), np.full(40, 3.0)
    )
    np.testing.assert_allclose(same.predict([[1.0, 1.0]]), 3.0 * 40 / 40.5)


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_a_kernel_that_is_zero_everywhere(solver):
    y = np.arange(5.0)
    model = fixed_gp("linear", noise=0.04, solver=solver, normalize_y=False).fit(
        np.zeros((5, 3)), y
    )
    mean, std = model.predict(np.zeros((2, 3)), return_std=True)
    assert np.array_equal(mean, [0.0, 0.0])
    assert std == pytest.approx([0.2, 0.2])
    assert model.certificate_.lower <= y @ y / 2 <= model.certificate_.upper


def test_smooth_kernels_are_of_low_rank(waves):
    """Landmarks that depend on others are left out; the rest solves the system in a few steps."""
    data = waves(300)
    model = iterated(RBF(20.0), noise=1e-3, residual_tol=1e-8, preconditioner_size=150).fit(
        data.X, data.y
    )
    expected = fixed_gp(RBF(20.0), noise=1e-3, solver="cholesky").fit(data.X, data.y)
    np.testing.assert_allclose(
        model.predict(data.new), expected.predict(data.new), atol=1e-6 * np.abs(data.y).max()
    )
    assert model.n_iter_ <= 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise": 0.0}, "noise must be a positive number"),
        ({"noise": "auto"}, "'noise' parameter"),
        ({"solver": "cholesky", "preconditioner_size": 50}, "is for conjugate gradients"),
        ({"residual_tol": 0.0}, "'residual_tol' parameter"),
        ({"residual_tol": None}, "'residual_tol' parameter"),
        ({"solver": "lu"}, "'solver' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"preconditioner_size": -1}, "'preconditioner_size' parameter"),
        ({"preconditioner_size": "all"}, "'preconditioner_size' parameter"),
        ({"dtype": "float16"}, "'dtype' parameter"),
        ({"optimizer": "adam"}, "'optimizer' parameter"),
        ({"kernel": "gauss"}, "gauss"),
        ({"kernel": "precomputed"}, "needs a square kernel matrix in fit, got shape"),
    ],
)
def test_bad_arguments(waves, arguments, message):
    data = waves(30)
    with pytest.raises(ValueError, match=message):
        ExactGPRegressor(**arguments).fit(data.X, data.y)


def test_bad_calls(waves):
    data = waves(30)
    with pytest.raises(ValueError, match="pass the targets as fit"):
        ExactGPRegressor().fit(data.X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ExactGPRegressor().fit(data.X, data.y[:-1])
    with pytest.raises(ValueError, match="at least one"):
        ExactGPRegressor().fit(data.X, data.y, np.zeros(30))
    model = fixed_gp("rbf", noise=0.1).fit(data.X, data.y)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict(np.ones((2, 3)))
    with pytest.raises(ValueError, match="tol must be a positive number"):
        model.std_bounds(data.new, tol=0.0)


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_an_indefinite_matrix_is_refused_by_its_row(solver):
    """Also where the few rows that are looked at first do not show it."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((600, 600))
    K = A @ A.T / 600
    K[123] = K[:, 123] = 0.0
    K[123, 123] = -3.0
    y = rng.standard_normal(600)
    size = 0 if solver == "cg" else "auto"
    model = fixed_gp("precomputed", noise=0.1, solver=solver, preconditioner_size=size)
    with pytest.raises(ValueError, match="kernel is not positive semi-definite: row 123 has a"):
        model.fit(K, y)


def test_noise_below_rounding(waves):
    data = waves(300)
    with pytest.raises(
        ValueError, match="noise=1e-30 is too small beside kernel values of up to 1"
    ):
        fixed_gp(RBF(20.0), noise=1e-30, solver="cholesky").fit(data.X, data.y)


def test_a_tolerance_that_is_not_met(waves, rough_kernel):
    data = waves(300)
    make = partial(iterated, rough_kernel, noise=1e-2, preconditioner_size=60)
    with pytest.warns(
        ConvergenceWarning, match=r"residual_tol=0.0001 was not met.*after 3 iterations"
    ) as w:
        model = make(max_iter=3).fit(data.X, data.y)
    assert w[0].filename == __file__
    assert model.path_.stop_reason == "max_iter"
    assert len(model.path_) == 4
    with pytest.warns(
        ConvergenceWarning, match="rounding allows no better; raise noise or residual_tol"
    ):
        model = make(residual_tol=1e-18).fit(data.X, data.y)
    assert model.path_.stop_reason == "stalled"
    assert model.path_.residual[-1] < 1e-10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(residual_tol=1e-6).fit(data.X, data.y)


def test_an_interrupted_fit_leaves_a_model(waves):
    data, calls = waves(300), []

    def kernel(A, B):
        calls.append(1)
        if len(calls) == 30:
            signal.raise_signal(signal.SIGINT)
        return RBF(0.3)(A, B)

    model = iterated(kernel, noise=1e-3, preconditioner_size=5, residual_tol=1e-10)
    with (
        pytest.warns(UserWarning, match="the model holds the solution of iteration"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(data.X, data.y)
    assert model.path_.stop_reason == "interrupted"
    assert model.path_.certified[-1]
    assert np.all(np.isfinite(model.predict(data.new)))


# The data sets that the method was measured on


def test_kin40k(data_dir, size):
    """The residual that the fit reports is that of kernel values computed here."""
    from pursuit.datasets import load_kin40k

    X, y, X_test, y_test = load_kin40k(split=0, return_X_y=True)
    center, scale = X.mean(axis=0), X.std(axis=0)
    lengths = np.array([2.93, 2.77, 1.58, 1.75, 1.71, 1.35, 1.35, 2.03])
    Z = ((X - center) / scale / lengths)[: size(2000, 9000)]
    z = ((y - y.mean()) / y.std())[: len(Z)]
    noise = 0.0094 / 1.65
    model = iterated(RBF(1.0), noise=noise, normalize_y=False).fit(Z, z)
    squares = np.sum(Z**2, axis=1)
    K = np.exp(-0.5 * np.maximum(squares[:, None] + squares - 2 * Z @ Z.T, 0))
    residual = np.linalg.norm(z - K @ model.dual_coef_ - noise * model.dual_coef_)
    assert residual <= 1e-4 * np.linalg.norm(z)
    assert model.n_iter_ <= 60
    new = (X_test - center) / scale / lengths
    rmse = np.sqrt(np.mean((model.predict(new) - (y_test - y.mean()) / y.std()) ** 2))
    assert rmse <= size(0.30, 0.13)


def test_a_float32_kernel_matrix_is_not_taken_for_indefinite():
    """Products in float32 round by more than a unit in the last place of their result."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10)).astype(np.float32)
    K, y = X @ X.T, X[:, 0] + 0.1 * rng.standard_normal(200)
    for seed in range(40):
        model = ExactGPRegressor(
            "precomputed",
            noise=0.1,
            solver="cg",
            preconditioner_size=150,
            optimizer=None,
            random_state=seed,
        )
        assert model.fit(K, y).path_.stop_reason == "tol"


def test_the_preconditioner_in_float32_is_nearly_that_in_float64(monkeypatch):
    """float32 is taken where noise and pivots allow it, and moves M⁻¹ρ by little there."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(600)
    monkeypatch.setattr(exact_system, "_DOUBLE_NUMBERS", 0)
    types, solutions = [], []
    plain = exact_system.LowRankPlusDiagonal

    def watched(V, noise, workers, dtype):
        types.append(np.dtype(dtype))
        M = plain(V, noise, workers, dtype)
        solutions.append(M.solve(y[:, None]))
        return M

    monkeypatch.setattr(exact_system, "LowRankPlusDiagonal", watched)
    options = {"solver": "cg", "optimizer": None, "preconditioner_size": 60, "random_state": 0}
    for share in (exact_system._SINGLE_SHARE, 0.0):
        monkeypatch.setattr(exact_system, "_SINGLE_SHARE", share)
        model = ExactGPRegressor(RBF(0.5), noise=0.05, **options).fit(X, y)
        assert model.path_.residual[-1] <= 1e-4
    assert types == [np.float32, np.float64]
    np.testing.assert_allclose(*solutions, rtol=0, atol=1e-3 * np.abs(solutions[1]).max())
    monkeypatch.setattr(exact_system, "_SINGLE_SHARE", 0.02)
    with pytest.warns(ConvergenceWarning, match="residual_tol"):
        ExactGPRegressor(RBF(0.5), noise=1e-6, max_iter=5, **options).fit(X, y)
    ExactGPRegressor(RBF(8.0), noise=0.05, **options).fit(X, y)
    assert types[2:] == [np.float64, np.float64]
