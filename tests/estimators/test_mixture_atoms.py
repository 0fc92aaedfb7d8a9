"""Fixed Gaussian atoms: best gains, certificates and rates against plain NumPy over all atoms."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import pursuit
from pursuit import HullMixture
from pursuit.bounds import hull_rate_bound
from pursuit.estimators.hull import mixture, mixture_atoms
from pursuit.estimators.hull.mixture_atoms import GaussianAtoms, neighbours
from pursuit.linalg import Workers
from pursuit.rows import draw_rows


def log_atoms(X, centres, bandwidths):
    """ln N(x; c, h²I), shape (rows, centres x bandwidths), from the formula."""
    d = X.shape[1]
    columns = [
        -0.5 * ((X - c) ** 2).sum(axis=1) / h**2 - d * np.log(h * np.sqrt(2 * np.pi))
        for c in centres
        for h in bandwidths
    ]
    return np.column_stack(columns)


def exact_gains(ratio, w):
    """Max over α in [0, 1] of Σ w ln(1 - α + αr) for each row r, by bisection of the slope; its α.

    60 halvings of [0, 1] leave nothing; the last 40 are relative to α, which may be tiny.
    """
    low, high = np.zeros(len(ratio)), np.ones(len(ratio))
    for _ in range(100):
        middle = 0.5 * (low + high)
        slope = ((ratio - 1) / (1 - middle + middle * ratio.T).T) @ w
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    return np.log1p(low[:, None] * (ratio - 1)) @ w, low


def problem(rng):
    """Rows of several clusters, some twice and some far away, with weights, and a ln v."""
    d = int(rng.choice([1, 2, 3, 10]))
    m = int(rng.integers(15, 90))
    X = rng.normal(size=(m, d)) * rng.uniform(0.05, 1, (m, 1)) + rng.integers(-2, 3, (m, 1))
    if rng.random() < 0.5:
        X[: m // 10 + 1] += rng.uniform(5, 30)
    X = np.vstack([X, X[: m // 5]])
    w = rng.dirichlet(np.ones(len(X))) if rng.random() < 0.5 else np.full(len(X), 1 / len(X))
    parts = int(rng.integers(1, 4))
    means, widths = X[rng.integers(0, len(X), parts)], rng.uniform(0.3, 3, parts)
    v = np.column_stack([log_atoms(X, [c], [h]) for c, h in zip(means, widths, strict=True)])
    bandwidths = [[0.5, 0.25, 0.125, 0.0625], [1.0, 0.3, 0.07], [0.4]][rng.integers(0, 3)]
    return X, w, logsumexp(v, axis=1) - np.log(parts), np.array(bandwidths)


def gaussian_atoms(X, w, bandwidths, workers):
    return GaussianAtoms(X, w, np.unique(X, axis=0), bandwidths, workers)


@pytest.mark.parametrize("grouped", [64, 5])
def test_the_best_atom_is_that_of_line_searches_over_all_rows(grouped, size, monkeypatch):
    monkeypatch.setattr(mixture_atoms, "_GROUP_ROWS", grouped)
    # In the last two problems rows of far less density than e^-600 meet atoms far from them.
    for seed in [*range(size(15, 100)), 53, 93]:
        X, w, density, bandwidths = problem(np.random.default_rng(seed))
        with Workers(1) as workers:
            atoms = gaussian_atoms(X, w, bandwidths, workers)
            found = atoms.search(density, np.arange(atoms.n_atoms))
        ratio = np.exp(np.minimum(log_atoms(X, atoms.centres, bandwidths).T - density, 600))
        truth, shares = exact_gains(ratio, w)
        best = truth.max()
        # Slopes are zero to rounding, and gains are flat there.
        assert found.gains.max() == pytest.approx(best, rel=1e-9, abs=1e-12)
        seen = found.gains > 0
        assert found.gains[seen] == pytest.approx(truth[seen], rel=1e-9, abs=1e-12)
        assert found.shares[seen] == pytest.approx(shares[seen], rel=1e-5, abs=1e-9)
        # What was not searched is bounded: the bounds are never below the truth.
        assert np.all(found.promise >= truth - 1e-9 * best - 1e-12)


def test_a_part_of_the_atoms_and_a_least_share():
    """Of two tight clusters and a lonely row, the row gains most, at a share of 1/81."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 0.2, (40, 2)) for c in (-1, 1)] + [[[20.0, 20.0]]])
    w, bandwidths = np.full(81, 1 / 81), np.array([0.5, 0.1])
    density = log_atoms(X, np.zeros((1, 2)), [1.2])[:, 0]
    with Workers(1) as workers:
        atoms = gaussian_atoms(X, w, bandwidths, workers)
        some = np.sort(np.random.default_rng(0).choice(atoms.n_atoms, 20, replace=False))
        ratio = np.exp(np.minimum(log_atoms(X, atoms.centres, bandwidths).T - density, 600))
        truth, shares = exact_gains(ratio, w)
        found = atoms.search(density, some)
        least = 2 / 81
        held = atoms.search(density, np.arange(atoms.n_atoms), least_share=least)
    assert found.gains.max() == pytest.approx(truth[some].max(), rel=1e-9)
    assert held.gains.max() == pytest.approx(truth[shares >= least].max(), rel=1e-9)
    assert 0 < held.gains.max() < truth.max()
    assert shares[truth.argmax()] == pytest.approx(1 / 81, rel=1e-3)


