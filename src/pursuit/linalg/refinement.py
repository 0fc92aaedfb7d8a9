"""Iterative refinement: conjugate gradients with rough products, residuals from exact ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.linalg.cg import Booleans, CGSolution, ConjugateGradients, Operator, column_dots
from pursuit.linalg.cholesky import NotPositiveDefiniteError

_ROUGH_REDUCTION, _EXACT_REDUCTION = 3e-5, 1e-10
"""Part of a residual below which its recursion is not trusted and the product is taken anew."""

_MARGIN = 0.9
_CHECK_STEPS = 100
"""Rough steps after which the residual by recursion is compared with the exact one."""

_PROGRESS = 0.5
_INDEFINITE = 1e-6


@dataclass(frozen=True)
class Iterate:
    """Where the solution of some of the right-hand sides stands.

    Attributes
    ----------
    columns : array of int
        Which right-hand sides.
    v, residual : arrays of shape (m, len(columns))
        v ≈ A⁻¹b and ρ = b - Av.
    energy : array of shape (len(columns),)
        ρ'M⁻¹ρ for the preconditioner M, by recursion; at a look what ``leftover`` makes of ρ.
    step : int
        Steps taken up to now.
    exact : bool
        Whether only exact products went into it.
    look : bool
        Whether residual and energy were computed anew, not by recursion.
    """

    columns: Indices
    v: Floats
    residual: Floats
    energy: Floats
    step: int
    exact: bool
    look: bool = False

    @property
    def norms(self) -> Floats:
        """‖ρ‖ for every column."""
        norms: Floats = np.linalg.norm(self.residual, axis=0)
        return norms


@dataclass(frozen=True)
class Refined:
    """v ≈ A⁻¹b, the exact residual and its energy, steps taken and why they ended.

    ``stop_reason`` is tol, max_iter, stalled (rounding allows no better), or what ``stop`` gave.
    """

    v: Floats
    residual: Floats
    energy: Floats
    steps: int
    stop_reason: str


def refined_gradients(
    product: Operator,
    rhs: Floats,
    precondition: Operator,
    done: Callable[[Iterate], Booleans],
    *,
    rough: Operator | None = None,
    steps: int,
    watch: Callable[[Iterate], None] = lambda iterate: None,
    stop: Callable[[], str | None] = lambda: None,
    leftover: Callable[[Floats], Floats] | None = None,
) -> Refined:
    """Solve A v = b to a rule of the caller's that is checked on exact residuals.

    Conjugate gradients run with the products ``rough`` until ``done`` holds with a margin, or until
    the residual has fallen so far that rough products say nothing more about it. Then b - Av is
    computed with ``product``; columns that are not done start again from there. Where this has not
    halved a residual, the rough products are given up.

    Parameters
    ----------
    product : callable
        A @ D, exact.
    rhs : array of shape (m, n_columns)
        b.
    precondition : callable
        M⁻¹ @ R, symmetric positive definite.
    done : callable
        Which columns of an iterate are good enough. They are left alone from then on.
    rough : callable, optional
        A @ D with less accuracy, at less cost.
    steps : int
        Most steps.
    watch : callable, optional
        Shown every iterate, and again what exact products make of it.
    stop : callable, optional
        Asked after every step for a reason to stop.
    leftover : callable, optional
        The energies of exact residuals, such as proven bounds on ρ'A⁻¹ρ; by default ρ'M⁻¹ρ.

    Returns
    -------
    solution : Refined

    Raises
    ------
    NotPositiveDefiniteError
        If a direction d with d'Ad < 0 shows up.
    """
    run = _Run(product, rhs, precondition, done, rough or product, steps, watch, stop, leftover)
    before = np.full(rhs.shape[1], np.inf)
    columns, reason = np.arange(rhs.shape[1]), None
    while True:
        now = run.look(columns)
        left = ~done(now)
        if not left.any():
            return run.solution("tol")
        slow = bool(np.any(now.norms[left] > _PROGRESS * before[columns[left]]))
        if reason is None and run.taken >= steps:
            reason = "max_iter"
        elif reason is None and slow and run.working is product:
            reason = "stalled"
        if reason is not None:
            return run.solution(reason)
        if slow:
            run.working = product
        before[columns] = now.norms
        columns = columns[left]
        reason = run.go_on(columns)


class _Run:
    """The state of a refinement."""

    def __init__(
        self,
        product: Operator,
        rhs: Floats,
        precondition: Operator,
        done: Callable[[Iterate], Booleans],
        working: Operator,
        steps: int,
        watch: Callable[[Iterate], None],
        stop: Callable[[], str | None],
        leftover: Callable[[Floats], Floats] | None,
    ) -> None:
        self.product, self.rhs, self.precondition = product, rhs, precondition
        self.leftover = leftover or (lambda rho: column_dots(rho, precondition(rho)))
        self.done, self.watch, self.stop = done, watch, stop
        self.working, self.steps, self.taken = working, steps, 0
        self.v, self.residual = np.zeros_like(rhs), rhs.copy()
        self.energy = np.zeros(rhs.shape[1])

    def look(self, columns: Indices) -> Iterate:
        """Where these columns stand, their residual being exact."""
        v, residual = self.v[:, columns], self.residual[:, columns]
        self.energy[columns] = self.leftover(residual)
        now = Iterate(columns, v, residual, self.energy[columns], self.taken, True, look=True)
        self.watch(now)
        return now

    def go_on(self, columns: Indices) -> str | None:
        """Take steps until every column is done, as far as they can tell; why if not."""
        exact = self.working is self.product
        reduction, margin = (_EXACT_REDUCTION, 1.0) if exact else (_ROUGH_REDUCTION, _MARGIN)
        start = CGSolution(self.v[:, columns], self.residual[:, columns], self.taken)
        found = ConjugateGradients(self.working, self.precondition, start)
        limit = reduction * np.linalg.norm(found.residual, axis=0)
        active, reason = columns, None
        while len(active) and self.taken < self.steps and reason is None:
            direction = found.direction
            values, cosines = found.step()
            self.taken += 1
            now = Iterate(active, found.v, found.residual, found.energy, self.taken, exact)
            self.watch(now)
            if exact:
                _check_definite(direction, values, cosines)
            safer = replace(now, residual=now.residual / margin, energy=now.energy / margin**2)
            leave = self.done(safer) | (now.norms <= limit) | (values <= 0)
            self.v[:, active[leave]] = found.v[:, leave]
            active, limit = active[~leave], limit[~leave]
            found.keep(~leave)
            reason = self.stop()
            due = not exact and (self.taken - start.steps) % _CHECK_STEPS == 0
            if due and len(active) and self._lost(active, found):
                break
        self.v[:, active] = found.v
        self._accept(columns, start)
        return reason

    def _lost(self, columns: Indices, found: ConjugateGradients) -> bool:
        """Whether the residual by recursion has little to do with the exact one."""
        exact = self.rhs[:, columns] - self.product(found.v)
        wrong = np.linalg.norm(exact - found.residual, axis=0)
        return bool(np.any(wrong > _PROGRESS * np.linalg.norm(exact, axis=0)))

    def _accept(self, columns: Indices, before: CGSolution) -> None:
        """Compute the exact residuals; columns that rough steps have made worse go back."""
        v, rhs = self.v[:, columns], self.rhs[:, columns]
        residual = rhs - self.product(v)
        # ½(b + ρ)'v is, up to its sign, what conjugate gradients minimise; residuals may grow.
        worse = column_dots(rhs + residual, v) < column_dots(rhs + before.residual, before.v)
        worse &= np.linalg.norm(residual, axis=0) > np.linalg.norm(before.residual, axis=0)
        v[:, worse], residual[:, worse] = before.v[:, worse], before.residual[:, worse]
        self.v[:, columns], self.residual[:, columns] = v, residual

    def solution(self, reason: str) -> Refined:
        """What was found."""
        return Refined(self.v, self.residual, self.energy, self.taken, reason)


def _check_definite(direction: Floats, values: Floats, cosines: Floats) -> None:
    """Refuse a matrix for which d'Ad is negative beyond rounding."""
    worst = int(cosines.argmin())
    if cosines[worst] < -_INDEFINITE:
        row = int(np.abs(direction[:, worst]).argmax())
        raise NotPositiveDefiniteError(row, float(values[worst]))
