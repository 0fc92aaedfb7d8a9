"""Stages of a full-scale regression beside the sparse fit: choose near rows, couple both parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pursuit._types import Floats
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.full_scale.local_fit import (
    LocalModel,
    WhitenedSums,
    whiten,
    without_near_rows,
)
from pursuit.estimators.full_scale.model import FEWEST_JUDGING, NOTHING_MISSED
from pursuit.estimators.full_scale.near_rows import LeavingRows, NearRows
from pursuit.estimators.gp.sparse import SparseGPRegressor
from pursuit.estimators.warning import warn
from pursuit.linalg import PredictiveVariance, Workers
from pursuit.tuning import (
    LeftOut,
    NearChoice,
    choose_near_rows,
    noise_limits,
    raise_ridge,
    tune_near_rows,
)

_RIDGES = 1.0, 4.0, 16.0, 64.0
"""Multiples of the sparse fit's ridge that are tried beside near rows."""


def learned_noise(model: SparseGPRegressor) -> float:
    """σ² before the sparse model's calibration made it a ridge."""
    found = model.calibration_
    return model.noise_ if found is None else found.noise_before


def choose(
    local: LocalModel,
    judges: LeavingRows | None,
    model: SparseGPRegressor,
    n_neighbors: int | str,
    sizes: Sequence[int],
    run: FitRun,
) -> tuple[NearChoice | None, str]:
    """What the rows that judge choose, and a sentence about it; None for no near rows."""
    noise, auto = learned_noise(model), n_neighbors == "auto"
    if judges is None:
        if auto:
            return None, (
                f"none: fewer than {FEWEST_JUDGING} rows are left to judge by, beside the basis"
            )
        fixed = NearChoice(sizes[0], noise, PredictiveVariance(noise), *_nothing_left_out())
        return fixed, f"{sizes[0]}, as given"
    within = [min(k, local.kept.n_rows - 1) for k in sizes]
    walks = model.noise == "learn"
    limits = noise_limits(noise) if walks else None
    groups = local.left_out(judges, max(within), run.workers)
    if groups.share_missed < NOTHING_MISSED:
        sentence = "the basis spans the kernel, near rows have nothing to add"
        if not auto:
            warn(f"n_neighbors={n_neighbors} is not used: {sentence}.")
        return None, f"none: {sentence}"

    def late() -> bool:
        return run.out_of_time

    if not auto:
        choice = tune_near_rows(groups, noise, within[0], run.workers, limits=limits, late=late)
        choice = _with_ridge(choice, local, judges, model, run) if walks else choice
        return replace(choice, k=sizes[0]), f"{sizes[0]}, as given"
    without = without_near_rows(groups, model.noise_).surprise(model._spread)
    best, found = choose_near_rows(
        groups, noise, sizes, without, run.workers, limits=limits, late=late
    )
    if best is not None and walks:
        best = _with_ridge(best, local, judges, model, run)
    tried = ", ".join(f"{k}: {density:.4g}" for k, density in found.items())
    k = 0 if best is None else best.k
    return best, (
        f"{k or 'none'} of the sizes tried, by the negative log density of {len(judges)} rows left "
        f"out ({tried})"
    )


def _with_ridge(
    choice: NearChoice,
    local: LocalModel,
    judges: LeavingRows,
    model: SparseGPRegressor,
    run: FitRun,
) -> NearChoice:
    """The choice with the ridge of the sparse fit that suits it."""
    # Features that are not stored would all be computed again, for half a per cent of the error.
    if run.out_of_time or local.process.stored is None:
        return choice
    ridges = [factor * model.noise_ for factor in _RIDGES]
    left_out = local.left_out_by_ridge(
        judges, choice.k, choice.noise, ridges, run.workers, model._factors
    )
    return raise_ridge(choice, left_out, ridges)


def as_sampled(
    choice: NearChoice, local: LocalModel, judges: LeavingRows, workers: Workers
) -> NearChoice:
    """The choice with the errors of rows as they occur: with the copies that some of them have.

    Choices are for rows that are new. If new rows have as many copies as the training rows have,
    this is what to expect.
    """
    alone = replace(judges, with_copies=False)
    some = np.flatnonzero(alone.remaining(local.kept) > 0)
    if not len(some):
        return choice
    k = min(choice.k, local.kept.n_rows - 1)
    groups = local.left_out(alone.taken(some), k, workers)
    errors = choice.errors.with_others(some, groups.left_out(choice.noise, k, workers))
    return replace(choice, errors=errors, losses=errors.surprise(choice.spread))


def _nothing_left_out() -> tuple[Floats, LeftOut]:
    nothing = np.empty(0)
    empty = np.empty(0, dtype=np.intp)
    return nothing, LeftOut(np.empty((0, 1)), nothing, nothing, nothing, nothing, empty)


def couple(
    local: LocalModel, judges: LeavingRows | None, choice: NearChoice, run: FitRun
) -> tuple[LocalModel, NearChoice, WhitenedSums]:
    """Coupling "full": coordinates of the joint process, error bars for them, and the sums.

    The rows that judge come last: the coordinates without them set the error bars.
    """
    run.begin("whiten")
    kept, workers = local.kept, run.workers
    k = min(choice.k, kept.n_rows - 1)
    first = kept.n_rows if judges is None else int(judges.number.min())
    numbers = np.arange(kept.n_rows)
    near = local.index.search.preceding(k, workers)

    def sums(some: slice) -> WhitenedSums:
        return whiten(local.process, kept, near[some], choice.noise, numbers[some], workers)

    total = run.recorded("whiten", lambda: sums(slice(0, first)))
    if judges is not None:
        groups = local.with_part(total.posterior(), workers).left_out(judges, k, workers)
        judged = tune_near_rows(groups, choice.noise, k, workers)
        choice = replace(judged, k=choice.k)
        total += sums(slice(first, None))
    return local.with_part(total.posterior(), workers), choice, total


def judges_last(
    kept: NearRows, judges: LeavingRows, rng: np.random.Generator
) -> tuple[NearRows, LeavingRows]:
    """All rows in a random order, those that judge at its end."""
    last = np.unique(judges.number)
    others = np.setdiff1d(np.arange(kept.n_rows), last, assume_unique=True)
    order = np.concatenate([rng.permutation(others), last])
    place = np.empty(kept.n_rows, dtype=np.intp)
    place[order] = np.arange(kept.n_rows)
    return kept.taken(order), replace(judges, number=place[judges.number])
