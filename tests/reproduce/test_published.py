"""The published values that are shipped: what they are, and that they are those collected."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import pytest

from stepsim.reproduce.published import published, table_rows
from tests.shared import DATA, needs_data

POINT_COLUMNS = {
    name
    for name in table_rows("point")[0]
    if name not in ("row", "claim", "printed", "unit", "recomputed", "agrees")
}


def test_values_of_points() -> None:
    rows = {row.point_id: row for row in published().rows}
    row = rows["f12_static_32"]
    assert row.figures == {"12", "13"}
    assert not row.archived
    assert row.key is not None
    assert (row.key.model, row.key.tile, row.key.tile_inter, row.key.regions) == (
        "qwen3-30b-a3b", "32", 48, 32,
    )  # fmt: skip
    assert row.compute_utilization == pytest.approx(0.1824)
    assert rows["f10_qwen_64"].key is not None
    assert rows["f10_qwen_64"].key.fifo_depth == 1024
    assert rows["aug_qwen1024_256"].archived
    assert rows["f8_stepcsv_16_16"].archived
    assert rows["f8_hdl_16_16"].key is None
    assert rows["f21_b16_high_coarse_geomean"].mean_of == (16, "high", "coarse")


def test_every_row_names_its_source() -> None:
    for kind in ("point", "headline"):
        rows = table_rows(kind)
        assert len(rows) > 50
        for row in rows:
            assert row["source"].strip(" :"), row


def collected(name: str) -> Iterator[dict[str, str]]:
    """Rows of a table of the shared data."""
    with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file, strict=True)


@needs_data
def test_every_collected_point_is_shipped_as_it_is() -> None:
    shipped = {row["point_id"]: row for row in table_rows("point")}
    canonical = {row["point_id"]: row["canonical_cycles"] for row in collected("canonical_cycles")}
    assert canonical
    for row in collected("ground_truth"):
        expected = {name: row[name] for name in row.keys() & shipped[row["point_id"]].keys()}
        expected["canonical_cycles"] = canonical.get(row["point_id"], "")
        expected["source"] = f"{row['source_repo']} {row['source_rev']}: {row['source_file']}"
        assert len(expected) == len(POINT_COLUMNS)
        assert {name: shipped[row["point_id"]][name] for name in expected} == expected


@needs_data
def test_every_collected_headline_is_shipped_as_it_is() -> None:
    shipped = {(row["figure"], row["claim"]): row for row in table_rows("headline")}
    names = {
        "printed": "paper_value", "unit": "unit", "agrees": "agrees", "notes": "note",
        "recomputed": "recomputed_from_recovered_data",
    }  # fmt: skip
    for row in collected("paper_headlines"):
        found = shipped[row["figure"], row["claim"]]
        assert {ours: found[ours] for ours in names} == {o: row[t] for o, t in names.items()}
        assert found["source"].endswith(f": {row['section']}")


@needs_data
def test_hardware_is_that_of_figure_8() -> None:
    assert published().hardware == {
        (int(row["tile_b"]), int(row["tile_inter"])): (
            int(row["hdl_cycles"]), round(float(row["hdl_traffic_mb"]) * 1e6),
        )
        for row in collected("fig8_hdl")
    }  # fmt: skip
