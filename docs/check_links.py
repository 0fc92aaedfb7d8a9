"""Check every link inside the built site: pages, files and anchors, and no link inside another.

No network is used.

Run after the build: ``python docs/check_links.py [docs/_build/html]``. It prints each broken link
with its page, and fails if there is one.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

DEFAULT = Path(__file__).parent / "_build" / "html"
LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src"}


class Page(HTMLParser):
    """Links of a page, and the anchors in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.nested = [], set(), []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors.update(found[key] for key in ("id", "name") if found.get(key))
        link = found.get(LINKS.get(tag, ""))
        # The theme's own placeholders, such as the button that changes light and dark.
        if link and link != "#":
            self.links.append(link)
        if tag == "a":
            if self._inside:
                self.nested.append(link)
            self._inside = True

    def handle_endtag(self, tag):
        if tag == "a":
            self._inside = False


def broken_links(site):
    """(page, link, what is wrong) of every broken link."""
    site = Path(site).resolve()
    files = sorted(site.rglob("*.html"))
    pages = {
        file: Page(file.read_text(encoding="utf-8"))
        for file in files
        if file.relative_to(site).parts[0] != "_static"  # there are the theme's templates
    }
    for file, page in pages.items():
        for link in page.nested:
            yield file.relative_to(site).as_posix(), link, "inside another link"
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            name = file.relative_to(site).as_posix()
            if not target.is_relative_to(site) or not target.exists():
                yield name, link, "no such file"
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors | {""}:
                yield name, link, "no such anchor"


def main():
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    if not (site / "index.html").exists():
        sys.exit(f"{site} holds no site: build it first, with make docs")
    found = list(broken_links(site))
    for page, link, wrong in found:
        print(f"{page}: {link}: {wrong}")
    print(f"{len(found)} broken links in {site}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
