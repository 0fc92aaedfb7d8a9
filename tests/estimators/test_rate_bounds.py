"""Theorems that need the whole kernel matrix: Z03's 6.1 beside any function, and SB01's 2."""

import numpy as np
import oracles
import pytest
from scipy.linalg import sqrtm
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

from pursuit import SparseGPRegressor, SparseKernelRidge
from pursuit.bounds import orthogonalities, span_rate_bound
from pursuit.estimators.span import dense
from pursuit.papers import sb01_theory

# Z03 Theorem 6.1


def rows(seed, m=18, spread=2.0):
    rng = np.random.default_rng(seed)
    X = spread * rng.standard_normal((m, 2))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(m)


def subspace(n_basis, gamma=0.5, alpha=1.0):
    return SparseKernelRidge(gamma=gamma, alpha=alpha, method="subspace", n_basis=n_basis)


def distances(K, Y, w, noise, n):
    """P(0) - P_min, and P - P_min after 1, …, n steps of Algorithm 4, by dense solves."""
    least = oracles.least_primal(K, Y, w, noise).sum()
    _, values = oracles.greedy(K, Y, w, noise, n)
    return oracles.span_value(K, [], Y, w, noise) - least, np.array(values) - least


def objective(K, a, Y, w, noise):
    return oracles.primal(K, K, a.reshape(Y.shape), Y, w, noise).sum()


def theorem_6_1(K, a, Y, w, noise, sizes):
    """The theorem from its formula: ρ by Definition 6.1, γ on a fine grid."""
    H = K @ (w[:, None] * K) + noise * K
    J = np.flatnonzero(a.reshape(Y.shape).any(axis=1))
    rest = np.setdiff1d(np.arange(len(K)), J)
    S = H[np.ix_(J, J)]
    if len(rest):
        S = S - H[np.ix_(J, rest)] @ np.linalg.solve(H[np.ix_(rest, rest)], H[np.ix_(rest, J)])
    rho = np.linalg.eigvals(np.linalg.solve(S, np.diag(np.diag(H)[J]))).real.max()
    least = oracles.least_primal(K, Y, w, noise).sum()
    gap, initial = objective(K, a, Y, w, noise) - least, 0.5 * np.sum(w @ Y**2) - least
    gamma = np.logspace(-6, 9, 20_000)[:, None]
    slope = gamma**2 / (len(J) * (2 + gamma) ** 2 * rho)
    both = np.maximum((1 + gamma) ** 2 * gap, (1 - slope) ** np.asarray(sizes) * initial)
    return np.minimum(both.min(axis=0), initial)


