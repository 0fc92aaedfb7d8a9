"""
A first fit
===========

A robot arm has eight joints, and we want the distance from its hand to a fixed point. A Gaussian
process would learn this well but needs a kernel matrix of all rows. ``SparseGPRegressor`` picks a
few hundred rows as basis functions instead.
"""

# %%
# The data are simulated: 20 000 positions to learn from, and 5 000 to test on.

from sklearn.model_selection import train_test_split

from pursuit.datasets import make_robot_arm

arm = make_robot_arm(25_000, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(
    arm.data, arm.target, test_size=5_000, random_state=0
)

# %%
# All arguments have defaults; here we ask for at most 256 basis functions.

from pursuit import SparseGPRegressor

model = SparseGPRegressor(n_basis=256, random_state=0).fit(X_train, y_train)
print(model.path_)

# %%
# Predictions come with error bars. About 95 % of new observations should lie within two of them.

import numpy as np

mean, std = model.predict(X_test, return_std=True)
error = y_test - mean
print(f"root mean squared error: {np.sqrt(np.mean(error**2)):.4f} m")
print(f"standard deviation of the target: {y_test.std():.4f} m")
print(f"within two error bars: {np.mean(np.abs(error) < 2 * std):.1%}")

# %%
# The certificate says how far this model can be from the one that uses all rows.

print(model.certificate_)

# %%
# Left, the path: the objective after each basis function. Right, fifty test rows with their error
# bars: two standard deviations to either side.

import matplotlib.pyplot as plt

from pursuit import PathDisplay

fig, (left, right) = plt.subplots(ncols=2, figsize=(9, 4), layout="constrained")
PathDisplay.from_estimator(model, ax=left)
left.set_ylabel("Objective P(f)")
left.set_title("What each basis function brought")

some = np.argsort(mean[:50])
right.errorbar(range(50), mean[some], 2 * std[some], fmt="none", ecolor="0.75", label="prediction")
right.plot(range(50), y_test[some], "o", color="#D55E00", markersize=4, label="measured")
right.set_xlabel("Test row, in the order of its prediction")
right.set_ylabel("Distance (m)")
right.set_title("Error bars and what was measured")
right.legend(loc="lower right")
plt.show()
