"""Certificates (an upper and a lower value of one minimum) and bounds along a path of sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices

_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Bound:
    """An upper bound for every size of a model.

    Attributes
    ----------
    name : str
        Theorem that proves it, such as "Zhang 2003, Theorem 5.1".
    quantity : str
        What is bounded, in words.
    size : array of int
        Numbers of basis functions, or of steps.
    value : array
        The bound at each size.
    trivial : float or array
        What is known without any theorem, for all sizes or for each: a bound that is not below it
        is vacuous.
    confidence : float
        Probability with which it holds; 1.0 if it is deterministic.
    caveat : str
        What it assumes, such as a quantity that was estimated; empty if nothing.
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
        """Sizes at which the bound says no more than ``trivial``."""
        return np.asarray(~(self.value < self.trivial))

    @property
    def best(self) -> int:
        """Position of the smallest bound; the first one in case of ties."""
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


@dataclass(frozen=True)
class Certificate:
    """P(f) ≥ P_min ≥ D: the value of a model, and a proof of how low the best value can be.

    It certifies the solution of the convex problem with the given kernel and noise; it says
    nothing about these hyper-parameters.

    Attributes
    ----------
    upper_per_output, lower_per_output, target_norms : arrays of shape (n_outputs,)
        P(f), the best D found, and y'Wy for each output.
    kind : str
        How the lower value was constructed.
    confidence : float
        Probability with which it holds; 1.0 for deterministic kinds.
    minimum_upper_per_output : array of shape (n_outputs,), optional
        Upper bounds on P_min, if a product with K is known: P(f) is at least this far from P_min.
    over : str
        The set over which the minimum is taken, in words.
    """

    upper_per_output: Floats
    lower_per_output: Floats
    target_norms: Floats
    kind: str
    confidence: float = 1.0
    minimum_upper_per_output: Floats | None = None
    over: str = "all functions"

    @property
    def upper(self) -> float:
        """P(f) = ½Σw(y - f)² + ½σ²‖f‖², summed over outputs."""
        return float(self.upper_per_output.sum())

    @property
    def lower(self) -> float:
        """The best lower bound on P_min, summed over outputs."""
        return float(self.lower_per_output.sum())

    @property
    def gap(self) -> float:
        """P(f) - P_min is at most this."""
        return float(_gap(self.upper_per_output, self.lower_per_output).sum())

    @property
    def gap_at_least(self) -> float:
        """P(f) - P_min is at least this; 0 if nothing better is known."""
        if self.minimum_upper_per_output is None:
            return 0.0
        return float(_gap(self.upper_per_output, self.minimum_upper_per_output).sum())

    @property
    def relative_gap(self) -> float:
        """2 (P - D) / (y'Wy - P - D), the gap of Smola and Bartlett (2001, SB01); 0 when y = 0."""
        return relative_gap(self.upper, self.upper - self.gap, float(self.target_norms.sum()))

    @property
    def per_output(self) -> dict[str, Floats]:
        """Upper, lower, gap and relative_gap as arrays, one entry per output."""
        bounds = zip(self.upper_per_output, self.lower_per_output, self.target_norms, strict=True)
        return {
            "upper": self.upper_per_output,
            "lower": self.lower_per_output,
            "gap": _gap(self.upper_per_output, self.lower_per_output),
            "relative_gap": np.array([relative_gap(*numbers) for numbers in bounds]),
        }

    def __str__(self) -> str:
        sure = "" if self.confidence == 1.0 else f" with probability {self.confidence:.3g}"
        between = f"between {self.gap_at_least:.3g} and" if self.gap_at_least > 0 else "at most"
        hint = (
            ". The published kind cannot fall below the noise floor: certify(X, y) is tighter"
            if self.kind == "published"
            else ""
        )
        return (
            f"{self.kind} certificate: P(f) = {self.upper:.6g} is {between} {self.gap:.3g} above "
            f"the minimum over {self.over}{sure} (relative gap {self.relative_gap:.3g}){hint}"
        )


@dataclass(frozen=True)
class CertificatePath:
    """Certificates of a model and of its truncations.

    Attributes
    ----------
    sizes : array of int
        Numbers of basis functions, increasing.
    certificates : list of Certificate
        One per size.
    floor : array, optional
        For the published kind: no dual point supported on that many rows can bring the gap below
        this, however good the model (Zhang 2003, Z03 Proposition 3.3).
    """

    sizes: Indices
    certificates: list[Certificate]
    floor: Floats | None = None

    @property
    def upper(self) -> Floats:
        """P(f) at each size."""
        return np.array([one.upper for one in self.certificates])

    @property
    def lower(self) -> Floats:
        """The lower bound at each size."""
        return np.array([one.lower for one in self.certificates])

    @property
    def gap(self) -> Floats:
        """Upper less lower at each size."""
        return np.array([one.gap for one in self.certificates])

    @property
    def relative_gap(self) -> Floats:
        """SB01's gap at each size."""
        return np.array([one.relative_gap for one in self.certificates])


def _gap(upper: Floats, lower: Floats) -> Floats:
    """Upper - lower; rounding cannot make it negative."""
    return np.maximum(upper - lower, 0.0)


def relative_gap(upper: float, lower: float, target_norm: float) -> float:
    """2 (P - D) / (y'Wy - P - D), which is SB01's gap(); 0 when there is none, and when y = 0.

    A gap within the rounding of y'Wy counts as 0: where f = 0 is best the quotient would be 0/0.
    """
    gap = max(upper - lower, 0.0)
    if gap <= _ROUNDING * abs(target_norm):
        return 0.0
    scale = target_norm - upper - lower
    return 2.0 * gap / scale if scale > 0 else float("inf")