def references(K, Y, w, noise, rng):
    """All coefficients of the minimum, and the best on a few random rows, for both supports."""
    m = len(K)
    found = [np.linalg.solve(K + noise * np.diag(1 / w), Y)]
    for N in (2, 6):
        S = rng.choice(m, N, replace=False)
        a = np.zeros(Y.shape)
        a[S] = oracles.span_fit(K[:, S], K[np.ix_(S, S)], Y, w, noise)
        found.append(a)
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("gamma", "noise"), [(0.5, 0.5), (8.0, 1.0)])
def test_theorem_6_1_beside_any_function_is_its_formula_and_holds(seed, gamma, noise):
    X, y = rows(seed)
    rng = np.random.default_rng(seed)
    w = rng.uniform(0.5, 2.0, len(X)) if seed % 2 else np.ones(len(X))
    Y = np.column_stack([y, rng.standard_normal(len(X))]) if seed == 3 else y[:, None]
    K = rbf_kernel(X, gamma=gamma)
    n = 12
    model = subspace(n, gamma, noise).fit(X, Y if seed == 3 else y, w)
    initial, distance = distances(K, Y, w, noise, n)
    given = references(K, Y, w, noise, rng)
    passed = [a if seed == 3 else a[:, 0] for a in given]
    targets = Y if seed == 3 else y
    values = []
    for a, b in zip(given, passed, strict=True):
        bound = model.rate_bounds(X, targets, w, steps=40, reference=b)[-1]
        expected = theorem_6_1(K, a, Y, w, noise, np.arange(1, n + 1))
        np.testing.assert_allclose(bound.value, expected, rtol=2e-3)
        # A bound on P - P_min: P_min itself is known to the rounding of its two solutions.
        assert np.all(distance <= bound.value * (1 + 1e-9) + 1e-12 * initial)
        assert "beside the reference of" in bound.caveat
        values.append(bound.value)
    best = model.rate_bounds(X, targets, w, steps=40, reference=passed)[-1]
    np.testing.assert_allclose(best.value, np.min(values, axis=0), rtol=1e-9)
    assert best.caveat == "beside the best of 3 references"


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(100))
def test_theorem_6_1_holds_on_many_problems(seed):
    rng = np.random.default_rng(seed)
    X, y = rows(seed, m=25, spread=rng.uniform(0.5, 5.0))
    gamma, noise, w = rng.uniform(0.1, 10), 10 ** rng.uniform(-2, 2), rng.uniform(0.2, 3, 25)
    K = rbf_kernel(X, gamma=gamma)
    model = subspace(20, gamma, noise).fit(X, y, w)
    initial, distance = distances(K, y[:, None], w, noise, model.n_basis_)
    given = [a[:, 0] for a in references(K, y[:, None], w, noise, rng)]
    bound = model.rate_bounds(X, y, w, steps=60, reference=given)[-1]
    assert np.all(distance <= bound.value * (1 + 1e-9) + 1e-12 * initial)


def equal_parts(m=40):
    """Functions that do not overlap, and all alike: each step takes off 1/m of what there is."""
    X = 10.0 * np.arange(m)[:, None]
    y = np.where(np.arange(m) % 2, 1.0, -1.0)
    return X, y, rbf_kernel(X, gamma=1.0)


def test_a_bound_that_says_something_and_one_that_would_be_wrong():
    """Orthogonal functions: the bound is attained at the first step, and ρ/10 is violated."""
    X, y, K = equal_parts()
    m = len(X)
    model = subspace(m, gamma=1.0).fit(X, y)
    full = KernelRidge(kernel="rbf", gamma=1.0, alpha=1.0).fit(X, y).dual_coef_
    initial, distance = distances(K, y[:, None], np.ones(m), 1.0, m)
    own, beside = model.rate_bounds(X, y, steps=40, reference=full)[-2:]
    assert own.name == beside.name == "Zhang 2002b, Theorem 6.1"
    assert np.all(distance <= beside.value * (1 + 1e-9))
    # The lower bound on the minimum leaves room for rounding.
    np.testing.assert_allclose(
        beside.value, (1 - 1 / m) ** np.arange(1, m + 1) * initial, rtol=1e-5
    )
    assert beside.value[0] == pytest.approx(distance[0], rel=1e-5)
    assert beside.value[-1] < 0.4 * initial
    H = K @ K + K
    rho = orthogonalities(H, [np.arange(m)])
    wrong = span_rate_bound(
        np.arange(1, m + 1), n_terms=[m], rho=rho / 10, initial_gap=initial, gaps=[0.0]
    )
    assert np.any(distance > wrong.value * (1 + 1e-6))
    # Three functions that hold all but a little: the rest is bounded by four times that little.
    y = np.where(np.arange(m) < 3, 5.0, 0.05)
    few = np.where(np.arange(m) < 3, y / 2, 0.0)
    model = subspace(m, gamma=1.0).fit(X, y)
    initial, distance = distances(K, y[:, None], np.ones(m), 1.0, m)
    beside = model.rate_bounds(X, y, reference=few)[-1]
    assert np.all(distance <= beside.value * (1 + 1e-9))
    assert beside.value[-1] < 0.02 * initial


