"""
An additive model of a table, and its curves
============================================

A function of ten features cannot be drawn, but a sum of functions of one or two features can.
:class:`~pursuit.Additive` is a kernel for such sums. Evidence decides which terms it has, and
:class:`~pursuit.PartsDisplay` draws them. :doc:`/kernels` explains what is computed.
"""

# %%
# A table with the strength of 1 200 made samples of concrete: water weakens it, cement and age
# strengthen it, the effect of temperature depends on the humidity, and four columns have no effect.

import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
n = 1_200
table = pd.DataFrame(
    {
        "cement": rng.uniform(100, 500, n),
        "water": rng.uniform(120, 240, n),
        "age": rng.uniform(1, 100, n),
        "temperature": rng.uniform(5, 35, n),
        "humidity": rng.uniform(0.3, 0.9, n),
        "sand": rng.uniform(600, 900, n),
        "gravel": rng.uniform(800, 1100, n),
        "batch": rng.uniform(0, 1, n),
        "mixer": rng.uniform(0, 1, n),
    }
)
strength = (
    30 * np.sqrt(table["cement"] / 300)
    - 0.002 * (table["water"] - 120) ** 2
    + 8 * np.log(table["age"])
    + 1.2 * (table["temperature"] - 20) * (table["humidity"] - 0.6)
    + 2.0 * rng.standard_normal(n)
)

# %%
# Terms of one or two features: 45 of them. The search begins with noise, and adds one term at a
# time as long as the evidence rises by ½ log(rows) for each of its hyper-parameters. Length scales
# differ by four orders of magnitude between the columns, and nobody has to give them.

from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from pursuit import Additive, PartsDisplay, SparseGPRegressor

train, test = slice(900), slice(900, None)
model = SparseGPRegressor(Additive(RBF(), order=2) + WhiteKernel(), random_state=0)
model.fit(table[train], strength[train])
print(model.learning_report_)

# %%
# One panel per term: curves with their bands for terms of one feature, a map for those of two. Each
# is drawn less its mean over the rows.

import matplotlib.pyplot as plt

PartsDisplay.from_estimator(model, table[train], target="strength (MPa)")
plt.show()

# %%
# The parts of a prediction say why it is what it is: they add up to it.

parts, std = model.predict_parts(table[test], return_std=True, center=table[train])
print(pd.DataFrame(parts[:5], columns=model.part_names_).round(1).to_string())
print(np.round(model.predict(table[test][:5]), 1))

# %%
# A model that knows that the function is a sum needs fewer rows than one that does not.

whole = SparseGPRegressor(random_state=0).fit(table[train], strength[train])
for name, one in {"additive": model, "one kernel of all features": whole}.items():
    error = np.sqrt(np.mean((one.predict(table[test]) - strength[test]) ** 2))
    print(f"{name}: error {error:.3f}, noise alone 2.0")
