"""Full-scale classification against dense formulas and explicit deletion, and its daily use."""

import pickle
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern
from sklearn.metrics import log_loss

import pursuit
from pursuit import Evidence, FullScaleGPClassifier, SparseGPClassifier
from pursuit.estimators.full_scale import class_fit, classifier
from pursuit.estimators.full_scale.near_rows import LeavingRows
from pursuit.linalg import Workers
from pursuit.tuning import Confidence

ROUGH = ConstantKernel(4.0) * Matern([0.8, 0.5], nu=0.5)


def fixed(kernel=ROUGH, **options):
    """Nothing is learned, and nothing is calibrated."""
    given = {"n_basis": 12, "n_neighbors": 7, "scale": 3.0, "calibration": None, **options}
    return FullScaleGPClassifier(kernel, optimizer=None, random_state=0, **given)


def chosen(**options):
    """The kernel is given, and reserved rows choose the near rows."""
    given = {"n_basis": 30, "scale": 20.0, "random_state": 0, **options}
    return FullScaleGPClassifier(Matern(0.1, nu=0.5), optimizer=None, **given)


def learned(**options):
    """Learned from a few hundred rows."""
    return FullScaleGPClassifier(
        optimizer=Evidence(rows=300), refine=False, random_state=0, **options
    )


