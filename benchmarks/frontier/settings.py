"""The models and their settings, ours first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.frontier import gpboost_models, gpytorch_models, tuned_models
from benchmarks.frontier.point_models import PointModel
from pursuit import ExactGPRegressor, FullScaleGPRegressor, SparseGPRegressor

FAST, LARGE, SHORT, LONG, NEAR = range(5)
"""Order of work: fast fits, our largest ones, GPyTorch short and converged, GPBoost."""

_SPREAD = (
    "Its density is a Gaussian of one variance for all rows, from a second fit that leaves out a"
    " tenth of the rows; that fit is not timed."
)


@dataclass(frozen=True)
class Setting:
    """A model with everything it needs but data and seed.

    Attributes
    ----------
    model, name : str
        What the tables call them.
    text : str
        What is set, in a sentence or two.
    make : callable
        ``make(seed, max_time)`` returns an unfitted model. One that stops by itself after
        ``max_time`` seconds says so by a true attribute ``stopped_early_``.
    stage : int
        Settings of lower stages run first.
    n_seeds : int
        Number of seeds, and so of splits; one for models that take minutes.
    packages : tuple of str
        Needed beyond those of the package itself.
    n_rows : int or None
        Fit this many random training rows at most.
    only_larger : bool
        Leave out data sets that have no more than ``n_rows`` training rows.
    n_error_bars : int or None
        Compute error bars of this many random test rows at most.
    datasets : tuple of str or None
        Data sets that it is fitted to; None for all.
    """

    model: str
    name: str
    text: str
    make: Callable[[int, float], Any]
    stage: int = FAST
    n_seeds: int = 3
    packages: tuple[str, ...] = ()
    n_rows: int | None = None
    only_larger: bool = False
    n_error_bars: int | None = None
    datasets: tuple[str, ...] | None = None


def _sparse(n_basis: int) -> Setting:
    return Setting(
        "SparseGPRegressor",
        f"{n_basis} functions",
        f"n_basis={n_basis}; everything else by default, so kernel and noise are learned and the"
        " time includes the certificate.",
        lambda seed, _: SparseGPRegressor(n_basis=n_basis, random_state=seed),
    )


def _full_scale(n_basis: int) -> Setting:
    return Setting(
        "FullScaleGPRegressor",
        f"{n_basis} functions",
        f"n_basis={n_basis}; everything else by default.",
        lambda seed, _: FullScaleGPRegressor(n_basis=n_basis, random_state=seed),
    )


def _exact(n_rows: int | None) -> Setting:
    rows = "all rows" if n_rows is None else f"{n_rows} rows"
    chosen = "All training rows" if n_rows is None else f"{n_rows} random training rows"
    return Setting(
        "ExactGPRegressor",
        rows,
        f"{chosen}, max_time just below the cap, everything else by default. Density and coverage"
        f" are those of at most {ERROR_BARS} random test rows: error bars of the exact process are"
        " slow.",
        lambda seed, max_time: _Exact(max_time, seed),
        stage=LARGE if n_rows is None else FAST,
        n_seeds=1 if n_rows is None else 3,
        n_rows=n_rows,
        only_larger=n_rows is not None,
        n_error_bars=ERROR_BARS,
    )


ERROR_BARS = 200
_SUBSET = 2000
_GPBOOST_ROWS = 10_000


class _Exact(ExactGPRegressor):
    """Ends within a time, and says whether it had to."""

    def __init__(self, max_time: float, random_state: int) -> None:
        super().__init__(max_time=max_time, random_state=random_state)

    def fit(self, X: Any, y: Any) -> Any:
        super().fit(X, y)
        self.stopped_early_ = self.path_.residual[-1] > self.residual_tol
        return self


def _subset_gp(seed: int, _: float) -> Any:
    def make(n_features: int) -> Any:
        kernel = ConstantKernel() * RBF([1.0] * n_features) + WhiteKernel(0.1)
        return GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)

    return _ByWidth(make)


class _ByWidth:
    """A model that is built when the number of features is known."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def fit(self, X: Any, y: Any) -> None:
        self.model = self.make(X.shape[1]).fit(X, y)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        return self.model.predict(X, return_std=return_std)


