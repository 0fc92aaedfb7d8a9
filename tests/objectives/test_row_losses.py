"""Losses of generalised linear models: conjugates to fifty digits, constants, targets, checks."""

from dataclasses import dataclass
from decimal import Decimal, getcontext

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.metrics import log_loss, mean_gamma_deviance, mean_poisson_deviance
from sklearn.metrics import mean_tweedie_deviance as sklearn_tweedie

import pursuit
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
from pursuit.testing import check_loss

getcontext().prec = 50

COUNTS = [PoissonRows(), TweedieRows(1.0), NegativeBinomialRows(0.3), NegativeBinomialRows(50.0)]
ZEROS = [TweedieRows(1.0001), TweedieRows(1.5), TweedieRows(1.9999)]
AMOUNTS = [GammaRows(), TweedieRows(2.0)]
REALS = [
    HuberRows(0.7),
    PinballRows.absolute(),
    PinballRows.of_quantile(0.05),
    ExpectileRows(0.5),
    ExpectileRows(0.95),
    SquaredRows(),
    SquaredEpsilonInsensitive(0.3),
]
CLASSES = [LogisticRows(), SquaredHinge(), Exponential()]
LIKELIHOODS = [*COUNTS, *ZEROS, *AMOUNTS, LogitRows()]


def targets(loss, rng, n):
    """Valid targets, extreme ones among them."""
    scale = 10.0 ** rng.uniform(-6, 6, n)
    if loss in COUNTS:
        return np.where(rng.uniform(size=n) < 0.3, 0.0, np.ceil(scale))
    if loss in ZEROS:
        return np.where(rng.uniform(size=n) < 0.3, 0.0, scale)
    if loss in AMOUNTS:
        return scale
    if isinstance(loss, LogitRows):
        return np.clip(rng.uniform(-0.5, 1.5, n), 0.0, 1.0)
    return rng.normal(size=n) * scale


def moderate(loss, rng, n=12):
    if loss in COUNTS:
        return rng.poisson(3.0, n) + np.arange(n) % 2.0
    if loss in ZEROS:
        return np.where(np.arange(n) % 3 == 0, 0.0, rng.gamma(1.0, 2.0, n))
    if loss in AMOUNTS:
        return rng.gamma(1.0, 2.0, n)
    if isinstance(loss, LogitRows):
        return np.clip(rng.uniform(-0.5, 1.5, n), 0.0, 1.0)
    if loss in CLASSES:
        return np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    return rng.normal(size=n)


# --- conjugates against fifty digits -----------------------------------------------------------


def precise(loss, y):
    """ℓ, ℓ' and ℓ'' of a likelihood as functions of a Decimal, from its definition."""
    one = Decimal(1)
    if isinstance(loss, PoissonRows):
        return lambda f: (f.exp() - y * f, f.exp() - y, f.exp())
    if isinstance(loss, GammaRows):
        return lambda f: (y * (-f).exp() + f, 1 - y * (-f).exp(), y * (-f).exp())
    if isinstance(loss, LogitRows):

        def logit(f):
            p = one / (1 + (-f).exp())
            return (1 + f.exp()).ln() - y * f, p - y, p / (1 + f.exp())

        return logit
    if isinstance(loss, NegativeBinomialRows):
        k = Decimal(loss.shape)

        def binomial(f):
            p = f.exp() / (k + f.exp())
            value = (y + k) * (1 + f.exp() / k).ln() - y * f
            return value, (y + k) * p - y, (y + k) * p * k / (k + f.exp())

        return binomial
    p = Decimal(loss.power)

    def tweedie(f):
        down, up = (f * (1 - p)).exp(), (f * (2 - p)).exp()
        falls = -y * f if p == 1 else y * (down - 1) / (p - 1)
        rises = f if p == 2 else (up - 1) / (2 - p)
        return falls + rises, up - y * down, (2 - p) * up + (p - 1) * y * down

    return tweedie


def precise_conjugate(loss, slope, y, start):
    """max_f sf - ℓ(f) by Newton's method from a point near the maximiser, and the size of it."""
    function, s, f = precise(loss, Decimal(y)), Decimal(slope), Decimal(start)
    for _ in range(60):
        value, first, second = function(f)
        if second == 0 or abs(first - s) < Decimal("1e-42") * (abs(first) + abs(s)):
            break
        f -= max(min((first - s) / second, Decimal(1)), Decimal(-1))
    value, first, _ = function(f)
    assert abs(first - s) <= Decimal("1e-38") * (abs(first) + abs(s) + Decimal("1e-300"))
    return s * f - value, float(abs(s * f) + abs(value))


