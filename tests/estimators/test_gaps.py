"""Targets with gaps: each output is fitted to the rows that have it, with one basis and kernel."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import pursuit
from pursuit import ExactGPRegressor, FullScaleGPRegressor, SparseGPRegressor, SparseKernelRidge

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def gappy(m=200, seed=0, share=0.4):
    """Three outputs; the first is complete, the others miss a share of their values."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (m, 2))
    waves = [np.sin(2.0 * X[:, 0]), X[:, 1] ** 2, np.cos(X[:, 0] + X[:, 1])]
    y = np.column_stack([wave / wave.std() for wave in waves])
    y = (y + 0.1 * rng.standard_normal(y.shape)) * [1.0, 3.0, 10.0] + [0.0, 5.0, -20.0]
    full = y.copy()
    y[:, 1:][rng.random((m, 2)) < share] = np.nan
    return X, y, full


def process(**arguments):
    given = {"noise": 0.05, "n_basis": 25, "optimizer": None, "calibration": None}
    return SparseGPRegressor(RBF(0.8), **{**given, "random_state": 0, **arguments})


def in_span(model, X, y, w, output):
    """Mean and standard deviation of one output from the definition, as functions of new rows."""
    seen = ~np.isnan(y[:, output])
    mean = np.average(y[seen, output], weights=w[seen])
    scale = np.sqrt(np.average((y[seen, output] - mean) ** 2, weights=w[seen]))
    if not getattr(model, "normalize_y", False):
        mean, scale = 0.0, 1.0
    target = (y[seen, output] - mean) / scale
    K, KS = model.kernel_(X[seen], model.basis_), model.kernel_(model.basis_)
    H = K.T @ (w[seen, None] * K) + model.noise_ * KS
    beta = np.linalg.solve(H, K.T @ (w[seen] * target))

    def predict(new):
        k = model.kernel_(new, model.basis_)
        missed = 1.0 - np.einsum("ij,ji->i", k, np.linalg.solve(KS, k.T))
        known = model.noise_ * np.einsum("ij,ji->i", k, np.linalg.solve(H, k.T))
        return mean + scale * (k @ beta), scale * np.sqrt(model.noise_ + missed + known)

    return predict


@pytest.mark.parametrize("weighted", [False, True])
def test_each_output_is_the_fit_to_its_own_rows(weighted):
    X, y, _ = gappy()
    w = np.random.default_rng(1).uniform(0.2, 2.0, 200) if weighted else np.ones(200)
    model = process().fit(X, y, w if weighted else None)
    new = np.random.default_rng(2).uniform(-2.0, 2.0, (50, 2))
    mean, std = model.predict(new, return_std=True)
    assert mean.shape == std.shape == (50, 3)
    np.testing.assert_allclose(model.predict(new), mean, rtol=1e-12)
    for output in range(3):
        expected = in_span(model, X, y, w, output)(new)
        np.testing.assert_allclose(mean[:, output], expected[0], rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(std[:, output], expected[1], rtol=1e-7)
    _, cov = model.predict(new, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.einsum("iio->io", cov)), std, rtol=1e-9)


def same_model_of(model, X, y, output):
    """An ordinary model of one output with the basis, kernel, noise and units of another."""
    seen = ~np.isnan(y[:, output])
    parts = zip(model._part_columns, model._parts, strict=True)
    columns, part = next((c, p) for c, p in parts if output in c)
    alone = part._of_outputs(np.flatnonzero(columns == output)).emptied()
    return alone.partial_fit(X[seen], y[seen][:, [output]]), seen


def test_everything_is_that_of_separate_models():
    X, y, _ = gappy()
    model = process().fit(X[:150], y[:150]).partial_fit(X[150:], y[150:])
    found = model.leave_one_out(X, y)
    certificate, evidence = model.certify(X, y), 0.0
    gradient, spread = model.predict_gradient(X[:9], return_std=True)
    small = model.truncated(7)
    emptied = model.emptied()
    for output in range(3):
        alone, seen = same_model_of(model, X, y, output)
        for one, other in zip(
            model.predict(X, return_std=True), alone.predict(X, return_std=True), strict=True
        ):
            np.testing.assert_allclose(one[:, [output]], other, **CLOSE)
        for one, other in zip(
            found, alone.leave_one_out(X[seen], y[seen][:, [output]]), strict=True
        ):
            np.testing.assert_allclose(one[seen][:, [output]], other, **CLOSE)
        # Rows without a target are predicted like any new row.
        expected = alone.predict(X)[~seen]
        np.testing.assert_allclose(found[0][~seen][:, [output]], expected, **CLOSE)
        own = alone.certify(X[seen], y[seen][:, [output]])
        for name in ("upper", "lower"):
            np.testing.assert_allclose(certificate.per_output[name][output], getattr(own, name))
        evidence += np.array(alone.log_evidence_bounds_)
        for one, other in zip(
            (gradient, spread), alone.predict_gradient(X[:9], return_std=True), strict=True
        ):
            np.testing.assert_allclose(one[..., [output]], other, **CLOSE)
        np.testing.assert_allclose(
            small.predict(X)[:, [output]], alone.truncated(7).predict(X), **CLOSE
        )
        np.testing.assert_allclose(emptied.predict(X)[:, output], model._scale.mean[output])
    np.testing.assert_allclose(model.log_evidence_bounds_, evidence, rtol=1e-9)
    assert certificate.gap >= 0
    assert model.path_.value[-1] == pytest.approx(certificate.upper, rel=1e-9)


