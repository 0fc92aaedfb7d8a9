"""A table encoder and a model as one: raw tables in, answers out."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from functools import partial, wraps
from inspect import BoundArguments, Signature, signature
from typing import Any, Never, Self

from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pursuit.estimators.components.kernel_cca import SparseKernelCCA
from pursuit.estimators.gp.sparse import SparseGPRegressor
from pursuit.estimators.page.table import raw_cells
from pursuit.estimators.reporting import SourceTable, write_report
from pursuit.estimators.saving import SavedModel, class_name, made_of, model_class, saved_parts
from pursuit.estimators.table.columns import TableColumn
from pursuit.estimators.table.encoder import TableEncoder
from pursuit.estimators.table.observations import Named, observations

_OF_THE_ROWS = ("n_features_in_", "feature_names_in_", "categories_")
"""Fitted attributes of the model that tell of encoded rows, where a pipeline's tell of tables."""
_PER_ROW = ("sample_weight", "offset")
"""Arguments of one value per row, beside the targets."""
_ROWS = ("X", "X_new", "X_train", "center")
"""Arguments that are rows."""
_ROW_BY_ROW = ("leave_one_out",)
"""Methods with targets whose answer has one value per row, so that none can be left out."""
_OF_THE_FIT = (
    "certify",
    "certify_path",
    "distance_to_exact",
    "grow",
    "leave_one_out",
    "rate_bound",
    "rate_bounds",
)
"""Methods that take the rows of the fit once more, with their targets."""
_STATE = ("_target", "_weight", "_notes")
"""What a fit of a pipeline finds, beside what its steps hold."""


def _has(name: str) -> Callable[[Any], bool]:
    """Whether the model of a pipeline has a method."""
    return lambda pipeline: hasattr(pipeline.steps[-1][1], name)


class ModelMethod:
    """A method of the model, with its signature and docstring, that takes raw tables as rows.

    A pipeline has the method only where its model has it.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__ = name
        self.__doc__ = (
            f"``{name}`` of the model, with tables, data frames or paths as rows; only where the "
            "model has this method."
        )

    def __get__(self, pipeline: TablePipeline | None, owner: type) -> Any:
        if pipeline is None:
            return self
        return _on_tables(pipeline, getattr(pipeline.steps[-1][1], self.__name__))


def _on_tables(pipeline: TablePipeline, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the model that encodes the tables it is called with."""
    form = signature(method)

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        pipeline._check_steps()
        if method.__name__ == "partial_fit" and not pipeline.__sklearn_is_fitted__():
            return pipeline._fitted_by("partial_fit", *args, **kwargs)
        check_is_fitted(pipeline)
        arguments = form.bind_partial(*args, **kwargs)
        pipeline._encode(arguments, form, method.__name__)
        return pipeline._with(method(*arguments.args, **arguments.kwargs))

    return call


