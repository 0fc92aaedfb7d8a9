"""Hussain and Shawe-Taylor, *Theory of matching pursuit* (NIPS 21, 2008), run again.

Figure 1: how many rows should span a kernel PCA. Figure 2: how many functions kernel matching
pursuit should have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from pursuit._types import Floats
from pursuit.bounds import Bound, kpca_bound
from pursuit.datasets import load_boston
from pursuit.estimators import KernelMatchingPursuitRegressor, Search, SparseKernelPCA
from pursuit.papers.common import Data, Panel, PaperResult, Progress, Series, ignore, near, slashed

Spectrum = Callable[[int], Floats]

SPECTRA: dict[str, Spectrum] = {
    "sd x10": lambda n: np.full(n, 10.0),
    "sd x20": lambda n: np.full(n, 20.0),
    "sd x50": lambda n: np.full(n, 50.0),
    "sd 30..5": lambda n: np.linspace(30.0, 5.0, n),
    "sd 10..1": lambda n: np.linspace(10.0, 1.0, n),
    "sd 10 exp": lambda n: 10.0 * np.exp(-np.arange(n) / 20.0),
}
"""Standard deviations of the large directions; all others have 1."""

_PAPER_BOSTON, _PAPER_TOY, _PAPER_TOY_KPCA = 43, 46, 30
_DELTA = 0.05


def figure1_left(
    X: ArrayLike | None = None,
    *,
    width: float | None = None,
    n_train: int = 450,
    n_sizes: int = 100,
    n_runs: int = 10,
    random_state: int = 0,
    progress: Progress = ignore,
    control: bool = False,
) -> PaperResult:
    """Figure 1, left: bounds and test residual of sparse kernel PCA on Boston.

    The paper does not state the kernel's width. With 2ω² = d/2, as in Smola and Schölkopf (2000),
    the compression bound has its minimum at 43 to 48 rows on ten splits (paper: 43); 2ω² = 5 gives
    56, 10 gives 25 to 33. The bound of Shawe-Taylor et al. is above 1, hence trivial, as printed.

    Parameters
    ----------
    X : array, optional
        Other data than Boston, which are standardised.
    width : float, optional
        2ω²; half the number of features by default.
    n_train : int
        Number of training rows; the others are test rows.
    n_sizes : int
        Largest size; all sizes from 1 on are looked at.
    n_runs : int
        Number of random splits; split s has the seed ``random_state + s``.
    random_state : int
        Seed of the first split.
    progress : callable, optional
        Called with a line of text as the work goes on.
    control : bool
        Negative control: choose rows at random.

    Returns
    -------
    PaperResult
        Arrays ``bound``, ``tight_bound``, ``kpca_bound``, ``training`` and ``test`` (splits x
        sizes), and ``argmin``, ``tight_argmin`` and ``kpca_argmin`` (splits).
    """
    rows = load_boston(return_X_y=True)[0] if X is None else np.asarray(X, dtype=np.float64)
    Z = StandardScaler().fit_transform(rows)
    gamma = 1.0 / (0.5 * Z.shape[1] if width is None else width)
    curves: dict[str, list[Floats]] = {name: [] for name in _CURVES}
    for split in range(n_runs):
        order = np.random.default_rng(random_state + split).permutation(len(Z))
        train, test = Z[order[:n_train]], Z[order[n_train:]]
        search = Search("fresh", pool_size=1) if control else "full"
        model = SparseKernelPCA(
            gamma=gamma, n_basis=n_sizes, search=search, random_state=split
        ).fit(train)
        spectrum = np.linalg.eigvalsh(rbf_kernel(train, gamma=gamma))[::-1]
        measured = model.residual_curves(test)
        for name, values in {
            "bound": model.printed_bound_.value,
            "tight_bound": model.generalization_bound_.value,
            "kpca_bound": _kpca(spectrum, n_train, model.n_basis_).value,
            "training": measured["training rows outside the basis"][1],
            "test": measured["new rows"][1],
        }.items():
            curves[name].append(values)
        progress(f"split {split + 1}: minimum at {np.argmin(curves['bound'][-1]) + 1}")
    arrays = _collected(curves)
    argmin, bound = arrays["argmin"], arrays["bound"]
    return PaperResult(
        name="HS08 Figure 1 left, sparse kernel PCA on Boston",
        paper_says=f"minimum of the bound at {_PAPER_BOSTON}, KPCA bound trivial",
        we_get=f"minimum at {argmin.mean():.1f}, KPCA bound >= {arrays['kpca_bound'].min():.2f}",
        spread=f"{argmin.min()} to {argmin.max()} over {n_runs} splits",
        criteria={"mean minimum within 2 of 43": near(argmin.mean(), _PAPER_BOSTON, _NEAR)},
        checks={
            "bound below the KPCA bound at every size": bool(np.all(bound < arrays["kpca_bound"])),
            "bound below 1 at its minimum": bool(np.all(bound.min(axis=1) < 1)),
            "KPCA bound above 1 at every size": bool(np.all(arrays["kpca_bound"] > 1)),
            "test residual below the bound": bool(np.all(arrays["test"] < bound)),
        },
        arrays=arrays,
        settings=f"2ω² = {1 / gamma:g}, δ = .05, {n_train} rows to train on",
        hindsight="the width (nearest of ten)",
        panels=[
            Panel(
                [
                    Series(label, np.arange(1, arrays[name].shape[1] + 1), arrays[name])
                    for name, label in _LEFT_CURVES
                ],
                _SIZE,
                "Squared distance from the span",
            )
        ],
    )


def figure1_right(
    spectra: Mapping[str, Spectrum] = SPECTRA,
    *,
    n_rows: int = 1000,
    n_features: int = 450,
    n_large: int = 50,
    n_sizes: int = 120,
    random_state: int = 0,
    progress: Progress = ignore,
    control: bool = False,
) -> PaperResult:
    """Figure 1, right: the bound finds how many directions are large, in a linear toy problem.

    Gaussian rows, and a linear kernel divided by the largest squared norm. The paper says only that
    50 of 450 directions have "considerably larger eigenvalues". Where they are clearly larger, the
    minimum is near 50. Some decaying spectra put it at 46. Of those tried, none puts the minimum of
    the KPCA bound at 30 at the same time.

    Parameters
    ----------
    spectra : mapping of str to callable
        Standard deviations of the large directions, by name.
    n_rows, n_features, n_large : int
        Size of the problem.
    n_sizes : int
        Largest size; all sizes from 1 on are looked at.
    random_state : int
        Seed of the rows.
    progress : callable, optional
        Called with a line of text as the work goes on.
    control : bool
        Negative control: no direction is larger than the others.

    Returns
    -------
    PaperResult
        Arrays ``bound``, ``tight_bound``, ``kpca_bound`` and ``training`` (spectra x sizes),
        ``argmin``, ``tight_argmin`` and ``kpca_argmin`` (spectra).
    """
    Z = np.random.default_rng(random_state).normal(size=(n_rows, n_features))
    curves: dict[str, list[Floats]] = {name: [] for name in _CURVES if name != "test"}
    for name, spectrum in spectra.items():
        scales = np.ones(n_features)
        scales[:n_large] = 1.0 if control else spectrum(n_large)
        K = (Z * scales) @ (Z * scales).T
        K /= np.diag(K).max()
        model = SparseKernelPCA("precomputed", n_basis=n_sizes, search="full", delta=_DELTA).fit(K)
        eigenvalues: Floats = np.linalg.eigvalsh(np.asarray(K, np.float64))[::-1]
        bound = _kpca(eigenvalues, n_rows, model.n_basis_, float(np.sum(np.diag(K) ** 2)))
        curves["bound"].append(model.printed_bound_.value)
        curves["tight_bound"].append(model.generalization_bound_.value)
        curves["kpca_bound"].append(bound.value)
        curves["training"].append(model.residual_curves()["training rows outside the basis"][1])
        progress(f"{name}: minimum at {np.argmin(curves['bound'][-1]) + 1}")
    arrays = _collected(curves)
    argmin, kpca = arrays["argmin"], arrays["kpca_argmin"]
    as_printed = np.abs(argmin - _PAPER_TOY) <= _NEAR
    return PaperResult(
        name="HS08 Figure 1 right, toy problem",
        paper_says=f"minimum at {_PAPER_TOY}, that of the KPCA bound at {_PAPER_TOY_KPCA}",
        we_get=f"{slashed(argmin)}, KPCA {slashed(kpca)} for {', '.join(spectra)}",
        spread="one draw each",
        criteria={
            f"minimum within 10 of {n_large} for some spectrum": bool(
                np.any(np.abs(argmin - n_large) <= 10)
            ),
            "minimum within 2 of 46 for some spectrum": bool(as_printed.any()),
            "and there that of the KPCA bound within 2 of 30": bool(
                np.any(as_printed & (np.abs(kpca - _PAPER_TOY_KPCA) <= _NEAR))
            ),
        },
        arrays=arrays,
        settings=f"{n_rows} x {n_features} Gaussian, linear kernel over its largest value, δ = .05",
        hindsight="the spectra (six of about twenty)",
        panels=[
            Panel(
                [
                    Series(label, np.arange(1, len(values) + 1), values)
                    for label, values in zip(spectra, arrays[name], strict=True)
                ],
                _SIZE,
                "Squared distance from the span, bound",
                title,
            )
            for name, title in (("bound", "Theorem 2"), ("kpca_bound", "KPCA bound"))
        ],
    )


_SIZE = "Number of rows in the basis"
_CURVES = ("bound", "tight_bound", "kpca_bound", "training", "test")
_LEFT_CURVES: tuple[tuple[str, str], ...] = (
    ("bound", "Theorem 2"),
    ("tight_bound", "Theorem 2, exact count"),
    ("kpca_bound", "KPCA bound"),
    ("training", "training rows"),
    ("test", "test rows"),
)


def _kpca(eigenvalues: Floats, n_rows: int, n_sizes: int, squares: float | None = None) -> Bound:
    """Shawe-Taylor et al.'s bound from the spectrum of the whole kernel matrix."""
    return kpca_bound(
        eigenvalues[:n_sizes],
        float(eigenvalues.sum()),
        float(n_rows) if squares is None else squares,
        n_rows,
        _DELTA,
    )


