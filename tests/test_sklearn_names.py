"""What takes the place of scikit-learn's private names does as they do."""

import importlib.util
import re
import sys
from numbers import Integral, Real
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import sklearn.base
import sklearn.utils
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.utils import validation

import pursuit
from pursuit import _sklearn

SOURCES = Path(pursuit.__file__).parent
VALUES = (
    None, True, np.True_, 0, 1, -1, 2, 0.0, 0.5, 1.0, 1.5, -0.5, np.nan, np.inf, -np.inf, "a",
    "auto", b"a", [1.0], (1.0,), {}, {"a": 1}, np.ones(2), np.float64(0.5), np.int64(3), np.float32,
    2**32, 2**32 - 1, len, np.random.RandomState(0), np.random.default_rng(0), Path("x"), 1j,
)  # fmt: skip


def same(value, expected):
    """Whether two calls had the same result, or failed with errors of the same kind."""
    if isinstance(expected, Exception):
        return isinstance(value, Exception) and isinstance(value, ValueError | TypeError)
    return type(value) is type(expected) and np.array_equal(value, expected)


def result(function, *args, **keywords):
    try:
        return function(*args, **keywords)
    except (TypeError, ValueError) as error:
        return error


def test_private_names_are_imported_in_one_module_alone():
    private = re.compile(
        r"^\s*(from sklearn[\w.]*\._|import sklearn[\w.]*\._|from sklearn[\w.]* import .*\b_\w)"
        r"|sklearn\.(\w+\.)*_[a-z]",
        re.MULTILINE,
    )
    for path in SOURCES.rglob("*.py"):
        if path.name != "_sklearn.py":
            # Names in parentheses, on lines of their own, stand on one line for this.
            text = re.sub(
                r"\(\n([^()]*)\)", lambda m: m[1].replace("\n", " "), path.read_text("utf-8")
            )
            assert not private.search(text), path


@pytest.fixture
def without_private_names(monkeypatch):
    """A copy of the module as it is loaded beside a scikit-learn without its private names."""
    monkeypatch.delattr(sklearn.base, "_fit_context")
    monkeypatch.delattr(validation, "_num_samples")
    monkeypatch.delattr(validation, "_check_sample_weight")
    for module in ("_param_validation", "_set_output"):
        monkeypatch.delattr(sklearn.utils, module)
        monkeypatch.setitem(sys.modules, f"sklearn.utils.{module}", None)
    spec = importlib.util.spec_from_file_location("copy_of_sklearn_names", _sklearn.__file__)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_names_that_are_gone_are_replaced(without_private_names):
    found = without_private_names
    assert found.num_samples is found.own_num_samples
    assert found.check_sample_weight is found.own_check_sample_weight
    assert found.get_output_config is found.own_get_output_config
    assert found.fit_context is found.own_fit_context
    assert (found.Interval, found.Options) == (found.OwnInterval, found.OwnOptions)
    assert (found.StrOptions, found.HasMethods) == (found.OwnStrOptions, found.OwnHasMethods)


@pytest.mark.parametrize("rows", [*VALUES, scipy.sparse.eye(3, format="csr"), BaseEstimator()])
def test_rows_are_counted_as_scikit_learn_counts_them(rows):
    assert same(result(_sklearn.own_num_samples, rows), result(_sklearn.num_samples, rows))


def containers():
    numbers = np.arange(12.0).reshape(6, 2)
    yield numbers
    yield numbers[:, 0]
    yield numbers.tolist()
    yield ["a", "b", "c", "d", "e", "f"]
    yield scipy.sparse.csr_array(numbers)
    for name in ("pandas", "polars"):
        frames = pytest.importorskip(name)
        frame = frames.DataFrame({"a": numbers[:, 0], "b": list("uvwxyz")})
        yield frame
        yield frame["b"]


@pytest.mark.parametrize("rows", list(containers()), ids=lambda rows: type(rows).__name__)
@pytest.mark.parametrize("index", [[4, 0, 0, 5], [], range(2, 4)])
def test_rows_are_taken_as_scikit_learn_takes_them(rows, index):
    index = np.array(index, dtype=np.intp)
    taken, expected = _sklearn.safe_indexing(rows, index), sklearn.utils._safe_indexing(rows, index)
    assert type(taken) is type(expected)
    if scipy.sparse.issparse(taken):
        taken, expected = taken.toarray(), expected.toarray()
    assert np.asarray(taken).tolist() == np.asarray(expected).tolist()


