"""Mixtures that grow: beside scikit-learn's, with weights, duplicates and wrong calls."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_circles, make_moons
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pursuit import HullMixture
from pursuit.estimators.hull.mixture import pruned
from pursuit.solvers import EM, Mixture


def clusters(n=600, seed=0, k=3, d=2):
    rng = np.random.default_rng(seed)
    centres = 6 * np.column_stack([np.cos(2 * np.pi * np.arange(k) / k), np.arange(k) % 2])
    centres = np.hstack([centres, np.zeros((k, d - 2))])
    part = rng.integers(0, k, n)
    return centres[part] + rng.normal(size=(n, d)) * rng.uniform(0.3, 1, (k, d))[part], part


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_finds_well_separated_clusters(kind):
    X, part = clusters()
    if kind == "spherical":
        X = X + 0.2 * np.random.default_rng(1).normal(size=X.shape)
    model = HullMixture(covariance_type=kind, random_state=0).fit(X)
    assert model.n_terms_ >= 3
    if kind != "spherical":
        assert model.n_terms_ == 3
        found = model.predict(X)
        for j in range(3):
            mine = found[part == j]
            assert np.mean(mine == np.bincount(mine).argmax()) > 0.99
    reference = GaussianMixture(3, covariance_type=kind, random_state=0, n_init=5).fit(X)
    assert model.score(X) > reference.score(X) - 0.01
    assert model.covariances_.shape[1:] == reference.covariances_.shape[1:]


def test_values_are_those_of_a_scikit_learn_mixture_with_the_same_parameters():
    X, _ = clusters(300)
    model = HullMixture(random_state=0).fit(X)
    twin = GaussianMixture(model.n_terms_)
    twin.weights_, twin.means_ = model.weights_, model.means_
    twin.covariances_ = model.covariances_
    twin.precisions_cholesky_ = np.linalg.cholesky(np.linalg.inv(model.covariances_))
    new, _ = clusters(50, seed=1)
    assert model.score_samples(new) == pytest.approx(twin.score_samples(new), rel=1e-6)
    assert model.predict_proba(new) == pytest.approx(twin.predict_proba(new), abs=1e-6)
    assert model.bic(new) == pytest.approx(twin.bic(new), rel=1e-6)
    assert model.aic(new) == pytest.approx(twin.aic(new), rel=1e-6)


@pytest.mark.parametrize("data", ["moons", "rings"])
def test_near_a_search_over_sizes(data, size):
    n = size(1500, 8000)
    make = make_moons if data == "moons" else make_circles
    options = {"noise": 0.08} if data == "moons" else {"noise": 0.06, "factor": 0.5}
    X = make(n, random_state=0, **options)[0]
    train, test = X[::2], X[1::2]
    fits = [GaussianMixture(k, random_state=0).fit(train) for k in range(1, 16)]
    reference = min(fits, key=lambda fit: fit.bic(train))
    ours = np.mean([HullMixture(random_state=s).fit(train).score(test) for s in range(2)])
    assert ours > reference.score(test) - 0.03


@given(seed=st.integers(0, 10_000))
def test_the_likelihood_rises_with_every_component(seed):
    rng = np.random.default_rng(seed)
    X, _ = clusters(80, seed=seed, k=int(rng.integers(1, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = HullMixture(random_state=seed, n_terms=6).fit(X)
    stages = [float(found.mean()) for found in model.staged_score_samples(X)]
    assert len(stages) == len(model.criterion_path_) == len(model.path_) + 1
    # The floor on the variances moves the optimum of an EM step by about its size.
    assert np.all(np.diff(stages) > -1e-5)
    assert model.weights_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("make", [make_moons, make_circles])
def test_what_is_returned_is_not_worse_than_any_stage_of_growth(make):
    X = make(400, noise=0.08, random_state=1)[0]
    model = HullMixture(random_state=0).fit(X)
    assert model.bic(X) / 800 <= model.criterion_path_.min() + 1e-9


def test_a_component_that_is_there_twice_is_left_out():
    X, _ = clusters(300)
    em = EM(X / 3, np.full(300, 1 / 300), "full", 1e-6)
    one = em.single()
    twice = one.with_component(0.4, one.means[0], one.factors[0])
    fewer = pruned(twice, em, lambda mixture: mixture.n_parameters * np.log(300) / 600)
    assert fewer.size == 1
    assert fewer.log_density(em.X) == pytest.approx(one.log_density(em.X), abs=1e-5)


def test_pruning_stops_where_every_component_counts():
    X, _ = clusters(300)
    em = EM(X / 3, np.full(300, 1 / 300), "full", 1e-6)
    parts = [X[i : i + 1] / 3 for i in range(3)]
    three = Mixture(np.ones(3) / 3, np.vstack(parts), np.tile(np.eye(2), (3, 1, 1)), "full")
    kept = pruned(three, em, lambda mixture: -float(em.weights @ mixture.log_density(em.X)))
    assert kept.size == 3
    assert pruned(three, em, lambda mixture: float(mixture.size)).size == 1


@pytest.mark.parametrize("criterion", ["bic", "validation", "certificate"])
def test_criteria(criterion):
    X, _ = clusters(500)
    options = {"tol": 1.9} if criterion == "certificate" else {}
    model = HullMixture(criterion=criterion, n_terms=12, random_state=0, **options).fit(X)
    assert 2 <= model.n_terms_ <= 12
    if criterion != "certificate":
        best = int(np.argmin(model.criterion_path_))
        assert model.n_terms_ <= best + 1
    assert model.path_.stop_reason in ("no gain", "n_terms", "tol", "rank")
    assert model.score(X) > GaussianMixture(1).fit(X).score(X)
    one = HullMixture(criterion=criterion, n_terms=1, random_state=0).fit(X)
    assert one.n_terms_ == 1
    assert len(one.path_) == 0


def test_weights_are_copies_and_zero_is_absent():
    X, _ = clusters(50)
    weights = np.tile([0.0, 1.0, 2.0, 1.0, 3.0], 10)
    options = {"n_terms": 4, "random_state": 0}
    weighted = HullMixture(**options).fit(X, sample_weight=weights)
    copies = np.repeat(np.arange(50), weights.astype(int))
    copied = HullMixture(**options).fit(X[copies])
    assert weighted.score_samples(X) == pytest.approx(copied.score_samples(X), abs=1e-4)
    kept = weights > 0
    absent = HullMixture(**options).fit(X[kept], sample_weight=weights[kept])
    assert np.array_equal(weighted.means_, absent.means_)
    mean = weighted.score(X, sample_weight=weights)
    assert mean == pytest.approx(copied.score(X[copies]), abs=1e-4)


def test_units_do_not_matter():
    X, _ = clusters(200)
    plain = HullMixture(random_state=0).fit(X)
    moved = HullMixture(random_state=0).fit(X * [1000.0, 0.001] + [1e6, -5.0])
    assert moved.n_terms_ == plain.n_terms_
    assert moved.score_samples(X * [1000.0, 0.001] + [1e6, -5.0]) == pytest.approx(
        plain.score_samples(X), abs=1e-3
    )


def test_samples_follow_the_mixture():
    X, _ = clusters(400)
    model = HullMixture(random_state=0).fit(X)
    drawn, component = model.sample(5000)
    assert drawn.shape == (5000, 2)
    assert np.all(np.diff(component) >= 0)
    assert drawn.mean(axis=0) == pytest.approx(model.weights_ @ model.means_, abs=0.15)
    assert model.score(drawn) == pytest.approx(model.score(X), abs=0.1)
    for kind in ("diag", "spherical"):
        other = HullMixture(covariance_type=kind, random_state=0).fit(X)
        assert other.score(other.sample(3000)[0]) == pytest.approx(other.score(X), abs=0.15)
    with pytest.raises(ValueError, match="at least 1"):
        model.sample(0)


def test_duplicated_points_meet_the_floor_and_warn():
    rng = np.random.default_rng(0)
    X = np.concatenate([np.tile([[1.0, 2.0]], (60, 1)), rng.normal(size=(60, 2))])
    with pytest.warns(UserWarning, match="least variance allowed"):
        model = HullMixture(random_state=0).fit(X)
    assert np.all(np.isfinite(model.score_samples(X)))
    with pytest.warns(UserWarning, match="least variance allowed"):
        flat = HullMixture(random_state=0).fit(np.column_stack([X[60:], np.ones(60)]))
    assert np.isfinite(flat.score(np.column_stack([X[60:], np.ones(60)])))
    with pytest.warns(UserWarning, match="least variance allowed"):
        HullMixture().fit(np.ones((10, 2)))


def test_same_answer_whatever_the_number_of_threads():
    X, _ = clusters(3000)
    one, two = (HullMixture(random_state=0, n_jobs=n).fit(X) for n in (1, 2))
    assert np.array_equal(one.means_, two.means_)


def test_pipeline_frame_clone_and_pickle():
    X, _ = clusters(100)
    pipe = make_pipeline(StandardScaler(), HullMixture(random_state=0)).fit(X)
    again = pickle.loads(pickle.dumps(pipe))
    assert again.score(X) == pipe.score(X)
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert list(HullMixture(n_terms=2).fit(frame).feature_names_in_) == ["a", "b"]
    assert np.array_equal(clone(pipe[-1]).fit(X).means_, clone(pipe[-1]).fit(X).means_)
    single = HullMixture(random_state=0).fit(X.astype(np.float32))
    assert single.score(X) == pytest.approx(HullMixture(random_state=0).fit(X).score(X), abs=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bandwidths": [0.5, 0.0]}, "bandwidths must hold positive"),
        ({"bandwidths": "wide"}, "bandwidths"),
        ({"covariance_type": "tied"}, "covariance_type"),
        ({"n_terms": 0}, "n_terms"),
        ({"criterion": "guess"}, "criterion"),
        ({"reg_covar": 0.0}, "reg_covar"),
        ({"refine": "yes"}, "refine"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    X, _ = clusters(30)
    with pytest.raises(ValueError, match=message):
        HullMixture(**options).fit(X)