def test_a_small_far_cluster_is_the_best_atom_at_its_own_small_weight():
    """995 rows of N(0, 1) and 5 at 6: the gain is .06 at α = .005, where α = .25 sees a loss."""
    X = np.concatenate([np.random.default_rng(0).normal(size=995), np.full(5, 6.0)])[:, None]
    Z, w = (X - X.mean()) / X.std(), np.full(1000, 0.001)
    ratio = np.exp(log_atoms(Z, np.unique(Z, axis=0), [0.06]) - norm.logpdf(Z)).T
    gains, shares = exact_gains(ratio, w)
    assert gains.argmax() == len(gains) - 1
    assert gains[-1] == pytest.approx(0.0628, abs=1e-4)
    assert shares[-1] == pytest.approx(0.005, rel=1e-3)
    assert np.log1p(0.25 * (ratio[-1] - 1)) @ w < 0
    for seed in range(3):
        model = HullMixture(random_state=seed, bandwidths=[0.5, 0.25, 0.125, 0.06])
        with pytest.warns(UserWarning, match="least variance allowed"):
            model.fit(X)
        assert model.path_.index[0] == 995
        assert model.means_[1] == pytest.approx(6.0)
        assert model.weights_[1] == pytest.approx(0.005, rel=1e-6)


@pytest.mark.parametrize("range_", [60.0, -1e9])
@pytest.mark.parametrize("chunk", [5000, 7])
def test_the_largest_slope_is_over_all_atoms(range_, chunk, size, monkeypatch):
    monkeypatch.setattr(mixture_atoms, "_CHUNK_CENTRES", chunk)
    if range_ > 0:
        monkeypatch.setattr(mixture_atoms, "_BATCH", 3)
    for seed in range(size(10, 100)):
        X, w, density, bandwidths = problem(np.random.default_rng(1000 + seed))
        # Rows of almost no density: e^2000 is no number, its logarithm is.
        density = density - (2000.0 if seed % 2 else 0.0) * (np.arange(len(X)) == 4)
        with Workers(1) as workers:
            atoms = gaussian_atoms(X, w, bandwidths, workers)
            found = atoms.log_largest_slope(density, np.arange(len(atoms.centres)))
            part = np.arange(0, len(atoms.centres), 3)
            of_some = atoms.log_largest_slope(density, part)
        log_ratio = log_atoms(X, atoms.centres, bandwidths) - density[:, None]
        slopes = logsumexp(log_ratio, b=w[:, None], axis=0).reshape(-1, len(bandwidths))
        assert found == pytest.approx(slopes.max(), rel=1e-9, abs=1e-9)
        assert of_some == pytest.approx(slopes[part].max(), rel=1e-9, abs=1e-9)


def least_over_hull(log_p, w, steps=20_000):
    """A value of f in the hull and a lower bound, by multiplicative steps on all weights."""
    shift = log_p.max(axis=1)
    P = np.exp(log_p - shift[:, None])
    a = np.full(P.shape[1], 1 / P.shape[1])
    for step in range(steps):
        v = P @ a
        slopes = (w / v) @ P
        if step % 100 == 0 and np.log(slopes.max()) < 1e-5:
            break
        a *= slopes
    value = -float(w @ (np.log(v) + shift))
    return value - float(np.log(slopes.max())), value


