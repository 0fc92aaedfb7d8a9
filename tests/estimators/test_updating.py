"""Rows that arrive in parts: updates are exact, parts merge, and what cannot be is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from pursuit import FullScaleGPRegressor, Search, SparseGPRegressor, SparseKernelRidge


def waves(m, seed=0, outputs=None):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (m, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(m)
    return X, y if outputs is None else np.column_stack([y * (k + 1) for k in range(outputs)])


def process(**arguments):
    given = {"noise": 0.05, "n_basis": 15, "optimizer": None, "calibration": None}
    return SparseGPRegressor(RBF(0.8), **{**given, "random_state": 0, **arguments})


def in_span(model, X, y, weights=None):
    """Coefficients of the ridge in the span of the model's basis, from the definition."""
    K = model.kernel_(X, model.basis_)
    W = np.ones(len(X)) if weights is None else weights
    y = (y - model._scale.mean[0]) / model._scale.scale[0]
    H = K.T @ (W[:, None] * K) + model.noise_ * model.kernel_(model.basis_)
    return np.linalg.lstsq(H, K.T @ (W * y), rcond=None)[0]


@given(st.integers(1, 200), st.booleans(), st.integers(0, 3))
def test_partial_fit_is_the_ridge_of_all_rows_in_the_span(cut, weighted, seed):
    X, y = waves(260, seed)
    w = np.random.default_rng(seed).uniform(0.0, 2.0, 260) if weighted else None
    head = process().fit(X[:50], y[:50], None if w is None else w[:50])
    for rows in (slice(50, 50 + cut), slice(50 + cut, 260)):
        head.partial_fit(X[rows], y[rows], None if w is None else w[rows])
    expected = in_span(head, X, y, w)
    K = head.kernel_(X, head.basis_)
    np.testing.assert_allclose(K @ head.dual_coef_, K @ expected, atol=1e-8)
    # P on all rows, for the model and every truncation.
    W = np.ones(260) if w is None else w
    r = (y - head._scale.mean[0]) / head._scale.scale[0] - K @ head.dual_coef_
    norm = head.dual_coef_ @ head.kernel_(head.basis_) @ head.dual_coef_
    primal = 0.5 * W @ r**2 + 0.5 * head.noise_ * norm
    assert head.path_.value[-1] == pytest.approx(primal, rel=1e-8)
    assert head.truncated(5).path_.value[-1] >= primal
    assert head.certificate_ is None


@pytest.mark.parametrize("outputs", [None, 2])
def test_decay_is_a_fit_with_lighter_rows(outputs):
    X, y = waves(260, outputs=outputs)
    first = process().fit(X[:100], y[:100])
    stream = first.emptied().partial_fit(X[:100], y[:100])
    stream.partial_fit(X[100:180], y[100:180], np.full(80, 2.0), decay=0.5)
    stream.partial_fit(X[180:], y[180:], decay=0.8)
    w = np.repeat([0.4, 1.6, 1.0], [100, 80, 80])
    weighted = first.emptied().partial_fit(X, y, w)
    for model, other in ((stream, weighted), (stream.truncated(6), weighted.truncated(6))):
        for one, two in zip(
            model.predict(X, return_std=True), other.predict(X, return_std=True), strict=True
        ):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(model.path_.value, other.path_.value, rtol=1e-9)
        np.testing.assert_allclose(
            model.log_evidence_bounds_, other.log_evidence_bounds_, rtol=1e-9
        )
    assert stream.certify(X, y, w).upper == pytest.approx(stream.path_.value[-1], rel=1e-9)
    with pytest.warns(UserWarning, match="none is passed"):
        stream.certify(X, y)
    # A stream that forgets nothing is another model.
    kept = first.emptied().partial_fit(X, y)
    assert np.abs(stream.predict(X) - kept.predict(X)).max() > 1e-3


def test_decay_of_1_changes_no_bit():
    X, y = waves(200)
    models = [
        process().fit(X[:90], y[:90]).partial_fit(X[90:], y[90:], **given)
        for given in ({}, {"decay": 1.0})
    ]
    np.testing.assert_array_equal(*[model.dual_coef_ for model in models])
    assert models[0].log_evidence_bounds_ == models[1].log_evidence_bounds_


