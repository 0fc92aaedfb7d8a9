"""
The full Gaussian process, iteration by iteration
=================================================

Beyond 3 000 rows :class:`~pursuit.ExactGPRegressor` does not factor the kernel matrix: it solves by
conjugate gradients and never stores the matrix. Here are 4 000 rows. The page :doc:`/exact_gp`
explains what is computed.
"""

# %%
# A fit and its path
# ------------------
# The kernel is given here, so only the solution takes time. Every iteration evaluates the kernel
# matrix once, tile by tile, and stores nothing of it.

from sklearn.gaussian_process.kernels import RBF

from pursuit import ExactGPRegressor
from pursuit.datasets import make_robot_arm

arm = make_robot_arm(4500, random_state=0)
X, y, X_new, y_new = arm.data[:4000], arm.target[:4000], arm.data[4000:], arm.target[4000:]

kernel = 0.5 * RBF([1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.9, 3.2])
given = {"noise": 0.007, "optimizer": None, "random_state": 0}
model = ExactGPRegressor(kernel, **given).fit(X, y)
print(model.path_)
print(model.certificate_)

# %%
# What landmarks are for
# ----------------------
# The preconditioner is made of landmarks. The more landmarks, the fewer iterations; without any,
# conjugate gradients are slow. Filled marks are residuals computed in float64; between them the
# tiles are float32.

import warnings

import matplotlib.pyplot as plt
from sklearn.exceptions import ConvergenceWarning

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for size, color in ((0, "#999999"), (100, "#E69F00"), (400, "#56B4E9"), (1000, "#009E73")):
    tried = ExactGPRegressor(kernel, preconditioner_size=size, max_iter=100, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # some are stopped on purpose
        path = tried.fit(X, y).path_
    ax.semilogy(path.iterations, path.residual, color=color, label=f"{size} landmarks")
    ax.plot(path.iterations[path.certified], path.residual[path.certified], "o", color=color)
ax.axhline(1e-4, color="0.35", linestyle=":", label="tol")
ax.set(xlabel="Iteration", ylabel="Relative residual")
ax.legend()
plt.show()

# %%
# Between two bounds
# ------------------
# At every iteration the minimum of the objective lies between a value that has been reached and a
# proved lower bound. Their distance falls by orders of magnitude.

path = model.path_
gap = [certificate.gap for certificate in path.certificates]
at_least = [certificate.gap_at_least for certificate in path.certificates]
fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.fill_between(path.iterations, at_least, gap, color="#56B4E9", alpha=0.5)
ax.semilogy(path.iterations, gap, color="#0072B2", label="at most")
ax.semilogy(path.iterations, at_least, color="#0072B2", linestyle=":", label="at least")
ax.set(xlabel="Iteration", ylabel="Distance to the minimum")
ax.legend()
plt.show()

# %%
# Error bars to order
# -------------------
# Every standard deviation needs another solution. ``std_bounds`` iterates until both bounds are as
# close to each other as you ask.

for tol in (0.5, 0.1, 0.01):
    lower, upper = model.std_bounds(X_new[:5], tol=tol)
    print(f"tol {tol:<5}", "  ".join(f"{a:.4f}-{b:.4f}" for a, b in zip(lower, upper, strict=True)))
