"""Linear programmes that grow by columns: losses with two slopes and an l1 penalty.

The primal over kernel columns K_S = k(x, c_j), j in S, is (Formulas §6, SS00 §6.2)

    minimise  Σ_j |a_j| + Σ_k max_{l_k ≤ v_k ≤ u_k} v_k (g_k - f_k),    f = K_S a + b,

whose inner maxima are piecewise linear losses. What is solved is its dual

    maximise  Σ_k g_k v_k   over  l ≤ v ≤ u,  Σ_k v_k = 0,  -1 ≤ K_S'v ≤ 1,

because in the dual a new column is a new row: the old basis stays dual feasible, and the dual
simplex method continues from it. v = 0 is feasible and every v_k is bounded, so an optimum always
exists.

The same losses without b over the ball Σ_j |a_j| ≤ r have the dual

    maximise  Σ_k g_k v_k - r t   over  l ≤ v ≤ u,  t ≥ 0,  -t ≤ K_S'v ≤ t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack

from pursuit._types import Floats

_FEASIBILITY = 1e-9
_WIDER = 1e-7
_SMALL_ENTRY = 1e-12
_CYCLING = 20_000, 20
"""Simplex iterations, and further ones per variable, after which the method is taken to cycle."""
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
        g, l ≤ 0 and u ≥ 0: one term per kink of the loss.
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

    @classmethod
    def pinball(cls, targets: Floats, weights: Floats, low: float, high: float) -> LinearLosses:
        """Σ_i w_i max(low (y_i - f_i), high (y_i - f_i)) for low ≤ 0 ≤ high."""
        return cls(targets[None], low * weights[None], high * weights[None])

    def times(self, factor: float) -> LinearLosses:
        """The losses multiplied by a positive number."""
        return LinearLosses(self.gain, factor * self.lower, factor * self.upper)

    def balanced(self) -> LinearLosses:
        """The losses with slopes cut to what Σv = 0 allows.

        What one row pulls up, others must pull down, so no v_k of an optimum exceeds the -l of all
        other rows together. The dual keeps its optima, and one very heavy row does not make all
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
        """The b of least loss of f + b; the middle of the interval if there are several.

        The slope in b is -Σu for small b, and rises by u_k - l_k at b = g_k - f_k. If it never
        rises above 0, the smallest such b is taken.
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


class RestrictedMaster(Protocol):
    """A linear programme over the columns added so far."""

    def add(self, columns: Floats) -> None:
        """Add columns k(x, c_j), an array of shape (m, n_new)."""

    def solve(self) -> MasterSolution:
        """Solve over all columns added."""


@dataclass(frozen=True)
class PenaltyForm:
    """The dual of losses with an l1 penalty and an intercept: variables v, and a row Σv = 0."""

    losses: LinearLosses

    @property
    def gain(self) -> Floats:
        """g."""
        return self.losses.gain.ravel()

    @property
    def box(self) -> tuple[Floats, Floats]:
        """Least and largest values of the variables."""
        return self.losses.lower.ravel(), self.losses.upper.ravel()

    def first_rows(self) -> tuple[Floats, Floats, Floats]:
        """The row of the intercept, and its bounds."""
        return np.ones((1, self.losses.gain.size)), np.zeros(1), np.zeros(1)

    def rows(self, columns: Floats) -> tuple[Floats, Floats, Floats]:
        """-1 ≤ K_j'v ≤ 1 for new columns."""
        ones = np.ones(columns.shape[1])
        return np.tile(columns.T, len(self.losses.gain)), -ones, ones

    def coefficients(self, multipliers: Floats) -> Floats:
        """The a of the multipliers of all rows."""
        return -multipliers[1:]


@dataclass(frozen=True)
class BallForm:
    """The dual of losses over an l1 ball, without intercept: variables v and t ≥ 0."""

    losses: LinearLosses
    radius: float

    @property
    def gain(self) -> Floats:
        """G, and -r for t."""
        return np.append(self.losses.gain, -self.radius)

    @property
    def box(self) -> tuple[Floats, Floats]:
        """Least and largest values of the variables."""
        return np.append(self.losses.lower, 0.0), np.append(self.losses.upper, np.inf)

    def first_rows(self) -> tuple[Floats, Floats, Floats]:
        """None."""
        return np.empty((0, self.losses.gain.size + 1)), np.empty(0), np.empty(0)

    def rows(self, columns: Floats) -> tuple[Floats, Floats, Floats]:
        """K_j'v - t ≤ 0 ≤ K_j'v + t for new columns, one after the other."""
        q = columns.shape[1]
        values = np.repeat(np.tile(columns.T, len(self.losses.gain)), 2, axis=0)
        rows = np.column_stack([values, np.tile([-1.0, 1.0], q)])
        return rows, np.tile([-np.inf, 0.0], q), np.tile([0.0, np.inf], q)

    def coefficients(self, multipliers: Floats) -> Floats:
        """The a of the multipliers of all rows."""
        return -(multipliers[::2] + multipliers[1::2])


