"""Exact log evidence of a Gaussian process on a subset of rows, and the noise that maximises it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dtrtrs, strtrs
from scipy.optimize import minimize_scalar

from pursuit._types import Floats, Indices
from pursuit.greedy import kernel_matrix
from pursuit.kernels import Kernel, ScaledKernel, kernel_gradient
from pursuit.linalg import Workers, invert_spd, panel_cholesky
from pursuit.rows import OutputGroup, Sample, draw_rows, has_gaps, output_groups

_CHUNK = 128

Tile: TypeAlias = NDArray[Any]
"""A matrix of float64 or float32."""

Contraction: TypeAlias = Callable[[Floats, Tile, float], Floats]
"""A function of a, C⁻¹ and ΣW∘K that returns the slopes of the evidence by θ."""

EVIDENCE_ROWS = 1000
"""Rows of the subset. More: a better estimate, at O(rows³)."""
_SINGLE_ERROR = 3e-5
"""Error of the evidence per value up to which float32 serves. Smaller: float64 for more kernels."""
NOISE_FLOOR = 1e-4
"""Smallest learned noise, as a part of the targets' mean square."""


@dataclass(frozen=True)
class Evidence:
    """log N(y; 0, K + σ²W⁻¹), summed over outputs, as a function of kernel and noise.

    A weight w counts as w copies of its row: -½(w - 1) log 2πσ² is added for each row.

    Attributes
    ----------
    X : array of shape (s, n_features)
        Rows of the subset.
    y : array of shape (s, n_outputs)
        Targets.
    weights : array of shape (s,)
        w.
    workers : Workers
        Threads.
    groups : list of OutputGroup, optional
        Outputs and the rows where they were observed; y is 0 where it was not. None if there are no
        gaps.
    drawn : bool
        Whether the rows are some of many, so that small differences of the evidence mean nothing.
    """

    X: Floats
    y: Floats
    weights: Floats
    workers: Workers
    groups: list[OutputGroup] | None = None
    drawn: bool = False

    @classmethod
    def of(
        cls, X: Floats, targets: Floats, weights: Floats, workers: Workers, drawn: bool = False
    ) -> Evidence:
        """From targets that are NaN where they were not observed."""
        if not has_gaps(targets):
            return cls(X, targets, weights, workers, drawn=drawn)
        groups = [group for group in output_groups(targets) if len(group.rows)]
        return cls(X, np.nan_to_num(targets), weights, workers, groups, drawn)

    def take(self, rows: Indices | slice) -> Evidence:
        """The evidence of some of the rows."""
        targets = self.y
        for group in self.groups or []:
            absent = np.setdiff1d(np.arange(len(targets)), group.rows)
            targets = targets.copy()
            targets[np.ix_(absent, group.columns)] = np.nan
        return Evidence.of(
            self.X[rows], targets[rows], self.weights[rows], self.workers, self.drawn
        )

    @property
    def n_values(self) -> float:
        """Σw over all observed values."""
        if self.groups is None:
            return float(self.weights.sum() * self.y.shape[1])
        sums = [len(group.columns) * self.weights[group.rows].sum() for group in self.groups]
        return float(np.sum(sums))

    def parts(self) -> list[Evidence]:
        """The evidence of each group of outputs, without gaps."""
        if self.groups is None:
            return [self]
        return [
            Evidence(
                self.X[group.rows],
                self.y[np.ix_(group.rows, group.columns)],
                self.weights[group.rows],
                self.workers,
            )
            for group in self.groups
        ]

    def value(
        self, kernel: Any, noise: float, dtype: type[np.floating[Any]] = np.float64
    ) -> float | None:
        """The value alone, for a third of the time; None if C is singular.

        With ``dtype`` float32 None is also returned where its rounding may show.
        """
        total = 0.0
        for part in self.parts():
            found = part._value_of_all_rows(kernel, noise, dtype)
            if found is None:
                return None
            total += found
        return total

    def value_and_gradient(
        self, kernel: Any, noise: float, dtype: type[np.floating[Any]] = np.float64
    ) -> tuple[float, Floats] | None:
        """Value, and gradient with respect to the kernel's θ and log σ²; None if C is singular.

        With ``dtype`` float32 matrices are in it, for less than half of the time, and None is also
        returned where its rounding may show (:func:`single_error`). Groups of outputs that were
        observed at other rows have matrices of their own.
        """
        found = self._added_up(kernel, noise, dtype, informed=False)
        return None if found is None else found[:2]

    def with_information(
        self, kernel: Any, noise: float, dtype: type[np.floating[Any]] = np.float64
    ) -> tuple[float, Floats, Floats] | None:
        """The same, and the average information: positive semi-definite, in place of -∂²/∂θ².

        With C_i = ∂C/∂θ_i it is ½ a'C_i C⁻¹ C_j a, about the mean of the observed and the expected
        information (Gilmour, Thompson and Cullis, 1995): the second derivatives of C and all traces
        cancel. It takes a few products with vectors.
        """
        return self._added_up(kernel, noise, dtype, informed=True)

    @staticmethod
    def knows_information(kernel: Any) -> bool:
        """Whether the kernel is a constant times one whose length scales are free."""
        node = kernel_gradient(kernel)
        return isinstance(node, ScaledKernel) and node.has_theta_times

    def _added_up(
        self, kernel: Any, noise: float, dtype: type[np.floating[Any]], *, informed: bool
    ) -> tuple[float, Floats, Floats] | None:
        """Value, gradient and, if wanted, information, added up over all parts."""
        total, slopes, information = 0.0, np.zeros(1), np.zeros((1, 1))
        for part in self.parts():
            found = part._of_all_rows(kernel, noise, dtype, informed)
            if found is None:
                return None
            total, slopes, information = (
                total + found[0],
                slopes + found[1],
                information + found[2],
            )
        return total, slopes, information

    def _of_all_rows(
        self, kernel: Any, noise: float, dtype: type[np.floating[Any]], informed: bool
    ) -> tuple[float, Floats, Floats] | None:
        """Value, gradient and, if wanted, information; None if C is singular.

        With C = K + σ²W⁻¹ and a = C⁻¹y, ∂/∂C = ½(aa' - C⁻¹); W below is that matrix. At most three
        matrices of the size of the subset are in memory, and the derivatives of a kernel that is
        called.
        """
        C, contract = self._covariance(kernel, noise, dtype)
        variances = np.diag(C).astype(np.float64)
        inverted = invert_spd(C, self.workers)
        if inverted is None:
            return None
        inverse, log_determinant = inverted
        a = np.asarray(inverse @ self.y.astype(dtype), dtype=np.float64)
        precisions = np.diag(inverse).astype(np.float64)
        n, outputs = self.y.shape
        if dtype is np.float32 and single_error(variances, precisions, a) > _SINGLE_ERROR:
            return None
        copies = float(self.weights.sum()) - n
        fit = float(np.vdot(self.y, a))
        value = self._log_density(fit, log_determinant, noise)
        noise_slopes = ((a**2).sum(axis=1) - outputs * precisions) / self.weights
        noise_slope = 0.5 * noise * float(noise_slopes.sum())
        # ΣW∘C = ½(a'Ca - tr C⁻¹C), so ΣW∘K is known without a tile.
        slopes = contract(a, inverse, 0.5 * (fit - outputs * n) - noise_slope)
        slopes = np.append(slopes, noise_slope - 0.5 * outputs * copies)
        information = self._information(kernel, noise, a, inverse) if informed else np.zeros((1, 1))
        return value, slopes, information

    def _information(self, kernel: Any, noise: float, a: Floats, inverse: Tile) -> Floats:
        """The average information; weights above 1 add what their copies know of the noise."""
        node = kernel_gradient(kernel)
        assert isinstance(node, ScaledKernel)
        chunks = Workers.slices(len(self.X), _CHUNK)
        copies = max(0.0, float(self.weights.sum()) - len(self.X))
        total = np.zeros((len(kernel.theta) + 1,) * 2)
        total[-1, -1] = 0.5 * copies * a.shape[1]
        thin, by_noise = a.astype(inverse.dtype), noise * a / self.weights[:, None]

        def products(rows: slice) -> Floats:
            return np.stack([node.inner_theta_times(self.X[rows], self.X, v) for v in thin.T])

        inner = np.concatenate(self.workers.map(products, chunks), axis=1)
        # C a = y, so that K a is known without a tile.
        for own, scales, last in zip((self.y - by_noise).T, inner, by_noise.T, strict=True):
            Q = np.column_stack([node.join(own, scales), last])
            total += 0.5 * (Q.T @ np.asarray(inverse @ Q.astype(inverse.dtype)))
        return total

    def _value_of_all_rows(
        self, kernel: Any, noise: float, dtype: type[np.floating[Any]]
    ) -> float | None:
        """Value for rows without gaps."""
        C, _ = self._covariance(kernel, noise, dtype)
        variances = np.diag(C).astype(np.float64)
        if panel_cholesky(C, self.workers) is None:
            return None
        solve = strtrs if dtype is np.float32 else dtrtrs
        white = np.asarray(solve(C.T, self.y.astype(dtype), lower=0, trans=1)[0], np.float64)
        fit = float(np.vdot(white, white))
        if dtype is np.float32:
            # What `single_error` says at most: C⁻¹ ≤ W/σ², and a'a ≤ y'C⁻¹y times the largest w/σ².
            n, outputs = self.y.shape
            largest = float(variances.max() * self.weights.max()) / noise
            unit = 0.25 * float(np.finfo(np.float32).eps)
            if unit * largest * (1.0 + fit / (n * outputs)) > _SINGLE_ERROR:
                return None
        log_determinant = 2.0 * float(np.log(np.diag(C), dtype=np.float64).sum())
        return self._log_density(fit, log_determinant, noise)

    def _covariance(
        self, kernel: Any, noise: float, dtype: type[np.floating[Any]]
    ) -> tuple[Tile, Contraction]:
        """C = K + σ²W⁻¹ on and below the diagonal, and the function that gives slopes."""
        node = kernel_gradient(kernel)
        assert node is not None
        fill = self._in_chunks if node.in_blocks else self._at_once
        C, contract = fill(node, dtype)
        C[np.diag_indices_from(C)] += noise / self.weights
        return C, contract

    def _log_density(self, fit: float, log_determinant: float, noise: float) -> float:
        """Log density from y'C⁻¹y and log|C|."""
        n, outputs = self.y.shape
        copies = float(self.weights.sum()) - n
        logs = log_determinant + copies * np.log(noise) + (n + copies) * np.log(2.0 * np.pi)
        return float(-0.5 * (fit + outputs * logs))

    def _in_chunks(self, node: Kernel, dtype: type[np.floating[Any]]) -> tuple[Tile, Contraction]:
        """Return K, its blocks above the diagonal left out, and the function that gives slopes."""
        # Longest rows first.
        chunks = Workers.slices(len(self.X), _CHUNK)[::-1]
        tiles = node.simplified()
        K = np.zeros((len(self.X), len(self.X)), dtype)

        def fill(rows: slice) -> None:
            K[rows, : rows.stop] = tiles.columns(self.X[: rows.stop], dtype)(self.X[rows])

        self.workers.map(fill, chunks)
        theta = node.inner_theta if isinstance(node, ScaledKernel) else node.theta

        def contract(a: Floats, inverse: Tile, total: float) -> Floats:
            a = a.astype(dtype)

            def chunk(rows: slice) -> Floats:
                W = a[rows] @ a[: rows.stop].T
                W -= self.y.shape[1] * inverse[rows, : rows.stop]
                W[:, rows] *= 0.5  # the other blocks stand for their mirror images too
                return np.asarray(theta(self.X[rows], self.X[: rows.stop], W), dtype=np.float64)

            slopes: Floats = np.sum(self.workers.map(chunk, chunks), axis=0)
            return node.join(total, slopes) if isinstance(node, ScaledKernel) else slopes

        return K, contract

    def _at_once(self, node: Kernel, dtype: type[np.floating[Any]]) -> tuple[Tile, Contraction]:
        """Return K and the function that gives slopes, from one call of a kernel that is called."""
        values, pullback = node.evaluated(self.X)

        def contract(a: Floats, inverse: Tile, total: float) -> Floats:
            W = a @ a.T
            W -= self.y.shape[1] * inverse
            W *= 0.5
            return pullback(W)

        return np.array(values, dtype=dtype), contract


