"""Plain numbers in, pictures out.

A Display is made by ``from_estimator`` or from the numbers themselves, and drawn by ``plot``, as in
scikit-learn. These modules import nothing else of the package, and matplotlib only to draw.
"""

from pursuit.plots.bars import CorrelationDisplay, RelevanceDisplay
from pursuit.plots.bounds import BoundDisplay, CertificateDisplay
from pursuit.plots.parts import PartsDisplay
from pursuit.plots.path import PathDisplay
from pursuit.plots.prediction import PredictionDisplay

__all__ = [
    "BoundDisplay",
    "CertificateDisplay",
    "CorrelationDisplay",
    "PartsDisplay",
    "PathDisplay",
    "PredictionDisplay",
    "RelevanceDisplay",
]
