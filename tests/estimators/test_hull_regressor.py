"""l1-ball regression: beside Lasso, on all kinds of input, and with wrong calls."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import Lasso
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from pursuit import HullRegressor, Search, load, pairwise
from pursuit.estimators.hull import atoms as hullatoms
from pursuit.estimators.inputs import seeded


def wave(m, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(m, d))
    return X, np.sin(X[:, 0]) * np.cos(X[:, -1]) + 0.1 * rng.normal(size=m)


def lasso(A, y, penalty):
    """Coefficients, and whether they are proved to be within 1e-7."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Lasso(penalty, fit_intercept=False, tol=1e-13, max_iter=50_000).fit(A, y)
    return model.coef_, model.dual_gap_ < 1e-7


@pytest.mark.parametrize("part", [0.3, 0.1, 0.03])
@pytest.mark.parametrize("data", ["diabetes", "gaussian", "narrow kernel", "wide kernel"])
def test_objective_equals_that_of_lasso_at_its_radius(data, part, size):
    if data == "diabetes":
        A, y = load_diabetes(return_X_y=True)
        A, y = A * np.sqrt(len(A)), (y - y.mean()) / y.std()
    elif data == "gaussian":
        rng = np.random.default_rng(0)
        A = rng.normal(size=(size(150, 400), 300))
        y = A[:, :10].sum(axis=1) / 4 + rng.normal(size=len(A))
    else:
        X, y = wave(size(200, 500))
        A = rbf_kernel(X, gamma=1.0 if data == "narrow kernel" else 0.05)
    penalty = part * np.abs(A.T @ y).max() / len(y)
    coef, converged = lasso(A, y, penalty)
    radius = np.abs(coef).sum()
    theirs = 0.5 * np.mean((y - A @ coef) ** 2)
    model = HullRegressor("features", radius=radius, n_terms=1000, tol=1e-9).fit(A, y)
    ours = 0.5 * np.mean((y - model.predict(A)) ** 2)
    assert np.abs(model.coef_).sum() <= radius * (1 + 1e-9)
    assert model.certificate_.gap < 1e-6
    assert ours <= theirs + 1e-6
    if converged:
        assert ours == pytest.approx(theirs, abs=1e-6)
    if data == "diabetes":
        assert converged


@pytest.mark.parametrize("step", ["corrective", "joint", "frank-wolfe"])
def test_the_rate_bound_and_the_path(step):
    X, y = wave(150)
    model = HullRegressor(radius=3.0, gamma=1.0, step=step, n_terms=30, tol=1e-12).fit(X, y)
    best = HullRegressor(radius=3.0, gamma=1.0, tol=1e-10, n_terms=1000).fit(X, y)
    least = best.certificate_.lower
    path = model.path_
    assert len(path) == len(model.rate_bound_.size)
    assert np.all(np.diff(path.value) < 0)
    assert np.all(path.value - least <= model.rate_bound_.value)
    assert path.value[-1] == pytest.approx(np.mean((y - model.predict(X)) ** 2), rel=1e-9)
    assert path.entries[-1] >= 150 * 150
    assert model.n_terms_ <= 30


def test_kernel_atoms_are_columns_of_the_kernel_matrix():
    X, y = wave(120)
    K = rbf_kernel(X, gamma=0.7)
    atoms = HullRegressor(gamma=0.7, radius=5.0).fit(X, y)
    columns = HullRegressor("features", radius=5.0).fit(K, y)
    assert np.array_equal(atoms.basis_indices_, columns.basis_indices_)
    assert atoms.dual_coef_ == pytest.approx(columns.dual_coef_, rel=1e-9)
    new, _ = wave(20, seed=1)
    assert atoms.predict(new) == pytest.approx(columns.predict(rbf_kernel(new, X, gamma=0.7)))
    assert np.array_equal(atoms.basis_, X[atoms.basis_indices_])