def single_error(variances: Floats, precisions: Floats, a: Floats) -> float:
    """Estimated error per value of an evidence whose matrices are in float32.

    A change E of C changes the evidence by ½ tr((aa' - C⁻¹)E) for each output, and rounding is like
    a change of every C_ii by a rounding error of its own: ½u Σ C_ii (Σa_i² + q (C⁻¹)_ii) for q
    outputs. ``variances`` and ``precisions`` are the diagonals of C and C⁻¹.
    """
    n, outputs = a.shape
    moved = variances @ ((a**2).sum(axis=1) + outputs * precisions)
    return float(0.25 * np.finfo(np.float32).eps * moved / (n * outputs))


def learn_noise(
    sample: Sample,
    kernel: Kernel,
    *,
    rng: np.random.Generator,
    workers: Workers,
    all_rows_up_to: int,
) -> float:
    """Maximise the exact log evidence over σ² on a subset of the rows.

    With Λ, U the eigenpairs of W^½KW^½ and c = U'W^½y, the log evidence is, up to a constant,

        -½ Σ_o Σ_i c_io²/(λ_i + σ²) - ½ n_outputs (Σ_i log(λ_i + σ²) + (Σw - m) log σ²),

    so one eigendecomposition serves all σ². The last term makes a weight w count as w copies.
    """
    size = sample.n_rows if sample.n_rows <= all_rows_up_to else EVIDENCE_ROWS
    subset = sample.take(draw_rows(sample.n_rows, size, rng))
    parts = [subset]
    if has_gaps(subset.targets):
        parts = [group.of(subset) for group in output_groups(subset.targets) if len(group.rows)]
    spectra = [_spectrum(part, kernel, workers) for part in parts]
    power = sample.target_power()
    scale = power if power > 0 else float(spectra[0][0].mean()) or 1.0

    def negative_evidence(log_noise: float) -> float:
        total = 0.0
        for part, (eigenvalues, squares) in zip(parts, spectra, strict=True):
            spectrum = eigenvalues + np.exp(log_noise)
            copies = (part.weights.sum() - part.n_rows) * log_noise
            logs = np.log(spectrum).sum() + copies
            total += float((squares / spectrum).sum() + part.n_outputs * logs)
        return total

    low, high = np.log(NOISE_FLOOR * scale), np.log(10.0 * scale)
    grid = np.linspace(low, high, 25)
    best = int(np.argmin([negative_evidence(point) for point in grid]))
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    result = minimize_scalar(negative_evidence, bounds=bracket, method="bounded")
    return float(np.exp(result.x))


def _spectrum(sample: Sample, kernel: Kernel, workers: Workers) -> tuple[Floats, Floats]:
    """Λ, and Σ_o c_io² for each of them."""
    root = np.sqrt(sample.weights)
    items = sample.rows.take(np.arange(sample.n_rows))
    K = kernel_matrix(kernel, items, workers) * np.outer(root, root)
    eigenvalues, U = eigh(K, overwrite_a=True, check_finite=False)
    squares = ((U.T @ (root[:, None] * sample.targets)) ** 2).sum(axis=1)
    return np.maximum(eigenvalues, 0.0), squares
