"""GP, ridge and exact GP: all kinds of certificates against the minimum over all functions."""

from dataclasses import replace

import numpy as np
import pytest
from certificates.driver import audit, faults, thresholds, total
from certificates.problems import draw_kernel, draw_rows, draw_targets, draw_weights, own_points
from certificates.spans import least_squares
from sklearn.gaussian_process.kernels import RBF, Matern

from pursuit import ExactGPRegressor, Search, SparseGPRegressor, SparseKernelRidge, limits

MOST = 150
"""Basis functions at real size; small problems may have one for every row."""
GP_KINDS = "published", "dense", "scaled", "hybrid", "grouped", "two-level", "pcg"


def normalised(Y, weights):
    """Weighted mean and deviation of the columns; deviations of nothing are 1."""
    mean = np.average(Y, axis=0, weights=weights)
    deviation = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weights))
    return mean, np.where(deviation > 0, deviation, 1.0)


class SpanCase:
    """A random least-squares problem: rows, kernel, weights, targets."""

    def __init__(self, seed, m=None, multiple=True):
        self.rng = rng = np.random.default_rng(seed)
        m = int(rng.integers(12, 110)) if m is None else m
        self.X = draw_rows(rng, m, int(rng.integers(1, 4)))
        self.kernel = draw_kernel(rng, self.X.shape[1])
        self.weights = draw_weights(rng, m)
        self.w = np.ones(m) if self.weights is None else self.weights
        self.y = draw_targets(rng, self.X, rng.choice([None, 2, 3]) if multiple else None)
        self.normalize = bool(rng.random() < 0.5)
        self.given = self.kernel.given(self.X)
        self.noise = float(10.0 ** rng.uniform(-3, 1))

    def units(self):
        """Mean and scale by which the fit normalises the targets."""
        Y = self.y.reshape(len(self.y), -1)
        if not self.normalize:
            return np.zeros(Y.shape[1]), np.ones(Y.shape[1])
        return normalised(Y, self.w)

    def truth(self, noise, K=None, X=None, y=None, w=None):
        """The dense minimum, for the rows of the fit or for others."""
        K = self.kernel.matrix(self.X if X is None else X) if K is None else K
        w = self.w if w is None else w
        return total([least_squares(K, column, w, noise) for column in self.targets(y).T])

    def targets(self, y=None):
        """In the units of the fit."""
        y = self.y if y is None else y
        mean, scale = self.units()
        return (y.reshape(len(y), -1) - mean) / scale

    def zero(self, y=None, w=None):
        """P of predicting the mean, or 0 where the fit does not normalise."""
        w = self.w if w is None else w
        return 0.5 * float((w @ self.targets(y) ** 2).sum())

    def faults(self, certificate, model):
        """On the rows of the fit."""
        word = "the mean" if self.normalize else "0"
        said = [] if certificate.baseline == f"predicting {word}" else [certificate.baseline]
        return said + faults(certificate, self.truth(model.noise_), zero=self.zero())

    def some_arguments(self):
        """How a basis is chosen."""
        rng, free = self.rng, not self.kernel.precomputed
        choice = int(rng.integers(6 if free else 4))
        pool = int(rng.integers(10, 40))
        score = str(rng.choice(["posterior", "evidence"]))
        return [
            {"search": Search(score=score)},
            {
                "search": Search(
                    pool_size=pool, rows=2 * pool, rounds=int(rng.integers(1, 3)), score=score
                )
            },
            {"search": Search("fresh", pool_size=int(rng.integers(3, 60)), score=score)},
            {"search": Search("full", score=score)},
            {"search": Search(candidates=own_points(rng, self.X))},
            {"search": Search(candidates="kmeans", pool_size=12)},
        ][choice]


def later(case, model):
    """One more certificate: of other rows, of a truncation, of a path, of a grown model."""
    rng, m = case.rng, len(case.X)
    kind = str(rng.choice(GP_KINDS))
    what = int(rng.integers(4))
    if what == 0:
        found = model.certify(case.given, case.y, case.weights, kind=kind)
        return case.faults(found, model)
    if what == 1 and model.n_basis_ > 1:
        model = model.truncated(int(rng.integers(1, model.n_basis_)))
        found = model.certify(case.given, case.y, case.weights, kind=kind)
        return case.faults(found, model)
    if what == 2 and not case.kernel.precomputed:
        other = draw_rows(rng, m, case.X.shape[1]).astype(case.X.dtype)
        y = case.y[rng.permutation(m)]
        w = np.ones(m)
        found = model.certify(other, y, w, kind=kind)
        truth = case.truth(model.noise_, X=other, y=y, w=w)
        return faults(found, truth, zero=case.zero(y, w))
    path = model.certify_path(case.given, case.y, case.weights, kind=kind)
    return [fault for found in path.certificates for fault in case.faults(found, model)]


def check_gp(seed, m=None, kind=None):
    case = SpanCase(seed, m)
    rng = case.rng
    arguments = case.some_arguments()
    learned = case.kernel.name in ("scales", "matern") and rng.random() < 0.1
    model = SparseGPRegressor(
        case.kernel.kernel,
        noise="learn" if learned else case.noise,
        n_basis=int(rng.integers(1, min(len(case.X), MOST) + 2)),
        optimizer="evidence" if learned else None,
        refine=3
        if _movable(case) and rng.random() < 0.2 and arguments["search"].kind == "pooled"
        else False,
        calibration=rng.choice(["loo", None]),
        normalize_y=case.normalize,
        certificate=str(rng.choice(GP_KINDS)) if kind is None else kind,
        tol=float(10.0 ** rng.uniform(-6, 0)) if rng.random() < 0.3 else None,
        dtype=str(rng.choice(["float64", "float32"])),
        random_state=seed,
        n_jobs=1,
        **case.kernel.arguments,
        **arguments,
    ).fit(case.given, case.y, case.weights)
    if learned:
        case.kernel = type(case.kernel)("learned", model.kernel_, {}, model.kernel_)
    found = []
    if model.certificate_ is not None:
        found = case.faults(model.certificate_, model)
    if model.n_basis_:
        found += later(case, model)
    return found


