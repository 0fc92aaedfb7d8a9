"""
Counts, and what they were exposed to
=====================================

Counts are not numbers with normal noise: they are never negative, and they vary more where there
are more of them. ``SparseKernelGLM(loss="poisson")`` fits the logarithm of their mean.
"""

# %%
# Calls at a help desk, in 1 500 time slots of different lengths: many in the morning, few at night.

import numpy as np


def true_rate(hour):
    """Calls per hour: a large peak in the morning, a small one in the afternoon."""
    morning, afternoon = ((hour - 10) / 2.5) ** 2, ((hour - 17) / 2) ** 2
    return 12 * np.exp(-0.5 * morning) + 5 * np.exp(-0.5 * afternoon) + 0.3


rng = np.random.default_rng(0)
hour = rng.uniform(0, 24, 200)
length = rng.uniform(0.1, 1.0, 200)
rate = (
    12 * np.exp(-0.5 * ((hour - 10) / 2.5) ** 2) + 5 * np.exp(-0.5 * ((hour - 17) / 2) ** 2) + 0.3
)
calls = rng.poisson(rate * length)

# %%
# The logarithm of the length is an offset: a known part of the logarithm of the mean.

from pursuit import SparseKernelGLM

model = SparseKernelGLM(loss="poisson", n_basis=30, random_state=0)
model.fit(hour[:, None], calls, offset=np.log(length))
print(f"dispersion {model.dispersion_:.2f}: Poisson counts have 1")
print(model.certificate_)

# %%
# Least squares on the observed rates does not know that short slots tell little, nor that rates
# are positive.

from pursuit import SparseGPRegressor

squares = SparseGPRegressor(n_basis=30, random_state=0).fit(hour[:, None], calls / length)

# %%
# The fitted rates, calls per hour, beside the true one.

import matplotlib.pyplot as plt

grid = np.linspace(0, 24, 400)[:, None]
true = true_rate(grid)
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.scatter(hour, calls / length, s=4, color="0.75", label="calls / length")
ax.plot(grid, true, "k--", label="true rate")
ax.plot(grid, squares.predict(grid), label="least squares")
ax.plot(grid, model.predict(grid), label="Poisson")
ax.set(xlabel="hour", ylabel="calls per hour", ylim=(-2, 30), title="Rates from counts")
ax.legend()
plt.show()

# %%
# The error relative to the true rate tells what the picture shows where calls are rare, and the
# least rate whether a prediction can be believed at all.

for name, fitted in (("Poisson", model), ("least squares", squares)):
    error = np.sqrt(np.mean((fitted.predict(grid) / true[:, 0] - 1) ** 2))
    print(f"{name}: relative error {error:.2f}, least rate {fitted.predict(grid).min():.2f}")
