"""What a fitted classifier can do: predict, certify, be cut short."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate, logistic_lower_bound
from pursuit.estimators.classes import (
    against_rest,
    class_numbers,
    class_weights,
    distinct_classes,
    known_numbers,
    largest_class,
)
from pursuit.estimators.gp.laplace import LaplaceFit
from pursuit.estimators.inputs import (
    check_lengths,
    in_double,
    named_columns,
    prediction_rows,
    reads_matrix,
    rows_again,
    size_on_path,
    training_rows,
    validate_labels,
    validate_weights,
)
from pursuit.estimators.intervals import SetModel
from pursuit.estimators.kernel_model import (
    PLAIN_ROWS,
    BasisModel,
    LoggedProbabilities,
    ScoredRows,
    in_precision_of_rows,
    lazily,
)
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.scales import in_range
from pursuit.estimators.span.features import StoredFunction, exact_certificate
from pursuit.gram import over_span
from pursuit.greedy import CostMeter, Path
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers, single_threaded_blas
from pursuit.objectives import LogisticRows
from pursuit.rounding import Rounded, dots
from pursuit.rows import RowSource, Sample
from pursuit.tuning import Confidence


@dataclass(frozen=True)
class LogisticProblem:
    """Minimise Σ_i w_i log(1 + exp(-y_i f(x_i))) + ‖f‖²/2s over f, each column by itself.

    Attributes
    ----------
    targets : array of shape (n_rows, n_outputs)
        y = ±1.
    weights : array of shape (n_rows,)
        w, all positive.
    scale : float
        s.
    """

    targets: Floats
    weights: Floats
    scale: float

    reference = "the full Gaussian process classifier with this kernel"
    baseline = "even odds"
    trivial = 0.0
    remedy = (
        "the scale of the kernel is beyond what float64 resolves at these rows: lower the kernel's "
        "variance, or centre the features"
    )

    @property
    def n_outputs(self) -> int:
        """Number of columns."""
        return int(self.targets.shape[1])

    @property
    def over(self) -> str:
        """What the minimum is taken over."""
        return "all functions of the kernel"

    def value(self, values: Any, squared_norms: Any, shifts: Any = 0.0) -> Rounded:
        """P for each column, from f at the rows, ‖f‖², and constants that are added to f."""
        losses = LogisticRows().evaluated(Rounded.of(values) + shifts, self.targets)
        weights = np.broadcast_to(self.weights[:, None], self.targets.shape)
        return dots(weights, losses) + 0.5 * (Rounded.of(squared_norms) / self.scale)

    def zero_value(self) -> Floats:
        """P of f = 0: log 2 per row."""
        return np.full(self.n_outputs, float(self.weights.sum()) * np.log(2.0))

    def dual_point(self, fitted: Floats) -> Floats:
        """a = -w ℓ'(f) = w y/(1 + exp(yf)), feasible whatever f is."""
        return np.asarray(-self.weights[:, None] * LogisticRows().gradient(fitted, self.targets))

    def feasible(self, a: Floats) -> Floats:
        """A dual point with 0 ≤ ya ≤ w."""
        return np.asarray(self.targets * np.clip(self.targets * a, 0.0, self.weights[:, None]))

    def lower_bound(self, a: Floats, quadratic: Rounded) -> Rounded:
        """The best D(ta) of a feasible a, from a'Ka or an upper bound of it."""
        q = np.abs(a) / self.weights[:, None]
        return logistic_lower_bound(q, self.weights, self.scale * quadratic)


_EVEN = 1e-6
"""Log-odds of two classes up to this may round to probabilities of exactly one half."""


def _knows_itself(model: Any) -> bool:
    if reads_matrix(model):
        raise AttributeError(
            "predict_proba needs k(x, x), which a precomputed matrix of k(x, training rows) does "
            "not hold: fit with a callable kernel instead, or use decision_function."
        )
    return True


