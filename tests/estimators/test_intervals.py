"""Guaranteed intervals and sets: the guarantee, and that rows aside have no part in a fit."""

import math
import re
import warnings
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

import pursuit
from pursuit import (
    ExactGPRegressor,
    FullScaleGPClassifier,
    FullScaleGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelGLM,
    SparseKernelRidge,
)
from pursuit.estimators.intervals import CoverageGuarantee
from pursuit.estimators.reporting import describe

FIXED = {"kernel": RBF(0.7), "optimizer": None, "random_state": 0}
REGRESSORS = [
    SparseGPRegressor(**FIXED, noise=0.1, n_basis=20, calibration="conformal"),
    SparseGPRegressor(n_basis=20, random_state=0, calibration="conformal"),
    ExactGPRegressor(**FIXED, noise=0.1, calibration="conformal"),
    FullScaleGPRegressor(**FIXED, noise=0.1, n_basis=9, n_neighbors=5, calibration="conformal"),
    FullScaleGPRegressor(
        **FIXED, noise=0.1, n_basis=9, n_neighbors=5, coupling="full", calibration="conformal"
    ),
]
CLASSIFIERS = [
    SparseGPClassifier(**FIXED, n_basis=20, calibration="conformal"),
    FullScaleGPClassifier(**FIXED, n_basis=9, n_neighbors=5, calibration="conformal"),
]


def named(models):
    return pytest.mark.parametrize("model", models, ids=lambda model: type(model).__name__)


def draw(rng, n):
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)


def draw_classes(rng, n):
    X, y = draw(rng, n)
    return X, np.array(["low", "mid", "top"])[np.digitize(y, [-1.0, 1.0])]


@pytest.fixture
def rows():
    return draw(np.random.default_rng(0), 400)


@pytest.fixture
def labelled():
    return draw_classes(np.random.default_rng(0), 400)


def made(model, **changes):
    return type(model)(**{**model.get_params(deep=False), **changes})


def of_scores(scores):
    return CoverageGuarantee(len(scores), "", "", np.asarray(scores, dtype=float))


# What the guarantee rests on: of n + 1 scores, whichever is the new one, it is as likely as others.

SCORES = st.integers(2, 40).flatmap(
    lambda n: arrays(float, n, elements=st.integers(-6, 6).map(float) | st.floats(-5, 5))
)
LEVELS = st.sampled_from([0.05, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95]) | st.floats(0.01, 0.99)


def enough(n, level):
    return math.ceil((n + 1) * level - 1e-9) <= n


@given(SCORES, LEVELS)
def test_every_set_of_scores_covers_the_one_left_out(scores, level):
    n = len(scores) - 1
    if not enough(n, level):
        return
    inside = [
        abs(scores[i]) <= of_scores(np.delete(scores, i)).largest(level) for i in range(n + 1)
    ]
    assert np.mean(inside) >= level - 1e-12
    if len(np.unique(np.abs(scores))) == n + 1 and np.diff(np.sort(np.abs(scores))).min() > 1e-6:
        assert np.mean(inside) <= level + 1 / (n + 1) + 1e-12


@given(SCORES, LEVELS)
def test_quantiles_err_away_from_the_median(scores, q):
    n = len(scores) - 1
    if not enough(n, max(q, 1 - q)):
        return
    ends = np.array([of_scores(np.delete(scores, i)).quantile(q) for i in range(n + 1)])
    if q >= 0.5:
        assert np.mean(scores <= ends) >= q - 1e-12
    else:
        assert np.mean(scores < ends) <= q + 1e-12


def test_one_rank_less_would_not_do():
    scores = np.arange(1.0, 101.0)
    ranked = [
        np.sort(np.delete(scores, i))[of_scores(scores[1:]).rank(0.9) - 2] for i in range(100)
    ]
    assert np.mean(scores <= ranked) < 0.9


