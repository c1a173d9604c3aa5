"""Reading published values: what they are, and messages on damaged tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stepsim.errors import TraceError
from stepsim.reproduce.published import read_published
from tests.reproduce.conftest import DATA, needs_data

NAMES = ("ground_truth.csv", "canonical_cycles.csv", "fig8_hdl.csv", "paper_headlines.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        shutil.copy(DATA / name, tmp_path / name)
        (tmp_path / name).chmod(0o644)
    return tmp_path


@needs_data
def test_values_of_points() -> None:
    rows = {row.point_id: row for row in read_published(DATA, ["8"]).rows}
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


@needs_data
def test_hardware_only_where_figure_8_is_asked_for(folder: Path) -> None:
    (folder / "fig8_hdl.csv").unlink()
    assert read_published(folder, ["9"]).hardware == {}
    with pytest.raises(TraceError, match=r"fig8_hdl\.csv: is missing; expected a folder"):
        read_published(folder, ["8", "9"])


@needs_data
@pytest.mark.parametrize("name", NAMES)
def test_missing_table(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(TraceError, match=f"{name}: is missing"):
        read_published(folder, ["8"])


@needs_data
def test_damaged_number(folder: Path) -> None:
    path = folder / "canonical_cycles.csv"
    lines = path.read_text().splitlines()
    lines[3] = lines[3].rsplit(",", 1)[0] + ",many"
    path.write_text("\n".join(lines))
    with pytest.raises(TraceError, match=r"canonical_cycles\.csv: line 4: .*'many'; mend the line"):
        read_published(folder, ["8"])


@needs_data
def test_missing_column(folder: Path) -> None:
    path = folder / "ground_truth.csv"
    path.write_text(path.read_text().replace("tile_N", "tile", 1))
    with pytest.raises(TraceError, match=r"ground_truth\.csv: has no column 'tile_N'"):
        read_published(folder, ["8"])


@needs_data
def test_short_line(folder: Path) -> None:
    path = folder / "ground_truth.csv"
    path.write_text(path.read_text() + "8,f8_step_1_1\n")
    with pytest.raises(TraceError, match=r"ground_truth\.csv: line \d+: .*; mend the line"):
        read_published(folder, ["8"])


@needs_data
def test_not_text(folder: Path) -> None:
    (folder / "paper_headlines.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match=r"paper_headlines\.csv: is not readable"):
        read_published(folder, ["8"])
