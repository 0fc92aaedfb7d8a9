"""
A few functions in place of many support vectors
================================================

A support vector machine keeps every row on the wrong side of its margin. An LP machine has the same
loss, but its penalty is the sum of the coefficients' absolute values, which leaves few of them. It
is a linear programme with a column for every row. Here it is solved by growing the basis, with a
proof at the end that no other column would help.
"""

# %%
# Two spirals that overlap: many rows lie on the wrong side, whatever the classifier.

import numpy as np


def make_spirals(m, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(m) % 2
    turn = 1.75 * np.pi * np.sqrt(rng.uniform(0.03, 1.0, m))
    angle = turn + np.pi * y
    X = turn[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + 0.9 * rng.normal(size=(m, 2)), y


X, y = make_spirals(1_000, seed=0)
X_test, y_test = make_spirals(10_000, seed=1)

# %%
# Same kernel, same loss, same C.

from sklearn.svm import SVC

from pursuit import LPMachineClassifier

gamma, C = 0.35, 1.0
svm = SVC(gamma=gamma, C=C).fit(X, y)
machine = LPMachineClassifier(gamma=gamma, C=C).fit(X, y)
for name, model, size in (
    ("SVC", svm, len(svm.support_)),
    ("LPMachineClassifier", machine, machine.n_basis_),
):
    print(f"{name}: {size} functions, {model.score(X_test, y_test):.1%} of new rows right")

# %%
# The certificate is about all 1 000 columns, of which few were ever computed.

print(machine.path_)
print(machine.certificate_)

# %%
# Circles mark the functions of each model. Support vectors line the border and fill the overlap;
# the functions of the LP machine are few and lie where they explain most. The size of its circles
# shows the coefficients.

import matplotlib.pyplot as plt
from matplotlib.colors import LinearSegmentedColormap

blue, orange, dark = "#0072B2", "#E69F00", "#1a1a1a"
shades = LinearSegmentedColormap.from_list("two classes", [blue, "#f4f4f2", orange])
reach = 1.06 * np.abs(X).max()
plane = np.linspace(-reach, reach, 220)
grid = np.column_stack([part.ravel() for part in np.meshgrid(plane, plane)])
weights = np.abs(machine.dual_coef_)

fig, axes = plt.subplots(ncols=2, figsize=(9.4, 4.9), layout="constrained", sharey=True)
for ax, model, points, sizes, title in (
    (axes[0], svm, svm.support_vectors_, 26, f"SVC: {len(svm.support_)} support vectors"),
    (
        axes[1],
        machine,
        machine.basis_,
        40 + 260 * weights / weights.max(),
        f"LP machine: {machine.n_basis_} kernel functions",
    ),
):
    values = np.clip(model.decision_function(grid), -1.5, 1.5).reshape(220, 220)
    ax.contourf(plane, plane, values, np.linspace(-1.5, 1.5, 25), cmap=shades, alpha=0.55)
    ax.contour(
        plane, plane, values, [-1, 0, 1], colors=dark, linewidths=[0.6, 1.6, 0.6], linestyles="-"
    )
    for label, colour in enumerate((blue, orange)):
        ax.plot(*X[y == label].T, ".", color=colour, markersize=3)
    ax.scatter(*points.T, s=sizes, facecolors="none", edgecolors=dark, linewidths=0.9)
    ax.set(title=title, aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
plt.show()

# %%
# Bounds on the minimum: the value of the model from above, and the bound that the prices of all
# columns prove from below.

from pursuit import CertificateDisplay

path = machine.path_
CertificateDisplay(
    path.sizes[1:], path.value[1:], {"Lagrangian": path.lower[1:]}, show="bounds"
).plot()
plt.show()

# %%
# A smaller C gives a smaller model.

for smaller in (0.3, 0.1, 0.03):
    model = LPMachineClassifier(gamma=gamma, C=smaller).fit(X, y)
    print(f"C = {smaller}: {model.n_basis_} functions, {model.score(X_test, y_test):.1%}")
