"""Which basis is chosen: the same by every route that sees the same candidates and rows."""

import warnings
from functools import partial

import numpy as np
import oracles
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils import check_random_state

from pursuit import Evidence, Search, SparseGPRegressor, limits, rows
from pursuit.gram import statistics

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""


def fit(data, kernel, **arguments):
    settings = {"noise": 0.2, "random_state": 0, **arguments}
    return fixed_gp(kernel, **settings).fit(data.X, data.y)


def normalized(y):
    Y = y.reshape(len(y), -1)
    return (Y - Y.mean(axis=0)) / Y.std(axis=0)


@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize(
    "route",
    [
        {},
        {"search": Search("pooled", pool_size=60, rows="all")},
        {"search": "full"},
        {"search": Search("fresh", pool_size=60)},
        {"search": Search("fresh", pool_size=10_000)},
    ],
    ids=str,
)
def test_every_route_chooses_like_the_naive_one(waves, rough_kernel, route, n_outputs):
    data = waves(60, n_outputs=n_outputs)
    model = fit(data, rough_kernel, n_basis=12, **route)
    order, values = oracles.greedy(rough_kernel(data.X), normalized(data.y), np.ones(60), 0.2, 12)
    np.testing.assert_array_equal(model.basis_indices_, order)
    np.testing.assert_allclose(model.path_.value, values, rtol=1e-8)


