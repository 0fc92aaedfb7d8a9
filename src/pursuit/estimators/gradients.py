"""Gradients of predictions by the inputs: ``model.predict_gradient(X)``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from pursuit._types import Floats
from pursuit.estimators.kernel_model import Expansion, in_precision_of_rows


class GradientModel:
    """Adds ``predict_gradient`` to a regressor f = Σ_j β_j k(·, x_j) + b with a kernel."""

    _mean_gradient: Callable[[Any], Floats]
    _expansion: Callable[[], Expansion]

    @in_precision_of_rows
    def predict_gradient(self, X: Any) -> Floats:
        """Gradient of the prediction by the inputs, ∂f/∂x, in units of y per unit of the column.

        The kernel must have derivatives by its inputs: kernel objects of scikit-learn and of this
        package have them, also by name; functions, matrices and classes of your own are refused.
        Columns of categories have none, and their entries are 0. So is the term of a basis point at
        a row equal to it for kernels with a kink there, such as Matérn 1/2.

        Parameters
        ----------
        X : array, CSR, data frame, path or table, of n_rows rows
            As in :meth:`predict`. Sparse rows become dense, block after block.

        Returns
        -------
        gradient : array of shape (n_rows, n_features) or (n_rows, n_features, n_outputs)

        Examples
        --------
        >>> import numpy as np
        >>> from pursuit import SparseKernelRidge
        >>> X = np.linspace(0, 3, 50)[:, None]
        >>> model = SparseKernelRidge(alpha=1e-6, refit=True).fit(X, X[:, 0] ** 2)
        >>> model.predict_gradient([[1.0], [2.0]]).round(1)
        array([[2.],
               [4.]])
        """
        return self._as_predicted(self._mean_gradient(X))

    def _as_predicted(self, gradient: Floats) -> Floats:
        return gradient[..., 0] if self._single_prediction else gradient

    @property
    def _single_prediction(self) -> bool:
        """Whether predictions are a vector."""
        return self._expansion().single


class GradientProcess(GradientModel):
    """Adds ``predict_gradient`` to a Gaussian process, with the gradient of its error bars."""

    @in_precision_of_rows
    def predict_gradient(
        self, X: Any, return_std: bool = False, *, include_noise: bool = True
    ) -> Any:
        """Gradient of the mean by the inputs and, when asked for, of the standard deviation.

        Both are derivatives of what :meth:`predict` returns, calibration included, in units of y
        per unit of the column. The kernel must have derivatives by its inputs: kernel objects of
        scikit-learn and of this package have them, also by name; functions, matrices and classes of
        your own are refused. Columns of categories have none, and their entries are 0. So is the
        term of a basis point at a row equal to it for kernels with a kink there, such as Matérn
        1/2.

        Parameters
        ----------
        X : array, CSR, data frame, path or table, of n_rows rows
            As in :meth:`predict`. Sparse rows become dense, block after block.
        return_std : bool, default False
            Also return the gradient of the standard deviation.
        include_noise : bool, default True
            Whether that is the deviation of a new observation, or of the function alone.

        Returns
        -------
        gradient : array of shape (n_rows, n_features) or (n_rows, n_features, n_outputs)
        std_gradient : array of the same shape, if ``return_std``

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from pursuit import SparseGPRegressor
        >>> X = np.linspace(0, 6, 100)[:, None]
        >>> model = SparseGPRegressor(RBF(1.0), noise=1e-4, optimizer=None).fit(X, np.sin(X[:, 0]))
        >>> slope, slope_of_std = model.predict_gradient([[1.0], [5.9]], return_std=True)
        >>> bool(np.allclose(slope[:, 0], np.cos([1.0, 5.9]), atol=0.01))
        True
        >>> bool(slope_of_std[1, 0] > 0)  # the error bars widen towards the end of the data
        True
        """
        gradient = self._as_predicted(self._mean_gradient(X))
        if not return_std:
            return gradient
        return gradient, self._as_predicted(self._std_gradient(X, include_noise))

    @abstractmethod
    def _std_gradient(self, X: Any, include_noise: bool) -> Floats:
        """Gradients of the standard deviation: shape (n_rows, n_features, n_outputs)."""
