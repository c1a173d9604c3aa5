"""Tiles of results that are read in parts: no part begins or ends inside of a tile."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim as st
from stepsim.design import GraphBuilder, permute, tile
from stepsim.design.dataflow.kernels import kernels_of
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.passes.loops.part_tiles import fits_parts, part_tiles, parts_read
from stepsim.design.plan.summary import tile_text


def thirds(width: int = 8, rows: int = 4) -> OperatorGraph:
    """A product of which thirds are queries, keys and values, as in `nn.MultiheadAttention`."""
    b = GraphBuilder("thirds", "f32", "f32")
    x = b.input("x", (rows, width))
    q, k, v = b.chunk(b.linear(x, b.weight("w", (3 * width, width))), 3, 1)
    b.output(b.mul(b.add(q, k), v), "y")
    return b.graph()


@pytest.mark.parametrize(
    ("width", "size", "tiled", "default"), [(8, 16, 8, 12), (20, 16, 10, 15), (7, 16, 7, 7)]
)
def test_a_tile_divides_the_parts(width: int, size: int, tiled: int, default: int) -> None:
    made = tile(thirds(width), size)
    op = next(op for op in made.ops if op.is_matmul)
    (dim,) = (dim for dim in parts_read(made)[op.name])
    assert op.tiling is not None
    assert op.tiling.tile[dim] == tiled
    said = part_tiles(made, size, {})
    assert [(one.tile, one.default) for one in said] == ([(tiled, default)] * (tiled < default))
    kernels_of(permute(made))


def test_without_the_rule_it_is_refused() -> None:
    made = tile(thirds(8), tiles={"linear": {"n": 12}})
    with pytest.raises(
        st.errors.CompileError, match="are read alone, which are not whole iterations"
    ):
        kernels_of(permute(made))
    assert part_tiles(made, 16, {"linear": {"n": 12}}) == ()


def test_a_tile_that_fits_is_kept() -> None:
    assert fits_parts(12, ((0, 24),))
    assert fits_parts(12, ((12, 12),))
    assert fits_parts(16, ((0, 8), (8, 8)))
    assert not fits_parts(12, ((8, 8),))
    # 48 columns in tiles of 16: thirds of 16 each are whole tiles.
    op = next(op for op in tile(thirds(16)).ops if op.is_matmul)
    assert op.tiling is not None
    assert op.tiling.tile["n"] == 16


def test_values_are_those_of_the_graph_and_the_tile_is_reported() -> None:
    graph = thirds(8)
    rng = np.random.default_rng(3)
    values = {name: rng.normal(size=graph.tensors[name].shape) for name in ("x", "w")}
    compiled = st.compile(graph, unroll=64, placed=False)
    (made,) = compiled.plan.programs(values)
    ran = st.run_functional(made.program, made.tensors(values))
    found = made.results(ran.stored)["y"]
    np.testing.assert_allclose(found, graph.evaluate(values)["y"], atol=1e-5)
    (said,) = tile_text(compiled.plan)
    assert said.startswith("linear: dim n has tiles of 8, not 12: parts of its result are read")
