"""A few seeds of the fuzzer of dask collections, and that it can find something."""

import pytest

import torture.dask
from pursuit.rows.hashing import Witness

pytest.importorskip("dask.array", reason="dask is not installed")
pytest.importorskip("dask.dataframe")


def test_collections_give_the_model_of_their_rows(size):
    for seed in range(size(2, 20)):
        assert not torture.dask.run(seed).failures


def test_rows_that_change_unnoticed_are_found(monkeypatch):
    monkeypatch.setattr(Witness, "changed", lambda *_: None)
    assert any(torture.dask.run(seed).failures for seed in range(6))
