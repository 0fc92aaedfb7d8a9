"""
Intervals that hold whatever the noise is
=========================================

A Gaussian process takes noise to be normal. Here it is not: most observations are close to the
curve, and some are far above it. Rows that the fit has not seen make intervals that cover as often
as they say. :doc:`/intervals` explains why.
"""

# %%
# 1 200 observations of a curve, with errors that are never negative and have a long tail.

import numpy as np


def draw(rng, n):
    x = rng.uniform(0, 10, n)
    return x[:, None], np.sin(x) + 0.2 * x + 0.5 * rng.standard_gamma(0.4, n)


rng = np.random.default_rng(0)
X, y = draw(rng, 1200)
X_new, y_new = draw(rng, 20_000)

# %%
# ``calibration="conformal"`` sets a fifth of the rows aside, before anything is learned.

from pursuit import SparseGPRegressor

model = SparseGPRegressor(n_basis=50, calibration="conformal", random_state=0).fit(X, y)
print(model.coverage_guarantee_)

# %%
# The model's own distribution has the right variance and the wrong shape: its 50 % intervals hold
# far more, its 99 % intervals less. Conformal ones are off by as much as 240 rows leave to chance.

levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
share = {}
for method in ("conformal", "gaussian"):
    bounds = [model.predict_interval(X_new, level, method) for level in levels]
    share[method] = [np.mean((low <= y_new) & (y_new <= high)) for low, high in bounds]
for level, conformal, gaussian in zip(levels, share["conformal"], share["gaussian"], strict=True):
    print(f"{level:4.0%}: conformal {conformal:6.1%}, gaussian {gaussian:6.1%}")

# %%
# Conformal quantiles have the signs of the errors as well, and with them the skewness: the 5 %
# quantile is close to the curve, the 95 % quantile far from it.

import matplotlib.pyplot as plt

grid = np.linspace(0, 10, 400)[:, None]
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=[2, 1])
lower, upper = model.predict_quantile(grid, [0.05, 0.95]).T
left.plot(X[:, 0], y, ".", color="0.6", markersize=2.5, zorder=0)
left.fill_between(grid[:, 0], lower, upper, color="tab:blue", alpha=0.25, label="conformal")
for q, label in ((0.05, "gaussian"), (0.95, None)):
    ends = model.predict_quantile(grid, q, method="gaussian")
    left.plot(grid[:, 0], ends, "--", color="tab:red", label=label)
left.set(xlabel="x", ylabel="y", title="5 % and 95 % quantiles", xlim=(0, 10))
left.legend(loc="upper left")
right.plot([0, 1], [0, 1], color="0.7", zorder=0)
right.plot(levels, share["conformal"], "o-", color="tab:blue", label="conformal")
right.plot(levels, share["gaussian"], "s--", color="tab:red", label="gaussian")
right.set(xlabel="level asked for", ylabel="share of 20 000 new rows", title="Coverage")
right.legend()
figure.tight_layout()
plt.show()

# %%
# The guarantee is about the model as it is. After :meth:`~pursuit.SparseGPRegressor.partial_fit` it
# is another model: rows that it has not seen bring the guarantee back.

model.partial_fit(*draw(rng, 500))
print(model.coverage_guarantee_)
model.conformalize(*draw(rng, 300))
print(model.coverage_guarantee_.rows)
