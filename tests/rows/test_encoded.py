"""Tables of codes: kernels compare them, everybody else sees zeros and ones."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import Ridge

from pursuit import Categorical, HullRegressor, SparseGPRegressor, SparseKernelRidge, on_columns
from pursuit.rows import ArrayRows, BatchRows, CodedTable, EncodedTable, open_table
from pursuit.testing import check_row_source

LEVELS = {"city": ["Bonn", "Lund", None]}


@pytest.fixture
def numbers() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.column_stack([rng.uniform(0, 3, 60), rng.integers(0, 4, 60), rng.normal(size=60)])


@pytest.fixture
def table(numbers) -> EncodedTable:
    return EncodedTable(CodedTable(ArrayRows(numbers), ["hours", "city", "wind"], LEVELS))


def _plain(numbers: np.ndarray) -> np.ndarray:
    hot = np.array([[float(code == k) for k in range(3)] for code in numbers[:, 1]])
    return np.column_stack([numbers[:, 0], hot, numbers[:, 2]])


def _target(numbers: np.ndarray) -> np.ndarray:
    return np.sin(numbers[:, 0]) * np.where(numbers[:, 1] == 1, -1.0, 1.0)


def test_is_a_source_of_rows(table, numbers):
    check_row_source(table, _plain(numbers))
    check_row_source(table.coded, numbers)
    check_row_source(table.coded.select(["wind", "city"]), numbers[:, [2, 1]])
    assert table.coded.select(["wind"]).levels == {}


def test_plain_numbers_are_zeros_and_ones(table, numbers):
    names = ("hours", "city=Bonn", "city=Lund", "city=(missing)", "wind")
    assert table.columns == names
    np.testing.assert_array_equal(np.asarray(table), _plain(numbers))
    np.testing.assert_array_equal(table.coded.read(["city"])[0], numbers[:, 1])
    y = _target(numbers)
    expected = Ridge().fit(_plain(numbers), y).predict(_plain(numbers))
    np.testing.assert_array_equal(Ridge().fit(table, y).predict(table), expected)


def test_batches_are_encoded_as_they_are_read():
    rows = np.arange(40.0).reshape(20, 2)
    raw = pa.table({"a": [str(a) for a in rows[:, 0]], "b": rows[:, 1]}).to_batches(7)

    def encode(batch, _):
        return np.column_stack(
            [np.array([float(a) for a in batch.column(0).to_pylist()]), batch.column(1).to_numpy()]
        )

    check_row_source(BatchRows(open_table(pa.Table.from_batches(raw)), encode), rows)


def test_a_kernel_that_is_learned_compares_levels(table, numbers):
    y = _target(numbers)
    model = SparseGPRegressor(random_state=0).fit(table, y)
    assert model.categories_ == LEVELS
    kernel = ConstantKernel() * on_columns(RBF(), ["hours", "wind"]) * Categorical(["city"])
    given = SparseGPRegressor(kernel, noise=0.1, optimizer=None, random_state=0).fit(table, y)
    assert given.n_features_in_ == 3
    squared = ((numbers[:, None, [0, 2]] - numbers[None, :, [0, 2]]) ** 2).sum(-1)
    differ = numbers[:, None, 1] != numbers[None, :, 1]
    K = np.exp(-0.5 * squared) * np.where(differ, 0.5, 1.0)
    z = (y - y.mean()) / y.std()
    exact = y.mean() + y.std() * K @ np.linalg.solve(K + 0.1 * np.eye(60), z)
    np.testing.assert_allclose(given.predict(table), exact, rtol=1e-6, atol=1e-6)
    assert model.score(table, y) > 0.9


def test_a_kernel_of_numbers_sees_zeros_and_ones(table, numbers):
    y = _target(numbers)
    model = SparseKernelRidge(RBF(), alpha=0.1).fit(table, y)
    assert model.n_features_in_ == 5
    expected = SparseKernelRidge(RBF(), alpha=0.1).fit(_plain(numbers), y)
    np.testing.assert_array_equal(model.predict(table), expected.predict(_plain(numbers)))
    hull = HullRegressor(random_state=0).fit(table, y).predict(table)
    plain = HullRegressor(random_state=0).fit(_plain(numbers), y).predict(_plain(numbers))
    np.testing.assert_array_equal(hull, plain)


def test_a_kernel_of_some_levels_only_is_refused(numbers):
    levels = {"city": ["Bonn", "Lund", None], "day": ["Mo", "Tu"]}
    rows = numbers.copy()
    rows[:, 2] = rows[:, 2] > 0
    table = EncodedTable(CodedTable(ArrayRows(rows), ["hours", "city", "day"], levels))
    kernel = on_columns(RBF(), ["hours", "day"]) * Categorical(["city"])
    with pytest.raises(ValueError, match="columns of X hold text or categories: 'day'"):
        SparseGPRegressor(kernel).fit(table, _target(numbers))
