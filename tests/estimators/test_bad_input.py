"""Bad and borderline input: an error that names the argument, or the obviously right answer."""

import re
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel

import pursuit
from pursuit import LowRankSVC, LPMachineClassifier, Search, SparseGPRegressor

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""

SEARCHES = ["pooled", "fresh", "full"]


def label(value):
    """A short name of a case: its arguments, with arrays by their shape."""
    if not isinstance(value, dict):
        return ""
    parts = (
        (name, f"{v.shape}" if isinstance(v, np.ndarray) else f"{v}") for name, v in value.items()
    )
    return ",".join(f"{name}={part}" for name, part in parts)


def finite(model, X):
    mean, std = model.predict(X, return_std=True)
    return bool(np.all(np.isfinite(mean)) and np.all(np.isfinite(std)) and np.all(std >= 0))


# Numbers


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["X", "y", "sample_weight"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_not_finite(waves, bad, where, container):
    data = waves(20)
    passed = {"X": data.X.copy(), "y": data.y.copy(), "sample_weight": np.ones(20)}
    passed[where].reshape(-1)[3] = bad
    passed["X"] = container(passed["X"])
    with pytest.raises(ValueError, match=f"Input {where} contains (NaN|infinity)"):
        SparseGPRegressor(n_basis=5).fit(**passed)


def test_not_finite_at_predict(waves):
    data = waves(20)
    model = SparseGPRegressor(n_basis=5).fit(data.X, data.y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict([[np.nan, 0.0]])
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model.certify(data.X, np.full(20, np.nan))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"noise": 0}, ValueError, "noise must be a positive number"),
        ({"noise": -1.0}, ValueError, "noise must be a positive number"),
        ({"noise": np.nan}, ValueError, "noise must be a positive number"),
        ({"noise": np.inf}, ValueError, "noise must be a positive number"),
        ({"noise": "auto"}, ValueError, "'noise' parameter"),
        ({"noise": None}, ValueError, "'noise' parameter"),
        ({"n_basis": 0}, ValueError, "'n_basis' parameter"),
        ({"n_basis": -3}, ValueError, "'n_basis' parameter"),
        ({"n_basis": 2.5}, ValueError, "'n_basis' parameter"),
        ({"tol": 0.0}, ValueError, "'tol' parameter"),
        ({"tol": -1e-3}, ValueError, "'tol' parameter"),
        ({"tol": np.nan}, ValueError, "tol"),
        ({"search": "best"}, ValueError, "search must be 'pooled', 'fresh', 'full' or a Search"),
        ({"search": None}, ValueError, "'search' parameter"),
        ({"search": Search(candidates=np.ones((5, 3)))}, ValueError, "candidates"),
        ({"search": Search(candidates=np.full((5, 2), np.nan))}, ValueError, "candidates"),
        ({"search": Search(candidates=np.ones((0, 2)))}, ValueError, "candidates"),
        (
            {"search": Search("fresh", candidates="kmeans")},
            ValueError,
            "candidates has no effect on a fresh search.*it takes pool_size, score",
        ),
        (
            {"search": Search("full", candidates=np.ones((3, 2)))},
            ValueError,
            "candidates has no effect on a full search.*it takes score",
        ),
        (
            {"search": Search("fresh", rounds=7)},
            ValueError,
            "rounds has no effect on a fresh search",
        ),
        (
            {"search": Search(candidates=np.ones((3, 2)), pool_size=7)},
            ValueError,
            "pool_size has no effect, since your own points are the pool",
        ),
        (
            {"search": Search(candidates="kmeans"), "kernel": "precomputed"},
            ValueError,
            "kernel='precomputed' knows only its rows",
        ),
        ({"optimizer": "adam"}, ValueError, "'optimizer' parameter"),
        ({"normalize_y": "yes"}, ValueError, "'normalize_y' parameter"),
        ({"certificate": "tight"}, ValueError, "'certificate' parameter"),
        ({"tol": 0.1, "certificate": None}, ValueError, "tol.*certificate=None"),
        ({"max_time": 0}, ValueError, "'max_time' parameter"),
        ({"dtype": "float16"}, ValueError, "'dtype' parameter"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"n_jobs": 1.5}, ValueError, "'n_jobs' parameter"),
        ({"random_state": "x"}, ValueError, "'random_state' parameter"),
        ({"kernel": "rbff"}, ValueError, "kernel='rbff' is not a known name"),
        ({"kernel": 3.0}, ValueError, "'kernel' parameter"),
        ({"kernel": RBF}, TypeError, r"did you mean RBF\(\)"),
        ({"kernel": "rbf", "gamma": -1.0}, ValueError, "'gamma' parameter"),
        ({"kernel": "rbf", "gamma": 0.0}, ValueError, "gamma must be positive"),
        ({"kernel": RBF(), "gamma": 1.0}, ValueError, "gamma belongs to kernels given by name"),
        ({"kernel": RBF(), "kernel_params": {"a": 1}}, ValueError, "kernel_params"),
        ({"kernel": "rbf", "kernel_params": {"a": 1}}, ValueError, "a is not a parameter"),
        ({"kernel": RBF([1.0, 2.0, 3.0])}, ValueError, "length_scale.*3.*2"),
        ({"kernel": WhiteKernel()}, ValueError, "noise only"),
        ({"kernel": RBF() * WhiteKernel()}, ValueError, "WhiteKernel"),
    ],
    ids=label,
)
def test_bad_arguments(waves, arguments, error, message):
    data = waves(20)
    with pytest.raises(error, match=message):
        SparseGPRegressor(**arguments).fit(data.X, data.y)


