"""Noise that depends on the inputs: a second sparse process for the logarithm of its variance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import digamma, polygamma

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.estimators.arguments import Evidence, Search
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.gp.reweighting import (
    NOISE_SHARE,
    OwnWeights,
    first_fit,
    left_out,
    refitted,
)
from pursuit.estimators.gp.stages import learn
from pursuit.estimators.inputs import (
    counting_kernel,
    feature_deviations,
    n_features,
    or_one,
    reads_matrix,
)
from pursuit.estimators.span.search import RowSplit, SearchPlan, choose_basis
from pursuit.gram import expansion_gradient, kernel_times
from pursuit.greedy import CostMeter, Problem, SpanFit, kernel_matrix, solve_in_span
from pursuit.kernels import CountingKernel, Kernel, resolve_columns
from pursuit.linalg import PredictiveVariance, Workers, robust_cholesky
from pursuit.objectives import GammaRows
from pursuit.rows import RowSource, Sample, draw_rows
from pursuit.solvers import newton
from pursuit.tuning import LeftOut, NoiseRange, fit_spread

_FEWEST_ROWS = 100
"""Noise of fewer rows is taken to be the same everywhere."""
_NOISE_ROWS = 20_000
"""Most rows whose errors the noise process is fitted to. More: it takes longer."""
_NOISE_BASIS = 128
"""Most basis functions of the noise process. More: finer changes of the noise are seen."""
_JUDGES, _SHARE_JUDGED = 2000, 5
"""At most so many rows, and one in five, judge whether varying noise predicts better."""
_SURE = 2.0
"""Standard errors by which the density must gain. Larger: noise is more often taken as constant."""
_LEAST_LOG, _LARGEST_LOG = -8.0, 30.0
"""An error of 0 counts as one of this log square; predicted ratios stay within e^±30."""
_ROUNDS = 6
"""How often the part of the errors that is noise is estimated again."""


@dataclass(frozen=True)
class VaryingNoise:
    """Noise variance relative to the model's: exp(h(x)), h(x) = Σ_j c_j k(x, z_j) + offset.

    Attributes
    ----------
    kernel : kernel object
        k.
    points : items
        The z_j.
    coefficients : array of shape (n, 1)
        The c_j.
    offset : float
        What h returns to far from the rows; the weighted mean of exp(-h) over the rows of the fit
        is 1.
    """

    kernel: Any
    points: Any
    coefficients: Floats
    offset: float

    rounds = 1
    over = "all functions, for the weights of the learned noise"

    def logarithm(self, rows: RowSource, kernel: Kernel, workers: Workers) -> Floats:
        """h at every row, for the compiled kernel."""
        h = kernel_times(rows, kernel, self.points, self.coefficients, workers)[:, 0]
        return np.clip(h + self.offset, -_LARGEST_LOG, _LARGEST_LOG)

    def ratio(self, rows: RowSource, kernel: Any, workers: Workers) -> Floats:
        """exp(h) at every row."""
        return np.asarray(np.exp(self.logarithm(rows, kernel, workers)))

    def gradient(self, rows: RowSource, kernel: Any, workers: Workers) -> Floats:
        """∂h/∂x at every row: shape (n_rows, n_features)."""
        known = rows, kernel, np.asarray(self.points), self.coefficients, workers
        return expansion_gradient(*known)[:, :, 0]

    def again(
        self, fitted: SpanFit, problem: Problem, own: OwnWeights, kernel: CountingKernel
    ) -> OwnWeights:
        """Fit the noise process again, to the errors of another fit."""
        rows = draw_rows(problem.sample.n_rows, _NOISE_ROWS, problem.rng)
        errors = left_out(fitted, problem, rows, own.ratio)
        spread = fit_spread(errors, start=problem.noise)
        source, start = problem.sample.take(rows).rows, np.log(own.ratio[rows])
        process = _fitted(self, kernel, source, errors, spread, start, problem.workers)
        return _at_all_rows(process, kernel, own, problem)

    def same_as(self, other: VaryingNoise | None) -> bool:
        """Whether both give the same noise everywhere."""
        return other is not None and (
            repr(self.kernel) == repr(other.kernel)
            and self.offset == other.offset
            and np.array_equal(self.coefficients, other.coefficients)
            and np.array_equal(self.points, other.points)
        )


def compiled(kernel: Any, estimator: Any, X: Any) -> CountingKernel:
    """The kernel of the noise as tiles for items like X, whatever named kernel the mean has."""
    return counting_kernel(resolve_columns(kernel, estimator._known_columns()), X)[0]


def check_varying(estimator: Any, X: Any) -> None:
    """Refuse rows that the noise process has no kernel for."""
    if reads_matrix(estimator) or n_features(X) is None:
        raise ValueError(
            "noise='varying' learns a second kernel, for rows of numbers: use noise='learn', or "
            "pass sample_weight in proportion to the inverse noise variance."
        )


def search_noise(estimator: Any, sample: Sample, X: Any, run: FitRun) -> OwnWeights:
    """Find out how the noise varies, and whether the density of judging rows gains by it.

    A first fit with constant noise gives leave-one-out errors, to which the noise process is
    fitted. The fit with its weights must predict rows that had no part in the noise process better
    than the first fit, by two standard errors of the difference.
    """
    recorded: OwnWeights | None = run.resume("noise")
    if recorded is not None:
        return recorded
    m = sample.n_rows
    constant = OwnWeights(None, np.ones(m), sample.weights)
    if m < _FEWEST_ROWS:
        return replace(constant, sentence=f"constant: {m} rows are too few to see it vary")
    if not sample.target_norms().any():
        return replace(constant, sentence="constant: the targets are all equal")
    with run.unrecorded():
        fitted, problem = first_fit(estimator, sample, X, run)
        run.begin("noise")
        judges = draw_rows(m, min(_JUDGES, m // _SHARE_JUDGED), problem.rng)
        others = np.setdiff1d(np.arange(m), judges)
        rows = others[draw_rows(len(others), _NOISE_ROWS, problem.rng)]
        process, kernel = _process_of(estimator, fitted, problem, rows, X, run)
        own = _at_all_rows(process, kernel, constant, problem)
        weighted = own.posed(problem)
        densities = [
            _surprise(fitted, problem, rows, judges, None),
            _surprise(refitted(fitted, weighted), weighted, rows, judges, own.ratio),
        ]
    gains = densities[0] - densities[1]
    share = sample.weights[judges] / sample.weights[judges].sum()
    gain = float(share @ gains)
    error = float(np.sqrt(share**2 @ (gains - gain) ** 2))
    text = f"the log density of {len(judges)} rows left out changes by {gain:.3g} ± {error:.2g}"
    if gain <= _SURE * error:
        return run.keep("noise", replace(constant, sentence=f"constant: {text}"))
    return run.keep("noise", replace(own, sentence=f"varies with the inputs: {text}"))


def _surprise(
    fitted: SpanFit, problem: Problem, rows: Indices, judges: Indices, ratio: Floats | None
) -> Floats:
    """Negative log densities of the judges, with error bars set by other rows."""
    spread = fit_spread(left_out(fitted, problem, rows, ratio), start=problem.noise)
    return left_out(fitted, problem, judges, ratio).surprise(spread)


def _at_all_rows(
    noise: VaryingNoise, kernel: CountingKernel, own: OwnWeights, problem: Problem
) -> OwnWeights:
    """The noise at all rows, scaled such that weights divided by its ratio have the same sum."""
    ratio = noise.ratio(problem.sample.rows, kernel, problem.workers)
    factor = float(own.counts @ (1.0 / ratio) / own.counts.sum())
    scaled = replace(noise, offset=noise.offset + float(np.log(factor)))
    return replace(own, noise=scaled, ratio=ratio * factor)


def _process_of(
    estimator: Any, fitted: SpanFit, problem: Problem, rows: Indices, X: Any, run: FitRun
) -> tuple[VaryingNoise, CountingKernel]:
    """The noise process of the errors of some rows left out, and its compiled kernel.

    Kernel and basis are learned from log e²: with constant noise it is the logarithm of a χ²
    variable over its degrees of freedom k, one for each output, of mean ψ(k/2) - log(k/2) and
    variance ψ'(k/2). The values come from the gamma likelihood of e², which knows them better.
    """
    errors = left_out(fitted, problem, rows)
    spread = fit_spread(errors, start=problem.noise)
    part = problem.sample.take(rows)
    half = 0.5 * part.n_outputs
    squares = (errors.error**2).mean(axis=1) / errors.variance(spread)
    with np.errstate(divide="ignore"):
        z = np.maximum(np.log(squares), _LEAST_LOG) - (digamma(half) - np.log(half))
    center = float(np.average(z, weights=part.weights))
    sample = Sample(part.rows, (z - center)[:, None], part.weights)
    units = or_one(feature_deviations(sample, problem.rng))
    scatter = float(polygamma(1, half))
    learned = learn(
        None,
        sample,
        units,
        NoiseRange(scatter, 0.5 * scatter, 4.0 * scatter),
        options=Evidence(rows=limits.EVIDENCE_ROWS),
        rng=problem.rng,
        workers=run.workers,
        known=estimator._known_columns(),
        late=partial(run.clock.over, NOISE_SHARE),
    )
    kernel = compiled(learned.kernel, estimator, X)
    chooser = Problem(sample, kernel, learned.noise, run.workers, CostMeter(kernel), problem.rng)
    plan = SearchPlan(n_basis=_NOISE_BASIS, search=Search("pooled"))
    chosen = choose_basis(plan, chooser, RowSplit.none_reserved(sample.n_rows), run)
    points, solution = solve_in_span(chooser, chosen.choice.pool.items)
    process = VaryingNoise(learned.kernel, points, solution.coefficients(), center)
    start = process.logarithm(part.rows, kernel, run.workers)
    return _fitted(process, kernel, part.rows, errors, spread, start, run.workers), kernel


def _fitted(
    noise: VaryingNoise,
    kernel: CountingKernel,
    rows: RowSource,
    errors: LeftOut,
    spread: PredictiveVariance,
    start: Floats,
    workers: Workers,
) -> VaryingNoise:
    """Maximise the likelihood of squared errors times the prior of h, from given values of h.

    An error is the sum of noise of variance s·exp(h) and of what the model does not know of f, of
    variance c. With ρ the share of the noise in the sum of both, the expected square of the noise
    given the error e is ρ²e² + ρc; Newton's method fits h to these, and the two take turns (EM).
    """
    square = (errors.error**2).mean(axis=1) / spread.noise
    other = errors.q + errors.missed_variance(spread) / spread.noise
    K = kernel_matrix(kernel, noise.points, workers)
    R, _ = robust_cholesky(K, rounding=kernel.rounding)
    items = rows.take(np.arange(rows.n_rows))
    V: Floats = solve_triangular(R, kernel.tile(items, noise.points).T, lower=True).T
    F = np.column_stack([V, np.ones(len(V))])
    # Half of the gamma loss for each output is minus the log likelihood.
    ridge = np.append(np.full(len(R), 2.0 / np.shape(errors.error)[1]), 0.0)
    u, h = np.zeros((F.shape[1], 1)), start
    u[-1] = float(np.average(h, weights=errors.counts))
    for _ in range(_ROUNDS):
        g = np.exp(np.clip(h, -_LARGEST_LOG, _LARGEST_LOG))
        share = g / (g + other)
        target = share**2 * square + share * other
        found = newton(
            lambda block: F[block],
            GammaRows(),
            target[:, None],
            errors.counts,
            start=u,
            ridge=ridge,
            workers=workers,
        )
        u, h = found.coefficients, found.fitted[:, 0]
    beta = solve_triangular(R, u[:-1], lower=True, trans="T")
    return replace(noise, coefficients=beta, offset=float(u[-1, 0]))
