"""Hulls: regression, boosting and mixtures against the minimum over all atoms that were named."""

import numpy as np
import pytest
from certificates.driver import audit, faults
from certificates.hulls import (
    huber,
    l1_vertices,
    log_exp,
    log_likelihood,
    of_margins,
    over_vertices,
    pinball_ball,
    squared,
)
from certificates.problems import (
    KINDS,
    draw_kernel,
    draw_rows,
    draw_targets,
    draw_weights,
    own_points,
)

from pursuit import HullBoostClassifier, HullMixture, HullRegressor, Search

NARROW = 1e-5
"""Relative width up to which an oracle's enclosure says something."""


def narrow(truth, scale, width=NARROW):
    """The enclosure, if it is narrow enough to see a fault."""
    assert truth.upper - truth.lower <= width * scale + 2 * truth.slack, (truth, scale)
    return truth


def check_regressor(seed, m=None):
    rng = np.random.default_rng(seed)
    real = m is not None
    m = int(rng.integers(12, 100)) if m is None else m
    X = draw_rows(rng, m, int(rng.integers(1, 4)))
    kernels = [draw_kernel(rng, X.shape[1], [k for k in KINDS if k not in ("poly", "sum")])]
    if kernels[0].name == "matern" and rng.random() < 0.6:
        kernels.append(draw_kernel(rng, X.shape[1], ["scales"]))
    weights = draw_weights(rng, m)
    w = np.ones(m) if weights is None else weights
    y = draw_targets(rng, X)
    unit = float(np.sqrt(np.average(y**2, weights=w)))
    names = ["squared", "squared", "huber", "absolute", "quantile"]
    loss = names[int(rng.integers(5))] if not real else names[seed % 5]
    quantile = float(rng.uniform(0.1, 0.9))
    given = kernels[0].given(X)
    what = int(rng.integers(4)) if not kernels[0].precomputed else 0
    atoms = "kernel"
    if what == 1:
        atoms, kernels = "features", []
    elif what == 2:
        atoms = own_points(rng, X, int(rng.integers(3, 40)))
    there = w > 0
    if what == 1:
        P = np.asarray(X, dtype=np.float64)
    else:
        P = np.hstack([k.matrix(X, atoms if what == 2 else X[there]) for k in kernels])
    P, target, share = P[there], y[there], w[there] / w[there].sum()
    largest = float(np.abs(P).max()) or 1.0
    radius = unit * float(10.0 ** rng.uniform(-1, 1)) / largest
    given_kernel = kernels[0].kernel if len(kernels) == 1 else [k.kernel for k in kernels]
    arguments = kernels[0].arguments if kernels else {}
    pool = {}
    if what == 0 and rng.random() < 0.5:
        pool = {"search": Search("pooled", pool_size=int(rng.integers(3, 30)))}
    elif what == 2:
        pool = {"search": Search("pooled", candidates=atoms)}
    options = {} if loss == "squared" else {"loss": loss}
    if loss == "quantile":
        options["quantile"] = quantile
    steps = ["corrective", "joint", "frank-wolfe"] if loss in ("squared", "huber") else [None]
    step = steps[int(rng.integers(len(steps)))]
    model = HullRegressor(
        "features" if what == 1 else "kernel",
        kernel=given_kernel if kernels else "rbf",
        radius=radius,
        n_terms=int(rng.integers(1, 40)) if not real else 60,
        tol=float(10.0 ** rng.uniform(-8, -1)),
        random_state=seed,
        n_jobs=1,
        **({} if step is None else {"step": step}),
        **arguments,
        **pool,
        **options,
    ).fit(given, y, weights)
    if loss in ("absolute", "quantile"):
        q = 0.5 if loss == "absolute" else quantile
        truth = pinball_ball(P, target, share, radius, q)
        truth = truth.times(2.0) if loss == "absolute" else truth
        scale, levels = unit, (1.0, 1.0) if loss == "absolute" else (q, 1.0 - q)
        zero = float(share @ np.where(target > 0, levels[0] * target, -levels[1] * target))
    else:
        f = squared(target, share) if loss == "squared" else huber(target, share, model.delta_)
        truth, scale = over_vertices(f, l1_vertices(P, radius)), unit**2
        zero = f.value(0.0 * target)
    return faults(model.certificate_, narrow(truth, scale), zero=zero)


