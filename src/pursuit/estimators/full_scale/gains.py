"""What near rows bring and cost, by region, for the report of a full-scale model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.estimators.full_scale.class_fit import LocalClassModel
from pursuit.estimators.full_scale.local_fit import LocalModel
from pursuit.estimators.full_scale.near_rows import placed
from pursuit.estimators.inputs import feature_names
from pursuit.estimators.reporting import Addition, kilobytes
from pursuit.gram import LocalGroups
from pursuit.linalg import Workers
from pursuit.plots.report import Comparison, Panel, Table, precise
from pursuit.rows import len_items, take_items

AnyLocalModel = LocalModel | LocalClassModel

_LEVEL = 0.95
_LEAST = 1e-15
_BANDS, _REGIONS = 10, 8
_ROWS_PER_GROUP = 50
"""There are fewer groups where they would have fewer rows than this on average."""
_NAMING_FEATURES, _NAME = 3, 20
"""A region is named by so many features of its centre, those that vary most.

Their names are cut to so many letters.
"""


@dataclass(frozen=True)
class JudgedRows:
    """Rows that judge both models: the global part in the first column, near rows in the second.

    Attributes
    ----------
    items : items
        The rows.
    losses : array of shape (n_rows, 2)
        Squared errors in units of y, on average over the outputs; of classes the log loss.
    hits : array of shape (n_rows, 2)
        Share of the outputs within intervals of 95 %; of classes 1 if the label is right, else 0.
    weights : array of shape (n_rows,)
        Weights of the rows.
    origin : str
        Where the rows come from.
    own : array of int of shape (n_rows,), optional
        The row among those kept that a row must not be compared with: itself; -1 for none.
    classes : bool
        Whether the targets are classes.
    """

    items: Any
    losses: Floats
    hits: Floats
    weights: Floats
    origin: str
    own: Indices | None = None
    classes: bool = False

    @classmethod
    def of(
        cls,
        items: Any,
        predictions: Sequence[tuple[Floats, Floats]],
        weights: Floats,
        origin: str,
        own: Indices | None = None,
    ) -> JudgedRows:
        """From errors and standard deviations (n_rows, n_outputs) of the two models."""
        width = NormalDist().inv_cdf(0.5 + 0.5 * _LEVEL)
        squares = [(error**2).mean(axis=1) for error, _ in predictions]
        inside = [(np.abs(error) <= width * std).mean(axis=1) for error, std in predictions]
        return cls(items, np.stack(squares, axis=1), np.stack(inside, axis=1), weights, origin, own)

    @classmethod
    def of_classes(
        cls, items: Any, probabilities: Sequence[Floats], labels: Indices, weights: Floats
    ) -> JudgedRows:
        """From class probabilities (n_rows, n_classes) of the two models."""
        at = np.arange(len(labels))
        losses = [-np.log(np.maximum(p[at, labels], _LEAST)) for p in probabilities]
        right = [(p.argmax(axis=1) == labels).astype(np.float64) for p in probabilities]
        both = np.stack(losses, axis=1), np.stack(right, axis=1)
        return cls(items, *both, weights, "as given", classes=True)

    @property
    def error_name(self) -> str:
        """What :meth:`error` is."""
        return "log loss" if self.classes else "RMSE"

    @property
    def hit_name(self) -> str:
        """What :meth:`share` counts."""
        return "in the right class" if self.classes else "in 95 % interval"

    def __len__(self) -> int:
        return len(self.weights)

    def error(self, some: Any = slice(None)) -> Floats:
        """Root mean square errors, or mean log losses, of both models on some of the rows."""
        mean: Floats = np.average(self.losses[some], axis=0, weights=self.weights[some])
        return mean if self.classes else np.sqrt(mean)

    def share(self, some: Any = slice(None)) -> Floats:
        """Share of some of the rows that both models get right."""
        share: Floats = np.average(self.hits[some], axis=0, weights=self.weights[some])
        return share


def near_rows_added(
    model: Any,
    local: AnyLocalModel,
    judged: JudgedRows | None,
    times: tuple[float | None, float | None],
    workers: Workers,
) -> Addition:
    """What the report says of near rows; ``times`` are µs per row of both models."""
    name = f"{model.n_neighbors_:,} near rows"
    panels = [_overall(model, local, judged, times, name)]
    if judged is not None:
        panels.append(_by_region(model, local, judged, name, workers))
    return Addition(name, f"The curves are those of the global part, without {name}.", panels)


def _overall(
    model: Any,
    local: AnyLocalModel,
    judged: JudgedRows | None,
    times: tuple[float | None, float | None],
    name: str,
) -> Panel:
    """Error, time and size of the global part, and of the whole model."""
    table = []
    if judged is not None:
        error = "Log loss" if judged.classes else "Root mean square error"
        hit = "In the right class" if judged.classes else "Within 95 % intervals"
        table.append([error, *map(precise, judged.error())])
        table.append([hit, *(f"{share:.1%}" for share in judged.share())])
    known = [each for each in times if each is not None]
    if len(known) == len(times):
        table.append(["Time to predict a row", *(f"{precise(each)} µs" for each in known)])
    both = tuple(kilobytes(each, [1])[0] for each in (model.global_, model))
    if all(both):
        table.append(["Numbers in the model", *(f"{precise(each)} kB" for each in both)])
    stored = local.process.stored
    if stored is not None:
        both = (0.0, 1e-3 * stored.nbytes)
        table.append(["Features in memory", *(f"{precise(each)} kB" for each in both)])
    text = (
        f"A prediction uses the nearest {model.n_neighbors_:,} of the {local.kept.n_rows:,} "
        "training rows, which are kept."
    )
    return Panel(
        "With and without near rows", text, Table(["", "global part", f"with {name}"], table)
    )


def _by_region(
    model: Any, local: AnyLocalModel, judged: JudgedRows, name: str, workers: Workers
) -> Panel:
    """Rows grouped by what is near them, and by where they are."""
    n_groups = max(1, len(judged) // _ROWS_PER_GROUP)
    distance = nearest_distance(local, judged, workers)
    unit = "the kernel's own distance" if local.index.scales is None else "length scales"
    group, labels = bands(distance, min(_BANDS, n_groups))
    title = f"By the distance to the nearest training row, in {unit}"
    comparisons = [_comparison(title, "distance", judged, group, labels, name)]
    if local.index.scales is not None:
        group, labels = _regions(model, local, judged.items, min(_REGIONS, n_groups))
        title = "By the nearest group of basis points, named by its centre"
        # Where near rows remove most of the squared error comes first.
        gain = judged.weights * (judged.losses[:, 0] - judged.losses[:, 1])
        order = np.argsort(-np.bincount(group, gain, len(labels)), kind="stable")
        group, labels = np.argsort(order)[group], [labels[j] for j in order]
        comparisons.append(_comparison(title, "centre", judged, group, labels, name))
    text = (
        f"{len(judged):,} rows, {judged.origin}. "
        + ("" if judged.classes else "RMSE is the root mean square error. ")
        + f"What is removed is the part by which near rows lower the {judged.error_name}."
        + ("" if judged.classes else " Intervals should contain 95 % of the rows.")
    )
    return Panel("What near rows brought, by region", text, comparisons=comparisons)


def _comparison(
    title: str, label: str, judged: JudgedRows, group: Indices, labels: Sequence[str], name: str
) -> Comparison:
    error, hit = judged.error_name, judged.hit_name
    columns = [label, "rows", f"{error}, global part", f"{error}, near rows", "removed"]
    columns += [f"{hit}, global part", f"{hit}, near rows"]
    rows, pairs = [], []
    for number, words in enumerate(labels):
        some = group == number
        if not some.any():
            continue
        before, after = map(float, judged.error(some))
        removed = 1.0 - after / before if before > 0 else 0.0
        shares = [f"{share:.1%}" for share in judged.share(some)]
        numbers = [precise(before), precise(after), f"{removed:.0%}"]
        rows.append([words, f"{some.sum():,}", *numbers, *shares])
        pairs.append((before, after))
    return Comparison(
        title, Table(columns, rows), (f"{error} of the global part", f"{error} with {name}"), pairs
    )


def nearest_distance(local: AnyLocalModel, judged: JudgedRows, workers: Workers) -> Floats:
    """Distance of each row to the nearest one that is kept, in the metric of near rows."""
    near = local.index.nearest(judged.items, 1, workers, own=judged.own)
    scales = local.index.scales
    if scales is not None:
        there = take_items(local.kept.items, near[:, 0])
        apart = placed(judged.items, scales) - placed(there, scales)
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", apart, apart)))

    def task(groups: LocalGroups) -> Floats:
        r, apart = groups.residual, groups.own - groups.near[:, 0]
        squares = r[:, 0, 0] + r[:, 1, 1] - 2.0 * r[:, 0, 1]
        squares = squares + np.einsum("ij,ij->i", apart, apart)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    return np.concatenate(local.process.each(judged.items, near, task, workers))


def bands(values: Floats, n: int) -> tuple[Indices, list[str]]:
    """The band of each value, of at most n that hold about as many values each, and their names."""
    edges = np.unique(np.quantile(values, np.linspace(0.0, 1.0, n + 1)))
    if len(edges) == 1:
        return np.zeros(len(values), dtype=np.intp), [precise(float(edges[0]))]
    group = np.searchsorted(edges[1:-1], values, side="right")
    names = [f"{edge:.2g}" for edge in edges]
    return group, [f"{low} to {high}" for low, high in pairwise(names)]


def _regions(model: Any, local: AnyLocalModel, items: Any, n: int) -> tuple[Indices, list[str]]:
    """The nearest of n clusters of basis points, and the names of all clusters."""
    from sklearn.cluster import KMeans

    scales = local.index.scales
    assert scales is not None
    points = placed(local.process.points, scales)
    clusters = KMeans(min(n, len_items(points)), n_init=4, random_state=0).fit(points)
    used = np.sort(np.argsort(-points.var(axis=0), kind="stable")[:_NAMING_FEATURES])
    features = feature_names(model, points.shape[1])
    centres = clusters.cluster_centers_ * scales
    names = [
        ", ".join(f"{features[j][:_NAME]} = {precise(float(centre[j]))}" for j in used)
        for centre in centres
    ]
    return clusters.predict(placed(items, scales)).astype(np.intp), names
