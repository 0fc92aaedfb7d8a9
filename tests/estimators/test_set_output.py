"""Transformers give data frames when asked to, with names that say which column is which."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.pipeline import make_pipeline

import pursuit

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((40, 3)), columns=["a", "b", "c"], index=range(100, 140))
Y = (X["a"] ** 2).to_numpy()
INPUTS = {"pandas": X, "polars": pl.DataFrame(X.to_dict("list")), "numpy": X.to_numpy()}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}
DENSE = {
    "GreedyFeatureMap": {"n_components": 4, "random_state": 0},
    "SigmoidAtoms": {"n_atoms": 5, "random_state": 0},
    "SparseKernelCCA": {"n_components": 2, "random_state": 0},
    "SparseKernelPCA": {"n_components": 2, "random_state": 0},
    "TableEncoder": {},
}
SPARSE = {"SpanNeighbors"}


def made(name):
    return getattr(pursuit, name)(**DENSE[name])


def test_every_transformer_is_tried():
    has = {name for name in pursuit.__all__ if hasattr(getattr(pursuit, name), "transform")}
    assert has == {*DENSE, *SPARSE, "TablePipeline"}


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("container", FRAMES)
@pytest.mark.parametrize("name", DENSE)
def test_frames_hold_the_numbers_of_arrays(name, container, given):
    rows = INPUTS[given]
    plain = made(name).fit(rows, Y)
    model = made(name).set_output(transform=container).fit(rows, Y)
    expected = np.asarray(plain.transform(rows))
    frame = model.transform(rows)
    assert isinstance(frame, FRAMES[container])
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    columns = list(frame.columns)
    assert columns == list(model.get_feature_names_out())
    assert len(set(columns)) == expected.shape[1]
    if name == "TableEncoder":
        assert columns == (["x0", "x1", "x2"] if given == "numpy" else ["a", "b", "c"])
    else:
        assert columns == [f"{name.lower()}{j}" for j in range(expected.shape[1])]
    if (container, given) == ("pandas", "pandas"):
        assert list(frame.index) == list(X.index)


@pytest.mark.parametrize("name", DENSE)
def test_fit_transform_gives_frames_too(name):
    model = made(name).set_output(transform="pandas")
    found = model.fit_transform(X, Y)
    # A CCA returns the scores of both views, as scikit-learn's.
    first = found[0] if isinstance(found, tuple) else found
    pd.testing.assert_frame_equal(first, model.transform(X))


def test_float32_frames():
    model = made("SparseKernelPCA").set_output(transform="pandas").fit(X)
    assert set(model.transform(X.astype(np.float32)).dtypes) == {np.dtype(np.float32)}


def test_names_go_through_a_pipeline():
    steps = [made("TableEncoder"), made("SparseKernelPCA")]
    pipeline = make_pipeline(*steps).set_output(transform="polars").fit(X)
    assert pipeline.transform(X).columns == ["sparsekernelpca0", "sparsekernelpca1"]


def test_a_graph_is_sparse_and_no_frame_can_hold_it():
    model = pursuit.SpanNeighbors(n_components=5, random_state=0).fit(X)
    assert list(model.get_feature_names_out()[:2]) == ["spanneighbors0", "spanneighbors1"]
    with pytest.raises(ValueError, match=r"sparse matrix.*set_output\(transform='default'\)"):
        model.set_output(transform="pandas").transform(X)
