"""SparseKernelPCA: the paper's choice, scikit-learn's KernelPCA at full size, and all inputs."""

import pickle

import numpy as np
import oracles
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.decomposition import KernelPCA
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pursuit import GreedyFeatureMap, Search, SparseKernelPCA, pairwise


@pytest.fixture(scope="module")
def rows(read_only):
    return read_only(np.random.default_rng(0).normal(size=(80, 3)))


def algorithm1(K, n):
    """HS08 Algorithm 1 as printed: deflate the whole matrix, mask the chosen."""
    K, chosen, traces = K.copy(), [], []
    for _ in range(n):
        gain = (K**2).sum(axis=0) / np.maximum(np.diag(K), 1e-300)
        gain[chosen] = -1
        i = int(gain.argmax())
        chosen.append(i)
        K -= np.outer(K[:, i], K[i]) / K[i, i]
        traces.append(np.trace(K))
    return chosen, traces


def test_the_choice_is_algorithm_1(rows):
    chosen, traces = algorithm1(rbf_kernel(rows, gamma=0.5), 20)
    model = SparseKernelPCA(gamma=0.5, n_basis=20).fit(rows)
    assert model.basis_indices_.tolist() == chosen
    np.testing.assert_allclose(model.path_.value, traces, rtol=1e-9)
    assert model.residual_trace_ == pytest.approx(traces[-1], rel=1e-9)
    np.testing.assert_array_equal(model.basis_, rows[chosen])


@pytest.mark.parametrize("seed", range(3))
def test_the_choice_is_that_of_the_feature_map(seed):
    X = np.random.default_rng(seed).normal(size=(150, 4))
    model = SparseKernelPCA(gamma=0.2, n_basis=40).fit(X)
    features = GreedyFeatureMap(gamma=0.2, n_components=40, search="full").fit(X)
    np.testing.assert_array_equal(model.basis_indices_, features.component_indices_)
    assert model.residual_trace_ == pytest.approx(features.residual_trace_, rel=1e-9)


def test_projection_residual_is_trace_residual(rows):
    """Σ‖φ(x) - Pφ(x)‖², row by row, is tr(K - K̃)."""
    K = rbf_kernel(rows, gamma=0.5)
    model = SparseKernelPCA(gamma=0.5, n_basis=15).fit(rows)
    error = model.reconstruction_error(rows, model.n_basis_)
    expected = np.diag(oracles.nystroem_residual(K, model.basis_indices_))
    np.testing.assert_allclose(error, expected, atol=1e-10)
    assert error.sum() == pytest.approx(model.residual_trace_, rel=1e-9)


@pytest.mark.parametrize("search", ["full", "pooled"])
def test_the_span_does_not_depend_on_the_order_of_rows(rows, search):
    order = np.random.default_rng(1).permutation(len(rows))
    one = SparseKernelPCA(gamma=0.5, n_basis=12, n_components=3, search=search).fit(rows)
    other = SparseKernelPCA(gamma=0.5, n_basis=12, n_components=3, search=search).fit(rows[order])
    np.testing.assert_array_equal(order[other.basis_indices_], one.basis_indices_)
    np.testing.assert_allclose(
        np.abs(one.transform(rows)), np.abs(other.transform(rows)), atol=1e-9
    )


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_with_all_rows_it_is_kernel_pca(rows, kernel):
    parameters = {} if kernel == "linear" else {"gamma": 0.5}
    q = 3
    ours = SparseKernelPCA(kernel, n_basis=80, n_components=q, **parameters).fit(rows)
    theirs = KernelPCA(q, kernel=kernel, **parameters).fit(rows)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    new = np.random.default_rng(1).normal(size=(20, 3))
    for X in (rows, new):
        ours_there, theirs_there = ours.transform(X), theirs.transform(X)
        signs = np.sign(np.sum(ours_there * theirs_there, axis=0))
        np.testing.assert_allclose(ours_there * signs, theirs_there, atol=1e-7)


