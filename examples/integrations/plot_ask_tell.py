"""
Ask and tell: an optimiser in forty lines
=========================================

*My experiment runs elsewhere and takes a day. What should I try next?* Optimisers such as
scikit-optimize have two methods for this: ``ask`` names a point, ``tell`` takes its result. Here is
such a class. It climbs the expected improvement by ``predict_gradient``, which has the gradients of
mean and standard deviation, so that no grid of candidates is needed.
:doc:`/auto_examples/plot_bayesian_optimisation` compares ways to choose in ten dimensions.
"""

# %%
# The class. It keeps the results, and fits a process to them whenever it is asked.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import check_grad, minimize
from scipy.stats import norm, qmc
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from pursuit import SparseGPRegressor


class Optimizer:
    """Minimise a function of a few variables between bounds."""

    def __init__(self, bounds, n_initial=8):
        self.low, self.high = np.array(bounds, dtype=float).T
        self.start = qmc.Halton(len(bounds), scramble=False).random(n_initial + 1)[1:]
        self.points, self.values = [], []

    def ask(self):
        if len(self.values) < len(self.start):
            point = self.start[len(self.values)]
        else:
            kernel = ConstantKernel() * Matern(np.ones(len(self.low)), nu=2.5)
            model = SparseGPRegressor(kernel, noise=1e-4, certificate=None, random_state=0)
            self.model = model.fit(self.points, self.values)
            best = np.array(self.points)[np.argsort(self.values)[:3]]
            climbs = [
                minimize(self.loss, x, jac=self.slope, bounds=[(0, 1)] * len(x))
                for x in (*best, *self.start[:5])
            ]
            point = min(climbs, key=lambda climb: climb.fun).x
        return self.low + (self.high - self.low) * point

    def tell(self, x, value):
        self.points.append((x - self.low) / (self.high - self.low))
        self.values.append(value)

    def loss(self, x):
        """Expected improvement at a point, times -1."""
        mean, std = self.model.predict(x[None], return_std=True, include_noise=False)
        gain = min(self.values) - mean[0]
        return -gain * norm.cdf(gain / std[0]) - std[0] * norm.pdf(gain / std[0])

    def slope(self, x):
        """Gradient of the loss."""
        mean, std = self.model.predict(x[None], return_std=True, include_noise=False)
        up, wider = self.model.predict_gradient(x[None], return_std=True, include_noise=False)
        z = (min(self.values) - mean[0]) / std[0]
        return norm.cdf(z) * up[0] - norm.pdf(z) * wider[0]


# %%
# Branin's function stands for the experiment. It has three lowest points of value 0.398.


def experiment(x):
    a, b = x
    bowl = (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2
    return bowl + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


bounds = [(-5, 10), (0, 15)]
optimizer = Optimizer(bounds)
for _ in range(30):
    x = optimizer.ask()
    optimizer.tell(x, experiment(x))

# %%
# 30 evaluations, beside 30 at random: the mean of 200 such searches.

rng = np.random.default_rng(0)
tries = rng.uniform(optimizer.low, optimizer.high, (200, 30, 2))
by_chance = experiment(np.moveaxis(tries, -1, 0)).min(axis=1).mean()
found = min(optimizer.values)
print(f"lowest value: {found:.3f} by asking, {by_chance:.3f} at random, 0.398 is possible")
assert found < 0.398 + 0.05
assert found < by_chance

# %%
# The gradient is that of differences.

away = check_grad(optimizer.loss, optimizer.slope, np.array([0.3, 0.6]))
assert away < 1e-4
print("the gradient agrees with differences to 1e-4")

# %%
# Where it looked: points after the first eight are red.

A, B = np.meshgrid(np.linspace(-5, 10, 120), np.linspace(0, 15, 120))
tried = optimizer.low + (optimizer.high - optimizer.low) * np.array(optimizer.points)
fig, ax = plt.subplots(figsize=(6, 4.4), layout="constrained")
ax.contourf(A, B, np.log(experiment((A, B))), 20, cmap="Greys_r")
ax.plot(*tried[:8].T, "o", color="white", markeredgecolor="k", label="to begin with")
ax.plot(*tried[8:].T, "o", color="C3", ms=4, clip_on=False, label="asked for")
ax.set(xlabel="first variable", ylabel="second variable", title="30 evaluations")
ax.legend()
plt.show()
