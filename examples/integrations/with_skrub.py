"""
skrub: names that people spell in their own way
===============================================

*My table has job titles typed by hand. Which encoder do I use?* skrub turns text into numbers by
the pieces of words that texts have in common. Its ``TableVectorizer`` stands before any estimator,
and so before these. Our own encoder takes every spelling for a category of its own.

``pip install skrub`` installs what this page needs.
"""

# %%
# Salaries by job title and years of service, where titles have prefixes and typing errors.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skrub import StringEncoder, TableVectorizer

from pursuit import SparseGPRegressor, make_table_pipeline

rng = np.random.default_rng(0)
pay = {"police officer": 60, "fire fighter": 55, "librarian": 45, "bus driver": 40, "engineer": 80}
ranks = {"": 0, "senior ": 12, "master ": 20, "assistant ": -8}


def mistype(text):
    """Swap two neighbouring letters in half of the titles."""
    at = rng.integers(2 * len(text))
    return text[:at] + text[at : at + 2][::-1] + text[at + 2 :]


n = 1200
jobs, prefixes = rng.choice(list(pay), n), rng.choice(list(ranks), n)
years = rng.uniform(0, 30, n)
table = pd.DataFrame(
    {
        "title": [mistype(prefix + job) for prefix, job in zip(prefixes, jobs, strict=True)],
        "years": years,
    }
)
salary = np.array([pay[job] for job in jobs]) + np.array([ranks[each] for each in prefixes])
salary = salary + 8 * np.sqrt(years) + 2 * rng.standard_normal(n)
print(f"{table['title'].nunique()} spellings of {len(pay) * len(ranks)} titles")

# %%
# Two pipelines with the same model. Standard deviations come through both: ``predict`` of a
# pipeline passes ``return_std=True`` on to its last step.

train, test = slice(800), slice(800, None)
pipelines = {
    "our encoder": make_table_pipeline(SparseGPRegressor(n_basis=200, random_state=0)),
    "skrub": make_pipeline(
        TableVectorizer(high_cardinality=StringEncoder(n_components=20, random_state=0)),
        StandardScaler(),
        SparseGPRegressor(n_basis=200, random_state=0),
    ),
}
errors, results = {}, {}
for name, pipeline in pipelines.items():
    pipeline.fit(table[train], salary[train])
    mean, std = results[name] = pipeline.predict(table[test], return_std=True)
    errors[name] = np.sqrt(np.mean((mean - salary[test]) ** 2))
    inside = np.mean(np.abs(mean - salary[test]) < 1.645 * std)
    print(f"{name:11}: error {errors[name]:.1f}, noise is 2; {inside:.0%} in 90 % intervals")
assert errors["skrub"] < 0.7 * errors["our encoder"]

# %%
# A new spelling tells our encoder nothing about the job, and a rare one little.

known = table["title"][test].isin(table["title"][train]).to_numpy()
fig, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained", sharex=True, sharey=True)
for ax, (name, (mean, _)) in zip(axes, results.items(), strict=True):
    for chosen, label in ((known, "known spelling"), (~known, "new spelling")):
        ax.plot(salary[test][chosen], mean[chosen], ".", ms=4, label=label)
    ax.axline((60, 60), slope=1, color="0.6", zorder=0)
    ax.set(title=name, xlabel="salary")
axes[0].set_ylabel("prediction")
axes[0].legend()
plt.show()

# %%
# The documentation is built without these packages. This is what the recipe printed and drew:
#
# .. literalinclude:: /recipes/with_skrub.txt
#    :language: text
#
# .. image:: /recipes/with_skrub.png
#    :alt: Predicted and true salaries with both encoders.

# sphinx_gallery_thumbnail_path = "recipes/with_skrub.png"
