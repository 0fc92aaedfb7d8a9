"""What theory promises along a path, beside what it is a promise about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices


@dataclass(frozen=True)
class Bound:
    """An upper bound for every size of a model.

    Attributes
    ----------
    name : str
        Where it is proved, such as "Zhang 2003, Theorem 5.1".
    quantity : str
        What is bounded, in words.
    size : array of int
        Numbers of basis functions, or of steps.
    value : array
        The bound at each size.
    trivial : float or array
        What is known without any theorem, at every size or at each: a bound that is not below it
        is vacuous.
    confidence : float
        Probability with which it holds; 1.0 where nothing is left to chance.
    caveat : str
        What the reader must grant, such as a quantity that was estimated; empty if nothing.
    """

    name: str
    quantity: str
    size: Indices
    value: Floats
    trivial: float | Floats = np.inf
    confidence: float = 1.0
    caveat: str = ""

    @property
    def vacuous(self) -> NDArray[np.bool_]:
        """Sizes at which the bound says nothing that was not known before."""
        return np.asarray(~(self.value < self.trivial))

    @property
    def best(self) -> int:
        """Position of the smallest bound, the first of equals."""
        return int(np.nanargmin(self.value))

    def __str__(self) -> str:
        if not len(self.size):
            return f"{self.name}: no sizes"
        at = self.best
        chance = "" if self.confidence == 1.0 else f" with probability {self.confidence:.3g}"
        text = (
            f"{self.name}: {self.quantity} is at most {self.value[at]:.4g}{chance}, for "
            f"{self.size[at]} basis function{'' if self.size[at] == 1 else 's'}"
        )
        if self.vacuous.all():
            known = np.broadcast_to(self.trivial, self.value.shape)[at]
            text += f"; this is vacuous: {known:.4g} is known without it"
        return f"{text} ({self.caveat})" if self.caveat else text