@pytest.mark.parametrize("center", [True, False])
def test_components_without_a_variance_are_left_out_as_in_scikit_learn(rows, center):
    model = SparseKernelPCA(gamma=0.5, n_basis=30, n_components=None, center=center).fit(rows[:30])
    K = rbf_kernel(rows[:30], gamma=0.5)
    if center:
        K = K - K.mean(axis=0) - K.mean(axis=1, keepdims=True) + K.mean()
    assert model.transform(rows).shape == (80, 29 if center else 30)
    np.testing.assert_allclose(
        model.eigenvalues_, np.linalg.eigvalsh(K)[::-1][: model.n_components_], atol=1e-11
    )
    if center:
        theirs = KernelPCA(None, kernel="rbf", gamma=0.5).fit(rows[:30])
        np.testing.assert_allclose(model.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    # Rows that are all the same have no variance, and one component.
    assert SparseKernelPCA(n_components=None).fit(np.ones((5, 2))).n_components_ == 1


def test_components_are_uncorrelated_and_ordered(rows):
    for center in (True, False):
        model = SparseKernelPCA(gamma=0.5, n_basis=20, n_components=5, center=center).fit(rows)
        Z = model.transform(rows)
        np.testing.assert_allclose(Z.T @ Z / 80, np.diag(model.explained_variance_), atol=1e-10)
        assert np.all(np.diff(model.explained_variance_) <= 0)
        if center:
            np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)


def test_variance_and_error_add_up_to_the_whole(rows):
    """Σλ/total + mean error/total = 1, whatever the number of components."""
    for q in (1, 4, 20):
        model = SparseKernelPCA(gamma=0.5, n_basis=20, n_components=q).fit(rows)
        total = model.explained_variance_.sum() / model.explained_variance_ratio_.sum()
        error = model.reconstruction_error(rows).mean()
        assert model.explained_variance_.sum() + error == pytest.approx(total, rel=1e-9)


def test_reconstruction_error_is_a_distance_in_feature_space(rows):
    """‖φ(x) - (m + UU'(φ(x) - m))‖², by features of the whole kernel."""
    model = SparseKernelPCA(gamma=0.5, n_basis=10, n_components=3).fit(rows)
    K = rbf_kernel(rows, gamma=0.5)
    F = oracles.root(K).T
    Q = np.linalg.qr(F[model.basis_indices_].T)[0]
    V = F @ Q
    m = V.mean(axis=0)
    U = np.linalg.svd(V - m, full_matrices=False)[2][:3].T
    back = (m + (V - m) @ U @ U.T) @ Q.T
    np.testing.assert_allclose(
        model.reconstruction_error(rows), np.sum((F - back) ** 2, axis=1), atol=1e-8
    )


def test_share_of_variance_as_number_of_components(rows):
    whole = SparseKernelPCA(gamma=0.5, n_basis=20, n_components=None).fit(rows)
    assert whole.n_components_ == 20
    shares = np.cumsum(whole.explained_variance_) / whole.explained_variance_.sum()
    part = SparseKernelPCA(gamma=0.5, n_basis=20, n_components=0.8).fit(rows)
    assert shares[part.n_components_ - 2] < 0.8 <= shares[part.n_components_ - 1]
    error = -whole.score_samples(rows)
    q = int(np.argmax(shares >= 0.95)) + 1
    np.testing.assert_allclose(error, whole.reconstruction_error(rows, q), atol=1e-14)


def test_every_kind_of_input_gives_the_same(rows):
    plain = SparseKernelPCA(gamma=0.5, n_basis=12, n_components=4).fit(rows)
    scores = plain.transform(rows)
    K = rbf_kernel(rows, gamma=0.5)
    others = [
        (SparseKernelPCA(gamma=0.5, n_basis=12, n_components=4), sparse.csr_array(rows)),
        (SparseKernelPCA(RBF(1.0), n_basis=12, n_components=4), rows),
        (
            SparseKernelPCA(rbf_kernel, kernel_params={"gamma": 0.5}, n_basis=12, n_components=4),
            rows,
        ),
        (SparseKernelPCA("precomputed", n_basis=12, n_components=4), K),
    ]
    for model, X in others:
        np.testing.assert_array_equal(model.fit(X).basis_indices_, plain.basis_indices_)
        np.testing.assert_allclose(model.transform(X), scores, atol=1e-9)
        np.testing.assert_allclose(model.score_samples(X), plain.score_samples(rows), atol=1e-9)
    single = SparseKernelPCA(gamma=0.5, n_basis=12, n_components=4).fit(rows.astype(np.float32))
    np.testing.assert_allclose(single.transform(rows.astype(np.float32)), scores, atol=1e-4)


