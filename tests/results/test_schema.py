"""Schemas of the result tables: a change here is a change for every reader of results."""

from __future__ import annotations

import pyarrow as pa
import pytest

import stepsim as st
from stepsim import Result
from stepsim.results import FIFOS_SCHEMA, RUN_SCHEMA, SCHEMA_VERSION, UNITS_SCHEMA
from stepsim.results.schemas import TIMELINE_SCHEMA
from stepsim.simulation import simulate, simulate_network
from tests.simulation.programs import centered, long_network, simulate_moe

UNITS = {
    "unit": "int32", "name": "string", "operator": "string", "state": "string",
    "firings": "int64", "final_clock": "int64", "busy": "int64", "wait_input": "int64",
    "wait_output": "int64", "wait_memory": "int64", "before": "int64", "after": "int64",
    "longest_wait": "string", "longest_wait_cycles": "int64", "requests": "int64",
    "offchip_bytes": "int64", "flops": "int64", "label": "string", "function": "string",
    "source": "string", "onchip_peak_bytes": "int64",
    "peak_buffers": "int64", "peak_buffer_bytes": "int64",
}  # fmt: skip
FIFOS = {
    "fifo": "int32", "name": "string", "producer": "string", "consumer": "string",
    "depth": "int64", "sent": "int64", "received": "int64", "producer_wait": "int64",
    "consumer_wait": "int64", "mean_tokens": "double", "peak_tokens": "int64",
    "mean_bytes": "double", "peak_bytes": "int64", "full_cycles": "int64", "empty_cycles": "int64",
}  # fmt: skip
RUN = {
    "program": "string", "status": "string", "cycles": "int64", "milliseconds": "double",
    "offchip_bytes": "int64", "bus_bytes": "int64", "memory_requests": "int64", "flops": "int64",
    "bandwidth_utilization": "double", "peak_bandwidth": "double", "tokens": "int64",
    "undelivered_tokens": "int64",
    "engine_steps": "int64", "wall_seconds": "double", "provenance": "string",
    "onchip_peak_bytes": "int64", "outline": "string",
}  # fmt: skip
TIMELINE = {
    "bin": "int32", "begin": "int64", "end": "int64", "offchip_bytes_per_cycle": "double",
    "offchip_share": "double", "outstanding_requests": "double", "queued_requests": "double",
    "onchip_bytes_in_use": "int64", "fifo_bytes_in_use": "int64", "fifo_slots_in_use": "int64",
    "flops_per_cycle": "double", "units_working": "double", "units_waiting_input": "double",
    "units_waiting_output": "double", "units_waiting_memory": "double",
    "units_waiting_network": "double",
}  # fmt: skip
NULLABLE = {
    "longest_wait", "longest_wait_cycles", "depth", "bandwidth_utilization", "milliseconds",
    "onchip_peak_bytes", "label", "function", "source", "outline",
    "peak_buffers", "peak_buffer_bytes", "mean_tokens", "peak_tokens", "mean_bytes", "peak_bytes",
    "full_cycles", "empty_cycles", "offchip_share", "onchip_bytes_in_use",
}  # fmt: skip
SCHEMAS = {
    "units": (UNITS_SCHEMA, UNITS), "fifos": (FIFOS_SCHEMA, FIFOS),
    "run": (RUN_SCHEMA, RUN), "timeline": (TIMELINE_SCHEMA, TIMELINE),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
def test_snapshot(name: str) -> None:
    schema, expected = SCHEMAS[name]
    assert {field.name: str(field.type) for field in schema} == expected
    assert [field.name for field in schema] == list(expected)
    assert {field.name for field in schema if field.nullable} == NULLABLE & set(expected)
    assert schema.metadata == {
        b"schema": f"stepsim.{name}".encode(), b"schema_version": SCHEMA_VERSION.encode()
    }  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_column_has_unit_and_definition(name: str) -> None:
    for field in SCHEMAS[name][0]:
        assert set(field.metadata) == {b"unit", b"definition"}, field.name
        assert len(field.metadata[b"definition"]) > 5, field.name
        # Numbers have a unit, except for the numbers of units and channels.
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        if numeric and field.name not in ("unit", "fifo", "bin"):
            assert field.metadata[b"unit"], field.name


def buffered() -> Result:
    """A recorded run with buffers and loads that compete for the memory."""
    with st.Program("buffered", compute_bw=64) as program:
        for _ in range(8):
            x = st.linear_load(st.spec(256, 128), tile=(64, 32)).bufferize(1)
            x.streamify(repeat=2).map(st.fn.silu).consume()
    machine = st.load_machine("sda-1024", {"hbm.channels": 1, "clock_ghz": 1})
    return simulate(program, machine, record=True)


def placed() -> Result:
    """A recorded run whose units wait for packets."""
    with st.Program("placed", compute_bw=64) as program:
        st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1).map(st.fn.silu).consume()
    machine = st.load_machine("sda-1024", {"noc": "mesh", "noc.rows": 2, "noc.cols": 2})
    assert machine.noc is not None
    rows = st.noc.Placement.row_major(program, machine.noc)
    return simulate(program, machine, record=True, place=rows)


@pytest.fixture(scope="module")
def runs() -> list[Result]:
    return [
        simulate(centered(2)), simulate(centered(8)), simulate_moe(),
        simulate_network(long_network()), buffered(), placed(),
    ]  # fmt: skip


def test_tables_have_their_schemas(runs: list[Result]) -> None:
    for run in runs:
        assert run.units.schema.equals(UNITS_SCHEMA, check_metadata=True)
        assert run.fifos.schema.equals(FIFOS_SCHEMA, check_metadata=True)
        assert run.to_arrow().schema.equals(RUN_SCHEMA, check_metadata=True)
        for table in (run.units, run.fifos, run.to_arrow()):
            table.validate(full=True)
            for field in table.schema:
                assert field.nullable or table[field.name].null_count == 0, field.name


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_column_is_filled_in_some_run(name: str, runs: list[Result]) -> None:
    tables = {
        "units": [run.units for run in runs],
        "fifos": [run.fifos for run in runs],
        "run": [run.to_arrow() for run in runs],
        "timeline": [run.timeline() for run in runs if run.events is not None],
    }[name]
    for column in SCHEMAS[name][1]:
        assert any(any(table[column].to_pylist()) for table in tables), column


def test_numbers_count_up(runs: list[Result]) -> None:
    for run in runs:
        assert run.units["unit"].to_pylist() == list(range(run.units.num_rows))
        assert run.fifos["fifo"].to_pylist() == list(range(run.fifos.num_rows))
        names = set(run.units["name"].to_pylist())
        assert len(names) == run.units.num_rows
        assert {
            *run.fifos["producer"].to_pylist(),
            *run.fifos["consumer"].to_pylist(),
        } <= names