def conjugate_cases(loss, n=200):
    rng = np.random.default_rng(7)
    y = targets(loss, rng, n)
    # Around the best prediction of each target, out to where slopes nearly reach their ends.
    best = np.log(np.maximum(y, 1e-3)) if not isinstance(loss, LogitRows) else np.zeros(n)
    f = best + rng.normal(size=n) * rng.choice([0.1, 1.0, 6.0], n)
    return f, y, loss.gradient(f, y)


@pytest.mark.parametrize("loss", LIKELIHOODS, ids=repr)
def test_conjugates_agree_with_fifty_digits(loss):
    f, y, slopes = conjugate_cases(loss)
    found = loss.conjugate(slopes, y)
    for start, target, slope, value in zip(f, y, slopes, found, strict=True):
        truth, size = precise_conjugate(loss, slope, target, start)
        assert abs(float(Decimal(value) - truth)) <= 1e-12 * size + 1e-12 * abs(target)


@pytest.mark.parametrize("loss", LIKELIHOODS, ids=repr)
def test_numeric_conjugates_are_never_below_fifty_digits(loss):
    f, y, slopes = conjugate_cases(loss)
    found = pursuit.RowLoss.conjugate(loss, slopes, y)
    assert np.isfinite(found).mean() > 0.8
    for start, target, slope, value in zip(f, y, slopes, found, strict=True):
        if np.isfinite(value):
            truth, size = precise_conjugate(loss, slope, target, start)
            assert Decimal(value) >= truth
            assert float(Decimal(value) - truth) <= 1e-12 * size + 1e-12 * abs(target)


@pytest.mark.parametrize("loss", ZEROS, ids=repr)
def test_conjugates_by_iteration_are_never_below_fifty_digits(loss):
    f, y, slopes = conjugate_cases(loss)
    found = loss.conjugate(slopes, y)
    for start, target, slope, value in zip(f, y, slopes, found, strict=True):
        assert Decimal(value) >= precise_conjugate(loss, slope, target, start)[0]
    # At s = y = 0 there is no maximiser.
    zero = np.zeros(1)
    assert loss.conjugate(zero, zero)[0] == pytest.approx(1 / (2 - loss.power), rel=1e-14)


def test_the_comparison_with_fifty_digits_can_fail():
    loss = TweedieRows(1.5)
    f, y, slopes = conjugate_cases(loss, 5)
    truth = [precise_conjugate(loss, s, t, g)[0] for g, t, s in zip(f, y, slopes, strict=True)]
    lowered = loss.conjugate(slopes, y) * (1 - 1e-11 * np.sign(loss.conjugate(slopes, y)))
    assert any(Decimal(value) < true for value, true in zip(lowered, truth, strict=True))


@pytest.mark.parametrize("loss", REALS, ids=repr)
def test_numeric_conjugates_of_residuals_are_above_the_formula(loss):
    rng = np.random.default_rng(3)
    y = targets(loss, rng, 200)
    low, high = np.maximum(loss.slopes(y)[0], -5.0), np.minimum(loss.slopes(y)[1], 5.0)
    slopes = low + (high - low) * rng.uniform(0.01, 0.99, 200)
    exact = loss.conjugate(slopes, y)
    size = np.abs(slopes * y) + np.square(slopes)
    excess = pursuit.RowLoss.conjugate(loss, slopes, y) - exact
    assert excess.min() >= 0
    assert (excess / size).max() <= 1e-10


@pytest.mark.parametrize("loss", [*LIKELIHOODS, *REALS, *CLASSES], ids=repr)
def test_fenchel_and_young(loss):
    """ℓ(f) + ℓ*(s) ≥ sf, with equality at the gradient; infinite outside the slopes."""
    rng = np.random.default_rng(11)
    y = moderate(loss, rng, 200)
    f, g = rng.normal(size=(2, 200)) * 2.0
    slopes = loss.gradient(g, y)
    conjugate = loss.conjugate(slopes, y)
    size = np.abs(slopes * g) + np.abs(loss.value(g, y)) + np.abs(loss.value(f, y)) + 1.0
    assert ((loss.value(f, y) + conjugate - slopes * f) / size).min() >= -1e-14
    at = np.abs(loss.value(g, y) + conjugate - slopes * g) / size
    assert at.max() <= 1e-12
    for side, ends in zip((-1.0, 1.0), loss.slopes(y), strict=True):
        finite = np.isfinite(ends)
        beyond = ends[finite] + side * 1e-9 * (1.0 + np.abs(ends[finite]))
        assert np.all(loss.conjugate(beyond, y[finite]) == np.inf)


