"""Sphinx extension: formulas as MathML, which browsers draw with no script and no network."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def mathml(tex, *, block):
    """The formula as a <math> element."""
    tex = re.sub(r"\\dots\b", r"\\ldots", tex).replace("½", r"\tfrac12")
    tex = re.sub(r"(frac)\s*(\d)(\d)", r"\1{\2}{\3}", tex)  # else 12 is one number
    if block and (r"\\" in tex or "&" in tex) and r"\begin" not in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    return tex2mathml(tex, as_block=block)


def renderer(block):
    def visit(self, node):
        try:
            found = mathml(node.astext(), block=block)
        except MathError as error:
            logger.warning("formula not understood: %s", error, location=node)
            found = f"<code>{self.encode(node.astext())}</code>"
        self.body.append(f'<div class="formula">{found}</div>\n' if block else found)
        raise nodes.SkipNode

    return visit, None


def setup(app):
    app.add_html_math_renderer("mathml", renderer(False), renderer(True))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
