"""Traffic and networks that cannot be: each is named before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError, MachineError, TraceError

_ONE: dict[str, Any] = {"source": [0], "destination": [5], "bytes": [64]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"destination": [64]},
            r"destination\[0\]: place 64 \(row 8, column 0\) is outside the gr",
        ),
        ({"source": [-1]}, r"source\[0\]: place -1 .* is outside the grid of 8 x 8 places"),
        ({"destination": [(2, 9)]}, r"destination\[0\]: the place \(2, 9\) is outside the grid"),
        ({"destination": [(9, 2)]}, r"destination\[0\]: place 74 \(row 9, column 2\) is outside"),
        ({"network": [1]}, r"network\[0\]: there is no network 1; expected 0"),
        ({"bytes": [-5]}, r"bytes\[0\]: expected a number from 1 to .*, found -5"),
        ({"bytes": [0]}, r"bytes\[0\]: expected a number from 1"),
        ({"time": [-1]}, r"time\[0\]: expected a number from 0"),
        ({"bytes": [1.5]}, "bytes: expected an array of whole numbers"),
        ({"flits": [2]}, "has flits and bytes; give one of them"),
        ({"packets": [3]}, r"packets\[0\]: expected packets of equal size, found 3 for 64 bytes"),
        ({"after": [0]}, r"after\[0\]: expected the number of another transfer"),
        ({"after": [7]}, r"after\[0\]: expected the number of another transfer"),
        ({"after": ["x"]}, r"after\[0\]: expected numbers of transfers"),
        ({"delay": [3]}, "delay: has an effect only on transfers with 'after'"),
        ({"bytes": [64, 64]}, "bytes: expected one number for each of 1 transfers"),
        ({"weight": [1]}, "traffic: unknown column 'weight'; expected some of time"),
        ({"last": [0]}, r"last\[0\]: expected a place below or right of destination"),
        ({"last": [14]}, r"last\[0\]: the model link has no multicast"),
        ({"bytes": None}, "bytes: expected one value for each transfer"),
    ],
)
def test_what_does_not_fit_is_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgError, match=message):
        st.noc.simulate(_ONE | changed)


def test_transfers_that_wait_for_each_other_are_named() -> None:
    traffic = {
        "source": [0, 1, 2], "destination": [5, 6, 7], "bytes": [1, 1, 1], "after": [2, 0, [1]],
    }  # fmt: skip
    for model in ("link", "flow"):
        with pytest.raises(ArgError, match="wait for each other: 0 waits for 2 waits for 1 waits"):
            st.noc.simulate(traffic, model=model)


@pytest.mark.slow
def test_a_wait_against_the_order_of_a_source_is_named() -> None:
    # The third of a source waits for the first, which is to wait for the third.
    traffic = {
        "time": [0, 1, 2], "source": [0] * 3, "destination": [5] * 3, "bytes": [1] * 3,
        "after": [2, None, None],
    }  # fmt: skip
    assert st.noc.simulate(traffic, "mesh").arrival[0] > st.noc.simulate(traffic).arrival[2]
    with pytest.raises(ArgError, match=r"wait for each other: . waits for . waits for .* second"):
        st.noc.simulate(traffic, "mesh", model="flow")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "fast"}, "model: expected one of link, flow, npe, found 'fast'"),
        ({"step": 64}, "step: has an effect with the model npe alone, found link"),
        ({"congestion": False}, "congestion: has an effect with the model npe alone"),
        ({"memory_cycles": 5}, "memory_cycles: has no effect on network 'mesh', which has no DRAM"),
        ({"memory_cycles": -1}, "memory_cycles must be an int from 0"),
        ({"model": "npe"}, "npe needs a table of packet sizes, and network 'mesh' has none"),
    ],
)
def test_options_without_effect_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgError, match=message):
        st.noc.simulate(_ONE, **options)


def test_flits_need_a_network_of_flits() -> None:
    flits = {"source": [0], "destination": [5], "flits": [2]}
    for network, model in (("wormhole", "link"), ("mesh", "flow")):
        with pytest.raises(ArgError, match=r"is in flits, which model .* does not know"):
            st.noc.simulate(flits, network, model=model)
    alone = st.machine.Network(name="n", topology="mesh", rows=2, cols=3, flits={})
    with pytest.raises(ArgError, match=r"'n' does not state flits\.flit_bytes"):
        st.noc.simulate(_ONE, alone)
    with pytest.raises(ArgError, match="flow needs rates of bytes, and network 'n' states flits"):
        st.noc.simulate(_ONE, alone, model="flow")


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"topology": "links", "cols": 3, "links": "0>1 1>2"}, "no route to place 0 from place 1"),
        ({"topology": "links", "cols": 3, "links": "0-1"}, "no route from place 0 to place 2"),
        ({"topology": "links", "cols": 2, "links": "0-2"}, "expected places from 0 to 1, found"),
        ({"topology": "links", "cols": 2, "links": "0-1 1>0"}, "from 1 to 0 is listed twice"),
        ({"topology": "links", "cols": 2, "links": "zero"}, "expected links such as"),
        ({"topology": "links", "cols": 2}, "missing; the topology 'links' needs them"),
        ({"topology": "mesh", "cols": 2, "links": "0-1"}, "has an effect only with the topology"),
        ({"topology": "ring", "cols": 2}, "expected 3 or more places of a ring"),
        ({"topology": "ring", "cols": 4, "rows": 2}, "expected 1 with the topology 'ring'"),
        ({"topology": "mesh", "cols": 4, "routing": "one-way"}, "does not connect the places of a"),
        ({"topology": "mesh", "cols": 2, "cores": "WX"}, "expected the letters W, D, E, U, found"),
        (
            {"topology": "mesh", "cols": 3, "cores": "WW"},
            "expected 1 rows of 3 letters, found 1 ro",
        ),
        ({"topology": "mesh", "cols": 2, "flits": None}, "states flits, rates, or both; found nei"),
    ],
)
def test_a_network_that_cannot_be_is_named(network: dict[str, Any], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        st.machine.Network(**{"name": "n", "flits": {}, **network})


@pytest.mark.parametrize(
    ("packets", "message"),
    [
        ("0:0", "expected two or more pairs"),
        ("0:0 64:x", "expected two or more pairs"),
        ("0:0 64:5 64:6", "expected bytes that rise"),
        ("8:1 64:5", "expected a first pair for 0 bytes"),
        ("0:0 64:-5", "expected rates above 0"),
    ],
)
def test_a_table_of_packets_is_checked(packets: str, message: str) -> None:
    with pytest.raises(MachineError, match=message):
        st.noc.load_network("mesh", {"rates.packets": packets})


def test_unknown_networks_are_named() -> None:
    with pytest.raises(MachineError, match="unknown network 'wormhol'; did you mean 'wormhole'"):
        st.noc.simulate(_ONE, "wormhol")


def _written(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document))
    return path


_EVENT = {
    "proc": "BRISC", "noc": "NOC_1", "type": "WRITE", "sx": 1, "sy": 1, "dx": 3, "dy": 2,
    "num_bytes": 64, "timestamp": 7,
}  # fmt: skip


@pytest.mark.slow
def test_events_of_tt_npe_are_reads_and_writes(tmp_path: Path) -> None:
    state = _EVENT | {"type": "READ_SET_STATE", "noc": "NOC_0", "timestamp": 9}
    later = {**state, "type": "READ_WITH_STATE", "timestamp": 29}
    del later["dx"], later["dy"]
    many = {key: one for key, one in _EVENT.items() if key not in ("dx", "dy")} | {
        "type": "WRITE_MULTICAST", "mcast_start_x": 3, "mcast_start_y": 5, "mcast_end_x": 1,
        "mcast_end_y": 3,
    }  # fmt: skip
    barrier = {"proc": "BRISC", "type": "WRITE_BARRIER_END", "sx": 1, "sy": 1, "timestamp": 107}
    trace = st.noc.read_traces(_written(tmp_path, [_EVENT, state, later, many, barrier]))[0]
    found = trace.traffic("wormhole")
    assert (trace.first, trace.last, trace.measured_cycles) == (0, 80, 80)
    assert trace.is_read.tolist() == [False, True, False]
    assert found.source.tolist() == [11, 23, 11]
    assert found.destination.tolist() == [23, 11, 31]
    assert found.last.tolist() == [23, 11, 53]
    # The write goes 11 rows north and 8 columns west; the read is from another row and column.
    assert found.time.tolist()[:2] == [40 + 10 * (11 + 8), 22 + 270]
    run = st.noc.simulate(found, "wormhole", model="npe")
    assert trace.cycles(run) == run.cycles_of(0, 80) == 0  # all of them begin after the trace


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"type": "JUMP"}, "event 0: unknown type 'JUMP'"),
        ({"noc": "NOC_2"}, "event 0: expected noc NOC_0 or NOC_1, found 'NOC_2'"),
        ({"num_bytes": -4}, "event 0: expected a whole number 'num_bytes' from 0, found -4"),
        ({"timestamp": "now"}, "event 0: expected a whole number 'timestamp'"),
        ({"dx": None}, "event 0: expected a whole number 'dx' from 0, found None"),
        ({"noc": []}, "event 0: expected noc NOC_0 or NOC_1, found \\[\\]"),
        ({"timestamp": 10**30}, "event 0: expected a whole number 'timestamp' from 0"),
    ],
)
def test_a_wrong_event_is_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        st.noc.read_traces(_written(tmp_path, [_EVENT | changed]))


def test_a_wrong_trace_is_named(tmp_path: Path) -> None:
    for document, message in (
        ({"rows": []}, "expected a list 'events', found keys rows"),
        ({"events": [[1, 0, 0]]}, "trace 0, event 0: expected whole numbers from 0: time, kind"),
        ({"events": [[10**30, 0, 0, 0, 1, 1, 2, 2, 64]]}, "event 0: expected whole numbers from 0"),
        ({"events": [[1, 0, 0, 0, 1, 1, 2, 2, -64]]}, "event 0: expected whole numbers from 0"),
        ({"events": [], "device": "grayskull"}, "device 'grayskull' has no preset"),
        ({"events": [], "device": []}, "device \\[\\] has no preset"),
        ({"events": [], "window": 5}, "expected a first and a last cycle as 'window', found 5"),
        ({"events": [], "window": [10, 0]}, "expected a first and a last cycle as 'window'"),
        (5, "expected a list of events"),
    ):
        with pytest.raises(TraceError, match=message):
            st.noc.read_traces(_written(tmp_path, document))
    outside = st.noc.read_traces(_written(tmp_path, [_EVENT | {"dx": 12}]))[0]
    with pytest.raises(ArgError, match="is outside the grid"):
        outside.traffic("wormhole")
    with pytest.raises(TraceError, match="network 'mesh' states none; state latencies"):
        outside.traffic("mesh")


def test_deeply_nested_files_and_odd_processors_are_no_crash(tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 200_000)
    with pytest.raises(TraceError, match="expected a trace of tt-npe"):
        st.noc.read_traces(deep)
    state = {"type": "READ_SET_STATE", "proc": [], "num_bytes": 0, "timestamp": 0}
    (found,) = st.noc.read_traces(_written(tmp_path, [state, _EVENT | {"proc": []}]))
    assert len(found.traffic("wormhole")) == 1


@pytest.mark.slow
def test_traffic_of_one_grid_is_refused_on_another(tmp_path: Path) -> None:
    """Its places are numbered by the columns of its own."""
    (trace,) = st.noc.read_traces(_written(tmp_path, [_EVENT]))
    made = trace.traffic("wormhole")
    assert st.noc.simulate(made, "wormhole", model="flow").cycles > 0
    with pytest.raises(ArgError, match=r"made for a network of \d+ x \d+ places, and this one has"):
        st.noc.simulate(made, "blackhole", model="flow")


def test_a_delay_of_a_transfer_that_waits_for_none_is_refused() -> None:
    two = {"source": [0, 1], "destination": [5, 6], "bytes": [64, 64], "after": [None, 0]}
    assert st.noc.simulate(two | {"delay": [0, 5]}, "mesh").cycles > 0
    with pytest.raises(ArgError, match=r"delay\[0\]: has an effect only on transfers with 'after'"):
        st.noc.simulate(two | {"delay": [1000, 5]}, "mesh")


@pytest.mark.parametrize("link", [-1, 10**9])
def test_links_that_there_are_not_are_named(link: int) -> None:
    run = st.noc.simulate(_ONE, "mesh")
    with pytest.raises(ArgError, match="link: expected the number of a link, 0 to"):
        run.ends_of(link)
