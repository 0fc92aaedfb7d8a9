"""Conjugate gradients for several right-hand sides that share one product.

:func:`conjugate_gradients` is the plain method; :func:`refined_gradients` runs it with rough
products and takes residuals from exact ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.linalg.cholesky import NotPositiveDefiniteError

Booleans = NDArray[np.bool_]
Operator = Callable[[Floats], Floats]

_ROUGH_REDUCTION, _EXACT_REDUCTION = 3e-5, 1e-10
"""Share of the first residual below which the recursion is not trusted, for rough and exact
products: the residual is then computed anew."""

_MARGIN = 0.9
"""Rough steps go on until the residuals are this much smaller than the caller's rule asks."""

_CHECK_STEPS = 100
"""Rough steps after which the residual by recursion is compared with the exact one."""

_PROGRESS = 0.5
"""Exact residuals must shrink by this factor, or rough products are given up."""

_INDEFINITE = 1e-6
"""A is refused where d'Ad is below minus this share of ‖d‖‖Ad‖."""


@dataclass(frozen=True)
class CGSolution:
    """v ≈ A⁻¹b with its residual b - Av, one column per right-hand side."""

    v: Floats
    residual: Floats
    steps: int


class ConjugateGradients:
    """Preconditioned conjugate gradients on A v = b, A symmetric positive definite, step by step.

    Attributes
    ----------
    v, residual : arrays of shape (m, n_columns)
        The iterates, and b - Av by recursion.
    energy : array of shape (n_columns,)
        ρ'M⁻¹ρ for the residuals ρ and the preconditioner M.
    direction : array of shape (m, n_columns)
        d, along which the next step goes.
    """

    def __init__(self, product: Operator, precondition: Operator, start: CGSolution) -> None:
        self._product, self._precondition = product, precondition
        self.v, self.residual = start.v.copy(), start.residual.copy()
        s = precondition(self.residual)
        self.direction = s.copy()
        self.energy = column_dots(self.residual, s)

    def step(self) -> tuple[Floats, Floats]:
        """Take a step: one product with all columns at once.

        Returns d'Ad/d'd for the directions d, and the same divided by ‖Ad‖/‖d‖. If one of them is
        not positive, A is not positive definite, and that column has not taken the step.
        """
        Ad = self._product(self.direction)
        curvature = column_dots(self.direction, Ad)
        squares = column_dots(self.direction, self.direction)
        images = column_dots(Ad, Ad)
        length = _ratio(self.energy, curvature)
        self.v += length * self.direction
        self.residual -= length * Ad
        s = self._precondition(self.residual)
        following = column_dots(self.residual, s)
        self.direction = s + _ratio(following, self.energy) * self.direction
        self.energy = following
        # The product of both squares may overflow where each of them does not.
        return _ratio(curvature, squares), _ratio(curvature, np.sqrt(squares) * np.sqrt(images))

    def keep(self, columns: Booleans) -> None:
        """Continue with some of the right-hand sides."""
        if columns.all():
            return
        for name in ("v", "residual", "direction", "energy"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[..., columns]))


def conjugate_gradients(
    product: Operator,
    rhs: Floats,
    start: CGSolution,
    precondition: Operator,
    *,
    steps: int,
    tol: float = 0.0,
) -> CGSolution:
    """Preconditioned conjugate gradients on A v = b, A symmetric positive definite.

    Every step costs one ``product`` A @ D with all columns at once. Ends after ``steps`` steps, or
    when every residual is at most ``tol`` times its right-hand side.
    """
    run = ConjugateGradients(product, precondition, start)
    limit = tol**2 * column_dots(rhs, rhs)
    for step in range(steps):
        if np.all(column_dots(run.residual, run.residual) <= limit):
            return CGSolution(run.v, run.residual, step)
        run.step()
    return CGSolution(run.v, run.residual, steps)


def column_dots(a: Floats, b: Floats) -> Floats:
    """a_j'b_j for every column j."""
    products: Floats = np.einsum("ij,ij->j", a, b)
    return products


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Quotient, 0 where the denominator is not positive."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0)


# Iterative refinement


@dataclass(frozen=True)
class Iterate:
    """The state of the solution for some of the right-hand sides.

    Attributes
    ----------
    columns : array of int
        Which right-hand sides.
    v, residual : arrays of shape (m, len(columns))
        v ≈ A⁻¹b and ρ = b - Av.
    energy : array of shape (len(columns),)
        ρ'M⁻¹ρ for the preconditioner M, by recursion; if ``look``, what ``leftover`` gives for ρ.
    step : int
        Steps taken so far.
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
    """v ≈ A⁻¹b, the exact residual and its energy, the number of steps and why they ended.

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
    form_error: Callable[[Floats], Floats] | None = None,
) -> Refined:
    """Solve A v = b until a rule of the caller's holds for exact residuals.

    Conjugate gradients run with the products ``rough`` until ``done`` holds with a margin, or until
    the residual is so small that rough products say nothing more about it. Then b - Av is computed
    with ``product``, and columns that are not done start again from there. If this has not halved
    a residual, the rough products are given up.

    Parameters
    ----------
    product : callable
        A @ D, exact.
    rhs : array of shape (m, n_columns)
        b.
    precondition : callable
        M⁻¹ @ R, symmetric positive definite.
    done : callable
        Says which columns of an iterate are good enough. They do not change from then on.
    rough : callable, optional
        A @ D, less accurate and cheaper.
    steps : int
        Most steps.
    watch : callable, optional
        Called with every iterate, and again with its exact residuals.
    stop : callable, optional
        Called after every step; returns a reason to stop, or None.
    leftover : callable, optional
        The energies of exact residuals, such as proven bounds on ρ'A⁻¹ρ; by default ρ'M⁻¹ρ.
    form_error : callable, optional
        How far rounding may have moved d'Ad for directions d; by default it is not known.

    Returns
    -------
    solution : Refined

    Raises
    ------
    NotPositiveDefiniteError
        If a direction d with d'Ad < 0, beyond rounding, shows up.
    """
    how = done, rough or product, steps, watch, stop, leftover, form_error
    run = _Run(product, rhs, precondition, *how)
    before = np.full(rhs.shape[1], np.inf)
    columns, reason = np.arange(rhs.shape[1]), None
    while True:
        now = run.look(columns)
        unfinished = ~done(now)
        if not unfinished.any():
            return run.solution("tol")
        slow = bool(np.any(now.norms[unfinished] > _PROGRESS * before[columns[unfinished]]))
        if reason is None and run.taken >= steps:
            reason = "max_iter"
        elif reason is None and slow and run.working is product:
            reason = "stalled"
        if reason is not None:
            return run.solution(reason)
        if slow:
            run.working = product
        before[columns] = now.norms
        columns = columns[unfinished]
        reason = run.go_on(columns)