def _collected(curves: dict[str, list[Floats]]) -> dict[str, Any]:
    """Curves as arrays, and the sizes at which the bounds have their minima."""
    arrays: dict[str, Any] = {name: np.array(values) for name, values in curves.items()}
    for name, of in (
        ("argmin", "bound"),
        ("tight_argmin", "tight_bound"),
        ("kpca_argmin", "kpca_bound"),
    ):
        arrays[name] = arrays[of].argmin(axis=1) + 1
    return arrays


# Figure 2

SETTINGS = ((200.0, 4.0), (50.0, 2.0), (6.5, 10.0))
"""Pairs of 2ω² and α whose argmin is nearest to the paper's."""

_PAPER_SIZE = 17
_MEAN_PRICE = 22.53
_SCALED_BY = 5.0
_NEAR = 2
"""Minima this many functions or rows apart count as the same: the curves are flat there."""


def figure2(
    data: Data | None = None,
    *,
    settings: Sequence[tuple[float, float]] = SETTINGS,
    n_train: int = 450,
    n_sizes: int = 60,
    n_runs: int = 3,
    random_state: int = 0,
    progress: Progress = ignore,
    control: bool = False,
) -> PaperResult:
    """Figure 2: Theorem 3's bound for kernel matching pursuit on Boston, and the test error.

    The paper states neither the kernel width nor α nor the variant. Of 7 widths, 8 values of α and
    two variants tried on three splits, a handful put the minimum of the bound at 17 ± 1, and the
    minima of all of them lie anywhere from 2 to 60: the three settings here were found by search
    and reproduce nothing. Back-fitting, unscaled targets, no intercept. The test error does not
    have its minimum at the same size: with 56 test rows the minimum varies.

    Parameters
    ----------
    data : (X, y), optional
        Other data than Boston; X is standardised.
    settings : sequence of pairs
        2ω² and α.
    n_train : int
        Number of training rows; the others are test rows.
    n_sizes : int
        Largest size; all sizes from 1 on are looked at.
    n_runs : int
        Number of random splits; split s has the seed ``random_state + s``.
    random_state : int
        Seed of the first split.
    progress : callable, optional
        Called with a line of text as the work goes on.
    control : bool
        Negative control: shuffle the targets of the training rows.

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
    shape = (len(settings), n_runs, n_sizes)
    bound, error = np.full(shape, np.nan), np.full(shape, np.nan)
    for i, (width, alpha) in enumerate(settings):
        for split in range(n_runs):
            order = np.random.default_rng(random_state + split).permutation(len(y))
            train, test = order[:n_train], order[n_train:]
            y_train = np.random.default_rng(split).permutation(y[train]) if control else y[train]
            model = KernelMatchingPursuitRegressor(
                gamma=1.0 / width,
                n_basis=n_sizes,
                fitting="backfit",
                error_tol=alpha,
                fit_intercept=False,
            ).fit(X[train], y_train)
            n = model.n_basis_
            bound[i, split, :n] = model.printed_bound_.value
            error[i, split, :n] = _errors(model, X[test], y[test])
            at = model.printed_bound_.best + 1
            progress(f"2ω² = {width:g}, α = {alpha:g}, split {split + 1}: minimum at {at}")
    bound_argmin, test_argmin = np.nanargmin(bound, axis=2) + 1, np.nanargmin(error, axis=2) + 1
    first = bound[0, :, :].min(axis=1, initial=np.inf, where=np.isfinite(bound[0]))
    return PaperResult(
        name="HS08 Figure 2, bound and test error of kernel matching pursuit",
        paper_says=f"both have their minimum at {_PAPER_SIZE} functions, the bound is drawn / 5",
        we_get=f"bound: {slashed(np.median(bound_argmin, axis=1))} (by setting), test error: "
        f"{slashed(np.median(test_argmin, axis=1))}",
        spread=f"bound {bound_argmin.min()} to {bound_argmin.max()}, test error "
        f"{test_argmin.min()} to {test_argmin.max()} over {n_runs} splits",
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
        panels=[
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
        ],
    )


def _errors(model: KernelMatchingPursuitRegressor, X: Floats, y: Floats) -> Floats:
    """Root mean squared test error of every size."""
    K = rbf_kernel(X, model.basis_, gamma=model.gamma)
    models = [model.truncated(n) for n in range(1, model.n_basis_ + 1)]
    predicted = np.stack([K[:, : small.n_basis_] @ small.dual_coef_ for small in models])
    root: Floats = np.sqrt(np.mean((predicted - y) ** 2, axis=1))
    return root