def stump_vertices(X, edges):
    """±1 on each side of each threshold, up to the sign; the constant among them."""
    columns = [np.ones(len(X))]
    for column, thresholds in zip(X.T, edges, strict=True):
        columns += [np.where(column <= edge, 1.0, -1.0) for edge in thresholds]
    both = np.unique(np.column_stack(columns), axis=1)
    return np.hstack([both, -both])


def boosting_loss(name, y, w, A):
    """The four losses of a vote, as functions of the margin y v."""
    if name == "log-exp":
        return log_exp(y, w, A)
    if name == "logistic":
        return of_margins(
            y,
            w,
            lambda z: np.logaddexp(0.0, -A * z),
            lambda z: -A / (1.0 + np.exp(A * z)),
            lambda z: A**2 / ((1.0 + np.exp(A * z)) * (1.0 + np.exp(-A * z))),
        )
    if name == "exponential":
        return of_margins(
            y,
            w,
            lambda z: np.exp(-A * z),
            lambda z: -A * np.exp(-A * z),
            lambda z: A**2 * np.exp(-A * z),
        )
    return of_margins(
        y,
        w,
        lambda z: (1.0 - A * z) ** 2,
        lambda z: -2.0 * A * (1.0 - A * z),
        lambda z: np.full_like(z, 2.0 * A**2),
    )


def check_boosting(seed, m=None):
    rng = np.random.default_rng(seed)
    real = m is not None
    m = int(rng.integers(12, 90)) if m is None else m
    X = np.asarray(draw_rows(rng, m, int(rng.integers(1, 4))), dtype=np.float64)
    score = np.sin(2 * X[:, 0]) + X[:, -1] ** 2 + rng.uniform(0.1, 1.5) * rng.normal(size=m)
    n_classes = int(rng.choice([2, 2, 3]))
    codes = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    weights = draw_weights(rng, m)
    w = np.ones(m) if weights is None else weights
    for code in range(n_classes):
        w[np.flatnonzero(codes == code)[:3]] = 1.0
    name = str(rng.choice(["log-exp", "log-exp", "logistic", "exponential", "least-squares"]))
    A = float(rng.choice([0.5, 2.0, 8.0])) if name != "log-exp" else float(rng.choice([2, 8, 128]))
    options = {} if name == "log-exp" else {"loss": name}
    model = HullBoostClassifier(
        scale=A,
        n_terms=int(rng.integers(1, 30)) if not real else 40,
        step=str(rng.choice(["joint", "frank-wolfe", "corrective"])),
        tol=float(10.0 ** rng.uniform(-6, -1)),
        random_state=seed,
        n_jobs=1,
        **options,
    ).fit(X, codes, weights)
    there = w > 0
    X, codes, share = X[there], codes[there], w[there] / w[there].sum()
    edges = []
    for column in X.T:
        distinct = np.unique(column)
        if len(distinct) <= 255:
            edges.append(0.5 * distinct[:-1] + 0.5 * distinct[1:])
        else:
            levels = np.linspace(0, 1, 256)[1:-1]
            edges.append(np.unique(np.quantile(column, levels, method="lower")))
    vertices = stump_vertices(X, edges)
    classes = [1] if n_classes == 2 else list(range(n_classes))
    proofs = [booster.certificate for booster in model.boosters_]
    found = []
    for code, proof in zip(classes, proofs, strict=True):
        signs = np.where(codes == code, 1.0, -1.0)
        f = boosting_loss(name, signs, share, A)
        # Losses of a vote differ by up to A, or by its exponential.
        scale = f.value(0 * signs) if name == "exponential" else max(A, 1.0)
        truth = narrow(over_vertices(f, vertices), scale, 1e-3)
        found += faults(proof, truth, zero=f.value(0 * signs))
    return found


