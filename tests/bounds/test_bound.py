"""The bound as an object: where it is smallest, and when it says nothing."""

import numpy as np

from pursuit import Bound


def bound(values, **options):
    sizes = np.arange(1, len(values) + 1)
    return Bound("A theorem", "the error", sizes, np.array(values), **options)


def test_smallest_value_is_named_with_its_size():
    found = bound([3.0, 0.5, 0.5, 2.0], trivial=1.0, confidence=0.95)
    assert found.best == 1
    text = str(found)
    assert "the error is at most 0.5 with probability 0.95, for 2 basis functions" in text
    assert "vacuous" not in text


def test_vacuous_is_said_in_words():
    found = bound([3.0, 2.0], trivial=1.0, caveat="a scale was estimated")
    np.testing.assert_array_equal(found.vacuous, [True, True])
    assert "vacuous: 1 is known without it" in str(found)
    assert str(found).endswith("(a scale was estimated)")


def test_the_trivial_value_itself_and_nan_say_nothing():
    found = bound([1.0, np.nan, 0.9], trivial=1.0)
    np.testing.assert_array_equal(found.vacuous, [True, True, False])


def test_no_sizes():
    assert str(bound([])) == "A theorem: no sizes"
