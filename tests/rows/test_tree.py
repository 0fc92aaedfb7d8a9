"""Sums in a tree have one shape, however the values come together."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.rows import TreeSum, in_order, in_tree
from pursuit.rows.memory import subtrees


@dataclass(frozen=True)
class Term:
    """A sum that remembers its brackets, and of how many blocks it is."""

    text: str
    n_blocks: int = 1

    def __add__(self, other):
        return Term(f"({self.text}+{other.text})", self.n_blocks + other.n_blocks)


def terms(n):
    return [Term(str(i)) for i in range(n)]


def naive(values):
    """Groups of 8 from the left, again and again."""
    while len(values) > 1:
        values = [in_order(values[i : i + 8]) for i in range(0, len(values), 8)]
    return values[0]


def test_few_values_are_added_in_their_order():
    assert in_tree(terms(4)).text == "(((0+1)+2)+3)"
    assert in_tree(terms(10)).text == "((((((((0+1)+2)+3)+4)+5)+6)+7)+(8+9))"


@given(st.integers(1, 150))
def test_the_shape_is_that_of_groups_of_groups(n):
    assert in_tree(terms(n)) == naive(terms(n))


@given(st.integers(1, 150), st.data())
def test_subtrees_may_be_added_up_elsewhere(n, data):
    values, tree, first = terms(n), TreeSum(), 0
    while first < n:
        level, begin, stop = next(subtrees(first, n, data.draw(st.integers(0, 2))))
        assert begin == first
        tree.add(naive(values[begin:stop]), level)
        first = stop
    assert tree.total() == naive(values)


@given(st.integers(1, 150), st.data())
def test_a_sum_goes_on_from_its_parts(n, data):
    done, tree = data.draw(st.integers(0, n)), TreeSum()
    for value in terms(n)[:done]:
        tree.add(value)
    resumed = TreeSum((part.n_blocks, part) for part in tree.parts())
    for value in terms(n)[done:]:
        resumed.add(value)
    assert resumed.total() == naive(terms(n))


def test_what_is_held_is_one_sum_a_level():
    tree = TreeSum()
    for value in terms(8**3 - 1):
        tree.add(value)
    assert [part.n_blocks for part in tree.parts()] == [7 * 64, 7 * 8, 7]


def test_nothing_to_add_up():
    assert TreeSum().total(0.0) == 0.0
    with pytest.raises(ValueError, match="nothing to add up"):
        TreeSum().total()
