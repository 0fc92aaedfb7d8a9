"""Gaussian atoms of fixed centres and bandwidths, and what each gains in a mixture (Z02 §4.3).

For a density v and an atom p write r = p/v at the rows. Mixing p in with weight α gains

    g(α) = mean ln(1 - α + αr)

of log likelihood, a concave function of α whose slope at 0 is S - 1, with S = mean r. The best atom
is the one with the largest max g. Three upper bounds on max g, each sharper and more expensive than
the one before, leave few atoms that need a line search in double precision:

* if S ≤ 1, nothing is gained, since g is concave;
* Jensen's inequality within groups of rows: g(α) ≤ Σ_G W_G ln(1 - α + αS_G/W_G), with W_G the
  weight of a group of neighbouring rows and S_G its part of S; again within parts of groups;
* the tangent at any α of a concave function lies above it.

The same sums S bound the minimum of f = -mean ln over the hull of all atoms from below. For every q
in the hull mean(q/v) is a mean of S, so that Jensen's inequality gives

    f(v) - f(q) = mean ln(q/v) ≤ ln mean(q/v) ≤ ln max S,

for any density v, in the hull or not. The Frank-Wolfe gap max S - 1 is never below ln max S.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.linalg import Workers
from pursuit.objectives import NegativeLogLikelihood
from pursuit.rounding import gamma

_GROUP_ROWS = 64
"""Rows per group; smaller groups give sharper bounds, fewer line searches and more sums."""
_MOST_GROUPS = 128
"""Largest number of groups; more need more memory and give sharper bounds."""
_PARTS = 2
"""Parts per group; more give sharper bounds, and need more memory and time for every atom."""
_GROUPS = 8
"""Groups per task of a thread; more allocate memory less often and keep fewer threads busy."""
_BLOCK = 131_072
"""Values of atoms at rows that are computed at once: they should fit the cache of a core."""
_SINGLE_RANGE = 60.0
"""Largest ln r for which sums use single precision; beyond, they use double precision."""
_SINGLE_SLACK = 0.5
"""Largest rounding of exponents for which sums use single precision."""
_LARGEST_SLACK = 50.0
"""Largest rounding of exponents that sums make room for; beyond, they say nothing."""
_LARGEST_LOG = 600.0
"""Largest ln r in line searches, to which larger ones are cut so that products stay finite."""
_REACH = 13.0
"""Bandwidths beyond which a Gaussian is below the smallest number in single precision."""
_ROUGH_STEPS, _BOUND_STEPS, _SHARP_STEPS, _EXACT_STEPS = 2, 5, 3, 80
"""Newton steps of the bounds from groups, of all atoms and of those that are left; of the bounds
from rows; and of the line search. Fewer make bounds less sharp."""
_SETTLED = 1e-13
"""A line search ends when α moves by less than this fraction of itself."""
_ROUNDING = 2e-5
"""A bound on the rounding of the ratio, and so of the gain, of a row in single precision."""
_SUM_ROUNDING = 1e-3
"""A bound on the rounding of a sum over rows in single precision; smaller slopes count as 0."""
_CHUNK_CENTRES = 5000
"""Centres whose sums are stored at once; more need more memory."""
_BATCH, _BATCHES, _FEW = 48, 2, 8
"""Atoms per task, tasks per batch, and atoms per line search.