class TablePipeline(Pipeline, SavedModel):
    """A :class:`TableEncoder` and a model of this package, fitted, used and saved as one.

    It takes tables as they are, with text, dates and gaps: data frames, Arrow tables, arrays, and
    paths of CSV and Parquet files. Every method of the model that takes rows takes such tables,
    and what a fit of the model has found, ``certificate_`` for instance, is an attribute of the
    pipeline too. Gradients are left out: categories and filled gaps have none.

    It is a scikit-learn Pipeline of two steps, so that ``clone``, ``get_params``, ``set_params``,
    ``cross_val_score`` and ``GridSearchCV`` work.

    Parameters
    ----------
    steps : list of (str, estimator), optional
        The encoder and the model with their names, by default ``[("table", TableEncoder()),
        ("model", SparseGPRegressor())]``. For models of other packages, use scikit-learn's
        Pipeline.

    Attributes
    ----------
    target_ : TableColumn or None
        The column that ``fit(table, target=...)`` named, and how it is read.
    notes_ : list of str
        What was left out of the table or converted, and why.

    See Also
    --------
    make_table_pipeline : The pipeline of a model and parameters of the encoder.

    Notes
    -----
    Rows whose target is missing are left out: in ``fit``, and in those methods that take targets,
    but for ``leave_one_out``, whose answer has one value per row. Several targets are passed as
    the columns of ``y``; rows are left out in which all of them are missing.

    A fitted Pipeline of scikit-learn, of the same two steps, is saved by
    ``TablePipeline(pipeline.steps).save(path)``.

    Examples
    --------
    >>> import pandas as pd
    >>> import pursuit
    >>> table = pd.DataFrame(
    ...     {
    ...         "size": [30, 45, 60, 75, 90, 105, 120, 135],
    ...         "city": ["Bonn", "Köln", "Bonn", "Köln", "Bonn", "Köln", "Bonn", "Köln"],
    ...         "rent": [400, 700, 700, 1000, 1000, 1300, 1300, None],
    ...     }
    ... )
    >>> pipeline = pursuit.TablePipeline().fit(table, target="rent")
    >>> pipeline.notes_
    ["1 row is left out: its target 'rent' is missing."]
    >>> pipeline.predict(table).shape
    (8,)
    """

    steps: list[Any]
    _target: TableColumn | None
    _weight: str | None
    _notes: list[str]

    # Parameters of a Pipeline that these two steps have no use for.
    transform_input = None
    memory = None
    verbose = False

    def __init__(self, steps: list[tuple[str, Any]] | None = None) -> None:
        default = [("table", TableEncoder()), ("model", SparseGPRegressor())]
        self.steps = default if steps is None else steps

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | None = None,
        weight: str | None = None,
        **options: Any,
    ) -> Self:
        """Learn how to encode the table, and fit the model to the encoded rows.

        Parameters
        ----------
        X : data frame, Arrow table, array or path
            The table.
        y : array-like, optional
            Targets: numbers, or classes of any type. Rows without one (NaN, None) are left out.
        sample_weight : array-like, optional
            Weights of the rows, for the model.
        target, weight : str, optional
            Columns of X that hold the targets and the weights.
        **options
            Further arguments of the model's ``fit``, such as ``offset``.

        Returns
        -------
        self : TablePipeline
        """
        given = {"target": target, "weight": weight, **options}
        return self._fitted_by("fit", X, y, sample_weight, **given)

    def _fitted_by(
        self,
        method: str,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | None = None,
        weight: str | None = None,
        **options: Any,
    ) -> Self:
        """Learn how to encode the table, and call a method of the model that fits it."""
        self._check_steps()
        for name in _STATE:
            self.__dict__.pop(name, None)
        encoder, (name, model) = self.steps[0][1], self.steps[-1]
        options = {key.removeprefix(f"{name}__"): value for key, value in options.items()}
        per_row = {name: options.pop(name, None) for name in _PER_ROW}
        if sample_weight is not None:
            per_row["sample_weight"] = sample_weight
        rows = observations(X, y, per_row, Named(target, weight), classes=is_classifier(model))
        with config_context(transform_output="default"):
            encoded = encoder.fit_transform(rows.X, rows.y)
        # First, since Ctrl-C leaves a fitted model and raises.
        self._target, self._weight, self._notes = rows.column, weight, rows.notes
        getattr(model, method)(encoded, rows.y, **rows.per_row, **options)
        return self

    @available_if(_has("transform"))
    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit, and transform the same table; only where the model has ``transform``."""
        return self.fit(X, y, **options).transform(X)

    @available_if(_has("fit_predict"))
    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit, and predict the same table; only where the model has ``fit_predict``."""
        return self.fit(X, y, **options).predict(X)

    predict = ModelMethod()
    predict_proba = ModelMethod()
    predict_log_proba = ModelMethod()
    predict_interval = ModelMethod()
    predict_quantile = ModelMethod()
    predict_set = ModelMethod()
    predict_parts = ModelMethod()
    decision_function = ModelMethod()
    score = ModelMethod()
    score_samples = ModelMethod()
    staged_predict = ModelMethod()
    staged_predict_proba = ModelMethod()
    staged_score = ModelMethod()
    staged_decision_function = ModelMethod()
    staged_score_samples = ModelMethod()
    transform = ModelMethod()
    reconstruction_error = ModelMethod()
    kneighbors = ModelMethod()
    kneighbors_graph = ModelMethod()
    radius_neighbors = ModelMethod()
    radius_neighbors_graph = ModelMethod()
    leave_one_out = ModelMethod()
    importance = ModelMethod()
    noise_at = ModelMethod()
    sample_y = ModelMethod()
    std_bounds = ModelMethod()
    distance_to_exact = ModelMethod()
    certify = ModelMethod()
    certify_path = ModelMethod()
    rate_bound = ModelMethod()
    rate_bounds = ModelMethod()
    aic = ModelMethod()
    bic = ModelMethod()
    conformalize = ModelMethod()
    partial_fit = ModelMethod()
    grow = ModelMethod()
    truncated = ModelMethod()
    without_neighbors = ModelMethod()
    emptied = ModelMethod()

    @available_if(_has("report"))
    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        y: Any = None,
        *,
        certify: bool = False,
        what_if: bool = True,
    ) -> None:
        """Write one page of HTML about the fitted model, which needs no network.

        The page is that of the model's ``report``. Its controls and the rows that are predicted
        worst have the columns of the table.

        Parameters
        ----------
        path : path-like
            File to write; an existing one is replaced.
        X, y : optional
            A table, data frame or path with rows to judge the model by, and their targets, which X
            may hold as in :meth:`fit`.
        certify, what_if : bool
            As in the model's ``report``.
        """
        self._check_steps()
        check_is_fitted(self)
        (_, encoder), (_, model) = self.steps
        cells = None
        if X is not None:
            given = {"X": X, "y": y}
            self._read_targets(given, "X", keep_gaps=False)
            cells = partial(raw_cells, encoder, given["X"])
            with config_context(transform_output="default"):
                X, y = given["X"], given["y"]  # certify says that they are the rows of the fit
                X = encoder.transform_again(X, y) if certify else encoder.transform(X)
        name = None if self.target_ is None else self.target_.name
        source = SourceTable(encoder, cells, self.notes_, name)
        write_report(model, path, X, y, certify=certify, what_if=what_if, source=source)

    @property
    def inverse_transform(self) -> Never:
        """Not there: encoded rows cannot be turned back into a table."""
        raise AttributeError

    @property
    def target_(self) -> TableColumn | None:
        """The column that holds the targets, and how it is read; None where y was passed."""
        return vars(self).get("_target")

    @property
    def notes_(self) -> list[str]:
        """What was left out of the table or converted, and why."""
        return [*self.steps[0][1].notes_, *vars(self).get("_notes", [])]

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the container of what the model's ``transform`` gives, as scikit-learn does."""
        self.steps[-1][1].set_output(transform=transform)
        return self

    def __getattr__(self, name: str) -> Any:
        steps = vars(self).get("steps")  # not there while an object is being copied
        fitted = name.endswith("_") and not name.startswith("_")
        if steps and fitted:
            check_is_fitted(self)
        if steps and fitted and name not in _OF_THE_ROWS:
            return self._with(getattr(steps[-1][1], name))
        model = f" with {type(steps[-1][1]).__name__}" if steps else ""
        raise AttributeError(f"{type(self).__name__}{model} has no attribute {name!r}")

    def __getitem__(self, index: Any) -> Any:
        """A step by number or name, or some of them as a Pipeline of scikit-learn."""
        return Pipeline(self.steps)[index]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.steps[0][1]).input_tags
        return tags

    def _check_steps(self) -> None:
        """Refuse other steps than a TableEncoder and a model of this package."""
        if not isinstance(self.steps, list | tuple):
            raise TypeError(
                "steps must be a list of two steps with their names, got "
                f"{type(self.steps).__name__}: pursuit.make_table_pipeline(model) makes the "
                "pipeline of a model."
            )
        self._validate_steps()
        *first, model = [step for _, step in self.steps]
        if len(first) != 1 or not isinstance(first[0], TableEncoder):
            names = ", ".join(type(step).__name__ for step in (*first, model))
            raise TypeError(
                f"a TablePipeline has two steps, a TableEncoder and a model, got {names}: use "
                "scikit-learn's Pipeline for other steps."
            )
        if not isinstance(model, SavedModel) or isinstance(model, TableEncoder | Pipeline):
            raise TypeError(
                f"a TablePipeline holds a model of pursuit, got {type(model).__name__}: use "
                "scikit-learn's Pipeline for others."
            )
        if isinstance(model, SparseKernelCCA):
            raise TypeError(
                "SparseKernelCCA has two tables: encode each of them by a TableEncoder of its own."
            )

    def _encode(self, arguments: BoundArguments, form: Signature, method: str) -> None:
        """Replace the tables among the arguments of a method by encoded rows."""
        given = arguments.arguments
        holder = "X_train" if "X_train" in form.parameters else "X"
        if given.get(holder) is not None and "y" in form.parameters:
            self._read_targets(given, holder, keep_gaps=method in _ROW_BY_ROW)
        encoder = self.steps[0][1]
        for name in _ROWS:
            if given.get(name) is not None:
                with config_context(transform_output="default"):
                    if name == holder and method in _OF_THE_FIT:
                        given[name] = encoder.transform_again(given[name], given.get("y"))
                    else:
                        given[name] = encoder.transform(given[name])

    def _read_targets(self, given: dict[str, Any], holder: str, *, keep_gaps: bool) -> None:
        """Read the targets among the arguments of a method, or from the table itself."""
        X, y = given[holder], given.get("y")
        target, weight = given.pop("target", None), given.pop("weight", None)
        per_row = {name: given.get(name) for name in _PER_ROW}
        column, as_in_fit = self.target_, False
        if y is None and target is None and column is not None:
            target, as_in_fit = column.name, weight is None
            if as_in_fit and per_row["sample_weight"] is None:
                weight = vars(self).get("_weight")
        encoder, model = (step for _, step in self.steps)
        texts = [one.name for one in encoder.columns_ if one.reads_text]
        if column is not None and column.reads_text:
            texts.append(column.name)
        rows = observations(
            X,
            y,
            per_row,
            Named(target, weight, column, texts, may_lack_weight=as_in_fit),
            classes=is_classifier(model),
            keep_gaps=keep_gaps,
        )
        given[holder] = rows.X
        if rows.y is not None:
            given["y"] = rows.y
        given.update(rows.per_row)

    def _with(self, result: Any) -> Any:
        """What the model returns or holds; another model as a pipeline."""
        (encoder_name, encoder), (name, model) = self.steps
        if result is model:
            return self
        if not isinstance(result, SavedModel):
            return result
        made = type(self)([(encoder_name, copy.copy(encoder)), (name, result)])
        made.__dict__.update({key: vars(self)[key] for key in _STATE if key in vars(self)})
        return made

    def _saved_params(self) -> dict[str, Any]:
        self._check_steps()
        return {"steps": [(name, class_name(step), saved_parts(step)) for name, step in self.steps]}

    def _given_params(self) -> dict[str, Any]:
        return {
            f"{name}__{key}": value
            for name, step in self.steps
            for key, value in step.get_params(deep=False).items()
        }

    def _after_loading(self) -> None:
        self.steps = [(name, made_of(model_class(kind), parts)) for name, kind, parts in self.steps]
        self._check_steps()


def make_table_pipeline(model: Any = None, **parameters: Any) -> TablePipeline:
    """The pipeline of a table encoder and a model.

    Parameters
    ----------
    model : estimator, optional
        A model of this package, by default ``SparseGPRegressor()``.
    **parameters
        Of :class:`TableEncoder`.

    Returns
    -------
    pipeline : TablePipeline
        With the steps "table" and "model".

    Examples
    --------
    >>> import pursuit
    >>> pipeline = pursuit.make_table_pipeline(pursuit.SparseGPClassifier(), max_levels=10)
    >>> pipeline.get_params()["table__max_levels"]
    10
    """
    model = SparseGPRegressor() if model is None else model
    return TablePipeline([("table", TableEncoder(**parameters)), ("model", model)])
