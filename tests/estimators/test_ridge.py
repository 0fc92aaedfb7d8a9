"""SparseKernelRidge: Zhang's four algorithms, their bounds and certificates, on all input."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import oracles
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pursuit import Search, SparseGPRegressor, SparseKernelRidge
from pursuit.bounds import greedy_rate_bound
from pursuit.greedy import CostMeter, MaxSize, Pursuit
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.objectives import SpanPursuit
from pursuit.rows import Sample, as_rows

GAMMA = 0.5
ALL = [
    {"method": "greedy"},
    {"method": "greedy", "refit": True},
    {"method": "kappa", "search": Search("fresh", pool_size=10)},
    {"method": "kappa", "search": Search("fresh", pool_size=10), "refit": True},
    {"method": "random"},
    {"method": "subspace"},
]
STEPS = [ALL[0], ALL[2]]
REFITTED = [how for how in ALL if how not in STEPS]


def label(how):
    return how["method"] + (" refit" if how.get("refit") else "")


def ridge(how, **arguments):
    return SparseKernelRidge(
        **{"gamma": GAMMA, "n_basis": 15, "random_state": 0, **how, **arguments}
    )


def gaussian(A, B):
    return np.exp(-GAMMA * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def value_of(model, X, y, alpha, w=None):
    """P from scratch, with nothing but predictions and coefficients."""
    w = np.ones(len(X)) if w is None else w
    S = model.basis_indices_
    K = gaussian(X, X)
    beta = model.dual_coef_.reshape(len(S), -1)
    Y = np.asarray(y, dtype=float).reshape(len(X), -1)
    return float(oracles.primal(K[:, S], K[np.ix_(S, S)], beta, Y, w, alpha).sum())


each = pytest.mark.parametrize("how", ALL, ids=label)


@each
def test_the_path_is_the_value_of_every_truncation(waves, how):
    data = waves(80)
    model = ridge(how, alpha=0.3).fit(data.X, data.y)
    assert model.n_basis_ == len(model.path_) == len(model.basis_indices_) == 15
    assert model.path_.stop_reason == "n_basis"
    assert model.n_steps_ >= 15
    assert np.array_equal(model.path_.index, model.basis_indices_)
    for n in (1, 4, 15):
        cut = model.truncated(n)
        assert cut.n_basis_ == n
        assert value_of(cut, data.X, data.y, 0.3) == pytest.approx(
            model.path_.value[n - 1], rel=1e-9
        )
        again = ridge(how, alpha=0.3, n_basis=n).fit(data.X, data.y)
        np.testing.assert_array_equal(again.basis_indices_, cut.basis_indices_)
        np.testing.assert_allclose(cut.predict(data.new), again.predict(data.new), rtol=1e-6)
    K_new = gaussian(data.new, data.X[model.basis_indices_])
    np.testing.assert_allclose(model.predict(data.new), K_new @ model.dual_coef_, rtol=1e-10)


@pytest.mark.parametrize("how", REFITTED, ids=label)
def test_refitted_models_are_the_best_in_their_span(waves, how):
    data = waves(60, n_outputs=2)
    model = ridge(how, alpha=0.3).fit(data.X, data.y)
    K, w = gaussian(data.X, data.X), np.ones(60)
    for n in (1, 6, 15):
        expected = oracles.span_value(K, model.basis_indices_[:n], data.y, w, 0.3)
        assert model.path_.value[n - 1] == pytest.approx(expected, rel=1e-9)
    assert model.predict(data.new).shape == (25, 2)


@each
def test_with_all_rows_it_is_kernel_ridge(how):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    full = KernelRidge(alpha=2.0, kernel="rbf", gamma=GAMMA).fit(X, y)
    model = ridge(how, alpha=2.0, n_basis=1000).fit(X, y)
    assert model.certificate_.relative_gap < 1e-8
    # Z03 Proposition 3.2: the distance of the functions on the rows is at most that of the values.
    distance = np.sum((model.predict(X) - full.predict(X)) ** 2)
    assert distance <= 2 * model.certificate_.gap + 1e-20


@pytest.mark.parametrize("weighted", [False, True])
def test_subspace_is_smola_and_bartlett_with_a_full_search(waves, weighted):
    """Z03 Algorithm 4 = SB01 Algorithm 1 with all candidates, index for index."""
    data = waves(150)
    w = np.random.default_rng(0).uniform(0.5, 2, 150) if weighted else None
    ours = SparseKernelRidge(RBF(0.4), alpha=0.2, method="subspace", n_basis=40)
    ours.fit(data.X, data.y, w)
    peer = SparseGPRegressor(
        RBF(0.4), noise=0.2, search="full", n_basis=40, optimizer=None, normalize_y=False
    ).fit(data.X, data.y, w)
    assert np.array_equal(ours.basis_indices_, peer.basis_indices_)
    np.testing.assert_allclose(ours.dual_coef_, peer.dual_coef_, rtol=1e-9)
    kernel = CountingKernel(compile_kernel(RBF(0.4))[0])
    sample = Sample(as_rows(data.X), data.y[:, None], np.ones(150) if w is None else w)
    with Workers(1) as workers:
        objective = SpanPursuit(sample, kernel, 0.2, capacity=40, workers=workers)
        path = Pursuit(objective, CostMeter(kernel), scale=objective.value).run([MaxSize(40)])
    assert np.array_equal(ours.basis_indices_, path.index)


def test_the_algorithms_in_their_order(waves):
    """Greedy steps beat random subsets, and refitting beats both, on average."""
    data = waves(300)
    values = {}
    for how in ALL:
        model = ridge(how, n_basis=30, certificate=None)
        models = [clone(model).set_params(random_state=seed) for seed in range(5)]
        ends = [model.fit(data.X, data.y).path_.value[-1] for model in models]
        values[label(how)] = np.mean(ends)
    assert values["greedy"] < values["kappa"]
    assert values["subspace"] <= values["greedy refit"] <= values["kappa refit"] < values["random"]
    assert values["greedy refit"] < values["greedy"]


# Bounds


@pytest.mark.parametrize("alpha", [0.1, 5.0, 100.0, 3000.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("how", [ALL[0], ALL[1], ALL[5]], ids=label)
def test_every_rate_holds_on_every_path(waves, exact_minimum, how, alpha, weighted):
    data = waves(80)
    w = np.random.default_rng(1).uniform(0.2, 3, 80) if weighted else np.ones(80)
    model = ridge(how, alpha=alpha).fit(data.X, data.y, w)
    least = exact_minimum(gaussian(data.X, data.X), data.y[:, None], alpha, w)[0]
    distance = model.path_.value - least
    for bound in [model.rate_bound_, *model.rate_bounds(data.X, data.y, w)]:
        assert np.all(distance <= bound.value * (1 + 1e-9)), bound.name
        assert np.all(distance <= bound.trivial * (1 + 1e-9) + 1e-9 * least), bound.name


@pytest.mark.parametrize("alpha", [5.0, 1000.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("how", [ALL[2], ALL[3], ALL[4]], ids=label)
def test_rates_of_random_choices_hold_on_average(waves, exact_minimum, size, how, alpha, weighted):
    data = waves(80)
    w = np.random.default_rng(1).uniform(0.2, 3, 80) if weighted else np.ones(80)
    least = exact_minimum(gaussian(data.X, data.X), data.y[:, None], alpha, w)[0]
    distance = []
    for seed in range(size(8, 50)):
        model = ridge(how, alpha=alpha, random_state=seed, certificate=None).fit(data.X, data.y, w)
        distance.append(model.path_.value - least)
        assert "on average over the random draws" in str(model.rate_bound_)
    known = greedy_rate_bound(
        np.arange(1, 16),
        initial_gap=0.5 * w @ data.y**2 - least,
        minimum=least,
        largest=w.max(),
        noise=alpha,
        n_rows=80,
    )
    assert np.all(np.mean(distance, axis=0) <= known.value)
    assert np.all(known.value <= model.rate_bound_.value)


def test_rates_with_several_outputs(waves, exact_minimum):
    data = waves(60, n_outputs=3)
    model = ridge(ALL[1], alpha=50.0).fit(data.X, data.y)
    least = exact_minimum(gaussian(data.X, data.X), data.y, 50.0).sum()
    for bound in model.rate_bounds(data.X, data.y):
        assert np.all(model.path_.value - least <= bound.value * (1 + 1e-9))


def test_a_rate_that_is_not_vacuous(waves):
    """With a heavy ridge the theorem says more than the path's own objective does."""
    data = waves(200)
    heavy = ridge(ALL[0], alpha=2e4, certificate=None).fit(data.X, data.y).rate_bound_
    assert not heavy.vacuous.any()
    assert "vacuous" not in str(heavy)
    light = ridge(ALL[0], alpha=0.01).fit(data.X, data.y).rate_bound_
    assert light.vacuous.all()
    assert "this is vacuous" in str(light)


