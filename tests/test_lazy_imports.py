"""What an import loads, and what it does not: names of the package come when they are used."""

import ast
import os
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pursuit

HEAVY = {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib"}
OPTIONAL = {"matplotlib", "pyarrow", "dask", "onnx", "highspy", "typer", "polars", "duckdb"}
RUN = "import sys; sys.argv[:] = ['pursuit', *{words!r}]; from pursuit.cli import main; main()"
"""The command under its own name, which completion depends on."""


def loaded(statement, **environment):
    """Top-level modules of a new interpreter that has run a statement, and its standard output."""
    watch = "import atexit, sys; atexit.register(lambda: print(*sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", f"{watch}\n{statement}"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    *output, modules = result.stdout.splitlines()
    return {name.partition(".")[0] for name in modules.split()}, "\n".join(output)


def test_the_package_loads_nothing_heavy():
    modules, _ = loaded("import pursuit; pursuit.__version__; dir(pursuit)")
    assert "pursuit" in modules
    assert not modules & HEAVY


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--help"], "fit"),
        (["--version"], pursuit.__version__),
        (["fit", "--help"], "--target"),
        (["papers", "run", "--help"], "--quick"),
    ],
    ids=["help", "version", "fit", "papers"],
)
def test_help_and_version_load_nothing_heavy(words, shown):
    modules, output = loaded(RUN.format(words=words))
    assert shown in output
    assert not modules & HEAVY


def test_the_version_is_that_of_the_project():
    project = Path(__file__).parents[1] / "pyproject.toml"
    if not project.exists():
        pytest.skip("a source distribution has no pyproject.toml beside the tests")
    found = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
    assert pursuit.__version__ == found


def test_completion_loads_nothing_heavy():
    asked = {"_PURSUIT_COMPLETE": "complete_bash", "COMP_WORDS": "pursuit fi", "COMP_CWORD": "1"}
    modules, output = loaded(RUN.format(words=[]), **asked)
    assert output == "fit"
    assert not modules & HEAVY


def test_a_pickled_estimator_opens_and_loads_no_optional_package(tmp_path):
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps(pursuit.SparseGPRegressor(n_basis=7)))
    modules, output = loaded(
        f"import pickle; print(pickle.load(open({str(path)!r}, 'rb')).n_basis)"
    )
    assert output == "7"
    assert "sklearn" in modules
    # scikit-learn loads pandas, and pandas pyarrow, where they are installed.
    alone, _ = loaded("import sklearn")
    assert not (modules - alone) & OPTIONAL


def test_every_name_is_what_its_room_defines():
    for name, room in pursuit._ROOM_OF.items():
        assert getattr(pursuit, name) is getattr(getattr(pursuit, room), name)
    namespace = {}
    exec("from pursuit import *", namespace)
    assert set(pursuit.__all__) <= set(namespace)


def test_rooms_are_attributes():
    rooms = [room for room in pursuit._ROOMS if room != "testing"]
    statement = f"import pursuit; print(*(getattr(pursuit, room).__name__ for room in {rooms!r}))"
    _, output = loaded(statement)
    assert output.split() == [f"pursuit.{room}" for room in rooms]
    assert pursuit.testing.check_kernel


def test_the_imports_for_type_checkers_are_the_table():
    """The second list of names, which only type checkers and editors read."""
    tree = ast.parse(Path(pursuit.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {(node.module, alias.asname) for node in block.body for alias in node.names}
    named = {(f"pursuit.{room}", name) for name, room in pursuit._ROOM_OF.items()}
    # Nothing below `testing` may import it, not even for types.
    rooms = set(pursuit._ROOMS) - {"testing"}
    assert imported == named | {("pursuit", room) for room in rooms}


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'pursuit' has no attribute 'SparseGP'"):
        _ = pursuit.SparseGP
    with pytest.raises(ImportError, match="cannot import name 'SparseGP'"):
        exec("from pursuit import SparseGP")


def test_a_mistyped_name_has_the_nearest_one_beside_it():
    words = [sys.executable, "-c", "import pursuit; pursuit.SparseGPRegresor"]
    shown = subprocess.run(words, capture_output=True, text=True, check=False).stderr
    assert "Did you mean: 'SparseGPRegressor'?" in shown


def test_dir_lists_what_was_not_used_yet():
    _, output = loaded("import pursuit; print(*dir(pursuit))")
    assert {*pursuit.__all__, *pursuit._ROOMS} <= set(output.split())
