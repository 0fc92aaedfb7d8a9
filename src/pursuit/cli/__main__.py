"""`python -m pursuit.cli` is the `pursuit` command."""

from pursuit.cli import main

main()
