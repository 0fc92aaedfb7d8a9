"""Numbers of the README come from stored results, and GitHub shows what it links to."""

import csv
import importlib.util
import json
import math
import random
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(
    not DOCS.exists(), reason="a source distribution has no documentation"
)

# Numbers of the prose that need no stored result, each with the words around it, and why.
ALLOWED = {
    "10⁴–10⁷ rows": "the range that the package is for",
    "a few hundred basis points": "what a model has by default",
    "Python 3.11 or newer": "compared with pyproject.toml below",
    "Smola & Schölkopf 2000": "a year, compared with the bibliography below",
    "Smola & Bartlett 2001": "the same",
    "Zhang 2002a": "the same",
    "Zhang 2002b": "the same",
    "Hussain & Shawe-Taylor 2008": "the same",
    "on six data sets": "those of the figure",
    "half the number of\nrows": "P of the mean, for targets of variance one",
    "four algorithms with proved rates": "those of Zhang 2002b",
    "between two views": "what the estimator takes",
    "one of five papers": "those of `pursuit papers`",
    "one of these four": "the rows of the table below it",
    "up to tens of thousands of rows": "what is stored is for 48 546",
    "beyond a few thousand rows": "the least memory for which the exact process stores no matrix",
    "a million rows on a CPU": "a line of the comparison",
    "With a few thousand rows or fewer": "where an exact process can be more accurate",
    "a few thousand\n  basis functions": "where rows × basis² takes minutes",
    "rows × basis²": "a formula",
    "Beyond 50 000 rows": "up to where fit computes a tight certificate, compared below",
    "at most 2 000 rows": "that hyper-parameters are learned on, the same",
    "BSD 3-Clause": "the name of the licence",
    "`12 %`": "a form of numbers in tables",
}
# Numbers in words are numbers, too.
NUMBER = re.compile(
    r"[\d⁰¹²³⁴-⁹½]+|\b(?:two|three|four|five|six|seven|eight|nine|ten|tens|hundred|thousand"
    r"|thousands|million|times|twice|half|double)\b"
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# GitHub shows Markdown, pictures, tables and source as what they are; of reStructuredText it leaves
# out what Sphinx adds.
SHOWN = {".md", ".png", ".svg", ".py", ".csv", ".cff", ""}
SPHINX = re.compile(r"\{[a-z:-]+\}`|^```\{|^:{3,}", re.MULTILINE)


def script(name="make_readme"):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    if str(DOCS) not in sys.path:
        sys.path.append(str(DOCS))  # of what the script imports
    spec.loader.exec_module(module)
    return module


def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


def prose(text):
    """The text without blocks of code, links' targets and regions that are written from results."""
    text = script().REGION.sub("", text)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", text)


# The README as it is


@pytest.mark.parametrize(
    "page", script().pages() if DOCS.exists() else [], ids=lambda path: path.name
)
def test_the_numbers_are_those_of_the_stored_results(page):
    text = page.read_text(encoding="utf-8")
    assert script().filled(text) == text, "run python docs/make_readme.py"


def test_other_numbers_are_allowed_and_needed():
    text = prose(readme())
    for words in ALLOWED:
        assert words in text, "a reason for a number that is gone"
        text = text.replace(words, "")
    assert NUMBER.findall(text) == [], "a number of the README needs a stored result, or a reason"


def test_papers_have_the_years_of_the_bibliography():
    entries = (DOCS / "references.bib").read_text(encoding="utf-8").split("\n@")
    cited = [re.fullmatch(r"(Smola|Zhang|Hussain)\b.* (\d{4})[ab]?", words) for words in ALLOWED]
    for author, year in (found.groups() for found in cited if found):
        pattern = rf"author\s+= \{{{author},.*year\s+= \{{{year}\}}"
        assert any(re.search(pattern, entry, re.DOTALL) for entry in entries), (author, year)


def test_the_oldest_python_is_that_of_the_project():
    assert 'requires-python = ">=3.11"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_limits_are_those_of_the_package():
    demo = pytest.importorskip("pursuit.cli.demo")
    from pursuit import limits
    from pursuit.estimators.span.model import _AUTO_CERTIFICATE_ROWS

    sizes = limits.EVIDENCE_ROWS, _AUTO_CERTIFICATE_ROWS[1], demo._ROWS
    assert sizes == (2_000, 50_000, 100_000)


def test_github_shows_what_the_readme_links_to():
    links = [link.split("#")[0] for link in LINK.findall(readme()) if "://" not in link]
    assert len(links) > 10
    for link in filter(None, links):
        path = ROOT / link
        assert path.is_file(), link
        assert path.suffix in SHOWN, link
        if path.suffix == ".md":
            assert SPHINX.findall(path.read_text(encoding="utf-8")) == [], link


@pytest.mark.parametrize(
    "page",
    [*DOCS.glob("*.md"), *DOCS.glob("moving_over/*.md")],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_markdown_pages_are_plain_and_their_links_are_there(page):
    text = page.read_text(encoding="utf-8")
    if page.name != "changelog.md":  # which includes that of the repository
        assert SPHINX.findall(text) == []
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    links = [link.split("#")[0] for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if link and not (page.parent / link).exists()] == []


def close(shown, stored, n):
    """Whether a number that a page shows is a stored one, rounded to n digits."""
    return abs(float(shown.replace("−", "-")) - stored) <= 0.5001 * 10 ** (
        math.floor(math.log10(abs(stored))) - n + 1
    )


def cells_of_the_readme():
    """Model, data set, error and seconds of every cell, from the text alone."""
    lines = readme().splitlines()
    [first] = [i for i, line in enumerate(lines) if line.startswith("| rows × features")]
    names = [name.split("<br>")[0] for name in lines[first].strip("| ").split(" | ")[1:]]
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            return
        model, *cells = line.strip("| ").split(" | ")
        for name, cell in zip(names, cells, strict=True):
            error, fit = re.fullmatch(r"\**([\d.]+)\** in (.*) s", cell).groups()
            yield model, name, "**" in cell, error, fit


def test_the_table_has_the_stored_fit_of_least_error_in_every_cell():
    """Without the script that has written it."""
    with (DOCS / "benchmarks" / "frontier.csv").open(encoding="utf-8", newline="") as file:
        stored = [line for line in csv.DictReader(file) if line["seed"] == "0" and line["rmse"]]
    shown = list(cells_of_the_readme())
    assert len(shown) == 8 * 6
    least = {
        data: min(error for _, name, _, error, _ in shown if name == data)
        for data in {name for _, name, *_ in shown}
    }
    for model, data, bold, error, fit in shown:
        here = [
            line
            for line in stored
            if line["dataset"] == data and f"{line['model']}, {line['setting']}".startswith(model)
        ]
        best = min(here, key=lambda line: float(line["rmse"]))
        assert close(error, float(best["rmse"]), 3), (data, model)
        assert bold == (error == least[data]), (data, model)
        if best["status"] == "capped":
            assert fit == "> 600", (data, model)
        else:
            assert close(fit, float(best["fit_seconds"]), 2), (data, model)


def test_the_table_names_every_data_set_that_another_library_wins():
    with (DOCS / "benchmarks" / "frontier.csv").open(encoding="utf-8", newline="") as file:
        stored = [line for line in csv.DictReader(file) if line["seed"] == "0" and line["rmse"]]
    first = {}
    for line in sorted(stored, key=lambda line: float(line["rmse"])):
        first.setdefault(line["dataset"], line["model"])
    ours = {"SparseGPRegressor", "FullScaleGPRegressor", "ExactGPRegressor"}
    [told] = re.findall(r"^Another library has the least error on (.*)\.$", readme(), re.MULTILINE)
    assert dict(re.findall(r"(\w+) \(([\w +]+)\)", told)) == {
        data: model for data, model in first.items() if model not in ours
    }


def test_the_reasons_have_the_stored_numbers():
    text = readme()

    def figures(case):
        stored = json.loads((DOCS / "benchmarks" / f"{case}.json").read_text(encoding="utf-8"))
        return {f["name"]: f["value"] for f in stored["cases"][case]["figures"]}

    arm = figures("million")
    line = r"standard deviations\) of (\S+) after (\S+) s with (\S+) GB of memory beside the data"
    for shown, name, n in zip(
        re.search(line, text).groups(), ("RMSE", "fit", "memory beyond the data"), (3, 2, 2),
        strict=True,
    ):  # fmt: skip
        assert close(shown, arm[f"SparseGPRegressor: {name}"], n)
    n_trees, error, fit = re.search(
        r"LightGBM with .* leaves, the best of (\d+) settings, (\S+) after (\S+) s ", text
    ).groups()
    trees = {
        name.split(":")[0]: value
        for name, value in arm.items()
        if name.startswith("LightGBM") and name.endswith(": RMSE")
    }
    best = min(trees, key=trees.get)
    assert int(n_trees) == len(trees)
    assert close(error, trees[best], 3)
    assert close(fit, arm[f"{best}: fit"], 2)
    table = figures("parquet")
    fit, memory = re.search(r"no certificate: (\S+) s and (\S+) GB", text).groups()
    assert close(fit, table["10000000 rows, kernel learned: fit"], 2)
    assert close(memory, table["10000000 rows, kernel learned: peak memory"], 2)
    share = figures("moving-over")["SparseGPRegressor, 20000 rows: coverage of 95 %"]
    assert f"{100 * share:.1f} % of 5 000 new rows" in text.replace(
        "\N{NARROW NO-BREAK SPACE}", " "
    )


def test_the_first_reason_is_the_fastest_of_ours_beside_the_two_best_of_others():
    with (DOCS / "benchmarks" / "frontier.csv").open(encoding="utf-8", newline="") as file:
        lines = [
            (line["model"], line["setting"], float(line["rmse"]), float(line["fit_seconds"]))
            for line in csv.DictReader(file)
            if (line["dataset"], line["seed"]) == ("kin40k", "0") and line["rmse"]
        ]
    [text] = re.findall(r"^- \*\*Accurate for its seconds.*$", readme(), re.MULTILINE)
    mine = re.search(
        r"`(\w+)` with (.*) has a test RMSE of (\S+) standard deviations after (\S+) s;", text
    ).groups()
    others = re.findall(r"; ([\w +]+) \(([^)]+?)(?: on [^)]*)?\) (\S+) after (\S+) s", text)
    best = {}
    for model, setting, error, fit in sorted(lines, key=lambda line: -line[2]):
        if model.removesuffix("GPRegressor") not in {"Sparse", "FullScale", "Exact"}:
            best[model] = (model, setting, error, fit)
    first = sorted(best.values(), key=lambda line: line[2])[:2]
    ours = [line for line in lines if line[0].endswith("GPRegressor") and line[2] <= first[0][2]]
    quickest = min(ours, key=lambda line: line[3])
    assert len(others) == 2
    for shown, stored in zip([mine, *others], [quickest, *first], strict=True):
        assert shown[:2] == stored[:2]
        assert close(shown[2], stored[2], 3)
        assert close(shown[3], stored[3], 2)


def test_the_certificates_are_those_that_were_counted():
    stored = json.loads((DOCS / "torture.json").read_text(encoding="utf-8"))
    counts = stored["fuzzers"]["certificates"]["counts"]
    of = {kind: sum(counts[f"{kind}, {level}"] for level in ("easy", "hard", "hopeless"))
          for kind in ("certificates", "violations")}  # fmt: skip
    text = readme().replace("\N{NARROW NO-BREAK SPACE}", "")
    assert f"Of {of['certificates']} certificates" in text
    assert ("none was false" in text) == (of["violations"] == 0)


# How regions are written, on results that are made up

FRONTIER = """\
dataset,rows,features,model,setting,seed,fit_seconds,cpu_seconds,predict_seconds,rmse,nlpd,coverage95,status,note
kin40k,36000,8,SparseGPRegressor,512 functions,0,10,18,1,0.15,-0.5,0.95,ok,
kin40k,36000,8,SparseGPRegressor,512 functions,1,12,20,1,0.13,-0.7,0.93,ok,
kin40k,36000,8,SparseGPRegressor,1024 functions,0,30,5,1,0.12,-0.8,0.94,ok,error bars of 9 test rows
kin40k,36000,8,GPyTorch SGPR,50 steps,0,100,190,1,0.174,-0.32,0.96,ok,
kin40k,36000,8,GPyTorch SVGP,converged,0,600,,,,,,capped,
kin40k,36000,8,GPyTorch SVGP,short,0,550,900,1,0.2,-0.2,0.96,capped,
kin40k,36000,8,GPBoost,vecchia,0,80,150,1,0.27,-0.1,0.95,ok,fitted to 10000 rows; and more
kin40k,,,GPBoost,full-scale-vecchia,0,,,,,,,not run,
kin40k,36000,8,LightGBM,default,0,4,8,1,0.26,,,ok,
flights,1000000,9,LightGBM,default,0,40,80,1,0.9,,,ok,
"""


@pytest.fixture
def results(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "frontier.csv").write_text(FRONTIER, encoding="utf-8")
    return script().Results(tmp_path)


def test_models_are_compared_on_the_first_split_and_fits_that_failed_left_out(results):
    runs = results.frontier()
    assert [(run.model, run.setting) for run in runs] == [
        ("SparseGPRegressor", "512 functions"),
        ("SparseGPRegressor", "1024 functions"),
        ("GPyTorch SGPR", "50 steps"),
        ("GPyTorch SVGP", "short, stopped"),
        ("GPBoost", "vecchia on 10 000 rows"),
        ("LightGBM", "default"),
        ("LightGBM", "default"),
    ]
    first = runs[0]
    assert (first.fit, first.rmse, first.nlpd, first.coverage) == (10.0, 0.15, -0.5, 0.95)
    assert runs[-1].nlpd is None


def test_the_frontier_has_a_line_per_model_and_its_best_setting_on_each_data_set(results):
    lines = script().frontier(results)
    assert lines[-6:] == [
        "| rows × features | kin40k<br>36 000 × 8 | flights<br>1 000 000 × 9 |",
        "| --- | ---: | ---: |",
        "| SparseGPRegressor | **0.120** in 30 s | – |",
        "| GPyTorch | 0.174 in 100 s | – |",
        "| GPBoost | 0.270 in 80 s | – |",
        "| LightGBM, default | 0.260 in 4.0 s | **0.900** in 40 s |",
    ]
    assert "GPBoost is fitted to 10\N{NARROW NO-BREAK SPACE}000 rows of kin40k." in lines
    assert not any("time limit" in line for line in lines)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (["0.174", "0.2"], None),
        (["0.11", "0.2"], "kin40k (GPyTorch SGPR)"),
        (["0.11", "0.1"], "kin40k (GPyTorch SVGP)"),
    ],
)
def test_the_table_is_preceded_by_what_other_libraries_win(tmp_path, errors, expected):
    (tmp_path / "benchmarks").mkdir()
    stored = FRONTIER.replace(",0.174,", f",{errors[0]},")
    stored = stored.replace(",0.2,-0.2", f",{errors[1]},-0.2")
    (tmp_path / "benchmarks" / "frontier.csv").write_text(stored, encoding="utf-8")
    module = script()
    lines = module.frontier(module.Results(tmp_path))
    told = [line for line in lines if line.startswith("Another library")]
    assert told == ([f"Another library has the least error on {expected}."] if expected else [])