@pytest.mark.parametrize("loss", [*LIKELIHOODS, *REALS], ids=repr)
def test_the_ends_of_the_slopes_are_finite_where_they_should_be(loss):
    """A closed conjugate: the value at an end is the limit from inside, up to rounding of s."""
    y = moderate(loss, np.random.default_rng(5))
    for side, ends in zip((-1.0, 1.0), loss.slopes(y), strict=True):
        finite = np.isfinite(ends)
        end, target = ends[finite], y[finite]
        limit = loss.conjugate(end - side * 1e-13, target)
        at = loss.conjugate(end, target)
        assert np.all(np.abs(at - limit) <= 1e-9 * (1.0 + np.abs(target) + np.abs(at)))
        # Rounding may move a slope out of the domain, but for an end at 0.
        moved = np.where(end == 0, end, np.nextafter(end, side * np.inf))
        np.testing.assert_array_equal(loss.conjugate(moved, target), at)


@pytest.mark.parametrize("loss", LIKELIHOODS, ids=repr)
def test_nothing_overflows_far_out(loss):
    y = moderate(loss, np.random.default_rng(5))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for f in (-1e4, -800.0, 800.0, 1e4):
            at = np.full_like(y, f)
            assert not np.isnan(loss.value(at, y)).any()
            assert not np.isnan(loss.derivatives(at, y)).any()
        slopes = loss.gradient(np.zeros_like(y), y)
        for scale in (1e-12, 1.0, 1e12):
            assert not np.isnan(loss.conjugate(scale * slopes, y)).any()
            assert not np.isnan(pursuit.RowLoss.conjugate(loss, scale * slopes, y)).any()


# --- limits of families ------------------------------------------------------------------------


def test_families_have_their_limits():
    rng = np.random.default_rng(0)
    f, y = rng.normal(size=100), rng.gamma(1.0, 2.0, 100)
    poisson, gamma = PoissonRows(), GammaRows()
    for power, limit, constant in ((1.0, poisson, 1.0), (2.0, gamma, y)):
        for nearby, tolerance in ((power, 1e-14), (1.5 + 0.9999998 * (power - 1.5), 1e-5)):
            near = TweedieRows(nearby)
            np.testing.assert_allclose(
                near.value(f, y) + constant, limit.value(f, y), rtol=0, atol=tolerance * 30
            )
            for name in ("gradient", "curvature"):
                ours, theirs = (getattr(loss, name)(f, y) for loss in (near, limit))
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * 30)
    large = NegativeBinomialRows(1e9)
    np.testing.assert_allclose(large.value(f, y), poisson.value(f, y), rtol=0, atol=1e-6)
    s = poisson.gradient(f, y)
    np.testing.assert_allclose(large.conjugate(s, y), poisson.conjugate(s, y), rtol=0, atol=1e-6)


# --- deviances ---------------------------------------------------------------------------------


def test_deviances_are_the_usual_ones():
    rng = np.random.default_rng(2)
    f, counts, amounts = rng.normal(size=50), rng.poisson(1.5, 50) * 1.0, rng.gamma(1.0, 2.0, 50)
    mean = np.exp(f)

    def mine(loss, y):
        return loss.deviance(f, y).mean()

    assert mine(PoissonRows(), counts) == pytest.approx(mean_poisson_deviance(counts, mean))
    assert mine(GammaRows(), amounts) == pytest.approx(mean_gamma_deviance(amounts, mean))
    for power in (1.0, 1.2, 1.7):
        expected = sklearn_tweedie(counts, mean, power=power)
        assert mine(TweedieRows(power), counts) == pytest.approx(expected)
    k = 0.7
    ratio = np.where(counts > 0, counts / mean, 1.0)
    binomial = 2 * (counts * np.log(ratio) - (counts + k) * np.log((counts + k) / (mean + k)))
    assert mine(NegativeBinomialRows(k), counts) == pytest.approx(binomial.mean())
    labels = np.arange(50) % 2.0
    expected = 2 * log_loss(labels, 1 / (1 + np.exp(-f)))
    assert mine(LogitRows(), labels) == pytest.approx(expected)
    assert mine(HuberRows(0.7), counts) == pytest.approx(2 * HuberRows(0.7).value(f, counts).mean())


