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


def hidden(power, factor=1.0):
    """The same, as a problem that a control is told of."""
    return lambda n_steps, seed, control: law(power, factor)(n_steps, seed)


def test_exponents_and_criteria_of_curves_made_up():
    good = {"c": hidden(-1.0)}
    found = z02.rate({"a": law(-1.0), "b": law(-2.0)}, good, n_steps=40, n_runs=2)
    np.testing.assert_allclose(found.arrays["exponents"], [[-1, -1], [-2, -2]])
    assert found.verdict == "reproduced"
    broken = z02.rate({"a": law(-1.0), "b": law(-0.2, 2.0)}, good, n_steps=40, n_runs=1)
    assert broken.checks["a: the bound holds after every step"] is True
    assert broken.checks["b: the bound holds after every step"] is False
    assert broken.verdict == "partly reproduced"
    # What only the examples show is not enough.
    loose = z02.rate({"a": law(-1.0)}, {"c": hidden(-0.2, 2.0)}, n_steps=40, n_runs=1)
    assert loose.verdict == "not reproduced"
    flat = {"a": lambda n, seed: (np.full(n, 0.1), np.full(n, 1.0))}
    found = z02.rate(flat, good, n_steps=40, n_runs=1)
    assert found.checks["the bound falls by half or more"] is False


def test_random_atoms_keep_the_bound_of_an_example_and_break_that_of_needles():
    """Why the verdict is decided on the latter: atoms in random order, each with its best step."""
    rng = np.random.default_rng(0)

    def random_picks(y, atoms, n_steps):
        v, values = atoms[:, rng.integers(atoms.shape[1])], []
        for _ in range(n_steps):
            move = atoms[:, rng.integers(atoms.shape[1])] - v
            alpha = np.clip((y - v) @ move / max(move @ move, 1e-300), 0, 1)
            v = v + alpha * move
            values.append(np.mean((y - v) ** 2))
        return np.array(values)

    k = np.arange(1, 401)
    dense = rng.standard_normal((20, 500))
    dense /= np.sqrt(np.mean(dense**2, axis=0))
    weights = rng.dirichlet(np.ones(500))
    assert np.all(random_picks(dense @ weights, dense, 400) <= 16 / (k + 3))
    atoms = np.sqrt(500) * np.eye(500)
    needles = atoms[:, :5] @ z02._SHARES
    assert np.any(random_picks(needles, atoms, 400) > 16 / (k + 3))


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
    assert early.checks["small margins become fewer for breast cancer"] is False
