"""The size that the bound chooses, what it promises, and growing with further rows."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

import pursuit
from pursuit import BoundDisplay, SparseKernelPCA
from pursuit.bounds import kpca_bound
from pursuit.datasets import load_boston


@pytest.fixture(scope="module")
def boston(data_dir):
    return StandardScaler().fit_transform(load_boston(return_X_y=True)[0])


def test_boston(boston):
    """HS08 Figure 1 left, 2ω² = d/2: the paper's minimum is at 43."""
    for seed in range(3):
        X = boston[np.random.default_rng(seed).permutation(506)[:450]]
        model = SparseKernelPCA(gamma=1 / 6.5).fit(X)
        assert 43 <= model.n_basis_ <= 48
        assert model.path_.stop_reason == "bound"
        spectrum = np.linalg.eigvalsh(rbf_kernel(X, gamma=1 / 6.5))[::-1]
        n = len(model.printed_bound_.size)
        exact = kpca_bound(spectrum[:n], spectrum.sum(), 450.0, 450, 0.05)
        assert np.all(model.printed_bound_.value < exact.value)
        assert np.all(model.generalization_bound_.value <= model.printed_bound_.value)
        # From the spectrum of the span the other bound is larger, so the comparison is fair.
        assert np.all(model.kpca_bound_.value >= exact.value[: model.n_basis_] - 1e-12)


def brackets(model, m, R=1.0, delta=0.05, *, inside=False):
    """What Theorem 2 takes the minimum of, at every size; R as printed, inside the root, or not."""
    t = np.arange(1, model.n_basis_ + 1)
    count = t * np.log(np.e * m / t) + np.log(2 * m / delta)
    factor = np.sqrt(R) if inside else R
    return model.path_.value / (m - t) + factor * np.sqrt(count / (2 * (m - t)))


def test_the_size_is_the_minimum_of_the_printed_bound():
    X = np.random.default_rng(0).normal(size=(300, 4))
    model = SparseKernelPCA(gamma=0.3).fit(X)
    bound = model.printed_bound_
    assert model.n_basis_ == bound.size[bound.best]
    wide = SparseKernelPCA(gamma=0.3, n_basis=model.n_basis_ + 10).fit(X)
    np.testing.assert_array_equal(wide.basis_indices_[: model.n_basis_], model.basis_indices_)
    np.testing.assert_allclose(wide.printed_bound_.value, bound.value, rtol=1e-10)
    terms = brackets(wide, 300)
    assert np.argmin(terms) + 1 == model.n_basis_
    np.testing.assert_allclose(bound.value, np.minimum.accumulate(terms), rtol=1e-10)


def test_a_large_basis_keeps_the_bound_of_a_small_one():
    """The published minimum over t ≤ k, for both forms, at four times the best size."""
    X = np.random.default_rng(0).normal(size=(300, 4))
    best = SparseKernelPCA(gamma=0.3).fit(X)
    large = SparseKernelPCA(gamma=0.3, n_basis=4 * best.n_basis_).fit(X)
    terms = brackets(large, 300)
    assert terms[-1] > 1.1 * terms.min()
    for name in ("generalization_bound_", "printed_bound_"):
        values = getattr(large, name).value
        assert np.all(np.diff(values) <= 0)
        assert values[-1] == pytest.approx(getattr(best, name).value.min(), rel=1e-10)
    assert large.truncated(5).generalization_bound_.value[-1] == pytest.approx(
        large.generalization_bound_.value[4], rel=1e-12
    )


