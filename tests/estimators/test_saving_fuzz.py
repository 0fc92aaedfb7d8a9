"""Model files that were damaged, or made to do damage."""

import random
import sys
from collections import Counter

import pytest

from torture.files import DAMAGE, FORGERY, files, judged


def peak_memory():
    """MiB, where the system counts in KiB."""
    import resource  # Windows has none

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in other units")
def test_ten_thousand_broken_files(tmp_path, size):
    """Every damage is an error with a text; what was forged is an error or a model."""
    rng = random.Random(0)
    known, outcomes = files(), Counter()
    memory = peak_memory()
    for i in range(size(500, 10_000)):
        data, other = rng.sample(known, 2)
        change = rng.choice(DAMAGE if i % 2 else FORGERY)
        broken = change(rng, data, other)
        outcome, wrong = judged(tmp_path / "model", data, other, change, broken)
        assert not wrong
        outcomes[outcome] += 1
    assert outcomes["refused"] > outcomes["loaded"] > 0
    assert peak_memory() - memory < 200
