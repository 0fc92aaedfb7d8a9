"""Models that `pursuit fit` wrote, with what they know of their tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pursuit.cli.console import WrongCallError

if TYPE_CHECKING:
    from pursuit.cli.columns import Encoding
    from pursuit.cli.tables import TableFile


def load_model(path: Path) -> Any:
    """The model in a file."""
    import pursuit

    if not path.exists():
        raise WrongCallError(f"there is no file {path}.")
    return pursuit.load(path)


def encoding_of(model: Any, path: Path) -> Encoding:
    """How the model's table became numbers."""
    from pursuit.cli.columns import Column, Encoding

    found = getattr(model, "table_", None)
    if found is not None:
        return Encoding.from_json(found)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise WrongCallError(
            f"{path} does not know the names of its columns: it was not written by pursuit fit, "
            "nor fitted to a table with names."
        )
    return Encoding([Column(str(name), "number") for name in names], "")


def open_for(
    encoding: Encoding, path: Path, *, target: bool = False, classes: bool = False
) -> TableFile:
    """A table that has the columns of a model, and the target where it is asked for.

    Where classes are texts, the target is read as text, like all columns that were texts.
    """
    from pursuit.cli.columns import require_columns
    from pursuit.cli.tables import TableFile

    others = [encoding.target] if target else []
    table = TableFile(path, [*encoding.texts, *(others if classes else [])])
    require_columns([*encoding.names, *others], table.columns, path.name, "columns of the model")
    return table
