"""
How sure of a class
===================

A classifier that says "class 1" says little. ``SparseGPClassifier`` gives probabilities: near 1 or
0 where rows agree, near one half where classes overlap, and near one half again where no row has
ever been seen.
"""

# %%
# Two interleaved crescents of 3 000 rows, with much overlap.

import numpy as np
from sklearn.datasets import make_moons

X, y = make_moons(6_000, noise=0.35, random_state=0)
X_train, y_train, X_test, y_test = X[:3_000], y[:3_000], X[3_000:], y[3_000:]

# %%
# Kernel, length scales and the size of the log-odds are learned; thirty basis functions are enough.
# Six hundred rows take no part in the choice of the basis. They determine the scale and show how
# far the probabilities can be trusted.

from pursuit import SparseGPClassifier

model = SparseGPClassifier(n_basis=30, random_state=0).fit(X_train, y_train)
print(model.learning_report_)

# %%
# How far are these thirty functions from the result of all three thousand? The certificate bounds
# the distance without fitting them: it compares the penalised likelihood with a lower bound from
# duality.

print(model.certificate_)

# %%
# If the model predicts 80 %, is it right four times out of five?

from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss

p = model.predict_proba(X_test)[:, 1]
happened, said = calibration_curve(y_test, p, n_bins=10)
print(f"accuracy {model.score(X_test, y_test):.3f}, log loss {log_loss(y_test, p):.3f}")

# %%
# Left: the probability of class 1, with the basis points in white. It tends to one half away from
# the data. Right: predicted probabilities and observed frequencies.

import matplotlib.pyplot as plt

east, north = np.meshgrid(np.linspace(-4, 5, 120), np.linspace(-4, 4.5, 120))
map_of_p = model.predict_proba(np.column_stack([east.ravel(), north.ravel()]))[:, 1]
fig, (left, right) = plt.subplots(ncols=2, figsize=(9, 4), layout="constrained")
shades = left.pcolormesh(
    east, north, map_of_p.reshape(east.shape), cmap="coolwarm", vmin=0, vmax=1, rasterized=True
)
left.scatter(*X_train[::6].T, c=y_train[::6], cmap="coolwarm", s=4)
left.scatter(*model.basis_.T, c="white", edgecolors="black", s=30)
left.set_title("Probability of class 1")
fig.colorbar(shades, ax=left)
right.plot([0, 1], [0, 1], color="0.7")
right.plot(said, happened, "o-")
right.set_xlabel("probability said")
right.set_ylabel("share that happened")
right.set_title("Calibration on new rows")
plt.show()
