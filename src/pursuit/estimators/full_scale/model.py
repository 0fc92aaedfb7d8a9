"""What full-scale models share: a sparse model, and the training rows beside it."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from dataclasses import replace
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.estimators.full_scale.near_rows import (
    LeavingRows,
    NearRows,
    RowIndex,
    features_stored,
    residual_process,
)
from pursuit.estimators.inputs import (
    NoGradientError,
    dense,
    in_double,
    is_precomputed,
    prediction_rows,
)
from pursuit.estimators.kernel_model import KernelModel
from pursuit.estimators.reporting import ReportedModel
from pursuit.estimators.saving import made_of, saved_parts
from pursuit.gram import ResidualProcess
from pursuit.linalg import Workers
from pursuit.rows import RowSource, as_rows, take_items
from pursuit.tuning import LearningReport

AUTO_NEIGHBORS = 16, 32, 64
FEWEST_JUDGING = 32
NOTHING_MISSED = 1e-9
"""Near rows have nothing to add where the basis leaves at most this share of the variance."""
_MAKING = Lock()
"""Held while a loaded model makes index and features, so that several threads make them once."""
_GLOBAL_SHARE = 0.8
"""What the sparse fit may use of ``max_time``."""


class FullScaleModel(KernelModel, ReportedModel):
    """A sparse model ``global_``, and the rows that may be near to what is predicted."""

    n_basis: int | str
    n_neighbors: int | str
    calibration: str | None
    memory: str
    max_time: float | None
    checkpoint: Any
    dtype: Any
    verbose: int

    global_: Any
    n_neighbors_: int
    calibration_: Any
    coverage_guarantee_: Any
    learning_report_: LearningReport
    _kept: NearRows | None
    _local: Any = None
    """Rows with their index and features: made when they are needed, and never saved."""
    _global_class: ClassVar[type[Any]]
    _shared: ClassVar[tuple[str, ...]]
    """Parameters that the sparse model has as well."""
    _frozen: ClassVar[tuple[str, ...]] = ("memory", "dtype")

    def __sklearn_is_fitted__(self) -> bool:
        return "global_" in vars(self)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_local"}

    def _saved_state(self) -> dict[str, Any]:
        state = super()._saved_state()
        state["_global"] = saved_parts(state.pop("global_"))
        return state

    def _after_loading(self) -> None:
        self.global_ = made_of(self._global_class, vars(self).pop("_global", None))

    def without_neighbors(self) -> Any:
        """The global part alone: a small model that keeps no training rows.

        Returns
        -------
        model : sparse model, like ``global_``
        """
        check_is_fitted(self)
        return copy.copy(self.global_)

    def _refuse_gradient(self, method: str) -> None:
        check_is_fitted(self)
        if self.n_neighbors_ > 0:
            raise NoGradientError(
                f"predictions from {self.n_neighbors_} near rows jump where other rows become the "
                f"nearest, and have no gradient: model.without_neighbors().{method}(X) is about "
                "the global part alone."
            )

    def _mean_gradient(self, X: Any) -> Floats:
        """Gradients of the global part, where it is the whole model."""
        self._refuse_gradient("importance")
        gradient: Floats = self.global_._mean_gradient(X)
        return gradient

    def _query_rows(self, X: Any) -> RowSource:
        """Rows to predict, of the kind that is kept."""
        rows, X = prediction_rows(self, X)
        return rows if isinstance(X, RowSource) else as_rows(self._like_kept(X))

    def _by_basis(self, method: str, X: Any, *args: Any, **options: Any) -> Any:
        """What the basis says, where there are no near rows; errors about rows name this class."""
        try:
            return in_double(getattr(self.global_, method))(X, *args, **options)
        except ValueError:
            prediction_rows(self, X)
            raise

    def _like_kept(self, items: Any) -> Any:
        """Items as an array or as CSR, as the rows that are kept."""
        if self._kept is None or isinstance(items, list):
            return items
        if isinstance(self._kept.items, np.ndarray):
            return dense(items)
        return sparse.csr_array(items)

    def _check_arguments(self) -> None:
        if is_precomputed(self.kernel):
            raise ValueError(
                "kernel='precomputed' does not hold what near rows need: beside k(new rows, "
                "training rows), the matrix k(training rows, training rows) at every prediction. "
                "Pass a callable kernel instead; rows may be numbers that look up your matrix."
            )
        if self.calibration is None and self.n_neighbors == "auto":
            raise ValueError(
                "n_neighbors='auto' is chosen on reserved rows, and calibration=None reserves "
                "none: set n_neighbors to a number, or calibration='loo'."
            )

    def _check_neighbors(self, n_rows: int) -> None:
        if self.n_neighbors != "auto" and int(self.n_neighbors) > n_rows:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is more than the {n_rows} distinct rows of "
                f"positive weight: use at most {n_rows}, or 'auto'."
            )

    def _sizes(self, n_rows: int) -> list[int]:
        """Numbers of near rows to try, of so many distinct rows."""
        if self.n_neighbors == "auto":
            return sorted({min(k, n_rows - 1) for k in AUTO_NEIGHBORS})
        return [int(self.n_neighbors)]

    def _no_near_rows(self, n_rows: int) -> str:
        """Why there are no near rows, whatever reserved rows say; empty if they may be used."""
        if self.n_neighbors == 0:
            return "none: n_neighbors=0 is the sparse model"
        return "none: there is only one distinct row" if n_rows < 2 else ""

    def _tell_memory(self, items: Any) -> None:
        if not self.verbose or self.n_neighbors == 0 or not hasattr(items, "nbytes"):
            return
        n_rows, n_basis = len(items), 2048 if self.n_basis == "auto" else int(self.n_basis)
        features = "features computed on demand"
        if features_stored(self.memory, n_rows, n_basis):
            features = f"up to {4 * n_rows * n_basis / 2**20:,.0f} MiB of features"
        print(
            f"[{type(self).__name__}] keeps {n_rows:,} rows: {items.nbytes / 2**20:,.0f} MiB, and "
            f"{features}",
            flush=True,
        )

    def _fit_global(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit the sparse model; an interrupted fit keeps as much of it as there is."""
        model = self._global_class(**{name: getattr(self, name) for name in self._shared})
        if self.calibration == "conformal":  # rows are aside already
            model.calibration = "loo"
        if self.max_time is not None:
            model.max_time = self.max_time * (1.0 if self.n_neighbors == 0 else _GLOBAL_SHARE)
        if self.checkpoint is not None:
            model.checkpoint = os.path.join(os.fspath(self.checkpoint), "global")
        try:
            model.fit(X, y, sample_weight)
        except KeyboardInterrupt:
            if hasattr(model, "learning_report_"):
                self._keep_global(model)
            raise
        self._keep_global(model)

    def _keep_global(self, model: Any) -> None:
        """The sparse model, for the time being without near rows."""
        self.global_, self.kernel_ = model, model.kernel_
        self.n_neighbors_, self.coverage_guarantee_ = 0, None
        self.calibration_, self.learning_report_ = model.calibration_, model.learning_report_
        self._kept = self._local = None
        self._freeze_parameters()

    def _judging_rows(self, present: Indices, number: Indices) -> Indices:
        """Positions of rows that judge the choices: reserved ones, or rows that are no basis point.

        ``number`` tells identical rows among the present ones.
        """
        if self.calibration is None:
            return np.empty(0, dtype=np.intp)
        reserved: Indices = self.global_._reserved_rows
        if len(reserved):
            return np.searchsorted(present, reserved)
        index = self.global_.basis_indices_
        basis = number[np.searchsorted(present, index[index >= 0])]
        others = np.flatnonzero(~np.isin(number, basis))
        return others if len(others) >= FEWEST_JUDGING else np.empty(0, dtype=np.intp)

    def _judges_of(
        self, items: Any, targets: Floats, weights: Floats, present: Indices, number: Indices
    ) -> LeavingRows:
        """The rows that judge, to be left out with their copies; perhaps none."""
        judging = self._judging_rows(present, number)
        return LeavingRows(
            take_items(items, judging),
            targets[judging],
            weights[judging],
            number[judging],
            with_copies=True,
        )

    def _ready(self, workers: Workers) -> Any:
        """The rows with their index and features."""
        with _MAKING:
            if self._local is None:
                self._local = self._make_local(workers)
            return self._local

    @abstractmethod
    def _make_local(self, workers: Workers) -> Any:
        """What :meth:`_ready` returns, from what the model keeps."""

    def _process(
        self, kept: NearRows, whitener: Floats, noise: float, workers: Workers
    ) -> tuple[ResidualProcess, RowIndex]:
        """What the basis leaves among the rows, with R⁻¹ as ``whitener``, and their index."""
        kernel, points = self._compiled(kept.items), self.global_._points
        process = residual_process(
            kept,
            kernel,
            points,
            whitener,
            workers,
            memory=self._of_fit("memory"),
            dtype=self._of_fit("dtype"),
            noise=noise,
        )
        return process, RowIndex.build(kept, kernel, points, whitener, workers)

    def _complete_report(self, sentence: str, spent: dict[str, float]) -> None:
        """Add near rows to the report of the global part."""
        report, own = self.global_.learning_report_, self.calibration_
        before, after = (getattr(found, "tails", "") for found in (self.global_.calibration_, own))
        notes = [note for note in report.warnings if note != before]
        self.learning_report_ = replace(
            report,
            near_rows=sentence,
            calibration=own,
            warnings=[*notes, after] if after else notes,
            seconds={**report.seconds, **spent},
        )
