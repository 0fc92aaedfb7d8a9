"""Mixture density estimation that finds the number of components by itself (Z02 §4.3)."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import Interval, StrOptions, fit_context
from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, Certificate, hull_rate_bound
from pursuit.estimators.arguments import CHECKPOINT, EXECUTION, MAX_TIME
from pursuit.estimators.fit_run import FitRun, guarded, interrupt
from pursuit.estimators.hull.mixture_atoms import GaussianAtoms, Searched
from pursuit.estimators.hull.pursue import (
    ResumablePursuit,
    joined_pieces,
    recorded_pieces,
    stop_in_time,
)
from pursuit.estimators.inputs import (
    in_double,
    named_columns,
    seeded,
    validate_held,
    validate_weights,
)
from pursuit.estimators.kernel_model import in_precision_of_rows, lazily
from pursuit.estimators.saving import SavedModel
from pursuit.estimators.scales import LARGEST, SMALLEST, check_scale, in_range, kept
from pursuit.estimators.warning import warn
from pursuit.greedy import CostMeter, Path, Pursuit
from pursuit.linalg import Workers
from pursuit.rounding import Rounded, dots, gamma, joined
from pursuit.rows import Sample, as_rows, draw_rows
from pursuit.solvers import EM, Mixture
from pursuit.solvers.em import log_sum_exp

AUTO_BANDWIDTHS = 0.5, 0.25, 0.125, 0.0625
"""Bandwidths of ``bandwidths="auto"``; narrower ones find smaller clusters and take longer."""
_CENTRES = 5000
"""Largest number of rows at which a step looks for atoms; beyond, each step draws as many."""
_CERTIFIED_CENTRES = 50_000
"""Largest number of rows at which the certificate's atoms are centred; beyond, as many drawn."""
_STEPS_PER_TERM = 10
"""Most steps per allowed component: without refinement a step may take an atom again."""
_PATIENCE = 5
"""Steps without improvement after which growth ends; more are slower and seldom find more."""
_IMPROVEMENT = 1e-4
"""A criterion has improved if it has fallen by more than this."""
_TOL = 0.01
"""Relative gap at which ``criterion="certificate"`` stops if ``tol`` is None."""
_REFINED = 6
"""Number of atoms that EM refines in a step; fewer are faster and give worse components."""
_CONTINUED = 2
"""Number of them that get further EM steps."""
_STEPS_FIRST, _STEPS_NEW = 3, 7
"""EM steps on each refined atom, and further EM steps on the best of them."""
_STEPS_ALL = 20
"""EM steps on all components after one was added."""
_STEPS_FEWER = 20
"""EM steps on the other components after one was left out."""
_STEPS_LAST = 100
"""EM steps on all components at the end."""
_EM_GAIN = 1e-5
"""Gain of log likelihood per row below which EM steps stop."""


class CandidateAtoms:
    """New random centres at every step, each with all bandwidths.

    The number of an atom is its centre times the number of bandwidths, plus its bandwidth.
    """

    def __init__(self, n_bandwidths: int, n_centres: int, rng: np.random.Generator) -> None:
        self._n_bandwidths, self._n_centres, self._rng = n_bandwidths, n_centres, rng

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """Numbers of the available atoms at ``n_centres`` random centres, or at all if fewer."""
        n = len(available) // self._n_bandwidths
        if n > self._n_centres:
            drawn = np.zeros(n, dtype=bool)
            drawn[self._rng.choice(n, self._n_centres, replace=False)] = True
            available = available & np.repeat(drawn, self._n_bandwidths)
        return np.flatnonzero(available)


