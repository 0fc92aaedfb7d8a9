"""What to predict from a table, and with which kind of model: decided on reserved rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr
from scipy.stats import nbinom, poisson

from pursuit._types import Floats, Indices
from pursuit.estimators.full_scale.classifier import FullScaleGPClassifier
from pursuit.estimators.full_scale.regressor import FullScaleGPRegressor
from pursuit.estimators.glm.estimator import SparseKernelGLM
from pursuit.estimators.gp.classifier import SparseGPClassifier
from pursuit.estimators.gp.sparse import SparseGPRegressor
from pursuit.rows import CodedTable, EncodedTable, as_rows

SMALL, FULL_SCALE, POISSON, NEGATIVE_BINOMIAL = (
    "small process",
    "full-scale process",
    "Poisson counts",
    "negative binomial counts",
)
"""Kinds of models that are compared."""

MARGIN = 0.05
"""Part by which the full-scale process must lower the error, since its file holds all rows."""

_MOST_CLASSES, _RAREST = 20, 0.02
"""Most whole numbers that are taken for classes, and the share of the rows that each must have."""
_FEWEST = 100
"""Fewer rows do not say which kind of model is better."""
_FOLDED, _FOLDS = 1000, 3
"""Fewer rows than this are all predicted in turn, in so many parts."""
_LEARNING, _RESERVED = 4000, 2000
"""Most rows that models learn from and are judged by. More: a safer choice, slower."""
_SURE = 2.0
"""Standard errors by which a model must be better on average than a simpler one."""
_LEAST = 1e-15


@dataclass(frozen=True)
class Choice:
    """A kind of model and why it was chosen.

    Attributes
    ----------
    kind : str
        "small process", "full-scale process", "Poisson counts" or "negative binomial counts".
    model : estimator
        Not fitted yet.
    sentence : str
        What was compared, on which rows, and the outcome.
    scores : dict of str to dict of str to float
        For each kind that was tried: ``"error"`` (root mean square), ``"log_loss"``, or
        ``"log_probability"`` per count.
    """

    kind: str
    model: Any
    sentence: str
    scores: dict[str, dict[str, float]]


def infer_task(y: ArrayLike) -> tuple[str, str]:
    """Decide whether targets are classes or numbers.

    Texts, truth values, two different numbers, and a few whole numbers of which none is rare, are
    classes. Counts have rare values, and are numbers.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Targets; missing ones do not count.

    Returns
    -------
    task : {"classification", "regression"}
    reason : str
        What the column has or holds, to follow its name in a sentence.

    Examples
    --------
    >>> from pursuit.estimators.table.choice import infer_task
    >>> infer_task(["ja", "nein", "ja"])
    ('classification', 'holds text')
    >>> infer_task([0.5, 1.5, 2.0])
    ('regression', 'has 3 different values, not all of them whole numbers')
    """
    values = np.asarray(y)
    if values.dtype.kind == "O":
        values = np.array([value for value in values.tolist() if value is not None])
    if values.dtype.kind == "b":
        return "classification", "holds truth values"
    if values.dtype.kind not in "iuf":
        return "classification", "holds text"
    levels, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    different = f"has {len(levels):,} different values"
    if len(levels) == 2:
        return "classification", different
    if np.any(levels != np.round(levels)):
        return "regression", f"{different}, not all of them whole numbers"
    few = 2 < len(levels) <= _MOST_CLASSES and levels[-1] - levels[0] < 2 * len(levels)
    if few and counts.min() >= max(2.0, _RAREST * counts.sum()):
        return "classification", f"has {len(levels)} different whole numbers, none of them rare"
    return "regression", different


def choose_model(
    X: Any,
    y: ArrayLike,
    *,
    task: str,
    random_state: int | None = 0,
    n_basis: int | str | None = None,
    n_jobs: int | None = None,
) -> Choice:
    """Choose the kind of model on rows that it has not learned from.

    At most 4 000 rows are learned from and at most 2 000 are reserved; of fewer than 1 000 rows
    each third is reserved in turn. The simplest kind is the sparse process. A full-scale process
    must lower its error by 5 %. Where the targets are counts, Poisson and negative binomial models
    must give them a larger probability; of a normal distribution that is P(y - ½ < Y < y + ½).
    Differences must exceed two standard errors.

    Parameters
    ----------
    X : EncodedTable, table of numbers or array, of n_rows rows
        What `pursuit.TableEncoder` has made of a table.
    y : array-like of shape (n_rows,)
        Targets.
    task : {"regression", "classification"}
        What :func:`infer_task` says, or the user.
    random_state : int or None, default 0
        Seed of the rows that are drawn and of the models.
    n_basis : int, "auto" or None, default None
        Number of basis functions of the models; None leaves their defaults.
    n_jobs : int or None, default None
        Number of threads.

    Returns
    -------
    choice : Choice

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit.estimators.table.choice import choose_model
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(300, 1))
    >>> y = rng.poisson(np.exp(1 + X[:, 0]))
    >>> choice = choose_model(X, y, task="regression", n_basis=20)
    >>> choice.model.loss
    'poisson'
    """
    if task not in ("regression", "classification"):
        raise ValueError(f"task must be 'regression' or 'classification', got {task!r}.")
    y = np.asarray(y)
    given: dict[str, Any] = {"random_state": random_state, "n_jobs": n_jobs}
    given |= {} if n_basis is None else {"n_basis": n_basis}
    kinds = kinds_for(task, y, len(y), given)
    if len(y) < _FEWEST:
        why = f"{len(y):,} rows are too few to compare kinds of models, {_FEWEST} are the fewest"
        return Choice(SMALL, kinds[SMALL](), f"{SMALL}: {why}", {})
    if len(kinds) == 1:
        why = "its basis can hold all rows, so that near rows add nothing"
        return Choice(SMALL, kinds[SMALL](), f"{SMALL}: {why}", {})
    splits = list(_splits(y, np.random.default_rng(random_state)))
    if task == "classification" and any(len(set(y[rows].tolist())) < 2 for rows, _ in splits):
        why = "a class is too rare to be both learned and judged"
        return Choice(SMALL, kinds[SMALL](), f"{SMALL}: {why}", {})
    judged = _judged(kinds, X, y, splits, task)
    kind, why = _verdict(judged, splits)
    scores = {name: losses.scores for name, losses in judged.items()}
    return Choice(kind, kinds[kind](), f"{kind}: {why}", scores)


def kinds_for(
    task: str, y: NDArray[Any], n_learning: int, given: dict[str, Any]
) -> dict[str, Callable[[], Any]]:
    """What makes a model of each kind that may suit these targets, from the simplest.

    There is no full-scale process for so few rows to learn from that a basis can hold them all.
    """
    kinds: dict[str, Callable[[], Any]] = {SMALL: partial(SparseGPRegressor, **given)}
    full_scale: Callable[[], Any] = partial(FullScaleGPRegressor, **given)
    if task == "classification":
        kinds = {SMALL: partial(SparseGPClassifier, **given)}
        full_scale = partial(FullScaleGPClassifier, **given)
    size = kinds[SMALL]().n_basis
    if size == "auto" or n_learning > size:
        kinds[FULL_SCALE] = full_scale
    if task == "regression" and are_counts(y):
        numbers = {key: value for key, value in given.items() if value != "auto"}
        kinds[POISSON] = partial(SparseKernelGLM, loss="poisson", **numbers)
        kinds[NEGATIVE_BINOMIAL] = partial(SparseKernelGLM, loss="negative-binomial", **numbers)
    return kinds


def are_counts(y: NDArray[Any]) -> bool:
    """Whether numbers are whole and not negative."""
    return bool(np.all(y >= 0) and np.all(y == np.round(y)) and np.any(y > 0))


def _splits(y: NDArray[Any], rng: np.random.Generator) -> Iterator[tuple[Indices, Indices]]:
    """Rows to learn from and rows to judge by, both of them with the whole range of targets."""
    rows = rng.permutation(len(y))
    folds = _FOLDS if len(y) < _FOLDED else 1 + _LEARNING // _RESERVED
    rows = rows[: _LEARNING + _RESERVED]
    rows = rows[np.argsort(np.unique(y[rows], return_inverse=True)[1], kind="stable")]
    part = np.arange(len(rows)) % folds
    for reserved in range(folds if len(y) < _FOLDED else 1):
        yield np.sort(rows[part != reserved]), np.sort(rows[part == reserved])


def _taken(X: Any, rows: Indices) -> Any:
    """Some rows of what the encoder gives."""
    if isinstance(X, EncodedTable):
        coded = X.coded
        taken = as_rows(coded.take(rows))
        return EncodedTable(CodedTable(taken, coded.columns, coded.levels, coded.name))
    return as_rows(X).take(rows)


@dataclass(frozen=True)
class _Losses:
    """Losses of the rows that a kind of model was judged by.

    Attributes
    ----------
    errors : array of shape (n_rows,)
        Squared errors, or -log p of the true classes.
    surprise : array of shape (n_rows,)
        -log p of counts; empty for other targets.
    classes : bool
        Whether the targets are classes.
    """

    errors: Floats
    surprise: Floats
    classes: bool

    @property
    def score(self) -> float:
        """Root mean square error, or log loss."""
        mean = float(self.errors.mean())
        return mean if self.classes else mean**0.5

    @property
    def log_probability(self) -> float:
        """Mean log probability of the counts."""
        return -float(self.surprise.mean())

    @property
    def scores(self) -> dict[str, float]:
        """Both by their names."""
        found = {"log_loss" if self.classes else "error": self.score}
        return found | ({"log_probability": self.log_probability} if len(self.surprise) else {})


def _judged(
    kinds: dict[str, Callable[[], Any]],
    X: Any,
    y: NDArray[Any],
    splits: list[tuple[Indices, Indices]],
    task: str,
) -> dict[str, _Losses]:
    """Losses of the reserved rows by each kind of model, fitted to the other rows."""
    parts: dict[str, list[_Losses]] = {kind: [] for kind in kinds}
    counts = POISSON in kinds
    with warnings.catch_warnings():
        # What the chosen model has to say is said when it is fitted to all rows.
        warnings.simplefilter("ignore")
        for learning, reserved in splits:
            rows = _taken(X, reserved)
            for kind, model in _fitted(kinds, _taken(X, learning), y[learning]):
                parts[kind].append(_losses(model, rows, y[reserved], task, counts))
    return {
        kind: _Losses(
            np.concatenate([part.errors for part in each]),
            np.concatenate([part.surprise for part in each]),
            task == "classification",
        )
        for kind, each in parts.items()
    }


def _fitted(
    kinds: dict[str, Callable[[], Any]], X: Any, y: NDArray[Any]
) -> Iterator[tuple[str, Any]]:
    """Models of all kinds; the small process is the global part of the full-scale one."""
    for kind, make in kinds.items():
        if kind == SMALL and FULL_SCALE in kinds:
            continue
        model = make().set_params(certificate=None).fit(X, y)
        yield kind, model
        if kind == FULL_SCALE:
            yield SMALL, model.without_neighbors()


def _losses(model: Any, rows: Any, truth: NDArray[Any], task: str, counts: bool) -> _Losses:
    none = np.empty(0)
    if task == "classification":
        return _Losses(_class_losses(model, rows, truth), none, True)
    std = None
    if isinstance(model, SparseKernelGLM):
        mean = model.predict(rows)
    else:
        mean, std = model.predict(rows, return_std=True)
    surprise = -log_probability(model, mean, std, truth) if counts else none
    return _Losses((truth - mean) ** 2, surprise, False)


def _class_losses(model: Any, rows: Any, truth: NDArray[Any]) -> Floats:
    """-log p of the true classes; those that occur in reserved rows only are left out."""
    known = np.isin(truth, model.classes_)
    own = np.searchsorted(model.classes_, truth[known])
    chances = model.predict_proba(rows)[known, own]
    return np.asarray(-np.log(np.maximum(chances, _LEAST)))


def count_law(model: SparseKernelGLM, mean: Floats) -> Any:
    """The distribution that a model of counts predicts."""
    k = model.shape_
    return poisson(mean) if k is None else nbinom(k, k / (k + mean))


def log_probability(model: Any, mean: Floats, std: Floats | None, counts: Floats) -> Floats:
    """Log of P(Y = y), for a normal distribution of P(y - ½ < Y < y + ½)."""
    if std is None:
        return np.asarray(count_law(model, mean).logpmf(counts))
    error = np.abs(counts - mean)
    nearer, further = log_ndtr((0.5 - error) / std), log_ndtr((-0.5 - error) / std)
    return np.asarray(nearer + np.log(-np.expm1(np.minimum(further - nearer, -_LEAST))))


def _verdict(judged: dict[str, _Losses], splits: list[tuple[Indices, Indices]]) -> tuple[str, str]:
    """The kind to use, and why."""
    n = sum(len(reserved) for _, reserved in splits)
    of = f"{n:,} reserved rows" if len(splits) == 1 else f"{n:,} rows, each left out once,"
    process, reasons = SMALL, []
    if FULL_SCALE in judged:
        process, why = _near_rows_or_not(judged[SMALL], judged[FULL_SCALE], of)
        reasons.append(why)
    if POISSON not in judged:
        return process, "; ".join(reasons)
    chosen = process
    for kind in (POISSON, NEGATIVE_BINOMIAL):
        if _surely_less(judged[kind].surprise, judged[chosen].surprise):
            chosen = kind
    if chosen == process:
        rival = max((POISSON, NEGATIVE_BINOMIAL), key=lambda kind: judged[kind].log_probability)
    else:
        rival, reasons = f"the {process}", []
    theirs = judged[process if chosen != process else rival].log_probability
    reasons.append(
        f"mean log probability of a count on {of} {judged[chosen].log_probability:.3g}, "
        f"against {theirs:.3g} of {rival}"
    )
    return chosen, "; ".join(reasons)


def _near_rows_or_not(small: _Losses, full_scale: _Losses, of: str) -> tuple[str, str]:
    """Whether near rows lower the error enough, and why."""
    label = f"{'log loss' if small.classes else 'error'} on {of}"
    enough = full_scale.score < (1.0 - MARGIN) * small.score
    if enough and _surely_less(full_scale.errors, small.errors):
        against = f"{_shown(full_scale.score)}, against {_shown(small.score)} of the small one"
        return FULL_SCALE, f"{label} {against}"
    against = f"{_shown(small.score)}, against {_shown(full_scale.score)} of the full-scale one"
    demand = f"which keeps all rows and would have to be {100 * MARGIN:.0f} % better"
    return SMALL, f"{label} {against}, {demand}"


def _surely_less(losses: Floats, others: Floats) -> bool:
    """Whether the mean loss is less by more than its standard error allows."""
    gain = others - losses
    return bool(gain.mean() > _SURE * gain.std(ddof=1) / np.sqrt(len(gain)))


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
