"""Classes or numbers, and which kind of model: what is chosen, and what must not be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from pursuit import FullScaleGPRegressor, SparseGPClassifier, SparseGPRegressor, SparseKernelGLM
from pursuit.estimators.table import choice
from pursuit.estimators.table.choice import choose_model, infer_task
from pursuit.rows import CodedTable, EncodedTable, as_rows


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (["a", "b", "a"], "classification"),
        (np.array(["a", None, "b"], dtype=object), "classification"),
        ([True, False], "classification"),
        (np.array([True, None, False], dtype=object), "classification"),
        ([0.0, 1.0, np.nan] * 5, "classification"),
        ([7.5, 9.25] * 50, "classification"),
        (np.arange(200) % 10, "classification"),
        (np.arange(200) % 10 + 0.5, "regression"),
        (np.arange(200) % 21, "regression"),
        ((np.arange(200) % 5) * 10, "regression"),
        (np.repeat([0, 1, 2, 3], [150, 40, 9, 1]), "regression"),
        (np.arange(200), "regression"),
        (np.array([1, 2, None, 5000], dtype=object), "regression"),
    ],
)
def test_classes_and_numbers(y, task):
    assert infer_task(y)[0] == task


@pytest.mark.parametrize("mean", [0.5, 1.0, 3.0, 10.0])
def test_counts_are_numbers(mean):
    assert infer_task(np.random.default_rng(0).poisson(mean, 2000))[0] == "regression"


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
def test_numbered_classes(load):
    assert infer_task(load().target)[0] == "classification"


def test_a_measured_target_is_a_number_and_the_reason_follows_its_name():
    assert infer_task(load_diabetes().target) == ("regression", "has 214 different values")


@pytest.fixture
def fewer(monkeypatch):
    """Less rows and functions than in earnest."""
    monkeypatch.setattr(choice, "_FOLDED", 300)
    monkeypatch.setattr(choice, "_LEARNING", 600)
    monkeypatch.setattr(choice, "_RESERVED", 300)


def rows_and_rates(m, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(m, 2))
    return rng, X, np.exp(0.5 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1])


def test_poisson_counts(fewer):
    rng, X, rates = rows_and_rates(250)
    found = choose_model(X, rng.poisson(rates), task="regression", n_basis=30)
    assert isinstance(found.model, SparseKernelGLM)
    assert found.model.loss == "poisson"
    assert found.sentence.startswith("Poisson counts: mean log probability of a count on 250 rows")
    assert not hasattr(found.model, "n_basis_")


def test_counts_that_vary_more(fewer):
    rng, X, rates = rows_and_rates(250)
    y = rng.negative_binomial(1.5, 1.5 / (1.5 + 3 * rates))
    found = choose_model(X, y, task="regression", n_basis=30)
    assert found.model.loss == "negative-binomial"


def test_rounded_normal_numbers_are_not_taken_for_counts(fewer):
    rng, X, _ = rows_and_rates(250)
    y = np.round(60 + 5 * X[:, 0] + 2 * rng.normal(size=250))
    found = choose_model(X, y, task="regression", n_basis=30)
    assert isinstance(found.model, SparseGPRegressor)
    assert "negative binomial counts" in found.scores
    assert "log_probability" not in choose_model(X, y + 0.5, task="regression").scores


def test_a_smooth_function_needs_no_near_rows(fewer):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=900)
    found = choose_model(X, y, task="regression", n_basis=40)
    assert isinstance(found.model, SparseGPRegressor)
    assert "would have to be 5 % better" in found.sentence
    assert set(found.scores) == {"small process", "full-scale process"}


def test_fine_detail_needs_near_rows(fewer):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, size=(900, 1))
    y = np.sin(300 * X[:, 0]) + 0.1 * rng.normal(size=900)
    found = choose_model(X, y, task="regression", n_basis=8)
    assert isinstance(found.model, FullScaleGPRegressor)
    assert found.model.n_basis == 8
    small, full_scale = (found.scores[kind]["error"] for kind in ("small process", found.kind))
    assert full_scale < 0.95 * small
    assert f"{full_scale:.3g}, against {small:.3g} of the small one" in found.sentence


def test_few_rows_are_not_compared():
    X = np.arange(60.0)[:, None]
    found = choose_model(X, np.arange(60) % 2, task="classification")
    assert isinstance(found.model, SparseGPClassifier)
    assert found.scores == {}
    assert "too few" in found.sentence


def test_a_basis_of_all_rows_leaves_nothing_to_choose():
    X = np.arange(200.0)[:, None]
    found = choose_model(X, X[:, 0] + 0.5, task="regression")
    assert found.scores == {}
    assert "all rows" in found.sentence


def test_codes_stay_codes(fewer, monkeypatch):
    rng, X, rates = rows_and_rates(120)
    codes = rng.integers(0, 3, size=120).astype(float)
    coded = CodedTable(
        as_rows(np.column_stack([X[:, 0], codes])), ["x", "c"], {"c": ["a", "b", "d"]}
    )
    seen = []
    fit = SparseKernelGLM.fit
    monkeypatch.setattr(
        SparseKernelGLM, "fit", lambda self, X, y: seen.append(X) or fit(self, X, y)
    )
    choose_model(EncodedTable(coded), rng.poisson(rates), task="regression", n_basis=10)
    assert all(isinstance(X, EncodedTable) and X.coded.levels == coded.levels for X in seen)
    assert len(seen[0]) == 80


def test_the_same_seed_makes_the_same_choice(fewer):
    rng, X, rates = rows_and_rates(110)
    y = rng.poisson(rates)
    first, again = (choose_model(X, y, task="regression", n_basis=15) for _ in range(2))
    assert first.scores == again.scores


def test_a_class_of_a_single_row(fewer):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.where(X[:, 0] > 0, "a", "b").astype(object)
    y[0] = "rare"
    found = choose_model(X, y, task="classification", n_basis=20)
    assert np.isfinite(found.scores["small process"]["log_loss"])


def test_one_of_two_classes_in_a_single_row(fewer):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(200) == 7, "rare", "usual")
    found = choose_model(rng.normal(size=(200, 2)), y, task="classification", n_basis=20)
    assert found.sentence == "small process: a class is too rare to be both learned and judged"


def test_probability_of_a_count_under_a_normal_distribution():
    counts, mean, std = (
        np.array([0.0, 3.0, 9.0]),
        np.array([0.2, 3.5, 2.0]),
        np.array([1.0, 0.1, 2.0]),
    )
    expected = np.log(norm.cdf(counts + 0.5, mean, std) - norm.cdf(counts - 0.5, mean, std))
    assert_allclose(choice.log_probability(None, mean, std, counts), expected, rtol=1e-10)
    # So far out that the difference of the two is 0 in double precision.
    assert np.isfinite(choice.log_probability(None, np.zeros(1), np.ones(1), np.array([60.0])))


def test_an_unknown_task():
    with pytest.raises(ValueError, match="'regression' or 'classification'"):
        choose_model(np.zeros((200, 1)), np.zeros(200), task="ranking")
