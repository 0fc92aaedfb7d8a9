"""One page that tells what a fitted model is, in a file that needs nothing else.

Plain numbers in, HTML out. Imports nothing of this package.
"""

from pursuit.plots.report.content import Curve, Report, Table
from pursuit.plots.report.page import precise, render

__all__ = ["Curve", "Report", "Table", "precise", "render"]
