"""n_basis="auto" of support vector machines: how far a basis grows, and that growing is exact."""

import numpy as np
import pytest
from sklearn.svm import SVC

from pursuit import LowRankOneClassSVM, LowRankSVC, LowRankSVR, Search, limits
from pursuit.estimators.svm import growth, moving
from pursuit.tuning import next_gain


def bent(m, seed=0, wrong=0.0):
    """Two half moons in 2 of 6 columns."""
    rng = np.random.default_rng(seed)
    upper, angle = rng.random(m) < 0.5, np.pi * rng.random(m)
    X = 0.3 * rng.standard_normal((m, 6))
    X[:, 0] += np.where(upper, np.cos(angle), 1.0 - np.cos(angle))
    X[:, 1] += np.where(upper, np.sin(angle), 0.5 - np.sin(angle)) * 2.0
    return X, np.where(rng.random(m) < wrong, ~upper, upper)


def board(m, fields=12, seed=0):
    """A chess board, of which each field takes a function."""
    X = np.random.default_rng(seed).uniform(0, fields, (m, 2))
    return X, np.floor(X).sum(axis=1) % 2 == 1


@pytest.mark.parametrize("refine", ["auto", False])
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_easy_classes_stop_at_once_and_hard_ones_go_on(refine, loss):
    X, y = bent(6000)
    options = {"refine": refine, "loss": loss, "certificate": None, "random_state": 0}
    easy = LowRankSVC(gamma=0.5, **options).fit(X[:3000], y[:3000])
    assert easy.n_basis_ == 64
    assert easy.path_.stop_reason == "no gain"
    peer = SVC(gamma=0.5).fit(X[:3000], y[:3000])
    assert easy.score(X[3000:], y[3000:]) > peer.score(X[3000:], y[3000:]) - 0.01
    X, y = board(6000)
    hard = LowRankSVC(gamma=4.0, C=10.0, **options).fit(X[:3000], y[:3000])
    assert hard.n_basis_ >= 128
    peer = SVC(gamma=4.0, C=10.0).fit(X[:3000], y[:3000])
    assert hard.score(X[3000:], y[3000:]) > peer.score(X[3000:], y[3000:]) - 0.01
    sizes = np.flatnonzero(~np.isnan(hard.path_.value)) + 1
    assert sizes.tolist() == [64 << i for i in range(len(sizes))]
    assert np.all(np.diff(hard.path_.value[sizes - 1]) < 0)


def test_a_wave_takes_more_functions_than_a_slope():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (6000, 2))
    noise = 0.05 * rng.standard_normal(6000)
    sizes = {}
    for name, f in (
        ("slope", X.sum(axis=1)),
        ("wave", np.sin(12 * X[:, 0]) * np.sin(12 * X[:, 1])),
    ):
        options = {"gamma": 10.0, "C": 10.0, "epsilon": 0.01}
        model = LowRankSVR(random_state=0, **options).fit(X[:3000], (f + noise)[:3000])
        peer = LowRankSVR(n_basis=1000, refine=False, **options).fit(X[:3000], (f + noise)[:3000])
        sizes[name] = model.n_basis_
        assert model.score(X[3000:], f[3000:]) > peer.score(X[3000:], f[3000:]) - 0.01
    assert sizes["slope"] <= 128 < sizes["wave"]


def test_classes_share_a_basis_that_grows():
    X, _ = board(3000)
    y = np.floor(X).sum(axis=1) % 3
    for multi_class in ("ovr", "ovo"):
        model = LowRankSVC(gamma=4.0, C=10.0, multi_class=multi_class, random_state=0).fit(X, y)
        assert model.n_basis_ >= 128
        assert model.score(X, y) > 0.9


@pytest.mark.parametrize("rows", [None, 1500])
def test_the_machine_is_that_of_its_basis(rows, monkeypatch):
    """Newton's method from where growth ended, and from scratch."""
    if rows is not None:
        monkeypatch.setattr(moving, "PILOT_ROWS", rows)
        monkeypatch.setattr(growth, "_ROWS_A_FUNCTION", 1)
    X, y = board(3000)
    options = {"gamma": 4.0, "C": 10.0, "refine": False, "certificate": None, "random_state": 0}
    grown = LowRankSVC(**options).fit(X, y)
    given = Search("pooled", candidates=grown.basis_, rows="all")
    again = LowRankSVC(n_basis=grown.n_basis_, search=given, **options).fit(X, y)
    assert again.n_basis_ == grown.n_basis_
    np.testing.assert_array_equal(X[grown.basis_indices_], grown.basis_)
    Z = X[:500] + 0.01
    np.testing.assert_allclose(
        grown.decision_function(Z), again.decision_function(Z), rtol=0, atol=1e-8
    )


def test_points_stay_when_others_are_added(monkeypatch):
    X, y = board(3000)
    options = {"gamma": 4.0, "C": 10.0, "refine": False, "certificate": None, "random_state": 0}
    whole = LowRankSVC(**options).fit(X, y)
    assert whole.n_basis_ > 64
    monkeypatch.setattr(growth.LossCurve, "is_flat", lambda *_: True)
    first = LowRankSVC(**options).fit(X, y)
    np.testing.assert_array_equal(whole.basis_indices_[:64], first.basis_indices_)