def test_a_pool_of_many_rows_chooses_like_a_full_search(waves, rough_kernel, size):
    data = waves(size(2100, 4000))
    full = fit(data, rough_kernel, search="full", n_basis=20)
    pooled = fit(data, rough_kernel, n_basis=20, search=Search(pool_size=len(data.X), rows="all"))
    np.testing.assert_array_equal(pooled.basis_indices_, full.basis_indices_)
    np.testing.assert_allclose(pooled.predict(data.new), full.predict(data.new), rtol=1e-10)


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
def test_blocks_change_rounding_only(waves, rough_kernel, monkeypatch, search):
    data = waves(2300)
    given = search if search == "full" else Search(search, pool_size=100)
    arguments = {"search": given, "n_basis": 25}
    whole = fit(data, rough_kernel, **arguments)
    monkeypatch.setattr(statistics, "BUFFER_ROWS", 97)
    for source in (rows.ArrayRows, rows.SelectedRows, rows.Sample):
        monkeypatch.setattr(source.blocks, "__defaults__", (333,))
    cut = fit(data, rough_kernel, **arguments)
    assert [start for start, _ in rows.as_rows(data.X).blocks()][1] == 333
    np.testing.assert_array_equal(cut.basis_indices_, whole.basis_indices_)
    for got, expected in zip(
        cut.predict(data.new, return_std=True),
        whole.predict(data.new, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-8)


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_threads_do_not_change_a_bit(waves, rough_kernel, search, n_outputs, size):
    data = waves(size(2300, 9000) if search != "full" else 700, n_outputs=n_outputs)
    models = [
        fit(data, rough_kernel, search=search, n_basis=30, n_jobs=n_jobs) for n_jobs in (1, 2, 3)
    ]
    one = models[0]
    for other in models[1:]:
        np.testing.assert_array_equal(other.basis_indices_, one.basis_indices_)
        np.testing.assert_array_equal(other.dual_coef_, one.dual_coef_)
        np.testing.assert_array_equal(other.path_.value, one.path_.value)
        assert other.certificate_.upper == one.certificate_.upper
        assert other.certificate_.lower == one.certificate_.lower
        for got, expected in zip(
            other.predict(data.new, return_std=True),
            one.predict(data.new, return_std=True),
            strict=True,
        ):
            np.testing.assert_array_equal(got, expected)


def test_threads_do_not_change_what_is_learned(waves, size, monkeypatch):
    # Still several chunks for the threads to share.
    monkeypatch.setattr(limits, "EVIDENCE_ROWS", size(700, 2000))
    data = waves(2300)
    one, two = (
        SparseGPRegressor(n_basis=20, n_jobs=n, random_state=0).fit(data.X, data.y) for n in (1, 2)
    )
    assert one.noise_ == two.noise_
    np.testing.assert_array_equal(one.predict(data.new), two.predict(data.new))


def test_the_order_of_rows_does_not_matter_to_a_full_search(waves, rough_kernel):
    data = waves(200)
    order = np.random.default_rng(5).permutation(200)
    straight = fixed_gp(rough_kernel, noise=0.2, n_basis=25, search="full")
    straight.fit(data.X, data.y)
    shuffled = fixed_gp(rough_kernel, noise=0.2, n_basis=25, search="full")
    shuffled.fit(data.X[order], data.y[order])
    np.testing.assert_array_equal(shuffled.basis_, straight.basis_)
    np.testing.assert_array_equal(order[shuffled.basis_indices_], straight.basis_indices_)
    np.testing.assert_allclose(shuffled.predict(data.new), straight.predict(data.new), rtol=1e-8)


@pytest.mark.parametrize("search", ["pooled", "fresh"])
def test_a_seed_is_an_answer(waves, rough_kernel, search):
    data = waves(2100)
    arguments = {"search": Search(search, pool_size=40), "n_basis": 15}
    first, again, other = (
        fit(data, rough_kernel, random_state=seed, **arguments) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.basis_indices_, again.basis_indices_)
    np.testing.assert_array_equal(first.predict(data.new), again.predict(data.new))
    assert np.any(first.basis_indices_ != other.basis_indices_)


def test_the_global_generator_is_left_alone_when_a_seed_is_given(waves):
    data = waves(100)
    shared = check_random_state(None)
    before = shared.get_state()[1].copy()
    SparseGPRegressor(n_basis=10, search="fresh", random_state=0).fit(data.X, data.y)
    np.testing.assert_array_equal(shared.get_state()[1], before)


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
def test_path_tells_each_step(waves, rough_kernel, search):
    data = waves(150)
    model = fit(data, rough_kernel, search=search, n_basis=20)
    path = model.path_
    assert path.stop_reason == "n_basis"
    assert model.n_basis_ == len(path) == 20
    np.testing.assert_array_equal(path.index, model.basis_indices_)
    for name in ("index", "value", "gap", "seconds", "entries", "passes"):
        assert getattr(path, name).shape == (20,)
    assert np.all(np.diff(path.value) < 0)
    assert np.all(np.diff(path.seconds) >= 0)
    assert np.all(np.diff(path.entries) >= 0)
    assert path.entries[-1] > 0
    assert path.value[-1] == pytest.approx(model.certificate_.upper, rel=1e-10)
    assert "20 basis functions" in str(path)


def test_path_is_in_normalised_units_on_all_rows(waves, rough_kernel, weighted_scale):
    data = waves(2200)
    model = fit(data, rough_kernel, n_basis=15, search=Search(pool_size=50))
    _, scale = weighted_scale(data.y)
    residual = (data.y - model.predict(data.X)) / scale[0]
    norm = model.dual_coef_ @ rough_kernel(model.basis_) @ model.dual_coef_
    assert model.path_.value[-1] == pytest.approx(0.5 * residual @ residual + 0.1 * norm, rel=1e-9)


def test_the_basis_is_nested(waves, rough_kernel):
    data = waves(2200)
    model = fit(data, rough_kernel, n_basis=12, search=Search(pool_size=60))
    K, K_SS = rough_kernel(data.X, model.basis_), rough_kernel(model.basis_)
    y = normalized(data.y)
    for n in (1, 5, 12):
        beta = oracles.span_fit(K[:, :n], K_SS[:n, :n], y, np.ones(len(y)), 0.2)
        value = oracles.primal(K[:, :n], K_SS[:n, :n], beta, y, np.ones(len(y)), 0.2)
        assert model.path_.value[n - 1] == pytest.approx(value.sum(), rel=1e-8)


def test_a_second_round_improves_a_small_pool(waves, rough_kernel):
    data = waves(2500)
    one, two = (
        fit(data, rough_kernel, n_basis=20, search=Search(pool_size=40, rows="all", rounds=rounds))
        for rounds in (1, 2)
    )
    assert two.n_basis_ == 20
    assert len(set(two.basis_indices_)) == 20
    assert two.path_.value[-1] < one.path_.value[-1]


def test_rounds_do_not_matter_when_all_rows_are_in_the_pool(waves, rough_kernel):
    data = waves(150)
    one, three = (
        fit(data, rough_kernel, n_basis=20, search=Search(rounds=rounds)) for rounds in (1, 3)
    )
    assert set(three.basis_indices_) == set(one.basis_indices_)


def test_cluster_centres_as_candidates(waves, rough_kernel):
    data = waves(300)
    model = fit(data, rough_kernel, n_basis=20, search=Search(candidates="kmeans", pool_size=40))
    assert model.n_basis_ == 20
    assert np.all(model.basis_indices_ == -1)
    assert np.all(model.path_.index == -1)
    assert np.all(np.abs(model.basis_) <= np.abs(data.X).max(axis=0))
    assert model.score(data.X, data.y) > 0.5


def test_own_points_as_candidates(waves, rough_kernel):
    data = waves(200)
    points = np.random.default_rng(9).normal(size=(30, 2))
    model = fit(data, rough_kernel, search=Search(candidates=points), n_basis=10)
    assert np.all(model.basis_indices_ == -1)
    assert model.n_basis_ == 10
    at = [np.flatnonzero((points == point).all(axis=1)) for point in model.basis_]
    assert all(len(found) == 1 for found in at)
    assert len({int(found[0]) for found in at}) == 10
    listed = fit(data, rough_kernel, search=Search(candidates=points.tolist()), n_basis=10)
    np.testing.assert_array_equal(listed.predict(data.new), model.predict(data.new))


def test_fewer_own_points_than_basis_functions(waves, rough_kernel):
    data = waves(100)
    model = fit(data, rough_kernel, search=Search(candidates=data.new[:7]), n_basis=50)
    assert model.n_basis_ == 7
    assert model.path_.stop_reason == "rank"


@pytest.mark.parametrize("search", ["fresh", "full"])
def test_published_tol_is_looked_at_every_step(waves, rough_kernel, search):
    data = waves(150)
    model = fit(data, rough_kernel, search=search, tol=0.3, certificate="published", n_basis=150)
    gap = model.path_.gap
    assert model.path_.stop_reason == "tol"
    assert 1 < model.n_basis_ < 150
    assert np.all(gap[:-1] > 0.3)
    assert gap[-1] <= 0.3


@pytest.mark.parametrize("search", ["fresh", "full"])
@pytest.mark.parametrize("kind", ["dense", "scaled", "hybrid"])
def test_other_tols_are_looked_at_as_the_basis_grows(waves, rough_kernel, search, kind):
    data = waves(150)
    model = fit(data, rough_kernel, search=search, tol=0.05, certificate=kind, n_basis=150)
    gap = model.path_.gap
    looks = np.flatnonzero(np.isfinite(gap))
    assert model.path_.stop_reason == "tol"
    assert looks[-1] == len(gap) - 1
    assert len(looks) < len(gap)
    assert gap[-1] <= 0.05
    assert np.all(gap[looks[:-1]] > 0.05)
    assert model.certificate_.relative_gap == pytest.approx(gap[-1], rel=1e-6)


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
@pytest.mark.parametrize("kind", ["published", "dense", "scaled", "hybrid"])
def test_a_model_stopped_by_tol_holds_a_certificate_within_tol(waves, rough_kernel, search, kind):
    data = waves(150)
    model = fit(data, rough_kernel, search=search, tol=0.2, certificate=kind, n_basis=150)
    assert model.path_.stop_reason == "tol"
    assert model.path_.gap[-1] <= 0.2
    assert model.certificate_.relative_gap <= 0.2
    assert model.certificate_.kind == kind


@pytest.mark.parametrize("kind", ["published", "dense", "scaled", "hybrid", "auto"])
def test_a_pooled_search_returns_the_smallest_size_that_meets_tol(waves, rough_kernel, kind):
    data = waves(150)
    model = fit(data, rough_kernel, tol=0.3, certificate=kind, n_basis=140)
    gap = model.path_.gap
    looks = np.flatnonzero(np.isfinite(gap))
    assert model.path_.stop_reason == "tol"
    assert model.n_basis_ == len(gap) < 140
    assert gap[-1] <= 0.3
    assert np.all(gap[looks[:-1]] > 0.3)
    sizes = looks + 1.0
    assert np.all(sizes[1:] <= np.maximum(sizes[:-1] + 1, 1.25 * sizes[:-1] + 1.25))
    assert model.certificate_.relative_gap <= 0.3
    assert model.certify(data.X, data.y, kind="scaled").relative_gap <= 0.3
    small = fit(data, rough_kernel, n_basis=model.n_basis_)
    np.testing.assert_allclose(model.predict(data.new), small.predict(data.new), rtol=1e-6)


def test_a_pooled_search_warns_when_tol_is_out_of_reach(waves, rough_kernel):
    data = waves(150)
    with pytest.warns(ConvergenceWarning, match="tol=1e-06.*n_basis"):
        model = fit(data, rough_kernel, tol=1e-6, n_basis=10)
    assert model.n_basis_ == 10
    assert model.path_.stop_reason == "n_basis"
    assert model.path_.gap[-1] > 1e-6


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
def test_a_loose_tol_needs_one_function_and_does_not_warn(waves, rough_kernel, search):
    data = waves(100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(data, rough_kernel, tol=1e9, search=search)
    assert model.n_basis_ == 1
    assert model.path_.stop_reason == "tol"


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
@pytest.mark.parametrize("rounds", [1, 2])
def test_no_time_still_gives_a_model(waves, search, rounds):
    data = waves(400)
    given = Search(search, rounds=rounds) if search == "pooled" else search
    model = SparseGPRegressor(max_time=1e-9, search=given).fit(data.X, data.y)
    assert model.path_.stop_reason == "time"
    assert model.n_basis_ >= 1
    assert np.all(np.isfinite(model.predict(data.new)))


def test_ample_time_changes_nothing(waves, rough_kernel):
    data = waves(200)
    free = fit(data, rough_kernel, n_basis=15)
    timed = fit(data, rough_kernel, n_basis=15, max_time=1e6)
    assert timed.path_.stop_reason == "n_basis"
    assert timed.certificate_ == free.certificate_
    np.testing.assert_array_equal(timed.predict(data.new), free.predict(data.new))


def test_time_is_that_of_the_whole_fit(waves):
    """Learning, moves and an automatic certificate are left out where there is no time."""
    data = waves(2500)
    model = SparseGPRegressor(n_basis=20, max_time=1e-9, random_state=0).fit(data.X, data.y)
    report = model.learning_report_
    assert [stage.family for stage in report.stages] == ["rbf"]
    assert report.moved == "not moved"
    assert model.certificate_ is None
    assert "max_time or Ctrl-C ended the learning of kernel and noise early" in report.warnings
    assert any("certify(X, y)" in warning for warning in report.warnings)
    assert model.certify(data.X, data.y).gap >= 0
    asked = SparseGPRegressor(n_basis=20, max_time=1e-9, certificate="published", random_state=0)
    assert asked.fit(data.X, data.y).certificate_ is not None


def test_ample_time_changes_no_learned_model(waves):
    data = waves(2200)
    free, timed = (
        SparseGPRegressor(
            n_basis=20, max_time=limit, refine=2, optimizer=Evidence(rows=600), random_state=0
        ).fit(data.X, data.y)
        for limit in (None, 1e6)
    )
    assert str(timed.kernel_) == str(free.kernel_)
    assert timed.learning_report_.moved == free.learning_report_.moved
    assert timed.learning_report_.warnings == free.learning_report_.warnings
    np.testing.assert_array_equal(timed.predict(data.new), free.predict(data.new))


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
def test_stops_at_the_rank(waves, search):
    data = waves(100)
    model = fit(data, RBF(0.5), search=search, n_basis=500)
    assert model.path_.stop_reason == "rank"
    assert model.n_basis_ <= 100
    linear = SparseGPRegressor("linear", noise=0.1, search=search).fit(data.X, data.y)
    assert linear.n_basis_ == 2
    assert linear.path_.stop_reason == "rank"


def test_too_many_rows_for_a_full_search_are_refused():
    X = np.arange(20_001.0)[:, None]
    with pytest.raises(ValueError, match=r"search='full'.*20000 rows.*pooled"):
        fixed_gp(RBF(), noise=1.0, n_basis=2, search="full").fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("m", "search"),
    [(300, "pooled"), (300, "fresh"), (300, "full"), (1500, "pooled"), (1500, "full")],
)
@pytest.mark.parametrize("noise", [0.1, 0.03, 0.01, 1e-4])
def test_a_smooth_kernel_on_a_line(exact_minimum, m, search, noise):
    """Far more rows than the kernel has rank in double precision: the everyday one-feature case."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(m, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=m)
    model = fixed_gp(
        RBF(0.5), noise=noise, n_basis=100, search=search, certificate=None, random_state=0
    ).fit(X, y)
    minimum = exact_minimum(RBF(0.5)(X), normalized(y), noise)[0]
    assert minimum * (1 - 1e-8) <= model.path_.value[-1] <= 1.01 * minimum
    mean, std = model.predict(X, return_std=True)
    assert np.all(np.isfinite(std))
    assert np.abs(mean - np.sin(3 * X[:, 0])).max() < 0.2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.1, 0.01])
def test_a_smoother_kernel_on_a_line(seed, noise):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(800, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=800)
    model = fixed_gp(RBF(1.0), noise=noise).fit(X, y)
    assert model.path_.stop_reason in ("rank", "no gain")
    assert np.abs(model.predict(X) - np.sin(3 * X[:, 0])).max() < 0.2
    assert model.certificate_.relative_gap < 0.05


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
def test_selection_by_evidence(search):
    """Each is better in what it chooses for."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    options = {"n_basis": 12, "noise": 0.05, "random_state": 0}
    by = {
        score: fixed_gp(RBF(0.7), search=Search(search, score=score), **options).fit(X, y)
        for score in ("posterior", "evidence")
    }
    bounds = {name: model.log_evidence_bounds_.lower for name, model in by.items()}
    assert bounds["evidence"] > bounds["posterior"]
    assert by["evidence"].path_.value[-1] > by["posterior"].path_.value[-1]


def test_unknown_score():
    with pytest.raises(ValueError, match=r"score.*'posterior', 'evidence', got 'likelihood'"):
        Search(score="likelihood")
