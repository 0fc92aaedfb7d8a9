"""The conformance check notices every way in which a source can be wrong."""

import numpy as np
import pytest
from scipy import sparse

from pursuit.rows import ArrayRows
from pursuit.testing import check_row_source

X = np.arange(12.0).reshape(6, 2)


class Wrong(ArrayRows):
    pass


class TooManyRows(Wrong):
    n_rows = 7


class SkipsTheLastBlock(Wrong):
    def blocks(self, size=8192):
        return list(super().blocks(size))[:-1]


class RepeatsABlock(Wrong):
    def blocks(self, size=8192):
        blocks = list(super().blocks(size))
        return [*blocks, blocks[-1]]


class WrongNumbers(Wrong):
    def blocks(self, size=8192):
        return ((start + 1, block) for start, block in super().blocks(size))


class IgnoresSize(Wrong):
    def blocks(self, size=8192):
        return super().blocks(4 if size else 0)


class ReversedBlocks(Wrong):
    def blocks(self, size=8192):
        return ((start, block[::-1]) for start, block in super().blocks(size))


class DefaultsToSmallBlocks(Wrong):
    def blocks(self, size=3):
        return super().blocks(size)


class OtherType(Wrong):
    def blocks(self, size=8192):
        return ((start, sparse.csr_array(block)) for start, block in super().blocks(size))


class OtherPrecision(Wrong):
    def take(self, index):
        return super().take(index).astype(np.float32)


class SortsTheTake(Wrong):
    def take(self, index):
        return super().take(np.sort(index))


class UniqueTake(Wrong):
    def take(self, index):
        return super().take(index[np.sort(np.unique(index, return_index=True)[1])])


class SortsInPlace(Wrong):
    def take(self, index):
        taken = super().take(index)
        index.sort()
        return taken


class CountsFromTheEnd(Wrong):
    def take(self, index):
        return super().take(np.where(index < 0, index + 6, index))


class ClipsAbove(Wrong):
    def take(self, index):
        return super().take(np.minimum(index, 5))


class AcceptsSizeZero(Wrong):
    def blocks(self, size=8192):
        return super().blocks(size) if size else iter(())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (TooManyRows, "n_rows is 7, expected 6"),
        (SkipsTheLastBlock, r"blocks\(1\) cover 5 rows of 6"),
        (RepeatsABlock, r"blocks\(1\): a block starts at row 5, expected 6"),
        (WrongNumbers, r"blocks\(1\): a block starts at row 1, expected 0"),
        (IgnoresSize, r"blocks\(1\): the block at row 0 differs"),
        (ReversedBlocks, r"blocks\(2\): the block at row 0 differs"),
        (DefaultsToSmallBlocks, r"blocks\(\): the block at row 0 differs"),
        (OtherType, r"blocks\(1\): the block at row 0 differs"),
        (OtherPrecision, "take of all rows gives the wrong items"),
        (SortsTheTake, "take of all rows backwards gives the wrong items"),
        (UniqueTake, "take of a repeated row gives the wrong items"),
        (SortsInPlace, "take of all rows backwards changed its index"),
        (CountsFromTheEnd, "take accepts row number -1"),
        (ClipsAbove, "take accepts row number 6"),
        (AcceptsSizeZero, r"blocks\(0\) must raise ValueError"),
    ],
)
def test_a_wrong_source_is_named(source, message):
    with pytest.raises(AssertionError, match=message):
        check_row_source(source(X), X)


def test_one_row_cannot_show_order():
    with pytest.raises(AssertionError, match="at least two rows"):
        check_row_source(ArrayRows(X[:1]), X[:1])
