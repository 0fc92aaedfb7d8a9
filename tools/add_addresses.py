"""Write the address of the repository where a package needs it.

``python tools/add_addresses.py https://github.com/OWNER/pursuit v1.2.3`` changes pyproject.toml,
CITATION.cff and README.md in place. The workflow "release" runs it before it builds: a repository
does not know where it is published, and the package index shows the README without the files that
its links lead to.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = "# [project.urls]: tools/add_addresses.py writes them at a release.\n"


def urls(address, tag):
    """The table [project.urls]."""
    pages = {
        "Source": address,
        "Documentation": f"{address}/blob/{tag}/docs/getting_started.md",
        "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    return "[project.urls]\n" + "".join(f'{name} = "{page}"\n' for name, page in pages.items())


def with_absolute_links(page, address, tag):
    """The same Markdown; links to files of the repository lead to them as they are at this tag."""
    relative = r"\]\((?![a-z]+:|#)([^)]+)\)"
    page = re.sub(rf"(!\[[^\]]*){relative}", rf"\1]({address}/raw/{tag}/\2)", page)
    return re.sub(relative, rf"]({address}/blob/{tag}/\1)", page)


def add(address, tag, root=ROOT):
    """Change the files below ``root``."""
    address = address.rstrip("/")
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    if PLACE not in project:
        sys.exit(f"pyproject.toml has addresses already, or this line is gone: {PLACE}")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    readme = (root / "README.md").read_text(encoding="utf-8")
    changed = {
        "pyproject.toml": project.replace(PLACE, urls(address, tag)),
        "CITATION.cff": citation.replace(
            "\nauthors:\n", f'\nrepository-code: "{address}"\nauthors:\n', 1
        ),
        "README.md": with_absolute_links(readme, address, tag),
    }
    for name, text in changed.items():
        (root / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    add(*sys.argv[1:])
