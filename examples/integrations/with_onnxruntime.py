"""
ONNX Runtime: predictions where there is no Python
==================================================

*How do I serve the model from another language, and what does it lose?* Export it to ONNX. The
graph holds the basis and a few matrices, computes in double precision, and returns mean and
standard deviation, or probabilities. :doc:`/serving` puts such a file behind a web service.

``pip install "pursuit[onnx]" onnxruntime`` installs what this page needs.
"""

# %%
# A regressor and a classifier of a simulated robot arm.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime

import pursuit
from pursuit.datasets import make_robot_arm

arm = make_robot_arm(3000, random_state=0)
X, X_new, y, y_new = arm.data[:2000], arm.data[2000:], arm.target[:2000], arm.target[2000:]
far = np.where(y > 1.0, "far", "near")
regressor = pursuit.SparseGPRegressor(n_basis=200, random_state=0).fit(X, y)
classifier = pursuit.SparseGPClassifier(n_basis=60, random_state=0).fit(X, far)

folder = Path(tempfile.mkdtemp())
pursuit.to_onnx(regressor, folder / "arm.onnx", return_std=True)
pursuit.to_onnx(classifier, folder / "far.onnx")

# %%
# From here on nothing of this package is needed to predict. Rows must be 64-bit floats: ONNX
# Runtime refuses other types.

session = onnxruntime.InferenceSession(folder / "arm.onnx")
mean, std = session.run(["y", "std"], {"X": X_new})
[probabilities] = onnxruntime.InferenceSession(folder / "far.onnx").run(
    ["probabilities"], {"X": X_new}
)
expected_mean, expected_std = regressor.predict(X_new, return_std=True)
assert np.allclose(mean, expected_mean, rtol=0, atol=1e-9)
assert np.allclose(std, expected_std, rtol=0, atol=1e-9)
assert np.allclose(probabilities, classifier.predict_proba(X_new), rtol=0, atol=1e-9)
print("mean, standard deviation and probabilities agree to 1e-9")

# %%
# A smaller model makes a smaller file. ``truncated`` needs no data, so it can be tried at once.

sizes = [25, 50, 100, 200]
errors, kilobytes = [], []
for n in sizes:
    file = folder / f"arm{n}.onnx"
    pursuit.to_onnx(regressor.truncated(n), file)
    [served] = onnxruntime.InferenceSession(file).run(["y"], {"X": X_new})
    assert np.allclose(served, regressor.truncated(n).predict(X_new), rtol=0, atol=1e-9)
    errors.append(np.sqrt(np.mean((served - y_new) ** 2)))
    kilobytes.append(file.stat().st_size / 1000)
    print(f"{n:3d} functions: {kilobytes[-1]:.0f} kB, error {errors[-1]:.3f}")
assert errors[-1] < errors[0]

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot(kilobytes, errors, "o-")
for n, size, error in zip(sizes, kilobytes, errors, strict=True):
    ax.annotate(f"{n} functions", (size, error), (6, 4), textcoords="offset points")
ax.margins(x=0.2, y=0.1)
ax.set(xlabel="size of the file in kB", ylabel="error on new rows", title="What a size costs")
plt.show()

# %%
# The documentation is built without these packages. This is what the recipe printed and drew:
#
# .. literalinclude:: /recipes/with_onnxruntime.txt
#    :language: text
#
# .. image:: /recipes/with_onnxruntime.png
#    :alt: Error on new rows by the size of the file.

# sphinx_gallery_thumbnail_path = "recipes/with_onnxruntime.png"
