"""
Minimising a function of ten variables
======================================

Where an evaluation is expensive, the next one should be chosen with care. A Gaussian process of
those so far says where low values are likely. Thompson sampling evaluates where a function drawn
from it is lowest. Expected improvement evaluates where the mean gain over the best value so far is
highest, and climbs there by the gradients of mean and error bars.
"""

# %%
# Ten variables between 0 and 1, of which some matter more than others. The lowest value is 0.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from pursuit import SparseGPRegressor

START, STEPS, D = 20, 60, 10
weights, centre = 2.0 ** -np.arange(D), np.linspace(0.2, 0.8, D)


def expensive(X):
    """Bowls with ripples."""
    distance = np.atleast_2d(X) - centre
    return (10 * distance**2 + 1 - np.cos(9 * distance)) @ weights


# %%
# A drawn function has a value anywhere, so that its lowest point is looked for on candidates, half
# of them near the best point so far. Expected improvement is climbed from the best of them.


def thompson(model, candidates, best, rng):
    [function] = model.sample_functions(1, random_state=rng.integers(2**31))
    return candidates[function(candidates).argmin()]


def improvement(model, candidates, best, rng):
    def negative(X):
        mean, std = model.predict(X, return_std=True, include_noise=False)
        z = (best - mean) / std
        return -(best - mean) * norm.cdf(z) - std * norm.pdf(z), z

    def with_gradient(x):
        value, z = negative(x[None])
        slope, slope_of_std = model.predict_gradient(x[None], return_std=True, include_noise=False)
        return value[0], (norm.cdf(z) * slope - norm.pdf(z) * slope_of_std)[0]

    start = candidates[negative(candidates)[0].argmin()]
    return minimize(with_gradient, start, jac=True, bounds=[(0, 1)] * D).x


kernel = ConstantKernel() * Matern(np.ones(D), nu=2.5)


def run(propose, rng):
    X = rng.uniform(size=(START, D))
    for _ in range(STEPS):
        y = np.log(expensive(X))
        model = SparseGPRegressor(kernel, noise=1e-4, certificate=None, random_state=0).fit(X, y)
        near = X[y.argmin()] + 0.1 * rng.standard_normal((500, D))
        candidates = np.vstack([rng.uniform(size=(500, D)), near.clip(0, 1)])
        X = np.vstack([X, propose(model, candidates, y.min(), rng)])
    return np.minimum.accumulate(expensive(X))


# %%
# All three begin with the same 20 random points.

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
runs = {
    "Random search": np.minimum.accumulate(
        expensive(np.random.default_rng(0).uniform(size=(START + STEPS, D)))
    ),
    "Thompson sampling": run(thompson, np.random.default_rng(0)),
    "Expected improvement": run(improvement, np.random.default_rng(0)),
}
for (name, values), color in zip(runs.items(), ("#999999", "#E69F00", "#0072B2"), strict=True):
    ax.semilogy(np.arange(1, len(values) + 1), values, color=color, label=name)
    print(f"{name}: {values[-1]:.3f} after {len(values)} evaluations")
ax.axvline(START, color="0.35", linestyle=":")
ax.set(xlabel="Evaluations", ylabel="Lowest value so far")
ax.legend()
plt.show()
