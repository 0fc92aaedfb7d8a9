"""
Noise that depends on the inputs
================================

Error bars of one width are too wide where the noise is low and too narrow where it is high. With
``noise="varying"`` a second sparse process learns the noise from leave-one-out errors.
"""

# %%
# A curve whose noise grows tenfold half way.

import matplotlib.pyplot as plt
import numpy as np

from pursuit import SparseGPRegressor

rng = np.random.default_rng(0)


def observe(n):
    x = np.sort(rng.uniform(0.0, 1.0, n))
    deviation = np.where(x < 0.5, 0.05, 0.5)
    return x[:, None], np.sin(8.0 * x) + deviation * rng.standard_normal(n)


X, y = observe(1500)
X_new, y_new = observe(10_000)
options = {"n_basis": 64, "random_state": 0}
models = {
    "one noise for all rows": SparseGPRegressor(**options).fit(X, y),
    'noise="varying"': SparseGPRegressor(noise="varying", **options).fit(X, y),
}

# %%
# The bands should hold 90 % of new observations everywhere.

grid = np.linspace(0.0, 1.0, 400)[:, None]
figure, rows = plt.subplots(1, 2, figsize=(8.0, 3.4), sharey=True, layout="constrained")
for axes, (name, model) in zip(rows, models.items(), strict=True):
    mean, std = model.predict(grid, return_std=True)
    axes.plot(X[:, 0], y, ".", color="0.6", markersize=2)
    axes.plot(grid[:, 0], mean, color="C0")
    band = mean - 1.645 * std, mean + 1.645 * std
    axes.fill_between(grid[:, 0], *band, alpha=0.3, color="C0", linewidth=0)
    axes.set(title=name, xlabel="x")
rows[0].set_ylabel("y")

for name, model in models.items():
    mean, std = model.predict(X_new, return_std=True)
    inside = np.abs(y_new - mean) < 1.645 * std
    left = X_new[:, 0] < 0.5
    print(f"{name:>24}: covered {inside[left].mean():.2f} left, {inside[~left].mean():.2f} right")

# %%
# The report of the plain fit had said so, and that of the other fit says what it gained.

for text in models["one noise for all rows"].learning_report_.warnings:
    print("-", text)
print("noise", models['noise="varying"'].learning_report_.noise)

# %%
# ``noise_at`` is the standard deviation of the noise.

figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
axes.plot(grid[:, 0], np.where(grid[:, 0] < 0.5, 0.05, 0.5), "k--", label="true")
axes.plot(grid[:, 0], models['noise="varying"'].noise_at(grid), label="noise_at")
axes.set(xlabel="x", ylabel="standard deviation of the noise")
axes.legend(frameon=False)
