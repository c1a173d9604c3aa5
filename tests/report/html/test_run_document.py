"""What the page of a run shows, on tables whose numbers are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stepsim as st
from stepsim.errors import ReportError
from stepsim.report.html import read_run, run_document
from stepsim.report.html.activity import activity
from stepsim.report.html.bounds import bounds, verdict
from stepsim.report.html.groups import Groups
from stepsim.report.html.roofline import moved_bytes, roofline
from stepsim.results import stall_tree
from stepsim.results.diagnosis import Diagnosis
from stepsim.results.writing import neighbor
from tests.report.html.conftest import Command


def units_of(*rows: tuple[str, str, int, int, int, int]) -> pa.Table:
    """Name, operator, before, after, off-chip bytes, FLOPs of each unit."""
    names = ("name", "operator", "before", "after", "offchip_bytes", "flops")
    return pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))


def fifos_of(*rows: tuple[str, str, int]) -> pa.Table:
    return pa.table(
        dict(zip(("producer", "consumer", "sent"), zip(*rows, strict=True), strict=True))
    )


LOADED = units_of(
    ("load", "OffChipLoad", 0, 0, 600, 0),
    ("copy", "Broadcast", 0, 0, 0, 0),
    ("one", "UnaryMap", 10, 40, 0, 3000),
    ("split", "Partition", 0, 0, 0, 0),
    ("left", "UnaryMap", 0, 0, 0, 100),
    ("right", "UnaryMap", 0, 0, 0, 100),
    ("last", "UnaryMap", 0, 0, 0, 50),
    ("store", "OffChipStore", 0, 0, 80, 0),
)
WIRES = fifos_of(
    ("load", "copy", 4), ("copy", "one", 4), ("copy", "split", 4), ("split", "left", 3),
    ("split", "right", 1), ("one", "last", 4), ("last", "store", 4),
)  # fmt: skip


def test_bytes_reach_the_first_units_that_compute() -> None:
    # A broadcast gives all bytes to both; a partition its tokens' share; a store is the last's.
    assert moved_bytes(LOADED, WIRES).tolist() == [0, 0, 600, 0, 450, 150, 80, 0]


def test_the_roofline_is_over_the_cycles_between_first_and_last_token() -> None:
    found = roofline(LOADED, WIRES, 100)
    assert found["unit"] == [2, 4, 5, 6]
    assert found["intensity"][0] == 5.0
    assert found["speed"][0] == 3000 / 50
    assert found["without"] == 0


def test_units_on_a_cycle_pass_no_bytes_on() -> None:
    units = units_of(
        ("load", "OffChipLoad", 0, 0, 10, 0), ("a", "Zip", 0, 0, 0, 0), ("b", "Zip", 0, 0, 0, 0),
        ("out", "UnaryMap", 0, 0, 0, 5),
    )  # fmt: skip
    wires = fifos_of(("load", "a", 1), ("a", "b", 1), ("b", "a", 1), ("b", "out", 1))
    assert moved_bytes(units, wires).tolist() == [0, 0, 0, 0]
    assert roofline(units, wires, 10)["without"] == 1


def test_a_load_on_a_cycle_passes_its_bytes_on() -> None:
    # The addresses of the load depend on what comes of it, as in a decoder.
    units = units_of(
        ("load", "OffChipLoad", 0, 0, 10, 0), ("flat", "Flatten", 0, 0, 0, 0),
        ("out", "UnaryMap", 0, 0, 0, 5), ("next", "Flatten", 0, 0, 0, 0),
    )  # fmt: skip
    wires = fifos_of(
        ("load", "flat", 1), ("flat", "out", 1), ("out", "next", 1), ("next", "load", 1)
    )
    assert moved_bytes(units, wires).tolist() == [0, 0, 10, 0]


def test_activity_is_the_share_of_a_groups_units() -> None:
    units = units_of(
        ("x.0#0", "UnaryMap", 0, 80, 0, 0), ("x.1#1", "UnaryMap", 10, 0, 0, 0),
        ("idle#2", "UnaryMap", 0, 160, 0, 0),
    )  # fmt: skip
    groups = Groups.of(units, fifos_of(("x.0#0", "idle#2", 1)))
    assert groups.names == ("x.*", "idle#2")
    assert groups.of_unit == (0, 0, 1)
    found = activity(units, groups, 160)
    assert (found["group"], found["width"], found["left_out"]) == ([0], 1, 0)
    assert found["share"][0] == [0.5] * 10 + [1.0] * 70 + [0.5] * 80
    assert activity(units, groups, 1600)["width"] == 10


@pytest.mark.parametrize(
    ("busy", "bus_bytes", "sentence"),
    [
        (95, 100, "Bound by the work of one operator, b: it alone needs 95 of the 100 cycles"),
        (5, 900, "Bound by off-chip bandwidth: it alone needs 90 of the 100 cycles (90.0%)."),
        (5, 100, "No resource is near its peak: the one that is used most, off-chip bandwidth"),
    ],
)
def test_the_largest_bound_is_named(busy: int, bus_bytes: int, sentence: str) -> None:
    row = {
        "status": "ok", "cycles": 100, "bus_bytes": bus_bytes, "peak_bandwidth": 10.0,
        "bandwidth_utilization": 0.5, "flops": 10, "allocated_flops_per_cycle": 100,
    }  # fmt: skip
    found = bounds(row, pa.table({"name": ["a", "b"], "busy": [1, busy]}))
    assert [one["bound"] for one in found] == sorted((busy, bus_bytes // 10, 1), reverse=True)
    assert verdict(row, found)["sentence"].startswith(sentence)


def test_published_counts_are_no_bound() -> None:
    row = {"cycles": 100, "flops": 900, "allocated_flops_per_cycle": 1}
    units = pa.table({"name": ["a"], "busy": [5]})
    assert [one["kind"] for one in bounds(row, units)] == ["compute", "busiest_operator"]
    (found,) = bounds({**row, "counting": "published"}, units)
    assert found["kind"] == "busiest_operator"


@pytest.mark.parametrize(
    ("links", "target", "unit"),
    [
        ({"link_name": ["0 east", "1 east"], "link_flits": [3, 90]}, "1 east", "flits"),
        (
            {"from_device": [0, 1], "to_device": [1, 0], "link_busy_cycles": [90, 3]},
            "chip 0 to chip 1",
            "cycles",
        ),
    ],
)
def test_a_busy_link_is_named(links: dict[str, Any], target: str, unit: str) -> None:
    machine = {"chips": {"count": 2}}
    row = {"status": "ok", "cycles": 100, "provenance": {"machine": machine}}
    found = bounds(row, pa.table({"name": ["a"], "busy": [40]}), pa.table(links))
    assert [one["bound"] for one in found] == [90, 40]
    assert (found[0]["target"], found[0]["unit"], found[0]["share"]) == (target, unit, 0.9)
    assert verdict(row, found)["sentence"] == (
        f"Bound by one link of the network, {target}: it alone needs 90 of the 100 cycles (90.0%)."
    )


def test_a_run_that_did_not_end_well_is_not_judged() -> None:
    shown = verdict({"status": "deadlock", "cycles": 1234}, [])
    assert shown["sentence"] == "The run ended in a deadlock after 1,234 cycles."


def document_of(path: Path) -> dict[str, Any]:
    tables = read_run(path)
    return run_document(tables, stall_tree(tables.units, tables.fifos).to_dict())


@pytest.mark.slow
def test_a_document_is_json_and_complete(moe_run: Path) -> None:
    found = document_of(moe_run)
    json.dumps(found, allow_nan=False)
    units = pq.read_table(neighbor(moe_run, "units"))
    assert found["units"]["columns"]["name"] == units["name"].to_pylist()
    assert found["units"]["facts"]["busy"]["unit"] == "cycles"
    assert found["title"] == "moe, qwen3-30b-a3b"
    assert len(found["groups"]["of_unit"]) == units.num_rows
    assert found["timeline"] is None
    assert found["path"] is None
    wires = found["fifos"]["columns"]
    names = found["units"]["columns"]["name"]
    fifos = pq.read_table(neighbor(moe_run, "fifos"))
    assert [names[unit] for unit in wires["producer"]] == fifos["producer"].to_pylist()


def test_a_recorded_run_has_its_path_and_what_happened_over_time(recorded_run: Path) -> None:
    found = document_of(recorded_run)
    cycles = found["row"]["cycles"]
    assert sum(part["cycles"] for part in found["path"]) == cycles
    longest = [part["cycles"] for part in found["path"]]
    assert longest == sorted(longest, reverse=True)
    assert found["timeline"]["columns"]["end"][-1] == cycles
    assert found["timeline"]["facts"]["offchip_share"]["unit"] == "fraction"
    assert max(found["fifos"]["columns"]["peak_tokens"]) > 0


def test_a_diagnosis_is_reported_as_the_run_reported_it(stuck_run: Path) -> None:
    found = document_of(stuck_run)
    diagnosis = Diagnosis.from_dict(found["row"]["diagnosis"])
    assert json.loads(json.dumps(diagnosis.to_dict())) == found["row"]["diagnosis"]
    assert found["diagnosis"] == str(diagnosis)
    assert diagnosis.deepen
    assert found["verdict"]["kind"] == "deadlock"


def test_results_of_python_can_be_shown(tmp_path: Path) -> None:
    with st.Program("linear", compute_bw=1024) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        st.linear_store(st.map(st.fn.exp, x), "y")
    result = st.simulate(program)
    result.to_parquet(tmp_path / "run.parquet")
    found = document_of(tmp_path / "run.parquet")
    assert found["title"] == "linear"
    assert found["bounds"][0]["kind"] in ("hbm_bandwidth", "busiest_operator")
    assert found["row"]["cycles"] == result.cycles


def damaged(moe_run: Path, folder: Path, which: str, change: Any) -> Path:
    for label in ("", "units", "fifos"):
        table = pq.read_table(neighbor(moe_run, label))
        table = change(table) if label == which else table
        if table is not None:
            pq.write_table(table, neighbor(folder / "run.parquet", label))
    return folder / "run.parquet"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "change", "message"),
    [
        ("units", lambda _: None, "run.units.parquet: its units cannot be read, there is no such"),
        ("fifos", lambda t: t.drop(["sent"]), "expected the fifos of a run, found no column sent"),
        ("", lambda t: t.replace_schema_metadata({}), "found a table without a schema of stepsim"),
        ("", lambda t: pa.concat_tables([t, t]), "expected the file of one run, found"),
        (
            "",
            lambda t: t.set_column(
                t.schema.get_field_index("provenance"), "provenance", pa.array(["{"])
            ),
            "column provenance: expected JSON text, found '{'",
        ),
    ],
)
def test_what_is_no_run_is_refused(
    moe_run: Path, tmp_path: Path, which: str, change: Any, message: str
) -> None:
    path = damaged(moe_run, tmp_path, which, change)
    with pytest.raises(ReportError) as error:
        read_run(path)
    assert message in str(error.value)


def test_the_command_says_what_is_wrong(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.parquet").write_text("no table")
    assert command("report", tmp_path / "text.parquet", "--out", tmp_path / "a.html") == 2
    assert "text.parquet: the run cannot be read" in capsys.readouterr().err
    assert command("report", tmp_path / "none.parquet", "--out", tmp_path / "a.html") == 2
    assert "there is no such file" in capsys.readouterr().err
    assert command("report", tmp_path, "--out", tmp_path / "a.html") == 2
    assert "holds no sweep" in capsys.readouterr().err
    assert command("report", tmp_path / "x", "--out", tmp_path / "a.pdf") == 2
    assert "expected a name that ends in .html" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["text.parquet"]


def test_numbers_that_are_not_finite_are_unknown() -> None:
    from stepsim.report.html.run_document import plain

    found = plain({"a": [float("nan"), float("inf"), 1.5], "b": np.float64(2.0)})
    assert found == {"a": [None, None, 1.5], "b": 2.0}