def test_a_model_without_a_column_may_have_the_least_error(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    stored = FRONTIER + "kin40k,36000,8,HistGradientBoosting,default,0,1,2,1,0.1,0.2,0.95,ok,\n"
    (tmp_path / "benchmarks" / "frontier.csv").write_text(stored, encoding="utf-8")
    module = script()
    told = module.frontier(module.Results(tmp_path))
    assert "Another library has the least error on kin40k (HistGradientBoosting)." in told


def test_a_fit_that_was_stopped_shows_the_cap_and_not_its_own_time(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    stored = FRONTIER.replace(",0.2,-0.2", ",0.1,-0.2")
    (tmp_path / "benchmarks" / "frontier.csv").write_text(stored, encoding="utf-8")
    module = script()
    lines = module.frontier(module.Results(tmp_path))
    assert "| GPyTorch | **0.100** in > 600 s | – |" in lines
    assert "A fit that took > 600 s was stopped by the time limit." in lines
    assert not any(line.startswith(">") for line in lines), "Markdown would make it a quotation"


def test_the_order_of_the_stored_lines_changes_nothing(tmp_path):
    module = script()
    (tmp_path / "benchmarks").mkdir()
    for name in ("frontier.csv", "frontier.json"):
        text = (DOCS / "benchmarks" / name).read_text(encoding="utf-8")
        (tmp_path / "benchmarks" / name).write_text(text, encoding="utf-8")
    results = module.Results(tmp_path)
    written = [module.frontier(results), module.against(results, "GPyTorch")]
    path = tmp_path / "benchmarks" / "frontier.csv"
    head, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    random.Random(0).shuffle(lines)
    path.write_text("".join([head, *lines]), encoding="utf-8")
    assert [module.frontier(results), module.against(results, "GPyTorch")] == written


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({}, "1 000 trees of 31 leaves, the best of 2 settings, 0.176 after 9.5 s"),
        (
            {"LightGBM, 1000 trees of 255 leaves": (0.11, 40.0)},
            "1 000 trees of 255 leaves, the best of 3 settings, 0.110 after 40 s",
        ),
    ],
)
def test_the_better_trees_stand_beside_a_million_rows(tmp_path, others, told):
    fits = {
        "SparseGPRegressor": (0.107, 6.9),
        "LightGBM, 100 trees": (0.35, 1.6),
        "LightGBM, 1000 trees": (0.176, 9.5),
        **others,
    }
    figures = [
        {"name": f"{name}: {quantity}", "value": value}
        for name, (error, fit) in fits.items()
        for quantity, value in [("RMSE", error), ("fit", fit), ("memory beyond the data", 0.1)]
    ]
    run = {"finished": "2026", "quick": False, "cases": {"million": {"figures": figures}}}
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "million.json").write_text(json.dumps(run), encoding="utf-8")
    module = script()
    line = module.million(module.Results(tmp_path)).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert line.endswith(f"LightGBM with {told} with 0.10 GB.")


