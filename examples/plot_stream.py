"""
Rows that arrive in parts
=========================

A sparse model depends on the rows only through sums, which more rows can be added to. Here a model
is fitted to the first rows of a stream, takes in the rest chunk by chunk, and is merged from parts
that were never in one place.
"""

# %%
# A stream of 60 000 readings. The basis is chosen, and kernel and noise are learned, from the first
# 4 000 of them.

import matplotlib.pyplot as plt
import numpy as np

from pursuit import SparseGPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-3.0, 3.0, (60_000, 2))
truth = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * X[:, 1]
y = truth + 0.5 * rng.standard_normal(len(X))
X_new = rng.uniform(-3.0, 3.0, (2_000, 2))
truth_new = np.sin(2.0 * X_new[:, 0]) * np.cos(X_new[:, 1]) + 0.3 * X_new[:, 1]

model = SparseGPRegressor(n_basis=100, refine=False, random_state=0).fit(X[:4000], y[:4000])
first = model.emptied()  # same basis, kernel and noise, no rows: for the other machines below

# %%
# The stream is processed in chunks. ``partial_fit`` is exact: the model is the fit to all rows so
# far in the span of the basis.

seen, errors, widths = [], [], []
for start in range(4000, 60_000, 4000):
    mean, std = model.predict(X_new, return_std=True, include_noise=False)
    seen.append(start)
    errors.append(np.sqrt(np.mean((mean - truth_new) ** 2)))
    widths.append(std.mean())
    model.partial_fit(X[start : start + 4000], y[start : start + 4000])

figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
axes.plot(seen, errors, "o-", label="error of the mean")
axes.plot(seen, widths, "s--", label="its standard deviation, as predicted")
axes.set(xlabel="rows seen", ylabel="units of y", xscale="log", yscale="log")
axes.set_xticks([5_000, 10_000, 20_000, 50_000], ["5 000", "10 000", "20 000", "50 000"])
axes.set_xticks([], minor=True)
axes.legend(frameon=False)

# %%
# Two machines with different rows begin with the same basis; ``merge`` adds their sums.

north = first.emptied().partial_fit(X[:30_000], y[:30_000])
south = first.emptied().partial_fit(X[30_000:], y[30_000:])
together = north.merge(south)
print("largest difference:", np.abs(together.predict(X_new) - model.predict(X_new)).max())

# %%
# After many rows the first functions need not be the best ones any more. ``grow(keep=False)`` puts
# them in the order of their worth or, if rows are given, chooses again.

small = model.grow(60, keep=False)
again = model.grow(100, X, y, keep=False)
for name, each in [("first 60", model.truncated(60)), ("best 60", small), ("chosen again", again)]:
    error = np.sqrt(np.mean((each.predict(X_new) - truth_new) ** 2))
    print(f"{name:>13}: {each.n_basis_:3d} functions, error {error:.4f}")
