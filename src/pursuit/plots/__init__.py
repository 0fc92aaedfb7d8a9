"""Plain numbers in, pictures out.

A Display is made by ``from_estimator`` or from the numbers themselves, and drawn by ``plot``, as in
scikit-learn. This room imports nothing of the package, and matplotlib only when something is drawn.
"""

from pursuit.plots.bound import BoundDisplay
from pursuit.plots.certificate import CertificateDisplay
from pursuit.plots.correlation import CorrelationDisplay
from pursuit.plots.path import PathDisplay
from pursuit.plots.prediction import PredictionDisplay
from pursuit.plots.relevance import RelevanceDisplay

__all__ = [
    "BoundDisplay",
    "CertificateDisplay",
    "CorrelationDisplay",
    "PathDisplay",
    "PredictionDisplay",
    "RelevanceDisplay",
]
