"""minimize_quadratic against dense solves: picks, values, and bounds that must hold."""

import numpy as np
import oracles
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.gaussian_process.kernels import RBF

import pursuit.estimators.quadratic.minimize as quadratic
from pursuit import Search, SparseGPRegressor, minimize_quadratic
from pursuit.greedy import FreshSubset

FORMS = {"array": np.asarray, "sparse": sparse.csc_array, "operator": aslinearoperator}


def definite(rng, n, ridge=0.5):
    A = rng.normal(size=(n, n))
    return A @ A.T / n + ridge * np.eye(n), rng.normal(size=n)


def value(H, b, x):
    return 0.5 * x @ H @ x - b @ x


def least_on(H, b, chosen):
    """-½b_S'H_SS⁻¹b_S by a dense solve."""
    S = list(chosen)
    return -0.5 * b[S] @ np.linalg.solve(H[np.ix_(S, S)], b[S])


@pytest.fixture
def draws(monkeypatch):
    """Every draw of a fresh subset, as it is made."""
    made, draw = [], FreshSubset.draw

    def recorded(self, available):
        made.append(draw(self, available))
        return made[-1]

    monkeypatch.setattr(FreshSubset, "draw", recorded)
    return made


@pytest.fixture
def no_decomposition(monkeypatch):
    """As if every problem had too many variables to be decomposed."""
    monkeypatch.setattr(quadratic, "EXACT_VARIABLES", 0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_picks_are_those_of_the_definition(draws, form, seed):
    """Every candidate of every draw tried by a dense solve."""
    H, b = definite(np.random.default_rng(seed), 30)
    found = minimize_quadratic(FORMS[form](H), b, n_terms=8, pool_size=7, random_state=seed)
    assert len(draws) == 8
    chosen = []
    for drawn in draws:
        assert len(drawn) == 7
        values = [least_on(H, b, [*chosen, i]) for i in drawn]
        chosen.append(int(drawn[np.argmin(values)]))
        assert found.path.value[len(chosen) - 1] == pytest.approx(min(values), rel=1e-10)
    assert found.indices.tolist() == found.path.index.tolist() == chosen
    assert np.flatnonzero(found.coef).tolist() == sorted(chosen)
    expected = np.linalg.solve(H[np.ix_(chosen, chosen)], b[chosen])
    np.testing.assert_allclose(found.coef[chosen], expected, rtol=1e-9)
    assert found.value == pytest.approx(value(H, b, found.coef), rel=1e-12)
    assert np.all(np.diff(found.path.value) < 0)
    assert found.path.stop_reason == "n_terms"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pool_size", [None, 25, 10**6])
def test_a_full_search_is_the_greedy_order(form, pool_size):
    H, b = definite(np.random.default_rng(1), 25)
    found = minimize_quadratic(FORMS[form](H), b, n_terms=25, pool_size=pool_size)
    order, values = oracles.quadratic_greedy(H, b[:, None], 25)
    assert found.indices.tolist() == order
    np.testing.assert_allclose(found.path.value, values, rtol=1e-9)
    np.testing.assert_allclose(found.coef, np.linalg.solve(H, b), rtol=1e-8)


def problem(rng, kind):
    """A random problem, its options, and its minimum by least squares on well conditioned parts."""
    n = int(rng.integers(2, 40))
    if kind == "singular":
        rank = int(rng.integers(1, n + 1))
        A, y = rng.normal(size=(rank, n)), rng.normal(size=rank)
        H, b = A.T @ A, A.T @ y
        # b = A'y lies in the range, and A has full row rank but for chance.
        fitted = A @ np.linalg.lstsq(A, y, rcond=None)[0]
        return H, b, {}, -0.5 * fitted @ fitted
    if kind == "dominant":
        H = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.3)
        H = H + H.T
        np.fill_diagonal(H, 0.0)
        H += np.diag(np.abs(H).sum(axis=1) + rng.uniform(0.1, 2.0, n))
        b = rng.normal(size=n)
        return H, b, {}, -0.5 * b @ np.linalg.solve(H, b)
    widest = 0.5 if kind == "companion" else 2.0  # K² has twice the digits
    A = rng.normal(size=(int(rng.integers(1, 2 * n)), n)) * 10.0 ** rng.uniform(-2, widest)
    d = rng.uniform(0.1, 1.0, n) if rng.random() < 0.5 else np.full(n, 10.0 ** rng.uniform(-2, 1))
    H, b = A.T @ A + np.diag(d), rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3)
    least = -0.5 * b @ np.linalg.solve(H, b)
    if kind == "companion":
        K, y, s = A.T @ A, b, float(d.min())
        H, b = K @ K + s * K, K @ y
        plus = K + s * np.eye(n)
        least = -0.5 * y @ K @ np.linalg.solve(plus, y)
        return H, b, {"companion": (plus, y, s, 0.5 * y @ y)}, least
    return (
        H,
        b,
        {"shift": d if rng.random() < 0.5 else float(d.min())} if kind == "shift" else {},
        least,
    )