def test_what_the_path_itself_cannot_say():
    """Beside its own functions no size from theirs on is bounded below what they reach."""
    X, y, _ = equal_parts()
    model = subspace(10, gamma=1.0).fit(X, y)
    own, beside = model.rate_bounds(X, y, reference=y / 2)[-2:]
    assert np.all(own.value >= 0.99 * model.rate_bounds(X, y)[0].trivial)
    assert beside.value[-1] < own.value[-1]
    nothing = model.rate_bounds(X, y, reference=np.zeros(40))[-1]
    np.testing.assert_allclose(nothing.value, nothing.value[0])
    assert nothing.value[0] == pytest.approx(10.0)


def test_a_wrong_reference_is_named():
    X, y = rows(0)
    model = subspace(5).fit(X, y)
    for wrong in (np.ones(17), np.ones((18, 2)), [np.ones(18), np.ones(17)], 1.0, []):
        with pytest.raises(ValueError, match=r"reference must have a coefficient .* KernelRidge"):
            model.rate_bounds(X, y, reference=wrong)
    with pytest.raises(ValueError, match="reference must be finite"):
        model.rate_bounds(X, y, reference=np.full(18, np.nan))
    with pytest.raises(ValueError, match="reference must hold numbers, got str"):
        model.rate_bounds(X, y, reference="full")
    w = np.append(0.0, np.ones(17))
    weighted = subspace(5).fit(X, y, w)
    with pytest.raises(ValueError, match="reference has a coefficient on row 0, whose weight is 0"):
        weighted.rate_bounds(X, y, w, reference=np.ones(18))
    assert len(weighted.rate_bounds(X, y, w, reference=w)) == 5
    with pytest.raises(ValueError, match=r"reference is for method='subspace', and.*'greedy'"):
        SparseKernelRidge(n_basis=5).fit(X, y).rate_bounds(X, y, reference=np.ones(18))
    with pytest.raises(NotFittedError):
        subspace(5).rate_bounds(X, y, reference=np.ones(18))


def test_rows_other_than_those_of_the_fit_are_refused():
    X, y = rows(0)
    model = subspace(5).fit(X, y)
    with pytest.raises(ValueError, match=r"X must hold the 18 rows of the fit.*got 17 rows"):
        model.rate_bounds(X[:17], y[:17], reference=np.ones(17))
    with pytest.raises(ValueError, match=r"X must hold the 18 rows of the fit.*got other rows"):
        model.rate_bounds(X[::-1], y[::-1], reference=np.ones(18))


def test_too_many_rows_for_a_reference(monkeypatch):
    X, y = rows(0)
    model = subspace(5).fit(X, y)
    monkeypatch.setattr(dense, "EXACT_ROWS", 17)
    with pytest.raises(ValueError, match=r"at most 17 rows, got 18: pass a random part"):
        model.rate_bounds(X, y, reference=np.ones(18))


# SB01 Theorem 2


def process(noise, gamma=0.5):
    return SparseGPRegressor(
        RBF(1 / np.sqrt(2 * gamma)),
        noise=noise,
        n_basis=5,
        optimizer=None,
        normalize_y=False,
        certificate=None,
    )


def theorem_2(K, Y, w, noise, tol):
    """n*, and the count of steps, from dense roots and a greedy choice by refits."""
    H = K @ (w[:, None] * K) + noise * K
    A = np.real(sqrtm(H))
    smallest = np.linalg.svd(A / np.linalg.norm(A, axis=0), compute_uv=False)[-1]
    b = np.linalg.solve(A, K @ (w[:, None] * Y))
    initial, distance = distances(K, Y, w, noise, len(K))
    assert 0.5 * np.sum(b**2) == pytest.approx(initial, rel=1e-6)
    eps = tol * initial
    n_star = 1 + int(np.flatnonzero(distance <= eps / 4)[0])
    needed = 1 + int(np.flatnonzero(distance <= eps)[0])
    steps = 18 * n_star * smallest**-2 * np.log(np.linalg.norm(b) / np.sqrt(2 * eps))
    return n_star, needed, steps


