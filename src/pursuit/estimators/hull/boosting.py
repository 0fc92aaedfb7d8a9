"""Boosting as greedy approximation over a convex hull (Z02 §4.2)."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pursuit import limits
from pursuit._sklearn import HasMethods, Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, Certificate, hull_rate_bound, margin_bound, margin_scale
from pursuit.estimators.arguments import CHECKPOINT, EXECUTION, MAX_TIME
from pursuit.estimators.classes import distinct_classes
from pursuit.estimators.fit_run import FitRun, guarded, interrupt
from pursuit.estimators.hull.pursue import (
    HullStop,
    ResumableHull,
    ResumablePursuit,
    finished,
    joined_pieces,
    recorded_pieces,
    stop_in_time,
)
from pursuit.estimators.inputs import (
    named_columns,
    plain_labels,
    seeded_clone,
    validate_held,
    validate_weights,
)
from pursuit.estimators.kernel_model import (
    LoggedProbabilities,
    ScoredRows,
    in_precision_of_rows,
    lazily,
)
from pursuit.estimators.saving import SavedModel
from pursuit.estimators.scales import kept
from pursuit.greedy import CostMeter, Path, Pursuit
from pursuit.objectives import (
    ExponentialLoss,
    HullLoss,
    LearnedAtoms,
    LogExpLoss,
    LogisticLoss,
    SquaredLoss,
    check_exponent,
    check_learner,
    learner_values,
)
from pursuit.objectives.hull import START, STEPS
from pursuit.rows import Sample, as_rows, draw_rows
from pursuit.solvers import Bins, Stump, StumpAtoms, reweight
from pursuit.solvers.stump_search import CERTAIN_SHARE
from pursuit.tuning import Shrinkage, are_few, fit_shrinkage, values_left_out

LOSSES = ("log-exp", "logistic", "exponential", "least-squares")

AUTO_SCALE = 128.0
"""The scale A of ``scale="auto"``; a smaller one constrains the vote more."""
CV_SCALES = 4.0, 8.0, 16.0, 32.0, AUTO_SCALE
"""Scales that ``scale="cv"`` compares; the last one is the default that others must beat."""
_FOLDS = 3
"""Number of folds of ``scale="cv"``; more are slower and use more rows in each fit."""
_CALIBRATION_ROWS = 10_000
"""Largest number of rows in the second fit, which calibrates the probabilities."""
_HELD_OUT = 0.2
"""Share of each class that is left out of the second fit."""
_MARGIN, _TOL = 0.1, 1e-3
"""Defaults of ``margin`` and ``tol``."""


def hull_loss(name: str, y: Floats, scale: float, weights: Floats) -> HullLoss:
    """The loss of the votes that a name stands for."""
    if name == "least-squares":
        return SquaredLoss(y, weights, scale)
    if name == "exponential":
        return ExponentialLoss(y, scale, weights)
    return (LogExpLoss if name == "log-exp" else LogisticLoss)(y, scale, weights)


@dataclass(frozen=True)
class Booster:
    """A vote of weak learners.

    Attributes
    ----------
    learners : list
        Weak learners in the order of their rounds: `Stump` objects, or fitted estimators.
    weights : array
        Their weights, which sum to at most one.
    point : array
        The vote on the training rows.
    stages : list of arrays
        Weights after each round, of the learners found by then.
    path : Path
        Loss and gap after each round.
    certificate : Certificate or None
        How far the loss can be from its minimum.
    rate_bound : Bound or None
        What Theorem 3.1 promised.
    """

    learners: list[Any]
    weights: Floats
    point: Floats
    stages: list[Floats]
    path: Path
    certificate: Certificate | None
    rate_bound: Bound | None

    def values(self, X: Any) -> Floats:
        """Values of the learners on rows, one column per learner."""
        return np.column_stack([_values(learner, X) for learner in self.learners])

    def staged_weights(self, stage: int) -> Floats:
        """Weights of all learners after a round; those of later rounds are 0."""
        known = self.stages[min(stage, len(self.stages) - 1)]
        return np.concatenate([known, np.zeros(len(self.weights) - len(known))])


def votes(boosters: list[Booster], X: Any) -> Floats:
    """Σ_j w_j p_j(x), one column per booster; the values of one learner at a time are stored."""
    vote = np.zeros((X.shape[0], len(boosters)))
    for column, booster in zip(vote.T, boosters, strict=True):
        for learner, weight in zip(booster.learners, booster.weights, strict=True):
            if weight > 0:
                column += weight * _values(learner, X)
    return vote


def _values(learner: Any, X: Any) -> Floats:
    return learner(X) if isinstance(learner, Stump) else learner_values(learner, X)


class _Stumps(StumpAtoms):
    """Stumps that know those of an earlier run by the same numbers."""

    def resume(self, stumps: list[Stump]) -> None:
        """Register stumps in the order in which they were found."""
        for stump in stumps:
            edge = int(np.searchsorted(self.bins.edges[stump.feature], stump.threshold))
            self._number_of[stump] = len(self.stumps)
            self._place_of.append((stump.feature, edge))
            self.stumps.append(stump)


@dataclass(frozen=True)
class BoostRounds:
    """Some rounds of boosting and the state after them, as a checkpoint records it.

    Attributes
    ----------
    stumps : list of Stump
        Stumps that were looked at in these rounds.
    stages : list of (numbers, weights)
        Numbers and weights of the atoms after each of these rounds.
    path : Path
        These rounds; its reason is ``"more"`` where others follow.
    numbers, weights, point, value
        State of the hull's objective after them.
    excess : float
        A bound on f less its minimum before the first round.
    """

    stumps: list[Stump]
    stages: list[Any]
    path: Path
    numbers: list[int]
    weights: Floats
    point: Floats
    value: float
    excess: float


def boost(
    model: HullBoostClassifier,
    run: FitRun,
    X: Any,
    codes: Indices,
    weights: Floats,
    scale: float,
    share: float,
    name: str | None = None,
) -> list[Booster]:
    """One booster for two classes, else one per class, with the parameters of a model.

    They end when a share of ``max_time`` is over. If they have a name, the checkpoint records their
    rounds.
    """
    bins = Bins(X) if model.weak_learner is None else None
    signs = class_signs(codes).T
    boosters = []
    for k, y in enumerate(signs):
        loss = hull_loss(model.loss, y, scale, weights)
        atoms: Any
        if bins is not None:
            atoms = _Stumps(loss, bins, run.workers)
        else:
            atoms = LearnedAtoms(seeded_clone(model.weak_learner, run.seeds[0]), X)
        until = share * (k + 1) / len(signs)
        boosters.append(_boost(model, run, loss, atoms, until, name and f"{name}-{k}"))
    return boosters


def _boost(
    model: HullBoostClassifier,
    run: FitRun,
    loss: Any,
    atoms: Any,
    share: float,
    name: str | None,
) -> Booster:
    """The booster of one class against the rest."""
    n_rows, known = len(loss.y), isinstance(atoms, _Stumps)
    M = loss.curvature(np.ones((n_rows, 1)))
    hull = ResumableHull(
        loss, atoms, np.zeros(n_rows), step=model.step, reweight=reweight, curvature=M
    )
    pursuit = ResumablePursuit(hull, CostMeter(), scale=abs(hull.start_value), every_step=True)
    stop = HullStop(model.n_terms, model.n_terms, model.tol if atoms.exact else None)
    stages: list[Any] = []

    def note(pursuit: Pursuit) -> None:
        stages.append((list(hull.numbers), hull.weights.copy()))

    rules: list[Any] = [note, stop, stop_in_time(run, share)]

    def advance() -> BoostRounds:
        n_stages, n_stumps = len(stages), len(atoms.stumps) if known else 0
        excess = 0.0 if hull.n_steps else hull.gap
        path = pursuit.run_piece(rules)
        stumps = atoms.stumps[n_stumps:] if known else []
        state = hull.numbers, hull.weights, hull.point, hull.value
        return BoostRounds(stumps, stages[n_stages:], path, *state, excess)

    def resume(piece: BoostRounds) -> None:
        atoms.resume(piece.stumps)
        stages.extend(piece.stages)
        n_steps = hull.n_steps + len(piece.path)
        hull.resume(piece.numbers, piece.weights, piece.point, piece.value, n_steps)

    pieces = recorded_pieces(pursuit, advance, resume, run, name, share)
    path, certificate = finished(hull, joined_pieces([piece.path for piece in pieces]), stop.tol)
    chosen = list(dict.fromkeys(path.index.tolist()))
    learners = atoms.stumps if known else atoms.learners
    column = {number: i for i, number in enumerate(chosen)}
    final = _in_order(column, hull.numbers, hull.weights)
    rate = None
    if known and np.isfinite(M):
        # If a step is certain of a share of the largest decrease only, M is divided by it.
        near = model.step == "joint" and n_rows > limits.EXHAUSTIVE_ROWS
        rate = hull_rate_bound(len(path), M / CERTAIN_SHARE if near else M, pieces[0].excess)
    return Booster(
        [learners[n] for n in chosen],
        np.concatenate([final, np.zeros(len(chosen) - len(final))]),
        hull.point,
        [_in_order(column, *stage) for stage in stages] or [final],
        path,
        replace(certificate, over=atoms.over, baseline="an empty vote") if known else None,
        rate,
    )


def _in_order(column: dict[int, int], numbers: list[int], weights: Floats) -> Floats:
    """Weights of the learners in the order in which they were chosen."""
    ordered = np.zeros(1 + max((column[n] for n in numbers if n != START), default=-1))
    for number, weight in zip(numbers, weights, strict=True):
        if number != START:
            ordered[column[number]] = weight
    return ordered


def class_signs(codes: Indices) -> Floats:
    """±1 for the second of two classes, or for each of several classes against the rest."""
    wanted = np.array([1]) if codes.max() == 1 else np.arange(codes.max() + 1)
    return np.where(codes[:, None] == wanted, 1.0, -1.0)


def joint_path(paths: Sequence[Path]) -> Path:
    """One path of the boosters of several classes: losses and costs are summed, round by round.

    A booster that has ended keeps its last value. The gap is the largest of the boosters', and
    ``index`` is -1, since a round adds one learner per class.
    """
    if len(paths) == 1:
        return paths[0]
    longest = max(paths, key=len)
    n = len(longest)
    sums: dict[str, Any] = {
        name: sum(_padded(getattr(path, name), n) for path in paths)
        for name in ("value", "seconds", "entries", "passes")
    }
    gap = np.max([_padded(path.gap, n) for path in paths], axis=0)
    cut = [path.stop_reason for path in paths if path.stop_reason in ("time", "interrupted")]
    reason = cut[0] if cut else longest.stop_reason
    return replace(longest, **sums, gap=gap, index=np.full(n, -1), stop_reason=reason)


def joint_certificate(certificates: Sequence[Certificate | None]) -> Certificate | None:
    """One certificate of several boosters, with an entry per class."""
    known = [certificate for certificate in certificates if certificate is not None]
    if len(known) < len(certificates):
        return None
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(certificate, name) for certificate in known])
        for name in (
            "upper_per_output",
            "lower_per_output",
            "target_norms",
            "rounding_per_output",
        )
    }
    return replace(known[0], **arrays)


def joint_bound(bounds: Sequence[Bound | None]) -> Bound | None:
    """One bound on the sum of what the bounds of several boosters are about."""
    known = [bound for bound in bounds if bound is not None]
    if len(bounds) == 1 or len(known) < len(bounds):
        return bounds[0] if len(bounds) == 1 else None
    longest = max(known, key=lambda bound: len(bound.size))
    n = len(longest.size)
    return replace(
        longest,
        quantity="the distance of f, summed over the classes, from its minimum over the hull",
        value=np.sum([_padded(bound.value, n) for bound in known], axis=0),
        trivial=float(np.sum([bound.trivial for bound in known])),
    )


def _padded(values: Any, n: int) -> Any:
    """Values continued to length n by their last one."""
    return np.append(values, np.repeat(values[-1:], n - len(values)))


def hold_out(codes: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Rows that fit and rows left out: a fifth of each class, or none if a class is too small."""
    test = []
    for code in np.unique(codes):
        mine = np.flatnonzero(codes == code)
        n_test = int(_HELD_OUT * len(mine))
        if n_test == 0 or len(mine) - n_test < 2:
            return np.arange(len(codes)), np.empty(0, dtype=np.intp)
        test.append(rng.choice(mine, n_test, replace=False))
    chosen = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(len(codes)), chosen), chosen


