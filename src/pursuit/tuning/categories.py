"""Learning with category columns: the default kernel, and a correlation for each pair of levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from pursuit._types import Floats
from pursuit.kernels import (
    Categorical,
    ColumnNames,
    ColumnsKernel,
    compile_kernel,
    on_columns,
    resolve_columns,
)
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.learning import family_kernel, first_rows, learn_family, roughest, second_stage
from pursuit.tuning.optimiser import Learned, NoiseRange, maximise, never
from pursuit.tuning.report import FAMILIES

_PROBES = 50
"""Rows at which levels are compared, where factors start. More: slower, hardly better."""
_MOST_RANK = 6
"""Largest rank that is tried where none is given."""
_ROUNDS = 30
"""Rounds of the factor analysis. More: hardly a better start."""
_MOST = 0.98
"""Largest share of a level's variance that it has in common with others, at the start."""


def mixed_kernel(kernel: Any, known: ColumnNames) -> Any:
    """Constant x kernel of the columns of numbers x Categorical of the others.

    ``kernel`` is a constant times a kernel of as many columns as there are of numbers.
    """
    levels = resolve_columns(Categorical(sorted(known.levels or {})), known)
    if not known.numbers:
        return kernel.k1 * levels
    return kernel.k1 * (resolve_columns(on_columns(kernel.k2, known.numbers), known) * levels)


def first_scales(deviations: Floats, known: ColumnNames) -> Floats:
    """Where the length scales of the d columns of numbers start: sd·√d."""
    scales: Floats = deviations[known.numbers] * np.sqrt(len(known.numbers))
    return scales


def learn_fixed(
    data: Evidence,
    known: ColumnNames,
    deviations: Floats,
    variance: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    **search: Any,
) -> Learned:
    """Learn the best of the fixed families, multiplied by Categorical where there are categories.

    ``deviations`` are those of all columns.
    """
    scales = first_scales(deviations, known)
    if known.levels:
        return learn_mixed(data, known, scales, variance, noise, late, **search)
    return learn_family(data, scales, variance, noise, late, **search)


def learn_mixed(
    data: Evidence,
    known: ColumnNames,
    scales: Floats,
    variance: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    **search: Any,
) -> Learned:
    """Compare families for the columns of numbers, with one correlation for each other column.

    ``scales`` are length scales of the columns of numbers. Correlations of pairs of levels follow.
    """
    first = first_rows(data)
    families = FAMILIES if len(scales) else ("categories",)
    learned: list[Learned] = []
    for family in families:
        if not (learned and late()):
            numbers = family_kernel(family if len(scales) else "rbf", scales, variance)
            kernel = mixed_kernel(numbers, known)
            learned.append(maximise(first, kernel, noise, family, late=late, **search))
    winner = learn_pairs(first, roughest(learned), noise, late)
    return learn_pairs(data, second_stage(data, winner, noise, late), noise, late)


def learn_pairs(
    data: Evidence, learned: Learned, noise: NoiseRange, late: Callable[[], bool] = never
) -> Learned:
    """Try a correlation for each pair of levels, column by column, where the kernel allows it.

    It is kept where asked for, or if the log evidence rises by more than one for each number that
    it has more than one correlation: Akaike's criterion.
    """
    for path, column in _pairable(learned.kernel):
        if late():
            break
        learned = _with_pairs(data, learned, path, column, noise, late)
    return learned


def _with_pairs(
    data: Evidence,
    learned: Learned,
    path: str,
    column: int,
    noise: NoiseRange,
    late: Callable[[], bool],
) -> Learned:
    """What is learned with a factor for one column, or what was learned before."""
    again = replace(noise, start=learned.noise)
    first, asked = first_rows(data), _part(learned.kernel, path).correlations == "pairs"
    paired = _best_rank(first, learned, path, column, again, late)
    stages = learned.stages + paired.stages
    penalty = _penalty(paired, path, column)
    if not asked:
        # More rows may raise the gain in proportion to their number, but hardly further.
        before = first.value_and_gradient(learned.kernel, learned.noise)
        gain = paired.evidence_per_row * _rows(first) - (-np.inf if before is None else before[0])
        if gain * _rows(data) / _rows(first) <= penalty:
            return replace(learned, stages=stages)
    paired = second_stage(data, replace(paired, stages=stages), again, late)
    gain = (paired.evidence_per_row - learned.evidence_per_row) * _rows(data)
    if not asked and gain <= penalty:
        return replace(learned, stages=paired.stages)
    return replace(
        learned,
        kernel=paired.kernel,
        noise=paired.noise,
        evidence_per_row=paired.evidence_per_row,
        stages=paired.stages,
    )


