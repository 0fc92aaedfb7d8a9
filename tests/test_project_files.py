"""Files beside the sources say the same: versions, Pythons, requirements, years, addresses."""

import importlib.util
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import pursuit

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"
pytestmark = pytest.mark.skipif(
    not WORKFLOWS.exists(), reason="a source distribution has no workflows beside the tests"
)


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def project():
    return tomllib.loads(text("pyproject.toml"))["project"]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def declared_pythons():
    named = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in
             project()["classifiers"]]  # fmt: skip
    return [found[1] for found in named if found]


def workflow(name):
    # The key "on" is a boolean in YAML 1.1.
    return yaml.safe_load(text(f".github/workflows/{name}"))


# Pythons and platforms


def test_all_declared_pythons_are_tested_on_all_platforms():
    matrix = workflow("tests.yml")["jobs"]["newest"]["strategy"]["matrix"]
    assert matrix["python"] == declared_pythons()
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_the_oldest_python_is_the_required_one():
    oldest = declared_pythons()[0]
    assert project()["requires-python"] == f">={oldest}"
    tests = tomllib.loads(text("pyproject.toml"))["tool"]
    assert tests["mypy"]["python_version"] == oldest
    assert tests["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    [setup] = [
        step["with"]["python-version"]
        for step in workflow("tests.yml")["jobs"]["lowest"]["steps"]
        if "setup-python" in step.get("uses", "")
    ]
    assert setup == oldest


def test_every_python_of_a_workflow_is_declared():
    for path in [*WORKFLOWS.glob("*.yml"), ROOT / ".readthedocs.yaml"]:
        named = re.findall(r'python(?:-version)?: "([\d.]+)"', path.read_text(encoding="utf-8"))
        assert set(named) <= set(declared_pythons()), path


def test_workflows_parse_and_call_targets_that_are_there():
    targets = re.findall(r"^([a-z]+):.*##", text("Makefile"), re.MULTILINE)
    for path in WORKFLOWS.glob("*.yml"):
        jobs = workflow(path.name)["jobs"]
        steps = [step for job in jobs.values() for step in job["steps"]]
        assert steps
        assert all(("run" in step) != ("uses" in step) for step in steps)
        called = re.findall(r"\bmake ([a-z]+)", " ".join(step.get("run", "") for step in steps))
        assert set(called) <= set(targets)


def test_every_job_ends_and_none_hands_its_key_to_what_it_runs():
    for path in WORKFLOWS.glob("*.yml"):
        for name, job in workflow(path.name)["jobs"].items():
            assert job["timeout-minutes"] <= 90, (path.name, name)
            for step in job["steps"]:
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False, (path.name, name)