def _cross_validated_scale(
    model: HullBoostClassifier, run: FitRun, X: Any, codes: Indices, weights: Floats
) -> float:
    """The best scale below 128 if it beats 128 by more than a standard error, else 128."""
    fold = np.empty(len(codes), dtype=int)
    for code in np.unique(codes):
        mine = run.rng.permutation(np.flatnonzero(codes == code))
        fold[mine] = np.arange(len(mine)) % _FOLDS
    hits = np.zeros((len(CV_SCALES), len(codes)))

    def judged(scale: float, train: Indices, test: Indices) -> Floats:
        boosters = boost(model, run, X[train], codes[train], weights[train], scale, 0.4)
        if run.stopping or run.clock.over(0.4):
            raise OutOfTimeError
        vote = votes(boosters, X[test])
        guess = (vote[:, 0] > 0) if vote.shape[1] == 1 else vote.argmax(axis=1)
        return np.asarray(guess == codes[test], dtype=np.float64)

    for part in range(_FOLDS):
        train, test = np.flatnonzero(fold != part), np.flatnonzero(fold == part)
        if len(np.unique(codes[train])) < codes.max() + 1 or not len(test):
            return AUTO_SCALE
        for i, scale in enumerate(CV_SCALES):
            try:
                hits[i, test] = run.recorded(
                    f"scale-{part}-{i}", partial(judged, scale, train, test)
                )
            except OutOfTimeError:
                return AUTO_SCALE
    share = weights / weights.sum()
    better = (hits - hits[-1]) @ share
    error = np.sqrt(((hits - hits[-1] - better[:, None]) ** 2) @ share / len(codes))
    best = int(np.argmax(np.where(better > error, better, 0.0)))
    return CV_SCALES[best] if better[best] > error[best] else AUTO_SCALE


