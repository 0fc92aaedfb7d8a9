"""Checkpoints and time limits of the estimators that transform rows or search among them."""

import numpy as np
import pytest

from pursuit import GreedyFeatureMap, Search, SpanNeighbors, SparseKernelCCA, SparseKernelPCA
from pursuit.estimators.components import kernel_cca, kernel_pca
from pursuit.estimators.maps import feature_map, neighbors
from pursuit.greedy import Clock

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3))
Y = np.column_stack([X[:, 0] ** 2, X[:, 1]]) + 0.1 * RNG.standard_normal((300, 2))
POOL = Search("pooled", pool_size=100)


CASES = {
    "map": (
        lambda **more: GreedyFeatureMap(gamma=0.5, n_components=60, random_state=0, **more),
        (feature_map, "project"),
        (feature_map, "choose_landmarks"),
    ),
    "map, fresh, column": (
        lambda **more: GreedyFeatureMap(
            n_components=20, projection="column", search="fresh", random_state=0, **more
        ),
        (GreedyFeatureMap, "_store"),
        (feature_map, "project"),
    ),
    "pca": (
        lambda **more: SparseKernelPCA(gamma=0.5, random_state=0, **more),
        (SparseKernelPCA, "_store"),
        (kernel_pca, "choose_subspace"),
    ),
    "pca, pooled": (
        lambda **more: SparseKernelPCA(n_basis=15, search=POOL, random_state=0, **more),
        (SparseKernelPCA, "_store_bounds"),
        (kernel_pca, "choose_subspace"),
    ),
    "cca": (
        lambda **more: SparseKernelCCA(n_basis=15, search=POOL, random_state=0, **more),
        (kernel_cca.SpannedPairs, "of"),
        (SparseKernelCCA, "_choose"),
    ),
    "cca, bound": (
        lambda **more: SparseKernelCCA(
            n_basis="bound", n_components=2, error_tol=2.0, random_state=0, **more
        ),
        (SparseKernelCCA, "_check_ranks"),
        (SparseKernelCCA, "_choose"),
    ),
    "cca, last stage": (
        lambda **more: SparseKernelCCA(n_basis=15, random_state=0, **more),
        (SparseKernelCCA, "_store_bounds"),
        (SparseKernelCCA, "_disagreements"),
    ),
    "neighbors": (
        lambda **more: SpanNeighbors(gamma=0.5, n_components=60, random_state=0, **more),
        (SpanNeighbors, "_place"),
        (neighbors, "choose_in_blocks"),
    ),
}


def fit(model, rows=X, second=Y):
    return model.fit(rows, second) if isinstance(model, SparseKernelCCA) else model.fit(rows)


def numbers(model):
    """Everything in a fitted model that is a number or an array of numbers, by name."""
    parameters = model.get_params(deep=False)
    kept = {name: value for name, value in vars(model).items() if name not in parameters}
    path = kept.pop("path_", None)
    if path is not None:
        kept |= {"path index": path.index, "path value": path.value}
    return {
        name: value
        for name, value in kept.items()
        if isinstance(value, int | float | np.ndarray) and not isinstance(value, bool)
    }


def assert_same(model, expected):
    found, wanted = numbers(model), numbers(expected)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    if hasattr(model, "cost_"):
        assert model.cost_ == expected.cost_
    rows = model.transform(X[:20])
    rows, others = (getattr(Z, "data", Z) for Z in (rows, expected.transform(X[:20])))
    np.testing.assert_array_equal(rows, others)


