"""Time, memory and accuracy of `pursuit`, beside peers and beside its own targets.

``python -m benchmarks --all`` from the root of the repository runs every case. A case measures
solvers on a data set and returns figures, some with a target. Imports the public package and the
peers in ``requirements.txt``; nothing in the package imports this.
"""
