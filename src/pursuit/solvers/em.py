"""Gaussian mixtures: densities, and the steps of expectation maximisation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pursuit._types import Floats, Indices

KINDS = ("full", "diag", "spherical")
_LOG_2PI = float(np.log(2.0 * np.pi))
_WIDE = 16
"""Up to this many features, products of pairs of features are formed once for all components."""


@dataclass(frozen=True)
class Mixture:
    """Σ_k a_k N(μ_k, Σ_k).

    Attributes
    ----------
    weights : array of shape (k,)
        a, summing to one.
    means : array of shape (k, d)
        μ.
    factors : array of shape (k, d, d), (k, d) or (k,)
        Lower Cholesky factors of full covariances; standard deviations of diagonal or spherical
        ones.
    kind : {"full", "diag", "spherical"}
        Kind of covariances.
    """

    weights: Floats
    means: Floats
    factors: Floats
    kind: str

    @property
    def size(self) -> int:
        """Number of components."""
        return len(self.weights)

    @property
    def n_parameters(self) -> int:
        """Free parameters: weights, means and covariances."""
        k, d = self.means.shape
        spread = {"full": d * (d + 1) // 2, "diag": d, "spherical": 1}[self.kind]
        return int(k - 1 + k * (d + spread))

    def log_joint(self, X: Floats) -> Floats:
        """ln a_k + ln N(x; μ_k, Σ_k), shape (rows, k)."""
        with np.errstate(divide="ignore"):
            return log_densities(X, self.means, self.factors, self.kind) + np.log(self.weights)

    def log_density(self, X: Floats) -> Floats:
        """ln Σ_k a_k N(x; μ_k, Σ_k)."""
        return log_sum_exp(self.log_joint(X))

    def covariances(self) -> Floats:
        """Σ_k, in the shape of scikit-learn's mixtures."""
        if self.kind == "full":
            return np.asarray(self.factors @ self.factors.transpose(0, 2, 1))
        return np.asarray(self.factors**2)

    def with_component(self, weight: float, mean: Floats, factor: Floats) -> Mixture:
        """(1 - a) times this mixture, and a times one more component."""
        return replace(
            self,
            weights=np.append((1.0 - weight) * self.weights, weight),
            means=np.vstack([self.means, mean]),
            factors=np.concatenate([self.factors, np.asarray(factor)[None]]),
        )

    def without(self, component: int) -> Mixture:
        """The mixture of the other components."""
        others = self.part(np.flatnonzero(np.arange(self.size) != component))
        return replace(others, weights=others.weights / others.weights.sum())

    def part(self, components: Indices) -> Mixture:
        """Some components, their weights as they are."""
        return Mixture(
            self.weights[components], self.means[components], self.factors[components], self.kind
        )

    def rescaled(self, scale: Floats, shift: Floats) -> Mixture:
        """The mixture of scale * x + shift."""
        if self.kind == "full":
            factors = self.factors * scale[:, None]
        elif self.kind == "diag":
            factors = self.factors * scale
        else:
            factors = self.factors * scale[0]
        return replace(self, means=self.means * scale + shift, factors=factors)


def log_sum_exp(joint: Floats) -> Floats:
    """ln Σ_k exp of each row."""
    return _normalised(joint)[1]


def _normalised(joint: Floats) -> tuple[Floats, Floats]:
    """Each row's exp over the sum of its exps, and ln of that sum."""
    largest = joint.max(axis=1)
    scaled = np.exp(joint - largest[:, None])
    total = scaled @ np.ones(joint.shape[1])
    scaled /= total[:, None]
    return scaled, np.asarray(largest + np.log(total))


def log_densities(X: Floats, means: Floats, factors: Floats, kind: str) -> Floats:
    """ln N(x; μ_k, Σ_k), shape (rows, k), with the rows next to each other in memory.

    Sums over a short last axis would be slow.
    """
    k, d = means.shape
    if kind == "full":
        whiten = np.linalg.inv(factors)
        centre = np.einsum("kij,kj->ki", whiten, means).ravel()
        white = whiten.reshape(k * d, d) @ X.T
        white -= centre[:, None]
        log_volume = np.log(np.einsum("kii->ki", factors)).sum(axis=1)
    else:
        deviations = factors if kind == "diag" else np.repeat(factors[:, None], d, axis=1)
        white = ((X.T - means[:, :, None]) / deviations[:, :, None]).reshape(k * d, len(X))
        log_volume = np.log(deviations).sum(axis=1)
    white *= white
    squares = white.reshape(k, d, len(X)).sum(axis=1)
    squares *= -0.5
    squares -= (log_volume + 0.5 * d * _LOG_2PI)[:, None]
    return np.asarray(squares.T)


