"""Machines and the GP classifier: their certificates against the machine of the full kernel."""

import warnings

import numpy as np
import pytest
from certificates.driver import FEW_ROWS, Enclosure, audit, faults, thresholds, total
from certificates.problems import (
    draw_kernel,
    draw_labels,
    draw_rows,
    draw_targets,
    draw_weights,
    own_points,
)
from certificates.spans import expansion_rounding, logistic, machine, one_class
from sklearn.exceptions import ConvergenceWarning

from pursuit import LowRankOneClassSVM, LowRankSVC, LowRankSVR, Search, SparseGPClassifier
from pursuit.estimators.svm import fit

MOST = 150
"""Basis functions at real size; small problems may have one for every row."""
NARROW = 1e-4
"""Relative width up to which an oracle's enclosure says something; most are of 1e-8."""


class MachineCase:
    """Rows, a kernel, weights, and how a basis is chosen."""

    def __init__(self, seed, m=None):
        self.rng = rng = np.random.default_rng(seed)
        m = int(rng.integers(20, 110)) if m is None else m
        self.seed = seed
        self.X = draw_rows(rng, m, int(rng.integers(1, 4)))
        self.kernel = draw_kernel(rng, self.X.shape[1])
        self.weights = draw_weights(rng, m)
        self.w = np.ones(m) if self.weights is None else self.weights
        self.given = self.kernel.given(self.X)
        self.C = float(10.0 ** rng.uniform(-2, 1))

    def arguments(self, **more):
        """Of a machine; pools small enough for rows to be left out."""
        rng, free = self.rng, not self.kernel.precomputed
        pool = int(rng.integers(10, 40))
        search = [
            Search("pooled"),
            Search("pooled", pool_size=pool, rows=2 * pool),
            Search("full"),
            Search("pooled", candidates=own_points(rng, self.X)),
            Search("pooled", candidates="kmeans", pool_size=12),
        ][int(rng.integers(5 if free else 3))]
        return {
            "kernel": self.kernel.kernel,
            "n_basis": int(rng.integers(1, min(len(self.X), MOST) + 2)),
            "random_state": self.seed,
            "n_jobs": 1,
            **self.kernel.arguments,
            "search": search,
            **more,
        }

    def machine_arguments(self):
        """Those that SVC, SVR and the one-class machine have in common."""
        rng = self.rng
        grows = rng.random() < 0.3
        return self.arguments(
            certificate="exact" if grows else str(rng.choice(["exact", "exact", "diagonal"])),
            tol=float(10.0 ** rng.uniform(-6, 0)) if grows else None,
            dtype=str(rng.choice(["float64", "float32"])),
        )

    def labels(self):
        """Two or three classes, each with rows that have weight."""
        n_classes = int(self.rng.choice([2, 2, 3]))
        y = draw_labels(self.rng, self.X, n_classes)
        for each in range(n_classes):
            self.w[np.flatnonzero(y == each)[:2]] = 1.0
        return y, n_classes

    def refine(self):
        movable = self.kernel.name in ("rbf", "matern", "scales") and len(self.X) > 20
        return 3 if movable and self.rng.random() < 0.3 else False


def judged(case, model, found, truth: Enclosure, scale: float, zero: float, ridge=0.5):
    """Faults of certificates, if the oracle knows enough to see any.

    ``scale`` is the objective's, up to which the losses' slopes add, and ``zero`` its value without
    a function.
    """
    assert truth.upper - truth.lower <= NARROW * scale + 2 * truth.slack, (truth, scale)
    points = case.X[model.basis_indices_] if model.basis_ is None else model.basis_
    prior = np.diag(case.kernel.matrix(case.X))
    rounding = expansion_rounding(
        model.dual_coef_.reshape(len(points), -1),
        np.diag(case.kernel.matrix(points)),
        prior,
        np.full(len(prior), scale / len(prior)),
        ridge,
    )
    truth = Enclosure(truth.lower, truth.upper, truth.slack + rounding)
    known = [each for each in found if each is not None]
    return [fault for each in known for fault in faults(each, truth, zero=zero)]


def check_svc(seed, m=None):
    case = MachineCase(seed, m)
    rng = case.rng
    y, n_classes = case.labels()
    squared = bool(rng.random() < 0.5)
    pairs = n_classes > 2 and rng.random() < 0.5
    balanced = rng.random() < 0.3
    model = LowRankSVC(
        C=case.C,
        loss="squared_hinge" if squared else "hinge",
        multi_class="ovo" if pairs else "ovr",
        class_weight="balanced" if balanced else None,
        refine=case.refine(),
        **case.machine_arguments(),
    ).fit(case.given, y, case.weights)
    again = model.certify(case.given, y, case.weights)
    K, costs = case.kernel.matrix(case.X), case.C * case.w * model.class_weight_[y]
    if n_classes == 2:
        columns = [(np.where(y == 1, 1.0, -1.0), costs)]
    elif pairs:
        columns = [
            (np.where(y == i, 1.0, -1.0), np.where((y == i) | (y == j), costs, 0.0))
            for i in range(n_classes)
            for j in range(i + 1, n_classes)
        ]
    else:
        columns = [(np.where(y == i, 1.0, -1.0), costs) for i in range(n_classes)]
    truth = total([machine(K, s, c, squared=squared, epsilon=None) for s, c in columns])
    # Every slack of f = 0 is 1.
    scale = float(sum(c.sum() for _, c in columns))
    return judged(case, model, [model.certificate_, again], truth, scale, scale)


