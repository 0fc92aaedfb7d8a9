"""Where the data lies.

A row source says how many rows there are, streams them in blocks and fetches some by number;
everything above works on sources and never asks what is behind one. To add a source, write the
three methods of `RowSource` and run `pursuit.testing.check_row_source` on it.

May import numpy and scipy.sparse; nothing else of this package.
"""

from pursuit.rows.base import BLOCK_ROWS, RowSource
from pursuit.rows.convert import as_rows
from pursuit.rows.distinct import distinct_rows
from pursuit.rows.draw import draw_rows
from pursuit.rows.items import Items, concat, len_items
from pursuit.rows.memory import ArrayRows, IndexRows, ListRows, SparseRows
from pursuit.rows.sample import Sample
from pursuit.rows.selected import SelectedRows

__all__ = [
    "BLOCK_ROWS",
    "ArrayRows",
    "IndexRows",
    "Items",
    "ListRows",
    "RowSource",
    "Sample",
    "SelectedRows",
    "SparseRows",
    "as_rows",
    "concat",
    "distinct_rows",
    "draw_rows",
    "len_items",
]