def common_letters(a, b):
    return float(sum(min(a.count(c), b.count(c)) for c in set(a)))


def test_strings():
    words = ["anna", "nana", "banana", "bandana", "xylophone", "phone", "phoneme", "zoo"]
    model = SparseKernelPCA(pairwise(common_letters), n_basis=5).fit(words)
    assert model.transform(["panama", "telephone"]).shape == (2, 2)
    assert all(word in words for word in model.basis_)
    assert not hasattr(model, "n_features_in_")
    scores = model.score_samples(["banana", "qqqqqqqqqqqq"])
    assert scores[0] > scores[1]
    with pytest.raises(TypeError, match="inverse_transform finds rows of numbers"):
        model.inverse_transform(np.zeros((1, 2)))


def test_weights_are_copies(rows):
    w = np.random.default_rng(2).integers(0, 4, len(rows))
    weighted = SparseKernelPCA(gamma=0.5).fit(rows, sample_weight=w)
    repeated = SparseKernelPCA(gamma=0.5).fit(np.repeat(rows, w, axis=0))
    assert weighted.n_basis_ == repeated.n_basis_
    np.testing.assert_allclose(weighted.basis_, repeated.basis_)
    np.testing.assert_allclose(
        weighted.generalization_bound_.value, repeated.generalization_bound_.value, rtol=1e-9
    )
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)


@pytest.mark.parametrize(
    "options", [{"search": "fresh"}, {"search": Search(pool_size=40)}, {"search": "full"}]
)
def test_same_seed_same_model_whatever_the_threads(rows, options):
    models = [
        SparseKernelPCA(gamma=0.5, n_basis=10, random_state=3, n_jobs=n_jobs, **options).fit(rows)
        for n_jobs in (1, 2)
    ]
    np.testing.assert_array_equal(models[0].basis_indices_, models[1].basis_indices_)
    np.testing.assert_array_equal(models[0].transform(rows), models[1].transform(rows))
    np.testing.assert_array_equal(models[0].score_samples(rows), models[1].score_samples(rows))


def test_a_pool_of_all_rows_chooses_as_the_full_search(rows):
    """In Gram form and by columns the rule is the same."""
    X = np.repeat(rows, 2, axis=0)
    full = SparseKernelPCA(gamma=0.5, n_basis=15, search="full").fit(X)
    pooled = SparseKernelPCA(
        gamma=0.5, n_basis=15, search=Search(pool_size=159), random_state=0
    ).fit(X)
    assert {*map(tuple, full.basis_)} == {*map(tuple, pooled.basis_)}


def test_pooled_search_is_near_the_full_one(size):
    m = size(5500, 8000)
    X = make_moons(m, noise=0.1, random_state=0)[0]
    full = SparseKernelPCA(gamma=2.0, n_basis=20, search="full").fit(X)
    pooled = SparseKernelPCA(gamma=2.0, n_basis=20, random_state=0).fit(X)
    assert len(pooled.path_) == 20
    assert pooled.residual_trace_ <= 1.15 * full.residual_trace_
    assert np.mean(pooled.reconstruction_error(X, 20)) * m == pytest.approx(
        pooled.residual_trace_, rel=1e-8
    )


def test_fewer_dimensions_than_asked_for():
    X = np.repeat(np.eye(3), 4, axis=0)
    model = SparseKernelPCA(n_basis=8, n_components=5).fit(X)
    assert model.n_basis_ == model.n_components_ == 3
    assert model.path_.stop_reason == "rank"
    constant = SparseKernelPCA().fit(np.ones((6, 2)))
    assert constant.n_basis_ == 1
    np.testing.assert_allclose(constant.transform(np.ones((2, 2))), 0, atol=1e-12)
    np.testing.assert_allclose(constant.score_samples(np.ones((2, 2))), 0, atol=1e-12)


def test_rows_of_zero_norm_are_never_chosen():
    X = np.random.default_rng(0).normal(size=(20, 4))
    X[3] = X[11] = 0.0
    model = SparseKernelPCA("linear", n_basis=10).fit(X)
    assert model.n_basis_ == 4
    assert not {3, 11} & set(model.basis_indices_.tolist())


