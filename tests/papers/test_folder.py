"""Results on disk: the same bytes every time, a summary that grows, a page that stands alone."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from pursuit.papers import Panel, PaperResult, Series
from pursuit.papers.folder import Record, read_records, report_page, save_result


def result(shift=0.0, **criteria):
    return PaperResult(
        name="A table",
        paper_says="3 < 4",
        we_get=f"{4 + shift:g}",
        spread="± 1",
        criteria={"near": True, **criteria},
        arrays={"number": np.array([4.0])},
        settings="as printed",
        panels=[Panel([Series("here", [1, 2], [1 / 3, 4.0 + shift])], "size", "gap")],
    )


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "new" / "results"


def test_what_is_written(folder):
    record = save_result(folder, "z02-rate", result(far=False), "full")
    assert sorted(path.name for path in folder.iterdir()) == [
        "summary.csv",
        "z02-rate.csv",
        "z02-rate.png",
        "z02-rate.svg",
    ]
    assert (folder / "z02-rate.csv").read_text(encoding="utf-8").splitlines() == [
        "panel,series,size,mean,deviation,lowest,highest,runs",
        "gap,here,1,0.33333,0,0.33333,0.33333,1",
        "gap,here,2,4,0,4,4,1",
    ]
    assert record.line == "z02-rate | paper: 3 < 4 | here: 4 | ± 1 | partly reproduced"
    assert (record.holds, record.fails) == ("near", "far")
    assert read_records(folder) == [record]


def test_checks_and_settings_chosen_with_hindsight_are_in_the_row(folder):
    odd = replace(result(), checks={"sane": False}, hindsight="the width (nearest of ten)")
    record = save_result(folder, "z02-rate", odd, "full")
    assert (record.holds, record.fails) == ("near", "sane")
    assert read_records(folder)[0].hindsight == "the width (nearest of ten)"
    assert record.line == (
        "z02-rate | paper: 3 < 4 | here: 4 | ± 1 | chosen after seeing results: the width (nearest "
        "of ten) | partly reproduced"
    )
    assert report_page(folder).count("the width (nearest of ten)") == 2


def test_the_summary_grows_in_the_order_of_the_registry_and_replaces(folder):
    for name in ("z02-rate", "sb01-fig1", "z02-rate"):
        save_result(folder, name, result(), "quick")
    save_result(folder, "sb01-fig1", result(1.0), "full")
    assert [record.name for record in read_records(folder)] == ["sb01-fig1", "z02-rate"]
    assert [record.here for record in read_records(folder)] == ["5", "4"]
    assert [record.run for record in read_records(folder)] == ["full", "quick"]


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        save_result(folder, "z02-rate", result(), "full")
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name


def test_nothing_is_there_before_something_is_written(folder):
    assert read_records(folder) == []
    with pytest.raises(ValueError, match=r"there are no results in .*pursuit papers run"):
        report_page(folder)


def test_a_summary_of_another_kind_is_refused(folder):
    folder.mkdir(parents=True)
    (folder / "summary.csv").write_text("name,other\na,b\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"summary\.csv is not a summary that this version wrote"):
        read_records(folder)


def test_the_page_holds_everything_and_needs_nothing(folder):
    save_result(folder, "ss00-fig4", result(far=False), "quick")
    save_result(folder, "z02-rate", result(), "full")
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
    save_result(folder, "z02-rate", result(), "full")
    (folder / "z02-rate.svg").unlink()
    assert "There is no z02-rate.svg." in report_page(folder)


def test_results_of_an_unknown_experiment_are_kept(folder):
    save_result(folder, "z02-other", result(), "full")
    save_result(folder, "z02-rate", result(), "full")
    assert [record.name for record in read_records(folder)] == ["z02-rate", "z02-other"]
    assert "z02-other" in report_page(folder)


def test_lines_with_commas_and_quotes_survive(folder):
    odd = replace(result(), we_get='4, "about"; 5')
    save_result(folder, "z02-rate", odd, "full")
    assert read_records(folder)[0].here == '4, "about"; 5'
    with (folder / "summary.csv").open(newline="", encoding="utf-8") as text:
        assert len(next(csv.reader(text))) == len(Record._fields)