def _movable(case):
    return case.kernel.name in ("scales", "matern") and len(case.X) > 20


def check_ridge(seed, m=None):
    rng = np.random.default_rng((seed, 1))
    method = ["greedy", "kappa", "random", "subspace"][seed % 4]
    refit = bool(rng.random() < 0.5)
    case = SpanCase(seed, m, multiple=refit or method in ("random", "subspace"))
    case.normalize = False
    per_step = min(int(rng.integers(1, 12)), len(case.X))
    search = Search("fresh", pool_size=per_step) if method == "kappa" else "auto"
    model = SparseKernelRidge(
        case.kernel.kernel,
        alpha=case.noise,
        method=method,
        refit=refit,
        n_basis=int(rng.integers(1, min(len(case.X), MOST) + 2)),
        search=search,
        tol=float(10.0 ** rng.uniform(-6, 0)) if rng.random() < 0.3 else None,
        certificate=str(rng.choice(GP_KINDS)),
        dtype=str(rng.choice(["float64", "float32"])) if method == "random" else "float64",
        random_state=seed,
        n_jobs=1,
        **case.kernel.arguments,
    ).fit(case.given, case.y, case.weights)
    if not model.n_basis_:
        return []
    return case.faults(model.certificate_, model) + later(case, model)


def check_exact(seed, m=None):
    case = SpanCase(seed, m)
    rng = case.rng
    solver, size = str(rng.choice(["cg", "cg", "cholesky"])), int(rng.integers(0, 20))
    model = ExactGPRegressor(
        case.kernel.kernel,
        noise=case.noise,
        optimizer=None,
        normalize_y=case.normalize,
        solver=solver,
        max_iter=int(rng.choice([1, 3, 10, 200])),
        preconditioner_size=size if solver == "cg" else "auto",
        dtype=str(rng.choice(["float64", "float32"])),
        random_state=seed,
        n_jobs=1,
        **case.kernel.arguments,
    ).fit(case.given, case.y, case.weights)
    path = model.path_
    proved = [c for c, exact in zip(path.certificates, path.certified, strict=True) if exact]
    assert model.certificate_ is proved[-1]
    return [fault for certificate in proved for fault in case.faults(certificate, model)]


@pytest.mark.parametrize("check", [check_gp, check_ridge, check_exact])
def test_no_certificate_is_false(check, size):
    audit(check, range(size(20, 200)))


@pytest.mark.verify
@pytest.mark.parametrize("check", [check_gp, check_ridge, check_exact])
def test_no_certificate_is_false_at_real_size(check):
    audit(lambda seed: check(seed, m=2200), range(0, 10, 2))


def test_a_share_of_too_much_is_caught():
    """The audit itself: what a bound below P_min, or a baseline above P(0), promises is false."""
    case = SpanCase(3)
    model = SparseKernelRidge(
        case.kernel.kernel, alpha=case.noise, n_basis=3, **case.kernel.arguments
    ).fit(case.given, case.y, case.weights)
    case.normalize, found = False, model.certificate_
    assert not case.faults(found, model)
    easy = replace(found, target_norms=1.5 * found.target_norms)
    assert easy.captured > found.captured
    assert "P(0) is" in case.faults(easy, model)[0]
    high = replace(found, lower_per_output=found.upper_per_output)
    assert any("captured" in fault for fault in case.faults(high, model))


@pytest.mark.parametrize("noise", [1.0, 10.0, 100.0])
def test_float32_sums_do_not_certify(noise):
    """With all rows in the basis, P of float32 sums would be below the minimum every other time."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(80, 2))
        y = 10.0 * np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=80)
        kernel = Matern(0.3, nu=0.5)
        model = SparseKernelRidge(
            kernel,
            alpha=noise,
            method="random",
            n_basis=80,
            certificate="published",
            dtype="float32",
            random_state=0,
        ).fit(X, y)
        truth = least_squares(kernel(X), y, np.ones(80), noise)
        assert not faults(model.certificate_, truth)


def test_a_selection_of_a_selection_of_a_matrix_can_be_certified():
    """Rows without weight are left out, then those that judge, then all but a pool."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    K, y = RBF(0.5)(X), np.sin(X[:, 0]) + 0.1 * rng.normal(size=120)
    w = np.where(np.arange(120) % 7 == 0, 0.0, 1.0)
    options = {"search": "fresh", "calibration": "loo", "certificate": "published"}
    with thresholds(50):
        model = SparseGPRegressor(
            "precomputed", noise=0.1, n_basis=10, normalize_y=False, random_state=0, **options
        ).fit(K, y, w)
    assert not faults(model.certificate_, least_squares(K, y, w, model.noise_))


def test_thresholds_are_those_of_sampling():
    """What is patched is what the audits rely on; everything is put back."""
    with thresholds(50) as names:
        assert "pursuit.limits.SMALL_ROWS" in names
        assert "pursuit.estimators.span.certify.ALL_ROWS_DUAL" in names
    assert limits.SMALL_ROWS == 2_000
