"""
Outliers
========

A few wrong targets pull a Gaussian process far away from the others. With
``likelihood="student-t"``, rows far from what the others predict lose their weight, and are listed.
"""

# %%
# One reading in twenty is wrong, always in the same direction.

import matplotlib.pyplot as plt
import numpy as np

from pursuit import SparseGPRegressor

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0.0, 1.0, (800, 1)), axis=0)
truth = np.sin(8.0 * X[:, 0])
y = truth + 0.1 * rng.standard_normal(800)
wrong = rng.permutation(800)[:40]
y[wrong] += rng.uniform(2.0, 8.0, 40)

options = {"n_basis": 50, "random_state": 0}
plain = SparseGPRegressor(**options).fit(X, y)
robust = SparseGPRegressor(likelihood="student-t", **options).fit(X, y)

# %%
# Both fits, with bands of one standard deviation of an observation.

figure, panels = plt.subplots(1, 2, figsize=(8.0, 3.6), sharey=True, layout="constrained")
named = zip(panels, ("gaussian", "student-t"), (plain, robust), strict=True)
for axes, name, model in named:
    mean, std = model.predict(X, return_std=True)
    axes.plot(X[:, 0], y, ".", color="0.6", markersize=3)
    axes.plot(X[:, 0], truth, "k--", linewidth=1, label="truth")
    axes.plot(X[:, 0], mean, color="C0", label="fit")
    axes.fill_between(X[:, 0], mean - std, mean + std, alpha=0.3, color="C0", linewidth=0)
    axes.set(title=f'likelihood="{name}"', xlabel="x")
    print(f"{name:>10}: error of the mean {np.sqrt(np.mean((mean - truth) ** 2)):.3f}")
panels[1].plot(X[robust.outliers_, 0], y[robust.outliers_], "x", color="C3", label="outliers_")
panels[1].legend(frameon=False)
panels[0].set_ylabel("y")

# %%
# The listed rows are those that were spoiled. The certificate says what it is about.

print(
    "found:", len(robust.outliers_), "all of the wrong ones:", set(wrong) <= set(robust.outliers_)
)
print("degrees of freedom:", round(robust.degrees_of_freedom_, 1))
print(robust.certificate_)