# --- best constants ----------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 300.0, -300.0])
def test_constants_have_formulas(shift):
    rng = np.random.default_rng(4)
    y, w = rng.poisson(2.0, 40) * 1.0, rng.uniform(0, 2, 40) * (rng.uniform(size=40) > 0.2)
    o = shift + rng.normal(size=40)
    rate = np.log(w @ y) - np.log(w @ np.exp(o - shift)) - shift
    assert PoissonRows().constant(y, w, o) == pytest.approx(rate, rel=1e-13, abs=1e-13)
    amount = np.log(w @ ((y + 1) * np.exp(shift - o)) / w.sum()) - shift
    assert GammaRows().constant(y + 1, w, o) == pytest.approx(amount, rel=1e-13, abs=1e-13)
    share = (w @ (y / 20)) / w.sum()
    logit = np.log(share / (1 - share)) - shift
    assert LogitRows().constant(y / 20, w, shift) == pytest.approx(logit, rel=1e-12)
    mean = w @ (y - o) / w.sum()
    assert ExpectileRows(0.5).constant(y, w, o) == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("loss", [*LIKELIHOODS, *REALS, *CLASSES], ids=repr)
@pytest.mark.parametrize("seed", range(5))
def test_no_other_constant_is_better(loss, seed):
    rng = np.random.default_rng(seed)
    y, w, o = moderate(loss, rng, 15), 10.0 ** rng.uniform(-3, 3, 15), rng.normal(size=15)
    w[3] = 0.0

    def total(b):
        return float(w @ loss.value(b + o, y))

    b = loss.constant(y, w, o)
    search = minimize_scalar(total, bracket=(b - 1.0, b + 1.3), options={"xtol": 1e-12})
    size = float(w @ np.abs(loss.value(b + o, y)))
    assert total(b) <= search.fun + 1e-13 * size


def test_the_constant_of_a_quantile_is_the_middle_of_an_interval():
    y, w = np.array([4.0, 1.0, 2.0, 3.0]), np.ones(4)
    assert PinballRows.absolute().constant(y, w) == 2.5
    assert PinballRows.of_quantile(0.25).constant(y, w) == 1.5
    assert PinballRows.of_quantile(0.3).constant(y, w) == 2.0
    assert PinballRows.of_quantile(0.3).constant(y, w, y) == 0.0
    assert PinballRows.absolute().constant(y, np.array([0.0, 1.0, 0.0, 1e9])) == 3.0


@pytest.mark.parametrize("loss", [*COUNTS, *ZEROS, LogitRows()], ids=repr)
def test_no_constant_is_best_for_targets_that_are_all_zero(loss):
    y, w = np.zeros(5), np.ones(5)
    with pytest.raises(ValueError, match="goes to -∞, since all targets are 0"):
        loss.constant(y, w)
    y[0], w[0] = 0.5, 0.0
    with pytest.raises(ValueError, match="goes to -∞"):
        loss.constant(y, w)


def test_no_constant_is_best_for_probabilities_that_are_all_one():
    with pytest.raises(ValueError, match="goes to ∞, since all targets are 1"):
        LogitRows().constant(np.ones(3), np.ones(3))


# --- targets and parameters --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (PoissonRows(), [1, -2, 3], "must not be negative for the Poisson loss, got -2. Use"),
        (NegativeBinomialRows(1.0), [-1.0], "must not be negative for the negative binomial loss"),
        (TweedieRows(1.5), [-1.0], "must not be negative for the Tweedie loss"),
        (GammaRows(), [-1.0, 1.0], "must not be negative for the gamma loss"),
        (GammaRows(), [0.0, 1.0], "must be positive for the gamma loss, got 0. Use loss='tweedie'"),
        (TweedieRows(2.0), [0.0, 1.0], "must be positive for the Tweedie loss"),
        (LogitRows(), [0.0, 1.2], "between 0 and 1 for the logistic loss, got 0 to 1.2"),
        (HuberRows(1.0), ["a", "b"], "numbers, got labels .*use SparseGPClassifier"),
        (HuberRows(1.0), ["1", "2"], "numbers, got labels"),
        (PoissonRows(), [True, False], "numbers, got labels of type bool"),
        (PoissonRows(), np.array(["a", 1], dtype=object), "numbers, got labels"),
        (PoissonRows(), [1.0, np.nan], "finite numbers, got NaN or ∞: leave these rows out"),
        (PoissonRows(), [[1.0]], "vector of finite numbers, got shape"),
        (PoissonRows(), [], "vector of finite numbers, got shape"),
    ],
)
def test_targets_are_refused_with_the_remedy(loss, y, message):
    with pytest.raises(ValueError, match=message):
        loss.checked(y)


