"""std_bounds around the exact Gaussian process's standard deviation at every point."""

from functools import partial

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic

from pursuit import Search, SparseGPRegressor, pairwise

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""

FAR = 1e3


def exact_std(kernel, X, new, noise, weights=None, scale=1.0):
    """√(k(x,x) + σ² - k'(K + σ²W⁻¹)⁻¹k), noise included, by a dense solve."""
    w = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    X, w = X[w > 0], w[w > 0]
    k = kernel(X, new)
    explained = np.sum(k * np.linalg.solve(kernel(X) + np.diag(noise / w), k), axis=0)
    return scale * np.sqrt(np.maximum(kernel.diag(new) + noise - explained, 0.0))


def relative_distance(lower, upper, prior):
    """2(Q* - l)/(-Q* - l): how far apart the bounds of the explained variance are (Formulas §7).

    The explained variance is what the squares leave of the prior, known to the rounding that the
    bounds allow for.
    """
    least, most = prior - upper**2, prior - lower**2
    apart = np.maximum(most - least - 1e-9 * prior, 0.0)
    # Where nothing is explained the bounds agree.
    return 2 * apart / np.maximum(least + most, np.finfo(float).tiny)


def assert_between(lower, exact, upper, rtol=1e-7):
    assert np.all(lower <= exact * (1 + rtol))
    assert np.all(upper >= exact * (1 - rtol))
    assert np.all(lower <= upper)


@given(
    st.data(),
    st.sampled_from([RBF(0.3), RBF(2.0), Matern(1.0, nu=0.5), RationalQuadratic(0.7, 2.0)]),
    st.sampled_from(["rows", "kmeans", "foreign"]),
    st.sampled_from([None, 0.5, 0.01]),
    st.floats(-2, 2).map(lambda power: 10.0**power),
    st.integers(2, 40),
    st.integers(1, 45),
    st.integers(1, 3),
    st.booleans(),
)
def test_the_exact_deviation_lies_between(
    weighted_scale, draw, kernel, candidates, tol, noise, m, n_basis, n_outputs, weighted
):
    rng = np.random.default_rng(draw.draw(st.integers(0, 10_000), label="seed"))
    X = np.round(rng.normal(size=(m, 2)), draw.draw(st.integers(0, 3), label="digits"))
    Y = np.sin(2 * X[:, :1]) + rng.normal(size=(m, n_outputs))
    weights = rng.choice([0.0, 0.1, 1.0, 7.0], m) if weighted else np.ones(m)
    weights[:2] = 1.0
    model = fixed_gp(
        kernel,
        noise=noise,
        n_basis=n_basis,
        search=Search(candidates=rng.normal(size=(20, 2)))
        if candidates == "foreign"
        else Search(candidates=candidates, pool_size=m),
        certificate=None,
        random_state=0,
    ).fit(X, Y, weights)
    new = np.vstack([rng.normal(size=(6, 2)), X[:3], X[:1], [[FAR, -FAR]]])
    lower, upper, *counts = model.std_bounds(new, X, weights, tol)
    _, scale = weighted_scale(Y, weights)
    exact = exact_std(kernel, X, new, noise, weights)[:, None] * scale
    exact = exact[:, 0] if n_outputs == 1 else exact
    assert lower.shape == upper.shape == exact.shape
    assert_between(lower, exact, upper)
    if tol is not None:
        [steps] = counts
        assert steps.shape == (len(new),)
        assert steps.dtype.kind == "i"
        assert np.all((steps >= 0) & (steps <= np.sum(weights > 0)))
        prior = kernel.diag(new) + noise
        first_lower, first_upper = (bound.reshape(len(new), -1)[:-1, 0] for bound in (lower, upper))
        reached = relative_distance(first_lower, first_upper, prior[:-1] * scale[0] ** 2)
        assert np.all(reached <= tol * (1 + 1e-6) + 1e-9)


@pytest.mark.parametrize("tol", [None, 0.1])
def test_far_away_only_the_prior_is_known(waves, rough_kernel, weighted_scale, tol):
    data = waves(60, n_outputs=2)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=20).fit(data.X, data.y)
    _, scale = weighted_scale(data.y)
    lower, upper, *counts = model.std_bounds(np.full((2, 2), FAR), data.X, tol=tol)
    for bound in (lower, upper):
        np.testing.assert_allclose(bound, np.sqrt(1.5 + 0.1) * np.tile(scale, (2, 1)), rtol=1e-9)
    assert all(np.all(steps == 0) for steps in counts)


@pytest.mark.parametrize("weighted", [False, True])
def test_all_rows_as_basis_leave_no_doubt(waves, rough_kernel, weighted_scale, weighted):
    data = waves(70)
    weights = np.random.default_rng(1).integers(0, 4, 70) / 2 if weighted else None
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=70).fit(data.X, data.y, weights)
    new = np.vstack([data.new, data.X[:10]])
    exact = exact_std(rough_kernel, data.X, new, 0.1, weights)
    exact *= weighted_scale(data.y, weights)[1]
    lower, upper = model.std_bounds(new, data.X, weights)
    np.testing.assert_allclose(lower, exact, rtol=1e-6)
    np.testing.assert_allclose(upper, exact, rtol=1e-6)