def classes(m, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    latent = np.sin(3 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=m)
    return X, np.digitize(latent, np.quantile(latent, np.arange(1, n_classes) / n_classes))


def with_copies(X, labels):
    """Some rows twice or three times, with labels of their own."""
    again = np.r_[np.arange(len(X)), 0, 0, 5, 9]
    names = labels[again].copy()
    names[-1] = (names[-1] + 1) % (labels.max() + 1)
    return X[again], names


def checkerboard(m, cells=14, n_classes=2, seed=0):
    X = np.random.default_rng(seed).uniform(size=(m, 2))
    return X, np.floor(cells * X).sum(axis=1).astype(int) % n_classes


class Dense:
    """The formulas of the class's notes, one query and one column at a time, in dense float64.

    Identical rows are one: their h and g are added up.
    """

    def __init__(self, model, X, labels, w, settling=True):
        self.kernel, self.s = model.kernel_, model.global_.scale_
        names = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
        _, first, group = np.unique(X, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        self.group = np.argsort(order)[group.ravel()]
        self.X = X[first[order]]
        self.t = (labels[:, None] == names).astype(float)
        self.w = w
        Z = model.global_.basis_
        self.beta = model.global_.dual_coef_.reshape(len(Z), -1)
        self.Z, self.R = Z, np.linalg.cholesky(self.kernel(Z))
        self.V = self.features(self.X)
        self.fitted = self.kernel(self.X, Z) @ self.beta
        everything = self.V[self.group]
        self.B = []
        for f in self.fitted[self.group].T:
            D = w * expit(f) * expit(-f)
            self.B.append((everything * D[:, None]).T @ everything + np.eye(len(Z)) / self.s)
        self.settled = self.settle() if settling else self.fitted
        self.without = {(): self.settled}

    def features(self, X):
        return np.linalg.solve(self.R, self.kernel(self.Z, X)).T

    def residual(self, A, B):
        return self.s * (self.kernel(A, B) - self.features(A) @ self.features(B).T)

    def near(self, x, k, without=()):
        scaled = (self.X - x) / self.kernel.k2.length_scale
        order = np.argsort((scaled**2).sum(axis=1), kind="stable")
        return np.array([i for i in order if i not in without][:k], dtype=int)

    def sums(self, values, there):
        return np.bincount(self.group[there], values[there], len(self.X))

    def settle(self, without=()):
        """Five steps by the bound of Jaakkola and Jordan, with 16 near rows; all rows at once."""
        settled = np.empty_like(self.fitted)
        everywhere = np.full(len(self.w), True)
        weight = self.sums(self.w, everywhere)
        N = np.array([self.near(x, 16, without) for x in self.X])
        between = self.residual(self.X, self.X)
        S = between[N[:, :, None], N[:, None]]
        for column, prior in enumerate(self.fitted.T):
            pulls = self.sums(self.w * (self.t[:, column] - 0.5), everywhere)
            f = prior[N]
            for _ in range(5):
                h = weight[N] * np.tanh(f / 2) / (2 * f)
                right = pulls[N] / h - prior[N]
                a = np.linalg.solve(S + np.eye(16) / h[:, None], right[:, :, None])[:, :, 0]
                f = prior[N] + np.einsum("rij,rj->ri", S, a)
            rows = np.arange(len(N))[:, None]
            settled[:, column] = prior + np.sum(between[rows, N] * a, axis=1)
        return settled

    def predict(self, x, k, column, left_out=None):
        """Mean and variance of the log-odds; without a row, by explicit deletion."""
        there = np.full(len(self.w), True)
        beta_shift, B = np.zeros(len(self.Z)), self.B[column]
        without = ()
        if left_out is not None:
            i = left_out
            there[i] = False
            without = () if np.any(self.group[there] == self.group[i]) else (self.group[i],)
            v, f = self.V[self.group[i]], self.fitted[self.group[i], column]
            # The mode moves by the step to the optimum of the quadratic model without the row.
            B = B - self.w[i] * expit(f) * expit(-f) * np.outer(v, v)
            beta_shift = -np.linalg.solve(B, v) * self.w[i] * (self.t[i, column] - expit(f))
        N = self.near(x, k, without)
        if without not in self.without:
            self.without[without] = self.settle(without)
        settled = self.without[without]
        f = settled[self.group, column]
        h = self.sums(self.w * expit(f) * expit(-f), there)[N]
        g = self.sums(self.w * (self.t[:, column] - expit(f)), there)[N]
        working = settled[N, column] + g / h
        prior = self.fitted[N, column] + self.V[N] @ beta_shift
        r = self.residual(x[None], self.X[N])[0]
        A = np.linalg.solve(self.residual(self.X[N], self.X[N]) + np.diag(1 / h), r)
        v = self.features(x[None])[0]
        mean = self.kernel(x[None], self.Z)[0] @ self.beta[:, column] + v @ beta_shift
        u = v - A @ self.V[N]
        missed = self.residual(x[None], x[None])[0, 0] - A @ r
        return mean + A @ (working - prior), u @ np.linalg.solve(B, u), missed


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("memory", ["stored", "on-demand"])
@pytest.mark.parametrize("scale", [0.5, 30.0])
def test_latent_functions_are_those_of_dense_formulas(n_classes, memory, scale):
    X, labels = with_copies(*classes(90, n_classes))
    w = np.random.default_rng(1).uniform(0.3, 3.0, len(X))
    model = fixed(memory=memory, scale=scale).fit(X, labels, w)
    dense = Dense(model, X, labels, w)
    assert_allclose(model._settled, dense.settled, rtol=1e-9, atol=1e-9)
    queries = np.random.default_rng(2).uniform(-3, 3, (25, 2))
    found = model._latents(queries, variance=True)
    for column in range(found.mean.shape[1]):
        expected = [dense.predict(x, 7, column) for x in queries]
        mean, variance, missed = np.transpose(expected)
        assert_allclose(found.mean[:, column], mean, rtol=1e-9, atol=1e-9)
        assert_allclose(found.variance[:, column], variance, rtol=1e-9)
        assert_allclose(found.missed[:, column], missed, rtol=1e-9, atol=1e-9)
    values = model.decision_function(queries)
    assert_array_equal(values.reshape(found.mean.shape), found.mean)
    assert_array_equal(model.predict_proba(queries), Confidence().probabilities(found))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_left_out_are_rows_deleted_and_near_rows_settle_without_them(n_classes):
    X, labels = with_copies(*classes(60, n_classes))
    w = np.random.default_rng(1).uniform(0.3, 3.0, len(X))
    model = fixed(scale=10.0).fit(X, labels, w)
    dense = Dense(model, X, labels, w)
    targets = np.where(dense.t > 0, 1.0, -1.0)
    with Workers(1) as workers:
        local = model._ready(workers)
        leaving = LeavingRows(X, targets, w, dense.group)
        found = local.left_out(leaving, [0, 3, 9], workers)
    for k, latents in found.items():
        for column in range(latents.mean.shape[1]):
            expected = [dense.predict(x, k, column, left_out=i) for i, x in enumerate(X)]
            mean, variance, missed = np.transpose(expected)
            assert_allclose(latents.mean[:, column], mean, rtol=1e-8, atol=1e-8)
            assert_allclose(latents.variance[:, column], variance, rtol=1e-8)
            assert_allclose(latents.missed[:, column], missed, rtol=1e-9, atol=1e-9)


def test_settled_rows_are_near_the_mode():
    """With all rows near and enough steps the slopes are those of the prior, g = (s r)⁻¹f."""
    X, labels = classes(40)
    model = fixed(n_basis=5, n_neighbors=5, scale=5.0).fit(X, labels)
    with Workers(1) as workers, pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_fit, "_SETTLING_ROWS", 40)
        patch.setattr(class_fit, "_SETTLING_STEPS", 200)
        local = model._ready(workers).settle(workers)
    dense = Dense(model, X, labels, np.ones(40), settling=False)
    f = local.settled[:, 0]
    slopes = dense.residual(X, X) @ (labels - expit(f))
    assert_allclose(f - dense.fitted[:, 0], slopes, atol=1e-8)


@pytest.mark.parametrize("f", [60.0, 99.0, 1e3, 1e300])
def test_saturated_rows_pull_with_their_slope_and_have_no_curvature(f):
    """Against the equation of the log-odds without division by h, f = S(I + hS)⁻¹g."""
    targets, weights = np.array([[1.0], [-1.0], [0.0]]), np.array([2.0, 2.0, 2.0])
    at = np.full((3, 1), f)
    e, h = class_fit.working_residuals(at, np.minimum(at, 100.0), targets, weights)
    assert np.isfinite(e).all()
    assert np.all(h > 0)
    assert_allclose((h * e)[:, 0], [0.0, -2.0, -1.0], atol=1e-25)
    S = np.array([[3.0, 1.0, 0.5], [1.0, 2.0, 0.3], [0.5, 0.3, 1.0]])
    mean = S @ np.linalg.solve(S + np.diag(1 / h[:, 0]), e[:, 0])
    assert_allclose(mean, S @ [0.0, -2.0, -1.0], rtol=1e-9)


def test_a_wrong_label_among_sure_ones_does_not_turn_its_neighbours():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    labels = (X[:, 0] > 0).astype(int)
    inside = np.flatnonzero(X[:, 0] > 0.5)
    labels[inside[0]] = 0
    model = fixed(RBF(0.3), n_basis=30, n_neighbors=16, scale=1000.0).fit(X, labels)
    others = np.delete(X[inside], 0, axis=0)
    assert model.score(others, np.ones(len(others))) == 1.0


def test_features_in_float32_agree(monkeypatch):
    from pursuit.estimators.full_scale import near_rows

    X, labels = classes(300, 3)
    queries = np.random.default_rng(2).uniform(-3, 3, (40, 2))
    double = fixed().fit(X, labels).decision_function(queries)
    monkeypatch.setattr(near_rows, "_DOUBLE_NUMBERS", 0)
    single = fixed().fit(X, labels).decision_function(queries)
    assert np.any(single != double)
    assert_allclose(single, double, atol=1e-4)
    exact = fixed(dtype="float64").fit(X, labels).decision_function(queries)
    assert_array_equal(exact, double)


@pytest.fixture(scope="module")
def rough():
    """A checkerboard of many cells, a model of few functions, and new rows."""
    X, labels = checkerboard(4500)
    names = np.array(["black", "white"])[labels]
    return chosen(n_jobs=1).fit(X[:3000], names[:3000]), X, names


def test_near_rows_are_used_where_they_gain(rough):
    model, X, names = rough
    new, truth = X[3000:], names[3000:]
    assert model.n_neighbors_ in (16, 32, 64)
    loss = log_loss(truth, model.predict_proba(new))
    before = log_loss(truth, model.global_.predict_proba(new))
    assert loss < before - 0.2
    assert model.score(new, truth) > model.global_.score(new, truth) + 0.2
    found = model.calibration_
    assert found.n_rows == 600
    assert found.log_loss_before == pytest.approx(model.global_.calibration_.log_loss, abs=1e-4)
    assert found.log_loss < found.log_loss_before - 0.2
    # What rows left out promise is what new rows get.
    assert loss == pytest.approx(found.log_loss, abs=0.06)


def test_the_report_says_how_many_near_rows_and_why(rough, tmp_path):
    model, X, names = rough
    sentence = model.learning_report_.near_rows
    assert sentence.startswith(f"{model.n_neighbors_} of the sizes tried, by the log loss of 600")
    assert all(f" {k}: " in sentence or f"({k}: " in sentence for k in (0, 16, 32, 64))
    assert f"near rows: {sentence}" in str(model.learning_report_)
    assert str(model.calibration_) in str(model.learning_report_)
    assert model.learning_report_.seconds["near"] > 0
    model.report(tmp_path / "page.html", X[:200], names[:200])
    assert "FullScaleGPClassifier" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_several_classes_of_a_rough_pattern():
    X, labels = checkerboard(4500, cells=10, n_classes=3)
    model = chosen().fit(X[:3000], labels[:3000])
    new, truth = X[3000:], labels[3000:]
    assert model.n_neighbors_ > 0
    found = model.predict_proba(new)
    assert found.shape == (1500, 3)
    assert_allclose(found.sum(axis=1), 1.0)
    assert log_loss(truth, found) < log_loss(truth, model.global_.predict_proba(new)) - 0.2
    assert_array_equal(model.predict(new), found.argmax(axis=1))


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.verify) for seed in (1, 2))]
)
def test_labels_of_pure_noise_need_no_near_rows(seed):
    rng = np.random.default_rng(seed)
    X, labels = rng.uniform(size=(2500, 2)), rng.integers(0, 2, 2500)
    model = learned(n_basis=20).fit(X, labels)
    assert model.n_neighbors_ == 0
    assert model.learning_report_.near_rows.startswith("none of the sizes tried, by the log loss")
    assert_array_equal(model.predict_proba(X[:50]), model.global_.predict_proba(X[:50]))


