"""Run the recipes of examples/integrations that need packages which pursuit itself does not need.

``python tools/recipes.py`` runs each recipe whose packages are installed, and compares what it
prints with docs/recipes, which the documentation shows; ``--store`` writes these files, pictures
included. Names of recipes after it run only these. A recipe asserts its results itself.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER, STORED = ROOT / "examples" / "integrations", ROOT / "docs" / "recipes"
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_TOLERANCE = 0.05
"""Numbers may differ by this share: rounding and other versions may change a choice."""
_RUN = """
import runpy, sys
import matplotlib
matplotlib.use("agg")
runpy.run_path(sys.argv[1], run_name="__main__")
if len(sys.argv) > 2:
    from matplotlib import pyplot
    pyplot.savefig(sys.argv[2], dpi=80, metadata={"Software": None})
"""


def recipes():
    """The scripts, in order of their names."""
    return sorted(FOLDER.glob("with_*.py"))


def imported(script):
    """The packages that a script imports, without modules of Python itself."""
    names = set()
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    return sorted({name.split(".")[0] for name in names} - sys.stdlib_module_names)


def missing(script):
    """What a script needs and this environment does not have, as names that pip knows."""
    return [name.replace("_", "-") for name in imported(script) if find_spec(name) is None]


def why_not(script):
    """Why a script cannot be run, with the command that changes it; empty if it can."""
    names = " ".join(missing(script))
    return f"not installed: {names}. To install: pip install {names}" if names else ""


def run(script, picture=None):
    """Run a script in a process of its own: what it prints. Its last figure becomes the picture."""
    command = [sys.executable, "-W", "ignore", "-c", _RUN, str(script)]
    done = subprocess.run(
        command + ([] if picture is None else [str(picture)]),
        capture_output=True,
        check=False,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )
    if done.returncode:
        raise AssertionError(f"{script.name} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def complaint(printed, stored):
    """How two outputs differ: in words, or in numbers by more than the tolerance."""
    if _NUMBER.sub("#", printed) != _NUMBER.sub("#", stored):
        return f"it prints\n{printed}and the documentation says\n{stored}"
    pairs = zip(_NUMBER.findall(printed), _NUMBER.findall(stored), strict=True)
    apart = [(a, b) for a, b in pairs if abs(float(a) - float(b)) > _TOLERANCE * float(b)]
    return "; ".join(f"it prints {a}, and the documentation says {b}" for a, b in apart)


def main(arguments=None):
    """Run, and store or compare: the number of recipes whose output is another one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="recipes to run, such as with_mapie")
    parser.add_argument("--store", action="store_true", help="write what the documentation shows")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {script.stem for script in recipes()}
    if unknown:
        parser.error(f"no such recipe: {', '.join(sorted(unknown))}")
    wrong = 0
    for script in recipes():
        if options.names and script.stem not in options.names:
            continue
        if reason := why_not(script):
            print(f"== {script.stem}: skipped, {reason}")
            continue
        text, picture = (STORED / f"{script.stem}{suffix}" for suffix in (".txt", ".png"))
        printed = run(script, picture if options.store else None)
        print(f"== {script.stem}\n{printed}", end="", flush=True)
        if options.store:
            text.write_text(printed, encoding="utf-8")
        elif different := complaint(printed, text.read_text(encoding="utf-8")):
            wrong += 1
            print(f"-- {script.stem}: {different}")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
