"""
Denoising digits
================

Digits fill a small, curved part of the space of all images. ``SparseKernelPCA`` learns that part
from clean digits. A noisy digit is projected on it, and the pre-image of the projection is the
digit without its noise.
"""

# %%
# The USPS digits, with 16 x 16 pixels, are used if they are available, else the digits of
# scikit-learn, with 8 x 8 pixels. The noise has a standard deviation of .5, half the distance from
# white to black.

import os

import numpy as np
from sklearn.datasets import load_digits

from pursuit.datasets import load_usps

if os.environ.get("PURSUIT_DATA"):
    X, _, clean, _ = load_usps(return_X_y=True, split=0)
    X, clean = X.astype(float), clean.astype(float)[:500]
else:
    digits = load_digits().data / 16
    X, clean = digits[:1300], digits[1300:]
noisy = clean + 0.5 * np.random.default_rng(0).normal(size=clean.shape)
print(f"{len(X)} clean digits of {X.shape[1]} pixels, {len(clean)} noisy ones")

# %%
# The kernel should be wide: noise moves every image far from all clean ones, where a narrow kernel
# would be zero. Four times the median of the squared distances is a good width.

from scipy.spatial.distance import pdist

from pursuit import SparseKernelPCA

gamma = 1 / (4 * np.median(pdist(X[:500], "sqeuclidean")))
q = 50 if X.shape[1] > 100 else 25
pca = SparseKernelPCA(gamma=gamma, n_basis=300, n_components=q, random_state=0).fit(X)
denoised = pca.inverse_transform(pca.transform(noisy))

# %%
# For comparison, linear PCA with the number of components that suits it best.

from sklearn.decomposition import PCA


def left(images):
    """Mean squared error, as a share of that of the noisy images."""
    return np.mean((images - clean) ** 2) / np.mean((noisy - clean) ** 2)


linear = []
for n in (5, 10, 15, 20, 25, 30, 50):
    model = PCA(n).fit(X)
    linear.append(model.inverse_transform(model.transform(noisy)))
best = min(linear, key=left)
print(f"left of the error: linear PCA {left(best):.1%}, sparse kernel PCA {left(denoised):.1%}")

# %%
# Ten of them:

import matplotlib.pyplot as plt

side = int(np.sqrt(X.shape[1]))
rows = {"clean": clean, "noisy": noisy, "linear PCA": best, "sparse kernel PCA": denoised}
fig, axes = plt.subplots(4, 10, figsize=(9, 4), layout="constrained")
for line, (name, images) in zip(axes, rows.items(), strict=True):
    line[0].set_title(name, loc="left", fontsize="medium")
    for ax, image in zip(line, images, strict=False):
        ax.imshow(image.reshape(side, side), cmap="gray_r", vmin=0, vmax=1)
        ax.set_axis_off()
plt.show()