@pytest.mark.parametrize("kind", ["exact", "shift", "companion", "singular", "dominant"])
def test_the_minimum_lies_between(kind, size, monkeypatch):
    """Two hundred problems of each kind, of whatever form, pool and number of terms."""
    rng = np.random.default_rng(5)
    if kind == "dominant":
        monkeypatch.setattr(quadratic, "EXACT_VARIABLES", 0)
    for trial in range(size(200, 600)):
        H, b, options, least = problem(rng, kind)
        n_terms = int(rng.integers(1, len(b) + 1))
        pool_size = [None, 3, 59][trial % 3]
        form = list(FORMS)[trial % (3 if options else 2)]
        found = minimize_quadratic(
            FORMS[form](H), b, n_terms=n_terms, pool_size=pool_size, random_state=trial, **options
        )
        x = np.linalg.lstsq(H, b, rcond=1e-12)[0]
        # What the rounding of H and b, as they were formed, may change.
        squares = max(x @ x, found.coef @ found.coef)
        rounding = 64 * len(b) * 2.3e-16 * (np.linalg.norm(H) * squares + np.abs(b) @ np.abs(x))
        proof = found.certificate
        assert proof.lower <= least + rounding
        assert found.value <= proof.upper <= found.value + rounding
        assert proof.upper >= least - rounding
        assert found.value == pytest.approx(
            value(H, b, found.coef), rel=1e-8, abs=1e-12 * abs(least)
        )
        if kind in ("exact", "singular"):
            assert proof.kind == "exact"
            assert proof.lower >= least - 1e-6 * abs(least)
        elif n_terms == len(b) and pool_size is None and kind != "companion":
            assert proof.lower >= least - 1e-4 * abs(least)


