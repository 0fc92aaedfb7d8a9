"""scikit-learn's own tests, run with our classes in place of its own.

`adapters` puts each of our classes behind the constructor of its peer: the same arguments, with the
defaults of the peer. `files` says which test files are run and which of their tests are left out,
each with a reason. `plugin` makes pytest load these files from the installed scikit-learn, with the
classes replaced; nothing is changed on the disk. ``python -m peers`` (`make peers`) runs all and
prints how many passed, failed or were left out; ``--write-docs`` keeps that for the docs.
"""