def make_master(solver: str, losses: LinearLosses, radius: float | None = None) -> RestrictedMaster:
    """The master of a ``solver``: "highs", "linprog", or "auto", which is "highs" if installed.

    It has an l1 penalty and an intercept; with a ``radius``, it has an l1 ball and no intercept.
    """
    form = PenaltyForm(losses) if radius is None else BallForm(losses, radius)
    if solver == "linprog":
        return LinprogMaster(form)
    try:
        import highspy
    except ImportError as error:
        if solver == "auto":
            return LinprogMaster(form)
        raise ImportError(MISSING) from error
    return HighsMaster(form, highspy)


class HighsMaster:
    """A master solved by HiGHS, which keeps its basis from one solution to the next.

    Parameters
    ----------
    form : PenaltyForm or BallForm
        The programme without columns.
    highspy : module
        The package of that name.

    Attributes
    ----------
    highs : highspy.Highs
        The solver with its model and options.
    """

    def __init__(self, form: PenaltyForm | BallForm, highspy: Any) -> None:
        self._form = form
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
            ("simplex_iteration_limit", _most_iterations(form.losses)),
        ):
            highs.setOptionValue(name, value)
        cost = -form.gain
        rows, low, high = form.first_rows()
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(cost), len(rows)
        model.col_cost_ = cost
        model.col_lower_, model.col_upper_ = form.box
        model.row_lower_, model.row_upper_ = low, high
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.arange(len(rows) + 1) * len(cost)
        model.a_matrix_.index_ = np.tile(np.arange(len(cost)), len(rows))
        model.a_matrix_.value_ = rows.ravel()
        highs.passModel(model)

    def add(self, columns: Floats) -> None:
        """Add columns, as rows of the dual."""
        rows, low, high = self._form.rows(columns)
        q, n = rows.shape
        status = self.highs.addRows(
            q,
            low,
            high,
            rows.size,
            np.arange(q, dtype=np.int32) * n,
            np.tile(np.arange(n, dtype=np.int32), q),
            rows.ravel(),
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
        solution = highs.getSolution()
        gain = self._form.losses.gain
        return MasterSolution(
            np.array(solution.col_value)[: gain.size].reshape(gain.shape),
            self._form.coefficients(np.array(solution.row_dual)),
            int(iterations),
        )


class LinprogMaster:
    """A master solved by scipy.optimize.linprog, which starts from scratch every time.

    A ranged row low ≤ A_j'v ≤ high becomes A_j'v - s_j = 0 with low ≤ s_j ≤ high.

    Parameters
    ----------
    form : PenaltyForm or BallForm
        The programme without columns.
    """

    def __init__(self, form: PenaltyForm | BallForm) -> None:
        self._form = form
        self._rows, self._low, self._high = form.first_rows()

    def add(self, columns: Floats) -> None:
        """Add columns."""
        rows, low, high = self._form.rows(columns)
        self._rows = np.vstack([self._rows, rows])
        self._low, self._high = np.append(self._low, low), np.append(self._high, high)

    def solve(self) -> MasterSolution:
        """Solve from scratch."""
        form, q = self._form, len(self._rows)
        constraints: Any = hstack([csr_array(self._rows), -eye_array(q)], format="csr")
        least, largest = form.box
        bounds: Any = np.column_stack([np.append(least, self._low), np.append(largest, self._high)])
        result = linprog(
            np.append(-form.gain, np.zeros(q)),
            A_eq=constraints,
            b_eq=np.zeros(q),
            bounds=bounds,
            method="highs-ds",
            options={
                "presolve": False,
                "maxiter": _most_iterations(form.losses),
                "primal_feasibility_tolerance": _FEASIBILITY,
                "dual_feasibility_tolerance": _FEASIBILITY,
            },
        )
        if result.status != 0 or result.x is None:
            raise _not_solved(result.message)
        gain = form.losses.gain
        a = form.coefficients(np.asarray(result.eqlin.marginals))
        return MasterSolution(result.x[: gain.size].reshape(gain.shape), a, int(result.nit))


def _most_iterations(losses: LinearLosses) -> int:
    return _CYCLING[0] + _CYCLING[1] * losses.gain.size


def _of_others(sizes: Floats) -> Floats:
    """Σ_{j ≠ i} sizes_j for every i, without a difference of large numbers."""
    before, behind = np.cumsum(sizes), np.cumsum(sizes[::-1])[::-1]
    others: Floats = np.append(0.0, before[:-1]) + np.append(behind[1:], 0.0)
    return others


def _not_solved(status: str) -> ValueError:
    return ValueError(
        f"the linear programme was not solved (status: {status}), though v = 0 is feasible and "
        "every variable is bounded, so that an optimum exists. The numbers are too unequal for the "
        "solver: scale the features of X or the kernel, or use a smaller C or radius."
    )
