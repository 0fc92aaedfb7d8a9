"""Greedy steps over a convex hull: when they end, what they prove, and how they are resumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, Certificate, hull_rate_bound
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.hull.balls import Ball, SmoothBall
from pursuit.estimators.scales import check_scale, in_range, kept
from pursuit.greedy import CostMeter, Path, Pursuit, StopRule
from pursuit.linalg import Workers
from pursuit.objectives import Atoms, HullLoss, HullObjective, MatrixAtoms, OracleAtoms
from pursuit.objectives.hull import START, STEPS
from pursuit.rounding import joined
from pursuit.solvers import reweight

RECORDED_STEPS = 25
"""Steps between two records in a checkpoint; after a crash at most as many are done again."""

_STEPS_PER_TERM = 10
"""Most steps per allowed term: atoms may be taken again, so there can be more steps than terms."""


OverHull = HullObjective | Ball


def certify_hull(objective: HullObjective) -> Certificate:
    """The certificate of the terms as they are kept; f(v⁰) takes the place of ½y'Wy.

    The lower bound is that of the Frank-Wolfe gap: f ≥ f(v) + (u - v)'∇f(v), written as a bound by
    the conjugate of f at a given vector near ∇f(v), which holds whatever the rounding of that.
    """
    upper, lower = objective.proved()
    return Certificate.proved(
        joined([upper]),
        joined([lower]),
        np.array([2.0 * objective.start_value]),
        "Frank-Wolfe",
        trivial=-np.inf,
        over="the hull",
        baseline="the starting point",
        unit=objective.unit,
    )


def expected_certificate(objective: OverHull) -> Certificate:
    """The same from the Frank-Wolfe gap as computed, for a rule that stops a pursuit."""
    value, gap = objective.value, objective.gap
    return Certificate(
        np.array([value]),
        np.array([value - gap]),
        np.array([2.0 * objective.start_value]),
        "Frank-Wolfe",
        over="the hull",
        baseline="the starting point",
    )


class HullStop:
    """Stop at ``n_terms`` atoms, ``max_iter`` steps, or a relative gap of ``tol``."""

    def __init__(self, n_terms: int, max_iter: int | None, tol: float | None) -> None:
        self.n_terms, self.tol = n_terms, tol
        self.max_iter = _STEPS_PER_TERM * n_terms if max_iter is None else max_iter

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason tol, n_terms or max_iter."""
        objective: Any = pursuit.objective
        if self.tol is not None:
            gap = expected_certificate(objective).relative_gap
            pursuit.recorder.record_gap(gap)
            if gap <= self.tol:
                return "tol"
        if objective.n_terms >= self.n_terms:
            return "n_terms"
        return "max_iter" if pursuit.n_steps >= self.max_iter else None


def stop_in_time(run: FitRun, share: float) -> StopRule:
    """A rule that stops when the user asks for it or a share of ``max_time`` is over."""

    def rule(pursuit: Pursuit) -> str | None:
        if run.interrupted():
            return "interrupted"
        return "time" if run.clock.over(share) else None

    return rule


def pursue_hull(
    objective: OverHull,
    meter: CostMeter,
    stop: HullStop,
    rules: Sequence[StopRule] = (),
    labels: Indices | None = None,
) -> tuple[Path, Certificate]:
    """Take steps until a rule stops them; the path has an entry per step."""
    scale = abs(objective.start_value)
    pursuit = Pursuit(objective, meter, labels=labels, scale=scale, every_step=True)
    return finished(objective, pursuit.run([stop, *rules]), stop.tol)


def finished(objective: OverHull, path: Path, tol: float | None) -> tuple[Path, Certificate]:
    """The path of all steps with its last gap, and the certificate."""
    objective.refresh()
    certificate = expected_certificate(objective)
    # A ball is certified with its pool, and nothing is proved where the best atom may be missed.
    if isinstance(objective, HullObjective) and not isinstance(objective, SmoothBall):
        certificate = certify_hull(objective) if objective.exact else certificate
    gap = path.gap.copy()
    gap[-1:] = certificate.relative_gap
    # When no atom promises a gain, the gap has not been compared with tol yet.
    ended = path.stop_reason in ("no gain", "rank")
    met = ended and tol is not None and certificate.relative_gap <= tol
    reason = "tol" if met else path.stop_reason
    return replace(path, gap=gap, stop_reason=reason, step=objective.step), certificate


class ResumablePursuit(Pursuit):
    """A pursuit with an entry per step that runs in pieces and continues after recorded ones."""

    def run_piece(self, rules: Sequence[StopRule]) -> Path:
        """The path of the next steps: to the end, or `RECORDED_STEPS` with reason ``"more"``."""
        first, last = len(self.recorder.steps), self.n_steps + RECORDED_STEPS
        path = self.run([*rules, lambda pursuit: "more" if pursuit.n_steps >= last else None])
        steps = np.arange(first, len(path))
        arrays = {name: value[steps] for name, value in vars(path).items() if np.ndim(value)}
        return replace(path, **arrays)

    def skip(self, path: Path) -> None:
        """Count steps that an earlier run has taken."""
        self.n_steps += len(path)
        self._taken.update(path.index.tolist())


