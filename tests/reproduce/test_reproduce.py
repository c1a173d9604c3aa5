"""From runs to files: tables, their schema, pictures and the report."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stepsim.errors import ArgError, OutputError, TraceError
from stepsim.reproduce.reproduction import reproduce
from stepsim.reproduce.schema import COMPARED, TIMES, points_schema
from tests.shared import TRACES, needs_traces

COMPARED_NAMES = {field.name for field in COMPARED}
TIME_NAMES = {field.name for field in TIMES}


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("synthetic") / "new" / "folder"
    reproduce(["13", "fig15"], out)
    return out


@pytest.mark.slow
def test_files(synthetic: Path) -> None:
    kinds = ("csv", "parquet", "png", "svg")
    assert sorted(path.name for path in synthetic.iterdir()) == sorted(
        [f"fig{n}.{kind}" for n in ("13", "15") for kind in kinds]
        + ["headlines.csv", "headlines.parquet", "report.md"]
    )


@pytest.mark.slow
def test_table_without_published_values(synthetic: Path) -> None:
    table = pq.read_table(synthetic / "fig15.parquet")
    assert table.schema.names == points_schema(compared=False).names
    assert not COMPARED_NAMES & set(table.schema.names)
    assert all(
        field.metadata.keys() == {b"unit", b"definition"} and field.metadata[b"definition"]
        for field in table.schema
    )
    rows = table.to_pylist()
    assert [row["batch"] for row in rows] == [16, 16, 32, 32, 48, 48, 64, 64]
    assert {row["status"] for row in rows} == {"ok"}
    assert {row["trace"] for row in rows} == {"synthetic"}
    for coarse, dynamic in zip(rows[::2], rows[1::2], strict=True):
        assert coarse["ratio"] == dynamic["ratio"] == coarse["cycles"] / dynamic["cycles"]
    assert all(0 < row["bandwidth_utilization"] <= 1 for row in rows)
    assert all(0 < row["wall_seconds"] <= row["seconds"] for row in rows)
    total = float(table.schema.metadata[b"seconds"])
    assert total == pytest.approx(sum(row["seconds"] for row in rows), abs=1e-3)
    provenance = json.loads(table.schema.metadata[b"provenance"])
    assert [machine["name"] for machine in provenance["machines"]] == ["sda-1024"]


def test_csv_has_the_same_numbers_but_no_times(synthetic: Path) -> None:
    rows = pq.read_table(synthetic / "fig13.parquet").to_pylist()
    with (synthetic / "fig13.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert not TIME_NAMES & set(lines[0])
    assert [int(line["cycles"]) for line in lines] == [row["cycles"] for row in rows]
    assert [line["point_id"] for line in lines] == [row["point_id"] for row in rows]


def test_report_shows_figures_and_headlines(synthetic: Path) -> None:
    text = (synthetic / "report.md").read_text()
    assert "![Figure 13](fig13.png)" in text
    assert "![Figure 15](fig15.png)" in text
    assert "| 15 | dynamic vs coarse at batch 16 |" in text
    assert "synthetic traces, no comparison" in text


@pytest.mark.long
def test_number_of_processes_changes_nothing(synthetic: Path, tmp_path: Path) -> None:
    result = reproduce(["15", "13"], tmp_path, jobs=2)
    assert result.jobs == 2
    for path in synthetic.iterdir():
        if path.suffix in (".csv", ".png", ".svg"):
            assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.slow
def test_closure_slack_is_recorded(tmp_path: Path) -> None:
    result = reproduce(["15"], tmp_path, closure_slack=1)
    assert result.closure_slack == 1
    assert {row["closure_slack"] for row in result.figures["15"]} == {1}
    metadata = pq.read_schema(tmp_path / "fig15.parquet").metadata
    assert json.loads(metadata[b"provenance"])["machines"][0]["closure_slack"] == 1


@pytest.mark.slow
def test_notices_count_the_runs(tmp_path: Path) -> None:
    heard: list[str] = []
    reproduce(["15"], tmp_path, notice=heard.append)
    assert "simulating: 8 of 8 runs done" in heard
    assert heard[-1] == "writing"


@needs_traces
@pytest.mark.slow  # compiles the engine of the DRAM
def test_comparison(tmp_path: Path) -> None:
    result = reproduce(["15", "8"], tmp_path, data=TRACES.parent)
    assert result.compared
    table = pq.read_table(tmp_path / "fig08.parquet")
    assert set(table.schema.names) >= COMPARED_NAMES
    rows = [row for row in table.to_pylist() if row["published_cycles"] is not None]
    assert len(rows) >= 10
    for row in rows:
        assert row["cycles"] == row["canonical_cycles"]
        assert row["cycles_difference"] == row["cycles"] - row["published_cycles"]
        assert row["cycles_relative"] == pytest.approx(row["cycles"] / row["published_cycles"] - 1)
        assert row["offchip_bytes"] == row["published_offchip_bytes"]
        assert row["hdl_cycles"] > 0
    for headline in result.headlines:
        if headline["note"] == "not in the paper":
            continue
        assert abs(headline["deviation"]) < 0.01, headline["claim"]
    assert "against HDL cycles" in (tmp_path / "report.md").read_text()
    headlines = pq.read_table(tmp_path / "headlines.parquet").to_pylist()
    assert {row["figure"] for row in headlines} >= {"8", "15", "abstract", "setup"}


@pytest.mark.slow
def test_levels_of_figure_8_need_no_traces(tmp_path: Path) -> None:
    result = reproduce(["8"], tmp_path)
    assert result.compared
    rows = result.figures["8"]
    assert len(rows) == 45
    units = [row for row in rows if row["level"] == "hardware"]
    assert {row["machine"] for row in units} == {"hdl"}
    known = [row for row in units if row.get("hdl_cycles") is not None]
    assert len(units) == 15
    assert len(known) == 10
    for row in known:
        assert row["cycles"] == row["hdl_cycles"]
        assert row["memory_reads"] + 122 == row["hdl_offchip_bytes"] // 512
        assert row["bus_bytes"] == 512 * row["memory_requests"]
        assert row.get("published_cycles") is None
    dram = [row for row in rows if row["machine"] == "hdl-arbiter" and row.get("hdl_cycles")]
    errors = [100 * (row["cycles"] / row["hdl_cycles"] - 1) for row in dram]
    assert len(errors) == 10
    assert sum(map(abs, errors)) / 10 <= 4
    assert max(map(abs, errors)) <= 10
    text = (tmp_path / "report.md").read_text()
    assert "recorded traces" not in text
    assert "reads + 122 at 10 tilings" in text


def test_missing_trace_is_named(tmp_path: Path) -> None:
    expected = r"azure_trace/b64/conv_stdev0996_4007_4070\.npy: is missing; the selected figures"
    with pytest.raises(TraceError, match=expected):
        reproduce(["15"], tmp_path / "out", data=tmp_path)
    assert not (tmp_path / "out").exists()


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ArgError, match="jobs: expected a whole number from 1, found 0"):
        reproduce(["8"], tmp_path, jobs=0)
    with pytest.raises(TraceError, match="nowhere: is not a folder; name a folder of rec"):
        reproduce(["8"], tmp_path, data=tmp_path / "nowhere")
    with pytest.raises(ArgError, match="--data and --fetch both name the source of the traces"):
        reproduce(["8"], tmp_path, data=tmp_path, fetch=True)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be used as a folder for results"):
        reproduce(["8"], tmp_path / "file" / "out")
