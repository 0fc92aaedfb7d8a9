"""Growth of kernels by evidence: score tests beside dense algebra, and what is grown."""

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)

from pursuit import (
    Additive,
    Categorical,
    ExactGPRegressor,
    FullScaleGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelRidge,
    load,
    on_columns,
)
from pursuit.kernels import ColumnNames, described, terms_of
from pursuit.linalg import Workers
from pursuit.tuning import Evidence, Learned, NoiseRange, grow_additive, search_kernel
from pursuit.tuning import search as search_module
from pursuit.tuning.growth import ScoreTest

NOISE = NoiseRange(0.1, 1e-4, 10.0)


@pytest.fixture(scope="module")
def workers():
    with Workers(1) as some:
        yield some


def evidence_of(X, y, workers, weights=None):
    Y = y if y.ndim == 2 else y[:, None]
    return Evidence(X, Y, np.ones(len(X)) if weights is None else weights, workers)


def log_density(Y, C):
    n, outputs = Y.shape
    quadratic = np.trace(Y.T @ np.linalg.solve(C, Y))
    return -0.5 * (quadratic + outputs * (np.linalg.slogdet(C)[1] + n * np.log(2 * np.pi)))


def test_score_tests_are_those_of_the_evidence(workers):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    Y = rng.standard_normal((40, 2)) + np.sin(2 * X[:, [2]])
    weights = rng.uniform(0.5, 2.0, 40)
    terms = [ConstantKernel(0.7) * on_columns(RBF(0.8), [0]), DotProduct(0.5)]
    noise, candidate = 0.4, on_columns(Matern(1.2, nu=1.5), [2])
    present = [np.diag(1 / weights), *(term(X) for term in terms)]
    C, K = noise * present[0] + present[1] + present[2], candidate(X)
    step = 1e-5
    score = (log_density(Y, C + step * K) - log_density(Y, C - step * K)) / (2 * step)
    # The Schur complement of the whole Fisher matrix, from its inverse.
    matrices = [*present, K]
    inverse = np.linalg.inv(C)
    fisher = [[np.trace(inverse @ P @ inverse @ Q) for Q in matrices] for P in matrices]
    information = 1.0 / np.linalg.inv(0.5 * 2 * np.array(fisher))[-1, -1]
    gain, factor = ScoreTest(evidence_of(X, Y, workers, weights), terms, noise)(candidate)
    assert score > 0
    assert factor == pytest.approx(score / information, rel=1e-5)
    assert gain == pytest.approx(score**2 / (2 * information), rel=1e-5)
    # What the targets do not show has a negative score, and is not taken.
    nothing = evidence_of(X, 1e-3 * Y, workers, weights)
    assert ScoreTest(nothing, terms, noise)(candidate) == (0.0, 0.0)


def test_a_kernel_that_is_there_already_gains_nothing(workers):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 1))
    test = ScoreTest(evidence_of(X, np.sin(3 * X[:, 0]), workers), [RBF(1.0)], 0.1)
    assert test(ConstantKernel(2.0) * RBF(1.0)) == (0.0, 0.0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(400, 5)) * [1.0, 100.0, 0.01, 1.0, 1.0]
    y = np.sin(2 * X[:, 0]) + (X[:, 1] / 100) ** 2 + 0.1 * rng.standard_normal(400)
    return X, (y - y.mean()) / y.std()


def test_evidence_chooses_the_terms_in_any_units(table, workers):
    X, y = table
    deviations = X.std(axis=0)
    resolved = Additive(RBF(), columns=[0, 1, 2, 3, 4])
    learned = grow_additive(evidence_of(X, y, workers), resolved, deviations, 1.0, NOISE)
    assert sorted(map(described, terms_of(learned.kernel))) == ["RBF(x0)", "RBF(x1)"]
    assert learned.family == "additive"
    accepted = [step.evidence_per_row for step in learned.path if step.accepted]
    assert accepted == sorted(accepted)
    assert any(not step.accepted for step in learned.path)


def test_products_are_found(workers):
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, size=(300, 4))
    y = X[:, 1] * X[:, 3] + 0.1 * rng.standard_normal(300)
    resolved = Additive(RBF(), 2, columns=[0, 1, 2, 3])
    learned = grow_additive(evidence_of(X, y, workers), resolved, X.std(axis=0), 1.0, NOISE)
    assert [described(term) for term in terms_of(learned.kernel)] == ["RBF(x1) * RBF(x3)"]


def test_main_effects_come_before_products(workers):
    rng = np.random.default_rng(4)
    X = rng.uniform(-2, 2, size=(300, 3))
    y = X[:, 0] ** 2 + np.sin(2 * X[:, 1]) + 0.1 * rng.standard_normal(300)
    resolved = Additive(RBF(), 2, columns=[0, 1, 2])
    learned = grow_additive(evidence_of(X, y, workers), resolved, X.std(axis=0), 1.0, NOISE)
    assert {described(term) for term in terms_of(learned.kernel)} == {"RBF(x0)", "RBF(x1)"}