def test_a_stream_that_forgets_follows_a_drift():
    X, y = waves(1000)
    drift = np.repeat(np.arange(10), 100)
    y = y + drift
    remember, forget = process().fit(X[:100], y[:100]), process().fit(X[:100], y[:100])
    for part in range(1, 10):
        rows = drift == part
        remember.partial_fit(X[rows], y[rows])
        forget.partial_fit(X[rows], y[rows], decay=0.3)
    new, target = waves(300, seed=1)
    errors = [np.sqrt(np.mean((m.predict(new) - target - 9) ** 2)) for m in (forget, remember)]
    # Parts of weight 1, .3, .09, … lag behind by .3/.7 of a step, all parts by 4.5. Both
    # also miss what the first part's basis cannot say of a level 9 above that part's mean.
    last = remember.emptied().partial_fit(X[900:], y[900:])
    unavoidable = np.sqrt(np.mean((last.predict(new) - target - 9) ** 2))
    assert errors[0] < unavoidable + 0.6
    assert errors[1] > unavoidable + 2.5


@pytest.mark.parametrize("decay", [0, -0.5, 1.1, np.nan, "half", None, [0.5]])
def test_impossible_decays_are_refused(decay):
    X, y = waves(60)
    for model in (process(), process().fit(X, y)):
        with pytest.raises(ValueError, match="decay must be a number above 0 and at most 1"):
            model.partial_fit(X, y, decay=decay)


