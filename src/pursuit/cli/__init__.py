"""The `pursuit` command. Stands above everything else and may import all of it."""

from __future__ import annotations

import typer

from pursuit.cli import papers

app = typer.Typer(
    name="pursuit",
    help="Sparse kernel learning with proofs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(papers.app, name="papers")


@app.callback()
def main() -> None:
    """Sparse kernel learning with proofs."""
