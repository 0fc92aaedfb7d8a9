"""Certificates on SB01's own data, with the exact solution beside: how tight they really are."""

from functools import cache

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from sklearn.gaussian_process.kernels import RBF

from pursuit import Search, SparseGPRegressor
from pursuit.papers.common import standardised

NOISE = 0.1
# (2ω², basis functions): at most this many times the true distance.
HYBRID_WITHIN = {(10, 100): 2.5, (10, 250): 1.3, (1, 250): 2.5}


@pytest.fixture(scope="module")
def abalone(data_dir):
    X, y = standardised(None)
    return X[:4000], y[:4000]


@pytest.fixture(scope="module")
def exact_minimum(abalone):
    X, y = abalone

    @cache
    def of_width(width):
        factor = cho_factor(RBF(np.sqrt(width / 2))(X) + NOISE * np.eye(len(X)))
        return 0.5 * NOISE * y @ cho_solve(factor, y)

    return of_width


def fit(abalone, width, n, **arguments):
    return SparseGPRegressor(
        RBF(np.sqrt(width / 2)),
        noise=NOISE,
        n_basis=n,
        optimizer=None,
        normalize_y=False,
        **arguments,
    ).fit(*abalone)


def fit_published(abalone, width, n, seed, certificate=None):
    how = {
        "search": Search("fresh", pool_size=60),
        "random_state": seed,
        "certificate": certificate,
    }
    return fit(abalone, width, n, **how)


def tightness(model, abalone, minimum):
    """The hybrid gap in units of the true distance; never below 1."""
    found = model.certify(*abalone, kind="hybrid")
    ratio = found.gap / (found.upper - minimum)
    assert ratio >= 1
    return ratio


@pytest.mark.verify
@pytest.mark.parametrize(("width", "n"), HYBRID_WITHIN)
def test_hybrid_is_tight_after_a_full_search(abalone, exact_minimum, width, n):
    model = fit(abalone, width, n, search="full", certificate=None)
    assert tightness(model, abalone, exact_minimum(width)) <= HYBRID_WITHIN[width, n]


@pytest.mark.verify
@pytest.mark.parametrize(
    ("width", "n", "seed"),
    [
        (10, 100, 0),
        (10, 100, 1),
        (10, 100, 2),
        (10, 250, 0),
        (10, 250, 1),
        (10, 250, 2),
        (1, 250, 0),
        (1, 250, 1),
        (1, 250, 2),
    ],
)
def test_hybrid_is_tight_after_the_published_search(abalone, exact_minimum, width, n, seed):
    model = fit_published(abalone, width, n, seed)
    assert tightness(model, abalone, exact_minimum(width)) <= HYBRID_WITHIN[width, n]


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(3))
def test_the_published_gap_is_held_by_its_floor(abalone, exact_minimum, seed):
    """After 250 steps it is still .0245, while the model is within .0003 of the optimum."""
    model = fit_published(abalone, 10, 250, seed, certificate="published")
    assert model.path_.gap[-1] == pytest.approx(0.0245, abs=0.001)
    path = model.certify_path(*abalone, kind="published", floor=True)
    assert np.all(path.gap >= path.floor)
    assert path.floor[-1] > 0.9 * path.gap[-1]
    assert path.upper[-1] - exact_minimum(10) < 0.02 * path.floor[-1]
