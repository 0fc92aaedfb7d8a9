"""
How far from the best
=====================

A sparse model is cheaper than the full one, and a little worse. Its certificate says how much worse
it can be at most, without computing the full model. Here the data are few enough to compute it as
well, and to compare. The page :doc:`/certificates` explains the idea.
"""

# %%
# The two curves
# --------------
# Two thousand noisy readings of a smooth function, around a level of 10. They are not centred, and
# the assumed noise variance of .1 is far too small, as in the experiments of
# :cite:t:`smola2001sparse`.

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from pursuit import SparseGPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(2000, 2))
y = 10 + 3 * np.sin(X[:, 0]) * np.cos(X[:, 1]) + rng.normal(scale=1.5, size=2000)

kernel, noise = RBF(0.8), 0.1
as_given = {"optimizer": None, "normalize_y": False, "random_state": 0}
model = SparseGPRegressor(kernel, noise=noise, n_basis=150, **as_given).fit(X, y)
print(model.certificate_)

# %%
# As basis functions are added, the objective of the model falls and the lower bound of the
# certificate rises. The minimum over all functions lies between the two, and where they meet
# nothing more can be gained.

import matplotlib.pyplot as plt

from pursuit import CertificateDisplay

exact_coef = np.linalg.solve(kernel(X) + noise * np.eye(len(X)), y)
least = 0.5 * noise * y @ exact_coef

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
CertificateDisplay.from_estimator(model, X, y, kinds=["hybrid"], show="bounds", ax=ax)
ax.axhline(least, color="0.35", linestyle=":", label="the minimum itself")
ax.legend()
plt.show()

# %%
# The published gap and its floor
# -------------------------------
# The distance between the curves is the gap. Two kinds of certificate are drawn here beside the
# true distance. The published kind cannot fall below the noise floor, however good the model is: a
# vector on *n* rows cannot account for the noise of all the others.

path = model.certify_path(X, y)
truth = 2 * (path.upper - least) / (y @ y - path.upper - least)

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
CertificateDisplay.from_estimator(model, X, y, ax=ax)
ax.plot(path.sizes, truth, color="black", linestyle=":", label="the true distance")
ax.legend()
plt.show()

# %%
# A tolerance
# -----------
# ``tol`` stops the choice of basis functions as soon as the certificate allows it. The published
# kind needs more functions than the hybrid one for the same guarantee.

for kind in ("published", "hybrid"):
    stopped = SparseGPRegressor(
        kernel, noise=noise, n_basis=500, tol=0.01, certificate=kind, **as_given
    ).fit(X, y)
    print(f"{kind:>9}: {stopped.n_basis_} basis functions, stopped by {stopped.path_.stop_reason}")

# %%
# Error bars between two bounds
# -----------------------------
# Error bars have certificates too. ``std_bounds`` gives a lower and an upper bound on the standard
# deviation of the full Gaussian process at any point. With few basis functions the bounds are far
# apart, with more they approach each other.

from sklearn.gaussian_process import GaussianProcessRegressor

x = np.sort(np.concatenate([rng.uniform(-6, -1, 300), rng.uniform(2, 6, 300)]))[:, None]
z = np.sin(x[:, 0]) + rng.normal(scale=0.3, size=600)
grid = np.linspace(-7, 7, 400)[:, None]
wave, variance = RBF(1.0), 0.09

full = GaussianProcessRegressor(wave, alpha=variance, optimizer=None).fit(x, z)
latent = full.predict(grid, return_std=True)[1]
exact = np.sqrt(latent**2 + variance)

fig, axes = plt.subplots(ncols=2, figsize=(9, 3.8), sharey=True, layout="constrained")
for ax, n in zip(axes, (12, 24), strict=True):
    few = SparseGPRegressor(wave, noise=variance, n_basis=n, **as_given).fit(x, z)
    lower, upper = few.std_bounds(grid, x)
    ax.fill_between(
        grid[:, 0], lower, upper, color="#56B4E9", alpha=0.5, label="between the bounds"
    )
    ax.plot(grid[:, 0], exact, color="black", label="full Gaussian process")
    ax.plot(x[:, 0], np.full(len(x), 0.25), "|", color="0.5", markersize=5, label="training rows")
    ax.set(title=f"{n} basis functions", xlabel="x")
axes[0].set_ylabel("Standard deviation of a new reading")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()

# %%
# The evidence between two bounds
# -------------------------------
# Gaussian processes are compared by their log evidence. A fitted model stores what its bounds need,
# so they cost nothing.

bounds = few.log_evidence_bounds_
print(f"{bounds.lower:.2f} <= {full.log_marginal_likelihood_value_:.2f} <= {bounds.upper:.2f}")
