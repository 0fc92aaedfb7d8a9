"""
Trend, season and remainder of a monthly series
===============================================

A sum of kernels is a sum of functions: one for the trend, one for the season, one for what wanders
about them. :class:`~pursuit.ExactGPRegressor` learns the hyper-parameters of all of them at once,
and ``predict_parts`` returns each function with its standard deviation. :doc:`/kernels` explains
what is computed.
"""

# %%
# Forty years of monthly figures, made here: a trend that bends, a season whose shape is no sine, a
# remainder that wanders over a year or two, and noise.

import numpy as np

rng = np.random.default_rng(0)
years = 1980 + np.arange(480) / 12
trend = 10 + 0.08 * (years - 1980) + 1.5 * np.tanh((years - 2005) / 8)
season = np.sin(2 * np.pi * years) + 0.5 * np.cos(4 * np.pi * years)
shocks = rng.standard_normal(480)
remainder = np.convolve(shocks, np.exp(-np.arange(60) / 10), "full")[:480] / 8
y = trend + season + remainder + 0.2 * rng.standard_normal(480)

# %%
# The kernel has a term for each. The start of the period is half the true one: periods that a
# periodogram suggests are further starts, and the evidence decides.

from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern, WhiteKernel

from pursuit import ExactGPRegressor

kernel = (
    1.0 * RBF(10.0, (5.0, 100.0))
    + 1.0 * ExpSineSquared(1.0, 0.5, (0.3, 10.0), (0.2, 3.0))
    + 0.1 * Matern(1.0, (0.3, 5.0), nu=1.5)
    + WhiteKernel(0.1)
)
X = years[:, None]
model = ExactGPRegressor(kernel, random_state=0).fit(X[:420], y[:420])
print(model.kernel_)

# %%
# One column per term, and the constant. ``center`` moves the mean of every part over the given rows
# to the constant: the level of a part is known much worse than its shape, since another part could
# have it.

parts, std = model.predict_parts(X, return_std=True, center=X[:420])
print(model.part_names_, parts.shape)
print(f"sum of the parts less predict: {np.abs(parts.sum(axis=1) - model.predict(X)).max():.1e}")

# %%
# The last five years were not seen. Trend and season go on; the remainder returns to zero, and its
# band opens to what it usually is.

import matplotlib.pyplot as plt

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.6"
figure, axes = plt.subplots(4, 1, figsize=(7, 8), sharex=True, layout="constrained")
mean, spread = model.predict(X, return_std=True)
axes[0].plot(years, y, ".", color=GREY, markersize=3)
axes[0].plot(years, mean, color=BLUE, linewidth=1)
axes[0].fill_between(years, mean - 2 * spread, mean + 2 * spread, color=BLUE, alpha=0.2)
axes[0].set_ylabel("series")
truths = trend, season, remainder
for t, (ax, name, truth) in enumerate(
    zip(axes[1:], ("trend", "season", "remainder"), truths, strict=True)
):
    ax.plot(years, truth - truth[:420].mean(), color=ORANGE, linewidth=1, label="truth")
    ax.plot(years, parts[:, t], color=BLUE, linewidth=1, label="part")
    low, high = parts[:, t] - 2 * std[:, t], parts[:, t] + 2 * std[:, t]
    ax.fill_between(years, low, high, color=BLUE, alpha=0.2)
    ax.set_ylabel(name)
for ax in axes:
    ax.axvline(years[420], color="black", linewidth=0.8, linestyle=":")
axes[1].legend(frameon=False, loc="upper left")
axes[-1].set_xlabel("year")
plt.show()

# %%
# If the terms are not known, ``kernel="search"`` looks for them: it grows sums and products from
# the best of the fixed families as long as the evidence rises, and takes the result if it predicts
# rows left out better. The report holds every kernel that it has tried.

searched = ExactGPRegressor("search", random_state=0).fit(X[:420], y[:420])
for step in searched.learning_report_.search_path:
    print(f"{step.evidence_per_row:8.4f}  {'yes' if step.accepted else 'no ':3}  {step.expression}")
for name, one in {"the kernel above": model, "search": searched}.items():
    error = np.sqrt(np.mean((one.predict(X[420:]) - y[420:]) ** 2))
    print(f"error of the last five years with {name}: {error:.3f}")