# Shapes


@pytest.mark.parametrize(
    ("X", "y", "weights", "message"),
    [
        (np.ones((5, 2)), np.ones(4), None, "inconsistent numbers of samples"),
        (np.ones(5), np.ones(5), None, "2D array"),
        (
            np.ones((5, 2, 2)),
            np.ones(5),
            None,
            r"^X has too many dimensions: .* dim 3\b.* X\.reshape\(len\(X\), -1\)",
        ),
        (np.ones((0, 2)), np.ones(0), None, "X is too small.*0 sample"),
        (np.ones((5, 0)), np.ones(5), None, "0 feature"),
        (np.ones((5, 2)), np.ones((5, 2, 2)), None, "y must have one or two dimensions"),
        (np.ones((5, 2)), np.ones((5, 0)), None, "y"),
        (np.ones((5, 2)), None, None, "y.*None.*fit\\(X, y\\)"),
        (np.ones((5, 2)), 3.0, None, "y"),
        (np.ones((5, 2)), np.array(list("abcde")), None, "convert string to float|y"),
        (np.ones((5, 2)), np.ones(5), np.ones(4), "sample_weight"),
        (np.ones((5, 2)), np.ones(5), np.ones((5, 2)), "1D|sample_weight|Sample weights"),
        (np.ones((5, 2)), np.ones(5), -np.ones(5), "sample_weight"),
        (np.ones((5, 2)), np.ones(5), "balanced", "sample_weight holds text .* pass one number"),
        (np.ones((5, 2)), np.ones(5), list("abcde"), r"sample_weight holds text \('a'\)"),
        (np.ones((5, 2)), np.ones(5), np.zeros(5), "sample_weight|Sample weights"),
        (["a", "b"], np.ones(2), None, "kernel|numeric|string"),
        ([], [], None, "X|sample"),
    ],
)
def test_bad_shapes(X, y, weights, message):
    with pytest.raises(ValueError, match=message):
        fixed_gp(RBF(), noise=0.1).fit(X, y, weights)


def test_targets_of_three_dimensions_are_not_called_rows():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.ones((20, 2, 2))
    with pytest.raises(
        ValueError, match=r"^y has too many dimensions: Found array with dim 3\b.* y\.reshape"
    ):
        pursuit.HullBoostClassifier().fit(X, y)


def test_a_negative_length_scale_is_refused_without_a_warning_of_numpy(waves):
    data = waves(20)
    with pytest.raises(ValueError, match="length_scale must be positive and finite, got -1"):
        SparseGPRegressor(RBF(-1.0)).fit(data.X, data.y)


def test_texts_are_no_targets_of_a_hull():
    with pytest.raises(ValueError, match=r"y holds text .* take a classifier"):
        pursuit.HullRegressor().fit(np.ones((4, 2)), list("abca"))


