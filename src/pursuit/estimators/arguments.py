"""Arguments that many estimators share: what they may be, and those that are small objects."""

from __future__ import annotations

import numbers
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import sparse

from pursuit import limits
from pursuit._sklearn import Interval, Options, StrOptions

KINDS = ("pooled", "fresh", "full")
SCORES = ("posterior", "evidence")
POINTS = ("rows", "kmeans")

POOLED = ("pool_size", "rows", "rounds", "candidates")
"""Fields that a pooled search has in every estimator that chooses from a pool on a sketch."""


@dataclass(frozen=True, eq=False)
class Search:
    """How an estimator searches for its basis, in more detail than a name.

    Fields that are left at None take the estimator's default. A field that the kind of search or
    the estimator has no use for is refused by ``fit``.

    Parameters
    ----------
    kind : {"pooled", "fresh", "full"}, default "pooled"
        ``"pooled"``: choose from a pool of candidates, by statistics on a sketch of the rows.
        ``"fresh"``: look at a new random subset of the rows at every step, as published.
        ``"full"``: look at every row at every step.
    pool_size : int or None, default None
        Number of candidates in the pool, or in the subset of every step.
    rows : int, "all" or None, default None
        Number of rows in the sketch by which a pooled search chooses. The fit that follows uses
        all rows. By default of models of Gaussian processes, machines and generalised linear
        models, the rows of the pool choose first, an eighth more points than are asked for, and the
        sketch chooses among those.
    rounds : int or None, default None
        Number of times a pooled search chooses. Each further round keeps the chosen points and
        replaces the rest of the pool.
    score : {"posterior", "evidence"} or None, default None
        What the choice improves: SB01's log posterior (SB01 is Smola and Bartlett 2001), or the
        lower bound on the evidence, which also counts how much of the kernel matrix the basis
        leaves unexplained.
    candidates : {"rows", "kmeans"}, items or None, default None
        Where the pool of a pooled search comes from: random rows, cluster centres, or points of
        your own.

    Examples
    --------
    >>> from pursuit import Search, SparseGPRegressor
    >>> model = SparseGPRegressor(search=Search("pooled", pool_size=3000, rounds=2))
    >>> model.search
    Search('pooled', pool_size=3000, rounds=2)
    """

    kind: str = "pooled"
    pool_size: int | None = None
    rows: int | str | None = None
    rounds: int | None = None
    score: str | None = None
    candidates: Any = None

    def __post_init__(self) -> None:
        """Refuse values that no estimator takes."""
        _one_of("kind", self.kind, KINDS)
        for name in ("pool_size", "rows", "rounds"):
            if name == "rows" and isinstance(self.rows, str) and self.rows == "all":
                continue
            _at_least("Search", name, getattr(self, name), 1)
        if self.score is not None:
            _one_of("score", self.score, SCORES)
        if isinstance(self.candidates, str):
            _one_of("candidates", self.candidates, POINTS)
        elif self.candidates is not None and not _are_items(self.candidates):
            raise TypeError(
                "Search(candidates=...) takes 'rows', 'kmeans', or points of your own as an array, "
                f"a sparse matrix or a list, got {type(self.candidates).__name__}."
            )

    def __repr__(self) -> str:
        """The fields that were given."""
        given = [
            f"{name}=..." if name == "candidates" and self.own_points else f"{name}={value!r}"
            for name, value in ((name, getattr(self, name)) for name in self.given())
        ]
        return f"Search({', '.join([repr(self.kind), *given])})"

    def given(self) -> list[str]:
        """Names of the fields, other than the kind, that were given."""
        names = [field.name for field in fields(self) if field.name != "kind"]
        return [name for name in names if getattr(self, name) is not None]

    @property
    def own_points(self) -> bool:
        """Whether the user has given the candidates themselves."""
        return self.candidates is not None and not isinstance(self.candidates, str)


