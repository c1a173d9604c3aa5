"""Results outside of stepsim: Parquet, Arrow, pandas, text."""

from __future__ import annotations

import gc
import json
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim import Result
from stepsim.errors import ArgError, OutputError
from stepsim.kernels import driver
from stepsim.results import FIFOS_SCHEMA, RUN_SCHEMA, UNITS_SCHEMA
from stepsim.simulation import simulate, simulate_network
from tests.simulation.programs import centered, long_network


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(centered(8))


@pytest.fixture(scope="module")
def stuck() -> Result:
    return simulate(centered(2))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_results_do_not_hold_the_memory_of_their_run(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Any] = []
    working = driver.working

    def watched(*args: Any, **options: Any) -> Any:
        made = working(*args, **options)
        held.append(weakref.ref(made.words))
        return made

    monkeypatch.setattr(driver, "working", watched)
    made = simulate(centered(8))
    gc.collect()
    assert [one() for one in held] == [None]
    assert made.units.num_rows > 0
    assert made.fifos.num_rows > 0


def test_columns_of_units_cannot_be_written(result: Result) -> None:
    """The table is made of the same memory."""
    columns = result.tables.unit_columns
    arrays = [column for column in columns.values() if isinstance(column, np.ndarray)]
    assert len(arrays) > 5
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 7
    assert result.units == simulate(centered(8)).units


def test_parquet_round_trip(result: Result, tmp_path: Path) -> None:
    result.to_parquet(tmp_path / "run.parquet")
    assert files(tmp_path) == ["run.fifos.parquet", "run.parquet", "run.units.parquet"]
    runs = set()
    for name, table, schema in (
        ("run.parquet", result.to_arrow(), RUN_SCHEMA),
        ("run.units.parquet", result.units, UNITS_SCHEMA),
        ("run.fifos.parquet", result.fifos, FIFOS_SCHEMA),
    ):
        read = pq.read_table(tmp_path / name)
        assert read.equals(table)
        about = dict(read.schema.metadata)
        runs.add(about.pop(b"run"))
        assert read.schema.with_metadata(about).equals(schema, check_metadata=True)
    assert len(runs) == 1  # of one run
    busy = pq.read_schema(tmp_path / "run.units.parquet").field("busy")
    assert busy.metadata[b"unit"] == b"cycles"
    (row,) = pq.read_table(tmp_path / "run.parquet").to_pylist()
    assert row["cycles"] == result.cycles
    assert json.loads(row["provenance"])["image_hash"] == result.provenance["image_hash"]


def test_a_name_without_suffix(result: Result, tmp_path: Path) -> None:
    result.to_parquet(str(tmp_path / "run"))
    assert files(tmp_path) == ["run", "run.fifos.parquet", "run.units.parquet"]


def test_files_are_replaced(result: Result, stuck: Result, tmp_path: Path) -> None:
    stuck.to_parquet(tmp_path / "run.parquet")
    result.to_parquet(tmp_path / "run.parquet")
    assert len(files(tmp_path)) == 3
    assert pq.read_table(tmp_path / "run.parquet")["status"].to_pylist() == ["ok"]
    assert set(pq.read_table(tmp_path / "run.units.parquet")["state"].to_pylist()) == {"done"}


def test_a_folder_that_does_not_exist(result: Result, tmp_path: Path) -> None:
    target = tmp_path / "missing" / "run.parquet"
    with pytest.raises(OutputError) as caught:
        result.to_parquet(target)
    text = str(caught.value)
    assert text.startswith(f"cannot write {target}: ")
    assert "No such file or directory; choose a folder that exists" in text
    assert files(tmp_path) == []


