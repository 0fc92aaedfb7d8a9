"""A few seeds of the fuzzer of models whose basis may hold all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from pursuit.greedy import Pool
from torture.full_rank import FUZZER


def test_a_basis_of_all_rows_is_the_full_process(size: Callable[[int, int], int]) -> None:
    counts: Counter[str] = Counter()
    for seed in range(size(20, 300)):
        report = FUZZER.run(seed)
        assert report.failures == []
        counts += report.counts
    print(dict(counts))
    assert counts["well conditioned"] > 0.6 * counts["problems"]


def test_points_dropped_by_rank_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fit to all rows, near copies of rows are taken for the rows."""
    monkeypatch.setattr(Pool, "owners", lambda self, sample: None)
    failures = [failure for seed in range(12) for failure in FUZZER.run(seed).failures]
    assert failures
    assert all(failure.startswith("seed ") for failure in failures)
