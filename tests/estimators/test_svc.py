"""LowRankSVC against LIBSVM and general minimisers, and its certificate against the truth."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pursuit import LowRankSVC, Search
from pursuit.estimators.span.features import Span, SpanFeatures
from pursuit.estimators.svm.problem import MachineProblem
from pursuit.greedy import CostMeter, Pool, Problem
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import ArrayRows, Sample

ALL = {"search": "full", "n_basis": 10_000}


def rough(m=150, seed=0, flips=0.1):
    """Two classes with a curved boundary and some labels wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0, 1, -1)
    y[rng.random(m) < flips] *= -1
    return X, y


def libsvm(K, y, costs):
    """The hinge machine of a kernel matrix: its dual objective, and f + b."""
    peer = SVC(C=1.0, kernel="precomputed", tol=1e-9).fit(K, y, sample_weight=costs)
    a = np.zeros(len(y))
    a[peer.support_] = peer.dual_coef_[0]
    return np.abs(a).sum() - 0.5 * a @ K @ a, peer.decision_function(K)


def squared_hinge_minimum(K, y, costs):
    """Of ½‖f‖² + Σcξ² over all functions, by active sets; certain, because D(a) is as large."""
    m, inside = len(y), np.ones(len(y), bool)
    for _ in range(200):
        A = np.flatnonzero(inside)
        H = np.ones((len(A) + 1, len(A) + 1))
        H[:-1, :-1] = K[np.ix_(A, A)] + np.diag(0.5 / costs[A])
        H[-1, -1] = 0.0
        *a_inside, b = np.linalg.solve(H, np.append(y[A], 0.0))
        a = np.zeros(m)
        a[A] = a_inside
        f = K @ a + b
        if np.array_equal(y * f < 1, inside):
            break
        inside = y * f < 1
    value = 0.5 * a @ K @ a + costs @ np.maximum(1 - y * f, 0) ** 2
    dual = y @ a - 0.5 * a @ K @ a - 0.25 * a @ (a / costs)
    assert np.all(y * a >= -1e-9)
    assert value - dual <= 1e-8 * value
    return dual


def exact_minimum(K, y, costs, loss):
    """Of ½‖f‖² + Σcξ or Σcξ² over all functions."""
    return libsvm(K, y, costs)[0] if loss == "hinge" else squared_hinge_minimum(K, y, costs)


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_with_all_rows_it_is_libsvm(C):
    X, y = rough()
    model = LowRankSVC(C=C, gamma=0.5, loss="hinge", **ALL).fit(X, y)
    K = rbf_kernel(X, gamma=0.5)
    best, values = libsvm(K, y, np.full(150, C))
    assert model.certificate_.lower == pytest.approx(best, rel=1e-6)
    assert model.certificate_.upper == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), values, atol=1e-4)
    assert model.certify(X, y).lower == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("C", [1e-8, 1e-4, 1e-2])
def test_of_many_best_intercepts_it_is_the_middle_one(C):
    """All rows are at their bounds: f is the difference of two means, and b free between kinks."""
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    model = LowRankSVC(C=C, gamma=0.5, loss="hinge", **ALL).fit(X, y)
    signs = np.where(y == 2, 1.0, -1.0)
    f = C * rbf_kernel(X, gamma=0.5) @ signs
    assert np.all(signs * f < 1)
    middle = 0.5 * ((1 - f[signs > 0]).min() + (-1 - f[signs < 0]).max())
    np.testing.assert_allclose(model.decision_function(X), f + middle, atol=1e-5 * np.ptp(f))
    assert model.score(X, y) == SVC(C=C, gamma=0.5, tol=1e-12).fit(X, y).score(X, y) > 0.9


def test_pairs_with_all_rows_are_libsvm():
    X, y = load_iris(return_X_y=True)
    options = {"C": 2.0, "gamma": 0.3, "decision_function_shape": "ovo"}
    model = LowRankSVC(loss="hinge", multi_class="ovo", **options, **ALL).fit(X, y)
    peer = SVC(tol=1e-9, **options).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-4)
    model.decision_function_shape = peer.decision_function_shape = "ovr"
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-4)
    assert np.array_equal(model.predict(X), peer.predict(X))
    # Parameters set after a fit wait for the next one.
    model.set_params(multi_class="ovr", gamma=7.0)
    assert np.array_equal(model.predict(X), peer.predict(X))


