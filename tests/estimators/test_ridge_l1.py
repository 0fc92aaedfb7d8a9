"""SparseKernelRidge(penalty="l1") against scikit-learn's Lasso and the optimality conditions."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import Lasso

import pursuit
from pursuit import BoundDisplay, SparseKernelRidge
from pursuit.estimators.span import steps as penalised
from pursuit.gram import KernelMatrix


def l1(kernel=None, **options):
    return SparseKernelRidge(RBF(0.7) if kernel is None else kernel, penalty="l1", **options)


def value(K, a, y, w, alpha):
    """½Σw(y - Ka)² + α‖a‖₁, from the formula."""
    return 0.5 * np.sum(w * (y - K @ a) ** 2) + alpha * np.abs(a).sum()


def minimum(K, y, w, alpha):
    """An upper and a lower value of the minimum, by scikit-learn's coordinate descent."""
    root = np.sqrt(w)
    A, t = root[:, None] * K, root * y
    theirs = Lasso(alpha / len(y), fit_intercept=False, tol=1e-14, max_iter=20_000)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        a = theirs.fit(A, t).coef_
    r = t - A @ a
    s = min(1.0, alpha / np.abs(A.T @ r).max())
    return value(K, a, y, w, alpha), s * r @ t - 0.5 * s**2 * r @ r


def all_coefficients(model, m):
    a = np.zeros(m)
    a[model.basis_indices_] = model.dual_coef_
    return a


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("weighted", [False, True])
def test_the_minimum_is_that_of_coordinate_descent(seed, weighted):
    rng = np.random.default_rng(seed)
    m = 40
    X = rng.normal(size=(m, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=m)
    w = rng.choice([0.0, 0.5, 1.0, 3.0], m) if weighted else np.ones(m)
    alpha = 10.0 ** rng.uniform(-1, 1)
    model = l1(alpha=alpha, n_basis=m).fit(X, y, w if weighted else None)
    present = w > 0
    K = RBF(0.7)(X)
    upper, lower = minimum(K[np.ix_(present, present)], y[present], w[present], alpha)
    mine = value(K, all_coefficients(model, m), y, w, alpha)
    assert mine == pytest.approx(model.certificate_.upper, rel=1e-11)
    assert lower <= mine * (1 + 1e-12)
    assert mine <= upper * (1 + 1e-8)
    assert model.certificate_.lower <= upper * (1 + 1e-13)
    assert model.certificate_.relative_gap <= 1e-8
    assert np.all(present[model.basis_indices_])
    np.testing.assert_allclose(model.predict(X), K @ all_coefficients(model, m), atol=1e-10)


@pytest.mark.parametrize("alpha", [1.0, 10.0])
def test_alpha_is_rows_times_that_of_lasso(waves, alpha):
    data = waves(150)
    K = RBF(0.7)(data.X)
    theirs = Lasso(alpha / 150, fit_intercept=False, tol=1e-13, max_iter=10**6).fit(K, data.y)
    model = l1(alpha=alpha, n_basis=150).fit(data.X, data.y)
    w = np.ones(150)
    mine = value(K, all_coefficients(model, 150), data.y, w, alpha)
    assert mine == pytest.approx(value(K, theirs.coef_, data.y, w, alpha), rel=1e-8)
    np.testing.assert_allclose(model.predict(data.X), K @ theirs.coef_, atol=1e-5)


def test_the_optimality_conditions(waves):
    """|K'r| = α with the sign of a where a is not zero, and at most α elsewhere."""
    data = waves(300)
    model = l1(alpha=3.0, n_basis=300).fit(data.X, data.y)
    K, a = RBF(0.7)(data.X), all_coefficients(model, 300)
    c = K @ (data.y - K @ a)
    np.testing.assert_allclose(c[a != 0], 3.0 * np.sign(a[a != 0]), rtol=1e-7)
    assert np.abs(c).max() <= 3.0 * (1 + 1e-9)
    assert model.n_basis_ == np.count_nonzero(a) < 100
    assert model.path_.stop_reason == "no gain"
    assert model.n_steps_ == len(model.path_) >= model.n_basis_
    assert np.all(np.diff(model.path_.value) < 0)


@pytest.mark.parametrize("stored", [True, False])
def test_two_hundred_certificates_hold(monkeypatch, size, stored):
    """However few functions: lower ≤ minimum ≤ upper, also where K is never kept."""
    if not stored:
        monkeypatch.setattr(penalised, "KernelMatrix", partial(KernelMatrix, stored_bytes=0))
    rng = np.random.default_rng(0)
    for _ in range(size(100, 500)):
        m = int(rng.integers(2, 30))
        X = np.round(rng.normal(size=(m, 2)), int(rng.integers(0, 3)))
        y = rng.normal(size=m) * 10.0 ** rng.uniform(-2, 2)
        alpha = np.abs(y).max() * 10.0 ** rng.uniform(-1.5, 1)
        kernel = RBF(float(rng.uniform(0.1, 2)))
        model = l1(kernel, alpha=alpha, n_basis=int(rng.integers(1, m + 1))).fit(X, y)
        upper, lower = minimum(kernel(X), y, np.ones(m), alpha)
        rounding = 1e-13 * y @ y
        assert model.certificate_.lower <= upper + rounding
        assert model.certificate_.upper >= lower - rounding
        assert len(np.unique(model.basis_indices_)) == model.n_basis_


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(5))
def test_at_real_size(seed):
    """The optimality conditions on 2 500 rows stand in for a slow coordinate descent."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2500, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=2500)
    K, alpha = RBF(0.5)(X), 20.0
    whole = l1(RBF(0.5), alpha=alpha, n_basis=1000).fit(X, y)
    a = all_coefficients(whole, 2500)
    assert np.abs(K @ (y - K @ a)).max() <= alpha * (1 + 1e-8)
    least = value(K, a, y, np.ones(2500), alpha)
    few = l1(RBF(0.5), alpha=alpha, n_basis=20).fit(X, y)
    assert few.certificate_.lower <= least <= few.certificate_.upper
    assert whole.certificate_.relative_gap <= 1e-6


def test_a_lower_bound_of_a_sample_would_fail():
    """Negative control: the bound that prices half of the rows only is above the minimum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=60)
    K = RBF(0.7)(X)
    upper, _ = minimum(K, y, np.ones(60), 0.5)
    half = K[:, :30]
    a = Lasso(0.5 / 60, fit_intercept=False, tol=1e-12, max_iter=10**6).fit(half, y).coef_
    r = y - half @ a
    s = min(1.0, 0.5 / np.abs(half.T @ r).max())
    assert s * r @ y - 0.5 * s**2 * r @ r > upper * (1 + 1e-6)
    assert l1(alpha=0.5, n_basis=30).fit(X, y).certificate_.lower <= upper


