"""A few seeds of the fuzzer of kernel error bounds."""

from __future__ import annotations

import pytest

from pursuit.kernels.stationary import Stationary
from torture.kernel_errors import FUZZER, problem


def test_a_seed_is_one_problem_without_failures() -> None:
    for seed in range(100, 105):
        report = FUZZER.run(seed)
        assert report.failures == []
        assert report.counts == FUZZER.run(seed).counts


def test_a_bound_that_is_too_small_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(s for s in range(100) if isinstance(problem(s).kernel, Stationary))
    monkeypatch.setattr(Stationary, "error", lambda self, extent: 1e-18)
    (failure,) = FUZZER.run(seed).failures
    assert f"seed {seed}" in failure
