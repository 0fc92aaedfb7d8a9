"""Classes as columns: one against the rest, or every pair."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices


def distinct_classes(names: NDArray[Any]) -> NDArray[Any]:
    """The sorted classes; a single class is refused."""
    classes: NDArray[Any] = np.unique(names)
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class only, {classes.tolist()[0]!r}: at least two classes are needed."
        )
    return classes


def class_numbers(names: NDArray[Any], classes: NDArray[Any]) -> Indices:
    """Positions of labels among the classes; arbitrary for unknown labels."""
    return np.minimum(np.searchsorted(classes, names), len(classes) - 1)


def known_numbers(names: NDArray[Any], weights: Floats, classes: NDArray[Any]) -> Indices:
    """Positions among the classes of a fitted model; unknown labels need weight 0."""
    unknown = np.setdiff1d(names[weights > 0], classes)
    if len(unknown):
        raise ValueError(f"y holds {unknown.tolist()}, which the model was not fitted with.")
    return class_numbers(names, classes)


def class_weights(
    class_weight: Mapping[Any, float] | str | None,
    classes: NDArray[Any],
    labels: Indices,
    weights: Floats,
) -> Floats:
    """A weight for each class; names of classes that are absent are refused.

    ``"balanced"`` gives all classes the same sum of the rows' weights: a row of weight w counts as
    w rows.
    """
    if isinstance(class_weight, Mapping):
        absent = [name for name in class_weight if name not in classes.tolist()]
        if absent:
            raise ValueError(
                f"class_weight names {absent}, but the classes in y are {classes.tolist()}: drop "
                "those that are absent."
            )
        wrong = {
            name: w
            for name, w in class_weight.items()
            if not (isinstance(w, Real) and 0 < float(w) < np.inf)
        }
        if wrong:
            raise ValueError(
                f"class_weight must be positive and finite, got {wrong}: to leave a class out, "
                "leave out its rows."
            )
        return np.array([float(class_weight.get(name, 1.0)) for name in classes.tolist()])
    if class_weight is None:
        return np.ones(len(classes))
    # "balanced", in scikit-learn since 1.9 with weights; older ones count rows only.
    sums = np.bincount(labels, weights=weights, minlength=len(classes))
    factors: Floats = sums.sum() / (len(classes) * sums)
    return factors


def against_rest(labels: Indices, n_classes: int) -> Floats:
    """±1 targets: a single column for two classes, that of the second, else one per class."""
    columns = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    return np.where(labels[:, None] == columns, 1.0, -1.0)


def largest_class(values: Floats) -> Indices:
    """Positions of the classes with the largest values; of two, by the sign of a single column."""
    columns = values[:, None] if values.ndim == 1 else values
    if columns.shape[1] == 1:
        return (columns[:, 0] > 0).astype(np.intp)
    return np.asarray(columns.argmax(axis=1))


def pairs(n_classes: int) -> list[tuple[int, int]]:
    """(0, 1), (0, 2), …, in the order of scikit-learn's SVC."""
    return [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]


def against_each_other(labels: Indices, n_classes: int) -> tuple[Floats, NDArray[np.bool_]]:
    """±1 targets of every pair, 1 for the first of it, and which rows belong to the pair."""
    both = pairs(n_classes)
    targets = np.column_stack([np.where(labels == i, 1.0, -1.0) for i, _ in both])
    inside = np.column_stack([(labels == i) | (labels == j) for i, j in both])
    return targets, inside


def votes(values: Floats, n_classes: int) -> Floats:
    """One column per class from the values of all pairs: pairs won, ties broken by their margins.

    The sum of a class's values, squeezed to less than a third of a vote, is added to its votes, as
    in scikit-learn's SVC.
    """
    won = np.zeros((len(values), n_classes))
    total = np.zeros((len(values), n_classes))
    for column, (i, j) in enumerate(pairs(n_classes)):
        first = values[:, column] > 0
        won[:, i] += first
        won[:, j] += ~first
        total[:, i] += values[:, column]
        total[:, j] -= values[:, column]
    return np.asarray(won + total / (3.0 * (np.abs(total) + 1.0)))
