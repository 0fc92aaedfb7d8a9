"""Methods that give a value for every row, on dask collections: lazily, partition by partition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

from pursuit.rows import as_table, computed, is_dask, map_lazily

Method = TypeVar("Method", bound=Callable[..., Any])


def lazily(method: Method) -> Method:
    """Make a method of rows return dask arrays for a dask collection, and compute nothing yet.

    The model travels with the tasks, and each of them gives the method a partition in memory.
    """

    @wraps(method)
    def on_any_rows(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_dask(X):
            return method(self, X, *args, **options)
        names = getattr(self, "feature_names_in_", None)
        return map_lazily(
            partial(_called, method, self, args, options),
            X,
            None if names is None else [str(name) for name in names],
            getattr(self, "n_features_in_", None),
        )

    return on_any_rows  # type: ignore[return-value]


class ScoredRows:
    """A score of dask collections, too: what `predict` gives for them is computed."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of the predictions for some rows, as scikit-learn defines it.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`predict`.
        y : array of shape (n_rows,) or (n_rows, n_outputs)
            True values: the coefficient of determination of regressors, the accuracy of
            classifiers.
        sample_weight : array of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        score : float
        """
        rows = as_table(X) if is_dask(X) else X
        found: float = super().score(rows, computed(y), computed(sample_weight))  # type: ignore[misc]
        return found


def _called(method: Method, model: Any, args: Any, options: Any, block: Any) -> Any:
    return method(model, block, *args, **options)
