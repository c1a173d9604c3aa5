"""Buffers of several dims, their reads, references that end, and what they leave in the arena."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from stepsim.kernels.driver import execute
from stepsim.kernels.layout import Payload, Status
from stepsim.lowering import Network, build_image
from tests.engine_backend import run_engine
from tests.oracle.build import NetBuilder
from tests.oracle.compare import assert_same
from tests.oracle.example import tile_tokens
from tests.oracle.interpreter import interpret
from tests.oracle.payloads import tile

ROW = [1, 16, 2, 0]
MATRICES = [0, 1, 0, 3, 0, 0, 1, 0, 0, 2, 0, 0, 4]


def read(levels: list[int], rank: int, repeat: list[int], capacity: int | None) -> Network:
    b = NetBuilder(capacity=capacity)
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens(ROW, levels))
    b.unit("collect", "Bufferize", ["a"], ["b"], rank=rank)
    b.unit("stream", "Streamify", ["b"], ["y"], rank=rank, repeat=repeat)
    b.unit("sink", "Consumer", ["y"], [])
    return b.network()


def both(network: Network) -> Any:
    """The engine's result, which is that of the interpreter."""
    engine = run_engine(network)
    assert_same(engine, interpret(network), accounts=True)
    return engine


def test_levels_inside_a_buffer_are_those_of_its_dims() -> None:
    """Vectors of 2, 3 and 1 tiles are as many as 3 vectors of 2."""
    result = both(read([0, 1, 0, 0, 1, 2], 2, [], None))
    assert [token[1] for token in result.tokens["y"]] == [0, 1, 0, 1, 0, 2]


@pytest.mark.parametrize("capacity", [None, 1, 3])
@pytest.mark.parametrize("repeat", [[], [1], [2], [3, 2], [2, 1, 3]])
def test_reads_of_matrices(repeat: list[int], capacity: int | None) -> None:
    result = both(read(MATRICES, 2, repeat, capacity))
    levels = [token[1] for token in result.tokens["y"]]
    assert result.status == "ok"
    assert max(levels) == 4 + len(repeat)


def dynamic(levels: list[int], reference: list[int], rr: int, late: bool) -> Network:
    b = NetBuilder()
    cells = [tile(1, cols, 2, 0, 1) for cols in (16, 32)]
    tokens = [{"buffer": [2], "tiles": cells, "level": level} for level in levels]
    b.unit("source", "Gen", [], ["b"], tokens=tokens)
    if late:
        b.late("r", tile_tokens(ROW, reference), 90)
    else:
        b.unit("reference", "Gen", [], ["r"], tokens=tile_tokens(ROW, reference))
    b.unit("stream", "DynStreamify", ["b", "r"], ["y"], rank=1, rr=rr)
    b.unit("sink", "Consumer", ["y"], [])
    return b.network()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("levels", "reference", "rr", "removed"),
    [
        ([0], [0, 0, 0], 0, 0),  # the last buffer stays
        ([0, 0], [0], 0, 0),
        ([1, 2], [0, 1, 0, 0, 2], 0, 2),
        ([1, 2], [0, 1, 2, 3], 1, 2),
        ([1, 1, 1], [0, 1, 0], 0, 3),  # what is left when the reference ends is taken
        ([2, 2], [], 1, 2),
    ],
)
def test_buffers_read_as_often_as_a_reference_says(
    levels: list[int], reference: list[int], rr: int, removed: int, late: bool
) -> None:
    result = both(dynamic(levels, reference, rr, late))
    assert result.status == "ok"
    assert result.removed["b"] == removed
    assert len(result.tokens["y"]) == 2 * len(reference)


@pytest.mark.parametrize("tiles", [1, 2, 3, 4, 7, 8, 40])
def test_a_block_is_as_long_as_its_buffer_needs(tiles: int) -> None:
    image = build_image(read(([0] * (tiles - 1) + [1]) * 3, 1, [], None))
    run = execute(image, history=True)
    channel = run.channels[image.channel_names.index("b")]
    for slot in run.slots[channel["start"] : channel["start"] + 3]:
        assert slot["kind"] == Payload.BUFFER
        header = run.slots[slot["value"]]
        assert header["rows"] == tiles
        assert 1 << header["level"] >= tiles + 1 > 1 << (header["level"] - 1)


def test_read_buffers_leave_nothing_behind() -> None:
    """Blocks that were outgrown or read are used again."""
    used = []
    for buffers in (20, 200):
        image = build_image(read(([0] * 39 + [1]) * buffers, 1, [], 2))
        run = execute(image)
        assert (run.units["state"] == Status.DONE).all()
        used.append(int(run.globals.arena_top) - len(image.slots))
    assert used[0] == used[1] < 1000


@pytest.mark.parametrize("depth", [1, 2, None])
@pytest.mark.parametrize("dims", [[1], [3], [2, 3], [1, 1]])
@pytest.mark.parametrize("repeat", [[], [1], [3]])
def test_reads_with_one_factor_are_the_same_in_both_models(
    repeat: list[int], dims: list[int], depth: int | None
) -> None:
    """The sum of the factors and their product differ only where there are several."""
    found = []
    walk = {"shape": [*repeat, *dims], "stride": [0] * len(repeat) + _strides(dims)}
    for op, params in (
        ("Streamify", {"repeat": repeat}),
        ("StaticStreamify", {"repeat": repeat}),
        ("StaticStreamify", {"repeat": [], **walk}),
    ):
        b = NetBuilder(capacity=depth)
        cells = [tile(1, 1 + i, 2, 1, 1) for i in range(prod(dims))]
        tokens = [{"buffer": dims, "tiles": cells, "level": level} for level in (0, 2, 1)]
        b.unit("source", "Gen", [], ["b"], tokens=tokens)
        b.unit("stream", op, ["b"], ["y"], rank=len(dims), **params)
        b.unit("sink", "Hold", ["y"], [], n=2)
        found.append(both(b.network()))
    for other in found[1:]:
        assert_same(found[0], other, accounts=True)


def _strides(dims: list[int]) -> list[int]:
    return [prod(dims[i + 1 :]) for i in range(len(dims))]
