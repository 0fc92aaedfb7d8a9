"""
Better landmarks than random ones
=================================

``Nystroem`` maps rows to features by means of randomly drawn landmarks. ``GreedyFeatureMap`` takes
its place in any pipeline and chooses landmarks that leave less of the kernel matrix.
"""

# %%
# Handwritten digits, and a linear classifier on features of a Gaussian kernel.

from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from pursuit import GreedyFeatureMap, Search

X, y = load_digits(return_X_y=True)
X = X / 16.0
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)

# %%
# One line changes in the pipeline.

gamma = 0.125
for features in (
    Nystroem(gamma=gamma, n_components=50, random_state=0),
    GreedyFeatureMap(gamma=gamma, n_components=50, random_state=0),
):
    model = make_pipeline(features, LogisticRegression(max_iter=2000)).fit(X_train, y_train)
    print(f"{type(features).__name__}: {model.score(X_test, y_test):.3f} of the test digits")

# %%
# The map says what it misses: the trace of the kernel matrix less that of its approximation.

greedy = GreedyFeatureMap(gamma=gamma, n_components=300, random_state=0).fit(X_train)
print(greedy.path_)
print(greedy.residual_bound())

# %%
# Random landmarks, block random pivots and greedy ones, as their number grows. Ten draws of the
# first show how much of it is luck.

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(0)
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for draw in range(10):
    rows = rng.choice(len(X_train), 300, replace=False)
    own = Search("pooled", candidates=X_train[rows])
    plain = GreedyFeatureMap(gamma=gamma, n_components=300, search=own).fit(X_train)
    label = "uniformly random" if draw == 0 else None
    ax.plot(plain.path_.value / plain.trace_, color="0.75", linewidth=1, label=label)
pivots = GreedyFeatureMap(gamma=gamma, n_components=300, rule="random-pivot", random_state=0)
pivots.fit(X_train)
ax.plot(pivots.path_.value / pivots.trace_, color="#0072B2", label="random pivots")
ax.plot(greedy.path_.value / greedy.trace_, color="#D55E00", label="greedy pivots")
ax.set_yscale("log")
ax.set_xlabel("Landmarks")
ax.set_ylabel("Share of the trace that is missed")
ax.legend()
plt.show()
