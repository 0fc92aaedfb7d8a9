"""Models in files: ``model.save(path)`` and ``pursuit.load(path)``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from numbers import Integral
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pursuit.estimators.records import (
    KERNELS,
    Decoder,
    Encoder,
    conforms,
    describe,
    hints,
    is_storable,
    records,
    restored,
    stand_ins,
)
from pursuit.store import Array, StoreError, read, write

_CONTENT = "model"
# Attributes of the process or the pipeline that a model was in.
_NOT_THE_MODEL = ("_skl_callbacks", "_callback_fit_ctx", "_metadata_request", "_sklearn_version")

# Attributes that are set before anything is fitted, and stay when a fit fails.
_OF_THE_ROWS = ("n_features_in_", "feature_names_in_", "classes_", "categories_")


class SavedModel:
    """Adds ``save`` to an estimator."""

    def __sklearn_is_fitted__(self) -> bool:
        return any(name.endswith("_") and name not in _OF_THE_ROWS for name in vars(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file of arrays and JSON, for :func:`pursuit.load`.

        The file holds only those training rows that the model needs: its size does not depend on
        how many there were, except for models with near rows, which need all of them. An existing
        file is replaced in a single step: whatever goes wrong, the old or the new file is there,
        whole.

        Functions, random states and other objects passed as parameters are left out. Pass them to
        :func:`pursuit.load` again.

        Parameters
        ----------
        path : path-like
            Name of the file.

        Raises
        ------
        StoreError
            If the model holds objects of other libraries, such as fitted weak learners.
        """
        check_is_fitted(self)
        name = class_name(self)
        try:
            header, arrays = _encoded(self, name)
        except StoreError as error:
            raise StoreError(f"{error}: use skops or pickle to keep it") from error
        write(path, header, arrays)

    def _saved_params(self) -> dict[str, Any]:
        """Constructor parameters, as a file keeps them."""
        params: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        return params

    def _given_params(self) -> dict[str, Any]:
        """Parameters that files may leave out, by the names that :func:`pursuit.load` takes."""
        return self._saved_params()

    def _saved_state(self) -> dict[str, Any]:
        """Attributes that a file keeps: all that do not grow with the number of training rows."""
        state: dict[str, Any] = self.__getstate__()  # type: ignore[assignment]
        return state

    def _after_loading(self) -> None:
        """Make the attributes that files do not hold."""


def load(path: str | os.PathLike[str], **given: Any) -> Any:
    """Read a model that was written by its ``save``.

    The file is data, checked against damage: reading it cannot run code that somebody has put
    into it.

    Parameters
    ----------
    path : path-like
        Name of the file.
    **given
        Parameters that files do not hold, such as ``kernel=`` where it is a function of your own.

    Returns
    -------
    model : estimator
        Of the class that was saved; it predicts the same numbers to the last bit.

    Raises
    ------
    StoreError
        If the file is damaged, is not a saved model, needs a newer version of pursuit or a
        parameter that is not passed. It is a ValueError.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import pursuit
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = pursuit.SparseKernelRidge(alpha=0.1).fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "sine.pursuit")
    ...     model.save(path)
    ...     again = pursuit.load(path)
    >>> np.array_equal(again.predict(X), model.predict(X))
    True
    """
    header, arrays = read(path)
    try:
        return _restored(header, Decoder(arrays, given), given)
    except StoreError as error:
        raise StoreError(f"cannot load {os.fspath(path)!r}: {error}") from error


def trusted_types() -> list[str]:
    """Names of the classes that fitted models are made of, for ``skops.io.load(trusted=...)``.

    Returns
    -------
    names : list of str
        Estimators, their parts, and scikit-learn's Gaussian process kernels.

    Examples
    --------
    >>> import pursuit
    >>> "pursuit.greedy.loop.Path" in pursuit.trusted_types()
    True
    """
    classes = {*models().values(), *records().values(), *KERNELS.values()}
    return sorted(f"{one.__module__}.{one.__qualname__}" for one in classes)


@cache
def models() -> dict[str, type[Any]]:
    """Estimators by name; no other class can be saved or loaded."""
    from pursuit import estimators

    public = [getattr(estimators, name) for name in estimators.__all__]
    return {one.__name__: one for one in public if isinstance(one, type) and _is_model(one)}


def class_name(model: Any) -> str:
    """The name of a model's class, by which a file calls it."""
    name = type(model).__name__
    if models().get(name) is not type(model):
        raise StoreError(
            f"{name} is a class of your own: files hold pursuit's own estimators only; use skops "
            "or pickle"
        )
    return name


def model_class(name: str) -> Any:
    """The class that a file calls by this name."""
    found = models().get(name)
    if found is None:
        raise StoreError(f"it holds a {name[:80]!r}, which this version of pursuit does not know")
    return found


def _is_model(one: type) -> bool:
    return issubclass(one, BaseEstimator) and issubclass(one, SavedModel)


def saved_arrays(model: Any) -> list[Array]:
    """The arrays that a file of a fitted model holds; none if no file can hold the model."""
    try:
        return list(_encoded(model, class_name(model))[1].values())
    except StoreError:
        return []


