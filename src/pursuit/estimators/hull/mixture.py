"""Mixture density estimation that finds the number of components as it goes (Z02 §4.3)."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, DensityMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, Certificate, hull_rate_bound
from pursuit.estimators.constraints import EXECUTION
from pursuit.estimators.fit_run import warn
from pursuit.estimators.hull.mixture_atoms import GaussianAtoms
from pursuit.estimators.hull.mixturegrowth import (
    CandidateAtoms,
    GrowthStop,
    MixtureGrowth,
    pruned,
    settled,
)
from pursuit.estimators.inputs import seeded, validate_held, validate_weights
from pursuit.estimators.lazily import lazily
from pursuit.estimators.saving import SavedModel
from pursuit.estimators.sources import named_columns
from pursuit.greedy import Interrupted, Meter, Path, Pursuit, catch_interrupt
from pursuit.linalg import Workers
from pursuit.rows import draw_rows
from pursuit.solvers import EM, Mixture

AUTO_BANDWIDTHS = 0.5, 0.25, 0.125, 0.0625
_CENTRES = 5000
"""Rows at which atoms are looked for at a step: all of fewer, a new draw of as many of more."""
_CERTIFIED_CENTRES = 50_000
"""Rows at which the hull of the certificate has its atoms: all of fewer, a draw of more."""
_STEPS_PER_TERM = 10
"""Steps without refinement may take an atom again: at most this many times ``n_terms``."""


class HullMixture(DensityMixin, SavedModel, BaseEstimator):
    """Gaussian mixture that starts with one component and adds what raises the likelihood most.

    Atoms are Gaussians centred at training rows, of several bandwidths. At every step the atom p
    whose mixture (1 - α)v + αp has the largest likelihood, α in [0, 1] being the best for each, is
    refined by EM, taken, and followed by a few EM steps on all components; the number of
    components need not be known. Up to 5,000 rows the search is over the atoms at all rows; of more
    rows, each step looks at 5,000 drawn anew.

    With ``refine=False`` components stay as they are, and only their weights change: the greedy
    algorithm as published, with its rate.

    Parameters
    ----------
    bandwidths : "auto" or array, default "auto"
        Standard deviations of the atoms, as parts of those of the features (of all features
        together for spherical covariances). ``"auto"``: .5, .25, .125 and .0625.
    covariance_type : {"full", "diag", "spherical"}, default "full"
        Covariances of the components.
    refine : bool, default True
        Whether EM moves the components. An atom must then hold at least 2(n_features + 1) rows, and
        components that make the criterion worse are left out in the end.
    n_terms : int, default 100
        Most components.
    criterion : {"bic", "validation", "certificate"}, default "bic"
        When to stop: when the Bayesian information criterion, or the likelihood of a fifth of the
        rows left out, has not improved for ``patience`` components, and the best number is taken;
        or when the certificate's ``relative_gap`` is at most ``tol``.
    patience : int, default 5
        Steps without improvement. Without refinement the certificate's gap, which need not fall at
        every step, has no such limit.
    tol : float, default 0.01
        For ``criterion="certificate"``.
    reg_covar : float, default 1e-6
        Least variance of a component in any direction, as a part of the mean variance of the
        data: it keeps likelihoods bounded where points coincide.
    n_jobs : int or None, default None
        Threads of matrix products; the result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of the rows left out, of what is drawn from more than 5,000 rows, and of
        :meth:`sample`.
    verbose : int, default 0
        Print what was found.

    Attributes
    ----------
    n_terms_ : int
        Number of components.
    weights_ : array of shape (n_terms,)
        Their weights.
    means_ : array of shape (n_terms, n_features)
        Their means.
    covariances_ : array
        Their covariances, in the shape of scikit-learn's `GaussianMixture`.
    path_ : Path
        Negative mean log density after each insertion, the row of the best atom there, and why it
        ended.
    criterion_path_ : array
        Criterion, per row, with 1, 2, … components.
    certificate_ : Certificate
        ``upper`` is -mean ln v of the training rows, which is ``-score(X)``. ``lower`` bounds from
        below what any mixture of *fixed* atoms at the training rows reaches (at 50,000 rows, drawn,
        of more). A mixture refined by EM is none of these: where it is better than all of them,
        ``lower`` is above ``upper``, and the gap is 0.
    rate_bound_ : Bound or None
        What Theorem 3.1 of Z02 promises for each step; None with refinement, and beyond 5,000 rows,
        where a step does not look at all atoms. Its M is the largest mean of p²/q² over pairs of
        atoms, often so large that the bound is vacuous, which it says.
    n_features_in_ : int
        Number of features.

    References
    ----------
    T. Zhang. A general greedy approximation algorithm with applications. NIPS 14, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import HullMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 0.5, size=(200, 2)), rng.normal(3, 1.0, size=(300, 2))])
    >>> model = HullMixture(random_state=0).fit(X)
    >>> model.n_terms_
    2
    >>> published = HullMixture(refine=False, criterion="certificate", tol=0.2).fit(X)
    >>> bool(np.isclose(published.certificate_.upper, -published.score(X)))
    True
    >>> published.certificate_.relative_gap <= 0.2
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "bandwidths": [StrOptions({"auto"}), "array-like"],
        "covariance_type": [StrOptions({"full", "diag", "spherical"})],
        "refine": ["boolean"],
        "n_terms": [Interval(numbers.Integral, 1, None, closed="left")],
        "criterion": [StrOptions({"bic", "validation", "certificate"})],
        "patience": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="neither")],
        "reg_covar": [Interval(numbers.Real, 0, None, closed="neither")],
        **EXECUTION,
    }

    def __init__(
        self,
        *,
        bandwidths: ArrayLike | str = "auto",
        covariance_type: str = "full",
        refine: bool = True,
        n_terms: int = 100,
        criterion: str = "bic",
        patience: int = 5,
        tol: float = 0.01,
        reg_covar: float = 1e-6,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.bandwidths = bandwidths
        self.covariance_type = covariance_type
        self.refine = refine
        self.n_terms = n_terms
        self.criterion = criterion
        self.patience = patience
        self.tol = tol
        self.reg_covar = reg_covar
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> HullMixture:
        """Grow a mixture.

        Parameters
        ----------
        X : array, data frame, path or table, of shape (n_rows, n_features)
            Training rows, which are held in memory.
        y : ignored
            Not used.
        sample_weight : array of shape (n_rows,), optional
            How often each row counts. A row of weight 0 is absent.
        target : str or list of str, optional
            Columns of X that are no features.
        weight : str, optional
            The column of X that holds the weights, in place of ``sample_weight``.

        Returns
        -------
        self : HullMixture
        """
        bandwidths = self._bandwidths()
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        X = validate_held(self, X, reset=True, dtype=np.float64, ensure_min_samples=2)
        weights = validate_weights(sample_weight, len(X))
        kept = np.flatnonzero(weights > 0)
        X, weights = X[kept], weights[kept]
        rng = seeded(self.random_state)
        shift, scale = self._units(X, weights)
        log_volume = float(np.log(scale).sum())
        Z = (X - shift) / scale
        with catch_interrupt() as interrupted, Workers(self.n_jobs) as workers:
            train, held_out = self._split(len(Z), rng)
            em = self._em(Z[train], weights[train])
            growth = self._growth(em, bandwidths, workers)
            stop = self._stop(growth, Z[held_out], weights[held_out], _count(weights))
            path = self._grow(growth, stop, kept[train], interrupted, rng)
            n_steps, best = len(path), stop.best
            assert best is not None
            if self.refine and self.criterion != "certificate":
                # Also from the largest mixture: it has more to choose from.
                fewer = [pruned(mixture, em, stop.criterion) for mixture in (best, stop.stages[-1])]
                best = min(fewer, key=stop.criterion)
            if len(held_out):
                em = self._em(Z, weights)
                growth = self._growth(em, bandwidths, workers)
                if not self.refine:
                    n_steps = stop.best_steps
                    again = GrowthStop(lambda _: 0.0, self.n_terms, np.inf, max_iter=n_steps)
                    self._grow(growth, again, kept, interrupted, rng)
                    best = growth.mixture
            self.rate_bound_: Bound | None = None
            if self.refine:
                best = settled(best, em)
            elif len(Z) <= _CENTRES:
                # The theorem is about the best of all atoms at every step, not of some drawn.
                excess = self._certify(growth.start, growth).gap
                self.rate_bound_ = hull_rate_bound(n_steps, growth.atoms.curvature(), excess)
            self.certificate_ = self._certify(best, growth, log_volume)
        self.path_ = replace(path, value=path.value + log_volume)
        self._mixture = best.rescaled(scale, shift)
        self._stages = [stage.rescaled(scale, shift) for stage in stop.stages]
        in_units = 0.0 if self.criterion == "certificate" else log_volume
        self.criterion_path_ = np.array(stop.values) + in_units
        if self.refine:
            self._warn_where_floored(best)
        self.n_terms_ = self._mixture.size
        self.weights_, self.means_ = self._mixture.weights, self._mixture.means
        self.covariances_ = self._mixture.covariances()
        if interrupted.requested:
            warn(
                f"fit was interrupted: the mixture has the best {self.n_terms_} components so far."
            )
            raise KeyboardInterrupt
        if self.verbose:
            print(f"[HullMixture] {self.n_terms_} components: {self.path_}", flush=True)
        return self

    @lazily
    def score_samples(self, X: Any) -> Floats:
        """Log density of each row.

        Returns
        -------
        log_density : array of shape (n_rows,)
        """
        return self._mixture_of().log_density(self._rows(X))

    def staged_score_samples(self, X: Any) -> Iterator[Floats]:
        """Yield the log density of each row with 1, 2, … components, as the mixture grew.

        Yields
        ------
        log_density : array of shape (n_rows,)
        """
        check_is_fitted(self)
        X = self._rows(X)
        for stage in self._stages:
            yield stage.log_density(X)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Mean log density of the rows.

        Returns
        -------
        score : float
        """
        found = self.score_samples(X)
        return float(np.average(found, weights=validate_weights(sample_weight, len(found))))

    @lazily
    def predict(self, X: Any) -> Indices:
        """The component each row most likely came from.

        Returns
        -------
        component : array of shape (n_rows,)
        """
        return np.asarray(self._mixture_of().log_joint(self._rows(X)).argmax(axis=1))

    @lazily
    def predict_proba(self, X: Any) -> Floats:
        """Probability of each component, given the row.

        Returns
        -------
        p : array of shape (n_rows, n_terms)
        """
        joint = self._mixture_of().log_joint(self._rows(X))
        shares = np.exp(joint - joint.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def sample(self, n_samples: int = 1) -> tuple[Floats, Indices]:
        """Draw from the mixture.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        component : array of shape (n_samples,)
            Where each row came from; rows are ordered by it.
        """
        mixture = self._mixture_of()
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {n_samples}.")
        rng = seeded(self.random_state)
        counts = rng.multinomial(n_samples, mixture.weights / mixture.weights.sum())
        component = np.repeat(np.arange(mixture.size), counts)
        noise = rng.normal(size=(n_samples, mixture.means.shape[1]))
        factors = mixture.factors[component]
        if mixture.kind == "full":
            spread = np.einsum("nij,nj->ni", factors, noise)
        else:
            spread = noise * (factors if mixture.kind == "diag" else factors[:, None])
        return mixture.means[component] + spread, component

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on rows; lower is better.

        Returns
        -------
        bic : float
        """
        found = self.score_samples(X)
        penalty = self._mixture.n_parameters * np.log(len(found))
        return float(-2.0 * found.sum() + penalty)

    def aic(self, X: Any) -> float:
        """Akaike information criterion on rows; lower is better.

        Returns
        -------
        aic : float
        """
        return float(-2.0 * self.score_samples(X).sum() + 2.0 * self._mixture.n_parameters)

    def _mixture_of(self) -> Mixture:
        check_is_fitted(self)
        return self._mixture

    def _rows(self, X: Any) -> Floats:
        return np.asarray(validate_held(self, X, reset=False, dtype=np.float64))

    def _bandwidths(self) -> Floats:
        if isinstance(self.bandwidths, str):
            return np.array(AUTO_BANDWIDTHS)
        found = np.unique(np.asarray(self.bandwidths, dtype=np.float64).ravel())[::-1]
        if not len(found) or not np.all((found > 0) & np.isfinite(found)):
            raise ValueError(f"bandwidths must hold positive numbers, got {self.bandwidths!r}.")
        return found

    def _units(self, X: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the features; one deviation for spherical components."""
        share = weights / weights.sum()
        mean = share @ X
        variances = share @ (X - mean) ** 2
        if self.covariance_type == "spherical":
            variances = np.full_like(variances, variances.mean())
        rounding = (100 * np.finfo(float).eps * (1.0 + np.abs(mean))) ** 2
        return mean, np.sqrt(np.where(variances > rounding, variances, 1.0))

    def _em(self, Z: Floats, weights: Floats) -> EM:
        row = 1.0 / _count(weights)
        return EM(Z, weights / weights.sum(), self.covariance_type, float(self.reg_covar), row)

    def _split(self, n_rows: int, rng: np.random.Generator) -> tuple[Any, Any]:
        if self.criterion != "validation":
            return np.arange(n_rows), np.empty(0, dtype=np.intp)
        held_out = draw_rows(n_rows, max(n_rows // 5, 1), rng)
        return np.setdiff1d(np.arange(n_rows), held_out), held_out

    def _growth(self, em: EM, bandwidths: Floats, workers: Workers) -> MixtureGrowth:
        centres = np.unique(em.X, axis=0)
        atoms = GaussianAtoms(em.X, em.weights, centres, bandwidths, workers)
        return MixtureGrowth(em, atoms, refine=self.refine)

    def _grow(
        self,
        growth: MixtureGrowth,
        stop: GrowthStop,
        rows: Indices,
        interrupted: Interrupted,
        rng: np.random.Generator,
    ) -> Path:
        """Steps until a rule says stop; ``rows`` are the numbers of the rows it grows on."""
        atoms = growth.atoms
        _, first = np.unique(growth.em.X, axis=0, return_index=True)
        pursuit = Pursuit(
            growth,
            Meter(),
            candidates=CandidateAtoms(len(atoms.bandwidths), _CENTRES, rng),
            labels=np.repeat(rows[first], len(atoms.bandwidths)),
            scale=abs(growth.start_value),
            every_step=True,
        )
        stop.see(growth.mixture)
        enough = stop.reason(1)
        return pursuit.recorder.path(enough) if enough else pursuit.run([stop, interrupted])

    def _stop(
        self, growth: MixtureGrowth, held_out: Floats, held_out_weights: Floats, total: float
    ) -> GrowthStop:
        em, enough, patience = growth.em, -np.inf, float(self.patience)
        if self.criterion == "validation":
            share = held_out_weights / held_out_weights.sum()

            def criterion(mixture: Mixture) -> float:
                return -float(share @ mixture.log_density(held_out))

        elif self.criterion == "certificate":
            enough = float(self.tol)
            patience = patience if self.refine else np.inf

            def criterion(mixture: Mixture) -> float:
                return self._certify(mixture, growth).relative_gap

        else:

            def criterion(mixture: Mixture) -> float:
                value = -float(em.weights @ mixture.log_density(em.X))
                return float(value + 0.5 * np.log(total) * mixture.n_parameters / total)

        return GrowthStop(
            criterion, self.n_terms, patience, enough, max_iter=_STEPS_PER_TERM * self.n_terms
        )

    def _certify(
        self, mixture: Mixture, growth: MixtureGrowth, log_volume: float = 0.0
    ) -> Certificate:
        """f(v) - ln max S bounds f from below on the hull of fixed atoms: see `mixture_atoms`."""
        em, n = growth.em, len(growth.atoms.centres)
        # The same centres every time, whatever was drawn before.
        centres = draw_rows(n, min(n, _CERTIFIED_CENTRES), np.random.default_rng(0))
        density = mixture.log_density(em.X)
        value = log_volume - float(em.weights @ density)
        start = log_volume - float(em.weights @ growth.start.log_density(em.X))
        where = "the training rows" if len(centres) == n else f"{len(centres)} training rows"
        return Certificate(
            np.array([value]),
            np.array([value - growth.atoms.log_largest_slope(density, centres)]),
            np.array([2.0 * start]),
            "Frank-Wolfe",
            over=f"the mixtures of fixed atoms at {where}",
        )

    def _warn_where_floored(self, mixture: Mixture) -> None:
        if mixture.kind == "full":
            least = np.linalg.eigvalsh(mixture.covariances()).min()
        else:
            least = float(mixture.factors.min()) ** 2
        if least < 2.0 * self.reg_covar:
            warn(
                "a component has shrunk to the least variance allowed, which happens where points "
                "coincide or lie in a plane: its likelihood means little. Remove duplicates or "
                f"constant features, or raise reg_covar={self.reg_covar:g}."
            )


def _count(weights: Floats) -> float:
    """Rows that the weights stand for: their sum, and no fewer than there are."""
    return max(float(weights.sum()), float(len(weights)))