def _calibrated(
    model: HullBoostClassifier, run: FitRun, X: Any, codes: Indices, weights: Floats
) -> Shrinkage:
    """How votes become probabilities, from votes on rows left out of further fits.

    Few rows are left out in five parts, one after the other. Of more, a fifth is left out of one
    fit to at most 10 000 rows, and the shares of the classes do not count. If classes are too small
    or no time is left, the votes on the training rows have to do.
    """
    few = are_few(len(codes), X.shape[1])
    points = np.column_stack([booster.point for booster in model.boosters_])

    def fit(train: Indices, rows: Any = slice(None)) -> Floats:
        if run.out_of_time:
            raise OutOfTimeError
        second = boost(model, run, X[train], codes[train], weights[train], model.scale_, 1.0)
        if run.out_of_time:
            raise OutOfTimeError
        return votes(second, X[rows])

    def further_fits() -> Shrinkage:
        if few:
            left_out = values_left_out(points, codes, weights, fit)
        else:
            some = draw_rows(len(codes), _CALIBRATION_ROWS, run.rng)
            train, test = (some[part] for part in hold_out(codes[some], run.rng))
            left_out = (test, fit(train, test)) if len(test) else None
        if left_out is None:
            raise OutOfTimeError
        return shrunk(*left_out)

    def shrunk(rows: Indices, vote: Floats) -> Shrinkage:
        # Weights of boosting have no unit: they count as rows on average.
        return fit_shrinkage(vote, codes, weights / weights.mean(), rows, pulled=few)

    try:
        return run.stage(f"calibrate-{model.scale_:g}", further_fits)
    except OutOfTimeError:
        return shrunk(np.arange(len(codes)), points)


