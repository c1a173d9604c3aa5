"""Converters as operators of a program: order of tokens, memory and interval (feature F4)."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, strategies as some

import stepsim as st
from stepsim.design.dataflow.buffer_walks import tile_of
from stepsim.design.programs.streams import converted, regrouped
from stepsim.itensor import Converter, ITensor, converter
from stepsim.simulation import run_functional
from tests.property_profile import profile


def tiled(
    shape: tuple[int, ...], element: tuple[int, ...], order: tuple[int, ...], dtype: str = "f32"
) -> ITensor:
    """A tensor in tiles, with one loop for each axis, in the order given."""
    loops = [(axis, shape[axis] // element[axis], element[axis]) for axis in order]
    return ITensor.of_loops(shape, loops, element, dtype)


def tokens_of(array: np.ndarray[Any, Any], stream: ITensor) -> np.ndarray[Any, Any]:
    """The tensor as the tokens of a stream, by numpy alone."""
    tiles = [
        array[tuple(slice(o, o + e) for o, e in zip(offset, stream.element, strict=True))]
        for offset in stream.offsets()
    ]
    return np.stack([tile.reshape(tile_of(stream.element)) for tile in tiles])


def program_of_converter(array: Any, by: Converter) -> tuple[st.Program, Any]:
    tokens = tokens_of(array, by.src).astype(np.float32)
    rows, cols = tile_of(by.src.element)
    with st.Program("converter") as program:
        stored = tokens.reshape(-1, cols)
        x = st.linear_load(stored, (rows, cols), bypass=True).flatten(0, 1)
        y = converted(x, by, "converter")
        y.consume()
    return program, y


def nests(draw: Any, shape: tuple[int, ...], element: tuple[int, ...]) -> ITensor:
    """A perfect tiling, each dim in one loop or two, in a random order, without revisits."""
    loops: list[tuple[int | None, int, int]] = []
    for axis, (size, e) in enumerate(zip(shape, element, strict=True)):
        turns = size // e
        inner = draw(some.sampled_from([n for n in range(1, turns + 1) if turns % n == 0]))
        loops += [(axis, turns // inner, e * inner), (axis, inner, e)]
    # The outer loop of a dim stands before its inner one or behind: both tile it.
    return ITensor.of_loops(shape, draw(some.permutations(loops)), element, "f32")


@some.composite
def pairs(draw: Any) -> tuple[ITensor, ITensor]:
    rank = draw(some.integers(1, 3))
    sizes = some.sampled_from([1, 2, 3, 4, 6, 8, 12])
    shape = tuple(draw(sizes) for _ in range(rank))

    def element() -> tuple[int, ...]:
        divisors = [[n for n in range(1, size + 1) if size % n == 0] for size in shape]
        own = [draw(some.sampled_from(found)) for found in divisors]
        return (*([1] * (rank - 2) if rank > 2 else []), *own[-2:])[-rank:]

    src = nests(draw, shape, element())
    dst = nests(draw, shape, element())
    again = draw(some.integers(1, 3))
    place = draw(some.integers(0, len(dst.loops)))
    loops = [(loop.dim, loop.trip, max(loop.stride)) for loop in dst.loops]
    loops.insert(place, (None, again, 1))
    return src, ITensor.of_loops(shape, loops, dst.element, "f32")


@pytest.mark.slow
@profile(100)
@given(pairs(), some.sampled_from([1, 2]))
def test_output_is_the_retiled_tensor(
    pair: tuple[ITensor, ITensor], buffers: Literal[1, 2]
) -> None:
    src, dst = pair
    array = np.arange(prod(src.shape), dtype=np.float32).reshape(src.shape)
    by = replace(converter(src, dst), buffers=buffers)
    program, y = program_of_converter(array, by)
    found = np.stack([token.payload.data for token in run_functional(program).stream(y)])
    np.testing.assert_array_equal(found, tokens_of(array, dst))


ROWS_TWICE = ITensor.of_loops(
    (64, 64), [(0, 4, 16), (None, 3, 1), (1, 4, 16)], (16, 16), "f32"
)  # fmt: skip


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize(
    ("src", "dst", "chunk"),
    [
        (tiled((64, 64), (16, 16), (0, 1)), ROWS_TWICE, (16, 64)),
        (tiled((64, 64), (16, 16), (0, 1)), tiled((64, 64), (16, 16), (1, 0)), (64, 64)),
        (tiled((64, 64), (16, 16), (0, 1)), tiled((64, 64), (32, 16), (0, 1)), (32, 64)),
    ],
)
def test_memory_is_the_chunks_and_a_token(
    src: ITensor, dst: ITensor, chunk: tuple[int, int], buffers: Literal[1, 2]
) -> None:
    by = replace(converter(src, dst), buffers=buffers)
    assert by.chunk == chunk
    assert by.bytes == buffers * 4 * prod(chunk)
    program, _ = program_of_converter(np.zeros(src.shape), by)
    held = [
        int(row.on_chip_memory)
        for row in program.metrics().table()
        if row.operator.name == "bufferize"
    ]
    rows, cols = (np.gcd(a, b) for a, b in zip(src.element, dst.element, strict=True))
    assert held == [by.bytes + 4 * rows * cols]


def paced(
    src: ITensor,
    dst: ITensor,
    fill: int,
    drain: int,
    buffers: Literal[1, 2] = 2,
    depth: int = 2,
) -> st.Result:
    """A run with a producer and a consumer that take so many cycles for a token."""
    wait = st.function("wait", "m n -> m n", 0, fill, lambda x: x)
    use = st.function("use", "m n -> m n", 0, drain, lambda x: x)
    with st.Program("paced") as program:
        rows, cols = src.element
        x = st.linear_load(
            st.spec(src.tokens * rows, cols, dtype="f32"), (rows, cols), bypass=True
        ).flatten(0, 1)
        by = replace(converter(src, dst), buffers=buffers)
        y = converted(st.map(wait, x), by, "converter")
        st.map(use, y).consume()
    result = st.simulate(program, fifo_depth=depth, record=True)
    assert result.status == "ok"
    return result


def rows_again(turns: int, columns: int = 4, again: int = 3) -> tuple[ITensor, ITensor]:
    """The columns of a row fill a chunk, which is drained several times, and so often."""
    src = tiled((turns, columns), (1, 1), (0, 1))
    loops = [(0, turns, 1), (None, again, 1), (1, columns, 1)]
    return src, ITensor.of_loops((turns, columns), loops, (1, 1), "f32")


HOPS = 13
"""Cycles that the signal of the last read takes back to the tiles that wait for it, at most."""


PACES = [(5, 3), (9, 2), (3, 3), (2, 4), (7, 1)]


def interval(
    fill: int,
    drain: int,
    buffers: Literal[1, 2],
    columns: int = 4,
    again: int = 3,
    depth: int = 2,
) -> float:
    """Cycles that a turn of the shared loop adds."""
    short, long = (
        paced(*rows_again(n, columns, again), fill, drain, buffers, depth).cycles for n in (20, 40)
    )
    return (long - short) / 20


@pytest.mark.parametrize(("fill", "drain"), PACES)
def test_interval_is_the_longer_of_fill_and_drain(fill: int, drain: int) -> None:
    hops = 3
    expected = max(4 * fill, 12 * drain)
    assert expected <= interval(fill, drain, 2) <= expected + hops


@pytest.mark.parametrize(("fill", "drain"), PACES)
def test_interval_of_one_buffer_is_fill_and_drain(fill: int, drain: int) -> None:
    """But for tiles that wait in the FIFOs before it and behind it, whose pace hides them."""
    found, expected = interval(fill, drain, 1, 40), 40 * fill + 120 * drain
    assert expected - 8 * fill - 4 * drain <= found <= expected + HOPS


@pytest.mark.parametrize(("columns", "again"), [(4, 2), (8, 2), (8, 5), (20, 3)])
def test_interval_at_the_rate_of_the_buffer(columns: int, again: int) -> None:
    """A tile a cycle into the buffer and out of it: nothing beside it makes up for anything."""
    fill, drain = columns, again * columns
    two, one = (interval(1, 1, buffers, columns, again, depth=4) for buffers in (2, 1))
    assert max(fill, drain) <= two <= max(fill, drain) + 3
    assert fill + drain <= one <= fill + drain + HOPS


def test_buffers_that_are_held_at_a_time() -> None:
    """From the first tile to the last read, as recorded: two overlap, one alone never does.

    One alone is filled again as soon as the signal of its last read has gone round.
    """
    for buffers in (1, 2):
        events = paced(*rows_again(10), 5, 3, buffers).events
        held = events.buffers[np.argsort(events.buffers["begin"])]
        assert len(held) == 10
        overlap = held["begin"][1:] < held["end"][:-1]
        assert overlap.all() if buffers == 2 else not overlap.any()
        if buffers == 1:
            assert (held["begin"][1:] - held["end"][:-1]).max() <= HOPS
        assert not np.any(held["begin"][2:] < held["end"][:-2])


def test_a_buffer_that_is_filled_once_costs_no_cycle() -> None:
    src, dst = tiled((8, 8), (1, 1), (0, 1)), tiled((8, 8), (1, 1), (1, 0))
    assert paced(src, dst, 5, 3, 1).cycles == paced(src, dst, 5, 3, 2).cycles


def test_buffers_are_one_or_two() -> None:
    with pytest.raises(st.errors.ITensorError, match="has 1 or 2 buffers, found 3"):
        replace(converter(*rows_again(4)), buffers=3)  # type: ignore[arg-type]


def test_regrouped_keeps_tokens() -> None:
    with st.Program("regrouped") as program:
        x = st.linear_load(np.arange(24, dtype="f4").reshape(6, 4), (1, 1))
        y = regrouped(x, (2, 3, 4))
        z = regrouped(y, (24,))
        assert regrouped(z, (24,)) is z
        z.consume()
    found = [token.payload.data.item() for token in run_functional(program).stream(z)]
    assert y.shape == (2, 3, 4)
    assert found == list(range(24))