def test_precomputed_callable_strings_centres_and_transformers():
    X, y = wave(80)
    K = rbf_kernel(X, gamma=0.5)
    plain = HullRegressor(gamma=0.5, radius=4.0).fit(X, y)
    expected = plain.predict(X)
    given = HullRegressor(kernel="precomputed", radius=4.0).fit(K, y)
    assert given.predict(K) == pytest.approx(expected, abs=1e-9)
    assert given.basis_ is None
    called = HullRegressor(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.5), radius=4.0).fit(X, y)
    assert called.predict(X) == pytest.approx(expected, abs=1e-9)
    words = ["".join(chr(97 + int(v) % 5) for v in 9 * row) for row in X]
    same = pairwise(lambda a, b: float(len(set(a) & set(b))))
    strings = HullRegressor(kernel=same, radius=1.0).fit(words, y)
    assert strings.predict(words[:3]).shape == (3,)
    own = Search("pooled", candidates=X[:10])
    centred = HullRegressor(kernel=RBF(1.0), radius=4.0, search=own).fit(X, y)
    assert np.all(centred.basis_indices_ == -1)
    assert len(centred.basis_) == centred.n_terms_ <= 10
    made = HullRegressor(PolynomialFeatures(3), radius=1.0).fit(X, y)
    assert made.coef_.shape == (made.transformer_.n_output_features_,)
    both = 2 * RBF(1.0)(X)[:, 3] - RBF(0.2)(X)[:, 7]
    two = HullRegressor(kernel=[RBF(1.0), RBF(0.2)], radius=3.0, tol=1e-13).fit(X, both)
    large = np.abs(two.dual_coef_) > 0.1
    assert np.array_equal(two.basis_indices_[large], [3, 7])
    assert np.array_equal(two.kernel_indices_[large], [0, 1])
    assert two.dual_coef_[large] == pytest.approx([2.0, -1.0], abs=0.05)
    assert two.predict(X) == pytest.approx(both, abs=1e-3)
    one_of_two = HullRegressor(kernel=[RBF(1.0), RBF(1.0)], radius=4.0).fit(X, y)
    assert one_of_two.predict(X) == pytest.approx(expected, abs=1e-5)


def test_sparse_float32_and_frames_agree():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 8)) * (rng.random((90, 8)) < 0.5)
    y = X[:, 0] - 2 * X[:, 3] + 0.1 * rng.normal(size=90)
    dense = HullRegressor("features", radius=2.0).fit(X, y)
    csr = HullRegressor("features", radius=2.0).fit(sparse.csr_array(X), y)
    assert csr.coef_ == pytest.approx(dense.coef_, abs=1e-10)
    assert csr.predict(sparse.csr_array(X)) == pytest.approx(dense.predict(X))
    single = HullRegressor("features", radius=2.0).fit(X.astype(np.float32), y)
    assert single.coef_ == pytest.approx(dense.coef_, abs=1e-4)
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    framed = HullRegressor("features", radius=2.0).fit(frame, y)
    assert list(framed.feature_names_in_) == list("abcdefgh")
    kernel = HullRegressor(radius=2.0).fit(sparse.csr_array(X), y)
    assert kernel.predict(sparse.csr_array(X)) == pytest.approx(
        HullRegressor(radius=2.0).fit(X, y).predict(X), abs=1e-8
    )


def test_many_rows_use_the_gram_matrix_and_agree(monkeypatch):
    X, y = wave(400)
    options = {"gamma": 1.0, "search": Search("pooled", pool_size=60), "random_state": 0}
    stored = HullRegressor(**options).fit(X, y)
    monkeypatch.setattr(hullatoms, "STORED_ENTRIES", 0)
    summed = HullRegressor(**options).fit(X, y)
    assert summed.mse_path_ == pytest.approx(stored.mse_path_, rel=1e-5)
    assert summed.radius_ == pytest.approx(stored.radius_)
    assert summed.predict(X) == pytest.approx(stored.predict(X), abs=1e-5)


def test_weights_are_copies_and_zero_is_absent():
    X, y = wave(60)
    weights = np.tile([0.0, 1.0, 2.0], 20)
    options = {"gamma": 1.0, "radius": 3.0, "tol": 1e-10, "n_terms": 500}
    weighted = HullRegressor(**options).fit(X, y, sample_weight=weights)
    kept = weights > 0
    copies = np.repeat(np.arange(60), weights.astype(int))
    copied = HullRegressor(**options).fit(X[copies], y[copies])
    assert weighted.predict(X) == pytest.approx(copied.predict(X), abs=1e-6)
    absent = HullRegressor(**options).fit(X[kept], y[kept], sample_weight=weights[kept])
    assert np.array_equal(weighted.predict(X), absent.predict(X))
    assert np.all(weights[weighted.basis_indices_] > 0)


def test_cross_validation_picks_the_least_error_it_reports():
    X, y = wave(300)
    model = HullRegressor(gamma=1.0, random_state=0).fit(X, y)
    assert model.mse_path_.shape == (len(model.radii_), 5)
    assert np.diff(np.log2(model.radii_)) == pytest.approx(1.0)
    assert model.radius_ == model.radii_[model.mse_path_.mean(axis=1).argmin()]
    assert model.score(X, y) > 0.9


