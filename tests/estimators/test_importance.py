"""Importance of columns: three ways to measure it, each against a formula of its own."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern
from sklearn.inspection import permutation_importance

import pursuit
from pursuit import (
    Categorical,
    ExactGPRegressor,
    FullScaleGPClassifier,
    FullScaleGPRegressor,
    HullBoostClassifier,
    HullRegressor,
    KernelMatchingPursuitClassifier,
    LowRankSVC,
    LowRankSVR,
    LPMachineClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
    on_columns,
)
from pursuit.estimators.importance import Importance, _by_sobol

KINDS = ["gradient", "permutation", "sobol"]


def table(m=400, seed=0):
    """sin(2x₀) + ½x₁, a constant column whose mean rounds, and a column of noise."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.uniform(-2, 2, m), rng.normal(size=m), np.full(m, 0.1), rng.normal(size=m)]
    )
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=m)


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    return SparseGPRegressor(n_basis=100, random_state=0).fit(X, y), X, y


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_is_that_of_permutations_and_a_constant_has_none(fitted, kind):
    model, X, y = fitted
    found = model.importance(X, kind)
    theirs = permutation_importance(model, X, y, n_repeats=20, random_state=0).importances_mean
    assert list(np.argsort(-found.mean)) == [0, 1, 3, 2]
    assert list(np.argsort(-theirs)[:2]) == [0, 1]
    assert found.mean[2] == 0.0
    assert found.std[2] == 0.0
    assert found.mean[3] < 0.05 * found.mean[1]
    if kind == "sobol":
        assert found.total[2] == found.first_order[2] == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_linear_function_has_weight_times_deviation(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5)) * [1.0, 10.0, 0.1, 3.0, 0.0] + [5.0, 0.0, -2.0, 1.0, 0.1]
    weights = np.array([2.0, -0.1, 30.0, 0.0, 70.0])
    model = SparseGPRegressor("linear", noise=1e-8, optimizer=None).fit(X, X @ weights)
    found = model.importance(X, kind, n_repeats=20)
    expected = np.abs(weights) * X.std(axis=0)
    # A mean of 2 000 half squares of differences of normal numbers has an error of √(3/2 000),
    # and their root half of it; that of 20 repeats is a little smaller. Four such errors.
    rtol = 1e-4 if kind == "gradient" else 4 * 0.5 * np.sqrt(3 / 2000)
    np.testing.assert_allclose(found.mean, expected, rtol=rtol, atol=1e-4)
    assert found.mean[4] == found.std[4] == 0.0
    assert found.mean.shape == found.std.shape == (5,)
    np.testing.assert_allclose(found.deviation, np.sqrt((expected**2).sum()), rtol=0.1)
    np.testing.assert_allclose(found.relative, found.mean / found.deviation)


def test_gradient_is_the_root_mean_square_slope(fitted):
    model, X, _ = fitted
    found = model.importance(X, n_repeats=400)
    squares = model.predict_gradient(X) ** 2
    expected = np.sqrt(squares.mean(axis=0)) * X.std(axis=0)
    moves = [0, 1, 3]
    np.testing.assert_allclose(found.mean[moves], expected[moves], rtol=1e-12)
    # By the jackknife, which knows nothing of the bootstrap.
    rest = [np.delete(np.arange(len(X)), i) for i in range(len(X))]
    without = [np.sqrt(squares[rows].mean(axis=0)) * X[rows].std(axis=0) for rows in rest]
    error = np.std(without, axis=0) * np.sqrt(len(X) - 1)
    np.testing.assert_allclose(found.std[moves], error[moves], rtol=0.2)


def test_permutation_is_the_change_of_the_prediction(fitted):
    """All shifts of a column are the permutations that make a mean over all pairs of rows."""
    model, X, _ = fitted
    X = X[:80]
    found = model.importance(X, "permutation", n_repeats=300)
    f = model.predict(X)
    for j in (0, 1):
        squares = []
        for shift in range(len(X)):
            moved = X.copy()
            moved[:, j] = np.roll(X[:, j], shift)
            squares.append(np.mean((model.predict(moved) - f) ** 2))
        expected = np.sqrt(0.5 * np.mean(squares))
        np.testing.assert_allclose(found.mean[j], expected, rtol=0.02)
    assert found.deviation == pytest.approx(f.std())


def ishigami(X, a=7.0, b=0.1):
    x, y, z = np.asarray(X)[:, :3].T
    return (np.sin(x) + a * np.sin(y) ** 2 + b * z**4 * np.sin(x))[:, None]


