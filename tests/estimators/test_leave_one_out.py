"""Leave-one-out predictions are those of models that were fitted without the row."""

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from pursuit import ExactGPRegressor, FullScaleGPRegressor, SparseGPRegressor, SparseKernelRidge

CLOSE = {"rtol": 1e-8, "atol": 1e-9}


def waves(m=120, seed=0, outputs=None):
    """Smooth targets; the last ten rows are copies of the first, with other targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (m, 2))
    X[-10:] = X[:10]
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.standard_normal(m)
    return X, y if outputs is None else np.column_stack([y, rng.standard_normal((m, outputs - 1))])


def process(**arguments):
    given = {"noise": 0.05, "n_basis": 25, "optimizer": None, "calibration": None}
    return SparseGPRegressor(RBF(0.8), **{**given, "random_state": 0, **arguments})


def refits(model, X, y, w=None):
    """Mean and standard deviation of every row by the same model without it."""
    w = np.ones(len(X)) if w is None else w
    found = []
    for i in range(len(X)):
        keep = np.arange(len(X)) != i
        other = model.emptied().partial_fit(X[keep], y[keep], w[keep])
        found.append(other.predict(X[[i]], return_std=True))
    mean, std = (np.concatenate(part) for part in zip(*found, strict=True))
    return mean, std


@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_prediction_of_a_refit(outputs, weighted):
    X, y = waves(outputs=outputs)
    w = np.random.default_rng(1).integers(0, 4, len(X)) * 0.7 if weighted else None
    model = process().fit(X, y, w)
    found = model.leave_one_out(X, y, w)
    for one, other in zip(found, refits(model, X, y, w), strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)
    # The fit that knows the row is another: what is compared is not a plain prediction.
    mean, std = model.predict(X, return_std=True)
    assert np.abs(found[0] - mean).max() > 0.1
    known = np.ones(len(X)) if w is None else w
    assert np.all(found[1][known > 0] > std[known > 0])


def test_the_identity_holds_for_calibrated_bars_and_after_updates():
    X, y = waves(300)
    learned = SparseGPRegressor(n_basis=20, random_state=0).fit(X[:200], y[:200])
    assert learned.calibration_ is not None
    # The pass of a fit may lose digits where the basis is nearly dependent, that of an update does
    # not: the sums of both sides come from updates.
    learned = learned.emptied().partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    for model in (learned, learned.truncated(8)):
        found = model.leave_one_out(X[150:250], y[150:250])
        expected = [part[150:250] for part in refits(model, X, y)]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, **CLOSE)


def test_a_decayed_row_leaves_with_what_is_left_of_its_weight():
    X, y = waves(90)
    model = process().fit(X[:40], y[:40]).partial_fit(X[40:], y[40:], decay=0.5)
    w = np.where(np.arange(90) < 40, 0.5, 1.0)
    for one, other in zip(model.leave_one_out(X, y, w), refits(model, X, y, w), strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)


@pytest.mark.parametrize(
    "options",
    [{"method": "random"}, {"method": "subspace"}, {"refit": True}, {"kernel": "precomputed"}],
)
def test_ridge(options):
    X, y = waves(80)
    rows, arguments = X, {"method": "random", "gamma": 0.7, **options}
    if "kernel" in options:
        rows, arguments["gamma"] = RBF(0.8)(X), None
    if "refit" in options:
        arguments["method"] = "greedy"
    model = SparseKernelRidge(**arguments, alpha=0.3, n_basis=20, random_state=0).fit(rows, y)
    mean, std = model.leave_one_out(rows, y)
    K = rows if "kernel" in options else np.exp(-0.7 * ((X[:, None] - X) ** 2).sum(axis=2))
    S = model.basis_indices_
    variance = np.empty(80)
    for i in range(80):
        keep = np.arange(80) != i
        H = K[keep][:, S].T @ K[keep][:, S] + 0.3 * K[np.ix_(S, S)]
        beta = np.linalg.solve(H, K[keep][:, S].T @ y[keep])
        assert mean[i] == pytest.approx(K[i, S] @ beta, rel=1e-8, abs=1e-8)
        missed = K[i, i] - K[i, S] @ np.linalg.solve(K[np.ix_(S, S)], K[S, i])
        variance[i] = 0.3 + missed + 0.3 * K[i, S] @ np.linalg.solve(H, K[S, i])
    # One number for all rows: that by which the errors are as large as they are.
    np.testing.assert_allclose(std**2 / variance, (std**2 / variance)[0], rtol=1e-6)
    assert np.mean(std**2) == pytest.approx(np.mean((y - mean) ** 2), rel=1e-10)


def test_a_ridge_of_steps_has_none():
    X, y = waves(60)
    model = SparseKernelRidge(method="greedy", n_basis=5).fit(X, y)
    with pytest.raises(AttributeError) as caught:
        model.leave_one_out(X, y)
    assert "needs refit=True" in str(caught.value.__cause__)


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_exact_process(outputs, weighted):
    X, y = waves(70, outputs=outputs)
    w = np.random.default_rng(1).integers(0, 4, 70) * 0.7 if weighted else None
    model = ExactGPRegressor(RBF(0.8), noise=0.05, optimizer=None, normalize_y=False)
    model.fit(X, y, w)
    mean, std = model.leave_one_out(X, y, w)
    for i in range(70):
        keep = np.arange(70) != i if w is None else (np.arange(70) != i) & (w > 0)
        alpha = 0.05 if w is None else 0.05 / w[keep]
        peer = GaussianProcessRegressor(RBF(0.8), alpha=alpha, optimizer=None).fit(X[keep], y[keep])
        expected, spread = peer.predict(X[[i]], return_std=True)
        np.testing.assert_allclose(mean[i], expected[0], **CLOSE)
        np.testing.assert_allclose(std[i] ** 2, spread[0] ** 2 + 0.05, **CLOSE)


def test_the_exact_process_takes_its_own_rows_and_a_factor():
    X, y = waves(70)
    model = ExactGPRegressor(RBF(0.8), noise=0.05, optimizer=None).fit(X, y)
    for rows, targets, weights in (
        (X[:60], y[:60], None),
        (X[::-1], y[::-1], None),
        (X, y, np.full(70, 2.0)),
        (X, np.column_stack([y, y]), None),
    ):
        with pytest.raises(ValueError, match="as they were passed to fit, in the same order"):
            model.leave_one_out(rows, targets, weights)
    model = ExactGPRegressor(RBF(0.8), noise=0.05, optimizer=None, solver="cg").fit(X, y)
    with pytest.raises(ValueError, match="solver='cholesky'"):
        model.leave_one_out(X, y)


def test_a_full_scale_model_without_near_rows_asks_its_global_part():
    X, y = waves(90)
    model = FullScaleGPRegressor(
        RBF(0.8), noise=0.05, n_basis=20, n_neighbors=0, optimizer=None, random_state=0
    ).fit(X, y)
    for one, other in zip(
        model.leave_one_out(X, y), model.global_.leave_one_out(X, y), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_full_scale_model_predicts_rows_of_weight_0():
    X, y = waves(90)
    w = np.where(np.arange(90) % 5 == 0, 0.0, 1.0)
    model = FullScaleGPRegressor(
        RBF(0.8), noise=0.05, n_basis=20, n_neighbors=8, optimizer=None, random_state=0
    ).fit(X, y, w)
    found = model.leave_one_out(X, y, w)
    present = model.leave_one_out(X[w > 0], y[w > 0])
    absent = model.predict(X[w == 0], return_std=True)
    for all_rows, some, others in zip(found, present, absent, strict=True):
        np.testing.assert_array_equal(all_rows[w > 0], some)
        np.testing.assert_allclose(all_rows[w == 0], others, rtol=1e-12)


def test_files_and_frames_stream(tmp_path):
    X, y = waves(9000)
    np.save(tmp_path / "X.npy", X)
    model = process().fit(X, y)
    expected = model.leave_one_out(X, y)
    for one, other in zip(model.leave_one_out(tmp_path / "X.npy", y), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = process().fit(frame, pd.Series(y))
    np.testing.assert_allclose(named.leave_one_out(frame, pd.Series(y))[0], expected[0], rtol=1e-12)


def test_other_rows_are_refused():
    X, y = waves(60)
    model = process().fit(X[:50], y[:50])
    with pytest.raises(ValueError, match="60 rows are passed, and the model was fitted to 50"):
        model.leave_one_out(X, y)
    with pytest.raises(ValueError, match="row 2 is not one of the rows"):
        model.leave_one_out(X[:3], y[:3], [1.0, 1.0, 1e6])
    weighted = process().fit(X, y, np.full(60, 2.0))
    with pytest.warns(UserWarning, match="none is passed"):
        weighted.leave_one_out(X, y)