Larger numbers look at atoms that a better one would have ruled out, and need more memory.
"""
_EXACT_M = 2_000_000_000
"""Most products for which M is computed pair by pair; beyond, a bound on M is used."""


class Searched(NamedTuple):
    """Gains of atoms.

    Attributes
    ----------
    gains : array
        Gains after line searches; 0 for atoms that cannot be the best.
    shares : array
        The best α; an approximation for atoms without a line search.
    promise : array
        The gains, or upper bounds on them for atoms without a line search.
    """

    gains: Floats
    shares: Floats
    promise: Floats


class GaussianAtoms:
    """N(c, h²I) for given centres c and bandwidths h, on weighted rows.

    The number of an atom is its centre times the number of bandwidths, plus its bandwidth.

    Parameters
    ----------
    X : array of shape (n_rows, d)
        Rows.
    weights : array of shape (n_rows,)
        Weights that sum to one.
    centres : array of shape (n, d)
        Possible centres of atoms.
    bandwidths : array
        Standard deviations, decreasing.
    workers : Workers
        Threads; results do not depend on their number.
    """

    def __init__(
        self, X: Floats, weights: Floats, centres: Floats, bandwidths: Floats, workers: Workers
    ) -> None:
        self.centres, self.bandwidths = centres, bandwidths
        # Groups hold distinct rows, so that copies of a row give the same bounds as a weight.
        distinct, same, copies = np.unique(X, axis=0, return_inverse=True, return_counts=True)
        groups = neighbours(distinct, max(_GROUP_ROWS, -(-len(distinct) // _MOST_GROUPS)))
        split = [neighbours(distinct[group], -(-len(group) // _PARTS)) for group in groups]
        parts = [g[part] for g, several in zip(groups, split, strict=True) for part in several]
        rank = np.empty(len(distinct), dtype=np.intp)
        rank[np.concatenate(parts)] = np.arange(len(distinct))
        self._order = np.argsort(rank[same.ravel()], kind="stable")
        self._X, self._w = X[self._order], weights[self._order]
        self._squares = (self._X**2).sum(axis=1)
        self._starts = np.cumsum([0, *(int(copies[group].sum()) for group in groups)])
        self._group_weights = np.add.reduceat(self._w, self._starts[:-1])
        self._part_starts = np.cumsum([0, *(int(copies[part].sum()) for part in parts)])
        self._part_weights = np.add.reduceat(self._w, self._part_starts[:-1])
        self._parts = np.cumsum([0, *(len(several) for several in split)])
        self._units = self._rounded_units()
        self._workers = workers
        self._constants = X.shape[1] * (np.log(bandwidths) + 0.5 * np.log(2.0 * np.pi))

    @property
    def n_atoms(self) -> int:
        """Number of centres times number of bandwidths."""
        return len(self.centres) * len(self.bandwidths)

    def atom(self, number: int) -> tuple[Floats, float]:
        """Centre and bandwidth of an atom."""
        centre, which = divmod(number, len(self.bandwidths))
        return self.centres[centre], float(self.bandwidths[which])

    def most_likely(self) -> int:
        """The atom of the largest mean ln p, which is v⁰ of Algorithm 2.1."""
        mean = self._w @ self._X
        spread = float(self._w @ ((self._X - mean) ** 2).sum(axis=1))
        squares = ((self.centres - mean) ** 2).sum(axis=1) + spread
        values = -0.5 * squares[:, None] / self.bandwidths**2 - self._constants
        return int(values.argmax())

    def search(self, density: Floats, candidates: Indices, least_share: float = 0.0) -> Searched:
        """The largest gains of some atoms over α in [0, 1], given ln v at the rows.

        Atoms whose best α is below ``least_share`` gain 0.
        """
        if least_share >= 1.0:
            return Searched(*np.zeros((3, len(candidates))))
        density = density[self._order]
        n = len(self.bandwidths)
        centres, place = np.unique(candidates // n, return_inverse=True)
        of_parts, of_groups = self._sums(density, centres, self._precision(density), 0.0)
        columns = (candidates % n) * len(centres) + place
        bounds, shares = (values[columns] for values in self._bounds(of_groups, least_share))
        gains = np.zeros(len(candidates))
        order = np.argsort(-bounds, kind="stable")
        best = 0.0

        def from_groups(mine: Indices) -> tuple[Floats, Floats]:
            means = of_groups[:, columns[mine]]
            return tangent_bound(means, self._group_weights, shares[mine], _BOUND_STEPS)

        def from_parts(mine: Indices) -> tuple[Floats, Floats]:
            slack = np.repeat(self._slack(of_parts.dtype), np.diff(self._parts))
            means = self._means(of_parts[:, columns[mine]], self._part_weights, slack)
            return self._sharpen(means, self._part_weights, shares[mine], least_share)

        def from_rows(mine: Indices) -> tuple[Floats, Floats]:
            log_ratio = self._log_ratio(density, candidates[mine])
            ratio = np.exp(log_ratio.astype(of_parts.dtype, copy=False))
            ratio -= 1.0
            return self._sharpen(ratio, self._w, shares[mine], least_share)

        # Few atoms come first: the best of them rules out most others.
        rest = self._workers.slices(len(order) - _FEW, _BATCHES * _BATCH)
        for batch in (order[:_FEW], *(order[_FEW:][several] for several in rest)):
            batch = batch[bounds[batch] > best]
            if not len(batch):
                break
            for bound in from_groups, from_parts, from_rows:
                several = [batch[part] for part in self._workers.slices(len(batch), _BATCH)]
                for mine, pair in zip(several, self._workers.map(bound, several), strict=True):
                    bounds[mine], shares[mine] = pair
                batch = batch[bounds[batch] > best]
            ranked = batch[np.argsort(-bounds[batch], kind="stable")]
            for few in self._workers.slices(len(ranked), _FEW):
                now = ranked[few]
                now = now[bounds[now] > best]
                if not len(now):
                    break
                exact, shares[now] = self._exact(density, candidates[now], shares[now])
                exact = np.where(shares[now] >= least_share, np.maximum(exact, 0.0), 0.0)
                gains[now] = bounds[now] = exact
                best = max(best, float(exact.max()))
        return Searched(gains, shares, bounds)

    def log_largest_slope(self, density: Floats, centres: Indices) -> float:
        """ln max S over the atoms at some centres, given ln v at the rows."""
        density = density[self._order]
        n = len(self.bandwidths)
        # The largest S is often that of a narrow atom near the row of least density.
        distances = self.centres[centres] - self._X[density.argmin()]
        lonely = int((distances**2).sum(axis=1).argmin())
        largest = float(self._log_slopes(density, centres[lonely] * n + np.arange(n)).max())
        # Terms below single precision sum to less than ``lost`` times the largest ratio.
        shift = float((-density).max() - self._constants.min()) - _SINGLE_RANGE
        kind = np.float32 if self._single_resolves else np.float64
        lost, slack = 1e-11, 1.0 + float(self._slack(kind).max())
        for chunk in self._workers.slices(len(centres), _CHUNK_CENTRES):
            _, sums = self._sums(density, centres[chunk], kind, shift)
            numbers = (centres[chunk] * n + np.arange(n)[:, None]).ravel()
            bounds = shift + np.log(slack * sums.sum(axis=0, dtype=np.float64) + lost)
            order = np.argsort(-bounds, kind="stable")
            for few in self._workers.slices(len(order), _BATCH):
                if bounds[order[few.start]] <= largest:
                    break
                slopes = self._log_slopes(density, numbers[order[few]])
                largest = max(largest, float(slopes.max()))
        return largest

    def slope_error(self, density: Floats, slope: float, far: float) -> float:
        """How far ln max S may be from its exact value.

        The terms of an exponent are at most 2R²/h² and what belongs to the row and to h, R being
        the largest distance from 0 and h the smallest bandwidth; S changes by as much, relatively.
        Rows that were ``far`` from 0 before they were centred are themselves rounded by that.
        """
        largest = max(float((self._X**2).sum(axis=1).max()), float((self.centres**2).sum(1).max()))
        narrow = float(self.bandwidths.min())
        terms = 2.0 * largest / narrow**2 + float(np.abs(density).max())
        terms += float(np.abs(self._constants).max())
        d, m = self._X.shape[1], len(self._X)
        rounded = gamma(8) * far * np.sqrt(d * largest) / narrow**2
        error = 1.01 * (gamma(2 * d + 32) * terms + 4.0 * rounded)
        return float(error + gamma(m + 32) + gamma(16) * abs(slope))

    def curvature(self) -> float:
        """M, the largest mean of p²/q² over pairs of atoms (Z02 §4.3); it may be infinite.

        For many atoms it is bounded by the mean over rows of the largest p² over the smallest q².
        """
        if self.n_atoms**2 * len(self._X) <= _EXACT_M:
            log_p = self._log_ratio(np.zeros(len(self._X)), np.arange(self.n_atoms))
            top, bottom = log_p.max(axis=1), log_p.min(axis=1)
            # A single row makes M so large that floating point cannot hold it.
            if (np.log(self._w) + 2.0 * (top - bottom)).max() > _LARGEST_LOG:
                return np.inf
            # A factor per row does not change p/q, and keeps p² and 1/q² finite.
            densities = np.exp(log_p - 0.5 * (top + bottom)[:, None])
            return NegativeLogLikelihood(len(self._X), self._w).curvature(densities)
        low, high = self.centres.min(axis=0), self.centres.max(axis=0)
        far = (np.maximum(np.abs(self._X - low), np.abs(self._X - high)) ** 2).sum(axis=1)
        smallest = (-0.5 * far[:, None] / self.bandwidths**2 - self._constants).min(axis=1)
        with np.errstate(over="ignore"):
            return float(self._w @ np.exp(2.0 * (-self._constants.min() - smallest)))

    # Sums over groups of rows, and the bounds that they give

    def _sums(self, density: Floats, centres: Indices, kind: Any, shift: float) -> tuple[Any, Any]:
        """e^(-shift) S_G of all atoms at some centres, for G the parts of groups and the groups.

        The shapes are (parts, atoms) and (groups, atoms); atoms are ordered by bandwidth.
        """
        exponents = -density - self._constants[:, None] - shift
        # Rows at which v is almost 0 are treated one by one below.
        extreme = np.flatnonzero(exponents.max(axis=0) > _LARGEST_LOG)
        factors = (self._w * np.exp(np.minimum(exponents, _LARGEST_LOG))).astype(kind)
        factors[:, extreme] = 0.0
        points, h = np.ascontiguousarray(self.centres[centres].T), self.bandwidths
        scales = (h[0] / h) ** 2
        # A Gaussian of half the bandwidth is the fourth power: two squarings, and no exponential.
        squarings = [_log2_if_whole((wide / narrow) ** 2) for wide, narrow in pairwise(h)]
        d, n_rows = self._X.shape[1], max(_BLOCK // max(len(centres), 1), 1)
        of_parts, of_groups = (
            np.zeros((len(weights), len(h), len(centres)), dtype=kind)
            for weights in (self._part_weights, self._group_weights)
        )

        # Squares of distances are positive, but for rounding.
        rough = float(np.finfo(kind).eps) * float(self._units.max()) > _SINGLE_SLACK

        def groups(several: slice) -> None:
            # Memory is allocated once: per group it would take longer than the product.
            memory = np.empty((n_rows, len(centres)), dtype=kind)
            right = np.ones((d + 2, len(centres)), dtype=kind)
            for number in range(several.start, several.stop):
                start, end = self._starts[number], self._starts[number + 1]
                # Relative to the mean of a group, the squares in and near it are small.
                mean = self._X[start:end].mean(axis=0)
                C = points - mean[:, None]
                right[:d] = C
                right[d + 1] = -0.5 * np.einsum("ij,ij->j", C, C)
                for part in range(self._parts[number], self._parts[number + 1]):
                    first, last = self._part_starts[part], self._part_starts[part + 1]
                    for row in range(first, last, n_rows):
                        rows = slice(row, min(row + n_rows, last))
                        X = self._X[rows] - mean
                        left = np.column_stack([X, -0.5 * (X**2).sum(axis=1), np.ones(len(X))])
                        left = (left / h[0] ** 2).astype(kind)
                        values = np.matmul(left, right, out=memory[: len(X)])
                        if rough:
                            np.minimum(values, 0.0, out=values)
                        exponent = values if all(squarings) else values.copy()
                        np.exp(values, out=values)
                        for j in range(len(h)):
                            if j and squarings[j - 1]:
                                for _ in range(squarings[j - 1]):
                                    np.multiply(values, values, out=values)
                            elif j:
                                np.multiply(exponent, kind(scales[j]), out=values)
                                np.exp(values, out=values)
                            of_parts[part, j] += factors[j, rows] @ values
                    of_groups[number] += of_parts[part]

        self._workers.map(groups, self._workers.slices(len(of_groups), _GROUPS))
        for row in extreme:
            squares = ((points - self._X[row][:, None]) ** 2).sum(axis=0)
            log_ratio = exponents[:, [row]] - 0.5 * squares / h[:, None] ** 2
            terms = self._w[row] * np.exp(np.minimum(log_ratio, _LARGEST_LOG))
            of_parts[np.searchsorted(self._part_starts, row, side="right") - 1] += terms
            of_groups[np.searchsorted(self._starts, row, side="right") - 1] += terms
        return of_parts.reshape(len(of_parts), -1), of_groups.reshape(len(of_groups), -1)

    def _rounded_units(self) -> Floats:
        """For each group, a bound on the rounding of its sums in units of the last place."""
        narrow = float(self.bandwidths.min())
        starts, ends = self._starts[:-1], self._starts[1:]
        spans = [np.ptp(self._X[a:b], axis=0) for a, b in zip(starts, ends, strict=True)]
        reach = np.linalg.norm(spans, axis=1) / narrow + _REACH
        d = self._X.shape[1]
        return np.asarray((d + 4) * reach**2 + np.diff(self._starts) + 100.0, dtype=np.float64)

    def _slack(self, kind: Any) -> Floats:
        """Upper bounds on the relative errors of the groups' sums: exponents are rounded."""
        exponents = float(np.finfo(kind).eps) * self._units
        return np.maximum(np.expm1(np.minimum(exponents, _LARGEST_SLACK)), _ROUNDING)

    @property
    def _single_resolves(self) -> bool:
        """Whether exponents of the narrowest atoms mean something in single precision."""
        return bool(np.finfo(np.float32).eps * self._units.max() <= _SINGLE_SLACK)

    def _bounds(self, sums: Any, least_share: float) -> tuple[Floats, Floats]:
        """Upper bounds on the gains from sums over groups, and α near the best.

        The sums become means of r - 1. If the slope at the least share is not positive, the best α
        is below it and the bound is 0. That slope is concave in r as well, so it is at most the
        slope for the means of the groups.
        """
        W = self._group_weights
        means = self._means(sums, W, self._slack(sums.dtype))
        bounds, shares = np.zeros((2, means.shape[1]))
        rising = np.flatnonzero(slopes_at(means, W, least_share) > -_ROUNDING)
        guess = np.full(len(rising), 0.05)
        bounds[rising], shares[rising] = tangent_bound(means[:, rising], W, guess, _ROUGH_STEPS)
        return bounds, shares

    def _means(self, sums: Any, weights: Floats, slack: Floats) -> Any:
        """Turn sums over groups of these weights into upper bounds on their means of r - 1."""
        sums *= ((1.0 + slack) / weights).astype(sums.dtype)[:, None]
        sums -= sums.dtype.type(1.0 - _ROUNDING)
        return sums

    def _sharpen(
        self, ratio: Any, weights: Floats, shares: Floats, least_share: float
    ) -> tuple[Floats, Floats]:
        """Tangent bounds, 0 if the best α is below the least share, and better α."""
        rising = slopes_at(ratio, weights, least_share) > -_SUM_ROUNDING
        bounds, shares = tangent_bound(ratio, weights, shares, _SHARP_STEPS)
        return np.where(rising, bounds + _ROUNDING, 0.0), shares

    def _precision(self, density: Floats) -> Any:
        """Single precision, or double if an atom is too narrow or may exceed v by too much."""
        single = float((-density).max() - self._constants.min()) <= _SINGLE_RANGE
        return np.float32 if single and self._single_resolves else np.float64

    def _exact(self, density: Floats, numbers: Indices, shares: Floats) -> tuple[Floats, Floats]:
        """Gains after line searches in double precision, and their α."""
        ratio = np.exp(self._log_ratio(density, numbers)) - 1.0
        shares, _, _ = best_shares(ratio, self._w, shares, _EXACT_STEPS)
        return self._w @ np.log1p(shares * ratio), shares

    def _log_slopes(self, density: Floats, numbers: Indices) -> Floats:
        """ln S of atoms."""
        log_ratio = self._log_ratio(density, numbers, np.inf)
        top = log_ratio.max(axis=0)
        return np.asarray(np.log(self._w @ np.exp(log_ratio - top)) + top)

    def _log_ratio(
        self, density: Floats, numbers: Indices, largest: float = _LARGEST_LOG
    ) -> Floats:
        """ln p - ln v, shape (rows, atoms), with the rows in the order of their groups."""
        n, X = len(self.bandwidths), self._X
        centres, scales = self.centres[numbers // n], self.bandwidths[numbers % n] ** -2.0
        constants = 0.5 * (centres**2).sum(axis=1) * scales + self._constants[numbers % n]
        # One matrix product is faster than several passes over so many values.
        left = np.column_stack([X, -0.5 * self._squares, -density, -np.ones(len(X))])
        right = np.vstack([centres.T * scales, scales, np.ones(len(numbers)), constants])
        log_ratio = left @ right
        return np.asarray(np.minimum(log_ratio, largest, out=log_ratio))


def best_shares(
    ratio: Any, weights: Floats, guess: Floats, steps: int
) -> tuple[Floats, Floats, Floats]:
    """The α in [0, 1] that maximises Σ w ln(1 + α ratio), per column, and a bracket around it.

    This is Newton's method, with bisection whenever a step would leave the bracket. It takes fewer
    than ``steps`` steps if no α moves any more.
    """
    w = weights.astype(ratio.dtype)
    low, high = np.zeros(len(guess)), np.ones(len(guess))
    # At α = 1 a row of ratio -1 would have a likelihood of 0.
    top = 1.0 - 8.0 * float(np.finfo(ratio.dtype).eps)
    share = np.clip(guess, 1e-12, top)
    for _ in range(steps):
        first = ratio / (1.0 + share.astype(ratio.dtype) * ratio)
        slope = (w @ first).astype(np.float64)
        np.multiply(first, first, out=first)
        curvature = (w @ first).astype(np.float64)
        low, high = np.where(slope > 0, share, low), np.where(slope > 0, high, share)
        moved = share + slope / np.maximum(curvature, 1e-300)
        inside = ((moved > low) & (moved < high)) | (slope == 0)
        moved = np.where(inside, moved, 0.5 * (low + high))
        settled = np.abs(moved - share) <= _SETTLED * share
        share = np.minimum(moved, top)
        if settled.all():
            break
    return share, low, high


def slopes_at(ratio: Any, weights: Floats, share: float) -> Floats:
    """Slope of Σ w ln(1 + α ratio) at one α, per column."""
    return np.asarray(
        weights.astype(ratio.dtype) @ (ratio / (1.0 + ratio.dtype.type(share) * ratio))
    )


def tangent_bound(ratio: Any, weights: Floats, guess: Floats, steps: int) -> tuple[Floats, Floats]:
    """An upper bound on max Σ w ln(1 + α ratio), and an α near the maximum, per column.

    The function is concave, so it lies below its tangents. Its maximum is inside the bracket, and
    its value at α = 0 is 0.
    """
    share, low, high = best_shares(ratio, weights, guess, steps)
    product = share.astype(ratio.dtype) * ratio
    product += 1.0
    slope = weights @ (ratio / product)
    value = weights @ np.log(product, out=product)
    bound = value + np.maximum(slope * (high - share), slope * (low - share))
    return np.maximum(bound, 0.0), share


def neighbours(X: Floats, size: int) -> list[Indices]:
    """Groups of at most ``size`` nearby rows, halved along their widest feature until they fit."""
    waiting, groups = [np.arange(len(X))], []
    while waiting:
        rows = waiting.pop()
        if len(rows) <= size:
            groups.append(rows)
            continue
        widest = np.ptp(X[rows], axis=0).argmax()
        rows = rows[np.argsort(X[rows, widest], kind="stable")]
        waiting += [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    return groups


def _log2_if_whole(ratio: float) -> int:
    """log₂ of a power of two, else 0."""
    mantissa, exponent = np.frexp(ratio)
    return int(exponent) - 1 if mantissa == 0.5 else 0
