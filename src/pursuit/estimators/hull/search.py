"""Greedy steps over a hull: when they end, what they prove, and the public entry to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, Certificate, hull_rate_bound
from pursuit.greedy import Meter, Path, Pursuit, StopRule
from pursuit.linalg import Workers
from pursuit.objectives import (
    Atoms,
    HullLoss,
    HullObjective,
    MatrixAtoms,
    Objective,
    OracleAtoms,
)
from pursuit.objectives.hull import STEPS
from pursuit.solvers import reweight

_STEPS_PER_TERM = 10


class OverHull(Objective, Protocol):
    """An objective over a hull."""

    start_value: float

    @property
    def step(self) -> str:
        """The rule of the steps."""
        ...

    @property
    def gap(self) -> float:
        """Frank-Wolfe gap."""
        ...

    @property
    def n_terms(self) -> int:
        """Atoms of positive weight."""
        ...

    def refresh(self) -> None:
        """Make the gap that of the present point, whatever it costs."""
        ...


def certify_hull(objective: OverHull) -> Certificate:
    """The Frank-Wolfe gap, as a certificate; f(v⁰) plays the part of ½y'Wy."""
    value, gap = objective.value, objective.gap
    return Certificate(
        np.array([value]),
        np.array([value - gap]),
        np.array([2.0 * objective.start_value]),
        "Frank-Wolfe",
        over="the hull",
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
            gap = certify_hull(objective).relative_gap
            pursuit.recorder.record_gap(gap)
            if gap <= self.tol:
                return "tol"
        if objective.n_terms >= self.n_terms:
            return "n_terms"
        return "max_iter" if pursuit.n_steps >= self.max_iter else None


def pursue_hull(
    objective: OverHull,
    meter: Meter,
    stop: HullStop,
    rules: Sequence[StopRule] = (),
    labels: Indices | None = None,
) -> tuple[Path, Certificate]:
    """Steps until a rule says stop, an entry of the path for each, and what they prove."""
    pursuit = Pursuit(
        objective, meter, labels=labels, scale=abs(objective.start_value), every_step=True
    )
    path = pursuit.run([stop, *rules])
    objective.refresh()
    certificate = certify_hull(objective)
    gap = path.gap.copy()
    gap[-1:] = certificate.relative_gap
    # Where nothing is left to gain the gap is known only now.
    ended = path.stop_reason in ("no gain", "rank")
    met = ended and stop.tol is not None and certificate.relative_gap <= stop.tol
    reason = "tol" if met else path.stop_reason
    return replace(path, gap=gap, stop_reason=reason, step=objective.step), certificate


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
        Numbers of the atoms s_j of positive weight, -1 for a starting point that is no atom.
    weights : array
        a_j, which sum to one.
    atoms : Atoms
        Where the numbers point to: ``atoms.values(j)`` are the values of atom j.
    path : Path
        Value and relative gap after each step; its ``step`` is the rule that was followed.
    certificate : Certificate or None
        f(v) and a lower bound on the minimum; None where the best atom cannot be known.
    rate_bound : Bound or None
        What Theorem 3.1 promised; None where M is not known.
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
    """Minimise a convex loss over the convex hull of atoms, a few of them at a time.

    Zhang's greedy algorithm (Z02, Algorithm 2.1): every step moves to (1 - α)v + αs, s an atom. The
    value falls at every step, and is within 8M/(k + 3) of the minimum after k of them.

    Parameters
    ----------
    loss : HullLoss
        f: `SquaredLoss`, `HuberLoss`, `LogExpLoss`, `ExponentialLoss`, `LogisticLoss`,
        `NegativeLogLikelihood`, or a subclass of `HullLoss` of your own.
    atoms : array of shape (n_rows, n_atoms), callable or Atoms
        A matrix with an atom a column; a function (or an object with a method ``best_atom``) that
        gives, for a gradient g, the values of the atom s with the least s'g; or `KernelAtoms`,
        `SigmoidAtoms.on` and `LearnedAtoms`, for kernel functions, for sigmoids of random
        directions and for a scikit-learn estimator trained on weights.
    n_terms : int, default 100
        Most distinct atoms of positive weight.
    step : {"corrective", "joint", "frank-wolfe"}, default "corrective"
        ``"joint"``: atom and α together, as published; an oracle knows the steepest atom only,
        so that with one this is ``"frank-wolfe"``, and ``path.step`` says so. ``"frank-wolfe"``:
        the atom with the steepest descent, then the best α. ``"corrective"``: the same, then new
        weights for all chosen atoms.
    tol : float or None, default 1e-6
        Stop when the certificate's ``relative_gap`` is at most this.
    start : array of shape (n_rows,), optional
        v⁰, in the hull. By default the best single atom of a matrix, or what an oracle gives for
        the gradient at 0.
    bound : float, optional
        Largest absolute value of an oracle's atoms, checked; without it the rate is not known.
    max_iter : int or None, default None
        Most steps; None is ten times ``n_terms``.
    n_jobs : int or None, default None
        Threads of matrix products; the result does not depend on it.

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
    >>> print(f"at most {solution.certificate.gap:.0e} from the best")
    at most 0e+00 from the best
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
        path, certificate = pursue_hull(objective, Meter(), stop)
    numbers, weights = objective.terms()
    rate = hull_rate_bound(len(path), M, excess) if np.isfinite(M) and known.exact else None
    proof = certificate if known.exact else None
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
