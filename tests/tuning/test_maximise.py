"""Maximising the evidence: bounds, fixed parameters, failures, restarts, families."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import OptimizeResult
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from pursuit.linalg import Workers
from pursuit.tuning import (
    Evidence,
    NoiseRange,
    Stage,
    at_bounds,
    learn_family,
    learn_given,
    learning,
    optimiser,
)
from pursuit.tuning.learning import family_kernel
from pursuit.tuning.optimiser import Learned, maximise
from pursuit.tuning.report import FAMILIES

NOISE = NoiseRange(0.1, 1e-4, 10.0)


@pytest.fixture
def workers():
    with Workers(1) as found:
        yield found


def subset(workers, m=80, seed=0, function=lambda X: np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 2))
    y = function(X) + 0.1 * rng.standard_normal(m)
    return Evidence(X, (y - y.mean())[:, None], np.ones(m), workers)


def at(data, kernel, noise):
    return data.value_and_gradient(kernel, noise)[0] / len(data.X)


def test_reaches_what_scikit_learn_reaches(workers):
    data = subset(workers)
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0])
    found = maximise(data, kernel, NOISE, "given", steps=200)
    white = kernel + WhiteKernel(0.1, (1e-4, 10.0))
    peer = GaussianProcessRegressor(white, alpha=0.0).fit(data.X, data.y[:, 0])
    best = peer.log_marginal_likelihood_value_ / len(data.X)
    assert found.evidence_per_row > best - 1e-4
    assert found.evidence_per_row == pytest.approx(at(data, found.kernel, found.noise), rel=1e-10)
    assert kernel.theta == pytest.approx(np.zeros(3)), "the kernel passed is left alone"


def test_rows_drawn_from_more_end_where_evaluations_gain_nothing(workers):
    """Their evidence is all but that of a whole run; a given kernel and whole data go on."""
    data = subset(workers, m=120)
    drawn = replace(data, drawn=True)
    kernel = family_kernel("rbf", np.ones(2), 1.0)
    whole = maximise(data, kernel, NOISE, "rbf", steps=200, enough=1e-9)
    brief = maximise(drawn, kernel, NOISE, "rbf", steps=200, enough=1e-9)
    assert brief.stages[0].n_evaluations < whole.stages[0].n_evaluations
    assert whole.evidence_per_row - 1e-3 < brief.evidence_per_row <= whole.evidence_per_row
    given = maximise(drawn, kernel, NOISE, "learned", steps=200, enough=1e-9)
    assert given.stages[0].n_evaluations == whole.stages[0].n_evaluations
    assert drawn.take(slice(50)).drawn
    assert not data.take(slice(50)).drawn


@pytest.mark.parametrize("family", FAMILIES)
def test_scoring_reaches_the_maximum_in_few_evaluations(workers, family):
    data = subset(workers, m=200)
    start = maximise(data.take(slice(60)), family_kernel(family, np.ones(2), 1.0), NOISE, family)
    again = replace(NOISE, start=start.noise)
    whole = maximise(data, start.kernel, again, family, steps=200, enough=1e-9)
    near = maximise(replace(data, drawn=True), start.kernel, again, family, near=True)
    before = at(data, start.kernel, start.noise)
    assert near.evidence_per_row - before > 0.9 * (whole.evidence_per_row - before)
    assert near.stages[0].n_evaluations <= optimiser._SCORING_STEPS
    assert near.stages[0].n_evaluations < whole.stages[0].n_evaluations
    assert near.evidence_per_row == pytest.approx(at(data, near.kernel, near.noise), rel=1e-10)


def test_scoring_stays_within_bounds(workers):
    data = replace(subset(workers, m=200), drawn=True)
    kernel = ConstantKernel(1.0, (0.9, 1.1)) * RBF([3.0, 3.0], [(2.5, 4.0), (2.9, 3.1)])
    for noise in (NoiseRange(0.5, 0.4, 0.6), NoiseRange(0.5, 0.5, 0.5, fixed=True)):
        near = maximise(data, kernel, noise, "rbf", near=True)
        low, high = near.kernel.bounds.T
        assert np.all((low <= near.kernel.theta) & (near.kernel.theta <= high))
        assert noise.low * (1 - 1e-12) <= near.noise <= noise.high * (1 + 1e-12)
        descended = maximise(data, kernel, noise, "rbf")
        assert near.evidence_per_row > descended.evidence_per_row - 2e-4


def test_nothing_is_scored_where_all_is_at_its_bounds(workers):
    data = replace(subset(workers), drawn=True)
    kernel = ConstantKernel(1.0, (1.0, 1.0)) * RBF([3.0, 3.0], (3.0, 3.0))
    near = maximise(data, kernel, NoiseRange(0.5, 0.5, 0.5, fixed=True), "rbf", near=True)
    assert near.stages[0].n_evaluations == 1


def test_scoring_shortens_steps_that_lose():
    """Where values are five times as curved as the information says."""
    seen = []

    def evaluate(point):
        seen.append(-2.5 * float(point @ point))
        return seen[-1], -5.0 * point, np.eye(2)

    wide = np.full(2, 9.0)
    optimiser._score(evaluate, np.full(2, 0.3), -wide, wide, optimiser.never)
    assert seen[1] < seen[0]
    assert max(seen) > -1e-4


def test_scoring_ends_when_it_is_late(workers):
    data = replace(subset(workers, m=200), drawn=True)
    kernel = family_kernel("rbf", np.ones(2), 1.0)
    ends = [maximise(data, kernel, NOISE, "rbf", near=True, late=After(n)) for n in (0, 1, 2)]
    assert [one.stages[0].n_evaluations for one in ends] == [1, 2, 3]


def test_restarts_of_rows_drawn_from_more_begin_anew(workers, monkeypatch):
    """Every start is learned from, although the first has found the best."""
    drawn = replace(subset(workers), drawn=True)
    starts = []
    descend = optimiser._descend

    def seen(objective, start, *options):
        starts.append(start)
        descend(objective, start, *options)

    monkeypatch.setattr(optimiser, "_descend", seen)
    kernel = family_kernel("rbf", np.ones(2), 1.0)
    rng = np.random.default_rng(0)
    maximise(drawn, kernel, NOISE, "rbf", restarts=3, rng=rng)
    assert len(starts) == 4


def test_float32_until_its_rounding_shows(workers, monkeypatch):
    """Many rows are learned in float32, targets without noise in float64 from some step on."""
    types = []

    def recorded(self, kernel, noise, dtype=np.float64):
        types.append(dtype)
        return plain(self, kernel, noise, dtype)

    plain = Evidence.value_and_gradient
    monkeypatch.setattr(Evidence, "value_and_gradient", recorded)
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0])
    noisy = subset(workers, m=500)
    noisy.y[:] += 0.5 * np.random.default_rng(1).standard_normal(noisy.y.shape)
    found = maximise(noisy, kernel, NOISE, "given")
    assert set(types) == {np.float32}
    assert found.evidence_per_row == pytest.approx(at(noisy, found.kernel, found.noise), abs=1e-5)
    types.clear()
    exact = subset(workers, m=500)
    exact.y[:] = np.sin(exact.X[:, :1])
    found = maximise(exact, kernel, NoiseRange(0.1, 1e-8, 10.0), "given")
    single = [dtype is np.float32 for dtype in types]
    assert single[0]
    assert not single[-1]
    assert single == sorted(single, reverse=True)
    assert found.evidence_per_row == pytest.approx(at(exact, found.kernel, found.noise), abs=1e-4)
    types.clear()
    maximise(noisy, kernel, NOISE, "given", enough=1e-8)
    maximise(subset(workers), kernel, NOISE, "given")
    assert set(types) == {np.float64}, "neither fine steps nor few rows"


def test_stage_says_what_was_done(workers):
    data = subset(workers)
    found = maximise(data, RBF(), NOISE, "given")
    [stage] = found.stages
    assert (stage.family, stage.n_rows) == ("given", 80)
    assert stage.evidence_per_row == found.evidence_per_row
    assert stage.n_evaluations > 1
    assert stage.seconds > 0


def test_bounds_hold(workers):
    data = subset(workers)
    kernel = ConstantKernel(1.0, (0.9, 1.1)) * RBF([3.0, 3.0], [(2.5, 4.0), (2.9, 3.1)])
    found = maximise(data, kernel, NoiseRange(0.5, 0.4, 0.6), "given")
    low, high = found.kernel.bounds.T
    assert np.all((found.kernel.theta >= low - 1e-12) & (found.kernel.theta <= high + 1e-12))
    assert 0.4 - 1e-12 <= found.noise <= 0.6 + 1e-12
    assert found.kernel.k2.length_scale[0] == pytest.approx(2.5), "a sine needs less"


def test_a_start_outside_the_bounds_is_brought_inside(workers):
    data = subset(workers)
    found = maximise(data, RBF(50.0, (0.1, 5.0)), NoiseRange(100.0, 1e-3, 1.0), "given")
    assert 0.1 <= found.kernel.length_scale <= 5.0 + 1e-12
    assert found.noise <= 1.0 + 1e-12


def test_fixed_stays(workers):
    data = subset(workers)
    kernel = ConstantKernel(2.0, "fixed") * RBF([0.9, 1.1])
    found = maximise(data, kernel, NoiseRange(0.3, 0.3, 0.3, fixed=True), "given")
    assert found.kernel.k1.constant_value == 2.0
    assert found.noise == pytest.approx(0.3, rel=1e-12)
    assert np.all(found.kernel.k2.length_scale != kernel.k2.length_scale)
    scales = ConstantKernel(1.0) * RBF([0.9, 1.1], "fixed")
    kept = maximise(data, scales, NOISE, "given")
    np.testing.assert_array_equal(kept.kernel.k2.length_scale, [0.9, 1.1])
    assert kept.kernel.k1.constant_value != 1.0


def test_the_best_point_is_kept_when_the_optimiser_ends_elsewhere(workers, monkeypatch):
    data, seen = subset(workers), []

    def wander(objective, start, **options):
        for shift in (0.0, 0.4, -0.2, 1.5):
            point = start + shift
            objective(point)
            seen.append((at(data, RBF(np.exp(point[:2])), np.exp(point[2])), point))
        return OptimizeResult(
            x=start + 9.0, fun=1e10, jac=np.zeros(3), nit=4, status=2, message="ABNORMAL"
        )

    monkeypatch.setattr(optimiser, "minimize", wander)
    found = maximise(data, RBF([1.0, 1.0]), NOISE, "given")
    value, point = max(seen, key=lambda pair: pair[0])
    assert found.evidence_per_row == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(np.append(found.kernel.theta, np.log(found.noise)), point)


def test_the_best_point_is_kept_when_the_optimiser_raises(workers, monkeypatch):
    data = subset(workers)

    def stumble(objective, start, **options):
        objective(start - [0.0, 0.0, 1.0])
        objective(start + 0.1)
        raise ArithmeticError("line search failed")

    monkeypatch.setattr(optimiser, "minimize", stumble)
    with pytest.warns(ConvergenceWarning, match="line search failed"):
        found = maximise(data, RBF([1.0, 1.0]), NOISE, "given")
    assert np.log(found.noise) == pytest.approx(np.log(NOISE.start) - 1.0)
    assert np.all(found.kernel.length_scale == 1.0)
    assert found.evidence_per_row == pytest.approx(at(data, found.kernel, found.noise))


class Sometimes(Evidence):
    """Cannot be evaluated where the noise is above a limit."""

    def value_and_gradient(self, kernel, noise, dtype):
        return super().value_and_gradient(kernel, noise, dtype) if noise < 0.2 else None


class Never(Evidence):
    def value_and_gradient(self, kernel, noise, dtype):
        return None


class NotANumber(Evidence):
    def value_and_gradient(self, kernel, noise, dtype):
        return np.nan, np.full(len(kernel.theta) + 1, np.nan)


def as_type(kind, data):
    return kind(data.X, data.y, data.weights, data.workers)


def test_points_that_cannot_be_evaluated_are_avoided(workers):
    data = subset(workers)
    found = maximise(as_type(Sometimes, data), RBF([1.0, 1.0]), NOISE, "given")
    assert np.isfinite(found.evidence_per_row)
    assert found.evidence_per_row >= at(data, RBF([1.0, 1.0]), NOISE.start)


@pytest.mark.parametrize("kind", [Never, NotANumber])
def test_nothing_can_be_evaluated(workers, kind):
    data = as_type(kind, subset(workers))
    kernel = ConstantKernel(1.7) * RBF([1.0, 2.0])
    with pytest.warns(ConvergenceWarning, match="starting values are kept. Check the kernel's"):
        found = maximise(data, kernel, NOISE, "given")
    assert found.kernel == kernel
    assert found.noise == NOISE.start


def several_peaks(X):
    return np.sin(9 * X[:, 0])


def test_restarts_are_seeded(workers):
    data = subset(workers, 40, function=several_peaks)
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0])

    def restarted(seed, restarts=3):
        rng = np.random.default_rng(seed)
        return maximise(data, kernel, NOISE, "given", restarts=restarts, rng=rng)

    one, again, other = restarted(1), restarted(1), restarted(2)
    np.testing.assert_array_equal(one.kernel.theta, again.kernel.theta)
    assert one.noise == again.noise
    assert one.stages[0].n_evaluations == again.stages[0].n_evaluations
    assert one.stages[0].n_evaluations != other.stages[0].n_evaluations


def test_restarts_never_lose(workers):
    data = subset(workers, function=lambda X: np.sin(5 * X[:, 0]))
    kernel = ConstantKernel(1.0) * RBF([4.0, 4.0])
    alone = maximise(data, kernel, NOISE, "given")
    for seed in range(3):
        rng = np.random.default_rng(seed)
        found = maximise(data, kernel, NOISE, "given", restarts=4, rng=rng)
        assert found.evidence_per_row >= alone.evidence_per_row
    assert found.evidence_per_row > alone.evidence_per_row + 0.05, "a better peak is there"


def test_restarts_stay_within_bounds(workers, monkeypatch):
    data, starts = subset(workers), []

    def remember(objective, start, *, bounds, **options):
        starts.append(start)
        assert np.all((start >= bounds.lb) & (start <= bounds.ub))
        value, slope = objective(start)
        return OptimizeResult(x=start, fun=value, jac=slope, nit=0, status=0)

    monkeypatch.setattr(optimiser, "minimize", remember)
    kernel = ConstantKernel(1.0, (1e-12, np.inf)) * RBF([1.0, 1.0], (0.5, 1.5))
    rng = np.random.default_rng(0)
    maximise(data, kernel, NOISE, "given", restarts=20, rng=rng)
    assert len(starts) == 21
    assert np.ptp(starts, axis=0).min() > 0.3


@pytest.mark.parametrize("family", FAMILIES)
def test_family_kernels(family):
    scales = np.array([1e-6, 1.0, 1e6])
    kernel = family_kernel(family, scales, 4.0)
    np.testing.assert_array_equal(kernel.k2.length_scale, scales)
    assert kernel.k1.constant_value == 4.0
    low, high = kernel.bounds.T
    assert np.all((low < kernel.theta - 3) & (high > kernel.theta + 3))


def white_noise_walk(X):
    """A rough function of the first feature."""
    steps = np.random.default_rng(5).standard_normal(2000)
    walk = np.cumsum(steps) / np.sqrt(len(steps))
    return 5 * np.interp(X[:, 0], np.linspace(-4, 4, len(steps)), walk)


@pytest.mark.parametrize(
    ("function", "allowed"),
    [
        (lambda X: 2 * np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]), {"rbf", "matern52"}),
        (white_noise_walk, {"matern12", "matern32"}),
    ],
    ids=["smooth", "rough"],
)
def test_the_family_follows_the_function(workers, function, allowed):
    data = subset(workers, 300, seed=1, function=function)
    found = learn_family(data, np.full(2, np.sqrt(2)), float(np.mean(data.y**2)), NOISE)
    assert found.family in allowed
    assert [stage.family for stage in found.stages] == list(FAMILIES)
    best = max(stage.evidence_per_row for stage in found.stages)
    assert found.evidence_per_row >= best - 1e-3


def candidates(evidences):
    """What a comparison would find, family by family, one list for each time it is made."""
    values = iter(np.concatenate(evidences).tolist())

    def fake(data, kernel, noise, family, **search):
        value = next(values)
        stage = Stage(family, len(data.X), value, 1, 0.0)
        return Learned(kernel, noise.start, value, [stage], family)

    return fake


@pytest.mark.parametrize(
    ("evidences", "expected"),
    [
        ([[0.0, -0.1, -0.2, -0.3]], "rbf"),
        ([[0.0, -0.0005, -0.2, -0.3]], "matern52"),
        ([[0.0, -0.2, -0.2, -0.0009]], "matern12"),
        ([[0.0, -0.2, -0.2, -0.0011]], "rbf"),
        # Where all look like noise they are compared again, from another start.
        ([[-2.0, -2.0, -2.0, -2.0], [-2.0, -2.0, -1.0, -2.0]], "matern32"),
        ([[-2.1, -2.1, -2.1, -2.0], [-2.0, -2.1, -2.1, -2.1]], "matern12"),
    ],
)
def test_ties_go_to_the_roughest(workers, monkeypatch, evidences, expected):
    monkeypatch.setattr(learning, "maximise", candidates(evidences))
    monkeypatch.setattr(learning, "short_scales", lambda *arguments: None)
    data = subset(workers, 60)
    found = learn_family(data, np.full(2, np.sqrt(2)), 1.0, NOISE)
    assert found.family == expected
    assert [stage.evidence_per_row for stage in found.stages] == np.concatenate(evidences).tolist()


def test_pure_noise_is_looked_at_twice(workers):
    rng = np.random.default_rng(0)
    data = Evidence(
        rng.standard_normal((150, 3)), rng.standard_normal((150, 1)), np.ones(150), workers
    )
    found = learn_family(data, np.full(3, np.sqrt(3)), 1.0, NOISE)
    assert [stage.family for stage in found.stages] == 2 * list(FAMILIES)
    assert found.noise == pytest.approx(float(np.mean(data.y**2)), rel=0.1)


@pytest.mark.parametrize("relevant", [0, 17, 29])
def test_probing_finds_the_feature_that_matters(workers, relevant):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 30))
    y = np.sin(3 * X[:, [relevant]]) + 0.1 * rng.standard_normal((200, 1))
    scales = np.full(30, np.sqrt(30))
    starts = learning.probe_features(Evidence(X, y, np.ones(200), workers), scales, 0.5, NOISE)
    assert np.argmin(starts) == relevant
    assert np.all(np.delete(starts, relevant) > scales[0])


def test_the_second_stage_sees_more_rows(workers, monkeypatch):
    monkeypatch.setattr(learning, "FIRST_ROWS", 50)
    data = subset(workers, 120)
    found = learn_family(data, np.full(2, np.sqrt(2)), 1.0, NOISE)
    assert [stage.n_rows for stage in found.stages] == [50, 50, 50, 50, 120]
    assert found.stages[-1].family == found.family
    assert found.evidence_per_row == pytest.approx(at(data, found.kernel, found.noise), rel=1e-10)
    given = learn_given(data, Matern([1.0, 1.0], nu=1.5), NOISE)
    assert [stage.n_rows for stage in given.stages] == [50, 120]
    assert given.family == "learned"
    assert type(given.kernel) is Matern


def test_few_rows_have_one_stage(workers):
    found = learn_given(subset(workers, 60), RBF(), NOISE)
    assert [stage.n_rows for stage in found.stages] == [60]


def test_at_bounds_names_what_sits_there():
    kernel = ConstantKernel(1.0, (1.0, 5.0)) * RBF([2.0, 3.0, 9.0], (0.1, 9.0))
    assert [end.note for end in at_bounds(kernel)] == [
        "k1__constant_value at its lower bound 1",
        "k2__length_scale[2] at its upper bound 9",
    ]
    fixed = ConstantKernel(1.0, "fixed") * RBF(2.0, (2.0, 3.0))
    [end] = at_bounds(fixed)
    assert end.note == "k2__length_scale at its lower bound 2"
    assert at_bounds(RBF(1.0)) == []


def fine_detail(m, workers, coarse=0.0):
    """Waves far shorter than the square they are on, which look like noise in rows far apart."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(m, 2))
    f = np.sin(40 * X[:, 0]) * np.sin(40 * X[:, 1]) + coarse * np.sin(3 * X[:, 0])
    y = f + 0.1 * rng.standard_normal(m)
    return Evidence(X, ((y - y.mean()) / y.std())[:, None], np.ones(m), workers)


