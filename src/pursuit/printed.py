"""Names of columns, classes, files and levels as they may be printed: on one line, without orders.

A name is somebody else's text. Escape sequences in it would give orders to a terminal, a line break
would make it look like two lines of ours, and marks for right-to-left text would reorder the line.

Imports nothing.
"""

from __future__ import annotations


def printable(text: object, keep: str = "") -> str:
    r"""The text with everything that is not a visible character or a space written as an escape.

    Characters in ``keep`` stay as they are.

    Examples
    --------
    >>> printable("size \x1b[31m\n")
    'size \\x1b[31m\\n'
    >>> printable("Größe")
    'Größe'
    """
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(one if one.isprintable() or one in keep else repr(one)[1:-1] for one in plain)
