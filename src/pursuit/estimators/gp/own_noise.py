"""What a fitted process does with noise that it has found itself: varying, or Student's t."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.estimators.gp.error_bars import latent_variance
from pursuit.estimators.gp.outliers import StudentNoise
from pursuit.estimators.gp.reweighting import OwnWeights, last_rounds, left_out
from pursuit.estimators.gp.stages import calibrate_fit
from pursuit.estimators.gp.varying_noise import VaryingNoise, compiled
from pursuit.estimators.inputs import TargetScale, in_double, prediction_rows
from pursuit.estimators.kernel_model import SampledRows, in_precision_of_rows
from pursuit.estimators.span.search import RowSplit
from pursuit.gram import kernel_times
from pursuit.greedy import Problem, SpanFit
from pursuit.kernels import CountingKernel
from pursuit.linalg import PredictiveVariance, Workers
from pursuit.rows import RowSource, has_gaps
from pursuit.tuning import Calibration

NO_GAPS = (
    "some targets are NaN, and likelihood='student-t' and noise='varying' set the weights of whole "
    "rows: fit each output by itself, without its gaps."
)


class OwnNoise(SampledRows):
    """Noise at any row, weights of rows by it, and draws of observations."""

    n_jobs: int | None
    calibration_: Calibration | None
    degrees_of_freedom_: float
    outliers_: Indices
    outlier_weights_: Floats
    _noise_model: VaryingNoise | StudentNoise | None
    """Noise that is not the same Gaussian for all rows."""
    _spread: PredictiveVariance
    _solution: Any
    _scale: TargetScale
    _points: Any
    _coefficient_columns: Floats
    _compiled: Callable[[Any], CountingKernel]
    _as_fitted: Callable[[Floats], Floats]
    _set_calibration: Callable[[dict[int, Calibration], SpanFit, float], None]

    def _find_noise(
        self,
        own: OwnWeights,
        fitted: SpanFit,
        problem: Problem,
        split: RowSplit,
        X: Any,
        present: Indices,
        factor: float,
    ) -> tuple[OwnWeights, SpanFit, Problem]:
        """The noise, fit and error bars by the errors of the final basis, times ``factor``."""
        self._noise_model = own.noise
        if fitted.n_rows is None and own.noise is not None and fitted.solution.size:
            kernel = self._noise_kernel(X)
            own, fitted, problem = last_rounds(own, fitted, problem, kernel)
            if self.calibration_ is not None:
                how: dict[str, Any] = {"keep_ridge": True, "ratio": own.ratio, "factor": factor}
                fitted, calibrations = calibrate_fit(fitted, problem, split.reserved, **how)
                self._set_calibration(calibrations, fitted, problem.noise)
        self._noise_model = own.noise
        if isinstance(own.noise, StudentNoise):
            own = self._list_outliers(own, own.noise, fitted, problem, present)
        return own, fitted, problem

    def _list_outliers(
        self,
        own: OwnWeights,
        noise: StudentNoise,
        fitted: SpanFit,
        problem: Problem,
        present: Indices,
    ) -> OwnWeights:
        """Keep which rows are outliers; the sentence says how many."""
        errors = left_out(fitted, problem, np.arange(problem.sample.n_rows), own.ratio)
        rows = noise.outliers(errors, self._spread)
        self.degrees_of_freedom_ = noise.degrees
        self.outliers_, self.outlier_weights_ = present[rows], 1.0 / own.ratio[rows]
        return replace(
            own,
            sentence=f"Student's t with {noise.degrees:.3g} degrees of freedom, {noise.wrong:.2%} "
            f"of the rows wrong altogether; {len(rows)} rows beyond four deviations",
        )

    @in_precision_of_rows
    def noise_at(self, X: Any) -> Any:
        """Standard deviation of the noise at each row, in units of y.

        Parameters
        ----------
        X : items of n_rows rows
            As in :meth:`predict`.

        Returns
        -------
        std : array of shape (n_rows,) or (n_rows, n_outputs)
            The same number for all rows unless ``noise="varying"`` has found that it varies. For
            ``likelihood="student-t"`` half the width of the central 68 % of the noise, since
            Student's t with 2 degrees of freedom or less has no finite variance.

        Examples
        --------
        >>> import numpy as np
        >>> from pursuit import SparseGPRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 6, (300, 1))
        >>> y = np.sin(X[:, 0]) + np.where(X[:, 0] < 3, 0.1, 0.5) * rng.standard_normal(300)
        >>> model = SparseGPRegressor(noise="varying", n_basis=20, random_state=0).fit(X, y)
        >>> model.noise_at([[1.0], [5.0]]).round(1)
        array([0.1, 0.5])
        """
        check_is_fitted(self)
        rows, X = prediction_rows(self, X)
        with Workers(self.n_jobs) as workers:
            variance = self._noise_variance(rows, X, workers)
        return self._as_fitted(self._scale.scale * np.sqrt(variance)[:, None])

    def _noise_variance(self, rows: RowSource, X: Any, workers: Workers) -> Floats:
        """Noise variance of new observations in normalised units."""
        ratio = self._noise_ratio(rows, X, workers)
        return np.asarray(self._spread.noise * np.broadcast_to(ratio, rows.n_rows))

    def _noise_ratio(self, rows: RowSource, X: Any, workers: Workers) -> Floats | float:
        """Noise variance of new observations relative to that of the spread."""
        noise = self._noise_model
        return 1.0 if noise is None else noise.ratio(rows, self._noise_kernel(X), workers)

    def _noise_kernel(self, X: Any) -> CountingKernel | None:
        """The kernel of varying noise, as tiles."""
        noise = self._noise_model
        return compiled(noise.kernel, self, X) if isinstance(noise, VaryingNoise) else None

    def _row_ratio(
        self, rows: RowSource, X: Any, targets: Floats, workers: Workers
    ) -> Floats | None:
        """Noise variance of rows with targets relative to ``noise_``, if it is not all the same."""
        noise = self._noise_model
        if isinstance(noise, StudentNoise):
            if has_gaps(targets):
                raise ValueError(NO_GAPS)
            kernel, points = self._compiled(X), self._points
            f = kernel_times(rows, kernel, points, self._coefficient_columns, workers)
            variance = latent_variance(rows, kernel, points, self._solution, self._spread, workers)
            return 1.0 / noise.weights(targets - f, self._spread.noise + variance)
        return None if noise is None else noise.ratio(rows, self._noise_kernel(X), workers)

    def _refuse_to_forget_all(self) -> None:
        if isinstance(self._noise_model, StudentNoise):
            raise ValueError(
                "likelihood='student-t' gives rows weights from the errors of a fit, and a model "
                "without rows has none to give: use partial_fit on the fitted model, with decay= "
                "to forget, or fit with likelihood='gaussian' without the rows outliers_."
            )

    def _refuse_unknown_targets(self, method: str) -> None:
        """Refuse what weighs training rows without their targets."""
        if isinstance(self._noise_model, StudentNoise):
            raise ValueError(
                f"{method} does not know the targets, and likelihood='student-t' gives rows "
                "weights from the targets: fit with likelihood='gaussian' without the rows "
                "outliers_."
            )

    def _same_noise(self, other: Any) -> bool:
        """Whether the noise of another model of this class varies in the same way."""
        noise = self._noise_model
        return other._noise_model is None if noise is None else noise.same_as(other._noise_model)

    def _quantile_factor(self, q: float) -> float:
        """Quantile of an observation, in standard deviations from the prediction."""
        noise = self._noise_model
        return noise.quantile(q) if isinstance(noise, StudentNoise) else float(ndtri(q))

    def _drawn_jointly(self, X: Any, n_samples: int, rng: Any, include_noise: bool) -> Floats:
        if self._noise_model is None or not include_noise:
            return super()._drawn_jointly(X, n_samples, rng, include_noise)
        return self._observed(X, super()._drawn_jointly(X, n_samples, rng, False), rng)

    def _observed(self, X: Any, values: Floats, rng: Any) -> Floats:
        """Values of functions, with noise of its own distribution added."""
        noise = self._noise_model
        if noise is None:
            return super()._observed(X, values, rng)
        scale, draws = in_double(self.noise_at)(X), rng.standard_normal(values.shape)
        if isinstance(noise, StudentNoise):
            draws = rng.standard_t(noise.degrees, values.shape) / noise.deviation
        values += scale[..., None] * draws
        return values