@pytest.mark.parametrize(
    "name",
    [
        "ExactGPRegressor",
        "FullScaleGPClassifier",
        "FullScaleGPRegressor",
        "HullRegressor",
        "KernelMatchingPursuitRegressor",
        "LPMachineClassifier",
        "LowRankSVC",
        "SparseGPClassifier",
        "SparseGPRegressor",
        "SparseKernelRidge",
    ],
)
def test_a_fit_that_failed_has_fitted_nothing(waves, name):
    data = waves(20)
    model = getattr(pursuit, name)()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(data.X, np.arange(5) % 2)
    with pytest.raises(NotFittedError):
        model.predict(data.X)


@pytest.mark.parametrize(
    "name", ["LowRankSVC", "SparseGPClassifier", "SparseGPRegressor", "SparseKernelRidge"]
)
def test_a_fit_that_failed_half_way_has_fitted_nothing(name):
    K = np.diag(np.append(np.ones(9), -1.0))
    model = getattr(pursuit, name)(kernel="precomputed")
    with pytest.raises(ValueError, match="not positive semi-definite"):
        model.fit(K, np.arange(10) % 2)
    with pytest.raises(NotFittedError):
        model.predict(K)


def test_strings_without_a_kernel_ask_for_one():
    with pytest.raises((TypeError, ValueError), match=r"kernel|numeric|string"):
        SparseGPRegressor().fit(["ab", "cd", "ef"], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("wrong", [1, 3])
def test_wrong_number_of_features_at_predict(waves, wrong):
    data = waves(20)
    model = SparseGPRegressor().fit(data.X, data.y)
    with pytest.raises(ValueError, match=f"X has {wrong} features.*expecting 2"):
        model.predict(np.ones((4, wrong)))
    with pytest.raises(ValueError, match=f"X has {wrong} features.*expecting 2"):
        model.certify(np.ones((4, wrong)), np.ones(4))


def test_precomputed_shapes(waves):
    data = waves(30)
    K = RBF(0.5)(data.X)
    with pytest.raises(ValueError, match=r"square kernel matrix in fit, got shape \(20, 30\)"):
        SparseGPRegressor("precomputed").fit(K[:20], data.y[:20])
    model = SparseGPRegressor("precomputed", noise=0.1).fit(K, data.y)
    with pytest.raises(ValueError, match=r"20 features.*expecting 30"):
        model.predict(K[:5, :20])
    with pytest.raises(ValueError, match=r"precomputed.*callable"):
        model.predict(K[:5], return_std=True)
    with pytest.raises((ValueError, TypeError), match=r"[Ss]parse"):
        SparseGPRegressor("precomputed").fit(sparse.csr_array(K), data.y)


def test_certify_checks_the_targets(waves):
    data = waves(30, n_outputs=2)
    model = SparseGPRegressor().fit(data.X, data.y)
    with pytest.raises(ValueError, match="inconsistent"):
        model.certify(data.X, data.y[:10])
    with pytest.raises(ValueError, match=r"y.*outputs"):
        model.certify(data.X, np.ones((30, 3)))
    with pytest.raises(ValueError, match=r"y.*outputs"):
        model.certify(data.X, data.y[:, 0])


# Kernels that are none


def test_an_indefinite_callable_is_refused(waves):
    data = waves(40)
    with pytest.raises(ValueError, match=r"not positive semi-definite: row \d+"):
        SparseGPRegressor(lambda A, B: -RBF()(A, B), noise=0.1).fit(data.X, data.y)
    with pytest.raises(ValueError, match=r"not positive semi-definite: row \d+"):
        SparseGPRegressor("sigmoid", gamma=2.0, coef0=-1.0, noise=0.1).fit(data.X, data.y)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("noise", [0.1, "learn"])
@pytest.mark.parametrize("m", [30, 600])
def test_the_indefinite_row_is_named(search, noise, m):
    K, y = np.eye(m), np.random.default_rng(0).normal(size=m)
    i, j = m - 3, m - 2
    K[i, j] = K[j, i] = 5.0
    y[[i, j]] = 40.0, -30.0
    model = SparseGPRegressor("precomputed", noise=noise, search=search, random_state=1, n_basis=m)
    with pytest.raises(ValueError, match="not positive semi-definite") as caught:
        model.fit(K, y)
    assert int(re.search(r"row (\d+)", str(caught.value))[1]) in (i, j)


def test_the_indefinite_row_is_named_among_those_passed():
    K, y = np.eye(30), np.random.default_rng(0).normal(size=30)
    K[27, 28] = K[28, 27] = 5.0
    w = np.ones(30)
    w[:10] = 0.0
    with pytest.raises(ValueError, match=r"row (27|28) "):
        SparseGPRegressor("precomputed", noise=0.1).fit(K, y, w)


def test_an_indefinite_pair_of_absent_rows_does_not_matter():
    K, y, w = np.eye(30), np.arange(30.0), np.ones(30)
    K[3, 4] = K[4, 3] = 5.0
    w[3] = 0.0
    model = SparseGPRegressor("precomputed", noise=0.1).fit(K, y, w)
    assert np.all(np.isfinite(model.predict(K)))


def test_rounding_is_not_indefiniteness(waves):
    data = waves(300)
    K = RBF(5.0)(data.X)
    K += 1e-10 * np.random.default_rng(0).normal(size=K.shape)
    model = SparseGPRegressor("precomputed", noise=0.1).fit(K, data.y)
    assert model.score(K, data.y) > 0.3


def test_an_asymmetric_callable_is_refused(waves):
    data = waves(40)

    def kernel(A, B):
        return RBF()(A, B) + 0.1 * A[:, :1]

    with pytest.raises(ValueError, match=r"kernel is not symmetric: k\(row \d+, row \d+\)"):
        SparseGPRegressor(kernel, noise=0.1).fit(data.X, data.y)


@pytest.mark.parametrize("make", [SparseGPRegressor, LowRankSVC, LPMachineClassifier])
def test_asymmetry_is_told_by_the_row_numbers_of_the_user(waves, make):
    data = waves(30)
    K = RBF()(data.X)
    K[17, 25] = 3.0
    with pytest.raises(ValueError, match=r"k\(row 17, row 25\) = 3 but k\(row 25, row 17\)"):
        make("precomputed").fit(K, data.y > 3, np.repeat([0.0, 1.0], [10, 20]))


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (lambda A, B: np.ones(len(A)), ValueError, r"returned shape .*pursuit.pairwise"),
        (lambda A, B: RBF()(A), ValueError, r"returned shape"),
        (lambda A, B: 1.0, ValueError, r"returned shape \(\).*pursuit.pairwise"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), ValueError, "NaN or infinite"),
        (lambda A, B: np.full((len(A), len(B)), np.inf), ValueError, "NaN or infinite"),
        (lambda A, B: 1j * np.ones((len(A), len(B))), TypeError, "must be real"),
        (lambda A, B: None, (ValueError, TypeError), "kernel .* returned"),
    ],
    ids=["vector", "square", "number", "nan", "inf", "complex", "None"],
)
def test_callables_that_misbehave(waves, kernel, error, message):
    data = waves(20)
    search = Search(candidates=np.array(data.new))
    with pytest.raises(error, match=message):
        SparseGPRegressor(kernel, noise=0.1, search=search).fit(data.X, data.y)


