"""Kernels grown by evidence, term by term: the terms of an additive kernel, and kernel="search"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp

from pursuit._types import Floats
from pursuit.kernels import (
    Additive,
    ColumnsKernel,
    columns_used,
    compile_kernel,
    described,
    expanded,
    sum_of_terms,
    terms_of,
)
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.learning import (
    FAMILIES,
    Learned,
    NoiseRange,
    SearchStep,
    best_family,
    family_kernel,
    first_rows,
    maximise,
    never,
    noise_evidence,
    second_stage,
)

_WIDTHS = 0.3, 1.0, 3.0
"""Length scales that a new term is tried with, in deviations of its features."""
_TESTING_WORK = 1e10
"""Operations of one round of score tests. Fewer: tests on fewer rows, of less power."""
_TESTING_ROWS = 100, 500  # Fewest and most rows of a score test.
_GROWING_STEPS = 20  # Steps of L-BFGS after a term is added or dropped; more at the end.
_PATIENCE = 3  # Candidates that are tried before a search ends.
_SHARES = 0.01, 1.0  # Range of the first variance of a new term, in units of the targets'.
_CONSTANT_RANGE = np.exp(-9.0), np.exp(12.0)  # Bounds of its variance, in the same units.


@dataclass(frozen=True, eq=False)
class Candidate:
    """A term that may be added, or a factor that a present term may be multiplied with.

    Attributes
    ----------
    variants : sequence of kernels
        The kernel with several starting values of its hyper-parameters, without a constant. A sum
        stands for several terms that are added at once.
    onto : int or None, default None
        Number of the term that it multiplies; None if it is added.
    """

    variants: Sequence[gp.Kernel]
    onto: int | None = None

    @property
    def n_parameters(self) -> int:
        """Hyper-parameters that it brings, constants included."""
        constants = len(terms_of(self.variants[0])) if self.onto is None else 0
        return len(self.variants[0].theta) + constants


class ScoreTest:
    """How much the evidence would gain by a small multiple of another kernel.

    With C the covariance of the targets y, a = C⁻¹y and o outputs, the derivative of the log
    evidence by the factor of K_t is s = ½(tr a'K_t a - o tr C⁻¹K_t). If C is right, its variance is
    the Fisher information ½ o tr(C⁻¹K_tC⁻¹K_t), less what the noise and the factors of the present
    terms explain of it. For small factors the gain is s² / (2 information), at the factor
    s / information.

    Parameters
    ----------
    data : Evidence
        Rows and targets.
    terms : sequence of kernels
        The present terms.
    noise : float
        The present noise.
    """

    def __init__(self, data: Evidence, terms: Sequence[gp.Kernel], noise: float) -> None:
        self._X, self._outputs = data.X, data.y.shape[1]
        present = [np.diag(1.0 / data.weights), *(_matrix(term, data.X) for term in terms)]
        C = noise * present[0] + sum(present[1:])
        factor = cho_factor(C, lower=True)
        self._inverse = cho_solve(factor, np.eye(len(C)))
        self._a = self._inverse @ data.y
        self._present = [self._inverse @ K @ self._inverse for K in present]
        gram = [[float(np.vdot(P, K)) for K in present] for P in self._present]
        self._information = 0.5 * self._outputs * np.array(gram)

    def __call__(self, kernel: gp.Kernel) -> tuple[float, float]:
        """Expected gain of the log evidence, and the factor of the kernel there."""
        K = _matrix(kernel, self._X)
        score = 0.5 * float(np.vdot(self._a, K @ self._a))
        score -= 0.5 * self._outputs * float(np.vdot(self._inverse, K))
        product = self._inverse @ K
        own = 0.5 * self._outputs * float(np.vdot(product, product.T))
        with_present = 0.5 * self._outputs * np.array([np.vdot(P, K) for P in self._present])
        explained = np.linalg.lstsq(self._information, with_present, rcond=None)[0] @ with_present
        information = own - float(explained)
        if score <= 0.0 or information <= 1e-9 * own:
            return 0.0, 0.0
        return score**2 / (2.0 * information), score / information


def _matrix(kernel: gp.Kernel, X: Floats) -> Floats:
    return np.asarray(compile_kernel(kernel, n_features=X.shape[1])[0].tile(X, X))


@dataclass
class Growth:
    """A kernel that grows by evidence on a few rows.

    Attributes
    ----------
    data : Evidence
        The rows.
    power : float
        Mean square of the targets.
    noise : NoiseRange
        Start and range of the noise.
    late : callable
        Whether time is over.
    model : Learned
        The present kernel; it is None where all is noise.
    terms : list of kernels
        Its terms.
    worth : float, optional
        What the evidence per row must rise by with every step. By default ½ log(number of target
        values) per hyper-parameter, divided by the rows.
    """

    data: Evidence
    power: float
    noise: NoiseRange
    late: Callable[[], bool]
    model: Learned
    terms: list[gp.Kernel] = field(default_factory=list)
    worth: float | None = None

    @classmethod
    def start(
        cls,
        data: Evidence,
        power: float,
        noise: NoiseRange,
        late: Callable[[], bool],
        kernel: gp.Kernel | None,
        **search: Any,
    ) -> Growth:
        """Begin with a kernel that is learned first, or with noise alone."""
        if kernel is None:
            level = noise.start if noise.fixed else float(np.clip(power, noise.low, noise.high))
            return cls(data, power, noise, late, Learned(None, level, noise_evidence(data)))
        learned = maximise(data, kernel, noise, "given", late=late, **search)
        growth = cls(data, power, noise, late, learned, terms_of(learned.kernel))
        growth.model.path = [SearchStep(growth.expression, learned.evidence_per_row, True)]
        return growth

    @property
    def expression(self) -> str:
        """The present kernel in words."""
        return " + ".join(described(term) or "constant" for term in self.terms) or "noise"

    def penalty(self, n_parameters: int) -> float:
        """What the evidence per row must rise by for so many hyper-parameters."""
        if self.worth is not None:
            return self.worth
        rows = float(self.data.weights.sum())
        values = max(rows * self.data.y.shape[1], 2.0)
        return 0.5 * n_parameters * float(np.log(values)) / rows

    def extend(self, candidates: list[Candidate]) -> bool:
        """Add the best candidate, and take it out of the list; False if none is worth it.

        A kernel needs a term: to noise alone the best candidate is added in any case.
        """
        for candidate, kernel, factor in self._ranked(candidates)[:_PATIENCE]:
            if self.terms and self.late():
                return False
            terms, change = self._changed(candidate, kernel, factor)
            trial = self._learned(terms)
            least = self.model.evidence_per_row + self.penalty(candidate.n_parameters)
            accepted = not self.terms or trial.evidence_per_row > least
            self._note(change, trial, accepted)
            if accepted:
                candidates.remove(candidate)
                return True
        return False

    def shorten(self, n_kept: int = 0) -> bool:
        """Drop the term that is missed least, if it is not worth its hyper-parameters.

        The first ``n_kept`` terms stay, and so does the last one of all.
        """
        if len(self.terms) < max(2, n_kept + 1) or self.late():
            return False
        rests = [self.terms[:i] + self.terms[i + 1 :] for i in range(n_kept, len(self.terms))]
        values = [self.data.value_and_gradient(sum_of_terms(r), self.model.noise) for r in rests]
        evidences = [-np.inf if value is None else value[0] for value in values]
        least = int(np.argmax(evidences))
        dropped = self.terms[n_kept + least]
        trial = self._learned(rests[least])
        accepted = trial.evidence_per_row > self.model.evidence_per_row - self.penalty(
            len(dropped.theta)
        )
        self._note(f"- {described(dropped)}", trial, accepted)
        return accepted

    def _note(self, change: str, trial: Learned, accepted: bool) -> None:
        step = SearchStep(change, trial.evidence_per_row, accepted)
        path, stages = [*self.model.path, step], self.model.stages + trial.stages
        if accepted:
            self.model, self.terms = trial, terms_of(trial.kernel)
        self.model = replace(self.model, path=path, stages=stages)

    def _learned(self, terms: list[gp.Kernel]) -> Learned:
        noise = replace(self.noise, start=self.model.noise)
        kernel = sum_of_terms(terms)
        return maximise(self.data, kernel, noise, "grown", steps=_GROWING_STEPS, late=self.late)

    def _changed(
        self, candidate: Candidate, kernel: gp.Kernel, factor: float
    ) -> tuple[list[gp.Kernel], str]:
        """The terms with a candidate, and the change in words."""
        if candidate.onto is not None:
            term = self.terms[candidate.onto]
            changed = [*self.terms]
            changed[candidate.onto] = _multiplied(term, kernel, self.data.X)
            return changed, f"{described(term)} -> {described(changed[candidate.onto])}"
        added = terms_of(kernel)
        low, high = (self.power * share / len(added) for share in _SHARES)
        bounds = tuple(self.power * end for end in _CONSTANT_RANGE)
        constant = float(np.clip(factor, low, high))
        terms = [gp.ConstantKernel(constant, bounds) * one for one in added]
        return [*self.terms, *terms], f"+ {described(kernel)}"

    def _ranked(self, candidates: list[Candidate]) -> list[tuple[Candidate, gp.Kernel, float]]:
        """Candidates with their best variants and factors, best first; only if they gain."""
        count = max(sum(len(candidate.variants) for candidate in candidates), 1)
        rows = int(np.clip((_TESTING_WORK / (2.0 * count)) ** (1 / 3), *_TESTING_ROWS))
        data = self.data
        some = Evidence(data.X[:rows], data.y[:rows], data.weights[:rows], data.workers)
        test = ScoreTest(some, self.terms, self.model.noise)
        best: list[tuple[float, Candidate, gp.Kernel, float]] = []
        for candidate in candidates:
            term = None if candidate.onto is None else self.terms[candidate.onto]
            tested = [one if term is None else term * one for one in candidate.variants]
            results = [test(kernel) for kernel in tested]
            i = int(np.argmax([gain for gain, _ in results]))
            gain, factor = results[i]
            if gain > 0.0 or not self.terms:
                best.append((gain, candidate, candidate.variants[i], factor))
        best.sort(key=lambda one: -one[0])
        return [(candidate, kernel, factor) for _, candidate, kernel, factor in best]


def _multiplied(term: gp.Kernel, factor: gp.Kernel, X: Floats) -> gp.Kernel:
    """A constant times a kernel and the factor, the constant being such that the size stays."""
    size = float(np.mean(compile_kernel(factor, n_features=X.shape[1])[0].diag(X)))
    constant = term.k1
    low, high = constant.constant_value_bounds
    value = float(np.clip(constant.constant_value / size, low, high))
    return gp.ConstantKernel(value, (low, high)) * (term.k2 * factor)


def grow_additive(
    data: Evidence,
    kernel: gp.Kernel,
    deviations: Floats,
    power: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    **search: Any,
) -> Learned:
    """Learn which terms of additive kernels stay, beside the other terms of a sum, and learn them.

    Terms are added as long as the evidence on the first rows rises by ½ log(rows) per
    hyper-parameter; then those that are not worth as much are dropped.
    """
    terms = terms_of(kernel)
    others = [expanded(term) for term in terms if not isinstance(term, Additive)]
    candidates = [
        Candidate(list(_variants(term, deviations)))
        for additive in terms
        if isinstance(additive, Additive)
        for term in additive.terms()
    ]
    first = first_rows(data)
    given = sum_of_terms(others) if others else None
    growth = Growth.start(first, power, noise, late, given, **search)
    while candidates and growth.extend(candidates):
        pass
    n_given = 0 if given is None else len(terms_of(given))
    while growth.shorten(n_given):
        pass
    return second_stage(data, replace(growth.model, family="additive"), noise, late)


def _variants(term: gp.Kernel, deviations: Floats) -> Iterator[gp.Kernel]:
    """A term of an additive kernel without its constant, for several length scales."""
    factors: list[ColumnsKernel] = []
    while isinstance(term, gp.Product):
        factors.insert(0, term.k2)
        term = term.k1
    yield _product([clone(factor) for factor in factors])
    if not any(_free_scales(factor) for factor in factors):
        return
    for width in _WIDTHS:
        yield _product([with_length(f, width * float(deviations[_column(f)])) for f in factors])


def _column(kernel: ColumnsKernel) -> int:
    """The one column of a kernel."""
    columns: Any = kernel.columns
    return int(columns[0])


def _product(factors: list[gp.Kernel]) -> gp.Kernel:
    kernel = factors[0]
    for factor in factors[1:]:
        kernel = kernel * factor
    return kernel


def with_length(kernel: gp.Kernel, length: float) -> gp.Kernel:
    """A copy whose free length scales are the given one, or the bound that is next to it."""
    scales = {
        name: float(np.clip(length, *np.ravel(bounds)))
        for name, bounds in _free_scales(kernel).items()
    }
    return clone(kernel).set_params(**scales)


def _free_scales(kernel: gp.Kernel) -> dict[str, Any]:
    """Names of the length scales that are not fixed, with their bounds."""
    return {
        parameter.name: parameter.bounds
        for parameter in kernel.hyperparameters
        if parameter.name.endswith("length_scale") and not parameter.fixed
    }


SEARCH_ROWS = 1000
"""Rows on which a search compares kernels. More: structure that is harder to see, slower."""
_BUDGET = 10.0
"""What a search may cost, in units of what the fixed family costs. More: longer searches."""
_WORTH = 0.003
"""What a step of a search must add to the evidence per row. Less: longer searches."""
_LEAST_WORTH = 3.0
"""What it must add to the evidence of all rows, where they are few."""
_JUDGING_SHARE = 4
"""Where no other rows judge, one in so many of those that learn does."""
_SURE = 2.0
"""Standard errors by which the grown kernel must be better. Fewer: worse choices, more often."""
_LAST_STEPS = 15  # Steps of L-BFGS on all rows, once the form is known.
_STRETCHES = 1 / 3, 1.0, 3.0
"""Length scales of a further kernel of all columns, in units of those of the first."""


def search_kernel(
    data: Evidence,
    others: Evidence | None,
    deviations: Floats,
    power: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    **search: Any,
) -> Learned:
    """Grow sums and products of kernels from the best of the fixed families.

    What was grown is taken if its errors are smaller than those of the best family by more than two
    standard errors, and its density is not lower: on ``others``, rows with no part in learning. If
    there are none, the last quarter of the rows judges what was learned from the first three, and
    the hyper-parameters of what is taken are then learned from all.
    """
    scales = deviations * np.sqrt(len(deviations))
    winner = best_family(first_rows(data), scales, power, noise, late, **search)
    fixed = second_stage(data, winner, noise, late)
    seen, judges, before = data, others, fixed
    if judges is None:
        cut = max(len(data.X) - len(data.X) // _JUDGING_SHARE, 1)
        seen, judges = _part(data, slice(cut)), _part(data, slice(cut, None))
        if len(judges.X) == 0:
            return fixed
        before = maximise(seen, fixed.kernel, _at(noise, fixed), winner.family, late=late)
    rows = _part(seen, slice(SEARCH_ROWS))
    growth = Growth.start(rows, power, _at(noise, before), late, before.kernel)
    growth.worth = max(_WORTH, _LEAST_WORTH / float(rows.weights.sum()))
    most = _BUDGET * max(_cost(fixed), 1.0)
    while _cost(growth.model) < most and growth.extend(
        search_candidates(growth.terms, fixed.kernel, deviations)
    ):
        while growth.shorten():
            pass
    grown = replace(growth.model, family="search")
    if len(seen.X) > SEARCH_ROWS:
        grown = _with_more_rows(grown, seen, noise, late)
    errors, errors_before = judge(grown, seen, judges), judge(before, seen, judges)
    better = len(growth.terms) > 1 and errors.better_than(errors_before)
    path = [
        *grown.path,
        SearchStep(f"fixed family ({errors_before})", before.evidence_per_row, not better),
        SearchStep(f"{growth.expression} ({errors})", grown.evidence_per_row, better),
    ]
    if better and others is None:
        grown = _with_more_rows(grown, data, noise, late)
    best = grown if better else fixed
    return replace(best, stages=fixed.stages + grown.stages, path=path)


def _at(noise: NoiseRange, learned: Learned) -> NoiseRange:
    """The range with the start that was learned."""
    return replace(noise, start=learned.noise)


def _part(data: Evidence, rows: slice) -> Evidence:
    return replace(data, X=data.X[rows], y=data.y[rows], weights=data.weights[rows])


def _with_more_rows(
    learned: Learned, data: Evidence, noise: NoiseRange, late: Callable[[], bool]
) -> Learned:
    """The same kernel with hyper-parameters learned from more rows."""
    if late():
        return learned
    again = maximise(
        data, learned.kernel, _at(noise, learned), learned.family, steps=_LAST_STEPS, late=late
    )
    return replace(again, stages=learned.stages + again.stages, path=learned.path)


def _cost(learned: Learned) -> float:
    """Evaluations of the evidence, each in proportion to the cube of its rows."""
    return float(sum(s.n_evaluations * (s.n_rows / SEARCH_ROWS) ** 3 for s in learned.stages))


def search_candidates(
    terms: Sequence[gp.Kernel], first: gp.Kernel, deviations: Floats
) -> list[Candidate]:
    """Kernels of all columns and of single columns, and factors of single columns for terms."""
    scales = np.asarray(first.k2.length_scale)
    candidates = [
        Candidate([family_kernel(family, scales, 1.0, scales * s).k2 for s in _STRETCHES])
        for family in FAMILIES
    ]
    n = len(deviations)
    linear = [_linear(j, deviations[j]) for j in range(n)]
    smooth = [[_smooth(j, width, deviations[j]) for width in _WIDTHS] for j in range(n)]
    candidates += [Candidate([one]) for one in linear]
    if n > 1:
        candidates += [Candidate(variants) for variants in smooth]
        candidates.append(Candidate([sum_of_terms(some) for some in zip(*smooth, strict=True)]))
    for onto, term in enumerate(terms):
        used = columns_used(term)
        candidates += [Candidate([one], onto) for one in linear]
        candidates += [
            Candidate(smooth[j], onto) for j in range(n) if used is not None and j not in used
        ]
    return candidates


def _linear(j: int, deviation: float) -> gp.Kernel:
    """A linear function of one column."""
    bounds = float(deviation * np.exp(-5.0)), float(deviation * np.exp(5.0))
    return ColumnsKernel(gp.DotProduct(float(deviation), bounds), [j])


def _smooth(j: int, width: float, deviation: float) -> gp.Kernel:
    """A smooth function of one column, its length scale in units of the deviation."""
    bounds = float(deviation * np.exp(-4.0)), float(deviation * np.exp(5.0))
    return ColumnsKernel(gp.RBF(float(width * deviation), bounds), [j])


@dataclass(frozen=True)
class Judged:
    """Errors of a kernel on rows that it has not seen.

    Attributes
    ----------
    squares, surprise : arrays of shape (n_rows,)
        Squared errors and negative log densities, on average over the outputs.
    weights : array of shape (n_rows,)
        Weights of the rows.
    """

    squares: Floats
    surprise: Floats
    weights: Floats

    def __str__(self) -> str:
        error = np.sqrt(np.average(self.squares, weights=self.weights))
        density = np.average(self.surprise, weights=self.weights)
        n = len(self.weights)
        return f"RMSE {error:.4g}, negative log density {density:.4g} on {n} rows left out"

    def better_than(self, other: Judged) -> bool:
        """Whether errors are smaller by two standard errors, and the density is not lower."""
        gain = other.squares - self.squares
        share = self.weights / self.weights.sum()
        mean = float(share @ gain)
        error = float(np.sqrt(share**2 @ (gain - mean) ** 2))
        return mean > _SURE * error and float(share @ (other.surprise - self.surprise)) >= 0.0


def judge(learned: Learned, seen: Evidence, others: Evidence) -> Judged:
    """Errors on other rows of the exact process of the rows seen."""
    kernel = compile_kernel(learned.kernel, n_features=seen.X.shape[1])[0]
    C = kernel.tile(seen.X, seen.X)
    C[np.diag_indices_from(C)] += learned.noise / seen.weights
    factor = cho_factor(C, lower=True)
    K = kernel.tile(others.X, seen.X)
    error = others.y - K @ cho_solve(factor, seen.y)
    explained = np.einsum("ij,ji->i", K, cho_solve(factor, K.T))
    variance = np.maximum(kernel.diag(others.X) - explained, 0.0) + learned.noise
    squares = (error**2).mean(axis=1)
    surprise = 0.5 * (np.log(2 * np.pi * variance) + squares / variance)
    return Judged(squares, surprise, others.weights)