@pytest.mark.parametrize(
    ("level", "needed"), [(0.5, 1), (0.8, 4), (0.9, 9), (0.95, 19), (0.99, 99)]
)
def test_a_level_needs_so_many_rows(level, needed):
    assert of_scores(np.arange(needed)).rank(level) == needed
    with pytest.raises(ValueError, match=rf"{100 * level:g} % needs {needed} rows or more"):
        of_scores(np.arange(needed - 1)).rank(level)


def test_the_guarantee_is_told_in_words():
    assert "covers 85 to 94 % of the rows" in str(of_scores(np.zeros(100)))
    assert "For 90 % these rows are too few." in str(of_scores(np.zeros(8)))


def test_the_coverage_of_one_model_is_between_the_numbers_told(size):
    rng = np.random.default_rng(0)
    guarantee = of_scores(np.zeros(60))
    low, high = guarantee.likely_coverage(0.8, 0.9)
    draws = np.sort(rng.random((20_000, 60)), axis=1)[:, guarantee.rank(0.8) - 1]
    share = np.mean((low <= draws) & (draws <= high))
    assert abs(share - 0.9) < 4 * np.sqrt(0.09 / 20_000)


# Simulation


def overfitted(seed, calibrate_by_own_rows):
    """Coverage of a model with far too little noise, on 300 rows."""
    rng = np.random.default_rng(seed)
    X, y = draw(rng, 300)
    asked = None if calibrate_by_own_rows else "conformal"
    model = SparseGPRegressor(
        RBF(0.3), noise=1e-3, n_basis=300, optimizer=None, calibration=asked, random_state=seed
    ).fit(X, y)
    if calibrate_by_own_rows:
        with pytest.warns(UserWarning, match="basis points are among these rows"):
            model.conformalize(X, y)
    X_new, y_new = draw(rng, 400)
    lower, upper = model.predict_interval(X_new)
    return np.mean((lower <= y_new) & (y_new <= upper))


def test_intervals_cover_as_often_as_they_say(size):
    n_sets = size(40, 200)
    found = [overfitted(seed, False) for seed in range(n_sets)]
    # Beta(91, 10) of the 100 rows aside, and the 400 new rows of each set.
    expected = 91 / 101
    deviation = np.sqrt(expected * (1 - expected) * (1 / 102 + 1 / 400) / n_sets)
    assert abs(np.mean(found) - expected) < 4 * deviation


def test_rows_of_the_fit_guarantee_nothing():
    assert np.mean([overfitted(seed, True) for seed in range(5)]) < 0.7


@named(CLASSIFIERS)
def test_sets_cover_as_often_as_they_say(model, size):
    n_sets, found = size(8, 40), []
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        model = made(model, random_state=seed).fit(*draw_classes(rng, 300))
        X, y = draw_classes(rng, 400)
        sets = model.predict_set(X, 0.95)
        found.append(np.mean(sets[np.arange(400), np.searchsorted(model.classes_, y)]))
    deviation = np.sqrt(0.95 * 0.05 * (1 / 102 + 1 / 400) / n_sets)
    # Sets that hold the most probable class whatever its probability cover more.
    assert np.mean(found) > 0.95 - 4 * deviation


# Rows aside


@pytest.mark.parametrize(
    ("n", "aside"), [(3, 1), (60, 30), (200, 100), (300, 100), (700, 140), (11_000, 2000)]
)
def test_how_many_rows_are_set_aside(n, aside):
    X = np.linspace(0, 1, n)[:, None]
    model = SparseGPRegressor(
        RBF(), noise=0.1, n_basis=2, optimizer=None, certificate=None, calibration="conformal"
    ).fit(X, X[:, 0])
    assert model.coverage_guarantee_.rows == len(model.conformal_rows_) == aside
    assert model._sums["n_rows"] == n - aside


def state(model):
    """Numbers by which two fitted models can be told apart."""
    part = getattr(model, "global_", model)
    scale = getattr(model, "_scale", None)
    return [
        part.dual_coef_,
        getattr(part, "basis_indices_", 0),
        str(model.kernel_),
        getattr(model, "noise_", 0),
        None if scale is None else scale.mean,
        getattr(part, "classes_", 0),
    ]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(state(a), state(b), strict=True))