def test_fine_detail_is_not_taken_for_noise(workers):
    data = fine_detail(500, workers)
    scales = data.X.std(axis=0) * np.sqrt(2)
    common = maximise(data, family_kernel("rbf", scales, 1.0), NOISE, "rbf")
    assert common.noise > 0.9, "the common start is good enough"
    found = learn_family(data, scales, 1.0, NOISE)
    assert found.noise < 0.1
    assert np.all(found.kernel.k2.length_scale < 0.06)
    assert [stage.family for stage in found.stages[-4:]] == list(FAMILIES)
    again = learn_family(data, scales, 1.0, NOISE)
    np.testing.assert_array_equal(found.kernel.theta, again.kernel.theta)


def test_detail_too_fine_for_the_first_rows_shows_on_more(workers, monkeypatch):
    monkeypatch.setattr(learning, "FIRST_ROWS", 150)
    data = fine_detail(900, workers, coarse=2.0)
    scales = data.X.std(axis=0) * np.sqrt(2)
    first = learning.best_family(learning.first_rows(data), scales, 1.0, NOISE)
    assert first.kernel.k2.length_scale.min() > 0.2, "the first rows tell"
    found = learn_family(data, scales, 1.0, NOISE)
    assert [stage.n_rows for stage in found.stages][-2:] == [900, 900]
    assert found.evidence_per_row == found.stages[-1].evidence_per_row
    assert found.evidence_per_row > found.stages[-2].evidence_per_row + 0.05
    assert np.all(found.kernel.k2.length_scale < 0.1)


