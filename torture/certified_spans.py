"""Checks of the models of a span: sparse and exact Gaussian processes, kernel ridge regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from pursuit import ExactGPRegressor, Search, SparseGPRegressor, SparseKernelRidge
from torture import Report
from torture.exact_kernels import MP, Numbers, exact, exact_diag, numbers
from torture.exact_truth import LeastSquares, dots, enough_digits
from torture.hard_problems import Problem, difficulty, draw
from torture.ledger import Ledger

KINDS = "published", "dense", "scaled", "hybrid", "grouped", "two-level", "pcg"


def largest_value(model: Any, problem: Problem) -> float:
    """max k(x, x), as a float."""
    kernel = model._compiled(problem.X)
    return float(max(exact_diag(kernel.kernel, items(problem, problem.present))))


def opened(problem: Problem, estimator: str, largest: float, noise: float) -> Ledger:
    """A ledger for a problem."""
    w, m = problem.w, len(problem.present)
    # A matrix of float32 numbers is known no better than that.
    single = problem.precomputed and np.array_equal(problem.X, np.float32(problem.X))
    coarser = 16.0 * float(np.finfo(np.float32).eps / np.finfo(np.float64).eps) if single else 1.0
    kind = difficulty(m, coarser * largest, float(w.max()), noise)
    return Ledger(estimator, kind, f"{problem.name}, m={m}, noise={noise:.1e}, k={largest:.1e}")


def refused(problem: Problem, estimator: str, error: Exception) -> Report:
    """The report of a fit that raised."""
    report = Report()
    report.counts["refused"] += 1
    if not isinstance(error, ValueError | TypeError):
        report.failures.append(f"{estimator}: {type(error).__name__}: {error} [{problem.name}]")
    return report


def items(problem: Problem, index: Any = None) -> Any:
    """Rows as a kernel of the package takes them: numbers of rows of a matrix."""
    index = np.arange(len(problem.X)) if index is None else index
    return index if problem.precomputed else problem.X[index]


def points(problem: Problem, model: Any) -> Any:
    """The basis, likewise."""
    return model.basis_indices_ if problem.precomputed else model.basis_


class Span:
    """A model f = Σβ_j k(·, z_j) and the least-squares problem on some rows, in exact numbers."""

    def __init__(self, problem: Problem, model: Any, Y: np.ndarray, noise: float) -> None:
        self.problem, self.model = problem, model
        self.kernel = model._compiled(problem.X)
        rows, there = items(problem, problem.present), problem.present
        self.truth = LeastSquares(self._k(rows), Y[there], problem.w[there], noise)
        self.rows = rows

    def _k(self, A: Any, B: Any = None) -> Numbers:
        return exact(self.kernel.kernel, A, B)

    def values(self, model: Any) -> Numbers:
        """P(f) of each output."""
        coefficients = numbers(model.dual_coef_.reshape(len(model.dual_coef_), -1))
        z = points(self.problem, model)
        f = self._k(self.rows, z) @ coefficients
        return self.truth.value(f, dots(coefficients, self._k(z) @ coefficients))

    def deviations(self, new: Any, scale: np.ndarray) -> Numbers:
        """Standard deviations of new observations, in units of y: shape (n_new, n_outputs)."""
        variance = self.truth.variance(self._k(self.rows, new), exact_diag(self.kernel.kernel, new))
        roots = np.array([MP.sqrt(v) for v in variance], dtype=object)
        return roots[:, None] * numbers(scale)


def some_search(problem: Problem) -> Search:
    """How a basis is chosen."""
    rng = problem.rng
    score = str(rng.choice(["posterior", "evidence"]))
    pool = int(rng.integers(3, 30))
    return [
        Search(score=score),
        Search(pool_size=pool, rows=2 * pool, score=score),
        Search("fresh", pool_size=pool, score=score),
        Search("full", score=score),
    ][int(rng.integers(4))]


def check_gp(rng: np.random.Generator, seed: int) -> Report:
    """`SparseGPRegressor`: certificates of all kinds, evidence and error bars."""
    problem = draw(rng)
    m = len(problem.X)
    kind = str(rng.choice(KINDS))
    later = str(rng.choice(["", "", "partial_fit", "merge", "truncated"]))
    first = np.arange(m) if later not in ("partial_fit", "merge") else np.arange((m + 1) // 2)
    if problem.precomputed:
        later = "truncated" if later == "truncated" else ""
        first = np.arange(m)
    try:
        model = SparseGPRegressor(
            problem.kernel,
            noise=problem.noise,
            n_basis=int(rng.integers(1, m + 2)),
            optimizer=None,
            refine=False,
            calibration=[None, "loo"][int(rng.integers(2))],
            normalize_y=bool(rng.random() < 0.5),
            certificate=kind,
            search=some_search(problem),
            dtype=str(rng.choice(["float64", "float64", "float32"])),
            random_state=seed,
            n_jobs=1,
            **problem.arguments,
        ).fit(
            problem.X[first],
            problem.y[first],
            None if problem.weights is None else problem.w[first],
        )
        fitted = model
        rest = np.setdiff1d(np.arange(m), first)
        if later == "partial_fit" and len(rest):
            model.partial_fit(problem.X[rest], problem.y[rest], problem.w[rest])
        elif later == "merge" and len(rest):
            other = model.emptied().partial_fit(problem.X[rest], problem.y[rest], problem.w[rest])
            model = model.merge(other)
        elif later == "truncated" and model.n_basis_ > 1:
            fitted = model
            model = model.truncated(int(rng.integers(1, model.n_basis_)))
    except Exception as error:
        return refused(problem, "SparseGPRegressor", error)
    noise, largest = float(model.noise_), largest_value(model, problem)
    ledger = opened(problem, "SparseGPRegressor", largest, noise)
    if not model.n_basis_:
        return ledger.report
    Y = model._scale.normalize(problem.y.reshape(m, -1))
    with enough_digits(largest * m, noise, float(problem.w.max())):
        span = Span(problem, model, Y, noise)
        whole = len(first) == m
        if whole:
            ledger.certificate(fitted.certificate_, kind, span.values(fitted), span.truth.minimum)
        _certify(ledger, span, model)
        _path(ledger, span, model, str(rng.choice(KINDS)))
        _evidence(ledger, model, span.truth.log_evidence())
        if not problem.precomputed:
            _deviations(ledger, span, model)
    return ledger.report


def _certify(ledger: Ledger, span: Span, model: Any) -> None:
    """Certificates of every kind, computed again."""
    values, problem = span.values(model), span.problem
    several: list[tuple[str, dict[str, int]]] = [(kind, {}) for kind in KINDS]
    # So few rows are one group, unless groups are smaller still.
    several += [("grouped", {"group_rows": size}) for size in (1, 4)]
    for kind, options in several:
        try:
            found = model.certify(problem.X, problem.y, problem.weights, kind=kind, **options)
        except Exception as error:
            ledger.count(f"certify refused, {ledger.difficulty}")
            if not isinstance(error, ValueError | TypeError):
                ledger.fail(f"certify {kind}: {type(error).__name__}: {error}")
            continue
        ledger.certificate(found, kind, values, span.truth.minimum)


def _path(ledger: Ledger, span: Span, model: Any, kind: str) -> None:
    """Certificates of all truncations: no value may be on the wrong side of the minimum."""
    problem, minimum = span.problem, sum(span.truth.minimum)
    try:
        path = model.certify_path(problem.X, problem.y, problem.weights, kind=kind)
    except Exception as error:
        ledger.count(f"certify refused, {ledger.difficulty}")
        if not isinstance(error, ValueError | TypeError):
            ledger.fail(f"certify_path {kind}: {type(error).__name__}: {error}")
        return
    for found in path.certificates:
        if found is not None:
            ledger.at_most(found.lower, minimum, f"{kind} path lower")
            ledger.at_least(found.upper, minimum, f"{kind} path upper")


def _evidence(ledger: Ledger, model: Any, evidence: Any) -> None:
    try:
        lower, upper = model.log_evidence_bounds_
    except Exception as error:
        ledger.fail(f"log_evidence_bounds_: {type(error).__name__}: {error}")
        return
    ledger.at_most(lower, evidence, "evidence lower")
    ledger.at_least(upper, evidence, "evidence upper")


def _deviations(ledger: Ledger, span: Span, model: Any) -> None:
    """Bounds on error bars, with and without tolerance."""
    problem = span.problem
    new = np.concatenate([problem.new, problem.X[:2]])
    truth = span.deviations(new, model._scale.scale)
    for tol in (None, float(10.0 ** problem.rng.uniform(-4, -0.5))):
        try:
            lower, upper, *_ = model.std_bounds(new, problem.X, problem.weights, tol=tol)
        except Exception as error:
            ledger.fail(f"std_bounds(tol={tol}): {type(error).__name__}: {error}")
            continue
        what = "std_bounds" if tol is None else "std_bounds(tol)"
        bounds_of(ledger, lower, upper, truth, what)


def bounds_of(
    ledger: Ledger, lower: Any, upper: Any, truth: Numbers, what: str, sizes: Any = None
) -> None:
    """Check arrays of bounds, relative to the truth or to ``sizes``."""
    sizes = truth if sizes is None else sizes
    ends = zip(np.ravel(lower), np.ravel(upper), truth.ravel(), sizes.ravel(), strict=True)
    for low, high, value, size in ends:
        ledger.at_most(low, value, f"{what} lower", size)
        ledger.at_least(high, value, f"{what} upper", size)


def check_ridge(rng: np.random.Generator, seed: int) -> Report:
    """`SparseKernelRidge`: all methods, certificates of all kinds."""
    method = str(rng.choice(["greedy", "kappa", "random", "subspace"]))
    refit = bool(rng.random() < 0.5)
    problem = draw(rng, multiple=refit or method in ("random", "subspace"))
    m, kind = len(problem.X), str(rng.choice(KINDS))
    search: Any = "auto"
    if method == "kappa":
        search = Search("fresh", pool_size=min(int(rng.integers(1, 12)), len(problem.present)))
    try:
        model = SparseKernelRidge(
            problem.kernel,
            alpha=problem.noise,
            method=method,
            refit=refit,
            n_basis=int(rng.integers(1, m + 2)),
            search=search,
            certificate=kind,
            random_state=seed,
            n_jobs=1,
            **problem.arguments,
        ).fit(problem.X, problem.y, problem.weights)
    except Exception as error:
        return refused(problem, "SparseKernelRidge", error)
    largest = largest_value(model, problem)
    ledger = opened(problem, "SparseKernelRidge", largest, problem.noise)
    if not model.n_basis_:
        return ledger.report
    with enough_digits(largest * m, problem.noise, float(problem.w.max())):
        span = Span(problem, model, problem.y.reshape(m, -1), problem.noise)
        minimum = span.truth.minimum
        ledger.certificate(model.certificate_, kind, span.values(model), minimum)
        _certify(ledger, span, model)
    return ledger.report


def check_exact_gp(rng: np.random.Generator, seed: int) -> Report:
    """`ExactGPRegressor`: certificates of all iterations, and error bars."""
    problem = draw(rng)
    m, solver = len(problem.X), str(rng.choice(["cg", "cg", "cholesky"]))
    try:
        model = ExactGPRegressor(
            problem.kernel,
            noise=problem.noise,
            optimizer=None,
            normalize_y=bool(rng.random() < 0.5),
            solver=solver,
            max_iter=int(rng.choice([1, 3, 10, 200])),
            preconditioner_size=int(rng.integers(0, 20)) if solver == "cg" else "auto",
            random_state=seed,
            n_jobs=1,
            **problem.arguments,
        ).fit(problem.X, problem.y, problem.weights)
    except Exception as error:
        return refused(problem, "ExactGPRegressor", error)
    noise, largest = float(model.noise_), largest_value(model, problem)
    ledger = opened(problem, "ExactGPRegressor", largest, noise)
    Y = model._scale.normalize(problem.y.reshape(m, -1))
    with enough_digits(largest * m, noise, float(problem.w.max())):
        span = Span(problem, model, Y, noise)
        minimum = span.truth.minimum
        coefficients = numbers(model.dual_coef_.reshape(len(model.dual_coef_), -1))
        f = span.truth.K @ coefficients
        values = span.truth.value(f, dots(coefficients, f))
        ledger.certificate(model.certificate_, solver, values, minimum)
        path = model.path_
        for found, proved in zip(path.certificates[:-1], path.certified[:-1], strict=True):
            if proved and found is not None:
                ledger.at_most(found.lower, sum(minimum), f"{solver} lower")
                ledger.at_least(found.upper, sum(minimum), f"{solver} upper")
        if not problem.precomputed:
            _exact_deviations(ledger, span, solver)
    return ledger.report


def _exact_deviations(ledger: Ledger, span: Span, solver: str) -> None:
    problem, model = span.problem, span.model
    new = np.concatenate([problem.new, problem.X[:2]])
    truth = span.deviations(new, model._scale.scale)
    try:
        lower, upper = model.std_bounds(new, float(10.0 ** problem.rng.uniform(-4, -0.5)))
    except Exception as error:
        ledger.fail(f"std_bounds: {type(error).__name__}: {error}")
        return
    bounds_of(ledger, lower, upper, truth, f"{solver} std_bounds")
