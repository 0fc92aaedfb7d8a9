"""Kernels grown by evidence, term by term; the terms of an additive kernel that stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp

from pursuit._types import Floats
from pursuit.kernels import (
    Additive,
    ColumnsKernel,
    compile_kernel,
    described,
    expanded,
    leaves,
    sum_of_terms,
    terms_of,
)
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.learning import first_rows, second_stage
from pursuit.tuning.optimiser import Learned, NoiseRange, maximise, never, noise_evidence
from pursuit.tuning.periods import at_period, candidate_periods, periodic_parts
from pursuit.tuning.report import SearchStep

WIDTHS = 0.3, 1.0, 3.0
"""Length scales that a new term is tried with, in deviations of its features."""
PERIODS = 4
"""How many periods are tried, of those that a periodogram suggests."""
_TESTING_WORK = 1e10
"""Operations of one round of score tests. Fewer: tests on fewer rows, of less power."""
_TESTING_ROWS = 100, 500  # Fewest and most rows of a score test.
_GROWING_STEPS = 30  # Steps of L-BFGS after a term is added or dropped; more at the end.
_PATIENCE = 3  # Candidates that are tried before a search ends.
_SHARES = 0.2, 1.0
"""First variance of a new term, in units of the targets'. Lower: it may hardly move."""
_CONSTANT_RANGE = np.exp(-9.0), np.exp(12.0)  # Bounds of its variance, in the same units.


@dataclass(frozen=True, eq=False)
class Candidate:
    """A term that may be added, or a factor that a present term may be multiplied with.

    Attributes
    ----------
    variants : sequence of kernels
        The kernel with several starting values of its hyper-parameters, without a constant.
    onto : int or None, default None
        Number of the term that it multiplies; None if it is added.
    choices : int, default 1
        Of how many kernels these are the best, by another look at the targets: what they are worth
        has to rise by the logarithm of this number.
    """

    variants: Sequence[gp.Kernel]
    onto: int | None = None
    choices: int = 1

    @property
    def n_parameters(self) -> int:
        """Hyper-parameters that it brings, its constant included."""
        return n_free(self.variants[0]) + (1 if self.onto is None else 0)


class Choice(NamedTuple):
    """One variant of a candidate, and the factor that it starts with."""

    candidate: Candidate
    kernel: gp.Kernel
    factor: float