def _hist_trees(seed: int, _: float) -> Any:
    return PointModel(lambda: HistGradientBoostingRegressor(random_state=seed), seed)


SETTINGS: tuple[Setting, ...] = (
    *(_sparse(size) for size in (128, 512, 1024)),
    *(_full_scale(size) for size in (128, 512, 1024)),
    *(_exact(n_rows) for n_rows in (2000, 10_000, None)),
    Setting(
        "GPyTorch SGPR",
        "short",
        gpytorch_models.SGPR_SHORT,
        lambda seed, max_time: gpytorch_models.SGPR(seed, max_time, converge=False),
        SHORT,
        1,
        ("torch", "gpytorch"),
    ),
    Setting(
        "GPyTorch SGPR",
        "converged",
        gpytorch_models.SGPR_CONVERGED,
        lambda seed, max_time: gpytorch_models.SGPR(seed, max_time, converge=True),
        LONG,
        1,
        ("torch", "gpytorch"),
    ),
    Setting(
        "GPyTorch SGPR",
        "converged, float64",
        gpytorch_models.SGPR_DOUBLE,
        lambda seed, max_time: gpytorch_models.SGPR(seed, max_time, converge=True, dtype="float64"),
        LONG,
        1,
        ("torch", "gpytorch"),
        datasets=("diamonds",),
    ),
    Setting(
        "GPyTorch SVGP",
        "short",
        gpytorch_models.SVGP_SHORT,
        lambda seed, max_time: gpytorch_models.SVGP(seed, max_time, converge=False),
        SHORT,
        1,
        ("torch", "gpytorch"),
    ),
    Setting(
        "GPyTorch SVGP",
        "converged",
        gpytorch_models.SVGP_CONVERGED,
        lambda seed, max_time: gpytorch_models.SVGP(seed, max_time, converge=True),
        LONG,
        1,
        ("torch", "gpytorch"),
    ),
    *(
        Setting(
            "GPBoost",
            approximation.replace("_", "-"),
            gpboost_models.text(approximation, _GPBOOST_ROWS),
            gpboost_models.maker(approximation),
            NEAR,
            1,
            ("gpboost",),
            n_rows=_GPBOOST_ROWS,
        )
        for approximation in ("vecchia", "full_scale_vecchia")
    ),
    Setting(
        "LightGBM",
        "default",
        f"LGBMRegressor by default: 100 trees. {_SPREAD}",
        tuned_models.default_trees,
        packages=("lightgbm",),
    ),
    Setting(
        "LightGBM",
        "tuned",
        tuned_models.TREES,
        tuned_models.TunedTrees,
        n_seeds=1,
        packages=("lightgbm",),
    ),
    Setting(
        "HistGradientBoosting",
        "default",
        f"scikit-learn's HistGradientBoostingRegressor by default. {_SPREAD}",
        _hist_trees,
    ),
    Setting(
        "Nystroem + Ridge",
        "default",
        f"scikit-learn's Nystroem with {tuned_models.COMPONENTS} components, then Ridge; gamma and"
        f" alpha by default. {_SPREAD}",
        tuned_models.default_nystroem,
    ),
    Setting(
        "Nystroem + Ridge",
        "tuned",
        tuned_models.NYSTROEM,
        tuned_models.TunedNystroem,
    ),
    Setting(
        "GaussianProcessRegressor",
        f"{_SUBSET} rows",
        f"scikit-learn's, on {_SUBSET} random training rows: constant times RBF with a length scale"
        " per feature, plus white noise, all learned, without restarts.",
        _subset_gp,
        n_seeds=1,
        n_rows=_SUBSET,
    ),
)


def setting(model: str, name: str) -> Setting:
    [found] = [s for s in SETTINGS if (s.model, s.name) == (model, name)]
    return found
