"""P(f) ≥ P_min ≥ D for any model whatever, and each kind against its formula formed densely."""

import warnings
from functools import partial

import numpy as np
import oracles
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern
from tasks import make_task, tasks

from pursuit import Evidence, Search, SparseGPRegressor
from pursuit.estimators.span.certify import Certifier, Model
from pursuit.linalg import Workers

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""

KINDS = ["published", "dense", "scaled", "hybrid", "grouped", "two-level", "pcg"]


# Models made by hand


def make_model(task, seed, n, foreign, moved):
    """A model on n points, fitted and then its coefficients moved, with its value.

    Also the size of the terms that cancel in it: what float64 can know of it is 1e-16 of that.
    """
    rng = np.random.default_rng(seed)
    if foreign:
        spread = np.abs(task.X).max() or 1.0
        points = (spread * rng.standard_normal((n, task.X.shape[1]))).astype(task.X.dtype)
    else:
        points = task.X[rng.choice(len(task.X), min(n, len(task.X)), replace=False)]
    K_points, K_rows = task.between(points, points), task.between(task.X, points)
    beta = oracles.span_fit(K_rows, K_points, task.Y, task.w, task.noise)
    beta = beta * (1 + moved * rng.standard_normal(beta.shape))
    items = sparse.csr_array(points) if task.is_sparse else points
    value = oracles.primal(K_rows, K_points, beta, task.Y, task.w, task.noise)
    size = (np.abs(task.Y), task.w, task.noise)
    terms = oracles.primal(np.abs(K_rows), np.abs(K_points), -np.abs(beta), *size)
    return Model(items, beta), points, value, terms


def certify(task, models, kind, **options):
    with Workers(1) as workers:
        return Certifier(task.problem(workers)).certify(models, kind, **options)


@given(
    tasks(),
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from([0.0, 0.1, 3.0]),
)
def test_any_model_is_bracketed_by_every_kind(task, seed, n, foreign, moved):
    model, _, value, terms = make_model(task, seed, n, foreign, moved)
    minimum = oracles.least_primal(task.K, task.Y, task.w, task.noise)
    slack = 1e-8 * (task.w @ task.Y**2 + value) + 1e-13 * terms
    for kind in KINDS:
        [found] = certify(task, [model], kind)
        upper, lower = found.per_output["upper"], found.per_output["lower"]
        np.testing.assert_allclose(upper, value, rtol=1e-7, atol=slack.max())
        assert np.all(lower <= minimum + slack), kind
        assert np.all(upper >= minimum - slack), kind
        assert found.gap_at_least <= (value - minimum).sum() + slack.sum(), kind
        assert (value - minimum).sum() <= found.gap + slack.sum(), kind
        for name in ("upper", "lower", "gap"):
            assert getattr(found, name) == pytest.approx(found.per_output[name].sum())


def naive_kinds(task, points, beta, n):
    """Dense, scaled, published and hybrid lower bounds on n rows S*, by dense solves."""
    K, w, s2 = task.K, task.w, task.noise
    A = K + s2 * np.diag(1 / w)
    v = w[:, None] * (task.Y - task.between(task.X, points) @ beta) / s2
    S, _ = oracles.dual_greedy(K, task.Y, w, s2, min(n, len(K)))
    units = np.eye(len(K))[:, S]

    def best(columns, o):
        """Max D over the span: ½σ² (B'y)'(B'AB)⁺(B'y)."""
        right = columns.T @ task.Y[:, o]
        return 0.5 * s2 * right @ np.linalg.pinv(columns.T @ A @ columns, rcond=1e-13) @ right

    outputs = range(task.Y.shape[1])
    unit_v = v / np.maximum(np.linalg.norm(v, axis=0), 1e-300)
    return {
        "dense": oracles.dual(K, v, task.Y, w, s2),
        "scaled": np.array([best(v[:, [o]], o) for o in outputs]),
        "published": np.array([best(units, o) for o in outputs]),
        "hybrid": np.array([best(np.column_stack([units, unit_v[:, o]]), o) for o in outputs]),
    }


