"""A few seeds of the fuzzer of kernel error bounds."""

from __future__ import annotations

import pytest

from pursuit.kernels.stationary import Stationary
from torture.kernel_errors import FUZZER, judged, problem


def test_a_seed_is_one_problem_without_failures() -> None:
    for seed in range(100, 105):
        report = FUZZER.run(seed)
        assert report.failures == []
        assert report.counts == FUZZER.run(seed).counts


def test_a_bound_that_is_too_small_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(s for s in range(100) if isinstance(problem(s).kernel, Stationary) and _worst(s))
    half = 0.5 * _worst(seed)
    monkeypatch.setattr(Stationary, "error", lambda self, extent: half)
    (failure,) = FUZZER.run(seed).failures
    assert f"seed {seed}" in failure


def _worst(seed: int) -> float:
    result = judged(problem(seed))
    return result.worst if result else 0.0
