"""SB01 Table 1: exponents from costs made up by their law, and a small run that measures."""

import math

import numpy as np
import pytest

from pursuit.papers import sb01_theory

ROWS, BASES = (20, 40, 80), (2, 4, 8)


MEMORY, EXACT, SPARSE, BASIS = range(4)


def judged(**shifts):
    """Costs as printed, but for the exponents named in ``shifts``, of rows or (in ``_n``) basis."""
    by_rows, by_basis = [], []
    for cost in sb01_theory.PRINTED:
        name = str(cost).replace(", ", "_").replace(" ", "_")
        by_rows.append([m ** (cost.in_rows + shifts.get(name, 0.0)) for m in ROWS])
        q = math.nan if cost.in_basis is None else cost.in_basis + shifts.get(f"{name}_n", 0.0)
        by_basis.append([n**q for n in BASES])
    return sb01_theory._judged(np.array(by_rows, float), np.array(by_basis, float), ROWS, BASES)


def test_costs_as_printed_are_reproduced():
    found = judged()
    assert found.verdict == "reproduced"
    np.testing.assert_allclose(found.arrays["exponents"], found.arrays["printed"], atol=1e-9)
    assert found.we_get == found.paper_says


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("sparse_greedy_memory", MEMORY),
        ("exact_initialisation", EXACT),
        ("sparse_greedy_mean", SPARSE),
        ("sparse_greedy_error_bars_n", BASIS),
    ],
)
def test_each_criterion_can_fail_on_both_sides(name, fails, sign):
    """An exponent that rounds to another number is not the printed one."""
    assert judged(**{name: 0.45 * sign}).verdict == "reproduced"
    found = judged(**{name: 0.55 * sign})
    assert list(found.criteria.values()) == [i != fails for i in range(4)]
    assert found.verdict == "partly reproduced"


def test_a_small_run_measures_everything(monkeypatch):
    monkeypatch.setattr("pursuit.papers.common._LEAST_SECONDS", 0.0)
    lines = []
    found = sb01_theory.table1(rows=ROWS, bases=BASES, n_new=5, times=1, progress=lines.append)
    assert np.all(found.arrays["by_rows"] > 0)
    has_basis = [cost.in_basis is not None for cost in sb01_theory.PRINTED]
    assert np.isfinite(found.arrays["by_basis"]).all(axis=1).tolist() == has_basis
    assert lines[-1] == "sparse greedy: predicted"
    # The matrix and its factor are what the exact solution holds.
    memory = found.arrays["by_rows"][0]
    assert memory[-1] >= 2 * 8 * 80**2