@pytest.mark.parametrize("R", [0.01, 100.0])
def test_the_printed_bound_is_as_printed_and_does_not_choose(R):
    """R inside the root in print; the choice is the same whatever the scale of the kernel."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    plain = SparseKernelPCA(RBF(1.0)).fit(X)
    scaled = SparseKernelPCA(ConstantKernel(R) * RBF(1.0)).fit(X)
    np.testing.assert_array_equal(scaled.basis_indices_, plain.basis_indices_)
    np.testing.assert_allclose(
        scaled.generalization_bound_.value, R * plain.generalization_bound_.value, rtol=1e-9
    )
    n = scaled.n_basis_
    expected = np.minimum.accumulate(brackets(scaled, 200, R, inside=True))
    np.testing.assert_allclose(scaled.printed_bound_.value[:n], expected, rtol=1e-9)
    assert f"R = {R:.4g} inside the root" in scaled.printed_bound_.caveat
    assert scaled.generalization_bound_.caveat == plain.printed_bound_.caveat == ""


def test_there_are_at_least_as_many_functions_as_components():
    X = np.random.default_rng(0).normal(size=(60, 4))
    assert SparseKernelPCA(gamma=0.3).fit(X).n_basis_ < 25
    model = SparseKernelPCA(gamma=0.3, n_components=25).fit(X)
    assert model.n_basis_ == model.n_components_ == 25


def test_a_kernel_without_known_radius_says_so():
    X = np.random.default_rng(0).normal(size=(60, 4))
    assert SparseKernelPCA(gamma=0.3).fit(X).generalization_bound_.caveat == ""
    linear = SparseKernelPCA("linear").fit(X).generalization_bound_
    assert "largest seen" in linear.caveat
    assert linear.trivial == pytest.approx((X**2).sum(axis=1).max())


def test_weights_are_said_to_count_as_rows(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 4))
    w = np.append(2.0, np.ones(59))
    model = SparseKernelPCA(gamma=0.3).fit(X, sample_weight=w)
    model.save(tmp_path / "pca")
    again = pursuit.load(tmp_path / "pca").truncated(3)
    later = SparseKernelPCA(gamma=0.3).fit(X).grow(X + 0.1, sample_weight=w)
    for bound in (model.generalization_bound_, again.printed_bound_, later.kpca_bound_):
        assert bound.caveat == "a row of weight w counts as w rows"
    assert model.fit(X).generalization_bound_.caveat == ""


def test_the_bound_holds(size):
    """Violated in at most δ of many training sets; the printed one, R inside the root, in more.

    Half of the rows are one and the same, the others far from everything: once the common row is in
    the basis, a new row is missed by R with probability ½.
    """
    n_sets, m, R, delta = size(120, 2000), 40, 100.0, 0.05
    rng = np.random.default_rng(0)
    kernel = ConstantKernel(R) * RBF(1.0)
    violated = {"generalization_bound_": 0, "printed_bound_": 0, "R outside": 0}
    for _ in range(n_sets):
        X = np.where(rng.random(m) < 0.5, rng.uniform(100, 1e7, m), 0.0)[:, None]
        model = SparseKernelPCA(kernel, delta=delta, n_basis=8, n_jobs=1).fit(X)
        truth = R * np.where(np.cumsum(model.basis_[:, 0] == 0) > 0, 0.5, 1.0)
        for name in ("generalization_bound_", "printed_bound_"):
            violated[name] += bool(np.any(truth > getattr(model, name).value))
        corrected = np.minimum.accumulate(brackets(model, m, R, delta))
        violated["R outside"] += bool(np.any(truth > corrected))
    assert violated["generalization_bound_"] <= delta * n_sets
    assert violated["R outside"] <= delta * n_sets
    assert violated["printed_bound_"] > delta * n_sets


def test_the_bound_holds_for_a_smooth_density(size):
    """Truth from fresh rows; δ = .5, so that there is a chance to fail."""
    n_sets, delta = size(40, 500), 0.5
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(6, 2)) * 2

    def draw(m):
        return centres[rng.integers(0, 6, m)] + 0.3 * rng.normal(size=(m, 2))

    fresh, violated = draw(2000), 0
    for _ in range(n_sets):
        model = SparseKernelPCA(gamma=2.0, delta=delta, n_jobs=1).fit(draw(40))
        truth = model.residual_curves(fresh)["new rows"][1]
        violated += bool(np.any(truth > model.generalization_bound_.value[: model.n_basis_]))
    assert violated <= delta * n_sets


def test_curves_for_the_display():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(200, 3)), rng.normal(size=(100, 3))
    model = SparseKernelPCA(gamma=0.5, n_basis=30).fit(X)
    curves = model.residual_curves(new)
    for t in (1, 7, 30):
        cut = model.truncated(t)
        inside = cut.reconstruction_error(X, t)
        assert curves["training rows outside the basis"][1][t - 1] == pytest.approx(
            inside.sum() / (200 - t), rel=1e-8
        )
        assert curves["new rows"][1][t - 1] == pytest.approx(
            cut.reconstruction_error(new, t).mean(), rel=1e-8
        )
    display = BoundDisplay.from_estimator(model, curves=curves)
    assert set(curves) < set(display.lines_)
    both = BoundDisplay([model.generalization_bound_, model.kpca_bound_], curves).plot()
    assert len(both.lines_) == 5


@pytest.fixture(scope="module")
def parts(read_only):
    """Rows, and later ones from elsewhere."""
    rng = np.random.default_rng(0)
    return read_only(rng.normal(size=(200, 2))), read_only(rng.normal(size=(150, 2)) + 4.0)


class TestExtend:
    def test_old_rows_keep_their_place_and_new_ones_join(self, parts):
        old, new = parts
        before = SparseKernelPCA(gamma=0.5, n_basis=15).fit(old)
        after = SparseKernelPCA(gamma=0.5, n_basis=15).fit(old).grow(new, n_basis=30)
        assert after.n_basis_ == 30
        np.testing.assert_array_equal(after.basis_indices_[:15], before.basis_indices_)
        assert after.basis_indices_[15:].min() >= 200
        np.testing.assert_array_equal(after.basis_[15:], new[after.basis_indices_[15:] - 200])
        # Residuals of old rows are those of the span they were seen in.
        residual = before.residual_trace_ + after.reconstruction_error(new, 30).sum()
        assert after.residual_trace_ == pytest.approx(residual, rel=1e-8)
        assert after.residual_trace_ >= after.reconstruction_error(np.vstack(parts), 30).sum()
        # Moments: old rows as seen from the old span, new rows as they are.
        V_old = np.zeros((200, 30))
        K = rbf_kernel(after.basis_, gamma=0.5)
        R = np.linalg.cholesky(K)
        V_old[:, :15] = np.linalg.solve(R[:15, :15], rbf_kernel(before.basis_, old, gamma=0.5)).T
        V = np.vstack([V_old, np.linalg.solve(R, rbf_kernel(after.basis_, new, gamma=0.5)).T])
        spectrum = np.linalg.eigvalsh(np.cov(V.T, bias=True))[::-1]
        np.testing.assert_allclose(after.explained_variance_, spectrum[:2], rtol=1e-8)

    def test_new_functions_are_the_greedy_ones(self, parts):
        """By what the old span leaves of the new rows."""
        old, new = parts
        model = SparseKernelPCA(gamma=0.5, n_basis=10).fit(old).grow(new, n_basis=16)
        points = np.vstack([model.basis_[:10], new])
        K = rbf_kernel(points, gamma=0.5)
        S = list(range(10))
        for found in model.basis_indices_[10:] - 200:
            E = K - K[:, S] @ np.linalg.solve(K[np.ix_(S, S)], K[S])
            gain = (E[10:, 10:] ** 2).sum(axis=0) / np.maximum(np.diag(E)[10:], 1e-9)
            assert gain.argmax() == found
            S.append(10 + int(found))

    def test_rows_of_the_same_kind_need_no_new_functions(self, parts):
        old, _ = parts
        model = SparseKernelPCA(gamma=0.5).fit(old)
        n, value = model.n_basis_, model.generalization_bound_.value.min()
        more = np.random.default_rng(9).normal(size=(400, 2))
        model.grow(more)
        assert n <= model.n_basis_ <= 3 * n
        assert model.generalization_bound_.value.min() < value
        assert len(model.path_) == model.n_basis_
        assert np.all(np.diff(model.path_.seconds) >= 0)
        assert model.score_samples(more).mean() > model.score_samples(more + 9.0).mean()

    def test_functions_are_added_where_the_rows_are_new(self, parts):
        old, new = parts
        model = SparseKernelPCA(gamma=0.5).fit(old)
        n, familiar = model.n_basis_, model.score_samples(new).mean()
        model.grow(new)
        assert model.n_basis_ > n
        assert model.score_samples(new).mean() > familiar + 0.3
        bound = model.generalization_bound_
        m, t = 350, np.arange(1, model.n_basis_ + 1)
        assert np.all(bound.value[: model.n_basis_] > model.path_.value / (m - t))

    def test_no_room_for_more_and_no_first_fit(self, parts):
        old, new = parts
        model = SparseKernelPCA(gamma=0.5, n_basis=12).grow(old)
        assert model.n_basis_ == 12
        before = model.residual_trace_
        model.grow(new, sample_weight=np.full(150, 2.0), n_basis=5)
        assert model.n_basis_ == 12
        expected = before + 2 * model.reconstruction_error(new, 12).sum()
        assert model.residual_trace_ == pytest.approx(expected, rel=1e-8)

    def test_refusals(self, parts):
        old, new = parts
        model = SparseKernelPCA(gamma=0.5, n_basis=5).fit(old)
        with pytest.raises(ValueError, match="n_basis must be 'bound' or a whole number"):
            model.grow(new, n_basis="more")
        with pytest.raises(ValueError, match="X has 1 features"):
            model.grow(new[:, :1])
        with pytest.raises(ValueError, match="knows only the rows of its matrix"):
            SparseKernelPCA("precomputed", n_basis=5).fit(np.eye(8)).grow(np.eye(8))
