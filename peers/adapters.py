"""Our classes behind the constructors of their peers in scikit-learn.

An adapter takes the arguments of the peer, whose signature is read from the installed version, and
translates them when it is fitted. An argument that we have no counterpart for is ignored where it
only says how to compute (a cache, a solver), and refused by `NotOfferedError` where it changes the
answer. Methods and attributes are our own.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any

from sklearn import svm
from sklearn.cross_decomposition import CCA as PeerCCA  # noqa: N811
from sklearn.decomposition import KernelPCA as PeerKernelPCA
from sklearn.ensemble import AdaBoostClassifier as PeerAdaBoost
from sklearn.gaussian_process import GaussianProcessClassifier as PeerGPC
from sklearn.gaussian_process import GaussianProcessRegressor as PeerGPR
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel
from sklearn.kernel_approximation import Nystroem as PeerNystroem
from sklearn.kernel_ridge import KernelRidge as PeerKernelRidge
from sklearn.mixture import GaussianMixture as PeerMixture
from sklearn.neighbors import NearestNeighbors as PeerNeighbors

import pursuit
from pursuit import Evidence
from pursuit.kernels import without_white

_NAMED = ("gamma", "degree", "coef0")
_LEAST_VARIANCE = 1e-12
"""A mixture must have a least variance, which its peer need not."""
ALL_ROWS = 2_000
"""Basis functions that adapters ask for: more than the tests have rows."""


class NotOfferedError(Exception):
    """An argument of the peer that we have no counterpart for."""


class Adapter:
    """What all adapters share; ``ours`` is the class behind, ``peer`` the one in front."""

    ours: type
    peer: type
    fitted = 0
    """Number of calls of our `fit`, by which tests are told that have none."""
    of_pairs = False
    """Whether the peer calls a function for every pair of rows, and not for blocks of them."""
    refused: tuple[str, ...] = ()
    """Arguments of the peer without a counterpart, which must have their defaults."""

    def __init_subclass__(cls) -> None:
        if "peer" not in vars(cls):
            return
        signature = inspect.signature(cls.peer.__init__)

        def construct(self: Any, *args: Any, **options: Any) -> None:
            bound = signature.bind(self, *args, **options)
            bound.apply_defaults()
            cls.ours.__init__(self)
            for name, value in list(bound.arguments.items())[1:]:
                setattr(self, name, value)

        @wraps(cls.ours.fit)  # type: ignore[attr-defined]
        def fit(self: Any, *args: Any, **options: Any) -> Any:
            return self.fit_translated(*args, **options)

        construct.__signature__ = signature  # type: ignore[attr-defined]
        cls.__init__ = construct  # type: ignore[assignment,method-assign]
        cls.fit = fit  # type: ignore[attr-defined]

    def translated(self) -> dict[str, Any]:
        """Our arguments."""
        raise NotImplementedError

    def shared(self, *names: str) -> dict[str, Any]:
        """Arguments that have the same name and meaning."""
        return {name: getattr(self, name) for name in names}

    def of_kernel(self) -> dict[str, Any]:
        """The kernel and the parameters that it takes: our classes refuse any others."""
        if not callable(self.kernel):
            return self.shared("kernel", *(() if self.kernel == "precomputed" else _NAMED))
        return {"kernel": pursuit.pairwise(self.kernel) if self.of_pairs else self.kernel}

    def fit_translated(self, X: Any, y: Any = None, *args: Any, **options: Any) -> Any:
        """Fit our class with what the arguments are translated to.

        What is called `fit` has the signature of our class, by which others see what it takes.
        """
        defaults = inspect.signature(self.peer.__init__).parameters
        for name in self.refused:
            value = getattr(self, name)
            if (
                isinstance(value, bool | str | int | float | None)
                and value == defaults[name].default
            ):
                continue
            raise NotOfferedError(f"{name} has no counterpart in {self.ours.__name__}")
        given = self.get_params(deep=False)  # type: ignore[attr-defined]
        self.ours.__init__(self, **self.translated())
        Adapter.fitted += 1
        try:
            return self.ours.fit(self, X, y, *args, **options)
        finally:
            vars(self).update(given)


def _optimizer(model: Any) -> Any:
    if callable(model.optimizer):
        raise NotOfferedError("an optimiser of one's own has no counterpart")
    return None if model.optimizer is None else Evidence(restarts=model.n_restarts_optimizer)


class _Process(Adapter):
    """A noise of ``alpha``, or that of White terms, which is learned."""

    refused = ("n_targets",)

    @property
    def has_white(self) -> bool:
        """Whether the kernel has noise of its own."""
        return isinstance(self.kernel, Kernel) and bool(without_white(self.kernel)[1])

    def of_process(self) -> dict[str, Any]:
        """What all processes take; ``alpha`` beside White terms is left out."""
        if not isinstance(self.alpha, int | float) or self.alpha == 0:
            raise NotOfferedError("alpha of each row, or of 0, has no counterpart")
        return {
            "kernel": ConstantKernel() * RBF() if self.kernel is None else self.kernel,
            "noise": "learn" if self.has_white else self.alpha,
            "optimizer": _optimizer(self),
            **self.shared("normalize_y", "random_state"),
        }


class GaussianProcessRegressor(_Process, pursuit.SparseGPRegressor):
    """All rows in the basis."""

    ours, peer = pursuit.SparseGPRegressor, PeerGPR

    def translated(self) -> dict[str, Any]:
        """Error bars are not calibrated."""
        return {"n_basis": ALL_ROWS, "calibration": None, **self.of_process()}

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, **options: Any
    ) -> Any:
        """Error bars include the noise of White terms, but not ``alpha``, as those of the peer."""
        own = {"include_noise": self.has_white} | options
        return super().predict(X, return_std, return_cov, **own)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Any:
        """Draws with the noise of White terms only."""
        return super().sample_y(X, n_samples, random_state, include_noise=self.has_white)


class ExactProcess(_Process, pursuit.ExactGPRegressor):
    """The exact process."""

    ours, peer = pursuit.ExactGPRegressor, PeerGPR

    def translated(self) -> dict[str, Any]:
        """All as they are."""
        return self.of_process()

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, **options: Any
    ) -> Any:
        """Error bars include the noise of White terms, but not ``alpha``, as those of the peer."""
        own = {"include_noise": self.has_white} | options
        return super().predict(X, return_std, return_cov, **own)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Any:
        """Draws with the noise of White terms only."""
        return super().sample_y(X, n_samples, random_state, include_noise=self.has_white)


class FullScaleProcess(_Process, pursuit.FullScaleGPRegressor):
    """All rows in the basis, and a few near rows beside it."""

    ours, peer = pursuit.FullScaleGPRegressor, PeerGPR

    def translated(self) -> dict[str, Any]:
        """As many near rows as the smallest problem of the tests has."""
        own = {"n_basis": ALL_ROWS, "n_neighbors": 3, "calibration": None}
        return {**own, **self.of_process()}

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, **options: Any
    ) -> Any:
        """Error bars include the noise of White terms, but not ``alpha``, as those of the peer."""
        own = {"include_noise": self.has_white} | options
        return super().predict(X, return_std, return_cov, **own)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Any:
        """Draws with the noise of White terms only."""
        return super().sample_y(X, n_samples, random_state, include_noise=self.has_white)


class GaussianProcessClassifier(Adapter, pursuit.SparseGPClassifier):
    """All rows in the basis, no calibration and no scale beside the kernel's."""

    ours, peer = pursuit.SparseGPClassifier, PeerGPC
    refused = ("warm_start", "multi_class")

    def translated(self) -> dict[str, Any]:
        """The kernel of the peer is RBF, and fixed."""
        default = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
        return {
            "kernel": default if self.kernel is None else self.kernel,
            "optimizer": _optimizer(self),
            "n_basis": ALL_ROWS,
            "scale": 1.0,
            "calibration": None,
            **self.shared("random_state", "n_jobs"),
        }


