"""Stages of a Gaussian process's fit: learn, reserve rows, find the size, move and calibrate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, WhiteKernel
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from pursuit import limits, tuning
from pursuit._types import Floats, Indices
from pursuit.estimators.arguments import KERNEL, Evidence
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.inputs import (
    category_columns,
    check_positive_definite,
    column_variances,
    dense,
    feature_deviations,
    feature_names,
    is_flat,
    is_precomputed,
    n_features,
    or_one,
    reads_matrix,
    seeded,
    stepped_columns,
)
from pursuit.estimators.span.search import Chosen, RowSplit
from pursuit.estimators.warning import warn
from pursuit.gram import expansion_gradient, kernel_times
from pursuit.greedy import Choice, Pool, Problem, SpanFit, refit, solve_in_span
from pursuit.kernels import (
    Additive,
    ColumnNames,
    CountingKernel,
    expanded,
    holds,
    kernel_gradient,
    leaves,
    sum_of_terms,
    terms_of,
    without_white,
)
from pursuit.linalg import SpanSolution, Workers
from pursuit.rows import Sample, as_rows, draw_rows, has_gaps, row_groups
from pursuit.tuning import (
    BATCH_ROWS,
    LOSS_IS_NOTHING,
    NOISE_FLOOR,
    AtBound,
    Calibration,
    HeldOut,
    Learned,
    LearningReport,
    LeavableRows,
    Mover,
    NoiseRange,
    Ridged,
    are_few,
    at_bounds,
    calibrate,
    error_curve,
    first_scales,
    flat_size,
    grow_additive,
    learn_few,
    learn_fixed,
    learn_given,
    learn_noise,
    learn_pairs,
    learn_shape,
    loss_curve,
    mixed_kernel,
    never,
    next_gain,
    search_kernel,
)

FULL_PROCESS = "the full Gaussian process with this kernel"
"""What certificates compare a model with, in words."""
SEARCH = "search"
"""What ``kernel`` is where its form is searched for."""
_SEARCH_JUDGES = 2000
"""Most rows, beside those that learn, that judge what a search has found."""
_FEWEST_JUDGES = 200
"""Fewer rows beside those that learn do not judge; then some of those that learn do."""
LEARNING_SHARE = 0.3
"""What learning may use of the time that a fit has."""
_FEW_LEVELS = 30
"""Up to this many levels a column is never taken for one that numbers the rows."""
_LIGHT = 0.1
"""Weights that are all below this are taken for parts of a whole, not for numbers of copies."""
_DENSE_FEATURES = 4096
_CLASS_FLOOR = 0.01
"""Least noise of a regression on ±1, which is exact and yet no function of the rows."""
_FEW_FLOOR = 1e-8
"""Least noise that is learned from few distinct rows, as a part of the targets' mean square: their
kernel matrix is factored whole, so that less noise than usual does no harm."""


def evidence_options(optimizer: str | Evidence | None) -> Evidence:
    """Options of the evidence; the defaults if ``optimizer`` is a name."""
    if isinstance(optimizer, Evidence):
        return optimizer
    return Evidence(rows=limits.EVIDENCE_ROWS)


def is_learnable(kernel: Any, n_features: int | None) -> bool:
    """Whether the evidence has a gradient in hyper-parameters that the kernel leaves free."""
    return not _nothing_to_learn(kernel, n_features)


def _nothing_to_learn(kernel: Any, n_features: int | None) -> str:
    """Why the evidence has nothing to learn of a kernel; empty if it has."""
    if is_precomputed(kernel):
        return "a matrix of kernel values has no hyper-parameters that the evidence could learn"
    if isinstance(kernel, str) and not is_search(kernel):
        return (
            f"the evidence learns kernel objects of sklearn.gaussian_process.kernels, and "
            f"{kernel!r} is a name"
        )
    built = kernel is None or is_search(kernel)
    if not built and not isinstance(kernel, SklearnKernel):
        return "a function has no hyper-parameters that the evidence could learn"
    if n_features is None:
        return "the evidence learns from rows of numbers only"
    if n_features > _DENSE_FEATURES:
        return f"the evidence learns from at most {_DENSE_FEATURES:,} features"
    if built:
        return ""
    core, _ = without_white(_one_for_all(kernel))
    if core is None or all(one.fixed for one in core.hyperparameters):
        return "all its hyper-parameters are fixed"
    if kernel_gradient(core) is None:
        return "a part of it has no derivatives by its hyper-parameters"
    return ""


def why_kept(optimizer: Any, kernel: Any, n_features: int | None, power: float) -> str:
    """Why the kernel is not learned from targets of some mean square; empty if it is."""
    if optimizer is None:
        return "optimizer=None keeps the kernel"
    reason = _nothing_to_learn(kernel, n_features)
    if reason or power > 0:
        return reason
    return "the targets are all equal"


def is_search(kernel: Any) -> bool:
    """Whether the form of the kernel is searched for."""
    return isinstance(kernel, str) and kernel == SEARCH


def _one_for_all(kernel: Any) -> Any:
    """The kernel with one term of each additive kernel in a sum: the others are of its form."""
    if not holds(kernel, Additive):
        return kernel
    terms = [one.first_term() if isinstance(one, Additive) else one for one in terms_of(kernel)]
    return expanded(sum_of_terms(terms))


def noise_range(
    kernel: Any, noise: float | str, power: float, floor: float = NOISE_FLOOR
) -> NoiseRange:
    """Range of the noise: fixed, the bounds of a White term, or wide."""
    whites = without_white(kernel)[1] if isinstance(kernel, SklearnKernel) else []
    if not isinstance(noise, str):
        total = float(noise) + float(sum(white.noise_level for white in whites))
        return NoiseRange(total, total, total, fixed=True)
    if not whites:
        return NoiseRange(0.1 * power, floor * power, 10.0 * power)
    level = float(sum(white.noise_level for white in whites))
    if all(isinstance(white.noise_level_bounds, str) for white in whites):
        return NoiseRange(level, level, level, fixed=True)
    bounds = np.array(
        [w.noise_level_bounds for w in whites if not isinstance(w.noise_level_bounds, str)]
    )
    low, high = bounds[:, 0].min(), bounds[:, 1].max()
    return NoiseRange(float(np.clip(level, low, high)), float(low), float(high))


def learn(
    kernel: Any,
    sample: Sample,
    deviations: Floats,
    noise: NoiseRange,
    *,
    options: Evidence,
    rng: np.random.Generator,
    workers: Workers,
    known: ColumnNames,
    classes: bool = False,
    late: Callable[[], bool] = never,
) -> Learned:
    """Maximise the evidence on a random subset of the rows; the kernel's White terms are noise.

    With ``classes`` the targets are ±1, and a kernel that is not given may have one length scale
    for all features. ``known`` has the columns of categories. When it is ``late``, the best found
    so far is taken.
    """
    if has_gaps(sample.targets):
        _refuse_growth(kernel)
    # Where all rows learn, nothing is drawn: their order is the same whatever the seed.
    order = rng if sample.n_rows > options.rows else np.random.default_rng(0)
    rows = order.permutation(draw_rows(sample.n_rows, options.rows, rng))
    data = _evidence(sample, rows, workers)
    power = sample.target_power()
    search: dict[str, Any] = {"restarts": options.restarts, "rng": rng, "late": late}
    if is_search(kernel):
        judges = _judges(sample, rows, workers)
        return search_kernel(data, judges, known, deviations, power, noise, **search)
    if _learns_from_few(kernel, known, sample, len(deviations)):
        scales = first_scales(deviations, known)
        return learn_few(data, scales, power, noise, classes=classes, **search)
    if kernel is None and classes and not known.levels:
        return learn_shape(data, deviations, power, noise, **search)
    if kernel is None:
        return learn_fixed(data, known, deviations, power, noise, **search)
    core, _ = without_white(kernel)
    if any(isinstance(term, Additive) for term in terms_of(core)):
        learned = grow_additive(data, core, deviations, power, noise, **search)
    else:
        learned = learn_given(data, expanded(core), noise, **search)
    return learn_pairs(data, learned, noise, late)


def _learns_from_few(kernel: Any, known: ColumnNames, sample: Sample, n_features: int) -> bool:
    """Whether the rows are few, and nothing is given that would be learned in another way."""
    # A row of weight 3 is three rows; weights below 1 do not make rows few.
    counted = max(float(sample.n_rows), float(sample.weights.sum()))
    return kernel is None and not known.levels and are_few(counted, n_features)


def _has_copies(sample: Sample) -> bool:
    """Whether a row comes more than once: copies agree, and would pass for exact targets."""
    items = sample.rows.take(np.arange(sample.n_rows))
    totals = np.bincount(row_groups([items], sample.n_rows), weights=sample.weights)
    return bool(totals.max(initial=0.0) > 1.0)


def _refuse_growth(kernel: Any) -> None:
    """Refuse to find the form of a kernel from targets with gaps."""
    if is_search(kernel) or (kernel is not None and holds(kernel, Additive)):
        raise ValueError(
            "the form of a kernel is searched for on targets without gaps, and some are NaN: "
            "search on one output, or on rows that have all of them, and pass its kernel_."
        )


def _default_kernel(deviations: Floats, power: float, known: ColumnNames) -> Any:
    """The kernel of an estimator that is given none and learns none."""
    kernel = ConstantKernel(power if power > 0 else 1.0) * RBF(first_scales(deviations, known))
    return mixed_kernel(kernel, known) if known.levels else kernel


def _evidence(sample: Sample, rows: Indices, workers: Workers) -> tuning.Evidence:
    """Some rows, with their targets."""
    subset = sample.take(rows)
    X = np.asarray(dense(subset.rows.take(np.arange(len(rows)))), dtype=np.float64)
    drawn = len(rows) < sample.n_rows
    return tuning.Evidence.of(X, subset.targets, subset.weights, workers, drawn)


def _judges(sample: Sample, learning: Indices, workers: Workers) -> tuning.Evidence | None:
    """Rows beside those that learn, evenly spaced; None if there are too few."""
    others = np.setdiff1d(np.arange(sample.n_rows), learning)
    if len(others) < _FEWEST_JUDGES:
        return None
    count = min(len(others), _SEARCH_JUDGES)
    return _evidence(sample, others[np.linspace(0, len(others) - 1, count, dtype=int)], workers)


def warn_of_light_rows(
    estimator: Any, sample: Sample, X: Any, instead: str = "give kernel and noise"
) -> None:
    """Warn if kernel and noise are learned from weights that seem to add up to 1.

    The evidence takes a weight w for w copies, and from less than one row there is nothing to
    learn. ``instead`` says how to do without learning.
    """
    free = estimator.optimizer is not None and is_learnable(
        estimator._given_kernel(expand=False), n_features(X)
    )
    heaviest, total = float(sample.weights.max()), float(sample.weights.sum())
    if heaviest >= _LIGHT or not (free or isinstance(estimator.noise, str)):
        return
    warn(
        f"sample_weight is at most {heaviest:.2g} and adds up to {total:.3g}: a row of weight w "
        f"counts as w copies, so the model is learned as from {total:.3g} rows. Multiply the "
        f"weights by {sample.n_rows / total:.3g} for an average of 1, or {instead}."
    )


@dataclass(frozen=True)
class LearnedKernel:
    """Kernel and noise in use, learned or given.

    Attributes
    ----------
    kernel, noise
        What becomes ``kernel_`` and ``noise_``.
    report : LearningReport
        What was learned, and how.
    deviations : array of shape (n_features,), optional
        Standard deviation of each feature, for numeric input; 0 where it is constant.
    learns, noise_is_given : bool
        Whether hyper-parameters were learned; whether the noise could not be.
    factor : float
        What kernel and noise have been multiplied by because few rows leave them unknown.
    """

    kernel: Any
    noise: float
    report: LearningReport
    deviations: Floats | None
    learns: bool
    noise_is_given: bool
    factor: float = 1.0


def learn_or_keep(
    estimator: Any,
    sample: Sample,
    X: Any,
    rng: np.random.Generator,
    run: FitRun,
    *,
    classes: bool = False,
    noise: float | str | None = None,
    options: Evidence | None = None,
    until: float = LEARNING_SHARE,
    pilot: bool = False,
) -> tuple[LearnedKernel, CountingKernel]:
    """Learn, or take as given, the kernel and noise of an estimator; also the kernel compiled.

    The estimator has the parameters kernel, noise, optimizer, gamma, coef0, degree and
    kernel_params; ``noise`` and ``options`` of the evidence may be given in place of its own. With
    ``classes`` the targets are ±1, and the noise only serves the choice of a basis. Learning ends
    when the share ``until`` of the fit's time is over, and the report says so. Hyper-parameters of
    a given kernel that end at their bounds are warned of, but not by a ``pilot``, after which they
    are learned again. The counter of the compiled kernel starts at 0: what learning has evaluated
    is not a cost of the choice.
    """
    learned: LearnedKernel | None = run.resume("learn")
    if learned is not None:
        return learned, estimator._compile(learned.kernel, X)[0]

    def late() -> bool:
        return run.stopping or run.clock.over(until)

    noise = estimator.noise if noise is None else noise
    options = evidence_options(estimator.optimizer) if options is None else options
    learned, compiled, ends = _learn_or_take(
        estimator, sample, X, rng, run.workers, classes, late, noise, options
    )
    for end in ends:
        # Bounds that are no numbers to a user are our own, and widened by nobody.
        if end.bound is not None and not pilot:
            warn(end.warning, ConvergenceWarning)
    return run.keep("learn", learned), CountingKernel(compiled.kernel)


def _learn_or_take(
    estimator: Any,
    sample: Sample,
    X: Any,
    rng: np.random.Generator,
    workers: Workers,
    classes: bool,
    late: Callable[[], bool],
    given_noise: float | str,
    options: Evidence,
) -> tuple[LearnedKernel, CountingKernel, list[AtBound]]:
    """What the evidence says, or what is given, and hyper-parameters that ended at their bounds.

    The kernel has counted what this has evaluated.
    """
    kernel, power = estimator._given_kernel(expand=False), sample.target_power()
    known = estimator._known_columns()
    width = n_features(X)
    if kernel is None or is_search(kernel):
        _refuse_named_parameters(estimator)
    if is_search(kernel):
        _check_search(estimator, width, classes)
    numeric = width is not None and not is_precomputed(kernel)
    deviations = feature_deviations(sample, rng) if numeric or kernel is None else None
    units = None if deviations is None else or_one(deviations)
    floor = _CLASS_FLOOR if classes else NOISE_FLOOR
    if not classes and width is not None and _learns_from_few(kernel, known, sample, width):
        floor = NOISE_FLOOR if _has_copies(sample) else _FEW_FLOOR
    given = noise_range(kernel, given_noise, power, floor)
    kept = why_kept(estimator.optimizer, kernel, width, power)
    learns = not kept
    kernel = kernel if learns else expanded(kernel)
    if kernel is not None and learns and not is_search(kernel):
        estimator._compile(_one_for_all(kernel), X)  # what is wrong is said before it is learned
    family, stages, path, factor = LearningReport().family, [], [], 1.0
    notes, ends = _idle_warnings(estimator.optimizer, kept), []
    if learns:
        learned = learn(
            kernel,
            sample,
            np.asarray(units),
            given,
            options=options,
            rng=rng,
            workers=workers,
            known=known,
            classes=classes,
            late=late,
        )
        if kernel is not None and not learned.path:
            ends = at_bounds(_at_learned_values(kernel, learned, given))
        notes = [f"{end.note}: widen its bounds, or fix it if you want that" for end in ends]
        own_floor = not (classes or given.fixed or _has_white(kernel))
        kernel, noise = learned.kernel, learned.noise
        family, stages, path = learned.family, learned.stages, learned.path
        factor = learned.factor
        notes += _floor_warnings(noise / factor, given.low, power) if own_floor else []
        notes += (
            ["max_time or Ctrl-C ended the learning of kernel and noise early"] if late() else []
        )
    elif kernel is None or is_search(kernel):
        assert units is not None
        kernel = _default_kernel(units, power, known)
    notes += _id_warnings(known, sample.n_rows)
    compiled, white = estimator._compile(kernel, X)
    check_positive_definite(compiled, sample, rng)
    if not learns:
        noise = _keep_noise(given_noise, white, sample, compiled, rng, workers)
    relevance, names = None, []
    if deviations is not None and isinstance(kernel, SklearnKernel):
        names = feature_names(estimator, len(deviations))
        relevance = feature_relevance(kernel, deviations)
    report = LearningReport(
        family=family,
        kept=kept,
        stages=stages,
        warnings=notes,
        relevance=relevance,
        feature_names=names,
        search_path=path,
        few_rows="" if factor == 1.0 else f"variances times {factor:.3g}, learned with weak priors",
    )
    learned_kernel = LearnedKernel(kernel, noise, report, deviations, learns, given.fixed, factor)
    return learned_kernel, compiled, ends


def _refuse_named_parameters(estimator: Any) -> None:
    for name in KERNEL:
        if getattr(estimator, name) is not None:
            raise ValueError(
                f"{name} belongs to kernels given by name, and kernel is {estimator.kernel!r}: "
                f"give a name such as kernel='rbf', or leave {name} out."
            )


def _check_search(estimator: Any, width: int | None, classes: bool) -> None:
    if classes:
        raise ValueError(
            "kernel='search' compares errors of regressors, and this is a classifier: use "
            "kernel=None, or give a kernel, which is learned."
        )
    if width is None or width > _DENSE_FEATURES:
        raise ValueError(
            f"kernel='search' is for rows of at most {_DENSE_FEATURES} numbers: give a kernel for "
            "these items."
        )
    if estimator.optimizer is None:
        raise ValueError(
            "kernel='search' learns, and optimizer=None does not: use optimizer='evidence', or "
            "give a kernel."
        )


def _keep_noise(
    noise: float | str,
    white: float,
    sample: Sample,
    kernel: CountingKernel,
    rng: np.random.Generator,
    workers: Workers,
) -> float:
    """The given noise, that of White terms, or the best for the given kernel."""
    if not isinstance(noise, str):
        return float(noise) + white
    if white > 0:
        return white
    return learn_noise(sample, kernel, rng=rng, workers=workers, all_rows_up_to=limits.SMALL_ROWS)


def _has_white(kernel: Any) -> bool:
    """Whether a kernel object has White terms, whose bounds are those of the noise."""
    return isinstance(kernel, SklearnKernel) and bool(without_white(kernel)[1])


def _at_learned_values(kernel: Any, learned: Learned, noise: NoiseRange) -> Any:
    """The kernel that was given, at what was learned, so that hyper-parameters have their names.

    A single White term has the learned noise. Where the parameters are others than those that were
    learned, it is the learned kernel.
    """
    whole = clone(kernel)
    names = [
        one.name for one in whole.hyperparameters if not one.fixed for _ in range(one.n_elements)
    ]
    white = np.array([name.endswith("noise_level") for name in names], dtype=bool)
    others = white.sum() > (0 if noise.fixed else 1)
    if others or (~white).sum() != len(learned.kernel.theta):
        return learned.kernel
    theta = np.full(len(names), np.log(learned.noise))
    theta[~white] = learned.kernel.theta
    whole.theta = theta
    return whole


def _idle_warnings(optimizer: Any, kept: str) -> list[str]:
    """A note if options of the evidence are given that nothing uses."""
    if not kept or not isinstance(optimizer, Evidence):
        return []
    return [f"optimizer={optimizer!r} has no effect, since the kernel is kept: {kept}"]


def _id_warnings(known: ColumnNames, n_rows: int) -> list[str]:
    """Notes on category columns that hardly repeat a level."""
    return [
        f"column {j if known.names is None else known.names[j]!r} has {len(levels)} levels in "
        f"{n_rows} rows: it says little about new rows, leave it out if it numbers them"
        for j, levels in (known.levels or {}).items()
        if len(levels) > max(_FEW_LEVELS, n_rows // 2)
    ]


def _floor_warnings(noise: float, least: float, power: float) -> list[str]:
    """A note if the noise lies at its floor."""
    if noise > 1.01 * least:
        return []
    return [
        f"the noise sits at its floor of {least / power:g} of the targets' variance: give noise= a "
        "smaller number if the targets are that exact"
    ]


RESERVED_ROWS = 2000
_ROWS_A_RESERVED = 5
_AUTO_STEPS = 100
_SMALLEST_CALIBRATED = 16
_LEAST_GAIN = 1e-3
"""Part of the error on reserved rows that moves must save. Smaller: chance decides."""
_JUDGING_STEPS, _PASSES_A_STEP = 12, 2
"""In the time of this many steps moves are judged; one step costs two passes over its rows."""


def split_rows(n_rows: int, rng: np.random.Generator, *, moves: bool, judged: bool) -> RowSplit:
    """Reserve at most a fifth of the rows if the basis is moved, or judged on many rows."""
    if not (moves or (judged and n_rows > limits.SMALL_ROWS)):
        return RowSplit.none_reserved(n_rows)
    reserved = draw_rows(n_rows, min(RESERVED_ROWS, n_rows // _ROWS_A_RESERVED), rng)
    return RowSplit(np.setdiff1d(np.arange(n_rows), reserved, assume_unique=True), reserved)


def moving_steps(refine: Any, learned: LearnedKernel, n_rows: int) -> int:
    """Gradient steps that move the basis; ``"auto"`` moves that of a learned kernel on many rows.

    None where there are too few rows to reserve one that judges the moves.
    """
    if refine == "auto":
        return _AUTO_STEPS if learned.learns and n_rows > limits.SMALL_ROWS else 0
    steps = int(refine)
    if steps == 0 or n_rows < _ROWS_A_RESERVED:
        return 0
    kernel = learned.kernel
    known = isinstance(kernel, SklearnKernel) and learned.deviations is not None
    if not known or kernel_gradient(without_white(kernel)[0], "points") is None:
        raise ValueError(
            f"refine={refine!r} moves points along the kernel's gradient, which is not known of "
            f"{kernel!r}: pass an RBF or Matern of sklearn.gaussian_process.kernels, or use "
            "refine=False."
        )
    return steps


def held_out(
    problem: Problem,
    pool: Pool,
    solution: SpanSolution,
    rows: Indices,
    ratio: Floats | None = None,
) -> HeldOut:
    """Numbers that leave-one-out needs of some rows, given in ascending order.

    ``ratio`` is the noise variance of every row of the problem relative to the model's, where it
    varies.
    """
    sample = problem.sample.take(rows)
    items = sample.rows.take(np.arange(len(rows)))
    group = row_groups([items], len(rows))
    return HeldOut(
        solution.features(problem.kernel.tile(items, pool.items)),
        sample.targets,
        sample.weights,
        problem.kernel.diag(items),
        group,
        _leaving(pool, solution, rows, group),
        1.0 if ratio is None else ratio[rows],
    )


def _leaving(pool: Pool, solution: SpanSolution, rows: Indices, group: Indices) -> Floats | None:
    """R⁻¹e_j for rows identical to the j-th basis point, 0 for others; None if none is one."""
    points = np.flatnonzero(np.isin(pool.index, rows))
    if len(points) == 0:
        return None
    own = np.full(len(rows), -1)
    own[group[np.searchsorted(rows, pool.index[points])]] = points
    own = own[group]
    inverse = solution.features(np.eye(solution.size))
    leaving = np.zeros((solution.size, len(rows)))
    leaving[:, own >= 0] = inverse[:, own[own >= 0]]
    return leaving


def sketched(problem: Problem, rows: Indices, n_rows: int) -> Problem:
    """The problem on a random part of the given rows, its ridge in proportion."""
    some = rows[draw_rows(len(rows), n_rows, problem.rng)]
    share = len(some) / problem.sample.n_rows
    noise = problem.noise * share
    return replace(problem, sample=problem.sample.take(some), noise=noise, ledgers=None)


def _judge_rows(pool: Pool) -> int:
    """Rows of a fit that other rows judge: too few make a large basis look bad."""
    return max(8192, 4 * len(pool))


_STILL_GAINS = 0.8
"""A choice of which more than this part is worth its cost may have been too small."""
_DOUBLING_GAINS = 0.01
"""A choice of twice the size is tried if it is expected to lower the log loss of classes by this
number, or the squared error by this share. Larger: smaller models."""


def choose_size(
    choice: Choice, problem: Problem, split: RowSplit, *, classes: bool = False
) -> tuple[Choice, bool]:
    """Cut the choice where the error on rows left out flattens, or their log loss for classes.

    Also returns whether a choice of twice the size is expected to gain.
    """
    if not len(choice.pool):
        return choice, False
    in_fit = len(split.reserved) == 0
    if in_fit:
        fitted = refit(choice, problem, reorder=False)
        solution = fitted.solution
        rows = held_out(problem, fitted.pool, solution, np.arange(problem.sample.n_rows))
    else:
        seen = sketched(problem, split.allowed, _judge_rows(choice.pool))
        points, solution = solve_in_span(seen, choice.pool.items)
        rows = held_out(problem, Pool.of_points(points), solution, split.reserved)
    curve = loss_curve if classes else error_curve
    losses = curve(solution, rows, in_fit=in_fit)
    size = flat_size(losses, nothing=LOSS_IS_NOTHING if classes else 0.0)
    known = np.flatnonzero(np.isfinite(losses))
    doubled = [known[known < max(len(losses) >> halved, 1)][-1] for halved in (2, 1, 0)]
    at_sizes = (
        losses[doubled] if classes else np.log(np.maximum(losses[doubled], np.finfo(float).tiny))
    )
    promises = next_gain(at_sizes) > _DOUBLING_GAINS
    goes_on = promises and size >= _STILL_GAINS * len(choice.pool)
    if size >= len(choice.pool):
        return choice, bool(goes_on)
    return choice.truncated(size, "no gain"), bool(goes_on)


def move_basis(
    chosen: Chosen,
    problem: Problem,
    learned: LearnedKernel,
    steps: int,
    split: RowSplit,
    run: FitRun,
) -> tuple[Chosen, str]:
    """Move the chosen points; also returns a sentence on the result.

    They stay where they were unless the error on the reserved rows falls, and the moves end early
    where the first of them bring nothing. What is left of the fit's time is for the moves, for
    judging them and for the pass over all rows.
    """
    recorded = run.resume("move")
    if recorded is not None:
        return Chosen(recorded[0]), recorded[1]
    choice, kernel = chosen.choice, learned.kernel
    gradient = kernel_gradient(without_white(kernel)[0], "points")
    assert gradient is not None
    pool, reserved = choice.pool, split.reserved
    start = dense(pool.items)
    units = length_units(kernel, np.asarray(learned.deviations))
    mover = Mover(problem, gradient, units, split.allowed)
    judge = sketched(problem, split.allowed, _judge_rows(pool))
    before = _reserved_error(judge, problem, start, reserved)

    judged = np.empty(0), np.inf

    def gains(points: Any) -> tuple[bool, float]:
        nonlocal judged
        if not np.array_equal(points, judged[0]):  # moves may end where they were judged
            judged = points.copy(), _reserved_error(judge, problem, points, reserved)
        return judged[1] < (1.0 - _LEAST_GAIN) * before, judged[1]

    rest = _JUDGING_STEPS + problem.sample.n_rows / (_PASSES_A_STEP * BATCH_ROWS)
    moved, taken, cut = mover.move(
        start, steps, run.clock.left(), rest, promising=lambda points: gains(points)[0]
    )
    gained, after = gains(moved)
    change = f"the error on {len(reserved)} reserved rows"
    if not gained:
        sentence = f"{taken} steps undone: {change} went from {before:.4g} to {after:.4g}"
    else:
        sentence = f"moved by {taken} steps: {change} fell from {before:.4g} to {after:.4g}"
        path = replace(choice.path, index=np.full(len(pool), -1, dtype=np.intp))
        choice = Choice(Pool.of_points(moved), path, None)
    if not cut:
        run.keep("move", (choice, sentence))
    return Chosen(choice), sentence


def _reserved_error(judge: Problem, problem: Problem, points: Any, reserved: Indices) -> float:
    """Root mean square error on the reserved rows of a fit to the sketch."""
    points, solution = solve_in_span(judge, points)
    rows = problem.sample.take(reserved)
    fitted = kernel_times(
        rows.rows, problem.kernel, points, solution.coefficients(), problem.workers
    )
    square = rows.weights @ (rows.targets - fitted) ** 2
    return float(np.sqrt(square.mean() / rows.weights.sum()))


def calibrate_fit(
    fitted: SpanFit,
    problem: Problem,
    reserved: Indices,
    *,
    keep_ridge: bool,
    ratio: Floats | None = None,
    factor: float = 1.0,
) -> tuple[SpanFit, dict[int, Calibration]]:
    """Ridge and error bars by leave-one-out, for the model and for n/2, n/4, … basis functions.

    Rows that have had a part in the choice of the basis think too well of a small ridge: where none
    are reserved, the ridge stays. ``ratio`` is that of :func:`held_out`. Few rows that are left out
    in turn have all had a part in hyper-parameters: the variance is multiplied by the ``factor``
    of what is not known of them.
    """
    if fitted.solution.size == 0:
        return fitted, {}
    chosen = reserved if len(reserved) else np.arange(problem.sample.n_rows)
    rows = held_out(problem, fitted.pool, fitted.solution, chosen, ratio)
    keep_ridge = keep_ridge or len(reserved) == 0
    how: dict[str, Any] = {"keep_ridge": keep_ridge, "factor": factor}
    solution, by_size = calibrate_sizes(fitted.solution, rows, **how)
    value = solution.values(problem.sample.target_norms())
    return replace(fitted, solution=solution, path=replace(fitted.path, value=value)), by_size


def calibrate_sizes(
    solution: Ridged, rows: LeavableRows[Ridged], *, keep_ridge: bool, factor: float = 1.0
) -> tuple[Ridged, dict[int, Calibration]]:
    """The calibrated solution, and the calibrations of n, n/2, n/4, … basis functions."""
    how: dict[str, Any] = {"keep_ridge": keep_ridge, "factor": factor}
    calibrated, found = calibrate(solution, rows, **how)
    by_size = {solution.size: found}
    n = solution.size // 2
    while n >= _SMALLEST_CALIBRATED:
        _, by_size[n] = calibrate(solution.truncated(n), rows.truncated(n), **how)
        n //= 2
    return calibrated, by_size


_EXPLAINED_ROWS, _EXPLAINED_FEATURES = 1000, 2000
"""Importance is found on at most so many rows, and for no more features."""
_SHARE_EXPLAINED, _FEWEST_EXPLAINED, _FEWEST_PERMUTED = 20, 50, 20
"""Where nothing is learned, one in 20 rows must do, but at least 50: a fit is fast then. A kernel
without derivatives is evaluated for one in 20 rows in all, with one feature permuted in each, and
for less than 20 rows per feature not at all."""
_LONG_STEP = 0.5
"""Columns of few values are permuted where they range over more length scales than this: gradients
say little of steps then. Lower: more predictions, and hardly another result."""
_MOST_STEPPED = 100
"""Most columns of few values that are permuted. More: importance takes longer than the fit."""
_BOOTSTRAPS = 30
"""Samples of the rows for the errors of importance. More: errors known more exactly."""


def with_importance(
    learned: LearnedKernel,
    estimator: Any,
    problem: Problem,
    points: Any,
    coefficients: Floats,
    run: FitRun,
) -> LearningReport:
    """The report with the importance of the features, relative to the predictions' deviation.

    It is what the method ``importance`` finds on some of the rows, by gradients or, where there are
    none, by permutations. It has random numbers of its own. An interrupted fit does without.
    """
    recorded: LearningReport | None = run.finished("importance")
    if recorded is not None or run.stopping:
        return recorded or learned.report
    report, sample, kernel = learned.report, problem.sample, problem.kernel
    width = getattr(estimator, "n_features_in_", None)
    if width is None or width > _EXPLAINED_FEATURES or reads_matrix(estimator):
        return report
    few = sample.n_rows // _SHARE_EXPLAINED
    permuted = category_columns(estimator)
    n_rows = _EXPLAINED_ROWS if learned.learns else max(few, _FEWEST_EXPLAINED)
    if not kernel.has_points:
        permuted, n_rows = list(range(width)), few // width
        if n_rows < _FEWEST_PERMUTED:
            return report
    rng = seeded(0)
    some = draw_rows(sample.n_rows, min(n_rows, _EXPLAINED_ROWS), rng)
    X = np.asarray(dense(sample.rows.take(some)), dtype=np.float64)
    share = sample.weights[some] / sample.weights[some].sum()
    if kernel.has_points:
        permuted = sorted({*permuted, *_long_steps(X, kernel)})

    def values(rows: Floats) -> Floats:
        return kernel_times(as_rows(rows), kernel, points, coefficients, problem.workers)

    f, scale = values(X), getattr(estimator, "_scale", None)
    units, moves = _powers_of_two(X, axis=0), np.zeros((*X.shape, f.shape[1]))
    if kernel.has_points:
        known = as_rows(X), kernel, dense(points), coefficients, problem.workers
        moves = expansion_gradient(*known) * units[:, None]
    for j in permuted:
        moved = X.copy()
        moved[:, j] = X[rng.permutation(len(X)), j]
        moves[:, j] = np.sqrt(0.5) * (values(moved) - f)
    # Squares leave the range of floats unless columns, and then their effects, are near 1 in size.
    sizes = _powers_of_two(moves, axis=(0, 2))
    squares = (moves / sizes[:, None]) ** 2
    # The first weighting is that of the rows, the others are bootstrap samples.
    size = round(1.0 / float(share @ share))  # as many rows of equal weight are as sure
    shares = np.vstack([share, rng.multinomial(size, share, size=_BOOTSTRAPS) / size])
    spread = column_variances(X / units, shares)
    spread[:, permuted] = 1.0
    variance = column_variances(f, shares)
    flat = is_flat(f if scale is None else scale.restore(f)) | (variance == 0.0)
    means = np.tensordot(shares, squares, axes=1) * spread[:, :, None]
    figures = np.sqrt((means / np.where(flat, np.inf, variance)[:, None]).mean(axis=2))
    figures *= sizes
    found = replace(
        report,
        importance=figures[0],
        importance_std=figures[1:].std(axis=0, ddof=1),
        feature_names=feature_names(estimator, width),
    )
    return run.keep("importance", found)


def _powers_of_two(values: Floats, axis: int | tuple[int, ...]) -> Floats:
    """Numbers by which values are at most 1 in size, without rounding; 1 where all are 0."""
    largest = np.abs(values).max(axis=axis, initial=0.0)
    return np.asarray(np.ldexp(1.0, np.frexp(largest)[1]))


def _long_steps(X: Floats, kernel: CountingKernel) -> list[int]:
    """Columns of few values, some of them far from each other for the kernel."""
    columns, scales = stepped_columns(X), kernel.length_scales
    if scales is not None:
        ratios = np.ptp(X, axis=0) / scales
        columns = [j for j in columns if ratios[j] > _LONG_STEP]
    return columns if len(columns) <= _MOST_STEPPED else []


def length_units(kernel: Any, deviations: Floats) -> Floats:
    """The smallest length scale of each feature, or its deviation where the kernel has none."""
    units = np.full(len(deviations), np.inf)
    for leaf in leaves(kernel, len(deviations)):
        scale = _length_scale(leaf.kernel)
        if scale is not None:
            units[leaf.columns] = np.minimum(units[leaf.columns], scale)
    return np.where(np.isfinite(units), units, or_one(deviations))


def feature_relevance(kernel: Any, deviations: Floats) -> Floats | None:
    """sd_j / ℓ_j, the largest over the kernel's parts that have a length scale for the feature.

    It is 0 where no part looks at the feature. None if one is only looked at by parts that have no
    length scale, or one for several features.
    """
    relevance = np.zeros(len(deviations))
    seen, known = np.zeros((2, len(deviations)), dtype=bool)
    for leaf in leaves(kernel, len(deviations)):
        if isinstance(leaf.kernel, ConstantKernel | WhiteKernel):
            continue
        seen[leaf.columns] = True
        scale = _length_scale(leaf.kernel)
        if scale is not None and np.size(scale) == len(leaf.columns):
            known[leaf.columns] = True
            ratios = deviations[leaf.columns] / scale
            relevance[leaf.columns] = np.maximum(relevance[leaf.columns], ratios)
    return relevance if np.array_equal(known, seen) and known.any() else None


def _length_scale(kernel: Any) -> Floats | None:
    """The length scale of a kernel without parts, in units of its features; None if it has none."""
    if not hasattr(kernel, "length_scale"):
        return None
    # A periodic kernel is like one of this length scale for rows that are near each other.
    unit = kernel.periodicity / (2.0 * np.pi) if isinstance(kernel, ExpSineSquared) else 1.0
    return unit * np.asarray(kernel.length_scale, dtype=float)