def test_rate_bounds_are_in_order_and_named(waves):
    data = waves(60)
    model = ridge(ALL[5], alpha=20.0).fit(data.X, data.y)
    known, blind, simple, span = model.rate_bounds(data.X, data.y)
    assert np.all(known.value <= blind.value)
    assert np.all(blind.value <= simple.value)
    assert [bound.name.split(", ")[1] for bound in (known, simple, span)] == [
        "Theorem 5.1",
        "Corollary 5.1",
        "Theorem 6.1",
    ]
    assert len(ridge(ALL[0]).fit(data.X, data.y).rate_bounds(data.X, data.y)) == 3


def test_the_floor_of_a_sparse_dual(waves):
    """Z03 Proposition 3.3: the published gap of a model without refit stays above it."""
    data = waves(100)
    model = ridge(ALL[0], alpha=0.1).fit(data.X, data.y)
    path = model.certify_path(data.X, data.y, kind="published", floor=True)
    assert np.all(path.floor > 0)
    assert np.all(path.gap >= path.floor)


# Certificates


@each
@pytest.mark.parametrize(
    "kind", ["published", "dense", "scaled", "hybrid", "grouped", "two-level", "pcg"]
)
def test_certificates_enclose_the_minimum(waves, exact_minimum, how, kind):
    data = waves(70)
    w = np.random.default_rng(2).uniform(0.2, 3, 70)
    model = ridge(how, alpha=0.3, certificate=kind).fit(data.X, data.y, w)
    least = exact_minimum(gaussian(data.X, data.X), data.y[:, None], 0.3, w)[0]
    for found in (model.certificate_, model.certify(data.X, data.y, w, kind=kind)):
        assert found.kind == kind
        assert found.lower <= least * (1 + 1e-9)
        assert found.upper >= least * (1 - 1e-9)
        assert found.upper == pytest.approx(value_of(model, data.X, data.y, 0.3, w), rel=1e-8)
    assert model.path_.gap[-1] == model.certificate_.relative_gap


