"""Programs on tiles of the hardware's size: values, traffic and FLOPs are those of the original."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import GraphError
from stepsim.graph import Program, Stream
from stepsim.graph.functions.function import Function
from stepsim.graph.rewrites.downtile.compute import ELEMENTWISE
from stepsim.simulation import run_functional, simulate
from stepsim.workloads import Attention, Swiglu
from stepsim.workloads.models.shapes import AttentionShape
from tests.functional import test_decoder as decoder
from tests.functional.references import Cache, silu, tensors_of
from tests.functional.test_workloads import built, layer, moe
from tests.samples import sampled_rows


def stored(program: Program, tensors: Any = None, bindings: Any = None) -> dict[str, np.ndarray]:
    return dict(run_functional(program, tensors, bindings=bindings, scalar="f32").stored)


def same(
    program: Program,
    tensors: Any = None,
    bindings: Any = None,
    *,
    side: int = 16,
    pad: bool = False,
) -> Program:
    """The downtiled program, which moves, computes and stores what the original does."""
    small = program.downtile(side, side, pad=pad)
    before, after = program.metrics(), small.metrics()
    assert (before.off_chip_traffic - after.off_chip_traffic) == 0
    assert (before.flops - after.flops) == 0
    wanted, found = stored(program, tensors, bindings), stored(small, tensors, bindings)
    assert wanted.keys() == found.keys()
    for name, array in wanted.items():
        assert found[name].shape == array.shape, name
        scale = max(float(np.abs(array).max(initial=0)), 1.0)
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5 * scale, err_msg=name)
    return small


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + 7 * len(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("batch", "hidden", "inner", "tile", "tile_inter"),
    [(32, 32, 64, 16, 16), (64, 48, 96, 32, 48), (32, 16, 32, 32, 32)],
)
def test_swiglu(batch, hidden, inner, tile, tile_inter):
    x, gate, up, down = (
        normal(*shape, seed=i)
        for i, shape in enumerate(
            ((batch, hidden), (hidden, inner), (hidden, inner), (inner, hidden))
        )
    )
    work, _ = built(
        Swiglu, batch=batch, hidden=hidden, intermediate=inner, tile=tile, tile_inter=tile_inter
    )
    tensors = {"activations": x, "gate": gate, "up": up, "down": down}
    small = same(work.program, tensors)
    wanted = (silu(x @ gate) * (x @ up)) @ down
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(
        stored(small, tensors)["output"], wanted, rtol=1e-5, atol=1e-5 * scale
    )
    assert simulate(small, "sda-hdl").status == "ok"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tile", "regions"),
    sampled_rows(
        [(tile, regions) for tile in (1, 16, 32) for regions in (None, 2)],
        [(1, 2), (16, None), (32, 2)],
    ),
)
def test_moe_of_static_tiles(tile, regions):
    made = layer(24, 4, 2, 32, 64, 3)
    work, bindings = moe(made, tile, regions)
    tensors = made.per_expert() if regions is None else made.per_region(regions)
    small = same(work.program, tensors, bindings)
    wanted = made.expected()
    np.testing.assert_allclose(
        stored(small, tensors, bindings)["output"], wanted, rtol=1e-4, atol=1e-5
    )
    assert simulate(small, bindings=bindings).status == "ok"


def test_moe_of_dynamic_tiles_is_refused_by_name():
    work, _ = moe(layer(24, 2, 1, 32, 64, 2), "dynamic")
    with pytest.raises(GraphError, match="2 operators have no form") as error:
        work.program.downtile()
    for name in ("pack.0#8 has tiles of n0 rows", "pack.1#9 has tiles of n1 rows", "static tile"):
        assert name in str(error.value)


@pytest.mark.parametrize("strategy", ["coarse", "interleaved", "dynamic"])
def test_attention(strategy):
    lengths, shape = [0, 1, 31, 32, 33, 16], AttentionShape("small", 64, 4, 1, 32)
    work, _ = built(
        Attention, kv_lengths=lengths, model=shape, strategy=strategy, regions=2, kv_tile=16
    )
    cache = Cache(lengths, work.parameters["max_length"], shape)
    small = same(work.program, tensors_of(work.program, cache, work.lanes), pad=True)
    assert simulate(small).status == "ok"
    with pytest.raises(GraphError, match="tiles of 4 rows, which 16 does not divide"):
        work.program.downtile()


@pytest.mark.parametrize("parts", ["qkv+attention+experts", decoder.WHOLE])
def test_decoder(parts, monkeypatch):
    both, sizes = decoder.run_both, []

    def also_small(program, tensors, *, bindings, scalar):
        small = same(program, tensors, bindings, side=32, pad=True)
        sizes.append((len(program.operators), len(small.operators)))
        return both(program, tensors, bindings=bindings, scalar=scalar)

    monkeypatch.setattr(decoder, "run_both", also_small)
    decoder.check(lengths=[0, 31, 40], regions=2, parts=parts)
    ((before, after),) = sizes
    assert after > before


PRODUCTS = {
    "matmul": (st.fn.matmul, (48, 32), (32, 64)),
    "matmul_t": (st.fn.matmul_t, (48, 32), (64, 32)),
    "t_matmul": (st.fn.t_matmul, (32, 48), (32, 64)),
    "t_matmul_t": (st.fn.t_matmul_t, (32, 48), (64, 32)),
    "one column": (st.fn.matmul, (48, 32), (32, 16)),
    "one row": (st.fn.matmul, (16, 32), (32, 48)),
    "a row": (st.fn.matmul_t, (1, 32), (48, 32)),
    "one inner piece": (st.fn.matmul, (32, 16), (16, 32)),
}


@pytest.mark.parametrize("way", ["map", "sum of one", "sum"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name, way):
    fn, first, second = PRODUCTS[name]
    count = 3 if way == "sum" else 1
    a, b = normal(2 * count, *first, seed=1), normal(2 * count, *second, seed=2)
    with Program("product", compute_bw=64) as program:
        xs = [
            st.linear_load(m, tuple(m.shape[1:]), shape=(2, count), stride=(count, 1))
            for m in (a, b)
        ]
        made = st.map(fn, *xs) if way == "map" else st.map_accum(fn, *xs, 1).unsqueeze(0)
        st.linear_store(made.flatten(0, 1), "c")
    same(program)


def block(rows: int, cols: int, count: int = 2, seed: int = 0) -> Stream:
    """``[count]`` of tiles ``rows x cols``."""
    array = normal(count * rows, cols, seed=seed)
    return st.linear_load(array, (rows, cols)).flatten(0, 1)


CASES: dict[str, Any] = {
    "broadcast of a column": lambda: st.map(st.fn.mul, block(32, 48), block(32, 1, seed=1)),
    "broadcast of a row": lambda: st.map(st.fn.add, block(32, 48), block(1, 48, seed=1)),
    "broadcast of a scalar": lambda: st.map(st.fn.sub, block(32, 48), block(1, 1, seed=1)),
    "row sum": lambda: block(32, 48).map(st.fn.row_sum),
    "row max": lambda: block(32, 48).map(st.fn.row_max),
    "row mean": lambda: block(32, 48).map(st.fn.row_mean),
    "row sum of a row": lambda: block(1, 48).map(st.fn.row_sum),
    "softmax": lambda: st.nn.softmax(block(32, 48)),
    "rms norm": lambda: st.nn.rms_norm(block(32, 48), normal(1, 48, seed=3)),
    "transpose": lambda: block(32, 48).map(st.fn.transpose),
    "transpose of a row": lambda: block(1, 48).map(st.fn.transpose),
    "sum": lambda: block(32, 48, 6).reshape(3).accum(st.fn.add, 1),
    "maximum": lambda: block(32, 48, 6).reshape(3).accum(st.fn.max, 1),
    "sum of pieces": lambda: block(16, 16, 6).reshape(3).accum(st.fn.add, 1),
    "buffer sum": lambda: block(32, 48, 6).reshape(3).accum_buffer(st.fn.add, 1).streamify(),
    "rows packed": lambda: block(1, 48, 64).reshape(32).accum(st.fn.pack_rows, 1),
    "tiles packed": lambda: block(32, 48, 6).reshape(3).accum(st.fn.pack_rows, 1),
    "columns packed": lambda: block(32, 48, 6).reshape(3).accum(st.fn.pack_cols, 1),
    "columns of one": lambda: block(32, 1, 64).reshape(32).accum(st.fn.pack_cols, 1),
    "rows": lambda: block(32, 48).flat_map(st.fn.unpack_rows()),
    "chunks of rows": lambda: block(64, 48).flat_map(st.fn.unpack_rows(chunk=32)),
    "chunks of columns": lambda: block(32, 96).flat_map(st.fn.unpack_cols(chunk=48)),
    "narrow columns": lambda: block(32, 48).flat_map(st.fn.unpack_cols(chunk=8)),
    "narrow rows": lambda: block(32, 48).flat_map(st.fn.unpack_rows(chunk=8)),
    "repeat": lambda: block(32, 48).repeat(3).flatten(0, 1),
    "repeat of a piece": lambda: block(16, 16).repeat([2, 3]).flatten(0, 2),
    "expand": lambda: block(32, 48).unsqueeze(0).expand(block(16, 32, 6).reshape(3)).flatten(0, 1),
    "buffer": lambda: block(32, 48, 6).reshape(3).bufferize(1).streamify(repeat=2).flatten(0, 2),
    "walk in a buffer": lambda: st.streamify(
        block(32, 48, 6).reshape(3).bufferize(1), shape=(2, 2), stride=(0, 2)
    ).flatten(0, 2),
    "buffer by reference": lambda: st.streamify(
        block(32, 48, 6).reshape(3).bufferize(1), block(16, 32, 4).reshape(2)
    ).flatten(0, 2),
    "padding": lambda: block(32, 48, 5).reshape(3, pad=0).flatten(0, 1),
    "promote": lambda: block(32, 48).promote().flatten(0, 1),
    "zip": lambda: st.zip(block(32, 48), block(32, 48, seed=1)).map(st.fn.add),
    "interleaved": lambda: st.static_reassemble([block(32, 48), block(32, 48, seed=1)]),
    "random load": lambda: st.random_load(st.metadata([3, 0, 5]), normal(96, 96), (32, 48)),
    "transposed load": lambda: st.linear_load(
        normal(64, 96), (32, 48), transposed=True
    ).flatten(0, 1),
    "by reference": lambda: st.linear_load(
        normal(64, 96), (32, 48), ref=block(32, 32), shape=(2, 2), stride=(2, 1)
    ).flatten(0, 2),
    "whole grid as one dim": lambda: st.linear_load(
        normal(64, 96), (32, 48), shape=(4,), stride=(1,)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operators(name):
    with Program(name, compute_bw=64) as program:
        st.linear_store(CASES[name](), "out")
    same(program, pad=name.startswith("narrow"))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_stored_tensors_have_the_layout_of_the_original(dims):
    with Program("layout") as program:
        x = block(32, 48, 12)
        for _ in range(dims - 1):
            x = x.reshape(2 if dims == 3 else 3)
        st.linear_store(x, "out")
    same(program)


def test_every_elementwise_function_has_a_form():
    made = [getattr(st.fn, name) for name in st.fn.__all__]
    functions = [one for one in made if isinstance(one, Function) and not one.shape.states]
    alike = {
        one.name
        for one in functions
        if one.shape.broadcast or one.shape.operands == one.shape.results
    }
    assert {"sin", "add"} <= alike
    assert alike <= ELEMENTWISE


def test_random_stores():
    with Program("scatter") as program:
        target = st.spec(96, 96, dtype="f32", name="table")
        st.random_store(st.metadata([5, 2]), block(32, 48), target).consume()
    same(program)


def test_routing_moves_blocks():
    with Program("routed", compute_bw=64) as program:
        table = st.routing([[0], [1], [0], [2]], experts=3)
        x = block(32, 48, 4)
        parts = st.partition(x, table.multihot())
        done = [part.map(st.fn.silu) for part in parts]
        joined = st.reassemble(done, table.multihot())
        st.linear_store(joined.flatten(0, 1), "out")
    small = same(program)
    new = small.downtiled.stream(parts[0])
    assert str(new.shape[0]) == "n0"
    assert [int(d) for d in new.shape[1:]] == [2, 3]
    assert small.metrics().bind({table: [2, 1, 1]}).flops == 8 * 4 * 32 * 48


def test_the_original_does_not_change_and_the_result_is_the_same_twice():
    work, _ = moe(layer(24, 2, 1, 32, 32, 2), 16)
    before = work.program.fingerprint(), dict(work.program.namer.provenance)
    first, second = work.program.downtile(), work.program.downtile()
    assert first.fingerprint() == second.fingerprint()
    assert (work.program.fingerprint(), dict(work.program.namer.provenance)) == before


def test_sides_that_do_not_fit():
    with Program("odd", compute_bw=64) as program:
        x = st.linear_load(normal(48, 40), (24, 40), label="x").flatten(0, 1)
        y = st.linear_load(normal(40, 20), (20, 20), label="y").flatten(0, 1)
        st.linear_store(x.map(st.fn.silu), "x")
        y.consume()
    with pytest.raises(GraphError) as error:
        program.downtile()
    assert "2 operators have no form on tiles of 16x16" in str(error.value)
    assert "x#0 has tiles of 24 rows, which 16 does not divide" in str(error.value)
    assert "y#2 has tiles of 20 rows, which 16 does not divide" in str(error.value)
    assert "pad=True" in str(error.value)
    small = same(program, pad=True)
    assert str(small.downtiled.stream(x).type) == "Tile[12x10 f32]"


def test_operators_without_a_rule_are_named_at_once():
    own = st.function("own", "m n -> m n", values=lambda x: x)
    with Program("no rules", compute_bw=64) as program:
        st.linear_store(block(32, 32).map(own), "a")
        block(32, 32, 4).reshape(2).scan(st.fn.add, 1).consume()
    with pytest.raises(GraphError) as error:
        program.downtile()
    assert "applies 'own' to tiles that are cut" in str(error.value)
    assert "has no rule for tiles that are cut" in str(error.value)
    assert "2 operators" in str(error.value)


def test_unequal_sides_cannot_be_multiplied():
    with Program("wide", compute_bw=64) as program:
        st.map(st.fn.matmul, block(32, 32), block(32, 32, seed=1)).consume()
    with pytest.raises(GraphError, match="as many rows as columns"):
        program.downtile(16, 8)


def test_depths_hold_as_many_tiles_as_before():
    with Program("deep", compute_bw=64, fifo_depth=3) as program:
        x = block(32, 48).with_depth(5)
        y = x.map(st.fn.silu)
        st.linear_store(y, "out")
    small = program.downtile()
    assert small.downtiled.stream(x).depth == 5 * 6
    assert small.downtiled.stream(y).depth == 3 * 6
