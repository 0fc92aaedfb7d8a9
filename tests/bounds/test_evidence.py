"""Bounds on the log evidence from the statistics of a basis, against dense determinants."""

import copy
import pickle

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from tasks import make_task, tasks

from pursuit.bounds import EvidenceBounds, evidence_bounds


def log_density(Y, covariance):
    """log N(y; 0, covariance), summed over outputs."""
    _, log_determinant = np.linalg.slogdet(covariance)
    fitted = np.sum(Y * np.linalg.solve(covariance, Y))
    outputs, m = Y.shape[1], len(Y)
    return -0.5 * (fitted + outputs * (log_determinant + m * np.log(2 * np.pi)))


def from_basis(task, S):
    """The statistics of the basis S, formed densely, and their bounds."""
    K, w = task.K, task.w
    R = np.linalg.cholesky(K[np.ix_(S, S)])
    V = np.linalg.solve(R, K[S]).T
    L = np.linalg.cholesky(V.T @ (w[:, None] * V) + task.noise * np.eye(len(S)))
    z = np.linalg.solve(L, V.T @ (w[:, None] * task.Y))
    return evidence_bounds(L, z, w @ task.Y**2, w @ np.diag(K), task.noise, len(K), np.log(w).sum())


def separated(task, seed, n):
    """At most n rows that are far from dependent."""
    K, S = task.K, []
    for i in np.random.default_rng(seed).permutation(len(K)):
        missed = oracles.nystroem_residual(K, S)[i, i] if S else K[i, i]
        if len(S) < n and missed > 1e-4 * K[i, i]:
            S.append(int(i))
    return S


@given(tasks(kernels=("gaussian", "exponential")), st.integers(0, 2**32 - 1), st.integers(1, 18))
def test_the_exact_evidence_lies_between(task, seed, n):
    S = separated(task, seed, n)
    found = from_basis(task, S)
    exact = log_density(task.Y, task.K + np.diag(task.noise / task.w))
    slack = 1e-8 * (abs(exact) + np.abs(found).max())
    assert found.lower <= exact + slack
    assert found.upper >= exact - slack


@given(tasks(kernels=("gaussian", "exponential")), st.integers(0, 2**32 - 1), st.integers(1, 18))
def test_both_bounds_are_what_they_say(task, seed, n):
    """Lower: the low-rank density less τ/2σ². Upper: its determinant, the shifted quadratic."""
    S = separated(task, seed, n)
    found = from_basis(task, S)
    E = oracles.nystroem_residual(task.K, S)
    low_rank, W_inverse, m = task.K - E, np.diag(1 / task.w), len(E)
    tau, outputs = float(task.w @ np.diag(E)), task.Y.shape[1]
    lower = log_density(task.Y, low_rank + task.noise * W_inverse) - outputs * tau / (
        2 * task.noise
    )
    _, log_determinant = np.linalg.slogdet(low_rank + task.noise * W_inverse)
    shifted = np.linalg.solve(low_rank + (task.noise + tau) * W_inverse, task.Y)
    constant = outputs * (log_determinant + m * np.log(2 * np.pi))
    upper = -0.5 * (np.sum(task.Y * shifted) + constant)
    # What the trace and the targets say without a basis.
    norm, trace = float(task.w @ (task.Y**2).sum(axis=1)), float(task.w @ np.diag(task.K))
    weights = m * np.log(2 * np.pi) - np.log(task.w).sum()
    least, most = m * np.log(task.noise), m * np.log(task.noise + trace / m)
    lower = max(lower, -0.5 * (outputs * (most + weights) + norm / task.noise))
    upper = min(upper, -0.5 * (outputs * (least + weights) + norm / (task.noise + trace)))
    scale = np.abs([lower, upper]).max()
    np.testing.assert_allclose(found, (lower, upper), rtol=1e-6, atol=1e-6 * scale)


def test_one_row_by_hand():
    """K = 2, σ² = 0.5, w = 4, y = 3: N(3; 0, 2 + 0.5/4), and the basis holds the row."""
    L = np.array([[np.sqrt(4 * 2 + 0.5)]])
    z = np.array([[np.sqrt(2) * 4 * 3]]) / L
    found = evidence_bounds(L, z, np.array([36.0]), 8.0, 0.5, 1, np.log(4.0))
    exact = multivariate_normal(cov=2.125).logpdf(3.0)
    np.testing.assert_allclose(found, (exact, exact), rtol=1e-8)
    assert found.lower < exact < found.upper


def test_more_basis_functions_bring_the_bounds_closer():
    task = make_task(np.random.default_rng(0), 18, name="exponential", weighted=True, noise=0.5)
    order = list(range(18))
    bounds = [from_basis(task, order[:n]) for n in range(1, 19)]
    assert np.all(np.diff([b.lower for b in bounds]) >= -1e-9)
    assert np.all(np.diff([b.upper for b in bounds]) <= 1e-9)
    assert bounds[-1].upper - bounds[-1].lower < 1e-8


def test_it_is_a_pair():
    bounds = EvidenceBounds(-3.0, -1.0, 40)
    lower, upper = bounds
    assert (lower, upper) == (bounds.lower, bounds.upper) == (-3.0, -1.0) == bounds
    assert len(bounds) == 2
    assert isinstance(bounds, tuple)


@pytest.mark.parametrize(
    "reborn", [lambda b: pickle.loads(pickle.dumps(b)), copy.copy, copy.deepcopy]
)
def test_it_survives_pickling_and_copying(reborn):
    bounds = EvidenceBounds(-3.0, 20.0, 40)
    again = reborn(bounds)
    assert type(again) is EvidenceBounds
    assert again == bounds
    assert (again.n_values, again.loose, str(again)) == (40, True, str(bounds))


def test_it_says_when_it_is_loose():
    """A tenth of a nat a value is the border."""
    tight, loose = EvidenceBounds(-5.0, -1.0, 40), EvidenceBounds(-5.0, -0.9, 40)
    assert not tight.loose
    assert loose.loose
    assert "log evidence between -5 and -1 (tight, 0.1 per target value)" in str(tight)
    assert "loose" in str(loose)
    assert "use more basis functions" in str(loose)
    assert "loose" not in str(tight)
