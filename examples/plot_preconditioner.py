"""
Preconditioning your own conjugate gradients
============================================

Solving (K + σ²I)a = y by conjugate gradients takes many products with K where K has large
eigenvalues. A low-rank approximation knows those, and its inverse is cheap.
"""

# %%
# A kernel matrix of 2 000 rows and a small ridge.

import numpy as np
from scipy.sparse.linalg import cg
from sklearn.metrics.pairwise import rbf_kernel

from pursuit import GreedyFeatureMap

rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (2000, 3))
y = np.sin(4.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(2000)
gamma, noise = 1.0, 0.01
A = rbf_kernel(X, gamma=gamma) + noise * np.eye(2000)


def residuals(preconditioner):
    """The relative residual after every step of SciPy's solver."""
    found = [1.0]

    def look(a):
        found.append(np.linalg.norm(y - A @ a) / np.linalg.norm(y))

    cg(A, y, rtol=1e-8, M=preconditioner, callback=look, maxiter=1000)
    return found


# %%
# ``preconditioner`` gives (VV' + σ²I)⁻¹ as a SciPy operator, to be passed as ``M``.

curves = {"none": residuals(None)}
for n in (20, 80, 200):
    features = GreedyFeatureMap(gamma=gamma, n_components=n, random_state=0).fit(X)
    curves[f"{n} landmarks"] = residuals(features.preconditioner(noise))
for name, curve in curves.items():
    print(f"{name}: {len(curve) - 1} steps")

# %%
# The matrix need not come from a kernel: any symmetric positive semi-definite matrix will do, also
# a sparse one. Here it is that of a chain of springs, some of which are far stiffer than the
# others.

from scipy import sparse

stiffness = rng.lognormal(0.0, 3.0, 1999)
stretch = sparse.diags([-np.ones(1999), np.ones(1999)], [0, 1], shape=(1999, 2000))
chain = sparse.csr_matrix(stretch.T @ sparse.diags(stiffness) @ stretch)
force = rng.standard_normal(2000)
approximation = GreedyFeatureMap("precomputed", n_components=150, random_state=0).fit(chain)
steps = {}
for name, M in (("none", None), ("150 landmarks", approximation.preconditioner(1.0))):
    count = []
    cg(chain + sparse.eye(2000), force, rtol=1e-8, M=M, callback=count.append)
    steps[name] = len(count)
print("chain of springs:", steps)

# %%
# Residual against steps, for the kernel matrix.

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, curve), color in zip(
    curves.items(), ("0.6", "#56B4E9", "#0072B2", "#D55E00"), strict=True
):
    ax.semilogy(curve, color=color, label=name)
ax.set_xlabel("Step of conjugate gradients")
ax.set_ylabel("Relative residual")
ax.legend(title="Preconditioner")
plt.show()
