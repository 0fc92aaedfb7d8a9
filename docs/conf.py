"""Sphinx configuration. Neither the build nor the site needs a network."""

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

import pursuit

sys.path.insert(0, str(Path(__file__).parent))

project = "pursuit"
author = "The pursuit developers"
copyright = f"2026, {author}"
version = release = pursuit.__version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",  # for testsetup: what the code of a page needs and a reader does not
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

toc_object_entries_show_parents = "hide"  # the list beside a class has no room for its name
autodoc_typehints = "none"  # the numpydoc sections say the types in words
autosummary_generate = True
numpydoc_show_class_members = False  # the class template lists them
bibtex_bibfiles = ["references.bib"]
# Markdown pages have no roles or directives, so that GitHub shows them, too.
myst_enable_extensions = ["dollarmath"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "within_subsection_order": "gallery_order.ByTask",
    # Recipes with packages that need not be installed are shown, not run: tools/recipes.py.
    "ignore_pattern": r"(^|/)(?!plot_|with_)[^/]*\.py$",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "pursuit"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "pursuit", "alt_text": "pursuit, to the first page"},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
# Pages without pages below them have nothing to list beside the text.
PLAIN_PAGES = (
    "index getting_started choose benchmarks frontier install architecture references deprecation"
    " changelog"
)
html_sidebars = {page: [] for page in PLAIN_PAGES.split()}


def skip_metadata_requests(app, what, name, obj, skip, options):
    """Leave out the methods for metadata routing that scikit-learn adds to every estimator."""
    routing = name == "get_metadata_routing" or (
        name.startswith("set_") and name.endswith("_request")
    )
    return True if routing else None


def above(node):
    """What a node is in, from the inside."""
    while node.parent is not None:
        node = node.parent
        yield node


def link_names(app, doctree):
    """Link public names in the inline code of Markdown pages to the API reference."""
    if not str(app.env.doc2path(app.env.docname)).endswith(".md"):
        return
    kept = nodes.title | nodes.reference | addnodes.pending_xref
    for code in list(doctree.findall(nodes.literal)):
        name = code.astext().removeprefix("pursuit.")
        if name not in pursuit.__all__ or any(isinstance(node, kept) for node in above(code)):
            continue
        target = {"refdomain": "py", "reftype": "obj", "reftarget": f"pursuit.{name}"}
        link = addnodes.pending_xref("", refdoc=app.env.docname, refexplicit=True, **target)
        code.replace_self(link)
        link.append(code)


def keep_numbers_whole(app, doctree):
    """Let no line end within a number such as 10 000; code stays as it is."""
    kept = nodes.FixedTextElement | nodes.literal | nodes.math | nodes.raw
    for words in list(doctree.findall(nodes.Text)):
        whole = re.sub(r"(?<=\d) (?=\d{3}\b)", "\N{NO-BREAK SPACE}", words)
        if whole != words and not any(isinstance(node, kept) for node in above(words)):
            words.parent.replace(words, nodes.Text(whole))


def setup(app):
    app.connect("autodoc-skip-member", skip_metadata_requests)
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", keep_numbers_whole)