class EM:
    """Expectation maximisation on weighted rows.

    Parameters
    ----------
    X : array of shape (n_rows, d)
        Rows, centred and of unit scale.
    weights : array of shape (n_rows,)
        Weights ω that sum to one.
    kind : {"full", "diag", "spherical"}
        Covariances.
    floor : float
        Variance added to every direction of every component, so that the likelihood is bounded.
    row : float, optional
        Weight of a single row; the mean of the weights by default.
    """

    def __init__(
        self, X: Floats, weights: Floats, kind: str, floor: float, row: float | None = None
    ) -> None:
        self.X, self.weights, self.kind, self.floor = X, weights, kind, floor
        self.row = 1.0 / len(X) if row is None else row
        m, d = X.shape
        self._pairs = (
            (X[:, :, None] * X[:, None, :]).reshape(m, d * d)
            if kind == "full" and d <= _WIDE
            else None
        )

    @property
    def least_share(self) -> float:
        """Least weight of a new component: twice the rows that a full covariance needs.

        A few rows that happen to lie close to a plane could have almost any likelihood.
        """
        return float(2 * (1 + self.X.shape[1]) * self.row)

    def single(self) -> Mixture:
        """The one Gaussian that fits best."""
        mean, factor = self._component(self.weights)
        return Mixture(np.ones(1), mean[None], np.asarray(factor)[None], self.kind)

    def run(self, mixture: Mixture, steps: int, tolerance: float) -> tuple[Mixture, float]:
        """At most ``steps`` steps on all components, until one gains less than the tolerance.

        Components with less than the weight of a row are dropped. Returns the mixture and the mean
        log likelihood before its last step.
        """
        before = -np.inf
        for _ in range(steps):
            joint = mixture.log_joint(self.X)
            shares, density = _normalised(joint)
            value = float(self.weights @ density)
            if value - before < tolerance:
                break
            before = value
            shares *= self.weights[:, None]
            mixture = self._maximise(shares)
        return mixture, before

    def grow(self, density: Floats, starts: Mixture, steps: int) -> tuple[Mixture, Indices, Floats]:
        """Steps on new components, each of them alone beside the old mixture, given by ln density.

        The weight of a new component is that beside the old mixture. Returns the new components
        that kept the least weight, their numbers in ``starts``, and the mean log likelihood with
        each of them.
        """
        grown, fed = starts, np.arange(starts.size)
        for _ in range(steps):
            old = density[:, None] + np.log1p(-grown.weights)
            # Where the old are e^700 times as dense, the share is 0 to all digits.
            odds = np.exp(np.minimum(old - grown.log_joint(self.X), 700.0))
            shares = self.weights[:, None] / (1.0 + odds)
            alive = shares.sum(axis=0) >= self.least_share
            fed, shares = fed[alive], shares[:, alive]
            if not len(fed):
                return grown.part(fed), fed, np.empty(0)
            grown = self._components(shares)
            grown = replace(grown, weights=np.minimum(grown.weights, 0.9))
        old = density[:, None] + np.log1p(-grown.weights)
        return grown, fed, self.weights @ np.logaddexp(old, grown.log_joint(self.X))

    def _component(self, shares: Floats) -> tuple[Floats, Floats]:
        """Mean and factor of a component to which the rows belong with these shares."""
        mass = float(shares.sum())
        mean = shares @ self.X / mass
        centred = self.X - mean
        if self.kind == "full":
            covariance = (shares[:, None] * centred).T @ centred / mass
            covariance[np.diag_indices_from(covariance)] += self.floor
            return mean, np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        variances = shares @ centred**2 / mass + self.floor
        if self.kind == "diag":
            return mean, np.sqrt(variances)
        return mean, np.sqrt(variances.mean())

    def _maximise(self, shares: Floats) -> Mixture:
        """Components to which the rows belong with these shares, without empty components."""
        mass = shares.sum(axis=0)
        alive = mass >= self.row
        if not alive.all():
            shares, mass = shares[:, alive], mass[alive]
        return replace(self._components(shares), weights=mass / mass.sum())

    def _components(self, shares: Floats) -> Mixture:
        """Components to which the rows belong with these shares, whose sums are the weights."""
        mass = shares.sum(axis=0)
        means = shares.T @ self.X / mass[:, None]
        if self._pairs is not None:
            k, d = means.shape
            second = (shares.T @ self._pairs).reshape(k, d, d) / mass[:, None, None]
            second -= means[:, :, None] * means[:, None, :]
            second[:, np.arange(d), np.arange(d)] += self.floor
            factors = self._factors(second, shares)
        else:
            factors = np.array([self._component(column)[1] for column in shares.T])
        return Mixture(mass, means, factors, self.kind)

    def _factors(self, covariances: Floats, shares: Floats) -> Floats:
        """Cholesky factors, from centred sums where differences of squares lost their digits."""
        try:
            return np.asarray(np.linalg.cholesky(covariances), dtype=np.float64)
        except np.linalg.LinAlgError:
            return np.array([self._component(column)[1] for column in shares.T])
