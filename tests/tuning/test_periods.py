"""Periodic kernels: candidate periods, and that learning finds the period from a wrong start."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)

from pursuit import ExactGPRegressor, SparseGPRegressor, on_columns
from pursuit.linalg import Workers
from pursuit.tuning import Evidence, NoiseRange, learn_given
from pursuit.tuning.learning import starts_at_periods
from pursuit.tuning.periods import (
    PeriodicPart,
    _Waves,
    at_period,
    candidate_periods,
    periodic_parts,
    theta_units,
)

ANY = PeriodicPart("periodicity", 0, 1e-5, 1e5)
NOISE = NoiseRange(0.1, 1e-5, 10.0)


@pytest.fixture
def workers():
    with Workers(1) as found:
        yield found


def series(workers, t, y, weights=None, *others):
    X = np.column_stack([t, *others])
    weights = np.ones(len(t)) if weights is None else weights
    return Evidence(X, ((y - y.mean()) / y.std())[:, None], weights, workers)


def times(m=200, seed=0, span=10.0):
    return np.sort(np.random.default_rng(seed).uniform(0, span, m))


def wave(t, period):
    return np.sin(2 * np.pi * t / period + 0.7)


# Which parts have a period to look for


def test_parts_of_a_kernel():
    inner = ExpSineSquared(1.0, 2.0, periodicity_bounds=(1.0, 4.0))
    kernel = (
        ConstantKernel() * on_columns(inner, [2])
        + on_columns(RBF() * on_columns(inner, [1]) ** 2, [0, 1])
        + on_columns(inner, [0, 1])
        + on_columns(ExpSineSquared(periodicity_bounds="fixed"), [1])
        + RBF([1.0, 1.0, 1.0])
    )
    parts = periodic_parts(kernel, 3)
    assert [(part.column, part.low, part.high) for part in parts] == [(2, 1, 4), (1, 1, 4)]
    for part in parts:
        moved = at_period(kernel, part, 3.5)
        assert moved.get_params()[part.name] == 3.5
        assert moved != kernel
        changed = [
            name
            for name, value in moved.get_params().items()
            if name.endswith("periodicity") and value != kernel.get_params()[name]
        ]
        assert changed == [part.name]


def test_a_period_of_several_columns_is_left_alone():
    assert periodic_parts(ExpSineSquared(), 2) == []
    assert len(periodic_parts(ExpSineSquared(), 1)) == 1
    assert periodic_parts(RBF(), 1) == []


def test_units_of_a_step():
    kernel = ConstantKernel() * on_columns(ExpSineSquared(1.0, 0.5), [0]) + RBF([1.0, 1.0])
    X = np.column_stack([np.linspace(3.0, 13.0, 20), np.ones(20)])
    names = [parameter.name for parameter in kernel.hyperparameters]
    units = theta_units(kernel, X)
    assert units[names.index("k1__k2__kernel__periodicity")] == pytest.approx(0.25 * 0.5 / 10)
    assert np.sum(units == 1.0) == len(kernel.theta) - 1
    long = ConstantKernel(1.0, "fixed") * on_columns(ExpSineSquared(1.0, 500.0), [0])
    assert np.all(theta_units(long, X) == 1.0)
    constant = on_columns(ExpSineSquared(), [1])
    assert np.all(theta_units(constant, X) == 1.0)


# The periodogram


def test_power_is_that_of_the_sum_over_rows():
    rng = np.random.default_rng(0)
    t, y = rng.uniform(-3, 3, 40), rng.standard_normal((40, 2))
    waves = _Waves.between(t, 6.0, 0.2, 9.0)
    frequencies = waves.first + waves.step * np.arange(waves.n)
    assert frequencies[1] == pytest.approx(0.2)
    assert frequencies[-2] <= 9.0 <= frequencies[-1] + waves.step
    naive = [
        sum(abs(np.sum(column * np.exp(-2j * np.pi * f * t))) ** 2 for column in y.T)
        for f in frequencies
    ]
    np.testing.assert_allclose(waves.power(y), naive, rtol=1e-9)


def found(period, candidates, span):
    """Whether a candidate is within a fifth of a peak's width."""
    return any(abs(1 / one - 1 / period) < 0.2 / span for one in candidates)