@pytest.mark.parametrize("C", [0.3, 10.0])
def test_with_all_rows_the_squared_hinge_has_its_minimum(C):
    X, y = rough(80)
    model = LowRankSVC(C=C, gamma=0.5, **ALL).fit(X, y)
    values, U = np.linalg.eigh(rbf_kernel(X, gamma=0.5))
    V = U * np.sqrt(np.maximum(values, 0))

    def objective(p):
        slack = y * np.maximum(1 - y * (V @ p[:-1] + p[-1]), 0)
        slope = np.append(p[:-1] - 2 * C * V.T @ slack, -2 * C * slack.sum())
        return 0.5 * p[:-1] @ p[:-1] + C * slack @ slack, slope

    other = minimize(objective, np.zeros(81), jac=True, options={"gtol": 1e-9, "maxiter": 5000})
    assert model.path_.value[-1] == pytest.approx(other.fun, rel=1e-7)
    np.testing.assert_allclose(
        model.decision_function(X), V @ other.x[:-1] + other.x[-1], atol=1e-4
    )
    assert model.certificate_.gap <= 1e-7 * other.fun


@pytest.mark.parametrize("C", [1e4, 1e7, 1e10])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_however_large_C_is_the_margin_is_found(C, loss):
    X, y = rough(120, flips=0.05)
    K = rbf_kernel(X, gamma=2.0)
    hard = SVC(C=1e12, kernel="precomputed", tol=1e-9).fit(K, y)
    a = np.zeros(120)
    a[hard.support_] = hard.dual_coef_[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LowRankSVC(C=C, gamma=2.0, loss=loss, **ALL).fit(X, y)
    least = 0.5 * a @ K @ a
    # C times what rounding may hide in a slack is part of what is certified.
    proof = model.certificate_
    assert proof.rounding <= 1e-9 * C * least
    assert proof.gap <= 1e-5 * least + proof.rounding
    # The classes are separable: all a machine with soft margins saves is Σa²/4C.
    softness = 0.0 if loss == "hinge" else 0.25 * a @ a / C
    margin = 1e-5 * least + 1.01 * softness + proof.rounding
    assert proof.upper == pytest.approx(least, abs=margin)
    assert proof.lower == pytest.approx(least, abs=margin)
    assert np.array_equal(model.predict(X), y)
    assert set(np.flatnonzero(np.abs(a) > 1e-3)) <= set(model.support_)


def test_a_class_of_huge_weight_is_told_from_the_other_all_the_same():
    X, y = rough(120)
    model = LowRankSVC(gamma=0.5, loss="hinge", class_weight={1: 1e6}, **ALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    assert np.all(model.decision_function(X[y > 0]) >= 1 - 1e-6)
    # No a of a row exceeds what the other class can hold, 1 a row.
    truth = exact_minimum(rbf_kernel(X, gamma=0.5), y, np.where(y > 0, 120.0, 1.0), "hinge")
    assert model.certificate_.lower == pytest.approx(truth, rel=1e-5)


@given(
    st.integers(0, 10**6),
    st.sampled_from([0.05, 1.0, 50.0]),
    st.integers(1, 25),
    st.sampled_from(["hinge", "squared_hinge"]),
    st.booleans(),
)
def test_the_certificate_is_never_below_the_truth(seed, C, n, loss, weighted):
    X, y = rough(70, seed)
    w = np.random.default_rng(seed).uniform(0.2, 3.0, 70) if weighted else np.ones(70)
    model = LowRankSVC(C=C, gamma=0.7, loss=loss, n_basis=n, random_state=seed)
    model.fit(X, y, sample_weight=w)
    truth = exact_minimum(rbf_kernel(X, gamma=0.7), y, C * w, loss)
    found = model.certificate_
    slack = 1e-6 * truth
    assert found.lower <= truth + slack
    assert truth <= found.upper + slack
    assert found.kind == "exact pass"
    again = model.certify(X, y, sample_weight=w)
    assert again.upper == pytest.approx(found.upper, rel=1e-9)
    assert again.lower == pytest.approx(found.lower, rel=1e-5)
    # Any other rows: the bound is about the problem that these pose.
    other = model.certify(X[:40], y[:40])
    fewer = exact_minimum(rbf_kernel(X[:40], gamma=0.7), y[:40], np.full(40, C), loss)
    assert other.lower <= fewer * (1 + 1e-6)


@given(st.integers(0, 10**6), st.sampled_from([0.02, 1.0]), st.integers(1, 60))
def test_the_diagonal_certificate_is_true_or_absent(seed, C, n):
    X, y = rough(60, seed)
    model = LowRankSVC(C=C, gamma=0.5, n_basis=n, certificate="diagonal").fit(X, y)
    if model.certificate_ is not None:
        truth = squared_hinge_minimum(rbf_kernel(X, gamma=0.5), y, np.full(60, C))
        assert model.certificate_.kind == "diagonal"
        assert model.certificate_.lower <= truth * (1 + 1e-6)
        assert model.certificate_.lower >= 0.5 * model.certificate_.upper


def test_the_diagonal_certificate_speaks_where_the_span_is_all_there_is():
    X, y = rough(60)
    assert LowRankSVC(gamma=0.1, certificate="diagonal", **ALL).fit(X, y).certificate_ is not None
    few = LowRankSVC(gamma=3.0, n_basis=3, certificate="diagonal").fit(X, y)
    assert few.certificate_ is None


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_gap_is_met_by_growing(loss):
    X, y = rough(700, flips=0.05)
    model = LowRankSVC(C=3.0, gamma=0.3, loss=loss, tol=1e-4).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-4
    assert model.path_.stop_reason == "tol"
    assert 64 < model.n_basis_ < 500
    solved = np.flatnonzero(np.isfinite(model.path_.gap))
    assert len(solved) > 1
    assert np.all(np.diff(model.path_.gap[solved]) < 0)
    assert np.all(np.diff(model.path_.seconds) >= 0)
    assert len(np.unique(model.basis_indices_)) == model.n_basis_


def test_growing_by_what_is_missed_is_better_than_growing_at_random():
    X, y = rough(700, flips=0.05)
    common = {"C": 3.0, "gamma": 0.3, "certificate": "exact"}
    with pytest.warns(ConvergenceWarning, match=r"tol=1e-09 was not met.*164 functions"):
        grown = LowRankSVC(tol=1e-9, n_basis=164, **common).fit(X, y)
    assert grown.path_.stop_reason == "n_basis"
    at_random = [
        LowRankSVC(n_basis=164, search=Search("pooled", candidates=X[some]), **common)
        .fit(X, y)
        .certificate_.gap
        for some in (np.random.default_rng(s).permutation(700)[:164] for s in range(3))
    ]
    assert grown.certificate_.gap < 0.5 * min(at_random)


def test_a_column_for_each_class_is_that_class_against_the_rest():
    X, y = load_iris(return_X_y=True)
    model = LowRankSVC(gamma=0.3, **ALL).fit(X, y)
    values = model.decision_function(X)
    assert values.shape == (150, 3)
    assert model.dual_coef_.shape == (model.n_basis_, 3)
    for column in range(3):
        alone = LowRankSVC(gamma=0.3, **ALL).fit(X, y == column)
        assert alone.dual_coef_.shape == (alone.n_basis_,)
        np.testing.assert_allclose(values[:, column], alone.decision_function(X), atol=1e-6)
        gap = model.certificate_.per_output["upper"][column]
        assert gap == pytest.approx(alone.certificate_.upper, rel=1e-8)


def test_labels_are_any_labels():
    X, y = rough(100)
    names = np.where(y > 0, "up", "down")
    model = LowRankSVC(gamma=0.5).fit(X, names)
    assert model.classes_.tolist() == ["down", "up"]
    assert set(model.predict(X)) == {"down", "up"}
    assert np.array_equal(model.predict(X) == "up", model.decision_function(X) > 0)


def test_support_vectors_are_the_rows_within_the_margin():
    X, y = rough()
    model = LowRankSVC(gamma=0.5, n_basis=30).fit(X, y)
    inside = np.flatnonzero(y * model.decision_function(X) < 1)
    assert np.array_equal(model.support_, inside)
    assert model.n_support_.tolist() == [(y[inside] < 0).sum(), (y[inside] > 0).sum()]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_weights_multiply_costs(loss):
    X, y = rough(90)
    w = np.random.default_rng(1).integers(0, 3, 90)
    common = {"gamma": 0.5, "loss": loss, **ALL}
    weighted = LowRankSVC(**common).fit(X, y, sample_weight=w)
    twice = np.repeat(np.arange(90), w)
    repeated = LowRankSVC(**common).fit(X[twice], y[twice])
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-4
    )
    assert np.all(w[weighted.support_] > 0)
    assert np.all(w[weighted.basis_indices_] > 0)


def test_class_weights_are_weights_of_the_rows_of_a_class():
    X, y = rough(120)
    named = LowRankSVC(gamma=0.5, class_weight={1: 3.0, -1: 0.5}, n_basis=40).fit(X, y)
    by_row = LowRankSVC(gamma=0.5, n_basis=40).fit(X, y, np.where(y > 0, 3.0, 0.5))
    np.testing.assert_allclose(named.decision_function(X), by_row.decision_function(X), atol=1e-8)
    assert named.class_weight_.tolist() == [0.5, 3.0]
    few = np.concatenate([np.flatnonzero(y > 0)[:10], np.flatnonzero(y < 0)])
    balanced = LowRankSVC(gamma=0.5, class_weight="balanced").fit(X[few], y[few])
    peer = SVC(gamma=0.5, class_weight="balanced").fit(X[few], y[few])
    np.testing.assert_allclose(balanced.class_weight_, peer.class_weight_)
    again = balanced.certify(X[few], y[few])
    assert again.upper == pytest.approx(balanced.certificate_.upper, rel=1e-9)


def test_moving_the_points_lowers_the_objective(size):
    m = size(2500, 20_000)
    X, y = rough(m, flips=0.02)
    common = {"C": 10.0, "gamma": 0.3, "n_basis": 40, "certificate": None, "random_state": 0}
    still = LowRankSVC(refine=False, **common).fit(X, y)
    moved = LowRankSVC(refine=80, **common).fit(X, y)
    assert moved.path_.value[-1] < 0.97 * still.path_.value[-1]
    assert np.all(moved.basis_indices_ == -1)
    assert moved.n_basis_ == still.n_basis_ == 40
    # Moved points are functions like others: the certificate does not care.
    found = moved.certify(X, y)
    assert found.upper == pytest.approx(moved.path_.value[-1], rel=1e-9)
    assert found.lower <= found.upper


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_of_few_rows_points_are_moved_where_it_is_asked_for(loss):
    X, y = rough(300, flips=0.02)
    common = {"C": 10.0, "gamma": 0.3, "n_basis": 20, "loss": loss, "random_state": 0}
    automatic, still, moved = (
        LowRankSVC(refine=steps, **common).fit(X, y) for steps in ("auto", 0, 20)
    )
    assert np.array_equal(automatic.dual_coef_, still.dual_coef_)
    assert np.all(moved.basis_indices_ == -1)
    assert moved.certificate_.upper < still.certificate_.upper
    assert moved.certificate_.lower > still.certificate_.lower


def test_moving_on_some_of_the_rows_is_moving(monkeypatch):
    monkeypatch.setattr("pursuit.estimators.svm.moving.PILOT_ROWS", 1500)
    X, y = rough(2500, flips=0.02)
    labels = np.where(X[:, 0] > 1, "third", np.where(y > 0, "up", "down"))
    common = {"C": 10.0, "gamma": 0.3, "n_basis": 40, "certificate": None, "random_state": 0}
    for loss in ("squared_hinge", "hinge"):
        still, moved = (
            LowRankSVC(refine=steps, loss=loss, **common).fit(X, labels) for steps in (0, 20)
        )
        assert np.all(moved.basis_indices_ == -1)
        assert moved.path_.value[-1] < still.path_.value[-1]


def test_probabilities_come_from_scikit_learns_calibration():
    X, y = rough(600, flips=0.2)
    model = CalibratedClassifierCV(LowRankSVC(C=100.0, gamma=1.0, n_basis=100, random_state=0))
    p = model.fit(X[:400], y[:400]).predict_proba(X[400:])
    chance = log_loss(y[400:], np.tile([(y[:400] == c).mean() for c in (-1, 1)], (200, 1)))
    assert log_loss(y[400:], p) < chance
    assert p.max() < 0.99


def test_inputs_of_every_kind_agree():
    X, y = rough(120)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    options = {"n_basis": 30, "random_state": 0}
    plain = LowRankSVC(gamma=0.5, **options).fit(X, y).decision_function(X)

    def close(values, atol=1e-6):
        np.testing.assert_allclose(values, plain, atol=atol)

    close(LowRankSVC(gamma=0.5, **options).fit(csr_array(X), y).decision_function(csr_array(X)))
    close(LowRankSVC(RBF(1.0), **options).fit(X, y).decision_function(X))
    K = rbf_kernel(X, gamma=0.5)
    given_matrix = LowRankSVC("precomputed", **options).fit(K, y)
    close(given_matrix.decision_function(K))
    assert given_matrix.basis_ is None
    assert given_matrix.certify(K, y).upper == pytest.approx(given_matrix.certificate_.upper)
    words = ["x" * i for i in range(120)]

    def of_words(A, B):
        return rbf_kernel(X[[len(a) for a in A]], X[[len(b) for b in B]], gamma=0.5)

    close(LowRankSVC(of_words, **options).fit(words, y).decision_function(words))
    single = X.astype(np.float32)
    close(LowRankSVC(gamma=0.5, **options).fit(single, y).decision_function(single), 1e-3)
    close(LowRankSVC(gamma=0.5, dtype="float32", **options).fit(X, y).decision_function(X), 1e-4)


def test_gamma_is_read_as_svc_reads_it():
    X, y = rough(100)
    X = 3.0 * X + 1.0
    for gamma in ("scale", "auto"):
        peer = SVC(gamma=gamma).fit(X, y)
        model = LowRankSVC(gamma=gamma).fit(X, y)
        same = LowRankSVC(gamma=peer._gamma).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), same.decision_function(X), rtol=1e-9)
    sparse = LowRankSVC(gamma="scale").fit(csr_array(X), y)
    assert sparse._gamma == pytest.approx(SVC(gamma="scale").fit(X, y)._gamma)


