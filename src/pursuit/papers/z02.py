"""Zhang, *A general greedy approximation algorithm with applications* (NIPS 14, 2002), checked.

The paper prints no experiment. Its theorems are tested: the rate of Theorem 3.1 on its three
examples, regression (§4.1), boosting (§4.2) and mixtures (§4.3), and the margin bound, equation
(8), on data with a known margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, make_hastie_10_2

from pursuit._types import Floats, Indices
from pursuit.bounds import margin_tail
from pursuit.datasets import make_robot_arm
from pursuit.estimators import HullBoostClassifier, HullRegressor, minimize_over_hull
from pursuit.objectives import HullLoss, LogExpLoss, NegativeLogLikelihood, SquaredLoss
from pursuit.papers.common import Panel, PaperResult, Progress, Series, exponent, ignore, slashed

Run = tuple[Floats, Floats]
"""Δf after each step, and the bound on it."""
Problem = Callable[[int, int], Run]
Needles = Callable[[int, int, bool], Run]

ROUNDS = (3, 10, 30, 100, 300, 1000, 4000)
FEW_ROUNDS = (3, 10, 30, 100, 300, 1000)

_RADIUS, _SCALE = 5.0, 4.0
_EXACT = 1e-9
_N_ATOMS, _N_GOOD = 500, 5
_NEEDLE_STEPS = 60
"""Number of steps that a figure shows of problems with few good atoms."""
# Unequal, so that five steps do not reach the minimum.
_SHARES = np.arange(1, _N_GOOD + 1) / 15
_CUTS = 31


def rate(
    problems: Mapping[str, Problem] | None = None,
    needles: Mapping[str, Needles] | None = None,
    *,
    n_steps: int = 400,
    n_runs: int = 3,
    random_state: int = 0,
    progress: Progress = ignore,
    control: bool = False,
) -> PaperResult:
    """Theorem 3.1: Δf after k steps is at most 8M/(k + 3), in regression, boosting and mixtures.

    Algorithm 2.1 as published, which chooses atom and step together. Regression: kernel functions
    at 400 positions of a robot arm, weights of norm 5. Boosting: stumps on Hastie's problem in ten
    dimensions, A = 4. Mixture: Gaussians on a grid, each mixed with a share of .3 of a uniform
    density, without which M would be unbounded. The minimum is replaced by a lower bound that
    corrective steps prove, so Δf is never understated. Found: the bound holds with a factor of 10
    to 400 to spare, and Δf falls like 1/k after a few hundred steps. Random atoms satisfy the
    bound there as well. They break it where five good atoms are hidden among 500, so the verdict
    is decided there: with orthogonal atoms and squared loss, and with random votes and the loss
    of boosting.

    Parameters
    ----------
    problems : mapping of str to callable, optional
        Other problems: functions of (steps, seed) that return Δf after each step and the bound.
    needles : mapping of str to callable, optional
        Other problems with few good atoms: functions of (steps, seed, control).
    n_steps : int
        Number of steps k.
    n_runs : int
        Number of draws of each problem; draw r has the seed ``random_state + r``.
    random_state : int
        Seed of the first draw.
    progress : callable, optional
        Called with a line of text as the work goes on.
    control : bool
        Negative control: the search misses the five good atoms.

    Returns
    -------
    PaperResult
        For each problem arrays ``excess_NAME`` and ``bound_NAME`` (runs x steps), and
        ``exponents`` (examples x runs) of the decrease over the second half of the steps.
    """
    examples = PROBLEMS if problems is None else problems
    hidden = NEEDLES if needles is None else needles
    known = {**examples, **{name: _searched(f, control) for name, f in hidden.items()}}
    steps = np.arange(1, n_steps + 1)
    excess = {name: np.empty((n_runs, n_steps)) for name in known}
    bound = {name: np.empty((n_runs, n_steps)) for name in known}
    for name, problem in known.items():
        for run in range(n_runs):
            excess[name][run], bound[name][run] = problem(n_steps, random_state + run)
            progress(f"{name}, run {run + 1} of {n_runs}: Δf = {excess[name][run, -1]:.3g}")
    later = slice(n_steps // 2, None)
    powers = np.array(
        [[exponent(steps[later], run[later]) for run in excess[name]] for name in examples]
    )
    slack = [float((bound[name][:, -1] / excess[name][:, -1]).min()) for name in examples]
    return PaperResult(
        name="Z02 Theorem 3.1, rate of convergence",
        paper_says="Δf ≤ 8M/(k + 3)",
        we_get=f"Δf = {', '.join(f'{excess[name][:, -1].mean():.2g}' for name in examples)} where "
        f"{', '.join(f'{bound[name][:, -1].mean():.2g}' for name in examples)} are allowed after "
        f"{n_steps} steps, falling as k^{slashed(powers.mean(axis=1), 2)} at the end "
        f"({', '.join(examples)}); at no step more than "
        f"{', '.join(f'{(excess[name] / bound[name]).max():.2g} of the bound' for name in hidden)} "
        f"({', '.join(hidden)})",
        spread=f"{n_runs} draws each, at least {', '.join(f'{s:.0f}' for s in slack)} times below "
        "for the examples",
        criteria={
            f"{name}: the bound holds after every step": bool(np.all(excess[name] <= bound[name]))
            for name in hidden
        },
        checks={
            **{
                f"{name}: the bound holds after every step": bool(
                    np.all(excess[name] <= bound[name])
                )
                for name in examples
            },
            "the bound falls by half or more": all(
                bool(np.all(bound[name][:, -1] <= 0.5 * bound[name][:, 0])) for name in examples
            ),
        },
        arrays={
            **{f"excess_{name}": runs for name, runs in excess.items()},
            **{f"bound_{name}": runs for name, runs in bound.items()},
            "exponents": powers,
        },
        settings=f"Algorithm 2.1, {n_steps} steps, radius {_RADIUS:g}, A = {_SCALE:g}",
        panels=[
            Panel(
                [
                    Series("measured", steps[:shown], excess[name][:, :shown]),
                    Series("Theorem 3.1", steps[:shown], bound[name][:, :shown], "bound"),
                ],
                "Steps",
                "Δf",
                name,
                "xy",
            )
            for name, shown in (
                *((name, n_steps) for name in examples),
                *((name, _NEEDLE_STEPS) for name in hidden),
            )
        ],
    )


def margin(
    *,
    rounds: Sequence[int] = ROUNDS,
    few_rounds: Sequence[int] = FEW_ROUNDS,
    n_runs: int = 3,
    random_state: int = 0,
    progress: Progress = ignore,
    control: bool = False,
) -> PaperResult:
    """Equation (8): at most exp(-γ²(k + 3)/32) of the rows have a margin of γ or less.

    The bound holds if some vote has a margin of 2γ on all rows and A = γ(k + 3)/16, so each number
    of rounds k takes its own fit. Two problems: the majority of three of eight bits, where
    2γ = 1/3, and stumps on the breast cancer data, where a linear programme over 31 cuts per
    feature finds such a vote. Found: the bound holds and is far from the truth. For the first
    problem, which decides the verdict, it falls below .05 after 4 000 rounds, while no margin is
    small after 100. For the second it would take 23 000, and any vote satisfies it.

    Parameters
    ----------
    rounds : sequence of int
        Values of k for the majority vote.
    few_rounds : sequence of int
        Values of k for breast cancer.
    n_runs : int
        Number of draws of the bits; draw r has the seed ``random_state + r``.
    random_state : int
        Seed of the first draw.
    progress : callable, optional
        Called with a line of text as the work goes on.
    control : bool
        Negative control: the search misses one of the three bits.

    Returns
    -------
    PaperResult
        Arrays ``rounds``, ``few_rounds``; ``share_majority`` (draws x rounds) and ``share_cancer``,
        shares of margins of at most γ; ``bound_majority`` and ``bound_cancer``; ``gamma``, of both.
    """
    majority = np.empty((n_runs, len(rounds)))
    for run in range(n_runs):
        atoms, signs = _majority(random_state + run)
        twice = _largest_margin(atoms, signs)
        if control:
            atoms = np.delete(atoms, [0, 8], axis=1)
        for i, k in enumerate(rounds):
            majority[run, i] = _share_by_atoms(atoms, signs, twice / 2, k)
        progress(f"majority vote, run {run + 1} of {n_runs}: margin {twice:.3f}")
    gamma = twice / 2
    X, y = load_breast_cancer(return_X_y=True)
    cancer_gamma = _largest_margin(*_stumps(X, y)) / 2
    cancer = np.array([_share_by_boosting(X, y, cancer_gamma, k) for k in few_rounds])
    progress(f"breast cancer: margin {2 * cancer_gamma:.4f}")
    allowed, cancer_allowed = _equation8(rounds, gamma), _equation8(few_rounds, cancer_gamma)
    return PaperResult(
        name="Z02 equation (8), share of small margins",
        paper_says="share of margins ≤ γ at most exp(-γ²(k + 3)/32)",
        we_get=f"k = {slashed(rounds)}, γ = {gamma:.3g}: {slashed(majority.mean(axis=0), 3)} where "
        f"{slashed(allowed, 3)} are allowed; k = {slashed(few_rounds)}, γ = {cancer_gamma:.3g}: "
        f"{slashed(cancer, 3)} where {slashed(cancer_allowed, 3)} are",
        spread=f"majority vote ± {slashed(majority.std(axis=0), 3)} over {n_runs} draws",
        criteria={
            "the bound holds for the majority vote": bool(np.all(majority <= allowed)),
            "no small margin is left for the majority vote": bool(np.all(majority[:, -1] == 0)),
        },
        checks={
            "the bound holds for breast cancer": bool(np.all(cancer <= cancer_allowed)),
            "small margins become fewer for breast cancer": bool(cancer[-1] < cancer[0]),
        },
        arrays={
            "rounds": np.asarray(rounds),
            "few_rounds": np.asarray(few_rounds),
            "share_majority": majority,
            "share_cancer": cancer,
            "bound_majority": allowed,
            "bound_cancer": cancer_allowed,
            "gamma": np.array([gamma, cancer_gamma]),
        },
        settings="A = γ(k + 3)/16 for each k; 200 rows of eight bits; 569 rows of breast cancer",
        panels=[
            Panel(
                [Series("measured", k, share), Series("equation (8)", k, bound, "bound")],
                "Rounds",
                "Share of margins of at most γ",
                title,
                "x",
            )
            for title, k, share, bound in (
                ("Majority of three bits", rounds, majority, allowed),
                ("Breast cancer, stumps", few_rounds, cancer, cancer_allowed),
            )
        ],
    )


# The three examples of §4


def _regression(n_steps: int, seed: int) -> Run:
    """f = mean (y - v)² over sums of kernel functions, Σ|w| ≤ A (equation 2)."""
    data = make_robot_arm(400, noise=0.05, random_state=seed)

    def fit(step: str, n_terms: int, tol: float | None) -> HullRegressor:
        model = HullRegressor(
            gamma=0.2, radius=_RADIUS, step=step, n_terms=n_terms, tol=tol, random_state=seed
        )
        model.fit(data.data, data.target)
        return model

    proof = fit("corrective", 400, _EXACT).certificate_
    assert proof is not None
    least = proof.lower
    model = fit("joint", n_steps, None)
    assert model.rate_bound_ is not None
    return _padded(model.path_.value - least, model.rate_bound_.value, n_steps)


def _boosting(n_steps: int, seed: int) -> Run:
    """f = ln mean exp(-A y v) over votes of stumps (equation 4)."""
    X, y = make_hastie_10_2(400, random_state=seed)

    def fit(step: str, n_terms: int, tol: float | None) -> HullBoostClassifier:
        model = HullBoostClassifier(
            scale=_SCALE, step=step, n_terms=n_terms, tol=tol, random_state=seed
        )
        model.fit(X, y)
        return model

    proof = fit("corrective", 400, _EXACT).certificate_
    assert proof is not None
    least = proof.lower
    model = fit("joint", n_steps, None)
    return _padded(model.path_.value - least, model.rate_bound_.value, n_steps)


def _mixture(n_steps: int, seed: int) -> Run:
    """f = -mean ln v over mixtures of densities bounded from below (equation 9)."""
    rng = np.random.default_rng(seed)
    x = np.clip(rng.choice([-1.5, 0.5, 2.0], size=500) + 0.4 * rng.standard_normal(500), -3, 3)
    centres = np.linspace(-3, 3, 61)
    atoms = 0.7 * norm.pdf(x[:, None], centres, 0.5) + 0.3 / 6
    return _joint_steps(NegativeLogLikelihood(len(x)), atoms, atoms, n_steps)


PROBLEMS: dict[str, Problem] = {
    "regression": _regression,
    "boosting": _boosting,
    "mixture": _mixture,
}


def _searched(problem: Needles, control: bool) -> Problem:
    return lambda n_steps, seed: problem(n_steps, seed, control)


def _orthogonal_needles(n_steps: int, seed: int, control: bool) -> Run:
    """f = mean (y - v)², and y in the hull of five of many orthogonal atoms of mean square 1."""
    atoms = math.sqrt(_N_ATOMS) * np.eye(_N_ATOMS)
    good = np.random.default_rng(seed).choice(_N_ATOMS, _N_GOOD, replace=False)
    return _hidden(SquaredLoss(atoms[:, good] @ _SHARES), atoms, good, n_steps, control)


def _vote_needles(n_steps: int, seed: int, control: bool) -> Run:
    """f = ln mean exp(-A y v); random votes, and five good ones, one of them wrong on each row."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=200)
    atoms = rng.choice([-1.0, 1.0], size=(200, _N_ATOMS))
    good = rng.choice(_N_ATOMS, _N_GOOD, replace=False)
    against = rng.choice(_N_GOOD, size=(200, 1), p=_SHARES) == np.arange(_N_GOOD)
    atoms[:, good] = np.where(against, -signs[:, None], signs[:, None])
    return _hidden(LogExpLoss(signs, _SCALE), atoms, good, n_steps, control)


