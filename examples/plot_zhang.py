"""
Four ways to choose, and what theory says of them
=================================================

Kernel ridge regression with few kernel functions, by the four algorithms of
:cite:t:`zhang2002approximation`, on his own example. Each has a proved rate of convergence; this
page shows how fast they really are, and what the proofs are worth. The page
:doc:`/sparse_kernel_ridge` explains the algorithms.
"""

# %%
# The problem
# -----------
# A thousand sparse rows of a thousand features. Nearly all entries are zero, and with a linear
# kernel they are never filled in.

import numpy as np
from scipy import sparse

m = 1000
rng = np.random.default_rng(0)
filled = rng.random((m, m)) < 0.01
X = sparse.csr_array(np.where(filled, rng.random((m, m)), 0.0))
y = X @ rng.random(m) + rng.uniform(-1, 1, m)

alpha = 0.1 * m
K = (X @ X.T).toarray()
least = 0.5 * alpha * y @ np.linalg.solve(K + alpha * np.eye(m), y)
print(f"the minimum is {least / m:.2f} a row; zero is {(0.5 * y @ y - least) / m:.2f} above it")

# %%
# How fast they are
# -----------------
# ``"greedy"`` looks at all rows at every step, ``"kappa"`` at 59 random ones, and both only rescale
# what they have and add one function. ``"random"`` draws its functions blindly but fits them well.
# ``"subspace"`` does both, and with ``refit=True`` so do the others.

import matplotlib.pyplot as plt

from pursuit import SparseKernelRidge

given = {"kernel": "linear", "alpha": alpha, "n_basis": 150, "random_state": 0}
ways = {
    "random": {"method": "random"},
    "κ-greedy": {"method": "kappa"},
    "greedy": {"method": "greedy"},
    "κ-greedy, refitted": {"method": "kappa", "refit": True},
    "greedy, refitted": {"method": "greedy", "refit": True},
    "subspace": {"method": "subspace"},
}
models = {name: SparseKernelRidge(**given, **how).fit(X, y) for name, how in ways.items()}

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for name, model in models.items():
    ax.plot(np.arange(1, model.n_basis_ + 1), (model.path_.value - least) / m, label=name)
ax.set(xlabel="Number of basis functions", ylabel="Distance from the minimum, a row")
ax.legend()
plt.show()

greedy = models["greedy"]
print(f"greedy took {greedy.n_steps_} steps for its {greedy.n_basis_} functions")

# %%
# Rows of so few common features are nearly orthogonal: none is taken again, and refitting brings
# little. With a smooth kernel it brings a lot.

# %%
# What the proofs say
# -------------------
# Theorem 5.1 holds for all of them, and hardly moves: with this ridge it promises half of what is
# to be gained after tens of thousands of steps. A bound that says less than is known without it is
# called vacuous and drawn dotted.

from pursuit import BoundDisplay

print(greedy.rate_bound_)
fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
BoundDisplay.from_estimator(models["subspace"], X, y, ax=ax)
plt.show()

# %%
# It is not always so. The heavier the ridge, the faster the rate; here it is ahead of what the
# objective itself tells: without a certificate, all that is known of the minimum is P(f) ≥ 0.

heavy = SparseKernelRidge("linear", alpha=100 * m, n_basis=150, certificate=None).fit(X, y)
fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
BoundDisplay.from_estimator(heavy, ax=ax)
plt.show()

# %%
# What a certificate says
# -----------------------
# A rate is proved before the data are seen. A certificate looks at them, and works for every model,
# refitted or not.

for name in ("greedy", "greedy, refitted"):
    print(f"{name}: {models[name].certificate_}")
