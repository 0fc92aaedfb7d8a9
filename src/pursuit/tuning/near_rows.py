"""How many near rows, their noise and the error bars, by the density of rows left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.gram import condition
from pursuit.linalg import PredictiveVariance, Workers
from pursuit.tuning.calibration import (
    LOSS_IS_NOTHING,
    NO_REPLICATES,
    Calibration,
    Confidence,
    Latents,
    LeftOut,
    Replicates,
    describe_tails,
    fit_confidence,
    fit_spread,
    log_losses,
)

_FACTOR = 4.0
_MOST_STEPS = 6
"""The noise moves by at most this many factors of 4."""
_FIRST_ERRORS = 2.0
"""Standard errors that near rows have to gain to be used at all. Larger: fewer models with them."""
_TASK = 128
"""Rows per task of a thread."""


@dataclass(frozen=True)
class LeftOutGroups:
    """Rows left out of the fit, each with its near rows among the others, nearest first.

    Attributes
    ----------
    residual : array of shape (n_rows, 1 + k, 1 + k)
        r among a row and its near rows.
    global_gram : array of the same shape
        V C V' among them, C being the covariance that the global fit leaves.
    errors : array of shape (n_rows, 1 + k, n_outputs)
        y - V'w of all of them, by the global fit without the rows left out.
    shares : array of shape (n_rows, k)
        1 / w of the near rows.
    prior, weights : arrays of shape (n_rows,)
        k(x, x) and w of the rows left out.
    group : array of int of shape (n_rows,)
        Number of each row's group of identical rows.
    rounding : array of shape (n_rows,)
        Rounding error of r.
    replicates : Replicates
        What identical rows say about the noise.
    """

    residual: Floats
    global_gram: Floats
    errors: Floats
    shares: Floats
    prior: Floats
    weights: Floats
    group: Indices
    rounding: Floats
    replicates: Replicates = NO_REPLICATES

    @property
    def most(self) -> int:
        """The number of near rows there are."""
        return int(self.shares.shape[1])

    @property
    def share_missed(self) -> float:
        """The largest share of the prior's variance that the basis leaves."""
        prior = np.where(self.prior > 0, self.prior, 1.0)
        return float(np.max(self.residual[:, 0, 0] / prior, initial=0.0))

    def left_out(self, noise: float, k: int, workers: Workers) -> LeftOut:
        """Errors, and what is left of the variance, with the nearest k rows and this noise."""
        parts = workers.map(
            lambda some: self._part(some, noise, k), Workers.slices(len(self.prior), _TASK)
        )
        error, missed = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        nothing = np.zeros(len(missed))
        return LeftOut(
            error, missed, nothing, self.prior, self.weights, self.group, self.replicates
        )

    def without_near_rows(self) -> LeftOut:
        """The same without any near rows: the limit of infinite noise."""
        left = np.maximum(self.residual[:, 0, 0], 0.0) + self.global_gram[:, 0, 0]
        nothing = np.zeros(len(left))
        own = self.errors[:, 0]
        rest = self.prior, self.weights, self.group, self.replicates
        return LeftOut(own, left, nothing, *rest)

    def _part(self, some: slice, noise: float, k: int) -> tuple[Floats, Floats]:
        residual = self.residual[some, : 1 + k, : 1 + k]
        given = condition(residual, noise * self.shares[some, :k], self.rounding[some])
        combined = np.concatenate([np.ones((len(residual), 1)), -given.weights], axis=1)
        error = np.einsum("gi,gio->go", combined, self.errors[some, : 1 + k])
        gram = self.global_gram[some, : 1 + k, : 1 + k]
        spread = np.einsum("gi,gij,gj->g", combined, gram, combined, optimize=True)
        return error, given.missed + np.maximum(spread, 0.0)


@dataclass(frozen=True)
class NearChoice:
    """A number of near rows with its noise and error bars.

    Attributes
    ----------
    k : int
        Number of near rows.
    noise : float
        σ² of the near rows.
    spread : PredictiveVariance
        Error bars: variance of an observation, and the factor of what the rows leave.
    losses : array of shape (n_rows,)
        Negative log density of every row left out.
    errors : LeftOut
        What the densities are of.
    ridge : float, optional
        σ² of the global part; None where it is as it was.
    """

    k: int
    noise: float
    spread: PredictiveVariance
    losses: Floats
    errors: LeftOut
    ridge: float | None = None

    def calibration(self, before: Calibration | None, noise_before: float) -> Calibration:
        """What was chosen, beside the model without near rows."""
        rmse = float(np.sqrt(self.errors.mean_square()))
        nlpd = self.errors.nlpd(self.spread)
        return Calibration(
            noise_before=noise_before,
            noise=self.noise,
            spread=self.spread,
            rmse_before=rmse if before is None else before.rmse,
            rmse=rmse,
            nlpd_before=nlpd if before is None else before.nlpd,
            nlpd=nlpd,
            n_rows=len(self.losses),
            tails=describe_tails(self.errors, self.spread),
        )


