"""
Quantiles where the noise varies
================================

A mean and one error bar cannot describe noise that is skewed, or that grows with the input.
Quantiles can: each is the function that minimises its own pinball loss.
"""

# %%
# 1 500 rows with skewed noise that grows from left to right.

import numpy as np

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, 1_500)
middle, spread = np.sin(3 * x), 0.1 + 0.3 * (x + 1)
y = middle + spread * (rng.exponential(size=1_500) - 1.0)

# %%
# Five levels on one basis. Predictions are sorted in every row, so that they never cross. Every
# level has a certificate of its own, from before sorting.

from pursuit import SparseKernelGLM

levels = [0.05, 0.25, 0.5, 0.75, 0.95]
model = SparseKernelGLM(loss="quantile", quantile=levels, n_basis=40, random_state=0)
model.fit(x[:, None], y)
print(model.certificate_)

# %%
# How many new rows lie below each of them?

new = rng.uniform(-1, 1, 20_000)
new_y = np.sin(3 * new) + (0.1 + 0.3 * (new + 1)) * (rng.exponential(size=20_000) - 1.0)
below = np.mean(new_y[:, None] < model.predict(new[:, None]), axis=0)
for level, share in zip(levels, below, strict=True):
    print(f"{level:.2f}: {share:.3f} of the new rows lie below")

# %%
# Lines are fitted quantiles, dashes the true ones.

import matplotlib.pyplot as plt

grid = np.linspace(-1, 1, 300)
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.scatter(x, y, s=4, color="0.75")
fitted = model.predict(grid[:, None])
for j, level in enumerate(levels):
    true = np.sin(3 * grid) + (0.1 + 0.3 * (grid + 1)) * (-np.log1p(-level) - 1.0)
    [line] = ax.plot(grid, fitted[:, j], label=f"{level:.2f}")
    ax.plot(grid, true, "--", color=line.get_color(), lw=1)
ax.set(xlabel="x", ylabel="y", title="Five quantiles of skewed, growing noise")
ax.legend(title="level", loc="upper left")
plt.show()
