"""Draw docs/images/readme.png: test error beside Nystroem, and the certified gap.

Run from the root of the repository: ``python docs/make_readme_figure.py``. It takes some minutes.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.metrics import root_mean_squared_error
from sklearn.pipeline import make_pipeline

from pursuit import SparseGPRegressor
from pursuit.datasets import make_robot_arm

SIZES = [32, 64, 128, 256, 512]
N_TRAIN, N_TEST = 20_000, 5_000
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
IMAGE = Path(__file__).parent / "images" / "readme.png"

arm = make_robot_arm(N_TRAIN + N_TEST, random_state=0)
X, X_test = arm.data[:N_TRAIN], arm.data[N_TRAIN:]
y, y_test = arm.target[:N_TRAIN], arm.target[N_TRAIN:]

# All models have one kernel and one noise.
learned = SparseGPRegressor(n_basis=32, refine=False, random_state=0).fit(X, y)
kernel, noise = learned.kernel_, learned.noise_


def sparse(size, steps):
    return SparseGPRegressor(
        kernel, noise=noise, n_basis=size, optimizer=None, refine=steps, random_state=0
    )


def nystroem(size):
    return make_pipeline(
        Nystroem(kernel=kernel, n_components=size, random_state=0), Ridge(alpha=noise)
    )


def test_error(model):
    return root_mean_squared_error(y_test, model.predict(X_test))


peers = [test_error(nystroem(size).fit(X, y)) for size in SIZES]
chosen = [test_error(sparse(size, False).fit(X, y)) for size in SIZES]
models = [sparse(size, 100).fit(X, y) for size in SIZES]
moved = [test_error(model) for model in models]
gaps = 100 * np.array([model.certify(X, y).relative_gap for model in models])

plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
fig, (left, right) = plt.subplots(ncols=2, figsize=(8.4, 3.4), layout="constrained")
for ax in (left, right):
    ax.grid(color="0.92")
    ax.set_axisbelow(True)
    ax.set_xscale("log", base=2)
    ax.set_xticks(SIZES, [str(size) for size in SIZES])
    ax.set_xlabel("Basis functions")

left.plot(SIZES, peers, "s-", color=ORANGE, label="scikit-learn Nystroem + Ridge")
left.plot(SIZES, chosen, "^-", color=GREEN, label="pursuit, basis chosen")
left.plot(SIZES, moved, "o-", color=BLUE, label="pursuit, basis chosen and moved")
left.set_ylim(bottom=0)
left.set_ylabel("Test RMSE (m)")
left.set_title("Error on new rows", fontsize=10.5)
left.legend(frameon=False, fontsize=9)

right.plot(SIZES, gaps, "o-", color=BLUE)
for size, gap in zip(SIZES, gaps, strict=True):
    right.annotate(f"{gap:.1f} %", (size, gap), (6, 5), textcoords="offset points")
right.set_xlim(right=1.8 * SIZES[-1])
right.set_ylim(0, 1.1 * gaps.max())
right.set_ylabel("Certified relative gap (%)")
right.set_title("Proof of how far the full model can be", fontsize=10.5)

IMAGE.parent.mkdir(exist_ok=True)
fig.savefig(IMAGE, dpi=150)
for row in zip(SIZES, peers, chosen, moved, gaps, strict=True):
    print("{:5d}  {:.4f}  {:.4f}  {:.4f}  {:.2f} %".format(*row))
