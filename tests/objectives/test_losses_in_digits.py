"""Losses and their conjugates against 50 digits: errors stay within what `evaluated` says."""

import mpmath as mp
import numpy as np
import pytest

from pursuit.objectives import (
    ExpectileRows,
    Exponential,
    GammaRows,
    HuberRows,
    LogisticRows,
    LogitRows,
    NegativeBinomialRows,
    PinballRows,
    PoissonRows,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    SquaredRows,
    TweedieRows,
)
from pursuit.rounding import UNIT, Rounded

mp.mp.dps = 60


def _entropy(p):
    return sum(x * mp.log(x) if x > 0 else mp.mpf(0) for x in (p, 1 - p))


def _xlog(x, z):
    return x * mp.log(z) if x > 0 else mp.mpf(0)


def _huber(f, y, d):
    u = abs(y - f)
    return u * u / 2 if u <= d else d * u - d * d / 2


def _tweedie(f, y, p):
    return y * (mp.exp((1 - p) * f) - 1) / (p - 1) + (mp.exp((2 - p) * f) - 1) / (2 - p)


def _tweedie_conjugate(s, y, p):
    if s == 0 and y == 0:
        return 1 / (2 - p)
    low, high = mp.mpf(-3000), mp.mpf(3000)
    for _ in range(230):
        f = (low + high) / 2
        if mp.exp((2 - p) * f) - y * mp.exp((1 - p) * f) < s:
            low = f
        else:
            high = f
    return s * f - _tweedie(f, y, p)


def _binomial_conjugate(s, y, k):
    return _xlog(s + y, (s + y) * k / (y + k)) + _xlog(k - s, (k - s) / (y + k))


tau, eps, delta, power, shape = (mp.mpf(x) for x in (0.3, 0.2, 0.7, 1.4, 5.5))
large = mp.mpf(1e8)
CASES = {
    "squared": (
        SquaredRows(),
        lambda f, y: (y - f) ** 2,
        lambda s, y: s * y + s * s / 4,
    ),
    "huber": (
        HuberRows(0.7),
        lambda f, y: _huber(f, y, delta),
        lambda s, y: s * y + s * s / 2,
    ),
    "pinball": (
        PinballRows(-0.2, 0.7),
        lambda f, y: max(mp.mpf(-0.2) * (y - f), mp.mpf(0.7) * (y - f)),
        lambda s, y: s * y,
    ),
    "expectile": (
        ExpectileRows(0.3),
        lambda f, y: (tau if y > f else 1 - tau) * (y - f) ** 2,
        lambda s, y: s * y + s * s / 4 / (tau if s < 0 else 1 - tau),
    ),
    "tube": (
        SquaredEpsilonInsensitive(0.2),
        lambda f, y: max(abs(y - f) - eps, mp.mpf(0)) ** 2,
        lambda s, y: s * y + eps * abs(s) + s * s / 4,
    ),
    "poisson": (
        PoissonRows(),
        lambda f, y: mp.exp(f) - y * f,
        lambda s, y: _xlog(s + y, s + y) - (s + y),
    ),
    "gamma": (
        GammaRows(),
        lambda f, y: y * mp.exp(-f) + f,
        lambda s, y: _xlog(1 - s, (1 - s) / y) - (1 - s),
    ),
    "tweedie": (
        TweedieRows(1.4),
        lambda f, y: _tweedie(f, y, power),
        lambda s, y: _tweedie_conjugate(s, y, power),
    ),
    "binomial": (
        NegativeBinomialRows(5.5),
        lambda f, y: (y + shape) * mp.log(1 + mp.exp(f) / shape) - y * f,
        lambda s, y: _binomial_conjugate(s, y, shape),
    ),
    "nearly Poisson": (
        NegativeBinomialRows(1e8),
        lambda f, y: (y + large) * mp.log(1 + mp.exp(f) / large) - y * f,
        lambda s, y: _binomial_conjugate(s, y, large),
    ),
    "shares": (
        LogitRows(),
        lambda f, y: mp.log(1 + mp.exp(f)) - y * f,
        lambda s, y: _entropy(s + y),
    ),
    "logistic": (
        LogisticRows(),
        lambda f, y: mp.log(1 + mp.exp(-y * f)),
        lambda s, y: _entropy(-s * y),
    ),
    "exponential": (Exponential(), lambda f, y: mp.exp(-y * f), None),
    "hinge": (SquaredHinge(), lambda f, y: max(1 - y * f, mp.mpf(0)) ** 2, None),
}


