"""`python -m pursuit` is the `pursuit` command."""

from pursuit.cli import main

if __name__ == "__main__":
    main()