def test_an_error_inside_the_users_kernel_is_the_users(waves):
    data = waves(20)

    def kernel(A, B):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        SparseGPRegressor(kernel, noise=0.1).fit(data.X, data.y)


# Borderline data


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("arguments", [{}, {"noise": 0.1}], ids=["learned", "given"])
def test_one_row(search, arguments):
    model = SparseGPRegressor(search=search, **arguments).fit([[1.0, 2.0]], [5.0])
    assert model.n_basis_ == 1
    np.testing.assert_allclose(model.predict([[1.0, 2.0], [9.0, 9.0]]), 5.0)
    assert finite(model, [[1.0, 2.0]])


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("value", [0.0, 7.0, 1e10, 1e-10])
def test_constant_targets(waves, search, value):
    data = waves(60)
    model = SparseGPRegressor(search=search, random_state=0).fit(data.X, np.full(60, value))
    np.testing.assert_allclose(model.predict(data.new), value, rtol=1e-12)
    assert finite(model, data.new)
    assert model.certificate_.relative_gap < 1e-6


def test_one_constant_output_among_others(waves):
    data = waves(60)
    Y = np.column_stack([data.y, np.full(60, 4.0)])
    model = SparseGPRegressor(n_basis=20).fit(data.X, Y)
    np.testing.assert_allclose(model.predict(data.new)[:, 1], 4.0)
    assert finite(model, data.new)