def recorded_pieces(
    pursuit: ResumablePursuit,
    advance: Callable[[], Any],
    resume: Callable[[Any], None],
    run: FitRun,
    name: str | None,
    share: float,
) -> list[Any]:
    """All pieces of a pursuit, until its rules or a share of ``max_time`` end it.

    ``advance`` takes the next steps and returns what a checkpoint records of them, with their
    ``path``. A piece that an earlier run has recorded under the name is passed to ``resume``.
    """
    pieces: list[Any] = []
    while True:
        n_steps = pursuit.n_steps
        stage = f"{name}-{len(pieces)}"
        pieces.append(advance() if name is None else run.recorded(stage, advance))
        path = pieces[-1].path
        if pursuit.n_steps < n_steps + len(path):
            resume(pieces[-1])
            pursuit.skip(path)
        out_of_time = path.stop_reason == "time" and run.clock.over(share)
        if out_of_time or path.stop_reason not in ("more", "time"):
            return pieces


def joined_pieces(pieces: Sequence[Path]) -> Path:
    """One path of several pieces; a resumed run counts its costs on top of the recorded ones."""
    whole = Path.joined(pieces)
    costs: dict[str, Any] = {}
    for name in ("seconds", "entries", "passes"):
        cost = getattr(whole, name)
        before = np.concatenate([np.zeros(1, cost.dtype), cost])[:-1]
        costs[name] = cost + np.cumsum(np.where(cost < before, before, 0), dtype=cost.dtype)
    return replace(whole, **costs)


class ResumableHull(HullObjective):
    """An objective over a hull that continues from a recorded point."""

    def resume(
        self, numbers: list[int], weights: Floats, point: Floats, value: float, n_steps: int
    ) -> None:
        """Take over the state of an earlier run; the atoms must know these numbers."""
        self.numbers, self.weights, self.point = list(numbers), weights, point
        self.value, self.n_steps, self._state = value, n_steps, None
        if self._step == "corrective":
            zero = np.zeros_like(point)
            self._columns = [zero if n == START else self._atoms.values(n) for n in numbers]


@dataclass(frozen=True)
class HullSolution:
    """A point of a convex hull, and how far it can be from the best one.

    Attributes
    ----------
    value : float
        f(v).
    point : array of shape (n_rows,)
        v = Σ_j a_j s_j.
    terms : array of int
        Numbers of the atoms s_j of positive weight; -1 for a starting point that is not an atom.
    weights : array
        Their weights a_j, which sum to one.
    atoms : Atoms
        The atoms that the numbers refer to: ``atoms.values(j)`` are the values of atom j.
    path : Path
        Value and relative gap after each step; its ``step`` is the rule that was followed.
    certificate : Certificate or None
        f(v) and a lower bound on the minimum; None if nothing proves which atom is the best.
    rate_bound : Bound or None
        What Theorem 3.1 of Zhang (2002a) promised; None if M is unknown.
    """

    value: float
    point: Floats
    terms: Indices
    weights: Floats
    atoms: Any
    path: Path
    certificate: Certificate | None
    rate_bound: Bound | None

    def __str__(self) -> str:
        text = f"{len(self.terms)} terms after {len(self.path)} steps, f = {self.value:.6g}"
        return text if self.certificate is None else f"{text}; {self.certificate}"


