"""
ColumnTransformer: behind the preprocessing that I have
=======================================================

*My preprocessing is written. Can I put one of these models behind it, and search over both?* Every
estimator here follows scikit-learn's conventions, so a ``ColumnTransformer`` stands before it in a
pipeline, and a grid reaches into all steps.
"""

# %%
# Prices of made-up homes, with gaps in one column and a category in another. Old and new homes cost
# more than those between.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_percentage_error
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from pursuit import SparseKernelRidge

rng = np.random.default_rng(0)
n = 900
homes = pd.DataFrame(
    {
        "area": rng.gamma(8, 12, n),
        "age": rng.uniform(0, 100, n),
        "district": rng.choice(["centre", "harbour", "hills"], n),
    }
)
wave = 1 + 0.3 * np.cos(homes["age"] / 16)
place = homes["district"].map({"centre": 1.3, "harbour": 1.0, "hills": 0.8})
price = 3 * homes["area"] * wave * place * np.exp(0.05 * rng.standard_normal(n))
homes.loc[rng.random(n) < 0.1, "age"] = np.nan
train, test = slice(600), slice(600, None)

# %%
# The preprocessing, and a model behind it. Prices multiply, so the model sees their logarithms.
# Kernel ridge regression has no intercept, so these are centred, too.

columns = ColumnTransformer(
    [
        ("size", make_pipeline(FunctionTransformer(np.log), StandardScaler()), ["area"]),
        ("age", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["age"]),
        ("kind", OneHotEncoder(), ["district"]),
    ]
)


def prices(model):
    """The columns and the model, for logarithms of prices."""
    target = make_pipeline(FunctionTransformer(np.log, np.exp), StandardScaler())
    return TransformedTargetRegressor(make_pipeline(columns, model), transformer=target)


# %%
# One search over preprocessing and model. ``gamma`` and ``alpha`` are the width of the kernel and
# the penalty.

grid = {
    "regressor__columntransformer__age__simpleimputer__strategy": ["mean", "median"],
    "regressor__sparsekernelridge__gamma": [0.1, 0.3, 1.0],
    "regressor__sparsekernelridge__alpha": [1e-4, 1e-3, 1e-2, 1e-1],
}
search = GridSearchCV(
    prices(SparseKernelRidge(n_basis=100, certificate=None, random_state=0)),
    grid,
    cv=3,
    scoring="neg_mean_absolute_percentage_error",
).fit(homes[train], price[train])
for name, value in search.best_params_.items():
    print(f"{name.split('__')[-1]}: {value}")

# %%
# Beside it, a linear model behind the same columns. The noise alone makes an error of 4 %, and
# nobody knows the age of every tenth home.

linear = prices(Ridge()).fit(homes[train], price[train])
errors = {
    name: mean_absolute_percentage_error(price[test], model.predict(homes[test]))
    for name, model in {"kernel ridge": search, "linear": linear}.items()
}
for name, error in errors.items():
    print(f"{name}: mean error {error:.0%} of the price")
assert errors["kernel ridge"] < 0.7 * errors["linear"]

# %%
# The curve of the age, for a home of 90 square metres in each district.

ages = np.linspace(0, 100, 100)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for color, district in zip(("C0", "C1", "C2"), ("centre", "harbour", "hills"), strict=True):
    one = pd.DataFrame({"area": 90.0, "age": ages, "district": district})
    ax.plot(ages, search.predict(one), color=color, label=district)
    ax.plot(ages, linear.predict(one), "--", color=color)
ax.set(xlabel="age in years", ylabel="price", title="Kernel ridge, and a linear model (dashed)")
ax.legend()
plt.show()
