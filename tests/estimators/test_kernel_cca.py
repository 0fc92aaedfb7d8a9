"""SparseKernelCCA: scikit-learn's CCA at full size, two kinds of views, and the bound."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln, logsumexp
from sklearn.base import clone
from sklearn.cross_decomposition import CCA
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import rbf_kernel

import pursuit
from pursuit import Search, SparseKernelCCA, limits, pairwise
from pursuit.estimators.components import kernel_cca, subspace
from pursuit.rows import draw_rows


@pytest.fixture(scope="module")
def pair(read_only):
    """Two views of a hidden number, as in the specification."""
    rng = np.random.default_rng(0)
    m = 300
    z = rng.normal(size=m)
    X = np.column_stack([z + 0.3 * rng.normal(size=m), rng.normal(size=m)])
    Y = np.column_stack([np.sin(z) + 0.3 * rng.normal(size=m), rng.normal(size=m)])
    return read_only(X), read_only(Y)


def linear_pair(seed=0, m=150, p=5, q=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, p))
    Y = X[:, :q] @ rng.normal(size=(q, q)) + 1.5 * rng.normal(size=(m, q)) + 4
    return X * np.logspace(-1, 1, p) + 7, Y


@pytest.mark.parametrize("seed", range(3))
def test_linear_kernels_give_the_correlations_of_cca(seed):
    X, Y = linear_pair(seed)
    ours = SparseKernelCCA("linear", "linear", n_components=3, regularization=0).fit(X, Y)
    theirs = CCA(3, max_iter=10_000, tol=1e-14).fit(X, Y)
    left, right = theirs.transform(X, Y)
    expected = [np.corrcoef(left[:, j], right[:, j])[0, 1] for j in range(3)]
    np.testing.assert_allclose(ours.canonical_correlations_, expected, atol=1e-6)
    assert len(ours.basis_x_) == 5
    assert len(ours.basis_y_) == 3


def test_the_toy_of_the_specification(pair):
    model = SparseKernelCCA(n_basis=12).fit(*pair)
    assert model.canonical_correlations_[0] == pytest.approx(0.895, abs=0.001)


def test_it_is_regularised_cca_in_the_spans(pair):
    """Directions of the largest regularised correlation among all functions of both spans."""
    X, Y = pair
    model = SparseKernelCCA(n_basis=10, n_components=2, regularization=0.05).fit(X, Y)
    spans = []
    for A in pair:
        K = rbf_kernel(A, gamma=0.5)
        S = model.basis_indices_
        V = np.linalg.solve(np.linalg.cholesky(K[np.ix_(S, S)]), K[S]).T
        spans.append(V - V.mean(axis=0))
    P, Q = spans
    A, B = P.T @ P / 300 + 0.05 * np.eye(10), Q.T @ Q / 300 + 0.05 * np.eye(10)
    M = np.linalg.solve(A, P.T @ Q / 300) @ np.linalg.solve(B, Q.T @ P / 300)
    values, vectors = np.linalg.eig(M)
    order = np.argsort(-values.real)[:2]
    left, right = model.transform(X, Y)
    for j, at in enumerate(order):
        a = vectors[:, at].real
        b = np.linalg.solve(B, Q.T @ P @ a)
        assert abs(np.corrcoef(P @ a, left[:, j])[0, 1]) == pytest.approx(1, abs=1e-9)
        assert abs(np.corrcoef(Q @ b, right[:, j])[0, 1]) == pytest.approx(1, abs=1e-9)
        assert model.canonical_correlations_[j] == pytest.approx(
            np.corrcoef(P @ a, Q @ b)[0, 1], abs=1e-9
        )


def test_scores_have_unit_variance_and_their_correlation(pair):
    X, Y = pair
    model = SparseKernelCCA(n_basis=20, n_components=3).fit(X, Y)
    left, right = model.transform(X, Y)
    for scores in (left, right):
        np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-10)
        np.testing.assert_allclose(scores.var(axis=0), 1, rtol=1e-9)
    found = [np.corrcoef(left[:, j], right[:, j])[0, 1] for j in range(3)]
    np.testing.assert_allclose(model.canonical_correlations_, found, atol=1e-9)
    np.testing.assert_allclose(model.correlations(X, Y), found, atol=1e-9)
    assert model.score(X, Y) == pytest.approx(np.mean(found))
    np.testing.assert_array_equal(model.transform(X), left)
    both = clone(model).fit_transform(X, Y)
    np.testing.assert_array_equal(both[0], left)
    np.testing.assert_array_equal(both[1], right)


def test_it_finds_what_is_common_on_new_rows(pair):
    X, Y = pair
    model = SparseKernelCCA(n_basis=20).fit(X[:200], Y[:200])
    assert model.score(X[200:], Y[200:]) > 0.75
    shuffled = np.random.default_rng(0).permutation(100)
    assert abs(model.score(X[200:], Y[200:][shuffled])) < 0.3


def shared_pairs(a, b):
    """Number of common pairs of neighbouring letters."""
    left = {a[i : i + 2] for i in range(len(a) - 1)}
    return float(len(left & {b[i : i + 2] for i in range(len(b) - 1)}))


def test_vectors_beside_strings():
    rng = np.random.default_rng(0)
    words = ["low", "medium", "high"]
    level = rng.integers(0, 3, 120)
    X = level[:, None] + 0.2 * rng.normal(size=(120, 2))
    text = [words[k] + rng.choice(["er", "est", "ish"]) for k in level]
    model = SparseKernelCCA("rbf", pairwise(shared_pairs), n_basis=9).fit(X, text)
    assert model.canonical_correlations_[0] > 0.95
    assert model.transform(X[:5], text[:5])[1].shape == (5, 1)
    turned = SparseKernelCCA(pairwise(shared_pairs), "rbf", n_basis=9).fit(text, X)
    np.testing.assert_allclose(
        turned.canonical_correlations_, model.canonical_correlations_, atol=1e-9
    )
    assert not hasattr(turned, "n_features_in_")


def test_every_kind_of_input_gives_the_same(pair):
    X, Y = pair
    plain = SparseKernelCCA(n_basis=8).fit(X, Y)
    K = rbf_kernel(Y, gamma=0.5)
    others = [
        (SparseKernelCCA(RBF(1.0), "rbf", n_basis=8), X, sparse.csr_array(Y)),
        (SparseKernelCCA("rbf", "precomputed", n_basis=8), X, K),
        (
            SparseKernelCCA("rbf", rbf_kernel, n_basis=8, kernel_params_y={"gamma": 0.5}),
            X,
            Y.tolist(),
        ),
    ]
    for model, A, B in others:
        model.fit(A, B)
        np.testing.assert_array_equal(model.basis_indices_, plain.basis_indices_)
        for found, expected in zip(model.transform(A, B), plain.transform(X, Y), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-8)


def test_weights_are_copies(pair):
    X, Y = pair[0][:60], pair[1][:60]
    w = np.random.default_rng(1).integers(0, 3, 60)
    weighted = SparseKernelCCA(n_basis=8).fit(X, Y, sample_weight=w)
    repeated = SparseKernelCCA(n_basis=8).fit(np.repeat(X, w, axis=0), np.repeat(Y, w, axis=0))
    np.testing.assert_allclose(weighted.basis_x_, repeated.basis_x_)
    np.testing.assert_allclose(
        weighted.canonical_correlations_, repeated.canonical_correlations_, rtol=1e-9
    )
    np.testing.assert_allclose(
        weighted.generalization_bound_.value, repeated.generalization_bound_.value, rtol=1e-9
    )


@pytest.mark.parametrize(
    "options", [{"search": "fresh"}, {"search": Search(pool_size=90)}, {"search": "full"}]
)
def test_same_seed_same_model_whatever_the_threads(pair, options):
    models = [
        SparseKernelCCA(n_basis=8, random_state=3, n_jobs=n_jobs, **options).fit(*pair)
        for n_jobs in (1, 2)
    ]
    np.testing.assert_array_equal(models[0].basis_indices_, models[1].basis_indices_)
    np.testing.assert_array_equal(models[0].transform(pair[0]), models[1].transform(pair[0]))
    assert models[0].canonical_correlations_[0] > 0.8


def test_the_bound_counts_pairs_that_disagree(pair):
    """Theorem 4 at the last size, from errors counted by hand."""
    X, Y = pair
    model = SparseKernelCCA(n_basis=6, error_tol=0.8).fit(X, Y)
    left, right = model.transform(X, Y)
    outside = np.setdiff1d(np.arange(300), model.basis_indices_)
    t = int(np.sum(np.abs(left - right)[outside, 0] > 0.8))
    m, k, M = 300, 6, 300 - 6 - t

    def binomial(n, i):
        return gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1)

    labelings = logsumexp(binomial(4 * M, np.arange(2 * k + 2)))
    nats = labelings + binomial(m, k) + binomial(m - k, t) + np.log(2 * m**2 / 0.05)
    bound = model.generalization_bound_
    assert bound.size[-1] == 6
    assert bound.value[-1] == pytest.approx(2 / M * nats / np.log(2), rel=1e-9)


def count_disagreements(model, X, Y, n, tolerance):
    """Errors of the model of the first n rows, fitted on its own, outside its basis."""
    cut = SparseKernelCCA(n_basis=n, error_tol=tolerance).fit(X, Y)
    np.testing.assert_array_equal(cut.basis_indices_, model.basis_indices_[:n])
    left, right = cut.transform(X, Y)
    outside = np.setdiff1d(np.arange(len(X)), cut.basis_indices_)
    return int(np.sum(np.abs(left - right)[outside, 0] > tolerance))


def printed_form(m, k, t, delta):
    """Theorem 4 letter by letter, logarithms to base 2."""
    M = m - k - t
    errors = t * np.log2(np.e * (m - k) / t) if t else 0.0
    bits = (k + 1) * np.log2(4 * np.e * M / (k + 1)) + k * np.log2(np.e * m / k)
    return 2 / M * (bits + errors + np.log2(2 * m**2 / delta))


@pytest.mark.parametrize("tolerance", [0.7, 1.5])
def test_the_bound_chooses_the_size(pair, tolerance):
    """Every size tried, from models fitted on their own: the least bound is taken."""
    X, Y = pair
    model = SparseKernelCCA(n_basis="bound", error_tol=tolerance).fit(X, Y)
    bound, in_print = model.generalization_bound_, model.printed_bound_
    assert model.n_basis_ == bound.size[bound.best] == len(model.path_)
    assert model.path_.stop_reason == "bound"
    sizes = bound.size
    np.testing.assert_array_equal(sizes, np.arange(1, len(sizes) + 1))
    assert len(sizes) - model.n_basis_ == max(10, model.n_basis_)
    wide = SparseKernelCCA(n_basis=int(sizes[-1])).fit(X, Y)
    np.testing.assert_array_equal(model.basis_indices_, wide.basis_indices_[: model.n_basis_])
    M = 300 - sizes - (t := [count_disagreements(wide, X, Y, n, tolerance) for n in sizes])

    def binomial(n, i):
        return gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1)

    for at, k in enumerate(sizes):
        nats = logsumexp(binomial(4 * M[at], np.arange(2 * k + 2))) + binomial(300, k)
        nats += binomial(300 - k, t[at]) + np.log(2 * 300**2 / 0.05)
        assert bound.value[at] == pytest.approx(2 / M[at] * nats / np.log(2), rel=1e-9)
        expected = printed_form(300, k, t[at], 0.05)
        assert in_print.value[at] == pytest.approx(expected, rel=1e-9)
    assert np.all(in_print.value[1:] != bound.value[1:])
    assert in_print.name.endswith("Theorem 4, as printed")
    assert "2k + 1: not proved" in str(in_print)
    left, right = model.transform(X, Y)
    fixed = SparseKernelCCA(n_basis=model.n_basis_).fit(X, Y).transform(X, Y)
    np.testing.assert_allclose(left, fixed[0], atol=1e-10)
    np.testing.assert_allclose(right, fixed[1], atol=1e-10)


def test_a_bound_above_1_is_called_vacuous(pair):
    X, Y = pair
    vague = SparseKernelCCA(n_basis="bound", error_tol=0.7).fit(X, Y).generalization_bound_
    assert vague.vacuous.all()
    assert "this is vacuous: 1 is known without it" in str(vague)
    loose = SparseKernelCCA(n_basis="bound", error_tol=2.0).fit(X, Y).generalization_bound_
    assert not loose.vacuous.all()
    assert "vacuous" not in str(loose)


def test_a_tolerance_that_nothing_meets(pair):
    X, Y = pair
    with pytest.warns(UserWarning, match=r"error_tol=1e-12 .* vacuous and cannot choose") as told:
        model = SparseKernelCCA(n_basis="bound", error_tol=1e-12).fit(X, Y)
    assert told[0].filename == __file__
    assert model.n_basis_ == 1


def test_the_bound_leaves_as_many_rows_as_components(pair):
    X, Y = pair
    assert SparseKernelCCA(n_basis="bound").fit(X, Y).n_basis_ < 14
    model = SparseKernelCCA(n_basis="bound", n_components=14).fit(X, Y)
    assert model.n_basis_ == 14
    assert len(model.canonical_correlations_) == 14


def test_the_bound_with_weights_and_few_rows(pair):
    X, Y = pair[0][:60], pair[1][:60]
    w = np.random.default_rng(1).integers(0, 3, 60)
    weighted = SparseKernelCCA(n_basis="bound").fit(X, Y, sample_weight=w)
    repeated = SparseKernelCCA(n_basis="bound").fit(
        np.repeat(X, w, axis=0), np.repeat(Y, w, axis=0)
    )
    np.testing.assert_allclose(weighted.basis_x_, repeated.basis_x_)
    for name in ("generalization_bound_", "printed_bound_"):
        np.testing.assert_allclose(
            getattr(weighted, name).value, getattr(repeated, name).value, rtol=1e-9
        )
    assert "a row of weight w counts as w rows" in weighted.generalization_bound_.caveat
    assert repeated.generalization_bound_.caveat == ""
    tiny = SparseKernelCCA(n_basis="bound").fit(X[:4], Y[:4])
    assert tiny.n_basis_ <= 2


def test_many_rows_are_chosen_from_a_pool(monkeypatch, pair):
    """All rows up to a limit, then a pool, whose rows alone are candidates."""
    X, Y = pair
    drawn = []

    def draw(m, n, rng):
        drawn.append(draw_rows(m, n, rng))
        return drawn[-1]

    monkeypatch.setattr(kernel_cca, "draw_rows", draw)
    monkeypatch.setattr(limits, "BOUND_ROWS", 300)
    SparseKernelCCA(n_basis="bound", error_tol=2.0, random_state=0).fit(X, Y)
    assert not drawn
    monkeypatch.setattr(limits, "BOUND_ROWS", 299)
    monkeypatch.setattr(subspace, "BOUND_POOL", 90)
    model = SparseKernelCCA(n_basis="bound", error_tol=2.0, random_state=0).fit(X, Y)
    assert len(drawn[0]) == 90
    assert set(model.basis_indices_) <= set(drawn[0])
    # All rows judge, also those that cannot be chosen.
    left, right = model.transform(X, Y)
    outside = np.setdiff1d(np.arange(300), model.basis_indices_)
    t = int(np.sum(np.abs(left - right)[outside, 0] > 2.0))
    expected = printed_form(300, model.n_basis_, t, 0.05)
    assert model.printed_bound_.value[model.n_basis_ - 1] == pytest.approx(expected, rel=1e-9)


def test_rows_are_chosen_by_the_absolute_correlation():
    """A row whose columns are opposite is as good as one whose columns are alike."""
    signs = np.append(-1.0, np.ones(9))
    Kx, Ky = np.ones((10, 10)) + 0.01 * np.eye(10), np.outer(signs, signs)
    Ky = Ky + np.diag(np.append(0.01, np.full(9, 2.0)))
    rho = np.sum(Kx * Ky, axis=0) / np.linalg.norm(Kx, axis=0) / np.linalg.norm(Ky, axis=0)
    assert rho[0] < -0.79
    assert 0.0 < rho[1:].max() < 0.75
    model = SparseKernelCCA("precomputed", "precomputed", n_basis=1).fit(Kx, Ky)
    assert model.basis_indices_.tolist() == [0]


def test_a_size_by_the_bound_is_saved(pair, tmp_path):
    model = SparseKernelCCA(n_basis="bound", error_tol=2.0).fit(*pair)
    model.save(tmp_path / "cca")
    again = pursuit.load(tmp_path / "cca")
    for name in ("generalization_bound_", "printed_bound_"):
        np.testing.assert_array_equal(getattr(again, name).value, getattr(model, name).value)
        assert str(getattr(again, name)) == str(getattr(model, name))
    np.testing.assert_array_equal(again.transform(*pair)[1], model.transform(*pair)[1])


def test_tools(pair):
    model = SparseKernelCCA(n_basis=8).fit(*pair)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(*pair)[1], model.transform(*pair)[1])
    assert model.n_features_in_ == 2
    assert list(model.get_feature_names_out()) == ["sparsekernelcca0"]
    assert len(model.path_) == model.n_basis_ == 8


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 5, "n_basis": 3}, "n_components=5 is more than n_basis=3"),
        ({"delta": 1.0}, "'delta' parameter"),
        ({"regularization": -1.0}, "'regularization' parameter"),
        ({"error_tol": 0.0}, "'error_tol' parameter"),
        ({"n_basis": "best"}, "'n_basis' parameter"),
        ({"kernel_y": "nothing"}, "kernel='nothing' is not a known name"),
    ],
)
def test_wrong_parameters_are_named(pair, parameters, message):
    with pytest.raises(ValueError, match=message):
        SparseKernelCCA(**parameters).fit(*pair)


def test_wrong_views_are_named(pair):
    X, Y = pair
    with pytest.raises(ValueError, match="got 300 rows in X and 299 in Y"):
        SparseKernelCCA().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="Y is constant"):
        SparseKernelCCA().fit(X, np.ones((300, 2)))
    with pytest.raises(ValueError, match="X is constant"):
        SparseKernelCCA("linear").fit(np.full((300, 2), 3.0), Y)
    with pytest.raises(ValueError, match="more than the 1 dimension"):
        SparseKernelCCA("rbf", "linear", n_components=2).fit(X, Y[:, :1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        SparseKernelCCA().fit(X)
    with pytest.raises(ValueError, match="Input Y contains NaN"):
        SparseKernelCCA().fit(X, np.full((300, 1), np.nan))
    with pytest.raises(ValueError, match="kernel_y='precomputed' needs a square kernel matrix"):
        SparseKernelCCA("rbf", "precomputed").fit(X, Y)
    with pytest.raises(ValueError, match="kernel_params_x has no effect on a precomputed kernel"):
        SparseKernelCCA("precomputed", kernel_params_x={"gamma": 1.0}).fit(np.eye(300), Y)
    model = SparseKernelCCA(n_basis=5).fit(X, Y)
    with pytest.raises(ValueError, match="Y has 1 features, but the rows have 2"):
        model.transform(X, Y[:, :1])
    with pytest.raises(ValueError, match="got 300 rows in X and 10 in Y"):
        model.score(X, Y[:10])


def test_a_target_of_one_dimension_is_a_column(pair):
    X, Y = pair
    flat = SparseKernelCCA(n_basis=8).fit(X, Y[:, 0])
    column = SparseKernelCCA(n_basis=8).fit(X, Y[:, :1])
    np.testing.assert_array_equal(flat.transform(X), column.transform(X))
    np.testing.assert_array_equal(flat.transform(X, Y[:, 0])[1], column.transform(X, Y[:, :1])[1])


def test_errors_name_the_estimator_and_its_arguments():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    model = SparseKernelCCA(n_components=1).fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but SparseKernelCCA is expecting 3"):
        model.transform(Y)
    with pytest.raises(ValueError, match=r"minimum of 1 is required by SparseKernelCCA\.$"):
        model.transform(X[:0])
    with pytest.raises(ValueError, match=r"^Y: Found array with dim 3"):
        SparseKernelCCA().fit(X, Y[:, :, None])
    with pytest.raises(ValueError, match=r"^Y: could not convert string"):
        SparseKernelCCA().fit(X, np.full((20, 2), "tall", dtype=object))