def _hidden(loss: HullLoss, atoms: Floats, good: Indices, n_steps: int, control: bool) -> Run:
    """Joint steps over all atoms; the control does not search the good ones."""
    searched = np.delete(atoms, good, axis=1) if control else atoms
    return _joint_steps(loss, atoms, searched, n_steps)


def _joint_steps(loss: HullLoss, atoms: Floats, searched: Floats, n_steps: int) -> Run:
    """Δf above the minimum over all atoms, after each step over those that are searched."""
    best = minimize_over_hull(loss, atoms, step="corrective", tol=_EXACT)
    steps = minimize_over_hull(
        loss, searched, n_terms=n_steps, step="joint", tol=None, max_iter=n_steps
    )
    assert best.certificate is not None
    assert steps.rate_bound is not None
    return _padded(steps.path.value - best.certificate.lower, steps.rate_bound.value, n_steps)


NEEDLES: dict[str, Needles] = {
    "five of 500 orthogonal atoms": _orthogonal_needles,
    "five of 500 votes": _vote_needles,
}


def _padded(excess: Floats, bound: Floats, n_steps: int) -> Run:
    """Both curves with n_steps entries: at the minimum, further steps change nothing."""
    missing = max(n_steps - len(excess), 0)
    both = [np.pad(values, (0, missing), "edge")[:n_steps] for values in (excess, bound)]
    return both[0], both[1]