def test_rows_of_arrow_are_taken():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [1, 2, 3]})
    assert _sklearn.safe_indexing(table, np.array([2, 0])).to_pydict() == {"a": [3, 1]}
    assert _sklearn.safe_indexing(table["a"], np.array([2, 0])).to_pylist() == [3, 1]


@pytest.mark.parametrize(
    "weights", [None, 2.0, 3, [1, 2, 3], [1.0, 2.0], [[1.0, 2.0, 3.0]], [1.0, -1.0, 2.0],
                [1.0, np.nan, 2.0], "abc", np.ones(3, np.float32)],
)  # fmt: skip
def test_weights_are_checked_as_scikit_learn_checks_them(weights):
    given = weights, np.empty((3, 1))
    options = {"dtype": np.float64, "ensure_non_negative": True}
    own = result(_sklearn.own_check_sample_weight, *given, **options)
    assert same(own, result(_sklearn.check_sample_weight, *given, **options))


def test_the_container_of_the_output_is_the_one_that_was_asked_for():
    encoder = pursuit.TableEncoder()
    with config_context(transform_output="polars"):
        assert _sklearn.own_get_output_config("transform", encoder) == {"dense": "polars"}
    assert _sklearn.own_get_output_config("transform", encoder) == {"dense": "default"}
    encoder.set_output(transform="pandas")
    assert _sklearn.own_get_output_config("transform", encoder) == {"dense": "pandas"}


# Constraints


PAIRS = [
    ("Interval", (Real, 0, None), {"closed": "neither"}),
    ("Interval", (Real, 0, 1), {"closed": "both"}),
    ("Interval", (Real, 0, 1), {"closed": "left"}),
    ("Interval", (Real, None, 1), {"closed": "right"}),
    ("Interval", (Integral, 1, None), {"closed": "left"}),
    ("Options", (type, {np.float32, np.float64}), {}),
    ("Options", (bool, {False}), {}),
    ("StrOptions", ({"auto", "a"},), {}),
    ("HasMethods", (["fit", "predict"],), {}),
]


@pytest.mark.parametrize(("name", "args", "keywords"), PAIRS)
def test_constraints_hold_for_the_same_values(name, args, keywords):
    own = getattr(_sklearn, f"Own{name}")(*args, **keywords)
    theirs = getattr(_sklearn, name)(*args, **keywords)
    for value in (*VALUES, sklearn.base.BaseEstimator(), pursuit.SparseGPRegressor()):
        try:
            expected = theirs.is_satisfied_by(value)
        except TypeError:  # an array or a dict among options
            continue
        assert own.is_satisfied_by(value) == expected, value


@pytest.mark.parametrize("name", ["SparseGPRegressor", "LowRankSVC", "HullBoostClassifier"])
def test_parameters_are_refused_that_scikit_learn_refuses(name):
    estimator = getattr(pursuit, name)()
    for parameter in estimator.get_params(deep=False):
        for value in VALUES:
            changed = getattr(pursuit, name)(**{parameter: value})
            theirs = result(changed._validate_params)
            own = result(_sklearn.own_check_parameters, changed)
            assert same(own, theirs), (parameter, value, own, theirs)


class Refusing(BaseEstimator):
    """Allows one parameter to be above 0, and has a fit that fits another such estimator."""

    _parameter_constraints = {  # noqa: RUF012
        "size": [_sklearn.OwnInterval(Real, 0, None, closed="neither"), None]
    }

    def __init__(self, size=None, inner=None):
        self.size, self.inner = size, inner

    @_sklearn.own_fit_context(prefer_skip_nested_validation=True)
    def fit(self):
        """Fit nothing."""
        return self.inner and self.inner.fit()


def test_a_fit_checks_its_parameters_first():
    message = "The 'size' parameter of Refusing must be a float in the range (0, inf) or None."
    with pytest.raises(ValueError, match=re.escape(message)):
        Refusing(-1).fit()
    assert Refusing(1, Refusing(-1)).fit() is None
    with config_context(skip_parameter_validation=True):
        Refusing(-1).fit()
