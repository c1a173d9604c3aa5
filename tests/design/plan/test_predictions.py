"""The error that stands with predicted cycles is that of measured designs."""

from __future__ import annotations

import pytest

import stepsim as st
from bench.prediction_errors import CASES, IMPORTED, measured
from stepsim.design.plan.predictions import prediction_error, predictions

BUILT_IN = tuple(case for case in CASES if case[0] not in IMPORTED)


def test_the_table_has_every_case_and_its_range_is_printed() -> None:
    known = predictions()
    assert [(row.model, row.phase, row.rows, row.config) for row in known] == list(CASES)
    assert {row.model for row in known} >= set(st.design.MODELS)
    ratios = [row.ratio for row in known if row.phase == "decode"]
    assert prediction_error("decode") == (
        f"in {len(ratios)} designs for decode of known models, predictions were "
        f"{min(ratios):.2f} to {max(ratios):.2f} times the simulated cycles"
    )
    every = prediction_error(None)
    assert f"in {len(known)} designs of known models" in every
    imported = [row.ratio for row in known if row.model in IMPORTED]
    assert min(imported) == min(row.ratio for row in known) < 0.9
    assert max(row.ratio for row in known if row.model.startswith("mamba")) == max(imported) > 2.4
    assert f"({min(imported):.2f} to {max(imported):.2f} in the {len(imported)} that" in every


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        CASES[2],
        *(pytest.param(case, marks=pytest.mark.slow) for case in BUILT_IN[:2] + BUILT_IN[3:-1]),
        *(pytest.param(case, marks=pytest.mark.torch) for case in CASES if case[0] in IMPORTED),
    ],
)
def test_rows_are_those_of_designs_today(case: tuple[str, str, int, str]) -> None:
    assert measured(*case) == predictions()[CASES.index(case)]
