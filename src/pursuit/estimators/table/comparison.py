"""Cross-validated comparison of models on one table: errors, error bars, times and sizes."""

from __future__ import annotations

import pickle
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import KFold, StratifiedKFold

from pursuit._types import Floats, Indices
from pursuit.estimators.full_scale.regressor import FullScaleGPRegressor
from pursuit.estimators.gp.sparse import SparseGPRegressor
from pursuit.estimators.table.choice import are_counts, choose_model, count_law, log_probability
from pursuit.estimators.table.contestants import Contestant, contestants
from pursuit.estimators.table.encoder import TableEncoder
from pursuit.estimators.table.observations import with_rows

AUTO = "pursuit (auto)"
"""The kind of ours that `choose_model` takes in each fold."""
LEVEL = 0.9
"""Share of the targets that intervals should cover."""
_LEAST = 1e-15
_HELD_OUT = 5
"""One in so many rows tells the standard deviation of models that know none."""


@dataclass(frozen=True)
class Score:
    """A model on the reserved rows of one fold.

    Attributes
    ----------
    error : float
        Root mean square error, or log loss.
    fit_seconds, predict_seconds : float
        Times of the model itself; the encoding of the table is the same for all.
    size : int
        Bytes of its file.
    error_rate : float
        Share of rows with a wrong class; NaN for numbers.
    log_density : float
        Mean log density of the targets, of counts their mean log probability; NaN for classes. Of
        models that predict no distribution it is that of a normal one, with the error of rows left
        out of another fit as its standard deviation.
    coverage : float
        Share of the targets in intervals that should cover 90 %; NaN for classes.
    """

    error: float
    fit_seconds: float
    predict_seconds: float
    size: int
    error_rate: float = np.nan
    log_density: float = np.nan
    coverage: float = np.nan


@dataclass(frozen=True)
class Standing:
    """A model with its scores in all folds."""

    name: str
    ours: bool
    scores: list[Score]

    def mean(self, name: str) -> float:
        """Mean of a score over the folds."""
        return float(np.mean([getattr(score, name) for score in self.scores]))

    def std(self, name: str) -> float:
        """Standard deviation of a score over the folds."""
        return float(np.std([getattr(score, name) for score in self.scores], ddof=1))


@dataclass(frozen=True)
class TableComparison:
    """Models compared on one table, the best first.

    Attributes
    ----------
    task : {"regression", "classification"}
        What is predicted.
    counts : bool
        Whether log densities are log probabilities of counts.
    n_rows, n_folds : int
        Size of the table, and number of folds.
    standings : list of Standing
        Models by increasing mean error.
    chosen : list of str
        The kind that `choose_model` has taken in each fold.
    notes : list of str
        What was left out, and why.
    """

    task: str
    counts: bool
    n_rows: int
    n_folds: int
    standings: list[Standing]
    chosen: list[str]
    notes: list[str] = field(default_factory=list)

    @property
    def error_name(self) -> str:
        """What the error is called."""
        return "RMSE" if self.task == "regression" else "log loss"


