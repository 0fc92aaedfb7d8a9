"""minimize_quadratic, and the l1 penalty of SparseKernelRidge, against dense solutions."""

import numpy as np
import pytest
from certificates.driver import EPS, Enclosure, audit, faults
from certificates.problems import draw_kernel, draw_rows, draw_targets, draw_weights
from scipy import sparse
from scipy.optimize import nnls
from scipy.sparse.linalg import aslinearoperator
from sklearn.linear_model import Lasso, LassoLars


def quadratic_truth(H, b):
    """-½b'H⁺b, by eigenvalues that stand clear of rounding; b must be in the range of H.

    With errors of 8nε‖H‖ in the matrix and x = H⁺b the minimum moves by ½ of that times ‖x‖².
    """
    values, vectors = np.linalg.eigh(H)
    clear = values > 8.0 * len(b) * EPS * values[-1]
    along = vectors.T @ b
    minimum = -0.5 * float(np.sum(along[clear] ** 2 / values[clear]))
    x = vectors[:, clear] @ (along[clear] / values[clear])
    slack = 16.0 * len(b) * EPS * (float(values[-1]) * float(x @ x) + abs(minimum))
    return Enclosure(minimum, minimum, slack)


def check_quadratic(seed, n=None):
    from pursuit import minimize_quadratic

    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 120)) if n is None else n
    rank = n if rng.random() < 0.6 else int(rng.integers(1, n + 1))
    scale = float(10.0 ** rng.choice([-4, 0, 0, 4]))
    spread = np.geomspace(1.0, float(10.0 ** -rng.uniform(0, 5)), rank)
    B = (rng.normal(size=(n, rank)) * np.sqrt(spread)) / np.sqrt(n)
    ridge = float(10.0 ** rng.uniform(-3, 0)) if rng.random() < 0.5 else 0.0
    H = scale * (B @ B.T + ridge * np.eye(n))
    b = H @ rng.normal(size=n) * float(10.0 ** rng.choice([-3, 0, 3]))
    how = int(rng.integers(3))
    given = [H, sparse.csr_array(H), aslinearoperator(H)][how]
    options = {}
    if ridge and rng.random() < 0.7:
        options["shift"] = 0.99 * scale * ridge
    found = minimize_quadratic(
        given,
        b,
        n_terms=int(rng.integers(1, n + 1)) if n < 500 else 60,
        pool_size=int(rng.integers(1, 70)) if rng.random() < 0.7 else None,
        random_state=seed,
        **options,
    )
    if found.certificate is None:
        return []
    return faults(found.certificate, quadratic_truth(H, b), zero=0.0)


def lasso_truth(K, y, w, alpha):
    """½Σw(y - Ka)² + α‖a‖₁ by three algorithms, and dual points of their residuals.

    Where columns are nearly the same, one or two of them do not get to the end.
    For ν = s√w(y - Ka) with |K_j'√Wν| ≤ α the minimum is at least ½‖√Wy‖² - ½‖√Wy - ν‖².
    """
    A, t = np.sqrt(w)[:, None] * K, np.sqrt(w) * y
    unit = float(np.linalg.norm(t)) or 1.0
    known = {"alpha": alpha / (unit * len(t)), "fit_intercept": False}
    most = 20_000 if len(t) < 200 else 2_000
    solvers = LassoLars(max_iter=10_000, **known), Lasso(tol=1e-12, max_iter=most, **known)
    found = [each.fit(A, t / unit).coef_ for each in solvers]
    found.append(_least_distance(A, t / unit, alpha / unit))
    ends = [_lasso_ends(A, t, unit * a, alpha) for a in found]
    lower, upper = max(low for low, _ in ends), min(high for _, high in ends)
    return Enclosure(lower, upper, 32.0 * len(t) * EPS * float(t @ t))


def _least_distance(A, t, alpha):
    """The residual is the nearest point to t with |A'ν| ≤ α (Lawson & Hanson, chapter 23)."""
    limits = np.concatenate([A.T @ t, -A.T @ t]) - alpha
    E = np.vstack([np.hstack([-A, A]), limits])
    lengths = np.linalg.norm(E, axis=0)
    lengths[lengths == 0.0] = 1.0
    goal = np.append(np.zeros(len(A)), 1.0)
    u = nnls(E / lengths, goal, maxiter=100 * len(lengths))[0] / lengths
    above, below = np.split(u, 2)
    return (above - below) / (1.0 - limits @ u)


def _lasso_ends(A, t, a, alpha):
    """Dual and primal value of coefficients."""
    left = t - A @ a
    upper = 0.5 * float(left @ left) + alpha * float(np.abs(a).sum())
    prices = float(np.abs(A.T @ left).max())
    limit = alpha / prices if prices > 0 else 1.0
    best = min(float(t @ left) / max(float(left @ left), 1e-300), limit)
    nu = best * left
    return 0.5 * float(t @ t) - 0.5 * float((t - nu) @ (t - nu)), upper


def check_l1_ridge(seed, m=None):
    from pursuit import SparseKernelRidge

    rng = np.random.default_rng(seed)
    m = int(rng.integers(12, 100)) if m is None else m
    X = draw_rows(rng, m, int(rng.integers(1, 4)))
    kinds = ["rbf", "laplacian", "matern", "callable", "precomputed"]
    kernel = draw_kernel(rng, X.shape[1], kinds)
    weights = draw_weights(rng, m)
    w = np.ones(m) if weights is None else weights
    y = draw_targets(rng, X)
    there = w > 0
    K = kernel.matrix(X)[np.ix_(there, there)]
    most = float(np.abs(K.T @ (w[there] * y[there])).max())
    alpha = most * float(10.0 ** rng.uniform(-3, 0.1))
    model = SparseKernelRidge(
        kernel.kernel,
        alpha=alpha,
        penalty="l1",
        n_basis=int(rng.integers(1, m + 1)) if m < 500 else 60,
        tol=float(10.0 ** rng.uniform(-8, -1)) if rng.random() < 0.5 else None,
        random_state=seed,
        n_jobs=1,
        **kernel.arguments,
    ).fit(kernel.given(X), y, weights)
    truth = lasso_truth(K, y[there], w[there], alpha)
    scale = 0.5 * float(w @ y**2)
    assert truth.upper - truth.lower <= 1e-8 * scale + 2 * truth.slack, (truth, scale)
    return faults(model.certificate_, truth, zero=scale)


@pytest.mark.parametrize("check", [check_quadratic, check_l1_ridge])
def test_no_certificate_is_false(check, size):
    audit(check, range(size(12, 200)))


@pytest.mark.verify
@pytest.mark.parametrize(("check", "n"), [(check_quadratic, 2100), (check_l1_ridge, 700)])
def test_no_certificate_is_false_at_real_size(check, n):
    audit(lambda seed: check(seed, n), range(0, 10, 2))