class MixtureGrowth:
    """-mean ln v(x) for a mixture v that takes one Gaussian atom at a time.

    The score of an atom p is the gain in mean log likelihood of (1 - α)v + αp at the best α in
    [0, 1]; atoms that cannot be the best score 0 without a line search.

    Without ``refine`` this is Algorithm 2.1 of Z02 as published: v starts as the best single atom
    and becomes (1 - α)v + αp with the best p and α. With ``refine`` v starts as the best single
    Gaussian. The best atoms, far from each other, are refined by EM steps on the new component
    alone; the best of them is added, and EM steps on all components follow. An atom must then hold
    twice as many rows as a covariance needs.

    Parameters
    ----------
    em : EM
        Rows, weights, covariances and floor.
    atoms : GaussianAtoms
        The atoms.
    refine : bool
        Whether components move.
    """

    def __init__(self, em: EM, atoms: GaussianAtoms, *, refine: bool) -> None:
        self.em, self.atoms, self._refine = em, atoms, refine
        self.numbers: list[int] = []
        if refine:
            self.mixture = em.single()
        else:
            self.numbers.append(atoms.most_likely())
            mean, factor = self._component(self.numbers[0])
            self.mixture = Mixture(np.ones(1), mean[None], factor[None], em.kind)
        self.start = self.mixture
        self._least = em.least_share if refine else 0.0
        self._density = self.mixture.log_density(em.X)
        self.value = self.start_value = -float(em.weights @ self._density)
        self.useless = np.zeros(atoms.n_atoms, dtype=bool)
        self._last = np.empty(0, dtype=np.intp), Searched(*np.empty((3, 0)))

    def resume(self, mixture: Mixture, numbers: list[int], useless: NDArray[np.bool_]) -> None:
        """Take over the state of an earlier run."""
        self.mixture, self.numbers, self.useless = mixture, list(numbers), useless.copy()
        self._density = mixture.log_density(self.em.X)
        self.value = -float(self.em.weights @ self._density)

    @property
    def available(self) -> NDArray[np.bool_]:
        """Which atoms may be taken: all but those that brought nothing."""
        return ~self.useless

    @property
    def n_terms(self) -> int:
        """Number of components."""
        return self.mixture.size

    def score(self, candidates: Indices) -> Floats:
        """Gain of each atom; 0 for atoms that cannot have the largest."""
        searched = self.atoms.search(self._density, candidates, self._least)
        self._last = candidates, searched
        return searched.gains

    def add(self, candidate: int) -> bool:
        """Take an atom that was scored; False if the likelihood does not rise."""
        candidates, searched = self._last
        place = int(np.searchsorted(candidates, candidate))
        if not searched.gains[place] > 0:
            # The best of them gains nothing, so none does.
            self.useless[candidates] = True
            return False
        if self._refine:
            grown, numbers = self._refined(), self.numbers
        else:
            grown, numbers = self._mixed(candidate, float(searched.shares[place]))
        if grown is None:
            return False
        density = grown.log_density(self.em.X)
        value = -float(self.em.weights @ density)
        if not self._refine:
            # Rounding may leave the value as it was, for several atoms in turn.
            if not value < self.value:
                self.useless[candidate] = True
                return False
            self.useless[:] = False
        self.mixture, self.numbers = grown, numbers
        self._density, self.value = density, value
        return True

    def _mixed(self, number: int, share: float) -> tuple[Mixture, list[int]]:
        """(1 - α)v + αp and its atoms; an atom that v already has gets more weight."""
        mixture, numbers = self.mixture, self.numbers
        if number in numbers:
            weights = (1.0 - share) * mixture.weights
            weights[numbers.index(number)] += share
            grown = replace(mixture, weights=weights)
        else:
            grown = mixture.with_component(share, *self._component(number))
            numbers = [*numbers, number]
        kept = np.flatnonzero(grown.weights > 0)
        return grown.part(kept), [numbers[i] for i in kept]

    def _refined(self) -> Mixture | None:
        """The mixture with the best of the refined atoms, after EM steps on all components."""
        starts = self._starts()
        components = [self._component(number) for number, _, _ in starts]
        several = Mixture(
            np.array([share for _, share, _ in starts]),
            np.array([mean for mean, _ in components]),
            np.array([factor for _, factor in components]),
            self.em.kind,
        )
        numbers = np.arange(len(starts))
        for steps, most in ((_STEPS_FIRST, _CONTINUED), (_STEPS_NEW, 1)):
            several, fed, values = self.em.grow(self._density, several, steps)
            for starved in np.setdiff1d(np.arange(len(numbers)), fed):
                self.useless[starts[numbers[starved]][2]] = True
            if not len(fed):
                return None
            best = np.argsort(-values, kind="stable")[:most]
            several, numbers = several.part(best), numbers[fed[best]]
        weight, mean, factor = several.weights[0], several.means[0], several.factors[0]
        grown = self.mixture.with_component(float(weight), mean, factor)
        return self.em.run(grown, _STEPS_ALL, 1e-6)[0]

    def _component(self, number: int) -> tuple[Floats, Floats]:
        """Mean and factor of an atom."""
        centre, h = self.atoms.atom(number)
        shape = {"full": np.eye(len(centre)), "diag": np.ones(len(centre)), "spherical": 1.0}
        return centre, np.asarray(h * np.asarray(shape[self.em.kind]))

    def _starts(self) -> list[tuple[int, float, Indices]]:
        """The best atoms of the last score, their α, and the atoms within two bandwidths of each.

        No two of the best atoms are so close to each other.
        """
        candidates, searched = self._last
        promise = np.where(searched.shares >= self._least, searched.promise, 0.0)
        centres = self.atoms.centres[candidates // len(self.atoms.bandwidths)]
        widths = 2.0 * self.atoms.bandwidths[candidates % len(self.atoms.bandwidths)]
        place = int(searched.gains.argmax())
        starts: list[tuple[int, float, Indices]] = []
        while len(starts) < _REFINED and promise[place] > 0:
            near = ((centres - centres[place]) ** 2).sum(axis=1) < widths**2
            share = min(max(float(searched.shares[place]), self._least), 0.9)
            starts.append((int(candidates[place]), share, candidates[near]))
            promise = np.where(near, 0.0, promise)
            place = int(promise.argmax())
        return starts


def settled(mixture: Mixture, em: EM) -> Mixture:
    """The mixture after EM steps until they gain nothing more."""
    return em.run(mixture, _STEPS_LAST, _EM_GAIN)[0]


def pruned(mixture: Mixture, em: EM, criterion: Callable[[Mixture], float]) -> Mixture:
    """Leave out components, one at a time, as long as that makes the criterion smaller.

    Growth does not remove a component that later ones have replaced. The component left out is
    the one of least mean ln v/v_others, before EM steps on the others.
    """
    mixture = settled(mixture, em)
    while mixture.size > 1:
        joint = mixture.log_joint(em.X)
        shares = np.exp(joint - log_sum_exp(joint)[:, None])
        with np.errstate(divide="ignore"):
            loss = np.log1p(-mixture.weights) - em.weights @ np.log1p(-np.minimum(shares, 1.0))
        fewer, _ = em.run(mixture.without(int(loss.argmin())), _STEPS_FEWER, _EM_GAIN)
        fewer = settled(fewer, em) if criterion(fewer) < criterion(mixture) else mixture
        if fewer is mixture:
            break
        mixture = fewer
    return mixture


@dataclass(frozen=True)
class GrowthRound:
    """Some steps of growth and the state after them, as a checkpoint records it.

    Attributes
    ----------
    stages : list of Mixture
        The mixture after each of these steps.
    values : list of float
        The criterion after each of them.
    path : Path
        These steps; its reason is ``"more"`` where others follow.
    numbers : list of int
        Atoms of the last mixture, if components do not move.
    useless : array of bool
        Atoms that brought nothing.
    """

    stages: list[Mixture]
    values: list[float]
    path: Path
    numbers: list[int]
    useless: NDArray[np.bool_]


@dataclass
class GrowthStop:
    """Stop when a criterion has not fallen for ``patience`` components; keeps all mixtures.

    ``criterion(mixture)`` should be small; at ``enough`` it is small enough. Growth ends after
    ``max_iter`` steps in any case.
    """

    criterion: Callable[[Mixture], float]
    n_terms: int
    patience: float
    max_iter: int
    enough: float = -np.inf
    stages: list[Mixture] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    best_steps: int = 0
    """Number of steps after which the best mixture was seen."""

    def see(self, mixture: Mixture, value: float | None = None) -> None:
        """Note a mixture, and its criterion if it is known."""
        value = self.criterion(mixture) if value is None else value
        if self.values and value < min(self.values) - _IMPROVEMENT:
            self.best_steps = len(self.stages)
        self.stages.append(mixture)
        self.values.append(value)

    @property
    def best(self) -> Mixture:
        """The mixture of the least criterion."""
        return self.stages[self.best_steps]

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason tol, no gain, n_terms or max_iter."""
        growth = pursuit.objective
        assert isinstance(growth, MixtureGrowth)
        self.see(growth.mixture)
        return self.reason()

    def reason(self) -> str | None:
        """Why the last mixture should not grow."""
        if self.values[-1] <= self.enough:
            return "tol"
        if len(self.stages) - 1 - self.best_steps >= self.patience:
            return "no gain"
        if self.stages[-1].size >= self.n_terms:
            return "n_terms"
        return "max_iter" if len(self.stages) > self.max_iter else None


def grow(
    growth: MixtureGrowth, stop: GrowthStop, rows: Indices, run: FitRun, name: str, share: float
) -> Path:
    """Add components until a rule stops it; the checkpoint records the steps under a name.

    ``rows`` are the numbers of the rows that it grows on. It ends when ``share`` of ``max_time`` is
    over.
    """
    atoms = growth.atoms
    _, first = np.unique(growth.em.X, axis=0, return_index=True)
    pursuit = ResumablePursuit(
        growth,
        CostMeter(),
        candidates=CandidateAtoms(len(atoms.bandwidths), _CENTRES, run.rng),
        labels=np.repeat(rows[first], len(atoms.bandwidths)),
        scale=abs(growth.start_value),
        every_step=True,
    )
    stop.see(growth.mixture)
    ended = stop.reason()
    if ended:
        return pursuit.recorder.path(ended)
    rules = [stop, stop_in_time(run, share)]

    def advance() -> GrowthRound:
        known = len(stop.stages)
        path = pursuit.run_piece(rules)
        stages, values = stop.stages[known:], stop.values[known:]
        return GrowthRound(stages, values, path, growth.numbers, growth.useless.copy())

    def resume(piece: GrowthRound) -> None:
        for mixture, value in zip(piece.stages, piece.values, strict=True):
            stop.see(mixture, value)
        growth.resume(piece.stages[-1], piece.numbers, piece.useless)

    pieces = recorded_pieces(pursuit, advance, resume, run, name, share)
    return joined_pieces([piece.path for piece in pieces])


class HullMixture(DensityMixin, SavedModel, BaseEstimator):
    """Gaussian mixture that starts with one component and adds what raises the likelihood most.

    Atoms are Gaussians of several bandwidths, centred at training rows. Every step looks for the
    atom p whose mixture (1 - α)v + αp has the largest likelihood at its best α in [0, 1]. EM
    refines that atom, it becomes a component, and a few EM steps on all components follow. The
    number of components need not be known. Up to 5,000 rows a step searches the atoms at all rows;
    beyond, it searches those at 5,000 rows drawn anew.

    With ``refine=False`` components stay as they are, and only their weights change: this is
    Algorithm 2.1 of Zhang (2002a), "Z02", as published, with its rate.

    Parameters
    ----------
    bandwidths : "auto" or array, default "auto"
        Standard deviations of the atoms, as multiples of those of the features (of all features
        together for spherical covariances). ``"auto"``: .5, .25, .125 and .0625.
    covariance_type : {"full", "diag", "spherical"}, default "full"
        Covariances of the components.
    refine : bool, default True
        Whether EM moves the components. An atom must then hold at least 2(n_features + 1) rows, and
        components that make the criterion worse are left out at the end.
    n_terms : int, default 100
        Largest number of components.
    criterion : {"bic", "validation", "certificate"}, default "bic"
        When to stop. ``"bic"``: when the Bayesian information criterion has not improved for five
        components; the best number is taken. ``"validation"``: the same for the likelihood of a
        fifth of the rows, which are left out. ``"certificate"``: when the certificate's
        ``relative_gap`` is at most ``tol`` (or, with refinement, has not improved for five
        components).
    tol : float or None, default None
        Relative gap at which ``criterion="certificate"`` stops; None is 0.01. Other criteria refuse
        it.
    reg_covar : float, default 1e-6
        Least variance of a component in any direction, as a fraction of the mean variance of the
        data. It keeps likelihoods bounded where points coincide.
    max_time : float or None, default None
        Seconds after which the fit ends with the components so far. Results then depend on the
        speed of the machine.
    checkpoint : path-like or None, default None
        Folder in which the fit records its steps. A fit that was killed continues from there when
        it is repeated with the same data and parameters.
    n_jobs : int or None, default None
        Number of threads; the result does not depend on it.
    random_state : int, RandomState or None, default None
        Seed of the rows left out, of the centres drawn from more than 5,000 rows, and of
        :meth:`sample`.
    verbose : int, default 0
        Whether to print the stages and their times.

    Attributes
    ----------
    n_terms_ : int
        Number of components.
    weights_ : array of shape (n_terms,)
        Their weights.
    means_ : array of shape (n_terms, n_features)
        Their means.
    covariances_, precisions_ : array
        Their covariances, and the inverses, in the shape of scikit-learn's `GaussianMixture`.
    path_ : Path
        Negative mean log density after each step, the row at which the chosen atom is centred, and
        why the steps ended.
    criterion_path_ : array
        Criterion per row, with 1, 2, … components.
    certificate_ : Certificate
        ``upper`` is -mean ln v of the training rows, which is ``-score(X)``. ``lower`` bounds from
        below what any mixture of *fixed* atoms at the training rows reaches (at 50,000 random rows
        if there are more). A mixture refined by EM is none of these: if it is better than all of
        them, ``lower`` is above ``upper``, and the gap is negative.
    rate_bound_ : Bound or None
        What Theorem 3.1 of Z02 promises for each step; None with refinement, and beyond 5,000 rows,
        where a step does not look at all atoms. Its M is the largest mean of p²/q² over pairs of
        atoms, often so large that the bound is vacuous; printing it says so.
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
        "tol": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "reg_covar": [Interval(numbers.Real, 0, None, closed="neither")],
        "max_time": MAX_TIME,
        "checkpoint": CHECKPOINT,
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
        tol: float | None = None,
        reg_covar: float = 1e-6,
        max_time: float | None = None,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.bandwidths = bandwidths
        self.covariance_type = covariance_type
        self.refine = refine
        self.n_terms = n_terms
        self.criterion = criterion
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @guarded
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        target: str | Sequence[str] | None = None,
        weight: str | None = None,
    ) -> Self:
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
        bandwidths = self._check_parameters()
        X, y, sample_weight = named_columns(X, y, sample_weight, target=target, weight=weight)
        X = validate_held(self, X, reset=True, dtype=np.float64, ensure_min_samples=2)
        check_scale("X", X, LARGEST, SMALLEST)
        weights = validate_weights(sample_weight, len(X))
        present = np.flatnonzero(weights > 0)
        X, weights = X[present], weights[present]
        shift, scale = self._units(X, weights)
        log_volume = float(np.log(scale).sum())
        Z = (X - shift) / scale
        sample = Sample(as_rows(X), np.empty((len(X), 0)), weights)
        with FitRun(self, sample, present) as run:
            train, held_out = self._split(len(Z), run.rng)
            em = self._em(Z[train], weights[train])
            growth = self._growth(em, bandwidths, run.workers)
            stop = self._stop(growth, Z[held_out], weights[held_out], _count(weights))
            run.begin("grow", self.n_terms)
            path = grow(growth, stop, present[train], run, "grow", 0.6)
            n_steps, best = len(path), stop.best
            if self.refine and self.criterion != "certificate" and not run.out_of_time:
                # The largest mixture has more components to choose from.
                starts = [best, stop.stages[-1]]
                # A fit that has grown further since it was recorded is pruned again.
                name = f"prune-{len(stop.stages)}"
                fewer = run.stage(name, lambda: [pruned(v, em, stop.criterion) for v in starts])
                best = min(fewer, key=stop.criterion)
            if len(held_out):
                em = self._em(Z, weights)
                growth = self._growth(em, bandwidths, run.workers)
                if not self.refine:
                    n_steps = stop.best_steps
                    again = GrowthStop(lambda _: 0.0, self.n_terms, np.inf, n_steps)
                    grow(growth, again, present, run, f"again-{n_steps}", 0.9)
                    best = growth.mixture
            self.rate_bound_: Bound | None = None
            if self.refine:
                best = settled(best, em)
            elif len(Z) <= _CENTRES:
                # The theorem is about the best of all atoms at every step.
                excess = self._certify(growth.start, growth).gap
                self.rate_bound_ = hull_rate_bound(n_steps, growth.atoms.curvature(), excess)
            run.begin("certify")
            far = float(np.abs(shift / scale).max())
            found = self._certify(best, growth, log_volume, far)
            # Components that EM has moved may be better than all mixtures of fixed atoms.
            better = self.refine and np.isfinite(found.lower) and np.isfinite(found.upper)
            self.certificate_ = found if better else kept(found)
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
        if run.stopping:
            interrupt(f"the best {self.n_terms_} components so far")
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Indices:
        """Grow a mixture, and return the most likely component of each row.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`. Rows of weight 0 have no part in the fit and get a component, too.

        Returns
        -------
        component : array of shape (n_rows,)
        """
        components: Indices = self.fit(X, y, sample_weight).predict(X)
        return components

    @in_precision_of_rows
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

    @in_range
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Mean log density of the rows.

        Returns
        -------
        score : float
        """
        density = in_double(self.score_samples)(X)
        return float(np.average(density, weights=validate_weights(sample_weight, len(density))))

    @lazily
    def predict(self, X: Any) -> Indices:
        """The most likely component of each row.

        Returns
        -------
        component : array of shape (n_rows,)
        """
        return np.asarray(self._mixture_of().log_joint(self._rows(X)).argmax(axis=1))

    @in_precision_of_rows
    def predict_proba(self, X: Any) -> Floats:
        """Probability of each component, given the row.

        Returns
        -------
        p : array of shape (n_rows, n_terms)
        """
        joint = self._mixture_of().log_joint(self._rows(X))
        shares = np.exp(joint - joint.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    @in_range
    def sample(self, n_samples: int = 1) -> tuple[Floats, Indices]:
        """Draw from the mixture.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        component : array of shape (n_samples,)
            Component of each row; rows are ordered by it.
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

    @property
    def precisions_(self) -> Floats:
        """Inverses of the covariances, in the same shape."""
        check_is_fitted(self)
        covariances = self.covariances_
        inverse = np.linalg.inv(covariances) if covariances.ndim == 3 else 1.0 / covariances
        return np.asarray(inverse, dtype=np.float64)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on rows; lower is better.

        Returns
        -------
        bic : float
        """
        density = in_double(self.score_samples)(X)
        penalty = self._mixture.n_parameters * np.log(len(density))
        return float(-2.0 * density.sum() + penalty)

    def aic(self, X: Any) -> float:
        """Akaike information criterion on rows; lower is better.

        Returns
        -------
        aic : float
        """
        return float(
            -2.0 * in_double(self.score_samples)(X).sum() + 2.0 * self._mixture.n_parameters
        )

    def _mixture_of(self) -> Mixture:
        check_is_fitted(self)
        return self._mixture

    def _rows(self, X: Any) -> Floats:
        return np.asarray(validate_held(self, X, reset=False, dtype=np.float64))

    def _check_parameters(self) -> Floats:
        """The bandwidths; parameters that do not go together are refused."""
        if self.tol is not None and self.criterion != "certificate":
            raise ValueError(
                f"tol={self.tol} is for criterion='certificate', and criterion is "
                f"{self.criterion!r}: leave tol out, or pass criterion='certificate'."
            )
        if isinstance(self.bandwidths, str):
            return np.array(AUTO_BANDWIDTHS)
        widths = np.unique(np.asarray(self.bandwidths, dtype=np.float64).ravel())[::-1]
        if not len(widths) or not np.all((widths > 0) & np.isfinite(widths)):
            raise ValueError(f"bandwidths must hold positive numbers, got {self.bandwidths!r}.")
        return widths

    def _units(self, X: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the features; one deviation for spherical components."""
        share = weights / weights.sum()
        mean = share @ X
        variances = share @ (X - mean) ** 2
        if self.covariance_type == "spherical":
            variances = np.full_like(variances, variances.mean())
        rounding = (100 * np.finfo(float).eps * np.abs(X).max(axis=0)) ** 2
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

    def _stop(
        self, growth: MixtureGrowth, held_out: Floats, held_out_weights: Floats, total: float
    ) -> GrowthStop:
        em, enough, patience = growth.em, -np.inf, float(_PATIENCE)
        if self.criterion == "validation":
            share = held_out_weights / held_out_weights.sum()

            def criterion(mixture: Mixture) -> float:
                return -float(share @ mixture.log_density(held_out))

        elif self.criterion == "certificate":
            enough = _TOL if self.tol is None else float(self.tol)
            # Without refinement the gap need not fall at every step.
            patience = patience if self.refine else np.inf

            def criterion(mixture: Mixture) -> float:
                return self._certify(mixture, growth).relative_gap

        else:

            def criterion(mixture: Mixture) -> float:
                value = -float(em.weights @ mixture.log_density(em.X))
                return float(value + 0.5 * np.log(total) * mixture.n_parameters / total)

        return GrowthStop(criterion, self.n_terms, patience, _STEPS_PER_TERM * self.n_terms, enough)

    def _certify(
        self, mixture: Mixture, growth: MixtureGrowth, log_volume: float = 0.0, far: float = 0.0
    ) -> Certificate:
        """The lower bound f(v) - ln max S over the hull of fixed atoms: see `mixture_atoms`.

        The rows were centred and scaled; ``far`` is how far they were from 0, in the new units.
        """
        n_features = growth.em.X.shape[1] + 16
        em, n = growth.em, len(growth.atoms.centres)
        # The same centres every time, whatever was drawn before.
        centres = draw_rows(n, min(n, _CERTIFIED_CENTRES), np.random.default_rng(0))
        joint = mixture.log_joint(em.X)
        density = log_sum_exp(joint)
        # -ln v ≥ 1 + ln λ - λv for every λ: any numbers near ln v prove as much as their sums do.
        mean = dots(em.weights, density)
        volume = Rounded(np.array(log_volume), np.array(gamma(n_features) * abs(log_volume)))
        unsure = gamma(len(em.X) + 8) * float(em.weights @ np.abs(density))
        exact = float(em.weights @ _unsure(mixture, joint, em.X, far))
        upper = volume - mean.widened(unsure + exact)
        slope = growth.atoms.log_largest_slope(density, centres)
        largest = Rounded(np.array(slope), np.array(growth.atoms.slope_error(density, slope, far)))
        start = log_volume - float(em.weights @ growth.start.log_density(em.X))
        where = "the training rows" if len(centres) == n else f"{len(centres)} training rows"
        return Certificate.proved(
            joined([upper]),
            joined([volume - mean.widened(unsure) - largest]),
            np.array([2.0 * start]),
            "Frank-Wolfe",
            trivial=-np.inf,
            over=f"the mixtures of fixed atoms at {where}",
            baseline="the first component alone",
            unit=1.0,
            remedy="components are too narrow for float64: raise reg_covar, or centre the features",
        )

    def _warn_where_floored(self, mixture: Mixture) -> None:
        if mixture.kind == "full":
            least = np.linalg.eigvalsh(mixture.covariances()).min()
        else:
            least = float(mixture.factors.min()) ** 2
        if least < 2.0 * self.reg_covar:
            warn(
                "a component has shrunk to the least variance allowed, which happens if points "
                "coincide or lie in a plane: its likelihood means little. Remove duplicates or "
                f"constant features, or raise reg_covar={self.reg_covar:g}."
            )


