"""
Can the error bars be trusted?
==============================

A prediction with an error bar makes two promises: it is close, and it says how close. Scores such
as the root mean squared error test only the first. Here are pictures and scores for the second, for
three models: one that is right, one that is too sure of itself, and one whose noise is not the same
everywhere.
"""

# %%
# A function of two features with normal noise of .2. The first model learns the noise. The second
# has the same kernel, and is told that the variance of the noise is a tenth of what it is.

import numpy as np

from pursuit import SparseGPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 6.0, (4_000, 2))
f = np.sin(X[:, 0]) + 0.2 * X[:, 1]
y = f + 0.2 * rng.normal(size=4_000)
train, test = slice(0, 1_500), slice(1_500, 4_000)

right = SparseGPRegressor(n_basis=60, random_state=0).fit(X[train], y[train])
sure = SparseGPRegressor(
    right.kernel_, noise=right.noise_ / 10, n_basis=60, optimizer=None, calibration=None
)
sure.fit(X[train], y[train])

# %%
# The PIT of a row is the predicted probability of values below its target. If error bars are right,
# it is uniform: bars of equal height, but for chance, which the grey band shows. Intervals of the
# right model contain as many targets as they promise.

import matplotlib.pyplot as plt

from pursuit import CalibrationDisplay

CalibrationDisplay.from_estimator(right, X[test], y[test])
plt.show()

# %%
# Error bars that are too narrow: too many targets lie in the tails of what was predicted, and
# intervals contain fewer than they should.

CalibrationDisplay.from_estimator(sure, X[test], y[test])
plt.show()

# %%
# Scores say it in numbers. Log density and CRPS are proper: no model has better ones in expectation
# than one that predicts the true distribution.

from pursuit import metrics


def scores(model, y):
    mean, std = model.predict(X[test], return_std=True)
    lower, upper = mean - 1.645 * std, mean + 1.645 * std
    return (
        f"log density {metrics.log_density(y[test], mean, std):6.2f}, "
        f"CRPS {metrics.crps(y[test], mean, std):.3f}, "
        f"90 % intervals: coverage {metrics.coverage(y[test], lower, upper):.2f}, "
        f"score {metrics.interval_score(y[test], lower, upper, 0.9):.2f}"
    )


print("learned noise  ", scores(right, y))
print("too little     ", scores(sure, y))

# %%
# Now the noise is .05 in one half of the data and .5 in the other, and the model knows only one
# number for both. In total 87 % of the targets lie in its 90 % intervals, which is not far off. The
# histogram tells the difference: too many rows in the middle, and too many at the ends.

halves = np.where(X[:, 0] < 3.0, 0.05, 0.5)
y_halves = f + halves * rng.normal(size=4_000)
one_noise = SparseGPRegressor(n_basis=60, random_state=0).fit(X[train], y_halves[train])
print("two halves     ", scores(one_noise, y_halves))
CalibrationDisplay.from_estimator(one_noise, X[test], y_halves[test])
plt.show()

# %%
# Where does it go wrong? The residuals, divided by the error bars and drawn against a feature,
# should fill the space between the dashed lines evenly. They do not along the first feature, and
# ``noise="varying"`` is made for such data.

from pursuit import ResidualDisplay

fig, (first, second) = plt.subplots(ncols=2, figsize=(10, 4), sharey=True, layout="constrained")
ResidualDisplay.from_estimator(one_noise, X[test], y_halves[test], feature=0, ax=first)
ResidualDisplay.from_estimator(
    one_noise, X[test], y_halves[test], feature=1, quantiles=False, ax=second
)
second.set_ylabel("")
plt.show()

# %%
# The scores are scorers for scikit-learn as well: larger is better there, so losses are negative.

from sklearn.model_selection import cross_validate

found = cross_validate(
    SparseGPRegressor(n_basis=60, random_state=0),
    X[train],
    y[train],
    cv=3,
    scoring={
        "log density": metrics.log_density_scorer,
        "CRPS": metrics.crps_scorer,
        "coverage": metrics.coverage_scorer(level=0.9),
    },
)
for name in ("log density", "CRPS", "coverage"):
    print(f"{name:12} {found['test_' + name].round(3)}")