def test_a_smooth_problem_needs_no_near_rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (2500, 2))
    labels = rng.random(2500) < expit(2 * X[:, 0] + np.sin(X[:, 1]))
    model = learned(n_basis=60).fit(X, labels)
    assert model.n_neighbors_ == 0
    assert model.calibration_ == model.global_.calibration_


def test_a_basis_that_spans_the_kernel_leaves_nothing():
    X, labels = classes(120)
    options = {"n_basis": 10, "calibration": "loo"}
    model = fixed(DotProduct(1.0), n_neighbors="auto", **options).fit(X, labels)
    assert model.n_neighbors_ == 0
    assert "the basis spans the kernel" in model.learning_report_.near_rows
    with pytest.warns(UserWarning, match="n_neighbors=5 is not used: the basis spans the kernel"):
        fixed(DotProduct(1.0), n_neighbors=5, **options).fit(X, labels)


def test_no_near_rows_are_the_sparse_classifier():
    X, labels = classes(150, 3)
    options = {"n_basis": 15, "optimizer": None, "random_state": 0, "calibration": "loo"}
    model = FullScaleGPClassifier(ROUGH, n_neighbors=0, **options).fit(X, labels)
    alone = SparseGPClassifier(ROUGH, certificate=None, **options).fit(X, labels)
    for method in ("predict", "predict_proba", "decision_function"):
        assert_array_equal(getattr(model, method)(X), getattr(alone, method)(X))
    assert model.learning_report_.near_rows == "none: n_neighbors=0 is the sparse model"


