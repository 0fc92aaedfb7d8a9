"""A verdict follows from the criteria, and the one line says which of them do not hold."""

import numpy as np
import pytest

from pursuit.papers import Panel, PaperResult, Series


def result(checks=None, hindsight="", **criteria):
    return PaperResult(
        name="A table",
        paper_says="3",
        we_get="4",
        spread="± 1",
        criteria={name.replace("_", " "): holds for name, holds in criteria.items()},
        arrays={"number": np.array([4.0])},
        settings="as printed",
        panels=[Panel([Series("here", [1.0], [4.0])], "x", "y")],
        checks=checks or {},
        hindsight=hindsight,
    )


@pytest.mark.parametrize(
    ("criteria", "verdict"),
    [
        ({"near": True, "small": True}, "reproduced"),
        ({"near": True, "small": False}, "partly reproduced"),
        ({"near": False}, "not reproduced"),
    ],
)
def test_the_verdict_is_computed(criteria, verdict):
    assert result(**criteria).verdict == verdict


@pytest.mark.parametrize(
    ("near", "check", "verdict"),
    [
        (True, True, "reproduced"),
        (True, False, "partly reproduced"),
        (False, True, "not reproduced"),
    ],
)
def test_checks_can_spoil_a_verdict_but_not_earn_one(near, check, verdict):
    found = result({"sane": check}, near=near)
    assert found.verdict == verdict
    assert found.statements == {"near": near, "sane": check}
    assert ("does not hold: sane" in str(found)) is (near and not check)


def test_a_line_says_it_all():
    assert str(result(near=True)) == "A table: reproduced. Paper: 3; here: 4 (± 1)."
    assert str(result(near=False, very_small=False, odd=True)) == (
        "A table: partly reproduced. Paper: 3; here: 4 (± 1); does not hold: near, very small."
    )


def test_a_verdict_needs_a_criterion():
    with pytest.raises(ValueError, match="criteria must hold at least one statement"):
        result()
