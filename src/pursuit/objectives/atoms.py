"""Atoms of a hull: columns of a matrix, kernel functions, sigmoids, an oracle, or weak learners.

An atom is a vector with one value per row. Atoms that are not known beforehand get the next number
when they are found.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
    is_classifier,
)
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from pursuit._sklearn import Interval, fit_context
from pursuit._types import Floats, Indices
from pursuit.kernels import compile_kernel

_RANGE = 1e-9


class Atoms(Protocol):
    """Atoms that can be asked for those best aligned with a direction."""

    @property
    def n_atoms(self) -> int:
        """How many atoms have numbers: all of a finite set, otherwise those found so far."""

    @property
    def finite(self) -> bool:
        """Whether every atom has its number from the start."""

    @property
    def exact(self) -> bool:
        """Whether the best atom is always among those proposed."""

    def propose(self, gradient: Floats) -> Indices:
        """Numbers of the atoms to try where f has this gradient, the most promising first.

        If the atoms are exact, one of them minimises p'∇f over all atoms.
        """

    def edges(self, gradient: Floats, numbers: Indices) -> Floats:
        """p'∇f of these atoms."""

    def values(self, number: int) -> Floats:
        """The atom on the rows."""

    def vertices(self, n_rows: int) -> Floats | None:
        """Columns in whose hull all atoms lie, or None where none are known."""


class MatrixAtoms:
    """The columns of a matrix.

    Parameters
    ----------
    matrix : array of shape (n_rows, n_atoms)
        One atom per column.
    """

    finite = True
    exact = True

    def __init__(self, matrix: ArrayLike) -> None:
        array = np.asarray(matrix, dtype=np.float64)
        if array.ndim != 2 or 0 in array.shape or not np.isfinite(array).all():
            raise ValueError(
                "atoms must be a matrix of finite numbers with one row per row of the data and one "
                f"column per atom, got shape {array.shape}."
            )
        self.matrix = array
        self._all = np.arange(array.shape[1])

    @property
    def n_atoms(self) -> int:
        """Number of columns."""
        return int(self.matrix.shape[1])

    def propose(self, gradient: Floats) -> Indices:
        """All of them."""
        return self._all

    def edges(self, gradient: Floats, numbers: Indices) -> Floats:
        """p'∇f."""
        edges: Floats = gradient @ self.matrix
        return edges if len(numbers) == self.n_atoms else edges[numbers]

    def values(self, number: int) -> Floats:
        """A column."""
        return np.ascontiguousarray(self.matrix[:, number])

    def vertices(self, n_rows: int) -> Floats:
        """The matrix."""
        return self.matrix


class KernelAtoms(MatrixAtoms):
    """Kernel functions at given centres, on the rows (Zhang 2002a, §4.1).

    Parameters
    ----------
    kernel : kernel object, str or callable
        As in the estimators.
    X : array of shape (n_rows, n_features), or items
        The rows.
    centers : items, optional
        Where the functions are centred; the rows themselves by default.
    **parameters
        ``gamma``, ``coef0``, ``degree`` or ``kernel_params`` of a kernel given by name.
    """

    def __init__(self, kernel: Any, X: Any, centers: Any = None, **parameters: Any) -> None:
        n_features = X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else None
        self.kernel, _ = compile_kernel(kernel, n_features=n_features, **parameters)
        self.centers = X if centers is None else centers
        super().__init__(self.kernel.tile(X, self.centers))