def test_more_basis_functions_bring_the_bounds_closer(waves, rough_kernel):
    data = waves(90)
    whole = fixed_gp(rough_kernel, noise=0.1, n_basis=80).fit(data.X, data.y)
    width = []
    for n in (5, 20, 80):
        lower, upper = whole.truncated(n).std_bounds(data.new, data.X)
        width.append(np.mean(upper - lower))
    assert width[0] > width[1] > width[2]
    assert width[2] < 0.1 * width[0]


def test_a_smaller_tol_takes_more_steps_and_is_tighter(waves, rough_kernel):
    data = waves(90)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=10, random_state=0)
    model.fit(data.X, data.y)
    loose, tight = (model.std_bounds(data.new, data.X, tol=tol) for tol in (0.5, 0.01))
    assert np.all(tight[2] >= loose[2])
    assert tight[2].sum() > loose[2].sum()
    assert np.all(tight[1] - tight[0] <= loose[1] - loose[0])


def test_a_basis_that_is_enough_needs_no_more(waves, rough_kernel):
    data = waves(70)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=70).fit(data.X, data.y)
    lower, upper, steps = model.std_bounds(data.new, data.X, tol=1e-3)
    assert not steps.any()
    for one, two in zip(model.std_bounds(data.new, data.X), (lower, upper), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)


@pytest.mark.parametrize("candidates", ["rows", "kmeans"])
def test_the_models_own_basis_saves_steps(waves, rough_kernel, candidates):
    """From the model's basis a query takes a fraction of the steps it takes from nothing."""
    data = waves(200)
    model = fixed_gp(
        rough_kernel,
        noise=0.1,
        n_basis=60,
        search=Search(candidates=candidates, pool_size=120),
        random_state=0,
    ).fit(data.X, data.y)
    exact = exact_std(rough_kernel, data.X, data.new, 0.1, scale=np.std(data.y))
    lower, upper, steps = model.std_bounds(data.new, data.X, tol=0.02)
    published = model._std_bounds(data.new, data.X, None, 0.02, own_basis=False)
    assert_between(lower, exact, upper)
    assert_between(published[0], exact, published[1])
    assert np.all(published[2] >= 1)
    assert np.all(steps <= published[2])
    assert steps.sum() <= 0.6 * published[2].sum()


def test_the_published_form_begins_with_nothing(waves, rough_kernel):
    """Whatever the model, with the same draws: Table 2 counts from an empty basis."""
    data = waves(80)
    counts = []
    for n_basis in (1, 40):
        model = fixed_gp(rough_kernel, noise=0.1, n_basis=n_basis, normalize_y=False)
        model.set_params(random_state=0).fit(data.X, data.y)
        found = model._std_bounds(data.new, data.X, None, 0.05, own_basis=False)
        counts.append(found)
    for one, two in zip(*counts, strict=True):
        np.testing.assert_array_equal(one, two)


def test_moved_points_are_no_rows_and_still_a_start(waves, rough_kernel):
    data = waves(60)
    foreign = np.random.default_rng(3).normal(size=(25, 2))
    model = fixed_gp(
        rough_kernel, noise=0.05, n_basis=25, search=Search(candidates=foreign), normalize_y=False
    )
    model.fit(data.X, data.y)
    assert np.all(model.basis_indices_ == -1)
    exact = exact_std(rough_kernel, data.X, data.new, 0.05)
    for tol in (1.5, 0.01):
        lower, upper, _ = model.std_bounds(data.new, data.X, tol=tol)
        assert_between(lower, exact, upper)


@pytest.mark.parametrize("tol", [None, 0.2])
def test_two_bounds_or_three_results_of_one_output(waves, rough_kernel, tol):
    data = waves(50)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=10).fit(data.X, data.y)
    found = model.std_bounds(data.new, data.X, tol=tol)
    assert len(found) == (2 if tol is None else 3)
    assert all(array.shape == (25,) for array in found)


@pytest.mark.parametrize("tol", [None, 0.2])
def test_a_seed_and_threads_do_not_change_a_bit(waves, rough_kernel, tol):
    data = waves(1500)
    arguments = {"noise": 0.1, "n_basis": 20, "certificate": None, "random_state": 3}
    found = [
        fixed_gp(rough_kernel, n_jobs=n_jobs, **arguments)
        .fit(data.X, data.y)
        .std_bounds(data.new[:4], data.X, tol=tol)
        for n_jobs in (1, 2)
    ]
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("tol", [None, 0.05])
def test_every_dress_of_the_rows(waves, rough_kernel, tol):
    data = waves(60)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=15, random_state=0)
    model.fit(data.X, data.y)
    expected = model.std_bounds(data.new, data.X, tol=tol)
    for X in (sparse.csr_array(data.X), data.X.tolist()):
        for new in (sparse.csr_array(data.new), data.new.tolist()):
            for got, wanted in zip(model.std_bounds(new, X, tol=tol), expected, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-8)


