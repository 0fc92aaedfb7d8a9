"""
Choosing the dimension by a bound
=================================

How many basis vectors should a kernel PCA have? More of them always fit the training rows better.
A bound on what the subspace misses of *new* rows has a minimum, and that is where
``SparseKernelPCA`` stops by default.
"""

# %%
# A thousand points near a curve in twenty dimensions, and as many new ones.

import numpy as np

rng = np.random.default_rng(0)
turn = rng.uniform(0, 6, 2_000)
curve = np.column_stack([np.cos(turn), np.sin(turn), turn])
X = curve @ rng.normal(size=(3, 20)) + 0.2 * rng.normal(size=(2_000, 20))
X, new = X[:1_000], X[1_000:]

# %%
# The subspace is spanned by training rows. All other rows are like new rows, up to a price for
# having chosen the best of many subsets; this is a *sample compression* bound.

from pursuit import SparseKernelPCA

gamma = 0.02
pca = SparseKernelPCA(gamma=gamma, random_state=0).fit(X)
print(pca.path_)
print(pca.generalization_bound_)

# %%
# To see the whole curve, take more basis vectors than the bound chooses. The dashed line is known
# without any theorem: for this kernel no residual is above 1.

import matplotlib.pyplot as plt

from pursuit import BoundDisplay

wide = SparseKernelPCA(gamma=gamma, n_basis=120, random_state=0).fit(X)
bounds = [wide.generalization_bound_, wide.kpca_bound_]
display = BoundDisplay(bounds, wide.residual_curves(new)).plot()
display.ax_.axvline(pca.n_basis_, color="0.6", linewidth=1)
display.ax_.set_title(f"The bound advises {pca.n_basis_} basis vectors")
display.figure_.set_size_inches(8, 5)
plt.show()

# %%
# The residual of new rows follows that of the training rows outside the basis, since few of the
# thousand rows are in the basis. The bound is higher, which is the price of the proof, but has the
# same shape. It is constant from its minimum on: a larger span contains the smaller one and has no
# larger residual, but nothing better can be proved. The older bound for kernel PCA is above it
# everywhere.
