"""The papers' experiments, one module a paper, one function a table or figure.

Every function runs with no arguments at the paper's own setting and returns a
:class:`~pursuit.papers.result.PaperResult`, whose verdict is computed from the numbers;
:mod:`~pursuit.papers.registry` has them all by name. May import everything below the command line.
"""

from pursuit.papers.chart import Chart, Panel, Series
from pursuit.papers.result import PaperResult

__all__ = ["Chart", "Panel", "PaperResult", "Series"]
