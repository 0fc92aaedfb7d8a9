"""Boosting over a hull: margins, certificates, probabilities, and beside AdaBoost."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog, minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pursuit import HullBoostClassifier, limits, load
from pursuit.bounds import margin_tail
from pursuit.objectives import LogExpLoss


def corners(m, seed=0, d=3, flipped=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    y = (X[:, 0] + 0.7 * X[:, 1] - 0.4 * X[:, 2] > 0).astype(int)
    y[rng.random(m) < flipped] ^= 1
    return X, y


def largest_margin(X, y):
    """max over votes of stumps of the least margin, by a linear programme."""
    columns = []
    for column in X.T:
        for value in np.unique(column)[:-1]:
            columns.append(np.where(column <= value, -1.0, 1.0))
    P = y[:, None] * np.column_stack(columns + [-c for c in columns])
    n = P.shape[1]
    found = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.vstack([np.hstack([-P, np.ones((len(y), 1))]), np.append(np.ones(n), 0.0)]),
        b_ub=np.append(np.zeros(len(y)), 1.0),
        bounds=[(0, None)] * n + [(None, None)],
    )
    return -found.fun


@given(seed=st.integers(0, 10_000))
def test_the_margin_bound_holds_where_the_margin_is_known(seed):
    """Equation 8 with A = γ(k + 3)/16: the share of margins at most γ stays below it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 2))
    y = np.where(X[:, 0] > 0, 1, -1)
    y[0], y[1], X[0, 0], X[1, 0] = 1, -1, 1.0, -1.0
    gamma = 0.5 * largest_margin(X, y)
    assert gamma > 0
    model = HullBoostClassifier(scale="margin", margin=min(gamma, 0.999), n_terms=40, tol=None)
    model.fit(X, y)
    assert model.scale_ == pytest.approx(model.margin * 43 / 16)
    k = len(model.path_)
    share = np.mean(model.margins_ <= model.margin)
    assert share <= margin_tail(np.array([k]), model.scale_, model.margin)[0]
    assert share <= model.margin_bound_.value[-1]


LOSSES = ["log-exp", "exponential", "logistic", "least-squares"]


def row_losses(name, margins, y, scale):
    """The loss of each row as the formula says, the logarithm of log-exp being taken later."""
    if name == "least-squares":
        return (y - scale * y * margins) ** 2
    x = -scale * margins
    return np.logaddexp(0.0, x) if name == "logistic" else np.exp(x)


def partitions(X):
    """Left sides of all stumps, the constants first."""
    sides = [column <= t for column in X.T for t in np.unique(column)[:-1]]
    return np.array([np.ones(len(X), bool), *sides])


def least_leaf(name, z, y, weights, scale, limit):
    """Least loss of the rows of one leaf for constants in [-limit, limit], one problem a row."""
    P, N = ((weights * (y == s)) for s in (1.0, -1.0))
    if name == "least-squares":
        total = weights.sum(axis=1)
        mean = (weights * (y / scale - z)).sum(axis=1) / np.where(total > 0, total, 1.0)
        c = np.clip(mean, -limit, limit)
    elif name == "logistic":
        low, high = -limit, limit.copy()
        for _ in range(40):
            c = 0.5 * (low + high)
            slope = -(weights * y * expit(-scale * y * (z + c[:, None]))).sum(axis=1)
            low, high = np.where(slope < 0, c, low), np.where(slope < 0, high, c)
    else:
        q = np.exp(-scale * y * z)
        ratio = ((P * q).sum(axis=1) + 1e-300) / ((N * q).sum(axis=1) + 1e-300)
        c = np.clip(0.5 * np.log(ratio) / scale, -limit, limit)
    return (weights * row_losses(name, y * (z + c[:, None]), y, scale)).sum(axis=1)


def least_step(name, v, y, weights, scale, sides):
    """The least loss over stump, leaf values and α by golden sections for every stump."""

    def least(alpha):
        z = (1 - alpha)[:, None] * v
        parts = [np.where(side, weights, 0.0) for side in (sides, ~sides)]
        return sum(least_leaf(name, z, y, part, scale, alpha) for part in parts)

    golden = 0.5 * (np.sqrt(5) - 1)
    low, high = np.zeros(len(sides)), np.ones(len(sides))
    points = high - golden, low + golden
    values = least(points[0]), least(points[1])
    for _ in range(35):
        left = values[0] < values[1]
        low, high = np.where(left, low, points[0]), np.where(left, points[1], high)
        near, far = high - golden * (high - low), low + golden * (high - low)
        fresh = least(np.where(left, near, far))
        values = np.where(left, fresh, values[1]), np.where(left, values[0], fresh)
        points = near, far
    return float(np.minimum(*values).min())


