"""A mixture density that grows by a component at a time (Z02 §4.3), as an objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pursuit.greedy import Pursuit
from pursuit.solvers import EM, Mixture

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_SHORTLIST = 30
_NEWTON_STEPS = 4
_REFINED = 3
_STEPS_NEW = 10
_STEPS_ALL = 8
_TRIES = 3
_CHUNK_CENTRES = 256
_LARGEST_LOG = 50.0


class CandidateAtoms:
    """At every step new centres, each with all bandwidths: atom number = centre x n + bandwidth."""

    def __init__(self, n_bandwidths: int, n_centres: int, rng: np.random.Generator) -> None:
        self._n_bandwidths, self._n_centres, self._rng = n_bandwidths, n_centres, rng

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """Numbers of the atoms at ``n_centres`` random centres."""
        if not available.any():
            return np.empty(0, dtype=np.intp)
        n = len(available) // self._n_bandwidths
        centres = np.arange(n)
        if n > self._n_centres:
            centres = np.sort(self._rng.choice(n, self._n_centres, replace=False))
        return (centres[:, None] * self._n_bandwidths + np.arange(self._n_bandwidths)).ravel()


class MixtureGrowth:
    """-mean ln v(x) for a mixture v that takes one Gaussian atom at a time.

    Atoms are spherical, centred at given points, of given bandwidths. The score of one is the gain
    in mean log likelihood of (1 - α)v + αp at the best α. What is taken is more than scored: the
    best few are refined by EM steps on the new component alone, and the best of them is followed
    by EM steps on all. A mixture whose old components never move again falls short of one fitted
    at once; and each step can only raise the likelihood.

    Parameters
    ----------
    em : EM
        Rows, weights, covariances and floor.
    centres : array of shape (n, d)
        Points that atoms may be centred at.
    bandwidths : array
        Standard deviations of the atoms.
    """

    def __init__(self, em: EM, centres: Floats, bandwidths: Floats) -> None:
        self._em, self._centres, self._bandwidths = em, centres, bandwidths
        self.mixture = em.single()
        self._density = self.mixture.log_density(em.X)
        self.value = self.start_value = -float(em.weights @ self._density)
        self._ranked: list[tuple[float, int, float]] = []
        self._failures = 0

    @property
    def available(self) -> NDArray[np.bool_]:
        """All atoms, until several draws in a row brought nothing."""
        return np.full(len(self._centres) * len(self._bandwidths), self._failures < _TRIES)

    @property
    def n_terms(self) -> int:
        """Number of components."""
        return self.mixture.size

    def score(self, candidates: Indices) -> Floats:
        """Gain of each atom; 0 for those that a first estimate puts far behind the best."""
        gains = np.zeros(len(candidates))
        self._ranked = []
        n = len(self._bandwidths)
        points, place = np.unique(candidates // n, return_inverse=True)
        squares = squared_distances(self._em.X, self._centres[points])
        for number, bandwidth in enumerate(self._bandwidths):
            mine = np.flatnonzero(candidates % n == number)
            found, shares = self._gains(squares[:, place[mine]], float(bandwidth))
            gains[mine] = np.maximum(found, 0.0)
            self._ranked += [
                (float(gain), int(candidates[i]), float(share))
                for i, gain, share in zip(mine, found, shares, strict=True)
                if gain > 0
            ]
        self._ranked.sort(key=lambda entry: (-entry[0], entry[1]))
        return gains

    def add(self, candidate: int) -> bool:
        """Refine the best atoms, take the best of them, and let all components follow."""
        best = None
        for number, share in self._spread_out():
            mean, factor = self._atom(number)
            found = self._em.grow(self._density, mean, factor, share, _STEPS_NEW)
            if found is not None and (best is None or found[-1] > best[-1]):
                best = found
        if best is None:
            self._failures += 1
            return False
        self._failures = 0
        grown = self.mixture.with_component(best[0], best[1], best[2])
        self.mixture, _ = self._em.run(grown, _STEPS_ALL, 1e-6)
        self._density = self.mixture.log_density(self._em.X)
        self.value = -float(self._em.weights @ self._density)
        return True

    def _gains(self, squares: Floats, bandwidth: float) -> tuple[Floats, Floats]:
        """Gain and best α of atoms of one bandwidth; -1 for those not on the shortlist."""
        w, start = self._em.weights, 0.5 / self.mixture.size
        ratio = density_ratio(squares, self._density, self._em.X.shape[1], bandwidth)
        ratio -= 1.0
        first = ratio / (1.0 + start * ratio)
        slope, curvature = w @ first, w @ first**2
        promise = slope * np.abs(slope) / np.maximum(curvature, 1e-300)
        kept = np.argsort(-promise, kind="stable")[:_SHORTLIST]
        ratio, share = ratio[:, kept], np.full(len(kept), start)
        for _ in range(_NEWTON_STEPS):
            first = ratio / (1.0 + share * ratio)
            step = (w @ first) / np.maximum(w @ first**2, 1e-300)
            share = np.clip(share + step, 1e-4, 0.6)
        gains, shares = np.full((2, squares.shape[1]), -1.0)
        gains[kept], shares[kept] = w @ np.log1p(share * ratio), share
        return gains, shares

    def _atom(self, number: int) -> tuple[Floats, Floats]:
        centre, which = divmod(number, len(self._bandwidths))
        d, h = self._centres.shape[1], float(self._bandwidths[which])
        if self._em.kind == "full":
            return self._centres[centre], h * np.eye(d)
        return self._centres[centre], np.full(d, h) if self._em.kind == "diag" else np.array(h)

    def _spread_out(self) -> list[tuple[int, float]]:
        """The best atoms of the last score, none within two bandwidths of a better one."""
        taken: list[tuple[int, float]] = []
        for _, number, share in self._ranked:
            mean, _ = self._atom(number)
            width = 2.0 * float(self._bandwidths[number % len(self._bandwidths)])
            near = any(
                float(((mean - self._atom(other)[0]) ** 2).sum()) < width**2 for other, _ in taken
            )
            if not near:
                taken.append((number, share))
            if len(taken) == _REFINED:
                break
        return taken


def atoms_gap(mixture: Mixture, em: EM, centres: Floats, bandwidths: Floats) -> float:
    """max over atoms p of mean p/v - 1: -mean ln v is at most this above its least over their hull.

    Convexity gives it for any density v, in the hull or not.
    """
    density = mixture.log_density(em.X)
    worst = 0.0
    for start in range(0, len(centres), _CHUNK_CENTRES):
        squares = squared_distances(em.X, centres[start : start + _CHUNK_CENTRES])
        for bandwidth in bandwidths:
            ratio = density_ratio(squares, density, em.X.shape[1], float(bandwidth))
            worst = max(worst, float((em.weights @ ratio).max()) - 1.0)
    return worst


def squared_distances(X: Floats, centres: Floats) -> Floats:
    """‖x - c‖², shape (rows, centres)."""
    squares = (X**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2.0 * (X @ centres.T)
    return np.asarray(np.maximum(squares, 0.0))


def density_ratio(squares: Floats, density: Floats, d: int, bandwidth: float) -> Floats:
    """p(x)/v(x) for spherical atoms p in d dimensions, given ln v(x): shape (rows, centres)."""
    constant = d * (np.log(bandwidth) + 0.5 * np.log(2.0 * np.pi))
    ratio = squares * (-0.5 / bandwidth**2)
    ratio -= (density + constant)[:, None]
    np.minimum(ratio, _LARGEST_LOG, out=ratio)
    return np.asarray(np.exp(ratio, out=ratio))


@dataclass
class GrowthStop:
    """Stop when a criterion has not fallen for ``patience`` components; keeps the best mixture.

    ``criterion(mixture)`` is what should be small; at ``enough`` it is small enough.
    """

    criterion: Callable[[Mixture], float]
    patience: int
    n_terms: int
    enough: float = -np.inf

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
        """Reason tol, no gain or n_terms."""
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
        return "n_terms" if size >= self.n_terms else None