@pytest.mark.parametrize("period", [0.03, 0.4, 1.0, 4.0])
@pytest.mark.parametrize("offset", [0.0, 2003.5, 1e6])
def test_candidates_hold_the_period(workers, period, offset):
    t = times()
    y = wave(t, period) + 0.3 * t + 0.02 * t**2 + 0.3 * np.random.default_rng(1).normal(size=200)
    assert found(period, candidate_periods(series(workers, t + offset, y), ANY), 10.0)


def test_candidates_stay_within_bounds_and_below_nyquist(workers):
    t = np.arange(120.0)
    y = wave(t, 12.0) + 0.1 * np.random.default_rng(0).normal(size=120)
    data = series(workers, t, y)
    wide = candidate_periods(data, ANY)
    assert found(12.0, wide, 119.0)
    assert min(wide) >= 2.0, "what is shorter than two steps of a grid has an alias"
    assert max(wide) <= 119.0
    narrow = candidate_periods(data, PeriodicPart("periodicity", 0, 11.0, 13.0))
    assert all(11.0 <= one <= 13.0 for one in narrow)
    assert found(12.0, narrow, 119.0)
    assert candidate_periods(data, PeriodicPart("periodicity", 0, 500.0, 900.0)) == []
    assert candidate_periods(series(workers, np.ones(120), y), ANY) == []


def test_a_weak_second_period_is_a_candidate(workers):
    t = times(300)
    rng = np.random.default_rng(2)
    y = wave(t, 1.0) + 0.2 * wave(t, 0.37) + 0.1 * rng.standard_normal(300)
    candidates = candidate_periods(series(workers, t, y), ANY)
    assert found(1.0, candidates, 10.0)
    assert found(0.37, candidates, 10.0)


def test_overtones_do_not_hide_the_period(workers):
    t = times()
    y = 0.2 * wave(t, 0.8) + wave(t, 0.4) + 0.05 * np.random.default_rng(3).normal(size=200)
    assert found(0.8, candidate_periods(series(workers, t, y), ANY), 10.0)


def test_weights_count(workers):
    t = times(400)
    rng = np.random.default_rng(4)
    here = rng.random(400) < 0.5
    y = np.where(here, wave(t, 0.7), 3 * wave(t, 1.9))
    weights = np.where(here, 1.0, 1e-6)
    assert found(0.7, candidate_periods(series(workers, t, y, weights), ANY)[:1], 10.0)


# Learning


