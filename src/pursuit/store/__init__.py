"""Numbers and JSON in one file, written whole or not at all.

Saved models and checkpoints lie in such files. What is read back is data: nothing in a file can
name code to run, and nothing is allocated before the size of the file has confirmed it.

May import numpy and the standard library; nothing else of this package.
"""

from pursuit.store.errors import StoreError
from pursuit.store.files import library, read, remove_abandoned, replacing, write
from pursuit.store.layout import FORMAT

__all__ = ["FORMAT", "StoreError", "library", "read", "remove_abandoned", "replacing", "write"]
