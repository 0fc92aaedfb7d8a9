"""Every table and figure of the five papers by name, in the order in which they are run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from pursuit.papers import hs08, sb01, sb01_theory, ss00, ss00_regression, z02, z03
from pursuit.papers.common import PaperResult, Progress, ignore

PAPERS = {
    "sb01": "Smola and Bartlett, Sparse greedy Gaussian process regression (2001)",
    "ss00": "Smola and Schölkopf, Sparse greedy matrix approximation for machine learning (2000)",
    "z03": "Zhang, Approximation bounds for some sparse kernel regression algorithms",
    "z02": "Zhang, A general greedy approximation algorithm with applications (2002)",
    "hs08": "Hussain and Shawe-Taylor, Theory of matching pursuit (2008)",
}


class Experiment(NamedTuple):
    """How one table or figure is run.

    Attributes
    ----------
    function : callable
        Runs it. Its defaults are the published setting. It takes ``progress``, ``control`` for
        its negative control (the same criteria for an algorithm or for data that are wrong on
        purpose), and ``n_runs`` where seeds, splits or draws are repeated. The first line of its
        docstring says what is shown.
    minutes : (float, float)
        Measured processor time of a quick and of a full run.
    data : tuple of str
        Data sets that need a folder or a download.
    quick : mapping of str to object
        Arguments of a quick run: fewer of the same seeds, sizes or test rows, with the same
        verdict.
    """

    function: Callable[..., PaperResult]
    minutes: tuple[float, float] = (0.1, 0.1)
    data: tuple[str, ...] = ()
    quick: Mapping[str, Any] = {}

    @property
    def title(self) -> str:
        """What is shown: the first line of the function's docstring."""
        return self._description[0].rstrip(".")

    @property
    def notes(self) -> str:
        """What was found and tried: the rest of the docstring, up to its parameters."""
        text = "\n".join(self._description[1:]).split("\nParameters\n")[0]
        return text.replace("``", "").split("Arguments and arrays")[0].strip()

    @property
    def _description(self) -> list[str]:
        return (inspect.getdoc(self.function) or "").splitlines()

    def run(
        self, *, quick: bool = False, seeds: int | None = None, progress: Progress = ignore
    ) -> PaperResult:
        """Run it.

        Parameters
        ----------
        quick : bool
            Whether to run a coarse version.
        seeds : int, optional
            Number of seeds, splits or draws, where there is more than one.
        progress : callable, optional
            Called with a line of text as the work goes on.
        """
        arguments = dict(self.quick if quick else {})
        if seeds is not None and "n_runs" in inspect.signature(self.function).parameters:
            arguments["n_runs"] = seeds
        return self.function(**arguments, progress=progress)


_ABALONE, _BOSTON = ("abalone",), ("boston",)

EXPERIMENTS: dict[str, Experiment] = {
    "sb01-fig1": Experiment(
        sb01.figure1, (0.2, 1.1), _ABALONE, {"n_runs": 2, "subsets": (1, 5, 20, 50, 100)}
    ),
    "sb01-table1": Experiment(sb01_theory.table1, (0.3, 0.3), quick={"times": 3}),
    "sb01-table2-posterior": Experiment(sb01.table2_posterior, (0.5, 1.4), _ABALONE, {"n_runs": 2}),
    "sb01-table2-errorbars": Experiment(
        sb01.table2_errorbars, (0.9, 2.6), _ABALONE, {"n_test": 60}
    ),
    "sb01-testerror": Experiment(sb01.generalization_error, (0.3, 0.3), _ABALONE),
    "sb01-logposterior": Experiment(sb01.log_posterior, (0.3, 0.3), _ABALONE),
    # The fourth data set is the only one that ends above the printed gap.
    "sb01-synthetic": Experiment(sb01.synthetic, (1.0, 1.5), quick={"n_runs": 4}),
    "ss00-fig1": Experiment(
        ss00.figure1,
        (0.1, 0.7),
        ("abalone", "boston", "usps"),
        {"n_runs": 1, "subsets": (1, 5, 20, 50, 100)},
    ),
    "ss00-fig2": Experiment(ss00_regression.figure2, (0.1, 0.3), _ABALONE, {"n_runs": 1}),
    "ss00-fig3": Experiment(ss00.figure3, data=_ABALONE, quick={"n_runs": 1}),
    "ss00-fig4": Experiment(ss00.figure4, data=("usps",)),
    "ss00-fig5": Experiment(ss00_regression.figure5, data=_BOSTON, quick={"n_runs": 3}),
    "z03-table1": Experiment(z03.table1, (0.3, 0.3), quick={"times": 2}),
    "z03-fig1": Experiment(z03.figure1, quick={"n_runs": 2}),
    "z03-fig2": Experiment(z03.figure2, quick={"n_runs": 3}),
    "z03-fig3": Experiment(z03.figure3, quick={"n_runs": 1}),
    "z03-fig4": Experiment(z03.figure4, quick={"n_runs": 1}),
    "z02-rate": Experiment(z02.rate, quick={"n_runs": 1}),
    "z02-margin": Experiment(z02.margin, quick={"n_runs": 1}),
    "hs08-fig1-left": Experiment(hs08.figure1_left, data=_BOSTON),
    "hs08-fig1-right": Experiment(hs08.figure1_right),
    "hs08-fig2": Experiment(hs08.figure2, data=_BOSTON),
    # Statements of the papers outside their tables and figures.
    "sb01-theorem2": Experiment(sb01_theory.theorem2, data=_ABALONE),
    "ss00-section6-3": Experiment(ss00.section6_3, data=_ABALONE, quick={"n_runs": 2}),
    "ss00-section5-4-trace": Experiment(
        ss00_regression.section5_4_trace, (0.1, 0.2), ("abalone", "boston"), {"n_runs": 2}
    ),
    "ss00-section5-4-speed": Experiment(
        ss00_regression.section5_4_speed, (0.2, 0.2), ("abalone", "boston"), {"times": 2}
    ),
    "z03-section8": Experiment(z03.section8),
}


def choose(names: Sequence[str]) -> list[str]:
    """Names of the experiments to run, each once and in the order of the registry.

    All experiments if no name is given.

    Raises
    ------
    LookupError
        For an unknown name, with the nearest known ones.
    """
    for name in names:
        if name not in EXPERIMENTS:
            close = get_close_matches(name.lower(), EXPERIMENTS, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(close)}?" if close else "see `pursuit papers list`."
            raise LookupError(f"there is no experiment {name!r}: {hint}")
    return [name for name in EXPERIMENTS if not names or name in names]