def test_the_same_seed_gives_the_same_machine_whatever_the_threads():
    X, y = board(3000)
    one, other = (LowRankSVC(gamma=4.0, C=10.0, random_state=3, n_jobs=n).fit(X, y) for n in (1, 3))
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
    np.testing.assert_array_equal(one.basis_, other.basis_)


def test_few_rows_are_as_good_as_the_full_machine():
    X, y = bent(600, wrong=0.05)
    model = LowRankSVC(gamma=0.5, loss="hinge").fit(X, y)
    assert model.path_.stop_reason == "no gain"
    assert model.n_basis_ < 600
    found = model.certificate_
    assert found.gap <= 1e-3 * found.upper
    peer = SVC(gamma=0.5, tol=1e-8).fit(X, y)
    assert np.mean(model.predict(X) == peer.predict(X)) > 0.99
    for certificate in (None, "diagonal"):
        other = LowRankSVC(gamma=0.5, loss="hinge", certificate=certificate).fit(X, y)
        np.testing.assert_array_equal(other.dual_coef_, model.dual_coef_)
        assert other.certificate_ is None or other.certificate_.kind == "diagonal"


@pytest.mark.parametrize("make", [LowRankSVC, LowRankSVR])
def test_few_rows_of_weight_two_are_copies(make):
    """Beyond 64 functions rows are added by what the certificate misses."""
    X, y = board(300, 8)
    weights = np.random.default_rng(1).integers(1, 4, 300)
    options = {"gamma": 1.0, "C": 10.0}
    model = make(**options).fit(X, y, sample_weight=weights)
    copies = make(**options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert model.n_basis_ == copies.n_basis_ > 64
    values = [
        one.decision_function(X) if make is LowRankSVC else one.predict(X)
        for one in (model, copies)
    ]
    np.testing.assert_allclose(*values, rtol=0, atol=1e-7)


def test_what_ends_growth_is_said(monkeypatch):
    X, y = board(3000)
    linear = LowRankSVC("linear", random_state=0).fit(X, y)
    assert (linear.n_basis_, linear.path_.stop_reason) == (2, "rank")
    monkeypatch.setattr("pursuit.estimators.svm.fit.AUTO_BASIS", 100)
    most = LowRankSVC(gamma=4.0, C=10.0, random_state=0).fit(X, y)
    assert (most.n_basis_, most.path_.stop_reason) == (100, "n_basis")
    timed = LowRankSVC(gamma=4.0, C=10.0, max_time=1e-9, random_state=0).fit(X, y)
    assert (timed.n_basis_, timed.path_.stop_reason) == (64, "time")


def test_growth_goes_on_where_it_was_killed(tmp_path, monkeypatch):
    X, y = board(3000)
    options = {"gamma": 4.0, "C": 10.0, "random_state": 0}
    whole = LowRankSVC(**options).fit(X, y)

    class KilledError(Exception):
        pass

    solve, calls = growth.SpannedRows.solve, []

    def killed(*arguments, **named):
        calls.append(1)
        if len(calls) == 3:
            raise KilledError
        return solve(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(growth.SpannedRows, "solve", killed)
        with pytest.raises(KilledError):
            LowRankSVC(checkpoint=tmp_path, **options).fit(X, y)
    again = LowRankSVC(checkpoint=tmp_path, **options).fit(X, y)
    np.testing.assert_array_equal(again.dual_coef_, whole.dual_coef_)


def test_expected_gains():
    """The next term of a geometric series, and never more than the last one."""
    losses = 1.0 + 0.5 ** np.arange(5)
    assert next_gain(losses) == pytest.approx(0.5**5)
    assert next_gain(losses[:2]) == pytest.approx(0.5)
    assert next_gain(losses[:1]) == losses[0]
    assert next_gain(np.array([1.0, 0.9, 0.5])) == pytest.approx(0.4)
    assert next_gain(np.array([1.0, 0.9, 0.95])) <= 0.0
    both = np.column_stack([losses, 2 * losses])
    np.testing.assert_allclose(next_gain(both), [0.5**5, 0.5**4])


def test_one_class_has_no_rows_to_judge_a_size_by():
    with pytest.raises(ValueError, match="'n_basis' parameter of LowRankOneClassSVM"):
        LowRankOneClassSVM(n_basis="auto").fit(np.zeros((limits.SMALL_ROWS, 1)))


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_many_copies_of_few_rows(kernel):
    """Fewer functions than the first size would have; and with X = 0 a linear kernel has none."""
    X = np.repeat(np.arange(10.0)[:, None], 300, axis=0) * (kernel == "rbf")
    y = np.arange(3000) // 300 % 2
    model = LowRankSVC(kernel, C=100.0, random_state=0).fit(X, y)
    assert model.n_basis_ <= 10
    assert model.path_.stop_reason in ("rank", "no gain")
    assert model.score(X, y) == (1.0 if kernel == "rbf" else 0.5)
