"""Checks of convex losses: classifier, generalised linear models, machines of the full kernel.

P(f) of the stored coefficients must not be above ``upper``, and ``lower`` not above the value of
the best function that is known, which Newton's method finds in many digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog

from pursuit import (
    LowRankOneClassSVM,
    LowRankSVC,
    LowRankSVR,
    LPMachineClassifier,
    LPMachineRegressor,
    SparseGPClassifier,
    SparseKernelGLM,
)
from torture import Report, exact_losses
from torture.certified_spans import items, largest_value, opened, points, refused
from torture.exact_kernels import MP, Numbers, exact, numbers
from torture.exact_losses import Loss, Machine, of_hinges
from torture.exact_truth import enough_digits
from torture.hard_problems import Problem, draw
from torture.ledger import TOLERANCE, Ledger

MOST_ROWS = 12


def _problem(rng: np.random.Generator, *, multiple: bool = False) -> Problem:
    problem = draw(rng, multiple=multiple, most=MOST_ROWS)
    problem.noise = float(10.0 ** rng.uniform(-8, 4))
    return problem


def _labels(problem: Problem, n_classes: int) -> np.ndarray:
    """Classes in turn by the size of a target, each with rows that have weight."""
    m = len(problem.X)
    y = problem.y.reshape(m, -1)[:, 0]
    labels = (np.argsort(np.argsort(y, kind="stable"), kind="stable") * n_classes) // m
    if problem.weights is not None:
        for each in range(n_classes):
            at = np.flatnonzero(labels == each)[:1]
            problem.weights[at] = max(float(problem.weights[at].max(initial=0.0)), 1.0)
    return labels


class Expansions:
    """Kernel matrices of rows and basis in exact numbers, and values of the stored functions."""

    def __init__(self, problem: Problem, model: Any) -> None:
        self.there = problem.present
        rows, z = items(problem, self.there), points(problem, model)
        kernel = model._compiled(problem.X).kernel
        self.K = exact(kernel, rows)
        n = model.n_basis_
        stored = model.dual_coef_.reshape(n, -1) if n else np.zeros((1, 3))
        z = z if n else rows[:1]
        self.coefficients = numbers(stored)
        self.f = exact(kernel, rows, z) @ self.coefficients
        self.norms = (self.coefficients * (exact(kernel, z) @ self.coefficients)).sum(axis=0)

    def judge(
        self,
        ledger: Ledger,
        found: list[Any],
        columns: list[tuple[np.ndarray, np.ndarray, Any]],
        alpha: float,
        intercepts: Any,
        offset: np.ndarray | None = None,
        kind: str = "exact",
    ) -> None:
        """Check certificates of all columns (y, weights of rows, loss)."""
        values, minima, least = [], [], []
        for j, (y, w, loss) in enumerate(columns):
            kept = np.flatnonzero(w > 0)
            o = numbers(np.zeros(len(kept)) if offset is None else offset[kept])
            machine = Machine(
                self.K[np.ix_(kept, kept)],
                numbers(y[kept]),
                numbers(w[kept]),
                o,
                MP.mpf(alpha),
                intercepts is not None,
            )
            b = MP.mpf(float(intercepts[j])) if intercepts is not None else MP.zero
            true = loss if isinstance(loss, Loss) else of_hinges(loss)
            own = machine.value(true, self.f[kept, j], self.norms[j], b)
            low, high = machine.minimum(loss, float(b))
            values.append(own)
            minima.append(min(own, high))
            least.append(low)
            known = low is not None and high - low <= TOLERANCE * abs(high)
            ledger.count("minima known to 1e-12" if known else "minima known from above only")
        for each in found:
            ledger.certificate(each, kind, values, minima, least)


def check_classifier(rng: np.random.Generator, seed: int) -> Report:
    """`SparseGPClassifier`."""
    problem = _problem(rng)
    m, n_classes = len(problem.X), int(rng.choice([2, 2, 3]))
    n_classes = min(n_classes, m)
    y = _labels(problem, n_classes)
    try:
        model = SparseGPClassifier(
            problem.kernel,
            scale=float(10.0 ** rng.uniform(-4, 6)),
            n_basis=int(rng.integers(1, m + 2)),
            optimizer=None,
            refine=False,
            calibration=None,
            certificate="exact",
            random_state=seed,
            n_jobs=1,
            **problem.arguments,
        ).fit(problem.X, y, problem.weights)
        found = [model.certificate_, model.certify(problem.X, y, problem.weights)]
    except Exception as error:
        return refused(problem, "SparseGPClassifier", error)
    alpha, largest = 1.0 / float(model.scale_), largest_value(model, problem)
    ledger = opened(problem, "SparseGPClassifier", largest, alpha)
    with enough_digits(largest * m, alpha, float(problem.w.max())):
        spans = Expansions(problem, model)
        classes = range(1, 2) if n_classes == 2 else range(n_classes)
        w = problem.w * model.class_weight_[y]
        there = spans.there
        columns = [((y == k)[there] * 1.0, w[there], exact_losses.logistic()) for k in classes]
        spans.judge(ledger, found, columns, 1 / MP.mpf(float(model.scale_)), None)
    return ledger.report


SMOOTH = "poisson", "gamma", "tweedie", "negative-binomial", "logistic", "huber", "expectile"


def _glm_loss(name: str, model: Any, level: float, power: float) -> Any:
    return {
        "poisson": exact_losses.poisson,
        "gamma": exact_losses.gamma,
        "tweedie": lambda: exact_losses.tweedie(power),
        "negative-binomial": lambda: exact_losses.negative_binomial(float(model.shape_)),
        "logistic": exact_losses.logistic,
        "huber": lambda: exact_losses.huber(float(model.width_)),
        "expectile": lambda: exact_losses.expectile(level),
        "absolute": lambda: exact_losses.pinball(-1.0, 1.0),
        "quantile": lambda: exact_losses.pinball(level - 1.0, level),
    }[name]()


def _glm_targets(rng: np.random.Generator, name: str, y: np.ndarray) -> np.ndarray:
    unit = (y - y.mean()) / (np.abs(y - y.mean()).max() or 1.0)
    if name in ("poisson", "negative-binomial"):
        counts = rng.poisson(np.exp(1.5 * unit)).astype(float)
        counts[np.argmax(unit)] += 1.0
        return counts
    if name in ("gamma", "tweedie"):
        amounts = np.exp(unit) * rng.gamma(1.5, 1.0, len(y))
        return (
            amounts if name == "gamma" else amounts * np.where(rng.random(len(y)) < 0.3, 0.0, 1.0)
        )
    if name == "logistic":
        return np.clip(0.5 + 0.4 * unit + 0.1 * rng.normal(size=len(y)), 0.0, 1.0)
    return y


def check_glm(rng: np.random.Generator, seed: int) -> Report:
    """`SparseKernelGLM` with all its losses."""
    problem = _problem(rng)
    name = str(rng.choice([*SMOOTH, "absolute", "quantile"]))
    y = _glm_targets(rng, name, problem.y)
    m = len(y)
    if name in SMOOTH[:5]:
        y[np.argmax(problem.w)] = 0.5 if name == "logistic" else max(1.0, y[np.argmax(problem.w)])
    level, power = float(rng.uniform(0.1, 0.9)), float(rng.uniform(1.1, 1.9))
    offset = 0.5 * rng.normal(size=m) if rng.random() < 0.3 else None
    try:
        model = SparseKernelGLM(
            problem.kernel,
            loss=name,
            quantile=level,
            power=power,
            alpha=problem.noise,
            n_basis=int(rng.integers(1, m + 2)),
            optimizer=None,
            refine=False,
            certificate="exact",
            random_state=seed,
            n_jobs=1,
            **problem.arguments,
        ).fit(problem.X, y, problem.weights, offset=offset)
        found = [
            model.certificate_,
            model.certify(problem.X, y, problem.weights, offset=offset),
        ]
    except Exception as error:
        return refused(problem, f"SparseKernelGLM {name}", error)
    alpha, largest = problem.noise, largest_value(model, problem)
    ledger = opened(problem, f"SparseKernelGLM {name}", largest, alpha)
    with enough_digits(largest * m, alpha, float(problem.w.max())):
        spans = Expansions(problem, model)
        there = spans.there
        columns = [(y[there], problem.w[there], _glm_loss(name, model, level, power))]
        inner = None if offset is None else offset[there]
        spans.judge(ledger, found, columns, alpha, np.atleast_1d(model.intercept_), inner)
    return ledger.report


def check_svc(rng: np.random.Generator, seed: int) -> Report:
    """`LowRankSVC` with both losses."""
    problem = _problem(rng)
    m = len(problem.X)
    n_classes = min(int(rng.choice([2, 2, 3])), m)
    y = _labels(problem, n_classes)
    squared = bool(rng.random() < 0.5)
    C = 1.0 / problem.noise
    kind = str(rng.choice(["exact", "exact", "diagonal"]))
    try:
        model = LowRankSVC(
            problem.kernel,
            C=C,
            loss="squared_hinge" if squared else "hinge",
            n_basis=int(rng.integers(1, m + 2)),
            refine=False,
            certificate=kind,
            random_state=seed,
            n_jobs=1,
            **problem.arguments,
        ).fit(problem.X, y, problem.weights)
        found = [model.certificate_, model.certify(problem.X, y, problem.weights)]
    except Exception as error:
        return refused(problem, "LowRankSVC", error)
    largest = largest_value(model, problem)
    ledger = opened(problem, "LowRankSVC", largest, problem.noise)
    with enough_digits(largest * m, problem.noise, float(problem.w.max())):
        spans = Expansions(problem, model)
        there = spans.there
        costs = _costs(C, problem.w[there], model.class_weight_[y[there]])
        loss = exact_losses.squared_hinge() if squared else exact_losses.hinge
        classes = range(1, 2) if n_classes == 2 else range(n_classes)
        columns = [(np.where(y[there] == k, 1.0, -1.0), costs, loss) for k in classes]
        spans.judge(ledger, found, columns, 1.0, model.intercept_, kind=kind)
    return ledger.report


def _costs(C: float, w: np.ndarray, classes: Any = 1.0) -> np.ndarray:
    """C w_i: products of floats, each rounded once, are the given data of the machine."""
    return np.asarray(C * w * classes, dtype=float)


def check_svr(rng: np.random.Generator, seed: int) -> Report:
    """`LowRankSVR` with both losses."""
    problem = _problem(rng, multiple=True)
    m, y = len(problem.X), problem.y
    unit = float(np.abs(y - y.mean()).max()) or 1.0
    squared = bool(rng.random() < 0.5)
    epsilon = unit * float(10.0 ** rng.uniform(-3, -0.5))
    C = (1.0 if squared else unit) / problem.noise
    kind = str(rng.choice(["exact", "exact", "diagonal"]))
    try:
        model = LowRankSVR(
            problem.kernel,
            C=C,
            epsilon=epsilon,
            loss="squared_epsilon_insensitive" if squared else "epsilon_insensitive",
            n_basis=int(rng.integers(1, m + 2)),
            refine=False,
            certificate=kind,
            random_state=seed,
            n_jobs=1,
            **problem.arguments,
        ).fit(problem.X, y, problem.weights)
        found = [model.certificate_, model.certify(problem.X, y, problem.weights)]
    except Exception as error:
        return refused(problem, "LowRankSVR", error)
    largest = largest_value(model, problem)
    # In units u of y a loss that is linear has C/u in place of C, and one that is squared has C.
    ledger = opened(problem, "LowRankSVR", largest, problem.noise)
    with enough_digits(largest * m, 1.0 / C, float(problem.w.max())):
        spans = Expansions(problem, model)
        there = spans.there
        loss = exact_losses.squared_tube(epsilon) if squared else exact_losses.tube(epsilon)
        costs = _costs(C, problem.w[there])
        columns = [(column[there], costs, loss) for column in y.reshape(m, -1).T]
        spans.judge(ledger, found, columns, 1.0, model.intercept_, kind=kind)
    return ledger.report


def check_one_class(rng: np.random.Generator, seed: int) -> Report:
    """`LowRankOneClassSVM`: ½‖f‖² + Σs max(0, ρ - f) - νρΣs, beside a machine of all functions."""
    problem = _problem(rng)
    m, nu = len(problem.X), float(rng.uniform(0.05, 1.0))
    kind = str(rng.choice(["exact", "exact", "diagonal"]))
    arguments = {"nu": nu, "certificate": kind, "random_state": seed, "n_jobs": 1}
    models = []
    try:
        for n_basis in (int(rng.integers(1, m + 2)), m):
            model = LowRankOneClassSVM(
                problem.kernel, n_basis=n_basis, **arguments, **problem.arguments
            ).fit(problem.X, sample_weight=problem.weights)
            models.append(model)
    except Exception as error:
        return refused(problem, "LowRankOneClassSVM", error)
    with MP.workdps(80):
        values = []
        for model in models:
            spans = Expansions(problem, model)
            s, f = numbers(problem.w[spans.there]), spans.f[:, 0]
            # The certificate is about f with its best ρ, which is one of its values; the stored
            # one is a little lower.
            best = min(
                s @ np.array([max(rho - each, MP.zero) for each in f], dtype=object)
                - MP.mpf(nu) * rho * s.sum()
                for rho in f
            )
            values.append(spans.norms[0] / 2 + best)
        # Where the origin is not to be separated the minimum is 0, and all else is rounding. The
        # minimum grows as the square of the weights: how hard a problem is depends on no unit.
        least = max(abs(float(min(values))) / float(problem.w.max()), 1e-300)
        ledger = opened(problem, "LowRankOneClassSVM", largest_value(models[0], problem), least)
        for model, own in zip(models, values, strict=True):
            found = [model.certificate_, model.certify(problem.X, problem.weights)]
            for each in found:
                ledger.certificate(each, kind, [own], [min(values)])
    return ledger.report


def check_lp(rng: np.random.Generator, seed: int) -> Report:
    """`LPMachineClassifier` and `LPMachineRegressor`: Σ|a| + Σcℓ(Ka + b)."""
    problem = _problem(rng, multiple=True)
    m, C = len(problem.X), float(10.0 ** rng.uniform(-3, 5))
    classes = bool(rng.random() < 0.5)
    arguments = {"kernel": problem.kernel, "C": C, "tol": 1e-8, "random_state": seed, "n_jobs": 1}
    arguments |= {"n_basis": int(rng.integers(1, m + 1)) if rng.random() < 0.5 else None}
    unit = float(np.abs(problem.y - np.median(problem.y)).mean()) or 1.0
    epsilon = unit * float(10.0 ** rng.uniform(-3, 0))
    y = _labels(problem, 2) if classes else problem.y
    estimator = LPMachineClassifier if classes else LPMachineRegressor
    try:
        options = {} if classes else {"epsilon": epsilon}
        model = estimator(**arguments, **options, **problem.arguments).fit(
            problem.X, y, problem.weights
        )
    except Exception as error:
        return refused(problem, estimator.__name__, error)
    largest = largest_value(model, problem)
    ledger = opened(problem, estimator.__name__, largest, 1.0 / C)
    with enough_digits(largest * m, 1.0 / C, float(problem.w.max())):
        spans = Expansions(problem, model)
        there = spans.there
        costs = _costs(C, problem.w[there])
        loss = of_hinges(exact_losses.hinge if classes else exact_losses.tube(epsilon))
        targets = np.where(y == 1, 1.0, -1.0)[:, None] if classes else y.reshape(m, -1)
        intercepts = np.atleast_1d(model.intercept_)
        values, minima = [], []
        for j, column in enumerate(targets[there].T):
            y_j, c = numbers(column), numbers(costs)
            a, b = spans.coefficients[:, j], MP.mpf(float(intercepts[j]))
            values.append(abs(a).sum() + c @ loss.value(spans.f[:, j] + b, y_j))
            others = _vertices(spans.K, column, costs, None if classes else epsilon)
            best = [abs(a).sum() + c @ loss.value(spans.K @ a + b, y_j) for a, b in others]
            minima.append(min([values[-1], *best]))
        ledger.certificate(model.certificate_, "programme", values, minima)
    return ledger.report


def _vertices(K: Numbers, y: np.ndarray, costs: np.ndarray, epsilon: float | None):
    """Solutions of the programme in float64, as exact numbers."""
    dense = K.astype(float)
    size, unit = float(np.abs(dense).max()) or 1.0, 1.0
    middle = 0.0
    if epsilon is not None:
        middle = float(np.median(y))
        unit = float(np.abs(y - middle).mean()) or 1.0
    t, n = (y - middle) / unit, len(y)
    columns, ones, least = y[:, None] * dense / size, y, np.ones(n)
    if epsilon is not None:
        columns = np.vstack([dense, -dense]) / size
        ones = np.repeat([1.0, -1.0], n)
        least = np.concatenate([t - epsilon / unit, -t - epsilon / unit])
    slack = np.vstack([np.eye(n)] * (len(least) // n))
    cost = np.concatenate([np.full(2 * n, 1.0 / size), costs, [0.0]])
    found = linprog(
        cost / max(float(cost.max()), 1e-300),
        A_ub=-np.hstack([columns, -columns, slack, ones[:, None]]),
        b_ub=-least,
        bounds=[(0, None)] * (3 * n) + [(None, None)],
    )
    if found.status != 0:
        return []
    a = (found.x[:n] - found.x[n : 2 * n]) * unit / size
    return [(numbers(a), MP.mpf(float(found.x[-1])) * MP.mpf(unit) + MP.mpf(middle))]