def test_n_basis_and_tol_stop(waves):
    data = waves(200)
    few = l1(alpha=0.1, n_basis=5).fit(data.X, data.y)
    assert few.n_basis_ == 5
    assert few.path_.stop_reason == "n_basis"
    assert few.certificate_.over == "all coefficient vectors on all rows"
    near = l1(alpha=0.1, n_basis=200, tol=0.05).fit(data.X, data.y)
    assert near.path_.stop_reason == "tol"
    assert near.path_.gap[-1] == near.certificate_.relative_gap <= 0.05
    assert np.all(near.path_.gap[:-1] > 0.05)
    with pytest.warns(ConvergenceWarning, match=r"tol=1e-06 was not met"):
        l1(alpha=0.1, n_basis=5, tol=1e-6).fit(data.X, data.y)


def test_a_large_alpha_leaves_nothing(waves):
    data = waves(50)
    model = l1(alpha=1e6).fit(data.X, data.y)
    assert model.dual_coef_.tolist() == [0.0]
    assert not model.predict(data.new).any()
    assert model.certificate_.gap <= 1e-13 * model.certificate_.upper
    assert model.certificate_.relative_gap == 0.0


def test_other_dresses_and_kernels(waves, tmp_path):
    data = waves(80)
    expected = l1("linear", alpha=2.0).fit(data.X, data.y)
    kept = l1("linear", alpha=2.0).fit(sparse.csr_array(data.X), data.y)
    np.testing.assert_allclose(kept.predict(data.new), expected.predict(data.new), rtol=1e-9)
    K = RBF(0.7)(data.X)
    given = l1("precomputed", alpha=1.0, n_basis=80).fit(K, data.y)
    plain = l1(alpha=1.0, n_basis=80).fit(data.X, data.y)
    assert given.basis_indices_.tolist() == plain.basis_indices_.tolist()
    np.testing.assert_allclose(given.predict(K), plain.predict(data.X), rtol=1e-8)
    plain.save(tmp_path / "model")
    again = pursuit.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(data.new), plain.predict(data.new))
    assert again.certificate_ == plain.certificate_ or (
        again.certificate_.lower == plain.certificate_.lower
    )
    assert again.penalty == "l1"
    assert "l1" in repr(clone(again))