def test_threads_do_not_change_a_bit():
    X, y = rough(2500)
    labels = np.where(X[:, 0] > 1, 2, y)
    options = {"gamma": 0.5, "n_basis": 60, "refine": 3, "random_state": 0}
    one, three = (
        LowRankSVC(n_jobs=n, certificate="exact", **options).fit(X, labels) for n in (1, 3)
    )
    assert np.array_equal(one.dual_coef_, three.dual_coef_)
    assert one.certificate_.lower == three.certificate_.lower


def test_features_need_not_be_stored():
    X, y = rough(500)
    kernel = CountingKernel(compile_kernel("rbf", gamma=0.5, n_features=3)[0])
    Y = y[:, None].astype(float)
    problem = MachineProblem(Y, np.full(Y.shape, 2.0), squared=True)
    rows = ArrayRows(X)
    with Workers(2) as workers:
        sample = Sample(rows, Y, np.ones(500))
        whole = Problem(sample, kernel, 1.0, workers, CostMeter(kernel), np.random.default_rng(0))
        span = Span.of(Pool.of_rows(sample, np.arange(40)), whole)
        stored = SpanFeatures(rows, kernel, span, workers)
        computed = SpanFeatures(rows, kernel, span, workers, stored_bytes=0)
        assert computed.stored is None
        np.testing.assert_allclose(computed(slice(3, 9)), stored(slice(3, 9)), atol=1e-12)
        some = np.array([1, 5, 77])
        np.testing.assert_allclose(
            computed.span_rows(some)(slice(1, 3)), stored.span_rows(some)[1:3], atol=1e-12
        )
        np.testing.assert_allclose(computed.squares(workers), stored.squares(workers), atol=1e-12)
        solutions = [
            problem.solve(features, workers, np.random.default_rng(0))
            for features in (stored, computed)
        ]
    np.testing.assert_allclose(solutions[0].fitted, solutions[1].fitted, atol=1e-7)


