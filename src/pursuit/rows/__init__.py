"""Where the data lies.

A row source says how many rows there are, streams them in blocks and fetches some by number.
Everything above works on sources and never asks what is behind one. To add a source, write the
three methods of `RowSource` and run `pursuit.testing.check_row_source` on it.

May import numpy and scipy.sparse, and pyarrow or dask where a table needs it; nothing else of this
package.
"""

from pursuit.rows.arrow import BatchedTable
from pursuit.rows.base import (
    BLOCK_ROWS,
    DistributedRows,
    Items,
    RowSource,
    computed,
    concat,
    is_dask,
    len_items,
    take_items,
)
from pursuit.rows.convert import as_rows, as_table, in_memory, is_in_memory, open_table
from pursuit.rows.dask_collections import map_lazily
from pursuit.rows.encoded import BatchRows, CodedTable, EncodedTable, Levels, NumberTable
from pursuit.rows.files import file_kind, is_path, open_file
from pursuit.rows.gaps import OutputGroup, output_groups
from pursuit.rows.hashing import digest_object, plain_text, row_hashes, source_hashes
from pursuit.rows.memory import (
    ArrayRows,
    IndexRows,
    ListRows,
    Sample,
    SelectedRows,
    SparseRows,
    StreamedRows,
    TreeSum,
    distinct_rows,
    draw_rows,
    has_gaps,
    in_order,
    in_tree,
    row_groups,
    source_numbers,
)
from pursuit.rows.table import MatrixTable, Table, check_columns, distinct_names, read_all

__all__ = [
    "BLOCK_ROWS",
    "ArrayRows",
    "BatchRows",
    "BatchedTable",
    "CodedTable",
    "DistributedRows",
    "EncodedTable",
    "IndexRows",
    "Items",
    "Levels",
    "ListRows",
    "MatrixTable",
    "NumberTable",
    "OutputGroup",
    "RowSource",
    "Sample",
    "SelectedRows",
    "SparseRows",
    "StreamedRows",
    "Table",
    "TreeSum",
    "as_rows",
    "as_table",
    "check_columns",
    "computed",
    "concat",
    "digest_object",
    "distinct_names",
    "distinct_rows",
    "draw_rows",
    "file_kind",
    "has_gaps",
    "in_memory",
    "in_order",
    "in_tree",
    "is_dask",
    "is_in_memory",
    "is_path",
    "len_items",
    "map_lazily",
    "open_file",
    "open_table",
    "output_groups",
    "plain_text",
    "read_all",
    "row_groups",
    "row_hashes",
    "source_hashes",
    "source_numbers",
    "take_items",
]