@pytest.mark.parametrize("how", STEPS, ids=label)
def test_the_general_gap_of_models_that_are_not_refitted(waves, how):
    """P - D from scratch; the identity of refitted models, r'Er/2σ², does not hold for them."""
    data = waves(70)
    model = ridge(how, alpha=0.3).fit(data.X, data.y)
    K, Y = gaussian(data.X, data.X), data.y[:, None]
    r = Y - model.predict(data.X)[:, None]
    dual = oracles.dual(K, r / 0.3, Y, np.ones(70), 0.3)[0]
    found = model.certify(data.X, data.y, kind="dense")
    assert found.lower == pytest.approx(dual, rel=1e-8)
    assert found.gap == pytest.approx(value_of(model, data.X, data.y, 0.3) - dual, rel=1e-8)
    E = oracles.nystroem_residual(K, model.basis_indices_)
    assert found.gap > 1.5 * (r.T @ E @ r)[0, 0] / 0.6
    path = model.certify_path(data.X, data.y, sizes=[3, 9])
    for n, certificate in zip((3, 9), path.certificates, strict=True):
        expected = value_of(model.truncated(n), data.X, data.y, 0.3)
        assert certificate.upper == pytest.approx(expected, rel=1e-8)


@each
@pytest.mark.parametrize("kind", ["hybrid", "published"])
def test_tol_stops_the_fit(waves, how, kind):
    data = waves(120)
    model = ridge(how, alpha=1.0, n_basis=100, tol=0.2, certificate=kind).fit(data.X, data.y)
    assert model.path_.stop_reason == "tol"
    assert model.n_basis_ < 100
    assert model.certificate_.relative_gap <= 0.2
    assert model.certify(data.X, data.y, kind=kind).relative_gap <= 0.2 * (1 + 1e-6)
    with pytest.warns(ConvergenceWarning, match=r"tol=1e-09 was not met.*Raise n_basis or tol"):
        ridge(how, n_basis=3, tol=1e-9, certificate=kind).fit(data.X, data.y)


