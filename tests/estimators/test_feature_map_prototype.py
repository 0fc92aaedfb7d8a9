"""SS00 Algorithm 1 in GreedyFeatureMap: every rule with every projection, and functions for both.

The truth is a loop over dense matrices written from the paper: the residual matrix of a projection
is formed from scratch at every step, and the three scores from it.
"""

from itertools import product

import numpy as np
import pytest
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

from pursuit import GreedyFeatureMap, Search, load
from pursuit.greedy import AllCandidates, FreshSubset

RULES = ("function", "frobenius", "column")
PROJECTIONS = ("function", "column", "kronecker")
PAIRS = list(product(RULES, PROJECTIONS))


def random_kernel(seed):
    """A kernel matrix and weights: five kinds of kernels, diagonals constant and not."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(40, 80))
    X = rng.standard_normal((m, int(rng.integers(2, 5))))
    kind = seed % 5
    if kind == 0:
        K = rbf_kernel(X, gamma=rng.uniform(0.3, 1.5))
    elif kind == 1:
        K = laplacian_kernel(X, gamma=rng.uniform(0.2, 1.0))
    elif kind == 2:
        scale = rng.uniform(0.5, 2.0, m)
        K = scale[:, None] * rbf_kernel(X, gamma=0.8) * scale
    elif kind == 3:
        K = polynomial_kernel(X, degree=3) + 0.1 * np.eye(m)
    else:
        A = rng.standard_normal((m, m)) * np.exp(-np.arange(m) / 10.0)
        K = A @ A.T + 1e-3 * np.eye(m)
    weights = np.ones(m) if seed % 2 else rng.uniform(0.3, 2.0, m)
    return K, weights


def coefficients(K, w, S, projection):
    """T: the best coefficients in function space (19), in column space (15), or none (23)."""
    S = list(S)
    if projection == "kronecker":
        return np.array(np.arange(len(K))[:, None] == S, dtype=float).reshape(len(K), len(S))
    if projection == "function":
        return np.linalg.solve(K[np.ix_(S, S)], K[S]).T
    root = np.sqrt(w)[:, None]
    return np.linalg.lstsq(root * K[:, S], root * K, rcond=None)[0].T


def scores(K, w, S, rule, projection):
    """Equations (31), (27) and (32) with E = K - K_S T', a weight as so many copies of a row."""
    E = K - K[:, list(S)] @ coefficients(K, w, S, projection).T
    squares = w @ E**2
    if rule == "column":
        return squares
    with np.errstate(divide="ignore", invalid="ignore"):
        if rule == "function":
            return np.where(np.diag(E) > 0, squares / np.diag(E), 0.0)
        return w @ (E.T @ (w[:, None] * E)) ** 2 / squares


@pytest.fixture
def draws(monkeypatch):
    """The candidates of every step, in the order in which the library drew them."""
    log = []
    for cls in (FreshSubset, AllCandidates):
        original = cls.draw

        def draw(self, available, original=original):
            drawn = original(self, available)
            log.append(drawn)
            return drawn

        monkeypatch.setattr(cls, "draw", draw)
    return log


def fitted(K, weights, **options):
    defaults = {"kernel": "precomputed", "n_components": 10, "random_state": 0}
    return GreedyFeatureMap(**{**defaults, **options}).fit(K, sample_weight=weights)


@pytest.mark.parametrize("search", ["fresh", "full"])
@pytest.mark.parametrize(("rule", "projection"), PAIRS)
def test_all_pairs_pick_what_the_paper_picks(rule, projection, search, draws, size):
    wrong = 0
    for seed in range(size(20, 100)):
        K, w = random_kernel(seed)
        draws.clear()
        model = fitted(
            K,
            w,
            rule=rule,
            projection=projection,
            search=Search("fresh", pool_size=12) if search == "fresh" else search,
            random_state=seed,
        )
        S = model.component_indices_
        assert len(S) == len(draws) == 10
        for step, (picked, M) in enumerate(zip(S, draws, strict=True)):
            of_all = scores(K, w, S[:step], rule, projection)
            wrong += picked != M[of_all[M].argmax()]
        T = coefficients(K, w, S, projection)
        np.testing.assert_allclose(K[:, S] @ model.T_.T, K[:, S] @ T.T, atol=1e-7 * K.max())
        left = np.eye(len(K))
        left[:, S] -= T
        expected = w @ np.einsum("ij,jk,ik->i", left, K, left)
        assert model.residual_trace_ == pytest.approx(expected, rel=1e-6)
        V = model.transform(K)
        np.testing.assert_allclose(
            V @ V.T, K[:, S] @ np.linalg.solve(K[np.ix_(S, S)], K[S]), atol=1e-8 * K.max()
        )
    assert wrong == 0