class Nystroem(Adapter, pursuit.GreedyFeatureMap):
    """The same arguments."""

    ours, peer = pursuit.GreedyFeatureMap, PeerNystroem
    of_pairs = True

    def translated(self) -> dict[str, Any]:
        """All as they are, so that what does not go together is refused."""
        names = ("kernel_params", "n_components", "random_state", "n_jobs")
        return self.of_kernel() | self.shared(*_NAMED, *names)


class KernelPCA(Adapter, pursuit.SparseKernelPCA):
    """All rows in the basis."""

    ours, peer = pursuit.SparseKernelPCA, PeerKernelPCA
    of_pairs = True

    def translated(self) -> dict[str, Any]:
        """The ridge of pre-images is that of the peer."""
        names = ("n_components", "kernel_params", "alpha", "random_state", "n_jobs")
        return {"n_basis": ALL_ROWS, **self.of_kernel(), **self.shared(*names)}


class KernelRidge(Adapter, pursuit.SparseKernelRidge):
    """All rows in the basis."""

    ours, peer = pursuit.SparseKernelRidge, PeerKernelRidge
    of_pairs = True

    def translated(self) -> dict[str, Any]:
        """One ridge for all outputs."""
        if not isinstance(self.alpha, int | float):
            raise NotOfferedError("alpha of each output has no counterpart")
        own = self.of_kernel() | self.shared("alpha", "kernel_params")
        return {"n_basis": ALL_ROWS, **own}