def test_words_are_listed_as_in_a_sentence():
    listed = script().listed
    assert [listed(list("abc")[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]


def test_a_peer_is_shown_where_it_was_run_with_all_settings_of_ours(results):
    lines = script().against(results, "GPyTorch")
    start = lines.index("**kin40k (36 000 × 8)**")
    assert lines[start + 4 :] == [
        "| SparseGPRegressor, 512 functions | 10 | 0.150 | −0.500 | 95.0 % |",
        "| SparseGPRegressor, 1024 functions | 30 | 0.120 | −0.800 | 94.0 % |",
        "| GPyTorch SGPR, 50 steps | 100 | 0.174 | −0.320 | 96.0 % |",
        "| GPyTorch SVGP, short, stopped | > 600 | 0.200 | −0.200 | 96.0 % |",
        "| GPyTorch SVGP, converged, stopped | > 600 | – | – | – |",
    ]


@pytest.mark.parametrize(
    ("error", "winner"), [("0.174", "here"), ("0.1205", "about equal"), ("0.11", "GPyTorch")]
)
def test_the_best_of_both_sides_come_first_and_the_winner_is_named(tmp_path, error, winner):
    (tmp_path / "benchmarks").mkdir()
    stored = FRONTIER.replace(",0.174,", f",{error},")
    (tmp_path / "benchmarks" / "frontier.csv").write_text(stored, encoding="utf-8")
    module = script()
    lines = module.against(module.Results(tmp_path), "GPyTorch")
    assert lines[3] == "Densities and intervals of SparseGPRegressor are those of 9 test rows."
    row = lines[7]
    here = "SparseGPRegressor, 1024 functions: 0.120 / −0.800 / 30"
    there = f"GPyTorch SGPR, 50 steps: {module.digits(float(error))} / −0.320 / 100"
    assert row == f"| kin40k (36 000 × 8) | {here} | {there} | {winner} |"


EXACT = """\
few,456,13,ExactGPRegressor,all rows,0,1.04,1,1,0.241,0,0.95,ok,
few,456,13,GaussianProcessRegressor,2000 rows,0,3.4,3,1,0.3247,0,0.95,ok,
more,3760,10,ExactGPRegressor,2000 rows,0,2.9,3,1,0.671,0,0.95,ok,
more,3760,10,ExactGPRegressor,all rows,0,1.8,3,1,0.652,0,0.95,ok,
more,3760,10,GaussianProcessRegressor,2000 rows,0,104.1,3,1,0.65,0,0.95,ok,fitted to 2000 rows
many,36000,8,ExactGPRegressor,all rows,0,30,3,1,0.07,0,0.95,ok,
many,36000,8,GaussianProcessRegressor,2000 rows,0,21,3,1,0.22,0,0.95,ok,fitted to 2000 rows
"""


def test_exact_processes_are_compared_on_few_rows(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    stored = FRONTIER.splitlines()[0] + "\n" + EXACT
    (tmp_path / "benchmarks" / "frontier.csv").write_text(stored, encoding="utf-8")
    module = script()
    few, more = module.exact(module.Results(tmp_path))
    assert few.startswith("- few (456 × 13): `ExactGPRegressor` has a test RMSE of 0.241 standard")
    assert few.endswith(" after 1.0 s, `GaussianProcessRegressor` 0.325 after 3.4 s.")
    assert more.endswith("`GaussianProcessRegressor` on 2 000 of the rows 0.650 after 100 s.")


def test_the_first_reason_is_the_fastest_of_ours_that_is_better_than_all_others(results):
    [reason] = script().reasons(results)
    assert "kin40k (36 000 × 8): `SparseGPRegressor` with 512 functions has a test" in reason
    assert "test RMSE of 0.150 standard deviations after 10 s; GPyTorch" in reason
    assert "GPyTorch SGPR (50 steps) 0.174 after 100 s; GPyTorch SVGP (short, stopped)" in reason


def test_a_peer_with_some_of_the_rows_stands_beside_ours_with_as_many(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    ours = "kin40k,36000,8,ExactGPRegressor,10000 rows,0,7,9,1,0.16,0,0.9,ok,fitted to 10000 rows\n"
    stored = FRONTIER.replace("GPBoost,vecchia,0,80,150,1,0.27", "GPBoost,vecchia,0,80,150,1,0.19")
    (tmp_path / "benchmarks" / "frontier.csv").write_text(stored + ours, encoding="utf-8")
    module = script()
    reason = module.speed(module.Results(tmp_path)).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "GPBoost (vecchia on 10 000 rows) 0.190 after 80 s." in reason
    assert reason.endswith(" On 10 000 rows alone `ExactGPRegressor` has 0.160 after 7.0 s.")


def test_what_has_no_result_is_left_out(tmp_path):
    module = script()
    empty = module.Results(tmp_path)
    for name, writer in module.WRITERS.items():
        arguments = ["GPyTorch"] if name == "against" else []
        assert writer(empty, *arguments) == [], name


def test_filling_keeps_the_text_around_a_region_and_is_stable(results):
    module = script()
    text = "before\n<!-- numbers: against GPyTorch -->\nold\n<!-- end of numbers -->\nafter 7\n"
    once = module.filled(text, results)
    assert once.startswith("before\n<!-- numbers: against GPyTorch -->\nOf each side")
    assert once.endswith("<!-- end of numbers -->\nafter 7\n")
    assert "old" not in once
    assert module.filled(once, results) == once
    assert NUMBER.findall(prose(once)) == ["7"]


@pytest.mark.parametrize(
    ("value", "n", "expected"),
    [
        (0.14, 3, "0.140"),
        (-1.0587, 3, "−1.06"),
        (251.5, 3, "252"),
        (13.1, 2, "13"),
        (1234.5, 3, "1230"),
        (0.00000251, 3, "0.000003"),
        (None, 3, "–"),
    ],
)
def test_numbers_are_rounded_to_digits(value, n, expected):
    assert script().digits(value, n) == expected