def test_indices_of_the_ishigami_function():
    """Analytic indices (Ishigami and Homma 1990), within four standard errors of the repeats."""
    a, b = 7.0, 0.1
    parts = {
        "1": 0.5 * (1 + b * np.pi**4 / 5) ** 2,
        "2": a**2 / 8,
        "13": b**2 * np.pi**8 * (1 / 18 - 1 / 50),
    }
    variance = sum(parts.values())
    first = np.array([parts["1"], parts["2"], 0.0, 0.0]) / variance
    total = np.array([parts["1"] + parts["13"], parts["2"], parts["13"], 0.0]) / variance
    X = np.random.default_rng(0).uniform(-np.pi, np.pi, size=(4000, 4))
    # An even grid of each column takes the error of X's own values out of the comparison.
    X = (np.argsort(np.argsort(X, axis=0), axis=0) + 0.5) / len(X) * 2 * np.pi - np.pi
    repeats = 30
    found = _by_sobol(ishigami, X, repeats, np.random.default_rng(1))
    for name, expected in (("total", total), ("first_order", first)):
        error = found[f"{name}_std"][:, 0] / np.sqrt(repeats)
        assert (error[:3] < 0.01).all(), "small enough to tell an index from another"
        assert (np.abs(found[name][:, 0] - expected) <= 4 * error).all()
    np.testing.assert_allclose(found["deviation"] ** 2, variance, rtol=0.02)
    np.testing.assert_allclose(found["mean"][:, 0] ** 2 / variance, total, atol=0.02)
    assert found["total"][3, 0] == 0.0, "a column that f does not read"


def test_indices_are_bounded_where_rows_that_occur_have_hardly_any_variance():
    def peak(X):
        """1e-100 and 2e-100 on the diagonal, where all rows lie, and 1 beside it."""
        return np.where(X[:, 0] == X[:, 1], 1e-100 * (1.0 + (X[:, 0] > 2)), 1.0)[:, None]

    X = np.repeat(np.arange(4.0), 2).reshape(4, 2)

    class Same:
        """A generator that leaves the rows as they are, but for those of B."""

        drawn = 0

        def permutation(self, n):
            self.drawn += 1
            return np.arange(n) if self.drawn % 4 in (1, 2) else np.roll(np.arange(n), 1)

    found = _by_sobol(peak, X, 2, Same())
    assert (found["total"] <= X.shape[1] + 2).all()
    assert all(np.isfinite(each).all() for each in found.values())


def test_indices_of_a_model_of_the_ishigami_function():
    X = np.random.default_rng(0).uniform(-np.pi, np.pi, size=(1500, 3))
    kernel = 100.0 * RBF([1.5, 1.2, 2.5])
    model = ExactGPRegressor(kernel, noise=1e-4, optimizer=None).fit(X, ishigami(X)[:, 0])
    assert model.score(X, ishigami(X)) > 0.99
    found = model.importance(X, "sobol", n_repeats=10)
    np.testing.assert_allclose(found.total, [0.558, 0.442, 0.244], atol=0.04)
    np.testing.assert_allclose(found.first_order, [0.314, 0.442, 0.0], atol=0.06)


@pytest.mark.parametrize("kind", KINDS)
def test_several_outputs(kind):
    X, y = table(200)
    Y = np.column_stack([y, 100.0 * X[:, 3]])
    model = SparseGPRegressor(Matern(2.0, nu=2.5), noise=0.05, optimizer=None, random_state=0)
    both = model.fit(X, Y).importance(X, kind)
    assert both.mean.shape == both.std.shape == (4, 2)
    assert both.deviation.shape == (2,)
    assert both.relative.shape == (4,)
    assert (both.mean[2] == 0).all()
    for output in range(2):
        one = model.fit(X, Y[:, output]).importance(X, kind)
        np.testing.assert_allclose(both.mean[:, output], one.mean, rtol=1e-6, atol=1e-9)
    shares = both.mean / both.deviation
    np.testing.assert_allclose(both.relative, np.sqrt((shares**2).mean(axis=1)))