class SVC(Adapter, pursuit.LowRankSVC):
    """The hinge loss, every pair of classes, all rows in the basis."""

    ours, peer = pursuit.LowRankSVC, svm.SVC
    refused = ("probability", "break_ties")

    def translated(self) -> dict[str, Any]:
        """All rows in the basis, not moved."""
        names = ("C", "class_weight", "random_state", "decision_function_shape")
        return {
            "loss": "hinge",
            "multi_class": "ovo",
            "n_basis": ALL_ROWS,
            "refine": False,
            **self.of_kernel(),
            **self.shared(*names),
        }


class SVR(Adapter, pursuit.LowRankSVR):
    """The epsilon-insensitive loss, all rows in the basis."""

    ours, peer = pursuit.LowRankSVR, svm.SVR

    def translated(self) -> dict[str, Any]:
        """All rows in the basis, not moved."""
        own = self.of_kernel() | self.shared("C", "epsilon")
        return {"loss": "epsilon_insensitive", "n_basis": ALL_ROWS, "refine": False, **own}


class OneClassSVM(Adapter, pursuit.LowRankOneClassSVM):
    """All rows in the basis."""

    ours, peer = pursuit.LowRankOneClassSVM, svm.OneClassSVM

    def translated(self) -> dict[str, Any]:
        """All as they are."""
        return {"n_basis": ALL_ROWS, **self.of_kernel(), **self.shared("nu")}


class NearestNeighbors(Adapter, pursuit.SpanNeighbors):
    """The linear kernel, whose distance is Euclidean."""

    ours, peer = pursuit.SpanNeighbors, PeerNeighbors

    def translated(self) -> dict[str, Any]:
        """Euclidean distances only."""
        euclidean = self.metric in ("euclidean", "l2") or (
            self.metric == "minkowski" and self.p == 2
        )
        if not euclidean or self.metric_params is not None:
            raise NotOfferedError("distances of kernels, and Euclidean ones, are the only metrics")
        return {"kernel": "linear", **self.shared("n_neighbors", "radius", "n_jobs")}


class CCA(Adapter, pursuit.SparseKernelCCA):
    """Linear kernels and hardly any regularisation."""

    ours, peer = pursuit.SparseKernelCCA, PeerCCA

    def translated(self) -> dict[str, Any]:
        """Rows are not rescaled, which changes no correlation."""
        kernels = {"kernel_x": "linear", "kernel_y": "linear", "regularization": 1e-9}
        return {"n_basis": ALL_ROWS, **kernels, **self.shared("n_components")}


class AdaBoostClassifier(Adapter, pursuit.HullBoostClassifier):
    """As many learners, stumps by default."""

    ours, peer = pursuit.HullBoostClassifier, PeerAdaBoost
    refused = ("learning_rate",)

    def translated(self) -> dict[str, Any]:
        """The learning rate is that of line searches."""
        learners = {"weak_learner": self.estimator, "n_terms": self.n_estimators}
        return {**learners, **self.shared("random_state")}


class GaussianMixture(Adapter, pursuit.HullMixture):
    """At most as many components."""

    ours, peer = pursuit.HullMixture, PeerMixture
    refused = ("init_params", "weights_init", "means_init", "precisions_init", "warm_start")

    def translated(self) -> dict[str, Any]:
        """The number of components is the largest one."""
        if self.covariance_type == "tied":
            raise NotOfferedError("tied covariances have no counterpart")
        least = max(float(self.reg_covar), _LEAST_VARIANCE)
        own = self.shared("covariance_type", "random_state")
        return {"n_terms": self.n_components, "reg_covar": least, **own}


ADAPTERS = {
    adapter.peer: adapter
    for adapter in (
        *(GaussianProcessRegressor, GaussianProcessClassifier, Nystroem, KernelPCA, KernelRidge),
        *(SVC, SVR, OneClassSVM, NearestNeighbors, CCA, AdaBoostClassifier, GaussianMixture),
    )
}
"""The class in place of each peer."""
OTHERS = {adapter.__name__: adapter for adapter in (ExactProcess, FullScaleProcess)}
"""Further classes that may take the place of their peers."""
