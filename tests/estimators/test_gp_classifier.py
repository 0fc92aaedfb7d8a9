"""SparseGPClassifier: Laplace's approximation against dense twins, and what people do with it."""

import pickle
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import null_space
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import pursuit
from pursuit import Evidence, Search, SparseGPClassifier
from pursuit.estimators.gp import classifier
from pursuit.estimators.gp.laplace import fit_laplace, learn_scale
from pursuit.linalg import Workers
from pursuit.tuning import HeldOut

ROUGH = ConstantKernel(4.0) * Matern(0.8, nu=0.5)
"""Of full rank on the rows below, and far from it on none."""


def moons(m, seed=0):
    return make_moons(m, noise=0.3, random_state=seed)


def three_classes(m, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    return X, (X[:, 0] + 0.5 * rng.normal(size=m) > 0) + (X[:, 1] > 0.5).astype(int)


def fixed(kernel=ROUGH, **options):
    return SparseGPClassifier(kernel, optimizer=None, **options)


def dense_laplace(K, y, w):
    """Mode f, gradient a = K⁻¹f, curvatures D and log evidence for y = ±1, by damped Newton."""
    f = np.zeros(len(K))
    inverse = np.linalg.inv(K)

    def objective(f):
        return w @ np.logaddexp(0.0, -y * f) + 0.5 * f @ inverse @ f

    for _ in range(40):
        p = expit(f)
        D, slope = w * p * (1 - p), w * (p - (y > 0)) + inverse @ f
        step, length = np.linalg.solve(inverse + np.diag(D), slope), 1.0
        while objective(f - length * step) > objective(f) + 1e-12 and length > 1e-6:
            length /= 2
        f = f - length * step
    p = expit(f)
    D = w * p * (1 - p)
    sign, log_determinant = np.linalg.slogdet(np.eye(len(K)) + K * D)
    assert sign > 0
    return f, w * ((y > 0) - p), D, -objective(f) - 0.5 * log_determinant


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_latent_functions_are_those_of_a_dense_solution(scale):
    X, labels = moons(60)
    new = np.random.default_rng(1).normal(size=(20, 2))
    w = np.random.default_rng(2).uniform(0.2, 3.0, 60)
    y = 2.0 * labels - 1
    model = fixed(scale=scale, n_basis=60).fit(X, labels, sample_weight=w)
    K, K_new = scale * ROUGH(X), scale * ROUGH(new, X)
    _, a, D, evidence = dense_laplace(K, y, w)
    assert model.n_basis_ == 60
    assert model.scale_ == scale
    assert_allclose(model.decision_function(new), K_new @ a, rtol=1e-6)
    assert_allclose(model.log_marginal_likelihood_value_, evidence, rtol=1e-6)
    explained = np.linalg.solve(K + np.diag(1 / D), K_new.T)
    variance = scale * ROUGH.diag(new) - np.einsum("ij,ji->i", K_new, explained)
    z = np.linspace(-9, 9, 2001)[:, None]
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    averaged = np.trapezoid(expit(K_new @ a + np.sqrt(variance) * z) * density, z, axis=0)
    assert_allclose(model.predict_proba(new)[:, 1], averaged, atol=5e-4)


@pytest.mark.parametrize("kernel", [ROUGH, ConstantKernel(2.0) * Matern(1.0, nu=1.5)])
def test_two_classes_are_those_of_scikit_learn(kernel):
    X, labels = moons(100)
    new = np.random.default_rng(1).normal(size=(40, 2))
    theirs = GaussianProcessClassifier(kernel, optimizer=None, max_iter_predict=1000)
    theirs.fit(X, labels)
    ours = fixed(kernel, n_basis=100).fit(X, labels)
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-6)
    assert_allclose(
        ours.log_marginal_likelihood_value_, theirs.log_marginal_likelihood_value_, rtol=1e-6
    )
    assert_array_equal(ours.predict(new), theirs.predict(new))


def test_several_classes_are_those_of_scikit_learn():
    X, labels = three_classes(90)
    new = np.random.default_rng(1).normal(size=(40, 2))
    theirs = GaussianProcessClassifier(ROUGH, optimizer=None, max_iter_predict=1000)
    theirs.fit(X, labels)
    ours = fixed(n_basis=90).fit(X, labels)
    assert ours.dual_coef_.shape == (90, 3)
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-6)
    assert_allclose(
        ours.log_marginal_likelihood_value_, theirs.log_marginal_likelihood_value_, rtol=1e-6
    )