def test_a_pipeline_clones_pickles_and_saves(tmp_path):
    X, y = make_moons(200, noise=0.2, random_state=0)
    pipe = make_pipeline(StandardScaler(), LowRankSVC(n_basis=20, random_state=0)).fit(X, y)
    assert pipe.score(X, y) > 0.9
    copy = pickle.loads(pickle.dumps(pipe))
    assert np.array_equal(copy.decision_function(X), pipe.decision_function(X))
    fresh = clone(pipe).fit(X, y)
    assert np.array_equal(fresh.decision_function(X), pipe.decision_function(X))


def test_labels_may_be_a_column_of_a_table():
    pd = pytest.importorskip("pandas")
    X, y = rough(200)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=np.where(y > 0, "up", "down"))
    table["w"] = 1.0 + (y > 0)
    model = LowRankSVC(n_basis=30).fit(table, target="label", weight="w")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    plain = LowRankSVC(n_basis=30).fit(X, table["label"], sample_weight=table["w"])
    np.testing.assert_allclose(
        model.decision_function(table[["a", "b", "c"]]), plain.decision_function(X), atol=1e-9
    )
    again = model.certify(table[["a", "b", "c"]], table["label"], table["w"])
    assert again.gap == pytest.approx(model.certificate_.gap, rel=1e-6)


