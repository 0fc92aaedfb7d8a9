"""Text for pages: neither HTML nor marks that would reorder or break a line."""

from __future__ import annotations

import html

from pursuit.printed import printable


def escape(text: str) -> str:
    """The text as HTML shows it."""
    return html.escape(printable(text, keep="\n"))
