"""Dataflow graphs: shared converters, groups, loads and stores, FIFOs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stepsim.design import (
    DataflowGraph,
    GraphBuilder,
    block,
    fold_unit_dims,
    fuse_elementwise,
    fuse_kernels,
    kernels_of,
    pack,
    permute,
    programs_of,
    share_converters,
    single_buffers,
    tile,
    unroll,
    vectorize_fifos,
    widen,
)
from stepsim.design.passes.fusion.grouping import fusion_graph
from stepsim.design.passes.loops.part_tiles import parts_read
from stepsim.design.passes.memory.fifos import fold_buffers
from stepsim.design.passes.memory.layout import stored_tile
from stepsim.errors import CompileError
from tests.design.compiled import simulated
from tests.design.operators.test_models import SMALL
from tests.samples import sampled

UNLIMITED = 1 << 40


def kernels(model: str = "qwen2.5-0.5b", size: int = 8, budget: int = 1024) -> DataflowGraph:
    graph = fuse_elementwise(block(model, **SMALL[model]))
    return share_converters(kernels_of(permute(unroll(tile(graph, size), budget))))


def test_consumers_of_one_order_share_a_converter() -> None:
    """Keys and values read the norm in one order; queries, which are more, read it oftener."""
    graph = kernels()
    readers = [edge for edge in graph.edges if edge.consumer.endswith(("k.linear", "v.linear"))]
    assert len(readers) == 2
    assert readers[0].shared == readers[1].shared is not None
    one = fuse_kernels(graph, UNLIMITED)
    alone = fuse_kernels(
        graph.replaced(edges=tuple(replace(e, shared=None) for e in graph.edges)), UNLIMITED
    )
    assert one.converter_bytes < alone.converter_bytes
    for made in (one, alone):
        (group,) = programs_of(made)
        buffers = [op for op in group.program.operators if op.name == "bufferize"]
        own = [op for op in buffers if "load_" not in (op.label or "")]
        numbers = {(e.producer, e.shared if e.shared is not None else e.name)
                   for e in made.inner_edges if not e.matched}  # fmt: skip
        assert len({op.label for op in own}) == len(numbers)


@pytest.mark.parametrize("method", ["greedy", "merge"])
@pytest.mark.parametrize("budget", [0, 500, 4000, UNLIMITED])
def test_groups_keep_the_budget_and_run_in_order(method: str, budget: int) -> None:
    made = fuse_kernels(kernels(), budget, method)  # type: ignore[arg-type]
    for edge in made.edges:
        assert made.kernel(edge.producer).group <= made.kernel(edge.consumer).group
    for group in made.groups:
        names = {kernel.name for kernel in group}
        inside = [e for e in made.inner_edges if e.producer in names]
        own = {e.name if e.shared is None else e.shared: e.bytes for e in inside}
        assert sum(own.values()) <= budget
    assert [group[0].group for group in made.groups] == list(range(len(made.groups)))


@pytest.mark.parametrize("budget", [0, 500, 4000, 20_000, UNLIMITED])
def test_loads_take_what_is_left_of_the_budget(budget: int) -> None:
    free = fuse_kernels(kernels(), budget)
    made = fuse_kernels(kernels(), budget, count_loads=True)
    assert [k.group for k in made.kernels] == [k.group for k in free.kernels]
    for group in made.groups:
        names = {kernel.name for kernel in group}
        own = {
            edge.name if edge.shared is None else edge.shared: edge.bytes
            for edge in made.inner_edges
            if edge.producer in names
        }
        loads = sum(dma.converter_bytes for dma in made.dmas if dma.group == group[0].group)
        assert sum(own.values()) + loads <= budget
    assert made.traffic >= free.traffic
    assert (made == free) == (budget == UNLIMITED)
    total = sum(int(g.program.metrics().off_chip_traffic) for g in programs_of(made))
    assert made.traffic == total


def test_every_operand_has_one_source() -> None:
    made = fuse_kernels(kernels(), 2000)
    assert len(made.groups) > 1
    fed = [(edge.consumer, edge.slot) for edge in made.inner_edges]
    fed += [port for dma in made.dmas for port in dma.ports]
    operands = [(k.name, slot) for k in made.kernels for slot in range(len(k.inputs))]
    assert sorted(fed) == sorted(operands)
    stored = [dma.tensor for dma in made.dmas if dma.direction == "store"]
    assert len(set(stored)) == len(stored)
    for dma in made.dmas:
        assert dma.tensor in stored or made.operators.tensors[dma.tensor].role != "intermediate"


def test_traffic_is_that_of_the_programs() -> None:
    for budget in (2000, UNLIMITED):
        made = fuse_kernels(kernels(), budget)
        total = sum(int(g.program.metrics().off_chip_traffic) for g in programs_of(made))
        assert made.traffic == total


def test_costs_of_fusion_are_bytes_of_converters() -> None:
    graph = kernels()
    abstract = fusion_graph(graph)
    assert abstract.kernels == len(graph.kernels)
    for edge, cost in zip(graph.edges, abstract.edges, strict=True):
        assert cost.cost == edge.bytes >= edge.converter.bytes
        assert (cost.cost == 0) == edge.matched
        assert cost.bytes == graph.operators.tensors[edge.tensor].bytes


def test_fusion_refuses_what_it_does_not_know() -> None:
    with pytest.raises(CompileError, match="no method 'gredy'; did you mean 'greedy'"):
        fuse_kernels(kernels(), 0, "gredy")  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="bytes from 0, found -1"):
        fuse_kernels(kernels(), -1)


def test_packing_is_for_weights_and_what_two_groups_order_alike() -> None:
    made = pack(fuse_kernels(kernels(), 2000), burst_bytes=256)
    for dma in made.dmas:
        role = made.operators.tensors[dma.tensor].role
        assert not (dma.packed and role in ("input", "output", "state"))
        if role == "weight":
            assert dma.packed
            assert dma.burst == 1 or dma.walk.bytes_of(dma.burst * dma.walk.token_cells) <= 256
        if role == "intermediate":
            pair = [other for other in made.dmas if other.tensor == dma.tensor]
            assert len({other.packed for other in pair}) == 1


@pytest.mark.slow
def test_words_of_a_packed_tile() -> None:
    """A tile of 8x8 i4 is 32 bytes, half a word of 512 bits; the load moves whole words."""
    made = widen(pack(fuse_kernels(kernels(), UNLIMITED), burst_bytes=1))
    operators = programs_of(made)[0].program.operators
    loads = {op.label: op for op in operators if op.name == "linear_load"}
    weight = loads["load_down.weight"]
    assert (int(weight.tile.rows), int(weight.tile.cols)) == (1, 128)  # type: ignore[attr-defined]
    with pytest.raises(CompileError, match=r"no tensor of .* is packed"):
        widen(fuse_kernels(kernels(), UNLIMITED))
    with pytest.raises(CompileError, match="word of 6 bits is not a whole number"):
        widen(pack(fuse_kernels(kernels(), UNLIMITED)), 6)
    with pytest.raises(CompileError, match="burst_bytes must be at least 1"):
        pack(fuse_kernels(kernels(), UNLIMITED), 0)


def test_vectors_carry_the_same_bits() -> None:
    plain = fuse_kernels(kernels(), UNLIMITED)
    made = vectorize_fifos(plain, slack=10)
    smaller = 0
    for one, edge in zip(plain.edges, made.edges, strict=True):
        assert edge.fifo_bits * edge.vectors == one.fifo_bits
        assert edge.fifo_depth == one.fifo_depth * edge.vectors
        assert edge.vectors <= made.kernel(edge.consumer).interval
        smaller += edge.vectors > 1
    assert smaller > 0
    (group,) = programs_of(made)
    for edge in made.inner_edges:
        stream = group.streams[edge.name]
        assert int(stream.elements()) == edge.fifo_depth
    name = made.inner_edges[0].name
    with pytest.raises(CompileError, match="vector of 3x1 does not divide the tiles"):
        vectorize_fifos(plain, {name: (3, 1)})
    with pytest.raises(CompileError, match="no edge within a group is 'a->b"):
        vectorize_fifos(plain, {"a->b.0": (1, 1)})
    with pytest.raises(CompileError, match="slack is a share of cycles from 0, found -1"):
        vectorize_fifos(plain, slack=-1)


@pytest.mark.slow
@pytest.mark.parametrize("model", sampled(SMALL, "gpt2-medium"))
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_vectors_add_no_more_cycles_than_the_slack(model: str, phase: Any) -> None:
    narrow = 0
    for lanes in (128, 1024):
        graph = fuse_elementwise(block(model, phase, **SMALL[model]))
        plain = fuse_kernels(
            share_converters(kernels_of(permute(unroll(tile(graph, 16), lanes)))), UNLIMITED
        )
        cycles = simulated(plain, "u55c")[0]
        for slack in (0.005, 0.02, 0.1):
            made = vectorize_fifos(plain, slack=slack)
            assert simulated(made, "u55c")[0] <= (1 + slack) * cycles
            narrow += sum(edge.vectors > 1 for edge in made.inner_edges)
    assert narrow > 0 or phase == "decode"


@pytest.mark.slow
def test_vectors_of_a_full_block_are_narrow_and_cost_nothing() -> None:
    """Where kernels work on a tile for long, vectors fit the default slack."""
    graph = fuse_elementwise(fold_unit_dims(block("gpt2-medium")))
    plain = fuse_kernels(
        share_converters(kernels_of(permute(unroll(tile(graph, 16), 2048)))), UNLIMITED
    )
    made = vectorize_fifos(plain)
    assert simulated(made, "u55c")[0] <= 1.005 * simulated(plain, "u55c")[0]
    bits = [sum(edge.fifo_bits for edge in graph.inner_edges) for graph in (plain, made)]
    assert 10 * bits[1] < bits[0]


def test_one_buffer_where_the_second_is_worth_little() -> None:
    plain = fuse_kernels(kernels(), UNLIMITED)
    made = single_buffers(plain)
    assert made.converter_bytes < plain.converter_bytes
    assert simulated(made)[0] <= 1.005 * simulated(plain)[0]
    for edge in made.inner_edges:
        if not edge.matched and edge.converter.reuse == 1:
            assert edge.converter.buffers == 1
    every = [e.name for e in plain.edges if not e.matched]
    every += [d.name for d in plain.dmas if d.converter and d.converter.kind != "fifo"]
    least = single_buffers(plain, every)
    assert 2 * least.converter_bytes == plain.converter_bytes
    for one, two in zip(least.dmas, plain.dmas, strict=True):
        assert one.bytes <= two.bytes
    assert simulated(least)[1] == plain.flops


def test_one_buffer_by_name_is_for_all_that_share_it() -> None:
    graph = kernels()
    shared = [edge for edge in graph.edges if edge.shared is not None]
    made = single_buffers(graph, [shared[0].name])
    for edge in made.edges:
        same = edge.shared is not None and edge.shared == shared[0].shared
        assert edge.converter.buffers == (1 if same else 2)
    matched = next(edge.name for edge in graph.edges if edge.matched)
    with pytest.raises(CompileError, match="is a FIFO without a converter"):
        single_buffers(graph, [matched])
    with pytest.raises(CompileError, match="no edge or load is 'nothing'"):
        single_buffers(graph, ["nothing"])
    with pytest.raises(CompileError, match="slack is a share from 0, found -1"):
        single_buffers(graph, slack=-1)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_traffic_has_the_rows_of_gathers(size: int) -> None:
    b = GraphBuilder("embedding")
    rows = b.embedding(b.input("ids", (12,)), b.weight("table", (40, 32)))
    b.output(b.linear(rows, b.weight("w", (24, 32))), "y")
    made = fuse_kernels(kernels_of(permute(tile(b.graph(), size))), UNLIMITED)
    (group,) = programs_of(made)
    assert made.traffic == int(group.program.metrics().off_chip_traffic)
    assert sum(dma.traffic for dma in made.dmas) == made.traffic - 12 * 32


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("model", sampled(SMALL, "gpt2-medium", "gemma-3-1b"))
def test_packed_loads_use_the_memory_better(model: str, phase: Any) -> None:
    """F5: useful bytes for each cycle of a run; a widened tile moves ceil(bytes / 64) words."""
    graph = fuse_elementwise(block(model, phase, **SMALL[model]))
    # Lanes for all, so that loads are what takes the time.
    tiled = permute(unroll(tile(graph, 16), 1 << 16))
    plain = fuse_kernels(share_converters(kernels_of(tiled)), UNLIMITED)
    useful = plain.traffic
    efficiency = [
        useful / simulated(made, "u55c")[0] for made in (plain, pack(plain), widen(pack(plain)))
    ]
    assert efficiency[0] <= efficiency[1]
    assert efficiency[0] <= efficiency[2]
    for dma in widen(pack(plain, burst_bytes=1)).dmas:
        if dma.packed:
            rows, cols = stored_tile(dma)
            size = dma.walk.bytes_of(dma.walk.token_cells)
            assert dma.walk.bytes_of(rows * cols) == -(-size // 64) * 64


def test_stated_depths_are_those_of_the_program() -> None:
    made = fuse_kernels(kernels(), UNLIMITED)
    deep = made.replaced(
        edges=tuple(replace(edge, depth=7, depth_before=9) for edge in made.edges),
        dmas=tuple(replace(dma, depth=11) for dma in made.dmas),
    )
    (group,) = programs_of(deep)
    for name, stream in group.streams.items():
        expected = 11 if name.startswith("load ") else 9 if name.endswith("/before") else 7
        assert stream.depth == expected


@pytest.mark.parametrize("reuse", [0, 300, 2000, 1 << 18])
def test_a_load_keeps_no_more_than_it_may(reuse: int) -> None:
    made = fuse_kernels(kernels(), UNLIMITED, reuse_bytes=reuse)
    kept = [dma.converter_bytes for dma in made.dmas]
    assert max(kept) <= reuse
    more = fuse_kernels(kernels(), UNLIMITED, reuse_bytes=2 * reuse + 300)
    assert more.traffic <= made.traffic


def test_a_tensor_read_by_address_comes_from_off_chip() -> None:
    b = GraphBuilder("computed")
    table = b.silu(b.input("x", (8, 4)))
    b.output(b.embedding(b.input("ids", (3,)), table), "y")
    with pytest.raises(CompileError, match="read by address from off chip"):
        kernels_of(permute(tile(b.graph())))


def test_a_part_across_tiles_names_the_tile_that_fits() -> None:
    b = GraphBuilder("parts")
    heads = b.reshape(b.softmax(b.input("x", (4, 16, 16))), (64, 16))
    b.output(b.exp(b.slice(heads, 0, 8, 56)), "y")
    graph = b.graph()
    kernels_of(permute(tile(graph, 16)))  # has tiles of 8, which fit
    ((name, dims),) = parts_read(graph).items()
    with pytest.raises(CompileError, match=r"positions 8 to 55 of axis \d are read alone"):
        kernels_of(permute(tile(graph, 16, {name: dict.fromkeys(dims, 16)})))


def test_text_shows_what_was_decided() -> None:
    made = vectorize_fifos(widen(pack(fuse_kernels(kernels(), 4000))), slack=1)
    text = made.text()
    for kernel in made.kernels:
        assert f"kernel {kernel.name}: loops" in text
    assert "group 1:" in text
    assert "packed" in text
    assert "words of 512 bits" in text
    assert "a FIFO, no converter" in text
    assert simulated(made)[1] == made.flops


def folded(unrolls: tuple[int, int], *, stored: bool = False) -> int:
    """Buffers that a product and what follows it share, with so many lanes."""
    b = GraphBuilder("pair")
    y = b.linear(b.input("x", (16, 32)), b.weight("w", (32, 32)))
    b.output(b.silu(y), "z")
    if stored:
        b.output(y, "y")
    graph = permute(tile(b.graph(), 8), "reductions_innermost")
    ops = tuple(
        replace(op, tiling=replace(op.tiling, unroll=lanes))
        for op, lanes in zip(graph.ops, unrolls, strict=True)
    )
    made = fold_buffers(fuse_kernels(kernels_of(graph.replaced(ops=ops)), UNLIMITED))
    return sum(edge.folded for edge in made.edges)


def test_a_buffer_is_shared_where_the_reader_is_done_before_the_next_tile() -> None:
    """A tile of 64 elements follows the one before after 4 turns of 512 products."""
    assert folded((256, 16)) == 1  # 8 cycles between tiles, 4 to read one and 2 to hand it over.
    assert folded((256, 8)) == 0
    assert folded((128, 8)) == 1


def test_what_is_stored_shares_no_buffer() -> None:
    assert folded((128, 16)) == 1
    assert folded((128, 16), stored=True) == 0
