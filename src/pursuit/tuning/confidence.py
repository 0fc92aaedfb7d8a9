"""Probabilities of classes from latent functions, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import Bounds, minimize, minimize_scalar
from scipy.special import erf, expit, logsumexp

from pursuit._types import Floats, Indices

# Williams and Barber (1998): the logistic function as a sum of five error functions, with the
# numbers that scikit-learn uses.
_STEEPNESS = np.array([0.41, 0.4, 0.37, 0.44, 0.39])
_PARTS = np.array([-1854.8214151, 3516.89893646, 221.29346712, 128.12323805, -2010.49422654])

_LIMITS = (1e-4, 1e2), (1e-6, 1.0)
"""Of spread and missed."""
_LEAST = 1e-15


def averaged_logistic(mean: Floats, variance: Floats) -> Floats:
    """E[1 / (1 + exp(-f))] for f of these means and variances, to 5e-4.

    With the logistic function as ½ + ½Σ_j c_j erf(λ_j f), the average is
    ½ + ½Σ_j c_j erf(λ_j mean / √(1 + 2λ_j² variance)). Its tails are too thin; the true value lies
    between the logistic function of the mean and ½, and so does what is returned.
    """
    total = np.full(np.shape(mean), 0.5 * _PARTS.sum())
    for steepness, part in zip(_STEEPNESS, _PARTS, strict=True):
        total += 0.5 * part * erf(steepness * mean / np.sqrt(1.0 + 2.0 * steepness**2 * variance))
    plain = expit(mean)
    return np.asarray(np.clip(total, np.minimum(plain, 0.5), np.maximum(plain, 0.5)))


@dataclass(frozen=True)
class Latents:
    """Latent functions at some rows.

    Attributes
    ----------
    mean, variance : arrays of shape (n_rows, n_columns)
        Mean, and the variance that the fit leaves in the span of the basis.
    missed, prior : arrays of shape (n_rows,)
        Variance of the prior outside that span, and all of it.
    """

    mean: Floats
    variance: Floats
    missed: Floats
    prior: Floats

    @property
    def share(self) -> Floats:
        """How much of the prior's variance the basis says nothing about."""
        return self.missed / np.where(self.prior > 0, self.prior, 1.0)


@dataclass(frozen=True)
class Confidence:
    """From latent functions to probabilities.

    A column's log-odds are Gaussian with the latent mean and variance spread·variance +
    factor·missed; their average logistic function is its probability. ``factor`` is ``missed`` for
    rows of which the basis misses no more than it does of those it was judged by, and rises to 1
    where the basis says nothing about a row: there the prior is given back.

    Attributes
    ----------
    spread, missed : float
        As above; both 1 is Laplace's approximation as it stands.
    seen : float
        Largest share of the prior's variance that the basis misses of any row it was judged by.
    log_loss_before, log_loss : float
        Leave-one-out log loss a row, before and after; NaN if not calibrated.
    n_rows : int
        Rows left out in turn.
    """

    spread: float = 1.0
    missed: float = 1.0
    seen: float = 1.0
    log_loss_before: float = np.nan
    log_loss: float = np.nan
    n_rows: int = 0

    def __str__(self) -> str:
        return (
            f"leave-one-out on {self.n_rows} rows: variance times {self.spread:.3g}, missed "
            f"variance times {self.missed:.3g}; log loss {self.log_loss_before:.4g} -> "
            f"{self.log_loss:.4g}"
        )

    def probabilities(self, latents: Latents) -> Floats:
        """Of the classes: two for a single column, one a column brought to a sum of 1 for more."""
        beyond = np.clip((latents.share - self.seen) / max(1.0 - self.seen, 1e-12), 0.0, 1.0)
        factor = self.missed + (1.0 - self.missed) * beyond**2
        outside = (factor * latents.missed)[:, None]
        p = averaged_logistic(latents.mean, self.spread * latents.variance + outside)
        if p.shape[1] == 1:
            return np.hstack([1.0 - p, p])
        total = p.sum(axis=1, keepdims=True)
        even: Floats = np.full_like(p, 1.0 / p.shape[1])
        return np.asarray(np.divide(p, total, out=even, where=total > 0))


def log_loss(probabilities: Floats, labels: Indices, weights: Floats) -> float:
    """Weighted mean of -log p of each row's class."""
    own = probabilities[np.arange(len(labels)), labels]
    return float(np.average(-np.log(np.maximum(own, _LEAST)), weights=weights))


def sloped_loss(mean: Floats, targets: Floats, weights: Floats) -> float:
    """Weighted mean log loss of predictions of ±1 targets, one column a class, at their best slope.

    For predictions μ the probabilities are softmax(aμ), or those of log-odds aμ for a single
    column, with the a that suits them best: how large μ is does not matter.
    """
    if mean.shape[1] == 1:
        mean, targets = np.hstack([-0.5 * mean, 0.5 * mean]), np.hstack([-targets, targets])
    own = mean[np.arange(len(mean)), targets.argmax(axis=1)]

    def loss(log_slope: float) -> float:
        a = np.exp(log_slope)
        return float(np.average(logsumexp(a * mean, axis=1) - a * own, weights=weights))

    return float(minimize_scalar(loss, bounds=(-3.0, 6.0), method="bounded").fun)


def fit_confidence(
    latents: Latents,
    labels: Indices,
    weights: Floats,
    *,
    seen: float,
    missed_too: bool,
) -> Confidence:
    """Choose spread and missed by log loss of rows that had no part in their own latents.

    Without ``missed_too`` the rows have chosen the basis, and do not tell what it misses of others:
    missed variance is then trusted as much as the rest.

    The size of the log-odds is left alone. It could be fitted as well, and would gain a little on
    these rows; where new rows are harder than old ones it costs more than that.
    """
    low, high = np.log(np.array(_LIMITS)[: 2 if missed_too else 1]).T

    def at(point: Floats) -> Confidence:
        spread, *missed = (float(value) for value in np.exp(point))
        return Confidence(spread, missed[0] if missed else min(spread, 1.0), seen)

    def objective(point: Floats) -> float:
        return log_loss(at(point).probabilities(latents), labels, weights)

    starts = np.log([(1.0, 1.0), (0.1, 0.01), (1e-3, 1e-5)])[:, : len(low)]
    found = [
        minimize(
            objective,
            start,
            method="Nelder-Mead",
            bounds=Bounds(low, high),
            options={"maxiter": 200, "xatol": 1e-3, "fatol": 1e-6},
        )
        for start in starts
    ]
    best = min(found, key=lambda result: float(result.fun))
    before = log_loss(Confidence().probabilities(latents), labels, weights)
    return replace(at(best.x), log_loss_before=before, log_loss=float(best.fun), n_rows=len(labels))
