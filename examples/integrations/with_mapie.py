"""
MAPIE: conformal intervals by two packages
==========================================

*I make my intervals with MAPIE. Can it take these models, and do I still need it?* It can. Split
conformal intervals of both packages are the same numbers if the scores are the same. Ours divide
the errors by the model's own standard deviation; MAPIE has methods that set no rows aside.

``pip install mapie`` installs what this page needs.
"""

# %%
# The noise grows with the first column. Three parts of the rows: to fit, to calibrate, to judge.

import matplotlib.pyplot as plt
import numpy as np
from mapie.regression import CrossConformalRegressor, SplitConformalRegressor

from pursuit import SparseGPRegressor, SparseKernelRidge

rng = np.random.default_rng(0)
X = rng.uniform(0, 3, (6000, 2))
noise = 0.05 + 0.3 * X[:, 0]
y = np.sin(3 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(6000)
fit, held, new = slice(500), slice(500, 1000), slice(1000, None)

# %%
# A model without standard deviation has errors as its scores, in both packages. The ends of the
# intervals agree, so you can move from one package to the other in either direction. (Ours are
# wider by one part in 10⁹: rounding must not exclude an error that equals another one.)

ridge = SparseKernelRidge(alpha=0.1, gamma=1.0, random_state=0).fit(X[fit], y[fit])
theirs = SplitConformalRegressor(ridge, confidence_level=0.9).conformalize(X[held], y[held])
_, ends = theirs.predict_interval(X[new])
ours = np.column_stack(ridge.conformalize(X[held], y[held]).predict_interval(X[new], 0.9))
difference = np.abs(ours - ends[:, :, 0]).max()
assert difference < 1e-8
print("split conformal intervals of both packages agree to 1e-8")

# %%
# A Gaussian process knows where it is unsure, and with ``noise="varying"`` where the data are
# noisy. MAPIE's score does not ask it: all its intervals have one width.

process = SparseGPRegressor(noise="varying", n_basis=50, random_state=0).fit(X[fit], y[fit])
theirs = SplitConformalRegressor(process, confidence_level=0.9).conformalize(X[held], y[held])
process.conformalize(X[held], y[held])
intervals = {
    "MAPIE, split": theirs.predict_interval(X[new])[1][:, :, 0],
    "pursuit, split": np.column_stack(process.predict_interval(X[new], 0.9)),
}

# %%
# What MAPIE adds: cross-conformal intervals use every row to fit and to calibrate. They fit the
# model once per fold, here with kernel and noise as they were learned above.

plain = SparseGPRegressor(
    process.kernel_, noise=process.noise_, optimizer=None, n_basis=50, random_state=0
)
cross = CrossConformalRegressor(plain, confidence_level=0.9, cv=5, random_state=0)
cross.fit_conformalize(X[:1000], y[:1000])
intervals["MAPIE, cross"] = cross.predict_interval(X[new])[1][:, :, 0]

# %%
# All three cover 90 % of new rows. They differ in where.

quiet, loud = X[new, 0] < 1, X[new, 0] > 2
for name, (lower, upper) in ((name, ends.T) for name, ends in intervals.items()):
    covered = (lower <= y[new]) & (y[new] <= upper)
    everywhere, calm, noisy = covered.mean(), covered[quiet].mean(), covered[loud].mean()
    print(f"{name:14}: covers {everywhere:.0%}, {calm:.0%} where quiet, {noisy:.0%} where loud")
    assert 0.87 < everywhere < 0.93
    if name.startswith("pursuit"):
        assert min(calm, noisy) > 0.86

# %%
# The picture shows intervals along the first column, with the second column at 1.5.

grid = np.column_stack([np.linspace(0, 3, 200), np.full(200, 1.5)])
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
near = np.abs(X[new, 1] - 1.5) < 0.3
ax.plot(X[new][near, 0], (y[new] - X[new, 1] + 1.5)[near], ".", color="0.7", ms=3)
ax.fill_between(grid[:, 0], *process.predict_interval(grid, 0.9), alpha=0.4, label="pursuit, split")
ax.plot(grid[:, 0], theirs.predict_interval(grid)[1][:, :, 0], "C3--", label="MAPIE, split")
handles, labels = ax.get_legend_handles_labels()
ax.legend(handles[:2], labels[:2], loc="lower left")
ax.set(xlabel="first column", ylabel="y", title="90 % intervals")
plt.show()

# %%
# The documentation is built without these packages. This is what the recipe printed and drew:
#
# .. literalinclude:: /recipes/with_mapie.txt
#    :language: text
#
# .. image:: /recipes/with_mapie.png
#    :alt: Intervals of one width by MAPIE, and intervals that widen with the noise.

# sphinx_gallery_thumbnail_path = "recipes/with_mapie.png"
