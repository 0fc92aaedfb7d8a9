"""Hull fits that are killed, run out of time or are interrupted, and go on to the same model."""

import signal

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from pursuit import HullBoostClassifier, HullMixture, HullRegressor, Search
from pursuit.estimators import fit_run
from pursuit.estimators.hull import boosting, mixture, pools, pursue, regression


class KilledError(Exception):
    """The process ends here."""


class CountedClock:
    """Time is over after as many questions as the limit says, whatever the share."""

    has_ended = False

    def __init__(self, limit=None):
        self.limit = np.inf if limit is None else limit
        self.asked = 0

    def over(self, share=1.0):
        self.asked += 1
        return self.asked > self.limit


def killed_at(monkeypatch, owner, name, call=np.inf):
    """Calls of a function, the last of which ends the process."""
    calls = []
    function = getattr(owner, name)

    def counted(*arguments, **options):
        calls.append(1)
        if len(calls) == call:
            raise KilledError
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, counted)
    return calls


def wave(m=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=m)


def ring(m=240):
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, m)
    return 5 * np.column_stack([np.cos(angles), np.sin(angles)]) + 0.3 * rng.normal(size=(m, 2))


def same_path(one, two):
    for name in ("index", "value", "gap"):
        assert np.array_equal(getattr(one, name), getattr(two, name), equal_nan=True)
    assert one.stop_reason == two.stop_reason
    assert np.all(np.diff(one.seconds) >= 0)


@pytest.mark.parametrize("loss", ["squared", "huber", "quantile"])
def test_a_regression_goes_on_after_its_last_pool(loss, tmp_path, monkeypatch):
    X, y = wave()
    options = {
        "gamma": 3.0,
        "loss": loss,
        "n_terms": 300,
        "search": Search("pooled", pool_size=40),
        "random_state": 0,
    }
    whole = HullRegressor(**options).fit(X, y)
    model = HullRegressor(checkpoint=tmp_path, **options)
    with monkeypatch.context() as patch:
        killed_at(patch, pools, "_pursue_pool", 3)
        with pytest.raises(KilledError):
            model.fit(X, y)
    assert not hasattr(model, "dual_coef_")
    radius = killed_at(monkeypatch, regression, "choose_radius")
    solved = killed_at(monkeypatch, pools, "_pursue_pool")
    sources = killed_at(monkeypatch, pools, "kernel_source")
    model.fit(X, y)
    assert not radius
    assert np.array_equal(model.dual_coef_, whole.dual_coef_)
    assert np.array_equal(model.predict(X), whole.predict(X))
    assert np.array_equal(model.mse_path_, whole.mse_path_)
    assert (model.certificate_.lower, model.radius_) == (whole.certificate_.lower, whole.radius_)
    assert model.rate_bound_ is None or np.array_equal(
        model.rate_bound_.value, whole.rate_bound_.value
    )
    same_path(model.path_, whole.path_)
    n_pools = len(list(tmp_path.glob("pool-*")))
    assert len(solved) == len(sources) == n_pools - 2
    # A finished fit computes no atom again.
    model.fit(X, y)
    assert len(sources) == n_pools - 2
    assert np.array_equal(model.dual_coef_, whole.dual_coef_)