def r2(kernel, f, t, *, noise=0.1, others=None, kind=SparseGPRegressor, seed=0):
    """R² on a fifth of the points, which lie among the others."""
    rng = np.random.default_rng(seed)
    X = t[:, None] if others is None else np.column_stack([t, others])
    y = f(X) + noise * rng.standard_normal(len(t))
    held = rng.permutation(len(t))[: len(t) // 5]
    rest = np.setdiff1d(np.arange(len(t)), held)
    model = kind(kernel, random_state=0).fit(X[rest], y[rest])
    return model, model.score(X[held], y[held])


def trend_and_wave(X):
    return np.sin(2 * np.pi * X[:, 0]) + 0.3 * X[:, 0]


def with_period(period, **bounds):
    return ConstantKernel() * ExpSineSquared(1.0, period, **bounds) + ConstantKernel() * RBF(5.0)


def test_sine_and_trend():
    kernel = (
        1 * ExpSineSquared(1, 1.05, periodicity_bounds=(0.8, 1.2)) + 1 * RBF(5) + WhiteKernel(0.1)
    )
    model, score = r2(kernel, trend_and_wave, times(250))
    assert score >= 0.97
    assert model.kernel_.k1.k2.periodicity == pytest.approx(1.0, rel=0.005)


@pytest.mark.parametrize(
    ("start", "regular"),
    [
        (0.5, False),
        pytest.param(0.5, True, marks=pytest.mark.verify),
        pytest.param(7.0, False, marks=pytest.mark.verify),
        (100.0, True),
    ],
)
def test_a_start_at_another_period(start, regular):
    t = np.linspace(0, 10, 250) if regular else times(250)
    model, score = r2(with_period(start) + WhiteKernel(0.1), trend_and_wave, t)
    assert score >= 0.95
    assert model.kernel_.k1.k2.periodicity == pytest.approx(1.0, rel=0.005)


def test_the_exact_process_finds_it_too():
    _, score = r2(with_period(0.5), trend_and_wave, times(250), kind=ExactGPRegressor)
    assert score >= 0.95


def test_years():
    model, score = r2(with_period(0.5), trend_and_wave, times(250) + 2003.5)
    assert score >= 0.95
    assert model.kernel_.k1.k2.periodicity == pytest.approx(1.0, rel=0.005)


def test_two_periods():
    two = ConstantKernel() * ExpSineSquared(1.0, 0.6) + ConstantKernel() * ExpSineSquared(1.0, 3.0)

    def f(X):
        return trend_and_wave(X) + 0.4 * wave(X[:, 0], 0.37)

    model, score = r2(two + ConstantKernel() * RBF(5.0), f, times(250))
    assert score >= 0.95
    periods = sorted(
        part
        for name, part in model.kernel_.get_params().items()
        if "period" in name and not name.endswith("bounds")
    )
    np.testing.assert_allclose(periods, [0.37, 1.0], rtol=0.01)


def test_a_period_beside_a_random_walk():
    walk = 0.15 * np.cumsum(np.random.default_rng(3).standard_normal(1000))

    def f(X):
        return np.interp(X[:, 0], np.linspace(0, 10, 1000), walk) + 0.5 * wave(X[:, 0], 0.4)

    kernel = ConstantKernel() * ExpSineSquared(1.0, 2.0) + ConstantKernel() * Matern(1.0, nu=0.5)
    model, _ = r2(kernel, f, times(250))
    assert model.kernel_.k1.k2.periodicity == pytest.approx(0.4, rel=0.01)


def test_a_period_of_one_column():
    rng = np.random.default_rng(1)

    def f(X):
        return wave(X[:, 0], 0.8) + X[:, 1] * X[:, 2]

    kernel = ConstantKernel() * on_columns(ExpSineSquared(1.0, 3.0), [0])
    kernel = kernel + ConstantKernel() * on_columns(RBF([1.0, 1.0]), [1, 2])
    model, score = r2(kernel, f, times(250), others=rng.standard_normal((250, 2)))
    assert score >= 0.97
    assert model.kernel_.k1.k2.kernel.periodicity == pytest.approx(0.8, rel=0.005)


def test_a_wave_that_fades():
    def f(X):
        return wave(X[:, 0], 0.8) * np.exp(-X[:, 0] / 5)

    kernel = ConstantKernel() * ExpSineSquared(1.0, 3.0) * RBF(5.0)
    model, _ = r2(kernel, f, times(250))
    assert model.kernel_.k1.k2.periodicity == pytest.approx(0.8, rel=0.05)


@pytest.fixture(scope="module")
def noisy_wave():
    """A wave, and what is learned from a wrong start."""
    t = times()
    with Workers(1) as workers:
        data = series(workers, t, wave(t, 1.0) + 0.1 * np.random.default_rng(0).normal(size=200))
        yield data, learn_given(data, with_period(0.5), NOISE)


def test_the_report_has_a_stage_for_the_periods_tried(noisy_wave):
    data, learned = noisy_wave
    names = [stage.family for stage in learned.stages]
    assert names == ["learned", "periods", "learned", "learned", "learned"]
    assert learned.evidence_per_row == max(stage.evidence_per_row for stage in learned.stages)
    plain = learn_given(data, with_period(0.5, periodicity_bounds="fixed"), NOISE)
    assert [stage.family for stage in plain.stages] == ["learned"]
    assert plain.evidence_per_row < learned.evidence_per_row - 0.5


def test_periods_are_the_same_every_time(noisy_wave):
    data, learned = noisy_wave
    again = learn_given(data, with_period(0.5), NOISE)
    np.testing.assert_array_equal(again.kernel.theta, learned.kernel.theta)


def test_no_period_is_tried_when_it_is_late(workers):
    t = times()
    data = series(workers, t, wave(t, 1.0))
    assert starts_at_periods(data, with_period(0.5), NOISE, lambda: True) == []
    assert len(learn_given(data, with_period(0.5), NOISE, late=lambda: True).stages) == 1
