"""Adversarial fits: every estimator on data of every scale and form answers, or says what to do.

One seed is one fit of one estimator with hostile data and hyper-parameters, and some of what the
model then offers: predictions, error bars, certificates, updates, explanations, a file of it
(`torture.offers`). Wrong are

- NaN or inf in a prediction or a number of a certificate;
- a warning that is not a `UserWarning` or `ConvergenceWarning` of this package's own;
- an exception that is not a `ValueError`, `TypeError` or `NotFittedError` which names an argument;
- a call that takes more than two minutes.
"""

from __future__ import annotations

import inspect
import re
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import pursuit
from torture import Fuzzer, Report, offers
from torture.hostile import Data, draw, magnitude, parameter
from torture.offers import Call

_Drawn = dict[str, Any]
_SECONDS = 120.0
_OURS = (UserWarning, ConvergenceWarning, DataConversionWarning)
_ARGUMENTS = {
    "X",
    "X_new",
    "X_train",
    "y",
    "Y",
    "sample_weight",
    "target",
    "weight",
    "offset",
    "diagonal",
    "H",
    "b",
}
_GLM_LOSSES = (
    *("poisson", "gamma", "tweedie", "negative-binomial", "quantile", "absolute", "huber"),
    *("expectile", "logistic"),
)
_HULL_LOSSES = ("squared", "huber", "absolute", "quantile")


def _intersection(A: Any, B: Any) -> np.ndarray:
    A, B = (np.asarray(Z.todense() if sparse.issparse(Z) else Z) for Z in (A, B))
    return np.exp(-0.5 * np.abs(A[:, None, :] - B[None, :, :]).sum(axis=2))


def _kernel(rng: np.random.Generator, *, objects: bool = True) -> _Drawn:
    name = rng.choice(["rbf", "laplacian", "linear", "poly", "cosine", "object", "function"])
    if name == "object" and objects:
        length = parameter(rng) if rng.random() < 0.3 else 1.0
        stationary = [RBF(length), Matern(length, nu=1.5), Matern(length, nu=0.5)]
        kernel = stationary[rng.integers(3)]
        if rng.random() < 0.5:
            kernel = ConstantKernel(parameter(rng)) * kernel
        if rng.random() < 0.3:
            kernel = kernel + WhiteKernel(0.1)
        return {"kernel": kernel}
    if name == "function" and objects:
        return {"kernel": _intersection}
    if name in ("object", "function", "cosine"):
        return {"kernel": "cosine" if name == "cosine" else "rbf"}
    found: _Drawn = {"kernel": str(name)}
    if name in ("rbf", "laplacian", "poly") and rng.random() < 0.6:
        found["gamma"] = parameter(rng)
    if name == "poly":
        found["degree"] = int(rng.integers(1, 6))
        found["coef0"] = parameter(rng)
    return found


def _learned_kernel(rng: np.random.Generator) -> _Drawn:
    """A given kernel mostly: learning costs ten times as much as all the rest."""
    if rng.random() < 0.15:
        return {"kernel": None}
    return _kernel(rng) | {"optimizer": None}


def _size(rng: np.random.Generator) -> int:
    return int(rng.integers(1, 46))