CLASSIFIERS = {
    "process": SparseGPClassifier(RBF(1.0), optimizer=None, n_basis=40, random_state=0),
    "machine": LowRankSVC(RBF(1.0), n_basis=40, random_state=0),
    "pairs": LowRankSVC(RBF(1.0), n_basis=40, multi_class="ovo", random_state=0),
    "matching": KernelMatchingPursuitClassifier(RBF(1.0), n_basis=20, random_state=0),
    "programme": LPMachineClassifier(RBF(1.0), random_state=0),
    "boosting": HullBoostClassifier(n_terms=30, random_state=0),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name, n_classes):
    X, y = table(200)
    labels = np.digitize(y, [0.0] if n_classes == 2 else [-0.5, 0.5])
    model = CLASSIFIERS[name].fit(X, labels)
    found = model.importance(X, "permutation", n_repeats=4)
    values = model.decision_function(X)
    np.testing.assert_allclose(found.deviation, values.std(axis=0))
    assert found.mean.shape == X.shape[1:] + values.shape[1:]
    assert found.relative[0] > found.relative[3]
    assert (found.mean[2] == 0).all()
    if name == "boosting" or (name == "pairs" and n_classes > 2):
        with pytest.raises(ValueError, match=r"kind='permutation'.* kind='sobol'"):
            model.importance(X)
        return
    steep = model.importance(X)
    step = np.array([1e-4, 0, 0, 0])
    slope = (model.decision_function(X + step) - model.decision_function(X - step)) / 2e-4
    expected = np.sqrt((slope**2).mean(axis=0)) * X[:, 0].std()
    np.testing.assert_allclose(steep.mean[0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        ExactGPRegressor(RBF(1.0), noise=0.1, optimizer=None),
        FullScaleGPRegressor(RBF(1.0), noise=0.1, optimizer=None, n_basis=20, n_neighbors=5),
        LowRankSVR(RBF(1.0), n_basis=40),
        HullRegressor("features", radius=2.0),
    ],
)
@pytest.mark.parametrize("kind", ["permutation", "sobol"])
def test_any_regressor(model, kind):
    X, y = table(150)
    found = model.fit(X, y).importance(X, kind, n_repeats=3)
    assert found.mean[2] == 0.0
    assert found.mean[0] > found.mean[3]


@pytest.mark.parametrize("kind", KINDS)
def test_repeatable_and_seeded(fitted, kind):
    model, X, _ = fitted
    first, again = (model.importance(X, kind, n_repeats=3, random_state=7) for _ in range(2))
    other = model.importance(X, kind, n_repeats=3, random_state=8)
    np.testing.assert_array_equal(first.mean, again.mean)
    np.testing.assert_array_equal(first.std, again.std)
    assert not np.array_equal(first.std, other.std)


