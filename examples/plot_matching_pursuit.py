"""
A size that a bound advises
===========================

Kernel matching pursuit adds one function at a time and fits by plain least squares. Only its size
keeps it from following the noise. Here a theorem chooses the size, and we check the choice.
"""

# %%
# A bumpy function of three features, with heavy-tailed noise.

import numpy as np


def make_data(m, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.2 * rng.standard_t(2.5, m)


X, y = make_data(1_000, seed=0)
X_test, y_test = make_data(5_000, seed=1)

# %%
# By default the fit grows until the bound on the probability of missing a new target by more than
# ``error_tol`` has passed its minimum, and goes back to it.

from pursuit import KernelMatchingPursuitRegressor

model = KernelMatchingPursuitRegressor().fit(X, y)
print(model.path_)
print(model.generalization_bound_)

# %%
# The bound is above 1, so it says nothing about the risk, and it reports that it is vacuous. Its
# minimum is a good choice nevertheless. A longer path shows the test error at every size;
# ``truncated`` gives the smaller models without fitting again.

path = KernelMatchingPursuitRegressor(n_basis=100).fit(X, y)
sizes = np.arange(1, path.n_basis_ + 1)
errors = [np.sqrt(np.mean((path.truncated(n).predict(X_test) - y_test) ** 2)) for n in sizes]
print(f"best size {1 + np.argmin(errors)}: {min(errors):.3f}")
print(f"by the bound {model.n_basis_}: {errors[model.n_basis_ - 1]:.3f}")

# %%
# The same with a fifth of the rows set aside to choose the size, which is often better if there are
# few rows.

split = KernelMatchingPursuitRegressor(n_basis="validation", random_state=0).fit(X, y)
print(f"by validation {split.n_basis_}: {errors[split.n_basis_ - 1]:.3f}")

# %%
# Left: both forms of the bound, dotted because they are vacuous; the printed form chooses the size.
# Right: the error on the training rows and on new ones.

import matplotlib.pyplot as plt

from pursuit import BoundDisplay

fig, (left, right) = plt.subplots(ncols=2, figsize=(9, 4), layout="constrained")
BoundDisplay([path.generalization_bound_, path.printed_bound_]).plot(ax=left)
left.axvline(model.n_basis_, color="0.6", linewidth=1)
left.set_ylabel("Bound on the probability of a miss")
left.legend(["exact counts", "as printed", "known anyway", "size by the bound"], fontsize="small")
left.set_title("What is promised")
right.plot(sizes, np.sqrt(2 * path.path_.value / len(y)), label="training rows")
right.plot(sizes, errors, label="new rows")
right.axvline(model.n_basis_, color="0.6", linewidth=1, label="size by the bound")
right.set_xlabel("Number of basis functions")
right.set_ylabel("Root mean squared error")
right.set_title("What happens")
right.legend()
plt.show()

# %%
# A bound below 1 needs a tolerance that the noise seldom exceeds. It then chooses a smaller model,
# since few functions suffice to miss so rarely by so much.

wide = KernelMatchingPursuitRegressor(error_tol=2.0).fit(X, y)
missed = np.mean(np.abs(wide.predict(X_test) - y_test) > 2.0)
print(wide.generalization_bound_)
print(f"missed on new rows: {missed:.3f}")
