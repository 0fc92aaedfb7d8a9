"""
shap and shapiq: why a prediction is what it is
===============================================

*Which column made this prediction high?* Shapley values share a prediction out among the columns.
shap takes any model and some background rows. shapiq has a formula for sums of products of kernels,
which needs no subsets of the columns; a sparse model has few such products.

``pip install shap shapiq`` installs what this page needs.
"""

# %%
# Four columns, of which two act together.

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
# **shapiq, the expansion.** Exact values of any model take :math:`2^d` subsets of *d* columns. A
# model with an RBF kernel is a sum of products,
# :math:`f(x) = \sum_j \beta_j \prod_i k_i(x_i, z_{ji})`. For these, shapiq has a formula that takes
# about :math:`d^2` products per column and basis function. ``normalize_y=False`` makes
# ``dual_coef_`` the coefficients of y itself. Columns are divided by their length scales.

kernel = ConstantKernel() * RBF(np.ones(4))
model = SparseGPRegressor(kernel, normalize_y=False, n_basis=100, random_state=0).fit(X, y)
scales = model.kernel_.k2.length_scale
Z = model.basis_ / scales
beta = model.kernel_.k1.constant_value * model.dual_coef_

# %%
# To shapiq, a column that is left out is a factor 1. That explains the distance from the sum of the
# coefficients, which means nothing to a reader. If all factors are divided by those of a background
# row, it is the distance from the prediction there. The mean over the background is what shap has.


def shapley(row, other):
    """Shapley values, if a column that is left out has its value in the other row."""
    factors, there = (np.exp(-0.5 * (Z - each / scales) ** 2).T for each in (row, other))
    alpha = beta * there.prod(axis=0)
    computer = ProductKernelComputer(ProductKernelModel(Z, alpha, n=len(Z), d=4))
    return [computer.compute_shapley_value(list(factors / there), i) for i in range(4)]


by_expansion = np.mean([[shapley(row, other) for row in X_new] for other in background], axis=0)
by_subsets = shap.ExactExplainer(model.predict, shap.maskers.Independent(background))(
    X_new, silent=True
).values
assert np.allclose(by_expansion, by_subsets, atol=1e-6)
print(f"shapiq: the values by {len(Z)} terms are those of shap by subsets, to 1e-6")

# %%
# The shares of one prediction, and of all predictions by both models: they know the same function.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.barh(names, by_expansion[0])
left.invert_yaxis()
left.axvline(0, color="0.5", lw=0.8)
left.set(title="Why the first prediction is not the mean", xlabel="share of the prediction")
right.plot(shares.values, by_expansion, "o", ms=4, label=names)
right.axline((0, 0), slope=1, color="0.6", zorder=0)
right.legend()
right.set(xlabel="additive model, shap", ylabel="one kernel, shapiq", title="20 predictions")
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