def hull_problem(rng):
    d = int(rng.choice([1, 2, 10]))
    m = int(rng.integers(8, 70))
    X = rng.normal(size=(m, d)) * rng.uniform(0.3, 3, d) + 2.0 * rng.integers(0, 3, (m, 1))
    if rng.random() < 0.3:
        X[0] += 20.0
    X[-2:] = X[:2]
    weights = rng.integers(1, 4, m).astype(float) if rng.random() < 0.5 else None
    bandwidths = [[1.0, 0.5], [0.5, 0.2, 0.1], [2.0]][rng.integers(0, 3)]
    return X, weights, bandwidths


def atoms_of(X, weights, bandwidths, kind):
    """ln p of all atoms at all rows, in the units of X, and the weights."""
    w = np.ones(len(X)) if weights is None else weights
    w = w / w.sum()
    variances = w @ (X - w @ X) ** 2
    if kind == "spherical":
        variances = np.full_like(variances, variances.mean())
    scale = np.sqrt(variances)
    centres = np.unique(X, axis=0)
    return log_atoms(X / scale, centres / scale, bandwidths) - np.log(scale).sum(), w


@pytest.mark.parametrize("threshold", [5000, 50])
def test_the_minimum_over_the_hull_lies_within_the_certificate(threshold, size, monkeypatch):
    monkeypatch.setattr(mixture, "_CENTRES", 5000 if threshold == 5000 else 10)
    for seed in range(size(12, 100)):
        rng = np.random.default_rng(seed)
        X, weights, bandwidths = hull_problem(rng)
        kind = ["full", "diag", "spherical"][seed % 3]
        criterion = ["bic", "certificate", "validation"][seed % 4 % 3]
        model = HullMixture(
            refine=False,
            bandwidths=bandwidths,
            covariance_type=kind,
            criterion=criterion,
            n_terms=30,
            random_state=seed,
        ).fit(X, sample_weight=weights)
        log_p, w = atoms_of(X, weights, bandwidths, kind)
        low, high = least_over_hull(log_p, w)
        found = model.certificate_
        assert found.lower <= high + 1e-9
        assert found.upper >= low - 1e-9
        value = -model.score(X, sample_weight=weights)
        assert found.upper == pytest.approx(value, rel=1e-10, abs=2 * found.rounding)
        assert found.rounding < 1e-8
        assert found.over == "the mixtures of fixed atoms at the training rows"
        refined = HullMixture(bandwidths=bandwidths, covariance_type=kind, n_terms=4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            refined.fit(X, sample_weight=weights)
        assert refined.certificate_.lower <= high + 1e-9
        assert refined.certificate_.upper - refined.certificate_.gap <= high + 1e-9


def test_the_certificate_says_when_it_speaks_of_some_rows_only(monkeypatch):
    monkeypatch.setattr(mixture, "_CERTIFIED_CENTRES", 20)
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = HullMixture(refine=False, bandwidths=[0.5, 0.3], n_terms=30, random_state=0).fit(X)
    assert model.certificate_.over == "the mixtures of fixed atoms at 20 training rows"
    log_p, w = atoms_of(X, None, [0.5, 0.3], "full")
    kept = draw_rows(60, 20, np.random.default_rng(0))
    some = log_p.reshape(60, 60, 2)[:, kept].reshape(60, 40)
    _, of_some = least_over_hull(some, w)
    _, of_all = least_over_hull(log_p, w)
    assert model.certificate_.lower <= of_some + 1e-9
    # Atoms at all rows do better, so that the sentence must not speak of them.
    assert of_all < of_some - 0.01


def test_steps_without_refinement_are_those_of_the_published_algorithm(monkeypatch):
    """Algorithm 2.1 in plain NumPy: all atoms, the best α of each, the best of these."""
    monkeypatch.setattr(mixture, "_PATIENCE", 40)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, weights, bandwidths = hull_problem(rng)
        model = HullMixture(refine=False, bandwidths=bandwidths, n_terms=8)
        model.fit(X, sample_weight=weights)
        log_p, w = atoms_of(X, weights, bandwidths, "full")
        v = log_p[:, (w @ log_p).argmax()]
        for value in model.path_.value:
            gains, shares = exact_gains(np.exp(log_p.T - v), w)
            share, best = shares[gains.argmax()], log_p[:, gains.argmax()]
            v = np.logaddexp(np.log1p(-share) + v, np.log(share) + best)
            assert value == pytest.approx(-(w @ v), rel=1e-8)
        assert len(model.path_) >= 1


def test_components_without_refinement_are_atoms_at_rows():
    X = np.random.default_rng(0).normal(size=(80, 2)) * [1.0, 50.0]
    model = HullMixture(refine=False, bandwidths=[0.5, 0.25], random_state=0).fit(X)
    distances = np.abs(model.means_[:, None] - X).max(axis=2).min(axis=1)
    assert distances.max() < 1e-12 * 50
    widths = np.sqrt(np.diagonal(model.covariances_, axis1=1, axis2=2)) / X.std(axis=0)
    assert np.all(np.isclose(widths, 0.5) | np.isclose(widths, 0.25))
    assert model.weights_.sum() == pytest.approx(1.0)
    taken = np.abs(model.means_[:, None] - X[model.path_.index]).max(axis=2).min(axis=1)
    assert np.count_nonzero(taken > 1e-9) <= 1


def test_the_rate_is_kept_and_its_m_is_that_of_all_pairs():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(40, 1))
    options = {"refine": False, "bandwidths": [1.2, 0.6], "tol": 1e-9, "n_terms": 40}
    model = HullMixture(criterion="certificate", **options).fit(X)
    log_p, w = atoms_of(X, None, [1.2, 0.6], "full")
    P = np.exp(log_p)
    M = max(float((w * p**2) @ (1 / q**2)) for p in P.T for q in P.T)
    assert f"M = {M:.3g}" in model.rate_bound_.caveat
    _, least = least_over_hull(log_p, w)
    n = len(model.path_)
    assert np.all(model.path_.value - least <= model.rate_bound_.value + 1e-9)
    assert model.rate_bound_.value.shape == (n,)
    assert not model.rate_bound_.vacuous.all()
    with Workers(1) as workers:
        Z = X / X.std()
        atoms = GaussianAtoms(Z, w, Z, np.array([1.2, 0.6]), workers)
        exact = atoms.curvature()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mixture_atoms, "_EXACT_M", 0)
            assert exact == pytest.approx(M)
            assert atoms.curvature() >= exact