def shares(model, X, y, name, scale, weights=None):
    """Decrease of every step as a part of the largest possible one."""
    weights = np.full(len(y), 1 / len(y)) if weights is None else weights / weights.sum()
    v, sides, found = np.zeros(len(y)), partitions(X), []
    log = np.log if name == "log-exp" else float
    for vote in model.staged_decision_function(X):
        before, after = (
            log(float(weights @ row_losses(name, y * at, y, scale))) for at in (v, vote)
        )
        best = log(least_step(name, v, y, weights, scale, sides))
        found.append((before - after) / (before - best))
        v = vote
    return np.array(found)


def noisy(seed, m=45, d=2):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(m, d)), 1)
    y = np.where(X[:, 0] + 0.5 * X[:, -1] + 0.6 * rng.normal(size=m) > 0, 1.0, -1.0)
    return X, y, rng


@pytest.mark.parametrize("scale", [2.0, 8.0, 128.0])
@pytest.mark.parametrize("rows", [5000, 20])
def test_joint_steps_are_the_best_over_stump_leaves_and_step(scale, rows, monkeypatch, size):
    """12 steps against an exhaustive search; the second time as for more than 5 000 rows."""
    monkeypatch.setattr(limits, "EXHAUSTIVE_ROWS", rows)
    for seed in range(size(1, 5)):
        X, y, _ = noisy(seed)
        model = HullBoostClassifier(scale=scale, n_terms=12, tol=None).fit(X, y)
        found = shares(model, X, y, "log-exp", scale)
        assert len(found) == 12
        assert found.min() >= (0.999 if rows < 45 else 1 - 1e-5)
        assert model.path_.step == "joint"


@pytest.mark.parametrize("name", LOSSES[1:])
@pytest.mark.parametrize("rows", [5000, 20])
def test_joint_steps_of_the_other_losses(name, rows, monkeypatch, size):
    monkeypatch.setattr(limits, "EXHAUSTIVE_ROWS", rows)
    for seed, scale in enumerate(size([8.0], [1.0, 2.0, 8.0, 32.0, 128.0])):
        X, y, rng = noisy(seed, 30)
        weights = rng.uniform(0.5, 2.0, len(y))
        model = HullBoostClassifier(loss=name, scale=scale, n_terms=12, tol=None)
        found = shares(model.fit(X, y, weights), X, y, name, scale, weights)
        assert found.min() >= (0.999 if rows < 30 else 1 - 1e-5)


def test_the_exhaustive_search_tells_a_steepest_stump_from_the_best():
    """The control: Frank-Wolfe steps do not pass for joint ones."""
    X, y, _ = noisy(0)
    model = HullBoostClassifier(scale=8.0, step="frank-wolfe", n_terms=12, tol=None).fit(X, y)
    assert shares(model, X, y, "log-exp", 8.0).min() < 0.99
    assert model.path_.step == "frank-wolfe"


@pytest.mark.verify
@pytest.mark.parametrize("scale", [2.0, 8.0, 128.0])
def test_joint_steps_on_more_rows_than_are_searched_exhaustively(scale):
    rng = np.random.default_rng(0)
    X = np.round(4 * rng.normal(size=(5200, 3))) / 4
    y = np.where(X[:, 0] + X[:, 1] ** 2 - 1 + rng.normal(size=len(X)) > 0, 1.0, -1.0)
    model = HullBoostClassifier(scale=scale, n_terms=12, tol=None).fit(X, y)
    assert shares(model, X, y, "log-exp", scale).min() >= 0.999


