"""Passes over rows in a span, against loops."""

import numpy as np
import pytest
from tasks import make_task

from pursuit.gram import SpannedView, over_span, paired_moments
from pursuit.linalg import Workers
from pursuit.rows import as_rows


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    made = [make_task(rng, 1300, parameter=0.7), make_task(rng, 1300, name="exponential")]
    points = [made[0].X[:5], made[1].X[7:10]]
    whiteners = [
        np.linalg.inv(np.linalg.cholesky(task.between(Z, Z)))
        for task, Z in zip(made, points, strict=True)
    ]
    return made, points, whiteners


def test_chunks_come_in_row_order_with_their_coordinates(views):
    task, Z, W = views[0][0], views[1][0], views[2][0]
    with Workers(2) as workers:
        found = over_span(
            as_rows(task.X),
            task.kernel,
            Z,
            W,
            lambda V, items, where: (V, np.asarray(items), where),
            workers,
        )
    V = np.concatenate([part[0] for part in found])
    np.testing.assert_allclose(V, task.between(task.X, Z) @ W.T, atol=1e-12)
    np.testing.assert_array_equal(np.concatenate([part[1] for part in found]), task.X)
    assert [part[2].start for part in found] == [0, 512, 1024]
    assert found[-1][2].stop == 1300


def test_paired_moments_are_sums_over_rows(views):
    made, points, whiteners = views
    w = np.random.default_rng(1).uniform(0.1, 2, 1300)
    spanned = [
        SpannedView(as_rows(task.X), task.kernel, Z, W)
        for task, Z, W in zip(made, points, whiteners, strict=True)
    ]
    results = []
    for n_jobs in (1, 2):
        with Workers(n_jobs) as workers:
            results.append(paired_moments(spanned, w, workers))
    np.testing.assert_array_equal(*results)
    expected = np.zeros((9, 9))
    K = [task.between(task.X, Z) for task, Z in zip(made, points, strict=True)]
    for i in range(1300):
        z = np.concatenate([whiteners[0] @ K[0][i], whiteners[1] @ K[1][i], [1.0]])
        expected += w[i] * np.outer(z, z)
    np.testing.assert_allclose(results[0], expected, rtol=1e-10, atol=1e-10)