# Input


@each
def test_kinds_of_input_agree(waves, how):
    data = waves(90)
    X = np.where(np.abs(data.X) < 0.5, 0.0, data.X)
    new = np.where(np.abs(data.new) < 0.5, 0.0, data.new)
    expected = ridge(how).fit(X, data.y)
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = ridge(how).fit(frame, data.y)
    assert named.feature_names_in_.tolist() == ["a", "b"]
    kernels = {"gamma": None}
    called = ridge(how, kernel=lambda A, B: gaussian(np.array(A), np.array(B)), **kernels)
    precomputed = ridge(how, kernel="precomputed", **kernels)
    object_ = ridge(how, kernel=RBF(1.0), **kernels)
    K, K_new = gaussian(X, X), gaussian(new, X)
    for model, rows, fresh in [
        (named, frame, pd.DataFrame(new, columns=["a", "b"])),
        (ridge(how).fit(sparse.csr_array(X), data.y), None, sparse.csr_array(new)),
        (called.fit([tuple(row) for row in X], data.y), None, [tuple(row) for row in new]),
        (precomputed.fit(K, data.y), K, K_new),
        (object_.fit(X, data.y), X, new),
    ]:
        assert np.array_equal(model.basis_indices_, expected.basis_indices_)
        np.testing.assert_allclose(
            model.predict(fresh), expected.predict(new), rtol=1e-7, atol=1e-9
        )
        if rows is not None:
            assert model.certify(rows, data.y).gap == pytest.approx(
                expected.certify(X, data.y).gap, rel=1e-6
            )
    single = ridge(how).fit(X.astype(np.float32), data.y.astype(np.float32))
    np.testing.assert_allclose(single.path_.value, expected.path_.value, rtol=1e-2)


def test_strings():
    words = ["aa", "ab", "ba", "bb", "abc", "bca", "cc", "ca"]
    y = np.array([w.count("a") for w in words], dtype=float)

    def shared(A, B):
        return np.array(
            [[sum(a.count(c) * b.count(c) for c in "abc") for b in B] for a in A], float
        )

    for how in ALL:
        model = SparseKernelRidge(
            shared, alpha=1e-3, n_basis=4, **{**how, "search": "auto"}, random_state=0
        )
        model.fit(words, y)
        assert len(model.predict(["abcabc"])) == 1
        assert isinstance(model.basis_, list)


