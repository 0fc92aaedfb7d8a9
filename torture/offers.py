"""What a fitted model offers, each as a call: predictions, bounds, updates, explanations, files."""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

import pursuit
from torture.hostile import Data

Call = tuple[str, Callable[[], Any]]
"""The name of a method, perhaps with words that follow it, and what calls it."""

_OF_ROWS = (
    *("predict", "predict_proba", "decision_function", "transform", "score_samples"),
    "reconstruction_error",
)
"""Methods of rows alone, asked of every model that has them."""
_SELDOM = 0.1
_MAYBE = 0.5


def calls(rng: np.random.Generator, model: Any, data: Data) -> Iterator[Call]:
    """What the fitted model offers; methods that it lacks are left out."""
    yield "certificate_", lambda: getattr(model, "certificate_", None)
    for method in _OF_ROWS:
        if hasattr(model, method):
            yield method, lambda method=method: getattr(model, method)(data.new)
    if "return_std" in _parameters(model, "predict"):
        yield "predict with std", lambda: model.predict(data.new, return_std=True)
    offers = [
        *((_MAYBE, offer) for offer in _proofs(rng, model, data)),
        *((_SELDOM, offer) for offer in _explanations(rng, model, data)),
        *((_SELDOM, offer) for offer in _intervals(rng, model, data)),
        *((_SELDOM, offer) for offer in _of_components(model, data)),
        *((_SELDOM, offer) for offer in _of_hulls(model, data)),
        (0.5 * _SELDOM, ("save", lambda: _saved(model, data.new))),
        *((2.0 * _SELDOM, offer) for offer in _other_models(rng, model, data)),
        (_MAYBE, ("log_marginal_likelihood", lambda: _likelihood(model))),
    ]
    for (share, (label, call)), luck in zip(offers, rng.random(len(offers)), strict=True):
        if hasattr(model, label.partition(" ")[0]) and luck < share:
            yield label, call
    yield "repr", lambda: (repr(model), str(getattr(model, "certificate_", None)))[:0]


def _parameters(model: Any, method: str) -> Any:
    return inspect.signature(getattr(model, method)).parameters if hasattr(model, method) else {}


def _proofs(rng: np.random.Generator, model: Any, data: Data) -> Iterator[Call]:
    X, y, w, new = data.X, data.y, data.weights, data.new
    targets = () if y is None else (y,)
    yield "certify", lambda: model.certify(X, *targets, sample_weight=w)
    yield "certify_path", lambda: list(model.certify_path(X, y, w).certificates)
    if "X_train" in _parameters(model, "std_bounds"):
        tol = (None, 0.1)[rng.integers(2)]
        yield "std_bounds", lambda: model.std_bounds(new, X, w, tol)
    else:
        yield "std_bounds", lambda: model.std_bounds(new)
    yield "score", lambda: _score(model, data)
    yield "rate_bound", lambda: _steps(model.rate_bound(X, y, w).value)
    yield "rate_bounds", lambda: [bound.value for bound in model.rate_bounds(X, y, w, steps=5)]
    yield "distance_to_exact", lambda: _fields(model.distance_to_exact(new, X, y, w))
    yield "residual_bound", lambda: model.residual_bound(X=X, sample_weight=w).value
    yield "leave_one_out", lambda: model.leave_one_out(X, y, w)


def _steps(number: np.ndarray) -> np.ndarray:
    """Numbers of steps; infinitely many are a bound that says nothing, and is documented."""
    return np.where(np.isinf(number), 0.0, number)


def _explanations(rng: np.random.Generator, model: Any, data: Data) -> Iterator[Call]:
    kind = str(rng.choice(["gradient", "permutation", "sobol"]))
    rows, new = (data.X, data.new)[rng.integers(2)], data.new
    yield "predict_gradient", lambda: _if_smooth(model.predict_gradient, new)
    yield "importance", lambda: _fields(_if_smooth(model.importance, rows, kind, n_repeats=2))
    yield "predict_parts", lambda: model.predict_parts(new)
    if "return_std" in _parameters(model, "predict_parts"):
        yield "predict_parts with std", lambda: model.predict_parts(new, return_std=True)


def _likelihood(model: Any) -> Any:
    """The log density, 0 for -inf; None for models without a factor, which say so."""
    try:
        value = model.log_marginal_likelihood()
    except ValueError as error:
        if "needs the factor" in str(error) or "NaN" in str(error):
            return None
        raise
    return np.where(value == -np.inf, 0.0, value)


def _intervals(rng: np.random.Generator, model: Any, data: Data) -> Iterator[Call]:
    method = str(rng.choice(["conformal", "gaussian"]))
    X, y, w, new = data.X, data.y, data.weights, data.new
    yield "predict_interval", lambda: model.predict_interval(new, 0.5, method)
    yield "predict_quantile", lambda: model.predict_quantile(new, [0.3, 0.6], method)
    yield "predict_set", lambda: model.predict_set(new, 0.5)
    yield "conformalize", lambda: _conformal(model.conformalize(X, y, w), new)
    yield "sample_y", lambda: model.sample_y(new, 2)
    yield "sample_functions", lambda: model.sample_functions(2, n_features=32)(new)
    yield "noise_at", lambda: model.noise_at(new)


