"""The loaders against the files they read, and the robot arm against a chain of matrices."""

from __future__ import annotations

import gzip
from urllib.error import URLError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import Bunch

from pursuit import datasets
from pursuit.datasets import (
    load_abalone,
    load_boston,
    load_kin40k,
    load_protein,
    load_usps,
    make_robot_arm,
)

SPLIT_LOADERS = {"housing": load_boston, "kin40k": load_kin40k, "protein": load_protein}
SHAPES = {"housing": (506, 13), "kin40k": (40_000, 8), "protein": (45_730, 9)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A small folder in the format of the real one; files are added by the tests."""
    monkeypatch.setenv("PURSUIT_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("PURSUIT_DATA", raising=False)


@pytest.fixture
def openml(no_folder, monkeypatch):
    """Stand in for OpenML: ``openml(bunch)`` is what the next download returns."""
    asked = []

    def answer_with(bunch):
        def fetch(**kwargs):
            asked.append(kwargs)
            return bunch

        monkeypatch.setattr(datasets, "fetch_openml", fetch)
        return asked

    return answer_with


def write_csv(path, table):
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.writelines(",".join(map(str, row)) + "\n" for row in table)


@pytest.fixture(params=SPLIT_LOADERS)
def small_table(request, folder):
    """Ten rows of each data set with published splits: row i is tested in split i."""
    n_features = SHAPES[request.param][1]
    table = np.arange(10 * (n_features + 1), dtype=float).reshape(10, -1)
    write_csv(folder / f"{request.param}.csv.gz", table)
    write_csv(folder / f"{request.param}.test_mask.csv.gz", np.eye(10, dtype=int))
    return SPLIT_LOADERS[request.param], table


def test_whole_table_is_data_and_target(small_table):
    load, table = small_table
    bunch = load()
    np.testing.assert_array_equal(bunch.data, table[:, :-1])
    np.testing.assert_array_equal(bunch.target, table[:, -1])
    assert len(bunch.feature_names) == table.shape[1] - 1
    assert bunch.DESCR
    X, y = load(return_X_y=True)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)


@pytest.mark.parametrize("split", [0, 3, np.int64(9)])
def test_split_follows_the_mask_column(small_table, split):
    load, table = small_table
    bunch = load(split=split)
    others = np.delete(table, split, axis=0)
    np.testing.assert_array_equal(bunch.X_train, others[:, :-1])
    np.testing.assert_array_equal(bunch.y_train, others[:, -1])
    np.testing.assert_array_equal(bunch.X_test, table[[split], :-1])
    np.testing.assert_array_equal(bunch.y_test, table[[split], -1])
    assert "data" not in bunch
    X_train, y_train, X_test, y_test = load(split=split, return_X_y=True)
    np.testing.assert_array_equal(X_train, bunch.X_train)
    np.testing.assert_array_equal(y_train, bunch.y_train)
    np.testing.assert_array_equal(X_test, bunch.X_test)
    np.testing.assert_array_equal(y_test, bunch.y_test)


@pytest.mark.parametrize("split", [-1, 10])
def test_split_out_of_range(small_table, split):
    load, _ = small_table
    with pytest.raises(ValueError, match=f"split must be from 0 to 9, got {split}"):
        load(split=split)


@pytest.mark.parametrize("split", [True, 1.0, "0"])
def test_split_of_wrong_type(small_table, split):
    load, _ = small_table
    with pytest.raises(TypeError, match="split must be None or an integer"):
        load(split=split)


def test_abalone_sex_becomes_three_columns(folder):
    (folder / "abalone.data").write_text(
        "Sex,Length,Diameter,Height,Wweight,Sweight,Vweight,Shweight,Rings\n"
        "I,1,2,3,4,5,6,7,15\n"
        "M,8,9,10,11,12,13,14,7\n"
        "F,0.5,0,0,0,0,0,0,1\n",
        encoding="utf-8",
    )
    bunch = load_abalone()
    expected = [
        [0, 0, 1, 1, 2, 3, 4, 5, 6, 7],
        [1, 0, 0, 8, 9, 10, 11, 12, 13, 14],
        [0, 1, 0, 0.5, 0, 0, 0, 0, 0, 0],
    ]
    np.testing.assert_array_equal(bunch.data, expected)
    np.testing.assert_array_equal(bunch.target, [15, 7, 1])
    assert bunch.feature_names[:4] == ["Sex M", "Sex F", "Sex I", "Length"]
    assert len(bunch.feature_names) == 10


def test_usps_split_is_train_then_test(folder):
    n_train, n_test = 7291, 3
    pixels = np.linspace(0, 1, (n_train + n_test) * 2, dtype=np.float32).reshape(-1, 2)
    digits = (np.arange(n_train + n_test) % 10).astype(np.int8)
    np.savez(
        folder / "usps.npz",
        X_train=pixels[:n_train],
        y_train=digits[:n_train],
        X_test=pixels[n_train:],
        y_test=digits[n_train:],
    )
    X, y = load_usps(return_X_y=True)
    np.testing.assert_array_equal(X, pixels)
    np.testing.assert_array_equal(y, digits)
    bunch = load_usps(split=0)
    np.testing.assert_array_equal(bunch.X_test, pixels[n_train:])
    np.testing.assert_array_equal(bunch.y_train, digits[:n_train])
    with pytest.raises(ValueError, match="split must be 0, the only split, got 1"):
        load_usps(split=1)


@pytest.mark.parametrize(
    ("load", "file"),
    [
        (load_abalone, "abalone.data"),
        (load_boston, "housing.csv.gz"),
        (load_kin40k, "kin40k.csv.gz"),
        (load_protein, "protein.csv.gz"),
        (load_usps, "usps.npz"),
    ],
)
def test_missing_file_is_named(folder, load, file):
    with pytest.raises(ValueError, match=f"{file} is not in .*PURSUIT_DATA"):
        load()


def test_abalone_from_openml(openml):
    answer = Bunch(
        data=np.array([[0, 1, 2, 3, 4, 5, 6, 7], [1, 8, 9, 10, 11, 12, 13, 14]], dtype=float),
        target=np.array(["15", "7"], dtype=object),
        categories={"Sex": ["I", "M", "F"]},
    )
    asked = openml(answer)
    bunch = load_abalone()
    np.testing.assert_array_equal(bunch.data[:, :4], [[0, 0, 1, 1], [1, 0, 0, 8]])
    np.testing.assert_array_equal(bunch.target, [15, 7])
    assert asked == [{"data_id": 183, "as_frame": False, "parser": "liac-arff"}]


def test_boston_from_openml_decodes_nominal_columns(openml):
    names = "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT".split()
    data = np.zeros((3, 13))
    data[:, 8] = [0, 2, 1]
    answer = Bunch(
        data=data,
        target=np.array([20.0, 30.0, 10.0]),
        feature_names=names,
        categories={"CHAS": ["0", "1"], "RAD": ["4", "5", "24"]},
    )
    openml(answer)
    bunch = load_boston()
    np.testing.assert_allclose(bunch.data[:, 8], [-7, 13, -6])  # 4, 24, 5 less their mean
    np.testing.assert_allclose(bunch.target, [0, 10, -10])
    assert bunch.feature_names == names


def test_protein_and_usps_from_openml(openml):
    data = np.array([[-1.0, 1.0], [0.0, -1.0]])
    openml(Bunch(data=data, target=np.array(["10", "1"], dtype=object)))
    X, y = load_usps(return_X_y=True)
    np.testing.assert_array_equal(X, [[0, 1], [0.5, 0]])
    np.testing.assert_array_equal(y, [9, 0])
    openml(Bunch(data=data, target=np.array([1.0, 3.0])))
    X, y = load_protein(return_X_y=True)
    np.testing.assert_array_equal(X, [[-0.5, 1], [0.5, -1]])
    np.testing.assert_array_equal(y, [-1, 1])


@pytest.mark.parametrize("load", [load_boston, load_protein, load_usps])
def test_split_without_folder(no_folder, load):
    with pytest.raises(ValueError, match=r"split=0 needs the published splits.*PURSUIT_DATA"):
        load(split=0)


def test_kin40k_without_folder(no_folder):
    with pytest.raises(ValueError, match=r"set the environment variable PURSUIT_DATA.*robot_arm"):
        load_kin40k()


def test_no_network(no_folder, monkeypatch):
    def unreachable(**kwargs):
        raise URLError("no route")

    monkeypatch.setattr(datasets, "fetch_openml", unreachable)
    with pytest.raises(ValueError, match=r"abalone could not be downloaded.*PURSUIT_DATA"):
        load_abalone()


@pytest.mark.parametrize("name", SPLIT_LOADERS)
def test_real_tables(data_dir, name):
    n_rows, n_features = SHAPES[name]
    bunch = SPLIT_LOADERS[name](split=0)
    assert bunch.X_train.shape[1] == bunch.X_test.shape[1] == len(bunch.feature_names) == n_features
    assert len(bunch.y_train) + len(bunch.y_test) == n_rows
    assert len(bunch.y_test) == pytest.approx(n_rows / 10, rel=0.02)
    y = np.concatenate([bunch.y_train, bunch.y_test])
    assert abs(y.mean()) < 1e-3 * y.std()


def test_real_abalone_and_usps(data_dir):
    abalone = load_abalone()
    assert abalone.data.shape == (4177, 10)
    np.testing.assert_array_equal(abalone.data[:, :3].sum(axis=1), 1)
    assert (abalone.target.min(), abalone.target.max()) == (1, 29)
    usps = load_usps(split=0)
    assert usps.X_train.shape == (7291, 256)
    assert usps.X_test.shape == (2007, 256)
    assert len(usps.feature_names) == 256
    assert set(usps.y_test) == set(range(10))


def hand_by_matrices(angles):
    """One arm position at a time, outermost rotation applied last."""
    hand = np.zeros(3)
    for joint in range(len(angles), 0, -1):
        c, s = np.cos(angles[joint - 1]), np.sin(angles[joint - 1])
        vertical = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        horizontal = np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])
        hand = (vertical if joint % 2 == 1 else horizontal) @ (hand + [1 / len(angles), 0, 0])
    return hand


@given(n_joints=st.integers(1, 9), seed=st.integers(0, 1000))
def test_robot_arm_is_its_formula(n_joints, seed):
    arm = make_robot_arm(6, n_joints=n_joints, noise=0, random_state=seed)
    distances = [np.linalg.norm(hand_by_matrices(row) - 0.5) for row in arm.data]
    np.testing.assert_allclose(arm.target, distances, rtol=1e-12)
    assert np.abs(arm.data).max() <= np.pi / 2
    assert len(arm.feature_names) == n_joints


def test_robot_arm_seed_and_noise():
    quiet = make_robot_arm(4000, noise=0, random_state=1)
    noisy = make_robot_arm(4000, noise=0.2, random_state=1)
    again = make_robot_arm(4000, noise=0.2, random_state=1)
    np.testing.assert_array_equal(quiet.data, noisy.data)
    np.testing.assert_array_equal(noisy.target, again.target)
    assert np.std(noisy.target - quiet.target) == pytest.approx(0.2, rel=0.1)
    assert not np.array_equal(quiet.data, make_robot_arm(4000, random_state=2).data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_rows": 0}, "n_rows must be at least 1, got 0"),
        ({"n_joints": 0}, "n_joints must be at least 1, got 0"),
        ({"noise": -0.1}, "noise is a standard deviation and must not be negative, got -0.1"),
    ],
)
def test_robot_arm_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_robot_arm(**arguments)
