"""Refuse to release what is not ready: ``python tools/check_release.py v1.2.3``.

The tag, the version in pyproject.toml and CITATION.cff, and the newest entry of the changelog must
agree, and a version under development is no release.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def complaints(tag, root=ROOT):
    """What keeps this tag from being released, in sentences."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    cited = re.search(
        r"^version: (\S+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE
    )
    newest = re.search(
        r"^## \[?([^\],\s]+)", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    if tag != f"v{version}":
        yield f"the tag is {tag} and pyproject.toml says version {version}"
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version):
        yield f"{version} is not the version of a release"
    if cited is None or cited[1] != version:
        yield f"CITATION.cff must say version: {version}"
    if newest is None or newest[1] != version:
        yield f"the first entry of CHANGELOG.md must be that of {version}"


if __name__ == "__main__":
    found = list(complaints(sys.argv[1]))
    print("\n".join(found) or "ready")
    sys.exit(bool(found))
