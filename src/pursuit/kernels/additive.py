"""Sums of kernels of few columns each, and the terms that any sum of kernels has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp

from pursuit._types import Floats
from pursuit.kernels.base import Vector
from pursuit.kernels.categorical import Categorical
from pursuit.kernels.on_columns import (
    AroundKernel,
    ColumnNames,
    Columns,
    ColumnsKernel,
    resolved_positions,
)

_MATERN = {0.5: "12", 1.5: "32", 2.5: "52"}
MOST_TERMS = 10_000
"""Most terms of an additive kernel. More: learning tries them all, for minutes at every step."""


class Additive(AroundKernel):
    """A sum of kernels of one feature each, or of a few features each.

    For all sets S of one to ``order`` features it has a term c_S Π_{j∈S} base(x_j). Estimators that
    learn their kernel begin with noise, add one term after the other as long as the evidence
    rises by more than ½ log(rows) per hyper-parameter, and drop terms that later ones replace.
    The kernel that was learned is a plain sum, with its own hyper-parameters in every term:
    ``predict_parts`` returns the functions of its terms. An estimator that keeps its kernel uses
    all terms, each with c_S = 1 / number of terms; so does the object itself when it is called.

    Parameters
    ----------
    base : scikit-learn GP kernel
        The kernel of one feature, without a constant factor; its length scales and bounds are in
        units of the features as they are given. Learning starts from these length scales, and from
        some in proportion to the deviation of each feature.
    order : int, default 1
        Most features per term. There are at most 10 000 terms.
    columns : name, position, list of either, slice, mask, selector or None, default None
        The features, as in :func:`on_columns`; None for all that are not categories.
    names : sequence of str or None, default None
        Their names, to print; a fit fills them in.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from pursuit import Additive, SparseGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(300, 5))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 3] ** 2 + 0.1 * rng.standard_normal(300)
    >>> model = SparseGPRegressor(Additive(RBF()) + WhiteKernel(), random_state=0).fit(X, y)
    >>> sorted(model.part_names_)
    ['RBF(x0)', 'RBF(x3)', 'constant']
    >>> model.predict_parts(X[:2]).shape
    (2, 3)
    """

    _inner_name = "base"

    def __init__(
        self,
        base: gp.Kernel,
        order: int = 1,
        columns: Columns | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.base = base
        self.order = order
        self.columns = columns
        self.names = names

    def resolved(self, known: ColumnNames) -> Additive:
        """The same with positions of columns, after a check of base, order and number of terms."""
        columns = known.numbers if self.columns is None else self.columns
        positions = known.positions(columns, "Additive")
        self._check(len(positions))
        names = known.names_of(positions, self.names)
        return Additive(self.base, self.order, positions, names)

    def _check(self, n_features: int) -> None:
        if isinstance(self.order, bool) or not isinstance(self.order, int | np.integer):
            raise TypeError(f"Additive(order=...) must be a whole number, got {self.order!r}.")
        if self.order < 1:
            raise ValueError(f"Additive(order=...) must be at least 1, got {self.order}.")
        if not isinstance(self.base, gp.Kernel):
            raise TypeError(
                f"Additive(base=...) must be a kernel object of scikit-learn, got {self.base!r}."
            )
        parts = [self.base, *self.base.get_params().values()]
        if any(isinstance(part, gp.WhiteKernel | AroundKernel) for part in parts):
            raise ValueError(
                f"Additive({self.base!r}) has a base that is noise or has columns of its own: its "
                "base is a kernel of one feature. Add noise as Additive(...) + WhiteKernel()."
            )
        if any(parameter.n_elements > 1 for parameter in self.base.hyperparameters):
            raise ValueError(
                f"Additive({self.base!r}) has a base with several length scales: its base is a "
                "kernel of one feature, and every term has a length scale of its own."
            )
        count = n_terms(n_features, self.order)
        if count > MOST_TERMS:
            raise ValueError(
                f"Additive(order={self.order}) on {n_features} features has {count:,} terms, and "
                f"at most {MOST_TERMS:,} are tried: lower order, or give fewer columns=."
            )

    def terms(self) -> list[gp.Kernel]:
        """All terms of a resolved kernel, those of fewer features first."""
        n_features = len(self._positions)
        return [
            self._term(chosen)
            for size in range(1, self.order + 1)
            for chosen in combinations(range(n_features), size)
        ]

    def first_term(self) -> gp.Kernel:
        """The first of all terms, which stands for the others where only their form matters."""
        return self._term((0,))

    @property
    def _positions(self) -> list[int]:
        return list(map(int, resolved_positions(self.columns)))

    def _term(self, chosen: tuple[int, ...]) -> gp.Kernel:
        term: gp.Kernel = gp.ConstantKernel(1.0 / n_terms(len(self._positions), self.order))
        for i in chosen:
            names = None if self.names is None else [self.names[i]]
            term = term * ColumnsKernel(clone(self.base), [self._positions[i]], names)
        return term

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return k(X, Y), and with ``eval_gradient`` its derivative by θ of the one base.

        Sums of products over all sets of features are elementary symmetric polynomials E_k of the
        kernels k_j of single features, built by E_k ← E_k + E_{k-1} k_j.
        """
        known = self.resolved(ColumnNames.of(X))
        A, B = (None if part is None else np.asarray(part) for part in (X, Y))
        assert A is not None
        shape = len(A), len(A if B is None else B)
        sums: list[Floats] = [np.ones(shape)] + [np.zeros(shape) for _ in range(self.order)]
        slopes = [np.zeros((*shape, len(self.theta))) for _ in sums]
        positions = known._positions
        for j in positions:
            column = self.base(A[:, [j]], None if B is None else B[:, [j]], eval_gradient)
            k, slope = column if eval_gradient else (column, None)
            for size in range(self.order, 0, -1):
                if slope is not None:
                    slopes[size] += slopes[size - 1] * k[..., None]
                    slopes[size] += sums[size - 1][..., None] * slope
                sums[size] += sums[size - 1] * k
        share = 1.0 / n_terms(len(positions), self.order)
        value = share * np.sum(sums[1:], axis=0)
        return (value, share * np.sum(slopes[1:], axis=0)) if eval_gradient else value

    def diag(self, X: Any) -> Vector:
        """Return k(x, x) of every row."""
        known = self.resolved(ColumnNames.of(X))
        A = np.asarray(X)
        sums = [np.ones(len(A))] + [np.zeros(len(A)) for _ in range(self.order)]
        positions = known._positions
        for j in positions:
            diagonal = self.base.diag(A[:, [j]])
            for size in range(self.order, 0, -1):
                sums[size] += sums[size - 1] * diagonal
        return np.asarray(np.sum(sums[1:], axis=0) / n_terms(len(positions), self.order))

    def __repr__(self) -> str:
        columns = self.columns if self.names is None else list(self.names)
        shown = "" if columns is None else f", columns={columns!r}"
        return f"Additive({self.base!r}, order={self.order}{shown})"


