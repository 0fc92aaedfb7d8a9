"""The experiments of five papers: one function per table or figure.

Papers are named by their authors' initials and the year:

- SB01: Smola and Bartlett, *Sparse greedy Gaussian process regression* (2001);
- SS00: Smola and Schölkopf, *Sparse greedy matrix approximation for machine learning* (2000);
- Z03: Zhang, *Approximation bounds for some sparse kernel regression algorithms* (2002);
- Z02: Zhang, *A general greedy approximation algorithm with applications* (2002);
- HS08: Hussain and Shawe-Taylor, *Theory of matching pursuit* (2008).

Every function runs without arguments at the paper's own setting and returns a
:class:`~pursuit.papers.common.PaperResult`, whose verdict follows from the numbers.
:mod:`~pursuit.papers.registry` lists them by name. This package may import everything below the
command line.
"""

from pursuit.papers.common import Panel, PaperResult, Series

__all__ = ["Panel", "PaperResult", "Series"]