def resolve_search(search: str | Search, allowed: Mapping[str, Collection[str]]) -> Search:
    """The search that an argument means.

    Parameters
    ----------
    search : str or Search
        What the estimator's ``search`` holds.
    allowed : mapping of str to collection of str
        Fields that apply, for each kind of search that the estimator knows.
    """
    if not isinstance(search, Search):
        if search not in allowed:
            names = ", ".join(repr(kind) for kind in allowed)
            raise ValueError(f"search must be {names} or a Search object, got {search!r}.")
        return Search(search)
    if search.kind not in allowed:
        names = ", ".join(repr(kind) for kind in allowed)
        raise ValueError(f"search={search!r}: this estimator searches by {names} only.")
    applying = allowed[search.kind]
    for name in search.given():
        if name not in applying:
            takes = f"it takes {', '.join(applying)}" if applying else "it takes no further field"
            raise ValueError(
                f"search={search!r}: {name} has no effect on a {search.kind} search of this "
                f"estimator; {takes}."
            )
    if search.own_points:
        idle = [name for name in ("pool_size", "rounds") if name in search.given()]
        if idle:
            raise ValueError(
                f"search=Search({search.kind!r}, candidates=..., {idle[0]}=...): {idle[0]} has no "
                "effect, since your own points are the pool. Leave it out."
            )
    return search


@dataclass(frozen=True)
class Evidence:
    """How hyper-parameters are learned by the evidence, in more detail than its name.

    Parameters
    ----------
    restarts : int, default 0
        Number of further runs of the optimiser. Each starts at hyper-parameters whose logarithms
        are drawn uniformly between their bounds, as in scikit-learn.
    rows : int, default 2000
        Number of random rows on which the exact evidence is maximised. Its cost grows with the
        cube of this number. If there are no more, nothing is drawn, and no seed changes what is
        learned without restarts.

    Examples
    --------
    >>> from pursuit import Evidence, SparseGPRegressor
    >>> SparseGPRegressor(optimizer=Evidence(restarts=2)).optimizer
    Evidence(restarts=2, rows=2000)
    """

    restarts: int = 0
    rows: int = limits.EVIDENCE_ROWS

    def __post_init__(self) -> None:
        """Refuse what is not a number of runs or rows."""
        _at_least("Evidence", "restarts", self.restarts, 0)
        _at_least("Evidence", "rows", self.rows, 2)


def _one_of(name: str, value: Any, options: Collection[str]) -> None:
    if not isinstance(value, str) or value not in options:
        names = ", ".join(repr(option) for option in options)
        raise ValueError(f"Search({name}=...) must be one of {names}, got {value!r}.")


def _at_least(owner: str, name: str, value: Any, least: int) -> None:
    if value is None and owner == "Search":
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{owner}({name}=...) must be a whole number >= {least}, got {value!r}.")


def _are_items(candidates: Any) -> bool:
    return (
        isinstance(candidates, list | np.ndarray)
        or sparse.issparse(candidates)
        or (hasattr(candidates, "__array__") and hasattr(candidates, "shape"))
    )


Constraints = dict[str, list[Any]]

KERNEL: Constraints = {
    "gamma": [None, Interval(numbers.Real, 0, None, closed="left")],
    "coef0": [None, numbers.Real],
    "degree": [None, Interval(numbers.Real, 0, None, closed="neither")],
    "kernel_params": [None, dict],
}
"""Parameters of a kernel given by name."""

SEARCH: list[Any] = [str, Search]
"""How a basis is searched for; names and fields are checked by `resolve_search`."""

OPTIMIZER: list[Any] = [None, StrOptions({"evidence"}), Evidence]
"""How hyper-parameters are learned."""

REFINE: list[Any] = [
    StrOptions({"auto"}),
    Options(bool, {False}),
    Interval(numbers.Integral, 0, None, closed="left"),
]
"""Gradient steps that move the chosen points."""

CHECKPOINT: list[Any] = [None, str, os.PathLike]
"""A folder that records the finished stages of a fit."""

EXECUTION: Constraints = {
    "n_jobs": [None, numbers.Integral],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
"""Of how a fit runs."""

MAX_TIME: list[Any] = [None, Interval(numbers.Real, 0, None, closed="neither")]
"""Seconds that a fit may take."""

DTYPE: list[Any] = [StrOptions({"float64", "float32"}), Options(type, {np.float32, np.float64})]
"""Type of the kernel tiles."""
