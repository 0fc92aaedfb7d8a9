"""Linear programmes that grow: losses with two slopes, an l1 penalty, one more column at a time.

The primal over kernel columns K_S = k(x, c_j), j in S, is (Formulas §6, SS00 §6.2)

    minimise  Σ_j |a_j| + Σ_k max_{l_k ≤ v_k ≤ u_k} v_k (g_k - f_k),    f = K_S a + b,

whose inner maxima are piecewise linear losses. What is solved is its dual

    maximise  Σ_k g_k v_k   over  l ≤ v ≤ u,  Σ_k v_k = 0,  -1 ≤ K_S'v ≤ 1,

because there a new column is a new row: the old basis stays dual feasible, and the dual simplex
method goes on from it. v = 0 is feasible and every v_k is bounded, so an optimum always exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack

Floats = NDArray[np.float64]

_FEASIBILITY = 1e-9
_WIDER = 1e-7
_SMALL_ENTRY = 1e-12
_CYCLING = 20_000, 20
"""Simplex iterations, and more of them a variable, after which the method goes in circles."""
_ROUNDING = 1e-12

MISSING = (
    "solver='highs' needs highspy: install it with `pip install \"pursuit[lp]\"`, or use "
    "solver='auto', which does without hot starts where it is missing."
)


@dataclass(frozen=True)
class LinearLosses:
    """Losses Σ_k max_{l_k ≤ v_k ≤ u_k} v_k (g_k - f_k) of the values f at m rows.

    Attributes
    ----------
    gain, lower, upper : arrays of shape (n_terms, m)
        g, l ≤ 0 and u ≥ 0: as many terms a row as the loss has kinks.
    """

    gain: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def hinge(cls, signs: Floats, weights: Floats) -> LinearLosses:
        """Σ_i w_i max(0, 1 - y_i f_i) for y_i = ±1."""
        slopes = signs * weights
        return cls(signs[None], np.minimum(slopes, 0.0)[None], np.maximum(slopes, 0.0)[None])

    @classmethod
    def tube(cls, targets: Floats, weights: Floats, epsilon: float) -> LinearLosses:
        """Σ_i w_i max(0, |y_i - f_i| - ε); for ε = 0, Σ_i w_i |y_i - f_i|, which has one kink."""
        if epsilon == 0.0:
            return cls(targets[None], -weights[None], weights[None])
        none = np.zeros_like(weights)
        return cls(
            np.stack([targets - epsilon, targets + epsilon]),
            np.stack([none, -weights]),
            np.stack([weights, none]),
        )

    def times(self, factor: float) -> LinearLosses:
        """The losses multiplied by a positive number."""
        return LinearLosses(self.gain, factor * self.lower, factor * self.upper)

    def balanced(self) -> LinearLosses:
        """The losses with slopes no larger than Σv = 0 lets their rows make use of.

        What a row pulls up others must pull down, so no v_k of an optimum exceeds the -l of all
        other rows together: the dual loses no optimum, and one very heavy row no longer makes all
        others negligible.
        """
        down, up = _of_others(-self.lower.sum(axis=0)), _of_others(self.upper.sum(axis=0))
        return LinearLosses(self.gain, np.maximum(self.lower, -up), np.minimum(self.upper, down))

    def value(self, fitted: Floats) -> float:
        """The losses of f, added up."""
        short = self.gain - fitted
        return float(np.maximum(self.lower * short, self.upper * short).sum())

    def dual_value(self, v: Floats) -> float:
        """Σ_k g_k v_k."""
        return float(np.vdot(self.gain, v))

    def feasible(self, v: Floats) -> Floats:
        """V moved by the solver's rounding into its box and to a sum of 0, towards 0."""
        v = np.clip(v.reshape(self.gain.shape), self.lower, self.upper)
        excess = float(v.sum())
        if abs(excess) > _ROUNDING * float(np.abs(v).sum()):
            ahead = v * np.sign(excess) > 0
            v[ahead] *= 1.0 - excess / float(v[ahead].sum())
        return v

    def intercept(self, fitted: Floats) -> float:
        """The b of least loss of f + b, in the middle where several are.

        The slope in b is -Σu where b is low, and rises by u_k - l_k at b = g_k - f_k. Where it does
        not rise above 0 again, the least such b is taken.
        """
        kinks = (self.gain - fitted).ravel()
        order = np.argsort(kinks, kind="stable")
        kinks, rises = kinks[order], (self.upper - self.lower).ravel()[order]
        slope = np.cumsum(rises) - float(self.upper.sum())
        level = _ROUNDING * float(rises.sum())
        first = int(np.argmax(slope >= -level))
        rising = slope > level
        last = int(np.argmax(rising)) if rising.any() else first
        return float(0.5 * (kinks[first] + kinks[last]))


@dataclass(frozen=True)
class MasterSolution:
    """Optimum of a restricted master.

    Attributes
    ----------
    dual : array of shape (n_terms, m)
        v.
    coefficients : array of shape (n_columns,)
        a, in the order in which columns were added.
    iterations : int
        Simplex iterations of this solution.
    """

    dual: Floats
    coefficients: Floats
    iterations: int


class Master(Protocol):
    """A linear programme over the columns added so far."""

    def add(self, columns: Floats) -> None:
        """Add columns k(x, c_j), an array of shape (m, n_new)."""
        ...

    def solve(self) -> MasterSolution:
        """Solve over all columns added."""
        ...


def make_master(solver: str, losses: LinearLosses) -> Master:
    """The master that ``solver`` names: "highs", "linprog", or "auto", the better one there is."""
    if solver == "linprog":
        return LinprogMaster(losses)
    try:
        import highspy
    except ImportError as error:
        if solver == "auto":
            return LinprogMaster(losses)
        raise ImportError(MISSING) from error
    return HighsMaster(losses, highspy)


