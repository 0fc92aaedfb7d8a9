"""`python -m pursuit.cli` is the `pursuit` command."""

from pursuit.cli import app

app()
