"""Correlations of levels, learned from tables whose correlations are known."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from pursuit import Categorical, on_columns
from pursuit.kernels import ColumnNames, compile_kernel, resolve_columns
from pursuit.linalg import Workers
from pursuit.tuning import Evidence, NoiseRange, learn_mixed, learn_pairs
from pursuit.tuning.categories import _factor, _level_correlations, _position
from pursuit.tuning.learning import learn_given
from pursuit.tuning.optimiser import Learned

NOISE = NoiseRange(0.1, 1e-4, 10.0)


def table(n, R, seed=0, noise=0.2, width=12.0):
    """Draw from a process on a number and a category with correlations R of its levels."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(-width, width, n), rng.integers(len(R), size=n)])
    level = X[:, 1].astype(int)
    K = np.exp(-0.5 * (X[:, [0]] - X[:, 0]) ** 2) * R[np.ix_(level, level)]
    values, vectors = np.linalg.eigh(K)
    # The symmetric root is unique: eigenvectors of equal values would follow the machine.
    f = (vectors * np.sqrt(np.maximum(values, 0.0))) @ (vectors.T @ rng.standard_normal(n))
    y = f + noise * rng.standard_normal(n)
    return Evidence(X, y[:, None], np.ones(n), Workers(1))


def known(n_levels):
    return ColumnNames(2, None, None, {1: np.arange(float(n_levels))})


def given(n_levels, **options):
    kernel = 1.0 * on_columns(RBF(1.0), [0]) * Categorical([1], **options)
    return resolve_columns(kernel, known(n_levels))


def correlations(kernel):
    [(_, node)] = kernel.nodes()
    return node.table()[:-1, :-1]


def test_pairs_are_found():
    v = np.array([[0.95, 0], [0.95, 0], [-0.95, 0], [0, 0.95], [0, 0.95], [0, -0.95]])
    R = v @ v.T
    np.fill_diagonal(R, 1.0)
    learned = learn_mixed(table(700, R), known(6), np.ones(1), 1.0, NOISE)
    found = correlations(learned.kernel.k2.k2)
    assert np.abs(found - R).max() < 0.35
    assert np.sqrt(np.mean((found - R) ** 2)) < 0.15
    assert {stage.family.partition(",")[2] for stage in learned.stages} == {"", " pairs"}


@pytest.mark.parametrize("rho", [0.02, 0.6])
def test_one_correlation_mostly_stays_where_all_pairs_are_alike(rho, size):
    """Akaike's criterion is wrong now and then: it took pairs in 6 of 32 draws."""
    R = rho + (1 - rho) * np.eye(8)
    n_draws, taken = size(5, 16), 0
    for seed in range(n_draws):
        data = table(450, R, seed=seed)
        learned = learn_pairs(data, learn_given(data, given(8), NOISE), NOISE)
        taken += learned.kernel.k2.factors is not None
        assert len(learned.stages) > 1  # they were tried
    assert taken < n_draws / 2


def test_two_levels_may_be_opposites():
    data = table(200, np.array([[1, -0.9], [-0.9, 1]]), seed=2)
    learned = learn_pairs(data, learn_given(data, given(2), NOISE), NOISE)
    assert correlations(learned.kernel.k2)[0, 1] < -0.7


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"correlations": "one"}, None),
        ({"correlations": "pairs", "rank": 3}, (8, 3)),
        ({"correlations": "pairs", "rank": 20}, (8, 7)),
        ({"correlation_bounds": "fixed"}, None),
    ],
)
def test_what_is_asked_for(options, shape):
    data = table(120, np.eye(8), seed=3)
    learned = learn_pairs(data, learn_given(data, given(8, **options), NOISE), NOISE)
    factors = learned.kernel.k2.factors
    assert (None if factors is None else factors[0].shape) == shape


def test_pairs_that_are_asked_for_are_kept():
    data = table(120, np.eye(8), seed=3)
    learned = learn_pairs(data, learn_given(data, given(8, correlations="pairs"), NOISE), NOISE)
    assert learned.kernel.k2.factors[0].shape[0] == 8
    assert learn_pairs(data, learned, NOISE) == learned  # no column is left


def test_too_many_levels_have_one_correlation():
    data = table(120, np.eye(31), seed=3)
    learned = learn_pairs(data, learn_given(data, given(31, correlations="pairs"), NOISE), NOISE)
    assert learned.kernel.k2.factors is None


def test_nothing_is_tried_when_it_is_late():
    data = table(100, np.eye(4))
    first = learn_given(data, given(4), NOISE)
    assert learn_pairs(data, first, NOISE, lambda: True) == first


def test_correlations_under_the_posterior():
    data = table(60, np.eye(3), seed=4)
    kernel = given(3, correlation=0.4)
    learned = Learned(kernel, 0.05, 0.0)
    found = _level_correlations(data, learned, 1, np.arange(3.0))
    node = compile_kernel(kernel)[0]
    C = node.tile(data.X, data.X) + 0.05 * np.eye(60)
    moments = np.zeros((3, 3))
    for x in data.X[:50]:
        here = np.array([[x[0], level] for level in range(3)])
        k = node.tile(here, data.X)
        mean = k @ np.linalg.solve(C, data.y[:, 0])
        moments += np.outer(mean, mean) + node.tile(here, here) - k @ np.linalg.solve(C, k.T)
    scale = np.sqrt(np.diag(moments))
    np.testing.assert_allclose(found, moments / np.outer(scale, scale), rtol=1e-9)


def test_factor_of_known_correlations():
    u = np.random.default_rng(0).standard_normal((10, 3))
    v = u / np.sqrt(1 + (u**2).sum(axis=1, keepdims=True))
    R = v @ v.T
    np.fill_diagonal(R, 1.0)
    found = _factor(R, 3)
    w = found / np.sqrt(1 + (found**2).sum(axis=1, keepdims=True))
    off = ~np.eye(10, dtype=bool)
    assert np.abs((w @ w.T - R)[off]).max() < 0.05


def test_position_of_a_nested_part():
    kernel = resolve_columns(2.0 * on_columns(RBF() * Categorical([1, 0]), [3, 2]), ColumnNames(4))
    path = next(k for k, part in kernel.get_params().items() if isinstance(part, Categorical))
    assert [_position(kernel, path, column) for column in (0, 1)] == [2, 3]