@pytest.mark.parametrize("tol", [None, 0.05])
def test_words(tol):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdef"), 4)) for _ in range(40)]
    new = ["abba", "cafe", "zz"]

    def common(a, b):
        return float(len(set(a) & set(b)))

    y = np.array([word.count("a") + 0.1 * rng.normal() for word in words])
    model = fixed_gp(pairwise(common), noise=0.1, n_basis=6).fit(words, y)
    K, k = (np.array([[common(a, b) for b in B] for a in words]) for B in (words, new))
    explained = np.sum(k * np.linalg.solve(K + 0.1 * np.eye(40), k), axis=0)
    prior = np.array([common(a, a) for a in new])
    lower, upper, *_ = model.std_bounds(new, words, tol=tol)
    assert_between(lower, np.std(y) * np.sqrt(prior + 0.1 - explained), upper)


def test_other_rows_pose_another_problem(waves, rough_kernel):
    data, other = waves(60), waves(30, seed=1)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=15).fit(data.X, data.y)
    exact = exact_std(rough_kernel, other.X, data.new, 0.1, scale=np.std(data.y))
    assert_between(*np.insert(model.std_bounds(data.new, other.X), 1, exact, axis=0))


@pytest.mark.parametrize(
    ("kernel", "noise"),
    [
        (RBF(4.0), 1e-3),
        (RBF(20.0), 1e-6),
        (Matern(1.0, nu=0.5), 1e-6),
        (DotProduct(1.0), 1e-3),
    ],
    ids=str,
)
@pytest.mark.parametrize("tol", [None, 0.01])
def test_little_noise_costs_no_rigour(kernel, noise, tol):
    """The exact variance in extended precision: a bound may be loose, not wrong."""
    rng = np.random.default_rng(0)
    X, e = rng.normal(size=(150, 2)), rng.normal(size=150)
    new = np.vstack([rng.normal(size=(10, 2)), X[:3], [[50.0, 50.0]]])
    L = oracles.long_cholesky(kernel(X) + noise * np.eye(150))
    half = oracles.long_forward(L, kernel(X, new))
    exact = np.sqrt(np.asarray(kernel.diag(new) + noise - (half**2).sum(axis=0), float))
    model = fixed_gp(
        kernel, noise=noise, n_basis=150, normalize_y=False, certificate=None, random_state=0
    ).fit(X, np.sin(2 * X[:, 0]) + 0.3 * e)
    lower, upper, *_ = model.std_bounds(new, X, tol=tol)
    assert_between(lower, exact, upper, rtol=1e-5)


def test_a_tol_out_of_reach_ends_and_still_bounds(waves, rough_kernel):
    data = waves(40)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=10).fit(data.X, data.y)
    lower, upper, steps = model.std_bounds(data.new, data.X, tol=1e-300)
    exact = exact_std(rough_kernel, data.X, data.new, 0.1, scale=np.std(data.y))
    assert_between(lower, exact, upper, rtol=1e-6)
    np.testing.assert_allclose(lower, upper, rtol=1e-6)
    assert np.all(steps <= 40)


def test_bad_input(waves, rough_kernel):
    data = waves(40)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=10).fit(data.X, data.y)
    broken = data.new.copy()
    broken[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.std_bounds(broken, data.X)
    with pytest.raises(ValueError, match="NaN"):
        model.std_bounds(data.new, broken)
    with pytest.raises(ValueError, match=r"3 features.*expecting 2 features"):
        model.std_bounds(np.ones((4, 3)), data.X)
    with pytest.raises(ValueError, match=r"3 features.*expecting 2 features"):
        model.std_bounds(data.new, np.ones((4, 3)))
    for tol in (0, -0.1, np.inf, np.nan, "small"):
        with pytest.raises(ValueError, match="tol must be a positive number"):
            model.std_bounds(data.new, data.X, tol=tol)
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        model.std_bounds(data.new, data.X, np.zeros(40))


def test_a_given_matrix_does_not_hold_what_is_needed(waves, rough_kernel):
    data = waves(40)
    K = rough_kernel(data.X)
    model = fixed_gp("precomputed", noise=0.1, n_basis=10).fit(K, data.y)
    with pytest.raises(ValueError, match=r"std_bounds needs k\(x, x\).*callable kernel"):
        model.std_bounds(K[:3], K)


def test_forgotten_weights_are_noticed(waves, rough_kernel):
    data = waves(40)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=10)
    model.fit(data.X, data.y, np.linspace(0.5, 2.0, 40))
    with pytest.warns(UserWarning, match="sample_weight"):
        model.std_bounds(data.new, data.X)