def test_periods_are_tried(workers):
    rng = np.random.default_rng(5)
    X = rng.uniform(0, 30, size=(300, 2))
    y = np.sign(np.sin(2 * np.pi * X[:, 1] / 3.7)) + 0.1 * rng.standard_normal(300)
    resolved = Additive(ExpSineSquared(1.0, 1.0), columns=[0, 1])
    learned = grow_additive(evidence_of(X, y, workers), resolved, X.std(axis=0), 1.0, NOISE)
    [term] = terms_of(learned.kernel)
    assert described(term) == "ExpSineSquared(x1)"
    assert term.k2.kernel.periodicity == pytest.approx(3.7, rel=0.01)


def test_given_terms_stay_and_noise_gets_one_term(workers):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((200, 3)), rng.standard_normal(200)
    additive = Additive(RBF(), columns=[0, 1, 2])
    data = evidence_of(X, y, workers)
    alone = grow_additive(data, additive, np.ones(3), 1.0, NOISE)
    assert len(terms_of(alone.kernel)) == 1
    beside = grow_additive(data, DotProduct() + additive, np.ones(3), 1.0, NOISE)
    assert [described(term) for term in terms_of(beside.kernel)] == ["DotProduct"]


@pytest.mark.parametrize("estimator", [SparseGPRegressor, ExactGPRegressor, FullScaleGPRegressor])
def test_estimators_grow_additive_kernels(estimator, table):
    X, y = table
    model = estimator(Additive(RBF()) + WhiteKernel(), random_state=0).fit(X, y)
    assert {"RBF(x0)", "RBF(x1)"} <= set(model.part_names_)
    assert len(terms_of(model.kernel_)) == 2
    report = str(model.learning_report_)
    assert "kernel family: additive" in report
    assert "+ RBF(x0)" in report


def test_a_kernel_that_is_kept_has_all_terms(table):
    X, y = table
    kept = SparseGPRegressor(Additive(RBF()), optimizer=None, noise=0.1).fit(X, y)
    assert len(terms_of(kept.kernel_)) == 5
    ridge = SparseKernelRidge(Additive(RBF(), 2)).fit(X, y)
    assert len(terms_of(ridge.kernel_)) == 15
    product = SparseGPRegressor(2.0 * Additive(RBF()), random_state=0).fit(X, y)
    assert product.part_names_[0].startswith("(RBF(x0) + RBF(x1)")


def test_classifiers_grow_additive_kernels():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 4))
    y = np.abs(X[:, 2]) > 1
    model = SparseGPClassifier(Additive(RBF()), random_state=0).fit(X, y)
    assert [described(term) for term in terms_of(model.kernel_)] == ["RBF(x2)"]
    assert model.score(X, y) > 0.95


def test_categories_are_no_part_of_additive_kernels(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.uniform(-2, 2, 200), "city": rng.choice(["a", "b"], 200)})
    y = np.sin(2 * frame["size"]) + (frame["city"] == "a") + 0.1 * rng.standard_normal(200)
    model = SparseGPRegressor(Additive(RBF()) + Categorical(["city"]), random_state=0)
    model.fit(frame, y)
    assert set(model.part_names_) == {"RBF(size)", "Categorical(city)", "constant"}
    model.save(tmp_path / "model.pursuit")
    again = load(tmp_path / "model.pursuit")
    assert again.kernel == model.kernel
    assert again.learning_report_.search_path == model.learning_report_.search_path
    np.testing.assert_array_equal(again.predict_parts(frame), model.predict_parts(frame))


# kernel="search"


