"""Draw docs/images/readme.png: test error beside Nystroem, and the certified gap.

Run from the root of the repository: ``python docs/make_readme_figure.py``. It takes a minute.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.metrics import root_mean_squared_error
from sklearn.pipeline import make_pipeline

from pursuit import SparseGPRegressor
from pursuit.datasets import make_robot_arm

SIZES = [64, 128, 256, 512, 1024]
N_TRAIN, N_TEST = 20_000, 5_000
OURS, PEER = "#0072B2", "#D55E00"
IMAGE = Path(__file__).parent / "images" / "readme.png"

arm = make_robot_arm(N_TRAIN + N_TEST, random_state=0)
X, X_test = arm.data[:N_TRAIN], arm.data[N_TRAIN:]
y, y_test = arm.target[:N_TRAIN], arm.target[N_TRAIN:]

start = ConstantKernel() * RBF(np.full(8, 3.0)) + WhiteKernel(0.1)
kernel = GaussianProcessRegressor(start, normalize_y=True).fit(X[:1000], y[:1000]).kernel_
scales = kernel.k1.k2.length_scale
ridge = kernel.k2.noise_level / kernel.k1.k1.constant_value

errors, peer_errors, certificates = [], [], []
for size in SIZES:
    model = SparseGPRegressor(kernel, n_basis=size, optimizer=None, random_state=0).fit(X, y)
    errors.append(root_mean_squared_error(y_test, model.predict(X_test)))
    certificates.append(model.certify(X, y, kind="scaled"))
    peer = make_pipeline(
        Nystroem(gamma=0.5, n_components=size, random_state=0), Ridge(alpha=ridge)
    ).fit(X / scales, y)
    peer_errors.append(root_mean_squared_error(y_test, peer.predict(X_test / scales)))

plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
fig, (left, right) = plt.subplots(ncols=2, figsize=(8.4, 3.4), layout="constrained")
for ax in (left, right):
    ax.grid(color="0.92")
    ax.set_axisbelow(True)
    ax.set_xscale("log", base=2)
    ax.set_xticks(SIZES, [str(size) for size in SIZES])
    ax.set_xlabel("Basis functions")

left.plot(SIZES, peer_errors, "s-", color=PEER, label="scikit-learn Nystroem + Ridge")
left.plot(SIZES, errors, "o-", color=OURS, label="pursuit")
left.set_ylim(bottom=0)
left.set_ylabel("Test RMSE (m)")
left.set_title("Lower error at every size", fontsize=10.5)
left.legend(frameon=False)

gaps = 100 * np.array([certificate.relative_gap for certificate in certificates])
right.plot(SIZES, gaps, "o-", color=OURS)
for size, gap in zip(SIZES, gaps, strict=True):
    right.annotate(f"{gap:.1f} %", (size, gap), (6, 5), textcoords="offset points")
right.set_xlim(right=1.8 * SIZES[-1])
right.set_ylim(0, 1.1 * gaps.max())
right.set_ylabel("Certified relative gap (%)")
right.set_title("Proof of how far the full model can be", fontsize=10.5)

IMAGE.parent.mkdir(exist_ok=True)
fig.savefig(IMAGE, dpi=150)
for size, ours, theirs, certificate in zip(SIZES, errors, peer_errors, certificates, strict=True):
    print(f"{size:5d}  {ours:.4f}  {theirs:.4f}  {certificate}")
