"""Choosing by the evidence: the value against the dense bound, Gram form against V-form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import make_task, tasks

from pursuit.gram import gram_statistics
from pursuit.greedy import CostMeter, MaxSize, Pursuit, kernel_matrix
from pursuit.linalg import Workers
from pursuit.objectives import GramEvidence, SpanEvidence
from pursuit.testing import check_objective

DUPLICATES = 2, 9


def negative_bound(K, S, Y, w, noise):
    """-ELBO by its definition: Gaussian density of the Nystroem matrix, less the missed trace.

    Noise σ²/w_i; the constant ½Σ log(2πσ²/w) of each output is left out.
    """
    low = K[:, S] @ np.linalg.pinv(K[np.ix_(S, S)], hermitian=True) @ K[S] if S else 0.0 * K
    root = np.sqrt(w)
    scaled = np.eye(len(K)) + root[:, None] * low * root / noise
    missed = w @ np.diag(K - low) / noise
    quadratic = (root[:, None] * Y * np.linalg.solve(scaled, root[:, None] * Y)).sum() / noise
    return 0.5 * (quadratic + Y.shape[1] * (np.linalg.slogdet(scaled)[1] + missed))


@pytest.fixture(scope="module")
def workers():
    with Workers(1) as pool:
        yield pool


def gram_form(task, workers, capacity):
    statistics = gram_statistics(task.sample, task.kernel, task.X, workers=workers)
    K = kernel_matrix(task.kernel, task.X, workers)
    return GramEvidence(statistics, K, task.noise, capacity=capacity, workers=workers)


def span_form(task, workers, capacity):
    return SpanEvidence(task.sample, task.kernel, task.noise, capacity=capacity, workers=workers)


forms = pytest.mark.parametrize("form", [gram_form, span_form])


@forms
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_contract(form, n_outputs, workers):
    task = make_task(np.random.default_rng(0), 14, n_outputs=n_outputs, weighted=True)
    task.X[DUPLICATES[1]] = task.X[DUPLICATES[0]]
    check_objective(lambda: form(task, workers, 6), DUPLICATES, n_steps=6)


@forms
@given(data=st.data())
def test_takes_what_raises_the_bound_most(form, data, workers):
    task = data.draw(tasks(kernels=("gaussian", "exponential")))
    n = data.draw(st.integers(1, min(5, len(task.X))))
    objective = form(task, workers, n)
    parts = task.K, task.Y, task.w, task.noise

    def value(S):
        return negative_bound(parts[0], S, *parts[1:])

    start, S = value([]), []
    assert objective.value == pytest.approx(start, rel=1e-9)
    for row in Pursuit(objective, CostMeter(task.kernel)).run([MaxSize(n)]).index.tolist():
        free = [i for i in range(len(task.X)) if i not in S]
        best = min(value([*S, i]) for i in free)
        assert value([*S, row]) <= best + 1e-6 * abs(start)
        S.append(row)
    assert objective.value == pytest.approx(value(S), abs=1e-6 * abs(start))


def test_both_forms_choose_alike(workers, size):
    m, n = size((80, 15), (300, 60))
    task = make_task(np.random.default_rng(3), m, n_outputs=2, weighted=True)
    paths = [
        Pursuit(form(task, workers, n), CostMeter(task.kernel)).run([MaxSize(n)])
        for form in (gram_form, span_form)
    ]
    np.testing.assert_array_equal(paths[0].index, paths[1].index)
    np.testing.assert_allclose(paths[0].value, paths[1].value, rtol=1e-8)
    assert np.all(np.diff(paths[0].value) < 0)


def test_primal_is_that_of_the_span(workers):
    task = make_task(np.random.default_rng(1), 40, weighted=True)
    gram, span = gram_form(task, workers, 6), span_form(task, workers, 6)
    for objective in (gram, span):
        Pursuit(objective, CostMeter(task.kernel)).run([MaxSize(6)])
    assert gram.primal == pytest.approx(span.primal, rel=1e-9)
    np.testing.assert_allclose(gram.coefficients(), span.coefficients(), rtol=1e-6)