def test_a_class_has_the_latent_function_of_a_model_of_its_own():
    X, labels = three_classes(80)
    together = fixed(n_basis=80).fit(X, labels)
    for column in range(3):
        alone = fixed(n_basis=80).fit(X, labels == column)
        assert_allclose(
            together.decision_function(X)[:, column], alone.decision_function(X), atol=1e-5
        )


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 6),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    twins=st.booleans(),
    in_basis=st.booleans(),
)
def test_leaving_a_group_out_of_the_working_regression(seed, n, scale, twins, in_basis):
    """The formula is exact for the weighted regression that Newton's last step solves."""
    rng = np.random.default_rng(seed)
    m = 12
    V = rng.normal(size=(m, n)) / np.sqrt(n)
    group = np.arange(m)
    if twins:
        V[1], V[5], group[1], group[5] = V[0], V[4], 0, 4
    Y = np.where(rng.random((m, 2)) < 0.5, 1.0, -1.0)
    w = rng.uniform(0.3, 2.0, m)
    with Workers(1) as workers:
        fit = fit_laplace(lambda rows: V[rows], n, Y, w, scale, workers)
    numbered = np.unique(group, return_inverse=True)[1]
    # The functions without that of a row are those orthogonal to a direction of its own.
    own = rng.normal(size=(n, m)) * (np.arange(m) % 2) * in_basis
    own = own[:, group]
    prior = 2.0 + (V**2).sum(axis=1).max()
    rows = HeldOut(V.T, Y, w, np.full(m, prior), numbered, own)
    found = fit.left_out(rows)
    for column in range(2):
        f = V @ fit.mode[:, column]
        p = expit(f)
        D = w * p * (1 - p)
        pull = w * (0.5 * (Y[:, column] + 1) - p)
        working = f + pull / D
        # Where Newton's method has stopped another step would still move the mode a little.
        H = V.T @ (D[:, None] * V) + np.eye(n) / scale
        step = np.linalg.solve(H, V.T @ pull - fit.mode[:, column] / scale)
        still = 1e-6 + 10.0 * np.abs(V @ step).max()
        for i in range(m):
            rest = group != group[i]
            others = null_space(own[:, [i]].T)
            A = V @ others
            H = A[rest].T @ (D[rest, None] * A[rest]) + np.eye(others.shape[1]) / scale
            b = np.linalg.solve(H, A[rest].T @ (D[rest] * working[rest]))
            assert_allclose(found.mean[i, column], A[i] @ b, rtol=1e-5, atol=still)
            variance = A[i] @ np.linalg.solve(H, A[i])
            assert_allclose(found.variance[i, column], variance, rtol=1e-6, atol=1e-12)
            missed = scale * (prior - A[i] @ A[i])
            assert_allclose(found.missed[i], missed, rtol=1e-9)


@pytest.mark.parametrize("start", [1.4, 1000.0])
def test_the_scale_has_more_evidence_than_any_other(start):
    X, labels = three_classes(80)
    K = Matern(0.7, nu=1.5)(X)
    V = np.linalg.cholesky(K + 1e-10 * np.eye(80))
    Y = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    w = np.ones(80)
    with Workers(1) as workers:
        found = learn_scale(lambda rows: V[rows], 80, Y, w, start, workers)
    evidence = [
        sum(dense_laplace(scale * V @ V.T, y, w)[3] for y in Y.T)
        for scale in np.geomspace(1e-2, 1e4, 13)
    ]
    # A step that gains less than 1e-3 for each of the 240 values is not taken.
    assert found.log_evidence.sum() > max(evidence) - 0.24
    assert min(evidence) < max(evidence) - 10


def test_counts_are_weights():
    X, labels = three_classes(40)
    copies = np.random.default_rng(0).integers(0, 4, 40)
    again = np.repeat(np.arange(40), copies)
    new = np.random.default_rng(1).normal(size=(15, 2))
    for model in (fixed(), SparseGPClassifier(random_state=0)):
        weighted = clone(model).fit(X, labels, sample_weight=copies)
        repeated = clone(model).fit(X[again], labels[again])
        assert_allclose(weighted.scale_, repeated.scale_, rtol=1e-4)
        assert_allclose(weighted.predict_proba(new), repeated.predict_proba(new), atol=1e-3)


