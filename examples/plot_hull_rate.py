"""
What was promised, what is proved, what is true
===============================================

Greedy steps over a convex hull come with a rate, :math:`8M/(k + 3)`, and with a gap that is known
at every step. Here the minimum is known too, and all three can be compared.
"""

# %%
# A noisy signal and 200 atoms, which are random vectors; the model is a weighted mean of them.
# First the minimum, by corrective steps that stop when nothing more can be gained.

import matplotlib.pyplot as plt
import numpy as np

from pursuit import SquaredLoss, minimize_over_hull

rng = np.random.default_rng(0)
atoms = rng.normal(size=(100, 200))
y = atoms[:, :20].mean(axis=1) + 0.2 * rng.normal(size=100)
loss = SquaredLoss(y)

best = minimize_over_hull(loss, atoms, tol=1e-12)
print(best)

# %%
# Then a hundred steps of each kind. All stay below the rate, the published steps by far. The gap is
# always above the true distance. Corrective steps reach the minimum.

fig, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
colors = {"joint": "#0072B2", "frank-wolfe": "#E69F00", "corrective": "#009E73"}
for step, color in colors.items():
    found = minimize_over_hull(loss, atoms, 200, step=step, tol=1e-13, max_iter=100)
    k = np.arange(1, len(found.path) + 1)
    distance = np.maximum(found.path.value - best.certificate.lower, 1e-12)
    ax.loglog(k, distance, color=color, label=f"{step}, true distance")
    if step == "joint":
        # The path holds relative gaps: 2 gap / (2 f(start) - f - lower) with lower = f - gap.
        start = loss.value(atoms[:, np.argmin([loss.value(p) for p in atoms.T])])
        relative, value = found.path.gap, found.path.value
        gap = relative * (2 * start - 2 * value) / (2 - relative)
        proved = (relative < 2) & (gap > 0)
        ax.loglog(k[proved], gap[proved], color=color, linestyle="--", label="joint, gap")
        rate = found.rate_bound
        ax.loglog(rate.size, rate.value, color="0.3", linestyle=":", label="rate, Theorem 3.1")
ax.set(xlabel="Steps", ylabel="f less its minimum", ylim=(1e-7, None))
ax.legend()
plt.show()

# %%
# A printed certificate is a sentence:

print(found.certificate)
