"""Probabilities from values of rows left out: a naive search, noise, and what is left out."""

import numpy as np
import pytest

from pursuit.tuning import Shrinkage, fit_shrinkage, log_loss, values_left_out
from pursuit.tuning.shrinkage import _DOUBTFUL_ROWS, _PULL_COSTS


def problem(n_classes, m=40, seed=0, signal=1.0):
    """Values too large by a factor of 5, classes of uneven shares, and weights."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(
        n_classes, m, p=np.arange(1, n_classes + 1)[::-1] / np.sum(range(1, n_classes + 1))
    )
    codes[:n_classes] = np.arange(n_classes)
    columns = 1 if n_classes == 2 else n_classes
    own = codes[:, None] == (np.arange(1, 2) if n_classes == 2 else np.arange(n_classes))
    values = 5.0 * (signal * np.where(own, 1.0, -1.0) + rng.standard_normal((m, columns)))
    return values, codes, rng.uniform(0.5, 2.0, m)


def naive_objective(values, codes, weights, slope, pull):
    """The formula of the module's docstring, row by row."""
    n_classes = codes.max() + 1
    shares = np.array([weights[codes == k].sum() for k in range(n_classes)]) / weights.sum()
    total = 0.0
    for f, code, w in zip(values, codes, weights, strict=True):
        if n_classes == 2:
            z = slope * f[0] + pull * np.log(shares[1] / shares[0])
            p = np.array([1 / (1 + np.exp(z)), 1 / (1 + np.exp(-z))])
        else:
            s = 1 / (1 + np.exp(-slope * f - pull * np.log(shares / (1 - shares))))
            p = s / s.sum()
        total += w * np.log(p[code])
        total += _DOUBTFUL_ROWS * w / weights.sum() * (shares @ np.log(p))
    return total - _PULL_COSTS * pull


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("signal", [0.0, 0.3, 2.0])
def test_slope_and_pull_are_those_of_a_naive_search(n_classes, signal):
    values, codes, weights = problem(n_classes, signal=signal)
    found = fit_shrinkage(values, codes, weights, np.arange(len(codes)))
    best = naive_objective(values, codes, weights, found.slope, found.pull)
    slopes = np.geomspace(1e-3, 1e2, 41) / np.sqrt((values**2).mean())
    tried = [
        naive_objective(values, codes, weights, slope, pull)
        for slope in slopes
        for pull in np.linspace(0.0, 1.0, 9)
    ]
    assert best >= max(tried) - 1e-6
    # The control: half or twice the slope is worse, unless the slope says nothing.
    if signal:
        for factor in (0.5, 2.0):
            assert naive_objective(values, codes, weights, factor * found.slope, found.pull) < best
    np.testing.assert_allclose(found.probabilities(values).sum(axis=1), 1.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_values_that_say_nothing_give_the_shares(n_classes):
    values, codes, weights = problem(n_classes, m=400, signal=0.0)
    new, labels, _ = problem(n_classes, m=2000, seed=1, signal=0.0)
    weights = np.ones_like(weights)
    shares = np.bincount(codes) / len(codes)
    found = fit_shrinkage(values, codes, weights, np.arange(len(codes)))
    even = np.ones(len(labels))
    by_shares = log_loss(np.tile(shares, (len(labels), 1)), labels, even)
    assert log_loss(found.probabilities(new), labels, even) < by_shares + 0.02
    plain = Shrinkage.none(values.shape[1]).probabilities(new)
    assert log_loss(plain, labels, even) > by_shares + 0.5


def test_decisions_stay_where_shares_save_little():
    """Values that are right leave the shares out; without ``pulled`` they never count."""
    values, codes, weights = problem(3, signal=2.0)
    rows = np.arange(len(codes))
    found = fit_shrinkage(values, codes, weights, rows)
    assert found.pull == 0.0
    assert np.array_equal(found.probabilities(values).argmax(axis=1), values.argmax(axis=1))
    noise = problem(3, signal=0.0)[0]
    assert fit_shrinkage(noise, codes, weights, rows).pull > 0.1
    assert fit_shrinkage(noise, codes, weights, rows, pulled=False).pull == 0.0


def test_probabilities_of_separated_values_are_not_certain():
    values = np.array([[-3.0]] * 10 + [[3.0]] * 10)
    codes = np.repeat([0, 1], 10)
    p = fit_shrinkage(values, codes, np.ones(20), np.arange(20)).probabilities(values)
    # Of 22 rows, one of the two added ones is wrong.
    np.testing.assert_allclose(p.max(axis=1), 21 / 22, atol=1e-3)


def test_the_unit_of_values_does_not_matter():
    values, codes, weights = problem(3, signal=0.5)
    rows = np.arange(len(codes))
    one = fit_shrinkage(values, codes, weights, rows)
    two = fit_shrinkage(1e6 * values, codes, weights, rows)
    np.testing.assert_allclose(
        one.probabilities(values), two.probabilities(1e6 * values), atol=1e-4
    )


def test_weights_are_copies():
    values, codes, _ = problem(3, signal=0.5)
    copies = np.random.default_rng(0).integers(1, 4, len(codes))
    again = np.random.default_rng(1).permutation(np.repeat(np.arange(len(codes)), copies))

    def fit(of, w):
        """Weighted means of the classes' values: a model of the rows that are left."""

        def refit(train):
            others = np.zeros_like(values[of])
            for k in range(3):
                mine = train[codes[of][train] == k]
                others += np.average(values[of][mine], axis=0, weights=w[mine]) * (k + 1)
            return others + 0.1 * values[of]

        return refit

    found = []
    for of, w in ((np.arange(len(codes)), copies.astype(float)), (again, np.ones(len(again)))):
        rows, left_out = values_left_out(values[of], codes[of], w, fit(of, w))
        assert len(rows) == len(of)
        found.append(fit_shrinkage(left_out, codes[of], w, rows))
    np.testing.assert_allclose(
        found[0].probabilities(values), found[1].probabilities(values), atol=1e-6
    )


def test_every_row_is_left_out_once_but_the_only_one_of_a_class():
    codes = np.array([0] * 7 + [1] * 2 + [2] + [3] * 13)
    values = np.linspace(1.0, 2.0, 23)[:, None]
    left_out = []

    def fit(train):
        test = np.setdiff1d(np.arange(len(codes)), train)
        assert set(codes[train]) == {0, 1, 2, 3}
        left_out.extend(test)
        # Ten times the values, and at the rows left out nothing of them.
        others = 10.0 * values
        others[test] = test[:, None]
        return others

    even = np.ones(23)
    rows, found = values_left_out(values, codes, even, fit)
    assert sorted(left_out) == rows.tolist() == [row for row in range(23) if row != 9]
    np.testing.assert_allclose(found[:, 0], 0.1 * rows)
    assert values_left_out(values[:3], np.arange(3), even[:3], fit) is None
    # Copies of one row are its only row.
    assert values_left_out(np.ones((6, 1)), np.repeat([0, 1], 3), even[:6], fit) is None