@named(REGRESSORS)
def test_rows_aside_have_no_part_in_a_regression(model, rows):
    X, y = rows
    first = made(model).fit(X, y)
    aside = first.conformal_rows_
    X_other, y_other = X.copy(), y.copy()
    X_other[aside], y_other[aside] = 100.0, 1e6
    second = made(model).fit(X_other, y_other)
    assert np.array_equal(second.conformal_rows_, aside)
    assert same(first, second)
    new = draw(np.random.default_rng(1), 50)[0]
    assert np.array_equal(first.predict(new), second.predict(new))
    assert first.predict_interval(new)[1].max() < second.predict_interval(new)[1].max()
    y_other = y.copy()
    y_other[np.setdiff1d(np.arange(400), aside)[7]] += 1.0
    assert not same(first, made(model).fit(X, y_other))


@named(CLASSIFIERS)
def test_rows_aside_have_no_part_in_a_classification(model, labelled):
    X, y = labelled
    first = made(model).fit(X, y)
    X_other, y_other = X.copy(), y.astype("U8")
    X_other[first.conformal_rows_], y_other[first.conformal_rows_] = 100.0, "low"
    assert same(first, made(model).fit(X_other, y_other))
    y_other[np.setdiff1d(np.arange(400), first.conformal_rows_)[7]] = "none"
    assert not same(first, made(model).fit(X_other, y_other))


def test_near_rows_are_never_rows_aside(rows):
    X, y = rows
    model = made(REGRESSORS[3]).fit(X, y)
    assert model.n_neighbors_ > 0
    kept = {tuple(row) for row in model._kept.items}
    assert len(kept) == 300
    assert not kept & {tuple(row) for row in X[model.conformal_rows_]}
    assert model.global_._sums["n_rows"] == 300
    assert not hasattr(model.global_, "conformal_rows_")


def test_levels_of_rows_aside_are_unknown(rows):
    X, y = rows
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(city=["Graz", "Wien"] * 200)
    options = {"n_basis": 20, "random_state": 0, "calibration": "conformal"}
    first = SparseGPRegressor(**options).fit(frame, y)
    other = frame.copy()
    other.loc[first.conformal_rows_, "city"] = "Linz"
    with pytest.warns(UserWarning, match="Linz"):
        second = SparseGPRegressor(**options).fit(other, y)
    assert list(second.categories_["city"]) == ["Graz", "Wien"]
    assert same(first, second)


def test_scores_are_errors_over_standard_deviations(rows):
    X, y = rows
    model = made(REGRESSORS[0]).fit(X, y)
    aside = model.conformal_rows_
    mean, std = model.predict(X[aside], return_std=True)
    score = np.sort(np.abs(y[aside] - mean) / std)
    new = draw(np.random.default_rng(1), 30)[0]
    centre, spread = model.predict(new, return_std=True)
    lower, upper = model.predict_interval(new, 0.8)
    factor = score[math.ceil(101 * 0.8) - 1]
    np.testing.assert_allclose(upper - centre, factor * spread, rtol=1e-8)
    np.testing.assert_allclose(centre - lower, factor * spread, rtol=1e-8)


@pytest.mark.parametrize("level", [0.0, 1e9])
def test_equal_scores_are_inside_their_own_interval(level):
    X = np.linspace(0, 1, 60)[:, None]
    model = SparseGPRegressor(RBF(0.2), noise=0.1, n_basis=5, optimizer=None)
    model.fit(X, np.full(60, level))
    X = X + 0.001
    mean, std = model.predict(X, return_std=True)
    y = mean + std / 3
    lower, upper = model.conformalize(X, y).predict_interval(X, 0.5)
    assert np.all((lower <= y) & (y <= upper))
    assert np.all(model.predict_quantile(X, 0.5) >= y)
    assert np.all(model.predict_quantile(X, 0.1) <= y)
    assert np.all(upper - mean < 0.34 * std)