@pytest.mark.parametrize(
    "kind", ["hybrid", "published", "dense", "scaled", "grouped", "two-level", "pcg"]
)
@pytest.mark.parametrize("seed", range(3))
def test_certificates_enclose_the_minimum_of_each_output(kind, seed):
    X, y, _ = gappy(120, seed)
    w = np.random.default_rng(seed).uniform(0.2, 2.0, 120)
    model = process(n_basis=60, certificate=kind).fit(X, y, w)
    scaled = model._scale.normalize(y)
    found = model.certificate_.per_output
    for output in range(3):
        seen = ~np.isnan(y[:, output])
        target = scaled[seen, output]
        A = model.kernel_(X[seen]) + model.noise_ * np.diag(1.0 / w[seen])
        minimum = 0.5 * model.noise_ * target @ np.linalg.solve(A, target)
        assert found["lower"][output] <= minimum * (1 + 1e-12) <= found["upper"][output]
        # A few outputs that were not observed would change the minimum by more than this.
        assert found["upper"][output] < 1.01 * minimum
        if kind in ("hybrid", "pcg"):
            assert found["lower"][output] > 0.99 * minimum


def test_complete_targets_are_another_model():
    X, y, full = gappy()
    complete = process().fit(X, full)
    with_gaps = process().fit(X, y)
    assert np.abs(complete.predict(X) - with_gaps.predict(X))[:, 1:].max() > 1e-3
    assert with_gaps.certificate_.relative_gap < 0.5
    assert complete._parts == ()
    assert process().fit(X, y).fit(X, full)._parts == ()


def test_gaps_that_come_later_split_the_outputs():
    X, y, full = gappy()
    model = process().fit(X[:100], full[:100])
    y = np.vstack([full[:100], y[100:]])
    model.partial_fit(X[100:], y[100:], decay=0.5)
    w = np.repeat([0.5, 1.0], 100)
    scale = model._scale
    for output in range(3):
        seen = ~np.isnan(y[:, output])
        target = (y[seen, output] - scale.mean[output]) / scale.scale[output]
        K = model.kernel_(X[seen], model.basis_)
        H = K.T @ (w[seen, None] * K) + model.noise_ * model.kernel_(model.basis_)
        expected = model.kernel_(X, model.basis_) @ np.linalg.solve(H, K.T @ (w[seen] * target))
        found = (model.predict(X)[:, output] - scale.mean[output]) / scale.scale[output]
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
    # An output that none of the new rows has only forgets.
    before = model.predict(X)
    new = np.column_stack([full[:10, 0], np.full((10, 2), np.nan)])
    model.partial_fit(X[:10], new)
    np.testing.assert_array_equal(model.predict(X)[:, 1:], before[:, 1:])
    assert np.abs(model.predict(X)[:, 0] - before[:, 0]).max() > 0


@pytest.mark.parametrize("options", [{"method": "random"}, {"refit": True}, {"method": "subspace"}])
def test_ridge(options):
    X, y, _ = gappy(120)
    model = SparseKernelRidge(RBF(0.8), alpha=0.3, n_basis=20, random_state=0, **options).fit(X, y)
    model.normalize_y = False
    found = model.predict(X)
    for output in range(3):
        expected, _ = in_span(model, X, y, np.ones(120), output)(X)
        np.testing.assert_allclose(found[:, output], expected, rtol=1e-6, atol=1e-7)
    mean, std = model.leave_one_out(X, y)
    assert mean.shape == std.shape == (120, 3)
    assert model.certificate_.upper == pytest.approx(model.path_.value[-1], rel=1e-9)
    assert model.rate_bound_ is None
    assert model.n_steps_ == model.n_basis_


