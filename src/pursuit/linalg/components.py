"""Principal components and canonical correlations from second moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pursuit import limits
from pursuit._types import Floats
from pursuit.linalg.workers import single_threaded_blas


@dataclass(frozen=True)
class PrincipalComponents:
    """Directions of largest variance of weighted points v in R^n.

    Attributes
    ----------
    mean : array of shape (n,)
        Where the directions start: Σwv/Σw, or 0 when not centred.
    variances : array of shape (n,)
        Σw(u'(v - mean))²/Σw along each direction u, largest first.
    directions : array of shape (n, n)
        One per column, orthonormal; the largest entry of each is positive.
    """

    mean: Floats
    variances: Floats
    directions: Floats

    @classmethod
    @single_threaded_blas()
    def from_moments(
        cls, gram: Floats, sums: Floats, weight: float, *, center: bool
    ) -> PrincipalComponents:
        """From Σwvv', Σwv and Σw."""
        mean = sums / weight if center else np.zeros(len(sums))
        covariance = gram / weight
        covariance -= np.outer(mean, mean)
        values, vectors = np.linalg.eigh(covariance)
        directions = vectors[:, ::-1] * _signs(vectors[:, ::-1])
        return cls(mean, np.maximum(values[::-1], 0.0), directions)

    @single_threaded_blas()
    def scores(self, points: Floats, first: int = 0, last: int | None = None) -> Floats:
        """u'(v - mean) for points v (rows), along some of the directions."""
        return np.asarray((points - self.mean) @ self.directions[:, first:last])


@dataclass(frozen=True)
class CanonicalPairs:
    """Directions a, b in two views whose scores a'(v - v̄) and b'(u - ū) agree best.

    Attributes
    ----------
    left, right : arrays of shape (n, q) and (p, q)
        a and b, one pair per column; scores have unit variance.
    correlations : array of shape (q,)
        Correlations of the scores.
    """

    left: Floats
    right: Floats
    correlations: Floats


@single_threaded_blas()
def canonical_pairs(
    left: Floats, cross: Floats, right: Floats, ridges: tuple[float, float], n_pairs: int
) -> CanonicalPairs:
    """Regularised canonical correlation analysis from centred covariances (Formulas §9).

    With W_x = (C_xx + ε_x I)^(-½), and W_y alike, the singular vectors of W_x'C_xy W_y give
    a = W_x u and b = W_y v, which are then scaled to unit variance. Directions whose variance is
    rounding are left out, so ε = 0 is allowed. If a view has fewer than ``n_pairs`` directions,
    fewer pairs are returned.
    """
    W_x, W_y = _whitener(left, ridges[0]), _whitener(right, ridges[1])
    U, strengths, V = np.linalg.svd(W_x.T @ cross @ W_y, full_matrices=False)
    q = min(n_pairs, len(strengths))
    signs = _signs(U[:, :q])
    a, b = W_x @ (U[:, :q] * signs), W_y @ (V[:q].T * signs)
    a = a / np.sqrt(np.einsum("ij,ik,kj->j", a, left, a))
    b = b / np.sqrt(np.einsum("ij,ik,kj->j", b, right, b))
    correlations = np.clip(np.einsum("ij,ik,kj->j", a, cross, b), -1.0, 1.0)
    return CanonicalPairs(a, b, correlations)


def _whitener(covariance: Floats, ridge: float) -> Floats:
    """U(Λ + εI)^(-½) for the eigenvectors U whose eigenvalues Λ do not count as zero."""
    values, vectors = np.linalg.eigh(covariance)
    largest = max(float(values.max(initial=0.0)), 0.0)
    positive = values > limits.PIVOT_TOLERANCE * largest
    whitener: Floats = vectors[:, positive] / np.sqrt(values[positive] + ridge)
    return whitener


def _signs(vectors: Floats) -> Floats:
    """±1 per column, by which its largest entry becomes positive."""
    if not vectors.size:
        return np.ones(vectors.shape[1])
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)[0]
    return np.where(largest < 0, -1.0, 1.0)