def test_rows_that_are_all_alike_have_the_majority():
    X, y = np.ones((30, 2)), np.repeat([0, 1], [10, 20])
    model = LowRankSVC().fit(X, y)
    assert np.all(model.predict(X) == 1)
    assert model.certificate_.relative_gap <= 1e-6


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0.0}, "C must be a positive number, got 0.0"),
        ({"C": -1}, "C must be a positive number"),
        ({"class_weight": {7: 1.0}}, r"class_weight names \[7\], but the classes in y are"),
        ({"class_weight": {1: 0.0}}, "class_weight must be positive and finite"),
        ({"class_weight": {1: "much"}}, "class_weight must be positive and finite, got .*'much'"),
        ({"decision_function_shape": "ovo"}, "set multi_class='ovo'"),
        ({"tol": 0.1, "certificate": None}, "tol stops the growth of the basis"),
        ({"tol": 0.1, "certificate": "diagonal"}, "tol stops the growth of the basis"),
        ({"search": "fresh"}, "'search' parameter of LowRankSVC must be"),
        ({"search": Search("fresh")}, "this estimator searches by 'pooled', 'full' only"),
        ({"search": Search("full", candidates="kmeans")}, "candidates has no effect on a full"),
        ({"search": Search("full", pool_size=9)}, "pool_size has no effect on a full search"),
        ({"search": Search("pooled", score="evidence")}, "score has no effect on a pooled search"),
        ({"search": Search(candidates=np.ones((3, 2)))}, "candidates has 2 features"),
        ({"max_time": 0.0}, "'max_time' parameter of LowRankSVC must be"),
        ({"checkpoint": 3}, "'checkpoint' parameter of LowRankSVC must be"),
        ({"kernel": "precomputed"}, "square kernel matrix"),
        ({"loss": "logistic"}, "'loss' parameter of LowRankSVC must be"),
        ({"kernel": "sigmoid", "gamma": -1.0}, "'gamma' parameter"),
    ],
)
def test_wrong_arguments_are_named(parameters, message):
    X, y = rough(50)
    with pytest.raises(ValueError, match=message):
        LowRankSVC(**parameters).fit(X, y)


