"""The one error of this room."""

from __future__ import annotations


class StoreError(ValueError):
    """A file that cannot be read, or something that cannot be written to one."""