def test_every_output_has_a_level_of_its_own(rows):
    X, y = rows
    Y = np.column_stack([y, 5 * np.random.default_rng(1).standard_cauchy(400)])
    model = made(REGRESSORS[0]).fit(X, Y)
    lower, upper = model.predict_interval(X[:9])
    assert lower.shape == upper.shape == (9, 2)
    assert model.predict_quantile(X[:9], [0.1, 0.5, 0.9]).shape == (9, 2, 3)
    mean, std = model.predict(X[model.conformal_rows_], return_std=True)
    score = np.sort(np.abs(Y[model.conformal_rows_] - mean) / std, axis=0)[90]
    centre, spread = model.predict(X[:9], return_std=True)
    np.testing.assert_allclose(upper - centre, score * spread, rtol=1e-8)
    assert "for each output by itself" in str(model.coverage_guarantee_)


def test_outputs_that_were_not_observed_do_not_count():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((60, 2))
    scores[:30, 1] = np.nan
    both = CoverageGuarantee(30, "", "", scores)
    for level in (0.1, 0.5, 0.9):
        apart = [of_scores(scores[:, 0]), of_scores(scores[30:, 1])]
        assert np.array_equal(both.largest(level), [one.largest(level) for one in apart])
        assert np.array_equal(both.quantile(level), [one.quantile(level) for one in apart])
    with pytest.raises(ValueError, match=r"98 % needs 49 rows or more .* there are 30"):
        both.largest(0.98)


@pytest.mark.parametrize("q", [0.05, 0.3, 0.5, 0.9])
def test_gaussian_intervals_are_those_of_the_normal_distribution(rows, q):
    X, y = rows
    model = SparseGPRegressor(**FIXED, noise=0.1, n_basis=20).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    z = NormalDist().inv_cdf(q)
    np.testing.assert_allclose(model.predict_quantile(X, q, "gaussian"), mean + z * std)
    if q > 0.5:
        lower, upper = model.predict_interval(X, 2 * q - 1, method="gaussian")
        np.testing.assert_allclose(upper, mean + z * std)
        np.testing.assert_allclose(lower, mean - z * std)


# What ends a guarantee


@named([REGRESSORS[0], SparseKernelRidge(alpha=0.1, refit=True, n_basis=20)])
def test_another_model_has_no_guarantee(model, rows):
    X, y = rows
    model = made(model).fit(X, y).conformalize(X[:50], y[:50])
    others = [
        model.truncated(5),
        model.emptied(),
        model.merge(model.emptied().partial_fit(X[:9], y[:9])),
        model.grow(keep=False),
        model.grow(25, X, y, np.ones(400)),
    ]
    assert all(other.coverage_guarantee_ is None for other in others)
    assert model.coverage_guarantee_.rows == 50
    model.partial_fit(X[:5], y[:5])
    assert model.coverage_guarantee_ is None
    with pytest.raises(ValueError, match="conformalize"):
        model.predict_interval(X)
    assert model.conformalize(X[:50], y[:50]).coverage_guarantee_ is not None


