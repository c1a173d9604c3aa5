"""Every refusal of the layout step, with its message."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from stepsim.errors import LoweringError, MachineError
from stepsim.graph.published_functions import ACCUMULATIONS, MAPS
from stepsim.kernels.layout import MAX_TILE_SIDE
from stepsim.lowering import (
    ChannelSpec,
    Network,
    TimingParams,
    UnitSpec,
    build_image,
    timing_of,
)
from stepsim.lowering.rows.registry import REGISTRY
from stepsim.machine import load_machine
from tests.lowering.support import TILE, load_store, one_unit, source
from tests.oracle.build import NetBuilder


def refused(network: Network) -> str:
    with pytest.raises(LoweringError) as caught:
        build_image(network)
    return str(caught.value)


@pytest.mark.parametrize("depth", [0, -1])
def test_depth(depth: int) -> None:
    assert refused(load_store(depth=depth)) == (
        f"FIFO 't' has depth {depth}; it needs at least 1 slot"
    )


def test_two_producers() -> None:
    b = NetBuilder()
    source(b, "x")
    b.unit("other", "Gen", [], ["x"], tokens=[{"tile": TILE, "level": 0}])
    b.unit("end", "Consumer", ["x"], [])
    assert refused(b.network()) == (
        "FIFO 'x' has two producers, 'src_x' and 'other'; use a Broadcast or a merge"
    )


def test_two_consumers() -> None:
    b = NetBuilder()
    source(b, "x")
    b.unit("first", "Consumer", ["x"], [])
    b.unit("second", "Consumer", ["x"], [])
    assert refused(b.network()) == (
        "FIFO 'x' has two consumers, 'first' and 'second'; use a Broadcast or a merge"
    )


def test_dangling_channels() -> None:
    b = NetBuilder()
    source(b, "x")
    assert refused(b.network()) == "FIFO 'x' has no consumer"
    b = NetBuilder()
    b.unit("end", "Consumer", ["x"], [])
    assert refused(b.network()) == "FIFO 'x' has no producer"
    unused = replace(load_store(), channels=(*load_store().channels, ChannelSpec("spare", 2)))
    assert refused(unused) == "FIFO 'spare' has no producer"


def test_names_are_unique() -> None:
    b = NetBuilder()
    for channel in "xy":
        b.unit("same", "Gen", [], [channel], tokens=[{"tile": TILE, "level": 0}])
        b.unit(f"end_{channel}", "Consumer", [channel], [])
    assert refused(b.network()) == "two units are named 'same'; names must be unique"


def test_parameters_that_records_cannot_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepsim.lowering.builder._MAX_WORDS", 5)
    assert re.fullmatch(
        r"the program needs \d+ words of parameters, at most 5 are supported; use fewer operators "
        "or shorter lists",
        refused(load_store()),
    )


def test_unknown_operator() -> None:
    assert refused(one_unit("Matmul")) == "unit 'u': unknown operator 'Matmul'"


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (3, 1), (2, 2), (2, 0)])
def test_number_of_ports(inputs: int, outputs: int) -> None:
    text = refused(one_unit("Zip", inputs, outputs))
    found = f"{inputs} inputs, expected 2" if inputs != 2 else f"{outputs} outputs, expected 1"
    assert text == f"Zip 'u': {found}"


MAP = {"fn": "Silu", "bw": 64, "wb": False}
ACCUM = {"fn": "Add", "bw": 64, "wb": False, "init": [1, 1], "bpe": 2, "rank": 1}


def test_unknown_function() -> None:
    assert refused(one_unit("Accum", **{**ACCUM, "fn": "Silu"})) == (
        "Accum 'u': unknown function 'Silu'; known are Add, Mul, RetileCol, RetileRow, "
        "SignalReqAllRead. Any other function must be given as a record"
    )
    text = refused(one_unit("BinaryMap", 2, **{**MAP, "fn": ["Power", False]}))
    assert text.startswith("BinaryMap 'u': unknown function 'Power'; known are Add, ")


THREE = {
    **MAPS["Mul"],
    "operands": 3,
    "results": [{**MAPS["Mul"]["results"][0], "rows": {"broadcast": [0, 2, 4]}}],
    "flops": [[1, [6, 7]]],
}
"""A product of three tiles."""

PARAMS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "UnaryMap": (1, 1, MAP),
    "BinaryMap": (2, 1, {**MAP, "fn": ["Mul", False]}),
    "NaryMap": (3, 1, {**MAP, "fn": THREE}),
    "Accum": (1, 1, ACCUM),
    "Scan": (1, 1, ACCUM),
    "GeneralScan": (2, 1, {**ACCUM, "exclusive": False, "second": None, "counted": True}),
    "AccumRowStat": (1, 1, {**ACCUM, "finish": MAPS["Exp"]}),
    "AccumBuffer": (1, 1, {**ACCUM, "dims": [2]}),
    "SelectorMap": (1, 1, {"fn": "Not", "width": 2, "cycles": 1, "wb": False}),
    "BinaryMapAccum": (2, 1, {**ACCUM, "fn": ["Matmul", False]}),
    "RetileStreamify": (1, 1, {"split_row": True, "filter": False}),
    "ExpertAddrGen": (1, 1, {"n": 2, "base": 0}),
    "CacheReadAddrGen": (2, 1, {"stride": 2}),
    "FlatMap": (1, 1, {"dims": ["rows"], "tile": [1, "cols"]}),
    "ExpandRef": (2, 1, {"e": 1}),
    "RepeatStatic": (1, 1, {"f": 2}),
    "Flatten": (1, 1, {"lo": 0, "hi": 1}),
    "Promote": (1, 1, {"p": 0}),
    "Reshape": (1, 1, {"s": 0, "q": 2}),
    "Partition": (2, 2, {"rank": 0, "wb": False, "switch": [1, 1]}),
    "Reassemble": (3, 1, {"rank": 0, "wb": False, "switch": [1, 1]}),
    "EagerMerge": (2, 2, {"rank": 0}),
    "Parallelize": (1, 2, {"rank": 0, "switch": [1, 1]}),
    "StaticReassemble": (2, 1, {"rank": 0, "switch": [1, 1]}),
    "RepeatRef": (2, 1, {"rank": 0, "e": 1}),
    "Shuffle": (2, 2, {"rank": 1, "width": 2, "wb": False}),
    "ReshapePadStream": (1, 2, {"s": 0, "q": 2}),
    "Bufferize": (1, 1, {"rank": 1}),
    "Streamify": (1, 1, {"rank": 1, "repeat": [2]}),
    "DynStreamify": (2, 1, {"rank": 1, "rr": 0}),
    "OffChipLoad": (0, 1, {"tile": [1, 1], "view": [2], "par": 1, "bpe": 2}),
    "DynOffChipLoad": (1, 1, {"tile": [1, 1], "view": [2], "par": 1, "bpe": 2}),
    "BypassLoad": (0, 1, {"tile": [1, 1], "view": [2], "bpe": 2}),
    "DynBypassLoad": (1, 1, {"tile": [1, 1], "view": [2], "bpe": 2}),
    "StaticStreamify": (1, 1, {"rank": 1, "repeat": [2, 2]}),
    "Counter": (0, 1, {"n": 2}),
    "DynCounter": (1, 1, {"n": 2}),
    "DynAddrGen": (1, 1, {"shape": [2], "stride": [1], "slab": 4, "base": 0}),
    "RandomOffChipLoad": (1, 1, {"tile": [1, 1], "par": 1, "bpe": 2}),
    "OffChipStore": (1, 0, {"tile": [1, 1], "par": 1}),
    "RandomOffChipStore": (2, 1, {"tile": [1, 1], "par": 1, "ack_addr": False}),
    "Gen": (0, 1, {"tokens": []}),
    "Src": (0, 1, {"tokens": [], "n": 1}),
    "At": (0, 1, {"tokens": [], "times": []}),
    "SelectGen": (0, 1, {"selectors": [], "levels": [], "width": 2}),
    "MetadataGen": (0, 1, {"values": [1], "dims": [1]}),
}
CASES = [(op, name) for op, (_, _, params) in PARAMS.items() for name in params]


def test_the_parameters_above_are_accepted() -> None:
    for op, (inputs, outputs, params) in PARAMS.items():
        build_image(one_unit(op, inputs, outputs, **params))
    free = {"Consumer", "Printer", "Hold", "Zip", "Broadcast", "FilterLastTile", "Paced"}
    free |= {"FlatmapCounter"}
    free |= {"PromoteOuter", "TakeLast", "ContextDeinterleave", "ContextInterleave"}
    free |= {"FlatmapFilterRowStreamify"}
    free |= {"SendPacket", "MulticastPacket", "ReceivePacket"}  # of networks with a carriage
    free |= {"SendMessage", "ReceiveMessage"}  # of networks on several chips
    assert set(REGISTRY) == set(PARAMS) | free


@pytest.mark.parametrize(("op", "name"), CASES)
def test_missing_parameter(op: str, name: str) -> None:
    inputs, outputs, params = PARAMS[op]
    text = refused(one_unit(op, inputs, outputs, drop=name, **params))
    assert text == f"{op} 'u': parameter '{name}' is missing"


@pytest.mark.parametrize("side", [MAX_TILE_SIDE + 1, -1])
@pytest.mark.parametrize("turned", [False, True])
def test_tile_sides(side: int, turned: bool) -> None:
    tile = [1, side] if turned else [side, 1]
    shown = f"{tile[0]}x{tile[1]}"
    problem = f"a tile of {shown} does not fit; sides up to 1048576 are supported; split the tile"
    inputs, outputs, params = PARAMS["OffChipLoad"]
    load = one_unit("OffChipLoad", inputs, outputs, **{**params, "tile": tile})
    assert refused(load) == f"OffChipLoad 'u': {problem}"
    b = NetBuilder()
    source(b, "x", [*tile, 2, 0, 0])
    b.unit("end", "Consumer", ["x"], [])
    assert refused(b.network()) == f"Gen 'src_x': {problem} (row 0 of the tokens)"
    init = one_unit("Accum", **{**ACCUM, "init": tile})
    assert refused(init) == f"Accum 'u': {problem}"


def test_the_largest_tile_fits() -> None:
    inputs, outputs, params = PARAMS["OffChipLoad"]
    tile = [MAX_TILE_SIDE, MAX_TILE_SIDE]
    build_image(one_unit("OffChipLoad", inputs, outputs, **{**params, "tile": tile}))


@pytest.mark.parametrize("bpe", [0, 0.25, 1.5, 1025])
def test_bytes_per_element(bpe: float) -> None:
    text = refused(one_unit("Accum", **{**ACCUM, "bpe": bpe}))
    assert text == f"Accum 'u': {bpe} bytes per element, expected 0.5 or 1..1024"


def test_large_parameters() -> None:
    text = refused(one_unit("ExpertAddrGen", n=2, base=1 << 53))
    assert text == f"ExpertAddrGen 'u': parameter {1 << 53} is too large"


def test_negative_parameters() -> None:
    text = refused(one_unit("Hold", outputs=0, n=-15))
    assert text == "Hold 'u': parameter -15 is negative"


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ({"tile": [4, 4, 2, 0, 5]}, "valid rows of a tile is 5; expected 0..4"),
        ({"tile": [4, 4, 2, 0, -1]}, "valid rows of a tile is -1; expected 0..4"),
        ({"tile": [4, 4, 2, 0, 4], "level": 70000}, "stop level of a token is 70000; expected"),
        ({"tile": [1, 1, 8, 0, 1], "value": 1 << 63}, f"value of a token is {1 << 63}; expected"),
    ],
)
def test_tokens_that_do_not_fit(token: dict[str, object], expected: str) -> None:
    assert f"Gen 'u': {expected}" in refused(one_unit("Gen", inputs=0, tokens=[token]))


def test_more_pieces_than_can_be_counted() -> None:
    dims = ["rows", 1 << 31, 1 << 31]
    assert "up to" in refused(one_unit("FlatMap", dims=dims, tile=[1, 1], cycles=0))
    build_image(one_unit("ExpertAddrGen", n=2, base=(1 << 53) - 1))


@pytest.mark.parametrize(
    "op", ["OffChipLoad", "DynOffChipLoad", "RandomOffChipLoad", "OffChipStore",
           "RandomOffChipStore"],
)  # fmt: skip
@pytest.mark.parametrize("par", [0, -4])
def test_requests_per_cycle(op: str, par: int) -> None:
    inputs, outputs, params = PARAMS[op]
    text = refused(one_unit(op, inputs, outputs, **{**params, "par": par}))
    assert text == f"{op} 'u': par_dispatch is {par}; expected at least 1 request per cycle"


@pytest.mark.parametrize("op", ["UnaryMap", "BinaryMap", "Accum", "Scan", "BinaryMapAccum"])
@pytest.mark.parametrize("bw", [0, -1])
def test_compute_bandwidth(op: str, bw: int) -> None:
    inputs, outputs, params = PARAMS[op]
    text = refused(one_unit(op, inputs, outputs, **{**params, "bw": bw}))
    assert re.fullmatch(
        rf"{op} 'u': compute bandwidth is {bw} FLOPs per cycle; function \w+ needs at least 1", text
    )


@pytest.mark.parametrize("fn", ["RetileRow", "RetileCol", "SignalReqAllRead"])
def test_functions_of_constant_cycles_need_no_bandwidth(fn: str) -> None:
    build_image(one_unit("Accum", **{**ACCUM, "fn": fn, "bw": 0}))


@pytest.mark.parametrize("chosen", [[2], [-1], [0, 5]])
def test_selector_outside_its_width(chosen: list[int]) -> None:
    network = one_unit("SelectGen", 0, 1, selectors=[chosen], levels=[0], width=2)
    assert refused(network) == f"selector {chosen} does not fit a width of 2 (row 0 of the tokens)"


@pytest.mark.parametrize("costs", [[], [1], [1, 1, 1]])
@pytest.mark.parametrize("op", ["Partition", "Reassemble", "Parallelize"])
def test_switch_costs(op: str, costs: list[int]) -> None:
    inputs, outputs, params = PARAMS[op]
    text = refused(one_unit(op, inputs, outputs, **{**params, "switch": costs}))
    assert text == f"{op} 'u': {len(costs)} switch costs, expected 2"


@pytest.mark.parametrize(
    ("op", "changed", "problem"),
    [
        ("Accum", {"rank": 0}, "rank is 0, expected at least 1"),
        ("Scan", {"rank": 0}, "rank is 0, expected at least 1"),
        ("Bufferize", {"rank": 0}, "rank is 0, expected at least 1"),
        ("Streamify", {"rank": 0}, "rank is 0, expected at least 1"),
        ("StaticStreamify", {"rank": 0}, "rank is 0, expected at least 1"),
        ("DynStreamify", {"rank": 0}, "rank is 0, expected at least 1"),
        (
            "StaticStreamify", {"repeat": [2, 0]},
            "repeats of [2, 0]; expected factors from 1, and fewer than 2**62 reads",
        ),
        (
            "StaticStreamify", {"repeat": [2**31, 2**31]},
            f"repeats of {[2**31, 2**31]}; expected factors from 1, and fewer than 2**62 reads",
        ),
        ("DynStreamify", {"shape": [2]}, "0 strides for 1 dims; give one each"),
        (
            "DynStreamify", {"shape": [0], "stride": [1]},
            "a walk over [0] with strides [1]; expected dims from 1, and fewer than 2**62 tiles",
        ),
        (
            "DynAddrGen", {"shape": [3], "stride": [2**61]},
            f"a walk over [3] with strides [{2**61}]; expected dims from 1, and fewer than 2**62 "
            "tiles",
        ),
        (
            "DynAddrGen", {"shape": [], "stride": []},
            "a view of [] in slabs of 4 tiles; expected one dim or more, and a tile or more",
        ),
        (
            "DynAddrGen", {"slab": 0},
            "a view of [2] in slabs of 0 tiles; expected one dim or more, and a tile or more",
        ),
        ("Counter", {"n": 0}, "it counts to 0, expected at least 1"),
        (
            "OffChipLoad", {"trigger_rank": 1},
            "trigger_rank is 1, there is no reference to trigger",
        ),
        ("GeneralScan", {"counted": False}, "2 inputs, expected 1"),
        (
            "GeneralScan", {"counted": False, "second": MAPS["Exp"]},
            "its second function takes 1 operands, expected 2 or more: an element and the states",
        ),
        (
            "GeneralScan", {"counted": False, "second": ACCUMULATIONS["Add"]},
            "its second function has 1 states, expected none",
        ),
        (
            "AccumRowStat", {"finish": MAPS["Mul"]},
            "its last step takes 2 operands, expected the 1 states",
        ),
        ("AccumBuffer", {"dims": []}, "buffer dims [], expected at least one, each from 1"),
        ("AccumBuffer", {"dims": [2, 0]}, "buffer dims [2, 0], expected at least one, each from 1"),
        (
            "SelectorMap", {"fn": "Nor"},
            "unknown function 'Nor'; known are And, IndexToMultiHot, IntegerToMultiHot, "
            "MultiHotToInteger, Not, Or, SelectToScalar, Xor",
        ),
        ("SelectorMap", {"fn": "And"}, "1 inputs, expected 2"),
        ("SelectorMap", {"width": 13}, "selectors of 13 flags, expected 1..12"),
        (
            "SelectorMap", {"fn": "MultiHotToInteger", "width": 63},
            "selectors of 63 flags, expected 1..62",
        ),
        ("SelectorMap", {"fn": "SelectToScalar", "width": 0},
         "selectors of 0 flags, expected 1..32768"),
        ("EagerMerge", {"rank": -1}, "rank is -1, expected at least 0"),
        ("Partition", {"rank": -1}, "rank is -1, expected at least 0"),
        ("RepeatStatic", {"f": 0}, "factor is 0, expected at least 1"),
        ("Flatten", {"lo": 1, "hi": 1}, "dims 1..1, expected 0 <= lo < hi"),
        ("Flatten", {"lo": -1}, "dims -1..1, expected 0 <= lo < hi"),
        ("Reshape", {"q": 0}, "chunk is 0, expected at least 1"),
        ("MetadataGen", {"dims": [2]}, "1 values do not fill dims [2]"),
        ("Gen", {"tokens": [{"level": 1}]}, "unknown token {'level': 1} (row 0 of the tokens)"),
    ],
)  # fmt: skip
def test_values_out_of_range(op: str, changed: dict[str, Any], problem: str) -> None:
    inputs, outputs, params = PARAMS[op]
    text = refused(one_unit(op, inputs, outputs, **{**params, **changed}))
    assert text == f"{op} 'u': {problem}"


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("publisched", "; did you mean 'published'?"),
        ("flash", "."),
        ("channel", "; 'channel' is named 'published' now."),
    ],
)
def test_machine_with_an_unknown_memory_model(model: str, hint: str) -> None:
    machine = load_machine("sda-1024", overrides={"hbm.model": model})
    with pytest.raises(MachineError) as caught:
        timing_of(machine)
    assert str(caught.value) == (
        f"machine '{machine.name}': hbm.model is '{model}', expected one of "
        f"interleaved, published, uncontended, dram{hint} A package adds models under the entry "
        "points 'stepsim.memory_models'"
    )


def test_a_memory_with_addresses_needs_them() -> None:
    assert refused(load_store(TimingParams(memory_model="dram"))) == (
        "OffChipLoad 'load': memory model 'dram' needs an address for each of its tiles; the "
        "network gives none"
    )


def test_unknown_memory_model() -> None:
    assert refused(load_store(TimingParams(memory_model="flash"))) == (
        "unknown memory model 'flash'; known are interleaved, published, uncontended, dram"
    )


@pytest.mark.parametrize("index", [3, -1])
def test_a_channel_index_that_does_not_exist(index: int) -> None:
    units = (UnitSpec("end", "Consumer", (index,), ()),)
    assert refused(Network(units, (ChannelSpec("x", 2),))) == (
        f"Consumer 'end': there is no FIFO {index}; the network has 1, numbered from 0"
    )


@pytest.mark.parametrize("op", ["At", "Paced"])
@pytest.mark.parametrize("times", [[1], [1, 2, 3]])
def test_one_time_per_token(op: str, times: list[int]) -> None:
    tokens = [{"tile": TILE, "level": 0}] * 2
    text = refused(one_unit(op, 0, 1, tokens=tokens, times=times))
    assert text == f"{op} 'u': {len(times)} times for 2 tokens"


def test_one_level_per_selector() -> None:
    network = one_unit("SelectGen", 0, 1, selectors=[[0], [1]], levels=[0], width=2)
    assert refused(network) == "SelectGen 'u': 1 levels for 2 selectors"


@pytest.mark.parametrize(
    ("op", "ports", "changed", "expected"),
    [
        ("RetileStreamify", (1, 1), {"chunk": 0}, "chunk is 0, expected at least 1"),
        ("RepeatStatic", (1, 1), {"f": [2, 0]}, "factor is 0, expected at least 1"),
        ("RepeatStatic", (1, 1), {"f": [2**31] * 2}, "copies per token; fewer than 2**62"),
        ("StaticReassemble", (2, 1), {"rank": -1}, "rank is -1, expected at least 0"),
        ("StaticReassemble", (2, 1), {"switch": [1]}, "1 switch costs, expected 2"),
        ("RepeatRef", (2, 1), {"e": 0}, "e is 0, expected at least 1"),
        ("Shuffle", (2, 2), {"rank": 0}, "rank is 0, expected at least 1"),
        ("Reshape", (1, 2), {}, "2 outputs, expected 1"),
        ("ReshapePadStream", (1, 1), {}, "1 outputs, expected 2"),
        ("FlatMap", (2, 1), {}, "2 inputs, expected 1"),
        ("FlatMap", (1, 1), {"dims": ["length"]}, "1 inputs, expected 2"),
    ],
)
def test_what_the_units_of_2026_refuse(
    op: str, ports: tuple[int, int], changed: dict[str, Any], expected: str
) -> None:
    found = refused(one_unit(op, *ports, **{**PARAMS[op][2], **changed}))
    assert found.startswith(f"{op} 'u': ")
    assert expected in found


def test_a_row_filter_takes_one_mask() -> None:
    assert "3 inputs, expected 1 or 2" in refused(one_unit("FlatmapFilterRowStreamify", 3))
