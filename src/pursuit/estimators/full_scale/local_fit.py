"""The two parts of a full-scale model put together: predictions, rows left out, whitened sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cholesky, eigh

from pursuit._types import Floats, Indices
from pursuit.estimators.full_scale.near_rows import LeavingRows, NearRows, RowIndex
from pursuit.gram import LocalGroups, ResidualProcess, condition, in_parts, kernel_times
from pursuit.linalg import PredictiveVariance, SpanSolution, Workers, invert_lower
from pursuit.rows import RowSource, SelectedRows, concat, len_items, take_items
from pursuit.tuning import LeftOut, LeftOutGroups

_COVARIANCE_ROWS = 512


@dataclass(frozen=True)
class GlobalPart:
    """The functions of the basis, as both couplings leave them.

    Attributes
    ----------
    coordinates : array of shape (n, n_outputs)
        w, their coefficients on V.
    rotation : array of shape (n, n)
        T with C = T'T, the covariance of w.
    ridge : float, optional
        σ² of the sparse fit, whose sums a single row can leave; None where the sums are whitened.
    """

    coordinates: Floats
    rotation: Floats
    ridge: float | None

    @classmethod
    def of_sparse(cls, solution: SpanSolution) -> GlobalPart:
        """Coupling "late": w and C = σ²(V'WV + σ²I)⁻¹ of the sparse fit."""
        root = np.sqrt(solution.noise) * invert_lower(solution.L)
        return cls(solution.coordinates(), root, solution.noise)


@dataclass(frozen=True)
class RidgePath:
    """The sparse fit for any ridge ρ, from the eigenvectors Q and eigenvalues Λ of V'WV.

    In the coordinates Q'V its coefficients are (Λ + ρ)⁻¹Q'V'Wy, and C is ρ(Λ + ρ)⁻¹.

    Attributes
    ----------
    vectors : array of shape (n, n)
        Q.
    values : array of shape (n,)
        Λ.
    cross : array of shape (n, n_outputs)
        Q'V'Wy.
    """

    vectors: Floats
    values: Floats
    cross: Floats

    @classmethod
    def of(cls, solution: SpanSolution) -> RidgePath:
        """From the sums of a sparse fit."""
        gram, cross = solution.whitened()
        values, vectors = eigh(gram)
        return cls(vectors, np.maximum(values, 0.0), vectors.T @ cross)

    def coordinates(self, ridge: float) -> Floats:
        """Coefficients on Q'V: shape (n, n_outputs)."""
        return self.cross / (self.values + ridge)[:, None]

    def shrinkage(self, ridge: float) -> Floats:
        """The diagonal of C: shape (n,)."""
        return np.asarray(ridge / (self.values + ridge))


@dataclass(frozen=True)
class WhitenedSums:
    """Sums over rows that preceding near rows have whitened (coupling "full").

    With A, u and D = missed + σ²/w of a row given near rows before it, and e = y - A y_N, the
    coordinates of the basis functions have the precision B = I + Σuu'/D and the mean B⁻¹Σue/D. If
    the near rows of a row are all rows before it, this is the exact process.

    Attributes
    ----------
    gram, cross : arrays of shape (n, n) and (n, n_outputs)
        Σuu'/D and Σue/D.
    squares : array of shape (n_outputs,)
        Σe²/D.
    logs : float
        Σ log D.
    n_rows : int
        Number of rows.
    """

    gram: Floats
    cross: Floats
    squares: Floats
    logs: float
    n_rows: int

    def __add__(self, other: WhitenedSums) -> WhitenedSums:
        return WhitenedSums(
            self.gram + other.gram,
            self.cross + other.cross,
            self.squares + other.squares,
            self.logs + other.logs,
            self.n_rows + other.n_rows,
        )

    def __sub__(self, other: WhitenedSums) -> WhitenedSums:
        return WhitenedSums(
            self.gram - other.gram,
            self.cross - other.cross,
            self.squares - other.squares,
            self.logs - other.logs,
            self.n_rows - other.n_rows,
        )

    def posterior(self) -> GlobalPart:
        """Mean and covariance of the coordinates."""
        root = invert_lower(self._factor())
        return GlobalPart(root.T @ (root @ self.cross), root, None)

    def log_evidence(self, kept: NearRows, noise: float) -> float:
        """Log density of all targets, copies of rows included, summed over the outputs."""
        L = self._factor()
        explained = ((invert_lower(L) @ self.cross) ** 2).sum(axis=0)
        determinant = self.logs + 2.0 * float(np.log(np.diag(L)).sum())
        distinct = self.squares - explained + determinant + self.n_rows * np.log(2 * np.pi)
        copies = kept.n_copies * np.log(2 * np.pi * noise) - kept.log_weights
        return float(-0.5 * (distinct + copies + kept.scatter / noise).sum())

    def _factor(self) -> Floats:
        factor: Floats = cholesky(np.eye(len(self.gram)) + self.gram, lower=True)
        return factor


def whiten(
    process: ResidualProcess,
    kept: NearRows,
    near: Indices,
    noise: float,
    numbers: Indices,
    workers: Workers,
) -> WhitenedSums:
    """Sums over the rows ``numbers``, each given its ``near`` rows, which precede it."""
    n = len(process.whitener)
    total, logs = np.zeros((n + kept.targets.shape[1],) * 2), 0.0
    for span, items in in_parts(SelectedRows(process.rows, numbers)):
        task = partial(_whitened, kept, noise, numbers[span], near[span])
        parts = process.each(items, near[span], task, workers)
        U = np.concatenate([scaled for scaled, _ in parts])
        total += U.T @ U
        logs += sum(part for _, part in parts)
    return WhitenedSums(total[:n, :n], total[:n, n:], np.diag(total)[n:], logs, len(numbers))


def _whitened(
    kept: NearRows, noise: float, numbers: Indices, near: Indices, groups: LocalGroups
) -> tuple[Floats, float]:
    """(u, e)/√D of a few rows, and the sum of log D."""
    own, index = numbers[groups.where], np.maximum(near[groups.where], 0)
    given = condition(groups.residual, noise / kept.weights[index], groups.rounding)
    variance = given.missed + noise / kept.weights[own]
    u = given.left(groups.own, groups.near)
    e = kept.targets[own] - np.einsum("gk,gko->go", given.weights, kept.targets[index])
    scaled = np.concatenate([u, e], axis=1) / np.sqrt(variance)[:, None]
    return scaled, float(np.log(variance).sum())


@dataclass(frozen=True)
class LocalModel:
    """A fitted full-scale model: rows, residual process, and what the choices have set.

    Attributes
    ----------
    kept : NearRows
        The rows.
    process : ResidualProcess
        What the basis leaves among them.
    index : RowIndex
        Finds near rows.
    part : GlobalPart
        Coordinates of the basis functions.
    fitted : array of shape (n_rows, n_outputs)
        V'w at the rows.
    """

    kept: NearRows
    process: ResidualProcess
    index: RowIndex
    part: GlobalPart
    fitted: Floats

    @cached_property
    def errors(self) -> Floats:
        """What the basis functions leave of the targets: shape (n_rows, n_outputs)."""
        errors: Floats = self.kept.targets - self.fitted
        return errors

    @cached_property
    def _turn(self) -> NDArray[Any]:
        """T' in the type of the features."""
        return self.part.rotation.T.astype(self.process.dtype)

    def with_part(self, part: GlobalPart, workers: Workers) -> LocalModel:
        """The same rows with other coordinates of the basis functions."""
        process = self.process
        coefficients = process.whitener.T @ part.coordinates
        fitted = kernel_times(process.rows, process.kernel, process.points, coefficients, workers)
        return replace(self, part=part, fitted=fitted)

    def predict(
        self, rows: RowSource, k: int, noise: float, workers: Workers, *, variance: bool
    ) -> tuple[Floats, Floats, Floats]:
        """Means (n_rows, n_outputs), variances without noise, and k(x, x).

        The variances are those that near rows and basis leave; empty if not asked for.
        """
        found = [self._predicted(items, k, noise, workers, variance) for _, items in in_parts(rows)]
        means, left, prior = zip(*found, strict=True)
        return np.concatenate(means), np.concatenate(left), np.concatenate(prior)

    def _predicted(
        self, items: Any, k: int, noise: float, workers: Workers, variance: bool
    ) -> tuple[Floats, Floats, Floats]:
        near = self.index.nearest(items, k, workers)
        if self.process.stored is None:
            # Neighbouring queries share near rows, whose features are then computed once.
            order = np.argsort(self.process.nearest_points(items, workers), kind="stable")
            items, near = take_items(items, order), near[order]
        else:
            order = np.arange(len(near))
        rotation = self._turn if variance else np.empty(0)

        def task(groups: LocalGroups) -> tuple[Floats, Floats, Floats]:
            index = near[groups.where]
            given = condition(groups.residual, noise / self.kept.weights[index], groups.rounding)
            mean = groups.own @ self.part.coordinates
            mean += np.einsum("gk,gko->go", given.weights, self.errors[index])
            if not variance:
                return mean, np.empty(0), groups.prior
            u = given.left(groups.own, groups.near).astype(rotation.dtype) @ rotation
            spread = np.einsum("gi,gi->g", u, u, dtype=np.float64)
            return mean, given.missed + spread, groups.prior

        parts = self.process.each(items, near, task, workers)
        means, left, prior = (np.concatenate(each) for each in zip(*parts, strict=True))
        back = np.argsort(order)
        return means[back], left[back] if variance else left, prior[back]

    def covariance(
        self, rows: RowSource, k: int, noise: float, spread: PredictiveVariance, workers: Workers
    ) -> Floats:
        """Joint covariance of the errors of all means, without noise of new observations.

        The error at x is f(x) - Σ_j A_j y_j - u·w, so that with E = [I, -A] over queries and near
        rows the covariance is E r E' + A σ²W⁻¹A' + uCu', and E r E' = E k E' - uu'.
        """
        items = rows.take(np.arange(rows.n_rows))
        near = self.index.nearest(items, k, workers)

        def task(groups: LocalGroups) -> tuple[Floats, Floats, Floats, Floats]:
            index = near[groups.where]
            given = condition(groups.residual, noise / self.kept.weights[index], groups.rounding)
            u = given.left(groups.own, groups.near)
            return given.weights, u, given.missed, groups.prior

        parts = self.process.each(items, near, task, workers)
        weights, u, missed, prior = (np.concatenate(each) for each in zip(*parts, strict=True))
        used, at = np.unique(near, return_inverse=True)
        m, shape = rows.n_rows, (rows.n_rows, len(used))
        first = np.repeat(np.arange(m), k)
        A = sparse.csr_array((weights.ravel(), (first, at.ravel())), shape=shape)
        E = sparse.csr_array(sparse.hstack([sparse.eye_array(m), -A]))
        together = concat(items, self.process.rows.take(used))
        total = A @ sparse.diags_array(noise / self.kept.weights[used]) @ A.T
        covariance = total.toarray() - u @ u.T
        turned = u @ self.part.rotation.T
        covariance += turned @ turned.T
        columns = self.process.kernel.columns(together)
        for some in Workers.slices(len_items(together), _COVARIANCE_ROWS):
            block = E @ columns(together[some]).T
            covariance += block @ E[:, some].T
        left = missed + np.einsum("ij,ij->i", turned, turned)
        root = np.sqrt(spread.factor(left, prior))
        covariance[np.diag_indices_from(covariance)] = left
        covariance *= root
        covariance *= root[:, None]
        symmetric: Floats = 0.5 * (covariance + covariance.T)
        return symmetric

    def left_out(self, leaving: LeavingRows, k: int, workers: Workers) -> LeftOutGroups:
        """Rows left out one at a time, with their near rows among the others.

        A row leaves its own near rows and, where the global part is the sparse fit's, its sums:
        w without row i is w - B⁻¹v_i w_i e_i/(1 - h_i), with B = V'WV + σ²I, h_i = w_i v_i'B⁻¹v_i.
        """
        part, left = self.part, self._leave(leaving, k, workers)

        def task(groups: LocalGroups) -> tuple[Floats, ...]:
            assert groups.rotated is not None
            error = left.errors(groups, part)
            gram = (groups.rotated @ groups.rotated.swapaxes(1, 2)).astype(np.float64)
            if part.ridge is not None:
                error, gram = _without_row(error, gram, left.gone[groups.where], part.ridge)
            return (
                groups.residual,
                groups.prior,
                groups.rounding,
                gram,
                left.judged(groups, error),
            )

        parts = self.process.each(leaving.items, left.near, task, workers, rotation=part.rotation)
        return self._gathered(leaving, left, parts)

    def left_out_by_ridge(
        self,
        leaving: LeavingRows,
        k: int,
        noise: float,
        ridges: Sequence[float],
        workers: Workers,
        solution: SpanSolution,
    ) -> list[LeftOut]:
        """Rows left out as in :meth:`left_out`, with k near rows, for several ridges.

        ``solution`` is the sparse fit that the part is of. With the weights c = (1, -A) of a row
        and its near rows, errors and variance need cV = u and V of the row alone.
        """
        part, left, path = self.part, self._leave(leaving, k, workers), RidgePath.of(solution)

        def task(groups: LocalGroups) -> tuple[Floats, ...]:
            at = groups.where
            given = condition(groups.residual, noise / left.weights[at], groups.rounding)
            errors = left.errors(groups, part)
            combined = errors[:, 0] - np.einsum("gk,gko->go", given.weights, errors[:, 1:])
            u = given.left(groups.own, groups.near).astype(np.float64)
            return groups.own, u, errors[:, 0], combined, given.missed, groups.prior

        parts = self.process.each(leaving.items, left.near, task, workers)
        own, u, first, combined, missed, prior = (
            np.concatenate(arrays) for arrays in zip(*parts, strict=True)
        )
        own, u = own @ path.vectors, u @ path.vectors
        group, nothing = np.unique(leaving.number, return_inverse=True)[1], np.zeros(len(prior))
        rest = prior, leaving.weights, group, self.kept.conflicts
        found = []
        for ridge in ridges:
            change = path.coordinates(ridge) - path.coordinates(solution.noise)
            shrunk = own * path.shrinkage(ridge)
            lever, weights = np.einsum("gi,gi->g", u, shrunk) / ridge, left.gone
            stays = np.maximum(1.0 - weights * np.einsum("gi,gi->g", own, shrunk) / ridge, 1e-10)
            moved = (weights / stays)[:, None] * (first - own @ change)
            error = combined - u @ change + lever[:, None] * moved + left.beside
            spread = np.einsum("gi,gi,i->g", u, u, path.shrinkage(ridge))
            spread += ridge * weights / stays * lever**2
            found.append(LeftOut(error, missed + spread, nothing, *rest))
        return found

    def _leave(self, leaving: LeavingRows, k: int, workers: Workers) -> _Leaving:
        near = self.index.nearest(leaving.items, k, workers, own=leaving.excluded(self.kept))
        targets, weights = leaving.neighbours(self.kept, near)
        # A copy that stays is fitted like its distinct row: only its target has changed.
        mean, gone = leaving.leaves(self.kept)
        others = targets - self.fitted[near]
        return _Leaving(near, weights, mean, gone, leaving.targets - mean, others)

    def _gathered(
        self, leaving: LeavingRows, left: _Leaving, parts: Sequence[tuple[Floats, ...]]
    ) -> LeftOutGroups:
        """From r, k(x, x), the rounding, V C V' and the errors of a few rows at a time."""
        residual, prior, rounding, gram, errors = (
            np.concatenate(arrays) for arrays in zip(*parts, strict=True)
        )
        group = np.unique(leaving.number, return_inverse=True)[1]
        common = 1.0 / left.weights, prior, leaving.weights, group, rounding, self.kept.conflicts
        return LeftOutGroups(residual, gram, errors, *common)


@dataclass(frozen=True)
class _Leaving:
    """Near rows of rows that leave, without them, and what leaves: targets, weights.

    ``beside`` is what the row's own target has beyond that of all that leaves with it.
    """

    near: Indices
    weights: Floats
    own: Floats
    gone: Floats
    beside: Floats
    others: Floats

    def errors(self, groups: LocalGroups, part: GlobalPart) -> Floats:
        """Errors of what leaves and of the near rows: shape (n_rows, 1 + k, n_outputs)."""
        first = self.own[groups.where] - groups.own @ part.coordinates
        return np.concatenate([first[:, None], self.others[groups.where]], axis=1)

    def judged(self, groups: LocalGroups, errors: Floats) -> Floats:
        """The same with the row's own target in the place of that of all that leaves."""
        errors[:, 0] += self.beside[groups.where]
        return errors


def whiten_last(
    local: LocalModel, first: int, k: int, noise: float, workers: Workers
) -> WhitenedSums:
    """Sums over the rows from number ``first`` on, each given k near rows among those before it."""
    numbers = np.arange(first, local.kept.n_rows)
    near = local.index.search.preceding(k, workers)[numbers]
    return whiten(local.process, local.kept, near, noise, numbers, workers)


def without_near_rows(groups: LeftOutGroups, ridge: float) -> LeftOut:
    """The rows left out, predicted by the sparse fit alone, whose noise σ² is the ridge."""
    missed = np.maximum(groups.residual[:, 0, 0], 0.0)
    q = groups.global_gram[:, 0, 0] / ridge
    return LeftOut(groups.errors[:, 0], missed, q, groups.prior, groups.weights, groups.group)


def _without_row(
    errors: Floats, gram: Floats, weights: Floats, ridge: float
) -> tuple[Floats, Floats]:
    """Errors, and V C V', of groups whose first row leaves the sums of the sparse fit."""
    lever = gram[:, :, 0] / ridge
    rest = np.maximum(1.0 - weights * lever[:, 0], 1e-10)
    moved = (weights / rest)[:, None] * errors[:, 0]
    changed = gram + (ridge * weights / rest)[:, None, None] * (lever[:, :, None] * lever[:, None])
    return errors + lever[:, :, None] * moved[:, None], changed