class OutOfTimeError(Exception):
    """A stage could not be finished, and is not to be recorded."""


class HullBoostClassifier(
    ScoredRows, LoggedProbabilities, ClassifierMixin, SavedModel, BaseEstimator
):
    """Boosting over the convex hull of weak learners, with a certificate and a margin bound.

    Minimises ln mean exp(-A y v(x)), or another loss, over votes v = Σ_j w_j p_j, w ≥ 0, Σw ≤ 1, of
    weak learners p with values in [-1, 1], by Algorithm 2.1 of Zhang (2002a), "Z02". The scale A
    limits how sure the vote may become: a small one resists wrong labels, a large one hardly
    constrains. Because the hull is bounded, the minimum is finite also for data that can be
    separated.

    Parameters
    ----------
    weak_learner : classifier, regressor or None, default None
        A scikit-learn estimator that takes ``sample_weight``; the predictions of a regressor must
        stay in [-1, 1]. None means decision stumps on at most 255 thresholds per feature.
    loss : {"log-exp", "logistic", "exponential", "least-squares"}, default "log-exp"
        ln mean exp(-A y v), mean ln(1 + exp(-A y v)), mean exp(-A y v), or mean (y - A v)², where y
        is 1 or -1.
    scale : {"auto", "cv", "margin"} or float, default "auto"
        A. ``"auto"`` is 128, which hardly constrains the vote: the margin bound then says nothing.
        ``"cv"`` takes one of 4, 8, 16 and 32 if three-fold cross-validation finds it better than
        128 by more than a standard error: use it if labels may be wrong. ``"margin"`` is the
        paper's γ(k + 3)/16 for k = ``n_terms`` rounds and the margin γ, for ``loss="log-exp"``
        only.
    n_terms : int, default 200
        Largest number of rounds. Each of them adds one weak learner per class.
    tol : float or None, default 1e-3
        Stop when the certificate's ``relative_gap`` is at most this. Weak learners of your own
        have no certificate, and refuse it.
    step : {"joint", "frank-wolfe", "corrective"}, default "joint"
        ``"joint"``: stump, both leaf values and step together, over all stumps: at least 99.9 % of
        the largest possible decrease at every step, all but a millionth of it up to 5 000 rows.
        A weak learner of your own is taken as it is, with the best step. ``"frank-wolfe"``: the
        steepest stump, then the best step. ``"corrective"``: the same, then new weights for all
        stumps. ``path_.step`` names the rule that was followed.
    margin : float, default 0.1
        γ of ``margin_bound_`` and of ``scale="margin"``, for ``loss="log-exp"`` only.
    max_time : float or None, default None
        Seconds after which the fit ends with the rounds so far. Results then depend on the speed
        of the machine.
    checkpoint : path-like or None, default None
        Folder in which the fit records its rounds, the folds of ``scale="cv"`` and the
        calibration. A fit that was killed continues from there when it is repeated with the same
        data and parameters. For stumps only: a file cannot hold weak learners of your own.
    n_jobs : int or None, default None
        Number of threads; None is as many as BLAS would use. The result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of folds and calibration rows, and of weak learners that take one.
    verbose : int, default 0
        Whether to print the stages and their times.

    Attributes
    ----------
    classes_ : array
        Labels.
    scale_ : float
        The scale A.
    boosters_ : list of Booster
        One for two classes, else one per class against the rest: learners, weights after every
        round, path, certificate and rate bound.
    learners_, learner_weights_ : list, or list of lists for more than two classes
        Weak learners, and their weights in the vote.
    n_terms_ : int
        Number of weak learners of positive weight, of all classes together.
    margins_ : array of shape (n_rows,) or (n_rows, n_classes)
        y v(x) of the training rows of positive weight, in [-1, 1].
    margin_bound_ : Bound or None
        Share of the training rows with a margin of at most γ, after each round (equation 8); None
        for other losses than ``"log-exp"``.
    certificate_ : Certificate or None
        How far the loss can be from its minimum over all votes of such stumps. For more than two
        classes the losses are summed, and ``per_output`` has an entry per class. None for weak
        learners of your own, because nothing proves that they find the best one.
    rate_bound_ : Bound or None
        What Theorem 3.1 of Z02 promised for the loss, summed over classes; for
        ``loss="exponential"`` next to nothing.
    path_ : Path
        Loss after each round, summed over classes, and the largest relative gap of a class.
    calibration_ : Shrinkage
        How votes become probabilities, from votes on rows left out of further fits; print it. Few
        rows (below 200, or below ten per feature) are left out in five parts. If their votes say
        little, probabilities are near the shares of the classes, and the most probable class may
        be another than that of :meth:`predict`.
    temperature_ : float
        a in the probability 1/(1 + exp(-a v - t b)) of ``calibration_``.
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

    scale_: float
    boosters_: list[Booster]
    path_: Path
    certificate_: Any
    rate_bound_: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "weak_learner": [None, HasMethods(["fit", "predict"])],
        "loss": [StrOptions(set(LOSSES))],
        "scale": [
            StrOptions({"auto", "cv", "margin"}),
            Interval(numbers.Real, 0, None, closed="neither"),
        ],
        "n_terms": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "step": [StrOptions(set(STEPS))],
        "margin": [Interval(numbers.Real, 0, 1, closed="neither")],
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
        **EXECUTION,
    }

    def __init__(
        self,
        weak_learner: Any = None,
        *,
        loss: str = "log-exp",
        scale: float | str = "auto",
        n_terms: int = 200,
        tol: float | None = _TOL,
        step: str = "joint",
        margin: float = _MARGIN,
        max_time: float | None = None,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.weak_learner = weak_learner
        self.loss = loss
        self.scale = scale
        self.n_terms = n_terms
        self.tol = tol
        self.step = step
        self.margin = margin
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @guarded
    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> Self:
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
        self._check_parameters()
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        checks = {"accept_sparse": self._accepts_sparse(), "dtype": np.float64}
        X, y = validate_held(self, X, plain_labels(y), reset=True, **checks)
        check_classification_targets(y)
        weights = validate_weights(sample_weight, len(y))
        present = np.flatnonzero(weights > 0)
        if len(present) < len(y):
            X, y, weights = X[present], y[present], weights[present]
        self.classes_ = distinct_classes(y)
        codes = np.searchsorted(self.classes_, y)
        sample = Sample(as_rows(X), codes[:, None].astype(np.float64), weights)
        with FitRun(self, sample, present) as run:
            run.begin("scale")
            self.scale_ = self._scale(run, X, codes, weights)
            run.begin("boost", self.n_terms)
            # A scale that is not the one recorded, for want of time, has rounds of its own.
            name = f"boost-{self.scale_:g}"
            boosters = boost(self, run, X, codes, weights, self.scale_, 0.8, name)
            self.boosters_ = boosters
            self.calibration_ = _calibrated(self, run, X, codes, weights)
        self.path_ = joint_path([booster.path for booster in boosters])
        found = joint_certificate([booster.certificate for booster in boosters])
        self.certificate_ = None if found is None else kept(found)
        self.rate_bound_ = joint_bound([booster.rate_bound for booster in boosters])
        self.n_terms_ = sum(int(np.count_nonzero(booster.weights)) for booster in boosters)
        points = np.column_stack([booster.point for booster in boosters])
        self.margins_ = (points * class_signs(codes)).squeeze(axis=1 if self._binary else ())
        self.margin_bound_: Bound | None = (
            margin_bound(len(self.path_), self.scale_, self.margin)
            if self.loss == "log-exp"
            else None
        )
        if run.stopping:
            interrupt(f"the {len(self.path_)} rounds so far")
        return self

    @in_precision_of_rows
    def decision_function(self, X: Any) -> Floats:
        """Votes in [-1, 1]: of the second class, or of each class against the rest.

        Returns
        -------
        votes : array of shape (n_rows,) or (n_rows, n_classes)
        """
        vote = self._votes(X)
        return vote[:, 0] if self._binary else vote

    @lazily
    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the larger vote.

        Returns
        -------
        y : array of shape (n_rows,)
        """
        return self._decide(self._votes(X))

    @in_precision_of_rows
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, calibrated on rows left out.

        Returns
        -------
        p : array of shape (n_rows, n_classes)
        """
        vote = self._votes(X)
        return self.calibration_.probabilities(vote)

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield predictions after 1, 2, … rounds.

        Yields
        ------
        y : array of shape (n_rows,)
        """
        for vote in self.staged_decision_function(X):
            yield self._decide(vote.reshape(len(vote), -1))

    def staged_predict_proba(self, X: Any) -> Iterator[Floats]:
        """Yield probabilities after 1, 2, … rounds, calibrated as those of the last are.

        Yields
        ------
        p : array of shape (n_rows, n_classes)
        """
        for vote in self.staged_decision_function(X):
            yield self.calibration_.probabilities(vote.reshape(len(vote), -1))

    def staged_score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> Iterator[float]:
        """Yield the accuracy after 1, 2, … rounds.

        Yields
        ------
        score : float
        """
        for labels in self.staged_predict(X):
            yield float(accuracy_score(y, labels, sample_weight=sample_weight))

    def staged_decision_function(self, X: Any) -> Iterator[Floats]:
        """Yield votes after 1, 2, … rounds.

        Yields
        ------
        votes : array of shape (n_rows,) or (n_rows, n_classes)
        """
        X = self._rows(X)
        values = [booster.values(X) for booster in self.boosters_]
        for stage in range(len(self.path_)):
            vote = np.column_stack(
                [
                    atoms @ booster.staged_weights(stage)
                    for atoms, booster in zip(values, self.boosters_, strict=True)
                ]
            )
            yield vote[:, 0] if self._binary else vote

    @property
    def temperature_(self) -> float:
        """The slope of the votes in log-odds."""
        check_is_fitted(self)
        return self.calibration_.slope

    @property
    def learners_(self) -> Any:
        """Weak learners."""
        check_is_fitted(self)
        learners = [booster.learners for booster in self.boosters_]
        return learners[0] if self._binary else learners

    @property
    def learner_weights_(self) -> Any:
        """Their weights."""
        check_is_fitted(self)
        weights = [booster.weights for booster in self.boosters_]
        return weights[0] if self._binary else weights

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

    def _votes(self, X: Any) -> Floats:
        X = self._rows(X)
        return votes(self.boosters_, X)

    def _decide(self, vote: Floats) -> NDArray[Any]:
        codes = (vote[:, 0] > 0).astype(int) if self._binary else vote.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def _scale(self, run: FitRun, X: Any, codes: Indices, weights: Floats) -> float:
        if self.scale == "margin":
            return margin_scale(self.n_terms, self.margin)
        if self.scale == "cv":
            return _cross_validated_scale(self, run, X, codes, weights)
        return AUTO_SCALE if self.scale == "auto" else float(self.scale)

    def _check_parameters(self) -> None:
        """Refuse parameters that do not go together."""
        if self.weak_learner is not None:
            check_learner(self.weak_learner)
            if self.tol not in (None, _TOL):
                raise ValueError(
                    f"tol={self.tol} is a gap of the certificate, and weak learners of your own "
                    "have none: leave tol out, or set n_terms."
                )
            if self.checkpoint is not None:
                raise ValueError(
                    "checkpoint records numbers, and cannot hold weak learners of your own: leave "
                    "it out, or use stumps, weak_learner=None."
                )
        if self.loss != "log-exp" and (self.scale == "margin" or self.margin != _MARGIN):
            name = 'scale="margin"' if self.scale == "margin" else f"margin={self.margin}"
            raise ValueError(
                f'{name} belongs to a bound for loss="log-exp", got loss={self.loss!r}: leave it '
                "out, or change the loss."
            )
        if self.loss == "exponential" and not isinstance(self.scale, str):
            check_exponent(float(self.scale))