@given(tasks(), st.integers(0, 2**32 - 1), st.integers(1, 6), st.booleans())
def test_each_kind_is_its_formula(task, seed, n, foreign):
    model, points, value, _ = make_model(task, seed, n, foreign, moved=0.1)
    expected = naive_kinds(task, points, model.coefficients, len(model))
    scale = (task.w @ task.Y**2 + value).max()
    found = {kind: certify(task, [model], kind)[0].lower_per_output for kind in KINDS}
    # Hybrid chooses as many rows again, for what the residual and the first rows leave over.
    at_least = expected.pop("hybrid")
    assert np.all(found["hybrid"] >= at_least - 1e-7 * scale)
    if 2 * len(model) >= len(task.K):
        minimum = oracles.least_primal(task.K, task.Y, task.w, task.noise)
        np.testing.assert_allclose(found["hybrid"], minimum, rtol=1e-6, atol=1e-7 * scale)
    for kind, bound in expected.items():
        bound = np.maximum(bound, 0.0)
        np.testing.assert_allclose(found[kind], bound, rtol=1e-6, atol=1e-7 * scale, err_msg=kind)
    # Every kind is a bound, and the scaled point is the best multiple of the dense one.
    assert np.all(found["hybrid"] >= found["published"] - 1e-8 * scale)
    assert np.all(found["hybrid"] >= found["scaled"] - 1e-6 * scale)
    assert np.all(found["scaled"] >= found["dense"] - 1e-8 * scale)


@given(tasks(), st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 18), st.booleans())
def test_two_levels_are_their_formula(task, seed, n, n_second, foreign):
    model, points, value, _ = make_model(task, seed, n, foreign, moved=0.1)
    [found] = certify(task, [model], "two-level", n_second=n_second)
    K, w, s2 = task.K, task.w, task.noise
    S: list[int] = []
    for _ in range(min(n_second, len(K))):
        missed = np.diag(oracles.nystroem_residual(K, S)) if S else np.diag(K)
        if missed.max() <= 1e-12 * K.max():
            break
        # Within 1e-10 they are ties, which go to the lowest row.
        S.append(int(np.flatnonzero(missed >= missed.max() * (1 - 1e-10))[0]))
    E = oracles.nystroem_residual(K, S)
    roots = np.sqrt(np.maximum(np.diag(E), 0))
    larger = K - E + s2 * np.diag(1 / w) + roots.sum() * np.diag(roots)
    shifted = 0.5 * s2 * np.sum(task.Y * np.linalg.solve(larger, task.Y), axis=0)
    v = w[:, None] * (task.Y - task.between(task.X, points) @ model.coefficients) / s2
    quadratic = np.einsum("io,io->o", v, (K - E + s2 * np.diag(1 / w)) @ v)
    scaled = 0.5 * s2 * np.sum(task.Y * v, axis=0) ** 2 / (quadratic + (roots @ np.abs(v)) ** 2)
    scale = (task.w @ task.Y**2 + value).max()
    # The point that gives the first bound is evaluated by the second formula, which is no worse.
    # Which pivot is the last that is not rounding may differ.
    expected = np.maximum(shifted, scaled)
    assert np.all(found.lower_per_output >= expected * (1 - 1e-4) - 1e-4 * scale)
    best = np.linalg.solve(larger, task.Y)
    quadratic = np.einsum("io,io->o", best, (K - E + s2 * np.diag(1 / w)) @ best)
    better = np.sum(task.Y * best, axis=0) ** 2 / (quadratic + (roots @ np.abs(best)) ** 2)
    expected = np.maximum(0.5 * s2 * better, scaled)
    np.testing.assert_allclose(found.lower_per_output, expected, rtol=1e-4, atol=1e-4 * scale)


TWICE_THE_SAME_POINT = make_task(
    np.random.default_rng(234),
    9,
    n_features=1,
    parameter=0.5,
    n_duplicates=3,
    scale=1e3,
    target_scale=1e4,
)


