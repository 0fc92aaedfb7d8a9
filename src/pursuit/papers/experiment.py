"""A table or figure of a paper as something that can be listed and run by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pursuit.papers.common import Progress
from pursuit.papers.result import PaperResult


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    Attributes
    ----------
    name : str
        What the command line calls it, such as ``"sb01-fig1"``.
    function : callable
        Runs it; takes ``progress`` beside what ``full`` and ``quick`` hold.
    minutes : (float, float)
        Processor time of a quick and of a full run.
    data : tuple of str
        Data sets it reads, of those that need a folder or a download.
    repeats : str
        The argument that says how many seeds are run, empty where one is all there is.
    quick, full : mapping of str to object
        Arguments of a coarse run and of the published setting. Both give the same verdict.
    small : mapping of str to object
        Arguments of the smallest run that can be told from its negative control, which is the same
        function with ``control=True``: the same criteria for an algorithm or for data that are
        wrong on purpose.
    """

    name: str
    function: Callable[..., PaperResult]
    minutes: tuple[float, float]
    data: tuple[str, ...] = ()
    repeats: str = ""
    quick: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What it shows: the first line of the function's description."""
        return self._description[0].rstrip(".")

    @property
    def notes(self) -> str:
        """What was found and tried: the rest of that description."""
        text = "\n".join(self._description[1:]).split("\nParameters\n")[0]
        return text.replace("``", "").split("Arguments and arrays")[0].strip()

    @property
    def paper(self) -> str:
        """The paper's short name, such as ``"sb01"``."""
        return self.name.partition("-")[0]

    def arguments(self, *, quick: bool = False, seeds: int | None = None) -> dict[str, Any]:
        """What the function is called with."""
        found = dict(self.quick if quick else self.full)
        if seeds is not None and self.repeats:
            found[self.repeats] = seeds
        return found

    def run(
        self, *, quick: bool = False, seeds: int | None = None, progress: Progress | None = None
    ) -> PaperResult:
        """Run it.

        Parameters
        ----------
        quick : bool
            A coarse run.
        seeds : int, optional
            How many seeds, splits or draws; as many as is usual by default.
        progress : callable, optional
            Called with a line of text as the work goes on.

        Returns
        -------
        result : PaperResult
        """
        return self.function(**self.arguments(quick=quick, seeds=seeds), progress=progress)

    @property
    def _description(self) -> list[str]:
        return (inspect.getdoc(self.function) or "").splitlines()
