"""Certificates, evidence and error bars of every estimator against 50 digits, in small."""

import pytest

from torture.certificates import TURNS, run

SEEDS = 40
"""All estimators come in the first 29."""


def test_every_estimator_has_its_turn():
    assert len(set(TURNS)) == 17
    assert len(TURNS) <= SEEDS


def test_no_bound_is_false(size):
    found = [
        f"seed {seed}: {failure}"
        for seed in range(size(SEEDS, 400))
        for failure in run(seed).failures
    ]
    if found:
        pytest.fail(f"{len(found)} failures:\n" + "\n".join(found[:20]))