def test_a_class_without_weight_is_absent():
    X, labels = three_classes(60)
    model = fixed().fit(X, labels, sample_weight=(labels != 1).astype(float))
    assert model.classes_.tolist() == [0, 2]
    assert labels[model.basis_indices_].tolist().count(1) == 0


@pytest.fixture(scope="module")
def large():
    """3 000 rows of a known probability, a model of them, and new rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(6000, 3))
    probability = expit(4 * np.sin(2 * X[:, 0]) + 2 * X[:, 1])
    labels = np.where(rng.random(6000) < probability, "yes", "no")
    model = SparseGPClassifier(n_basis=40, refine=30, random_state=0, n_jobs=1)
    model.fit(X[:3000], labels[:3000])
    return model, X, labels, probability


def test_probabilities_are_close_to_the_true_ones(large):
    model, X, labels, probability = large
    found = model.predict_proba(X[3000:])
    truth = np.column_stack([1 - probability, probability])[3000:]
    assert model.classes_.tolist() == ["no", "yes"]
    best = log_loss(labels[3000:], truth)
    assert log_loss(labels[3000:], found) < best + 0.01
    assert np.abs(found - truth).mean() < 0.03
    for low in np.arange(0, 1, 0.2):
        here = (found[:, 1] >= low) & (found[:, 1] < low + 0.2)
        gap = abs(found[here, 1].mean() - (labels[3000:][here] == "yes").mean())
        chance = np.sqrt(truth[here].prod(axis=1).sum()) / here.sum()
        assert gap < 0.03 + 2 * chance, "more than the error above and that of drawing the labels"


def test_what_a_fit_reports(large):
    model = large[0]
    assert model.n_basis_ == len(model.path_) == len(model.basis_) == 40
    assert model.calibration_.n_rows == 600
    assert model.calibration_.log_loss <= model.calibration_.log_loss_before
    assert "by 30 steps" in model.learning_report_.moved or "undone" in model.learning_report_.moved
    assert str(model.calibration_) in str(model.learning_report_)
    relevance = model.feature_relevance_
    assert relevance[0] > relevance[2]
    assert relevance[1] > relevance[2]
    assert np.isfinite(model.log_marginal_likelihood_value_)


def test_far_from_all_rows_nothing_is_known(large):
    far = large[0].predict_proba(np.full((1, 3), 1e6))
    assert_allclose(far, 0.5, atol=1e-6)


def test_threads_and_seeds():
    X, labels = three_classes(2200)
    kernel = ConstantKernel(1.0, "fixed") * RBF(1.0)
    options = {"n_basis": 30, "search": Search(pool_size=100), "refine": 3, "random_state": 0}
    options["optimizer"] = Evidence(rows=600)  # still several chunks for the threads to share
    one, two = (
        SparseGPClassifier(kernel, n_jobs=n_jobs, **options).fit(X, labels) for n_jobs in (1, 2)
    )
    assert_array_equal(one.basis_, two.basis_)
    assert_array_equal(one.predict_proba(X[:50]), two.predict_proba(X[:50]))


def test_saved_and_pickled(large, tmp_path):
    model, X, _, _ = large
    expected = model.predict_proba(X[:50])
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X[:50]), expected)
    model.save(tmp_path / "model")
    loaded = pursuit.load(tmp_path / "model")
    assert_array_equal(loaded.predict_proba(X[:50]), expected)
    assert loaded.predict(X[:5]).tolist() == model.predict(X[:5]).tolist()
    assert str(loaded.learning_report_) == str(model.learning_report_)


def test_digits_are_read_as_well_as_by_a_support_vector_machine():
    X, labels = load_digits(return_X_y=True)
    train, new = np.arange(len(X)) % 3 > 0, np.arange(len(X)) % 3 == 0
    model = SparseGPClassifier(n_basis=120, random_state=0).fit(X[train], labels[train])
    machine = SVC(C=10, gamma=0.001).fit(X[train], labels[train])
    assert model.score(X[new], labels[new]) > machine.score(X[new], labels[new]) - 0.01
    found = model.predict_proba(X[new])
    assert_allclose(found.sum(axis=1), 1.0)
    assert log_loss(labels[new], found) < 0.1
    # A length scale for each pixel has more evidence, and reads worse.
    assert np.size(model.kernel_.k2.length_scale) == 1


def test_kinds_of_input_agree():
    X, labels = three_classes(120)
    X = np.where(X > 0, X, 0.0)
    expected = fixed(n_basis=30, random_state=0).fit(X, labels).predict_proba(X)
    for same in (sparse.csr_array(X), X.tolist()):
        found = fixed(n_basis=30, random_state=0).fit(same, labels).predict_proba(same)
        assert_allclose(found, expected, atol=1e-8)
    thin = X.astype(np.float32)
    found = fixed(n_basis=30, random_state=0).fit(thin, labels).predict_proba(thin)
    assert_allclose(found, expected, atol=1e-3)


def test_data_frames_and_named_columns():
    frames = pytest.importorskip("pandas", reason="pandas is not installed")
    X, labels = moons(80)
    table = frames.DataFrame(X, columns=["east", "north"])
    model = fixed(n_basis=20, random_state=0).fit(
        table, frames.Series(labels).map({0: "a", 1: "b"})
    )
    assert model.feature_names_in_.tolist() == ["east", "north"]
    assert set(model.predict(table)) == {"a", "b"}
    named = fixed(n_basis=20, random_state=0).fit(table.assign(kind=labels), target="kind")
    assert_allclose(named.decision_function(table), model.decision_function(table))


def test_strings_by_a_kernel_of_ones_own():
    words = ["aa", "aab", "aaa", "ba", "bb", "bbb", "bbab", "abb"]
    labels = [word.count("a") > word.count("b") for word in words]

    def kernel(A, B):
        count = np.array([[word.count(letter) for letter in "ab"] for word in A])
        other = np.array([[word.count(letter) for letter in "ab"] for word in B])
        return count @ other.T + 1.0

    model = SparseGPClassifier(kernel, n_basis=20, random_state=0).fit(words, labels)
    assert model.predict(["aaaa", "bbbb"]).tolist() == [True, False]
    assert model.predict_proba(["aaaa", "bbbb"])[0, 1] > 0.8
    assert model.n_basis_ <= 3
    assert model.path_.stop_reason == "rank"


def test_a_matrix_of_kernel_values():
    X, labels = three_classes(100)
    K = ROUGH(X)
    given = fixed("precomputed", n_basis=20, random_state=0).fit(K[:70][:, :70], labels[:70])
    direct = fixed(n_basis=20, random_state=0).fit(X[:70], labels[:70])
    assert given.basis_ is None
    assert_array_equal(given.basis_indices_, direct.basis_indices_)
    assert_allclose(
        given.decision_function(K[70:][:, :70]), direct.decision_function(X[70:]), atol=1e-8
    )
    assert_array_equal(given.predict(K[70:][:, :70]), direct.predict(X[70:]))
    assert not hasattr(given, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as error:
        _ = given.predict_proba
    assert "k(x, x)" in str(error.value.__cause__)


@pytest.mark.parametrize("search", ["pooled", "full", "fresh"])
def test_searches(search):
    X, labels = moons(200)
    model = fixed(n_basis=15, search=search, random_state=0).fit(X, labels)
    assert model.n_basis_ == 15
    assert_array_equal(model.basis_, X[model.basis_indices_])
    assert model.score(X, labels) > 0.85


def test_points_of_ones_own():
    X, labels = moons(200)
    points = np.random.default_rng(0).normal(size=(30, 2))
    model = fixed(n_basis=10, search=Search(candidates=points)).fit(X, labels)
    assert set(map(tuple, model.basis_)) <= set(map(tuple, points))
    assert model.basis_indices_.tolist() == [-1] * 10


def test_a_kernel_that_says_nothing():
    model = fixed("linear").fit(np.zeros((10, 2)), np.arange(10) % 2)
    assert model.n_basis_ == 0
    assert_allclose(model.predict_proba(np.ones((3, 2))), 0.5)
    assert model.predict(np.ones((3, 2))).tolist() == [0, 0, 0]
    assert_allclose(model.log_marginal_likelihood_value_, -10 * np.log(2))


def test_named_kernels_are_kept_and_scaled():
    X, labels = moons(150)
    model = SparseGPClassifier("rbf", gamma=1.0, random_state=0).fit(X, labels)
    assert model.kernel_ == "rbf"
    assert model.scale_ > 2.0
    assert model.calibration_ is not None
    kept = SparseGPClassifier("rbf", gamma=1.0, scale=3.0, random_state=0).fit(X, labels)
    assert kept.scale_ == 3.0


def test_in_a_pipeline_and_a_search():
    X, labels = moons(150)
    pipeline = make_pipeline(StandardScaler(), fixed("rbf", n_basis=20, random_state=0))
    grid = {"sparsegpclassifier__gamma": [0.01, 1.0], "sparsegpclassifier__scale": [1.0, 10.0]}
    found = GridSearchCV(pipeline, grid, scoring="neg_log_loss", cv=3).fit(X, labels)
    assert found.best_params_["sparsegpclassifier__gamma"] == 1.0


def test_an_interrupt_keeps_what_was_chosen():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    X, labels = moons(150)
    calls = []

    def kernel(A, B):
        calls.append(1)
        if len(calls) == 12:
            signal.raise_signal(signal.SIGINT)
        return RBF(0.5)(A, B)

    model = SparseGPClassifier(kernel, n_jobs=1, random_state=0)
    try:
        with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
            model.fit(X, labels)
    finally:
        signal.signal(signal.SIGINT, before)
    assert np.all(np.isfinite(model.predict_proba(X[:5])))


def penalised(K, y, w, f):
    """Σw log(1 + exp(-yf)) + ½f'K⁻¹f."""
    return w @ np.logaddexp(0.0, -y * f) + 0.5 * f @ np.linalg.solve(K, f)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    scale=st.sampled_from([0.1, 3.0, 100.0]),
    several=st.booleans(),
    weighted=st.booleans(),
)
@settings(max_examples=15)
def test_the_certificate_is_never_below_the_truth(seed, n, scale, several, weighted):
    rng = np.random.default_rng(seed)
    X, labels = three_classes(30, seed) if several else moons(30, seed)
    w = rng.uniform(0.1, 5.0, 30) if weighted else np.ones(30)
    model = fixed(scale=scale, n_basis=n, random_state=0).fit(X, labels, sample_weight=w)
    K, found = scale * ROUGH(X), model.certificate_
    latents = model.decision_function(X).reshape(30, -1)
    for column, f in enumerate(latents.T):
        name = model.classes_[column if len(model.classes_) > 2 else 1]
        y = np.where(labels == name, 1.0, -1.0)
        least = penalised(K, y, w, dense_laplace(K, y, w)[0])
        upper, lower = (found.per_output[name][column] for name in ("upper", "lower"))
        assert upper == pytest.approx(penalised(K, y, w, f), rel=1e-8)
        assert lower <= least * (1 + 1e-9)
        # The slopes of the loss are a dual point, ½‖f - Ka‖² in the norm of the process below P(f);
        # the best multiple of them is no worse.
        a = w * y * expit(-y * f)
        missed = f @ np.linalg.solve(K, f) - 2 * a @ f + a @ K @ a
        assert upper - lower <= 0.5 * missed + 1e-9 * upper
    if n == 30:
        assert found.gap <= 1e-8 * found.upper
    again = model.certify(X, labels, sample_weight=w)
    assert again.lower == found.lower
    half = model.truncated((model.n_basis_ + 1) // 2).certify(X, labels, sample_weight=w)
    assert half.lower <= found.upper * (1 + 1e-9)
    assert half.upper >= found.upper * (1 - 1e-9)


def test_certificates_of_other_rows():
    X, labels = three_classes(60)
    model = fixed(n_basis=10, random_state=0).fit(X[:40], labels[:40])
    assert model.path_.gap[-1] == model.certificate_.relative_gap
    other = model.certify(X[20:], labels[20:])
    w = np.arange(60) >= 20
    assert model.certify(X, labels, sample_weight=w).lower == pytest.approx(other.lower, rel=1e-10)
    K = ROUGH(X)
    given_matrix = fixed("precomputed", n_basis=10, random_state=0).fit(K[:40, :40], labels[:40])
    assert given_matrix.certificate_.gap == pytest.approx(model.certificate_.gap, rel=1e-6)
    with pytest.raises(ValueError, match="square training matrix"):
        given_matrix.certify(K[:20, :40], labels[:20])
    with pytest.raises(ValueError, match=r"y holds \[7\], which the model was not fitted with"):
        model.certify(X, np.where(labels == 2, 7, labels))


def test_when_a_fit_certifies(monkeypatch):
    X, labels = moons(50)
    monkeypatch.setattr(classifier, "_AUTO_CERTIFICATE_ROWS", 49)
    for certificate, there in ((None, False), ("auto", False), ("exact", True)):
        model = fixed(n_basis=5, certificate=certificate).fit(X, labels)
        assert (model.certificate_ is not None) == there
        assert np.isfinite(model.path_.gap[-1]) == there
        assert np.isnan(model.path_.gap[:-1]).all()


def test_class_weights_are_weights_of_rows():
    X, labels = three_classes(120)
    few = np.flatnonzero((labels == 1) | (np.arange(120) % 4 > 0))
    X, names = X[few], np.array(["a", "b", "c"])[labels[few]]
    counts = np.array([np.sum(names == name) for name in "abc"])
    balanced = len(names) / (3 * counts)
    given_weights = {"a": balanced[0], "b": balanced[1], "c": balanced[2]}
    by_row = np.array([given_weights[name] for name in names])
    options = {"n_basis": 20, "random_state": 0}
    expected = fixed(**options).fit(X, names, sample_weight=by_row)
    for class_weight in ("balanced", given_weights):
        model = fixed(class_weight=class_weight, **options).fit(X, names)
        assert_allclose(model.class_weight_, balanced)
        assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-8)
        assert model.certify(X, names).upper == pytest.approx(model.certificate_.upper, rel=1e-10)
    heavy = fixed(class_weight={"a": 30.0}, **options).fit(X, names)
    assert_allclose(heavy.class_weight_, [30.0, 1.0, 1.0])
    plain = fixed(**options).fit(X, names)
    assert heavy.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.1
    twice = fixed(class_weight={"a": 3.0}, **options).fit(X, names, sample_weight=2 * by_row)
    once = fixed(**options).fit(X, names, sample_weight=np.where(names == "a", 6, 2) * by_row)
    assert_allclose(twice.decision_function(X), once.decision_function(X), atol=1e-8)


