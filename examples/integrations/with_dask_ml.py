"""
dask-ml: a search that does not repeat itself
=============================================

*My grid search fits the same kernel map again for every penalty. Must it?* scikit-learn's search
does. The one of dask-ml takes the same arguments, notices steps of a pipeline that are equal, and
fits each of them once per fold. It also runs on a cluster, if there is a ``distributed.Client``.

``pip install dask-ml`` installs what this page needs.
"""

# %%
# A pipeline of a kernel map and a linear model. Two widths and six penalties make 12 candidates,
# but only two different maps. A subclass counts how often one is fitted.

import matplotlib.pyplot as plt
import numpy as np
from dask_ml.model_selection import GridSearchCV as DaskGridSearchCV
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from pursuit import GreedyFeatureMap
from pursuit.datasets import make_robot_arm

arm = make_robot_arm(1200, random_state=0)
X, y = arm.data, arm.target


class CountedMap(GreedyFeatureMap):
    fits = 0

    def fit(self, X, y=None):
        CountedMap.fits += 1
        return super().fit(X, y)

    def fit_transform(self, X, y=None):
        return self.fit(X, y).transform(X)


pipeline = Pipeline([("map", CountedMap(n_components=100, random_state=0)), ("linear", Ridge())])
grid = {"map__gamma": [0.05, 0.2], "linear__alpha": [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]}

# %%
# Both searches, in one process: 12 candidates in 3 folds and the final fit make 37 fits of the map,
# 2 different maps in 3 folds and the final fit make 7.

searches = {
    "scikit-learn": GridSearchCV(pipeline, grid, cv=3),
    "dask-ml": DaskGridSearchCV(pipeline, grid, cv=3, scheduler="synchronous"),
}
fits = {}
for name, search in searches.items():
    CountedMap.fits = 0
    search.fit(X, y)
    fits[name] = CountedMap.fits
    best = ", ".join(
        f"{key.split('__')[1]} {value:g}" for key, value in search.best_params_.items()
    )
    print(f"{name:12}: {fits[name]:2d} maps fitted, best R² {search.best_score_:.2f} with {best}")

scores = {name: search.cv_results_["mean_test_score"] for name, search in searches.items()}
assert np.allclose(scores["dask-ml"], scores["scikit-learn"], atol=1e-6)
assert searches["dask-ml"].best_params_ == searches["scikit-learn"].best_params_
assert fits == {"scikit-learn": 12 * 3 + 1, "dask-ml": 2 * 3 + 1}
print("all 12 scores agree to 1e-6")

# %%
# The scores of all candidates, by either package.

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for gamma in grid["map__gamma"]:
    chosen = np.array(searches["dask-ml"].cv_results_["param_map__gamma"], dtype=float) == gamma
    ax.semilogx(grid["linear__alpha"], scores["dask-ml"][chosen], "o-", label=f"gamma {gamma}")
ax.set(xlabel="alpha", ylabel="R² by cross-validation", title="12 candidates, 2 different maps")
ax.legend()
plt.show()

# %%
# The documentation is built without these packages. This is what the recipe printed and drew:
#
# .. literalinclude:: /recipes/with_dask_ml.txt
#    :language: text
#
# .. image:: /recipes/with_dask_ml.png
#    :alt: Scores of twelve candidates.

# sphinx_gallery_thumbnail_path = "recipes/with_dask_ml.png"
