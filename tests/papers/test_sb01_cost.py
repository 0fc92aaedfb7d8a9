"""SB01 Table 1: exponents from costs made up by their law, and a small run that measures."""

import math

import numpy as np
import pytest

from pursuit.papers import sb01_cost

ROWS, BASES = (20, 40, 80), (2, 4, 8)


def judged(**excess):
    """Costs as printed, but for the exponents in rows named in ``excess``."""
    by_rows, by_basis = [], []
    for cost in sb01_cost.PRINTED:
        power = cost.in_rows + excess.get(str(cost).replace(", ", "_").replace(" ", "_"), 0.0)
        by_rows.append([m**power for m in ROWS])
        q = math.nan if cost.in_basis is None else cost.in_basis
        by_basis.append([n**q for n in BASES])
    return sb01_cost._judged(np.array(by_rows, float), np.array(by_basis, float), ROWS, BASES)


def test_costs_as_printed_are_reproduced():
    found = judged()
    assert found.verdict == "reproduced"
    np.testing.assert_allclose(found.arrays["exponents"], found.arrays["printed"], atol=1e-9)
    assert found.we_get == found.paper_says


@pytest.mark.parametrize(
    ("excess", "fails"),
    [
        ({"sparse_greedy_memory": 0.5}, "no exponent is more than 0.3 above the printed one"),
        (
            {"exact_initialisation": -1.5},
            "exact initialisation grows by a power of 1 faster with the rows",
        ),
        ({"sparse_greedy_mean": -0.5}, "sparse predictions do not depend on the rows"),
    ],
)
def test_each_criterion_can_fail(excess, fails):
    found = judged(**excess)
    assert [statement for statement, holds in found.criteria.items() if not holds] == [fails]
    assert found.verdict == "partly reproduced"


def test_a_small_run_measures_everything(monkeypatch):
    monkeypatch.setattr("pursuit.papers.growth._LEAST_SECONDS", 0.0)
    lines = []
    found = sb01_cost.table1(rows=ROWS, bases=BASES, n_new=5, times=1, progress=lines.append)
    assert np.all(found.arrays["by_rows"] > 0)
    has_basis = [cost.in_basis is not None for cost in sb01_cost.PRINTED]
    assert np.isfinite(found.arrays["by_basis"]).all(axis=1).tolist() == has_basis
    assert lines[-1] == "sparse greedy: predicted"
    # The matrix and its factor are what the exact solution holds.
    memory = found.arrays["by_rows"][0]
    assert memory[-1] >= 2 * 8 * 80**2
