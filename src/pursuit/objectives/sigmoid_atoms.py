"""Sigmoid functions of random directions, ready-made atoms for a hull (Barron)."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from pursuit._types import Floats
from pursuit.objectives.atoms import MatrixAtoms


class SigmoidAtoms(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Sigmoid functions of random directions: the atoms of one-hidden-layer networks.

    Barron's class is the closure of the hull of ±r σ(θ'x + b) over all directions θ and offsets b
    (Z02 §1 and §4.1). Here are ``n_atoms`` of these functions, σ(u) = 1 / (1 + exp(-u)). Each is
    one half at a training row drawn at random, and rises in a direction drawn at random, uniformly
    in features divided by their standard deviations. Pass it to `HullRegressor`, or what
    :meth:`on` gives to `minimize_over_hull`. Certificates are then about the atoms that were
    drawn, not about all of Barron's class.

    Parameters
    ----------
    n_atoms : int, default 1000
        How many functions.
    scale : float, default 4.0
        Steepness: σ(θ'x + b) rises from .12 to .88 over 4 / ``scale`` standard deviations.
    random_state : int, RandomState or None, default None
        Seed of directions and rows.

    Attributes
    ----------
    directions_ : array of shape (n_features, n_atoms)
        θ, one per column.
    offsets_ : array of shape (n_atoms,)
        b.
    n_features_in_ : int
        Number of features.

    References
    ----------
    A. R. Barron. Universal approximation bounds for superpositions of a sigmoidal function. IEEE
    Transactions on Information Theory 39(3), 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import HullRegressor, SigmoidAtoms, SquaredLoss, minimize_over_hull
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.tanh(2 * X[:, 0] - X[:, 1])
    >>> atoms = SigmoidAtoms(500, random_state=0)
    >>> model = HullRegressor(atoms, radius=4.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    >>> solution = minimize_over_hull(SquaredLoss(y), atoms.fit(X).on(X, radius=4.0))
    >>> bool(abs(solution.value - model.certificate_.upper) < 1e-6)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_atoms": [Interval(numbers.Integral, 1, None, closed="left")],
        "scale": [Interval(numbers.Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    directions_: Floats
    offsets_: Floats
    n_features_in_: int

    def __init__(
        self, n_atoms: int = 1000, *, scale: float = 4.0, random_state: Any = None
    ) -> None:
        self.n_atoms = n_atoms
        self.scale = scale
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> SigmoidAtoms:
        """Draw directions and offsets.

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
            Training rows.
        y : ignored
            There for pipelines.

        Returns
        -------
        self : SigmoidAtoms
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        rng = check_random_state(self.random_state)
        deviations = StandardScaler(with_mean=False).fit(X).scale_
        directions = rng.standard_normal((self.n_atoms, X.shape[1]))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        directions *= self.scale / deviations
        centers = X[rng.randint(X.shape[0], size=self.n_atoms)]
        centers = centers.toarray() if hasattr(centers, "toarray") else centers
        self.directions_ = np.ascontiguousarray(directions.T)
        self.offsets_ = -np.einsum("ij,ij->i", centers, directions)
        return self

    def transform(self, X: Any) -> Floats:
        """Values of all atoms.

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        values : array of shape (n_rows, n_atoms)
            Between 0 and 1.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        values = np.asarray(X @ self.directions_, dtype=np.float64)
        values += self.offsets_
        expit(values, out=values)
        return values

    def on(self, X: Any, radius: float = 1.0) -> MatrixAtoms:
        """The functions r σ_j and then -r σ_j on rows, for `minimize_over_hull`.

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
            Rows.
        radius : float, default 1.0
            r, the largest sum of absolute weights.

        Returns
        -------
        atoms : Atoms
            ``2 * n_atoms`` of them; every one is looked at in each step.
        """
        if not 0 < radius < np.inf:
            raise ValueError(f"radius must be a positive number, got {radius!r}.")
        values = radius * self.transform(X)
        return MatrixAtoms(np.hstack([values, -values]))

    @property
    def _n_features_out(self) -> int:
        return len(self.offsets_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