@dataclass
class _Run:
    """The state of a refinement; the parameters are those of :func:`refined_gradients`."""

    product: Operator
    rhs: Floats
    precondition: Operator
    done: Callable[[Iterate], Booleans]
    working: Operator
    steps: int
    watch: Callable[[Iterate], None]
    stop: Callable[[], str | None]
    leftover: Callable[[Floats], Floats] | None
    form_error: Callable[[Floats], Floats] | None
    taken: int = 0

    def __post_init__(self) -> None:
        self.v, self.residual = np.zeros_like(self.rhs), self.rhs.copy()
        self.energy = np.zeros(self.rhs.shape[1])

    def look(self, columns: Indices) -> Iterate:
        """The state of these columns, with exact residuals."""
        v, residual = self.v[:, columns], self.residual[:, columns]
        if self.leftover is None:
            self.energy[columns] = column_dots(residual, self.precondition(residual))
        else:
            self.energy[columns] = self.leftover(residual)
        now = Iterate(columns, v, residual, self.energy[columns], self.taken, True, look=True)
        self.watch(now)
        return now

    def go_on(self, columns: Indices) -> str | None:
        """Take steps until every column seems done; return the reason if stopped before."""
        exact = self.working is self.product
        reduction, margin = (_EXACT_REDUCTION, 1.0) if exact else (_ROUGH_REDUCTION, _MARGIN)
        start = CGSolution(self.v[:, columns], self.residual[:, columns], self.taken)
        run = ConjugateGradients(self.working, self.precondition, start)
        limit = reduction * np.linalg.norm(run.residual, axis=0)
        active, reason = columns, None
        while len(active) and self.taken < self.steps and reason is None:
            direction = run.direction
            values, cosines = run.step()
            self.taken += 1
            now = Iterate(active, run.v, run.residual, run.energy, self.taken, exact)
            self.watch(now)
            if exact:
                self._check_definite(direction, values, cosines)
            safer = replace(now, residual=now.residual / margin, energy=now.energy / margin**2)
            leave = self.done(safer) | (now.norms <= limit) | (values <= 0)
            self.v[:, active[leave]] = run.v[:, leave]
            active, limit = active[~leave], limit[~leave]
            run.keep(~leave)
            reason = self.stop()
            due = not exact and (self.taken - start.steps) % _CHECK_STEPS == 0
            if due and len(active) and self._lost(active, run):
                break
        self.v[:, active] = run.v
        self._accept(columns, start)
        return reason

    def _lost(self, columns: Indices, run: ConjugateGradients) -> bool:
        """Whether the residual by recursion is far from the exact one."""
        exact = self.rhs[:, columns] - self.product(run.v)
        wrong = np.linalg.norm(exact - run.residual, axis=0)
        return bool(np.any(wrong > _PROGRESS * np.linalg.norm(exact, axis=0)))

    def _accept(self, columns: Indices, before: CGSolution) -> None:
        """Compute the exact residuals; undo rough steps in columns that they made worse."""
        v, rhs = self.v[:, columns], self.rhs[:, columns]
        residual = rhs - self.product(v)
        # Conjugate gradients minimise -½(b + ρ)'v; residuals alone may grow.
        worse = column_dots(rhs + residual, v) < column_dots(rhs + before.residual, before.v)
        worse &= np.linalg.norm(residual, axis=0) > np.linalg.norm(before.residual, axis=0)
        v[:, worse], residual[:, worse] = before.v[:, worse], before.residual[:, worse]
        self.v[:, columns], self.residual[:, columns] = v, residual

    def _check_definite(self, direction: Floats, values: Floats, cosines: Floats) -> None:
        """Raise an error if d'Ad is negative beyond rounding."""
        negative = cosines < -_INDEFINITE
        if negative.any() and self.form_error is not None:
            negative &= values < -self.form_error(direction)
        if negative.any():
            worst = int(np.where(negative, cosines, np.inf).argmin())
            row = int(np.abs(direction[:, worst]).argmax())
            raise NotPositiveDefiniteError(row, float(values[worst]))

    def solution(self, reason: str) -> Refined:
        """The result."""
        return Refined(self.v, self.residual, self.energy, self.taken, reason)
