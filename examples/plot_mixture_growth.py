"""
A density that grows
====================

A mixture of Gaussians that begins with one component and adds one at a time, where it raises the
likelihood most.
"""

# %%
# Two moons, 2 000 points. The number of components is not given.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from pursuit import HullMixture

X = make_moons(2000, noise=0.08, random_state=0)[0]
model = HullMixture(random_state=0).fit(X)
print(f"{model.n_terms_} components, mean log density {model.score(X):.3f}")

# %%
# The same mixture at several stages of its growth, and the returned one.

side = np.linspace(-1.6, 2.6, 150)
grid = np.stack(np.meshgrid(side, np.linspace(-1.1, 1.6, 150)), axis=-1)
points = grid.reshape(-1, 2)
stages = dict(enumerate(model.staged_score_samples(points), start=1))
shown = {f"{k} component" + "s" * (k > 1): stages[k] for k in (1, 2, 4, 6)}
shown[f"final, {model.n_terms_}"] = model.score_samples(points)

fig, axes = plt.subplots(ncols=5, figsize=(13, 2.9), sharey=True, layout="constrained")
for ax, (title, density) in zip(axes, shown.items(), strict=True):
    ax.plot(X[::4, 0], X[::4, 1], ".", color="0.6", markersize=2)
    ax.contour(grid[..., 0], grid[..., 1], np.exp(density).reshape(150, 150), levels=8)
    ax.set(title=title)
plt.show()

# %%
# Where to stop: the criterion falls, flattens, and rises when components only follow the noise.

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
sizes = np.arange(1, len(model.criterion_path_) + 1)
ax.plot(sizes, model.criterion_path_, marker="o")
ax.axvline(sizes[model.criterion_path_.argmin()], color="0.4", linestyle=":")
ax.set(xlabel="Components", ylabel="Bayesian information criterion, per row")
plt.show()