@pytest.mark.skipif(os.name != "posix" or not shutil.which("make"), reason="needs make")
def test_make_lists_its_targets():
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True
    )
    listed = [re.fullmatch(r"make ([a-z]+) +(\S.*)", line) for line in done.stdout.splitlines()]
    described = re.findall(r"^([a-z]+):.*?## (.*)$", text("Makefile"), re.MULTILINE)
    assert [found.groups() for found in listed] == described
    # The sed of macOS writes \t as a t.
    assert not re.search(r"\bsed .*\\t", text("Makefile"))


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name
)
def test_yaml_parses(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


def test_a_release_needs_no_stored_password():
    publish = workflow("release.yml")["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in text(".github/workflows/release.yml")


# Versions


def test_the_lowest_versions_are_those_of_the_project():
    lowest = tool("lowest_versions").lowest(["test"])
    needs = project()["dependencies"] + [
        need
        for extra in "plot parquet dask lp cli onnx test".split()
        for need in project()["optional-dependencies"][extra]
        if not need.startswith("pursuit[")
    ]
    assert sorted({need.replace(">=", "==") for need in needs}) == lowest
    assert "tools/lowest_versions.py test" in text("Makefile")


def test_a_requirement_without_a_lowest_version_is_refused(monkeypatch):
    script = tool("lowest_versions")
    monkeypatch.setattr(script, "requirements", lambda extras: ["numpy"])
    with pytest.raises(SystemExit, match=r"'numpy' in pyproject\.toml has no lowest version"):
        script.lowest([])


def test_one_version_stands_everywhere():
    """Before a release the recipe names the coming version, the others end with .dev0."""
    version = project()["version"]
    assert pursuit.__version__ == version
    assert f'{{% set version = "{version.removesuffix(".dev0")}" %}}' in text("recipe/meta.yaml")


def test_the_recipe_needs_what_the_project_needs():
    recipe = yaml.safe_load(re.sub(r"\{%.*?%\}\n|[{}]{2}", "", text("recipe/meta.yaml")))
    needs = [need.replace(" ", "") for need in recipe["requirements"]["run"]]
    assert needs[0] == f"python{project()['requires-python']}"
    assert needs[1:] == project()["dependencies"]
    known = {
        re.split(r"[\[>]", need)[0]: need.partition(">=")[2]
        for extra in project()["optional-dependencies"].values()
        for need in extra
    }
    for need in recipe["requirements"]["run_constrained"]:
        name, version = need.replace("-base", "").split(" >=")
        assert known[name] == version


@pytest.mark.parametrize(
    ("tag", "version", "expected"),
    [
        ("v1.2.3", "1.2.3", []),
        ("v1.2.4", "1.2.3", ["the tag is v1.2.4"]),
        ("v1.2.3.dev0", "1.2.3.dev0", ["is not the version of a release"]),
    ],
)
def test_only_a_release_is_released(tmp_path, tag, version, expected):
    (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n', "utf-8")
    (tmp_path / "CITATION.cff").write_text(f"version: {version}\n", "utf-8")
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version}, 2030-01-31\n", "utf-8")
    found = list(tool("check_release").complaints(tag, tmp_path))
    assert len(found) == len(expected)
    assert all(part in sentence for part, sentence in zip(expected, found, strict=True))
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 0.1, unreleased\n", "utf-8")
    assert "CHANGELOG.md" in list(tool("check_release").complaints(tag, tmp_path))[-1]


# Citation, addresses, pages


def test_the_citation_has_the_version_and_the_years_of_the_bibliography():
    citation = yaml.safe_load(text("CITATION.cff"))
    assert citation["version"] == project()["version"]
    assert citation["license"] == project()["license"]
    works = {}
    for entry in re.findall(
        r"^@\w+\{.*?^\}", text("docs/references.bib"), re.DOTALL | re.MULTILINE
    ):
        fields = dict(re.findall(r"(\w+)\s*=\s*\{(.*?)\},?\n", entry, re.DOTALL))
        works[plain(fields["title"])] = int(fields["year"])
    assert citation["references"]
    for work in citation["references"]:
        assert work["year"] == works[plain(work["title"])], work["title"]


def test_no_text_names_another_year_of_a_paper():
    """Both papers of Zhang are of 2002: in order of their titles, 2002a and 2002b."""
    years = set()
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*.rst")]
    for path in [*(ROOT / "src").rglob("*.py"), *pages]:
        years |= set(re.findall(r"Zhang \(?(\d{4}\w?)", path.read_text(encoding="utf-8")))
    assert years == {"2002a", "2002b"}


def plain(title):
    return re.sub(r"\W+", " ", title.replace("{", "").replace("}", "")).lower().strip()


def test_a_release_has_addresses(tmp_path):
    """The repository does not know its own: the workflow that builds a release writes them."""
    release = " ".join(
        step.get("run", "") for step in workflow("release.yml")["jobs"]["build"]["steps"]
    )
    assert release.index("tools/add_addresses.py") < release.index("make dist")
    for name in ("pyproject.toml", "CITATION.cff", "README.md"):
        (tmp_path / name).write_text(text(name), encoding="utf-8")

    address = "https://example.org/someone/pursuit"
    tool("add_addresses").add(f"{address}/", "v1.2.3", tmp_path)

    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    citation = yaml.safe_load((tmp_path / "CITATION.cff").read_text("utf-8"))
    assert urls["Source"] == citation["repository-code"] == address
    assert all(page.startswith(address) for page in urls.values())
    before, after = (
        re.findall(r"\]\(([^)]+)\)", page)
        for page in (text("README.md"), (tmp_path / "README.md").read_text("utf-8"))
    )
    inside = [link for link in before if not link.startswith(("http", "#"))]
    assert len(inside) > 10
    for link, absolute in zip(before, after, strict=True):
        kind = "raw" if link.endswith(".svg") else "blob"
        assert absolute == (f"{address}/{kind}/v1.2.3/{link}" if link in inside else link)

    with pytest.raises(SystemExit, match="has addresses already"):
        tool("add_addresses").add(address, "v1.2.3", tmp_path)


@pytest.mark.parametrize(
    "page", ["SECURITY.md", "CODE_OF_CONDUCT.md", "GOVERNANCE.md", "MAINTAINING.md"]
)
def test_pages_about_the_project_are_in_the_source_distribution(page):
    built = tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert page in built["include"]
    links = re.findall(r"\]\(([^)#:]+)\)", text(page))
    assert [link for link in links if not (ROOT / link).exists()] == []
