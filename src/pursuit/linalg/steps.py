"""A function that was built by scaling what there is and adding one more term, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pursuit._types import Floats, Indices


@dataclass(frozen=True)
class StepSolution:
    """f_k = β_k f_{k-1} + α_k k(·, x_{S(k)}), and the functions it went through (Z03 Algorithm 1).

    A term may be stepped on more than once. The function of the first n terms is the one just after
    the n-th of them was first added, for the last of them the one after all steps; so every
    truncation is a slice of the steps.

    Attributes
    ----------
    term : array of int of shape (n_steps,)
        Which term each step added to; terms are numbered in the order in which they came in.
    alpha, beta : arrays of shape (n_steps,)
        α and β.
    squared_norm : array of shape (n_steps,)
        ‖f‖² after each step.
    decrease : array of shape (n_steps,)
        What all steps so far have taken off the objective.
    """

    term: Indices
    alpha: Floats
    beta: Floats
    squared_norm: Floats
    decrease: Floats

    @property
    def size(self) -> int:
        """Number of terms."""
        return int(self.term.max(initial=-1)) + 1

    @property
    def steps(self) -> Indices:
        """How many steps lead to the function of the first 1, 2, … terms."""
        steps: Indices = np.unique(self.term, return_index=True)[1] + 1
        steps[-1:] = len(self.term)
        return steps

    def truncated(self, n: int) -> StepSolution:
        """The function of the first n terms."""
        last = int(self.steps[n - 1])
        return StepSolution(
            self.term[:last],
            self.alpha[:last],
            self.beta[:last],
            self.squared_norm[:last],
            self.decrease[:last],
        )

    def gains(self) -> Floats:
        """What the function of n terms takes off the objective beyond that of n - 1: (n, 1)."""
        return np.diff(self.decrease[self.steps - 1], prepend=0.0)[:, None]

    def coefficients(self) -> Floats:
        """Coefficients of the terms, Σ_k α_k Π_{l>k} β_l over the steps of each: shape (n, 1)."""
        later = np.cumprod(np.append(self.beta[1:], 1.0)[::-1])[::-1]
        total = np.zeros((self.size, 1))
        np.add.at(total[:, 0], self.term, self.alpha * later)
        return total

    def squared_norms(self) -> Floats:
        """‖f‖², as an array of one output."""
        return self.squared_norm[-1:] if len(self.term) else np.zeros(1)
