"""
A map from roads and stations
=============================

Measurements are often dense along roads and scattered elsewhere, of a field that varies over the
whole region and from one street to the next. A few hundred basis functions draw the first map;
near rows fill in the streets. :doc:`/full_scale` explains what is computed.
"""

# %%
# A synthetic field: a smooth part and a rough one. It is measured step by step along 36 winding
# roads, and at 400 stations.

import numpy as np


def field(places, scale, seed, n_waves=300):
    """A draw from a Gaussian process with a Matérn 3/2 kernel."""
    rng = np.random.default_rng(seed)
    waves = rng.standard_normal((n_waves, 2)) / scale
    waves /= np.sqrt(rng.chisquare(3, (n_waves, 1)) / 3)
    phases = rng.uniform(0, 2 * np.pi, n_waves)
    return np.sqrt(2 / n_waves) * np.cos(places @ waves.T + phases).sum(axis=1)


def truth(places):
    return field(places, 0.4, seed=4) + 0.6 * field(places, 0.06, seed=2)


def road(rng, n_places=260, step=0.005):
    heading = rng.uniform(0, 2 * np.pi) + np.cumsum(rng.normal(0, 0.06, n_places))
    steps = step * np.column_stack([np.cos(heading), np.sin(heading)])
    places = rng.uniform(0.1, 0.9, 2) + np.cumsum(steps, axis=0)
    return places[np.all((places > 0) & (places < 1), axis=1)]


rng = np.random.default_rng(0)
roads = [road(rng) for _ in range(36)]
stations = rng.uniform(size=(400, 2))
X = np.vstack([*roads, stations])
y = truth(X) + 0.1 * rng.standard_normal(len(X))
mixed = rng.permutation(len(X))
test, train = mixed[:800], mixed[800:]

# %%
# One fit gives both models: ``global_`` is the sparse one, of 100 basis functions. The number of
# near rows is given here. ``"auto"`` asks reserved rows, which lie on roads like most others, and
# takes 16; but the 16 nearest rows of a place beside a road may all be on that road.

from pursuit import Evidence, FullScaleGPRegressor

model = FullScaleGPRegressor(
    n_basis=100, n_neighbors=64, optimizer=Evidence(rows=1_000), random_state=0
)
model.fit(X[train], y[train])
print(f"{len(train)} rows; {model.learning_report_.calibration}")

# %%
# On rows that were set aside:

for name, each in [("basis", model.without_neighbors()), ("basis and near rows", model)]:
    mean, std = each.predict(X[test], return_std=True)
    error = y[test] - mean
    print(
        f"{name:>20}: error {np.sqrt(np.mean(error**2)):.3f} (noise 0.1), "
        f"{np.mean(np.abs(error) < 1.96 * std):.1%} within 95 % bands"
    )

# %%
# Two maps
# --------
# The sparse map has the hills; the other one has what the roads and stations have seen of the rest.

import matplotlib.pyplot as plt

side = np.linspace(0, 1, 120)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
mean, std = model.predict(grid, return_std=True, include_noise=False)
basis_mean, basis_std = model.global_.predict(grid, return_std=True, include_noise=False)
actual = truth(grid)


def draw(ax, values, title, **colours):
    image = ax.imshow(values.reshape(len(side), -1), origin="lower", extent=(0, 1, 0, 1), **colours)
    ax.set(title=title, xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
    return image


hills = {"cmap": "Spectral_r", "vmin": -2.2, "vmax": 2.2}
figure, axes = plt.subplots(ncols=3, figsize=(11, 3.7), layout="constrained")
draw(axes[0], actual, "The field", **hills)
draw(axes[1], basis_mean, f"{model.global_.n_basis_} basis functions", **hills)
image = draw(axes[2], mean, f"and {model.n_neighbors_} near rows", **hills)
for path in roads:
    axes[0].plot(*path.T, color="black", linewidth=0.6)
axes[0].plot(*stations.T, ".", color="black", markersize=2)
axes[1].plot(*model.global_.basis_.T, "o", color="white", markeredgecolor="black", markersize=3)
figure.colorbar(image, ax=axes)
plt.show()

# %%
# Where near rows help
# --------------------
# Left, the error bars: narrow along the roads, wide between stations. Middle, the errors, which
# follow them. Right, by how much near rows lower the error (green).

figure, axes = plt.subplots(ncols=3, figsize=(11, 3.7), layout="constrained")
shades = {"cmap": "magma_r", "vmin": 0, "vmax": 0.6}
bars = draw(axes[0], std, "Standard deviation", **shades)
draw(axes[1], np.abs(mean - actual), "Error", **shades)
figure.colorbar(bars, ax=axes[:2])
gain = np.abs(basis_mean - actual) - np.abs(mean - actual)
help_of = draw(axes[2], gain, "What near rows take off the error", cmap="PiYG", vmin=-0.6, vmax=0.6)
figure.colorbar(help_of, ax=axes[2])
plt.show()

# %%
# The nearer the next row, the more there is to gain. The error bars were calibrated on rows left
# out, and hold at distances that rows have from each other. Far from all of them, where no row
# could tell, the error bars of both models are too narrow.

from scipy.spatial import cKDTree

distance, _ = cKDTree(X[train]).query(grid)
edges = np.quantile(distance, np.linspace(0, 1, 9))
middles = np.sqrt(edges[1:] * np.maximum(edges[:-1], edges[1] / 4))
which = np.clip(np.searchsorted(edges, distance) - 1, 0, 7)


def root_mean_square(values):
    return [np.sqrt(np.mean(values[which == i] ** 2)) for i in range(8)]


figure, ax = plt.subplots(figsize=(6.6, 3.9), layout="constrained")
for name, middle, spread, color in [
    ("basis", basis_mean, basis_std, "#0072B2"),
    ("basis and near rows", mean, std, "#009E73"),
]:
    ax.plot(middles, root_mean_square(middle - actual), "o-", color=color, label=name)
    ax.plot(middles, root_mean_square(spread), ":", color=color, label="  its error bars say")
ax.set(xlabel="distance to the nearest row", ylabel="error of the mean", ylim=(0, None))
ax.legend(frameon=False)
plt.show()
