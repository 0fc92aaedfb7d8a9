"""
Margins over the rounds of boosting
===================================

The margin of a row is the vote for its class, between -1 and 1. Boosting continues to raise margins
when all rows are already classified correctly.
"""

# %%
# Two classes with a curved border, and a vote of moderate confidence.

import matplotlib.pyplot as plt
import numpy as np

from pursuit import HullBoostClassifier

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(600, 2))
X = X[np.abs(X[:, 0] + X[:, 1] ** 2 - 0.3) > 0.05]
y = X[:, 0] + X[:, 1] ** 2 > 0.3

model = HullBoostClassifier(scale=30.0, margin=0.05, n_terms=300, random_state=0).fit(X, y)
signs = np.where(y, 1, -1)

fig, axes = plt.subplots(ncols=2, figsize=(10, 4), layout="constrained")
rounds = (3, 30, 300)
for k, votes in enumerate(model.staged_decision_function(X), start=1):
    if k in rounds:
        margins = np.sort(signs * votes)
        axes[0].step(margins, np.linspace(0, 1, len(margins)), label=f"{k} rounds")
axes[0].axvline(model.margin, color="0.4", linestyle=":", label="γ")
axes[0].set(xlabel="Margin", ylabel="Share of training rows below")
axes[0].legend()

grid = np.stack(np.meshgrid(np.linspace(-1, 1, 120), np.linspace(-1, 1, 120)), axis=-1)
votes = model.decision_function(grid.reshape(-1, 2)).reshape(120, 120)
image = axes[1].contourf(grid[..., 0], grid[..., 1], votes, levels=21, cmap="PuOr")
axes[1].contour(grid[..., 0], grid[..., 1], votes, levels=[0], colors="black")
axes[1].set(xlabel="First feature", ylabel="Second feature")
fig.colorbar(image, ax=axes[1], label="Vote")
plt.show()

# %%
# For so large a scale the theory says nothing about the share of margins below γ: the bound is
# above 1. ``scale="margin"`` makes the bound as small as possible, with a vote that is far too
# timid after 300 rounds.

print(model.margin_bound_)
print(f"in fact: {np.mean(model.margins_ <= model.margin):.3f}")

timid = HullBoostClassifier(scale="margin", margin=0.05, n_terms=300, random_state=0).fit(X, y)
print(timid.margin_bound_)
print(f"in fact: {np.mean(timid.margins_ <= timid.margin):.3f}")

# %%
# Wrong labels
# ------------
# A small scale keeps the vote from fitting wrong labels. Here one in four labels is wrong.

X = rng.normal(size=(400, 10))
clean = X[:, 0] + 0.7 * X[:, 1] - 0.4 * X[:, 2] > 0
labels = clean ^ (rng.random(400) < 0.25)
X_new = rng.normal(size=(4000, 10))
truth = X_new[:, 0] + 0.7 * X_new[:, 1] - 0.4 * X_new[:, 2] > 0

for scale in ("auto", "cv"):
    fitted = HullBoostClassifier(scale=scale, random_state=0).fit(X, labels)
    print(f'scale="{scale}": A = {fitted.scale_:g}, accuracy {fitted.score(X_new, truth):.3f}')