@pytest.mark.parametrize("search", SEARCHES)
def test_constant_rows(search):
    y = np.random.default_rng(0).normal(5.0, 1.0, 50)
    X = np.full((50, 2), 3.0)
    model = SparseGPRegressor(search=search, random_state=0).fit(X, y)
    assert model.n_basis_ == 1
    assert model.path_.stop_reason in ("rank", "no gain")
    np.testing.assert_allclose(model.predict(X), y.mean(), rtol=1e-6)
    assert finite(model, np.vstack([X[:2], X[:2] + 1]))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("m", [40, 2100])
def test_duplicate_rows_count_once(waves, rough_kernel, search, m):
    data = waves(20)
    index = np.arange(m) % 20
    model = fixed_gp(rough_kernel, noise=0.1, search=search, n_basis=50, random_state=0)
    model.fit(data.X[index], data.y[index])
    assert model.n_basis_ == 20
    assert model.path_.stop_reason == "rank"
    assert len({tuple(row) for row in model.basis_}) == 20
    assert finite(model, data.new)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("kernel", ["linear", DotProduct(0.0)], ids=str)
def test_rows_of_zeros_with_a_linear_kernel(search, kernel):
    y = np.arange(10.0)
    model = fixed_gp(kernel, noise=0.1, search=search).fit(np.zeros((10, 2)), y)
    np.testing.assert_allclose(model.predict(np.ones((3, 2))), y.mean())
    assert finite(model, np.ones((3, 2)))


def test_one_row_of_zeros_with_a_linear_kernel(waves):
    data = waves(30)
    X = data.X.copy()
    X[4] = 0.0
    model = SparseGPRegressor("linear", noise=0.1).fit(X, data.y)
    assert 4 not in model.basis_indices_
    assert finite(model, data.new)


def test_a_constant_feature(waves):
    data = waves(60)
    X = np.column_stack([data.X, np.full(60, 8.0)])
    new = np.column_stack([data.new, np.full(25, 8.0)])
    assert finite(SparseGPRegressor(n_basis=20).fit(X, data.y), new)


def test_one_feature():
    x = np.linspace(-3, 3, 80)[:, None]
    model = fixed_gp(RBF(0.7), n_basis=20).fit(x, np.sin(2 * x[:, 0]))
    assert model.score(x, np.sin(2 * x[:, 0])) > 0.999
    assert model.basis_.shape == (20, 1)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("factor", [1e8, 1e-8, 1e100, 1e-100])