def test_valid_targets_pass():
    np.testing.assert_array_equal(LogitRows().checked([True, False]), [1.0, 0.0])
    np.testing.assert_array_equal(PoissonRows().checked(np.array([0, 2], dtype=object)), [0, 2])
    np.testing.assert_array_equal(TweedieRows(1.9).checked([0, 2]), [0.0, 2.0])
    assert PoissonRows().checked(np.array([1, 2], dtype=np.uint8)).dtype == np.float64


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TweedieRows(0.9), "power must be between 1 and 2, got 0.9"),
        (lambda: TweedieRows(2.1), "power must be between 1 and 2"),
        (lambda: NegativeBinomialRows(0.0), "shape must be positive and finite"),
        (lambda: NegativeBinomialRows(np.inf), "shape must be positive and finite"),
        (lambda: ExpectileRows(1.0), "level must be between 0 and 1, got 1.0"),
        (lambda: PinballRows.of_quantile(0.0), "quantile must be between 0 and 1, got 0.0"),
        (lambda: PinballRows.of_quantile(90), "quantile must be between 0 and 1, got 90"),
    ],
)
def test_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_predictions_are_what_the_loss_elicits():
    """At the best constant of many draws: the mean, or the expectile by its definition."""
    rng = np.random.default_rng(9)
    y, w = rng.gamma(2.0, 1.0, 400), np.ones(400)
    for loss in (PoissonRows(), GammaRows(), TweedieRows(1.4), NegativeBinomialRows(2.0)):
        assert loss.predicted(np.array(loss.constant(y, w))) == pytest.approx(y.mean())
    shares = y / y.max()
    logit = LogitRows()
    assert logit.predicted(np.array(logit.constant(shares, w))) == pytest.approx(shares.mean())
    e = ExpectileRows(0.9).constant(y, w)
    above, below = np.maximum(y - e, 0.0).sum(), np.maximum(e - y, 0.0).sum()
    assert 0.9 * above == pytest.approx(0.1 * below)


# --- check_loss --------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [*LIKELIHOODS, *REALS, *CLASSES], ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_every_loss_passes_the_check(loss, seed):
    check_loss(loss, moderate(loss, np.random.default_rng(seed)))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("loss", REALS, ids=repr)
def test_the_check_does_not_depend_on_units(loss, scale):
    check_loss(loss, scale * np.random.default_rng(1).normal(size=8))


@dataclass(frozen=True)
class LogCosh(pursuit.RowLoss):
    """log cosh(f - y): a user's loss with a numeric conjugate and slopes that are never reached."""

    most_curved = 1.0

    def value(self, f, y):
        u = np.abs(f - y)
        return u + np.log1p(np.exp(-2 * u)) - np.log(2)

    def gradient(self, f, y):
        return np.tanh(f - y)

    def curvature(self, f, y):
        return 1 - np.tanh(f - y) ** 2

    def slopes(self, y):
        return np.full_like(y, -1.0), np.ones_like(y)


def test_a_loss_of_a_user_passes_with_a_numeric_conjugate():
    y = np.array([0.0, 1.0, -2.0, 5.0, 1e3])
    check_loss(LogCosh(), y[:4])
    # ℓ*(s) = sy + ½(1+s)log(1+s) + ½(1-s)log(1-s).
    for s in (-0.999999, -0.3, 0.0, 0.7, 1 - 1e-12):
        exact = s * y + 0.5 * (1 + s) * np.log1p(s) + 0.5 * (1 - s) * np.log1p(-s)
        found = LogCosh().conjugate(np.full_like(y, s), y)
        # The value, a difference from log 2, is rounded by as much near 0.
        assert np.all(found >= exact - np.finfo(float).eps)
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-11 * (1 + np.abs(y)).max())
    assert np.all(LogCosh().conjugate(np.full_like(y, 1.001), y) == np.inf)