def test_no_rate_is_promised_where_steps_look_at_some_atoms_only(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 1))
    model = HullMixture(refine=False, bandwidths=[1.0], n_terms=3, random_state=0)
    assert model.fit(X).rate_bound_ is not None
    monkeypatch.setattr(mixture, "_CENTRES", 59)
    assert model.fit(X).rate_bound_ is None


def test_a_rate_beyond_all_numbers_is_called_vacuous():
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = HullMixture(refine=False, random_state=0).fit(X)
    assert model.rate_bound_.vacuous.all()
    assert "vacuous" in str(model.rate_bound_)
    assert HullMixture(random_state=0).fit(X).rate_bound_ is None
    bound = hull_rate_bound(3, np.inf, 0.7)
    assert np.array_equal(bound.value, [0.7, 0.7, 0.7])
    assert bound.vacuous.all()


@pytest.mark.parametrize("refine", [True, False])
def test_the_certificate_is_in_the_units_of_score(refine):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(5, 0.5, (50, 2))])
    weights = rng.integers(1, 3, 150).astype(float)
    scale = np.array([1000.0, 0.02])
    options = {"refine": refine, "random_state": 0}
    plain = HullMixture(**options).fit(X, sample_weight=weights)
    moved = HullMixture(**options).fit(X * scale + 7.0, sample_weight=weights)
    volume = np.log(scale).sum()
    for model, rows in ((plain, X), (moved, X * scale + 7.0)):
        upper = model.certificate_.upper
        assert upper == pytest.approx(-model.score(rows, sample_weight=weights), rel=1e-10)
    if not refine:
        # Rounding of the rows does not move atoms enough to change a step.
        assert moved.path_.value == pytest.approx(plain.path_.value + volume, rel=1e-7)
        assert moved.certificate_.lower == pytest.approx(plain.certificate_.lower + volume)
    rows = np.repeat(X, weights.astype(int), axis=0)
    total = weights.sum()
    copied = HullMixture(**options).fit(rows)
    assert copied.bic(rows) / (2 * total) == pytest.approx(
        plain.criterion_path_[plain.n_terms_ - 1] if refine else plain.criterion_path_.min(),
        abs=1e-2,
    )