def compare_models(
    X: Any,
    y: NDArray[Any],
    *,
    task: str,
    n_folds: int = 5,
    random_state: int | None = 0,
    n_basis: int | str | None = None,
    encoder: TableEncoder | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> TableComparison:
    """Cross-validate our models beside those of scikit-learn, and LightGBM if it is installed.

    In each fold the encoder learns from the training rows only, and all models get the same rows:
    ours with codes of categories, others with zeros and ones.

    Parameters
    ----------
    X : table
        Whatever :class:`pursuit.TableEncoder` takes, without the target.
    y : array of shape (n_rows,)
        Targets, none of them missing.
    task : {"regression", "classification"}
        What is predicted.
    n_folds : int, default 5
        Number of folds.
    random_state : int or None, default 0
        Seed of folds and models.
    n_basis : int, "auto" or None, default None
        Of our models; None leaves their defaults.
    encoder : TableEncoder, optional
        How columns are read; not fitted.
    progress : callable, optional
        Called with a line of text for every model and fold.

    Returns
    -------
    comparison : TableComparison

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pursuit.estimators.table.comparison import compare_models
    >>> X, y = load_iris(return_X_y=True)
    >>> found = compare_models(X, y, task="classification", n_folds=2)
    >>> sorted(one.name for one in found.standings if one.name.startswith("pursuit"))
    ['pursuit (auto)', 'pursuit: full-scale process', 'pursuit: small process']
    """
    y = np.asarray(y)
    least = int(np.unique(y, return_counts=True)[1].max()) if task == "classification" else len(y)
    if not 2 <= n_folds <= least:
        what = "rows of the largest class" if task == "classification" else "rows"
        raise ValueError(f"{n_folds} folds need as many {what}, and there are {least}.")
    counts = task == "regression" and are_counts(y)
    given: dict[str, Any] = {"random_state": random_state, "n_basis": n_basis}
    folds = _folds(y, task, n_folds, random_state)
    n_learning = max(len(learning) for learning, _ in folds)
    runs = contestants(task, y, n_learning, **given)
    scores: dict[str, list[Score]] = {name: [] for name in (*(run.name for run in runs), AUTO)}
    chosen: list[str] = []
    for number, rows in enumerate(folds, 1):
        fold = _Fold.of(TableEncoder() if encoder is None else encoder, X, y, rows, task, counts)
        found: dict[str, Score] = {}
        for run in runs:
            found[run.kind or run.name] = score = fold.score(run)
            scores[run.name].append(score)
            progress(f"fold {number} of {n_folds}: {run.name}, {score.fit_seconds:.1f} s")
        started = time.perf_counter()
        choice = choose_model(fold.X, fold.y, task=task, **given)
        seconds = found[choice.kind].fit_seconds + time.perf_counter() - started
        chosen.append(choice.kind)
        # The model would be fitted to the same rows with the same seed: it is the one above.
        scores[AUTO].append(replace(found[choice.kind], fit_seconds=seconds))
        progress(f"fold {number} of {n_folds}: {AUTO}, {choice.sentence}")
    ours = {AUTO, *(run.name for run in runs if run.kind)}
    standings = [Standing(name, name in ours, each) for name, each in scores.items()]
    standings.sort(key=lambda standing: standing.mean("error"))
    return TableComparison(task, counts, len(y), n_folds, standings, chosen)


def _folds(
    y: NDArray[Any], task: str, n_folds: int, seed: int | None
) -> list[tuple[Indices, Indices]]:
    kind: Any = KFold if task == "regression" else StratifiedKFold
    with warnings.catch_warnings():
        # A class of fewer rows than folds is not in all of them, for all models alike.
        warnings.simplefilter("ignore")
        return list(kind(n_folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y))


@dataclass(frozen=True)
class _Fold:
    """Encoded rows to learn from and to judge by.

    Attributes
    ----------
    X, reserved : EncodedTable or array
        Both, for our models.
    y, truth : array
        Their targets.
    task : str
        What is predicted.
    counts : bool
        Whether the targets are counts.
    """

    X: Any
    y: NDArray[Any]
    reserved: Any
    truth: NDArray[Any]
    task: str
    counts: bool

    @classmethod
    def of(
        cls,
        encoder: TableEncoder,
        X: Any,
        y: NDArray[Any],
        rows: tuple[Indices, Indices],
        task: str,
        counts: bool,
    ) -> _Fold:
        """Learn the encoding from the rows to learn from, and encode all rows."""
        learning, reserved = rows
        encoder = clone(encoder)
        with warnings.catch_warnings():
            # New levels and gaps are to be expected in every fold.
            warnings.simplefilter("ignore")
            encoded = encoder.fit_transform(with_rows(X, learning), y[learning])
            judged = encoder.transform(with_rows(X, reserved))
        return cls(encoded, y[learning], judged, y[reserved], task, counts)

    def score(self, run: Contestant) -> Score:
        """Fit a model and predict the reserved rows."""
        ours = bool(run.kind)
        X, rows = (each if ours else np.asarray(each) for each in (self.X, self.reserved))
        classes = self.task == "classification"
        with warnings.catch_warnings():
            # A comparison of many models is no place for the advice of each.
            warnings.simplefilter("ignore")
            started = time.perf_counter()
            model = run.make().fit(X, self.y)
            fitted = time.perf_counter()
            mean, std = (model.predict_proba(rows), None) if classes else _prediction(model, rows)
            ended = time.perf_counter()
            if not (classes or ours or std is not None):
                std = np.full(len(mean), _left_out_error(run.make(), X, self.y))
        return Score(
            **(_class_scores(model, mean, self.truth) if classes else {}),
            **({} if classes else self._number_scores(model, mean, std)),
            fit_seconds=fitted - started,
            predict_seconds=ended - fitted,
            size=_saved_size(model) if ours else len(pickle.dumps(model)),
        )

    def _number_scores(self, model: Any, mean: Floats, std: Floats | None) -> dict[str, float]:
        """Scores of predicted numbers."""
        law: Any = count_law(model, mean) if std is None else norm(mean, std)
        lower, upper = law.ppf(0.5 * (1.0 - LEVEL)), law.ppf(0.5 * (1.0 + LEVEL))
        if self.counts:
            density = log_probability(model, mean, std, self.truth)
        else:
            density = law.logpdf(self.truth)
        return {
            "error": float(np.sqrt(np.mean((self.truth - mean) ** 2))),
            "log_density": float(np.mean(density)),
            "coverage": float(np.mean((lower <= self.truth) & (self.truth <= upper))),
        }


def _class_scores(model: Any, chances: Floats, truth: NDArray[Any]) -> dict[str, float]:
    """Scores of predicted probabilities; a class that the model has not seen has probability 0."""
    classes = model.classes_
    place = np.minimum(np.searchsorted(classes, truth), len(classes) - 1)
    own = np.where(classes[place] == truth, chances[np.arange(len(place)), place], 0.0)
    return {
        "error": -float(np.log(np.maximum(own, _LEAST)).mean()),
        "error_rate": float(np.mean(classes[chances.argmax(axis=1)] != truth)),
    }


def _prediction(model: Any, rows: Any) -> tuple[Floats, Floats | None]:
    """Predictions, and standard deviations of models that have them."""
    last = model[-1] if hasattr(model, "steps") else model
    if isinstance(last, GaussianProcessRegressor | SparseGPRegressor | FullScaleGPRegressor):
        mean, std = model.predict(rows, return_std=True)
        return mean, std
    return np.asarray(model.predict(rows), dtype=np.float64), None


def _left_out_error(model: Any, X: Floats, y: NDArray[Any]) -> float:
    """Root mean square error of rows that a model has not learned from: its standard deviation.

    Residuals of the rows that it has learned from would be far too small.
    """
    held = np.arange(len(y)) % _HELD_OUT == 0
    model.fit(X[~held], y[~held])
    error = float(np.sqrt(np.mean((y[held] - model.predict(X[held])) ** 2)))
    return error if error > 0.0 else float(np.finfo(np.float64).eps)


def _saved_size(model: Any) -> int:
    """Bytes of the file of one of our models."""
    with tempfile.TemporaryDirectory(prefix="pursuit-") as folder:
        path = Path(folder) / "model.pursuit"
        model.save(path)
        return path.stat().st_size