@example(TWICE_THE_SAME_POINT, 0, 8, False)
@given(tasks(), st.integers(0, 2**32 - 1), st.integers(1, 8), st.booleans())
def test_the_dense_gap_of_a_fitted_model_is_what_its_span_misses(task, seed, n, foreign):
    """r'W(K - VV')Wr/2σ²; not so once the coefficients have moved.

    Points that nearly depend on each other leave coefficients, and so the gap, to rounding.
    """
    model, points, *_ = make_model(task, seed, n, foreign, moved=0.0)
    K_rows, K_points = task.between(task.X, points), task.between(points, points)
    shares = np.linalg.eigvalsh(K_points) / np.linalg.norm(K_points)
    assume(not np.any((shares > 1e-14) & (shares < 1e-11)))
    E = task.K - K_rows @ np.linalg.pinv(K_points, rcond=1e-13, hermitian=True) @ K_rows.T
    Wr = task.w[:, None] * (task.Y - K_rows @ model.coefficients)
    expected = np.einsum("io,io->o", Wr, E @ Wr) / (2 * task.noise)
    [found] = certify(task, [model], "dense")
    scale = (task.w @ task.Y**2 + expected).max()
    # No minimum is negative, whatever D is.
    expected = np.minimum(expected, found.upper_per_output)
    np.testing.assert_allclose(found.per_output["gap"], expected, rtol=1e-5, atol=1e-6 * scale)


def best_in_krylov_space(task, points, beta, steps):
    """The dual points that PCG from v = Wr/σ² should reach, preconditioned by VV' + σ²W⁻¹."""
    K_rows, K_points = task.between(task.X, points), task.between(points, points)
    ridge = task.noise * np.diag(1 / task.w)
    A = task.K + ridge
    M = K_rows @ np.linalg.pinv(K_points, rcond=1e-13, hermitian=True) @ K_rows.T + ridge
    v = task.w[:, None] * (task.Y - K_rows @ beta) / task.noise
    for o in range(v.shape[1]):
        rest = task.Y[:, o] - A @ v[:, o]
        basis = [np.linalg.solve(M, rest)]
        for _ in range(steps - 1):
            basis.append(np.linalg.solve(M, A @ (basis[-1] / np.linalg.norm(basis[-1]))))
        B, _ = np.linalg.qr(np.column_stack(basis))
        v[:, o] += B @ np.linalg.solve(B.T @ A @ B, B.T @ rest)
    return v


@given(tasks(min_rows=6), st.integers(0, 2**32 - 1), st.integers(1, 5), st.booleans())
def test_more_steps_of_pcg_come_nearer(task, seed, n, foreign):
    """At least as near as conjugate gradients alone, whose bound rises at every step."""
    model, points, value, _ = make_model(task, seed, n, foreign, moved=0.5)
    minimum = oracles.least_primal(task.K, task.Y, task.w, task.noise)
    scale = (task.w @ task.Y**2 + value).sum()
    for steps in (1, 2, 3):
        [found] = certify(task, [model], "pcg", steps=steps)
        v = best_in_krylov_space(task, points, model.coefficients, steps)
        alone = oracles.dual(task.K, v, task.Y, task.w, task.noise)
        assert np.all(found.lower_per_output >= alone - 1e-6 * scale)
    truth = (value - minimum).sum()
    [found] = certify(task, [model], "pcg", steps=200)
    assert found.gap == pytest.approx(truth, rel=1e-5, abs=1e-7 * scale)
    assert found.gap_at_least == pytest.approx(truth, rel=1e-5, abs=1e-7 * scale)