def check_mixture(seed, m=None):
    rng = np.random.default_rng(seed)
    real = m is not None
    m = int(rng.integers(12, 90)) if m is None else m
    X = np.asarray(draw_rows(rng, m, int(rng.integers(1, 4))), dtype=np.float64)
    X[: m // 3] += float(rng.choice([0.0, 3.0, 8.0]))
    X *= float(10.0 ** rng.choice([-3, 0, 0, 3]))
    weights = draw_weights(rng, m)
    w = np.ones(m) if weights is None else weights
    bandwidths = np.unique(rng.choice([1.0, 0.5, 0.25, 0.12], 3))
    kind = str(rng.choice(["full", "diag", "spherical"]))
    terms = int(rng.integers(1, 20)) if not real else 15
    criterion = str(rng.choice(["bic", "certificate"]))
    tol = float(10.0 ** rng.uniform(-4, -1))
    model = HullMixture(
        refine=False,
        bandwidths=bandwidths,
        covariance_type=kind,
        n_terms=terms,
        criterion=criterion,
        tol=tol if criterion == "certificate" else None,
        random_state=seed,
        n_jobs=1,
    ).fit(X, None, weights)
    there = w > 0
    X, share = X[there], w[there] / w[there].sum()
    variance = share @ (X - share @ X) ** 2
    if kind == "spherical":
        variance = np.full_like(variance, variance.mean())
    deviation = np.sqrt(variance)
    centres = np.unique(X, axis=0)
    squares = (((X[:, None] - centres) / deviation) ** 2).sum(axis=2)
    d = X.shape[1]
    atoms = np.hstack([np.exp(-0.5 * squares / h**2) / h**d for h in bandwidths])
    # In units of the deviations, and of 1/(2π)^(d/2): constants that come back as a shift.
    shift = float(np.log(deviation).sum()) + 0.5 * d * np.log(2.0 * np.pi)
    inner = over_vertices(log_likelihood(share), atoms)
    rounding = inner.slack + 1e-12 * (1.0 + abs(shift))
    truth = narrow(type(inner)(inner.lower + shift, inner.upper + shift, rounding), 1.0)
    with np.errstate(divide="ignore"):
        zero = shift - float((share @ np.log(atoms)).max())
    found = faults(model.certificate_, truth, zero=zero)
    score = model.score(X, sample_weight=share)
    if abs(model.certificate_.upper + score) > 1e-9 * (1.0 + abs(score)):
        found.append(f"upper {model.certificate_.upper} is not -score {-score}")
    return found


CHECKS = [check_regressor, check_boosting, check_mixture]


@pytest.mark.parametrize("check", CHECKS)
def test_no_certificate_is_false(check, size):
    audit(check, range(size(10, 200)))


@pytest.mark.verify
@pytest.mark.parametrize(
    ("check", "m"), [(check_regressor, 2100), (check_boosting, 5200), (check_mixture, 600)]
)
def test_no_certificate_is_false_at_real_size(check, m):
    audit(lambda seed: check(seed, m=m), range(0, 10, 2))


def test_a_pool_of_rows_is_not_the_hull():
    """2,600 rows: all kernel functions reach .572678, and no certificate may say more."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2600, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.1 * rng.normal(size=2600)
    model = HullRegressor(
        kernel="rbf", gamma=0.3, radius=5.0, n_terms=400, random_state=0, n_jobs=1
    ).fit(X, y)
    assert model.certificate_.lower <= 0.572678 + 1e-6
    assert model.certificate_.gap <= 0.01 * model.certificate_.upper
