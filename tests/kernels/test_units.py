"""Single units against the interpreter where random networks seldom lead."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stepsim.kernels.driver import execute
from stepsim.lowering import Network, TimingParams, build_image
from tests.engine_backend import to_result
from tests.oracle.build import NetBuilder
from tests.oracle.compare import assert_same
from tests.oracle.example import tile_tokens
from tests.oracle.interpreter import interpret
from tests.oracle.invariants import check_all
from tests.oracle.payloads import integer, selector

ROW = [1, 16, 2, 0]


def numbers(*values: int, level: int = 0) -> list[dict[str, Any]]:
    return [{**integer(value), "level": level} for value in values]


def agrees(network: Network) -> Any:
    """The execution of a network that ends as the interpreter says."""
    image = build_image(network)
    run = execute(image, history=True)
    result, expected = to_result(image, run), interpret(network)
    assert result.status == "ok"
    assert_same(result, expected, accounts=True)
    check_all(network, result)
    return run


REDUCED: dict[str, Any] = {"rank": 1, "bpe": 2}
MATMUL = ["Matmul", True]
ROOFLINES: list[tuple[str, int, dict[str, Any]]] = [
    ("UnaryMap", 1, {"fn": "Silu"}),
    ("UnaryMap", 2, {"fn": ["Mul"]}),
    ("BinaryMap", 2, {"fn": ["Mul"]}),
    ("BinaryMapAccum", 2, {"fn": MATMUL, "init": [16, 16], **REDUCED}),
    ("Accum", 1, {"fn": "Add", "init": [16, 64], **REDUCED}),
    ("Accum", 1, {"fn": "RetileRow", "init": [0, 64], **REDUCED}),
    ("Scan", 1, {"fn": "RetileRow", "init": [0, 64], **REDUCED}),
]


@pytest.mark.parametrize("wb", [False, True])
@pytest.mark.parametrize("rd", [0, 1])
@pytest.mark.parametrize("bw", [4, 1024, 1 << 20])
@pytest.mark.parametrize(("op", "inputs", "params"), ROOFLINES)
def test_load_compute_or_store_takes_longest(
    op: str, inputs: int, params: dict[str, Any], bw: int, rd: int, wb: bool
) -> None:
    b = NetBuilder(capacity=1 if rd else None)
    names = [f"in{i}" for i in range(inputs)]
    for name in names:
        b.channel(name, None)  # all tokens are there before there is room for the second result
        tokens = tile_tokens([16, 64, 2, rd], [0, 1, 0, 0, 2])
        b.unit(f"source {name}", "Gen", [], [name], tokens=tokens)
    if op == "UnaryMap" and inputs == 2:
        b.unit("pairs", "Zip", names, ["pairs"])
        names = ["pairs"]
    b.unit("unit", op, names, ["out"], bw=bw, wb=wb, **params)
    b.unit("sink", "Hold", ["out"], [], n=60 if rd else 1)
    agrees(b.network())


@pytest.mark.parametrize("wb", [False, True])
@pytest.mark.parametrize("rd", [0, 1])
@pytest.mark.parametrize("rank", [0, 1])
def test_routing_loads_switches_and_stores(rank: int, rd: int, wb: bool) -> None:
    """Selectors of 200 entries take 4 cycles to load."""
    width, b = 200, NetBuilder()
    switch = [i % 7 for i in range(width)]
    sets = [[3, 6], [1], [13], [6, 150]]
    chunk = [rank] if rank == 0 else [0, rank]
    data = tile_tokens([4, 64, 2, rd], chunk * len(sets))
    b.unit("data", "Gen", [], ["a"], tokens=data)
    for name in "st":
        tokens = [{**selector(chosen, width, rd), "level": 0} for chosen in sets]
        b.unit(f"choice {name}", "Gen", [], [name], tokens=tokens)
    lanes = [f"lane{i}" for i in range(width)]
    params = {"rank": rank, "switch": switch, "wb": wb}
    b.unit("split", "Partition", ["a", "s"], lanes, **params)
    b.unit("join", "Reassemble", [*lanes, "t"], ["y"], **params)
    b.unit("sink", "Consumer", ["y"], [])
    agrees(b.network())


@pytest.mark.parametrize(
    ("rank", "levels", "selectors", "expected"),
    [
        (1, [0, 1, 0, 0, 3, 2], [0, 2, 1], [0, 1, 0, 0, 1, 1]),
        (2, [0, 1, 0, 2, 0, 2], [0, 0], [0, 1, 0, 2, 0, 2]),
        (0, [0, 2, 0], [0, 2, 0], [0, 0, 0]),
    ],
)
def test_chunks_lose_the_levels_of_their_selectors(
    rank: int, levels: list[int], selectors: list[int], expected: list[int]
) -> None:
    b = NetBuilder()
    b.unit("data", "Gen", [], ["a"], tokens=tile_tokens(ROW, levels))
    tokens = [{**selector([0], 1), "level": level} for level in selectors]
    b.unit("choice", "Gen", [], ["s"], tokens=tokens)
    b.unit("split", "Partition", ["a", "s"], ["y"], rank=rank, switch=[1], wb=False)
    b.unit("sink", "Consumer", ["y"], [])
    network = b.network()
    agrees(network)
    assert [token.level for token in interpret(network).tokens["y"]] == expected


@pytest.mark.parametrize("seed", range(30))
def test_chunks_are_joined_by_arrival(seed: int) -> None:
    chance = random.Random(seed)
    inputs, turns, rank = chance.randint(2, 6), chance.randint(1, 4), seed % 2
    sets = [chance.sample(range(inputs), chance.randint(1, inputs)) for _ in range(turns)]
    b = NetBuilder(capacity=chance.choice([None, 1, 2]))
    for i in range(inputs):
        levels = ([0] * (chance.randint(0, 2) if rank else 0) + [rank]) * sum(
            i in chosen for chosen in sets
        )
        times = sorted(chance.randint(0, 12) for _ in levels)
        op = chance.choice(["At", "Paced"])
        b.unit(
            f"source {i}", op, [], [f"in{i}"], tokens=tile_tokens([1, 64, 2, seed % 3], levels),
            times=times, tail=0,
        )  # fmt: skip
    tokens = [{**selector(chosen, inputs), "level": chance.choice([0, 1])} for chosen in sets]
    b.unit("choice", "Gen", [], ["s"], tokens=tokens)
    switch = [chance.choice([1, 0, 3]) for _ in range(inputs)]
    names = [f"in{i}" for i in range(inputs)]
    b.unit("join", "Reassemble", [*names, "s"], ["y"], rank=rank, switch=switch, wb=False)
    b.unit("sink", "Consumer", ["y"], [])
    agrees(b.network())


PAIRS: list[tuple[str, dict[str, Any]]] = [
    ("BinaryMap", {"fn": ["Mul"], "bw": 64, "wb": False}),
    ("BinaryMapAccum", {"fn": MATMUL, "bw": 64, "wb": False, "init": [1, 1], **REDUCED}),
    ("Zip", {}),
    ("ExpandRef", {"e": 1}),
    ("RandomOffChipStore", {"tile": [1, 16], "par": 1, "bpe": 2, "ack_addr": False}),
]


@pytest.mark.parametrize("late", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize(("op", "params"), PAIRS)
def test_a_pair_of_inputs_ends_late(
    op: str, params: dict[str, Any], count: int, late: tuple[int, ...]
) -> None:
    b = NetBuilder()
    for i in (0, 1):
        # Expanded data of rank 0 is one token.
        tokens = tile_tokens(ROW, [0] * (min(count, 1) if op == "ExpandRef" and i == 0 else count))
        if i in late:
            b.late(f"in{i}", tokens, 40 + 30 * i)
        else:
            b.unit(f"source {i}", "Gen", [], [f"in{i}"], tokens=tokens)
    b.unit("unit", op, ["in0", "in1"], ["out"], **params)
    b.unit("sink", "Consumer", ["out"], [])
    agrees(b.network())


@pytest.mark.parametrize("ends", [(40, 0), (0, 40), (40, 70), (70, 40)])
def test_rows_and_lengths_end_late(ends: tuple[int, int]) -> None:
    b = NetBuilder()
    for i, end in enumerate(ends):
        b.late(f"in{i}", [], end)
    b.unit("unit", "CacheReadAddrGen", ["in0", "in1"], ["out"], stride=2)
    b.unit("sink", "Consumer", ["out"], [])
    agrees(b.network())


@pytest.mark.parametrize("bpe", [0.5, 2, 4])
@pytest.mark.parametrize("tile", [[3, 33], [1, 1], [0, 32]])
@pytest.mark.parametrize("request_bytes", [32, 64])
def test_requests_and_bytes_of_accesses(tile: list[int], bpe: float, request_bytes: int) -> None:
    b = NetBuilder(TimingParams(request_bytes=request_bytes))
    rows, cols = tile
    shape = {"tile": tile, "par": 2}
    b.unit("load", "OffChipLoad", [], ["x"], view=[2, 3], bpe=bpe, **shape)
    b.unit("reference", "Gen", [], ["r"], tokens=tile_tokens(ROW, [0, 1]))
    b.unit("again", "DynOffChipLoad", ["r"], ["y"], view=[2], bpe=bpe, **shape)
    b.unit("store", "OffChipStore", ["x"], [], **shape)
    b.unit("address", "Gen", [], ["a"], tokens=numbers(1, 2, 3))
    b.unit("random", "RandomOffChipLoad", ["a"], ["z"], bpe=bpe, **shape)
    tokens = tile_tokens([rows, cols, bpe, 0], [0, 1])
    b.unit("data", "Gen", [], ["d"], tokens=tokens)
    b.unit("where", "Gen", [], ["w"], tokens=numbers(1, 2))
    b.unit("scatter", "RandomOffChipStore", ["w", "d"], ["k"], bpe=bpe, ack_addr=False, **shape)
    for name in "yzk":
        b.unit(f"sink {name}", "Consumer", [name], [])
    network = b.network()
    run = agrees(network)
    accesses = {"load": 6, "again": 4, "store": 6, "random": 3, "scatter": 2}
    if rows == 0:
        return  # nothing is asked for
    requests = rows * -(-cols * bpe // request_bytes)
    for spec, unit in zip(network.units, run.units, strict=True):
        count = accesses.get(spec.name, 0)
        assert unit["requests"] == count * requests, spec.name
        assert unit["traffic"] == count * -(-rows * cols * bpe // 1), spec.name


def test_a_bucket_goes_on_where_its_output_was_full() -> None:
    """The selector of a bucket is sent once, however often the items behind it have to wait."""
    b = NetBuilder(capacity=1)
    b.unit("data", "Gen", [], ["x"], tokens=tile_tokens([1, 16, 2, 0], [0, 0, 0, 1]))
    sets = [[0], [0, 1], [0], [1]]
    tokens = [{**selector(chosen, 2), "level": i // 3} for i, chosen in enumerate(sets)]
    b.unit("choice", "Gen", [], ["s"], tokens=tokens)
    b.unit("shuffle", "Shuffle", ["x", "s"], ["y", "m"], rank=1, width=2, wb=False)
    b.unit("sink", "Hold", ["y"], [], n=30)
    b.unit("marks", "Consumer", ["m"], [])
    network = b.network()
    agrees(network)
    assert [len(interpret(network).tokens[name]) for name in "my"] == [2, 5]


@pytest.mark.parametrize("bw", [1, 1024])
def test_flops_of_equal_elements_add_up(bw: int) -> None:
    b = NetBuilder()
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([16, 64, 2, 0], [0, 0, 0, 0, 1]))
    b.unit("sum", "Accum", ["x"], ["y"], fn="Add", init=[16, 64], bw=bw, wb=False, **REDUCED)
    b.unit("sink", "Consumer", ["y"], [])
    assert agrees(b.network()).units[1]["flops"] == 5 * 16 * 64


def test_places_that_grow_load_what_they_hold() -> None:
    """A place is loaded as it was before the firing, and stored as it is then."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([1, 64, 2, 1], [0, 0, 0, 1]))
    b.unit(
        "rows", "AccumBuffer", ["x"], ["y"], fn="RetileRow", init=[0, 64], bw=64, wb=False,
        dims=[1], **REDUCED,
    )  # fmt: skip
    b.unit("sink", "Consumer", ["y"], [])
    agrees(b.network())