def test_too_few_rows_to_judge():
    X, labels = classes(40)
    model = fixed(n_neighbors="auto", n_basis=30, calibration="loo").fit(X, labels)
    assert model.n_neighbors_ == 0
    assert model.learning_report_.near_rows.startswith("none: fewer than 32 rows")
    given = fixed(n_neighbors=5, n_basis=30, calibration="loo").fit(X, labels)
    assert given.n_neighbors_ == 5
    assert given.calibration_ is None


def test_counts_are_weights():
    X, labels = classes(80, 3)
    copies = np.random.default_rng(0).integers(0, 4, 80)
    again = np.repeat(np.arange(80), copies)
    new = np.random.default_rng(1).normal(size=(15, 2))
    weighted = fixed().fit(X, labels, sample_weight=copies)
    repeated = fixed().fit(X[again], labels[again])
    assert_array_equal(weighted.global_.basis_, repeated.global_.basis_)
    assert_allclose(weighted.predict_proba(new), repeated.predict_proba(new), atol=1e-7)
    balanced = fixed(class_weight="balanced").fit(X, labels)
    factors = len(labels) / (3 * np.bincount(labels))
    by_hand = fixed().fit(X, labels, sample_weight=factors[labels])
    assert_allclose(balanced.class_weight_, factors)
    assert_allclose(balanced.predict_proba(new), by_hand.predict_proba(new), atol=1e-9)


def test_a_class_without_weight_is_absent():
    X, labels = classes(90, 3)
    model = fixed().fit(X, labels, sample_weight=(labels != 1).astype(float))
    assert model.classes_.tolist() == [0, 2]
    present = labels != 1
    without = fixed().fit(X[present], labels[present])
    assert_array_equal(model.predict_proba(X), without.predict_proba(X))