@in_range
def minimize_over_hull(
    loss: HullLoss,
    atoms: Any,
    n_terms: int = 100,
    *,
    step: str = "corrective",
    tol: float | None = 1e-6,
    start: ArrayLike | None = None,
    bound: float | None = None,
    max_iter: int | None = None,
    n_jobs: int | None = None,
) -> HullSolution:
    """Minimise a convex loss over the convex hull of atoms, one atom per step.

    This is Algorithm 2.1 of Zhang (2002a), "Z02": every step moves from v to (1 - α)v + αs for an
    atom s. The value falls at every step and is within 8M/(k + 3) of the minimum after k steps.

    Parameters
    ----------
    loss : HullLoss
        f: `SquaredLoss`, `HuberLoss`, `LogExpLoss`, `ExponentialLoss`, `LogisticLoss`,
        `NegativeLogLikelihood`, or a subclass of `HullLoss` of your own.
    atoms : array of shape (n_rows, n_atoms), callable or Atoms
        A matrix with one atom per column; a function (or an object with a method ``best_atom``)
        that returns, for a gradient g, the values of the atom s with the least s'g; or
        `KernelAtoms`, `SigmoidAtoms.on` or `LearnedAtoms`, for kernel functions, for sigmoids of
        random directions, and for a scikit-learn estimator that is trained on weights.
    n_terms : int, default 100
        Largest number of distinct atoms of positive weight.
    step : {"corrective", "joint", "frank-wolfe"}, default "corrective"
        ``"joint"``: the best atom and α together, as published. ``"frank-wolfe"``: the atom of
        steepest descent, then the best α. ``"corrective"``: the same, then new weights for all
        chosen atoms. A function that finds the steepest atom cannot take joint steps:
        ``"joint"`` then means ``"frank-wolfe"``, and ``path.step`` says so.
    tol : float or None, default 1e-6
        Stop when the certificate's ``relative_gap`` is at most this.
    start : array of shape (n_rows,), optional
        v⁰, in the hull. By default it is the best single atom of a matrix, or the atom that a
        function returns for the gradient at 0.
    bound : float, optional
        Largest absolute value of the atoms that a function returns; it is checked. Without it
        there is no ``rate_bound``.
    max_iter : int or None, default None
        Largest number of steps; None is ten times ``n_terms``.
    n_jobs : int or None, default None
        Number of threads; the result does not depend on it.

    Returns
    -------
    solution : HullSolution

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import SquaredLoss, minimize_over_hull
    >>> corners = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])  # three points of the plane
    >>> solution = minimize_over_hull(SquaredLoss([1.0, 1.5]), corners)
    >>> solution.point
    array([0.75, 1.25])
    >>> bool(solution.certificate.gap < 1e-12)  # at most this far from the best
    True
    """
    if not isinstance(loss, HullLoss):
        raise TypeError(
            f"loss must be a HullLoss, got {type(loss).__name__}: subclass pursuit.HullLoss and "
            "write value, gradient and curvature."
        )
    if step not in STEPS:
        raise ValueError(f"step must be one of {', '.join(STEPS)}, got {step!r}.")
    if n_terms < 1 or (max_iter is not None and max_iter < 1):
        raise ValueError(f"n_terms and max_iter must be at least 1, got {n_terms} and {max_iter}.")
    check_scale("atoms", atoms)
    check_scale("loss.y", getattr(loss, "y", None))
    known = _as_atoms(atoms, bound)
    with Workers(n_jobs):
        v0, first = _start(loss, known, start)
        vertices = known.vertices(len(v0))
        M = np.inf if vertices is None else loss.curvature(np.column_stack([vertices, v0]))
        objective = HullObjective(
            loss, known, v0, first=first, step=step, reweight=reweight, curvature=M
        )
        excess = objective.gap
        stop = HullStop(n_terms, max_iter, tol if known.exact else None)
        path, certificate = pursue_hull(objective, CostMeter(), stop)
    numbers, weights = objective.terms()
    rate = hull_rate_bound(len(path), M, excess) if np.isfinite(M) and known.exact else None
    proof = kept(certificate) if known.exact else None
    return HullSolution(
        objective.value, objective.point, numbers, weights, known, path, proof, rate
    )


def _as_atoms(atoms: Any, bound: float | None) -> Atoms:
    if hasattr(atoms, "propose"):
        return cast(Atoms, atoms)
    if hasattr(atoms, "fit") and hasattr(atoms, "predict"):
        raise TypeError(
            "atoms is an estimator: pass LearnedAtoms(estimator, X), so that it can be trained."
        )
    if hasattr(atoms, "transform"):
        raise TypeError(
            "atoms is a transformer: pass the matrix that its fit_transform(X) gives, or "
            "SigmoidAtoms.on(X)."
        )
    best_atom = getattr(atoms, "best_atom", atoms if callable(atoms) else None)
    if best_atom is not None:
        return OracleAtoms(best_atom, bound)
    if bound is not None:
        raise ValueError("bound describes the atoms of an oracle: leave it out for a matrix.")
    return MatrixAtoms(atoms)


def _start(loss: HullLoss, atoms: Atoms, start: ArrayLike | None) -> tuple[Floats, int | None]:
    """v⁰, and its number if it is an atom."""
    n_rows = len(loss.weights) if hasattr(loss, "weights") else None
    if isinstance(atoms, MatrixAtoms):
        rows = len(atoms.matrix)
        if n_rows is not None and rows != n_rows:
            raise ValueError(f"atoms have {rows} rows, but the loss has {n_rows}.")
        n_rows = rows
    if start is not None:
        v0 = np.asarray(start, dtype=np.float64)
        if v0.ndim != 1 or (n_rows is not None and len(v0) != n_rows):
            raise ValueError(f"start must be a vector of {n_rows} values, got shape {v0.shape}.")
        return v0, None
    if isinstance(atoms, MatrixAtoms):
        values = [loss.value(atoms.values(j)) for j in range(atoms.n_atoms)]
        best = int(np.nanargmin(values))
        if not np.isfinite(values[best]):
            raise ValueError(
                "the loss is infinite at every atom: pass a start at which it is finite."
            )
        return atoms.values(best), best
    if n_rows is None:
        raise ValueError("an oracle needs a start: pass a point of the hull.")
    number = int(atoms.propose(loss.gradient(np.zeros(n_rows)))[0])
    return atoms.values(number), number