@pytest.mark.parametrize("kind", KINDS)
def test_data_frames(kind):
    pd = pytest.importorskip("pandas")
    X, y = table(150)
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names)
    frame["target"] = y
    options = {"noise": 0.1, "optimizer": None, "n_basis": 30, "random_state": 0}
    plain = SparseGPRegressor(RBF(1.0), **options).fit(X, y).importance(X, kind, n_repeats=3)
    model = SparseGPRegressor(RBF(1.0), **options).fit(frame[names], y)
    before = frame.copy()
    named = model.importance(frame, kind, n_repeats=3)
    pd.testing.assert_frame_equal(frame, before)
    assert named.feature_names == names
    np.testing.assert_allclose(named.mean, plain.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(named.std, plain.std, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_polars_frames(kind):
    pl = pytest.importorskip("polars")
    X, y = table(150)
    options = {"noise": 0.1, "optimizer": None, "n_basis": 30, "random_state": 0}
    frame = pl.DataFrame(X, schema=["a", "b", "c", "d"])
    plain = SparseGPRegressor(RBF(1.0), **options).fit(X, y).importance(X, kind, n_repeats=3)
    named = (
        SparseGPRegressor(RBF(1.0), **options).fit(frame, y).importance(frame, kind, n_repeats=3)
    )
    np.testing.assert_allclose(named.mean, plain.mean, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_rows(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5)) * (rng.uniform(size=(100, 5)) < 0.4)
    X[:, 2] = 0.0
    model = SparseGPRegressor(RBF(1.0), noise=0.1, optimizer=None, n_basis=20, random_state=0)
    found = model.fit(sparse.csr_array(X), X[:, 0]).importance(sparse.csr_array(X), kind)
    assert found.mean[2] == 0.0
    assert found.mean.argmax() == 0


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_text_are_permuted(library):
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    x, city = rng.normal(size=300), rng.choice(["Bonn", "Kiel", "Ulm"], size=300)
    columns = {"city": city, "x": x, "same": np.full(300, "one")}
    frame = frames.DataFrame(columns)
    y = x + 2.0 * (city == "Ulm") - 1.0 * (city == "Bonn")
    model = SparseGPRegressor(noise=1e-3, optimizer=None, random_state=0).fit(frame, y)
    found = {kind: model.importance(frame, kind) for kind in KINDS}
    level = np.select([city == "Ulm", city == "Bonn"], [2.0, -1.0])
    for kind in KINDS:
        # Four errors of a root of 300 half squares; the columns are drawn independently.
        expected = [level.std(), x.std(), 0.0]
        np.testing.assert_allclose(found[kind].mean, expected, rtol=4 * 0.5 * np.sqrt(3 / 300))
        assert found[kind].mean[2] == found[kind].std[2] == 0.0
        assert found[kind].feature_names == ["city", "x", "same"]
    report = model.learning_report_
    assert report.importance[2] == 0.0
    expected = found["permutation"].relative
    assert (np.abs(report.importance - expected)[:2] <= 4 * report.importance_std[:2]).all()


def laplacian(A, B):
    return np.exp(-np.abs(A[:, None] - B).sum(axis=2))


def test_what_is_refused():
    X, y = table(60)
    model = SparseGPRegressor(RBF(1.0), noise=0.1, optimizer=None, n_basis=10).fit(X, y)
    with pytest.raises(ValueError, match="one of 'gradient', 'permutation', 'sobol', got 'shap'"):
        model.importance(X, "shap")
    with pytest.raises(ValueError, match="n_repeats must be a whole number from 2, got 1"):
        model.importance(X, n_repeats=1)
    with pytest.raises(ValueError, match="at least 2 rows of X, got 1"):
        model.importance(X[:1])
    with pytest.raises(TypeError, match=r"takes rows in memory, got 'rows\.csv'"):
        model.importance("rows.csv")
    called = SparseGPRegressor(laplacian, noise=0.1, n_basis=10).fit(X, y)
    with pytest.raises(
        ValueError, match=r"kernel laplacian .* kind='permutation' and kind='sobol'"
    ):
        called.importance(X)
    assert called.importance(X, "permutation").mean[0] > 0
    matrix = SparseGPRegressor("precomputed", noise=0.1).fit(RBF()(X), y)
    with pytest.raises(ValueError, match="'precomputed' takes kernel values in place of columns"):
        matrix.importance(RBF()(X), "permutation")


def test_full_scale_models_have_no_gradient():
    X, y = table(200)
    options = {"optimizer": None, "n_basis": 20, "n_neighbors": 5, "random_state": 0}
    model = FullScaleGPRegressor(RBF(1.0), noise=0.1, **options).fit(X, y)
    remedy = r"model.without_neighbors\(\).importance\(X\).* kind='permutation'"
    with pytest.raises(ValueError, match=remedy):
        model.importance(X)
    classes = FullScaleGPClassifier(RBF(1.0), **options).fit(X, y > 0)
    with pytest.raises(ValueError, match=remedy):
        classes.importance(X)
    assert model.without_neighbors().importance(X).mean[2] == 0.0


def test_printed_table():
    found = Importance(
        kind="sobol",
        mean=np.array([0.5, 2.0]),
        std=np.array([0.01, 0.1]),
        deviation=4.0,
        feature_names=["height", "width"],
        n_repeats=10,
        total=np.array([0.015625, 0.25]),
        first_order=np.array([0.01, 0.2]),
        total_std=np.array([0.001, 0.02]),
        first_order_std=np.array([0.002, 0.03]),
    )
    assert str(found).splitlines() == [
        "importance of 2 columns by sobol, 10 repeats",
        "column  relative  importance  total index     first-order index",
        "width   0.5       2 ± 0.1     0.25 ± 0.02     0.2 ± 0.03",
        "height  0.125     0.5 ± 0.01  0.0156 ± 0.001  0.01 ± 0.002",
    ]


# In the report of a fit


@pytest.mark.parametrize("make", [SparseGPRegressor, ExactGPRegressor])
def test_the_report_has_what_the_method_finds(make):
    X, y = table(300)
    Y = np.column_stack([y, 20.0 * X[:, 3]])
    model = make(random_state=0).fit(X, Y)
    report, expected = model.learning_report_, model.importance(X).relative
    np.testing.assert_allclose(report.importance, expected, rtol=1e-9, atol=1e-15)
    assert report.importance[2] == report.importance_std[2] == 0.0
    assert report.feature_names == ["x0", "x1", "x2", "x3"]
    one = make(random_state=0).fit(X, y)
    f, slopes = one.predict(X), one.predict_gradient(X)

    def relative(rows):
        slope = np.sqrt((slopes[rows] ** 2).mean(axis=0))
        return slope * X[rows].std(axis=0) / f[rows].std()

    # By the jackknife; a deviation over 30 bootstrap samples has an error of 1/√58.
    without = [relative(np.delete(np.arange(300), i)) for i in range(300)]
    errors = np.std(without, axis=0) * np.sqrt(299)
    found = one.learning_report_.importance_std
    np.testing.assert_allclose(found, errors, rtol=4 / np.sqrt(58), atol=1e-12)
    lines = str(one.learning_report_).splitlines()
    at = lines.index("importance of the features (relative to the predictions' deviation):") + 1
    assert lines[at].split()[0] == "x0"
    assert lines[at + 4].startswith("relevance")


def test_the_report_of_a_classifier():
    X, y = table(300)
    model = SparseGPClassifier(n_basis=50, random_state=0).fit(X, np.digitize(y, [-0.5, 0.5]))
    expected = model.importance(X).relative
    np.testing.assert_allclose(model.learning_report_.importance, expected, rtol=1e-9, atol=1e-15)
    assert list(np.argsort(-expected)) == [0, 1, 3, 2]


def test_rows_of_weight_w_are_w_rows(monkeypatch):
    monkeypatch.setattr("pursuit.estimators.gp.stages._SHARE_EXPLAINED", 1)
    X, y = table(120)
    weights = np.random.default_rng(1).integers(0, 4, size=120)
    options = {"kernel": RBF(1.0), "noise": 0.1, "optimizer": None, "normalize_y": False}
    model = SparseGPRegressor(**options, n_basis=120).fit(X, y, weights)
    again = np.repeat(np.arange(120), weights)
    copies = SparseGPRegressor(**options, n_basis=120).fit(X[again], y[again])
    found, expected = model.learning_report_, copies.learning_report_
    np.testing.assert_allclose(found.importance, expected.importance, rtol=1e-6)
    unweighted = model.importance(X).relative
    assert (np.abs(unweighted - found.importance)[:2] > 1e-3).all(), "and not w times one row"


def test_rows_of_hardly_any_weight_count_for_nothing(monkeypatch):
    monkeypatch.setattr("pursuit.estimators.gp.stages._SHARE_EXPLAINED", 1)
    X, y = table(400)
    X[200:, 0] *= 8.0
    options = {"kernel": DotProduct(1.0), "noise": 0.1, "optimizer": None, "normalize_y": False}
    light = np.where(np.arange(400) < 200, 1.0, 1e-9)
    found = ExactGPRegressor(**options).fit(X, y, light).learning_report_
    expected = ExactGPRegressor(**options).fit(X[:200], y[:200]).learning_report_
    np.testing.assert_allclose(found.importance, expected.importance, rtol=1e-5)
    # The logarithm of a deviation over 30 bootstrap samples has an error of 1/√58.
    ratio = found.importance_std[:2] / expected.importance_std[:2]
    assert (np.abs(np.log(ratio)) < 4 * np.sqrt(2 / 58)).all()


def test_columns_of_codes_are_permuted_whatever_the_codes():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=1500), 1000.0 * rng.integers(0, 3, size=1500)])
    y = X[:, 0] + X[:, 1] / 1000.0
    kernel = on_columns(RBF(1.0), [0]) * Categorical([1])
    model = SparseGPRegressor(kernel, noise=1e-3, optimizer=None, n_basis=60, random_state=0)
    report = model.fit(X, y).learning_report_
    expected = model.importance(X, "permutation").relative
    assert (np.abs(report.importance - expected) <= 4 * report.importance_std).all()
    np.testing.assert_allclose(model.importance(X).relative, expected, rtol=0.1)