def least_over_hull(name, X, y, weights, scale):
    """Minimum over the hull of all stumps of leaf values ±1, by sequential least squares."""
    sides = np.where(partitions(X), 1.0, -1.0)
    columns = np.unique(np.vstack([sides, -sides, np.zeros(len(y))]), axis=0).T
    n = columns.shape[1]

    def value(a):
        margins = y * (columns @ a)
        mean = float(weights @ row_losses(name, margins, y, scale))
        return np.log(mean) if name == "log-exp" else mean

    def slope(a):
        v = columns @ a
        if name == "least-squares":
            g = -2 * scale * weights * (y - scale * v)
        elif name == "logistic":
            g = -scale * y * weights * expit(-scale * y * v)
        else:
            q = weights * np.exp(-scale * y * v)
            g = -scale * y * q / (q.sum() if name == "log-exp" else 1.0)
        return columns.T @ g

    found = minimize(
        value,
        np.full(n, 1 / n),
        jac=slope,
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(n)},
        options={"ftol": 1e-14, "maxiter": 2000},
        method="SLSQP",
    )
    a = np.maximum(found.x, 0)
    return value(a / a.sum())


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("step", ["joint", "frank-wolfe", "corrective"])
def test_the_minimum_lies_between_lower_and_upper(name, step, size):
    """And within the rate, for every loss and kind of step."""
    for seed in range(size(1, 8)):
        X, y, rng = noisy(seed, 14)
        y[:2] = 1.0, -1.0
        weights = rng.uniform(0.5, 2.0, len(y))
        scale = float(rng.choice([1.0, 3.0, 6.0]))
        model = HullBoostClassifier(
            loss=name, scale=scale, step=step, n_terms=int(rng.integers(2, 20)), tol=None
        ).fit(X, y, weights)
        least = least_over_hull(name, X, y, weights / weights.sum(), scale)
        proof = model.certificate_
        assert proof.lower <= least + 1e-7
        assert least <= proof.upper + 1e-7
        assert "leaf values in [-1, 1]" in proof.over
        excess = model.path_.value - least
        assert np.all(excess <= model.rate_bound_.value + 1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_classifies_stages_calibrates_and_is_saved(name, tmp_path):
    X, y = corners(250, flipped=0.1)
    model = HullBoostClassifier(loss=name, scale=8.0, n_terms=25, random_state=0).fit(X, y)
    signs = np.where(y == 1, 1.0, -1.0)
    vote = model.decision_function(X)
    assert np.abs(vote).max() <= 1
    mean = row_losses(name, signs * vote, signs, 8.0).mean()
    value = np.log(mean) if name == "log-exp" else mean
    assert model.path_.value[-1] == pytest.approx(value, rel=1e-9)
    assert list(model.staged_decision_function(X))[-1] == pytest.approx(vote, abs=1e-12)
    assert model.score(X, y) > 0.8
    assert log_loss(y, model.predict_proba(X)) < 0.6
    assert (model.margin_bound_ is None) == (name != "log-exp")
    model.save(tmp_path / "model.pursuit")
    again = load(tmp_path / "model.pursuit")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.path_.step == model.path_.step == "joint"
    assert str(again.certificate_) == str(model.certificate_)
    X, y = load_iris(return_X_y=True)
    more = HullBoostClassifier(loss=name, scale=8.0, n_terms=10, random_state=0).fit(X, y)
    assert more.score(X, y) > 0.9
    assert more.certificate_.upper_per_output.shape == (3,)


def test_weak_learners_take_the_steepest_step_and_the_path_says_so():
    X, y = corners(60, flipped=0.1)
    learner = DecisionTreeClassifier(max_depth=1)
    for name in LOSSES:
        model = HullBoostClassifier(learner, loss=name, n_terms=4, random_state=0).fit(X, y)
        assert model.path_.step == "frank-wolfe"
        assert np.all(np.diff(model.path_.value) < 0)


@cache
def least_loss(scale):
    """A lower bound on the loss that is met to 1e-6, by corrective steps."""
    X, y = corners(80, d=3, flipped=0.1)
    best = HullBoostClassifier(scale=scale, step="corrective", n_terms=400, tol=1e-6).fit(X, y)
    assert best.path_.stop_reason == "tol"
    return best.certificate_.lower


@pytest.mark.parametrize("step", ["joint", "frank-wolfe", "corrective"])
@pytest.mark.parametrize("scale", [2.0, 16.0])
def test_loss_gap_and_rate(step, scale):
    X, y = corners(80, d=3, flipped=0.1)
    model = HullBoostClassifier(scale=scale, step=step, n_terms=60, tol=1e-9).fit(X, y)
    least = least_loss(scale)
    signs = np.where(y == 1, 1.0, -1.0)
    loss = LogExpLoss(signs, scale)
    vote = model.decision_function(X)
    assert model.margins_ == pytest.approx(signs * vote, abs=1e-12)
    assert model.path_.value[-1] == pytest.approx(loss.value(vote), abs=1e-9)
    assert np.all(np.diff(model.path_.value) < 0)
    assert np.all(model.path_.value - least <= model.rate_bound_.value + 1e-9)
    gaps = model.certificate_.gap
    assert gaps >= model.path_.value[-1] - least - 1e-6
    assert np.all(model.learner_weights_ >= 0)
    assert model.n_terms_ == np.count_nonzero(model.learner_weights_) <= 60
    assert model.learner_weights_.sum() <= 1 + 1e-9


@pytest.mark.parametrize("step", ["joint", "corrective"])
def test_stages_end_at_the_vote(step):
    X, y = corners(120, flipped=0.1)
    model = HullBoostClassifier(step=step, scale=8.0, n_terms=15).fit(X, y)
    stages = list(model.staged_decision_function(X))
    assert len(stages) == len(model.path_)
    assert stages[-1] == pytest.approx(model.decision_function(X), abs=1e-12)
    signs = np.where(y == 1, 1.0, -1.0)
    values = [LogExpLoss(signs, 8.0).value(vote) for vote in stages]
    assert values == pytest.approx(model.path_.value, abs=1e-9)
    assert np.array_equal(list(model.staged_predict(X))[-1], model.predict(X))


def test_more_classes_are_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = HullBoostClassifier(n_terms=30, random_state=0).fit(X, names)
    assert model.score(X, names) > 0.95
    assert model.margins_.shape == (150, 3)
    assert model.decision_function(X).shape == (150, 3)
    p = model.predict_proba(X)
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert np.array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    alone = HullBoostClassifier(n_terms=30, random_state=0).fit(X, names == "b")
    assert model.decision_function(X)[:, 1] == pytest.approx(alone.decision_function(X))
    proof = model.certificate_
    alone_proof = alone.certificate_
    assert proof.upper_per_output[1] == pytest.approx(alone_proof.upper)
    assert proof.lower_per_output[1] == pytest.approx(alone_proof.lower)
    assert model.path_.value[-1] == pytest.approx(proof.upper)
    assert len(model.path_) == max(len(booster.path) for booster in model.boosters_)
    excess = model.path_.value - proof.lower
    assert np.all(excess[: len(model.rate_bound_.value)] >= 0)
    assert np.all(model.path_.value - proof.upper <= model.rate_bound_.value)
    assert model.n_terms_ == sum(np.count_nonzero(w) for w in model.learner_weights_)
    assert np.array_equal(list(model.staged_predict(X))[-1], model.predict(X))


def test_probabilities_are_calibrated_on_rows_left_out():
    """Log loss on new rows is far below that of the link the loss itself suggests."""
    X, y = corners(600, flipped=0.1)
    new, labels = corners(1500, seed=1, flipped=0.1)
    model = HullBoostClassifier(random_state=0).fit(X, y)
    ours = log_loss(labels, model.predict_proba(new))
    link = 1 / (1 + np.exp(-2 * model.scale_ * model.decision_function(new)))
    assert ours < 0.5
    assert ours < log_loss(labels, link)
    bins = np.digitize(model.predict_proba(new)[:, 1], [0.2, 0.4, 0.6, 0.8])
    for b in (0, 4):
        expected = model.predict_proba(new)[bins == b, 1].mean()
        assert labels[bins == b].mean() == pytest.approx(expected, abs=0.1)


def test_a_smaller_scale_is_chosen_under_label_noise(size):
    X, y = corners(400, d=10, flipped=0.25)
    new, clean = corners(3000, seed=1, d=10)
    n_terms = size(50, 100)
    chosen = HullBoostClassifier(scale="cv", random_state=0, n_terms=n_terms).fit(X, y)
    plain = HullBoostClassifier(random_state=0, n_terms=n_terms).fit(X, y)
    assert chosen.scale_ < plain.scale_ == 128
    assert chosen.score(new, clean) > plain.score(new, clean)
    X, y = corners(300)
    assert HullBoostClassifier(scale="cv", random_state=0, n_terms=50).fit(X, y).scale_ == 128


def test_about_as_accurate_as_adaboost(size):
    """Not below by more than two standard errors of the paired difference."""
    X, y = load_breast_cancer(return_X_y=True)
    differences = []
    for seed in range(size(8, 10)):
        parts = train_test_split(X, y, test_size=0.4, random_state=seed)
        ours = HullBoostClassifier(n_terms=60, random_state=0).fit(parts[0], parts[2])
        theirs = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=60)
        theirs.fit(parts[0], parts[2])
        differences.append(ours.score(parts[1], parts[3]) - theirs.score(parts[1], parts[3]))
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    assert np.mean(differences) >= -2 * error