@pytest.mark.parametrize("tol", [0.3, 0.025])
@pytest.mark.parametrize("gamma", [0.5, 8.0])
def test_theorem_2_is_its_formula_and_holds(gamma, tol):
    X, y = rows(1)
    w = np.random.default_rng(1).uniform(0.5, 2.0, 18)
    Y = np.column_stack([y, y**2])
    K = rbf_kernel(X, gamma=gamma)
    for targets, weights in ((y, None), (y, w), (Y, w)):
        given = np.ones(18) if weights is None else weights
        n_star, needed, steps = theorem_2(K, targets.reshape(18, -1), given, 0.5, tol)
        model = process(0.5, gamma).fit(X, targets, weights)
        bound = model.rate_bound(X, targets, weights, tol=tol)
        assert bound.size.tolist() == [n_star]
        assert bound.value[0] == pytest.approx(np.ceil(steps), rel=1e-5)
        assert needed <= bound.value[0]
        assert bound.vacuous[0] == (bound.value[0] >= 18)
        assert "n*(ε/4)" in bound.caveat
        assert "a search over all rows" in bound.caveat


def test_theorem_2_is_that_of_the_experiment():
    X, y = rows(2, m=30, spread=1.0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    found = sb01_theory.theorem2((X, y), width=1.0)
    bound = process(0.1, gamma=1.0).fit(X, y).rate_bound(X, y)
    assert bound.size[0] == found.arrays["n_star_at_most"][0]
    assert bound.value[0] == pytest.approx(found.arrays["bound"][0], rel=1e-6)


def test_theorem_2_where_it_says_something():
    """Rows far apart, one of them with a target: λ₁ = 1, and one function is enough."""
    X = 10.0 * np.arange(60)[:, None]
    y = np.eye(60)[3]
    model = process(0.1, gamma=1.0).fit(X, y)
    bound = model.rate_bound(X, y, tol=[0.025, 0.5])
    assert bound.value.tolist() == [np.ceil(9 * np.log(40)), np.ceil(9 * np.log(2))]
    assert not bound.vacuous.any()
    assert "vacuous" not in str(bound)
    twice = model.rate_bound(np.vstack([X, X[:1]]), np.append(y, 0.0))
    assert np.isinf(twice.value[0])
    assert "this is vacuous: 61 is known without it" in str(twice)
    # A tolerance beyond rounding: all functions come within it, and no fewer are believed to.
    assert model.rate_bound(X, y, tol=1e-12).size.tolist() == [60]


def test_wrong_arguments_of_the_rate_are_named():
    X, y = rows(0)
    model = process(0.5).fit(X, y)
    for wrong in (0.0, 1.0, -1.0, np.nan, [], [[0.1]]):
        with pytest.raises(ValueError, match="tol must be a share"):
            model.rate_bound(X, y, tol=wrong)
    many = np.random.default_rng(0).standard_normal((2001, 1))
    with pytest.raises(ValueError, match=r"rate_bound needs .* 2000 rows, got 2001: pass"):
        process(0.5).fit(many, many[:, 0]).rate_bound(many, many[:, 0])
    with pytest.raises(NotFittedError):
        process(0.5).rate_bound(X, y)


def test_a_model_without_functions_has_bounds_of_no_size():
    X, y = np.zeros((3, 2)), np.arange(3.0)
    model = SparseKernelRidge(kernel="linear", method="subspace").fit(X, y)
    assert model.n_basis_ == 0
    assert [len(bound.value) for bound in model.rate_bounds(X, y)] == [0, 0, 0]


def test_what_leaves_the_range_of_floats_is_named():
    X, y = rows(0)
    model = SparseGPRegressor("linear", noise=0.1, optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match=r"rate_bound leaves the range of float64, with X of"):
        model.rate_bound(1e100 * X, y)