def test_growing_by_rows_of_zero_norm_warns_of_nothing(rows):
    zeros = np.concatenate([rows[:10], np.zeros((3, rows.shape[1]))])
    model = SparseKernelPCA("linear", n_components=1, n_basis=1).fit(rows)
    with np.errstate(all="raise", under="ignore"):
        model.grow(zeros, n_basis=2)
    assert np.all(np.isfinite(model.transform(zeros)))
    assert not set(model.basis_indices_) & set(range(len(rows) + 10, len(rows) + 13))


def test_truncated_is_the_smaller_fit(rows):
    model = SparseKernelPCA(gamma=0.5, n_basis=20, n_components=4).fit(rows)
    small = SparseKernelPCA(gamma=0.5, n_basis=7, n_components=4).fit(rows)
    cut = model.truncated(7)
    np.testing.assert_allclose(cut.transform(rows), small.transform(rows), atol=1e-10)
    np.testing.assert_allclose(
        cut.generalization_bound_.value, small.generalization_bound_.value, rtol=1e-12
    )
    assert model.n_basis_ == 20
    with pytest.raises(ValueError, match="whole number from 1 to 20"):
        model.truncated(21)


def test_tools(rows):
    model = make_pipeline(StandardScaler(), SparseKernelPCA(ConstantKernel(2.0) * RBF(1.0)))
    Z = model.fit_transform(rows)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(rows), model.transform(rows))
    np.testing.assert_allclose(Z, model.transform(rows))
    assert clone(model[-1]).get_params()["delta"] == 0.05
    assert list(model[-1].get_feature_names_out()) == ["sparsekernelpca0", "sparsekernelpca1"]


def test_the_model_does_not_keep_the_rows():
    X = np.random.default_rng(0).normal(size=(4000, 50))
    model = SparseKernelPCA(n_basis=10).fit(X)
    assert len(pickle.dumps(model)) < 30_000


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_components": 5, "n_basis": 3}, ValueError, "n_components=5 is more than n_basis=3"),
        ({"delta": 0.0}, ValueError, "'delta' parameter .* must be a float in the range"),
        ({"delta": 1.5}, ValueError, "'delta' parameter .* must be a float in the range"),
        ({"n_basis": "auto"}, ValueError, "'n_basis' parameter"),
        ({"search": "greedy"}, ValueError, "'search' parameter"),
        ({"kernel": "nothing"}, ValueError, "kernel='nothing' is not a known name"),
        ({"kernel": "sigmoid", "coef0": -5.0}, ValueError, "kernel is not positive semi-definite"),
    ],
)
def test_wrong_parameters_are_named(rows, parameters, error, message):
    with pytest.raises(error, match=message):
        SparseKernelPCA(**parameters).fit(rows)


def test_wrong_data_is_named(rows):
    with pytest.raises(ValueError, match="kernel is zero on every row"):
        SparseKernelPCA("linear").fit(np.zeros((5, 2)))
    with pytest.raises(ValueError, match="needs a square kernel matrix"):
        SparseKernelPCA("precomputed").fit(rows)
    with pytest.raises(ValueError, match="kernel is not symmetric"):
        SparseKernelPCA("precomputed").fit(np.triu(np.ones((4, 4))))
    model = SparseKernelPCA(gamma=0.5, n_basis=5).fit(rows)
    with pytest.raises(
        ValueError, match="n_components must be a whole number from 0 to n_basis_=5"
    ):
        model.reconstruction_error(rows, 6)
    with pytest.raises(ValueError, match="X has 3 components, but the model has 2"):
        model.inverse_transform(rows)
    with pytest.raises(ValueError, match="diagonal is for new rows of kernel='precomputed'"):
        model.score_samples(rows, diagonal=np.ones(len(rows)))


def test_residuals_of_a_precomputed_kernel_need_its_diagonal(rows):
    K = rows @ rows.T
    model = SparseKernelPCA("precomputed", n_basis=2).fit(K)
    with pytest.raises(ValueError, match="pass it as diagonal="):
        model.score_samples(K)
    with pytest.raises(ValueError, match="a finite number for each of the 80"):
        model.score_samples(K, diagonal=[1.0])
    linear = SparseKernelPCA("linear", n_basis=2).fit(rows)
    np.testing.assert_allclose(
        model.score_samples(K, diagonal=np.diag(K)), linear.score_samples(rows), atol=1e-10
    )