def _conformal(model: Any, rows: Any) -> Any:
    if is_classifier(model):
        return model.predict_set(rows, 0.5)
    return model.predict_interval(rows, 0.5), model.predict_quantile(rows, [0.4, 0.6])


def _of_components(model: Any, data: Data) -> Iterator[Call]:
    X, y, w, new = data.X, data.y, data.weights, data.new
    yield "kneighbors", lambda: model.kneighbors(new[:2], 1)
    yield "kneighbors_graph", lambda: model.kneighbors_graph(new, 1, "distance")
    yield "radius_neighbors", lambda: list(model.radius_neighbors(new)[0])
    yield "inverse_transform", lambda: model.inverse_transform(model.transform(new))
    yield "residual_curves", lambda: [c for _, c in model.residual_curves(X).values()]
    yield "correlations", lambda: model.correlations(X, y, w)
    yield "as_linear_operator", lambda: _products(model.as_linear_operator(X))
    yield "preconditioner", lambda: _products(model.preconditioner(0.1, X))


def _products(operator: Any) -> Any:
    return operator @ np.ones(operator.shape[1])


def _of_hulls(model: Any, data: Data) -> Iterator[Call]:
    X, new = data.X, data.new
    yield "aic", lambda: (model.aic(X), model.bic(X))
    yield "sample", lambda: model.sample(3)
    yield "staged_decision_function", lambda: list(model.staged_decision_function(new))
    yield "staged_predict_proba", lambda: list(model.staged_predict_proba(new))
    if data.y is not None:
        yield "staged_score", lambda: list(model.staged_score(X, data.y))
    yield "staged_predict", lambda: [stage[:0] for stage in model.staged_predict(new)]
    yield "staged_score_samples", lambda: list(model.staged_score_samples(new))


def _other_models(rng: np.random.Generator, model: Any, data: Data) -> Iterator[Call]:
    """Models made of this one; the last of them changes the model itself."""
    X, y, w, new = data.X, data.y, data.weights, data.new
    n = int(rng.integers(1, 60))
    yield "truncated", lambda: _answers(model.truncated(1), new)
    if "keep" in _parameters(model, "grow"):
        keep = bool(rng.random() < 0.5)
        yield "grow", lambda: _answers(model.grow(n, X, y, w, keep=keep), new)
    else:
        yield "grow", lambda: _answers(model.grow(X, w, n_basis=n), new)
    yield "without_neighbors", lambda: _answers(model.without_neighbors(), new)
    yield "merge", lambda: _answers(model.merge(model.emptied().partial_fit(X, y, w)), new)
    # Further rows, some of them on another scale than those of the fit.
    further = rng.standard_normal((len(new), *np.shape(y)[1:]))
    decay = float(rng.choice([1.0, 0.5]))
    yield "partial_fit", lambda: _answers(model.partial_fit(X, y, w, decay=decay), new)
    yield "partial_fit further", lambda: _answers(model.partial_fit(new, further), new)


def _answers(model: Any, rows: Any) -> Any:
    """Predictions with error bars where there are any, and the certificate."""
    certificate = getattr(model, "certificate_", None)
    if not hasattr(model, "predict"):
        return model.transform(rows), certificate
    bars = {"return_std": True} if "return_std" in _parameters(model, "predict") else {}
    return model.predict(rows, **bars), certificate


def _saved(model: Any, rows: Any) -> Any:
    """Answers of the model as it comes back from a file, which must be the same."""
    names = ("kernel", "kernel_x", "kernel_y")
    functions = {name: getattr(model, name, None) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        model.save(path := Path(folder, "model.pursuit"))
        again = pursuit.load(path, **{k: v for k, v in functions.items() if callable(v)})
    for one, other in zip(_flat(_answers(model, rows)), _flat(_answers(again, rows)), strict=True):
        np.testing.assert_array_equal(one, other)


def _flat(found: Any) -> Iterator[Any]:
    if isinstance(found, tuple):
        for one in found:
            yield from _flat(one)
    elif hasattr(found, "toarray"):
        yield found.toarray()
    else:
        yield str(found) if isinstance(found, pursuit.Certificate) else found


def _fields(found: Any) -> list[Any]:
    return [] if found is None else list(vars(found).values())


def _if_smooth(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The result, None for kernels without a gradient, which say so."""
    try:
        return method(*args, **options)
    except ValueError as error:
        if "gradient" in str(error):
            return None
        raise


def _score(model: Any, data: Data) -> Any:
    # R² of targets that underflow is scikit-learn's affair: only that there is an answer counts.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if data.y is not None and len(data.y) > 1:
            model.score(data.X, data.y, data.weights)
