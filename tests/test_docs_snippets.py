"""The code of the README and of the documentation runs, prints what they say, and quotes truly."""

import contextlib
import io
import re
import shlex
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(
    not (ROOT / "docs").exists(), reason="a source distribution has no documentation"
)
NOT_RUN = {"docs/how_to_cluster.rst": "needs a cluster; tests/estimators/test_dask.py has one"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(
    r"^\.\. (?:code-block:: (?P<language>\w+)|(?P<setup>testsetup)::)\n\n"
    r"(?P<text>(?:(?: +.*)?\n)+)",
    re.MULTILINE,
)
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
SECONDS = re.compile(r"\d+(?:\.\d+)? s\b")
EXHAUSTED = re.compile(r"(?<=stopped by       )(no gain|rank)$", re.MULTILINE)
"""Where nearly all rows are in the basis, last bits decide which of the two ends the choice."""
SOURCE_NAME = re.compile(r"# (src/\S+\.py)\n")
DEFINITION = re.compile(r"^@dataclass.*", re.MULTILINE | re.DOTALL)


def blocks(page):
    """Language, text and first line number of each block of code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.endswith(".md"):
        for match in FENCE.finditer(text):
            yield match[1], match[2], text.count("\n", 0, match.start()) + 2
        return
    for match in DIRECTIVE.finditer(text):
        language = "python" if match["setup"] else match["language"]
        line = text.count("\n", 0, match.start("text")) + 1
        yield language, textwrap.dedent(match["text"]).rstrip("\n") + "\n", line


def pages_with(language):
    documents = ["README.md", "CONTRIBUTING.md"] + [
        path.relative_to(ROOT).as_posix()
        for pattern in ("*.md", "*.rst", "moving_over/*.md")
        for path in sorted((ROOT / "docs").glob(pattern))
    ]
    return [page for page in documents if any(block[0] == language for block in blocks(page))]


PAGES = [page for page in pages_with("python") if page not in NOT_RUN]


def command(line):
    """What a command of ours prints on standard output; others are not run."""
    words = shlex.split(line.removeprefix("$ "), comments=True)
    if words[0] != "pursuit" or words[1:2] == ["demo"]:
        return ""
    from typer.testing import CliRunner

    from pursuit.cli.commands import app

    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, f"{line}\n{result.output}"
    return result.stdout


def run(page):
    """Run the blocks of a page in one namespace, as a reader would.

    Gives each block of what was printed with its line number, and what the code before it printed.
    """
    namespace = {"__name__": "snippets"}
    printed = ""
    shown = []
    for language, text, line in blocks(page):
        if language == "python":
            # The line numbers of a traceback are then those of the page.
            code = compile("\n" * (line - 1) + text, str(ROOT / page), "exec")
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(code, namespace)
            printed = stream.getvalue()
        elif language == "console" and page.endswith(".md"):
            printed = "".join(command(each) for each in text.splitlines() if each[:2] == "$ ")
        elif language == "text":
            shown.append((line, text, printed))
    return shown


@pytest.mark.parametrize("page", PAGES)
def test_the_code_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    for line, said, printed in run(page):
        place = f"{page}, line {line}"
        said, printed = (EXHAUSTED.sub("rank", SECONDS.sub("", text)) for text in (said, printed))
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", said), place
        # Rounding differs between machines, and may lead to another choice of basis: with NumPy 2.5
        # a density of docs/full_scale.rst is 9 % less than with 2.4.
        numbers = [[float(number) for number in NUMBER.findall(text)] for text in (printed, said)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.1), place


def test_what_is_quoted_from_the_source_is_in_the_source():
    quoted = [
        (SOURCE_NAME.match(text), DEFINITION.search(text))
        for page in PAGES
        for language, text, _ in blocks(page)
        if language == "python" and SOURCE_NAME.match(text)
    ]
    assert quoted
    for name, definition in quoted:
        assert definition[0] in (ROOT / name[1]).read_text(encoding="utf-8")