def test_steps_hold_what_they_say(waves):
    """The squared norms and decreases of partial sums, from scratch."""
    data = waves(60)
    model = l1(alpha=1.0).fit(data.X, data.y)
    K, S = RBF(0.7)(data.X), model.basis_indices_
    for n in (1, model.n_basis_ // 2, model.n_basis_):
        a = np.zeros(60)
        a[S[:n]] = model.dual_coef_[:n]
        solution = model._solution
        assert solution.squared_norm[n - 1] == pytest.approx(a @ K @ a, rel=1e-9)
        drop = 0.5 * data.y @ data.y - value(K, a, data.y, np.ones(60), 1.0)
        assert solution.decrease[n - 1] == pytest.approx(drop, rel=1e-9, abs=1e-9)


def test_what_belongs_to_the_l2_penalty_is_refused(waves):
    data = waves(40)
    model = l1(alpha=1.0).fit(data.X, data.y)
    assert model.rate_bound_ is None
    for name in ("truncated", "grow", "certify", "certify_path", "rate_bounds"):
        with pytest.raises(AttributeError, match=name) as refusal:
            getattr(model, name)
        assert "this is for penalty='l2'" in str(refusal.value.__cause__)
        assert hasattr(SparseKernelRidge(refit=True).fit(data.X, data.y), name)
    for name in ("partial_fit", "merge", "emptied"):
        with pytest.raises(AttributeError, match=name) as refusal:
            getattr(model, name)
        assert "penalty='l1' has no statistics" in str(refusal.value.__cause__)
    with pytest.raises(TypeError, match="has no bound"):
        BoundDisplay.from_estimator(model)
    with pytest.raises(TypeError, match="has no rate_bounds"):
        BoundDisplay.from_estimator(model, data.X, data.y)


def test_a_report_and_callbacks(waves, tmp_path):
    data = waves(80)
    model = l1(alpha=0.01, n_basis=60, verbose=1).fit(data.X, data.y)
    assert len(model.path_) > model.n_basis_
    model.report(tmp_path / "report.html", data.X, data.y)
    assert "SparseKernelRidge" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": "l0"}, "The 'penalty' parameter"),
        ({"method": "kappa"}, r"method='kappa' is an algorithm for the l2 penalty.*'greedy'"),
        ({"method": "random"}, "method='random' is an algorithm for the l2 penalty"),
        ({"method": "subspace"}, "method='subspace' is an algorithm for the l2 penalty"),
        ({"certificate": "hybrid"}, r"certificate='hybrid' is a proof for the l2 penalty"),
        ({"certificate": None, "tol": 0.1}, "with certificate=None there is none"),
        ({"kernel": RBF() + WhiteKernel()}, r"White term.*leave the term out"),
        ({"alpha": 0.0}, "alpha must be a positive number"),
    ],
)
def test_bad_input(waves, options, message):
    data = waves(20)
    model = SparseKernelRidge(**({"kernel": RBF(), "penalty": "l1"} | options))
    with pytest.raises(ValueError, match=message):
        model.fit(data.X, data.y)
    assert not hasattr(model, "dual_coef_")


def test_several_outputs_are_refused(waves):
    data = waves(20, n_outputs=2)
    with pytest.raises(ValueError, match=r"y has 2 outputs, and with penalty='l1'.*MultiOutput"):
        l1().fit(data.X, data.y)
    one = l1().fit(data.X, data.y[:, 0])
    assert one.dual_coef_.ndim == 1


def test_no_certificate_on_request_and_no_time(waves):
    data = waves(60)
    assert l1(certificate=None).fit(data.X, data.y).certificate_ is None
    short = l1(alpha=1e-3, n_basis=60, max_time=1e-9).fit(data.X, data.y)
    assert short.path_.stop_reason == "time"
    assert short.certificate_.lower <= short.certificate_.upper
