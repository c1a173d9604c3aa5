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
from stepsim.graph import EagerMerge, wire
from stepsim.graph.ops.routing.routing_table import check_bindings
from stepsim.lowering import network_of
from stepsim.noc import Placement, Topology
from stepsim.placement import flows_of, places_of
from stepsim.results.writing import neighbor
from stepsim.simulation.programs.on_chip import on_chip, placement_of
from stepsim.simulation.programs.several_chips import chips_of, on_chips
from tests.engine_backend import run_engine
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import TooLong, interpret
from tests.oracle.invariants import check_all

__all__ = [
    "check_chips",
    "check_export",
    "check_links",
    "check_oracle",
    "check_result",
    "check_same",
    "check_totals",
]

_PARTS = ("busy", "wait_input", "wait_output", "wait_memory", "before", "after")
_COUNTS = (
    "cycles", "offchip_bytes", "bus_bytes", "memory_requests", "flops", "tokens",
    "undelivered_tokens", "engine_steps",
)  # fmt: skip


_RECORDED = (
    "onchip_peak_bytes", "peak_buffers", "peak_buffer_bytes", "mean_tokens", "peak_tokens",
    "mean_bytes", "peak_bytes", "full_cycles", "empty_cycles",
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
    for name in ("units", "fifos"):
        left, right = (_without(getattr(run, name), a, b) for run in (a, b))
        assert left.equals(right), f"two runs differ in {name}"


def _without(table: pa.Table, *runs: st.Result) -> pa.Table:
    """The columns that all of these runs have: some are only of recorded runs."""
    if all((run.events is None) == (runs[0].events is None) for run in runs):
        return table
    kept = [name for name in table.column_names if name not in _RECORDED]
    return table.select(kept)


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
    program: st.Program,
    machine: st.Machine,
    bindings: Mapping[Any, Any],
    depth: int | None,
    place: Any = None,
) -> None:
    """The engine and the interpreter, which knows no numba, agree on every token and account."""
    if machine.hbm.model == "uncontended":
        return  # the interpreter has no such memory
    wiring = wire(program, check_bindings(program, bindings))
    network = network_of(wiring, machine, depth)
    chips = chips_of(wiring, machine)
    if place is not None:
        network = on_chip(network, wiring, placement_of(program, machine, place))
    elif len(chips) > 1:
        network, _ = on_chips(network, wiring, machine, chips)
    try:
        expected = interpret(network)
    except TooLong:
        return
    engine = run_engine(network)
    assert_same(engine, expected, accounts=True, names=("engine", "interpreter"))
    check_all(network, engine)


def check_links(
    program: st.Program, given: Mapping[str, Any], result: st.Result, recorded: st.Result
) -> None:
    """Links carry the bytes of streams times their links; counts do not depend on places."""
    links = result.links()
    assert recorded.links().equals(links), "a recorded run has other links"
    for link in links.to_pylist():
        assert link["link_bytes"] >= 0, f"bytes of {link}"
        assert (link["link_bytes"] > 0) <= (link["link_flits"] > 0), f"bytes without flits: {link}"
        assert result.status != "ok" or 0 <= link["link_share"] <= 1, f"share of {link}"
    if recorded.link_timeline(7).num_rows:
        load = recorded.link_timeline(7)["link_load"]
        assert 0 <= pc.min(load).as_py() <= pc.max(load).as_py() <= 1, "a load out of range"
    alone = st.simulate(program, **{**given, "place": None})
    free = any(isinstance(op, EagerMerge) for op in program.operators)
    if free or result.status != "ok" or alone.status != "ok":
        return  # the order of arrivals may decide what is computed
    for name in ("offchip_bytes", "bus_bytes", "memory_requests", "flops"):
        placed, without = getattr(result, name), getattr(alone, name)
        assert placed == without, f"{name} depends on places: {placed}, {without}"
    machine = given["machine"]
    placement: Placement = placement_of(program, machine, given["place"])
    if any(len(tiles) > 1 for tiles in placement.tiles.values()):
        return
    prepared = st.prepare(program, machine, fifo_depth=given["fifo_depth"])
    flows = flows_of(prepared, given["bindings"])
    loads = flows.loads(Topology(machine.noc), places_of(placement, flows))
    for link in links.to_pylist():
        counted = loads[link["link"]]
        assert link["link_bytes"] == counted, f"bytes over a link: {link}, counted {counted}"


def check_chips(result: st.Result) -> None:
    """What is sent is received, and the chips do together what the run does."""
    chips, links = result.chips().to_pydict(), result.links().to_pydict()
    for name in ("offchip_bytes", "flops"):
        whole = sum(chips[name])
        assert whole == getattr(result, name), f"{name} of chips is {whole}: {result}"
    assert result.status != "ok" or max(chips["chip_cycles"]) == result.cycles, "the last chip"
    for kind in ("messages", "bytes"):
        sent, received = (sum(chips[f"{way}_{kind}"]) for way in ("sent", "received"))
        assert sent == received, f"{kind}: {sent} sent, {received} received"
        passed = sum(links[f"link_{kind}"])
        assert result.status != "ok" or passed >= sent, f"{kind}: {sent} sent, {passed} on links"
    shares = [*chips["chip_bandwidth_utilization"], *links["link_utilization"]]
    assert all(share is None or 0 <= share <= 1 for share in shares), f"shares {shares}"
