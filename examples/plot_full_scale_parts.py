"""
What a basis explains, and what near rows add
=============================================

Many functions have a trend and fine detail. A few basis functions catch the trend; the detail would
need hundreds. :class:`~pursuit.FullScaleGPRegressor` leaves the detail to the training rows near
the point that is predicted. :doc:`/full_scale` explains what is computed.
"""

# %%
# A slow wave with a rough process on top, measured 2 400 times with noise. There are no rows
# between 6.1 and 6.4.

import numpy as np


def rough(x, scale=0.06, n_waves=400):
    """A draw from a Gaussian process with a Matérn 3/2 kernel."""
    rng = np.random.default_rng(1)
    waves = rng.standard_normal(n_waves) / scale / np.sqrt(rng.chisquare(3, n_waves) / 3)
    phases = rng.uniform(0, 2 * np.pi, n_waves)
    return np.sqrt(2 / n_waves) * np.cos(np.outer(x, waves) + phases).sum(axis=1)


def truth(x):
    return np.sin(1.2 * x) + 0.35 * rough(x)


rng = np.random.default_rng(0)
x = rng.uniform(0, 10, 2_500)
x = x[(x < 6.1) | (x > 6.4)]
y = truth(x) + 0.08 * rng.standard_normal(len(x))

# %%
# Twenty basis functions, and as many near rows as reserved rows ask for. The kernel is a sum, whose
# parameters are learned. The report says which numbers of near rows were tried, and the negative
# log density of each; 0 is the sparse model.

from sklearn.gaussian_process.kernels import RBF, Matern

from pursuit import Evidence, FullScaleGPRegressor

kernel = 1.0 * RBF(1.0) + 0.1 * Matern(0.1, nu=1.5)
options = {"n_basis": 20, "optimizer": Evidence(rows=1_000), "random_state": 0}
model = FullScaleGPRegressor(kernel, **options).fit(x[:, None], y)
print(model.learning_report_)

# %%
# The two parts of a prediction
# -----------------------------
# The mean is the sum of two functions: that of the basis, and a weighted sum of the errors that it
# makes at near rows. ``global_`` is the sparse model, so the difference is the second part.

import matplotlib.pyplot as plt

grid = np.linspace(0, 10, 2_001)
mean, std = model.predict(grid[:, None], return_std=True)
basis_mean, basis_std = model.global_.predict(grid[:, None], return_std=True)

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
n, k = model.global_.n_basis_, model.n_neighbors_
curves = [
    (basis_mean, BLUE, f"{n} basis functions"),
    (mean - basis_mean, ORANGE, f"the errors at the {k} nearest rows"),
    (mean, GREEN, "the sum"),
]
figure, axes = plt.subplots(3, sharex=True, sharey=True, figsize=(8, 6.6), layout="constrained")
for ax, (values, color, name) in zip(axes, curves, strict=True):
    ax.axvspan(6.1, 6.4, color="0.93", linewidth=0)
    if color != ORANGE:
        ax.plot(x, y, ".", color="0.75", markersize=2)
    ax.plot(grid, values, color=color, linewidth=1.2)
    ax.text(0.99, 0.9, name, color=color, weight="bold", ha="right", transform=ax.transAxes)
    ax.set_ylabel("y")
axes[2].set(xlabel="x", xlim=(0, 10))
plt.show()

# %%
# Where rows are missing, the second part fades within the reach of the rough process, and the basis
# is left alone.
#
# Error bars
# ----------
# A closer look, with bands that should hold 95 % of new observations. The sparse model is off by
# much, and says so: its band is wide. With near rows the band is as narrow as the noise allows
# where there are rows, and wide in the gap only.

figure, axes = plt.subplots(ncols=2, sharey=True, figsize=(9, 3.9), layout="constrained")
part = (grid >= 5.4) & (grid <= 7)
seen = (x >= 5.4) & (x <= 7)
bands = [("Basis", basis_mean, basis_std, BLUE), ("Basis and near rows", mean, std, GREEN)]
for ax, (title, middle, spread, color) in zip(axes, bands, strict=True):
    ax.axvspan(6.1, 6.4, color="0.93", linewidth=0)
    lower, upper = (middle - 1.96 * spread)[part], (middle + 1.96 * spread)[part]
    ax.fill_between(grid[part], lower, upper, color=color, alpha=0.25, linewidth=0)
    ax.plot(x[seen], y[seen], ".", color="0.45", markersize=3, label="rows")
    ax.plot(grid[part], truth(grid[part]), "k", linewidth=0.8, label="truth")
    ax.plot(grid[part], middle[part], color=color, linewidth=1.8, label="prediction")
    ax.set(title=title, xlabel="x", xlim=(5.4, 7))
    ax.legend(frameon=False, loc="upper left")
axes[0].set_ylabel("y")
plt.show()

# %%
# Bands on new rows
# -----------------
# Both models are calibrated on rows that they left out, so their bands hold on new rows. With so
# few functions it pays to fit them together with the near rows, as ``coupling="full"`` does.

full = FullScaleGPRegressor(kernel, coupling="full", **options).fit(x[:, None], y)
x_new = rng.uniform(0, 10, 5_000)
x_new = x_new[(x_new < 6.1) | (x_new > 6.4)]
y_new = truth(x_new) + 0.08 * rng.standard_normal(len(x_new))
models = {
    "basis": model.without_neighbors(),
    "basis and near rows": model,
    "the same, fitted together": full,
}
for name, each in models.items():
    mean_new, std_new = each.predict(x_new[:, None], return_std=True)
    error = np.sqrt(np.mean((mean_new - truth(x_new)) ** 2))
    inside = np.mean(np.abs(y_new - mean_new) < 1.96 * std_new)
    print(f"{name:>25}: error {error:.3f}, {inside:.1%} of new rows within 95 % bands")
