"""Boosting as greedy approximation over a convex hull (Z02 §4.2)."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats
from pursuit.bounds import Bound, margin_bound, margin_scale
from pursuit.estimators.classes import distinct_classes
from pursuit.estimators.constraints import EXECUTION
from pursuit.estimators.hull.boostrounds import (
    LOSSES,
    Booster,
    Rounds,
    fit_temperature,
    hold_out,
    probabilities,
    votes,
)
from pursuit.estimators.inputs import validate_held, validate_weights
from pursuit.estimators.lazily import ScoredRows, lazily
from pursuit.estimators.saving import SavedModel
from pursuit.estimators.sources import named_columns
from pursuit.linalg import Workers
from pursuit.objectives import check_exponent, check_learner
from pursuit.objectives.hull import STEPS
from pursuit.rows import draw_rows

AUTO_SCALE = 128.0
CV_SCALES = 4.0, 8.0, 16.0, 32.0, 128.0
_FOLDS = 3
_CALIBRATION_ROWS = 10_000


class HullBoostClassifier(ScoredRows, ClassifierMixin, SavedModel, BaseEstimator):
    """Boosting over the convex hull of weak learners, with a certificate and a margin bound.

    Minimises ln mean exp(-A y v(x)), or another loss, over votes v = Σ_j w_j p_j, w ≥ 0, Σw ≤ 1, of
    weak learners p with values in [-1, 1] (Z02 Algorithm 2.1). The scale A limits how sure the vote
    may become: small ones resist wrong labels, large ones hardly constrain. Because the hull is
    bounded, the minimum is finite also for data that can be separated.

    Parameters
    ----------
    weak_learner : classifier, regressor or None, default None
        Any scikit-learn estimator that takes ``sample_weight``; predictions of a regressor must
        stay in [-1, 1]. None: decision stumps on at most 255 thresholds per feature.
    loss : {"log-exp", "logistic", "exponential", "least-squares"}, default "log-exp"
        ln mean exp(-A y v), mean ln(1 + exp(-A y v)), mean exp(-A y v), or mean (y - A v)², y being
        1 or -1.
    scale : {"auto", "cv", "margin"} or float, default "auto"
        A. ``"auto"`` is 128, practically unconstrained: the margin bound then says nothing.
        ``"cv"`` takes a smaller one of 4, 8, 16 and 32 if it is better in three-fold
        cross-validation by more than a standard error, for labels that may be wrong.
        ``"margin"`` is the paper's γ(k + 3)/16 for ``n_terms`` rounds and the margin γ, for
        ``loss="log-exp"`` only.
    n_terms : int, default 200
        Most rounds, each of which adds a weak learner.
    step : {"joint", "frank-wolfe", "corrective"}, default "joint"
        ``"joint"``: stump, both leaf values and step together, over all stumps: at least 99.9 % of
        the largest possible decrease at every step, all but a millionth of it up to 5 000 rows;
        a weak learner of your own is taken as it is, with the best step. ``"frank-wolfe"``: the
        steepest stump, then the best step. ``"corrective"``: then also new weights for all.
        ``path_.step`` is what was done.
    margin : float, default 0.1
        γ of ``margin_bound_`` and of ``scale="margin"``.
    tol : float or None, default 1e-3
        Stop when the certificate's ``relative_gap`` is at most this.
    n_jobs : int or None, default None
        Threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of folds and calibration rows, and of weak learners that take one.
    verbose : int, default 0
        Print what was found.

    Attributes
    ----------
    classes_ : array
        Labels.
    scale_ : float
        A in use.
    boosters_ : list of Booster
        One for two classes, else one a class against the rest: learners, weights after every
        round, path and certificate.
    learners_, learner_weights_ : list, or list of lists for more than two classes
        Weak learners, and their weights in the vote.
    n_terms_ : int, or list
        How many have positive weight.
    margins_ : array of shape (n_rows,) or (n_rows, n_classes)
        y v(x) of the training rows of positive weight, in [-1, 1].
    margin_bound_ : Bound or None
        Share of the training rows with a margin of at most γ, after each round (equation 8); None
        for other losses than ``"log-exp"``.
    certificate_ : Certificate or None, or list
        How far the loss can be from its minimum over all votes of such stumps; None for weak
        learners of your own, because nothing says that they find the best one.
    rate_bound_ : Bound or None, or list
        What Theorem 3.1 promised; for ``loss="exponential"`` next to nothing.
    path_ : Path or list
        Loss and gap after each round.
    temperature_ : float
        a in the probability 1/(1 + exp(-a v)), fitted on rows left out of a second fit.
    n_features_in_ : int
        Number of features.

    References
    ----------
    T. Zhang. A general greedy approximation algorithm with applications. NIPS 14, 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from pursuit import HullBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HullBoostClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.93)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "weak_learner": [None, HasMethods(["fit", "predict"])],
        "loss": [StrOptions(set(LOSSES))],
        "scale": [
            StrOptions({"auto", "cv", "margin"}),
            Interval(numbers.Real, 0, None, closed="neither"),
        ],
        "n_terms": [Interval(numbers.Integral, 1, None, closed="left")],
        "step": [StrOptions(set(STEPS))],
        "margin": [Interval(numbers.Real, 0, 1, closed="neither")],
        "tol": [None, Interval(numbers.Real, 0, None, closed="neither")],
        **EXECUTION,
    }

    def __init__(
        self,
        weak_learner: Any = None,
        *,
        loss: str = "log-exp",
        scale: float | str = "auto",
        n_terms: int = 200,
        step: str = "joint",
        margin: float = 0.1,
        tol: float | None = 1e-3,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.weak_learner = weak_learner
        self.loss = loss
        self.scale = scale
        self.n_terms = n_terms
        self.step = step
        self.margin = margin
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> HullBoostClassifier:
        """Boost.

        Parameters
        ----------
        X : array, data frame, path or table, of shape (n_rows, n_features)
            Training rows, which are held in memory; CSR too where the weak learner takes it.
        y : array of shape (n_rows,)
            Classes, two or more.
        sample_weight : array of shape (n_rows,), optional
            Weights of the rows. A row of weight 0 is absent.
        target : str, optional
            The column of X that holds the classes, in place of y.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : HullBoostClassifier
        """
        if self.weak_learner is not None:
            check_learner(self.weak_learner)
        if self.scale == "margin" and self.loss != "log-exp":
            raise ValueError(
                f'scale="margin" follows from a bound for loss="log-exp", got loss={self.loss!r}: '
                'pass a number, "auto" or "cv".'
            )
        if self.loss == "exponential" and not isinstance(self.scale, str):
            check_exponent(float(self.scale))
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        X, y = validate_held(
            self, X, y, reset=True, accept_sparse=self._accepts_sparse(), dtype=np.float64
        )
        check_classification_targets(y)
        weights = validate_weights(sample_weight, len(y))
        present = weights > 0
        if not present.all():
            X, y, weights = X[present], y[present], weights[present]
        self.classes_ = distinct_classes(y)
        codes = np.searchsorted(self.classes_, y)
        seed = check_random_state(self.random_state).randint(2**31 - 1, size=4)
        rng = np.random.default_rng(seed)
        with Workers(self.n_jobs) as workers:
            rounds = Rounds(
                self.weak_learner,
                self.loss,
                self.n_terms,
                self.step,
                self.tol,
                int(seed[0]),
                workers,
            )
            self.scale_ = self._scale(rounds, X, codes, weights, rng)
            self.boosters_ = rounds.fit(X, codes, weights, self.scale_)
            self.temperature_ = self._calibrate(rounds, X, codes, weights, rng)
        points = np.column_stack([booster.point for booster in self.boosters_])
        self.margins_ = (points * rounds.signs(codes)).squeeze(axis=1 if self._binary else ())
        most = max(len(booster.path) for booster in self.boosters_)
        self.margin_bound_: Bound | None = (
            margin_bound(most, self.scale_, self.margin) if self.loss == "log-exp" else None
        )
        if self.verbose:
            print(f"[HullBoostClassifier] scale {self.scale_:g}: {self.path_}", flush=True)
        return self

    @lazily
    def decision_function(self, X: Any) -> Floats:
        """Votes in [-1, 1]: of the second class, or of each class against the rest.

        Returns
        -------
        votes : array of shape (n_rows,) or (n_rows, n_classes)
        """
        X = self._rows(X)
        found = votes(self.boosters_, X)
        return found[:, 0] if self._binary else found

    @lazily
    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the larger vote.

        Returns
        -------
        y : array of shape (n_rows,)
        """
        X = self._rows(X)
        return self._decide(votes(self.boosters_, X))

    @lazily
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, calibrated on rows left out.

        Returns
        -------
        p : array of shape (n_rows, n_classes)
        """
        X = self._rows(X)
        return probabilities(votes(self.boosters_, X), self.temperature_)

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield predictions after 1, 2, … rounds.

        Yields
        ------
        y : array of shape (n_rows,)
        """
        for found in self.staged_decision_function(X):
            yield self._decide(found.reshape(len(found), -1))

    def staged_decision_function(self, X: Any) -> Iterator[Floats]:
        """Yield votes after 1, 2, … rounds.

        Yields
        ------
        votes : array of shape (n_rows,) or (n_rows, n_classes)
        """
        X = self._rows(X)
        values = [booster.values(X) for booster in self.boosters_]
        for stage in range(max(len(booster.path) for booster in self.boosters_)):
            found = np.column_stack(
                [
                    atoms @ booster.staged_weights(stage)
                    for atoms, booster in zip(values, self.boosters_, strict=True)
                ]
            )
            yield found[:, 0] if self._binary else found

    @property
    def learners_(self) -> Any:
        """Weak learners."""
        return self._of_each("learners")

    @property
    def n_terms_(self) -> Any:
        """Weak learners of positive weight."""
        return self._of_each("n_terms")

    @property
    def learner_weights_(self) -> Any:
        """Their weights."""
        return self._of_each("weights")

    @property
    def path_(self) -> Any:
        """Loss and gap after each round."""
        return self._of_each("path")

    @property
    def certificate_(self) -> Any:
        """How far the loss can be from its minimum."""
        return self._of_each("certificate")

    @property
    def rate_bound_(self) -> Any:
        """What Theorem 3.1 promised."""
        return self._of_each("rate_bound")

    def _saved_state(self) -> dict[str, Any]:
        state = super()._saved_state()
        state.pop("margins_", None)
        slim = [replace(booster, point=booster.point[:0]) for booster in self.boosters_]
        return {**state, "boosters_": slim}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._accepts_sparse())
        return tags

    @property
    def _binary(self) -> bool:
        return len(self.classes_) == 2

    def _accepts_sparse(self) -> str | bool:
        return "csr" if self.weak_learner is not None else False

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_held(
            self, X, reset=False, accept_sparse=self._accepts_sparse(), dtype=np.float64
        )

    def _decide(self, found: Floats) -> NDArray[Any]:
        codes = (found[:, 0] > 0).astype(int) if self._binary else found.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def _of_each(self, name: str) -> Any:
        check_is_fitted(self)
        found = [getattr(booster, name) for booster in self.boosters_]
        return found[0] if self._binary else found

    def _scale(
        self, rounds: Rounds, X: Any, codes: Any, weights: Floats, rng: np.random.Generator
    ) -> float:
        if self.scale == "margin":
            return margin_scale(self.n_terms, self.margin)
        if self.scale == "cv":
            return _cross_validated_scale(rounds, X, codes, weights, rng)
        return AUTO_SCALE if self.scale == "auto" else float(self.scale)

    def _calibrate(
        self, rounds: Rounds, X: Any, codes: Any, weights: Floats, rng: np.random.Generator
    ) -> float:
        """The slope of the probabilities, from a second fit to at most 10 000 rows."""
        some = draw_rows(len(codes), _CALIBRATION_ROWS, rng)
        train, test = hold_out(codes[some], rng)
        if not len(test):
            return fit_temperature(
                np.column_stack([booster.point for booster in self.boosters_]), codes, weights
            )
        train, test = some[train], some[test]
        second = rounds.fit(X[train], codes[train], weights[train], self.scale_)
        return fit_temperature(votes(second, X[test]), codes[test], weights[test])


def _cross_validated_scale(
    rounds: Rounds, X: Any, codes: Any, weights: Floats, rng: np.random.Generator
) -> float:
    """The best scale below 128 if it beats 128 by more than a standard error, else 128."""
    fold = np.empty(len(codes), dtype=int)
    for code in np.unique(codes):
        mine = rng.permutation(np.flatnonzero(codes == code))
        fold[mine] = np.arange(len(mine)) % _FOLDS
    hits = np.zeros((len(CV_SCALES), len(codes)))
    for part in range(_FOLDS):
        train, test = np.flatnonzero(fold != part), np.flatnonzero(fold == part)
        if len(np.unique(codes[train])) < codes.max() + 1 or not len(test):
            return AUTO_SCALE
        for i, scale in enumerate(CV_SCALES):
            found = votes(rounds.fit(X[train], codes[train], weights[train], scale), X[test])
            guess = (found[:, 0] > 0) if found.shape[1] == 1 else found.argmax(axis=1)
            hits[i, test] = guess == codes[test]
    share = weights / weights.sum()
    better = (hits - hits[-1]) @ share
    error = np.sqrt(((hits - hits[-1] - better[:, None]) ** 2) @ share / len(codes))
    best = int(np.argmax(np.where(better > error, better, 0.0)))
    return CV_SCALES[best] if better[best] > error[best] else AUTO_SCALE


__all__ = ["Booster", "HullBoostClassifier"]
