"""
river: one row at a time, and a drift that is noticed
=====================================================

*My data come one by one, and what they mean changes. Can I use this in river?* A wrapper of twenty
lines makes a river regressor of a fitted model. Rows are collected into small batches, and
``partial_fit`` takes these in exactly. river's drift detector says when to forget.

``pip install river`` installs what this page needs.
"""

# %%
# A response that changes suddenly after 2 000 of 4 000 rows.

import copy

import matplotlib.pyplot as plt
import numpy as np
from river import base, drift, evaluate, metrics, stream

from pursuit import SparseGPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (4200, 2))
shift = np.where(np.arange(4200) < 2200, 0.0, 1.5)
y = np.sin(2 * X[:, 0] + shift) + 0.3 * X[:, 1] + 0.2 * rng.standard_normal(4200)

# %%
# Kernel, noise and basis come from the first 200 rows; the stream has the others.

first = SparseGPRegressor(n_basis=60, random_state=0).fit(X[:200], y[:200])

# %%
# The wrapper. ``decay`` is what the weights of earlier rows are multiplied by at every batch. With
# a detector, this happens only once the errors have changed.


class Pursuit(base.Regressor):
    def __init__(self, model, batch=50, decay=1.0, detector=None):
        self.model, self.batch, self.decay, self.detector = model, batch, decay, detector
        self._fitted, self._rows, self._targets = copy.deepcopy(model), [], []
        self._watch, self._drifted, self.drifts = detector and detector.clone(), False, 0

    def predict_one(self, x):
        return float(self._fitted.predict([list(x.values())])[0])

    def learn_one(self, x, y):
        if self._watch:
            self._watch.update(abs(y - self.predict_one(x)))
            self._drifted |= self._watch.drift_detected
        self._rows.append(list(x.values()))
        self._targets.append(y)
        if len(self._rows) == self.batch:
            forget = self._drifted or not self._watch
            self._fitted.partial_fit(self._rows, self._targets, decay=self.decay if forget else 1.0)
            self.drifts += self._drifted
            self._rows, self._targets, self._drifted = [], [], False


# %%
# river judges each row before the model learns it.

models = {
    "remembers everything": Pursuit(first),
    "forgets a little at every batch": Pursuit(first, decay=0.9),
    "forgets when ADWIN sees a drift": Pursuit(first, decay=0.01, detector=drift.ADWIN()),
}
errors = {}
for name, model in models.items():
    rows = stream.iter_array(X[200:], y[200:])
    steps = evaluate.iter_progressive_val_score(rows, model, metrics.MAE(), step=100)
    sums = np.array([step["Step"] * step["MAE"].get() for step in steps])
    errors[name] = np.diff(sums, prepend=0.0) / 100
    before, after = errors[name][:20].mean(), errors[name][20:].mean()
    print(f"{name}: mean error {before:.3f}, after the drift {after:.3f}")
keeps, fades, watches = errors.values()
assert fades[20:].mean() < 0.5 * keeps[20:].mean()
assert watches[20:].mean() < 0.5 * keeps[20:].mean()
print("drifts seen:", models["forgets when ADWIN sees a drift"].drifts)

# %%
# The noise alone makes a mean error of 0.16: before the drift, all three are as good as can be.
# Afterwards, a decay of 0.9 per batch forgets slowly, and the detector makes it quick.

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for name, values in errors.items():
    ax.plot(100 * np.arange(1, len(values) + 1), values, label=name)
ax.axvline(2000, color="0.5", linestyle=":")
ax.set(xlabel="rows", ylabel="mean error of the last 100 rows", ylim=(0, None))
ax.legend()
plt.show()

# %%
# The documentation is built without these packages. This is what the recipe printed and drew:
#
# .. literalinclude:: /recipes/with_river.txt
#    :language: text
#
# .. image:: /recipes/with_river.png
#    :alt: Errors along the stream of three models.

# sphinx_gallery_thumbnail_path = "recipes/with_river.png"