def test_rows_aside_are_no_weights_of_a_global_part(rows):
    X, y = rows
    model = FullScaleGPRegressor(
        **FIXED, noise=0.1, n_basis=9, n_neighbors=0, calibration="conformal"
    ).fit(X, y)
    fitted = np.setdiff1d(np.arange(len(X)), model.conformal_rows_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.leave_one_out(X[fitted], y[fitted])


def test_no_levels_and_no_rows_are_refused_with_the_remedy(rows):
    X, y = rows
    model = SparseGPRegressor(**FIXED, noise=0.1, n_basis=9, calibration="conformal").fit(X, y)
    for method in ("conformal", "gaussian"):
        with pytest.raises(ValueError, match="q is empty"):
            model.predict_quantile(X, [], method=method)
    seen_once = np.column_stack([y, np.where(np.arange(len(y)) < 1, y, np.nan)])
    model = SparseGPRegressor(**FIXED, noise=0.1, n_basis=9).fit(X, np.column_stack([y, y]))
    model.conformalize(X[50:90], seen_once[50:90])
    with pytest.raises(ValueError, match=r"there are 0: pass more to conformalize\(X, y\)\.$"):
        model.predict_interval(X)


def test_another_full_scale_model_has_no_guarantee(rows, labelled):
    X, y = rows
    model = made(REGRESSORS[3]).fit(X, y)
    assert model.truncated(5).coverage_guarantee_ is None
    assert model.without_neighbors().coverage_guarantee_ is None
    assert model.coverage_guarantee_.rows == 100
    assert model.partial_fit(X[:5], y[:5]).coverage_guarantee_ is None
    assert made(CLASSIFIERS[0]).fit(*labelled).truncated(5).coverage_guarantee_ is None


def test_a_fit_forgets_the_guarantee_of_the_one_before(rows):
    X, y = rows
    model = made(REGRESSORS[0]).fit(X, y)
    assert model.set_params(calibration="auto").fit(X, y).coverage_guarantee_ is None
    assert not hasattr(model, "conformal_rows_")


def test_the_first_rows_of_partial_fit_may_be_set_aside(rows):
    X, y = rows
    model = made(REGRESSORS[0]).partial_fit(X, y)
    assert model.coverage_guarantee_.rows == 100
    assert model.partial_fit(X, y).coverage_guarantee_ is None


# Classes


def test_sets_are_those_of_the_definition(labelled):
    X, y = labelled
    model = made(CLASSIFIERS[0]).fit(X, y)
    aside = model.conformal_rows_
    chances = model.predict_proba(X[aside])
    score = np.sort(
        [
            1 - p[list(model.classes_).index(label)]
            for p, label in zip(chances, y[aside], strict=True)
        ]
    )
    new = draw(np.random.default_rng(1), 200)[0]
    chances = model.predict_proba(new)
    expected = 1 - chances <= score[math.ceil(101 * 0.7) - 1] + 1e-9
    expected |= chances == chances.max(axis=1, keepdims=True)
    assert np.array_equal(model.predict_set(new, 0.7), expected)
    sizes = [model.predict_set(new, level).sum() for level in (0.5, 0.7, 0.9, 0.99)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_classes_that_are_not_known_are_never_covered(labelled):
    X, y = labelled
    model = SparseGPClassifier(**FIXED, n_basis=20).fit(X[:200], y[:200])
    plain = model.conformalize(X[200:], y[200:]).coverage_guarantee_.largest(0.9)
    y = y.copy()
    y[200:230] = "none"
    with pytest.warns(UserWarning, match="30 of the 200 rows are of classes"):
        model.conformalize(X[200:], y[200:])
    assert model.coverage_guarantee_.largest(0.8) > 0
    with pytest.raises(ValueError, match="no set of known classes reaches 90 %"):
        model.predict_set(X)
    assert np.isfinite(plain)


# Where rows come from


def test_intervals_of_rows_from_anywhere_are_the_same(rows, tmp_path):
    X, y = rows
    kernel = RBF(0.7)
    plain = made(REGRESSORS[0], kernel=kernel).fit(X, y)
    bounds = plain.predict_interval(X[:20])
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet")
    framed = made(REGRESSORS[0]).fit(frame, target="y")
    filed = made(REGRESSORS[0]).fit(tmp_path / "rows.parquet", target="y")
    for model, new in (
        (framed, frame[:20]),
        (filed, frame[:20]),
        (made(REGRESSORS[0]).fit(sparse.coo_array(X), y), sparse.csr_array(X[:20])),
        (
            made(REGRESSORS[0], kernel=lambda A, B: kernel(np.array(A), np.array(B))).fit(X, y),
            X[:20],
        ),
    ):
        np.testing.assert_allclose(model.predict_interval(new), bounds, rtol=1e-9)
    pursuit_file = tmp_path / "model.pursuit"
    plain.save(pursuit_file)
    loaded = pursuit.load(pursuit_file)
    assert np.array_equal(loaded.predict_interval(X[:20]), bounds)
    assert str(loaded.coverage_guarantee_) == str(plain.coverage_guarantee_)


def test_what_is_only_like_an_array_can_be_set_aside(rows):
    class Like:
        def __init__(self, values):
            self.values = values

        def __array__(self, dtype=None, copy=None):
            return np.array(self.values, dtype=dtype)

    X, y = rows
    model = made(REGRESSORS[0]).fit(Like(X), Like(y))
    expected = made(REGRESSORS[0]).fit(X, y).predict_interval(X)
    assert np.array_equal(model.predict_interval(X), expected)
    words = [f"{a:.1f} {b:.1f}" for a, b in X]

    def kernel(A, B):
        numbers = ([[float(one) for one in item.split()] for item in items] for items in (A, B))
        return RBF(0.7)(*map(np.array, numbers))

    model = made(REGRESSORS[0], kernel=kernel).fit(words, list(y))
    assert model.predict_interval(words[:9])[0].shape == (9,)


def test_intervals_of_dask_rows_are_lazy(rows):
    da = pytest.importorskip("dask.array")
    X, y = rows
    lazy = da.from_array(X, chunks=(130, 2))
    model = made(REGRESSORS[0]).fit(lazy, da.from_array(y, chunks=130))
    expected = made(REGRESSORS[0]).fit(X, y).predict_interval(X)
    lower, upper = model.predict_interval(lazy)
    assert hasattr(upper, "compute")
    np.testing.assert_allclose([lower.compute(), upper.compute()], expected, rtol=1e-9)
    assert model.predict_quantile(lazy, [0.1, 0.9]).compute().shape == (400, 2)


def test_a_kernel_matrix_has_intervals_of_one_width(rows):
    X, y = rows
    K = RBF(0.7)(X)
    model = made(REGRESSORS[0], kernel="precomputed").fit(K, y)
    lower, upper = model.predict_interval(K[:9])
    np.testing.assert_allclose(upper - lower, (upper - lower)[0], rtol=1e-6)
    error = np.abs(y - model.predict(K))[model.conformal_rows_]
    np.testing.assert_allclose((upper - lower)[0] / 2, np.sort(error)[90], rtol=1e-6)
    with pytest.raises(ValueError, match="callable kernel"):
        model.predict_interval(K[:9], method="gaussian")
    with pytest.raises(ValueError, match="callable kernel"):
        made(CLASSIFIERS[0], kernel="precomputed").fit(K, y > 0)


def test_weights_other_than_zero_do_not_choose_rows(rows):
    X, y = rows
    weights = np.where(np.arange(400) % 4 == 0, 0.0, 2.0)
    model = made(REGRESSORS[0]).fit(X, y, weights)
    assert model.coverage_guarantee_.rows == 100
    assert np.all(weights[model.conformal_rows_] > 0)
    kept = weights > 0
    some = made(REGRESSORS[0], calibration=None).fit(*draw(np.random.default_rng(1), 100))
    one = some.conformalize(X, y, weights).coverage_guarantee_.scores
    other = some.conformalize(X[kept], y[kept]).coverage_guarantee_.scores
    np.testing.assert_allclose(one, other, rtol=1e-10)


def test_certificates_say_that_rows_are_aside(rows):
    X, y = rows
    model = made(REGRESSORS[0]).fit(X, y)
    with pytest.warns(UserWarning, match="conformal_rows_"):
        model.certify(X, y)
    others = np.setdiff1d(np.arange(400), model.conformal_rows_)
    found = model.certify(X[others], y[others])
    assert found.upper == pytest.approx(model.certificate_.upper, rel=1e-9)


def test_rows_of_the_fit_are_told_from_others(rows):
    X, y = rows
    model = made(REGRESSORS[3], calibration="loo").fit(X, y)
    with pytest.warns(UserWarning, match="basis points are among these rows"):
        model.conformalize(X, y)
    model.conformalize(*draw(np.random.default_rng(1), 400))
    X = np.round(X)
    model = made(REGRESSORS[0]).fit(X, y)
    model.conformalize(np.round(draw(np.random.default_rng(1), 400)[0]), y)


def test_a_resumed_fit_sets_the_same_rows_aside(rows, tmp_path):
    X, y = rows
    options = {"random_state": None, "checkpoint": tmp_path / "fit"}
    first = made(REGRESSORS[1], **options).fit(X, y)
    again = made(REGRESSORS[1], **options).fit(X, y)
    assert np.array_equal(first.conformal_rows_, again.conformal_rows_)
    assert np.array_equal(first.predict_interval(X), again.predict_interval(X))
    other = made(REGRESSORS[1], random_state=None).fit(X, y)
    assert not np.array_equal(first.conformal_rows_, other.conformal_rows_)
    with pytest.raises(ValueError, match="begun with 400 rows"):
        made(REGRESSORS[1], **options).fit(X[:300], y[:300])
    near = made(REGRESSORS[3], random_state=None, checkpoint=tmp_path / "near")
    assert np.array_equal(near.fit(X, y).predict_interval(X), near.fit(X, y).predict_interval(X))


def test_the_report_tells_what_is_covered(rows, labelled):
    new = draw(np.random.default_rng(1), 500)
    model = made(REGRESSORS[0]).fit(*rows)
    panel, _ = describe(model, *new).panels  # and the rows predicted worst
    assert panel.text == str(model.coverage_guarantee_)
    lower, upper = model.predict_interval(new[0], 0.9)
    inside = np.mean((lower <= new[1]) & (new[1] <= upper))
    low, high = model.coverage_guarantee_.likely_coverage(0.9)
    assert ["90%", f"{low:.1%} to {high:.1%}", f"{inside:.1%}"] in panel.table.rows
    [panel] = describe(model).panels
    assert ["90%", f"{low:.1%} to {high:.1%}"] in panel.table.rows
    new = draw_classes(np.random.default_rng(1), 500)
    model = made(CLASSIFIERS[0]).fit(*labelled)
    sets = model.predict_set(new[0], 0.8)
    inside = np.mean(
        [label in model.classes_[one] for label, one in zip(new[1], sets, strict=True)]
    )
    panel, _ = describe(model, *new).panels  # and the rows predicted worst
    assert f"{inside:.1%}" in [row[2] for row in panel.table.rows if row[0] == "80%"]
    assert describe(model.truncated(9)).panels == ()


# Bad input


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, 90, "0.9", True, None, float("nan"), [0.9]])
def test_levels_are_probabilities(rows, labelled, level):
    model = made(REGRESSORS[0]).fit(*rows)
    for method in ("conformal", "gaussian"):
        with pytest.raises(ValueError, match="level must be a probability"):
            model.predict_interval(rows[0], level, method)
        with pytest.raises(ValueError, match="q must be a probability"):
            model.predict_quantile(rows[0], [level], method)
    with pytest.raises(ValueError, match="level must be a probability"):
        made(CLASSIFIERS[0]).fit(*labelled).predict_set(rows[0], level)