def test_short_scales_are_left_alone_where_the_rest_explains_more(workers):
    data = subset(workers, 200)
    learned = maximise(data, family_kernel("rbf", np.ones(2), 1.0), NOISE, "rbf")
    assert learning.short_scales(data, learned, np.ones(2), 1.0, NOISE) is None


class After:
    """It is late after so many questions."""

    def __init__(self, n):
        self.left = n

    def __call__(self):
        self.left -= 1
        return self.left < 0


def test_no_step_is_begun_when_it_is_late(workers):
    data, kernel = subset(workers), ConstantKernel() * RBF([1.0, 1.0])
    one, three, free = (
        maximise(data, kernel, NOISE, "given", late=After(n)) for n in (0, 2, 10**9)
    )
    assert one.evidence_per_row < three.evidence_per_row < free.evidence_per_row
    counts = [found.stages[0].n_evaluations for found in (one, three, free)]
    assert counts == sorted(set(counts))
    assert one.evidence_per_row > at(data, kernel, NOISE.start)


def test_restarts_are_left_out_when_it_is_late(workers):
    data, rng = subset(workers), np.random.default_rng(0)
    found = maximise(data, RBF(), NOISE, "given", late=After(0), restarts=9, rng=rng)
    again = maximise(data, RBF(), NOISE, "given", late=After(0))
    assert found.stages[0].n_evaluations == again.stages[0].n_evaluations