def _encoded(model: Any, name: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """A model as a file has it: the content of its JSON text, and its arrays."""
    params, state = _split(model)
    given = model._given_params()
    encoder = Encoder(stand_ins(given))
    left_out = {
        key: [describe(value), callable(value)]
        for key, value in given.items()
        if not is_storable(value)
    }
    header = {
        "content": _CONTENT,
        "model": name,
        "given": left_out,
        "params": {key: encoder.encode(value, key) for key, value in params.items()},
        "state": {key: encoder.encode(value, key) for key, value in state.items()},
    }
    return header, encoder.arrays


def _split(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Constructor parameters, and everything that ``fit`` has set."""
    params = model._saved_params()
    state = {
        name: value
        for name, value in model._saved_state().items()
        if name not in params and name not in _NOT_THE_MODEL
    }
    return params, state


def _restored(header: dict[str, Any], decoder: Decoder, given: Mapping[str, Any]) -> Any:
    """The model of a header."""
    if header.get("content") != _CONTENT:
        raise StoreError("it holds no model")
    name, params, left_out = header.get("model"), header.get("params"), header.get("given")
    if not isinstance(name, str) or not isinstance(params, dict) or not isinstance(left_out, dict):
        raise StoreError("it is damaged: its header is not that of a model")
    model = model_class(name)
    known = model._get_param_names()
    unknown = sorted(params.keys() - set(known))
    if unknown:
        raise StoreError(f"{name} has no parameter {unknown[0][:80]!r}: install a newer pursuit")
    _check_given(name, left_out, given)
    values = {key: decoder.decode(tree, key) for key, tree in params.items()}
    state = decoder.fields(header.get("state"), model, name)
    if state.keys() & set(known):
        raise StoreError("it is damaged: a parameter is among the fitted attributes")
    vars(made := model(**values)).update(vars(restored(model, state, name)))
    _check_sizes(made)
    try:
        made._after_loading()
    except StoreError:
        raise
    except Exception as error:
        # A forged file can make anything fail here: in every case the file is wrong.
        raise StoreError(f"it is damaged: its model cannot be made ({str(error)[:200]})") from error
    return made


def saved_parts(model: Any) -> dict[str, dict[str, Any]]:
    """Parameters and fitted attributes of a model that is part of another one."""
    params, state = _split(model)
    return {"params": params, "state": state}


def made_of(kind: type, parts: Any) -> Any:
    """The model of :func:`saved_parts`, checked as a file's own model is."""
    name = kind.__name__
    if not isinstance(parts, dict) or parts.keys() != {"params", "state"}:
        raise StoreError(f"it is damaged: its {name} is not what it must be")
    params, state = parts["params"], parts["state"]
    known = set(kind._get_param_names())  # type: ignore[attr-defined]
    if not params.keys() <= known or state.keys() & known:
        raise StoreError(f"it is damaged: its {name} has other parameters")
    wrong = [key for key, value in state.items() if not conforms(value, hints(kind).get(key, Any))]
    if wrong:
        raise StoreError(f"it is damaged: {name}.{wrong[0][:80]} is not what it must be")
    vars(model := kind(**params)).update(vars(restored(kind, state, name)))
    _check_sizes(model)
    model._after_loading()
    return model


def _check_given(name: str, left_out: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Require exactly the parameters that the file omits."""
    for key in given:
        if key not in left_out:
            needs = f"it needs {', '.join(sorted(left_out))}" if left_out else "it needs nothing"
            raise StoreError(f"{key}= cannot be changed when a model is loaded: {needs}")
    for key, what in left_out.items():
        if not isinstance(what, list) or len(what) != 2:
            raise StoreError("it is damaged: its header is not that of a model")
        if key not in given:
            raise StoreError(
                f"{key[:80]} of the {name} is {str(what[0])[:80]}, which files do not hold: pass "
                f"it again, pursuit.load(path, {key[:80]}=...)"
            )
        if what[1] is True and not callable(given[key]):
            raise StoreError(f"{key[:80]} must be {str(what[0])[:80]} again, got {given[key]!r}")


def _check_sizes(model: Any) -> None:
    """Refuse arrays that are not as long as the basis, or not as wide as the rows."""
    fitted = vars(model)
    n, width = fitted.get("n_basis_", fitted.get("n_terms_")), fitted.get("n_features_in_")
    for key in ("basis_", "basis_indices_", "dual_coef_"):
        value = fitted.get(key)
        lengths = (len(value),) if isinstance(value, list) else getattr(value, "shape", ())
        # Some estimators have one row of coefficients per output, others one column.
        lengths = lengths if key == "dual_coef_" else lengths[:1]
        if isinstance(n, Integral) and value is not None and n not in lengths:
            raise StoreError(f"it is damaged: {key} and the size of the basis do not agree")
    shape = getattr(fitted.get("basis_"), "shape", (0,))
    if not isinstance(width, Integral | None) or (width and shape[1:] not in ((), (width,))):
        raise StoreError("it is damaged: basis_ and n_features_in_ do not agree")
