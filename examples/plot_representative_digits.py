"""
Picking representative digits
=============================

Which twenty images stand for two thousand? A greedy choice takes, at every step, the one whose
column explains most of what those before it have left, so that the first ones differ from each
other and show most of the classes.
"""

# %%
# Nothing is told about the classes. The width of the kernel is the paper's rule, half the number of
# pixels, for pixels between 0 and 1.

import numpy as np
from sklearn.datasets import load_digits

from pursuit import GreedyFeatureMap

digits = load_digits()
X = digits.data / 16.0
choice = GreedyFeatureMap(
    gamma=2.0 / X.shape[1], n_components=20, search="fresh", random_state=0
).fit(X)
labels = digits.target[choice.component_indices_]
print("the first ten:", labels[:10])
print("classes among them:", len(set(labels[:10])))

# %%
# How many classes ten images show varies with the luck of the candidates drawn. Uniformly random
# images show fewer.

seeds = range(20)
greedy = [
    len(
        set(
            digits.target[
                GreedyFeatureMap(
                    gamma=2.0 / X.shape[1], n_components=10, search="fresh", random_state=seed
                )
                .fit(X)
                .component_indices_
            ]
        )
    )
    for seed in seeds
]
rng = np.random.default_rng(0)
uniform = [len(set(rng.choice(digits.target, 10, replace=False))) for _ in seeds]
print(f"classes among ten, greedy: {np.mean(greedy):.1f}, uniform: {np.mean(uniform):.1f}")

# %%
# The images in the order of their choice, each with what is left of the trace after it.

import matplotlib.pyplot as plt

fig, axes = plt.subplots(2, 10, figsize=(10, 2.6), layout="constrained")
for ax, row, value in zip(axes.flat, choice.component_indices_, choice.path_.value, strict=True):
    ax.imshow(digits.images[row], cmap="gray_r")
    ax.set_title(f"{value / choice.trace_:.0%}", fontsize=9)
    ax.set_axis_off()
plt.show()
