"""Laws of every result, whatever the program."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import stepsim as st
from stepsim.errors import ArgError
from stepsim.graph.ops.routing.routing_table import check_bindings
from stepsim.lowering import lower
from stepsim.results.writing import neighbor
from tests.engine_backend import run_engine
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import TooLong, interpret
from tests.oracle.invariants import check_all

__all__ = ["check_export", "check_oracle", "check_result", "check_same", "check_totals"]

_PARTS = ("busy", "wait_input", "wait_output", "wait_memory", "before", "after")
_COUNTS = (
    "cycles", "offchip_bytes", "bus_bytes", "memory_requests", "flops", "tokens",
    "undelivered_tokens", "engine_steps",
)  # fmt: skip


def check_result(result: st.Result) -> None:
    """Counts are counts, times add up, the tables and texts can be made."""
    assert result.status in ("ok", "deadlock", "failed", "limit", "infeasible"), result.status
    assert (result.diagnosis is None) == (result.status == "ok"), f"diagnosis of {result.status}"
    for name in _COUNTS:
        value = getattr(result, name)
        assert type(value) is int, f"{name} is no int: {value!r}"
        assert value >= 0, f"{name} is negative: {value}"
    for name in ("wall_seconds", "peak_bandwidth"):
        value = getattr(result, name)
        assert math.isfinite(value), f"{name} is not finite: {value}"
        assert value >= 0, f"{name} is negative: {value}"
    used = result.bandwidth_utilization
    assert used is None or 0 <= used <= 1, f"bandwidth_utilization out of range: {used}"
    for table in ("run", "units", "fifos"):
        made = result.to_arrow(table)
        made.validate(full=True)
        for name, column in zip(made.column_names, made.columns, strict=True):
            if column.type == "int64" or column.type == "int32":
                low = pc.min(column).as_py()
                assert low is None or low >= 0, f"{table}.{name} is negative: {low}"
    json.dumps(dict(result.provenance), default=str, allow_nan=False)
    assert repr(result)
    assert result._repr_html_()
    if result.diagnosis is not None:
        assert str(result.diagnosis).strip(), "an empty diagnosis"
    units, fifos = result.units.to_pydict(), result.fifos.to_pydict()
    for row in range(result.units.num_rows):
        lifetime = max(result.cycles, units["final_clock"][row])
        total = sum(units[part][row] for part in _PARTS)
        assert total == lifetime, f"account of a unit: {units['name'][row]} {total} of {lifetime}"
    for name, column in (("flops", "flops"), ("offchip_bytes", "offchip_bytes")):
        assert getattr(result, name) == sum(units[column]), f"{name} is no sum of units"
    assert result.tokens == sum(fifos["sent"]), "tokens are not what FIFOs got"
    left = sum(fifos["sent"]) - sum(fifos["received"])
    assert result.undelivered_tokens == left, "undelivered tokens are not what is left in FIFOs"


def check_export(result: st.Result) -> None:
    """What is written holds what the tables hold."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.parquet"
        result.to_parquet(path)
        for label, table in (("", "run"), ("units", "units"), ("fifos", "fifos")):
            written = pq.read_table(neighbor(path, label))
            assert written.equals(result.to_arrow(table)), f"table {table} is written differently"
    assert pa.table(result).equals(result.to_arrow()), "the Arrow stream has another table"


def check_same(a: st.Result, b: st.Result) -> None:
    """Two runs of one image."""
    assert a.status == b.status, f"two statuses: {a.status}, {b.status}"
    if a.status == "limit":
        return  # of a limit in seconds
    for name in _COUNTS:
        left, right = getattr(a, name), getattr(b, name)
        assert left == right, f"two runs differ in {name}: {left}, {right}"
    assert a.units.equals(b.units), "two runs differ in units"
    assert a.fifos.equals(b.fifos), "two runs differ in FIFOs"


def check_totals(program: st.Program, result: st.Result, values: Mapping[Any, Any]) -> bool:
    """Symbolic totals are those of the run; False when they cannot be bound before it."""
    metrics = program.metrics()
    try:
        bound = metrics.bind(values)
    except ArgError:
        return False
    for name, symbolic in (("flops", bound.flops), ("offchip_bytes", bound.off_chip_traffic)):
        ran = getattr(result, name)
        assert symbolic == ran, f"symbolic {name} differ: {symbolic}, executed {ran}"
    assert bound.on_chip_memory >= 0, "negative on-chip memory"
    return True


def check_oracle(
    program: st.Program, machine: st.Machine, bindings: Mapping[Any, Any], depth: int | None
) -> None:
    """The engine and the interpreter, which knows no numba, agree on every token and account."""
    if machine.hbm.model == "uncontended":
        return  # the interpreter has no such memory
    _, network = lower(program, machine, check_bindings(program, bindings), depth)
    try:
        expected = interpret(network)
    except TooLong:
        return
    engine = run_engine(network)
    assert_same(engine, expected, accounts=True, names=("engine", "interpreter"))
    check_all(network, engine)