def test_a_file_in_place_of_the_folder(result: Result, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match=r"cannot write .*file/run\.parquet: .*Not a dir"):
        result.to_parquet(tmp_path / "file" / "run.parquet")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_in_place_of_a_file(result: Result, tmp_path: Path) -> None:
    (tmp_path / "run.fifos.parquet").mkdir()
    with pytest.raises(OutputError, match=r"run\.fifos\.parquet: it is a folder or a device"):
        result.to_parquet(tmp_path / "run.parquet")
    assert files(tmp_path) == ["run.fifos.parquet"]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_full_disk_leaves_what_was_there(
    result: Result, stuck: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    stuck.to_parquet(tmp_path / "run.parquet")
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    calls = 0
    write = pq.write_table

    def fail(table: pa.Table, *args: object, **options: object) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise OSError(28, "No space left on device")
        write(table, *args, **options)

    monkeypatch.setattr("stepsim.results.writing.pq.write_table", fail)
    with pytest.raises(OutputError, match=r"run\.parquet: No space left on device; choose"):
        result.to_parquet(tmp_path / "run.parquet")
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before


def test_an_interrupt_leaves_nothing(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stepsim.results.writing.pq.write_table", interrupt)
    with pytest.raises(KeyboardInterrupt):
        result.to_parquet(tmp_path / "run.parquet")
    assert files(tmp_path) == []


def test_arrow_stream(result: Result) -> None:
    table = pa.RecordBatchReader.from_stream(result).read_all()
    assert table.equals(result.to_arrow())
    assert table.schema.equals(RUN_SCHEMA, check_metadata=True)
    assert pa.table(result).num_rows == 1


def test_pandas(result: Result) -> None:
    frame = result.to_pandas("units")
    assert list(frame.columns) == UNITS_SCHEMA.names
    assert len(frame) == result.units.num_rows
    assert frame["offchip_bytes"].sum() == result.offchip_bytes


def test_repr(result: Result, stuck: Result) -> None:
    text = repr(replace(result, wall_seconds=0.25))
    share = result.offchip_bytes / result.cycles / 1024
    assert text == (
        f"Result('center': ok, 2,074 cycles, 131,072 bytes off chip, {share:.1%} of peak "
        f"bandwidth, 65,536 FLOPs, {result.engine_steps:,} steps in 0.25 s)"
    )
    assert repr(stuck).startswith("Result('center': deadlock, ")
    assert repr(replace(result, notes=("look", "out"))).endswith(" s)\nnote: look\nnote: out")


def test_html(result: Result, stuck: Result) -> None:
    page = result._repr_html_()
    assert page.startswith("<table><caption>center</caption>")
    assert "2,074" in page
    assert "<pre>" not in page
    other = replace(stuck, program="<b>&</b>")._repr_html_()
    assert "<caption>&lt;b&gt;&amp;&lt;/b&gt;</caption>" in other
    assert "<pre>deadlock: 8 of 8 units are blocked" in other
    assert "'x#0&gt;1'" in other or "&#x27;x#0&gt;1&#x27;" in other


def test_an_empty_run() -> None:
    empty = replace(simulate_network(long_network(1)), cycles=0, peak_bytes=0)
    assert empty.bandwidth_utilization is None
    assert "of peak bandwidth" not in repr(empty)
    assert "not measured" in empty._repr_html_()
    assert empty.to_arrow()["bandwidth_utilization"].to_pylist() == [None]


def test_utilization(result: Result) -> None:
    assert result.peak_bandwidth == 1024
    assert result.bandwidth_utilization == pytest.approx(131_072 / 2_074 / 1_024)


def test_diagnosis_as_json(stuck: Result) -> None:
    assert stuck.diagnosis is not None
    data = json.loads(json.dumps(stuck.diagnosis.to_dict()))
    assert data["status"] == "deadlock"
    assert data["deepen"] == ["x#0>1"]
    first = data["circular_wait"][0]
    assert (first["unit"], first["reason"], first["held"], first["depth"]) == (
        "broadcast(x#0)", "slot", 2, 2
    )  # fmt: skip
    assert len(data["waits"]) == 8


def test_tables_by_name(result: Result) -> None:
    assert result.to_arrow("units").equals(result.units)
    assert result.to_arrow("fifos").equals(result.fifos)
    with pytest.raises(ArgError, match="run, units and fifos; found 'rows'"):
        result.to_arrow("rows")