def test_more_variables_than_are_decomposed():
    """At a size of its own: a banded matrix, whose minimum a sparse solver knows."""
    n = 5000
    H = sparse.diags_array(
        [np.full(n - 1, -1.0), np.full(n, 2.5), np.full(n - 1, -1.0)], offsets=[-1, 0, 1]
    )
    b = np.where(np.arange(n) % 500 == 0, 1.0, 0.0)
    least = -0.5 * b @ sparse.linalg.spsolve(sparse.csc_array(H), b)
    found = minimize_quadratic(H, b, n_terms=40, pool_size=None)
    assert found.certificate.kind == "second pursuit"
    assert found.certificate.lower <= least <= found.value
    assert found.value <= 0.9 * least
    assert found.path.entries[-1] <= n * found.n_columns


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(5))
def test_at_real_size(seed):
    """Of 4 000 variables, by a second pursuit, against a dense solve."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(300, 4000))
    y = A[:, :20].sum(axis=1) + rng.normal(size=300)
    H, b = A.T @ A + 50.0 * np.eye(4000), A.T @ y
    least = -0.5 * b @ np.linalg.solve(H, b)
    found = minimize_quadratic(H, b, n_terms=60, shift=50.0, random_state=seed)
    assert found.certificate.lower <= least <= found.value


@pytest.mark.parametrize("kind", ["exact", "shift", "companion", "singular", "dominant"])
def test_a_bound_of_another_problem_is_caught_by_these_checks(kind):
    """Negative control: of a matrix that is half as large the minimum is twice as low."""
    rng = np.random.default_rng(0)
    H, b, _, least = problem(rng, kind)
    found = minimize_quadratic(2 * H, b, n_terms=len(b))
    assert not found.certificate.lower <= least * (1 + 1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_second_pursuit_is_theorem_1(draws, seed):
    """(-½‖b‖² - Q(v))/σ² with K = H - σ²1 and v the minimiser of Q on rows chosen greedily."""
    rng = np.random.default_rng(seed)
    H, b = definite(rng, 20, ridge=0.3)
    K = H - 0.3 * np.eye(20)
    found = minimize_quadratic(H, b, n_terms=6, pool_size=5, shift=0.3, random_state=0)
    Q, linear = K @ K + 0.3 * K, K @ b
    chosen = []
    for drawn in draws[1::2]:
        values = [least_on(Q, linear, [*chosen, i]) for i in drawn]
        chosen.append(int(drawn[np.argmin(values)]))
        lower = (-0.5 * b @ b - min(values)) / 0.3
        upper = found.path.value[len(chosen) - 1]
        gap = 2 * (upper - lower) / (-upper - lower)
        assert found.path.gap[len(chosen) - 1] == pytest.approx(gap, rel=1e-8)
    assert found.certificate.lower == pytest.approx(lower, rel=1e-8)


@pytest.mark.parametrize("search", ["full", "fresh"])
def test_sb01s_own_problem(monkeypatch, waves, rough_kernel, search):
    """H = K² + σ²K, b = Ky: the picks and the gap of SparseGPRegressor, from the same draws."""

    def draw(self, available):
        free = np.flatnonzero(available)
        return np.sort(np.random.default_rng(len(free)).choice(free, 12, replace=False))

    monkeypatch.setattr(FreshSubset, "draw", draw)
    data, noise, n = waves(60), 0.2, 20
    y = data.y - data.y.mean()
    model = SparseGPRegressor(
        rough_kernel,
        noise=noise,
        n_basis=n,
        search=search if search == "full" else Search("fresh", pool_size=12),
        optimizer=None,
        normalize_y=False,
        calibration=None,
        certificate="published",
    ).fit(data.X, y)
    K = rough_kernel(data.X)
    plus = K + noise * np.eye(60)
    found = minimize_quadratic(
        K @ plus,
        K @ y,
        n_terms=n,
        pool_size=None if search == "full" else 12,
        companion=(plus, y, noise, 0.5 * y @ y),
    )
    assert found.indices.tolist() == model.basis_indices_.tolist()
    np.testing.assert_allclose(found.coef[found.indices], model.dual_coef_, rtol=1e-6)
    np.testing.assert_allclose(found.path.value, model.path_.value - 0.5 * y @ y, rtol=1e-9)
    assert found.certificate.relative_gap == pytest.approx(
        model.certificate_.relative_gap, rel=1e-8
    )
    assert found.certificate.gap == pytest.approx(model.certificate_.gap, rel=1e-8)


def test_scaling():
    """(cH, cb) has the same x and c times the value; (H, cb) c times x and c² the value."""
    H, b = definite(np.random.default_rng(3), 30)
    plain = minimize_quadratic(H, b, n_terms=9, random_state=0, pool_size=8)
    both = minimize_quadratic(4 * H, 4 * b, n_terms=9, random_state=0, pool_size=8)
    linear = minimize_quadratic(H, 4 * b, n_terms=9, random_state=0, pool_size=8)
    np.testing.assert_allclose(both.coef, plain.coef, rtol=1e-12)
    np.testing.assert_allclose(linear.coef, 4 * plain.coef, rtol=1e-12)
    gaps = [found.certificate.relative_gap for found in (plain, both, linear)]
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"shift": 0.5}])
def test_tol_stops_by_the_gap(options):
    H, b = definite(np.random.default_rng(0), 60)
    found = minimize_quadratic(H, b, n_terms=60, tol=0.1, pool_size=None, **options)
    assert found.path.stop_reason == "tol"
    assert found.path.gap[-1] == found.certificate.relative_gap <= 0.1
    assert np.all(found.path.gap[:-1] > 0.1)
    assert len(found.indices) < 60
    assert "relative gap" in str(found)


def test_an_operator_is_asked_for_few_columns():
    """Of 3 000 variables 5 draws of 20, the 5 taken once more at most, and two for the checks."""
    n, asked = 3000, []
    rng = np.random.default_rng(0)
    A = rng.normal(size=(10, n))

    def product(V):
        asked.append(V.shape[1] if V.ndim == 2 else 1)
        return A.T @ (A @ V) + 2.0 * V

    H = LinearOperator((n, n), matvec=product, matmat=product, dtype=float)
    b = rng.normal(size=n)
    found = minimize_quadratic(H, b, n_terms=5, pool_size=20, random_state=0)
    assert found.certificate is None
    assert "pass shift" in str(found)
    assert found.n_columns <= 5 * 20 + 5 + 5
    assert sum(asked) == found.n_columns + 3
    proved = minimize_quadratic(H, b, n_terms=5, pool_size=20, random_state=0, shift=2.0)
    assert proved.indices.tolist() == found.indices.tolist()
    whole = A.T @ A + 2.0 * np.eye(n)
    least = -0.5 * b @ np.linalg.solve(whole, b)
    assert proved.certificate.lower <= least <= proved.value
    assert 0 < proved.path.entries[-1] <= n * proved.n_columns


def test_a_sparse_matrix_stays_sparse(monkeypatch, no_decomposition):
    rows = []
    toarray = sparse.csr_array.toarray

    def watched(self, *args, **kwargs):
        rows.append(self.shape[0])
        return toarray(self, *args, **kwargs)

    monkeypatch.setattr(sparse.csr_array, "toarray", watched)
    n = 400
    H = sparse.diags_array(
        [np.full(n - 1, 1.0), np.full(n, 5.0), np.full(n - 1, 1.0)], offsets=[-1, 0, 1]
    )
    minimize_quadratic(H, np.linspace(-1, 1, n), n_terms=12)
    assert 0 < max(rows) <= 12


def test_copies_and_nothing_to_gain():
    H, b = definite(np.random.default_rng(0), 6)
    twice = np.kron(H, np.ones((2, 2)))
    found = minimize_quadratic(twice, np.repeat(b, 2), n_terms=12, pool_size=None)
    assert len(found.indices) == 6
    assert len(set(found.indices // 2)) == 6
    assert found.value == pytest.approx(-0.5 * b @ np.linalg.solve(H, b), rel=1e-10)
    assert found.certificate.relative_gap < 1e-9
    nothing = minimize_quadratic(H, np.zeros(6), n_terms=3)
    assert nothing.value == 0.0
    assert nothing.certificate.gap == 0.0
    one = minimize_quadratic([[2.0]], [3.0], n_terms=1)
    assert one.coef[0] == 1.5


def test_b_outside_the_range_has_no_minimum():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(3, 30))
        A = rng.normal(size=(int(rng.integers(1, n)), n))
        with pytest.raises(ValueError, match=r"b is not in the range of H.*without bound"):
            minimize_quadratic(A.T @ A, rng.normal(size=n), n_terms=2)
    with pytest.raises(ValueError, match=r"range of H.*H @ b is zero"):
        minimize_quadratic(aslinearoperator(np.diag([1.0, 0.0])), [0.0, 1.0], n_terms=1)
    # A smooth kernel: 1e-17 counts as zero, and y has a part there; Ky has none.
    X = np.linspace(0, 1, 60)[:, None]
    K, y = RBF(1.0)(X), rng.normal(size=60)
    with pytest.raises(ValueError, match="not in the range"):
        minimize_quadratic(K, y, n_terms=2)
    assert minimize_quadratic(K, K @ y, n_terms=20).certificate.relative_gap < 1e-3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("decomposed", [True, False])
def test_an_indefinite_matrix(monkeypatch, form, decomposed):
    if not decomposed:
        monkeypatch.setattr(quadratic, "EXACT_VARIABLES", 0)
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    H = Q @ np.diag([*np.linspace(1, 2, 18), -1.0, -2.0]) @ Q.T
    H = 0.5 * (H + H.T)
    with pytest.raises(ValueError, match=r"H must be positive semi-definite.*add a multiple"):
        minimize_quadratic(FORMS[form](H), rng.normal(size=20), n_terms=20, pool_size=None)


def test_a_slightly_indefinite_matrix_is_found_where_it_is_decomposed():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    H = Q @ np.diag([*np.linspace(1, 2, 19), -1e-9]) @ Q.T
    for options in ({}, {"companion": (np.eye(20), np.ones(20), 1.0, 1.0)}):
        with pytest.raises(ValueError, match="H must be positive semi-definite"):
            minimize_quadratic(0.5 * (H + H.T), rng.normal(size=20), n_terms=2, **options)


@pytest.mark.parametrize("form", FORMS)
def test_a_shift_that_is_too_large(form):
    H, b = definite(np.random.default_rng(0), 30, ridge=0.5)
    least = np.linalg.eigvalsh(H)[0]
    assert minimize_quadratic(FORMS[form](H), b, n_terms=3, shift=0.9 * least).certificate
    with pytest.raises(ValueError, match="shift"):
        minimize_quadratic(FORMS[form](H), b, n_terms=30, pool_size=None, shift=2.0 * least)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"H": np.ones((3, 4))}, r"H must be a square matrix, got shape \(3, 4\)"),
        ({"H": np.ones(3)}, "H must be a square matrix"),
        ({"H": np.empty((0, 0)), "b": []}, "H must be a square matrix"),
        ({"H": np.diag([1.0, np.nan, 1.0])}, "H contains NaN"),
        ({"H": sparse.diags_array([1.0, np.inf, 1.0])}, "H contains NaN"),
        ({"H": np.array([[1.0, 0.5, 0], [0, 1, 0], [0, 0, 1]])}, r"symmetric.*\(H \+ H\.T\) / 2"),
        ({"H": sparse.csr_array(np.triu(np.ones((3, 3))))}, "H must be symmetric"),
        ({"H": aslinearoperator(np.triu(np.ones((3, 3))))}, "H must be symmetric"),
        ({"H": aslinearoperator(np.diag([1.0, np.nan, 1.0]))}, "NaN"),
        ({"H": 1j * np.eye(3)}, "H must hold real numbers"),
        ({"b": np.ones(4)}, "b must have 3 entries"),
        ({"b": np.ones((3, 1))}, "b must be a vector"),
        ({"b": [1.0, np.nan, 1.0]}, "b contains NaN"),
        ({"n_terms": 0}, "n_terms must be a whole number of at least 1, got 0"),
        ({"n_terms": 1.5}, "n_terms must be a whole number"),
        ({"n_terms": None}, "n_terms must be a whole number"),
        ({"pool_size": 0}, "pool_size must be a whole number of at least 1"),
        ({"tol": 0.0}, "tol must be a positive number"),
        ({"shift": -1.0}, "shift must be a positive number"),
        ({"shift": [1.0, 2.0]}, "shift must be a positive number, or one for each variable"),
        ({"companion": (np.eye(3), np.ones(3))}, r"companion must be a tuple"),
        ({"companion": (np.eye(3), np.ones(2), 1.0, 1.0)}, r"b\* of companion must have 3"),
        ({"companion": (np.ones((2, 3)), np.ones(2), 1.0, 1.0)}, "companion must be a square"),
        ({"companion": (np.eye(3), np.ones(3), 1.0, 1.0), "shift": 0.1}, "pass one of them"),
        ({"companion": (np.eye(3), np.ones(3), 1.0, -9.0)}, "does not belong"),
        ({"companion": (-np.eye(3), np.ones(3), 1.0, 1.0)}, "companion must be positive"),
        ({"H": aslinearoperator(np.eye(3)), "tol": 0.1}, "tol needs a lower bound.*pass shift"),
    ],
)
def test_bad_input(arguments, message):
    given = {"H": np.eye(3), "b": np.ones(3), "n_terms": 2} | arguments
    with pytest.raises(ValueError, match=message):
        minimize_quadratic(given.pop("H"), given.pop("b"), **given)


def test_single_precision_is_taken_at_its_word():
    """A product of float32 numbers has negative eigenvalues of 1e-7: it needs a ridge."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(20, 40)).astype(np.float32)
    H, b = A.T @ A, rng.normal(size=40)
    with pytest.raises(ValueError, match=r"H must be positive semi-definite.*add a multiple"):
        minimize_quadratic(H, b, n_terms=20)
    H = H + np.float32(0.1) * np.eye(40, dtype=np.float32)
    found = minimize_quadratic(H, b, n_terms=20, pool_size=None)
    least = -0.5 * b @ np.linalg.solve(H.astype(float), b)
    assert found.certificate.lower <= least * (1 - 1e-10) <= found.value
    assert found.certificate.lower == pytest.approx(least, rel=1e-9)
