"""What every iterate of a solution says about the minimum, collected into a Path."""

from __future__ import annotations

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.greedy import Path, Problem
from pursuit.linalg import Iterate, column_dots


class SolveRecorder:
    """Watches the iterates of B x = b, B = W^½KW^½ + σ²I and b = W^½y (see exactsystem).

    The energies of looks must be bounds on ρ'B⁻¹ρ. What they prove of the minimum holds for every
    later iterate, so those in between need no bound of their own.
    """

    def __init__(self, problem: Problem, rhs: Floats, kind: str) -> None:
        self.problem, self.rhs, self.kind = problem, rhs, kind
        self.squares = column_dots(rhs, rhs)
        self.upper = self.minimum_upper = 0.5 * self.squares
        self.lower = np.zeros_like(self.squares)
        self.relative = np.zeros_like(self.squares)
        self.entries: list[tuple[int, float, Certificate, bool, float, int, float]] = []

    def watch(self, now: Iterate) -> None:
        """Add an entry, or put what exact products say in the place of what rough ones said."""
        c, noise = now.columns, self.problem.noise
        squares = column_dots(now.residual, now.residual)
        dual = 0.5 * noise * column_dots(self.rhs[:, c] + now.residual, now.v)
        self.lower = _replaced(self.lower, c, dual)
        self.upper = _replaced(self.upper, c, dual + 0.5 * squares)
        if now.look:
            least = np.minimum(self.minimum_upper[c], dual + 0.5 * noise * now.energy)
            self.minimum_upper = _replaced(self.minimum_upper, c, least)
        norms = np.where(self.squares[c] > 0, self.squares[c], 1.0)
        self.relative = _replaced(self.relative, c, np.sqrt(squares / norms))
        certificate = Certificate(
            self.upper,
            self.lower,
            self.squares,
            self.kind,
            minimum_upper_per_output=np.minimum(self.minimum_upper, self.upper),
        )
        if self.entries and self.entries[-1][0] == now.step:
            self.entries.pop()
        worst = float(self.relative.max(initial=0.0))
        spent = self.problem.meter
        cost = spent.seconds, spent.entries, spent.passes
        self.entries.append((now.step, worst, certificate, now.exact, *cost))

    def path(self, stop_reason: str) -> Path:
        """The finished path."""
        steps, residuals, certificates, exact, *costs = zip(*self.entries, strict=True)
        seconds, entries, passes = costs
        return Path(
            index=np.full(len(steps), -1),
            value=np.array([one.upper for one in certificates]),
            gap=np.array([one.relative_gap for one in certificates]),
            seconds=np.array(seconds),
            entries=np.array(entries, dtype=np.int64),
            passes=np.array(passes),
            stop_reason=stop_reason,
            lower=np.array([one.lower for one in certificates]),
            iterations=np.array(steps, dtype=np.intp),
            residual=np.array(residuals),
            certificates=list(certificates),
            certified=np.array(exact, dtype=bool),
        )


def _replaced(values: Floats, at: Indices, by: Floats) -> Floats:
    changed = values.copy()
    changed[at] = by
    return changed
