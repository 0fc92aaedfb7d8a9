"""The scikit-learn face: wire rows, kernel, objective and stopping rule, and store the result."""

from pursuit.estimators.gp import SparseGPRegressor

__all__ = ["SparseGPRegressor"]