@pytest.mark.parametrize("step", ["joint", "corrective"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_boosting_goes_on_after_its_last_rounds(step, n_classes, tmp_path, monkeypatch):
    X, y = wave()
    labels = np.digitize(y, [0.0] if n_classes == 2 else [-0.5, 0.5])
    options = {"scale": "cv", "step": step, "n_terms": 17, "random_state": 0, "tol": 1e-9}
    monkeypatch.setattr(boosting, "CV_SCALES", (8.0, 128.0))
    whole = HullBoostClassifier(**options).fit(X, labels)
    monkeypatch.setattr(pursue, "RECORDED_STEPS", 4)
    model = HullBoostClassifier(checkpoint=tmp_path, **options)
    in_folds = 3 * 2 * len(whole.boosters_) * 5
    with monkeypatch.context() as patch:
        killed_at(patch, pursue.ResumablePursuit, "run_piece", in_folds + 3)
        with pytest.raises(KilledError):
            model.fit(X, labels)
    with monkeypatch.context() as patch:
        killed_at(patch, boosting, "fit_shrinkage", 1)
        pieces = killed_at(patch, pursue.ResumablePursuit, "run_piece")
        with pytest.raises(KilledError):
            model.fit(X, labels)
    # Two of five pieces per class were known, and the second fit has as many as the first.
    assert len(pieces) == 5 * len(whole.boosters_) - 2 + 5 * len(whole.boosters_)
    model.fit(X, labels)
    assert model.scale_ == whole.scale_
    assert np.array_equal(model.predict_proba(X), whole.predict_proba(X))
    for one, two in zip(model.boosters_, whole.boosters_, strict=True):
        assert one.learners == two.learners
        assert np.array_equal(one.weights, two.weights)
        same_path(one.path, two.path)
    for one, two in zip(
        model.staged_decision_function(X), whole.staged_decision_function(X), strict=True
    ):
        assert np.array_equal(one, two)
    assert np.array_equal(model.certificate_.lower_per_output, whole.certificate_.lower_per_output)
    assert np.array_equal(model.rate_bound_.value, whole.rate_bound_.value)


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("criterion", ["bic", "validation", "certificate"])
def test_a_mixture_goes_on_after_its_last_steps(refine, criterion, tmp_path, monkeypatch):
    X = ring()
    options = {"refine": refine, "criterion": criterion, "n_terms": 8, "random_state": None}
    monkeypatch.setattr(mixture, "_CENTRES", 60)
    monkeypatch.setattr(pursue, "RECORDED_STEPS", 1)
    model = HullMixture(checkpoint=tmp_path, **options)
    with monkeypatch.context() as patch:
        killed_at(patch, pursue.ResumablePursuit, "run_piece", 3)
        with pytest.raises(KilledError):
            model.fit(X)
    # Without a seed of its own, the fit goes on with that of the first run.
    with monkeypatch.context() as patch:
        pieces = killed_at(patch, pursue.ResumablePursuit, "run_piece")
        model.fit(X)
    steps = {name: len(list(tmp_path.glob(f"{name}-*"))) for name in ("grow", "again")}
    assert len(pieces) == steps["grow"] - 2 + steps["again"]
    for path in tmp_path.glob("*-*"):
        path.unlink()
    whole = HullMixture(checkpoint=tmp_path, **options).fit(X)
    assert np.array_equal(model.means_, whole.means_)
    assert np.array_equal(model.weights_, whole.weights_)
    assert np.array_equal(model.criterion_path_, whole.criterion_path_)
    assert model.certificate_.lower == whole.certificate_.lower
    same_path(model.path_, whole.path_)


@pytest.mark.parametrize(
    ("estimator", "parameter"),
    [
        (HullRegressor(n_terms=5), {"n_terms": 6}),
        (HullBoostClassifier(n_terms=3), {"scale": 8.0}),
        (HullMixture(n_terms=2), {"n_terms": 3}),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(estimator, parameter, tmp_path):
    X, y = wave(60)
    labels = np.where(y > 0, 1, 0) if isinstance(estimator, HullBoostClassifier) else y
    estimator.set_params(checkpoint=tmp_path, random_state=0).fit(X, labels)
    with pytest.raises(ValueError, match="begun with other data"):
        estimator.fit(X + 1.0, labels)
    with pytest.raises(ValueError, match="was begun with"):
        estimator.set_params(**parameter).fit(X, labels)


def test_a_checkpoint_of_rows_that_a_transformer_takes(tmp_path):
    from sklearn.feature_extraction.text import CountVectorizer

    words = ["one two", "two three", "three three one", "two"] * 5
    y = np.arange(20.0) % 4
    model = HullRegressor(CountVectorizer(), radius=2.0, checkpoint=tmp_path).fit(words, y)
    again = HullRegressor(CountVectorizer(), radius=2.0, checkpoint=tmp_path).fit(words, y)
    assert np.array_equal(again.coef_, model.coef_)
    with pytest.raises(ValueError, match="begun with other data"):
        again.fit(["two"] + words[1:], y)


def test_no_time_leaves_a_small_model():
    X, y = wave()
    regressor = HullRegressor(gamma=1.0, max_time=1e-9, random_state=0).fit(X, y)
    assert regressor.path_.stop_reason == "time"
    assert len(regressor.radii_) == 1
    assert regressor.n_terms_ == len(regressor.path_) == 1
    assert 0.0 <= regressor.certificate_.lower <= regressor.certificate_.upper
    search = Search("pooled", pool_size=20)
    pooled = HullRegressor(radius=3.0, search=search, max_time=1e-9, random_state=0).fit(X, y)
    # All rows were not priced: nothing is claimed but that no loss is negative.
    assert pooled.certificate_.lower == 0.0
    labels = np.digitize(y, [-0.5, 0.5])
    booster = HullBoostClassifier(scale="cv", max_time=1e-9, random_state=0).fit(X, labels)
    assert booster.path_.stop_reason == "time"
    assert len(booster.path_) == 1
    assert booster.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    density = HullMixture(max_time=1e-9, random_state=0).fit(ring())
    assert density.path_.stop_reason == "time"
    assert density.certificate_.upper == pytest.approx(-density.score(ring()))


@pytest.mark.parametrize("kind", ["boosting", "mixture", "regression"])
def test_a_fit_that_ran_out_of_time_goes_on_with_more_of_it(kind, tmp_path, monkeypatch):
    X, y = wave()
    labels = np.where(y > 0, 1, 0)
    make = {
        "boosting": lambda **o: HullBoostClassifier(n_terms=12, random_state=0, **o),
        "mixture": lambda **o: HullMixture(n_terms=6, random_state=0, **o),
        "regression": lambda **o: HullRegressor(gamma=1.0, radius=4.0, random_state=0, **o),
    }[kind]
    X, labels = (ring(), None) if kind == "mixture" else (X, labels)
    whole = make().fit(X, labels)
    monkeypatch.setattr(fit_run, "Clock", CountedClock)
    short = make(checkpoint=tmp_path, max_time=3).fit(X, labels)
    assert short.path_.stop_reason == "time"
    assert len(short.path_) < len(whole.path_)
    longer = make(checkpoint=tmp_path).fit(X, labels)
    assert longer.path_.stop_reason == whole.path_.stop_reason
    if kind == "regression":
        # It goes on from coefficients, and rounding differs.
        assert longer.certificate_.upper == pytest.approx(whole.certificate_.upper, rel=1e-5)
    else:
        same_path(longer.path_, whole.path_)
        assert longer.certificate_.lower == whole.certificate_.lower


class ShareClock:
    """Shares of the time up to the limit are over."""

    has_ended = False

    def __init__(self, limit=None):
        self.limit = 0.0 if limit is None else limit

    def over(self, share=1.0):
        return share <= self.limit


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        (HullBoostClassifier(scale="cv", n_terms=12), 0.5),
        (HullBoostClassifier(scale="cv", n_terms=12), 0.8),
        (HullMixture(n_terms=6), 0.6),
        (HullMixture(n_terms=6, criterion="validation", refine=False), 0.6),
        (HullMixture(n_terms=6, criterion="validation", refine=False), 0.9),
    ],
)
def test_what_followed_a_stage_that_ran_out_of_time_is_done_again(
    model, limit, tmp_path, monkeypatch
):
    boosted = isinstance(model, HullBoostClassifier)
    monkeypatch.setattr(boosting, "CV_SCALES", (4.0, 8.0))
    X, y = wave() if boosted else (ring(), None)
    y = np.where(y + np.sin(9 * X[:, 0]) > 0, 1, 0) if boosted else None
    model.set_params(random_state=0)
    whole = clone(model).fit(X, y)
    monkeypatch.setattr(fit_run, "Clock", ShareClock)
    short = clone(model).set_params(checkpoint=tmp_path, max_time=limit).fit(X, y)
    longer = clone(model).set_params(checkpoint=tmp_path).fit(X, y)
    answer = "predict_proba" if boosted else "score_samples"
    expected = getattr(whole, answer)(X)
    assert not np.array_equal(getattr(short, answer)(X), expected)
    assert np.array_equal(getattr(longer, answer)(X), expected)


def test_an_interrupted_boost_keeps_its_rounds(monkeypatch):
    X, y = wave()
    ask = pursue.HullStop.__call__

    def interrupted(self, pursuit):
        if pursuit.n_steps == 3:
            signal.raise_signal(signal.SIGINT)
        return ask(self, pursuit)

    monkeypatch.setattr(pursue.HullStop, "__call__", interrupted)
    model = HullBoostClassifier(n_terms=50, random_state=0)
    with (
        pytest.warns(UserWarning, match="the model holds the 3 rounds so far"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(X, y > 0)
    assert model.path_.stop_reason == "interrupted"
    assert model.score(X, y > 0) > 0.5


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (HullBoostClassifier(DecisionTreeClassifier(), tol=0.1), "tol=0.1 is a gap"),
        (HullBoostClassifier(DecisionTreeClassifier(), checkpoint="x"), "checkpoint records"),
        (HullBoostClassifier(loss="logistic", margin=0.2), 'margin=0.2 belongs to .*"log-exp"'),
        (HullMixture(tol=0.1), "tol=0.1 is for criterion='certificate'"),
        (HullMixture(criterion="validation", tol=0.1), "leave tol out"),
        (HullRegressor(max_time=0.0), "max_time"),
        (HullMixture(checkpoint=3), "checkpoint"),
    ],
)
def test_arguments_that_do_not_apply_are_refused(model, message):
    X, y = wave(40)
    with pytest.raises(ValueError, match=message):
        model.fit(X, np.where(y > 0, 1, 0))


def test_kernel_functions_at_cluster_centres_and_at_all_rows():
    X, y = wave()
    search = Search("pooled", pool_size=25, candidates="kmeans")
    model = HullRegressor(gamma=1.0, radius=5.0, search=search, random_state=0).fit(X, y)
    assert model.certificate_.over.endswith("kernel functions at the 25 cluster centres")
    assert np.all(model.basis_indices_ == -1)
    whole = HullRegressor(gamma=1.0, radius=5.0, random_state=0).fit(X, y)
    full = HullRegressor(gamma=1.0, radius=5.0, search="full", random_state=0).fit(X, y)
    assert np.array_equal(full.dual_coef_, whole.dual_coef_)
    assert model.certificate_.upper >= whole.certificate_.lower


def test_a_regression_whose_steps_have_used_their_time_takes_no_more(tmp_path, monkeypatch):
    X, y = wave()
    monkeypatch.setattr(fit_run, "Clock", ShareClock)
    model = HullRegressor(gamma=1.0, radius=4.0, max_time=0.9, checkpoint=tmp_path).fit(X, y)
    assert model.path_.stop_reason == "time"
    assert len(model.path_) == 1
    assert not list(tmp_path.glob("pool-*")), "what time has cut short is done again"