def test_a_cut_model_has_the_posterior_within_its_span():
    X, labels = three_classes(60)
    model = fixed(n_basis=12, random_state=0).fit(X, labels)
    same = model.truncated(12)
    assert_allclose(same.predict_proba(X), model.predict_proba(X), atol=1e-10)
    cut = model.truncated(5)
    assert cut.n_basis_ == len(cut.basis_) == len(cut.path_) == 5
    assert cut.certificate_ is None
    assert np.isnan(cut.log_marginal_likelihood_value_)
    K_SS, k_S = ROUGH(model.basis_), ROUGH(X, model.basis_)
    R = np.linalg.cholesky(K_SS)
    V = np.linalg.solve(R, k_S.T).T
    for column in range(3):
        b = R.T @ model.dual_coef_[:, column]
        p = expit(V @ b)
        covariance = np.linalg.inv(V.T @ ((p * (1 - p))[:, None] * V) + np.eye(12))
        # A Gaussian given that its last seven coordinates are 0.
        gain = covariance[:5, 5:] @ np.linalg.inv(covariance[5:, 5:])
        mean = b[:5] - gain @ b[5:]
        assert_allclose(cut.decision_function(X)[:, column], V[:, :5] @ mean, atol=1e-8)
        left = covariance[:5, :5] - gain @ covariance[5:, :5]
        L = cut._laplace.factors[column]
        assert_allclose(np.linalg.inv(L @ L.T), left, atol=1e-8)
    for n in (0, 13, 2.0):
        with pytest.raises(ValueError, match=f"n must be a whole number from 1 to 12, got {n}"):
            model.truncated(n)