def tune_near_rows(
    groups: LeftOutGroups,
    noise: float,
    k: int,
    workers: Workers,
    *,
    limits: tuple[float, float] | None = None,
    late: Callable[[], bool] = lambda: False,
) -> NearChoice:
    """Noise and error bars of k near rows.

    The noise is divided, else multiplied, by 4 as long as the density of the rows left out rises by
    more than its paired standard error and the noise stays within ``limits``. It stays as it is
    without them, or when it is ``late``.
    """

    def tried(noise: float) -> NearChoice:
        errors = groups.left_out(noise, k, workers)
        spread = fit_spread(errors, start=noise)
        return NearChoice(k, noise, spread, errors.surprise(spread), errors)

    best = tried(noise)
    low, high = limits or (noise, noise)
    for factor in (1.0 / _FACTOR, _FACTOR):
        first = best
        while low <= best.noise * factor <= high and not late():
            trial = tried(best.noise * factor)
            if not gains(best.losses, trial.losses, groups.weights):
                break
            best = trial
        if best is not first:
            break
    return best


def noise_limits(noise: float) -> tuple[float, float]:
    """How far the noise of near rows may move from that of the evidence."""
    return noise / _FACTOR**_MOST_STEPS, noise * _FACTOR**_MOST_STEPS


def choose_near_rows(
    groups: LeftOutGroups,
    noise: float,
    sizes: Sequence[int],
    without: Floats,
    workers: Workers,
    *,
    limits: tuple[float, float] | None = None,
    late: Callable[[], bool] = lambda: False,
) -> tuple[NearChoice | None, dict[int, float]]:
    """The smallest number of near rows that no larger one beats, and the density of each.

    A number is taken in the place of a smaller one only if it gains a paired standard error, the
    first only if it gains two: targets that are noise often gain one, and a model without near rows
    is far smaller. ``without`` are the losses of that model, and None means to prefer it. The first
    has to gain as much beside that model with error bars of its own, too: with large noise near
    rows do nothing, and a gain is that of other error bars. Every number begins with the noise of
    the one before.
    """
    share = groups.weights / groups.weights.sum()
    best: NearChoice | None = None
    alone = groups.without_near_rows()
    recalibrated = alone.surprise(fit_spread(alone, start=noise))
    found = {0: float(share @ without)}
    for k in sizes:
        if best is not None and late():
            break
        trial = tune_near_rows(groups, noise, k, workers, limits=limits, late=late)
        found[k], noise = float(share @ trial.losses), trial.noise
        beaten, errors = [without, recalibrated], _FIRST_ERRORS
        if best is not None:
            beaten, errors = [best.losses], 1.0
        if all(gains(old, trial.losses, groups.weights, errors=errors) for old in beaten):
            best = trial
    return best, found


def choose_near_classes(
    latents: Mapping[int, Latents],
    labels: Indices,
    weights: Floats,
    without: Confidence,
    *,
    missed_too: bool,
) -> tuple[int, Confidence, dict[int, float]]:
    """The smallest number of near rows that no larger one beats; also the log loss of each.

    ``latents`` are those of rows left out, by the number of near rows, in ascending order from 0,
    for which ``without`` makes probabilities; for other numbers they are calibrated on these rows.
    A number is taken in the place of a smaller one only if it gains a paired standard error; the
    first has to gain two, and :data:`LOSS_IS_NOTHING`. Labels that are noise often gain one, and a
    model without near rows is far smaller. ``missed_too`` is that of :func:`fit_confidence`.
    """
    losses = log_losses(without.probabilities(latents[0]), labels)
    before = float(np.average(losses, weights=weights))
    best, chosen, found = 0, without, {0: before}
    for k, rows in latents.items():
        if k == 0:
            continue
        seen = float(rows.share.max())
        trial = fit_confidence(rows, labels, weights, seen=seen, missed_too=missed_too)
        found[k] = trial.log_loss
        tried = log_losses(trial.probabilities(rows), labels)
        if best == 0:
            taken = gains(losses, tried, weights, errors=_FIRST_ERRORS, least=LOSS_IS_NOTHING)
        else:
            taken = gains(losses, tried, weights)
        if taken:
            best, chosen, losses = k, replace(trial, log_loss_before=before), tried
    return best, chosen, found


def raise_ridge(
    best: NearChoice, left_out: Sequence[LeftOut], ridges: Sequence[float]
) -> NearChoice:
    """A larger ridge of the global part, as long as the rows left out gain by it.

    What near rows explain, the functions of the basis need not. ``left_out`` are the rows with each
    of the ``ridges``, which rise from that of the sparse fit.
    """
    for ridge, errors in zip(ridges[1:], left_out[1:], strict=True):
        spread = fit_spread(errors, start=best.noise)
        losses = errors.surprise(spread)
        if not gains(best.losses, losses, errors.weights):
            break
        best = replace(best, spread=spread, losses=losses, errors=errors, ridge=ridge)
    return best


def gains(
    old: Floats, new: Floats, weights: Floats, *, errors: float = 1.0, least: float = 0.0
) -> bool:
    """Whether new losses are lower by more than ``errors`` standard errors, and by ``least``.

    The standard errors are those of the mean of the paired differences.
    """
    share = weights / weights.sum()
    gain = old - new
    mean = float(share @ gain)
    deviation = float(np.sqrt(share @ (gain - mean) ** 2))
    return mean > max(errors * deviation * float(np.sqrt(share @ share)), least)