@pytest.mark.parametrize("n_neighbors", [0, 8])
def test_full_scale_models_forget_by_the_weights_of_the_rows_they_keep(n_neighbors):
    X, y = waves(200)
    X[150:160] = X[:10]
    options = {
        "kernel": RBF(0.8),
        "noise": 0.05,
        "n_neighbors": n_neighbors,
        "search": Search("pooled", candidates=X[:20]),
        "optimizer": None,
        "calibration": None,
        "normalize_y": False,
        "random_state": 0,
    }
    decayed = FullScaleGPRegressor(**options).fit(X[:100], y[:100])
    decayed.partial_fit(X[100:], y[100:], decay=0.25)
    weighted = FullScaleGPRegressor(**options).fit(X[:100], y[:100], np.full(100, 0.25))
    weighted.partial_fit(X[100:], y[100:])
    queries = waves(50, seed=3)[0]
    for one, two in zip(
        decayed.predict(queries, return_std=True),
        weighted.predict(queries, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-8)
    plain = FullScaleGPRegressor(**options).fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    assert np.abs(plain.predict(queries) - decayed.predict(queries)).max() > 1e-3


def test_whitened_sums_cannot_forget():
    X, y = waves(200)
    model = FullScaleGPRegressor(
        RBF(0.8), noise=0.05, n_basis=10, n_neighbors=8, coupling="full", optimizer=None
    ).fit(X[:150], y[:150])
    before = model.predict(X)
    with pytest.raises(ValueError, match=r"Fit with coupling='late'"):
        model.partial_fit(X[150:], y[150:], decay=0.5)
    np.testing.assert_array_equal(model.predict(X), before)


def test_the_first_partial_fit_is_a_fit():
    X, y = waves(200)
    np.testing.assert_array_equal(
        process().partial_fit(X, y).predict(X), process().fit(X, y).predict(X)
    )


def test_an_update_certifies_and_bounds_its_evidence_as_a_fit_of_all_rows_would():
    X, y = waves(300)
    model = process(normalize_y=False).fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    K = model.kernel_(X) + model.noise_ * np.eye(300)
    logdet = np.linalg.slogdet(K)[1]
    exact = -0.5 * (y @ np.linalg.solve(K, y) + logdet + 300 * np.log(2 * np.pi))
    found = model.log_evidence_bounds_
    assert found.lower <= exact <= found.upper
    certificate = model.certify(X, y)
    assert certificate.upper == pytest.approx(model.path_.value[-1], rel=1e-9)


@pytest.mark.parametrize("outputs", [None, 2])
def test_parts_merge_into_the_model_of_all_rows(outputs):
    X, y = waves(400, outputs=outputs)
    first = process().fit(X[:100], y[:100])
    parts = [first.emptied().partial_fit(X[r], y[r]) for r in (slice(100, 250), slice(250, 400))]
    merged = first.merge(*parts)
    stepwise = clone(first).fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    np.testing.assert_allclose(merged.predict(X), stepwise.predict(X), rtol=1e-9)
    np.testing.assert_allclose(
        merged.predict(X, return_std=True)[1], stepwise.predict(X, return_std=True)[1], rtol=1e-9
    )
    assert merged._sums["n_rows"] == 400
    # The parts are as they were.
    np.testing.assert_array_equal(first.predict(X), process().fit(X[:100], y[:100]).predict(X))


def test_points_that_nearly_coincide_do_not_spoil_the_certificate_of_added_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((16, 2))
    X[7] = X[2] + 1e-7
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(16)
    # All rows of the first part are points, the two that nearly coincide among them.
    first = process(n_basis=8, noise=0.1).fit(X[:8], y[:8])
    assert first.n_basis_ == 8

    def cost():
        merged = first.merge(first.emptied().partial_fit(X[8:], y[8:]))
        found = merged.certify(X, y)
        return found.rounding / found.upper, merged

    share, merged = cost()
    assert share < 1e-6
    again = first.emptied().partial_fit(X[:8], y[:8]).partial_fit(X[8:], y[8:])
    np.testing.assert_allclose(merged.predict(X), again.predict(X), rtol=1e-7)
    # As it would be otherwise.
    monkeypatch.setattr("pursuit.limits.ADDED_TOLERANCE", 0.0)
    assert cost()[0] > 1e-2


def test_without_rows_a_model_predicts_the_prior():
    X, y = waves(150)
    model = process().fit(X, y)
    mean, std = model.emptied().predict(X, return_std=True)
    np.testing.assert_allclose(mean, model._scale.mean[0])
    np.testing.assert_allclose(std, model._scale.scale[0] * np.sqrt(1.0 + model.noise_))


def test_grow_without_rows_puts_the_basis_in_the_order_of_its_worth():
    X, y = waves(500)
    old = process().fit(X[:100], 0.0 * y[:100] + X[:100, 0]).partial_fit(X[100:], y[100:])
    new = old.grow(keep=False)
    np.testing.assert_allclose(new.predict(X), old.predict(X), atol=1e-7)
    assert sorted(new.basis_indices_) == sorted(old.basis_indices_)
    first = [
        len(model.truncated(1).path_) and model.truncated(1).path_.value[0] for model in (new, old)
    ]
    assert first[0] <= first[1]
    best = min(
        0.5 * y_norm - 0.5 * gain
        for y_norm, gain in [single_gain(old, X, np.r_[X[:100, 0], y[100:]], j) for j in range(15)]
    )
    assert first[0] == pytest.approx(best, rel=1e-8)
    assert old.grow(4, keep=False).n_basis_ == 4


def single_gain(model, X, y, j):
    """y'y, and what one basis function alone takes off twice the objective."""
    t = (y - model._scale.mean[0]) / model._scale.scale[0]
    k = model.kernel_(X, model.basis_[[j]])[:, 0]
    return t @ t, (k @ t) ** 2 / (k @ k + model.noise_)


def test_grow_without_keeping_chooses_for_them():
    X, y = waves(600)
    old = process(n_basis=8).fit(X[:60], y[:60])
    new = old.grow(20, X, y, keep=False)
    assert new.n_basis_ == 20
    assert new.noise_ == old.noise_
    full = process(n_basis=20).fit(X, y)
    assert new.path_.value[-1] <= 1.1 * full.path_.value[-1]
    assert new.certificate_ is not None


def test_precomputed_kernels_update_by_columns_of_the_first_rows():
    X, y = waves(120)
    K = RBF(0.8)(X)
    model = process().set_params(kernel="precomputed")
    model.fit(K[:80, :80], y[:80])
    assert model.grow(3, keep=False).predict(K[:, :80]).shape == (120,)
    with pytest.raises(ValueError, match="square training matrix"):
        model.partial_fit(K[80:, :80], y[80:])


def test_models_of_steps_say_why_they_cannot_take_rows():
    X, y = waves(100)
    model = SparseKernelRidge(n_basis=5).fit(X, y)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as caught:
        model.partial_fit(X, y)
    assert "refit=True" in str(caught.value.__cause__)
    refitted = SparseKernelRidge(n_basis=5, refit=True, random_state=0).fit(X[:50], y[:50])
    expected = in_span_ridge(refitted, X, y)
    refitted.partial_fit(X[50:], y[50:])
    np.testing.assert_allclose(refitted.predict(X), expected, rtol=1e-8)


def in_span_ridge(model, X, y):
    K = RBF(np.sqrt(1.0))(X, model.basis_)
    H = K.T @ K + model.noise_ * RBF(1.0)(model.basis_)
    return K @ np.linalg.solve(H, K.T @ y)


def test_bad_merges():
    X, y = waves(200)
    model = process().fit(X, y)
    with pytest.raises(TypeError, match="merge takes models of class SparseGPRegressor"):
        model.merge(SparseKernelRidge())
    with pytest.raises(ValueError, match="same basis in the same order: start the parts from one"):
        model.merge(process(random_state=1).fit(X[:90], y[:90]))
    other = process(noise=0.1).fit(X, y)
    with pytest.raises(ValueError, match="merge needs models with the same"):
        model.merge(other)
    scaled = process(normalize_y=False).fit(X, y)
    with pytest.raises(ValueError, match="merge needs models"):
        model.merge(scaled)
    with pytest.raises(ValueError, match="n must be a whole number"):
        model.grow(0, keep=False)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :1], y)
