"""A mixture density that grows by a component at a time (Z02 §4.3), as an objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.estimators.hull.mixture_atoms import GaussianAtoms, Searched
from pursuit.greedy import Pursuit
from pursuit.solvers import EM, Mixture
from pursuit.solvers.em import log_sum_exp

_REFINED = 6
"""Atoms from which EM starts at a step; fewer are faster, and end at worse components."""
_CONTINUED = 2
_STEPS_FIRST, _STEPS_NEW = 3, 7
"""EM steps from each of them, and more steps from the best few of these."""
_STEPS_ALL = 20
"""EM steps on all components after one was taken."""
_STEPS_FEWER = 20
_STEPS_LAST = 100
_TOLERANCE = 1e-5
"""EM steps after one was left out, at the very end, and the gain below which they stop."""


class CandidateAtoms:
    """At every step new centres, each with all bandwidths: atom number = centre x n + bandwidth."""

    def __init__(self, n_bandwidths: int, n_centres: int, rng: np.random.Generator) -> None:
        self._n_bandwidths, self._n_centres, self._rng = n_bandwidths, n_centres, rng

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """Numbers of the available atoms at ``n_centres`` random centres, or at all of fewer."""
        n = len(available) // self._n_bandwidths
        if n > self._n_centres:
            drawn = np.zeros(n, dtype=bool)
            drawn[self._rng.choice(n, self._n_centres, replace=False)] = True
            available = available & np.repeat(drawn, self._n_bandwidths)
        return np.flatnonzero(available)


class MixtureGrowth:
    """-mean ln v(x) for a mixture v that takes one Gaussian atom at a time.

    The score of an atom p is the gain in mean log likelihood of (1 - α)v + αp at the best α in
    [0, 1]; atoms that cannot be the best score 0 unseen.

    Without ``refine`` this is Algorithm 2.1 of Z02 as published: v starts as the best single atom,
    and becomes (1 - α)v + αp with the best p and α. With it, v starts as the best single Gaussian,
    and more is taken than was scored: the best atoms, far from each other, are refined by EM steps
    on the new component alone, and the best of them is followed by EM steps on all. Then an atom
    must hold twice as many rows as a covariance needs.

    Parameters
    ----------
    em : EM
        Rows, weights, covariances and floor.
    atoms : GaussianAtoms
        What may be taken.
    refine : bool
        Whether components move.
    """

    def __init__(self, em: EM, atoms: GaussianAtoms, *, refine: bool) -> None:
        self.em, self.atoms, self._refine = em, atoms, refine
        self._numbers: list[int] = []
        if refine:
            self.mixture = em.single()
        else:
            self._numbers.append(atoms.most_likely())
            mean, factor = self._component(self._numbers[0])
            self.mixture = Mixture(np.ones(1), mean[None], factor[None], em.kind)
        self.start = self.mixture
        self._least = em.least_share if refine else 0.0
        self._density = self.mixture.log_density(em.X)
        self.value = self.start_value = -float(em.weights @ self._density)
        self._useless = np.zeros(atoms.n_atoms, dtype=bool)
        self._last = np.empty(0, dtype=np.intp), Searched(*np.empty((3, 0)))

    @property
    def available(self) -> NDArray[np.bool_]:
        """All atoms but those that brought nothing."""
        return ~self._useless

    @property
    def n_terms(self) -> int:
        """Number of components."""
        return self.mixture.size

    def score(self, candidates: Indices) -> Floats:
        """Gain of each atom; 0 for those that cannot have the largest."""
        found = self.atoms.search(self._density, candidates, self._least)
        self._last = candidates, found
        return found.gains

    def add(self, candidate: int) -> bool:
        """Take an atom that was scored; False where the likelihood does not rise."""
        candidates, found = self._last
        place = int(np.searchsorted(candidates, candidate))
        if not found.gains[place] > 0:
            # The best of them gains nothing, so none does.
            self._useless[candidates] = True
            return False
        if self._refine:
            grown, numbers = self._refined(), self._numbers
        else:
            grown, numbers = self._mixed(candidate, float(found.shares[place]))
        if grown is None:
            return False
        density = grown.log_density(self.em.X)
        value = -float(self.em.weights @ density)
        if not self._refine:
            # Rounding may leave the value as it was.
            self._useless[:] = False
            self._useless[candidate] = not value < self.value
            if self._useless[candidate]:
                return False
        self.mixture, self._numbers = grown, numbers
        self._density, self.value = density, value
        return True

    def _mixed(self, number: int, share: float) -> tuple[Mixture, list[int]]:
        """(1 - α)v + αp, in which an atom that v has already gets more weight; and its atoms."""
        mixture, numbers = self.mixture, self._numbers
        if number in numbers:
            weights = (1.0 - share) * mixture.weights
            weights[numbers.index(number)] += share
            grown = replace(mixture, weights=weights)
        else:
            grown = mixture.with_component(share, *self._component(number))
            numbers = [*numbers, number]
        kept = np.flatnonzero(grown.weights > 0)
        return grown.part(kept), [numbers[i] for i in kept]

    def _refined(self) -> Mixture | None:
        """The mixture with the best of the refined atoms, after EM steps on all components."""
        starts = self._starts()
        components = [self._component(number) for number, _, _ in starts]
        several = Mixture(
            np.array([share for _, share, _ in starts]),
            np.array([mean for mean, _ in components]),
            np.array([factor for _, factor in components]),
            self.em.kind,
        )
        numbers = np.arange(len(starts))
        for steps, most in ((_STEPS_FIRST, _CONTINUED), (_STEPS_NEW, 1)):
            several, fed, values = self.em.grow(self._density, several, steps)
            for starved in np.setdiff1d(np.arange(len(numbers)), fed):
                self._useless[starts[numbers[starved]][2]] = True
            if not len(fed):
                return None
            best = np.argsort(-values, kind="stable")[:most]
            several, numbers = several.part(best), numbers[fed[best]]
        weight, mean, factor = several.weights[0], several.means[0], several.factors[0]
        grown = self.mixture.with_component(float(weight), mean, factor)
        return self.em.run(grown, _STEPS_ALL, 1e-6)[0]

    def _component(self, number: int) -> tuple[Floats, Floats]:
        """Mean and factor of an atom."""
        centre, h = self.atoms.atom(number)
        shape = {"full": np.eye(len(centre)), "diag": np.ones(len(centre)), "spherical": 1.0}
        return centre, np.asarray(h * np.asarray(shape[self.em.kind]))

    def _starts(self) -> list[tuple[int, float, Indices]]:
        """The best atoms of the last score, their α, and atoms that are within two bandwidths.

        None is near a better one.
        """
        candidates, found = self._last
        promise = np.where(found.shares >= self._least, found.promise, 0.0)
        centres = self.atoms.centres[candidates // len(self.atoms.bandwidths)]
        widths = 2.0 * self.atoms.bandwidths[candidates % len(self.atoms.bandwidths)]
        place = int(found.gains.argmax())
        starts: list[tuple[int, float, Indices]] = []
        while len(starts) < _REFINED and promise[place] > 0:
            near = ((centres - centres[place]) ** 2).sum(axis=1) < widths**2
            share = min(max(float(found.shares[place]), self._least), 0.9)
            starts.append((int(candidates[place]), share, candidates[near]))
            promise = np.where(near, 0.0, promise)
            place = int(promise.argmax())
        return starts


def settled(mixture: Mixture, em: EM) -> Mixture:
    """After EM steps until they gain nothing more."""
    return em.run(mixture, _STEPS_LAST, _TOLERANCE)[0]


def pruned(mixture: Mixture, em: EM, criterion: Callable[[Mixture], float]) -> Mixture:
    """Without components, one after the other, whose absence makes the criterion smaller.

    What later components have replaced is not removed by growth. The one left out is that of the
    least mean ln v/v_others, before EM steps on the others.
    """
    mixture = settled(mixture, em)
    while mixture.size > 1:
        joint = mixture.log_joint(em.X)
        shares = np.exp(joint - log_sum_exp(joint)[:, None])
        with np.errstate(divide="ignore"):
            loss = np.log1p(-mixture.weights) - em.weights @ np.log1p(-np.minimum(shares, 1.0))
        fewer, _ = em.run(mixture.without(int(loss.argmin())), _STEPS_FEWER, _TOLERANCE)
        fewer = settled(fewer, em) if criterion(fewer) < criterion(mixture) else mixture
        if fewer is mixture:
            break
        mixture = fewer
    return mixture


@dataclass
class GrowthStop:
    """Stop when a criterion has not fallen for ``patience`` components; keeps the best mixture.

    ``criterion(mixture)`` is what should be small; at ``enough`` it is small enough. After
    ``max_iter`` steps nothing more is taken.
    """

    criterion: Callable[[Mixture], float]
    n_terms: int
    patience: float
    enough: float = -np.inf
    max_iter: float = np.inf

    def __post_init__(self) -> None:
        self.best: Mixture | None = None
        self.stages: list[Mixture] = []
        self.values: list[float] = []
        self._since = 0

    def see(self, mixture: Mixture) -> None:
        """Note a mixture."""
        value = self.criterion(mixture)
        if self.best is None or value < min(self.values) - 1e-4:
            self.best, self._since = mixture, 0
        else:
            self._since += 1
        self.stages.append(mixture)
        self.values.append(value)

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason tol, no gain, n_terms or max_iter."""
        growth = pursuit.objective
        assert isinstance(growth, MixtureGrowth)
        self.see(growth.mixture)
        return self.reason(growth.mixture.size)

    def reason(self, size: int) -> str | None:
        """Why a mixture of this size, the last one seen, should not grow."""
        if self.values[-1] <= self.enough:
            return "tol"
        if self._since >= self.patience:
            return "no gain"
        if size >= self.n_terms:
            return "n_terms"
        return "max_iter" if len(self.stages) > self.max_iter else None

    @property
    def best_steps(self) -> int:
        """Steps after which the best mixture was seen."""
        return next(i for i, stage in enumerate(self.stages) if stage is self.best)
