"""Hussain and Shawe-Taylor, *Theory of matching pursuit* (NIPS 21, 2008), run again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from pursuit._types import Floats
from pursuit.datasets import load_boston
from pursuit.estimators import KernelMatchingPursuitRegressor
from pursuit.papers.chart import Chart, Panel, Series
from pursuit.papers.common import Data, Progress, near, slashed, tell
from pursuit.papers.hs08_kpca import figure1_left, figure1_right
from pursuit.papers.result import PaperResult

__all__ = ["figure1_left", "figure1_right", "figure2"]

SETTINGS = ((200.0, 4.0), (50.0, 2.0), (6.5, 10.0))
"""Pairs of 2ω² and α whose argmin is nearest to the paper's."""

_PAPER_SIZE = 17
_MEAN_PRICE = 22.53
_SCALED_BY = 5.0
# Curves are flat at their minima: one within so many functions of the printed one is the same.
_NEAR = 2


def figure2(
    data: Data | None = None,
    *,
    settings: Sequence[tuple[float, float]] = SETTINGS,
    n_train: int = 450,
    n_sizes: int = 60,
    n_splits: int = 3,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    control: bool = False,
) -> PaperResult:
    """Figure 2: Theorem 3's bound for kernel matching pursuit on Boston, and the test error.

    The paper gives neither the kernel width nor α nor the variant. Of 7 widths, 8 values of α and
    two variants tried on three splits, a handful put the minimum of the bound at 17 ± 1, and the
    minima of all of them lie anywhere from 2 to 60: the three settings here are a match by search,
    not a reproduction. Back-fitting, targets as they are, no intercept. That the test error has its
    minimum at the same size is not to be had: with 56 test rows its minimum wanders.

    Parameters
    ----------
    data : (X, y), optional
        Other data than Boston; X is standardised.
    settings : sequence of pairs
        2ω² and α.
    n_train : int
        Rows to train on; the others are for testing.
    n_sizes : int
        Sizes to look at, from 1 on.
    n_splits : int
        Random splits; split s has the seed ``random_state + s``.
    random_state : int
        Seed of the first split.
    n_jobs : int, optional
        Threads.
    progress : callable, optional
        Called with a line of text as the work goes on.
    control : bool
        The targets of the training rows are shuffled: a negative control.

    Returns
    -------
    PaperResult
        Arrays ``width`` and ``tolerance``; ``bound`` and ``test_error`` (settings x splits x
        sizes), the bound and the root mean squared error on the test rows; ``bound_argmin`` and
        ``test_argmin`` (settings x splits).
    """
    if data is None:
        X, y = load_boston(return_X_y=True)
        y = y + _MEAN_PRICE
    else:
        X, y = (np.asarray(part, dtype=np.float64) for part in data)
    X = StandardScaler().fit_transform(X)
    shape = (len(settings), n_splits, n_sizes)
    bound, error = np.full(shape, np.nan), np.full(shape, np.nan)
    for i, (width, alpha) in enumerate(settings):
        for split in range(n_splits):
            order = np.random.default_rng(random_state + split).permutation(len(y))
            train, test = order[:n_train], order[n_train:]
            y_train = np.random.default_rng(split).permutation(y[train]) if control else y[train]
            model = KernelMatchingPursuitRegressor(
                gamma=1.0 / width,
                n_basis=n_sizes,
                fitting="backfit",
                error_tol=alpha,
                fit_intercept=False,
                n_jobs=n_jobs,
            ).fit(X[train], y_train)
            n = model.n_basis_
            bound[i, split, :n] = model.printed_bound_.value
            error[i, split, :n] = _errors(model, X[test], y[test])
            at = model.printed_bound_.best + 1
            tell(progress, f"2ω² = {width:g}, α = {alpha:g}, split {split + 1}: minimum at {at}")
    bound_argmin, test_argmin = np.nanargmin(bound, axis=2) + 1, np.nanargmin(error, axis=2) + 1
    first = bound[0, :, :].min(axis=1, initial=np.inf, where=np.isfinite(bound[0]))
    return PaperResult(
        name="HS08 Figure 2, bound and test error of kernel matching pursuit",
        paper_says=f"both have their minimum at {_PAPER_SIZE} functions, the bound is drawn / 5",
        we_get=f"bound: {slashed(np.median(bound_argmin, axis=1))} (by setting), test error: "
        f"{slashed(np.median(test_argmin, axis=1))}",
        spread=f"bound {bound_argmin.min()} to {bound_argmin.max()}, test error "
        f"{test_argmin.min()} to {test_argmin.max()} over {n_splits} splits",
        criteria={
            f"the bound's minimum is within 2 of {_PAPER_SIZE} for the first setting": near(
                bound_argmin[0], _PAPER_SIZE, _NEAR
            ),
            f"the test error's minimum is within 2 of {_PAPER_SIZE} there": near(
                test_argmin[0], _PAPER_SIZE, _NEAR
            ),
        },
        checks={
            "the bound is above 1 and below 1 when divided by 5": bool(
                np.all((first > 1) & (first < _SCALED_BY))
            )
        },
        arrays={
            "width": np.array([width for width, _ in settings]),
            "tolerance": np.array([alpha for _, alpha in settings]),
            "bound": bound,
            "test_error": error,
            "bound_argmin": bound_argmin,
            "test_argmin": test_argmin,
        },
        settings=f"back-fitting, no intercept, {n_train} rows, δ = .05",
        hindsight="width, α and variant (nearest of 112 combinations)",
        chart=Chart(
            [
                Panel(
                    [
                        Series(f"2ω² = {width:g}, α = {alpha:g}", np.arange(1, n_sizes + 1), values)
                        for (width, alpha), values in zip(settings, curves, strict=True)
                    ],
                    "Number of basis functions",
                    label,
                )
                for curves, label in (
                    (bound / _SCALED_BY, "Bound / 5"),
                    (error, "Root mean squared test error"),
                )
            ]
        ),
    )


def _errors(model: KernelMatchingPursuitRegressor, X: Floats, y: Floats) -> Floats:
    """Root mean squared test error of every size."""
    K = rbf_kernel(X, model.basis_, gamma=model.gamma)
    models = [model.truncated(n) for n in range(1, model.n_basis_ + 1)]
    predicted = np.stack([K[:, : small.n_basis_] @ small.dual_coef_ for small in models])
    root: Floats = np.sqrt(np.mean((predicted - y) ** 2, axis=1))
    return root
