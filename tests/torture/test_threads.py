"""A few seeds of the fuzzer of threads, and that it can find something."""

import numpy as np

import torture.threads
from torture.small_models import differences

IN_SMALL = ("pool", "threading")
"""Other processes take seconds to begin."""


def test_fits_at_once_are_those_of_fits_alone(size):
    for seed in (2, 3, 11, *range(20, size(20, 40))):
        assert not torture.threads.run(seed, size(IN_SMALL, torture.threads.BACKENDS)).failures


def test_one_bit_is_a_difference():
    a = np.ones(5)
    assert not differences([a], [a.copy()])
    b = a.copy()
    b[3] = np.nextafter(1.0, 2.0)
    assert "2.2e-16" in differences([a], [b])


def test_a_fit_that_depends_on_the_others_is_found(monkeypatch):
    calls = []

    def numbers(*arguments):
        calls.append(arguments)
        return [np.array([float(len(calls))])]

    monkeypatch.setattr(torture.threads, "quiet_numbers", numbers)
    assert torture.threads.run(0, ("pool",)).failures