def test_what_is_missing_is_named(rows, labelled):
    X, y = rows
    model = SparseGPRegressor(**FIXED, noise=0.1, n_basis=20)
    with pytest.raises(NotFittedError):
        model.predict_interval(X)
    with pytest.raises(NotFittedError):
        model.conformalize(X, y)
    model.fit(X, y)
    both = r"calibration='conformal'.*conformalize\(X, y\).*method='gaussian'"
    with pytest.raises(ValueError, match=both):
        model.predict_interval(X)
    with pytest.raises(ValueError, match=both):
        model.predict_quantile(X, 0.5)
    with pytest.raises(ValueError, match=r"calibration='conformal'.*conformalize"):
        SparseGPClassifier(**FIXED, n_basis=9).fit(*labelled).predict_set(X)
    ridge = SparseKernelRidge().fit(X, y)
    with pytest.raises(ValueError, match=re.escape("call conformalize(X, y)")) as told:
        ridge.predict_interval(X)
    assert "calibration=" not in str(told.value)
    with pytest.raises(ValueError, match="has no standard deviation"):
        ridge.predict_interval(X, method="gaussian")
    with pytest.raises(ValueError, match="method must be"):
        model.predict_interval(X, method="normal")
    with pytest.raises(ValueError, match="one target per row"):
        model.conformalize(X, y[:9])
    with pytest.raises(ValueError, match="one target per row"):
        model.conformalize(X, None)
    with pytest.raises(ValueError, match="y has shape"):
        model.conformalize(X + 0.01, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="90 % needs 9 rows or more"):
        model.conformalize(X[:8], y[:8]).predict_interval(X)
    with pytest.raises(ValueError, match="n_samples=1"):
        made(REGRESSORS[0]).fit(X[:1], y[:1])


