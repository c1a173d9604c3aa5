"""Headline functions: by hand, and applied to the published values themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from stepsim.reproduce import FIGURES, points_of
from stepsim.reproduce.compare import headline_rows, quoted_numbers
from stepsim.reproduce.figures import headlines
from stepsim.reproduce.headline import (
    Headline,
    MissingNumber,
    Numbers,
    UnknownName,
    correlation,
    mean_error,
)
from stepsim.reproduce.published import Published, published
from stepsim.reproduce.rows import figure_rows
from tests.reproduce.conftest import invented


def rows_of(figures: Iterable[str], compared: Published | None = None) -> list[dict[str, Any]]:
    rows = []
    for figure in figures:
        points = points_of(figure)
        outcomes = {p.run: invented(p.run) for p in points}
        rows += figure_rows(FIGURES[figure], points, outcomes, compared)
    return rows


def test_correlation_and_error_by_hand() -> None:
    assert correlation([1, 2, 3], [2, 4, 6]) == pytest.approx(1)
    assert correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert correlation([1, 2, 4], [1, 3, 2]) == pytest.approx(1 / (42 / 9 * 2) ** 0.5)
    assert mean_error([90, 110, 250], [100, 100, 200]) == pytest.approx((0.1 + 0.1 + 0.25) / 3)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1.6484", [1.6484]), ("+0.259", [0.259]), ("1.1446-1.2555", [1.1446, 1.2555]),
        ("2.6397 (18.24/6.91)", [2.6397]), ("68.4 (31.486/99.689 MiB)", [68.4]),
        ("2.1049 and 5.0512", [2.1049, 5.0512]), ("3.39, 3.21, 3.36", [3.39, 3.21, 3.36]),
        ("-8.8", [-8.8]), ("", []),
    ],
)  # fmt: skip
def test_numbers_of_an_entry(text: str, numbers: list[float]) -> None:
    assert quoted_numbers(text) == numbers


def test_deviations() -> None:
    plain = Headline("9", "", "x", lambda n: (1.0,))
    assert plain.deviation([1.02, 0.97], [1.0, 1.0]) == pytest.approx(-0.03)
    assert plain.deviation([1.0], [1.0, 2.0]) is None
    excess = Headline("9", "", "%", lambda n: (1.0,), excess=True)
    assert excess.deviation([0.5], [1.0]) == pytest.approx(100.5 / 101 - 1)


def test_values_by_hand() -> None:
    cycles = {8: 40, 16: 20, 32: 10, 64: 10}
    rows = [
        {"point_id": f"f9_mixtral_{tile}", "cycles": c, "onchip_bytes": tile}
        for tile, c in cycles.items()
    ]
    rows.append({"point_id": "f9_mixtral_dyn", "cycles": 11, "onchip_bytes": 16})
    found = {
        row["claim"]: row["ours"] for row in headline_rows(rows, None, headlines(), whole=False)
    }
    assert found[
        "Mixtral b=64: speedup of dynamic tiling over tile=16 at equal on-chip memory"
    ] == [pytest.approx(20 / 11)]
    assert found["Mixtral b=64: on-chip saving of dynamic vs tile=32"] == [2]
    assert found["Mixtral b=64: cycles of dynamic relative to tile=32"] == [pytest.approx(10)]
    # Against 16 rows 20/11, against 32 rows 32/16, against 8 rows 40/11: the first is the least.
    assert found["PID of dynamic tiling, Mixtral b=64"] == [pytest.approx(20 / 11)]
    # Other models and the ranges over all of them are not known.
    settings = [h for h in headlines() if h.figure == "setup"]
    assert len(found) == 4 + len(settings) + 1
    assert found["Mixtral on-chip saving annotation"] == [2]


def test_all_headlines_have_a_value_once_all_figures_ran() -> None:
    found = headline_rows(rows_of(FIGURES), None, headlines(), whole=True)
    hardware = sum(h.figure == "8" for h in headlines())
    assert len(found) == len(headlines()) - hardware
    assert all("published" not in row for row in found)


def test_missing_points() -> None:
    rows = [{"point_id": "f9_qwen_8", "cycles": None}]
    with pytest.raises(MissingNumber, match="f9_qwen_8: cycles"):
        Numbers(rows).cycles("f9_qwen_8")
    with pytest.raises(UnknownName, match="no point is named 'f9_qwen_9'; did you mean"):
        Numbers(rows).cycles("f9_qwen_9")
    assert FIGURES["8"].remarks(rows_of(("8",))) == []


def test_every_headline_of_the_table_is_recomputed() -> None:
    paper = [h for h in headlines() if not h.claim.startswith("(ours)")]
    known = {(h.figure, h.claim) for h in paper}
    assert len(known) == len(paper)
    table = {(h.figure, h.claim) for h in published().headlines}
    assert known <= table
    left = [claim for _, claim in table - known]
    assert all("wall time" in claim or claim == "graph diagram only" for claim in left)


def test_published_values_give_the_published_headlines() -> None:
    numbers = Numbers(rows_of(FIGURES, published()), "published_")
    table = {(h.figure, h.claim): h for h in published().headlines}
    checked = 0
    for headline in headlines():
        try:
            values = headline.value(numbers)
        except MissingNumber:
            continue
        expected = quoted_numbers(table[headline.figure, headline.claim].recomputed)
        deviation = headline.deviation(values, expected)
        assert deviation is not None
        # Some tilings have no hardware cycles in the table; utilizations are rounded.
        assert abs(deviation) < (0.04 if headline.figure == "8" else 0.005), headline.claim
        checked += 1
    assert checked > 25


def test_hardware_is_compared_on_the_same_tilings() -> None:
    rows = rows_of(("8",), published())
    for row in rows:
        row["cycles"] = row.get("published_cycles") or row["cycles"]
    found = [
        row
        for row in headline_rows(rows, published(), headlines(), whole=False)
        if row["figure"] == "8"
    ]
    assert [row.get("deviation") for row in found] == [0, 0, None, None, None, None]
    ours, theirs, *refined = FIGURES["8"].remarks(rows)
    assert ours.removeprefix("ours, tile level as published") == theirs.removeprefix(
        "published simulator"
    )
    assert [line.split(" against")[0] for line in refined] == [
        "ours, tile level with DRAM", "ours, hardware level",
    ]  # fmt: skip