class ClassModel(ScoredRows, LoggedProbabilities, SetModel, ClassifierMixin):
    """A classifier with one latent function per class, or a single one for two classes."""

    class_weight: Mapping[Any, float] | str | None

    classes_: NDArray[Any]
    class_weight_: Floats

    decision_function: Callable[[Any], Floats]

    @lazily
    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class, as :meth:`predict_proba` has it.

        With a precomputed kernel, for which there are no probabilities, the class of the largest
        mean log-odds.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`decision_function`.

        Returns
        -------
        labels : array of shape (n_rows,)
        """
        check_is_fitted(self)
        decide = in_double(self.decision_function)
        f = decide(X) if self._columns == 1 else None
        if f is not None and np.all(np.abs(f) > _EVEN):
            # The average of the logistic function exceeds ½ where the mean of the log-odds is > 0.
            chosen = (f > 0).astype(np.intp)
        elif hasattr(self, "predict_proba"):
            chosen = in_double(self.predict_proba)(X).argmax(axis=1)
        else:
            chosen = largest_class(decide(X))
        labels: NDArray[Any] = self.classes_[chosen]
        return labels

    def _take_in(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[Any, Sample, Indices]:
        """Training data, checked: X, the rows that have weight, and their numbers among all."""
        rows, X = training_rows(self, X)
        names = validate_labels(y)
        check_lengths(X, names)
        weights = validate_weights(sample_weight, rows.n_rows)
        self.classes_ = distinct_classes(names[weights > 0])
        # Labels that occur without weight only belong to no class, and their rows are absent.
        labels = class_numbers(names, self.classes_)
        there = weights > 0
        self.class_weight_ = class_weights(
            self.class_weight, self.classes_, labels[there], weights[there]
        )
        return X, *self._sample(rows, labels, weights)

    @property
    def _columns(self) -> int:
        """Latent functions: one for two classes, else one per class."""
        return len(self.classes_) if len(self.classes_) > 2 else 1

    def _sample(self, rows: RowSource, labels: Indices, weights: Floats) -> tuple[Sample, Indices]:
        """Rows that have weight, those of classes included, with ±1 targets; and their numbers.

        ``labels`` are positions in ``classes_``.
        """
        present = np.flatnonzero(weights > 0)
        weights = weights * self.class_weight_[labels]
        sample = Sample(rows, against_rest(labels, len(self.classes_)), weights)
        return sample.take(present) if len(present) < rows.n_rows else sample, present


class LatentClassModel(ClassModel, BasisModel, ReportedModel, BaseEstimator):
    """Latent functions of classes, f = Σ_j β_j k(·, x_j), with Laplace's posterior around them."""

    n_jobs: int | None

    scale_: float
    basis_indices_: Indices
    n_basis_: int
    dual_coef_: Floats
    log_marginal_likelihood_value_: float
    path_: Path
    certificate_: Certificate | None
    calibration_: Confidence | None
    _n_rows: int
    _laplace: LaplaceFit
    _whitener: Floats

    @in_precision_of_rows
    def decision_function(self, X: Any) -> Floats:
        """Mean of the log-odds f of each class, for two classes those of the second.

        Parameters
        ----------
        X : items of n_rows rows
            k(rows, training rows) when ``kernel="precomputed"``.

        Returns
        -------
        values : array of shape (n_rows,) or (n_rows, n_classes)
        """
        return self._as_fitted(self._values(X))

    @available_if(_knows_itself)
    @in_precision_of_rows
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes: the logistic function of the log-odds, averaged over them.

        For more than two classes, those of each against the rest, brought to a sum of 1.

        Parameters
        ----------
        X : items of n_rows rows

        Returns
        -------
        probabilities : array of shape (n_rows, n_classes)
        """
        self._check_fitted()
        confidence = Confidence() if self.calibration_ is None else self.calibration_
        bound = self._bound_for(X, PLAIN_ROWS)
        if bound is not None:
            with single_threaded_blas():
                V, prior = bound(X) @ self._whitener.T, bound.kernel.diag(X)
                return confidence.probabilities(self._laplace.latents(V.T, prior))
        rows, X = prediction_rows(self, X)
        kernel = self._compiled(X)

        def measure(V: Floats, items: Any, where: slice) -> Floats:
            return confidence.probabilities(self._laplace.latents(V.T, kernel.diag(items)))

        with Workers(self.n_jobs) as workers:
            parts = over_span(rows, kernel, self._points, self._whitener, measure, workers)
        return np.concatenate(parts)

    @in_range
    def certify(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Certificate:
        """Bound the distance of the latent functions from the full kernel's on (X, y).

        What they minimise is P(f) = Σw log(1 + exp(-yf)) + ‖f‖²/2s, for each column with its
        y = ±1; the minimum over all functions is the mode of the exact Gaussian process. Takes one
        product with the kernel matrix of the rows, O(n_rows²) kernel values in O(n_rows) memory,
        always in float64.

        Parameters
        ----------
        X, y, sample_weight
            The training data, as in :meth:`fit`; any other rows of the same classes will do.

        Returns
        -------
        certificate : Certificate
            Sums over the columns of the decision function; ``per_output`` has them apart.
        """
        check_is_fitted(self)
        X, y, sample_weight = named_columns(X, y, sample_weight)
        rows, X = rows_again(self, X)
        names = validate_labels(y)
        check_lengths(X, names)
        weights = validate_weights(sample_weight, rows.n_rows)
        labels = known_numbers(names, weights, self.classes_)
        sample, _ = self._sample(rows, labels, weights)
        with Workers(self.n_jobs) as workers:
            return self._certified(sample, self._compiled(X), workers)

    def truncated(self, n: int) -> Self:
        """The model of the first n basis functions, without a pass over the data.

        Its latent functions have the posterior of this model, given that they lie in the smaller
        span: close to what a fit there would find as long as n is not much smaller than
        ``n_basis_``, say half of it.

        Parameters
        ----------
        n : int
            From 1 to ``n_basis_``.

        Returns
        -------
        model : same class
            A new, fitted model. Its ``certificate_`` is None and its
            ``log_marginal_likelihood_value_`` NaN, both of which take a pass over the data;
            ``calibration_`` is that of this model.
        """
        check_is_fitted(self)
        n = size_on_path(n, self.n_basis_)
        model = copy.copy(self)
        model.basis_ = None if self.basis_ is None else self.basis_[:n]
        model.basis_indices_ = self.basis_indices_[:n]
        model.path_ = self.path_.truncated(n)
        model.certificate_ = model.coverage_guarantee_ = None
        model._set_latents(self._laplace.truncated(n), self._whitener[:n, :n].copy())
        return model

    def _set_latents(self, laplace: LaplaceFit, whitener: Floats) -> None:
        """Keep the posterior in a span with this R⁻¹."""
        self._laplace, self._whitener = laplace, whitener
        self.n_basis_ = len(whitener)
        coefficients = whitener.T @ laplace.mode
        self.dual_coef_ = coefficients if self._columns > 1 else coefficients[:, 0]
        self.scale_ = laplace.scale
        self.log_marginal_likelihood_value_ = float(laplace.log_evidence.mean())

    def _certified(
        self,
        sample: Sample,
        kernel: CountingKernel,
        workers: Workers,
        meter: CostMeter | None = None,
    ) -> Certificate:
        """The certificate for the problem that a sample poses."""
        problem = LogisticProblem(sample.targets, sample.weights, self.scale_)
        function = StoredFunction.of(
            self._points,
            self.dual_coef_.reshape(self.n_basis_, self._columns),
            np.zeros(self._columns),
            sample.rows,
            kernel,
            workers,
            meter,
        )
        dual = problem.dual_point(function.fitted.value)
        found, _ = exact_certificate(problem, function, dual, meter)
        return found
