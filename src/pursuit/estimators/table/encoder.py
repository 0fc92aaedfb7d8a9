"""From raw tables to numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from pursuit._sklearn import get_output_config, num_samples
from pursuit._types import Floats
from pursuit.estimators.saving import SavedModel
from pursuit.estimators.table.columns import (
    PERIODS,
    TableColumn,
)
from pursuit.estimators.table.encode import encoded_rows
from pursuit.estimators.table.errors import TableError, listed
from pursuit.estimators.table.learn import Learned, Rules, collect_facts, learn_columns
from pursuit.estimators.table.read import (
    ArrayColumns,
    RawTable,
    raw_table,
    unmasked,
)
from pursuit.estimators.table.target import TargetSums, target_sums
from pursuit.rows import (
    ArrayRows,
    CodedTable,
    EncodedTable,
    as_table,
    check_columns,
    distinct_names,
)
from pursuit.rows.encoded import Levels, NumberTable, plain_names
from pursuit.store import StoreError

IN_MEMORY_BYTES = 512 * 2**20
"""Tables that become more than this are encoded whenever they are read, block by block."""


class TableEncoder(SavedModel, TransformerMixin, BaseEstimator):
    """Numbers from a table with text, dates, gaps and columns of no use.

    What each column is, is learned from all its values:

    - Numbers stay as they are. Texts that are numbers in one format are read: ``12 %``,
      ``1,234.5``, ``€ 12``, decimal commas where the whole column agrees; truth values such as
      yes and no become 1 and 0.
    - Dates and times become days since 1970, and sine and cosine of their place in the year, in the
      week and in the day where the data span at least two of these and vary within them.
    - Other texts are categories. Few levels become codes, which kernels compare and other models
      see as zeros and ones; many become statistics of the target.
    - Gaps are filled by the median, and where the fit has seen some a further feature says where
      they are. A gap among categories is a level.
    - Constants, empty columns, row numbers and identifiers are left out; ``notes_`` says so.

    Parameters
    ----------
    categories : {"auto", "levels", "one-hot", "target"}
        What becomes of texts: codes; zeros and ones; statistics of the target; or codes up to
        ``max_levels`` and statistics of the target beyond, where a target is passed ("auto").
    max_levels : int
        A column has at most so many levels; beyond, the least frequent are merged into one.
    min_rows : int
        Levels that fewer rows have are merged into one.
    date_format : str or None
        Pattern of dates that are not written as in ISO 8601, as for ``datetime.strptime``.
    unusable : {"error", "drop"}
        What to do with columns that cannot be used, such as lists or infinite numbers.

    Attributes
    ----------
    columns_ : list of TableColumn
        What became of each column of the table, in order.
    notes_ : list of str
        What was left out and why, and what was converted, in sentences.
    n_features_in_ : int
        Number of columns of the table.
    feature_names_in_ : array of str
        Their names, if they have any.

    See Also
    --------
    pursuit.Categorical : The kernel that compares codes.

    Examples
    --------
    >>> import pandas as pd
    >>> from pursuit import TableEncoder
    >>> table = pd.DataFrame(
    ...     {
    ...         "share": ["12 %", "7 %", "9 %", None, "11 %", "8 %"],
    ...         "city": ["Köln", "Lund", "Köln", "Lund", "Köln", "Lund"],
    ...         "day": ["31.1.2024", "1.2.2024", "2.2.2024", "4.2.2024", "5.2.2024", "9.2.2024"],
    ...     }
    ... )
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['share', 'share is missing', 'city=Köln', 'city=Lund', 'day']
    >>> encoder.notes_
    ["column 'share' is read as numbers in %.", "column 'day' is read as dates, %d.%m.%Y."]
    >>> import numpy as np
    >>> np.asarray(encoder.transform(table))[:2]
    array([[1.2000e+01, 0.0000e+00, 1.0000e+00, 0.0000e+00, 1.9753e+04],
           [7.0000e+00, 0.0000e+00, 0.0000e+00, 1.0000e+00, 1.9754e+04]])
    """

    columns_: list[TableColumn]
    notes_: list[str]
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(
        self,
        *,
        categories: Literal["auto", "levels", "one-hot", "target"] = "auto",
        max_levels: int = 30,
        min_rows: int = 3,
        date_format: str | None = None,
        unusable: Literal["error", "drop"] = "error",
    ) -> None:
        self.categories = categories
        self.max_levels = max_levels
        self.min_rows = min_rows
        self.date_format = date_format
        self.unusable = unusable

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what the columns of a table are.

        Parameters
        ----------
        X : data frame, Arrow table, path of a CSV or Parquet file, or array
            The table, without the target.
        y : array-like, optional
            The target, for columns of many levels.

        Returns
        -------
        self : TableEncoder
            The fitted encoder.
        """
        self._learn(self._raw(X, reset=True), y)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and encode the same table.

        Statistics of the target are those of other rows, so that a model that is fitted to them
        does not learn from its own targets; ``fit(X, y).transform(X)`` is different there.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.
        **fit_params
            Not used.

        Returns
        -------
        table : EncodedTable or array
            As from :meth:`transform`.
        """
        raw = self._raw(X, reset=True)
        sums = self._learn(raw, y)
        return self._encoded(raw, {name: one.by_fold() for name, one in sums.items()})

    def transform(self, X: Any) -> Any:
        """Encode a table with the columns of the fit.

        Columns are found by their names, in any order; further ones are ignored. Gaps and levels
        that the fit has not seen are counted in one warning.

        Parameters
        ----------
        X : data frame, Arrow table, path of a CSV or Parquet file, or array
            The table.

        Returns
        -------
        table : EncodedTable or array
            Numbers. With names or categories it is a table that every estimator of pursuit and of
            scikit-learn takes, and of which ``np.asarray`` makes an array.
        """
        check_is_fitted(self)
        return self._encoded(self._raw(X, reset=False), {})

    def transform_again(self, X: Any, y: Any) -> Any:
        """Encode a table with targets; the rows of the fit as :meth:`fit_transform` has done.

        Rows are those of the fit if they give the same statistics of the target. All others are
        encoded as by :meth:`transform`.

        Parameters
        ----------
        X, y
            As for :meth:`fit`, in the same order.

        Returns
        -------
        table : EncodedTable or array
            As from :meth:`transform`.
        """
        check_is_fitted(self)
        raw = self._raw(X, reset=False)
        return self._encoded(raw, self._by_fold(raw, y))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features, those of zeros and ones where levels have become codes.

        Parameters
        ----------
        input_features : array-like of str, optional
            Must be the names of the columns, if it is passed.

        Returns
        -------
        names : array of str
            The names.
        """
        check_is_fitted(self)
        if input_features is not None:
            held = [column.name for column in self.columns_]
            if hasattr(self, "feature_names_in_") and list(input_features) != held:
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(input_features) != len(held):
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({len(held)}), got {len(input_features)}"
                )
        names, levels = self._coded_names()
        plain = [one for name in names for one in plain_names(name, levels)]
        return np.asarray(distinct_names(plain), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = False
        return tags

    # Reading

    def _raw(self, X: Any, *, reset: bool) -> RawTable:
        """The columns of X, the names and the number of which are checked and kept."""
        if reset:  # a fit that fails leaves nothing of the last one
            for name in ("columns_", "notes_"):
                self.__dict__.pop(name, None)
        X = unmasked(X)
        if isinstance(X, list | tuple) and any(_has_text(row) for row in X):
            X = np.array(X, dtype=object)
        if _is_array(X):
            X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
            return ArrayColumns(X)
        texts = [] if reset else [column.name for column in self.columns_ if column.reads_text]
        raw = raw_table(X, texts)
        if not raw.names:
            raise TableError(f"{raw.label} has no columns: a minimum of 1 is required.")
        if not raw.n_rows:
            raise TableError(f"{raw.label} holds no rows: a minimum of 1 is required.")
        if reset:
            self.n_features_in_ = len(raw.names)
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            if raw.named:
                self.feature_names_in_ = np.asarray(raw.names, dtype=object)
        elif not self._by_name(raw) and len(raw.names) != self.n_features_in_:
            raise ValueError(
                f"X has {len(raw.names)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return raw

    def _by_name(self, raw: RawTable) -> bool:
        if hasattr(self, "feature_names_in_"):
            return raw.named
        # Labels that are numbers are no feature names, but they tell columns apart.
        return {column.name for column in self.columns_} <= set(raw.names)

    def _used(self, raw: RawTable) -> list[tuple[TableColumn, str]]:
        """The columns that become features, and what the table calls them."""
        if not self._by_name(raw):
            pairs = zip(self.columns_, raw.names, strict=True)
            return [(column, name) for column, name in pairs if column.kind != "dropped"]
        used = [column for column in self.columns_ if column.kind != "dropped"]
        try:
            check_columns([column.name for column in used], raw.names, raw.label, "X")
        except ValueError as error:
            missing = {
                column.name: "it is missing" for column in used if column.name not in raw.names
            }
            raise TableError(str(error), missing) from None
        return [(column, column.name) for column in used]

    # Learning

    def _learn(self, raw: RawTable, y: Any) -> dict[str, TargetSums]:
        """Set the fitted attributes; returns the sums of the target of columns that need them."""
        self._check_parameters(y)
        if y is not None and num_samples(y) != raw.n_rows:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {raw.n_rows} rows "
                f"of X and {num_samples(y)} of y."
            )
        rules = Rules(
            self.categories, self.max_levels, self.min_rows, self.date_format, y is not None
        )
        learned = learn_columns(collect_facts(raw), rules)
        problems = {one.column.name: one.problem for one in learned if one.problem}
        if problems and self.unusable == "error":
            raise TableError(
                f"columns of {raw.label} cannot be used: {listed(problems)}. Change them, or "
                'leave them out with TableEncoder(unusable="drop").',
                problems,
            )
        learned = [_left_out(one) for one in learned]
        columns = [one.column for one in learned]
        if all(column.kind == "dropped" for column in columns):
            reasons = {column.name: column.reason for column in columns}
            raise TableError(
                f"{raw.label} has no column that can be used: {listed(reasons)}.", reasons
            )
        sums = target_sums(raw, columns, y)
        self.columns_ = [
            replace(
                column,
                outputs=sums[column.name].names,
                statistics=sums[column.name].statistics().T.tolist(),
            )
            if column.name in sums
            else column
            for column in columns
        ]
        self.notes_ = [one.note for one in learned if one.note]
        if self.date_format and self.date_format not in {
            column.format.pattern for column in columns if column.format
        }:
            self.notes_.append(f"no column holds dates written as {self.date_format!r}.")
        return sums

    def _check_parameters(self, y: Any) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name} must be one of {known}, got {value!r}.")
        for name, least in (("max_levels", 2), ("min_rows", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} must be a whole number from {least}, got {value!r}.")
        if not isinstance(self.date_format, str | None):
            raise ValueError(f"date_format must be a text or None, got {self.date_format!r}.")
        if self.categories == "target" and y is None:
            raise ValueError('categories="target" needs the target: fit(X, y).')

    def _by_fold(self, raw: RawTable, y: Any) -> dict[str, Floats]:
        """Statistics of the target from other folds, if the rows are those of the fit."""
        columns = [column for column in self.columns_ if column.encoding == "target"]
        known = {column.name for column in columns} <= set(raw.names)
        if y is None or not known or num_samples(y) != raw.n_rows:
            return {}
        try:
            sums = target_sums(raw, columns, y)
        except ValueError:  # targets with gaps, or of another type
            return {}
        if any(sums[one.name].statistics().T.tolist() != one.statistics for one in columns):
            return {}
        return {name: one.by_fold() for name, one in sums.items()}

    # Encoding

    def _coded_names(self) -> tuple[list[str], dict[str, Levels]]:
        """Names of the features, codes counting as one, and the levels of the codes."""
        owners = [(column, name) for column in self.columns_ for name in column.features]
        names = distinct_names([name for _, name in owners])
        levels = {
            name: column.all_levels
            for name, (column, _) in zip(names, owners, strict=True)
            if column.encoding == "levels"
        }
        return names, levels

    def _encoded(self, raw: RawTable, by_fold: Mapping[str, Floats]) -> Any:
        """Numbers of a table; by fold where statistics of other rows are wanted."""
        names, levels = self._coded_names()
        streamed = raw.n_rows * len(names) * 8 > IN_MEMORY_BYTES
        rows = encoded_rows(raw, self._used(raw), by_fold, streamed=streamed)
        if isinstance(rows, np.ndarray) and not levels and not raw.named:
            return rows
        source = ArrayRows(rows) if isinstance(rows, np.ndarray) else rows
        coded = CodedTable(source, names, levels)
        table: NumberTable = EncodedTable(coded) if levels else coded
        wanted = get_output_config("transform", self)["dense"]
        return table if wanted == "default" else np.asarray(table)

    def _after_loading(self) -> None:
        names = [column.name for column in self.columns_]
        if len(names) != self.n_features_in_ or len(set(names)) < len(names):
            raise StoreError("it is damaged: columns_ and n_features_in_ do not agree")
        held = vars(self).get("feature_names_in_")
        if held is not None and list(held) != names:
            raise StoreError("it is damaged: columns_ and feature_names_in_ do not agree")
        if not any(column.features for column in self.columns_) or not all(
            map(_is_sound, self.columns_)
        ):
            raise StoreError("it is damaged: columns_ cannot encode a table")


_CHOICES = {
    "categories": ("auto", "levels", "one-hot", "target"),
    "unusable": ("error", "drop"),
}


def _left_out(learned: Learned) -> Learned:
    """A column that cannot be used, dropped."""
    if not learned.problem:
        return learned
    column = replace(learned.column, reason=learned.problem)
    return Learned(column, note=f"column {column.name!r} is left out: {learned.problem}.")


def _has_text(row: Any) -> bool:
    return isinstance(row, list | tuple) and any(isinstance(value, str) for value in row)


def _is_array(X: Any) -> bool:
    """Whether X is an array, or a sequence that makes one; other things are tables."""
    if isinstance(X, str | bytes):
        return False
    if isinstance(X, np.ndarray | list | tuple) or hasattr(X, "toarray"):
        return True
    # The type is asked: a polars.LazyFrame would warn that its columns cost time.
    named = hasattr(type(X), "columns") or hasattr(type(X), "column_names")
    return not named and as_table(X) is None


def _is_sound(column: TableColumn) -> bool:
    """Whether a column that was read from a file can encode anything."""
    numbers = [column.fill, *(value for output in column.statistics for value in output)]
    if not np.isfinite(numbers).all() or not set(column.parts) <= PERIODS.keys():
        return False
    if column.kind == "category":
        n_levels = len(column.all_levels)
        sizes = {len(values) for values in column.statistics}
        fits = sizes == {n_levels + 1} and len(column.statistics) == len(column.outputs)
        return n_levels > 0 and (fits if column.encoding == "target" else column.encoding != "")
    return column.encoding == ""