def test_many_rows_are_sampled_and_the_fit_does_not_notice(monkeypatch):
    X, y = table(2500)
    options = {"n_basis": 30, "optimizer": None, "random_state": 0, "certificate": None}
    model = SparseGPRegressor(RBF(1.0), **options).fit(X, y)
    found = model.learning_report_.importance
    np.testing.assert_allclose(found, model.importance(X).relative, rtol=0.1, atol=1e-12)
    assert (np.abs(found - model.importance(X).relative)[:2] > 0).all(), "not of all rows"
    monkeypatch.setattr("pursuit.estimators.gp.stages._EXPLAINED_FEATURES", 0)
    without = SparseGPRegressor(RBF(1.0), **options).fit(X, y)
    assert without.learning_report_.importance is None
    np.testing.assert_array_equal(model.dual_coef_, without.dual_coef_)
    np.testing.assert_array_equal(model.predict(X), without.predict(X))
    again = SparseGPRegressor(RBF(1.0), **options, n_jobs=2)
    monkeypatch.undo()
    np.testing.assert_array_equal(again.fit(X, y).learning_report_.importance, found)


def test_called_kernels_are_permuted_where_rows_suffice():
    X, y = table(2000)
    options = {"noise": 0.1, "optimizer": None, "n_basis": 30, "random_state": 0}
    model = SparseGPRegressor(laplacian, **options).fit(X, y)
    found = model.learning_report_
    assert list(np.argsort(-found.importance)) == [0, 1, 3, 2]
    assert found.importance[2] == found.importance_std[2] == 0.0
    expected = model.importance(X, "permutation", n_repeats=3).relative
    errors = np.abs(found.importance - expected)
    assert (errors[:2] <= 4 * found.importance_std[:2]).all()
    few = SparseGPRegressor(laplacian, **options).fit(X[:200], y[:200])
    assert few.learning_report_.importance is None