@each
def test_sparse_rows_of_a_linear_kernel(how):
    rng = np.random.default_rng(0)
    X = sparse.random(200, 500, density=0.02, format="csr", random_state=0)
    y = X @ rng.random(500) + rng.uniform(-1, 1, 200)
    arguments = {"kernel": "linear", "gamma": None, "alpha": 20.0}
    ours = ridge(how, **arguments).fit(X, y)
    dense = ridge(how, **arguments).fit(X.toarray(), y)
    assert np.array_equal(ours.basis_indices_, dense.basis_indices_)
    np.testing.assert_allclose(ours.predict(X), dense.predict(X.toarray()), rtol=1e-9, atol=1e-12)
    assert sparse.issparse(ours.basis_)


@each
def test_weights(waves, how):
    """A row of weight 0 is absent; α is never divided by the weights."""
    data = waves(90)
    w = np.random.default_rng(0).integers(0, 3, 90).astype(float)
    here = w > 0
    ours = ridge(how).fit(data.X, data.y, w)
    without = ridge(how).fit(data.X[here], data.y[here], w[here])
    np.testing.assert_array_equal(ours.basis_indices_, np.flatnonzero(here)[without.basis_indices_])
    np.testing.assert_allclose(ours.predict(data.new), without.predict(data.new), rtol=1e-9)
    assert ours.path_.value[-1] == pytest.approx(value_of(ours, data.X, data.y, 1.0, w), rel=1e-9)


@pytest.mark.parametrize("how", [ALL[0], ALL[1], ALL[5]], ids=label)
def test_a_weight_is_so_many_copies(waves, how):
    data = waves(60)
    w = np.random.default_rng(0).integers(0, 4, 60)
    copies = np.repeat(np.arange(60), w)
    weighted = ridge(how).fit(data.X, data.y, w)
    copied = ridge(how).fit(data.X[copies], data.y[copies])
    np.testing.assert_array_equal(weighted.basis_, copied.basis_)
    np.testing.assert_allclose(weighted.predict(data.new), copied.predict(data.new), rtol=1e-7)


@each
def test_threads_change_nothing(how):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 3))
    y = np.sin(X).sum(axis=1)
    models = [ridge(how, n_jobs=n, certificate=None).fit(X, y) for n in (1, 2)]
    assert np.array_equal(models[0].dual_coef_, models[1].dual_coef_)
    assert np.array_equal(models[0].path_.value, models[1].path_.value)
    other = ridge(how, random_state=1, certificate=None).fit(X, y)
    random = how["method"] in ("kappa", "random")
    assert np.array_equal(other.basis_indices_, models[0].basis_indices_) != random


def test_white_terms_are_added_to_alpha(waves):
    data = waves(50)
    model = SparseKernelRidge(RBF(1.0) + WhiteKernel(0.5), alpha=0.25).fit(data.X, data.y)
    assert model.noise_ == 0.75


def test_nothing_but_zeros():
    for how in ALL:
        model = ridge({**how, "search": "auto"}).fit(np.eye(5), np.zeros(5))
        assert np.array_equal(model.predict(np.eye(5)), np.zeros(5))
        assert model.certificate_.relative_gap == 0.0
        assert model.rate_bound_.value[-1] == 0.0


@each
def test_a_kernel_that_is_zero(how):
    X = np.random.default_rng(0).standard_normal((12, 2))
    model = ridge(how, kernel=lambda A, B: np.zeros((len(A), len(B))), gamma=None).fit(X, X[:, 0])
    assert model.n_basis_ == model.n_steps_ == len(model.path_) == 0
    assert np.array_equal(model.predict(X), np.zeros(12))
    assert len(model.rate_bound_.value) == 0