def test_a_numeric_conjugate_is_infinite_where_the_truth_is():
    """ℓ = f - log(1 + f) for f > 0, else ½f²: slopes come near to 1, and ℓ*(1) = ∞."""

    class Slow(LogCosh):
        def value(self, f, y):
            up = np.maximum(f, 0.0)
            return np.where(f > 0, up - np.log1p(up), 0.5 * np.square(f))

        def gradient(self, f, y):
            up = np.maximum(f, 0.0)
            return np.where(f > 0, up / (1 + up), f)

        def curvature(self, f, y):
            return np.where(f > 0, (1 + np.maximum(f, 0.0)) ** -2.0, 1.0)

        def slopes(self, y):
            return np.full_like(y, -np.inf), np.ones_like(y)

    one = np.ones(1)
    assert Slow().conjugate(one, one) == np.inf
    for rest in (1e-3, 1e-9, 1e-13):
        s = 1 - rest
        exact = -np.log1p(-s) - s
        assert exact <= Slow().conjugate(np.array([s]), one)[0] <= exact * 1.01


WRONG = {
    "not convex": {"value": lambda self, f, y: -LogCosh.value(self, f, y)},
    "gradient differs from differences": {
        "gradient": lambda self, f, y: 0.99 * np.tanh(f - y),
        "slopes": lambda self, y: (np.full_like(y, -0.99), np.full_like(y, 0.99)),
    },
    "gradient returns shape": {"gradient": lambda self, f, y: np.zeros(3)},
    "value is not finite": {"value": lambda self, f, y: np.full_like(f, np.inf)},
    "curvature differs": {"curvature": lambda self, f, y: 1 - 0.99 * np.tanh(f - y) ** 2},
    "derivatives differs": {
        "derivatives": lambda self, f, y: (np.tanh(f - y), 0.99 * self.curvature(f, y))
    },
    "exceeds most_curved": {"most_curved": 0.1},
    "exceeds most_curved or largest": {"largest_curvature": lambda self, reach: 0.1},
    "kinked is True": {"kinked": True},
    "a gradient is outside slopes": {
        "slopes": lambda self, y: (np.full_like(y, -0.5), np.ones_like(y))
    },
    "is far from it": {"slopes": lambda self, y: (np.full_like(y, -2.0), np.ones_like(y))},
    "define slopes": {"slopes": pursuit.RowLoss.slopes},
    "avoid the overflow": {
        "gradient": lambda self, f, y: np.where(np.abs(f) < 50, np.tanh(f - y), np.nan)
    },
    "conjugate must be infinite outside": {"conjugate": lambda self, s, y: s * y},
    "conjugate is below": {
        "conjugate": lambda self, s, y: LogCosh.conjugate(LogCosh(), s, y) - 1e-6
    },
    "conjugate is above": {
        "conjugate": lambda self, s, y: LogCosh.conjugate(LogCosh(), s, y) + 1e-6
    },
    "constant is not the best": {
        "constant": lambda self, y, weights, offset=0.0: float(np.median(y)) + 0.4
    },
    "predicted falls": {"predicted": lambda self, f: -f},
    "checked accepts nan": {"checked": lambda self, y: np.asarray(y, dtype=np.float64)},
    "does not return the targets": {"checked": lambda self, y: 2 * LogCosh.checked(LogCosh(), y)},
}


@pytest.mark.parametrize("message", WRONG)
def test_the_check_finds_every_wrong_clause(message):
    wrong = type("Wrong", (LogCosh,), WRONG[message])()
    with pytest.raises(AssertionError, match=message):
        check_loss(wrong, np.array([0.0, 1.0, -2.0, 5.0]))


def test_the_check_wants_different_targets():
    with pytest.raises(AssertionError, match="at least four targets"):
        check_loss(LogCosh(), [1.0, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("wrong", ["poisson", LogCosh])
def test_the_check_wants_an_instance(wrong):
    with pytest.raises(AssertionError, match="not an instance of a subclass"):
        check_loss(wrong, [0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan])
def test_the_width_of_hubers_loss_is_positive(delta):
    with pytest.raises(ValueError, match="delta must be positive"):
        HuberRows(delta)
