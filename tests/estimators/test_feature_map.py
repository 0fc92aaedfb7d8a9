"""GreedyFeatureMap: features, residuals, operators, and every kind of input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.sparse.linalg import cg
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from pursuit import GreedyFeatureMap, Search, pairwise

RULES = ("function", "frobenius", "column", "diagonal", "random-pivot", "feature-analysis")
GAMMA = 0.4


@pytest.fixture(scope="module")
def X(read_only):
    return read_only(np.random.default_rng(0).standard_normal((150, 3)))


@pytest.fixture(scope="module")
def w(read_only):
    return read_only(np.random.default_rng(1).uniform(0.3, 2.0, 150))


@pytest.fixture(scope="module")
def K(X):
    return rbf_kernel(X, gamma=GAMMA)


def fitted(X, **options):
    fit_options = {"sample_weight": options.pop("sample_weight", None)}
    defaults = {"gamma": GAMMA, "n_components": 20, "random_state": 0}
    if options.get("kernel") == "precomputed":
        defaults.pop("gamma")
    return GreedyFeatureMap(**{**defaults, **options}).fit(X, **fit_options)


def own(points):
    return Search("pooled", candidates=points)


def projection_matrix(K, S, w, kind):
    """K̃ from scratch, column by column."""
    columns = K[:, S]
    if kind == "kronecker":
        kept = np.zeros_like(K)
        kept[:, S] = columns
        return kept
    if kind == "function":
        return columns @ np.linalg.solve(K[np.ix_(S, S)], columns.T)
    root = np.sqrt(w)[:, None]
    return columns @ np.linalg.lstsq(root * columns, root * K, rcond=None)[0]


@pytest.mark.parametrize("search", ["auto", "fresh", "full"])
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_gives_the_features_and_the_trace_of_its_landmarks(X, K, w, rule, search):
    if (rule, search) == ("random-pivot", "fresh"):
        search = "pooled"
    model = fitted(X, rule=rule, search=search, sample_weight=w)
    S = model.component_indices_
    assert len(set(S.tolist())) == 20
    np.testing.assert_array_equal(model.components_, X[S])
    R = np.linalg.cholesky(K[np.ix_(S, S)])
    np.testing.assert_allclose(model.normalization_, np.linalg.inv(R), atol=1e-8)
    V = model.transform(X)
    np.testing.assert_allclose(V @ V.T, projection_matrix(K, S, w, "function"), atol=1e-9)
    np.testing.assert_allclose(V[S], R, atol=1e-9)
    for step, value in enumerate(model.path_.value, 1):
        E = K - projection_matrix(K, S[:step], w, "function")
        assert value == pytest.approx(w @ np.diag(E), rel=1e-7)
    assert model.residual_trace_ == pytest.approx(model.path_.value[-1])
    np.testing.assert_array_equal(model.path_.index, S)
    assert model.path_.stop_reason == "n_basis"


@pytest.mark.parametrize("kind", ["function", "column", "kronecker"])
def test_every_projection_has_its_coefficients_and_residuals(X, K, w, kind):
    model = fitted(X, projection=kind, sample_weight=w)
    S = model.component_indices_
    approximation = K[:, S] @ model.T_.T
    np.testing.assert_allclose(approximation, projection_matrix(K, S, w, kind), atol=1e-8)
    # ‖k_i - Σ_j T_ij k_j‖² = k_ii - 2 T_i k_Si + T_i K_SS T_i'
    T = model.T_
    squares = np.diag(K) - 2 * np.sum(T * K[:, S], axis=1)
    squares += np.einsum("ij,jk,ik->i", T, K[np.ix_(S, S)], T)
    assert model.residual_trace_ == pytest.approx(w @ squares, rel=1e-7)
    exact = model.residual_bound(0.05, norm="trace")
    # Rounding is added, and is little.
    assert 0.0 < exact.value[0] - model.residual_trace_ <= 1e-6 * model.trace_
    assert exact.confidence == 1.0
    everything = model.residual_bound(norm="frobenius", X=X, sample_weight=w, n_sampled=150)
    frobenius = w @ np.square(K - approximation) @ w
    assert everything.value[0] == pytest.approx(frobenius, rel=1e-7)
    assert everything.confidence == 1.0
    assert everything.value[0] <= model._projection.largest_total
    features = fitted(X[S], search=own(X[S]), n_components=20).transform(X)
    np.testing.assert_allclose(model.transform(X), features, atol=1e-8)


def test_the_column_projection_bounds_its_residual_without_the_rows(X, K):
    model = fitted(X, projection="column")
    bound = model.residual_bound(0.1)
    assert bound.confidence == 0.9
    assert bound.value[0] >= np.square(K - K[:, model.component_indices_] @ model.T_.T).sum()
    again = model.residual_bound(0.1, X=X)
    assert again.value[0] == pytest.approx(bound.value[0])


@pytest.mark.parametrize("kind", ["function", "column", "kronecker"])
def test_sampled_bounds_fail_no_more_often_than_they_may(X, K, kind, size):
    n_draws, delta = size(40, 1000), 0.2
    model = fitted(X, projection=kind, n_components=8)
    S = model.component_indices_
    true = np.square(K - K[:, S] @ model.T_.T).sum()
    failures = 0
    for seed in range(n_draws):
        model._sampling_seed = [seed]
        bound = model.residual_bound(delta, norm="frobenius", X=X, n_sampled=15)
        failures += bound.value[0] < true
    assert failures <= delta * n_draws


def test_a_tolerance_stops_the_choice(X):
    for search in ("pooled", "fresh", "full"):
        model = fitted(X, search=search, residual_tol=0.1, n_components=150)
        assert model.path_.stop_reason == "tol"
        assert model.path_.value[-1] <= 0.1 * model.trace_ < model.path_.value[-2]
    with pytest.warns(
        ConvergenceWarning, match="residual_tol=0.001 was not met: 20 landmarks leave"
    ):
        fitted(X, residual_tol=1e-3)
    with pytest.warns(ConvergenceWarning, match=r"3 landmarks leave .* of the trace \(rank\)"):
        GreedyFeatureMap("linear", residual_tol=1e-30, random_state=0).fit(X)


def test_fewer_landmarks_than_asked_for_is_no_warning(X, recwarn):
    model = GreedyFeatureMap("linear", n_components=50, random_state=0).fit(X)
    assert (len(model.component_indices_), model.path_.stop_reason) == (3, "rank")
    assert model.transform(X).shape == (150, 3)
    assert not recwarn


def test_landmarks_of_ones_own(X, K):
    points = X[[5, 9, 5, 100]] + np.array([[0.0], [0.0], [0.0], [0.2]])
    model = fitted(X, search=own(points))
    np.testing.assert_array_equal(model.components_, points[[0, 1, 3]])
    np.testing.assert_array_equal(model.component_indices_, [-1, -1, -1])
    assert model.path_.stop_reason == "rank"
    V = model.transform(X)
    k = rbf_kernel(X, points[[0, 1, 3]], gamma=GAMMA)
    inner = rbf_kernel(points[[0, 1, 3]], gamma=GAMMA)
    np.testing.assert_allclose(V @ V.T, k @ np.linalg.solve(inner, k.T), atol=1e-10)
    assert model.residual_trace_ == pytest.approx(150 - np.square(V).sum())
    by_number = fitted(K, kernel="precomputed", search=own([3, 1, 4]))
    np.testing.assert_array_equal(by_number.component_indices_, [3, 1, 4])


def test_of_more_points_than_components_the_best_are_taken(X, K):
    """Against the trace of every possible next point, from scratch."""
    rng = np.random.default_rng(5)
    points = rng.standard_normal((12, 3))
    model = fitted(X, search=own(points), n_components=5)
    assert model.path_.stop_reason == "n_basis"
    k, inner = rbf_kernel(X, points, gamma=GAMMA), rbf_kernel(points, gamma=GAMMA)
    order = [int(np.flatnonzero((points == z).all(axis=1))[0]) for z in model.components_]

    def trace(S):
        return 150 - np.trace(k[:, S] @ np.linalg.solve(inner[np.ix_(S, S)], k[:, S].T))

    for step in range(5):
        traces = [trace([*order[:step], i]) if i not in order[:step] else 150 for i in range(12)]
        assert int(np.argmin(traces)) == order[step]
        assert model.path_.value[step] == pytest.approx(min(traces), rel=1e-8)
    until = fitted(X, search=own(points), n_components=12, residual_tol=0.6)
    assert until.path_.stop_reason == "tol"
    assert until.path_.value[-1] <= 0.6 * 150 < until.path_.value[-2]
    with pytest.warns(
        ConvergenceWarning, match=r"residual_tol=0.01 was not met: 5 landmarks leave"
    ):
        fitted(X, search=own(points), n_components=5, residual_tol=0.01)
    by_number = fitted(K, kernel="precomputed", search=own(np.arange(40)), n_components=6)
    assert by_number.component_indices_.max() < 40


def test_k_means_centres_as_candidates(X):
    model = fitted(X, search=own("kmeans"))
    again = fitted(X, search=own("kmeans"))
    other = fitted(X, search=own("kmeans"), random_state=1)
    np.testing.assert_array_equal(model.components_, again.components_)
    assert model.components_.shape == (20, 3)
    assert not np.array_equal(model.components_, other.components_)
    np.testing.assert_array_equal(model.component_indices_, np.full(20, -1))

    # Centres: each nearer to the rows than random rows are on average, and no row itself.
    def distortion(points):
        return np.square(X[:, None] - points).sum(axis=2).min(axis=1).sum()

    rng = np.random.default_rng(0)
    drawn = [distortion(X[rng.choice(150, 20, replace=False)]) for _ in range(20)]
    assert distortion(model.components_) < min(drawn)
    k = rbf_kernel(X, model.components_, gamma=GAMMA)
    inner = rbf_kernel(model.components_, gamma=GAMMA)
    expected = 150 - np.trace(k @ np.linalg.solve(inner, k.T))
    assert model.residual_trace_ == pytest.approx(expected, rel=1e-8)
    with pytest.raises(TypeError, match="candidates='kmeans' needs numeric features"):
        GreedyFeatureMap(pairwise(lambda a, b: float(a == b)), search=own("kmeans")).fit(["a", "b"])


def test_a_second_map_puts_landmarks_in_the_order_of_importance(X):
    plain = fitted(X, search=Search("fresh", pool_size=3))
    with pytest.warns(ConvergenceWarning, match="residual_tol=1e-09 was not met"):
        ordered = fitted(X, search=own(plain.components_), residual_tol=1e-9)
    assert sorted(map(tuple, ordered.components_)) == sorted(map(tuple, plain.components_))
    assert ordered.residual_trace_ == pytest.approx(plain.residual_trace_)
    assert np.all(ordered.path_.value <= plain.path_.value * (1 + 1e-9))
    assert np.any(ordered.path_.value < 0.99 * plain.path_.value)


def test_subsets_of_59_rows_are_the_default_of_a_fresh_search(X):
    by_size = fitted(X, search=Search("fresh", pool_size=59))
    by_name = fitted(X, search="fresh")
    np.testing.assert_array_equal(by_size.component_indices_, by_name.component_indices_)


def test_precomputed_dense_and_sparse_matrices(X, K):
    model = fitted(K, kernel="precomputed")
    assert model.components_ is None
    from_rows = fitted(X)
    np.testing.assert_array_equal(model.component_indices_, from_rows.component_indices_)
    np.testing.assert_allclose(model.transform(K[:7]), from_rows.transform(X[:7]), atol=1e-9)
    rng = np.random.default_rng(2)
    A = sparse.random(120, 120, 0.05, random_state=rng, format="csr")
    A = (A @ A.T + sparse.diags(rng.uniform(0.5, 2.0, 120))).tocsr()
    thin, thick = (fitted(M, kernel="precomputed") for M in (A, A.toarray()))
    np.testing.assert_array_equal(thin.component_indices_, thick.component_indices_)
    np.testing.assert_allclose(thin.transform(A), thick.transform(A.toarray()), atol=1e-12)


def test_a_sparse_matrix_no_kernel_generated_is_preconditioned():
    """The Laplacian of a grid plus a few heavy vertices: conjugate gradients need fewer steps."""
    rng = np.random.default_rng(3)
    path = sparse.diags([np.full(399, -1.0), np.full(400, 2.0), np.full(399, -1.0)], [-1, 0, 1])
    heavy = np.zeros((400, 5))
    heavy[rng.choice(400, 200, replace=False)] = rng.standard_normal((200, 5)) * 30.0
    A = sparse.csr_matrix(path + sparse.csr_matrix(heavy) @ sparse.csr_matrix(heavy).T)
    b = rng.standard_normal(400)
    model = fitted(A, kernel="precomputed", n_components=40)

    def steps(M):
        count = 0

        def tick(_):
            nonlocal count
            count += 1

        x, info = cg(A + sparse.eye(400), b, rtol=1e-8, M=M, callback=tick, maxiter=5000)
        assert info == 0
        np.testing.assert_allclose((A + sparse.eye(400)) @ x, b, atol=1e-6)
        return count

    assert steps(model.preconditioner(1.0)) < 0.7 * steps(None)


def test_an_operator_whose_products_overflow_is_refused_by_name():
    X = np.random.default_rng(0).standard_normal((40, 5))
    X[3, 2] = 1e76
    weights = np.ones(40)
    weights[3] = 0.0
    model = GreedyFeatureMap("poly", degree=4, n_components=40, random_state=0)
    model.fit(X, sample_weight=weights)
    with pytest.raises(ValueError, match="X of 1e\\+76"):
        model.as_linear_operator(X)


def test_operators_are_the_matrices_they_stand_for(X):
    model = fitted(X)
    V = model.transform(X)
    operator = model.as_linear_operator()
    assert operator.shape == (150, 150)
    v, B = X[:, 0], X[:, :2]
    np.testing.assert_allclose(operator @ v, V @ (V.T @ v), atol=1e-10)
    np.testing.assert_allclose(operator.T @ B, V @ (V.T @ B), atol=1e-10)
    for noise in (0.3, np.linspace(0.1, 2.0, 150)):
        M = V @ V.T + np.diag(np.broadcast_to(noise, 150))
        inverse = model.preconditioner(noise)
        np.testing.assert_allclose(M @ (inverse @ v), v, atol=1e-9)
        np.testing.assert_allclose(inverse.H @ (M @ B), B, atol=1e-9)
    for wrong in (0.0, -1.0, np.ones(3), np.inf, np.nan):
        with pytest.raises(ValueError, match="sigma2 must be a positive number, or one for each"):
            model.preconditioner(wrong)


def test_conjugate_gradients_need_fewer_steps_with_more_landmarks(X):
    A = rbf_kernel(X, gamma=0.05) + 1e-3 * np.eye(150)

    def steps(n):
        count = 0

        def tick(_):
            nonlocal count
            count += 1

        M = None if n == 0 else fitted(X, gamma=0.05, n_components=n).preconditioner(1e-3)
        cg(A, X[:, 0], rtol=1e-8, M=M, callback=tick)
        return count

    assert steps(60) < steps(15) < steps(0)


def test_features_are_not_pickled_and_can_be_given_back(X):
    model = fitted(X, n_components=5)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    assert len(pickle.dumps(model)) < 8 * 150 * 5
    with pytest.raises(ValueError, match="pass the training rows as X="):
        copy.preconditioner(0.1)
    with pytest.raises(AttributeError, match="not pickled"):
        copy.T_  # noqa: B018
    v = X[:, 0]
    np.testing.assert_allclose(
        copy.preconditioner(0.1, X) @ v, model.preconditioner(0.1) @ v, atol=1e-10
    )
    column = fitted(X, n_components=5, projection="column")
    again = pickle.loads(pickle.dumps(column))
    assert again.residual_bound().value[0] == column.residual_bound().value[0]
    # Its coefficients are not those in function space, which could be computed from the rows.
    with pytest.raises(ValueError, match="not saved with the map: call residual_bound before"):
        again.residual_bound(X=X, n_sampled=20)


def test_fit_transform_is_fit_and_transform(X, w):
    for options in ({}, {"sample_weight": np.where(w > 1, w, 0.0)}):
        model = GreedyFeatureMap(gamma=GAMMA, n_components=20, random_state=0)
        features = model.fit_transform(X, **options)
        np.testing.assert_allclose(features, model.transform(X), atol=1e-9)
    features[:] = np.nan
    assert np.isfinite(model.transform(X)).all()


def test_rows_of_weight_zero_are_absent(X, w):
    weights = np.where(np.arange(150) % 3 == 0, 0.0, w)
    kept = np.flatnonzero(weights)
    model = fitted(X, sample_weight=weights)
    alone = fitted(X[kept], sample_weight=weights[kept])
    np.testing.assert_array_equal(model.component_indices_, kept[alone.component_indices_])
    assert model.residual_trace_ == alone.residual_trace_
    with pytest.raises(ValueError, match="nor for rows of weight 0"):
        model.preconditioner(1.0)
    assert model.preconditioner(1.0, X).shape == (150, 150)


def test_weights_are_copies(X):
    copies = np.random.default_rng(4).integers(1, 4, 150)
    weighted = fitted(X, search="full", sample_weight=copies.astype(float))
    repeated = fitted(np.repeat(X, copies, axis=0), search="full")
    rows = np.repeat(np.arange(150), copies)[repeated.component_indices_]
    np.testing.assert_array_equal(weighted.component_indices_, rows)
    np.testing.assert_allclose(weighted.path_.value, repeated.path_.value, rtol=1e-9)


def test_the_same_whatever_the_type_or_the_number_of_threads(X):
    model = fitted(X)
    for other in (
        fitted(sparse.csr_array(X)),
        fitted(X.tolist()),
        fitted(X, n_jobs=2),
        fitted(X, kernel=RBF(np.sqrt(0.5 / GAMMA)), gamma=None),
        fitted(X, kernel=RBF(np.sqrt(0.5 / GAMMA)) + WhiteKernel(0.5), gamma=None),
        fitted(X, kernel=lambda A, B: rbf_kernel(A, B, gamma=GAMMA), gamma=None),
    ):
        np.testing.assert_array_equal(other.component_indices_, model.component_indices_)
    np.testing.assert_array_equal(fitted(X, n_jobs=2).transform(X), model.transform(X))
    single = fitted(X.astype(np.float32))
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert fitted(X, dtype="float32").transform(X).dtype == np.float32


def test_strings_through_a_callable():
    words = ["cat", "cart", "dog", "god", "good", "tree", "three", "tea", "eat", "tame"]

    def shared(a, b):
        return float(len(set(a) & set(b)))

    model = GreedyFeatureMap(pairwise(shared), n_components=4, random_state=0).fit(words)
    assert [words[i] for i in model.component_indices_] == model.components_
    features = model.transform(["cat", "treat"])
    assert features.shape == (2, 4)
    assert np.all(np.square(features).sum(axis=1) <= np.array([3.0, 4.0]) + 1e-9)


def test_it_replaces_nystroem_in_a_pipeline(X):
    y = np.sin(2 * X[:, 0])
    ours = make_pipeline(GreedyFeatureMap(gamma=GAMMA, random_state=0), Ridge(1e-3))
    theirs = make_pipeline(Nystroem(gamma=GAMMA, random_state=0), Ridge(1e-3))
    assert ours.fit(X, y).score(X, y) >= theirs.fit(X, y).score(X, y) - 0.01
    grid = GridSearchCV(ours, {"greedyfeaturemap__n_components": [5, 20]}, cv=3).fit(X, y)
    assert grid.best_params_ == {"greedyfeaturemap__n_components": 20}
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = GreedyFeatureMap(n_components=3, random_state=0).set_output(transform="pandas")
    table = model.fit_transform(frame)
    assert list(table) == [f"greedyfeaturemap{i}" for i in range(3)]
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert clone(model).get_params() == model.get_params()


def test_full_search_leaves_least_and_pooled_less_than_uniform(X, K):
    full = fitted(X, search="full").residual_trace_
    pooled = np.mean([fitted(X, random_state=seed).residual_trace_ for seed in range(5)])
    rng = np.random.default_rng(0)
    uniform = []
    for _ in range(5):
        S = rng.choice(150, 20, replace=False)
        uniform.append(np.trace(K - projection_matrix(K, S, np.ones(150), "function")))
    assert full < pooled < np.mean(uniform)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"search": Search("pooled", candidates=np.ones((2, 4)))},
            "candidates has 4 features, but the rows have 3",
        ),
        ({"search": Search("pooled", candidates=np.ones((0, 3)))}, "candidates holds no points"),
        ({"search": Search("pooled", pool_size=9)}, "pool_size has no effect on a pooled search"),
        ({"search": Search("full", pool_size=9)}, "pool_size has no effect on a full search"),
        ({"search": Search("fresh", rounds=2)}, "rounds has no effect on a fresh search"),
        ({"search": Search("fresh", candidates="kmeans")}, "candidates has no effect on a fresh"),
        ({"delta": 0.1}, "no effect with stop='exact': leave it out"),
        ({"rule": "best"}, "rule"),
        ({"residual_tol": 0.0}, "residual_tol"),
        ({"n_components": 0}, "n_components"),
        (
            {"projection": "kronecker", "search": Search("pooled", candidates=np.ones((1, 3)))},
            "candidates are not rows",
        ),
        ({"kernel": "nonsense"}, "nonsense"),
    ],
)
def test_bad_arguments_are_named(X, options, message):
    with pytest.raises(ValueError, match=message):
        fitted(X, **options)


def test_bad_matrices_are_refused(X, K):
    with pytest.raises(ValueError, match="needs a square kernel matrix in fit"):
        fitted(K[:, :-1], kernel="precomputed")
    with pytest.raises(ValueError, match="needs a square kernel matrix in fit"):
        fitted(sparse.csr_array(K[:, :-1]), kernel="precomputed")
    crooked = K.copy()
    crooked[3, 5] += 0.5
    with pytest.raises(ValueError, match=r"kernel is not symmetric: k\(row 3, row 5\)"):
        fitted(crooked, kernel="precomputed")
    indefinite = K.copy()
    indefinite[3, 5] = indefinite[5, 3] = 3.0
    with pytest.raises(ValueError, match=r"not positive semi-definite: row [35] "):
        fitted(indefinite, kernel="precomputed")
    for numbers in ([[0.5]], [0.5], []):
        with pytest.raises(ValueError, match="candidates must be a list of row numbers"):
            fitted(K, kernel="precomputed", search=own(np.array(numbers)))
    with pytest.raises(ValueError, match=r"candidates must be row numbers in 0..149, got 3..150"):
        fitted(K, kernel="precomputed", search=own([3, 150]))


def test_bad_calls_say_what_to_do(X):
    with pytest.raises(NotFittedError):
        GreedyFeatureMap().transform(X)
    with pytest.raises(NotFittedError):
        GreedyFeatureMap().residual_bound()
    assert not hasattr(GreedyFeatureMap(), "T_")
    model = fitted(X)
    with pytest.raises(ValueError, match="norm must be 'trace' or 'frobenius', got 'spectral'"):
        model.residual_bound(norm="spectral")
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1, got 2"):
        model.residual_bound(2)
    with pytest.raises(ValueError, match="which takes the training rows: pass X="):
        model.residual_bound(norm="frobenius")
    with pytest.raises(ValueError, match="X has 10 rows, but the map was fitted to 150"):
        model.residual_bound(norm="frobenius", X=X[:10])
    with pytest.raises(ValueError, match="n_sampled must be at least 1, got 0"):
        model.residual_bound(norm="frobenius", X=X, n_sampled=0)


def test_a_rough_kernel_on_rows_far_apart_keeps_every_landmark():
    X = 100.0 * np.arange(30.0)[:, None]
    model = GreedyFeatureMap(Matern(1.0, nu=0.5), n_components=30, random_state=0).fit(X)
    assert len(model.component_indices_) == 30
    assert model.residual_trace_ == 0.0
    np.testing.assert_allclose(model.transform(X)[model.component_indices_], np.eye(30), atol=1e-12)