def check_svr(seed, m=None):
    case = MachineCase(seed, m)
    rng = case.rng
    y = draw_targets(rng, case.X, rng.choice([None, 2]))
    unit = float(np.abs(y).max())
    squared = bool(rng.random() < 0.5)
    epsilon, C = unit * float(10.0 ** rng.uniform(-3, -0.5)), case.C if squared else case.C * unit
    model = LowRankSVR(
        C=C,
        epsilon=epsilon,
        loss="squared_epsilon_insensitive" if squared else "epsilon_insensitive",
        refine=case.refine(),
        **case.machine_arguments(),
    ).fit(case.given, y, case.weights)
    again = model.certify(case.given, y, case.weights)
    K, Y = case.kernel.matrix(case.X), y.reshape(len(y), -1)
    costs = C * case.w
    parts = [machine(K, column, costs, squared=squared, epsilon=epsilon) for column in Y.T]
    scale = float(costs.sum()) * (unit**2 if squared else unit) * len(parts)
    slack = np.maximum(np.abs(Y - np.average(Y, axis=0, weights=costs)) - epsilon, 0.0)
    zero = float((costs @ slack ** (2 if squared else 1)).sum())
    return judged(case, model, [model.certificate_, again], total(parts), scale, zero)


def check_one_class(seed, m=None):
    case = MachineCase(seed, m)
    nu = float(case.rng.uniform(0.02, 1.0))
    model = LowRankOneClassSVM(nu=nu, **case.machine_arguments()).fit(
        case.given, sample_weight=case.weights
    )
    again = model.certify(case.given, case.weights)
    K = case.kernel.matrix(case.X)
    truth = one_class(K, case.w, nu)
    mass = nu * float(case.w.sum())
    scale = mass**2 * float(np.diag(K).max())
    return judged(case, model, [model.certificate_, again], truth, scale, 0.0)


def check_gp_classifier(seed, m=None):
    case = MachineCase(seed, m)
    rng = case.rng
    y, n_classes = case.labels()
    model = SparseGPClassifier(
        scale=float(10.0 ** rng.uniform(-1, 1)),
        class_weight="balanced" if rng.random() < 0.3 else None,
        optimizer=None,
        refine=3 if case.kernel.name in ("matern", "scales") and rng.random() < 0.3 else False,
        calibration=rng.choice(["loo", None]) if not case.kernel.precomputed else None,
        certificate="exact",
        **case.arguments(),
    ).fit(case.given, y, case.weights)
    found = [model.certificate_, model.certify(case.given, y, case.weights)]
    if model.n_basis_ > 2:
        shorter = model.truncated(int(rng.integers(1, model.n_basis_)))
        found.append(shorter.certify(case.given, y, case.weights))
    K, weights = case.kernel.matrix(case.X), case.w * model.class_weight_[y]
    signs = [np.where(y == each, 1.0, -1.0) for each in range(n_classes)]
    parts = [logistic(K, s, weights, model.scale_) for s in (signs if n_classes > 2 else signs[1:])]
    mass = float(weights.sum())
    zero = len(parts) * mass * np.log(2.0)
    return judged(case, model, found, total(parts), mass, zero, 0.5 / model.scale_)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("certificate", ["exact", "diagonal"])
def test_rounded_features_do_not_certify(loss, certificate):
    """P of the machine is that of its float64 values, in whatever type features are kept."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=300) > 0
    model = LowRankSVC(
        C=0.1, gamma=0.05, loss=loss, n_basis=300, certificate=certificate, dtype="float32"
    ).fit(X, y)
    slack = 1.0 - np.where(y, 1.0, -1.0) * model.decision_function(X)
    losses = np.maximum(slack, 0.0) ** (2 if loss == "squared_hinge" else 1)
    K = np.exp(-0.05 * ((model.basis_[:, None] - model.basis_) ** 2).sum(axis=2))
    value = 0.1 * losses.sum() + 0.5 * float(model.dual_coef_ @ K @ model.dual_coef_)
    assert model.certificate_.upper == pytest.approx(value, rel=1e-11)


@pytest.mark.parametrize("seed", [65, 70])
def test_growth_ends_where_no_function_is_left(seed, monkeypatch):
    """Rows that a pursuit adds may depend on the span to working precision: it does not grow."""
    rounds, grow = [], fit._grow

    def counted(span, *others):
        rounds.append(len(span))
        assert len(rounds) < 20, f"spans of {rounds[-5:]} functions, again and again"
        return grow(span, *others)

    monkeypatch.setattr(fit, "_grow", counted)
    with warnings.catch_warnings(), thresholds(FEW_ROWS if seed % 2 else None):
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert not check_one_class(seed)


CHECKS = [check_svc, check_svr, check_one_class, check_gp_classifier]


@pytest.mark.parametrize("check", CHECKS)
def test_no_certificate_is_false(check, size):
    audit(check, range(size(10, 200)))


@pytest.mark.verify
@pytest.mark.parametrize("check", CHECKS)
def test_no_certificate_is_false_at_real_size(check):
    audit(lambda seed: check(seed, m=2200), range(0, 10, 2))