def test_inputs_without_features_have_none():
    X, y = table(60)
    model = SparseGPRegressor("precomputed", noise=0.1).fit(RBF()(X), y)
    assert model.learning_report_.importance is None

    def shared(a, b):
        return float(len(set(a) & set(b)))

    words = ["cat", "dog", "cow", "goat"]
    model = SparseGPRegressor(pursuit.pairwise(shared), noise=0.1).fit(words, [1.0, 2.0, 3.0, 4.0])
    assert model.learning_report_.importance is None


def test_a_flat_prediction_has_no_importance():
    X, _ = table(60)
    model = SparseGPRegressor(RBF(1.0), noise=0.1, optimizer=None, random_state=0)
    model.fit(X, np.full(60, 3.0))
    np.testing.assert_array_equal(model.learning_report_.importance, np.zeros(4))
    np.testing.assert_array_equal(model.learning_report_.importance_std, np.zeros(4))
    for kind in KINDS:
        found = model.importance(X, kind, n_repeats=2)
        np.testing.assert_allclose(found.mean, np.zeros(4), atol=1e-12)
        np.testing.assert_array_equal(found.relative, np.zeros(4))


def test_saved_truncated_and_full_scale_models_keep_it(tmp_path):
    X, y = table(300)
    model = FullScaleGPRegressor(n_basis=40, n_neighbors=4, random_state=0).fit(X, y)
    report = model.learning_report_
    np.testing.assert_array_equal(report.importance, model.global_.learning_report_.importance)
    model.save(tmp_path / "model.pursuit")
    loaded = pursuit.load(tmp_path / "model.pursuit").learning_report_
    np.testing.assert_array_equal(loaded.importance, report.importance)
    np.testing.assert_array_equal(loaded.importance_std, report.importance_std)
    cut = model.global_.truncated(20)
    assert cut.learning_report_.importance is report.importance
    assert cut.importance(X).mean[2] == 0.0


@pytest.mark.parametrize("scale", [0.05, 0.3, 3.0])
def test_a_flag_matters_however_short_the_length_scale(scale):
    # Between 0 and 1 a function may jump with no slope at either.
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 300), rng.uniform(-1, 1, 300)]).astype(float)
    y = 2.0 * X[:, 0] + X[:, 1]
    kernel = RBF([scale, 2.0])
    model = SparseGPRegressor(kernel, noise=1e-4, optimizer=None, random_state=0).fit(X, y)
    expected = np.array([2.0 * X[:, 0].std(), X[:, 1].std()])
    found, report = model.importance(X), model.learning_report_
    assert np.all(np.abs(found.mean - expected) < 4 * found.std)
    error = np.abs(report.importance - expected / y.std())
    assert np.all(error < 4 * report.importance_std)


def test_the_report_page_shows_importance_first(tmp_path):
    X, y = table(200)
    model = SparseGPRegressor(n_basis=20, random_state=0).fit(X, y)
    model.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    first, second = (page.index(f"{title}</h2>") for title in TITLES)
    assert first < second
    between = page[first:second]
    assert between.index(">x0<") < between.index(">x1<") < between.index(">x3<")


TITLES = "What moves the predictions", "What the kernel listens to"