def test_threads_and_seeds():
    X, labels = checkerboard(2400, cells=8, n_classes=3)
    one, two = (chosen(n_basis=20, refine=3, n_jobs=n_jobs).fit(X, labels) for n_jobs in (1, 2))
    assert one.n_neighbors_ > 0
    assert two.calibration_ == one.calibration_
    assert_array_equal(one.predict_proba(X[:300]), two.predict_proba(X[:300]))


def test_saved_and_pickled(rough, tmp_path):
    model, X, _ = rough
    expected = model.predict_proba(X[:50])
    copied = pickle.loads(pickle.dumps(model))
    assert "_local" not in vars(copied)
    assert_array_equal(copied.predict_proba(X[:50]), expected)
    model.save(tmp_path / "model")
    loaded = pursuit.load(tmp_path / "model")
    assert_array_equal(loaded.predict_proba(X[:50]), expected)
    assert_array_equal(loaded.decision_function(X[:50]), model.decision_function(X[:50]))
    assert loaded.predict(X[:5]).tolist() == model.predict(X[:5]).tolist()
    assert str(loaded.learning_report_) == str(model.learning_report_)
    assert loaded.calibration_ == model.calibration_
    small = model.without_neighbors()
    small.save(tmp_path / "small")
    assert isinstance(small, SparseGPClassifier)
    assert (tmp_path / "small").stat().st_size < 0.5 * (tmp_path / "model").stat().st_size
    found = pursuit.load(tmp_path / "small").predict_proba(X[:50])
    assert_array_equal(found, model.global_.predict_proba(X[:50]))


def test_kinds_of_input_agree():
    X, labels = classes(120, 3)
    X = np.where(X > 0, X, 0.0)
    model = fixed(RBF(1.0)).fit(X, labels)
    expected = model.predict_proba(X)
    for same in (sparse.csr_array(X), X.tolist()):
        assert_allclose(fixed(RBF(1.0)).fit(same, labels).predict_proba(same), expected, atol=1e-8)
    assert_allclose(model.predict_proba(sparse.csr_array(X)), expected, atol=1e-12)


def test_data_frames_files_and_named_columns(tmp_path):
    frames = pytest.importorskip("pandas", reason="pandas is not installed")
    X, labels = classes(150)
    table = frames.DataFrame(X, columns=["east", "north"])
    model = fixed().fit(table, labels)
    assert model.feature_names_in_.tolist() == ["east", "north"]
    named = fixed().fit(table.assign(kind=labels, times=1.0), target="kind", weight="times")
    assert_array_equal(named.decision_function(table), model.decision_function(table))
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    from_file = fixed().fit(tmp_path / "X.npy", labels)
    rounded = fixed().fit(X.astype(np.float32), labels)
    found = from_file.decision_function(tmp_path / "X.npy")
    assert_allclose(found, rounded.decision_function(X.astype(np.float32)), atol=1e-6)


def test_strings_by_a_kernel_of_ones_own(tmp_path):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abc"), 5)) for _ in range(60)]
    labels = [word.count("a") > word.count("b") for word in words]

    def kernel(A, B):
        return np.array([[sum(a == b for a, b in zip(u, v, strict=True)) for v in B] for u in A])

    model = FullScaleGPClassifier(kernel, n_basis=4, n_neighbors=10, random_state=0)
    model.fit(words, labels)
    assert model.n_neighbors_ == 10
    assert model.score(words, labels) > 0.8
    expected = model.predict_proba(words[:9])
    model.save(tmp_path / "model")
    loaded = pursuit.load(tmp_path / "model", kernel=kernel)
    assert_array_equal(loaded.predict_proba(words[:9]), expected)


def test_dask_collections_are_predicted_lazily(rough):
    arrays = pytest.importorskip("dask.array", reason="dask is not installed")
    model, X, _ = rough
    lazy = model.predict_proba(arrays.from_array(X[:100], chunks=(40, 2)))
    assert type(lazy).__module__.startswith("dask")
    assert_array_equal(np.asarray(lazy), model.predict_proba(X[:100]))


def test_an_interrupt_while_functions_are_chosen_keeps_them():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    X, labels = classes(150)
    calls = []

    def kernel(A, B):
        calls.append(1)
        if len(calls) == 12:
            signal.raise_signal(signal.SIGINT)
        return RBF(0.5)(A, B)

    model = FullScaleGPClassifier(kernel, n_jobs=1, random_state=0)
    try:
        with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
            model.fit(X, labels)
    finally:
        signal.signal(signal.SIGINT, before)
    assert model.n_neighbors_ == 0
    assert np.all(np.isfinite(model.predict_proba(X[:5])))


