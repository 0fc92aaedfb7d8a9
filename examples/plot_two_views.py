"""
Two views of the digits
=======================

Cut every digit into its upper and its lower half. Neither half knows the other, but both know which
digit it is: what they have in common is the digit. ``SparseKernelCCA`` finds it without labels.
"""

# %%
# Two views of the same rows.

from sklearn.datasets import load_digits

digits = load_digits()
images = digits.images / 16
upper, lower = images[:, :4].reshape(-1, 32), images[:, 4:].reshape(-1, 32)
train, test = slice(0, 1200), slice(1200, None)

# %%
# Pairs of rows are chosen for how alike their kernel columns are in both views; canonical
# correlations are then found between the two spans.

from pursuit import SparseKernelCCA

cca = SparseKernelCCA(
    n_basis=100,
    n_components=6,
    regularization=0.01,
    kernel_params_x={"gamma": 0.1},
    kernel_params_y={"gamma": 0.1},
    random_state=0,
).fit(upper[train], lower[train])
print(cca.generalization_bound_)

# %%
# Correlations on new digits are lower than in training, but most of them last.

import matplotlib.pyplot as plt

from pursuit import CorrelationDisplay

fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
CorrelationDisplay.from_estimator(cca, upper[test], lower[test], ax=ax)
plt.show()

# %%
# The first two scores of the upper halves, new digits only. The colours are the labels, which were
# not used.

from sklearn.linear_model import LogisticRegression

scores = cca.transform(upper)
fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
points = ax.scatter(*scores[test, :2].T, c=digits.target[test], cmap="tab10", s=12)
fig.colorbar(points, label="Digit")
ax.set_xlabel("First score of the upper half")
ax.set_ylabel("Second score")
plt.show()

model = LogisticRegression().fit(scores[train], digits.target[train])
accuracy = model.score(scores[test], digits.target[test])
print(f"digits told apart by six scores of the upper half: {accuracy:.1%}")