GLM_TARGETS = {
    "poisson": lambda rng, mean: rng.poisson(mean),
    "gamma": lambda rng, mean: rng.gamma(2.0, mean / 2.0),
    "logistic": lambda rng, mean: rng.beta(mean, 3.0),
    "huber": lambda rng, mean: mean + 0.3 * rng.standard_t(3, len(mean)),
    "quantile": lambda rng, mean: mean + 0.3 * mean * rng.standard_normal(len(mean)),
}


@pytest.mark.parametrize("loss", GLM_TARGETS)
def test_intervals_of_any_loss_cover_and_stay_where_targets_lie(loss, size):
    levels = [0.1, 0.9] if loss == "quantile" else 0.5
    covered, lowest, largest = [], np.inf, -np.inf
    for seed in range(size(8, 24)):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (1350, 1))
        y = GLM_TARGETS[loss](rng, np.exp(1 + np.sin(3 * X[:, 0])))
        model = SparseKernelGLM(
            RBF(0.5), loss=loss, quantile=levels, alpha=0.1, optimizer=None, n_basis=15
        )
        model.fit(X[:200], y[:200]).conformalize(X[200:350], y[200:350])
        lower, upper = model.predict_interval(X[350:], 0.9)
        covered.append(np.mean((lower <= y[350:]) & (y[350:] <= upper)))
        lowest, largest = min(lowest, lower.min()), max(largest, upper.max())
    # The coverage of one model has a deviation of .025.
    spread = 0.026 / np.sqrt(len(covered))
    assert 0.9 - 3 * spread < np.mean(covered) < 0.93 + 3 * spread
    assert lowest >= {"huber": -np.inf, "quantile": -np.inf}.get(loss, 0.0)
    assert largest <= {"logistic": 1.0}.get(loss, np.inf)


def test_intervals_of_counts_widen_with_their_mean():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 1))
    y = rng.poisson(np.exp(2 + 2 * X[:, 0]))
    model = SparseKernelGLM(RBF(0.5), alpha=0.1, optimizer=None, n_basis=15)
    model.fit(X[:400], y[:400]).conformalize(X[400:], y[400:])
    lower, upper = model.predict_interval([[-0.5], [0.9]], 0.8)
    mean = model.predict([[-0.5], [0.9]])
    factor = (upper - mean) / np.sqrt(mean)
    assert factor[0] == pytest.approx(factor[1], rel=1e-6)
    assert np.all(lower >= 0)


def test_intervals_of_a_model_with_offsets_are_refused():
    rng = np.random.default_rng(0)
    X, offset = rng.uniform(-1, 1, (100, 1)), rng.uniform(0, 1, 100)
    model = SparseKernelGLM(RBF(0.5), alpha=0.1, optimizer=None, n_basis=15)
    model.fit(X, rng.poisson(np.exp(offset)), offset=offset)
    with pytest.raises(ValueError, match="sample_weight=exposure"):
        model.conformalize(X + 0.01, np.ones(100))
