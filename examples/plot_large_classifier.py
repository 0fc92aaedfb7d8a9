"""
A kernel classifier on 200 000 rows
===================================

A support vector machine asks for the kernel values of all pairs of its support vectors, time and
again. ``LowRankSVC`` fits the same machine in the span of a few kernel functions, and proves
afterwards how far it can be from the one that the full kernel would have given.
"""

# %%
# Two classes on a curved chessboard. The full kernel matrix would have 4e10 entries: 320 GB.

import numpy as np


def chessboard(n_rows, seed):
    """Points of the plane, and on which colour they lie; near the edges some labels are wrong."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n_rows, 2))
    height = np.sin(2.0 * X[:, 0] + 0.5 * X[:, 1]) * np.sin(2.0 * X[:, 1] - 0.5 * X[:, 0])
    return X, height + 0.02 * rng.standard_normal(n_rows) > 0.0


X, y = chessboard(200_000, seed=0)
X_test, y_test = chessboard(20_000, seed=1)

# %%
# The basis grows until the certificate is below ``tol``: then no function of the kernel can lower
# the objective by more than a thousandth of the reduction that the machine has achieved. Moving the
# chosen points gives smaller bases, but in the plane the difference is small.

from time import perf_counter

from pursuit import LowRankSVC

start = perf_counter()
model = LowRankSVC(gamma=1.0, C=10.0, tol=1e-3, refine=False, random_state=0).fit(X, y)
seconds = perf_counter() - start
print(f"{seconds:.1f} s, {model.n_basis_} basis functions, {len(model.support_)} support vectors")
print(f"{model.score(X_test, y_test):.4f} of the test rows")
print(model.certificate_)

# %%
# Every size that was tried has a certificate.

tried = np.flatnonzero(np.isfinite(model.path_.gap))
for step in tried:
    print(f"{step + 1:4d} functions: relative gap {model.path_.gap[step]:.2g}")

# %%
# scikit-learn's ``SVC`` on a tenth of the rows. The time of a fit grows faster than the square of
# the number of rows, and a prediction uses all support vectors.

from sklearn.svm import SVC

start = perf_counter()
peer = SVC(gamma=1.0, C=10.0).fit(X[:20_000], y[:20_000])
print(f"SVC, 20 000 rows: {perf_counter() - start:.1f} s, {peer.support_.size} support vectors")
print(f"{peer.score(X_test, y_test):.4f} of the test rows")
for name, machine in [("SVC", peer), ("LowRankSVC", model)]:
    start = perf_counter()
    machine.predict(X_test)
    print(f"{name}: {1e3 * (perf_counter() - start):.0f} ms for 20 000 predictions")

# %%
# Support vectors lie where the classes meet. Basis functions only have to span the machine: they
# are spread over the plane, and are a hundred times fewer.

import matplotlib.pyplot as plt

side = np.linspace(-3.0, 3.0, 200)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
values = model.decision_function(grid).reshape(200, 200)
some = model.support_[:: max(1, len(model.support_) // 1500)]
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
for ax in (left, right):
    ax.contourf(side, side, values, levels=[-1e9, 0.0, 1e9], colors=["#D9E8F2", "#FBE9DD"])
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
left.scatter(*model.basis_.T, s=14, color="#0072B2")
left.set_title(f"{model.n_basis_} basis functions")
right.scatter(*X[some].T, s=2, color="#D55E00")
right.set_title(f"some of {len(model.support_)} support vectors")
plt.show()
