"""A few seeds of the fuzzer of kills, and that it can find something."""

import os
import sys

import pytest

import torture.kills
from pursuit import SparseGPRegressor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
@pytest.mark.parametrize("kind", ["fit", "save", "predict"])
def test_killed_processes_lose_nothing(kind, size):
    if kind == "predict":
        pytest.importorskip("typer")
        pytest.importorskip("pyarrow")
    for seed in range(size(2, 30)):
        assert not torture.kills.run(seed, (kind,)).failures


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_save_in_place_is_found(monkeypatch):
    """A save that writes to the file itself, and syncs often, is caught half done."""
    whole = SparseGPRegressor.save

    def in_place(model, path):
        beside = f"{path}-whole"
        whole(model, beside)
        with open(beside, "rb") as file:
            data = file.read()
        os.unlink(beside)
        with open(path, "wb") as file:
            for start in range(0, len(data), 2000):
                file.write(data[start : start + 2000])
                os.fsync(file.fileno())

    monkeypatch.setattr(SparseGPRegressor, "save", in_place)
    assert any(torture.kills.run(seed, ("save",)).failures for seed in range(10))
