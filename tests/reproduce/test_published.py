"""The published values that are shipped: what they are, and that they are those collected."""

from __future__ import annotations

import csv

import pytest

from stepsim.reproduce.published import published, table_rows
from tests.reproduce.published_table import TABLE, table
from tests.shared import DATA, needs_data


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


@needs_data
def test_table_is_what_was_collected() -> None:
    assert TABLE.read_text(encoding="utf-8") == table()


@needs_data
def test_hardware_is_that_of_figure_8() -> None:
    with (DATA / "fig8_hdl.csv").open(newline="") as file:
        collected = {
            (int(row["tile_b"]), int(row["tile_inter"])): (
                int(row["hdl_cycles"]), round(float(row["hdl_traffic_mb"]) * 1e6),
            )
            for row in csv.DictReader(file)
        }  # fmt: skip
    assert published().hardware == collected