def test_a_cut_model_is_near_a_fit_of_its_size(large):
    model, X, labels, _ = large
    cut = model.truncated(20)
    points = {"search": Search(candidates=model.basis_[:20]), "n_basis": 20}
    again = fixed(model.kernel_, scale=model.scale_, refine=False, **points)
    again.fit(X[:3000], labels[:3000])
    assert log_loss(labels[3000:], cut.predict_proba(X[3000:])) < 0.02 + log_loss(
        labels[3000:], again.predict_proba(X[3000:])
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": 0.0}, "scale must be a positive number, got 0.0"),
        ({"scale": -1}, "scale must be a positive number"),
        ({"n_basis": 0}, "n_basis"),
        ({"search": Search("fresh", candidates="kmeans")}, "candidates has no effect on a fresh"),
        ({"kernel": "precomputed", "search": Search(candidates="kmeans")}, "knows only its rows"),
        ({"calibration": "sigmoid"}, "calibration"),
        ({"certificate": "diagonal"}, "certificate"),
        ({"class_weight": {0: 2.0, 5: 1.0}}, r"class_weight names \[5\], but the classes in y are"),
        ({"class_weight": {0: 0.0}}, "class_weight must be positive and finite"),
        ({"kernel": "no such kernel"}, "no such kernel"),
    ],
)
def test_arguments_that_cannot_be(options, message):
    X, labels = moons(30)
    X = np.eye(30) if options.get("kernel") == "precomputed" else X
    with pytest.raises(ValueError, match=message):
        SparseGPClassifier(**options).fit(X, labels)


