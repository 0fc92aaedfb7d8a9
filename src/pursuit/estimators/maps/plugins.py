"""Which rule goes with which projection, search and stop: the plug-ins of SS00 Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pursuit.estimators.inputs import is_precomputed

RULES = ("function", "frobenius", "column", "diagonal", "random-pivot", "feature-analysis")
PROJECTIONS = ("function", "column", "kronecker")
STOPS = ("exact", "corollary3")

_ANY_PROJECTION = ("function", "frobenius", "column")
_POOLED = ("function", "random-pivot")


@dataclass(frozen=True)
class Plugins:
    """A rule, a projection, a search and a stop that go together; functions are the user's."""

    rule: Any
    projection: Any
    search: str
    stop: Any

    @classmethod
    def of(cls, estimator: Any) -> Plugins:
        """Those of a feature map; what does not go together is refused with the reason."""
        rule, projection, stop = estimator.rule, estimator.projection, estimator.stop
        by_rows = isinstance(estimator.candidates, str) and estimator.candidates == "rows"
        if not by_rows:
            _check_points(estimator)
        if projection != "function" and not callable(rule) and rule not in _ANY_PROJECTION:
            raise ValueError(
                f"rule={rule!r} is defined by residuals in function space: use "
                "projection='function', or one of the rules 'function', 'frobenius' and 'column'."
            )
        if stop != "exact" and estimator.tol is None:
            raise ValueError(f"stop={_name(stop)} compares a bound with tol: pass tol.")
        if not callable(stop) and estimator.tol is not None and estimator.tol >= 1:
            raise ValueError(
                f"tol must be below 1, got {estimator.tol:g}: it is a share of the residual before "
                "the first landmark, unless stop is a function."
            )
        if stop == "corollary3":
            _check_sampled(rule, projection)
        if estimator.rearrange and callable(projection):
            raise ValueError(
                "rearrange=True would take T out of the order in which projection gave it: use "
                "rearrange=False."
            )
        return cls(rule, projection, _search(estimator.search, rule, projection, stop), stop)


def _search(search: str, rule: Any, projection: Any, stop: Any) -> str:
    """The search by name, ``"auto"`` resolved."""
    blocks = rule in _POOLED and projection == "function" and stop == "exact"
    if search == "auto":
        if blocks:
            return "pooled"
        return "full" if rule in ("diagonal", "random-pivot") else "fresh"
    if search == "pooled" and not blocks:
        raise ValueError(
            "search='pooled' takes blocks of landmarks, for rule='function' or 'random-pivot' with "
            f"projection='function' and stop='exact' only, got rule={_name(rule)}, "
            f"projection={_name(projection)} and stop={_name(stop)}: use search='auto', 'fresh' "
            "or 'full'."
        )
    if search == "fresh" and rule == "random-pivot":
        raise ValueError(
            "rule='random-pivot' draws one row of all, not the best of a subset: use "
            "search='full' (one row per step), 'pooled' or 'auto'."
        )
    return search


def _check_sampled(rule: Any, projection: Any) -> None:
    if callable(projection):
        raise ValueError(
            "stop='corollary3' needs a projection that never leaves more of a column than before, "
            "which nobody knows of a function: pass a function as stop, too, or use stop='exact'."
        )
    if rule == "random-pivot":
        raise ValueError(
            "stop='corollary3' needs candidates drawn uniformly, which rule='random-pivot' does "
            "not do: use stop='exact'."
        )


def _check_points(estimator: Any) -> None:
    """Points are taken by what they lower the residual trace, or all of them."""
    given = {"rule": "function", "search": "auto", "stop": "exact"}
    for name, only in given.items():
        value = getattr(estimator, name)
        if value != only:
            raise ValueError(
                f"{name}={_name(value)} chooses among rows, but candidates are points: use "
                f"{name}={only!r} or candidates='rows'."
            )
    kmeans = isinstance(estimator.candidates, str)
    if kmeans and is_precomputed(estimator.kernel):
        raise ValueError(
            "candidates='kmeans' needs rows with features, and kernel='precomputed' has none: use "
            "candidates='rows'."
        )
    if callable(estimator.projection):
        raise ValueError(
            "projection is a function of the steps among rows, but candidates are points: use "
            "projection='function' or candidates='rows'."
        )


def _name(value: Any) -> str:
    return getattr(value, "__name__", "a function") if callable(value) else repr(value)
