"""
A stream that drifts
====================

A model that adds up all rows it has ever seen predicts their average. If what is measured changes,
old rows have to be forgotten: ``partial_fit(..., decay=γ)`` multiplies the weights of all earlier
rows by γ before the new ones come in. The result is exact: it is the fit with these weights
in the span of the basis.
"""

# %%
# A sensor is read at random positions, and its response wanders: in 60 batches of 200 readings
# the wave moves along by a seventh of its length. Kernel, noise and basis come from the first 10
# batches.

import copy

import matplotlib.pyplot as plt
import numpy as np

from pursuit import SparseGPRegressor

rng = np.random.default_rng(0)


def response(x, batch):
    """What the sensor shows at a position, in some batch."""
    return np.sin(2.0 * x - 0.015 * batch) + 0.2 * x


def read(batch, n=200):
    """Positions and noisy readings of one batch."""
    X = rng.uniform(-3.0, 3.0, (n, 1))
    return X, response(X[:, 0], batch) + 0.3 * rng.standard_normal(n)


X, y = (np.concatenate(part) for part in zip(*(read(0) for _ in range(10)), strict=True))
first = SparseGPRegressor(n_basis=30, random_state=0).fit(X, y)

# %%
# Four models take in the same batches and forget at different rates. Each batch is predicted
# before it is learned. With batches of equal size, a model with decay γ knows about 1/(1 - γ) of
# them.

rates = [1.0, 0.95, 0.7, 0.2]
models = {rate: copy.deepcopy(first) for rate in rates}
grid = np.linspace(-3.0, 3.0, 200)
errors = {rate: [] for rate in rates}
for batch in range(60):
    X, y = read(batch)
    for rate, model in models.items():
        miss = model.predict(grid[:, None]) - response(grid, batch)
        errors[rate].append(np.sqrt(np.mean(miss**2)))
        model.partial_fit(X, y, decay=rate)

figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
for rate in rates:
    axes[0].plot(errors[rate], label=f"decay={rate:g}")
axes[0].set(xlabel="batch", ylabel="error of the mean", yscale="log")
axes[0].legend(frameon=False)
axes[1].plot(grid, response(grid, 59), "k", lw=3, alpha=0.3, label="the response now")
for rate in rates:
    axes[1].plot(grid, models[rate].predict(grid[:, None]), lw=1.2)
axes[1].set(xlabel="position", ylabel="response")
axes[1].legend(frameon=False)

# %%
# To remember everything is worst, and to remember only the last batch is not best either: its
# noise is not averaged. The rate that has predicted best so far is known as the stream goes on,
# and can be chosen by it.

for rate in rates:
    print(f"decay={rate:<4g} mean error over the last 40 batches {np.mean(errors[rate][20:]):.3f}")