def test_units_of_y_do_not_matter(waves, search, factor):
    data = waves(80)
    arguments = {"n_basis": 20, "search": search, "random_state": 0}
    plain = SparseGPRegressor(**arguments).fit(data.X, data.y)
    scaled = SparseGPRegressor(**arguments).fit(data.X, factor * data.y)
    for got, expected in zip(
        scaled.predict(data.new, return_std=True),
        plain.predict(data.new, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(got, factor * expected, rtol=1e-6)


@pytest.mark.parametrize("factor", [1e8, 1e-8])
def test_units_of_raw_targets_do_not_matter(waves, factor):
    data = waves(80)
    arguments = {"n_basis": 20, "normalize_y": False}
    plain = SparseGPRegressor(**arguments).fit(data.X, data.y)
    scaled = SparseGPRegressor(**arguments).fit(data.X, factor * data.y)
    np.testing.assert_allclose(
        scaled.predict(data.new), factor * plain.predict(data.new), rtol=1e-5
    )


def test_a_large_offset_of_y(waves):
    data = waves(80)
    plain = SparseGPRegressor(n_basis=20).fit(data.X, data.y)
    shifted = SparseGPRegressor(n_basis=20).fit(data.X, data.y + 1e6)
    np.testing.assert_allclose(
        shifted.predict(data.new) - 1e6, plain.predict(data.new), rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("factor", [1e6, 1e-6, np.array([1e6, 1e-6])], ids=str)
def test_units_of_x_do_not_matter_to_the_default_kernel(waves, factor):
    data = waves(80)
    plain = SparseGPRegressor(n_basis=20, random_state=0).fit(data.X, data.y)
    scaled = SparseGPRegressor(n_basis=20, random_state=0).fit(factor * data.X, data.y)
    np.testing.assert_allclose(
        scaled.predict(factor * data.new), plain.predict(data.new), rtol=1e-6
    )


def test_a_large_offset_of_x(waves):
    data = waves(80)
    plain = fixed_gp(RBF(0.5), noise=0.1, n_basis=20).fit(data.X, data.y)
    shifted = fixed_gp(RBF(0.5), noise=0.1, n_basis=20).fit(data.X + 1e6, data.y)
    np.testing.assert_allclose(shifted.predict(data.new + 1e6), plain.predict(data.new), rtol=1e-6)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("noise", [1e-14, 1e-10, 1e-6, 1e6, 1e14])
@pytest.mark.parametrize("length_scale", [0.1, 3.0, 100.0])
def test_extreme_noise_and_smoothness(waves, search, noise, length_scale):
    data = waves(150)
    model = fixed_gp(
        RBF(length_scale), noise=noise, n_basis=100, search=search, random_state=0
    ).fit(data.X, data.y)
    assert finite(model, data.new)
    assert np.abs(model.predict(data.X) - data.y.mean()).max() < 20 * data.y.std()
    found = model.certificate_
    assert found.lower <= found.upper + 1e-8 * found.target_norms.sum()
    assert np.isfinite(found.relative_gap) or found.gap > 0


@pytest.mark.parametrize("weight", [1e12, 1e-12])
def test_extreme_weights(waves, rough_kernel, weight):
    data = waves(60)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=20)
    assert finite(model.fit(data.X, data.y, np.full(60, weight)), data.new)


def test_more_basis_functions_than_rows(waves, rough_kernel):
    data = waves(30)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=10_000).fit(data.X, data.y)
    assert model.n_basis_ == 30
    assert model.path_.stop_reason == "rank"


def test_a_single_number_as_weight(waves, rough_kernel):
    data = waves(30)
    arguments = {"noise": 0.1, "n_basis": 10}
    number = fixed_gp(rough_kernel, **arguments).fit(data.X, data.y, 2.0)
    array = fixed_gp(rough_kernel, **arguments).fit(data.X, data.y, np.full(30, 2.0))
    np.testing.assert_array_equal(number.predict(data.new), array.predict(data.new))


def test_arguments_of_named_kernels_without_a_name(waves):
    data = waves(20)
    with pytest.raises(ValueError, match="gamma belongs to kernels given by name, and kernel is"):
        SparseGPRegressor(gamma=0.5).fit(data.X, data.y)


@pytest.mark.parametrize("name", ["gamma", "coef0", "degree", "kernel_params"])
def test_a_matrix_takes_no_arguments_of_kernels(waves, name):
    data = waves(20)
    value = {} if name == "kernel_params" else 1.0
    model = SparseGPRegressor("precomputed", noise=0.1, **{name: value})
    with pytest.raises(ValueError, match=f"{name} does not apply to kernel='precomputed'"):
        model.fit(data.X @ data.X.T, data.y)


def test_growing_without_rows_beyond_what_there_is(waves):
    data = waves(60)
    model = SparseGPRegressor(RBF(1.0), noise=0.1, n_basis=10, optimizer=None).fit(data.X, data.y)
    with pytest.raises(ValueError, match="n=12 is more than the 10 functions there are: pass X"):
        model.grow(12, keep=False)
    with pytest.raises(ValueError, match="y is None: pass the targets of the rows"):
        model.certify(data.X)


def test_arrays_of_strings_are_saved_like_lists(tmp_path):
    words = np.array(["ab", "abc", "b", "bca", "cc", "a"])

    def shared(A, B):
        return np.array([[len(set(a) & set(b)) for b in B] for a in A], dtype=float)

    model = SparseGPRegressor(shared, noise=0.1, n_basis=3, optimizer=None).fit(
        words, np.arange(6.0)
    )
    model.save(tmp_path / "words.pursuit")
    loaded = pursuit.load(tmp_path / "words.pursuit", kernel=shared)
    np.testing.assert_array_equal(loaded.predict(words), model.predict(words))