def _some(rng: np.random.Generator, *choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


def _sparse_gp(rng: np.random.Generator) -> _Drawn:
    kernel = _learned_kernel(rng)
    learned = kernel["kernel"] is None
    return kernel | {
        "noise": "learn" if learned else _some(rng, parameter(rng, 0.1), parameter(rng, 0.1)),
        "n_basis": _size(rng),
        "normalize_y": bool(rng.random() < 0.7),
        "likelihood": _some(rng, "gaussian", "gaussian", "gaussian", "student-t"),
        "search": _some(rng, "pooled", "fresh", "full"),
        "certificate": _some(rng, "auto", "hybrid", "published", "dense", "scaled", "pcg"),
        "dtype": _some(rng, "float64", "float64", "float32"),
        "tol": _some(rng, None, None, 1e-3),
    }


def _exact_gp(rng: np.random.Generator) -> _Drawn:
    kernel = _learned_kernel(rng)
    return kernel | {
        "noise": "learn" if kernel["kernel"] is None else parameter(rng, 0.1),
        "solver": _some(rng, "auto", "cg", "cholesky"),
        "normalize_y": bool(rng.random() < 0.7),
        "dtype": _some(rng, "float64", "float32"),
    }


def _full_scale(rng: np.random.Generator) -> _Drawn:
    kernel = _learned_kernel(rng) | {"refine": False}
    return kernel | {
        "noise": "learn" if kernel["kernel"] is None else parameter(rng, 0.1),
        "n_basis": _size(rng),
        "n_neighbors": _some(rng, 0, 1, 3, "auto"),
        "normalize_y": bool(rng.random() < 0.7),
        "dtype": _some(rng, "float64", "float32"),
        "certificate": _some(rng, None, "auto"),
    }


def _classifier(rng: np.random.Generator) -> _Drawn:
    kernel = _learned_kernel(rng)
    return kernel | {
        "scale": "auto" if kernel["kernel"] is None else parameter(rng),
        "n_basis": _size(rng),
        "class_weight": _some(rng, None, None, "balanced"),
        "calibration": _some(rng, "auto", None),
    }


def _full_scale_classifier(rng: np.random.Generator) -> _Drawn:
    found = _classifier(rng) | {"refine": False, "n_neighbors": _some(rng, 1, 3, "auto")}
    return found | {"calibration": "loo"}


def _ridge(rng: np.random.Generator) -> _Drawn:
    penalty = _some(rng, "l2", "l2", "l2", "l1")
    found = {
        "alpha": parameter(rng),
        "penalty": penalty,
        "n_basis": _size(rng),
        "tol": _some(rng, None, None, 1e-3),
        "dtype": _some(rng, "float64", "float64", "float32"),
    }
    if penalty == "l2":
        found["method"] = _some(rng, "greedy", "random", "subspace", "kappa")
        found["refit"] = bool(rng.random() < 0.4)
        found["certificate"] = _some(rng, "auto", "hybrid", "published", "dense", "two-level")
    return _kernel(rng) | found


def _glm(rng: np.random.Generator) -> _Drawn:
    loss = _some(rng, *_GLM_LOSSES)
    kernel = _learned_kernel(rng)
    return kernel | {
        "loss": loss,
        "n_basis": _size(rng),
        "alpha": "learn" if kernel["kernel"] is None else parameter(rng),
        "refine": False,
        "certificate": _some(rng, "auto", "exact", None),
    }


def _matching(rng: np.random.Generator) -> _Drawn:
    return _kernel(rng) | {
        "n_basis": _some(rng, "bound", _size(rng), _size(rng)),
        "fitting": _some(rng, "basic", "backfit", "prefit"),
        "fit_intercept": bool(rng.random() < 0.7),
        "search": _some(rng, "pooled", "full"),
    }


def _feature_map(rng: np.random.Generator) -> _Drawn:
    return _kernel(rng) | {
        "n_components": _size(rng),
        "rule": _some(
            rng, "function", "random-pivot", "diagonal", "frobenius", "column", "feature-analysis"
        ),
        "residual_tol": _some(rng, None, 1e-6, 1e-300),
        "dtype": _some(rng, "float64", "float64", "float32"),
    }


def _machine(rng: np.random.Generator) -> _Drawn:
    return _kernel(rng) | {
        "C": parameter(rng),
        "n_basis": _size(rng),
        "tol": _some(rng, None, None, 1e-3),
        "refine": _some(rng, False, False, "auto"),
    }


def _lp(rng: np.random.Generator) -> _Drawn:
    return _kernel(rng) | {
        "C": parameter(rng),
        "n_basis": _some(rng, None, _size(rng)),
        "tol": _some(rng, 1e-6, 1e-3),
        "solver": _some(rng, "auto", "linprog", "highs"),
    }


def _cca(rng: np.random.Generator) -> _Drawn:
    x, y = _kernel(rng), _kernel(rng)
    return {
        "kernel_x": x.pop("kernel"),
        "kernel_y": y.pop("kernel"),
        "kernel_params_x": x or None,
        "kernel_params_y": y or None,
        "n_basis": _size(rng),
        "n_components": int(rng.integers(1, 3)),
        "regularization": parameter(rng, 0.1),
    }


def _hull(rng: np.random.Generator) -> _Drawn:
    return _kernel(rng) | {
        "loss": _some(rng, *_HULL_LOSSES),
        "radius": _some(rng, parameter(rng), parameter(rng), "cv"),
        "n_terms": _some(rng, 3, 20),
        "step": _some(rng, "corrective", "joint", "frank-wolfe"),
    }


def _boost(rng: np.random.Generator) -> _Drawn:
    return {
        "loss": _some(rng, "log-exp", "exponential", "logistic"),
        "scale": _some(rng, "auto", parameter(rng)),
        "n_terms": _some(rng, 3, 20),
        "step": _some(rng, "corrective", "joint", "frank-wolfe"),
    }


def _mixture(rng: np.random.Generator) -> _Drawn:
    return {
        "bandwidths": _some(rng, "auto", [parameter(rng)]),
        "covariance_type": _some(rng, "full", "diag", "spherical"),
        "refine": bool(rng.random() < 0.5),
        "n_terms": _some(rng, 2, 10),
        "reg_covar": _some(rng, 1e-6, parameter(rng)),
    }


def _pca(rng: np.random.Generator) -> _Drawn:
    return _kernel(rng) | {
        "n_components": _some(rng, 1, 2, 5, 0.9, None),
        "n_basis": _some(rng, "bound", _size(rng)),
        "center": bool(rng.random() < 0.7),
    }


def _neighbors(rng: np.random.Generator) -> _Drawn:
    return _kernel(rng) | {
        "n_components": _size(rng),
        "n_neighbors": int(rng.integers(1, 6)),
        "radius": parameter(rng),
    }


def _with(draw_parameters: Callable[..., _Drawn], **more: Callable[..., Any]) -> Any:
    return lambda rng: draw_parameters(rng) | {name: one(rng) for name, one in more.items()}


_SVR_LOSSES = ("squared_epsilon_insensitive", "epsilon_insensitive")

ESTIMATORS: dict[str, tuple[Callable[[np.random.Generator], _Drawn], str]] = {
    "SparseGPRegressor": (_sparse_gp, "numbers"),
    "ExactGPRegressor": (_exact_gp, "numbers"),
    "FullScaleGPRegressor": (_full_scale, "numbers"),
    "SparseGPClassifier": (_classifier, "labels"),
    "FullScaleGPClassifier": (_full_scale_classifier, "labels"),
    "SparseKernelRidge": (_ridge, "numbers"),
    "SparseKernelGLM": (_glm, "loss"),
    "KernelMatchingPursuitRegressor": (_matching, "numbers"),
    "KernelMatchingPursuitClassifier": (
        _with(_matching, loss=lambda rng: _some(rng, "squared", "logistic")),
        "labels",
    ),
    "GreedyFeatureMap": (_feature_map, "none"),
    "SparseKernelPCA": (_pca, "none"),
    "SparseKernelCCA": (_cca, "view"),
    "SpanNeighbors": (_neighbors, "none"),
    "HullRegressor": (_hull, "numbers"),
    "HullBoostClassifier": (_boost, "labels"),
    "HullMixture": (_mixture, "none"),
    "LowRankSVC": (
        _with(_machine, loss=lambda rng: _some(rng, "hinge", "squared_hinge")),
        "labels",
    ),
    "LowRankSVR": (
        _with(_machine, loss=lambda rng: _some(rng, *_SVR_LOSSES), epsilon=parameter),
        "numbers",
    ),
    "LowRankOneClassSVM": (
        _with(
            lambda rng: {k: v for k, v in _machine(rng).items() if k not in ("C", "refine")},
            nu=lambda rng: _some(rng, 0.5, 0.01, 1.0),
        ),
        "none",
    ),
    "LPMachineClassifier": (_lp, "labels"),
    "LPMachineRegressor": (_with(_lp, epsilon=parameter), "numbers"),
}
FUNCTIONS = ("minimize_quadratic", "minimize_over_hull")
_TARGETS = {
    "logistic": "shares",
    "poisson": "counts",
    "gamma": "counts",
    "tweedie": "counts",
    "negative-binomial": "counts",
}


def run(seed: int) -> Report:
    """Fit one estimator to hostile data, and ask it for all it offers."""
    rng = np.random.default_rng([20, seed])
    report = Report()
    name = str(rng.choice([*ESTIMATORS, *FUNCTIONS]))
    calls, words = (_function_calls if name in FUNCTIONS else _estimator_calls)(rng, name)
    report.counts["fits"] += 1
    here = f"seed {seed}, {name}: {words}"
    for label, call in calls:
        report.counts["calls"] += 1
        wrong, answered = _tried(call, _arguments(name, label))
        report.failures += [f"{here}: {label}: {one}" for one in wrong]
        if label == "fit" and not answered:
            report.counts["refused"] += 1
            break
    if report.failures:
        again = f"python -c 'from torture.fits import run; print(run({seed}).failures)'"
        report.failures[-1] += f" [{again}]"
    return report


def _tried(call: Callable[[], Any], arguments: set[str]) -> tuple[list[str], bool]:
    """What is wrong with a call, and whether it has given an answer."""
    wrong: list[str] = []
    answered = False
    with warnings.catch_warnings(record=True) as caught, _time_limit():
        warnings.simplefilter("always")
        try:
            found = call()
            answered = True
        except (ValueError, TypeError, NotFittedError) as error:
            if isinstance(error, np.linalg.LinAlgError) or not _names_one(str(error), arguments):
                wrong.append(_described(error))
        except Exception as error:  # any other kind is what is looked for
            wrong.append(_described(error))
        else:
            wrong += [f"{part} has {value}" for part, value in _not_finite(found)]
    for one in caught:
        if one.category not in _OURS:
            place = f"{one.filename.rpartition('/src/')[2]}:{one.lineno}"
            wrong.append(f"{one.category.__name__} leaked at {place}: {one.message}")
    return wrong, answered


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise TimeoutError in a call that goes on and on, where the system has such an alarm."""
    if not hasattr(signal, "setitimer") or current_thread() is not main_thread():
        yield
        return

    def ring(number: int, frame: Any) -> None:
        raise TimeoutError(f"no answer within {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _described(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/pursuit/" in f.filename] or list(frames)
    place = f"{own[-1].filename.rpartition('/pursuit/')[2]}:{own[-1].lineno}"
    return f"{type(error).__name__} at {place}: {str(error)[:300]}"


def _arguments(name: str, label: str) -> set[str]:
    """What an error may name: parameters of the model or function, and arguments of the method."""
    public = getattr(pursuit, name)
    method = getattr(public, label.partition(" ")[0], None)
    own = [inspect.signature(each).parameters for each in (public, method) if callable(each)]
    return _ARGUMENTS.union(*own)


def _names_one(message: str, arguments: set[str]) -> bool:
    return any(word in arguments for word in re.findall(r"\w+", message))


def _not_finite(found: Any, part: str = "result") -> Iterator[tuple[str, str]]:
    """Parts of a result that are NaN or infinite."""
    if isinstance(found, tuple | list):
        for number, one in enumerate(found):
            yield from _not_finite(one, f"{part}[{number}]")
    elif isinstance(found, pursuit.Certificate):
        for field in ("upper", "lower", "gap"):
            yield from _not_finite(getattr(found, field), f"certificate {field}")
        if np.isnan(found.relative_gap):
            yield "certificate relative_gap", "NaN"
        str(found)
    elif isinstance(found, np.ndarray | float | np.floating) or sparse.issparse(found):
        values = found.data if sparse.issparse(found) else np.asarray(found)
        if values.dtype.kind == "O":
            yield from _not_finite(list(values), part)
        elif values.dtype.kind == "f" and not np.isfinite(values).all():
            yield part, "NaN" if np.isnan(values).any() else "inf"


def _estimator_calls(rng: np.random.Generator, name: str) -> tuple[Any, str]:
    draw_parameters, target = ESTIMATORS[name]
    parameters = draw_parameters(rng)
    if target == "loss":
        target = _TARGETS.get(parameters["loss"], "numbers")
    data = draw(rng, target)
    model = getattr(pursuit, name)(**parameters, random_state=int(rng.integers(100)))
    words = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
    return _calls(rng, model, data), f"{words}; {data.words}"


def _calls(rng: np.random.Generator, model: Any, data: Data) -> Iterator[Call]:
    """The fit, then what the fitted model offers."""
    weighted = "sample_weight" in inspect.signature(model.fit).parameters
    options = {"sample_weight": data.weights} if weighted else {}
    yield "fit", lambda: model.fit(data.X, data.y, **options) and None
    yield from offers.calls(rng, model, data)


def _function_calls(rng: np.random.Generator, name: str) -> tuple[Any, str]:
    n = int(rng.choice([1, 2, 5, 15, 30]))
    size, linear = magnitude(rng), magnitude(rng)
    A = rng.standard_normal((n, int(rng.integers(1, n + 1))))
    with np.errstate(over="ignore", invalid="ignore"):
        b = np.clip(rng.standard_normal(n) * linear, -1.7e308, 1.7e308)
        if name == "minimize_quadratic":
            H = np.clip((A @ A.T + parameter(rng) * np.eye(n)) * size, -1.7e308, 1.7e308)
        else:
            H = np.clip(A * size, -1.7e308, 1.7e308)
    terms = int(rng.integers(1, n + 3))
    words = f"n={n}, H or atoms × {size:.3g}, b or targets × {linear:.3g}, {terms} terms"
    if name == "minimize_quadratic":
        shift = _some(rng, None, parameter(rng))
        tol = _some(rng, None, 1e-3)

        def solve() -> Any:
            found = pursuit.minimize_quadratic(
                H, b, n_terms=terms, shift=shift, tol=tol, random_state=0
            )
            return found.coef, found.value, found.certificate, str(found)
    else:
        kind = int(rng.integers(3))
        step = _some(rng, "corrective", "joint", "frank-wolfe")

        def solve() -> Any:
            logistic = pursuit.LogisticLoss(np.where(b > 0, 1.0, -1.0))
            loss = (pursuit.SquaredLoss(b), pursuit.HuberLoss(b), logistic)[kind]
            found = pursuit.minimize_over_hull(loss, H, terms, step=step)
            return found.point, found.value, found.weights, found.certificate, str(found)

    return [("fit", solve)], words


FUZZER = Fuzzer(name="adversarial-fits", run=run, share=2.0)