def test_labels_that_cannot_be():
    X, labels = moons(30)
    with pytest.raises(ValueError, match="one class only, 'a': at least two classes are needed"):
        fixed().fit(X, np.full(30, "a"))
    with pytest.raises(ValueError, match="one class only, 0"):
        fixed().fit(X, labels, sample_weight=labels == 0)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        fixed().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="pass the labels as fit"):
        fixed().fit(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fixed().fit(X, labels[:-1])
    with pytest.raises(ValueError, match="NaN"):
        fixed().fit(X, np.where(labels == 0, np.nan, 1.0))


def test_points_cannot_move_along_a_kernel_without_gradient():
    X, labels = moons(2100)
    with pytest.raises(ValueError, match="use refine=False"):
        fixed("rbf", gamma=1.0, refine=10, n_basis=5).fit(X, labels)


def test_a_matrix_that_is_no_kernel():
    X, labels = moons(30)
    K = RBF(1.0)(X)
    K[3, 3] = -1.0
    with pytest.raises(ValueError, match="not positive semi-definite"):
        fixed("precomputed").fit(K, labels)


def test_time_is_that_of_the_whole_fit():
    X, labels = three_classes(2500)
    model = SparseGPClassifier(n_basis=20, max_time=1e-9, random_state=0).fit(X, labels)
    families = [stage.family for stage in model.learning_report_.stages]
    assert families[0] == "rbf"
    assert not {"matern52", "matern32", "matern12"} & set(families)
    assert all(stage.n_rows == 500 for stage in model.learning_report_.stages)
    assert model.learning_report_.moved == "not moved"
    assert model.certificate_ is None
    assert any("certify(X, y)" in warning for warning in model.learning_report_.warnings)
    assert model.score(X, labels) > 0.5


def test_predictions_are_the_most_probable_classes():
    """Also where classes are close, and one is less certain than another."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(900, 2))
    y = np.digitize(X[:, 0] + 0.8 * rng.normal(size=900), [-0.6, 0.1, 0.9])
    model = SparseGPClassifier(n_basis=40, random_state=0).fit(X, y)
    new = rng.uniform(-4, 4, size=(4000, 2))
    np.testing.assert_array_equal(model.predict(new), model.predict_proba(new).argmax(axis=1))


def test_a_checkpoint_gives_the_same_model_and_is_gone_on_from(tmp_path, monkeypatch):
    from pursuit.estimators.gp import classifier, stages

    rng = np.random.default_rng(4)
    X = rng.normal(size=(2300, 2))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=2300), [-0.5, 0.5])
    options = {"n_basis": 20, "refine": 5, "certificate": None, "random_state": 0}
    options["optimizer"] = Evidence(rows=600)
    plain = SparseGPClassifier(**options).fit(X, y)
    kept = SparseGPClassifier(checkpoint=tmp_path / "run", **options).fit(X, y)
    np.testing.assert_array_equal(kept.dual_coef_, plain.dual_coef_)

    def never(*arguments, **options):
        raise AssertionError("this stage was finished before")

    monkeypatch.setattr(stages, "learn", never)
    for stage in ("scale_by_evidence", "solve_in_latents"):
        monkeypatch.setattr(classifier, stage, never)
    again = SparseGPClassifier(checkpoint=tmp_path / "run", **options).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), plain.predict_proba(X))
    with pytest.raises(ValueError, match="was begun with other data"):
        SparseGPClassifier(checkpoint=tmp_path / "run", **options).fit(X, y[::-1])
