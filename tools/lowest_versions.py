"""Print the lowest versions that pyproject.toml allows, as requirements with ``==``.

``python tools/lowest_versions.py`` reads the dependencies; names of extras add theirs. A lowest
version is written down in pyproject.toml only.
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
_NEED = re.compile(r"([A-Za-z0-9._-]+)(\[[^\]]*\])?>=([0-9][0-9.]*)")


def requirements(extras):
    """The requirements of the project, and of some of its extras, extras of extras included."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    found, waiting = list(project["dependencies"]), list(extras)
    while waiting:
        for need in project["optional-dependencies"][waiting.pop()]:
            inner = re.fullmatch(rf"{project['name']}\[([^\]]*)\]", need)
            waiting += inner[1].split(",") if inner else []
            found += [] if inner else [need]
    return found


def lowest(extras):
    """``name==version`` for every requirement."""
    pinned = {}
    for need in requirements(extras):
        parts = _NEED.fullmatch(need)
        if parts is None:
            raise SystemExit(f"{need!r} in pyproject.toml has no lowest version: write name>=1.2")
        name, its_extras, version = parts.groups()
        pinned[name] = f"{name}{its_extras or ''}=={version}"
    return sorted(pinned.values())


if __name__ == "__main__":
    print("\n".join(lowest(sys.argv[1:])))