def test_kernel_noise_and_bars_are_learned_from_what_was_observed():
    X, y, full = gappy(600)
    options = {"n_basis": 60, "optimizer": pursuit.Evidence(rows=300), "random_state": 0}
    model = SparseGPRegressor(**options).fit(X, y)
    new, _, truth = gappy(400, seed=7)
    mean, std = model.predict(new, return_std=True)
    # The noise is a tenth of each output's own scale.
    for output, scale in enumerate([1.0, 3.0, 10.0]):
        z = (truth[:, output] - mean[:, output]) / std[:, output]
        assert 0.85 < np.sqrt(np.mean(z**2)) < 1.2
        assert np.sqrt(np.mean((truth - mean)[:, output] ** 2)) < 0.13 * scale
    # A complete fit finds about the same noise; taking gaps for means would find far more.
    complete = SparseGPRegressor(**options).fit(X, full)
    means = np.where(np.isnan(y), np.nanmean(y, axis=0), y)
    naive = SparseGPRegressor(**options).fit(X, means)
    assert model._spread.noise == pytest.approx(complete._spread.noise, rel=0.3)
    assert naive._spread.noise > 3 * model._spread.noise


def test_evidence_of_observed_values_is_a_sum_over_outputs():
    X, y, _ = gappy(80)
    w = np.random.default_rng(3).uniform(0.5, 2.0, 80)
    kernel = 2.0 * RBF([0.7, 1.3])
    with pursuit.linalg.Workers(1) as workers:
        data = pursuit.tuning.Evidence.of(X, y, w, workers)
        value, slopes = data.value_and_gradient(kernel, 0.1)
        expected = [0.0, np.zeros(4)]
        for column in y.T:
            seen = ~np.isnan(column)
            one = pursuit.tuning.Evidence(X[seen], column[seen, None], w[seen], workers)
            part = one.value_and_gradient(kernel, 0.1)
            expected = [expected[0] + part[0], expected[1] + part[1]]
        some = data.take(slice(10, 50))
        again = pursuit.tuning.Evidence.of(X[10:50], y[10:50], w[10:50], workers)
        assert some.value_and_gradient(kernel, 0.1)[0] == again.value_and_gradient(kernel, 0.1)[0]
    assert value == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(slopes, expected[1], rtol=1e-9)
    assert data.n_values == pytest.approx((w[:, None] * ~np.isnan(y)).sum())


def test_noise_alone_is_learned_from_what_was_observed():
    X, y, _ = gappy(150)
    model = process(noise="learn").fit(X, y)
    with pursuit.linalg.Workers(1) as workers:
        data = pursuit.tuning.Evidence.of(X, model._scale.normalize(y), np.ones(150), workers)
        best, *others = (
            data.value_and_gradient(RBF(0.8), model.noise_ * factor)[0]
            for factor in (1.0, 0.9, 1.1)
        )
    assert best > max(others)


def test_moved_points_reserved_rows_and_files(tmp_path):
    X, y, _ = gappy(2500)
    np.save(tmp_path / "X.npy", X)
    model = SparseGPRegressor(
        n_basis=30, refine=5, optimizer=pursuit.Evidence(rows=200), random_state=0
    ).fit(tmp_path / "X.npy", y)
    assert "steps" in model.learning_report_.moved
    assert model.calibration_.n_rows == len(model._reserved_rows) == 500
    new, _, truth = gappy(400, seed=7)
    assert np.all(np.mean((model.predict(new) - truth) ** 2, axis=0) < [0.02, 0.18, 2.0])


