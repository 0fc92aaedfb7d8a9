"""Exact log evidence of a Gaussian process on a subset of rows, with its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.kernels import ScaledGradient, compile_kernel, kernel_gradient
from pursuit.linalg import Workers, invert_spd

_CHUNK = 128


@dataclass(frozen=True)
class Evidence:
    """log N(y; 0, K + σ²W⁻¹), summed over outputs, as a function of kernel and noise.

    A weight w counts as w copies of its row: -½(w - 1) log 2πσ² is added for each.

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
    """

    X: Floats
    y: Floats
    weights: Floats
    workers: Workers

    def value_and_gradient(self, kernel: Any, noise: float) -> tuple[float, Floats] | None:
        """Value, and gradient with respect to the kernel's θ and log σ²; None if it has none.

        With C = K + σ²W⁻¹ and a = C⁻¹y, ∂/∂C = ½(aa' - C⁻¹); W below is that matrix. Three
        matrices of the subset's size are held at most, none of them times the features.
        """
        kernel_of, gradient = compile_kernel(kernel)[0], kernel_gradient(kernel)
        assert gradient is not None
        # All is symmetric: what lies above the diagonal blocks is never formed. The longest first.
        chunks = Workers.slices(len(self.X), _CHUNK)[::-1]
        C = np.zeros((len(self.X), len(self.X)))

        def fill(rows: slice) -> None:
            C[rows, : rows.stop] = kernel_of.tile(self.X[rows], self.X[: rows.stop])

        self.workers.map(fill, chunks)
        diagonal = np.diag_indices_from(C)
        C[diagonal] += noise / self.weights
        inverted = invert_spd(C, self.workers)
        if inverted is None:
            return None
        inverse, log_determinant = inverted
        a = inverse @ self.y
        n, outputs = self.y.shape
        copies = float(self.weights.sum()) - n
        logs = log_determinant + copies * np.log(noise) + (n + copies) * np.log(2.0 * np.pi)
        value = -0.5 * (float(np.vdot(self.y, a)) + outputs * logs)
        noise_slope = 0.5 * float(
            (((a**2).sum(axis=1) - outputs * inverse[diagonal]) / self.weights).sum()
        )

        theta = gradient.inner_theta if isinstance(gradient, ScaledGradient) else gradient.theta

        def contract(rows: slice) -> Floats:
            W = a[rows] @ a[: rows.stop].T
            W -= outputs * inverse[rows, : rows.stop]
            W[:, rows] *= 0.5  # the other blocks stand for their mirror images too
            return theta(self.X[rows], self.X[: rows.stop], W)

        slopes = np.sum(self.workers.map(contract, chunks), axis=0)
        if isinstance(gradient, ScaledGradient):
            # ΣW∘C = ½(a'Ca - tr C⁻¹C) is known, so the constant's own entry costs no tile.
            total = 0.5 * (float(np.vdot(self.y, a)) - outputs * n)
            slopes = gradient.join(total - noise * noise_slope, slopes)
        return value, np.append(slopes, noise * noise_slope - 0.5 * outputs * copies)
