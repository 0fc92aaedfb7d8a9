"""Data sets of the papers and of the benchmarks, and a robot arm that needs no file.

The loaders read from the folder named by the environment variable ``PURSUIT_DATA``. If it is not
set, they download from OpenML the data sets that it has; nothing else uses the network. Nothing is
standardised: that is the caller's choice. This module imports nothing else of the package.

Every loader returns a :class:`sklearn.utils.Bunch` with ``data``, ``target``, ``feature_names`` and
``DESCR``. A published split, ``split=0`` say, replaces the first two by ``X_train``, ``y_train``,
``X_test`` and ``y_test``. ``return_X_y=True`` returns those arrays alone, in this order.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, Protocol, cast, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch, check_random_state

from pursuit._types import Floats

__all__ = [
    "load_abalone",
    "load_boston",
    "load_kin40k",
    "load_protein",
    "load_usps",
    "make_robot_arm",
]

Arrays = tuple[NDArray[Any], ...]

_ABALONE_SEXES = ("M", "F", "I")
_ABALONE_MEASURES = ["Length", "Diameter", "Height"] + [
    f"{part} weight" for part in ("Whole", "Shucked", "Viscera", "Shell")
]
_BOSTON_FEATURES = "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT".split()
_USPS_TRAIN_ROWS = 7291


class SplitLoader(Protocol):
    """A loader of a data set with published splits."""

    @overload
    def __call__(self, *, return_X_y: Literal[False] = ..., split: int | None = ...) -> Bunch: ...
    @overload
    def __call__(self, *, return_X_y: Literal[True], split: int | None = ...) -> Arrays: ...


def _typed(loader: Any) -> SplitLoader:
    """Say which of its types a loader returns."""
    return cast(SplitLoader, loader)


@overload
def load_abalone(*, return_X_y: Literal[False] = ...) -> Bunch: ...
@overload
def load_abalone(*, return_X_y: Literal[True]) -> Arrays: ...
def load_abalone(*, return_X_y: bool = False) -> Bunch | Arrays:
    """Load Abalone: the rings of 4 177 shells from ten features.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` in place of a Bunch.

    Returns
    -------
    Bunch or tuple of arrays
        The sex is given by three 0/1 columns (male, female, infant), as in the papers, followed
        by seven measurements. Rows are in their original order; there is no published split.
    """
    folder = _data_folder()
    if folder is None:
        table = _from_openml("abalone", data_id=183)
        names = [table.categories["Sex"][int(code)] for code in table.data[:, 0]]
        measures, y = table.data[:, 1:], table.target
    else:
        cells = np.loadtxt(_file(folder, "abalone.data"), delimiter=",", dtype=str, skiprows=1)
        names, measures, y = list(cells[:, 0]), cells[:, 1:-1], cells[:, -1]
    sexes = np.array(names)[:, None] == np.array(_ABALONE_SEXES)
    return _deliver(
        np.hstack([sexes, measures.astype(float)]),
        y.astype(float),
        [f"Sex {sex}" for sex in _ABALONE_SEXES] + _ABALONE_MEASURES,
        "UCI Abalone: the number of rings (age) of a shell from its sex and seven measurements.",
        return_X_y,
    )


@_typed
def load_boston(*, return_X_y: bool = False, split: int | None = None) -> Bunch | Arrays:
    """Load Boston Housing: 506 rows, 13 features, every column centred.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return the arrays in place of a Bunch.
    split : int, optional
        Number of one of the ten published 90/10 splits, 0 to 9; needs ``PURSUIT_DATA``.

    Returns
    -------
    Bunch or tuple of arrays
        Row order differs between the folder and OpenML.
    """
    if _data_folder() is None:
        table = _from_openml("boston", data_id=531, split=split)
        X = table.data.astype(float)
        for name, values in table.categories.items():
            column = table.feature_names.index(name)
            X[:, column] = np.array(values, dtype=float)[X[:, column].astype(int)]
        X, y = _centred(X, table.target)
    else:
        X, y = _from_csv("housing")
    return _deliver(
        X,
        y,
        list(_BOSTON_FEATURES),
        "Boston Housing: the median value of homes in 506 tracts, in 1000 dollars, centred.",
        return_X_y,
        _published_split("housing", split),
    )


@_typed
def load_usps(*, return_X_y: bool = False, split: int | None = None) -> Bunch | Arrays:
    """Load USPS: 9 298 handwritten digits, 16 x 16 grey pixels in [0, 1].

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return the arrays in place of a Bunch.
    split : {0}, optional
        The one published split, 7 291 for training and 2 007 for testing; needs ``PURSUIT_DATA``.

    Returns
    -------
    Bunch or tuple of arrays
        Targets are the digits 0 to 9. In the folder's file, training rows come before test rows.
    """
    folder = _data_folder()
    if folder is None:
        table = _from_openml("USPS", data_id=41082, split=split)
        # On OpenML, pixels are from -1 to 1 and the classes are named "1" to "10".
        X, y = (table.data + 1) / 2, table.target.astype(int) - 1
    else:
        with np.load(_file(folder, "usps.npz")) as arrays:
            X = np.vstack([arrays["X_train"], arrays["X_test"]]).astype(float)
            y = np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(int)
    is_test = None
    if split is not None:
        _check_split(split, n_splits=1)
        is_test = np.arange(len(y)) >= _USPS_TRAIN_ROWS
    return _deliver(
        X,
        y,
        [f"pixel {row},{column}" for row in range(16) for column in range(16)],
        "USPS: handwritten digits from envelopes, 16 x 16 grey pixels.",
        return_X_y,
        is_test,
    )


@_typed
def load_kin40k(*, return_X_y: bool = False, split: int | None = None) -> Bunch | Arrays:
    """Load kin40k: a robot arm, 40 000 rows, 8 features; needs ``PURSUIT_DATA``.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return the arrays in place of a Bunch.
    split : int, optional
        Number of one of the ten published 90/10 splits, 0 to 9.

    Returns
    -------
    Bunch or tuple of arrays
        For data of this kind without a file, see :func:`make_robot_arm`.
    """
    if _data_folder() is None:
        raise ValueError(
            "kin40k is not on OpenML: set the environment variable PURSUIT_DATA to a folder with "
            "kin40k.csv.gz, or use make_robot_arm() for data of the same kind"
        )
    X, y = _from_csv("kin40k")
    return _deliver(
        X,
        y,
        [f"joint {number}" for number in range(1, 9)],
        "kin40k: forward kinematics of an 8-link robot arm, nearly without noise.",
        return_X_y,
        _published_split("kin40k", split),
    )


@_typed
def load_protein(*, return_X_y: bool = False, split: int | None = None) -> Bunch | Arrays:
    """Load Protein (CASP): 45 730 decoys, 9 features, every column centred.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return the arrays in place of a Bunch.
    split : int, optional
        Number of one of the ten published 90/10 splits, 0 to 9; needs ``PURSUIT_DATA``.

    Returns
    -------
    Bunch or tuple of arrays
        Row order differs between the folder and OpenML.
    """
    if _data_folder() is None:
        table = _from_openml("physiochemical_protein", data_id=44963, split=split)
        X, y = _centred(table.data, table.target)
    else:
        X, y = _from_csv("protein")
    return _deliver(
        X,
        y,
        [f"F{number}" for number in range(1, 10)],
        "UCI Protein (CASP): distance of a decoy from the native structure, in angstrom, centred.",
        return_X_y,
        _published_split("protein", split),
    )


def make_robot_arm(
    n_rows: int = 1000,
    *,
    n_joints: int = 8,
    noise: float = 0.01,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    r"""Simulate the forward kinematics of a robot arm.

    The arm has `n_joints` links of equal length and reaches 1 metre. Joint j turns by the angle
    :math:`\theta_j`, drawn uniformly from :math:`[-\pi/2, \pi/2]`, about the vertical axis where j
    is odd and about a horizontal one where it is even. With rotations :math:`R_j` and the link
    :math:`\ell = (1 / n_{joints}, 0, 0)` the hand is at

    .. math:: h = R_1(\ell + R_2(\ell + \dots R_n \ell))

    and the target is :math:`\lVert h - (½, ½, ½) \rVert` plus Gaussian noise, in metres.

    Parameters
    ----------
    n_rows : int, default=1000
        Number of arm positions.
    n_joints : int, default=8
        Number of joints, which is the number of features.
    noise : float, default=0.01
        Standard deviation of the noise, in metres.
    random_state : int, RandomState instance or None, default=None
        Seed of the angles and of the noise.

    Returns
    -------
    Bunch
        ``data`` (angles in radians), ``target``, ``feature_names`` and ``DESCR``.

    Examples
    --------
    >>> from pursuit.datasets import make_robot_arm
    >>> make_robot_arm(5, random_state=0).data.shape
    (5, 8)
    """
    if n_rows < 1:
        raise ValueError(f"n_rows must be at least 1, got {n_rows}")
    if n_joints < 1:
        raise ValueError(f"n_joints must be at least 1, got {n_joints}")
    if noise < 0:
        raise ValueError(f"noise is a standard deviation and must not be negative, got {noise}")
    rng = check_random_state(random_state)
    angles = rng.uniform(-np.pi / 2, np.pi / 2, size=(n_rows, n_joints))
    x, y, z = np.zeros((3, n_rows))
    for joint in reversed(range(n_joints)):
        cos, sin = np.cos(angles[:, joint]), np.sin(angles[:, joint])
        x = x + 1 / n_joints
        if joint % 2 == 0:
            x, y = cos * x - sin * y, sin * x + cos * y
        else:
            x, z = cos * x - sin * z, sin * x + cos * z
    distance = np.sqrt((x - 0.5) ** 2 + (y - 0.5) ** 2 + (z - 0.5) ** 2)
    return _deliver(
        angles,
        distance + noise * rng.standard_normal(n_rows),
        [f"angle {number}" for number in range(1, n_joints + 1)],
        f"Simulated robot arm: distance from the hand to a point, {n_joints} joints.",
        return_X_y=False,
    )


def _data_folder() -> Path | None:
    """The folder in ``PURSUIT_DATA``, or None if the variable is not set."""
    value = os.environ.get("PURSUIT_DATA")
    return Path(value) if value else None


def _file(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise ValueError(
            f"{name} is not in {folder}: put it there, set the environment variable PURSUIT_DATA "
            "to a folder that has it, or unset the variable to download from OpenML"
        )
    return path


def _read_numbers(name: str) -> Floats:
    folder = _data_folder()
    if folder is None:
        raise ValueError(f"{name} is read from a folder: set PURSUIT_DATA to the one that has it")
    return np.loadtxt(_file(folder, name), delimiter=",", ndmin=2)


def _from_csv(stem: str) -> Arrays:
    """Read ``stem.csv.gz``: no header, the last column is the target."""
    table = _read_numbers(f"{stem}.csv.gz")
    return table[:, :-1], table[:, -1]


def _published_split(stem: str, split: int | None) -> NDArray[np.bool_] | None:
    """Return the test rows of a split: column `split` of ``stem.test_mask.csv.gz``."""
    if split is None:
        return None
    masks = _read_numbers(f"{stem}.test_mask.csv.gz")
    _check_split(split, masks.shape[1])
    is_test: NDArray[np.bool_] = masks[:, split] == 1
    return is_test


def _check_split(split: int, n_splits: int) -> None:
    # operator.index would take True for 1, which nobody means.
    if isinstance(split, bool) or not isinstance(split, int | np.integer):
        raise TypeError(f"split must be None or an integer, got {split!r}")
    if not 0 <= split < n_splits:
        allowed = "0, the only split" if n_splits == 1 else f"from 0 to {n_splits - 1}"
        raise ValueError(f"split must be {allowed}, got {split}")


def _from_openml(name: str, *, data_id: int, split: int | None = None) -> Bunch:
    """Download a data set, without pandas: nominal features are codes."""
    if split is not None:
        raise ValueError(
            f"split={split} needs the published splits of {name}, which OpenML does not have: set "
            "the environment variable PURSUIT_DATA to a folder with them, or leave split=None"
        )
    try:
        return fetch_openml(data_id=data_id, as_frame=False, parser="liac-arff")
    except OSError as error:
        raise ValueError(
            f"{name} could not be downloaded from OpenML ({error}): set the environment variable "
            "PURSUIT_DATA to a folder that has it"
        ) from error


def _centred(X: NDArray[Any], y: NDArray[Any]) -> Arrays:
    """Centre every column, like the files in the folder."""
    y = y.astype(float)
    return X - X.mean(axis=0), y - y.mean()


def _deliver(
    data: NDArray[Any],
    target: NDArray[Any],
    feature_names: list[str],
    description: str,
    return_X_y: bool,
    is_test: NDArray[np.bool_] | None = None,
) -> Bunch | Arrays:
    if is_test is None:
        arrays = {"data": data, "target": target}
    else:
        arrays = {
            "X_train": data[~is_test],
            "y_train": target[~is_test],
            "X_test": data[is_test],
            "y_test": target[is_test],
        }
    if return_X_y:
        return tuple(arrays.values())
    return Bunch(**arrays, feature_names=feature_names, DESCR=description)