def test_many_rows_are_streamed():
    """κ-greedy touches κ + 1 columns a step, and nothing of size m x m."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 3))
    model = SparseKernelRidge(method="kappa", n_basis=5, certificate=None, random_state=0)
    model.fit(X, np.sin(X[:, 0]))
    tiles = model.n_steps_ * (59 + 1) * 30_000
    assert model.path_.entries[-1] <= tiles + 3 * 30_000
    assert model.path_.passes[-1] == model.n_steps_


# Errors and tools


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a positive number, got 0.0"),
        ({"alpha": -1.0}, "alpha must be a positive number, got -1.0"),
        ({"alpha": "1"}, "'alpha' parameter"),
        ({"method": "best"}, "'method' parameter"),
        ({"n_basis": 0}, "'n_basis' parameter"),
        ({"n_basis": "auto"}, "'n_basis' parameter"),
        ({"method": "greedy", "search": Search("fresh", pool_size=9)}, "leave search at 'auto'"),
        ({"method": "kappa", "search": Search("fresh", pool_size=21)}, "at most .* 20, got 21"),
        ({"dtype": "float32"}, "dtype='float32' is for the pass of method='random'"),
        ({"tol": 0.1, "certificate": None}, "tol stops the fit by its certificate"),
        ({"kernel": "nonsense"}, "'nonsense' is not a known name"),
        ({"kernel": "precomputed"}, "square kernel matrix"),
        ({"kernel": lambda A, B: -np.ones((len(A), len(B)))}, "not positive semi-definite"),
    ],
)
def test_wrong_arguments(arguments, message):
    X = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.raises(ValueError, match=message):
        SparseKernelRidge(**arguments).fit(X, X[:, 0])


def test_wrong_calls(waves):
    data = waves(40)
    with pytest.raises(NotFittedError):
        SparseKernelRidge().predict(data.X)
    with pytest.raises(NotFittedError):
        SparseKernelRidge().rate_bound_  # noqa: B018
    with pytest.raises(
        ValueError, match="y has 2 outputs, and method='greedy' scales one function"
    ):
        SparseKernelRidge(refit=False).fit(data.X, np.column_stack([data.y, data.y]))
    model = ridge(ALL[0]).fit(data.X, data.y)
    with pytest.raises(ValueError, match="from 1 to 15"):
        model.truncated(16)
    with pytest.raises(AttributeError, match="grow") as refusal:
        model.grow(20, data.X, data.y)
    assert "needs refit=True" in str(refusal.value.__cause__)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="method='subspace' holds an m x m matrix"):
        ridge(ALL[5]).fit(rng.standard_normal((20_001, 1)), rng.standard_normal(20_001))


@pytest.mark.parametrize("how", REFITTED, ids=label)
def test_grow(waves, how):
    data = waves(80)
    small = ridge(how, n_basis=5).fit(data.X, data.y)
    grown = small.grow(12, data.X, data.y)
    assert grown.n_basis_ == 12
    assert set(small.basis_indices_) <= set(grown.basis_indices_)
    assert grown.path_.value[-1] < small.path_.value[-1]
    assert grown.rate_bound_.size[-1] == 12


def test_tools_of_scikit_learn(waves):
    data = waves(100)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SparseKernelRidge(n_basis=10, method="kappa")),
        {"sparsekernelridge__alpha": [0.1, 1.0], "sparsekernelridge__refit": [False, True]},
        cv=3,
    ).fit(data.X, data.y)
    assert search.best_score_ > 0.3
    model = ridge(ALL[2]).fit(data.X, data.y)
    for other in (pickle.loads(pickle.dumps(model)), model):
        np.testing.assert_array_equal(other.predict(data.new), model.predict(data.new))
    assert not hasattr(clone(model), "path_")
    # Neither rows nor anything of their number is kept.
    assert len(pickle.dumps(model)) < 10_000


def test_silent_unless_verbose(waves, capsys):
    data = waves(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ridge(ALL[0]).fit(data.X, data.y)
    assert capsys.readouterr().out == ""
    ridge(ALL[0], verbose=1).fit(data.X, data.y)
    assert "[SparseKernelRidge] choose" in capsys.readouterr().out


def test_time_limit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 2))
    model = ridge(ALL[2], n_basis=2000, max_time=0.05, certificate=None)
    model.fit(X, rng.standard_normal(2000))
    assert model.path_.stop_reason == "time"
    assert 1 <= model.n_basis_ < 2000
