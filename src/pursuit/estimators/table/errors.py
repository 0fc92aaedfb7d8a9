"""What is wrong with a table."""

from __future__ import annotations

from collections.abc import Mapping


class TableError(ValueError):
    """Something in a table has to be changed before it can be used.

    Parameters
    ----------
    message : str
        What is wrong and what to do.
    problems : mapping of str to str, optional
        What is wrong with each of the columns that are to blame.

    Attributes
    ----------
    problems : dict of str to str
        The same.

    Examples
    --------
    >>> import numpy as np
    >>> import pursuit
    >>> try:
    ...     pursuit.TableEncoder().fit(np.array([[1.0, np.inf], [2.0, 3.0]]))
    ... except pursuit.TableError as error:
    ...     print(error.problems)
    {'x1': 'it holds infinity, in 1 of 2 rows'}
    """

    problems: dict[str, str]

    def __init__(self, message: str, problems: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.problems = dict(problems or {})


def listed(problems: Mapping[str, str]) -> str:
    """What is wrong with columns, in one line."""
    return "; ".join(f"column {name!r}: {problem}" for name, problem in problems.items())
