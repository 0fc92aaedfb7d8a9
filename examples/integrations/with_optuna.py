"""
optuna: which parameters are worth a search
===========================================

*What should I tune, and how?* A Gaussian process learns kernel and noise from the evidence, so
there is nothing to search. Kernel ridge regression has a penalty and a kernel width that somebody
must choose. optuna chooses them by cross-validation, and gives hopeless trials up early.

``pip install optuna`` installs what this page needs.
"""

# %%
# A simulated robot arm. The test rows are looked at only at the end.

import matplotlib.pyplot as plt
import numpy as np
import optuna
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import KFold

from pursuit import SparseGPRegressor, SparseKernelRidge
from pursuit.datasets import make_robot_arm

arm = make_robot_arm(2800, random_state=0)
X, X_test, y, y_test = arm.data[:800], arm.data[800:], arm.target[:800], arm.target[800:]
center = y.mean()


def ridge(alpha, gamma):
    return SparseKernelRidge(
        alpha=alpha, gamma=gamma, n_basis=100, certificate=None, random_state=0
    )


# %%
# One trial: three folds, with the error so far reported after each. Both parameters are scales, so
# they are searched on a logarithmic axis.


def objective(trial):
    alpha = trial.suggest_float("alpha", 1e-5, 10, log=True)
    gamma = trial.suggest_float("gamma", 1e-3, 10, log=True)
    errors = []
    for step, (fit, left) in enumerate(KFold(3).split(X)):
        model = ridge(alpha, gamma).fit(X[fit], y[fit] - center)
        errors.append(root_mean_squared_error(y[left] - center, model.predict(X[left])))
        trial.report(np.mean(errors), step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return np.mean(errors)


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(
    sampler=optuna.samplers.TPESampler(seed=0), pruner=optuna.pruners.MedianPruner()
)
study.optimize(objective, n_trials=40)

# %%
# The search is judged by rows that it has not seen, beside the defaults and beside a process that
# learned its parameters in one fit.


def error(model):
    return root_mean_squared_error(y_test - center, model.fit(X, y - center).predict(X_test))


default = error(ridge(SparseKernelRidge().alpha, SparseKernelRidge().gamma))
tuned = error(ridge(**study.best_params))
process = error(SparseGPRegressor(n_basis=100, random_state=0))
print(f"kernel ridge, default parameters: error {default:.3f}")
print(f"kernel ridge, tuned by optuna:    error {tuned:.3f}")
print(f"Gaussian process, not tuned:      error {process:.3f}")
assert tuned < default
assert process < default

# %%
# Where the trials were. Pruned trials are crosses.

states = {optuna.trial.TrialState.COMPLETE: "o", optuna.trial.TrialState.PRUNED: "x"}
fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
lowest = np.log10(study.best_value)
for state, marker in states.items():
    trials = [trial for trial in study.trials if trial.state == state]
    alphas, gammas = ([trial.params[name] for trial in trials] for name in ("alpha", "gamma"))
    values = [np.log10(trial.value) for trial in trials]
    points = ax.scatter(
        alphas, gammas, c=values, marker=marker, vmin=lowest, vmax=lowest + 0.5, cmap="viridis_r"
    )
fig.colorbar(points, label="log₁₀ of the error")
ax.set(xscale="log", yscale="log", xlabel="alpha", ylabel="gamma", title="40 trials")
plt.show()

# %%
# The documentation is built without these packages. This is what the recipe printed and drew:
#
# .. literalinclude:: /recipes/with_optuna.txt
#    :language: text
#
# .. image:: /recipes/with_optuna.png
#    :alt: Trials over penalty and kernel width, coloured by their error.

# sphinx_gallery_thumbnail_path = "recipes/with_optuna.png"