# Margins


def _majority(seed: int) -> tuple[Floats, Floats]:
    """Stumps on eight bits, and the majority vote of the first three."""
    bits = np.random.default_rng(seed).choice([-1.0, 1.0], size=(200, 8))
    signs = np.sign(bits[:, :3].sum(axis=1))
    ones = np.ones((len(bits), 1))
    return np.hstack([bits, -bits, ones, -ones]), signs


def _stumps(X: Floats, y: Indices) -> tuple[Floats, Floats]:
    """Stumps on every feature at some quantiles, with both signs, and the constants."""
    cuts = np.quantile(X, np.linspace(0, 1, _CUTS + 2)[1:-1], axis=0)
    columns = [np.where(X[:, [j]] > np.unique(cuts[:, j]), 1.0, -1.0) for j in range(X.shape[1])]
    atoms = np.unique(np.hstack([*columns, np.ones((len(X), 1))]), axis=1)
    return np.hstack([atoms, -atoms]), np.where(y == 1, 1.0, -1.0)


def _largest_margin(atoms: Floats, signs: Floats) -> float:
    """max over weights w ≥ 0, Σw ≤ 1, of the least margin min_i y_i Σ_j w_j p_j(x_i)."""
    m, n = atoms.shape
    upper = np.hstack([-signs[:, None] * atoms, np.ones((m, 1))])
    solution = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.vstack([upper, np.append(np.ones(n), 0.0)]),
        b_ub=np.append(np.zeros(m), 1.0),
        bounds=[(0, None)] * n + [(None, None)],
        method="highs",
    )
    if not solution.success or solution.fun is None:
        raise RuntimeError(f"the linear programme for the margin failed: {solution.message}")
    return -float(solution.fun)


def _share_by_atoms(atoms: Floats, signs: Floats, gamma: float, k: int) -> float:
    """Share of margins of at most γ after k rounds from v⁰ = 0, with A for that k."""
    scale = gamma * (k + 3) / 16
    vote = minimize_over_hull(
        LogExpLoss(signs, scale),
        atoms,
        step="joint",
        tol=None,
        start=np.zeros(len(signs)),
        max_iter=k,
    )
    return float(np.mean(signs * vote.point <= gamma))


def _share_by_boosting(X: Floats, y: Indices, gamma: float, k: int) -> float:
    model = HullBoostClassifier(
        scale="margin", margin=gamma, n_terms=k, tol=None, random_state=0
    ).fit(X, y)
    return float(np.mean(model.margins_ <= gamma))


def _equation8(rounds: Sequence[int], gamma: float) -> Floats:
    """exp(-γ²(k + 3)/32) for each k, from the bound before A is chosen."""
    bounds = [margin_tail(np.array([k]), gamma * (k + 3) / 16, gamma)[0] for k in rounds]
    return np.array(bounds)