class HighsMaster:
    """HiGHS, which keeps its basis from one solution to the next.

    Parameters
    ----------
    losses : LinearLosses
        The losses.
    highspy : module
        The package of that name.

    Attributes
    ----------
    highs : highspy.Highs
        The solver with its model and options.
    """

    def __init__(self, losses: LinearLosses, highspy: Any) -> None:
        self._shape = losses.gain.shape
        self._highspy = highspy
        self.highs = highs = highspy.Highs()
        for name, value in (
            ("output_flag", False),
            # A number of threads other than the process's first one would be an error.
            ("parallel", "off"),
            ("solver", "simplex"),
            # Presolve would throw the basis away.
            ("presolve", "off"),
            ("primal_feasibility_tolerance", _FEASIBILITY),
            ("dual_feasibility_tolerance", _FEASIBILITY),
            ("small_matrix_value", _SMALL_ENTRY),
            ("simplex_iteration_limit", _most_iterations(losses)),
        ):
            highs.setOptionValue(name, value)
        n = losses.gain.size
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = n, 1
        model.col_cost_ = -losses.gain.ravel()
        model.col_lower_, model.col_upper_ = losses.lower.ravel(), losses.upper.ravel()
        model.row_lower_ = model.row_upper_ = np.zeros(1)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array([0, n])
        model.a_matrix_.index_ = np.arange(n)
        model.a_matrix_.value_ = np.ones(n)
        highs.passModel(model)

    def add(self, columns: Floats) -> None:
        """Add columns, as ranged rows of the dual."""
        q = columns.shape[1]
        values = np.tile(columns.T, self._shape[0])
        n = values.shape[1]
        status = self.highs.addRows(
            q,
            np.full(q, -1.0),
            np.full(q, 1.0),
            values.size,
            np.arange(q, dtype=np.int32) * n,
            np.tile(np.arange(n, dtype=np.int32), q),
            values.ravel(),
        )
        if status == self._highspy.HighsStatus.kError:
            raise _not_solved("a column has entries of more than 1e15")

    def solve(self) -> MasterSolution:
        """Solve, from the basis of the last solution."""
        highs, optimal = self.highs, self._highspy.HighsModelStatus.kOptimal
        highs.run()
        iterations = highs.getInfo().simplex_iteration_count
        if highs.getModelStatus() != optimal:
            # A basis may be too ill-conditioned to go on from, and a tolerance too tight.
            highs.clearSolver()
            highs.setOptionValue("primal_feasibility_tolerance", _WIDER)
            highs.setOptionValue("dual_feasibility_tolerance", _WIDER)
            highs.run()
            iterations += highs.getInfo().simplex_iteration_count
        if highs.getModelStatus() != optimal:
            raise _not_solved(highs.modelStatusToString(highs.getModelStatus()))
        found = highs.getSolution()
        return MasterSolution(
            np.array(found.col_value).reshape(self._shape),
            -np.array(found.row_dual)[1:],
            int(iterations),
        )


class LinprogMaster:
    """scipy.optimize.linprog, which starts afresh every time.

    A ranged row -1 ≤ K_j'v ≤ 1 becomes K_j'v - t_j = 0 with -1 ≤ t_j ≤ 1.

    Parameters
    ----------
    losses : LinearLosses
        The losses.
    """

    def __init__(self, losses: LinearLosses) -> None:
        self._losses = losses
        self._columns = np.empty((losses.gain.shape[1], 0))

    def add(self, columns: Floats) -> None:
        """Add columns."""
        self._columns = np.hstack([self._columns, columns])

    def solve(self) -> MasterSolution:
        """Solve from scratch."""
        losses, q = self._losses, self._columns.shape[1]
        n_terms, m = losses.gain.shape
        n = n_terms * m
        rows = np.vstack([np.ones(n), np.tile(self._columns.T, n_terms)])
        constraints: Any = hstack([csr_array(rows), -eye_array(q + 1, q, k=-1)], format="csr")
        boxes = np.column_stack([losses.lower.ravel(), losses.upper.ravel()])
        bounds: Any = np.vstack([boxes, np.tile([-1.0, 1.0], (q, 1))])
        found = linprog(
            np.append(-losses.gain.ravel(), np.zeros(q)),
            A_eq=constraints,
            b_eq=np.zeros(q + 1),
            bounds=bounds,
            method="highs-ds",
            options={
                "presolve": False,
                "maxiter": _most_iterations(losses),
                "primal_feasibility_tolerance": _FEASIBILITY,
                "dual_feasibility_tolerance": _FEASIBILITY,
            },
        )
        if found.status != 0 or found.x is None:
            raise _not_solved(found.message)
        a = -found.eqlin.marginals[1:]
        return MasterSolution(found.x[:n].reshape(n_terms, m), a, int(found.nit))


def _most_iterations(losses: LinearLosses) -> int:
    return _CYCLING[0] + _CYCLING[1] * losses.gain.size


def _of_others(sizes: Floats) -> Floats:
    """Σ_{j ≠ i} sizes_j for every i, without a difference of large numbers."""
    before, behind = np.cumsum(sizes), np.cumsum(sizes[::-1])[::-1]
    others: Floats = np.append(0.0, before[:-1]) + np.append(behind[1:], 0.0)
    return others


def _not_solved(status: str) -> RuntimeError:
    return RuntimeError(
        f"the linear programme was not solved (status: {status}), though v = 0 is feasible and "
        "every variable is bounded, so that an optimum exists. The numbers are too unequal for the "
        "solver: scale the features or the kernel, or use a smaller C."
    )
