"""
Novelty detection
=================

What a subspace misses of a row says how unlike the training rows it is. ``score_samples`` of
``SparseKernelPCA`` is minus that residual.
"""

# %%
# Two moons, with some noise among the training rows.

import numpy as np
from sklearn.datasets import make_moons

rng = np.random.default_rng(0)
moons = make_moons(1_500, noise=0.08, random_state=0)[0]
noise = rng.uniform([-2, -1.5], [3, 2], (575, 2))
X = np.vstack([moons[:1_000], noise[:75]])
normal, novel = moons[1_000:], noise[75:]

# %%
# Both detectors have the same kernel.

from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

from pursuit import SparseKernelPCA

gamma = 2.0
pca = SparseKernelPCA(gamma=gamma, n_basis=100, random_state=0).fit(X)
machine = OneClassSVM(gamma=gamma, nu=0.1).fit(X)
test = np.vstack([normal, novel])
truth = np.arange(len(test)) < len(normal)
for name, score in (
    ("SparseKernelPCA", pca.score_samples(test)),
    ("OneClassSVM", machine.decision_function(test)),
):
    print(f"{name}: area under the ROC curve {roc_auc_score(truth, score):.3f}")

# %%
# The threshold is set by the training rows, such that a tenth of them would be called novel.

threshold = np.quantile(pca.score_samples(X), 0.1)
print(f"normal rows called novel: {np.mean(pca.score_samples(normal) < threshold):.1%}")
print(f"novel rows called novel: {np.mean(pca.score_samples(novel) < threshold):.1%}")

# %%
# The score over the plane, with the threshold as a line.

import matplotlib.pyplot as plt

x, y = np.meshgrid(np.linspace(-2, 3, 120), np.linspace(-1.5, 2, 90))
plane = np.column_stack([x.ravel(), y.ravel()])
fig, axes = plt.subplots(ncols=2, figsize=(9, 3.5), layout="constrained", sharey=True)
for ax, (name, score, level) in zip(
    axes,
    (
        ("SparseKernelPCA", pca.score_samples(plane), threshold),
        ("OneClassSVM", machine.decision_function(plane), 0.0),
    ),
    strict=True,
):
    ax.contourf(x, y, score.reshape(x.shape), 12, cmap="Blues_r")
    ax.contour(x, y, score.reshape(x.shape), [level], colors="#D55E00", linestyles="solid")
    ax.plot(*X.T, ".", color="black", markersize=2)
    ax.set_title(name)
plt.show()