def n_terms(n_features: int, order: int) -> int:
    """Number of sets of one to ``order`` of the features."""
    return sum(comb(n_features, size) for size in range(1, order + 1))


def sum_of_terms(terms: Sequence[gp.Kernel]) -> gp.Kernel:
    """Return the sum of kernels, nested as little as possible: Python limits how deep it may be."""
    if len(terms) == 1:
        return terms[0]
    half = (len(terms) + 1) // 2
    return gp.Sum(sum_of_terms(terms[:half]), sum_of_terms(terms[half:]))


def terms_of(kernel: gp.Kernel) -> list[gp.Kernel]:
    """Return the terms of a sum, also of sums within it; a kernel that is no sum is its own."""
    if type(kernel) is gp.Sum:
        return terms_of(kernel.k1) + terms_of(kernel.k2)
    return [kernel]


@dataclass(frozen=True)
class Part:
    """A term of a sum that is not a constant.

    Attributes
    ----------
    kernel : scikit-learn GP kernel
        The term.
    name : str
        Kernels and columns, without constants.
    columns : list of int or None
        Columns that it looks at; None for all of them.
    """

    kernel: gp.Kernel
    name: str
    columns: list[int] | None


def parts_of(kernel: gp.Kernel) -> list[Part]:
    """Return the terms of a sum that are neither constants nor noise; names are unique."""
    kernels = [term for term in terms_of(kernel) if not is_constant(term) and not _is_white(term)]
    names: list[str] = []
    for term in kernels:
        name, again = described(term), 2
        while name in names:
            name, again = f"{described(term)} ({again})", again + 1
        names.append(name)
    return [Part(term, name, columns_used(term)) for term, name in zip(kernels, names, strict=True)]


def is_constant(kernel: gp.Kernel) -> bool:
    """Whether a kernel has one value everywhere."""
    if isinstance(kernel, gp.Product):
        return is_constant(kernel.k1) and is_constant(kernel.k2)
    return isinstance(kernel, gp.ConstantKernel)


def _is_white(kernel: gp.Kernel) -> bool:
    if isinstance(kernel, gp.Product):
        factors = kernel.k1, kernel.k2
        return any(_is_white(one) for one in factors) and all(
            _is_white(one) or is_constant(one) for one in factors
        )
    return isinstance(kernel, gp.WhiteKernel)


def described(kernel: gp.Kernel, columns: Sequence[str] | None = None) -> str:
    """Return kernels and columns of a term in words, without constants and hyper-parameters."""
    if isinstance(kernel, gp.Product):
        factors = [one for one in (kernel.k1, kernel.k2) if not is_constant(one)]
        return " * ".join(
            f"({described(one, columns)})" if isinstance(one, gp.Sum) else described(one, columns)
            for one in factors
        )
    if isinstance(kernel, gp.Sum):
        return f"{described(kernel.k1, columns)} + {described(kernel.k2, columns)}"
    if isinstance(kernel, gp.Exponentiation):
        return f"({described(kernel.kernel, columns)}) ** {kernel.exponent}"
    if isinstance(kernel, ColumnsKernel):
        return described(kernel.kernel, _column_names(kernel))
    columns = _column_names(kernel) if isinstance(kernel, Categorical) else columns
    shown = "" if columns is None else f"({', '.join(columns)})"
    smoothness = _MATERN.get(kernel.nu, "") if type(kernel) is gp.Matern else ""
    return f"{type(kernel).__name__}{smoothness}{shown}"


def _column_names(kernel: ColumnsKernel | Categorical) -> list[str]:
    if kernel.names is not None:
        return [str(name) for name in kernel.names]
    columns: Any = kernel.columns
    several = columns if isinstance(columns, list | tuple | np.ndarray) else [columns]
    return [f"x{one}" if isinstance(one, int | np.integer) else str(one) for one in several]


def columns_used(kernel: gp.Kernel) -> list[int] | None:
    """Positions of the columns that a kernel looks at; None for all of them."""
    if isinstance(kernel, gp.KernelOperator):
        used = [columns_used(one) for one in (kernel.k1, kernel.k2) if not is_constant(one)]
        known = [columns for columns in used if columns is not None]
        return sorted(set().union(*known)) if len(known) == len(used) else None
    if isinstance(kernel, gp.Exponentiation):
        return columns_used(kernel.kernel)
    if isinstance(kernel, ColumnsKernel | Categorical):
        return sorted(map(int, resolved_positions(kernel.columns)))
    return None
