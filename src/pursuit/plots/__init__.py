"""Plain numbers in, pictures out.

A Display is made by ``from_estimator`` or from the numbers themselves, and drawn by ``plot``, as in
scikit-learn. These modules import only the metrics of the package, and matplotlib only to draw.
"""

from pursuit.plots.bars import CorrelationDisplay, RelevanceDisplay
from pursuit.plots.bounds import BoundDisplay, CertificateDisplay
from pursuit.plots.calibration import CalibrationDisplay
from pursuit.plots.parts import PartsDisplay
from pursuit.plots.path import PathDisplay
from pursuit.plots.prediction import PredictionDisplay
from pursuit.plots.residuals import ResidualDisplay

__all__ = [
    "BoundDisplay",
    "CalibrationDisplay",
    "CertificateDisplay",
    "CorrelationDisplay",
    "PartsDisplay",
    "PathDisplay",
    "PredictionDisplay",
    "RelevanceDisplay",
    "ResidualDisplay",
]
