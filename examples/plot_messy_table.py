"""
A table as people keep it
=========================

Texts, dates, numbers with units, gaps and columns of no use: :class:`~pursuit.TableEncoder` reads
the columns, and :class:`~pursuit.TablePipeline` fits a model to what it makes of them.
:doc:`/tables` says what becomes of each kind of column.
"""

# %%
# Rides of rented bicycles, as a spreadsheet might hold them: German numbers and dates, a fifth of
# the temperatures missing, and a column of row numbers.

import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
n = 800
day = pd.date_range("2022-01-01", periods=n)
warmth = 10 - 12 * np.cos(2 * np.pi * day.day_of_year / 365) + rng.normal(0, 3, n)
rain = rng.random(n) < 0.3
station = rng.choice(["Altstadt", "Bahnhof", "Hafen", "Uni"], n)
busy = np.select([station == "Bahnhof", station == "Uni"], [60, 30 * (day.day_of_week < 5)])
rides = 80 + busy + 4 * warmth - 45 * rain + rng.normal(0, 8, n)
table = pd.DataFrame(
    {
        "Nr": np.arange(1, n + 1),
        "Tag": day.strftime("%d.%m.%Y"),
        "Station": station,
        "Regen": np.where(rain, "ja", "nein"),
        "Temperatur": [
            "" if rng.random() < 0.2 else f"{value:.1f}".replace(".", ",") for value in warmth
        ],
        "Land": "DE",
    }
)
print(table.head(4).to_string(index=False))

# %%
# The encoder says what it makes of the columns.

from pursuit import SparseGPRegressor, make_table_pipeline

train, test = np.arange(n) % 3 > 0, np.arange(n) % 3 == 0
pipeline = make_table_pipeline(SparseGPRegressor(random_state=0))
pipeline.fit(table[train], rides[train])
for column in pipeline.named_steps["table"].columns_:
    print(f"{column.name:11}{column.kind:9} {column.reason or '; '.join(column.features)}")

# %%
# Predictions take the raw table. Beside them stands a linear model of scikit-learn on the same
# encoding, which cannot know that students ride on weekdays.

from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pursuit import TableEncoder

linear = make_pipeline(TableEncoder(), StandardScaler(), RidgeCV()).fit(table[train], rides[train])
mean, std = pipeline.predict(table[test], return_std=True)
for name, predicted in (("Gaussian process", mean), ("linear model", linear.predict(table[test]))):
    print(f"{name}: error {np.sqrt(np.mean((predicted - rides[test]) ** 2)):.1f}, noise is 8")

# %%
# The rides of one station over a year, with the error bars of the model.

import matplotlib.pyplot as plt

chosen = test & (station == "Uni") & (day.year == 2023)
mean, std = pipeline.predict(table[chosen], return_std=True)
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.errorbar(day[chosen], mean, 1.64 * std, fmt=".", capsize=2, label="prediction, 90 % interval")
ax.plot(day[chosen], rides[chosen], "k_", ms=9, label="rides")
ax.set(xlabel="day", ylabel="rides", title="Days that the fit has not seen")
ax.legend()
plt.show()
