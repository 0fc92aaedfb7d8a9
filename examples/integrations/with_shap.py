"""
shap and shapiq: why a prediction is what it is
===============================================

*Which column made this prediction high?* Shapley values share a prediction out among the columns.
shap takes any model and some background rows. shapiq takes the model's expansion in kernel
functions, of which a sparse model has few, and needs no background.

``pip install shap shapiq`` installs what this page needs.
"""

# %%
# Four columns, of which two act together.

import itertools
import math

import matplotlib.pyplot as plt
import numpy as np
import shap
from shapiq.explainer.product_kernel import ProductKernelComputer, ProductKernelModel
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from pursuit import Additive, SparseGPRegressor

rng = np.random.default_rng(0)
names = ["wave", "left", "right", "ripple"]
X = rng.uniform(-2, 2, (600, 4))
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * np.cos(3 * X[:, 3])
y += 0.1 * rng.standard_normal(600) - y.mean()
X_new = rng.uniform(-2, 2, (20, 4))

# %%
# **shap, any model.** A column that is left out takes the values that it has in background rows,
# and the model is asked for all 16 subsets of the columns. An additive model knows the result
# already: the Shapley value of a column that acts alone is its part, less the mean over the
# background, and the values of ``left`` and ``right`` add up to the part that they share.

additive = SparseGPRegressor(Additive(RBF(), order=2) + WhiteKernel(), random_state=0).fit(X, y)
background = X[:50]
explain = shap.ExactExplainer(additive.predict, shap.maskers.Independent(background))
shares = explain(X_new, silent=True)
total = shares.values.sum(axis=1) + shares.base_values
assert np.allclose(total, additive.predict(X_new), atol=1e-6)
print("shap: the values and the base value add up to the prediction, to 1e-6")

parts = additive.predict_parts(X_new, center=background)
part = dict(zip(additive.part_names_, parts.T, strict=True))
print("terms that the evidence chose:", ", ".join(part))
assert np.allclose(shares.values[:, 0], part["RBF(x0)"], atol=1e-6)
assert np.allclose(shares.values[:, 1:3].sum(axis=1), part["RBF(x1) * RBF(x2)"], atol=1e-6)
print("shap: the values of an additive model are its centred parts, to 1e-6")

# %%
# **shapiq, the expansion.** A model with an RBF kernel is a sum of products, :math:`f(x) = \sum_j
# \beta_j \prod_i k_i(x_i, z_{ji})`. A column that is left out counts as a factor 1, and Shapley
# values are then computed from *n* products for *n* basis functions, without subsets.
# ``normalize_y=False`` makes ``dual_coef_`` the coefficients of y itself. Columns are divided by
# their length scales, since shapiq has one ``gamma`` for all of them. Its explainer takes models of
# scikit-learn only, so we call the computation behind it.

kernel = ConstantKernel() * RBF(np.ones(4))
model = SparseGPRegressor(kernel, normalize_y=False, n_basis=100, random_state=0).fit(X, y)
scales = model.kernel_.k2.length_scale
Z, rows = model.basis_ / scales, X_new / scales
beta = model.kernel_.k1.constant_value * model.dual_coef_
expansion = ProductKernelModel(X_train=Z, alpha=beta, n=len(Z), d=4, gamma=0.5)
computer = ProductKernelComputer(expansion)


def shapley(row):
    factors = computer.compute_kernel_vectors(Z, row)
    return [computer.compute_shapley_value(factors, column) for column in range(4)]


exact = np.array([shapley(row) for row in rows])
assert np.allclose(exact.sum(axis=1) + beta.sum(), model.predict(X_new), atol=1e-6)
print(f"shapiq: {len(Z)} terms for {len(X)} rows; values add up to the prediction, to 1e-6")

# %%
# The same by definition, from all subsets of the other columns.


def by_definition(row, column):
    def value(chosen):
        return beta @ np.exp(-0.5 * ((Z - row)[:, list(chosen)] ** 2).sum(axis=1))

    others = [i for i in range(4) if i != column]
    subsets = itertools.chain(*(itertools.combinations(others, size) for size in range(4)))
    return sum(
        (value((*chosen, column)) - value(chosen)) / (4 * math.comb(3, len(chosen)))
        for chosen in subsets
    )


expected = [[by_definition(row, column) for column in range(4)] for row in rows]
assert np.allclose(exact, expected, atol=1e-6)
print("shapiq: the values are those of the definition, to 1e-6")

# %%
# The two have different base values. That of shap is the mean prediction over the background; that
# of the expansion is the sum of its coefficients, a function of no column. So compare the
# differences between rows, not the values themselves.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.barh(names, shares.values[0], color="C0")
left.set(title="shap: why the first prediction is not the mean", xlabel="share of the prediction")
left.invert_yaxis()
for column in range(4):
    right.plot(shares.values[:, column], exact[:, column] - exact[:, column].mean(), "o", ms=4)
right.legend(names)
right.set(xlabel="shap", ylabel="shapiq, less the mean", title="20 predictions, both ways")
plt.show()

# %%
# The documentation is built without these packages. This is what the recipe printed and drew:
#
# .. literalinclude:: /recipes/with_shap.txt
#    :language: text
#
# .. image:: /recipes/with_shap.png
#    :alt: Shapley values of one prediction, and those of both packages for twenty.

# sphinx_gallery_thumbnail_path = "recipes/with_shap.png"