@pytest.fixture(scope="module")
def two_scales():
    """A smooth function and a rough one, in units that differ."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(900, 2)) * [1.0, 50.0]
    walk = np.cumsum(rng.standard_normal(200)) / 8
    rough = np.interp(X[:, 0], np.linspace(0, 1, 200), walk)
    y = rough + 2 * np.sin(X[:, 1] / 12) + 0.05 * rng.standard_normal(900)
    return X, y


@pytest.fixture(scope="module")
def searched(two_scales):
    X, y = two_scales
    return ExactGPRegressor("search", random_state=0).fit(X[:400], y[:400])


def test_a_search_finds_a_sum_and_says_how(searched, two_scales):
    X, y = two_scales
    fixed = ExactGPRegressor(random_state=0).fit(X[:400], y[:400])
    assert len(terms_of(searched.kernel_)) > 1
    assert searched.score(X[400:], y[400:]) > fixed.score(X[400:], y[400:])
    report = searched.learning_report_
    assert report.family == "search"
    *_, last_but_one, last = report.search_path
    assert last_but_one.expression.startswith("fixed family")
    assert not last_but_one.accepted
    assert last.accepted
    assert "rows left out" in str(report)


def test_a_search_is_reproducible(two_scales):
    X, y = two_scales
    one, again = (ExactGPRegressor("search", random_state=0).fit(X[:100], y[:100]) for _ in "12")
    assert len(one.learning_report_.search_path) > 2
    assert again.kernel_ == one.kernel_
    assert again.learning_report_.search_path == one.learning_report_.search_path


def test_a_search_finds_trend_and_season(workers):
    rng = np.random.default_rng(0)
    t = np.arange(240) / 12.0
    y = 0.2 * t + np.sin(2 * np.pi * t) + 0.2 * rng.standard_normal(240)
    model = ExactGPRegressor("search", random_state=0).fit(t[:, None], y)
    periods = [
        value for name, value in model.kernel_.get_params().items() if name.endswith("periodicity")
    ]
    assert periods == [pytest.approx(1.0, abs=0.01)]
    later = np.arange(240, 300) / 12.0
    truth = 0.2 * later + np.sin(2 * np.pi * later)
    assert np.abs(model.predict(later[:, None]) - truth).max() < 0.3


def test_a_search_multiplies_with_categories(workers):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.uniform(-2, 2, 300), "city": rng.choice(["a", "b"], 300)})
    sign = np.where(frame["city"] == "a", 1, -1)
    y = sign * np.sin(2 * frame["size"]) + frame["size"] + 0.05 * rng.standard_normal(300)
    model = ExactGPRegressor("search", random_state=0).fit(frame, y)
    assert model.learning_report_.search_path[0].expression == "RBF(size) * Categorical(city)"
    assert model.score(frame, y) > 0.99


def test_nothing_is_grown_on_noise(workers):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 3)), rng.standard_normal(200)
    data = evidence_of(X, y, workers)
    learned = search_kernel(data, None, ColumnNames(3), np.ones(3), 1.0, NOISE)
    assert learned.family != "search"
    assert len(terms_of(learned.kernel)) == 1


def test_other_rows_judge_where_there_are_any(two_scales, workers, monkeypatch):
    X, y = two_scales
    y = (y - y.mean()) / y.std()
    seen, others = (evidence_of(X[s], y[s], workers) for s in (slice(80), slice(80, 160)))
    judged = []
    judge = search_module.judge

    def noted(learned, rows, left_out):
        judged.append((rows, left_out))
        return judge(learned, rows, left_out)

    monkeypatch.setattr(search_module, "judge", noted)
    search_kernel(seen, others, ColumnNames(2), X.std(axis=0), 1.0, NOISE)
    assert all(rows is seen and left_out is others for rows, left_out in judged)
    assert len(judged) == 2
    judged.clear()
    search_kernel(seen, None, ColumnNames(2), X.std(axis=0), 1.0, NOISE)
    rows, left_out = judged[0]
    np.testing.assert_array_equal(np.concatenate([rows.X, left_out.X]), seen.X)
    assert len(left_out.X) == 20


def test_the_judge_is_the_exact_process(workers):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    weights = rng.uniform(0.5, 2, 60)
    seen, others = (
        evidence_of(X[s], y[s], workers, weights[s]) for s in (slice(40), slice(40, 60))
    )
    kernel, noise = 1.5 * RBF(1.1), 0.3
    learned = Learned(kernel, noise, 0.0)
    judged = search_module.judge(learned, seen, others)
    C = kernel(X[:40]) + np.diag(noise / weights[:40])
    K = kernel(X[40:], X[:40])
    error = y[40:] - K @ np.linalg.solve(C, y[:40])
    variance = np.diag(kernel(X[40:]) - K @ np.linalg.solve(C, K.T)) + noise
    np.testing.assert_allclose(judged.squares, error**2, rtol=1e-9)
    surprise = 0.5 * np.log(2 * np.pi * variance) + 0.5 * error**2 / variance
    np.testing.assert_allclose(judged.surprise, surprise, rtol=1e-9)


def test_better_means_two_standard_errors():
    ones = np.ones(100)
    gains = np.where(np.arange(100) % 2, 0.5, -0.3)  # mean 0.1, standard error 0.04

    def better(squares, surprise):
        base = search_module.Judged(ones, ones, ones)
        return search_module.Judged(1 - squares, 1 - surprise, ones).better_than(base)

    assert better(gains, 0.0 * ones)
    assert better(0.0 * ones, gains)
    assert not better(gains - 0.03, gains - 0.03)
    assert not better(gains, -0.01 * ones)
    assert not better(-0.01 * ones, gains)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SparseGPRegressor("search", gamma=1.0), "gamma belongs to kernels given by name"),
        (SparseGPRegressor("search", optimizer=None), "use optimizer='evidence'"),
        (SparseGPClassifier("search"), "this is a classifier"),
        (SparseKernelRidge("search"), "is for SparseGPRegressor"),
    ],
)
def test_where_nothing_can_be_searched_the_error_says_so(model, message):
    X = np.random.default_rng(0).standard_normal((30, 2))
    with pytest.raises(ValueError, match=message):
        model.fit(X, X[:, 0] > 0)
