"""Principal components and canonical correlations from second moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pursuit._types import Floats

_RANK = 1e-12


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
        One a column, orthonormal; the largest entry of each is positive.
    """

    mean: Floats
    variances: Floats
    directions: Floats

    @classmethod
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

    def scores(self, points: Floats, first: int = 0, last: int | None = None) -> Floats:
        """u'(v - mean) for points v (rows), along some of the directions."""
        return np.asarray((points - self.mean) @ self.directions[:, first:last])


@dataclass(frozen=True)
class CanonicalPairs:
    """Directions a, b in two views whose scores a'(v - v̄) and b'(u - ū) agree best.

    Attributes
    ----------
    left, right : arrays of shape (n, q) and (p, q)
        a and b, one pair a column; scores have unit variance.
    correlations : array of shape (q,)
        Correlations of the scores.
    """

    left: Floats
    right: Floats
    correlations: Floats


def canonical_pairs(
    left: Floats, cross: Floats, right: Floats, ridges: tuple[float, float], n_pairs: int
) -> CanonicalPairs:
    """Regularised canonical correlation analysis from centred covariances (Formulas §9).

    With W_x = (C_xx + ε_x I)^(-½), and W_y alike, the singular vectors of W_x'C_xy W_y give
    a = W_x u and b = W_y v, which are then scaled to unit variance. Directions whose variance is
    rounding are left out, so that ε = 0 is allowed. Fewer pairs than asked for are returned where
    a view has no more directions.
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
    """U(Λ + εI)^(-½) for the eigenvectors U whose eigenvalues Λ stand clear of rounding."""
    values, vectors = np.linalg.eigh(covariance)
    clear = values > _RANK * max(float(values[-1]), 0.0) if len(values) else values > 0
    whitener: Floats = vectors[:, clear] / np.sqrt(values[clear] + ridge)
    return whitener


def _signs(vectors: Floats) -> Floats:
    """±1 for each column, such that its largest entry becomes positive."""
    if not vectors.size:
        return np.ones(vectors.shape[1])
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)[0]
    return np.where(largest < 0, -1.0, 1.0)
