"""Objectives whose candidates may be taken again: steps and sizes are then two things."""

from types import SimpleNamespace

import numpy as np

from pursuit.greedy import CostMeter, MaxSize, Pursuit, Stalled


class Alternating:
    """Gains follow a script; candidates stay available."""

    def __init__(self, script):
        self.script, self.value = list(script), 100.0
        self.available = np.ones(5, bool)

    def score(self, candidates):
        return np.where(candidates == self.script[0], 2.0, 1.0)

    def add(self, candidate):
        assert candidate == self.script.pop(0)
        self.value -= 1.0
        return True


def pursue(script, *rules):
    pursuit = Pursuit(Alternating(script), CostMeter(SimpleNamespace(entries=0)))
    return pursuit, pursuit.run(rules)


def test_the_path_has_one_entry_a_candidate():
    pursuit, path = pursue([3, 1, 3, 3, 0], MaxSize(3))
    assert path.index.tolist() == [3, 1, 0]
    assert path.value.tolist() == [99.0, 98.0, 95.0]
    assert (pursuit.size, pursuit.n_steps) == (3, 5)


def test_patience_counts_steps_since_the_last_new_one():
    pursuit, path = pursue([3, 1, 3, 3, 0, 1, 1, 1, 2], MaxSize(5), Stalled(3))
    assert path.stop_reason == "no gain"
    assert path.index.tolist() == [3, 1, 0]
    assert pursuit.n_steps == 8