def test_an_interrupt_while_near_rows_are_chosen_ends_with_them(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    X, labels = checkerboard(300, cells=5)
    choose = classifier.choose_near_classes

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        return choose(*arguments, **options)

    monkeypatch.setattr(classifier, "choose_near_classes", interrupted)
    model = fixed(Matern(0.2, nu=0.5), n_neighbors="auto", n_basis=10, calibration="loo")
    try:
        with pytest.warns(UserWarning, match="near rows beside"), pytest.raises(KeyboardInterrupt):
            model.fit(X, labels)
    finally:
        signal.signal(signal.SIGINT, before)
    assert model.n_neighbors_ > 0
    assert np.all(np.isfinite(model.predict_proba(X[:5])))


def test_a_checkpoint_gives_the_same_model_and_is_gone_on_from(tmp_path, monkeypatch):
    X, labels = checkerboard(2300, cells=8)
    plain = chosen().fit(X, labels)
    kept = chosen(checkpoint=tmp_path / "run").fit(X, labels)
    assert (tmp_path / "run" / "global").is_dir()
    assert plain.n_neighbors_ > 0
    expected = plain.predict_proba(X[:200])
    assert_array_equal(kept.predict_proba(X[:200]), expected)

    def never(*arguments, **options):
        raise AssertionError("this stage was finished before")

    monkeypatch.setattr(classifier, "choose_near_classes", never)
    again = chosen(checkpoint=tmp_path / "run").fit(X, labels)
    assert_array_equal(again.predict_proba(X[:200]), expected)
    with pytest.raises(ValueError, match="was begun with other data"):
        chosen(checkpoint=tmp_path / "run").fit(X, labels[::-1])


def test_with_no_time_left_one_number_is_tried():
    X, labels = checkerboard(2500)
    model = chosen(max_time=1e-9).fit(X, labels)
    sentence = model.learning_report_.near_rows
    assert "16: " in sentence
    assert "32: " not in sentence
    assert model.score(X, labels) > 0.5


def test_a_second_fit_forgets_the_first():
    X, labels = classes(100)
    model = fixed().fit(X, labels)
    first = model.predict_proba(X)
    model.fit(X[:, ::-1], labels)
    fresh = fixed().fit(X[:, ::-1], labels)
    assert_array_equal(model.predict_proba(X[:, ::-1]), fresh.predict_proba(X[:, ::-1]))
    assert np.any(first != model.predict_proba(X))
    assert "global_" not in vars(clone(model))


def test_calibration_gains_on_new_rows_and_knows_where_it_ends(rough):
    model, X, names = rough
    wide = clone(model).set_params(calibration=None, n_neighbors=model.n_neighbors_)
    wide.fit(X[:3000], names[:3000])
    assert wide.calibration_ is None
    loss = log_loss(names[3000:], wide.predict_proba(X[3000:]))
    assert log_loss(names[3000:], model.predict_proba(X[3000:])) < loss
    assert model.calibration_.seen < 1
    assert_allclose(model.predict_proba(np.full((1, 2), 1e6)), 0.5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "precomputed"}, "does not hold what near rows need"),
        ({"n_neighbors": "auto", "calibration": None}, "calibration=None reserves none"),
        ({"n_neighbors": 31}, "n_neighbors=31 is more than the 30 distinct rows"),
        ({"n_neighbors": -1}, "n_neighbors"),
        ({"n_neighbors": 2.5}, "n_neighbors"),
        ({"calibration": "auto"}, "calibration"),
        ({"memory": "disk"}, "memory"),
        ({"dtype": "float16"}, "dtype"),
        ({"scale": 0.0}, "scale must be a positive number"),
        ({"class_weight": {0: 2.0, 5: 1.0}}, r"class_weight names \[5\]"),
    ],
)
def test_arguments_that_cannot_be(options, message):
    X, labels = classes(30)
    X = np.eye(30) if options.get("kernel") == "precomputed" else X
    with pytest.raises(ValueError, match=message):
        fixed(**options).fit(X, labels)


def test_labels_that_cannot_be():
    X, labels = classes(30)
    with pytest.raises(ValueError, match="one class only, 'a': at least two classes are needed"):
        fixed().fit(X, np.full(30, "a"))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        fixed().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="pass the labels as fit"):
        fixed().fit(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fixed().fit(X, labels[:-1])
    model = fixed().fit(X, labels)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :1])