def _unsure(mixture: Mixture, joint: Floats, X: Floats, far: float) -> Floats:
    """How far ln Σ_k a_k N(x; μ_k, Σ_k) may be from its exact value, for every row.

    With Σ_k = FF', entries of F⁻¹(x - μ_k) are wrong by E = ‖F⁻¹‖(γκ(‖x‖ + ‖μ_k‖) + the rounding of
    x and μ_k), κ being the condition of F; the exponent by qE + ½E², q = ‖F⁻¹(x - μ_k)‖.
    """
    d = X.shape[1]
    factors = mixture.factors.reshape(mixture.size, -1)
    if mixture.kind == "full":
        spans = np.linalg.svd(mixture.factors, compute_uv=False)
        widest, least = spans.max(axis=1), spans.min(axis=1)
    else:
        widest, least = factors.max(axis=1), factors.min(axis=1)
    reach = float(np.linalg.norm(X, axis=1).max()) + np.linalg.norm(mixture.means, axis=1)
    moved = d * (gamma(4 * d + 64) * (widest / least) * reach + gamma(8) * far) / least
    volume = d * (1.0 + np.abs(np.log(least)) + np.abs(np.log(widest)))
    with np.errstate(divide="ignore"):
        logs = np.log(mixture.weights)
    alone = joint - np.where(np.isfinite(logs), logs, 0.0)
    squares = np.where(np.isfinite(joint), 2.0 * (np.abs(alone) + volume), 0.0)
    size = np.where(np.isfinite(logs), np.abs(logs), 0.0) + volume
    error = np.sqrt(squares) * moved + moved**2 + gamma(d + 16) * (squares + size)
    with np.errstate(over="ignore", invalid="ignore"):
        shares = np.exp(joint - log_sum_exp(joint)[:, None])
        terms = np.where(shares > 0, shares * np.expm1(error), 0.0)
    return np.asarray(1.01 * terms.sum(axis=1) + gamma(mixture.size + 16))


def _count(weights: Floats) -> float:
    """Number of rows that the weights stand for: their sum, but not less than their number."""
    return max(float(weights.sum()), float(len(weights)))