def test_one_family_is_learned_however_late(workers, monkeypatch):
    monkeypatch.setattr(learning, "FIRST_ROWS", 50)
    data = subset(workers)
    found = learn_family(data, np.ones(2), 1.0, NOISE, late=lambda: True)
    assert [stage.family for stage in found.stages] == [FAMILIES[0]]
    assert [stage.n_rows for stage in found.stages] == [50]
    given = learn_given(data, RBF(), NOISE, late=lambda: True)
    assert [stage.n_rows for stage in given.stages] == [50]


def test_a_start_that_fits_badly_is_not_left_for_the_end_of_the_bounds(workers):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    y = np.sin(25 * X[:, 0]) * np.sin(25 * X[:, 1]) + 0.1 * rng.standard_normal(300)
    data = Evidence(X, (y - y.mean())[:, None] / y.std(), np.ones(300), workers)
    near = maximise(data, RBF(0.06), NoiseRange(0.02, 1e-5, 1e5), "given")
    steep = NoiseRange(0.01, 1e-5, 1e5)
    slope = data.value_and_gradient(RBF(0.15), steep.start)[1] / 300
    assert slope.min() < -10, "one step as long as the gradient ends at the bound"
    found = maximise(data, RBF(0.15), steep, "given")
    assert found.evidence_per_row == pytest.approx(near.evidence_per_row, abs=1e-3)
    assert found.kernel.length_scale == pytest.approx(near.kernel.length_scale, rel=0.02)
