"""Results on disk: the same bytes every time, a summary that grows, a page that stands alone."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from pursuit.papers import Chart, Panel, PaperResult, Series
from pursuit.papers.folder import Record, ResultFolder
from pursuit.papers.registry import BY_NAME
from pursuit.papers.report import report_page


def result(shift=0.0, **criteria):
    return PaperResult(
        name="A table",
        paper_says="3 < 4",
        we_get=f"{4 + shift:g}",
        spread="± 1",
        criteria={"near": True, **criteria},
        arrays={"number": np.array([4.0])},
        settings="as printed",
        chart=Chart([Panel([Series("here", [1, 2], [1 / 3, 4.0 + shift])], "size", "gap")]),
    )


@pytest.fixture
def folder(tmp_path):
    return ResultFolder(tmp_path / "new" / "results")


def test_what_is_written(folder):
    record = folder.save(BY_NAME["z02-rate"], result(far=False), "full")
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "summary.csv",
        "z02-rate.csv",
        "z02-rate.png",
        "z02-rate.svg",
    ]
    assert (folder.path / "z02-rate.csv").read_text().splitlines() == [
        "panel,series,size,mean,deviation,lowest,highest,runs",
        "gap,here,1,0.33333,0,0.33333,0.33333,1",
        "gap,here,2,4,0,4,4,1",
    ]
    assert record.line == "z02-rate | paper: 3 < 4 | here: 4 | ± 1 | partly reproduced"
    assert (record.holds, record.fails) == ("near", "far")
    assert folder.records() == [record]


def test_checks_and_settings_chosen_with_hindsight_are_in_the_row(folder):
    odd = replace(result(), checks={"sane": False}, hindsight="the width (nearest of ten)")
    record = folder.save(BY_NAME["z02-rate"], odd, "full")
    assert (record.holds, record.fails) == ("near", "sane")
    assert folder.records()[0].hindsight == "the width (nearest of ten)"
    assert record.line == (
        "z02-rate | paper: 3 < 4 | here: 4 | ± 1 | chosen after seeing results: the width (nearest "
        "of ten) | partly reproduced"
    )
    assert report_page(folder).count("the width (nearest of ten)") == 2


def test_the_summary_grows_in_the_order_of_the_registry_and_replaces(folder):
    for name in ("z02-rate", "sb01-fig1", "z02-rate"):
        folder.save(BY_NAME[name], result(), "quick")
    folder.save(BY_NAME["sb01-fig1"], result(1.0), "full")
    assert folder.names() == ["sb01-fig1", "z02-rate"]
    assert [record.here for record in folder.records()] == ["5", "4"]
    assert [record.run for record in folder.records()] == ["full", "quick"]


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    folders = [ResultFolder(tmp_path / name) for name in ("a", "b")]
    for folder in folders:
        folder.save(BY_NAME["z02-rate"], result(), "full")
    for path in folders[0].path.iterdir():
        assert path.read_bytes() == (folders[1].path / path.name).read_bytes(), path.name


def test_nothing_is_there_before_something_is_written(folder):
    assert folder.records() == []
    with pytest.raises(ValueError, match=r"there are no results in .*pursuit papers run"):
        report_page(folder)


def test_a_summary_of_another_kind_is_refused(folder):
    folder.path.mkdir(parents=True)
    (folder.path / "summary.csv").write_text("name,other\na,b\n")
    with pytest.raises(ValueError, match=r"summary\.csv is not a summary that this version wrote"):
        folder.records()


def test_the_page_holds_everything_and_needs_nothing(folder):
    folder.save(BY_NAME["ss00-fig4"], result(far=False), "quick")
    folder.save(BY_NAME["z02-rate"], result(), "full")
    page = report_page(folder)
    assert "2 tables and figures: 1 reproduced, 1 partly reproduced." in page
    assert page.count('src="data:image/svg+xml;base64,') == 2
    assert "3 &lt; 4" in page
    assert "seven are typical where the figure has nine" in page
    assert "<dt>Does not hold</dt><dd>far</dd>" in page
    for outside in ("http://", "https://", "<script", "<link"):
        assert outside not in page.split("base64,")[0]
    assert page.index('id="ss00-fig4"') < page.index('id="z02-rate"')


def test_a_figure_that_was_removed_is_missed(folder):
    folder.save(BY_NAME["z02-rate"], result(), "full")
    (folder.path / "z02-rate.svg").unlink()
    assert "There is no z02-rate.svg." in report_page(folder)


def test_results_of_an_unknown_experiment_are_kept(folder):
    folder.save(replace(BY_NAME["z02-rate"], name="z02-other"), result(), "full")
    folder.save(BY_NAME["z02-rate"], result(), "full")
    assert folder.names() == ["z02-rate", "z02-other"]
    assert "z02-other" in report_page(folder)


def test_lines_with_commas_and_quotes_survive(folder):
    odd = replace(result(), we_get='4, "about"; 5')
    folder.save(BY_NAME["z02-rate"], odd, "full")
    assert folder.records()[0].here == '4, "about"; 5'
    with (folder.path / "summary.csv").open(newline="") as text:
        assert len(next(csv.reader(text))) == len(Record.__dataclass_fields__)