@pytest.mark.parametrize("name", CASES)
def test_a_killed_fit_goes_on_after_its_last_stage(name, tmp_path, monkeypatch):
    build, later, recorded = CASES[name]
    expected = fit(build())

    def killed(*args, **options):
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(*later, killed)
        with pytest.raises(RuntimeError, match="killed"):
            fit(build(checkpoint=tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(*recorded, killed)
        assert_same(fit(build(checkpoint=tmp_path)), expected)
    # A finished fit is read back, and threads, prints and time limits may differ.
    assert_same(fit(build(checkpoint=tmp_path, n_jobs=2, max_time=1e9)), expected)


@pytest.mark.parametrize("name", ["map", "pca", "cca", "neighbors"])
def test_a_checkpoint_of_other_data_or_parameters_is_refused(name, tmp_path):
    build = CASES[name][0]
    fit(build(checkpoint=tmp_path))
    with pytest.raises(ValueError, match="was begun with other data"):
        fit(build(checkpoint=tmp_path), rows=X + 1.0)
    model = build(checkpoint=tmp_path)
    size = "n_components" if hasattr(model, "n_components") else "n_basis"
    with pytest.raises(ValueError, match=f"was begun with {size}="):
        fit(model.set_params(**{size: 3}))


def test_a_checkpoint_of_another_second_view_is_refused(tmp_path):
    build = CASES["cca"][0]
    fit(build(checkpoint=tmp_path))
    with pytest.raises(ValueError, match="was begun with other data"):
        fit(build(checkpoint=tmp_path), second=Y + 1.0)


@pytest.mark.parametrize("name", ["map", "pca", "cca", "neighbors"])
def test_a_checkpoint_of_another_matrix_is_refused(name, tmp_path):
    K = X @ X.T + np.eye(len(X))
    model = CASES[name][0](checkpoint=tmp_path)
    given = {"kernel_x": "precomputed"} if name == "cca" else {"kernel": "precomputed"}
    gamma = {} if name == "cca" else {"gamma": None}
    model.set_params(**given, **gamma)
    expected = fit(model, rows=K)
    again = fit(model, rows=K)
    np.testing.assert_array_equal(
        numbers(again)["_n_features_out"], numbers(expected)["_n_features_out"]
    )
    with pytest.raises(ValueError, match="was begun with other data"):
        fit(model, rows=K + np.eye(len(X)))


def test_a_checkpoint_of_other_candidates_is_refused(tmp_path):
    points = np.random.default_rng(1).standard_normal((2000, 3))
    search = Search("pooled", candidates=points)
    model = GreedyFeatureMap(n_components=5, search=search, checkpoint=tmp_path).fit(X)
    points[1000] += 1.0
    with pytest.raises(
        ValueError, match=r"was begun with search=Search\(kind='pooled', candidates=array"
    ):
        model.fit(X)


@pytest.mark.parametrize("name", CASES)
def test_without_time_the_model_is_small_and_usable(name, monkeypatch):
    whole = fit(CASES[name][0](max_time=1e9))
    monkeypatch.setattr(Clock, "over", lambda self, share=1.0: True)
    model = fit(CASES[name][0](max_time=1e-9))
    size = "n_components_" if name == "neighbors" else "_n_features_out"
    if name.startswith(("pca", "cca")):
        size = "n_basis_"
    if name != "cca, bound":
        assert 1 <= getattr(model, size) < getattr(whole, size)
    else:
        assert getattr(model, size) == model.n_components
    if name == "neighbors":
        for ours, theirs in zip(model.kneighbors(X[:9]), whole.kneighbors(X[:9]), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    else:
        assert model.path_.stop_reason == "time"
        assert np.isfinite(model.transform(X)).all()


def test_growing_a_model_leaves_its_checkpoint_alone(tmp_path):
    model = SparseKernelPCA(n_basis=10, checkpoint=tmp_path, random_state=0).fit(X)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir())
    model.grow(X + 1.0, n_basis=14)
    assert model.n_basis_ == 14
    assert sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("build", [SparseKernelPCA, SparseKernelCCA])
def test_fields_that_do_not_apply_are_refused(build):
    for search, message in [
        (Search("pooled", rounds=2), "rounds has no effect on a pooled search"),
        (Search("pooled", candidates=X[:9]), "candidates has no effect on a pooled search"),
        (Search("full", pool_size=9), "pool_size has no effect on a full search"),
        (Search("fresh", rows=9), "rows has no effect on a fresh search"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit(build(search=search))


@pytest.mark.parametrize("name", ["map", "pca", "cca", "neighbors"])
def test_parameters_that_are_set_after_a_fit_wait_for_the_next(name):
    model = fit(CASES[name][0]())
    before = model.transform(X[:9])
    later = {"kernel": "linear", "gamma": 3.0, "kernel_x": "linear", "kernel_y": "linear"}
    later |= {"dtype": "float32", "n_basis": 2, "n_components": 1, "search": "fresh"}
    known = model.get_params()
    model.set_params(**{key: value for key, value in later.items() if key in known})
    after = model.transform(X[:9])
    assert after.dtype == before.dtype
    if name == "neighbors":
        after, before = after.toarray(), before.toarray()
    np.testing.assert_array_equal(after, before)