def test_a_second_level_of_all_rows_is_the_truth():
    task = make_task(np.random.default_rng(0), 18, name="exponential", n_outputs=2, weighted=True)
    model, *_ = make_model(task, 1, 4, foreign=True, moved=0.2)
    [found] = certify(task, [model], "two-level", n_second=18)
    minimum = oracles.least_primal(task.K, task.Y, task.w, task.noise)
    np.testing.assert_allclose(found.lower_per_output, minimum, rtol=1e-6)
    [more] = certify(task, [model], "two-level", n_second=500)
    np.testing.assert_allclose(more.lower_per_output, found.lower_per_output, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_models_certified_together_are_certified_as_alone(kind):
    task = make_task(np.random.default_rng(2), 18, n_outputs=2, weighted=True)
    whole, *_ = make_model(task, 3, 9, foreign=False, moved=0.1)

    def cut(n):
        beta = whole.coefficients[:n]
        return Model(whole.points[:n], beta)

    models = [cut(3), whole, cut(6)]
    minimum = oracles.least_primal(task.K, task.Y, task.w, task.noise)
    options = {"n_second": 12} if kind == "two-level" else {}
    for model, found in zip(models, certify(task, models, kind, **options), strict=True):
        [alone] = certify(task, [model], kind, **options)
        np.testing.assert_allclose(found.upper_per_output, alone.upper_per_output, rtol=1e-10)
        assert np.all(found.lower_per_output <= minimum * (1 + 1e-9))
        # All models share the largest one's conjugate gradients, and its rows.
        if kind == "hybrid" and model is not whole:
            [scaled], [published] = (
                certify(task, [model], "scaled"),
                certify(task, [whole], "published"),
            )
            least = np.maximum(scaled.lower_per_output, published.lower_per_output)
            assert np.all(found.lower_per_output >= least * (1 - 1e-9))
        elif kind != "pcg":
            np.testing.assert_allclose(found.lower_per_output, alone.lower_per_output, rtol=1e-8)


# Groups of rows


def naive_groups(task, groups, *, divided=True):
    """Σ_g of the minimum over each group's rows, with its share of the noise or with all of it."""
    total = np.zeros(task.Y.shape[1])
    for g in groups:
        share = len(g) / len(task.K) if divided else 1.0
        K = task.K[np.ix_(g, g)]
        total += oracles.least_primal(K, task.Y[g], task.w[g], share * task.noise)
    return total


@pytest.mark.parametrize("size", [1, 5, 7, 18, 40])
def test_grouped_is_the_sum_of_the_minima_of_its_groups(size):
    task = make_task(np.random.default_rng(4), 18, n_outputs=2, weighted=True)
    model, *_ = make_model(task, 3, 4, foreign=False, moved=0.1)
    with Workers(1) as workers:
        problem = task.problem(workers)
        [found] = Certifier(problem).certify([model], "grouped", group_rows=size)
        # What is drawn is what a problem of the same seed draws.
        order = task.problem(workers).rng.permutation(18)
    groups = np.array_split(order, -(-18 // size))
    np.testing.assert_allclose(found.lower_per_output, naive_groups(task, groups), rtol=1e-8)
    minimum = oracles.least_primal(task.K, task.Y, task.w, task.noise)
    assert np.all(found.lower_per_output <= minimum * (1 + 1e-9))
    if size >= 18:
        np.testing.assert_allclose(found.lower_per_output, minimum, rtol=1e-8)


def test_groups_that_do_not_share_the_noise_prove_nothing():
    task = make_task(np.random.default_rng(4), 18, n_outputs=2, weighted=True)
    groups = np.array_split(np.arange(18), 6)
    minimum = oracles.least_primal(task.K, task.Y, task.w, task.noise)
    assert np.any(naive_groups(task, groups, divided=False) > 1.3 * minimum)
    assert np.all(naive_groups(task, groups) <= minimum)


def noisy_plane(m, noise):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (m, 2))
    return X, X[:, 0] - X[:, 1] + noise * rng.standard_normal(m)


@pytest.mark.parametrize(
    ("scale", "given_noise", "most_rows", "kind"),
    [
        (3.0, 0.5, (100, 10_000), "hybrid"),
        (3.0, 0.5, (100, 100), "grouped"),
        (0.01, 1e-4, (100, 10_000), "published"),
        (0.01, 1e-4, (100, 100), "published"),
        (0.01, 1e-4, (10_000, 10_000), "hybrid"),
    ],
)
def test_of_many_rows_the_kind_is_one_that_says_something(
    monkeypatch, scale, given_noise, most_rows, kind
):
    # A narrow kernel with little noise leaves nothing that few kernel values could prove.
    monkeypatch.setattr("pursuit.estimators.span.model._AUTO_CERTIFICATE_ROWS", most_rows)
    monkeypatch.setattr("pursuit.estimators.span.certify._GROUP_ROWS", (32, 64))
    X, y = noisy_plane(800, 1.0)
    model = fixed_gp(RBF(scale), noise=given_noise, n_basis=20, random_state=0)
    # As if the kernel had been learned: then a product with K is allowed for more rows.
    learned = property(lambda _: True, lambda *_: None)
    monkeypatch.setattr(SparseGPRegressor, "_learned", learned, raising=False)
    found = model.fit(X, y).certificate_
    assert found.kind == kind
    z = (y - y.mean()) / y.std()
    A = RBF(scale)(X) + given_noise * np.eye(len(X))
    minimum = 0.5 * given_noise * z @ np.linalg.solve(A, z)
    assert found.lower <= minimum * (1 + 1e-9)
    if kind == "grouped":
        assert found.lower > 0.5 * minimum
        assert model.certify(X, y, kind="published").gap > 2 * found.gap


# Fitted models


@pytest.mark.parametrize("weighted", [False, True])
def test_the_published_gap_stays_above_its_floor(waves, rough_kernel, weighted_scale, weighted):
    data = waves(60, n_outputs=2)
    w = np.random.default_rng(3).uniform(0.2, 3.0, 60) if weighted else np.ones(60)
    model = fixed_gp(rough_kernel, noise=0.3, n_basis=25).fit(data.X, data.y, w)
    sizes = [1, 5, 12, 25]
    path = model.certify_path(data.X, data.y, w, "published", sizes=sizes, floor=True)
    mean, scale = weighted_scale(data.y, w)
    Y, K = (data.y - mean) / scale, rough_kernel(data.X)
    exact = 0.3 / w[:, None] * np.linalg.solve(K + 0.3 * np.diag(1 / w), Y)
    S, _ = oracles.dual_greedy(K, Y, w, 0.3, 25)
    squares = w * (exact**2).sum(axis=1)
    expected = [0.5 * squares[[i for i in range(60) if i not in S[:n]]].sum() for n in sizes]
    np.testing.assert_allclose(path.floor, expected, rtol=1e-6)
    assert np.all(path.gap >= path.floor)
    assert model.certify_path(data.X, data.y, w, "published", sizes=sizes).floor is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_certifies_every_truncation(waves, rough_kernel, kind):
    data = waves(70)
    model = fixed_gp(rough_kernel, noise=0.2, n_basis=20).fit(data.X, data.y)
    options = {"n_second": 40} if kind == "two-level" else {}
    path = model.certify_path(data.X, data.y, kind=kind, **options)
    assert path.sizes[0] == 1
    assert path.sizes[-1] == 20
    assert np.all(np.diff(path.sizes) >= 1)
    assert np.all(path.sizes[1:] <= np.maximum(path.sizes[:-1] + 1, 1.25 * path.sizes[:-1] + 1.25))
    np.testing.assert_allclose(path.upper, model.path_.value[path.sizes - 1], rtol=1e-9)
    np.testing.assert_allclose(path.gap, path.upper - path.lower, rtol=1e-9, atol=1e-12)
    assert np.all(np.isfinite(path.relative_gap))
    if kind != "pcg":
        for n, found in zip(path.sizes, path.certificates, strict=True):
            alone = model.truncated(int(n)).certify(data.X, data.y, kind=kind, **options)
            if kind == "hybrid" and n < 20:
                # Truncations are judged with the rows chosen for the whole model.
                assert found.lower >= alone.lower * (1 - 1e-9)
            else:
                assert found.lower == pytest.approx(alone.lower, rel=1e-8)


@pytest.mark.parametrize("sizes", [[0, 3], [1, 11], [1.5], [], np.array([], int), ["a"]], ids=str)
def test_sizes_that_are_none(waves, rough_kernel, sizes):
    data = waves(40)
    model = fixed_gp(rough_kernel, noise=0.2, n_basis=10).fit(data.X, data.y)
    with pytest.raises(ValueError, match="sizes must be whole numbers from 1 to 10"):
        model.certify_path(data.X, data.y, sizes=sizes)


@pytest.mark.parametrize("call", ["certify", "certify_path"])
def test_options_belong_to_kinds(waves, rough_kernel, call):
    data = waves(40)
    certify = getattr(fixed_gp(rough_kernel, noise=0.2, n_basis=10).fit(data.X, data.y), call)
    with pytest.raises(TypeError, match=r"steps=3 with kind='hybrid': steps belongs to kind='pcg'"):
        certify(data.X, data.y, kind="hybrid", steps=3)
    with pytest.raises(TypeError, match=r"group_rows=9.*belongs to kind='grouped'"):
        certify(data.X, data.y, kind="dense", group_rows=9)
    with pytest.raises(TypeError, match=r"n_second=9.*belongs to kind='two-level'"):
        certify(data.X, data.y, kind="pcg", n_second=9)
    with pytest.raises(TypeError, match="depth is not an option"):
        certify(data.X, data.y, depth=1)
    for value in (0, -1, 2.0, "3", None):
        with pytest.raises(ValueError, match="steps must be a positive whole number"):
            certify(data.X, data.y, kind="pcg", steps=value)
        with pytest.raises(ValueError, match="n_second must be a positive whole number"):
            certify(data.X, data.y, kind="two-level", n_second=value)
    with pytest.raises(ValueError, match="kind must be one of published, dense"):
        certify(data.X, data.y, kind="auto")


@pytest.mark.parametrize("call", ["certify", "certify_path"])
def test_data_that_do_not_fit_the_model(waves, rough_kernel, call):
    data = waves(40)
    certify = getattr(fixed_gp(rough_kernel, noise=0.2, n_basis=10).fit(data.X, data.y), call)
    with pytest.raises(ValueError, match=r"3 features.*expecting 2 features"):
        certify(np.ones((40, 3)), data.y)
    with pytest.raises(ValueError, match="y has 2 outputs, but the model was fitted with 1"):
        certify(data.X, np.column_stack([data.y, data.y]))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        certify(data.X, data.y[:30])
    with pytest.raises(ValueError, match="NaN"):
        certify(data.X, np.full(40, np.nan))
    with pytest.raises(ValueError, match="y is None"):
        certify(data.X, None)


@pytest.mark.parametrize("call", ["certify", "certify_path"])
@pytest.mark.parametrize("weights", [np.linspace(0.5, 2.0, 40), np.arange(40) % 2], ids=["w", "01"])
def test_forgotten_weights_are_noticed(waves, rough_kernel, call, weights):
    data = waves(40)
    model = fixed_gp(rough_kernel, noise=0.2, n_basis=10).fit(data.X, data.y, weights)
    with pytest.warns(UserWarning, match="fitted with sample_weight"):
        getattr(model, call)(data.X, data.y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(model, call)(data.X, data.y, weights)


def test_float32_never_certifies(waves, rough_kernel):
    """P(f) of the certificate is that of the very coefficients, in float64."""
    data = waves(400)
    K, y = rough_kernel(data.X), data.y - data.y.mean()
    minimum = oracles.least_primal(K, y[:, None], np.ones(400), 0.2)[0]
    for kind in KINDS:
        model = fixed_gp(
            rough_kernel,
            noise=0.2,
            n_basis=15,
            search=Search(pool_size=60, rows=150),
            dtype="float32",
            normalize_y=False,
            certificate=kind,
            random_state=0,
        ).fit(data.X, y)
        residual = y - rough_kernel(data.X, model.basis_) @ model.dual_coef_
        norm = model.dual_coef_ @ rough_kernel(model.basis_) @ model.dual_coef_
        value = 0.5 * residual @ residual + 0.1 * norm
        for found in (model.certificate_, model.certify(data.X, y, kind=kind)):
            assert found.upper == pytest.approx(value, rel=1e-11, abs=2 * found.rounding), kind
            assert found.upper >= value * (1 - 1e-14)
            assert found.rounding < 1e-6 * value
            assert found.lower <= minimum * (1 + 1e-11)
            assert found.gap_at_least <= (value - minimum) * (1 + 1e-11)


@pytest.mark.parametrize(
    ("kernel", "noise", "arguments"),
    [
        (RBF(1.0), 1e-6, {"n_basis": 60}),
        (
            RBF(3.0),
            0.1,
            {"n_basis": 20, "dtype": "float32", "search": Search(pool_size=60, rows=100)},
        ),
        (
            RBF(1.0),
            0.1,
            {"n_basis": 60, "dtype": "float32", "search": Search(pool_size=100, rows=100)},
        ),
    ],
    ids=str,
)
def test_a_smooth_kernel_is_not_taken_for_an_indefinite_one(kernel, noise, arguments):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 2)), rng.normal(size=150)
    model = fixed_gp(kernel, noise=noise, random_state=0, **arguments)
    assert np.isfinite(model.fit(X, y).certificate_.gap)


@pytest.mark.parametrize("kernel", [RBF(20.0), RBF(1.0), DotProduct(1.0)], ids=str)
def test_both_sides_hold_with_little_noise(kernel):
    """The exact minimum in extended precision: a bound may be loose, not wrong."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=60)
    L = oracles.long_cholesky(kernel(X) + 1e-6 * np.eye(60))
    minimum = float(0.5e-6 * (oracles.long_forward(L, y[:, None]) ** 2).sum())
    for n in (1, 4, 30):
        model = fixed_gp(kernel, noise=1e-6, n_basis=n, normalize_y=False, certificate=None)
        model.fit(X, y)
        for kind in KINDS:
            found = model.certify(X, y, kind=kind)
            true_gap = found.upper - minimum
            slack = 1e-3 * true_gap + 1e-9 * (y @ y)
            assert found.gap_at_least <= true_gap + slack, (n, kind)
            assert true_gap <= found.gap + slack, (n, kind)


@pytest.fixture(scope="module")
def learned():
    """A model whose kernel and noise are learned, its points moved, its error bars calibrated."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 2))
    y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.1 * rng.normal(size=2100)
    few = Evidence(rows=600)
    model = SparseGPRegressor(n_basis=12, refine=20, optimizer=few, random_state=0).fit(X, y)
    assert np.all(model.basis_indices_ == -1)
    return model, X, y


def test_a_learned_and_moved_model_is_bracketed(learned):
    """With the kernel and the noise as they stand after all."""
    model, X, y = learned
    Y = ((y - y.mean()) / y.std())[:, None]
    minimum = oracles.least_primal(model.kernel_(X), Y, np.ones(2100), model.noise_)[0]
    K_rows, K_points = model.kernel_(X, model.basis_), model.kernel_(model.basis_)
    beta = model.dual_coef_[:, None]
    value = oracles.primal(K_rows, K_points, beta, Y, np.ones(2100), model.noise_)[0]
    assert model.certificate_.kind == "hybrid"
    for found in (model.certificate_, *(model.certify(X, y, kind=kind) for kind in KINDS)):
        assert found.upper == pytest.approx(value, rel=1e-7)
        assert found.lower <= minimum * (1 + 1e-9)
        assert found.gap_at_least <= (value - minimum) * (1 + 1e-6)
        assert value - minimum <= found.gap * (1 + 1e-6)


# Stopping by a certificate


def fit(data, kernel, **arguments):
    settings = {"noise": 0.2, "random_state": 0, **arguments}
    return fixed_gp(kernel, **settings).fit(data.X, data.y)


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_stopped_by_tol_is_certified_within_tol(waves, rough_kernel, search, kind):
    data = waves(100)
    for tol in (1.0, 0.3, 0.1):
        model = fit(data, rough_kernel, search=search, tol=tol, certificate=kind, n_basis=100)
        assert model.path_.stop_reason == "tol"
        assert model.certificate_.kind == kind
        assert model.certificate_.relative_gap <= tol
        assert model.path_.gap[-1] <= tol


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_tol_that_is_not_reached_is_said(waves, rough_kernel, search, kind):
    data = waves(100)
    with pytest.warns(ConvergenceWarning, match="tol=1e-09"):
        model = fit(data, rough_kernel, search=search, tol=1e-9, certificate=kind, n_basis=8)
    assert model.n_basis_ == 8
    assert model.certificate_.relative_gap > 1e-9


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_path_counts_what_the_certificate_costs(waves, rough_kernel, search, kind):
    """Entries: at least a second pursuit's columns, or a product with half the matrix."""
    data = waves(100)
    without = fit(data, rough_kernel, search=search, certificate=None, n_basis=15).path_
    path = fit(data, rough_kernel, search=search, certificate=kind, n_basis=15).path_
    assert path.entries[-1] >= without.entries[-1] + 15 * 100
    if kind in ("dense", "scaled", "hybrid", "pcg"):
        assert path.entries[-1] >= without.entries[-1] + 100 * 100 / 2
        assert path.passes[-1] >= without.passes[-1] + 1


def test_every_search_stops_at_the_same_certificate_with_any_kernel(waves):
    """A pool of all rows and a full search know the same models."""
    data = waves(80)
    pooled, full = (
        fit(data, Matern(0.5, nu=0.5), search=search, tol=0.2, certificate="hybrid", n_basis=80)
        for search in ("pooled", "full")
    )
    assert pooled.n_basis_ >= 0.8 * full.n_basis_
    assert full.n_basis_ >= 0.7 * pooled.n_basis_