def test_wrong_data_is_named():
    X, y = rough(50)
    with pytest.raises(ValueError, match="one class only, 1: at least two classes"):
        LowRankSVC().fit(X, np.ones(50, dtype=int))
    with pytest.raises(ValueError, match="one class only"):
        LowRankSVC().fit(X, y, sample_weight=(y > 0).astype(float))
    with pytest.raises(ValueError, match="target y is None"):
        LowRankSVC().fit(X)
    with pytest.raises(ValueError, match="Unknown label type"):
        LowRankSVC().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="not positive semi-definite"):
        LowRankSVC(lambda A, B: -(A @ B.T)).fit(X, y)
    model = LowRankSVC().fit(X, y)
    with pytest.raises(ValueError, match=r"y holds \[5\], which the model was not fitted with"):
        model.certify(X, np.full(50, 5))
    with pytest.raises(ValueError, match="refine=5 moves points along the kernel's gradient"):
        LowRankSVC(rbf_kernel, refine=5).fit(X, y)
    with pytest.raises(ValueError, match="gamma='scale' needs rows of numbers"):
        LowRankSVC("precomputed", gamma="scale").fit(np.eye(4), [0, 0, 1, 1])
    with pytest.raises(ValueError, match="leave candidates out of the search"):
        LowRankSVC("precomputed", search=Search(candidates=np.eye(4))).fit(np.eye(4), [0, 0, 1, 1])


def test_beyond_ten_thousand_rows_the_certificate_is_left_to_the_user(monkeypatch):
    monkeypatch.setattr("pursuit.estimators.svm.fit._AUTO_CERTIFICATE_ROWS", 100)
    X, y = rough(150)
    model = LowRankSVC(gamma=0.5, n_basis=10).fit(X, y)
    assert model.certificate_ is None
    assert model.certify(X, y).kind == "exact pass"


def test_nothing_is_said_of_a_plain_fit(capsys):
    X, y = rough(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LowRankSVC().fit(X, y)
    assert capsys.readouterr().out == ""
    LowRankSVC(verbose=1).fit(X, y)
    assert "[LowRankSVC] choose" in capsys.readouterr().out