def test_the_errors_of_the_path_are_those_of_fits_to_the_folds():
    X, y = wave(100)
    search = Search("pooled", candidates=X)
    options = {"gamma": 1.0, "n_terms": 500, "search": search}
    model = HullRegressor(random_state=0, **options).fit(X, y)
    # The folds are what the seed draws.
    tests = np.array_split(seeded(0).permutation(100), 5)
    for i, radius in enumerate(model.radii_[:3]):
        for j, test in enumerate(tests):
            train = np.setdiff1d(np.arange(100), test)
            alone = HullRegressor(radius=radius, **options).fit(X[train], y[train])
            error = np.mean((y[test] - alone.predict(X[test])) ** 2)
            assert model.mse_path_[i, j] == pytest.approx(error, rel=0.01)


def test_same_answer_whatever_the_number_of_threads():
    X, y = wave(2100)
    search = Search("pooled", pool_size=300)
    options = {"gamma": 1.0, "search": search, "n_terms": 30, "random_state": 3}
    one, two = (HullRegressor(n_jobs=n, **options).fit(X, y) for n in (1, 2))
    assert np.array_equal(one.dual_coef_, two.dual_coef_)
    assert np.array_equal(one.mse_path_, two.mse_path_)
    assert one.radius_ == two.radius_


def test_pipeline_clone_pickle_and_refit():
    X, y = wave(100)
    pipe = make_pipeline(StandardScaler(), HullRegressor(radius=10.0)).fit(X, y)
    assert pipe.score(X, y) > 0.5
    model = clone(pipe[-1]).set_params(atoms="features").fit(X, y)
    assert not hasattr(model.set_params(atoms="kernel").fit(X, y), "coef_")
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))


def test_parameters_set_after_a_fit_wait_for_the_next_one():
    X, y = wave(60)
    later = {"kernel": "linear", "gamma": 9.0, "radius": 0.1, "loss": "huber"}
    for model in (HullRegressor(radius=3.0), HullRegressor(kernel=["rbf", RBF(2.0)], radius=3.0)):
        expected = model.fit(X, y).predict(X)
        assert np.array_equal(model.set_params(**later).predict(X), expected)
    made = HullRegressor(PolynomialFeatures(2), radius=1.0).fit(X, y)
    expected = made.predict(X)
    assert np.array_equal(made.set_params(atoms="features").predict(X), expected)


def test_points_of_your_own_are_saved_with_the_search(tmp_path):
    X, y = wave(60)
    search = Search("pooled", candidates=X[:7])
    model = HullRegressor(radius=3.0, search=search).fit(X, y)
    model.save(tmp_path / "model.pursuit")
    again = load(tmp_path / "model.pursuit")
    assert np.array_equal(again.search.candidates, X[:7])
    assert np.array_equal(again.predict(X), model.predict(X))


def test_a_target_of_zeros_has_nothing_to_learn():
    X, _ = wave(30)
    model = HullRegressor().fit(X, np.zeros(30))
    assert np.all(model.predict(X) == 0)
    assert model.certificate_.relative_gap == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 0.0}, "radius"),
        ({"radius": -1.0}, "radius"),
        ({"n_terms": 0}, "n_terms"),
        ({"step": "greedy"}, "step"),
        ({"kernel": []}, "empty list"),
        ({"search": Search("pooled", candidates=np.ones((3, 5)))}, "candidates has 5 features"),
        (
            {"search": Search("pooled", candidates=np.ones((3, 2))), "kernel": "precomputed"},
            "leave candidates out",
        ),
        ({"search": "fresh"}, "search must be 'pooled', 'full' or a Search"),
        ({"search": Search("pooled", rounds=2)}, "rounds has no effect"),
        ({"search": Search("full", pool_size=20)}, "pool_size has no effect"),
        ({"kernel": "nonsense"}, "not a known name"),
        ({"atoms": "feature"}, "must be 'kernel', 'features' or a transformer"),
        ({"atoms": np.ones((3, 2))}, r"Search\('pooled', candidates=points\)"),
        ({"atoms": "features", "kernel": "nonsense"}, "kernel='nonsense' is for atoms='kernel'"),
        ({"atoms": "features", "gamma": 0.5}, "gamma=0.5 is for atoms='kernel'"),
        ({"atoms": PolynomialFeatures(), "degree": 2}, "degree=2 is for atoms='kernel'"),
        ({"atoms": "features", "kernel_params": {}}, "kernel_params={} is for atoms='kernel'"),
        (
            {"atoms": "features", "search": Search("pooled", pool_size=3)},
            "search=.* is for atoms='kernel'",
        ),
    ],
)
def test_wrong_arguments_are_named(options, message):
    X, y = wave(30)
    with pytest.raises(ValueError, match=message):
        HullRegressor(**options).fit(X, y)


def test_wrong_targets_are_named():
    X, y = wave(30)
    with pytest.raises(ValueError, match="requires y"):
        HullRegressor().fit(X)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        HullRegressor(radius=1.0).fit(X, y[:-1])
    with pytest.raises(ValueError, match="at least 2 rows"):
        HullRegressor().fit(X[:1], y[:1])
