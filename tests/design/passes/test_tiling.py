"""Tiles, orders and lanes of operators."""

from __future__ import annotations

from math import prod

import pytest

from stepsim.design import GraphBuilder, OperatorGraph, block, kernels_of, permute, tile, unroll
from stepsim.design.operators.types import tiled_axes
from stepsim.design.passes.loops.tiling import thin_tiles
from stepsim.errors import CompileError
from tests.design.operators.test_models import SMALL


def linear(rows: int = 32, width: int = 48, inner: int = 65) -> OperatorGraph:
    b = GraphBuilder("linear")
    b.output(b.linear(b.input("x", (rows, inner)), b.weight("w", (width, inner))), "y")
    return b.graph()


def test_default_tiles_are_the_largest_divisors() -> None:
    (op,) = tile(linear()).ops
    assert op.tiling is not None
    assert op.tiling.tile == {"m": 16, "n": 16, "k": 13}


def test_a_tile_that_does_not_divide_is_refused() -> None:
    with pytest.raises(CompileError) as error:
        tile(linear(), tiles={"linear": {"k": 16}})
    assert "operator 'linear'" in str(error.value)
    assert (
        "tile 16 of dim 'k' does not divide its size 65; use one of the divisors 1, 5, 13, 65"
        in str(error.value)
    )


@pytest.mark.parametrize(
    ("tiles", "message"),
    [
        ({"linaer": {"k": 5}}, "no operator 'linaer'.*did you mean 'linear'"),
        ({"linear": {"K": 5}}, "no dim 'K'"),
        ({"linear": {"k": 0}}, "tile 0 of dim 'k'"),
    ],
)
def test_what_is_not_there_is_refused(tiles: dict[str, dict[str, int]], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        tile(linear(), tiles=tiles)


@pytest.mark.parametrize("model", SMALL)
def test_tiles_of_blocks_are_matrices(model: str) -> None:
    for phase in ("prefill", "decode"):
        graph = tile(block(model, phase, **SMALL[model]))  # type: ignore[arg-type]
        for op in graph.ops:
            for operand in (*op.inputs, op.output):
                assert prod(tiled_axes(op, operand)[:-2]) == 1


def test_reductions_are_outermost() -> None:
    graph = permute(tile(linear()))
    (kernel,) = kernels_of(graph).kernels
    assert [loop.dim for loop in kernel.loops] == ["k", "m", "n"]
    assert [loop.kind for loop in kernel.loops] == ["reduction", "parallel", "parallel"]
    assert (kernel.firings, kernel.turns, kernel.points) == (5 * 2 * 3, 5, 16 * 16 * 13)
    assert [loop.dim for loop in kernel.kept] == ["m", "n"]
    assert kernel.inputs[0].itensor.revisit_loops == (2,)
    assert kernel.inputs[1].itensor.revisit_loops == (1,)
    assert kernel.output.itensor.tokens == 2 * 3


def test_orders_name_every_dim() -> None:
    with pytest.raises(CompileError, match=r"has dims .*found the order m, n"):
        permute(tile(linear()), orders={"linear": ("m", "n")})
    with pytest.raises(CompileError, match="tile the graph first"):
        permute(linear())


def test_lanes_follow_the_work() -> None:
    b = GraphBuilder("two")
    x = b.input("x", (16, 64))
    y = b.linear(x, b.weight("w", (256, 64)))
    b.output(b.silu(y), "y")
    graph = unroll(tile(b.graph()), 64 + 8)
    lanes = {op.name: op.tiling.unroll for op in graph.ops if op.tiling is not None}
    # 262 144 products and 4 096 elements: 64 times the work.
    assert lanes["linear"] == 64
    assert lanes["silu"] <= 8
    kernel = kernels_of(permute(graph)).kernel("linear")
    assert kernel.compute_bw == 2 * 64
    assert kernel.interval == 16**3 // 64
    assert kernel.ii == 4 * kernel.interval
    with pytest.raises(CompileError, match="no method 'heap'"):
        unroll(graph, 64, "heap")  # type: ignore[arg-type]


def test_pairs_that_a_tile_cannot_hold_are_refused() -> None:
    """Halves of a head along the first of three axes: a tile has one position there."""
    b = GraphBuilder("apart")
    x = b.reshape(b.permute(b.input("x", (2, 3, 5)), (1, 2, 0)), (3, 5, 2))
    b.output(b.rotary(x, b.input("cos", (1,)), b.input("sin", (1,))), "y")
    with pytest.raises(CompileError, match=r"dim 't' of rotary stays whole.*copy the operand"):
        tile(b.graph())


def test_thin_tiles_are_those_of_sizes_without_divisors() -> None:
    assert thin_tiles(block("gpt2-medium", tokens=16)) == {}
    assert thin_tiles(block("gpt2-medium", tokens=17)) == {17: 1}
    assert thin_tiles(block("gpt2-medium", tokens=17), 8) == {17: 1}
    # A cache of 66 rows and a new one: 67 keys.
    assert thin_tiles(block("gpt2-medium", "decode", context=66)) == {67: 1}