def _targets(name, rng, n):
    if name in ("logistic", "exponential", "hinge"):
        return rng.choice([-1.0, 1.0], n)
    if name == "shares":
        return np.where(rng.random(n) < 0.4, rng.integers(0, 2, n), rng.random(n))
    if name in ("poisson", "binomial", "nearly Poisson", "tweedie"):
        return np.where(rng.random(n) < 0.2, 0.0, np.round(10.0 ** rng.uniform(-1, 4, n), 1))
    if name == "gamma":
        return 10.0 ** rng.uniform(-3, 4, n)
    return rng.standard_normal(n) * 10.0 ** rng.integers(-3, 6, n)


@pytest.mark.parametrize("name", CASES)
def test_values_are_within_their_errors(name, size):
    loss, exact, _ = CASES[name]
    rng = np.random.default_rng(len(name))
    n = size(40, 2000)
    y = _targets(name, rng, n)
    f = rng.standard_normal(n) * 10.0 ** rng.uniform(-6, 1.5, n)
    if name in ("squared", "huber", "pinball", "expectile", "tube"):
        f = y + rng.choice([0.0, 0.2, -0.7], n) + f * 10.0 ** rng.integers(-12, 1, n)
    moved = np.abs(f) * 10.0 ** rng.uniform(-15, -5, n) * rng.integers(0, 2, n)
    found = loss.evaluated(Rounded(f, moved), y)
    for i in range(n):
        for end in (-1, 0, 1):
            truth = exact(mp.mpf(float(f[i])) + end * mp.mpf(float(moved[i])), mp.mpf(float(y[i])))
            assert abs(truth - mp.mpf(float(found.value[i]))) <= float(found.error[i]), (f[i], y[i])
    assert np.all(loss.evaluated(Rounded.of(f), y).error <= 1e-14 * loss.size(f, y))


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][2] is not None])
def test_conjugates_are_within_their_errors(name, size):
    loss, _, exact = CASES[name]
    rng = np.random.default_rng(len(name))
    n = size(40, 1000)
    y = _targets(name, rng, n)
    low, high = (np.broadcast_to(end, n) for end in loss.slopes(y))
    free = rng.standard_normal(n) * 10.0 ** rng.uniform(-4, 3, n)
    # Shares of an interval that come as near to its ends as rounding allows.
    share = rng.choice([1e-18, 1e-15, 1e-6, 0.3, 1.0 - 1e-6, 1.0 - 1e-14], n)
    inner = np.where(np.isfinite(low), low, -1e3) * (1.0 - share)
    slope = np.where(np.isfinite(low) & np.isfinite(high), inner + share * high, free)
    slope = np.where(np.isfinite(low) & ~np.isfinite(high), low + np.abs(free) * share, slope)
    slope = np.where(~np.isfinite(low) & np.isfinite(high), high - np.abs(free) * share, slope)
    # The slope may itself be wrong by two units in its last place.
    inside = 4.0 * UNIT * np.abs(slope)
    slope = np.clip(slope, low + inside * (low != 0), high - inside * (high != 0))
    found = loss.conjugate_evaluated(slope, y)
    for i in range(n):
        for units in (-2, 0, 2):
            s = mp.mpf(float(slope[i])) * (1 + units * mp.mpf(UNIT))
            truth = exact(s, mp.mpf(float(y[i])))
            # A conjugate that is found by a search is rounded upwards: above is not wrong.
            least = truth - mp.mpf(float(found.value[i])) - float(found.error[i])
            assert least <= 0, (slope[i], y[i])
    assert np.isfinite(found.error).all()


def test_a_wrong_size_would_be_noticed():
    """The control: without the terms that cancel, the error of a Poisson loss is too small."""
    rng = np.random.default_rng(0)
    f = rng.uniform(3, 9, 300)
    y = np.exp(f) / f
    value = PoissonRows().value(f, y)
    truth = [mp.exp(mp.mpf(a)) - mp.mpf(b) * mp.mpf(a) for a, b in zip(f, y, strict=True)]
    wrong = [
        abs(t - mp.mpf(float(v))) > 64 * UNIT * abs(v) for t, v in zip(truth, value, strict=True)
    ]
    assert any(wrong)