class OracleAtoms:
    """Atoms that a function finds.

    Parameters
    ----------
    best_atom : callable
        ``best_atom(gradient)`` returns the values (one per row) of the atom p with the least
        p'gradient.
    bound : float, optional
        Largest absolute value of any atom. It is checked, and makes rates computable.
    """

    finite = False
    exact = True

    def __init__(
        self, best_atom: Callable[[Floats], ArrayLike], bound: float | None = None
    ) -> None:
        if bound is not None and not 0 < bound < np.inf:
            raise ValueError(f"bound must be a positive number, got {bound!r}.")
        self._best_atom, self.bound = best_atom, bound
        self.found: list[Floats] = []
        self._number_of: dict[bytes, int] = {}

    @property
    def n_atoms(self) -> int:
        """Number of distinct atoms found."""
        return len(self.found)

    def propose(self, gradient: Floats) -> Indices:
        """The atom that the oracle returns."""
        atom = np.array(self._best_atom(gradient), dtype=np.float64)
        if atom.shape != gradient.shape or not np.isfinite(atom).all():
            raise ValueError(
                f"best_atom must return {len(gradient)} finite values, one per row, got an array "
                f"of shape {atom.shape}."
            )
        largest = float(np.abs(atom).max())
        if self.bound is not None and largest > self.bound * (1 + _RANGE):
            raise ValueError(
                f"an atom reaches {largest:.4g}, outside the stated range [-{self.bound:g}, "
                f"{self.bound:g}]: raise bound, or scale the atoms."
            )
        key = atom.tobytes()
        number = self._number_of.setdefault(key, len(self.found))
        if number == len(self.found):
            self.found.append(atom)
        return np.array([number], dtype=np.intp)

    def edges(self, gradient: Floats, numbers: Indices) -> Floats:
        """p'∇f."""
        return np.array([float(self.found[i] @ gradient) for i in numbers])

    def values(self, number: int) -> Floats:
        """An atom that was found."""
        return self.found[number]

    def vertices(self, n_rows: int) -> Floats | None:
        """The constant ``bound``, which no atom exceeds in absolute value."""
        return None if self.bound is None else np.full((n_rows, 1), self.bound)


class LearnedAtoms(OracleAtoms):
    """Predictions of a scikit-learn estimator that is trained again, with weights, at every step.

    Where the gradient is g, the learner sees the classes sign(-g) with weights abs(g): the better
    it learns them, the steeper f falls in its direction. It need not find the best function, so
    there is no certificate.

    Parameters
    ----------
    learner : classifier or regressor
        It must take ``sample_weight``. Predictions of a regressor must stay in [-1, 1].
    X : array of shape (n_rows, n_features)
        The rows.
    """

    exact = False

    def __init__(self, learner: Any, X: Any) -> None:
        check_learner(learner)
        super().__init__(self._train, bound=1.0)
        self._learner, self._X = learner, X
        self.learners: list[Any] = []

    def propose(self, gradient: Floats) -> Indices:
        """Train a learner; each one counts as a new atom."""
        self._number_of.clear()
        return super().propose(gradient)

    def _train(self, gradient: Floats) -> Floats:
        signs = np.where(gradient < 0, 1, -1)
        weights = np.abs(gradient)
        learner = clone(self._learner).fit(
            self._X, signs, sample_weight=weights * (len(weights) / weights.sum())
        )
        self.learners.append(learner)
        return learner_values(learner, self._X)


def check_learner(learner: Any) -> None:
    """Refuse a weak learner that cannot be trained on weights."""
    if isinstance(learner, type) or not (hasattr(learner, "fit") and hasattr(learner, "predict")):
        raise TypeError(
            "a weak learner must be a scikit-learn classifier or regressor, got "
            f"{type(learner).__name__}."
        )
    if not has_fit_parameter(learner, "sample_weight"):
        raise ValueError(
            f"{type(learner).__name__} does not take sample_weight in fit, which a weak learner "
            "must: use one that does, such as DecisionTreeClassifier(max_depth=1)."
        )


def learner_values(learner: Any, X: Any) -> Floats:
    """Values in [-1, 1] of a trained learner."""
    values = np.asarray(learner.predict(X), dtype=np.float64)
    if not is_classifier(learner) and float(np.abs(values).max(initial=0.0)) > 1 + _RANGE:
        raise ValueError(
            f"weak learner {type(learner).__name__} predicts {np.abs(values).max():.4g}, outside "
            "the stated range [-1, 1]: use a classifier, or a regressor whose predictions stay "
            "between its targets, such as a tree."
        )
    return values


class SigmoidAtoms(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Sigmoid functions of random directions: the atoms of one-hidden-layer networks.

    Barron's class is the closure of the hull of ±r σ(θ'x + b) over all directions θ and offsets b
    (Zhang 2002a, §1 and §4.1). Here are ``n_atoms`` of these functions, σ(u) = 1 / (1 + exp(-u)).
    Each is one half at a training row drawn at random, and rises in a direction drawn at random,
    uniformly in features divided by their standard deviations. Pass it to `HullRegressor`, or pass
    the result of :meth:`on` to `minimize_over_hull`. Certificates are then about the atoms that
    were drawn, not about all of Barron's class.

    Parameters
    ----------
    n_atoms : int, default 1000
        Number of functions.
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

    @fit_context(prefer_skip_nested_validation=True)
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
            ``2 * n_atoms`` atoms; each step looks at all of them.
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
