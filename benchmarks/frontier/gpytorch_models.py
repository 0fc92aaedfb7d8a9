"""GPyTorch's sparse regression (SGPR) and stochastic variational regression (SVGP).

GPyTorch leaves kernel, sizes, steps and learning rates to its users. Two recipes for each: a short
one, and one that goes on until the loss no longer falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.data import Floats
from benchmarks.machine import cores

N_POINTS = 512
SGPR_STEPS, SGPR_RATE, SGPR_WINDOW = 50, 0.1, 25
SVGP_EPOCHS, SVGP_RATE, SVGP_BATCH = 20, 0.01, 1024
SVGP_WINDOW_EPOCHS, SVGP_WINDOW_STEPS = 5, 100
TOLERANCE = 1e-3
_TRIAL_STEPS = 20
_PREDICTED_ROWS = 2000

_COMMON = f"{N_POINTS} points that start at random rows and move; a length scale per feature;"
_KERNEL = (
    f"the kernel, RBF or Matérn 3/2, has the lower loss after {_TRIAL_STEPS} steps of each, which"
    " the time includes;"
)
SGPR_SHORT = (
    f"RBF, {_COMMON} {SGPR_STEPS} steps of Adam on all rows at a rate of {SGPR_RATE}; float32."
)
SGPR_CONVERGED = (
    f"{_COMMON.capitalize()} {_KERNEL} Adam on all rows at a rate of {SGPR_RATE} until the mean"
    f" loss per row of {SGPR_WINDOW} steps is less than {TOLERANCE:g} below that of the"
    f" {SGPR_WINDOW} before, or until the cap; float32."
)
SGPR_DOUBLE = SGPR_CONVERGED.replace("float32.", "float64, on diamonds, where float32 fails.")
SVGP_SHORT = (
    f"RBF, {_COMMON} {SVGP_EPOCHS} epochs of Adam at a rate of {SVGP_RATE}, {SVGP_BATCH} rows per"
    " step; float32."
)
SVGP_CONVERGED = (
    f"{_COMMON.capitalize()} {_KERNEL} Adam at a rate of {SVGP_RATE}, {SVGP_BATCH} rows per step,"
    f" until the mean loss per row of {SVGP_WINDOW_EPOCHS} epochs, at least {SVGP_WINDOW_STEPS}"
    f" steps, is less than {TOLERANCE:g} below that of those before, or until the cap; float32."
)


class _Trained:
    """What both have in common: kernels to try, training, prediction in pieces."""

    def __init__(
        self, seed: int, max_time: float, *, converge: bool, dtype: str = "float32"
    ) -> None:
        import gpytorch
        import torch

        torch.set_num_threads(cores())
        torch.set_default_dtype(getattr(torch, dtype))
        self.torch, self.gp = torch, gpytorch
        self.seed, self.max_time, self.converge = seed, max_time, converge
        self.stopped_early_ = False

    def fit(self, X: Floats, y: Floats) -> None:
        end = perf_counter() + self.max_time
        self.torch.manual_seed(self.seed)
        self.X, self.y = self._tensor(X), self._tensor(y)
        kernels = self.gp.kernels
        trials = [self._start(kernels.RBFKernel(ard_num_dims=X.shape[1]))]
        if self.converge:
            trials.append(self._start(kernels.MaternKernel(nu=1.5, ard_num_dims=X.shape[1])))
            losses = [
                min(train(step, end, most=_TRIAL_STEPS).losses, default=np.inf)
                for _, step in trials
            ]
            self.model, step = trials[int(np.argmin(losses))]
            run = train(step, end, window=self._window())
        else:
            [(self.model, step)] = trials
            run = train(step, end, most=self._steps())
        self.stopped_early_ = run.out_of_time
        self.model.eval()

    def predict(self, X: Floats, return_std: bool = False) -> Any:
        rows = self._tensor(X).split(_PREDICTED_ROWS)
        means, stds = [], []
        with self.torch.no_grad():
            for part in rows:
                latent = self.model(part)
                means.append(latent.mean.double().numpy())
                if return_std:
                    stds.append(self.model.likelihood(latent).stddev.double().numpy())
        mean = np.concatenate(means)
        return (mean, np.concatenate(stds)) if return_std else mean

    def _tensor(self, numbers: Floats) -> Any:
        return self.torch.tensor(numbers, dtype=self.torch.get_default_dtype())

    def _points(self) -> Any:
        return self.X[self.torch.randperm(len(self.X))[:N_POINTS]].clone()

    def _start(self, kernel: Any) -> tuple[Any, Callable[[], float]]:
        """A model with this kernel, and a function that takes a step and returns the loss."""
        raise NotImplementedError

    def _steps(self) -> int:
        raise NotImplementedError

    def _window(self) -> int:
        raise NotImplementedError


class SGPR(_Trained):
    def _start(self, kernel: Any) -> tuple[Any, Callable[[], float]]:
        gp, X, y, points = self.gp, self.X, self.y, self._points()
        likelihood = gp.likelihoods.GaussianLikelihood()

        class Model(gp.models.ExactGP):
            def __init__(self) -> None:
                super().__init__(X, y, likelihood)
                self.mean_module = gp.means.ConstantMean()
                self.covar_module = gp.kernels.InducingPointKernel(
                    gp.kernels.ScaleKernel(kernel), inducing_points=points, likelihood=likelihood
                )

            def forward(self, x: Any) -> Any:
                return gp.distributions.MultivariateNormal(
                    self.mean_module(x), self.covar_module(x)
                )

        model = Model()
        model.train()
        evidence = gp.mlls.ExactMarginalLogLikelihood(likelihood, model)
        optimizer = self.torch.optim.Adam(model.parameters(), lr=SGPR_RATE)

        def step() -> float:
            optimizer.zero_grad()
            loss = -evidence(model(X), y)
            loss.backward()
            optimizer.step()
            return float(loss)

        return model, step

    def _steps(self) -> int:
        return SGPR_STEPS

    def _window(self) -> int:
        return SGPR_WINDOW


class SVGP(_Trained):
    def _start(self, kernel: Any) -> tuple[Any, Callable[[], float]]:
        gp, points = self.gp, self._points()

        class Model(gp.models.ApproximateGP):
            def __init__(self) -> None:
                spread = gp.variational.CholeskyVariationalDistribution(len(points))
                super().__init__(
                    gp.variational.VariationalStrategy(
                        self, points, spread, learn_inducing_locations=True
                    )
                )
                self.mean_module = gp.means.ConstantMean()
                self.covar_module = gp.kernels.ScaleKernel(kernel)
                self.likelihood = gp.likelihoods.GaussianLikelihood()

            def forward(self, x: Any) -> Any:
                return gp.distributions.MultivariateNormal(
                    self.mean_module(x), self.covar_module(x)
                )

        model = Model()
        model.train()
        bound = gp.mlls.VariationalELBO(model.likelihood, model, num_data=len(self.y))
        optimizer = self.torch.optim.Adam(model.parameters(), lr=SVGP_RATE)
        batches = self._batches()

        def step() -> float:
            rows = next(batches)
            optimizer.zero_grad()
            loss = -bound(model(self.X[rows]), self.y[rows])
            loss.backward()
            optimizer.step()
            return float(loss)

        return model, step

    def _batches(self) -> Iterator[Any]:
        while True:
            yield from self.torch.randperm(len(self.X)).split(SVGP_BATCH)

    def _epoch(self) -> int:
        return -(-len(self.X) // SVGP_BATCH)

    def _steps(self) -> int:
        return SVGP_EPOCHS * self._epoch()

    def _window(self) -> int:
        return max(SVGP_WINDOW_EPOCHS * self._epoch(), SVGP_WINDOW_STEPS)


class Training:
    """Losses of the steps taken, and whether the time was over."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.out_of_time = False


def train(
    step: Callable[[], float], end: float, *, most: int | None = None, window: int | None = None
) -> Training:
    """Take at most this many steps, or as many as lower the mean loss of a window enough.

    A step begins before ``end`` only if one as long as the last would finish by then.
    """
    run = Training()
    last = 0.0
    while len(run.losses) != most:
        start = perf_counter()
        if start + last > end:
            run.out_of_time = True
            break
        run.losses.append(step())
        last = perf_counter() - start
        if window is not None and len(run.losses) % window == 0 and len(run.losses) > window:
            before, now = np.mean(np.reshape(run.losses[-2 * window :], (2, window)), axis=1)
            # Written so that a loss that is no number ends it, too.
            if not before - now >= TOLERANCE:
                break
    return run
