"""Growth of costs: exponents of known laws, tasks that take turns, memory that was held."""

import numpy as np
import pytest

from pursuit.papers import common


@pytest.mark.parametrize("power", [0.0, 1.0, 2.5])
def test_the_exponent_of_a_power_law(power):
    sizes = np.array([10, 30, 70])
    assert common.exponent(sizes, 4.0 * sizes**power) == pytest.approx(power, abs=1e-12)


def test_tasks_take_turns_and_the_least_counts(monkeypatch):
    calls = []
    ticks = iter([0.0, 3.0, 3.0, 4.0, 4.0, 6.0, 6.0, 8.0])
    monkeypatch.setattr(common.time, "process_time", lambda: next(ticks))
    tasks = [lambda: calls.append("a"), lambda: calls.append("b")]
    assert common.cpu_seconds(tasks, times=2).tolist() == [2.0, 1.0]
    assert calls == ["a", "b", "a", "b"]


def test_short_tasks_run_more_often():
    calls = []
    common.cpu_seconds([lambda: calls.append(sum(range(20_000)))], times=1)
    assert len(calls) > 5


def test_peak_memory():
    found = common.peak_bytes(lambda: np.zeros(300_000))
    assert found == pytest.approx(8 * 300_000, rel=0.05)