@pytest.mark.parametrize("projection", ["function", "column"])
@pytest.mark.parametrize("rule", RULES)
def test_picks_stay_right_when_little_is_left(rule, projection):
    """Forty rows of a smooth kernel: norms of residual columns have fallen to 1e-8 of the first."""
    K = rbf_kernel(np.random.default_rng(0).standard_normal((150, 2)), gamma=0.2)
    w = np.ones(150)
    S = fitted(K, w, rule=rule, projection=projection, search="full", n_components=40)
    S = S.component_indices_
    assert len(S) == 40
    for step in range(40):
        of_all = scores(K, w, S[:step], rule, projection)
        of_all[S[:step]] = 0.0
        assert of_all[S[step]] >= (1 - 1e-6) * of_all.max()


@pytest.mark.parametrize(("rule", "projection"), PAIRS)
def test_picks_of_another_projection_are_wrong(rule, projection):
    """The comparison above can fail: it does for the same rule with any other projection."""
    for other in PROJECTIONS:
        wrong = 0
        for seed in range(5):
            K, w = random_kernel(seed)
            S = fitted(K, w, rule=rule, projection=other, search="full").component_indices_
            for step, picked in enumerate(S):
                of_all = scores(K, w, S[:step], rule, projection)
                of_all[S[:step]] = -np.inf
                wrong += picked != of_all.argmax()
        assert (wrong == 0) == (other == projection)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_exact_tolerances_are_about_the_projection_in_the_loop(projection):
    K, w = random_kernel(6)
    tol = 0.3
    model = fitted(
        K, w, rule="column", projection=projection, residual_tol=tol, n_components=len(K)
    )
    assert model.path_.stop_reason == "tol"

    def left(S):
        T = coefficients(K, w, S, projection)
        if projection == "column":
            return w @ (K - K[:, S] @ T.T) ** 2 @ w
        L = np.eye(len(K))
        L[:, S] -= T
        return w @ np.einsum("ij,jk,ik->i", L, K, L)

    S = list(model.component_indices_)
    start = left([])
    assert left(S) <= tol * start * (1 + 1e-9)
    assert left(S[:-1]) > tol * start


@pytest.mark.parametrize(("rule", "projection"), PAIRS)
def test_functions_of_the_user_give_what_the_names_give(rule, projection):
    K, w = random_kernel(2)

    def pick(step):
        S, M = step.chosen, step.candidates
        expected = step.columns - step.chosen_columns @ step.T[M].T
        np.testing.assert_allclose(step.residuals, expected, atol=1e-9)
        np.testing.assert_array_equal(step.columns, K[:, M])
        np.testing.assert_array_equal(step.chosen_columns, K[:, S])
        return M[scores(K, w, S, rule, projection)[M].argmax()]

    def project(step, picked):
        return coefficients(K, w, [*step.chosen, picked], projection)

    fresh = Search("fresh", pool_size=12)
    named = fitted(K, w, rule=rule, projection=projection, search=fresh)
    for own in ({"rule": pick}, {"projection": project}, {"rule": pick, "projection": project}):
        options = {"rule": rule, "projection": projection, **own}
        for search in (fresh, "full"):
            model = fitted(K, w, search=search, **options)
            if search == "full":
                reference = fitted(K, w, rule=rule, projection=projection, search="full")
            else:
                reference = named
            np.testing.assert_array_equal(model.component_indices_, reference.component_indices_)
            np.testing.assert_allclose(model.T_, reference.T_, atol=1e-6)
            assert model.residual_trace_ == pytest.approx(reference.residual_trace_, rel=1e-6)
            np.testing.assert_allclose(model.transform(K), reference.transform(K), atol=1e-8)


def test_a_bound_of_the_users_stops_the_loop():
    K, w = random_kernel(1)
    seen = []

    def bound(step, picked, T):
        S = [*step.chosen, picked]
        E = K - K[:, S] @ T.T
        seen.append(float(w @ np.diag(E) / (w @ np.diag(K))))
        return seen[-1]

    model = fitted(K, w, stop=bound, residual_tol=0.4, n_components=len(K))
    exact = fitted(K, w, search="fresh", residual_tol=0.4, n_components=len(K))
    np.testing.assert_array_equal(model.component_indices_, exact.component_indices_)
    assert model.path_.stop_reason == "tol"
    assert seen[-1] <= 0.4 < seen[-2]
    # In the bound's own units: a share of 1 need not be the most there is.
    counted = fitted(K, w, stop=lambda step, picked, T: 5.0 - len(step.chosen), residual_tol=2.0)
    assert len(counted.component_indices_) == 4


POINTS = Search("pooled", candidates=[1, 2])


def taken(step):
    return step.chosen[0] if len(step.chosen) else step.candidates[0]