def test_a_weight_of_two_is_a_copy_without_refinement():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(0, 1, (40, 2)), rng.normal(6, 0.3, (10, 2))])
    weights = rng.integers(0, 4, 50).astype(float)
    options = {"refine": False, "random_state": 0, "n_terms": 10}
    weighted = HullMixture(**options).fit(X, sample_weight=weights)
    copied = HullMixture(**options).fit(np.repeat(X, weights.astype(int), axis=0))
    assert weighted.path_.value == pytest.approx(copied.path_.value, rel=1e-9)
    assert weighted.certificate_.lower == pytest.approx(copied.certificate_.lower, rel=1e-9)
    assert np.all(weights[weighted.path_.index] > 0)


def test_one_row_and_rows_that_coincide():
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    one = HullMixture(refine=False).fit(X, sample_weight=[1.0, 0.0])
    assert one.n_terms_ == 1
    assert one.certificate_.gap == pytest.approx(0.0, abs=1e-12)
    assert one.certificate_.relative_gap == 0.0
    assert one.means_[0] == pytest.approx(X[0])
    same = HullMixture(refine=False).fit(np.full((10, 3), 2.0))
    assert same.certificate_.gap == pytest.approx(0.0, abs=1e-12)
    with pytest.warns(UserWarning, match="least variance allowed"):
        moved = HullMixture().fit(np.full((10, 3), 2.0))
    # Narrower than every atom, it is below the hull, by what the gap says.
    assert moved.certificate_.lower > moved.certificate_.upper
    assert moved.certificate_.gap == moved.certificate_.upper - moved.certificate_.lower < 0.0
    assert moved.certificate_.relative_gap == 0.0


def test_ratios_beyond_all_numbers():
    """Atoms so narrow that a row's density is e^-10^6: certified, and every step falls."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 1)), [[40.0]]])
    model = HullMixture(refine=False, bandwidths=[0.001], n_terms=61, random_state=0).fit(X)
    assert np.isfinite(model.certificate_.lower)
    assert model.certificate_.lower <= model.certificate_.upper
    assert np.all(np.diff(model.path_.value) < 0)
    log_p, w = atoms_of(X, None, [0.001], "full")
    _, least = least_over_hull(log_p, w)
    assert model.certificate_.lower <= least + 1e-6


@pytest.mark.parametrize("width", [1e-2, 1e-3, 1e-4, 1e-5])
def test_exponents_that_single_precision_does_not_resolve(width):
    """Rows in pairs, a width apart, and a v that has lost half of them."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(12, 4)), 2, axis=0)
    X[1::2] += width * rng.normal(size=(12, 4))
    w, bandwidths = np.full(24, 1 / 24), np.array([width])
    density = logsumexp(log_atoms(X, X[:12], bandwidths), axis=1) - np.log(12)
    density = np.maximum(density, density.max() - 40.0)
    with Workers(1) as workers, np.errstate(over="raise", invalid="raise"):
        atoms = gaussian_atoms(X, w, bandwidths, workers)
        found = atoms.search(density, np.arange(atoms.n_atoms))
        slope = atoms.log_largest_slope(density, np.arange(len(atoms.centres)))
    log_ratio = log_atoms(X, atoms.centres, bandwidths).T - density
    truth, _ = exact_gains(np.exp(log_ratio), w)
    # Squares of 1 in units of the width are rounded by about 1e-16 each.
    few_digits = 1e-14 / width**2 + 1e-9
    assert found.gains.max() == pytest.approx(truth.max(), rel=few_digits)
    assert np.all(found.promise >= truth - few_digits * truth.max())
    assert slope == pytest.approx(logsumexp(log_ratio, b=w, axis=1).max(), rel=few_digits)


def test_groups_hold_every_row_once():
    X = np.random.default_rng(0).normal(size=(200, 3))
    groups = neighbours(X, 30)
    assert np.array_equal(np.sort(np.concatenate(groups)), np.arange(200))
    assert max(len(group) for group in groups) <= 30


def test_a_fitted_model_without_refinement_survives_a_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = HullMixture(refine=False, random_state=0).fit(X)
    model.save(tmp_path / "mixture.pursuit")
    again = pursuit.load(tmp_path / "mixture.pursuit")
    assert np.array_equal(again.score_samples(X), model.score_samples(X))
    assert str(again.certificate_) == str(model.certificate_)
    assert str(again.rate_bound_) == str(model.rate_bound_)