@pytest.mark.parametrize(
    "learner",
    [DecisionTreeClassifier(max_depth=1), DecisionTreeRegressor(max_depth=2), LogisticRegression()],
)
def test_weak_learners_of_your_own(learner):
    X, y = corners(200, flipped=0.05)
    model = HullBoostClassifier(learner, n_terms=10, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.certificate_ is None
    assert model.rate_bound_ is None
    assert len(model.learners_) == len(model.learner_weights_)
    assert np.array_equal(model.predict(X), clone(model).fit(X, y).predict(X))


def test_a_tree_of_depth_one_is_a_stump():
    X, y = corners(150, flipped=0.1)
    options = {"scale": 4.0, "n_terms": 8, "step": "frank-wolfe", "random_state": 0}
    stumps = HullBoostClassifier(**options).fit(X, y)
    trees = HullBoostClassifier(DecisionTreeClassifier(max_depth=1), **options).fit(X, y)
    # Trees split by Gini impurity, so they are at best as steep.
    assert trees.path_.value[0] >= stumps.path_.value[0] - 1e-12


def test_weights_are_copies_and_zero_is_absent():
    X, y = corners(90, flipped=0.1)
    weights = np.tile([0.0, 1.0, 2.0], 30)
    weighted = HullBoostClassifier(n_terms=20).fit(X, y, sample_weight=weights)
    copies = np.repeat(np.arange(90), weights.astype(int))
    copied = HullBoostClassifier(n_terms=20).fit(X[copies], y[copies])
    assert weighted.decision_function(X) == pytest.approx(copied.decision_function(X), abs=0.02)
    kept = weights > 0
    absent = HullBoostClassifier(n_terms=20).fit(X[kept], y[kept], weights[kept])
    assert np.array_equal(weighted.decision_function(X), absent.decision_function(X))


def test_same_answer_whatever_the_number_of_threads():
    X, y = corners(3000, d=9, flipped=0.1)
    one, two = (HullBoostClassifier(n_terms=20, n_jobs=n, random_state=0).fit(X, y) for n in (1, 2))
    assert np.array_equal(one.decision_function(X), two.decision_function(X))
    assert one.temperature_ == two.temperature_


def test_pipeline_frame_sparse_and_pickle():
    X, y = corners(100)
    pipe = make_pipeline(StandardScaler(), HullBoostClassifier(n_terms=10)).fit(X, y)
    again = pickle.loads(pickle.dumps(pipe))
    assert np.array_equal(again.predict(X), pipe.predict(X))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert list(HullBoostClassifier(n_terms=3).fit(frame, y).feature_names_in_) == ["a", "b", "c"]
    learner = HullBoostClassifier(DecisionTreeClassifier(max_depth=1), n_terms=3)
    assert learner.fit(sparse.csr_array(X), y).predict(sparse.csr_array(X)).shape == (100,)
    single = HullBoostClassifier(n_terms=5).fit(X.astype(np.float32), y)
    assert single.score(X.astype(np.float32), y) > 0.8


def test_the_certificate_ends_the_rounds():
    X, y = corners(100, flipped=0.2)
    model = HullBoostClassifier(scale=1.0, step="corrective", n_terms=300, tol=1e-4).fit(X, y)
    assert model.path_.stop_reason == "tol"
    assert model.certificate_.relative_gap <= 1e-4
    assert "vacuous" in str(HullBoostClassifier(n_terms=5).fit(X, y).margin_bound_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss"),
        ({"loss": "logistic", "scale": "margin"}, 'scale="margin"'),
        ({"loss": "exponential", "scale": 800.0}, "scale must be at most 700"),
        ({"scale": 0.0}, "scale"),
        ({"scale": -2}, "scale"),
        ({"margin": 0.0}, "margin"),
        ({"n_terms": 0}, "n_terms"),
        ({"step": "greedy"}, "step"),
        ({"weak_learner": KNeighborsClassifier()}, "does not take sample_weight"),
        (
            {"weak_learner": DummyRegressor(strategy="constant", constant=2.0)},
            r"outside the stated range \[-1, 1\]",
        ),
    ],
)
def test_wrong_arguments_are_named(options, message):
    X, y = corners(30)
    model = HullBoostClassifier(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "boosters_")


def test_a_vote_that_can_gain_nothing_says_so():
    X, y = np.zeros((40, 1)), np.arange(40) % 2
    found = HullBoostClassifier(loss="log-exp", n_terms=5).fit(X, y).certificate_
    assert found.informative
    assert abs(found.upper) < 1e-12
    assert str(found).startswith("captures everything")


def test_one_class_is_refused():
    X, _ = corners(30)
    with pytest.raises(ValueError, match="one class only"):
        HullBoostClassifier().fit(X, np.zeros(30))
    with pytest.raises(ValueError, match="Unknown label type"):
        HullBoostClassifier().fit(X, X[:, 0])
