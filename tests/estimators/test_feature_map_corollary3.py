"""stop="corollary3": the loop of GreedyFeatureMap ends by a bound that the candidates give."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from pursuit import GreedyFeatureMap, Search, load
from pursuit.bounds import sampling
from pursuit.estimators.maps.landmarks import SampledLooks

PROJECTIONS = ("function", "column", "kronecker")


def heavy(m=120, share=0.3):
    """A matrix with a few heavy rows: what is left falls by one of them at a time."""
    K = np.diag(np.where(np.arange(m) < share * m, 1.0, 0.02))
    K += 1e-3 * rbf_kernel(np.arange(m)[:, None] / m)
    return K


def fitted(K, **options):
    defaults = {
        "kernel": "precomputed",
        "n_components": len(K),
        "search": Search("fresh", pool_size=len(K) // 2),
        "stop": "corollary3",
        "residual_tol": 0.6,
        "delta": 0.2,
        "random_state": 0,
    }
    return GreedyFeatureMap(**{**defaults, **options}).fit(K)


def left(K, model, projection):
    """What the projection leaves, as a share of the start, from the matrix itself."""
    E = K - K[:, model.component_indices_] @ model.T_.T
    if projection == "column":
        return np.square(E).sum() / np.square(K).sum()
    S = model.component_indices_
    L = np.eye(len(K))
    L[:, S] -= model.T_
    return np.einsum("ij,jk,ik->", L, K, L) / np.trace(K)


def serfling(values, n, b, delta):
    """Σ over n from a sample without replacement, written from Serfling (1974), Corollary 1.1."""
    k = len(values)
    share = 0.0 if k == n else 1 - (k - 1) / n
    return n * (np.mean(values) + b * np.sqrt(share * -np.log(delta) / (2 * k)))


@pytest.mark.parametrize("rule", ["function", "frobenius", "column"])
@pytest.mark.parametrize("projection", PROJECTIONS)
def test_every_look_is_the_formula_on_the_residuals_of_the_candidates(
    rule, projection, monkeypatch
):
    K = heavy()
    m, delta = len(K), 0.2
    looks = []
    original = SampledLooks.draw

    def draw(self, available):
        S = self._objective.chosen
        drawn = original(self, available)
        looks.append((S, drawn, available.sum(), self.bound.value[0]))
        return drawn

    monkeypatch.setattr(SampledLooks, "draw", draw)
    model = fitted(K, rule=rule, projection=projection, residual_tol=0.7)
    assert model.path_.stop_reason == "tol"
    for look, (S, M, n, value) in enumerate(looks, 1):
        T = np.zeros((m, len(S)))
        if projection == "kronecker":
            T[S, range(len(S))] = 1.0
        elif len(S):
            A = K[:, S] if projection == "column" else K[np.ix_(S, S)]
            b = K if projection == "column" else K[S]
            T = np.linalg.lstsq(A, b, rcond=None)[0].T
        E = K - K[:, S] @ T.T
        if projection == "column":
            residuals, largest = np.square(E).sum(axis=0), np.square(K).sum(axis=0).max()
        elif projection == "function":
            residuals, largest = np.diag(E), np.diag(K).max()
        else:
            residuals, largest = np.diag(K), np.diag(K).max()
        expected = serfling(residuals[M], n, largest, delta / (look * (look + 1)))
        assert n == m - len(S)
        assert value == pytest.approx(expected, rel=1e-6)
    start = np.square(K).sum() if projection == "column" else np.trace(K)
    shares = np.array([value for *_, value in looks]) / start
    assert np.all(shares[:-1] > 0.7)
    assert shares[-1] <= 0.7
    assert model.stop_bound_.value[0] == looks[-1][-1]
    assert model.stop_bound_.confidence == 1 - delta
    assert left(K, model, projection) <= shares[-1]


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_it_fails_no_more_often_than_it_may(projection, size):
    n_runs, delta = size(25, 400), 0.2
    K = heavy()
    failures = 0
    for seed in range(n_runs):
        model = fitted(K, rule="column", projection=projection, random_state=seed, delta=delta)
        assert model.path_.stop_reason == "tol"
        failures += left(K, model, projection) > 0.6
    assert failures <= delta * n_runs


def test_without_its_deviation_it_would_fail_too_often(monkeypatch, size):
    """The simulation can fail: the mean of the sample alone stops too early in many runs."""
    monkeypatch.setattr(sampling, "finite_mean_deviation", lambda *args: 0.0)
    n_runs, K = size(25, 400), heavy()
    failures = 0
    for seed in range(n_runs):
        model = fitted(K, rule="column", search=Search("fresh", pool_size=20), random_state=seed)
        failures += left(K, model, "function") > 0.6
    assert failures > 0.2 * n_runs


def test_the_chances_of_all_looks_add_up_to_delta():
    looks = np.arange(1, 100_001)
    total = sum(sampling.look_delta(0.05, int(look)) for look in looks)
    assert total == pytest.approx(0.05 * (1 - 1 / 100_001))


def test_a_tolerance_out_of_reach_is_refused_with_the_size_that_reaches_it():
    X = np.random.default_rng(0).standard_normal((800, 2))

    def model(size):
        search = Search("fresh", pool_size=size)
        return GreedyFeatureMap(search=search, stop="corollary3", residual_tol=0.05, n_components=5)

    with pytest.raises(
        ValueError, match=r"cannot reach residual_tol=0.05 with pool_size=59"
    ) as error:
        model(59).fit(X)
    needed = int(str(error.value).split("'fresh', pool_size=")[1].split(")")[0])

    # By the formula: with K_ii = 1 the deviation at the first look is the least of all.
    def deviation(size):
        share = 1 - (size - 1) / 800
        return np.sqrt(share * (np.log(2) - np.log(0.05)) / (2 * size))

    assert deviation(needed) <= 0.05 < deviation(needed - 1)
    with pytest.raises(ValueError, match=rf"pool_size={needed}\) or more"):
        model(needed - 1).fit(X)
    with pytest.warns(
        ConvergenceWarning, match=r"residual_tol=0.05 was not met: 5 landmarks leave a bound"
    ):
        model(needed).fit(X)


def test_rows_in_the_span_of_the_chosen_count_too():
    """Copies are no candidates, but the Kronecker metric leaves them as they are."""
    X = np.repeat(np.random.default_rng(1).standard_normal((20, 2)), 3, axis=0)
    options = {"search": "full", "stop": "corollary3", "residual_tol": 0.5, "n_components": 60}
    with pytest.warns(ConvergenceWarning, match="landmarks leave a bound of"):
        model = GreedyFeatureMap(projection="kronecker", rule="column", **options).fit(X)
    assert model.path_.stop_reason == "rank"
    # Before the last of twenty was picked, 60 - 19 rows were left.
    assert model.stop_bound_.value[0] == pytest.approx(41.0)
    column = GreedyFeatureMap(projection="column", rule="column", **options).fit(X)
    E = rbf_kernel(X, gamma=0.5)
    E = E - E[:, column.component_indices_] @ column.T_.T
    assert np.square(E).sum() <= column.stop_bound_.value[0]


def test_the_full_search_sees_every_residual():
    K = heavy()
    model = fitted(K, search="full", residual_tol=0.3)
    S = model.component_indices_[:-1]
    E = K - K[:, S] @ np.linalg.solve(K[np.ix_(S, S)], K[S])
    assert model.stop_bound_.value[0] == pytest.approx(np.trace(E), rel=1e-9)


def test_the_bound_is_saved(tmp_path):
    model = fitted(heavy())
    model.save(tmp_path / "map.npz")
    again = load(tmp_path / "map.npz")
    assert str(again.stop_bound_) == str(model.stop_bound_)
    assert "with probability 0.8" in str(model.stop_bound_)
    assert fitted(heavy(), stop="exact", delta=None).stop_bound_ is None


def test_weights_are_in_the_sample(size):
    """Weighted rows stand for copies: what is bounded is the weighted residual."""
    rng = np.random.default_rng(2)
    K, failures, n_runs = heavy(80), 0, size(15, 200)
    w = rng.uniform(0.5, 1.5, 80)
    for seed in range(n_runs):
        model = GreedyFeatureMap(
            "precomputed",
            n_components=80,
            search=Search("fresh", pool_size=60),
            stop="corollary3",
            residual_tol=0.7,
            delta=0.2,
            random_state=seed,
        ).fit(K, sample_weight=w)
        assert model.stop_bound_.value[0] <= 0.7 * model.trace_
        failures += model.residual_trace_ > model.stop_bound_.value[0]
    assert failures <= 0.2 * n_runs
