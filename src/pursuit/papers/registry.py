"""Every table and figure of the five papers by its name, in the order in which they are run.

``minutes`` are of processor time, as measured. A quick run has the paper's setting with fewer of
the same seeds, sizes or test rows, where that changes no verdict.
"""

from __future__ import annotations

from difflib import get_close_matches

from pursuit.papers import hs08, sb01, sb01_cost, ss00, z02, z03
from pursuit.papers.experiment import Experiment

PAPERS = {
    "sb01": "Smola and Bartlett, Sparse greedy Gaussian process regression (2001)",
    "ss00": "Smola and Schölkopf, Sparse greedy matrix approximation for machine learning (2000)",
    "z03": "Zhang, Approximation bounds for some sparse kernel regression algorithms",
    "z02": "Zhang, A general greedy approximation algorithm with applications (2002)",
    "hs08": "Hussain and Shawe-Taylor, Theory of matching pursuit (2008)",
}

EXPERIMENTS = (
    Experiment(
        "sb01-fig1",
        sb01.figure1,
        minutes=(0.2, 1.1),
        data=("abalone",),
        repeats="n_runs",
        quick={"n_runs": 2, "subsets": (1, 5, 20, 50, 100)},
        full={"n_runs": 5},
        small={"subsets": (1, 60, 100), "n_train": 1500, "n_basis": 100, "n_runs": 1},
    ),
    Experiment(
        "sb01-table1",
        sb01_cost.table1,
        minutes=(0.3, 0.3),
        quick={"times": 3},
        small={"rows": (50, 100, 200), "bases": (5, 10, 20), "n_new": 20, "times": 1},
    ),
    Experiment(
        "sb01-table2-posterior",
        sb01.table2_posterior,
        minutes=(0.5, 1.4),
        data=("abalone",),
        repeats="n_runs",
        quick={"n_runs": 2},
        full={"n_runs": 6},
        small={"widths": (10,), "n_runs": 1},
    ),
    Experiment(
        "sb01-table2-errorbars",
        sb01.table2_errorbars,
        minutes=(0.9, 2.6),
        data=("abalone",),
        quick={"n_test": 60},
        small={"widths": (20,), "n_test": 20},
    ),
    Experiment(
        "sb01-testerror",
        sb01.generalization_error,
        minutes=(0.3, 0.3),
        data=("abalone",),
        repeats="n_runs",
        small={"n_runs": 1, "random_state": 4},
    ),
    Experiment(
        "sb01-logposterior",
        sb01.log_posterior,
        minutes=(0.3, 0.3),
        data=("abalone",),
        repeats="n_runs",
        small={"n_runs": 1},
    ),
    Experiment(
        "sb01-synthetic",
        sb01.synthetic,
        minutes=(1.0, 1.5),
        repeats="n_runs",
        # The fourth data set is the only one that ends above the printed gap.
        quick={"n_runs": 4},
        small={"n_rows": 1500, "n_features": 5, "n_basis": 100, "n_runs": 2},
    ),
    Experiment(
        "ss00-fig1",
        ss00.figure1,
        minutes=(0.1, 0.7),
        data=("abalone", "boston", "usps"),
        repeats="n_runs",
        quick={"n_runs": 1, "subsets": (1, 5, 20, 50, 100)},
        small={"subsets": (1, 50, 100), "n_basis": 20, "n_runs": 1},
    ),
    Experiment(
        "ss00-fig2",
        ss00.figure2,
        minutes=(0.1, 0.3),
        data=("abalone",),
        repeats="n_runs",
        quick={"n_runs": 1},
        full={"n_runs": 3},
        small={"sizes": (100,), "n_train": 1000, "n_runs": 1},
    ),
    Experiment(
        "ss00-fig3",
        ss00.figure3,
        minutes=(0.1, 0.1),
        data=("abalone",),
        repeats="n_runs",
        quick={"n_runs": 1},
        small={"n_train": 1000, "n_runs": 1},
    ),
    Experiment(
        "ss00-fig4",
        ss00.figure4,
        minutes=(0.1, 0.1),
        data=("usps",),
        repeats="n_runs",
    ),
    Experiment(
        "ss00-fig5",
        ss00.figure5,
        minutes=(0.1, 0.1),
        data=("boston",),
        repeats="n_runs",
        quick={"n_runs": 3},
        full={"n_runs": 10},
        small={"sizes": (100,), "n_runs": 2},
    ),
    Experiment(
        "z03-table1",
        z03.table1,
        minutes=(0.3, 0.3),
        quick={"times": 2},
        small={"rows": (20, 40, 80), "terms": (2, 4, 8), "times": 1},
    ),
    Experiment(
        "z03-fig1",
        z03.figure1,
        minutes=(0.1, 0.1),
        repeats="n_runs",
        quick={"n_runs": 2},
        small={"n_basis": 30, "n_runs": 2},
    ),
    Experiment(
        "z03-fig2",
        z03.figure2,
        minutes=(0.1, 0.1),
        repeats="n_runs",
        quick={"n_runs": 3},
        small={"n_basis": 30, "n_runs": 3},
    ),
    Experiment(
        "z03-fig3",
        z03.figure3,
        minutes=(0.1, 0.1),
        repeats="n_runs",
        quick={"n_runs": 1},
        small={"lambdas": (1e-4, 1e-3, 100.0), "n_runs": 1},
    ),
    Experiment(
        "z03-fig4",
        z03.figure4,
        minutes=(0.1, 0.1),
        repeats="n_runs",
        quick={"n_runs": 1},
        small={"lambdas": (1e-4, 1e-3, 1e-2, 100.0), "n_runs": 1},
    ),
    Experiment(
        "z02-rate",
        z02.rate,
        minutes=(0.1, 0.1),
        repeats="n_runs",
        quick={"n_runs": 1},
        small={"n_steps": 100, "n_runs": 1},
    ),
    Experiment(
        "z02-margin",
        z02.margin,
        minutes=(0.1, 0.1),
        repeats="n_runs",
        quick={"n_runs": 1},
        small={"rounds": (3, 1000), "few_rounds": (3, 30), "n_runs": 1},
    ),
    Experiment(
        "hs08-fig1-left",
        hs08.figure1_left,
        minutes=(0.1, 0.1),
        data=("boston",),
        repeats="n_splits",
    ),
    Experiment("hs08-fig1-right", hs08.figure1_right, minutes=(0.1, 0.1)),
    Experiment(
        "hs08-fig2",
        hs08.figure2,
        minutes=(0.1, 0.1),
        data=("boston",),
        repeats="n_splits",
    ),
    # What the papers say outside tables and figures.
    Experiment("sb01-theorem2", sb01.theorem2, minutes=(0.1, 0.1), data=("abalone",)),
    Experiment(
        "ss00-section6-3",
        ss00.section6_3,
        minutes=(0.1, 0.1),
        data=("abalone",),
        repeats="n_runs",
        quick={"n_runs": 2},
        small={"n_runs": 1},
    ),
    Experiment(
        "ss00-section5-4-trace",
        ss00.section5_4_trace,
        minutes=(0.1, 0.2),
        data=("abalone", "boston"),
        repeats="n_runs",
        quick={"n_runs": 2},
        small={"shares": (1e-3,), "n_runs": 1},
    ),
    Experiment(
        "ss00-section5-4-speed",
        ss00.section5_4_speed,
        minutes=(0.2, 0.2),
        data=("abalone", "boston"),
        quick={"times": 2},
        small={"times": 1},
    ),
    Experiment(
        "z03-section8",
        z03.section8,
        minutes=(0.1, 0.1),
        repeats="n_runs",
        small={"n_runs": 8},
    ),
)

BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}


def chosen(names: list[str] | tuple[str, ...]) -> tuple[Experiment, ...]:
    """Experiments of these names, all if there are none, each once and in the registry's order.

    Raises
    ------
    LookupError
        For a name that is not known, with those nearest to it.
    """
    for name in names:
        if name not in BY_NAME:
            near = get_close_matches(name.lower(), BY_NAME, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else "see `pursuit papers list`."
            raise LookupError(f"there is no experiment {name!r}: {hint}")
    return tuple(e for e in EXPERIMENTS if not names or e.name in names)