def outside(step):
    return np.setdiff1d(np.arange(len(step.weights)), [*step.candidates, *step.chosen])[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": taken}, "rule returned row .* taken already: return one of step.candidates"),
        ({"rule": outside}, "rule returned row .* not among the 5 candidates"),
        ({"rule": lambda step: 2.5}, "rule returned 2.5, which is not a row number"),
        ({"rule": lambda step: None}, "rule returned None, which is not a row number"),
        ({"projection": lambda s, i: s.T}, r"projection returned T of shape \(\d+, 0\), expected"),
        ({"projection": lambda s, i: {"T": s.T}}, "projection returned dict, which is no matrix"),
        (
            {"projection": lambda s, i: np.full((len(s.weights), len(s.chosen) + 1), np.nan)},
            "projection returned T with NaN",
        ),
        (
            {"stop": lambda s, i, T: np.nan, "residual_tol": 0.1},
            "stop returned nan, which is not a finite",
        ),
        ({"stop": lambda s, i, T: "low", "residual_tol": 0.1}, "stop returned 'low'"),
        ({"stop": lambda s, i, T: 1.0}, "compares a bound with residual_tol: pass residual_tol"),
        ({"stop": "corollary3"}, "stop='corollary3' compares a bound with residual_tol: pass"),
        ({"residual_tol": 1.5}, "residual_tol must be below 1, got 1.5"),
        ({"rule": "column", "search": "pooled"}, "search='pooled' takes blocks of landmarks"),
        ({"projection": "column", "search": "pooled"}, "search='pooled' takes blocks"),
        ({"rule": "random-pivot", "search": "fresh"}, "use search='full'"),
        ({"rule": "diagonal", "projection": "column"}, "residuals in function space"),
        ({"rule": "random-pivot", "projection": "kronecker"}, "residuals in function space"),
        (
            {"rule": "random-pivot", "stop": "corollary3", "residual_tol": 0.5},
            "candidates drawn uniformly, which rule='random-pivot' does not do",
        ),
        (
            {"projection": lambda s, i: s.T, "stop": "corollary3", "residual_tol": 0.5},
            "needs a projection that never leaves more of a column than before",
        ),
        (
            {"stop": "corollary3", "residual_tol": 0.01},
            r"cannot reach residual_tol=0.01 with pool_size=5.*'fresh', pool_size=\d+\) or more",
        ),
        ({"rule": "column", "search": POINTS}, "rule='column' chooses among rows, but"),
        ({"stop": "corollary3", "residual_tol": 0.5, "search": POINTS}, "chooses among rows, but"),
        (
            {"projection": lambda s, i: s.T, "search": POINTS},
            "projection is a function of the steps among rows",
        ),
        (
            {"projection": "column", "search": POINTS, "n_components": 1},
            "projection='column' does not choose among points",
        ),
        (
            {"search": Search("pooled", candidates="kmeans")},
            "candidates='kmeans' needs rows with features",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_fitted(options, message):
    K, w = random_kernel(0)
    fresh = Search("fresh", pool_size=5)
    free = options.get("rule") == "random-pivot" or "search" in options
    model = GreedyFeatureMap("precomputed", n_components=10, random_state=0)
    model.set_params(**({} if free else {"search": fresh}), **options)
    with pytest.raises(ValueError, match=message):
        model.fit(K, sample_weight=w)
    assert not hasattr(model, "components_")
    assert not hasattr(model, "component_indices_")
    assert not model.__sklearn_is_fitted__()


def test_arrays_of_a_step_cannot_be_written_to():
    K, w = random_kernel(0)

    def vandal(step):
        step.residuals[:] = 0.0
        return step.candidates[0]

    with pytest.raises(ValueError, match="read-only"):
        fitted(K, w, rule=vandal)


def test_auto_search_is_the_one_it_says():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 3))

    def chosen(**options):
        model = GreedyFeatureMap(n_components=15, random_state=0, **options).fit(X)
        return model.component_indices_.tolist()

    for rule, search in [
        ("function", "pooled"),
        ("random-pivot", "pooled"),
        ("diagonal", "full"),
        ("frobenius", "fresh"),
        ("column", "fresh"),
        ("feature-analysis", "fresh"),
    ]:
        assert chosen(rule=rule) == chosen(rule=rule, search=search)
    assert chosen(projection="column") == chosen(projection="column", search="fresh")
    assert chosen(projection="column") != chosen()


def test_copies_of_chosen_rows_are_no_landmarks_whatever_the_projection():
    """The Kronecker metric leaves copies as they are, but R⁻¹ of the features would not exist."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((30, 2))
    X[15:] = X[:15]
    for rule, projection in PAIRS:
        model = GreedyFeatureMap(
            gamma=0.5, rule=rule, projection=projection, n_components=20, random_state=0
        ).fit(X)
        S = model.component_indices_
        assert len(S) == 15
        assert len(np.unique(X[S], axis=0)) == 15
        assert model.path_.stop_reason == "rank"


def test_a_map_with_functions_is_saved_without_them(tmp_path):
    K, w = random_kernel(0)
    model = fitted(K, w, rule=lambda step: step.candidates[-1], residual_tol=0.9, stop="exact")
    model.save(tmp_path / "map.npz")
    again = load(tmp_path / "map.npz", rule=model.rule)
    np.testing.assert_array_equal(again.component_indices_, model.component_indices_)
    np.testing.assert_allclose(again.transform(K), model.transform(K))
