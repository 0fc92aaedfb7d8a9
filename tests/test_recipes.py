"""Recipes with other packages run where these are installed, and print what is documented."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "integrations"
pytestmark = pytest.mark.skipif(
    not FOLDER.exists(), reason="a source distribution has no examples beside the tests"
)


def tool():
    spec = importlib.util.spec_from_file_location("recipes", ROOT / "tools" / "recipes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stems(pattern):
    return sorted(path.stem for path in FOLDER.glob(pattern))


@pytest.mark.parametrize("name", stems("with_*.py"))
def test_it_runs_and_prints_what_the_documentation_shows(name):
    pytest.importorskip("matplotlib")
    recipes = tool()
    script = FOLDER / f"{name}.py"
    if reason := recipes.why_not(script):
        pytest.skip(reason)
    stored = (ROOT / "docs" / "recipes" / f"{name}.txt").read_text(encoding="utf-8")
    assert recipes.complaint(recipes.run(script), stored) == ""


@pytest.mark.parametrize("name", stems("with_*.py"))
def test_it_asserts_something_and_is_shown_with_its_output(name):
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert re.search(r"^ *assert ", text, re.MULTILINE)
    for suffix in (".txt", ".png"):
        assert f":: /recipes/{name}{suffix}\n" in text
        assert (ROOT / "docs" / "recipes" / f"{name}{suffix}").stat().st_size > 0


def test_everything_stored_belongs_to_a_recipe():
    assert sorted({path.stem for path in (ROOT / "docs" / "recipes").iterdir()}) == stems(
        "with_*.py"
    )


@pytest.mark.parametrize("name", stems("*.py"))
def test_the_page_of_integrations_leads_to_it(name):
    page = (ROOT / "docs" / "integrations.rst").read_text(encoding="utf-8")
    assert f"auto_examples/integrations/{name}>`" in page


def test_the_requirements_are_what_the_recipes_import():
    """Those that pursuit[all] brings are not repeated."""
    needed = {
        name.replace("_", "-") for script in FOLDER.glob("*.py") for name in tool().imported(script)
    }
    listed = re.findall(
        r"^([\w-]+)>=", (FOLDER / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    known = {"pursuit", "numpy", "scipy", "sklearn", "matplotlib", "pandas"}
    assert sorted(needed - known) == sorted(listed)


def test_a_package_that_is_missing_is_named_with_its_command(tmp_path):
    script = tmp_path / "with_nothing.py"
    script.write_text("import os\nfrom no_such.part import x\nimport numpy as np\n", "utf-8")
    recipes = tool()
    assert recipes.imported(script) == ["no_such", "numpy"]
    assert recipes.why_not(script) == "not installed: no-such. To install: pip install no-such"
    script.write_text("import numpy\n", "utf-8")
    assert recipes.why_not(script) == ""


def test_an_assertion_that_fails_is_reported(tmp_path):
    pytest.importorskip("matplotlib")
    script = tmp_path / "with_fault.py"
    script.write_text("print('before')\nassert 1 > 2, 'no'\n", "utf-8")
    with pytest.raises(AssertionError, match=r"(?s)with_fault\.py failed:\nbefore.*AssertionError"):
        tool().run(script)


@pytest.mark.parametrize(
    ("printed", "stored", "found"),
    [
        ("error 1.02\n", "error 1.00\n", ""),
        ("error 1.2\n", "error 1.0\n", "it prints 1.2, and the documentation says 1.0"),
        ("error 1.0\n", "mistake 1.0\n", "it prints\nerror 1.0\nand the documentation says\nmis"),
    ],
)
def test_outputs_are_compared(printed, stored, found):
    complaint = tool().complaint(printed, stored)
    assert complaint.startswith(found)
    assert bool(complaint) == bool(found)


def test_an_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        tool().main(["with_magic"])
    assert "no such recipe: with_magic" in capsys.readouterr().err