class Trial(NamedTuple):
    """A change in words, what is learned with it, and what that gains beyond what it must."""

    change: str
    learned: Learned
    gain: float


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
    """

    data: Evidence
    power: float
    noise: NoiseRange
    late: Callable[[], bool]
    model: Learned
    terms: list[gp.Kernel] = field(default_factory=list)

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

    def penalty(self, n_parameters: int, choices: int = 1) -> float:
        """What the evidence per row must rise by: ½ log(values) per hyper-parameter, log(choices).

        Values are the targets of all rows and outputs.
        """
        rows = float(self.data.weights.sum())
        values = max(rows * self.data.y.shape[1], 2.0)
        return (0.5 * n_parameters * float(np.log(values)) + float(np.log(choices))) / rows

    def extend(self, candidates: list[Candidate], *, in_any_case: bool = False) -> bool:
        """Add the best candidate, and take it out of the list; False if none is worth it.

        A kernel needs a term: ``in_any_case`` adds one even if it is not worth it.
        """
        for choice in self.ranked(candidates, in_any_case)[:_PATIENCE]:
            if self.late() and not in_any_case:
                return False
            trial = self._tried(choice)
            accepted = in_any_case or trial.gain > 0
            self._note(trial.change, trial.learned, accepted)
            if accepted:
                candidates.remove(choice.candidate)
                return True
        return False

    def take_best(self, choices: list[Choice]) -> bool:
        """Try all, and go on from the best one; False if none is worth it."""
        trials: list[Trial] = []
        for choice in choices:
            if self.late():
                break
            trials.append(self._tried(choice))
        best = max((trial.gain for trial in trials), default=0.0)
        for trial in trials:
            self._note(trial.change, trial.learned, 0.0 < best == trial.gain)
        return best > 0.0

    def _tried(self, choice: Choice) -> Trial:
        """What is learned with a change, and what it gains beyond what it must."""
        terms, change = self._changed(choice)
        learned = self._learned(terms)
        needed = self.penalty(choice.candidate.n_parameters, choice.candidate.choices)
        gain = learned.evidence_per_row - self.model.evidence_per_row - needed
        return Trial(change, learned, gain)

    def shorten(self, n_kept: int = 0) -> bool:
        """Drop the term that is missed least, if it is not worth its hyper-parameters.

        The first ``n_kept`` terms stay, and so does the last one of all.
        """
        if len(self.terms) < max(2, n_kept + 1) or self.late():
            return False
        rests = [self.terms[:i] + self.terms[i + 1 :] for i in range(n_kept, len(self.terms))]
        values = [self.data.value_and_gradient(sum_of_terms(r), self.model.noise) for r in rests]
        evidences = [-np.inf if value is None else value[0] for value in values]
        i = int(np.argmax(evidences))
        dropped, trial = self.terms[n_kept + i], self._learned(rests[i])
        least = self.model.evidence_per_row - self.penalty(n_free(dropped))
        accepted = trial.evidence_per_row > least
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

    def residual(self) -> Evidence:
        """The rows with what the present kernel leaves of their targets: σ²W⁻¹(K + σ²W⁻¹)⁻¹y."""
        data, noise = self.data, self.model.noise / self.data.weights
        C = np.diag(noise) + sum(_matrix(term, data.X) for term in self.terms)
        left = noise[:, None] * cho_solve(cho_factor(C, lower=True), data.y)
        return replace(data, y=left)

    def _changed(self, choice: Choice) -> tuple[list[gp.Kernel], str]:
        """The terms with a candidate, and the change in words."""
        kernel, factor, onto = choice.kernel, choice.factor, choice.candidate.onto
        if onto is not None:
            changed = [*self.terms]
            changed[onto] = _multiplied(self.terms[onto], kernel, self.data.X)
            return changed, f"{described(self.terms[onto])} -> {described(changed[onto])}"
        low, high = (self.power * share for share in _SHARES)
        bounds = tuple(self.power * end for end in _CONSTANT_RANGE)
        added = gp.ConstantKernel(float(np.clip(factor, low, high)), bounds) * kernel
        return [*self.terms, added], f"+ {described(kernel)}"

    def ranked(self, candidates: list[Candidate], in_any_case: bool = False) -> list[Choice]:
        """Candidates with their best variants and factors, best first; as a rule if they gain."""
        count = max(sum(len(candidate.variants) for candidate in candidates), 1)
        rows = int(np.clip((_TESTING_WORK / (2.0 * count)) ** (1 / 3), *_TESTING_ROWS))
        data = self.data
        some = data.take(slice(rows))
        test = ScoreTest(some, self.terms, self.model.noise)
        best: list[tuple[float, Choice]] = []
        for candidate in candidates:
            term = None if candidate.onto is None else self.terms[candidate.onto]
            tested = [one if term is None else term * one for one in candidate.variants]
            results = [test(kernel) for kernel in tested]
            i = int(np.argmax([gain for gain, _ in results]))
            gain, factor = results[i]
            if gain > 0.0 or in_any_case:
                best.append((gain, Choice(candidate, candidate.variants[i], factor)))
        best.sort(key=lambda one: -one[0])
        return [choice for _, choice in best]


def n_free(kernel: gp.Kernel) -> int:
    """Number of free hyper-parameters; an array of length scales counts as one."""
    return sum(not parameter.fixed for parameter in kernel.hyperparameters)


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
    hyper-parameter: those of one feature first, then those of two, and so on. Then terms that are
    not worth as much are dropped.
    """
    first, terms = first_rows(data), terms_of(kernel)
    others = [expanded(term) for term in terms if not isinstance(term, Additive)]
    additives = [term for term in terms if isinstance(term, Additive)]
    candidates = [
        Candidate(list(_variants(term, deviations, first)))
        for additive in additives
        for term in additive.terms()
    ]
    given = sum_of_terms(others) if others else None
    growth = Growth.start(first, power, noise, late, given, **search)
    for order in range(1, max(additive.order for additive in additives) + 1):
        of_order = [one for one in candidates if len(_factors(one.variants[0])) == order]
        while of_order and growth.extend(of_order):
            pass
    if not growth.terms:
        growth.extend(candidates, in_any_case=True)
    n_given = 0 if given is None else len(terms_of(given))
    while growth.shorten(n_given):
        pass
    return second_stage(data, replace(growth.model, family="additive"), noise, late)


def _variants(term: gp.Kernel, deviations: Floats, first: Evidence) -> Iterator[gp.Kernel]:
    """A term of an additive kernel without its constant, for several length scales or periods."""
    factors = _factors(term)[1:]
    kernel = _product(factors)
    yield clone(kernel)
    if any(_free_scales(factor) for factor in factors):
        for width in WIDTHS:
            yield _product([with_length(f, width * float(deviations[_column(f)])) for f in factors])
    parts = periodic_parts(kernel, len(deviations))
    if len(parts) == 1:
        for period in candidate_periods(first, parts[0])[:PERIODS]:
            yield at_period(kernel, parts[0], period)


def _factors(kernel: gp.Kernel) -> list[Any]:
    """The factors of a product, also of products within it."""
    if type(kernel) is gp.Product:
        return _factors(kernel.k1) + _factors(kernel.k2)
    return [kernel]


def _column(kernel: ColumnsKernel) -> int:
    """The one column of a kernel."""
    columns: Any = kernel.columns
    return int(columns[0])


def _product(factors: list[gp.Kernel]) -> gp.Kernel:
    kernel = factors[0]
    for factor in factors[1:]:
        kernel = kernel * factor
    return kernel


def with_length(kernel: ColumnsKernel, length: float) -> gp.Kernel:
    """A copy whose free length scales are the given one, or the bound that is next to it."""
    scales = {
        name: float(np.clip(length, *np.ravel(bounds)))
        for name, bounds in _free_scales(kernel).items()
    }
    return clone(kernel).set_params(**scales)


def _free_scales(kernel: ColumnsKernel) -> dict[str, Any]:
    """Names of the length scales in units of the column that are not fixed, with their bounds."""
    return {
        f"kernel__{prefix}length_scale": leaf.hyperparameter_length_scale.bounds
        for prefix, leaf, _ in leaves(kernel.kernel, 1)
        if hasattr(leaf, "hyperparameter_length_scale")
        and type(leaf) is not gp.ExpSineSquared
        and not leaf.hyperparameter_length_scale.fixed
    }
