"""Z02 on runs: criteria on made-up curves, margins against an oracle, and a short run."""

import itertools

import numpy as np
import pytest

from pursuit.papers import z02


def law(power, factor=1.0):
    """Δf ∝ k^power, with a bound that starts at 10 and falls as 1/k."""

    def problem(n_steps, seed):
        k = np.arange(1, n_steps + 1)
        return factor * k**power, 10.0 / k

    return problem


def test_exponents_and_criteria_of_curves_made_up():
    found = z02.rate({"a": law(-1.0), "b": law(-2.0)}, n_steps=40, n_runs=2)
    np.testing.assert_allclose(found.arrays["exponents"], [[-1, -1], [-2, -2]])
    assert found.verdict == "reproduced"
    broken = z02.rate({"a": law(-1.0), "b": law(-0.2, 2.0)}, n_steps=40, n_runs=1)
    assert broken.criteria["a: the bound holds after every step"] is True
    assert broken.criteria["b: the bound holds after every step"] is False
    flat = {"a": lambda n, seed: (np.full(n, 0.1), np.full(n, 1.0))}
    assert z02.rate(flat, n_steps=40, n_runs=1).criteria["the bound falls by half or more"] is False


@pytest.mark.parametrize("name", z02.PROBLEMS)
def test_the_bound_holds_on_short_runs(name):
    excess, bound = z02.PROBLEMS[name](30, 1)
    assert len(excess) == len(bound) == 30
    assert np.all(excess <= bound)
    assert np.all(np.diff(excess) <= 1e-12)
    assert excess[-1] > 0


def test_the_largest_margin_is_found():
    """The best of a fine grid over weights of three stumps is no better."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], size=6)
    atoms = rng.uniform(-1, 1, size=(6, 3)) + 0.3 * signs[:, None]
    grid = np.linspace(0, 1, 41)
    weights = [w for w in itertools.product(grid, repeat=3) if sum(w) <= 1]
    best = max((signs * (atoms @ np.array(w))).min() for w in weights)
    found = z02._largest_margin(atoms, signs)
    assert best <= found + 1e-12
    assert found == pytest.approx(best, abs=0.05)


def test_the_majority_of_three_bits_has_margin_one_third():
    assert z02._largest_margin(*z02._majority(3)) == pytest.approx(1 / 3)


def test_equation_8():
    expected = np.exp(-(0.1**2) * (np.array([5, 50]) + 3) / 32)
    np.testing.assert_allclose(z02._equation8([5, 50], 0.1), expected, rtol=1e-12)


def test_a_short_run_of_the_margins():
    found = z02.margin(rounds=(3, 100), few_rounds=(3, 300), n_runs=1)
    assert found.verdict == "reproduced"
    assert found.arrays["share_majority"].tolist()[0][1] == 0
    assert found.arrays["gamma"][1] == pytest.approx(0.064, abs=0.005)
    # Three rounds are not enough to leave no small margin.
    early = z02.margin(rounds=(3,), few_rounds=(3,), n_runs=1)
    assert early.criteria["no small margin is left for the majority vote"] is False
    assert early.criteria["small margins become fewer for breast cancer"] is False