def test_saved_models_are_the_same(tmp_path):
    X, y, _ = gappy()
    model = process().fit(X, y)
    model.save(tmp_path / "model.pursuit")
    loaded = pursuit.load(tmp_path / "model.pursuit")
    for one, other in zip(
        model.predict(X, return_std=True), loaded.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(
        model.partial_fit(X, y).predict(X), loaded.partial_fit(X, y).predict(X)
    )


def test_checkpoints_know_targets_with_gaps(tmp_path):
    X, y, _ = gappy(2100)
    options = {"n_basis": 20, "checkpoint": tmp_path / "fit"}
    one = process(**options).fit(X, y)
    np.testing.assert_array_equal(one.predict(X), process(**options).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="checkpoint"):
        process(**options).fit(X, np.where(np.isnan(y), 0.0, y))


def test_bad_gaps_are_refused():
    X, y, _ = gappy(60)
    nothing = y.copy()
    nothing[7] = np.nan
    with pytest.raises(ValueError, match=r"every output of row 7.*leave such rows out"):
        process().fit(X, nothing)
    w = np.ones(60)
    w[7] = 0.0
    process().fit(X, nothing, w)
    never = y.copy()
    never[:, 2] = np.nan
    with pytest.raises(ValueError, match=r"every row of output 2"):
        process().fit(X, never)
    one = np.where(np.arange(60) == 3, np.nan, y[:, 0])
    for model in (process(), SparseKernelRidge(), process().fit(X, y[:, 0])):
        with pytest.raises(ValueError, match="contains NaN"):
            (model.partial_fit if hasattr(model, "dual_coef_") else model.fit)(X, one)
    with pytest.raises(ValueError, match="contains NaN"):
        process().fit(X, one[:, None])
    with pytest.raises(ValueError, match="contains NaN"):
        FullScaleGPRegressor(n_basis=5).fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        process().fit(X, np.where(np.isnan(y), np.inf, y))
    with pytest.raises(ValueError, match=r"set tol=None"):
        process(tol=0.1).fit(X, y)
    with pytest.raises(ValueError, match=r"pass its kernel_"):
        SparseGPRegressor("search").fit(X, y)


def test_what_needs_the_same_rows_for_all_outputs_is_refused():
    X, y, full = gappy(60)
    model = process().fit(X, y)
    for call in (
        lambda: model.grow(30, X, full),
        lambda: model.merge(model.emptied()),
        lambda: model.certify_path(X, full),
        lambda: model.sample_functions(2),
        lambda: model.predict_parts(X, return_std=True),
    ):
        with pytest.raises(ValueError, match="fit a model to each output"):
            call()
    with pytest.raises(ValueError, match=r"^sample_functions is for outputs"):
        model.sample_functions(2)
    assert model.predict_parts(X).shape == (60, 2, 3)
    assert model.sample_y(X[:5], 4).shape == (5, 3, 4)


def exact(**arguments):
    given = {"noise": 0.05, "optimizer": None, "random_state": 0}
    return ExactGPRegressor(RBF(0.8), **{**given, **arguments})


@pytest.mark.parametrize("weighted", [False, True])
def test_the_exact_process(weighted, tmp_path):
    X, y, full = gappy(90)
    w = np.random.default_rng(1).integers(0, 4, 90) * 0.7 if weighted else None
    model = exact().fit(X, y, w)
    mean, std = model.predict(X, return_std=True)
    left = model.leave_one_out(X, y, w)
    gradient = model.predict_gradient(X[:5], return_std=True)
    for output in range(3):
        seen = ~np.isnan(y[:, output])
        weights = None if w is None else w[seen]
        alone = exact().fit(X[seen], y[seen, output], weights)
        for one, other in zip((mean, std), alone.predict(X, return_std=True), strict=True):
            np.testing.assert_allclose(one[:, output], other, **CLOSE)
        for one, other in zip(
            left, alone.leave_one_out(X[seen], y[seen, output], weights), strict=True
        ):
            np.testing.assert_allclose(one[seen, output], other, **CLOSE)
        np.testing.assert_allclose(left[0][~seen, output], alone.predict(X)[~seen], **CLOSE)
        for one, other in zip(
            gradient, alone.predict_gradient(X[:5], return_std=True), strict=True
        ):
            np.testing.assert_allclose(one[..., output], other, **CLOSE)
        for name in ("upper", "lower"):
            expected = getattr(alone.certificate_, name)
            np.testing.assert_allclose(model.certificate_.per_output[name][output], expected)
    model.save(tmp_path / "exact.pursuit")
    loaded = pursuit.load(tmp_path / "exact.pursuit")
    np.testing.assert_array_equal(loaded.predict(X, return_std=True)[1], std)
    with pytest.raises(ValueError, match="as they were passed to fit"):
        model.leave_one_out(X, full, w)
    with pytest.raises(ValueError, match="fit a model to each output"):
        model.sample_functions(2)
    assert exact().fit(X, y).fit(X, full)._parts == ()


def test_conjugate_gradients_take_no_gaps():
    X, y, _ = gappy(90)
    with pytest.raises(ValueError, match=r"use solver='cholesky'"):
        exact(solver="cg").fit(X, y)


@pytest.mark.parametrize("complete", [False, True])
def test_further_rows_end_the_guarantee(complete):
    X, y, full = gappy()
    model = process().fit(X[:100], full[:100] if complete else y[:100])
    model.conformalize(X[100:150], y[100:150])
    assert model.coverage_guarantee_ is not None
    model.partial_fit(X[150:], y[150:])
    assert model.coverage_guarantee_ is None