def _best_rank(
    first: Evidence,
    learned: Learned,
    path: str,
    column: int,
    noise: NoiseRange,
    late: Callable[[], bool],
) -> Learned:
    """A factor of the rank asked for, or of 2, 3, … as long as Akaike's criterion rises."""
    part = _part(learned.kernel, path)
    most = len(part.levels[column]) - 1
    ranks = range(min(2, most), min(_MOST_RANK, most) + 1)
    if part.rank is not None:
        ranks = range(min(part.rank, most), min(part.rank, most) + 1)
    best, stages = None, []
    for rank in ranks:
        kernel = _with_factor(first, learned, path, column, rank)
        tried = maximise(first, kernel, noise, f"{learned.family}, pairs", late=late)
        stages += tried.stages
        if best is not None and _score(tried, first, path, column) <= _score(
            best, first, path, column
        ):
            break
        best = tried
        if late():
            break
    assert best is not None
    return replace(best, stages=stages)


def _score(learned: Learned, data: Evidence, path: str, column: int) -> float:
    return learned.evidence_per_row * _rows(data) - _penalty(learned, path, column)


def _penalty(learned: Learned, path: str, column: int) -> float:
    """How many numbers a column has beyond one correlation."""
    return _free_numbers(*_part(learned.kernel, path).factors[column].shape) - 1.0


def _rows(data: Evidence) -> float:
    return float(data.weights.sum())


def _free_numbers(n_levels: int, rank: int) -> int:
    """Numbers that decide the correlations: rotations of the factor change nothing."""
    return min(n_levels * rank - rank * (rank - 1) // 2, n_levels * (n_levels - 1) // 2)


def _pairable(kernel: Any) -> list[tuple[str, int]]:
    """Paths of categorical parts, and numbers of those of their columns that may get a factor."""
    parts = {"": kernel, **kernel.get_params()}
    return [
        (path, column)
        for path, part in parts.items()
        if isinstance(part, Categorical)
        for column in part.pairable()
    ]


def _part(kernel: Any, path: str) -> Any:
    return kernel.get_params()[path] if path else kernel


def _with_factor(data: Evidence, learned: Learned, path: str, column: int, rank: int) -> Any:
    """The learned kernel, with a factor for one column that starts from the data."""
    part = _part(learned.kernel, path)
    codes: Floats = np.asarray(part.levels[column], dtype=np.float64)
    position = _position(learned.kernel, path, column)
    correlations = _level_correlations(data, learned, position, codes)
    changed = part.with_factor(column, _factor(correlations, rank))
    if not path:
        return changed
    kernel: SklearnKernel = clone(learned.kernel)
    return kernel.set_params(**{path: changed})


def _position(kernel: Any, path: str, column: int) -> int:
    """The position, among all columns, of a column of a categorical part."""
    position: int = _part(kernel, path).columns[column]
    steps = path.split("__")
    for depth in range(len(steps) - 1, -1, -1):
        owner = _part(kernel, "__".join(steps[:depth]))
        if isinstance(owner, ColumnsKernel):
            position = np.asarray(owner.columns)[position]
    return int(position)


def _level_correlations(data: Evidence, learned: Learned, position: int, codes: Floats) -> Floats:
    """Correlations of f(x) between levels of a column, under the posterior of the learned kernel.

    Means over some rows x of E f_i(x)f_j(x), where f_i(x) is f at x with level i: the first step of
    expectation maximisation over the correlations.
    """
    X, y, weights = data.X, data.y, data.weights
    kernel = compile_kernel(learned.kernel)[0]
    C = kernel.tile(X, X)
    C[np.diag_indices_from(C)] += learned.noise / weights
    root = cholesky(C, lower=True, overwrite_a=True, check_finite=False)
    probes, n_levels = X[:_PROBES], len(codes)
    placed = np.repeat(probes, n_levels, axis=0)
    placed[:, position] = np.tile(codes, len(probes))
    V = solve_triangular(root, kernel.tile(X, placed), lower=True)
    mean = (V.T @ solve_triangular(root, y, lower=True)).reshape(len(probes), n_levels, -1)
    moments = np.einsum("pio,pjo->ij", mean, mean) / mean.shape[2]
    moments += kernel.among(placed, n_levels).sum(axis=0)
    by_level = V.reshape(-1, n_levels)
    moments -= by_level.T @ by_level
    scale = np.sqrt(np.diag(moments))
    return np.asarray(moments / np.outer(scale, scale))


def _factor(correlations: Floats, rank: int) -> Floats:
    """u whose correlations are near to those given, by principal factors."""
    R = correlations.copy()
    np.fill_diagonal(R, 0.0)
    shared: Floats = np.minimum(np.abs(R).max(axis=1), _MOST)
    for _ in range(_ROUNDS):
        np.fill_diagonal(R, shared)
        values, vectors = np.linalg.eigh(R)
        v = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0.0))
        norms = (v**2).sum(axis=1)
        v *= np.sqrt(np.minimum(1.0, _MOST / np.maximum(norms, _MOST)))[:, None]
        shared = (v**2).sum(axis=1)
    return np.asarray(v / np.sqrt(1.0 - shared)[:, None])
