"""Parameters that many estimators have, in the terms of scikit-learn's validation."""

from __future__ import annotations

import numbers
import os
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, Options, StrOptions

from pursuit.estimators.search import Evidence, Search

Constraints = dict[str, list[Any]]

KERNEL: Constraints = {
    "gamma": [None, Interval(numbers.Real, 0, None, closed="left")],
    "coef0": [None, numbers.Real],
    "degree": [None, Interval(numbers.Real, 0, None, closed="neither")],
    "kernel_params": [None, dict],
}
"""Parameters of a kernel given by name."""

SEARCH: list[Any] = [str, Search]
"""How a basis is searched for; names and fields are checked by `resolve_search`."""

OPTIMIZER: list[Any] = [None, StrOptions({"evidence"}), Evidence]
"""How hyper-parameters are learned."""

REFINE: list[Any] = [
    StrOptions({"auto"}),
    Options(bool, {False}),
    Interval(numbers.Integral, 0, None, closed="left"),
]
"""Gradient steps that move the chosen points."""

CHECKPOINT: list[Any] = [None, str, os.PathLike]
"""A folder that records the finished stages of a fit."""

EXECUTION: Constraints = {
    "n_jobs": [None, numbers.Integral],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
"""Of how a fit runs."""

MAX_TIME: list[Any] = [None, Interval(numbers.Real, 0, None, closed="neither")]
"""Seconds that a fit may take."""

DTYPE: list[Any] = [StrOptions({"float64", "float32"}), Options(type, {np.float32, np.float64})]
"""Type of the kernel tiles."""
