"""Checks of hulls: regression over a ball, boosting, mixtures, and hulls of given atoms.

P(f) of the stored weights must not be above ``upper``; ``lower`` must not be above the value of any
point of the hull that is known, such as that of a longer run, whose weights are made to sum to one
exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pursuit import (
    ExponentialLoss,
    HullBoostClassifier,
    HullMixture,
    HullRegressor,
    LogExpLoss,
    LogisticLoss,
    NegativeLogLikelihood,
    SquaredLoss,
    minimize_over_hull,
)
from torture import Report
from torture.certified_spans import items, opened, points, refused
from torture.exact_kernels import MP, Numbers, exact, numbers
from torture.exact_losses import softplus
from torture.hard_problems import Problem, difficulty, draw
from torture.ledger import Ledger

_exp = np.frompyfunc(MP.exp, 1, 1)
_log = np.frompyfunc(MP.log, 1, 1)
DIGITS = 80
FAR = 1e9
"""|X| in units of the deviation beyond which a feature is constant to the estimator."""


def check_hull(rng: np.random.Generator, seed: int) -> Report:
    """`HullRegressor`: losses over an l1 ball of kernel functions."""
    problem = draw(rng, multiple=False)
    m, y = len(problem.X), problem.y
    loss = str(rng.choice(["squared", "squared", "huber", "absolute", "quantile"]))
    unit = float(np.sqrt(np.average(y**2, weights=problem.w))) or 1.0
    level = float(rng.uniform(0.1, 0.9))
    options = {"loss": loss} | ({"quantile": level} if loss == "quantile" else {})
    largest, kernel = None, None
    try:
        probe = HullRegressor(
            "kernel", kernel=problem.kernel, radius=1.0, n_terms=1, **problem.arguments
        ).fit(problem.X, y, problem.weights)
        kernel = probe._compiled_kernels(problem.X)[0].kernel
        largest = float(max(abs(exact(kernel, items(problem, problem.present))).ravel()))
        arguments = {
            "kernel": problem.kernel,
            "radius": unit * float(10.0 ** rng.uniform(-1, 2)) / largest,
            "random_state": seed,
            "n_jobs": 1,
            **options,
            **problem.arguments,
        }
        n_terms = int(rng.integers(1, m + 2))
        model = HullRegressor("kernel", n_terms=n_terms, **arguments).fit(
            problem.X, y, problem.weights
        )
        better = HullRegressor("kernel", n_terms=4 * m, tol=1e-14, **arguments).fit(
            problem.X, y, problem.weights
        )
    except Exception as error:
        return refused(problem, f"HullRegressor {loss}", error)
    ledger = opened(problem, f"HullRegressor {loss}", largest, unit / arguments["radius"])
    with MP.workdps(DIGITS):
        there = problem.present
        w, t = numbers(problem.w[there]), numbers(y[there])
        w = w / w.sum()
        values = [_ball_value(problem, each, kernel, w, t, loss, level) for each in (model, better)]
        radius = MP.mpf(arguments["radius"])
        inside = [_ball_value(problem, better, kernel, w, t, loss, level, radius)]
        ledger.certificate(model.certificate_, loss, values[:1], inside)
        ledger.certificate(better.certificate_, loss, values[1:], inside)
    return ledger.report


def _ball_value(
    problem: Problem,
    model: Any,
    kernel: Any,
    w: Numbers,
    y: Numbers,
    loss: str,
    level: float,
    radius: Any = None,
) -> Any:
    """Mean loss of the stored function, or of the largest multiple of it in the ball."""
    f = 0 * y
    if model.n_terms_:
        a = numbers(model.dual_coef_.ravel())
        if radius is not None:
            a = a * min(MP.one, radius / max(abs(a).sum(), radius))
        f = exact(kernel, items(problem, problem.present), points(problem, model)) @ a
    u = y - f
    if loss == "squared":
        return w @ (u * u)
    if loss == "huber":
        d = MP.mpf(float(model.delta_))
        return w @ np.where(np.asarray(abs(u) <= d, bool), u * u / 2, d * abs(u) - d * d / 2)
    if loss == "absolute":
        return w @ abs(u)
    q = MP.mpf(level)
    return w @ np.where(np.asarray(u > 0, bool), q * u, (q - 1) * u)


def _margin_loss(name: str, z: Numbers, w: Numbers) -> Any:
    """Losses of Z02 of margins z = A y v."""
    if name == "log-exp":
        return MP.log(w @ _exp(-z))
    if name == "logistic":
        return w @ softplus(-z)
    if name == "exponential":
        return w @ _exp(-z)
    return w @ ((1 - z) ** 2)


def check_given_atoms(rng: np.random.Generator, seed: int) -> Report:
    """`minimize_over_hull` for a matrix of atoms."""
    m, n = int(rng.integers(2, 25)), int(rng.integers(1, 30))
    atoms = rng.normal(size=(m, n)) * float(10.0 ** rng.uniform(-6, 6))
    kind = "easy"
    if rng.random() < 0.3:
        kind = "hard"
        atoms = atoms + float(10.0 ** rng.uniform(0, 6)) * np.abs(atoms).max()
    unit = float(np.abs(atoms).max())
    name = str(rng.choice(["squared", "logistic", "exponential", "log-exp", "likelihood"]))
    weights = None if rng.random() < 0.5 else 10.0 ** rng.uniform(-4, 4, m)
    y = rng.normal(size=m) * unit
    signs, scale = np.where(y > 0, 1.0, -1.0), float(10.0 ** rng.uniform(-2, 1.5)) / unit
    if name == "exponential" and scale > 700.0:
        name = "log-exp"
    loss: Any = {
        "squared": lambda: SquaredLoss(y, weights),
        "logistic": lambda: LogisticLoss(signs, scale, weights),
        "exponential": lambda: ExponentialLoss(signs, scale, weights),
        "log-exp": lambda: LogExpLoss(signs, scale, weights),
        "likelihood": lambda: NegativeLogLikelihood(m, weights),
    }[name]()
    atoms = np.abs(atoms) if name == "likelihood" else atoms
    step = str(rng.choice(["corrective", "joint", "frank-wolfe"]))
    ledger = Ledger(f"minimize_over_hull {name}", kind, f"m={m}, n={n}, scale={unit:.1e}")
    runs = []
    for n_terms, tol in ((int(rng.integers(1, n + 1)), 1e-6), (n, 1e-14)):
        try:
            runs.append(minimize_over_hull(loss, atoms, n_terms, step=step, tol=tol))
        except Exception as error:
            if isinstance(error, ValueError | TypeError):
                return Report({"refused": 1})
            ledger.fail(f"{type(error).__name__}: {error}")
            return ledger.report
        step = "corrective"
    with MP.workdps(DIGITS):
        w = numbers(np.ones(m) if weights is None else weights)
        w, exact_atoms = w / w.sum(), numbers(atoms)

        def value(a: Numbers, found: Any) -> Any:
            v = exact_atoms[:, found.terms] @ a
            if name == "squared":
                return w @ ((numbers(y) - v) ** 2)
            if name == "likelihood":
                return -(w @ _log(v))
            return _margin_loss(name, MP.mpf(scale) * numbers(signs) * v, w)

        feasible = []
        for found in runs:
            a = numbers(found.weights)
            feasible.append(value(a / a.sum(), found))
        for found in runs:
            own = value(numbers(found.weights), found)
            # A logarithm is as large as its terms.
            size = max(abs(own), MP.one) if name in ("likelihood", "log-exp") else None
            ledger.certificate(found.certificate, step, [own], [min(feasible)], size=size)
    return ledger.report


def check_boosting(rng: np.random.Generator, seed: int) -> Report:
    """`HullBoostClassifier`: all losses of a vote of stumps."""
    problem = draw(rng, multiple=False, kernels=("linear",))
    X, m = np.asarray(problem.X, dtype=float), len(problem.X)
    labels = (problem.y > np.median(problem.y)).astype(int)
    labels[np.argmax(problem.w)] = 1 - labels[np.argmax(problem.w) - 1]
    name = str(rng.choice(["log-exp", "logistic", "exponential", "least-squares"]))
    A = float(10.0 ** rng.uniform(-2, 2))
    options = {"loss": name, "scale": A, "random_state": seed, "n_jobs": 1}
    step = str(rng.choice(["joint", "frank-wolfe", "corrective"]))
    try:
        model = HullBoostClassifier(step=step, n_terms=int(rng.integers(1, 20)), **options).fit(
            X, labels, problem.weights
        )
        better = HullBoostClassifier(step="corrective", n_terms=3 * m, tol=1e-12, **options).fit(
            X, labels, problem.weights
        )
    except Exception as error:
        return refused(problem, "HullBoostClassifier", error)
    ledger = Ledger(f"HullBoostClassifier {name}", "easy", f"m={m}, scale={A:.1e}")
    with MP.workdps(DIGITS):
        there = problem.present
        w = numbers(problem.w[there])
        w, signs = w / w.sum(), numbers(np.where(labels[there] == 1, 1.0, -1.0))

        def value(model: Any, *, feasible: bool) -> Any:
            booster = model.boosters_[0]
            a = numbers(booster.weights)
            if feasible and abs(a).sum() > 1:
                a = a / abs(a).sum()
            v = numbers(booster.values(X[there])) @ a
            return _margin_loss(name, MP.mpf(float(model.scale_)) * signs * v, w)

        best = min(value(each, feasible=True) for each in (model, better))
        for each in (model, better):
            own = value(each, feasible=False)
            size = max(abs(own), MP.one) if name == "log-exp" else None
            ledger.certificate(each.boosters_[0].certificate, name, [own], [best], size=size)
    return ledger.report


def check_mixture(rng: np.random.Generator, seed: int) -> Report:
    """`HullMixture` of fixed atoms: -mean ln v."""
    problem = draw(rng, multiple=False, kernels=("linear",))
    X = np.asarray(problem.X, dtype=float)
    kind = str(rng.choice(["diag", "spherical"]))
    bandwidths = np.unique(rng.choice([1.0, 0.5, 0.25, 0.12], 3))
    try:
        model = HullMixture(
            n_terms=int(rng.integers(1, 8)),
            criterion="certificate",
            tol=1e-2,
            refine=False,
            bandwidths=bandwidths,
            covariance_type=kind,
            random_state=seed,
            n_jobs=1,
        ).fit(X, None, problem.weights)
    except Exception as error:
        return refused(problem, "HullMixture", error)
    there = problem.present
    # Rounding of X counts in units of the deviations.
    far = float(np.max(np.abs(X[there]).max(axis=0) / np.maximum(X[there].std(axis=0), 1e-300)))
    ledger = Ledger(
        "HullMixture",
        difficulty(len(X), min(far, 1e100) ** 2, 1.0, 1.0),
        f"{kind}, m={len(X)}, |X|/std {far:.1e}",
    )
    with MP.workdps(DIGITS):
        w, rows = numbers(problem.w[there]), numbers(X[there])
        w = w / w.sum()
        own = _log_density(rows, w, model)
        best = own
        if far < FAR:
            best = min(own, _named_atoms(rows, w, kind, bandwidths))
        size = max(abs(own), MP.one)
        ledger.certificate(model.certificate_, "mixture", [own], [best], size=size)
    return ledger.report


def _named_atoms(rows: Numbers, w: Numbers, kind: str, bandwidths: np.ndarray) -> Any:
    """-mean ln v of a mixture of all fixed atoms, with weights by 300 steps of EM."""
    d = rows.shape[1]
    variances = w @ ((rows - w @ rows) ** 2)
    if kind == "spherical":
        variances = 0 * variances + variances.sum() / d
    if not all(variances):
        return MP.inf
    squares = ((rows[:, None] - rows) ** 2 / variances).sum(axis=2)
    atoms = np.hstack([_exp(-squares / (2 * h * h)) / h**d for h in numbers(bandwidths)])
    dense, share = atoms.astype(float), w.astype(float)
    a = np.full(dense.shape[1], 1.0 / dense.shape[1])
    for _ in range(300):
        a = a * ((share / (dense @ a)) @ dense)
    a = numbers(a)
    shift = _log(variances).sum() / 2 + d * MP.log(2 * MP.pi) / 2
    return shift - w @ _log(atoms @ (a / a.sum()))


def _log_density(rows: Numbers, w: Numbers, model: Any) -> Any:
    """-mean ln Σ a_j N(x; mean_j, covariance_j)."""
    d = rows.shape[1]
    shape = (len(model.weights_), d)
    stored = np.asarray(model.covariances_, dtype=float)
    variances = numbers(np.broadcast_to(stored if stored.ndim == 2 else stored[:, None], shape))
    means, a = numbers(model.means_), numbers(model.weights_)
    squares = ((rows[:, None] - means) ** 2 / variances).sum(axis=2)
    norms = _log(variances).sum(axis=1) / 2 + d * MP.log(2 * MP.pi) / 2
    density = _exp(-squares / 2 - norms) @ (a / a.sum())
    return -(w @ _log(density))
